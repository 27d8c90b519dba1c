/* SPDX-License-Identifier: MIT */
/* ucxx.cc: C++ threads may block in catch handlers and while they unwind. */

/*
 * The C++ library keeps, for each native thread, a list of the exceptions that
 * are being handled, and a count of exceptions being thrown. A thread may block
 * in a catch handler, or in a destructor that runs because of an exception.
 * Then it leaves its exceptions to the next thread, which may rethrow or end
 * them (see the caveats of usched.h). C programs, and most C++ programs, never
 * block there.
 *
 * Programs that do link this object, and tell the linker that its functions
 * come first:
 *
 *	c++ ... ucxx.o libusched.a -pthread \
 *		-Wl,--wrap=ustack_block,--wrap=ustack_abort,--wrap=usched_run
 *
 * (`make install' writes usched-cxx.pc, which says so).
 *
 * A block then saves the list and the count on the thread's own stack, that is,
 * in its slice. So it needs no memory, and they go with the thread to another
 * native thread. Dispatchers, and threads that begin, find an empty list (Z1).
 * usched_run() saves the list of its caller in the same way, and ustack_abort()
 * drops the list of its thread. Programs without this object pay nothing.
 * Programs with it pay two loads and two stores in each switch.
 *
 * Z1. While a dispatcher runs, and where a thread begins, no exception is being
 *     handled or thrown, as far as the C++ library knows.
 *
 * CAVEATS
 *
 * - Link libusched.a, because calls within libusched.so are not wrapped. With
 *   libusched.so a thread must not join, or make a ucall, in a handler.
 * - Exceptions that a thread handles when it calls ustack_abort() are never
 *   freed.
 * - Backtraces (utrace.h) have two more frames, of the block itself.
 * - An exception must still not leave its thread.
 *
 * For C++ libraries with the Itanium C++ ABI: libstdc++ and libc++.
 *
 * REJECTED
 *
 * A call-back in front of s_next(), as in ustats.c: it would have to find the
 * exceptions of a thread in a table, under a lock if threads move, and could
 * not report that memory has run out. A hook at each switch: C programs would
 * pay for it.
 */

#include "usched.h"

/* The beginning of struct __cxa_eh_globals. */
struct handled {
	void        *z_caught;		/* innermost of a list */
	unsigned int z_thrown;		/* thrown, and not caught yet */
#if defined(__ARM_EABI_UNWINDER__)
	void        *z_propagating;
#endif
};

/*
 * Declared here, because <cxxabi.h> declares that the address never changes.
 * But a thread may go on on another native thread.
 */
extern "C" handled *__cxa_get_globals(void);

extern "C" {
int  __real_ustack_block(void);
void __real_ustack_abort(void) __attribute__((noreturn));
void __real_usched_run(struct usched *s);
int  __wrap_ustack_block(void);
void __wrap_ustack_abort(void) __attribute__((noreturn));
void __wrap_usched_run(struct usched *s);
}

/* Returns the exceptions of this native thread, and leaves none (Z1). */
static handled take()
{
	handled *now = __cxa_get_globals();
	handled was = *now;

	*now = handled();
	return was;
}

int __wrap_ustack_block(void)
{
	handled was = take();
	int rc = __real_ustack_block();

	*__cxa_get_globals() = was;	/* perhaps of another native thread */
	return rc;
}

void __wrap_ustack_abort(void)
{
	(void)take();
	__real_ustack_abort();
}

void __wrap_usched_run(struct usched *s)
{
	handled was = take();

	__real_usched_run(s);
	*__cxa_get_globals() = was;
}
