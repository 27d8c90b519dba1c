/* SPDX-License-Identifier: MIT */
/* look.h: how a processor tests its requests. A part of umpi.c. */

#ifndef UMPI_LOOK_H
#define UMPI_LOOK_H

/*
 * Each processor of rr or ll has a list of requests, and all workers of ws share
 * one. The list is a source of events (uwait.h), made when the first thread waits.
 * So processors look at it once in some 64 switches, and when they have nothing to
 * run.
 *
 * THE SHARE OF TIME
 *
 * A look of a processor that has threads to run tests one window, the oldest,
 * or, after a look in vain, the next; and FEW of the ring. It notes how long that
 * took, and for three times as long the next looks return at once. So MPI has a
 * quarter of the time at most. But if the system has run another process
 * meanwhile, the look has taken its time, too. So the rest is REST_MOST at most.
 *
 * SLEEP
 *
 * A processor with nothing to run comes to sleep_in(), which tests everything,
 * again and again. It begins with the oldest window, and stops behind a window in
 * which waits have ended: their threads run next. It returns after SLICE, so that
 * the processor looks at its other sources, such as descriptors (upoll.c). A waker
 * makes the word to which o_role points 0, and sleep_in() looks at that, not at
 * o_wake, which is /dev/null.
 *
 * Behind a window in vain the next is GROWTH times larger, up to WINDOW_MOST.
 * Each call in vain makes progress, and gives the cpu away if Open MPI is told to
 * (mpi_yield_when_idle). With 10,000 requests that were 156 calls, now five.
 *
 * Once YIELD_AFTER has passed without an event, each turn yields the cpu, which
 * another rank may need to send. If the cpu comes back late, other processes
 * compute, and each yield gives them a slice of some milliseconds. Then the next
 * DOZES turns sleep instead, as shortly as the system can: it lets a process that
 * has slept run soon.
 *
 * After UMPI_SPIN even this is a waste. Then
 * o_sleep becomes NULL, and the processor sleeps elsewhere: in the poller, if
 * threads wait for descriptors, else in the system. The source asks for a look
 * after o_nap. Each look in vain doubles o_nap, up to a millisecond, or
 * NAP_SHARE times the time of the look, in time of the cpu. An event, or a new
 * wait, sets o_sleep again.
 *
 * Naps must not begin early. If other processes compute, a processor that naps
 * gets its cpu back milliseconds late. The other rank then naps as well, and
 * each message costs that.
 *
 * INVARIANT
 *
 * M5. Only who has o_role changes m_rest, m_since, and the arrays of answers.
 */

#include "requests.h"
#include "ufork.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#define GROWTH		8	/* of windows in vain */
#define FEW		8	/* of the ring, in a look */
#define SHARE		3	/* rest after a look, in times of the look */
#define REST_MOST	(1 * UTIME_MS)	/* the longest rest */
#define SLICE		(20 * UTIME_US)
#define YIELD_AFTER	(10 * UTIME_US)
#define LATE		(500 * UTIME_US)	/* others compute */
#define DOZE		(20 * UTIME_US)
#define DOZES		64			/* after a yield that took LATE */
#define NAP_MIN		(50 * UTIME_US)
#define NAP_MAX		(1 * UTIME_MS)
#define NAP_SHARE	20

/* Records whose waits have ended, in the order of their requests. */
struct claims {
	struct record *c_first, *c_last;
	int            c_nr;
};

static struct ulock all_lock;
static struct umpi *all;		/* under all_lock */
static int level = -1;			/* of MPI; -1: it does not work */
static int wake_fd = -1;		/* under all_lock */

static struct ufork at_fork = {
	.f_rank = UFORK_MPI, .f_lock = &all_lock, .f_nr = 1
};
UFORK(at_fork)

static utime_ns now_of(clockid_t clock)
{
	struct timespec t;

	(void)clock_gettime(clock, &t);
	return t.tv_sec * UTIME_S + t.tv_nsec;
}

static utime_ns real_now(void)
{
	return now_of(CLOCK_MONOTONIC);
}

/* Returns how long the native thread of the caller has run. */
static utime_ns cpu_now(void)
{
	return now_of(CLOCK_THREAD_CPUTIME_ID);
}

/* Claims r, which is complete and in no list. Puts it behind the others. */
static void claim(struct record *r, int error, struct claims *c)
{
	r->o_error = error;
	if (!uwait_claim(&r->o_wait))
		return;	/* its thread finds it complete: requests M2 */
	r->o_wait.w_at.object = NULL;
	if (c->c_first == NULL)
		c->c_first = r;
	else
		c->c_last->o_wait.w_at.object = r;
	c->c_last = r;
	c->c_nr++;
}

static void complete(const struct claims *c)
{
	struct record *r, *next;

	for (r = c->c_first; r != NULL; r = next) {
		next = (struct record *)(uintptr_t)r->o_wait.w_at.object;
		uwait_complete(&r->o_wait, 0);
	}
}

/*
 * Notes that the request at a place is complete. Its batch is claimed if that
 * has waited for no other. Later completions only change the batch
 * (requests M3).
 */
static void entry_done(struct umpi *m, int place, int error,
		       struct claims *claimed)
{
	struct entry *e = m->m_entry[place];

	list_take(m, place);
	e->e_error = error;
	if (--e->e_batch->b_left == 0)
		claim(&e->e_batch->b_record, error, claimed);
}

/* Tests each request of a window, since PMPI_Testsome() has failed. */
static NOINLINE void test_each(struct umpi *m, int from, int to,
			       struct claims *claimed)
{
	int i, rc;

	for (i = from; i < to; i++)
		if (m->m_entry[i] != NULL && tested(&m->m_request[i],
				&m->m_entry[i]->e_status, &rc))
			entry_done(m, i, rc, claimed);
}

/* Tests the requests from a place on, up to nr. Caller holds m_lock. */
static void test_window(struct umpi *m, int from, int nr, struct claims *claimed)
{
	int done = 0;
	int rc, i;

	if (nr > m->m_end - from)
		nr = m->m_end - from;
	if (nr <= 0)
		return;
	umpi_silence(true);
	rc = PMPI_Testsome(nr, m->m_request + from, &done, m->m_index,
			   m->m_status);
	umpi_silence(false);
	if (rc != MPI_SUCCESS && !in_status(rc)) {
		test_each(m, from, from + nr, claimed);
		return;
	}
	if (done == MPI_UNDEFINED)
		return;
	for (i = 0; i < done; i++) {
		int place = from + m->m_index[i];

		m->m_entry[place]->e_status = m->m_status[i];
		entry_done(m, place, rc == MPI_SUCCESS ? rc :
			   m->m_status[i].MPI_ERROR, claimed);
	}
}

/* Asks for up to nr of the ring. Caller holds m_lock. */
static void ask_ring(struct umpi *m, int nr, struct claims *claimed)
{
	struct question *last = m->m_first != NULL ? m->m_first->q_prev : NULL;
	struct question *q;
	int error;

	while (nr-- > 0 && (q = m->m_first) != NULL) {
		m->m_first = q->q_next;
		if (asked(&q->q_ask, &error)) {
			ring_take(m, q);
			claim(&q->q_record, error, claimed);
		}
		if (q == last)
			return;
	}
}

/* Tests windows, from the oldest request on, until waits have ended. */
static void test_windows(struct umpi *m, struct claims *claimed)
{
	int from = m->m_from, nr = WINDOW;

	while (from < m->m_end && claimed->c_nr == 0) {
		test_window(m, from, nr, claimed);
		from += nr;
		if (nr < WINDOW_MOST)
			nr *= GROWTH;
	}
}

/* Tests the oldest window, or, after one in vain, the next. */
static void test_next(struct umpi *m, struct claims *claimed)
{
	if (m->m_at < m->m_from || m->m_at >= m->m_end)
		m->m_at = m->m_from;
	test_window(m, m->m_at, WINDOW, claimed);
	m->m_at = claimed->c_nr > 0 ? 0 : m->m_at + WINDOW;
}

/* Tests a part, or all. Returns how many waits have ended. */
static int test(struct umpi *m, bool everything)
{
	struct claims claimed = { NULL, NULL, 0 };

	ulock_get(&m->m_lock);
	__atomic_store_n(&m->m_dry, 0, __ATOMIC_RELAXED);
	list_trim(m);
	if (everything)
		test_windows(m, &claimed);
	else
		test_next(m, &claimed);
	ask_ring(m, everything ? INT_MAX : FEW, &claimed);
	ulock_put(&m->m_lock);
	complete(&claimed);
	return claimed.c_nr;
}

/* Fails if the caller's native thread may not call MPI. */
static void check_level(const struct umpi *m, const char *call)
{
	int main_thread = 0;
	char text[128];

	if (level >= MPI_THREAD_MULTIPLE)
		return;
	if (!pthread_equal(pthread_self(), m->m_owner)) {
		snprintf(text, sizeof text, "%s: several processors call MPI, "
			 "which needs MPI_THREAD_MULTIPLE", call);
		usched_fail(text);
	}
	if (level < MPI_THREAD_SERIALIZED &&
	    PMPI_Is_thread_main(&main_thread) == MPI_SUCCESS && !main_thread) {
		snprintf(text, sizeof text, "%s: the processor is not the "
			 "native thread that has initialized MPI, which needs "
			 "MPI_THREAD_SERIALIZED", call);
		usched_fail(text);
	}
}

static void (*sleeper(const struct umpi *m))(struct uwait_source *, utime_ns)
{
	return __atomic_load_n(&m->m_source.o_sleep, __ATOMIC_RELAXED);
}

static void sleep_in(struct uwait_source *o, utime_ns ns);

static void set_sleeper(struct umpi *m,
			void (*f)(struct uwait_source *, utime_ns))
{
	__atomic_store_n(&m->m_source.o_sleep, f, __ATOMIC_RELAXED);
}

/* Called after a look in vain, that took so long, while m naps. */
static void nap_longer(struct umpi *m, utime_ns took)
{
	utime_ns most = took * NAP_SHARE > NAP_MAX ? took * NAP_SHARE : NAP_MAX;
	utime_ns nap = 2 * m->m_source.o_nap;

	m->m_source.o_nap = nap < most ? nap : most;
}

/* Called after a look that took so long. */
static void rest(struct umpi *m, utime_ns took)
{
	utime_ns ns = SHARE * took;

	m->m_rest = real_now() + (ns < REST_MOST ? ns : REST_MOST);
}

/* Looks between threads. */
static void look_between(struct umpi *m, utime_ns begun)
{
	if (test(m, false) > 0)
		m->m_since = 0;
	rest(m, real_now() - begun);
}

/* Looks after a nap. */
static void look_after(struct umpi *m)
{
	utime_ns begun = cpu_now(), took;

	if (test(m, true) > 0) {
		m->m_since = 0;
		set_sleeper(m, sleep_in);
	}
	took = cpu_now() - begun;
	rest(m, took);
	nap_longer(m, took);
}

static void look(struct uwait_source *o)
{
	struct umpi *m = (struct umpi *)o;
	utime_ns begun = real_now();

	if (begun < m->m_rest)
		return;
	check_level(m, "look");
	if (sleeper(m) != NULL)
		look_between(m, begun);
	else
		look_after(m);
}

/* Returns whether the processor that sleeps in m was woken. */
static bool woken(const struct umpi *m)
{
	return __atomic_load_n((const int *)m->m_source.o_role,
			       __ATOMIC_ACQUIRE) == 0;
}

/* Lets other processes run, after a test in vain: see "SLEEP". */
static void give_cpu(struct umpi *m, utime_ns now)
{
	static const struct timespec doze = { .tv_nsec = DOZE };

	if (m->m_dozes > 0) {
		m->m_dozes--;
		(void)nanosleep(&doze, NULL);
	} else
		(void)sched_yield();
	if (real_now() - now > LATE)
		m->m_dozes = DOZES;
}

static void sleep_in(struct uwait_source *o, utime_ns ns)
{
	struct umpi *m = (struct umpi *)o;
	utime_ns begun = real_now();
	utime_ns now;

	check_level(m, "sleep");
	if (__atomic_exchange_n(&m->m_fresh, 0, __ATOMIC_RELAXED) != 0 ||
	    m->m_since == 0)
		m->m_since = begun;
	for (;;) {
		if (test(m, true) > 0) {
			m->m_since = 0;
			return;
		}
		if (woken(m))
			return;
		now = real_now();
		if (now - begun >= SLICE || now - begun >= ns)
			break;
		if (now - m->m_since >= YIELD_AFTER)
			give_cpu(m, now);
	}
	if (now - m->m_since < UMPI_SPIN)
		return;
	m->m_source.o_nap = NAP_MIN;
	set_sleeper(m, NULL);
}

static void umpi_free(struct uwait_source *o)
{
	struct umpi *m = (struct umpi *)o;
	struct umpi **at;

	ulock_get(&all_lock);
	for (at = &all; *at != m; at = &(*at)->m_next)
		;
	*at = m->m_next;
	ulock_put(&all_lock);
	free(m->m_request);
	free(m->m_entry);
	free(m);
}

/* Makes the source of the caller's dispatcher. Caller holds all_lock. */
static struct umpi *umpi_make(void)
{
	struct umpi *m = calloc(1, sizeof *m);

	if (wake_fd < 0)
		wake_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (m == NULL || wake_fd < 0) {
		free(m);
		return NULL;
	}
	m->m_owner = all != NULL ? all->m_owner : pthread_self();
	m->m_source.o_look  = look;
	m->m_source.o_sleep = sleep_in;
	m->m_source.o_fini  = umpi_free;
	m->m_source.o_wake  = wake_fd;
	if (uwait_source_add(&m->m_source) != 0) {
		free(m);
		return NULL;
	}
	m->m_next = all;
	all = m;
	return m;
}

/* Returns the source of the caller's dispatcher; NULL: no memory. */
static struct umpi *umpi_of_caller(void)
{
	struct umpi *m = (struct umpi *)uwait_source_of(look);

	if (m != NULL)
		return m;
	ulock_get(&all_lock);
	m = (struct umpi *)uwait_source_of(look);
	if (m == NULL)
		m = umpi_make();
	ulock_put(&all_lock);
	return m;
}

#endif /* UMPI_LOOK_H */
