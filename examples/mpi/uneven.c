/* SPDX-License-Identifier: MIT */
/* uneven.c: a stencil of blocks that cost unlike; they move to idle ranks. */

/*
 *	uneven BLOCKS STEPS
 *
 * A rod of cells that lets heat through lies in blocks, a thread for each. In each
 * step neighbours send their last cells to each other. Every fourth block has a
 * fine grid in time, and costs ten times as much. At first rank r of n has the
 * blocks r, r + n, ... so with 2 or 4 ranks the first has all that cost much.
 *
 * After half of the steps each block tells block 0 its time, and block 0 deals
 * the blocks to the ranks: always the dearest to the rank with the least work.
 * Then each block goes there, and goes on. The sum is the same for any ranks.
 *
 * Built as ext/move/README.md says.
 */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "rr.h"
#include "ranks.h"

#define CELLS	200	/* of a block */

struct block {
	long   nr;		/* the number of its thread, too */
	double cost;		/* seconds of its last steps */
	double cell[CELLS + 2];	/* with those of the neighbours */
	double next[CELLS + 2];
};

static int rank, ranks, steps;
static long blocks;

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void send(long to, double x)
{
	if (umove_send(to, &x, sizeof x) != 0)
		MPI_Abort(MPI_COMM_WORLD, 1);
}

static double receive(long from)
{
	double x = 0;

	if (umove_recv(from, &x, sizeof x, NULL, UNEVER) != sizeof x)
		MPI_Abort(MPI_COMM_WORLD, 1);
	return x;
}

static void exchange(struct block *b)
{
	if (b->nr > 0)
		send(b->nr - 1, b->cell[1]);
	if (b->nr < blocks - 1)
		send(b->nr + 1, b->cell[CELLS]);
	b->cell[0] = b->nr > 0 ? receive(b->nr - 1) : 1;
	b->cell[CELLS + 1] = b->nr < blocks - 1 ? receive(b->nr + 1) : 0;
}

static void update(struct block *b)
{
	int fine = b->nr % 4 == 0 ? 500 : 50, i, k;

	for (k = 0; k < fine; k++) {
		for (i = 1; i <= CELLS; i++)
			b->next[i] = b->cell[i] + 0.4 / fine *
				(b->cell[i - 1] - 2 * b->cell[i] + b->cell[i + 1]);
		for (i = 1; i <= CELLS; i++)
			b->cell[i] = b->next[i];
	}
}

static void run(struct block *b, int nr)
{
	double begun;
	int i;

	b->cost = 0;
	for (i = 0; i < nr; i++) {
		exchange(b);
		begun = seconds(CLOCK_THREAD_CPUTIME_ID);
		update(b);
		b->cost += seconds(CLOCK_THREAD_CPUTIME_ID) - begun;
	}
}

static int least(const double *load)
{
	int i, best = 0;

	for (i = 1; i < ranks; i++)
		if (load[i] < load[best])
			best = i;
	return best;
}

/* Block 0, which stays in rank 0, deals all others. */
static void deal(const struct block *b)
{
	double *cost = malloc((size_t)blocks * sizeof *cost);
	double *load = calloc((size_t)ranks, sizeof *load);
	long i, k;

	if (cost == NULL || load == NULL)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (i = 1; i < blocks; i++)
		cost[i] = receive(i);
	load[0] = b->cost;
	for (k = 1; k < blocks; k++) {
		long dearest = 1;
		int to = least(load);

		for (i = 2; i < blocks; i++)
			if (cost[i] > cost[dearest])
				dearest = i;
		load[to] += cost[dearest];
		cost[dearest] = -1;
		send(dearest, to);
	}
	free(cost);
	free(load);
}

static double sum_of(const struct block *b)
{
	double sum = 0;
	int i;

	for (i = 1; i <= CELLS; i++)
		sum += b->cell[i];
	return sum;
}

/* Block 0 prints; its times are those of all, since each waits for the others. */
static void print(double sum, double before, double after)
{
	long i;

	for (i = 1; i < blocks; i++)
		sum += receive(i);
	printf("sum %.9f; %.3f s before, %.3f s after\n", sum, before, after);
	fflush(stdout);
}

static void block(void *unused)
{
	struct block *b = umove_alloc(sizeof *b);
	double begun, before;
	int i;

	if (b == NULL)
		MPI_Abort(MPI_COMM_WORLD, 1);
	b->nr = umove_self();
	for (i = 0; i < CELLS + 2; i++)
		b->cell[i] = 0;
	begun = seconds(CLOCK_MONOTONIC);
	run(b, steps / 2);
	before = seconds(CLOCK_MONOTONIC) - begun;
	if (b->nr == 0) {
		deal(b);
	} else {
		send(0, b->cost);
		if (umpi_move((int)receive(0)) < 0)
			MPI_Abort(MPI_COMM_WORLD, 1);
	}
	begun = seconds(CLOCK_MONOTONIC);
	run(b, steps - steps / 2);
	if (b->nr == 0)
		print(sum_of(b), before, seconds(CLOCK_MONOTONIC) - begun);
	else
		send(0, sum_of(b));
	umove_free(b);
	(void)unused;
}

static void first(void *unused)
{
	long i;

	for (i = rank; i < blocks; i += ranks)
		if (umove_make(block, NULL) != i)
			MPI_Abort(MPI_COMM_WORLD, 1);
	if (umpi_end() != 0)
		MPI_Abort(MPI_COMM_WORLD, 1);
	(void)unused;
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	blocks = argc > 1 ? atol(argv[1]) : 64;
	steps  = argc > 2 ? atoi(argv[2]) : 200;
	if (rr_init(1, 0) != 0 ||
	    umpi_init(rr_sched(0), MPI_COMM_WORLD, sizeof(struct block) + 4096) != 0 ||
	    rr_thread_init(first, NULL) == NULL || rr_start() != 0 || rr_fini() != 0)
		MPI_Abort(MPI_COMM_WORLD, 1);
	umpi_fini();
	MPI_Finalize();
	return 0;
}
