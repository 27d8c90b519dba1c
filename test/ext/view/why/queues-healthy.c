/* SPDX-License-Identifier: MIT */
/* queues-healthy.c: 20 parcels come at a time; the last waits 42 ms, limit 50. */

#include <stdio.h>
#include <usched/all.h>

#define VANS		20
#define PARCELS		20	/* in a van */

static struct uchan *ramp;
static long brought;

/* A van comes each 90 ms. */
static void vans(void *arg)
{
	struct uticker due = uticker(90 * UTIME_MS);

	(void)arg;
	for (long i = 0; i < VANS * PARCELS; i++) {
		if (i % PARCELS == 0)
			uticker_wait(&due, NULL);
		if (uchan_send(ramp, &i, UNEVER) != 0)
			break;
	}
	uchan_close(ramp);
}

/* Brings parcels to the shelf: 2 ms for each. */
static void porter(void *arg)
{
	long parcel;

	(void)arg;
	while (uchan_recv(ramp, &parcel, UNEVER) == 0 &&
	       u_sleep(uafter(2050 * UTIME_US)) == 0)
		brought++;
}

int main(void)
{
	int rc = ll_init(2, 0);

	ramp = uchan_make(sizeof(long), 4 * PARCELS);
	if (rc != 0 || ramp == NULL || !ll_thread_init(vans, NULL, 0) ||
	    !ll_thread_init(porter, NULL, 1) || ll_start() != 0 ||
	    ll_fini() != 0)
		return 1;
	printf("%ld parcels\n", brought);
	uchan_free(ramp);
	return 0;
}
