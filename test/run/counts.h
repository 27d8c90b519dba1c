/* SPDX-License-Identifier: MIT */
/* counts.h: counters that several native threads share. */

#ifndef COUNTS_H
#define COUNTS_H

#include "check.h"

static UNUSED long add(long *at, long nr)
{
	return __atomic_add_fetch(at, nr, __ATOMIC_SEQ_CST);
}

static UNUSED long get(const long *at)
{
	return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

static UNUSED void set(long *at, long nr)
{
	__atomic_store_n(at, nr, __ATOMIC_SEQ_CST);
}

/* Waits for a number, and lets native threads of the same cpu run. */
static UNUSED void until(long *at, long nr)
{
	while (get(at) < nr)
		check_yield();
}

#endif /* COUNTS_H */
