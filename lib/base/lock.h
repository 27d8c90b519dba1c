/* SPDX-License-Identifier: MIT */
/* lock.h: a lock of one word, for a few instructions. */

#ifndef ULOCK_H
#define ULOCK_H

/*
 * Zeroed is free. A caller that finds it taken spins a little, since the holder
 * needs it for nanoseconds only. Then the holder may have lost its cpu, so the
 * caller sleeps in the system, with its whole processor. So no holder may
 * block, wait or call what it does not know.
 *
 * The caller does not sleep on the lock itself, because the next holder may
 * free that memory. It sleeps at a place in an array, which the address of the
 * lock names. A place is odd while callers sleep there, and changes with each
 * wake. All of them wake then, also those that want another lock.
 *
 *	get, the lock is taken			put
 *
 *	L1 make the place odd			P1 l_state = 0
 *	L2 ufence_heavy()			P2 ufence_light()
 *	L3 exchange l_state for 1; it was	P3 is the place odd?
 *	   0: done				P4 then add 1 to it, unless it has
 *	L4 sleep while the place is as in	   changed, and wake all
 *	   L1; back to L1
 *
 * Let L3 see the 1 of a holder. The P2 of that holder is after L2, or L3 would
 * see its P1 (fence.h). So P3 sees L1, or a place that P4 has changed since. In
 * each case the caller does not stay asleep.
 *
 * Where membarrier(2) works, a get and a put take a single atomic instruction.
 * U. Drepper's lock ("Futexes Are Tricky", 2011, section 6) takes two, as the
 * lock itself says there that callers sleep.
 *
 * Looks at the lock are far apart. So a holder that takes it again at once does
 * so some tens of times between two looks. Otherwise the two would take
 * turns, and each turn moves the cache lines.
 *
 * REJECTED. Looks after each pause, 40 of them: if two hyperthreads fill and
 * drain a channel, a message takes 50 ns instead of 35; with 200 looks, 105 ns.
 * A count of callers that sleep, so that each put wakes until they
 * run: that is a system call for each put meanwhile. A put that loads, and then
 * stores: it may lose a wake.
 */

#include "usched.h"
#include "private/fence.h"
#include "compiler.h"
#include "park.h"

#include <stdint.h>
#include <time.h>

#if !defined(ULOCK_SPINS)
#define ULOCK_SPINS	8
#endif
#define ULOCK_LOOK	1500		/* ns from a look to the next */

struct ulock {
	int l_state;		/* 0 free, 1 taken (atomic) */
};

#if !defined(ULOCK_PLACE)	/* a test has them elsewhere */
#define ULOCK_PLACE(l)	(&ulock_place[(uintptr_t)(l) / 64 % ULOCK_PLACES])
enum { ULOCK_PLACES = 64 };

/* A single copy in the program or library. */
__attribute__((weak, visibility("hidden"), aligned(64)))
int ulock_place[ULOCK_PLACES];		/* atomic */
#endif

/* Fences would order all that release any lock, and hide races from the tool. */
#if defined(UFENCE_TSAN)
#define ULOCK_FENCE(kind)	((void)0)
#define ULOCK_ORDER(order)	__ATOMIC_SEQ_CST
#else
#define ULOCK_FENCE(kind)	ufence_##kind()
#define ULOCK_ORDER(order)	(order)
#endif

/* Passes a moment, in which another processor may do something. */
static inline void ulock_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

/* Returns a point in time, or -1. */
static inline int64_t ulock_clock(void)
{
	struct timespec t;

	return clock_gettime(CLOCK_MONOTONIC, &t) == 0 ?
		(int64_t)t.tv_sec * 1000000000 + t.tv_nsec : -1;
}

/*
 * Passes ns nanoseconds, by the clock: how long a pause is, depends on the cpu.
 * Without a clock that goes on it passes a moment.
 */
static inline void ulock_pass(int64_t ns)
{
	int64_t begin = ulock_clock(), now;

	do {
		ulock_relax();
		now = ulock_clock();
	} while (begin >= 0 && now >= begin && now - begin < ns);
}

static inline bool ulock_try(struct ulock *l)
{
	int was = 0;

	return __atomic_compare_exchange_n(&l->l_state, &was, 1, false,
			__ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static __attribute__((noinline, cold, unused))
void ulock_sleep(struct ulock *l)
{
	int *place = ULOCK_PLACE(l);
	int was;

	for (;;) {
		was = __atomic_fetch_or(place, 1, __ATOMIC_SEQ_CST); /* L1 */
		ULOCK_FENCE(heavy);				/* L2 */
		if (__atomic_exchange_n(&l->l_state, 1,
				ULOCK_ORDER(__ATOMIC_ACQUIRE)) == 0) /* L3 */
			return;
		USCHED_RACE(lock_L4);
		upark_futex_wait(place, was | 1);		/* L4 */
	}
}

static __attribute__((noinline, cold, unused))
void ulock_get_slow(struct ulock *l)
{
	int i;

	for (i = 0; i < ULOCK_SPINS; i++) {
		ulock_pass(ULOCK_LOOK);
		if (__atomic_load_n(&l->l_state, __ATOMIC_RELAXED) == 0 &&
		    ulock_try(l))
			return;
	}
	ulock_sleep(l);
}

static inline void ulock_get(struct ulock *l)
{
	if (!likely(ulock_try(l)))
		ulock_get_slow(l);
}

/* Wakes all at a place, which was odd. */
static __attribute__((noinline, cold, unused))
void ulock_wake(int *place, int was)
{
	if (__atomic_compare_exchange_n(place, &was, (int)(was + 1u), false,
			__ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {	/* P4 */
		USCHED_RACE(lock_wake);
		upark_futex_wake(place);
	}
}

static inline void ulock_put(struct ulock *l)
{
	int *place = ULOCK_PLACE(l);
	int was;

	__atomic_store_n(&l->l_state, 0, ULOCK_ORDER(__ATOMIC_RELEASE)); /* P1 */
	ULOCK_FENCE(light);					/* P2 */
	was = __atomic_load_n(place, ULOCK_ORDER(__ATOMIC_RELAXED)); /* P3 */
	if (unlikely(was & 1))
		ulock_wake(place, was);
}

#endif /* ULOCK_H */
