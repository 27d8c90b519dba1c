/* SPDX-License-Identifier: MIT */
/* m_poll.c: scenarios of source.h: workers, a source that they share, the end. */

/*
 * Workers look and sleep as in uproc.c and ws.c. Threads wait for events of a
 * source, so often each, and then end. The scenario's last thread lets as many
 * events come, at any time, also before a thread waits for them. Then it waits
 * for the end, as uproc_fini() does, unless another thread does so from the
 * beginning.
 *
 * The system knows which threads wait (armed), and which events have come
 * (ready). A worker that sleeps in the source goes on when both are so for a
 * thread, or when the descriptor can be read. It may also return early, some
 * times (early), as after a time. So does a worker that looks at a source in
 * which it cannot sleep.
 *
 * A thread that moves is sent to the other worker twice in each wait: between
 * usource_add() and the wait, and between the event and usource_add().
 *
 * A local source is that of the first worker. A thread of the other worker is a
 * guest: it waits if some thread waits there already, and ends otherwise. The
 * other worker looks at the source as a thief does, at any time.
 */
#include <unistd.h>

#include "model.h"
#define UPARK_WRITE(fd, at, nob)	fd_write((fd), (nob))
static long fd_write(int fd, unsigned long nob);
#include "park.h"
#define upark_futex_wait_for(word, value, ns)	nap((word), (value), (ns))
static void nap(const int *word, int value, long ns);
#include "idle.h"
#include "source.h"

#define WORKERS	3
#define THREADS	2
#define FD	5

enum step { BEGINS, ARMS, WAITS, GOES_ON, LEAVES, ENDED };

static struct {
	struct worker {
		int p_asleep;
		int p_posted;		/* threads that can run here (atomic) */
		int p_runs;		/* the same, taken; owner only */
	} worker[WORKERS];
	struct thread {
		enum step t_step;
		int       t_left;	/* events to wait for */
		int       t_home;	/* its worker */
		int       t_armed;	/* atomic */
		int       t_ready;	/* events that have come (atomic) */
	} thread[THREADS];
	struct uwait_source source;
	int workers;
	int threads;
	int events;			/* for each thread */
	int moves;
	int guests;			/* waits of guests */
	int idle;			/* see idle.h */
	int stop;			/* atomic */
	int fd;				/* what can be read (atomic) */
	int early;			/* sleeps that return early; the holder's */
	int looks;			/* plain: the holder of the role only */
} s;

static int posted(const struct worker *p)
{
	return __atomic_load_n(&p->p_posted, __ATOMIC_SEQ_CST);
}

static bool stopped(void)
{
	return __atomic_load_n(&s.stop, __ATOMIC_SEQ_CST) != 0;
}

/* Lets t run at its home, which may be me, the caller. */
static void ready(struct worker *me, struct thread *t)
{
	struct worker *p = &s.worker[t->t_home];
	int bit = 1 << (t - s.thread);

	if (p == me) {
		p->p_runs |= bit;
		return;
	}
	__atomic_fetch_or(&p->p_posted, bit, __ATOMIC_SEQ_CST);	/* park W1 */
	uidle_wake(&s.idle, &p->p_asleep);
}

/* A wait of a thread begins, and ends. */

static void begin(void)
{
	if (usource_add(&s.source, 1))
		uidle_hold(&s.idle);
}

static void end(void)
{
	if (usource_add(&s.source, -1))
		uidle_unhold(&s.idle);
}

/* The source. */

static long fd_write(int fd, unsigned long nob)
{
	MUST(fd == FD && nob == 8);
	__atomic_fetch_add(&s.fd, 1, __ATOMIC_RELAXED);
	return (long)nob;
}

static bool has_come(const struct thread *t)
{
	return __atomic_load_n(&t->t_armed, __ATOMIC_ACQUIRE) &&
	       __atomic_load_n(&t->t_ready, __ATOMIC_RELAXED) > 0;
}

/* The holder is the worker whose word has the role, or a worker by its number. */
static struct worker *holder(const struct uwait_source *o)
{
	const char *who = __atomic_load_n(&o->o_role, __ATOMIC_RELAXED);

	MUST(who != NULL);
	return &s.worker[(who - (char *)s.worker) / sizeof s.worker[0]];
}

/* Tells the threads whose event has come. */
static void look(struct uwait_source *o)
{
	struct worker *me = holder(o);
	int i;

	s.looks++;
	for (i = 0; i < s.threads; i++) {
		struct thread *t = &s.thread[i];

		if (!has_come(t))
			continue;
		__atomic_fetch_sub(&t->t_ready, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&t->t_armed, 0, __ATOMIC_RELAXED);
		MUST(t->t_step == WAITS);
		t->t_step = GOES_ON;
		ready(me, t);
	}
}

/* Returns what poll(2) would see: whether a sleep in the source ends. */
static bool wakes(void)
{
	int i;

	if (__atomic_load_n(&s.fd, __ATOMIC_RELAXED) != 0)
		return true;
	for (i = 0; i < s.threads; i++)
		if (has_come(&s.thread[i]))
			return true;
	return false;
}

static void sleep_in(struct uwait_source *o, utime_ns ns)
{
	(void)ns;
	s.looks++;
	if (s.early > 0)
		s.early--;
	else
		while (!wakes())
			model_pause(1);
	(void)__atomic_exchange_n(&s.fd, 0, __ATOMIC_RELAXED);
	look(o);
}

/*
 * A timed sleep. It ends early, or by a wake, or in time: at the first moment
 * that matters.
 */
static void nap(const int *word, int value, long ns)
{
	(void)ns;
	if (s.early > 0)
		s.early--;
	else
		while (__atomic_load_n(word, __ATOMIC_RELAXED) == value &&
		       !wakes())
			model_pause(2);
}

/* Threads, and workers. */

/* Sends t to the other worker, if it moves. */
static bool move(struct worker *p, struct thread *t)
{
	if (!s.moves)
		return false;
	t->t_home = 1 - t->t_home;
	ready(p, t);
	return true;
}

/* Begins a wait of t at p. False: t is a guest, and cannot wait. */
static bool begins(const struct worker *p)
{
	if (!s.source.o_local || p == &s.worker[0]) {
		begin();
		return true;
	}
	if (!usource_join(&s.source))				/* source Y1 */
		return false;
	s.guests++;
	return true;
}

/* Runs t: up to its next wait, its next move, or its end. */
static void run(struct worker *p, struct thread *t)
{
	MUST(&s.worker[t->t_home] == p);
	for (;;) {
		switch (t->t_step) {
		case BEGINS:
			if (!begins(p)) {
				t->t_step = ENDED;
				return;
			}
			t->t_step = ARMS;
			if (move(p, t))
				return;
			break;
		case ARMS:
			t->t_step = WAITS;
			__atomic_store_n(&t->t_armed, 1, __ATOMIC_RELEASE);
			return;
		case GOES_ON:
			t->t_step = LEAVES;
			if (move(p, t))
				return;
			break;
		case LEAVES:
			end();
			t->t_step = --t->t_left > 0 ? BEGINS : ENDED;
			break;
		default:
			MUST(t->t_step == ENDED);
			return;
		}
	}
}

static void take_posted(struct worker *p)
{
	if (posted(p) != 0)
		p->p_runs |= __atomic_exchange_n(&p->p_posted, 0,
						 __ATOMIC_ACQUIRE);
}

static bool over(void)
{
	int i;

	for (i = 0; i < s.threads; i++)
		if (s.thread[i].t_step != ENDED)
			return false;
	return s.source.o_waits == 0;
}

/* Returns the sources of p. */
static struct uwait_source *sources(const struct worker *p)
{
	return !s.source.o_local || p == &s.worker[0] ? &s.source : NULL;
}

static void park(struct worker *p)
{
	upark_prepare(&p->p_asleep);				/* park S1, S2 */
	if ((posted(p) != 0 || stopped()) &&			/* park S3 */
	    upark_cancel(&p->p_asleep))
		return;
	if (uidle_enter(&s.idle, s.workers))			/* source Z1 */
		MUST(over());
	usource_sleep(sources(p), &p->p_asleep, UNEVER);	/* source Z2 to Z5 */
	(void)uidle_awake(&s.idle, &p->p_asleep);
}

static void worker(int nr)
{
	struct worker *p = &s.worker[nr];
	int i;

	for (;;) {
		model_turn(1);
		take_posted(p);
		if (p->p_runs != 0) {
			usource_look(sources(p), p);	/* source F1 to F3 */
			i = __builtin_ctz((unsigned)p->p_runs);
			p->p_runs &= p->p_runs - 1;
			run(p, &s.thread[i]);
		} else if (stopped())
			return;
		else {
			if (sources(p) == NULL)
				usource_look_local(&s.source, p);
			if (p->p_runs == 0)
				park(p);
		}
	}
}

static void zero(void)	{ worker(0); }
static void one(void)	{ worker(1); }
static void two(void)	{ worker(2); }

static void events(void)
{
	int i, j;

	for (i = 0; i < s.threads; i++)
		for (j = 0; j < s.events; j++)
			__atomic_fetch_add(&s.thread[i].t_ready, 1,
					   __ATOMIC_RELAXED);
}

/* Like uproc_fini(). */
static void finish(void)
{
	int i;

	uidle_wait(&s.idle, s.workers);
	MUST(over());
	MUST(s.threads > 0 || s.looks == 0);
	__atomic_store_n(&s.stop, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < s.workers; i++)
		(void)upark_wake(&s.worker[i].p_asleep);
}

static void events_finish(void)
{
	events();
	finish();
}

/* Thread i begins on worker i. */
static void init(int workers, int threads, int nr)
{
	int i;

	s.workers = workers;
	s.threads = threads;
	s.events  = nr;
	s.source.o_look  = look;
	s.source.o_sleep = sleep_in;
	s.source.o_wake  = FD;
	for (i = 0; i < threads; i++) {
		s.thread[i].t_left = nr;
		s.thread[i].t_home = i;
		s.worker[i].p_runs = 1 << i;
	}
	NAME(s.idle);
	NAME(s.stop);
	NAME(s.fd);
	NAME(s.looks);
	NAME(s.source.o_waits);
	NAME(s.source.o_role);
	NAME(s.worker[0].p_asleep);
	NAME(s.worker[1].p_asleep);
	NAME(s.worker[2].p_asleep);
	NAME(s.worker[0].p_posted);
	NAME(s.worker[1].p_posted);
	NAME(s.worker[2].p_posted);
	NAME(s.thread[0].t_armed);
	NAME(s.thread[1].t_armed);
	NAME(s.thread[0].t_ready);
	NAME(s.thread[1].t_ready);
}

static void init_none(void)	{ init(2, 0, 0); }
static void init_alone(void)	{ init(1, 1, 2); }
static void init_thread(void)	{ init(2, 1, 1); }
static void init_again(void)	{ init(2, 1, 2); }
static void init_two(void)	{ init(2, 2, 1); }
static void init_three(void)	{ init(3, 2, 1); }
static void init_moves(void)	{ init(2, 1, 1); s.moves = 1; }
static void init_early(void)	{ init(2, 1, 1); s.early = 1; }
static void init_naps(void)	{ init_early(); s.source.o_sleep = NULL; }

static void init_guest(void)
{
	init(2, 2, 1);
	s.source.o_local = 1;
}

static void init_guest_again(void)
{
	init_guest();
	s.thread[0].t_left = s.thread[1].t_left = 2;
	s.events = 2;
}

/* Thread i waits on worker i, and its event has come. */
static void goes_on(int i)
{
	s.thread[i].t_step = GOES_ON;
	s.source.o_waits++;
	s.idle = -1;
}

static void init_end(void)
{
	init(2, 2, 1);
	s.events = 0;
	goes_on(0);
	goes_on(1);
}

/*
 * A thread waits again while the other worker, which has looked for the first
 * wait, knows nothing of the second.
 */
static void init_stale(void)
{
	init(2, 2, 1);
	s.thread[0].t_step = ENDED;
	s.thread[1].t_left = 2;
	goes_on(1);
}

#define ANY	MODEL_ANY
#define NOT	MODEL_NOT

const struct model_scenario scenarios[] = {
	{ "poll: no thread waits", 2, ANY, 0, &s, sizeof s, init_none,
	  { zero, one, finish }, NULL },
	{ "poll: a worker, twice", 2, ANY, 0, &s, sizeof s, init_alone,
	  { zero, events, finish }, NULL },
	{ "poll: two threads end", 2, ANY, 0, &s, sizeof s, init_end,
	  { zero, one, finish }, NULL },
	{ "poll: a worker that does not know of a wait", 1, 2, 0, &s, sizeof s,
	  init_stale, { zero, one, events_finish }, NULL },
	{ "poll: two workers, a thread", 1, 3, 0, &s, sizeof s, init_thread,
	  { zero, one, events, finish }, NULL },
	{ "poll: a thread that moves", 1, 2, 0, &s, sizeof s, init_moves,
	  { zero, one, events_finish }, NULL },
	{ "poll: sleeps that return early", 1, 2, 0, &s, sizeof s, init_early,
	  { zero, one, events_finish }, NULL },
	{ "poll: no sleep in the source", 1, 2, 0, &s, sizeof s, init_naps,
	  { zero, one, events_finish }, NULL },
	{ "poll: a thread, twice", 1, 2, 0, &s, sizeof s, init_again,
	  { zero, one, events_finish }, NULL },
	{ "poll: a guest", 1, 2, 0, &s, sizeof s, init_guest,
	  { zero, one, events_finish }, NULL },
	{ "poll: a guest, twice", 0, 1, 0, &s, sizeof s, init_guest_again,
	  { zero, one, events_finish }, NULL },
	{ "poll: two threads", 0, 1, 0, &s, sizeof s, init_two,
	  { zero, one, events_finish }, NULL },
	{ "poll: three workers", NOT, 0, 0, &s, sizeof s, init_three,
	  { zero, one, two, events_finish }, NULL },
	{ 0 }
};
