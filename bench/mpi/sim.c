/* SPDX-License-Identifier: MIT */
/* sim: the tree of examples/mpi/tree.c on simulated ranks, in virtual time. */

/*
 *	sim RANKS LATENCY ROOTS GIVE
 *
 * No MPI is called. A message takes LATENCY microseconds, a node NODE ns, and a
 * sum over all ranks twice LATENCY for each doubling of the ranks. A rank that
 * asks another has half of its nodes, up to GIVE, after twice LATENCY. To
 * answer costs nothing. The program prints the time until the last node was
 * counted, the time until all ranks know that, and the part of it in which the
 * ranks counted.
 */

#include "bench.h"
#include "rr.h"
#include "usync.h"

#include <stdbool.h>

#define NODE	1000		/* ns */
#define BATCH	100		/* nodes between two looks at requests */
#define POLL	(200 * UTIME_US)

struct rank {
	uint64_t *k_node;
	long      k_nr, k_room;
	long      k_sent, k_received;
	bool      k_counts;
};

static struct rank *all;
static int ranks, over;
static long give;		/* nodes of an answer, at most */
static utime_ns latency, last, found;
static long counted, left, steals;
static long sum_sent, sum_received;
static struct ubarrier *barrier;

static uint64_t hash(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static void push(struct rank *k, uint64_t node)
{
	if (k->k_nr == k->k_room) {
		k->k_room = k->k_room > 0 ? 2 * k->k_room : 256;
		k->k_node = realloc(k->k_node, k->k_room * sizeof(uint64_t));
		if (k->k_node == NULL)
			exit(1);
	}
	k->k_node[k->k_nr++] = node;
	left++;
}

static void count(struct rank *k)
{
	uint64_t node = k->k_node[--k->k_nr];
	int i;

	counted++;
	for (i = hash(node) % 1000 < 247 ? 4 : 0; i > 0; i--)
		push(k, hash(node + i));
	if (--left == 0)
		last = unow();
}

static void ask(struct rank *k)
{
	struct rank *v = &all[uwait_random(ranks)];
	uint64_t *node;
	long n, i;

	u_sleep(uafter(latency));
	n = v->k_nr / 2 < give ? v->k_nr / 2 : give;
	node = malloc((n + 1) * sizeof *node);
	if (node == NULL)
		exit(1);
	memcpy(node, v->k_node, n * sizeof *node);
	memmove(v->k_node, v->k_node + n, (v->k_nr - n) * sizeof *node);
	v->k_nr -= n;
	v->k_sent += n > 0;
	u_sleep(uafter(latency));
	left -= n;
	for (i = 0; i < n; i++)
		push(k, node[i]);
	free(node);
	k->k_received += n > 0;
	steals += n > 0;
}

static void work(void *arg)
{
	struct rank *k = arg;
	int i;

	while (!over) {
		for (k->k_counts = true; k->k_nr > 0; u_sleep(uafter(i * NODE)))
			for (i = 0; i < BATCH && k->k_nr > 0; i++)
				count(k);
		k->k_counts = false;
		ask(k);
		if (k->k_nr == 0)
			u_sleep(uafter(POLL / 2));
	}
}

/* Adds up, as MPI_Allreduce() would. */
static bool agreed(const struct rank *k, long *before)
{
	int doublings = 0;
	bool end;

	while (1 << doublings < ranks)
		doublings++;
	sum_sent     += k->k_sent;
	sum_received += k->k_received;
	(void)!ubarrier_wait(barrier, UNEVER);
	u_sleep(uafter(2 * doublings * latency));
	end = sum_sent == sum_received && sum_sent == *before;
	*before = sum_sent == sum_received ? sum_sent : -1;
	if (ubarrier_wait(barrier, UNEVER) == 1)
		sum_sent = sum_received = 0;
	(void)!ubarrier_wait(barrier, UNEVER);
	return end;
}

static void end(void *arg)
{
	const struct rank *k = arg;
	long before = -1;

	do {
		while (k->k_nr > 0 || k->k_counts)
			u_sleep(uafter(POLL));
	} while (!agreed(k, &before));
	over  = 1;
	found = unow();
}

int main(int argc, char **argv)
{
	long roots = argc > 3 ? atol(argv[3]) : 100000, i;
	utime_ns begun;

	give    = argc > 4 ? atol(argv[4]) : 64;
	ranks   = argc > 1 ? atoi(argv[1]) : 1000;
	latency = (argc > 2 ? atoi(argv[2]) : 2) * UTIME_US;
	all     = calloc(ranks, sizeof *all);
	barrier = calloc(1, sizeof *barrier);
	utime_virtual(1);
	begun = unow();
	if (all == NULL || barrier == NULL || rr_init(1, 0) != 0)
		return 1;
	for (i = 0; i < roots; i++)
		push(&all[0], hash(i << 32));
	*barrier = (struct ubarrier)UBARRIER(ranks);
	for (i = 0; i < ranks; i++)
		if (rr_thread_init(work, &all[i]) == NULL ||
		    rr_thread_init(end, &all[i]) == NULL)
			return 1;
	if (rr_start() != 0 || rr_fini() != 0)
		return 1;
	printf("%ld nodes, %ld steals, %.6f s, known after %.6f s, "
	       "efficiency %.2f\n", counted, steals, (last - begun) * 1e-9,
	       (found - begun) * 1e-9,
	       (double)counted * NODE / ((double)(found - begun) * ranks));
	return 0;
}
