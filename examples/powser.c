/* SPDX-License-Identifier: MIT */
/* powser.c: the power series of tan from tan' = 1 + tan^2, by two threads. */

#include <stdio.h>
#include <usched/all.h>

#define NR	20

/* Streams of integers: the n-th is the coefficient of x^n, times n! */
static struct uchan *terms, *squares;

static void square(void *arg)
{
	long t[NR];

	for (int n = 0; uchan_recv(terms, &t[n], UNEVER) == 0; n++) {
		long sum = 0, choose = 1;

		for (int i = 0; i <= n; i++) {
			sum += choose * t[i] * t[n - i];
			choose = choose * (n - i) / (i + 1);
		}
		uchan_send(squares, &sum, UNEVER);
	}
	uchan_close(arg);
}

static void integrate(void *arg)
{
	long t = 0;

	for (int n = 0; n < NR && uchan_send(terms, &t, UNEVER) == 0; n++) {
		if (t != 0)
			printf("%ld/%d! x^%d\n", t, n, n);
		uchan_recv(squares, &t, UNEVER);
		t += n == 0;
	}
	uchan_close(arg);
}

int main(void)
{
	terms = uchan_make(sizeof(long), 0);
	squares = uchan_make(sizeof(long), 0);
	return ll_init(1, 0) || !ll_thread_init(square, squares, 0) ||
		!ll_thread_init(integrate, terms, 0) || ll_start() || ll_fini();
}
