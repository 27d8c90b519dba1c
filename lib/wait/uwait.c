/* SPDX-License-Identifier: MIT */
/* uwait.c: waits that end: by an event, at a time, or by a cancellation. */

/*
 * OVERVIEW
 *
 *	   object's queue          record              wheel of a base
 *	event --claim-->     +---------------+     <--claim-- deadline
 *	                     | state, result |
 *	cancel --claim-->    +---------------+
 *	                             | complete
 *	                             v
 *	      the dispatcher of the thread: arrived, and a wake
 *
 * A waiter makes a record on the heap and leaves it where its event, its
 * deadline and a cancellation find it. The first of them claims the record, by
 * a compare-and-swap from WAITS to CLAIMED; the others forget it. (If only one
 * can ever come, a store does.) The claimer may write results, and completes the
 * record: that brings it home.
 *
 *	part		what it has
 *
 *	record.h	claims, arrivals, and the list of a base, without locks
 *	cancel.h	the end of a wait by a cancellation, beside its event
 *	timers.h	deadlines, which are timers of a base; wheel.h has those
 *	utime.c		the clock, also virtual, and random numbers
 *	uplain.c	the base of a plain dispatcher
 *	usource.c	events from outside of a dispatcher
 *
 * COMING HOME
 *
 * The state becomes ARRIVED at the dispatcher of the thread only, in the same
 * step as the wake: no other code of that dispatcher comes between. So the
 * waiter waits for ARRIVED, however many other wakes come meanwhile. When it
 * sees ARRIVED, exactly one of its wakes was for this wait, and the wake is not
 * under way any more. It gives back the others, and may end and be freed.
 *
 *	claimer elsewhere		the thread's dispatcher
 *
 *	H1 claim, results		H3 take the list, first in first out
 *	H2 post the record to the	H4 state = ARRIVED, and add a wake
 *	   base, wake its owner	   (or, if the thread has moved, H2)
 *
 * A claimer that loses its cpu between H1 and H2 delays the waiter, which stays
 * blocked. Nothing spins for it, and the thread and the record exist as long as
 * H2 needs them, because the waiter cannot go on before H4.
 *
 * A native thread waits on w_state itself, with futex(2). The claimer stores
 * ARRIVED and then only passes the address to the system, since the waiter may
 * have freed the record.
 *
 * WAITS THAT CANNOT FAIL
 *
 * A wait may need memory: for its record, for the wheel, and for the slice of
 * its thread. Where that is missing, the wait takes its record back, and returns
 * -ENOMEM. Some waits have given up something by then that they do not get
 * back: a mutex, or a job that has begun. The caller of such a wait makes its
 * records, and calls uwait_reserve(), before it gives that up. Then the wait
 * needs nothing more (A4), and is marked with UWAIT_SURE.
 *
 *	may fail			cannot: reserves before
 *
 *	sleeps, wakes, joins		ucond_wait(): both waits, for the signal
 *	locks, semaphores, groups,	    and then for the mutex
 *	    barriers, channels		ucall(): its function has begun
 *	the end of a scope, which	MPI in plain calls: the request has
 *	    has not ended then		    begun, and its thread tests
 *					    it if nothing can be reserved
 *
 * A wait that was claimed, and has not arrived, is on its way in any case. If
 * its thread cannot block, the thread takes what comes to its processor, or to
 * its plain dispatcher, until the record is there: uwait_give_way() always ends
 * like that.
 *
 * INVARIANTS
 *
 * A1. A record is claimed once. The claimer completes it once: uwait_complete(),
 *     or uwait_complete_due() for deadlines.
 * A2. Only the dispatcher of the thread, or a native thread that has stopped
 *     it, changes CLAIMED to ARRIVED; the waiter itself if it has claimed.
 * A3. A record that has not arrived is not freed, nor is its thread.
 * A4. After uwait_reserve() no wait from this depth asks s_alloc() for a slice,
 *     until the thread blocks elsewhere: usched_reserve(). Frames from there to
 *     the block take DEPTH at most.
 *
 * REJECTED
 *
 * A state that says that the wake was sent, for which the waiter looks: if the
 * claimer has lost its cpu, the whole processor of the waiter stands still. A
 * count of senders in the thread, for which its end waits: there is no room for
 * it in a cache line. Claims that post only the wake: the waiter cannot tell
 * this wake from others, and could end before it comes.
 */

#include "uwait_inside.h"
#include "record.h"
#include "timers.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_MOST	(UWAIT_UNIT * 65535u)
#define PAUSE		50000L	/* ns */
#define REFUSED_MOST	64	/* waits that do not begin, before a thread gives way */
#define FROM_MALLOC	1	/* in w_flags: else it is from s_alloc() */
#define LIMITED		4	/* a deadline or a scope may end it */
/*
 * Most bytes of frames between the caller of uwait_reserve() and the block. The
 * most that our own take is in ucond_wait(), whose second wait is that of
 * umutex_lock(): 112 at -O2, 160 at -O0, and more with sanitizers. The rest is
 * for s_wait(). The hard mode looks whether that was enough.
 */
#if defined(__OPTIMIZE__) && !defined(USCHED_HARD)
#define DEPTH		224
#elif !defined(USCHED_HARD)
#define DEPTH		512
#else
#define DEPTH		1024
#endif

/* Bases, and deadlines that have passed. */

void uwait_base_init(struct uwait_base *b, struct usched *s,
		     const struct uwait_ops *ops)
{
	memset(b, 0, sizeof *b);
	b->wb_sched = s;
	b->wb_ops   = ops;
	b->wb_due   = UNEVER;
}

struct uwait *uwait_claim_due(struct uwait_base *b)
{
	struct uwait *list = NULL;
	struct uwait **end = &list;
	struct uwheel_node *n;
	uint64_t now;

	if (b->wb_timers == 0)
		return NULL;
	now = (uint64_t)unow();
	while ((n = uwheel_take(b->wb_wheel, now)) != NULL) {
		struct uwait *w = (struct uwait *)((char *)n -
					offsetof(struct uwait, w_node));

		timers_add(b, -1);
		if (!uwait_claim(w))
			continue;
		w->w_result = -ETIMEDOUT;
		*end = w;
		end = &w->w_at.link;
	}
	*end = NULL;
	due_set(b);
	return list;
}

/* Records. */

struct uwait_watch *uwait_watch;
static bool records_watched;		/* by v_made of some watch */

void uwait_watch_add(struct uwait_watch *v)
{
	records_watched |= v->v_made != NULL;
	v->v_next = uwait_watch;
	__atomic_store_n(&uwait_watch, v, __ATOMIC_RELEASE);
}

/* Calls a call-back of each that has it. */
#define CALL_ALL(name, args)	do {					\
	const struct uwait_watch *v;					\
									\
	for (v = uwait_watch; v != NULL; v = v->v_next)			\
		if (v->name != NULL)					\
			v->name args;					\
} while (0)

static NOINLINE void watch_made(const struct uwait *w)
{
	CALL_ALL(v_made, (w));
}

static NOINLINE void watch_begin(const struct uwait *w, utime_ns until)
{
	CALL_ALL(v_begin, (w, until));
}

static NOINLINE void watch_end(const struct uwait *w)
{
	CALL_ALL(v_end, (w));
}

void uwait_watch_named(void)
{
	CALL_ALL(v_named, ());
}

int uwait_watch_stuck(struct usched *first, size_t size, int nr, long left)
{
	const struct uwait_watch *v;
	int shown = false;

	for (v = uwait_watch; v != NULL; v = v->v_next)
		if (v->v_stuck != NULL && v->v_stuck(first, size, nr, left))
			shown = true;
	return shown;
}

void uwait_watch_posted(const struct ustack *u, int record)
{
	CALL_ALL(v_posted, (u, record));
}

utime_ns uwait_watch_sleeps(utime_ns ns)
{
	const struct uwait_watch *v;

	for (v = uwait_watch; v != NULL; v = v->v_next)
		if (v->v_sleeps != NULL)
			ns = v->v_sleeps(ns);
	return ns;
}

void uwait_watch_awake(struct usched *s)
{
	CALL_ALL(v_awake, (s));
}

void uwait_watch_calls(const struct ustack *u, void (*f)(void *), int begins)
{
	CALL_ALL(v_calls, (u, f, begins));
}

void uwait_watch_queue(const struct uwait_queue *q, int begins)
{
	CALL_ALL(v_queue, (q, begins));
}

/* Kinds of waits that no other file ends. */

static int sleep_end(struct uwait *w, int rc)
{
	uwait_free(w);
	return rc == -ETIMEDOUT ? 0 : rc;
}

static int wake_end(struct uwait *w, int rc);

static struct uwait_kind sleep_kind = {
	.wk_name = "sleep", .wk_call = "u_sleep", .wk_end = sleep_end
};
static struct uwait_kind wake_kind = {
	.wk_name = "wake", .wk_call = "u_wait_until", .wk_end = wake_end,
	.wk_wakes = true
};
struct uwait_kind UWAIT_JOIN[1]  = { { .wk_name = "join" } };
struct uwait_kind UWAIT_TIMER[1] = { { .wk_name = "timer" } };
struct uwait_kind UWAIT_OTHER[1] = { { .wk_name = "other" } };

/*
 * Also read by usched-gdb.py. A kind has the first place that was free, and its
 * number is the index. No place becomes free again, so native threads that look
 * for one at once find the same.
 */
static const struct uwait_kind *kind_by_id[UCHAR_MAX + 1];

/* Puts kind into this place. False: another kind is there. */
static bool is_place_of(const struct uwait_kind *kind, int id)
{
	const struct uwait_kind *there = NULL;

	return __atomic_compare_exchange_n(&kind_by_id[id], &there, kind, false,
			__ATOMIC_RELEASE, __ATOMIC_RELAXED) || there == kind;
}

/* Gives a kind its number. */
static NOINLINE int id_new(struct uwait_kind *kind)
{
	int id = 1;

	while (!is_place_of(kind, id))
		if (++id > UCHAR_MAX)
			usched_fail("wait: more than 255 kinds of waits");
	__atomic_store_n(&kind->wk_id, id, __ATOMIC_RELEASE);
	return id;
}

unsigned char uwait_id(struct uwait_kind *kind)
{
	int id = __atomic_load_n(&kind->wk_id, __ATOMIC_ACQUIRE);

	return (unsigned char)(likely(id != 0) ? id : id_new(kind));
}

const struct uwait_kind *uwait_kind(const struct uwait *w)
{
	return __atomic_load_n(&kind_by_id[w->w_kind], __ATOMIC_RELAXED);
}

const char *uwait_kind_name(const struct uwait_kind *kind)
{
	return kind->wk_name;
}

/* Returns whether the record is from malloc(). */
static bool is_from_malloc(const struct ustack *u,
			   const struct uwait_kind *kind)
{
#if defined(USCHED_HARD)
	return u == NULL || kind->wk_stays;
#else
	(void)kind;
	return u == NULL;
#endif
}

static void *record_alloc(const struct ustack *u, bool from_malloc, size_t size)
{
	struct usched *s = u != NULL ? u->u_sched : NULL;
	void *block;

	if (size > SIZE_MOST || (s != NULL && s->s_wait == NULL)) {
		errno = size > SIZE_MOST ? EINVAL : ENOSYS;
		return NULL;
	}
	block = from_malloc ? malloc(size) : s->s_alloc(s, (int)size);
	if (block == NULL)
		errno = ENOMEM;
	return block;
}

_Static_assert(sizeof(void *) != 8 || sizeof(struct uwait) == 64,
	       "a record fills a cache line");

void *uwait_make(struct uwait_kind *kind, const void *object, size_t size)
{
	struct ustack *u = ustack_self();
	bool from_malloc = is_from_malloc(u, kind);
	struct uwait *w;

#if !defined(USCHED_HARD)		/* that looks itself: uobject.h */
	if (usched_lent(object))
		usched_law(call_of(kind), object);
#endif
	if (size <= SIZE_MOST)
		size = (size + UWAIT_UNIT - 1) / UWAIT_UNIT * UWAIT_UNIT;
	w = record_alloc(u, from_malloc, size);
	if (w == NULL)
		return NULL;
	w->w_stack = kind == UWAIT_TIMER ? NULL : u;
	w->w_state = UWAIT_WAITS;
	w->w_size  = (unsigned short)(size / UWAIT_UNIT);
	w->w_kind  = uwait_id(kind);
	w->w_flags = from_malloc ? FROM_MALLOC : 0;
	w->w_at.object   = object;
	w->w_node.n_prev = NULL;
	w->w_base  = NULL;
	if (unlikely(records_watched))
		watch_made(w);
	return w;
}

static void record_free(struct usched *s, struct uwait *w)
{
	s->s_free(s, w, w->w_size * UWAIT_UNIT);
}

void uwait_free(void *record)
{
	const struct ustack *u = ustack_self();
	struct uwait *w = record;

	if (w->w_flags & FROM_MALLOC) {
		free(w);
		return;
	}
	if (w->w_base != NULL)
		timer_stop(w, u->u_sched);
	if (w->w_base != NULL) {
		uwait_arrived(w);	/* also a timer that was claimed */
		USCHED_RACE(wait_orphan);
		w->w_base->wb_ops->o_post(w->w_base, w);
	} else
		record_free(u->u_sched, w);
}

int uwait_orphan(struct uwait_base *b, struct uwait *w)
{
	if (__atomic_load_n(&w->w_state, __ATOMIC_RELAXED) != UWAIT_ARRIVED)
		return false;
	timer_out(b, w);
	record_free(b->wb_sched, w);
	return true;
}

/* The end of a wait. */

/* Ends the wait of w, which no thread waits for: a timer's, or a native one. */
static NOINLINE void complete_no_thread(struct uwait *w)
{
	struct uwait_timer *t = (struct uwait_timer *)w;

	if (uwait_kind(w) == UWAIT_TIMER)
		t->t_f(t);
	else
		uwait_complete_native(w);
}

static void complete(struct uwait *w)
{
	struct ustack *u = w->w_stack;

	if (u == NULL) {
		complete_no_thread(w);
		return;
	}
	USCHED_PROBE_THREAD(wake, u);
	/* Atomic: ws moves threads. All dispatchers have these ops. */
	uwait_ops_of(__atomic_load_n(&u->u_sched, __ATOMIC_RELAXED))->
		o_complete(NULL, w);
}

void uwait_complete(struct uwait *w, int result)
{
	w->w_result = result;
	USCHED_RACE(wait_H2);					/* after H1 */
	complete(w);						/* H2 */
}

void uwait_complete_due(struct uwait *list)
{
	struct uwait *next;

	for (; list != NULL; list = next) {
		next = list->w_at.link;
		USCHED_RACE(wait_expired);
		complete(list);
	}
}

struct uwait *uwait_take(struct uwait_base *b)
{
	return uwait_take_list(b);
}

void uwait_take_posted(struct uwait_base *b)
{
	struct uwait *w, *next;

	for (w = uwait_take(b); w != NULL; w = next) {
		next = w->w_at.link;
		if (!uwait_orphan(b, w))
			b->wb_ops->o_complete(b, w);
	}
}

void uwait_look(struct uwait_base *b)
{
	uwait_take_posted(b);
	if (uwait_due(b) != UNEVER && uwait_due(b) <= unow())
		uwait_complete_due(uwait_claim_due(b));
}

/* Waiting. */

/*
 * Called if the caller cannot block, and its record was claimed: the record is
 * on its way here.
 */
static void pause_and_drain(struct ustack *u)
{
	int never = 0;

	uwait_ops_of(u->u_sched)->o_drain(u);
	upark_futex_wait_for(&never, 0, PAUSE);
}

static struct uself *self_of(const struct ustack *u)
{
	return uwait_self(u, uwait_run);
}

int uwait_reserve(utime_ns until)
{
	const struct ustack *u = ustack_self();

	if (u == NULL)
		return 0;
	if (until != UNEVER && timed_base_of(u->u_sched) == NULL)
		return -ENOMEM;
	return usched_reserve(DEPTH);
}

static bool claim(struct uwait *w)
{
	const struct uwait_kind *kind = uwait_kind(w);

	return kind->wk_give_up != NULL ? kind->wk_give_up(w) : uwait_claim(w);
}

/*
 * Called if the thread of w could not block. True: the wait has ended, with rc
 * or by its claim. False: w was claimed. Then the thread holds its processor
 * until w has arrived, and its wake can be taken.
 */
static bool give_up(struct uwait *w, int rc)
{
	if (uwait_state(w) == UWAIT_ARRIVED)
		return false;
	if (claim(w)) {
		if (w->w_flags & UWAIT_SURE)
			usched_fail("wait: no memory, and nothing was reserved "
				    "by uwait_reserve() (A4)");
		w->w_result = rc;
		uwait_arrived(w);
		w->w_taken++;		/* as if it had waited */
		return true;
	}
	pause_and_drain(w->w_stack);
	return w->w_taken > 0 && uwait_state(w) == UWAIT_ARRIVED;
}

/* Does what is left to do after a wait. Returns the result of the wait. */
static NOINLINE int ended(struct uwait *w)
{
	const struct uwait_kind *kind = uwait_kind(w);
	struct ustack *u = w->w_stack;
	struct uself *e;

	if (w->w_taken != 1)
		uwait_ops_of(u->u_sched)->o_back(u, w->w_taken - 1);
	if (UWAIT_WATCHED)
		watch_end(w);
	if (w->w_flags & LIMITED) {
		timer_stop(w, u->u_sched);
		e = self_of(u);
		if (e != NULL)
			e->e_ops->eo_leave(e, w);
	}
	return kind->wk_end != NULL ? kind->wk_end(w, w->w_result) : w->w_result;
}

/*
 * Called after s_wait(), which returned rc, if w has not arrived, or its wake
 * has not come. True: the wait has ended.
 */
static NOINLINE bool is_over(struct uwait *w, int rc)
{
	if (uwait_kind(w)->wk_wakes && w->w_taken > 0 && uwait_withdraw(w, 0))
		return true;
	return rc != 0 && give_up(w, rc);
}

/*
 * The loop of each wait. Of the wakes that the caller takes, the last or an
 * earlier one belongs to w; ended() gives back the others. The stack frame is a
 * part of each slice. So callers keep w only, and call the rest last.
 */
static ALWAYS_INLINE void await(struct uwait *w)
{
	struct usched *s;
	int rc;

	do {
		s = w->w_stack->u_sched;
		USCHED_RACE(wait_block);
		rc = s->s_wait(s);
		w->w_taken += rc == 0;
	} while ((w->w_taken == 0 || uwait_state(w) != UWAIT_ARRIVED) &&
		 !is_over(w, rc));
}

static NOINLINE int block(struct uwait *w)
{
	await(w);
	return ended(w);
}

void uwait_block(struct uwait *w)
{
	w->w_taken = 0;
	if (UWAIT_WATCHED)
		watch_begin(w, UNEVER);
	await(w);
	if (w->w_taken != 1 || uwait_watch != NULL)	/* not LIMITED */
		(void)ended(w);
}

static int native_for(struct uwait *w, utime_ns until)
{
	usched_other_copy(call_of(uwait_kind(w)));
	if (until == UNEVER || !utime_clock.c_virtual ||
	    !uwait_withdraw(w, -ENOSYS))
		uwait_native_block(w, until);
	if (w->w_result == -ETIMEDOUT)
		deadline_see(w, until);
	return w->w_result;
}

/* Prepares a wait of a thread. 0, -ECANCELED, -ENOMEM. */
static int begin(struct uwait *w, struct uself *e, utime_ns until)
{
	int rc = e != NULL ? e->e_ops->eo_enter(e, w) : 0;

	if (rc == 0 && until != UNEVER) {
		rc = timer_start(w, w->w_stack->u_sched, until);
		if (rc != 0 && e != NULL)
			e->e_ops->eo_leave(e, w);
	}
	if (rc == 0)
		w->w_flags |= LIMITED;
	return rc;
}

/* Prepares a wait that may end otherwise than by its event. False: it has. */
static NOINLINE bool prepare(struct uwait *w, utime_ns until)
{
	struct uself *e = w->w_flags & UWAIT_SURE ? NULL : self_of(w->w_stack);
	bool over;
	int rc = 0;

	UHARD(yield());
	w->w_taken  = 0;		/* a record may wait again */
	w->w_flags &= ~LIMITED;
	if (e != NULL || until != UNEVER)
		rc = begin(w, e, until);
	over = rc != 0 && uwait_withdraw(w, rc);
	if (UWAIT_WATCHED)		/* a wait that never begins has ended there */
		watch_begin(w, until);
	if (over)
		w->w_taken = 1;			/* nothing to give back */
	return !over;
}

static NOINLINE int wait_natively(struct uwait *w, utime_ns until)
{
	const struct uwait_watch *v = uwait_watch;

	while (unlikely(v != NULL) && v->v_native == NULL)
		v = v->v_next;
	return likely(v == NULL) ? native_for(w, until) :
		v->v_native(w, until, native_for);
}

#if defined(USCHED_HARD)
/* Blocks, and fails if a wait that must not fail has got another buffer: A4. */
static int block_sure(struct uwait *w)
{
	const struct ustack *u = w->w_stack;
	bool sure = w->w_flags & UWAIT_SURE && uwait_state(w) == UWAIT_WAITS;
	int len = u->u_len;
	int rc = block(w);

	if (sure && u->u_len > len && !ustack_is_private(u))
		usched_fail("s_wait: it blocks too deep for a wait that cannot "
			    "fail, or nothing was reserved by uwait_reserve()");
	return rc;
}
#define block	block_sure
#endif

static __thread unsigned in_vain;	/* waits that have not begun */

/*
 * Ends a wait that has not begun. A loop may wait again and again in a cancelled scope:
 * now and then the others run, among them who would end it.
 */
static NOINLINE int refuse(struct uwait *w)
{
	int rc = ended(w);

	if (++in_vain % REFUSED_MOST == 0)
		(void)uwait_give_way();
	return rc;
}

int uwait_for(struct uwait *w, utime_ns until)
{
	if (w->w_stack == NULL)
		return wait_natively(w, until);
	return prepare(w, until) ? block(w) : refuse(w);
}

/*
 * Calls the function of the thread itself: below that there must be no other
 * frame of the library (upreempt.c).
 */
void uwait_run(struct ushell *h)
{
	struct uself *e = (struct uself *)h;
	void (*f)(void) = (void (*)(void))h->h_f;
	void *result;

	UHARD(hold(e, UHARD_MADE));
	if (h->h_f == ustack_shell) {		/* a shell inside: no result */
		ustack_shell(h->h_arg);
		result = NULL;
	} else if (e->e_ops->eo_int)
		result = (void *)(intptr_t)((int (*)(void *))f)(h->h_arg);
	else
		result = ((void *(*)(void *))f)(h->h_arg);
	e->e_ops->eo_end(e, result);
	UHARD(unhold(e));
}

int uwait_timer_start(struct uwait_timer *t, utime_ns until)
{
	const struct ustack *u = ustack_self();

	if (u == NULL)
		return -EINVAL;
	return until == UNEVER ? 0 :
		timer_start(&t->t_wait, u->u_sched, until);
}

static NOINLINE struct uwait *short_make(struct uwait_kind *kind)
{
	return uwait_make(kind, NULL, sizeof(struct uwait));
}

/* The record is freed by sleep_end(), so no frame here has to wait for that. */
int u_sleep(utime_ns until)
{
	const struct ustack *u = ustack_self();
	struct uwait *w;

	if (until < 0)
		return -EINVAL;
	if (u == NULL) {
		uwait_deadline(until, "u_sleep");
		usched_other_copy("u_sleep");
		return utime_native_sleep(until);
	}
	w = short_make(&sleep_kind);
	if (w == NULL)
		return u->u_sched->s_wait != NULL ? -ENOMEM : -ENOSYS;
	return uwait_for(w, until);
}

/* Posts the record to its own base, which takes it at the next look. */
int uwait_give_way(void)
{
	const struct ustack *u = ustack_self();
	struct uwait_base *b;
	struct uwait *w;

	if (u->u_sched->s_wait == NULL)
		return -ENOSYS;
	if (usched_in_region(u->u_sched))	/* of OpenMP: others must not run */
		return 0;
	b = uwait_base_of(u->u_sched);
	w = b != NULL ? short_make(&sleep_kind) : NULL;
	if (w == NULL)
		return -ENOMEM;
	w->w_flags |= UWAIT_SURE;
	w->w_result = 0;
	(void)uwait_claim(w);
	b->wb_ops->o_post(b, w);
	return uwait_for(w, UNEVER);
}

/* Waiting for wakes. */

/* Takes a wake that has come, if the dispatcher counts them. */
static bool try_wake(struct ustack *u)
{
	return uwait_ops_of(u->u_sched)->o_try(u);
}

/*
 * Returns 0 if a wake has come besides that of w: the event. Else, returns rc.
 * A plain dispatcher takes no wakes back, so w_taken still has those too many.
 */
static int wake_result(struct uwait *w, int rc)
{
	return rc != 0 && (try_wake(w->w_stack) || w->w_taken > 1) ? 0 : rc;
}

static int wake_end(struct uwait *w, int rc)
{
	rc = wake_result(w, rc);
	uwait_free(w);
	return rc;
}

static int wait_until(utime_ns until)
{
	struct uwait *w = short_make(&wake_kind);

	if (w == NULL)
		return -ENOMEM;
	return prepare(w, until) ? block(w) : ended(w);
}

int u_wait_until(utime_ns until)
{
	struct ustack *u = ustack_self();

	if (u == NULL || until < 0)
		return -EINVAL;
	if (u->u_sched->s_wait == NULL)
		return -ENOSYS;
	UHARD(yield());
	if (try_wake(u))
		return 0;
	if (until == UNOW)
		return -EAGAIN;
	if (until == UNEVER && self_of(u) == NULL)
		return u->u_sched->s_wait(u->u_sched);
	return wait_until(until);
}
