/* SPDX-License-Identifier: MIT */
/* room.h: room in the queue for all threads of a processor. A part of uproc.c. */

#ifndef UPROC_ROOM_H
#define UPROC_ROOM_H

/*
 * A wake cannot fail, so p_queue must have room for all threads of the
 * processor. Making a thread first increments p_threads. If it then exceeds
 * p_room, the maker allocates a larger ring (p_ring); if it cannot, no thread
 * is made. The owner moves its queue to the ring before it puts the thread in
 * the queue.
 *
 * P1. Threads of p in p_queue <= p_threads <= p_room; a ring with p_room
 *     places is p_queue or p_ring.
 *
 * REJECTED
 *
 * A queue linked through the threads: it does not show which thread to prefetch.
 */

#include "uproc_inside.h"

#include <stdlib.h>

#define RING_MAX	(1u << 31)

/* Counts another thread of p, and makes room for it (P1). False: no memory. */
static bool room_get(struct uproc *p)
{
	unsigned nr = __atomic_add_fetch(&p->p_threads, 1, __ATOMIC_RELAXED);
	struct ustack **ring;
	unsigned room;

	/* Acquire: pairs with the release below, so p_ring is seen too. */
	if (nr <= __atomic_load_n(&p->p_room, __ATOMIC_ACQUIRE))
		return true;
	pthread_mutex_lock(&p->p_set->set_lock);
	for (room = p->p_room; room < nr && room < RING_MAX; )
		room *= 2;
	if (room > p->p_room && nr <= room) {
		ring = umem_array(room);
		if (ring != NULL) {
			free(p->p_ring);
			p->p_ring = ring;
			__atomic_store_n(&p->p_room, room, __ATOMIC_RELEASE);
		}
	}
	room = p->p_room;
	pthread_mutex_unlock(&p->p_set->set_lock);
	if (nr <= room)
		return true;
	__atomic_fetch_sub(&p->p_threads, 1, __ATOMIC_RELAXED);
	return false;
}

/* Moves the queue to the larger ring, if there is one. Owner only. */
static void ring_move(struct uproc *p)
{
	struct usched_queue *q = &p->p_queue;
	struct ustack **old;

	if (__atomic_load_n(&p->p_room, __ATOMIC_ACQUIRE) == q->q_mask + 1)
		return;
	pthread_mutex_lock(&p->p_set->set_lock);
	old = uproc_queue_move(q, p->p_ring, p->p_room - 1);
	p->p_ring = NULL;
	pthread_mutex_unlock(&p->p_set->set_lock);
	free(old);
}

#endif /* UPROC_ROOM_H */
