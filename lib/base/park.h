/* SPDX-License-Identifier: MIT */
/* park.h: how one native thread sleeps until another has work for it. */

#ifndef UPARK_H
#define UPARK_H

/*
 * The sleeper:                          A waker:
 *
 *	S1 publish    upark_prepare()		W1 give work (uinbox_post())
 *	S2 barrier    in S1			W2 barrier    in W1
 *	S3 look again for work;			W3 look: upark_wake()
 *	   if there is some, upark_cancel()
 *	S4 sleep      upark_sleep()
 *
 * S1, W1, S3 and W3 are sequentially consistent, so they have a single order.
 * If S1 comes before W3 in it, the waker sees the sleeper. Otherwise W1 comes
 * before S3, and the sleeper sees the work. No wake is lost.
 *
 *	operation      who     returns
 *	upark_prepare  owner   -
 *	upark_cancel   owner   true: no waker has come; false: a waker has come
 *	upark_sleep    owner   when a waker has come
 *	upark_wake     any thread or signal handler: true if this call has
 *	               ended the sleep. For each prepare, exactly one of
 *	               upark_cancel() and the upark_wake()s returns true.
 *
 * A sleeper that waits for descriptors, too, sleeps in poll(2) or the like. It
 * calls upark_by() after upark_prepare(), and wakers write to its descriptor.
 * They do so after *asleep is 0, so the descriptor must outlive them.
 *
 * On Linux others sleep in futex(2). Elsewhere they wait for a condition
 * variable, in bounded steps, because a signal may come before the wait has
 * begun. (Before 2.41 glibc could lose signals: sourceware bug 25847.) There a
 * signal handler must not call upark_wake().
 */

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#if !defined(USCHED_RACE)
#define USCHED_RACE(step)	((void)0)	/* a test puts delays there */
#endif

#if defined(__linux__)
#include <sys/eventfd.h>
#include <sys/syscall.h>

/* FUTEX_WAIT and _WAKE, private: some libcs come without linux/futex.h. */
enum { UPARK_FUTEX_WAIT = 0 | 128, UPARK_FUTEX_WAKE = 1 | 128 };

/* Sleeps while *word is value. May return early, for no reason. */
static inline void upark_futex_wait(int *word, int value)
{
	(void)syscall(SYS_futex, word, UPARK_FUTEX_WAIT, value, NULL, NULL, 0);
}

/* Sleeps like upark_futex_wait(), for at most ns nanoseconds. */
static inline void upark_futex_wait_for(int *word, int value, int64_t ns)
{
	int64_t s = ns / 1000000000;
	/* The kernel's struct timespec. */
	long most[2] = {
		s < INT32_MAX ? (long)s : INT32_MAX, (long)(ns % 1000000000)
	};

	(void)syscall(SYS_futex, word, UPARK_FUTEX_WAIT, value, most, NULL, 0);
}

static inline void upark_futex_wake(int *word)
{
	(void)syscall(SYS_futex, word, UPARK_FUTEX_WAKE, 1 << 30, NULL, NULL,
		      0);
}

/* Called in the child of fork(). A futex has no state. */
static inline void upark_forked(void)
{
}

static inline int upark_bell(int fd[2])
{
	fd[0] = fd[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return fd[0] >= 0 ? 0 : -errno;
}
#else
#include <pthread.h>
#include <time.h>

/* A single copy in the program or library, which all wakes reach. */
__attribute__((weak, visibility("hidden")))
pthread_mutex_t upark_mutex = PTHREAD_MUTEX_INITIALIZER;
__attribute__((weak, visibility("hidden")))
pthread_cond_t upark_cond = PTHREAD_COND_INITIALIZER;

#define UPARK_STEP	1000000L	/* ns: signals may come too early */

static inline void upark_futex_step(int *word, int value, long ns)
{
	struct timespec until;

	if (clock_gettime(CLOCK_REALTIME, &until) != 0)
		return;		/* the caller looks again */
	until.tv_nsec += ns;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&upark_mutex);
	if (__atomic_load_n(word, __ATOMIC_SEQ_CST) == value)
		pthread_cond_timedwait(&upark_cond, &upark_mutex, &until);
	pthread_mutex_unlock(&upark_mutex);
}

static inline void upark_futex_wait_for(int *word, int value, int64_t ns)
{
	for (; ns > 0 && __atomic_load_n(word, __ATOMIC_SEQ_CST) == value;
	     ns -= UPARK_STEP)
		upark_futex_step(word, value,
				 ns < UPARK_STEP ? (long)ns : UPARK_STEP);
}

static inline void upark_futex_wait(int *word, int value)
{
	upark_futex_step(word, value, UPARK_STEP);
}

static inline void upark_futex_wake(int *word)
{
	(void)word;
	pthread_cond_broadcast(&upark_cond);
}

/* Called in the child of fork(): another native thread may have held both. */
static inline void upark_forked(void)
{
	upark_mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	upark_cond  = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

static inline int upark_bell(int fd[2])
{
	int i;

	if (pipe(fd) != 0)
		return -errno;
	for (i = 0; i < 2; i++) {
		(void)fcntl(fd[i], F_SETFD, FD_CLOEXEC);
		(void)fcntl(fd[i], F_SETFL, O_NONBLOCK);
	}
	return 0;
}
#endif

/*
 * upark_bell() makes descriptors for sleepers that wait for others, too: fd[0]
 * is polled, and read, and wakers write to fd[1] (upark_write()). Both may be
 * the same. Neither blocks, and exec closes both. 0 or -errno.
 */
static inline void upark_bell_close(const int fd[2])
{
	close(fd[0]);
	if (fd[1] != fd[0])
		close(fd[1]);
}

/*
 * *asleep is 0 while the owner is awake. It is 1 from upark_prepare() on, and
 * more if the owner sleeps by a descriptor, until upark_cancel() or
 * upark_wake().
 */
enum { UPARK_FD = 2 };		/* plus the descriptor */

static inline void upark_prepare(int *asleep)
{
	__atomic_exchange_n(asleep, 1, __ATOMIC_SEQ_CST);	/* S1 S2 */
}

static inline bool upark_cancel(int *asleep)
{
	return __atomic_exchange_n(asleep, 0, __ATOMIC_SEQ_CST) != 0;
}

/*
 * Lets wakers write 8 bytes, the number 1, to fd. After upark_prepare(); the
 * owner then sleeps until fd can be read. False: a waker has come.
 */
static inline bool upark_by(int *asleep, int fd)
{
	int prepared = 1;

	return __atomic_compare_exchange_n(asleep, &prepared, UPARK_FD + fd,
			false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static inline void upark_sleep(int *asleep)
{
	while (__atomic_load_n(asleep, __ATOMIC_SEQ_CST) == 1) {
		USCHED_RACE(park_S4);
		upark_futex_wait(asleep, 1);
	}
}

/*
 * The call that hooks of write() (ext/wrap/) do not see: a waker may be a thread, and
 * a hook would ask about the descriptor, and might wait. The model has its own.
 */
#if defined(UPARK_WRITE)
#elif defined(__linux__)
#define UPARK_WRITE(fd, at, size)	syscall(SYS_write, fd, at, size)
#else
#define UPARK_WRITE(fd, at, size)	write(fd, at, size)
#endif

/* Writes to fd: if it is full already, the sleeper finds that. */
static inline void upark_write(int fd)
{
	static const uint64_t one = 1;
	int was = errno;

	while (UPARK_WRITE(fd, &one, sizeof one) < 0 && errno == EINTR)
		;
	errno = was;
}

static inline bool upark_wake(int *asleep)
{
	int was;

	if (__atomic_load_n(asleep, __ATOMIC_SEQ_CST) == 0)	/* W3 */
		return false;
	USCHED_RACE(park_W3);
	was = __atomic_exchange_n(asleep, 0, __ATOMIC_SEQ_CST);
	if (was == 0)
		return false;
	USCHED_RACE(park_wake);
	if (was >= UPARK_FD)
		upark_write(was - UPARK_FD);
	else
		upark_futex_wake(asleep);
	return true;
}

#endif /* UPARK_H */
