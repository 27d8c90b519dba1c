/* SPDX-License-Identifier: MIT */
/* sthread.c: native threads, where the pthread face is not linked. */

/*
 * A host has no native threads. ext/posix/ has these names, too: a program that
 * takes libusched_pthread.a into the step of sim.flags has threads of usched,
 * and this file is not linked. Otherwise the run fails, and says so.
 */

#include "sim.h"

#define NO_THREADS(X)							\
	X(pthread_create) X(pthread_cond_wait) X(pthread_cond_timedwait)	\
	X(sem_wait)

#define REFUSE_THREAD(name)						\
	void refused_##name(void) __asm__("__wrap_" #name);		\
	void refused_##name(void)					\
	{								\
		usim_fail("%s() needs the pthread face: see ext/sim/README.md", \
			  #name);					\
	}
NO_THREADS(REFUSE_THREAD)
