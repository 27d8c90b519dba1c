/* SPDX-License-Identifier: MIT */
/* chaos.c: runs programs, one after another, and watches them. */

/*
 *	chaos run SECONDS SEED		programs SEED, SEED + 1, ...
 *	chaos replay SECONDS SEED	the same program, again and again
 *
 * In the environment: CHAOS_OFF, the THINGS (chaos.h) that programs must not
 * do; CHAOS_AT, a file for the seed of the program that runs; CHAOS_PATIENCE,
 * how many seconds without progress are a failure; CHAOS_VERBOSE.
 */

#include "chaos.h"
#include "upreempt.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>

#define PATIENCE	30		/* s */
#define LINES		30		/* actors that a failure lists */
#define TICK		200000		/* ns, of preemption */
#define HOT		6		/* windows */
#define WINDOWS		64

/* A failure prints data that other native threads may be changing. */
#if defined(__SANITIZE_THREAD__)
#define UNWATCHED	__attribute__((no_sanitize_thread))
#else
#define UNWATCHED
#endif

static const char *stage = "draw";	/* of the program (atomic) */

/* Failures. */

static UNWATCHED void print_actor(int nr, struct actor *a)
{
	static const char *const kind[] = {
		"lives", "pure", "native", "bare", "handler"
	};

	fprintf(stderr, "  actor %d (%s %s%s): %s; to send %d, to make %d, "
		"waited %ld of %ld, sent %ld\n", nr, kind[a->a_kind],
		a->a_set == OUTSIDE ? "outside" : sched[a->a_set].c_name,
		a->a_pinned >= 0 ? " pinned" : "",
		__atomic_load_n(&a->a_doing, __ATOMIC_RELAXED), a->a_nr,
		a->a_children, a->a_done, a->a_due,
		__atomic_load_n(&a->a_sent, __ATOMIC_RELAXED));
}

static UNWATCHED void print_child(int nr, const struct child *b)
{
	fprintf(stderr, "  child %d (%s%s): waits %ld, wakes %ld, given %ld, "
		"done %ld\n", nr, sched[b->b_set].c_name,
		b->b_join ? " joined" : "", b->b_waits, b->b_wakes,
		b->b_given, b->b_done);
}

static UNWATCHED void print_all(void)
{
	int i, lines = 0;

	for (i = 0; i < program.p_actors; i++)
		if (actor[i].a_ended == 0 && lines++ < LINES)
			print_actor(i, &actor[i]);
	for (i = 0; i < program.p_children; i++)
		if (child[i].b_made != 0 && child[i].b_seen == 0 &&
		    lines++ < LINES)
			print_child(i, &child[i]);
	if (lines > LINES)
		fprintf(stderr, "  and %d more\n", lines - LINES);
}

void chaos_fail(const char *file, int line, const char *what)
{
	static int failed;

	if (__atomic_exchange_n(&failed, 1, __ATOMIC_SEQ_CST) == 0) {
		fprintf(stderr, "%s:%d: CHECK(%s) failed in program %u (%s)\n",
			file, line, what, program.p_seed,
			__atomic_load_n(&stage, __ATOMIC_RELAXED));
		print_all();
		_exit(1);
	}
	for (;;)
		pause();
}

static void at_stage(const char *what)
{
	__atomic_store_n(&stage, what, __ATOMIC_RELAXED);
}

static long number(const char *name, long usual)
{
	const char *env = getenv(name);

	return env != NULL && *env != 0 ? atol(env) : usual;
}

/* Fails if nothing happens for too long. Threads that yield are no progress. */
static void *watchdog(void *arg)
{
	long patience = number("CHAOS_PATIENCE", PATIENCE) * 10;
	long last = -1, idle = 0, now;

	for (;; usleep(100000)) {
		now = __atomic_load_n(&progress, __ATOMIC_RELAXED);
		idle = now == last ? idle + 1 : 0;
		last = now;
		if (idle > patience)
			chaos_fail(__FILE__, __LINE__, "there is progress");
	}
	return NULL;
}

/* Delays. */

static int hot[WINDOWS];	/* 1 pass in so many; 0: none (atomic) */

static void chaos_sleep(unsigned *state)
{
	struct timespec nap = { 0, 1000 };

	if (any(state, 4) == 0)
		nap.tv_nsec = 1000 * (long)any(state, 400);
	nanosleep(&nap, NULL);
}

void chaos_window(unsigned nr)
{
	static __thread unsigned state;
	int many = __atomic_load_n(&hot[nr % WINDOWS], __ATOMIC_RELAXED);
	int saved = errno;
	volatile unsigned spin;
	unsigned r;

	if (state == 0)
		state = check_hash(1, (unsigned)(uintptr_t)&state) | 1;
	r = any(&state, 4096);
	if (many != 0 && r % (unsigned)many == 0)
		chaos_sleep(&state);
	else if (r < 16)
		check_yield();
	else if (r < 512)
		for (spin = r / 4; spin > 0; spin--)
			;
	errno = saved;
}

static void make_hot(void)
{
	int i, nr = any(&program.p_random, 2) ?
		1 + (int)any(&program.p_random, HOT) : 0;

	for (i = 0; i < WINDOWS; i++)
		__atomic_store_n(&hot[i], 0, __ATOMIC_RELAXED);
	while (program.p_may[T_hot] && nr-- > 0)
		__atomic_store_n(&hot[any(&program.p_random, WINDOWS)],
				 1 << (2 + any(&program.p_random, 5)),
				 __ATOMIC_RELAXED);
}

/*
 * Calls that fail: only the library's, since no other file makes these calls.
 */

static size_t most = SIZE_MAX;		/* bytes, limit of mmap() (atomic) */
static int    least;			/* bytes that s_alloc() may refuse */

static bool fails(int thing)
{
	static __thread unsigned state;
	long one_in = program.p_may[thing] ? get(&failing) : 0;

	if (state == 0)
		state = check_hash(2, (unsigned)(uintptr_t)&state) | 1;
	return one_in != 0 && any(&state, (unsigned)one_in) == 0;
}

WRAP(void *, mmap, void *at, size_t nob, int prot, int flags, int fd, off_t off)
{
	if (!fails(T_fail) && nob <= __atomic_load_n(&most, __ATOMIC_RELAXED))
		return __real_mmap(at, nob, prot, flags, fd, off);
	errno = ENOMEM;
	return MAP_FAILED;
}

WRAP(int, posix_memalign, void **out, size_t align, size_t size)
{
	return fails(T_fail) ? ENOMEM : __real_posix_memalign(out, align, size);
}

/* In place of the s_alloc() of each processor. */

static void *(*slice_alloc)(struct usched *s, int nob);

static void *may_alloc(struct usched *s, int nob)
{
	return nob >= least && fails(T_slice) ? NULL : slice_alloc(s, nob);
}

static void refuse_slices(struct usched *s)
{
	slice_alloc = s->s_alloc;
	s->s_alloc  = may_alloc;
}

static void set_most(size_t nob)
{
	__atomic_store_n(&most, nob, __ATOMIC_RELAXED);
}

/* A program. */

static void init_set(int s)
{
	const struct sched *c = &sched[s];
	int p;

	CHECK(c->c_init(program.p_procs[s], 0) == 0);
	for (p = 0; program.p_may[T_slice] && p < program.p_procs[s]; p++)
		refuse_slices(c->c_sched(p));
	if (program.p_may[T_wrap])
		c->c_wrap(program.p_procs[s], any(&program.p_random, 100));
#if defined(USCHED_PREEMPT)
	if (program.p_may[T_preempt])
		CHECK(c->c_preempt() == 0);
#endif
}

/*
 * Each set is held once for each actor outside that owes it something; for the
 * handler, which needs processors to interrupt; and for native threads that
 * share things.
 */
static void make_actor(struct actor *a)
{
	const struct sched *c = &sched[a->a_set];
	void (*f)(void *) = a->a_kind == LIVES ? life_main : pure_main;
	int s;

	for (s = 0; s < SETS; s++)
		if (a->a_owes[s] > 0 ||
		    (a->a_kind == HANDLER && program.p_has[s]))
			sched[s].c_hold();
	for (s = 0; s < SETS; s++)
		if (a->a_kind == NATIVE && shares() && program.p_has[s])
			sched[s].c_hold();
	if (a->a_kind != HANDLER)
		add(&alive, 1);
	if (a->a_set == OUTSIDE)
		return;
	if (a->a_stays && a->a_set == WS)
		a->a_pinned = a->a_proc % program.p_procs[WS];
	a->a_thread = a->a_stays ? c->c_stays(a->a_proc, f, a) :
		c->c_on(a->a_proc, f, a);
	CHECK(a->a_thread != NULL);
}

static void fini_set(int s)
{
	int rc = sched[s].c_fini();

	if (rc != 0)
		fprintf(stderr, "%s_fini(): %d, stuck: %ld\n", sched[s].c_name,
			rc, sched[s].c_stuck());
	CHECK(rc == 0 && sched[s].c_stuck() == 0);
}

/* Calls f for each set, in any order. */
static void each_set(void (*f)(int s))
{
	int first = (int)any(&program.p_random, SETS);
	int down = (int)any(&program.p_random, 2);
	int i, s;

	for (i = 0; i < SETS; i++) {
		s = (first + (down ? SETS - i : i)) % SETS;
		if (program.p_has[s])
			f(s);
	}
}

static void start_set(int s)
{
	if (program.p_may[T_lanes])
		/* At least the size of the smallest chunk of umem.c. */
		set_most((size_t)(4 << 20) << any(&program.p_random, 4));
	CHECK(sched[s].c_start() == 0);
	set_most(SIZE_MAX);
}

static void check_all(void)
{
	int i;

	for (i = 0; i < program.p_actors; i++) {
		struct actor *a = &actor[i];

		CHECK(a->a_ended == 1 && a->a_runs == 0);
		CHECK(a->a_done == a->a_due && a->a_sent == a->a_due);
		CHECK(a->a_children == 0);
		CHECK(a->a_kind == HANDLER || a->a_nr == 0);
	}
	CHECK(children_ended == program.p_children + hostages);
	CHECK(alive == 0 && !errands_left());
}

static void prepare(void)
{
	int i;

	alive = children_ended = hostages = registered = 0;
	/* From 256 on only slices, and wheels: no records. */
	least = program.p_seed % 2 ? 256 : 0;
	make_hot();
	share_init();
	handler_set();
	at_stage("init");
	each_set(init_set);
	for (i = 0; i < program.p_actors; i++)
		make_actor(&actor[i]);
	register_all();
}

static void run(unsigned seed)
{
	bool early;

	at_stage("draw");
	draw(seed);
	early = any(&program.p_random, 2);
	prepare();
	at_stage("start");
	if (early)
		natives_start();
	each_set(start_set);
	if (!early)
		natives_start();
	__atomic_store_n(&failing, program.p_may[T_fail] ||
			 program.p_may[T_slice] ? 2 : 0, __ATOMIC_SEQ_CST);
	at_stage("fini");
	each_set(fini_set);
	at_stage("join");
	natives_join();
	share_fini();
	__atomic_store_n(&failing, 0, __ATOMIC_SEQ_CST);
	check_all();
	add(&progress, 1);
}

/* Notes the seed, in case that the process dies. */
static void say_seed(unsigned seed)
{
	static int fd = -1;
	const char *path = getenv("CHAOS_AT");
	char text[32];
	int nob = snprintf(text, sizeof text, "%u\n", seed);

	if (fd < 0 && path != NULL)
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd >= 0)
		CHECK(pwrite(fd, text, (size_t)nob, 0) == nob &&
		      ftruncate(fd, nob) == 0);
	if (getenv("CHAOS_VERBOSE") != NULL)
		fprintf(stderr, "program %u\n", seed);
}

static time_t now(void)
{
	struct timespec t;

	CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
	return t.tv_sec;
}

static void start_watchdog(void)
{
	pthread_t id;

	CHECK(pthread_create(&id, NULL, watchdog, NULL) == 0);
}

int main(int argc, char **argv)
{
	time_t until;
	unsigned seed;
	long nr = 0;

	if (argc != 4) {
		fprintf(stderr, "usage: chaos run|replay SECONDS SEED\n");
		return 2;
	}
	until = now() + atol(argv[2]);
	seed  = (unsigned)strtoul(argv[3], NULL, 10);
	start_watchdog();
#if defined(USCHED_PREEMPT)
	CHECK(upreempt_start(TICK) == 0);
#endif
	do {
		say_seed(seed);
		run(seed);
		seed += strcmp(argv[1], "run") == 0;
		nr++;
	} while (now() < until);
	printf("%ld programs\n", nr);
	return 0;
}
