/* SPDX-License-Identifier: MIT */
/* engine_stop: a runner waits for a late canceller before its next task. */
/* VARIANTS: once */
/* LIBS: -Wl,-z,muldefs */

/*
 * The canceller is kept when it is about to cancel the scope of a task, which
 * sees that it is asked to stop, and ends. The next task of the runner begins
 * only after the canceller has gone on, and its waits are not cancelled.
 */
static void race_window(const char *step);

#define USCHED_RACE(step)	race_window(#step)
#include "tasks.h"
#include "runner.c"
#include "usync.h"

#include <pthread.h>

#define ROUNDS	10

static long begun, kept, ended, second;
static __thread bool cancels;

static void race_window(const char *step)
{
	if (!cancels || strcmp(step, "engine_cancel") != 0)
		return;
	set(&kept, 1);
	until(&kept, 2);
}

static int stops(void *arg)
{
	set(&begun, 1);
	while (!engine_stopping())
		check_yield();
	set(&ended, 1);
	return 0;
}

static int waits_on(void *arg)
{
	static struct usem never;

	set(&second, 1);
	return usem_wait(&never, uafter(UTIME_MS));
}

static void *canceller(void *arg)
{
	cancels = true;
	CHECK_IS(engine_cancel(*(engine_id *)arg), 1);
	return NULL;
}

static void late(void)
{
	struct engine_job j = { .j_f = stops }, next = { .j_f = waits_on };
	engine_id id[2];
	pthread_t native;

	set(&begun, 0);
	set(&kept, 0);
	set(&ended, 0);
	set(&second, 0);
	CHECK_IS(engine_spawn(&j, &id[0], UNOW), 0);
	until(&begun, 1);
	CHECK_IS(engine_spawn(&next, &id[1], UNOW), 0);
	CHECK_IS(pthread_create(&native, NULL, canceller, &id[0]), 0);
	while (get(&kept) == 0 || get(&ended) == 0)
		check_yield();
	usleep(5000);			/* as if to begin the next */
	CHECK_IS(get(&second), 0);
	set(&kept, 2);
	CHECK_IS(pthread_join(native, NULL), 0);
	CHECK_IS(result_of(id[1]), -ETIMEDOUT);
	CHECK_IS(result_of(id[0]), 0);
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	begin((struct engine_config){ .c_workers = 1,
				      .c_tasks_per_thread = 1 });
	for (i = 0; i < ROUNDS; i++)
		late();
	finish();
	return 0;
}
