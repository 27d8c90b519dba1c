/* SPDX-License-Identifier: MIT */
/* parcels.h: messages between ranks, and how they are sent. A part of ranks.c. */

#ifndef RANKS_PARCELS_H
#define RANKS_PARCELS_H

/*
 * Nothing waits to send: a parcel is what umove_pack() or umove_send() has put into
 * memory, and stays in the list outbox until MPI has sent it. So a thread decides
 * where a parcel goes, and gives it to MPI, without a switch in between. And receive()
 * can always receive, so no two ranks wait for each other.
 *
 * A message is sent as at most two of MPI: its first AT_ONCE bytes, and the rest.
 *
 * REJECTED
 *
 *   - A receive for each kind of message: a thread and the mail that follows must
 *     not overtake each other.
 */

#include "ranks.h"
#include "umove_inside.h"

#include <stdlib.h>
#include <string.h>

#define AT_ONCE		4096	/* bytes of a message; the rest follows */

enum { TAG, TAG_REST };
enum kind { MAIL, THREAD, PLACE, STOP };

struct message {
	uint32_t ms_kind;
	int32_t  ms_rank;	/* MAIL: has sent it first; PLACE: is there */
	uint64_t ms_nob;	/* bytes behind this */
	int64_t  ms_number;	/* THREAD, PLACE: of the thread */
	uint64_t ms_moves;	/* of the thread; MAIL: followed by the letter */
	struct umove_letter ms_letter;
};

/* A message that is kept, until it is sent or can be sent. */
struct parcel {
	struct parcel *pc_next;
	MPI_Request    pc_request[2];	/* the second: the rest */
	struct message pc_message;
	char           pc_bytes[];
};

static MPI_Comm comm = MPI_COMM_NULL;
static int own, ranks;
static int64_t sent_nr, received_nr;	/* cut K4 */

static struct parcel *outbox, **outbox_last = &outbox;

static NOINLINE void no_memory(void)
{
	usched_fail("umpi_move: no memory for what has come from another rank");
}

/* Frees the oldest of the outbox that MPI has sent: at most two. */
static void sweep(void)
{
	MPI_Status status[2];
	int i, done = 1;

	for (i = 0; i < 2 && outbox != NULL && done; i++) {
		struct parcel *p = outbox;

		(void)PMPI_Testall(2, p->pc_request, &done, status);
		if (!done)
			return;
		outbox = p->pc_next;
		if (outbox == NULL)
			outbox_last = &outbox;
		free(p);
	}
}

/* Gives p to MPI, and takes it over. */
static void post(struct parcel *p, int rank)
{
	size_t nob = sizeof p->pc_message + p->pc_message.ms_nob;
	size_t first = nob < AT_ONCE ? nob : AT_ONCE;
	char *bytes = (char *)&p->pc_message;

	sent_nr++;
	p->pc_request[1] = MPI_REQUEST_NULL;
	(void)PMPI_Isend(bytes, (int)first, MPI_BYTE, rank, TAG, comm,
			 &p->pc_request[0]);
	if (nob > first)
		(void)PMPI_Isend(bytes + first, (int)(nob - first), MPI_BYTE,
				 rank, TAG_REST, comm, &p->pc_request[1]);
	p->pc_next   = NULL;
	*outbox_last = p;
	outbox_last  = &p->pc_next;
	sweep();
}

/* Returns a parcel with a message and bytes, or NULL. */
static struct parcel *parcel_make(const struct message *m, const void *bytes)
{
	struct parcel *p = malloc(sizeof *p + m->ms_nob);

	if (p == NULL)
		return NULL;
	p->pc_message = *m;
	if (m->ms_nob > 0)
		memcpy(p->pc_bytes, bytes, m->ms_nob);
	return p;
}

#endif /* RANKS_PARCELS_H */
