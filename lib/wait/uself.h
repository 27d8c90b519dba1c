/* SPDX-License-Identifier: MIT */
/* uself.h: the block that uthread.c and uscope.c keep of a thread. Private. */

#ifndef USELF_H
#define USELF_H

#include "uthread.h"

/* A member of a circular list, or its head. */
struct uself_link {
	struct uself_link *l_next;
	struct uself_link *l_prev;
};

/* How the block came about. */
enum {
	USELF_PLACE,	/* a plain thread, as long as it is in a scope */
	USELF_SCOPE,	/* uscope_go() */
	USELF_THREAD	/* uthread_make() */
};

struct uself_block {
	struct uself        b_self;	/* first */
	struct uthread_keys *b_keys;	/* values, or NULL */
	void               *b_data;	/* (atomic) */
	char                b_name[UTHREAD_NAME];
	unsigned char       b_kind;
	unsigned            b_noted;	/* for vswitch.c: where it noted the name */
	/* For uscope.c. */
	struct uscope      *b_scope;	/* the innermost, or NULL */
	struct uwait       *b_wait;	/* to be cancelled, or NULL (atomic) */
	struct uself_link   b_link;	/* in b_scope */
};

/* Returns the block of u, or NULL. */
static inline struct uself_block *uself_of(const struct ustack *u)
{
	return (struct uself_block *)uwait_self(u, uwait_run);
}

/* Fills in a block for a thread that will run f(arg), or runs f now. */
void uself_init(struct uself_block *b, int kind, void (*f)(void *),
		   void *arg, const struct uself_ops *ops);

/* Runs the destructors of the caller, whose block b is. */
void uself_end(struct uself_block *b);

/*
 * Shows w to uthread_interrupt(), if b is that of a handle. 0; -ECANCELED: the
 * caller was interrupted before, so w shall not wait, and is not shown.
 */
int uself_show(struct uself_block *b, struct uwait *w);

/* Undoes a uself_show() that has returned 0. */
void uself_hide(struct uself_block *b);

/* Makes the caller, whose block b is, a plain thread again. */
void uself_leave(struct uself_block *b);

#endif /* USELF_H */
