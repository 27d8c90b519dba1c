/* SPDX-License-Identifier: MIT */
/* beside: threads wait for MPI, for a pipe and for a time on one processor. */

/*
 *	beside ROUNDS
 *
 * A token goes round the ranks. In each rank a thread receives it by MPI, and
 * writes it into a pipe. Another thread reads it there, and sends it on by MPI.
 * Meanwhile a thread sleeps and wakes. Now and then the reader sleeps for so
 * long that all ranks nap. So no source of events keeps a processor from the
 * others, or from its deadlines.
 */
#include "mpitest.h"
#include "uio.h"

static int rounds;
static int ends[2];
static long done, slept;

static void receives(void *arg)
{
	int i, token;

	for (i = 0; i < rounds; i++) {
		CHECK_IS(MPI_Recv(&token, 1, MPI_INT, (rank + ranks - 1) %
			 ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
			 MPI_SUCCESS);
		CHECK_IS(token, i + (rank == 0));
		CHECK_IS(u_write_all(ends[1], &token, sizeof token, UNEVER),
			 (ssize_t)sizeof token);
	}
}

static void sends(void *arg)
{
	int i, token = 0;

	for (i = 0; i < rounds; i++) {
		if (rank != 0 || i != 0)
			CHECK_IS(u_read_all(ends[0], &token, sizeof token,
				 UNEVER), (ssize_t)sizeof token);
		if (rank == 0 && i % 50 == 49)
			CHECK_IS(u_sleep(uafter(20 * UTIME_MS)), 0);
		token = i + (rank == ranks - 1);
		CHECK_IS(MPI_Send(&token, 1, MPI_INT, (rank + 1) % ranks, 0,
			 MPI_COMM_WORLD), MPI_SUCCESS);
	}
	if (rank == 0)
		CHECK_THAT(u_read_all(ends[0], &token, sizeof token, UNEVER), >,
			   0);
	done = 1;
}

static void sleeps(void *arg)
{
	while (get(&done) == 0) {
		CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
		slept++;
	}
}

int main(int argc, char **argv)
{
	mpi_start(&argc, &argv);
	rounds = argc > 1 ? atoi(argv[1]) : 100;
	CHECK_IS(pipe(ends), 0);
	begin(1, 0);
	make(0, receives, NULL);
	make(0, sends, NULL);
	make(0, sleeps, NULL);
	start_and_finish();
	CHECK_THAT(slept, >, 0);
	mpi_end();
	return 0;
}
