/* SPDX-License-Identifier: MIT */
/* steal_fine: work that is too fine to share stays together, undisturbed. */
/* VARIANTS: once */
/* LIBS: -Wl,--wrap=syscall */

/*
 * Demands pass through a binary tree of threads, each of which runs for some
 * nanoseconds at a time. So there is nearly always a thread that can be taken,
 * and never for long. There are two workers. Of more than WAKES wakes,
 *
 *	- few lead to a stop of the other worker (steal_policy J1 to J4),
 *	- few are sent from one worker to the other, after the first part, in
 *	  which the threads are dealt to both: so they have come together,
 *	- few make a system call (steal_policy J5).
 *
 * Few means one in FEW. A thief that takes every thread that it finds stops the
 * owner at each fiftieth wake. Beside programs that compute, workers lose their
 * cpus now and then, and each time some threads are taken, so FEW is not much
 * larger.
 */
#include "steal.h"
#include "ustats.h"
#include "system_call.h"

#define NODES	31
#define DEMANDS	40000
#define FIRST	10000
#define WAKES	(2l * (NODES - 1) * (DEMANDS - FIRST))
#define FEW	200

static thread *node[NODES + 1];
static struct usched_stats each[2];
static long mail, calls, stops;		/* at the end of the first part */
static long called;			/* system calls to wake another */
static long answers;

/* Counts wakes by the system. A thief that ends its own nap is not counted. */
static long system_call(long nr, long a[6])
{
	if (is_futex(nr, a, SYSTEM_WAKE))
		add(&called, 1);
	return really_call(nr, a);
}

static struct usched_moves moved(void)
{
	struct usched_stats sum = { 0 };

	usched_stats_sum(&sum, &each[0]);
	usched_stats_sum(&sum, &each[1]);
	return sum.moves;
}

static long mails(void)
{
	return (long)worker_at(0)->w_mail + (long)worker_at(1)->w_mail;
}

static void first_is_over(void)
{
	mail  = mails();
	calls = get(&called);
	stops = moved().stops;
}

static void few(long nr, const char *what)
{
	if (nr > WAKES / FEW)
		fprintf(stderr, "%ld %s for %ld wakes\n", nr, what, WAKES);
	CHECK_THAT(nr, <=, WAKES / FEW);
}

static void is_over(void)
{
	few(moved().stops - stops, "stops");
	few(mails() - mail, "messages");
	few(get(&called) - calls, "system calls");
}

static void demand(void *arg)
{
	int nr = (int)(intptr_t)arg;
	int i;

	for (i = 0; i < DEMANDS; i++) {
		if (nr > 1)
			wait_one();
		if (2 * nr + 1 <= NODES) {
			SCHED(wake)(node[2 * nr]);
			SCHED(wake)(node[2 * nr + 1]);
			wait_one();
			wait_one();
		}
		if (nr > 1)
			SCHED(wake)(node[nr / 2]);
		else if (++answers == FIRST)
			first_is_over();
	}
	if (nr == 1)
		is_over();
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
#if defined(USCHED_HARD) || defined(__SANITIZE_THREAD__)
	check_skip("a wake takes as long as a theft");
#elif defined(USCHED_PORTABLE)
	check_skip("threads that have begun do not move");
#endif
	begin(2, NODES);
	for (i = 0; i < 2; i++)
		CHECK_IS(usched_stats(ws_sched(i), &each[i]), 0);
	for (i = 1; i <= NODES; i++)
		node[i] = make(i, demand, (void *)(intptr_t)i);
	start_and_finish();
	CHECK_IS(answers, DEMANDS);
	return 0;
}
