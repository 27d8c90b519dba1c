/* SPDX-License-Identifier: MIT */
/* affinity: the cpus of native threads are changed from outside, beside a hog. */
/* VARIANTS: RR LL WS */

/*
 * A stranger, as taskset(1) or a container's manager would, gives each native thread of
 * the process one or more of its cpus, each millisecond. Another native thread computes
 * on the first cpu all the time. Meanwhile threads exchange messages, sleep, give way,
 * make calls, threads and processes. No message and no wake is lost, and no processor
 * counts on the cpu that it was given. PROCS in the environment is their number,
 * for ten times as many rounds.
 */
#include "either.h"

#if !defined(__linux__)
int main(void)
{
	check_skip("no affinity masks here");
}
#else

#include "ucall.h"
#include "uchan.h"
#include "uwait.h"

#include <dirent.h>

#define PAIRS	6		/* that exchange messages */
#define VALUES	400
#define SLEEPERS 20
#define DEPTH	7		/* of a tree of threads */
#define PROCS	5

static cpu_set_t may;
static long stop, ended;

static void *hog(void *arg)
{
	int cpu = 0;
	cpu_set_t one;

	CPU_ZERO(&one);
	while (!CPU_ISSET(cpu, &may))
		cpu++;
	CPU_SET(cpu, &one);
	(void)pthread_setaffinity_np(pthread_self(), sizeof one, &one);
	while (!get(&stop))
		;
	return arg;
}

/* Gives the native thread tid some of the cpus. It may have ended, and they be off. */
static void pull(pid_t tid, unsigned *seed)
{
	cpu_set_t some;
	int cpu;

	CPU_ZERO(&some);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &may) && check_random(seed) % 2)
			CPU_SET(cpu, &some);
	if (CPU_COUNT(&some) == 0)
		some = may;
	CHECK(sched_setaffinity(tid, sizeof some, &some) == 0 || errno == ESRCH ||
	      errno == EINVAL);
}

static void *stranger(void *arg)
{
	unsigned seed = check_seed;
	struct dirent *e;
	DIR *tasks;

	while (!get(&stop)) {
		tasks = opendir("/proc/self/task");
		CHECK(tasks != NULL);
		while ((e = readdir(tasks)) != NULL)
			if (e->d_name[0] != '.' && check_random(&seed) % 4 == 0)
				pull((pid_t)atoi(e->d_name), &seed);
		CHECK_IS(closedir(tasks), 0);
		usleep(1000);
	}
	return arg;
}

static struct uchan *way[PAIRS];

static void sends(void *arg)
{
	struct uchan *c = arg;
	int i;

	for (i = 0; i < VALUES; i++) {
		CHECK_IS(uchan_send(c, &i, UNEVER), 0);
		if (i % 16 == 0)
			yield();
	}
	add(&ended, 1);
}

static void receives(void *arg)
{
	struct uchan *c = arg;
	int i, v;

	for (i = 0; i < VALUES; i++) {
		CHECK_IS(uchan_recv(c, &v, uafter(60 * UTIME_S)), 0);
		CHECK_IS(v, i);
	}
	add(&ended, 1);
}

static void sleeps(void *arg)
{
	int i;

	for (i = 0; i < 20; i++)
		CHECK_IS(u_sleep(uafter((1 + (intptr_t)arg % 7) * UTIME_MS / 4)), 0);
	add(&ended, 1);
}

static void adds(void *arg)
{
	add(arg, 1);
}

static long called;

static void calls(void *arg)
{
	int i;

	for (i = 0; i < 10; i++) {
		CHECK_IS(ucall(adds, &called), 0);
		yield();
	}
	add(&ended, 1);
}

/* The child ends at once; the parent waits for it between sleeps. */
static void forks_child(void *arg)
{
	pid_t child = fork();
	int status, rc;

	if (child == 0)
		_exit(5);
	CHECK_THAT(child, >, 0);
	while ((rc = waitpid(child, &status, WNOHANG)) == 0)
		CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	CHECK(rc == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
	add(&ended, 1);
}

/* Makes two threads, until the tree is DEPTH deep. */
static void grows(void *arg)
{
	intptr_t depth = (intptr_t)arg;

	if (depth < DEPTH) {
		make((int)depth, grows, (void *)(depth + 1));
		make((int)depth + 1, grows, (void *)(depth + 1));
	}
	yield();
	add(&ended, 1);
}

static void all(void *arg)
{
	int i;

	for (i = 0; i < PAIRS; i++) {
		make(i, sends, way[i]);
		make(i + 1, receives, way[i]);
	}
	for (i = 0; i < SLEEPERS; i++)
		make(i, sleeps, (void *)(intptr_t)i);
	make_pinned(1, calls, NULL);
	make(2, calls, NULL);
	make(3, forks_child, NULL);
	make(0, grows, (void *)0);
}

int main(int argc, char **argv)
{
	const char *storm = getenv("PROCS");
	pthread_t others[2];
	int round, procs, i;

	check_start(argc, argv);
	CHECK_IS(sched_getaffinity(0, sizeof may, &may), 0);
	others[0] = native(hog, NULL);
	others[1] = native(stranger, NULL);
	for (i = 0; i < PAIRS; i++)
		way[i] = uchan_make(sizeof(int), (unsigned)i / 2);
	for (round = 0; round < (storm != NULL ? 200 : 20); round++) {
		doing("round %d", round);
		procs = 1 + (int)(check_seed + (unsigned)round) % PROCS;
		set(&ended, 0);
		set(&called, 0);
		begin(storm != NULL ? atoi(storm) : procs, 0);
		CHECK_IS(SCHED(pinning)(round % 3 != 2), 0);
		make(0, all, NULL);
		start_and_finish();
		CHECK_IS(get(&called), 20);
		CHECK_IS(get(&ended), 2 * PAIRS + SLEEPERS + 3 + (2 << DEPTH) - 1);
	}
	for (i = 0; i < PAIRS; i++)
		uchan_free(way[i]);
	set(&stop, 1);
	native_join(others[0]);
	native_join(others[1]);
	return 0;
}
#endif
