/* SPDX-License-Identifier: MIT */
/* radix.c: sorts numbers digit by digit, in 64 threads. */

/*
 * Each of four passes sorts by a digit, the lowest first. Each thread counts the
 * digits in its part of the numbers. Then it adds up the counts of a few digits
 * over all parts. At last it moves the numbers of its part to where these sums
 * say. Equal digits keep their order.
 */
#include "kernel.h"

#define NR	(1 << 16)
#define BITS	8
#define DIGITS	(1 << BITS)

static uint32_t in[NR], number[2][NR], serial[NR];
static int count[THREADS][DIGITS];	/* in a part; then: before it */
static int total[DIGITS];

static int digit(uint32_t number, int pass)
{
	return (int)(number >> pass * BITS) & (DIGITS - 1);
}

static void count_part(int me, const uint32_t *from, int pass)
{
	int i;

	memset(count[me], 0, sizeof count[me]);
	for (i = part(me, NR); i < part(me + 1, NR); i++)
		count[me][digit(from[i], pass)]++;
}

/* Sets for some digits how many the parts before each part have, and all. */
static void add_up(int me)
{
	int d, i;

	for (d = part(me, DIGITS); d < part(me + 1, DIGITS); d++) {
		total[d] = 0;
		for (i = 0; i < THREADS; i++) {
			int nr = count[i][d];

			count[i][d] = total[d];
			total[d] += nr;
		}
	}
}

static void move_part(int me, const uint32_t *from, uint32_t *to, int pass)
{
	int smaller = 0;
	int d, i;

	for (d = 0; d < DIGITS; d++) {
		count[me][d] += smaller;
		smaller += total[d];
	}
	for (i = part(me, NR); i < part(me + 1, NR); i++)
		to[count[me][digit(from[i], pass)]++] = from[i];
}

static void radix(int me)
{
	int low = part(me, NR), high = part(me + 1, NR);
	int pass;

	memcpy(number[0] + low, in + low, (high - low) * sizeof in[0]);
	for (pass = 0; pass < 32 / BITS; pass++) {
		uint32_t *from = number[pass % 2], *to = number[1 - pass % 2];

		count_part(me, from, pass);
		meet();
		add_up(me);
		meet();
		move_part(me, from, to, pass);
		meet();
	}
}

static int order(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int i;

	for (i = 0; i < NR; i++)
		in[i] = draw() << 16 ^ draw();
	memcpy(serial, in, sizeof in);
	qsort(serial, NR, sizeof serial[0], order);
	run(radix, argc, argv);
	return compare("radix", serial, number[0], sizeof serial);
}
