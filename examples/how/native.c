/* SPDX-License-Identifier: MIT */
/* native.c: a thread waits for the end of a native thread; others go on. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include <usched/all.h>

static pthread_t native;
static void *result;			/* not on the stack of a thread */
static _Atomic int end, ticks;

static void *work(void *arg)		/* a library's, say */
{
	usleep(100000);
	return arg;
}

static void join(void *arg)
{
	(void)arg;
	pthread_join(native, &result);
}

static void tick(void *arg)
{
	(void)arg;
	while (!end && u_sleep(uafter(10 * UTIME_MS)) == 0)
		ticks++;
}

static int run(void *arg)
{
	int rc = usched_go(tick, NULL);

	if (rc == 0)
		rc = -pthread_create(&native, NULL, work, "done");
	if (rc == 0)
		rc = ucall(join, arg);		/* this thread waits, no other */
	end = 1;
	if (rc == 0)
		printf("%s, and others %s\n", (char *)result, ticks > 0 ? "went on" : "waited");
	return rc;
}

int main(void)
{
	return usched_main(run, NULL);
}
