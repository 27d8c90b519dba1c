/* SPDX-License-Identifier: MIT */
/* umove.h: threads that go on in another process, or come back from a file. */

#ifndef UMOVE_H
#define UMOVE_H

/*
 * A blocked thread of a stack copier is a slice of stack and some words. So it
 * can be sent to another process of the same program, or be written to a file.
 *
 *	static void first(void *arg)		a thread
 *	{
 *		long nr = umove_load("job.save");
 *
 *		if (nr < 0 && nr != -ENOENT)	a save is there, and is not whole
 *			exit(1);
 *		for (long i = 0; nr <= 0 && i < 1000; i++)
 *			umove_make(cell, (void *)i);
 *		while (umove_alive() > 0)
 *			... umove_save("job.save");
 *	}
 *	static void cell(void *arg)
 *	{
 *		double *at = umove_alloc(100 * sizeof *at);
 *
 *		for (int i = 0; i < 1000; i++) {
 *			step(at);
 *			umove_point();		may return in another process
 *		}
 *	}
 *	main:	rr_init(1, 0);
 *		umove_init(rr_sched(0), 0, 1, 65536);
 *		rr_thread_init(first, NULL);
 *		rr_start(), rr_fini(), umove_fini();
 *
 * It is compiled with the program, which is linked by the flags of move.flags:
 *
 *	cc -no-pie -fno-stack-protector \
 *		-Iinclude -Iinclude/usched -Ilib/base -Iext/move \
 *		program.c ext/move/u*.c @ext/move/move.flags libusched.a -pthread
 *
 * RETURN VALUES: 0 or more, or a negative errno. -ENOTSUP comes with a sentence
 * (usched_message()) that says why.
 *
 * WHO MAY CALL WHAT
 *
 *	umove_init, umove_fini		the native thread that starts the scheduler
 *	umove_point, _to, _alloc, _free,
 *	_send, _recv			threads that umove_make() has made
 *	all others			threads of the scheduler
 *
 * CAVEATS
 *
 * - The scheduler is rr or ll, with one processor. Processes that run on several
 *   cpus are ranks of MPI, say.
 * - Globals, malloc(), descriptors and locks belong to the process. A thread takes
 *   along its stack and its blocks of umove_alloc(). Its argument must mean the
 *   same everywhere: a number, or the address of a global.
 * - No function of a shared library may be on the stack at a point, such as
 *   qsort() with a comparison that calls umove_point(). Nor may a jmp_buf, nor a
 *   frame with a stack guard. These are found, and refused.
 * - A thread ends by the return of its function, not by ustack_abort().
 * - Not found are: a lock that is held (the hard mode finds it), an exception that
 *   was caught and is still alive, and pointers to another thread's umove_alloc().
 *   Nor is the address of errno, or of another thread-local variable, if the
 *   compiler keeps that over a call of umove_point().
 * - A saved file and a message are like programs: whoever can write them can run
 *   any code. The checksum is against accidents.
 */

#include "uwait.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct usched;

/*
 * Prepares s, the dispatcher of a scheduler that was not started yet. rank, of
 * ranks, is the number of this process: threads that it makes have numbers that
 * no other rank gives. heap is how many bytes umove_alloc() has for each thread,
 * and the same in all processes. 0, -EINVAL, -EBUSY, -ENOMEM; -ENOTSUP: threads
 * of this program cannot move.
 */
int umove_init(struct usched *s, int rank, int ranks, size_t heap);

/* Frees all. The scheduler has ended. */
void umove_fini(void);

/*
 * Makes a thread that can move. Returns its number: of ranks, rank gives rank,
 * rank + ranks and so on, in this order, unless threads have ended or were loaded.
 * -EINVAL, -ENOMEM; -ENOTSUP: new threads have private stacks (rr_private()).
 */
long umove_make(void (*f)(void *), void *arg);

/* Returns the number of the caller, which no other thread has; -1: none. */
long umove_self(void);

/*
 * Lets new threads have numbers from nr on, and returns from where on this process
 * now gives numbers. umove_load() does so by what is in the file. If several
 * ranks have loaded files, they exchange the largest result before they make
 * threads.
 */
long umove_numbers(long nr);

/* Returns how many threads of umove_make() are in this process. */
long umove_alive(void);

/* Returns size bytes of the caller's heap, aligned for two words, or NULL. */
void *umove_alloc(size_t size);

/* Takes back what umove_alloc() has returned to the same thread. */
void umove_free(void *p);

/*
 * Sends nob bytes to the thread with number to, and does not wait. The letters of
 * a thread to another arrive in order, and each once, wherever both go. A letter
 * to a thread that has ended is lost. 0, -EINVAL, -ENOMEM; -ESRCH: the thread is
 * not in this process, or is in umove_to(), and there are no other ranks (ranks.h).
 */
int umove_send(long to, const void *bytes, size_t nob);

/*
 * Receives the next letter of thread from, or of any. Returns its bytes, and the
 * number of the thread that has sent it, unless sender is NULL. While the caller
 * waits it is at a safe point. -EMSGSIZE: the letter has more than room bytes, and
 * stays; -EAGAIN, -ETIMEDOUT: none has come until then; -EINVAL, -ENOMEM; -ENOMEM,
 * -ENOTSUP: as from umove_point().
 */
long umove_recv(long from, void *bytes, size_t room, long *sender, utime_ns until);

#define UMOVE_ANY	(-1L)
#define UMOVE_MAIL_MOST	((size_t)1 << 28)	/* bytes of a letter */

/*
 * A safe point. Returns 0 at once, unless a save is under way: then the caller
 * waits for its end. 1: the caller has come from a file, mostly in another
 * process. -EINVAL; -ENOMEM, -ENOTSUP: the save fails, since the caller cannot be
 * saved.
 */
int umove_point(void);

/*
 * Takes the caller out of this process. Calls send(arg, bytes, nob) with all that
 * it consists of, and send() may block. If send() returns 0 the caller ends here,
 * and returns 1 where umove_import() gets the bytes. Else the caller goes on here,
 * and gets what send() has returned. -EINVAL, -ENOMEM, -ENOTSUP.
 */
int umove_to(int (*send)(void *arg, const void *bytes, size_t nob), void *arg);

/*
 * Lets a thread go on here that umove_to() has taken out elsewhere. The bytes are
 * free when it returns. 0, -ENOMEM, -EINVAL; -ENOTSUP: from another program, or
 * the thread is here already.
 */
int umove_import(const void *bytes, size_t nob);

/*
 * Saves all threads of umove_make(), once each has come to a safe point. The
 * file appears as a whole or not at all, and the file before stays until then.
 * 0; 1: the caller, of umove_make(), too, has come from the file; -EBUSY: a save is
 * under way; -ENOMEM, -ENOTSUP; an error of the system, such as -ENOSPC.
 */
int umove_save(const char *path);

/*
 * Lets all threads of a file go on here. Returns how many there are. -EBADMSG: not
 * such a file, or not a whole one; -ENOTSUP: from another program, or a thread is
 * here already; -ENOMEM; an error of the system, such as -ENOENT. After an
 * error none of them goes on.
 */
long umove_load(const char *path);

/* Left by files that are compiled with guards in frames: umove_init() refuses. */
#if (defined(__SSP__) || defined(__SSP_STRONG__) || defined(__SSP_ALL__)) && \
	defined(__ELF__) && !defined(UMOVE_GUARDED)
#define UMOVE_GUARDED
__attribute__((weak)) char umove_guarded;
#endif

#ifdef __cplusplus
}
#endif

#endif /* UMOVE_H */
