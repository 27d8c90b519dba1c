/* SPDX-License-Identifier: MIT */
/* pool.c: four workers do twenty jobs; the end waits for all of these. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static _Atomic int done;

static void job(void *arg)
{
	(void)arg;
	if (u_sleep(uafter(100 * UTIME_MS)) == 0)
		done++;
}

static int run(void *arg)
{
	struct uwork *k = uwork_make(4, 1, 100);	/* workers, levels, room */
	utime_ns begun = unow();
	int rc = 0, e;

	(void)arg;
	if (k == NULL)
		return -errno;
	for (int i = 0; rc == 0 && i < 20; i++)
		rc = uwork_put(k, job, NULL, 0, UNEVER);	/* waits if there is no room */
	e = uwork_drain(k, UNEVER);
	printf("%d jobs in %d ms\n", done, (int)((unow() - begun) / UTIME_MS));
	uwork_free(k, UNEVER);
	return rc != 0 ? rc : e;
}

int main(void)
{
	return usched_main(run, NULL);
}
