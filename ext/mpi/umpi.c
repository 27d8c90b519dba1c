/* SPDX-License-Identifier: MIT */
/* umpi.c: where threads wait for requests of MPI. */

/*
 * OVERVIEW
 *
 *	thread: MPI_Recv()                     a processor, now and then
 *	   |  PMPI_Irecv(), PMPI_Test()           |
 *	   v                                      v
 *	batch   ---->  +------------------+   PMPI_Testsome()
 *	               | m_request        | <--- a window of the list
 *	               | m_entry          |
 *	               +------------------+
 *	question --->    ring m_first       <--- PMPI_Testany() and the like,
 *	                                         a few of the ring
 *
 * MPI has no event that a processor could sleep for: requests must be tested. A
 * thread that would block starts the operation, tests it once, and leaves the
 * request in a list. Each processor of rr or ll has such a list, and all
 * workers of ws share one. It is a source of events (uwait.h). So processors
 * look at it once in some 64 switches, and when they have nothing to run.
 *
 * Requests are in the list: arrays, so that a call tests WINDOW of them. The
 * progress of MPI, which costs most, is made once in each such call. The batch
 * of a thread has an entry for each of its requests, and a count: of those that
 * have to complete before the thread goes on. That is one for MPI_Recv(), two
 * for MPI_Sendrecv(), all for MPI_Waitall(), and one for MPI_Waitsome(),
 * which then has all that are complete.
 *
 * Requests stand in the order of their age. A complete request leaves a hole,
 * which is MPI_REQUEST_NULL, and holes are closed when they are many. So threads
 * go on in the order in which they began to wait, and post their next receives in
 * that order. Messages come in that order, too, and MPI finds the receive of each
 * near the head of its list.
 *
 * Three kinds of waits are questions, which stand in a ring, and each is a call:
 * probes; MPI_Waitany(), since of several requests that are complete it takes
 * one, and the others must stay what they are; and u_mpi_waitall(), which may
 * end early, and then none may be complete.
 *
 * The records and all that MPI writes - requests, status, indices - are on the
 * heap (see the first law in uwait.h). The thread copies them to where its
 * caller wants them after it has been resumed. Buffers: see stay.h.
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
 * threads wait, a receive that has just begun is not tested by its thread, and
 * neither are the requests of MPI_Waitall(). Any other request, such as the send of
 * MPI_Sendrecv(), is tested until a test was in vain, and then no more before a
 * processor has looked: MPI has no room for messages, or none has come. Then
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
 * M1. e_place of an entry is where its request stands in m_request, or NOWHERE,
 *     if a look has found it complete; ABSENT, if the thread has taken it out.
 *     The list changes under m_lock.
 * M2. A request in the list is tested under m_lock only. So after a claim by a
 *     deadline, the place tells whether the request is complete: then the event
 *     wins.
 * M3. A batch with an entry in the list, or a question in the ring, is not
 *     freed: its thread takes it out, under m_lock, or the look that has found
 *     it complete.
 * M4. No request of the list is MPI_REQUEST_NULL, but for holes, or inactive,
 *     since PMPI_Testsome() would never tell of it: PMPI_Test() has said "not yet",
 *     or is_idle() has. An inactive request is a persistent one, so is_idle()
 *     asks MPI only if there are such.
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
 * lost: in 1 of 4 runs of test/ext/mpi/calls.c with 2 processors and 4 ranks.
 *
 * Records and slices that are reserved before the request begins: MPI_Wait()
 * gets a request that has begun, and a message that is there at once would pay
 * for a record.
 *
 * A list in which the last request takes the place of a complete one, without
 * holes: threads lose their order, and MPI searches a quarter of its list for each
 * message. With 1,000 threads an exchange by MPI_Waitall()
 * took 4.4 times as long as by hand under MPICH, with holes 2.1 times, and with
 * windows of 64 requests instead of 256 from 0.6 to 1.2 times.
 *
 * A batch that is not tested before it stands in the list, without a crowd: two
 * switches for messages that are there.
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

#define WINDOW		64	/* requests of a test */
#define WINDOW_MOST	4096	/* and of one after others in vain */
#define GROWTH		8	/* of windows in vain */
#define FEW		8	/* of the ring, in a look */
#define HOLES		16	/* more than requests, before they are closed */
#define NOWHERE		(-1)	/* no more in the list: complete */
#define ABSENT		(-2)	/* not in the list, and not by a look */
#define BATCH_FEW	16	/* requests in the record itself */
#define SHARE		3	/* rest after a look, in looks, */
#define REST_MOST	(1 * UTIME_MS)	/* and at most */
#define SLICE		(20 * UTIME_US)
#define YIELD_AFTER	(10 * UTIME_US)
#define LATE		(500 * UTIME_US)	/* others compute */
#define DOZE		(20 * UTIME_US)
#define DOZES		64			/* after a yield that took LATE */
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
};

/* A request of a batch. */
struct entry {
	struct batch *e_batch;
	int           e_place;		/* M1 */
	int           e_error;		/* MPI's */
	MPI_Request   e_begun;		/* as it was before */
	MPI_Request   e_request;	/* while it is not in the list */
	MPI_Status    e_status;
};

/* Requests that a thread waits for. */
struct batch {
	struct record  b_record;	/* first */
	int            b_nr;
	int            b_left;		/* to complete before it goes on */
	struct entry  *b_entry;		/* of b_few, or from malloc() */
	struct entry   b_few[];
};

struct question {
	struct record    q_record;	/* first */
	struct question *q_next;	/* NULL: in no ring */
	struct question *q_prev;
	struct umpi_ask  q_ask;
};

/* Records whose waits have ended, in the order of their requests. */
struct claims {
	struct record *c_first, *c_last;
	int            c_nr;
};

/* The list of a processor, or of all workers of ws. */
struct umpi {
	struct uwait_source m_source;	/* first */
	struct umpi  *m_next;		/* of all, under all_lock */
	pthread_t     m_owner;		/* has made it */
	struct ulock  m_lock;
	int           m_nr;		/* in the list */
	int           m_from;		/* the first place that may be no hole */
	int           m_end;		/* behind the last place */
	int           m_room;
	int           m_at;		/* where the next window begins */
	MPI_Request  *m_request;
	struct entry **m_entry;
	struct question *m_first;	/* of the ring */
	utime_ns      m_rest;		/* no look before */
	utime_ns      m_since;		/* no event since, or 0 */
	int           m_dozes;		/* instead of the next yields */
	int           m_fresh;		/* a wait has begun (atomic) */
	int           m_vain;		/* m_skip after tries in vain (atomic) */
	int           m_skip;		/* waits without tries (atomic) */
	int           m_dry;		/* a test in vain since a look (atomic) */
	int           m_index[WINDOW_MOST];
	MPI_Status    m_status[WINDOW_MOST];
};

static struct ulock all_lock;
static struct umpi *all;		/* under all_lock */
static int level = -1;			/* of MPI; -1: it does not work */
static int wake_fd = -1;		/* under all_lock */
static int persists;			/* there are persistent requests (atomic) */

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

static bool ignored(const MPI_Status *status)
{
	return status == MPI_STATUS_IGNORE || status == MPI_STATUSES_IGNORE;
}

/* Asks MPI. Sets *error. True: there is an answer, or an error. */
static bool asked(struct umpi_ask *a, int *error)
{
	int flag = 0;

	umpi_silence(true);
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
	umpi_silence(false);
	return flag || *error != MPI_SUCCESS;
}

/* Does so for a request. */
static bool tested(MPI_Request *request, MPI_Status *status, int *error)
{
	int flag = 0;

	umpi_silence(true);
	*error = PMPI_Test(request, &flag, status);
	umpi_silence(false);
	return flag || *error != MPI_SUCCESS;
}

/* Returns whether the error of a call for many is in the status of each. */
static bool in_status(int rc)
{
	int class = rc;

	return rc != MPI_SUCCESS &&
		PMPI_Error_class(rc, &class) == MPI_SUCCESS &&
		class == MPI_ERR_IN_STATUS;
}

/* The list. Caller holds m_lock. */

/* Closes the holes. The order stays. */
static NOINLINE void list_close(struct umpi *m)
{
	int from, to = 0;

	for (from = m->m_from; from < m->m_end; from++)
		if (m->m_entry[from] != NULL) {
			m->m_request[to] = m->m_request[from];
			m->m_entry[to]   = m->m_entry[from];
			m->m_entry[to]->e_place = to;
			to++;
		}
	m->m_from = 0;
	m->m_end  = to;
}

/* Skips the holes in front, and closes the others if they are many. */
static void list_trim(struct umpi *m)
{
	while (m->m_from < m->m_end && m->m_entry[m->m_from] == NULL)
		m->m_from++;
	if (m->m_end - m->m_from > 2 * m->m_nr + HOLES)
		list_close(m);
}

/* Makes room for nr more. False: no memory. */
static bool list_room(struct umpi *m, int nr)
{
	int room = m->m_room > 0 ? m->m_room : WINDOW;
	MPI_Request *request;
	struct entry **entry;

	if (m->m_end + nr <= m->m_room)
		return true;
	list_close(m);
	if (2 * (m->m_nr + nr) <= m->m_room)
		return true;
	while (room < 2 * (m->m_nr + nr))
		room *= 2;
	request = realloc(m->m_request, room * sizeof *request);
	if (request == NULL)
		return false;
	m->m_request = request;
	entry = realloc(m->m_entry, room * sizeof *entry);
	if (entry == NULL)
		return false;
	m->m_entry = entry;
	m->m_room  = room;
	return true;
}

/* Puts e in the list, which has room. */
static void list_add(struct umpi *m, struct entry *e)
{
	m->m_request[m->m_end] = e->e_request;
	m->m_entry[m->m_end]   = e;
	e->e_place = m->m_end++;
	m->m_nr++;
}

/* Takes the entry at a place out, and leaves a hole. */
static void list_take(struct umpi *m, int place)
{
	struct entry *e = m->m_entry[place];

	e->e_request = m->m_request[place];
	e->e_place   = NOWHERE;
	m->m_request[place] = MPI_REQUEST_NULL;
	m->m_entry[place]   = NULL;
	if (--m->m_nr == 0)
		m->m_from = m->m_end = 0;
}

static void ring_add(struct umpi *m, struct question *q)
{
	struct question *first = m->m_first;

	if (first == NULL) {
		m->m_first = q->q_next = q->q_prev = q;
		return;
	}
	q->q_next = first;
	q->q_prev = first->q_prev;
	q->q_prev->q_next = first->q_prev = q;
}

static void ring_take(struct umpi *m, struct question *q)
{
	if (q->q_next == q)
		m->m_first = NULL;
	else if (m->m_first == q)
		m->m_first = q->q_next;
	q->q_next->q_prev = q->q_prev;
	q->q_prev->q_next = q->q_next;
	q->q_next = NULL;
}

/* Looking. */

/* Claims r, which is complete and in no list. Puts it behind the others. */
static void claim(struct record *r, int error, struct claims *c)
{
	r->o_error = error;
	if (!uwait_claim(&r->o_wait))
		return;			/* its thread finds it complete: M2 */
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
 * has waited for no other. Later completions only change the batch (M3).
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

bool umpi_beside(const char *call)
{
	char text[200];

	if (!umpi_here(call))
		return false;
	if (level < MPI_THREAD_MULTIPLE) {
		snprintf(text, sizeof text, "%s: would stop the threads beside "
			 "the caller, so another native thread makes this call, "
			 "which needs MPI_THREAD_MULTIPLE", call);
		usched_fail(text);
	}
	return true;
}

void umpi_persist(void)
{
	__atomic_store_n(&persists, 1, __ATOMIC_RELAXED);
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

/* Frees a record that waits for nothing. */
static void record_drop(struct record *r)
{
	(void)uwait_claim(&r->o_wait);
	uwait_free(r);
}

static void batch_free(struct batch *b, bool waited)
{
	if (b->b_entry != b->b_few)
		free(b->b_entry);
	if (waited)
		record_free(&b->b_record);
	else
		record_drop(&b->b_record);
}

static void entry_init(struct entry *e, struct batch *b, MPI_Request request)
{
	e->e_batch   = b;
	e->e_place   = NOWHERE;
	e->e_error   = MPI_SUCCESS;
	e->e_begun   = request;
	e->e_request = request;
}

/* Makes a batch of requests of the caller. NULL: no memory. */
static NOINLINE struct batch *batch_make(int nr, const MPI_Request request[],
					 bool sure, const struct umpi_why *why)
{
	size_t size = nr * sizeof(struct entry);
	bool few = nr <= BATCH_FEW;
	struct batch *b = record_make(sizeof *b + (few ? size : 0), why, sure);
	int i;

	if (b == NULL)
		return NULL;
	b->b_nr    = nr;
	b->b_entry = few ? b->b_few : malloc(size);
	if (b->b_entry == NULL) {
		record_drop(&b->b_record);
		return NULL;
	}
	for (i = 0; i < nr; i++)
		entry_init(&b->b_entry[i], b, request[i]);
	return b;
}

/* Returns whether a request is null, inactive or complete. */
static bool is_idle(MPI_Request request)
{
	int flag = request == MPI_REQUEST_NULL;
	MPI_Status status;

	if (flag || __atomic_load_n(&persists, __ATOMIC_RELAXED) == 0)
		return flag;
	umpi_silence(true);
	(void)PMPI_Request_get_status(request, &flag, &status);
	umpi_silence(false);
	return flag;
}

/* Puts the requests of b that are not idle in the list. Returns how many. */
static int list_batch(struct umpi *m, struct batch *b)
{
	int i, nr = 0;

	for (i = 0; i < b->b_nr; i++) {
		struct entry *e = &b->b_entry[i];

		if (is_idle(e->e_request) &&
		    tested(&e->e_request, &e->e_status, &e->e_error))
			e->e_place = ABSENT;			/* M4 */
		else {
			list_add(m, e);
			nr++;
		}
	}
	return nr;
}

/*
 * Queues b, which goes on after one of its requests, or after all. Returns how
 * many it waits for: if none, it is not queued. < 0: nor if there is no memory.
 */
static int batch_begin(struct batch *b, bool one)
{
	struct umpi *m = b->b_record.o_at;
	int nr = -1;

	uwait_source_begin(&m->m_source);
	ulock_get(&m->m_lock);
	if (list_room(m, b->b_nr)) {
		nr = list_batch(m, b);
		b->b_left = one && nr > 0 ? 1 : nr;
	}
	ulock_put(&m->m_lock);
	if (nr > 0)
		begins(m);
	else
		uwait_source_end(&m->m_source);
	return nr;
}

/*
 * Takes what is left of b out of the list, after a wait with a result. Returns
 * the result: 0, too, if a request is complete (M2).
 */
static int batch_take(struct batch *b, int rc)
{
	struct umpi *m = b->b_record.o_at;
	int i;

	ulock_get(&m->m_lock);
	for (i = 0; i < b->b_nr; i++)
		if (b->b_entry[i].e_place >= 0) {
			list_take(m, b->b_entry[i].e_place);
			b->b_entry[i].e_place = ABSENT;
		} else if (b->b_entry[i].e_place == NOWHERE)
			rc = 0;
	ulock_put(&m->m_lock);
	return rc;
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

/* Gives the caller what has become of its request. Returns the result. */
static NOINLINE int one_back(struct batch *b, int rc, MPI_Request *request,
			     MPI_Status *status)
{
	struct entry *e = &b->b_entry[0];

	if (rc != 0)
		rc = batch_take(b, rc);
	*request = e->e_request;
	if (rc == 0) {
		status_set(status, &e->e_status);
		rc = e->e_error;
	}
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
	struct umpi *m;
	bool done;
	int i;

	if (tested(request, status, rc))
		return true;
	m = umpi_of_caller();
	__atomic_store_n(&m->m_dry, 1, __ATOMIC_RELAXED);
	if (once || !may_try(m))
		return false;
	for (i = 0, done = false; i < TRIES && !done; i++)
		done = tested(request, status, rc);
	tried(m, !done);
	return done;
}

/*
 * Returns whether a test by the caller would do harm: see "THE CROWD". begun: of
 * a receive that has just begun.
 */
static bool is_crowded(bool begun)
{
	const struct umpi *m = umpi_of_caller();

	return __atomic_load_n(&m->m_source.o_waits, __ATOMIC_RELAXED) >= CROWD &&
		(begun || __atomic_load_n(&m->m_dry, __ATOMIC_RELAXED) != 0);
}

bool umpi_test(MPI_Request *request, int *rc)
{
	return !is_crowded(false) &&
		test_here(request, MPI_STATUS_IGNORE, true, rc);
}

/* Waits without memory for a record: lets others run between two tests. */
static NOINLINE int wait_poorly(MPI_Request *request, MPI_Status *status,
				utime_ns until)
{
	int rc;

	for (;;) {
		if (tested(request, status, &rc))
			return rc;
		if (until != UNEVER && until <= unow())
			return -ETIMEDOUT;
		(void)uwait_give_way();
	}
}

int umpi_wait(MPI_Request *request, MPI_Status *status, utime_ns until,
	      bool sure, const struct umpi_why *why)
{
	struct batch *b;
	int nr, rc;

	if ((until == UNOW || !is_crowded(why->y_receives)) &&
	    test_here(request, status, until == UNOW, &rc))
		return rc;
	if (until == UNOW)
		return -EAGAIN;
	b = batch_make(1, request, sure, why);
	if (b == NULL)
		return wait_poorly(request, status, until);
	nr = batch_begin(b, true);
	if (nr < 0) {
		record_drop(&b->b_record);
		return wait_poorly(request, status, until);
	}
	rc = nr > 0 ? uwait_for(&b->b_record.o_wait, until) : 0;
	rc = one_back(b, rc, request, status);
	batch_free(b, nr > 0);
	return rc;
}

/* Errors of a call for many. */

static void failed(struct umpi_ask *a, int code, MPI_Request begun)
{
	if (a->a_code != MPI_SUCCESS)
		return;
	a->a_code = code;
	a->a_comm = umpi_comm_of(begun);
}

/*
 * Sets a_code and a_comm after rc. begun: the requests as they were before, or
 * NULL. The code of each is in status, unless that is NULL.
 */
static NOINLINE void find_failed(struct umpi_ask *a, int rc,
				 const MPI_Request *begun,
				 const MPI_Status *status)
{
	int nr = a->a_kind == UMPI_SOME ? a->a_done : a->a_nr;
	int i, at;

	if (a->a_kind == UMPI_PROBE || a->a_kind == UMPI_MPROBE)
		return;
	if (begun != NULL && status != NULL && in_status(rc))
		for (i = 0; i < nr; i++) {
			at = a->a_kind == UMPI_SOME ? a->a_index[i] : i;
			if (status[i].MPI_ERROR != MPI_SUCCESS &&
			    status[i].MPI_ERROR != MPI_ERR_PENDING)
				failed(a, status[i].MPI_ERROR, begun[at]);
		}
	at = a->a_kind == UMPI_ANY && a->a_done >= 0 && a->a_done < a->a_nr ?
		a->a_done : 0;
	failed(a, rc, begun != NULL && a->a_nr > 0 ? begun[at] :
	       MPI_REQUEST_NULL);
}

/* Returns whether there is a status for each request. */
static bool has_each(const struct umpi_ask *a)
{
	return a->a_kind == UMPI_ALL || a->a_kind == UMPI_SOME;
}

/* Asks with a status for each request, and the requests as they were. */
static NOINLINE bool asked_noting(struct umpi_ask *a, int *rc)
{
	MPI_Request *begun = malloc(a->a_nr * (sizeof *begun +
					       sizeof(MPI_Status)) + 1);
	MPI_Status *own = (MPI_Status *)(begun + a->a_nr), *given = a->a_status;
	bool answer;

	if (begun == NULL)
		return asked(a, rc);
	memcpy(begun, a->a_request, a->a_nr * sizeof *begun);
	if (ignored(given) && has_each(a))
		a->a_status = own;
	answer = asked(a, rc);
	if (*rc != MPI_SUCCESS)
		find_failed(a, *rc, begun, has_each(a) ? a->a_status : NULL);
	a->a_status = given;
	free(begun);
	return answer;
}

/* Asks MPI for the caller, with its own arrays. */
static bool asked_here(struct umpi_ask *a, int *rc)
{
	bool answer;

	if (a->a_nr > 0 && umpi_notes())
		return asked_noting(a, rc);
	answer = asked(a, rc);
	if (*rc != MPI_SUCCESS)
		find_failed(a, *rc, NULL, NULL);
	return answer;
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
	return ignored(a->a_status) ? 0 :
		(has_each(a) ? a->a_nr : 1) * sizeof *a->a_status;
}

/* Gives q a copy of a, with arrays on the heap. False: no memory. */
static bool ask_copy(struct question *q, const struct umpi_ask *a)
{
	char *block = malloc(request_size(a) + index_size(a) +
			     status_size(a) + 1);

	if (block == NULL)
		return false;
	q->q_ask = *a;
	q->q_ask.a_request = (MPI_Request *)block;
	if (a->a_nr > 0)
		memcpy(block, a->a_request, request_size(a));
	block += request_size(a);
	if (status_size(a) > 0)
		q->q_ask.a_status = memcpy(block, a->a_status, status_size(a));
	block += status_size(a);
	q->q_ask.a_index = (int *)block;
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

static NOINLINE struct question *question_begin(const struct umpi_ask *a,
						bool sure,
						const struct umpi_why *why)
{
	struct question *q = record_make(sizeof *q, why, sure);
	struct umpi *m;

	if (q == NULL)
		return NULL;
	if (!ask_copy(q, a)) {
		record_drop(&q->q_record);
		return NULL;
	}
	m = q->q_record.o_at;
	uwait_source_begin(&m->m_source);
	ulock_get(&m->m_lock);
	ring_add(m, q);
	ulock_put(&m->m_lock);
	begins(m);
	return q;
}

/* Sets a_code and a_comm after rc, by a copy that has asked for a. */
static void find_failed_in(struct umpi_ask *a, int rc, struct umpi_ask *copy)
{
	if (rc == MPI_SUCCESS)
		return;
	find_failed(copy, rc, a->a_request, status_size(a) > 0 && has_each(a) ?
		    copy->a_status : NULL);
	a->a_code = copy->a_code;
	a->a_comm = copy->a_comm;
}

static NOINLINE int question_end(struct question *q, int rc, struct umpi_ask *a)
{
	struct umpi *m = q->q_record.o_at;

	if (rc != 0) {
		ulock_get(&m->m_lock);
		if (q->q_next != NULL)
			ring_take(m, q);
		else
			rc = 0;				/* M2 */
		ulock_put(&m->m_lock);
	}
	if (rc == 0) {
		rc = q->q_record.o_error;
		find_failed_in(a, rc, &q->q_ask);
		ask_back(a, &q->q_ask, true);
	} else
		ask_back(a, &q->q_ask, false);
	free(q->q_ask.a_request);
	record_free(&q->q_record);
	return rc;
}

/* Gives a what has become of the requests of b, which are complete. */
static int all_back(struct umpi_ask *a, const struct batch *b)
{
	int i;

	for (i = 0; i < b->b_nr; i++) {
		const struct entry *e = &b->b_entry[i];

		a->a_request[i] = e->e_request;
		if (!ignored(a->a_status))
			status_set(&a->a_status[i], &e->e_status);
		if (e->e_error != MPI_SUCCESS)
			failed(a, e->e_error, e->e_begun);
	}
	if (a->a_code == MPI_SUCCESS)
		return MPI_SUCCESS;
	for (i = 0; !ignored(a->a_status) && i < b->b_nr; i++)
		a->a_status[i].MPI_ERROR = b->b_entry[i].e_error;
	return MPI_ERR_IN_STATUS;
}

/* Does so for those that are complete. */
static int some_back(struct umpi_ask *a, const struct batch *b)
{
	int i, k, nr = 0;

	for (i = 0; i < b->b_nr; i++) {
		const struct entry *e = &b->b_entry[i];

		a->a_request[i] = e->e_request;
		if (e->e_place != NOWHERE)
			continue;
		if (!ignored(a->a_status))
			status_set(&a->a_status[nr], &e->e_status);
		if (e->e_error != MPI_SUCCESS)
			failed(a, e->e_error, e->e_begun);
		a->a_index[nr++] = i;
	}
	a->a_done = nr;
	if (a->a_code == MPI_SUCCESS)
		return MPI_SUCCESS;
	for (k = 0; !ignored(a->a_status) && k < nr; k++)
		a->a_status[k].MPI_ERROR = b->b_entry[a->a_index[k]].e_error;
	return MPI_ERR_IN_STATUS;
}

/* Waits in the list. False: no memory, nothing has happened. */
static NOINLINE bool wait_listed(struct umpi_ask *a, utime_ns until, bool sure,
				 const struct umpi_why *why, int *rc)
{
	bool some = a->a_kind == UMPI_SOME;
	struct batch *b = batch_make(a->a_nr, a->a_request, sure, why);
	int nr;

	if (b == NULL)
		return false;
	nr = batch_begin(b, some);
	*rc = 0;
	if (nr > 0)
		*rc = uwait_for(&b->b_record.o_wait, until);
	if (nr > 0 && (some || *rc != 0))
		*rc = batch_take(b, *rc);
	if (nr >= 0 && *rc == 0)
		*rc = some ? some_back(a, b) : all_back(a, b);
	batch_free(b, nr > 0);
	return nr >= 0;
}

/* Returns whether a wait for a stands in the list. */
static bool is_listed(const struct umpi_ask *a, bool sure)
{
	if (a->a_kind == UMPI_ALL)
		return sure;
	return a->a_kind == UMPI_SOME &&
		__atomic_load_n(&persists, __ATOMIC_RELAXED) == 0;
}

int umpi_ask(struct umpi_ask *a, utime_ns until, bool sure,
	     const struct umpi_why *why)
{
	bool listed = is_listed(a, sure);
	struct question *q;
	int rc;

	a->a_code = MPI_SUCCESS;
	if (listed && a->a_kind == UMPI_ALL && is_crowded(true) &&
	    wait_listed(a, until, sure, why, &rc))
		return rc;
	for (;;) {
		if (asked_here(a, &rc))
			return rc;
		if (until == UNOW)
			return -EAGAIN;
		if (listed && wait_listed(a, until, sure, why, &rc))
			return rc;
		q = listed ? NULL : question_begin(a, sure, why);
		if (q != NULL)
			break;
		if (until != UNEVER && until <= unow())
			return -ETIMEDOUT;
		(void)uwait_give_way();		/* no memory: test it here */
	}
	rc = uwait_for(&q->q_record.o_wait, until);
	return question_end(q, rc, a);
}

/* Waits with a deadline. */

/* Asks again and again, for a native thread. */
static int ask_natively(struct umpi_ask *a, utime_ns until)
{
	int rc;

	while (!asked_here(a, &rc)) {
		if (until == UNOW)
			return -EAGAIN;
		if (until != UNEVER && until <= unow())
			return -ETIMEDOUT;
		(void)sched_yield();
	}
	return rc;
}

/* Calls the handler of the error that a has, if any. */
static int raise_of(struct umpi_ask *a, int rc, const char *call)
{
	if (rc > 0)
		(void)umpi_raise(call, a->a_comm, a->a_code != MPI_SUCCESS ?
				 a->a_code : rc);
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
	a->a_code = MPI_SUCCESS;
	return raise_of(a, umpi_here(call) ? umpi_ask(a, until, false, &why) :
			ask_natively(a, until), call);
}

int u_mpi_wait(MPI_Request *request, MPI_Status *status, utime_ns until)
{
	static const struct umpi_why why = { .y_call = "u_mpi_wait",
					     .y_peer = UMPI_NO_PEER };
	struct umpi_ask a = {
		.a_kind = UMPI_ANY, .a_nr = 1, .a_request = request,
		.a_status = status
	};

	MPI_Request begun = *request;
	int rc;

	if (until < 0)
		return -EINVAL;
	if (!umpi_here("u_mpi_wait")) {
		a.a_code = MPI_SUCCESS;
		return raise_of(&a, ask_natively(&a, until), why.y_call);
	}
	rc = umpi_wait(request, status, until, false, &why);
	return rc > 0 ? umpi_raise(why.y_call, umpi_comm_of(begun), rc) : rc;
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

/* Returns whether e is the first of its batch that is in the list. */
static bool is_first(const struct entry *e)
{
	const struct entry *at = e->e_batch->b_entry;

	while (at->e_place < 0)
		at++;
	return at == e;
}

static long print_of(int fd, struct umpi *m)
{
	struct question *q;
	long nr = 0;
	int i;

	ulock_get(&m->m_lock);
	for (i = m->m_from; i < m->m_end; i++)
		if (m->m_entry[i] != NULL && is_first(m->m_entry[i])) {
			print(fd, &m->m_entry[i]->e_batch->b_record);
			nr++;
		}
	q = m->m_first;
	if (q != NULL)
		do {
			print(fd, &q->q_record);
			nr++;
		} while ((q = q->q_next) != m->m_first);
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
