/* SPDX-License-Identifier: MIT */
/* ustate.h: the states of threads, in words. A part of ulist.c. */

#ifndef USTATE_H
#define USTATE_H

#include "uentry.h"

#define PCS		ULOOK_PCS	/* return addresses of a thread */

/* What a blocked thread does. */
enum state { READY, WAITS, WAITS_FOR, BLOCKED };

static enum state state_of(const struct entry *e)
{
	const struct uwait_base *b = e->e_stack->u_sched->s_waits;
	bool known = b != NULL && b->wb_ops->o_waits != NULL;

	if (known && !b->wb_ops->o_waits(e->e_stack))
		return READY;
	return e->e_waits ? WAITS_FOR : known ? WAITS : BLOCKED;
}

/* Returns the thread that holds that for which e waits. NULL: it is not known. */
static const void *holder_of(const struct entry *e)
{
	const void *holder = NULL;

	return e->e_owner != NULL && ulook_copy(&holder, e->e_owner,
			sizeof holder) == sizeof holder ? holder : NULL;
}

/* Text. */

static void say_ns(utime_ns ns)
{
	if (ns < 10 * UTIME_S)
		say("%ld ms", (long)(ns / UTIME_MS));
	else
		say("%ld s", (long)(ns / UTIME_S));
}

/* Returns an address as a number: %p is written in more than one way. */
static unsigned long at(const void *p)
{
	return (unsigned long)(uintptr_t)p;
}

static void say_thread(const void *u, void (*f)(void *), const void *arg,
		       const char *name)
{
	char text[128];

	(void)usymbol_name(text, sizeof text, (const void *)f, 0);
	if (*text != 0)
		say("thread %#lx %s(0x%lx)", at(u), text, at(arg));
	else
		say("thread %#lx %#lx(0x%lx)", at(u), at((void *)f), at(arg));
	if (*name != 0)
		say(" \"%.*s\"", UTHREAD_NAME, name);
}

static void say_object(const struct uwait_kind *kind, const void *object)
{
	char text[128];

	say("waits: %s", kind->wk_name);
	if (kind->wk_number && (intptr_t)object >= 0)
		say(" %ld", (long)(intptr_t)object);
	if (kind->wk_number || object == NULL)
		return;
	say(" %#lx", at(object));
	if (*usymbol_name(text, sizeof text, object, 0) != 0)
		say(" (%s)", text);
}

/* called: the first address, too, is a return address. */
static void say_frames(void *const *pc, int nr, bool called)
{
	char text[192];
	int i;

	for (i = 0; i < nr && i < PCS; i++)
		say("\t#%d %#lx %s\n", i, at(pc[i]), usymbol_name(text,
				sizeof text, (char *)pc[i] - (called || i > 0), 1));
	if (nr > PCS)
		say("\t... and %d more\n", nr - PCS);
	else if (nr == 0)
		say("\t(no backtrace)\n");
	else if (nr < 0)
		say("\t(no backtrace: %s)\n", strerror(-nr));
}

static void say_holder(const struct entry *e)
{
	const void *holder = holder_of(e);

	if (holder != NULL)
		say(", held by %#lx", at(holder));
}

/* Ends the line of a running thread: where it is, and its frames. */
static void say_look(const struct listed *d)
{
	char text[ULOOK_TEXT];

	(void)ulook_says(&d->d_look, text);
	say("%s%s\n", *text != 0 ? ", " : "", text);
	say_frames(d->d_look.l_pc, d->d_look.l_pc_nr, false);
}

#endif /* USTATE_H */
