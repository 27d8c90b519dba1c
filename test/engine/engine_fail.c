/* SPDX-License-Identifier: MIT */
/* engine_fail: if any call to the system fails, no task is lost or leaked. */
/* VARIANTS: once */
/* LIBS: @test/run/fail.wrap */

/*
 * The n-th call fails, once or from then on, for each n, of each kind alone and
 * of all (fail.h). A task whose submission got -ENOMEM does not run; all others
 * run once, also while tasks wait for later tasks, and no more may begin. At
 * the end all memory was given back.
 */
#include "counts.h"
#include <pthread.h>
#include "fail.h"
#include "uengine.h"
#include "usync.h"

#define NR	12

static long calls, accepted, ended;
static struct usem gate;

/* Whether a call has to be repeated, since there was no memory. */
static bool again(int rc)
{
	if (rc != -ENOMEM)
		return false;
	fail_repeat();
	return true;
}

static void end(engine_id id, void *arg, int result)
{
	CHECK(id != 0 && arg != NULL && result == 0);
	add(&ended, 1);
}

static int waits(void *arg)
{
	while (again(usem_wait(&gate, UNEVER)))
		;
	add(&calls, 1);
	return 0;
}

/* Pins what is there, and opens the gate for a task before it. */
static int opens(void *arg)
{
	int rc = engine_bus_get("name", NULL, NULL);

	CHECK(rc == 0 || rc == -ENOENT || rc == -ENOMEM);
	CHECK_IS(*(const int *)arg, 77);
	CHECK_IS(usem_post(&gate), 0);
	add(&calls, 1);
	return 0;
}

static void spawn(int (*f)(void *), int batch)
{
	int n = 77;
	struct engine_job j = { .j_f = f, .j_arg = &n, .j_size = sizeof n,
				.j_batch = batch, .j_end = end,
				.j_flags = batch ? 0 : ENGINE_DETACHED };

	while (again(engine_spawn(&j, NULL, UNEVER)))
		;
	add(&accepted, 1);
}

/* Waits for a task, though no other may begin beside it. */
static int nests(void *arg)
{
	struct engine_job j = { .j_f = opens, .j_arg = arg, .j_end = end };
	engine_id id;

	while (again(engine_spawn(&j, &id, UNEVER)))
		;
	while (again(engine_wait(id, NULL, UNEVER)))
		;
	CHECK_IS(engine_free(id), 0);
	add(&calls, 1);
	return 0;
}

/* paused: no submission comes after the first start. */
static void work(bool paused)
{
	struct engine_end ends[NR];
	int i, rc, b = engine_batch_make(), taken = 0;

	CHECK_THAT(b, >, 0);
	rc = engine_bus_push("name", &i, sizeof i, NULL, NULL);
	CHECK(rc == 0 || again(rc));
	CHECK(!paused || engine_pause(ENGINE_START) == 0);
	for (i = 0; i < NR; i++)
		spawn(waits, i % 2 ? b : 0);
	for (i = 0; i < NR; i++)
		spawn(i < 3 ? nests : opens, i % 2 ? 0 : b);
	while (paused && again(engine_resume(ENGINE_INTAKE | ENGINE_START)))
		CHECK_IS(engine_room(0), 1);	/* intake was not paused */
	while (again(engine_wait_all(UNEVER)))
		;
	do {
		rc = engine_take(b, ends, NR);
		taken += rc;
	} while (rc > 0);
	CHECK(rc == 0 && taken == NR);
	CHECK(get(&calls) == 2 * NR + 3 && get(&ended) == 2 * NR + 3);
}

static bool try_all(int workers)
{
	struct engine_config c = { .c_workers = workers,
				   .c_policy = ENGINE_FIFO,
				   .c_tasks = workers == 1 ? 9 : 0,
				   .c_shared_memory = 100,
				   .c_tasks_per_thread = NR / workers + 1,
				   .c_flags = ENGINE_MORE_WORKERS };
	int rc;

	calls = accepted = ended = 0;
	rc = engine_init(&c);
	if (rc != 0) {
		CHECK(rc == -ENOMEM || rc == -EAGAIN || rc == -EINVAL);
		return false;
	}
	work(workers > 1);
	while (again(engine_shutdown(UNEVER)))
		CHECK_IS(engine_fini(), -EBUSY);
	CHECK_IS(engine_fini(), 0);
	return true;
}

static void run(int workers)
{
	if (try_all(workers))
		return;
	CHECK_THAT(fail_told(), >, 0);
	fail_rest();
	CHECK(try_all(workers));
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	fail_sample = 64;
	run(1);				/* pthread_atfork() keeps memory */
	fail_clean();
	fail_all(run, 1);
	(void)fail_each(FAIL_MEMORY, 0, run, 2);
	(void)fail_each(FAIL_MEMORY | FAIL_THREAD, 1, run, 2);
	return 0;
}
