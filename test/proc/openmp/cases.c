/* SPDX-License-Identifier: MIT */
/* cases.c: for openmp.sh, which names the case. Status 0: sums are right. */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <usched/all.h>
#include <usched/ugen.h>
#include <usched/upreempt.h>
#include <dlfcn.h>
#if defined(_OPENMP)
#include <omp.h>
#else
#define omp_get_thread_num()	0
#define omp_get_max_threads()	1
#endif
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SUM	(63 * 64 / 2)
#define TEAM	4
#define ROUNDS	50
#define THREADS	6
/* With clang a function that has a region must not wait under ws: see doc/guide.md. */
#define APART	__attribute__((noinline))
#define MUST(x)	((x) ? (void)0 : broken(#x, __LINE__))

static void broken(const char *what, int line)
{
	printf("cases.c:%d: not so: %s\n", line, what);
	exit(1);
}

static const char *name;	/* the case */
static atomic_int done;

static int is(const char *word)
{
	return strcmp(name, word) == 0;
}

static void pause_us(int us)
{
	MUST(u_sleep(uafter(us * UTIME_US)) == 0);
}

/* A sum by a region that does not wait. */
static APART long sum_of(int team)
{
	long sum = 0;

#pragma omp parallel for num_threads(team) reduction(+:sum)
	for (int i = 0; i < 64; i++)
		sum += i;
	return sum;
}

/* Threads that wait in a region. */

static void wait_here(void *arg)
{
	int master = 0;

	(void)arg;
	if (is("wait")) {
#pragma omp parallel for num_threads(TEAM)
		for (int i = 0; i < 64; i++)
			pause_us(100);
	} else if (is("yield")) {
#pragma omp parallel num_threads(TEAM)
		MUST(u_sleep(UNOW) == 0);
	} else if (is("serial")) {
#pragma omp parallel num_threads(1)
		pause_us(100);
	} else if (is("if")) {
#pragma omp parallel if(master)
		pause_us(100);
	} else if (is("nested")) {
#pragma omp parallel num_threads(2)
		{
			(void)sum_of(2);
#pragma omp master
#pragma omp parallel num_threads(2)
#pragma omp master
			pause_us(100);
		}
	} else if (is("task")) {
#pragma omp parallel num_threads(1)
#pragma omp task
		pause_us(100);
	} else if (is("abort")) {
#pragma omp parallel num_threads(1)
		ustack_abort();
	}
}

static int waits(void *arg)
{
	(void)arg;
	for (int i = 0; i < THREADS; i++)
		MUST(usched_go(wait_here, NULL) == 0);
	return 0;
}

static void gives_value(void *arg)
{
	int value = 1;

	(void)arg;
#pragma omp parallel num_threads(1)
	(void)ugen_yield(&value);
}

/* A generator that gives a value in a region. */
static int gives(void *arg)
{
	struct ugen *g = ugen_make(gives_value, arg, sizeof(int));

	MUST(g != NULL && ugen_next(g) != NULL);
	return ugen_free(g);
}

/* A plain dispatcher, with or without lanes, that runs or steps its threads. */
struct plain {
	struct usched p_sched;
	struct ustack p_stack[3];
	long          p_sum;
	int           p_first, p_left;
};

static void *alloc(struct usched *s, int size) { return (void)s, malloc(size); }

static void freed(struct usched *s, void *at, int size)
{
	(void)s, (void)size;
	free(at);
}

static void plain_done(struct usched *s, struct ustack *u)
{
	((struct plain *)s)->p_left--;
	u->u_mark = 1;
	free(u->u_stack);
}

static struct ustack *plain_next(struct usched *s)
{
	struct plain *p = (struct plain *)s;

	if (p->p_left == 0)
		return NULL;
	do
		p->p_first = (p->p_first + 1) % 3;
	while (p->p_stack[p->p_first].u_mark);
	return &p->p_stack[p->p_first];
}

static void plain_thread(void *arg)
{
	struct plain *p = arg;

	for (int i = 0; i < 10; i++) {
		MUST(ustack_block() == 0);
		if (is("plain") || is("native") || is("step")) {
#pragma omp parallel num_threads(2)
#pragma omp master
			MUST(ustack_block() == 0);
		}
		p->p_sum += i;
	}
}

static void plain_init(struct plain *p, int lanes)
{
	memset(p, 0, sizeof *p);
	p->p_sched.s_next  = plain_next;
	p->p_sched.s_alloc = alloc;
	p->p_sched.s_free  = freed;
	p->p_sched.s_done  = plain_done;
	if (lanes)
		MUST(usched_lanes(&p->p_sched, lanes, 65536) == 0);
	for (int i = 0; i < 3; i++)
		ustack_init(&p->p_stack[i], &p->p_sched, plain_thread, p, NULL, 0);
	p->p_left = 3;
}

static long plain_run(int lanes)
{
	struct plain *p = malloc(sizeof *p);
	long sum;

	plain_init(p, lanes);
	if (is("step"))
		while (!usched_step(&p->p_stack[0]))
			;
	else
		usched_run(&p->p_sched);
	sum = p->p_sum;
	usched_fini(&p->p_sched);
	free(p);
	return sum;
}

/* Each native thread of a region runs a dispatcher. */
static APART void dispatchers(void)
{
	long sum = 0;

#pragma omp parallel num_threads(TEAM) reduction(+:sum)
	sum += plain_run(2);
	MUST(sum == TEAM * 3 * 45);
}

/* Threads that are in the right. */

static APART void region(void *arg)
{
	*(long *)arg = 0;
	for (int i = 0; i < 20; i++)
		*(long *)arg += sum_of(TEAM);
}

/* The native threads of a team, but for the caller's own, sleep natively. */
static APART void team_sleeps(void)
{
	long sum = 0;

#pragma omp parallel num_threads(TEAM) reduction(+:sum)
	{
		if (omp_get_thread_num() != 0)
			pause_us(200);
		sum++;
	}
	MUST(sum <= TEAM);
}

static APART void computes(void)
{
	volatile long sum = 0;
	int no = 0;

#pragma omp parallel if(no)
	for (long i = 0; i < 300000; i++)
		sum += i & 1;
	MUST(sum == 150000);
}

static void right(void *arg)
{
	long *sum = calloc(1, sizeof *sum);

	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		if (is("call")) {
			MUST(ucall(region, sum) == 0);
			MUST(*sum == 20 * SUM);
		} else if (is("team"))
			team_sleeps();
		else if (is("inner"))
			dispatchers();
		else if (is("preempt"))
			computes();
		MUST(sum_of(TEAM) == SUM);
		pause_us(i % 3 * 10);
	}
	free(sum);
	done++;
}

/* Waits all the time. */
static void beside(void *arg)
{
	(void)arg;
	while (done < THREADS)
		pause_us(50);
}

static int rights(void *arg)
{
	(void)arg;
	for (int i = 0; i < THREADS; i++)
		MUST(usched_go(right, NULL) == 0);
	for (int i = 0; i < 2; i++)
		MUST(usched_go(beside, NULL) == 0);
	return 0;
}

/* A plugin, whose runtime comes by dlopen(). */

static void (*plugin)(void (*f)(int us));
static void *handle;

static void plugin_load(void)
{
	handle = dlopen(getenv("PLUGIN"), RTLD_NOW | RTLD_LOCAL);
	if (handle == NULL)
		puts(dlerror());
	MUST(handle != NULL);
	plugin = (void (*)(void (*)(int)))dlsym(handle, "plugin");
	MUST(plugin != NULL);
}

static void calls_plugin(void *arg)
{
	(void)arg;
	plugin(pause_us);
}

static int plugs(void *arg)
{
	(void)arg;
	MUST(usched_go(calls_plugin, NULL) == 0);
	return 0;
}

static int nothing(void *arg)
{
	(void)arg;
	pause_us(100);
	return 0;
}

static int plugin_case(void)
{
	if (is("plugin-second"))
		MUST(usched_main(nothing, NULL) == 0);
	plugin_load();
	if (is("plugin-gone")) {
		MUST(usched_main(nothing, NULL) == 0);
		MUST(dlclose(handle) == 0);
		return usched_main(nothing, NULL);
	}
	return usched_main(plugs, NULL);
}

/* The child of a fork runs dispatchers. */
static int child(void)
{
	int status;
	pid_t pid;

	MUST(sum_of(TEAM) == SUM);
	MUST(usched_main(nothing, NULL) == 0);
	pid = fork();
	if (pid == 0)
		_exit(plain_run(2) == 3 * 45 ? 0 : 1);
	MUST(waitpid(pid, &status, 0) == pid);
	return status != 0;
}

/* A processor stays on its cpu when a runtime has begun elsewhere. */
static int cpus(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	MUST(sched_getaffinity(0, sizeof set, &set) == 0);
	return CPU_COUNT(&set);
}

/* The cpus of the native threads of a team together: n if each has n. */
static APART void region_cpus(void *arg)
{
	int *most = arg;

	*most = 0;
#pragma omp parallel num_threads(TEAM)
	{
		int nr = cpus();
#pragma omp critical
		*most = nr > *most ? nr : *most;
	}
}

static int all_cpus, processors;

/* What doc/guide.md says of cpus. */
static int guide_says(void *arg)
{
	int *nr = calloc(1, sizeof *nr);

	(void)arg;
	if (is("cpus")) {
		region_cpus(nr);
		MUST(*nr == (processors == 1 ? all_cpus : 1));
	} else {
		MUST(ucall(region_cpus, nr) == 0);
		MUST(*nr == all_cpus);
	}
	free(nr);
	return 0;
}

/* A program that waits does not begin libomp, which knows of no native thread. */
#if defined(__clang__)
__attribute__((weak)) extern int __kmpc_global_num_threads(void *);
#else
static int (*const __kmpc_global_num_threads)(void *);
#endif

static int unbegun(void *arg)
{
	(void)arg;
	pause_us(100);
	if (__kmpc_global_num_threads != NULL)
		MUST(__kmpc_global_num_threads(NULL) == 0);
	return 0;
}

static int pinned(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20; i++)
		pause_us(100);
	MUST(cpus() == (processors == 1 ? all_cpus : 1));
	return 0;
}

int main(int argc, char **argv)
{
	name = argc > 1 ? argv[1] : "";
	if (is("plain") || is("step"))
		return plain_run(2) == 0;
	if (is("native"))
		return plain_run(0) == 0;
	if (is("generator"))
		return usched_main(gives, NULL);
	if (is("dispatchers"))
		return dispatchers(), 0;
	if (is("fork"))
		return child();
	all_cpus   = cpus();
	processors = getenv("USCHED") != NULL && strchr(getenv("USCHED"), '1') ? 1 : 2;
	if (is("unbegun"))
		return usched_main(unbegun, NULL);
	if (is("pinned")) {
		MUST(sum_of(TEAM) == SUM);
		return usched_main(pinned, NULL);
	}
	if (strncmp(name, "cpus", 4) == 0) {
		if (is("cpus-begun"))
			(void)omp_get_max_threads();
		return usched_main(guide_says, NULL);
	}
	if (strncmp(name, "plugin", 6) == 0)
		return plugin_case();
#if defined(USCHED_PREEMPT)
	if (is("preempt")) {
		MUST(upreempt_start(100000) == 0);
		MUST(rr_init(1, 0) == 0 && rr_preempt() == 0);
		for (int i = 0; i < THREADS; i++)
			MUST(rr_thread_init(right, NULL) != NULL);
		MUST(rr_thread_init(beside, NULL) != NULL);
		return rr_start() != 0 || rr_fini() != 0;
	}
#endif
	return usched_main(is("quiet") || is("call") || is("team") ||
			   is("inner") ? rights : waits, NULL);
}
