/* SPDX-License-Identifier: MIT */
/* core/contracts.h: contracts with the caller of the dispatcher. */

/* Bytes below a lane in which a stack pointer means that it is too small. */
#define REACH		((uintptr_t)64 << 20)

/*
 * Is the call of usched_run() to which f belongs still on the stack, as far as
 * can be known? f may lie in a stack frame that was left.
 */
static UNCHECKED int stands(const struct usched_frame *f)
{
	return (const char *)f->f_sched +
	       offsetof(struct usched, s_frame) == (const char *)f &&
	       *f->f_mark == f->f_sched;
}

/* Checks, at each run, that no run before was left without usched_left(). */
static INLINE void check(const struct usched *s)
{
	CONTRACT(s->s_base == NULL, "usched_run: this dispatcher runs already; "
		 "after a longjmp() out of it call usched_left() first");
	CONTRACT(usched_here == NULL || stands(usched_here),
		 "usched_run: a longjmp() has left another dispatcher: call "
		 "usched_left() first");
}

/* Checks, at the first run, all that does not change later. */
static NOINLINE void check_once(const struct usched *s)
{
	CONTRACT(s->s_next && s->s_alloc && s->s_free,
		 "usched_run: s_next, s_alloc and s_free must be set");
	CONTRACT(!shadow_stack(),
		 "usched_run: copied stacks and shadow stacks do not mix: "
		 "turn shadow stacks off (link with -z noshstk)");
	CONTRACT(!IS_LINKED(__safestack_init),
		 "usched_run: copied stacks and -fsanitize=safe-stack do not "
		 "mix: locals that are kept elsewhere are not copied");
}

/* Makes u new, which was filled by hand, without ustack_init(). */
static NOINLINE void adopt(struct ustack *u)
{
	CONTRACT(u->u_f != NULL && u->u_len >= 0 &&
		 (u->u_stack != NULL || u->u_len == 0),
		 "s_next: returned a thread with no function (u_f), or with a "
		 "length without a buffer");
	u->u_len = buffer_size(u->u_len);
	u->u_top = NEW;
	USCHED_PROBE_THREAD(make, u);
}

/*
 * Fails, and says why a block is not in its lane. A frame larger than the guard
 * takes the stack pointer to other lanes, or below them all, where the stack of
 * a native thread may be.
 */
static NOINLINE NORETURN void misplaced(const char *sp,
					const struct usched_lane *l)
{
	stack_t alt;

	CONTRACT(!IS_LINKED(__morestack_allocate_stack_space),
		 "ustack_block: not on the stack of the thread: -fsplit-stack "
		 "does not mix with lanes");
	CONTRACT(sigaltstack(NULL, &alt) != 0 || !(alt.ss_flags & SS_ONSTACK),
		 "ustack_block: not on the stack of the thread, but in a signal "
		 "handler on an alternate stack");
	CONTRACT(l->l_low == NULL || (uintptr_t)l->l_low - (uintptr_t)sp > REACH,
		 "ustack_block: the thread has run out of its stack, and over "
		 "the guard: USCHED_STACK_SIZE in the environment, "
		 "rr_stack_size() or usched_lanes() gives more; "
		 "-fstack-clash-protection stops at the guard (or has a "
		 "longjmp() left usched_run() without usched_left()?)");
	usched_fail("ustack_block: not on the stack of the thread (but on one "
		    "that it has made, or has a longjmp() left usched_run() "
		    "without usched_left()?)");
}

/* Fails if sp, where a slice starts, is not in the lane of the thread. */
static inline void in_lane(const char *sp, const struct usched_lane *l)
{
	if (unlikely((uintptr_t)sp >= (uintptr_t)l->l_bottom ||
		     (l->l_low != NULL && (uintptr_t)sp < (uintptr_t)l->l_low)))
		misplaced(sp, l);
}
