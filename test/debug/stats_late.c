/* SPDX-License-Identifier: MIT */
/* VARIANTS: once */
/*
 * stats_late: usched_stats() that begins during a run counts each switch from then
 * on, also those without s_next() (PREPARED THREADS in usched.h), and none
 * after its end. rr and ll, which prepare threads, keep their order. No thread
 * runs while s_next() does, so a wake there is remote, and is not lost.
 */
#include "check.h"
#include "ll.h"
#include "rr.h"
#include "ustats.h"

#define NR	20		/* threads */
#define LAPS	60
#define BEGIN	20		/* the lap in which counting begins */
#define END	40

static struct usched_stats st;
static struct usched *sched;
static long entered;		/* switches to these threads */
static long begun_at, counted;
static int  last, laps, looked;
static struct ustack *(*own_next)(struct usched *);

static struct rr_thread *rr[NR];
static struct ll_thread *ll[NR];

/* Wakes from s_next() that each thread has not taken yet. */
static int extra[NR];

static struct ustack *front(struct usched *s)
{
	CHECK(usched_self() == NULL && ustack_self() == NULL);
	if (++looked == 1) {
		extra[3]++;
		if (rr[3] != NULL)
			rr_wake(rr[3]);
		else
			ll_wake(ll[3]);
	}
	return own_next(s);
}

static void each_lap(void)
{
	laps++;
	if (laps == BEGIN / 2) {
		own_next = sched->s_next;
		sched->s_next = front;
		sched->s_left = 0;
	} else if (laps == BEGIN / 2 + 4) {
		CHECK_THAT(looked, >, 0);
		sched->s_next = own_next;
	} else if (laps == BEGIN) {
		CHECK_IS(usched_stats(sched, &st), 0);
		begun_at = entered;
	} else if (laps == END) {
		CHECK_IS(st.dispatches, entered - begun_at);
		CHECK_THAT(st.dispatches, >=, (END - BEGIN) * NR);
		usched_stats_end(sched);
		counted = st.dispatches;
	}
}

/* A ring: each thread is woken by its neighbour. */
static void arrives(int me)
{
	entered++;
	if (me == 3 && extra[3] > 0 && last != 2) {
		extra[3] = -1;		/* that wake was from s_next() */
		return;
	}
	CHECK_IS(me, (last + 1) % NR);
	last = me;
	if (me == 0)
		each_lap();
}

static void in_ring(int me, int (*wait)(void), void (*wake)(int i))
{
	int i;

	for (i = 0; i < LAPS; i++) {
		CHECK_IS(wait(), 0);
		arrives(me);
		if (extra[me] < 0) {
			extra[me] = 0;
			i--;
			continue;
		}
		if (i < LAPS - 1 || me < NR - 1)
			wake((me + 1) % NR);
	}
}

static void wake_rr(int i)
{
	rr_wake(rr[i]);
}

static void wake_ll(int i)
{
	ll_wake(ll[i]);
}

static void in_rr(void *arg)
{
	in_ring((int)(intptr_t)arg, rr_wait, wake_rr);
}

static void in_ll(void *arg)
{
	in_ring((int)(intptr_t)arg, ll_wait, wake_ll);
}

static void reset(struct usched *s)
{
	sched = s;
	last = NR - 1;
	laps = looked = 0;
	entered = counted = 0;
	memset(extra, 0, sizeof extra);
	memset(&st, 0, sizeof st);
}

int main(int argc, char **argv)
{
	intptr_t i;

	check_start(argc, argv);
	CHECK_IS(rr_init(1, 0), 0);
	reset(rr_sched(0));
	for (i = 0; i < NR; i++)
		CHECK((rr[i] = rr_thread_init(in_rr, (void *)i)) != NULL);
	rr_wake(rr[0]);
	CHECK(rr_start() == 0 && rr_fini() == 0);
	CHECK(laps == LAPS && counted > 0 && st.dispatches == counted);

	CHECK_IS(ll_init(1, 0), 0);
	reset(ll_sched(0));
	memset(rr, 0, sizeof rr);
	for (i = 0; i < NR; i++)
		CHECK((ll[i] = ll_thread_init(in_ll, (void *)i, 0)) != NULL);
	ll_wake(ll[0]);
	CHECK(ll_start() == 0 && ll_fini() == 0);
	CHECK(laps == LAPS && counted > 0 && st.dispatches == counted);
	return 0;
}
