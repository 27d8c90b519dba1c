/* SPDX-License-Identifier: MIT */
/* usched.c: a dispatcher of cooperative user-space threads. */

/*
 * OVERVIEW
 *
 * The usual user-space thread owns a stack of some kilobytes, most of which it
 * never uses. Here threads share the stack of their native thread (a thread of
 * the system), or with usched_lanes() several, called lanes. A thread that
 * blocks leaves behind only the slice of stack between its first frame and the
 * stack pointer, and when another thread needs the place the slice is copied to
 * a small buffer. A million threads cost what a million slices cost.
 *
 * That is the scheme of usched (N. Danilov, "usched: stackswap coroutines,
 * neither stackful nor stackless"). His usched copies each slice out at each
 * block. With usched_lanes(), this dispatcher puts the copying off, and mostly
 * never copies: see "Lanes".
 *
 *   + A thread uses all of the stack or lane while it runs, and blocks from any
 *     depth of ordinary C calls.
 *   + A blocked thread costs a struct ustack and a buffer, which is larger than
 *     its slice by at most USCHED_SLACK; and pages it has touched in a lane.
 *   + A thread that never blocks needs no buffer.
 *   + Only the scheduler, call-backs of struct usched, chooses what runs next.
 *
 *   - While a thread is blocked, addresses of its locals are meaningless to
 *     other threads.
 *   - A cold thread, whose slice had to move, costs two copies a block.
 *
 * LIFE OF A THREAD
 *
 * The stack grows to the left, where addresses are lower. So the bottom of a
 * lane is its highest address, and the top of a slice its lowest. usched_run(S)
 * saves its registers and starts the first round:
 *
 *                                                       | registers | ...
 *                                                       ^
 *                        S->s_base: S->s_exit, rounded down to a multiple of 16
 *
 * In a round S->s_next(), a call-back of the scheduler (s_*: usched.h), chooses
 * a thread U, on the dispatcher's stack, that is, to the left of s_base. If U
 * is new, it is given a lane L, a stretch of stack, and U->u_f() is called at
 * its bottom by usched_launch(). On x86-64:
 *
 *            U->u_f()      usched_launch()
 *   ... |    frame     | return address |
 *       ^                               ^
 *       sp                              L->l_bottom
 *
 * U runs, calls, returns, until somewhere it blocks. Registers that are still
 * needed are saved. usched_blocked() compares where that ended with U->u_top,
 * and notes it there if it differs:
 *
 *   switch      bar()       foo()      U->u_f()
 *   | regs | frame |    frame    |    frame     | return address |
 *   ^                                                            ^
 *   U->u_top                                           L->l_bottom
 *   |<--------------------- the slice of U --------------------->|
 *
 * The slice is all that remains of a blocked thread. The scheduler may have
 * prepared the next thread (in s_hot or s_queue, or by s_quick(): see
 * core/sched.h). If that lies in its lane, or both threads are cold, the switch
 * goes there at once. Else, or if the buffer of U must change, the stack
 * pointer is set to S->s_base, and the next round starts. Every round starts
 * from the same place, so nothing of the dispatcher has to be saved.
 *
 * When U is to run again, its slice must lie where it lay. The stack pointer is
 * set to U->u_top, usched_resume() pops the registers, and the thread goes on.
 *
 * When U->u_f() returns, usched_launch() goes on with usched_ended(). If
 * s_again() has given U another function, that is launched at once, in the same
 * lane; else the dispatcher calls s_done(), and the next round starts.
 *
 * LANES
 *
 * A thread is bound to one lane from its first run to its end: frames hold
 * addresses of frames, so a slice must come back to where it was. A slice that
 * lies in its lane, not in a buffer, is live. Its thread is the owner of the
 * lane.
 *
 * Lane 0 is the native stack, to the left of s_base. The dispatcher itself
 * goes on there, so a thread that blocks in lane 0 is copied out at once,
 * from its own stack, before the switch.
 *
 * usched_lanes() maps other lanes, and then lane 0 is not used. In these a
 * blocked thread stays where it is. Only when another thread has to run in the
 * lane, the slice of the owner is copied to its buffer ("evicted"), and the
 * slice of the other thread is copied in. If the owner is resumed first,
 * nothing was copied at all. So hot threads stay in their lanes, and switch as
 * fast as threads with stacks of their own. Cold threads shrink to a buffer.
 *
 * The buffer is allocated when the thread blocks, on its stack, where failure
 * can be reported and undone. Only the copying is put off.
 *
 * A scheduler may choose the lane of a new thread (u_lane). A thread of a
 * function that blocks deep gets a lane for itself (core/private.h). A thread of a
 * function that waits for events from outside shares a lane (core/outside.h). Any other
 * takes the lane that was given back last, which is in the cache. If none was
 * given back it takes a lane that was never used. If all have threads bound to
 * them, it takes a private lane if the scheduler has few threads (s_few), else
 * one of the first USCHED_SHARED, in rotation. These are few, so that lanes whose
 * slices move at each block stay in the first-level cache.
 *
 * THE TOP OF A SLICE
 *
 * u_top is where the slice starts. Each machine starts slices at multiples of
 * TOP, 8, so the three low bits are free for flags. One look at them tells a
 * round that it can just resume:
 *
 *	FP_ON_TOP  the first TOP bytes of the slice hold control words
 *	NO_SLICE   the thread is new, or with AWAY: it has ended
 *	AWAY       the slice is in the buffer, not in the lane
 *
 * That is so while the thread is blocked. While it runs, u_top stays as its
 * last block left it. Then AWAY says that the thread was copied in, and so is
 * cold, and NEW that it has not blocked yet.
 *
 * A new thread whose struct was zeroed and filled by hand has a null pointer
 * here. That has no low bits, and costs a round a second look.
 *
 * The control words are those of floating point: mxcsr and the x87 control
 * word, fpcr, frm, with rounding, traps, and flushing of denormals, but not the
 * sticky flags. They belong to the thread. But nearly every thread has the
 * words of the dispatcher (s_fp), which are those of the first caller of
 * usched_run() since usched_lanes() or usched_fini(). Each block reads and
 * compares them. The dispatcher keeps them in the slice, and sets them back,
 * only where they differ. Coroutines (s_coroutine), which only usched_step()
 * runs, share them with its caller. usched_pass() reads none.
 *
 * SIGNALS
 *
 * A handler runs below the stack pointer of the code that it interrupts. So a
 * live slice is always above the stack pointer, or in a lane that the stack
 * pointer is not in; and code that copies runs below the slice, or on another
 * lane. usched_jump() moves the stack pointer by one instruction, so no handler
 * sees it on the way.
 *
 * INVARIANTS
 *
 * I1. A slice returns to the addresses that it left.
 * I2. A lane has at most one owner, and runs on one native thread at a time.
 * I3. From a block to the resume only the dispatcher touches the slice.
 * I4. On one stack, nothing is copied to or from below the stack pointer of the
 *     copier.
 * I5. An error leaves every thread and buffer as it was. (In the hard mode,
 *     uhard.h, the thread may have another buffer.)
 * I6. No call-back chooses if a thread is prepared. If none is, s_quick() may
 *     choose on the stack of the thread that blocks, but only among threads
 *     that lie in their lanes. s_next() and s_done() run on the dispatcher's
 *     stack; s_alloc(), s_free() and s_again() on the stack of the thread that
 *     blocks, reserves, or has ended.
 * I7. The buffer of a blocked thread has room for its slice, and holds it if
 *     AWAY, but for prologue words: some at the bottom, alike in most slices
 *     (core/buffer.h). A private lane needs no buffer. After
 *     usched_reserve(more), a block at the caller's depth, or up to more bytes
 *     deeper, does not ask s_alloc(), until the thread has blocked elsewhere.
 * I8. All that usched_left() needs is in struct usched, not in a stack frame. A
 *     run can end at each of the call-backs that core/sched.h names.
 *
 * THE PARTS
 *
 * This file is the dispatcher. Its code goes from small to large: copying, the
 * lane of a thread, how a thread goes on, a round, a block, the end of a
 * thread, a run. It includes its parts in the order in which they are needed.
 * Most have their own piece of this essay. Read machine.h, prepared.h, buffer.h
 * and cold.h with this file; the others can wait:
 *
 *	core/base.h       macros: what compilers differ in
 *	core/pages.h      pages for stacks, on each system
 *	core/machine.h    the switch, for each machine
 *	core/contracts.h  what callers must keep; message.h: lines about it
 *	core/copies.h     two copies of the library in a process
 *	core/env.h        variables of the environment, and what each knows
 *	core/ask.h        who runs; questions of other modules
 *	core/deep.h       a policy: which threads get private lanes
 *	core/outside.h    a policy: which threads share lanes at any number
 *	core/private.h    private lanes
 *	core/law.h        moves some slices early, to find who uses them
 *	core/guard.h      says why a thread has touched what is not there
 *	core/openmp.h     no wait within a region of OpenMP
 *	core/memory.h     mapping of lanes
 *	core/leave.h      longjmp() out of a run; hooks, call-backs of modules
 *	core/prepared.h   threads that the scheduler has prepared
 *	core/buffer.h     buffers of slices
 *	core/cool.h       memory of lanes whose threads wait for long
 *	core/cold.h       blocks elsewhere than before, and of cold threads
 *	core/step.h       one thread alone
 *
 * REJECTED
 *
 *   - Registers in struct ustack instead of on the stack: as many bytes, in a
 *     further cache line.
 *   - A call of the switch, and going on by `ret', where core/inplace.h jumps:
 *     faster where all threads block at the same place. Elsewhere half as fast,
 *     and each return up through wrappers is mispredicted.
 *   - s_next() called on the stack of the thread that blocks: each lane would
 *     need room for it, and no other native thread could resume the thread
 *     before it returns.
 *   - AVX copies of slices: no gain.
 *   - A flag of its own to tell blocks that threads share control words: its
 *     load took 3 to 6 % of a switch on a Xeon.
 *   - A further test in a block that finds all as it was before: 7 to 9 %.
 *   - The first buffer in one struct with the thread: its length would have to
 *     be guessed before the first block.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE			/* MAP_ANONYMOUS under -std=c11 */
#endif
#if defined(__has_include)	/* in the tree only */
#if !__has_include("core/base.h")
#error "usched.c is only a part: copy the two files that `make single TO=DIR` writes"
#endif
#endif
#include "usched.h"
#include "core/base.h"

/* Flags in u_top: see "The top of a slice". */
#define FP_ON_TOP	1
#define NO_SLICE	2
#define AWAY		4
#define LOW_BITS	7
#define TOP		(LOW_BITS + 1)
#define NEW		((char *)NO_SLICE)
#define ENDED		((char *)(NO_SLICE | AWAY))
/*
 * Flags in u_len. SHORT: the buffer lacks prologue words (core/buffer.h).
 * COUNTED: blocks are counted, of a thread in a private lane (core/private.h).
 * Lengths are multiples of 8, and schedulers see no flags, except in s_again(), whose
 * thread keeps its buffer: buffer_size().
 */
#define SHORT		4
#define COUNTED		1

/* Returns how many bytes a buffer has, whose u_len is len. */
static inline int buffer_size(int len)
{
	return len & -TOP;
}

/* In s_steps: usched_step(); its thread has ended; usched_enter(). Else 0. */
enum { STEPS = 1, STEP_ENDED = 2, IN_PLACE = 4 };	/* and USCHED_PAUSES */
/* In l_free: the lane is not in the list of free lanes. */
#define NOT_FREE	(-1)
/* Lanes that are shared when there are more threads than lanes. */
#define USCHED_SHARED	16
/* A buffer that is larger than its slice by more than this is given back. */
#define USCHED_SLACK	4096
/* A slice of so many bytes is deep: its buffer costs as much as a lane. */
#if !defined(USCHED_DEEP)
#define USCHED_DEEP	2048
#endif
/* Bytes copied at once, and the least that is stored of a slice. */
#define PAIR		16
typedef uint64_t pair __attribute__((vector_size(PAIR), aligned(1), may_alias));

#include "core/machine.h"

UPREEMPT_NEVER;			/* core/sched.h */

/* What kind of library this is: see core/kinds.h. */
const char USCHED_KIND_HARD[1] = "", USCHED_KIND_SINGLE[1] = "";
const char USCHED_KIND_PORTABLE[1] = "";

#if defined(USCHED_LOCAL)
#define OURS	__attribute__((used))	/* core/inplace.h names them */
#else
#define OURS	static
#endif
/* The running thread and its dispatcher; NULL in s_next() and s_done(). */
OURS __thread struct ustack *usched_current;
OURS __thread struct usched *usched_running;

/* The runs on this native thread, the innermost first. */
static __thread struct usched_frame *usched_here;

#include "core/message.h"
#include "core/contracts.h"
#include "core/env.h"

/*
 * COPYING
 *
 * The slice of a thread, its buffer, and how each gets its bytes from the
 * other.
 */

/* Returns the low bits of u_top. */
static ALWAYS_INLINE unsigned bits(const struct ustack *u)
{
	return (uintptr_t)u->u_top & LOW_BITS;
}

/* Returns where the slice of u lies, or belongs. */
static inline char *slice(const struct ustack *u)
{
	return (char *)((uintptr_t)u->u_top & ~(uintptr_t)LOW_BITS);
}

/* Returns how many bytes of the slice are, or would be, in the buffer (I7). */
static inline ptrdiff_t stored(const struct usched_lane *l,
			       const struct ustack *u)
{
	ptrdiff_t nob = l->l_bottom - slice(u);

	return nob < u->u_len ? nob : buffer_size(u->u_len);
}

/*
 * Copies at least PAIR bytes. The last pair overlaps the pair before it, so no
 * branch is needed for the rest. From some 1000 bytes memcpy() is faster, but
 * sanitizers check it, and the hard mode copies poisoned memory.
 */
static ALWAYS_INLINE void copy(char *to, const char *from, ptrdiff_t nob)
{
	ptrdiff_t i;

	if (!HARD && unlikely(nob > 1024)) {
		memcpy(to, from, (size_t)nob);
		return;
	}
	for (i = 0; i < nob - PAIR; i += PAIR)
		*(pair *)(to + i) = *(const pair *)(from + i);
	i = nob - PAIR;
	*(pair *)(to + i) = *(const pair *)(from + i);
}

/* Copies the slice of the owner to its buffer, and leaves the lane empty. */
static UNCHECKED void evict(struct usched_lane *l)
{
	struct ustack *u = l->l_owner;

	copy(u->u_stack, slice(u), stored(l, u));
	UHARD(evicted(u, l, slice(u)));
	u->u_top += AWAY;
	l->l_owner = NULL;
}

/* Copies the slice of u to the lane. Leaves AWAY set: u is cold. */
static UNCHECKED void restore(struct usched_lane *l, struct ustack *u)
{
	ptrdiff_t nob = stored(l, u);

	/* First all prologue words; the copy covers those that are stored. */
	if (nob < l->l_bottom - slice(u))
		copy(l->l_bottom - PROLOGUE, prologue(), PROLOGUE);
	copy(slice(u), u->u_stack, nob);
	UHARD(restored(u, l, slice(u)));
}

#include "core/ask.h"
#include "core/copies.h"
#include "core/pages.h"
#include "core/deep.h"
#include "core/outside.h"
#include "core/private.h"
#include "core/law.h"
#include "core/guard.h"
#include "core/openmp.h"

/*
 * THE LANE OF A THREAD
 *
 * Which lane a new thread gets, and where lane 0 begins on the native stack.
 *
 * A lane gets its guard when its first thread begins, so that a program with few
 * threads does not wait for 256 calls of mprotect(). Lane 1 has it before. Where a
 * lane can get none, threads share those that have one.
 *
 * l_sample counts threads, and wraps after LAW_SAMPLE of them. The lowest bit says
 * that the lane is bare: it has no guard so far.
 */
#define BARE	(256 - 256 / LAW_SAMPLE + 1)

static int is_bare(const struct usched_lane *l)
{
	return l->l_sample & 1;
}

/*
 * Maps the guard of a lane. The next lane, if there is one, gets its guard, too, so
 * that a thread that writes past its bottom is seen. 0, -ENOMEM.
 */
static int guard_make(struct usched_lane *l, int is_last)
{
	if (mprotect(l->l_low - GUARD, GUARD, PROT_NONE) != 0 || (!is_last &&
	    mprotect(l[1].l_low - GUARD, GUARD, PROT_NONE) != 0))
		return -ENOMEM;
	l->l_sample = (unsigned char)(l->l_sample - 1);
	return 0;
}

int usched_lane_guard(struct usched *s, int i)
{
	return is_bare(&s->s_lane[i]) ?
		guard_make(&s->s_lane[i], i == s->s_lane_nr) : 0;
}

/*
 * Called when a thread begins in l, the first, or one of LAW_SAMPLE. The lane is
 * bare only if u_lane has chosen it.
 */
static NOINLINE void lane_sampled(struct usched *s, struct usched_lane *l)
{
	if (usched_lane_guard(s, (int)(l - s->s_lane)) != 0)
		usched_fail("usched_lanes: a lane can get no guard, as all "
			    "mappings are used up (vm.max_map_count)");
	if (!HARD)
		law_sample(s, l);
}

static ALWAYS_INLINE void lane_begin(struct usched *s, struct usched_lane *l)
{
	l->l_sample += 256 / LAW_SAMPLE;
	if (unlikely(l->l_sample <= 1))
		lane_sampled(s, l);
}

/* Returns the lane that lane_get() takes from the list; 0: none is free. */
static int lane_free(const struct usched *s)
{
	int i = s->s_free_lane;

	while (i != 0 && s->s_lane[i].l_bound != 0)
		i = s->s_lane[i].l_free;
	return i;
}

/* Returns the shared lane after lane i, in rotation. There are lanes. */
static int shared_next(const struct usched *s, int i)
{
	return i % (s->s_lane_nr < USCHED_SHARED ? s->s_lane_nr : USCHED_SHARED) + 1;
}

/* Returns the lane for the next thread without a private lane; 0: no lanes. */
int usched_lane_next(const struct usched *s)
{
	int i = lane_free(s);

	if (i != 0 || s->s_lane_nr == 0)
		return i;
	i = s->s_shared_last;
	do {
		i = shared_next(s, i);
	} while (is_bare(&s->s_lane[i]));	/* lane 1 is not */
	return i;
}

/*
 * Returns a lane for a thread that shares it, whether it is free or not. A free lane
 * stays in the list, and is passed over there.
 */
static int lane_shared(struct usched *s)
{
	do {
		s->s_shared_last = shared_next(s, s->s_shared_last);
	} while (usched_lane_guard(s, s->s_shared_last) != 0);	/* lane 1 has it */
	return s->s_shared_last;
}

/*
 * Returns the lane for u, which begins without a lane, if what it runs decides that:
 * a private lane that it takes, or a lane to share. Else 0.
 */
int usched_lane_for(struct usched *s, const struct ustack *u)
{
	void (*f)(void *) = f_of(u);
	int i = u->u_lane == USCHED_PRIVATE ? usched_lane_private(s) :
		usched_lane_deep(s, f);

	if (i == 0 && s->s_lane_nr > 0 && usched_lane_outside(f))
		return lane_shared(s);
	if (i == 0 && s->s_few && s->s_private != NULL && lane_free(s) == 0)
		i = private_get(s, 1);
	return i;
}

/* Returns a lane for a new thread: see "Lanes" above. */
static int lane_get(struct usched *s, const struct ustack *u)
{
	int i = usched_lane_for(s, u);

	if (unlikely(i != 0))
		return i;
	while ((i = s->s_free_lane) != 0) {
		s->s_free_lane = s->s_lane[i].l_free;
		s->s_lane[i].l_free = NOT_FREE;
		if (s->s_lane[i].l_bound == 0 &&	/* else taken by u_lane */
		    (likely(!is_bare(&s->s_lane[i])) ||
		     usched_lane_guard(s, i) == 0))
			return i;
	}
	s->s_shared_last = usched_lane_next(s);	/* none is free */
	return s->s_shared_last;
}

/* Schedulers may read l_bound of a lane that another dispatcher has: usched_cool(). */
static ALWAYS_INLINE void bound_set(struct usched_lane *l, int nr)
{
	__atomic_store_n(&l->l_bound, nr, __ATOMIC_RELEASE);
}

/* Takes u, which will not run again, from its lane. Its buffer is the scheduler's. */
static void lane_put(struct usched *s, struct ustack *u)
{
	struct usched_lane *l = &s->s_lane[u->u_lane];

	CONTRACT(l->l_bound > 0, "ustack_fini: after usched_fini()");
	u->u_len = buffer_size(u->u_len);
	if (l->l_owner == u)
		l->l_owner = NULL;
	bound_set(l, l->l_bound - 1);
	if (l->l_bound != 0)
		return;
	if (is_private(s, u->u_lane)) {
		private_put(s, u);
	} else if (u->u_lane != 0 && l->l_free == NOT_FREE) {
		l->l_free = (short)s->s_free_lane;
		s->s_free_lane = u->u_lane;
	}
}

/*
 * Returns an address for the stack on which a run begins, if f is the frame of
 * that. s_next() and s_done() are on the stack where their own run began.
 */
static NOINLINE const void *stack_id(const struct usched_frame *f)
{
	const struct usched *s;

	while (f != NULL && f->f_self == NULL)
		f = f->f_up;
	if (likely(f == NULL))
		return &usched_current;	/* that of a native thread */
	s = f->f_self->u_sched;
	return s->s_lane == &s->s_native ? s->s_native_stack :
		&s->s_lane[f->f_self->u_lane];
}

/*
 * Lets rounds start at base, and usched_run() go on at exit. Slices of lane 0
 * end at base, too, but while threads are blocked there its bottom must stay
 * where it was, so base must not be below it.
 */
static void base_set(struct usched *s, char *exit, char *base)
{
	struct usched_lane *l = &s->s_native;
	const void *stack = s->s_lane == l ? stack_id(&s->s_frame) : l;

	if (l->l_bound == 0) {
		l->l_bottom = base;
		s->s_native_stack = stack;
	}
	CONTRACT(s->s_lane != l || (s->s_native_stack == stack &&
			(uintptr_t)l->l_bottom <= (uintptr_t)base),
		 "usched_run: threads are blocked on the native stack, and it "
		 "was entered from deeper, or from another stack");
	s->s_base  = base;
	s->s_exit  = exit;
	/* Never equal on lane 0: each block there is special. */
	s->s_fp_expected = s->s_lane == l ? ~s->s_fp : fp_expect(s->s_fp);
}

#include "core/memory.h"

/*
 * A THREAD GOES ON
 *
 * The last step is usched_resume(), or usched_launch() for a new thread.
 */

/* Makes u the running thread; NULL: none runs. */
static ALWAYS_INLINE void set_running(struct ustack *u)
{
	usched_current = u;
	usched_running = u != NULL ? u->u_sched : NULL;
}

/* Does u lie in its lane, with the usual control words? Hard mode: never. */
static ALWAYS_INLINE int is_simple(const struct ustack *u)
{
	return !HARD && bits(u) == 0 && u->u_top != NULL;
}

/* Resumes u, which is simple. */
static ALWAYS_INLINE SWITCHES void resume_top(struct usched *s, struct ustack *u)
{
	usched_current = u;
	usched_running = s;
	usched_resume(u->u_top, 0);
}

/* Resumes u, which has blocked. Runs below its slice, or on another lane. */
static SWITCHES void switch_in_slice(void *arg)
{
	struct ustack *u = arg;
	char *top = slice(u);

	if (bits(u) & AWAY)
		restore(&u->u_sched->s_lane[u->u_lane], u);
	if (bits(u) & FP_ON_TOP) {
		fp_set((unsigned)*(uintptr_t *)top);
		top += TOP;
	}
	UHARD(resume(u));
	usched_resume(top, 0);
}

/* Goes to u, which is new or AWAY, or has control words of its own. */
static NOINLINE SWITCHES void switch_in(struct usched *s, struct ustack *u)
{
	struct usched_lane *l;
	char *top;

	CONTRACT(u->u_top != ENDED, "s_next: returned a thread that has ended");
	CONTRACT(u->u_lane >= USCHED_PRIVATE &&
		 (u->u_lane <= s->s_lane_nr || is_private_of(s, u)),
		 "s_next: returned a thread with a lane that does not exist, "
		 "or that is the private lane of another one");
	if (u->u_top == NULL)
		adopt(u);
	if (u->u_top == NEW && u->u_lane <= 0)
		u->u_lane = (short)lane_get(s, u);
	l = &s->s_lane[u->u_lane];
	usched_current = u;
	if (l->l_owner != u && l->l_owner != NULL)
		evict(l);
	if (unlikely(l->l_sole) && (top = law_enter(l, u)) != NULL)
		usched_resume(top, 0);
	UHARD(enter(u, l));
	l->l_owner = u;
	if (u->u_top == NEW) {
		bound_set(l, l->l_bound + 1);
		lane_begin(s, l);
		UHARD(resume(u));
		USCHED_PROBE_THREAD(begin, u);
		usched_launch(l->l_bottom, FIRST(u));
	}
	if (l == &s->s_native)	/* I4: we may be where the slice lay */
		usched_jump((char *)((uintptr_t)slice(u) & ~(uintptr_t)15),
			    switch_in_slice, u);
	switch_in_slice(u);
}

#include "core/leave.h"
#include "core/prepared.h"

/*
 * A ROUND
 *
 * On the stack of the dispatcher: which thread is next, or the end of the run.
 */

/* Ends the innermost run: its caller, if a thread, is running again. */
static ALWAYS_INLINE UNCHECKED void run_end(struct usched *s)
{
	s->s_base = NULL;
	set_running(s->s_frame.f_self);
	UHARD(end(s));
	hooks(s, 0);
	usched_here = s->s_frame.f_up;
}

/* Goes back to where a run was begun. Runs at s_base, or below a slice. */
static ALWAYS_INLINE SWITCHES void run_leave(struct usched *s)
{
	if (!(s->s_steps & IN_PLACE))
		usched_resume(s->s_exit, 0);
	fp_put(s, s->s_frame.f_fp);
	run_end(s);
	usched_resume(s->s_exit, (s->s_steps & STEP_ENDED) != 0);
}

/* Chooses a thread and goes there. Runs at s_base. */
static SWITCHES void round_start(void *arg)
{
	struct usched *s = arg;
	struct ustack *u;

	usched_current = NULL;
	usched_running = NULL;
	UHARD(at_base(s));
	u = unlikely(s->s_steps != 0) ? s->s_step : prepared(s);
	if (unlikely(s->s_steps != 0))
		s->s_step = NULL;	/* when it has run, that is all */
	else if (u != NULL)
		prepared_take(s);
	else
		u = s->s_next(s);
	if (unlikely(u == NULL))
		run_leave(s);
	CONTRACT(u->u_sched == s,
		 "s_next: returned a thread of another dispatcher");
	usched_running = s;
	if (likely(is_simple(u)))
		resume_top(s, u);
	switch_in(s, u);
}

/* Starts a round after a block of u, whose lane is to be shut. Runs at s_base. */
static SWITCHES void round_shut(void *arg)
{
	struct ustack *u = arg;

	law_shut(u);
	round_start(u->u_sched);
}

#include "core/buffer.h"
#include "core/cool.h"

/*
 * A THREAD BLOCKS
 *
 * On the stack of the thread, below its slice. ustack_block() leads here, or a
 * wait in place: USCHED_SWITCH() jumps to usched_live, and that to
 * usched_blocked(). Usually this is all: it compares u_top, u_len and the
 * control words, and switches to a prepared thread. Else each of these calls
 * the next if the case is not its own:
 *
 *	block_cold()       the slice was copied in, and its place is the same
 *	block_new_depth()  the slice has another length, the buffer serves
 *	block_special()    all that can be: control words, a buffer, lane 0
 *
 * On lane 0 no control words are as expected (s_fp_expected), so each block
 * there ends in block_special(), which copies the slice. Nor are any if the process
 * has a runtime of OpenMP, which block_unexpected() asks. If no thread is
 * prepared, s_quick() may be asked where threads block in place (QUICK). If
 * threads share control words, block_sharing() does the same without these.
 */

/* Resumes what s_quick() chooses, or starts a round. */
static ALWAYS_INLINE SWITCHES void ask_quick(struct usched *s)
{
	struct ustack *t = s->s_quick(s);

	if (likely(t != NULL)) {
		usched_current = t;
		usched_resume_open(t->u_top, s->s_gate);
	}
	usched_jump(s->s_base, round_start, s);
}

/* Goes from a thread that has blocked, and stays in its lane, to the next. */
static ALWAYS_INLINE SWITCHES void switch_from(struct usched *s)
{
	struct ustack *t = prepared(s);

	if (likely(t != NULL && bits(t) == 0)) {
		prepared_take(s);
		usched_current = t;
		usched_resume(t->u_top, 0);	/* not NULL: ustack_init() */
	}
	if (QUICK && t == NULL && s->s_quick != NULL)
		ask_quick(s);
	usched_jump(s->s_base, round_start, s);
}

/*
 * Blocks u with all that may be needed: its control words go to the top of the
 * slice, the buffer gets another length, and lane 0 is left at once. If there
 * is no buffer, u goes on.
 */
static NOINLINE SWITCHES void block_special(char *sp, struct ustack *u,
						     struct usched_lane *l)
{
	struct usched *s = u->u_sched;
	unsigned fp = s->s_coroutine ? s->s_fp : fp_get(sp - TOP);
	char *top = sp;
	ptrdiff_t need;
	int rc = 0;

	if (unlikely(s->s_openmp != 0))
		openmp_check(u, "waits");
	fp_check(s, fp);
	mark_return(sp);		/* for debuggers */
	if (fp != s->s_fp) {
		top = sp - TOP;
		*(uintptr_t *)top = fp;
	}
	need = l->l_bottom - top;
	in_lane(top, l);
	if (u->u_len - need > USCHED_SLACK ||
	    (u->u_len < need && !is_short(s, u, l, u->u_len - need)))
		rc = buffer_fit(u, l, need);
	if (rc == 0)
		UHARD(fit(u, need, &rc));
	if (rc != 0)
		usched_resume(sp, rc);	/* with the error */
	u->u_top = top;
	if (fp != s->s_fp) {
		u->u_top += FP_ON_TOP;
		fp_set(s->s_fp);
	}
	if (l == &s->s_native)
		evict(l);	/* I4: we are below the slice */
	else if (unlikely(l->l_law != 0) && law_take(l, u))
		usched_jump(s->s_base, round_shut, u);
	UHARD(leave(u, l));
	usched_jump(s->s_base, round_start, s);
}

#include "core/cold.h"

/* Is u cold, at a new place, with a SHORT buffer, or COUNTED? */
static ALWAYS_INLINE int is_elsewhere(const char *sp, const struct ustack *u)
{
	return HARD || unlikely(u->u_top != sp || u->u_len & (SHORT | COUNTED));
}

/* Blocks u, whose control words are those that threads share: stores none. */
static ALWAYS_INLINE SWITCHES void block_sharing(char *sp, struct usched *s,
						 struct ustack *u)
{
	if (is_elsewhere(sp, u)) {
		fp_store_shared(sp);
		block_cold(sp, s, u);
	}
	switch_from(s);
}

/*
 * Blocks u, which is not elsewhere, where the control words are not as expected. On
 * lane 0 none are, nor are any in a process with a runtime of OpenMP.
 */
static UNKNOWN UNCHECKED void block_unexpected(char *sp, struct usched *s,
					       struct ustack *u)
{
	if (s->s_lane != &s->s_native && s->s_openmp != 0 &&
	    fp_saved(sp) == s->s_fp) {
		openmp_check(u, "waits");
		switch_from(s);
	}
	block_special(sp, u, &s->s_lane[u->u_lane]);
}

/*
 * Blocks the running thread, whose slice starts at sp. Runs below the slice, on
 * the same stack. Usually it only compares, and touches no memory below the
 * word below sp: a small slice and that word are two cache lines.
 */
void usched_blocked(char *sp, void *unused)
{
	struct usched *s = usched_running;
	struct ustack *u = usched_current;
	uint64_t fp = s->s_fp_expected;

	(void)unused;
	USCHED_PROBE_THREAD(block, u);
	if (unlikely(fp & FP_SHARED))
		block_sharing(sp, s, u);
	fp_store(sp);
	if (is_elsewhere(sp, u))
		block_cold(sp, s, u);
	if (unlikely(fp_saved(sp) != (unsigned)fp)) {
		block_unexpected(sp, s, u);
		return;		/* never: by a jump, as a call has its return */
	}
	switch_from(s);
}

/* Is there a thread that calls? */
static inline int inside(const char *call)
{
	if (likely(usched_current != NULL))
		return 1;
	usched_other_copy(call);
	return 0;
}

/* Marked as used, since the usched_live of portable builds names it. */
__attribute__((used)) UNKNOWN int ustack_block(void)
{
	int rc;

	CONTRACT(inside(__func__),
		 "ustack_block: called outside of a thread");
#if defined(USCHED_SWITCH) && !defined(USCHED_PORTABLE)
	USCHED_SWITCH(rc);
#else
	rc = usched_save(usched_blocked, NULL);
#endif
	UHARD(arrived());
	return rc;
}

/*
 * A THREAD ENDS
 *
 * On the stack of the thread first, then on that of the dispatcher.
 */

/* Forgets a thread that has ended, and starts a round. Runs at s_base. */
static SWITCHES void thread_done(void *arg)
{
	struct ustack *u = arg;
	struct usched *s = u->u_sched;

	usched_current = NULL;
	usched_running = NULL;
	fp_end(s);
	UHARD(at_base(s));
	UHARD(ended(u));
	lane_put(s, u);
	u->u_top = ENDED;
	if (s->s_steps != 0)
		s->s_steps |= STEP_ENDED;
	if (s->s_done != NULL)
		s->s_done(s, u);	/* u may be gone now */
	round_start(s);
}

/*
 * u has ended. s_again() may let it begin again as another thread at the bottom
 * of its lane, which is not below us. u_top stays that of the former thread,
 * which also had this lane and buffer. s_prologue also serves as a flag. If it
 * is 0, s_again() is not asked: the hard mode has to hear of each end, and in
 * portable builds no call goes up the stack. Nor is it asked under Valgrind. (u
 * is loaded a second time, so that no register has to be saved.)
 */
static ALWAYS_INLINE UNCHECKED void thread_reuse(struct ustack *u)
{
	struct usched *s = u->u_sched;

	if (s->s_again == NULL || s->s_prologue == 0)
		return;
	fp_end(s);
	if (!s->s_again(s, u))
		return;
	u = usched_current;
	USCHED_PROBE_THREAD(make, u);	/* it is another thread now */
	USCHED_PROBE_THREAD(begin, u);
	usched_launch(u->u_sched->s_lane[u->u_lane].l_bottom, u->u_f, u->u_arg);
}

/* Ends u, unless it begins again. */
static ALWAYS_INLINE SWITCHES void thread_end(struct ustack *u)
{
	UHARD(leave(u, NULL));
	USCHED_PROBE_THREAD(end, u);
	thread_reuse(u);
	u = usched_current;
	usched_jump(u->u_sched->s_base, thread_done, u);
}

/* Ends a thread that has returned. usched_launch() calls it on its stack. */
void usched_ended(void)
{
	thread_end(usched_current);
}

UNCHECKED void ustack_abort(void)
{
	CONTRACT(inside(__func__),
		 "ustack_abort: called outside of a thread");
	if (unlikely(usched_running->s_openmp != 0))
		openmp_check(usched_current, "ends");
	thread_end(usched_current);
}

/*
 * A RUN
 *
 * From the call of usched_run() to its return. In between, its frame lies above
 * s_base, and all that usched_left() needs is in s_frame (I8).
 */

/*
 * Begins a run, of u alone if u is not NULL. fp are the control words of the
 * caller. mark is in the caller's stack frame.
 */
static ALWAYS_INLINE UNCHECKED void run_begin(struct usched *s,
					      struct ustack *u, int steps,
					      unsigned fp,
					      struct usched *volatile *mark)
{
	*mark = NULL;		/* first: see core/leave.h */
	check(s);
	*mark = s;
	s->s_step  = u;
	s->s_steps = steps;
	if (s->s_lane == NULL)
		s->s_lane = &s->s_native;
	if (s->s_native_stack == NULL) {	/* the first run */
		check_once(s);
		openmp_look();
		s->s_fp   = fp;		/* what blocks compare with */
		s->s_prologue = HARD || RUNNING_ON_VALGRIND ? 0 : PROLOGUE;
	}
	s->s_frame = (struct usched_frame) { s, usched_current, usched_here,
					     mark, fp };
	usched_here = &s->s_frame;
	hooks(s, 1);
	UHARD(begin(s));
	if (fp != s->s_fp)
		fp_set(s->s_fp);
}

#if !defined(USCHED_PORTABLE)
/* Starts the first round; sp is where the run will end. (Not in portable.h.) */
static ALWAYS_INLINE SWITCHES void first_switch(char *sp, struct usched *s)
{
	base_set(s, sp, (char *)((uintptr_t)sp & ~(uintptr_t)15));
	if (s->s_steps != 0 && is_simple(s->s_step)) {
		struct ustack *u = s->s_step;

		s->s_step = NULL;
		resume_top(s, u);
	}
	usched_jump(s->s_base, round_start, s);
}

static SWITCHES void first_round(char *sp, void *sched)
{
	first_switch(sp, sched);
}
#endif

/* Runs u alone, or all threads if u is NULL. */
static ALWAYS_INLINE UNCHECKED void run(struct usched *s, struct ustack *u,
					unsigned fp)
{
	struct usched *volatile mark;

	run_begin(s, u, u != NULL ? STEPS : 0, fp, &mark);
	usched_save(first_round, s);
	/* After a block in a step: s_fp. A call-back may leave others. */
	if (fp != s->s_fp || s->s_steps != STEPS)
		fp_put(s, fp);
	run_end(s);
}

UNCHECKED void usched_run(struct usched *s)
{
	struct fp_words scratch;

	run(s, NULL, fp_get(&scratch));
}

#include "core/step.h"

/*
 * MAKING AND FORGETTING THREADS
 */

void ustack_init(struct ustack *u, struct usched *s, void (*f)(void *),
		 void *arg, void *stack, int len)
{
	CONTRACT(f != NULL && len >= 0 && (stack != NULL || len == 0),
		 "ustack_init: no function, or a length without a buffer");
	memset(u, 0, sizeof *u);
	u->u_sched = s;
	u->u_f     = f;
	u->u_arg   = arg;
	u->u_stack = stack;
	u->u_len   = buffer_size(len);
	u->u_top   = NEW;
	/* Tracers know no names of variables, such as that of a static thread. */
	__asm__("" : "+r"(u));
	USCHED_PROBE_THREAD(make, u);
}

void ustack_fini(struct ustack *u)
{
	CONTRACT(!usched_runs(u), "ustack_fini: the thread is running; "
		 "after a longjmp() out of it call usched_left() first");
	UHARD(ended(u));
	if (u->u_top == NEW || u->u_top == NULL)
		private_unused(u);
	else if (u->u_top != ENDED && u->u_sched->s_lane != NULL) {
		USCHED_PROBE_THREAD(end, u);
		hooks_gone(u);
		lane_put(u->u_sched, u);
		u->u_sched->s_forgotten_nr++;
	}
	u->u_top = ENDED;
}
