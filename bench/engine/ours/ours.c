/* SPDX-License-Identifier: MIT */
/* ours.c: the engine. one: engine_spawn(); many: with a batch. */

#include "../tasks.h"
#include "uengine.h"

#include <poll.h>

static int batch;			/* many; or 0 */
static long submitted, taken;		/* of the batch (atomic) */

static bool pool_has(const char *name)
{
	(void)name;
	return true;
}

static void must(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "%s: %s: %s\n", tasks.t_asked, what, engine_error(rc));
	_exit(TASKS_FAILED);
}

/* Takes ends of tasks, and so gives their slots back. */
static int take(void)
{
	struct engine_end ends[2 * TASKS_MOST];
	int nr = engine_take(batch, ends, 2 * TASKS_MOST);

	must(nr, "take");
	__atomic_add_fetch(&taken, nr, __ATOMIC_RELAXED);
	return nr;
}

static void submit(task_f f, char *arg, size_t size, int nr, int level)
{
	struct engine_job j[TASKS_MOST];
	int i;

	for (i = 0; i < nr; i++)
		j[i] = (struct engine_job){
			.j_f = f, .j_arg = arg + i * size, .j_priority = level,
			.j_flags = batch == 0 ? ENGINE_DETACHED : 0,
			.j_batch = batch,
		};
	if (nr == 1)
		must(engine_spawn(j, NULL, UNEVER), "spawn");
	else
		must(engine_spawn_many(j, nr, NULL, UNEVER), "spawn");
}

static void pool_submit(task_f f, void *arg, size_t size, int nr)
{
	submit(f, arg, size, nr, 0);
	if (batch == 0)
		return;
	__atomic_add_fetch(&submitted, nr, __ATOMIC_RELAXED);
	(void)take();
}

static void pool_urgent(task_f f, void *arg)
{
	submit(f, arg, 1, 1, ENGINE_LEVELS - 1);
}

static void pool_drain(void)
{
	struct pollfd p = { .fd = batch != 0 ? engine_batch_fd(batch) : -1,
			    .events = POLLIN };

	if (batch == 0)
		must(engine_wait_all(UNEVER), "wait");
	while (__atomic_load_n(&taken, __ATOMIC_RELAXED) < submitted)
		if (take() == 0)
			(void)poll(&p, 1, -1);
}

static void pool_run(void (*f)(void))
{
	struct engine_config c = {
		.c_workers = tasks.t_p, .c_tasks = tasks.t_room,
		.c_policy = ENGINE_FIFO, .c_flags = ENGINE_MORE_WORKERS,
	};

	must(engine_init(&c), "setup");
	if (tasks.t_many) {
		batch = engine_batch_make();
		must(batch, "batch");
	}
	f();
	must(engine_shutdown(UNEVER), "shutdown");
	must(engine_fini(), "fini");
}

int main(int argc, char **argv)
{
	return tasks_main(argc, argv);
}
