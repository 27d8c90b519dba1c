/* SPDX-License-Identifier: MIT */
/* sfault.c: the plan of faults of a run, and what they do to links and hosts. */

/*
 * The plan is drawn before the run, from a stream of its own: all faults, with
 * their hosts, times and lengths. So it can be printed, and faults can be left
 * out by a mask, while the others stay. A search draws:
 *
 *	kinds		a run has some of them only, and sometimes few
 *	bursts		two of three faults come soon after another: within 64 ms
 *			to 2 s, by the run
 *	lengths		over 14 octaves, 1 ms to 16 s, or to the end of w_run. Some
 *			runs have lengths of four octaves only
 *	steps		a fault comes at a time, or waits for the n-th step of a
 *			host from then on. A fault at a random time hardly ever
 *			meets the moment between two writes. Steps are before and
 *			after a write or sync of a disk; before and after a send;
 *			and states: usim_maybe() is asked, usim_sometimes() is true
 *	hosts		a host, or that which has sent most, which often leads the
 *			others; at a step, that which makes the n-th
 *
 * An error of a sync waits for a sync in the same way.
 *
 * Each fault counts what it has hit: segments that had to wait, datagrams that
 * were lost, connections, readings of a clock. A fault that has hit nothing has
 * tried nothing, and the report says so.
 *
 * F1. After w_run no fault is on, and all hosts boot, but for hosts that are out
 *     of the core (w_core): these stay lost. A clock that drifts does so from the
 *     start of the run to its end.
 * F2. No fault but cuts and isolation touches a client, and these only its links.
 * F3. A fault draws all that it needs for the plan, and nothing later.
 */

#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define OCTAVES		14
#define SLOW		100	/* times the latency, and a sync's time */
#define JUMP		5000	/* ms */
#define LOCAL		(10 * UTIME_US)	/* latency within a host */
#define HEADERS		40	/* bytes that each segment adds on a line */
#define MILLION		1000000
#define FOR_GOOD	((utime_ns)1 << 60)
#define HALVED		28	/* counts of sends are halved each 2^28 ns */

const char *const sim_kind_names[FAULT_KINDS] = {
	"crash", "cut", "isolate", "swizzle", "slow", "narrow", "pause", "reset",
	"forget", "loss", "clock", "drift", "full", "eio", "lost"
};

const char *const sim_step_names[STEPS] = { "time", "disk", "send", "state" };

/* Faults that wait for a step. */
static struct sim_fault *armed[SIM_FAULTS];
int sim_armed_nr;

static void fault_crash(struct sim_fault *f, struct sim_host *h)
{
	utime_ns left = sim_world.w_run - sim_now();		/* F1 */

	f->f_hits += h->h_boot != NULL;
	sim_crash(h, f->f_length < left ? f->f_length : left, f->f_step == AT_TIME ?
		  "fault" : sim_step_names[f->f_step]);
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

static utime_ns end_of(const struct sim_fault *f)
{
	return f->f_begin + f->f_length;
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

	switch (f->f_kind) {
	case FAULT_CRASH:	fault_crash(f, h);			break;
	case FAULT_CUT:		fault_cut(f, h);			break;
	case FAULT_ISOLATE:
	case FAULT_LOST:	last(f, &h->h_isolated);		break;
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
	if (f->f_kind != FAULT_LOST && f->f_kind != FAULT_DRIFT &&
	    end_of(f) > sim_world.w_run)			/* F1 */
		f->f_length = sim_world.w_run - f->f_begin;
	sim_hash((uint64_t)f->f_kind << 8 | (uint64_t)h->h_number);
	if (sim_is_page)
		sim_page_fault(f, h);
	else
		sim_story(NULL, "FAULT %s%s%s", f->f_text,
			  f->f_host == 0 ? ": " : "", f->f_host == 0 ? h->h_name : "");
	fault_do(f, h);
}

/* Steps. */

/* Lets the fault begin that has waited for this step, if there is one. */
void sim_step_armed(struct sim_host *h, enum sim_step step)
{
	struct sim_fault *f;
	int i, kept = 0, nr = sim_armed_nr;
	struct sim_fault *due = NULL;

	for (i = 0; i < nr; i++) {
		f = armed[i];
		if (due == NULL && f->f_step == step &&
		    (f->f_host == h->h_number || (f->f_host == 0 && !h->h_is_client)) &&
		    --f->f_left == 0)
			due = f;
		else
			armed[kept++] = f;
	}
	sim_armed_nr = kept;
	if (due != NULL && sim_now() < sim_world.w_run && !sim_is_well)	/* F1 */
		fault_begin(due, h);
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

/* The time of a fault has come. */
static void fault_due(void *fault)
{
	struct sim_fault *f = fault;

	if (sim_is_well)
		return;
	if (f->f_step != AT_TIME)
		armed[sim_armed_nr++] = f;
	else
		fault_begin(f, f->f_host != 0 ? &sim_hosts[f->f_host] : busiest());
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

/* Mixes the number i into what a fault has drawn. */
static uint64_t part(const struct sim_fault *f, uint64_t i)
{
	uint64_t z = (f->f_draw + i) * 0x9e3779b97f4a7c15u;

	return (z ^ z >> 29) * 0xbf58476d1ce4e5b9u >> 16;
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

	if (f == NULL || part(f, 0) >> h->h_number % 32 & 1)
		return false;
	half = (uint64_t)f->f_length / 2 + 1;
	past = sim_now() - f->f_begin;
	if (past < (utime_ns)(part(f, i) % half) ||
	    past >= (utime_ns)(half + part(f, i + 1) % half))
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

bool sim_is_cut(struct sim_host *from, struct sim_host *to)
{
	return from != to &&
		(is_on(from->h_cut[to->h_number]) || is_on(from->h_isolated) ||
		 is_on(to->h_isolated) || is_swizzled(from) || is_swizzled(to));
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

/* Clocks that run fast or slow. */

/* Rounds down, so that lengths which follow each other add up. */
utime_ns sim_drifted(struct sim_host *h, utime_ns ns)
{
	utime_ns rest;

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

/* What the faults of a run have in common. */
struct shape {
	unsigned s_kinds;	/* bits */
	unsigned s_steps;
	bool     s_aims;	/* at the host that sends most */
	utime_ns s_gap;		/* most time between two faults of a burst */
	unsigned s_octave;	/* of the shortest fault */
	unsigned s_octaves;	/* octaves of faults, from s_octave on */
	int      s_lost[USIM_HOSTS];
	unsigned s_lost_nr, s_lost_most;
};

/* Returns the kinds that w_only names, as bits. */
static unsigned kinds_named(const char *names)
{
	unsigned kinds = 0, i;
	size_t nr;

	for (; *names != 0; names += nr + (names[nr] == ' ')) {
		nr = strcspn(names, " ");
		for (i = 0; i < FAULT_KINDS; i++)
			if (strlen(sim_kind_names[i]) == nr &&
			    memcmp(sim_kind_names[i], names, nr) == 0)
				break;
		if (nr > 0 && i == FAULT_KINDS)
			usim_fail("there is no kind of fault %.*s", (int)nr, names);
		kinds |= nr > 0 ? 1u << i : 0;
	}
	return kinds;
}

static struct shape draw_shape(void)
{
	struct shape s = { .s_kinds = (unsigned)sim_draw(DRAW_PLAN) >> 8,
		.s_steps = (unsigned)sim_draw(DRAW_PLAN) >> 8 };
	unsigned servers = 0;
	int i;

	if (sim_below(DRAW_PLAN, 2) == 0)
		s.s_kinds &= (unsigned)sim_draw(DRAW_PLAN) >> 8;
	s.s_kinds &= (1u << FAULT_KINDS) - 1;
	if (sim_world.w_only != NULL)
		s.s_kinds = kinds_named(sim_world.w_only);
	s.s_steps |= 1u << AT_TIME;
	s.s_aims = sim_below(DRAW_PLAN, 2) == 0;
	s.s_gap = 64 * UTIME_MS << sim_below(DRAW_PLAN, 6);
	s.s_octaves = OCTAVES + 1;
	if (sim_below(DRAW_PLAN, 2) == 0) {
		s.s_octaves = 4;
		s.s_octave = sim_below(DRAW_PLAN, OCTAVES - 3);
	}
	for (i = 1; i <= sim_host_nr; i++)
		servers += !sim_hosts[i].h_is_client;
	if (sim_world.w_core > 0 && sim_world.w_core < servers)
		s.s_lost_most = servers - sim_world.w_core;
	else
		s.s_kinds &= ~(1u << FAULT_LOST);
	if (sim_host_nr < 2)
		s.s_kinds &= ~(1u << FAULT_CUT);
	return s;
}

/* An octave after the last is for good. */
static utime_ns draw_length(const struct shape *s)
{
	unsigned nr = s->s_octave + sim_below(DRAW_PLAN, s->s_octaves);
	utime_ns octave = UTIME_MS << nr;

	octave += (utime_ns)(sim_draw(DRAW_PLAN) % (uint64_t)octave);
	return nr >= OCTAVES ? FOR_GOOD : octave;
}

static utime_ns draw_time(const struct shape *s, utime_ns before)
{
	utime_ns run = sim_world.w_run;

	if (before > 0 && sim_below(DRAW_PLAN, 3) != 0)
		run = before + s->s_gap < run ? before + s->s_gap : run;
	else
		before = 0;
	return before + (utime_ns)(sim_draw(DRAW_PLAN) % (uint64_t)(run - before));
}

/* Draws some kinds more often than others. */
static enum sim_kind draw_kind(unsigned kinds)
{
	static const unsigned char table[] = {
		FAULT_CRASH, FAULT_CRASH, FAULT_CRASH, FAULT_CRASH, FAULT_CUT,
		FAULT_CUT, FAULT_ISOLATE, FAULT_ISOLATE, FAULT_SWIZZLE,
		FAULT_SLOW, FAULT_NARROW, FAULT_PAUSE, FAULT_RESET,
		FAULT_FORGET, FAULT_LOSS, FAULT_CLOCK, FAULT_DRIFT, FAULT_FULL,
		FAULT_EIO, FAULT_EIO, FAULT_LOST
	};
	unsigned kind;

	do
		kind = table[sim_below(DRAW_PLAN, sizeof table)];
	while (!(kinds >> kind & 1));
	return (enum sim_kind)kind;
}

/* Half of the faults come at a time, the others at steps that the run has. */
static enum sim_step draw_step(const struct shape *s)
{
	static const unsigned char table[] = {
		AT_TIME, AT_TIME, AT_TIME, AT_TIME, AT_DISK, AT_DISK, AT_SEND,
		AT_STATE
	};
	unsigned step = table[sim_below(DRAW_PLAN, sizeof table)];

	return s->s_steps >> step & 1 ? (enum sim_step)step : AT_TIME;
}

static int draw_ppm(void)
{
	int ppm = 1 << (4 + sim_below(DRAW_PLAN, 13));	/* 16 to 65536 */

	return sim_below(DRAW_PLAN, 2) == 0 ? ppm : -ppm;
}

/* Lets hosts be lost until w_core are left. Others of them are isolated. */
static void draw_lost(struct shape *s, struct sim_fault *f)
{
	unsigned i;

	for (i = 0; i < s->s_lost_nr && s->s_lost[i] != f->f_host; i++)
		;
	if (i == s->s_lost_nr && i == s->s_lost_most)
		f->f_kind = FAULT_ISOLATE;
	else if (i == s->s_lost_nr)
		s->s_lost[s->s_lost_nr++] = f->f_host;
	if (f->f_kind == FAULT_LOST)
		f->f_length = FOR_GOOD;
}

static void draw_fault(struct sim_fault *f, struct shape *s, utime_ns before)
{
	bool aims;

	f->f_kind = draw_kind(s->s_kinds);
	f->f_host = draw_host();
	f->f_at   = draw_time(s, before);
	f->f_length = draw_length(s);
	f->f_draw = sim_draw(DRAW_PLAN);
	f->f_step = draw_step(s);
	f->f_left = 1 + (int)sim_below(DRAW_PLAN, 1u << sim_below(DRAW_PLAN, 6));
	f->f_to   = 1 + (int)sim_below(DRAW_PLAN, (unsigned)sim_host_nr);
	f->f_nr   = 1 + (int)sim_below(DRAW_PLAN, 8);
	aims = sim_below(DRAW_PLAN, 2) == 0 && s->s_aims;
	switch (f->f_kind) {
	case FAULT_CLOCK:
		f->f_nr = (int)sim_below(DRAW_PLAN, 2 * JUMP) - JUMP;
		break;
	case FAULT_NARROW:
		f->f_nr = 2048 << f->f_nr;
		break;
	case FAULT_DRIFT:
		f->f_nr = draw_ppm();
		f->f_at = 0;
		f->f_length = FOR_GOOD;
		break;
	case FAULT_LOST:
		draw_lost(s, f);
		break;
	case FAULT_EIO:
		break;
	default:
		f->f_host = aims ? 0 : f->f_host;
		return;
	}
	f->f_step = f->f_kind == FAULT_CLOCK || f->f_kind == FAULT_NARROW ? f->f_step :
		AT_TIME;
}

/* Text. */

static const char *name_of(const struct sim_fault *f)
{
	return f->f_host != 0 ? sim_hosts[f->f_host].h_name :
		f->f_step == AT_TIME ? "who sends most" : "its host";
}

static size_t text_add(struct sim_fault *f, size_t at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static size_t text_add(struct sim_fault *f, size_t at, const char *format, ...)
{
	va_list args;
	int nr;

	va_start(args, format);
	nr = vsnprintf(f->f_text + at, sizeof f->f_text - at, format, args);
	va_end(args);
	at += nr > 0 ? (size_t)nr : 0;
	return at < sizeof f->f_text ? at : sizeof f->f_text - 1;
}

/* Adds which hosts a swizzle isolates. */
static size_t swizzle_text(struct sim_fault *f, size_t at)
{
	const char *comma = " ";
	int i;

	for (i = 1; i <= sim_host_nr; i++)
		if (!sim_hosts[i].h_is_client && !(part(f, 0) >> i % 32 & 1)) {
			at = text_add(f, at, "%s%s", comma, sim_hosts[i].h_name);
			comma = ", ";
		}
	return at;
}

static size_t what_text(struct sim_fault *f, size_t at)
{
	const char *name = name_of(f);
	const char *to = sim_hosts[sim_cut_to(f, f->f_host)].h_name;
	const char *kind = sim_kind_names[f->f_kind];

	switch (f->f_kind) {
	case FAULT_CUT:
		return f->f_nr % 2 == 0 ? text_add(f, at, "cut %s -> %s", name, to) :
			text_add(f, at, "cut %s -> %s", to, name);
	case FAULT_SWIZZLE:
		return swizzle_text(f, text_add(f, at, "swizzle"));
	case FAULT_EIO:
		return text_add(f, at, "eio %s at sync %d of a file", name, f->f_nr);
	case FAULT_RESET:
	case FAULT_FORGET:
		return text_add(f, at, "%s connections of %s", kind, name);
	case FAULT_CLOCK:
		return text_add(f, at, "clock %s by %d ms", name, f->f_nr);
	case FAULT_DRIFT:
		return text_add(f, at, "drift %s by %d ppm", name, f->f_nr);
	case FAULT_NARROW:
		return text_add(f, at, "narrow %s to %d bytes/s", name, f->f_nr);
	default:
		return text_add(f, at, "%s %s", kind, name);
	}
}

bool sim_fault_lasts(const struct sim_fault *f)
{
	return f->f_kind != FAULT_EIO && f->f_kind != FAULT_RESET &&
		f->f_kind != FAULT_FORGET && f->f_kind != FAULT_CLOCK;
}

static void fault_text(struct sim_fault *f)
{
	bool lasts = sim_fault_lasts(f) && f->f_kind != FAULT_DRIFT;
	size_t at = 0;

	if (f->f_step != AT_TIME)
		at = text_add(f, 0, "at %s %d: ", sim_step_names[f->f_step],
			      f->f_left);
	at = what_text(f, at);
	if (lasts && f->f_length >= FOR_GOOD)
		text_add(f, at, " for good");
	else if (lasts)
		text_add(f, at, " for %lld us", (long long)(f->f_length / UTIME_US));
}

void sim_plan(uint64_t mask)
{
	unsigned most = sim_world.w_faults < SIM_FAULTS ?
		sim_world.w_faults : SIM_FAULTS;
	struct shape s = draw_shape();
	unsigned nr = most > 0 ? sim_below(DRAW_PLAN, most + 1) : 0, i;
	utime_ns before = 0;

	if (s.s_kinds == 0 || draw_host() == 0 || sim_world.w_run <= 0)
		nr = 0;
	for (i = 0; i < nr; i++) {
		struct sim_fault *f = &sim_report->p_faults[i];

		draw_fault(f, &s, before);
		if (f->f_length > sim_world.w_run - f->f_at &&		/* F1 */
		    f->f_kind != FAULT_LOST && f->f_kind != FAULT_DRIFT)
			f->f_length = sim_world.w_run - f->f_at;
		fault_text(f);
		before = f->f_at > 0 ? f->f_at : before;
		f->f_on = mask >> i & 1;
		if (f->f_on)
			sim_at(f->f_at, fault_due, f);
	}
	sim_report->p_fault_nr = (int)nr;
}
