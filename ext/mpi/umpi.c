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
 * request in the list of its processor. The processor tests requests of the list
 * at its looks, and ends the waits whose requests are complete.
 *
 * PARTS
 *
 * This file has what uprofile.c and programs call. It includes its parts, because a
 * wait runs through most of them, and programs are compiled with this file by name.
 * Each part includes the part below, and calls only what is below:
 *
 *	question.h	calls for many requests, and probes
 *	batch.h		how a thread waits for its requests, and what it tests before
 *	look.h		how a processor tests requests, rests, sleeps and naps
 *	requests.h	the list and the ring of a processor; questions to MPI
 *
 * Invariants are where they are kept: requests M1 to M4, look M5.
 *
 * REJECTED
 *
 * A receive for any message, which a table then gives to the thread that wants
 * it, would be faster than the lists of MPI if many threads receive. But it
 * takes messages that a receive of the program, posted later, has a right to.
 *
 * u_mpi_recv() by PMPI_Irecv(), and PMPI_Cancel() at the deadline. If another
 * native thread makes progress at this moment, Open MPI 4.1.4 may say that the
 * request was cancelled although a message was matched, and the message is
 * lost: in 1 of 4 runs of test/ext/mpi/calls.c with 2 processors and 4 ranks.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "progress.h"
#include "question.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

UPREEMPT_NEVER;

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

bool umpi_test(MPI_Request *request, int *rc)
{
	return !is_crowded(false) &&
		test_here(request, MPI_STATUS_IGNORE, true, rc);
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
