/* SPDX-License-Identifier: MIT */
/* hang.c: two threads lock two mutexes in opposite order, and are named. */
#include <stdio.h>
#include <usched/all.h>

static struct umutex apples, pears;

static int lock_both(struct umutex *a, struct umutex *b)
{
	int rc = umutex_lock(a, UNEVER);

	if (rc == 0) {
		u_sleep(uafter(UTIME_MS));
		if ((rc = umutex_lock(b, UNEVER)) == 0)
			umutex_unlock(b);
		umutex_unlock(a);
	}
	return rc;
}

static void cook(void *arg)
{
	(void)arg;
	lock_both(&apples, &pears);
}

static void bake(void *arg)
{
	(void)arg;
	lock_both(&pears, &apples);
}

static int run(void *arg)
{
	int rc = usched_go(cook, arg);

	return rc != 0 ? rc : usched_go(bake, arg);
}

int main(void)
{
	return usched_main(run, NULL);
}
