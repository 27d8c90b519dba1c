/* SPDX-License-Identifier: MIT */
/* sim: a thousand and a million ranks, in virtual time. No MPI is called. */

/*
 *	sim full|few			the rows of the tables in doc/scale.md
 *	sim tree RANKS ROOTS GIVE HOW	the tree of examples/mpi/tree.c
 *	sim find RANKS MOVES		messages to threads that move
 *	sim save RANKS SAVE		ranks that fail, and go on from a save
 *
 * Each prints a row, and the same row each time: time is virtual, and chance is a
 * hash.
 *
 * TREE. HOW is free, costs or near. A node takes NODE ns, a message LATENCY, a
 * sum over all ranks twice LATENCY for each doubling of the ranks. A rank that
 * asks another gets half of its nodes, up to GIVE. If messages have costs, GROUP
 * ranks share a machine. A message inside takes INSIDE. Any other takes the
 * links of both machines for PACKET and LINK for each node, one after the other.
 * A rank that is asked counts nothing for ASKED, and COPY for each node. If near,
 * a rank asks three times of four inside of its machine. The row has the
 * answers with work, and the time until all ranks know the end. It also has the
 * part of that time in which they counted.
 *
 * FIND. There are THREADS threads for each rank, anywhere, and a rank sends to
 * PARTNERS of them. Before MOVES of a thousand messages their thread moves. With a
 * home, a rank that follows from the number of the thread knows where the thread
 * is, and passes all on. With hints a sender also knows where the thread was; a
 * rank from which it has gone passes the message to the home, and the receiver
 * tells the sender. The row has the messages for each that is received, moves
 * included.
 *
 * SAVE. A rank fails once in YEARS, by chance. All save together, which takes SAVE
 * seconds, in the interval of Young (1974). After a failure all go back to the
 * last save, which takes BACK seconds. The row has the mean time between
 * failures of the job, and the part of the time that was of use.
 */

#include "bench.h"
#include "rr.h"
#include "usync.h"

#include <math.h>
#include <stdbool.h>

static uint64_t hash(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static uint64_t chance_nr;

static uint64_t chance(uint64_t below)
{
	return hash(hash(++chance_nr)) % below;
}

static void fail(const char *why)
{
	fprintf(stderr, "sim: %s\n", why);
	exit(1);
}

static void *make(size_t nr, size_t size)
{
	void *all = calloc(nr, size);

	if (all == NULL)
		fail("out of memory");
	return all;
}

/* Returns a number as people write it: 1,000,000. */
static const char *thousands(long nr)
{
	static char text[4][32];
	static int at;
	char *to = text[at++ % 4], digits[24];
	int left = snprintf(digits, sizeof digits, "%ld", nr), i, k = 0;

	for (i = 0; left > 0; i++, left--) {
		to[k++] = digits[i];
		if (left % 3 == 1 && left > 1)
			to[k++] = ',';
	}
	to[k] = 0;
	return to;
}

/* The tree. */

#define NODE	1000		/* ns */
#define BATCH	100		/* nodes between two looks at what was asked */
#define POLL	(200 * UTIME_US)
#define LATENCY	(2 * UTIME_US)
#define INSIDE	500		/* ns, within a machine */
#define GROUP	64		/* ranks of a machine */
#define PACKET	50		/* ns of a link for a message */
#define LINK	0.8		/* ns of a link for a node: 10 GB/s */
#define ASKED	1000		/* ns of a rank that is asked */
#define COPY	1		/* ns for each node that it gives */

enum how { FREE, COSTS, NEAR };

static const char *const how_names[] = { "free", "costs", "near" };

struct rank {
	uint64_t *k_node;
	long      k_nr, k_room;
	long      k_sent, k_received;
	utime_ns  k_owes;		/* for what it was asked */
	bool      k_counts;
};

static struct rank *all;
static utime_ns *link_free;		/* when the link of each machine is free */
static int ranks, over;
static enum how how;
static long give;			/* nodes of an answer, at most */
static utime_ns last, found;
static long counted, left, steals;
static long sum_sent, sum_received;
static struct ubarrier *barrier;

static void push(struct rank *k, uint64_t node)
{
	if (k->k_nr == k->k_room) {
		k->k_room = k->k_room > 0 ? 2 * k->k_room : 256;
		k->k_node = realloc(k->k_node, k->k_room * sizeof(uint64_t));
		if (k->k_node == NULL)
			fail("out of memory");
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

/* Waits for the link of a rank's machine, and until nr nodes are through. */
static void pass_link(long rank, long nr)
{
	utime_ns *is_free = &link_free[rank / GROUP];
	utime_ns now = unow();

	*is_free = (*is_free > now ? *is_free : now) + PACKET +
		(utime_ns)(nr * LINK);
	u_sleep(*is_free);
}

/* A message goes from a rank to another. */
static void travel(long from, long to, long nr)
{
	if (how == FREE)
		u_sleep(uafter(LATENCY));
	else if (from / GROUP == to / GROUP)
		u_sleep(uafter(INSIDE));
	else {
		pass_link(from, nr);
		u_sleep(uafter(LATENCY));
		pass_link(to, nr);
	}
}

/* Returns the rank that rank nr asks next. */
static long whom(long nr)
{
	long first = nr / GROUP * GROUP;
	long size = ranks - first < GROUP ? ranks - first : GROUP;

	return how == NEAR && chance(4) != 0 ? first + (long)chance(size) :
		(long)chance(ranks);
}

static void ask(struct rank *k)
{
	struct rank *v = &all[whom(k - all)];
	uint64_t *node;
	long n, i;

	travel(k - all, v - all, 0);
	n = v->k_nr / 2 < give ? v->k_nr / 2 : give;
	node = make(n + 1, sizeof *node);
	if (n > 0)
		memcpy(node, v->k_node, n * sizeof *node);
	memmove(v->k_node, v->k_node + n, (v->k_nr - n) * sizeof *node);
	v->k_nr -= n;
	v->k_sent += n > 0;
	v->k_owes += how == FREE ? 0 : ASKED + n * COPY;
	travel(v - all, k - all, n);
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
	utime_ns took;
	int i;

	while (!over) {
		for (k->k_counts = true; k->k_nr > 0; u_sleep(uafter(took))) {
			for (i = 0; i < BATCH && k->k_nr > 0; i++)
				count(k);
			took = i * NODE + k->k_owes;
			k->k_owes = 0;
		}
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
	u_sleep(uafter(2 * doublings * LATENCY));
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

static void tree_run(void)
{
	int i;

	if (rr_init(1, 0) != 0)
		fail("rr_init");
	for (i = 0; i < ranks; i++)
		if (rr_thread_init(work, &all[i]) == NULL ||
		    rr_thread_init(end, &all[i]) == NULL)
			fail("rr_thread_init");
	if (rr_start() != 0 || rr_fini() != 0)
		fail("rr_start");
}

static void tree(long nr, long roots, long most, enum how costs)
{
	utime_ns begun;
	long i;

	utime_virtual(1);
	begun = unow();
	ranks = (int)nr;
	give  = most;
	how   = costs;
	over  = 0;
	chance_nr = counted = left = steals = sum_sent = sum_received = 0;
	all       = make(nr, sizeof *all);
	link_free = make(nr / GROUP + 1, sizeof *link_free);
	barrier   = make(1, sizeof *barrier);
	*barrier  = (struct ubarrier)UBARRIER(ranks);
	for (i = 0; i < roots; i++)
		push(&all[0], hash((uint64_t)i << 32));
	tree_run();
	printf("| %s | %s | %s | %s | %.1f ms | %.0f %% |\n", thousands(nr),
	       thousands(give), how_names[how], thousands(steals),
	       (found - begun) * 1e-6,
	       100.0 * counted * NODE / ((found - begun) * (double)nr));
	for (i = 0; i < nr; i++)
		free(all[i].k_node);
	free(all);
	free(link_free);
	free(barrier);
}

/* Threads that move. */

#define THREADS		4	/* of a rank */
#define PARTNERS	8	/* of a rank: threads */
#define ROUNDS		4	/* messages to each */

/* Returns the messages for a message from a rank, moves included. */
static long send_to(long to, int *place, int *hint, bool moves, bool by_hint)
{
	long home = to % ranks, nr = 0;

	if (moves) {
		place[to] = (int)chance(ranks);
		nr += place[to] == home ? 1 : 2;	/* itself; to the home */
	}
	if (!by_hint)
		return nr + (place[to] == home ? 1 : 2);
	if (*hint == place[to])
		return nr + 1;
	nr += *hint == home ? 1 : 2;
	nr += place[to] != home;
	*hint = place[to];
	return nr + 1;					/* tells the sender */
}

static double send_all(long moves, bool by_hint)
{
	int *place = make((size_t)ranks * THREADS, sizeof *place);
	int *hint  = make((size_t)ranks * PARTNERS, sizeof *hint);
	long nr = 0, i, to, round, threads = (long)ranks * THREADS;

	chance_nr = 0;
	for (i = 0; i < threads; i++)
		place[i] = (int)chance(ranks);
	for (i = 0; i < (long)ranks * PARTNERS; i++)
		hint[i] = place[hash(i) % threads];
	for (round = 0; round < ROUNDS; round++)
		for (i = 0; i < (long)ranks * PARTNERS; i++) {
			to  = (long)(hash(i) % threads);
			nr += send_to(to, place, &hint[i],
				      chance(1000) < (uint64_t)moves, by_hint);
		}
	free(place);
	free(hint);
	return (double)nr / ((double)ranks * PARTNERS * ROUNDS);
}

static void find(long nr, long moves)
{
	ranks = (int)nr;
	printf("| %s | %ld | %.2f | %.2f |\n", thousands(nr), moves,
	       send_all(moves, false), send_all(moves, true));
}

/* Ranks that fail. */

#define YEARS	5.0		/* of a rank, until it fails */
#define BACK	60.0		/* seconds until all go on */
#define JOB	(30 * 86400.0)	/* seconds of use */

/* Returns seconds until the next failure of a job. */
static double next_failure(double mean)
{
	return -mean * log((chance(1L << 52) + 1) / (double)(1L << 52));
}

static void save(long nr, double takes)
{
	double mean = YEARS * 365.25 * 86400 / nr, every = sqrt(2 * takes * mean);
	double now = 0, done = 0, fails;

	chance_nr = 0;
	fails = next_failure(mean);
	while (done < JOB && now < 100 * JOB)
		if (now + every + takes <= fails) {
			now  += every + takes;
			done += every;
		} else {
			now   = fails + BACK;
			fails = now + next_failure(mean);
		}
	printf("| %s | %s s | %s s | %.0f %% |\n", thousands(nr),
	       thousands((long)mean), thousands((long)takes), 100 * done / now);
}

/* Few: without what takes more than a second. */
static void everything(bool few)
{
	static const long limit[] = { 64, 1024, 8192 };
	int i;

	for (i = 0; i < 6; i++)
		tree(i < 3 ? 100 : 1000, 100000, limit[i % 3], FREE);
	for (i = COSTS; i <= NEAR; i++)
		tree(1000, 100000, 8192, i);
	for (i = FREE; i <= NEAR && !few; i++)
		tree(10000, 1000000, 8192, i);
	for (i = 0; i < (few ? 3 : 6); i++)
		find(i < 3 ? 1000 : 1000000, (long[]){ 1, 100, 500 }[i % 3]);
	for (i = 0; i < 9; i++)
		save((long[]){ 1000, 100000, 1000000 }[i / 3],
		     (double[]){ 1, 60, 600 }[i % 3]);
}

static enum how how_of(const char *name)
{
	int i;

	for (i = FREE; i <= NEAR; i++)
		if (strcmp(name, how_names[i]) == 0)
			return i;
	fail("HOW is free, costs or near");
	return FREE;
}

int main(int argc, char **argv)
{
	long n[3] = { 0 };
	int i;

	for (i = 0; i < 3 && i + 2 < argc; i++)
		n[i] = atol(argv[i + 2]);
	if (argc == 2 && (strcmp(argv[1], "full") == 0 ||
			  strcmp(argv[1], "few") == 0))
		everything(argv[1][1] == 'e');
	else if (argc == 6 && strcmp(argv[1], "tree") == 0)
		tree(n[0], n[1], n[2], how_of(argv[5]));
	else if (argc == 4 && strcmp(argv[1], "find") == 0)
		find(n[0], n[1]);
	else if (argc == 4 && strcmp(argv[1], "save") == 0)
		save(n[0], (double)n[1]);
	else
		fail("usage: sim full | few | tree RANKS ROOTS GIVE HOW | find RANKS MOVES"
		     " | save RANKS SAVE");
	return 0;
}
