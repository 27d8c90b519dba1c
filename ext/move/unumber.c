/* SPDX-License-Identifier: MIT */
/* unumber.c: the threads of a process, by number. */

/*
 * Rank r of n gives the numbers r, r + n, r + 2n, ... When a thread has ended, its
 * process gives the place of the number again, unless it loads a file before:
 * threads in this may have the same places, and end again. (With ranks.c its home
 * does: the rank of this rest.) The next number of a place is larger by UMOVE_AGAIN.
 * So no two threads of a job have the same number, and mail for a thread that has
 * ended never reaches another.
 *
 * INVARIANT
 *
 * V2. A number is in the table of at most one process; of none while its thread
 *     is under way.
 */

#include "umove_inside.h"

#include "usched.h"
#include "usync.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

UPREEMPT_NEVER;

static struct umove_thread **table;	/* all threads, by number */
static size_t slots;			/* a power of two */
static long alive;
static long number_next, number_step;
static long *freed;			/* numbers to give again */
static size_t freed_nr, freed_room;
static struct ugroup here = UGROUP_LOCAL;	/* counts all threads */

int umove_table_init(int rank, int ranks)
{
	slots = 1024;
	table = calloc(slots, sizeof(struct umove_thread *));
	if (table == NULL)
		return -ENOMEM;
	number_next = rank;
	number_step = ranks;
	return 0;
}

/* Frees the records of threads that waited for ever. */
static void table_free(void)
{
	size_t i;

	for (i = 0; i < slots; i++) {
		while (table[i] != NULL) {
			struct umove_thread *t = table[i];

			table[i] = t->th_next;
			umove_box_free(t);
			free(t);
		}
	}
	free(table);
	table = NULL;
}

void umove_table_fini(void)
{
	table_free();
	free(freed);
	freed = NULL;
	freed_nr = freed_room = 0;
	alive = 0;
	here = (struct ugroup)UGROUP_LOCAL;
}

/* Returns where the thread of a place is, or would be. */
static struct umove_thread **place_of(long number)
{
	struct umove_thread **at = &table[(size_t)number & (slots - 1)];

	while (*at != NULL &&
	       umove_place((*at)->th_number) != umove_place(number))
		at = &(*at)->th_next;
	return at;
}

struct umove_thread *umove_find(long number)
{
	struct umove_thread *t = *place_of(number);

	return t != NULL && t->th_number == number ? t : NULL;
}

bool umove_is_taken(long place)
{
	return *place_of(place) != NULL;
}

void umove_each(void (*f)(struct umove_thread *t))
{
	struct umove_thread *t;
	size_t i;

	for (i = 0; i < slots; i++) {
		for (t = table[i]; t != NULL; t = t->th_next)
			f(t);
	}
}

/* Doubles the table, if there is memory. */
static void table_grow(void)
{
	struct umove_thread **old = table;
	size_t i, nr = slots;
	struct umove_thread **new = calloc(2 * nr, sizeof *new);

	if (new == NULL)
		return;
	table  = new;
	slots = 2 * nr;
	for (i = 0; i < nr; i++) {
		while (old[i] != NULL) {
			struct umove_thread *t = old[i];
			struct umove_thread **at =
				&table[(size_t)t->th_number & (slots - 1)];

			old[i] = t->th_next;
			t->th_next = *at;
			*at = t;
		}
	}
	free(old);
}

void umove_enter(struct umove_thread *t)
{
	struct umove_thread **at;

	if ((size_t)alive >= slots)
		table_grow();
	at = &table[(size_t)t->th_number & (slots - 1)];
	t->th_next = *at;
	*at = t;
	alive++;
	(void)ugroup_add(&here, 1);
	umove_save_made();
}

/* Takes t out, but for its record. */
static void forget(struct umove_thread *t)
{
	*place_of(t->th_number) = t->th_next;
	alive--;
	ugroup_done(&here);
	umove_heap_drop(t);
	umove_box_free(t);
	umove_save_gone();
}

void umove_leave(struct umove_thread *t)
{
	forget(t);
	free(t);
}

void umove_drop(struct umove_thread *t)
{
	t->th_dropped = true;
	forget(t);
}

void umove_drop_all(void)
{
	size_t i;

	for (i = 0; i < slots; i++) {
		struct umove_thread **at = &table[i];

		while (*at != NULL) {
			if ((*at)->th_batch != NULL)
				umove_drop(*at);	/* *at is the next */
			else
				at = &(*at)->th_next;
		}
	}
}

int umove_none(void)
{
	return ugroup_wait(&here, UNEVER);
}

/* A thread that has come from a file may have a number that was freed here. */
long umove_number_get(void)
{
	long nr;

	while (freed_nr > 0) {
		nr = freed[--freed_nr];
		if (*place_of(nr) == NULL)
			return nr;
	}
	nr = number_next;
	number_next += number_step;
	return nr;
}

/* A number that there is no memory for is not given again. */
void umove_number_back(long nr)
{
	if (freed_nr == freed_room) {
		size_t room = freed_room == 0 ? 64 : 2 * freed_room;
		long *more = realloc(freed, room * sizeof *freed);

		if (more == NULL)
			return;
		freed = more;
		freed_room = room;
	}
	freed[freed_nr++] = nr;
}

void umove_numbers_keep(void)
{
	freed_nr = 0;
}

void umove_number_put(long nr)
{
	if (nr <= LONG_MAX - UMOVE_AGAIN)
		umove_number_back(nr + UMOVE_AGAIN);
}

long umove_numbers(long nr)
{
	if (nr > number_next)
		number_next += (nr - number_next + number_step - 1) /
			number_step * number_step;
	return number_next;
}

long umove_alive(void)
{
	return alive;
}
