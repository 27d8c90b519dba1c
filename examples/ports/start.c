/* SPDX-License-Identifier: MIT */
/* start.c: runs the main() of a ported program in a thread of rr, ll or ws. */

/*
 * -DLL or -DWS chooses the scheduler, and PROCS in the environment the number
 * of processors. Under ll all threads stay on the processor of the first.
 */

#include <stdlib.h>

#if defined(LL)
#include "ll.h"
#define SCHED(name)	ll_##name
#define MAKE(f)		ll_thread_init(f, NULL, 0)
#elif defined(WS)
#include "ws.h"
#define SCHED(name)	ws_##name
#define MAKE(f)		ws_thread_init(f, NULL)
#else
#include "rr.h"
#define SCHED(name)	rr_##name
#define MAKE(f)		rr_thread_init(f, NULL)
#endif

#undef main			/* it may be compiled with pthreads.h, too */
int ported_main(int argc, char **argv);

static struct {
	int    argc, status;
	char **argv;
} program;

static void begin(void *arg)
{
	(void)arg;
	program.status = ported_main(program.argc, program.argv);
}

int main(int argc, char **argv)
{
	const char *procs = getenv("PROCS");

	program.argc = argc;
	program.argv = argv;
	if (SCHED(init)(procs != NULL ? atoi(procs) : 2, 0) != 0 ||
	    MAKE(begin) == NULL || SCHED(start)() != 0 || SCHED(fini)() != 0)
		return 2;
	return program.status;
}
