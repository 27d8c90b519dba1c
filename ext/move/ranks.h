/* SPDX-License-Identifier: MIT */
/* ranks.h: threads that move between ranks of MPI. */

#ifndef RANKS_H
#define RANKS_H

/*
 * Threads of umove_make() go on in other ranks, mail finds them there, and all
 * ranks are saved together:
 *
 *	static void cell(void *arg)		a thread of umove_make()
 *	{
 *		...
 *		umpi_move(rank);		goes on in that rank
 *		umove_send(number, &x, sizeof x);
 *		umove_recv(number, &y, sizeof y, NULL, UNEVER);
 *	}
 *	static void first(void *arg)		a thread of each rank
 *	{
 *		long nr = umpi_load("job.save");
 *
 *		if (nr < 0 && nr != -ENOENT)	a save is there, and is not whole
 *			MPI_Abort(MPI_COMM_WORLD, 1);
 *		for (i = 0; nr <= 0 && i < ...; i++)
 *			umove_make(cell, ...);
 *		while (umpi_save("job.save") > 0)
 *			u_sleep(uafter(10 * UTIME_S));
 *		umpi_end();
 *	}
 *	main:	MPI_Init(&argc, &argv);
 *		rr_init(1, 0);
 *		umpi_init(rr_sched(0), MPI_COMM_WORLD, 65536);
 *		rr_thread_init(first, NULL);
 *		rr_start(), rr_fini(), umpi_fini();
 *		MPI_Finalize();
 *
 * It is compiled with the program, as umove.h says, and with ext/mpi/:
 *
 *	mpicc -no-pie -fno-pie -fno-stack-protector \
 *		-Iinclude -Iinclude/usched -Ilib/base -Iext/mpi -Iext/move \
 *		program.c ext/move/x.c ext/mpi/x.c @ext/move/move.flags \
 *		libusched.a -pthread		(x: all files)
 *
 * RETURN VALUES: as in umove.h. A call that is collective is made by one thread of
 * each rank, in the same order, as a collective of MPI, and returns the same on
 * all ranks. An error of MPI in one of these calls is fatal.
 *
 * CAVEATS
 *
 * - Those of umove.h. All ranks run the same program, with the same heap and lanes.
 * - A scheduler does not end before umpi_end().
 * - umove_to(), umove_save() and umove_load() return -ENOTSUP.
 * - While a thread computes without a switch, its rank takes no thread and no mail.
 * - After a load a deadline of umove_recv() is as far away as it was at the save.
 */

#include "umove.h"

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Prepares s, as umove_init(), with the rank of the process in comm. Collective,
 * in main, after MPI_Init(). 0, or as umove_init(); -ENOTSUP: also, the ranks run
 * different programs.
 */
int umpi_init(struct usched *s, MPI_Comm comm, size_t heap);

/* Frees all, in place of umove_fini(). */
void umpi_fini(void);

/*
 * Lets the caller, of umove_make(), go on in another rank. 0: it is there; 1: it
 * has come from a file since, and may be elsewhere. -EINVAL, -ENOMEM, -ENOTSUP,
 * -EMSGSIZE (a gigabyte of mail): it cannot leave, and is where it was.
 */
int umpi_move(int rank);

/*
 * Saves the threads of all ranks, once each has come to a safe point, and no mail
 * is under way. Threads that others make meanwhile are saved or not, and wait for
 * the end of the save. Files path.0.0, path.0.1 and so on, or path.1.0 and so on, belong
 * to path, which appears last: so the save before is whole until then. Collective.
 * Returns how many threads there are; 0: none, and there will be none but by
 * umove_make(). Or as umove_save(); -ENOTSUP: also, mail waits for a thread that was
 * not made.
 */
long umpi_save(const char *path);

/*
 * Lets all threads of a save go on. If there are as many ranks as when it was
 * saved, each goes on in its rank, else ranks share them. Collective. Returns how
 * many there are. As umove_load(); -EBUSY: threads have been made before.
 */
long umpi_load(const char *path);

/*
 * Waits until no thread of umove_make() is left in any rank, and nothing is under
 * way. From the call on only threads of umove_make() make others in this rank, and
 * none can be made when it has returned. Collective. 0 or -EINVAL; -ENOMEM: there
 * is no end, and all is as before.
 */
int umpi_end(void);

#ifdef __cplusplus
}
#endif

#endif /* RANKS_H */
