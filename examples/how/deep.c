/* SPDX-License-Identifier: MIT */
/* deep.c: a thread that needs 3 MB of stack. */
#include <stdio.h>
#include <stdlib.h>
#include <usched/all.h>

static long depth(long n)
{
	volatile char frame[1000];

	frame[n % 1000] = 1;
	return n == 0 ? 0 : depth(n - 1) + frame[n % 1000];
}

static int run(void *arg)
{
	(void)arg;
	printf("%ld calls of 1000 bytes\n", depth(3000));
	return 0;
}

int main(void)
{
	/* Costs addresses only. The last 0 keeps what the environment says. */
	if (setenv("USCHED_STACK_SIZE", "4M", 0) != 0)
		return 1;
	return usched_main(run, NULL);
}
