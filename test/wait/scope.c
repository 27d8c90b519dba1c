/* SPDX-License-Identifier: MIT */
/* VARIANTS: RR LL WS PR */
/* scope: a scope ends after its threads, and a cancellation reaches each wait
 * in it, no other, and loses nothing. */

/*
 * Under virtual time, and a part in real time. Results of the end: the first
 * error, which cancels the siblings; the deadline; a cancellation; 0. Scopes
 * nest, a cancellation goes down and not up, and stays; also for a thread that waits
 * on and on, beside which others run. A shield keeps it off until its time is over.
 * Nothing that an event gives is lost. Native threads cancel. Misuse has a defined
 * result. Random programs do what a model says, which asks the scopes around each
 * time, and has no lists.
 */
#include "either.h"
#include "uio.h"
#include "uscope.h"
#include "uthread.h"

static long ended, begun, got;
static int quiet[2];		/* a pipe */

/* Runs f in a thread of its own, on p processors. */
static void alone(int p, void (*f)(void *))
{
	set(&ended, 0);
	set(&begun, 0);
	one_thread(p, f, (void *)(intptr_t)p);
}

static int sleeps(void *arg)
{
	int rc = u_sleep((utime_ns)(intptr_t)arg);

	add(&ended, 1);
	return rc;
}

/* Sleeps without a deadline, and returns this error. */
static int waits(void *arg)
{
	add(&begun, 1);
	CHECK(u_sleep(UNEVER) == -ECANCELED && u_canceled());
	CHECK_IS(u_sleep(uafter(UTIME_S)), -ECANCELED);
	CHECK_IS(u_wait_until(UNEVER), -ECANCELED);
	add(&ended, 1);
	return (int)(intptr_t)arg;
}

/* Waits on and on, though its scope is cancelled. */
static int is_deaf(void *arg)
{
	utime_ns until;

	add(&begun, 1);
	while (get(&ended) == 0) {
		until = uafter(UTIME_S);
		CHECK((arg != NULL ? u_wait_fd(quiet[0], UREAD, until) :
		       u_sleep(until)) == -ECANCELED);
	}
	return 0;
}

static void ends_deaf(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 10; i++)
		CHECK_IS(u_sleep(UNOW), 0);
	set(&ended, 1);
}

static int returns(void *arg)
{
	return (int)(intptr_t)arg;
}

static void go(struct uscope *s, int (*f)(void *), intptr_t arg)
{
	CHECK_IS(uscope_go(s, f, (void *)arg), 0);
}

static struct uscope *scope(utime_ns until)
{
	struct uscope *s = NULL;

	CHECK(uscope_begin(&s, until) == 0 && s != NULL);
	CHECK_IS(uscope_self(), s);
	return s;
}

static int end(struct uscope *s)
{
	int rc = uscope_end(&s);

	CHECK_IS(s, NULL);
	return rc;
}

/* Results of the end. */

static void results(void *arg)
{
	void (*f)(void *) = ustack_self()->u_f;
	utime_ns from = unow();
	struct uscope *s;
	long errors;
	int i;

	s = scope(UNEVER);
	CHECK(ustack_self()->u_f != f && ustack_f(ustack_self()->u_f,
						  ustack_self()->u_arg) == f);
	CHECK_IS(end(s), 0);
	CHECK(ustack_self()->u_f == f && ustack_self()->u_arg == arg);
	CHECK(uscope_self() == NULL && !u_canceled());

	s = scope(from + 100);
	for (i = 0; i < 50; i++)
		go(s, sleeps, (intptr_t)from + i);
	CHECK(end(s) == 0 && ended == 50 && unow() == from + 49);

	s = scope(from + 100);
	for (i = 0; i < 50; i++)
		go(s, sleeps, (intptr_t)from + 90 + i);
	CHECK(end(s) == -ETIMEDOUT && ended == 100 && unow() == from + 100);

	s = scope(UNEVER);
	for (i = 0; i < 50; i++)
		go(s, waits, 0);
	go(s, sleeps, (intptr_t)from + 150);
	CHECK_IS(u_sleep(from + 200), 0);
	uscope_cancel(s);
	CHECK(u_canceled() && uscope_go(s, waits, NULL) == -ECANCELED);
	CHECK_IS(u_sleep(from + 300), -ECANCELED);
	uscope_cancel(s);
	CHECK(end(s) == -ECANCELED && ended == 151 && unow() == from + 200);

	s = scope(from + 500);
	for (i = 0; i < 50; i++)
		go(s, waits, i % 2 ? -EIO : -ECANCELED);
	CHECK_IS(u_sleep(from + 300), 0);
	CHECK_IS(uscope_errors(s), 0);
	go(s, returns, -EPIPE);
	CHECK(u_sleep(UNEVER) == -ECANCELED && unow() == from + 300);
	CHECK(uscope_end_errors(&s, &errors) == -EPIPE && errors == 26);
	CHECK(ended == 201 && unow() == from + 300);

	/* Without a cancellation -ECANCELED is an error as others are. */
	s = scope(UNEVER);
	go(s, returns, -ECANCELED);
	CHECK(u_sleep(UNEVER) == -ECANCELED && uscope_errors(s) == 1);
	CHECK_IS(end(s), -ECANCELED);

	s = scope(UNOW);
	CHECK(u_canceled() && uscope_go(s, waits, NULL) == -ECANCELED);
	CHECK(u_sleep(from + 400) == -ECANCELED && end(s) == -ETIMEDOUT);
	CHECK_IS(u_sleep(from + 400), 0);
}

/* A join of the scheduler is a wait as others are. */

static void ends_late(void *arg)
{
	CHECK_IS(u_sleep((utime_ns)(intptr_t)arg), 0);
	add(&ended, 1);
}

/* Threads that do not listen do not keep others from running. */
static void deaf(void *arg)
{
	struct uscope *s = scope(UNEVER);

	(void)arg;
	go(s, is_deaf, 0);
	go(s, is_deaf, 1);
	while (get(&begun) < 2)
		CHECK_IS(u_sleep(UNOW), 0);
	make(0, ends_deaf, NULL);
	uscope_cancel(s);
	CHECK_IS(end(s), -ECANCELED);
}

static void join_of_sched(void *arg)
{
	utime_ns from = unow();
	struct uscope *s = scope(from + 50);
	thread *t = make_joinable(0, ends_late, (void *)(intptr_t)(from + 100));

	CHECK(SCHED(join)(t) == -ECANCELED && unow() == from + 50);
	CHECK_IS(SCHED(join)(t), -ECANCELED);
	CHECK(end(s) == -ETIMEDOUT && ended == 0);
	CHECK(SCHED(join)(t) == 0 && unow() == from + 100 && ended == 1);
}

/* Nested scopes. */

static int nested(void *arg)
{
	intptr_t depth = (intptr_t)arg;
	struct uscope *s;

	add(&begun, 1);
	if (depth == 0)
		return waits(NULL);
	s = scope(depth % 3 == 0 ? uafter(UTIME_S) : UNEVER);
	go(s, nested, depth - 1);
	go(s, nested, depth - 1);
	go(s, waits, 0);
	if (depth % 2)
		CHECK_IS(u_sleep(UNEVER), -ECANCELED);
	CHECK(end(s) == -ECANCELED && u_canceled());
	CHECK_IS(u_sleep(UNEVER), -ECANCELED);
	add(&ended, 1);
	return -ECANCELED;
}

static void tree(void *arg)
{
	utime_ns from = unow();
	struct uscope *s = scope(from + 1000);
	struct uscope *inner, *third;

	go(s, nested, 6);
	inner = scope(from + 500);
	go(inner, nested, 5);
	CHECK(u_sleep(UNEVER) == -ECANCELED && unow() == from + 500);
	CHECK(end(inner) == -ETIMEDOUT && !u_canceled());
	CHECK_IS(ended, (1 << 6) - 1 + (1 << 5) - 1);
	CHECK_IS(unow(), from + 500);
	inner = scope(from + 2000);
	CHECK(u_sleep(UNEVER) == -ECANCELED && unow() == from + 1000);
	CHECK_IS(end(inner), -ECANCELED);
	inner = scope(UNEVER);
	CHECK(u_canceled() && end(inner) == -ECANCELED);
	CHECK(end(s) == -ETIMEDOUT && unow() == from + 1000);
	/* The first reason stays. */
	s = scope(UNEVER);
	inner = scope(uafter(10));
	CHECK_IS(u_sleep(UNEVER), -ECANCELED);
	uscope_cancel(s);
	uscope_cancel(inner);
	CHECK(end(inner) == -ETIMEDOUT && end(s) == -ECANCELED);
	/* A deadline that is passed down is that of each scope (uscope S5). */
	from  = unow();
	s     = scope(from + 100);
	inner = scope(from + 101);
	third = scope(from + 100);
	CHECK(u_sleep(UNEVER) == -ECANCELED && unow() == from + 100);
	CHECK(end(third) == -ETIMEDOUT && end(inner) == -ECANCELED);
	inner = scope(from + 100);		/* it has passed */
	CHECK(end(inner) == -ETIMEDOUT && end(s) == -ETIMEDOUT);
	s     = scope(uafter(100));
	inner = scope(uafter(100));
	uscope_cancel(s);
	CHECK(end(inner) == -ECANCELED && end(s) == -ECANCELED);
	/* By hand, when it is the time, but before any timer is called. */
	from  = unow();
	s     = scope(from + 100);
	inner = scope(from + 100);
	utime_jump(from + 100);
	uscope_cancel(s);
	CHECK(end(inner) == -ECANCELED && end(s) == -ECANCELED);
}

/* Deadlines in a shield, equal to one around it, and to that of the shield. */
static void equal_deadlines(void *arg)
{
	utime_ns from = unow();
	struct uscope *s = scope(from + 100);
	struct uscope *shield, *inner, *later;

	CHECK_IS(uscope_shield(&shield, from + 200), 0);
	inner = scope(from + 100);
	CHECK(u_sleep(UNEVER) == -ECANCELED && unow() == from + 100);
	CHECK(end(inner) == -ETIMEDOUT && !u_canceled());
	inner = scope(from + 200);
	later = scope(from + 201);
	CHECK(u_sleep(UNEVER) == -ECANCELED && unow() == from + 200);
	CHECK(end(later) == -ECANCELED && end(inner) == -ETIMEDOUT);
	CHECK(end(shield) == -ECANCELED && end(s) == -ETIMEDOUT);
}

#define DEEP	3000

/* A cancellation of deeply nested scopes takes no stack. */
static void deep(void *arg)
{
	struct uscope **s = malloc(DEEP * sizeof *s);
	int i;

	CHECK(s != NULL);
	for (i = 0; i < DEEP; i++)
		s[i] = scope(UNEVER);
	uscope_cancel(s[1]);
	for (i = DEEP; i-- > 0; )
		CHECK(u_canceled() == (i > 0) &&
		      end(s[i]) == (i > 0 ? -ECANCELED : 0));
	free(s);
}

/* Shields. */

static int cleans_up(void *arg)
{
	utime_ns from = unow();
	struct uscope *s, *in;

	CHECK_IS(uscope_shield(&s, from + 1000), 0);
	CHECK(u_sleep(from + 100) == 0 && unow() == from + 100);
	go(s, sleeps, (intptr_t)from + 200);
	in = scope(from + 300);			/* in the shield, so shielded */
	CHECK(!u_canceled());
	go(in, waits, 0);
	CHECK(u_sleep(UNEVER) == -ECANCELED && unow() == from + 300);
	CHECK(end(in) == -ETIMEDOUT && !u_canceled());
	CHECK(u_sleep(from + 400) == 0 && end(s) == 0);
	CHECK_IS(unow(), from + 400);
	add(&ended, 1);
	return 0;
}

/* The shield does not last as long as the clean-up. */
static int cleans_too_long(void *arg)
{
	utime_ns from = unow();
	struct uscope *s, *in;

	CHECK_IS(uscope_shield(&s, from + 100), 0);
	in = scope(from + 300);
	go(in, waits, 0);
	CHECK(u_sleep(UNEVER) == -ECANCELED && unow() == from + 100);
	CHECK(end(in) == -ECANCELED && end(s) == -ECANCELED);
	CHECK(uscope_shield(&s, UNOW) == 0 && u_canceled());
	CHECK_IS(end(s), -ECANCELED);
	add(&ended, 1);
	return 0;
}

/* A shield that was begun before the cancellation keeps it off, too. */
static int shielded(void *arg)
{
	struct uscope *s;

	CHECK_IS(uscope_shield(&s, UNEVER), 0);
	CHECK(u_sleep((utime_ns)(intptr_t)arg) == 0 && !u_canceled());
	CHECK(end(s) == 0 && u_canceled());
	CHECK_IS(u_sleep(UNEVER), -ECANCELED);
	add(&ended, 1);
	return -ECANCELED;
}

static int then(void *arg)
{
	CHECK_IS(u_sleep(UNEVER), -ECANCELED);
	return ((int (*)(void *))arg)(NULL);
}

static void shields(void *arg)
{
	utime_ns from = unow();
	struct uscope *s = scope(from + 50), *shield;

	go(s, then, (intptr_t)cleans_up);
	go(s, then, (intptr_t)cleans_too_long);
	go(s, shielded, (intptr_t)from + 200);
	CHECK(end(s) == -ETIMEDOUT && unow() == from + 450);
	CHECK_IS(ended, 6);
	/* When its time is over and nothing is to be kept off, waits go on. */
	s = scope(from + 1000);
	CHECK_IS(uscope_shield(&shield, from + 500), 0);
	CHECK(u_sleep(from + 600) == 0 && !u_canceled());
	CHECK(u_sleep(UNEVER) == -ECANCELED && unow() == from + 1000);
	CHECK(end(shield) == -ECANCELED && end(s) == -ETIMEDOUT);
}

/* The first error of many that come at once. */

static int fails(void *arg)
{
	int rc = u_sleep((utime_ns)(intptr_t)arg);

	CHECK(rc == 0 || rc == -ECANCELED);
	return rc == 0 ? -EIO : -EPIPE;
}

static void errors(void *arg)
{
	utime_ns at = uafter(100);
	struct uscope *s = scope(UNEVER);
	long nr;
	int i;

	for (i = 0; i < 100; i++)
		go(s, i % 10 ? waits : fails, i % 10 ? -EPIPE : (intptr_t)at);
	nr = 0;
	CHECK(uscope_end_errors(&s, &nr) == -EIO && nr == 100);
	CHECK(ended == 90 && unow() == at);
}

/*
 * Nothing is lost: a tokens' bowl. A giver claims the first record of a queue
 * or else puts the token into the bowl; takers are cancelled at any time.
 */

struct taker {
	struct uwait  tk_wait;	/* first */
	struct taker *tk_next;
};

static struct {
	pthread_mutex_t b_lock;
	long            b_tokens;
	struct taker   *b_first;
} bowl = { PTHREAD_MUTEX_INITIALIZER, 0, NULL };

static void bowl_lock(void)
{
	CHECK_IS(pthread_mutex_lock(&bowl.b_lock), 0);
}

static void bowl_unlock(void)
{
	CHECK_IS(pthread_mutex_unlock(&bowl.b_lock), 0);
}

static void bowl_out(struct taker *k)
{
	struct taker **at;

	for (at = &bowl.b_first; *at != NULL; at = &(*at)->tk_next) {
		if (*at == k) {
			*at = k->tk_next;
			return;
		}
	}
}

static void give(void)
{
	struct taker *k;

	bowl_lock();
	while ((k = bowl.b_first) != NULL) {
		bowl.b_first = k->tk_next;
		if (uwait_claim(&k->tk_wait))
			break;
	}
	if (k == NULL)
		bowl.b_tokens++;
	bowl_unlock();
	if (k != NULL)
		uwait_complete(&k->tk_wait, 0);
}

static int take(utime_ns deadline)
{
	struct taker *k;
	int rc;

	k = uwait_make(UWAIT_OTHER, &bowl, sizeof *k);
	CHECK(k != NULL);
	bowl_lock();
	if (bowl.b_tokens > 0) {
		bowl.b_tokens--;
		bowl_unlock();
		uwait_free(k);
		return 0;
	}
	k->tk_next = bowl.b_first;
	bowl.b_first = k;
	bowl_unlock();
	rc = uwait_for(&k->tk_wait, deadline);
	if (rc != 0) {
		bowl_lock();
		bowl_out(k);
		bowl_unlock();
	}
	uwait_free(k);
	return rc;
}

static long given;
static utime_ns unit = 1;

static int giver(void *arg)
{
	unsigned r = check_hash(check_seed, (unsigned)(intptr_t)arg);
	int i;

	for (i = 0; i < 300; i++) {
		give();
		add(&given, 1);
		if (check_random(&r) % 4 == 0)
			CHECK_IS(u_sleep(uafter(check_random(&r) % 3 * unit)),
				 0);
		else if (check_random(&r) % 2)
			yield();
	}
	return 0;
}

static int taker(void *arg)
{
	int rc;

	while ((rc = take(check_hash((unsigned)(intptr_t)arg, 1) % 2 ? UNEVER :
			  uafter(2 * unit))) != -ECANCELED) {
		if (rc == 0)
			add(&got, 1);
		else
			CHECK_IS(rc, -ETIMEDOUT);
	}
	return rc;
}

static int takers(void *arg)
{
	unsigned r = check_hash(check_seed, 100 + (unsigned)(intptr_t)arg);
	struct uscope *s;
	int i, round;

	for (round = 0; round < 60; round++) {
		s = scope(check_random(&r) % 2 ? uafter(3 * unit) : UNEVER);
		for (i = 0; i < 5 && !u_canceled(); i++)
			(void)!uscope_go(s, taker, (void *)(uintptr_t)
					(check_random(&r) & 0xffff));
		(void)u_sleep(uafter(check_random(&r) % 5 * unit));
		uscope_cancel(s);
		CHECK_THAT(end(s), <, 0);
	}
	return 0;
}

static void tokens(void *arg)
{
	struct uscope *s = scope(UNEVER);
	intptr_t i;

	got = given = 0;
	for (i = 0; i < 4; i++) {
		go(s, giver, i);
		go(s, takers, i);
	}
	CHECK(end(s) == 0 && bowl.b_first == NULL);
	CHECK(given == 1200 && got > 0 && got + bowl.b_tokens == given);
	bowl.b_tokens = 0;
}

/* Cancellations by native threads, while the scope fills. */

static struct uscope *shared;
static long ready, canceled;

static void *cancels(void *arg)
{
	int i;

	for (i = 0; i < (intptr_t)arg; i++) {
		until(&ready, i + 1);
		uscope_cancel(shared);
		add(&canceled, 1);
	}
	SCHED(release)();
	return NULL;
}

static void fills(void *arg)
{
	intptr_t nr = (intptr_t)arg;
	int i, j, rc = 0;

	for (i = 0; i < nr; i++) {
		rc = 0;
		shared = scope(i % 2 ? UNEVER : uafter(UTIME_S));
		add(&ready, 1);
		for (j = 0; j < 100 && rc == 0; j++) {
			rc = uscope_go(shared, waits, NULL);
			yield();
		}
		CHECK(rc == 0 || rc == -ECANCELED);
		while (get(&canceled) == i)
			check_yield();
		rc = end(shared);
		CHECK(rc == -ECANCELED || (rc == -ETIMEDOUT && i % 2 == 0));
	}
}

static void natives(int p)
{
	const intptr_t nr = 40;

	ready = canceled = 0;
	begin(p, 0);
	make(0, fills, (void *)nr);
	start_and_finish_with(cancels, (void *)nr);
	CHECK_IS(canceled, nr);
}

/* Random programs. */

#define SPAN	1000			/* ns: so deadlines often coincide */

/* What the model knows of a scope. */
struct mirror {
	struct mirror *m_up;
	struct uscope *m_scope;
	utime_ns          m_begun;
	utime_ns          m_deadline;
	utime_ns          m_canceled;	/* by cancel or error; or UNEVER */
	bool           m_shield;
	long           m_made;
	long           m_alive;
	long           m_errors;
	int            m_error[64];	/* in the order of the returns */
};

struct node {
	struct mirror *n_in;
	unsigned       n_random;
	int            n_depth;
};

static pthread_mutex_t model = PTHREAD_MUTEX_INITIALIZER;
static long waited, hit;

/* Returns when m is cancelled, as far as is known; UNEVER: it is not. */
static utime_ns canceled_at(const struct mirror *m)
{
	utime_ns up, at;

	if (m == NULL)
		return UNEVER;
	up = canceled_at(m->m_up);
	at = m->m_canceled;
	if (m->m_shield)
		up = up == UNEVER || up > m->m_deadline ? up : m->m_deadline;
	else if (m->m_deadline < at)
		at = m->m_deadline;
	return up < at ? up : at;
}

static utime_ns at_of(const struct mirror *m)
{
	utime_ns at;

	CHECK_IS(pthread_mutex_lock(&model), 0);
	at = canceled_at(m);
	CHECK_IS(pthread_mutex_unlock(&model), 0);
	return at;
}

/* Notes a cancellation of m now, by an error if rc is not 0. */
static void note(struct mirror *m, int rc)
{
	CHECK_IS(pthread_mutex_lock(&model), 0);
	if (m->m_canceled > unow())
		m->m_canceled = unow();
	if (rc != 0) {
		CHECK_THAT(m->m_errors, <, COUNT(m->m_error));
		m->m_error[m->m_errors++] = rc;
	}
	CHECK_IS(pthread_mutex_unlock(&model), 0);
}

/* Sleeps, and checks the result. Where times coincide both are right. */
static bool sleep_in(struct mirror *m, utime_ns until)
{
	utime_ns from = unow();
	int rc = u_sleep(until);
	utime_ns now = unow();
	utime_ns at = at_of(m);

	add(&waited, 1);
	if (rc == 0) {
		CHECK(now == (until > from ? until : from) && at >= now);
		return true;
	}
	CHECK(rc == -ECANCELED && now == (at > from ? at : from));
	CHECK(u_canceled());
	add(&hit, 1);
	return false;
}

static void looks(const struct mirror *m)
{
	bool is = u_canceled();
	utime_ns at = at_of(m);

	CHECK(at == unow() || is == (at < unow()));
}

/* Returns whether m was cancelled from outside, but not later than at. */
static bool others_by(struct mirror *m, utime_ns at)
{
	return m->m_canceled <= at || at_of(m->m_up) <= at;
}

static void check_end(struct mirror *m, int rc, long errors)
{
	utime_ns at = at_of(m);
	long i;

	CHECK(get(&m->m_alive) == 0 && errors == m->m_errors);
	for (i = 0; i < errors && m->m_error[i] != rc; i++)
		;
	if (errors > 0)
		CHECK_THAT(i, <, errors);
	else if (rc == 0)
		CHECK_THAT(at, >=, unow());
	else if (rc == -ETIMEDOUT)
		CHECK(!m->m_shield && at <= unow() &&
		      (at == m->m_deadline || m->m_deadline <= m->m_begun));
	else
		CHECK(rc == -ECANCELED && at <= unow() &&
		      (m->m_shield || others_by(m, m->m_deadline)));
}

static int play(void *arg);
static int act(struct node *n, struct mirror *m);

/* Runs f(n, m) in a new scope in the scope of n. */
static int play_scope(struct node *n, struct mirror *up)
{
	struct mirror *m = calloc(1, sizeof *m);
	utime_ns until;
	long errors;
	int rc;

	CHECK(m != NULL);
	m->m_up       = up;
	m->m_canceled = UNEVER;
	m->m_begun    = unow();
	m->m_shield   = check_random(&n->n_random) % 4 == 0;
	until = check_random(&n->n_random) % 2 ? UNEVER :
		uafter(check_random(&n->n_random) % SPAN);
	m->m_deadline = until;
	CHECK_IS((m->m_shield ? uscope_shield : uscope_begin)(&m->m_scope,
		 until), 0);
	(void)act(n, m);
	rc = uscope_end_errors(&m->m_scope, &errors);
	CHECK_IS(m->m_scope, NULL);
	check_end(m, rc, errors);
	free(m);
	return rc;
}

/* Cancels one of the scopes around, while that has not ended. */
static void cancel_around(struct node *n, struct mirror *m)
{
	while (m->m_up != NULL && check_random(&n->n_random) % 2)
		m = m->m_up;
	note(m, 0);
	uscope_cancel(m->m_scope);
}

static void spawn(struct node *n, struct mirror *m)
{
	struct node *child = malloc(sizeof *child);
	int rc;

	CHECK(child != NULL);
	*child = (struct node){ m, check_random(&n->n_random), n->n_depth - 1 };
	add(&m->m_alive, 1);
	rc = uscope_go(m->m_scope, play, child);
	if (rc == 0)
		return;
	CHECK(rc == -ECANCELED && u_canceled() && at_of(m) <= unow());
	add(&m->m_alive, -1);
	free(child);
}

/* Does random things in m. Returns the last result of a scope. */
static int act(struct node *n, struct mirror *m)
{
	int steps = (int)(check_random(&n->n_random) % 6);
	int rc = 0;

	while (steps-- > 0) {
		switch (check_random(&n->n_random) % 12) {
		case 0:
			cancel_around(n, m);
			break;
		case 1: case 2: case 3:
			if (n->n_depth > 0)
				rc = play_scope(n, m);
			break;
		case 4: case 5: case 6: case 7:
			if (n->n_depth > 0 && add(&m->m_made, 1) < 64)
				spawn(n, m);
			break;
		case 8:
			yield();
			break;
		default:
			(void)sleep_in(m, uafter(check_random(&n->n_random) %
						 SPAN));
		}
		looks(m);
	}
	return rc;
}

static int play(void *arg)
{
	struct node n = *(struct node *)arg;
	struct mirror *m = n.n_in;
	int rc;

	free(arg);
	rc = act(&n, m);
	rc = check_random(&n.n_random) % 8 == 0 ? -1000 -
		(int)(check_random(&n.n_random) % 1000) : rc == -ETIMEDOUT;
	if (rc != 0)
		note(m, rc);
	add(&m->m_alive, -1);
	return rc;
}

static void root(void *arg)
{
	struct node n = { NULL, (unsigned)(intptr_t)arg, 7 };

	(void)play_scope(&n, NULL);
	add(&ended, 1);
}

static void programs(int p, unsigned nr)
{
	unsigned r = check_hash(check_seed, nr);
	long i;

	set(&ended, 0);
	begin(p, 0);
	for (i = 0; i < 20; i++)
		make((int)i, root, (void *)(intptr_t)check_random(&r));
	start_and_finish();
	CHECK_IS(ended, 20);
}

/* Misuse. */

static void plain(void *arg)
{
	struct uscope *s = NULL;

	CHECK_IS(uscope_end(&s), -EINVAL);
	s = (struct uscope *)(void *)&s;
	CHECK(uscope_begin(&s, -1) == -EINVAL && s == NULL);
	s = (struct uscope *)(void *)&s;
	CHECK(uscope_shield(&s, -1) == -EINVAL && s == NULL);
	CHECK_IS(uscope_end(&s), -EINVAL);
	CHECK(uscope_shield(&s, -1) == -EINVAL && s == NULL);
	CHECK_IS(uscope_go(NULL, waits, NULL), -EINVAL);
	s = scope(UNEVER);
	CHECK_IS(uscope_go(s, NULL, NULL), -EINVAL);
	CHECK_IS(end(s), 0);
}

static void twice(void *arg)
{
	struct uscope *s, *again;

	s = again = scope(UNEVER);
	CHECK_IS(end(s), 0);
	uscope_end(&again);
}

static void in_order(void *arg)
{
	struct uscope *s = scope(UNEVER);

	scope(UNEVER);
	uscope_end(&s);
}

static int ends_it(void *arg)
{
	struct uscope *s = uscope_self();

	return uscope_end(&s);
}

static void stranger(void *arg)
{
	struct uscope *s = scope(UNEVER);

	go(s, ends_it, 0);
	end(s);
}

static int leaves_it(void *arg)
{
	scope(UNEVER);
	return 0;
}

static void left(void *arg)
{
	struct uscope *s = scope(UNEVER);

	go(s, leaves_it, 0);
	end(s);
}

static void dies_outside(void)
{
	static long none[100];		/* larger than a scope */
	struct uscope *s = (struct uscope *)none;

	uscope_end(&s);
}

static void dies_twice(void)	{ alone(1, twice); }
static void dies_in_order(void)	{ alone(1, in_order); }
static void dies_stranger(void)	{ alone(1, stranger); }
static void dies_left(void)	{ alone(1, left); }

static void misuse(void)
{
	struct uscope *s = NULL;
	const char *innermost = "uscope_end: the scope is not the innermost";
	/* The hard mode knows that the scope has ended. */
#if defined(USCHED_HARD)
	const char *freed = "was freed by uscope_end()";
#else
	const char *freed = innermost;
#endif

	CHECK(uscope_begin(&s, UNEVER) == -EINVAL && s == NULL);
	CHECK(uscope_self() == NULL && !u_canceled());
	CHECK_IS(check_dies("twice", dies_twice, freed) +
		 check_dies("outside", dies_outside, innermost) +
		 check_dies("in order", dies_in_order, innermost) +
		 check_dies("stranger", dies_stranger, innermost) +
		 check_dies("left", dies_left, "has ended in a scope"), 0);
}

/* In real time. */
static void real(void)
{
	int p;

	check_watch(1);
	unit = 100 * UTIME_US;
	for (p = 1; p <= 2; p++) {
		alone(p, tokens);
		natives(p);
	}
}

/* Holds, and threads that the program makes. */

static int make_there(struct usched *d, void (*f)(void *), void *arg)
{
	CHECK_IS(usched_self(), d);
	add(&got, 1);
	return try_make(1, f, arg) != NULL ? 0 : -errno;
}

static int make_none(struct usched *d, void (*f)(void *), void *arg)
{
	return -EAGAIN;
}

/* In no scope. Makes a thread in s, and cancels s, while it holds that. */
static void holder(void *arg)
{
	struct uscope *s = arg;

	CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	CHECK_IS(uscope_go_by(s, waits, NULL, make_there), 0);
	CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	uscope_cancel(s);
	CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	add(&ended, 1);
	uscope_release(s);
}

static void holds(void *arg)
{
	struct uscope *s = scope(UNEVER);

	set(&got, 0);
	uscope_hold(s);
	uscope_release(s);
	CHECK_IS(end(s), 0);
	s = scope(uafter(UTIME_S));
	CHECK_IS(uscope_go_by(s, waits, NULL, make_none), -EAGAIN);
	uscope_hold(s);
	make(1, holder, s);
	CHECK_IS(end(s), -ECANCELED);
	CHECK(get(&ended) == 2 && get(&got) == 1);
}

int main(int argc, char **argv)
{
	char text[4096];
	unsigned i;
	int p;

	check_start(argc, argv);
	if (check_child(real, text, sizeof text) != 0) {
		fprintf(stderr, "in real time: %s\n", text);
		return 1;
	}
	CHECK_IS(pipe(quiet), 0);
	utime_virtual(check_seed % 4 != 0 ? check_seed : 0);
	misuse();
	for (p = 1; p <= 2; p++) {
		doing("plain");
		alone(p, plain);
		doing("results");
		alone(p, results);
		doing("deaf");
		alone(p, deaf);
		doing("join");
		alone(p, join_of_sched);
		doing("tree");
		alone(p, tree);
		alone(p, equal_deadlines);
		doing("deep");
		alone(p, deep);
		doing("shields");
		alone(p, shields);
		doing("errors");
		alone(p, errors);
		doing("holds");
		alone(p, holds);
		doing("tokens");
		for (i = 0; i < 5; i++)
			alone(p, tokens);
		doing("natives");
		natives(p);
		doing("programs");
		for (i = 0; i < 20 || (i < 500 && check_time(p * 2)); i++)
			programs(p, i);
	}
	CHECK(waited > 1000 && hit > 200);
	return 0;
}
