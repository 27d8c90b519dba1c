/* SPDX-License-Identifier: MIT */
/* vtap.h: what the parts of a recorder share. Not API. */

#ifndef UVIEW_TAP_H
#define UVIEW_TAP_H

/*
 * A tap is what a native thread records with: its ring, and caches. A view is a
 * dispatcher that runs. Views of one native thread nest, and share its tap.
 */

#include "compiler.h"
#include "lock.h"
#include "vring.h"
#include "uslice.h"
#include "uproc_set.h"

#define UVIEW_CACHE	64	/* functions, objects */
#define UVIEW_HASHES	2048	/* stacks */
#define UVIEW_UNWIND	256	/* blocks that earn an unwinding */
#define UVIEW_CREDIT	(4096L * UVIEW_UNWIND)	/* at the start */
#define UVIEW_LONG_RUN	200000	/* ns: then ask whether it had the cpu */
#define UVIEW_TAKERS	64	/* threads that take turns: see vturn.h */

/* A thread that gives way again and again. */
struct uview_taker {
	uint64_t k_word;	/* as of its RUN */
	uint64_t k_at;		/* number of its UVIEW_TURN; 0: none so far */
	uint64_t k_nr, k_ticks;
};

struct uview_turns {
	uint64_t b_head;	/* the ring's head behind the last turn: if it is
				 * another now, something else has happened */
	int      b_now;		/* of b_taker: it runs, without a RUN; -1: none */
	int      b_nr, b_last;
	unsigned b_ready;
	uint64_t b_since;
	struct uview_taker b_taker[UVIEW_TAKERS];
};

/* What the kernel has said of the native thread. */
struct uview_cpu {
	uint64_t c_at, c_ran;	/* ns: when it was asked; how long it has run */
	long     c_sleeps, c_taken;	/* how often it gave the cpu, and lost it */
	uint64_t c_idle;	/* ticks since then in which no thread ran, in times
				 * that may hold sleeps */
	long     c_parks;
};

struct uview_tap {
	struct uring  a_ring;
	volatile char a_busy;	/* a signal handler records nothing now */
	bool          a_noted;	/* s_next has put a record with its own time */
	unsigned char a_half;	/* half of the ring has 2^a_half records */
	int           a_runs;	/* dispatchers, or calls: 0: it is free */
	const void   *a_owner;	/* a word of its native thread */
	uint64_t      a_clock;	/* time of the last CLOCK */
	uint64_t      a_quiet;	/* from one CLOCK to the next */
	uint64_t      a_clock_due;	/* when the next CLOCK is due */
	uint64_t      a_due;	/* when to look what is due, which is soon */
	bool          a_timed;	/* the next switch is timed: vr_cost */
	struct uview_turns a_turns;
	struct uview_cpu a_cpu;
	struct { void (*f)(void *); unsigned nr; } a_name[UVIEW_CACHE];
	const void   *a_object[UVIEW_CACHE];	/* seen lately */
	struct { uint64_t hash; unsigned nr; } a_stack[UVIEW_HASHES];
	long          a_credit;	/* for unwinding: see vstack.c */
};

/* A dispatcher is INSIDE while none of its threads runs or moves. */
enum { UVIEW_INSIDE, UVIEW_RUNNING };

struct uview_view {
	struct usched_link w_link;	/* first */
	struct uview_view *w_next;	/* in the list of all */
	struct usched     *w_sched;
	struct uview_tap  *w_tap;
	struct uproc      *w_proc;	/* NULL: it is plain */
	const struct usched_queue *w_queue;	/* all that can run, but for
					 * s_hot; NULL: ask op_fresh */
	struct uwait_source *const *w_source;	/* *NULL: s_next() looks at
					 * nothing while threads can run */
	int                w_state;	/* (atomic) */
	struct ustack     *w_thread;	/* the thread that runs, or NULL */
	unsigned           w_function;	/* the name of w_thread's function */
	const void        *w_victim;	/* the thread whose place w_thread has
					 * taken */
	const struct usched_lane *w_lane;	/* where w_thread runs */
	int                w_bound;	/* l_bound of w_lane: see ustats.c */
	unsigned           w_lane_nr;	/* lanes that there are, at least */
	unsigned           w_reason;	/* why w_thread stops, so far */
	unsigned           w_ready;	/* threads that can run */
	uint64_t           w_time;	/* of the records that follow */
	uint64_t           w_since;	/* when w_thread began to run */
	struct uproc_mark  w_mark;
	struct usched_moves w_moves;	/* used if no other module counts */
	struct usched_moves *w_counted;
	long               w_stolen;
};

/* What there is once in a process. */
struct uview_all {
	struct uview_file *v_file;	/* NULL: there is no recorder */
	size_t             v_size;
	bool               v_stacks;
	int                v_gate;	/* a census stops dispatchers (atomic) */
	const uint32_t    *v_ask;	/* vf_ask; in a child of fork() it is 0 */
	unsigned           v_asked;	/* the last vf_ask that was answered */
	struct ulock       v_lock;	/* protects v_first; held by a census */
	struct uview_view *v_first;
	uint64_t           v_tick, v_ns;	/* where both clocks began */
	bool               v_no_counter;	/* a tick is a ns */
	bool               v_knows_cpu;	/* the kernel tells when a thread ran */
	uint64_t           v_long_run;	/* ticks: then ask whether the kernel
					 * took the cpu (atomic) */
	int                v_fd;	/* of the file */
	int                v_log;	/* a ring has 2^v_log records */
	bool               v_keeps;	/* the file stays after exit() */
};

extern HIDDEN struct uview_all uview_all;

/*
 * The tap of this native thread, while it records. By default, a compiler finds a
 * variable of another file by one instruction more, in each wait.
 */
#if defined(__PIC__) && !defined(__PIE__)
#define UVIEW_TLS	"local-dynamic"
#else
#define UVIEW_TLS	"local-exec"
#endif
extern HIDDEN __thread __attribute__((tls_model(UVIEW_TLS)))
	struct uview_tap *uview_here;

/* Begins to record on this native thread; 2^log records. NULL: it cannot. */
HIDDEN struct uview_tap *uview_tap_begin(int log);
HIDDEN void uview_tap_end(struct uview_tap *a);

/* Writes down both clocks. Owner only, while it is busy. */
HIDDEN void uview_clock_put(struct uview_tap *a);

/* Asks the kernel how long the caller has been on a cpu. False: it does not say. */
HIDDEN bool uview_cpu_ask(struct uview_cpu *c);

/* Writes the RUN that a turn has not written: vturn.h. */
HIDDEN void uview_turn_breaks(struct uview_tap *a);

/* Forgets the taps of the parent, in a child of fork(). */
HIDDEN void uview_taps_renew(void);

static inline struct uview_ring *uview_ring_nth(unsigned nr)
{
	return (struct uview_ring *)((char *)uview_all.v_file +
		uview_all.v_file->vf_part[UVIEW_PART_RINGS].vp_at) + nr;
}

static inline void uview_put(struct uview_tap *a, uint64_t time, unsigned kind,
			     unsigned arg, const void *at, unsigned id)
{
	if (unlikely(a->a_turns.b_now >= 0))
		uview_turn_breaks(a);
	uring_put(&a->a_ring, time, kind, arg, uring_word(at, id));
}

/* Between these a signal handler records nothing. */

static inline void uview_busy(struct uview_tap *a)
{
	a->a_busy = 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void uview_idle(struct uview_tap *a)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	a->a_busy = 0;
}

#endif /* UVIEW_TAP_H */
