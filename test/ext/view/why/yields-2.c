/* SPDX-License-Identifier: MIT */
/* yields-2.c: a sweep of the cache computes for 25 ms, while look-ups are due. */

#include <stdio.h>
#include <usched/all.h>

#define SHARDS	2
#define CLIENTS	10
#define ENTRIES	65536

static struct shard {
	unsigned age[ENTRIES];
	long     found, old;
} shards[SHARDS];
static utime_ns closing;

/* Makes all entries of a shard older, and counts the old ones. */
__attribute__((noinline)) static void sweep(struct shard *s)
{
	utime_ns end = unow() + 25 * UTIME_MS;
	unsigned i = 0;

	do {
		s->age[i % ENTRIES] += i & 7;
		s->old += s->age[i % ENTRIES] > 1000;
	} while (++i % 64 != 0 || unow() < end);
}

static void janitor(void *shard)
{
	while (unow() < closing && u_sleep(uafter(75 * UTIME_MS)) == 0)
		sweep(shard);
}

static void client(void *arg)
{
	struct uticker due = uticker(5 * UTIME_MS);
	struct shard *s = arg;

	while (unow() < closing && uticker_wait(&due, NULL) == 0)
		for (int i = 0; i < 2000; i++)
			s->found += s->age[i * 31 % ENTRIES] < 1000;
}

int main(void)
{
	int i, rc = ll_init(SHARDS, 0);

	for (i = 0; i < SHARDS && rc == 0; i++)
		rc = ll_thread_init(janitor, &shards[i], i) ? 0 : -1;
	for (i = 0; i < SHARDS * CLIENTS && rc == 0; i++)
		rc = ll_thread_init(client, &shards[i % SHARDS], i) ? 0 : -1;
	closing = uafter(2 * UTIME_S);
	if (rc != 0 || ll_start() != 0 || ll_fini() != 0)
		return 1;
	printf("%ld found\n", shards[0].found + shards[1].found);
	return 0;
}
