/* SPDX-License-Identifier: MIT */
/* sserve.c: servers of userve.h and signals of usignal.h, in hosts. */

/*
 * A server only calls lib/io/ and lib/wait/. So its code is compiled once more, with its
 * calls led where sim.flags leads those of programs.
 */

#define _GNU_SOURCE
#include "snames.h"
#include "usignal.h"

NAME(int, usignal_watch, (int signo))
{
	struct sim_boot *b = enter();

	return b == NULL ? usignal_watch(signo) : sim_signal_watch(b, signo);
}

NAME(int, usignal_unwatch, (int signo))
{
	struct sim_boot *b = enter();

	return b == NULL ? usignal_unwatch(signo) : sim_signal_unwatch(b, signo);
}

NAME(int, usignal_wait, (utime_ns until))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return usignal_wait(until);
	return until < 0 ? -EINVAL : sim_signal_wait(b, time_of(until));
}

#define userve		__wrap_userve
#define u_accept	__wrap_u_accept
#define u_close		__wrap_u_close
#define u_wait_fd	__wrap_u_wait_fd
#define uscope_go_by	__wrap_uscope_go_by

#include "../../lib/io/userve.c"
