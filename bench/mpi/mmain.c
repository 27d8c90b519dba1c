/* SPDX-License-Identifier: MIT */
/* mmain: the ring ping-pong between ranks, a thread of rr for each member. */

#include "mring.h"
#include "rr.h"

#define STACK_MORE	(256 << 10)

static long received;		/* atomic */
static long ended;		/* atomic */
static double begun;

static void count(long nr)
{
	__atomic_fetch_add(&received, nr, __ATOMIC_RELAXED);
	__atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
}

static void member(void *arg)
{
	count(member_run(arg));
}

static void member_deep(void *arg)
{
	volatile char space[bench.b_d];

	memset((char *)space, 'D', bench.b_d);
	count(member_run(arg));
	if (space[0] != 'D' || space[bench.b_d - 1] != 'D')
		usched_fail("mmain: the stack of a thread was changed");
}

/* Processor p has the rings that have this number modulo P. */
static int run(void)
{
	long i;
	int rc = rr_init(bench.b_p, 0);

	if (rc == 0 && bench.b_d > 0)
		rc = rr_stack_size((size_t)bench.b_d + STACK_MORE);
	for (i = 0; rc == 0 && i < member_nr; i++)
		if (rr_thread_on(members[i].m_ring % bench.b_p, bench.b_d > 0 ?
				 member_deep : member, &members[i]) == NULL)
			rc = -errno;
	MPI_Barrier(MPI_COMM_WORLD);
	begun = bench_now();
	if (rc == 0)
		rc = rr_start();
	return rc == 0 ? rr_fini() : rc;
}

int main(int argc, char **argv)
{
	int level, rc;

	MPI_Init_thread(&argc, &argv, argc == 6 && atoi(argv[5]) > 1 ?
			MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED, &level);
	rc = ring_begin(argc, argv);
	if (rc == 0) {
		rc = run();
		if (rc != 0)
			bench_die(&bench, "threads", -rc);
		rc = ring_end(begun, received, ended);
	}
	MPI_Finalize();
	return rc;
}
