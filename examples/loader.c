/* SPDX-License-Identifier: MIT */
/* loader.c: a cache, where the first that asks for a key loads it for all. */

#include <stdio.h>
#include <usched/all.h>

#define KEYS	10
#define ASKERS	1000

static struct entry { struct uonce once; int value, loads; } cache[KEYS];
static int known;

static int load(void *arg)		/* never twice at once for a key */
{
	struct entry *e = arg;

	u_sleep(uafter(UTIME_MS));
	if (++e->loads == 1)
		return -1;		/* not found: the next asker tries */
	e->value = (int)(e - cache) * 7;
	return 0;
}

static void ask(void *arg)
{
	long key = (long)arg % KEYS;

	while (uonce(&cache[key].once, load, &cache[key], UNEVER) != 0)
		;
	known += cache[key].value == key * 7;
}

int main(void)
{
	long i, loads = 0;
	int rc = rr_init(1, 0);

	for (i = 0; i < ASKERS && rc == 0; i++)
		rc = rr_thread_init(ask, (void *)i) == NULL;
	rc = rc || rr_start() || rr_fini();
	for (i = 0; i < KEYS; i++)
		loads += cache[i].loads;
	printf("%d askers, %ld loads of %d keys\n", known, loads, KEYS);
	return rc;
}
