/* SPDX-License-Identifier: MIT */
/* refused: broken contracts of mpi/ end the program with a message. */

/*
 *	refused WHAT
 *
 * mpi.sh compares what is written to standard error.
 */
#include "mpitest.h"

#define IS(name)	(strcmp(what, name) == 0)

static const char *what;

static void irecv(void *arg)
{
	int buf[4];
	MPI_Request r;

	MPI_Irecv(buf, 4, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &r);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void waits(void *arg)
{
	int nr;

	MPI_Recv(&nr, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD,
		 MPI_STATUS_IGNORE);
}

static void finalizes(void *arg)
{
	CHECK(u_sleep(uafter(UTIME_MS)) == 0);
	if (IS("print"))
		CHECK(umpi_print(STDERR_FILENO) == 1);
	MPI_Finalize();
}

/* What is asked of MPI_Init_thread() of the library is raised, so not asked. */
static void init(int *argc, char ***argv)
{
	int level = MPI_THREAD_MULTIPLE;

	if (IS("several"))
		level = MPI_THREAD_SERIALIZED;
	if (IS("funneled"))
		level = MPI_THREAD_FUNNELED;
	if (!IS("early"))
		PMPI_Init_thread(argc, argv, level, &level);
}

int main(int argc, char **argv)
{
	what = argc > 1 ? argv[1] : "";
	init(&argc, &argv);
	begin(IS("several") ? 2 : 1, 0);
	make(0, IS("irecv") ? irecv : waits, NULL);
	if (IS("several"))
		make(1, waits, NULL);
	if (IS("finalize") || IS("print"))
		make(0, finalizes, NULL);
	start_and_finish();
	return 0;
}
