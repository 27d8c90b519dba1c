/* SPDX-License-Identifier: MIT */
/* ulist_inside.h: threads, dispatchers and text, for the parts of ulist.c. */

#ifndef ULIST_INSIDE_H
#define ULIST_INSIDE_H

#include "ulist.h"
#include "compiler.h"
#include "lock.h"
#include "uchain.h"
#include "ufork.h"
#include "ulook.h"
#include "uself.h"
#include "uslice.h"
#include "usymbol.h"
#include "utrace.h"
#include "uwait.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct entry {
	struct entry  *e_next;		/* in its bucket */
	struct ustack *e_stack;
	struct listed *e_home;		/* has run it last */
	int            e_runs;		/* (atomic) */
	const struct uwait_kind *e_kind; /* of the record */
	bool           e_waits;		/* by the record */
	const void    *e_object;
	const void *const *e_owner;	/* in it: its holder; or NULL */
	utime_ns       e_until;
	utime_ns       e_since;		/* it has blocked */
	unsigned long  e_nr;		/* in the order of beginning */
};

enum { INSIDE, RUNS };

/* A dispatcher that runs. */
struct listed {
	struct usched_link d_link;	/* first */
	struct listed   *d_next;
	struct usched   *d_sched;
	sigset_t         d_mask;	/* of the native thread, before */
	long             d_native;	/* as gettid() names it */
	int              d_state;	/* (atomic) */
	struct ulock     d_lock;	/* protects what follows, for others */
	unsigned         d_switches;	/* (atomic) */
	struct entry    *d_entry;	/* that runs; NULL: it is not known */
	struct ustack   *d_stack;
	void           (*d_f)(void *);
	void            *d_arg;
	char             d_name[UTHREAD_NAME];
	struct ustack   *d_victim;
	int              d_lane, d_bound;	/* as in ustats.c */
	/* For the maker of a list. */
	bool             d_runs;
	bool             d_sure;	/* it runs its own code */
	struct ulook     d_look;
	/* For the native thread that looks for long runs. */
	unsigned         d_seen;
	utime_ns         d_seen_at;
	bool             d_reported;
};

/* A native thread that waits, on whose stack it lies. */
struct native_wait {
	struct native_wait *n_next, **n_prev;
	long        n_native;
	const struct uwait_kind *n_kind;
	const void *n_object;
	utime_ns    n_since;
};

static long missed;			/* no memory for an entry (atomic) */

static struct {
	struct ulock         a_lock;
	struct listed       *a_first;	/* (atomic, for a child of fork()) */
	struct native_wait  *a_native;
	bool                 a_started;
	/* For the native thread that listens. */
	pid_t                a_listens;	/* the process in which it listens, or 0 */
	sigset_t             a_signals;	/* signals that it listens to */
	int                  a_asked;	/* LIST, CHANGED (atomic) */
	long                 a_run;	/* ns, or 0 (atomic) */
} all;

/* Time and text. */

#if !defined(CLOCK_MONOTONIC_COARSE)
#define CLOCK_MONOTONIC_COARSE	CLOCK_MONOTONIC
#endif

/* Returns the time by this clock; not that of uwait.h, which may be virtual. */
static utime_ns now(clockid_t clock)
{
	struct timespec t;

	(void)clock_gettime(clock, &t);
	return t.tv_sec * UTIME_S + t.tv_nsec;
}

static void nap(void)
{
	const struct timespec t = { 0, 1000000 };

	(void)nanosleep(&t, NULL);
}

static long native_id(void)
{
#if defined(__linux__)
	return syscall(SYS_gettid);
#else
	return (long)(uintptr_t)pthread_self();
#endif
}

/* What is to be written, by one native thread at a time (a_lock). */
static struct {
	char   o_text[4096];
	size_t o_nob;
} out;

static void flush(void)
{
	size_t at = 0;
	ssize_t nob;

	while (at < out.o_nob) {
		nob = write(STDERR_FILENO, out.o_text + at, out.o_nob - at);
		if (nob <= 0 && errno != EINTR)
			break;
		at += nob > 0 ? nob : 0;
	}
	out.o_nob = 0;
}

static __attribute__((format(printf, 1, 2))) void say(const char *format, ...)
{
	size_t left = sizeof out.o_text - out.o_nob;
	va_list args;
	int nob;

	if (left < 1024) {
		flush();
		left = sizeof out.o_text;
	}
	va_start(args, format);
	nob = vsnprintf(out.o_text + out.o_nob, left, format, args);
	va_end(args);
	out.o_nob += nob < 0 ? 0 : (size_t)nob < left ? (size_t)nob : left - 1;
}

/* Copies the name of u, which is blocked or new. */
static void name_copy(char name[UTHREAD_NAME], const struct ustack *u)
{
	const struct uself_block *b = uself_of(u);

	if (b != NULL)
		memcpy(name, b->b_name, UTHREAD_NAME);
	else
		*name = 0;
}

#endif /* ULIST_INSIDE_H */
