/* SPDX-License-Identifier: MIT */
/* mpitest.h: common parts of tests of ext/mpi/. */

#ifndef MPITEST_H
#define MPITEST_H

#include "either.h"
#include "umpi.h"

static int rank, ranks;
static UNUSED int several;	/* processors */

/* MPI_THREAD_MULTIPLE: the tests have several processors, too. */
static UNUSED void mpi_start(int *argc, char ***argv)
{
	int level;

	check_start(*argc, *argv);
	CHECK_IS(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level),
		 MPI_SUCCESS);
	if (level < MPI_THREAD_MULTIPLE)
		check_skip("no MPI_THREAD_MULTIPLE");
	CHECK_IS(MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_SUCCESS);
	CHECK_IS(MPI_Comm_size(MPI_COMM_WORLD, &ranks), MPI_SUCCESS);
}

static UNUSED void mpi_end(void)
{
	CHECK_IS(MPI_Finalize(), MPI_SUCCESS);
	printf("rank %d passed\n", rank);
}

#endif /* MPITEST_H */
