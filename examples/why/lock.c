/* SPDX-License-Identifier: MIT */
/* lock.c: readers of a cache stand in line while one of them asks a server. */

#include <stdio.h>
#include <usched/all.h>

#define READERS	8
#define PAGES	64

static struct umutex cache;
static long pages[PAGES];
static utime_ns closing;

/* A server answers after 2 ms. */
static long ask(long page)
{
	u_sleep(uafter(2 * UTIME_MS));
	return page * page;
}

static void reader(void *arg)
{
	for (long i = (long)arg; unow() < closing; i++) {
#ifdef CURED
		long answer = ask(i);	/* without the lock */

		if (umutex_lock(&cache, UNEVER) != 0)
			break;
		pages[i % PAGES] = answer;
#else
		if (umutex_lock(&cache, UNEVER) != 0)
			break;
		pages[i % PAGES] = ask(i);
#endif
		umutex_unlock(&cache);
	}
}

int main(void)
{
	int rc = rr_init(2, 0);

	for (long i = 0; i < READERS && rc == 0; i++)
		rc = rr_thread_init(reader, (void *)i) ? 0 : -1;
	closing = uafter(400 * UTIME_MS);
	if (rc != 0 || rr_start() != 0 || rr_fini() != 0)
		return 1;
	printf("%ld\n", pages[0]);
	return 0;
}
