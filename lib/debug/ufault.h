/* SPDX-License-Identifier: MIT */
/* ufault.h: handlers of faults, and their messages. For uguard.c, uhard.c. */

#ifndef UFAULT_H
#define UFAULT_H

/*
 * The handler of a fault runs on an alternate stack, since the stack that
 * overflowed may have no room left. It calls only functions that a signal
 * handler may call, so its messages are put together without stdio; name_of()
 * is the exception. A fault that the handler cannot explain goes to the handler
 * that was installed before it.
 */

#include "uslice.h"
#include "usched.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

/* Seconds that the loader is given to name a function. */
#define NAME_PATIENCE	1

/*
 * dladdr() is in a library of its own in old glibc; static programs may lack
 * it.
 */
#pragma weak dladdr

struct text {
	char   x_text[1024];
	size_t x_nob;
};

static void put(struct text *x, const char *word)
{
	while (*word != 0 && x->x_nob < sizeof x->x_text - 1)
		x->x_text[x->x_nob++] = *word++;
	x->x_text[x->x_nob] = 0;
}

static void put_number(struct text *x, uintptr_t nr, unsigned base)
{
	char digits[2 + 20 + 1];
	char *at = digits + sizeof digits;

	*--at = 0;
	do {
		*--at = "0123456789abcdef"[nr % base];
	} while ((nr /= base) != 0);
	if (base == 16) {
		*--at = 'x';
		*--at = '0';
	}
	put(x, at);
}

/* The lookup of a name. While a native thread is in it, others do without. */
static struct {
	int        n_busy;
	pthread_t  n_who;
	sigjmp_buf n_env;
	char       n_text[80];
} naming;

static void name_late(int signo)
{
	if (pthread_equal(pthread_self(), naming.n_who))
		siglongjmp(naming.n_env, 1);
	(void)pthread_kill(naming.n_who, signo);
}

static const char *name_look(void (*f)(void *))
{
	union { void (*f)(void *); void *p; } at = { f };
	const char *volatile name = NULL;
	Dl_info info;

	usched_name(naming.n_text, sizeof naming.n_text, at.p);
	if (naming.n_text[0] != 0)
		return naming.n_text;
	if (&dladdr != NULL && sigsetjmp(naming.n_env, 0) == 0 && dladdr(at.p, &info) != 0 &&
	    info.dli_saddr == at.p)
		name = info.dli_sname;
	return name;
}

/*
 * Returns the name of a function, or NULL. usched_name() finds it in the file,
 * unless that was stripped. The loader knows the name of a function that is
 * exported, or if the program was linked with -rdynamic. dladdr()
 * takes a lock of the loader, which another native thread, or the code that the
 * fault interrupted, may hold for long. So an alarm ends the lookup by a
 * siglongjmp(). A lock that this leaves held stays held, but the process is
 * about to end.
 */
static const char *name_of(void (*f)(void *))
{
	struct sigaction action = { .sa_handler = name_late }, before;
	const char *name;
	sigset_t mask, old;
	unsigned left;

	if (__atomic_exchange_n(&naming.n_busy, 1, __ATOMIC_ACQUIRE) != 0)
		return NULL;
	naming.n_who = pthread_self();
	sigemptyset(&action.sa_mask);
	sigemptyset(&mask);
	sigaddset(&mask, SIGALRM);
	left = alarm(0);
	(void)sigaction(SIGALRM, &action, &before);
	(void)pthread_sigmask(SIG_UNBLOCK, &mask, &old);
	(void)alarm(NAME_PATIENCE);
	name = name_look(f);
	(void)alarm(0);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)sigaction(SIGALRM, &before, NULL);
	(void)alarm(left);
	__atomic_store_n(&naming.n_busy, 0, __ATOMIC_RELEASE);
	return name;
}

/* Appends the name of a thread, which may be gone: u is not dereferenced. */
static void put_thread(struct text *x, const struct ustack *u,
		       void (*f)(void *), void *arg)
{
	const char *name = name_of(f);

	put(x, "thread ");
	put_number(x, (uintptr_t)u, 16);
	put(x, " (function ");
	if (name != NULL) {
		put(x, name);
		put(x, "() at ");
	}
	put_number(x, (uintptr_t)f, 16);
	put(x, ", argument ");
	put_number(x, (uintptr_t)arg, 16);
	put(x, ")");
}

/* Calls the handler that was there before; without one the process ends. */
static void pass_on(const struct sigaction *old, int signo, siginfo_t *info,
		    void *context)
{
	if (old->sa_flags & SA_SIGINFO)
		old->sa_sigaction(signo, info, context);
	else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN)
		old->sa_handler(signo);
	else if (sigaction(signo, old, NULL) == 0 && info->si_code <= 0)
		(void)raise(signo);	/* a sent signal is not repeated */
}

#endif /* UFAULT_H */
