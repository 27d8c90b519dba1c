/* SPDX-License-Identifier: MIT */
/* urgent.c: jobs of level 0 before those of level 1, which came first. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static void job(void *name)
{
	printf("%s\n", (char *)name);
	u_sleep(uafter(UTIME_MS));
}

static int run(void *arg)
{
	struct uwork *k = uwork_make(1, 2, 100);	/* worker, levels, room */
	int rc = 0;

	(void)arg;
	if (k == NULL)
		return -errno;
	for (int i = 0; rc == 0 && i < 3; i++)
		rc = uwork_put(k, job, "a report", 1, UNEVER);
	if (rc == 0)
		rc = uwork_put(k, job, "a click", 0, UNEVER);
	while (uwork_free(k, UNEVER) == -ENOMEM)	/* waits for all jobs */
		;
	return rc;
}

int main(void)
{
	return usched_main(run, NULL);
}
