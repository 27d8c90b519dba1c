/* SPDX-License-Identifier: MIT */
/* vturn.h: turns of threads that only give way. A part of vswitch.c. */

/*
 * format.h, TURNS, says what is recorded. A turn is a run that ends by giving way,
 * while nothing else has been recorded. The first is RUN and STOP, and makes its
 * thread a taker. From the second on a taker has three records, and its turn is a
 * store to one of them when it begins, and to another when it ends:
 *
 *	started()	K1 b_head is the ring's head: nothing else has happened
 *			K2 the thread is a taker: no RUN; b_now
 *	uview_put()	K3 b_now >= 0: this is no turn. RUN goes first
 *	stopped()	K4 b_now >= 0, and it gives way: no STOP
 *
 * So takers are found only where the last records were turns, too. A run that is no
 * turn costs one comparison more (K1).
 */

#include "vtap.h"
#include "compiler.h"

/* Returns the record with this number, which is in the ring. */
static inline struct uview_record *record_nth(const struct uview_tap *a, uint64_t nr)
{
	return &a->a_ring.g_at[nr & a->a_ring.g_mask];
}

/* The thread of k begins to take turns, of which this is the first here. */
static void taker_begins(struct uview_tap *a, struct uring_writer *n,
			 struct uview_taker *k, uint64_t time)
{
	k->k_at = n->n_head;
	k->k_nr = k->k_ticks = 0;
	uring_write(n, time, UVIEW_NOTE, UVIEW_TURN, k->k_word);
	uring_write(n, time, UVIEW_NOTE, UVIEW_TURNS, 0);
	uring_write(n, time, UVIEW_NOTE, UVIEW_TURN_LAST, time);
	a->a_turns.b_head = n->n_head;
}

/* Returns whether the run of word, which begins, is a turn so far (K2). */
static NOINLINE bool turn_begins(struct uview_tap *a, struct uring_writer *n,
				 uint64_t time, uint64_t word, unsigned ready)
{
	struct uview_turns *b = &a->a_turns;
	struct uview_taker *k = b->b_taker;
	int i, tries;

	if (n->n_head == 0)
		return false;
	for (tries = 0, i = b->b_last; tries < b->b_nr; tries++) {
		i = i + 1 < b->b_nr ? i + 1 : 0;
		if (k[i].k_word == word)
			break;
	}
	if (tries == b->b_nr)
		return false;
	if (k[i].k_at == 0)
		taker_begins(a, n, &k[i], time);
	else
		__atomic_store_n(&record_nth(a, k[i].k_at + 2)->ve_word[1], time,
				 __ATOMIC_RELEASE);
	b->b_now   = b->b_last = i;
	b->b_since = time;
	b->b_ready = ready;
	return true;
}

void uview_turn_breaks(struct uview_tap *a)
{
	struct uview_turns *b = &a->a_turns;
	uint64_t word = b->b_taker[b->b_now].k_word;

	b->b_now = -1;
	uring_put(&a->a_ring, b->b_since, UVIEW_RUN, uview_ready_code(b->b_ready),
		  word);
}

/* The turn that goes on is over at this time. */
static void turn_ends(struct uview_tap *a, uint64_t time)
{
	struct uview_turns *b = &a->a_turns;
	struct uview_taker *k = &b->b_taker[b->b_now];

	k->k_nr++;
	k->k_ticks += time - b->b_since;
	__atomic_store_n(&record_nth(a, k->k_at + 1)->ve_word[1],
			 uview_turns_word(k->k_nr, k->k_ticks), __ATOMIC_RELEASE);
	b->b_now = -1;
}

/*
 * A run gives way, and its STOP will be record number head: if nothing comes before,
 * its thread may be a taker.
 */
static NOINLINE void taker_see(struct uview_tap *a, uint64_t head, uint64_t word)
{
	struct uview_turns *b = &a->a_turns;
	const struct uview_record *run = record_nth(a, head - 1);
	int i;

	if (b->b_now >= 0 || head < 2 || (run->ve_word[0] >> 12 & 15) != UVIEW_RUN ||
	    run->ve_word[1] != word)
		return;
	if (head - 1 != b->b_head || b->b_nr == UVIEW_TAKERS)
		b->b_nr = b->b_last = 0;
	for (i = 0; i < b->b_nr && b->b_taker[i].k_word != word; i++)
		;
	if (i == b->b_nr)
		b->b_taker[b->b_nr++].k_word = word;
	b->b_head = head + 1;
	for (i = 0; i < b->b_nr; i++)		/* records behind this STOP */
		b->b_taker[i].k_at = 0;
}
