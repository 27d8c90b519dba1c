/* SPDX-License-Identifier: MIT */
/* halo: strips of a field, which exchange their edges in each iteration. */

/*
 *	halo sendrecv|waitall|overlap STRIPS M
 *
 * Each rank has STRIPS strips. Strip s of all is on rank s modulo the number of
 * ranks, so its neighbours are elsewhere; the last is a neighbour of the first. In
 * each of M iterations a strip sends EDGE bytes to both sides, and receives as
 * many from both, by two calls of MPI_Sendrecv(), or by two of MPI_Irecv(), two of
 * MPI_Isend(), and MPI_Waitall(). With overlap edges have LONG bytes, and between
 * the start and MPI_Waitall() a strip computes for some 20 us.
 *
 * A strip is a thread of rr; with -DNATIVE a native thread; with -DHAND nothing:
 * the rank starts what all strips send and receive, and waits for all of it. The
 * answer is the processor time of rank 0 for an exchange of a strip, in ns.
 */
#include "bench.h"

#include <mpi.h>
#include <pthread.h>
#include <time.h>

#if !defined(NATIVE) && !defined(HAND)
#include "rr.h"
#endif

#define EDGE	128			/* bytes */
#define LONG	(64 << 10)		/* MPI waits for the receiver */
#define STEPS	20000			/* of a computation */
#define SIDES	2			/* left, right */

/* A message to a strip says which it is in its first bytes. */
struct strip {
	int      s_nr;			/* of all */
	long    *s_out[SIDES], *s_in[SIDES];
	unsigned s_value;		/* what it computes */
};

static int rank, ranks, strips, uses_waitall, overlaps, edge = EDGE;
static long iterations;
static struct strip *strip;		/* of this rank */

static void die(const char *why)
{
	fprintf(stderr, "halo: %s\n", why);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static int beside(const struct strip *s, int side)
{
	int all = ranks * strips;

	return (s->s_nr + (side == 0 ? all - 1 : 1)) % all;
}

/* The tag of what a strip receives from a side. */
static int tag(int nr, int side)
{
	return nr * SIDES + side;
}

/* Starts what a strip sends and receives in an iteration. */
static void start(struct strip *s, long i, MPI_Request *r)
{
	int side;

	for (side = 0; side < SIDES; side++)
		MPI_Irecv(s->s_in[side], edge, MPI_BYTE,
			  beside(s, side) % ranks, tag(s->s_nr, side),
			  MPI_COMM_WORLD, &r[side]);
	for (side = 0; side < SIDES; side++) {
		*s->s_out[side] = i;
		MPI_Isend(s->s_out[side], edge, MPI_BYTE,
			  beside(s, side) % ranks,
			  tag(beside(s, side), 1 - side), MPI_COMM_WORLD,
			  &r[SIDES + side]);
	}
}

static void compute(struct strip *s)
{
	int i;

	for (i = 0; overlaps && i < STEPS; i++)
		s->s_value = s->s_value * 1664525u + 1013904223u;
}

static void check(const struct strip *s, long i)
{
	if (*s->s_in[0] != i || *s->s_in[1] != i)
		die("a strip has received what it should not");
}

#if defined(HAND)

#define LEVEL	MPI_THREAD_SERIALIZED

static void run(void)
{
	MPI_Request *r = malloc(2 * SIDES * sizeof *r * strips);
	long i;
	int k;

	if (r == NULL)
		die("out of memory");
	for (i = 0; i < iterations; i++) {
		for (k = 0; k < strips; k++)
			start(&strip[k], i, &r[2 * SIDES * k]);
		for (k = 0; k < strips; k++)
			compute(&strip[k]);
		MPI_Waitall(2 * SIDES * strips, r, MPI_STATUSES_IGNORE);
		for (k = 0; k < strips; k++)
			check(&strip[k], i);
	}
	free(r);
}

#else

static void exchange(struct strip *s, long i)
{
	int side;

	for (side = 0; side < SIDES; side++) {
		*s->s_out[side] = i;
		MPI_Sendrecv(s->s_out[side], edge, MPI_BYTE,
			     beside(s, side) % ranks,
			     tag(beside(s, side), 1 - side),
			     s->s_in[1 - side], edge, MPI_BYTE,
			     beside(s, 1 - side) % ranks,
			     tag(s->s_nr, 1 - side), MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
	}
}

static void lives(void *arg)
{
	MPI_Request r[2 * SIDES];
	struct strip *s = arg;
	long i;

	for (i = 0; i < iterations; i++) {
		if (uses_waitall) {
			start(s, i, r);
			compute(s);
			MPI_Waitall(2 * SIDES, r, MPI_STATUSES_IGNORE);
		} else
			exchange(s, i);
		check(s, i);
	}
}

#endif

#if defined(NATIVE)

#define LEVEL	MPI_THREAD_MULTIPLE

static void *begins(void *arg)
{
	lives(arg);
	return NULL;
}

static void run(void)
{
	pthread_t *id = malloc(strips * sizeof *id);
	int k;

	if (id == NULL)
		die("out of memory");
	for (k = 0; k < strips; k++)
		if (pthread_create(&id[k], NULL, begins, &strip[k]) != 0)
			die("too many native threads");
	for (k = 0; k < strips; k++)
		pthread_join(id[k], NULL);
	free(id);
}

#elif !defined(HAND)

#define LEVEL	MPI_THREAD_SERIALIZED

static void run(void)
{
	int k;

	if (rr_init(1, 0) != 0)
		die("rr_init");
	for (k = 0; k < strips; k++)
		if (rr_thread_init(lives, &strip[k]) == NULL)
			die("rr_thread_init");
	if (rr_start() != 0 || rr_fini() != 0)
		die("rr_start");
}

#endif

static double cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static int usage(const char *program)
{
	fprintf(stderr, "usage: %s sendrecv|waitall|overlap STRIPS M\n", program);
	MPI_Finalize();
	return 2;
}

static void make_strips(void)
{
	int k, side;

	strip = calloc(strips, sizeof *strip);
	if (strip == NULL)
		die("out of memory");
	for (k = 0; k < strips; k++) {
		strip[k].s_nr = k * ranks + rank;
		for (side = 0; side < SIDES; side++) {
			strip[k].s_out[side] = calloc(1, edge);
			strip[k].s_in[side]  = calloc(1, edge);
			if (!strip[k].s_out[side] || !strip[k].s_in[side])
				die("out of memory");
		}
	}
}

int main(int argc, char **argv)
{
	double begun;
	int level;

	MPI_Init_thread(&argc, &argv, LEVEL, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc != 4 || (strips = atoi(argv[2])) < 1 ||
	    (iterations = atol(argv[3])) < 1)
		return usage(argv[0]);
	overlaps = strcmp(argv[1], "overlap") == 0;
	if (overlaps)
		edge = LONG;
	uses_waitall = overlaps || strcmp(argv[1], "waitall") == 0;
	if (!uses_waitall && strcmp(argv[1], "sendrecv") != 0)
		return usage(argv[0]);
	if (level < LEVEL)
		die("MPI gives a lower thread level");
	make_strips();
	MPI_Barrier(MPI_COMM_WORLD);
	begun = cpu_ns();
	run();
	if (rank == 0)
		printf("%.1f\n", (cpu_ns() - begun) / iterations / strips);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return 0;
}
