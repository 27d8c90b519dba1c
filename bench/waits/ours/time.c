/* SPDX-License-Identifier: MIT */
/* time.c: timers, and waits with deadlines. */

/*
 * CHURN is the wheel alone. Its nodes lie in records of waits, as usual. The M
 * timers of TIMED are threads that sleep.
 */
#include "ours.h"

#include "private/wheel.h"

enum { SHIFT = 16 };			/* of a tick, as in timers.h */

static struct uwheel wheel;

static struct uwait *outstanding(void)
{
	struct uwait *all = waits_memory(waits.w_m * sizeof *all);
	int64_t now = waits_now();
	uint64_t r = 1;
	long i;

	uwheel_init(&wheel, now, SHIFT);
	for (i = 0; i < waits.w_m; i++)
		uwheel_start(&wheel, &all[i].w_node,
			     now + waits_deadline(&r));
	return all;
}

static inline void churn(bool random)
{
	struct uwait *all = outstanding();
	int64_t start = waits_now();
	uint64_t r = 2;
	long i;

	for (i = 0; i < waits.w_n; i++) {
		long which = waits_random(&r) % waits.w_m;
		struct uwheel_node *n = &all[which].w_node;
		int64_t d = random ? waits_deadline(&r) : WAITS_AHEAD;

		uwheel_stop(&wheel, n);
		uwheel_start(&wheel, n, waits_now() + d);
	}
	waits_took(start);
}

void churn_random(void)
{
	churn(true);
}

void churn_same(void)
{
	churn(false);
}

static int64_t burst;
static int64_t *late;
static long asleep;			/* or nearly (atomic) */

static void sleeper(void *arg)
{
	int64_t *mine = arg;
	int64_t until = burst + (mine - late) % WAITS_BURSTS *
			(WAITS_S / WAITS_BURSTS);

	__atomic_add_fetch(&asleep, 1, __ATOMIC_RELAXED);
	ok(u_sleep(until));
	*mine = waits_now() - until;
	__atomic_sub_fetch(&asleep, 1, __ATOMIC_RELEASE);
}

static void till_asleep(long nr)
{
	while (__atomic_load_n(&asleep, __ATOMIC_ACQUIRE) != nr)
		ok(SCHED(yield)());
}

static void idle(double before)
{
	int64_t cpu, then;

	if (burst - waits_now() < WAITS_BEFORE)
		waits_die("making took too long to see the sleepers idle");
	ok(u_sleep(burst - WAITS_BEFORE));
	waits_say(".bytes", (waits_resident() - before) / waits.w_n);
	cpu = waits_used();
	then = waits_now();
	ok(u_sleep(then + WAITS_IDLE));
	waits_say(".idle_cpu_percent",
		  100.0 * (waits_used() - cpu) / (waits_now() - then));
}

void sleepers(void)
{
	size_t size = waits.w_n * sizeof *late;
	double before;
	int64_t start;
	long i;

	late = memset(waits_memory(size), -1, size);
	before = waits_resident();
	start = waits_now();
	burst = start + waits.w_m * WAITS_S;
	for (i = 0; i < waits.w_n; i++)
		make(i % waits.w_p, sleeper, &late[i]);
	till_asleep(waits.w_n);
	waits_say(".make_ns", (double)(waits_now() - start) / waits.w_n);
	idle(before);
	ok(u_sleep(burst + WAITS_S));
	till_asleep(0);
	waits_late(late);
}

static struct uchan *there, *back;

static void other(void *arg)
{
	(void)arg;
	__atomic_add_fetch(&asleep, 1, __ATOMIC_RELAXED);
	ok(u_sleep(burst));
}

static void receive(struct uchan *c)
{
	uint64_t v;

	ok(uchan_recv(c, &v, uafter(WAITS_AHEAD)));
}

static void to_and_fro(int id, long n)
{
	for (n = waits.w_n / 2; n > 0; n--) {
		if (id == 0) {
			put(there, 0);
			receive(back);
		} else {
			receive(there);
			put(back, 0);
		}
	}
}

void timed(void)
{
	long i;

	there = channel(0);
	back = channel(0);
	burst = waits_now() + WAITS_AHEAD;
	for (i = 0; i < waits.w_m; i++)
		make(i % waits.w_p, other, NULL);
	till_asleep(waits.w_m);
	each(2, to_and_fro);
}
