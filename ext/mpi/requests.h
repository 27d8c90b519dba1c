/* SPDX-License-Identifier: MIT */
/* requests.h: the requests of a processor, which threads wait for. A part of umpi.c. */

#ifndef UMPI_REQUESTS_H
#define UMPI_REQUESTS_H

/*
 * THE LIST
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
 * THE RING
 *
 * Waits that are a call each stand in a ring: see question.h.
 *
 * The records and all that MPI writes - requests, status, indices - are on the
 * heap (see the first law in uwait.h). The thread copies them to where its
 * caller wants them after it has been resumed. Buffers: see stay.h.
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
 *
 * REJECTED
 *
 * A list in which the last request takes the place of a complete one, without
 * holes: threads lose their order, and MPI searches a quarter of its list for each
 * message. With 1,000 threads an exchange by MPI_Waitall()
 * took 4.4 times as long as by hand under MPICH, with holes 2.1 times, and with
 * windows of 64 requests instead of 256 from 0.6 to 1.2 times.
 */

#include "progress.h"
#include "lock.h"
#include "compiler.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#define WINDOW		64	/* requests of a test */
#define WINDOW_MOST	4096	/* requests of a test after others in vain */
#define HOLES		16	/* more than requests, before they are closed */
#define NOWHERE		(-1)	/* no more in the list: complete */
#define ABSENT		(-2)	/* not in the list, and not by a look */

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

/* Tests a request. Sets *error. True: it is complete, or there is an error. */
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

#endif /* UMPI_REQUESTS_H */
