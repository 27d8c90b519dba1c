/* SPDX-License-Identifier: MIT */
/* philosophers.c: five dine, each with the two forks beside the plate. */

#include <stdio.h>
#include <stdlib.h>
#include <usched/all.h>

#define NR	5
#define MEALS	1000

static struct umutex forks[NR];
static int meals[NR];

static void dine(void *arg)
{
	int me = (int *)arg - meals;
	int a = me, b = (me + 1) % NR;
	struct umutex *low = &forks[a < b ? a : b];	/* no circle of waits */
	struct umutex *high = &forks[a < b ? b : a];

	while (meals[me] < MEALS) {
		if (umutex_lock(low, UNEVER) != 0)
			abort();
		ws_yield();				/* reaches for it */
		if (umutex_lock(high, UNEVER) != 0)
			abort();
		meals[me]++;
		umutex_unlock(high);
		umutex_unlock(low);
	}
}

int main(void)
{
	int i, rc = ws_init(2, 0);

	for (i = 0; i < NR && rc == 0; i++)
		rc = ws_spawn(dine, &meals[i]);
	if (rc != 0 || ws_start() != 0 || ws_fini() != 0)
		return 1;
	for (i = 0; i < NR; i++)
		printf("%d has eaten %d times\n", i, meals[i]);
	return 0;
}
