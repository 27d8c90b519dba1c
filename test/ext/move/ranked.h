/* SPDX-License-Identifier: MIT */
/* ranked.h: how random programs on ranks begin, run and end. */

#ifndef RANKED_H
#define RANKED_H

#include "program.h"
#include "ranks.h"

#include <pthread.h>

static int rank, ranks;

/* Begins MPI, of a program that takes so many arguments at least. */
static void ranks_begin(int argc, char **argv, int least)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc <= least)
		MPI_Abort(MPI_COMM_WORLD, 1);
}

/*
 * Makes a scheduler, in which a thread begins with f(NULL), and runs it to its end. If
 * lives is not 0, a rank that the seed chooses kills itself after these microseconds.
 */
static void ranks_run(void (*f)(void *), size_t heap, long seed, long lives)
{
	static long us;		/* the native thread may begin late */
	pthread_t native;

	us = lives;
	if (S(init)(1, 0) != 0 || umpi_init(S(sched)(0), MPI_COMM_WORLD, heap) != 0)
		MPI_Abort(MPI_COMM_WORLD, 1);
	if (us > 0 && seed % ranks == rank &&
	    pthread_create(&native, NULL, killer, &us) != 0)
		MPI_Abort(MPI_COMM_WORLD, 1);
	if (MAKE(f, NULL) == NULL || S(start)() != 0 || S(fini)() != 0)
		MPI_Abort(MPI_COMM_WORLD, 1);
	umpi_fini();
}

/* Returns the status of the program. */
static int ranks_end(void)
{
	if (wrong == 0)
		printf("rank %d passed\n", rank);
	MPI_Finalize();
	return wrong != 0;
}

#endif /* RANKED_H */
