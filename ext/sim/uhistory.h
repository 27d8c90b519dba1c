/* SPDX-License-Identifier: MIT */
/* uhistory.h: calls and results of clients, and whether an order explains them. */

#ifndef UHISTORY_H
#define UHISTORY_H

/*
 * A store with copies on several hosts should look as if it had no copies: each
 * operation happens at once, at some point between its call and its return. Such
 * a store is linearizable. Clients note here what they call and what comes back.
 * Then uhistory_check() looks for an order of all operations that explains every
 * result. If there is none, the store has lost, doubled or reordered something.
 *
 * SHORTEST USE
 *
 *	struct uhistory *h = uhistory_make();
 *
 *	op = uhistory_call(h, UHISTORY_WRITE, key, value, 0);
 *	if (store_write(key, value) == 0)
 *		uhistory_return(h, op, 0);
 *
 *	op = uhistory_call(h, UHISTORY_READ, key, 0, 0);
 *	if (store_read(key, &value) == 0)
 *		uhistory_return(h, op, value);
 *
 *	if (uhistory_check(h, why, sizeof why) != 0)
 *		usim_fail("%s", why);
 *
 * Then why is, in one line:
 *
 *	key 3: z read -> 7 (3.104311 to 3.110200 s) fits into no order: before it
 *	x write 9 (2.981002 to 2.990000 s); 7 is of y write 7 (1.200000 to 1.300000 s)
 *
 * An operation without an answer does not return. It may have happened at any
 * time since its call, or never, and the check takes all of that for possible.
 *
 * WHO MAY CALL WHAT
 *
 * Any thread may call everything here, but calls for one history must not
 * overlap. Nothing blocks. In a simulation the clients of a run share a history
 * by a static variable. Real programs hold a lock around the calls.
 *
 * CAVEATS
 *
 * Keys are independent of each other: an operation has one key. The search takes
 * time and memory exponential in the operations that overlap, in the worst case.
 * Many operations on the same key that never return are such a case.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Operations. A key is a register, 0 at first, or it is an element of a set, not
 * in the set at first. No key is both.
 */
enum uhistory_kind {
	UHISTORY_READ,		/* result: the value */
	UHISTORY_WRITE,		/* the value is a; the result is ignored */
	UHISTORY_SWAP,		/* if the value is b, it is a: 1. Else 0 */
	UHISTORY_ADD,		/* to the set. Result: 1; 0: it was in */
	UHISTORY_REMOVE,	/* from the set. Result: 1; 0: it was not in */
	UHISTORY_HAS		/* result: whether it is in the set */
};

struct uhistory;

/* Returns a history without operations. NULL: no memory. */
struct uhistory *uhistory_make(void);

/* Frees a history. */
void uhistory_free(struct uhistory *h);

/* Notes a call. Returns the number of the operation, from 0 on. -ENOMEM. */
long uhistory_call(struct uhistory *h, enum uhistory_kind kind, uint64_t key,
		   uint64_t a, uint64_t b);

/*
 * Names the client of an operation, for the words of a check. The name stays the
 * caller's. A thread of a simulated host need not: the client is its host.
 */
void uhistory_client(struct uhistory *h, long op, const char *client);

/*
 * Notes that an operation has returned, with its result. A number below 0 is
 * ignored.
 */
void uhistory_return(struct uhistory *h, long op, uint64_t result);

/*
 * Looks for an order. 0: there is one. 1: there is none, and why, of 300 bytes or so,
 * says an operation that fits into no order, and what contradicts it: client, call,
 * result, times since the start. -ENOMEM. -E2BIG: the search has met millions of
 * states, and was given up.
 */
int uhistory_check(const struct uhistory *h, char *why, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* UHISTORY_H */
