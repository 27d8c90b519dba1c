/* SPDX-License-Identifier: MIT */
/* fence.h: a pair of fences: the fence that is often passed is free. */

#ifndef FENCE_H
#define FENCE_H

/*
 * Two threads may each write a word and then read the word of the other. Both
 * need a full fence between write and read, or both may read the old value. If
 * the first thread does this all the time, and the second seldom, the first can
 * go without: the second makes it pass a fence, whatever it is doing. Invented
 * by D. Dice, H. Huang and M. Yang, "Asymmetric Dekker Synchronization" (Sun
 * Microsystems, 2001); in Linux as membarrier(2); proposed for C++ as P1202
 * (D. Goldblatt).
 *
 *	often:                          seldom:
 *
 *	write A                         write B
 *	fence_light()                   fence_heavy()
 *	read B                          read A
 *
 * At least one of the two reads finds the new value. The system call interrupts
 * each cpu that runs a thread of the process, for a full fence there. Other
 * cpus have passed a full fence when they last switched threads. So for each
 * thread there is a moment within fence_heavy() that divides its work: all that
 * it did before is visible to all, and all that it does later is not done yet.
 * If its fence_light() is before that moment, its A is visible; if after, it
 * reads the new B. fence_light() must only keep the compiler from moving
 * accesses across.
 *
 *	fence x fence   at the same time, by two threads
 *	light x light   no order: nothing may depend on it
 *	light x heavy   as two sequentially consistent fences
 *	heavy x heavy   as two sequentially consistent fences
 *
 *	operation     who may call                        cost
 *	fence_init    anyone, before any fence is passed  a system call
 *	fence_light   anyone, also a signal handler       a load and a branch
 *	fence_heavy   the same                            a system call, and an
 *	                                                  interrupt for others
 *
 * Without membarrier(2) - an old kernel, a filter of system calls, not Linux -
 * both are full fences. F1: a free light fence never meets a heavy fence that
 * has made no system call. So fence_init() decides once, for the program or
 * shared library that calls it, and the decision stays. Before the first call,
 * light fences are full, and heavy fences are both: they may meet a free light
 * fence of another library.
 *
 * With FENCE_FULL, in all files or in none, both are always full fences. With
 * -fsanitize=thread, which knows no fences, each is an operation on a common
 * word, which orders more than a fence does. FENCE_MODEL is for a model checker
 * that is called as that sanitizer is, but knows fences.
 */

#if defined(__SANITIZE_THREAD__)
#define FENCE_TSAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FENCE_TSAN
#endif
#endif
#if defined(FENCE_MODEL)
#undef FENCE_TSAN
#if !defined(__clang__) && __GNUC__ > 10
#pragma GCC diagnostic ignored "-Wtsan"
#endif
#endif

#include <errno.h>
#if defined(__linux__) && !defined(FENCE_FULL) && !defined(FENCE_TSAN)
#include <sys/syscall.h>
#include <unistd.h>
#if defined(SYS_membarrier)
#define FENCE_MEMBARRIER
#endif
#if defined(__STRICT_ANSI__) && !defined(__cplusplus)
long syscall(long nr, ...);	/* -std=c99: not declared */
#endif
#endif
#include "usched.h"

#if defined(FENCE_TSAN)
/* Weak, so that a single copy is in the program, without a .c file. */
__attribute__((weak, visibility("hidden"))) int fence_word;

static __inline__ void fence_full(void)
{
	__atomic_fetch_add(&fence_word, 1, __ATOMIC_SEQ_CST);
}
#else
static __inline__ void fence_full(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}
#endif

#if defined(FENCE_MEMBARRIER)

/* From linux/membarrier.h, which not each libc has. */
enum { FENCE_EXPEDITED = 1 << 3, FENCE_REGISTER = 1 << 4 };

enum { FENCE_UNDECIDED, FENCE_BOTH_FULL, FENCE_ONE_FREE };

/* One copy in the program or library. All but the first value stay (F1). */
__attribute__((weak, visibility("hidden"))) int fence_mode;

/* True: success. Six arguments, as some wrappers of syscall() read so many. */
static __inline__ int fence_call(int what)
{
	return syscall(SYS_membarrier, what, 0, 0, 0, 0, 0) == 0;
}

static __inline__ int fence_decided(void)
{
	return __atomic_load_n(&fence_mode, __ATOMIC_RELAXED);
}

/* Decides. 0: light fences are free. -ENOSYS: they are full, and all works. */
static __inline__ int fence_init(void)
{
	int mode = FENCE_UNDECIDED;
	int ours = fence_call(FENCE_REGISTER) ? FENCE_ONE_FREE :
		FENCE_BOTH_FULL;

	(void)__atomic_compare_exchange_n(&fence_mode, &mode, ours, 0,
					  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return fence_decided() == FENCE_ONE_FREE ? 0 : -ENOSYS;
}

/* Returns whether light fences are free. After fence_init() that stays. */
static __inline__ int fence_free(void)
{
	return fence_decided() == FENCE_ONE_FREE;
}

static __inline__ void fence_light(void)
{
	if (__builtin_expect(fence_free(), 1))
		__asm__ volatile("" : : : "memory");
	else
		fence_full();
}

/* Registers a child of fork(), which may not be; if it cannot, ends it (F1). */
static __attribute__((noinline, cold, unused)) void fence_again(void)
{
	if (!fence_call(FENCE_REGISTER) || !fence_call(FENCE_EXPEDITED))
		usched_fail("fence: membarrier() does not work any more");
}

static __inline__ void fence_heavy(void)
{
	int mode = fence_decided();

	if (mode != FENCE_ONE_FREE)
		fence_full();
	if (mode != FENCE_BOTH_FULL && !fence_call(FENCE_EXPEDITED) &&
	    mode == FENCE_ONE_FREE)
		fence_again();
}

#else /* no membarrier() */

static __inline__ int fence_init(void)
{
	return -ENOSYS;
}

static __inline__ int fence_free(void)
{
	return 0;
}

static __inline__ void fence_light(void)
{
	fence_full();
}

static __inline__ void fence_heavy(void)
{
	fence_full();
}

#endif /* FENCE_MEMBARRIER */

#endif /* FENCE_H */
