/* SPDX-License-Identifier: MIT */
/* uhard.c: the hard mode: moves what can move, poisons what is dead. */

/*
 * To be written.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#if !defined(USCHED_HARD)
#define USCHED_HARD
#endif
#include "uhard.h"
#include "usan.h"

#include <errno.h>
#include <stdlib.h>

/* Sanitizers must not look into functions that run between two stacks. */
#define UNCHECKED	__attribute__((no_sanitize("address", "thread")))

/* Of a thread: made when it first runs. */
struct uhard_stack {
	struct usan h_san;
};

/* Of a dispatcher. */
struct uhard_sched {
	struct usan    d_san;
	struct ustack *d_left;	/* who left last, until home has seen it */
	int            d_ended;	/* it has ended */
};

UNCHECKED void uhard_begin(struct usched *s)
{
	if (s->s_hard == NULL)
		s->s_hard = calloc(1, sizeof *s->s_hard);
	if (s->s_hard == NULL)
		usched_fail("usched_run: no memory for the hard mode");
	usan_home(&s->s_hard->d_san);
}

void uhard_end(struct usched *s)
{
	(void)s;
}

UNCHECKED void uhard_home(struct usched *s)
{
	struct ustack *u = s->s_hard->d_left;

	if (u == NULL)
		return;
	s->s_hard->d_left = NULL;
	usan_arrive(&s->s_hard->d_san);
}

UNCHECKED void uhard_enter(struct ustack *u, struct usched_lane *l)
{
	struct usched *s = u->u_sched;

	if (u->u_hard != NULL)
		return;
	u->u_hard = calloc(1, sizeof *u->u_hard);
	if (u->u_hard == NULL)
		usched_fail("no memory for the hard mode");
	if (l->l_low != NULL)
		usan_thread(&u->u_hard->h_san, l->l_low, l->l_bottom - l->l_low);
	else
		usan_thread(&u->u_hard->h_san, s->s_hard->d_san.n_low,
			    s->s_hard->d_san.n_size);
}

UNCHECKED void uhard_restore(struct ustack *u, struct usched_lane *l, char *slice)
{
	(void)u, (void)l, (void)slice;
}

UNCHECKED void uhard_restored(struct ustack *u, struct usched_lane *l, char *slice)
{
	usan_restore(&u->u_hard->h_san, slice, l->l_bottom - slice);
}

UNCHECKED void uhard_evicted(struct ustack *u, struct usched_lane *l, char *slice)
{
	usan_save(&u->u_hard->h_san, slice, l->l_bottom - slice);
	usan_clear(slice, l->l_bottom);
}

UNCHECKED void uhard_resume(struct ustack *u)
{
	usan_leave(&u->u_sched->s_hard->d_san, &u->u_hard->h_san, 0);
}

UNCHECKED void uhard_first(void *arg)
{
	struct ustack *u = arg;

	usan_arrive(&u->u_hard->h_san);
	u->u_f(u->u_arg);
}

UNCHECKED void uhard_arrived(void)
{
	usan_arrive(&ustack_self()->u_hard->h_san);
}

UNCHECKED int uhard_fit(struct ustack *u, ptrdiff_t need)
{
	return usan_fit(&u->u_hard->h_san, need);
}

UNCHECKED void uhard_leave(struct ustack *u, struct usched_lane *l)
{
	struct uhard_sched *d = u->u_sched->s_hard;

	d->d_left  = u;
	d->d_ended = l == NULL;
	usan_leave(&u->u_hard->h_san, &d->d_san, l == NULL);
}

UNCHECKED void uhard_ended(struct ustack *u)
{
	if (u->u_hard == NULL)
		return;
	usan_end(&u->u_hard->h_san);
	free(u->u_hard);
	u->u_hard = NULL;
}

UNCHECKED void uhard_lanes(struct usched *s)
{
	usan_lanes(s->s_lane[1].l_low, s->s_lane[s->s_lane_nr].l_bottom -
		   s->s_lane[1].l_low, 1);
}

UNCHECKED void uhard_fini(struct usched *s)
{
	if (s->s_lane_nr > 0)
		usan_lanes(s->s_lane[1].l_low, s->s_lane[s->s_lane_nr].l_bottom -
			   s->s_lane[1].l_low, 0);
	free(s->s_hard);
	s->s_hard = NULL;
}

void usched_point(void)
{
}
