/* SPDX-License-Identifier: MIT */
/* demo.c: urgent threads run first, and no thread starves. */

#include <stdio.h>
#include <stdlib.h>
#include "pr.h"

static struct pr_thread *alarmed;
static long turns;
static int swept;

static void yield(void)
{
	if (pr_yield() != 0)
		abort();		/* out of memory */
}

static void alarm_rings(void *arg)
{
	(void)arg;
	if (pr_wait() != 0)
		abort();
	printf("7: the alarm\n");
}

static void works(void *arg)
{
	(void)arg;
	pr_wake(alarmed);
	printf("4: has woken the alarm\n");
	yield();
	printf("4: works until somebody sweeps\n");
	for (; !swept; turns++)
		yield();
	printf("4: that was after less than %d turns: %d\n", PR_NR * PR_FAIR,
	       turns < PR_NR * PR_FAIR);
}

static void sweeps(void *arg)
{
	(void)arg;
	swept = 1;
	printf("0: sweeps, and becomes urgent\n");
	(void)pr_set(6);		/* a valid priority */
	yield();
	printf("6: ends\n");
}

int main(void)
{
	if (pr_init(1, 0) != 0 || !pr_thread_init(sweeps, NULL, 0, 0) ||
	    !pr_thread_init(works, NULL, 0, 4))
		return 1;
	alarmed = pr_thread_init(alarm_rings, NULL, 0, 7);
	return alarmed == NULL || pr_start() != 0 || pr_fini() != 0;
}
