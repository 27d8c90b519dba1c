/* SPDX-License-Identifier: MIT */
/* source: a scheduler looks at sources of events, and sleeps in them. */
/* VARIANTS: RR LL WS */

/*
 * A gate is a source: a pipe, for whose bytes a thread waits, a byte each time.
 * A native thread writes bytes to gates in any order, and waits until each has
 * arrived. So an event comes while all processors sleep, or beside a thread that
 * only yields. Each processor has three gates. It can sleep in two of them. A
 * processor does not wake itself when it ends waits of its own threads. The set
 * does not end while a thread waits for a byte, and then frees each gate.
 *
 * A thread whose messages come as fast as it takes them does not keep its
 * processor from its gates. Under virtual time the clock stands still while a
 * thread waits for a byte.
 */
#include "either.h"
#include "lock.h"
#include "uwait.h"

#include <fcntl.h>
#include <poll.h>

#define PROCS	3
#define GATES	3		/* of each processor */
#define ROUNDS	300
#define TURNS	100000

static struct gate {
	struct uwait_source g_source;	/* first */
	int                 g_pipe[2];
	int                 g_wake[2];
	struct ulock        g_lock;
	struct uwait       *g_wait;	/* the waiter, under the lock */
	long                g_got;	/* bytes (atomic) */
	long                g_last;	/* the next byte is (atomic) */
} gates[PROCS * GATES];

static int  gate_nr;
static long freed;
static long done;
static long woken;		/* sleeps that a wake has ended (atomic) */

static bool can_read(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, 0) == 1;
}

static void look(struct uwait_source *o)
{
	struct gate *g = (struct gate *)o;
	struct uwait *w;
	char byte;

	ulock_get(&g->g_lock);
	w = g->g_wait;
	if (w != NULL && can_read(g->g_pipe[0])) {
		CHECK_IS(read(g->g_pipe[0], &byte, 1), 1);
		g->g_wait = NULL;
		CHECK(uwait_claim(w));
	} else
		w = NULL;
	ulock_put(&g->g_lock);
	if (w != NULL)
		uwait_complete(w, 0);
}

static void sleep_in(struct uwait_source *o, utime_ns ns)
{
	struct gate *g = (struct gate *)o;
	struct pollfd p[2] = { { g->g_pipe[0], POLLIN, 0 },
			       { g->g_wake[0], POLLIN, 0 } };
	char wakes[64];

	(void)poll(p, 2, ns == UNEVER ? -1 : (int)(ns / UTIME_MS + 1));
	while (read(g->g_wake[0], wakes, sizeof wakes) > 0)
		add(&woken, 1);
	look(o);
}

static void gate_free(struct uwait_source *o)
{
	struct gate *g = (struct gate *)o;
	int i;

	CHECK(o->o_waits == 0 && g->g_wait == NULL);
	for (i = 0; i < 2; i++)
		CHECK(close(g->g_pipe[i]) == 0 && close(g->g_wake[i]) == 0);
	freed++;
}

static void gate_init(struct gate *g, bool sleeps)
{
	memset(g, 0, sizeof *g);
	CHECK(pipe(g->g_pipe) == 0 && pipe(g->g_wake) == 0);
	CHECK_IS(fcntl(g->g_wake[0], F_SETFL, O_NONBLOCK), 0);
	CHECK_IS(fcntl(g->g_wake[1], F_SETFL, O_NONBLOCK), 0);
	g->g_source.o_look = look;
	g->g_source.o_fini = gate_free;
	g->g_source.o_wake = g->g_wake[1];
	g->g_source.o_nap  = 100 * UTIME_US;
	if (sleeps)
		g->g_source.o_sleep = sleep_in;
}

static void gate_wait(struct gate *g)
{
	struct uwait *w;

	w = uwait_make(UWAIT_OTHER, g, sizeof *w);
	CHECK(w != NULL);
	uwait_source_begin(&g->g_source);
	ulock_get(&g->g_lock);
	g->g_wait = w;
	ulock_put(&g->g_lock);
	CHECK_IS(uwait_for(w, UNEVER), 0);
	uwait_source_end(&g->g_source);
	uwait_free(w);
}

static void gate_open(struct gate *g)
{
	CHECK_IS(write(g->g_pipe[1], "", 1), 1);
}

static void waiter(void *arg)
{
	struct gate *g = arg;
	bool last;

	CHECK(uwait_source_of(look) != NULL);
	do {
		gate_wait(g);
		last = get(&g->g_last) != 0;
		if (check_hash(check_seed, (unsigned)g->g_got) % 4 == 0)
			yield();
		add(&g->g_got, 1);
	} while (!last);
	add(&done, 1);
}

/* Adds the gates of a processor, and makes their waiters. */
static void owner(void *arg)
{
	int proc = (int)(intptr_t)arg;
	int i;

	for (i = 0; i < GATES; i++) {
		struct gate *g = &gates[proc * GATES + i];

		CHECK_IS(uwait_source_add(&g->g_source), 0);
		make(proc, waiter, g);
	}
}

static void yields(void *arg)
{
	yield_until(&done, gate_nr);
}

static void *opens(void *arg)
{
	unsigned r = check_hash(check_seed, 1);
	int i;

	for (i = 0; i < ROUNDS + gate_nr; i++) {
		struct gate *g = &gates[i < ROUNDS ?
			(int)(check_random(&r) % (unsigned)gate_nr) :
			i - ROUNDS];
		long had = get(&g->g_got);

		if (check_random(&r) % 2 == 0)
			usleep(check_random(&r) % 300);
		if (i >= ROUNDS)
			set(&g->g_last, 1);
		gate_open(g);
		until(&g->g_got, had + 1);
	}
	return NULL;
}

static void all_come(int procs, bool busy)
{
	pthread_t id;
	int i;

	doing("%s", busy ? "beside a thread that yields" : "all");
	gate_nr = procs * GATES;
	done = freed = woken = 0;
	for (i = 0; i < gate_nr; i++)
		gate_init(&gates[i], i % GATES != GATES - 1);
	begin(procs, 0);
	for (i = 0; i < procs; i++)
		make(i, owner, (void *)(intptr_t)i);
	if (busy)
		make(0, yields, NULL);
	id = native(opens, NULL);
	start_and_finish();
	native_join(id);
	CHECK(done == gate_nr && freed == gate_nr);
	CHECK(procs > 1 || woken <= 1);		/* by fini() */
}

/* A thread that wakes itself: its message has come whenever it waits. */

static void alone_waits(void *arg)
{
	gate_wait(arg);
	add(&done, 1);
}

static void wakes_itself(void *arg)
{
	thread *self = (thread *)ustack_self();
	int turns;

	CHECK_IS(uwait_source_add(&gates[0].g_source), 0);
	make(0, alone_waits, arg);
	while (gates[0].g_source.o_waits == 0)
		yield();
	for (turns = 0; get(&done) == 0; turns++) {
		CHECK_THAT(turns, <, TURNS);
		SCHED(post)(self);
		wait_one();
	}
}

static void not_starved(void)
{
	doing("not starved");
	done = freed = 0;
	gate_init(&gates[0], true);
	gate_open(&gates[0]);
	one_thread(1, wakes_itself, &gates[0]);
	CHECK(done == 1 && freed == 1);
}

/* Virtual time. */

static void sleeps(void *arg)
{
	CHECK_IS(u_sleep(*(utime_ns *)arg), 0);
	CHECK_IS(done, 1);
}

static void waits(void *arg)
{
	utime_ns *when = arg;
	utime_ns before = unow();

	CHECK_IS(uwait_source_add(&gates[0].g_source), 0);
	*when = before + UTIME_S;
	make(0, sleeps, when);
	gate_wait(&gates[0]);
	CHECK_IS(unow(), before);
	done = 1;
}

static void *opens_late(void *arg)
{
	usleep(5000);
	gate_open(&gates[0]);
	return NULL;
}

static void stands_still(int procs)
{
	utime_ns when = 0;
	pthread_t id;

	doing("virtual time");
	done = freed = 0;
	gate_init(&gates[0], true);
	begin(procs, 0);
	make(0, waits, &when);
	id = native(opens_late, NULL);
	start_and_finish();
	native_join(id);
	CHECK(freed == 1 && unow() == when);
}

int main(int argc, char **argv)
{
	int procs;

	check_start(argc, argv);
	gate_init(&gates[0], true);
	CHECK_IS(uwait_source_add(&gates[0].g_source), -EINVAL);
	gate_free(&gates[0].g_source);
	for (procs = 1; procs <= PROCS; procs++) {
		all_come(procs, false);
		all_come(procs, true);
	}
	not_starved();
	utime_virtual(check_seed | 1);
	stands_still(1);
	stands_still(2);
	return 0;
}
