/* SPDX-License-Identifier: MIT */
/* lock.h: a lock of one word, for a few instructions. */

#ifndef ULOCK_H
#define ULOCK_H

/*
 * Zeroed is free. Whoever finds it taken spins a little, since the holder needs
 * it for nanoseconds only. Then the holder may have lost its cpu, so the caller
 * sleeps in the system, with its whole processor. So no holder may block, wait
 * or call what it does not know. After U. Drepper, "Futexes Are Tricky" (2011),
 * section 6.
 *
 *	0 free, 1 taken, 2 taken, and others may sleep
 *
 * ulock_put() passes only the address to the system after the lock is free. So
 * the next holder may free the memory of the lock.
 */

#include "park.h"

#if !defined(ULOCK_SPINS)
#define ULOCK_SPINS	40
#endif

struct ulock {
	int l_state;		/* atomic */
};

/* Passes a moment, in which another processor may do something. */
static __inline__ void ulock_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

static __inline__ bool ulock_try(struct ulock *l)
{
	int was = 0;

	return __atomic_compare_exchange_n(&l->l_state, &was, 1, false,
			__ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static __attribute__((noinline, cold, unused))
void ulock_get_slow(struct ulock *l)
{
	int i;

	for (i = 0; i < ULOCK_SPINS; i++) {
		ulock_relax();
		if (__atomic_load_n(&l->l_state, __ATOMIC_RELAXED) == 0 &&
		    ulock_try(l))
			return;
	}
	while (__atomic_exchange_n(&l->l_state, 2, __ATOMIC_ACQUIRE) != 0) {
		USCHED_RACE(56);
		upark_futex_wait(&l->l_state, 2);
	}
}

static __inline__ void ulock_get(struct ulock *l)
{
	if (!__builtin_expect(ulock_try(l), 1))
		ulock_get_slow(l);
}

static __inline__ void ulock_put(struct ulock *l)
{
	int *word = &l->l_state;

	if (__builtin_expect(__atomic_exchange_n(word, 0, __ATOMIC_RELEASE) ==
			     2, 0)) {
		USCHED_RACE(57);
		upark_futex_wake(word);
	}
}

#endif /* ULOCK_H */
