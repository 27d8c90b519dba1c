/* SPDX-License-Identifier: MIT */
/* vstack.h: functions and stacks of threads, as numbers of the file. Not API. */

#ifndef UVIEW_STACK_H
#define UVIEW_STACK_H

#include "vtap.h"
#include "compiler.h"

struct uview_range { uintptr_t c_from, c_size; };

/* Variables of the program. */
extern HIDDEN struct uview_range uview_data;

/* Notes where code and data are. At the start. */
HIDDEN void uview_code_find(void);

/*
 * Returns the stack of u, which is blocked, 0: unknown. may_walk: not only if it
 * was seen before. Owner of the tap only.
 */
HIDDEN unsigned uview_stack_of(struct uview_tap *a,
		const struct usched *s, const struct ustack *u, bool may_walk);

/* Names a function that is not in place i of the cache. */
HIDDEN unsigned uview_function_new(struct uview_tap *a, unsigned i,
				   void (*f)(void *));

/* Returns the name of the function of u. Owner of the tap only. */
static inline unsigned uview_function_of(struct uview_tap *a,
					 const struct ustack *u)
{
	void (*f)(void *) = ustack_f(u->u_f, u->u_arg);
	unsigned i = (unsigned)((uintptr_t)f >> 4 & (UVIEW_CACHE - 1));

	return likely(a->a_name[i].f == f) ? a->a_name[i].nr :
		uview_function_new(a, i, f);
}

#endif /* UVIEW_STACK_H */
