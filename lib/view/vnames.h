/* SPDX-License-Identifier: MIT */
/* vnames.h: the names and stacks in the file of a recorder. Not API. */

#ifndef UVIEW_NAMES_H
#define UVIEW_NAMES_H

/*
 * Each function returns a number for the file, the same for the same thing, and
 * 0 if there is no room. Any native thread that may take a lock.
 */

#include "format.h"
#include "uslice.h"

/* Makes tables for a file whose header and parts are set. 0, -ENOMEM. */
HIDDEN int uview_names_init(struct uview_file *file);

/* The name of what is at this address: a function, a place in code, an object. */
HIDDEN unsigned uview_name(enum uview_name_kind kind, const void *at);

/* A name that is this text. */
HIDDEN unsigned uview_text(const char *text);

/* The object at this address has this name from now on. */
HIDDEN void uview_object_name(const void *at, const char *text);

/* The stack of a thread of function f: nr return addresses, innermost first. */
HIDDEN unsigned uview_stack(unsigned f, void *const *pc, int nr);

/* Makes the lock new, in a child of fork(). */
HIDDEN void uview_names_renew(void);

#endif /* UVIEW_NAMES_H */
