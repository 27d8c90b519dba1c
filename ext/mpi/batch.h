/* SPDX-License-Identifier: MIT */
/* batch.h: how a thread waits for its requests. A part of umpi.c. */

#ifndef UMPI_BATCH_H
#define UMPI_BATCH_H

/*
 * A thread that would block tests its request. If that is in vain, it puts a batch
 * into the list of its processor, and waits.
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
 * for the slice (uwait A4), the thread tests the request itself, and lets
 * others run between two tests.
 *
 * REJECTED
 *
 * Records and slices that are reserved before the request begins: MPI_Wait()
 * gets a request that has begun, and a message that is there at once would pay
 * for a record.
 *
 * A batch that is not tested before it stands in the list, without a crowd: two
 * switches for messages that are there.
 */

#include "look.h"

#define BATCH_FEW	16	/* requests in the record itself */
#define TRIES		64
#define CROWD		64	/* waits */

static int persists;			/* there are persistent requests (atomic) */

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
			e->e_place = ABSENT;			/* requests M4 */
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
 * the result: 0, too, if a request is complete
 * (requests M2).
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

#endif /* UMPI_BATCH_H */
