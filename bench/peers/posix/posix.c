/*
 * SPDX-License-Identifier: MIT
 *
 * posix.c: the benchmark of bench.h on POSIX threads, each with a semaphore.
 *
 * A thread of the benchmark is a pthread with default attributes. The kernel
 * makes all switches, and may also move threads between processors. A wake is
 * sem_post() on the semaphore of the right neighbour, a wait is sem_wait() on
 * the thread's own. A semaphore counts, so a wake that comes first is kept, and
 * a wait that finds a wake does not enter the kernel.
 *
 * PROCESSORS. If P is less than the number of processors that the process may
 * use, the process is confined to the first P of these, main thread included.
 * Which thread runs on which of them is left to the kernel. A larger P changes
 * nothing, except in EMPTY, where P is also the number of threads that make the
 * others.
 *
 * START. Each thread first touches its D bytes and then says that it is ready.
 * A thread that does not start a ring goes on to its first sem_wait(), which
 * keeps it until the ring arrives. A thread that starts a ring first waits at
 * the gate. When all threads are ready, the main thread takes the time, and
 * opens the gate by R posts; a broadcast would run all N * R threads, most of
 * which have nothing to do yet. The last thread to end takes the time again.
 *
 * BLOCKS are voluntary context switches, which the kernel counts for each
 * thread (ru_nvcsw), from before its first message to after its last. In
 * between, only sem_wait() sleeps. A thread that the kernel preempts has not
 * blocked, nor has a thread whose sem_wait(), on its way into the kernel, finds
 * that the post has come.
 *
 * EMPTY threads are detached. If they were joined, each would stay until then,
 * and all of them at once are more than there can be. So some have ended before
 * the last is made, and the kernel decides how many there are at any time. If
 * there are too many, the program fails, as in the other forms.
 *
 * BLOCKED. When all threads are ready, the kernel is asked for the state of
 * each until it sleeps; only sem_wait() can sleep. The bytes are those resident
 * in user space: the top of the stack, with the data that the C library keeps
 * there for a thread. The kernel's data are not included, and are more: its own
 * stack for each thread has 16 KiB on x86-64 and aarch64.
 *
 * LIMITS. The stacks are those of the system (8 MiB with the usual ulimit -s),
 * of which only touched pages are resident; they are larger only if D does not
 * fit. Each stack and its guard are two mappings, of which a process may have
 * vm.max_map_count (65530 by default), so there can be some 32,000 threads.
 * kernel.threads-max, kernel.pid_max and ulimit -u may allow fewer. When no
 * more threads can be made, the program says how many there are and ends.
 *
 * MANY. Since Linux 6.17 (PR_FUTEX_HASH in the manual) a process finds its
 * sleeping threads in a hash table of its own. On our two processors that had
 * 16 slots, for any number of threads. With 20000 threads, more slots, by
 * prctl(), made the rings about ten times as fast; with 2000 the difference was
 * within the noise. We do not ask for more slots, since users do not either.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "../../bench.h"

enum {
	LINE       = 64,
	STACK_MORE = 64 << 10,	/* stack of a thread, beside D */
	NAP        = 1000	/* us, before the kernel is asked again */
};

/* On cache lines of its own, since others write to the semaphore. */
struct thread {
	sem_t          t_sem;
	struct thread *t_right;
	bool           t_starts;	/* the first round */
	int            t_turn;		/* rounds until it starts a round */
	pid_t          t_tid;
	pthread_t      t_native;
} __attribute__((aligned(LINE)));

/* One of P threads that make the empty threads. */
struct maker {
	long      k_nr;
	pthread_t k_native;
};

static struct bench     bench;
static struct bench_end end;
static struct thread   *threads;	/* ring 0, ring 1, ... */

static sem_t gate;		/* threads that start rings wait here */
static sem_t all_ready;		/* posted once */
static sem_t all_ended;		/* posted once */

static atomic_long made;	/* threads */
static atomic_long unready;	/* threads that are not yet ready */
static atomic_long running;	/* threads that have not yet ended */
static atomic_long received;
static atomic_long ended;	/* ended properly */
static atomic_long blocks;

static void confine(void);
static void prepare(void);
static void run_rings(void);
static void run_empty(void);
static void run_blocked(void);

int main(int argc, char **argv)
{
	int rc = bench_args(&bench, argc, argv);

	if (rc != 0)
		return rc;
	confine();
	prepare();
	if (bench.b_what == BENCH_EMPTY)
		run_empty();
	else if (bench.b_what == BENCH_BLOCKED)
		run_blocked();
	else
		run_rings();
	end.e_received = received;
	end.e_ended    = ended;
	end.e_blocks   = blocks;
	return bench_report(&bench, &end);
}

static void make(pthread_t *native, const pthread_attr_t *attr,
		 void *(*f)(void *), void *arg)
{
	int rc = pthread_create(native, attr, f, arg);

	if (rc != 0) {
		fprintf(stderr, "%s: no more threads after %ld of %ld: %s\n",
			bench.b_name, made, bench_threads(&bench),
			strerror(rc));
		_exit(BENCH_FAILED);
	}
	made++;
}

/* Confines the process to the first P of the allowed processors. */
static void confine(void)
{
	cpu_set_t may;
	int       left = bench.b_p;
	int       cpu;

	if (sched_getaffinity(0, sizeof may, &may) != 0)
		bench_die(&bench, "sched_getaffinity", errno);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &may) && left-- <= 0)
			CPU_CLR(cpu, &may);
	if (sched_setaffinity(0, sizeof may, &may) != 0)
		bench_die(&bench, "sched_setaffinity", errno);
}

static void prepare(void)
{
	if (sem_init(&gate, 0, 0) != 0 || sem_init(&all_ready, 0, 0) != 0 ||
	    sem_init(&all_ended, 0, 0) != 0)
		bench_die(&bench, "sem_init", errno);
	unready = running = bench_threads(&bench);
}

static void post(sem_t *sem)
{
	if (__builtin_expect(sem_post(sem) != 0, false))
		bench_die(&bench, "sem_post", errno);
}

static void wait_for(sem_t *sem)
{
	while (__builtin_expect(sem_wait(sem) != 0, false))
		if (errno != EINTR)
			bench_die(&bench, "sem_wait", errno);
}

static void make_all(void *(*f)(void *));
static void join_all(void);
static void *ring_thread(void *arg);
static void *blocked_thread(void *arg);

static void run_rings(void)
{
	int ring;

	make_all(ring_thread);
	wait_for(&all_ready);
	end.e_start = bench_now();
	for (ring = 0; ring < bench.b_r; ring++)
		post(&gate);
	wait_for(&all_ended);
	join_all();
}

static bool asleep(const struct thread *t);

static void run_blocked(void)
{
	long nr = bench_threads(&bench);
	long i;

	end.e_resident = bench_resident(0);
	make_all(blocked_thread);
	wait_for(&all_ready);
	for (i = 0; i < nr; i++)
		while (!asleep(&threads[i]))
			usleep(NAP);
	for (i = 0; i < nr; i++)
		post(&threads[i].t_sem);
	wait_for(&all_ended);
	join_all();
}

static void *maker_main(void *arg);

static void run_empty(void)
{
	struct maker *makers = calloc(bench.b_p, sizeof *makers);
	int  i;
	int  rc = 0;

	if (makers == NULL)
		bench_die(&bench, "memory for the makers", ENOMEM);
	for (i = 0; i < bench.b_p; i++)
		makers[i].k_nr = bench_share(&bench, bench.b_r, i);
	end.e_start = bench_now();
	for (i = 1; i < bench.b_p && rc == 0; i++)
		rc = pthread_create(&makers[i].k_native, NULL, maker_main,
				    &makers[i]);
	if (rc != 0)
		bench_die(&bench, "cannot start a maker", rc);
	maker_main(&makers[0]);
	wait_for(&all_ended);
	for (i = 1; i < bench.b_p && rc == 0; i++)
		rc = pthread_join(makers[i].k_native, NULL);
	if (rc != 0)
		bench_die(&bench, "pthread_join", rc);
	free(makers);
}

static void *empty_thread(void *arg);

static void *maker_main(void *arg)
{
	const struct maker *maker = arg;
	pthread_attr_t attr;
	pthread_t native;
	long i;
	int  rc = pthread_attr_init(&attr);

	if (rc == 0)
		rc = pthread_attr_setdetachstate(&attr,
						 PTHREAD_CREATE_DETACHED);
	if (rc != 0)
		bench_die(&bench, "attributes of threads", rc);
	for (i = 0; i < maker->k_nr; i++)
		make(&native, &attr, empty_thread, NULL);
	pthread_attr_destroy(&attr);
	return NULL;
}

/* The last to call this takes the time. */
static void thread_ended(bool in_order)
{
	ended += in_order;
	if (--running == 0) {
		end.e_end = bench_now();
		post(&all_ended);
	}
}

static void *empty_thread(void *arg)
{
	(void)arg;
	thread_ended(true);
	return NULL;
}

/* Returns NULL for the defaults; or attr, with its size, if D does not fit. */
static const pthread_attr_t *attributes(pthread_attr_t *attr)
{
	size_t size;
	int    rc = pthread_attr_init(attr);

	if (rc == 0)
		rc = pthread_attr_getstacksize(attr, &size);
	if (rc == 0 && size < (size_t)bench.b_d + STACK_MORE)
		rc = pthread_attr_setstacksize(attr, (size_t)bench.b_d +
					       STACK_MORE);
	if (rc != 0)
		bench_die(&bench, "attributes of threads", rc);
	return attr;
}

static void make_all(void *(*f)(void *))
{
	long nr = bench_threads(&bench);
	const pthread_attr_t *attr;
	pthread_attr_t space;
	struct thread *t;
	long i;

	threads = aligned_alloc(LINE, nr * sizeof threads[0]);
	if (threads == NULL)
		bench_die(&bench, "memory for the threads", ENOMEM);
	attr = attributes(&space);
	for (i = 0; i < nr; i++) {
		t = &threads[i];
		t->t_turn   = i % bench.b_n;
		t->t_starts = t->t_turn == 0;
		t->t_right  = t->t_turn == bench.b_n - 1 ?
			t - t->t_turn : t + 1;
		if (sem_init(&t->t_sem, 0, 0) != 0)
			bench_die(&bench, "sem_init", errno);
	}
	for (i = 0; i < nr; i++)
		make(&threads[i].t_native, attr, f, &threads[i]);
	pthread_attr_destroy(&space);
}

static void join_all(void)
{
	long i;
	int  rc;

	for (i = 0; i < bench_threads(&bench); i++) {
		rc = pthread_join(threads[i].t_native, NULL);
		if (rc != 0)
			bench_die(&bench, "pthread_join", rc);
	}
	free(threads);
}

/* Returns the voluntary context switches of the calling thread. */
static long switches(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_THREAD, &usage) != 0)
		bench_die(&bench, "getrusage", errno);
	return usage.ru_nvcsw;
}

static void ready(void)
{
	if (--unready == 0)
		post(&all_ready);
}

/*
 * t_turn counts down to the round that the thread starts. There is one wait.
 */
static void ring_run(struct thread *me)
{
	bool count = bench.b_what == BENCH_BLOCKS;
	int  turn  = me->t_turn;
	long before;
	int  left;

	ready();
	if (me->t_starts)
		wait_for(&gate);
	before = count ? switches() : 0;
	for (left = bench.b_m; left > 0; left--, turn--) {
		bool starts = turn == 0;

		if (starts) {
			post(&me->t_right->t_sem);
			turn = bench.b_n;
		}
		wait_for(&me->t_sem);
		if (!starts)
			post(&me->t_right->t_sem);
	}
	if (count)
		blocks += switches() - before;
	received += bench.b_m;
}

static void blocked_run(struct thread *me)
{
	me->t_tid = gettid();
	ready();
	wait_for(&me->t_sem);
}

/* Calls f with D more bytes on the stack. True: they have kept their value. */
static bool deep(void (*f)(struct thread *), struct thread *me)
{
	volatile char space[bench.b_d];

	memset((char *)space, 'D', bench.b_d);
	f(me);
	return space[0] == 'D' && space[bench.b_d - 1] == 'D';
}

static void thread_run(void (*f)(struct thread *), struct thread *me)
{
	bool in_order = true;

	if (bench.b_d > 0)
		in_order = deep(f, me);
	else
		f(me);
	thread_ended(in_order);
}

static void *ring_thread(void *arg)
{
	thread_run(ring_run, arg);
	return NULL;
}

static void *blocked_thread(void *arg)
{
	thread_run(blocked_run, arg);
	return NULL;
}

/* The state follows the name, which may itself contain ")". */
static bool asleep(const struct thread *t)
{
	char  path[64];
	char  line[256] = "";
	char *state;
	FILE *stat;

	snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)t->t_tid);
	stat = fopen(path, "r");
	if (stat == NULL)
		bench_die(&bench, path, errno);
	if (fgets(line, sizeof line, stat) == NULL)
		bench_die(&bench, path, EIO);
	fclose(stat);
	state = strrchr(line, ')');
	return state != NULL && strncmp(state, ") S", 3) == 0;
}
