/* SPDX-License-Identifier: MIT */
/* core/ask.h: who runs; questions of other modules: see lib/base/uslice.h */

/* For modules that look into threads: see uslice.h. */
HIDDEN int usched_runs(const struct ustack *u);
HIDDEN struct ustack *const *usched_current_at(void);
HIDDEN ptrdiff_t usched_slice(const struct ustack *u, char *to);
HIDDEN ptrdiff_t usched_stored(const struct ustack *u);
HIDDEN int usched_lane_next(const struct usched *s);
HIDDEN int usched_lane_for(struct usched *s, const struct ustack *u);
HIDDEN int usched_lane_promised(const struct usched_private *p, int nr);
HIDDEN SWITCHES void usched_resume_at(char *sp, int rc);

#if !defined(USCHED_TLS)
NOINLINE struct ustack *ustack_self(void)
{
	/* No two calls are merged: the native thread may be another now. */
	__asm__ volatile("" : : : "memory");
	return usched_current;
}

NOINLINE struct usched *usched_self(void)
{
	__asm__ volatile("" : : : "memory");
	return usched_running;
}
#endif

int usched_runs(const struct ustack *u)
{
	const struct usched_frame *f;

	for (f = usched_here; f != NULL; f = f->f_up) {
		if (f->f_self == u)
			return 1;
	}
	return u == usched_current;
}

UNCHECKED /* Returns where this native thread has the thread that it runs, or NULL. */
struct ustack *const *usched_current_at(void)
{
	return &usched_current;
}

ptrdiff_t usched_slice(const struct ustack *u, char *to)
{
	const struct usched_lane *l;
	ptrdiff_t nob;

	if (u->u_top == NULL || bits(u) & NO_SLICE)
		return 0;
	l = &u->u_sched->s_lane[u->u_lane];
	nob = l->l_bottom - slice(u);
	if (to != NULL && bits(u) & AWAY) {
		if (stored(l, u) < nob)
			copy(to + nob - PROLOGUE, prologue(), PROLOGUE);
		copy(to, u->u_stack, stored(l, u));
	} else if (to != NULL)
		copy(to, slice(u), nob);
	return nob;
}

ptrdiff_t usched_stored(const struct ustack *u)
{
	return stored(&u->u_sched->s_lane[u->u_lane], u);
}

void usched_resume_at(char *sp, int rc)
{
	usched_resume(sp, rc);
}

#if defined(USCHED_HARD)
void usched_evict(struct usched_lane *l)
{
	CONTRACT(!ustack_is_private(l->l_owner), "evict: a private stack");
	evict(l);
}
#endif
