/* SPDX-License-Identifier: MIT */
/* tasks.h: the questions to pools of workers, and code that C programs share. */

#ifndef TASKS_H
#define TASKS_H

/*
 * Each program, ours and the peers, is asked
 *
 *	HOW NAME[:M] N P
 *
 * HOW is a way in which the program submits tasks: one, many; Go has others. P
 * native threads run tasks. The program answers by lines of NAME[:M], a suffix
 * and a number. It exits with 77 if it has no counterpart. Any other problem is
 * told on stderr, and the exit status is another.
 *
 * Each task adds 1 to a byte of its own, or to a count of its own. If these are
 * not all 1 afterwards, the program fails. Time goes from before the first
 * submission to when the submitter knows that all tasks have ended. To work is
 * to do M steps, of about a nanosecond, that depend on each other.
 *
 *	empty		a native thread submits N tasks that do nothing else.
 *			Pools with a limit have room for TASKS_ROOM
 *	work:M		the same, but the tasks work
 *	submit:M	as empty, but M native threads submit at once
 *	  .per_s	tasks a second
 *	  .cpu_ns	processor time of the process, for each task
 *	half:M		tasks work, and are submitted at fixed times, so that
 *			they take half of the time of P workers
 *	urgent:M	TASKS_LOAD tasks work, and submit themselves again. Each
 *			millisecond a task is submitted that shall begin first
 *	  .p50_us, .p99_us	from the call that submits it, to its begin
 *	queued		N tasks as in empty, while no worker runs them
 *	  .bytes	growth of resident memory, for each
 *	  .queue_ns	to submit one
 *	  .run_ns	then, to run one
 *	batch:M		as queued, but M tasks are queued at a time, and then run,
 *			again and again
 *	  .queue_ns	to submit one
 *
 * steps N 1 answers how many steps take N microseconds, as .steps.
 *
 * The program submits by pool_submit(), and has the other functions below.
 * Submitters of half and urgent are late if they are not run; their lateness
 * does not count.
 */

#include "../figures.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { TASKS_FAILED = 1, TASKS_USAGE = 2, TASKS_NONE = 77 };

enum {
	TASKS_ROOM = 1024,
	TASKS_MANY = 100,		/* at a time, if HOW is many, or M */
	TASKS_MOST = 1000,		/* of batch */
	TASKS_LOAD = 1000,		/* queued, of urgent */
	TASKS_SUBMITTERS = 64		/* at most */
};

#define TASKS_S		1000000000L
#define TASKS_PROBE	1000000L	/* between tasks of urgent */

/* A question. */
struct tasks {
	const char *t_asked;		/* with M */
	bool        t_many;		/* HOW */
	long        t_m;
	long        t_n;
	int         t_p;
	long        t_room;
	bool        t_apart;		/* the submitter must not run tasks */
	bool        t_batch;		/* many are t_m */
};

static struct tasks tasks;

typedef int (*task_f)(void *arg);

/* Makes a pool of t_p workers with room for t_room, calls f(), ends the pool. */
static void pool_run(void (*f)(void));

/* Submits nr tasks: f(arg), f(arg + size), and so on; waits if it is full. */
static void pool_submit(task_f f, void *arg, size_t size, int nr);

/* Submits a task that is to begin before the others, if the pool can do so. */
static void pool_urgent(task_f f, void *arg);

/* Waits until all tasks have ended. */
static void pool_drain(void);

/* Returns whether it has a counterpart of this name. */
static bool pool_has(const char *name);

static inline __attribute__((noreturn)) void tasks_die(const char *why)
{
	fprintf(stderr, "%s: %s\n", tasks.t_asked, why);
	_exit(TASKS_FAILED);
}

static inline void tasks_must(int error, const char *what)
{
	if (error == 0)
		return;
	fprintf(stderr, "%s: %s: %s\n", tasks.t_asked, what, strerror(error));
	_exit(TASKS_FAILED);
}

static inline void tasks_say(const char *suffix, double value)
{
	printf("%s%s %.2f\n", tasks.t_asked, suffix, value);
}

static inline int64_t tasks_clock(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * TASKS_S + t.tv_nsec;
}

static inline int64_t tasks_now(void)
{
	return tasks_clock(CLOCK_MONOTONIC);
}

static inline void tasks_work(long steps)
{
	uint64_t x = 1;

	while (steps-- > 0)
		x = (x ^ x >> 31) * 6364136223846793005UL;
	__asm__ volatile("" : : "r" (x));
}

/* Returns the nanoseconds that these steps take. */
static double tasks_last(long steps)
{
	int64_t start, took, least = INT64_MAX;
	int i;

	for (i = 0; i < 100; i++) {
		start = tasks_now();
		tasks_work(steps);
		took = tasks_now() - start;
		least = took < least ? took : least;
	}
	return (double)least;
}

/* Returns zeroed memory, which is resident. */
static void *tasks_memory(size_t size)
{
	void *p = malloc(size);

	if (p == NULL)
		tasks_die("out of memory");
	memset(p, 1, size);
	return memset(p, 0, size);
}

static double tasks_resident(void)
{
	double bytes = figures_resident();

	if (bytes == 0)
		tasks_die("/proc/self/status");
	return bytes;
}

/* Tasks that do nothing, or work. */

static unsigned char *seen;		/* of each task */

static int tasks_empty(void *arg)
{
	*(unsigned char *)arg += 1;
	return 0;
}

static int tasks_works(void *arg)
{
	tasks_work(tasks.t_m);
	return tasks_empty(arg);
}

static void tasks_once(int times)
{
	if (times == 1)
		return;
	fprintf(stderr, "%s: a task has run %d times\n", tasks.t_asked, times);
	_exit(TASKS_FAILED);
}

/* Checks that each task has run once. */
static void tasks_check(void)
{
	long i;

	for (i = 0; i < tasks.t_n; i++)
		tasks_once(seen[i]);
}

/* Submits the tasks from first to before end. */
static void tasks_submit(task_f f, long first, long end)
{
	long i, most = !tasks.t_many ? 1 : tasks.t_batch ? tasks.t_m :
		TASKS_MANY;

	for (i = first; i < end; i += most)
		pool_submit(f, seen + i, 1,
			    (int)(end - i < most ? end - i : most));
}

static void tasks_took(int64_t start, int64_t cpu)
{
	double took = (double)(tasks_now() - start);

	cpu = tasks_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	tasks_say(".per_s", tasks.t_n * 1e9 / took);
	tasks_say(".cpu_ns", (double)cpu / tasks.t_n);
}

static void tasks_from_one(task_f f)
{
	int64_t cpu, start;

	pool_submit(tasks_empty, tasks_memory(1), 1, 1);
	pool_drain();			/* the workers are there */
	cpu = tasks_clock(CLOCK_PROCESS_CPUTIME_ID);
	start = tasks_now();
	tasks_submit(f, 0, tasks.t_n);
	pool_drain();
	tasks_took(start, cpu);
	tasks_check();
}

static void bench_empty(void)
{
	tasks_from_one(tasks_empty);
}

static void bench_work(void)
{
	tasks_from_one(tasks_works);
}

/* Several submitters: number id begins at the barrier. */

static pthread_barrier_t together;

static void *tasks_submitter(void *arg)
{
	long id = (long)(intptr_t)arg, n = tasks.t_n, m = tasks.t_m;

	pthread_barrier_wait(&together);
	tasks_submit(tasks_empty, n * id / m, n * (id + 1) / m);
	return NULL;
}

static void bench_submit(void)
{
	pthread_t submitters[TASKS_SUBMITTERS];
	int64_t cpu, start;
	long i;

	if (tasks.t_m < 1 || tasks.t_m > TASKS_SUBMITTERS)
		tasks_die("so many submitters are not possible");
	tasks_must(pthread_barrier_init(&together, NULL, tasks.t_m + 1),
		   "barrier");
	for (i = 0; i < tasks.t_m; i++)
		tasks_must(pthread_create(&submitters[i], NULL,
				tasks_submitter, (void *)(intptr_t)i),
			   "submitter");
	cpu = tasks_clock(CLOCK_PROCESS_CPUTIME_ID);
	start = tasks_now();
	pthread_barrier_wait(&together);
	for (i = 0; i < tasks.t_m; i++)
		pthread_join(submitters[i], NULL);
	pool_drain();
	tasks_took(start, cpu);
	tasks_check();
}

/* Latency. */

struct probe {
	int64_t p_sent, p_begun;
	int     p_times;
};

static int tasks_probe(void *arg)
{
	struct probe *p = arg;

	p->p_begun = tasks_now();
	p->p_times++;
	return 0;
}

static int tasks_probe_works(void *arg)
{
	tasks_probe(arg);
	tasks_work(tasks.t_m);
	return 0;
}

static void tasks_late(const struct probe *p)
{
	long i, n = tasks.t_n;
	int64_t *late = tasks_memory(n * sizeof *late);

	for (i = 0; i < n; i++) {
		tasks_once(p[i].p_times);
		late[i] = p[i].p_begun - p[i].p_sent;
	}
	figures_sort_times(late, n);
	tasks_say(".p50_us", late[n / 2] / 1e3);
	tasks_say(".p99_us", late[n - 1 - n / 100] / 1e3);
	free(late);
}

/* The submitter sleeps, because workers need all cpus. */
static bool tasks_sleeps;

/* Returns at this time or later. */
static void tasks_until(int64_t due)
{
	struct timespec t = { due / TASKS_S, due % TASKS_S };

	if (tasks_sleeps)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	while (tasks_now() < due)
		;
}

/* Sends N probes, a distance apart. */
static void tasks_probes(void (*send)(struct probe *p), double apart)
{
	struct probe *p = tasks_memory(tasks.t_n * sizeof *p);
	cpu_set_t cpus;
	int64_t start;
	long i;

	tasks_sleeps = sched_getaffinity(0, sizeof cpus, &cpus) != 0 ||
		CPU_COUNT(&cpus) <= tasks.t_p;
	(void)prctl(PR_SET_TIMERSLACK, 1);
	start = tasks_now();
	for (i = 0; i < tasks.t_n; i++) {
		tasks_until(start + (int64_t)(apart * (i + 1)));
		p[i].p_sent = tasks_now();
		send(&p[i]);
	}
	__atomic_store_n(&tasks.t_apart, false, __ATOMIC_RELAXED);
	pool_drain();
	tasks_late(p);
	free(p);
}

static void tasks_send(struct probe *p)
{
	pool_submit(tasks_probe_works, p, sizeof *p, 1);
}

static void tasks_send_urgent(struct probe *p)
{
	pool_urgent(tasks_probe, p);
}

static void bench_half(void)
{
	tasks_probes(tasks_send, 2 * tasks_last(tasks.t_m) / tasks.t_p);
}

/* Submits itself again, until the last probe was sent. */
static int tasks_again(void *arg)
{
	tasks_work(tasks.t_m);
	if (__atomic_load_n(&tasks.t_apart, __ATOMIC_RELAXED))
		pool_submit(tasks_again, arg, 1, 1);
	return 0;
}

static void bench_urgent(void)
{
	int i;

	for (i = 0; i < TASKS_LOAD; i++)
		pool_submit(tasks_again, seen, 1, 1);
	tasks_probes(tasks_send_urgent, TASKS_PROBE);
}

/* A queue. */

static sem_t held, go_on;

static int tasks_hold(void *arg)
{
	(void)arg;
	sem_post(&held);
	while (sem_wait(&go_on) != 0)
		;
	return 0;
}

/* Gives each worker a task that lasts until tasks_let_go(). */
static void tasks_hold_all(void)
{
	int i;

	for (i = 0; i < tasks.t_p; i++)
		pool_submit(tasks_hold, seen, 1, 1);
	for (i = 0; i < tasks.t_p; i++)
		while (sem_wait(&held) != 0)
			;
}

static void tasks_let_go(void)
{
	int i;

	for (i = 0; i < tasks.t_p; i++)
		sem_post(&go_on);
	pool_drain();
}

static void bench_batch(void)
{
	int64_t start, took = 0;
	long i, n;

	for (i = 0; i < tasks.t_n; i += n) {
		n = tasks.t_n - i < tasks.t_m ? tasks.t_n - i : tasks.t_m;
		tasks_hold_all();
		start = tasks_now();
		tasks_submit(tasks_empty, i, i + n);
		took += tasks_now() - start;
		tasks_let_go();
	}
	tasks_say(".queue_ns", (double)took / tasks.t_n);
	tasks_check();
}

static void bench_queued(void)
{
	double before;
	int64_t start, then;

	tasks_hold_all();
	before = tasks_resident();
	start = tasks_now();
	tasks_submit(tasks_empty, 0, tasks.t_n);
	then = tasks_now();
	tasks_say(".bytes", (tasks_resident() - before) / tasks.t_n);
	tasks_say(".queue_ns", (double)(then - start) / tasks.t_n);
	start = tasks_now();
	tasks_let_go();
	tasks_say(".run_ns", (double)(tasks_now() - start) / tasks.t_n);
	tasks_check();
}

static const struct tasks_bench {
	const char *b_name;
	void      (*b_run)(void);
	bool        b_m, b_many, b_apart;
} tasks_table[] = {
	{ "empty",  bench_empty,  false, true,  false },
	{ "work",   bench_work,   true,  true,  false },
	{ "submit", bench_submit, true,  true,  false },
	{ "half",   bench_half,   true,  false, true },
	{ "urgent", bench_urgent, true,  false, true },
	{ "queued", bench_queued, false, true,  false },
	{ "batch",  bench_batch,  true,  true,  false },
};

static int tasks_usage(const char *program, const char *why)
{
	fprintf(stderr, "%s: %s\nusage: %s one|many NAME[:M] N P\n", program,
		why, program);
	return TASKS_USAGE;
}

/* Returns the number in text, or -1 if it is none, or not within least, most. */
static long tasks_number(const char *text, long least, long most)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	return text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 ||
		v < least || v > most ? -1 : v;
}

/* Finds the question in the table, and its M. */
static const struct tasks_bench *tasks_find(const char *text)
{
	size_t i, length = strcspn(text, ":");
	bool m = text[length] == ':';

	tasks.t_m = m ? tasks_number(text + length + 1, 1, INT32_MAX) : 0;
	for (i = 0; i < sizeof tasks_table / sizeof tasks_table[0]; i++)
		if (strlen(tasks_table[i].b_name) == length &&
		    strncmp(tasks_table[i].b_name, text, length) == 0)
			return tasks.t_m >= 0 && tasks_table[i].b_m == m ?
				&tasks_table[i] : NULL;
	return NULL;
}

static int tasks_steps(void)
{
	tasks_say(".steps", tasks.t_n * 1e3 * 1e6 / tasks_last(1000000));
	return 0;
}

static int tasks_main(int argc, char **argv)
{
	const struct tasks_bench *b;

	if (argc != 5)
		return tasks_usage(argv[0], "too few or too many arguments");
	tasks.t_many  = strcmp(argv[1], "many") == 0;
	tasks.t_asked = argv[2];
	tasks.t_n = tasks_number(argv[3], 1, INT32_MAX);
	tasks.t_p = (int)tasks_number(argv[4], 1, 256);
	if (!tasks.t_many && strcmp(argv[1], "one") != 0)
		return tasks_usage(argv[0], "neither one nor many");
	if (tasks.t_n < 0 || tasks.t_p < 0)
		return tasks_usage(argv[0], "not a number, or out of range");
	if (strcmp(argv[2], "steps") == 0)
		return tasks_steps();
	b = tasks_find(argv[2]);
	if (b == NULL)
		return tasks_usage(argv[0], "no such question");
	if ((tasks.t_many && !b->b_many) || !pool_has(b->b_name))
		return TASKS_NONE;
	tasks.t_apart = b->b_apart;
	tasks.t_batch = b->b_run == bench_batch;
	if (tasks.t_batch && tasks.t_m > TASKS_MOST)
		return tasks_usage(argv[0], "a batch of too many");
	tasks.t_room  = b->b_run == bench_queued ? tasks.t_n + tasks.t_p :
		b->b_run == bench_batch ? tasks.t_m + tasks.t_p :
		b->b_run == bench_urgent ? tasks.t_n + 2 * TASKS_LOAD :
		TASKS_ROOM;
	sem_init(&held, 0, 0);
	sem_init(&go_on, 0, 0);
	seen = tasks_memory(tasks.t_n);
	pool_run(b->b_run);
	free(seen);
	return 0;
}

#endif /* TASKS_H */
