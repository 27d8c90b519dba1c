/* SPDX-License-Identifier: MIT */
/* waiters: bytes of a thread that waits in MPI_Recv, or of a request. */

/*
 *	waiters NR		NR threads wait for a message
 *	waiters NR requests	NR requests, and no thread
 *
 * The growth of resident memory is divided by NR. A rank sends to itself.
 */

#include "bench.h"
#include "rr.h"

#include <mpi.h>

static int nr, waiting;
static long before, of_threads;

static void receiver(void *arg)
{
	char *byte = arg;

	waiting++;
	MPI_Recv(byte, 1, MPI_CHAR, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

static void sender(void *arg)
{
	char byte = 'x';
	int i;

	(void)arg;
	while (waiting < nr)
		rr_yield();
	rr_yield();
	of_threads = bench_resident(0) - before;
	for (i = 0; i < nr; i++)
		MPI_Send(&byte, 1, MPI_CHAR, 0, 0, MPI_COMM_SELF);
}

static long requests(char *byte)
{
	MPI_Request *r = malloc(nr * sizeof *r);
	char x = 'x';
	long grown;
	int i;

	before = bench_resident(0);
	for (i = 0; i < nr; i++)
		MPI_Irecv(&byte[i], 1, MPI_CHAR, 0, 0, MPI_COMM_SELF, &r[i]);
	grown = bench_resident(0) - before;
	for (i = 0; i < nr; i++)
		MPI_Send(&x, 1, MPI_CHAR, 0, 0, MPI_COMM_SELF);
	MPI_Waitall(nr, r, MPI_STATUSES_IGNORE);
	free(r);
	return grown;
}

int main(int argc, char **argv)
{
	char *byte;
	int i;

	MPI_Init(&argc, &argv);
	nr   = argc > 1 ? atoi(argv[1]) : 100000;
	byte = malloc(nr);
	if (argc > 2)
		printf("%ld\n", requests(byte) / nr);
	before = bench_resident(0);
	(void)!rr_init(1, nr);
	for (i = 0; argc <= 2 && i < nr; i++)
		(void)!rr_thread_init(receiver, &byte[i]);
	if (argc <= 2)
		(void)!rr_thread_init(sender, NULL);
	(void)!rr_start();
	if (rr_fini() != 0)
		return 1;
	if (argc <= 2)
		printf("%ld\n", of_threads / nr);
	MPI_Finalize();
	return 0;
}
