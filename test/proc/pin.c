/* SPDX-License-Identifier: MIT */
/* pin: processors, and nothing else, are pinned to cpus of the process. */
/* VARIANTS: RR LL WS PR */

/*
 * Two or more processors are pinned, to one cpu after another, unless the
 * program or the environment says otherwise. A single processor is not pinned.
 * Other schedulers, children of fork() and calls do not inherit the pin.
 * Neither do native threads and programs that a thread makes between pinning(0)
 * and pinning(1). (pinning P4.)
 */
#include "either.h"
#include "cpus.h"
#include "ucall.h"
#if defined(LL)
#include "rr.h"
#define OTHER(name)	rr_##name
#define OTHER_ON(p, f, arg)	rr_thread_on(p, f, arg)
#else
#include "ll.h"
#define OTHER(name)	ll_##name
#define OTHER_ON(p, f, arg)	ll_thread_init(f, arg, p)
#endif
#if !defined(WS)
#include "ws.h"
#endif

#if !defined(__linux__)
int main(void)
{
	check_skip("no affinity masks here");
}
#else

#define MANY	16

static cpu_set_t may;
static long total;

/* Makes a thread that never leaves processor p. */
static void make_there(int p, void (*f)(void *), void *arg)
{
#if defined(WS)
	CHECK(ws_thread_pinned(p, f, arg) != NULL);
#else
	make(p, f, arg);
#endif
}

static cpu_set_t mask_now(void)
{
	cpu_set_t mask;

	CHECK_IS(sched_getaffinity(0, sizeof mask, &mask), 0);
	return mask;
}

static bool is_free(void)
{
	cpu_set_t mask = mask_now();

	return CPU_EQUAL(&mask, &may);
}

static bool is_pinned(void)
{
	cpu_set_t mask = mask_now();

	return CPU_COUNT(&mask) == 1;
}

/* Notes where the processor is pinned, which must be an allowed cpu. */
static void where(void *arg)
{
	int *cpu = arg;
	cpu_set_t mask = mask_now();
	int i;

	CHECK_IS(CPU_COUNT(&mask), 1);
	for (i = 0; !CPU_ISSET(i, &mask); i++)
		;
	CHECK(CPU_ISSET(i, &may));
	for (*cpu = i, i = 0; i < 10; i++) {
		CHECK_IS(sched_getcpu(), *cpu);
		yield();
	}
	add(&total, 1);
}

static void anywhere(void *arg)
{
	int i;

	for (i = 0; i < 10; i++) {
		CHECK(is_free());
		yield();
	}
	add(&total, 1);
}

static void run_pinned(int proc_nr, int how)
{
	static int cpu[MANY];
	int cpus = CPU_COUNT(&may);
	int i;

	set(&total, 0);
	begin(proc_nr, 0);
	if (how >= 0)
		CHECK_IS(SCHED(pinning)(how), 0);
	for (i = 0; i < proc_nr; i++)
		make_there(i, where, &cpu[i]);
	start_and_finish();
	CHECK_IS(total, proc_nr);
	for (i = 0; i < proc_nr; i++)
		CHECK_IS(cpu[i], cpu[i % cpus]);
	for (i = 1; i < proc_nr && i < cpus; i++)
		CHECK_THAT(cpu[i], !=, cpu[i - 1]);
}

static void run_free(int proc_nr, int how)
{
	int i;

	set(&total, 0);
	begin(proc_nr, 0);
	if (how >= 0)
		CHECK_IS(SCHED(pinning)(how), 0);
	for (i = 0; i < proc_nr; i++)
		make_there(i, anywhere, NULL);
	start_and_finish();
	CHECK_IS(total, proc_nr);
}

static void environment(void)
{
	CHECK_IS(setenv("USCHED_PIN", "0", 1), 0);
	run_free(2, -1);
	run_free(2, 1);
	CHECK_IS(setenv("USCHED_PIN", "1", 1), 0);
	run_pinned(1, -1);
	run_pinned(1, 0);
	run_pinned(2, 0);
	CHECK_IS(setenv("USCHED_PIN", "", 1), 0);
	run_pinned(2, -1);
	CHECK_IS(unsetenv("USCHED_PIN"), 0);
}

static void by_the_call(void)
{
	CHECK_IS(SCHED(pinning)(1), -EINVAL);
	run_free(1, -1);
	run_free(1, 0);
	run_free(3, 0);
	run_pinned(1, 1);
	run_pinned(2, -1);
	run_pinned(3, 1);
	begin(2, 0);
	CHECK(SCHED(pinning)(0) == 0 && SCHED(pinning)(1) == 0);
	CHECK_IS(SCHED(start)(), 0);
	CHECK_IS(SCHED(pinning)(0), -EBUSY);
	finish();
}

/* Native threads and programs that a thread makes. */

static void *born_free(void *arg)
{
	CHECK(is_free());
	return arg;
}

static void is_called(void *arg)
{
	CHECK(is_free());
	native_join(native(born_free, arg));
	add(&total, 1);
}

static void forks(void)
{
	pid_t pid = fork();
	int status;

	CHECK_THAT(pid, >=, 0);
	if (pid == 0)
		_exit(is_free() ? 0 : 1);
	CHECK_IS(waitpid(pid, &status, 0), pid);
	CHECK_IS(status, 0);
}

/* Runs a program that prints how many cpus it may use. */
static void runs_program(void)
{
	int nr = 0;
	FILE *in = popen("nproc", "r");

	CHECK(in != NULL);
	CHECK(fscanf(in, "%d", &nr) == 1 && nr == CPU_COUNT(&may));
	CHECK_IS(pclose(in), 0);
}

static void creates(void *arg)
{
	bool pinned = arg != NULL;

	CHECK(pinned ? is_pinned() : is_free());
	forks();
	CHECK_IS(ucall(is_called, NULL), 0);
	CHECK(SCHED(pinning)(0) == 0 && is_free());
	native_join(native(born_free, NULL));
	runs_program();
	CHECK(SCHED(pinning)(0) == 0 && is_free());
	CHECK_IS(ucall(is_called, NULL), 0);
	CHECK_IS(SCHED(pinning)(1), 0);
	CHECK(pinned ? is_pinned() : is_free());
	CHECK_IS(SCHED(pinning)(1), 0);
	CHECK(pinned ? is_pinned() : is_free());
	add(&total, 1);
}

static void made_by_threads(int how)
{
	int i;

	set(&total, 0);
	begin(2, 0);
	CHECK_IS(SCHED(pinning)(how), 0);
	for (i = 0; i < 2; i++)
		make_there(i, creates, how != 0 ? &total : NULL);
	start_and_finish();
	CHECK_IS(total, 6);
}

/* A scheduler that a thread starts has the cpus of the process. */

static int seen[2];

static void inner_where(void *arg)
{
	cpu_set_t mask = mask_now();

	CHECK_IS(CPU_COUNT(&mask), 1);
	for (*(int *)arg = 0; !CPU_ISSET(*(int *)arg, &mask); ++*(int *)arg)
		;
	add(&total, 1);
}

static void inner_anywhere(void *arg)
{
	CHECK(is_free());
	add(&total, 1);
}

static void inner(int proc_nr, void (*f)(void *))
{
	int i;

	CHECK_IS(OTHER(init)(proc_nr, 0), 0);
	for (i = 0; i < proc_nr; i++)
		CHECK(OTHER_ON(i, f, &seen[i]) != NULL);
	CHECK_IS(OTHER(start)(), 0);
	CHECK_IS(OTHER(fini)(), 0);
}

#if !defined(WS)
static void inner_ws(void)
{
	int i;

	CHECK_IS(ws_init(0, 0), 0);
	for (i = 1; ws_sched(i) != ws_sched(0); i++)
		;
	CHECK_IS(i, CPU_COUNT(&may) < ucpus_most() ? CPU_COUNT(&may) : ucpus_most());
	CHECK_IS(ws_start(), 0);
	CHECK_IS(ws_fini(), 0);
}
#else
static void inner_ws(void)
{
}
#endif

static void starter(void *arg)
{
	CHECK(is_pinned());
	inner(2, inner_where);
	CHECK(CPU_COUNT(&may) == 1 || seen[0] != seen[1]);
	inner(1, inner_anywhere);
	inner_ws();
	CHECK(is_pinned());
}

static void nested(void)
{
	set(&total, 0);
	begin(2, 0);
	make_there(1, starter, NULL);
	start_and_finish();
	CHECK_IS(total, 3);
}

/* Many processors on few cpus: all have work, and pass it on. */

#define RING	64
#define ROUNDS	300

static thread *ring[RING];

static void relay(void *arg)
{
	intptr_t me = (intptr_t)arg;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		wait_one();
		if (me != RING - 1 || i != ROUNDS - 1)
			SCHED(wake)(ring[(me + 1) % RING]);
	}
	add(&total, 1);
}

static void around(void)
{
	intptr_t i;

	set(&total, 0);
	begin(MANY, 0);
	for (i = 0; i < RING; i++)
		ring[i] = make((int)(i * 5), relay, (void *)i);
	SCHED(wake)(ring[0]);
	start_and_finish();
	CHECK_IS(total, RING);
}

/* Runs all with the cpus that the process has. */
static void all_ways(void)
{
	run_free(1, -1);
	run_pinned(3, -1);
	made_by_threads(1);
	made_by_threads(0);
	nested();
}

int main(int argc, char **argv)
{
	cpu_set_t one, all;
	int cpu;

	check_start(argc, argv);
	CHECK_IS(unsetenv("USCHED_PIN"), 0);
	all = may = mask_now();
	by_the_call();
	environment();
	run_pinned(MANY, -1);
	around();
	all_ways();
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		CHECK_IS(sched_setaffinity(0, sizeof one, &one), 0);
		may = one;
		all_ways();
	}
	around();
	return 0;
}
#endif
