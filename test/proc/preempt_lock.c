/* SPDX-License-Identifier: MIT */
/* VARIANTS: once */
/*
 * preempt_lock: threads that are preempted at any instruction of their own
 * exclude each other by a mutex, local to the processor or not, and lose no
 * unit of a semaphore.
 */
#define USCHED_PREEMPT	1
#include "check.h"
#include "rr.h"
#include "upreempt.h"
#include "usync.h"
#include "ws.h"

#define THREADS	4
#define MANY	30		/* waits for a lock: all are by preemption */

static struct umutex mutex, local = UMUTEX_LOCAL;
static struct usem   sem, local_sem = USEM_LOCAL(1);
static long inside[2], out[2], waited[2];

static void compute(void)
{
	volatile int i;

	for (i = 0; i < 2000; i++)
		;
}

static void lock(struct umutex *m, int kind)
{
	if (umutex_lock(m, UNOW) != 0) {
		CHECK_IS(umutex_lock(m, UNEVER), 0);
		waited[kind]++;			/* under the lock */
	}
	CHECK_IS(inside[kind]++, 0);
	compute();
	CHECK_IS(--inside[kind], 0);
	umutex_unlock(m);
}

static void take_unit(struct usem *s, int kind)
{
	CHECK_IS(usem_wait(s, UNEVER), 0);
	CHECK_IS(out[kind]++, 0);
	compute();
	CHECK_IS(--out[kind], 0);
	CHECK_IS(usem_post(s), 0);
}

static void uses(void *arg)
{
	int kind = arg != NULL;

	while (waited[kind] < MANY) {
		lock(kind ? &local : &mutex, kind);
		take_unit(kind ? &local_sem : &sem, kind);
	}
}

#define RUN(k, procs, arg)	do {					\
	int i;								\
									\
	waited[0] = waited[1] = 0;					\
	CHECK(k##_init(procs, 0) == 0 && k##_preempt() == 0);		\
	for (i = 0; i < THREADS; i++)					\
		CHECK(k##_thread_init(uses, arg) != NULL);		\
	CHECK(k##_start() == 0 && k##_fini() == 0);			\
	CHECK(umutex_busy(&mutex) == 0 && umutex_busy(&local) == 0);	\
} while (0)

int main(int argc, char **argv)
{
	int rc;

	check_start(argc, argv);
	CHECK_IS(usem_post(&sem), 0);
	rc = upreempt_start(100000);
	if (rc != 0) {
		printf("no preemption here: %d\n", rc);
		return 77;
	}
	RUN(rr, 1, NULL);
	RUN(rr, 1, &local);
	RUN(ws, 1, &local);
	RUN(rr, 2, NULL);
	RUN(ws, 2, NULL);
	upreempt_stop();
	return 0;
}
