/* SPDX-License-Identifier: MIT */
/* main.c: the benchmarks of waits on rr, ll or ws. */

/*
 * A benchmark is a function that its own thread runs, on processor 0. Threads
 * of rr and ll are dealt to processors; those of ws go where there is time. In
 * sieve and powser, threads that talk to each other would be dealt apart, so rr
 * and ll answer these for P = 1 only.
 */
#include "ours.h"

struct waits waits;

static void (*question)(void);

static const struct waits_bench table[] = {
#if defined(WS)				/* no scheduler takes part */
	{ "churn-random",  churn_random },
	{ "churn-same",    churn_same },
#endif
	{ "sleepers",      sleepers },
	{ "timed",         timed },
	{ "sync",          chan_sync },
	{ "wake",          chan_wake },
	{ "asleep",        chan_asleep },
	{ "buffer",        chan_buffer },
	{ "uncontended",   uncontended },
	{ "contended",     contended },
	{ "fanin",         fanin },
	{ "select",        select_own },
	{ "select-sync",   select_sync },
	{ "select-buffer", select_buffer },
	{ "sieve",         sieve },
	{ "powser",        powser },
	{ "pool",          pool },
	{ "sem",           sem },
	{ "mutex-own",     mutex_own },
	{ "mutex",         mutex },
	{ "mutex-slack",   mutex_slack },
	{ "mutex-work",    mutex_work },
	{ "mutex-hold",    mutex_hold },
	{ "skew",          skew },
	{ "rw-own",        rw_own },
	{ "rw-write",      rw_write },
	{ NULL,            NULL }
};

void make(int p, void (*f)(void *), void *arg)
{
	if (MAKE(p % waits.w_p, f, arg) == NULL)
		waits_die("out of memory");
}

struct member {
	void (*m_f)(int id, long n);
	int    m_id;
	long   m_n;
};

static struct SCHED(thread) *first;	/* waits for the members */
static struct member *team;
static int left;			/* of them (atomic) */

static void member(void *arg)
{
	struct member *m = arg;

	m->m_f(m->m_id, m->m_n);
	if (__atomic_sub_fetch(&left, 1, __ATOMIC_ACQ_REL) == 0)
		SCHED(wake)(first);
}

void members(int nr, int together, void (*f)(int id, long n))
{
	int i;

	first = SCHED(self)();
	team = waits_memory(nr * sizeof *team);
	left = nr;
	for (i = 0; i < nr; i++) {
		team[i] = (struct member){ f, i, waits_share(waits.w_n, nr, i) };
		make(i / together, member, &team[i]);
	}
}

void members_end(void)
{
	ok(SCHED(wait)());
	free(team);
}

void each(int nr, void (*f)(int id, long n))
{
	int64_t start = waits_now();

	members(nr, 1, f);
	members_end();
	waits_took(start);
}

/* What still runs or waits then ends with the program. */
static void root(void *arg)
{
	(void)arg;
	question();
	_exit(0);
}

static void run(void (*f)(void))
{
	question = f;
#if defined(LOCAL)
	if (waits.w_p > 1)
		waits_none();
#endif
	ok(SCHED(init)(waits.w_p, 1000));
	ok(SCHED(pinning)(1));
	make(0, root, NULL);
	ok(SCHED(start)());
	ok(SCHED(fini)());
}

int main(int argc, char **argv)
{
	return waits_main(table, run, argc, argv);
}
