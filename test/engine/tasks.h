/* SPDX-License-Identifier: MIT */
/* tasks.h: common parts of tests of the engine. */

#ifndef TASKS_H
#define TASKS_H

#include "counts.h"
#include "uengine.h"

static UNUSED struct engine_stats stats(void)
{
	struct engine_stats s;

	CHECK_IS(engine_get_stats(&s), 0);
	return s;
}

/* Machines with few cpus run as many workers as are asked for, too. */
static UNUSED void begin(struct engine_config c)
{
	c.c_flags |= ENGINE_MORE_WORKERS;
	CHECK_IS(engine_init(&c), 0);
}

/* Ends the engine, and checks that nothing is left. */
static UNUSED void finish(void)
{
	struct engine_stats s;

	CHECK_IS(engine_shutdown(UNEVER), 0);
	CHECK_IS(engine_shutdown(UNOW), 0);
	s = stats();
	CHECK(s.tasks_in_queue == 0 && s.tasks_running == 0 && s.runners == 0);
	CHECK_IS(s.total_tasks_submitted, s.tasks_completed + s.tasks_canceled);
	CHECK_IS(s.tasks_memory, 0);
	CHECK_IS(s.shared_memory_pins, 0);
	CHECK_IS(engine_fini(), 0);
	CHECK_IS(engine_fini(), -ENODEV);
}

/* Waits for a task, and gives its number back. */
static UNUSED int result_of(engine_id id)
{
	int result = 1 << 30;

	CHECK_IS(engine_wait(id, &result, UNEVER), 0);
	CHECK_IS(engine_free(id), 0);
	CHECK_IS(engine_free(id), -ESRCH);
	CHECK_IS(engine_wait(id, NULL, UNOW), -ESRCH);
	return result;
}

#endif /* TASKS_H */
