/* SPDX-License-Identifier: MIT */
/* procs.c: lives over rr and ll. */

/*
 * Two threads wake pending lives until all lives have ended; with the flag
 * "outer" two native threads do so. Otherwise a life could wait forever.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "fuzz.h"
#include "ll.h"
#include "rr.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

/* The functions that rr.h and ll.h share. */
struct family {
	int   (*f_init) (int proc_nr, int thread_nr);
	int   (*f_stack_size)(size_t size);
	int   (*f_start)(void);
	int   (*f_fini) (void);
	void  (*f_hold) (void);
	void  (*f_release)(void);
	void *(*f_make) (int proc, void (*f)(void *), void *arg, int joinable);
	int   (*f_join) (void *t);
	int   (*f_yield)(void);
	int   (*f_wait) (void);
	void  (*f_wake) (void *t);
	void *(*f_self) (void);
	int   (*f_private)(int on);
};

#define WRAP(x)								\
static int x##_f_join(void *t)						\
{									\
	return x##_join((struct x##_thread *)t);			\
}									\
									\
static int x##_f_wait(void)						\
{									\
	return x##_wait();						\
}									\
									\
static void x##_f_wake(void *t)						\
{									\
	x##_wake((struct x##_thread *)t);				\
}									\
									\
static void *x##_f_self(void)						\
{									\
	return x##_self();						\
}									\
									\
static const struct family x##_family = {				\
	x##_init, x##_stack_size, x##_start, x##_fini, x##_hold,	\
	x##_release, x##_f_make, x##_f_join, x##_yield, x##_f_wait,	\
	x##_f_wake, x##_f_self, x##_private				\
};

static void *rr_f_make(int proc, void (*f)(void *), void *arg, int joinable)
{
	return joinable ? (void *)rr_thread_joinable(f, arg) :
		(void *)rr_thread_on(proc, f, arg);
}

static void *ll_f_make(int proc, void (*f)(void *), void *arg, int joinable)
{
	return joinable ? (void *)ll_thread_joinable(f, arg, proc) :
		(void *)ll_thread_init(f, arg, proc);
}

WRAP(rr)
WRAP(ll)

static const struct family *fam;

static void count_block(void)
{
	fuzz_count(K_block);
	fuzz_count(fam == &rr_family ? K_rr : K_ll);
	if (ustack_is_private(ustack_self()))
		fuzz_count(K_private_lane);
}

static void procs_yield(struct life *l)
{
	MUST(fam->f_yield() == 0);
	MUST(fam->f_self() == l->l_self);
	count_block();
}

static void procs_wait(struct life *l)
{
	MUST(fam->f_wait() == 0);
	MUST(fam->f_self() == l->l_self);
	count_block();
}

static void procs_wake(struct life *l)
{
	const struct ustack *self = ustack_self();

	if (self == NULL)
		fuzz_count(K_outer_wake);
	else if (self->u_sched != ((struct ustack *)l->l_self)->u_sched)
		fuzz_count(K_post);
	fam->f_wake(l->l_self);
}

static void begin(void *arg)
{
	struct life *l = (struct life *)arg;

	l->l_self = fam->f_self();
	life_main(l);
}

/* Makers of both processors choose, so a life gets either kind of stack. */
static void start(struct life *l, int proc)
{
	if (private_lanes(l->l_world))
		MUST(fam->f_private((int)(mix(l->l_seed, 9) % 2)) == 0);
	l->l_proc   = proc;
	l->l_thread = fam->f_make(proc, begin, l, l->l_joinable);
	MUST(l->l_thread != NULL);
}

static void procs_spawn(struct life *l, struct life *child)
{
	start(child, l->l_proc + (int)(child->l_seed % 3 == 0));
}

static void procs_join(struct life *l, struct life *child)
{
	(void)l;
	if (((struct ustack *)child->l_thread)->u_sched !=
	    ustack_self()->u_sched)
		fuzz_count(K_cross_join);
	MUST(fam->f_join(child->l_thread) == 0);
	MUST(fam->f_self() == l->l_self);
	MUST(child->l_ended == 1);
}

static void procs_abort(struct life *l)
{
	(void)l;
	ustack_abort();
}

static const struct driver driver = {
	.d_yield = procs_yield,
	.d_wait  = procs_wait,
	.d_wake  = procs_wake,
	.d_spawn = procs_spawn,
	.d_join  = procs_join,
	.d_abort = procs_abort
};

/* Wakers: wake all lives, in any order. */

static int alive(const struct world *w)
{
	return __atomic_load_n(&w->w_alive, __ATOMIC_SEQ_CST);
}

static void wake_some(struct world *w, unsigned *random)
{
	while (pending_wake(w, pick(random, 1 << 16))) {
		if (pick(random, 3) == 0)
			break;
	}
}

static void waker(void *arg)
{
	struct world *w = (struct world *)arg;
	unsigned random = (unsigned)w->w_trace->c_seed;

	while (alive(w) > 0) {
		wake_some(w, &random);
		MUST(fam->f_yield() == 0);
	}
}

static void *outer_waker(void *arg)
{
	struct world *w = (struct world *)arg;
	unsigned random = (unsigned)w->w_trace->c_seed;

	while (alive(w) > 0) {
		wake_some(w, &random);
		sched_yield();
	}
	fam->f_release();
	return NULL;
}

/*
 * Makes lanes few: rr and ll take as many lanes of the wanted size as they get,
 * so the size is large. True: there may be more lives than lanes.
 */
#define ROOM	((rlim_t)16 << 30)

static int squeeze(const struct trace *c, struct rlimit *was)
{
	struct rlimit less;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
	ULONG_MAX <= 0xffffffffu
	return 0;
#endif
	/* A start fails if there is no room for private stacks. */
	if (c->c_lanes == 0 || c->c_flags & F_private || getrlimit(RLIMIT_AS, was) != 0 ||
	    was->rlim_cur < ROOM)
		return 0;
	less = *was;
	less.rlim_cur = ROOM;
	/* The largest power of two that is an int. */
	if (fam->f_stack_size((size_t)1 << 30) != 0 ||
	    setrlimit(RLIMIT_AS, &less) != 0)
		return 0;
	fuzz_count(K_few_lanes);
	return 1;
}

static int start_all(struct world *w)
{
	int outer = w->w_trace->c_flags & F_outer;
	struct rlimit was;
	int few, i, rc;

	for (i = 0; i < 2 && !outer; i++)
		MUST(fam->f_make(i, waker, w, 0) != NULL);
	for (i = 0; i < w->w_trace->c_lives; i++) {
		if (w->w_life[i] == NULL)
			continue;
		life_reset(w->w_life[i], &driver);
		start(w->w_life[i], i);
	}
	few = squeeze(w->w_trace, &was);
	rc = fam->f_start();
	if (few)
		MUST(setrlimit(RLIMIT_AS, &was) == 0);
	return rc;
}

void procs_run(struct world *w)
{
	int outer = w->w_trace->c_flags & F_outer ? 2 : 0;
	sigset_t alarms;
	pthread_t id[2];
	int i;

	fam = w->w_trace->c_sched == S_RR ? &rr_family : &ll_family;
	MUST(fam->f_init(w->w_trace->c_procs, 0) == 0);
	MUST(start_all(w) == 0);
	for (i = 0; i < outer; i++) {
		fam->f_hold();
		MUST(pthread_create(&id[i], NULL, outer_waker, w) == 0);
	}
	/* The ticks are for the processors. */
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	MUST(pthread_sigmask(SIG_BLOCK, &alarms, NULL) == 0);
	MUST(fam->f_fini() == 0);
	MUST(pthread_sigmask(SIG_UNBLOCK, &alarms, NULL) == 0);
	for (i = 0; i < outer; i++)
		MUST(pthread_join(id[i], NULL) == 0);
	MUST(w->w_alive == 0);
}
