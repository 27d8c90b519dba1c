/* SPDX-License-Identifier: MIT */
/* uwait.c: waits that end: by an event, at a time, or by a cancellation. */

/*
 * OVERVIEW
 *
 *	   object's queue          record              wheel of a host
 *	event --claim-->     +---------------+     <--claim-- deadline
 *	                     | state, result |
 *	cancel --claim-->    +---------------+
 *	                             | tell
 *	                             v
 *	      the dispatcher of the thread: arrived, and a wake
 *
 * A waiter makes a record on the heap and leaves it where its event, its
 * deadline and a cancellation find it. The first of them claims the record, by
 * a compare-and-swap from WAITS to CLAIMED; the others forget it. The claimer
 * may write results, and tells. A tell brings the record home.
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
 *	A1 claim, results		A3 take the list, first in first out
 *	A2 post the record to the	A4 state = ARRIVED, and add a wake
 *	   host, wake the host		   (or, if the thread has moved, A2)
 *
 * A claimer that loses its cpu between A1 and A2 delays the waiter, which stays
 * blocked. Nothing spins for it, and the thread and the record exist as long as
 * A2 needs them, because the waiter cannot go on before A4.
 *
 * A native thread waits on w_state itself, with futex(2). The tell stores
 * ARRIVED and then only passes the address to the system, since the waiter may
 * have freed the record.
 *
 * DEADLINES
 *
 * Each host has a wheel (wheel.h). The record is its own timer, so a deadline
 * needs no memory but the wheel, which is made once. A timer belongs to the
 * host that started it, also if its thread then moves to another (ws). The
 * thread that ends its wait elsewhere posts the record back as an orphan, and
 * the host takes the timer out and frees the record. An orphan has arrived
 * already, so if its deadline passes first, the claim fails.
 *
 * A host claims what is due while it has the wheel to itself, and tells
 * afterwards. Between the two steps the records exist, since they have not
 * arrived.
 *
 * INVARIANTS
 *
 * A1. A record is claimed once. The claimer calls uwait_tell() once.
 * A2. Only the dispatcher of the thread, or a native thread that has stopped
 *     it, changes CLAIMED to ARRIVED; the waiter itself if it has claimed.
 * A3. A record that has not arrived is not freed, nor is its thread.
 * A4. A timer is touched only by who has its host to itself (o_enter).
 * A5. h_timers is the number of nodes in the wheel. h_due is not later than
 *     uwheel_next(), and UNEVER exactly if h_timers is 0.
 * A6. No timer fires before its deadline. It fires at the first look after the
 *     tick that holds its deadline, or is the next.
 *
 * REJECTED
 *
 * A state that says that the wake was sent, for which the waiter looks: if the
 * claimer has lost its cpu, the whole processor of the waiter stands still. A
 * count of senders in the thread, for which its end waits: there is no room for
 * it in a cache line. Claims that post only the wake: the waiter cannot tell
 * this wake from others, and could end before it comes.
 *
 * A heap of timers: at a million timers 150 to 222 ns for a stop and a start,
 * where the wheel takes 109 to 139. And its array may fail to grow.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* park.h: syscall() */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "uwait.h"
#include "record.h"
#include "source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

UPREEMPT_NEVER;

#define UNIT		16	/* of w_size */
#define SIZE_MOST	(UNIT * 65535u)
#define TICK_SHIFT	16	/* real time: 65.5 us */
#define PAUSE		50000L	/* ns */
#define BY_NATIVE	1	/* in w_flags: made by a native thread */
#define LIMITED		4	/* a deadline or a scope may end it */
#define NOINLINE	__attribute__((noinline))

/* Time. */

static struct {
	int      c_virtual;
	unsigned c_begun;		/* calls of utime_virtual() */
	utime_ns c_now;			/* virtual (atomic) */
	uint64_t c_seed;
} clock_ = { .c_virtual = 0 };

utime_ns unow(void)
{
	struct timespec t;

	if (clock_.c_virtual)
		return __atomic_load_n(&clock_.c_now, __ATOMIC_RELAXED);
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * UTIME_S + t.tv_nsec;
}

utime_ns uafter(utime_ns ns)
{
	utime_ns now = unow();

	if (ns <= 0)
		return now;
	return ns < UNEVER - now ? now + ns : UNEVER;
}

void utime_virtual(uint64_t seed)
{
	const char *env = getenv("USCHED_SEED");

	if (env != NULL && *env != 0)
		seed = strtoull(env, NULL, 0);
	clock_.c_seed    = seed;
	clock_.c_now     = UTIME_S;
	clock_.c_virtual = 1;
	clock_.c_begun++;
}

uint64_t utime_seed(void)
{
	return clock_.c_seed;
}

bool utime_is_virtual(void)
{
	return clock_.c_virtual;
}

void utime_jump(utime_ns to)
{
	utime_ns now = __atomic_load_n(&clock_.c_now, __ATOMIC_RELAXED);

	while (now < to && !__atomic_compare_exchange_n(&clock_.c_now, &now, to,
			false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
}

/*
 * SplitMix64: G. Steele, D. Lea, C. Flood, "Fast Splittable Pseudorandom Number
 * Generators", OOPSLA 2014, figure 16. Never inline: its variables belong to
 * the native thread.
 */
static __attribute__((noinline)) uint64_t random64(void)
{
	static __thread uint64_t state;
	static __thread unsigned begun;
	uint64_t z;

	if (state == 0 || begun != clock_.c_begun)
		state = clock_.c_virtual ? clock_.c_seed + 1 :
			(uint64_t)unow() ^ (uint64_t)(uintptr_t)&state;
	begun = clock_.c_begun;
	z = state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

unsigned uwait_random(unsigned nr)
{
	return (unsigned)((random64() >> 32) * nr >> 32);
}

/* Hosts and timers. */

void uwait_host_init(struct uwait_host *h, struct usched *s,
		     const struct uwait_ops *ops)
{
	memset(h, 0, sizeof *h);
	h->h_sched = s;
	h->h_ops   = ops;
	h->h_due   = UNEVER;
}

static void enter(struct uwait_host *h)
{
	if (h->h_ops != NULL)
		h->h_ops->o_enter(h);
}

static void leave(struct uwait_host *h)
{
	if (h->h_ops != NULL)
		h->h_ops->o_leave(h);
}

/* Returns the host of s, made if s is bare. NULL: no memory. */
static struct uwait_host *host_of(struct usched *s)
{
	struct uwait_host *h = s->s_waits;

	if (h == NULL && (h = s->s_alloc(s, sizeof *h)) != NULL) {
		uwait_host_init(h, s, NULL);
		s->s_waits = h;
	}
	return h;
}

/* Makes the wheel of h, the caller's. False: no memory. */
static bool wheel_make(struct uwait_host *h)
{
	struct uwheel *wheel = h->h_sched->s_alloc(h->h_sched, sizeof *wheel);

	if (wheel == NULL)
		return false;
	uwheel_init(wheel, unow(), clock_.c_virtual ? 0 : TICK_SHIFT);
	enter(h);
	h->h_wheel = wheel;
	leave(h);
	return true;
}

/* Sets h_due (A5). Caller has h to itself. */
static void due_set(struct uwait_host *h)
{
	uint64_t next = h->h_timers != 0 ? uwheel_next(h->h_wheel) : UNEVER;

	if (next >= UNEVER && h->h_timers != 0)
		next = UNEVER - 1;
	__atomic_store_n(&h->h_due, (utime_ns)next, __ATOMIC_RELAXED);
}

static void timers_add(struct uwait_host *h, long nr)
{
	__atomic_store_n(&h->h_timers, h->h_timers + nr, __ATOMIC_RELAXED);
}

/* Starts the deadline of w, whose thread is the caller. 0, -ENOMEM. */
static int timer_start(struct uwait *w, struct usched *s, utime_ns until)
{
	struct uwait_host *h = host_of(s);

	if (h == NULL || (h->h_wheel == NULL && !wheel_make(h)))
		return -ENOMEM;
	w->w_host = h;
	enter(h);
	uwheel_start(h->h_wheel, &w->w_node, (uint64_t)until);
	timers_add(h, 1);
	if (until < h->h_due)
		due_set(h);
	leave(h);
	return 0;
}

/* Takes the timer of w out. Caller has h, its host, to itself. */
static void timer_out(struct uwait_host *h, struct uwait *w)
{
	if (w->w_node.n_prev == NULL)
		return;
	uwheel_stop(h->h_wheel, &w->w_node);
	timers_add(h, -1);
	if (h->h_timers == 0)
		__atomic_store_n(&h->h_due, UNEVER, __ATOMIC_RELAXED);
}

/* Takes the timer of w out, unless another host than that of s has it. */
static void timer_stop(struct uwait *w, const struct usched *s)
{
	struct uwait_host *h = w->w_host;

	if (h == NULL || h != s->s_waits)
		return;
	enter(h);
	timer_out(h, w);
	leave(h);
	w->w_host = NULL;
}

struct uwait *uwait_expire(struct uwait_host *h)
{
	struct uwait *list = NULL;
	struct uwait **end = &list;
	struct uwheel_node *n;
	uint64_t now;

	if (h->h_timers == 0)
		return NULL;
	now = (uint64_t)unow();
	while ((n = uwheel_take(h->h_wheel, now)) != NULL) {
		struct uwait *w = (struct uwait *)((char *)n -
					offsetof(struct uwait, w_node));

		timers_add(h, -1);
		if (!uwait_claim(w))
			continue;
		w->w_result = -ETIMEDOUT;
		*end = w;
		end = &w->w_at.link;
	}
	*end = NULL;
	due_set(h);
	return list;
}

/* Records. */

const struct uwait_watch *uwait_watch;
int (*uwait_fd_end)(struct uwait *w, int rc);

const char *uwait_kind_name(int kind)
{
	static const char *const name[] = {
		[UWAIT_SLEEP] = "sleep", [UWAIT_WAKE] = "wake",
		[UWAIT_JOIN] = "join", [UWAIT_CALL] = "call",
		[UWAIT_SCOPE] = "scope", [UWAIT_MUTEX] = "mutex",
		[UWAIT_COND] = "cond", [UWAIT_SEM] = "sem",
		[UWAIT_READ] = "read", [UWAIT_WRITE] = "write",
		[UWAIT_GROUP] = "group", [UWAIT_BARRIER] = "barrier",
		[UWAIT_ONCE] = "once", [UWAIT_SEND] = "send",
		[UWAIT_RECV] = "recv", [UWAIT_SELECT] = "select", [UWAIT_FD] = "fd",
		[UWAIT_TIMER] = "timer",
		[UWAIT_OTHER] = "other"
	};

	return kind > 0 && kind <= UWAIT_OTHER && name[kind] != NULL ?
		name[kind] : "other";
}

static void *record_alloc(const struct ustack *u, size_t size, int *rc)
{
	struct usched *s = u != NULL ? u->u_sched : NULL;
	void *block;

	if (size > SIZE_MOST || (s != NULL && s->s_wait == NULL)) {
		*rc = size > SIZE_MOST ? -EINVAL : -ENOSYS;
		return NULL;
	}
	block = s != NULL ? s->s_alloc(s, (int)size) : malloc(size);
	*rc = block != NULL ? 0 : -ENOMEM;
	return block;
}

void *uwait_new(size_t size, enum uwait_kind kind, const void *object, int *rc)
{
	struct ustack *u = ustack_self();
	struct uwait *w;

	size = (size + UNIT - 1) / UNIT * UNIT;
	w = record_alloc(u, size, rc);
	if (w == NULL)
		return NULL;
	w->w_stack = kind == UWAIT_TIMER ? NULL : u;
	w->w_state = UWAIT_WAITS;
	w->w_size  = (unsigned short)(size / UNIT);
	w->w_kind  = (unsigned char)kind;
	w->w_flags = u == NULL ? BY_NATIVE : 0;
	w->w_at.object   = object;
	w->w_node.n_prev = NULL;
	w->w_host  = NULL;
	if (__builtin_expect(uwait_watch != NULL, 0))
		uwait_watch->v_made(w);
	return w;
}

static void record_free(struct usched *s, struct uwait *w)
{
	s->s_free(s, w, w->w_size * UNIT);
}

void uwait_free(void *record)
{
	const struct ustack *u = ustack_self();
	struct uwait *w = record;

	if (w->w_flags & BY_NATIVE) {
		free(w);
		return;
	}
	if (w->w_host != NULL)
		timer_stop(w, u->u_sched);
	if (w->w_host != NULL) {
		uwait_arrived(w);	/* also a timer that was claimed */
		USCHED_RACE(59);
		w->w_host->h_ops->o_post(w->w_host, w);
	} else
		record_free(u->u_sched, w);
}

bool uwait_orphan(struct uwait_host *h, struct uwait *w)
{
	if (__atomic_load_n(&w->w_state, __ATOMIC_RELAXED) != UWAIT_ARRIVED)
		return false;
	timer_out(h, w);
	record_free(h->h_sched, w);
	return true;
}

/* The end of a wait. */

static void tell_bare(struct usched *s, struct uwait *w)
{
	struct ustack *u = w->w_stack;

	uwait_arrived(w);
	s->s_wake(s, u);
}

static void tell(struct uwait *w)
{
	struct ustack *u = w->w_stack;
	struct usched *s;

	if (w->w_kind == UWAIT_TIMER) {
		((struct uwait_timer *)w)->t_f((struct uwait_timer *)w);
		return;
	}
	if (u == NULL) {
		uwait_tell_native(w);
		return;
	}
	/* Atomic: ws moves threads. Each dispatcher leads to the same ops. */
	s = __atomic_load_n(&u->u_sched, __ATOMIC_RELAXED);
	if (s->s_waits != NULL && s->s_waits->h_ops != NULL)
		s->s_waits->h_ops->o_tell(w);
	else
		tell_bare(s, w);
}

void uwait_tell(struct uwait *w, int result)
{
	w->w_result = result;
	USCHED_RACE(54);					/* after A1 */
	tell(w);						/* A2 */
}

void uwait_expired(struct uwait *list)
{
	struct uwait *next;

	for (; list != NULL; list = next) {
		next = list->w_at.link;
		USCHED_RACE(55);
		tell(list);
	}
}

struct uwait *uwait_take(struct uwait_host *h)
{
	return uwait_take_list(h);
}

void uwait_look(struct uwait_host *h)
{
	struct uwait *w, *next;

	for (w = uwait_take(h); w != NULL; w = next) {
		next = w->w_at.link;
		if (!uwait_orphan(h, w))
			h->h_ops->o_arrive(h, w);
	}
	if (uwait_due(h) != UNEVER && uwait_due(h) <= unow())
		uwait_expired(uwait_expire(h));
}

/* Waiting. */

static void back(struct ustack *u, int nr)
{
	struct uwait_host *h;

	if (nr == 0)
		return;
	h = u->u_sched->s_waits;
	if (h != NULL && h->h_ops != NULL)
		h->h_ops->o_back(u, nr);
}

/*
 * Called if the caller cannot block, and its record was claimed: the record is
 * on its way here.
 */
static void pause_and_drain(struct ustack *u)
{
	struct uwait_host *h = u->u_sched->s_waits;
	int never = 0;

	if (h != NULL && h->h_ops != NULL)
		h->h_ops->o_drain(u);
	upark_futex_wait_for(&never, 0, PAUSE);
}

/* Tell uwaits.h, if it asks, that the wait of a thread begins, and ends. */

static void watch_begin(const struct uwait *w, utime_ns until)
{
	if (__builtin_expect(uwait_watch != NULL, 0))
		uwait_watch->v_begin(w, until);
}

static void watch_end(const struct uwait *w)
{
	if (__builtin_expect(uwait_watch != NULL, 0))
		uwait_watch->v_end(w);
}

static struct uself *self_of(const struct ustack *u)
{
	return uwait_self(u, uwait_run);
}

/*
 * Called if the thread of w could not block. claim claims w; NULL: as always
 * else. True: the wait has ended with rc.
 * False: w was claimed, or must not be given up. Then the thread holds its
 * processor until w has arrived.
 */
static NOINLINE bool give_up(struct uwait *w, int rc,
			     bool (*claim)(struct uwait *w))
{
	if (uwait_state(w) == UWAIT_ARRIVED)
		return false;
	if (!(w->w_flags & UWAIT_SURE) &&
	    (claim != NULL ? claim(w) : uwait_claim(w))) {
		w->w_result = rc;
		uwait_arrived(w);
		w->w_taken++;		/* as if it had waited */
		return true;
	}
	pause_and_drain(w->w_stack);
	return false;
}

/*
 * Does what is left to do after a wait, and frees a record that only this file
 * knows. Returns the result of the wait.
 */
static NOINLINE int ended(struct uwait *w)
{
	struct ustack *u = w->w_stack;
	struct uself *e;
	int rc;

	if (w->w_taken != 1)
		back(u, w->w_taken - 1);
	watch_end(w);
	if (w->w_flags & LIMITED) {
		timer_stop(w, u->u_sched);
		e = self_of(u);
		if (e != NULL)
			e->e_ops->eo_leave(e, w);
	}
	rc = w->w_result;
	if (w->w_kind == UWAIT_FD)
		return __atomic_load_n(&uwait_fd_end, __ATOMIC_RELAXED)(w, rc);
	if (w->w_kind > UWAIT_WAKE)
		return rc;
	if (w->w_kind == UWAIT_SLEEP && rc == -ETIMEDOUT)
		rc = 0;
	uwait_free(w);
	return rc;
}

/*
 * The loop of each wait. Of the wakes that the caller takes, the last or an
 * earlier one belongs to w. It gives back the others. Its stack frame is a part
 * of each slice: so it keeps w only, and calls the rest last.
 */
static NOINLINE int block(struct uwait *w)
{
	struct usched *s;
	int rc;

	do {
		s = w->w_stack->u_sched;
		USCHED_RACE(60);
		rc = s->s_wait(s);
		w->w_taken += rc == 0;
		if (__builtin_expect(rc != 0, 0) && give_up(w, rc, NULL))
			break;
	} while (w->w_taken == 0 || uwait_state(w) != UWAIT_ARRIVED);
	return ended(w);
}

void uwait_block(struct uwait *w, bool (*claim)(struct uwait *w))
{
	struct usched *s;
	int rc;

	w->w_taken = 0;
	watch_begin(w, UNEVER);
	do {
		s = w->w_stack->u_sched;
		USCHED_RACE(60);
		rc = s->s_wait(s);
		w->w_taken += rc == 0;
		if (rc != 0 && give_up(w, rc, claim))
			break;
	} while (w->w_taken == 0 || uwait_state(w) != UWAIT_ARRIVED);
	if (w->w_taken != 1 || uwait_watch != NULL)	/* not LIMITED */
		(void)ended(w);
}

static int native_for(struct uwait *w, utime_ns until)
{
	if (until == UNEVER || !clock_.c_virtual ||
	    !uwait_withdraw(w, -ENOSYS))
		uwait_native_block(w, until);
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
	int rc = 0;

	usched_point();
	w->w_taken  = 0;		/* a record may wait again */
	w->w_flags &= ~LIMITED;
	if (e != NULL || until != UNEVER)
		rc = begin(w, e, until);
	watch_begin(w, until);
	if (rc == 0 || !uwait_withdraw(w, rc))
		return true;
	w->w_taken = 1;				/* nothing to give back */
	return false;
}

static NOINLINE int wait_natively(struct uwait *w, utime_ns until)
{
	return __builtin_expect(uwait_watch == NULL, 1) ?
		native_for(w, until) :
		uwait_watch->v_native(w, until, native_for);
}

int uwait_for(struct uwait *w, utime_ns until)
{
	if (w->w_stack == NULL)
		return wait_natively(w, until);
	return prepare(w, until) ? block(w) : ended(w);
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

	if (e->e_ops->eo_int)
		result = (void *)(intptr_t)((int (*)(void *))f)(h->h_arg);
	else
		result = ((void *(*)(void *))f)(h->h_arg);
	e->e_ops->eo_end(e, result);
}

int uwait_timer_start(struct uwait_timer *t, utime_ns until)
{
	const struct ustack *u = ustack_self();

	if (u == NULL)
		return -EINVAL;
	return until == UNEVER ? 0 :
		timer_start(&t->t_wait, u->u_sched, until);
}

/* Sleeping. */

static int native_sleep(utime_ns until)
{
	struct timespec t = { until / UTIME_S, until % UTIME_S };

	if (clock_.c_virtual)
		return -ENOSYS;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) ==
	       EINTR)
		;
	return 0;
}

static NOINLINE struct uwait *short_new(enum uwait_kind kind)
{
	int rc;

	return uwait_new(sizeof(struct uwait), kind, NULL, &rc);
}

/* The record is freed by ended(), so no frame here has to wait for that. */
int u_sleep(utime_ns until)
{
	const struct ustack *u = ustack_self();
	struct uwait *w;

	if (until < 0)
		return -EINVAL;
	if (u == NULL)
		return native_sleep(until);
	w = short_new(UWAIT_SLEEP);
	if (w == NULL)
		return u->u_sched->s_wait != NULL ? -ENOMEM : -ENOSYS;
	return uwait_for(w, until);
}

/* The record is posted to its own host, which takes it at its next look. */
int uwait_give_way(void)
{
	const struct ustack *u = ustack_self();
	struct uwait_host *h = u->u_sched->s_waits;
	struct uwait *w;

	if (h == NULL || h->h_ops == NULL)
		return u_sleep(unow());
	w = short_new(UWAIT_SLEEP);
	if (w == NULL)
		return u->u_sched->s_wait != NULL ? -ENOMEM : -ENOSYS;
	w->w_flags |= UWAIT_SURE;
	w->w_result = 0;
	(void)uwait_claim(w);
	h->h_ops->o_post(h, w);
	return uwait_for(w, UNEVER);
}

struct uticker uticker(utime_ns period)
{
	struct uticker k = { period > 0 ? uafter(period) : 0, period };

	return k;
}

int uticker_wait(struct uticker *k, long *missed)
{
	utime_ns late;
	int rc;

	if (k->k_period <= 0)
		return -EINVAL;
	rc = u_sleep(k->k_next);
	if (rc != 0)
		return rc;
	late = (unow() - k->k_next) / k->k_period;
	k->k_next += (late + 1) * k->k_period;
	if (missed != NULL)
		*missed = (long)late;
	return 0;
}

/* Waiting for wakes. */

/* Takes a wake that has come, if the dispatcher counts them. */
static bool try_wake(struct ustack *u)
{
	struct uwait_host *h = u->u_sched->s_waits;

	return h != NULL && h->h_ops != NULL && h->h_ops->o_try(u);
}

/*
 * Called after s_wait(), which returned rc. Each wake that does not belong to w
 * is the event, even if w has arrived before the thread ran again. True: the
 * wait has ended. Wakes beyond the event are given back by ended().
 */
static NOINLINE bool woken(struct uwait *w, int rc)
{
	if (w->w_taken > 0 && uwait_withdraw(w, 0))
		return true;
	if (rc != 0 && w->w_taken == 0 && uwait_withdraw(w, rc)) {
		w->w_taken = 1;
		return true;
	}
	if (w->w_taken > 0 && uwait_state(w) == UWAIT_ARRIVED) {
		if (w->w_taken > 1)
			w->w_taken--;
		else if (!try_wake(w->w_stack))
			return true;
		w->w_result = 0;
		return true;
	}
	if (rc != 0)
		pause_and_drain(w->w_stack);
	return false;
}

static NOINLINE int block_for_wake(struct uwait *w)
{
	struct usched *s;
	int rc;

	do {
		s  = w->w_stack->u_sched;
		rc = s->s_wait(s);
		w->w_taken += rc == 0;
	} while (!woken(w, rc));
	return ended(w);
}

static int wait_until(utime_ns until)
{
	struct uwait *w = short_new(UWAIT_WAKE);

	if (w == NULL)
		return -ENOMEM;
	return prepare(w, until) ? block_for_wake(w) : ended(w);
}

int u_wait_until(utime_ns until)
{
	struct ustack *u = ustack_self();

	if (u == NULL || until < 0)
		return -EINVAL;
	if (u->u_sched->s_wait == NULL)
		return -ENOSYS;
	usched_point();
	if (try_wake(u))
		return 0;
	if (until == UNOW)
		return -EAGAIN;
	if (until == UNEVER && self_of(u) == NULL)
		return u->u_sched->s_wait(u->u_sched);
	return wait_until(until);
}

/* Events from outside. */

static struct uwait_host *host_here(void)
{
	const struct ustack *u = ustack_self();

	return u != NULL ? host_of(u->u_sched) : NULL;
}

int uwait_source_add(struct uwait_source *o)
{
	struct uwait_host *h = host_here();

	if (h == NULL)
		return ustack_self() == NULL ? -EINVAL : -ENOMEM;
	if (h->h_ops != NULL)
		h->h_ops->o_source(h, o);
	else {
		o->o_next   = h->h_source;
		h->h_source = o;
	}
	return 0;
}

struct uwait_source *uwait_source_of(void (*look)(struct uwait_source *o))
{
	const struct uwait_host *h = host_here();
	struct uwait_source *o = h != NULL ? uwait_sources(h) : NULL;

	while (o != NULL && o->o_look != look)
		o = o->o_next;
	return o;
}

static void waits_add(struct uwait_source *o, long nr)
{
	struct uwait_host *h = host_here();

	if (usource_add(o, nr) && h->h_ops != NULL)
		h->h_ops->o_hold(h, nr > 0);
}

void uwait_source_begin(struct uwait_source *o)
{
	waits_add(o, 1);
}

void uwait_source_end(struct uwait_source *o)
{
	waits_add(o, -1);
}

void uwait_look_outside(struct uwait_host *h)
{
	usource_look(uwait_sources(h), h);
}

void uwait_sleep_outside(struct uwait_host *h, int *asleep, utime_ns ns)
{
	usource_sleep(uwait_sources(h), asleep, ns);
}

void uwait_sources_fini(struct uwait_host *h)
{
	struct uwait_source *o, *next;

	for (o = h->h_source; o != NULL; o = next) {
		next = o->o_next;
		if (o->o_fini != NULL)
			o->o_fini(o);
	}
	h->h_source = NULL;
}

bool uwait_awaits_outside(const struct uwait_host *h)
{
	const struct uwait_source *o;

	for (o = uwait_sources(h); o != NULL; o = o->o_next)
		if (__atomic_load_n(&o->o_waits, __ATOMIC_RELAXED) != 0)
			return true;
	return false;
}

/* Bare sets of call-backs. */

void utime_run(struct usched *s)
{
	struct uwait_host *h = s->s_waits;

	if (h == NULL)
		return;
	if (uwait_must_look(h))
		uwait_look(h);
	if (h->h_source != NULL)
		uwait_look_outside(h);
}

/* Sleeps until the deadline of h, or an event. */
static void sleep_bare(struct uwait_host *h, utime_ns due)
{
	int asleep = 1;
	utime_ns ns = UNEVER;

	/* Virtual time stands still while threads wait for events. */
	if (due != UNEVER && !clock_.c_virtual)
		ns = due - unow();
	if (uwait_outside(h))
		uwait_sleep_outside(h, &asleep, ns > 0 ? ns : 0);
	else if (clock_.c_virtual)
		utime_jump(due);
	else
		(void)native_sleep(due);
}

bool utime_idle(struct usched *s)
{
	struct uwait_host *h = s->s_waits;
	utime_ns due = h != NULL ? uwait_due(h) : UNEVER;

	if (due == UNEVER && (h == NULL || !uwait_outside(h)))
		return false;
	sleep_bare(h, due);
	uwait_look(h);
	return true;
}

void utime_fini(struct usched *s)
{
	struct uwait_host *h = s->s_waits;

	if (h == NULL || h->h_ops != NULL)
		return;
	if (h->h_timers != 0)
		usched_fail("utime_fini: a thread waits with a deadline");
	if (uwait_outside(h))
		usched_fail("utime_fini: a thread waits for an event");
	uwait_sources_fini(h);
	if (h->h_wheel != NULL)
		s->s_free(s, h->h_wheel, sizeof *h->h_wheel);
	s->s_waits = NULL;
	s->s_free(s, h, sizeof *h);
}
