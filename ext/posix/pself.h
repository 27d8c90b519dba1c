/* SPDX-License-Identifier: MIT */
/* pself.h: a thread of the pthread face, and who calls. Private. */

#ifndef PSELF_H
#define PSELF_H

#include "pface.h"

#include <setjmp.h>
#include <unwind.h>

#define PFACE_NAME	16	/* bytes of a name, with its 0, as in libc */

#if defined(__GLIBC__)
typedef __pthread_unwind_buf_t cleanup;
#define PFACE_NEXT(c)	(*(cleanup **)(c)->__pad)
#else
typedef struct __ptcb cleanup;
#define PFACE_NEXT(c)	((c)->__next)
#endif

struct pthread_face {
	struct ushell        p_shell;	/* first: the program's function */
	struct pthread_face *p_next;	/* in the table */
	struct uthread      *p_handle;
	/* The thread's own. */
	void                *p_result;
	cleanup             *p_cleanups; /* the last comes first */
	int                  p_state;	/* PTHREAD_CANCEL_ENABLE, or _DISABLE */
	int                  p_type;
	bool                 p_exits;	/* pthreads E1 has begun */
	unsigned             p_points;	/* it is in a cancellation point */
	unsigned             p_reads;	/* read locks that it has */
	const void          *p_frame;	/* of the shell: below are the program's */
	jmp_buf              p_exit;
	struct _Unwind_Exception p_unwinds;	/* outlives the frames that it leaves */
	/* Under the lock of its place in the table. */
	bool                 p_detached;
	bool                 p_joining;
	bool                 p_ended;
	char                 p_name[PFACE_NAME];
	int                  p_canceled;	/* atomic */
};

/* The first frame of each thread. */
HIDDEN void pface_shell(struct ushell *h);

/* Returns the running thread if the face has made it, else NULL. A host has a shell around. */
static inline struct pthread_face *pface_self(void)
{
	const struct uself_block *b = uself_of(ustack_self());
	const struct ushell *h = b != NULL ? &b->b_self.e_shell : NULL;

	while (h != NULL && h->h_f == ustack_shell) {
		h = h->h_arg;
		if (h->h_run == pface_shell)
			return (struct pthread_face *)h;
	}
	return NULL;
}

/* Returns the thread, with its place locked; or NULL, with nothing locked. */
HIDDEN struct pthread_face *pface_find(pthread_t name);

/* Unlocks the place of t, which pface_find() has returned. */
HIDDEN void pface_found(const struct pthread_face *t);

/* The thread that has forked this process, or NULL. */
HIDDEN extern const struct ustack *pface_forked;

/* Returns whether the caller is the thread that has forked this process. */
static inline bool pface_is_forked(void)
{
	return ustack_self() != NULL && ustack_self() == pface_forked;
}

/*
 * Returns whether the caller gets libc's functions: a native thread, or in the
 * child of fork() the thread that has forked, since others cannot run there.
 */
static inline bool pface_is_native(void)
{
	return ustack_self() == NULL || pface_is_forked();
}

#endif /* PSELF_H */
