/* SPDX-License-Identifier: MIT */
/* u_shapes.h: threads that block at random depth, in frames of all shapes. */

#ifndef U_SHAPES_H
#define U_SHAPES_H

/*
 * Every frame on the way down has a struct frame with a pattern of its own,
 * linked by address to the frame above. After each block the whole chain is
 * walked. So a frame that is in another place, or has other contents, is
 * noticed at once (usched I1, I3). On the way back each shape checks its own
 * data.
 */

#include "tiny.h"
#include <setjmp.h>
#include <stdarg.h>

struct frame {
	struct frame *f_up;
	struct frame *f_self;
	unsigned      f_depth;
	unsigned      f_pattern;
};

struct job {
	struct tiny_thread j_thread;		/* must be first */
	unsigned           j_seed;		/* patterns */
	unsigned           j_random;		/* choices */
	int                j_trips;		/* round trips to make */
	int                j_blocks;		/* blocks that were made */
};

typedef unsigned shape_t(struct job *j, struct frame *up);

static int shape_depth_max = 12;

static unsigned shape_any(struct job *j, struct frame *up);

static unsigned pattern(const struct job *j, unsigned depth)
{
	return check_hash(j->j_seed, depth);
}

static unsigned choose(struct job *j, unsigned nr)
{
	return (check_random(&j->j_random) >> 8) % nr;
}

static void walk(const struct job *j, const struct frame *f)
{
	unsigned depth = f->f_depth;

	for (; f != NULL; f = f->f_up, depth--) {
		CHECK_IS(f->f_self, f);
		CHECK_IS(f->f_depth, depth);
		CHECK_IS(f->f_pattern, pattern(j, depth));
	}
	CHECK_IS(depth, (unsigned)-1);
}

static void enter(const struct job *j, struct frame *f, struct frame *up)
{
	f->f_up      = up;
	f->f_self    = f;
	f->f_depth   = up != NULL ? up->f_depth + 1 : 0;
	f->f_pattern = pattern(j, f->f_depth);
}

static void maybe_block(struct job *j, struct frame *f)
{
	if (choose(j, 4) != 0)
		return;
	j->j_blocks++;
	tiny_yield();
	CHECK_IS(ustack_self(), &j->j_thread.tt_stack);
	walk(j, f);
}

/* Goes down by one frame, with blocks before and after. */
static NOINLINE unsigned deeper(struct job *j, struct frame *f)
{
	unsigned rc = 0;

	maybe_block(j, f);
	if (f->f_depth < (unsigned)shape_depth_max && choose(j, 8) != 0)
		rc = shape_any(j, f);
	maybe_block(j, f);
	return rc;
}

/* More integers than a machine has registers for. */
static NOINLINE unsigned shape_ints(struct job *j, struct frame *up)
{
	struct frame f;
	unsigned p = pattern(j, 1000), rc;
	unsigned a = check_hash(p, 1), b = check_hash(p, 2);
	unsigned c = check_hash(p, 3), d = check_hash(p, 4);
	unsigned e = check_hash(p, 5), g = check_hash(p, 6);
	unsigned h = check_hash(p, 7), i = check_hash(p, 8);
	unsigned k = check_hash(p, 9), l = check_hash(p, 10);
	unsigned m = check_hash(p, 11), n = check_hash(p, 12);

	enter(j, &f, up);
	rc = deeper(j, &f);
	CHECK(a == check_hash(p, 1) && b == check_hash(p, 2));
	CHECK(c == check_hash(p, 3) && d == check_hash(p, 4));
	CHECK(e == check_hash(p, 5) && g == check_hash(p, 6));
	CHECK(h == check_hash(p, 7) && i == check_hash(p, 8));
	CHECK(k == check_hash(p, 9) && l == check_hash(p, 10));
	CHECK(m == check_hash(p, 11) && n == check_hash(p, 12));
	return rc + 1;
}

static NOINLINE double real(unsigned a, unsigned b)
{
	return check_hash(a, b) * 0.001;
}

static NOINLINE unsigned shape_doubles(struct job *j, struct frame *up)
{
	struct frame f;
	unsigned p = pattern(j, 2000), rc;
	double a = real(p, 1), b = real(p, 2), c = real(p, 3), d = real(p, 4);
	double e = real(p, 5), g = real(p, 6), h = real(p, 7), i = real(p, 8);
	double k = real(p, 9), l = real(p, 10), m = real(p, 11);
	long double n = (long double)real(p, 12) / 3;
	float o = (float)real(p, 13);

	enter(j, &f, up);
	rc = deeper(j, &f);
	CHECK(a == real(p, 1) && b == real(p, 2) && c == real(p, 3));
	CHECK(d == real(p, 4) && e == real(p, 5) && g == real(p, 6));
	CHECK(h == real(p, 7) && i == real(p, 8) && k == real(p, 9));
	CHECK(l == real(p, 10) && m == real(p, 11));
	CHECK(n == (long double)real(p, 12) / 3 && o == (float)real(p, 13));
	return rc + 1;
}

static NOINLINE void fill(unsigned char *at, int nob, unsigned p)
{
	int i;

	for (i = 0; i < nob; i++)
		at[i] = (unsigned char)(p + i * 37);
}

static NOINLINE void filled(const unsigned char *at, int nob, unsigned p)
{
	int i;

	for (i = 0; i < nob; i++)
		CHECK_IS(at[i], (unsigned char)(p + i * 37));
}

#define ARRAY(name, nob)						\
static NOINLINE unsigned name(struct job *j, struct frame *up)		\
{									\
	unsigned char array[nob];					\
	struct frame f;							\
	unsigned rc;							\
									\
	enter(j, &f, up);						\
	fill(array, nob, f.f_pattern);					\
	rc = deeper(j, &f);						\
	filled(array, nob, f.f_pattern);				\
	return rc + 1;							\
}

ARRAY(shape_array_1, 1)
ARRAY(shape_array_24, 24)
ARRAY(shape_array_333, 333)
ARRAY(shape_array_1025, 1025)
ARRAY(shape_array_7000, 7000)

static NOINLINE unsigned shape_vla(struct job *j, struct frame *up)
{
	int nob = 1 + (int)choose(j, 2000);
	unsigned char array[nob];
	struct frame f;
	unsigned rc;

	enter(j, &f, up);
	fill(array, nob, f.f_pattern);
	rc = deeper(j, &f);
	filled(array, nob, f.f_pattern);
	return rc + 1;
}

static NOINLINE unsigned shape_alloca(struct job *j, struct frame *up)
{
	unsigned char *more, *array;
	int nob = 1 + (int)choose(j, 300);
	struct frame f;
	unsigned rc;

	enter(j, &f, up);
	array = (unsigned char *)alloca(nob);
	fill(array, nob, f.f_pattern);
	maybe_block(j, &f);
	more = (unsigned char *)alloca(2 * nob);
	fill(more, 2 * nob, ~f.f_pattern);
	rc = deeper(j, &f);
	filled(array, nob, f.f_pattern);
	filled(more, 2 * nob, ~f.f_pattern);
	return rc + 1;
}

static NOINLINE unsigned varargs(struct job *j, struct frame *up, int nr, ...)
{
	struct frame f;
	unsigned rc = 0;
	va_list ap;
	int i;

	enter(j, &f, up);
	va_start(ap, nr);
	for (i = 0; i < nr; i++) {
		CHECK_IS(va_arg(ap, int), i);
		CHECK_IS(va_arg(ap, double), i * 0.5);
		if (i == nr / 2)
			rc = deeper(j, &f);
		CHECK_IS(va_arg(ap, void *), (void *)j);
	}
	va_end(ap);
	return rc + 1;
}

static NOINLINE unsigned shape_varargs(struct job *j, struct frame *up)
{
	void *p = j;

	return varargs(j, up, 6, 0, 0.0, p, 1, 0.5, p, 2, 1.0, p, 3, 1.5, p,
		       4, 2.0, p, 5, 2.5, p) + 1;
}

struct three { long t_x, t_y, t_z; };

static NOINLINE struct three many(struct job *j, struct frame *up, int a,
				  int b, int c, int d, int e, int f, int g,
				  int h, int i, double k, double l, double m,
				  double n, double o, double p, double q,
				  double r, double s, struct three t)
{
	struct three rc = { 0, 0, 0 };
	struct frame fr;

	enter(j, &fr, up);
	rc.t_z = deeper(j, &fr);
	rc.t_x = a + b + c + d + e + f + g + h + i;
	rc.t_y = (long)(k + l + m + n + o + p + q + r + s);
	CHECK(t.t_x == 11 && t.t_y == 12 && t.t_z == 13);
	return rc;
}

static NOINLINE unsigned shape_many(struct job *j, struct frame *up)
{
	struct three t = { 11, 12, 13 };

	t = many(j, up, 1, 2, 3, 4, 5, 6, 7, 8, 9,
		 1., 2., 3., 4., 5., 6., 7., 8., 9., t);
	CHECK(t.t_x == 45 && t.t_y == 45);
	return (unsigned)t.t_z + 2;
}

/* A frame with a larger alignment than the ABI gives. */
static NOINLINE unsigned shape_aligned(struct job *j, struct frame *up)
{
	unsigned char array[64] __attribute__((aligned(64)));
	unsigned char *volatile at = array;
	struct frame f;
	unsigned rc;

	enter(j, &f, up);
	CHECK_IS((uintptr_t)at % 64, 0);
	fill(at, 64, f.f_pattern);
	rc = deeper(j, &f);
	CHECK_IS((uintptr_t)at % 64, 0);
	filled(at, 64, f.f_pattern);
	return rc + 1;
}

static NOINLINE void leap(struct job *j, struct frame *up, jmp_buf *env)
{
	struct frame f;

	enter(j, &f, up);
	(void)deeper(j, &f);
	longjmp(*env, 1);
}

/* setjmp() and longjmp() within the thread, with blocks between them. */
static NOINLINE unsigned shape_leap(struct job *j, struct frame *up)
{
	struct frame f;
	jmp_buf env;

	enter(j, &f, up);
	if (setjmp(env) == 0)
		leap(j, &f, &env);
	maybe_block(j, &f);
	return 2;
}

static NOINLINE unsigned shape_any(struct job *j, struct frame *up)
{
	static shape_t *const shape[] = {
		shape_ints, shape_doubles, shape_array_1, shape_array_24,
		shape_array_333, shape_array_1025, shape_array_7000, shape_vla,
		shape_alloca, shape_varargs, shape_many, shape_aligned,
		shape_leap, shape_ints
	};
	shape_t *volatile f = shape[choose(j, COUNT(shape))];

	return f(j, up);
}

/* The thread goes down and up a number of times. */
static void shape_thread(void *arg)
{
	struct job *j = (struct job *)arg;
	struct frame f;
	int i;

	enter(j, &f, NULL);
	for (i = 0; i < j->j_trips; i++)
		(void)deeper(j, &f);
	walk(j, &f);
}

static UNUSED void shape_run(struct tiny *t, int nr, int trips)
{
	struct job *job = (struct job *)calloc(nr, sizeof *job);
	unsigned seed = check_seed;
	int i;

	CHECK(job != NULL);
	for (i = 0; i < nr; i++) {
		tiny_start(t, &job[i].j_thread, shape_thread, &job[i]);
		job[i].j_trips  = trips;
		job[i].j_seed   = check_random(&seed);
		job[i].j_random = check_random(&seed);
	}
	tiny_run(t);
	for (i = 0; i < nr; i++)
		CHECK_IS(job[i].j_thread.tt_done, 1);
	free(job);
}

#endif /* U_SHAPES_H */
