/* SPDX-License-Identifier: MIT */
/* refused: broken contracts of ext/mpi/ end the program with a message. */

/*
 *	refused WHAT
 *
 * mpi.sh compares what is written. With "allowed" and "private" it ends.
 */
#include "mpitest.h"

#include <sys/mman.h>

#define IS(name)	(strcmp(what, name) == 0)
#define OK(call)	CHECK((call) == MPI_SUCCESS)

static const char *what;

/* Starts a call with a buffer on the stack. */
static void starts(void *arg)
{
	int buf[4] = { 0 }, *heap = calloc(4, sizeof *heap), four = 4;
	int one[1] = { 1 }, none[1] = { 0 };
	MPI_Comm made;
	MPI_Datatype type;
	MPI_Request r;
	MPI_Aint at;

	(void)arg;
	OK(MPI_Get_address(buf, &at));
	OK(MPI_Type_create_hindexed(1, &four, &at, MPI_INT, &type));
	OK(MPI_Type_commit(&type));
	if (IS("irecv"))
		MPI_Irecv(buf, 4, MPI_INT, 0, 0, MPI_COMM_WORLD, &r);
	if (IS("isend"))
		MPI_Isend(buf, 4, MPI_INT, 0, 0, MPI_COMM_WORLD, &r);
	if (IS("bottom"))
		MPI_Irecv(MPI_BOTTOM, 1, type, 0, 0, MPI_COMM_WORLD, &r);
	if (IS("init"))
		MPI_Recv_init(buf, 4, MPI_INT, 0, 0, MPI_COMM_WORLD, &r);
	if (IS("iallreduce"))
		MPI_Iallreduce(heap, buf, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
			       &r);
	if (IS("counts"))
		MPI_Iallgatherv(heap, 1, MPI_INT, heap + 1, one, none,
				MPI_INT, MPI_COMM_WORLD, &r);
	if (IS("idup"))
		MPI_Comm_idup(MPI_COMM_WORLD, &made, &r);
	if (IS("attach"))
		MPI_Buffer_attach(buf, sizeof buf);
	if (IS("window")) {
		MPI_Win win;

		MPI_Win_create(buf, sizeof buf, 1, MPI_INFO_NULL,
			       MPI_COMM_WORLD, &win);
	}
	if (IS("partly")) {
		struct { int first; int last; } *near = (void *)(buf + 3);

		near = (void *)((uintptr_t)near - (1 << 30));
		MPI_Send(near, (1 << 30) + 4, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
	}
	MPI_Wait(&r, MPI_STATUS_IGNORE);
}

/*
 * A type with pieces on both sides of the stacks, and none on one, is no buffer
 * on a stack. A private stack stays, so its locals may be used.
 */
static void allowed(void *arg)
{
	static int low[1] = { 5 };
	int *high = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int lengths[2] = { 1, 1 }, local = 0, buf = 8;
	MPI_Aint at[2];
	MPI_Datatype type;
	MPI_Request r[2];

	(void)arg;
	CHECK_THAT(high, !=, MAP_FAILED);
	*high = 7;
	OK(MPI_Get_address(low, &at[0]));
	at[1] = (MPI_Aint)UINTPTR_MAX / 2;	/* above all */
	at[1] = (MPI_Aint)(uintptr_t)high > (MPI_Aint)(uintptr_t)&local ?
		(MPI_Aint)(uintptr_t)high : (MPI_Aint)(uintptr_t)environ[0];
	OK(MPI_Type_create_hindexed(2, lengths, at, MPI_INT, &type));
	OK(MPI_Type_commit(&type));
	OK(MPI_Isend(MPI_BOTTOM, 1, type, 0, 1, MPI_COMM_SELF, &r[0]));
	OK(MPI_Cancel(&r[0]));
	OK(MPI_Request_free(&r[0]));
	if (IS("private")) {
		OK(MPI_Irecv(&local, 1, MPI_INT, 0, 2, MPI_COMM_SELF, &r[0]));
		OK(MPI_Isend(&buf, 1, MPI_INT, 0, 2, MPI_COMM_SELF, &r[1]));
		OK(MPI_Waitall(2, r, MPI_STATUSES_IGNORE));
		CHECK_IS(local, 8);
	}
	puts("allowed");
}

static void waits(void *arg)
{
	int nr;

	MPI_Recv(&nr, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD,
		 MPI_STATUS_IGNORE);
}

static void finalizes(void *arg)
{
	CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	if (IS("print"))
		CHECK_IS(umpi_print(STDERR_FILENO), 1);
	MPI_Finalize();
}

/* What is asked of MPI_Init_thread() of the library is raised, so not asked. */
static void init(int *argc, char ***argv)
{
	int level = MPI_THREAD_MULTIPLE;

	if (IS("several") || IS("split"))
		level = MPI_THREAD_SERIALIZED;
	if (IS("funneled"))
		level = MPI_THREAD_FUNNELED;
	if (!IS("early"))
		PMPI_Init_thread(argc, argv, level, &level);
}

/* Below MPI_THREAD_MULTIPLE no native thread beside may make the call. */
static void splits(void *arg)
{
	MPI_Comm made;

	(void)arg;
	MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &made);
}

static bool waits_only(void)
{
	return IS("several") || IS("funneled") || IS("finalize") ||
		IS("early") || IS("print");
}

int main(int argc, char **argv)
{
	what = argc > 1 ? argv[1] : "";
	init(&argc, &argv);
	begin(IS("several") ? 2 : 1, 0);
	if (IS("private"))
		CHECK_IS(rr_private(1), 0);
	make(0, waits_only() ? waits : IS("split") ? splits :
	     IS("allowed") || IS("private") ? allowed : starts, NULL);
	if (IS("several"))
		make(1, waits, NULL);
	if (IS("finalize") || IS("print"))
		make(0, finalizes, NULL);
	start_and_finish();
	MPI_Finalize();
	return 0;
}
