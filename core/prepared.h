/* SPDX-License-Identifier: MIT */
/* core/prepared.h: threads that the scheduler has prepared (core/sched.h). */

/* The most of a slice that is fetched. */
#define WHOLE		4096

/* Returns the prepared thread that prepared_take() would take, or NULL. */
static ALWAYS_INLINE struct ustack *prepared(const struct usched *s)
{
	const struct usched_queue *q = s->s_queue;
	struct ustack *first;

	if (s->s_left == 0)
		return NULL;
	if (s->s_hot != NULL)
		return s->s_hot;
	if (q == NULL || q->q_head == q->q_tail)
		return NULL;
	first = q->q_ring[q->q_head & q->q_mask];
	if (first == NULL)
		__builtin_unreachable();
	return first;
}

/*
 * Fetches to the cache a thread that will be taken from q soon; and of a thread
 * nearer to the head, the buffer, or the top of the slice.
 */
static ALWAYS_INLINE void fetch(const struct usched *s,
				const struct usched_queue *q)
{
	unsigned far = q->q_head + s->s_ahead - 1;
	uintptr_t thread = (uintptr_t)q->q_ring[far & q->q_mask];
	const struct ustack *near;
	const char *at;
	int i;

	near = q->q_ring[(q->q_head + s->s_ahead / 2) & q->q_mask];
	/* A slice in its lane is worth more than a buffer. Both may be NULL. */
	at = (uintptr_t)near->u_top & AWAY ? near->u_stack : near->u_top;
	/* Threads that were made together often wake each other. */
	__builtin_prefetch((const void *)thread, 1);
	__builtin_prefetch((const void *)(thread ^ LINE), 1);
	__builtin_prefetch(at, 1);
	__builtin_prefetch(at + LINE, 1);
	if (likely(near->u_len <= 2 * LINE) || !((uintptr_t)near->u_top & AWAY))
		return;
	for (i = 2 * LINE; i < near->u_len && i < WHOLE; i += LINE) {
		__asm__ volatile("" : "+r"(i));	/* or gcc leaves it out */
		__builtin_prefetch(at + i, 1);
	}
}

/* Takes the prepared thread; there is one. s_ahead 0: - 1 wraps, no fetch. */
static ALWAYS_INLINE void prepared_take(struct usched *s)
{
	struct usched_queue *q = s->s_queue;

	s->s_left--;
	if (s->s_hot != NULL) {
		s->s_hot = NULL;
		return;
	}
	if (q->q_tail - q->q_head > s->s_ahead - 1)
		fetch(s, q);
	__atomic_store_n(&q->q_head, q->q_head + 1, __ATOMIC_RELAXED);
}
