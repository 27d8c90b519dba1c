/* SPDX-License-Identifier: MIT */
/* core/buffer.h: buffers of slices. */

/*
 * THE BOTTOM OF A SLICE
 *
 * usched_launch() clears the registers that a function has to save, and most
 * functions save them first of all. So the bottom of most slices is the same: a
 * return address into usched_launch() and some words of zero, up to 56 bytes on
 * x86-64, where the rest of a small slice is 64. These are prologue words. A
 * buffer may leave them out (SHORT in u_len), because each block then checks
 * that they are still as a prologue leaves them. When a slice is copied in,
 * they are written first.
 *
 * A function that blocks in place need not save rbx and rbp, so a slice may
 * have a prologue word or two less. A thread that is alone in its lane is given
 * a buffer for the whole slice: the buffer is not used, and its blocks need not
 * look at the bottom.
 *
 * RESERVATION
 *
 * Some waits can neither be refused nor undone, because the caller has given
 * something up before: a mutex, a job to another native thread. Such a caller
 * reserves its buffer first, with usched_reserve(), for all blocks from its own
 * depth down to some bytes below:
 *
 *	bytes below |<------- more ------->| caller | ... | U->u_f() |
 *	            ^                      ^                         ^
 *	            deepest block   usched_reserve()          L->l_bottom
 *	            |<---------------- u_len, at least -------------->|
 *
 * A block gets another buffer if its slice is longer than u_len, or shorter by
 * more than USCHED_SLACK. The reservation sets u_len so that neither is true of
 * any block between the two marks. So it lasts until the thread has blocked
 * elsewhere, however often it blocks there before, and whether it blocks at
 * all. The buffer is for the whole slice, because the lowest frame may be that
 * of the caller, which may still change what are prologue words now.
 */

/*
 * Are nob bytes at the bottom of the lane as usched_launch() and a prologue
 * leave them? nob is at most PROLOGUE, and may be negative. Words that some
 * functions do not save are compared only if they are among the nob bytes.
 */
static ALWAYS_INLINE int is_prologue(const struct usched_lane *l, ptrdiff_t nob)
{
	const uintptr_t *at = (uintptr_t *)(l->l_bottom - PROLOGUE);
	uintptr_t diff = 0;
	int i;

#pragma GCC unroll 16
	for (i = PROLOGUE_MORE; i < prologue_nr(); i++) {
		diff |= at[i] ^ prologue_words()[i];
		/* By words: the store buffer serves no wider load. */
		__asm__("" : "+r"(diff));
	}
	if (PROLOGUE_MORE == 2) {
		diff |= nob > PROLOGUE - 2 * WORD ? at[1] : 0;
		diff |= nob > PROLOGUE - WORD ? at[0] : 0;
	}
	return diff == 0;
}

/*
 * Does the buffer lack no more of the slice than prologue words (usched I7)?
 * spare: the bytes that it has beyond the slice, less than 0 if it is shorter.
 */
static ALWAYS_INLINE int is_short(const struct usched *s,
				  const struct ustack *u,
				  const struct usched_lane *l, ptrdiff_t spare)
{
	return spare < 0 && spare >= -s->s_prologue &&
	       u->u_len & SHORT && u->u_len >= PAIR &&
	       is_prologue(l, -spare);
}

/* Returns how many bytes of a slice need no place in its buffer. */
static ptrdiff_t prologue_most(const struct usched_lane *l)
{
	ptrdiff_t nob = PROLOGUE;

	while (nob > PROLOGUE - PROLOGUE_MORE * WORD && !is_prologue(l, nob))
		nob -= WORD;
	return is_prologue(l, nob) ? nob : 0;
}

/*
 * Does the buffer, as it is, serve each block whose slice has at most need bytes, and
 * at least need - more?
 */
static inline int keeps(const struct ustack *u, ptrdiff_t need, int more)
{
	return (size_t)(u->u_len - need) <= (size_t)(USCHED_SLACK - more);
}

/* Gives u a buffer of nob bytes. Nothing changes if that fails: usched I5. */
static int buffer_get(struct ustack *u, ptrdiff_t nob)
{
	struct usched *s = u->u_sched;
	void *old = u->u_stack;
	int len = u->u_len;
	void *buf = nob <= INT_MAX ? s->s_alloc(s, buffer_size((int)nob)) : NULL;

	if (buf == NULL)
		return -ENOMEM;
	u->u_stack = buf;
	u->u_len   = (int)nob;
	if (old != NULL)
		s->s_free(s, old, buffer_size(len));	/* may jump: usched I8 */
	return 0;
}

/*
 * Gets a buffer for a slice of need bytes, less its prologue words (usched I7),
 * or a smaller buffer in place of a buffer that has become far too large. If
 * that fails, the thread keeps the large buffer until it blocks elsewhere.
 */
static NOINLINE int buffer_fit(struct ustack *u, struct usched_lane *l,
			       ptrdiff_t need)
{
	struct usched *s = u->u_sched;
	int len = u->u_len;
	ptrdiff_t nob;

	if (note_depth(s, u, need) && needs_no_buffer(u)) {
		private_fit(u, l, need);
		return 0;
	}
	if (l->l_bound > 1 && need >= PROLOGUE + PAIR && s->s_prologue != 0 &&
	    (nob = prologue_most(l)) != 0)
		nob = (need - nob) | SHORT;
	else
		nob = need;
	/* If that fails, a buffer that is too large still serves. */
	return buffer_get(u, nob) == 0 || need <= len ? 0 : -ENOMEM;
}

/*
 * Makes u_len such that no block of the next more bytes below changes the
 * buffer: long enough for the deepest, and not so long that a shallow block
 * gives it back. need counts down to the deepest.
 */
static NOINLINE int reserve(struct ustack *u, struct usched_lane *l,
			    ptrdiff_t need, int more)
{
	struct usched *s = u->u_sched;
	int rc = 0;

	in_lane(l->l_bottom - need + more, l);
	if (needs_no_buffer(u))
		return 0;
	if (!keeps(u, need, more)) {
		(void)note_depth(s, u, need);
		rc = buffer_get(u, need);
	}
	if (rc == 0)
		UHARD(fit(u, need, &rc));
	return rc;
}

/* Not inline, also with -flto: the frame of the caller ends here. */
UNKNOWN int usched_reserve(int more)
{
	const char *sp = __builtin_frame_address(0);
	struct ustack *u = usched_current;
	struct usched_lane *l;
	ptrdiff_t need;

	CONTRACT(u != NULL && more >= 0 && more <= USCHED_RESERVE,
		 "usched_reserve: called outside of a thread, or for more than "
		 "USCHED_RESERVE bytes");
	more = (more + SWITCH_MOST + PAIR - 1) & -PAIR;
	l    = &u->u_sched->s_lane[u->u_lane];
	need = l->l_bottom - sp + more;
	return !HARD && likely(keeps(u, need, more)) ? 0 :
		reserve(u, l, need, more);
}
