/* SPDX-License-Identifier: MIT */
/* umove_inside.h: shared by the files of move/. */

#ifndef UMOVE_INSIDE_H
#define UMOVE_INSIDE_H

#include "umove.h"

#include <stdbool.h>
#include <stdint.h>

/* What must be alike where a thread leaves and where it goes on. */
struct umove_program {
	char     pr_magic[8];
	uint64_t pr_build;	/* a hash of the machine code */
	uint64_t pr_at;		/* where it was loaded */
	uint64_t pr_lanes;	/* bottom of the first lane, */
	uint64_t pr_lane_size;	/* bytes from one to the next, */
	uint64_t pr_lane_nr;	/* how many */
	uint64_t pr_heap;	/* bytes of a heap */
};

/* A thread as bytes: this, its slice, its heap. */
struct umove_head {
	uint64_t hd_number;
	uint64_t hd_f;		/* its function, */
	uint64_t hd_arg;	/* and the argument of that */
	uint64_t hd_top;	/* where its slice begins */
	uint32_t hd_slice;	/* bytes, multiples of 8 */
	uint32_t hd_heap;
	uint32_t hd_lane;
	uint32_t hd_fp;		/* control words of floating point */
};

/* The bytes of many threads, read at once. */
struct umove_batch {
	long ba_nr;		/* threads that have not begun yet */
	char ba_bytes[];
};

/* A thread of umove_make() in this process. */
struct umove_thread {
	struct umove_thread *th_next;	/* in its place of the table */
	struct umove_thread *th_saved;	/* the next of those at a point */
	void               (*th_f)(void *);
	void                *th_arg;
	long                 th_number;
	int                  th_lane;
	bool                 th_has_heap;
	bool                 th_dropped;	/* ends before it goes on */
	/* Set while it leaves, and before it goes on. */
	struct umove_head   *th_bytes;
	struct umove_batch  *th_batch;	/* th_bytes lie there; or NULL */
};

extern struct umove_program umove_program;

/*
 * Returns whether the caller is a thread of the scheduler, which has lanes where
 * they should be; else after a message.
 */
bool umove_ready(const char *call);

/* Returns whether new threads share lanes; else after a message. */
bool umove_shares(const char *call);

/* Returns the caller's thread; NULL: umove_make() has not made it. */
struct umove_thread *umove_mine(void);

/* Returns umove_mine(); NULL: after a message. */
struct umove_thread *umove_caller(const char *call);

/*
 * Copies t, the caller, to t->th_bytes, with space bytes before, and with its
 * heap behind if with_heap. 0; -ENOMEM; -ENOTSUP, after a message; 1: the caller
 * has gone on elsewhere, and t is not to be used.
 */
int umove_pack(struct umove_thread *t, const char *call, size_t space,
	       bool with_heap);

/* Returns how many of nob bytes are a thread that could go on here; 0: none. */
size_t umove_valid(const char *bytes, size_t nob);

/*
 * Lets the thread of h, which is valid, go on here. NULL and errno: ENOMEM,
 * ENOTSUP, after a message.
 */
struct umove_thread *umove_arrive(const char *call, struct umove_head *h,
				  struct umove_batch *batch);

/* Returns whether p is the program of this process; else after a message. */
bool umove_is_ours(const char *what, const struct umove_program *p);

/* Heaps of threads: uheap.c. */
int  umove_heap_init(size_t size);	/* 0, -EINVAL */
void umove_heap_fini(void);
long umove_heap_most(void);		/* numbers of threads that have addresses */

/* Returns how many bytes of the heap of t are in use, and where: *at. */
size_t umove_heap(const struct umove_thread *t, const void **at);

/* Gives t a heap with these bytes. False: no memory. */
bool umove_heap_fill(struct umove_thread *t, const void *bytes, size_t nob);

/* Frees the heap of t, which has ended, or left. */
void umove_heap_drop(struct umove_thread *t);

/* Saves: usave.c. A thread has been made, or has ended or left. */
void umove_save_made(void);
void umove_save_gone(void);

#endif /* UMOVE_INSIDE_H */
