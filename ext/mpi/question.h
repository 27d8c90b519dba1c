/* SPDX-License-Identifier: MIT */
/* question.h: calls for many requests, and probes. A part of umpi.c. */

#ifndef UMPI_QUESTION_H
#define UMPI_QUESTION_H

/*
 * A call for many requests asks MPI with the arrays of its caller first. If it has
 * to wait, it waits as a batch (batch.h), or as a question.
 *
 * Three kinds of waits are questions, which stand in a ring, and each is a call:
 * probes; MPI_Waitany(), since of several requests that are complete it takes
 * one, and the others must stay what they are; and u_mpi_waitall(), which may
 * end early, and then none may be complete.
 *
 * A question asks with copies on the heap. When it is answered, its thread gives
 * its caller what they have.
 *
 * ERRORS. The first request that has failed gives a_code and a_comm: an error calls
 * the handler of its communicator. MPI makes a complete request MPI_REQUEST_NULL,
 * so a call for many copies its requests before. It does so only if the program has
 * set a handler: umpi_notes().
 *
 * REJECTED
 *
 * MPI_Probe() by PMPI_Improbe(), so that the message is reserved: a program may
 * let another thread receive it, and that receive would not find it.
 */

#include "batch.h"

#include <string.h>

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
			rc = 0;				/* requests M2 */
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

/* Gives a what has become of those requests of b that are complete. */
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

#endif /* UMPI_QUESTION_H */
