/* SPDX-License-Identifier: MIT */
/* fence.h: a pair of fences: the fence that is often passed is free. */

#ifndef UFENCE_H
#define UFENCE_H

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
 *	ufence_light()                  ufence_heavy()
 *	read B                          read A
 *
 * At least one of the two reads finds the new value. The system call interrupts
 * each cpu that runs a thread of the process, for a full fence there. Other
 * cpus have passed a full fence when they last switched threads. So for each
 * thread there is a moment within ufence_heavy() that divides its work: all
 * that it did before is visible to all, and all that it does later is not done
 * yet. If its ufence_light() is before that moment, its A is visible; if
 * after, it reads the new B. ufence_light() must only keep the compiler from
 * moving accesses across.
 *
 *	fence x fence   at the same time, by two threads
 *	light x light   no order: nothing may depend on it
 *	light x heavy   as two sequentially consistent fences
 *	heavy x heavy   as two sequentially consistent fences
 *
 *	operation     who may call                        cost
 *	ufence_init   anyone, before any fence is passed  a system call
 *	ufence_light  anyone, also a signal handler       a load and a branch
 *	ufence_heavy  the same                            a system call, and an
 *	                                                  interrupt for others
 *
 * Without membarrier(2) - an old kernel, a filter of system calls, not Linux -
 * both are full fences.
 *
 * F1. A free light fence never meets a heavy fence that has made no system
 *     call.
 *
 * So ufence_init() decides once, for the program or shared library that calls
 * it, and the decision stays. Before the first call, light fences are full, and
 * heavy fences are both: they may meet a free light fence of another library.
 *
 * With UFENCE_FULL, in all files or in none, both are always full fences.
 * With -fsanitize=thread, which knows no fences, each is an operation on a
 * common word, which orders more than a fence does. UFENCE_MODEL is for a
 * model checker that is called as that sanitizer is, but knows fences.
 */

#if defined(__SANITIZE_THREAD__)
#define UFENCE_TSAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UFENCE_TSAN
#endif
#endif
#if defined(UFENCE_MODEL)
#undef UFENCE_TSAN
#if !defined(__clang__) && __GNUC__ > 10
#pragma GCC diagnostic ignored "-Wtsan"
#endif
#endif

#include <errno.h>
#if defined(__linux__) && !defined(UFENCE_FULL) && !defined(UFENCE_TSAN)
#include <sys/syscall.h>
#include <unistd.h>
#if defined(SYS_membarrier)
#define UFENCE_MEMBARRIER
#endif
#if defined(__STRICT_ANSI__) && !defined(__cplusplus)
long syscall(long nr, ...);	/* -std=c99: not declared */
#endif
#endif
/* The includer has usched.h. */

#if defined(UFENCE_TSAN)
/* Weak, so that a single copy is in the program, without a .c file. */
__attribute__((weak, visibility("hidden"))) int ufence_word;

static __inline__ void ufence_full(void)
{
	__atomic_fetch_add(&ufence_word, 1, __ATOMIC_SEQ_CST);
}
#else
static __inline__ void ufence_full(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}
#endif

#if defined(UFENCE_MEMBARRIER)

/* From linux/membarrier.h, which not each libc has. */
enum { UFENCE_EXPEDITED = 1 << 3, UFENCE_REGISTER = 1 << 4 };

enum { UFENCE_UNDECIDED, UFENCE_BOTH_FULL, UFENCE_ONE_FREE };

/* One copy in the program or library. All but the first value stay (F1). */
__attribute__((weak, visibility("hidden"))) int ufence_mode;

/* True: success. Six arguments, as some wrappers of syscall() read so many. */
static __inline__ int ufence_call(int what)
{
	return syscall(SYS_membarrier, what, 0, 0, 0, 0, 0) == 0;
}

static __inline__ int ufence_decided(void)
{
	return __atomic_load_n(&ufence_mode, __ATOMIC_RELAXED);
}

/* Decides. 0: light fences are free. -ENOSYS: they are full, and all works. */
static __inline__ int ufence_init(void)
{
	int mode = UFENCE_UNDECIDED;
	int ours = ufence_call(UFENCE_REGISTER) ? UFENCE_ONE_FREE :
		UFENCE_BOTH_FULL;

	(void)__atomic_compare_exchange_n(&ufence_mode, &mode, ours, 0,
					  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return ufence_decided() == UFENCE_ONE_FREE ? 0 : -ENOSYS;
}

/* Returns whether light fences are free. After ufence_init() that stays. */
static __inline__ int ufence_free(void)
{
	return ufence_decided() == UFENCE_ONE_FREE;
}

static __inline__ void ufence_light(void)
{
	if (__builtin_expect(ufence_free(), 1))
		__asm__ volatile("" : : : "memory");
	else
		ufence_full();
}

/* Registers a child of fork(), which may not be; if it cannot, ends it (F1). */
static __attribute__((noinline, cold, unused)) void ufence_again(void)
{
	if (!ufence_call(UFENCE_REGISTER) || !ufence_call(UFENCE_EXPEDITED))
		usched_fail("fence: membarrier() does not work any more");
}

static __inline__ void ufence_heavy(void)
{
	int mode = ufence_decided();

	if (mode != UFENCE_ONE_FREE)
		ufence_full();
	if (mode != UFENCE_BOTH_FULL && !ufence_call(UFENCE_EXPEDITED) &&
	    mode == UFENCE_ONE_FREE)
		ufence_again();
}

#else /* no membarrier() */

static __inline__ int ufence_init(void)
{
	return -ENOSYS;
}

static __inline__ int ufence_free(void)
{
	return 0;
}

static __inline__ void ufence_light(void)
{
	ufence_full();
}

static __inline__ void ufence_heavy(void)
{
	ufence_full();
}

#endif /* UFENCE_MEMBARRIER */

#endif /* UFENCE_H */
