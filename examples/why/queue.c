/* SPDX-License-Identifier: MIT */
/* queue.c: photos come twice as fast as they are shrunk, and a large queue takes them all. */

#include <stdio.h>
#include <usched/all.h>

#define PHOTOS	200
#ifdef CURED
#define ROOM	8		/* then their sender waits */
#else
#define ROOM	10000
#endif

static struct uchan *photos;
static long shrunk;

static void camera(void *arg)
{
	(void)arg;
	for (long photo = 0; photo < PHOTOS; photo++) {
		u_sleep(uafter(UTIME_MS));
		if (uchan_send(photos, &photo, UNEVER) != 0)
			break;
	}
	uchan_close(photos);
}

/* Has each photo shrunk by a service, which takes 2 ms. */
static void shrinker(void *arg)
{
	long photo;

	(void)arg;
	while (uchan_recv(photos, &photo, UNEVER) == 0) {
		u_sleep(uafter(2 * UTIME_MS));
		shrunk++;
	}
}

int main(void)
{
	photos = uchan_make(sizeof(long), ROOM);
	if (photos == NULL || rr_init(2, 0) != 0 || !rr_thread_init(camera, NULL) ||
	    !rr_thread_init(shrinker, NULL) || rr_start() != 0 || rr_fini() != 0)
		return 1;
	printf("%ld photos\n", shrunk);
	uchan_free(photos);
	return 0;
}
