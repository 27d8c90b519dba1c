/* SPDX-License-Identifier: MIT */
/* hard: misuse of another thread's stack is caught, correct programs run */
/* VARIANTS: core HARD */
/* LIBS: -Wl,--wrap=malloc,--wrap=realloc,--wrap=free */

/*
 * uhard.h lists misuses of the stack of a blocked or ended thread, or of its
 * buffer. Each of them is caught, and the message names both threads, and no
 * other. A correct program has the same results whatever USCHED_DEBUG says;
 * threads are moved and yield as it says; unknown words are refused. A fault
 * with another cause goes to the handler that was there before. If there is no
 * memory, a block fails. All memory is given back.
 */
#include "check.h"

#if !defined(USCHED_HARD)

int main(void)
{
	check_skip("built without -DUSCHED_HARD");
}

#else

#include "tiny.h"
#include "uhard.h"
#include "uslice.h"
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>

#define NR	6
#define TRIPS	12
#define MANY	40			/* dispatchers, more than FEW */
#define NATIVE	4
#define DEEP	8192
#define RACES	60

/* The blocks that uhard.o and this file hold, and the call that fails. */
static long held, fail_in;

WRAP(void *, malloc, size_t nob)
{
	if (fail_in > 0 && --fail_in == 0)
		return NULL;
	__atomic_fetch_add(&held, 1, __ATOMIC_RELAXED);
	return __real_malloc(nob);
}

WRAP(void *, realloc, void *at, size_t nob)
{
	if (at == NULL)
		return __wrap_malloc(nob);
	return __real_realloc(at, nob);
}

WRAP(void, free, void *at)
{
	if (at != NULL)
		__atomic_fetch_sub(&held, 1, __ATOMIC_RELAXED);
	__real_free(at);
}

static struct tiny t;
static struct tiny_thread tt[NR];
static const char *words;		/* USCHED_DEBUG for children */
static int lanes;
static bool have_lanes;

/* Called first in a child. */
static void words_set(void)
{
	if (words != NULL)
		CHECK_IS(setenv("USCHED_DEBUG", words, 1), 0);
	else
		unsetenv("USCHED_DEBUG");
}

/* Programs that must die. A is tt[0], B is tt[1], C is tt[2]. */

enum { A, B, C, D };

static char *volatile target;		/* an address that A has told */
static volatile char seen;

static void start(int nr, void (*f)(void *), int lane)
{
	tiny_start(&t, &tt[nr], f, NULL);
	tt[nr].tt_stack.u_lane = (short)lane;
}

static void begin(int nr)
{
	words_set();
	CHECK_IS(tiny_init(&t, nr), 0);
}

/* Hides the address, since compilers warn of it. */
static NOINLINE void tell(char *at)
{
	__asm__ volatile("" : "+r"(at) : : "memory");
	target = at;
}

static void tells_local(void *arg)
{
	char local[64];

	memset(local, 1, sizeof local);
	tell(local + 35);
	tiny_yield();
	CHECK(target[0] != 0);
}

static void tells_and_ends(void *arg)
{
	char local[64];

	memset(local, 1, sizeof local);
	tell(local + 35);
}

static void tells_and_waits(void *arg)
{
	tells_and_ends(arg);
	tiny_wait();
}

static void say_target(void)
{
	fprintf(stderr, "target %#lx\n", (unsigned long)(uintptr_t)target);
}

static void writes(void *arg)
{
	say_target();
	*target = 2;
}

static void reads(void *arg)
{
	say_target();
	seen = *target;
}

static void nothing(void *arg)
{
}

static void yields(void *arg)
{
	tiny_yield();
	tiny_yield();
	tiny_yield();
}

/* Threads that begin in this order, each in its lane, and run. */
struct part {
	int    a_who;
	void (*a_f)(void *);
	int    a_lane;
};

static void play(int nr, const struct part *a, int parts)
{
	begin(nr);
	for (; parts-- > 0; a++)
		start(a->a_who, a->a_f, a->a_lane);
	tiny_run(&t);
}

#define PLAY(name, nr, ...)						\
	static void name(void)						\
	{								\
		const struct part parts[] = { __VA_ARGS__ };		\
									\
		play(nr, parts, COUNT(parts));				\
	}

static void writes_buffer(void *arg)
{
	struct ustack *a = &tt[A].tt_stack;

	CHECK(a->u_stack != NULL);
	((char *)a->u_stack)[a->u_len / 2] ^= 1;
}

/* A blocks, in a private lane; B writes; A goes on. */
PLAY(local_written, 2, { A, tells_local, 1 }, { B, writes, 2 })
PLAY(local_read, 2, { A, tells_local, 1 }, { B, reads, 2 })

/* The next thread in the lane finds the damage, though it is not A. */
static void waits_written(void)
{
	begin(2);
	start(A, tells_local, 1);
	start(B, writes, 2);
	t.t_head = NULL;
	tiny_wake(&tt[A]);
	t.t_stop = 2;
	tiny_run(&t);
	t.t_head = NULL;
	tiny_wake(&tt[B]);
	start(C, nothing, 1);
	tiny_run(&t);
}

/* C needs the lane of A, and so moves A, after B has written. */
PLAY(written_then_moved, 2, { A, tells_local, 1 }, { B, writes, 2 },
     { C, nothing, 1 })

PLAY(ended_written, 2, { A, tells_and_ends, 1 }, { B, writes, 2 },
     { C, nothing, 1 })

/*
 * Tells an address in the frame of a function that has returned, below a slice.
 */
static NOINLINE void deep(void)
{
	char local[400];

	memset(local, 1, sizeof local);
	tell(local + 67);
}

static void tells_dead(void *arg)
{
	deep();
	tiny_yield();
}

PLAY(dead_written, 2, { A, tells_dead, 1 }, { B, writes, 2 })

static void forgotten_written(void)
{
	begin(2);
	start(A, tells_and_waits, 1);
	tiny_run(&t);
	ustack_fini(&tt[A].tt_stack);
	start(B, writes, 2);
	start(C, nothing, 1);
	tiny_run(&t);
}

static void buffer_written(void)
{
	begin(lanes);
	start(A, yields, lanes != 0);
	start(B, writes_buffer, lanes != 0 ? 2 : 0);
	tiny_run(&t);
}

/* B has A moved; A comes back and stays; C finds A's buffer idle. */
static void idle_buffer_written(void)
{
	begin(2);
	start(A, yields, 1);
	start(B, nothing, 1);
	start(C, writes_buffer, 2);
	t.t_head = NULL;
	tiny_wake(&tt[A]);
	tiny_wake(&tt[B]);
	t.t_stop = 4;
	tiny_run(&t);
	CHECK_IS(t.t_live, 2);
	t.t_head = NULL;
	tiny_wake(&tt[C]);
	tiny_wake(&tt[A]);
	tiny_run(&t);
}

PLAY(dead_written_then_moved, 2, { A, tells_dead, 1 }, { B, writes, 2 },
     { C, nothing, 1 })

/* Tells an address so deep that the slices of other threads do not reach it. */
static NOINLINE void tell_deep(int yield)
{
	char local[DEEP];

	memset(local, 1, sizeof local);
	tell(local + 67);
	if (yield)
		tiny_yield();
	CHECK_IS(local[DEEP - 1], 1);
}

static void tells_deep(void *arg)
{
	tell_deep(1);
}

/* C and D are away, too, but are not involved. */
PLAY(one_of_three, 3, { C, tells_local, 2 }, { D, tells_deep, 1 },
     { A, tells_deep, 2 }, { B, writes, 3 })

static void blocks_and_tells_deep(void *arg)
{
	tiny_yield();
	tells_deep(arg);
}

/* A was that deep once, and has come up again. */
static void deepest_written(void)
{
	begin(2);
	start(A, blocks_and_tells_deep, 1);
	tiny_run(&t);
	start(B, writes, 2);
	start(C, nothing, 1);
	tiny_run(&t);
}

static void written_after(void)
{
	begin(2);
	start(A, tells_and_ends, 1);
	tiny_run(&t);
	writes(NULL);
}

/* The scheduler itself is the culprit. */
static struct ustack *next_reads(struct usched *s)
{
	if (target != NULL)
		seen = *target;
	return tiny_next(s);
}

static void read_in_next(void)
{
	begin(2);
	t.t_sched.s_next = next_reads;
	start(A, tells_local, 1);
	tiny_run(&t);
}

static void runs(void)
{
	begin(0);
	tiny_run(&t);
}

static const struct death {
	const char *d_words;
	void      (*d_f)(void);
	int         d_lanes;		/* lanes that the misuse needs */
	int         d_victim, d_culprit;	/* threads to be named, or -1 */
	const char *d_text[3];
} death[] = {
	{ "evict=always,poison", one_of_three, 3, A, B,
	  { "was written to", "in lane 2 while it was away" } },
	{ "evict=always,fault", one_of_three, 3, A, B,
	  { " wrote to", "in lane 2, on the stack of ", "is blocked" } },
	{ "evict=always,poison", local_written, 2, A, B,
	  { "was written to", "in lane 1 while it was away", "ran last" } },
	{ "evict=always,poison,check=never", local_written, 2, A, B,
	  { "which is blocked, was written to", "while it was away" } },
	{ "evict=always,poison", waits_written, 2, A, B,
	  { "was written to", "in lane 1 while it was away", "ran last" } },
	{ "fault,evict=always", local_written, 2, A, B,
	  { " wrote to ", "in lane 1, on the stack of", "is blocked" } },
	{ "fault,evict=always,poison", local_read, 2, A, B,
	  { "read from ", "in lane 1, on the stack of", "is blocked" } },
	{ "fault,evict=always", read_in_next, 2, A, -1,
	  { "read from ", "in lane 1, on the stack of", "a dispatcher" } },
	{ NULL, local_written, 2, A, B,
	  { "slice of", "in lane 1 has changed while", "ran last" } },
	{ "poison,fault", local_written, 2, A, B,
	  { "slice of", "in lane 1 has changed while", "ran last" } },
	{ "check", written_then_moved, 2, A, B,
	  { "slice of", "in lane 1 has changed while", "ran last" } },
	{ "poison", ended_written, 2, A, B,
	  { "where it is dead, was written", "in lane 1", "ran last" } },
	{ "fault", ended_written, 2, A, B,
	  { " wrote to ", "in lane 1", "where it is dead: it ran there" } },
	{ "poison", forgotten_written, 2, A, B,
	  { "where it is dead, was written", "in lane 1", "ran last" } },
	{ "fault", forgotten_written, 2, A, B,
	  { " wrote to ", "in lane 1", "where it is dead: it ran there" } },
	{ "poison", dead_written, 2, A, B,
	  { "where it is dead, was written", "in lane 1", "ran last" } },
	{ "poison", dead_written_then_moved, 2, A, B,
	  { "where it is dead, was written", "in lane 1", "ran last" } },
	{ "poison", deepest_written, 2, A, B,
	  { "where it is dead, was written", "in lane 1", "ran last" } },
	{ "fault", written_after, 2, A, -1,
	  { "a native thread", "in lane 1", "is dead: it ran there" } },
	{ "evict=always", buffer_written, 2, A, B,
	  { "slice of", "in lane 1 has changed in its buffer", "ran last" } },
	{ "evict=always,poison,fault", buffer_written, 2, A, B,
	  { "slice of", "in lane 1 has changed in its buffer", "ran last" } },
	{ "evict=never", buffer_written, 0, A, B,
	  { "slice of", "in lane 0 has changed in its buffer", "ran last" } },
	{ "poison", idle_buffer_written, 2, A, C,
	  { "the buffer of", "was written to", "ran last" } },
	{ "evict=alway", runs, 0, -1, -1, { "USCHED_DEBUG: \"evict=alway\" "
	  "is none of: evict=always, evict=never, evict=0-4294967295, poison, " } },
	{ "poison,evict=", runs, 0, -1, -1, { "USCHED_DEBUG: \"evict=\" is none of" } },
	{ "poison ,fault", runs, 0, -1, -1, { "USCHED_DEBUG: \"poison \" is none of" } },
	{ "yield=3x,fault", runs, 0, -1, -1, { "USCHED_DEBUG: \"yield=3x\" is none of" } },
	{ "yield,fault", runs, 0, -1, -1, { "USCHED_DEBUG: \"yield\" is none of" } },
	{ "evict=4294967296", runs, 0, -1, -1,
	  { "USCHED_DEBUG: \"evict=4294967296\" is none of" } },
	{ "evict=-1", runs, 0, -1, -1, { "USCHED_DEBUG: \"evict=-1\" is none of" } },
	{ "check=0", runs, 0, -1, -1, { "USCHED_DEBUG: \"check=0\" is none of" } },
};

static bool names(const char *text, int nr)
{
	char name[64];

	snprintf(name, sizeof name, "thread %#lx (function ",
		 (unsigned long)(uintptr_t)&tt[nr].tt_stack);
	return strstr(text, name) != NULL;
}

/*
 * Checks that the address in the message, if there is any, is the address used.
 */
static bool aims(const char *text)
{
	static const char *const verb[] = {
		"was written to at ", " wrote to ", " read from "
	};
	const char *said = strstr(text, "target 0x");
	const char *at;
	int i;

	for (i = 0; i < COUNT(verb) && said != NULL; i++) {
		at = strstr(text, verb[i]);
		if (at == NULL || at[strlen(verb[i])] != '0')
			continue;
		if (strtoul(at + strlen(verb[i]), NULL, 16) !=
		    strtoul(said + strlen("target "), NULL, 16))
			return false;
	}
	return true;
}

static bool says(const char *text, const struct death *d)
{
	int i;

	for (i = A; i <= D; i++) {
		if (names(text, i) != (i == d->d_victim || i == d->d_culprit))
			return false;
	}

	for (i = 0; i < COUNT(d->d_text); i++) {
		const char *want = d->d_text[i];

#if !defined(__x86_64__)	/* the message does not tell which */
		if (want != NULL && strcmp(want, "read from ") == 0)
			want = "read from or wrote to";
#endif
		if (want != NULL && strstr(text, want) == NULL)
			return false;
	}
	return aims(text);
}

/* A sanitizer may have reported the access first. */
static bool sanitized(const char *text)
{
	return strstr(text, "ERROR: AddressSanitizer: ") != NULL;
}

static void dies(const struct death *d)
{
	char text[4096];
	int status;

	if (d->d_lanes > 0 && !have_lanes)
		return;
	words = d->d_words;
	lanes = d->d_lanes;
	status = check_child(d->d_f, text, sizeof text);
	if (sanitized(text))
		return;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
	    strstr(text, "usched: ") != NULL && says(text, d))
		return;
	fprintf(stderr, "number %d, with \"%s\": status %#x and \"%s\"\n",
		(int)(d - death), words != NULL ? words : "", (unsigned)status,
		text);
	CHECK(0);
}

/* Culprits on their own native threads, while A blocks and runs. */

static bool race_writes;

static void tells_and_yields(void *arg)
{
	char local[64];

	memset(local, 1, sizeof local);
	__atomic_store_n(&target, local + 35, __ATOMIC_RELEASE);
	for (;;)
		tiny_yield();
}

static void yields_ever(void *arg)
{
	for (;;)
		tiny_yield();
}

static void *races(void *arg)
{
	char *at;

	while ((at = __atomic_load_n(&target, __ATOMIC_ACQUIRE)) == NULL)
		check_yield();
	for (;;) {
		if (race_writes)
			__atomic_fetch_add(at, 1, __ATOMIC_RELAXED);
		else
			seen = *(volatile char *)at;
	}
	return arg;
}

static void raced(void)
{
	pthread_t id;
	int i;

	begin(2);
	for (i = 0; i < 2; i++)
		CHECK_IS(pthread_create(&id, NULL, races, NULL), 0);
	start(A, tells_and_yields, 1);
	start(B, yields_ever, 2);
	tiny_run(&t);
}

/*
 * Unless stopped in the act, a read has no effect; a write is found by the
 * checksum.
 */
static bool says_raced(const char *text)
{
	const char *end = strchr(text, '\n');

	if (strncmp(text, "usched: ", 8) != 0 || end == NULL || end[1] != 0 ||
	    !names(text, A) || names(text, B))
		return false;
	if (race_writes && strstr(text, "usched: the slice of thread ") == text)
		return strstr(text, "while it was blocked; another native "
			      "thread, or the scheduler, has done it") != NULL;
	return strstr(text, "usched: a native thread, or a dispatcher,") ==
		text && strstr(text, "in lane 1, on the stack of thread ") !=
		NULL && strstr(text, "which is blocked\n") != NULL;
}

/* There is exactly one message, whatever happens to the lane at that moment. */
static void races_die(void)
{
	char text[4096];
	int i, status;

	words = "evict=always,fault";
	for (i = 0; i < RACES; i++) {
		race_writes = i % 2 != 0;
		status = check_child(raced, text, sizeof text);
		if (sanitized(text))
			continue;
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
		    says_raced(text))
			continue;
		fprintf(stderr, "race %d: status %#x and \"%s\"\n", i,
			(unsigned)status, text);
		CHECK(0);
	}
}

/* Programs that must live. */

static unsigned results[NR];
static int gave_way, refused;

/*
 * Blocks at each depth, with local variables, and pointers to them, on the way.
 */
static NOINLINE unsigned work(unsigned seed, int depth, unsigned *up,
			      bool plain)
{
	int i, nob = 8 + (int)(check_hash(seed, (unsigned)depth) % 300);
	unsigned char *array = (unsigned char *)alloca(nob);
	unsigned mine = check_hash(seed, (unsigned)depth + 100);
	unsigned total = 0;

	memset(array, (int)mine, nob);
	if (!plain) {
		tiny_yield();
		UHARD(yield());
	}
	if (depth > 0)
		total = work(seed, depth - 1, &mine, plain);
	if (up != NULL)
		*up += mine;
	for (i = 0; i < nob; i++)
		total = total * 31 + array[i];
	return total + mine;
}

static void worker(void *arg)
{
	int nr = (int)(intptr_t)arg;

	results[nr] = work(check_seed + (unsigned)nr, TRIPS, NULL, false);
}

/* Queues the thread as tiny_try_yield() does. */
static int gives_way(struct usched *s, struct ustack *u)
{
	CHECK(u == ustack_self() && u->u_sched == s);
	if (refused++ % 3 == 0)
		return 0;
	((struct tiny *)s)->t_yields = (struct tiny_thread *)u;
	gave_way++;
	return 1;
}

static int away, in_place;		/* sums over calls of s_next() */

/* A lane is shut exactly while no thread is there. */
static void see_lanes(struct usched *s)
{
	bool fault = strstr(words, "fault") != NULL;
	int i;

	for (i = 1; i <= s->s_lane_nr; i++) {
		struct usched_lane *l = &s->s_lane[i];

		CHECK_IS(l->l_hard.k_shut, fault && l->l_owner == NULL);
	}
}

static struct ustack *next_looks(struct usched *s)
{
	int i;

	for (i = 0; i < NR; i++) {
		uintptr_t top = (uintptr_t)tt[i].tt_stack.u_top;

		if (!(top & USLICE_NONE))
			(*(top & USLICE_AWAY ? &away : &in_place))++;
	}
	see_lanes(s);
	return tiny_next(s);
}

/* Threads have moved exactly as USCHED_DEBUG asked. */
static void see_moves(void)
{
	bool always = strstr(words, "evict=always") != NULL;
	bool never = strstr(words, "evict=never") != NULL;

	if (lanes == 0 || always)
		CHECK(away > 0 && in_place == 0);
	else if (lanes >= NR)
		CHECK(in_place > 0 && (never ? away == 0 : away > 0));
	else
		CHECK(away > 0 && in_place > 0);
	if (strstr(words, "yield=") != NULL)
		CHECK_THAT(gave_way, >, 10);
	else
		CHECK_IS(gave_way, 0);
}

static void lives(void)
{
	long before;
	int i, round;

	words_set();
	before = held;
	CHECK_IS(tiny_init(&t, lanes), 0);
	t.t_sched.s_next    = next_looks;
	t.t_sched.s_preempt = gives_way;
	for (round = 0; round < 2; round++) {
		for (i = 0; i < NR; i++)
			tiny_start(&t, &tt[i], worker, (void *)(intptr_t)i);
		tiny_run(&t);
		for (i = 0; i < NR; i++)
			CHECK_IS(results[i],
				 work(check_seed + (unsigned)i, TRIPS, NULL,
				 true));
		memset(results, 0, sizeof results);
	}
	see_moves();
	tiny_fini(&t);
	CHECK_IS(held, before);
}

static void child_lives(void (*f)(void), const char *w, int nr)
{
	char text[1024];
	int status;

	words = w;
	lanes = nr;
	status = check_child(f, text, sizeof text);
	if (status != 0)
		fprintf(stderr, "with \"%s\", %d lanes: status %#x, %s\n",
			words, lanes, (unsigned)status, text);
	CHECK_IS(status, 0);
}

/* Every combination of words. */
static void combinations(void)
{
	static const char *const evict[] = { "always", "never", "12345" };
	static const int lane_nr[] = { 0, 1, 3, NR };
	char w[128];
	int bits, i, j;

	for (bits = 0; bits < 16; bits++) {
		for (i = 0; i < COUNT(evict); i++) {
			snprintf(w, sizeof w, "evict=%s%s%s%s%s", evict[i],
				 bits & 1 ? ",poison" : "",
				 bits & 2 ? ",fault" : "",
				 bits & 4 ? ",check=never" : "",
				 bits & 8 ? ",yield=0x7" : "");
			for (j = 0; j < COUNT(lane_nr); j++) {
				if (lane_nr[j] == 0 || have_lanes)
					child_lives(lives, w, lane_nr[j]);
			}
		}
	}
}

/* There is no memory for the record of a thread: the block fails, once. */

static void blocks_twice(void *arg)
{
	struct ustack *u = ustack_self();
	volatile unsigned local = 77;
	void *buf = u->u_stack;
	int len = u->u_len;

	fail_in = 1;
	CHECK_IS(tiny_try_yield(), -ENOMEM);
	CHECK(fail_in == 0 && local == 77);
	CHECK(u->u_stack == buf && u->u_len == len);
	CHECK_IS(tiny_try_yield(), 0);
	CHECK_IS(tiny_try_yield(), 0);
	CHECK_IS(local, 77);
}

static void start_with_buffer(void (*f)(void *))
{
	const int len = 2048;

	tiny_start(&t, &tt[A], f, NULL);
	ustack_init(&tt[A].tt_stack, &t.t_sched, f, NULL,
		    tiny_alloc(&t.t_sched, len), len);
}

static void no_memory(void)
{
	long before;

	begin(lanes);
	before = held;
	start_with_buffer(blocks_twice);
	tiny_run(&t);
	tiny_fini(&t);
	CHECK_IS(held, before);
}

static int taken_back;

static int out_of_memory(struct usched *s, struct ustack *u)
{
	if (u == NULL) {
		((struct tiny *)s)->t_yields = NULL;
		taken_back++;
		return 0;
	}
	fail_in = 1;
	return gives_way(s, u);
}

static void points(void *arg)
{
	int i;

	for (i = 0; i < 1000; i++)
		UHARD(yield());
}

/* s_preempt() is undone if there is no memory for the block. */
static void preempt_fails(void)
{
	begin(0);
	t.t_sched.s_preempt = out_of_memory;
	start_with_buffer(points);
	tiny_run(&t);
	CHECK(taken_back > 0 && taken_back == gave_way);
	fail_in = 0;
	tiny_fini(&t);
}

/*
 * Dispatchers need no memory: each uses the record that the last has given
 * back.
 */
static void no_memory_to_run(void)
{
	int i;

	words_set();
	for (i = 0; i < MANY; i++) {
		CHECK_IS(tiny_init(&t, 0), 0);
		fail_in = 1;
		tiny_run(&t);
		CHECK_IS(fail_in, 1);
		fail_in = 0;
		tiny_fini(&t);
	}
}

/*
 * In lane 0, stack that a thread has left is poisoned, too, below the
 * dispatcher.
 */

static int looks;

static struct ustack *next_looks_deep(struct usched *s)
{
	/* A is away, or has ended. */
	if (target != NULL && ((uintptr_t)tt[A].tt_stack.u_top & USLICE_AWAY)) {
		CHECK_IS(*(volatile unsigned char *)target, 0xdb);
		looks++;
	}
	return tiny_next(s);
}

static void native_poisoned(void)
{
	begin(0);
	t.t_sched.s_next = next_looks_deep;
	start(A, tells_deep, 0);
	tiny_run(&t);
	CHECK_IS(looks, 2);
	tiny_fini(&t);
}

/*
 * With fault, a native thread has an alternate stack while it runs a
 * dispatcher.
 */

static void sees_alternate(void *arg)
{
	stack_t ss;

	CHECK(sigaltstack(NULL, &ss) == 0 && !(ss.ss_flags & SS_DISABLE));
}

static void alternate(void)
{
	stack_t none, ss;

	memset(&none, 0, sizeof none);
	none.ss_flags = SS_DISABLE;
	CHECK_IS(sigaltstack(&none, NULL), 0);	/* if a sanitizer set it */
	begin(0);
	start(A, sees_alternate, 0);
	tiny_run(&t);
	CHECK(sigaltstack(NULL, &ss) == 0 && (ss.ss_flags & SS_DISABLE));
	tiny_fini(&t);
}

/* UHARD(yield()) does nothing without s_preempt(), and outside of threads. */
static void idle_points(void)
{
	begin(0);
	UHARD(yield());
	start(A, points, 0);
	tiny_run(&t);
	UHARD(yield());
	tiny_fini(&t);
}

/* Threads are forgotten, and dispatchers never reach usched_fini(). */

static void wait_once(void *arg)
{
	tiny_wait();
}

static void forgets(void)
{
	struct tiny *many = (struct tiny *)calloc(MANY, sizeof *many);
	struct tiny_thread *all = (struct tiny_thread *)
		calloc(MANY, sizeof *all);
	int i, nr = lanes;
	long before;

	CHECK(many != NULL && all != NULL);
	words_set();
	before = held;			/* a static libc allocates, too */
	for (i = 0; i < MANY; i++) {
		CHECK_IS(tiny_init(&many[i], nr), 0);
		tiny_start(&many[i], &all[i], wait_once, NULL);
		tiny_run(&many[i]);
		CHECK_IS(many[i].t_live, 1);
	}
	for (i = 0; i < MANY; i++) {
		if (i % 3 == 0) {		/* this thread goes on */
			tiny_wake(&all[i]);
			tiny_run(&many[i]);
			CHECK_IS(many[i].t_live, 0);
		} else if (i % 3 == 1)
			ustack_fini(&all[i].tt_stack);
		if (i % 3 == 2 || nr > 0)
			usched_fini(&many[i].t_sched);
		tiny_drop(&all[i].tt_stack);
	}
	CHECK_IS(held, before);
}

/* Several native threads start dispatchers at once. */

static void *natively(void *arg)
{
	struct tiny *own = (struct tiny *)calloc(1, sizeof *own);
	struct tiny_thread *two = (struct tiny_thread *)calloc(2, sizeof *two);
	int i, j;

	CHECK(own != NULL && two != NULL);
	for (i = 0; i < 20; i++) {
		CHECK_IS(tiny_init(own, lanes), 0);
		for (j = 0; j < 2; j++)
			tiny_start(own, &two[j], yields, arg);
		tiny_run(own);
		tiny_fini(own);
	}
	(free)(two);
	(free)(own);
	return NULL;
}

static void natives(void)
{
	pthread_t id[NATIVE];
	int i;

	words_set();
	for (i = 0; i < NATIVE; i++)
		CHECK_IS(pthread_create(&id[i], NULL, natively, NULL), 0);
	for (i = 0; i < NATIVE; i++)
		CHECK_IS(pthread_join(id[i], NULL), 0);
}

/* Faults with other causes. */

static int *volatile wild = (int *)16;

static void writes_wild(void *arg)
{
	*wild = 1;
}

/* Writes in its private lane, which is open: to repeat the access does not help. */
static void writes_closed(void *arg)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t at = ((uintptr_t)&arg - 8 * page) & -(uintptr_t)page;

	CHECK_IS(mprotect((void *)at, page, PROT_NONE), 0);
	*(volatile char *)at = 1;
}

static void sends_itself(void *arg)
{
	raise(SIGSEGV);
	CHECK(!"here");
}

static void mine(int signo)
{
	_exit(3);
}

static void mine_info(int signo, siginfo_t *info, void *context)
{
	_exit(info->si_addr == (void *)16 ? 4 : 5);
}

static void (*fault_in)(void *);
static int handler;

static void faults(void)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof sa);
	if (handler == 2) {
		sa.sa_sigaction = mine_info;
		sa.sa_flags = SA_SIGINFO;
	} else
		sa.sa_handler = handler == 1 ? mine : SIG_DFL;
	CHECK_IS(sigaction(SIGSEGV, &sa, NULL), 0);
	begin(lanes);
	start(A, fault_in, 0);
	tiny_run(&t);
}

static void other_faults(void (*f)(void *), int how, int wanted)
{
	char text[1024];
	int status;

	words    = "evict=always,fault";
	fault_in = f;
	handler  = how;
	status   = check_child(faults, text, sizeof text);
	if (WIFSIGNALED(status))
		CHECK(WTERMSIG(status) == SIGSEGV && wanted == 0);
	else
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == wanted);
	CHECK_IS(strstr(text, "usched: "), NULL);
}

/* Runs in a child: as long as this process has read no words, children can. */
static void probe(void)
{
	words_set();
	_exit(tiny_init(&t, 1) == 0 ? 1 : 0);
}

int main(int argc, char **argv)
{
	static const char *const some[] = {
		"", ",", "evict=always,poison,fault", "evict=3,poison",
		"evict=never,,fault,"
	};
	char text[256];
	int i;

	check_start(argc, argv);
	have_lanes = check_child(probe, text, sizeof text) != 0;
	for (i = 0; i < COUNT(death); i++)
		dies(&death[i]);
	combinations();
	for (i = 0; i < COUNT(some); i++) {
		child_lives(forgets, some[i], 0);
		child_lives(no_memory, some[i], 0);
		child_lives(natives, some[i], 0);
		if (!have_lanes)
			continue;
		child_lives(forgets, some[i], 2);
		child_lives(no_memory, some[i], 2);
		child_lives(natives, some[i], 2);
	}
	child_lives(idle_points, "yield=1", 0);
	child_lives(preempt_fails, "yield=1", 0);
	child_lives(no_memory_to_run, "", 0);
	child_lives(native_poisoned, "poison", 0);
	child_lives(alternate, "fault", 0);
	if (have_lanes) {
		races_die();
		lanes = 1;
		other_faults(writes_closed, 0, 0);
		child_lives(local_written, "check=never", 0);
	}
	for (lanes = 0; lanes <= have_lanes; lanes++) {
		other_faults(writes_wild, 0, 0);
		other_faults(writes_wild, 1, 3);
		other_faults(writes_wild, 2, 4);
		other_faults(sends_itself, 0, 0);
		other_faults(sends_itself, 1, 3);
	}
	return 0;
}

#endif
