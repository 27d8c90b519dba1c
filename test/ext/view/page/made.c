/* SPDX-License-Identifier: MIT */
/* made.c: writes a copy of a recording (lib/view/format.h) whose content is known. */

/*
 *	made FILE records lost
 *
 * Simulates 4 processors with 12 threads each, until there are so many records.
 * Workers take turns at a mutex, and sleep; clients work and give way. Names are
 * hostile. Some clients run a dispatcher, some make calls, some sleep in the kernel.
 * Pollers give way to each other, or to none, and so do they when it ends. Lengths of
 * two channels are noted. Ring 1 has no BEGIN. If lost is not 0, ring 3 has lost its
 * first half, the kernel has woken a native thread late, and does not tell of cpus.
 * Prints what a reader must find, and "why", what the tool may have found, as JSON.
 */

#include "format.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RATE	0.5		/* ns a tick */
#define NS(t)	((double)(t) * RATE)
#define PROCS	4
#define CALLS	PROCS		/* the ring of a native thread that makes calls */
#define RINGS	(PROCS + 1)
#define LOSER	3		/* the ring that has lost its first half */
#define BARE	1		/* the ring without BEGIN */
#define EACH	12
#define NR	(PROCS * EACH)
#define LATE	((uint64_t)(7e6 / RATE))
#define BEGAN	123456789000u	/* in ns of CLOCK_MONOTONIC */
#define AFTER	40000u		/* ns from the newest record to the copy */
#define CROWD	10000u		/* threads that can run, once */
#define POLLERS	3		/* of a processor */
#define LOOKS	20000		/* at a channel, at most */

enum {
	NOTHING, WORKER, CLIENT, MUTEX, SLEEP, OLD, LOCK, DEEP, TAKE, LIBRARY, MARK, RR,
	WRITER, INNER, CALL, READER, POLLER, DRAIN, SPINNER, CHANNEL, ORDERS, NAMES
};

static const struct { const char *text; int kind; } names[NAMES] = {
	[WORKER]	= { "worker", UVIEW_FUNCTION },
	[CLIENT]	= { "client<script>attacked=1</script>\"'&\n", UVIEW_FUNCTION },
	[MUTEX]		= { "mutex", UVIEW_TEXT },
	[SLEEP]		= { "sleep", UVIEW_TEXT },
	[OLD]		= { "lock_that_was_there_before", UVIEW_OBJECT },
	[LOCK]		= { "lock_<b>stock</b>", UVIEW_OBJECT },
	[DEEP]		= { "worker+0x93 (made+0x1193)", UVIEW_CODE },
	[TAKE]		= { "take_stock+0x64 (made+0x1064)", UVIEW_CODE },
	[LIBRARY]	= { "umutex_lock+0x20 (made+0x2020)", UVIEW_LIBRARY },
	[MARK]		= { "</script><img src=x onerror=attacked=2>", UVIEW_TEXT },
	[RR]		= { "rr", UVIEW_TEXT },
	[WRITER]	= { "writer \"7\"", UVIEW_TEXT },
	[INNER]		= { "inner", UVIEW_FUNCTION },
	[READER]	= { "reader", UVIEW_TEXT },
	[CALL]		= { "read_<file>", UVIEW_FUNCTION },
	[POLLER]	= { "poller", UVIEW_FUNCTION },
	[DRAIN]		= { "drain<u>", UVIEW_FUNCTION },
	[SPINNER]	= { "spinner", UVIEW_FUNCTION },
	[CHANNEL]	= { "channel", UVIEW_TEXT },
	[ORDERS]	= { "orders <b>", UVIEW_OBJECT },
};

#define LOCK_AT	0x5600deadb0c0u
/* Place n of the table of names holds entry n. */
#define AT(i)	((i) == LOCK || (i) == OLD ? LOCK_AT : 0x560000001000u + 16 * (i))

struct thread {
	int t_home, t_f, t_steps;
	uint64_t t_until;		/* sleeps until then, or is woken outside */
	bool t_sleeps;
	bool t_owner;
	uint64_t t_stopped;
	struct thread *t_next;		/* waiter of the mutex */
};

struct proc {
	uint64_t p_now;
	struct thread *p_ready[NR], *p_sent[NR];	/* fifos */
	unsigned p_head, p_tail, p_sent_nr;
	bool p_parked;
	struct thread *p_runs;
	uint64_t p_begun;
	int p_off;			/* its run is one without a cpu */
	struct uview_record *p_record;
	size_t p_nr, p_room;
};

static struct thread threads[NR];
static struct proc procs[RINGS];
static struct thread *owner, *first, **last = &first;
static struct thread *given;	/* has the mutex, and has not run since */
static size_t records;
static uint64_t seed = 7;
static struct {
	long runs[NAMES], wakes, posts, waits, marks, stolen, inner, calls, sleeps, late;
	long sleeps_in_kernel, crowds;
	int asked;
	uint64_t ran[NAMES], waited, longest, newest, slept, off_unknown;
	uint64_t off, taken;			/* ns */
} sum;

/* A channel, and the looks at it. */
static struct queue {
	uint64_t q_put, q_taken;
	struct look {
		uint64_t l_time, l_put, l_taken;
	} q_look[LOOKS];
	int q_nr;
} queues[2];

static unsigned random_below(unsigned n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % n;
}

static uint64_t address(const struct thread *t)
{
	return 0x7f0012340000u + 64 * (uint64_t)(t - threads);
}

static void put(struct proc *p, int kind, unsigned arg, uint64_t what, unsigned id)
{
	if (p->p_nr == p->p_room) {
		p->p_room = 2 * p->p_room + 1024;
		p->p_record = realloc(p->p_record, p->p_room * sizeof *p->p_record);
		if (p->p_record == NULL)
			abort();
	}
	p->p_record[p->p_nr].ve_word[0] = p->p_now << 16 | (unsigned)kind << 12 | arg;
	p->p_record[p->p_nr++].ve_word[1] = what | (uint64_t)id << 48;
	records++;
}

static void ready(struct proc *p, struct thread *t)
{
	p->p_ready[p->p_tail++ % NR] = t;
}

static void waited(struct thread *t, uint64_t now)
{
	uint64_t time = now - t->t_stopped;

	sum.waits++;
	sum.waited += time;
	if (time > sum.longest)
		sum.longest = time;
}

/* The owner gives the mutex to the first waiter. */
static void unlock(struct proc *p)
{
	struct thread *t = first;
	struct proc *home;

	owner->t_owner = false;
	owner = t;
	if (t == NULL)
		return;
	if ((first = t->t_next) == NULL)
		last = &first;
	t->t_owner = true;
	given = t;
	waited(t, p->p_now);
	home = &procs[t->t_home];
	if (home == p) {
		put(p, UVIEW_WAKE, UVIEW_BY_THREAD, address(t), 0);
		ready(p, t);
		sum.wakes++;
		return;
	}
	put(p, UVIEW_POST, UVIEW_POSTED, address(t), 0);
	sum.posts++;
	home->p_sent[home->p_sent_nr++] = t;
	if (home->p_parked)
		home->p_now = p->p_now + 2000;
}

static void stop_for(struct proc *p, int kind, uint64_t object)
{
	put(p, UVIEW_WAIT, kind == SLEEP, object, kind);
	if (kind == MUTEX)
		put(p, UVIEW_NOTE, UVIEW_HOLDER, address(owner), 0);
	p->p_now += 20;
}

/* Sleeps, until a time in whole ns. */
static void sleep_for(struct proc *p, struct thread *t, uint64_t ticks)
{
	t->t_until = (p->p_now + ticks) & ~(uint64_t)1;
	t->t_sleeps = true;
	stop_for(p, SLEEP, 0);
	put(p, UVIEW_NOTE, UVIEW_DEADLINE, (uint64_t)NS(t->t_until), 0);
}

/* The sleep of t is over, at its deadline, at which no processor may have looked. */
static void slept(struct thread *t)
{
	t->t_sleeps = false;
	sum.sleeps++;
	sum.slept += t->t_until - t->t_stopped;
}

/* One run of a worker: takes the mutex, or has it, or sleeps. */
static int work(struct proc *p, struct thread *t)
{
	if (t->t_owner) {
		unlock(p);
		return UVIEW_YIELDED;
	}
	if (++t->t_steps % 3 == 0) {
		sleep_for(p, t, 20000 + random_below(200000));
		return UVIEW_WAITS;
	}
	if (owner == NULL) {
		owner = t;
		t->t_owner = true;
		return UVIEW_YIELDED;
	}
	stop_for(p, MUTEX, LOCK_AT);
	t->t_next = NULL;
	*last = t;
	last = &t->t_next;
	return UVIEW_WAITS;
}

/* A run ends in another turn, so that all that happens goes by time. */
static void begin(struct proc *p, struct thread *t)
{
	p->p_runs = t;
	p->p_begun = p->p_now;
	if (t == given)
		given = NULL;
	if (t == &threads[PROCS + 1] && t->t_steps == 0) {
		put(p, UVIEW_RUN, uview_ready_code(CROWD), address(t), t->t_f);
		sum.crowds++;
	} else
		put(p, UVIEW_RUN, uview_ready_code(p->p_tail - p->p_head), address(t), t->t_f);
	if (t == &threads[PROCS + 1] && t->t_steps == 0)
		put(p, UVIEW_NOTE, UVIEW_NAMED, address(t), READER);
	p->p_now += 400 + random_below(6000);
	p->p_off = t->t_f == CLIENT && random_below(200) == 0 ? 1 + sum.asked++ % 4 : 0;
	p->p_now += p->p_off ? 400000 : 0;
}

/* The kernel has been asked about the run that ends. */
static void ask(struct proc *p)
{
	uint64_t off = 100000 + random_below(50000);

	if (p->p_off == 1) {
		put(p, UVIEW_NOTE, UVIEW_OFF, UVIEW_OFF_UNKNOWN, 0);
		sum.off_unknown += p->p_now - p->p_begun;
		return;
	}
	if (p->p_off > 2)
		put(p, UVIEW_LOST, 1, 0, 0);
	put(p, UVIEW_NOTE, UVIEW_OFF, off, p->p_off < 4 ? 2 : 0);
	sum.off += off;
	sum.taken += p->p_off < 4 ? 0 : off;
	sum.sleeps_in_kernel += p->p_off < 4 ? 2 : 0;
}

/* Thread t runs a dispatcher, which runs a thread. */
static void nest(struct proc *p, const struct thread *t)
{
	put(p, UVIEW_BEGIN, 0, address(t) + 8, RR);
	p->p_now += 10;
	put(p, UVIEW_RUN, 0, address(t) + 16, INNER);
	p->p_now += 300;
	put(p, UVIEW_STOP, UVIEW_ENDED, address(t) + 16, 0);
	p->p_now += 10;
	put(p, UVIEW_END, 0, address(t) + 8, 0);
	p->p_now += 10;
	sum.inner++;
}

static void call(const struct proc *p, const struct thread *t)
{
	struct proc *ring = &procs[CALLS];

	if (ring->p_now < p->p_now)
		ring->p_now = p->p_now;
	put(ring, UVIEW_CALL, UVIEW_CALL_BEGINS, address(t), CALL);
	ring->p_now += 3000;
	put(ring, UVIEW_CALL, UVIEW_CALL_ENDS, address(t), CALL);
	sum.calls++;
}

static void end(struct proc *p, struct thread *t)
{
	int reason;

	p->p_runs = NULL;
	if (p->p_off)
		ask(p);
	if (t->t_f == CLIENT && random_below(200) == 0)
		nest(p, t);
	if (t->t_f == CLIENT && random_below(400) == 0)
		call(p, t);
	if (random_below(20000) == 0) {
		put(p, UVIEW_MARK, 0, address(t), MARK);
		sum.marks++;
	}
	reason = t->t_f == WORKER ? work(p, t) : UVIEW_YIELDED;
	t->t_stopped = p->p_now;
	put(p, UVIEW_STOP, reason, address(t), reason == UVIEW_WAITS && t->t_until == 0);
	if (reason == UVIEW_YIELDED && random_below(9)) {
		ready(p, t);
	} else if (reason == UVIEW_YIELDED)
		t->t_until = p->p_now + 300000;		/* blocked, and woken outside */
	sum.runs[t->t_f]++;
	sum.ran[t->t_f] += p->p_now - p->p_begun;
	p->p_now += 60;
}

/* TURNS */

static uint64_t poller(const struct proc *p, int i)
{
	return 0x7f00aa000000u + 0x1000 * (uint64_t)(p - procs) + 64 * (uint64_t)i;
}

static void put_turns(struct proc *p, int i, int f, uint64_t nr, uint64_t ticks, uint64_t last)
{
	put(p, UVIEW_NOTE, UVIEW_TURN, poller(p, i), (unsigned)f);
	put(p, UVIEW_NOTE, UVIEW_TURNS, 0, 0);
	p->p_record[p->p_nr - 1].ve_word[1] = uview_turns_word(nr, ticks);
	put(p, UVIEW_NOTE, UVIEW_TURN_LAST, last, 0);
}

/* The native thread of calls posts to a poller that can run already. */
static void post_in_vain(struct proc *p, int i, uint64_t when)
{
	if (procs[CALLS].p_now > when)
		return;
	procs[CALLS].p_now = when;
	put(&procs[CALLS], UVIEW_POST, UVIEW_POSTED, poller(p, i), 0);
	sum.posts++;
}

/*
 * A spinner, or pollers, give way to each other for a time, which goes by. Turns that
 * seem longer than all of it take equal parts of it. The last turn of the second
 * poller is before those of others. At the end the first has had no turn.
 */
static void take_turns(struct proc *p, bool is_one, uint64_t length, bool is_last)
{
	const int nr = is_one ? 1 : POLLERS;
	const bool is_too_long = !is_last && random_below(4) == 0;
	uint64_t ticks[POLLERS], begin = p->p_now, end = begin + (length -= length % 192);

	for (int i = 0; i < nr; i++) {		/* the run before the first turn */
		int f = is_one ? SPINNER : i == 1 ? DRAIN : POLLER;

		put(p, UVIEW_RUN, 0, poller(p, is_one ? POLLERS : i), f);
		put(p, UVIEW_STOP, UVIEW_YIELDED, poller(p, is_one ? POLLERS : i),
		    f == DRAIN ? 2 : 0);
		sum.runs[f]++;
	}
	for (int i = 0; i < nr; i++) {
		int f = is_one ? SPINNER : i == 1 ? DRAIN : POLLER;
		uint64_t turns = 1 + random_below(3000);

		if (is_last && nr > 1 && i == 0)
			turns = 0;
		ticks[i] = turns == 0 ? 0 :
			(is_too_long ? 2 * length : length / nr / 2) & ~(uint64_t)63;
		p->p_now += i ? 100 : 0;
		put_turns(p, is_one ? POLLERS : i, f, turns, ticks[i],
			  is_last && i == nr - 1 ? end : i == 1 ? begin + length * 4 / 5 :
			  end - 200 + 50 * (uint64_t)i);
		sum.runs[f] += (long)turns;
	}
	for (int i = 0; i < nr; i++)
		sum.ran[is_one ? SPINNER : i == 1 ? DRAIN : POLLER] +=
			is_too_long ? length / nr : ticks[i];
	if (!is_last)
		post_in_vain(p, is_one ? POLLERS : 0, begin + length * 3 / 4);
	p->p_now = end;
}

/* QUEUES */

/* Values come and go; the channel is looked at, and noted. */
static void look_at(struct proc *p, int i)
{
	struct queue *q = &queues[i];

	if (q->q_nr == LOOKS)
		return;
	q->q_put += random_below(5);
	if (i == 0 && q->q_nr == 0)
		q->q_put = q->q_taken = 0xfffffffau;		/* wraps soon */
	if (i == 0)
		q->q_taken += random_below(1 + (unsigned)(q->q_put - q->q_taken) /
					   (q->q_nr < 10 ? 2 : 1));
	if (i == 0 && q->q_nr > 12 && random_below(4) == 0)
		q->q_put = q->q_taken;		/* many passed, and were not counted */
	if (i == 0 && q->q_nr == 10) {		/* another channel */
		q->q_taken -= 1000;
		q->q_put += 1000;
	}
	q->q_look[q->q_nr++] = (struct look){ p->p_now, q->q_put, q->q_taken };
	put(p, UVIEW_NOTE, UVIEW_QUEUE, i ? 0x560000abcde0u : AT(ORDERS), CHANNEL);
	put(p, UVIEW_NOTE, UVIEW_LENGTH, 0, 0);
	p->p_record[p->p_nr - 1].ve_word[1] =
		(q->q_put - q->q_taken) << 32 | (q->q_taken & 0xffffffff);
}

/* Since when at least the oldest value of look j is there. */
static uint64_t age(const struct queue *q, int j)
{
	const struct look *at = q->q_look;

	if (at[j].l_put == at[j].l_taken)
		return 0;
	for (int k = j; k-- > 0;)
		if (at[k].l_put <= at[j].l_taken || at[k].l_taken > at[k + 1].l_taken ||
		    at[k].l_put > at[k + 1].l_put)
			return at[j].l_time - at[k + 1].l_time;
	return at[j].l_time - at[0].l_time;
}

/* Prints [looks, most, mean length, most age, mean age] of a channel. */
static void print_queue(const char *name, const struct queue *q)
{
	uint64_t most = 0, oldest = 0;
	double length = 0, old = 0, all, end = (double)sum.newest + AFTER / RATE;

	for (int j = 0; j < q->q_nr; j++) {
		const struct look *at = &q->q_look[j];
		double time = (j + 1 < q->q_nr ? (double)at[1].l_time : end) -
			(double)at->l_time;
		uint64_t nr = at->l_put - at->l_taken, a = age(q, j);

		most = nr > most ? nr : most;
		oldest = a > oldest ? a : oldest;
		length += time * (double)nr;
		old += time * (double)a;
	}
	all = end - (double)q->q_look[0].l_time;
	printf("\"%s\": [%d, %lu, %.9f, %.1f, %.6f], ", name, q->q_nr, (unsigned long)most,
	       length / all, NS(oldest), old / all * RATE);
}

/* Wakes sleepers and those that were sent. Returns the next deadline. */
static uint64_t look(struct proc *p)
{
	uint64_t next = ~(uint64_t)0;

	for (int i = p - procs; i < NR; i += PROCS) {
		struct thread *t = &threads[i];

		if (t->t_until && t->t_until <= p->p_now) {
			put(p, UVIEW_WAKE, UVIEW_OUTSIDE, address(t), 0);
			sum.late += t->t_sleeps && t->t_until < p->p_now;
			if (t->t_sleeps)
				slept(t);
			t->t_until = 0;
			ready(p, t);
		} else if (t->t_until && t->t_until < next)
			next = t->t_until;
	}
	for (unsigned i = 0; i < p->p_sent_nr; i++) {
		put(p, UVIEW_WAKE, UVIEW_OUTSIDE, address(p->p_sent[i]), 0);
		ready(p, p->p_sent[i]);
	}
	p->p_sent_nr = 0;
	return next;
}

static void turn(struct proc *p)
{
	uint64_t next;

	if (p->p_runs != NULL) {
		end(p, p->p_runs);
		return;
	}
	if (p->p_parked)
		put(p, UVIEW_UNPARK, 0, 0, 0);
	p->p_parked = false;
	if (random_below(300) == 0) {
		put(p, UVIEW_STEAL, 3, 0, 0);
		sum.stolen += 3;
	}
	if (random_below(120) == 0) {
		take_turns(p, random_below(2), 3000 + random_below(60000), false);
		return;
	}
	if (p == procs && random_below(8) == 0)
		look_at(p, (int)random_below(2));
	next = look(p);
	if (p->p_head != p->p_tail) {
		begin(p, p->p_ready[p->p_head++ % NR]);
		return;
	}
	put(p, UVIEW_PARK, 0, 0, 0);		/* its word is the deadline */
	p->p_record[p->p_nr - 1].ve_word[1] = next == ~(uint64_t)0 ? next : (uint64_t)NS(next);
	p->p_parked = true;
	p->p_now = next == ~(uint64_t)0 ? ~(uint64_t)0 >> 16 : next + 200;
}

static struct proc *earliest(void)
{
	struct proc *p = procs;

	for (int i = 1; i < PROCS; i++)
		if (procs[i].p_now < p->p_now)
			p = &procs[i];
	return p;
}

static void simulate(size_t most, bool lost)
{
	for (int i = 0; i < NR; i++) {
		struct thread *t = &threads[i];

		t->t_home = i % PROCS;
		t->t_f = i / PROCS % 3 ? WORKER : CLIENT;
		ready(&procs[t->t_home], t);
	}
	for (int i = 0; i < PROCS; i++) {
		procs[i].p_now = 1000 + i;
		if (i != BARE)
			put(&procs[i], UVIEW_BEGIN, i, 0x7f0000000000 + i, RR);
	}
	put(&procs[0], UVIEW_NOTE, UVIEW_NAMED, address(&threads[NR - PROCS]), WRITER);
	while (records < most || given == NULL) {
		struct proc *p = earliest();

		if (lost && records > most / 2 && p == &procs[1] && !p->p_parked && !p->p_runs) {
			put(p, UVIEW_PARK, 0, (uint64_t)NS(p->p_now), 0);
			p->p_now += LATE;
			put(p, UVIEW_UNPARK, 0, 0, 0);
			lost = false;
		}
		turn(p);
	}
}

/* Pollers are in their turns when all ends, on two processors that do not sleep. */
static int end_in_turns(void)
{
	int nr = 0, last = -1;

	for (int i = PROCS; i-- > 0 && nr < 2;) {
		struct proc *p = &procs[i];

		if (p->p_parked)
			continue;
		if (p->p_runs)
			end(p, p->p_runs);
		take_turns(p, nr == 0, 30000, true);
		if (sum.newest < p->p_now)
			sum.newest = p->p_now;
		nr++;
		last = i;
	}
	return nr == 2 ? last : -1;
}

/* THE FILE */

static char texts[4096], *text = texts;

static size_t part(struct uview_file *f, int nr, size_t at, unsigned entries, unsigned each)
{
	f->vf_part[nr] = (struct uview_part){ .vp_at = at, .vp_size = (size_t)entries * each,
		.vp_room = entries, .vp_nr = entries, .vp_each = each };
	return at + (size_t)entries * each;
}

static void write_names(FILE *out)
{
	for (int i = 0; i < NAMES; i++) {
		const char *s = names[i].text ? names[i].text : "";
		struct uview_name n = { .vn_at = names[i].kind == UVIEW_TEXT ? 0 : AT(i),
			.vn_text = (uint32_t)(text - texts), .vn_len = (uint16_t)strlen(s),
			.vn_kind = (uint16_t)names[i].kind };

		memcpy(text, s, strlen(s));
		text += strlen(s);
		fwrite(&n, sizeof n, 1, out);
	}
	fwrite(texts, sizeof texts, 1, out);
}

static void write_census(FILE *out)
{
	static struct uview_census c = { .vc_took = 123000, .vc_threads = 1000050, .vc_nr = 4 };

	c.vc_row[0] = (struct uview_row){ .vw_f = WORKER, .vw_stack = 1, .vw_kind = MUTEX,
		.vw_reason = UVIEW_WAITS, .vw_nr = 1000000, .vw_object = LOCK_AT };
	c.vc_row[1] = (struct uview_row){ .vw_f = CLIENT, .vw_reason = UVIEW_NEW, .vw_nr = 48 };
	for (unsigned i = 0; i < 2; i++)	/* these two wait for each other */
		c.vc_row[2 + i] = (struct uview_row){ .vw_f = WORKER, .vw_kind = MUTEX,
			.vw_reason = UVIEW_WAITS, .vw_nr = 1, .vw_object = 0x1000 + i,
			.vw_holder = 0x2001 - i, .vw_example = 0x2000 + i };
	fwrite(&c, sizeof c, 1, out);
}

static void write_file(FILE *out, bool lost)
{
	static struct uview_file f = { .vf_magic = UVIEW_MAGIC, .vf_state = UVIEW_COPY,
		.vf_pid = 4711, .vf_wall = 1800000000000000000,
		.vf_rate = RATE, .vf_ns = BEGAN, .vf_census = 1, .vf_name = "made <i>&amp;</i>" };
	static const struct uview_stack stacks[3] = { { 0 },
		{ .vk_nr = 3, .vk_f = WORKER, .vk_frame = { LIBRARY, TAKE, DEEP } },
		{ .vk_nr = 2, .vk_f = DRAIN, .vk_frame = { LIBRARY, TAKE } } };
	size_t at = part(&f, UVIEW_PART_RINGS, 4096, RINGS, sizeof(struct uview_ring)), all;

	at = part(&f, UVIEW_PART_NAMES, at, NAMES, sizeof(struct uview_name));
	at = part(&f, UVIEW_PART_TEXTS, at, sizeof texts, 1);
	at = part(&f, UVIEW_PART_STACKS, at, 3, sizeof *stacks);
	at = part(&f, UVIEW_PART_CENSUS, at, 1, sizeof(struct uview_census));
	f.vf_flags = lost ? UVIEW_WITH_STACKS : UVIEW_WITH_STACKS | UVIEW_KNOWS_CPU;
	all = at;
	part(&f, UVIEW_PART_RECORDS, at, (unsigned)records, sizeof(struct uview_record));
	for (int i = 0; i < RINGS; i++) {
		uint64_t t = procs[i].p_record[procs[i].p_nr - 1].ve_word[0] >> 16;

		sum.newest = sum.newest < t ? t : sum.newest;
	}
	f.vf_end = BEGAN + (uint64_t)NS(sum.newest) + AFTER;
	for (struct thread *t = threads; t < threads + NR; t++)
		if (t->t_sleeps && NS(t->t_until) < NS(sum.newest) + AFTER)
			slept(t);
	fwrite(&f, sizeof f, 1, out);
	for (int i = 0; i < RINGS; i++) {
		struct proc *p = &procs[i];
		size_t skip = lost && i == LOSER ? p->p_nr / 2 : 0;
		struct uview_ring r = { .vr_head = p->p_nr - skip, .vr_at = all,
			.vr_room = (uint32_t)(p->p_nr - skip), .vr_tid = 4711 + (unsigned)i,
			.vr_state = 1, .vr_lost = skip,
			.vr_scheduler = i < PROCS ? RR : 0, .vr_number = (uint16_t)i,
			.vr_oldest = p->p_record[skip].ve_word[0] >> 16, .vr_name = "<u>made" };

		memmove(p->p_record, p->p_record + skip, (p->p_nr - skip) * sizeof *p->p_record);
		p->p_nr -= skip;
		all += p->p_nr * sizeof *p->p_record;
		fwrite(&r, sizeof r, 1, out);
	}
	write_names(out);
	fwrite(stacks, sizeof stacks, 1, out);
	write_census(out);
	for (int i = 0; i < RINGS; i++)
		fwrite(procs[i].p_record, sizeof(struct uview_record), procs[i].p_nr, out);
}

/* What the tool may have found. Texts are hostile, too. */
static void print_why(bool lost, const struct proc *p)
{
	const double from = NS(p->p_record[p->p_nr / 2].ve_word[0] >> 16);

	printf("\"why\": {\"lost\": %s, \"cost\": 0.031, \"found\": [", lost ? "0.91" : "0");
	if (!lost)
		printf("{\"kind\": \"lock\", \"share\": 0.43, \"text\": \"Threads stand in "
		       "line <img src=x onerror=attacked=3></script>.\", \"machine\": false, "
		       "\"object\": \"0x%lx\"}, {\"kind\": \"hog\", \"share\": 0.21, "
		       "\"text\": \"worker has it for 5 us, 11 us: 1 runs.\", \"machine\": false, "
		       "\"from\": %.1f, \"to\": %.1f, \"thread\": \"0x%lx\"}, ",
		       (unsigned long)LOCK_AT, from, from + 400000,
		       (unsigned long)address(&threads[PROCS + 1]));
	printf("{\"kind\": \"machine\", \"share\": 0.004, \"text\": \"The machine slept "
	       "late.\", \"machine\": true, \"from\": %.1f, \"to\": %.1f}], ", from,
	       from + 9000);
	printf("\"kinds\": [{\"kind\": \"lock\", \"title\": \"a line at a lock\", "
	       "\"state\": \"%s\", \"figure\": \"2.1 wait <b>\", \"limit\": \"1\"}, "
	       "{\"kind\": \"deadlock\", \"title\": \"a dead lock\", \"state\": "
	       "\"none\", \"figure\": \"0\", \"limit\": \"1\"}, "
	       "{\"kind\": \"kernel\", \"title\": \"sleeps in the kernel\", \"state\": "
	       "\"%s\", \"figure\": \"3%%\", \"limit\": \"10%%\", \"why\": "
	       "\"the kernel does not tell\"}]}", lost ? "none" : "found",
	       lost ? "unknown" : "none");
}

static void print_sums(bool lost, int turner)
{
	static const int of[] = { WORKER, CLIENT, POLLER, DRAIN, SPINNER };
	static const char *const name[] = { "worker", "client", "poller", "drain", "spinner" };

	for (int i = 0; i < 5; i++)
		printf("%s\"%s\": [%ld, %.1f], ", i ? "" : "{", name[i], sum.runs[of[i]],
		       NS(sum.ran[of[i]]));
	print_queue("orders", &queues[0]);
	print_queue("nameless", &queues[1]);
	printf("\"records\": %zu, \"end\": %.1f, \"stolen\": %ld, \"inner\": %ld, "
	       "\"calls\": %ld, \"here\": %ld, \"posts\": %ld, "
	       "\"lock\": [%ld, %.1f, %.1f], \"sleep\": [%ld, %.1f, %ld], \"marks\": %ld, ",
	       records, NS(sum.newest) + AFTER, sum.stolen, sum.inner, sum.calls, sum.wakes,
	       sum.posts, sum.waits, NS(sum.waited), NS(sum.longest), sum.sleeps,
	       NS(sum.slept), sum.late, sum.marks);
	printf("\"off\": [%lu, %.1f, %ld, %lu], \"crowds\": %ld, \"turner\": %d, ",
	       (unsigned long)sum.off, NS(sum.off_unknown), sum.sleeps_in_kernel,
	       (unsigned long)sum.taken, sum.crowds, turner);
	print_why(lost, procs);
	printf("}\n");
}

int main(int argc, char **argv)
{
	FILE *out = argc == 4 ? fopen(argv[1], "wb") : NULL;
	bool lost;
	int turner;

	if (out == NULL)
		return 1;
	lost = atoi(argv[3]) != 0;
	simulate(strtoul(argv[2], NULL, 10), lost);
	turner = end_in_turns();
	write_file(out, lost);
	print_sums(lost, turner);
	return fclose(out) != 0;
}
