/* SPDX-License-Identifier: MIT */
/*
 * story.c: writes in which order threads are made, begin, block, are woken and end.
 * test/debug/probe.sh compares that with what the probes tell. One processor.
 */
#include "check.h"
#include "either.h"
#include "uio.h"
#include "ugen.h"
#include "usync.h"

#include <stdlib.h>
#include <unistd.h>

static FILE *story;
static struct usem sem[1] = { USEM(0) };
static int gate[2], takers = 2;
static thread *sleeper;

#define NUMBER(p)	((unsigned long)(uintptr_t)(p))
#define TELL(what, t, f, arg)	fprintf(story, "%s 0x%lx 0x%lx 0x%lx\n", what, \
					NUMBER(t), NUMBER(f), NUMBER(arg))
#define SELF	((void *)ustack_self())

/* Waits for a unit. The last lets the reader go on: no other thread can run then. */
static void taker(void *arg)
{
	TELL("begin", SELF, taker, arg);
	TELL("block", SELF, taker, arg);
	CHECK(usem_wait(sem, UNEVER) == 0);
	CHECK(--takers > 0 || write(gate[1], "x", 1) == 1);
	TELL("end", SELF, taker, arg);
}

/* Waits for a wake, twice; the second has come by then. */
static void waiter(void *arg)
{
	TELL("begin", SELF, waiter, arg);
	TELL("block", SELF, waiter, arg);
	CHECK(SCHED(wait)() == 0 && SCHED(wait)() == 0);
	TELL("end", SELF, waiter, arg);
}

static void walk(void *arg)
{
	TELL("begin", SELF, walk, arg);
	TELL("block", SELF, walk, arg);
	CHECK(ugen_yield(arg) == 0);
	TELL("end", SELF, walk, arg);
}

/* A step of a generator is a run of another thread. */
static void steps(void)
{
	static int value = 7;
	struct ugen *g = ugen_make(walk, &value, sizeof value);

	CHECK(g != NULL);
	TELL("make", &g->ge_stack, walk, &value);
	CHECK(ugen_next(g) != NULL && ugen_next(g) == NULL && ugen_free(g) == 0);
}

#if defined(WS)
/* Is made by ws_spawn(), maybe in the thread of the task before. */
static void task(void *arg)
{
	TELL("make", SELF, task, arg);
	TELL("begin", SELF, task, arg);
	TELL("end", SELF, task, arg);
}
#endif

static void give_way(void)
{
	TELL("block", SELF, ustack_self()->u_f, ustack_self()->u_arg);
	CHECK(SCHED(yield)() == 0);
}

static void reader(void *arg)
{
	thread *t[2];
	char byte;
	int i;

	TELL("begin", SELF, reader, arg);
	for (i = 0; i < 2; i++) {
		t[i] = make(0, taker, i == 1 ? gate : NULL);
		TELL("make", t[i], taker, i == 1 ? gate : NULL);
		give_way();
	}
	sleeper = make(0, waiter, NULL);
	TELL("make", sleeper, waiter, NULL);
	give_way();
	for (i = 0; i < 2; i++) {
#if defined(USCHED_CALL)
		TELL("wake", sleeper, waiter, NULL);
#endif
		SCHED(wake)(sleeper);
	}
	give_way();
	for (i = 0; i < 2; i++) {
		TELL("wake", t[i], taker, i == 1 ? gate : NULL);
		CHECK(usem_post(sem) == 0);
	}
	TELL("fd_wait", SELF, gate[0], UREAD);
	TELL("block", SELF, reader, arg);
	CHECK(u_read(gate[0], &byte, 1, UNEVER) == 1);
	TELL("wake", SELF, reader, arg);
	steps();
#if defined(WS)
	for (i = 0; i < 3; i++)
		CHECK(ws_spawn(task, &t[i]) == 0);
#endif
	TELL("end", SELF, reader, arg);
}

int main(int argc, char **argv)
{
	static int word;
	thread *t;

	CHECK(argc == 2 && (story = fopen(argv[1], "w")) != NULL);
	CHECK(pipe(gate) == 0);
	CHECK(SCHED(init)(1, 0) == 0);
	t = make(0, reader, &word);
	TELL("make", t, reader, &word);
	CHECK(SCHED(start)() == 0 && SCHED(fini)() == 0);
	return fclose(story);
}
