/* SPDX-License-Identifier: MIT */
/* fence.h: a pair of fences: the fence that is often passed is free. */

#ifndef WS_FENCE_H
#define WS_FENCE_H

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
 *	ws_fence_light()                ws_fence_heavy()
 *	read B                          read A
 *
 * At least one of the two reads finds the new value. The system call interrupts
 * each cpu that runs a thread of the process, for a full fence there. Other
 * cpus have passed a full fence when they last switched threads. So for each
 * thread there is a moment within ws_fence_heavy() that divides its work: all
 * that it did before is visible to all, and all that it does later is not done
 * yet. If its ws_fence_light() is before that moment, its A is visible; if
 * after, it reads the new B. ws_fence_light() must only keep the compiler from
 * moving accesses across.
 *
 *	fence x fence   at the same time, by two threads
 *	light x light   no order: nothing may depend on it
 *	light x heavy   as two sequentially consistent fences
 *	heavy x heavy   as two sequentially consistent fences
 *
 *	operation     who may call                        cost
 *	ws_fence_init  anyone, before any fence is passed a system call
 *	ws_fence_light anyone, also a signal handler      a load and a branch
 *	ws_fence_heavy the same                           a system call, and an
 *	                                                  interrupt for others
 *
 * Without membarrier(2) - an old kernel, a filter of system calls, not Linux -
 * both are full fences.
 *
 * F1. A free light fence never meets a heavy fence that has made no system
 *     call.
 *
 * So ws_fence_init() decides once, for the program or shared library that calls
 * it, and the decision stays. Before the first call, light fences are full, and
 * heavy fences are both: they may meet a free light fence of another library.
 *
 * With WS_FENCE_FULL, in all files or in none, both are always full fences.
 * With -fsanitize=thread, which knows no fences, each is an operation on a
 * common word, which orders more than a fence does. WS_FENCE_MODEL is for a
 * model checker that is called as that sanitizer is, but knows fences.
 */

#if defined(__SANITIZE_THREAD__)
#define WS_FENCE_TSAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WS_FENCE_TSAN
#endif
#endif
#if defined(WS_FENCE_MODEL)
#undef WS_FENCE_TSAN
#if !defined(__clang__) && __GNUC__ > 10
#pragma GCC diagnostic ignored "-Wtsan"
#endif
#endif

#include <errno.h>
#if defined(__linux__) && !defined(WS_FENCE_FULL) && !defined(WS_FENCE_TSAN)
#include <sys/syscall.h>
#include <unistd.h>
#if defined(SYS_membarrier)
#define WS_FENCE_MEMBARRIER
#endif
#if defined(__STRICT_ANSI__) && !defined(__cplusplus)
long syscall(long nr, ...);	/* -std=c99: not declared */
#endif
#endif
/* The includer has usched.h. */

#if defined(WS_FENCE_TSAN)
/* Weak, so that a single copy is in the program, without a .c file. */
__attribute__((weak, visibility("hidden"))) int ws_fence_word;

static __inline__ void ws_fence_full(void)
{
	__atomic_fetch_add(&ws_fence_word, 1, __ATOMIC_SEQ_CST);
}
#else
static __inline__ void ws_fence_full(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}
#endif

#if defined(WS_FENCE_MEMBARRIER)

/* From linux/membarrier.h, which not each libc has. */
enum { WS_FENCE_EXPEDITED = 1 << 3, WS_FENCE_REGISTER = 1 << 4 };

enum { WS_FENCE_UNDECIDED, WS_FENCE_BOTH_FULL, WS_FENCE_ONE_FREE };

/* One copy in the program or library. All but the first value stay (F1). */
__attribute__((weak, visibility("hidden"))) int ws_fence_mode;

/* True: success. Six arguments, as some wrappers of syscall() read so many. */
static __inline__ int ws_fence_call(int what)
{
	return syscall(SYS_membarrier, what, 0, 0, 0, 0, 0) == 0;
}

static __inline__ int ws_fence_decided(void)
{
	return __atomic_load_n(&ws_fence_mode, __ATOMIC_RELAXED);
}

/* Decides. 0: light fences are free. -ENOSYS: they are full, and all works. */
static __inline__ int ws_fence_init(void)
{
	int mode = WS_FENCE_UNDECIDED;
	int ours = ws_fence_call(WS_FENCE_REGISTER) ? WS_FENCE_ONE_FREE :
		WS_FENCE_BOTH_FULL;

	(void)__atomic_compare_exchange_n(&ws_fence_mode, &mode, ours, 0,
					  __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return ws_fence_decided() == WS_FENCE_ONE_FREE ? 0 : -ENOSYS;
}

/* Returns whether light fences are free. After ws_fence_init() that stays. */
static __inline__ int ws_fence_free(void)
{
	return ws_fence_decided() == WS_FENCE_ONE_FREE;
}

static __inline__ void ws_fence_light(void)
{
	if (__builtin_expect(ws_fence_free(), 1))
		__asm__ volatile("" : : : "memory");
	else
		ws_fence_full();
}

/* Registers a child of fork(), which may not be; if it cannot, ends it (F1). */
static __attribute__((noinline, cold, unused)) void ws_fence_again(void)
{
	if (!ws_fence_call(WS_FENCE_REGISTER) ||
	    !ws_fence_call(WS_FENCE_EXPEDITED))
		usched_fail("fence: membarrier() does not work any more");
}

static __inline__ void ws_fence_heavy(void)
{
	int mode = ws_fence_decided();

	if (mode != WS_FENCE_ONE_FREE)
		ws_fence_full();
	if (mode != WS_FENCE_BOTH_FULL && !ws_fence_call(WS_FENCE_EXPEDITED) &&
	    mode == WS_FENCE_ONE_FREE)
		ws_fence_again();
}

#else /* no membarrier() */

static __inline__ int ws_fence_init(void)
{
	return -ENOSYS;
}

static __inline__ int ws_fence_free(void)
{
	return 0;
}

static __inline__ void ws_fence_light(void)
{
	ws_fence_full();
}

static __inline__ void ws_fence_heavy(void)
{
	ws_fence_full();
}

#endif /* WS_FENCE_MEMBARRIER */

#endif /* WS_FENCE_H */
