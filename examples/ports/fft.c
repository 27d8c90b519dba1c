/* SPDX-License-Identifier: MIT */
/* LIBS: -lm */
/* fft.c: a fast Fourier transform, in 64 threads. */

/*
 * The values are put in the order of reversed bits. Then each step combines
 * pairs of transforms to transforms twice as long, and each thread a part of
 * the pairs: at first only values that it has put there itself. The serial
 * transform is recursive. It computes each value from the
 * same values by the same function, so the results are equal to the bit.
 */
#include "kernel.h"
#include <math.h>

#define LOG	12
#define NR	(1 << LOG)

struct value {
	double re, im;
};

static struct value in[NR], out[NR], serial[NR];
static struct value root[NR / 2];	/* powers of a root of 1 */

/* Combines a and b. Not inline, so that all use the same instructions. */
static __attribute__((noinline))
void combine(struct value *a, struct value *b, const struct value *w)
{
	double re = b->re * w->re - b->im * w->im;
	double im = b->re * w->im + b->im * w->re;

	b->re = a->re - re;
	b->im = a->im - im;
	a->re += re;
	a->im += im;
}

static int reversed(int i)
{
	int bit, to = 0;

	for (bit = 0; bit < LOG; bit++)
		to |= (i >> bit & 1) << (LOG - 1 - bit);
	return to;
}

static void fft(int me)
{
	int i, half;

	for (i = part(me, NR); i < part(me + 1, NR); i++)
		out[i] = in[reversed(i)];
	for (half = 1; half < NR; half *= 2) {
		for (i = part(me, NR / 2); i < part(me + 1, NR / 2); i++) {
			struct value *a = &out[i / half * half + i];

			combine(a, a + half, &root[i % half * (NR / 2 / half)]);
		}
		meet();
	}
}

/* Transforms nr values, which lie at a distance. */
static void fft_serial(const struct value *from, struct value *to, int nr,
		       int distance)
{
	int i;

	if (nr == 1) {
		*to = *from;
		return;
	}
	fft_serial(from, to, nr / 2, 2 * distance);
	fft_serial(from + distance, to + nr / 2, nr / 2, 2 * distance);
	for (i = 0; i < nr / 2; i++)
		combine(&to[i], &to[i + nr / 2], &root[i * distance]);
}

int main(int argc, char **argv)
{
	double angle = -2 * acos(-1) / NR;
	int i;

	for (i = 0; i < NR / 2; i++)
		root[i] = (struct value) { cos(angle * i), sin(angle * i) };
	for (i = 0; i < NR; i++)
		in[i] = (struct value) { draw() % 1000, draw() % 1000 };
	fft_serial(in, serial, NR, 1);
	run(fft, argc, argv);
	return compare("fft", serial, out, sizeof serial);
}
