/* SPDX-License-Identifier: MIT */
/* why.c: what stands out in a recording. */

#include "why.h"
#include "out.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *id, *title, *limit;
	bool        needs_wakes, needs_cpu, needs_time;
	bool        of_processors;	/* the share is one of their time */
} kinds[WHY_KINDS] = {
	[WHY_DEADLOCK] = { .id = "deadlock", .title = "dead locks", .limit = "any" },
	[WHY_LOCK] = { .id = "lock", .title = "a line at a lock", .limit =
		"1.0 threads wait on average, and also any in 50% of the time" },
	[WHY_HOG] = { .id = "hog", .title = "a thread that never gives way", .limit =
		"runs above 1 ms with others behind: 10% of the processors' time",
		.needs_wakes = true, .of_processors = true },
	[WHY_KERNEL] = { .id = "kernel", .title = "calls that block in the kernel",
		.limit = "10% of the processors' time", .needs_cpu = true,
		.of_processors = true },
	[WHY_YIELDS] = { .id = "yields", .title = "threads that give way in a loop",
		.limit = "20% of the processors' time", .needs_wakes = true,
		.of_processors = true },
	[WHY_TIMERS] = { .id = "timers", .title = "late timers", .limit =
		"a thread is 5 ms late in 5% of the time", .needs_wakes = true,
		.needs_time = true },
	[WHY_QUEUE] = { .id = "queue", .title = "queues that age", .limit =
		"the oldest is above 50 ms (200 if senders wait) in 50% of the time",
		.needs_time = true },
	[WHY_PINGPONG] = { .id = "pingpong", .title = "ping-pong across processors",
		.limit = "its wakes take 20% of the time", .needs_wakes = true },
	[WHY_STARVED] = { .id = "starved", .title = "starvation", .limit =
		"20 ms ready while another runs 10 times, in 10% of the time",
		.needs_wakes = true, .needs_time = true },
	[WHY_BURST] = { .id = "burst", .title = "a late look", .limit =
		"3 threads at a time, 0.5 ms each, 30% of all waits for threads",
		.needs_wakes = true },
	[WHY_MACHINE] = { .id = "machine", .title = "a machine that is late",
		.limit = "1% of the processors' time", .of_processors = true }
};

#define TINY		10e6	/* ns: a recording in which shares mean nothing */
#define SHORT	100e6		/* ns: a recording that tells nothing of longer times */

/* Texts. */

static char *text_next(void)
{
	static char text[16][40];
	static int at;

	return text[at++ % 16];
}

/* Three digits. */
const char *why_time(double ns)
{
	static const struct { double unit; const char *name; } units[] = {
		{ 1, "ns" }, { 1e3, "us" }, { 1e6, "ms" }, { 1e9, "s" }
	};
	char *to = text_next();
	int i = 0;
	double x;

	while (i < 3 && ns >= 999.5 * units[i].unit)
		i++;
	x = ns / units[i].unit;
	(void)snprintf(to, 40, "%.*f %s", i == 0 || x >= 99.95 ? 0 : x >= 9.995 ? 1 : 2,
		       x, units[i].name);
	return to;
}

const char *why_percent(double part)
{
	char *to = text_next();

	(void)snprintf(to, 40, "%.*f%%", part >= .0995 || part <= 0 ? 0 : 1, 100 * part);
	return to;
}

/* 20,000 */
const char *why_nr(double nr)
{
	char digits[32], *to = text_next(), *at = to;
	int len = snprintf(digits, sizeof digits, "%.0f", nr), i;

	for (i = 0; i < len; i++) {
		*at++ = digits[i];
		if ((len - i - 1) % 3 == 0 && i + 1 < len && digits[i] != '-')
			*at++ = ',';
	}
	*at = 0;
	return to;
}

/* Lines. */

struct why_line *why_add(struct why *y, enum why_kind kind, double share,
			 const char *format, ...)
{
	struct why_line *l = &y->wh_line[y->wh_nr < WHY_LINES ? y->wh_nr++ :
					 WHY_LINES - 1];
	va_list list;

	memset(l, 0, sizeof *l);
	l->wy_kind  = kind;
	l->wy_share = share > 1 ? 1 : share;
	va_start(list, format);
	(void)vsnprintf(l->wy_text, sizeof l->wy_text, format, list);
	va_end(list);
	return l;
}

void why_figure(struct why *y, enum why_kind kind, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	(void)vsnprintf(y->wh_figure[kind], sizeof y->wh_figure[kind], format, list);
	va_end(list);
}

/* Notes on the machine come last, and otherwise the largest share first. */
static int by_share(const void *a, const void *b)
{
	const struct why_line *x = a, *y = b;
	bool x_last = x->wy_kind == WHY_MACHINE, y_last = y->wy_kind == WHY_MACHINE;

	return x_last != y_last ? x_last - y_last :
		(x->wy_share < y->wy_share) - (x->wy_share > y->wy_share);
}

/* Says which kinds a recording like this does not show. */
static void see_unknown(struct why *y)
{
	const struct facts *f = y->wh_facts;
	bool is_short = f->f_to - f->f_from < SHORT;
	int i;

	for (i = 0; i < WHY_KINDS; i++)
		y->wh_unknown[i] =
			f->f_runs == 0 ? "no run was recorded" :
			kinds[i].needs_wakes && !f->f_knows_wakes ?
			"plain dispatchers do not tell who can run" :
			kinds[i].needs_cpu && !f->f_knows_cpu ?
			"this system does not tell when a native thread has a cpu" :
			kinds[i].needs_time && is_short ?
			"what was kept is shorter than 100 ms" :
			i != WHY_DEADLOCK && f->f_to - f->f_from < TINY ?
			"what was kept is shorter than 10 ms" : NULL;
}

/* Sums what rings have lost, and what recording took. */
static void see_rings(struct why *y)
{
	const struct facts *f = y->wh_facts;
	double lost = 0, kept = 0, cost = 0;
	int i;

	for (i = 0; i < f->f_walk.w_ring_nr; i++) {
		const struct uview_ring *r = &f->f_walk.w_rings[i];
		double switches = 0, busy = 0, most;
		size_t k;

		lost += (double)r->vr_lost;
		kept += (double)r->vr_head;
		for (k = f->f_ring[i]; k < f->f_ring[i + 1]; k++) {
			switches += (double)f->f_run[k].turns;
			busy += f->f_run[k].to - f->f_run[k].from;
		}
		if (r->vr_costs == 0)
			continue;
		/* A switch that is timed comes after others of another kind, and
		 * all takes part of the time in which no thread runs. */
		switches *= (double)r->vr_cost / r->vr_costs * f->f_copy->vf_rate;
		most  = f->f_to - f->f_from - busy;
		cost += switches < most ? switches : most > 0 ? most : 0;
	}
	y->wh_lost = lost + kept > 0 ? lost / (lost + kept) : 0;
	y->wh_cost = cost > 0 ? cost / f->f_all : -1;
}

void why_look(struct why *y, const struct facts *f)
{
	int i, nr = 0;

	memset(y, 0, sizeof *y);
	y->wh_facts = f;
	see_unknown(y);
	see_rings(y);
	why_locks(y);
	why_cpu(y);
	why_ready(y);
	why_queue(y);
	for (i = 0; i < y->wh_nr; i++)		/* nothing of what is not known */
		if (y->wh_unknown[y->wh_line[i].wy_kind] == NULL)
			y->wh_line[nr++] = y->wh_line[i];
	y->wh_nr = nr;
	qsort(y->wh_line, (size_t)y->wh_nr, sizeof y->wh_line[0], by_share);
	for (i = nr = 0; i < y->wh_nr; i++) {
		double *found = &y->wh_found[y->wh_line[i].wy_kind];

		if (y->wh_line[i].wy_share > *found)
			*found = y->wh_line[i].wy_share;
		if (i < WHY_SAID || y->wh_line[i].wy_kind == WHY_MACHINE)
			y->wh_line[nr++] = y->wh_line[i];
	}
	y->wh_nr = nr;
}

/* Output. */

static const char *share_of(int kind)
{
	return kinds[kind].of_processors ? "processors' time" : "time";
}

/* A kind that is found has a line, unless three others have larger shares. */
static const char *figure_of(const struct why *y, int kind)
{
	static char text[80];

	if (y->wh_found[kind] > 0) {
		(void)snprintf(text, sizeof text, "%s of the %s",
			       why_percent(y->wh_found[kind]), share_of(kind));
		return text;
	}
	return y->wh_figure[kind][0] != 0 ? y->wh_figure[kind] : "none";
}

/* Says that nothing was found in the program, and what was looked for. */
static void print_nothing(const struct why *y, FILE *out)
{
	int i, unknown = 0;

	for (i = 0; i < WHY_KINDS; i++)
		unknown += y->wh_unknown[i] != NULL;
	(void)fprintf(out, unknown == 0 ?
		      "Nothing in this program stands out. Looked for:" :
		      "Nothing was found, but not all was looked for:");
	for (i = 0; i < WHY_KINDS; i++)
		(void)fprintf(out, "%s %s (%s)", i == 0 ? "" : ";", kinds[i].title,
			      y->wh_unknown[i] != NULL ? y->wh_unknown[i] :
			      figure_of(y, i));
	(void)fprintf(out, "\n");
}

void why_print(const struct why *y, FILE *out)
{
	bool is_well = y->wh_nr == 0 || y->wh_line[0].wy_kind == WHY_MACHINE;
	int i;

	if (is_well)
		print_nothing(y, out);
	for (i = 0; i < y->wh_nr && i + is_well < WHY_SAID; i++)
		(void)fprintf(out, "%s of the %s: %s\n",
			      why_percent(y->wh_line[i].wy_share),
			      share_of(y->wh_line[i].wy_kind), y->wh_line[i].wy_text);
}

static void json_line(const struct why_line *l, FILE *out)
{
	(void)fprintf(out, "{\"kind\":\"%s\",\"share\":%.4f,\"of\":\"the %s\","
		      "\"machine\":%s,\"text\":", kinds[l->wy_kind].id, l->wy_share,
		      share_of(l->wy_kind),
		      l->wy_kind == WHY_MACHINE ? "true" : "false");
	out_string(out, l->wy_text);
	if (l->wy_object != 0)
		(void)fprintf(out, ",\"object\":\"0x%llx\"",
			      (unsigned long long)l->wy_object);
	if (l->wy_thread != 0)
		(void)fprintf(out, ",\"thread\":\"0x%llx\"",
			      (unsigned long long)l->wy_thread);
	if (l->wy_to > 0)
		(void)fprintf(out, ",\"from\":%.1f,\"to\":%.1f", l->wy_from, l->wy_to);
	(void)fputc('}', out);
}

void why_json(const struct why *y, FILE *out)
{
	int i;

	(void)fprintf(out, "{\"lost\":%.4f,\"cost\":%.4f,\"found\":[", y->wh_lost,
		      y->wh_cost);
	for (i = 0; i < y->wh_nr; i++) {
		(void)fputs(i == 0 ? "" : ",", out);
		json_line(&y->wh_line[i], out);
	}
	(void)fputs("],\"kinds\":[", out);
	for (i = 0; i < WHY_KINDS; i++) {
		(void)fprintf(out, "%s{\"kind\":\"%s\",\"title\":\"%s\",\"state\":\"%s\","
			      "\"limit\":", i == 0 ? "" : ",", kinds[i].id,
			      kinds[i].title, y->wh_unknown[i] != NULL ? "unknown" :
			      y->wh_found[i] > 0 ? "found" : "none");
		out_string(out, kinds[i].limit);
		(void)fputs(",\"figure\":", out);
		out_string(out, figure_of(y, i));
		if (y->wh_unknown[i] != NULL)
			(void)fprintf(out, ",\"why\":\"%s\"", y->wh_unknown[i]);
		(void)fputc('}', out);
	}
	(void)fputs("]}", out);
}
