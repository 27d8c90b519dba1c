/* SPDX-License-Identifier: MIT */
/* pstart.c: runs the main() of a program in a thread. */

/*
 * A program of the pthread face is linked with --wrap=main, so the system
 * begins here. Its main() runs in a thread of the scheduler that USCHED in the
 * environment names, as for usched_main().
 *
 * Stacks are private, so what lies there may be passed to other threads. A
 * thread for which there is none is not made: EAGAIN. USCHED_STACKS=shared is
 * for more threads, of programs that share no locals.
 *
 * A return from main() ends the process by exit(), with all other threads, as
 * natively. If main() leaves by pthread_exit(), the last thread calls exit(0).
 * If all threads wait, so does the process: a signal may come.
 */

#include "pface.h"
#include "umain.h"

#include <stdlib.h>

/* Bytes of stack of each thread, as many as threads of Linux have. */
#define STACK		((size_t)8 << 20)

UPREEMPT_NEVER;

int __real_main(int argc, char **argv, char **envp);
int FACE(main)(int argc, char **argv, char **envp);
int FACE(pthread_create)(pthread_t *t, const pthread_attr_t *a,
			 void *(*f)(void *), void *arg);

static struct {
	int    argc;
	char **argv, **envp;
} program;

static void *run(void *arg)
{
	(void)arg;
	exit(__real_main(program.argc, program.argv, program.envp));
}

/* Makes the thread of main(), and ends. */
static int begin(void *arg)
{
	void *(*f)(void *) = (void *(*)(void *))(void (*)(void))__real_main;
	pthread_t t;

	(void)arg;
	if (FACE(pthread_create)(&t, NULL, f, program.argv) != 0)
		usched_fail("pthread: no memory for the thread of main()");
	return 0;
}

int FACE(main)(int argc, char **argv, char **envp)
{
	program.argc = argc;
	program.argv = argv;
	program.envp = envp;
	pface_main.m_f   = (void (*)(void *))(void (*)(void))__real_main;
	pface_main.m_run = run;
	return usched_main_held(begin, NULL, STACK);
}
