/* SPDX-License-Identifier: MIT */
/* ring.h: the ring ping-pong benchmark, for the scheduler of the includer. */

/*
 * bench.h says what is measured, and what the program is asked.
 *
 * Wakes are counted, so a thread need not block for each message: rounds
 * overlap, and in a ring of N a thread blocks about once in N messages. Threads
 * are dealt to the P processors in equal parts, and stay there; a ring is on
 * one processor. The time of rings begins when the first thread runs. The time
 * of empty threads includes the start of the native threads.
 *
 * Blocks are counted from outside: a call-back in front of the scheduler's
 * counts the threads that it chooses. Each run of a thread, except its first,
 * follows a block.
 *
 * With SHARE_FP, threads share floating-point control words.
 *
 * The includer defines SCHED(name), which gives the names of its scheduler, and
 * MAKE(f, arg, p), which makes a thread on processor p. If threads move, it
 * defines MOVES: then several processors may add to a score at the same time.
 */

#include "bench.h"
#include <stdbool.h>

typedef struct SCHED(thread) ring_thread;

/* Stack for a thread, beside D. */
#define STACK_MORE	(256 << 10)

static struct bench bench;

static int N;			/* threads in a ring, bench.b_n */
static int D;

static ring_thread **threads;	/* ring 0, ring 1, ... */

/*
 * Counts of the threads that began on one processor, written by these threads.
 */
static struct score {
	long   c_first;		/* the number of its first thread */
	long   c_nr;		/* its threads */
	long   c_ended;
	long   c_received;
	long   c_waiting;
	double c_begin;
	double c_end;
} __attribute__((aligned(64))) *scores;

/*
 * Returns the score of a thread. Neighbours in memory have the same processor.
 */
static struct score *score_of(long nr)
{
	return &scores[nr / N * bench.b_p / bench.b_r];
}

#if defined(MOVES)
#define ADD(at, nr)	__atomic_add_fetch(at, nr, __ATOMIC_RELAXED)
#else
#define ADD(at, nr)	(*(at) += (nr))
#endif

static void began(struct score *score)
{
	if (score->c_begin == 0)
		score->c_begin = bench_now();
}

static void ended(struct score *score)
{
	if (ADD(&score->c_ended, 1) == score->c_nr)
		score->c_end = bench_now();
}

/*
 * The loop has one wait, so a resumed thread does not branch on where it
 * stopped. Each of the two callers below has its own copy, with its own frame.
 */
static inline __attribute__((always_inline)) void member_run(ring_thread **me)
{
	int  turn = (me - threads) % N;
	long left;
	struct score *score;
	ring_thread *right = turn == N - 1 ? me[1 - N] : me[1];

	began(score_of(me - threads));
	for (left = bench.b_m; left > 0; left--, turn--) {
		bool starts = turn == 0;

		if (starts) {
			SCHED(wake)(right);
			turn = N;
		}
		if (SCHED(wait)() != 0)
			break;
		if (!starts)
			SCHED(wake)(right);
	}
	score = score_of(me - threads);
	ADD(&score->c_received, bench.b_m - left);
	ended(score);
}

/*
 * Begins at a cache line: where the lines end in the loop is worth a tenth at
 * N = 8, and must not depend on what the linker puts before it.
 */
#define AT_LINE	__attribute__((aligned(64)))

static AT_LINE void member(void *arg)
{
	member_run(arg);
}

/* Calls f(arg) with D more bytes on the stack, which must keep their value. */
#define WITH_SPACE(f, arg) do {						\
	volatile char space[D];						\
									\
	memset((char *)space, 'D', D);					\
	f(arg);								\
	if (space[0] != 'D' || space[D - 1] != 'D')			\
		usched_fail("ring: the stack of a thread was changed");	\
} while (0)

/*
 * A function below the D bytes. In the function that has them, the locals of the
 * loop would lie above: each thread would use two places D bytes apart.
 */
static AT_LINE __attribute__((noinline)) void member_below(void *arg)
{
	member_run(arg);
	__asm__ volatile("");		/* no jump to it instead of a call */
}

static void member_deep(void *arg)
{
	WITH_SPACE(member_below, arg);
}

static void empty(void *arg)
{
	ended(arg);
}

/* Makes the empty threads of its processor. */
static void maker(void *arg)
{
	struct score *score = arg;
	long i;

	for (i = 0; i < score->c_nr; i++)
		if (MAKE(empty, score, score - scores) == NULL)
			bench_die(&bench, "making the threads", ENOMEM);
}

static void sleeper(void *arg)
{
	struct score *score = score_of((ring_thread **)arg - threads);

	ADD(&score->c_waiting, 1);
	if (SCHED(wait)() != 0)
		bench_die(&bench, "blocking", ENOMEM);
	ended(score);
}

static void sleeper_deep(void *arg)
{
	WITH_SPACE(sleeper, arg);
}

/*
 * While a waker runs, the sleepers of its processor that are counted have
 * blocked. When this is so on all processors, it wakes its own sleepers.
 */
static void waker(void *arg)
{
	static int asleep;
	struct score *score = arg;
	int counted = 0;
	long i;

	while (__atomic_load_n(&asleep, __ATOMIC_RELAXED) < bench.b_p) {
		if (!counted && score->c_waiting == score->c_nr)
			counted = __atomic_add_fetch(&asleep, 1,
						     __ATOMIC_RELAXED);
		if (SCHED(yield)() != 0)
			bench_die(&bench, "blocking", ENOMEM);
	}
	for (i = 0; i < score->c_nr; i++)
		SCHED(wake)(threads[score->c_first + i]);
}

static struct ustack *(*next_real)(struct usched *);
static long runs;

static struct ustack *next_counted(struct usched *s)
{
	struct ustack *u = next_real(s);

	if (u != NULL)
		__atomic_add_fetch(&runs, 1, __ATOMIC_RELAXED);
	return u;
}

static void count(ring_thread *t)
{
	struct usched *s = ((struct ustack *)t)->u_sched;

	if (s->s_next != next_counted)
		next_real = s->s_next;
	s->s_next = next_counted;
}

/* Makes the threads of rings, or the sleepers. Returns 0 or -errno. */
static int make_all(void (*f)(void *))
{
	long nr;

	threads = malloc(bench_threads(&bench) * sizeof threads[0]);
	if (threads == NULL)
		return -ENOMEM;
	for (nr = 0; nr < bench_threads(&bench); nr++) {
		threads[nr] = MAKE(f, &threads[nr], score_of(nr) - scores);
		if (threads[nr] == NULL)
			return -errno;
		if (bench.b_what == BENCH_BLOCKS)
			count(threads[nr]);
	}
	return 0;
}

/* Makes one thread on each processor. */
static int make_each(void (*f)(void *))
{
	int p;

	for (p = 0; p < bench.b_p; p++)
		if (MAKE(f, &scores[p], p) == NULL)
			return -errno;
	return 0;
}

static int make(void)
{
	int rc;

	switch (bench.b_what) {
	case BENCH_EMPTY:
		return make_each(maker);
	case BENCH_BLOCKED:
		rc = make_all(D == 0 ? sleeper : sleeper_deep);
		return rc != 0 ? rc : make_each(waker);
	default:
		return make_all(D == 0 ? member : member_deep);
	}
}

/*
 * Returns the first ring of processor p, or of a later processor: see
 * score_of().
 */
static long first_ring(long p)
{
	return (p * bench.b_r + bench.b_p - 1) / bench.b_p;
}

/* Deals the threads to the processors. */
static int score_init(void)
{
	int p;

	if (posix_memalign((void **)&scores, 64,
			   bench.b_p * sizeof scores[0]) != 0)
		return -ENOMEM;
	memset(scores, 0, bench.b_p * sizeof scores[0]);
	for (p = 0; p < bench.b_p; p++) {
		scores[p].c_first = first_ring(p) * N;
		scores[p].c_nr    = first_ring(p + 1) * N - scores[p].c_first;
	}
	return 0;
}

static void sum_up(struct bench_end *end)
{
	int p;

	for (p = 0; p < bench.b_p; p++) {
		end->e_received += scores[p].c_received;
		end->e_ended    += scores[p].c_ended;
		if (scores[p].c_end > end->e_end)
			end->e_end = scores[p].c_end;
		if (scores[p].c_begin > 0 && (end->e_start == 0 ||
					      scores[p].c_begin < end->e_start))
			end->e_start = scores[p].c_begin;
	}
	end->e_blocks = runs - end->e_ended;
}

static int run(void)
{
	struct bench_end end = { .e_resident = bench_resident(0) };
	int rc;

	rc = SCHED(init)(bench.b_p, bench_threads(&bench));
	if (rc == 0)
		rc = SCHED(pinning)(1);		/* also if P is 1 */
	if (rc == 0 && D > 0)
		rc = SCHED(stack_size)((size_t)D + STACK_MORE);
	if (rc != 0)
		return bench_failed(&bench, "init", -rc);
	rc = score_init();
	if (rc != 0)
		return bench_failed(&bench, "memory for the scores", -rc);
	if (bench.b_what == BENCH_EMPTY)
		end.e_start = bench_now();
	rc = make();
	if (rc != 0)
		return bench_failed(&bench, "making the threads", -rc);
	rc = SCHED(start)();
	if (rc != 0)
		return bench_failed(&bench, "start", -rc);
	rc = SCHED(fini)();
	sum_up(&end);
	if (rc != 0)
		fprintf(stderr, "%ld threads wait for ever\n", SCHED(stuck)());
	return bench_report(&bench, &end) == 0 && rc == 0 ? 0 : BENCH_FAILED;
}

int main(int argc, char **argv)
{
	int rc = bench_args(&bench, argc, argv);

	if (rc != 0)
		return rc;
	if (bench.b_d > INT_MAX - STACK_MORE)
		return bench_usage(argv[0], "D is too large");
	N = bench.b_n;
	D = bench.b_d;
#if defined(SHARE_FP)
	usched_share_fp(1);
#endif
	return run();
}
