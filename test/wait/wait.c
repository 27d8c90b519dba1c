/* SPDX-License-Identifier: MIT */
/* wait: each wait ends once, by the first of its ends, and nothing is lost. */
/* VARIANTS: RR LL WS */
/* LIBS: -Wl,-z,muldefs */

/*
 * Semaphores made of wait records. Threads and native threads post them, and
 * wait for them until deadlines of 0 to 200 us, or for ever. Others claim
 * records from a list, to cancel them. Meanwhile each thread gets foreign wakes,
 * from threads and native threads. It takes some by timed waits. At the end it
 * takes as many as were sent, and there is no other. Some threads end at once
 * after a wait; some are joined, until deadlines. The number of posts is the
 * number of waits that returned 0, and of posts not taken.
 *
 * uwait.c is compiled here, with delays at its race windows and those of
 * uproc.c, or of ws.c.
 */
#include "window.h"
#define ULOCK_SPINS	0	/* else few would sleep */
#define begin	uwait_begin
#include "uwait.c"
#undef begin
#include "lock.h"
#define set	the_set
#define native	native_main
#define native_join	natives_join
#if defined(WS)
#include "ws.c"
#else
#include "uproc.c"
#endif
#undef set
#undef native
#undef native_join
#undef SCHED
#undef THREAD
#include "either.h"

#define PROGRAMS	60		/* at most, with each number of processors */
#define SEMS		4
#define LISTED		8		/* records that can be canceled at once */
#define LIVES		12		/* threads that get foreign wakes */
#define TURNS		60		/* of each of them */
#define NATIVES		2
#define BRIEF		8		/* joined, of each of them */
#define MOST		200		/* us, of a deadline */

struct sem_wait {
	struct uwait     sw_wait;	/* first */
	struct sem_wait *sw_next;
};

static struct sem {
	struct ulock     s_lock;
	long             s_count;
	struct sem_wait *s_first;
} sem[SEMS];

static struct listed {
	struct ulock  l_lock;
	struct uwait *l_wait;
} listed[LISTED];

static struct life {
	thread *l_thread;
	long    l_sent;		/* wakes (atomic) */
	long    l_got;
	unsigned l_random;
} life[LIVES];

static long posted, taken;		/* of semaphores */
static long timeouts, cancels, events;	/* ends of waits that blocked */
static long sending;			/* threads that may send or post */
static long for_ever;			/* threads that wait without deadline */
static long ends;

static unsigned below(unsigned *r, unsigned nr)
{
	return check_random(r) % nr;
}

/* Draws a deadline: none at all, the past, or soon. */
static utime_ns draw(unsigned *r)
{
	switch (below(r, 8)) {
	case 0:		return UNOW;
	case 1:		return 1;
	case 2:		return uafter(below(r, 5) * UTIME_US);
	default:	return uafter(below(r, MOST * 1000));
	}
}

/* The list. */

/* Puts w on the list, if there is a place, and returns the place. */
static struct listed *list_put(struct uwait *w, unsigned nr)
{
	struct listed *l = &listed[nr % LISTED];

	ulock_get(&l->l_lock);
	if (l->l_wait != NULL) {
		ulock_put(&l->l_lock);
		return NULL;
	}
	l->l_wait = w;
	ulock_put(&l->l_lock);
	return l;
}

static void list_out(struct listed *l, const struct uwait *w)
{
	if (l == NULL)
		return;
	ulock_get(&l->l_lock);
	if (l->l_wait == w)
		l->l_wait = NULL;
	ulock_put(&l->l_lock);
}

static void cancel(unsigned nr)
{
	struct listed *l = &listed[nr % LISTED];
	struct uwait *w;

	ulock_get(&l->l_lock);
	w = l->l_wait;
	l->l_wait = NULL;
	if (w != NULL && !uwait_claim(w))
		w = NULL;
	ulock_put(&l->l_lock);
	if (w != NULL)
		uwait_complete(w, -ECANCELED);
}

/* Semaphores. */

static void post(struct sem *s)
{
	struct sem_wait *w;

	add(&posted, 1);
	ulock_get(&s->s_lock);
	while ((w = s->s_first) != NULL) {
		s->s_first = w->sw_next;
		w->sw_next = NULL;
		if (uwait_claim(&w->sw_wait))
			break;
	}
	s->s_count += w == NULL;
	ulock_put(&s->s_lock);
	if (w != NULL)
		uwait_complete(&w->sw_wait, 0);
}

static void sem_out(struct sem *s, const struct sem_wait *w)
{
	struct sem_wait **at;

	ulock_get(&s->s_lock);
	for (at = &s->s_first; *at != NULL; at = &(*at)->sw_next)
		if (*at == w) {
			*at = w->sw_next;
			break;
		}
	ulock_put(&s->s_lock);
}

/* Puts w at the end of the queue. False: there was a post to take instead. */
static bool sem_in(struct sem *s, struct sem_wait *w)
{
	struct sem_wait **at;
	bool in;

	ulock_get(&s->s_lock);
	in = s->s_count == 0;
	if (in) {
		for (at = &s->s_first; *at != NULL; at = &(*at)->sw_next)
			;
		w->sw_next = NULL;
		*at = w;
	} else
		s->s_count--;
	ulock_put(&s->s_lock);
	return in;
}

/* Takes a post. Any thread or native thread. */
static int take(struct sem *s, utime_ns deadline, unsigned nr)
{
	struct listed *l = NULL;
	struct sem_wait *w;
	int rc = 0;

	w = uwait_make(UWAIT_OTHER, s, sizeof *w);
	CHECK(w != NULL);
	if (deadline != UNEVER)
		l = list_put(&w->sw_wait, nr);
	if (sem_in(s, w)) {
		rc = uwait_for(&w->sw_wait, deadline);
		if (rc != 0)
			sem_out(s, w);
		add(rc == 0 ? &events : rc == -ETIMEDOUT ? &timeouts :
		    &cancels, 1);
	} else if (l != NULL && !uwait_claim(&w->sw_wait)) {
		/* It is being completed: there is a post for others, too. */
		CHECK_IS(uwait_for(&w->sw_wait, UNEVER), -ECANCELED);
		rc = 0;
	}
	list_out(l, &w->sw_wait);
	uwait_free(w);
	CHECK(rc == 0 || rc == -ETIMEDOUT || rc == -ECANCELED);
	CHECK(rc != -ETIMEDOUT || unow() >= deadline);
	if (rc == 0)
		add(&taken, 1);
	return rc;
}

/* The kind of u_wait_until(), but whoever cancels needs w while it is listed. */
static struct uwait_kind listed_wake = {
	.wk_name = "wake", .wk_end = wake_result,
	.wk_wakes = true
};

/* Waits for a wake, and can be canceled meanwhile, as if by a scope. */
static int take_wake(utime_ns deadline, unsigned nr)
{
	struct listed *l;
	struct uwait *w;
	int rc;

	w = uwait_make(&listed_wake, NULL, sizeof *w);
	CHECK(w != NULL);
	l = list_put(w, nr);
	rc = prepare(w, deadline) ? block(w) : ended(w);
	list_out(l, w);
	uwait_free(w);
	CHECK(rc == 0 || rc == -ECANCELED ||
	      (rc == -ETIMEDOUT && unow() >= deadline));
	return rc;
}

/* What all do. */

static void send_wake(unsigned nr, bool remote)
{
	struct life *l = &life[nr % LIVES];

	add(&l->l_sent, 1);
	if (remote)
		SCHED(post)(l->l_thread);
	else
		SCHED(wake)(l->l_thread);
}

static void acts(unsigned *r, bool remote)
{
	switch (below(r, 4)) {
	case 0:
	case 1:
		post(&sem[below(r, SEMS)]);
		break;
	case 2:
		send_wake(below(r, LIVES), remote);
		break;
	default:
		cancel(below(r, LISTED));
	}
}

/* Ends with its wait. */
static void brief(void *arg)
{
	unsigned r = check_hash(check_seed, (unsigned)(uintptr_t)arg);

	(void)take(&sem[below(&r, SEMS)], draw(&r), below(&r, LISTED));
	add(&ends, 1);
}

static void waits_for_ever(void *arg)
{
	CHECK_IS(take((struct sem *)arg, UNEVER, 0), 0);
	add(&for_ever, -1);
}

static void joins(unsigned *r)
{
	uintptr_t nr = check_random(r);
	thread *t = make_joinable((int)below(r, 4), brief, (void *)nr);
	int rc;

	while ((rc = SCHED(join_until)(t, draw(r))) != 0)
		CHECK(rc == -ETIMEDOUT || rc == -EAGAIN);
}

static void turn(struct life *l)
{
	unsigned *r = &l->l_random;
	utime_ns deadline = draw(r);
	int rc;

	switch (below(r, 10)) {
	case 8:
		for (rc = (int)below(r, 4000); rc > 0; rc--)
			uproc_relax();
		break;
	case 9:
		l->l_got += take_wake(uafter(below(r, MOST * 1000)),
				      below(r, LISTED)) == 0;
		break;
	case 0:
		rc = u_wait_until(deadline);
		l->l_got += rc == 0;
		CHECK(rc == 0 || (rc == -EAGAIN && deadline == UNOW) ||
		      (rc == -ETIMEDOUT && unow() >= deadline));
		break;
	case 1:
		CHECK(u_sleep(deadline) == 0 && unow() >= deadline);
		break;
	case 2:
		yield();
		break;
	case 3:
		if (below(r, TURNS) < BRIEF)
			joins(r);
		break;
	case 4:
	case 5:
		acts(r, false);
		break;
	default:
		(void)take(&sem[below(r, SEMS)], deadline, below(r, LISTED));
	}
}

/* Takes the wakes that were sent, and finds no other. */
static void take_wakes(struct life *l)
{
	while (get(&sending) > 0)
		l->l_got += u_wait_until(uafter(20 * UTIME_US)) == 0;
	while (l->l_got < get(&l->l_sent)) {
		wait_one();
		l->l_got++;
	}
	CHECK_IS(u_wait_until(UNOW), -EAGAIN);
	CHECK_IS(u_wait_until(uafter(UTIME_US)), -ETIMEDOUT);
}

static void lives(void *arg)
{
	struct life *l = arg;
	int i;

	for (i = 0; i < TURNS; i++)
		turn(l);
	add(&sending, -1);
	take_wakes(l);
	add(&ends, 1);
}

/* Posts until no thread waits for ever, which a single lost post would stop. */
static void posts_last(void *arg)
{
	int i;

	for (i = 0; get(&for_ever) > 0; i++) {
		post(&sem[i % SEMS]);
		CHECK_IS(u_sleep(uafter(20 * UTIME_US)), 0);
	}
	add(&ends, 1);
}

static void *outside(void *arg)
{
	unsigned r = check_hash(check_seed, (unsigned)(uintptr_t)arg);
	int i;

	for (i = 0; i < TURNS; i++) {
		if (i % 3 == 0)
			(void)take(&sem[below(&r, SEMS)],
				   uafter(below(&r, MOST * 1000)),
				   below(&r, LISTED));
		else
			acts(&r, true);
	}
	add(&sending, -1);
	SCHED(release)();
	return NULL;
}

/* Programs. */

static void program(int p, unsigned nr)
{
	pthread_t id[NATIVES];
	long left = 0;
	uintptr_t i;

	posted = taken = ends = 0;
	sending  = LIVES + NATIVES;
	for_ever = SEMS;
	memset(life, 0, sizeof life);
	memset(sem, 0, sizeof sem);
	begin(p, 0);
	for (i = 0; i < LIVES; i++) {
		life[i].l_random = check_hash(check_seed + nr, (unsigned)i);
		life[i].l_thread = make((int)i, lives, &life[i]);
	}
	for (i = 0; i < SEMS; i++)
		make((int)i, waits_for_ever, &sem[i]);
	make(0, posts_last, NULL);
	for (i = 0; i < NATIVES; i++) {
		SCHED(hold)();
		id[i] = native(outside, (void *)(nr * NATIVES + i + 100));
	}
	start_and_finish();
	for (i = 0; i < NATIVES; i++)
		native_join(id[i]);
	for (i = 0; i < LIVES; i++)
		CHECK_IS(life[i].l_got, life[i].l_sent);
	for (i = 0; i < SEMS; i++) {
		CHECK(sem[i].s_first == NULL && sem[i].s_lock.l_state == 0);
		left += sem[i].s_count;
	}
	for (i = 0; i < LISTED; i++)
		CHECK_IS(listed[i].l_wait, NULL);
	CHECK(posted == taken + left && ends >= LIVES + 1);
}

/*
 * A ring of threads on different processors, and a native thread. All but those
 * with a token sleep without a deadline, so a lost wake stops the ring.
 */
#define ROUNDS	400

static void rounds(int nr)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		CHECK_IS(take(&sem[nr], UNEVER, 0), 0);
		post(&sem[(nr + 1) % SEMS]);
	}
}

static void in_ring(void *arg)
{
	rounds((int)(intptr_t)arg);
	add(&ends, 1);
}

static void *native_in_ring(void *arg)
{
	rounds(0);
	SCHED(release)();
	return arg;
}

static void ring(int p, int tokens)
{
	pthread_t id;
	intptr_t i;

	doing("ring of %d", p);
	ends = 0;
	memset(sem, 0, sizeof sem);
	for (i = 0; i < tokens; i++)
		post(&sem[i]);
	begin(p, 0);
	for (i = 1; i < SEMS; i++)
		make((int)i, in_ring, (void *)i);
	SCHED(hold)();
	id = native(native_in_ring, NULL);
	start_and_finish();
	native_join(id);
	CHECK_IS(ends, SEMS - 1);
}

/* The child of a thread can free a record whose deadline runs: it is alone. */

static void stops(struct uwait_timer *t)
{
	CHECK(uwait_claim(&t->t_wait));
	uwait_free(t);
	CHECK_IS(u_wait_until(UNOW), -EAGAIN);
}

static void forks(void *arg)
{
	struct uwait_timer *t;
	int status;
	pid_t pid;

	t = uwait_make(UWAIT_TIMER, NULL, sizeof *t);
	CHECK(t != NULL);
	t->t_f = NULL;
	CHECK_IS(uwait_timer_start(t, uafter(1000 * UTIME_S)), 0);
	pid = fork();
	CHECK_THAT(pid, >=, 0);
	if (pid == 0) {
		alarm(10);
		stops(t);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	stops(t);
	add(&ends, 1);
}

static void forked(int p)
{
	doing("fork");
	ends = 0;
	begin(p, 0);
	make(1, forks, NULL);
	start_and_finish();
	CHECK_IS(ends, 1);
}

/* In ws a joiner runs next, as any thread that was woken, and not in its turn. */
#if defined(WS)
#define JOINS	500
#define OTHERS	200

static long turns, joined;		/* of a single native thread */

static void ends_at_once(void *arg)
{
}

static void joins_many(void *arg)
{
	int i;

	for (i = 0; i < JOINS; i++)
		CHECK_IS(SCHED(join)(make_joinable(0, ends_at_once, NULL)), 0);
	joined = 1;
}

static void takes_turns(void *arg)
{
	while (!joined) {
		turns++;
		yield();
	}
}

static void joiner_is_next(void)
{
	int i;

	doing("joiner");
	begin(1, 0);
	make(0, joins_many, NULL);
	for (i = 0; i < OTHERS; i++)
		make(0, takes_turns, NULL);
	start_and_finish();
	CHECK_THAT(turns, <, (long)JOINS * WS_RUN + OTHERS);
}
#else
static void joiner_is_next(void)
{
}
#endif

/* The lock alone. */
#define LOCKS	20000

static struct ulock lock;
static long locked;		/* plain */

static void *locks(void *arg)
{
	int i;

	for (i = 0; i < LOCKS; i++) {
		long was;

		ulock_get(&lock);
		was = locked;
		USCHED_RACE(test_again);
		locked = was + 1;
		ulock_put(&lock);
	}
	return arg;
}

static void lock_alone(void)
{
	pthread_t id[3];
	int i;

	doing("lock");
	for (i = 0; i < 3; i++)
		id[i] = native(locks, NULL);
	for (i = 0; i < 3; i++)
		native_join(id[i]);
	CHECK(locked == 3 * LOCKS && lock.l_state == 0);
	window_check("lock_L4 lock_wake");
}

int main(int argc, char **argv)
{
	unsigned i;
	int p;

	check_start(argc, argv);
	lock_alone();
	joiner_is_next();
	for (p = 1; p <= 3; p++) {
		ring(p, 1);
		ring(p, 2);
		forked(p);
	}
	for (i = 0; i < PROGRAMS && (i < 2 || check_time(15)); i++)
		for (p = 1; p <= 3; p++) {
			doing("program %u of %d", i, p);
			program(p, i);
		}
	printf("%u programs: %ld events, %ld deadlines, %ld cancels\n", i,
	       events, timeouts, cancels);
	CHECK(events > 0 && timeouts > 0 && cancels > 0);
	window_check("record_H1 record_wake record_sleep record_A3");
	window_check("record_A2 wait_H2 wait_expired");
	window_check("proc_wake");
	window_check("wait_block");
	return 0;
}
