/* SPDX-License-Identifier: MIT */
/* usource.c: events from outside of a dispatcher. */

/*
 * A base has a list of sources. A dispatcher looks at those for which threads
 * wait, and sleeps in one of them. source.h has the steps at which workers race
 * for a source.
 *
 * While threads wait for a source, its dispatcher must not end (o_hold). The first
 * of them begins that, and the last of them ends it.
 */

#include "uwait_inside.h"
#include "source.h"

static struct uwait_base *base_here(void)
{
	const struct ustack *u = ustack_self();

	return u != NULL ? uwait_base_of(u->u_sched) : NULL;
}

int uwait_source_add(struct uwait_source *o)
{
	struct uwait_base *b = base_here();

	if (b == NULL)
		return ustack_self() == NULL ? -EINVAL : -ENOMEM;
	b->wb_ops->o_source(b, o);
	return 0;
}

struct uwait_source *uwait_source_in(const struct uwait_base *b,
				     void (*look)(struct uwait_source *o))
{
	struct uwait_source *o = uwait_sources(b);

	while (o != NULL && o->o_look != look)
		o = usource_next(o);
	return o;
}

struct uwait_source *uwait_source_of(void (*look)(struct uwait_source *o))
{
	const struct uwait_base *b = base_here();

	return b != NULL ? uwait_source_in(b, look) : NULL;
}

static void waits_add(struct uwait_source *o, long nr)
{
	struct uwait_base *b = base_here();

	if (usource_add(o, nr))
		b->wb_ops->o_hold(b, nr > 0);
}

void uwait_source_begin(struct uwait_source *o)
{
	usched_waits_outside(ustack_self());
	waits_add(o, 1);
}

int uwait_source_join(struct uwait_source *o)
{
	return usource_join(o);
}

void uwait_source_end(struct uwait_source *o)
{
	waits_add(o, -1);
}

void uwait_look_outside(struct uwait_base *b)
{
	usource_look(uwait_sources(b), b);
}

void uwait_look_local(struct uwait_base *b, const void *who)
{
	usource_look_local(uwait_sources(b), who);
}

void uwait_sleep_outside(struct uwait_base *b, int *asleep, utime_ns ns)
{
	usource_sleep(uwait_sources(b), asleep, ns);
}

int uwait_sleep_begin(struct uwait_base *b, int *asleep, struct uwait_source *in,
		      utime_ns *ns)
{
	(void)usource_take_all(uwait_sources(b), asleep, in, ns);
	USCHED_RACE(source_Z3);
	return upark_by(asleep, in->o_wake);
}

void uwait_sleep_end(struct uwait_base *b, int *asleep, struct uwait_source *in)
{
	in->o_look(in);
	usource_leave_all(uwait_sources(b), asleep, in);
}

/* Takes the sources that can sleep, or the others, out of b, and frees them. */
static void sources_fini(struct uwait_base *b, bool sleeping)
{
	struct uwait_source **at = &b->wb_source;
	struct uwait_source *o;

	while ((o = *at) != NULL) {
		if ((o->o_sleep != NULL) != sleeping) {
			at = &o->o_next;
			continue;
		}
		*at = o->o_next;
		if (o->o_fini != NULL)
			o->o_fini(o);
	}
}

/*
 * Native threads of a source that only wakes may still write to a descriptor:
 * that of the source in which the owner of b has slept.
 */
void uwait_sources_fini(struct uwait_base *b)
{
	sources_fini(b, false);
	sources_fini(b, true);
}

void uwait_locals_move(struct uwait_base *b, struct uwait_base *to)
{
	struct uwait_source *o;

	while ((o = b->wb_source) != NULL && o->o_local) {
		b->wb_source  = o->o_next;
		o->o_next     = to->wb_source;
		to->wb_source = o;
	}
}

int uwait_awaits_outside(const struct uwait_base *b)
{
	const struct uwait_source *o;

	for (o = uwait_sources(b); o != NULL; o = usource_next(o))
		if (__atomic_load_n(&o->o_waits, __ATOMIC_RELAXED) != 0)
			return true;
	return false;
}
