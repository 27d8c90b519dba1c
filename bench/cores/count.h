/* SPDX-License-Identifier: MIT */
/* count.h: counts what processors do to lines that others touch. */

#ifndef COUNT_H
#define COUNT_H

/*
 * The library is compiled with -fsanitize=thread, and linked with count.c in place of
 * that library of the compiler. So each atomic operation is a call, which does it, and
 * notes the line of 64 bytes and the native thread. Times would say nothing here:
 * there may be more native threads than cpus, and each operation takes a call.
 *
 *	rmw	operations that read and write
 *	misses	operations to a line that another native thread has written since, or,
 *		if they write, has read since: it has to come from another cpu
 *	looks	loads from the struct of another processor
 *	fences	membarrier(2): interrupts the other cpus
 *	futex	futex(2)
 *
 * Plain loads and stores are misses only from count_plain() on. Nothing of usched.c is
 * counted, in which no dispatcher touches what others do.
 */

enum count_what { RMW, MISSES, LOOKS, FENCES, FUTEX, COUNTS };

/* Tells that the caller's native thread is processor p from now on. */
void count_me(int p);

/* Tells where the structs of nr processors are, each of size bytes. */
void count_at(const void *first, unsigned long size, int nr);

/* Lets plain loads and stores be misses, too. */
void count_plain(void);

/* Copies what processor p has counted so far; -1: the sum of all. */
void count_get(int p, long out[COUNTS]);

#endif /* COUNT_H */
