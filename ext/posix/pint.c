/* SPDX-License-Identifier: MIT */
/* pint.c: the pthread face: spin locks, and once, which are an int. */

/*
 * An int has no room for a queue. Its waiters wait for a condition, of which
 * there is one for each place in a table by address. For a spin lock 1 is
 * taken, and 2 is taken and others wait; so a thread never spins here. For
 * once, 1 is running, and 2 is done.
 *
 * INVARIANT
 *
 * K2. Of an int that is 2, each change to 0 is followed by a broadcast, under
 *     the lock of its place. A waiter makes it 2 under the same lock.
 */

/* The clean-up handler of pthread_once() is the face's. */
#pragma redefine_extname __pthread_register_cancel __wrap___pthread_register_cancel
#pragma redefine_extname __pthread_unregister_cancel __wrap___pthread_unregister_cancel
#pragma redefine_extname __pthread_unwind_next __wrap___pthread_unwind_next
#pragma redefine_extname _pthread_cleanup_push __wrap__pthread_cleanup_push
#pragma redefine_extname _pthread_cleanup_pop __wrap__pthread_cleanup_pop
#include "plocks.h"

#include <errno.h>

UPREEMPT_NEVER;

_Static_assert(sizeof(pthread_once_t) == sizeof(int) &&
	       sizeof(pthread_spinlock_t) == sizeof(int), "an int");
#if defined(__GLIBC__)
_Static_assert(PTHREAD_ONCE_INIT == 0, "once begins as 0");
#endif

struct pface_place pface_places[PFACE_PLACES];
__thread unsigned pface_looks;

void pface_place_lock(struct pface_place *p)
{
	int rc;

	PFACE_INSIST(rc, umutex_lock(&p->i_lock, UNEVER));
}

void pface_place_wait(struct pface_place *p)
{
	int rc;

	PFACE_INSIST(rc, ucond_wait(&p->i_cond, &p->i_lock, UNEVER));
}

void pface_place_wake(struct pface_place *p)
{
	pface_place_lock(p);
	ucond_broadcast(&p->i_cond);
	pface_place_unlock(p);
}

/* Spin locks, which wait. */

int FACE(pthread_spin_init)(pthread_spinlock_t *s, int shared)
{
	if (shared != PTHREAD_PROCESS_PRIVATE)
		return ENOTSUP;
	*s = 0;
	return 0;
}

int FACE(pthread_spin_destroy)(pthread_spinlock_t *s)
{
	return __atomic_load_n(s, __ATOMIC_RELAXED) != 0 ? EBUSY : 0;
}

static bool spin_take(pthread_spinlock_t *s)
{
	int is_free = 0;

	return __atomic_compare_exchange_n(s, &is_free, 1, false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

int FACE(pthread_spin_trylock)(pthread_spinlock_t *s)
{
	return pface_tried(spin_take(s) ? 0 : -EAGAIN);
}

int FACE(pthread_spin_lock)(pthread_spinlock_t *s)
{
	struct pface_place *p = pface_place_of(s);

	pface_look();
	if (likely(spin_take(s)))
		return 0;
	pface_place_lock(p);
	while (__atomic_exchange_n(s, 2, __ATOMIC_ACQUIRE) != 0)
		pface_place_wait(p);					/* K2 */
	pface_place_unlock(p);
	return 0;
}

int FACE(pthread_spin_unlock)(pthread_spinlock_t *s)
{
	struct pface_place *p = pface_place_of(s);

	if (__atomic_exchange_n(s, 0, __ATOMIC_RELEASE) == 2)
		pface_place_wake(p);
	return 0;
}

/* Once. */

enum { FRESH, RUNS, DONE };

static void once_set(pthread_once_t *once, int state)
{
	__atomic_store_n((int *)once, state, __ATOMIC_RELEASE);
	pface_place_wake(pface_place_of(once));
}

/* If f() is cancelled, once is as before. */
static void once_undo(void *once)
{
	once_set(once, FRESH);
}

int FACE(pthread_once)(pthread_once_t *once, void (*f)(void))
{
	struct pface_place *p = pface_place_of(once);
	int *at = (int *)once;
	int was;

	if (likely(__atomic_load_n(at, __ATOMIC_ACQUIRE) == DONE))
		return 0;
	pface_place_lock(p);
	while ((was = __atomic_load_n(at, __ATOMIC_ACQUIRE)) == RUNS)
		pface_place_wait(p);
	if (was == FRESH)
		__atomic_store_n(at, RUNS, __ATOMIC_RELAXED);
	pface_place_unlock(p);
	if (was != FRESH)
		return 0;
	pthread_cleanup_push(once_undo, once);
	f();
	pthread_cleanup_pop(0);
	once_set(once, DONE);
	return 0;
}
