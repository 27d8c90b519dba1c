/* SPDX-License-Identifier: MIT */
/* ptime.c: the pthread face: sleeps, and points in time. */

#include "pself.h"
#include "compiler.h"

#include <errno.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

UPREEMPT_NEVER;

NATIVE(sched_yield);
NATIVE(sleep);
NATIVE(usleep);
NATIVE(nanosleep);
NATIVE(clock_nanosleep);

NOINLINE int pface_errno(int error)
{
	if (error == 0)
		return 0;
	errno = error;
	return -1;
}

int pface_deadline(clockid_t clock, const struct timespec *t, utime_ns *until)
{
	struct timespec now;
	utime_ns left;

	if (t->tv_nsec < 0 || t->tv_nsec >= UTIME_S ||
	    (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) ||
	    clock_gettime(clock, &now) != 0)
		return EINVAL;
	if (t->tv_sec < now.tv_sec)
		left = 0;
	else if (t->tv_sec - now.tv_sec > UNEVER / UTIME_S - 2)
		left = UNEVER;
	else
		left = (t->tv_sec - now.tv_sec) * UTIME_S +
			t->tv_nsec - now.tv_nsec;
	*until = uafter(left);
	return 0;
}

void pface_give_way(void)
{
	if (!pface_is_native())
		(void)uwait_give_way();		/* without memory: goes on */
}

static int yield(void)
{
	if (pface_is_native())
		return REAL(sched_yield)();
	pface_give_way();
	return 0;
}

SIM_FIRST int FACE(sched_yield)(void)
{
	return yield();
}

int FACE(pthread_yield)(void)
{
	return yield();
}

/* Sleeps for a thread of ours. 0, or an errno. */
static int sleep_until(utime_ns until)
{
	int rc;

	pface_point();
	rc = u_sleep(until);
	pface_pointed(rc);
	return rc == -ECANCELED ? EINTR : -rc;
}

SIM_FIRST unsigned FACE(sleep)(unsigned seconds)
{
	utime_ns until = uafter(seconds * UTIME_S);

	if (pface_is_native())
		return REAL(sleep)(seconds);
	if (sleep_until(until) == 0)
		return 0;
	return (unsigned)((until - unow() + UTIME_S - 1) / UTIME_S);
}

SIM_FIRST int FACE(usleep)(useconds_t us)
{
	return pface_is_native() ? REAL(usleep)(us) :
		pface_errno(sleep_until(uafter(us * UTIME_US)));
}

/* Sleeps until *t of a clock, or for the length *t. 0, or an errno. */
static int sleep_for(clockid_t clock, int flags, const struct timespec *t,
		     struct timespec *left)
{
	utime_ns until, ns;
	int rc;

	if (t->tv_sec < 0 || t->tv_nsec < 0 || t->tv_nsec >= UTIME_S)
		return EINVAL;
	if (flags & TIMER_ABSTIME) {
		rc = pface_deadline(clock, t, &until);
		if (rc != 0)
			return rc;
	} else
		until = uafter(t->tv_sec < UNEVER / UTIME_S ?
			       t->tv_sec * UTIME_S + t->tv_nsec : UNEVER);
	rc = sleep_until(until);
	if (rc == 0 || flags & TIMER_ABSTIME || left == NULL)
		return rc;
	ns = until - unow();
	left->tv_sec  = ns > 0 ? ns / UTIME_S : 0;
	left->tv_nsec = ns > 0 ? ns % UTIME_S : 0;
	return rc;
}

SIM_FIRST int FACE(nanosleep)(const struct timespec *t, struct timespec *left)
{
	return pface_is_native() ? REAL(nanosleep)(t, left) :
		pface_errno(sleep_for(CLOCK_MONOTONIC, 0, t, left));
}

SIM_FIRST int FACE(clock_nanosleep)(clockid_t clock, int flags,
				    const struct timespec *t,
				    struct timespec *left)
{
	if (pface_is_native() || (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC))
		return REAL(clock_nanosleep)(clock, flags, t, left);
	return sleep_for(clock, flags, t, left);
}
