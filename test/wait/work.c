/* SPDX-License-Identifier: MIT */
/* VARIANTS: RR LL WS PR */
/* work: each job is done once, the urgent ones first, and never too many
 * wait. */
/* LIBS: @test/run/fail.wrap */

/*
 * Jobs wait, put other jobs, and come from native threads. A drain ends when no
 * job is left, for all who wait for that. After the end no job is taken. If the
 * n-th call to the system fails, then each job was either refused or done, or
 * the end says that no worker was left.
 */
#include "either.h"
#include "fail.h"
#include "uwork.h"

#define JOBS	500
#define LEVELS	3

static struct uwork *k;
static long done, puts_ended, more;
static char order[LEVELS * JOBS + 2];

static void counts(void *arg)
{
	add(&done, 1);
}

static void notes(void *arg)
{
	order[done++] = (char)(intptr_t)arg;
}

static void waits_and_counts(void *arg)
{
	unsigned seed = check_hash(check_seed, (unsigned)(intptr_t)arg);

	if (seed % 4 == 0)
		yield();
	if (seed % 8 == 0)
		CHECK_IS(u_sleep(uafter(seed % 1000)), 0);
	add(&done, 1);
}

static void alone(int p, void (*f)(void *))
{
	done = 0;
	one_thread(p, f, NULL);
}

static struct uchan *gate;

static void waits_for_gate(void *arg)
{
	CHECK_IS(uchan_recv(gate, NULL, UNEVER), 0);
	add(&done, 1);
}

/* A single worker takes the jobs of each level in their order. */
static void by_level(void *arg)
{
	int i, j;

	gate = uchan_make(0, 0);
	k = uwork_make(1, LEVELS, JOBS + 1);
	CHECK(gate != NULL && k != NULL);
	memset(order, 0, sizeof order);
	CHECK_IS(uwork_put(k, waits_for_gate, NULL, 0, UNOW), 0);
	/* From the least urgent on, so the order of puts is another. */
	for (i = LEVELS; i-- > 0; )
		for (j = 0; j < JOBS; j++)
			CHECK_IS(uwork_put(k, notes,
				 (void *)(intptr_t)('0' + i), i, UNOW), 0);
	CHECK_IS(uchan_send(gate, NULL, UNEVER), 0);
	CHECK_IS(uwork_drain(k, UNEVER), 0);
	CHECK_IS(done, LEVELS * JOBS + 1);
	for (i = 0; i < LEVELS * JOBS; i++)
		CHECK_IS(order[i + 1], '0' + i / JOBS);
	CHECK_IS(uwork_put(k, notes, NULL, LEVELS, UNEVER), -EINVAL);
	CHECK_IS(uwork_put(k, notes, NULL, -1, UNEVER), -EINVAL);
	CHECK_IS(uwork_put(k, NULL, NULL, 0, UNEVER), -EINVAL);
	CHECK_IS(uwork_free(k, UNEVER), 0);
	uchan_free(gate);
}

/* A full level refuses, or lets the caller wait. */

static void bounded(void *arg)
{
	int i;

	gate = uchan_make(0, 0);
	k = uwork_make(2, 1, 5);
	CHECK(gate != NULL && k != NULL);
	for (i = 0; i < 7; i++)
		CHECK_IS(uwork_put(k, waits_for_gate, NULL, 0, UNEVER), 0);
	while (uwork_put(k, waits_for_gate, NULL, 0, UNOW) != -EAGAIN)
		CHECK_THAT(i++, <, 8);
	CHECK_IS(uwork_put(k, waits_for_gate, NULL, 0, uafter(UTIME_MS)),
		 -ETIMEDOUT);
	CHECK_IS(uwork_drain(k, UNOW), -EAGAIN);
	CHECK_IS(uwork_drain(k, uafter(UTIME_MS)), -ETIMEDOUT);
	CHECK_IS(uwork_free(k, uafter(UTIME_MS)), -ETIMEDOUT);
	CHECK_IS(uwork_put(k, counts, NULL, 0, UNEVER), -EPIPE);
	CHECK_IS(done, 0);
	while (i-- > 0)
		CHECK_IS(uchan_send(gate, NULL, UNEVER), 0);
	CHECK_IS(uwork_free(k, UNEVER), 0);
	uchan_free(gate);
}

/* Jobs from everywhere, several drains. */

static void puts_jobs(void *arg)
{
	int i;

	for (i = 0; i < JOBS; i++)
		CHECK_IS(uwork_put(k, waits_and_counts,
			 (void *)((intptr_t)arg * JOBS + i), i % LEVELS,
			 UNEVER), 0);
	CHECK_IS(uwork_drain(k, UNEVER), 0);
	add(&puts_ended, 1);
}

static void *puts_natively(void *arg)
{
	puts_jobs(arg);
	SCHED(release)();
	return NULL;
}

/* A job that puts jobs until the end has begun. */
static void puts_more(void *arg)
{
	int rc;

	while ((rc = uwork_put(k, counts, arg, 0, UNOW)) != -EPIPE) {
		if (rc == 0)
			add(&more, 1);
		yield();
	}
	add(&done, 1);
}

static void from_all(void *arg)
{
	pthread_t id;
	int i;

	puts_ended = 0;
	k = uwork_make(100, LEVELS, 50);
	CHECK(k != NULL);
	SCHED(hold)();
	id = native(puts_natively, NULL);
	for (i = 1; i < 6; i++)
		make(i, puts_jobs, (void *)(intptr_t)i);
	while (get(&puts_ended) < 6)
		CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	CHECK_IS(uwork_drain(k, UNOW), 0);
	CHECK_IS(get(&done), 6 * JOBS);
	native_join(id);
	more = 0;
	CHECK_IS(uwork_put(k, puts_more, NULL, 2, UNEVER), 0);
	CHECK_IS(uwork_free(k, UNEVER), 0);
	CHECK_IS(get(&done), 6 * JOBS + 1 + more);
}

static void bad(void *arg)
{
	CHECK(uwork_make(0, 1, 1) == NULL && errno == EINVAL);
	CHECK(uwork_make(1, 0, 1) == NULL && errno == EINVAL);
	CHECK(uwork_make(1, UWORK_LEVELS + 1, 1) == NULL && errno == EINVAL);
}

/* Failures. */

static void tries(void *arg)
{
	long accepted = 0, i;
	int rc;

	k = uwork_make(3, 2, 4);
	if (k == NULL) {
		CHECK_THAT(fail_told(), >, 0);
		return;
	}
	for (i = 0; i < 20; i++) {
		rc = uwork_put(k, waits_and_counts, (void *)i,
			       (int)i % 2, UNEVER);
		CHECK(rc == 0 || rc == -ENOMEM || rc == -EPIPE);
		accepted += rc == 0;
	}
	while ((rc = uwork_free(k, UNEVER)) == -ENOMEM)
		fail_rest();
	CHECK(rc == 0 ? get(&done) == accepted :
	      rc == -EPIPE && get(&done) <= accepted);
	if (rc != 0 || accepted < 20)
		CHECK_THAT(fail_told(), >, 0);
}

static void run(int p)
{
	if (SCHED(init)(p, 0) != 0) {
		CHECK_THAT(fail_told(), >, 0);
		return;
	}
	done = 0;
	if (try_make(0, tries, NULL) == NULL)
		CHECK_THAT(fail_told(), >, 0);
	while (SCHED(start)() != 0) {
		CHECK_THAT(fail_told(), >, 0);
		fail_rest();
	}
	CHECK_IS(SCHED(fini)(), 0);
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	/* Not in a thread. */
	CHECK(uwork_make(1, 1, 1) == NULL && errno == EINVAL);
	for (p = 1; p <= 2; p++) {
		alone(p, bad);
		alone(1, by_level);
		alone(p, bounded);
		alone(p, from_all);
		(void)fail_each(FAIL_MEMORY | FAIL_MMAP, false, run, p);
		(void)fail_each(FAIL_MEMORY | FAIL_MMAP, true, run, p);
	}
	return 0;
}
