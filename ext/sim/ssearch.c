/* SPDX-License-Identifier: MIT */
/* ssearch.c: runs of many seeds, a report of them, and a smaller failure. */

/*
 * Each run is a child process, and leaves a report in memory that it shares with
 * us. A signal that ends the child is a failure, too: a wrong address, abort(). So
 * is a run that takes more than PATIENCE seconds of cpu time. A search has as many
 * children at a time as there are processors. Their reports are taken in the order
 * of seeds, so a search finds and prints the same with any number of children.
 *
 *	--seeds N	N runs from --from on, until one fails. Some are bent to what
 *			others have reached (sguide.c), but for --plain
 *	shrinking	leaves out the faults that never began, then one at a time,
 *			again and again, as long as the run still fails. The failure
 *			takes all that are left, though there may be smaller sets
 *	--seed N	one run with its story; --only leaves the other faults out
 *	--when		a bisection of the time at which the failure was inevitable
 *
 * A loop without an end takes PATIENCE in each run. Where the failure is one, shrinking
 * and --when make runs of IMPATIENCE. Then the faults that are left run with all
 * patience; if they pass, none was left out. Where the failure is another, a run that ends
 * in such a loop is not the same. Both stop after ENOUGH seconds of cpu time, with the
 * result they have by then.
 *
 * A run is often a millisecond long, and most of that is what its process costs. So
 * the law (core/law.h) is looked after in one seed of LAWFUL only, the first among
 * them, and malloc() has one arena.
 *
 * FUTURES. A run can stop at a point in time, and be forked there. Each copy is a
 * future: it goes on with another seed, and no more faults begin. A failure is
 * inevitable at the first point of which all futures fail. So a state that was
 * broken is told from the moment at which a check saw it.
 *
 * A search of which all seeds have passed has failed all the same if a name of
 * usim_sometimes() was never true. Kinds of faults that hit nothing in any run
 * are reported, with the reason if no host does what they hurt; and so is what
 * usim_maybe() has done.
 */

#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE	120	/* s of cpu time of a run */
#define IMPATIENCE	10	/* the same, where the first has taken PATIENCE */
#define ENOUGH		600	/* s of cpu time of shrinking, and of --when */
#define JOBS_MOST	64
#define LAWFUL		8	/* one seed of so many looks after the law */
#define FUTURES		20	/* of a point in time */
#define SHARP		(10 * UTIME_MS)	/* of --when */
#define ALL		UINT64_MAX
#define PLAIN		16	/* runs, before half are bent */
#define AHEAD		8	/* runs that are drawn before their last are taken */
#define AHEAD_MOST	(2 * JOBS_MOST)

/* What the runs of a search have done together. */
struct sums {
	long            m_runs;
	utime_ns        m_time;			/* simulated */
	long            m_faults[FAULT_KINDS], m_hits[FAULT_KINDS];
	unsigned        m_uses;
	long            m_waits[STEPS], m_came[STEPS];	/* faults, by step */
	int             m_name_nr;
	struct sim_name m_names[SIM_NAMES];
	bool            m_too_many;		/* names */
};

struct options {
	struct sim_course  o_course;
	unsigned long long o_seeds, o_from;
	unsigned long long o_jobs;
	bool               o_is_one, o_twice, o_hashes, o_when, o_real, o_page;
	bool               o_plain;
	uint64_t           o_mask;
};

/* A run that was started, until its report is taken. */
struct slot {
	struct sim_course  s_course;
	pid_t              s_pid;	/* 0: it has ended */
	bool               s_is_again;	/* the second run of --twice */
	uint64_t           s_hash;	/* hash of the first run */
	struct sim_report *s_report;
};

static struct sim_report *report;	/* that was looked at last */
static struct sim_report *reports;	/* one for runs alone, then of slots */
static int nowhere = -1;		/* /dev/null */
static int patience = PATIENCE;		/* with runs that begin */

static int usage(const char *program, FILE *to)
{
	fprintf(to, "%s --seeds N [--from N] [--jobs N] [--twice] [--hashes] "
		"[--plain]\n"
		"%s --seed N [--only FAULT,...] [--when] [--page >FILE.html]\n"
		"%s --real [--seed N]\n"
		"  --seeds N   runs N seeds, or until one fails: then leaves "
		"out faults\n"
		"  --from N    the first of them: 1\n"
		"  --jobs N    so many at a time: as many as processors\n"
		"  --twice     runs each twice, and compares the hashes\n"
		"  --hashes    prints the hash of each\n"
		"  --plain     bends no seed to what was found before\n"
		"  --seed N    runs one seed, bent or not, and prints its story\n"
		"  --only A,B  with these of its faults only; 0: none\n"
		"  --when      says when its failure became inevitable\n"
		"  --page      prints the story as a page for a browser\n"
		"  --real      runs the hosts on this machine, without faults\n",
		program, program, program);
	return to == stdout ? 0 : 2;
}

/* Runs. */

/* A run that only counts writes nothing. */
static void hush(void)
{
	if (nowhere >= 0 && (dup2(nowhere, 1) < 0 || dup2(nowhere, 2) < 0))
		_exit(3);
}

/* A run has taken too long. Calls of the run itself are none here: it may be in one. */
static void late(int signo)
{
	(void)signo;
	report->p_is_late = report->p_failed = report->p_ended = true;
	report->p_time = sim_time;
	_exit(0);
}

static NORETURN void child(usim_setup *setup, const struct sim_course *c,
			   uint64_t mask, bool story)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_CPU, &r) != 0)
		_exit(3);
	if (r.rlim_max == RLIM_INFINITY || r.rlim_max > (rlim_t)patience)
		r.rlim_cur = (rlim_t)patience;		/* a future has it, too */
	if (unsetenv("USCHED_SEED") != 0 || signal(SIGXCPU, late) == SIG_ERR ||
	    setrlimit(RLIMIT_CPU, &r) != 0 ||
	    (c->co_seed % LAWFUL != 1 && setenv("USCHED_LAW", "off", 0) != 0))
		_exit(3);
#if defined(M_ARENA_MAX)
	(void)mallopt(M_ARENA_MAX, 1);
#endif
	if (!story)
		hush();
	else				/* the end is seen, too, if a signal ends it */
		setvbuf(stdout, NULL, _IOLBF, 0);
	sim_run(setup, c, mask, story);
}

/* Says in the report how a child has ended that has not said so itself. */
static void explain(int status)
{
	if (report->p_is_late)
		snprintf(report->p_why, sizeof report->p_why,
			 "took more than %d s", patience);
	if (report->p_ended)
		return;
	report->p_failed = true;
	if (WIFSIGNALED(status))
		snprintf(report->p_why, sizeof report->p_why, "%s",
			 strsignal(WTERMSIG(status)));
	else
		snprintf(report->p_why, sizeof report->p_why,
			 "ended with status %d", WEXITSTATUS(status));
}

static void broken(void)
{
	perror("usim");
	exit(2);
}

/* Starts a run, whose report is in *report. Returns its process. */
static pid_t start(usim_setup *setup, const struct sim_course *c, uint64_t mask,
		   bool story)
{
	pid_t pid;

	memset(report, 0, sizeof *report);
	sim_report = report;
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		child(setup, c, mask, story);
	if (pid < 0)
		broken();
	return pid;
}

/* Waits for a child, or for any: -1. Returns which has ended. */
static pid_t await(pid_t pid, int *status)
{
	pid_t ended;

	do
		ended = waitpid(pid, status, 0);
	while (ended < 0 && errno == EINTR);
	if (ended < 0)
		broken();
	return ended;
}

/* Returns the cpu time of all runs that have ended, in seconds. */
static long runs_took(void)
{
	struct rusage u;

	return getrusage(RUSAGE_CHILDREN, &u) != 0 ? 0 :
		(long)u.ru_utime.tv_sec + (long)u.ru_stime.tv_sec;
}

/* Runs a course. Its report is in *report. Returns whether it has passed. */
static bool run(usim_setup *setup, const struct sim_course *c, uint64_t mask,
		bool story)
{
	int status = 0;

	report = reports;
	await(start(setup, c, mask, story), &status);
	explain(status);
	return !report->p_failed;
}

/* Sums. */

static struct sim_name *sum_of(struct sums *m, const struct sim_name *n)
{
	int i;

	for (i = 0; i < m->m_name_nr; i++)
		if (m->m_names[i].n_is_maybe == n->n_is_maybe &&
		    strcmp(m->m_names[i].n_name, n->n_name) == 0)
			return &m->m_names[i];
	if (m->m_name_nr == SIM_NAMES) {
		m->m_too_many = true;
		return NULL;
	}
	m->m_names[i] = *n;
	m->m_names[i].n_asked = m->m_names[i].n_true = 0;
	m->m_name_nr++;
	return &m->m_names[i];
}

static void add(struct sums *m)
{
	const struct sim_fault *f = report->p_faults;
	struct sim_name *n;
	int i;

	m->m_runs++;
	m->m_time += report->p_time;
	m->m_uses |= report->p_uses;
	for (; f < report->p_faults + report->p_fault_nr; f++) {
		m->m_faults[f->f_kind] += f->f_on;
		m->m_hits[f->f_kind] += f->f_hits;
		m->m_waits[f->f_step] += f->f_on;
		m->m_came[f->f_step] += f->f_begin > 0;
	}
	for (i = 0; i < report->p_name_nr; i++) {
		n = sum_of(m, &report->p_names[i]);
		if (n == NULL)
			continue;
		n->n_asked += report->p_names[i].n_asked;
		n->n_true  += report->p_names[i].n_true;
	}
}

static void tried_kind(const struct sums *m, enum sim_kind kind)
{
	const char *why = sim_cannot(kind, m->m_uses);

	if (sim_kind_lies(kind) && m->m_faults[kind] == 0)
		return;
	printf("  %-10s %6ld faults %8ld hits", sim_kind_names[kind], m->m_faults[kind],
	       m->m_hits[kind]);
	if (m->m_hits[kind] == 0 && why != NULL)
		printf("  cannot apply: %s", why);
	else if (m->m_hits[kind] == 0 && m->m_faults[kind] > 0)
		printf("  NOTHING WAS HIT");
	putchar('\n');
}

/* Prints what was tried. Returns whether all that should be reached was. */
static bool tried(const struct sums *m)
{
	bool all = true;
	int i;

	printf("%ld runs, %lld simulated seconds\n", m->m_runs,
	       (long long)(m->m_time / UTIME_S));
	for (i = 0; i < FAULT_KINDS; i++)
		tried_kind(m, (enum sim_kind)i);
	for (i = AT_TIME + 1; i < STEPS; i++)
		printf("  at a %-6s %5ld faults %8ld came%s\n", sim_step_names[i],
		       m->m_waits[i], m->m_came[i], m->m_waits[i] > 0 &&
		       m->m_came[i] == 0 ? "  NONE CAME" : "");
	for (i = 0; i < m->m_name_nr; i++) {
		const struct sim_name *n = &m->m_names[i];

		printf("  %-9s  %s: %ld of %ld%s\n", n->n_is_maybe ? "maybe" :
		       "sometimes", n->n_name, n->n_true, n->n_asked,
		       n->n_true == 0 ? "  NEVER" : "");
		all = all && (n->n_is_maybe || n->n_true > 0);
	}
	if (m->m_too_many)
		printf("  more than %d names of states in all runs: the others are not "
		       "here\n", SIM_NAMES);
	return all && !m->m_too_many;
}

/* A failure, made smaller. */

static void print_mask(uint64_t mask)
{
	const char *comma = "";
	int i;

	for (i = 0; i < SIM_FAULTS; i++)
		if (mask >> i & 1) {
			printf("%s%d", comma, i + 1);
			comma = ",";
		}
	printf("%s\n", mask == 0 ? "0" : "");
}

struct shrinking {
	usim_setup              *k_setup;
	const struct sim_course *k_course;
	uint64_t                 k_mask;	/* with these faults it fails */
	int                      k_runs;
	long                     k_until;	/* runs_took() by then, at most */
	bool                     k_is_cut;	/* more could have been tried */
	bool                     k_is_late;	/* the failure is a loop without an end */
};

/* Leaves out faults, if it still fails with the others. Returns whether it does. */
static bool shrink_to(struct shrinking *k, uint64_t less)
{
	if (less == k->k_mask)
		return false;
	k->k_is_cut |= runs_took() >= k->k_until;
	if (k->k_is_cut)
		return false;
	k->k_runs++;
	if (run(k->k_setup, k->k_course, less, false) || report->p_is_late != k->k_is_late)
		return false;
	k->k_mask = less;
	return true;
}

/* Returns the faults that have begun in a run. Some begin at its start. */
static uint64_t begun(void)
{
	uint64_t mask = 0;
	int i;

	for (i = 0; i < report->p_fault_nr; i++)
		if (report->p_faults[i].f_begin > 0 || report->p_faults[i].f_at == 0)
			mask |= (uint64_t)1 << i;
	return mask;
}

/* Finds the faults that the failure in *report takes. */
static void shrink(struct shrinking *k)
{
	uint64_t all = report->p_fault_nr == SIM_FAULTS ? ALL :
		((uint64_t)1 << report->p_fault_nr) - 1;
	bool again = true;
	int i;

	k->k_mask = all;
	patience = k->k_is_late ? IMPATIENCE : PATIENCE;
	(void)shrink_to(k, begun());
	while (again) {
		again = false;
		for (i = SIM_FAULTS - 1; i >= 0; i--)
			again |= shrink_to(k, k->k_mask & ~((uint64_t)1 << i));
	}
	patience = PATIENCE;
	if (!run(k->k_setup, k->k_course, k->k_mask, false) || k->k_mask == all)
		return;
	k->k_mask = all;			/* the loop has an end */
	(void)run(k->k_setup, k->k_course, all, false);
}

static void print_fault(int number, const struct sim_fault *f)
{
	utime_ns at = f->f_bound != FREE && f->f_begin > 0 ? f->f_begin : f->f_at;

	printf("  %2d  at %lld us: %s\n", number, (long long)(at / UTIME_US),
	       f->f_text);
}

static void print_faults(uint64_t mask)
{
	int i;

	for (i = 0; i < report->p_fault_nr; i++)
		if (mask >> i & 1)
			print_fault(i + 1, &report->p_faults[i]);
}

static void failure(usim_setup *setup, const char *program,
		    const struct sim_course *c)
{
	struct shrinking k = { setup, c, .k_is_late = report->p_is_late,
		.k_until = runs_took() + ENOUGH };
	char text[SIM_TEXT];
	int faults = report->p_fault_nr, left = 0;
	uint64_t bits;

	printf("seed %s FAILED: %s\n", sim_course_text(c, text), report->p_why);
	fflush(stdout);
	shrink(&k);
	for (bits = k.k_mask; bits != 0; bits &= bits - 1)
		left++;
	printf("faults that it takes%s: %d of %d, by %d runs: %s\n",
	       k.k_is_cut ? ", or fewer" : "", left, faults, k.k_runs, report->p_why);
	print_faults(k.k_mask);
	printf("%s --seed %s --only ", program, text);
	print_mask(k.k_mask);
}

/*
 * The search. Slot i has the report i + 1. The course of a run is drawn when all
 * runs but the last before it are taken (sguide.c): how many these are depends on
 * its number alone, and grows, so that many processes have work.
 */

struct search {
	const struct options *h_options;
	usim_setup           *h_setup;
	struct slot           h_slots[2 * JOBS_MOST];
	int                   h_slot_nr, h_running;
	unsigned long long    h_next;	/* the run that starts next */
	unsigned long long    h_taken;	/* the run whose report is taken next */
	unsigned long long    h_drawn;	/* the run whose course is drawn next */
	struct sim_course     h_courses[2 * AHEAD_MOST];
};

/* Returns whether a run is a plain seed. */
static bool is_plain(const struct options *o, unsigned long long run)
{
	run -= o->o_from;
	return o->o_plain || run < PLAIN || run % 2 == 0;
}

/* Draws the courses whose time has come. */
static void search_draw(struct search *h)
{
	const struct options *o = h->h_options;
	unsigned long long ahead;

	for (;; h->h_drawn++) {
		struct sim_course *c = &h->h_courses[h->h_drawn % (2 * AHEAD_MOST)];

		ahead = AHEAD + (h->h_drawn - o->o_from) / 8;
		if (ahead > AHEAD_MOST || o->o_plain)
			ahead = AHEAD_MOST;
		if (h->h_drawn >= h->h_taken + ahead &&
		    h->h_drawn >= o->o_from + PLAIN)
			return;
		if (is_plain(o, h->h_drawn))
			*c = (struct sim_course) { .co_seed = h->h_drawn };
		else
			sim_guide(h->h_drawn, c);
	}
}

static struct slot *slot_of(struct search *h, unsigned long long seed)
{
	return &h->h_slots[seed % (unsigned)h->h_slot_nr];
}

static void slot_start(struct search *h, struct slot *s)
{
	report = s->s_report;
	s->s_pid = start(h->h_setup, &s->s_course, ALL, false);
	h->h_running++;
}

/* Fills the slots with children. */
static void search_fill(struct search *h)
{
	const struct options *o = h->h_options;

	search_draw(h);
	while (h->h_running < (int)o->o_jobs && h->h_next < h->h_drawn &&
	       h->h_next < o->o_from + o->o_seeds &&
	       h->h_next < h->h_taken + (unsigned)h->h_slot_nr) {
		struct slot *s = slot_of(h, h->h_next);

		*s = (struct slot) { .s_course = h->h_courses[h->h_next++ %
			(2 * AHEAD_MOST)], .s_report = reports + 1 + (s - h->h_slots) };
		slot_start(h, s);
	}
}

/* Waits until a child ends. With --twice, a seed that has passed runs again. */
static void search_await(struct search *h)
{
	struct slot *s = h->h_slots;
	int status = 0;
	pid_t pid = await(-1, &status);

	while (s < h->h_slots + h->h_slot_nr && s->s_pid != pid)
		s++;
	if (s == h->h_slots + h->h_slot_nr)
		return;			/* it was none of ours */
	s->s_pid = 0;
	h->h_running--;
	report = s->s_report;
	explain(status);
	if (!h->h_options->o_twice || s->s_is_again || report->p_failed)
		return;
	s->s_is_again = true;
	s->s_hash = report->p_hash;
	slot_start(h, s);
}

static void search_stop(struct search *h)
{
	struct slot *s;
	int status;

	for (s = h->h_slots; s < h->h_slots + h->h_slot_nr; s++)
		if (s->s_pid > 0) {
			(void)kill(s->s_pid, SIGKILL);
			await(s->s_pid, &status);
		}
}

/* Takes the report of the next run. Returns whether all is well. */
static bool search_take(struct search *h, struct sums *m, const char *program)
{
	struct slot *s = slot_of(h, h->h_taken++);
	char text[SIM_TEXT];

	report = s->s_report;
	if (h->h_options->o_hashes)
		printf("%s %016llx\n", sim_course_text(&s->s_course, text),
		       (unsigned long long)report->p_hash);
	add(m);
	if (!h->h_options->o_plain)
		sim_guide_learn(&s->s_course, report);
	if (!report->p_failed &&
	    (!s->s_is_again || s->s_hash == report->p_hash))
		return true;
	search_stop(h);
	if (s->s_is_again && s->s_hash != report->p_hash)
		printf("seed %s: two runs differ\n",
		       sim_course_text(&s->s_course, text));
	else
		failure(h->h_setup, program, &s->s_course);
	return false;
}

static int search(const struct options *o, usim_setup *setup, const char *program)
{
	static struct sums m;
	static struct search h;
	struct slot *s;

	h.h_options = o;
	h.h_setup = setup;
	h.h_slot_nr = 2 * (int)o->o_jobs;
	h.h_next = h.h_taken = h.h_drawn = o->o_from;
	while (h.h_taken < o->o_from + o->o_seeds) {
		search_fill(&h);
		s = slot_of(&h, h.h_taken);
		if (s->s_pid > 0)
			search_await(&h);
		else if (!search_take(&h, &m, program))
			return 1;
	}
	if (o->o_hashes)
		return 0;
	if (tried(&m))
		return 0;
	printf(m.m_too_many ? "FAILED: whether all names were true is not known\n" :
	       "FAILED: what is NEVER true should be, sometimes\n");
	return 1;
}

/* Returns how many futures of a point in time fail. */
static int futures_at(const struct options *o, usim_setup *setup, utime_ns at)
{
	sim_futures_at(at, FUTURES);
	(void)run(setup, &o->o_course, o->o_mask, false);
	sim_futures_at(0, 0);
	if (!o->o_page)
		printf("  %6lld.%03lld s: %d of %d futures fail\n",
		       (long long)(at / UTIME_S),
		       (long long)(at % UTIME_S / UTIME_MS),
		       report->p_futures, FUTURES);
	return report->p_futures;
}

/* Says from which time on all futures fail, of a run that has failed at to. */
static void bisect(const struct options *o, usim_setup *setup, utime_ns to,
		   char *text, size_t size)
{
	long until = runs_took() + ENOUGH;
	utime_ns from = 0, at;

	patience = report->p_is_late ? IMPATIENCE : PATIENCE;
	while (to - from > SHARP && runs_took() < until) {
		at = (from + (to - from) / 2) / UTIME_MS * UTIME_MS;
		if (futures_at(o, setup, at) == FUTURES)
			to = at;
		else
			from = at;
	}
	snprintf(text, size, "inevitable between %lld.%03lld and %lld.%03lld s",
		 (long long)(from / UTIME_S), (long long)(from % UTIME_S / UTIME_MS),
		 (long long)(to / UTIME_S), (long long)(to % UTIME_S / UTIME_MS));
}

static int when(const struct options *o, usim_setup *setup)
{
	char text[80], course[SIM_TEXT];
	utime_ns to;

	sim_course_text(&o->o_course, course);
	if (run(setup, &o->o_course, o->o_mask, false)) {
		printf("seed %s passed\n", course);
		return 0;
	}
	to = report->p_time;
	printf("seed %s FAILED at %lld.%03lld s: %s\n", course,
	       (long long)(to / UTIME_S), (long long)(to % UTIME_S / UTIME_MS),
	       report->p_why);
	bisect(o, setup, to, text, sizeof text);
	printf("%s\n", text);
	return 1;
}

static int one(const struct options *o, usim_setup *setup)
{
	bool passed = run(setup, &o->o_course, o->o_mask, true);
	char text[SIM_TEXT];

	print_faults(o->o_mask);
	printf("seed %s %s%s, hash %016llx\n", sim_course_text(&o->o_course, text),
	       passed ? "passed" : "FAILED: ", report->p_why,
	       (unsigned long long)report->p_hash);
	return !passed;
}

/* Prints the story as a page, which ends with what --when says. */
static int page(const struct options *o, const char *program, usim_setup *setup)
{
	static struct sim_report whole;
	char result[1100], text[80] = "", course[SIM_TEXT];
	bool passed;

	sim_page_begin();
	passed = run(setup, &o->o_course, o->o_mask, true);
	whole = *report;
	if (!passed && o->o_when)
		bisect(o, setup, whole.p_time, text, sizeof text);
	snprintf(result, sizeof result, "%s, seed %s: %s%s%s%s", program,
		 sim_course_text(&o->o_course, course),
		 passed ? "passed" : "FAILED: ", whole.p_why,
		 text[0] != 0 ? ", " : "", text);
	sim_report = &whole;
	sim_page_end(result);
	return !passed;
}

/* The command line. */

static bool number(const char *text, unsigned long long *to)
{
	char *end;

	if (text == NULL || *text < '0' || *text > '9')
		return false;
	errno = 0;
	*to = strtoull(text, &end, 10);
	return errno == 0 && *end == 0;
}

/* Reads "1,4,5", the faults that stay. */
static bool mask_of(const char *text, uint64_t *mask)
{
	char *end;
	long nr;

	*mask = 0;
	if (text == NULL)
		return false;
	for (;; text = end + 1) {
		nr = strtol(text, &end, 10);
		if (end == text || nr < 0 || nr > SIM_FAULTS)
			return false;
		if (nr > 0)
			*mask |= (uint64_t)1 << (nr - 1);
		if (*end != ',')
			return *end == 0;
	}
}

/* Returns the first option of a line that is in a list, or NULL. */
static const char *option_of(char **argv, const char *const *list)
{
	const char *const *l;

	for (; *argv != NULL; argv++)
		for (l = list; *l != NULL; l++)
			if (strcmp(*argv, *l) == 0)
				return *l;
	return NULL;
}

/* Returns whether each option of a line has a meaning there; says which has not. */
static bool fits(char **argv, const struct options *o)
{
	static const char *const search[] = {
		"--seeds", "--from", "--jobs", "--twice", "--hashes", "--plain", NULL
	}, *const alone[] = { "--only", "--when", "--page", NULL };
	const char *odd = o->o_real || o->o_is_one ? option_of(argv, search) : NULL;

	if (odd == NULL && (o->o_real || !o->o_is_one))
		odd = option_of(argv, alone);
	if (odd != NULL && !o->o_real && !o->o_is_one)
		fprintf(stderr, "usim: %s needs --seed\n", odd);
	else if (odd != NULL)
		fprintf(stderr, "usim: %s has no meaning beside %s\n", odd,
			o->o_real ? "--real" : "--seed");
	return odd == NULL;
}

/* Returns whether the line is right. */
static bool parse(char **line, struct options *o)
{
	char **argv;

	for (argv = line; *argv != NULL; argv++) {
		if (strcmp(*argv, "--twice") == 0) {
			o->o_twice = true;
		} else if (strcmp(*argv, "--hashes") == 0) {
			o->o_hashes = true;
		} else if (strcmp(*argv, "--plain") == 0) {
			o->o_plain = true;
		} else if (strcmp(*argv, "--page") == 0) {
			o->o_page = true;
		} else if (strcmp(*argv, "--real") == 0) {
			o->o_real = true;
		} else if (strcmp(*argv, "--when") == 0) {
			o->o_when = true;
		} else if (strcmp(*argv, "--jobs") == 0) {
			if (!number(*++argv, &o->o_jobs))
				return false;
		} else if (strcmp(*argv, "--seeds") == 0) {
			if (!number(*++argv, &o->o_seeds))
				return false;
		} else if (strcmp(*argv, "--from") == 0) {
			if (!number(*++argv, &o->o_from))
				return false;
		} else if (strcmp(*argv, "--seed") == 0) {
			o->o_is_one = true;
			if (*++argv == NULL || !sim_course_read(*argv, &o->o_course))
				return false;
		} else if (strcmp(*argv, "--only") == 0) {
			if (!mask_of(*++argv, &o->o_mask))
				return false;
		} else {
			return false;
		}
	}
	if (!fits(line, o))
		return false;
	if (o->o_real)
		return o->o_course.co_nr == 0;
	return o->o_is_one || (o->o_jobs > 0 && o->o_jobs <= JOBS_MOST &&
		o->o_seeds > 0 && o->o_seeds <= ULLONG_MAX - o->o_from);
}

static unsigned long long processors(void)
{
	long nr = sysconf(_SC_NPROCESSORS_ONLN);

	return nr < 1 ? 1 : nr > JOBS_MOST ? JOBS_MOST : (unsigned long long)nr;
}

int usim_main(int argc, char **argv, usim_setup *setup)
{
	struct options o = { .o_from = 1, .o_mask = ALL, .o_jobs = processors() };

	if (argc == 2 && strcmp(argv[1], "--help") == 0)
		return usage(argv[0], stdout);
	if (argc < 1 || !parse(argv + 1, &o))
		return usage(argv[0], stderr);
	reports = mmap(NULL, (2 * JOBS_MOST + 1) * sizeof *reports,
		       PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (reports == MAP_FAILED)
		broken();
	sim_report = report = reports;
	if (o.o_real)
		return sim_real(setup, o.o_course.co_seed);
	nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	sim_caller_prepare();
	return !o.o_is_one ? search(&o, setup, argv[0]) :
		o.o_page ? page(&o, argv[0], setup) :
		o.o_when ? when(&o, setup) : one(&o, setup);
}
