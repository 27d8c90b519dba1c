/* SPDX-License-Identifier: MIT */
/* restart.c: a job that is killed, and goes on from its last save. */

/*
 *	restart SAVE THREADS STEPS
 *
 * Threads stand in a ring. In each step a thread adds what it hears from the thread
 * before it to its own value, tells that to the next, and now and then goes to
 * another rank. All ranks are saved ten times a second. Kill the job at any time,
 * with SIGKILL if you like, and start it again, with fewer or more ranks: it goes
 * on from the last save, and the result is the same.
 *
 * Built as ext/move/README.md says.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "rr.h"
#include "ranks.h"

static const char *path;
static int rank, ranks, steps;
static long threads;

static void check(int right)
{
	if (!right)
		MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned long receive(long from)
{
	unsigned long x;

	check(umove_recv(from, &x, sizeof x, NULL, UNEVER) == sizeof x);
	return x;
}

/* Thread 0 adds up the values of all. */
static void result(unsigned long sum)
{
	long i;

	for (i = 1; i < threads; i++)
		sum += receive(i);
	printf("result %016lx\n", sum);
	fflush(stdout);
}

static void member(void *unused)
{
	long nr = umove_self(), next = (nr + 1) % threads;
	long before = (nr + threads - 1) % threads;
	unsigned long value = (unsigned long)nr + 1;
	int i;

	for (i = 0; i < steps; i++) {
		check(umove_send(next, &value, sizeof value) == 0);
		value = (value ^ value >> 29) * 0x9e3779b97f4a7c15u +
			receive(before);
		if (value % 64 == 0)
			check(umpi_move((int)(value / 64 % (unsigned)ranks)) >= 0);
	}
	if (nr == 0)
		result(value);
	else
		check(umove_send(0, &value, sizeof value) == 0);
	(void)unused;
}

/* All ranks get the same results of umpi_load() and umpi_save(). */
static void first(void *unused)
{
	long nr = umpi_load(path), i;

	if (nr > 0 && rank == 0)
		fprintf(stderr, "%ld threads go on, on %d ranks\n", nr, ranks);
	for (i = rank; nr == -ENOENT && i < threads; i += ranks)
		check(umove_make(member, NULL) == i);
	check(nr >= 0 || nr == -ENOENT);
	while ((nr = umpi_save(path)) > 0)
		(void)u_sleep(uafter(100 * UTIME_MS));
	check(nr == 0 && umpi_end() == 0);
	(void)unused;
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	check(argc == 4);
	path    = argv[1];
	threads = atol(argv[2]);
	steps   = atoi(argv[3]);
	check(rr_init(1, 0) == 0);
	check(umpi_init(rr_sched(0), MPI_COMM_WORLD, 4096) == 0);
	check(rr_thread_init(first, NULL) != NULL);
	check(rr_start() == 0 && rr_fini() == 0);
	umpi_fini();
	if (rank == 0)
		unlink(path);
	MPI_Finalize();
	return 0;
}
