/* SPDX-License-Identifier: MIT */
/* core/step.h: one thread alone. */

/*
 * STEPS
 *
 * usched_enter() steps a thread in place, from usched_live_enter, and
 * usched_pass() ends the step from usched_live_step. Neither stores control
 * words. A round starts only if the thread is not simple (is_simple()), or the
 * block special. The registers of the caller lie where usched_save() would put
 * them (s_exit), and the mark of the run in the free word below.
 */

/* Returns the control words of the caller of a step, if they matter. */
static INLINE unsigned caller_fp(const struct usched *s, struct fp_words *scratch)
{
	return s->s_coroutine && s->s_native_stack != NULL ? s->s_fp :
		fp_get(scratch);
}

/* Marked as used, since the usched_live_enter of portable builds names it. */
__attribute__((used)) UNCHECKED int usched_step(struct ustack *u)
{
	struct usched *s = u->u_sched;
	struct fp_words scratch;

	s->s_left  = 0;
	s->s_quick = NULL;
	run(s, u, caller_fp(s, &scratch));
	return (s->s_steps & STEP_ENDED) != 0;
}

#if QUICK
/*
 * Steps u for usched_enter(), whose registers are at sp. Of the two free words
 * below, the first is the mark.
 */
void usched_entered(struct ustack *u, char *sp)
{
	struct usched *s = u->u_sched;
	struct usched *volatile *mark = (void *)(sp - WORD);
	struct fp_words scratch;

	s->s_left  = 0;
	s->s_quick = NULL;
	run_begin(s, u, STEPS | IN_PLACE, caller_fp(s, &scratch), mark);
	first_switch(sp, s);
}

/*
 * Blocks a coroutine, and ends the step. No control words are compared. Often
 * the depth is another than at the last block. That needs no round if the buffer
 * is long enough, and not far too long.
 */
void usched_passed(char *sp)
{
	struct ustack *u = usched_current;
	struct usched *s = u->u_sched;
	struct usched_lane *l = &s->s_lane[u->u_lane];
	ptrdiff_t spare = u->u_len - (l->l_bottom - sp);

	USCHED_PROBE_THREAD(block, u);
	if (HARD || unlikely((size_t)spare > USCHED_SLACK ||
			     (unsigned)s->s_fp_expected != s->s_fp))
		block_special(sp, u, l);	/* too: lane 0, OpenMP */
	u->u_top = sp;
	run_leave(s);
}
#endif
