/* SPDX-License-Identifier: MIT */
/* ranks.c: threads that move between ranks of MPI. */

/*
 * OVERVIEW
 *
 *	rank A						rank B
 *	thread: umpi_move(B)				receive(), a thread
 *	  umove_pack() --> parcel --> PMPI_Isend() -->    MPI_Recv()
 *	  umove_leave(), ustack_abort()			  umove_arrive()
 *	thread: umove_send() -> parcel --> ...		  umove_deliver()
 *
 * Each rank has a thread that receives all that comes, by ext/mpi/. All that leaves
 * a rank is a parcel, and no thread waits until MPI has sent it.
 *
 * PARTS
 *
 * This file has what programs and umove_far call, the moves, and the thread that
 * receives. It includes its parts, because all of them have the same few words: the
 * communicator, the rank, and the counts of messages. Each part includes the part
 * below, and calls only what is below:
 *
 *	cut.h		when all ranks are quiet; the files of a save
 *	spots.h		where threads are, and how mail finds them
 *	parcels.h	messages between ranks, and how they are sent
 *
 * NO MEMORY is an error of umpi_move(), umove_send() and umove_make(). A
 * thread or letter from another rank cannot be refused, so then the program ends.
 *
 * Invariants are where they are kept: spots K1 to K3, cut K4. spots.h and
 * parcels.h have lists of what was rejected.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "ranks.h"
#include "umove_inside.h"
#include "cut.h"

#include "uproc.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

UPREEMPT_NEVER;

static bool on;				/* from umpi_init() to the end */
static bool ending;			/* umpi_end() was called */

/* Where receive() receives, as a parcel. */
static union {
	struct parcel pa_parcel;
	char          pa_bytes[sizeof(struct parcel) + AT_ONCE];
} arrived;

/*
 * THREADS THAT ARE HERE
 */

static int far_send(const struct umove_letter *l, const void *bytes)
{
	struct message m = { .ms_kind = MAIL, .ms_rank = own,
			     .ms_nob = l->le_nob, .ms_letter = *l };
	struct parcel *p = on ? parcel_make(&m, bytes) : NULL;

	if (p == NULL)
		return on ? -ENOMEM : -ESRCH;
	carry(p);
	return 0;
}

static int far_make(void)
{
	if (on && (!ending || umove_mine() != NULL))
		return 0;
	usched_message("umove_make: umpi_end() was called in this rank: from then on "
		       "only threads of umove_make() make others");
	return -EINVAL;
}

static int far_room(void)
{
	if (!on)
		return -EINVAL;
	return spots_room() ? 0 : -ENOMEM;
}

static void far_here(long number)
{
	note(number, 1, own);
}

/* The home gives the number again. */
static void far_ended(long number)
{
	uint64_t moves = spot_at(number)->sp_moves + 1;	/* spots K1 */

	note(number, moves, ENDED);
	if (home_of(number) == own)
		umove_number_put(number);
	else if (!tell(home_of(number), number, moves, ENDED))
		no_memory();
}

static const struct umove_far far = {
	.fa_send = far_send, .fa_make = far_make, .fa_room = far_room,
	.fa_here = far_here, .fa_ended = far_ended
};

/*
 * MOVES
 */

/* Sends t, the caller, whose bytes follow a parcel and a program. */
static NOINLINE void leave_to(struct umove_thread *t, int rank)
{
	struct umove_program *program = (struct umove_program *)t->th_bytes - 1;
	struct parcel *p = (struct parcel *)program - 1;
	uint64_t moves = spot_at(t->th_number)->sp_moves + 1;	/* spots K1 */
	int home = home_of(t->th_number);

	*program = umove_program;
	p->pc_message = (struct message) {
		.ms_kind = THREAD, .ms_number = t->th_number, .ms_moves = moves,
		.ms_nob  = sizeof *program + umove_head_nob(t->th_bytes)
	};
	post(p, rank);
	note(t->th_number, moves, rank);
	if (home != own && home != rank &&
	    !tell(home, t->th_number, moves, rank))
		no_memory();
	umove_leave(t);
	ustack_abort();
}

/* umove V1: nothing of a frame that has packed is used. */
static NOINLINE int came(void)
{
	return umove_point() == 1;
}

int umpi_move(int rank)
{
	struct umove_thread *t = umove_caller("umpi_move");
	int rc;

	if (t == NULL || !on || rank < 0 || rank >= ranks)
		return -EINVAL;
	if (umove_box(t) > INT_MAX / 2)
		return -EMSGSIZE;
	if (rank == own)
		return came();
	rc = umove_pack(t, "umpi_move", sizeof(struct parcel) +
			sizeof(struct umove_program), true);
	if (rc == 1)
		return came();
	if (rc != 0)
		return rc;
	leave_to(t, rank);
	return 0;			/* not reached */
}

static void thread_arrives(const struct message *m, const void *bytes)
{
	if (umove_import(bytes, m->ms_nob) != 0)
		usched_fail("umpi_move: a thread cannot arrive: no memory, or the "
			    "ranks have different lanes");
	note(m->ms_number, m->ms_moves, own);
}

/*
 * WHAT COMES
 */

/* Returns false at the end. */
static bool handle(const struct parcel *p)
{
	const struct message *m = &p->pc_message;
	struct parcel *copy;

	switch (m->ms_kind) {
	case MAIL:
		copy = parcel_make(m, p->pc_bytes);
		if (copy == NULL)
			no_memory();
		carry(copy);
		break;
	case THREAD:
		thread_arrives(m, p->pc_bytes);
		break;
	case PLACE:
		note(m->ms_number, m->ms_moves, m->ms_rank);
		if (m->ms_rank == ENDED)
			umove_number_put(m->ms_number);
		break;
	}
	received_nr++;
	return m->ms_kind != STOP;
}

/* Receives the rest of a message that is longer than AT_ONCE. */
static struct parcel *rest_receive(const struct message *m, int rank)
{
	struct parcel *p = malloc(sizeof *p + m->ms_nob);
	size_t nob = sizeof *m + m->ms_nob;

	if (p == NULL)
		no_memory();
	memcpy(&p->pc_message, m, AT_ONCE);
	(void)MPI_Recv((char *)&p->pc_message + AT_ONCE, (int)(nob - AT_ONCE),
		       MPI_BYTE, rank, TAG_REST, comm, MPI_STATUS_IGNORE);
	return p;
}

static void receive(void *unused)
{
	struct message *m = &arrived.pa_parcel.pc_message;
	bool more = on;
	MPI_Status status;

	(void)unused;
	while (more) {
		struct parcel *p = &arrived.pa_parcel;

		(void)MPI_Recv(m, AT_ONCE, MPI_BYTE, MPI_ANY_SOURCE, TAG, comm,
			       &status);
		if (sizeof *m + m->ms_nob > AT_ONCE)
			p = rest_receive(m, status.MPI_SOURCE);
		more = handle(p);
		if (p != &arrived.pa_parcel)
			free(p);
	}
}

/*
 * BEGINNING AND END
 */

/* Do all ranks run the same program? */
static bool same_program(void)
{
	struct umove_program own_program = umove_program, first = umove_program;
	int differs, any = 1;

	(void)MPI_Bcast(&first, (int)sizeof first, MPI_BYTE, 0, comm);
	differs = memcmp(&first, &own_program, sizeof first) != 0;
	(void)MPI_Allreduce(&differs, &any, 1, MPI_INT, MPI_MAX, comm);
	if (differs)
		(void)umove_is_ours("umpi_init", &first);
	return !any;
}

int umpi_init(struct usched *s, MPI_Comm with, size_t heap)
{
	int rc;

	if (comm != MPI_COMM_NULL)
		return -EBUSY;
	(void)MPI_Comm_dup(with, &comm);
	(void)MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
	(void)MPI_Comm_rank(comm, &own);
	(void)MPI_Comm_size(comm, &ranks);
	rc = all_can(umove_init(s, own, ranks, heap));
	if (rc == 0 && !same_program())
		rc = -ENOTSUP;
	if (rc == 0)
		rc = all_can(uproc_make((struct uproc *)s, receive, NULL, 0) !=
			     NULL ? 0 : -ENOMEM);
	if (rc != 0) {
		umpi_fini();
		return rc;
	}
	umove_far = &far;
	on = true;
	return 0;
}

void umpi_fini(void)
{
	MPI_Status status[2];

	umove_far = NULL;
	umove_fini();
	while (outbox != NULL) {
		struct parcel *p = outbox;

		(void)MPI_Waitall(2, p->pc_request, status);
		outbox = p->pc_next;
		free(p);
	}
	outbox_last = &outbox;
	spots_free();
	if (comm != MPI_COMM_NULL)
		(void)MPI_Comm_free(&comm);
	sent_nr = received_nr = given = 0;
	on = ending = false;
}

/* Returns whether the caller may make a collective call. */
static bool may(const char *call)
{
	return on && umove_ready(call) && umove_mine() == NULL;
}

int umpi_end(void)
{
	struct message stop = { .ms_kind = STOP };
	struct parcel *p;
	int rc;

	if (!may("umpi_end"))
		return -EINVAL;
	ending = true;
	rc = quiet(umove_none);
	p  = parcel_make(&stop, NULL);
	rc = all_can(p == NULL ? -ENOMEM : rc);
	if (rc != 0) {
		ending = false;
		free(p);
		return rc;
	}
	on = false;
	post(p, own);
	return 0;
}

/*
 * SAVES AND LOADS
 */

long umpi_save(const char *path)
{
	int begun;
	long rc;

	if (path == NULL || !may("umpi_save"))
		return -EINVAL;
	(void)all_can(0);		/* so that no rank begins early */
	begun = umove_save_begin();
	rc = all_can(begun);
	if (begun != 0)
		return rc;
	if (rc == 0)
		rc = quiet(umove_save_wait);
	if (rc == 0)
		rc = all_put(path);
	umove_save_end();
	return rc;
}

long umpi_load(const char *path)
{
	struct top top;
	int rc;

	if (path == NULL || !may("umpi_load"))
		return -EINVAL;
	rc = all_can(!umove_shares("umpi_load") ? -ENOTSUP :
		     spots_nr > 0 ? -EBUSY : 0);
	if (rc == 0)
		rc = top_get(path, &top);
	if (rc == -EBADMSG)
		usched_message("umpi_load: the file %s: it is no whole file of "
			       "umpi_save()", path);
	if (rc != 0)
		return rc;
	umove_gate(true);
	rc = all_can(files_load(path, &top));
	if (rc == 0) {
		umove_each(home_tell);
		given = (int64_t)top.to_numbers;
		(void)umove_numbers((long)top.to_numbers);
		rc = quiet(no_wait);
	} else
		umove_drop_all();
	umove_gate(false);
	if (rc == 0)
		return (long)top.to_threads;
	spots_free();
	return rc;
}
