/* SPDX-License-Identifier: MIT */
/* gen.h: the questions that programs with generators answer. */

#ifndef GEN_H
#define GEN_H

/*
 *	count NR	a generator counts, and NR values are taken
 *	tree NR		a tree of TREE nodes is walked in order, by recursion,
 *			by one generator after another, until NR keys are taken
 *	short NR	NR generators are made, each is asked for two values,
 *			and gives one
 *
 * The answer is one number on stdout: ns of processor time for each value. Bad
 * usage: status 2.
 * A program defines the three functions below, which return the sum of all
 * values. The tree is small enough for the first-level caches.
 */

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

enum { TREE = 1023 };

struct node {
	const node *left, *right;
	long        key;
};

static long count(long nr);
static long tree(const node *root);
static long brief(long key);

static node *plant(long from, long to)
{
	long middle = from + (to - from) / 2;

	if (from >= to)
		return NULL;
	return new node { plant(from, middle), plant(middle + 1, to), middle };
}

static double now()
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int argc, char **argv)
{
	long nr = argc == 3 ? atol(argv[2]) : 0, sum = 0, want = 0;
	const node *root = plant(0, TREE);
	double begun = now();

	if (nr <= 0)
		return 2;
	if (strcmp(argv[1], "count") == 0) {
		sum  = count(nr);
		want = nr * (nr - 1) / 2;
	} else if (strcmp(argv[1], "tree") == 0) {
		nr = (nr + TREE - 1) / TREE * TREE;
		for (long i = 0; i < nr; i += TREE)
			sum += tree(root);
		want = nr / TREE * (TREE * (TREE - 1) / 2);
	} else if (strcmp(argv[1], "short") == 0) {
		for (long i = 0; i < nr; i++)
			sum += brief(i);
		want = nr * (nr - 1) / 2;
	} else
		return 2;
	begun = now() - begun;
	if (sum != want) {
		fprintf(stderr, "%s: the sum is wrong\n", argv[0]);
		return 1;
	}
	printf("%.2f\n", begun / nr);
	return 0;
}

#endif /* GEN_H */
