/* SPDX-License-Identifier: MIT */
/* begin.c: what it takes to begin and to end, for usched_main() and a thread. */

/*
 *	begin [ROUNDS]
 *
 * prints the nanoseconds from the call to the first instruction of the thread,
 * and to the return: medians of ROUNDS rounds, and the least. native is
 * pthread_create() and pthread_join(); usched_main takes the scheduler that
 * USCHED names.
 */
#include "figures.h"
#include "umain.h"
#include "uwait.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST	10000

static int64_t first[2][MOST], end[2][MOST];
static utime_ns at;

static void *begins(void *arg)
{
	at = unow();
	return arg;
}

static int thread(void *arg)
{
	(void)begins(arg);
	return 0;
}

static int native(void)
{
	pthread_t t;

	return pthread_create(&t, NULL, begins, NULL) != 0 ||
		pthread_join(t, NULL) != 0;
}

static void measure(int which, int i)
{
	utime_ns start = unow();

	if (which == 0 ? native() : usched_main(thread, NULL))
		exit(1);
	end[which][i]   = unow() - start;
	first[which][i] = at - start;
}

static void say(const char *name, int which, int nr)
{
	figures_sort_times(first[which], nr);
	figures_sort_times(end[which], nr);
	printf("%s first %ld [%ld] end %ld [%ld]\n", name,
	       (long)first[which][nr / 2], (long)first[which][0],
	       (long)end[which][nr / 2], (long)end[which][0]);
}

int main(int argc, char **argv)
{
	int i, nr = argc > 1 ? atoi(argv[1]) : 1000;

	if (nr < 1 || nr > MOST)
		return 2;
	for (i = 0; i < nr; i++) {
		measure(0, i);
		measure(1, i);
	}
	say("native", 0, nr);
	say("usched_main", 1, nr);
	return 0;
}
