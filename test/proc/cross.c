/* SPDX-License-Identifier: MIT */
/* cross: no wake from another processor, native thread or handler is lost. */
/* VARIANTS: RR LL WS PR */

/*
 * No wake is counted twice, either. Two threads on two processors play
 * ping-pong. Threads, native threads that hold the scheduler, and signal
 * handlers wake threads of all processors, which park and are woken all the
 * time.
 */
#include "either.h"

#define WAITERS	8
#define KICKS	10000

/* Two numbers in a row: those of macOS, which has no others, are. */
#if !defined(SIGRTMIN)
#define SIGRTMIN	SIGUSR1
#endif

static long ended;

/* Ping-pong. */

static thread *side[2];
static int rounds;

static void ping(void *arg)
{
	int me = (int)(intptr_t)arg;
	int i;

	for (i = 0; i < rounds; i++) {
		if (me == 0)
			SCHED(wake)(side[1]);
		wait_one();
		if (me == 1)
			SCHED(wake)(side[0]);
	}
	add(&ended, 1);
}

static void ping_pong(int proc_nr, int from, int to, int nr)
{
	set(&ended, 0);
	rounds = nr;
	begin(proc_nr, 2);
	side[0] = make(from, ping, (void *)0);
	side[1] = make(to,   ping, (void *)1);
	start_and_finish();
	CHECK_IS(ended, 2);
}

/* Exact counts. */

static thread *waiter[WAITERS];
static int each, wakers;

static void waits(void *arg)
{
	long i;

	for (i = 0; i < (long)wakers * each; i++)
		wait_one();
	add(&ended, 1);
}

static void wake_all(unsigned state)
{
	int left[WAITERS];
	long nr = (long)WAITERS * each;
	int i;

	for (i = 0; i < WAITERS; i++)
		left[i] = each;
	while (nr > 0) {
		i = (int)(check_random(&state) % WAITERS);
		if (left[i] > 0) {
			left[i]--;
			nr--;
			SCHED(wake)(waiter[i]);
		}
		if (check_random(&state) % 5000 == 0)
			usleep(50);	/* so that processors park */
	}
}

static void thread_wakes(void *arg)
{
	wake_all((unsigned)(uintptr_t)arg);
	add(&ended, 1);
}

static void *native_wakes(void *arg)
{
	wake_all((unsigned)(uintptr_t)arg);
	SCHED(release)();
	return NULL;
}

static void counts(int proc_nr, int thread_nr, int native_nr, int nr)
{
	pthread_t id[4];
	long i;

	set(&ended, 0);
	each = nr;
	wakers = thread_nr + native_nr;
	begin(proc_nr, 0);
	for (i = 0; i < WAITERS; i++)
		waiter[i] = make((int)i, waits, NULL);
	for (i = 0; i < thread_nr; i++)
		make((int)i, thread_wakes, (void *)(check_seed + i));
	CHECK_IS(SCHED(start)(), 0);
	for (i = 0; i < native_nr; i++) {
		SCHED(hold)();
		id[i] = native(native_wakes, (void *)(check_seed + 99 + i));
	}
	finish();
	CHECK_IS(ended, WAITERS + thread_nr);
	for (i = 0; i < native_nr; i++)
		native_join(id[i]);
}

/* Handlers. */

static thread *target[2];
static pthread_t proc[2];
static long here, received;

static void handler(int signo)
{
	SCHED(post)(target[signo - SIGRTMIN]);
}

static void hit(void *arg)
{
	int i;

	proc[(intptr_t)arg] = pthread_self();
	add(&here, 1);
	for (i = 0; i < 2 * KICKS; i++) {
		wait_one();
		add(&received, 1);
	}
}

/* Real-time signals are queued, so each arrives. */
static void kick(pthread_t id, int signo)
{
	int rc;

	while ((rc = pthread_kill(id, signo)) == EAGAIN)
		check_yield();
	CHECK_IS(rc, 0);
}

static void *kicker(void *arg)
{
	unsigned state = check_seed;
	int i;

	until(&here, 2);
	for (i = 0; i < KICKS; i++) {
		kick(proc[0], SIGRTMIN);
		kick(proc[1], SIGRTMIN);
		kick(proc[0], SIGRTMIN + 1);
		kick(proc[1], SIGRTMIN + 1);
		if (check_random(&state) % 64 == 0)
			usleep(50);
	}
	until(&received, 4 * KICKS);
	SCHED(release)();
	return NULL;
}

static void handlers(void)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_RESTART };
	long i;

	set(&here, 0);
	set(&received, 0);
	CHECK_IS(sigaction(SIGRTMIN, &sa, NULL), 0);
	CHECK_IS(sigaction(SIGRTMIN + 1, &sa, NULL), 0);
	begin(2, 0);
	for (i = 0; i < 2; i++)
		target[i] = make((int)i, hit, (void *)i);
	start_and_finish_with(kicker, NULL);
	CHECK_IS(received, 4 * KICKS);
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	doing("in ping_pong");
	ping_pong(2, 0, 1, 200000);
	ping_pong(4, 0, 2, 20000);	/* with two cpus: on the same cpu */
	for (i = 0; i < 100; i++)
		ping_pong(1 + i % 5, i, i / 5, 20);
	doing("in counts");
	counts(2, 2, 0, 60000);
	counts(2, 0, 2, 60000);
	counts(2, 2, 2, 30000);
	counts(4, 4, 2, 20000);
	doing("in handlers");
	handlers();
	return 0;
}
