/* SPDX-License-Identifier: MIT */
/* buffers: the cost of a buffer: on the heap, on a stack, in an own lane. */

/*
 *	buffers HOW PAIRS BYTES MESSAGES
 *
 * A rank sends to itself: the threads of each pair send each other so many
 * messages of so many bytes, in turn. HOW is
 *
 *	heap	the buffer is on the heap
 *	stack	it is on the stack, and copied for each call (stay.h)
 *	lane	it is on the stack of a thread that has a lane of its own
 *
 * Threads get lanes of their own after others of the same function have blocked
 * in 2 KiB of stack. Those of `stack' begin before any has blocked so deep.
 *
 * Prints nanoseconds of cpu for a message; resident bytes of a thread that
 * waits for the first message; and the part of the threads with own lanes.
 */

#include "bench.h"
#include "rr.h"
#include "uwait.h"

#include <mpi.h>
#include <time.h>

#define LEARN	64

static int pairs, bytes, messages, alone;
static char how;
static double begun;
static long before, resident;

static double cpu_now(void)
{
	return (double)clock() / CLOCKS_PER_SEC;
}

static void talk(char *buf, long nr)
{
	const struct ustack *u = ustack_self();
	int mine = (int)nr, other = (int)nr ^ 1, i;

	alone += u->u_lane > u->u_sched->s_lane_nr;
	for (i = 0; i < messages; i++)
		if ((nr + i) % 2 == 0)
			MPI_Send(buf, bytes, MPI_CHAR, 0, other, MPI_COMM_SELF);
		else
			MPI_Recv(buf, bytes, MPI_CHAR, 0, mine, MPI_COMM_SELF,
				 MPI_STATUS_IGNORE);
}

static void on_heap(void *arg)
{
	char *buf = calloc(1, bytes);

	if (buf == NULL)
		exit(1);
	memset(buf, 'x', bytes);
	talk(buf, (long)arg);
	free(buf);
}

/* A negative number: the thread only shows how deep its function blocks. */
static void on_stack(void *arg)
{
	volatile char more[how == 'l' ? 2048 : 1];
	char buf[bytes];

	memset(buf, 'x', bytes);
	more[0] = 'x';
	if ((long)arg < 0) {
		(void)u_sleep(uafter(UTIME_MS));
		return;
	}
	talk(buf, (long)arg);
	if (more[0] != 'x')
		usched_fail("buffers: the stack of a thread was changed");
}

/* Makes the threads first, 1, or second, 0, of all pairs. */
static void make_half(int odd)
{
	long i;

	for (i = 0; i < pairs; i++)
		if (rr_thread_init(how == 'h' ? on_heap : on_stack,
				   (void *)(2 * i + odd)) == NULL)
			exit(1);
}

static void make(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; how == 'l' && i < LEARN; i++)
		(void)!rr_thread_init(on_stack, (void *)-1L);
	(void)u_sleep(uafter(20 * UTIME_MS));
	before = bench_resident(0);
	make_half(1);
	(void)u_sleep(uafter(50 * UTIME_MS));
	resident = bench_resident(0) - before;
	make_half(0);
	begun = cpu_now();
}

int main(int argc, char **argv)
{
	double ns;

	MPI_Init(&argc, &argv);
	if (argc != 5)
		return 2;
	how      = argv[1][0];
	pairs    = atoi(argv[2]);
	bytes    = atoi(argv[3]);
	messages = atoi(argv[4]);
	if (rr_init(1, 0) != 0 || rr_stack_size(bytes + (256 << 10)) != 0 ||
	    rr_thread_init(make, NULL) == NULL || rr_start() != 0 ||
	    rr_fini() != 0)
		return 1;
	ns = (cpu_now() - begun) * 1e9 / ((double)pairs * messages);
	printf("%.0f %ld %.2f\n", ns, resident / pairs, alone / (2.0 * pairs));
	MPI_Finalize();
	return 0;
}
