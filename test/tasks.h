/* SPDX-License-Identifier: MIT */
/* tasks.h: common parts of tests of the engine. */

#ifndef TASKS_H
#define TASKS_H

#include "counts.h"
#include "engine.h"

static UNUSED struct engine_stats stats(void)
{
	struct engine_stats s;

	CHECK(engine_get_stats(&s) == 0);
	return s;
}

/* Machines with few cpus run as many workers as are asked for, too. */
static UNUSED void begin(struct engine_config c)
{
	c.c_flags |= ENGINE_MORE_WORKERS;
	CHECK(engine_setup(&c) == 0);
}

#endif /* TASKS_H */
