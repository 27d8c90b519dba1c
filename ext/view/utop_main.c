/* SPDX-License-Identifier: MIT */
/* utop_main.c: the program utop: what the threads of a process do now. */

/*
 * Each refresh takes a copy of the file, walks through all of it, so that it
 * knows the state of each thread, and counts what lies in the last interval. If
 * a ring does not reach back so far, less is counted: all rates are for the time
 * for which each ring has records. The process does nothing for that.
 */

#include "find.h"
#include "out.h"
#include "walk.h"
#include "why.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
	"utop [-s] [-d SECONDS] [-n TIMES] PID|FILE\n"
	"  shows each second, or each SECONDS, what the threads of a process do\n"
	"  -s  a line each time, for scripts\n"
	"utop --why [-d SECONDS] PID|FILE\n"
	"  watches for a second, or SECONDS, and says what makes it slow in at most\n"
	"  three lines; of a process that has ended, what did at its end\n";

#define CENSUS_MS	600		/* to wait for a census: see format.h */
#define TABLE		1024	/* functions, objects: a power of two */
#define FINE		8	/* parts of a power of two, in a histogram */
#define PARTS		(48 * FINE)

/* Times, by their logarithm. */
struct times {
	unsigned t_nr[PARTS];
	unsigned t_all;
};

struct function {
	unsigned f_nr;			/* name; 0: a free place */
	long     f_runs, f_threads;
	double   f_run, f_longest;	/* ns */
	double   f_off;			/* of f_run, without a cpu */
	double   f_unknown;		/* of f_run, of which that is not known */
	double   f_wait;
	unsigned f_most_kind, f_most_reason;	/* of the longest wait */
	double   f_most;
	struct times f_late;		/* wake to run */
};

struct object {
	uint64_t o_at;
	unsigned o_kind;		/* 0: a free place */
	long     o_waits, o_now;
	double   o_wait, o_longest;
};

struct top {
	double          p_from, p_to;	/* the window, in ns of the copy */
	struct function p_function[TABLE];
	struct object   p_object[TABLE];
	struct times    p_late;
	long            p_runs, p_lost, p_waiting;
	unsigned        p_ready[UVIEW_RINGS];	/* the most */
	double          p_busy[UVIEW_RINGS];
	double          p_off;		/* of all, without a cpu */
	double          p_unknown;
	int             p_cycles;	/* dead locks */
	struct why_cycle p_cycle[WHY_CYCLES];
};

/* Times. */

static void times_add(struct times *t, double ns)
{
	uint64_t v = ns > 1 ? (uint64_t)(ns < 1e18 ? ns : 1e18) : 1;
	int log = 63 - __builtin_clzll(v);
	int part = log * FINE + (int)((v << (63 - log) << 1) >> 61);

	t->t_nr[part < PARTS ? part : PARTS - 1]++;
	t->t_all++;
}

/* Returns the time below which this part of all times lies. */
static double times_at(const struct times *t, double part)
{
	double left = part * t->t_all;
	int i;

	for (i = 0; i < PARTS - 1; i++) {
		left -= t->t_nr[i];
		if (left <= 0 && t->t_nr[i] != 0)
			break;
	}
	return t->t_all == 0 ? 0 : (double)((uint64_t)1 << i / FINE) *
		(1 + (i % FINE + .5) / FINE);
}

/* Collecting. */

static struct function *function_of(struct top *p, unsigned nr)
{
	unsigned i = nr % TABLE, tries;

	for (tries = 0; tries < TABLE; tries++, i = (i + 1) % TABLE) {
		struct function *f = &p->p_function[i];

		if (f->f_nr == 0)
			f->f_nr = nr + 1;
		if (f->f_nr == nr + 1)
			return f;
	}
	return NULL;
}

static struct object *object_of(struct top *p, unsigned kind, uint64_t at)
{
	unsigned i = (unsigned)(at >> 4) % TABLE, tries;

	for (tries = 0; tries < TABLE; tries++, i = (i + 1) % TABLE) {
		struct object *o = &p->p_object[i];

		if (o->o_kind == 0) {
			o->o_kind = kind;
			o->o_at   = at;
		}
		if (o->o_kind == kind && o->o_at == at)
			return o;
	}
	return NULL;
}

/* Returns how much of a time lies in the window. */
static double inside(const struct top *p, double from, double to)
{
	from = from > p->p_from ? from : p->p_from;
	to   = to < p->p_to ? to : p->p_to;
	return to > from ? to - from : 0;
}

/* Adds for how long of a part of r there was no cpu. */
static void see_off(struct top *p, struct function *f, const struct walk_run *r,
		    double part)
{
	double off = r->wr_off > 0 && r->wr_to > r->wr_from ?
		part * r->wr_off / (r->wr_to - r->wr_from) : 0;

	/* Runs of dispatchers in threads are parts of runs. */
	f->f_off += off;
	p->p_off += r->wr_depth == 0 ? off : 0;
	f->f_unknown += r->wr_off < 0 ? part : 0;
	p->p_unknown += r->wr_off < 0 && r->wr_depth == 0 ? part : 0;
}

/*
 * Returns the share of the time in which there was a cpu, as a text; at least that if
 * something is not known.
 */
static const char *cpu_text(double run, double off, double unknown, double window)
{
	static char text[4][24];
	static int at;
	char *to = text[at++ % 4];

	(void)snprintf(to, sizeof text[0], unknown >= run && run > 0 ? "unknown" :
		       unknown > 0 ? ">=%.1f" : "%.1f",
		       (run - off - unknown) / window * 100);
	return to;
}

/* The same as a number for scripts. */
static const char *cpu_number(double run, double off, double unknown, double window)
{
	static char text[24];

	(void)snprintf(text, sizeof text, unknown >= run && run > 0 ? "unknown" : "%.3f",
		       (run - off - unknown) / window);
	return text;
}

static void see_run(struct walk *w, const struct walk_run *r)
{
	struct top *p = w->w_arg;
	struct function *f;
	double run = inside(p, r->wr_from, r->wr_to);

	if (r->wr_to < p->p_from || (f = function_of(p, r->wr_f)) == NULL)
		return;
	f->f_run += run;
	see_off(p, f, r, run);
	if (r->wr_depth == 0)
		p->p_busy[r->wr_ring] += run;
	if ((r->wr_to - r->wr_from) / (double)r->wr_turns > f->f_longest)
		f->f_longest = (r->wr_to - r->wr_from) / (double)r->wr_turns;
	p->p_lost += r->wr_lost;
	if (r->wr_from < p->p_from)
		return;
	f->f_runs += (long)r->wr_turns;
	p->p_runs += (long)r->wr_turns;
	if (r->wr_ready > p->p_ready[r->wr_ring])
		p->p_ready[r->wr_ring] = r->wr_ready;
	if (r->wr_latency >= 0) {
		times_add(&f->f_late, r->wr_latency);
		times_add(&p->p_late, r->wr_latency);
	}
}

static void see_wait(struct walk *w, const struct walk_thread *t, double to,
		     bool open)
{
	struct top *p = w->w_arg;
	double wait = inside(p, t->wt_off, to);
	struct function *f;
	struct object *o;

	p->p_waiting += open;
	if (to < p->p_from || (f = function_of(p, t->wt_f)) == NULL)
		return;
	f->f_wait += wait;
	if (wait > f->f_most) {
		f->f_most = wait;
		f->f_most_kind   = t->wt_kind;
		f->f_most_reason = t->wt_reason;
	}
	if (t->wt_reason != UVIEW_WAITS || t->wt_kind == 0 ||
	    t->wt_object == 0 ||
	    (o = object_of(p, t->wt_kind, t->wt_object)) == NULL)
		return;
	o->o_waits += !open;
	o->o_now   += open;
	o->o_wait  += wait;
	if (to - t->wt_off > o->o_longest)
		o->o_longest = to - t->wt_off;
}

static void count_threads(struct top *p, const struct walk *w)
{
	struct function *f;
	size_t i;

	for (i = 0; i < w->w_room; i++) {
		const struct walk_thread *t = &w->w_thread[i];

		if (t->wt_at != 0 && (t->wt_ring >= 0 || t->wt_off >= 0) &&
		    (f = function_of(p, t->wt_f)) != NULL)
			f->f_threads++;
	}
}

/* Sets the window: what all rings that have forgotten something still hold. */
static void window_set(struct top *p, const struct uview_file *copy, double ns)
{
	const struct uview_ring *r = uview_part_at(copy, UVIEW_PART_RINGS);
	unsigned i;

	p->p_to   = (double)(int64_t)(copy->vf_end - copy->vf_ns);
	p->p_from = p->p_to > ns ? p->p_to - ns : 0;
	for (i = 0; i < copy->vf_part[UVIEW_PART_RINGS].vp_nr; i++) {
		double oldest = (double)r[i].vr_oldest * copy->vf_rate;

		if (r[i].vr_lost != 0 && oldest > p->p_from && oldest < p->p_to)
			p->p_from = oldest;
	}
}

/* Dead locks, and what stands out. */

static void cycles_see(struct top *p, const struct uview_file *copy)
{
	struct facts f;

	if (facts_read(&f, copy, 0))
		p->p_cycles = why_cycles(&f, p->p_cycle);
	facts_end(&f);
}

static void show_cycles(const struct top *p, const struct uview_file *copy)
{
	int i;
	unsigned k;

	for (i = 0; i < p->p_cycles; i++) {
		const struct why_cycle *c = &p->p_cycle[i];
		unsigned nr = c->nr < WHY_MEMBERS ? c->nr : WHY_MEMBERS;

		(void)printf("\nDEAD LOCK of %u threads:", c->nr);
		for (k = 0; k < nr; k++) {
			char name[160], f[64];

			out_name(f, sizeof f, copy, c->member[k].f);
			out_object(name, sizeof name, copy, c->member[k].kind,
				   c->member[k].object);
			(void)printf("\n  0x%llx %s waits for the %s, which 0x%llx holds",
				     (unsigned long long)c->member[k].at, f, name,
				     (unsigned long long)c->member[(k + 1) % nr].at);
		}
		(void)printf("\n");
	}
}

static unsigned long dead(const struct top *p)
{
	unsigned long nr = 0;
	int i;

	for (i = 0; i < p->p_cycles; i++)
		nr += p->p_cycle[i].nr;
	return nr;
}

/* Showing. */

static const char *ns_text(double ns)
{
	static char text[8][16];
	static int at;
	char *to = text[at++ % 8];

	(void)snprintf(to, sizeof text[0], ns < 9999.5 ? "%.0f ns" :
		       ns < 9999500 ? "%.0f us" : ns < 9999.5e6 ? "%.0f ms" :
		       "%.0f s", ns < 9999.5 ? ns : ns < 9999500 ? ns / 1e3 :
		       ns < 9999.5e6 ? ns / 1e6 : ns / 1e9);
	return to;
}

static int by_run(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	if ((x->f_nr == 0) != (y->f_nr == 0))
		return x->f_nr == 0 ? 1 : -1;
	if (x->f_run != y->f_run)
		return x->f_run < y->f_run ? 1 : -1;
	return (x->f_wait < y->f_wait) - (x->f_wait > y->f_wait);
}

static int by_wait(const void *a, const void *b)
{
	const struct object *x = a, *y = b;

	if ((x->o_kind == 0) != (y->o_kind == 0))
		return x->o_kind == 0 ? 1 : -1;
	return (x->o_wait < y->o_wait) - (x->o_wait > y->o_wait);
}

static double busy_of(const struct top *p)
{
	double busy = 0;
	int i;

	for (i = 0; i < UVIEW_RINGS; i++)
		busy += p->p_busy[i];
	return busy;
}

/* Writes the line for scripts: words and numbers in turn. */
static void show_line(const struct top *p, const struct uview_file *copy)
{
	double window = p->p_to - p->p_from + 1;
	const struct object *o = p->p_object;
	unsigned most = 0, i;
	char what[160] = "-", *at;

	for (i = 0; i < UVIEW_RINGS; i++)
		most = p->p_ready[i] > most ? p->p_ready[i] : most;
	if (o->o_kind != 0)
		out_object(what, sizeof what, copy, o->o_kind, o->o_at);
	for (at = what; *at != 0; at++)
		*at = *at == ' ' ? ':' : *at;
	(void)printf("pid %u window_ms %.1f runs_s %.0f cpu %s late_p50_us "
		     "%.1f late_p99_us %.1f ready %u waiting %ld lost %ld top %s "
		     "top_wait_ms %.1f dead_lock %lu\n", copy->vf_pid, window / 1e6,
		     (double)p->p_runs / window * 1e9,
		     cpu_number(busy_of(p), p->p_off, p->p_unknown, window),
		     times_at(&p->p_late, .5) / 1e3,
		     times_at(&p->p_late, .99) / 1e3, most, p->p_waiting,
		     p->p_lost, what, o->o_wait / 1e6, dead(p));
}

static void show_functions(const struct top *p, const struct uview_file *copy,
			   int rows)
{
	double window = p->p_to - p->p_from + 1;
	int i;

	(void)printf("\n%-22s %8s %9s %7s %6s %8s %8s %9s %9s  %s\n", "FUNCTION",
		     "THREADS", "RUNS/s", "CPU%", "OFF%", "RUN", "LONGEST",
		     "WAKE p50", "WAKE p99", "WAITS MOST FOR");
	for (i = 0; i < rows && i < TABLE && p->p_function[i].f_nr != 0; i++) {
		const struct function *f = &p->p_function[i];
		char name[64], wait[64] = "wake";

		out_name(name, sizeof name, copy, f->f_nr - 1);
		if (f->f_most_reason == UVIEW_WAITS)
			out_name(wait, sizeof wait, copy, f->f_most_kind);
		(void)printf("%-22.22s %8ld %9.0f %7s %6.1f %8s %8s %9s %9s  %s\n",
			     name, f->f_threads,
			     (double)f->f_runs / window * 1e9,
			     cpu_text(f->f_run, f->f_off, f->f_unknown, window),
			     f->f_off / window * 100,
			     ns_text(f->f_run / (double)(f->f_runs + !f->f_runs)),
			     ns_text(f->f_longest),
			     ns_text(times_at(&f->f_late, .5)),
			     ns_text(times_at(&f->f_late, .99)),
			     f->f_most > 0 ? wait : "-");
	}
}

static void show_objects(const struct top *p, const struct uview_file *copy,
			 int rows)
{
	int i;

	(void)printf("\n%-38s %8s %8s %10s %9s %9s\n", "WAITED FOR", "NOW",
		     "WAITS", "TOTAL", "MEAN", "LONGEST");
	for (i = 0; i < rows && i < TABLE && p->p_object[i].o_kind != 0; i++) {
		const struct object *o = &p->p_object[i];
		char name[160];

		out_object(name, sizeof name, copy, o->o_kind, o->o_at);
		(void)printf("%-38.38s %8ld %8ld %10s %9s %9s\n", name, o->o_now,
			     o->o_waits, ns_text(o->o_wait),
			     ns_text(o->o_wait / (double)(o->o_waits + o->o_now)),
			     ns_text(o->o_longest));
	}
}

/* Writes the head: what the process does as a whole. */
static void show_head(const struct top *p, const struct uview_file *copy,
		      bool lives)
{
	const struct uview_ring *r = uview_part_at(copy, UVIEW_PART_RINGS);
	const struct uview_census *c = uview_part_at(copy, UVIEW_PART_CENSUS);
	unsigned nr = copy->vf_part[UVIEW_PART_RINGS].vp_nr, i;
	double window = p->p_to - p->p_from + 1, newest = 0;

	for (i = 0; i < nr; i++)
		if ((double)r[i].vr_tick * copy->vf_rate > newest)
			newest = (double)r[i].vr_tick * copy->vf_rate;
	(void)printf("%s [%u] %s: %.0f runs/s, cpu %s%%, %ld wait, wake to run "
		     "p50 %s p99 %s, the kernel took the cpu %ld times; window %s",
		     copy->vf_name, copy->vf_pid, lives ? "runs" : "has ended",
		     (double)p->p_runs / window * 1e9,
		     cpu_text(busy_of(p), p->p_off, p->p_unknown, window),
		     p->p_waiting,
		     ns_text(times_at(&p->p_late, .5)),
		     ns_text(times_at(&p->p_late, .99)), p->p_lost,
		     ns_text(window));
	if (copy->vf_census != 0)
		(void)printf("; %u threads, %s ago", c->vc_threads,
			     ns_text((double)(int64_t)(copy->vf_end - c->vc_ns)));
	if (p->p_to - newest > 5e8)
		(void)printf("; nothing has happened for %s",
			     ns_text(p->p_to - newest));
	(void)printf("\nprocessors (busy, most ready): ");
	for (i = 0; i < nr; i++)
		(void)printf("%s%.0f%% %u", i > 0 ? ", " : "",
			     p->p_busy[i] / window * 100, p->p_ready[i]);
	(void)printf("\n");
}

static void show(const struct top *p, const struct uview_file *copy, bool lives,
		 bool line)
{
	struct winsize size = { .ws_row = 0 };
	bool is_terminal = isatty(STDOUT_FILENO);
	int rows = 30;

	if (line) {
		show_line(p, copy);
		return;
	}
	if (is_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
	    size.ws_row > 16)
		rows = size.ws_row - 8;
	if (is_terminal)
		(void)printf("\033[H\033[2J");
	show_head(p, copy, lives);
	show_cycles(p, copy);
	show_functions(p, copy, rows * 2 / 3);
	show_objects(p, copy, rows / 3);
}

/* A refresh. Returns why it has failed, or NULL. */
static const char *refresh(struct found *f, double ns, bool line, bool *lives)
{
	struct walk *w = calloc(1, sizeof *w);
	struct top *p = calloc(1, sizeof *p);
	struct uview_file *copy = NULL;
	const char *why = "there is no memory";
	size_t size;

	if (w != NULL && p != NULL)
		copy = found_copy(f, &size, &why);
	if (copy != NULL) {
		*lives = f->fo_lives && copy->vf_pid != 0;
		window_set(p, copy, ns);
		w->w_run  = see_run;
		w->w_wait = see_wait;
		w->w_arg  = p;
		why = walk(w, copy) ? NULL : "there is no memory";
		count_threads(p, w);
		if (why == NULL)
			cycles_see(p, copy);
		qsort(p->p_function, TABLE, sizeof p->p_function[0], by_run);
		qsort(p->p_object, TABLE, sizeof p->p_object[0], by_wait);
		if (why == NULL)
			show(p, copy, *lives, line);
		walk_end(w);
	}
	free(copy);
	free(p);
	free(w);
	return why;
}

static void wait_for(double seconds)
{
	const struct timespec nap = {
		(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)
	};

	(void)nanosleep(&nap, NULL);
}

static int watch(const char *what, double seconds, long times, bool line)
{
	struct found f;
	const char *why;
	bool lives = true;

	while (times-- > 0 && lives) {
		if (!found_open(&f, what, &why)) {
			(void)fprintf(stderr, "utop: %s: %s\n", what, why);
			return 1;
		}
		why = refresh(&f, seconds * 1e9, line, &lives);
		found_close(&f);
		if (why != NULL) {
			(void)fprintf(stderr, "utop: %s: %s\n", what, why);
			return 1;
		}
		(void)fflush(stdout);
		if (times > 0 && lives)
			wait_for(seconds);
	}
	return 0;
}

/* Says what stood out in the last ns. Returns why it cannot, or NULL. */
static const char *say_why(struct found *found, double ns)
{
	struct facts *f = calloc(1, sizeof *f);
	struct why *y = calloc(1, sizeof *y);
	struct uview_file *copy = NULL;
	const char *why = "there is no memory";
	size_t size;

	if (f != NULL && y != NULL)
		copy = found_copy(found, &size, &why);
	if (copy != NULL && facts_read(f, copy, (double)(int64_t)
				       (copy->vf_end - copy->vf_ns) - ns)) {
		why_look(y, f);
		why_print(y, stdout);
		if (ns < 1e17 && f->f_to - f->f_from < ns / 2)
			(void)fprintf(stderr, "utop: rings hold the last %s only: "
				      "USCHED_VIEW=22 makes them longer\n",
				      why_time(f->f_to - f->f_from));
		why = NULL;
	} else if (copy != NULL)
		why = "there is no memory";
	if (f != NULL)
		facts_end(f);
	free(copy);
	free(f);
	free(y);
	return why;
}

static int ask_why(const char *what, double seconds)
{
	struct found f;
	const char *why;

	if (!found_open(&f, what, &why)) {
		(void)fprintf(stderr, "utop: %s: %s\n", what, why);
		return 1;
	}
	if (f.fo_lives) {
		wait_for(seconds);
		(void)found_ask(&f, CENSUS_MS);
	}
	why = say_why(&f, f.fo_lives ? seconds * 1e9 : 1e18);
	found_close(&f);
	if (why != NULL)
		(void)fprintf(stderr, "utop: %s: %s\n", what, why);
	return why != NULL;
}

int main(int argc, char **argv)
{
	static const struct option words[] = {
		{ "why", no_argument, NULL, 'w' }, { NULL, 0, NULL, 0 }
	};
	double seconds = 1;
	long times = -1;
	bool line = false, reasons = false;
	int c;

	while ((c = getopt_long(argc, argv, "sd:n:", words, NULL)) != -1) {
		if (c == 's')
			line = true;
		else if (c == 'w')
			reasons = true;
		else if (c == 'd' && (seconds = atof(optarg)) > 0)
			continue;
		else if (c == 'n' && (times = atol(optarg)) > 0)
			continue;
		else
			break;
	}
	if (c != -1 || optind != argc - 1) {
		(void)fputs(usage, stderr);
		return 2;
	}
	if (reasons)
		return ask_why(argv[optind], seconds);
	return watch(argv[optind], seconds, times > 0 ? times :
		     __LONG_MAX__, line);
}
