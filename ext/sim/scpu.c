/* SPDX-License-Identifier: MIT */
/* scpu.c: processors of a host, priorities, cpu time. */

/*
 * A host has one processor, number 0, on which nothing else runs. Policies and priorities
 * change nothing. A user may give up priority, and does not get it back. Computations take
 * no time, so each clock of cpu time shows 0.
 */

#define _GNU_SOURCE		/* sched_getaffinity() */
#include "snames.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/times.h>
#include <time.h>
#include <unistd.h>

#define NICE_MOST	19

/* glibc has types for C of its own. */
#if defined(__GLIBC__)
#define PRIORITY	__priority_which_t
#define USAGE		__rusage_who_t
#else
#define PRIORITY	int
#define USAGE		int
#endif

int sim_own(const struct sim_boot *b, pid_t pid)
{
	return pid == 0 || pid == sim_pid(b) ? 0 : pid < 0 ? -EINVAL : -ESRCH;
}

/* Processors. */

NAME(int, get_nprocs, (void))
{
	return enter() == NULL ? get_nprocs() : 1;
}

NAME(int, get_nprocs_conf, (void))
{
	return enter() == NULL ? get_nprocs_conf() : 1;
}

NAME(int, sched_getcpu, (void))
{
	return enter() == NULL ? sched_getcpu() : 0;
}

static int affinity_get(size_t size, cpu_set_t *to)
{
	if (size < sizeof(long) || size % sizeof(long) != 0)
		return -EINVAL;
	memset(to, 0, size);
	CPU_SET_S(0, size, to);
	return 0;
}

static int affinity_set(size_t size, const cpu_set_t *to)
{
	return size > 0 && CPU_ISSET_S(0, size, to) ? 0 : -EINVAL;
}

NAME(int, sched_getaffinity, (pid_t pid, size_t size, cpu_set_t *to))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return sched_getaffinity(pid, size, to);
	rc = sim_own(b, pid);
	return (int)answer(rc != 0 ? rc : affinity_get(size, to));
}

NAME(int, sched_setaffinity, (pid_t pid, size_t size, const cpu_set_t *to))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return sched_setaffinity(pid, size, to);
	rc = sim_own(b, pid);
	return (int)answer(rc != 0 ? rc : affinity_set(size, to));
}

NAME(int, pthread_getaffinity_np, (pthread_t t, size_t size, cpu_set_t *to))
{
	return enter() == NULL ? pthread_getaffinity_np(t, size, to) :
		-affinity_get(size, to);
}

NAME(int, pthread_setaffinity_np, (pthread_t t, size_t size, const cpu_set_t *to))
{
	return enter() == NULL ? pthread_setaffinity_np(t, size, to) :
		-affinity_set(size, to);
}

NAME(int, sched_getscheduler, (pid_t pid))
{
	struct sim_boot *b = enter();

	return b == NULL ? sched_getscheduler(pid) : (int)answer(sim_own(b, pid));
}

NAME(int, sched_getparam, (pid_t pid, struct sched_param *to))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return sched_getparam(pid, to);
	rc = sim_own(b, pid);
	if (rc == 0)
		to->sched_priority = 0;
	return (int)answer(rc);
}

static bool is_plain(int policy)
{
	return policy == SCHED_OTHER || policy == SCHED_BATCH || policy == SCHED_IDLE;
}

/* What a user who has no more rights may: plain policies, and their only priority. */
static int policy_set(struct sim_boot *b, pid_t pid, int policy, int priority)
{
	int rc = sim_own(b, pid);

	if (rc != 0)
		return rc;
	if (!is_plain(policy) && policy != SCHED_FIFO && policy != SCHED_RR)
		return -EINVAL;
	if (is_plain(policy) ? priority != 0 : priority < 1 || priority > 99)
		return -EINVAL;
	return is_plain(policy) ? 0 : -EPERM;
}

NAME(int, sched_setscheduler, (pid_t pid, int policy, const struct sched_param *p))
{
	struct sim_boot *b = enter();

	return b == NULL ? sched_setscheduler(pid, policy, p) :
		(int)answer(policy_set(b, pid, policy, p->sched_priority));
}

NAME(int, sched_setparam, (pid_t pid, const struct sched_param *p))
{
	struct sim_boot *b = enter();

	return b == NULL ? sched_setparam(pid, p) :
		(int)answer(policy_set(b, pid, SCHED_OTHER, p->sched_priority));
}

static int priority_of(int policy, int real)
{
	return policy == SCHED_FIFO || policy == SCHED_RR ? real :
		is_plain(policy) ? 0 : (int)answer(-EINVAL);
}

NAME(int, sched_get_priority_max, (int policy))
{
	return enter() == NULL ? sched_get_priority_max(policy) :
		priority_of(policy, 99);
}

NAME(int, sched_get_priority_min, (int policy))
{
	return enter() == NULL ? sched_get_priority_min(policy) :
		priority_of(policy, 1);
}

NAME(int, sched_rr_get_interval, (pid_t pid, struct timespec *t))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return sched_rr_get_interval(pid, t);
	rc = sim_own(b, pid);
	if (rc == 0)
		*t = sim_spec_of(4 * UTIME_MS);
	return (int)answer(rc);
}

static int nice_check(struct sim_boot *b, int which, id_t who)
{
	if (which != PRIO_PROCESS && which != PRIO_PGRP && which != PRIO_USER)
		return -EINVAL;
	return which == PRIO_USER || sim_own(b, (pid_t)who) == 0 ? 0 : -ESRCH;
}

/* No user may take back what it has given. */
static int nice_set(struct sim_boot *b, int to)
{
	to = to > NICE_MOST ? NICE_MOST : to;
	if (to < b->b_nice)
		return -EACCES;
	b->b_nice = to;
	return 0;
}

NAME(int, getpriority, (PRIORITY which, id_t who))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return getpriority(which, who);
	rc = nice_check(b, (int)which, who);
	return rc != 0 ? (int)answer(rc) : b->b_nice;
}

NAME(int, setpriority, (PRIORITY which, id_t who, int to))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return setpriority(which, who, to);
	rc = nice_check(b, (int)which, who);
	return (int)answer(rc != 0 ? rc : nice_set(b, to));
}

NAME(int, nice, (int more))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return nice(more);
	return nice_set(b, b->b_nice + more) != 0 ? (int)answer(-EPERM) :
		b->b_nice;
}

NAME(int, getloadavg, (double *to, int nr))
{
	int i;

	if (enter() == NULL)
		return getloadavg(to, nr);
	nr = nr > 3 ? 3 : nr;
	for (i = 0; i < nr; i++)
		to[i] = 0;
	return nr;
}

/* Cpu time. */

NAME(clock_t, clock, (void))
{
	return enter() == NULL ? clock() : 0;
}

NAME(clock_t, times, (struct tms *to))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return times(to);
	if (to != NULL)
		memset(to, 0, sizeof *to);
	return (clock_t)(sim_clock(b->b_host, CLOCK_MONOTONIC) / (UTIME_S / SIM_TICKS));
}

NAME(int, getrusage, (USAGE who, struct rusage *to))
{
	if (enter() == NULL)
		return getrusage(who, to);
	if (who != RUSAGE_SELF && who != RUSAGE_CHILDREN && (int)who != 1)
		return (int)answer(-EINVAL);
	memset(to, 0, sizeof *to);
	return 0;
}

NAME(int, clock_getcpuclockid, (pid_t pid, clockid_t *to))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return clock_getcpuclockid(pid, to);
	*to = CLOCK_PROCESS_CPUTIME_ID;
	return sim_own(b, pid) == 0 ? 0 : ESRCH;
}
