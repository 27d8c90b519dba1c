/* SPDX-License-Identifier: MIT */
/* raw: the ring ping-pong between ranks, by hand: Isend, Irecv, Test. */

/*
 * Each member is a state, and has a request for the next message. A single
 * member is tested by MPI_Test(), more by MPI_Testsome(). LEVEL is the thread
 * level; MPI_Init() asks for MPI_THREAD_SINGLE.
 */
#include "mring.h"

#if !defined(LEVEL)
#define LEVEL	MPI_THREAD_SINGLE
#endif

static MPI_Request *request;
static char *byte;
static int *done;
static char *starts;
static long received, ended;

static void send_on(const struct member *m)
{
	static char out;
	MPI_Request r;
	int to = right_of(m);
	int flag = 0;

	MPI_Isend(&out, 1, MPI_CHAR, rank_of(to), tag_of(m, to),
		  MPI_COMM_WORLD, &r);
	while (!flag)
		MPI_Test(&r, &flag, MPI_STATUS_IGNORE);
}

/* Lets a member go on until it waits, or ends. */
static void before_wait(long i)
{
	struct member *m = &members[i];

	if (m->m_left == 0) {
		ended++;
		return;
	}
	starts[i] = m->m_turn == 0;
	if (starts[i]) {
		send_on(m);
		m->m_turn = bench.b_n;
	}
	MPI_Irecv(&byte[i], 1, MPI_CHAR, rank_of(left_of(m)),
		  tag_of(m, m->m_place), MPI_COMM_WORLD, &request[i]);
}

static void after_wait(long i)
{
	struct member *m = &members[i];

	received++;
	if (!starts[i])
		send_on(m);
	m->m_left--;
	m->m_turn--;
	before_wait(i);
}

static void test(void)
{
	int nr = 0, k;

	if (member_nr == 1)
		MPI_Test(request, &nr, MPI_STATUS_IGNORE);
	else
		MPI_Testsome((int)member_nr, request, &nr, done,
			     MPI_STATUSES_IGNORE);
	for (k = 0; k < nr; k++)
		after_wait(member_nr == 1 ? 0 : done[k]);
}

int main(int argc, char **argv)
{
	double begun;
	long i;
	int rc;

	MPI_Init_thread(&argc, &argv, LEVEL, &rc);
	rc = ring_begin(argc, argv);
	if (rc == 0) {
		request = malloc((member_nr + 1) * sizeof *request);
		byte    = malloc(member_nr + 1);
		done    = malloc((member_nr + 1) * sizeof *done);
		starts  = malloc(member_nr + 1);
		for (i = 0; i < member_nr; i++)
			request[i] = MPI_REQUEST_NULL;
		MPI_Barrier(MPI_COMM_WORLD);
		begun = bench_now();
		for (i = 0; i < member_nr; i++)
			before_wait(i);
		while (ended < member_nr)
			test();
		rc = ring_end(begun, received, ended);
	}
	MPI_Finalize();
	return rc;
}
