/* SPDX-License-Identifier: MIT */
/* ends: a rank ends early, while a thread of another rank waits for it. */

/*
 *	ends exit | fails | abort | finalize
 *
 * Rank 1 calls exit(0), exit(3), MPI_Abort() or MPI_Finalize(), and rank 0
 * waits for its message. After all but MPI_Finalize() mpirun ends rank 0. After
 * MPI_Finalize() the wait goes on up to its deadline; then rank 0 lists the
 * threads that still wait, gives up their requests, and ends as usual.
 */
#include "mpitest.h"

#define IS(name)	(strcmp(what, name) == 0)
#define WAITERS		10

static const char *what;
static MPI_Request request[WAITERS];
static int in[WAITERS];
static int ended;

static void waits(void *arg)
{
	int i = (int)(intptr_t)arg;

	CHECK_IS(MPI_Irecv(&in[i], 1, MPI_INT, 1, i, MPI_COMM_WORLD,
		 &request[i]), MPI_SUCCESS);
	CHECK_IS(u_mpi_wait(&request[i], MPI_STATUS_IGNORE, IS("finalize") ?
		 uafter((i == 0 ? 300 : 600) * UTIME_MS) : UNEVER), -ETIMEDOUT);
	if (i == 0)
		CHECK_IS(umpi_print(STDERR_FILENO), WAITERS - 1);
	CHECK_IS(MPI_Cancel(&request[i]), MPI_SUCCESS);
	CHECK_IS(MPI_Wait(&request[i], MPI_STATUS_IGNORE), MPI_SUCCESS);
	ended++;
}

static void ends(void *arg)
{
	CHECK_IS(u_sleep(uafter(100 * UTIME_MS)), 0);
	if (IS("exit"))
		exit(0);
	if (IS("fails"))
		exit(3);
	if (IS("abort"))
		MPI_Abort(MPI_COMM_WORLD, 3);
}

int main(int argc, char **argv)
{
	intptr_t i;

	mpi_start(&argc, &argv);
	what = argc > 1 ? argv[1] : "";
	begin(1, 0);
	for (i = 0; rank == 0 && i < WAITERS; i++)
		make(0, waits, (void *)i);
	if (rank == 1)
		make(0, ends, NULL);
	start_and_finish();
	CHECK(rank != 0 || ended == WAITERS);
	mpi_end();
	return 0;
}
