/* SPDX-License-Identifier: MIT */
/* pack.c: packs a text, in blocks: in a pool of threads, and serially. */

/*
 * A packed block is a row of items. A byte n < 128 begins n + 1 bytes of text. A
 * byte 128 + n, with a distance in two bytes, stands for n + LEAST bytes that
 * were there before, at this distance.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pool.h"

#define WORKERS	64
#define ROOM	16		/* of the queue */
#if !defined(SIZE)
#define SIZE	32768		/* of a block, at most 65535 */
#endif
#define BLOCKS	((2 << 20) / SIZE)
#define LEAST	4
#define HASHES	4096

typedef unsigned char byte;

struct packed {
	int  p_nr;
	byte p_byte[SIZE + SIZE / 128 + 2];
};

struct job {
	const byte    *j_from;
	struct packed *j_to;
};

static byte text[BLOCKS][SIZE], unpacked[SIZE];
static struct packed serial[BLOCKS], parallel[BLOCKS];

static byte *put_text(byte *to, const byte *from, const byte *end)
{
	int nr;

	for (; from < end; from += nr, to += nr) {
		nr = end - from < 128 ? (int)(end - from) : 128;
		*to++ = (byte)(nr - 1);
		memcpy(to, from, nr);
	}
	return to;
}

/* Returns how many bytes are equal, up to an item's most. */
static int equal(const byte *a, const byte *b, const byte *end)
{
	int nr = 0;

	while (nr < 127 + LEAST && b + nr < end && a[nr] == b[nr])
		nr++;
	return nr;
}

static unsigned hash(const byte *b)
{
	unsigned x = b[0] | b[1] << 8 | b[2] << 16 | (unsigned)b[3] << 24;

	return x * 2654435761u >> 20;
}

/* Packs a block. The table may lie on the stack, since a job does not wait. */
static int pack(const byte *from, byte *to)
{
	unsigned short last[HASHES] = { 0 };	/* with this hash, + 1 */
	const byte *at = from, *rest = from, *end = from + SIZE;
	byte *begin = to;

	while (end - at >= LEAST) {
		unsigned short *seen = &last[hash(at)];
		int distance = (int)(at - from) + 1 - *seen;
		int nr = *seen == 0 ? 0 : equal(at - distance, at, end);

		*seen = (unsigned short)(at - from + 1);
		if (nr < LEAST) {
			at++;
			continue;
		}
		to = put_text(to, rest, at);
		*to++ = (byte)(128 + nr - LEAST);
		*to++ = (byte)distance;
		*to++ = (byte)(distance >> 8);
		rest = at += nr;
	}
	return (int)(put_text(to, rest, end) - begin);
}

static void unpack(const byte *from, int nr, byte *to)
{
	const byte *end = from + nr;

	while (from < end) {
		nr = *from++;
		if (nr < 128) {
			memcpy(to, from, nr + 1);
			from += nr + 1;
			to += nr + 1;
			continue;
		}
		for (nr += LEAST - 128; nr > 0; nr--, to++)
			*to = to[-(from[0] | from[1] << 8)];
		from += 2;
	}
}

static void pack_job(void *arg)
{
	struct job *j = arg;

	j->j_to->p_nr = pack(j->j_from, j->j_to->p_byte);
}

/* Packs all blocks. Others use the jobs: they must not be on this stack. */
static void pack_all(struct pool *pool)
{
	static struct job job[BLOCKS];
	int i;

	for (i = 0; i < BLOCKS; i++) {
		job[i] = (struct job) { text[i], &parallel[i] };
		pool_add(pool, pack_job, &job[i]);
	}
	pool_wait(pool);
}

/* Fills the text with words, some more frequent than others. */
static void write_text(void)
{
	byte *at = text[0], *end = text[0] + sizeof text;
	unsigned x = 1, word, i;

	while (at < end) {
		x = x * 1664525u + 1013904223u;
		word = (x >> 24) * (x >> 16 & 255) >> 8;
		for (i = 0; i < 2 + word % 7 && at < end; i++)
			*at++ = 'a' + (word * 7 + i * (word + 11)) % 26;
		if (at < end)
			*at++ = ' ';
	}
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	struct pool *pool = pool_make(WORKERS, ROOM);
	long nr = 0;
	int i;

	if (pool == NULL)
		return 1;
	write_text();
	while (rounds-- > 0)
		pack_all(pool);
	pool_free(pool);
	for (i = 0; i < BLOCKS; i++) {
		serial[i].p_nr = pack(text[i], serial[i].p_byte);
		unpack(parallel[i].p_byte, parallel[i].p_nr, unpacked);
		if (memcmp(unpacked, text[i], SIZE) != 0)
			return 1;
		nr += parallel[i].p_nr;
	}
	i = memcmp(serial, parallel, sizeof serial) != 0;
	printf("pack: %ld bytes are now %ld, %s\n", (long)sizeof text, nr,
	       i ? "but not serially" : "as serially");
	return i;
}
