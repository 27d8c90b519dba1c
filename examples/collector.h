/* SPDX-License-Identifier: MIT */
/* collector.h: lets libgc, a garbage collector, see the stacks of our threads. */
#ifndef COLLECTOR_H
#define COLLECTOR_H
#define GC_THREADS
#include <gc.h>
#include <gc/gc_mark.h>
#include <usched/uroots.h>
#include <signal.h>

/* A native thread that runs threads of ours. */
static __thread struct native {
	struct native       *next;
	void                *handle;	/* the collector's name of it */
	int                  is_ours;	/* it was not registered before */
	struct GC_stack_base base;
	const void          *sp;	/* where it was stopped */
} me;
static struct native *natives;
static struct sigaction stop;		/* the collector's */
static GC_push_other_roots_proc push_stacks;

/* Stands before the handler by which the collector stops this native thread. */
static void stopped(int sig, siginfo_t *info, void *context)
{
	me.sp = __builtin_frame_address(0);
	stop.sa_sigaction(sig, info, context);
}

static void *natives_add(void *arg)
{
	(void)arg;
	me.next = natives;
	natives = &me;
	return NULL;
}

static void *natives_remove(void *arg)
{
	struct native **at = &natives;

	(void)arg;
	while (*at != &me)
		at = &(*at)->next;
	*at = me.next;
	return NULL;
}

/* Called by each native thread before it runs threads, and when it has. */
static const void *begin(void)
{
	GC_get_stack_base(&me.base);
	me.is_ours = GC_register_my_thread(&me.base) == GC_SUCCESS;
	me.handle = GC_get_my_stackbottom(&me.base);
	GC_call_with_alloc_lock(natives_add, NULL);
	return me.base.mem_base;
}

static void end(void)
{
	GC_call_with_alloc_lock(natives_remove, NULL);
	GC_set_stackbottom(me.handle, &me.base);	/* else that of a lane may stay */
	if (me.is_ours)
		GC_unregister_my_thread();
}

static void event(GC_EventType type)
{
	if (type == GC_EVENT_PRE_STOP_WORLD)
		uroots_hold();
	if (type == GC_EVENT_POST_START_WORLD)
		uroots_release();
}

static void give(void *arg, const void *from, const void *to)
{
	(void)arg;
	GC_push_all_eager((void *)from, (void *)to);
}

/* Called when all are stopped, in place of what scans their stacks. */
static void push(void)
{
	struct native *n;

	me.sp = __builtin_frame_address(0);
	for (n = natives; n != NULL; n = n->next) {
		struct GC_stack_base lane = { .mem_base = (void *)uroots_bottom(n->sp) };

		GC_set_stackbottom(n->handle, lane.mem_base != NULL ? &lane : &n->base);
	}
	push_stacks();
	uroots_each(give, NULL);
}

/* Before all else of the library and of the collector. 0, or -errno. */
static int collector_start(void)
{
	GC_INIT();
	GC_allow_register_threads();
	sigaction(GC_get_suspend_signal(), NULL, &stop);
	sigaction(GC_get_suspend_signal(), &(struct sigaction) {
		.sa_sigaction = stopped, .sa_flags = stop.sa_flags,
		.sa_mask = stop.sa_mask }, NULL);
	GC_set_on_collection_event(event);
	push_stacks = GC_get_push_other_roots();
	GC_set_push_other_roots(push);
	return uroots_start(begin, end);
}

#endif
