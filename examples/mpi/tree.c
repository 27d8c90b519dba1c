/* SPDX-License-Identifier: MIT */
/* tree.c: an unbalanced tree is counted by all ranks, which ask for work. */

/*
 *	tree WORKERS ROOTS
 *
 * A node is a number. Its children follow from it by a hash: mostly none, else
 * four, so subtrees are very different. At first rank 0 has all. Each rank has
 * WORKERS threads that count, a thread that answers requests for work, and a
 * thread that finds the end. A worker without nodes asks a random rank.
 *
 * THE END. When a rank has no nodes, and no worker has, its last thread adds up
 * the answers with work that all ranks have sent and received (MPI_Allreduce).
 * If both sums are equal, and the same as the time before, no work is left
 * anywhere, nor on its way (the four counters of F. Mattern, 1987).
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "rr.h"
#include "umpi.h"

#define GIVE	64		/* nodes of an answer, at most */

enum { REQUEST = 1, ANSWER = 2 };	/* tags; worker i: ANSWER + i */

static int rank, ranks, workers;
static MPI_Comm enders;
static uint64_t *stack;
static long nr, room, counted;
static long sent, received;	/* answers with work */
static int counting;		/* workers that have a node */
static int ended;		/* workers */
static int over;

static uint64_t hash(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static int children(uint64_t node)
{
	return hash(node) % 1000 < 247 ? 4 : 0;
}

static void push(uint64_t node)
{
	if (nr == room) {
		room  = room > 0 ? 2 * room : 1024;
		stack = realloc(stack, room * sizeof *stack);
		if (stack == NULL)
			MPI_Abort(MPI_COMM_WORLD, 1);
	}
	stack[nr++] = node;
}

/* Counts the node that is on top. */
static void count(void)
{
	uint64_t node = stack[--nr];
	int i;

	counted++;
	for (i = children(node); i > 0; i--)
		push(hash(node + i));
}

/* Asks a random rank for nodes. The buffers are on the stack of the worker. */
static void ask(int worker, unsigned *random)
{
	int victim = (rank + 1 + (int)((*random = *random * 1103515245 + 12345)
			/ 65536 % (unsigned)(ranks - 1))) % ranks;
	uint64_t node[GIVE];
	MPI_Status status;
	int got, i;

	MPI_Sendrecv(&worker, 1, MPI_INT, victim, REQUEST, node, GIVE,
		     MPI_UINT64_T, victim, ANSWER + worker, MPI_COMM_WORLD,
		     &status);
	MPI_Get_count(&status, MPI_UINT64_T, &got);
	for (i = 0; i < got; i++)
		push(node[i]);
	received += got > 0;
}

static void work(void *arg)
{
	int worker = (int)(intptr_t)arg, turns = 0;
	unsigned random = worker * 31 + rank;

	while (!over) {
		counting++;
		while (nr > 0) {
			count();
			if (++turns % 100 == 0)
				rr_yield();
		}
		counting--;
		if (ranks > 1)
			ask(worker, &random);
		if (nr == 0)
			u_sleep(uafter(100 * UTIME_US));
	}
	ended++;
}

/* Gives the oldest nodes, whose subtrees are the largest, up to a half. */
static void answer(void *arg)
{
	uint64_t *give = malloc(GIVE * sizeof *give);
	MPI_Status status;
	int worker, n, i;

	(void)arg;
	for (;;) {
		MPI_Recv(&worker, 1, MPI_INT, MPI_ANY_SOURCE, REQUEST,
			 MPI_COMM_WORLD, &status);
		if (worker < 0)
			break;
		n = nr / 2 < GIVE ? (int)(nr / 2) : GIVE;
		for (i = 0; i < n; i++)
			give[i] = stack[i];
		for (i = n; i < nr; i++)
			stack[i - n] = stack[i];
		nr -= n;
		sent += n > 0;
		MPI_Send(give, n, MPI_UINT64_T, status.MPI_SOURCE,
			 ANSWER + worker, MPI_COMM_WORLD);
	}
	free(give);
}

static void end(void *arg)
{
	long own[2], sum[2], before = -1;
	int stop = -1;

	(void)arg;
	while (!over) {
		while (nr > 0 || counting > 0)
			u_sleep(uafter(200 * UTIME_US));
		own[0] = sent;
		own[1] = received;
		MPI_Allreduce(own, sum, 2, MPI_LONG, MPI_SUM, enders);
		over = sum[0] == sum[1] && sum[0] == before;
		before = sum[0] == sum[1] ? sum[0] : -1;
	}
	while (ended < workers)
		u_sleep(uafter(200 * UTIME_US));
	MPI_Barrier(enders);		/* no worker asks any more */
	MPI_Send(&stop, 1, MPI_INT, rank, REQUEST, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	long roots = argc > 2 ? atol(argv[2]) : 2000, all, i;
	double begun;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Comm_dup(MPI_COMM_WORLD, &enders);
	workers = argc > 1 ? atoi(argv[1]) : 4;
	for (i = 0; rank == 0 && i < roots; i++)
		push(hash(i << 32));
	if (rr_init(1, 0) != 0)
		return 1;
	for (i = 0; i < workers; i++)
		if (!rr_thread_init(work, (void *)(intptr_t)i))
			return 1;
	if (!rr_thread_init(answer, NULL) || !rr_thread_init(end, NULL))
		return 1;
	MPI_Barrier(MPI_COMM_WORLD);
	begun = MPI_Wtime();
	if (rr_start() != 0 || rr_fini() != 0)
		return 1;
	MPI_Reduce(&counted, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	begun = MPI_Wtime() - begun;
	for (i = 0; rank == 0 && i < roots; i++)
		push(hash(i << 32));
	for (counted = 0; nr > 0; )
		count();
	if (rank == 0)
		printf("%ld nodes, %ld serially, in %.3f s\n", all, counted,
		       begun);
	MPI_Finalize();
	return rank == 0 && all != counted;
}
