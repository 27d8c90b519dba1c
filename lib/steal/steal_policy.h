/* SPDX-License-Identifier: MIT */
/* steal_policy.h: when it pays to take threads from another worker. */

#ifndef WS_STEAL_POLICY_H
#define WS_STEAL_POLICY_H

/*
 * A theft costs the thief a microsecond, and the owner as much: the owner is
 * stopped, and the cache lines of what is taken go to the other cpu. If the
 * owner has to be forced (stop.h), both lose ten times that. Threads that run
 * for nanoseconds between waits are not worth it. And their wakes become
 * messages, which cost more than wakes at home. But a thief cannot know what a
 * thread will do. So it judges by what it sees.
 *
 *	J1 An owner notes at which of its switches a take leaves nothing that a
 *	   thief could have. While the note stays the same, and
 *	   there is something to take, there is a surplus. A thief takes from a
 *	   surplus that has lasted for the patience of the thief.
 *	J2 It also takes where there is something, and the owner has not
 *	   switched for h_still: the owner computes, so the rest waits long.
 *	J3 It also takes what only the owner could run, from the slot or the
 *	   inbox, if the owner has not switched for h_still, nor for as long as
 *	   a forced stop takes.
 *	J4 When a thief has nothing to do again, it judges its last theft. A bad
 *	   theft has kept it busy for less than WS_POLICY_TIMES of the time of
 *	   the theft, or for less than WS_POLICY_MAIL for each message that
 *	   came. Then its patience grows by a factor of four, up to
 *	   WS_POLICY_MOST. After a good theft its patience is halved, and other
 *	   times are as at first.
 *	J5 A thief naps while there is work, but work that comes and goes. Each
 *	   nap is twice as long, up to WS_POLICY_NAP_MOST. Meanwhile the thief
 *	   counts as searching (seek.h), so an owner with a new thread makes no
 *	   system call.
 *
 * So patience is learnt, and the first values matter little: a single bad theft
 * is a factor of four. Each thief measures the two times that differ most
 * between machines: of a theft, and of a forced stop. The latter cannot be
 * measured at the start, when a barrier finds no native thread to interrupt.
 *
 * TIMES are nanoseconds, modulo 2^32, by clocks of several cpus. So a time may
 * seem to be a little later than now, and counts as now: see ws_policy_age().
 * An age of more than four seconds wraps, seems young, and grows again.
 *
 *	what			who may write it
 *	the note of J1		the owner
 *	struct ws_observation	any thief
 *	struct ws_thief		the thief to which it belongs
 *
 * Thieves share what they observe of a worker: two of them see more. A lost
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

#define WS_POLICY_PATIENCE	3000u	/* of a new thief */
#define WS_POLICY_MOST		1000000u	/* the most patience */
#define WS_POLICY_STILL		64000u	/* the most for h_still */
#define WS_POLICY_AGAIN		5000000u	/* before another stop then */
#define WS_POLICY_NAP		16000u	/* the first nap; no timer is finer */
#define WS_POLICY_NAP_MOST	256000u
#define WS_POLICY_TIMES		4u
#define WS_POLICY_MAIL		4000u	/* some cache lines on both sides */
#define WS_POLICY_FENCE		16000u	/* a guess, until it is measured, and */
#define WS_POLICY_FENCE_MOST	100000u	/* no more: it was preempted */
#define WS_POLICY_SKEW		(1u << 20)

/* What thieves have observed of a worker. All atomic. */
struct ws_observation {
	unsigned g_drained;	/* its note (J1) */
	unsigned g_since;	/* since when g_drained is the same */
	unsigned g_switches;	/* how often it had switched */
	unsigned g_still;	/* since when g_switches is the same */
	unsigned g_vain;	/* g_switches at the last stop for nothing */
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

static __inline__ void ws_policy_init(struct ws_thief *h)
{
	h->h_patience = h->h_still = WS_POLICY_PATIENCE;
	h->h_nap   = WS_POLICY_NAP;
	h->h_fence = WS_POLICY_FENCE;
	h->h_stole = false;
}

static __inline__ unsigned ws_policy_age(unsigned now, unsigned since)
{
	unsigned age = now - since;

	return age > -WS_POLICY_SKEW ? 0 : age;
}

/* Returns for how long *seen has been what. Notes the time if it was not. */
static __inline__ unsigned ws_policy_same(unsigned *seen, unsigned *since,
					  unsigned what, unsigned now)
{
	if (__atomic_load_n(seen, __ATOMIC_ACQUIRE) == what)
		return ws_policy_age(now,
				    __atomic_load_n(since, __ATOMIC_RELAXED));
	__atomic_store_n(since, now, __ATOMIC_RELAXED);
	__atomic_store_n(seen, what, __ATOMIC_RELEASE);
	return 0;
}

/* Returns for how long the owner has not switched. */
static __inline__ unsigned ws_policy_stands(struct ws_observation *g,
					    unsigned switches, unsigned now)
{
	return ws_policy_same(&g->g_switches, &g->g_still, switches, now);
}

/* Notes that there is nothing to take: the next surplus will be new. */
static __inline__ void ws_policy_none(struct ws_observation *g,
				      unsigned drained)
{
	if (__atomic_load_n(&g->g_drained, __ATOMIC_RELAXED) == drained)
		__atomic_store_n(&g->g_drained, drained - 1, __ATOMIC_RELAXED);
}

/* Returns whether J1 or J2 holds. There is something; drained is the note. */
static __inline__ bool ws_policy_surplus(const struct ws_thief *h,
					 struct ws_observation *g,
					 unsigned drained, unsigned switches,
					 unsigned now)
{
	unsigned lasts = ws_policy_same(&g->g_drained, &g->g_since, drained,
					now);
	unsigned stands = ws_policy_stands(g, switches, now);
	unsigned left = ws_policy_age(now, h->h_since);

	return (lasts >= h->h_patience && left >= h->h_patience) ||
	       (stands >= h->h_still && left >= h->h_still);
}

/*
 * Returns whether J3 holds. After a stop for nothing it waits until the owner
 * has switched, or for long.
 */
static __inline__ bool ws_policy_stuck(const struct ws_thief *h,
				      struct ws_observation *g,
				      unsigned switches, unsigned now)
{
	unsigned stands = ws_policy_stands(g, switches, now);

	return stands >= h->h_still && stands >= h->h_fence &&
	       ws_policy_age(now, h->h_since) >= h->h_still &&
	       (stands >= WS_POLICY_AGAIN ||
		__atomic_load_n(&g->g_vain, __ATOMIC_RELAXED) != switches);
}

static __inline__ unsigned ws_policy_more(unsigned time, unsigned times,
					  unsigned most)
{
	return time < most / times ? time * times : most;
}

/* Learns from a bad theft (J4). */
static __inline__ void ws_policy_bad(struct ws_thief *h, unsigned now)
{
	h->h_since    = now;
	h->h_patience = ws_policy_more(h->h_patience, 4, WS_POLICY_MOST);
	h->h_still    = ws_policy_more(h->h_still, 4, WS_POLICY_STILL);
}

static __inline__ void ws_policy_good(struct ws_thief *h)
{
	h->h_patience = h->h_patience / 2 > WS_POLICY_PATIENCE ?
		h->h_patience / 2 : WS_POLICY_PATIENCE;
	h->h_still    = WS_POLICY_PATIENCE;
	h->h_nap      = WS_POLICY_NAP;
}

/* Learns from a stop, or an attempt, that has yielded nothing. */
static __inline__ void ws_policy_vain(struct ws_thief *h,
				      struct ws_observation *g,
				      unsigned switches, unsigned now)
{
	__atomic_store_n(&g->g_vain, switches, __ATOMIC_RELAXED);
	ws_policy_bad(h, now);
}

/* Notes a theft, to judge it later. */
static __inline__ void ws_policy_stole(struct ws_thief *h, unsigned began,
				      unsigned now, unsigned mail)
{
	h->h_stole = true;
	h->h_at    = now;
	h->h_cost  = ws_policy_age(now, began);
	h->h_mail  = mail;
}

/* Judges the last theft, when the thief has nothing to do any more (J4). */
static __inline__ void ws_policy_judge(struct ws_thief *h, unsigned now,
				      unsigned mail)
{
	unsigned busy = ws_policy_age(now, h->h_at);

	if (!h->h_stole)
		return;
	h->h_stole = false;
	if (busy / WS_POLICY_TIMES < h->h_cost ||
	    busy / WS_POLICY_MAIL < mail - h->h_mail)
		ws_policy_bad(h, now);
	else
		ws_policy_good(h);
}

/*
 * Learns how long a forced stop takes. It takes little time if the owner is not
 * on a cpu, and much if the thief is preempted. So h_fence grows fast, up to a
 * most, and shrinks slowly.
 */
static __inline__ void ws_policy_fence(struct ws_thief *h, unsigned took)
{
	if (took > WS_POLICY_FENCE_MOST)
		took = WS_POLICY_FENCE_MOST;
	if (took > h->h_fence)
		h->h_fence += (took - h->h_fence) / 4;
	else
		h->h_fence -= (h->h_fence - took) / 32;
}

static __inline__ unsigned ws_policy_less(unsigned time)
{
	time -= time / 8;
	return time > WS_POLICY_PATIENCE ? time : WS_POLICY_PATIENCE;
}

/* Returns how long to nap now (J5). Patience shrinks with each nap. */
static __inline__ unsigned ws_policy_nap(struct ws_thief *h)
{
	unsigned nap = h->h_nap;

	h->h_nap      = ws_policy_more(nap, 2, WS_POLICY_NAP_MOST);
	h->h_patience = ws_policy_less(h->h_patience);
	h->h_still    = ws_policy_less(h->h_still);
	return nap;
}

/* Returns whether no thief has seen the worker switch since then. */
static __inline__ bool ws_policy_stood(const struct ws_observation *g,
				       unsigned since)
{
	return (int)(__atomic_load_n(&g->g_still, __ATOMIC_RELAXED) -
		     since) <= 0;
}

/* Forgets all but h_fence, when no other worker has work. */
static __inline__ void ws_policy_calm(struct ws_thief *h)
{
	h->h_patience = h->h_still = WS_POLICY_PATIENCE;
	h->h_nap = WS_POLICY_NAP;
}

#endif /* WS_STEAL_POLICY_H */
