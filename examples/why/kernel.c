/* SPDX-License-Identifier: MIT */
/* kernel.c: a library waits for 3 ms in each call, and so does the processor. */

#include <stdio.h>
#include <unistd.h>
#include <usched/all.h>

#define CLIENTS	6

static struct client {
	long key, row;
} clients[CLIENTS];
static utime_ns closing;

/* A library that knows nothing of threads asks a data base, and waits. */
static void query(void *arg)
{
	struct client *c = arg;

	usleep(3000);
	c->row = 2 * c->key;
}

static void client(void *arg)
{
	struct client *c = arg;

	while (unow() < closing) {
		c->key++;
#ifdef CURED
		if (ucall(query, c) != 0)	/* a native thread beside calls it */
			break;
#else
		query(c);
#endif
		u_sleep(uafter(5 * UTIME_MS));
	}
}

int main(void)
{
	int i, rc = rr_init(2, 0);

	for (i = 0; i < CLIENTS && rc == 0; i++)
		rc = rr_thread_init(client, &clients[i]) ? 0 : -1;
	closing = uafter(400 * UTIME_MS);
	if (rc != 0 || rr_start() != 0 || rr_fini() != 0)
		return 1;
	printf("row %ld\n", clients[0].row);
	return 0;
}
