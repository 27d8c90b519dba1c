/* SPDX-License-Identifier: MIT */
/* spots.h: where threads are, and how mail finds them. A part of ranks.c. */

#ifndef RANKS_SPOTS_H
#define RANKS_SPOTS_H

/*
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
 * INVARIANTS
 *
 * K1. A spot of a thread that is here says so, and its moves are those of the
 *     thread. So a thread can leave and end without memory.
 * K2. If a spot says that a thread is at a rank after so many moves, that rank has
 *     a spot with as many moves or more, or will have when the thread arrives.
 *     Then note() sends on what waits there.
 * K3. Between a look at a spot and the call of PMPI_Isend() nothing blocks. MPI_Isend()
 *     of ext/mpi/ would not either, but MPI_Test() gives way.
 *
 * REJECTED
 *
 *   - All mail by the home: twice the messages, and the home waits for each move.
 *   - A question to the home before each letter: the answer is old when it comes.
 *   - Windows of MPI for spots: each move would be a put to all ranks, or wait.
 */

#include "parcels.h"

#define SPOTS_FEW	64
#define FREE		(-1)	/* sp_number: no spot */

/* sp_rank, if it is none. */
enum { ENDED = -1, NOT_MADE = -2 };

/* Where a thread is, or was when this rank heard of it. */
struct spot {
	int64_t  sp_number;
	uint64_t sp_moves;
	int32_t  sp_rank;
	struct parcel *sp_first, **sp_last;	/* mail that waits for news */
};

static int64_t given;			/* by a load: places that were given before */

static struct spot *spots;		/* a hash table */
static size_t spot_slots;		/* a power of two, or 0 */
static size_t spots_nr;

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

/* Mail. */

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

#endif /* RANKS_SPOTS_H */
