/* SPDX-License-Identifier: MIT */
/* timers-healthy.c: 200 leases fall due at once; the last runs 4.2 ms late, limit 5. */

#include <stdio.h>
#include <usched/all.h>

#define LEASES	200
#define PERIOD	(100 * UTIME_MS)
#define PERIODS	20

static utime_ns granted;
static _Atomic long renewals;

/* Signs a request, which takes 38 us, and sends it. */
__attribute__((noinline)) static void renew(void)
{
	utime_ns end = unow() + 38 * UTIME_US;

	while (unow() < end)
		;
	renewals++;
}

static void lease(void *arg)
{
	(void)arg;
	for (int i = 1; i <= PERIODS; i++) {
		if (u_sleep(granted + i * PERIOD) != 0)
			break;
		renew();
	}
}

int main(void)
{
	int i, rc = rr_init(2, 0);

	for (i = 0; i < LEASES && rc == 0; i++)
		rc = rr_thread_init(lease, NULL) ? 0 : -1;
	granted = unow();
	if (rc != 0 || rr_start() != 0 || rr_fini() != 0)
		return 1;
	printf("%ld renewals\n", renewals);
	return 0;
}
