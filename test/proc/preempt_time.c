/* SPDX-License-Identifier: MIT */
/* VARIANTS: once */
/*
 * preempt_time: a thread that computes does not keep others on the same
 * processor from going on at their deadline, if threads are preempted.
 */
#define USCHED_PREEMPT	1
#include "check.h"
#include "ll.h"
#include "rr.h"
#include "upreempt.h"
#include "uwait.h"
#include "ws.h"

#define ROUNDS	20

static volatile long awake;
static long ended;

static void sleeps(void *arg)
{
	while (ended < ROUNDS) {
		CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
		awake++;
	}
}

static void computes(void *arg)
{
	long seen;

	for (; ended < ROUNDS; ended++) {
		for (seen = awake; awake == seen; )
			;
	}
}

#define RUN(k, make)	do {						\
	ended = 0;							\
	CHECK(k##_init(1, 0) == 0 && k##_preempt() == 0);		\
	make(sleeps);							\
	make(computes);							\
	CHECK(k##_start() == 0 && k##_fini() == 0);			\
	CHECK_IS(ended, ROUNDS);					\
} while (0)
#define RR(f)	CHECK(rr_thread_init(f, NULL) != NULL)
#define LL(f)	CHECK(ll_thread_init(f, NULL, 0) != NULL)
#define WS(f)	CHECK(ws_thread_init(f, NULL) != NULL)

int main(int argc, char **argv)
{
	int rc;

	check_start(argc, argv);
	rc = upreempt_start(1000000);
	if (rc != 0) {
		printf("no preemption here: %d\n", rc);
		return 77;
	}
	RUN(rr, RR);
	RUN(ll, LL);
	RUN(ws, WS);
	upreempt_stop();
	return 0;
}
