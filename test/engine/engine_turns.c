/* SPDX-License-Identifier: MIT */
/* engine_turns: callers get room in their order, also while they look. */
/* VARIANTS: once */
/* LIBS: -Wl,-z,muldefs */

/*
 * The first caller is kept on its way: after its nap, after its look, after its
 * deadline, or after it got room. Meanwhile there is room for all, and another
 * caller stands behind the first, or comes. The task of the first is queued
 * before, though the first does not run, and its call succeeds.
 */
static void race_window(const char *step);

#define USCHED_RACE(step)	race_window(#step)
#include "tasks.h"
#include "spawn.c"
#include "waiter.c"

#include <pthread.h>

#define ROUNDS	20

/* What a caller has passed, and at which of these passes it is kept. */
struct step {
	const char *st_name;
	long        st_kept;
	long        st_passed[2];	/* by each of the callers */
};

static struct step looks = { "engine_room", 0, { 0 } };
static struct step waits = { "engine_wait", 0, { 0 } };
static struct step comes = { "engine_waited", 0, { 0 } };
static long order[2], calls, kept;
static utime_ns patience;		/* of the first */
static __thread long me = -1;

static void pass(struct step *s, const char *name)
{
	if (strcmp(s->st_name, name) != 0)
		return;
	if (add(&s->st_passed[me], 1) != s->st_kept || me != 0)
		return;
	set(&kept, 1);
	until(&kept, 2);
}

static void race_window(const char *step)
{
	if (me < 0)
		return;
	pass(&looks, step);
	pass(&waits, step);
	pass(&comes, step);
}

static int notes(void *arg)
{
	order[get(&calls)] = (long)(intptr_t)arg;	/* one at a time */
	add(&calls, 1);
	return 0;
}

static void *caller(void *arg)
{
	struct engine_job j = { .j_f = notes, .j_arg = arg,
				.j_flags = ENGINE_DETACHED };

	me = (long)(intptr_t)arg;
	CHECK_IS(engine_spawn(&j, NULL, me == 0 && patience != 0 ?
		 uafter(patience) : UNEVER), 0);
	return NULL;
}

static pthread_t native[2];

static void call(intptr_t nr)
{
	CHECK_IS(pthread_create(&native[nr], NULL, caller, (void *)nr), 0);
}

/* Returns once a caller stands in e_room. */
static void until_stands(int nr)
{
	until(&waits.st_passed[nr], 1);
}

static void until_kept(void)
{
	until(&kept, 1);
}

/* tasks: with few no caller naps. newcomer: the second comes after there is room. */
static void turns(struct step *s, long nr, long tasks, bool newcomer)
{
	begin((struct engine_config){ .c_workers = 1, .c_tasks = tasks,
				      .c_policy = ENGINE_FIFO });
	memset(looks.st_passed, 0, sizeof looks.st_passed);
	memset(waits.st_passed, 0, sizeof waits.st_passed);
	memset(comes.st_passed, 0, sizeof comes.st_passed);
	set(&calls, 0);
	set(&kept, 0);
	s->st_kept = nr;
	CHECK_IS(engine_pause(ENGINE_INTAKE), 0);
	call(0);
	until_stands(0);
	if (!newcomer) {
		until_kept();
		call(1);
		until_stands(1);
	}
	CHECK_IS(engine_resume(ENGINE_INTAKE), 0);
	until_kept();
	if (newcomer)
		call(1);
	until(&calls, 1);
	CHECK_IS(order[0], 0);
	set(&kept, 2);
	CHECK_IS(pthread_join(native[0], NULL), 0);
	CHECK_IS(pthread_join(native[1], NULL), 0);
	CHECK_IS(engine_wait_all(UNEVER), 0);
	CHECK(get(&calls) == 2 && order[1] == 1);
	s->st_kept = 0;
	finish();
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	for (i = 0; i < ROUNDS; i++) {
		turns(&comes, 1, 0, false);
		turns(&looks, 1, 0, false);
		turns(&comes, 1, 7, true);
		patience = UTIME_MS;
		turns(&comes, 1, 7, false);
		patience = 0;
	}
	return 0;
}
