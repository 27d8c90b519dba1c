/* SPDX-License-Identifier: MIT */
/* steal_told: a joiner is told of the end, whatever inboxes hold. */
/* VARIANTS: once */
/* LIBS: -Wl,-z,muldefs */

/*
 * In hostage() a joinable thread ends, pinned, while a wake from elsewhere is
 * still in the inbox of its worker. That worker computes until the thread has
 * been joined, and the other worker runs the joiner.
 *
 * In former_home() a thread was taken from a worker that computes. Its node is
 * in the inbox of that worker, posted by a waker that had read the home before.
 * There is no memory for the thread to block, so it joins without blocking. Its
 * wake is counted, but its node reaches no worker until the join has returned.
 *
 * ws.c is compiled here, so that the test can stop a waker half-way, and refuse
 * memory.
 */
#include "check.h"
#include <stdbool.h>

static void window(const char *step);

#define USCHED_RACE(step)	window(#step)
#include "uproc.h"

static int refuse(void);

#define uproc_wait_block()	refuse()
/* Names that tests use, too. */
#define begin	ws_begin
#define go	ws_go
#define here	ws_here
#define set	ws_set
#include "ws.c"
#undef uproc_wait_block
#undef begin
#undef go
#undef here
#undef set
#include "steal.h"

static long begun, posted, ended, joined, here, moved;

/* A joinable thread ends with a wake that its worker does not look at. */

static thread *target, *computer;

static void computes(void *arg)
{
	set(&here, 1);
	wait_one();
	hold_until(&joined, 1);
}

static void joins(void *arg)
{
	yield_until(&begun, 1);
	ws_wake(target);
	set(&posted, 1);
	CHECK_IS(ws_join(target), 0);
	set(&joined, 1);
}

static void wakes_back_again(void *arg)
{
	ws_wake(arg);
}

/* Has blocked before, so its wakes are messages. */
static void ends_here(void *arg)
{
	ws_pin();
	computer = make_pinned(ws_proc(), computes, NULL);
	yield_until(&here, 1);
	CHECK(ws_thread_init(wakes_back_again, ws_self()) != NULL);
	wait_one();
	make_pinned(1 - ws_proc(), joins, NULL);
	set(&begun, 1);
	until(&posted, 1);
	ws_wake(computer);		/* that runs next, before any look */
}

static void starts(void *arg)
{
	target = make_joinable(0, ends_here, NULL);
}

static void hostage(void)
{
	doing("in hostage");
	begun = posted = joined = here = 0;
	begin(2, 0);
	make_pinned(0, starts, NULL);
	start_and_finish();
	CHECK_IS(joined, 1);
}

/* A node is in the inbox of a former home. */

static __thread bool slow_poster;
static bool refusing;
static thread *mover;
static long busy, waits, go;

/* The waker has read the home; only now its thread moves. */
static void window(const char *step)
{
	if (slow_poster && strcmp(step, "inbox_R2") == 0) {
		slow_poster = false;
		set(&posted, 1);
		until(&moved, 1);
	}
}

/* Refuses, like uproc_wait_block() without memory, after a thread has ended. */
static int refuse(void)
{
	if (!refusing)
		return uproc_wait_block();
	until(&ended, 1);
	uwakes_back(&((struct uproc_thread *)ustack_self())->t_wakes, 1);
	return -ENOMEM;
}

static void *posts_slowly(void *arg)
{
	until(&here, 1);		/* mover can run; its home computes */
	slow_poster = mover != NULL;
	if (mover != NULL)
		ws_wake(mover);
	set(&posted, 2);
	ws_release();
	return arg;
}

/* Keeps a worker from stealing until it may. */
static void is_busy(void *until_then)
{
	add(&busy, 1);
	hold_until(until_then, 1);
}

static void ends_elsewhere(void *arg)
{
	CHECK_IS(ws_proc(), 2);
	make_pinned(2, is_busy, &joined);
	set(&ended, 1);
}

static void moves_and_joins(void *arg)
{
	thread *t;
	int rc;

	set(&waits, 1);
	wait_one();
	CHECK_IS(ws_proc(), 1);
	set(&moved, 1);
	until(&posted, 2);
	t = make_joinable(0, ends_elsewhere, NULL);
	set(&go, 1);
	refusing = true;
	while ((rc = ws_join(t)) == -ENOMEM)
		;		/* too early: it had not quite ended */
	CHECK_IS(rc, 0);
	refusing = false;
	set(&joined, 1);
	wait_one();		/* the wake by the slow waker is kept */
}

static void first_home(void *arg)
{
	until(&busy, 2);
	if (!moves()) {		/* threads could not be taken */
		set(&joined, 1);
		set(&posted, 1);
		set(&go, 1);
		set(&here, 1);
		return;
	}
	mover = ws_thread_init(moves_and_joins, NULL);
	CHECK(mover != NULL);
	yield_until(&waits, 1);
	yield();
	ws_wake(mover);
	set(&here, 1);
	hold_until(&joined, 1);
}

static void former_home(void)
{
	doing("in former_home");
	begun = posted = ended = joined = here = moved = 0;
	begin(3, 0);
	make_pinned(0, first_home, NULL);
	make_pinned(1, is_busy, &posted);
	make_pinned(2, is_busy, &go);
	start_and_finish_with(posts_slowly, NULL);
	CHECK_IS(joined, 1);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	hostage();
	former_home();
	return 0;
}
