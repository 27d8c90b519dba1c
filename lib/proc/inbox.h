/* SPDX-License-Identifier: MIT */
/* inbox.h: an intrusive list with many producers and one consumer. */

#ifndef UINBOX_H
#define UINBOX_H

/*
 * First in, first out. A post is one atomic exchange. After D. Vyukov,
 * "Intrusive MPSC node-based queue" (1024cores.net), with the stub node.
 *
 *	i_head                                   i_tail
 *	  |                                        |
 *	  v                                        v
 *	+------+   +------+            +------+  +------+
 *	| next |-->| next |--> ...     | next |  | NULL |
 *	+------+   +------+            +------+  +------+
 *	                               ^ not linked yet: its producer is between
 *	                                 the exchange and the store
 *
 *	operation     who may call             against a post at the same time
 *	uinbox_init   the maker, before all    -
 *	uinbox_post   any thread, or signal    either order
 *	              handler
 *	uinbox_take   the owner                the post is seen now or later
 *	uinbox_empty  any thread               see the function
 *
 * Callers keep two rules. A producer posts a node only while the node is in no
 * inbox: in wakes.h this is the waker that has found a count of 0. The node
 * lives until the owner has taken it. uinbox_take() does not touch a node that
 * it has returned.
 *
 * A producer may lose its cpu between the exchange and the store. Its post is
 * then half-way, and hides all later posts until the producer goes on.
 * Meanwhile uinbox_take() may return NULL, and uinbox_empty() is false.
 *
 * ORDERS
 *
 *	R1  the release in uinbox_post() pairs with A1
 *	A1  the acquire in uinbox_take(): the owner sees what was written
 *	    before the post
 *	R2  the exchange releases the node's cleared link to the next producer
 *	A2  the same exchange acquires the link that the producer before has
 *	    cleared
 *
 * The exchange is sequentially consistent, because parking (park.h) needs it to
 * come before a look at the sleeper's state.
 */

#include <stddef.h>

/* Stands between two steps that others may come between: tests delay there. */
#if !defined(USCHED_RACE)
#define USCHED_RACE(step)	((void)0)
#endif

struct uinbox_node {
	struct uinbox_node *n_next;
};

struct uinbox {
	/* The producers'; while there is no node, the owner looks at the stub. */
	struct uinbox_node *i_tail __attribute__((aligned(64)));
	struct uinbox_node  i_stub;
	/* The owner's. */
	struct uinbox_node *i_head __attribute__((aligned(64)));
};

static __inline__ void uinbox_init(struct uinbox *i)
{
	i->i_stub.n_next = NULL;
	i->i_head = i->i_tail = &i->i_stub;
}

static __inline__ void uinbox_post(struct uinbox *i, struct uinbox_node *n)
{
	struct uinbox_node *before;

	__atomic_store_n(&n->n_next, NULL, __ATOMIC_RELAXED);
	USCHED_RACE(inbox_R2);
	before = __atomic_exchange_n(&i->i_tail, n, __ATOMIC_SEQ_CST); /* R2 A2 */
	USCHED_RACE(inbox_R1);
	__atomic_store_n(&before->n_next, n, __ATOMIC_RELEASE);	/* R1 */
}

/* Moves the head. Owner only. Atomic, because uinbox_empty() reads it too. */
static __inline__ void uinbox_move(struct uinbox *i, struct uinbox_node *head)
{
	__atomic_store_n(&i->i_head, head, __ATOMIC_RELAXED);
}

static __inline__ struct uinbox_node *uinbox_take(struct uinbox *i)
{
	struct uinbox_node *head = i->i_head;
	struct uinbox_node *next = __atomic_load_n(&head->n_next,
						   __ATOMIC_ACQUIRE); /* A1 */
	if (head == &i->i_stub) {
		if (next == NULL)
			return NULL;
		uinbox_move(i, next);
		head = next;
		next = __atomic_load_n(&head->n_next, __ATOMIC_ACQUIRE);
	}
	if (next == NULL) {
		USCHED_RACE(inbox_last);
		/* head is the last node, or its successor is not linked yet. */
		if (__atomic_load_n(&i->i_tail, __ATOMIC_ACQUIRE) != head)
			return NULL;
		USCHED_RACE(inbox_stub);
		uinbox_post(i, &i->i_stub);
		USCHED_RACE(inbox_A1);
		next = __atomic_load_n(&head->n_next, __ATOMIC_ACQUIRE);
		if (next == NULL)
			return NULL;
	}
	uinbox_move(i, next);
	return head;
}

/*
 * Returns whether no node was posted. Owner: false if a post happens before,
 * even if the last post is half-way. Others: a hint, as the owner may take.
 */
static __inline__ int uinbox_empty(struct uinbox *i)
{
	return __atomic_load_n(&i->i_tail, __ATOMIC_SEQ_CST) == &i->i_stub &&
	       __atomic_load_n(&i->i_head, __ATOMIC_RELAXED) == &i->i_stub;
}

#endif /* UINBOX_H */
