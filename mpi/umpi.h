/* SPDX-License-Identifier: MIT */
/* umpi.h: MPI for threads: calls that block the caller alone. */

#ifndef UMPI_H
#define UMPI_H

/*
 * A program of MPI needs nothing of this header. Linked with umpi.c and
 * uprofile.c, each call of MPI below blocks only the thread that makes it:
 *
 *	mpicc -O2 -Iinclude -I. -Iwait -Iproc -Impi program.c mpi/umpi.c mpi/uprofile.c \
 *		libusched.a -pthread
 *
 *	Send Ssend Rsend Recv Mrecv Sendrecv Sendrecv_replace Probe Mprobe
 *	Wait Waitall Waitany Waitsome
 *	Barrier Bcast Reduce Allreduce Reduce_scatter_block Scan Exscan
 *	Gather Gatherv Scatter Scatterv Allgather Allgatherv Alltoall Alltoallv
 *
 * Other calls are those of MPI, and may stop the whole processor of the caller:
 * MPI_Comm_dup(), files, windows, MPI_Finalize(). Outside of threads, and in
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
 * BUFFERS ON A STACK. While a thread waits, its stack may move. So a blocking
 * call copies a buffer that lies on the stack of the caller: to the heap before
 * the call, and back after a receive. For a few bytes that costs 10 ns, and 50
 * if a thousand threads take turns (stay.h). Buffers elsewhere are not copied,
 * nor are those of a deep thread, which has a private lane (usched.h).
 *
 * MPI_Isend(), MPI_Irecv() and the like with a buffer on the stack of the
 * caller end the program with a message, because MPI would use it while the
 * thread waits. Not checked are MPI_Ibcast() and its like, windows and files:
 * give them no such buffer.
 *
 * ERRORS are those of MPI, by its rules. But MPI finds the error of a request
 * when a processor looks, so a handler of the program's runs there, outside of
 * threads, and must not wait. MPICH calls the handler of MPI_COMM_WORLD then.
 *
 * ORDER. The collectives of a communicator start in the order in which the
 * threads of a rank call them, and that must be the same order on all ranks. So
 * threads that use collectives independently need communicators of their own.
 *
 * PROBES are as in MPI: between MPI_Probe() and MPI_Recv() another thread may
 * receive the message. MPI_Mprobe() and MPI_Mrecv() are for several threads.
 *
 * THE END. While a thread waits for MPI, the scheduler does not end, and a rank
 * of which all threads wait is not stuck. umpi_print() lists them. If MPI is
 * finalized before, the program ends with a message. If another rank exits
 * without MPI_Finalize(), or calls MPI_Abort(), mpirun ends this rank. After a
 * finalization there, threads here that wait for that rank wait on, up to their
 * deadline: see u_mpi_wait().
 *
 * IDLE. A processor that has nothing to run tests requests all the time for
 * UMPI_SPIN, but yields its cpu to other processes. Then it tests after naps,
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
