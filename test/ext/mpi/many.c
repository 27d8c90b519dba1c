/* SPDX-License-Identifier: MIT */
/* many: many threads of each rank wait in MPI_Recv at once. */

/*
 *	many THREADS PROCESSORS BYTES [POOR]
 *
 * Each rank has THREADS threads with a tag each. All wait in MPI_Recv() for a
 * message of the rank before, into a buffer on their stack. The last wait has
 * begun before the first message is sent: a sender waits for a barrier that all
 * ranks enter when their receivers are blocked. Each byte is checked, and so
 * are the neighbours of the buffer. Each thread then answers by MPI_Ssend()
 * from its stack, in another order. A receive from MPI_PROC_NULL ends beside them.
 *
 * With POOR a processor refuses memory, one time in that many. A call that has
 * none for its buffer has done nothing, and is repeated. Any other returns when
 * it is complete.
 */
#include "mpitest.h"

#define EDGE	16		/* bytes before and after */

static long threads, bytes;
static long waiting;		/* receivers about to wait (atomic) */
static long ended;
static MPI_Comm senders;
static long poor, asked;
static void *(*alloc)(struct usched *s, int size);

static void *poor_alloc(struct usched *s, int size)
{
	unsigned nr = (unsigned)add(&asked, 1);

	return check_hash(nr, 1) % (unsigned)poor == 0 ? NULL : alloc(s, size);
}

static void make_poor(int procs)
{
	struct usched *s;

	while (procs-- > 0) {
		s = SCHED(sched)(procs);
		alloc = s->s_alloc;
		s->s_alloc = poor_alloc;
	}
}

/* True: the call, which returned rc, must be repeated. */
static bool refused(int rc)
{
	CHECK(rc == MPI_SUCCESS || (rc == MPI_ERR_NO_MEM && poor != 0));
	return rc != MPI_SUCCESS;
}

static void give_way(void)
{
	int rc = SCHED(yield)();

	CHECK(rc == 0 || (rc == -ENOMEM && poor != 0));
}

static unsigned char byte_of(int from, long nr, long i)
{
	return (unsigned char)check_hash((unsigned)(from * 1000003 + nr),
					 (unsigned)i);
}

static void fill(unsigned char *at, int from, long nr)
{
	long i;

	for (i = 0; i < bytes; i++)
		at[i] = byte_of(from, nr, i);
}

static void compare(const unsigned char *at, int from, long nr)
{
	long i;

	for (i = 0; i < bytes; i++)
		CHECK_IS(at[i], byte_of(from, nr, i));
}

static void member(void *arg)
{
	long nr = (long)(intptr_t)arg;
	int before = (rank + ranks - 1) % ranks;
	unsigned char b[bytes + 2 * EDGE];
	MPI_Status status;
	int got;

	memset(b, 0x5a, bytes + 2 * EDGE);
	add(&waiting, 1);
	while (refused(MPI_Recv(b + EDGE, (int)bytes, MPI_BYTE, before, (int)nr,
				MPI_COMM_WORLD, &status)))
		;
	CHECK(status.MPI_SOURCE == before && status.MPI_TAG == (int)nr);
	CHECK_IS(MPI_Get_count(&status, MPI_BYTE, &got), MPI_SUCCESS);
	CHECK_IS(got, (int)bytes);
	compare(b + EDGE, before, nr);
	CHECK(b[0] == 0x5a && b[EDGE - 1] == 0x5a);
	CHECK(b[bytes + EDGE] == 0x5a && b[bytes + 2 * EDGE - 1] == 0x5a);
	fill(b + EDGE, rank + 1000, nr);
	while (refused(MPI_Ssend(b + EDGE, (int)bytes, MPI_BYTE, before,
				 (int)(threads + nr), MPI_COMM_WORLD)))
		;
	add(&ended, 1);
}

static void sender(void *arg)
{
	int next = (rank + 1) % ranks;
	unsigned char *buf = malloc(bytes);
	long i, nr;

	CHECK(buf != NULL);
	while (get(&waiting) < threads)
		give_way();
	give_way();
	CHECK(several || poor != 0 || umpi_print(-1) >= threads);
	CHECK_IS(MPI_Recv(buf, (int)bytes, MPI_BYTE, MPI_PROC_NULL, 0, senders,
		 MPI_STATUS_IGNORE), MPI_SUCCESS);
	CHECK_IS(MPI_Barrier(senders), MPI_SUCCESS);
	for (i = 0; i < threads; i++) {
		nr = (i * 7919 + 13) % threads;
		fill(buf, rank, nr);
		CHECK_IS(MPI_Send(buf, (int)bytes, MPI_BYTE, next, (int)nr,
			 MPI_COMM_WORLD), MPI_SUCCESS);
	}
	for (i = 0; i < threads; i++) {
		nr = (i * 104729 + 5) % threads;
		CHECK_IS(MPI_Recv(buf, (int)bytes, MPI_BYTE, next,
			 (int)(threads + nr), MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE), MPI_SUCCESS);
		compare(buf, next + 1000, nr);
	}
	free(buf);
	add(&ended, 1);
}

int main(int argc, char **argv)
{
	int procs;
	long i;

	mpi_start(&argc, &argv);
	threads = argc > 1 ? atol(argv[1]) : 10000;
	procs   = argc > 2 ? atoi(argv[2]) : 1;
	bytes   = argc > 3 ? atol(argv[3]) : 64;
	poor    = argc > 4 ? atol(argv[4]) : 0;
	several = procs > 1;
	CHECK_IS(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
		 MPI_SUCCESS);
	CHECK_IS(MPI_Comm_dup(MPI_COMM_WORLD, &senders), MPI_SUCCESS);
	begin(procs, 0);
	if (poor != 0)
		make_poor(procs);
	for (i = 0; i < threads; i++)
		make((int)i, member, (void *)(intptr_t)i);
	make(0, sender, NULL);
	start_and_finish();
	CHECK_IS(ended, threads + 1);
	CHECK_IS(MPI_Comm_free(&senders), MPI_SUCCESS);
	mpi_end();
	return 0;
}
