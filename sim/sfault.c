/* SPDX-License-Identifier: MIT */
/* sfault.c: the plan of faults of a run, and what they do to links and hosts. */

/*
 * The plan is drawn before the run, from a stream of its own: all faults, with
 * their hosts, times and lengths. So it can be printed, and faults can be left
 * out by a mask, while the others stay. A search draws:
 *
 *	kinds		a run has some of them only, each in half of the runs
 *	bursts		two of three faults come within a second of another
 *	lengths		over 14 octaves, 1 ms to 8 s, and no longer than w_run
 *	trips		a crash at the n-th write or sync from a time on. A crash at
 *			a random time hardly ever meets the moment between two writes.
 *			An error of a sync waits for a sync in the same way
 *
 * Each fault counts what it has hit: segments that had to wait, datagrams that
 * were lost, connections, readings of a clock. A fault that has hit nothing has
 * tried nothing, and the report says so.
 *
 * F1. After w_run no fault is on, and all hosts boot.
 * F2. No fault but cuts and isolation touches a client, and these only its links.
 */

#include "sim.h"

#include <stdio.h>

#define OCTAVES		14
#define SLOW		100	/* times the latency */
#define JUMP		5000	/* ms */
#define LOCAL		(10 * UTIME_US)	/* latency within a host */

const char *const sim_kind_names[FAULT_KINDS] = {
	"crash", "trip", "cut", "isolate", "slow", "reset", "loss", "clock",
	"full", "eio"
};

static void fault_crash(struct sim_fault *f, struct sim_host *h)
{
	utime_ns left = sim_world.w_run - sim_now();		/* F1 */

	f->f_hits += h->h_boot != NULL;
	sim_crash(h, f->f_length < left ? f->f_length : left,
		  sim_kind_names[f->f_kind]);
}

static void fault_trip(struct sim_fault *f, struct sim_host *h)
{
	h->h_trip = f;
	h->h_trip_nr = f->f_nr;
}

/* Called before and after each write and sync of a disk. May not return. */
void sim_trip(struct sim_host *h)
{
	struct sim_fault *f = h->h_trip;

	if (f == NULL || --h->h_trip_nr > 0)
		return;
	h->h_trip = NULL;
	if (sim_now() < sim_world.w_run)			/* F1 */
		fault_crash(f, h);
}

static void fault_eio(struct sim_fault *f, struct sim_host *h)
{
	h->h_eio = f;
	h->h_eio_nr = f->f_nr;
}

bool sim_fails_sync(struct sim_host *h)
{
	struct sim_fault *f = h->h_eio;

	if (f == NULL || --h->h_eio_nr > 0)
		return false;
	h->h_eio = NULL;
	if (sim_now() >= sim_world.w_run)			/* F1 */
		return false;
	f->f_hits++;
	sim_story(h, "a sync fails: EIO");
	return true;
}

/* Lets a fault last. Of two of a kind that which ends later does. */
static void last(struct sim_fault *f, struct sim_fault **at)
{
	if (*at == NULL || (*at)->f_at + (*at)->f_length < f->f_at + f->f_length)
		*at = f;
}

static void fault_begin(void *fault)
{
	struct sim_fault *f = fault;
	struct sim_host *h = &sim_hosts[f->f_host];

	if (sim_is_well)
		return;
	sim_hash((uint64_t)f->f_kind);
	if (sim_is_page)
		sim_page_fault(f);
	else
		sim_story(NULL, "FAULT %s", f->f_text);
	switch (f->f_kind) {
	case FAULT_CRASH:
		fault_crash(f, h);
		break;
	case FAULT_TRIP:
		fault_trip(f, h);
		break;
	case FAULT_CUT:
		last(f, &h->h_cut[f->f_to]);
		break;
	case FAULT_ISOLATE:
		last(f, &h->h_isolated);
		break;
	case FAULT_SLOW:
		last(f, &h->h_slow);
		break;
	case FAULT_RESET:
		f->f_hits += sim_reset_all(h);
		break;
	case FAULT_LOSS:
		last(f, &h->h_loss);
		break;
	case FAULT_FULL:
		last(f, &h->h_full);
		break;
	case FAULT_EIO:
		fault_eio(f, h);
		break;
	default:
		h->h_clock += f->f_nr * UTIME_MS;
		h->h_jump = f;
	}
}

/* What faults do. */

/* Counts a hit of f, if it is on. */
static bool is_on(struct sim_fault *f)
{
	if (f == NULL || sim_now() >= f->f_at + f->f_length)
		return false;
	f->f_hits++;
	return true;
}

bool sim_is_full(struct sim_host *h)
{
	return is_on(h->h_full);
}

utime_ns sim_latency(struct sim_host *from, struct sim_host *to)
{
	utime_ns ns;

	if (from == to)
		return LOCAL;
	ns = sim_length(DRAW_NET, sim_world.w_latency_min,
			sim_world.w_latency_max);
	return is_on(from->h_slow) || is_on(to->h_slow) ? ns * SLOW : ns;
}

bool sim_is_cut(struct sim_host *from, struct sim_host *to)
{
	return from != to &&
		(is_on(from->h_cut[to->h_number]) || is_on(from->h_isolated) ||
		 is_on(to->h_isolated));
}

int sim_copies(struct sim_host *from, struct sim_host *to, utime_ns *late)
{
	unsigned draw = sim_below(DRAW_NET, 1000);

	if (from == to)
		return 1;
	if (draw < sim_world.w_loss)
		return 0;
	if (!is_on(from->h_loss) && !is_on(to->h_loss))
		return 1;
	if (draw % 4 == 0)
		*late = sim_length(DRAW_NET, 0, UTIME_S);
	return draw / 4 % 4 == 0 ? 0 : draw / 4 % 4 == 1 ? 2 : 1;
}

/* The plan. */

/* Returns a host that faults may hurt; 0: there is none. */
static int draw_host(void)
{
	int nr = 0, i, left;

	for (i = 1; i <= sim_host_nr; i++)
		nr += !sim_hosts[i].h_is_client;
	if (nr == 0)
		return 0;
	left = (int)sim_below(DRAW_PLAN, (unsigned)nr);
	for (i = 1; ; i++)
		if (!sim_hosts[i].h_is_client && left-- == 0)
			return i;
}

/* A cut has a host that faults may hurt at an end, and any at the other. */
static void draw_link(struct sim_fault *f)
{
	int other = 1 + (int)sim_below(DRAW_PLAN, (unsigned)sim_host_nr);

	f->f_to = other == f->f_host ? other % sim_host_nr + 1 : other;
	if (sim_below(DRAW_PLAN, 2) == 0) {
		other = f->f_host;
		f->f_host = f->f_to;
		f->f_to = other;
	}
}

static utime_ns draw_length(void)
{
	utime_ns octave = UTIME_MS << sim_below(DRAW_PLAN, OCTAVES);

	return octave + (utime_ns)(sim_draw(DRAW_PLAN) % (uint64_t)octave);
}

static utime_ns draw_time(utime_ns before)
{
	utime_ns run = sim_world.w_run;

	if (before > 0 && sim_below(DRAW_PLAN, 3) != 0)
		run = before + UTIME_S < run ? before + UTIME_S : run;
	else
		before = 0;
	return before + (utime_ns)(sim_draw(DRAW_PLAN) % (uint64_t)(run - before));
}

static enum sim_kind draw_kind(unsigned kinds)
{
	enum sim_kind kind;

	do
		kind = (enum sim_kind)sim_below(DRAW_PLAN, FAULT_KINDS);
	while (!(kinds >> kind & 1));
	return kind;
}

static void draw_fault(struct sim_fault *f, unsigned kinds, utime_ns before)
{
	f->f_kind = draw_kind(kinds);
	f->f_host = draw_host();
	f->f_at   = draw_time(before);
	f->f_length = draw_length();
	if (f->f_length > sim_world.w_run - f->f_at)		/* F1 */
		f->f_length = sim_world.w_run - f->f_at;
	f->f_nr = f->f_kind == FAULT_CLOCK ?
		(int)sim_below(DRAW_PLAN, 2 * JUMP) - JUMP :
		1 + (int)sim_below(DRAW_PLAN, 8);
	if (f->f_kind == FAULT_CUT)
		draw_link(f);
}

static void fault_text(struct sim_fault *f)
{
	char *text = f->f_text;
	size_t size = sizeof f->f_text;
	const char *name = sim_hosts[f->f_host].h_name;

	switch (f->f_kind) {
	case FAULT_CUT:
		snprintf(text, size, "cut %s -> %s for %lld us", name,
			 sim_hosts[f->f_to].h_name,
			 (long long)(f->f_length / UTIME_US));
		break;
	case FAULT_TRIP:
		snprintf(text, size, "trip %s at disk step %d, down for %lld us",
			 name, f->f_nr, (long long)(f->f_length / UTIME_US));
		break;
	case FAULT_EIO:
		snprintf(text, size, "eio %s at sync %d of a file", name, f->f_nr);
		break;
	case FAULT_RESET:
		snprintf(text, size, "reset connections of %s", name);
		break;
	case FAULT_CLOCK:
		snprintf(text, size, "clock %s by %d ms", name, f->f_nr);
		break;
	default:
		snprintf(text, size, "%s %s for %lld us",
			 sim_kind_names[f->f_kind], name,
			 (long long)(f->f_length / UTIME_US));
	}
}

void sim_plan(uint64_t mask)
{
	unsigned most = sim_world.w_faults < SIM_FAULTS ?
		sim_world.w_faults : SIM_FAULTS;
	unsigned kinds = (unsigned)sim_draw(DRAW_PLAN) & ((1 << FAULT_KINDS) - 1);
	unsigned nr = most > 0 ? sim_below(DRAW_PLAN, most + 1) : 0, i;
	utime_ns before = 0;

	if (sim_host_nr < 2)
		kinds &= ~(1u << FAULT_CUT);
	if (kinds == 0 || draw_host() == 0 || sim_world.w_run <= 0)
		nr = 0;
	for (i = 0; i < nr; i++) {
		struct sim_fault *f = &sim_report->p_faults[i];

		draw_fault(f, kinds, before);
		fault_text(f);
		before = f->f_at;
		f->f_on = mask >> i & 1;
		if (f->f_on)
			sim_at(f->f_at, fault_begin, f);
	}
	sim_report->p_fault_nr = (int)nr;
}
