/* SPDX-License-Identifier: MIT */
/* wmain.c: the ring ping-pong benchmark on ws. */

#include "ws.h"

#define SCHED(name)		ws_##name
#if defined(ALL_ON_ONE)		/* so the other workers must steal */
#define MAKE(f, arg, p)		((void)(p), ws_thread_on(0, f, arg))
#else
#define MAKE(f, arg, p)		ws_thread_on(p, f, arg)
#endif
#define MOVES
#include "ring.h"
