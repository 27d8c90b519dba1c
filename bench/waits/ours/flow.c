/* SPDX-License-Identifier: MIT */
/* flow.c: the prime sieve, power series, and a queue with workers. */

#include "ours.h"

/* Ends the program if threads that talk to each other are dealt apart. */
static void together(void)
{
#if !defined(WS)
	if (waits.w_p > 1)
		waits_none();
#endif
}

struct filter {
	uint64_t      f_prime;
	struct uchan *f_from;
	struct uchan *f_to;
};

static void numbers(void *arg)
{
	uint64_t i;

	for (i = 2;; i++)
		put(arg, i);
}

static void filter(void *arg)
{
	struct filter *f = arg;
	uint64_t i;

	for (;;) {
		i = get(f->f_from);
		if (i % f->f_prime != 0)
			put(f->f_to, i);
	}
}

void sieve(void)
{
	int64_t start = waits_now();
	struct uchan *from = channel(0);
	uint64_t prime = 0;
	long i;

	together();
	make(0, numbers, from);
	for (i = 0; i < waits.w_n; i++) {
		struct filter *f = waits_memory(sizeof *f);

		prime = get(from);
		*f = (struct filter){ prime, from, channel(0) };
		make(0, filter, f);
		from = f->f_to;
	}
	waits_took(start);
	waits_is_prime(prime);
}

/* A series answers each ask with a coefficient. */
struct series {
	struct uchan *s_ask;
	struct uchan *s_value;
};

/* A thread makes the series to, of one or two others. */
struct maker {
	struct series m_of[2];
	struct series m_to;
};

/* A copier: its two copies, the coefficients, and what is under way. */
struct split {
	struct series p_of;
	struct series p_to[2];
	long          p_at[2];		/* how much each copy has got */
	bool          p_waits[2];	/* each copy, for the next */
	bool          p_under;
	long          p_nr;
	long          p_room;
	uint64_t     *p_known;
};

static struct series series(void)
{
	return (struct series){ channel(0), channel(0) };
}

static uint64_t coefficient(struct series s)
{
	put(s.s_ask, 0);
	return get(s.s_value);
}

static struct series series_of(void (*f)(void *), struct series a,
			       struct series b, struct series to)
{
	struct maker *m = waits_memory(sizeof *m);

	*m = (struct maker){ { a, b }, to };
	make(0, f, m);
	return to;
}

static void split_add(struct split *p, uint64_t v)
{
	if (p->p_nr == p->p_room) {
		p->p_room = 2 * p->p_room + 8;
		p->p_known = realloc(p->p_known,
				     p->p_room * sizeof p->p_known[0]);
		if (p->p_known == NULL)
			waits_die("out of memory");
	}
	p->p_known[p->p_nr++] = v;
	p->p_under = false;
}

/* Answers a copy if the coefficient is known; else has it asked for. */
static void split_serve(struct split *p, int i)
{
	if (p->p_waits[i] && p->p_at[i] < p->p_nr) {
		p->p_waits[i] = false;
		put(p->p_to[i].s_value, p->p_known[p->p_at[i]++]);
	}
}

/* Serves both copies also while it waits for the series, which may ask. */
static void split(void *arg)
{
	struct split *p = arg;
	uint64_t v;
	int i;

	for (;;) {
		struct ucase cases[] = {
			UCASE_RECV(p->p_to[0].s_ask, &v),
			UCASE_RECV(p->p_to[1].s_ask, &v),
			UCASE_RECV(p->p_of.s_value, &v)
		};

		i = uselect(cases, 3, UNEVER);
		if (i < 0)
			ok(i);
		if (i < 2)
			p->p_waits[i] = true;
		else
			split_add(p, v);
		split_serve(p, 0);
		split_serve(p, 1);
		if ((p->p_waits[0] || p->p_waits[1]) && !p->p_under) {
			p->p_under = true;
			put(p->p_of.s_ask, 0);
		}
	}
}

static struct split *split_of(struct series s)
{
	struct split *p = waits_memory(sizeof *p);

	p->p_of = s;
	p->p_to[0] = series();
	p->p_to[1] = series();
	make(0, split, p);
	return p;
}

static void give(struct series to, uint64_t v)
{
	put(to.s_value, v % WAITS_MODULUS);
	(void)get(to.s_ask);
}

/* (f + xF)(g + xG) = fg + x(fG + gF) + x * x * FG. */
static void product(void *arg)
{
	struct maker *m = arg;
	struct series rest = { NULL, NULL };
	struct split *fs, *gs;
	uint64_t f, g, v;

	(void)get(m->m_to.s_ask);
	f = coefficient(m->m_of[0]);
	g = coefficient(m->m_of[1]);
	give(m->m_to, f * g);
	fs = split_of(m->m_of[0]);
	gs = split_of(m->m_of[1]);
	for (;;) {
		v = f * coefficient(gs->p_to[0]) % WAITS_MODULUS;
		v += g * coefficient(fs->p_to[0]) % WAITS_MODULUS;
		if (rest.s_ask != NULL)
			v += coefficient(rest);
		give(m->m_to, v);
		if (rest.s_ask == NULL)
			rest = series_of(product, fs->p_to[1], gs->p_to[1],
					 series());
	}
}

/* Integrates 1 plus a series, from 0. */
static void integral(void *arg)
{
	struct maker *m = arg;
	uint64_t i, v;

	(void)get(m->m_to.s_ask);
	give(m->m_to, 0);
	for (i = 1;; i++) {
		v = (coefficient(m->m_of[0]) + (i == 1)) % WAITS_MODULUS;
		give(m->m_to, v * waits_inverse(i));
	}
}

/* The tangent: T' = 1 + T * T. */
void powser(void)
{
	uint64_t *t = waits_memory(waits.w_n * sizeof *t);
	int64_t start = waits_now();
	struct series tangent = series(), square = series();
	struct split *all, *factors;
	long i;

	together();
	all = split_of(tangent);
	factors = split_of(all->p_to[1]);
	series_of(product, factors->p_to[0], factors->p_to[1], square);
	series_of(integral, square, square, tangent);
	for (i = 0; i < waits.w_n; i++)
		t[i] = coefficient(all->p_to[0]);
	waits_took(start);
	waits_is_tangent(t);
}

static struct uchan *jobs;
static long jobs_done;			/* atomic */
static long workers;			/* that have not ended (atomic) */
static struct SCHED(thread) *owner;

static void worker(void *arg)
{
	uint64_t x = 0, job;
	long mine = 0;

	(void)arg;
	while (uchan_recv(jobs, &job, UNEVER) == 0) {
		x += waits_work(job);
		mine++;
	}
	waits_worked(x);
	__atomic_add_fetch(&jobs_done, mine, __ATOMIC_RELAXED);
	if (__atomic_sub_fetch(&workers, 1, __ATOMIC_ACQ_REL) == 0)
		SCHED(wake)(owner);
}

void pool(void)
{
	int64_t start = waits_now();
	long i;

	owner = SCHED(self)();
	jobs = channel(WAITS_QUEUE);
	workers = waits.w_m;
	for (i = 0; i < waits.w_m; i++)
		make(i % waits.w_p, worker, NULL);
	for (i = 0; i < waits.w_n; i++)
		put(jobs, i);
	ok(uchan_close(jobs));
	ok(SCHED(wait)());
	waits_took(start);
	if (jobs_done != waits.w_n)
		waits_die("a job was lost");
}
