/* SPDX-License-Identifier: MIT */
/* uproc.c: processors: the part that schedulers share. */

/*
 * OVERVIEW
 *
 *	struct uproc_set
 *	  set_proc[0]      set_proc[1]
 *	+--------------+ +--------------+
 *	| dispatcher   | | dispatcher   |   one native thread each
 *	| queue        | | queue        |   threads that can run
 *	| inbox        | | inbox        |   remote wakes
 *	| park         | | park         |   where it sleeps
 *	| pool         | | pool         |   free memory
 *	+------+-------+ +-------+------+
 *	       |                 |
 *	    +--+-----------------+--+
 *	    | set_mem               |       in batches: see umem.c
 *	    +-----------------------+
 *
 * A thread stays on the processor that it was made for, except in ws. As ws has
 * queues of its own, ROOM and P1 below do not apply to it.
 *
 * SLEEP AND END
 *
 * A processor with nothing to run parks. park.h says why no wake is lost.
 * set_idle counts the processors that sleep (idle.h). When it equals the number
 * of processors, no message is under way, and nothing will ever change.
 * uproc_fini() waits for this moment. The threads that are still alive then can
 * never be woken.
 *
 * DEADLINES
 *
 * Each processor has a timer base (uwait.h): a wheel for the deadlines of its
 * threads, and a list of records whose wait was ended elsewhere. It looks at
 * both where it takes remote wakes, and before it sleeps. A processor with a
 * deadline sleeps until then at most. Meanwhile it does not count as idle, so the
 * set does not end. A processor without deadlines pays two loads for each look.
 *
 * Under virtual time a processor with a deadline sleeps like any other. But
 * while there is a deadline, set_idle never becomes complete. The last processor
 * that is awake does not go to sleep then. It lets the clock jump to the next
 * deadline of the set, and wakes the processors that have it. While there is a
 * deadline, the last hold does not end either: its holder lets the clock jump
 * first. So set_idle is complete only at the end, as in real time.
 *
 * LOOKS
 *
 * A processor that has threads to run looks now and then for wakes by others, for
 * deadlines and for events. Between two looks is a round: of ROUND switches at most,
 * and of UWAIT_LATE of running, or of one thread that runs for longer. To read the
 * clock takes longer than a switch. So it is asked after as many runs as take ASK,
 * judged by the longest of late (r_run), and the processor looks if it would be late
 * after that many more. r_run is the longest mean between two questions, and each
 * round forgets a part of it. At the start it is UWAIT_LATE, so each run is
 * measured. A round in which running times have grown is late, by ROUND runs at most.
 *
 * If nothing is awaited, no wakes by others came with the last look, and ROUND runs
 * take no longer than ASK, the clock is not asked at all. A wake that comes all the
 * same is taken after ROUND switches, and the next one in time. Time without a
 * thread, such as a sleep, does not count, nor does virtual time. A round ends at a
 * multiple of ROUND, so what ws and ll do once in so many switches falls on a look.
 *
 * REST
 *
 * A processor that has slept for REST gives back memory that it keeps for work
 * to come. That is the free blocks of its pool (umem.c), and stack that threads
 * have touched on its lanes, below the slices (usched_trim_lane()). This costs a few
 * system calls for each sleep longer than REST. Then the processor sleeps until
 * it is woken.
 *
 * A thread that was promised no private lane, and has waited there for COOL_EACH, is
 * copied out, and its memory goes back (usched_cool()). A processor that runs passes
 * over its private lanes, COOL_NR at a time, so that no event waits for long. A pass
 * copies out, and a later one, COOL_EACH after its end, gives back where nothing ran
 * since. A processor that sleeps makes whole passes, until nothing is left to do. Not
 * under virtual time. Where threads move, a processor does all that for lanes that it
 * has at that moment (mv_has).
 *
 * FORK
 *
 * The child of fork() has a copy of each set, but only the native thread that
 * called. In this copy locks may stay taken, lists half changed, and posts
 * half-way. So the child neither uses nor frees a set that an ancestor has
 * started. uproc_forks counts the forks, and set_forks is their number when the
 * set was started. If there are more by now, calls that would need the
 * processors return -ECHILD. uproc_init() puts a new set in the place of such a
 * set.
 *
 * In the child, a thread that has forked is still on its lane. It may go on
 * there, but its processor cannot run other threads. in_child() gives the
 * dispatcher call-backs that name the contract, so waits and wakes pay nothing
 * for this check.
 *
 * The locks of the whole library are whole in the child: ufork.h. A prepare
 * handler that takes set_lock, too, would make the whole set usable in the
 * child, except for half-way posts. Rejected: a signal handler may fork while
 * its native thread holds the lock.
 *
 * ROOM
 *
 * A wake cannot fail, so p_queue must have room for all threads of the
 * processor. Making a thread first increments p_threads. If it then exceeds
 * p_room, the maker allocates a larger ring (p_ring); if it cannot, no thread
 * is made. The owner moves its queue to the ring before it puts the thread in
 * the queue.
 *
 * PINNING
 *
 * A pinned processor stays on its cpu. Without pinning the kernel often moves a
 * processor to the cpu of its waker. This made messages between two processors
 * 2 to 6 times slower.
 *
 * But native threads, processes and other schedulers inherit the mask of their
 * maker. So a set remembers the mask of the native thread that made it
 * (set_cpus). If that native thread is a processor, the new set copies the mask
 * from the processor's set. uproc.c and ucall.c unpin the maker while they
 * create native threads, and fork() unpins the child. No library sees the
 * native threads and processes that a thread makes by pthread_create(),
 * system() or posix_spawn(). For these there is uproc_pinning().
 *
 * A single processor is not pinned. It has no other processor to keep away
 * from, and all such programs would share the first cpu.
 *
 * DEALING
 *
 * Threads that are made one after another often wake each other. So before the
 * start uproc_deal() gives such neighbours to the same processor, in chunks.
 * Chunks are DEAL_MIN threads in the first round, and double in each round
 * after that, until each processor has its share of the hint. Then it begins
 * again. However wrong the hint is, no processor gets more than about twice as
 * many threads as another, or DEAL_MIN. Few neighbours are parted: with rings
 * of seven, chunks of 240 took half as much time again. Each processor gets one
 * thread in turn if there is no hint, and after the start, when threads may end
 * at any time.
 *
 * MAPPINGS
 *
 * Linux allows a process 65530 mappings, and a lane takes two. With no mapping
 * left, native threads and large blocks cannot be created. So while lanes are
 * mapped, other mappings are held in reserve: MAPS_NATIVE for each processor,
 * and MAPS_MORE. That takes hundreds of system calls, so if the process has few
 * mappings, they are only counted. A small process need not even do that: it has
 * no more mappings than pages, and the number of its pages is read in a quarter of
 * the time. If there are fewer mappings, the reserve takes all of them but
 * MAPS_LANES for each processor. If mapping lanes or creating native threads
 * fails, half as many lanes are tried, down to a single lane for each
 * processor.
 *
 * PRIVATE
 *
 * A private stack is a private lane, which usched_private() promises to the
 * maker of a thread. Makers before the start are given promises, too, but
 * there are no lanes yet: p_promised counts them, up to the number of lanes that
 * there will be, and uproc_start() asks for all of them at once. It fails if
 * memory, or guards, do not suffice.
 *
 * FEW THREADS
 *
 * If threads take turns, those without a lane of their own cost two copies a
 * block. So while a processor has at most FEW threads, those that find no free
 * lane get private lanes (s_few). With 1,000 threads a ring of rr is 1.4 times
 * as fast, and a thread takes a page where it took a buffer, until it has waited for
 * long (REST). More threads
 * than that share lanes, since the memory of 100,000 threads must stay small; and
 * threads that are alone in their lanes miss the TLB once a block: with 1,024
 * lanes for any number of threads, a ring of 20,000 took a seventh longer. If there
 * were no mappings for all lanes at the start, private lanes would take those that
 * native threads need. And where addresses are limited (RLIMIT_AS), the 250 MB of
 * these lanes may leave none for the program. Threads that wait for descriptors share
 * lanes at any number (core/outside.h), here and in ll and ws.
 *
 * INVARIANTS
 *
 * P1. Threads of p in p_queue <= p_threads <= p_room; a ring with p_room
 *     places is p_queue or p_ring.
 * P2. w_count >= -1. It is -1 exactly while the thread waits or is new.
 * P3. The node of a thread is in an inbox exactly while w_posted counts wakes
 *     or has POSTED set. (Between the two changes a moment passes.)
 * P4. The sum of additions to set_idle by and for a processor is 1 only while
 *     it sleeps and no waker has begun to wake it. Else it is 0 or less.
 * P5. A thread is freed once. By then it has ended, its node is in no inbox,
 *     and its joiner, if it has one, has left. Each of its wait records has
 *     arrived (A3 in uwait.c).
 * P6. When the native threads are made, the mappings in reserve are free.
 * P7. A processor is pinned exactly while p_pinned is set. Only its own native
 *     thread changes p_pinned.
 * P8. A processor sleeps no longer than until its first deadline. While it
 *     sleeps with a deadline, in real time, its additions to set_idle sum up to
 *     0 or less.
 * P9. Virtual time changes only while all processors but the caller of jump()
 *     sleep. While the set has a deadline, set_idle does not become complete.
 * P10. A processor that is alone in its set ends by itself, counted as asleep, if
 *     fini waits, and no thread, hold or deadline is left. Before fini it sleeps
 *     instead, as the program may still make threads.
 *
 * REJECTED
 *
 * The only processor on the native thread that calls fini, which waits anyway: the
 * kernel gives signals of the process to the main thread first, and their handlers
 * would run on lanes. A queue linked through the threads: it does not show which thread to
 * prefetch. A message of its own for each remote wake: it needs memory, and can
 * fail. A look at the inbox less often: remote wakes come late. A processor that leaves
 * a cpu on which others compute, as schedstat of Linux tells: the kernel moves threads
 * only to a cpu that is idle at that moment. Beside a program that computes on one of two
 * cpus, `fanin` of ws took 0.7 of the time, but `sieve` up to 1.5. Programs that know
 * better set USCHED_PIN=0.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* cpus.h, MAP_ANONYMOUS */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "uproc_set.h"
#include "cpus.h"
#include "idle.h"
#include "lock.h"
#include "ucall.h"
#include "ufork.h"
#include "compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

UPREEMPT_NEVER;

#define LANE_SIZE	((size_t)256 << 10)
#define LANE_MIN	((size_t)16 << 10)
#define RING_MIN	64u
#define RING_MAX	(1u << 31)
#define HOLDS_MOST	(1 << 30)	/* and as many may pass by at once */
#define ROOM_HINT	(1u << 20)	/* a hint is believed up to here */
#define DEAL_MIN	32u

#define YIELDS		10
#define FEW		1024		/* threads with lanes of their own */
#define NAP_MIN		20000L		/* ns; a wait may end so late */
#define NAP_MAX		1000000L
#define ROUND		64u		/* switches between two looks: LOOKS */
#define ASK		(UWAIT_LATE / 16)	/* between two questions */
#define RUNS_MOST	8		/* processors: else it takes too long */
#if !defined(REST)		/* tests rest sooner */
#define REST		(100 * UTIME_MS)
#define COOL_EACH	UTIME_S		/* between passes over private lanes */
#define COOL_STEP	(5 * UTIME_MS)	/* between looks at COOL_NR of them */
#endif
#define REST_STACK	((size_t)32 << 10)	/* bytes of each lane stay */
#define COOL_NR		16
#define COOL_LOOKS	1024		/* without the clock */

_Static_assert(sizeof(void *) != 8 ||
	       offsetof(struct uproc, p_waits.wb_timers) % 64 == 0,
	       "what wakers read is on another line than what changes");

/* Lies behind a thread made with UPROC_JOIN. */
struct joint {
	struct uwait *j_wait;	/* of the joiner, or NULL */
	struct ulock  j_lock;	/* protects both others */
	int           j_ended;
};

/*
 * Mappings. A native thread has its stack, the guard and, after malloc(), the
 * two parts of an arena. The others are those of UCALL_LIMIT native threads
 * that make calls, of chunks, and of large buffers.
 */
#define MAPS_NATIVE	4
#define MAPS_MORE	(UCALL_LIMIT * MAPS_NATIVE + 64)
#define MAPS_LANES	3		/* of a processor with a single lane */
#define MAPS_LANE	2
#define MAPS_COUNTED	1000		/* to count more takes as long as a reserve */

#include "stuck.h"

static int  is_new(const struct uproc_set *set);
static int  lanes_each(struct uproc_set *set);
static int  lane_nr(const struct uproc_set *set);

/* Call-backs of the dispatcher. */

static void *buf_alloc(struct usched *s, int size)
{
	struct uproc *p = (struct uproc *)s;

	return umem_get(&p->p_pool, (size_t)size);
}

static void buf_free(struct usched *s, void *buf, int size)
{
	struct uproc *p = (struct uproc *)s;

	umem_put(&p->p_pool, buf, (size_t)size);
}

static size_t thread_size(const struct uproc *p, int flags)
{
	return p->p_set->set_ops.op_thread +
		(flags & UPROC_JOIN ? sizeof(struct joint) : 0);
}

static struct joint *joint(struct uproc_thread *t)
{
	return (struct joint *)((char *)t +
				uproc_of(t)->p_set->set_ops.op_thread);
}

static void ready(struct uproc *p, struct uproc_thread *t, int wakes)
{
	if (uwakes_add(&t->t_wakes, wakes))
		uproc_queue_put(&p->p_queue, t);
}

/* For uwait.h. */

static void drain(struct uproc *p);

/* Brings w, whose thread is at home at p, the caller, to its end. */
static void arrive(struct uproc *p, struct uwait *w)
{
	struct uproc_thread *t = (struct uproc_thread *)w->w_stack;

	uwait_arrived(w);
	if (!uwakes_add(&t->t_wakes, 1))
		return;
	/* In s_next() the queue is what the scheduler looks at. */
	if (ustack_self() != NULL && p->p_set->set_ops.op_soon != NULL)
		p->p_set->set_ops.op_soon(p, t);
	else
		uproc_queue_put(&p->p_queue, t);
}

static void waits_arrive(struct uwait_base *b, struct uwait *w)
{
	arrive((struct uproc *)b->wb_sched, w);
}

static void waits_post(struct uwait_base *b, struct uwait *w)
{
	struct uproc *p = (struct uproc *)b->wb_sched;

	uwait_post(b, w);					/* W1 */
	USCHED_RACE(proc_wake);
	uidle_wake(&p->p_set->set_idle, &p->p_asleep);
}

static void waits_complete(struct uwait *w)
{
	struct uproc *p = uproc_of((struct uproc_thread *)w->w_stack);

	if (p == uproc_native()) {
		arrive(p, w);
		return;
	}
	UPROC_WATCH(pw_posted((struct uproc_thread *)w->w_stack, true));
	waits_post(&p->p_waits, w);
}

static void waits_back(struct ustack *u, int nr)
{
	uwakes_back(&((struct uproc_thread *)u)->t_wakes, nr);
}

static void waits_drain(struct ustack *u)
{
	uproc_drain((struct uproc *)u->u_sched);
}

/* No event from outside is a wake, so this does not look there. */
static int waits_try(struct ustack *u)
{
	struct uproc_thread *t = (struct uproc_thread *)u;

	drain(uproc_of(t));
	if (t->t_wakes.w_count <= 0)
		return false;
	t->t_wakes.w_count--;
	return true;
}

/* Reads what the thread's processor may be changing: see ulist.c. */
__attribute__((no_sanitize("thread")))
int uproc_waits(const struct ustack *u)
{
	const struct uwakes *k = &((const struct uproc_thread *)u)->t_wakes;

	return __atomic_load_n(&k->w_count, __ATOMIC_RELAXED) < 0 &&
	       __atomic_load_n(&k->w_posted, __ATOMIC_RELAXED) < UWAKES_ONE;
}

/*
 * Looks at the processors of the set, unless they have to share cpus. There u may
 * run soon, if it is awake and runs no thread. Of more than RUNS_MOST any may run
 * u. Reads what they may be changing.
 */
__attribute__((no_sanitize("thread")))
int uproc_runs(const struct uwait_base *b, const void *u)
{
	const struct uproc *p = (const struct uproc *)b->wb_sched;
	const struct uproc_set *set = p->p_set;
	int i;

	for (i = 1; set->set_spare && i < set->set_nr; i++) {
		const struct uproc *q = uproc_nth(set, (p->p_nr + i) % set->set_nr);
		struct ustack *const *at = __atomic_load_n(&q->p_runs,
							   __ATOMIC_RELAXED);
		struct ustack *runs = at != NULL ?
			__atomic_load_n(at, __ATOMIC_RELAXED) : NULL;

		if (__atomic_load_n(&q->p_asleep, __ATOMIC_RELAXED) == 0 &&
		    (u == NULL || runs == u || runs == NULL))
			return true;
		if (i == RUNS_MOST)
			return true;
	}
	return false;
}

/* A processor has its wheel to itself. */
static void waits_enter(struct uwait_base *b)
{
	(void)b;
}

static void waits_source(struct uwait_base *b, struct uwait_source *o)
{
	o->o_next = b->wb_source;
	__atomic_store_n(&b->wb_source, o, __ATOMIC_RELEASE);
}

/* The caller, a thread, is awake: the end of its hold tells no sleeper. */
void uproc_waits_hold(struct uwait_base *b, int on)
{
	int *idle = &((struct uproc *)b->wb_sched)->p_set->set_idle;

	if (on)
		uidle_hold(idle);
	else
		uidle_unhold(idle);
}

static const struct uwait_ops wait_ops = {
	.o_complete = waits_complete,
	.o_post     = waits_post,
	.o_arrive   = waits_arrive,
	.o_back     = waits_back,
	.o_try      = waits_try,
	.o_waits    = uproc_waits,
	.o_runs     = uproc_runs,
	.o_drain    = waits_drain,
	.o_enter    = waits_enter,
	.o_leave    = waits_enter,
	.o_source   = waits_source,
	.o_hold     = uproc_waits_hold
};

/* The call-backs of the dispatcher for it. */

static int wait_here(struct usched *s)
{
	(void)s;
	return uproc_wait();
}

static void any_wake(struct usched *s, struct ustack *u)
{
	((struct uproc *)s)->p_set->set_ops.op_move.mv_wake(uproc_native(),
						(struct uproc_thread *)u);
}

static int any_make(struct usched *s, void (*f)(void *), void *arg, int lane)
{
	struct uproc *p = (struct uproc *)s;

	return p->p_set->set_ops.op_move.mv_make(p, f, arg,
			lane == USCHED_PRIVATE ? UPROC_PRIVATE : 0);
}

/* Makes a thread as rr_thread_init() does. */
static int make_dealt(struct uproc *p, void (*f)(void *), void *arg, int flags)
{
	struct uproc_set *set = p->p_set;

	return uproc_make(uproc_at(set, uproc_deal(set)), f, arg, flags) !=
		NULL ? 0 : -errno;
}

/* Wakes t. here: the processor of the caller, or NULL. Any native thread. */
static void wake(struct uproc *here, struct uproc_thread *t)
{
	if (uproc_of(t) == here)
		ready(here, t, 1);
	else
		uproc_post(t);
}

/* Fails if the thread, which has ended, has not left its scopes. */
static NOINLINE void shell_left(const struct ustack *u)
{
	struct stuck_text who;

	if (uwait_self(u, uwait_run) == NULL)
		return;
	usched_last_message("uscope: %s has not ended its scope:",
			    stuck_who(&who, u));
	usched_fail("uscope: the thread has ended in a scope that it "
		    "has begun; or a thread of uscope_go() or "
		    "uthread_make() has called ustack_abort()");
}

static inline void slice_free(struct uproc *p, struct uproc_thread *t)
{
	if (unlikely(t->t_stack.u_f == ustack_shell))
		shell_left(&t->t_stack);
	if (t->t_stack.u_stack != NULL)
		buf_free(&p->p_sched, t->t_stack.u_stack, t->t_stack.u_len);
}

static void thread_done(struct usched *s, struct ustack *u)
{
	struct uproc *p = (struct uproc *)s;
	struct uproc_thread *t = (struct uproc_thread *)u;

	__atomic_fetch_sub(&p->p_threads, 1, __ATOMIC_RELAXED);
	slice_free(p, t);
	if (u->u_mark & UPROC_JOIN) {
		(void)uwakes_close(&t->t_wakes, 0);
		uproc_end(p, t);
	} else if (UPROC_LIKELY(uwakes_close(&t->t_wakes, UWAKES_LEFT)))
		uproc_free(p, t);
}

static void block_free(struct uproc *p, struct uproc_thread *t)
{
	umem_put(&p->p_pool, t, thread_size(p, t->t_stack.u_mark));
}

/* Does what block_free() does, for a native thread that is no processor. */
static void block_free_shared(struct uproc *p, struct uproc_thread *t)
{
	umem_put_shared(&p->p_outer, t, thread_size(p, t->t_stack.u_mark));
}

static const char *ops_name(const struct uproc_ops *o)
{
	return o->op_name != NULL ? o->op_name : "uproc_";
}

static const char *name_of(const struct uproc_set *set)
{
	return ops_name(&set->set_ops);
}

#if defined(USCHED_HARD)
/*
 * Keeps t for a while, so that a late wake or join of t is noticed: uobject.h.
 * What was kept before is freed instead.
 */
static void keep(struct uproc *p, struct uproc_thread *t,
		 void (*instead)(struct uproc *p, struct uproc_thread *t))
{
	struct ustack *u = &t->t_stack;

	u->u_stack = NULL;
	u->u_len   = -1;		/* for usched-gdb.py: not a thread */
	uhard_ends(&t->t_object, UHARD_THREAD,
		   u->u_mark & UPROC_JOIN ? " by its join" : "");
	t->t_object.o_who = u;
	t->t_object.o_f   = u->u_f;
	t->t_object.o_arg = u->u_arg;
	uhard_grave_put(&p->p_graves, &t->t_object, t, thread_size(p, u->u_mark));
	while ((t = uhard_grave_get(&p->p_graves, 0)) != NULL)
		instead(p, t);
}

void uproc_free(struct uproc *p, struct uproc_thread *t)
{
	keep(p, t, block_free);
}

static void free_natively(struct uproc *p, struct uproc_thread *t)
{
	keep(p, t, block_free_shared);
}

/* Forgets the threads that are kept. Their memory goes back with set_mem. */
static void graves_drop(struct uproc *p)
{
	while (uhard_grave_get(&p->p_graves, 1) != NULL)
		;
}

void uproc_live(const struct uproc_thread *t, const char *call)
{
	uhard_live(&t->t_stack, &t->t_object, name_of(uproc_of(t)->p_set),
		   call);
}

static void hold_count(struct uproc_set *set, int nr)
{
	if (__atomic_add_fetch(&set->set_holds, nr, __ATOMIC_RELAXED) < 0)
		uhard_fail(name_of(set), "release", "there is no hold");
}
#else
void uproc_free(struct uproc *p, struct uproc_thread *t)
{
	block_free(p, t);
}

static void free_natively(struct uproc *p, struct uproc_thread *t)
{
	block_free_shared(p, t);
}

static void graves_drop(struct uproc *p)
{
	(void)p;
}

static void hold_count(struct uproc_set *set, int nr)
{
	(void)set, (void)nr;
}
#endif

void uproc_slice_free(struct uproc *p, struct uproc_thread *t)
{
	slice_free(p, t);
}

/* Lets the joiner run soon, if p runs it. A native joiner has no thread. */
static bool complete_join(struct uproc *p, struct uwait *w)
{
	const struct uproc_move_ops *m = &p->p_set->set_ops.op_move;

	w->w_result = 0;
	return w->w_stack != NULL && m->mv_complete != NULL &&
	       m->mv_complete(p, w);
}

void uproc_end(struct uproc *p, struct uproc_thread *t)
{
	struct joint *j = joint(t);
	struct uwait *w;

	USCHED_RACE(proc_end);
	ulock_get(&j->j_lock);
	w = j->j_wait;
	j->j_wait  = NULL;
	j->j_ended = 1;
	if (w != NULL && !uwait_claim(w))
		w = NULL;
	ulock_put(&j->j_lock);
	USCHED_RACE(proc_complete);
	if (w != NULL && !complete_join(p, w))
		uwait_complete(w, 0);
}

/* Puts u at the end of the queue, as after a yield, if others can run. */
static int preempt(struct usched *s, struct ustack *u)
{
	struct uproc *p = (struct uproc *)s;

	if (u == NULL) {
		p->p_queue.q_tail--;
		return 0;
	}
	uproc_drain(p);
	if (uproc_queue_empty(&p->p_queue) && p->p_sched.s_hot == NULL)
		return 0;
	uproc_queue_put(&p->p_queue, (struct uproc_thread *)u);
	return 1;
}

/* Threads. */

/* The processor that this native thread is, or NULL. Threads may migrate. */
static __thread struct uproc *mine;

__thread const struct uproc_set *uproc_serves;

/* Returns mine, even if the caller has just moved to this native thread. */
NOINLINE struct uproc *uproc_native(void)
{
	__asm__ volatile("" : : : "memory");	/* not pure: never merged */
	return mine;
}

/* Returns the processor of the running thread; NULL: it has none. */
static NOINLINE struct uproc *runs_on(void)
{
	struct ustack *u = ustack_self();

	__asm__ volatile("" : : : "memory");	/* not pure: never merged */
	return u != NULL && mine != NULL && u->u_sched == &mine->p_sched ?
		mine : NULL;
}

/* Does not dereference set: another scheduler may be freeing it. */
struct uproc *uproc_here(const struct uproc_set *set)
{
	struct uproc *p = runs_on();

	return p != NULL && p->p_set == set ? p : NULL;
}

struct uproc_set *uproc_running(void)
{
	struct uproc *p = runs_on();

	return p != NULL ? p->p_set : NULL;
}

struct uproc_thread *uproc_self(struct uproc_set *set)
{
	return uproc_here(set) ? (struct uproc_thread *)ustack_self() : NULL;
}

struct uproc *uproc_at(struct uproc_set *set, unsigned nr)
{
	return set != NULL ? uproc_nth(set, nr % set->set_nr) : NULL;
}

unsigned uproc_next_nr(struct uproc_set *set)
{
	return set != NULL ?
		__atomic_fetch_add(&set->set_next_nr, 1, __ATOMIC_RELAXED) : 0;
}

/* Returns the processor of the nr-th thread: see DEALING. */
static unsigned dealt(unsigned nr, unsigned share, unsigned procs)
{
	unsigned before = 0;		/* threads of each in earlier rounds */
	unsigned chunk = DEAL_MIN;

	nr %= share * procs;
	while (share - before > chunk && nr >= chunk * procs) {
		nr     -= chunk * procs;
		before += chunk;
		chunk  *= 2;
	}
	return nr / (share - before > chunk ? chunk : share - before);
}

unsigned uproc_deal(struct uproc_set *set)
{
	unsigned share = set != NULL ?
		__atomic_load_n(&set->set_share, __ATOMIC_RELAXED) : 0;
	unsigned nr = uproc_next_nr(set);

	return share == 0 ? nr : dealt(nr, share, set->set_nr);
}

/* Counts another thread of p, and makes room for it (P1). False: no memory. */
static bool room_get(struct uproc *p)
{
	unsigned nr = __atomic_add_fetch(&p->p_threads, 1, __ATOMIC_RELAXED);
	struct ustack **ring;
	unsigned room;

	/* Acquire: pairs with the release below, so p_ring is seen too. */
	if (nr <= __atomic_load_n(&p->p_room, __ATOMIC_ACQUIRE))
		return true;
	pthread_mutex_lock(&p->p_set->set_lock);
	for (room = p->p_room; room < nr && room < RING_MAX; )
		room *= 2;
	if (room > p->p_room && nr <= room) {
		ring = umem_array(room);
		if (ring != NULL) {
			free(p->p_ring);
			p->p_ring = ring;
			__atomic_store_n(&p->p_room, room, __ATOMIC_RELEASE);
		}
	}
	room = p->p_room;
	pthread_mutex_unlock(&p->p_set->set_lock);
	if (nr <= room)
		return true;
	__atomic_fetch_sub(&p->p_threads, 1, __ATOMIC_RELAXED);
	return false;
}

/* Moves the queue to the larger ring, if there is one. Owner only. */
static void ring_move(struct uproc *p)
{
	struct usched_queue *q = &p->p_queue;
	struct ustack **old;

	if (__atomic_load_n(&p->p_room, __ATOMIC_ACQUIRE) == q->q_mask + 1)
		return;
	pthread_mutex_lock(&p->p_set->set_lock);
	old = uproc_queue_move(q, p->p_ring, p->p_room - 1);
	p->p_ring = NULL;
	pthread_mutex_unlock(&p->p_set->set_lock);
	free(old);
}

/* Returns the processor whose dispatcher owns the lanes of p. */
static struct uproc *lanes_owner(struct uproc *p)
{
	return p->p_set->set_ops.op_move.mv_lanes == lanes_each ? p :
		uproc_nth(p->p_set, 0);
}

/*
 * Returns how many private lanes p has if each processor has nr lanes, unless
 * memory lacks.
 */
static int private_most(const struct uproc *p, int nr)
{
	const struct uproc_set *set = p->p_set;
	bool each = set->set_ops.op_move.mv_lanes == lanes_each;

	return usched_private_most(each ? nr : nr * set->set_nr);
}

/* Promises nr private stacks on p, or fewer. 0, -EAGAIN, -ENOMEM. */
static int promise(struct uproc *p, int nr)
{
	struct uproc_set *set = p->p_set;
	int rc = 0;

	p = lanes_owner(p);
	if (__atomic_load_n(&set->set_go, __ATOMIC_ACQUIRE) > 0)
		return usched_private(&p->p_sched, nr);
	pthread_mutex_lock(&set->set_lock);
	if (p->p_promised + nr > private_most(p, lane_nr(set)))
		rc = -EAGAIN;
	else if (set->set_promising)
		rc = usched_private(&p->p_sched, nr);
	if (rc == 0)
		p->p_promised += nr;
	pthread_mutex_unlock(&set->set_lock);
	return rc;
}

/*
 * Promises for the dispatchers, which have lanes now, what was promised before
 * (on), or lets makers only count. 0, -EAGAIN, -ENOMEM.
 */
static int promises(struct uproc_set *set, bool on)
{
	int rc = 0;
	int i;

	pthread_mutex_lock(&set->set_lock);
	for (i = 0; i < set->set_nr && rc == 0 && on; i++) {
		struct uproc *p = uproc_nth(set, i);

		if (p->p_promised != 0)
			rc = usched_private(&p->p_sched, p->p_promised);
	}
	set->set_promising = on && rc == 0;
	pthread_mutex_unlock(&set->set_lock);
	return rc;
}

int uproc_private(struct uproc_set *set, int on)
{
	int i;

	if (set == NULL)
		return -EINVAL;
	if (uproc_inherited(set))
		return -ECHILD;
	for (i = 0; i < set->set_nr && set->set_private < 0; i++)
		__atomic_store_n(&uproc_nth(set, i)->p_private, on ? UPROC_PRIVATE : 0,
				 __ATOMIC_RELAXED);
	return 0;
}

/* Frees the memory of a thread that is not made after all. */
static void thread_drop(struct uproc *here, struct uproc *p,
			struct uproc_thread *t, int flags)
{
	if (flags & UPROC_PRIVATE)
		(void)promise(p, -1);
	if (here == p)
		umem_put(&p->p_pool, t, thread_size(p, flags));
	else
		umem_put_shared(&p->p_outer, t, thread_size(p, flags));
}

/* Promises a private stack on p to t, which is new. 0, -EAGAIN, -ENOMEM. */
static NOINLINE int make_private(struct uproc *p, struct uproc_thread *t)
{
	int rc = promise(p, 1);

	if (rc == 0 && p->p_set->set_ops.op_move.mv_lanes == lanes_each)
		t->t_stack.u_lane = USCHED_PRIVATE;
	return rc;
}

/*
 * Reports the argument of a new thread, which lies where others must not look.
 * The stack of a thread that has forked us does not move: it never waits again.
 */
static NOINLINE void arg_moves(const struct uproc_set *set, const void *arg)
{
	char what[48];

	if (uproc_lost())
		return;
	(void)snprintf(what, sizeof what, "%sthread_init: the argument",
		       name_of(set));
	usched_law(what, arg);
}

struct uproc_thread *uproc_alloc(struct uproc *here, struct uproc *p,
				 void (*f)(void *), void *arg, int flags)
{
	struct uproc_thread *t;
	int rc;

	if (p == NULL || f == NULL || uproc_inherited(p->p_set)) {
		errno = p == NULL || f == NULL ? EINVAL : ECHILD;
		return NULL;
	}
	if (unlikely(ustack_moves(arg)))
		arg_moves(p->p_set, arg);
	flags |= __atomic_load_n(&p->p_private, __ATOMIC_RELAXED);
	t = here == p ? umem_get(&p->p_pool, thread_size(p, flags)) :
		umem_get_shared(&p->p_outer, thread_size(p, flags));
	if (t == NULL) {
		errno = ENOMEM;
		return NULL;
	}
	ustack_init(&t->t_stack, &p->p_sched, f, arg, NULL, 0);
	if (unlikely(flags & UPROC_PRIVATE) && (rc = make_private(p, t)) != 0) {
		thread_drop(here, p, t, flags & ~UPROC_PRIVATE);
		errno = -rc;
		return NULL;
	}
	t->t_stack.u_mark = flags;
	UHARD(begins(&t->t_object));
	uwakes_init(&t->t_wakes);
	if (flags & UPROC_JOIN)
		memset(joint(t), 0, sizeof(struct joint));
	return t;
}

struct uproc_thread *uproc_make(struct uproc *p, void (*f)(void *), void *arg,
				int flags)
{
	struct uproc *here = p != NULL ? uproc_here(p->p_set) : NULL;
	struct uproc_thread *t = uproc_alloc(here, p, f, arg, flags);

	if (t == NULL)
		return NULL;
	if (!room_get(p)) {
		thread_drop(here, p, t, t->t_stack.u_mark);
		errno = ENOMEM;
		return NULL;
	}
	if (here == p)
		ring_move(p);
	wake(here, t);
	return t;
}

/* Says that a call was refused. Returns -EINVAL. */
static NOINLINE int refused(const struct uproc_thread *t, const char *why)
{
	const struct uproc_set *set = uproc_running();

	usched_message("%sjoin: the thread %p %s",
		       set != NULL ? name_of(set) : "", (const void *)t, why);
	return -EINVAL;
}

/*
 * Returns whether t was freed. Then only its first words are those of a free
 * block, if no other thread has its memory yet.
 */
static bool was_freed(const struct uproc_thread *t)
{
	return (__atomic_load_n(&t->t_wakes.w_posted, __ATOMIC_RELAXED) &
		UWAKES_LEFT) != 0;
}

/*
 * Puts a record where the end of t finds it. Caller holds j_lock. 0: the caller
 * waits. 1: t has ended. -EAGAIN, -EINVAL, -ENOMEM.
 */
static int join_begin(struct joint *j, struct uproc_thread *t, utime_ns until)
{
	if (j->j_ended)
		return 1;
	if (j->j_wait != NULL)
		return refused(t, "has another joiner");
	if (until == UNOW)
		return -EAGAIN;
	j->j_wait = uwait_make(UWAIT_JOIN, t, sizeof *j->j_wait);
	return j->j_wait != NULL ? 0 : -errno;
}

/* Waits for the end of t. 0, or the reason why it has not come. */
static int join_wait(struct uproc_thread *t, utime_ns until)
{
	struct joint *j = joint(t);
	struct uwait *w;
	int rc;

	ulock_get(&j->j_lock);
	rc = join_begin(j, t, until);
	w = j->j_wait;
	ulock_put(&j->j_lock);
	if (rc != 0)
		return rc > 0 ? 0 : rc;
	USCHED_RACE(proc_join);
	rc = uwait_for(w, until);
	if (rc != 0) {
		ulock_get(&j->j_lock);
		if (j->j_wait == w)
			j->j_wait = NULL;
		ulock_put(&j->j_lock);
	}
	uwait_free(w);
	return rc;
}

/* Frees t, which has ended, and which self has joined; NULL: natively. */
static void join_free(struct uproc_thread *t, struct uproc_thread *self)
{
	struct uproc *p = uproc_of(t);

	if (!uwakes_leave(&t->t_wakes))
		return;
	if (self != NULL)
		uproc_free(uproc_of(self), t);
	else
		free_natively(p, t);
}

static int join(struct uproc_thread *t, struct uproc_thread *self, utime_ns until)
{
	int rc;

	/* Atomic: the processor of t may be changing the scheduler's bits. */
	if (!(__atomic_load_n(&t->t_stack.u_mark, __ATOMIC_RELAXED) &
	      UPROC_JOIN))
		return refused(t, "is not joinable");
	if (until < 0)
		return -EINVAL;
	if (self == t) {
		(void)refused(t, "joins itself");
		return -EDEADLK;
	}
	usched_point();
	rc = join_wait(t, until);
	if (rc == 0)
		join_free(t, self);
	return rc;
}

int uproc_join(struct uproc_thread *t)
{
	struct uproc_thread *self;

	uproc_live(t, "join");
	if (unlikely(was_freed(t)))
		return refused(t, "was joined before, or freed at its end");
	if (uproc_inherited(uproc_of(t)->p_set))
		return -ECHILD;
	self = uproc_self(uproc_of(t)->p_set);
	return self != NULL ? join(t, self, UNEVER) : -EINVAL;
}

int uproc_join_until(struct uproc_thread *t, utime_ns until)
{
	struct uproc_set *set;

	uproc_live(t, "join");
	if (unlikely(was_freed(t)))
		return refused(t, "was joined before, or freed at its end");
	set = uproc_of(t)->p_set;
	if (uproc_inherited(set))
		return -ECHILD;
	if (uproc_self(set) == NULL &&
	    (ustack_self() != NULL || uproc_native() != NULL))
		return -EINVAL;
	return join(t, uproc_self(set), until);
}

#if defined(USCHED_HARD)
void uproc_stays(const struct uproc_thread *t)
{
	/* A generator fails at its block, for any scheduler. */
	if (t->t_stack.u_sched->s_done != thread_done &&
	    !t->t_stack.u_sched->s_coroutine)
		uproc_fail("wait: called in a thread of another scheduler; "
			   "u_wait_until(UNEVER) waits in all");
}
#endif

int uproc_yield(void)
{
	struct uproc_thread *t = (struct uproc_thread *)ustack_self();
	struct uproc *p;
	int rc;

	if (t == NULL || t->t_stack.u_sched->s_done != thread_done)
		uproc_fail("yield: called outside of a thread of this scheduler; "
			   "u_sleep(UNOW) gives way in all");
	usched_point();
	p = uproc_of(t);
	uproc_queue_put(&p->p_queue, t);
	rc = ustack_block();
	if (rc != 0)
		p->p_queue.q_tail--;
	return rc;
}

const struct uproc_watch *uproc_watch;

/* Wakes t, which then sees what the waker has written before: R3 in wakes.h. */
void uproc_post(struct uproc_thread *t)
{
	struct uproc *p;

	uproc_live(t, "post");
	UPROC_WATCH(pw_posted(t, false));
	p = uproc_of(t);
	if (uwakes_post(&t->t_wakes, &p->p_inbox))	/* t may be freed */
		uidle_wake(&p->p_set->set_idle, &p->p_asleep);
}

/* Sleeping. */

void uproc_give_way(unsigned nr)
{
	long ns = NAP_MIN;
	int never = 0;

	if (nr <= YIELDS) {
		(void)sched_yield();
		return;
	}
	while (--nr > YIELDS && ns < NAP_MAX)
		ns *= 2;
	upark_futex_wait_for(&never, 0, ns < NAP_MAX ? ns : NAP_MAX);
}

/* Takes what has come to p, except for events from outside. */
static void drain(struct uproc *p)
{
	struct uwakes *w;
	int nr;

	while ((w = uwakes_take(&p->p_inbox, &nr)) != NULL) {
		struct uproc_thread *t = (struct uproc_thread *)((char *)w -
			offsetof(struct uproc_thread, t_wakes));

		if (UPROC_LIKELY(nr > 0)) {
			ring_move(p);
			ready(p, t, nr);
		} else if (nr == UWAKES_FREE)
			uproc_free(p, t);
	}
	if (uwait_must_look(&p->p_waits))
		uwait_look(&p->p_waits);
	p->p_sched.s_ahead = __atomic_load_n(&p->p_threads, __ATOMIC_RELAXED) >
		UPROC_LANE_NR ? UPROC_AHEAD : 0;
}

/* Returns after how many switches the clock is asked again: LOOKS. */
static unsigned runs_each(const struct uproc *p)
{
	utime_ns run = p->p_round.r_run;

	return run <= ASK / ROUND ? ROUND : run < ASK ? ASK / run : 1;
}

/* Returns the switch that ends the round. */
static unsigned round_last(const struct uproc *p)
{
	return (p->p_round.r_began | (ROUND - 1)) + 1;
}

/* Asks again as soon as that is needed. */
static void ask_next(struct uproc *p, unsigned switches)
{
	unsigned left = round_last(p) - switches;
	unsigned nr = p->p_waits.wb_looked != 0 ? runs_each(p) : ROUND;

	p->p_round.r_ask = switches + (nr < left ? nr : left);
}

/* Asks the clock, and learns how long threads run. */
static utime_ns runs_learn(struct uproc *p, unsigned switches)
{
	struct uproc_round *r = &p->p_round;
	unsigned nr = switches - r->r_asked;
	utime_ns now = unow();

	if (nr > 0 && (now - r->r_at) / nr > r->r_run)
		r->r_run = (now - r->r_at) / nr;
	r->r_asked = switches;
	r->r_at = now;
	return now;
}

int uproc_ask(struct uproc *p, unsigned switches)
{
	utime_ns looked = p->p_waits.wb_looked;

	if ((int)(round_last(p) - switches) <= 0)
		return true;
	if (looked != 0 && runs_learn(p, switches) - looked +
	    runs_each(p) * p->p_round.r_run > UWAIT_LATE)
		return true;
	ask_next(p, switches);
	return false;
}

void uproc_round_end(struct uproc *p, unsigned switches)
{
	struct uproc_round *r = &p->p_round;

	if (p->p_waits.wb_looked != 0 && switches != r->r_asked)
		(void)runs_learn(p, switches);
	r->r_came = !uinbox_empty(&p->p_inbox) || uwait_posted(&p->p_waits);
}

void uproc_round_begin(struct uproc *p, unsigned switches)
{
	struct uproc_round *r = &p->p_round;
	bool timed = (r->r_came || runs_each(p) < ROUND ||
		      uwait_due(&p->p_waits) != UNEVER ||
		      uwait_outside(&p->p_waits)) && !utime_is_virtual();

	if (switches != r->r_began && p->p_waits.wb_looked != 0)
		r->r_run -= r->r_run / 8;
	p->p_waits.wb_looked = timed ? unow() : 0;
	r->r_began = r->r_asked = switches;
	r->r_at = p->p_waits.wb_looked;
	ask_next(p, switches);
}

/* Returns whether no other processor runs the threads of a lane: mv_has() */
static bool has(const struct uproc *p, int lane)
{
	const struct uproc_move_ops *m = &p->p_set->set_ops.op_move;

	return m->mv_has != NULL ? m->mv_has(p, lane) : m->mv_lanes == lanes_each;
}

/* Looks at some private lanes at the time now, and ends the pass at the last. */
static void cool(struct uproc *p, int nr, utime_ns now)
{
	struct uproc_cool *c = &p->p_cool;
	int last = usched_private_nr(p->p_sched.s_private);

	if (c->c_at == 0)
		c->c_more = false;
	for (; nr > 0 && c->c_at < last; nr--) {
		c->c_at++;
		c->c_more |= usched_cool(&p->p_sched, c->c_at,
					 has(p, p->p_sched.s_lane_nr + c->c_at));
	}
	if (c->c_at >= last)
		c->c_at = 0;
	c->c_due = now + (c->c_at != 0 ? COOL_STEP : COOL_EACH);
}

void uproc_cool_in_time(struct uproc *p)
{
	utime_ns now = p->p_waits.wb_looked != 0 ? p->p_round.r_at :
		++p->p_cool.c_looks % COOL_LOOKS == 0 ? unow() : 0;

	if (now > p->p_cool.c_due && !utime_is_virtual())
		cool(p, COOL_NR, now);
}

void uproc_drain(struct uproc *p)
{
	uproc_round_end(p, p->p_switches);
	if (ustack_self() == NULL)	/* in s_next() */
		uproc_cool_in_time(p);
	if (uwait_outside(&p->p_waits))
		uwait_look_outside(&p->p_waits);
	drain(p);
	uproc_round_begin(p, p->p_switches);
}

/*
 * Gives back memory that p may not need soon, after its nth sleep in a row without a
 * wake. First what it keeps for work to come, then lanes.
 */
static void rest(struct uproc *p, int nth)
{
	const struct usched *s = &p->p_sched;
	int i, nr = s->s_lane_nr + usched_private_nr(s->s_private);

	if (nth > 1) {
		p->p_cool.c_at = 0;	/* all of them */
		cool(p, INT_MAX, unow());
		return;
	}
	umem_pool_trim(&p->p_pool);
	for (i = 1; i <= nr; i++) {
		if (has(p, i))
			usched_trim_lane(&p->p_sched, i, REST_STACK);
	}
}

utime_ns uproc_rest_in(const struct uproc *p, struct uproc_rests *r)
{
	const struct uproc_cool *c = &p->p_cool;
	utime_ns now = unow();

	if (r->r_due == 0 && (utime_is_virtual() || (r->r_nr > 1 && !c->c_more) ||
	    (r->r_nr > 0 && usched_private_nr(p->p_sched.s_private) == 0)))
		r->r_due = UNEVER;
	else if (r->r_due == 0)
		r->r_due = r->r_nr == 0 || now >= c->c_due ? now + REST : c->c_due;
	return r->r_due == UNEVER ? UNEVER : now < r->r_due ? r->r_due - now : 1;
}

void uproc_rest(struct uproc *p, struct uproc_rests *r)
{
	if (r->r_due == UNEVER || unow() < r->r_due)
		return;
	rest(p, ++r->r_nr);
	r->r_due = 0;
}

/* Returns the next deadline of the set, whose processors sleep, or UNEVER. */
static utime_ns next_due(struct uproc_set *set)
{
	utime_ns due = UNEVER;
	int i;

	for (i = 0; i < set->set_nr; i++) {
		utime_ns next = uwait_due(&uproc_nth(set, i)->p_waits);

		if (next < due)
			due = next;
	}
	return due;
}

/*
 * Lets virtual time jump to the next deadline of the set, and wakes the
 * processors that have it. All processors sleep but the caller, and there is no
 * hold but that of the caller. False: there is no deadline.
 */
static bool jump(struct uproc_set *set)
{
	utime_ns due = next_due(set);
	int i;

	if (due == UNEVER)
		return false;
	USCHED_RACE(proc_jump);
	utime_jump(due);
	for (i = 0; i < set->set_nr; i++) {
		struct uproc *q = uproc_nth(set, i);

		if (uwait_due(&q->p_waits) <= due)
			uidle_wake(&set->set_idle, &q->p_asleep);
	}
	return true;
}

bool uproc_may_jump(struct uproc *p)
{
	struct uproc_set *set = p->p_set;

	return utime_is_virtual() &&
		__atomic_load_n(&set->set_idle, __ATOMIC_SEQ_CST) ==
		set->set_nr - 1 && next_due(set) != UNEVER;
}

void uproc_jump(struct uproc *p)
{
	(void)jump(p->p_set);
}

/* Sleeps after uidle_enter(), in a source (uwait.h) or in the system. */
static bool sleep_entered(struct uproc *p, utime_ns ns)
{
	if (unlikely(uproc_watch != NULL))
		ns = uproc_watch->pw_sleeps(ns);
	uwait_sleep_outside(&p->p_waits, &p->p_asleep, ns);
	UPROC_WATCH(pw_awake(p));
	return uidle_awake(&p->p_set->set_idle, &p->p_asleep);
}

/* Sleeps under virtual time, or lets the clock jump instead (P9). */
static bool sleep_virtual(struct uproc *p, utime_ns ns)
{
	struct uproc_set *set = p->p_set;
	int *idle = &set->set_idle;

	if (!uidle_enter_unless_last(idle, set->set_nr)) {
		if (next_due(set) != UNEVER) {
			uidle_stay(idle, &p->p_asleep);
			return jump(set);
		}
		(void)uidle_enter(idle, set->set_nr);
	}
	return sleep_entered(p, ns);
}

bool uproc_sleep(struct uproc *p, utime_ns ns)
{
	struct uproc_set *set = p->p_set;
	utime_ns due = uwait_due(&p->p_waits);
	bool woken;

	if (utime_is_virtual())
		return sleep_virtual(p, ns);
	if (due != UNEVER) {
		uidle_hold(&set->set_idle);			/* P8 */
		due -= unow();
		if (due < ns)
			ns = due > 0 ? due : 0;
	}
	(void)uidle_enter(&set->set_idle, set->set_nr);
	woken = sleep_entered(p, ns);
	if (due != UNEVER)
		uidle_unhold(&set->set_idle);
	return woken;
}

void uproc_shuffle(struct uproc *p)
{
	const struct usched_queue *q = &p->p_queue;
	struct ustack **first = &q->q_ring[q->q_head & q->q_mask];
	struct ustack *was = *first;
	struct ustack **drawn;

	p->p_random = p->p_random * 1664525u + 1013904223u;
	drawn = &q->q_ring[(q->q_head + (unsigned)((uint64_t)p->p_random *
			    uproc_queue_len(q) >> 32)) & q->q_mask];
	*first = *drawn;
	*drawn = was;
}

/*
 * Looks outside if it is time, and p has not just looked. The queue of p may be
 * empty whenever p comes here, and yet p never sleep: others wake its threads as
 * fast as they run.
 */
static void look_in_time(struct uproc *p, bool looked)
{
	if (!looked && uwait_outside(&p->p_waits)) {
		if (!uproc_ask(p, p->p_switches))
			return;
		uwait_look_outside(&p->p_waits);
	}
	uproc_round_begin(p, p->p_switches);
}

/* Returns how many threads set has, once no thread runs. */
static long threads_left(const struct uproc_set *set)
{
	unsigned nr = 0;	/* only the sum counts: threads end elsewhere */
	int i;

	for (i = 0; i < set->set_nr; i++) {
		const struct uproc *p = uproc_nth(set, i);

		nr += __atomic_load_n(&p->p_threads, __ATOMIC_RELAXED) +
		      __atomic_load_n(&p->p_made, __ATOMIC_RELAXED);
	}
	return nr;
}

/*
 * Returns whether p, alone in its set, may end by itself: fini waits for the end,
 * and no thread, no hold and no deadline is left. Nothing can come then. So fini
 * need not wake p to tell it: P10. Holds are looked at first, since the holder may
 * make a thread before it releases.
 */
static bool may_end(struct uproc *p)
{
	const struct uproc_set *set = p->p_set;

	if (set->set_nr != 1 || utime_is_virtual() ||
	    !__atomic_load_n(&set->set_fini, __ATOMIC_ACQUIRE) ||
	    __atomic_load_n(&set->set_idle, __ATOMIC_SEQ_CST) != 0)
		return false;
	USCHED_RACE(proc_alone);
	return threads_left(set) == 0 && uwait_due(&p->p_waits) == UNEVER &&
		uinbox_empty(&p->p_inbox) && !uwait_posted(&p->p_waits);
}

/*
 * While few threads are alive, each may have a lane for itself, unless those that
 * wake each other run in turn anyway (op_soon), addresses are limited, or mappings
 * lacked at the start.
 */
static void note_few(struct uproc *p)
{
	const struct uproc_set *set = p->p_set;

	p->p_sched.s_few = set->set_few &&
		set->set_lane_nr == UPROC_LANE_NR &&
		__atomic_load_n(&p->p_threads, __ATOMIC_RELAXED) <= FEW;
}

int uproc_look(struct uproc *p)
{
	struct uproc_set *set = p->p_set;
	int spin = set->set_spare && !utime_is_virtual() ? UPROC_SPIN : 0;
	unsigned tries = 0;
	struct uproc_rests rests = { 0, 0 };
	bool looked = false;

	note_few(p);
	uproc_round_end(p, p->p_switches);
	uproc_cool_in_time(p);
	if (uwait_outside(&p->p_waits)) {
		spin   = 0;		/* a sleep is a look, and costs no more */
		looked = !uproc_queue_empty(&p->p_queue);
		if (looked)
			uwait_look_outside(&p->p_waits);
	}
	for (;;) {
		drain(p);
		if (!uproc_queue_empty(&p->p_queue)) {
			look_in_time(p, looked);
			if (p->p_random != 0)
				uproc_shuffle(p);
			return true;
		}
		if (uproc_stopped(set))
			return false;
		if (may_end(p)) {
			(void)uidle_enter(&set->set_idle, set->set_nr);
			return false;
		}
		if (spin-- > 0) {
			uproc_relax();
			continue;
		}
		spin = 0;
		USCHED_RACE(proc_S1);
		upark_prepare(&p->p_asleep);			/* S1 S2 */
		USCHED_RACE(proc_S3);
		if ((!uinbox_empty(&p->p_inbox) ||		/* S3 */
		     uwait_posted(&p->p_waits) || uproc_is_due(p) ||
		     uproc_stopped(set)) &&
		    upark_cancel(&p->p_asleep)) {
			uproc_pause(&tries);	/* a post may be half-way */
			continue;
		}
		if (!uproc_sleep(p, uproc_rest_in(p, &rests)))		/* S4 */
			uproc_rest(p, &rests);
		looked = true;
		tries = 0;
	}
}

void uproc_hold(struct uproc_set *set)
{
	if (set == NULL)
		return;
	if (__atomic_load_n(&set->set_idle, __ATOMIC_RELAXED) <= -HOLDS_MOST)
		usched_fail("hold: there are 2^30 holds without a release");
	hold_count(set, 1);
	uidle_hold(&set->set_idle);
}

void uproc_release(struct uproc_set *set)
{
	if (set == NULL)
		return;
	hold_count(set, -1);
	while (utime_is_virtual()) {					/* P9 */
		if (uidle_enter_unless_last(&set->set_idle, set->set_nr))
			return;
		if (!jump(set))
			break;
	}
	uidle_release(&set->set_idle);
}

/* Cpus. */

/* Returns the cpus of the caller's set; if it is no processor, its own. */
static struct ucpus *cpus_of_caller(void)
{
	struct uproc *p = uproc_native();

	return p != NULL ? ucpus_copy(p->p_set->set_cpus) : ucpus_get();
}

int uproc_cpus(void)
{
	struct ucpus *c = cpus_of_caller();
	int nr, most = ucpus_most();

	if (c == NULL)
		return -ENOMEM;
	nr = ucpus_nr(c);
	free(c);
	if (nr == 0)
		nr = (int)sysconf(_SC_NPROCESSORS_ONLN);
	nr = nr < most ? nr : most;
	return nr > 0 ? nr : 1;
}

bool uproc_pin(bool on)
{
	struct uproc *p = uproc_native();
	bool was = p != NULL && p->p_pinned;

	if (p == NULL || was == on || !p->p_set->set_pinned)
		return was;
	if (on)
		ucpus_use_nth(p->p_set->set_cpus, p->p_nr);
	else
		ucpus_use(p->p_set->set_cpus);
	p->p_pinned = on;
	return was;
}

int uproc_pinning(struct uproc_set *set, int on)
{
	int rc;

	if (uproc_here(set) != NULL) {
		(void)uproc_pin(on != 0);
		return 0;
	}
	rc = is_new(set);
	if (rc == 0)
		set->set_pins = on != 0;
	return rc;
}

/* Variables of the environment. */

static struct usched_env env_pin = {
	.e_name = "USCHED_PIN", .e_known = "0, 1"
};
static struct usched_env env_stacks = {
	.e_name = "USCHED_STACKS", .e_known = "private, shared"
};
/* From LANE_MIN to INT_MAX. */
static struct usched_env env_size = {
	.e_name  = "USCHED_STACK_SIZE",
	.e_known = "16384-2147483647, 16k-2097151k, 1M-2047M"
};
_Static_assert(LANE_MIN == 16384 && INT_MAX == 2147483647,
	       "env_size has other numbers");

static __attribute__((constructor)) void env_set_load(void)
{
	(void)usched_env_add(&env_pin);
	(void)usched_env_add(&env_stacks);
	(void)usched_env_add(&env_size);
}

/* Decides whether processors are pinned. The environment overrides all else. */
static void pinned_init(struct uproc_set *set)
{
	const char *value = usched_env(&env_pin);

	set->set_pinned = set->set_pins < 0 ? set->set_nr > 1 : set->set_pins;
	if (value != NULL)
		set->set_pinned = strcmp(value, "0") != 0;
}

/* fork(): see FORK above. */

int uproc_forks;

/* Call-backs of the dispatcher in the child that one of its threads forked. */

static __attribute__((noreturn, cold)) void lost(void)
{
	usched_fail("fork: the child of a thread cannot wait, yield or end as "
		    "that thread: it must exec, _exit, or start a scheduler "
		    "of its own");
}

static struct ustack *lost_next(struct usched *s)
{
	(void)s;
	lost();
}

static void *lost_alloc(struct usched *s, int size)
{
	(void)s;
	(void)size;
	lost();
}

bool uproc_lost(void)
{
	const struct ustack *u = ustack_self();

	return u != NULL && u->u_sched->s_next == lost_next;
}

void uproc_fail(const char *misuse)
{
	if (uproc_lost())
		lost();
	usched_fail(misuse);
}

/* Called in the child, by the native thread that has called fork(). */
static void in_child(void)
{
	struct uproc *p = mine;

	uproc_forks++;
	if (p == NULL)
		return;
	(void)uproc_pin(false);
	mine = NULL;
	p->p_sched.s_next    = lost_next;
	p->p_sched.s_alloc   = lost_alloc;
	p->p_sched.s_done    = NULL;
	p->p_sched.s_again   = NULL;
	p->p_sched.s_preempt = NULL;
	p->p_waits.wb_looked = 0;	/* calls do not give way */
	if (p->p_set->set_ops.op_move.mv_forked != NULL)
		p->p_set->set_ops.op_move.mv_forked(p);
}

static struct ufork at_fork = {
	.f_rank = UFORK_PROCESSORS, .f_child = in_child
};
UFORK(at_fork)

/* The set: from its beginning to its end. */

/* Returns 0 if set can still be changed or started, else -errno. */
static int is_new(const struct uproc_set *set)
{
	if (set == NULL)
		return -EINVAL;
	if (uproc_inherited(set))
		return -ECHILD;
	return set->set_running > 0 ? -EBUSY : 0;
}

int uproc_none(const struct uproc_ops *o, const char *call)
{
	usched_message("%s%s: %sinit() was not called before, or failed",
		       ops_name(o), call, ops_name(o));
	return -EINVAL;
}

int uproc_stack_size(struct uproc_set *set, size_t size)
{
	int rc = size < LANE_MIN || size > INT_MAX ? -EINVAL : is_new(set);

	if (rc == 0 && !set->set_sized)
		set->set_stack = size;
	return rc;
}

/* Defined by files that were compiled without USCHED_PREEMPT. */
#if defined(__ELF__)
extern __attribute__((weak)) char uproc_inlined;
#define INLINED		(&uproc_inlined != NULL)
#else
#define INLINED		true
#endif

int uproc_preempt(struct uproc_set *set)
{
	int rc = is_new(set);
	int i;

	if (rc != 0)
		return rc;
	if (INLINED)
		return -ENOTSUP;
	for (i = 0; i < set->set_nr; i++)
		uproc_nth(set, i)->p_sched.s_preempt = set->set_ops.op_preempt;
	return 0;
}

static int proc_init(struct uproc *p, struct uproc_set *set, int nr,
		     unsigned room)
{
	const struct uproc_ops *o = &set->set_ops;

	p->p_set   = set;
	p->p_nr    = nr;
	p->p_room  = room;
	p->p_private = set->set_private > 0 ? UPROC_PRIVATE : 0;
	p->p_sched = (struct usched) {
		.s_next  = o->op_next,
		.s_alloc = buf_alloc,
		.s_free  = buf_free,
		.s_done  = o->op_move.mv_done,
		.s_again = o->op_move.mv_again,
		.s_wait  = o->op_move.mv_wait,
		.s_wake  = any_wake,
		.s_make  = any_make,
		.s_waits = &p->p_waits,
#if defined(USCHED_HARD)
		.s_preempt = o->op_preempt	/* for usched_point() */
#endif
	};
	uwait_base_init(&p->p_waits, &p->p_sched, o->op_move.mv_waits);
	p->p_round.r_run = UWAIT_LATE;
	if (utime_seed() != 0)		/* 0 is no state of the generator */
		p->p_random = (unsigned)(utime_seed() + nr) * 2654435769u | 1;
	umem_pool_init(&p->p_pool, &set->set_mem);
	umem_pool_init(&p->p_outer, &set->set_mem);
	uinbox_init(&p->p_inbox);
	p->p_queue.q_mask = room - 1;
	p->p_queue.q_ring = umem_array(room);
	if (p->p_queue.q_ring == NULL)
		return -ENOMEM;
	return o->op_init != NULL ? o->op_init(p) : 0;
}

/* Frees the sources of events. All processors share them, or none do. */
static void sources_free(struct uproc_set *set)
{
	struct uwait_base locals = { .wb_source = NULL };
	const struct uwait_source *shared;
	int i;

	for (i = 0; i < set->set_nr; i++)
		uwait_locals_move(&uproc_nth(set, i)->p_waits, &locals);
	shared = uproc_nth(set, 0)->p_waits.wb_source;
	for (i = 1; i < set->set_nr; i++)
		if (uproc_nth(set, i)->p_waits.wb_source != shared)
			uwait_sources_fini(&uproc_nth(set, i)->p_waits);
	uwait_sources_fini(&uproc_nth(set, 0)->p_waits);
	uwait_sources_fini(&locals);	/* last: see there */
}

static void set_free(struct uproc_set *set)
{
	int i;

	if (set->set_proc != NULL)
		sources_free(set);
	if (set->set_calls != NULL)
		set->set_calls_fini(set->set_calls);
	for (i = 0; set->set_proc != NULL && i < set->set_nr; i++) {
		struct uproc *p = uproc_nth(set, i);

		graves_drop(p);
		usched_fini(&p->p_sched);
		free(p->p_queue.q_ring);
		free(p->p_ring);
		if (set->set_ops.op_fini != NULL)
			set->set_ops.op_fini(p);
	}
	umem_fini(&set->set_mem);
	free(set->set_proc);
	free(set->set_native);
	free(set->set_cpus);
	pthread_mutex_destroy(&set->set_lock);
	free(set);
}

static void *zeroed(size_t size)
{
	void *mem = NULL;

	if (posix_memalign(&mem, UPROC_LINE, size) != 0)
		return NULL;
	return memset(mem, 0, size);
}

/* Copies *given, and fills in the members that rr and ll leave out. */
static void ops_init(struct uproc_ops *o, const struct uproc_ops *given)
{
	struct uproc_move_ops *m = &o->op_move;

	*o = *given;
	if (o->op_size == 0)
		o->op_size = sizeof(struct uproc);
	if (o->op_thread == 0)
		o->op_thread = sizeof(struct uproc_thread);
	if (o->op_preempt == NULL)
		o->op_preempt = preempt;
	if (m->mv_lanes == NULL)
		m->mv_lanes = lanes_each;
	if (m->mv_done == NULL)
		m->mv_done = thread_done;
	if (m->mv_wait == NULL)
		m->mv_wait = wait_here;
	if (m->mv_wake == NULL)
		m->mv_wake = wake;
	if (m->mv_waits == NULL)
		m->mv_waits = &wait_ops;
	if (m->mv_make == NULL)
		m->mv_make = make_dealt;
}

/* Reads USCHED_STACKS and USCHED_STACK_SIZE. */
static void stacks_init(struct uproc_set *set)
{
	static const int shift[] = { 0, 10, 20 };
	const char *value = usched_env(&env_stacks);
	unsigned long long nr;
	int i = usched_env_word(&env_stacks, &value, &nr);

	set->set_private = i < 0 ? -1 : i == 0;
	value = usched_env(&env_size);
	i = usched_env_word(&env_size, &value, &nr);
	if (i < 0)
		return;
	set->set_stack = (size_t)nr << shift[i];
	set->set_sized = true;
}

/* Makes a set without processors. 0 or -errno. */
static int set_make(struct uproc_set **out, int proc_nr,
		    const struct uproc_ops *ops)
{
	struct uproc_set *set = zeroed(sizeof *set);
	int rc;

	if (set == NULL)
		return -ENOMEM;
	rc = umem_init(&set->set_mem);
	if (rc != 0) {
		free(set);
		return rc;
	}
	rc = pthread_mutex_init(&set->set_lock, NULL);
	if (rc != 0) {
		umem_fini(&set->set_mem);
		free(set);
		return -rc;
	}
	ops_init(&set->set_ops, ops);
	set->set_nr    = proc_nr;
	set->set_forks = INT_MAX;
	set->set_stack = LANE_SIZE;
	set->set_pins  = -1;
	if (STUCK_NAMES)
		usched_name_by(usymbol_function);
	*out = set;
	stacks_init(set);
	return 0;
}

/*
 * Makes the processors of a new set. 0, or -errno: the caller calls set_free(),
 * which frees all that was made.
 */
static int procs_init(struct uproc_set *set, int thread_nr)
{
	int nr = set->set_nr;
	unsigned room;
	int rc = 0;
	int i;

	set->set_share  = thread_nr / nr + (thread_nr % nr != 0);
	set->set_proc   = zeroed(nr * set->set_ops.op_size);
	set->set_native = calloc(nr, sizeof *set->set_native);
	set->set_cpus   = cpus_of_caller();
	if (set->set_proc == NULL || set->set_native == NULL ||
	    set->set_cpus == NULL)
		return -ENOMEM;
	for (room = RING_MIN; room < (unsigned)thread_nr / nr &&
	     room < ROOM_HINT; )
		room *= 2;
	for (i = 0; i < nr && rc == 0; i++)
		rc = proc_init(uproc_nth(set, i), set, i, room);
	return rc;
}

/* Refuses a second scheduler of a kind. */
static NOINLINE int second(const struct uproc_ops *ops)
{
	usched_message("%sinit: there is a scheduler already, until %sfini()",
		       ops_name(ops), ops_name(ops));
	return -EBUSY;
}

/*
 * Makes a set in the place of was, unless another caller is faster. A child that
 * was forked meanwhile finds a set of its parent.
 */
static int make_in_place(struct uproc_set **out, struct uproc_set *was,
			 const struct uproc_ops *ops, int proc_nr,
			 int thread_nr)
{
	struct uproc_set *set = NULL;
	int rc = set_make(&set, proc_nr, ops);

	if (rc != 0)
		return rc;
	set->set_forks = uproc_forks;
	if (!__atomic_compare_exchange_n(out, &was, set, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED)) {
		set_free(set);
		return second(ops);
	}
	rc = procs_init(set, thread_nr);
	if (rc == 0)
		set->set_forks = INT_MAX;
	else {
		__atomic_store_n(out, was, __ATOMIC_RELEASE);
		set_free(set);
	}
	return rc;
}

int uproc_init(struct uproc_set **out, const struct uproc_ops *ops,
	       int proc_nr, int thread_nr)
{
	struct uproc_set *was = __atomic_load_n(out, __ATOMIC_ACQUIRE);
	int rc;

	if (was != NULL && !uproc_inherited(was))
		return second(ops);
	if (usched_env_check() != 0)
		return -EINVAL;
	if (proc_nr == 0)
		proc_nr = UPROC_SINGLE ? 1 : uproc_cpus();
	if (proc_nr == -ENOMEM)
		return proc_nr;
	if (proc_nr < 1 || thread_nr < 0 || (UPROC_SINGLE && proc_nr > 1) ||
	    proc_nr > UPROC_MOST)
		return -EINVAL;
	(void)ws_fence_init();		/* if it fails, it is only slower */
	rc = ufork_watch();
	return rc != 0 ? rc : make_in_place(out, was, ops, proc_nr, thread_nr);
}

/*
 * The native thread of a processor has a value of this key while it runs, so
 * its end by pthread_exit() is seen. A clean-up handler would not do: with
 * -fexceptions it is a frame, and the unwinding of a lane never comes to that.
 *
 * A process has some 1000 keys, and may load and unload the library more often.
 * So the unload deletes the key. exit() deletes the key too, while processors may
 * still run. From then on they leave the key alone, and no pthread_exit() is seen.
 */
static pthread_key_t native_key;
static int           native_key_made;	/* atomic: no bool, a call on RISC-V */

/*
 * Fails: the others would wait for this processor for ever. In the child of a
 * fork() it is none, so the thread that has forked may call pthread_exit().
 */
static void native_left(void *p)
{
	const struct ustack *u = ustack_self();
	struct stuck_text who;

	if (mine != p)
		return;
	usched_last_message("pthread_exit: %s has ended the native thread of its "
			    "processor: a thread ends by the return of its function",
			    u != NULL ? stuck_who(&who, u) : "a cancellation");
	usched_fail("pthread_exit: a processor has lost its native thread");
}

static __attribute__((constructor)) void native_key_load(void)
{
	__atomic_store_n(&native_key_made,
			 pthread_key_create(&native_key, native_left) == 0,
			 __ATOMIC_RELEASE);	/* native_mark() */
}

static __attribute__((destructor)) void native_key_unload(void)
{
	if (__atomic_exchange_n(&native_key_made, false, __ATOMIC_ACQ_REL))
		(void)pthread_key_delete(native_key);
}

/* Lets the end of the caller be seen (p), or not (NULL). */
static void native_mark(const struct uproc *p)
{
	if (__atomic_load_n(&native_key_made, __ATOMIC_ACQUIRE))
		(void)pthread_setspecific(native_key, p);	/* else no message */
}

static void *native(void *arg)
{
	struct uproc *p = arg;
	struct uproc_set *set = p->p_set;
	void *guard;
	int go;

	mine = p;
	p->p_pinned = false;	/* a start that failed may have left it set */
	(void)uproc_pin(true);
	while ((go = __atomic_load_n(&set->set_go, __ATOMIC_ACQUIRE)) == 0)
		upark_futex_wait(&set->set_go, 0);
	if (go > 0) {
		note_few(p);
		__atomic_store_n(&p->p_runs, usched_current_at(), __ATOMIC_RELAXED);
		guard = usched_guard_begin();
		native_mark(p);
		usched_run(&p->p_sched);
		native_mark(NULL);
		usched_guard_end(guard);
	}
	return NULL;
}

/* Returns how many lanes each processor has, unless memory or mappings lack. */
static int lane_nr(const struct uproc_set *set)
{
	int nr = UPROC_LANE_NR;

	while (nr > UPROC_LANE_FEW && nr > UPROC_LANE_ALL / set->set_nr)
		nr /= 2;
	while (nr > 1 && nr > UPROC_LANE_MOST / set->set_nr)
		nr /= 2;
	return nr;
}

/* Maps lanes for each processor. 0 or -errno. */
static int lanes_each(struct uproc_set *set)
{
	int rc = 0;
	int i;

	for (i = 0; i < set->set_nr && rc == 0; i++)
		rc = usched_lanes(&uproc_nth(set, i)->p_sched, set->set_lane_nr,
				  set->set_stack);
	return rc;
}

/* Reads a file of the system, in parts. Returns the lines, up to most. */
static size_t lines_in(const char *path, size_t most, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t nr = 0;
	ssize_t nob = fd >= 0 ? 1 : -1;
	char *at;

	while (nob > 0 && nr < most) {
		nob = read(fd, text, size);
		for (at = text; at < text + nob; at++)
			nr += *at == '\n';
	}
	if (fd >= 0)
		(void)close(fd);
	return nob == 0 && nr < most ? nr : most;
}

/* Returns the number with which a file of the system begins; 0: there is none. */
static size_t number_in(const char *path)
{
	char text[256] = "";		/* has the whole line */

	(void)lines_in(path, 1, text, sizeof text - 1);
	return strtoul(text, NULL, 10);
}

/* Returns whether the system says that nr mappings are left. */
static bool maps_left(size_t nr)
{
	size_t most = number_in("/proc/sys/vm/max_map_count");
	size_t now = number_in("/proc/self/statm");	/* pages */
	char text[4096];

	if (now != 0 && now + nr <= most)
		return true;
	now  = lines_in("/proc/self/maps", MAPS_COUNTED, text, sizeof text);
	return now < MAPS_COUNTED && now + nr <= most;
}

/* Makes up to nr mappings, of a page each. NULL: no mapping is left. */
static void *reserve(size_t nr)
{
	size_t page = sysconf(_SC_PAGESIZE);
	size_t i;
	char *map;

	map = mmap(NULL, nr * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0);
	if (map == MAP_FAILED)
		return NULL;
	for (i = 1; i < nr; i += 2) {
		if (mprotect(map + i * page, page, PROT_READ) != 0)
			break;
	}
	return map;
}

static void release(void *map, size_t nr)
{
	if (map != NULL)
		munmap(map, nr * sysconf(_SC_PAGESIZE));
}

/* Maps the guards of all lanes now. 0 or -errno. */
static int lanes_guard(struct uproc_set *set)
{
	int rc = 0;
	int i, lane;

	for (i = 0; i < set->set_nr; i++) {
		struct usched *s = &uproc_nth(set, i)->p_sched;

		for (lane = 1; lane <= s->s_lane_nr && rc == 0; lane++)
			rc = usched_lane_guard(s, lane);
	}
	return rc;
}

/* Maps lanes, if they leave the reserve, which is free afterwards (P6). */
static int lanes_reserving(struct uproc_set *set)
{
	size_t lanes = MAPS_LANES * (size_t)set->set_nr;
	size_t more  = MAPS_NATIVE * (size_t)set->set_nr + MAPS_MORE;
	bool enough = maps_left(lanes + more + MAPS_LANE *
				(size_t)set->set_lane_nr * (size_t)set->set_nr);
	void *first = enough ? NULL : reserve(lanes); /* in case not even */
	void *map = enough ? NULL : reserve(more);    /* more is left */
	int rc;

	release(first, lanes);
	rc = set->set_ops.op_move.mv_lanes(set);
	if (rc == 0 && !enough)
		rc = lanes_guard(set);
	release(map, more);
	if (rc == -ENOSYS)
		set->set_on_native = true;
	return rc == -ENOSYS ? 0 : rc;
}

static void lanes_free(struct uproc_set *set)
{
	int i;

	for (i = 0; i < set->set_nr; i++)
		usched_fini(&uproc_nth(set, i)->p_sched);
}

static void go(struct uproc_set *set, int how)
{
	__atomic_store_n(&set->set_go, how, __ATOMIC_RELEASE);
	upark_futex_wake(&set->set_go);
}

static void native_join(struct uproc_set *set)
{
	while (set->set_running > 0) {
		int rc = pthread_join(set->set_native[--set->set_running],
				      NULL);
		if (rc != 0)
			usched_fail("fini: called by a native thread of the set");
	}
}

static int native_start(struct uproc_set *set)
{
	pthread_attr_t attr;
	size_t size;
	bool pinned;
	int rc;

	rc = pthread_attr_init(&attr);
	if (rc != 0)
		return -rc;
	pinned = uproc_pin(false);
	rc = pthread_attr_getstacksize(&attr, &size);
	if (rc == 0 && set->set_on_native)
		rc = pthread_attr_setstacksize(&attr, size + set->set_stack);
	while (rc == 0 && set->set_running < set->set_nr) {
		int nr = set->set_running;

		rc = pthread_create(&set->set_native[nr], &attr, native,
				    uproc_nth(set, nr));
		set->set_running += rc == 0;
	}
	(void)uproc_pin(pinned);
	pthread_attr_destroy(&attr);
	if (rc != 0) {
		go(set, -1);
		native_join(set);
		go(set, 0);
	}
	return -rc;
}

/*
 * Halves the lanes, which may take what native threads need. False: give up, as
 * one lane does not suffice, or fewer do not for the promises.
 */
static bool fewer_lanes(struct uproc_set *set, int rc)
{
	int i;

	if ((rc != -ENOMEM && rc != -EAGAIN) || set->set_on_native)
		return false;
	set->set_lane_nr /= 2;
	for (i = 0; i < set->set_nr; i++) {
		const struct uproc *p = uproc_nth(set, i);

		if (p->p_promised > private_most(p, set->set_lane_nr))
			return false;
	}
	return set->set_lane_nr > 0;
}

/* Is there a limit of addresses? */
static bool has_limit(void)
{
#if defined(RLIMIT_AS)
	struct rlimit most;

	return getrlimit(RLIMIT_AS, &most) == 0 &&
		most.rlim_cur != RLIM_INFINITY;
#else
	return false;
#endif
}

int uproc_start(struct uproc_set *set)
{
	int rc = is_new(set);

	if (rc == -EBUSY)
		usched_message("%sstart: it was called before", name_of(set));
	if (rc == 0)
		rc = usched_env_check();
	if (rc != 0)
		return rc;
	set->set_forks = uproc_forks;	/* first: another may fork meanwhile */
	set->set_cpu_nr = ucpus_nr(set->set_cpus);
	set->set_spare  = set->set_nr + (set->set_pins == 0) <= set->set_cpu_nr;
	pinned_init(set);
	set->set_lane_nr = lane_nr(set);
	set->set_few = set->set_ops.op_soon == NULL && !has_limit();
	do {
		rc = lanes_reserving(set);
		if (rc == 0)
			rc = promises(set, true);
		if (rc == 0)
			rc = native_start(set);
		if (rc != 0) {
			(void)promises(set, false);
			lanes_free(set);
		}
	} while (fewer_lanes(set, rc));
	if (rc != 0) {
		set->set_forks = INT_MAX;
		return rc;
	}
	__atomic_store_n(&set->set_share, 0, __ATOMIC_RELAXED);
	go(set, 1);
	return 0;
}

/* Stands for a set that is being freed: a child of fork() looks into it. */
static struct uproc_set ending = { .set_nr = 1 };

/* Tells the modules that watch waits. Returns whether one has shown the user. */
static bool stuck_shown(struct uproc_set *set, long left)
{
	const struct uwait_watch *v;
	bool shown = false;

	for (v = uwait_watch; v != NULL; v = v->v_next)
		if (v->v_stuck != NULL &&
		    v->v_stuck(&uproc_nth(set, 0)->p_sched,
			       set->set_ops.op_size, set->set_nr, left))
			shown = true;
	return shown;
}

/* Says why threads are left, of which none will ever run. */
static NOINLINE void left_over(struct uproc_set *set, long left)
{
	const char *name = name_of(set);

	if (set->set_running == 0)
		usched_message("%sfini: %sstart() was not called, or failed: %ld "
			       "thread%s dropped", name, name, left,
			       left == 1 ? " was" : "s were");
	else if (!stuck_shown(set, left))
		stuck_report(set, name, left);
}

int uproc_fini(struct uproc_set **out, long *left)
{
	struct uproc_set *set = *out;
	int i;

	if (set == NULL)
		return -EINVAL;
	if (uproc_inherited(set))
		return -ECHILD;
	if (uproc_here(set) != NULL)
		usched_fail("fini: called by a thread");
	if (uproc_serves == set)
		usched_fail("fini: called by a function that a thread of the "
			    "set has given to ucall()");
	__atomic_store_n(&set->set_fini, 1, __ATOMIC_RELEASE);
	uidle_wait(&set->set_idle, set->set_running);
	*left = threads_left(set);
	if (*left != 0)
		left_over(set, *left);
	USCHED_RACE(proc_stop);
	__atomic_store_n(&set->set_stop, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < set->set_nr; i++)
		upark_wake(&uproc_nth(set, i)->p_asleep);
	native_join(set);
	__atomic_store_n(&ending.set_forks, uproc_forks, __ATOMIC_RELAXED);
	__atomic_store_n(out, &ending, __ATOMIC_RELAXED);
	set_free(set);
	__atomic_store_n(out, NULL, __ATOMIC_RELEASE);
	return *left == 0 ? 0 : -EDEADLK;
}
