/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * place: all that a function keeps over a wait in place (usched_block()) is
 * unchanged afterwards, also if the block is refused. Compilers are made to
 * keep all that they can: addresses by a base pointer, registers of each kind,
 * local variables of a leaf.
 *
 * test/core/place.sh compiles it with flags of its own, and as C++.
 */
#include "tiny.h"
#include <setjmp.h>

#if defined(__x86_64__)
#include <immintrin.h>
/* Functions with a target attribute may wait here: see usched_block(). */
#if !defined(USCHED_IN_PLACE) || defined(__clang__) || defined(__AVX512F__)
#define TARGET_512
#endif
#endif

#define NR	12		/* threads */
#define TRIPS	2		/* of each through all shapes */
#define INLINE	inline __attribute__((always_inline))

typedef unsigned vec16 __attribute__((vector_size(16)));
typedef unsigned vec32 __attribute__((vector_size(32)));
typedef unsigned vec64 __attribute__((vector_size(64)));

static struct tiny t;
static struct tiny_thread tt[NR + 1];
static volatile int waits;	/* else the same is computed without waits */
static volatile long refused, waited;

/*
 * Lets other threads run, and tells whether they have. Calls nothing, so the
 * function that it is part of stays a leaf.
 */
static INLINE int give(void)
{
	if (!waits)
		return 0;
	t.t_yields = tiny_self();
	if (usched_block() == 0) {
		waited = waited + 1;
		return 1;
	}
	t.t_yields = NULL;
	refused = refused + 1;
	return 0;
}

static INLINE unsigned mix(unsigned a, unsigned b)
{
	a = (a ^ b * 2654435761u) * 2246822519u;
	return a ^ a >> 15;
}

/* Returns a value that a compiler cannot know. */
static INLINE unsigned hidden(unsigned a)
{
	__asm__ volatile("" : "+r"(a));
	return a;
}

/* Base pointers. */

static NOINLINE unsigned aligned_alloca(unsigned seed)
{
	unsigned fixed[16] __attribute__((aligned(64)));
	unsigned nr = 8 + hidden(seed) % 64, i, sum = 0;
	unsigned *more = (unsigned *)__builtin_alloca(nr * sizeof *more);

	for (i = 0; i < 16; i++)
		fixed[i] = mix(seed, i);
	for (i = 0; i < nr; i++)
		more[i] = mix(seed, ~i);
	__asm__ volatile("" : : "r"(fixed), "r"(more) : "memory");
	give();
	sum += (uintptr_t)fixed % 64 != 0;
	for (i = 0; i < 16; i++)
		sum = mix(sum, fixed[i]);
	give();
	for (i = 0; i < nr; i++)
		sum = mix(sum, more[i]);
	return sum;
}

/* The frame grows between waits; scalars are spilled beside it. */
static NOINLINE unsigned growing(unsigned seed)
{
	unsigned char fixed[32] __attribute__((aligned(128)));
	unsigned *last = NULL, i, n, sum = seed, a = ~seed, b = mix(a, 1);

	memset(fixed, (int)(seed & 255), sizeof fixed);
	for (n = 1; n < 6; n++) {
		unsigned *more = (unsigned *)__builtin_alloca(
			hidden(n * 3) * sizeof *more);

		for (i = 0; i < n * 3; i++)
			more[i] = last == NULL ? seed :
				last[i % (n * 3 - 3)] + i;
		__asm__ volatile("" : : "r"(fixed), "r"(more) : "memory");
		last = more;
		give();
		sum = mix(sum + a, fixed[n] + more[n]) + b;
		a += b;
	}
	return sum;
}

#if !defined(__cplusplus)
static NOINLINE unsigned aligned_vla(unsigned seed)
{
	unsigned nr = 1 + hidden(seed) % 32, i, sum = 0;
	vec64 fixed[2];
	unsigned more[nr];

	for (i = 0; i < 16; i++)
		fixed[0][i] = fixed[1][i] = mix(i, seed);
	for (i = 0; i < nr; i++)
		more[i] = seed + i;
	__asm__ volatile("" : : "r"(fixed), "r"(more) : "memory");
	give();
	for (i = 0; i < nr; i++)
		sum = mix(sum, more[i]);
	give();
	for (i = 0; i < 16; i++)
		sum = mix(sum, fixed[0][i] ^ (fixed[1][i] + 1));
	return sum;
}
#endif

/* Registers. */

#if defined(__SIZEOF_INT128__)
__extension__ typedef unsigned __int128 wide;
#else
typedef unsigned long long wide;
#endif

static NOINLINE unsigned integers(unsigned seed)
{
	unsigned long a = seed, b = a * 3, c = b ^ 5, d = c * 7, e = d + 11;
	unsigned long f = e * 13, g = f ^ 17, h = g * 19, k = h + 23;
	unsigned long l = k * 29, m = l ^ 31, n = m * 37, o = n + 41, p = o * 43;
	wide w = (wide)p * n;
	int i;

	for (i = 0; i < 3; i++) {
		give();
		a += b ^ p; b += c; c ^= d; d += e * 3; e ^= f; f += g; g += h;
		h ^= k; k += l; l += m; m ^= n; n += o; o += p; p ^= a;
		w = w * 3 + a;
	}
	return (unsigned)(a + b + c + d + e + f + g + h + k + l + m + n + o +
			  p + (unsigned long)(w >> 4 * sizeof w));
}

#if defined(__SSE2__) || !defined(__x86_64__)
#define FLOATS
static NOINLINE unsigned doubles(unsigned seed)
{
	double v[20], sum = 0;
	float f = (float)(seed % 1000), g = f + 1, h = f * 2;
	int i;

	for (i = 0; i < COUNT(v); i++)
		v[i] = (double)(hidden(seed) % 4096) * (i + 1);
	for (i = 0; i < 3; i++) {
		give();
		f += g;
		g -= h;
		v[0] += v[1]; v[2] -= v[3]; v[4] += v[5]; v[6] += v[7];
		v[8] += v[9]; v[10] -= v[11]; v[12] += v[13]; v[14] += v[15];
	}
	for (i = 0; i < COUNT(v); i++)
		sum += v[i] * (i % 3 + 1);
	return (unsigned)(long)(sum + (double)f + (double)g);
}

/* The x87 stack must be empty in a call, and so in a wait. */
static NOINLINE unsigned long_doubles(unsigned seed)
{
	long double a = (long double)(seed % 5000), b = a * 3, c = b + 1;
	long double d = a - c, e = b * 2, f = e - a;

	give();
	a += b;
	c -= d;
	give();
	return (unsigned)(long)(a + 2 * b + 3 * c + 4 * d + 5 * e + f);
}

/* Lowered to the registers of the machine: with -mavx512f, 64 bytes each. */
static NOINLINE unsigned vectors(unsigned seed)
{
	vec16 a = { seed, seed + 1, seed * 3, 4 }, b = a * 5;
	vec32 c = { 1, seed, 3, seed + 7, 5, 6, seed * 9, 8 }, d = c + c;
	vec64 e = { seed, 2, seed + 3, 4, 5, 6, 7, 8, 9, seed, 11, 12, 13 },
	      f = e * 3, g = f - e, h = g * g;
	unsigned i, sum = 0;

	__asm__ volatile("" : "+m"(a), "+m"(c), "+m"(e), "+m"(f));
	b += a, d += c, g += e, h += f;
	give();
	for (i = 0; i < 4; i++)
		sum = mix(sum, a[i] + b[i] * 3);
	give();
	for (i = 0; i < 8; i++)
		sum = mix(sum, c[i] ^ d[i]);
	for (i = 0; i < 16; i++)
		sum = mix(sum, e[i] + f[i] + (g[i] ^ h[i]));
	return sum;
}
#endif

/* Leaves, with locals that would go to the red zone. */

static NOINLINE unsigned leaf_scalars(unsigned seed)
{
	volatile unsigned a = seed, b = seed + 1, c = seed * 3;

	give();
	return a + b * 5 + c * 7;
}

static NOINLINE unsigned leaf_array(unsigned seed)
{
	unsigned v[8], i, sum = 0;

	for (i = 0; i < 8; i++)
		v[i] = seed * (i + 1);
	__asm__ volatile("" : : "r"(v) : "memory");
	give();
	__asm__ volatile("" : : "r"(v) : "memory");
	for (i = 0; i < 8; i++)
		sum = sum * 3 + v[i];
	return sum;
}

struct both { unsigned b_a, b_b, b_c, b_d, b_e, b_f; };

static NOINLINE unsigned leaf_struct(struct both b)
{
	struct both c = b;

	__asm__ volatile("" : : "r"(&c) : "memory");
	give();
	return c.b_a + 3 * c.b_b + 5 * c.b_c + 7 * c.b_f + b.b_d + b.b_e;
}

static NOINLINE unsigned by_value(unsigned seed)
{
	struct both b = { seed, seed + 1, seed + 2, seed * 3, seed * 4, ~seed };

	return leaf_struct(b) + leaf_struct(b);
}

/* Paths through a function. */

static NOINLINE unsigned deep(unsigned seed, unsigned depth)
{
	unsigned v[4] = { seed, depth, seed * depth, 7 }, sum;

	__asm__ volatile("" : : "r"(v) : "memory");
	sum = depth != 0 ? deep(mix(seed, depth), depth - 1) : 0;
	give();
	return sum + v[0] * 3 + v[1] + v[2] + v[3];
}

static NOINLINE unsigned wrapped(unsigned seed)
{
	return deep(seed, 9);
}

static NOINLINE unsigned jumps(unsigned seed)
{
	volatile unsigned count = 0, sum = seed;
	jmp_buf here;

	if (setjmp(here) < 4) {
		sum = mix(sum, count);
		give();
		count = count + 1;
		if (count != 3)
			give();
		longjmp(here, (int)count);
	}
	return sum + count;
}

static NOINLINE unsigned branches(unsigned seed)
{
	unsigned i, sum = 0, way = hidden(seed);

	for (i = 0; i < 8; i++) {
		switch (way % 5) {
		case 0:	give();	sum += i;	/* fall through */
		case 1:	sum ^= way;		break;
		case 2:	give();			/* fall through */
		case 3:	give();	sum *= 3;	break;
		default: sum += way;
		}
		way = mix(way, i);
	}
	return sum;
}

/*
 * A variable of this file only, which other threads change meanwhile. It is
 * read by the caller of a function that waits.
 */
static unsigned ticks;

static NOINLINE int gives(void)
{
	return give();
}

static NOINLINE unsigned changes(unsigned seed)
{
	unsigned before = ticks;
	int all = gives();

	return seed + (all == (ticks != before));
}

/* Registers that only the program's own code asks for. */

#if defined(__MMX__) && defined(__SSE2__)
#define HAVE_MMX
/* Without emms: then no thread may use x87 meanwhile. */
static NOINLINE unsigned mmx(unsigned seed)
{
	__m64 a = _mm_set_pi32((int)seed, 3), b = _mm_set_pi32(5, (int)seed);

	a = _mm_add_pi32(a, b);
	b = _mm_xor_si64(a, b);
	__asm__ volatile("" : "+y"(a), "+y"(b));	/* now */
	give();
	a = _mm_add_pi32(a, b);
	return (unsigned)_mm_cvtsi64_si32(a);
}
#endif

#if defined(TARGET_512)
#define AVX512	__attribute__((target("avx512f"), noinline))

AVX512 static unsigned zmm_lanes(unsigned seed)
{
	__m512i a = _mm512_set1_epi32((int)seed), b, c;
	unsigned v[16], i, sum = 0;

	for (i = 0; i < 16; i++)
		v[i] = mix(seed, i);
	b = _mm512_loadu_si512(v);
	c = _mm512_add_epi32(a, b);
	a = _mm512_xor_si512(a, c);
	give();
	a = _mm512_add_epi32(_mm512_mullo_epi32(a, b), c);
	_mm512_storeu_si512(v, a);
	for (i = 0; i < 16; i++)
		sum = mix(sum, v[i]);
	return sum;
}

/* 32 values: registers above 15 have no other names. */
AVX512 static unsigned zmm_many(unsigned seed)
{
	__m512i v[24];
	unsigned w[16], i, sum = 0;

	for (i = 0; i < 16; i++)
		w[i] = mix(seed, i);
#pragma GCC unroll 24
	for (i = 0; i < 24; i++)
		v[i] = _mm512_add_epi32(_mm512_loadu_si512(w),
					_mm512_set1_epi32((int)i));
	give();
#pragma GCC unroll 24
	for (i = 0; i < 24; i++) {
		_mm512_storeu_si512(w, _mm512_xor_si512(
			v[i], _mm512_loadu_si512(w)));
	}
	for (i = 0; i < 16; i++)
		sum = mix(sum, w[i]);
	return sum;
}

AVX512 static unsigned masks(unsigned seed)
{
	unsigned v[16], i, sum = 0;
	__mmask16 odd, large;
	__m512i a;

	for (i = 0; i < 16; i++)
		v[i] = mix(seed, i);
	a = _mm512_loadu_si512(v);
	odd = _mm512_test_epi32_mask(a, _mm512_set1_epi32(1));
	large = _mm512_cmpgt_epi32_mask(a, _mm512_set1_epi32(0));
	__asm__ volatile("" : "+Yk"(odd), "+Yk"(large));	/* now */
	give();
	a = _mm512_mask_add_epi32(a, odd, a, a);
	a = _mm512_mask_xor_epi32(a, large, a, _mm512_set1_epi32((int)seed));
	_mm512_storeu_si512(v, a);
	for (i = 0; i < 16; i++)
		sum = mix(sum, v[i]);
	return sum;
}

#define DIRT_512							\
	"vpternlogd $255, %%zmm7, %%zmm7, %%zmm7\n\t"			\
	"vpternlogd $255, %%zmm17, %%zmm17, %%zmm17\n\t"		\
	"vpternlogd $255, %%zmm31, %%zmm31, %%zmm31\n\t"		\
	"vmovdqa64 %%zmm7, %%zmm0\n\tvmovdqa64 %%zmm7, %%zmm1\n\t"	\
	"vmovdqa64 %%zmm7, %%zmm2\n\tvmovdqa64 %%zmm7, %%zmm3\n\t"	\
	"vmovdqa64 %%zmm7, %%zmm16\n\tvmovdqa64 %%zmm7, %%zmm18\n\t"	\
	"vmovdqa64 %%zmm7, %%zmm19\n\tvmovdqa64 %%zmm7, %%zmm20\n\t"	\
	"kxnorw %%k1, %%k1, %%k1\n\tkmovw %%k1, %%k0\n\tkmovw %%k1, %%k2\n\t" \
	"kmovw %%k1, %%k3\n\tkmovw %%k1, %%k4\n\tkmovw %%k1, %%k5\n\t"	\
	"kmovw %%k1, %%k6\n\tkmovw %%k1, %%k7"

/* Changes registers that the compiler does not know elsewhere. */
AVX512 static void dirty_512(void)
{
	__asm__ volatile(DIRT_512 : : : "xmm0", "xmm1", "xmm2", "xmm3", "xmm7",
			 "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm31",
			 "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7");
}

static int have_512(void)
{
	return __builtin_cpu_supports("avx512f");
}
#endif

enum { ALL, ONLY_512, ONLY_MMX };

static const struct shape {
	const char *h_name;
	unsigned  (*h_f)(unsigned seed);
	int         h_kind;	/* below */
} shapes[] = {
	{ "aligned_alloca", aligned_alloca, ALL },
	{ "growing", growing, ALL },
#if !defined(__cplusplus)
	{ "aligned_vla", aligned_vla, ALL },
#endif
	{ "integers", integers, ALL },
#if defined(FLOATS)
	{ "doubles", doubles, ALL }, { "vectors", vectors, ALL },
	{ "long_doubles", long_doubles, ALL },
#endif
	{ "leaf_scalars", leaf_scalars, ALL },
	{ "leaf_array", leaf_array, ALL },
	{ "by_value", by_value, ALL }, { "wrapped", wrapped, ALL },
	{ "jumps", jumps, ALL }, { "branches", branches, ALL },
	{ "changes", changes, ALL },
#if defined(HAVE_MMX)
	{ "mmx", mmx, ONLY_MMX },
#endif
#if defined(TARGET_512)
	{ "zmm_lanes", zmm_lanes, ONLY_512 },
	{ "zmm_many", zmm_many, ONLY_512 }, { "masks", masks, ONLY_512 },
#endif
};

static unsigned want[COUNT(shapes)][NR][TRIPS];
static int live, kind;		/* threads; the kind of shapes they run */

static int fits(const struct shape *h)
{
#if defined(TARGET_512)
	if (h->h_kind == ONLY_512 && have_512())
		return kind == ALL;
#endif
	return h->h_kind == kind;
}

/* Computes the same without waits, outside of usched_run(). */
static void compute(void)
{
	int h, i, j;

	for (h = 0; h < COUNT(shapes); h++) {
		for (i = 0; i < NR && fits(&shapes[h]); i++) {
			for (j = 0; j < TRIPS; j++)
				want[h][i][j] = shapes[h].h_f(
					check_hash(check_seed + i, j));
		}
	}
}

/* At any time, threads are in different shapes. */
static void thread(void *arg)
{
	int me = (int)((struct tiny_thread *)arg - tt), h, j, k;

	for (j = 0; j < TRIPS; j++) {
		for (k = 0; k < COUNT(shapes); k++) {
			h = (k + me * 5) % COUNT(shapes);
			if (!fits(&shapes[h]))
				continue;
			if (shapes[h].h_f(check_hash(check_seed + me, j)) !=
			    want[h][me][j])
				check_fail(__FILE__, __LINE__,
					   shapes[h].h_name);
		}
	}
	live--;
}

/* Overwrites all registers from which other threads might read. */
static void dirt(void *arg)
{
	while (live > 0) {
		ticks++;
#if defined(__x86_64__) && defined(__SSE2__)
		__asm__ volatile("pcmpeqd %%xmm0, %%xmm0\n\t"
			"pcmpeqd %%xmm5, %%xmm5\n\tpcmpeqd %%xmm6, %%xmm6\n\t"
			"pcmpeqd %%xmm8, %%xmm8\n\tpcmpeqd %%xmm15, %%xmm15"
			: : : "xmm0", "xmm5", "xmm6", "xmm8", "xmm15");
#endif
#if defined(HAVE_MMX)
		if (kind == ONLY_MMX)
			__asm__ volatile("pcmpeqd %%mm0, %%mm0\n\t"
				"pcmpeqd %%mm1, %%mm1" : : : "mm0", "mm1");
#endif
#if defined(TARGET_512)
		if (have_512())
			dirty_512();
#endif
		give();
	}
}

static void with_lanes(int lanes, long fail)
{
	long before = waited;
	int i;

	if (tiny_init(&t, lanes) == -ENOSYS)
		return;
	live = NR;
	t.t_fail = fail;
	for (i = 0; i < NR; i++)
		tiny_start(&t, &tt[i], thread, &tt[i]);
	tiny_start(&t, &tt[NR], dirt, NULL);
	tiny_run(&t);
	CHECK(live == 0 && waited - before >= NR * TRIPS);
	tiny_fini(&t);
}

static void with_shapes(int of_kind)
{
	static const int lanes[] = { 0, 1, 3, NR + 1 };
	int i;
	long j;

	kind = of_kind;
	waits = 0;
	compute();
	waits = 1;
	for (i = 0; i < COUNT(lanes); i++) {
		with_lanes(lanes[i], 0);
		for (j = 1; j <= 40; j += 3)
			with_lanes(lanes[i], j);
	}
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	with_shapes(ALL);
	CHECK_THAT(refused, >, 0);
#if defined(HAVE_MMX)
	with_shapes(ONLY_MMX);
	_mm_empty();
#endif
	return 0;
}
