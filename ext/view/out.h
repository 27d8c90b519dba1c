/* SPDX-License-Identifier: MIT */
/* out.h: writes a copy in other forms. For the tools. */

#ifndef UVIEW_OUT_H
#define UVIEW_OUT_H

#include "vcopy.h"

#include <stdio.h>

/* Each returns why it has failed, or NULL. Errors of out are the caller's. */

/* The page, with the copy in it. */
const char *out_html(FILE *out, const struct uview_file *copy, size_t size);

/* Chrome's JSON, which Perfetto reads: runs, waits, and arrows of wakes. */
const char *out_json(FILE *out, const struct uview_file *copy);

/*
 * Stacks for flame graphs, a line each: "function;frame;...;[mutex m] us", the
 * time that threads have waited there, and those of the census, if it has
 * threads of which the rings know nothing.
 */
const char *out_folded(FILE *out, const struct uview_file *copy);

/* Writes the name of an object to text: "mutex lock_stock", "recv 0x5500". */
void out_object(char *text, size_t size, const struct uview_file *copy,
		unsigned kind, uint64_t object);

/* Writes a name to text, without what would disturb a terminal or a list. */
void out_name(char *text, size_t size, const struct uview_file *copy,
	      unsigned nr);

/* Writes a text as JSON has it, in quotes, and without what ends a script. */
void out_string(FILE *out, const char *text);

#endif /* UVIEW_OUT_H */
