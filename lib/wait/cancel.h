/* SPDX-License-Identifier: MIT */
/* cancel.h: how a cancellation finds the wait of a thread. Private. */

#ifndef UCANCEL_H
#define UCANCEL_H

/*
 * A thread in a scope shows the record of its wait to cancellations, in a
 * slot: one word. A cancellation takes the record out, and claims it. The
 * scope has a flag, which stays set, and a lock, which only cancellations take
 * here.
 *
 *	the waiter			a cancellation, which holds the lock
 *
 *	E1 slot = record		K1 set the flag
 *	E2 is the flag set? then	K2 record = exchange slot for NULL
 *	   L, and it does not wait	K3 claim the record
 *	   ... it waits ...		   ... releases the lock ...
 *	L1 exchange slot for NULL	K4 complete the record
 *	L2 if it was NULL already:
 *	   get and release the lock
 *	   ... it frees the record ...
 *
 * E1, E2, K1 and K2 have an order (seq_cst). If E2 comes before K1, E1 comes
 * before K2, which finds the record. So no wait misses the cancellation. The
 * waiter frees the record after L only. If K2 has taken it, L2 waits until K3
 * is done; then either K3 has claimed it, and the waiter also waits for K4
 * (uwait.h), or no cancellation touches it any more.
 *
 * So a wait costs two atomic instructions, and the lock only if it is
 * cancelled.
 *
 *	operation       who may call		against ucancel_take()
 *	ucancel_enter   the thread of the slot	taken, or not begun
 *	ucancel_leave   the thread of the slot	waits for the claim
 *	ucancel_set     holder of the lock	excluded by the lock
 *	ucancel_take    holder of the lock	excluded by the lock
 *
 * REJECTED: the lock around E1 and E2, and around L1, which would be four
 * atomic instructions, and threads of a scope would wait for each other.
 */

#include "lock.h"
#include "uwait.h"

/* Returns why waits are cancelled, or 0. Any thread. */
static inline int ucancel_why(const int *flag)
{
	return __atomic_load_n(flag, __ATOMIC_SEQ_CST);
}

/* Shows w. False: the flag is set, so w shall not wait. Then leave, too. */
static inline bool ucancel_enter(struct uwait **slot, struct uwait *w,
				 const int *flag)
{
	__atomic_store_n(slot, w, __ATOMIC_SEQ_CST);		/* E1 */
	USCHED_RACE(cancel_E2);
	return ucancel_why(flag) == 0;				/* E2 */
}

/* Hides the record. From the return on no cancellation touches it. */
static inline void ucancel_leave(struct uwait **slot, struct ulock *lock)
{
	if (__atomic_exchange_n(slot, NULL, __ATOMIC_RELAXED) != NULL)
		return;						/* L1 */
	ulock_get(lock);					/* L2 */
	ulock_put(lock);
}

/* Sets the flag to why, which is not 0. Caller holds the lock. */
static inline void ucancel_set(int *flag, int why)
{
	__atomic_store_n(flag, why, __ATOMIC_SEQ_CST);		/* K1 */
	USCHED_RACE(cancel_K2);
}

/*
 * Returns the record of a slot, claimed, or NULL. The caller completes it (K4)
 * after it has released the lock. Caller holds the lock, and has set the flag.
 */
static inline struct uwait *ucancel_take(struct uwait **slot)
{
	struct uwait *w = __atomic_exchange_n(slot, NULL,
					      __ATOMIC_SEQ_CST); /* K2 */

	USCHED_RACE(cancel_K3);
	return w != NULL && uwait_claim(w) ? w : NULL;		/* K3 */
}

#endif /* UCANCEL_H */
