/* SPDX-License-Identifier: MIT */
/* uuntil.c: a signal cancels a scope: usignal_until(). */

/*
 *	handler, anywhere	waiter, in the scope	caller
 *
 *	H1 write to the bell	B1 wait until the bell	C1 run f(arg)
 *				   can be read		C2 cancel the scope
 *				B2 cancel the scope	C3 await the waiter
 *
 * The bell is that of the signal, and H1 is the last that uses it: the kernel
 * takes the handler away with the first signal (SA_RESETHAND), so the next ends
 * the process. No waiter reads the bell, so it stays as it is. Thus each
 * waiter sees it, on any processor: several servers end by one signal.
 *
 * The first caller makes the bell and sets the handler, and the last restores
 * what was before. The bell stays open until the next caller is the first, as a
 * handler may be late. In the child of fork() the bell is the parent's, and none
 * of the callers runs. So the child gets what was before.
 *
 * REJECTED: usignal_wait() by the waiter. It would take other signals from
 * those who wait for them, and a signal that a waiter has taken ends no other server.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* park.h: syscall() */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "usignal.h"
#include "lock.h"
#include "park.h"
#include "ufork.h"
#include "uio.h"
#include "uscope.h"
#include "compiler.h"

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

UPREEMPT_NEVER;

enum { READ, WRITE };

/* What is kept of a signal. */
struct ending {
	int              e_callers;
	bool             e_made;	/* the bell */
	int              e_bell[2];	/* (atomic: WRITE) */
	struct sigaction e_before;
};

/* What the caller and the waiter share. */
struct until {
	struct uscope *un_scope;
	int            un_bell;
	int            un_result;	/* 0: the signal has come */
};

static struct ulock  lock;
static struct ending ending[NSIG];	/* by number */

static void handler(int signo)
{
	upark_write(__atomic_load_n(&ending[signo].e_bell[WRITE],
				    __ATOMIC_ACQUIRE));		/* H1 */
}

/* Restores what was before, unless the program has set something else. */
static void restore(int signo)
{
	struct ending *e = &ending[signo];
	struct sigaction now;

	if (sigaction(signo, NULL, &now) == 0 &&
	    (now.sa_handler == handler || now.sa_handler == SIG_DFL))
		(void)sigaction(signo, &e->e_before, NULL);
}

static void in_child(void)
{
	int i;

	for (i = 1; i < NSIG; i++) {
		if (ending[i].e_callers > 0)
			restore(i);
		if (ending[i].e_made)
			upark_bell_close(ending[i].e_bell);
		ending[i] = (struct ending){ 0 };
	}
}

static struct ufork at_fork = {
	.f_rank = UFORK_SIGNALS, .f_lock = &lock, .f_nr = 1,
	.f_child = in_child
};
UFORK(at_fork)

/*
 * Sets the handler, which writes to this bell. Leaves the bell of the last time
 * in its place. 0 or -errno. Caller holds lock.
 */
static int first(int signo, int bell[2], bool *made)
{
	struct sigaction ours = { .sa_handler = handler, .sa_flags =
				  SA_RESTART | SA_ONSTACK | SA_RESETHAND };
	struct ending *e = &ending[signo];
	int was[2] = { e->e_bell[READ], e->e_bell[WRITE] };

	if (sigaction(signo, NULL, &e->e_before) != 0)
		return -errno;
	e->e_bell[READ] = bell[READ];
	__atomic_store_n(&e->e_bell[WRITE], bell[WRITE], __ATOMIC_RELEASE);
	bell[READ]  = was[READ];
	bell[WRITE] = was[WRITE];
	*made = e->e_made;
	e->e_made = true;
	return sigaction(signo, &ours, NULL) == 0 ? 0 : -errno;
}

/* Begins to await the signal. Returns the end of the bell to read, or -errno. */
static int begin(int signo)
{
	struct ending *e = &ending[signo];
	bool made = true;		/* whether bell has to be closed */
	int bell[2];
	int rc = upark_bell(bell);

	if (rc != 0)
		return rc;
	ulock_get(&lock);
	if (e->e_callers == 0)
		rc = first(signo, bell, &made);
	if (rc == 0) {
		e->e_callers++;
		rc = e->e_bell[READ];
	}
	ulock_put(&lock);
	if (made) {
		(void)u_close(bell[READ]);
		if (bell[WRITE] != bell[READ])
			(void)u_close(bell[WRITE]);
	}
	return rc;
}

static void end(int signo)
{
	ulock_get(&lock);
	if (ending[signo].e_callers > 0 && --ending[signo].e_callers == 0)
		restore(signo);
	ulock_put(&lock);
}

static int waiter(void *arg)
{
	struct until *u = arg;

	u->un_result = u_wait_fd(u->un_bell, UREAD, UNEVER);	/* B1 */
	if (u->un_result != -ECANCELED)
		uscope_cancel(u->un_scope);			/* B2 */
	return 0;
}

/* Runs f(arg) beside a waiter. */
static int run(struct until *u, int (*f)(void *arg), void *arg)
{
	int rc = uscope_begin(&u->un_scope, UNEVER);

	if (rc != 0)
		return rc;
	rc = uscope_go(u->un_scope, waiter, u);
	if (rc == 0)
		rc = f(arg);					/* C1 */
	uscope_cancel(u->un_scope);				/* C2 */
	while (uscope_end(&u->un_scope) == -ENOMEM)		/* C3 */
		;
	return rc == -ECANCELED ? u->un_result : rc;
}

int usignal_until(int signo, int (*f)(void *arg), void *arg)
{
	struct usched *s = usched_self();
	struct until *u;
	int rc;

	if (signo < 1 || signo >= NSIG)
		return -EINVAL;
	if (s == NULL || s->s_alloc == NULL)
		return -ENOSYS;
	if (ufork_watch() != 0 || (u = s->s_alloc(s, sizeof *u)) == NULL)
		return -ENOMEM;
	*u = (struct until){ .un_result = -ECANCELED };
	u->un_bell = rc = begin(signo);
	if (rc >= 0) {
		rc = run(u, f, arg);
		end(signo);
	}
	s = ustack_self()->u_sched;	/* ws: the thread may have moved */
	s->s_free(s, u, sizeof *u);
	return rc;
}
