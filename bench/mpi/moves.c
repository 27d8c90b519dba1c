/* SPDX-License-Identifier: MIT */
/*
 * moves.c: threads with a kilobyte of stack go from rank 0 to rank 1 (ext/move/).
 *
 *	moves [HEAP]
 *
 * Prints microseconds of cpu for each thread, where it leaves and where it arrives
 * and ends: medians of ROUNDS, in which MOVES threads go. Rank 1 sleeps until all
 * have left, so that it does not count what it waits. With HEAP each has a block.
 */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "figures.h"
#include "rr.h"
#include "usync.h"
#include "ranks.h"

#define MOVES	32
#define ROUNDS	301
#define PAD	800	/* of the stack of each thread */
#define REST	2000	/* microseconds, more than all take to leave */

static struct usem ended = USEM_LOCAL(0);
static int rank, with_heap, wrong;

static double microseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void mover(void *unused)
{
	volatile char pad[PAD];
	long *heap = with_heap ? umove_alloc(sizeof *heap) : NULL;

	pad[0] = 1;
	if (heap != NULL)
		*heap = 2;
	if (umpi_move(1) != 0 || pad[0] != 1 || (heap != NULL && *heap != 2))
		wrong++;
	(void)usem_post(&ended);
	(void)unused;
}

static double leave(void)
{
	double begun;
	int i;

	for (i = 0; i < MOVES; i++)
		wrong += umove_make(mover, NULL) < 0;
	begun = microseconds();
	while (umove_alive() > 0 && wrong == 0)
		(void)rr_yield();
	return microseconds() - begun;
}

static double arrive(void)
{
	double begun;
	int i;

	usleep(REST);
	begun = microseconds();
	for (i = 0; i < MOVES; i++)
		wrong += usem_wait(&ended, UNEVER) != 0;
	return microseconds() - begun;
}

static void first(void *unused)
{
	static double took[ROUNDS];
	int i;

	for (i = 0; i < ROUNDS; i++) {
		(void)PMPI_Barrier(MPI_COMM_WORLD);
		took[i] = (rank == 0 ? leave() : arrive()) / MOVES;
		MPI_Barrier(MPI_COMM_WORLD);
	}
	wrong += umpi_end() != 0;
	figures_sort(took, ROUNDS);
	printf("%s %.2f [%.2f, %.2f] us\n", rank == 0 ? "leaves" : "arrives and ends",
	       took[ROUNDS / 2], took[ROUNDS / 4], took[ROUNDS * 3 / 4]);
	(void)unused;
}

int main(int argc, char **argv)
{
	int ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	with_heap = argc > 1;
	if (ranks != 2 || rr_init(1, 0) != 0 ||
	    umpi_init(rr_sched(0), MPI_COMM_WORLD, 4096) != 0 ||
	    rr_thread_init(first, NULL) == NULL || rr_start() != 0 || rr_fini() != 0)
		MPI_Abort(MPI_COMM_WORLD, 1);
	umpi_fini();
	MPI_Finalize();
	return wrong != 0;
}
