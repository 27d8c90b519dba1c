/* SPDX-License-Identifier: MIT */
/* umpi.h: MPI for threads: calls that block the caller alone. */

#ifndef UMPI_H
#define UMPI_H

/*
 * A program of MPI needs nothing of this header. Linked with the files of this
 * folder, each call of MPI that blocks, blocks only the thread that makes it:
 *
 *	mpicc -O2 -Iinclude -Iinclude/usched -Ilib/base -Iext/mpi \
 *		program.c ext/mpi/umpi.c \
 *		ext/mpi/uprofile.c ext/mpi/uerrors.c libusched.a -pthread
 *
 * README.md lists all calls, and a whole program. Outside of threads, and in
 * threads of a dispatcher that cannot wait, all calls are those of MPI. But the
 * collectives are then made of MPI_Ibarrier() and the like, too, since
 * MPI_Barrier() of MPI does not match MPI_Ibarrier() on another rank.
 *
 * THREAD LEVEL. MPI_Init() asks for MPI_THREAD_SERIALIZED here, and
 * MPI_Init_thread() for no less. That is enough for a single processor. With
 * several, the program calls MPI_Init_thread() with MPI_THREAD_MULTIPLE. With
 * MPI_THREAD_FUNNELED only the native thread that has initialized MPI may run
 * threads that wait here. If a thread waits without the level that it needs,
 * the program ends with a message.
 *
 * CALLS BESIDE. MPI_Comm_split(), windows, files and other calls that have no
 * form that does not block are made by a native thread, as by ucall(), while
 * the thread waits. This needs MPI_THREAD_MULTIPLE, also with one processor:
 * below that the first such call of a thread ends the program with a message.
 * At most UCALL_LIMIT native threads call at once (ucall.h), so more such calls
 * must not depend on each other. Handlers of their errors run there.
 *
 * TESTS. MPI_Test(), MPI_Iprobe() and the like return at once, as in MPI. But
 * after eight calls of a thread in a row that found nothing, others run first.
 *
 * BUFFERS ON A STACK. While a thread waits, its stack may move. So a blocking
 * call copies a buffer that lies on the stack of the caller: to the heap before
 * the call, and back after a receive. For a few bytes that costs 10 ns, and 50
 * if a thousand threads take turns (stay.h). Buffers elsewhere are not copied,
 * nor are those of a thread with a private stack (rr_private()).
 *
 * A call that only starts something ends the program with a message, if one of
 * its buffers, lists of counts, or results is on the stack of the caller, also
 * by way of MPI_BOTTOM: MPI would use it while the thread waits. Threads with
 * private stacks may give any of their locals. Not checked is memory that a
 * library below MPI registers by other calls.
 *
 * ERRORS are those of MPI: the handler of the communicator of the call is called
 * once for each error, by the thread that called, and must not wait. The
 * communicator of a request is known if the program had set a handler before
 * the request began; else that of MPI_COMM_WORLD is called (uerrors.c). At most
 * 32 functions can be handlers so; those of more may be called earlier, outside
 * of threads. Of several requests of a call the first error counts.
 *
 * ORDER. The collectives of a communicator start in the order in which the
 * threads of a rank call them, and that must be the same order on all ranks. So
 * threads that use collectives independently need communicators of their own.
 *
 * PROBES are as in MPI: between MPI_Probe() and MPI_Recv() another thread may
 * receive the message. MPI_Mprobe() and MPI_Mrecv() are for several threads.
 *
 * THE END. While a thread waits for MPI, the scheduler does not end, and a rank
 * of which all threads wait is not stuck. umpi_print() lists them, but not calls
 * beside. If MPI is
 * finalized before, the program ends with a message. If another rank exits
 * without MPI_Finalize(), or calls MPI_Abort(), mpirun ends this rank. After a
 * finalization there, threads here that wait for that rank wait on, up to their
 * deadline: see u_mpi_wait().
 *
 * IDLE. A processor that has nothing to run tests requests all the time for
 * UMPI_SPIN, but yields its cpu to other processes. If these compute, it sleeps
 * shortly between tests. (Under Open MPI leave mpi_yield_when_idle at 0: else
 * each test in vain yields, too.) Then it tests after naps,
 * which become longer, up to a millisecond, or 20 times the time of a test. A
 * processor with threads that can run tests in at most a quarter of its time.
 */

#include "uwait.h"

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UMPI_SPIN	(10 * UTIME_MS)

/*
 * RESULTS of the calls below: 0; an error code of MPI, which is more than 0; or
 * -ETIMEDOUT, -ECANCELED, -EAGAIN, -EINVAL as in uwait.h: then nothing was
 * received, and no request is complete. The event wins over the deadline.
 * Threads and native threads.
 */

/* Waits for a request, as MPI_Wait() does. After an error < 0 it goes on. */
int u_mpi_wait(MPI_Request *request, MPI_Status *status, utime_ns until);

/* Waits for all requests, as MPI_Waitall() does; if it ends early, for none. */
int u_mpi_waitall(int nr, MPI_Request request[], MPI_Status *status,
		  utime_ns until);

/* Waits for at least one of them, as MPI_Waitsome() does. */
int u_mpi_waitsome(int nr, MPI_Request request[], int *done, int index[],
		   MPI_Status *status, utime_ns until);

/*
 * Receives as MPI_Recv() does, but by MPI_Mprobe() and MPI_Mrecv(): if the
 * deadline passes first, or a scope is cancelled, no message was taken.
 */
int u_mpi_recv(void *buf, int count, MPI_Datatype type, int source, int tag,
	       MPI_Comm comm, MPI_Status *status, utime_ns until);

/* Waits for a message, and takes it out, as MPI_Mprobe() does. */
int u_mpi_mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message,
		 MPI_Status *status, utime_ns until);

/*
 * Writes a line to fd for each thread that waits for MPI: the thread, its
 * function, the call, and the rank and tag of its message. Returns how many
 * wait. Any thread or native thread, but no call-back.
 */
long umpi_print(int fd);

#ifdef __cplusplus
}
#endif

#endif /* UMPI_H */
