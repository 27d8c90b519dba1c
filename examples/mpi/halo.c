/* SPDX-License-Identifier: MIT */
/* halo.c: blocks of a grid exchange their edges, a thread for each block. */

/*
 *	halo THREADS N STEPS heat|seidel
 *
 * A plate of N * N cells is hot at its upper edge, and lies in strips of rows
 * over the ranks, THREADS of them on each. With 0 there are no threads: a rank
 * has a strip, and MPI is what it always is. The code of a strip is the same.
 *
 * heat: each cell becomes the mean of its neighbours (Jacobi). seidel: the same
 * in place, row by row (Gauss-Seidel). A strip follows the strip above it, a
 * chunk of columns behind: a wavefront. Both give the same cells for any number
 * of strips.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "rr.h"
#include "umpi.h"

#define CHUNK	64		/* columns of a step of the wavefront */

struct strip {
	int     nr;		/* of all, from the top */
	int     up, down;	/* the ranks of its neighbours */
	int     rows;
	double *cell, *next;	/* with an edge around */
	double  sum;
};

static int rank, ranks, per_rank, n, steps, seidel;

static double *row(const struct strip *s, double *cell, int i)
{
	return (void)s, cell + (size_t)i * (n + 2);
}

static int rank_of(int strip)
{
	return strip < 0 || strip >= per_rank * ranks ? MPI_PROC_NULL :
		strip / per_rank;
}

/* Tags: to the strip above, to the strip below. */
static int up_tag(int strip) { return 2 * strip + 2; }
static int down_tag(int strip) { return 2 * strip + 3; }

/* Sends the first row up, and receives that of the strip below. */
static void exchange_up(struct strip *s)
{
	MPI_Sendrecv(row(s, s->cell, 1), n + 2, MPI_DOUBLE, s->up,
		     up_tag(s->nr - 1), row(s, s->cell, s->rows + 1), n + 2,
		     MPI_DOUBLE, s->down, up_tag(s->nr), MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
}

static void exchange_down(struct strip *s)
{
	MPI_Sendrecv(row(s, s->cell, s->rows), n + 2, MPI_DOUBLE, s->down,
		     down_tag(s->nr + 1), row(s, s->cell, 0), n + 2,
		     MPI_DOUBLE, s->up, down_tag(s->nr), MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
}

static void update(struct strip *s, double *to, int i, int from, int until)
{
	const double *above = row(s, s->cell, i - 1), *at = above + n + 2;
	const double *below = at + n + 2;
	int k;

	for (k = from; k < until; k++)
		to[k] = 0.25 * (above[k] + at[k - 1] + at[k + 1] + below[k]);
}

static void heat(struct strip *s)
{
	double *was = s->cell;
	int i;

	exchange_up(s);
	exchange_down(s);
	for (i = 1; i <= s->rows; i++)
		update(s, row(s, s->next, i), i, 1, n + 1);
	s->cell = s->next;
	s->next = was;
}

static void wavefront(struct strip *s)
{
	int i, k, until;

	exchange_up(s);
	for (k = 1; k <= n; k = until) {
		until = k + CHUNK < n + 1 ? k + CHUNK : n + 1;
		MPI_Recv(row(s, s->cell, 0) + k, until - k, MPI_DOUBLE, s->up,
			 down_tag(s->nr), MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (i = 1; i <= s->rows; i++)
			update(s, row(s, s->cell, i), i, k, until);
		MPI_Send(row(s, s->cell, s->rows) + k, until - k, MPI_DOUBLE,
			 s->down, down_tag(s->nr + 1), MPI_COMM_WORLD);
	}
}

static void strip_run(void *arg)
{
	struct strip *s = arg;
	int i, k;

	for (i = 0; i < steps; i++)
		seidel ? wavefront(s) : heat(s);
	for (i = 1; i <= s->rows; i++)
		for (k = 1; k <= n; k++)
			s->sum += row(s, s->cell, i)[k];
}

static double *cells(const struct strip *s)
{
	double *cell = calloc((size_t)(s->rows + 2) * (n + 2), sizeof *cell);
	int k;

	if (cell == NULL)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (k = 0; s->nr == 0 && k < n + 2; k++)
		cell[k] = 1;
	return cell;
}

static void strip_init(struct strip *s, int nr)
{
	int all = per_rank * ranks;

	s->nr   = nr;
	s->up   = rank_of(nr - 1);
	s->down = rank_of(nr + 1);
	s->rows = (int)((long)n * (nr + 1) / all - (long)n * nr / all);
	s->sum  = 0;
	s->cell = cells(s);
	s->next = cells(s);
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 8, i;
	double own = 0, sum, begun;
	struct strip *s;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	n      = argc > 2 ? atoi(argv[2]) : 256;
	steps  = argc > 3 ? atoi(argv[3]) : 100;
	seidel = argc > 4 && strcmp(argv[4], "seidel") == 0;
	per_rank = threads > 0 ? threads : 1;
	s = malloc(per_rank * sizeof *s);
	if (s == NULL || n < per_rank * ranks)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (i = 0; i < per_rank; i++)
		strip_init(&s[i], rank * per_rank + i);
	if (threads > 0 && rr_init(1, threads) != 0)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (i = 0; i < threads; i++)
		if (rr_thread_init(strip_run, &s[i]) == NULL)
			MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Barrier(MPI_COMM_WORLD);
	begun = MPI_Wtime();
	if (threads == 0)
		strip_run(s);
	else if (rr_start() != 0 || rr_fini() != 0)
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Barrier(MPI_COMM_WORLD);
	for (i = 0; i < per_rank; i++)
		own += s[i].sum;
	MPI_Reduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("sum %.9f in %.3f s\n", sum, MPI_Wtime() - begun);
	MPI_Finalize();
	return 0;
}
