/* SPDX-License-Identifier: MIT */
/* sync_model: random programs get from each call what a model foretells. */
/* VARIANTS: RR LL WS PR */

/*
 * On one processor under virtual time, a call and the model's step for it are
 * not divided, up to where the thread waits. So the model knows each result:
 * that a call must wait, which waiter another call lets through, and in which
 * order. A waiter whose deadline has come may still stand in its queue, until
 * it runs again. The model has the queues of usync.h as plain arrays.
 *
 * Of a mutex the model knows only the owner, since a waiter that was woken
 * tries again by itself. A thread that has waited for a condition over a
 * read-write lock goes to the end of a queue of the lock, within the same call.
 * The library tells of each wait (uwait_watch), and there the model follows.
 */
#include "either.h"
#include "usync.h"

#define THREADS	12
#define STEPS	150
#define EACH	2		/* objects of each kind */
#define TICK	40		/* so that deadlines coincide */
#define NO_CLIENT	(-1)

/* A queue of threads. */
struct line {
	int l_nr;
	int l_who[THREADS];
};

static struct client {
	unsigned c_random;
	utime_ns    c_until;		/* of its wait */
	bool     c_let;			/* was let through */
	int      c_result;		/* the result of its call */
	struct ustack *c_stack;
	int      c_relocks;		/* RELOCK_... */
	int      c_lock;		/* the read-write lock of its condition */
	bool     c_lock_writes;		/* it held c_lock as a writer */
	int      c_signal;		/* how the wait for the signal ended */
	bool     c_mutex[EACH];		/* what it holds */
	int      c_reads[EACH];
	bool     c_writes[EACH];
} clients[THREADS];

static struct umutex   mutex[EACH];
static struct ucond    cond[EACH];
static struct usem     sem[EACH];
static struct urw      rw[EACH];
static struct ucond    rw_cond[EACH];
static struct ugroup   group[EACH];
static struct ubarrier barrier[EACH];
static struct uonce    once[EACH];

static struct {
	int         m_owner[EACH];
	struct line m_cond[EACH];
	int         m_units[EACH];
	struct line m_sem[EACH];
	int         m_readers[EACH];
	int         m_writer[EACH];
	struct line m_reads[EACH];
	struct line m_writes[EACH];
	struct line m_rw_cond[EACH];
	int         m_count[EACH];
	struct line m_group[EACH];
	struct line m_barrier[EACH];
	int         m_once[EACH];	/* runs it; or NO_CLIENT, or THREADS */
	struct line m_next[EACH];
	long        m_calls, m_waits, m_late;
} model;

static long relocks;		/* of all rounds */

/* Lines. */

static void stand(struct line *l, int who)
{
	CHECK_THAT(l->l_nr, <, THREADS);
	l->l_who[l->l_nr++] = who;
}

static bool leave(struct line *l, int who)
{
	int i;

	for (i = 0; i < l->l_nr && l->l_who[i] != who; i++)
		;
	if (i == l->l_nr)
		return false;
	for (l->l_nr--; i < l->l_nr; i++)
		l->l_who[i] = l->l_who[i + 1];
	return true;
}

/* Lets the first through whose deadline has not come. NO_CLIENT: none. */
static int let_first(struct line *l, int result)
{
	while (l->l_nr > 0) {
		int who = l->l_who[0];

		(void)leave(l, who);
		if (clients[who].c_until <= unow())
			continue;
		clients[who].c_let = true;
		clients[who].c_result = result;
		return who;
	}
	return NO_CLIENT;
}

static int let_all(struct line *l, int result)
{
	int nr = 0;

	while (let_first(l, result) != NO_CLIENT)
		nr++;
	return nr;
}

/* The calls. */

enum { WAITS = 99 };

static int must_wait(struct line *l, int me, utime_ns until)
{
	model.m_calls++;
	if (until == UNOW)
		return -EAGAIN;
	model.m_waits++;
	clients[me].c_until = until;
	clients[me].c_let = false;
	stand(l, me);
	return WAITS;
}

/* Checks a result. wanted: of the model, when the call began. True: late. */
static bool as_told(int me, int wanted, int rc)
{
	struct client *c = &clients[me];

	if (wanted != WAITS) {
		CHECK_IS(rc, wanted);
		return false;
	}
	if (c->c_let) {
		CHECK_IS(rc, c->c_result);
		return false;
	}
	CHECK(rc == -ETIMEDOUT && unow() == c->c_until);
	model.m_late++;
	return true;
}

static unsigned drawn(int me, unsigned nr)
{
	return check_random(&clients[me].c_random) % nr;
}

/* Returns a point in time, at most nr ticks away. */
static utime_ns later(int me, unsigned nr)
{
	return (unow() / TICK + 1 + drawn(me, nr)) * TICK;
}

static void do_sem(int me, int i, utime_ns until)
{
	int wanted = 0;

	if (drawn(me, 2)) {
		if (let_first(&model.m_sem[i], 0) == NO_CLIENT)
			model.m_units[i]++;
		CHECK_IS(usem_post(&sem[i]), 0);
		return;
	}
	if (model.m_units[i] > 0)
		model.m_units[i]--;
	else
		wanted = must_wait(&model.m_sem[i], me, until);
	if (as_told(me, wanted, usem_wait(&sem[i], until)))
		(void)leave(&model.m_sem[i], me);
}

/* Read-write locks. */

static void rw_next(int i, bool readers)
{
	int writer = NO_CLIENT;

	if (readers)
		model.m_readers[i] = let_all(&model.m_reads[i], 0);
	if (model.m_readers[i] == 0)
		writer = let_first(&model.m_writes[i], 0);
	if (writer == NO_CLIENT && !readers)
		model.m_readers[i] = let_all(&model.m_reads[i], 0);
	model.m_writer[i] = writer;
}

/* The model's step of an unlock. */
static void rw_give(int me, int i)
{
	struct client *c = &clients[me];

	if (c->c_writes[i]) {
		c->c_writes[i] = false;
		rw_next(i, true);
	} else {
		c->c_reads[i]--;
		if (--model.m_readers[i] == 0)
			rw_next(i, false);
	}
}

static void rw_unlock(int me, int i)
{
	rw_give(me, i);
	urw_unlock(&rw[i]);
}

static void rw_read(int me, int i, utime_ns until)
{
	int wanted = 0;

	if (model.m_writer[i] == me)
		wanted = -EDEADLK;
	else if (model.m_writer[i] == NO_CLIENT && model.m_writes[i].l_nr == 0)
		model.m_readers[i]++;
	else
		wanted = must_wait(&model.m_reads[i], me, until);
	if (as_told(me, wanted, urw_read(&rw[i], until)))
		CHECK(leave(&model.m_reads[i], me) || true);
	else if (wanted == 0 || wanted == WAITS)
		clients[me].c_reads[i]++;
}

static void rw_write(int me, int i, utime_ns until)
{
	int wanted = 0;

	if (model.m_writer[i] == me)
		wanted = -EDEADLK;
	else if (model.m_writer[i] == NO_CLIENT && model.m_readers[i] == 0)
		model.m_writer[i] = me;
	else
		wanted = must_wait(&model.m_writes[i], me, until);
	if (as_told(me, wanted, urw_write(&rw[i], until))) {
		/* Does what the call has just done. */
		if (leave(&model.m_writes[i], me) &&
		    model.m_writes[i].l_nr == 0 &&
		    model.m_writer[i] == NO_CLIENT)
			model.m_readers[i] += let_all(&model.m_reads[i], 0);
	} else if (wanted == 0 || wanted == WAITS)
		clients[me].c_writes[i] = true;
}

/* Conditions over read-write locks. */

enum {
	RELOCK_NONE,
	RELOCK_SIGNAL,		/* it waits for the signal */
	RELOCK_WAITS		/* it waits for the lock */
};

/* The wait for the signal has ended. */
static void signal_end(int me)
{
	struct client *c = &clients[me];

	c->c_signal = c->c_let ? c->c_result : -ETIMEDOUT;
	if (c->c_let)
		return;
	CHECK_THAT(unow(), >=, c->c_until);
	(void)leave(&model.m_rw_cond[c->c_lock], me);
	model.m_late++;
}

static bool rw_is_free(int i, bool writes)
{
	return model.m_writer[i] == NO_CLIENT && (writes ?
		model.m_readers[i] == 0 : model.m_writes[i].l_nr == 0);
}

/* A thread begins to wait. */
static void sees(const struct uwait *w, utime_ns until)
{
	const struct uwait_kind *kind = uwait_kind(w);
	int me = 0, i;

	while (me < THREADS && (clients[me].c_relocks != RELOCK_SIGNAL ||
				clients[me].c_stack != ustack_self()))
		me++;
	if (me == THREADS || kind == UWAIT_COND)
		return;
	i = clients[me].c_lock;
	CHECK_IS(kind, clients[me].c_lock_writes ? UWAIT_WRITE : UWAIT_READ);
	CHECK(until == UNEVER && !rw_is_free(i, clients[me].c_lock_writes));
	signal_end(me);
	clients[me].c_relocks = RELOCK_WAITS;
	relocks++;
	(void)must_wait(clients[me].c_lock_writes ? &model.m_writes[i] :
			&model.m_reads[i], me, UNEVER);
}

static void sees_none(const struct uwait *w)
{
	(void)w;
}

static int sees_native(struct uwait *w, utime_ns until,
		       int (*wait)(struct uwait *w, utime_ns until))
{
	return wait(w, until);
}

static int sees_stuck(struct usched *first, size_t size, int nr, long left)
{
	(void)first, (void)size, (void)nr, (void)left;
	return 0;
}

static struct uwait_watch watch = {
	.v_made = sees_none, .v_begin = sees, .v_end = sees_none,
	.v_native = sees_native, .v_stuck = sees_stuck
};

static void let_go_but(int me, int rw_nr);

/* Waits for a signal, while the caller holds nothing but rw[i]. */
static void rw_wait_cond(int me, int i, utime_ns until)
{
	struct client *c = &clients[me];
	bool writes = c->c_writes[i];
	int rc;

	let_go_but(me, i);
	if (must_wait(&model.m_rw_cond[i], me, until) != WAITS) {
		CHECK_IS(ucond_wait_rw(&rw_cond[i], &rw[i], until), -EAGAIN);
		return;
	}
	c->c_lock = i;
	c->c_lock_writes = writes;
	c->c_relocks = RELOCK_SIGNAL;
	rw_give(me, i);
	rc = ucond_wait_rw(&rw_cond[i], &rw[i], until);
	if (c->c_relocks == RELOCK_SIGNAL) {
		CHECK(rw_is_free(i, writes));
		signal_end(me);
		model.m_writer[i] = writes ? me : NO_CLIENT;
		model.m_readers[i] += !writes;
	} else
		CHECK(c->c_let && c->c_result == 0);
	c->c_relocks = RELOCK_NONE;
	c->c_writes[i] = writes;
	c->c_reads[i] += !writes;
	CHECK_IS(model.m_writer[i], writes ? me : NO_CLIENT);
	CHECK_IS(rc, c->c_signal);
}

static void do_rw_cond(int me, int i, utime_ns until)
{
	struct client *c = &clients[me];

	if (drawn(me, 3) == 0) {
		(void)let_first(&model.m_rw_cond[i], 0);
		ucond_signal(&rw_cond[i]);
	} else if (drawn(me, 6) == 0) {
		(void)let_all(&model.m_rw_cond[i], 0);
		ucond_broadcast(&rw_cond[i]);
	} else if (c->c_writes[i] || c->c_reads[i] > 0)
		rw_wait_cond(me, i, until);
	else if (model.m_readers[i] == 0)	/* of readers it knows no more */
		CHECK_IS(ucond_wait_rw(&rw_cond[i], &rw[i], until), -EPERM);
}

static void do_rw(int me, int i, utime_ns until)
{
	if ((clients[me].c_writes[i] || clients[me].c_reads[i] > 0) &&
	    drawn(me, 3) != 0)
		rw_unlock(me, i);
	else if (drawn(me, 2))
		rw_read(me, i, until);
	else
		rw_write(me, i, until);
}

/* Groups, barriers, once. */

static void do_group(int me, int i, utime_ns until)
{
	int nr = (int)drawn(me, 5) - 2, wanted = 0;

	if (drawn(me, 2)) {
		if (model.m_count[i] + nr < 0)
			wanted = -EINVAL;
		else if ((model.m_count[i] += nr) == 0)
			(void)let_all(&model.m_group[i], 0);
		CHECK_IS(ugroup_add(&group[i], nr), wanted);
		return;
	}
	if (model.m_count[i] > 0)
		wanted = must_wait(&model.m_group[i], me, until);
	if (as_told(me, wanted, ugroup_wait(&group[i], until)))
		(void)leave(&model.m_group[i], me);
}

static void do_barrier(int me, int i, utime_ns until)
{
	struct line *l = &model.m_barrier[i];
	int wanted = 1;

	if (l->l_nr + 1 < i + 2)
		wanted = must_wait(l, me, until);
	else while (l->l_nr > 0) {	/* also those that are just too late */
		clients[l->l_who[0]].c_let = true;
		clients[l->l_who[0]].c_result = 0;
		(void)leave(l, l->l_who[0]);
	}
	if (as_told(me, wanted, ubarrier_wait(&barrier[i], until)))
		CHECK(leave(l, me));
}

struct run { int r_me, r_i; };

static int runs(void *arg)
{
	const struct run *r = arg;
	int i = r->r_i, me = r->r_me, rc = drawn(me, 3) != 0 ? -3 : 0;

	CHECK_IS(model.m_once[i], me);
	CHECK_IS(u_sleep(later(me, 2)), 0);
	CHECK_IS(model.m_once[i], me);
	if (rc == 0) {
		(void)let_all(&model.m_next[i], 0);
		model.m_once[i] = THREADS;
	} else
		model.m_once[i] = let_first(&model.m_next[i], rc);
	clients[me].c_result = rc;
	clients[me].c_let = true;
	return rc;
}

static void do_once(int me, int i, utime_ns until)
{
	struct run r = { me, i };
	int wanted = 0;

	if (model.m_once[i] == NO_CLIENT) {
		wanted = WAITS;		/* for itself */
		model.m_once[i] = me;
	} else if (model.m_once[i] != THREADS)
		wanted = must_wait(&model.m_next[i], me, until);
	if (as_told(me, wanted, uonce(&once[i], runs, &r, until)))
		(void)leave(&model.m_next[i], me);
}

/* Mutexes and conditions. */

static void lock(int me, int i, utime_ns until)
{
	int owner = model.m_owner[i];
	int rc;

	clients[me].c_until = until;
	rc = umutex_lock(&mutex[i], until);
	if (rc != 0) {
		CHECK(rc != -EDEADLK || owner == me);
		CHECK(rc == -EDEADLK || owner != me);
		CHECK(rc != -EAGAIN || until == UNOW);
		CHECK(rc != -ETIMEDOUT || unow() >= until);
		return;
	}
	CHECK_IS(model.m_owner[i], NO_CLIENT);
	CHECK(until != UNOW || owner == NO_CLIENT);
	model.m_owner[i] = me;
	clients[me].c_mutex[i] = true;
}

static void unlock(int me, int i)
{
	model.m_owner[i] = NO_CLIENT;
	clients[me].c_mutex[i] = false;
	umutex_unlock(&mutex[i]);
}

/* A result of 0 after the deadline must be a signal's, before it. */
static void wait_cond(int me, int i, utime_ns until)
{
	int wanted, rc;

	if (!clients[me].c_mutex[i]) {
		CHECK_IS(ucond_wait(&cond[i], &mutex[i], until), -EPERM);
		return;
	}
	wanted = must_wait(&model.m_cond[i], me, until);
	if (wanted == WAITS)
		model.m_owner[i] = NO_CLIENT;
	rc = ucond_wait(&cond[i], &mutex[i], until);
	CHECK_IS(model.m_owner[i], wanted == WAITS ? NO_CLIENT : me);
	model.m_owner[i] = me;
	if (wanted != WAITS || clients[me].c_let)
		CHECK_IS(rc, wanted != WAITS ? wanted : 0);
	else {
		CHECK(rc == -ETIMEDOUT && unow() >= until);
		(void)leave(&model.m_cond[i], me);
		model.m_late++;
	}
}

static void do_mutex(int me, int i, utime_ns until)
{
	switch (drawn(me, clients[me].c_mutex[i] ? 5 : 4)) {
	case 0:
		(void)let_first(&model.m_cond[i], 0);
		ucond_signal(&cond[i]);
		break;
	case 1:
		if (drawn(me, 3) != 0)
			break;
		(void)let_all(&model.m_cond[i], 0);
		ucond_broadcast(&cond[i]);
		break;
	case 2:
		wait_cond(me, i, until);
		break;
	case 3:
		lock(me, i, until);
		break;
	default:
		unlock(me, i);
	}
}

/* Programs. */

/* Unlocks all, but for one hold of rw[rw_nr]. */
static void let_go_but(int me, int rw_nr)
{
	const struct client *c = &clients[me];
	int i;

	for (i = 0; i < EACH; i++) {
		if (c->c_mutex[i])
			unlock(me, i);
		while (c->c_writes[i] + c->c_reads[i] > (i == rw_nr))
			rw_unlock(me, i);
	}
}

static void let_go(int me)
{
	let_go_but(me, -1);
}

static void program(void *arg)
{
	static void (*const kind[])(int, int, utime_ns) = {
		do_sem, do_rw, do_rw_cond, do_group, do_barrier, do_once,
		do_mutex
	};
	int me = (int)(intptr_t)arg, step;

	clients[me].c_stack = ustack_self();

	for (step = 0; step < STEPS; step++) {
		utime_ns until = drawn(me, 6) == 0 ? UNOW :
			later(me, 6);

		kind[drawn(me, COUNT(kind))](me, (int)drawn(me, EACH), until);
		switch (drawn(me, 12)) {
		case 0:
			CHECK_IS(u_sleep(later(me, 2)), 0);
			break;
		case 1:
			yield();
			break;
		case 2:
			let_go(me);
		}
	}
	let_go(me);
}

static void init(unsigned seed)
{
	int i;

	memset(&model, 0, sizeof model);
	memset(clients, 0, sizeof clients);
	memset(once, 0, sizeof once);
	memset(sem, 0, sizeof sem);
	memset(group, 0, sizeof group);
	for (i = 0; i < EACH; i++) {
		model.m_owner[i] = model.m_writer[i] = NO_CLIENT;
		model.m_once[i] = NO_CLIENT;
		barrier[i] = (struct ubarrier)UBARRIER(i + 2);
	}
	for (i = 0; i < THREADS; i++)
		clients[i].c_random = check_hash(seed, (unsigned)i) | 1;
}

static void round_of(unsigned seed)
{
	int i;

	doing("round %#x", seed);
	init(seed);
	begin(1, 0);
	for (i = 0; i < THREADS; i++)
		make(0, program, (void *)(intptr_t)i);
	start_and_finish();
	for (i = 0; i < EACH; i++)
		CHECK(umutex_busy(&mutex[i]) == 0 && urw_busy(&rw[i]) == 0 &&
		      ucond_busy(&cond[i]) == 0 &&
		      ucond_busy(&rw_cond[i]) == 0 && usem_busy(&sem[i]) == 0 &&
		      ubarrier_busy(&barrier[i]) == 0);
	CHECK(model.m_waits > THREADS && model.m_late > THREADS);
}

int main(int argc, char **argv)
{
	unsigned nr;

	check_start(argc, argv);
	utime_virtual(0);
	uwait_watch_add(&watch);
	for (nr = 0; nr < 30 || (nr < 1000 && check_time(3)); nr++)
		round_of(check_hash(check_seed, nr));
	CHECK_THAT(relocks, >, 0);
	return 0;
}
