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
 *	   surplus that has lasted for the patience of the thief. If the threads
 *	   of the owner are coarse, the first patience is enough.
 *	J2 It also takes where there is something, and the owner has not
 *	   switched for h_still: the owner computes, so the rest waits long.
 *	J3 It also takes what only the owner could run, from the slot or the
 *	   inbox, if the owner has not switched for h_still, nor for as long as
 *	   a forced stop takes.
 *	J4 When a thief has nothing to do again, it judges its last theft. A bad
 *	   theft has kept it busy for less than WS_POLICY_TIMES of the time of
 *	   the theft, or for less than WS_POLICY_MAIL of the price for each
 *	   message that came. Then its patience grows by a factor of four, up to
 *	   WS_POLICY_MOST, and its greed shrinks as much. After a good theft
 *	   its patience is halved, its greed doubled, and other times are as at
 *	   first.
 *	J5 A thief naps while there is work, but work that comes and goes. Each
 *	   nap is twice as long, up to WS_POLICY_NAP_MOST. Meanwhile the thief
 *	   counts as searching (seek.h), so an owner with a new thread makes no
 *	   system call.
 *	J6 Greed is how many threads a theft may move from an owner whose threads
 *	   are fine, with those that come along in a lane. So where a theft does
 *	   not pay, the next one is small, and what it does is soon undone: see
 *	   LANES THAT FOLLOW MESSAGES in messages.h.
 *	J7 A thief that is still busy after WS_POLICY_TRIAL asks whether it helps:
 *	   how often both have switched since the theft, and how often the owner
 *	   alone had before. If both did less, they pay for lines that go to and
 *	   fro, of a lock for instance, and the theft was bad. Then the thief
 *	   gives back what it has, and for as long as its patience each thread
 *	   that is woken from elsewhere.
 *
 * So patience is learnt, and the first values matter little: a single bad theft
 * is a factor of four.
 *
 * THE PRICE is what a theft takes, about as much as a message to another worker
 * and its answer: some lines that go from one cpu to the other. It differs most
 * between machines, and two hyperthreads are one machine, two cores another. So
 * each thief measures its thefts, and how long a forced stop takes. The latter
 * cannot be measured at the start, when a barrier finds no native thread to
 * interrupt. Threads are coarse if they run for WS_POLICY_TIMES of the price, and
 * else fine; a thief knows how often the owner switches.
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
 * are. Patience alone, without greed: each theft of half a pipeline of 2,000
 * fine threads took a millisecond to undo, and came each millisecond. The run between two
 * looks, in place of a window, to tell coarse from fine: a single long one makes a thief
 * take all it sees.
 */

#include <limits.h>
#include <stdbool.h>

#define WS_POLICY_PATIENCE	3000u	/* of a new thief */
#define WS_POLICY_MOST		4000000u	/* the most patience */
#define WS_POLICY_GREED		256u	/* of a new thief, and the most */
#define WS_POLICY_GREED_LEAST	2u	/* the least greed */
#define WS_POLICY_STILL		64000u	/* the most for h_still */
#define WS_POLICY_AGAIN		5000000u	/* a new stop after so long */
#define WS_POLICY_NAP		16000u	/* the first nap; no timer is finer */
#define WS_POLICY_NAP_MOST	256000u
#define WS_POLICY_TIMES		4u
#define WS_POLICY_WINDOW	1000000u
#define WS_POLICY_TRIAL		150000u
#define WS_POLICY_MAIL		2u	/* prices: both sides pay */
#define WS_POLICY_PRICE		2000u	/* a guess, until it is measured */
#define WS_POLICY_PRICE_LEAST	500u
#define WS_POLICY_PRICE_MOST	10000u	/* the most for h_price */
#define WS_POLICY_FENCE		16000u	/* a guess, until it is measured */
#define WS_POLICY_FENCE_MOST	100000u	/* the most for h_fence */
#define WS_POLICY_SKEW		(1u << 20)

/* What thieves have observed of a worker. All atomic. */
struct ws_observation {
	unsigned g_drained;	/* w_drained of the worker (J1) */
	unsigned g_since;	/* since when g_drained is the same */
	unsigned g_switches;	/* how often it had switched */
	unsigned g_still;	/* since when g_switches is the same */
	unsigned g_vain;	/* g_switches at the last stop for nothing */
	unsigned g_run;		/* from a switch to the next, in the last window */
	unsigned g_ran;		/* when the window of g_run began */
	unsigned g_ran_nr;	/* g_switches when that window began */
};

struct ws_thief {
	unsigned h_patience;	/* J1 */
	unsigned h_still;	/* J2 J3 */
	unsigned h_nap;		/* J5 */
	unsigned h_greed;	/* J6 */
	unsigned h_price;
	unsigned h_since;	/* its last theft was found bad (J4) */
	unsigned h_fence;	/* how long a forced stop takes */
	/* The last theft, while it is not judged. */
	bool     h_stole;
	unsigned h_at;		/* its end */
	unsigned h_cost;	/* how long it took */
	unsigned h_mail;	/* messages up to the end of the theft */
	/* The trial of that theft, while it lasts. */
	int      h_owner;	/* number of the robbed worker; -1: no trial */
	unsigned h_run;		/* g_run as the trial began */
	unsigned h_switches;	/* of both workers, as the trial began */
	bool     h_gives;	/* it gives back, until h_until */
	unsigned h_until;
};

static inline void ws_policy_init(struct ws_thief *h)
{
	h->h_patience = h->h_still = WS_POLICY_PATIENCE;
	h->h_nap   = WS_POLICY_NAP;
	h->h_greed = WS_POLICY_GREED;
	h->h_price = WS_POLICY_PRICE;
	h->h_fence = WS_POLICY_FENCE;
	h->h_stole = h->h_gives = false;
	h->h_owner = -1;
}

static inline unsigned ws_policy_age(unsigned now, unsigned since)
{
	unsigned age = now - since;

	return age > -WS_POLICY_SKEW ? 0 : age;
}

/* Returns for how long *seen has been what. Notes the time if it was not. */
static inline unsigned ws_policy_same(unsigned *seen, unsigned *since,
				      unsigned what, unsigned now)
{
	if (__atomic_load_n(seen, __ATOMIC_ACQUIRE) == what)
		return ws_policy_age(now,
				    __atomic_load_n(since, __ATOMIC_RELAXED));
	__atomic_store_n(since, now, __ATOMIC_RELAXED);
	__atomic_store_n(seen, what, __ATOMIC_RELEASE);
	return 0;
}

/* Notes how long threads of the owner run, each WS_POLICY_WINDOW. */
static inline void ws_policy_runs(struct ws_observation *g, unsigned switches,
				  unsigned now)
{
	unsigned age = ws_policy_age(now, __atomic_load_n(&g->g_ran, __ATOMIC_RELAXED));
	unsigned nr = switches - __atomic_load_n(&g->g_ran_nr, __ATOMIC_RELAXED);

	if (age < WS_POLICY_WINDOW)
		return;
	__atomic_store_n(&g->g_run, nr > 0 ? age / nr : age, __ATOMIC_RELAXED);
	__atomic_store_n(&g->g_ran_nr, switches, __ATOMIC_RELAXED);
	__atomic_store_n(&g->g_ran, now, __ATOMIC_RELAXED);
}

/* Returns for how long the owner has not switched. */
static inline unsigned ws_policy_stands(struct ws_observation *g,
					unsigned switches, unsigned now)
{
	ws_policy_runs(g, switches, now);
	return ws_policy_same(&g->g_switches, &g->g_still, switches, now);
}

/* Are the threads of the owner coarse? */
static inline bool ws_policy_coarse(const struct ws_thief *h,
				    const struct ws_observation *g)
{
	return __atomic_load_n(&g->g_run, __ATOMIC_RELAXED) >=
		WS_POLICY_TIMES * h->h_price;
}

/* Notes that there is nothing to take: the next surplus will be new. */
static inline void ws_policy_none(struct ws_observation *g, unsigned drained)
{
	if (__atomic_load_n(&g->g_drained, __ATOMIC_RELAXED) == drained)
		__atomic_store_n(&g->g_drained, drained - 1, __ATOMIC_RELAXED);
}

/* Returns whether J1 or J2 holds. There is something; drained is the note. */
static inline bool ws_policy_surplus(const struct ws_thief *h,
				     struct ws_observation *g,
				     unsigned drained, unsigned switches,
				     unsigned now)
{
	unsigned lasts = ws_policy_same(&g->g_drained, &g->g_since, drained,
					now);
	unsigned stands = ws_policy_stands(g, switches, now);
	unsigned left = ws_policy_age(now, h->h_since);
	unsigned patience = ws_policy_coarse(h, g) ? WS_POLICY_PATIENCE :
						     h->h_patience;

	return (lasts >= patience && left >= patience) ||
	       (stands >= h->h_still && left >= h->h_still);
}

/*
 * Returns whether J3 holds. After a stop for nothing it waits until the owner
 * has switched, or for long.
 */
static inline bool ws_policy_stuck(const struct ws_thief *h,
				   struct ws_observation *g,
				   unsigned switches, unsigned now)
{
	unsigned stands = ws_policy_stands(g, switches, now);

	return stands >= h->h_still && stands >= h->h_fence &&
	       ws_policy_age(now, h->h_since) >= h->h_still &&
	       (stands >= WS_POLICY_AGAIN ||
		__atomic_load_n(&g->g_vain, __ATOMIC_RELAXED) != switches);
}

/* Returns how many threads a theft may move (J6). At first there is no bound. */
static inline unsigned ws_policy_greed(const struct ws_thief *h,
				       const struct ws_observation *g)
{
	return ws_policy_coarse(h, g) || h->h_greed == WS_POLICY_GREED ?
		UINT_MAX : h->h_greed;
}

static inline unsigned ws_policy_more(unsigned time, unsigned times,
				      unsigned most)
{
	return time < most / times ? time * times : most;
}

/* Learns from a bad theft (J4). */
static inline void ws_policy_bad(struct ws_thief *h, unsigned now)
{
	h->h_since    = now;
	h->h_patience = ws_policy_more(h->h_patience, 4, WS_POLICY_MOST);
	h->h_still    = ws_policy_more(h->h_still, 4, WS_POLICY_STILL);
	h->h_greed    = h->h_greed / 4 > WS_POLICY_GREED_LEAST ?
		h->h_greed / 4 : WS_POLICY_GREED_LEAST;
}

static inline void ws_policy_good(struct ws_thief *h)
{
	h->h_patience = h->h_patience / 2 > WS_POLICY_PATIENCE ?
		h->h_patience / 2 : WS_POLICY_PATIENCE;
	h->h_still    = WS_POLICY_PATIENCE;
	h->h_nap      = WS_POLICY_NAP;
	h->h_greed    = ws_policy_more(h->h_greed, 2, WS_POLICY_GREED);
}

/* Learns from a stop, or an attempt, that has yielded nothing. */
static inline void ws_policy_vain(struct ws_thief *h,
				  struct ws_observation *g,
				  unsigned switches, unsigned now)
{
	__atomic_store_n(&g->g_vain, switches, __ATOMIC_RELAXED);
	ws_policy_bad(h, now);
}

/*
 * Learns what a theft takes. It takes longer if the owner computes, or one of both
 * is preempted. So the price shrinks fast and grows slowly.
 */
static inline void ws_policy_price(struct ws_thief *h, unsigned took)
{
	if (took > WS_POLICY_PRICE_MOST)
		took = WS_POLICY_PRICE_MOST;
	if (took < WS_POLICY_PRICE_LEAST)
		took = WS_POLICY_PRICE_LEAST;
	if (took < h->h_price)
		h->h_price -= (h->h_price - took) / 4;
	else
		h->h_price += (took - h->h_price) / 32;
}

/* Notes a theft, to judge it later. */
static inline void ws_policy_stole(struct ws_thief *h, unsigned began,
				   unsigned now, unsigned mail)
{
	h->h_stole = true;
	h->h_at    = now;
	h->h_cost  = ws_policy_age(now, began);
	h->h_mail  = mail;
	ws_policy_price(h, h->h_cost);
}

/* Begins a trial of a theft from owner; switches are of both (J7). */
static inline void ws_policy_try(struct ws_thief *h,
				 const struct ws_observation *g,
				 int owner, unsigned switches)
{
	h->h_run      = __atomic_load_n(&g->g_run, __ATOMIC_RELAXED);
	h->h_owner    = h->h_run > 0 && !ws_policy_coarse(h, g) ? owner : -1;
	h->h_switches = switches;
}

/* Ends the trial. Returns whether both did less than the owner alone. */
static inline bool ws_policy_fails(struct ws_thief *h, unsigned switches,
				   unsigned now)
{
	unsigned alone = ws_policy_age(now, h->h_at) / h->h_run;

	h->h_owner = -1;
	if (switches - h->h_switches >= alone - alone / 10)
		return false;
	h->h_stole = false;
	ws_policy_bad(h, now);
	h->h_gives = true;
	h->h_until = now + h->h_patience;
	return true;
}

/* Does the thief give back threads that are woken from elsewhere? */
static inline bool ws_policy_gives(struct ws_thief *h, unsigned now)
{
	h->h_gives = h->h_gives && (int)(h->h_until - now) > 0;
	return h->h_gives;
}

/* Judges the last theft, when the thief has nothing to do any more (J4). */
static inline void ws_policy_judge(struct ws_thief *h, unsigned now,
				   unsigned mail)
{
	unsigned busy = ws_policy_age(now, h->h_at);

	if (!h->h_stole)
		return;
	h->h_stole = false;
	h->h_owner = -1;
	if (busy / WS_POLICY_TIMES < h->h_cost ||
	    busy / (WS_POLICY_MAIL * h->h_price) < mail - h->h_mail)
		ws_policy_bad(h, now);
	else
		ws_policy_good(h);
}

/*
 * Learns how long a forced stop takes. It takes little time if the owner is not
 * on a cpu, and much if the thief is preempted. So h_fence grows fast, up to a
 * most, and shrinks slowly.
 */
static inline void ws_policy_fence(struct ws_thief *h, unsigned took)
{
	if (took > WS_POLICY_FENCE_MOST)
		took = WS_POLICY_FENCE_MOST;
	if (took > h->h_fence)
		h->h_fence += (took - h->h_fence) / 4;
	else
		h->h_fence -= (h->h_fence - took) / 32;
}

static inline unsigned ws_policy_less(unsigned time)
{
	time -= time / 8;
	return time > WS_POLICY_PATIENCE ? time : WS_POLICY_PATIENCE;
}

/* Returns how long to nap now (J5). Patience shrinks with each nap. */
static inline unsigned ws_policy_nap(struct ws_thief *h)
{
	unsigned nap = h->h_nap;

	h->h_nap      = ws_policy_more(nap, 2, WS_POLICY_NAP_MOST);
	h->h_patience = ws_policy_less(h->h_patience);
	h->h_still    = ws_policy_less(h->h_still);
	return nap;
}

/* Returns whether no thief has seen the worker switch since then. */
static inline bool ws_policy_stood(const struct ws_observation *g,
				   unsigned since)
{
	return (int)(__atomic_load_n(&g->g_still, __ATOMIC_RELAXED) -
		     since) <= 0;
}

/*
 * Forgets a bad theft, when no other worker has work. Not all of them: the same
 * threads may go on at once.
 */
static inline void ws_policy_calm(struct ws_thief *h)
{
	h->h_patience = h->h_patience / 4 > WS_POLICY_PATIENCE ?
		h->h_patience / 4 : WS_POLICY_PATIENCE;
	h->h_still    = WS_POLICY_PATIENCE;
	h->h_nap      = WS_POLICY_NAP;
	h->h_greed    = ws_policy_more(h->h_greed, 4, WS_POLICY_GREED);
}

#endif /* WS_STEAL_POLICY_H */
