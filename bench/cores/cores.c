/* SPDX-License-Identifier: MIT */
/* cores.c: the cost of an operation for others, of 1 to 64 processors, by counting. */

/*
 *	cores-SCHED alone P	one processor works, the others sleep
 *	cores-SCHED all P	all work, each for itself
 *	cores-SCHED pair P	two of them send each other messages, one way counts
 *	cores-SCHED idle P	none works, for a second; and to begin and to end
 *
 * A line for each operation: its name, and what count.h counts, for one of them. The
 * threads of an operation stay on a processor, and ws has them pinned.
 */
#include "count.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "uchan.h"
#include "uio.h"
#include "usync.h"
#if defined(WS)
#include "ws.h"
#define SCHED(name)	ws_##name
#define ON(p, f, arg)	ws_thread_pinned(p, f, arg)
#define SPAWN(p, f, arg) ws_spawn(f, arg)
#else
#include "rr.h"
#define SCHED(name)	rr_##name
#define ON(p, f, arg)	rr_thread_on(p, f, arg)
#define SPAWN(p, f, arg) (rr_thread_on(p, f, arg) != NULL ? 0 : -ENOMEM)
#endif

#define NR	1000		/* repetitions of an operation */
#define FIRST	100		/* repetitions that are not counted */
#define MOST	64

typedef struct SCHED(thread) thread;

/* What the threads of one processor share. */
static struct place {
	thread       *p_first, *p_second;
	struct uchan *p_to, *p_fro;
	struct umutex p_lock;
	int           p_fd[2];
	long          p_nr;		/* repetitions of the operation that runs */
	long          p_left;		/* threads that have not ended */
	int           p_at, p_with;	/* its processor, and that of a partner */
} place[MOST] __attribute__((aligned(128)));

static int procs;
static thread *root;
static long there;			/* processors that have said so; that are ready */

static void die(const char *what)
{
	fprintf(stderr, "cores: %s\n", what);
	_exit(1);
}

static void must(long rc)
{
	if (rc < 0)
		die(strerror((int)-rc));
}

static thread *made(thread *t)
{
	if (t == NULL)
		die("out of memory");
	return t;
}

static void ends(void *arg)
{
	struct place *p = arg;

	p->p_left--;
}

/* Operations. Each is done by nr, and may have a partner. */

static void yields(struct place *p, long nr)
{
	(void)p;
	while (nr-- > 0)
		must(SCHED(yield)());
}

static void makes(struct place *p, long nr)
{
	for (p->p_left = nr; nr-- > 0; must(SCHED(yield)()))
		must(SPAWN(p->p_at, ends, p));
	while (p->p_left > 0)
		must(SCHED(yield)());
}

static void locks(struct place *p, long nr)
{
	while (nr-- > 0) {
		umutex_lock(&p->p_lock, UNEVER);
		umutex_unlock(&p->p_lock);
	}
}

static void wakes(struct place *p, long nr)
{
	p->p_first = SCHED(self)();
	while (nr-- > 0) {
		SCHED(wake)(p->p_second);
		must(SCHED(wait)());
	}
}

static void is_woken(struct place *p, long nr)
{
	while (nr-- > 0) {
		must(SCHED(wait)());
		SCHED(wake)(p->p_first);
	}
}

static void asks_until(struct place *p, long nr, utime_ns ns)
{
	long v = 0;

	while (nr-- > 0) {
		must(uchan_send(p->p_to, &v, UNEVER));
		must(uchan_recv(p->p_fro, &v, ns == UNEVER ? ns : uafter(ns)));
	}
}

static void answers(struct place *p, long nr)
{
	long v;

	while (nr-- > 0) {
		must(uchan_recv(p->p_to, &v, UNEVER));
		must(uchan_send(p->p_fro, &v, UNEVER));
	}
}

static void asks(struct place *p, long nr)
{
	asks_until(p, nr, UNEVER);
}

static void asks_in_time(struct place *p, long nr)
{
	asks_until(p, nr, 60 * UTIME_S);
}

static void sleeps(struct place *p, long nr)
{
	(void)p;
	for (nr = (nr + 9) / 10; nr-- > 0; )
		must(u_sleep(uafter(UTIME_MS / 10)));
}

static void writes(struct place *p, long nr)
{
	char c = 0;

	while (nr-- > 0) {
		must(u_write(p->p_fd[0], &c, 1, UNEVER));
		must(u_read(p->p_fd[0], &c, 1, UNEVER));
	}
}

static void reads(struct place *p, long nr)
{
	char c;

	while (nr-- > 0) {
		must(u_read(p->p_fd[1], &c, 1, UNEVER));
		must(u_write(p->p_fd[1], &c, 1, UNEVER));
	}
}

static const struct operation {
	const char *o_name;
	void      (*o_f)(struct place *p, long nr);
	void      (*o_partner)(struct place *p, long nr);
} operation[] = {
	{ "yield",                     yields,       NULL },
	{ "make a thread, which ends", makes,        NULL },
	{ "wake, and wait",            wakes,        is_woken },
	{ "lock, and unlock",          locks,        NULL },
	{ "message and answer",        asks,         answers },
	{ "the same, until a deadline", asks_in_time, answers },
	{ "ten sleeps of 100 us",      sleeps,       NULL },
	{ "write, read, both waited for", writes,    reads }
};
#define OPERATIONS	(int)(sizeof operation / sizeof operation[0])

/* One processor. */

static const struct operation *op;

static void partner(void *arg)
{
	struct place *p = arg;

	__atomic_store_n(&p->p_second, SCHED(self)(), __ATOMIC_RELAXED);
	op->o_partner(p, p->p_nr);
	p->p_left--;
}

static void worked(struct place *p, long nr)
{
	p->p_nr = nr;
	if (op->o_partner != NULL) {
		p->p_left = 1;
		p->p_second = NULL;
		made(ON(p->p_with, partner, p));
		while (__atomic_load_n(&p->p_second, __ATOMIC_RELAXED) == NULL)
			must(SCHED(yield)());
		op->o_f(p, nr);
		while (p->p_left > 0)
			must(SCHED(yield)());
	} else
		op->o_f(p, nr);
}

static void begins(struct place *p)
{
	if (p->p_to != NULL)
		return;
	p->p_to  = uchan_make(sizeof(long), 0);
	p->p_fro = uchan_make(sizeof(long), 0);
	if (p->p_to == NULL || p->p_fro == NULL ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, p->p_fd) != 0)
		die("out of memory");
}

static long counted[MOST][COUNTS];

static void works(void *arg)
{
	struct place *p = arg;
	long before[COUNTS], after[COUNTS];
	int k;

	count_me(p->p_at);
	begins(p);
	worked(p, FIRST);
	count_get(p->p_at, before);
	worked(p, NR);
	count_get(p->p_at, after);
	for (k = 0; k < COUNTS; k++)
		counted[p->p_at][k] = after[k] - before[k];
	if (__atomic_sub_fetch(&there, 1, __ATOMIC_ACQ_REL) == 0)
		SCHED(wake)(root);
}

static void shows(const char *name, const long nr[COUNTS], double of)
{
	int k;

	printf("%s", name);
	for (k = 0; k < COUNTS; k++)
		printf("\t%.3f", nr[k] / of);
	printf("\n");
}

static void says_where(void *arg)
{
	count_me((int)(long)arg);
	if (__atomic_sub_fetch(&there, 1, __ATOMIC_ACQ_REL) == 0)
		SCHED(wake)(root);
}

static void begin_all(void)
{
	int i;

	root  = SCHED(self)();
	there = procs;
	for (i = 0; i < procs; i++)
		made(ON(i, says_where, (void *)(long)i));
	must(SCHED(wait)());
}

/* Each of nr processors does each operation. */
static void measures(int nr)
{
	long sum[COUNTS];
	int i, k;

	for (op = operation; op < operation + OPERATIONS; op++) {
		must(u_sleep(uafter(200 * UTIME_MS)));	/* others go to sleep */
		there = nr;
		for (i = 0; i < nr; i++) {
			place[i].p_at = place[i].p_with = i;
			made(ON(i, works, &place[i]));
		}
		must(SCHED(wait)());
		for (k = 0; k < COUNTS; k++)
			for (sum[k] = 0, i = 0; i < nr; i++)
				sum[k] += counted[i][k];
		shows(op->o_name, sum, (double)NR * nr);
	}
}

static void alone(void *arg)
{
	(void)arg;
	begin_all();
	measures(1);
}

static void all(void *arg)
{
	(void)arg;
	begin_all();
	measures(procs);
}

static void pair(void *arg)
{
	long before[COUNTS], after[COUNTS];
	int k;

	(void)arg;
	begin_all();
	place[0].p_with = 1;
	begins(&place[0]);
	for (op = operation; op < operation + OPERATIONS; op++) {
		if (op->o_f != wakes && op->o_f != asks)
			continue;
		worked(&place[0], FIRST);
		count_plain();
		count_get(-1, before);
		worked(&place[0], NR);
		count_get(-1, after);
		for (k = 0; k < COUNTS; k++)
			after[k] -= before[k];
		shows(op->o_name, after, 2.0 * NR);
	}
}

static void idles(void *arg)
{
	long before[COUNTS], after[COUNTS];
	int k;

	(void)arg;
	begin_all();
	must(u_sleep(uafter(3 * UTIME_S)));
	count_get(-1, before);
	must(u_sleep(uafter(UTIME_S)));
	count_get(-1, after);
	for (k = 0; k < COUNTS; k++)
		after[k] -= before[k];
	shows("a second without work, of a processor", after, procs);
}

int main(int argc, char **argv)
{
	void (*f)(void *) = argc < 3 ? NULL : !strcmp(argv[1], "alone") ? alone :
		!strcmp(argv[1], "all") ? all : !strcmp(argv[1], "idle") ? idles :
		!strcmp(argv[1], "pair") && atoi(argv[2]) > 1 ? pair : NULL;
	long before[COUNTS], after[COUNTS];
	int k;

	procs = argc < 3 ? 0 : atoi(argv[2]);
	if (f == NULL || procs < 1 || procs > MOST)
		die("usage: cores-SCHED alone|all|pair|idle P, at most 64, a pair of two");
	must(SCHED(init)(procs, 0));
	must(SCHED(pinning)(f == pair));	/* then they look before they sleep */
	if (procs > 1)
		count_at(SCHED(sched)(0), (unsigned long)((char *)SCHED(sched)(1) -
			 (char *)SCHED(sched)(0)), procs);
	made(ON(0, f, NULL));
	must(SCHED(start)());
	must(SCHED(fini)());
	if (f == idles) {
		count_get(-1, before);
		count_at(NULL, 0, 0);
		must(SCHED(init)(procs, 0));
		made(ON(0, says_where, NULL));
		there = procs + 1;
		must(SCHED(start)());
		must(SCHED(fini)());
		count_get(-1, after);
		for (k = 0; k < COUNTS; k++)
			after[k] -= before[k];
		shows("to begin and to end, of a processor", after, procs);
	}
	return 0;
}
