/* SPDX-License-Identifier: MIT */
/* udebug.c: what libusched-debug.a switches on before main(). */

#include "uguard.h"
#include "ulist.h"

#include <stdlib.h>

/*
 * The hard mode moves and poisons the stack of each thread that waits, and makes
 * its place inaccessible, unless USCHED_DEBUG in the environment says otherwise:
 * without `fault' it would find what others write there, but not what they read.
 * Stack overflow has a message; and a scheduler that is stuck lists its threads.
 * Where one of these is missing, the others are switched on. An empty value is
 * none (env E1).
 */
static __attribute__((constructor)) void begin(void)
{
	const char *words = getenv("USCHED_DEBUG");

	if (words == NULL || *words == 0)
		(void)setenv("USCHED_DEBUG", "evict=always,poison,fault", 1);
	(void)uguard_start();
	(void)ulist_start();
}
