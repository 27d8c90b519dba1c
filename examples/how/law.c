/* SPDX-License-Identifier: MIT */
/* law.c: WRONG: a thread writes to a local of another, which waits. It is told. */
#include <stdio.h>
#include <usched/all.h>

static struct uchan *done;
static int *volatile shared;

static void lend(void *arg)
{
	int local = 1;

	(void)arg;
	shared = &local;		/* wrong: heap or static storage can be shared */
	uchan_recv(done, NULL, UNEVER);
	printf("%d\n", local);
}

static void borrow(void *arg)
{
	u_sleep(uafter(10 * UTIME_MS));	/* lends meanwhile */
	*shared = 2;
	uchan_send(done, arg, UNEVER);
}

static int run(void *arg)
{
	int rc = usched_go(lend, arg);

	return rc != 0 ? rc : usched_go(borrow, arg);
}

int main(void)
{
	done = uchan_make(0, 1);
	return done == NULL || usched_main(run, NULL);
}
