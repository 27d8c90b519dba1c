/* SPDX-License-Identifier: MIT */
/* pairs-2.c: decoder and screen wake each other, and so run before subtitles. */

#include <stdio.h>
#include <usched/all.h>

#define FILMS	2

static struct film {
	struct usem decoded, shown, text;
	long        frames, titles;
} films[FILMS];
static utime_ns closing;

/* Works on a frame: 0.6 ms. */
__attribute__((noinline)) static void pixels(void)
{
	utime_ns end = unow() + 600 * UTIME_US;

	while (unow() < end)
		;
}

static void decoder(void *arg)
{
	struct film *f = arg;

	for (; unow() < closing; f->frames++) {
		pixels();
		usem_post(&f->text);
		usem_post(&f->decoded);
		if (usem_wait(&f->shown, UNEVER) != 0)
			break;
	}
	f->frames = -1;				/* the end */
	usem_post(&f->text);
	usem_post(&f->decoded);
}

static void screen(void *arg)
{
	struct film *f = arg;

	while (usem_wait(&f->decoded, UNEVER) == 0 && f->frames >= 0) {
		pixels();
		usem_post(&f->shown);
	}
}

static void subtitles(void *arg)
{
	struct film *f = arg;

	while (usem_wait(&f->text, UNEVER) == 0 && f->frames >= 0)
		f->titles++;
}

int main(void)
{
	int i, rc = ll_init(FILMS, 0);

	for (i = 0; i < FILMS && rc == 0; i++)
		rc = ll_thread_init(decoder, &films[i], i) &&
			ll_thread_init(screen, &films[i], i) &&
			ll_thread_init(subtitles, &films[i], i) ? 0 : -1;
	closing = uafter(2 * UTIME_S);
	if (rc != 0 || ll_start() != 0 || ll_fini() != 0)
		return 1;
	printf("%ld titles\n", films[0].titles + films[1].titles);
	return 0;
}
