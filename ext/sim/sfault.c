/* SPDX-License-Identifier: MIT */
/* sfault.c: what faults do to links, disks, clocks and hosts. */

/*
 * A fault begins at its time, or at a step of a host: sim_step_armed(). Then it counts
 * what it hits: segments that had to wait, datagrams that were lost, connections,
 * readings of a clock. A fault that has hit nothing has tried nothing, and the report
 * says so, or why the kind cannot hit anything in this program.
 *
 * F1. After w_run no fault is on, and all hosts boot, but for hosts that are out
 *     of the core (w_core): these stay lost. A clock that drifts does so from the
 *     start of the run to its end.
 * F2. No fault but cuts, isolation and splits touches a client, and these only its
 *     links.
 * F3. A fault draws all that it needs for the plan, and nothing later: splan.c.
 */

#include "sim.h"

#include <string.h>

#define SLOW		100	/* times the latency, and a sync's time */
#define LOCAL		(10 * UTIME_US)	/* latency within a host */
#define HEADERS		40	/* bytes that each segment adds on a line */
#define MILLION		1000000
#define HALVED		28	/* counts of sends are halved each 2^28 ns */

const char *const sim_kind_names[FAULT_KINDS] = {
	"crash", "cut", "isolate", "swizzle", "split", "slow", "narrow", "pause", "reset",
	"forget", "loss", "clock", "drift", "full", "eio", "late", "lost",
	"unread", "damage", "stale", "astray", "empty"
};

const char *const sim_step_names[STEPS] = { "time", "disk", "send", "state" };

/* Faults that wait for a step. */
static struct sim_fault *armed[SIM_FAULTS];
int sim_armed_nr;

/* Kinds that need what a program may not do. */
static const struct { enum sim_use n_use; const char *n_why; } needs[FAULT_KINDS] = {
	[FAULT_CUT]     = { USE_PEER,	  "there is only one host" },
	[FAULT_ISOLATE] = { USE_LINK,	  "no host sends to another" },
	[FAULT_SWIZZLE] = { USE_LINK,	  "no host sends to another" },
	[FAULT_SPLIT]   = { USE_LINK,	  "no host sends to another" },
	[FAULT_NARROW]  = { USE_LINK,	  "no host sends to another" },
	[FAULT_RESET]   = { USE_STREAM,	  "no host has a connection" },
	[FAULT_FORGET]  = { USE_STREAM,	  "no host has a connection" },
	[FAULT_LOSS]    = { USE_DATAGRAM, "no host sends datagrams" },
	[FAULT_CLOCK]   = { USE_WALL,	  "no host reads its wall clock" },
	[FAULT_DRIFT]   = { USE_CLOCK,	  "no host asks for the time" },
	[FAULT_FULL]    = { USE_WRITE,	  "no host writes to its disk" },
	[FAULT_EIO]     = { USE_SYNC,	  "no host syncs a file" },
	[FAULT_UNREAD]  = { USE_READ,	  "no host reads a file" },
	[FAULT_DAMAGE]  = { USE_READ,	  "no host reads a file" },
	[FAULT_STALE]   = { USE_READ,	  "no host reads a file" },
	[FAULT_ASTRAY]  = { USE_WRITE,	  "no host writes to its disk" },
	[FAULT_LOST]    = { USE_SPARE,	  "w_core has all hosts" },
};

const char *sim_cannot(enum sim_kind kind, unsigned uses)
{
	return needs[kind].n_why == NULL || uses >> needs[kind].n_use & 1 ? NULL :
		needs[kind].n_why;
}

static void fault_crash(struct sim_fault *f, struct sim_host *h)
{
	utime_ns left = sim_world.w_run - sim_now();		/* F1 */

	f->f_hits += h->h_boot != NULL;
	if (f->f_kind == FAULT_EMPTY && h->h_boot != NULL)
		h->h_disk = sim_disk_make();
	sim_crash(h, f->f_length < left ? f->f_length : left, f->f_step == AT_TIME ?
		  "fault" : sim_step_names[f->f_step]);
}

static utime_ns end_of(const struct sim_fault *f)
{
	return f->f_begin + f->f_length;
}

/* A fault has begun, or hit: the next comes, if it is bound to this. */
static void follow(const struct sim_fault *f)
{
	struct sim_fault *next = (struct sim_fault *)f + 1;

	sim_mark_fault(&sim_hosts[f->f_met], f->f_kind);
	if (next < sim_report->p_faults + sim_report->p_fault_nr && next->f_bound != FREE &&
	    next->f_on)
		sim_at((next->f_from_end ? end_of(f) : sim_now()) + next->f_gap,
		       sim_fault_due, next);
}

void sim_fault_hit(struct sim_fault *f)
{
	f->f_hits++;
	follow(f);
}

bool sim_fails_sync(struct sim_host *h)
{
	struct sim_fault *f = h->h_eio;

	if (f == NULL || --h->h_eio_nr > 0)
		return false;
	h->h_eio = NULL;
	if (sim_now() >= sim_world.w_run)			/* F1 */
		return false;
	sim_fault_hit(f);
	sim_story(h, "a sync fails: EIO");
	return true;
}

/* Lets a fault last. Of two of a kind that which ends later does. */
static void last(struct sim_fault *f, struct sim_fault **at)
{
	if (*at == NULL || end_of(*at) < end_of(f))
		*at = f;
}

/* Returns the other end of a cut that begins at a host. */
int sim_cut_to(const struct sim_fault *f, int host)
{
	return f->f_to == host ? f->f_to % sim_host_nr + 1 : f->f_to;
}

/* One end of a cut is h. */
static void fault_cut(struct sim_fault *f, struct sim_host *h)
{
	int to = sim_cut_to(f, h->h_number);

	if (f->f_nr % 2 == 0)
		last(f, &h->h_cut[to]);
	else
		last(f, &sim_hosts[to].h_cut[h->h_number]);
}

/* May not return: the caller's host may crash. */
static void fault_do(struct sim_fault *f, struct sim_host *h)
{
	int i;

	h->h_clock += f->f_jump * UTIME_MS;
	switch (f->f_kind) {
	case FAULT_CRASH:
	case FAULT_EMPTY:	fault_crash(f, h);			break;
	case FAULT_UNREAD:
	case FAULT_DAMAGE:
	case FAULT_STALE:
	case FAULT_ASTRAY:
		h->h_lies = f;
		h->h_lies_nr = f->f_nr;
		break;
	case FAULT_CUT:		fault_cut(f, h);			break;
	case FAULT_ISOLATE:
	case FAULT_LOST:	last(f, &h->h_isolated);		break;
	case FAULT_SPLIT:	sim_split_begin(f);			break;
	case FAULT_SLOW:	last(f, &h->h_slow);			break;
	case FAULT_NARROW:	last(f, &h->h_narrow);			break;
	case FAULT_PAUSE:	last(f, &h->h_paused);			break;
	case FAULT_RESET:	f->f_hits += sim_reset_all(h);		break;
	case FAULT_FORGET:
		sim_forget_all(h, f);
		sim_at(sim_world.w_run, sim_forget_end, NULL);	/* F1 */
		break;
	case FAULT_LOSS:	last(f, &h->h_loss);			break;
	case FAULT_FULL:	last(f, &h->h_full);			break;
	case FAULT_DRIFT:	h->h_drift = f;				break;
	case FAULT_LATE:
		f->f_hits++;
		if (h->h_late < f->f_length)
			h->h_late = f->f_length;
		break;
	case FAULT_SWIZZLE:
		for (i = 1; i <= sim_host_nr; i++)
			if (!sim_hosts[i].h_is_client)
				last(f, &sim_hosts[i].h_swizzle);
		break;
	case FAULT_EIO:
		h->h_eio = f;
		h->h_eio_nr = f->f_nr;
		break;
	default:
		h->h_clock += f->f_nr * UTIME_MS;
		h->h_jump = f;
	}
}

static void fault_begin(struct sim_fault *f, struct sim_host *h)
{
	f->f_begin = sim_now();
	f->f_met = h->h_number;
	if (f->f_host == 0 || f->f_state != NULL)
		sim_fault_text(f);
	if (f->f_kind != FAULT_LOST && f->f_kind != FAULT_DRIFT &&
	    end_of(f) > sim_world.w_run)			/* F1 */
		f->f_length = sim_world.w_run - f->f_begin;
	sim_hash((uint64_t)f->f_kind << 8 | (uint64_t)h->h_number);
	if (sim_is_page)
		sim_page_fault(f, h);
	else
		sim_story(NULL, "FAULT %s", f->f_text);
	if (f->f_kind != FAULT_EIO && (!sim_kind_lies(f->f_kind) ||
				       f->f_kind == FAULT_EMPTY))
		follow(f);
	fault_do(f, h);
}

/* Steps. */

/* Returns whether f waits for steps of h. */
static bool is_meant(const struct sim_fault *f, const struct sim_host *h)
{
	int before = f->f_bound == FREE ? 0 : f[-1].f_met;

	if (f->f_host != 0 || h->h_is_client)
		return f->f_host == h->h_number;
	return f->f_bound == FREE || (before == h->h_number) == (f->f_bound == SAME);
}

/* Returns whether f waits for this state. A fault that has names, has some of them. */
static bool is_named(const struct sim_fault *f, const char *name)
{
	uint64_t sum = 0;

	if (name == NULL || !f->f_names)
		return true;
	for (; *name != 0; name++)
		sum = sim_mix(sum + (unsigned char)*name);
	return sim_part(f, sum) % 4 == 0;
}

/* Lets the fault begin that has waited for this step, if there is one. */
void sim_step_armed(struct sim_host *h, enum sim_step step, const char *name)
{
	struct sim_fault *f;
	int i, kept = 0, nr = sim_armed_nr;
	struct sim_fault *due = NULL;

	for (i = 0; i < nr; i++) {
		f = armed[i];
		if (due == NULL && f->f_step == step && is_meant(f, h) &&
		    is_named(f, name) && --f->f_left == 0)
			due = f;
		else
			armed[kept++] = f;
	}
	sim_armed_nr = kept;
	if (due == NULL || sim_now() >= sim_world.w_run || sim_is_well)	/* F1 */
		return;
	due->f_state = name;
	fault_begin(due, h);
	if (due->f_kind == FAULT_PAUSE && sim_paused(h) > 0)
		sim_sleep(sim_paused(h));	/* the caller is a thread of h */
}

/* Returns how much a host has sent lately. */
static unsigned sent(const struct sim_host *h)
{
	uint64_t turns = (uint64_t)(sim_now() >> HALVED) - h->h_turn;

	return turns < 32 ? h->h_sent >> turns : 0;
}

void sim_sent(struct sim_host *h)
{
	h->h_sent = sent(h) + 256;
	h->h_turn = (uint64_t)(sim_now() >> HALVED);
}

/* Returns the host that has sent most; that with the lowest number of equals. */
static struct sim_host *busiest(void)
{
	struct sim_host *most = NULL;
	int i;

	for (i = 1; i <= sim_host_nr; i++)
		if (!sim_hosts[i].h_is_client &&
		    (most == NULL || sent(&sim_hosts[i]) > sent(most)))
			most = &sim_hosts[i];
	return most;
}

/* Returns the host of a fault that begins at its time. */
static struct sim_host *host_of(const struct sim_fault *f)
{
	uint64_t i;

	if (f->f_host != 0)
		return &sim_hosts[f->f_host];
	if (f->f_bound == FREE)
		return busiest();
	if (f->f_bound == SAME)
		return &sim_hosts[f[-1].f_met];
	for (i = sim_part(f, 1); ; i++) {
		struct sim_host *h = &sim_hosts[1 + i % (uint64_t)sim_host_nr];

		if (!h->h_is_client && h->h_number != f[-1].f_met)
			return h;
	}
}

/* The time of a fault has come. */
void sim_fault_due(void *fault)
{
	struct sim_fault *f = fault;

	if (sim_is_well || sim_now() >= sim_world.w_run)	/* F1 */
		return;
	if (f->f_step != AT_TIME)
		armed[sim_armed_nr++] = f;
	else
		fault_begin(f, host_of(f));
}

/* What faults do. */

/* Counts a hit of f, if it is on. */
static bool is_on(struct sim_fault *f)
{
	if (f == NULL || sim_now() >= end_of(f))
		return false;
	f->f_hits++;
	return true;
}

bool sim_is_full(struct sim_host *h)
{
	return is_on(h->h_full);
}

/*
 * The first half of a swizzle isolates some hosts one after another; in the second
 * half they come back, in another order.
 */
static bool is_swizzled(const struct sim_host *h)
{
	struct sim_fault *f = h->h_swizzle;
	uint64_t i = 2 * (uint64_t)h->h_number, half;
	utime_ns past;

	if (f == NULL || sim_part(f, 0) >> h->h_number % 32 & 1)
		return false;
	half = (uint64_t)f->f_length / 2 + 1;
	past = sim_now() - f->f_begin;
	if (past < (utime_ns)(sim_part(f, i) % half) ||
	    past >= (utime_ns)(half + sim_part(f, i + 1) % half))
		return false;
	return is_on(f);
}

static utime_ns carried(struct sim_fault *narrow, utime_ns *line, utime_ns at,
			size_t size)
{
	uint64_t bytes = is_on(narrow) ? (uint64_t)narrow->f_nr :
		sim_world.w_bandwidth;

	if (bytes == 0)
		return at;
	at = at > *line ? at : *line;
	*line = at + (utime_ns)((size + HEADERS) * (uint64_t)UTIME_S / bytes);
	return *line;
}

/* The line of each host carries one segment after another, in each direction. */
utime_ns sim_arrival(struct sim_host *from, struct sim_host *to, size_t size)
{
	utime_ns ns, at = sim_now();

	if (from == to)
		return at + LOCAL;
	sim_use(from, USE_LINK);
	sim_use(to, USE_LINK);
	ns = sim_length(DRAW_NET, sim_world.w_latency_min,
			sim_world.w_latency_max);
	at = carried(from->h_narrow, &from->h_out, at, size);
	at = carried(to->h_narrow, &to->h_in, at, size);
	return at + (is_on(from->h_slow) || is_on(to->h_slow) ? ns * SLOW : ns);
}

utime_ns sim_sync_time(struct sim_host *h, utime_ns ns)
{
	return is_on(h->h_slow) ? ns * SLOW : ns;
}

/* Returns until when the threads of a host stand still, or 0. */
utime_ns sim_paused(struct sim_host *h)
{
	return is_on(h->h_paused) ? end_of(h->h_paused) : 0;
}

/* Does what is_on() does, for a fault that may flap. */
static bool is_closed(struct sim_fault *f)
{
	return f != NULL && !sim_is_off(f) && is_on(f);
}

bool sim_is_cut(struct sim_host *from, struct sim_host *to)
{
	return from != to &&
		(is_closed(from->h_cut[to->h_number]) || is_closed(from->h_isolated) ||
		 is_closed(to->h_isolated) || is_closed(sim_split(from, to)) ||
		 is_swizzled(from) || is_swizzled(to));
}

int sim_copies(struct sim_host *from, struct sim_host *to, utime_ns *late)
{
	unsigned draw = sim_below(DRAW_NET, 1000);

	if (from == to)
		return 1;
	sim_use(from, USE_DATAGRAM);
	sim_use(to, USE_DATAGRAM);
	if (draw < sim_world.w_loss)
		return 0;
	if (!is_on(from->h_loss) && !is_on(to->h_loss))
		return 1;
	if (draw % 4 == 0)
		*late = sim_length(DRAW_NET, 0, UTIME_S);
	return draw / 4 % 4 == 0 ? 0 : draw / 4 % 4 == 1 ? 2 : 1;
}

/* Clocks that run fast or slow. */

/* Rounds down, so that lengths which follow each other add up. */
utime_ns sim_drifted(struct sim_host *h, utime_ns ns)
{
	utime_ns rest;

	sim_use(h, USE_CLOCK);
	if (h->h_drift == NULL)
		return ns;
	h->h_drift->f_hits++;
	rest = ns % MILLION * h->h_drift->f_nr;
	rest = (rest < 0 ? rest - MILLION + 1 : rest) / MILLION;
	return ns + ns / MILLION * h->h_drift->f_nr + rest;
}

/* At the end the clock of h has gone on by ns at least. */
utime_ns sim_after_drift(struct sim_host *h, utime_ns ns)
{
	utime_ns rate, out;

	h->h_drift->f_hits++;
	rate = MILLION + h->h_drift->f_nr;
	out = ns / rate * MILLION + ns % rate * MILLION / rate;
	while (sim_drifted(h, out) < ns)
		out++;
	return sim_now() + out;
}
