/* SPDX-License-Identifier: MIT */
/* m_arm.c: scenarios of upoll.c: events of each arming, and of no other, end waits. */

/*
 * upoll.c is part of this file. Instead of events.h there is a small kernel: a
 * number names a file, and an epoll of each poller has entries by file and
 * number, as epoll(7) does, so that an entry outlives the number if a copy of
 * the file is open. A file has units. A put adds one, and makes an event of each
 * entry; a MOD and an ADD make one if there are units. A poller fetches an event,
 * and delivers it at any time after that.
 *
 * A wait must end only while the file that has the number has units, and must
 * end if it has. Units that make no event are found by the second look of a wait
 * that did not arm. Uwait.c is replaced as in m_sync.c.
 */
#include "model.h"

#define FILES	2
#define PAGE	1
#define POLLERS	2
#define ULOCK_PLACE(l)	place_of(l)
struct ulock;
static int *place_of(const struct ulock *l);

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "upoll.h"
#include "lock.h"

#define UEVENTS_H
#define UEVENTS_MOST	1
#define UEVENTS_LAST	4
#define UEVENTS_OTHER	8
#define UEVENTS_URGENT	16
#define UEVENTS_NEW	32
#define UEVENTS_GENERATIONS	((1ULL << 39) - 1)
#define UEVENTS_STAY	1
struct uevents { int v_wake, v_poller; };
typedef void event_f(void *arg, int fd, int mask, uint64_t generation);

static int uevents_arm(struct uevents *v, int fd, int mask, uint64_t generation);
static void uevents_disarm(struct uevents *v, int fd);
static int  uevents_init(struct uevents *v)	{ (void)v; return 0; }
static void uevents_fini(struct uevents *v)	{ (void)v; }
static void uevents_close(struct uevents *v)	{ (void)v; }
static int  uevents_fd(const struct uevents *v)	{ (void)v; return 0; }
static int  uevents_ms(utime_ns ns)		{ return ns != 0; }
static short uevents_poll(int mask)		{ return (short)mask; }
static int uevents_wait(struct uevents *v, int most, utime_ns ns,
			event_f *event, void *arg);

/* No fork() here. */
#define UFORK_H
#define UFORK(entry)
#define UFORK_POLLERS	0
struct ufork {
	int           f_rank, f_nr;
	struct ulock *f_lock;
	void        (*f_child)(void);
};
static int ufork_watch(void)			{ return 0; }

static int file_close(int fd);
#define close(fd)	file_close(fd)
#define usched_fail(contract)	model_fail(contract)

#include "upoll.c"

#undef close

static struct {
	struct entry  entry[1];
	struct poller poller[POLLERS];
	struct place {
		struct record r;
		struct node   node;
	} place[MODEL_THREADS];
	int           kernel;		/* (atomic) its calls have an order */
	int           number;		/* its file */
	int           units[FILES];
	struct known {
		int      k_armed;
		int      k_event;
		uint64_t k_generation;
	} known[POLLERS][FILES];
	int           over;		/* waits that have ended (atomic) */
	int           waits;		/* of the scenario */
	int           had;		/* the last fetch had an event */
	utime_ns      now;
	int           place_of_lock;
} s;

static int *place_of(const struct ulock *l)
{
	(void)l;
	return &s.place_of_lock;
}

/* What stands for uwait.c. */

static struct ustack *threads[MODEL_THREADS];	/* the same in each execution */

static int me(void)
{
	int i = 0;

	while (threads[i] != ustack_self())
		i++;
	return i;
}

void *uwait_make(struct uwait_kind *kind, const void *object, size_t size)
{
	struct uwait *w = &s.place[me()].r.r_wait;

	(void)kind;
	MUST(size <= sizeof s.place[0]);
	w->w_state = UWAIT_WAITS;
	w->w_at.object = object;
	return w;
}

/* A plain write. */
void uwait_free(void *record)
{
	((struct uwait *)record)->w_state = 77;
}

void uwait_complete(struct uwait *w, int result)
{
	w->w_result = result;
	__atomic_store_n(&w->w_state, UWAIT_ARRIVED, __ATOMIC_RELEASE);
}

int uwait_for(struct uwait *w, utime_ns until)
{
	int i = me();

	(void)until;
	while (__atomic_load_n(&w->w_state, __ATOMIC_ACQUIRE) != UWAIT_ARRIVED)
		model_pause(i);
	return finish(w, w->w_result);
}

/* Waiter i has poller i. */
struct uwait_source *uwait_source_of(void (*look)(struct uwait_source *o))
{
	(void)look;
	return &s.poller[me()].p_source;
}

struct uwait_source *uwait_source_in(const struct uwait_base *b,
				     void (*look)(struct uwait_source *o))
{
	(void)b;
	return uwait_source_of(look);
}

int  uwait_source_join(struct uwait_source *o)	{ (void)o; return 1; }
int  uwait_source_add(struct uwait_source *o)	{ (void)o; return 0; }
void uwait_source_begin(struct uwait_source *o)	{ (void)o; }
void uwait_source_end(struct uwait_source *o)	{ (void)o; }
int  uwait_give_way(void)			{ return 0; }
int  utime_is_virtual(void)			{ return 0; }
int  u_canceled(void)				{ return 0; }

/*
 * The kernel. A call is a single step: the checker sees no access but that of
 * step(), and may let other threads run before it.
 */
#define KERNEL	__attribute__((noinline, no_sanitize_thread))

/* Each second look is due when it is asked for. */
KERNEL utime_ns unow(void)
{
	return s.now += 2 * UTIME_S;
}

static void step(void)
{
	(void)__atomic_fetch_or(&s.kernel, 1, __ATOMIC_ACQ_REL);
}

static KERNEL int arms(int poller, uint64_t generation)
{
	struct known *k = &s.known[poller][s.number];
	int is_new = !k->k_armed;

	k->k_armed = 1;
	k->k_generation = generation;
	k->k_event = s.units[s.number] > 0;
	return is_new;
}

static int uevents_arm(struct uevents *v, int fd, int mask, uint64_t generation)
{
	MUST(fd == 0 && (mask & ~(UEVENTS_NEW | UEVENTS_URGENT)) == UREAD);
	step();
	return arms(v->v_poller, generation);
}

static KERNEL void disarms(int poller)
{
	s.known[poller][s.number] = (struct known){ 0 };
}

static void uevents_disarm(struct uevents *v, int fd)
{
	(void)fd;
	step();
	disarms(v->v_poller);
}

/* Takes an event. Units may have gone: epoll_wait(2) looks again. */
static KERNEL bool fetched(int poller, uint64_t *generation)
{
	struct known *k = s.known[poller];
	int i;

	for (i = 0; i < FILES; i++) {
		int has = k[i].k_event && s.units[i] > 0;

		k[i].k_event = 0;
		*generation = k[i].k_generation;
		if (has)
			return true;
	}
	return false;
}

static int uevents_wait(struct uevents *v, int most, utime_ns ns,
			event_f *event, void *arg)
{
	uint64_t generation;

	(void)most, (void)ns;
	if (v->v_poller == 0)		/* else a pause would miss what came */
		step();
	s.had = fetched(v->v_poller, &generation);
	if (s.had)
		event(arg, 0, UREAD, generation);
	return s.had;
}

/* Fetches an event of one of the first nr pollers. Returns whether there was one. */
static bool polls(int nr)
{
	int i;

	for (i = 0; i < nr; i++) {
		s.had = 0;
		fetch(&s.poller[i], 1, 0);
		if (s.had)
			return true;
	}
	return false;
}

static KERNEL void puts_unit(int file)
{
	int i;

	s.units[file]++;
	for (i = 0; i < POLLERS; i++)
		s.known[i][file].k_event = s.known[i][file].k_armed;
}

static void put(int file)
{
	step();
	puts_unit(file);
}

static KERNEL int takes(int most)
{
	int nr = s.units[s.number];

	if (nr > most)
		nr = most;
	s.units[s.number] -= nr;
	return nr;
}

/* Takes units, as a read with room for so many. Returns how many. */
static int take_some(int room)
{
	struct upoll_read r = upoll_read_begin(0);
	int nr;

	step();
	nr = takes(room);
	upoll_read_end(r, nr > 0 ? nr : -EAGAIN, room);
	return nr;
}

/* Takes all. */
static int take(void)
{
	return take_some(9);
}

static KERNEL void renames(void)
{
	s.number++;
}

/* The number is the next file's from now on. A copy keeps the old file alive. */
static int file_close(int fd)
{
	(void)fd;
	step();
	renames();
	return 0;
}

/* Threads. */

static bool over(void)
{
	return __atomic_load_n(&s.over, __ATOMIC_ACQUIRE) == s.waits;
}

static void begin(int i)
{
	threads[i] = ustack_self();
}

/* Waits once. Returns the result. */
static int waits(void)
{
	struct record *r;
	int rc;

	r = record_make(1, 0, &rc);
	MUST(r != NULL);
	MUST(queue(r, 0, 0, UREAD, 0) == 0);
	return uwait_for(&r->r_wait, UNEVER);
}

static void ended(void)
{
	__atomic_fetch_add(&s.over, 1, __ATOMIC_RELEASE);
}

/* Nobody else takes units, so there are some. */
static void waits_for_units(void)
{
	MUST(waits() == 0);
	MUST(take() > 0);
	ended();
}

static void waits_twice(void)
{
	begin(0);
	waits_for_units();
	waits_for_units();
}

/* Reads leave units, or are short. */
static void waits_for_three(void)
{
	int got = 0;

	begin(0);
	while (got < 3) {
		MUST(waits() == 0);
		got += take_some(2);
		model_turn(21);
	}
	ended();
}

/* Tries after each wait, as a read does. */
static void reads_units(void)
{
	int rc = 0;

	do {
		rc = upoll_wait(0, UREAD, UNEVER, rc);
		MUST(rc == 0 || rc == UPOLL_AGAIN);
	} while (take() == 0);
	ended();
}

/* Without an event, as below SO_RCVLOWAT. */
static KERNEL void puts_silently(void)
{
	s.units[0]++;
}

static void reads_thrice(void)
{
	int i;

	begin(0);
	reads_units();
	for (i = 0; i < 2; i++) {
		step();
		puts_silently();
		reads_units();
	}
}

static void waits_for_both(void)
{
	begin(0);
	waits_for_units();
	(void)file_close(0);
	waits_for_units();
}

/* The next file of the number is owned, too. */
static void owns_both(void)
{
	begin(0);
	waits_for_units();
	MUST(upoll_close(0) == 0);
	MUST(upoll_trust(0) == 0);
	if (take() == 0) {
		MUST(waits() == 0);
		MUST(take() > 0);
	}
	ended();
}

static void waits_0(void)	{ begin(0); MUST(waits() == 0); ended(); }
static void waits_1(void)	{ begin(1); MUST(waits() == 0); ended(); }

static void poll_until_over(int nr)
{
	begin(2);
	for (;;) {
		model_turn(20);
		if (over())
			return;
		if (!polls(nr))
			model_pause(10);
	}
}

static void polls_first(void)	{ poll_until_over(1); }
static void polls_both(void)	{ poll_until_over(2); }

/* Two units come for the first wait, and one for the second. */
static void puts_three(void)
{
	begin(1);
	put(0);
	put(0);
	while (__atomic_load_n(&s.over, __ATOMIC_ACQUIRE) == 0)
		model_pause(5);
	put(0);
}

/* The last when the others are taken, so no event is left for them. */
static void puts_in_turn(void)
{
	begin(1);
	put(0);
	put(0);
	put(0);
}

/* The old file reports, too. */
static void puts_old(void)
{
	begin(1);
	put(0);
	while (__atomic_load_n(&s.over, __ATOMIC_ACQUIRE) == 0)
		model_pause(5);
	put(0);
	put(0);
	put(1);
}

static void puts_one(void)	{ begin(3); put(0); }
static void puts_once(void)	{ begin(1); put(0); }

/* A close ends the wait, or has come too late. */

static void waits_or_not(void)
{
	int rc;

	begin(0);
	rc = waits();
	MUST(rc == -EBADF || rc == 0);
	ended();
}

static bool is_queued(void)
{
	bool is;

	ulock_get(&s.entry[0].e_lock);
	is = s.entry[0].e_first[READERS] != NULL;
	ulock_put(&s.entry[0].e_lock);
	return is;
}

static void waits_closed(void)
{
	begin(0);
	MUST(waits() == -EBADF);
	ended();
}

static void closes(void)
{
	begin(1);
	for (;;) {
		model_turn(22);
		if (over() || is_queued())
			break;
		model_pause(12);
	}
	MUST(upoll_close(0) == 0);
}

static void puts_and_closes(void)
{
	put(0);
	closes();
}

static void init(int nr)
{
	int i;

	page[0] = s.entry;
	s.waits = nr;
	for (i = 0; i < POLLERS; i++)
		s.poller[i].p_events.v_poller = i;
	NAME(s.entry[0].e_lock.l_state);
	NAME(s.kernel);
	NAME(s.over);
	NAME(s.place[0].r.r_wait.w_state);
	NAME(s.place[1].r.r_wait.w_state);
}

static void init_1(void)	{ init(1); }
static void init_2(void)	{ init(2); }

/* What u_trust() does. Both pollers are of one set. */
static void init_owned(int nr)
{
	init(nr);
	s.entry[0].e_owned = true;
	s.poller[0].p_source.o_group = s.poller[1].p_source.o_group = &s;
}

static void init_owned_1(void)	{ init_owned(1); }
static void init_owned_2(void)	{ init_owned(2); }
static void init_owned_3(void)	{ init_owned(3); }

/* No node is left. */
static void done(void)
{
	MUST(s.over == s.waits);
	MUST(s.entry[0].e_first[READERS] == NULL);
}

const struct model_scenario scenarios[] = {
	{ "arm: a wait, and another", 2, 4, 0, &s, sizeof s, init_2,
	  { waits_twice, puts_three, polls_first }, done },
	{ "arm: the number is another file's", 2, 4, 0, &s, sizeof s, init_2,
	  { waits_for_both, puts_old, polls_first }, done },
	{ "arm: a close", 2, 4, 0, &s, sizeof s, init_1,
	  { waits_closed, closes }, done },
	{ "arm: a close, and an event", 1, 3, 0, &s, sizeof s, init_1,
	  { waits_or_not, puts_and_closes, polls_first }, done },
	{ "arm: owned, a wait, and another", 2, 3, 0, &s, sizeof s,
	  init_owned_2, { waits_twice, puts_three, polls_first }, done },
	{ "arm: owned, reads that leave some", 2, 3, 0, &s, sizeof s,
	  init_owned_1, { waits_for_three, puts_in_turn, polls_first }, done },
	{ "arm: owned, units without an event", 1, 2, 0, &s, sizeof s,
	  init_owned_3, { reads_thrice, puts_once, polls_first }, done },
	{ "arm: owned, the number is another file's", 2, 3, 0, &s, sizeof s,
	  init_owned_2, { owns_both, puts_old, polls_first }, done },
	{ "arm: owned, a close, and an event", 1, 3, 0, &s, sizeof s,
	  init_owned_1, { waits_or_not, puts_and_closes, polls_first }, done },
	/* The longest come last: most broken sources fail before them. */
	{ "arm: two pollers", 1, 2, 0, &s, sizeof s, init_2,
	  { waits_0, waits_1, polls_both, puts_one }, done },
	{ "arm: owned, two pollers", 1, 2, 0, &s, sizeof s, init_owned_2,
	  { waits_0, waits_1, polls_both, puts_one }, done },
	{ 0 }
};
