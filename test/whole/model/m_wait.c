/* SPDX-License-Identifier: MIT */
/* m_wait.c: scenarios of record.h: a waiter, its processors, and claimers. */

/*
 * One thread waits for a record, in the steps of uwait.c. It takes any wake for
 * a reason to look, and gives back those that were not for the record. Then it
 * waits for the foreign wakes that it knows of, and ends. Its memory and the
 * memory of the record are written then, so any later access is a race.
 *
 * Processors run the thread, as uproc.c and ws.c do. Worker 1 may move the
 * thread once, as a thief, while it has the lock of worker 0 (p_in stands for
 * stop.h). The deadline is in the wheel of worker 0, and due in each look, or
 * never. As a look may come at any time, so may the deadline.
 *
 * Or a native thread waits, until its event or a deadline.
 */
#include "model.h"
#include "usched.h"
#include "wakes.h"
#include "park.h"
/* A timed sleep ends when the time or the state may have changed. */
#define upark_futex_wait_for(word, value, ns) \
	((void)(word), (void)(value), (void)(ns), model_pause(5))
#include "record.h"
#define ULOCK_PLACE(l)	place_of(l)
struct ulock;
static int *place_of(const struct ulock *l);
#include "lock.h"

#define WORKERS	2
#define POSTS	3

enum { NEVER, DUE };			/* in p_timer: no timer is 0 */
enum { RESULT = 5, CANCELED = 6, NO_MEMORY = 7, TIMED_OUT = -ETIMEDOUT };

static struct {
	struct worker {
		struct uwait_base p_base;
		struct uinbox     p_inbox;
		struct ulock      p_in;
		struct uwait     *p_timer;	/* the wheel; owner, in */
		int               p_due;	/* the timer is */
		int               p_runs;	/* the thread can run here */
		int               p_asleep;
		int               p_pool;	/* owner only */
	} worker[WORKERS];
	struct {
		struct uwakes t_wakes;
		int           t_lane;		/* atomic */
		int           t_waits;		/* wakes taken in the wait */
		int           t_over;		/* the wait is */
		int           t_left;		/* foreign wakes to come */
	} thread;
	int            home;		/* of its lane: a worker (atomic) */
	struct uwait   record;
	struct uwait   list[POSTS];
	int            value;		/* plain, by the claimer */
	/* The object, and a scope: where the claimers find the record. */
	struct ulock   lock;
	struct uwait  *queue;
	struct uwait  *scope;
	int            result;		/* of the wait */
	int            got;		/* events that claimed */
	int            canceled;	/* cancellations that claimed */
	int            fired;		/* deadlines that claimed */
	int            moves;		/* left to worker 1 */
	int            sleeps;		/* the processor does */
	int            taken;		/* foreign wakes, in timed waits; or
					 * records of the list */
	int            freed;		/* records (atomic) */
	int            ended;		/* the thread has (atomic) */
	utime_ns       now;		/* atomic */
	int            place[WORKERS + 1];	/* of lock.h */
} s;

static int *place_of(const struct ulock *l)
{
	int i;

	for (i = 0; i < WORKERS && l != &s.worker[i].p_in; i++)
		;
	return &s.place[i];
}

utime_ns unow(void)
{
	return __atomic_load_n(&s.now, __ATOMIC_RELAXED);
}

/* Returns the worker of the thread, which has not ended. */
static int home(void)
{
	MUST(__atomic_load_n(&s.thread.t_lane, __ATOMIC_RELAXED) == 0);
	return __atomic_load_n(&s.home, __ATOMIC_ACQUIRE);
}

static int number(const struct worker *p)
{
	return (int)(p - s.worker);
}

/* The thread is blocked, and its record is in the object and in the scope. */
static void init(void)
{
	struct uwait *w = &s.record;
	int i;

	for (i = 0; i < WORKERS; i++) {
		uwait_base_init(&s.worker[i].p_base, NULL, NULL);
		uinbox_init(&s.worker[i].p_inbox);
	}
	w->w_stack = (struct ustack *)&s.thread;
	uwakes_init(&s.thread.t_wakes);
	s.queue = s.scope = w;
	NAME(s.record.w_state);
	NAME(s.worker[0].p_base.wb_posted);
	NAME(s.worker[1].p_base.wb_posted);
	NAME(s.worker[0].p_in.l_state);
	NAME(s.worker[1].p_in.l_state);
	NAME(s.worker[0].p_asleep);
	NAME(s.worker[0].p_inbox.i_tail);
	NAME(s.worker[0].p_inbox.i_head);
	NAME(s.worker[0].p_inbox.i_stub);
	NAME(s.thread.t_wakes.w_posted);
	NAME(s.thread.t_wakes.w_node);
	NAME(s.thread.t_lane);
	NAME(s.home);
	NAME(s.lock.l_state);
	NAME(s.freed);
	NAME(s.ended);
	NAME(s.now);
}

void uwait_base_init(struct uwait_base *b, struct usched *sched,
		     const struct uwait_ops *ops)
{
	b->wb_sched = sched;
	b->wb_ops   = ops;
	b->wb_due   = UNEVER;
}

/* Starts the deadline: in the wheel of worker 0. */
static void timer(int due)
{
	s.worker[0].p_timer = &s.record;
	s.worker[0].p_due   = due;
	s.record.w_base     = &s.worker[0].p_base;
}

static void init_sleeps(void)	{ init(); s.sleeps = 1; }
static void init_foreign(void)	{ init(); s.thread.t_left = 1; }
static void init_two(void)	{ init(); s.thread.t_left = 2; }
static void init_due(void)	{ init(); timer(DUE); }
static void init_due_foreign(void)	{ init_due(); s.thread.t_left = 1; }
static void init_moves(void)	{ init(); s.moves = 1; }
static void init_orphan(void)	{ init_moves(); timer(NEVER); }
static void init_moves_due(void)	{ init_moves(); timer(DUE); }

/* Gives the memory of the record to another use. */
static void release(struct uwait *w)
{
	w->w_stack  = NULL;
	w->w_state  = 77;
	w->w_result = 77;
	w->w_base   = NULL;
	w->w_flags  = 77;
	w->w_at.link = NULL;
	w->w_node.n_prev = NULL;
	s.value = 77;
	__atomic_fetch_add(&s.freed, 1, __ATOMIC_RELEASE);
}

/* The end of a wait, and its way home. */

static void post(struct worker *p, struct uwait *w)
{
	uwait_post(&p->p_base, w);			/* uwait H2 */
	(void)upark_wake(&p->p_asleep);
}

static void tell(struct uwait *w)
{
	post(&s.worker[home()], w);
}

/* Caller is p, and p is the home of the thread. */
static void arrive(struct worker *p, struct uwait *w)
{
	MUST(__atomic_load_n(&w->w_state, __ATOMIC_RELAXED) == UWAIT_CLAIMED);
	MUST(home() == number(p));
	uwait_arrived(w);				/* uwait H4 */
	if (uwakes_add(&s.thread.t_wakes, 1))
		p->p_runs = 1;
}

static void timer_out(struct worker *p)
{
	p->p_timer = NULL;
}

/* Takes w, which was posted to p, the caller. */
static void take(struct worker *p, struct uwait *w)
{
	if (__atomic_load_n(&w->w_state, __ATOMIC_RELAXED) == UWAIT_ARRIVED) {
		timer_out(p);
		p->p_pool++;
		release(w);
	} else if (home() != number(p))
		tell(w);
	else
		arrive(p, w);
}

static void expire(struct worker *p)
{
	struct uwait *w = p->p_timer;

	if (w == NULL || p->p_due != DUE)
		return;
	p->p_timer = NULL;
	if (!uwait_claim(w))
		return;
	w->w_result = TIMED_OUT;
	s.fired++;
	tell(w);
}

static void look(struct worker *p)
{
	struct uwait *w, *next;
	struct uwakes *k;
	int nr = 0;

	while ((k = uwakes_take(&p->p_inbox, &nr)) != NULL) {
		MUST(nr > 0);
		if (uwakes_add(k, nr))
			p->p_runs = 1;
	}
	expire(p);
	for (w = uwait_take_list(&p->p_base); w != NULL; w = next) {
		next = w->w_at.link;
		take(p, w);
	}
}

/* The thread. */

static void end(void)
{
	MUST(s.thread.t_wakes.w_count == 0);
	s.thread.t_wakes.w_count  = 77;
	s.thread.t_wakes.w_posted = 77;
	s.thread.t_lane = 77;
	__atomic_store_n(&s.ended, 1, __ATOMIC_RELEASE);
}

/* Waits for the wakes that were not for the record. */
static void waits_more(void)
{
	while (s.thread.t_left > 0) {
		if (uwakes_wait(&s.thread.t_wakes))
			return;
		s.thread.t_left--;
	}
	end();
}

static void free_record(struct worker *p, struct uwait *w)
{
	if (w->w_base == &p->p_base) {
		timer_out(p);
		w->w_base = NULL;
	}
	if (w->w_base == NULL) {
		p->p_pool++;
		release(w);
	} else {
		uwait_arrived(w);
		post(&s.worker[0], w);			/* an orphan */
	}
}

/* Takes w out of the object and of the scope. */
static void take_out(const struct uwait *w)
{
	ulock_get(&s.lock);
	if (s.queue == w)
		s.queue = NULL;
	if (s.scope == w)
		s.scope = NULL;
	ulock_put(&s.lock);
}

/* The wait is over; waits of the wakes that were taken are for others. */
static void over(struct worker *p, int waits)
{
	struct uwait *w = &s.record;

	MUST(waits >= 0);
	s.thread.t_over = 1;
	uwakes_back(&s.thread.t_wakes, waits);
	s.result = w->w_result;
	MUST(w->w_result != RESULT || s.value == RESULT);
	MUST(w->w_result != CANCELED || s.value == CANCELED);
	take_out(w);
	free_record(p, w);
	waits_more();
}

/* A wait of uwait_block() has let the thread through. */
static void run(struct worker *p)
{
	do {
		s.thread.t_waits++;
		if (uwait_state(&s.record) == UWAIT_ARRIVED) {
			over(p, s.thread.t_waits - 1);
			return;
		}
	} while (!uwakes_wait(&s.thread.t_wakes));
}

static bool try_wake(struct worker *p)
{
	look(p);
	if (s.thread.t_wakes.w_count <= 0)
		return false;
	s.thread.t_wakes.w_count--;
	return true;
}

/* As run(), for u_wait_until(): a foreign wake is the event. See woken(). */
static void run_for_wake(struct worker *p)
{
	struct uwait *w = &s.record;

	do {
		s.thread.t_waits++;
		if (uwait_withdraw(w, 0))
			break;
		if (uwait_state(w) != UWAIT_ARRIVED)
			continue;
		if (s.thread.t_waits > 1)
			s.thread.t_waits--;
		else if (!try_wake(p))
			break;
		w->w_result = 0;
		break;
	} while (!uwakes_wait(&s.thread.t_wakes));
	if (s.thread.t_wakes.w_count < 0)
		return;
	s.taken += w->w_result == 0;
	s.thread.t_left -= w->w_result == 0;
	w->w_result = 0;
	over(p, s.thread.t_waits - 1);
}

/* Runs the thread behind a wait that has let it through. */
static void goes_on(struct worker *p, void (*f)(struct worker *p))
{
	p->p_runs = 0;
	if (s.thread.t_over) {
		s.thread.t_left--;
		waits_more();
	} else
		f(p);
}

/* Processors. */

static bool has_ended(void)
{
	return __atomic_load_n(&s.ended, __ATOMIC_ACQUIRE) != 0 &&
	       __atomic_load_n(&s.freed, __ATOMIC_ACQUIRE) != 0;
}

/* Sleeps, unless there is something: as uproc_look(). */
static void rest(struct worker *p)
{
	if (!s.sleeps) {
		model_pause(1);
		return;
	}
	upark_prepare(&p->p_asleep);			/* park S1, S2 */
	if ((uwait_posted(&p->p_base) || has_ended()) &&	/* park S3 */
	    upark_cancel(&p->p_asleep))
		return;
	upark_sleep(&p->p_asleep);			/* park S4 */
}

static void processor_of(void (*f)(struct worker *p))
{
	struct worker *p = &s.worker[0];

	for (;;) {
		model_turn(1);
		look(p);
		if (p->p_runs)
			goes_on(p, f);
		else if (has_ended())
			return;
		else
			rest(p);
	}
}

static void processor(void)		{ processor_of(run); }
static void processor_for_wake(void)	{ processor_of(run_for_wake); }

/* Processors between which the thread moves. */

/* Takes the thread from worker 0, if it is there and blocked. */
static void steal(void)
{
	if (s.moves == 0)
		return;
	ulock_get(&s.worker[0].p_in);
	if (!s.worker[0].p_runs)
		__atomic_store_n(&s.home, 1, __ATOMIC_SEQ_CST);
	s.moves = 0;
	ulock_put(&s.worker[0].p_in);
}

static void worker(int nr)
{
	struct worker *p = &s.worker[nr];

	for (;;) {
		bool ran;

		model_turn(2);
		if (nr == 1)
			steal();
		if (has_ended())
			return;
		ulock_get(&p->p_in);
		look(p);
		ran = p->p_runs;
		if (ran)
			goes_on(p, run);
		ulock_put(&p->p_in);
		if (!ran && !has_ended())
			model_pause(2);
	}
}

static void zero(void)		{ worker(0); }
static void one(void)		{ worker(1); }

/* Claimers. */

static void claims(struct uwait **queue, int result, int *count)
{
	struct uwait *w;

	ulock_get(&s.lock);
	w = *queue;
	*queue = NULL;
	if (w != NULL && !uwait_claim(w))		/* uwait H1 */
		w = NULL;
	ulock_put(&s.lock);
	if (w == NULL)
		return;
	++*count;
	s.value = result;
	w->w_result = result;
	if (w->w_stack == NULL)
		uwait_complete_native(w);
	else
		tell(w);
}

static void event(void)		{ claims(&s.queue, RESULT, &s.got); }
static void cancel(void)	{ claims(&s.scope, CANCELED, &s.canceled); }

static void foreign(void)
{
	(void)uwakes_post(&s.thread.t_wakes, &s.worker[0].p_inbox);
}

static void foreign_twice(void)
{
	foreign();
	foreign();
}

static void event_and_foreign(void)
{
	event();
	foreign();
}

/* One claimer has won, and its result is that of the wait. */
static void done(void)
{
	MUST(s.got + s.canceled + s.fired == 1);
	MUST(s.result == (s.got ? RESULT : s.canceled ? CANCELED : TIMED_OUT));
	MUST(s.freed == 1 && s.ended == 1);
	MUST(s.worker[0].p_timer == NULL);
	MUST(s.worker[0].p_base.wb_posted == NULL);
	MUST(s.worker[1].p_base.wb_posted == NULL);
	MUST(s.queue == NULL && s.scope == NULL);
}

/* Each wake was taken by one wait. */
static void done_wakes(void)
{
	MUST(s.taken <= 1 && s.thread.t_left == 0);
	MUST(s.freed == 1 && s.ended == 1);
}

/* A thread that cannot block: see uwait_block(). */

static void cannot_block(void)
{
	struct worker *p = &s.worker[0];
	struct uwait *w = &s.record;

	s.thread.t_wakes.w_count = 0;		/* it runs */
	if (uwait_withdraw(w, NO_MEMORY)) {
		over(p, 0);
		return;
	}
	for (look(p); uwait_state(w) != UWAIT_ARRIVED; look(p))
		model_pause(3);
	MUST(!uwakes_wait(&s.thread.t_wakes));	/* the next s_wait() */
	over(p, 0);
}

static void done_memory(void)
{
	MUST(s.got <= 1 && s.result == (s.got ? RESULT : NO_MEMORY));
	MUST(s.freed == 1 && s.ended == 1 && s.queue == NULL);
}

/* A native thread waits. */

static void init_native(void)
{
	init();
	s.record.w_stack = NULL;
	s.ended = 1;
}

static void native_until(utime_ns until)
{
	struct uwait *w = &s.record;

	uwait_native_block(w, until);
	s.result = w->w_result;
	MUST(s.result != RESULT || s.value == RESULT);
	if (s.result != RESULT)
		take_out(w);
	else
		s.scope = NULL;
	release(w);
}

static void native(void)		{ native_until(UNEVER); }
static void native_timed(void)		{ native_until(8); }

static void clock_goes(void)
{
	__atomic_store_n(&s.now, 9, __ATOMIC_RELAXED);
}

static void done_native(void)
{
	MUST(s.result == (s.got ? RESULT : TIMED_OUT) && s.freed == 1);
}

/* The list alone: all are taken, and those of one claimer in their order. */

static void takes_all(void)
{
	struct uwait_base *b = &s.worker[0].p_base;
	struct uwait *w, *next;

	while (s.taken < POSTS) {
		for (w = uwait_take_list(b); w != NULL; w = next) {
			next = w->w_at.link;
			w->w_at.link = NULL;
			MUST(w->w_kind == 0 && s.taken < POSTS);
			MUST(w != &s.list[1] || s.list[0].w_kind != 0);
			w->w_kind = 1;
			s.taken++;
		}
		if (s.taken < POSTS)
			model_pause(4);
	}
}

static void posts_two(void)
{
	uwait_post(&s.worker[0].p_base, &s.list[0]);
	uwait_post(&s.worker[0].p_base, &s.list[1]);
}

static void posts_one(void)
{
	uwait_post(&s.worker[0].p_base, &s.list[2]);
}

#define ANY	MODEL_ANY
#define NOT	MODEL_NOT

const struct model_scenario scenarios[] = {
	{ "wait: an event", ANY, ANY, 0,
	  &s, sizeof s, init, { processor, event }, done },
	{ "wait: an event, the processor sleeps", ANY, ANY, 0,
	  &s, sizeof s, init_sleeps, { processor, event }, done },
	{ "wait: an event, a foreign wake", ANY, ANY, 0,
	  &s, sizeof s, init_foreign, { processor, event, foreign }, done },
	{ "wait: an event, then a wake of the same", ANY, ANY, 0,
	  &s, sizeof s, init_foreign, { processor, event_and_foreign }, done },
	{ "wait: an event, a deadline", ANY, ANY, 0,
	  &s, sizeof s, init_due, { processor, event }, done },
	{ "wait: an event, a cancellation", ANY, ANY, 0,
	  &s, sizeof s, init, { processor, event, cancel }, done },
	{ "wait: an event, a cancellation, a deadline", 1, ANY, 0,
	  &s, sizeof s, init_due, { processor, event, cancel }, done },
	{ "wait: an event, a deadline, a foreign wake", NOT, ANY, 0,
	  &s, sizeof s, init_due_foreign, { processor, event, foreign }, done },
	{ "wait: for a wake, until a deadline", ANY, ANY, 0,
	  &s, sizeof s, init_due_foreign, { processor_for_wake, foreign },
	  done_wakes },
	{ "wait: for a wake, until a cancellation", ANY, ANY, 0,
	  &s, sizeof s, init_foreign, { processor_for_wake, foreign, cancel },
	  done_wakes },
	{ "wait: for a wake, of two, until a cancellation", ANY, ANY, 0,
	  &s, sizeof s, init_two,
	  { processor_for_wake, foreign_twice, cancel }, done_wakes },
	{ "wait: no memory to block, an event", ANY, ANY, 0,
	  &s, sizeof s, init, { cannot_block, event }, done_memory },
	{ "wait: it moves, an event", 2, 5, 0,
	  &s, sizeof s, init_moves, { zero, one, event }, done },
	{ "wait: it moves, an event, and its timer is left", 2, 4, 0,
	  &s, sizeof s, init_orphan, { zero, one, event }, done },
	{ "wait: it moves, an event, a deadline", 1, 4, 0,
	  &s, sizeof s, init_moves_due, { zero, one, event }, done },
	{ "wait: the list", ANY, ANY, 0,
	  &s, sizeof s, init, { takes_all, posts_two, posts_one }, NULL },
	{ "wait: natively, an event", ANY, ANY, 1,
	  &s, sizeof s, init_native, { native, event }, done_native },
	{ "wait: natively, a deadline", ANY, ANY, 1,
	  &s, sizeof s, init_native, { native_timed, clock_goes },
	  done_native },
	{ "wait: natively, an event, a deadline", ANY, ANY, 1,
	  &s, sizeof s, init_native, { native_timed, event, clock_goes },
	  done_native },
	{ 0 }
};
