/* SPDX-License-Identifier: MIT */
/* core/leave.h: leaving a run by a jump; hooks and shells of modules. */

/*
 * LEAVING
 *
 * A longjmp() may leave usched_run(), from a thread or from a call-back. Then
 * none of our code runs until usched_left(S) is called where the jump has
 * landed. By then the stack frame of usched_run() may be overwritten. So all
 * that a return would need is in S->s_frame. These frames are chained, the
 * innermost first, and a jump may leave several at once:
 *
 *	usched_here --> in.s_frame --> S.s_frame --> out.s_frame --> NULL
 *	                |<----- left by a jump ----->|
 *
 * usched_left(S) ends the runs down to S, each as if its thread had aborted:
 * the lane of the thread has no owner and may be used again. All other threads
 * of these dispatchers stay blocked: none of their slices is in a frame that
 * was left.
 *
 * Without usched_left() the library cannot always tell that a run was left. A
 * dispatcher that was left has s_base set, and is refused. Another usched_run()
 * looks for the mark of the innermost run (f_mark), which a frame that is alive
 * always has. First it clears the place of its own mark, since its frame may
 * lie where the frame that was left had a mark.
 */

static struct usched_hook *hook_list;

void usched_hook(struct usched_hook *h)
{
	h->h_next = __atomic_load_n(&hook_list, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&hook_list, &h->h_next, h, 0,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

static INLINE void hooks(struct usched *s, int begins)
{
	const struct usched_hook *h;

	h = __atomic_load_n(&hook_list, __ATOMIC_ACQUIRE);
	for (; h != NULL; h = h->h_next)
		(begins ? h->h_begin : h->h_end)(s);
}

static void hooks_gone(struct ustack *u)
{
	const struct usched_hook *h;

	h = __atomic_load_n(&hook_list, __ATOMIC_ACQUIRE);
	for (; h != NULL; h = h->h_next) {
		if (h->h_gone != NULL)
			h->h_gone(u);
	}
}

void ustack_shell(void *shell)
{
	struct ushell *h = shell;

	h->h_run(h);
}

const struct ushell *ustack_shell_of(void *shell)
{
	const struct ushell *h = shell;

	while (h->h_f == ustack_shell)
		h = h->h_arg;
	return h;
}

/* Ends the innermost run, and the thread that ran, if any. */
static UNCHECKED void leave(struct usched *s)
{
	struct ustack *u = usched_current;
	struct usched_lane *l = u != NULL ? &s->s_lane[u->u_lane] : NULL;
	char here;

	CONTRACT(l == NULL || l->l_low == NULL ||
		 (uintptr_t)&here - (uintptr_t)l->l_low >=
		 (uintptr_t)(l->l_bottom - l->l_low),
		 "usched_left: called by a thread of the dispatcher, which no "
		 "longjmp() has left");
	hooks(s, 0);
	if (u != NULL) {
		UHARD(left(u));
		USCHED_PROBE_THREAD(end, u);
		UHARD(ended(u));
		lane_put(s, u);
		u->u_top = ENDED;
	}
	s->s_base = NULL;
	set_running(s->s_frame.f_self);
	UHARD(end(s));
	usched_here = s->s_frame.f_up;
}

UNCHECKED void usched_left(struct usched *s)
{
	const struct usched_frame *f = usched_here;

	if (s->s_base == NULL)
		return;
	while (f != NULL && f != &s->s_frame)
		f = f->f_up;
	CONTRACT(f != NULL,
		 "usched_left: the dispatcher runs on another native thread");
	while (s->s_base != NULL)
		leave(usched_here->f_sched);
	fp_put(s, s->s_frame.f_fp);
}
