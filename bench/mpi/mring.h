/* SPDX-License-Identifier: MIT */
/* mring.h: the ring ping-pong between ranks: common parts. */

#ifndef MRING_H
#define MRING_H

/*
 * bench.h says what is measured. Here the neighbours in a ring are on different
 * ranks: thread i of a ring is on rank i modulo the number of ranks, and a wake
 * is a message of one byte. P is the number of processors of each rank. The
 * time begins when all ranks have made their threads, and ends when the last
 * thread of the last rank has ended. Rank 0 prints the answer.
 */

#include "bench.h"

#include <mpi.h>

static struct bench bench;
static int rank, ranks;

/* A thread: its ring, its place there, and what is left to do. */
struct member {
	int  m_ring;
	int  m_place;
	int  m_turn;		/* 0: it starts this round */
	long m_left;
};

static struct member *members;	/* of this rank */
static long member_nr;

static inline int right_of(const struct member *m)
{
	return (m->m_place + 1) % bench.b_n;
}

static inline int rank_of(int place)
{
	return place % ranks;
}

static inline int tag_of(const struct member *m, int place)
{
	return m->m_ring * bench.b_n + place;
}

static inline int left_of(const struct member *m)
{
	return (m->m_place + bench.b_n - 1) % bench.b_n;
}

static inline void members_make(void)
{
	long nr = bench_threads(&bench);
	int r, i;

	members = malloc(nr * sizeof *members);
	if (members == NULL)
		bench_die(&bench, "members", ENOMEM);
	for (r = 0; r < bench.b_r; r++)
		for (i = rank; i < bench.b_n; i += ranks)
			members[member_nr++] = (struct member) {
				r, i, i, bench.b_m
			};
}

/* Begins the program. 0, or an exit status. */
static inline int ring_begin(int argc, char **argv)
{
	int rc = bench_args(&bench, argc, argv);

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (rc == 0 && bench.b_what != BENCH_RING)
		rc = bench_usage(argv[0], "only rings");
	if (rc != 0)
		return rc;
	members_make();
	return 0;
}

/* Ends it. received: messages of this rank, from begin to end. */
static inline int ring_end(double begin, long received, long ended)
{
	struct bench_end end = { .e_start = 0 };
	double seconds = bench_now() - begin;

	MPI_Reduce(&seconds, &end.e_end, 1, MPI_DOUBLE, MPI_MAX, 0,
		   MPI_COMM_WORLD);
	MPI_Reduce(&received, &end.e_received, 1, MPI_LONG, MPI_SUM, 0,
		   MPI_COMM_WORLD);
	MPI_Reduce(&ended, &end.e_ended, 1, MPI_LONG, MPI_SUM, 0,
		   MPI_COMM_WORLD);
	return rank == 0 ? bench_report(&bench, &end) : 0;
}

/* The life of a member, in calls that block. Returns the messages received. */
static inline long member_run(struct member *m)
{
	char byte = 0;
	int to = right_of(m);

	for (; m->m_left > 0; m->m_left--, m->m_turn--) {
		int starts = m->m_turn == 0;

		if (starts) {
			MPI_Send(&byte, 1, MPI_CHAR, rank_of(to), tag_of(m, to),
				 MPI_COMM_WORLD);
			m->m_turn = bench.b_n;
		}
		MPI_Recv(&byte, 1, MPI_CHAR, rank_of(left_of(m)),
			 tag_of(m, m->m_place), MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		if (!starts)
			MPI_Send(&byte, 1, MPI_CHAR, rank_of(to), tag_of(m, to),
				 MPI_COMM_WORLD);
	}
	return bench.b_m;
}

#endif /* MRING_H */
