/* SPDX-License-Identifier: MIT */
/* m_ring.c: scenarios of vring.h. */

#include "model.h"
#include "vring.h"

#define ROOM	2
#define MOST	4			/* records */

static struct {
	struct uview_ring   head;
	struct uview_record at[ROOM];
	struct uring        ring;
} s;

static void init(void)
{
	s.ring.g_at   = s.at;
	s.ring.g_mask = ROOM - 1;
	s.ring.g_ring = &s.head;
	NAME(s.head.vr_head);
	NAME(s.at[0].ve_word[0]);
	NAME(s.at[0].ve_word[1]);
	NAME(s.at[1].ve_word[0]);
	NAME(s.at[1].ve_word[1]);
}

/* Record n says n + 1 in both words. */
static void writes(uint64_t nr)
{
	uint64_t n;

	for (n = s.ring.g_head; n < nr; n++)
		uring_put(&s.ring, n + 1, 0, 0, n + 1);
}

/* As records_get() in vcopy.c. */
static void reads(void)
{
	uint64_t head = __atomic_load_n(&s.head.vr_head, __ATOMIC_ACQUIRE);
	uint64_t begin = uring_begin(head, ROOM, 0), word[ROOM][2];
	uint64_t n, whole;

	for (n = begin; n < head; n++) {			/* vring R2 */
		word[n - begin][0] = __atomic_load_n(
			&s.at[n % ROOM].ve_word[0], __ATOMIC_RELAXED);
		word[n - begin][1] = __atomic_load_n(
			&s.at[n % ROOM].ve_word[1], __ATOMIC_RELAXED);
	}
	__atomic_thread_fence(__ATOMIC_ACQUIRE);		/* vring R3 */
	whole = uring_whole(begin, head, ROOM,
			    __atomic_load_n(&s.head.vr_head, __ATOMIC_RELAXED));
	MUST(whole >= begin && whole <= head);
	for (n = whole; n < head; n++)
		MUST(word[n - begin][0] >> 16 == n + 1 &&
		     word[n - begin][1] == n + 1);
}

static void two(void)	{ writes(2); }
static void three(void)	{ writes(3); }
static void four(void)	{ writes(MOST); }

static void before(void)
{
	init();
	writes(2);
}

const struct model_scenario scenarios[] = {
	{ "ring: a reader, two records", MODEL_ANY, MODEL_ANY, 0, &s, sizeof s, init,
	  { two, reads }, NULL },
	{ "ring: a reader of a full ring, two more", MODEL_ANY, MODEL_ANY, 0, &s,
	  sizeof s, before, { four, reads }, NULL },
	{ "ring: two readers, a record more than room", 2, MODEL_ANY, 0, &s, sizeof s,
	  init, { three, reads, reads }, NULL },
	{ NULL, 0, 0, 0, NULL, 0, NULL, { NULL }, NULL }
};
