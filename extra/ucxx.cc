/* SPDX-License-Identifier: MIT */
/* ucxx.cc: C++ threads may block in catch handlers and while they unwind. */

/*
 * The C++ library keeps for each native thread the list of the exceptions that
 * are being handled, and how many are being thrown. A thread that blocks in a
 * catch handler, or in a destructor that runs because of an exception, leaves
 * its exceptions to the next thread, which may rethrow or end them: see the
 * caveats of usched.h. C programs, and most C++ programs, never do that.
 *
 * Others link this object, and tell the linker that it comes first:
 *
 *	c++ ... ucxx.o libusched.a -pthread \
 *		-Wl,--wrap=ustack_block,--wrap=ustack_abort,--wrap=usched_run
 *
 * (in the hard mode -Wl,--wrap=ustack_block_hard,--wrap=ustack_abort,\
 * --wrap=usched_run_hard; `make install' writes usched-cxx.pc, which says so).
 *
 * A block then keeps what the C++ library knows of the thread on its own stack,
 * that is, in its slice: it needs no memory, and goes with the thread to
 * another native thread. Dispatchers, and threads that begin, find an empty
 * list (Z1); usched_run() keeps the list of its caller in the same way, and
 * ustack_abort() drops that of its thread. Other programs pay nothing, and
 * these two loads and two stores in each switch.
 *
 * Z1. While a dispatcher runs, and where a thread begins, no exception is being
 *     handled or thrown, as far as the C++ library knows.
 *
 * CAVEATS
 *
 * - Link libusched.a: calls within libusched.so are not wrapped, so a thread
 *   must not join or make a ucall there in a handler.
 * - Exceptions that a thread handles when it calls ustack_abort() are not
 *   freed.
 * - Backtraces (utrace.h) have two frames more, of the block itself.
 * - An exception must not leave its thread, as before.
 *
 * For C++ libraries with the Itanium C++ ABI: libstdc++ and libc++.
 *
 * REJECTED
 *
 * A call-back in front of s_next(), as in ustats.c: it would have to find what
 * belongs to a thread by a table, under a lock where threads move, and could
 * not report that there is no memory for it. A hook at each switch: C programs
 * would pay.
 */

#include "usched.h"

/* The beginning of struct __cxa_eh_globals. */
struct handled {
	void        *z_caught;		/* the innermost, linked to others */
	unsigned int z_thrown;		/* and not caught yet */
#if defined(__ARM_EABI_UNWINDER__)
	void        *z_propagating;
#endif
};

/*
 * Not by <cxxabi.h>, which says that the address is always the same: a thread
 * may go on in another native thread.
 */
extern "C" handled *__cxa_get_globals(void);

/* In the hard mode functions have other names: see usched.h. */
#define PASTE(a, b)	a##b
#define REAL(function)	PASTE(__real_, function)
#define WRAP(function)	PASTE(__wrap_, function)

extern "C" {
int  REAL(ustack_block)(void);
void REAL(ustack_abort)(void) __attribute__((noreturn));
void REAL(usched_run)(struct usched *s);
int  WRAP(ustack_block)(void);
void WRAP(ustack_abort)(void) __attribute__((noreturn));
void WRAP(usched_run)(struct usched *s);
}

/* Returns what is handled on this native thread, and leaves nothing (Z1). */
static handled take()
{
	handled *now = __cxa_get_globals();
	handled was = *now;

	*now = handled();
	return was;
}

int WRAP(ustack_block)(void)
{
	handled was = take();
	int rc = REAL(ustack_block)();

	*__cxa_get_globals() = was;	/* perhaps of another native thread */
	return rc;
}

void WRAP(ustack_abort)(void)
{
	(void)take();
	REAL(ustack_abort)();
}

void WRAP(usched_run)(struct usched *s)
{
	handled was = take();

	REAL(usched_run)(s);
	*__cxa_get_globals() = was;
}
