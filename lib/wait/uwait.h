/* SPDX-License-Identifier: MIT */
/* uwait.h: waits that end: by an event, at a time, or by a cancellation. */

#ifndef UWAIT_H
#define UWAIT_H

/*
 * All waits of this folder have a deadline. A deadline is a point in time, in
 * nanoseconds of CLOCK_MONOTONIC, and not a length. So a loop of several waits
 * passes the same deadline to each of them.
 *
 * SHORTEST USE, in threads of rr, ll, ws, or another scheduler over uproc.h:
 *
 *	u_sleep(uafter(50 * UTIME_MS));
 *	if (u_wait_until(uafter(UTIME_S)) == -ETIMEDOUT)
 *		...			no wake has come within a second
 *
 * RESULTS of all waits
 *
 *	0		the event has come. Of event, deadline and cancellation
 *			the first ends the wait. An event that comes later is
 *			there for others, or for the next wait: nothing is lost
 *	-ETIMEDOUT	the deadline of this call has passed
 *	-ECANCELED	a scope around the caller was cancelled (uscope.h), or
 *			uthread_interrupt() has ended the wait
 *	-EAGAIN		the deadline was UNOW, and the caller would have to wait
 *	-ENOMEM		no memory for the wait; nothing has changed
 *	-EINVAL		the deadline is negative, or the caller cannot wait
 *	-ENOSYS		the caller's dispatcher has no s_wait
 *
 * Waits do not use errno, since it belongs to the native thread. Makers do, such
 * as uchan_make(). Read errno before the thread waits: ws may move the thread.
 *
 * WHO MAY CALL WHAT
 *
 * unow(), uafter(): any thread, also signal handlers. Waits: threads of any
 * dispatcher that has the call-backs below, and native threads, which block in
 * the system. Not a signal handler, nor a call-back of a dispatcher.
 *
 * CALL-BACKS of struct usched. Schedulers over uproc.h have them. For a plain
 * set of call-backs two lines do: see examples/timed.c.
 *
 *	s_wait	The running thread waits until s_wake() is called for it. It
 *		may also return early. 0, or -ENOMEM: it has not waited. Above
 *		ustack_block() it takes no more than 100 bytes of stack, or
 *		300 without optimization: see uwait_reserve().
 *	s_wake	Makes u, which waits in s_wait(), able to run. Called by the
 *		native thread that runs s, in a thread or in s_next(). Other
 *		native threads call it if the program lets them: if they
 *		unlock, send or cancel what a thread of s waits for. Then s_wait
 *		must not return early, since u may end before s_wake() comes.
 *	s_make	Makes a thread that runs f(arg). lane is 0, or USCHED_PRIVATE:
 *		with a private stack (core/sched.h), or not at all. 0 or -errno.
 *		For uscope_go(); others need it not.
 *
 * A plain dispatcher's s_next() also calls utime_run(), and utime_idle() when
 * no thread can run: these take what native threads have ended (ucall.h), too.
 * If the program itself wakes threads of a plain dispatcher, too, the set counts
 * wakes, so that it never queues a thread twice. A thread that waits for a record
 * takes such wakes, and u_wait_until(UNOW) does not see them.
 */

#include "usched.h"
#include "private/wheel.h"
#if defined(USCHED_HARD)
#include "uhard.h"
#endif

#include <stdint.h>

/* Stands between two steps that others may come between: tests delay there. */
#if !defined(USCHED_RACE)
#define USCHED_RACE(step)	((void)0)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A point in time, or a length: in ns. */
typedef int64_t utime_ns;

#define UTIME_US	((utime_ns)1000)
#define UTIME_MS	((utime_ns)1000000)
#define UTIME_S		((utime_ns)1000000000)

#define UNEVER		INT64_MAX	/* no deadline */
#define UNOW		((utime_ns)0)	/* do not wait */

/* Not API. Virtual time at the start: later than lengths, which are mistakes. */
#define UTIME_VIRTUAL	((utime_ns)1000000000000000)

/*
 * Not API. Writes a line, once for each call in threads of a function, if the
 * deadline, which has passed, lies so far back that it must be a length.
 */
void uwait_deadline(utime_ns until, const char *call);

/*
 * Not API. Writes a line, as uwait_deadline(), if the length must be a deadline:
 * it ends within an hour from now, counted from the start of the system, and no
 * program writes such a length, since it is no number of ms. In the first hour after
 * that start, only a deadline that was just made has a line.
 */
void uwait_length(utime_ns ns, const char *call);

/* Returns the time: of CLOCK_MONOTONIC, or virtual. */
utime_ns unow(void);

/*
 * Returns the deadline that is ns from now on; UNEVER if that is too far. A
 * deadline, where the length belongs, has a message.
 */
utime_ns uafter(utime_ns ns);

/*
 * Sleeps until a point in time; with UNEVER until a cancellation. Never too
 * short. Too long by 65 us, and by what other threads of the processor run
 * before they give way. A deadline that has passed, such as UNOW, gives way: all
 * threads that can run go first, under each scheduler. 0, -ECANCELED, -ENOMEM, -EINVAL, -ENOSYS.
 */
int u_sleep(utime_ns until);

/*
 * Waits for a wake, as rr_wait() and its like do. UNOW takes a wake that has
 * come. Threads only. 0, -ETIMEDOUT, -EAGAIN, -ECANCELED, -ENOMEM, -EINVAL,
 * -ENOSYS.
 */
int u_wait_until(utime_ns until);

/* Ticks at equal distances. The fields belong to the library. */
struct uticker {
	utime_ns k_next;
	utime_ns k_period;
};

/* Returns a ticker whose first tick is a period from now on. period > 0. */
struct uticker uticker(utime_ns period);

/*
 * Sleeps until the next tick. A caller that comes after it returns at once, for
 * this tick, and those that have passed since are not made up for: *missed, if
 * missed is not NULL, counts them. So a call stands for 1 + *missed ticks, and the
 * next call sleeps until a tick again. As u_sleep(); -EINVAL: the period is not
 * positive.
 */
int uticker_wait(struct uticker *k, long *missed);

/*
 * VIRTUAL TIME
 *
 * Makes all time virtual. Time stands still while any thread runs. When all
 * threads of a scheduler wait
 * and at least one has a deadline, the clock jumps to the next deadline. While
 * a thread is in ucall(), or a native thread holds the scheduler, all is not
 * waiting, so the clock stands still. A scheduler knows only its own threads:
 * with two of them the clock may jump over deadlines of the other.
 *
 * If seed is not 0, the threads of a processor that can run do so in an order
 * drawn from seed, and uwait_random() follows from it, too. A program of one
 * processor then does the same things in the same order each time it is run
 * with this seed, unless it asks the outside world. That holds for all builds
 * with lanes, or for all without.
 *
 * utime_virtual() is called before the schedulers are made, and stays until the
 * end of the process. It sets the clock to 10^15 ns. After the end of all
 * schedulers it may be called again, and all begins again. Native threads
 * cannot wait with a deadline: -ENOSYS. USCHED_SEED in the environment stands
 * above seed; if it is no number, the program ends with a line.
 */
void utime_virtual(uint64_t seed);

/* Returns the seed; 0: order is not random. */
uint64_t utime_seed(void);

/* Returns whether time is virtual. */
int utime_is_virtual(void);

/*
 * Returns a random number below nr, 1 or more. Not for secrets. Under virtual
 * time all numbers follow from the seed.
 */
unsigned uwait_random(unsigned nr);

/*
 * FOR BARE SETS OF CALL-BACKS
 */

/*
 * Wakes the threads whose deadline has passed, or whose event has come. s_next()
 * calls it now and then; without timers it costs a load.
 */
void utime_run(struct usched *s);

/*
 * Sleeps natively until the next deadline or event, or lets virtual time jump to
 * the deadline, and then does what utime_run() does. s_next() calls it when no
 * thread can run. False: no thread waits with a deadline, for a descriptor or
 * for a call, so nothing will happen.
 */
int utime_idle(struct usched *s);

/*
 * Frees what these waits have allocated, with s_free(), and joins the native
 * threads of calls. Called before usched_fini(), while no thread waits so.
 */
void utime_fini(struct usched *s);

/*
 * FOR MODULES THAT MAKE SOMETHING TO WAIT FOR
 *
 * A record stands for a wait. It is on the heap, since nothing that others
 * touch may lie on the stack of a thread that waits. The module begins its own
 * struct with struct uwait, and puts it where the event will find it:
 *
 *	w = uwait_make(UWAIT_OTHER, object, sizeof *w);	NULL: errno
 *	lock; the event has come?  unlock, uwait_free(), return 0
 *	put w in the queue of the object; unlock
 *	rc = uwait_for(w, until);
 *	if (rc != 0) { lock; take w out of the queue, if it is there; unlock }
 *	uwait_free(w);
 *
 * The event, by any thread or native thread:
 *
 *	lock
 *	take the first w out of the queue; if uwait_claim(w), stop
 *	unlock
 *	uwait_complete(w, 0);
 *
 * A record is claimed once, by its event, its deadline, or a cancellation. From
 * the claim on the claimer owns it, and may write results into it, until it
 * completes the record. After that it touches neither w nor, on behalf of this
 * wait, the object. The waiter takes w out under the lock, so a claimer that
 * has lost the claim under the same lock can rely on w until it unlocks.
 */
struct uwait;

/* What a thread waits for, in messages and lists. */
struct uwait_seen {
	const struct uwait_kind *vs_kind;
	const void              *vs_object;	/* or NULL */
	const void *const       *vs_owner;	/* where the object has its holder; or NULL */
};

/* Bytes in a unit of w_size. */
#define UWAIT_UNIT	16

/*
 * A kind of waits: of its module, which changes nothing in it. A kind that
 * other modules use has a name in capitals, and is an array of one, so that its
 * name is its address. Records have its number, which takes a byte: 255 kinds.
 */
struct uwait_kind {
	const char *wk_name;	/* in lists of waits: "mutex", say */
	const char *wk_call;	/* in messages; NULL: the name */
	/*
	 * Does what is left of a thread's wait, frees w, and returns what
	 * uwait_for() returns; rc is the result of the claim. So no frame of
	 * the waiter has to stay for that. NULL: the waiter does it.
	 */
	int       (*wk_end)(struct uwait *w, int rc);
	/*
	 * Claims w, whose thread cannot block. False: it was claimed before.
	 * NULL: uwait_claim().
	 */
	int       (*wk_give_up)(struct uwait *w);
	/*
	 * Notes in *v for what w waits: its kind and object are there already.
	 * 0: its thread is not in this wait. Nothing else runs meanwhile. NULL:
	 * it waits until it is claimed.
	 */
	int       (*wk_see)(const struct uwait *w, struct uwait_seen *v);
	char        wk_wakes;	/* each wake that is not for w is the event */
	char        wk_number;	/* the object is a number, or negative: none */
	char        wk_stays;	/* hard mode: w may outlive its scheduler */
	int         wk_id;	/* set at the first wait; 0: there was none */
};

extern struct uwait_kind UWAIT_JOIN[1];
extern struct uwait_kind UWAIT_TIMER[1];	/* struct uwait_timer */
extern struct uwait_kind UWAIT_OTHER[1];

/* Returns the number of a kind. Any thread. */
unsigned char uwait_id(struct uwait_kind *kind);

/* Returns the kind of a record. Any thread. */
const struct uwait_kind *uwait_kind(const struct uwait *w);

/* Returns the name of a kind: "mutex", "sleep", "join", and so on. */
const char *uwait_kind_name(const struct uwait_kind *kind);

/* States of a record. */
enum { UWAIT_WAITS, UWAIT_CLAIMED, UWAIT_ARRIVED };

/*
 * Set by the maker, before the wait: this wait has no deadline, is not
 * cancelled, and cannot fail. The maker has called uwait_reserve().
 */
enum { UWAIT_SURE = 2 };	/* in w_flags */

struct uwait_base;

struct uwait {
	struct ustack      *w_stack;	/* waits; NULL: a native thread does */
	int                 w_state;	/* atomic */
	int                 w_result;	/* by the claimer */
	unsigned short      w_size;	/* in units of UWAIT_UNIT */
	unsigned char       w_kind;	/* its wk_id */
	unsigned char       w_flags;
	int                 w_taken;	/* wakes, by the waiter */
	union {
		const void   *object;	/* while it waits; or NULL */
		struct uwait *link;	/* the next on the way home */
	} w_at;
	struct uwheel_node  w_node;	/* its deadline */
	struct uwait_base  *w_base;	/* has the wheel; NULL: no deadline */
};

/*
 * Makes a record for a wait of the caller for the object, or NULL. The size is
 * at least sizeof(struct uwait), and what lies behind that is not cleared. NULL
 * and errno: ENOMEM, ENOSYS; EINVAL: the size is above 1,048,560. Threads and
 * native threads.
 */
USCHED_MUST void *uwait_make(struct uwait_kind *kind, const void *object,
			     size_t size);

/* Frees a record that has arrived, or that the caller has claimed itself. */
void uwait_free(void *record);

/*
 * Waits until w was claimed and has arrived. Returns the result of the claim: that
 * of uwait_complete(), or -ETIMEDOUT, -ECANCELED, or -ENOMEM. The maker of w only,
 * once. until is not negative.
 */
int uwait_for(struct uwait *w, utime_ns until);

/*
 * Gets all memory, but for the records, that later waits of the caller need, so
 * that they cannot fail. For callers that give something up before a wait, and
 * do not get it back: after uwait_make(), before they give up anything. Until
 * the thread blocks elsewhere, no uwait_for() of the function that calls this,
 * or of functions that it calls, returns -ENOMEM, if its deadline is UNEVER, or
 * until is not. 0; -ENOMEM: nothing has changed. Any thread or native thread.
 * If there is a buffer for the slice, as there mostly is, it compares.
 */
USCHED_MUST int uwait_reserve(utime_ns until);

/*
 * Lets the caller, a thread, go on only after the next look of its dispatcher:
 * after 64 switches or UWAIT_LATE of running, or when no other thread can run.
 * For calls that may succeed again and again without a wait. Does nothing in a
 * parallel region of OpenMP. 0, -ENOMEM; -ENOSYS.
 */
int uwait_give_way(void);

/*
 * Not API. Waits until w, of a thread, has arrived, without a deadline, and
 * without the scope of the thread.
 */
void uwait_block(struct uwait *w);

/* Claims w. False: it was claimed before. Any thread that can rely on w. */
static __inline__ int uwait_claim(struct uwait *w)
{
	int waits = UWAIT_WAITS;

	return __atomic_compare_exchange_n(&w->w_state, &waits, UWAIT_CLAIMED,
			0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/*
 * Ends the wait with this result: 0, or more if the module says so. Any thread
 * or native thread that has claimed w. It must not hold native locks that
 * s_wake() would take. The waiter sees all that it has written before.
 */
void uwait_complete(struct uwait *w, int result);

/*
 * What a module around a thread keeps of it: uthread.h, uscope.h. The thread is
 * a shell with uwait_run() as h_run.
 */
struct uself {
	struct ushell            e_shell;	/* first */
	const struct uself_ops  *e_ops;
};

struct uself_ops {
	/* h_f returns an int; else, a pointer. */
	char eo_int;
	/* After h_f(h_arg), which has returned result. Then the thread ends. */
	void (*eo_end)(struct uself *e, void *result);
	/* Before w waits. 0, or -ECANCELED: w shall not wait. */
	int  (*eo_enter)(struct uself *e, struct uwait *w);
	/* After the wait of w. From the return on no cancellation knows w. */
	void (*eo_leave)(struct uself *e, struct uwait *w);
};

/* Returns what is kept of u, if its h_run is run; else NULL. */
static __inline__ struct uself *uwait_self(const struct ustack *u,
					   void (*run)(struct ushell *))
{
	struct ushell *h;

	if (u == NULL || u->u_f != ustack_shell)
		return NULL;
	h = (struct ushell *)u->u_arg;
	return h->h_run == run ? (struct uself *)h : NULL;
}

/* Calls h_f(h_arg) and eo_end(): h_run of all threads with a struct uself. */
void uwait_run(struct ushell *h);

/*
 * A call at a point in time, in the dispatcher: it must not wait. For modules.
 * t is the first member of the module's struct, which uwait_make() has made
 * with UWAIT_TIMER, and t_f is set. Threads only.
 */
struct uwait_timer {
	struct uwait t_wait;	/* first */
	void       (*t_f)(struct uwait_timer *t);
};

/*
 * Starts t, which calls t_f() at the deadline. 0, -ENOMEM. Then uwait_claim()
 * stops it, or it is too late.
 */
int uwait_timer_start(struct uwait_timer *t, utime_ns until);

/*
 * FOR MODULES WITH EVENTS FROM OUTSIDE
 *
 * A source stands where a dispatcher looks for what happens outside of it, and
 * where it sleeps: for descriptors (uio.h), for a device, or for the loop of
 * another library. While threads wait for its events, the scheduler does not
 * end, and virtual time stands still. A busy processor looks once in 64
 * switches, and after UWAIT_LATE of running. Without threads that wait, a source
 * costs a load for each look.
 *
 * Each processor of rr and ll has sources of its own. All workers of ws share
 * one list, and a single worker at a time looks or sleeps in a source: it has
 * o_role (source.h). A worker that is about to sleep, and finds the role taken,
 * need not look: the other sleeps there, or is awake, and will try before it
 * sleeps. But a local source (o_local) belongs to the worker whose thread has
 * added it, in front of what all share. Its worker alone sleeps in it.
 *
 * A processor sleeps in the first source that it can sleep in. Other sources
 * are looked at each o_nap ns meanwhile.
 *
 * A processor calls o_look and o_sleep, mostly while it runs no thread. But a
 * preemption (upreempt.h) calls o_look in the thread, and so does a wait that
 * finds no memory. So o_look must be left out of preemption (UPREEMPT_NEVER),
 * and take no lock that a thread keeps where it can be preempted. Both end
 * waits by uwait_claim() and uwait_complete(). They must not wait.
 */
struct uwait_source {
	/* Looks for events, and does not sleep. */
	void (*o_look)(struct uwait_source *o);
	/*
	 * Sleeps until an event comes, o_wake can be read, or ns have passed
	 * (UNEVER: for ever). Then does what o_look() does. It may return
	 * early. It returns if o_wake can be read, and reads that only after
	 * its sleep: before, a wake would be lost. Or NULL.
	 */
	void (*o_sleep)(struct uwait_source *o, utime_ns ns);
	/*
	 * Frees it: its scheduler has ended. Or NULL. Sources without o_sleep
	 * come first. If native threads post to the base, this joins them.
	 */
	void (*o_fini)(struct uwait_source *o);
	int         o_wake;	/* others write 8 bytes; never blocks */
	int         o_local;	/* by its maker: a local source */
	utime_ns    o_nap;	/* 0: 1 ms; UNEVER: it wakes its base */
	long        o_waits;	/* threads that wait for its events (atomic) */
	const void *o_role;	/* the holder, or NULL (atomic) */
	const void *o_group;	/* the set of workers; NULL: not of ws */
	struct uwait_source *o_next;	/* (atomic) */
};

/*
 * Adds o to the sources of the dispatcher of the caller, a thread, until the
 * scheduler ends. 0; -EINVAL: the caller is a native thread; -ENOMEM.
 */
int uwait_source_add(struct uwait_source *o);

/* Returns the source of the caller's dispatcher with this o_look, or NULL. */
struct uwait_source *uwait_source_of(void (*look)(struct uwait_source *o));

/* Not API. Does the same for the dispatcher of b. */
struct uwait_source *uwait_source_in(const struct uwait_base *b,
				     void (*look)(struct uwait_source *o));

/*
 * Counts the caller, a thread, before it waits for events of o, a source of its
 * dispatcher.
 */
void uwait_source_begin(struct uwait_source *o);

/*
 * Counts the caller, a thread, as a waiter for events of o, a local source of
 * another worker with the same o_group, if a thread waits for these already.
 * False: it has not.
 */
int uwait_source_join(struct uwait_source *o);

/* Ends uwait_source_begin(), by the same thread after its wait. */
void uwait_source_end(struct uwait_source *o);

/*
 * FOR SCHEDULERS that count wakes, such as those over uproc.h: a timer base
 * stands in front of the call-backs of struct usched.
 */
struct uwait_ops {
	/*
	 * Brings w home, which is claimed: to the dispatcher of its thread, which
	 * can then run. here: the base of the dispatcher that calls, or NULL.
	 */
	void (*o_complete)(struct uwait_base *here, struct uwait *w);
	/*
	 * Puts w, which is claimed and has its result, where b will take it
	 * (uwait_post()), and wakes b. Any native thread, while b lives: so a
	 * native thread ends a wait of a plain dispatcher, too.
	 */
	void (*o_post)(struct uwait_base *b, struct uwait *w);
	/* Gives nr wakes to the running thread, which has taken too many. */
	void (*o_back)(struct ustack *u, int nr);
	/* Takes a wake of the running thread, if it has come. */
	int  (*o_try)(struct ustack *u);
	/* Tells whether u, which is blocked, waits for a wake. A hint. */
	int  (*o_waits)(const struct ustack *u);
	/*
	 * Tells whether u, known by its address only, runs at the same time as
	 * the caller, on another processor; NULL: whether any does. A hint. Or
	 * NULL: it is not known.
	 */
	int  (*o_runs)(const struct uwait_base *b, const void *u);
	/* Takes what was posted to the processor of the running thread. */
	void (*o_drain)(struct ustack *u);
	/* Keep other native threads from the wheel of b, or may be empty. */
	void (*o_enter)(struct uwait_base *b);
	void (*o_leave)(struct uwait_base *b);
	/* Puts o first in wb_source of b, and of all that share sources with b. */
	void (*o_source)(struct uwait_base *b, struct uwait_source *o);
	/* Keep the scheduler from its end while a source has threads (on). */
	void (*o_hold)(struct uwait_base *b, int on);
};

struct uwait_base {
	/* A waker reads this, and then writes to what is behind it. */
	struct usched          *wb_sched;
	const struct uwait_ops *wb_ops;		/* the plain ones have their own */
	struct uwheel          *wb_wheel;	/* made for the first timer */
	struct uwait_source    *wb_source;	/* the first, or NULL (atomic) */
	/* Often changed. */
	long                    wb_timers;	/* in the wheel (atomic) */
	utime_ns                wb_due;		/* next look, or UNEVER (atomic) */
	utime_ns                wb_looked;	/* its scheduler's last look; 0: any */
	struct uwait           *wb_posted;	/* last first (atomic) */
};

/* So long threads run before their processor looks for what comes: in ns. */
#define UWAIT_LATE	(100 * UTIME_US)

/* Makes b the base in front of s, with the operations of its scheduler. */
void uwait_base_init(struct uwait_base *b, struct usched *s,
		     const struct uwait_ops *ops);

/*
 * Puts w on the list of b, which is guessed to be empty: a load of wb_posted, which
 * b has changed last, would fetch the line once more. Any thread.
 */
static __inline__ void uwait_post(struct uwait_base *b, struct uwait *w)
{
	w->w_at.link = NULL;
	USCHED_RACE(record_A2);
	while (!__atomic_compare_exchange_n(&b->wb_posted, &w->w_at.link, w, 0,
			__ATOMIC_SEQ_CST, __ATOMIC_RELAXED))	/* record O1, O3 */
		;
}

/* Returns whether something was posted to b. Any thread. */
static __inline__ int uwait_posted(const struct uwait_base *b)
{
	return __atomic_load_n(&b->wb_posted, __ATOMIC_SEQ_CST) != NULL;	/* record O3 */
}

/* Returns when the next deadline of b may be; UNEVER: there is none. */
static __inline__ utime_ns uwait_due(const struct uwait_base *b)
{
	return __atomic_load_n(&b->wb_due, __ATOMIC_RELAXED);
}

/* Returns whether uwait_look() may find something. Owner only. */
static __inline__ int uwait_must_look(const struct uwait_base *b)
{
	return __builtin_expect(uwait_due(b) != UNEVER, 0) ||
	       __builtin_expect(__atomic_load_n(&b->wb_posted,
						__ATOMIC_RELAXED) != NULL, 0);
}

/* Returns the first source of b; NULL: there is none. Any thread. */
static __inline__ struct uwait_source *uwait_sources(const struct uwait_base *b)
{
	return __atomic_load_n(&b->wb_source, __ATOMIC_ACQUIRE);
}

/* Not API: a part of uwait_outside(). */
int uwait_awaits_outside(const struct uwait_base *b);

/* Returns whether threads wait for events of sources of b. Owner only. */
static __inline__ int uwait_outside(const struct uwait_base *b)
{
	return __builtin_expect(uwait_sources(b) != NULL, 0) &&
	       uwait_awaits_outside(b);
}

/* Looks at the sources of b for which threads wait. Owner only. */
void uwait_look_outside(struct uwait_base *b);

/* Looks at the local source of b for the worker who, which is another. */
void uwait_look_local(struct uwait_base *b, const void *who);

/*
 * Sleeps in a source of b, or else in the system, after upark_prepare(asleep),
 * until *asleep is 0, an event has come, or ns have passed. Owner only.
 */
void uwait_sleep_outside(struct uwait_base *b, int *asleep, utime_ns ns);

/*
 * Begins a sleep in `in`, a source of b, whose middle is elsewhere: where in->o_wake or
 * an event of `in` is waited for, or *ns pass, which are cut to what the other sources
 * need. After upark_prepare(asleep). False: a waker has come already. Owner only.
 */
int uwait_sleep_begin(struct uwait_base *b, int *asleep, struct uwait_source *in,
		      utime_ns *ns);

/*
 * Ends what uwait_sleep_begin() has begun, whatever that has returned: looks at `in`, and
 * at the other sources. Owner only.
 */
void uwait_sleep_end(struct uwait_base *b, int *asleep, struct uwait_source *in);

/*
 * Frees the sources of b, those without o_sleep first. All that share them with
 * b have stopped.
 */
void uwait_sources_fini(struct uwait_base *b);

/* Moves the local sources of b, which has stopped, to another, for their end. */
void uwait_locals_move(struct uwait_base *b, struct uwait_base *to);

/* Takes what was posted, and wakes whose deadline has passed. Owner only. */
void uwait_look(struct uwait_base *b);

/*
 * Takes what was posted, and returns it, first in first out, linked by
 * w_at.link. A part of uwait_look(). Caller has b to itself (o_enter).
 */
struct uwait *uwait_take(struct uwait_base *b);

/*
 * Frees w, which uwait_take() has returned, if its wait has ended: true. A part
 * of uwait_look(). Caller has b to itself.
 */
int uwait_orphan(struct uwait_base *b, struct uwait *w);

/*
 * Claims the records whose deadline has passed, and returns them, linked by
 * w_at.link. A part of uwait_look(). Caller has b to itself.
 */
struct uwait *uwait_claim_due(struct uwait_base *b);

/*
 * Ends the waits of a list from uwait_claim_due(). A part of uwait_look(). Caller
 * need not have b to itself.
 */
void uwait_complete_due(struct uwait *list);

/* Notes that w, whose thread is at home here, has arrived. Then wake it. */
static __inline__ void uwait_arrived(struct uwait *w)
{
	__atomic_store_n(&w->w_state, UWAIT_ARRIVED, __ATOMIC_RELEASE);	/* record O2 */
}

/*
 * A ring of values that anyone may read (relaxed, and laps with acquire): how many it
 * holds, where the first stands, below room, and how often that has come to 0: first is
 * stored before laps.
 */
struct uwait_queue {
	const void     *uq_at;		/* what it belongs to */
	const unsigned *uq_length, *uq_first, *uq_laps;
	unsigned        uq_room;
	unsigned        uq_size;	/* of a value */
	const char     *uq_ring;
};

/*
 * For modules that look on: ulist.h, uview.h, usim.h. Each adds itself once, before any
 * wait, and stays. Members may be NULL. What threads run is seen by another way:
 * uchain.h.
 */
struct uwait_watch {
	/* The caller, a thread or a native thread, has made w. */
	void (*v_made)(const struct uwait *w);
	/* The caller, a thread, begins and ends to wait. */
	void (*v_begin)(const struct uwait *w, utime_ns until);
	void (*v_end)(const struct uwait *w);
	/* The caller, a thread, has another name (uthread.h). */
	void (*v_named)(void);
	/* The caller, a native thread, waits: returns wait(w, until). Of the
	 * modules, only that which was added last is told. */
	int  (*v_native)(struct uwait *w, utime_ns until,
			 int (*wait)(struct uwait *w, utime_ns until));
	/*
	 * All threads of nr dispatchers wait for ever; left counts them. There
	 * is a dispatcher each size bytes. None runs a thread meanwhile. Returns
	 * whether it has told the user.
	 */
	int  (*v_stuck)(struct usched *first, size_t size, int nr, long left);
	/* The caller wakes u, which is elsewhere; record: by the end of a record. */
	void (*v_posted)(const struct ustack *u, int record);
	/* The caller, a processor, will sleep for ns. Returns for how long it may
	 * at most. */
	utime_ns (*v_sleeps)(utime_ns ns);
	/* The caller, the processor of s, has slept. */
	void (*v_awake)(struct usched *s);
	/* The caller, no processor, begins to run f for u; or has run it. */
	void (*v_calls)(const struct ustack *u, void (*f)(void *), int begins);
	/* The caller has made a queue, or will free it: none reads it any more when
	 * the call returns. */
	void (*v_queue)(const struct uwait_queue *q, int begins);
	struct uwait_watch *v_next;
};

extern struct uwait_watch *uwait_watch;		/* the first, or NULL */

/* Adds v to them. */
void uwait_watch_add(struct uwait_watch *v);

/* Not API. Tell all of them; only if there are such. */
void     uwait_watch_named(void);
int      uwait_watch_stuck(struct usched *first, size_t size, int nr, long left);
void     uwait_watch_posted(const struct ustack *u, int record);
utime_ns uwait_watch_sleeps(utime_ns ns);
void     uwait_watch_awake(struct usched *s);
void     uwait_watch_calls(const struct ustack *u, void (*f)(void *), int begins);
void     uwait_watch_queue(const struct uwait_queue *q, int begins);

#define UWAIT_WATCHED	__builtin_expect(uwait_watch != NULL, 0)

/* Lets virtual time jump to a point, if that is later. Any thread. */
void utime_jump(utime_ns to);

#ifdef __cplusplus
}
#endif

#endif /* UWAIT_H */
