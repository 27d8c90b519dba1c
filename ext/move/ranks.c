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
 * Each rank has a thread that receives all that comes, by ext/mpi/. Nothing waits to
 * send: a parcel is what umove_pack() or umove_send() has put into memory, and
 * stays in the list outbox until MPI has sent it. So a thread decides where a
 * parcel goes, and gives it to MPI, without a switch in between. And receive()
 * can always receive, so no two ranks wait for each other.
 *
 * WHERE A THREAD IS. Each rank has a table of spots, by the place of the number.
 * A spot says where a thread was last known to be, and after how many moves:
 *
 *	rank A: thread 7 is at B, after 3 moves
 *	rank B: thread 7 is at D, after 5 moves
 *	rank D: thread 7 is here, after 5 moves
 *
 * A rank that a thread leaves notes where to. So mail may be sent to any rank that
 * knew the thread: it follows the spots, the moves grow with each step, and it
 * comes to the thread. A letter says how many moves it has followed. If that is
 * more than the spot of the rank has, the thread is still under way to that rank,
 * and the letter waits in the spot (K2).
 *
 * A rank that has sent on a letter tells the rank where the letter was sent first.
 * So the next goes straight. A rank that knows nothing of a thread sends to its
 * home: the rank that gives its number, place % ranks. Each move tells the home.
 * If the home knows nothing either, the thread has not been made yet, and its
 * mail waits in the spot.
 *
 * A spot stays when the thread has ended, so that late letters are dropped. The
 * home gives the place to another thread, whose number is larger by UMOVE_AGAIN,
 * and takes over the spot everywhere.
 *
 * Letters of a thread to another may take different ways, and overtake each
 * other. umail.c puts them in order.
 *
 * A SAVE is a cut: all threads are at points, and nothing is under way. Each rank
 * counts what it has sent and received, without the calls that follow here. Each
 * waits until its own threads are at points, then all add up their counts. If
 * what was received by the first time equals what was sent by the second time,
 * nothing was under way between the two (Mattern's four counters). Until then the
 * threads that arrive come to points as well.
 *
 * Then each rank writes its file, and all agree that each is whole. Then rank 0
 * writes the head, which names the ranks and the serial number of the save. Files
 * of odd and even serials have different names. So a job that is killed at any
 * moment leaves a head whose files are whole.
 *
 * A LOAD deals files to ranks: rank r of n reads the files r, r + n, ... If the
 * ranks are more than the files, several read a file, and each takes a part of
 * its threads. These wait at a gate until all ranks have loaded, since a failure
 * anywhere must stop them. A thread that is not at its home then tells the home,
 * before the gate opens. So the home knows of each thread that was saved, and of all
 * others whose numbers were given before the save it knows that they have ended.
 * Their mail is dropped, as if their spots had been saved.
 *
 * THE END is found as a save is, but waits until no threads are left. From the
 * call of umpi_end() on only threads that are left can make others in a rank. If
 * any thread of the scheduler could, it might do so after the rank was counted.
 *
 * NO MEMORY is an error of umpi_move(), umove_send() and umove_make(). A
 * thread or letter from another rank cannot be refused, so then the program ends.
 *
 * INVARIANTS
 *
 * K1. A spot of a thread that is here says so, and its moves are those of the
 *     thread. So a thread can leave and end without memory.
 * K2. If a spot says that a thread is at a rank after so many moves, that rank has
 *     a spot with as many moves or more, or will have when the thread arrives.
 *     Then note() sends on what waits there.
 * K3. Between a look at a spot and the call of PMPI_Isend() nothing blocks. MPI_Isend()
 *     of ext/mpi/ would not either, but MPI_Test() gives way.
 * K4. sent_nr is counted when MPI gets a message, received_nr when all that follows from
 *     the message has been given to MPI.
 *
 * REJECTED
 *
 *   - All mail by the home: twice the messages, and the home waits for each move.
 *   - A question to the home before each letter: the answer is old when it comes.
 *   - Windows of MPI for spots: each move would be a put to all ranks, or wait.
 *   - A receive for each kind of message: a thread and the mail that follows must
 *     not overtake each other.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "ranks.h"
#include "umove_inside.h"

#include "uproc.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

UPREEMPT_NEVER;

#define NOINLINE	__attribute__((noinline))
#define AT_ONCE		4096	/* bytes of a message; the rest follows */
#define SPOTS_FEW	64
#define FREE		(-1)	/* sp_number: no spot */

enum { TAG, TAG_REST };
enum kind { MAIL, THREAD, PLACE, STOP };
/* sp_rank, if it is none. */
enum { ENDED = -1, NOT_MADE = -2 };

struct message {
	uint32_t ms_kind;
	int32_t  ms_rank;	/* MAIL: has sent it first; PLACE: is there */
	uint64_t ms_nob;	/* bytes behind this */
	int64_t  ms_number;	/* THREAD, PLACE */
	uint64_t ms_moves;	/* and after how many; MAIL: has followed */
	struct umove_letter ms_letter;
};

/* A message that is kept, until it is sent or can be sent. */
struct parcel {
	struct parcel *pc_next;
	MPI_Request    pc_request[2];	/* the second: the rest */
	struct message pc_message;
	char           pc_bytes[];
};

/* Where a thread is, or was when this rank heard of it. */
struct spot {
	int64_t  sp_number;
	uint64_t sp_moves;
	int32_t  sp_rank;
	struct parcel *sp_first, **sp_last;	/* mail that waits for news */
};

/* What ranks add up: those of all, and how many have failed, by reason. */
struct sums {
	int64_t su_sent;
	int64_t su_received;
	int64_t su_threads;
	int64_t su_failed;
};

/* The head of a save. */
struct top {
	uint64_t to_magic;
	uint64_t to_serial;
	uint64_t to_files;
	uint64_t to_threads;
	uint64_t to_numbers;
};

#define MAGIC	0x31736b6e6172u		/* "ranks1" */

static MPI_Comm comm = MPI_COMM_NULL;
static int own, ranks;
static bool on;				/* from umpi_init() to the end */
static bool ending;			/* umpi_end() was called */
static int64_t sent_nr, received_nr;	/* K4 */
static int64_t given;			/* by a load: places that were given before */

static struct parcel *outbox, **outbox_last = &outbox;

static struct spot *spots;		/* a hash table */
static size_t spot_slots;		/* a power of two, or 0 */
static size_t spots_nr;

/* Where receive() receives, as a parcel. */
static union {
	struct parcel pa_parcel;
	char          pa_bytes[sizeof(struct parcel) + AT_ONCE];
} arrived;

static NOINLINE void no_memory(void)
{
	usched_fail("umpi_move: no memory for what has come from another rank");
}

/*
 * PARCELS
 */

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

/*
 * SPOTS
 */

static int home_of(int64_t number)
{
	return (int)(umove_place(number) % ranks);
}

/* Returns the spot of a place, or where it would be. */
static struct spot *spot_at(int64_t number)
{
	size_t i = umove_slot(umove_place(number), spot_slots);

	while (spots[i].sp_number != FREE &&
	       umove_place(spots[i].sp_number) != umove_place(number))
		i = (i + 1) & (spot_slots - 1);
	return &spots[i];
}

/* Lets there be room for another spot. False: no memory. */
static bool spots_room(void)
{
	size_t nr = spot_slots, i;
	struct spot *old = spots, *new;

	if (spots_nr < spot_slots / 2)
		return true;
	spot_slots = nr == 0 ? SPOTS_FEW : 2 * nr;
	new = malloc(spot_slots * sizeof *new);
	if (new == NULL) {
		spot_slots = nr;
		return false;
	}
	for (i = 0; i < spot_slots; i++)
		new[i].sp_number = FREE;
	spots = new;
	for (i = 0; i < nr; i++) {
		struct spot *s = &old[i], *to;

		if (s->sp_number == FREE)
			continue;
		to  = spot_at(s->sp_number);
		*to = *s;
		if (s->sp_last == &s->sp_first)
			to->sp_last = &to->sp_first;
	}
	free(old);
	return true;
}

/* Returns the spot of a place, which may be new; there is room. */
static struct spot *spot_get(int64_t number)
{
	struct spot *s = spot_at(number);

	if (s->sp_number != FREE)
		return s;
	spots_nr++;
	*s = (struct spot) { .sp_number = number, .sp_rank = NOT_MADE };
	s->sp_last = &s->sp_first;
	return s;
}

/* Returns the spot if it knows as much of this thread; else NULL. */
static const struct spot *spot_known(int64_t number, uint64_t moves)
{
	const struct spot *s = spot_slots > 0 ? spot_at(number) : NULL;

	if (s == NULL || s->sp_number < number || s->sp_rank == NOT_MADE ||
	    (s->sp_number == number && s->sp_moves < moves))
		return NULL;
	return s;
}

/* Has the thread ended before the save that was loaded? Only its home can tell. */
static bool has_ended_before(int64_t number)
{
	return home_of(number) == own && umove_place(number) < given &&
		(spot_slots == 0 || spot_at(number)->sp_number == FREE);
}

static void carry(struct parcel *p);

/* Notes where a thread is after some moves, unless more is known. */
static void note(int64_t number, uint64_t moves, int rank)
{
	struct parcel *p, *next;
	struct spot *s;

	if (!spots_room())
		no_memory();
	s = spot_get(number);
	if (s->sp_number > number || (s->sp_number == number &&
	    s->sp_rank != NOT_MADE && s->sp_moves >= moves))
		return;
	s->sp_number = number;
	s->sp_moves  = moves;
	s->sp_rank   = rank;
	p = s->sp_first;
	s->sp_first = NULL;
	s->sp_last  = &s->sp_first;
	for (; p != NULL; p = next) {
		next = p->pc_next;
		carry(p);
	}
}

/* Tells a rank where a thread is. False: no memory. */
static bool tell(int to, int64_t number, uint64_t moves, int rank)
{
	struct message m = { .ms_kind = PLACE, .ms_rank = rank,
			     .ms_number = number, .ms_moves = moves };
	struct parcel *p = parcel_make(&m, NULL);

	if (p != NULL)
		post(p, to);
	return p != NULL;
}

/*
 * MAIL
 */

/* Keeps p until more is known of its thread. */
static void hold(struct parcel *p)
{
	struct spot *s;

	if (!spots_room())
		no_memory();
	s = spot_get(p->pc_message.ms_letter.le_to);
	p->pc_next  = NULL;
	*s->sp_last = p;
	s->sp_last  = &p->pc_next;
}

/* Brings mail to its thread, or nearer. Takes p over. */
static void carry(struct parcel *p)
{
	const struct umove_letter *l = &p->pc_message.ms_letter;
	struct umove_thread *t = umove_find(l->le_to);
	const struct spot *s = spot_known(l->le_to, p->pc_message.ms_moves);
	int first = p->pc_message.ms_rank, home = home_of(l->le_to);

	if (t != NULL) {
		if (umove_deliver(t, l, p->pc_bytes) != 0)
			no_memory();
		free(p);
	} else if (s == NULL && has_ended_before(l->le_to)) {
		free(p);
	} else if (s == NULL && (p->pc_message.ms_moves > 0 || home == own)) {
		hold(p);
	} else if (s == NULL) {
		post(p, home);
	} else if (s->sp_number > l->le_to || s->sp_rank == ENDED) {
		free(p);
	} else {
		if (first != own && first != s->sp_rank)
			(void)tell(first, s->sp_number, s->sp_moves, s->sp_rank);
		p->pc_message.ms_moves = s->sp_moves;
		post(p, s->sp_rank);
	}
}

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

/*
 * THREADS THAT ARE HERE
 */

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
	uint64_t moves = spot_at(number)->sp_moves + 1;	/* K1 */

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
	uint64_t moves = spot_at(t->th_number)->sp_moves + 1;	/* K1 */
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

/* V1: nothing of a frame that has packed is used. */
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

/* Agrees on whether all ranks can. */
static int all_can(int rc)
{
	int worst = rc;

	(void)MPI_Allreduce(&rc, &worst, 1, MPI_INT, MPI_MIN, comm);
	return worst;
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

static void spots_free(void)
{
	size_t i;

	for (i = 0; i < spot_slots; i++) {
		struct parcel *p = spots[i].sp_first;

		while (spots[i].sp_number != FREE && p != NULL) {
			struct parcel *next = p->pc_next;

			free(p);
			p = next;
		}
	}
	free(spots);
	spots = NULL;
	spot_slots = spots_nr = 0;
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

/* Adds up over all ranks. */
static void sums_get(struct sums *all, long threads, int rc)
{
	struct sums mine = { sent_nr, received_nr, threads, rc != 0 };

	(void)MPI_Allreduce(&mine, all, sizeof mine / sizeof(int64_t),
			    MPI_INT64_T, MPI_SUM, comm);
}

/*
 * Waits until on all ranks wait() has returned, and nothing is under way. 0, or
 * an error of a rank.
 */
static int quiet(int (*wait)(void))
{
	struct sums all;
	int64_t before = -1;
	int rc;

	for (;;) {
		rc = wait();
		sums_get(&all, 0, rc);
		if (all.su_failed > 0)
			return all_can(rc);
		if (all.su_sent == before)
			return 0;
		before = all.su_received;
	}
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
 * SAVES
 */

/* Returns the name of a file of a save; NULL: no memory. */
static char *file_name(const char *path, uint64_t serial, int file)
{
	size_t nob = strlen(path) + 32;
	char *name = malloc(nob);

	if (name != NULL)
		snprintf(name, nob, "%s.%d.%d", path, (int)(serial & 1), file);
	return name;
}

/* Reads the head, in rank 0, for all. 0 or -errno. */
static int top_get(const char *path, struct top *top)
{
	int rc = own == 0 ? umove_file_get(path, top, sizeof *top) : 0;

	if (rc == 0 && own == 0 && top->to_magic != MAGIC)
		rc = -EBADMSG;
	if (rc != 0)
		*top = (struct top) { .to_magic = MAGIC };
	(void)MPI_Bcast(top, (int)sizeof *top, MPI_BYTE, 0, comm);
	return all_can(rc);
}

/* Removes what the save before has written, which is not named any more. */
static void old_remove(const char *path, const struct top *old)
{
	int i;

	for (i = own; i < (int)old->to_files; i += ranks) {
		char *name = file_name(path, old->to_serial, i);

		if (name != NULL)
			(void)unlink(name);
		free(name);
	}
}

/* Writes the file of this rank. 0 or -errno. */
static int file_put(const char *path, uint64_t serial)
{
	char *name = file_name(path, serial, own);
	int rc = name != NULL ? umove_save_put(name, serial) : -ENOMEM;

	free(name);
	return rc;
}

static bool mail_is_held(void)
{
	size_t i;

	for (i = 0; i < spot_slots; i++) {
		if (spots[i].sp_number != FREE && spots[i].sp_first != NULL) {
			usched_message("umpi_save: mail waits for thread %ld, "
				       "which was not made",
				       (long)spots[i].sp_number);
			return true;
		}
	}
	return false;
}

/* All ranks are quiet: writes all files. Returns how many threads, or -errno. */
static long all_put(const char *path)
{
	struct top old, new = { .to_magic = MAGIC };
	int64_t numbers, most;
	struct sums all;
	int rc;

	umove_save_close();
	numbers = umove_numbers(0);
	rc = top_get(path, &old);
	if (rc != 0 && rc != -ENOENT && rc != -EBADMSG)
		return rc;		/* else its files might be written over */
	sums_get(&all, umove_save_nr(), 0);
	(void)MPI_Allreduce(&numbers, &most, 1, MPI_INT64_T, MPI_MAX, comm);
	new.to_serial  = old.to_serial + 1;
	new.to_files   = all.su_threads > 0 ? (uint64_t)ranks : 0;
	new.to_threads = (uint64_t)all.su_threads;
	new.to_numbers = (uint64_t)most;
	rc = mail_is_held() ? -ENOTSUP : 0;
	if (rc == 0 && new.to_files > 0)
		rc = file_put(path, new.to_serial);
	rc = all_can(rc);
	if (rc == 0)
		rc = all_can(own == 0 ? umove_file_put(path, &new, sizeof new) : 0);
	if (rc != 0)
		return rc;
	old_remove(path, &old);
	return (long)all.su_threads;
}

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

/*
 * LOADS
 */

/* Loads a part of a file. 0 or -errno. */
static int part_load(const char *path, const struct top *top, int file, long part,
		     long parts)
{
	char *name = file_name(path, top->to_serial, file);
	long rc = -ENOMEM;

	if (name != NULL)
		rc = umove_load_part(name, top->to_serial, part, parts);
	free(name);
	return rc < 0 ? (int)rc : 0;
}

/* Loads what this rank gets of the files. 0 or -errno. */
static int files_load(const char *path, const struct top *top)
{
	int files = (int)top->to_files, i, rc = 0;

	if (files == 0)
		return 0;
	if (files < ranks)		/* several ranks read a file */
		return part_load(path, top, own % files, own / files,
				 (ranks - own % files + files - 1) / files);
	for (i = own; i < files && rc == 0; i += ranks)
		rc = part_load(path, top, i, 0, 1);
	return rc;
}

static void home_tell(struct umove_thread *t)
{
	int home = home_of(t->th_number);

	if (home != own && !tell(home, t->th_number, 1, own))
		no_memory();
}

static int no_wait(void)
{
	return 0;
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
