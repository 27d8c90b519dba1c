/* SPDX-License-Identifier: MIT */
/* VARIANTS: RR LL WS */
/*
 * view: a recorder notes each run with what woke its thread, and why it
 * stopped, and for what; a copy has all of it in order. A thread is ready from
 * its deadline on, also while another thread keeps the processor, and has the name
 * that it was given last. A thread that gives way again and again has few records,
 * and all its turns. A run knows whether it had the cpu, and a channel at which no
 * thread waits has its length and a name. Sums are those of
 * ustats.h. A census counts each thread once, with its stack and its wait. A
 * child of fork() writes nothing.
 */
#include "either.h"
#include "ustats.h"
#include "uchan.h"
#include "ulist.h"
#include "usync.h"
#include "uthread.h"
#include "uview.h"
#include "walk.c"

#include <fcntl.h>
#include <sys/stat.h>

#define NR	12		/* threads, and a driver */
#define STEPS	150		/* of each */
#define TURNS	500		/* of a pair */

#if defined(USCHED_PORTABLE) || !(defined(__x86_64__) || defined(__aarch64__))
#define TRACES	0
#else
#define TRACES	1
#endif

static char path[64];
static struct usched_stats st;

/* The records of each ring are in the order of their times. */
static void in_order(const struct uview_file *copy)
{
	const struct uview_ring *r = uview_part_at(copy, UVIEW_PART_RINGS);
	unsigned i;
	uint64_t k;

	for (i = 0; i < copy->vf_part[UVIEW_PART_RINGS].vp_nr; i++) {
		const struct uview_record *e = uview_records(copy, &r[i]);

		for (k = 1; k < r[i].vr_head; k++)
			CHECK_THAT(e[k - 1].ve_word[0] >> 16, <=,
				   e[k].ve_word[0] >> 16);
	}
}

/* Reads the copy that uview_save() has made, and removes it. */
static struct uview_file *saved(void)
{
	struct uview_source source = { .u_map = NULL };
	struct uview_file *copy;
	const char *why = NULL;
	struct stat is;
	size_t size;

	source.u_fd = open(path, O_RDONLY);
	CHECK(source.u_fd >= 0 && fstat(source.u_fd, &is) == 0);
	CHECK_IS(is.st_mode & 0777, 0600);
	source.u_size = (uint64_t)is.st_size;
	copy = uview_copy(&source, false, &size, &why);
	CHECK(copy != NULL && size == source.u_size);
	close(source.u_fd);
	CHECK_IS(unlink(path), 0);
	in_order(copy);
	return copy;
}

static void save(void)
{
	CHECK_IS(uview_save(path), 0);
	CHECK_IS(uview_save(path), -EEXIST);
}

static bool is_text(const struct uview_file *copy, unsigned nr, const char *text)
{
	unsigned len;
	const char *is = uview_name_text(copy, nr, &len);

	return len == strlen(text) && memcmp(is, text, len) == 0;
}

/*
 * What has really happened. Threads do random things on one processor, and note
 * at the end of each run how it began and ended.
 */

struct run {
	const void *r_thread, *r_by;	/* NULL: woken by no thread */
	unsigned    r_reason;
	const char *r_kind;
	const void *r_object;
	bool        r_counted;		/* as one of some turns */
};

static struct run log_[1 << 16];
static int logged;

static struct walker {
	thread       *w_thread;
	const void   *w_by;		/* has woken it, or made it */
	struct uchan *w_chan;
	bool          w_waits, w_receives;
} walkers[NR + 1];

static int left;
static unsigned state;

static const void *self(void)
{
	return ustack_self();
}

static void stops(struct walker *w, unsigned reason, const char *kind,
		  const void *object)
{
	CHECK_THAT(logged, <, COUNT(log_));
	log_[logged++] = (struct run) { self(), w->w_by, reason, kind, object, false };
	w->w_by = NULL;
}

static void yields(struct walker *w)
{
	stops(w, UVIEW_YIELDED, NULL, NULL);
	yield();
}

/* Wakes a thread that waits, if the drawn thread does. */
static bool wakes(int i)
{
	struct walker *w = &walkers[i];
	long text = i;

	if (w->w_waits) {
		w->w_waits = false;
		w->w_by = self();
		SCHED(wake)(w->w_thread);
	} else if (w->w_receives) {
		w->w_receives = false;
		w->w_by = self();
		CHECK_IS(uchan_send(w->w_chan, &text, UNEVER), 0);
	} else
		return false;
	return true;
}

static void receives(struct walker *w)
{
	long text;

	w->w_receives = true;
	stops(w, UVIEW_WAITS, "recv", w->w_chan);
	CHECK_IS(uchan_recv(w->w_chan, &text, UNEVER), 0);
	CHECK(text == w - walkers && !w->w_receives);
}

static void walks(void *arg)
{
	struct walker *w = arg;
	int i;

	for (i = 0; i < STEPS; i++) {
		switch (check_random(&state) % 8) {
		case 0: case 1: case 2:
			(void)wakes((int)(check_random(&state) % NR));
			break;
		case 3: case 4:
			w->w_waits = true;
			stops(w, UVIEW_BLOCKED, NULL, NULL);
			wait_one();
			break;
		case 5:
			receives(w);
			break;
		case 6:
			yields(w);
			break;
		default:
			stops(w, UVIEW_WAITS, "sleep", NULL);
			CHECK_IS(u_sleep(uafter(UTIME_US)), 0);
		}
	}
	left--;
	stops(w, UVIEW_ENDED, NULL, NULL);
}

/* Makes the others, and wakes those that nothing else would. */
static void drives(void *arg)
{
	struct walker *w = arg;
	int i, woken;

	w->w_thread = SCHED(self)();
	for (i = 0; i < NR; i++) {
		walkers[i].w_by = self();
		walkers[i].w_thread = make(0, walks, &walkers[i]);
	}
	uview_mark("made");
	while (left > 0) {
		for (i = woken = 0; i < NR && woken < 3; i++)
			woken += wakes((int)(((unsigned)i + check_random(&state)) % NR));
		yields(w);
	}
	stops(w, UVIEW_ENDED, NULL, NULL);
}

/* Compares runs with the log. */
#define MASK	0xffffffffffffu
static int compared, marks;

/* Turns are in the log one by one, among those of others. */
static void compare_turns(const struct walk_run *r)
{
	uint64_t nr = r->wr_turns;
	int i;

	for (i = compared; nr > 0; i++) {
		struct run *is = &log_[i];

		CHECK_THAT(i, <, logged);
		CHECK(is->r_reason == UVIEW_YIELDED && is->r_by == NULL);
		if (is->r_counted || r->wr_at != ((uintptr_t)is->r_thread & MASK))
			continue;
		is->r_counted = true;
		nr--;
	}
	CHECK(r->wr_reason == UVIEW_YIELDED && r->wr_turns_to >= r->wr_to);
	while (compared < logged && log_[compared].r_counted)
		compared++;
}

static void compare_run(struct walk *w, const struct walk_run *r)
{
	const struct run *is = &log_[compared];
	const uint64_t mask = MASK;

	if (r->wr_turns_to > 0) {
		compare_turns(r);
		return;
	}
	CHECK(!is->r_counted);
	CHECK_THAT(compared++, <, logged);
	doing("run %d", compared);
	CHECK_IS(r->wr_at, (uintptr_t)is->r_thread & mask);
	CHECK_IS(r->wr_by, (uintptr_t)is->r_by & mask);
	CHECK_IS(r->wr_reason, is->r_reason);
	CHECK_IS(r->wr_object, (uintptr_t)is->r_object & mask);
	if (is->r_kind != NULL)
		CHECK(is_text(w->w_copy, r->wr_kind, is->r_kind));
	CHECK(r->wr_to >= r->wr_from && !r->wr_open && r->wr_depth == 0);
	CHECK(r->wr_latency >= 0 || r->wr_by == 0);
	if (TRACES && r->wr_reason != UVIEW_ENDED)
		CHECK(r->wr_stack != 0);
}

static void compare_note(struct walk *w, int ring, double time,
			 const struct uview_record *e)
{
	if (walk_kind(e) == UVIEW_MARK) {
		CHECK(is_text(w->w_copy, walk_id(e), "made"));
		marks++;
	}
}

/* counted: by ustats.h, too. */
static void exact(bool counted)
{
	struct walk w = { .w_run = compare_run, .w_note = compare_note };
	struct uview_file *copy;
	const struct uview_ring *r;
	int i, before = logged;

	state  = check_seed;
	compared = marks = 0;		/* the log goes on, as the ring */
	for (i = 0; i < logged; i++)
		log_[i].r_counted = false;
	left   = NR;
	memset(walkers, 0, sizeof walkers);
	begin(1, 0);
	for (i = 0; i < NR; i++)
		CHECK((walkers[i].w_chan = uchan_make(sizeof(long), 0)) != NULL);
	if (counted)
		CHECK_IS(usched_stats(SCHED(sched)(0), &st), 0);
	make(0, drives, &walkers[NR]);
	start_and_finish();
	for (i = 0; i < NR; i++)
		uchan_free(walkers[i].w_chan);
	save();
	copy = saved();
	CHECK_THAT(copy->vf_part[UVIEW_PART_RINGS].vp_nr, >=, 1);
	r = uview_part_at(copy, UVIEW_PART_RINGS);
	CHECK_IS(r->vr_lost, 0);
	CHECK(walk(&w, copy));
	CHECK(compared == logged && marks == 1 + counted);
	CHECK(!counted || (st.dispatches == logged - before &&
			 st.starts == NR + 1));
	walk_end(&w);
	free(copy);
}

/* Two processors: each run of a pair but the first is woken by the other. */

static thread *pair[2];
static int edges;
static double pair_from;		/* of the mark */

static void plays(void *arg)
{
	long side = (long)(intptr_t)arg;
	int i;

	if (side == 0)
		uview_mark("pair");
	for (i = 0; i < TURNS; i++) {
		if (side == 0)
			SCHED(wake)(pair[1]);
		wait_one();
		if (side == 1)
			SCHED(wake)(pair[0]);
	}
}

static void compare_edge(struct walk *w, const struct walk_run *r)
{
	int side = r->wr_at == ((uintptr_t)pair[1] & 0xffffffffffffu);

	if (r->wr_by == 0 || pair_from < 0 || r->wr_from < pair_from)
		return;
	CHECK_IS(r->wr_by, (uintptr_t)pair[!side] & 0xffffffffffffu);
	CHECK(r->wr_by_ring != r->wr_ring && r->wr_latency >= 0);
	edges++;
}

static void see_mark(struct walk *w, int ring, double time,
		     const struct uview_record *e)
{
	if (walk_kind(e) == UVIEW_MARK && is_text(w->w_copy, walk_id(e), "pair"))
		pair_from = time;
}

static void across(void)
{
	struct walk w = { .w_run = compare_edge, .w_note = see_mark };
	struct uview_file *copy;

	edges = 0;
	pair_from = -1;
	begin(2, 0);
	pair[0] = make_pinned(0, plays, (void *)0);
	pair[1] = make_pinned(1, plays, (void *)1);
	start_and_finish();
	save();
	copy = saved();
	CHECK(walk(&w, copy));
	/* A wake that comes before its wait ends no wait. */
	CHECK(edges > 0 && edges <= 2 * TURNS);
	walk_end(&w);
	free(copy);
}

/* A thread sleeps, and another keeps the processor until that is over. */

static double kept_until, due_since;

static void keeps(void *arg)
{
	utime_ns until = uafter(3 * UTIME_MS);

	while (unow() < until)
		;
}

static void sleeps(void *arg)
{
	make(0, keeps, NULL);
	CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
}

static void see_due(struct walk *w, const struct walk_run *r)
{
	if (is_text(w->w_copy, r->wr_f, "keeps"))
		kept_until = r->wr_to;
	else if (is_text(w->w_copy, r->wr_f, "sleeps") && r->wr_by == 0)
		due_since = r->wr_woken;
}

/* A thread has a name, and takes another. */
static int names;

static void *renames(void *arg)
{
	yield();
	CHECK_IS(uthread_set_name("later"), 0);
	yield();
	return NULL;
}

static void makes(void *arg)
{
	CHECK_IS(uthread_make(NULL, renames, NULL, "before"), 0);
}

static void see_name(struct walk *w, const struct walk_run *r)
{
	if (is_text(w->w_copy, r->wr_f, "renames"))
		CHECK(is_text(w->w_copy, r->wr_thread->wt_name,
			      names++ == 0 ? "before" : "later"));
}

static void recorded(void (*f)(void *),
		     void (*see)(struct walk *w, const struct walk_run *r))
{
	struct walk w = { .w_run = see };
	struct uview_file *copy;

	begin(1, 0);
	make(0, f, NULL);
	start_and_finish();
	save();
	copy = saved();
	CHECK(walk(&w, copy));
	walk_end(&w);
	free(copy);
}

/* Threads that give way again and again have few records, and all their turns. */

#define LAPS	20000

static uint64_t turns_of[3], long_turns;
static long lapping;

static void laps(void *arg)
{
	long i, nr = (long)(intptr_t)arg;

	add(&lapping, 1);
	yield_until(&lapping, 3);
	for (i = 0; i < LAPS; i++) {
		if (i % (LAPS / 8) == nr)
			keeps(NULL);		/* no turn */
		yield();
	}
	/* All go on until the last has given way for the last time. */
	add(&lapping, 1);
	yield_until(&lapping, 6);
}

static void three_lap(void *arg)
{
	long i;

	lapping = 0;
	for (i = 0; i < 3; i++)
		make(0, laps, (void *)(intptr_t)i);
}

static void see_laps(struct walk *w, const struct walk_run *r)
{
	static uint64_t at[3];
	static double group[3];
	int i = 0;

	if (!is_text(w->w_copy, r->wr_f, "laps"))
		return;
	while (i < 2 && at[i] != 0 && at[i] != r->wr_at)
		i++;
	at[i] = r->wr_at;
	turns_of[i] += r->wr_turns;
	CHECK(r->wr_to >= r->wr_from);
	if (r->wr_turns_to > 0) {
		CHECK(r->wr_turns > 0 && r->wr_turns_from <= r->wr_from &&
		      r->wr_to <= r->wr_turns_to + 1);
		CHECK(group[i] < r->wr_turns_to);	/* once in each group */
		group[i] = r->wr_turns_to;
	} else if (r->wr_to - r->wr_from > 2e6)
		long_turns++;
}

static uint64_t heads(void);

static void lap_all(void)
{
	uint64_t before = heads();
	int i;

	doing("laps");
	recorded(three_lap, see_laps);
	for (i = 0; i < 3; i++)
		CHECK_THAT(turns_of[i], >, LAPS);
	CHECK(turns_of[0] + turns_of[1] + turns_of[2] < 4 * LAPS && long_turns >= 1);
	CHECK_THAT(heads() - before, <, LAPS);
}

/* Many can run, and that is how many. */

#define READY	5000

static unsigned most_ready;

static void once(void *arg)
{
	yield();
}

static void makes_many(void *arg)
{
	int i;

	for (i = 0; i < READY; i++)
		make(0, once, NULL);
}

static void see_ready(struct walk *w, const struct walk_run *r)
{
	most_ready = r->wr_ready > most_ready ? r->wr_ready : most_ready;
}

/* A call that blocks in the kernel has no cpu, and a loop has. */

static double slept_off = -1, spun_off = -1;

static void blocks(void *arg)
{
	usleep(4000);
}

static void makes_both(void *arg)
{
	make(0, blocks, NULL);
	make(0, keeps, NULL);
}

static void see_off(struct walk *w, const struct walk_run *r)
{
	double part = r->wr_off / (r->wr_to - r->wr_from);

	if (is_text(w->w_copy, r->wr_f, "blocks") && r->wr_sleeps > 0 &&
	    part > slept_off)
		slept_off = part;
	else if (is_text(w->w_copy, r->wr_f, "keeps") && r->wr_off >= 0 &&
		 (spun_off < 0 || part < spun_off))
		spun_off = part;
	if (!(w->w_copy->vf_flags & UVIEW_KNOWS_CPU))
		slept_off = 1, spun_off = 0;
}

/* A channel at which no thread waits is looked at, and has its variable's name. */

static struct uchan *shelf;
static uint64_t last_look;
static unsigned looks;

static void fills(void *arg)
{
	long i;

	CHECK((shelf = uchan_make(sizeof i, 16)) != NULL);
	for (i = 0; i < 10; i++)
		CHECK_IS(uchan_send(shelf, &i, UNOW), 0);
	CHECK_IS(u_sleep(uafter(30 * UTIME_MS)), 0);
	for (i = 0; i < 4; i++)
		CHECK_IS(uchan_recv(shelf, NULL, UNOW), 0);
	for (i = 0; i < 20; i++)
		CHECK_IS(u_sleep(uafter(2 * UTIME_MS)), 0);
	uchan_free(shelf);
}

static void see_look(struct walk *w, int ring, double time,
		     const struct uview_record *e)
{
	if (walk_kind(e) != UVIEW_NOTE)
		return;
	if (walk_arg(e) == UVIEW_QUEUE && walk_at(e) == ((uintptr_t)shelf & MASK))
		looks++;
	else if (walk_arg(e) == UVIEW_LENGTH && uview_queue_length(e->ve_word[1]) > 0)
		last_look = e->ve_word[1];	/* at the end none is left */
}

static bool is_named(const struct uview_file *copy, const void *at, const char *text)
{
	const struct uview_name *n = uview_part_at(copy, UVIEW_PART_NAMES);
	unsigned i, last = 0;

	for (i = 1; i < copy->vf_part[UVIEW_PART_NAMES].vp_nr; i++)
		if (n[i].vn_kind == UVIEW_OBJECT && n[i].vn_at == (uintptr_t)at)
			last = i;
	return last != 0 && is_text(copy, last, text);
}

static void shelves(void)
{
	struct walk w = { .w_note = see_look };
	struct uview_file *copy;

	doing("shelf");
	begin(1, 0);
	make(0, fills, NULL);
	start_and_finish();
	uview_object(&lapping, "the laps");
	save();
	copy = saved();
	CHECK(walk(&w, copy));
	CHECK_THAT(looks, >=, 2);
	CHECK(uview_queue_length(last_look) == 6 && uview_queue_taken(last_look) == 4);
	CHECK(is_named(copy, shelf, "shelf") && is_named(copy, &lapping, "the laps"));
	walk_end(&w);
	free(copy);
}

static void counts_all(void)
{
	int i;

	lap_all();
	doing("ready");
	recorded(makes_many, see_ready);
	CHECK_THAT(most_ready, >, READY * 98 / 100);
	CHECK_THAT(most_ready, <=, READY);
	doing("off");
	/* A machine under load takes the cpu away from a loop, too, but not each time. */
	for (i = 0; i < 60 && !(slept_off > .5 && spun_off >= 0 && spun_off < .5); i++)
		recorded(makes_both, see_off);
	doing("off: %.2f, %.2f", slept_off, spun_off);
	CHECK(slept_off > .5 && spun_off >= 0 && spun_off < .5);
	shelves();
}

static void overdue(void)
{
	doing("overdue");
	recorded(sleeps, see_due);
	CHECK(kept_until > 0 && due_since > 0 && due_since < kept_until);
	doing("names");
	recorded(makes, see_name);
	CHECK_THAT(names, >=, 2);
}

/* A census: so many threads by reason and by wait. */

static struct umutex mutex;
static long waiting;

static void waits_for_mutex(void *arg)
{
	add(&waiting, 1);
	CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
	umutex_unlock(&mutex);
}

static void waits_for_wake(void *arg)
{
	add(&waiting, 1);
	wait_one();
}

static void holds(void *arg)
{
	thread *others[NR];
	int i;

	CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
	for (i = 0; i < NR; i++) {
		make(0, waits_for_mutex, NULL);
		others[i] = make(1, waits_for_wake, NULL);
	}
	yield_until(&waiting, 2 * NR);
	CHECK_IS(u_sleep(uafter(10 * UTIME_MS)), 0);
	pair[0] = SCHED(self)();
	save();
	umutex_unlock(&mutex);
	for (i = 0; i < NR; i++)
		SCHED(wake)(others[i]);
}

static bool is_function(const struct uview_file *copy, unsigned nr,
			void (*f)(void *))
{
	const struct uview_name *n = uview_part_at(copy, UVIEW_PART_NAMES);

	return n[nr].vn_kind == UVIEW_FUNCTION && n[nr].vn_at == (uintptr_t)f;
}

static void counts(void)
{
	struct uview_file *copy;
	const struct uview_census *c;
	unsigned i, all = 0, mutexes = 0, wakes_ = 0, runs = 0;

	waiting = 0;
	begin(2, 0);
	make(0, holds, NULL);
	start_and_finish();
	copy = saved();
	c = uview_part_at(copy, UVIEW_PART_CENSUS);
	CHECK(copy->vf_census != 0 && c->vc_threads == 2 * NR + 1);
	for (i = 0; i < c->vc_nr; i++) {
		const struct uview_row *r = &c->vc_row[i];

		all += r->vw_nr;
		if (is_function(copy, r->vw_f, waits_for_mutex)) {
			CHECK_IS(r->vw_reason, UVIEW_WAITS);
			CHECK_IS(r->vw_object, (uintptr_t)&mutex);
			CHECK_IS(r->vw_holder, (uintptr_t)pair[0]);
			CHECK(is_text(copy, r->vw_kind, "mutex"));
			mutexes += r->vw_nr;
		} else if (is_function(copy, r->vw_f, waits_for_wake)) {
			CHECK(r->vw_reason == UVIEW_BLOCKED && r->vw_kind == 0);
			wakes_ += r->vw_nr;
		} else if (r->vw_reason == UVIEW_RUNS)
			runs += r->vw_nr;
		if (TRACES && r->vw_reason != UVIEW_RUNS)
			CHECK(r->vw_stack != 0);
	}
	CHECK(mutexes == NR && wakes_ == NR && runs == 1 && all == c->vc_threads);
	free(copy);
}

/* Censuses while threads run, block at all depths, and are moved. */

#define MANY	600
#define SAVES	10

static long stops_, begun;

static NOINLINE void deep(int nob)
{
	volatile char space[nob];

	space[0] = space[nob - 1] = 1;
	if (nob % 3 == 0)
		CHECK_IS(u_sleep(uafter(UTIME_US)), 0);
	else
		yield();
	CHECK(space[0] == 1 && space[nob - 1] == 1);
}

static void storms(void *arg)
{
	unsigned drawn = (unsigned)(intptr_t)arg;

	add(&begun, 1);
	while (get(&stops_) == 0)
		deep(16 + (int)(check_random(&drawn) % 1500));
}

static void *saves(void *arg)
{
	int i = 0, tries;

	while (get(&begun) < MANY)
		usleep(1000);
	for (tries = 0; i < SAVES && tries < 2 * SAVES; tries++) {
		const struct uview_census *c;
		struct uview_file *copy;
		unsigned k, all = 0;

		CHECK_IS(uview_save(path), 0);
		copy = saved();
		c = uview_part_at(copy, UVIEW_PART_CENSUS);
		doing("census: %u threads", c->vc_threads);
		CHECK(copy->vf_census != 0);
		for (k = 0; k < c->vc_nr; k++)
			all += c->vc_row[k].vw_nr;
		if (c->vc_running == 0) {	/* else it is a hint */
			CHECK_IS(c->vc_threads, MANY);
			CHECK_IS(all + c->vc_left_out, MANY);
			i++;
		}
		free(copy);
	}
	add(&stops_, 1);
	SCHED(release)();
	return arg;
}

static void storm(void)
{
	long i;

	begin(2, 0);
	for (i = 0; i < MANY; i++)
		make((int)i, storms, (void *)(intptr_t)(i + 1));
	start_and_finish_with(saves, NULL);
}

/* A child of a thread writes to memory of its own. */

static uint64_t heads(void)
{
	char file[64];
	struct uview_source source = { .u_map = NULL };
	struct uview_file *copy;
	const char *why;
	struct stat is;
	uint64_t sum = 0;
	size_t size;
	unsigned i;

	snprintf(file, sizeof file, UVIEW_PATH, (long)getpid());
	source.u_fd = open(file, O_RDONLY);
	CHECK(source.u_fd >= 0 && fstat(source.u_fd, &is) == 0);
	source.u_size = (uint64_t)is.st_size;
	copy = uview_copy(&source, true, &size, &why);
	CHECK(copy != NULL);
	for (i = 0; i < copy->vf_part[UVIEW_PART_RINGS].vp_nr; i++) {
		const struct uview_ring *r = uview_part_at(copy, 0);

		sum += r[i].vr_head + r[i].vr_lost;
	}
	close(source.u_fd);
	free(copy);
	return sum;
}

static void in_child(void *arg)
{
	yield();
	uview_mark("in the child");
}

static void forks(void *arg)
{
	uint64_t before = heads();
	int status;
	pid_t child = fork();

	CHECK_THAT(child, >=, 0);
	if (child == 0) {
		uview_mark("in the child");
		CHECK_IS(uview_save(path), -EINVAL);
		one_thread(1, in_child, NULL);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK_IS(heads(), before);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	snprintf(path, sizeof path, "/tmp/s_view.%s.%ld", NAME, (long)getpid());
	CHECK_IS(uview_save(path), -EINVAL);
	CHECK_IS(uview_start("nonsense"), -EINVAL);
	if (argc > 1 && strcmp(argv[1], "list") == 0)
		CHECK_IS(ulist_start(), 0);
	if (uview_start("stacks,18") != 0)
		check_skip("no space in /dev/shm");
	CHECK_IS(uview_start(NULL), -EBUSY);
	/* The hard mode may let threads give way at more places. */
	if (getenv("USCHED_DEBUG") == NULL ||
	    strstr(getenv("USCHED_DEBUG"), "yield") == NULL) {
		exact(false);
		exact(true);
	}
	across();
	overdue();
	counts_all();
	counts();
	storm();
	one_thread(1, forks, NULL);
	return 0;
}
