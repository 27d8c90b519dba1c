/* SPDX-License-Identifier: MIT */
/* timers-2.c: quotes that are due queue up behind 30 images, which run 0.5 ms each. */

#include <stdio.h>
#include <usched/all.h>

#define IMAGES	60
#define QUOTES	12
#define EACH	(40 * UTIME_MS)

static utime_ns closing;
static _Atomic long quoted, rows;

/* Scales some rows of an image: 0.5 ms. */
__attribute__((noinline)) static void scale(void)
{
	utime_ns end = unow() + 500 * UTIME_US;

	while (unow() < end)
		;
	rows++;
}

/* Lets others have the processor after some rows. */
static void image(void *arg)
{
	(void)arg;
	while (unow() < closing) {
		scale();
		if (rr_yield() != 0)
			break;
	}
}

static void quote(void *arg)
{
	struct uticker due;

	u_sleep(uafter((long)arg * EACH / QUOTES + 1));
	due = uticker(EACH);
	while (unow() < closing && uticker_wait(&due, NULL) == 0)
		quoted++;
}

int main(void)
{
	int rc = rr_init(2, 0);
	long i;

	for (i = 0; i < IMAGES && rc == 0; i++)
		rc = rr_thread_init(image, NULL) ? 0 : -1;
	for (i = 0; i < QUOTES && rc == 0; i++)
		rc = rr_thread_init(quote, (void *)i) ? 0 : -1;
	closing = uafter(2 * UTIME_S);
	if (rc != 0 || rr_start() != 0 || rr_fini() != 0)
		return 1;
	printf("%ld quotes, %ld rows\n", quoted, rows);
	return 0;
}
