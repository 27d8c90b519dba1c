/* SPDX-License-Identifier: MIT */
/* freed: a wake of a freed thread ends with a message (hard mode). */
/* VARIANTS: RR LL WS PR HARD */

/*
 * In the hard mode a wake, a post or a join of a thread whose memory was freed
 * ends the program. The message names the call, the function that the thread
 * ran, and its argument. This holds for any caller, and also if many threads
 * were made since. A write to that memory is reported when the memory is used
 * again. A thread that is woken before it is freed is never reported, and its
 * memory is used again. (Cites uobject J1.)
 */

#include "either.h"

#if !defined(USCHED_HARD)

int main(void)
{
	check_skip("built without -DUSCHED_HARD");
}

#else

#include "tiny.h"
#include "uhard.h"

#define ARG	((void *)42)
#define MANY	200
#define ROUNDS	(3 * UHARD_GRAVES)
#define PROC	2

static thread *dead, *joined;
static long over;			/* threads that have ended */
static int procs;

static NOINLINE void ends(void *arg)
{
	CHECK_IS(arg, ARG);
	dead = SCHED(self)();
	add(&over, 1);
}

static void nothing(void *arg)
{
	add(&over, 1);
}

static void waits(void *arg)
{
	wait_one();
	fprintf(stderr, "a stranger was woken\n");
	_exit(1);
}

/* Tells whether the memory of a thread is kept: see uhard_grave_put(). */
static bool freed(void)
{
	int i, nr = 0;

	for (i = 0; i < procs; i++) {
		const struct uproc *p = (struct uproc *)SCHED(sched)(i);

		nr += __atomic_load_n(&p->p_graves.g_nr, __ATOMIC_ACQUIRE);
	}
	return nr > 0;
}

/* Waits until the memory of dead, the first, was freed. */
static void until_freed(void)
{
	while (!freed())
		yield();
}

static void wakes(void *arg)
{
	until_freed();
	SCHED(wake)(dead);
}

static void posts(void *arg)
{
	until_freed();
	SCHED(post)(dead);
}

static void joins(void *arg)
{
	until_freed();
	SCHED(join)(dead);
}

static void make_and_join(void)
{
	joined = make_joinable(0, ends, ARG);
	CHECK_IS(SCHED(join)(joined), 0);
}

static void joins_twice(void *arg)
{
	make_and_join();
	SCHED(join)(joined);
}

static void wakes_joined(void *arg)
{
	make_and_join();
	SCHED(wake)(joined);
}

static void posts_joined(void *arg)
{
	make_and_join();
	SCHED(post)(joined);
}

/*
 * Threads made since then have ended, or wait, and another wake would find
 * them.
 */
static void wakes_late(void *arg)
{
	int i;

	until_freed();
	for (i = 0; i < MANY; i++)
		make(0, nothing, NULL);
	yield_until(&over, MANY + 1);
	for (i = 0; i < MANY; i++)
		make(0, waits, NULL);
	yield();
	wakes(arg);
}

static void on_signal(int signo)
{
	SCHED(post)(dead);
}

static void posts_by_handler(void *arg)
{
	until_freed();
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
}

/* Wakes from a thread of a dispatcher that is not a processor. */
static void wakes_stranger(void *arg)
{
	SCHED(wake)(dead);
}

static void *natively(void *arg)
{
	while (!freed())
		check_yield();
	if (arg == NULL)
		SCHED(wake)(dead);
	else {
		static struct tiny t;
		static struct tiny_thread tt;

		tiny_init(&t, 1);
		tiny_start(&t, &tt, wakes_stranger, NULL);
		tiny_run(&t);
	}
	SCHED(release)();
	return NULL;
}

/* Writes to memory that is not its own any more. */
static void scribbles(void *arg)
{
	until_freed();
	((volatile char *)STRUCT(dead))[sizeof *STRUCT(dead) - 3] ^= 1;
}

static void (*culprit)(void *);
static int from_proc;

static bool is_joined(void)
{
	return culprit == joins_twice || culprit == wakes_joined ||
		culprit == posts_joined;
}

static void by_thread(void)
{
	begin(procs = PROC, 0);
	if (!is_joined())
		make(0, ends, ARG);
	make(from_proc, culprit, NULL);
	SCHED(start)();
	SCHED(fini)();
}

static void by_native(void)
{
	begin(procs = 1, 0);
	SCHED(hold)();
	make(0, ends, ARG);
	native(natively, culprit == NULL ? NULL : &over);
	SCHED(start)();
	SCHED(fini)();
}

/* AddressSanitizer may have reported the access first. */
static void dies(void (*how)(void), void (*f)(void *), int p, const char *call)
{
	char text[8192], want[2][128];
	int status;

	culprit = f;
	from_proc = p;
	status = check_child(how, text, sizeof text);
	if (f == scribbles && strstr(text, "use-after-poison") != NULL)
		return;
	/* The name of the public function: rr_wake, say. */
	snprintf(want[0], sizeof want[0], "%s%s thread 0x",
		 f == scribbles ? "usched: " : "_", call);
	snprintf(want[1], sizeof want[1], "%#lx, argument 0x2a)",
		 (unsigned long)(uintptr_t)ends);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
	    strstr(text, want[0]) != NULL && strstr(text, want[1]) != NULL &&
	    (!is_joined() || strstr(text, "freed by its join") != NULL))
		return;
	fprintf(stderr, "wanted \"%s\" on processor %d, got status %#x and "
		"\"%s\"\n", call, p, (unsigned)status, text);
	CHECK(0);
}

/* Correct wakes, of more threads than are kept. */

static void sleeps(void *arg)
{
	wait_one();
	wait_one();
	add(&over, 1);
}

/* The kept memory is bounded, except for a thread that is just being added. */
static void looks(void)
{
	int i;

	for (i = 0; i < PROC; i++) {
		const struct uproc *p = (struct uproc *)SCHED(sched)(i);

		CHECK_THAT(__atomic_load_n(&p->p_graves.g_nr, __ATOMIC_RELAXED),
			   <=, UHARD_GRAVES + 1);
	}
}

static void cares(void *arg)
{
	long i;

	for (i = 0; i < ROUNDS; i++) {
		thread *t = make((int)i, sleeps, NULL);

		SCHED(wake)(t);
		SCHED(post)(t);
		t = make_joinable(0, sleeps, NULL);
		SCHED(wake)(t);
		SCHED(wake)(t);
		CHECK_IS(SCHED(join)(t), 0);
	}
	looks();
}

static void right(void)
{
	set(&over, 0);
	one_thread(PROC, cares, NULL);
	CHECK_IS(get(&over), 2 * ROUNDS);
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	for (p = 0; p < PROC; p++) {
		dies(by_thread, wakes, p, "wake:");
		dies(by_thread, posts, p, "post:");
		dies(by_thread, joins, p, "join:");
		dies(by_thread, joins_twice, p, "join:");
		dies(by_thread, wakes_joined, p, "wake:");
		dies(by_thread, posts_joined, p, "post:");
		dies(by_thread, wakes_late, p, "wake:");
		dies(by_thread, posts_by_handler, p, "post:");
		dies(by_thread, scribbles, p, "the memory of");
	}
	dies(by_native, NULL, 0, "wake:");
	dies(by_native, nothing, 0, "wake:");
	right();
	return 0;
}

#endif
