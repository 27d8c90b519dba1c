/* SPDX-License-Identifier: MIT */
/* queues-2.c: samples wait until there are 400 to send, which takes half a second. */

#include <stdio.h>
#include <usched/all.h>

#define METERS	16
#define BATCH	400

static struct uchan *samples;
static utime_ns closing;
static long exported, watts;

static void meter(void *arg)
{
	struct uticker readings = uticker(20 * UTIME_MS);
	long sample = (long)arg;

	while (unow() < closing && uticker_wait(&readings, NULL) == 0)
		if (uchan_send(samples, &sample, UNEVER) != 0)
			break;
}

/* Sends all that is there. */
__attribute__((noinline)) static void export(void)
{
	long sample;

	while (uchan_recv(samples, &sample, UNOW) == 0) {
		watts += sample;
		exported++;
	}
}

/* Looks each 10 ms whether there are enough for a message. */
static void exporter(void *arg)
{
	(void)arg;
	while (unow() < closing && u_sleep(uafter(10 * UTIME_MS)) == 0)
		if (uchan_count(samples) >= BATCH)
			export();
}

int main(void)
{
	int rc = rr_init(2, 0);

	samples = uchan_make(sizeof(long), 4 * BATCH);
	for (long i = 0; i < METERS && rc == 0; i++)
		rc = rr_thread_init(meter, (void *)i) ? 0 : -1;
	closing = uafter(2500 * UTIME_MS);
	if (rc != 0 || samples == NULL || !rr_thread_init(exporter, NULL) ||
	    rr_start() != 0 || rr_fini() != 0)
		return 1;
	printf("%ld samples\n", exported);
	uchan_free(samples);
	return 0;
}
