/* SPDX-License-Identifier: MIT */
/* idle: a program whose threads all wait uses no processor. */
/* VARIANTS: RR LL WS */

/*
 * Threads wait for a message, for a deadline that is far off, and for bytes of a
 * pipe, each of them alone and all together, for LAST. Meanwhile the native
 * threads of the program begin to sleep a few times, at most SWITCHES, and take
 * at most a fifth of a processor. A timer that ticks, a poller that looks, or a
 * processor that spins takes much more of one or the other. The watchdog of the
 * test itself wakes up now and then.
 */
#include "either.h"
#include "uio.h"
#include "usync.h"
#include "uwait.h"

#include <sys/resource.h>

#if !defined(LAST)
#define LAST		(UTIME_S / 2)
#endif
#define SWITCHES	60
#define NR		20		/* threads of a kind */

enum { MESSAGES = 1, TIMERS = 2, BYTES = 4, KINDS = 8 };

static struct usem sem;
static int kinds, ends[2];
static long ready;			/* threads that are about to wait */

static void gets(void *arg)
{
	(void)arg;
	add(&ready, 1);
	CHECK_IS(usem_wait(&sem, UNEVER), 0);
}

/* The deadline is a year off; a message comes before. */
static void sleeps(void *arg)
{
	(void)arg;
	add(&ready, 1);
	CHECK_IS(usem_wait(&sem, uafter(365 * 86400 * UTIME_S)), 0);
}

static void reads(void *arg)
{
	char byte;

	(void)arg;
	add(&ready, 1);
	CHECK_IS(u_read(ends[0], &byte, 1, UNEVER), 1);
}

static utime_ns cpu_of(const struct rusage *r)
{
	return (r->ru_utime.tv_sec + r->ru_stime.tv_sec) * UTIME_S +
		(r->ru_utime.tv_usec + r->ru_stime.tv_usec) * UTIME_US;
}

/* Sleeps for LAST, and checks what the process has used meanwhile. */
static void idle(void)
{
	struct rusage before, after;
	long switches;
	utime_ns cpu;

	CHECK_IS(u_sleep(uafter(LAST / 10)), 0); /* all have come to rest */
	CHECK_IS(getrusage(RUSAGE_SELF, &before), 0);
	CHECK_IS(u_sleep(uafter(LAST)), 0);
	CHECK_IS(getrusage(RUSAGE_SELF, &after), 0);
	switches = after.ru_nvcsw - before.ru_nvcsw;
	cpu = cpu_of(&after) - cpu_of(&before);
	printf("kinds %d: %ld sleeps, %ld us\n", kinds, switches,
	       (long)(cpu / UTIME_US));
	CHECK_THAT(switches, <=, SWITCHES);
	CHECK_THAT(cpu, <=, LAST / 5);
}

static void first(void *arg)
{
	int i, p = (int)(intptr_t)arg, posts = 0, bytes = 0;

	for (i = 0; i < NR; i++) {
		if (kinds & MESSAGES)
			make(i % p, gets, NULL);
		if (kinds & TIMERS)
			make(i % p, sleeps, NULL);
		if (kinds & BYTES)
			make(i % p, reads, NULL);
		posts += !!(kinds & MESSAGES) + !!(kinds & TIMERS);
		bytes += !!(kinds & BYTES);
	}
	while (get(&ready) < posts + bytes)
		yield();
	idle();
	for (i = 0; i < posts; i++)
		CHECK_IS(usem_post(&sem), 0);
	for (i = 0; i < bytes; i++)
		CHECK_IS(u_write(ends[1], "x", 1, UNEVER), 1);
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	for (kinds = 0; kinds < KINDS; kinds++) {
		p = 1 + kinds % 2;
		CHECK_IS(pipe(ends), 0);
		ready = 0;
		one_thread(p, first, (void *)(intptr_t)p);
		CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
	}
	return 0;
}
