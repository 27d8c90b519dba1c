/* SPDX-License-Identifier: MIT */
/* s_pin: processors run on the cpus that the process may use, in turn. */
/* VARIANTS: RR LL */

#include "either.h"

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

/* Where the processor is pinned: one of those allowed. */
static void where(void *arg)
{
	int *cpu = arg;
	cpu_set_t mask;
	int i;

	CHECK(sched_getaffinity(0, sizeof mask, &mask) == 0);
	CHECK(CPU_COUNT(&mask) == 1);
	for (i = 0; !CPU_ISSET(i, &mask); i++)
		;
	CHECK(CPU_ISSET(i, &may));
	for (*cpu = i, i = 0; i < 10; i++) {
		CHECK(sched_getcpu() == *cpu);
		yield();
	}
	add(&total, 1);
}

static void run(int proc_nr)
{
	static int cpu[MANY];
	int cpus = CPU_COUNT(&may);
	int i;

	set(&total, 0);
	begin(proc_nr, 0);
	for (i = 0; i < proc_nr; i++)
		make_there(i, where, &cpu[i]);
	start_and_finish();
	CHECK(total == proc_nr);
	for (i = 0; i < proc_nr; i++)
		CHECK(cpu[i] == cpu[i % cpus]);
	for (i = 1; i < proc_nr && i < cpus; i++)
		CHECK(cpu[i] != cpu[i - 1]);
}

/* Many processors on few cpus: all have work, and send it around. */

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
	CHECK(total == RING);
}

int main(int argc, char **argv)
{
	cpu_set_t one, all;
	int cpu;

	check_start(argc, argv);
	CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
	may = all;
	run(1);
	run(2);
	run(MANY);
	around();
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
		may = one;
		run(1);
		run(3);
	}
	around();
	return 0;
}
#endif
