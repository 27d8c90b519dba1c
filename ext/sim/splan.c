/* SPDX-License-Identifier: MIT */
/* splan.c: the plan of faults of a run, and its words. */

/*
 * The plan is drawn before the run, from a stream of its own: all faults, with
 * their hosts, times and lengths. So it can be printed, and faults can be left
 * out by a mask, while the others stay. A search draws:
 *
 *	how many	0 to w_faults, which are 48. With 12 a run costs a tenth to a
 *			fifth less, and most errors take 2 to 6 times as many runs
 *	kinds		a run has some of them only, and sometimes few
 *	bursts		two of three faults come soon after another: within 64 ms
 *			to 2 s, by the run
 *	lengths		over 14 octaves, 1 ms to 16 s, or to the end of w_run. Some
 *			runs have lengths of four octaves only. Half of the pauses
 *			are of the last four octaves of w_run: longer than any lease
 *	jumps		of a wall clock, while its host is up, or with a crash or a
 *			pause: when the host goes on, its clock is another
 *	steps		a fault comes at a time, or waits for the n-th step of a
 *			host from then on. A fault at a random time hardly ever
 *			meets the moment between two writes. Steps are before and
 *			after a write or sync of a disk; before and after a send;
 *			and states: usim_maybe() is asked, usim_sometimes() is true
 *	hosts		a host, or that which has sent most, which often leads the
 *			others; at a step, that which makes the n-th
 *
 *	bonds		a fault may be bound to that before it in the list. Its time
 *			is counted from the begin or the end of that, 64 us to 4 s,
 *			so that it comes before w_run if that comes at its time,
 *			and its host is the same, or another. So a host crashes
 *			again while it recovers, or that which takes over crashes,
 *			too. If --only leaves the first out, the other does not come
 *	names		half of the faults that wait for a state wait for some names
 *			only: so for the first time of a rare state
 *
 *	bends		from the time of a bend on (sguide.c) a run has the faults
 *			that another plan has there; or up to three that come soon,
 *			64 us to 4 s after one another, most of them at one host,
 *			before those of the other plan or beside those that it had
 *
 * An error of a sync waits for a sync in the same way. The rules for all faults
 * stand in sfault.c.
 */

#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define OCTAVES		14
#define LONG		4	/* octaves of long pauses, up to w_run */
#define LYING		(FAULT_KINDS - FAULT_UNREAD)
#define GAP		(64 * UTIME_US)	/* the least between faults that are bound */
#define GAPS		16	/* octaves, to 4 s */
#define FOR_GOOD	((utime_ns)1 << 60)

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
	bool     s_binds;	/* faults to those before them */
	unsigned s_servers;
	int      s_host;	/* of a bend, where most faults are; or 0 */
	utime_ns s_gap;		/* most time between two faults of a burst */
	unsigned s_octave;	/* of the shortest fault */
	unsigned s_octaves;	/* octaves of faults, from s_octave on */
	int      s_lost[USIM_HOSTS];	/* hosts that are lost, or whose disk lies */
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
		.s_steps = (unsigned)(sim_draw(DRAW_PLAN) | sim_draw(DRAW_PLAN)) >> 8 };
	unsigned servers = 0;
	int i;

	if (sim_below(DRAW_PLAN, 2) == 0)
		s.s_kinds &= (unsigned)sim_draw(DRAW_PLAN) >> 8;
	s.s_kinds &= (1u << FAULT_UNREAD) - 1;
	if (sim_world.w_only != NULL)
		s.s_kinds = kinds_named(sim_world.w_only);
	if (sim_world.w_also != NULL)
		s.s_kinds |= kinds_named(sim_world.w_also);
	s.s_steps |= 1u << AT_TIME;
	s.s_aims = sim_below(DRAW_PLAN, 2) == 0;
	s.s_gap = 64 * UTIME_MS << sim_below(DRAW_PLAN, 6);
	s.s_binds = sim_below(DRAW_PLAN, 2) == 0;
	s.s_octaves = OCTAVES + 1;
	if (sim_below(DRAW_PLAN, 2) == 0) {
		s.s_octaves = 4;
		s.s_octave = sim_below(DRAW_PLAN, OCTAVES - 3);
	}
	for (i = 1; i <= sim_host_nr; i++)
		servers += !sim_hosts[i].h_is_client;
	s.s_servers = servers;
	if (sim_world.w_core > 0 && sim_world.w_core < servers)
		s.s_lost_most = servers - sim_world.w_core;
	else
		s.s_kinds &= ~(1u << FAULT_LOST);
	if (sim_host_nr < 2)
		s.s_kinds &= ~(1u << FAULT_CUT);
	sim_report->p_uses |= (unsigned)(sim_host_nr >= 2) << USE_PEER |
		(unsigned)(s.s_lost_most > 0) << USE_SPARE;
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

/* Draws a time soon after another, over 17 octaves from 64 us on. */
static utime_ns draw_soon(utime_ns before)
{
	utime_ns octave = 64 * UTIME_US << sim_below(DRAW_PLAN, 17);
	utime_ns at = before + (utime_ns)(sim_draw(DRAW_PLAN) % (uint64_t)octave);

	return at < sim_world.w_run ? at : sim_world.w_run - 1;
}

/* Draws some kinds more often than others. */
static enum sim_kind draw_kind(unsigned kinds)
{
	static const unsigned char table[] = {
		FAULT_CRASH, FAULT_CRASH, FAULT_CRASH, FAULT_CRASH, FAULT_CRASH,
		FAULT_CUT, FAULT_ISOLATE, FAULT_SPLIT, FAULT_SPLIT, FAULT_SWIZZLE,
		FAULT_SLOW, FAULT_NARROW, FAULT_PAUSE, FAULT_PAUSE, FAULT_RESET,
		FAULT_FORGET, FAULT_LOSS, FAULT_CLOCK, FAULT_DRIFT, FAULT_FULL,
		FAULT_EIO, FAULT_EIO, FAULT_LATE, FAULT_LOST, FAULT_UNREAD,
		FAULT_DAMAGE, FAULT_STALE, FAULT_ASTRAY, FAULT_EMPTY
	};
	unsigned kind, nr = sizeof table - (kinds >> FAULT_UNREAD == 0 ? LYING : 0);

	do
		kind = table[sim_below(DRAW_PLAN, nr)];
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

/* 32 ms to 65 s, forward or back. */
static int draw_jump(void)
{
	int ms = 32 << sim_below(DRAW_PLAN, 11);

	ms += (int)sim_below(DRAW_PLAN, (unsigned)ms);
	return sim_below(DRAW_PLAN, 2) == 0 ? ms : -ms;
}

/* A crash or a pause may take a jump of the clock with it. */
static void draw_stop(const struct shape *s, struct sim_fault *f)
{
	utime_ns octave = sim_world.w_run >> (1 + sim_below(DRAW_PLAN, LONG));

	if (f->f_kind == FAULT_PAUSE && octave > 0 && sim_below(DRAW_PLAN, 2) == 0)
		f->f_length = octave + (utime_ns)(sim_draw(DRAW_PLAN) % (uint64_t)octave);
	if (s->s_kinds >> FAULT_CLOCK & 1 && sim_below(DRAW_PLAN, 4) == 0)
		f->f_jump = draw_jump();
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
	f->f_host = s->s_host != 0 && sim_below(DRAW_PLAN, 4) != 0 ? s->s_host :
		draw_host();
	f->f_at   = s->s_host != 0 ? draw_soon(before) : draw_time(s, before);
	f->f_length = draw_length(s);
	f->f_draw = sim_draw(DRAW_PLAN);
	f->f_step = draw_step(s);
	f->f_nth = 1 + (int)sim_below(DRAW_PLAN, 1u << sim_below(DRAW_PLAN, 6));
	f->f_names = f->f_step == AT_STATE && sim_below(DRAW_PLAN, 2) == 0;
	if (f->f_names)
		f->f_nth = 1 + f->f_nth / 4;
	f->f_left = f->f_nth;
	f->f_to   = 1 + (int)sim_below(DRAW_PLAN, (unsigned)sim_host_nr);
	f->f_nr   = 1 + (int)sim_below(DRAW_PLAN, 8);
	aims = sim_below(DRAW_PLAN, 2) == 0 && s->s_aims;
	if (sim_kind_lies(f->f_kind)) {
		f->f_nr = f->f_nth;
		f->f_step = f->f_kind == FAULT_EMPTY ? f->f_step : AT_TIME;
		return;
	}
	switch (f->f_kind) {
	case FAULT_CLOCK:
		f->f_nr = draw_jump();
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
	case FAULT_LATE:
		f->f_at = 0;
		if (s->s_kinds != 1u << FAULT_LATE)	/* one of a run */
			s->s_kinds &= ~(1u << FAULT_LATE);
		break;
	case FAULT_EIO:
		break;
	case FAULT_CRASH:
	case FAULT_PAUSE:
		draw_stop(s, f);
		/* fallthrough */
	default:
		f->f_host = aims ? 0 : f->f_host;
		return;
	}
	f->f_step = f->f_kind == FAULT_CLOCK || f->f_kind == FAULT_NARROW ? f->f_step :
		AT_TIME;
}

/*
 * Lets disks lie, of a host that is not lost, each once: sdamage L1. False: there is no
 * host for that, and no more of these faults come.
 */
static bool draw_lie(struct shape *s, struct sim_fault *f)
{
	unsigned i, most = s->s_lost_most > 0 ? s->s_lost_most : 1;

	for (i = 0; i < s->s_lost_nr && s->s_lost[i] != f->f_host; i++)
		;
	if (i < s->s_lost_nr || i == most) {
		s->s_kinds &= (1u << FAULT_UNREAD) - 1;
		return false;
	}
	s->s_lost[s->s_lost_nr++] = f->f_host;
	sim_keeps_old |= f->f_kind == FAULT_STALE;
	return true;
}

/* Returns whether a fault of this kind can be bound to another, or another to it. */
static bool is_bindable(enum sim_kind kind)
{
	return kind != FAULT_DRIFT && kind != FAULT_LATE && kind != FAULT_LOST &&
		!sim_kind_lies(kind);
}

/* Binds a fault to that before it: f[-1]. */
static void draw_bound(struct sim_fault *f, const struct shape *s)
{
	const struct sim_fault *before = f - 1;
	utime_ns end = before->f_at + before->f_length, from;
	bool lasts = sim_fault_lasts(before) && before->f_length < sim_world.w_run / 2 &&
		end + GAP < sim_world.w_run;

	if (!s->s_binds || !is_bindable(f->f_kind) || !is_bindable(before->f_kind) ||
	    sim_below(DRAW_PLAN, before->f_step == AT_STATE ? 4 : 2) != 0)
		return;
	f->f_bound = s->s_servers == 1 || sim_below(DRAW_PLAN, 2) == 0 ? SAME : OTHER;
	f->f_from_end = sim_below(DRAW_PLAN, 2) == 0 && lasts;
	f->f_gap = GAP << sim_below(DRAW_PLAN, GAPS);
	f->f_gap += (utime_ns)(sim_draw(DRAW_PLAN) % (uint64_t)f->f_gap);
	from = f->f_from_end ? end : before->f_at;
	while (from + f->f_gap >= sim_world.w_run && f->f_gap > GAP)
		f->f_gap /= 2;
	f->f_host = 0;
	f->f_at = from + f->f_gap;
	if (f->f_at >= sim_world.w_run)
		f->f_at = sim_world.w_run - 1;
}

/* Text. */

/* A fault of no certain host has it behind its name when it has begun. */
static const char *name_of(const struct sim_fault *f, char room[60])
{
	const char *name = f->f_bound == SAME ? "the same host" :
		f->f_bound == OTHER ? "another host" :
		f->f_step == AT_TIME ? "who sends most" : "its host";

	if (f->f_host != 0)
		return sim_hosts[f->f_host].h_name;
	if (f->f_met == 0)
		return name;
	snprintf(room, 60, "%s (%.40s)", name, sim_hosts[f->f_met].h_name);
	return room;
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
		if (!sim_hosts[i].h_is_client && !(sim_part(f, 0) >> i % 32 & 1)) {
			at = text_add(f, at, "%s%s", comma, sim_hosts[i].h_name);
			comma = ", ";
		}
	return at;
}

static size_t what_text(struct sim_fault *f, size_t at)
{
	char room[60];
	const char *name = name_of(f, room);
	const char *to = sim_hosts[sim_cut_to(f, f->f_host != 0 ?
						f->f_host : f->f_met)].h_name;
	const char *kind = sim_kind_names[f->f_kind];
	char groups[120];

	switch (f->f_kind) {
	case FAULT_CUT:
		return f->f_nr % 2 == 0 ? text_add(f, at, "cut %s -> %s", name, to) :
			text_add(f, at, "cut %s -> %s", to, name);
	case FAULT_SWIZZLE:
		return swizzle_text(f, text_add(f, at, "swizzle"));
	case FAULT_SPLIT:
		sim_split_text(f, groups, sizeof groups);
		return text_add(f, at, "split %s", groups);
	case FAULT_EIO:
		return text_add(f, at, "eio %s at sync %d of a file", name, f->f_nr);
	case FAULT_UNREAD:
	case FAULT_DAMAGE:
	case FAULT_STALE:
		return text_add(f, at, "%s %s at read %d of a file", kind, name, f->f_nr);
	case FAULT_ASTRAY:
		return text_add(f, at, "astray %s at write %d of a file", name, f->f_nr);
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
		f->f_kind != FAULT_FORGET && f->f_kind != FAULT_CLOCK &&
		(!sim_kind_lies(f->f_kind) || f->f_kind == FAULT_EMPTY);
}

void sim_fault_text(struct sim_fault *f)
{
	bool lasts = sim_fault_lasts(f) && f->f_kind != FAULT_DRIFT;
	size_t at = 0;

	if (f->f_bound != FREE)
		at = text_add(f, at, "%lld us after %d%s: ",
			      (long long)(f->f_gap / UTIME_US),
			      (int)(f - sim_report->p_faults),
			      f->f_from_end ? " has ended" : "");
	if (f->f_step != AT_TIME)
		at = text_add(f, at, "at %s %d%s%s%s: ", sim_step_names[f->f_step],
			      f->f_nth, f->f_state != NULL ? " (" : "",
			      f->f_state != NULL ? f->f_state : "",
			      f->f_state != NULL ? ")" : f->f_names ? " of some" : "");
	at = what_text(f, at);
	if (lasts && f->f_length >= FOR_GOOD)
		text_add(f, at, " for good");
	else if (lasts)
		at = text_add(f, at, " for %lld us", (long long)(f->f_length / UTIME_US));
	if (f->f_jump != 0)
		at = text_add(f, at, ", its clock jumps by %d ms", f->f_jump);
	if (sim_flaps(f))
		text_add(f, at, ", flapping");
}

/* Returns how many faults a plan may have. */
static int most(void)
{
	return sim_world.w_faults < SIM_FAULTS ? (int)sim_world.w_faults : SIM_FAULTS;
}

static unsigned draw_nr(void)
{
	return most() > 0 ? sim_below(DRAW_PLAN, (unsigned)most() + 1) : 0;
}

/* Draws nr faults. Those that begin at from or later are added to the plan. */
static void draw_faults(struct shape *s, unsigned nr, utime_ns from)
{
	struct sim_report *r = sim_report;
	utime_ns before = s->s_host != 0 ? from : 0;
	bool follows = false;

	if (s->s_kinds == 0 || draw_host() == 0 || sim_world.w_run <= 0)
		return;
	while (nr > 0 && r->p_fault_nr < most() && s->s_kinds != 0) {
		struct sim_fault *f = &r->p_faults[r->p_fault_nr];

		draw_fault(f, s, before);
		if (sim_kind_lies(f->f_kind) && !draw_lie(s, f)) {
			memset(f, 0, sizeof *f);
			continue;
		}
		if (follows)
			draw_bound(f, s);
		if (f->f_length > sim_world.w_run - f->f_at &&		/* sfault F1 */
		    f->f_kind != FAULT_LOST && f->f_kind != FAULT_DRIFT)
			f->f_length = sim_world.w_run - f->f_at;
		before = f->f_at > 0 ? f->f_at : before;
		follows = f->f_at >= from;
		r->p_fault_nr += follows;
		if (!follows)
			memset(f, 0, sizeof *f);
		nr--;
	}
}

/* Keeps the faults before a time. A fault stays with that to which it is bound. */
static void keep_before(utime_ns at)
{
	struct sim_report *r = sim_report;
	bool kept = false;
	int i, nr = r->p_fault_nr;

	r->p_fault_nr = 0;
	for (i = 0; i < nr; i++) {
		kept = r->p_faults[i].f_at < at &&
			(kept || r->p_faults[i].f_bound == FREE);
		if (kept)
			r->p_faults[r->p_fault_nr++] = r->p_faults[i];
	}
	memset(&r->p_faults[r->p_fault_nr], 0,
	       (size_t)(nr - r->p_fault_nr) * sizeof r->p_faults[0]);
}

/* Notes the hosts that the plan loses, or whose disks lie. */
static void note_lost(struct shape *s)
{
	const struct sim_fault *f = sim_report->p_faults;
	unsigned i;

	for (; f < sim_report->p_faults + sim_report->p_fault_nr; f++) {
		if (f->f_kind != FAULT_LOST && !sim_kind_lies(f->f_kind))
			continue;
		for (i = 0; i < s->s_lost_nr && s->s_lost[i] != f->f_host; i++)
			;
		s->s_lost[i] = f->f_host;
		s->s_lost_nr += i == s->s_lost_nr;
	}
}

/* Changes the plan from the time of a bend on. */
static void plan_bend(const struct sim_bend *b)
{
	struct shape s;
	unsigned nr;
	bool keeps;

	sim_stream_set(DRAW_PLAN, b->be_seed);
	s = draw_shape();
	nr = draw_nr();
	note_lost(&s);
	s.s_kinds &= ~(1u << FAULT_DRIFT | 1u << FAULT_LATE);	/* from the start on */
	keeps = sim_below(DRAW_PLAN, 2) == 0 && sim_report->p_fault_nr < most();
	if (b->be_host == 0 || !keeps)
		keep_before(b->be_at);
	if (b->be_host > 0 && b->be_host <= sim_host_nr &&
	    !sim_hosts[b->be_host].h_is_client) {	/* sfault F2 */
		struct shape burst = s;

		burst.s_host = b->be_host;
		burst.s_aims = false;
		draw_faults(&burst, 1 + sim_below(DRAW_PLAN, 3), b->be_at);
		memcpy(s.s_lost, burst.s_lost, sizeof s.s_lost);
		s.s_lost_nr = burst.s_lost_nr;
	}
	if (b->be_host == 0 || !keeps)
		draw_faults(&s, nr, b->be_at);
}

void sim_plan(const struct sim_course *c, uint64_t mask)
{
	struct shape s = draw_shape();
	int i;

	draw_faults(&s, draw_nr(), 0);
	for (i = 0; i < c->co_nr; i++)
		plan_bend(&c->co_bends[i]);
	for (i = 0; i < sim_report->p_fault_nr; i++) {
		struct sim_fault *f = &sim_report->p_faults[i];

		sim_fault_text(f);
		f->f_on = mask >> i & 1;
		if (f->f_on && f->f_bound == FREE)
			sim_at(f->f_at, sim_fault_due, f);
	}
}
