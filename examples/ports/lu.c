/* SPDX-License-Identifier: MIT */
/* lu.c: a matrix becomes the product of two triangles, in 64 threads. */

/*
 * The matrix consists of square blocks, each of which belongs to a thread. A
 * step subtracts multiples of the rows of a block on the diagonal. It does so
 * first in this block, then in the blocks below it and to its right, and then
 * in all others there. There is no pivoting, since the diagonal dominates.
 *
 * Serially the matrix is a single block. Each element then goes through the
 * same operations in the same order, so the results are equal to the bit.
 */
#include "kernel.h"

#define NR	256
#define BLOCK	16
#define BLOCKS	(NR / BLOCK)
#define ROW	8			/* threads in a row of 64 */

static double in[NR][NR], matrix[NR][NR], serial[NR][NR];

static int max(int a, int b)
{
	return a > b ? a : b;
}

/*
 * Subtracts multiples of the rows from k on, of a block of this size on the
 * diagonal, in the block at row i, column j.
 */
static __attribute__((noinline))
void eliminate(double (*a)[NR], int i, int j, int k, int size)
{
	int r, c, n;

	for (n = k; n < k + size; n++) {
		for (r = max(i, n + 1); r < i + size && j == k; r++)
			a[r][n] /= a[n][n];
		for (r = max(i, n + 1); r < i + size; r++)
			for (c = max(j, n + 1); c < j + size; c++)
				a[r][c] -= a[r][n] * a[n][c];
	}
}

/* Eliminates in the block in this row and column of blocks, if it is mine. */
static void block(int me, int i, int j, int k)
{
	if (i % ROW * ROW + j % ROW == me)
		eliminate(matrix, i * BLOCK, j * BLOCK, k * BLOCK, BLOCK);
}

static void lu(int me)
{
	int low = part(me, NR), high = part(me + 1, NR);
	int i, j, k;

	memcpy(matrix[low], in[low], (high - low) * sizeof in[0]);
	meet();
	for (k = 0; k < BLOCKS; k++) {
		block(me, k, k, k);
		meet();
		for (i = k + 1; i < BLOCKS; i++) {
			block(me, i, k, k);
			block(me, k, i, k);
		}
		meet();
		for (i = k + 1; i < BLOCKS; i++)
			for (j = k + 1; j < BLOCKS; j++)
				block(me, i, j, k);
	}
}

int main(int argc, char **argv)
{
	int i, j;

	for (i = 0; i < NR; i++)
		for (j = 0; j < NR; j++)
			in[i][j] = draw() % 1000 + (i == j ? 1000.0 * NR : 0);
	memcpy(serial, in, sizeof in);
	eliminate(serial, 0, 0, 0, NR);
	run(lu, argc, argv);
	return compare("lu", serial, matrix, sizeof serial);
}
