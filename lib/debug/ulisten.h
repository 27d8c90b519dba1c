/* SPDX-License-Identifier: MIT */
/* ulisten.h: listens to signals, looks for long runs. A part of ulist.c. */

#ifndef ULISTEN_H
#define ULISTEN_H

/*
 * A native thread listens. For long runs it looks at d_switches of each dispatcher,
 * which enter() changes.
 *
 * THE PROGRAM'S SIGNAL
 *
 * The kernel gives a signal to any native thread that does not block it, and
 * ends a system call there. So this module blocks the signal in the caller of
 * ulist_on_signal(), from which native threads made later inherit that, and in
 * each native thread while it runs a dispatcher. The native thread that listens
 * does not block it. The child of fork() unblocks it, for the program that it
 * may execute.
 *
 * REJECTED
 *
 * The program's signal by sigwait() alone, without a handler: where a native
 * thread of the program leaves it unblocked, SIGQUIT would end the process.
 */

#include "ureport.h"

#define LOOKS		4		/* in a run that is reported */

/* Long runs. */

/* Reports the thread of d, which has run since d_seen_at. Holds d_lock. */
static void report(struct listed *d, utime_ns time)
{
	if (!look_at(d))
		return;
	say("usched: run: ");
	say_thread(d->d_stack, d->d_f, d->d_arg, d->d_name);
	say(" has not given way for ");
	say_ns(time - d->d_seen_at);
	say_look(d);
	flush();
	usymbol_end();
	d->d_reported = true;
}

/* Looks at all dispatchers. Caller holds a_lock. */
static void look(long ns)
{
	utime_ns time = now(CLOCK_MONOTONIC);
	struct listed *d;

	for (d = all.a_first; d != NULL; d = d->d_next) {
		ulock_get(&d->d_lock);
		if (__atomic_load_n(&d->d_state, __ATOMIC_ACQUIRE) != RUNS ||
		    d->d_switches != d->d_seen) {
			d->d_seen    = d->d_switches;
			d->d_seen_at = time;
			d->d_reported = false;
		} else if (!d->d_reported && time - d->d_seen_at >= ns)
			report(d, time);
		ulock_put(&d->d_lock);
	}
}

/* The native thread. */

enum { LIST = 1, CHANGED = 2 };			/* a_asked */

/* A signal handler may call this. */
static void ask(int what)
{
	__atomic_fetch_or(&all.a_asked, what, __ATOMIC_RELEASE);
	upark_futex_wake(&all.a_asked);
}

static void signals_unblock(void)
{
	ulock_get(&all.a_lock);
	(void)pthread_sigmask(SIG_UNBLOCK, &all.a_signals, NULL);
	ulock_put(&all.a_lock);
}

static void *listener(void *arg)
{
	long run;

	for (;;) {
		signals_unblock();
		run = __atomic_load_n(&all.a_run, __ATOMIC_RELAXED);
		if (run != 0)
			upark_futex_wait_for(&all.a_asked, 0, run / LOOKS);
		else
			upark_futex_wait(&all.a_asked, 0);
		if (__atomic_exchange_n(&all.a_asked, 0, __ATOMIC_ACQ_REL) & LIST)
			ulist_print("asked by a signal");
		if (run == 0)
			continue;
		ulock_get(&all.a_lock);
		look(run);
		ulock_put(&all.a_lock);
	}
	return arg;
}

/* Makes that native thread, if this process has none. 0 or -errno. */
static int listen(void)
{
	sigset_t full, old;
	pthread_t native;
	int rc;

	if (all.a_listens == getpid())
		return 0;
	(void)sigfillset(&full);
	(void)pthread_sigmask(SIG_SETMASK, &full, &old);
	rc = pthread_create(&native, NULL, listener, NULL);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc != 0)
		return -rc;
	(void)pthread_detach(native);
	all.a_listens = getpid();
	return 0;
}

/* Unblocks the signals that are listened to, but those in before; has a_lock */
static void signals_restore(const sigset_t *before)
{
	sigset_t now;
	int i;

	(void)pthread_sigmask(SIG_BLOCK, NULL, &now);
	for (i = 1; i < NSIG; i++) {
		if (sigismember(&all.a_signals, i) == 1 &&
		    sigismember(before, i) == 0)
			(void)sigdelset(&now, i);
	}
	(void)pthread_sigmask(SIG_SETMASK, &now, NULL);
}

#endif /* ULISTEN_H */
