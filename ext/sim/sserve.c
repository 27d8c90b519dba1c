/* SPDX-License-Identifier: MIT */
/* sserve.c: servers of userve.h and signals of usignal.h, in hosts. */

/*
 * A server only calls lib/io/ and lib/wait/. So its code is compiled once more, with its
 * calls led where sim.flags leads those of programs.
 */

#define _GNU_SOURCE
#include "snames.h"
#include "usignal.h"
#include "uscope.h"

#include <errno.h>
#include <stdlib.h>

int __wrap_uscope_go_by(struct uscope *s, int (*f)(void *), void *arg,
			uscope_make *make);

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

/* What a signal ends in a host, and its waiter. */
struct ending {
	struct uscope *en_scope;
	int            en_signo;
	int            en_result;
};

static int await_signal(void *arg)
{
	struct ending *e = arg;

	e->en_result = sim_signal_await(enter(), e->en_signo);
	if (e->en_result != -ECANCELED)
		uscope_cancel(e->en_scope);
	return 0;
}

/* Runs f(arg) beside a waiter. */
static int run_until(struct ending *e, int (*f)(void *), void *arg)
{
	int rc = uscope_begin(&e->en_scope, UNEVER);

	if (rc != 0)
		return rc;
	rc = __wrap_uscope_go_by(e->en_scope, await_signal, e, NULL);
	if (rc == 0)
		rc = f(arg);
	uscope_cancel(e->en_scope);
	while (uscope_end(&e->en_scope) == -ENOMEM)
		;
	return rc == -ECANCELED ? e->en_result : rc;
}

NAME(int, usignal_until, (int signo, int (*f)(void *), void *arg))
{
	struct sim_boot *b = enter();
	struct ending *e;
	int rc;

	if (b == NULL)
		return usignal_until(signo, f, arg);
	rc = sim_signal_watch(b, signo);
	if (rc != 0)
		return rc;
	e = calloc(1, sizeof *e);
	if (e != NULL) {
		e->en_signo  = signo;
		e->en_result = -ECANCELED;
		rc = run_until(e, f, arg);
	}
	if (e == NULL || e->en_result != 0)
		(void)sim_signal_unwatch(b, signo);
	free(e);
	return e != NULL ? rc : -ENOMEM;
}

#define userve		__wrap_userve
#define u_accept	__wrap_u_accept
#define u_close		__wrap_u_close
#define u_wait_fd	__wrap_u_wait_fd
#define uscope_go_by	__wrap_uscope_go_by

#include "../../lib/io/userve.c"
