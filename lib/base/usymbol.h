/* SPDX-License-Identifier: MIT */
/* usymbol.h: names of functions and variables, by address. Not API. */

#ifndef USYMBOL_H
#define USYMBOL_H

#include "compiler.h"

#include <stddef.h>

/*
 * Writes what lies at this address to text, as much as fits: "name" or
 * "name+0x1c", and "" if there is no name. With where, always an offset, and
 * also the file and the offset for `addr2line -fe FILE OFFSET':
 * "name+0x1c (program+0x115c)". Not in a signal handler, since it takes a lock
 * of the loader, and maps files. Any native thread. Returns text.
 */
HIDDEN const char *usymbol_name(char *text, size_t size, const void *at,
				int where);

/*
 * Writes the name of the function at this address to text, or "". As
 * usymbol_name(), but it asks no loader and takes no lock. Any native thread, a
 * signal handler, too.
 */
HIDDEN void usymbol_function(char *text, size_t size, const void *at);

/*
 * Around each question to the loader: a fork waits meanwhile, since locks of
 * the loader stay taken in the child.
 */
HIDDEN void usymbol_ask(void);
HIDDEN void usymbol_asked(void);

/* Unmaps the files that were mapped. */
HIDDEN void usymbol_end(void);

#endif /* USYMBOL_H */
