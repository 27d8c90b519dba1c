/* SPDX-License-Identifier: MIT */
/* shapes.c: frames of many shapes, below which the program goes on. */

/*
 * Each shape has values in a different place (registers, the stack, arguments
 * on the stack, a vector, and so on), lets the program go on, and then hashes
 * the values.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "fuzz.h"

#include <alloca.h>
#include <stdarg.h>
#include <string.h>

static uint64_t bits(double d)
{
	uint64_t b;

	memcpy(&b, &d, sizeof b);
	return b;
}

static NOINLINE double real(uint64_t a, uint64_t b)
{
	return (double)(mix(a, b) >> 40) * 0.001 + 1;
}

/* More integers than a machine has registers for. */
uint64_t shape_ints(struct life *l)
{
	uint64_t s = get(l) + l->l_seed;
	uint64_t a = mix(s, 1), b = mix(s, 2), c = mix(s, 3), d = mix(s, 4);
	uint64_t e = mix(s, 5), f = mix(s, 6), g = mix(s, 7), h = mix(s, 8);
	uint64_t i = mix(s, 9), j = mix(s, 10), m = mix(s, 11), n = mix(s, 12);
	struct link k;
	uint64_t was;

	enter(l, &k);
	was = under(l);
	was += a + 3 * b + 5 * c + 7 * d + 9 * e + 11 * f + 13 * g + 15 * h;
	was = mix(was, under(l));
	return leave(l, &k, was ^ (a - b * c + d * e - f * g + h * i - j + m * n));
}

uint64_t shape_doubles(struct life *l)
{
	uint64_t s = get(l) + l->l_seed, was;
	double a = real(s, 1), b = real(s, 2), c = real(s, 3), d = real(s, 4);
	double e = real(s, 5), f = real(s, 6), g = real(s, 7), h = real(s, 8);
	double i = real(s, 9), j = real(s, 10), m = real(s, 11);
	long double n = (long double)real(s, 12) / 7;
	float o = (float)real(s, 13) / 3;
	struct link k;

	enter(l, &k);
	was = under(l);
	was = mix(was, bits(a + b * c - d / e + f - g * h + i / j - m));
	was = mix(was, bits((double)(n * (long double)a) + (double)o));
	return leave(l, &k, was);
}

#define VECTOR(name, type, nob, target)					\
typedef type name##_vector __attribute__((vector_size(nob)));		\
target static NOINLINE uint64_t name##_body(struct life *l)		\
{									\
	enum { NR = nob / sizeof(type) };				\
	name##_vector a, b, c;						\
	uint64_t was = get(l) + l->l_seed;				\
	struct link k;							\
	unsigned i;							\
									\
	enter(l, &k);							\
	for (i = 0; i < NR; i++) {					\
		a[i] = (type)(mix(was, i) >> 44);			\
		b[i] = (type)(mix(was, 100 + i) >> 44);			\
	}								\
	c = a * b + a;							\
	was = under(l);							\
	c += b - a;							\
	was = mix(was, under(l));					\
	c = c * a + b;							\
	for (i = 0; i < NR; i++)					\
		was = mix(was, (uint64_t)(int64_t)c[i]);		\
	return leave(l, &k, was);					\
}

VECTOR(vec16, double, 16, )
VECTOR(vec32, float, 32, )

uint64_t shape_vec16(struct life *l)
{
	return vec16_body(l);
}

uint64_t shape_vec32(struct life *l)
{
	return vec32_body(l);
}

/* In registers of 32 bytes, if the machine has them. */
#if defined(__x86_64__)
VECTOR(avx, double, 32, __attribute__((target("avx2"))))

uint64_t shape_avx(struct life *l)
{
	return __builtin_cpu_supports("avx2") ? avx_body(l) : vec32_body(l);
}
#else
uint64_t shape_avx(struct life *l)
{
	return vec32_body(l);
}
#endif

/* Arguments on the stack, and a struct that is returned there. */

struct three { uint64_t t_x, t_y, t_z; };

static NOINLINE struct three many(struct life *l, int a, long b, short c,
				  char d, unsigned e, long f, long g, long h,
				  int i, double m, float n, double o, double p,
				  double q, double r, double s, double t,
				  double u, float v, struct three w)
{
	struct three rc;
	struct link k;

	enter(l, &k);
	rc.t_x = under(l);
	rc.t_y = mix(mix(mix(mix(a, b), c), d), e);
	rc.t_y = mix(mix(mix(mix(rc.t_y, f), g), h), i);
	rc.t_z = bits(m - n * o + p / q - r * s + t - u * v);
	rc.t_z = mix(rc.t_z, w.t_x ^ w.t_y * 3 ^ w.t_z * 5);
	rc.t_x = leave(l, &k, mix(rc.t_x, under(l)));
	return rc;
}

uint64_t shape_many(struct life *l)
{
	uint64_t s = get(l) + l->l_seed;
	struct three w = { mix(s, 1), mix(s, 2), mix(s, 3) };

	w = many(l, (int)s, (long)w.t_x, (short)s, (char)s, (unsigned)s, 6, 7,
		 (long)w.t_y, 9, real(s, 4), 2.5f, real(s, 5), 4., real(s, 6),
		 6., 7., 8., real(s, 7), 10.5f, w);
	return mix(mix(w.t_x, w.t_y), w.t_z);
}

struct big { uint64_t b_at[40]; };

static NOINLINE struct big byval(struct life *l, struct big b)
{
	struct link k;
	int i;

	enter(l, &k);
	b.b_at[0] += under(l);
	for (i = 1; i < 40; i++)
		b.b_at[i] += b.b_at[i - 1];
	b.b_at[39] = leave(l, &k, b.b_at[39]);
	return b;
}

uint64_t shape_byval(struct life *l)
{
	uint64_t s = get(l) + l->l_seed;
	struct big b;
	int i;

	for (i = 0; i < 40; i++)
		b.b_at[i] = mix(s, i);
	return byval(l, b).b_at[39] ^ b.b_at[17];
}

static NOINLINE uint64_t varargs(struct life *l, int nr, ...)
{
	uint64_t was = 0;
	struct link k;
	va_list ap;
	int i;

	enter(l, &k);
	va_start(ap, nr);
	for (i = 0; i < nr; i++) {
		was = mix(was, va_arg(ap, int));
		if (i == nr / 2)
			was = mix(was, under(l));
		was = mix(was, bits(va_arg(ap, double)));
		was = mix(was, *va_arg(ap, uint64_t *));
	}
	va_end(ap);
	return leave(l, &k, was);
}

uint64_t shape_varargs(struct life *l)
{
	uint64_t s = get(l) + l->l_seed, a = mix(s, 1), b = mix(s, 2);

	return varargs(l, 6, (int)s, 0.5, &a, 2, real(s, 3), &b, 3, 1.5, &a,
		       4, real(s, 4), &s, 5, real(s, 5), &b, (int)a, 3.5, &s);
}

/* Memory. */

static NOINLINE void fill(unsigned char *at, int nob, uint64_t s)
{
	for (; nob >= 8; at += 8, nob -= 8) {
		s = s * 0x9e3779b97f4a7c15u + 1;
		memcpy(at, &s, 8);
	}
	for (; nob > 0; nob--)
		*at++ = (unsigned char)(s >> nob);
}

static NOINLINE uint64_t sum(const unsigned char *at, int nob)
{
	uint64_t h = nob, word;

	for (; nob >= 8; at += 8, nob -= 8) {
		memcpy(&word, at, 8);
		h = (h ^ word) * 0x9e3779b97f4a7c15u;
		h ^= h >> 31;
	}
	while (nob > 0)
		h = mix(h, at[--nob]);
	return h;
}

uint64_t shape_alloca(struct life *l)
{
	int nob = 1 + (int)get(l) * 3;
	unsigned char *array, *more;
	struct link k;
	uint64_t was;

	enter(l, &k);
	array = (unsigned char *)alloca(nob);
	fill(array, nob, l->l_seed);
	was = under(l);
	more = (unsigned char *)alloca(2 * nob);
	fill(more, 2 * nob, ~l->l_seed);
	was = mix(was, under(l));
	return leave(l, &k, was ^ sum(array, nob) ^ 3 * sum(more, 2 * nob));
}

uint64_t shape_vla(struct life *l)
{
	int nob = 1 + (int)get(l) * 7;
	unsigned char array[nob];
	struct link k;
	uint64_t was;

	enter(l, &k);
	fill(array, nob, l->l_seed);
	was = under(l);
	return leave(l, &k, was ^ sum(array, nob));
}

#define ARRAY(nob)							\
uint64_t shape_array_##nob(struct life *l)				\
{									\
	unsigned char array[nob];					\
	struct link k;							\
	uint64_t was;							\
									\
	enter(l, &k);							\
	fill(array, nob, l->l_seed + l->l_at);				\
	was = under(l);							\
	was ^= sum(array, nob);						\
	array[get(l) % nob]++;						\
	was = mix(was, under(l));					\
	return leave(l, &k, was ^ sum(array, nob));			\
}

ARRAY(24)
ARRAY(333)
ARRAY(1025)
ARRAY(9000)
ARRAY(50000)

/* A frame with a larger alignment than the ABI gives. */
uint64_t shape_aligned(struct life *l)
{
	unsigned char array[96] __attribute__((aligned(64)));
	unsigned char *volatile at = array;
	struct link k;
	uint64_t was;

	enter(l, &k);
	MUST((uintptr_t)at % 64 == 0);
	fill(at, 96, l->l_seed);
	was = under(l);
	MUST((uintptr_t)at % 64 == 0 && at == array);
	return leave(l, &k, was ^ sum(array, 96));
}

/* Many small frames. */

static NOINLINE uint64_t again(struct life *l, int n)
{
	uint64_t s = mix(l->l_seed, n), was;

	if (n == 0)
		return under(l);
	was = again(l, n - 1);
	if (n % 4 == 1)
		was = mix(was, under(l));
	return mix(was, s);
}

uint64_t shape_recurse(struct life *l)
{
	struct link k;

	enter(l, &k);
	return leave(l, &k, again(l, (int)(get(l) % 16)));
}

/* A caller's data are changed in frames below. */

static NOINLINE uint64_t by_pointer(struct life *l, struct three *t)
{
	struct three *volatile keep = t;

	t->t_x += under(l);
	keep->t_y ^= keep->t_x;
	keep->t_z += under(l);
	return keep->t_z;
}

uint64_t shape_pointer(struct life *l)
{
	struct three t = { get(l), 2, l->l_seed };
	struct link k;
	uint64_t was;

	enter(l, &k);
	was = by_pointer(l, &t);
	return leave(l, &k, mix(mix(was, t.t_x), t.t_y + t.t_z));
}

/*
 * An operation "leap" below may come back here, over frames that have blocked.
 */
uint64_t shape_setjmp(struct life *l)
{
	struct life *volatile self = l;
	volatile uint64_t was = get(l) + l->l_seed;
	volatile int times = 0;
	struct leap here;
	struct link k;
	struct mark m;

	enter(l, &k);
	mark(l, &m);
	here.p_up = l->l_leap;
	if (setjmp(here.p_env) != 0) {
		times++;
		back_to(self, &m);
	}
	if (times < 3) {
		self->l_leap = &here;
		was = mix(was, under(self));
		self->l_leap = m.m_leap;
	}
	was = mix(was, under(self));
	return leave(self, &k, was + times);
}

#if !defined(FUZZ_CXX)

/* Without a C++ compiler these take the place of throws.cc. */

const int fuzz_cxx = 0;

int fuzz_throw(struct life *l, unsigned how)
{
	(void)l;
	(void)how;
	return 0;
}

uint64_t shape_try(struct life *l)
{
	return shape_ints(l);
}

uint64_t shape_filter(struct life *l)
{
	return shape_doubles(l);
}

uint64_t shape_guard(struct life *l)
{
	return shape_recurse(l);
}

#endif
