/* SPDX-License-Identifier: MIT */
/* blocked.c: waits 0.1 s for a call that blocks, and leaves it to itself then. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <usched/all.h>

struct job {
	int         ms, answer;
	struct usem done;
	_Atomic int users;		/* the asker and the thread */
};

static void drop(struct job *j)
{
	if (--j->users == 0)
		free(j);
}

/* Runs on a native thread, and may block. */
static void block(void *arg)
{
	struct job *j = arg;

	usleep(j->ms * 1000);
	j->answer = 42;
}

static void call(void *arg)
{
	struct job *j = arg;

	if (ucall(block, j) != 0)
		j->answer = -1;
	usem_post(&j->done);
	drop(j);
}

static int ask(int ms, utime_ns until)
{
	struct job *j = calloc(1, sizeof *j);
	int rc;

	if (j == NULL)
		return -ENOMEM;
	j->ms = ms, j->users = 2;
	rc = usched_go(call, j);
	if (rc != 0) {
		free(j);
		return rc;
	}
	rc = usem_wait(&j->done, until);
	rc = rc == 0 ? j->answer : rc;
	drop(j);
	return rc;
}

static int run(void *arg)
{
	(void)arg;
	printf("the quick call: %d\n", ask(1, uafter(10 * UTIME_S)));
	printf("the slow call: %s\n", strerror(-ask(2000, uafter(100 * UTIME_MS))));
	return 0;			/* the program ends when the slow call has */
}

int main(void)
{
	return usched_main(run, NULL);
}
