/* SPDX-License-Identifier: MIT */
/* pairs-healthy.c: stations take turns; the bookkeeper waits 17 ms for them, limit 20. */

#include <stdio.h>
#include <usched/all.h>

#define LINES	2
#define BATCHES	66

/* A scanner, a packer and a labeller, and what they wait for. */
static struct line {
	struct usem scanned, packed, labelled, booked;
	long        parcels, entries;
} lines[LINES];

/* Turns a parcel around: 0.6 ms. */
__attribute__((noinline)) static void handle(void)
{
	utime_ns end = unow() + 600 * UTIME_US;

	while (unow() < end)
		;
}

/* Scans the parcels of a batch, which come for 17 ms, each 30 ms. */
static void scanner(void *arg)
{
	struct uticker batches = uticker(30 * UTIME_MS);
	struct line *l = arg;
	utime_ns end;

	for (int i = 0; i < BATCHES; i++) {
		uticker_wait(&batches, NULL);
		for (end = uafter(17 * UTIME_MS); unow() < end; l->parcels++) {
			handle();
			usem_post(&l->booked);
			usem_post(&l->scanned);
			if (usem_wait(&l->labelled, UNEVER) != 0)
				return;
		}
	}
	l->parcels = -l->parcels;		/* the end */
	usem_post(&l->scanned);
	usem_post(&l->booked);
}

static void packer(void *arg)
{
	struct line *l = arg;

	while (usem_wait(&l->scanned, UNEVER) == 0 && l->parcels >= 0) {
		handle();
		usem_post(&l->packed);
	}
	usem_post(&l->packed);
}

static void labeller(void *arg)
{
	struct line *l = arg;

	while (usem_wait(&l->packed, UNEVER) == 0 && l->parcels >= 0) {
		handle();
		usem_post(&l->labelled);
	}
}

static void bookkeeper(void *arg)
{
	struct line *l = arg;

	while (usem_wait(&l->booked, UNEVER) == 0 && l->parcels >= 0)
		l->entries++;
}

int main(void)
{
	int i, rc = ll_init(LINES, 0);

	for (i = 0; i < LINES && rc == 0; i++)
		rc = ll_thread_init(scanner, &lines[i], i) &&
			ll_thread_init(packer, &lines[i], i) &&
			ll_thread_init(labeller, &lines[i], i) &&
			ll_thread_init(bookkeeper, &lines[i], i) ? 0 : -1;
	if (rc != 0 || ll_start() != 0 || ll_fini() != 0)
		return 1;
	printf("%ld entries\n", lines[0].entries + lines[1].entries);
	return 0;
}
