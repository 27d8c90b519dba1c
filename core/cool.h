/* SPDX-License-Identifier: MIT */
/* core/cool.h: gives back the memory of private lanes whose threads wait for long. */

/*
 * IDLE LANES
 *
 * A thread that was promised no lane may have one all the same: it is deep, or began
 * while there were few threads. Its pages stay as long as it waits. So the
 * scheduler looks at each private lane now and then (usched_cool()):
 *
 *	the slice lies in	it is copied to a buffer, as if another thread needed
 *	the lane		the lane
 *	it was copied by the	its thread has not run since: the pages are given back
 *	look before
 *
 * A thread that runs in between is copied in, and has paid two copies for a look. So a
 * thread that runs has to note nothing. The thread keeps its lane, and so its
 * addresses (usched I1). The buffer stays until the thread blocks at another
 * depth.
 *
 * A warm lane has no thread. If no thread has taken the lane from a look to the next,
 * its pages are given back, too, by the dispatcher in whose list it is: under the lock of
 * that list it stays there.
 *
 * REJECTED: a time for each block, which rings would pay. Pages without a copy: those
 * of the slice are most of an idle lane.
 */

/* In pv_idle. */
enum { IN_USE, COPIED_OUT, COOL };

/*
 * Copies the slice of u, which waits in its private lane, to a buffer that has room
 * for all of it. 0, or -ENOMEM.
 */
static int copy_out(struct usched_lane *l, struct ustack *u)
{
	ptrdiff_t need = l->l_bottom - slice(u);

	if ((u->u_stack == NULL || stored(l, u) < need) && buffer_get(u, need) != 0)
		return -ENOMEM;
	evict(l);
	return 0;
}

/*
 * Looks at a lane that no thread of s has, if it is warm, and s has left it. Returns
 * what usched_cool() does.
 */
static int cool_warm(struct usched *s, struct usched_lane *l,
		     struct usched_private_lane *w)
{
	struct usched_warm *m = s->s_warm;
	int more = 0;

	private_lock(&m->wm_lock);
	if (is_warm(s, w) && w->pv_idle == IN_USE) {
		w->pv_idle = COPIED_OUT;	/* nothing was there */
		more = 1;
	} else if (is_warm(s, w) && w->pv_idle == COPIED_OUT) {
		m->wm_nob -= warmth(w);
		cool_all(l, w);
		m->wm_nob += warmth(w);
		w->pv_idle = COOL;
	}
	private_unlock(&m->wm_lock);
	return more;
}

int usched_cool(struct usched *s, int nr, int is_ours)
{
	struct usched_lane *l = &s->s_lane[s->s_lane_nr + nr];
	struct usched_private_lane *w = private_of(s, s->s_lane_nr + nr);

	none_runs(s);
	if (!is_ours || l->l_bound == 0)
		return cool_warm(s, l, w);
	if (w->pv_promised)
		return 0;
	if (l->l_owner != NULL) {
		if (copy_out(l, l->l_owner) != 0)
			return 0;
		w->pv_idle = COPIED_OUT;
		return 1;
	}
	if (w->pv_idle == COPIED_OUT) {
		cool(l, l->l_bottom + page_size() - 1);
		w->pv_idle = COOL;	/* it will touch as much again */
	}
	return 0;
}
