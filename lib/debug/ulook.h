/* SPDX-License-Identifier: MIT */
/* ulook.h: tells from outside of a native thread where it is. Not API. */

#ifndef ULOOK_H
#define ULOOK_H

#include "compiler.h"

#include <stddef.h>

#define ULOOK_PCS	64		/* addresses of a look */
#define ULOOK_TEXT	48

/* What was seen, in the order of growing knowledge. */
enum ulook_state {
	ULOOK_UNKNOWN,			/* the system does not tell */
	ULOOK_RUNS,			/* on a cpu, or ready for one */
	ULOOK_KERNEL,			/* asleep, but in no call: a page fault */
	ULOOK_CALL			/* asleep in a system call */
};

struct ulook {
	enum ulook_state l_state;
	long  l_call;			/* its number, or -1 */
	int   l_sure;			/* it ran code of its thread */
	int   l_pc_nr;			/* may be above ULOOK_PCS; or -errno */
	void *l_pc[ULOOK_PCS];
};

/*
 * Looks at the native thread of this process with this number, as gettid()
 * names it. It runs on a stack from low (NULL: that is not known) to bottom. No
 * signal is sent, and no system call of the thread ends. Takes up to 0.2 s. Any
 * other native thread; not in a signal handler.
 */
HIDDEN void ulook(struct ulook *l, long native, const char *low,
		  const char *bottom);

/*
 * Writes "in poll()", as the kernel names the call; "in call 7", "in a call",
 * "in the kernel", or "" if the thread runs. Returns text.
 */
HIDDEN const char *ulook_says(const struct ulook *l, char text[ULOOK_TEXT]);

/*
 * Copies nob bytes of this process, which may be unmapped. Returns how many; 0:
 * none, or the system does not copy.
 */
HIDDEN size_t ulook_copy(void *to, const void *from, size_t nob);

#endif /* ULOOK_H */
