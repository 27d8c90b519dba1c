/* SPDX-License-Identifier: MIT */
/* sexit.c: the end of a host by libc's names, and words on the way. */

/*
 * A host that calls exit(), or whose function returns, ends as a process does: the
 * functions of atexit() run first, the last of them before the others. syslog() writes to
 * the story.
 */

#include "snames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

/* What is to run at an end. */
struct sim_last_call {
	struct sim_last_call *l_next;
	void                (*l_f)(void);
};

static int call_add(struct sim_last_call **list, void (*f)(void))
{
	struct sim_last_call *l = sim_alloc(sizeof *l);

	*l = (struct sim_last_call) { *list, f };
	*list = l;
	return 0;
}

/* A function may add others, and may end the host itself. */
static void calls_run(struct sim_last_call **list)
{
	struct sim_last_call *l;
	void (*f)(void);

	while ((l = *list) != NULL) {
		*list = l->l_next;
		f = l->l_f;
		free(l);
		f();
	}
}

void sim_last_calls(struct sim_boot *b)
{
	calls_run(&b->b_at_exit);
}

NAME(int, atexit, (void (*f)(void)))
{
	struct sim_boot *b = sim_self();

	return b == NULL ? atexit(f) : call_add(&b->b_at_exit, f);
}

NAME(int, at_quick_exit, (void (*f)(void)))
{
	struct sim_boot *b = sim_self();

	return b == NULL ? at_quick_exit(f) : call_add(&b->b_at_quick_exit, f);
}

NAME(void, exit, (int status))
{
	struct sim_boot *b = sim_caller();

	if (b == NULL)
		exit(status);
	sim_exit(b, status);
}

/* Flushes no stream, and calls nothing. */
NAME(void, _exit, (int status))
{
	struct sim_boot *b = sim_caller();

	if (b == NULL)
		_exit(status);
	sim_end(b, status);
}

ALIAS(void, _Exit, (int status), _exit)

NAME(void, quick_exit, (int status))
{
	struct sim_boot *b = sim_caller();

	if (b == NULL)
		quick_exit(status);
	calls_run(&b->b_at_quick_exit);
	sim_end(b, status);
}

/* The log of a host is the story. */

NAME(void, openlog, (const char *name, int options, int facility))
{
	if (sim_self() == NULL)
		openlog(name, options, facility);
}

NAME(void, closelog, (void))
{
	if (sim_self() == NULL)
		closelog();
}

NAME(int, setlogmask, (int mask))
{
	struct sim_boot *b = sim_self();
	int before;

	if (b == NULL)
		return setlogmask(mask);
	before = b->b_log_hidden ^ 0xff;
	if (mask != 0)
		b->b_log_hidden = ~mask & 0xff;
	return before;
}

NAME(void, vsyslog, (int priority, const char *format, va_list args))
{
	struct sim_boot *b = sim_self();
	char text[300];

	if (b == NULL) {
		vsyslog(priority, format, args);
		return;
	}
	if (b->b_log_hidden >> LOG_PRI(priority) & 1)
		return;
	vsnprintf(text, sizeof text, format, args);
	usim_log("%s", text);
}

NAME(void, syslog, (int priority, const char *format, ...))
{
	va_list args;

	va_start(args, format);
	wrap_vsyslog(priority, format, args);
	va_end(args);
}

NAME(void, __vsyslog_chk, (int priority, int flag, const char *format, va_list args))
{
	(void)flag;
	wrap_vsyslog(priority, format, args);
}

NAME(void, __syslog_chk, (int priority, int flag, const char *format, ...))
{
	va_list args;

	(void)flag;
	va_start(args, format);
	wrap_vsyslog(priority, format, args);
	va_end(args);
}
