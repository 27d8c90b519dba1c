/* SPDX-License-Identifier: MIT */
/* smark.c: marks of a run: states it has reached, and when. */

/*
 * An error that takes three events in an order is as rare as their product. A search
 * that knows a run with the first two goes on from there (sguide.c), and then its price
 * is a sum. So a run notes in its report what it reaches, with the first time.
 *
 * The state of a host is what its threads have named last, by usim_sometimes() or
 * usim_maybe(); none after a boot. Hosts with the same function have the same role, and
 * marks know roles, so three nodes of a cluster are alike:
 *
 *	state	a host goes from a state to another; it comes to a state for the
 *		2nd, 4th, 8th time
 *	across	a host comes to a state while another is in one
 *	fault	a fault begins at a host, or a boot, by the host's state, and by
 *		what has struck that host or another before; a host comes to a state
 *		after a fault
 *	message	what was sent in a state arrives in another, from a sender that is
 *		in the same state still, or is not
 *
 * Marks are coarse. If each run had marks of its own, all of them were rare, and
 * told nothing.
 *
 * K1. Marks are a function of the run: no address is in them.
 * K2. Marks change nothing: they draw no chance and are not hashed.
 * K3. No mark is made from w_run on, since nothing can be bent there.
 */

#include "sim.h"

#define AGAIN	FAULT_KINDS	/* a boot, among kinds of faults */
#define FULL	(SIM_MARKS / 4 * 3)

struct track {
	uint32_t t_role;	/* the first host with the same function */
	uint32_t t_state;
	uint32_t t_struck;	/* kind of the last fault, and 1 */
	int      t_heard;	/* the server that has sent to it last, or 0 */
	uint32_t t_counts[64];	/* of states */
};

static struct track tracks[USIM_HOSTS + 1];
static const struct sim_host *struck;	/* last of all */

static uint32_t mix(uint32_t a, uint32_t b)
{
	return (uint32_t)(sim_mix((uint64_t)a << 32 | b) >> 32);
}

static struct track *track_of(const struct sim_host *h)
{
	struct track *t = &tracks[h->h_number];

	if (t->t_role == 0)
		for (t->t_role = 1; sim_hosts[t->t_role].h_f != h->h_f; t->t_role++)
			;
	return t;
}

static void mark(const struct sim_host *h, enum sim_mark_kind kind, uint32_t id)
{
	struct sim_mark *k;
	uint32_t i;

	id = mix(id, kind) | 1;
	for (i = id >> 1; ; i++) {
		k = &sim_report->p_marks[i % SIM_MARKS];
		if (k->mk_id == id)
			return;
		if (k->mk_id == 0)
			break;
	}
	if (sim_now() >= sim_world.w_run || sim_report->p_mark_nr == FULL)	/* K3 */
		return;
	sim_report->p_mark_nr++;
	*k = (struct sim_mark) { id, kind, h->h_is_client ? tracks[h->h_number].t_heard :
		h->h_number, sim_now() };
}

static void mark_across(const struct sim_host *h, const struct track *t)
{
	int i;

	for (i = 1; i <= sim_host_nr; i++)
		if (i != h->h_number && tracks[i].t_state != 0)
			mark(h, MARK_ACROSS, mix(mix(tracks[i].t_role, tracks[i].t_state),
						 mix(t->t_role, t->t_state)));
}

void sim_mark_state(const struct sim_host *h, const char *name)
{
	struct track *t = track_of(h);
	uint32_t state = 1, before = t->t_state, *count;

	for (; *name != 0; name++)
		state = mix(state, (unsigned char)*name);
	count = &t->t_counts[state % 64];
	++*count;
	if (*count > 1 && (*count & (*count - 1)) == 0)
		mark(h, MARK_STATE, mix(mix(t->t_role, state), *count));
	if (state == before)
		return;
	t->t_state = state;
	mark(h, MARK_STATE, mix(mix(t->t_role, before), state));
	if (t->t_struck != 0)
		mark(h, MARK_FAULT, mix(mix(t->t_role, state), t->t_struck));
	mark_across(h, t);
}

void sim_mark_fault(const struct sim_host *h, enum sim_kind kind)
{
	struct track *t = track_of(h);
	uint32_t id = mix(mix(t->t_role, t->t_state), kind);

	mark(h, MARK_FAULT, id);
	if (struck != NULL)
		mark(h, MARK_FAULT, mix(id, tracks[struck->h_number].t_struck << 1 |
					(struck == h)));
	t->t_struck = kind + 1;
	struck = h;
}

void sim_mark_boot(const struct sim_host *h)
{
	struct track *t = track_of(h);

	if (h->h_boots > 1)
		mark(h, MARK_FAULT, mix(mix(t->t_role, t->t_state), AGAIN));
	t->t_state = 0;
}

uint32_t sim_mark_send(const struct sim_host *from)
{
	return tracks[from->h_number].t_state;
}

void sim_mark_message(const struct sim_host *from, const struct sim_host *to,
		      uint32_t sent)
{
	struct track *a = track_of(from), *b = track_of(to);

	if (from == to)
		return;
	if (!from->h_is_client)
		b->t_heard = from->h_number;
	mark(to, MARK_MESSAGE, mix(mix(a->t_role, sent),
		mix(b->t_role, b->t_state) ^ (a->t_state != sent)));
}
