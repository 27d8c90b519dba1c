/* SPDX-License-Identifier: MIT */
/* shared.c: a lock between threads and a native thread, held over waits. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include <usched/all.h>

static struct umutex lock;
static pthread_t native;
static int sum;				/* under the lock */

static void *add(void *arg)		/* runs natively */
{
	for (int i = 0; i < 5; i++)
		if (umutex_lock(&lock, UNEVER) == 0) {
			int was = sum;

			usleep(10000);
			sum = was + 1;
			umutex_unlock(&lock);
		}
	return arg;
}

static void join(void *arg)
{
	(void)arg;
	pthread_join(native, NULL);
}

/* While a call runs, the scheduler knows that others may unlock. */
static void *await(void *arg)
{
	return ucall(join, arg) == 0 ? "ended" : NULL;
}

static int run(void *arg)
{
	struct uthread *t;
	int e, rc = -pthread_create(&native, NULL, add, arg);

	if (rc == 0)
		rc = uthread_make(&t, await, NULL, NULL);
	if (rc != 0)
		return rc;
	for (int i = 0; rc == 0 && i < 5; i++)
		if ((rc = umutex_lock(&lock, UNEVER)) == 0) {
			int was = sum;

			rc = u_sleep(uafter(10 * UTIME_MS));
			sum = was + 1;
			umutex_unlock(&lock);
		}
	e = uthread_join(t, NULL, UNEVER);
	printf("%d\n", sum);
	return rc != 0 ? rc : e;
}

int main(void)
{
	return usched_main(run, NULL);
}
