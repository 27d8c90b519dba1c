/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * abort: ustack_abort() ends a thread from any depth, as a return does.
 * s_done() is called once, and may free the struct ustack and its buffer, or
 * start a new thread in the same memory. Lanes are used again. ustack_fini()
 * forgets new and blocked threads, and their lanes with them (usched I2).
 */
#include "tiny.h"

#define NR	100

static struct tiny t;
static int ended, again;

struct mine {
	struct tiny_thread m_thread;		/* must be first */
	int                m_seed;
	int                m_lives;
};

static void thread(void *arg);

static NOINLINE void down(struct mine *m, int depth)
{
	unsigned char *array = (unsigned char *)alloca(depth * 8 + 16);

	memset(array, depth, depth * 8 + 16);
	if (depth % 3 == 0)
		tiny_yield();
	if (depth > 0)
		down(m, depth - 1);
	else if (m->m_seed % 2 == 0)
		ustack_abort();
	if (m->m_seed % 7 == depth)
		ustack_abort();
	CHECK_IS(array[depth * 8 + 15], depth);
}

static void thread(void *arg)
{
	struct mine *m = (struct mine *)arg;

	if (m->m_seed % 5 != 0)			/* some never block */
		down(m, m->m_seed % 11);
	if (m->m_seed % 13 == 0)
		ustack_abort();
}

/* Frees the thread, or starts another thread in its memory. */
static void done(struct usched *s, struct ustack *u)
{
	struct mine *m = (struct mine *)u;

	tiny_done(s, u);
	ended++;
	memset(u, TINY_STALE, sizeof m->m_thread);
	if (m->m_lives-- > 0) {
		again++;
		m->m_seed += 3;
		tiny_start(&t, &m->m_thread, thread, m);
		return;
	}
	memset(m, TINY_STALE, sizeof *m);
	__asm__ volatile("" : : "r"(m) : "memory");	/* keeps memset() */
	free(m);
}

static void with_lanes(int lanes)
{
	int i;

	if (tiny_init(&t, lanes) == -ENOSYS)
		return;
	t.t_sched.s_done = done;
	ended = again = 0;
	for (i = 0; i < NR; i++) {
		struct mine *m = (struct mine *)calloc(1, sizeof *m);

		CHECK(m != NULL);
		m->m_seed  = i;
		m->m_lives = i % 4;
		tiny_start(&t, &m->m_thread, thread, m);
	}
	tiny_run(&t);
	CHECK(ended == NR + again && again == NR / 4 * 6);
	for (i = 0; i <= lanes; i++) {
		CHECK_IS(t.t_sched.s_lane[i].l_bound, 0);
		CHECK_IS(t.t_sched.s_lane[i].l_owner, NULL);
	}
	tiny_fini(&t);
}

/* Runs without an s_done(). */
static void nothing(void *arg)
{
}

static void without_done(void)
{
	struct tiny_thread tt;

	CHECK_IS(tiny_init(&t, 0), 0);
	t.t_sched.s_done = NULL;
	tiny_start(&t, &tt, nothing, NULL);
	tiny_run(&t);
	CHECK_IS(tt.tt_done, 0);
	ustack_fini(&tt.tt_stack);		/* nothing left to forget */
	t.t_live = 0;
	tiny_fini(&t);
}

static struct tiny_thread tt[NR];

static void block_forever(void *arg)
{
	tiny_wait();
	CHECK(0);
}

static void forget(struct tiny_thread *th)
{
	ustack_fini(&th->tt_stack);
	tiny_drop(&th->tt_stack);
	t.t_live--;
}

/* Forgets all other threads, blocked and new. */
static void killer(void *arg)
{
	int i;

	for (i = 1; i < NR; i++)
		forget(&tt[i]);
	t.t_head = NULL;
	tiny_yield();
}

/* Half of the others are blocked when the killer comes, half are new. */
static void forgotten(int lanes)
{
	int i;

	if (tiny_init(&t, lanes) == -ENOSYS)
		return;
	for (i = 1; i < NR; i++) {
		if (i == NR / 2)
			tiny_start(&t, &tt[0], killer, NULL);
		tiny_start(&t, &tt[i], block_forever, NULL);
	}
	tiny_run(&t);
	CHECK(tt[0].tt_done == 1 && t.t_live == 0);
	for (i = 0; i <= lanes; i++)
		CHECK_IS(t.t_sched.s_lane[i].l_bound, 0);
	/* ustack_fini() outside of threads: of blocked and new threads. */
	for (i = 0; i < NR; i++)
		tiny_start(&t, &tt[i], block_forever, NULL);
	t.t_stop = t.t_rounds + NR / 2;
	tiny_run(&t);
	for (i = 0; i < NR; i++) {
		forget(&tt[i]);
		ustack_fini(&tt[i].tt_stack);	/* twice does no harm */
	}
	t.t_head = NULL;
	for (i = 0; i <= lanes; i++)
		CHECK_IS(t.t_sched.s_lane[i].l_bound, 0);
	tiny_fini(&t);
}

int main(int argc, char **argv)
{
	static const int lanes[] = { 0, 1, 2, 17, 64, NR };
	int i;

	check_start(argc, argv);
	for (i = 0; i < COUNT(lanes); i++) {
		with_lanes(lanes[i]);
		forgotten(lanes[i]);
	}
	without_done();
	return 0;
}
