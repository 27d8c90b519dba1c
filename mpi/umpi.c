/* SPDX-License-Identifier: MIT */
/* umpi.c: where threads wait for requests of MPI. */

/*
 * OVERVIEW
 *
 *	thread: MPI_Recv()                     a processor, now and then
 *	   |  PMPI_Irecv(), PMPI_Test()           |
 *	   v                                      v
 *	record  ---->  +------------------+   PMPI_Testsome()
 *	 (one)         | m_request        | <--- a window of the list
 *	               | m_one            |
 *	               +------------------+
 *	record  ---->    ring m_first       <--- PMPI_Testall() and the like,
 *	 (many)                                  a few of the ring
 *
 * MPI has no event that a processor could sleep for: requests must be tested. A
 * thread that would block starts the operation, tests it once, and leaves the
 * request in a list. Each processor of rr or ll has such a list, and all
 * workers of ws share one. It is a source of events (uwait.h). So processors
 * look at it once in some 64 switches, and when they have nothing to run.
 *
 * A wait for a single request, of most calls, is in the list: arrays, so that
 * one call tests WINDOW of them. The progress of MPI, which costs most, is made
 * once in each such call. Waits for all, for any or for some requests, and
 * probes, stand in a ring, and each is a call.
 *
 * The records and all that MPI writes - requests, status, indices - are on the
 * heap (see the first law in uwait.h). The thread copies them to where its
 * caller wants them after it has been resumed. Buffers: see stay.h.
 *
 * THE SHARE OF TIME
 *
 * A look of a processor that has threads to run tests one window, and FEW of
 * the ring. It notes how long that took, and for three times as long the next
 * looks return at once. So MPI has a quarter of the time at most.
 *
 * SLEEP
 *
 * A processor with nothing to run comes to sleep_in(), which tests everything,
 * again and again. It returns after SLICE, so that the processor looks at its
 * other sources, such as descriptors (upoll.c). A waker makes the word to which
 * o_role points 0, and sleep_in() looks at that, not at o_wake, which is
 * /dev/null.
 *
 * Once YIELD_AFTER has passed without an event, each turn yields the cpu, which
 * another rank may need to send. After UMPI_SPIN even this is a waste. Then
 * o_sleep becomes NULL, and the processor sleeps elsewhere: in the poller, if
 * threads wait for descriptors, else in the system. The source asks for a look
 * after o_nap. Each look in vain doubles o_nap, up to a millisecond, or
 * NAP_SHARE times the time of the look. An event, or a new wait, sets o_sleep
 * again.
 *
 * Naps must not begin early. If other processes compute, a processor that naps
 * gets its cpu back milliseconds late. The other rank then naps as well, and
 * each message costs that.
 *
 * THE ONLY WAITER
 *
 * If no other thread waits here, the thread itself tests TRIES times before it
 * waits, since two switches cost as much as a message. A thread that can run
 * has to wait for that. So after tries in vain the next waits do without: 1, 3,
 * 7 and so on, up to TRIES - 1.
 *
 * THE CROWD
 *
 * PMPI_Test() of a request that is not complete makes progress: MPI takes
 * messages for other threads, too. Their receives may not be posted, because
 * these threads have not run since their last message. Such a message joins the
 * unexpected messages, which each new receive then searches. With 1,000 threads
 * this took three quarters of the time under Open MPI. So if CROWD
 * threads wait, a receive that has just begun is not tested by its thread. Then
 * progress is made between messages only, by a processor that has run all
 * threads, or that looks. With 1,000 threads the rate is twice as high under Open
 * MPI, and 1.6 times under MPICH. A receive that is complete at once then costs
 * two switches.
 *
 * NO MEMORY
 *
 * A request that has begun must complete. If there is no memory for the wait, or
 * for the slice (A7 in uwait.c), the thread tests the request itself, and lets
 * others run between two tests.
 *
 * INVARIANTS
 *
 * M1. o_place of a record is where its request stands in m_request, or NOWHERE.
 *     The list changes under m_lock.
 * M2. A request in the list is tested under m_lock only. So after a claim by a
 *     deadline, the place tells whether the request is complete: then the event
 *     wins.
 * M3. A record in the list or in the ring is not freed: its thread takes it
 *     out, under m_lock, or the look that has found it complete.
 * M4. No request of the list is MPI_REQUEST_NULL or inactive, since
 *     PMPI_Testsome() would never tell of it: PMPI_Test() has said "not yet",
 *     or it is a receive that has just begun.
 * M5. Only who has o_role changes m_rest, m_since, and the arrays of answers.
 *
 * REJECTED
 *
 * A receive for any message, which a table then gives to the thread that wants
 * it, would be faster than the lists of MPI if many threads receive. But it
 * takes messages that a receive of the program, posted later, has a right to.
 *
 * MPI_Probe() by PMPI_Improbe(), so that the message is reserved: a program may
 * let another thread receive it, and that receive would not find it.
 *
 * u_mpi_recv() by PMPI_Irecv(), and PMPI_Cancel() at the deadline. If another
 * native thread makes progress at this moment, Open MPI 4.1.4 may say that the
 * request was cancelled although a message was matched, and the message is
 * lost: in 1 of 4 runs of test/mpi/calls.c with 2 processors and 4 ranks.
 *
 * Records and slices that are reserved before the request begins: MPI_Wait()
 * gets a request that has begun, and a message that is there at once would pay
 * for a record.
 *
 * PMPI_Request_get_status(), which would leave the error to the thread itself:
 * each call makes progress, 40 ns or more, and there is no call for many.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "progress.h"
#include "lock.h"
#include "ufork.h"
#include "compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

UPREEMPT_NEVER;

#define WINDOW		256	/* requests of a test */
#define FEW		8	/* of the ring, in a look */
#define NOWHERE		(-1)
#define SHARE		3	/* rest after a look, in looks */
#define SLICE		(20 * UTIME_US)
#define YIELD_AFTER	(10 * UTIME_US)
#define NAP_MIN		(50 * UTIME_US)
#define NAP_MAX		(1 * UTIME_MS)
#define NAP_SHARE	20
#define TRIES		64
#define CROWD		64	/* waits */

struct umpi;

struct record {
	struct uwait    o_wait;		/* first */
	struct umpi    *o_at;
	struct umpi_why o_why;
	int             o_error;	/* MPI's */
	int             o_place;	/* M1 */
};

struct one {
	struct record   n_record;	/* first */
	MPI_Request     n_request;	/* while it is not in the list */
	MPI_Status      n_status;
};

struct many {
	struct record   y_record;	/* first */
	struct many    *y_next;		/* NULL: in no ring */
	struct many    *y_prev;
	struct umpi_ask y_ask;
};

/* The list of a processor, or of all workers of ws. */
struct umpi {
	struct uwait_source m_source;	/* first */
	struct umpi  *m_next;		/* of all, under all_lock */
	pthread_t     m_owner;		/* has made it */
	struct ulock  m_lock;
	int           m_nr;		/* in the list */
	int           m_room;
	int           m_at;		/* where the next window begins */
	MPI_Request  *m_request;
	struct one  **m_one;
	struct many  *m_first;		/* of the ring */
	utime_ns      m_rest;		/* no look before */
	utime_ns      m_since;		/* no event since, or 0 */
	int           m_fresh;		/* a wait has begun (atomic) */
	int           m_vain;		/* m_skip after tries in vain (atomic) */
	int           m_skip;		/* waits without tries (atomic) */
	int           m_index[WINDOW];
	MPI_Status    m_status[WINDOW];
};

static struct ulock all_lock;
static struct umpi *all;		/* under all_lock */
static int level = -1;			/* of MPI; -1: it does not work */
static int wake_fd = -1;		/* under all_lock */

static struct ufork at_fork = {
	.f_rank = UFORK_MPI, .f_lock = &all_lock, .f_nr = 1
};
UFORK(at_fork)

static utime_ns real_now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * UTIME_S + t.tv_nsec;
}

static bool ignored(const MPI_Status *status)
{
	return status == MPI_STATUS_IGNORE || status == MPI_STATUSES_IGNORE;
}

/* Asks MPI. Sets *error. True: there is an answer, or an error. */
static bool asked(struct umpi_ask *a, int *error)
{
	int flag = 0;

	switch (a->a_kind) {
	case UMPI_ALL:
		*error = PMPI_Testall(a->a_nr, a->a_request, &flag,
				      a->a_status);
		break;
	case UMPI_ANY:
		*error = PMPI_Testany(a->a_nr, a->a_request, &a->a_done, &flag,
				      a->a_status);
		break;
	case UMPI_SOME:
		*error = PMPI_Testsome(a->a_nr, a->a_request, &a->a_done,
				       a->a_index, a->a_status);
		flag = a->a_done != 0;
		break;
	case UMPI_PROBE:
		*error = PMPI_Iprobe(a->a_peer, a->a_tag, a->a_comm, &flag,
				     a->a_status);
		break;
	case UMPI_MPROBE:
		*error = PMPI_Improbe(a->a_peer, a->a_tag, a->a_comm, &flag,
				      &a->a_message, a->a_status);
		break;
	}
	return flag || *error != MPI_SUCCESS;
}

/* The list. Caller holds m_lock. */

static bool list_grow(struct umpi *m)
{
	int room = m->m_room > 0 ? 2 * m->m_room : WINDOW;
	MPI_Request *request = realloc(m->m_request, room * sizeof *request);
	struct one **one;

	if (request == NULL)
		return false;
	m->m_request = request;
	one = realloc(m->m_one, room * sizeof *one);
	if (one == NULL)
		return false;
	m->m_one  = one;
	m->m_room = room;
	return true;
}

/* Puts n in the list. False: no memory. */
static bool list_add(struct umpi *m, struct one *n)
{
	if (m->m_nr == m->m_room && !list_grow(m))
		return false;
	m->m_request[m->m_nr] = n->n_request;
	m->m_one[m->m_nr]     = n;
	n->n_record.o_place   = m->m_nr++;
	return true;
}

/* Takes the record at a place out; the last takes its place. */
static void list_take(struct umpi *m, int place)
{
	struct one *n = m->m_one[place];
	int last = --m->m_nr;

	n->n_request = m->m_request[place];
	n->n_record.o_place = NOWHERE;
	m->m_request[place] = m->m_request[last];
	m->m_one[place]     = m->m_one[last];
	m->m_one[place]->n_record.o_place = place;
	if (place == last)
		n->n_record.o_place = NOWHERE;
}

static void ring_add(struct umpi *m, struct many *y)
{
	struct many *first = m->m_first;

	if (first == NULL) {
		m->m_first = y->y_next = y->y_prev = y;
		return;
	}
	y->y_next = first;
	y->y_prev = first->y_prev;
	y->y_prev->y_next = first->y_prev = y;
}

static void ring_take(struct umpi *m, struct many *y)
{
	if (y->y_next == y)
		m->m_first = NULL;
	else if (m->m_first == y)
		m->m_first = y->y_next;
	y->y_next->y_prev = y->y_prev;
	y->y_prev->y_next = y->y_next;
	y->y_next = NULL;
}

/* Looking. */

/* Claims r, which is complete and in no list. Puts it in front of *claimed. */
static void claim(struct record *r, int error, struct record **claimed)
{
	r->o_error = error;
	if (!uwait_claim(&r->o_wait))
		return;			/* its thread finds it complete: M2 */
	r->o_wait.w_at.object = *claimed;
	*claimed = r;
}

static int complete(struct record *claimed)
{
	struct record *next;
	int nr;

	for (nr = 0; claimed != NULL; claimed = next, nr++) {
		next = (struct record *)(uintptr_t)claimed->o_wait.w_at.object;
		uwait_complete(&claimed->o_wait, 0);
	}
	return nr;
}

/* Tests each request of a window, since PMPI_Testsome() has failed. */
static NOINLINE void test_each(struct umpi *m, int from, int to,
			       struct record **claimed)
{
	int i, rc, flag;

	for (i = to - 1; i >= from; i--) {
		struct one *n = m->m_one[i];

		flag = 0;
		rc = PMPI_Test(&m->m_request[i], &flag, &n->n_status);
		if (!flag && rc == MPI_SUCCESS)
			continue;
		list_take(m, i);
		claim(&n->n_record, rc, claimed);
	}
}

/* Sorts the first nr of m_index, mostly sorted, with their m_status. */
static void sort(struct umpi *m, int nr)
{
	int i, k;

	for (i = 1; i < nr; i++) {
		int index = m->m_index[i];
		MPI_Status status = m->m_status[i];

		for (k = i; k > 0 && m->m_index[k - 1] > index; k--) {
			m->m_index[k]  = m->m_index[k - 1];
			m->m_status[k] = m->m_status[k - 1];
		}
		m->m_index[k]  = index;
		m->m_status[k] = status;
	}
}

/* Returns whether the error of PMPI_Testsome() is in the status of each. */
static bool in_status(int rc)
{
	int class = rc;

	return rc != MPI_SUCCESS &&
		PMPI_Error_class(rc, &class) == MPI_SUCCESS &&
		class == MPI_ERR_IN_STATUS;
}

/* Tests the requests from a place on, up to WINDOW. Caller holds m_lock. */
static void test_window(struct umpi *m, int from, struct record **claimed)
{
	int nr = m->m_nr - from < WINDOW ? m->m_nr - from : WINDOW;
	int done = 0;
	int rc, i;

	if (nr <= 0)
		return;
	rc = PMPI_Testsome(nr, m->m_request + from, &done, m->m_index,
			   m->m_status);
	if (rc != MPI_SUCCESS && !in_status(rc)) {
		test_each(m, from, from + nr, claimed);
		return;
	}
	if (done == MPI_UNDEFINED)
		return;
	sort(m, done);
	for (i = done - 1; i >= 0; i--) {
		struct one *n = m->m_one[from + m->m_index[i]];

		n->n_status = m->m_status[i];
		list_take(m, from + m->m_index[i]);
		claim(&n->n_record, rc == MPI_SUCCESS ? rc :
		      m->m_status[i].MPI_ERROR, claimed);
	}
}

/* Asks for up to nr of the ring. Caller holds m_lock. */
static void ask_ring(struct umpi *m, int nr, struct record **claimed)
{
	struct many *last = m->m_first != NULL ? m->m_first->y_prev : NULL;
	struct many *y;
	int error;

	while (nr-- > 0 && (y = m->m_first) != NULL) {
		m->m_first = y->y_next;
		if (asked(&y->y_ask, &error)) {
			ring_take(m, y);
			claim(&y->y_record, error, claimed);
		}
		if (y == last)
			return;
	}
}

/* Tests a part, or all. Returns how many waits have ended. */
static int test(struct umpi *m, bool everything)
{
	struct record *claimed = NULL;
	int from;

	ulock_get(&m->m_lock);
	if (m->m_at >= m->m_nr)
		m->m_at = 0;
	if (everything)
		for (from = (m->m_nr - 1) / WINDOW * WINDOW; from >= 0;
		     from -= WINDOW)
			test_window(m, from, &claimed);
	else
		test_window(m, m->m_at, &claimed);
	m->m_at += WINDOW;
	ask_ring(m, everything ? INT_MAX : FEW, &claimed);
	ulock_put(&m->m_lock);
	return complete(claimed);
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

static void look(struct uwait_source *o)
{
	struct umpi *m = (struct umpi *)o;
	bool naps = sleeper(m) == NULL;
	utime_ns begun = real_now();
	utime_ns took;

	if (begun < m->m_rest)
		return;
	check_level(m, "look");
	if (test(m, naps) > 0) {
		m->m_since = 0;
		if (naps)
			set_sleeper(m, sleep_in);
	}
	took = real_now() - begun;
	m->m_rest = begun + took + SHARE * took;
	if (naps)
		nap_longer(m, took);
}

/* Returns whether the processor that sleeps in m was woken. */
static bool woken(const struct umpi *m)
{
	return __atomic_load_n((const int *)m->m_source.o_role,
			       __ATOMIC_ACQUIRE) == 0;
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
			(void)sched_yield();
	}
	if (now - m->m_since < UMPI_SPIN)
		return;
	m->m_source.o_nap = NAP_MIN;
	set_sleeper(m, NULL);
}

/* Sources. */

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
	free(m->m_one);
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

static bool works(void)
{
	int yes = 0, no = 0;

	if (level >= 0)
		return true;
	if (PMPI_Initialized(&yes) != MPI_SUCCESS || !yes ||
	    PMPI_Finalized(&no) != MPI_SUCCESS || no)
		return false;
	(void)PMPI_Query_thread(&level);
	return true;
}

bool umpi_here(const char *call)
{
	const struct ustack *u = ustack_self();
	struct umpi *m;

	if (u == NULL || u->u_sched->s_wait == NULL || !works())
		return false;
	m = umpi_of_caller();
	if (m == NULL)
		usched_fail("mpi: no memory, or no descriptor, for a list");
	check_level(m, call);
	return true;
}

void umpi_final(void)
{
	long nr = 0;
	const struct umpi *m;

	ulock_get(&all_lock);
	for (m = all; m != NULL; m = m->m_next)
		nr += __atomic_load_n(&m->m_source.o_waits, __ATOMIC_RELAXED);
	ulock_put(&all_lock);
	if (nr != 0)
		usched_fail("MPI_Finalize: threads wait for MPI");
	level = -1;
}

/* Waits of threads. */

static void *record_make(size_t size, const struct umpi_why *why, bool sure)
{
	struct record *r = uwait_make(UWAIT_OTHER, why->y_call, size);

	if (r == NULL)
		return NULL;
	if (sure && uwait_reserve(UNEVER) != 0) {
		(void)uwait_claim(&r->o_wait);
		uwait_free(r);
		return NULL;
	}
	r->o_at    = umpi_of_caller();
	r->o_why   = *why;
	r->o_error = MPI_SUCCESS;
	r->o_place = NOWHERE;
	if (sure)
		r->o_wait.w_flags |= UWAIT_SURE;
	return r;
}

static void record_free(struct record *r)
{
	uwait_source_end(&r->o_at->m_source);
	uwait_free(r);
}

/* Lets the next sleep of m spin. */
static void begins(struct umpi *m)
{
	__atomic_store_n(&m->m_fresh, 1, __ATOMIC_RELAXED);
	if (sleeper(m) == NULL)
		set_sleeper(m, sleep_in);
}

/* Queues the request of the caller. NULL: no memory. */
static NOINLINE struct one *one_begin(MPI_Request request, bool sure,
				      const struct umpi_why *why)
{
	struct one *n = record_make(sizeof *n, why, sure);
	struct umpi *m;
	bool added;

	if (n == NULL)
		return NULL;
	m = n->n_record.o_at;
	n->n_request = request;
	uwait_source_begin(&m->m_source);
	ulock_get(&m->m_lock);
	added = list_add(m, n);
	ulock_put(&m->m_lock);
	begins(m);
	if (added)
		return n;
	(void)uwait_claim(&n->n_record.o_wait);
	record_free(&n->n_record);
	return NULL;
}

static void status_set(MPI_Status *to, const MPI_Status *from)
{
	int error;

	if (ignored(to))
		return;
	error = to->MPI_ERROR;		/* calls for one leave it: MPI 3.2.5 */
	*to = *from;
	to->MPI_ERROR = error;
}

/* Ends the wait of n, and frees it. Returns the result. */
static NOINLINE int one_end(struct one *n, int rc, MPI_Request *request,
			    MPI_Status *status)
{
	struct umpi *m = n->n_record.o_at;

	if (rc != 0) {
		ulock_get(&m->m_lock);
		if (n->n_record.o_place != NOWHERE)
			list_take(m, n->n_record.o_place);
		else
			rc = 0;				/* M2 */
		ulock_put(&m->m_lock);
	}
	*request = n->n_request;
	if (rc == 0) {
		status_set(status, &n->n_status);
		rc = n->n_record.o_error;
	}
	record_free(&n->n_record);
	return rc;
}

/* Returns whether the caller shall test its request again before it waits. */
static bool may_try(struct umpi *m)
{
	int skip = __atomic_load_n(&m->m_skip, __ATOMIC_RELAXED);

	if (__atomic_load_n(&m->m_source.o_waits, __ATOMIC_RELAXED) != 0)
		return false;
	if (skip > 0)
		__atomic_store_n(&m->m_skip, skip - 1, __ATOMIC_RELAXED);
	return skip <= 0;
}

/* Notes whether tries of the caller were in vain. */
static void tried(struct umpi *m, bool in_vain)
{
	int next = 0;

	if (in_vain) {
		next = 2 * __atomic_load_n(&m->m_vain, __ATOMIC_RELAXED) + 1;
		if (next >= TRIES)
			next = TRIES - 1;
	}
	__atomic_store_n(&m->m_vain, next, __ATOMIC_RELAXED);
	__atomic_store_n(&m->m_skip, next, __ATOMIC_RELAXED);
}

/*
 * Tests a request, once or, if that is worth it, more often. True: it is
 * complete, or there is an error, in *rc.
 */
static bool test_here(MPI_Request *request, MPI_Status *status, bool once,
		      int *rc)
{
	int flag = 0;
	struct umpi *m;
	int i;

	*rc = PMPI_Test(request, &flag, status);
	if (flag || *rc != MPI_SUCCESS)
		return true;
	m = umpi_of_caller();
	if (once || !may_try(m))
		return false;
	for (i = 0; i < TRIES && !flag && *rc == MPI_SUCCESS; i++)
		*rc = PMPI_Test(request, &flag, status);
	tried(m, !flag);
	return flag || *rc != MPI_SUCCESS;
}

/* Returns whether a test by the caller would do harm: see "THE CROWD". */
static bool is_crowded(void)
{
	return __atomic_load_n(&umpi_of_caller()->m_source.o_waits,
			       __ATOMIC_RELAXED) >= CROWD;
}

/* Waits without memory for a record: lets others run between two tests. */
static NOINLINE int wait_poorly(MPI_Request *request, MPI_Status *status,
				utime_ns until)
{
	int flag = 0;
	int rc;

	for (;;) {
		rc = PMPI_Test(request, &flag, status);
		if (flag || rc != MPI_SUCCESS)
			return rc;
		if (until != UNEVER && until <= unow())
			return -ETIMEDOUT;
		(void)uwait_give_way();
	}
}

int umpi_wait(MPI_Request *request, MPI_Status *status, utime_ns until,
	      bool sure, const struct umpi_why *why)
{
	struct one *n;
	int rc;

	if (!(why->y_receives && is_crowded()) &&
	    test_here(request, status, until == UNOW, &rc))
		return rc;
	if (until == UNOW)
		return -EAGAIN;
	n = one_begin(*request, sure, why);
	if (n == NULL)
		return wait_poorly(request, status, until);
	rc = uwait_for(&n->n_record.o_wait, until);
	return one_end(n, rc, request, status);
}

/* Bytes of the arrays of a, to be copied. */
static size_t request_size(const struct umpi_ask *a)
{
	return a->a_nr * sizeof *a->a_request;
}

static size_t index_size(const struct umpi_ask *a)
{
	return a->a_kind == UMPI_SOME ? a->a_nr * sizeof *a->a_index : 0;
}

static size_t status_size(const struct umpi_ask *a)
{
	bool each = a->a_kind == UMPI_ALL || a->a_kind == UMPI_SOME;

	return ignored(a->a_status) ? 0 :
		(each ? a->a_nr : 1) * sizeof *a->a_status;
}

/* Gives y a copy of a, with arrays on the heap. False: no memory. */
static bool ask_copy(struct many *y, const struct umpi_ask *a)
{
	char *block = malloc(request_size(a) + index_size(a) +
			     status_size(a) + 1);

	if (block == NULL)
		return false;
	y->y_ask = *a;
	y->y_ask.a_request = (MPI_Request *)block;
	if (a->a_nr > 0)
		memcpy(block, a->a_request, request_size(a));
	block += request_size(a);
	if (status_size(a) > 0)
		y->y_ask.a_status = memcpy(block, a->a_status, status_size(a));
	block += status_size(a);
	y->y_ask.a_index = (int *)block;
	return true;
}

/* Gives the caller's arrays what the copy has. */
static void ask_back(struct umpi_ask *a, const struct umpi_ask *from, bool done)
{
	if (a->a_nr > 0)
		memcpy(a->a_request, from->a_request, request_size(a));
	if (!done)
		return;
	if (index_size(a) > 0)
		memcpy(a->a_index, from->a_index, index_size(a));
	if (status_size(a) > 0)
		memcpy(a->a_status, from->a_status, status_size(a));
	a->a_done    = from->a_done;
	a->a_message = from->a_message;
}

static NOINLINE struct many *many_begin(const struct umpi_ask *a, bool sure,
					const struct umpi_why *why)
{
	struct many *y = record_make(sizeof *y, why, sure);
	struct umpi *m;

	if (y == NULL)
		return NULL;
	if (!ask_copy(y, a)) {
		(void)uwait_claim(&y->y_record.o_wait);
		uwait_free(y);
		return NULL;
	}
	m = y->y_record.o_at;
	uwait_source_begin(&m->m_source);
	ulock_get(&m->m_lock);
	ring_add(m, y);
	ulock_put(&m->m_lock);
	begins(m);
	return y;
}

static NOINLINE int many_end(struct many *y, int rc, struct umpi_ask *a)
{
	struct umpi *m = y->y_record.o_at;

	if (rc != 0) {
		ulock_get(&m->m_lock);
		if (y->y_next != NULL)
			ring_take(m, y);
		else
			rc = 0;				/* M2 */
		ulock_put(&m->m_lock);
	}
	ask_back(a, &y->y_ask, rc == 0);
	free(y->y_ask.a_request);
	if (rc == 0)
		rc = y->y_record.o_error;
	record_free(&y->y_record);
	return rc;
}

int umpi_ask(struct umpi_ask *a, utime_ns until, bool sure,
	     const struct umpi_why *why)
{
	struct many *y;
	int rc;

	for (;;) {
		if (asked(a, &rc))
			return rc;
		if (until == UNOW)
			return -EAGAIN;
		y = many_begin(a, sure, why);
		if (y != NULL)
			break;
		if (until != UNEVER && until <= unow())
			return -ETIMEDOUT;
		(void)uwait_give_way();		/* no memory: test it here */
	}
	rc = uwait_for(&y->y_record.o_wait, until);
	return many_end(y, rc, a);
}

/* Waits with a deadline. */

/* Asks again and again, for a native thread. */
static int ask_natively(struct umpi_ask *a, utime_ns until)
{
	int rc;

	while (!asked(a, &rc)) {
		if (until == UNOW)
			return -EAGAIN;
		if (until != UNEVER && until <= unow())
			return -ETIMEDOUT;
		(void)sched_yield();
	}
	return rc;
}

static int ask_until(struct umpi_ask *a, utime_ns until, const char *call)
{
	struct umpi_why why = { .y_call = call,
				.y_peer = UMPI_NO_PEER };

	if (until < 0)
		return -EINVAL;
	if (a->a_kind == UMPI_MPROBE) {
		why.y_peer = a->a_peer;
		why.y_tag  = a->a_tag;
	}
	return umpi_here(call) ? umpi_ask(a, until, false, &why) :
		ask_natively(a, until);
}

int u_mpi_wait(MPI_Request *request, MPI_Status *status, utime_ns until)
{
	static const struct umpi_why why = { .y_call = "u_mpi_wait",
					     .y_peer = UMPI_NO_PEER };
	struct umpi_ask a = {
		.a_kind = UMPI_ANY, .a_nr = 1, .a_request = request,
		.a_status = status
	};

	if (until < 0)
		return -EINVAL;
	return umpi_here("u_mpi_wait") ?
		umpi_wait(request, status, until, false, &why) :
		ask_natively(&a, until);
}

int u_mpi_waitall(int nr, MPI_Request request[], MPI_Status *status,
		  utime_ns until)
{
	struct umpi_ask a = {
		.a_kind = UMPI_ALL, .a_nr = nr, .a_request = request,
		.a_status = status
	};

	return ask_until(&a, until, "u_mpi_waitall");
}

int u_mpi_waitsome(int nr, MPI_Request request[], int *done, int index[],
		   MPI_Status *status, utime_ns until)
{
	struct umpi_ask a = {
		.a_kind = UMPI_SOME, .a_nr = nr, .a_request = request,
		.a_index = index, .a_status = status
	};
	int rc = ask_until(&a, until, "u_mpi_waitsome");

	if (rc >= 0)
		*done = a.a_done;
	return rc;
}

int u_mpi_mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message,
		 MPI_Status *status, utime_ns until)
{
	struct umpi_ask a = {
		.a_kind = UMPI_MPROBE, .a_status = status, .a_peer = source,
		.a_tag = tag, .a_comm = comm
	};
	int rc = ask_until(&a, until, "u_mpi_mprobe");

	if (rc == 0)
		*message = a.a_message;
	return rc;
}

/* Lists. */

static void print(int fd, const struct record *r)
{
	const struct ustack *u = r->o_wait.w_stack;
	char text[200];
	int nob;

	nob = snprintf(text, sizeof text, "thread %p %p(%p): waits: %s",
		       (const void *)u, (void *)(uintptr_t)ustack_f(u->u_f,
		       u->u_arg), u->u_arg, r->o_why.y_call);
	if (r->o_why.y_peer != UMPI_NO_PEER)
		nob += snprintf(text + nob, sizeof text - nob,
				", rank %d, tag %d", r->o_why.y_peer,
				r->o_why.y_tag);
	text[nob++] = '\n';
	(void)!write(fd, text, nob);
}

static long print_of(int fd, struct umpi *m)
{
	struct many *y;
	long nr = 0;
	int i;

	ulock_get(&m->m_lock);
	for (i = 0; i < m->m_nr; i++, nr++)
		print(fd, &m->m_one[i]->n_record);
	y = m->m_first;
	if (y != NULL)
		do {
			print(fd, &y->y_record);
			nr++;
		} while ((y = y->y_next) != m->m_first);
	ulock_put(&m->m_lock);
	return nr;
}

long umpi_print(int fd)
{
	struct umpi *m;
	long nr = 0;

	ulock_get(&all_lock);
	for (m = all; m != NULL; m = m->m_next)
		nr += print_of(fd, m);
	ulock_put(&all_lock);
	return nr;
}
