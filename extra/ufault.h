/* SPDX-License-Identifier: MIT */
/* ufault.h: what those who explain faults share. For uguard.c and uhard.c. */

#ifndef UFAULT_H
#define UFAULT_H

/*
 * A handler calls only what a handler may call: so messages are put together
 * without stdio. It runs on an alternate stack, since there may be no room left
 * on the one that ran out; and what it does not know goes to who was there
 * before.
 */

#include "usched.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#define FAULT_STACK	((size_t)64 << 10)

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

/* The thread may be gone. */
static void put_thread(struct text *x, const struct ustack *u,
		       void (*f)(void *), void *arg)
{
	put(x, "thread ");
	put_number(x, (uintptr_t)u, 16);
	put(x, " (function ");
	put_number(x, (uintptr_t)f, 16);
	put(x, ", argument ");
	put_number(x, (uintptr_t)arg, 16);
	put(x, ")");
}

/* To the handler that was there before; without one it ends the process. */
static void pass_on(const struct sigaction *old, int signo, siginfo_t *info,
		    void *context)
{
	if (old->sa_flags & SA_SIGINFO)
		old->sa_sigaction(signo, info, context);
	else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN)
		old->sa_handler(signo);
	else if (sigaction(signo, old, NULL) == 0 && info->si_code <= 0)
		(void)raise(signo);	/* it would not come again */
}

/*
 * The alternate stack of this native thread, or NULL: there is one, and
 * somebody else's does as well; or there is no memory, and a fault remains just
 * that.
 */
static void *alternate_begin(void)
{
	stack_t alt;

	if (sigaltstack(NULL, &alt) != 0 || !(alt.ss_flags & SS_DISABLE))
		return NULL;
	alt = (stack_t) { .ss_size = FAULT_STACK };
	alt.ss_sp = mmap(NULL, FAULT_STACK, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (alt.ss_sp == MAP_FAILED)
		return NULL;
	if (sigaltstack(&alt, NULL) == 0)
		return alt.ss_sp;
	munmap(alt.ss_sp, FAULT_STACK);
	return NULL;
}

static void alternate_end(void *own)
{
	const stack_t none = { .ss_flags = SS_DISABLE };
	stack_t alt;

	if (own == NULL || sigaltstack(NULL, &alt) != 0)
		return;
	if (alt.ss_sp == own)		/* not somebody's newer one */
		(void)sigaltstack(&none, NULL);
	munmap(own, FAULT_STACK);
}

#endif /* UFAULT_H */
