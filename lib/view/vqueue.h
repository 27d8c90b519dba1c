/* SPDX-License-Identifier: MIT */
/* vqueue.h: lengths of the queues of a program. Not API. */

#ifndef UVIEW_QUEUE_H
#define UVIEW_QUEUE_H

#include "vtap.h"
#include "uwait.h"

/* A queue begins; ends, which a notes, that is busy, or NULL. Any native thread. */
HIDDEN void uview_queue_add(const struct uwait_queue *q);
HIDDEN void uview_queue_remove(const void *at, struct uview_tap *a);

/* Notes those that have changed. Owner of the tap only, while it is busy. */
HIDDEN void uview_queues_look(struct uview_tap *a, uint64_t time);

/* Forgets all, in a child of fork(). */
HIDDEN void uview_queues_renew(void);

#endif /* UVIEW_QUEUE_H */
