/* SPDX-License-Identifier: MIT */
/* system_call.h: each syscall() of the library is the test's system_call(). */

#ifndef SYSTEM_CALL_H
#define SYSTEM_CALL_H

/* A test that includes this is linked with -Wl,--wrap=syscall. */

#include "check.h"
#include <stdarg.h>
#include <stdbool.h>
#include <sys/syscall.h>

enum { SYSTEM_WAIT = 0, SYSTEM_WAKE = 1, SYSTEM_FUTEX = 127 };	/* bits */

long __real_syscall(long nr, ...);
long __wrap_syscall(long nr, ...);

static long system_call(long nr, long a[6]);

static long really_call(long nr, const long a[6])
{
	return __real_syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Whether it is a wait or a wake at the word a[0]. */
static UNUSED bool is_futex(long nr, const long a[6], int what)
{
	return nr == SYS_futex && (a[1] & SYSTEM_FUTEX) == what;
}

/* Used: the compiler may drop what only the linker refers to. */
__attribute__((used)) long __wrap_syscall(long nr, ...)
{
	long a[6];
	va_list list;
	int i;

	va_start(list, nr);
	for (i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	return system_call(nr, a);
}

#endif /* SYSTEM_CALL_H */
