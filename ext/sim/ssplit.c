/* SPDX-License-Identifier: MIT */
/* ssplit.c: partitions of hosts and clients into groups; links that flap. */

/*
 * A split has a shape, and each host and each client a side in it. All of that follows
 * from what the fault has drawn, by sim_part(), and from the host that it is about.
 *
 *	halves	a majority of the servers, and the others; each with some clients
 *	one	its host with some of the clients, and all others. So a leader that
 *		is alone goes on to answer clients
 *	bridge	halves, but its host is on both sides
 *	ring	servers in a circle. Each hears as many neighbours as make a majority
 *		with it, so all have one, and no two have the same. Each client hears
 *		some of the servers
 *
 * One of four splits cuts one way only. Clients are not cut from each other. Of two
 * splits that which ends later counts, as for other faults that last.
 *
 * One of three splits, cuts and isolations flaps: it is on and off in turns of equal
 * length, of which each but the first draws whether it is on.
 *
 * REJECTED
 *
 * A coin for each link: most of these leave a majority that can talk, and people have
 * not seen such networks.
 * A kind of fault for each shape: more names to know, and most faults of a run would
 * be partitions.
 */

#include "sim.h"

#include <string.h>

enum split_shape { HALVES, ONE, BRIDGE, RING };

/* Sides are bits: a bridge has both. */
enum { FIRST = 1, SECOND = 2 };

/* What a fault has drawn, by number of its part. */
enum { DRAWN_SHAPE = 2, DRAWN_WAY, DRAWN_FLAP, DRAWN_TURN, DRAWN_SIDE,
       DRAWN_RANK = 64, DRAWN_LINK = 128, DRAWN_ON = 4096 };

#define TURN_MIN	UTIME_MS

static struct sim_fault *split;		/* that lasts, or NULL */
static unsigned char     sides[USIM_HOSTS + 1];

static int server_nr(void)
{
	int i, nr = 0;

	for (i = 1; i <= sim_host_nr; i++)
		nr += !sim_hosts[i].h_is_client;
	return nr;
}

static enum split_shape shape_of(const struct sim_fault *f)
{
	static const unsigned char table[] = { HALVES, HALVES, ONE, ONE, BRIDGE, RING };
	unsigned shape = table[sim_part(f, DRAWN_SHAPE) % sizeof table];
	int nr = server_nr();

	if (shape == RING && nr == 3)
		shape = BRIDGE;			/* in a ring of three all hear all */
	return nr < 3 && shape > ONE ? HALVES : (enum split_shape)shape;
}

static bool is_one_way(const struct sim_fault *f)
{
	return sim_part(f, DRAWN_WAY) % 4 == 0;
}

/* Returns the place of a server in an order that f has drawn, from 0 on. */
static int rank_of(const struct sim_fault *f, int host)
{
	uint64_t mine = sim_part(f, DRAWN_RANK + (uint64_t)host), other;
	int i, rank = 0;

	for (i = 1; i <= sim_host_nr; i++) {
		other = sim_part(f, DRAWN_RANK + (uint64_t)i);
		rank += !sim_hosts[i].h_is_client &&
			(other < mine || (other == mine && i < host));
	}
	return rank;
}

/* Returns the sides of a host or client; about: the host that f is about, or 0. */
static unsigned char side_of(const struct sim_fault *f, int host, int about)
{
	enum split_shape shape = shape_of(f);
	int most = server_nr() / 2 + 1;

	if (sim_hosts[host].h_is_client)
		return sim_part(f, DRAWN_SIDE + (uint64_t)host) % 2 == 0 ? FIRST : SECOND;
	if (shape == ONE)
		return host == about ? FIRST : SECOND;
	if (shape == BRIDGE && host == about)
		return FIRST | SECOND;
	return (rank_of(f, host) < most) == (sim_part(f, DRAWN_SIDE) % 2 == 0) ?
		FIRST : SECOND;
}

void sim_split_begin(struct sim_fault *f)
{
	int i;

	if (split != NULL && split->f_begin + split->f_length >= f->f_begin + f->f_length)
		return;
	split = f;
	for (i = 1; i <= sim_host_nr; i++)
		sides[i] = side_of(f, i, f->f_met);
}

static bool is_far(const struct sim_fault *f, int from, int to)
{
	int nr = server_nr(), steps;

	if (sim_hosts[from].h_is_client || sim_hosts[to].h_is_client)
		return sim_part(f, DRAWN_LINK + (uint64_t)(from < to ? from : to) *
				(USIM_HOSTS + 1) + (uint64_t)(from < to ? to : from)) % 2;
	steps = (rank_of(f, from) - rank_of(f, to) + nr) % nr;
	steps = steps < nr - steps ? steps : nr - steps;
	return steps > (nr / 2 + 1) / 2;
}

/* Returns the split, if it is on and nothing comes from one host to another; or NULL. */
struct sim_fault *sim_split(const struct sim_host *from, const struct sim_host *to)
{
	int a = from->h_number, b = to->h_number;
	bool cut;

	if (split == NULL || (from->h_is_client && to->h_is_client))
		return NULL;
	if (shape_of(split) == RING)
		cut = is_far(split, a, b) && (!is_one_way(split) || a < b);
	else
		cut = (sides[a] & sides[b]) == 0 &&
			(!is_one_way(split) || sides[a] == FIRST);
	return cut ? split : NULL;
}

/* Returns the length of a turn; 0: the fault does not flap. */
static utime_ns turn_of(const struct sim_fault *f)
{
	utime_ns turn = f->f_length >> (2 + sim_part(f, DRAWN_TURN) % 8);

	if (f->f_kind != FAULT_SPLIT && f->f_kind != FAULT_CUT &&
	    f->f_kind != FAULT_ISOLATE)
		return 0;
	return sim_part(f, DRAWN_FLAP) % 3 != 0 ? 0 : turn < TURN_MIN ? TURN_MIN : turn;
}

bool sim_flaps(const struct sim_fault *f)
{
	return turn_of(f) > 0;
}

bool sim_is_off(const struct sim_fault *f)
{
	utime_ns turn = turn_of(f);
	uint64_t nr = turn > 0 ? (uint64_t)((sim_now() - f->f_begin) / turn) : 0;

	return nr > 0 && sim_part(f, DRAWN_ON + nr) % 2 != 0;
}

/* Words. */

/* Adds a name behind a comma, if there is room. */
static void name_add(char *text, size_t size, const char *comma, const char *name)
{
	size_t at = strlen(text);

	if (at + strlen(comma) + strlen(name) < size)
		strcat(strcat(text, comma), name);
}

/* Writes the shape, and the groups if the host is known. */
void sim_split_text(const struct sim_fault *f, char *text, size_t size)
{
	static const char *const names[] = { "halves", "one", "bridge", "ring" };
	enum split_shape shape = shape_of(f);
	int about = f->f_host != 0 ? f->f_host : f->f_met, i;
	unsigned char side;

	text[0] = 0;
	name_add(text, size, "", names[shape]);
	name_add(text, size, "", is_one_way(f) ? ", one way:" : ":");
	for (side = FIRST; side <= SECOND && shape != RING && (about != 0 || shape == HALVES);
	     side++) {
		for (i = 1; i <= sim_host_nr; i++)
			if (side_of(f, i, about) & side)
				name_add(text, size, " ", sim_hosts[i].h_name);
		name_add(text, size, "", side == FIRST ? " |" : "");
	}
	if (shape == RING)
		for (side = 0; side < server_nr(); side++)
			for (i = 1; i <= sim_host_nr; i++)
				if (!sim_hosts[i].h_is_client && rank_of(f, i) == side)
					name_add(text, size, " ", sim_hosts[i].h_name);
}
