/* SPDX-License-Identifier: MIT */
/* rmain.c: the ring ping-pong benchmark on rr. */

#include "rr.h"

#define SCHED(name)		rr_##name
#define MAKE(f, arg, p)		rr_thread_on(p, f, arg)
#include "ring.h"
