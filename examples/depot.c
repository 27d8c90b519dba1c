/* SPDX-License-Identifier: MIT */
/* depot.c: drivers ask for parcels, which a store brings after 0.3 ms. */

#include <stdio.h>
#include <usched/all.h>

#define DRIVERS	12
#define PARCELS	40

static struct driver {
	struct uchan *parcel;		/* the parcel comes here */
	utime_ns      comes;		/* when it is there; 0: none is asked for */
} drivers[DRIVERS];
static int driving = DRIVERS, brought;

static void driver(void *arg)
{
	struct driver *d = arg;

	for (int i = 0; i < PARCELS; i++) {
		d->comes = uafter(300 * UTIME_US);
		if (uchan_recv(d->parcel, NULL, UNEVER) != 0)
			break;
		u_sleep(uafter(100 * UTIME_US));
	}
	driving--;
}

/* Looks which parcels are there, and hands them out. */
static void clerk(void *arg)
{
	struct driver *d;

	(void)arg;
	while (driving > 0) {
		u_sleep(uafter(5 * UTIME_MS));
		for (d = drivers; d < drivers + DRIVERS; d++)
			if (d->comes != 0 && d->comes <= unow()) {
				d->comes = 0;
				brought++;
				uchan_send(d->parcel, NULL, UNEVER);
			}
	}
}

int main(void)
{
	int i, rc = rr_init(1, 0);

	for (i = 0; i < DRIVERS && rc == 0; i++) {
		drivers[i].parcel = uchan_make(0, 1);
		rc = drivers[i].parcel != NULL &&
			rr_thread_init(driver, &drivers[i]) ? 0 : -1;
	}
	if (rc != 0 || !rr_thread_init(clerk, NULL) || rr_start() != 0 ||
	    rr_fini() != 0)
		return 1;
	printf("%d parcels\n", brought);
	return 0;
}
