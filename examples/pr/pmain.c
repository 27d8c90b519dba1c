/* SPDX-License-Identifier: MIT */
/* pmain.c: the ring ping-pong benchmark on pr. */

#include "pr.h"

#define SCHED(name)		pr_##name
#define MAKE(f, arg, p)		pr_thread_init(f, arg, p, 0)
#include "ring.h"
