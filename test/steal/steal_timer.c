/* SPDX-License-Identifier: MIT */
/* VARIANTS: once */
/*
 * steal_timer: a timer that a worker calls within its section, in s_next(), may wake
 * threads of ws, by ws_wake() and by the s_wake() of their dispatcher. The wake is
 * counted once, and the worker is still in its section afterwards.
 */
#include "check.h"
#include "uwait.h"
#include "ws.h"

#define NR	40

struct timer {
	struct uwait_timer tm_timer;
	struct ws_thread  *tm_thread;
	bool               tm_by_call_back;
};

static int woken, inside;	/* of worker 0, the only one */

static void fire(struct uwait_timer *timer)
{
	struct timer *m = (struct timer *)timer;
	struct ustack *u = (struct ustack *)m->tm_thread;
	const struct ws_stop *stop = &((struct ws_front *)u->u_sched)->f_gate.g_stop;
	bool in = stop->k_in;

	if (m->tm_by_call_back)
		u->u_sched->s_wake(u->u_sched, u);
	else
		ws_wake(m->tm_thread);
	inside += in;
	CHECK_IS(stop->k_in, in);
}

static void thread(void *arg)
{
	struct timer *m = uwait_make(UWAIT_TIMER, NULL, sizeof *m);

	CHECK(m != NULL);
	m->tm_timer.t_f = fire;
	m->tm_thread = ws_self();
	m->tm_by_call_back = arg != NULL;
	CHECK_IS(uwait_timer_start(&m->tm_timer, uafter(UTIME_MS)), 0);
	CHECK_IS(ws_wait(), 0);
	(void)uwait_claim(&m->tm_timer.t_wait);
	uwait_free(m);
	woken++;
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	CHECK_IS(ws_init(1, NR), 0);
	for (i = 0; i < NR; i++)
		CHECK(ws_thread_init(thread, i % 2 != 0 ? &woken : NULL) != NULL);
	CHECK_IS(ws_start(), 0);
	CHECK_IS(ws_fini(), 0);
	CHECK_IS(woken, NR);
	CHECK_THAT(inside, >, 0);
	return 0;
}
