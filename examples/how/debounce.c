/* SPDX-License-Identifier: MIT */
/* debounce.c: acts when there were no further changes for 100 ms. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static struct uchan *changes;

static int save_changes(void *arg)
{
	int rc, change, nr;

	(void)arg;
	while ((rc = uchan_recv(changes, &change, UNEVER)) == 0) {
		for (nr = 1; rc == 0; nr += rc == 0)
			rc = uchan_recv(changes, &change, uafter(100 * UTIME_MS));
		if (rc == -ECANCELED)
			break;
		printf("saves after %d changes: %d\n", nr, change);
	}
	return rc == -EPIPE ? 0 : rc;
}

static int run(void *arg)
{
	int ms[] = { 0, 30, 60, 90, 400, 430 };
	struct uscope *s;
	utime_ns begun = unow();
	int rc = uscope_begin(&s, UNEVER), e;

	(void)arg;
	if (rc != 0)
		return rc;
	rc = uscope_go(s, save_changes, NULL);
	for (int i = 0; rc == 0 && i < 6; i++)
		if ((rc = u_sleep(begun + ms[i] * UTIME_MS)) == 0)
			rc = uchan_send(changes, &i, UNEVER);
	uchan_close(changes);
	e = uscope_end(&s);
	return e != 0 ? e : rc;
}

int main(void)
{
	changes = uchan_make(sizeof(int), 10);
	return changes == NULL || usched_main(run, NULL);
}
