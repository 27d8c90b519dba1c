/* SPDX-License-Identifier: MIT */
/* VARIANTS: once */
/* LIBS: -lm */
/*
 * preempt: a thread that computes forever does not keep other threads from
 * running. Threads are preempted only in the program's own code (upreempt V1),
 * never in libc, in the library or in functions that these call back, nor where
 * they forbid it (upreempt V3). Nothing of a thread is lost: registers, control
 * words, errno, memory (upreempt V2). PREEMPT_SECONDS in the environment says
 * how long some threads live in libc; with 0, only the most important parts
 * run.
 */
#define USCHED_PREEMPT	1
#include "tiny.h"
#include "counts.h"
#include "ll.h"
#include "rr.h"
#include "upreempt.h"
#include "uscope.h"
#include "uthread.h"
#include "ws.h"

#include <fenv.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <time.h>

#define TICK	1000000L	/* ns: 1 kHz */
#define NR	6		/* threads of a kind */
#define MANY	20		/* how often each thing must happen */

/* The schedulers. BARE has a number of lanes, the others have processors. */

enum { BARE, RR, LL, WS };

static const struct kind {
	const char *k_name;
	int         k_sched;
	int         k_nr;
} kinds[] = {
	{ "native stack", BARE, 0 }, { "one lane", BARE, 1 },
	{ "lanes", BARE, 9 }, { "rr 1", RR, 1 }, { "rr 2", RR, 2 },
	{ "ll 1", LL, 1 }, { "ll 2", LL, 2 },
	{ "ws 1", WS, 1 }, { "ws 2", WS, 2 }
};

/* A scheduler's functions. A thread is a void *. */
static const struct sched {
	int   (*d_init)(int procs, int threads);
	int   (*d_preempt)(void);
	int   (*d_start)(void);
	int   (*d_fini)(void);
	int   (*d_yield)(void);
	int   (*d_wait)(void);
} scheds[] = {
	[RR] = { rr_init, rr_preempt, rr_start, rr_fini, rr_yield, rr_wait },
	[LL] = { ll_init, ll_preempt, ll_start, ll_fini, ll_yield, ll_wait },
	[WS] = { ws_init, ws_preempt, ws_start, ws_fini, ws_yield, ws_wait }
};

static const struct kind *kind;
static struct tiny tiny;
static struct tiny_thread threads[64];
static int thread_nr;

static int tiny_preempt(struct usched *s, struct ustack *u)
{
	struct tiny *t = (struct tiny *)s;

	if (u == NULL) {
		CHECK_IS(t->t_yields, tiny_self());
		t->t_yields = NULL;
		return 0;
	}
	CHECK(u == ustack_self() && t->t_yields == NULL);
	if (t->t_head == NULL)
		return 0;
	t->t_yields = (struct tiny_thread *)u;
	return 1;
}

/* The functions of tiny.h are inlined in this file: see upreempt.h. */
static int try_give_way(void)
{
	struct tiny *t = (struct tiny *)ustack_self()->u_sched;
	int rc;

	upreempt_forbid();
	t->t_yields = tiny_self();
	rc = upreempt_block();
	if (rc != 0)
		t->t_yields = NULL;
	upreempt_allow();
	return rc;
}

static void give_way(void)
{
	int rc = kind->k_sched != BARE ? scheds[kind->k_sched].d_yield() :
		try_give_way();

	CHECK_IS(rc, 0);
}

/* False: this build has no lanes. */
static int open_kind(const struct kind *k)
{
	kind = k;
	thread_nr = 0;
	doing("on %s", k->k_name);
	if (k->k_sched != BARE) {
		CHECK_IS(scheds[k->k_sched].d_init(k->k_nr, 0), 0);
		CHECK_IS(scheds[k->k_sched].d_preempt(), 0);
	} else if (tiny_init(&tiny, k->k_nr) != 0)
		return 0;
	tiny.t_sched.s_preempt = tiny_preempt;
	return 1;
}

static void *make(int p, void (*f)(void *), void *arg)
{
	void *t = kind->k_sched == RR ? (void *)rr_thread_on(p, f, arg) :
		kind->k_sched == LL ? (void *)ll_thread_init(f, arg, p) :
		(void *)ws_thread_on(p, f, arg);

	CHECK(t != NULL);
	return t;
}

static void wake(void *t)
{
	if (kind->k_sched == RR)
		rr_wake(t);
	else if (kind->k_sched == LL)
		ll_wake(t);
	else
		ws_wake(t);
}

static void wait_one(void)
{
	CHECK_IS(scheds[kind->k_sched].d_wait(), 0);
}

/* Starts a thread, on processor p if there are processors. */
static void spawn(int p, void (*f)(void *), void *arg)
{
	if (kind->k_sched != BARE)
		make(p, f, arg);
	else
		tiny_start(&tiny, &threads[thread_nr++], f, arg);
}

static void close_kind(void)
{
	if (kind->k_sched != BARE) {
		CHECK_IS(scheds[kind->k_sched].d_start(), 0);
		CHECK_IS(scheds[kind->k_sched].d_fini(), 0);
	} else {
		tiny_run(&tiny);
		tiny_fini(&tiny);
	}
}

static void on_all(void (*f)(void))
{
	int i;

	for (i = 0; i < COUNT(kinds); i++) {
		if (open_kind(&kinds[i])) {
			f();
			close_kind();
		}
	}
}

static int procs(void)
{
	return kind->k_sched == BARE ? 1 : kind->k_nr;
}

static struct upreempt_stats stats(void)
{
	struct upreempt_stats s;

	upreempt_stats(&s);
	return s;
}

static long preempted(void)
{
	return stats().pe_preempted;
}

/* In this file, and calls no function. */
static NOINLINE unsigned compute(int steps)
{
	volatile unsigned sum = 1;
	int i;

	for (i = 0; i < steps; i++)
		sum = sum * 1664525u + 1013904223u;
	return sum;
}

/* A thread that computes forever. */

static long stop, rounds, working;

static void for_ever(void *arg)
{
	while (!get(&stop))
		;
}

static void answers(void *arg)
{
	int i;

	for (i = 0; i < MANY; i++) {
		add(&rounds, 1);
		give_way();
	}
	if (add(&working, -1) == 0)
		set(&stop, 1);
}

static void answer(void)
{
	int p, i;

	set(&stop, 0);
	set(&rounds, 0);
	set(&working, procs() * NR);
	for (p = 0; p < procs(); p++) {
		spawn(p, for_ever, NULL);
		for (i = 0; i < NR; i++)
			spawn(p, answers, NULL);
		spawn(p, for_ever, NULL);
	}
}

/* Threads that are shells: made so, or by a scope that they have begun. */

static int computes_in_scope(void *arg)
{
	for_ever(arg);
	return 0;
}

static void *computes_with_result(void *arg)
{
	for_ever(arg);
	return arg;
}

static void begins_scope(void *arg)
{
	struct uthread *t;
	struct uscope *s;

	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	CHECK_IS(uscope_go(s, computes_in_scope, arg), 0);
	CHECK_IS(uthread_make(&t, computes_with_result, arg, NULL), 0);
	for_ever(arg);
	CHECK(uthread_join(t, NULL, UNEVER) == 0 && uscope_end(&s) == 0);
}

static void shells(void)
{
	int p, i;

	if (kind->k_sched == BARE)
		return;
	set(&stop, 0);
	set(&working, procs() * NR);
	for (p = 0; p < procs(); p++) {
		spawn(p, begins_scope, NULL);
		for (i = 0; i < NR; i++)
			spawn(p, answers, NULL);
	}
}

/* Ping-pong beside it, also from one processor to another. */

static void *peer[2 * NR];

static void ping(void *arg)
{
	long self = (long)(intptr_t)arg;
	int i;

	for (i = 0; i < MANY; i++) {
		wake(peer[self ^ 1]);
		wait_one();
	}
	if (add(&working, -1) == 0)
		set(&stop, 1);
}

static void message(void)
{
	long i;

	if (kind->k_sched == BARE)
		return;
	set(&stop, 0);
	set(&working, 2 * NR);
	for (i = 0; i < procs(); i++)
		spawn((int)i, for_ever, NULL);
	for (i = 0; i < 2 * NR; i++)
		peer[i] = make((int)i, ping, (void *)(intptr_t)i);
}

/* A thread that was woken runs, although the waker computes. */

static void asked(void *arg)
{
	while (get(&working) > 0) {
		wait_one();
		add(&rounds, 1);
	}
}

static void asks(void *arg)
{
	long next = 1;

	while (get(&working) > 0) {
		add(&working, -1);
		wake(peer[0]);
		while (get(&rounds) < next)
			compute(100);
		next++;
	}
}

static void ask(void)
{
	if (kind->k_sched == BARE)
		return;
	set(&rounds, 0);
	set(&working, MANY);
	peer[0] = make(0, asked, NULL);
	spawn(0, asks, NULL);
}

/* Threads that live in the library. */

static long goal;		/* of preemptions */

static void child(void *arg)
{
	compute(500);
	add(arg, 1);
}

static void makes_and_joins(long *children)
{
	if (kind->k_sched == RR) {
		struct rr_thread *t = rr_thread_joinable(child, children);

		CHECK(t != NULL && rr_join(t) == 0);
	} else if (kind->k_sched == WS) {
		struct ws_thread *t = ws_thread_joinable(child, children);

		CHECK(t != NULL && ws_join(t) == 0);
	} else {
		struct ll_thread *t = ll_thread_joinable(child, children, 0);

		CHECK(t != NULL && ll_join(t) == 0);
	}
}

static void lives_here(void *arg)
{
	volatile long turns = 0;

	do {
		give_way();
		if (kind->k_sched != BARE) {
			wake(ustack_self());	/* first in its struct */
			wait_one();
		}
		if (kind->k_sched != BARE && turns % 8 == 0) {
			add(&rounds, -1);
			makes_and_joins(arg);
		}
		turns++;
	} while (preempted() < goal);
}

static void in_library(void)
{
	int i;

	goal = preempted() + 10 * MANY;
	for (i = 0; i < procs() * NR; i++)
		spawn(i, lives_here, &rounds);
}

/* errno. */

/*
 * Not inlined, because compilers keep the address of errno, and a preempted
 * thread of ws may go on in another native thread.
 */
static NOINLINE void sets_errno(int mine)
{
	errno = mine;
	compute(1000);
	__asm__ volatile("" : : : "memory");	/* errno is read again */
	CHECK_IS(errno, mine);
}

static void keeps_errno(void *arg)
{
	do {
		sets_errno((int)(intptr_t)arg);
		give_way();
	} while (preempted() < goal);
}

static void errnos(void)
{
	long i;

	goal = preempted() + MANY;
	for (i = 0; i < procs() * NR; i++)
		spawn((int)i, keeps_errno, (void *)(i + 1));
}

/* Registers: long sums have the same results as without preemption. */

#define STEPS	400000

typedef double four __attribute__((vector_size(32)));

static NOINLINE double chaos(double x, int round)
{
	four v = { x, x / 2, x / 3, x / 4 };
	four w = 1 - v;
	double y = 1 - x;
	int i;

	CHECK_IS(fesetround(round), 0);
	for (i = 0; i < STEPS; i++) {
		v = 3.75 * v * (1 - v);
		w = 3.99 * w * (1 - w);
		x = 3.875 * x * (1 - x);
		y = y + v[0] / (w[1] + x + 1);
	}
	return v[0] + v[1] * v[2] + v[3] + w[0] + w[1] * w[2] + w[3] + x + y;
}

static const int rounding[] = {
	FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO
};

static double seed[NR], expected[NR];

static void computes(void *arg)
{
	double *want = arg;
	int i = (int)(want - expected);

	CHECK_IS(chaos(seed[i], rounding[i % 4]), *want);
	CHECK_IS(fegetround(), rounding[i % 4]);
}

static void registers(void)
{
	int i;

	for (i = 0; i < procs() * NR; i++)
		spawn(i, computes, &expected[i % NR]);
}

static void prepare_registers(void)
{
	int i;

	for (i = 0; i < NR; i++)
		seed[i] = 1.0 / (i + 2);
	for (i = 0; i < NR; i++) {
		expected[i] = chaos(seed[i], rounding[i % 4]);
		CHECK_IS(fesetround(FE_TONEAREST), 0);
	}
}

/* A stretch in which preemption is forbidden. */

static volatile long twin[2];
static volatile int inside;

static void forbids(void *arg)
{
	volatile long mine = 0;

	while (preempted() < goal || stats().pe_forbidden < MANY) {
		upreempt_forbid();
		CHECK(inside == 0 && twin[0] == twin[1]);
		inside = 1;
		twin[0]++;
		upreempt_forbid();
		compute(1000);
		upreempt_allow();
		compute(1000);
		twin[1]++;
		inside = 0;
		mine++;
		upreempt_allow();
		compute(1000);
	}
	upreempt_forbid();
	add(&rounds, -mine);
	upreempt_allow();
}

static void forbid(void)
{
	int i;

	if (procs() > 1)
		return;
	twin[0] = twin[1] = 0;
	goal = preempted() + MANY;
	for (i = 0; i < NR; i++)
		spawn(0, forbids, NULL);
}

/*
 * A function that libc has called is not preempted: no other thread sees
 * caller, which is set meanwhile. Each call lasts for some ticks.
 */

static void *volatile caller;

static void lasts(void)
{
	long ticks = stats().pe_elsewhere + 3;

	CHECK_IS(caller, NULL);
	caller = ustack_self();
	while (stats().pe_elsewhere < ticks)
		compute(100);
	CHECK_IS(caller, ustack_self());
	caller = NULL;
}

static int compare(const void *a, const void *b)
{
	lasts();
	return *(const int *)a - *(const int *)b;
}

static int object(struct dl_phdr_info *info, size_t size, void *arg)
{
	lasts();
	return 1;
}

static void handler(int signo)
{
	lasts();
}

static ssize_t cookie_write(void *cookie, const char *buf, size_t nob)
{
	lasts();
	return (ssize_t)nob;
}

static void once(void)
{
	lasts();
}

static void is_called(void *arg)
{
	static const cookie_io_functions_t cookie = { .write = cookie_write };
	static pthread_once_t control = PTHREAD_ONCE_INIT;
	int array[] = { 3, 1, 2 };
	FILE *file;

	qsort(array, 3, sizeof array[0], compare);
	CHECK(array[0] == 1 && array[1] == 2 && array[2] == 3);
	dl_iterate_phdr(object, NULL);
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	pthread_once(&control, once);
	file = fopencookie(NULL, "w", cookie);
	CHECK(file != NULL);
	fprintf(file, "%d", 1);
	fclose(file);
	set(&stop, 1);
}

static void looks(void *arg)
{
	while (!get(&stop))
		CHECK_IS(caller, NULL);
}

static void called(void)
{
	if (procs() > 1)
		return;
	set(&stop, 0);
	spawn(0, looks, NULL);
	spawn(0, is_called, NULL);
	spawn(0, looks, NULL);
}

/* A function that the library has called is not preempted, either. */

static void *slow_alloc(struct usched *s, int size)
{
	lasts();
	return tiny_alloc(s, size);
}

static void slow(void *arg)
{
	give_way();
	set(&stop, 1);
}

/*
 * The last call may be a jump, which leaves no frame of the thread on the
 * stack.
 */
static void slow_jumps(void *arg)
{
	tiny.t_yields = tiny_self();
	set(&stop, 1);
	ustack_block();
}

static void called_by_us(void)
{
	if (!open_kind(&kinds[0]))
		return;
	set(&stop, 0);
	tiny.t_sched.s_alloc = slow_alloc;
	spawn(0, slow, NULL);
	spawn(0, looks, NULL);
	close_kind();
	if (!open_kind(&kinds[0]))
		return;
	tiny.t_sched.s_alloc = slow_alloc;
	spawn(0, slow_jumps, NULL);
	close_kind();
}

/*
 * There is no memory for the block: s_preempt() is undone, and the thread goes
 * on.
 */

static long failures;

static void suffers(void *arg)
{
	failures = stats().pe_nomem + MANY;
	while (stats().pe_nomem < failures)
		compute(100);
	CHECK(tiny.t_held == 0 && get(&rounds) == 0);
	tiny.t_fail = 0;
	for_ever(NULL);
}

static void nomem(void)
{
	int i;

	if (kind->k_sched != BARE)
		return;
	set(&stop, 0);
	set(&rounds, 0);
	set(&working, NR);
	tiny.t_fail = 1;
	tiny.t_fail_all = 1;
	spawn(0, suffers, NULL);
	for (i = 0; i < NR; i++)
		spawn(0, answers, NULL);
}

/* Threads live in malloc() and printf(), and their output is checked. */

#define LINE	"thread %u line %u of %s: %08x %.3f\n"

static FILE *shared;		/* a pipe */
static FILE *nowhere;
static time_t deadline;
static long lines_done;

static void churn(unsigned *state)
{
	void *block[8];
	size_t size[8];
	int i;

	for (i = 0; i < 8; i++) {
		size[i] = check_random(state) % (i == 7 ? 300000 : 2000);
		block[i] = malloc(size[i]);
		CHECK(block[i] != NULL || size[i] == 0);
		memset(block[i], i, size[i]);
	}
	compute((int)(check_random(state) % 2000));
	for (i = 0; i < 8; i++) {
		CHECK(size[i] == 0 || ((char *)block[i])[size[i] - 1] == i);
		free(block[i]);
	}
}

static void lives(void *arg)
{
	unsigned self = (unsigned)(uintptr_t)arg;
	unsigned state = check_seed + self;
	unsigned line = 0;
	char text[128];
	int nob;

	do {
		unsigned x = check_hash(self, line);

		churn(&state);
		nob = snprintf(text, sizeof text, LINE, self, line, "all", x,
			       x / 1000.0);
		CHECK(nob > 0 && nob < (int)sizeof text);
		CHECK_IS(fprintf(nowhere, "%s", text), nob);
		CHECK_IS(fprintf(shared, LINE, self, line, "all", x, x /
			 1000.0), nob);
		line++;
	} while (time(NULL) < deadline || preempted() < goal);
	add(&lines_done, line);
}

/*
 * A native thread reads: each line is whole, and each thread's lines are in
 * order.
 */
static void *reads(void *arg)
{
	static unsigned next[2 * NR];
	FILE *in = arg;
	unsigned self, line, hash;
	double real;
	char text[256];
	long nr = 0;

	while (fgets(text, sizeof text, in) != NULL) {
		CHECK_IS(sscanf(text, "thread %u line %u of all: %x %lf\n",
			 &self, &line, &hash, &real), 4);
		CHECK(self < 2 * NR && line == next[self]);
		CHECK_IS(hash, check_hash(self, line));
		next[self]++;
		nr++;
	}
	memset(next, 0, sizeof next);
	set(&rounds, nr);
	return NULL;
}

static void libc(void)
{
	long i;

	for (i = 0; i < 2 * NR; i++)
		spawn((int)i, lives, (void *)i);
}

static void in_libc(const struct kind *k, int seconds)
{
	pthread_t reader;
	FILE *in;
	int fd[2];

	CHECK_IS(pipe(fd), 0);
	in = fdopen(fd[0], "r");
	shared  = fdopen(fd[1], "w");
	nowhere = fopen("/dev/null", "w");
	CHECK(in != NULL && shared != NULL && nowhere != NULL);
	CHECK_IS(pthread_create(&reader, NULL, reads, in), 0);
	set(&lines_done, 0);
	deadline = time(NULL) + seconds;
	goal = preempted() + MANY;
	if (open_kind(k)) {
		libc();
		close_kind();
	}
	fclose(shared);
	fclose(nowhere);
	CHECK_IS(pthread_join(reader, NULL), 0);
	fclose(in);
	CHECK_IS(get(&lines_done), get(&rounds));
}

/*
 * A thread with little room left in its lane is not preempted, and has no
 * overflow.
 */

static NOINLINE void deep_inside(char *here, char *low)
{
	volatile char local[here - low - 7500];
	long ticks = stats().pe_elsewhere + MANY;
	long was = preempted();

	local[0] = 1;
	CHECK((char *)local > low && (char *)local < low + 8192);
	while (stats().pe_elsewhere < ticks)
		compute(100);
	CHECK(preempted() == was && local[0] == 1);
}

static void deep(void *arg)
{
	const struct ustack *u = ustack_self();
	char here;

	deep_inside(&here, u->u_sched->s_lane[u->u_lane].l_low);
	set(&stop, 1);
}

static void small_lane(void)
{
	kind = &kinds[2];
	thread_nr = 0;
	if (tiny_init(&tiny, 0) != 0 || usched_lanes(&tiny.t_sched, 2, 16384))
		return;
	tiny.t_sched.s_preempt = tiny_preempt;
	set(&stop, 0);
	spawn(0, deep, NULL);
	spawn(0, looks, NULL);
	close_kind();
}

/* A dispatcher that runs in a thread of another dispatcher. */

static struct tiny inner;
static struct tiny_thread inner_thread[NR + 1];
static long inner_stop, inner_left, inner_runs;

static void inner_loop(void *arg)
{
	set(&inner_runs, 1);
	while (!get(&inner_stop))
		compute(100);
	set(&inner_runs, 0);
}

static void inner_answers(void *arg)
{
	for (int i = 0; i < MANY; i++) {
		compute(1000);
		CHECK_IS(try_give_way(), 0);
	}
	if (add(&inner_left, -1) == 0)
		set(&inner_stop, 1);
}

static void runs_inner(void *arg)
{
	int i;

	CHECK_IS(tiny_init(&inner, 0), 0);
	(void)usched_lanes(&inner.t_sched, 3, TINY_LANE); /* or none */
	inner.t_sched.s_preempt = tiny_preempt;
	set(&inner_stop, 0);
	set(&inner_left, NR);
	tiny_start(&inner, &inner_thread[NR], inner_loop, NULL);
	for (i = 0; i < NR; i++)
		tiny_start(&inner, &inner_thread[i], inner_answers, NULL);
	tiny_run(&inner);
	CHECK(inner.t_live == 0 && inner.t_held == 0);
	usched_fini(&inner.t_sched);
	set(&stop, 1);
}

/* Other threads of the outer dispatcher do not run meanwhile. */
static void not_inner(void *arg)
{
	while (!get(&stop))
		CHECK_IS(get(&inner_runs), 0);
}

static void nested(void)
{
	if (procs() > 1)
		return;
	set(&stop, 0);
	spawn(0, not_inner, NULL);
	spawn(0, runs_inner, NULL);
	spawn(0, not_inner, NULL);
}

/*
 * Threads are preempted in one usched_run() and go on in another. Meanwhile the
 * native thread has got another signal mask and alternate stack, and keeps
 * them.
 */

static char alternate[2][65536];
static volatile int which;

static void set_which(int nr)
{
	const stack_t alt = {
		.ss_sp = alternate[nr], .ss_size = sizeof alternate[nr]
	};
	sigset_t mask;

	which = nr;
	CHECK_IS(sigaltstack(&alt, NULL), 0);
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	CHECK_IS(pthread_sigmask(nr ? SIG_BLOCK : SIG_UNBLOCK, &mask, NULL), 0);
}

static void native_kept(void *arg)
{
	stack_t alt;
	sigset_t mask;

	while (!get(&stop)) {
		compute(1000);
		upreempt_forbid();
		CHECK_IS(sigaltstack(NULL, &alt), 0);
		CHECK_IS(alt.ss_sp, alternate[which]);
		CHECK_IS(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
		CHECK_IS(sigismember(&mask, SIGUSR2), which);
		CHECK(!sigismember(&mask, SIGURG));
		upreempt_allow();
	}
}

static void pumped(const struct kind *k)
{
	const stack_t off = { .ss_flags = SS_DISABLE };
	int i;

	if (!open_kind(k))
		return;
	set(&stop, 0);
	for (i = 0; i < NR; i++)
		spawn(0, native_kept, NULL);
	for (i = 0; tiny.t_live > 0; i++) {
		set_which(i % 2);
		set(&stop, i == NR);
		tiny.t_stop = i < NR ? tiny.t_rounds + NR + 1 + i : 0;
		tiny_run(&tiny);
	}
	close_kind();
	set_which(0);
	CHECK_IS(sigaltstack(&off, NULL), 0);
}

/* SIGURG may be blocked outside of usched_run(). */
static void blocked_outside(void)
{
	sigset_t mask, now;

	sigemptyset(&mask);
	sigaddset(&mask, SIGURG);
	CHECK_IS(pthread_sigmask(SIG_BLOCK, &mask, NULL), 0);
	if (open_kind(&kinds[0])) {
		answer();
		close_kind();
	}
	CHECK_IS(pthread_sigmask(SIG_UNBLOCK, &mask, &now), 0);
	CHECK(sigismember(&now, SIGURG));
}

/* A native thread that sleeps gets no ticks. */

static struct rr_thread *sleeper;

static void sleeps(void *arg)
{
	CHECK_IS(rr_wait(), 0);
	compute(1000);
}

static void nap(long ms)
{
	struct timespec left = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&left, &left) != 0)
		CHECK_IS(errno, EINTR);
}

static void parked(void)
{
	struct upreempt_stats first, last;

	kind = &kinds[3];
	CHECK(open_kind(kind));
	sleeper = rr_thread_init(sleeps, NULL);
	CHECK(sleeper != NULL);
	rr_hold();
	CHECK_IS(rr_start(), 0);
	first = stats();
	do {
		nap(1);
		last = stats();
	} while (last.pe_asleep == first.pe_asleep);
	/*
	 * It gives memory back after a tenth of a second, and may get ticks
	 * meanwhile. If they never stop, the watchdog ends this.
	 */
	do {
		last = stats();
		nap(300);
	} while (stats().pe_ticks > last.pe_ticks + 2);
	rr_wake(sleeper);
	rr_release();
	CHECK_IS(rr_fini(), 0);
}

/* Without s_preempt() there is no timer, nor after the end of a run. */

static void burn(void *arg)
{
	clock_t until = clock() + CLOCKS_PER_SEC / 20;

	while (clock() < until)
		compute(1000);
}

static int timers(void)
{
	char text[256];
	FILE *file = fopen("/proc/self/timers", "r");
	int nr = 0;

	while (file != NULL && fgets(text, sizeof text, file) != NULL)
		nr += strncmp(text, "ID:", 3) == 0;
	if (file != NULL)
		fclose(file);
	return nr;
}

static void counts_timers(void *arg)
{
	set((long *)arg, timers());
}

static void left_alone(void)
{
	long ticks = stats().pe_ticks;
	long nr = -1;

	CHECK(open_kind(&kinds[0]));
	tiny.t_sched.s_preempt = NULL;
	spawn(0, burn, NULL);
	spawn(0, counts_timers, &nr);
	close_kind();
	burn(NULL);
	CHECK_IS(stats().pe_ticks, ticks);
	CHECK(nr == 0 && timers() == 0);
}

/* After upreempt_stop() there is at most one more tick, and no preemption. */

static void stops(void *arg)
{
	long ticks, was;

	while (preempted() < goal)
		compute(100);
	CHECK_IS(upreempt_stop(), 0);
	CHECK_IS(upreempt_stop(), -EINVAL);
	was   = preempted();
	ticks = stats().pe_ticks;
	burn(NULL);
	CHECK_IS(preempted(), was);
	CHECK_THAT(stats().pe_ticks, <=, ticks + 1);
	set(&stop, 1);
}

static void stopped(void)
{
	goal = preempted() + MANY;
	set(&stop, 0);
	CHECK(open_kind(&kinds[0]));
	spawn(0, stops, NULL);
	spawn(0, looks, NULL);
	close_kind();
	CHECK_IS(upreempt_start(TICK), 0);
	CHECK(open_kind(&kinds[0]));
	answer();
	close_kind();
}

/*
 * A thread jumps out of its dispatcher, into the thread that runs that. Until
 * usched_left(), ticks find a thread outside of its lane, and do nothing. If
 * the thread had forbidden preemption, it is allowed again.
 */

static sigjmp_buf out;

static void jumps(void *forbids)
{
	if (forbids != NULL)
		upreempt_forbid();
	siglongjmp(out, 1);
}

static void allows(void *arg)
{
	upreempt_forbid();
	upreempt_allow();
}

static void is_left(void *forbids)
{
	CHECK_IS(tiny_init(&inner, 0), 0);
	(void)usched_lanes(&inner.t_sched, 3, TINY_LANE);
	inner.t_sched.s_preempt = tiny_preempt;
	tiny_start(&inner, &inner_thread[0], jumps, forbids);
	tiny_start(&inner, &inner_thread[1], allows, NULL);
	if (sigsetjmp(out, 1) == 0)
		tiny_run(&inner);
	else {
		burn(NULL);
		usched_left(&inner.t_sched);
		inner.t_live--;
	}
	CHECK_IS(timers(), 2);
	tiny_run(&inner);
	CHECK(inner.t_live == 0 && inner_thread[1].tt_done == 1);
	usched_fini(&inner.t_sched);
	set(&stop, 1);
}

static void left(void)
{
	int i;

	for (i = 0; i < 6; i++) {
		if (!open_kind(&kinds[i / 2]))
			continue;
		set(&stop, 0);
		spawn(0, is_left, i % 2 ? &inner : NULL);
		spawn(0, looks, NULL);
		close_kind();
		CHECK_IS(timers(), 0);
	}
}

/* Errors and broken contracts. */

static int limited(void)
{
	const struct rlimit none = { 0, 0 };

	return setrlimit(RLIMIT_SIGPENDING, &none);
}

static void no_timer(void)
{
	CHECK_IS(limited(), 0);
	CHECK_IS(upreempt_start(TICK), -EAGAIN);
}

/* A native thread that gets no timer runs without it. */
static void no_timer_later(void)
{
	CHECK_IS(upreempt_start(TICK), 0);
	CHECK_IS(limited(), 0);
	CHECK(open_kind(&kinds[0]));
	spawn(0, burn, NULL);
	spawn(0, burn, NULL);
	close_kind();
	CHECK(stats().pe_ticks == 0 && stats().pe_error == -EAGAIN);
}

static void inlined(void)
{
	CHECK_IS(rr_preempt(), -EINVAL);
	CHECK(rr_init(1, 0) == 0 && rr_preempt() == 0 && rr_start() == 0);
	CHECK_IS(rr_preempt(), -EBUSY);
	CHECK_IS(rr_fini(), 0);
	CHECK(upreempt_start(0) == -EINVAL && upreempt_start(-1) == -EINVAL);
	CHECK_IS(upreempt_stop(), -EINVAL);
	CHECK_IS(upreempt_text(&working, &working), -EINVAL);
	CHECK(upreempt_start(TICK) == 0 && upreempt_start(TICK) == -EBUSY);
}

static void start_bare(void (*f)(void *), void (*g)(void *))
{
	check_watch(1);			/* not inherited */
	CHECK(open_kind(&kinds[0]));
	set(&stop, 0);
	spawn(0, f, NULL);
	spawn(0, g, NULL);
	close_kind();
}

static void blocks_in_it(void *arg)
{
	upreempt_forbid();
	CHECK_IS(tiny_try_yield(), 0);
}

static void forbids_too(void *arg)
{
	upreempt_forbid();
}

static void too_many_allow(void)
{
	upreempt_forbid();
	upreempt_allow();
	upreempt_allow();
}

static void block_tick(void)
{
	CHECK_IS(upreempt_start(TICK), 0);
	start_bare(blocks_in_it, looks);
}

static void block_forbid(void)
{
	start_bare(blocks_in_it, forbids_too);
}

static void block_outside(void)
{
	(void)upreempt_block();
}

static int passes(const char *name, void (*f)(void))
{
	char text[4096];
	int status = check_child(f, text, sizeof text);

	if (status != 0)
		fprintf(stderr, "%s: status %#x, \"%s\"\n", name,
			(unsigned)status, text);
	return status != 0;
}

int main(int argc, char **argv)
{
	const char *env = getenv("PREEMPT_SECONDS");
	int seconds = env != NULL ? atoi(env) : 3;
	int bad = 0;
	int rc;

	check_start(argc, argv);
	check_limit += 8 * seconds;	/* of two cpus */
	check_watch(1);
	rc = upreempt_start(TICK);
	if (rc == -ENOSYS || rc == -ENOTSUP)
		check_skip(rc == -ENOSYS ? "no preemption on this system" :
			   "no preemption in a program that is built like this");
	CHECK(rc == 0 && upreempt_stop() == 0);
	bad += passes("refused", inlined);
	bad += passes("no timer", no_timer);
	bad += passes("no timer later", no_timer_later);
	bad += check_dies("allow", too_many_allow, "has not forbidden it");
	bad += check_dies("block outside", block_outside,
			  "upreempt_block: this thread has not forbidden it");
	bad += check_dies("block, tick", block_tick,
			  "a thread that has forbidden it has blocked");
	bad += check_dies("block, forbid", block_forbid, "without upreempt_block");
	if (bad != 0)
		return 1;
	prepare_registers();
	CHECK_IS(upreempt_start(TICK), 0);
	on_all(answer);
	on_all(shells);
	on_all(errnos);
	on_all(called);
	called_by_us();
	if (seconds == 0)
		return 0;
	on_all(message);
	on_all(ask);
	CHECK(upreempt_stop() == 0 && upreempt_start(TICK / 10) == 0);
	set(&rounds, 0);
	on_all(in_library);
	CHECK_IS(get(&rounds), 0);
	CHECK(upreempt_stop() == 0 && upreempt_start(TICK) == 0);
	on_all(registers);
	on_all(forbid);
	on_all(nomem);
	on_all(nested);
	small_lane();
	pumped(&kinds[0]);
	pumped(&kinds[1]);
	pumped(&kinds[2]);
	blocked_outside();
	parked();
	in_libc(&kinds[4], seconds);
	in_libc(&kinds[6], seconds / 3);
	in_libc(&kinds[2], seconds / 3);
	left_alone();
	left();
	stopped();
	return 0;
}
