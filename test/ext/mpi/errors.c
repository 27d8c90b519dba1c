/* SPDX-License-Identifier: MIT */
/* errors: the handler of the communicator of a call runs once for an error. */

/*
 *	errors THREADS [fatal|abort]
 *
 * Rank 1 sends messages that are too long for the receives of rank 0, where many
 * threads wait at once. Each wait returns the error, and the handler of its
 * communicator was called once, in the thread. The other handler, which
 * MPI_COMM_WORLD has, was not called. Then the same with MPI_ERRORS_RETURN, while that of
 * MPI_COMM_WORLD is the default, which would end the job. A communicator has
 * the handler that the program has set, also the default. Where the MPI has the old
 * names of the calls that set handlers, these are used for the communicator.
 *
 * With "fatal" an error of a communicator with the default handler ends the job,
 * although MPI_COMM_WORLD returns errors. With "abort" MPI_ERRORS_ABORT does.
 */
#include "mpitest.h"

#if MPI_VERSION < 4
#define MPI_ERRORS_ABORT	MPI_ERRORS_ARE_FATAL
#endif

#define OK(call)	CHECK((call) == MPI_SUCCESS)

static int threads;
static MPI_Comm special;
static long calls, calls_of_world, calls_outside, returned, here;
static int *buffer;

static void handler(MPI_Comm *comm, int *code, ...)
{
	int class, same;

	OK(MPI_Error_class(*code, &class));
	CHECK_IS(class, MPI_ERR_TRUNCATE);
	OK(MPI_Comm_compare(*comm, special, &same));
	CHECK_IS(same, MPI_IDENT);
	calls++;
	calls_outside += ustack_self() == NULL;
}

static void handler_of_world(MPI_Comm *comm, int *code, ...)
{
	(void)comm, (void)code;
	calls_of_world++;
}

static int class_of(int rc)
{
	int class = MPI_SUCCESS;

	if (rc != MPI_SUCCESS)
		OK(MPI_Error_class(rc, &class));
	return class;
}

/* Waits for two requests. The first has an error. */
static int wait_for_two(int nr, int tag)
{
	MPI_Request r[2];
	MPI_Status st[2];
	int rc, done, index[2], i;

	OK(MPI_Irecv(&buffer[4 * nr], 1, MPI_INT, 1, tag, special, &r[0]));
	OK(MPI_Irecv(&buffer[4 * nr + 1], 2, MPI_INT, 1, tag, special, &r[1]));
	if (tag % 2 == 0) {
		rc = MPI_Waitall(2, r, st);
		CHECK_IS(class_of(rc), MPI_ERR_IN_STATUS);
		CHECK_IS(class_of(st[0].MPI_ERROR), MPI_ERR_TRUNCATE);
		CHECK_IS(st[1].MPI_ERROR, MPI_SUCCESS);
		return MPI_ERR_TRUNCATE;
	}
	for (rc = MPI_SUCCESS, i = 0; i < 2; i += done) {
		int some = MPI_Waitsome(2, r, &done, index, st);

		CHECK_THAT(done, >, 0);
		if (some != MPI_SUCCESS)
			rc = class_of(some);
	}
	CHECK_IS(rc, MPI_ERR_IN_STATUS);
	return MPI_ERR_TRUNCATE;
}

/* One of six kinds of waits. */
static int wait_in_vain(int nr)
{
	int *at = &buffer[4 * nr], index, rc;
	MPI_Request r;
	MPI_Message m;

	switch (nr % 6) {
	case 0:
		return MPI_Recv(at, 1, MPI_INT, 1, nr, special,
				MPI_STATUS_IGNORE);
	case 1:
		OK(MPI_Irecv(at, 1, MPI_INT, 1, nr, special, &r));
		return MPI_Wait(&r, MPI_STATUS_IGNORE);
	case 2:
		OK(MPI_Irecv(at, 1, MPI_INT, 1, nr, special, &r));
		rc = MPI_Waitany(1, &r, &index, MPI_STATUS_IGNORE);
		return rc;
	case 3:
		OK(MPI_Mprobe(1, nr, special, &m, MPI_STATUS_IGNORE));
		return MPI_Mrecv(at, 1, MPI_INT, &m, MPI_STATUS_IGNORE);
	default:
		return wait_for_two(nr, nr);
	}
}

static void waits(void *arg)
{
	int rc;

	add(&here, 1);
	rc = wait_in_vain((int)(intptr_t)arg);
	CHECK_IS(class_of(rc), MPI_ERR_TRUNCATE);
	returned++;
}

/* Sends when all threads of the other rank wait: then all errors come at once. */
static void sends(void *arg)
{
	int out[4] = { 1, 2, 3, 4 }, i;

	(void)arg;
	OK(MPI_Recv(out, 0, MPI_INT, 0, threads, special, MPI_STATUS_IGNORE));
	for (i = 0; i < threads; i++) {
		OK(MPI_Send(out, 2, MPI_INT, 0, i, special));
		if (i % 6 >= 4)
			OK(MPI_Send(out, 2, MPI_INT, 0, i, special));
	}
}

static void goes(void *arg)
{
	(void)arg;
	while (get(&here) < threads)
		yield();
	OK(MPI_Send(NULL, 0, MPI_INT, 1, threads, special));
}

static void round_of_all(void)
{
	int i;

	here = returned = 0;
	begin(1, 0);
	for (i = 0; rank == 0 && i < threads; i++)
		make(0, waits, (void *)(intptr_t)i);
	if (rank < 2)
		make(0, rank == 0 ? goes : sends, NULL);
	start_and_finish();
	CHECK(rank != 0 || returned == threads);
}

static void set_handler(MPI_Comm comm, MPI_Comm_errhandler_function *f)
{
	MPI_Errhandler h, is;

	OK(MPI_Comm_create_errhandler(f, &h));
	OK(MPI_Comm_set_errhandler(comm, h));
	OK(MPI_Comm_get_errhandler(comm, &is));
	OK(MPI_Errhandler_free(&is));
	OK(MPI_Errhandler_free(&h));
}

static void set_handler_of_old(MPI_Comm comm, MPI_Comm_errhandler_function *f)
{
#if defined(MPICH_VERSION)
	MPI_Errhandler h, is;

	OK(MPI_Errhandler_create(f, &h));
	OK(MPI_Errhandler_get(comm, &is));
	CHECK_IS(is, MPI_ERRORS_ARE_FATAL);
	OK(MPI_Errhandler_set(comm, h));
	OK(MPI_Errhandler_free(&h));
#else
	set_handler(comm, f);
#endif
}

static void set_predefined(MPI_Comm comm, MPI_Errhandler h)
{
	MPI_Errhandler is;

	OK(MPI_Comm_set_errhandler(comm, h));
	OK(MPI_Comm_get_errhandler(comm, &is));
	CHECK_IS(is, h);
}

int main(int argc, char **argv)
{
	MPI_Errhandler is;

	mpi_start(&argc, &argv);
	threads = argc > 1 ? atoi(argv[1]) : 100;
	buffer = calloc(4 * threads, sizeof *buffer);
	CHECK(buffer != NULL);
	OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &is));
	CHECK_IS(is, MPI_ERRORS_ARE_FATAL);
	OK(MPI_Comm_dup(MPI_COMM_WORLD, &special));
	if (argc > 2) {
		set_predefined(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
		set_predefined(special, strcmp(argv[2], "abort") == 0 ?
			       MPI_ERRORS_ABORT : MPI_ERRORS_ARE_FATAL);
		round_of_all();
		sleep(60);	/* a rank without an error is ended by the others */
		CHECK_IS(argc, 2);
	}
	set_handler_of_old(special, handler);
	set_handler(MPI_COMM_WORLD, handler_of_world);
	round_of_all();
	CHECK(calls == (rank == 0 ? threads : 0) && calls_of_world == 0);
	CHECK_IS(calls_outside, 0);
	set_predefined(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	set_predefined(special, MPI_ERRORS_RETURN);
	round_of_all();
	set_predefined(MPI_COMM_WORLD, MPI_ERRORS_ABORT);
	round_of_all();
	CHECK_IS(calls, rank == 0 ? threads : 0);
	OK(MPI_Comm_free(&special));
	mpi_end();
	return 0;
}
