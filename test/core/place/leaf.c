/* SPDX-License-Identifier: MIT */
/*
 * leaf.c: small functions that wait, and call no other function. test/core/place.sh
 * reads their assembly: none may have locals below the stack pointer. With
 * LEAF_BARE they do not call usched_refused() either; then some must be found.
 */
#include "rr.h"
#include "ll.h"
#include "ws.h"

#if defined(LEAF_BARE) && defined(USCHED_SWITCH)
static __inline__ __attribute__((always_inline)) int block(void)
{
	int rc;

	USCHED_SWITCH(rc);
	return rc;
}
#else
#define block	usched_block
#endif

struct six { long s_a, s_b, s_c, s_d, s_e, s_f; };

long leaf_none(void);
long leaf_ignored(long a, long b);
long leaf_kept(long a, long b, long c, long d, long e, long f);
long leaf_volatile(long a, long b);
long leaf_array(long a, long b);
long leaf_struct(const struct six *s);
long leaf_large(long a);
#if defined(__SSE2__)
double leaf_doubles(double a, double b, double c);
#endif
long leaf_loop(long nr);
long leaf_branch(long a, long b);
long leaf_twice(long a, long b);
long leaf_result(long a);
int *leaf_pointer(int *at);
long leaf_over(long a, long b, long c, long d, long e, long f, long g, long h);
int leaf_rr(int a, int b);
int leaf_ll(int a, int b);
int leaf_ws(int a, int b);

long leaf_none(void)
{
	return block();
}

long leaf_ignored(long a, long b)
{
	block();
	return a - b;
}

long leaf_kept(long a, long b, long c, long d, long e, long f)
{
	long g = a * b, h = c * d;

	if (block() != 0)
		return 0;
	return a + 3 * b + 5 * c + 7 * d + 9 * e + 11 * f + g - h;
}

long leaf_volatile(long a, long b)
{
	volatile long c = a + b, d = a * b;

	block();
	return c + d;
}

long leaf_array(long a, long b)
{
	long v[6] = { a, b, a + b, a - b, a * b, a ^ b };

	__asm__ volatile("" : : "r"(v) : "memory");
	block();
	__asm__ volatile("" : : "r"(v) : "memory");
	return v[0] + v[1] + v[2] + v[3] + v[4] + v[5];
}

long leaf_struct(const struct six *s)
{
	struct six copy = *s;

	block();
	return copy.s_a + copy.s_f + s->s_b;
}

/* About all of the red zone. */
long leaf_large(long a)
{
	volatile char v[100];
	int i;

	for (i = 0; i < 100; i++)
		v[i] = (char)(a + i);
	block();
	return v[a & 63];
}

#if defined(__SSE2__)
double leaf_doubles(double a, double b, double c)
{
	block();
	return a * b + c;
}
#endif

long leaf_loop(long nr)
{
	long i, sum = 0;

	for (i = 0; i < nr; i++)
		sum += block() + i;
	return sum;
}

long leaf_branch(long a, long b)
{
	if (a < b && block() == 0)
		return a;
	return b - a;
}

long leaf_twice(long a, long b)
{
	if (block() != 0)
		return a;
	return block() + a * b;
}

long leaf_result(long a)
{
	int rc = block();

	return rc == 0 ? a : rc;
}

int *leaf_pointer(int *at)
{
	int before = *at;

	*at = block();
	return at + before;
}

long leaf_over(long a, long b, long c, long d, long e, long f, long g, long h)
{
	block();
	return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h;
}

int leaf_rr(int a, int b)
{
	return rr_wait() + a * b;
}

int leaf_ll(int a, int b)
{
	return ll_wait() + a * b;
}

int leaf_ws(int a, int b)
{
	return ws_wait() + a * b;
}
