/* SPDX-License-Identifier: MIT */
/* watch.c: each of three threads sees the latest value, and none runs in vain. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static struct umutex lock;
static struct ucond changed;
static int value, version;		/* both under the lock */

/* Waits for a version after seen, copies the value, and returns the version. */
static int next(int seen, int *copy)
{
	int rc = umutex_lock(&lock, UNEVER);

	if (rc != 0)
		return rc;
	while (rc == 0 && version == seen)
		rc = ucond_wait(&changed, &lock, UNEVER);
	*copy = value;
	seen = version;
	umutex_unlock(&lock);
	return rc == 0 ? seen : rc;
}

static int publish(int v)
{
	int rc = umutex_lock(&lock, UNEVER);

	if (rc != 0)
		return rc;
	value = v, version++;
	ucond_broadcast(&changed);
	umutex_unlock(&lock);
	return 0;
}

static int watcher(void *arg)
{
	int v = 0, seen = 0;

	(void)arg;
	while (v != 30 && (seen = next(seen, &v)) >= 0)
		if (u_sleep(uafter(50 * UTIME_MS)) != 0)	/* slower than the values */
			return -1;
	printf("ends at %d\n", v);
	return seen < 0 ? seen : 0;
}

static int run(void *arg)
{
	struct uscope *s;
	int rc = uscope_begin(&s, UNEVER), e;

	(void)arg;
	if (rc != 0)
		return rc;
	for (int i = 0; rc == 0 && i < 3; i++)
		rc = uscope_go(s, watcher, NULL);
	for (int i = 1; rc == 0 && i <= 30; i++)
		if ((rc = u_sleep(uafter(10 * UTIME_MS))) == 0)
			rc = publish(i);
	if (rc != 0)
		uscope_cancel(s);
	e = uscope_end(&s);
	return e == -ECANCELED && rc != 0 ? rc : e;
}

int main(void)
{
	return usched_main(run, NULL);
}
