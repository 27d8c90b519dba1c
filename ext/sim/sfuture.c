/* SPDX-License-Identifier: MIT */
/* sfuture.c: futures of a run: copies that go on with other seeds. */

/*
 * A future is a copy of the process, and begins at a time of the run: no more
 * faults begin, and all that is drawn from then on is drawn from another seed. The
 * run counts the futures that fail, and ends.
 */

#include "sim.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static utime_ns futures_at;
static int      future_nr;	/* 0: none are tried */

void sim_futures_at(utime_ns at, int nr)
{
	futures_at = at;
	future_nr = nr;
}

/*
 * Forks without the handlers of pthread_atfork(): the library's would make the
 * child of a thread useless, since other native threads may have held locks. Here
 * are none (usim V1), so all of the copy is whole.
 */
static pid_t copy(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

/* Goes on in a copy of this process with another seed. Returns its end. */
static bool future_fails(int number)
{
	static struct sim_report before;
	pid_t pid;
	int status = 0;

	before = *sim_report;
	pid = copy();
	if (pid == 0) {
		sim_is_well = true;
		sim_seed_set(sim_seed + (uint64_t)number);
		return false;
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			pid = -1;
	if (pid < 0)
		usim_fail("no process for a future");
	status = sim_report->p_failed || !sim_report->p_ended;
	*sim_report = before;
	return status;
}

/* Each future is a process that returns from here, with sim_is_well. */
static void futures(void *unused)
{
	int number, failed = 0;

	(void)unused;
	for (number = 1; number <= future_nr; number++) {
		failed += future_fails(number);
		if (sim_is_well)
			return;
	}
	sim_report->p_futures = failed;
	sim_quit();
}

void sim_futures_begin(void)
{
	if (future_nr > 0)
		sim_at(futures_at, futures, NULL);
}
