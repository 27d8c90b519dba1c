/* SPDX-License-Identifier: MIT */
/* throttle.c: of a hundred values a second sends ten, always the latest. */
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

static int sender(void *arg)
{
	int v = 0, seen = 0, sent = 0, rc = 0;

	(void)arg;
	while (rc == 0 && v != 100 && (seen = next(seen, &v)) >= 0) {
		sent++;				/* here v is sent */
		rc = u_sleep(uafter(100 * UTIME_MS));
	}
	printf("%d of %d sent, the last is %d\n", sent, seen, v);
	return rc != 0 ? rc : seen < 0 ? seen : 0;
}

static int run(void *arg)
{
	struct uscope *s;
	int rc = uscope_begin(&s, UNEVER), e;

	(void)arg;
	if (rc != 0)
		return rc;
	rc = uscope_go(s, sender, NULL);
	for (int i = 1; rc == 0 && i <= 100; i++)
		if ((rc = publish(i)) == 0)
			rc = u_sleep(uafter(9 * UTIME_MS));
	if (rc != 0)
		uscope_cancel(s);
	e = uscope_end(&s);
	return e == -ECANCELED && rc != 0 ? rc : e;
}

int main(void)
{
	return usched_main(run, NULL);
}
