/* SPDX-License-Identifier: MIT */
/* starved.c: two threads that wake each other run first, and a third waits for its turn. */

#include <stdio.h>
#include <usched/all.h>

static struct usem decoded, shown, text;
static utime_ns closing;
static long frames, titles;

/* Works on a frame for 0.7 ms. */
static void work(void)
{
	utime_ns end = uafter(700 * UTIME_US);

	while (unow() < end)
		;
}

static void decoder(void *arg)
{
	(void)arg;
	for (; unow() < closing; frames++) {
		work();
		usem_post(&text);
		usem_post(&decoded);
		if (usem_wait(&shown, UNEVER) != 0)
			break;
#ifdef CURED
		ll_yield();		/* lets the queue run, with each frame */
#endif
	}
	frames = -1;			/* the end */
	usem_post(&text);
	usem_post(&decoded);
}

static void screen(void *arg)
{
	(void)arg;
	while (usem_wait(&decoded, UNEVER) == 0 && frames >= 0) {
		work();
		usem_post(&shown);
	}
}

static void subtitles(void *arg)
{
	(void)arg;
	while (usem_wait(&text, UNEVER) == 0 && frames >= 0)
		titles++;
}

int main(void)
{
	if (ll_init(2, 0) != 0 || !ll_thread_init(decoder, NULL, 0) ||
	    !ll_thread_init(screen, NULL, 0) || !ll_thread_init(subtitles, NULL, 0))
		return 1;
	closing = uafter(400 * UTIME_MS);
	if (ll_start() != 0 || ll_fini() != 0)
		return 1;
	printf("%ld titles\n", titles);
	return 0;
}
