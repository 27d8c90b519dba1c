/* SPDX-License-Identifier: MIT */
/* uselect.c: a choice between several channels. */

/*
 * uselect() tries the cases in a random permutation, each with the lock of its
 * channel. If none is possible, it takes all locks in the order of addresses,
 * and tries again. So between this look and the queueing of the links no event
 * can come. A case that is possible then needs no claim, since the record is
 * not visible yet. Thus of two selects that meet, the second finds the first in
 * a line, and the claim decides.
 *
 * S1. Locks of several channels are taken in the order of their addresses, each
 *     once, and nothing else is called while they are held.
 *
 * MUTANTS. Each is found by a test; the name follows.
 *
 *	locks in the order of cases			select: cross
 *	a channel in two cases is locked twice		select: twice
 *	no second look under all locks			select: lost
 *	links of cases not chosen stay			select: freed
 *	the choice begins at random, then goes round	select: chance
 *
 * REJECTED
 *
 * Locks taken singly, with a claim of the own record before that of the other:
 * a select that has claimed itself, and then fails to claim the other, was
 * passed over by its partners meanwhile.
 */

#include "uchan_inside.h"

#include <limits.h>

struct uwait_kind UWAIT_SELECT[1] = { {
	.wk_name = "select", .wk_call = "uselect"
} };

/*
 * Tries the cases in the order that is drawn meanwhile (R. Durstenfeld, CACM 7,
 * 1964), or in their own, each with its lock. Returns the number, or -EAGAIN.
 */
static NOINLINE int try_each(struct ucase *a, int nr, bool ordered)
{
	int i;

	for (i = 0; i < nr; i++)
		a[i].cs_order = (unsigned)i;
	for (i = 0; i < nr; i++) {
		unsigned left = (unsigned)(nr - i);
		unsigned drawn = (unsigned)i;
		unsigned which;

		if (!ordered && left > 1)
			drawn += uwait_random(left);
		which = a[drawn].cs_order;
		a[drawn].cs_order = a[i].cs_order;
		a[i].cs_order = which;
		if (a[which].cs_chan == NULL ||
		    !uchan_possible(a[which].cs_chan, a[which].cs_send))
			continue;
		a[which].cs_result = uchan_pass_locked(a[which].cs_chan,
				a[which].cs_value, a[which].cs_send);
		if (a[which].cs_result != -EAGAIN)
			return (int)which;
	}
	return -EAGAIN;
}

/*
 * Sorts the numbers of the cases by the addresses of their channels into
 * cs_lock. D. L. Shell, CACM 2, 1959: in place; for few cases an insertion.
 */
static void sort(struct ucase *a, int nr)
{
	int gap, i, j;

	for (i = 0; i < nr; i++)
		a[i].cs_lock = (unsigned)i;
	for (gap = nr < 8 ? 1 : nr / 2; gap > 0; gap /= 2)
		for (i = gap; i < nr; i++) {
			unsigned v = a[i].cs_lock;
			uintptr_t key = (uintptr_t)a[v].cs_chan;

			for (j = i; j >= gap && key <
			     (uintptr_t)a[a[j - gap].cs_lock].cs_chan; j -= gap)
				a[j].cs_lock = a[j - gap].cs_lock;
			a[j].cs_lock = v;
		}
}

/* Calls f for each channel once, in the order of cs_lock: S1. */
static inline void each_once(struct ucase *a, int nr, void (*f)(struct uchan *))
{
	struct uchan *last = NULL;
	int i;

	for (i = 0; i < nr; i++) {
		struct uchan *c = a[a[i].cs_lock].cs_chan;

		if (c != last)
			f(c);
		last = c;
	}
}

/* Tries the cases in the order drawn. As try_each(). Caller holds all locks. */
static int try_locked(struct ucase *a, int nr, struct uwait **claimed)
{
	int i;

	for (i = 0; i < nr; i++) {
		unsigned which = a[i].cs_order;

		if (a[which].cs_chan == NULL)
			continue;
		a[which].cs_result = uchan_pass(a[which].cs_chan,
						a[which].cs_value,
						a[which].cs_send, claimed);
		if (a[which].cs_result != -EAGAIN)
			return (int)which;
	}
	return -EAGAIN;
}

/*
 * Tries all cases at the same time, and else queues the links of w, unless w is
 * NULL. Returns the number, or -EAGAIN.
 */
static NOINLINE int queue_all(struct ucase *a, int nr, struct uwait *w)
{
	struct uwait *claimed = NULL;
	int rc, i;

	sort(a, nr);
	each_once(a, nr, uchan_lock);
	rc = try_locked(a, nr, &claimed);
	if (rc == -EAGAIN && w != NULL) {
		for (i = 0; i < nr; i++)
			if (a[i].cs_chan != NULL)
				uchan_line_put(&a[i].cs_chan->ch_line[a[i].cs_send],
					       uchan_links_of(w) + i);
	}
	each_once(a, nr, uchan_unlock);
	if (claimed != NULL)
		uwait_complete(claimed, claimed->w_result);
	return rc;
}

static size_t units(const struct ucase *k)
{
	return (k->cs_chan->ch_size + UCHAN_UNIT - 1) / UCHAN_UNIT;
}

/* Returns the units of a record's values. */
static size_t values_of(const struct ucase *a, int nr)
{
	size_t sent = 0, received = 0;
	int i;

	for (i = 0; i < nr; i++) {
		if (a[i].cs_chan == NULL)
			continue;
		if (a[i].cs_send)
			sent += units(&a[i]);
		else if (units(&a[i]) > received)
			received = units(&a[i]);
	}
	return sent + received;
}

/* Describes the cases in w, with the values to be sent from here on. */
static void record_fill(const struct ucase *a, int nr, struct uwait *w,
			size_t value)
{
	struct link *l = uchan_links_of(w);
	size_t last = value + values_of(a, nr);
	int i;

	for (i = 0; i < nr; i++, l++) {
		l->ln_prev = NULL;
		if (a[i].cs_chan == NULL)
			continue;
		l->ln_case  = (unsigned short)i;
		l->ln_sole  = false;
		l->ln_size  = a[i].cs_chan->ch_size;
		l->ln_value = (unsigned short)(a[i].cs_send ? value :
						last - units(&a[i]));
		if (!a[i].cs_send)
			continue;
		uchan_copy(uchan_value_of(l), a[i].cs_value,
			   l->ln_size);				/* uchan C2 */
		value += units(&a[i]);
	}
}

/* Makes a record for the cases. NULL and errno. */
static NOINLINE struct uwait *record_all(const struct ucase *a, int nr)
{
	size_t value = uchan_values_at(nr);
	size_t end = value + values_of(a, nr);
	struct uwait *w;

	if (end > USHRT_MAX) {
		errno = EINVAL;
		return NULL;
	}
	w = uwait_make(UWAIT_SELECT, NULL, end * UCHAN_UNIT);
	if (w != NULL)
		record_fill(a, nr, w, value);
	return w;
}

/* Ends the wait for all cases but that which was chosen, if it is not negative. */
static NOINLINE void leave_all(struct ucase *a, int nr, struct uwait *w,
			       int chosen)
{
	int i;

	for (i = 0; i < nr; i++)
		if (i != chosen && a[i].cs_chan != NULL)
			uchan_leave(a[i].cs_chan, uchan_links_of(w) + i);
}

/* Takes the value of the case that was chosen. Returns the number. */
static int chosen(struct ucase *a, struct uwait *w, int result)
{
	int i = result / 2;
	struct link *l = uchan_links_of(w) + i;

	a[i].cs_result = result & 1 ? -EPIPE : 0;
	if (a[i].cs_result == 0 && !a[i].cs_send && a[i].cs_value != NULL)
		uchan_copy(a[i].cs_value, uchan_value_of(l), l->ln_size);
	return i;
}

static NOINLINE int wait_all(struct ucase *a, int nr, utime_ns until)
{
	struct uwait *w = NULL;
	int rc;

	if (until != UNOW) {
		w = record_all(a, nr);
		if (w == NULL)
			return -errno;
	}
	rc = queue_all(a, nr, w);
	if (w == NULL)
		return rc;
	if (rc == -EAGAIN) {
		rc = uwait_for(w, until);
		if (rc >= 0)
			rc = chosen(a, w, rc);
		leave_all(a, nr, w, rc);
	}
	uwait_free(w);
	return rc;
}

/* Checks the channels of all cases. In the hard mode only. */
static void see_all(const struct ucase *a, int nr, bool ordered)
{
#if defined(USCHED_HARD)
	int i;

	for (i = 0; i < nr; i++)
		if (a[i].cs_chan != NULL)
			UCHAN_CALL(a[i].cs_chan, ordered ? "uselect_ordered" :
				   "uselect");
#else
	(void)a, (void)nr, (void)ordered;
#endif
}

static inline int choose(struct ucase *a, int nr, utime_ns until, bool ordered)
{
	int rc;

	if (until < 0 || nr < 0 || (a == NULL && nr != 0))
		return -EINVAL;
	see_all(a, nr, ordered);
	UHARD(yield());
	rc = try_each(a, nr, ordered);
	if (likely(rc != -EAGAIN))
		return rc;
	return wait_all(a, nr, until);
}

int uselect(struct ucase *cases, int nr, utime_ns until)
{
	return choose(cases, nr, until, false);
}

int uselect_ordered(struct ucase *cases, int nr, utime_ns until)
{
	return choose(cases, nr, until, true);
}
