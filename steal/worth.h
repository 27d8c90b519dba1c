/* SPDX-License-Identifier: MIT */
/* worth.h: when it pays to take threads from another worker. */

#ifndef WS_WORTH_H
#define WS_WORTH_H

/*
 * A theft costs the thief a microsecond, and the owner as much: the owner is
 * stopped, and the cache lines of what is taken go to the other cpu. If the
 * owner has to be forced (stop.h), both lose ten times that. Threads that run
 * for nanoseconds between waits are not worth it. And their wakes become
 * messages, which cost more than wakes at home. But a thief cannot know what a
 * thread will do. So it judges by what it sees.
 *
 *	J1 An owner notes the turn (number of a switch) at which a take leaves
 *	   nothing that a thief could have. While the note stays the same, and
 *	   there is something to take, there is a surplus. A thief takes from a
 *	   surplus that has lasted for the patience of the thief.
 *	J2 It also takes where there is something, and the owner has not
 *	   switched for h_still: the owner computes, so the rest waits long.
 *	J3 It also takes what only the owner could run, from the slot or the
 *	   inbox, if the owner has not switched for h_still, nor for as long as
 *	   a forced stop takes.
 *	J4 When a thief has nothing to do again, it judges its last theft. A bad
 *	   theft has kept it busy for less than WS_WORTH_TIMES of the time of the
 *	   theft, or for less than WS_WORTH_MAIL for each message that came. Then
 *	   its patience grows by a factor of four, up to WS_WORTH_MOST. After a
 *	   good theft its patience is halved, and other times are as at first.
 *	J5 A thief naps while there is work, but work that comes and goes. Each
 *	   nap is twice as long, up to WS_WORTH_NAP_MOST. Meanwhile it counts as
 *	   searching (seek.h), so an owner with a new thread makes no system
 *	   call.
 *
 * So patience is learnt, and the first values matter little: a single bad theft
 * is a factor of four. Each thief measures the two times that differ most
 * between machines: of a theft, and of a forced stop. The latter cannot be
 * measured at the start, when a barrier finds no native thread to interrupt.
 *
 * TIMES are nanoseconds, modulo 2^32, by clocks of several cpus. So a time may
 * seem to be a little later than now, and counts as now: see ws_worth_age(). An
 * age of more than four seconds wraps, seems young, and grows again.
 *
 *	operation		who may call
 *	ws_worth_note		the owner, in J1
 *	ws_worth_lasts, _stands	any thief
 *	the rest		the thief to which the struct belongs
 *
 * Thieves share their sight of a worker, since two of them see more. A lost
 * race makes an age shorter, or costs a look. The number is written after the
 * time, and read before it, so an age never belongs to an older number.
 *
 * REJECTED. Taking whatever is seen: with threads that run for 20 ns a thief
 * finds something to take at each second look, and two workers took 10 to 25
 * times the time of a single worker. A least number of threads: a batch of a
 * thousand empty threads is not worth a theft, and two threads that compute
 * are.
 */

#include <stdbool.h>

#define WS_WORTH_PATIENCE	3000u	/* of a new thief */
#define WS_WORTH_MOST		1000000u	/* the most patience */
#define WS_WORTH_STILL		64000u	/* the most for h_still */
#define WS_WORTH_AGAIN		5000000u	/* before another stop then */
#define WS_WORTH_NAP		16000u	/* the first nap; no timer is finer */
#define WS_WORTH_NAP_MOST	256000u
#define WS_WORTH_TIMES		4u
#define WS_WORTH_MAIL		4000u	/* some cache lines on both sides */
#define WS_WORTH_FENCE		16000u	/* a guess, until it is measured, and */
#define WS_WORTH_FENCE_MOST	100000u	/* no more: it was preempted */
#define WS_WORTH_SKEW		(1u << 20)

/* What thieves have seen of a worker. All atomic. */
struct ws_sight {
	unsigned g_dry;		/* its note (J1), */
	unsigned g_since;	/* and since when that was the same */
	unsigned g_turn;	/* its turn, */
	unsigned g_still;	/* and since when */
	unsigned g_vain;	/* its turn at the last stop for nothing */
};

struct ws_thief {
	unsigned h_patience;	/* J1 */
	unsigned h_still;	/* J2 J3 */
	unsigned h_nap;		/* J5 */
	unsigned h_since;	/* its last theft was found bad (J4) */
	unsigned h_fence;	/* how long a forced stop takes */
	/* The last theft, while it is not judged. */
	bool     h_stole;
	unsigned h_at;		/* its end */
	unsigned h_cost;	/* how long it took */
	unsigned h_mail;	/* messages until then */
};

static __inline__ void ws_worth_init(struct ws_thief *h)
{
	h->h_patience = h->h_still = WS_WORTH_PATIENCE;
	h->h_nap   = WS_WORTH_NAP;
	h->h_fence = WS_WORTH_FENCE;
	h->h_stole = false;
}

static __inline__ unsigned ws_worth_age(unsigned now, unsigned since)
{
	unsigned age = now - since;

	return age > -WS_WORTH_SKEW ? 0 : age;
}

/* Returns for how long *seen has been what. Notes the time if it was not. */
static __inline__ unsigned ws_worth_same(unsigned *seen, unsigned *since,
					 unsigned what, unsigned now)
{
	if (__atomic_load_n(seen, __ATOMIC_ACQUIRE) == what)
		return ws_worth_age(now,
				    __atomic_load_n(since, __ATOMIC_RELAXED));
	__atomic_store_n(since, now, __ATOMIC_RELAXED);
	__atomic_store_n(seen, what, __ATOMIC_RELEASE);
	return 0;
}

/* Returns for how long the owner has not switched. */
static __inline__ unsigned ws_worth_stands(struct ws_sight *g, unsigned turn,
					   unsigned now)
{
	return ws_worth_same(&g->g_turn, &g->g_still, turn, now);
}

/* Notes that there is nothing to take: the next surplus will be new. */
static __inline__ void ws_worth_none(struct ws_sight *g, unsigned dry)
{
	if (__atomic_load_n(&g->g_dry, __ATOMIC_RELAXED) == dry)
		__atomic_store_n(&g->g_dry, dry - 1, __ATOMIC_RELAXED);
}

/* Returns whether J1 or J2 holds. There is something; dry is the note. */
static __inline__ bool ws_worth_surplus(const struct ws_thief *h,
					struct ws_sight *g,
					unsigned dry, unsigned turn,
					unsigned now)
{
	unsigned lasts = ws_worth_same(&g->g_dry, &g->g_since, dry, now);
	unsigned stands = ws_worth_stands(g, turn, now);
	unsigned left = ws_worth_age(now, h->h_since);

	return (lasts >= h->h_patience && left >= h->h_patience) ||
	       (stands >= h->h_still && left >= h->h_still);
}

/* Returns whether J3 holds. After a stop for nothing in that turn it waits. */
static __inline__ bool ws_worth_stuck(const struct ws_thief *h,
				      struct ws_sight *g,
				      unsigned turn, unsigned now)
{
	unsigned stands = ws_worth_stands(g, turn, now);

	return stands >= h->h_still && stands >= h->h_fence &&
	       ws_worth_age(now, h->h_since) >= h->h_still &&
	       (stands >= WS_WORTH_AGAIN ||
		__atomic_load_n(&g->g_vain, __ATOMIC_RELAXED) != turn);
}

static __inline__ unsigned ws_worth_more(unsigned time, unsigned times,
					 unsigned most)
{
	return time < most / times ? time * times : most;
}

/* Learns from a bad theft (J4). */
static __inline__ void ws_worth_bad(struct ws_thief *h, unsigned now)
{
	h->h_since    = now;
	h->h_patience = ws_worth_more(h->h_patience, 4, WS_WORTH_MOST);
	h->h_still    = ws_worth_more(h->h_still, 4, WS_WORTH_STILL);
}

static __inline__ void ws_worth_good(struct ws_thief *h)
{
	h->h_patience = h->h_patience / 2 > WS_WORTH_PATIENCE ?
		h->h_patience / 2 : WS_WORTH_PATIENCE;
	h->h_still    = WS_WORTH_PATIENCE;
	h->h_nap      = WS_WORTH_NAP;
}

/* Learns from a stop, or an attempt, that has yielded nothing. */
static __inline__ void ws_worth_vain(struct ws_thief *h, struct ws_sight *g,
				     unsigned turn, unsigned now)
{
	__atomic_store_n(&g->g_vain, turn, __ATOMIC_RELAXED);
	ws_worth_bad(h, now);
}

/* Notes a theft, to judge it later. */
static __inline__ void ws_worth_stole(struct ws_thief *h, unsigned began,
				      unsigned now, unsigned mail)
{
	h->h_stole = true;
	h->h_at    = now;
	h->h_cost  = ws_worth_age(now, began);
	h->h_mail  = mail;
}

/* Judges the last theft, when the thief has nothing to do any more (J4). */
static __inline__ void ws_worth_judge(struct ws_thief *h, unsigned now,
				      unsigned mail)
{
	unsigned busy = ws_worth_age(now, h->h_at);

	if (!h->h_stole)
		return;
	h->h_stole = false;
	if (busy / WS_WORTH_TIMES < h->h_cost ||
	    busy / WS_WORTH_MAIL < mail - h->h_mail)
		ws_worth_bad(h, now);
	else
		ws_worth_good(h);
}

/*
 * Learns how long a forced stop takes. It takes little time if the owner is not
 * on a cpu, and much if the thief is preempted. So h_fence grows fast, up to a
 * most, and shrinks slowly.
 */
static __inline__ void ws_worth_fence(struct ws_thief *h, unsigned took)
{
	if (took > WS_WORTH_FENCE_MOST)
		took = WS_WORTH_FENCE_MOST;
	if (took > h->h_fence)
		h->h_fence += (took - h->h_fence) / 4;
	else
		h->h_fence -= (h->h_fence - took) / 32;
}

static __inline__ unsigned ws_worth_less(unsigned time)
{
	time -= time / 8;
	return time > WS_WORTH_PATIENCE ? time : WS_WORTH_PATIENCE;
}

/* Returns how long to nap now (J5). Patience shrinks with each nap. */
static __inline__ unsigned ws_worth_nap(struct ws_thief *h)
{
	unsigned nap = h->h_nap;

	h->h_nap      = ws_worth_more(nap, 2, WS_WORTH_NAP_MOST);
	h->h_patience = ws_worth_less(h->h_patience);
	h->h_still    = ws_worth_less(h->h_still);
	return nap;
}

/* Returns whether the worker was not seen to switch since then. */
static __inline__ bool ws_worth_stood(const struct ws_sight *g, unsigned since)
{
	return (int)(__atomic_load_n(&g->g_still, __ATOMIC_RELAXED) -
		     since) <= 0;
}

/* Forgets all but h_fence, when no other worker has work. */
static __inline__ void ws_worth_calm(struct ws_thief *h)
{
	h->h_patience = h->h_still = WS_WORTH_PATIENCE;
	h->h_nap = WS_WORTH_NAP;
}

#endif /* WS_WORTH_H */
