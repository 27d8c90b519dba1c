/* SPDX-License-Identifier: MIT */
/* common.h: rr with one processor, or with -DLL ll, for a loop to drive. */

#include <stdio.h>
#include <stdlib.h>
#include <usched/all.h>

#if defined(LL)
#define SCHED(name)	ll_##name
#else
#define SCHED(name)	rr_##name
#endif

/* Also for callbacks of the loop, which may make threads. */
static inline void make(void (*f)(void *), void *arg)
{
#if defined(LL)
	struct ll_thread *t = ll_thread_init(f, arg, 0);
#else
	struct rr_thread *t = rr_thread_init(f, arg);
#endif
	if (t == NULL)
		abort();
}

static inline struct usched *scheduler(void)
{
	if (SCHED(init)(1, 0) != 0)
		abort();
	return SCHED(sched)(0);
}

static inline void take(struct usem *m)
{
	if (usem_wait(m, UNEVER) != 0)
		abort();
}

static int quiet[2];

/* Waits for a byte, which comes after a second in which nothing happens. */
static inline void waits(void *unused)
{
	char c;

	(void)unused;
	if (u_read(quiet[0], &c, 1, uafter(3600 * UTIME_S)) == 1)
		printf("over\n");
}

/* For test/examples/loops.sh, which counts the system calls of this second. */
static inline void silence(void)
{
	if (pipe(quiet) != 0)
		abort();
	make(waits, NULL);
	printf("silence\n");
	u_sleep(uafter(UTIME_S));
	u_write(quiet[1], "x", 1, UNEVER);
}
