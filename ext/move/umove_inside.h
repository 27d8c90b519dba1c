/* SPDX-License-Identifier: MIT */
/* umove_inside.h: shared by the files of ext/move/. */

#ifndef UMOVE_INSIDE_H
#define UMOVE_INSIDE_H

#include "umove.h"
#include "uslice.h"

#include <stdbool.h>
#include <stdint.h>

/* What must be alike where a thread leaves and where it goes on. */
struct umove_program {
	char     pr_magic[8];
	uint64_t pr_build;	/* a hash of the machine code */
	uint64_t pr_at;		/* where the machine code was loaded */
	uint64_t pr_lanes;	/* bottom of the first lane */
	uint64_t pr_lane_size;	/* bytes from a lane to the next */
	uint64_t pr_lane_nr;	/* how many lanes */
	uint64_t pr_heap;	/* bytes of a heap */
};

/* A thread as bytes: this, its slice, its heap, its box. */
struct umove_head {
	uint64_t hd_number;
	uint64_t hd_f;		/* its function */
	uint64_t hd_arg;	/* the argument of hd_f */
	uint64_t hd_top;	/* where its slice begins */
	uint32_t hd_slice;	/* bytes, multiples of 8 */
	uint32_t hd_heap;
	uint32_t hd_lane;
	uint32_t hd_fp;		/* control words of floating point */
	uint64_t hd_box;	/* bytes of its box */
};

/* Returns how many bytes a thread is, with its head. */
static inline size_t umove_head_nob(const struct umove_head *h)
{
	return sizeof *h + h->hd_slice + h->hd_heap + h->hd_box;
}

/* The bytes of many threads, read at once. */
struct umove_batch {
	long ba_nr;		/* threads that have not begun yet */
	char ba_bytes[];
};

/* A thread of umove_make() in this process. */
struct umove_thread {
	struct umove_thread *th_next;	/* in its slot of the table */
	struct umove_thread *th_saved;	/* the next of those at a point */
	void               (*th_f)(void *);
	void                *th_arg;
	long                 th_number;
	int                  th_lane;
	bool                 th_has_heap;
	bool                 th_dropped;	/* in no table, and only ends */
	bool                 th_leaves;		/* takes no mail: its box is packed */
	struct umove_box    *th_box;		/* NULL: no mail yet */
	/* Set while it leaves, and before it goes on. */
	struct umove_head   *th_bytes;
	struct umove_batch  *th_batch;	/* th_bytes lie there; or NULL */
};

/* A letter, and its le_nob bytes, go from a thread to another. */
struct umove_letter {
	int64_t  le_to;
	int64_t  le_from;
	uint64_t le_order;	/* counts letters from le_from to le_to */
	uint64_t le_nob;
};

/* Other processes: ranks.c. */
struct umove_far {
	/* Sends to a thread that is not here. 0, -ENOMEM. */
	int  (*fa_send)(const struct umove_letter *l, const void *bytes);
	/* May the caller make a thread? 0; -EINVAL, after a message. */
	int  (*fa_make)(void);
	/* Has room for a thread that is about to be here. 0 or -errno. */
	int  (*fa_room)(void);
	void (*fa_here)(long number);	/* a thread is here */
	void (*fa_ended)(long number);	/* a thread has ended here */
};

extern const struct umove_far *umove_far;	/* NULL: none */
extern struct umove_program umove_program;
extern struct usched *umove_sched;		/* whose threads move; or NULL */

/* These are NULL in a program with the shared library, which hides them. */
extern __typeof__(usched_save) usched_save __attribute__((weak));
extern __typeof__(usched_resume_at) usched_resume_at __attribute__((weak));
extern __typeof__(usched_name) usched_name __attribute__((weak));

/* A number is that of a place, and above that counts those that had the place. */
#define UMOVE_AGAIN	((long)1 << 32)

static inline long umove_place(long number)
{
	return number & (UMOVE_AGAIN - 1);
}

/* Returns where a table of numbers begins to look; slots is a power of two. */
static inline size_t umove_slot(long number, size_t slots)
{
	return (uint64_t)number * 0x9e3779b97f4a7c15u >> 32 & (slots - 1);
}

/* The program: uprogram.c. Fills umove_program. 0; -ENOTSUP, after a message. */
int umove_program_init(struct usched *s);

/*
 * Returns whether the caller is a thread of the scheduler, which has lanes where
 * they should be; else after a message.
 */
bool umove_ready(const char *call);

/* Returns whether new threads share lanes; else after a message. */
bool umove_shares(const char *call);

/* Returns whether ranks.c is not there; else after a message. */
bool umove_is_alone(const char *call);

/* Returns whether p is the program of this process; else after a message. */
bool umove_is_ours(const char *what, const struct umove_program *p);

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

/* While it is shut, no thread that has come goes on. */
void umove_gate(bool shut);

/* Returns how many of nob bytes are a thread that could go on here; 0: none. */
size_t umove_valid(const char *bytes, size_t nob);

/*
 * Lets the thread of h, which is valid, go on here. NULL and errno: ENOMEM,
 * ENOTSUP, after a message.
 */
struct umove_thread *umove_arrive(const char *call, struct umove_head *h,
				  struct umove_batch *batch);

/* Threads by number: unumber.c. */
int  umove_table_init(int rank, int ranks);	/* 0, -ENOMEM */
void umove_table_fini(void);			/* frees records, too */

/* Puts t, which is new, into this process. */
void umove_enter(struct umove_thread *t);

/* Takes t, which has ended or left, from this process. */
void umove_leave(struct umove_thread *t);

/* Returns the thread that is here, or NULL. */
struct umove_thread *umove_find(long number);

/* Returns whether a thread that is here has this place. */
bool umove_is_taken(long place);

/* Calls f for each thread that is here. */
void umove_each(void (*f)(struct umove_thread *t));

/* Lets the place of a thread that has ended be given again. */
void umove_number_put(long number);

/* Lets no place of a thread that has ended be given again: some have come back. */
void umove_numbers_keep(void);

/* Waits until no thread is here. 0 or -errno. */
int umove_none(void);

/* Takes t, which has not gone on yet, from this process: it ends instead. */
void umove_drop(struct umove_thread *t);

/* Drops all threads that have not gone on yet. */
void umove_drop_all(void);

/* Returns a number for a thread; takes a number back that no thread has got. */
long umove_number_get(void);
void umove_number_back(long number);

/*
 * Returns whether t, the caller, which is to be packed for a call, cannot leave:
 * urefuse.c. True: after a message.
 */
bool umove_refused(const struct umove_thread *t, const char *call);

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

/* Mail: umail.c. */

/* Puts a letter into the box of t. 0, -ENOMEM. */
int umove_deliver(struct umove_thread *t, const struct umove_letter *l,
		  const void *bytes);

/* Returns how many bytes the box of t has: words. */
size_t umove_box(const struct umove_thread *t);

/* Copies these bytes. */
void umove_box_put(const struct umove_thread *t, char *to);

/* Returns whether nob bytes are a box. */
bool umove_box_valid(const char *at, size_t nob);

/* Gives t, which is new, this box. False: no memory. */
bool umove_box_fill(struct umove_thread *t, const char *at, size_t nob);

/* Wakes t, if it waits for mail. */
void umove_box_wake(struct umove_thread *t);

void umove_box_free(struct umove_thread *t);

/* Saves: usave.c. A thread has been made, or has ended or left. */
void umove_save_made(void);
void umove_save_gone(void);

/* Returns whether a save is under way. */
bool umove_saving(void);

/* Forgets all: the next scheduler is another. */
void umove_save_fini(void);

/*
 * A save in parts, for a save over ranks: begin; wait, as often as needed, until
 * all threads that are here have come to a point; close, from where on new threads
 * belong to no save; put; end, in any case.
 */
int  umove_save_begin(void);		/* 0, -EBUSY */
int  umove_save_wait(void);		/* 0 or -errno */
void umove_save_close(void);
int  umove_save_put(const char *path, uint64_t serial);
void umove_save_end(void);

/* Returns how many threads are saved. */
long umove_save_nr(void);

/*
 * Loads a part of a file with this serial: of parts, those threads whose place in
 * the file has this rest. As umove_load().
 */
long umove_load_part(const char *path, uint64_t serial, long part, long parts);

/* Replaces the file at path by bytes, in words, and a checksum. 0 or -errno. */
int umove_file_put(const char *path, const void *bytes, size_t nob);

/* Reads such a file. 0 or -errno; -EBADMSG: it is another, or longer. */
int umove_file_get(const char *path, void *bytes, size_t nob);

#endif /* UMOVE_INSIDE_H */
