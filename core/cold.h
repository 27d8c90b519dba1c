/* SPDX-License-Identifier: MIT */
/* core/cold.h: blocks elsewhere than before, and of cold threads. */

/*
 * COLD THREADS
 *
 * A thread that blocks where it blocked before, with a buffer for its whole
 * slice, needs no look at the buffer. If u_top is the stack pointer, the thread
 * stayed in its lane; with AWAY, it was copied in, and is cold. A cold thread
 * that blocks is nearly always followed by another. If both slices begin at the
 * same address, and have buffers of the same length, one loop copies the owner
 * of the lane out and the other in (swap()).
 *
 * REJECTED
 *
 * Copies by words, or of whole buffers; copies without a loop; more than one lane
 * that all cold threads share: not faster. With 40 cold threads a block takes as long
 * as with 20,000, so it is not memory that it waits for.
 */

/* Copies the owner of the lane, if any, out, and u in. */
static NOINLINE UNCHECKED void move(struct usched_lane *l, struct ustack *u)
{
	if (l->l_owner != NULL)
		evict(l);
	if (unlikely(l->l_sole) && law_enter(l, u) != NULL)
		return;
	l->l_owner = u;
	restore(l, u);
}

/* Copies nob bytes from at to out, and from in to at. */
static ALWAYS_INLINE void copy_both(char *out, char *at, const char *in,
				    ptrdiff_t nob)
{
	pair last_out = *(const pair *)(at + nob - PAIR);
	pair last_in  = *(const pair *)(in + nob - PAIR);
	ptrdiff_t i;

	for (i = 0; i < nob - PAIR; i += PAIR) {
		pair x = *(const pair *)(at + i);
		pair y = *(const pair *)(in + i);

		*(pair *)(out + i) = x;
		*(pair *)(at + i)  = y;
	}
	*(pair *)(out + nob - PAIR) = last_out;
	*(pair *)(at + nob - PAIR)  = last_in;
}

/*
 * Resumes u, which is AWAY, with the usual control words. If the lane has an
 * owner whose slice is as long, one loop exchanges the two. Runs below the
 * slice of u, or on another lane (usched I4).
 */
static ALWAYS_INLINE SWITCHES void swap(struct usched *s, struct ustack *u)
{
	struct usched_lane *l = &s->s_lane[u->u_lane];
	struct ustack *o = l->l_owner;
	char *top = slice(u);

	usched_current = u;
	if (likely(o != NULL && o->u_top == top && o->u_len == u->u_len)) {
		l->l_owner = u;
		o->u_top = u->u_top;
		copy_both(o->u_stack, top, u->u_stack, stored(l, u));
		usched_resume(top, 0);
	}
	move(l, u);
	usched_resume(top, 0);
}

/*
 * Goes from u, which has blocked and is cold, to the next thread, which
 * probably is cold, too. If so, and its slice belongs to another lane or above
 * sp (usched I4), this copies the slice in, on the stack of u.
 */
static ALWAYS_INLINE SWITCHES void switch_cold(char *sp, struct usched *s,
					    struct ustack *u)
{
	struct ustack *t = prepared(s);

	u->u_top = sp;
	if (likely(t != NULL && bits(t) == AWAY &&
		   (t->u_lane != u->u_lane ||
		    (uintptr_t)t->u_top >= (uintptr_t)sp))) {
		prepared_take(s);
		swap(s, t);
	}
	switch_from(s);
}

/*
 * Blocks u at another depth than before, or with its blocks COUNTED. The buffer
 * serves if it is long enough, and not far too long.
 */
static NOINLINE SWITCHES void block_new_depth(char *sp, struct usched *s,
					    struct ustack *u)
{
	struct usched_lane *l = &s->s_lane[u->u_lane];
	ptrdiff_t spare = u->u_len - (l->l_bottom - sp);

	if (HARD || unlikely(fp_saved(sp) != (unsigned)s->s_fp_expected))
		block_special(sp, u, l);
	if (unlikely((size_t)spare > USCHED_SLACK)) {
		if (!is_short(s, u, l, spare))
			block_special(sp, u, l);
		switch_cold(sp, s, u);
	}
	u->u_top = sp;
	if (unlikely(l->l_law != 0) && law_take(l, u))
		usched_jump(s->s_base, round_shut, u);
	switch_from(s);
}

/*
 * Blocks u, which is probably cold. If it blocks where it blocked before, its
 * buffer still serves, unless the buffer is SHORT and the bottom of the slice
 * has changed.
 */
static NOINLINE SWITCHES void block_cold(char *sp, struct usched *s,
					    struct ustack *u)
{
	const struct usched_lane *l = &s->s_lane[u->u_lane];
	ptrdiff_t spare = u->u_len - (l->l_bottom - sp);

	if (HARD || unlikely(slice(u) != sp ||
			     bits(u) & (FP_ON_TOP | NO_SLICE) ||
			     (u->u_len & SHORT && !is_prologue(l, -spare)) ||
			     u->u_len & COUNTED ||
			     fp_saved(sp) != (unsigned)s->s_fp_expected))
		block_new_depth(sp, s, u);
	if (u->u_top == sp)
		switch_from(s);
	switch_cold(sp, s, u);
}
