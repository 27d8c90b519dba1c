/* SPDX-License-Identifier: MIT */
/* park.h: how one native thread sleeps until another has work for it. */

#ifndef PARK_H
#define PARK_H

/*
 * The sleeper:                          A waker:
 *
 *	S1 publish    park_prepare()		W1 give work (inbox_post())
 *	S2 barrier    in S1			W2 barrier    in W1
 *	S3 look again for work;			W3 look: park_wake()
 *	   if there is some, park_cancel()
 *	S4 sleep      park_sleep()
 *
 * S1, W1, S3 and W3 are sequentially consistent, so they have a single order.
 * If S1 comes before W3 in it, the waker sees the sleeper. Otherwise W1 comes
 * before S3, and the sleeper sees the work. No wake is lost.
 *
 *	operation      who     returns
 *	park_prepare   owner   -
 *	park_cancel    owner   true: no waker has come; false: a waker has come
 *	park_sleep     owner   when a waker has come
 *	park_wake      any thread or signal handler: true if this call has
 *	               ended the sleep. For each prepare, exactly one of
 *	               park_cancel() and the park_wake()s returns true.
 *
 * On Linux the sleeper sleeps in futex(2). Elsewhere it waits for a condition
 * variable, in bounded steps, because a signal may come before the wait has
 * begun. (Before 2.41 glibc could lose signals: sourceware bug 25847.) There a
 * signal handler must not call park_wake().
 */

#include <stdbool.h>
#include <stddef.h>

#if !defined(RACE_WINDOW)
#define RACE_WINDOW(n)	((void)0)	/* a test puts delays there */
#endif

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

/* FUTEX_WAIT and _WAKE, private: some libcs come without linux/futex.h. */
enum { PARK_FUTEX_WAIT = 0 | 128, PARK_FUTEX_WAKE = 1 | 128 };

/* Sleeps while *word is value. May return early, for no reason. */
static inline void park_futex_wait(int *word, int value)
{
	(void)syscall(SYS_futex, word, PARK_FUTEX_WAIT, value, NULL, NULL, 0);
}

/* Sleeps like park_futex_wait(), for at most ns nanoseconds, below 10^9. */
static inline void park_futex_wait_for(int *word, int value, long ns)
{
	long most[2] = { 0, ns };	/* the kernel's struct timespec */

	(void)syscall(SYS_futex, word, PARK_FUTEX_WAIT, value, most, NULL, 0);
}

static inline void park_futex_wake(int *word)
{
	(void)syscall(SYS_futex, word, PARK_FUTEX_WAKE, 1 << 30, NULL, NULL, 0);
}
#else
#include <pthread.h>
#include <time.h>

static pthread_mutex_t park_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  park_cond  = PTHREAD_COND_INITIALIZER;

#define PARK_STEP	1000000L	/* ns: signals may come too early */

static inline void park_futex_step(int *word, int value, long ns)
{
	struct timespec until;

	if (clock_gettime(CLOCK_REALTIME, &until) != 0)
		return;		/* the caller looks again */
	until.tv_nsec += ns;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&park_mutex);
	if (__atomic_load_n(word, __ATOMIC_SEQ_CST) == value)
		pthread_cond_timedwait(&park_cond, &park_mutex, &until);
	pthread_mutex_unlock(&park_mutex);
}

static inline void park_futex_wait_for(int *word, int value, long ns)
{
	for (; ns > 0 && __atomic_load_n(word, __ATOMIC_SEQ_CST) == value;
	     ns -= PARK_STEP)
		park_futex_step(word, value, ns < PARK_STEP ? ns : PARK_STEP);
}

static inline void park_futex_wait(int *word, int value)
{
	park_futex_step(word, value, PARK_STEP);
}

static inline void park_futex_wake(int *word)
{
	(void)word;
	pthread_cond_broadcast(&park_cond);
}
#endif

/* *asleep is 1 from park_prepare() to park_cancel() or park_wake(), else 0. */
static inline void park_prepare(int *asleep)
{
	__atomic_exchange_n(asleep, 1, __ATOMIC_SEQ_CST);	/* S1 S2 */
}

static inline bool park_cancel(int *asleep)
{
	return __atomic_exchange_n(asleep, 0, __ATOMIC_SEQ_CST) == 1;
}

static inline void park_sleep(int *asleep)
{
	while (__atomic_load_n(asleep, __ATOMIC_SEQ_CST) == 1) {
		RACE_WINDOW(6);
		park_futex_wait(asleep, 1);
	}
}

static inline bool park_wake(int *asleep)
{
	if (__atomic_load_n(asleep, __ATOMIC_SEQ_CST) == 0)	/* W3 */
		return false;
	RACE_WINDOW(7);
	if (__atomic_exchange_n(asleep, 0, __ATOMIC_SEQ_CST) == 0)
		return false;
	RACE_WINDOW(8);
	park_futex_wake(asleep);
	return true;
}

#endif /* PARK_H */
