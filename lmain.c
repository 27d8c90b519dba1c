/* SPDX-License-Identifier: MIT */
/* lmain.c: the ring ping-pong benchmark on ll. A processor is a group. */

#include "ll.h"

#define SCHED(name)		ll_##name
#define MAKE(f, arg, p)		ll_thread_init(f, arg, p)
#include "ring.h"
