/* SPDX-License-Identifier: MIT */
/* usched.h: a dispatcher of cooperative user-space threads. */

#ifndef USCHED_H
#define USCHED_H

/*
 * All threads of a dispatcher (struct usched) share its stack. A thread that
 * blocks keeps only the slice of stack that it really uses, in a buffer of its
 * own. A scheduler, three call-backs, decides which thread runs. How it works
 * is told at the top of usched.c.
 *
 *	static struct usched s = {
 *		.s_next = next, .s_alloc = alloc, .s_free = release
 *	};
 *	static struct ustack u;
 *
 *	ustack_init(&u, &s, f, arg, NULL, 0);
 *	usched_run(&s);		returns when next() has returned NULL
 *
 * examples/hello.c is the whole program. The call-backs:
 *
 *	s_next   returns a thread that is new or blocked, never a thread that
 *	         has ended; or NULL, and usched_run() returns.
 *	s_alloc  returns at least size bytes, aligned for a long, or NULL. If
 *	         size % 8 is 4, only size - 4 of them will be used.
 *	s_free   takes back what s_alloc gave, with the same size.
 *
 * A scheduler has to remember which threads can run. It wraps ustack_init() and
 * ustack_block() in functions that say so, and hands the threads out again in
 * s_next(). Functions return 0 or a negative errno. A failure has changed
 * nothing.
 *
 * This file in order: structs; functions for all; obligations and caveats;
 * functions for schedulers; for other modules; inlined parts.
 */

#include <stddef.h>

/*
 * The hard mode (uhard.h) is for all files of a program, or for none: so its
 * functions have names of their own, and what is mixed does not link.
 */
#if defined(USCHED_HARD)
#define ustack_init	ustack_init_hard
#define ustack_block	ustack_block_hard
#define usched_run	usched_run_hard
#define usched_step	usched_step_hard
#define usched_left	usched_left_hard
#define usched_lanes	usched_lanes_hard
#define usched_live	usched_live_hard
#define usched_live_step usched_live_step_hard
#define usched_live_enter usched_live_enter_hard
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define USCHED_VERSION "0.3.0"

struct ustack;
struct usched_queue;
struct usched_moves;
struct usched_own;
struct usched_own_deep;
struct usched_own_lane;
struct usched_stats;
struct usched_waits;
struct uwait_host;

#if defined(USCHED_HARD)
/* What the hard mode (uhard.h) keeps of a lane. */
struct uhard_lane {
	char                *k_low;	/* poisoned, and stays so: from here */
	char                *k_high;	/* to here; NULL: nothing */
	const struct ustack *k_last;	/* ran here last; may be gone */
	void               (*k_f)(void *);	/* its function */
	void                *k_arg;	/* and the argument of that */
	int                  k_shut;	/* the lane is inaccessible, or about
					 * to be (atomic) */
	unsigned             k_opened;	/* how often it was opened (atomic) */
};
#endif

/*
 * A thread. A scheduler may embed this struct as the first member of its own. A
 * new thread comes from ustack_init(), or is filled by hand: zeroed, with
 * u_sched and u_f set. u_arg, u_lane, and a first buffer in u_stack and u_len,
 * may be set.
 */
struct ustack {
	/* For any thread to read. */
	struct usched *u_sched;		/* its dispatcher */
	void          *u_stack;		/* buffer for the slice, or NULL: it has
					 * none, whatever u_len says */
	void         (*u_f)(void *);	/* what it runs */
	void          *u_arg;		/* and on what */
	int            u_len;		/* bytes in u_stack */

	/* The scheduler's: the dispatcher never looks. */
	short          u_mark;

	/* The scheduler may set this before the thread first runs: the number
	 * of a lane, 1 to the nr of usched_lanes(), or a result of
	 * usched_lane_own(). 0: any. */
	short          u_lane;

	/* The dispatcher's own: see "The top of a slice" in usched.c. With a
	 * bit of USCHED_AWAY, the thread does not lie in its lane, ready to
	 * run. */
	char          *u_top;
#if defined(USCHED_HARD)
	struct uhard_stack *u_hard;	/* uhard.h */
#endif
};

#define USCHED_AWAY	7

/* A stretch of stack on which threads run, one at a time. */
struct usched_lane {
	char          *l_bottom; /* slices end here; the stack grows down */
	struct ustack *l_owner;  /* its live slice lies here; or NULL */
	int            l_bound;  /* threads that have to come back to here */
	int            l_free;   /* next free lane */
	char          *l_low;    /* lowest usable byte; NULL on lane 0 */
#if defined(USCHED_HARD)
	struct uhard_lane l_hard;
#endif
};

/* Describes a call of usched_run() that has not returned: I8 in usched.c. */
struct usched_frame {
	struct usched       *f_sched;
	struct ustack       *f_self;	/* the thread that called, or NULL */
	struct usched_frame *f_up;	/* the call around it, or NULL */
	struct usched *volatile *f_mark; /* in its stack frame: f_sched */
	unsigned             f_fp;	/* floating-point control before */
};

/* A dispatcher. Zeroed, with the first three fields set, it is ready. */
struct usched {
	/* The scheduler's, before usched_run(). The last three may be NULL. */
	struct ustack *(*s_next) (struct usched *s);
	void          *(*s_alloc)(struct usched *s, int size);
	void           (*s_free) (struct usched *s, void *buf, int size);
	void           (*s_done) (struct usched *s, struct ustack *u);
	int            (*s_preempt)(struct usched *s, struct ustack *u);
	int            (*s_again)(struct usched *s, struct ustack *u);
	int              s_coroutine;	/* 1: see usched_pass() */

	/* Prepared threads. Set by s_next(), if at all. */
	int                 s_left;    /* may run before s_next() is called */
	unsigned            s_ahead;   /* fetch s_queue so far ahead; 0: not */
	struct ustack      *s_hot;     /* runs next, or NULL */
	struct usched_queue *s_queue;  /* runs when s_hot is NULL */
	struct ustack *(*s_quick)(struct usched *s); /* "Prepared threads" */
	int                *s_gate;    /* becomes 0 when a stack is left */

	/* The dispatcher's own. */
	char               *s_base;    /* stack pointer as a round starts */
	char               *s_exit;    /* stack pointer saved by usched_run() */
	struct usched_lane *s_lane;    /* by number; [0] is the native one */
	int                 s_lane_nr; /* lanes beside the native one */
	int                 s_turn;    /* the shared lane given out last */
	int                 s_bare;    /* bytes not to be stored: BARE, or 0 */
	int                 s_free_lane; /* first free lane, or 0 */
	unsigned            s_fp;      /* control words of the first run */
	unsigned            s_usual;   /* s_fp; on lane 0 it never fits */
	struct usched_lane  s_native;  /* lane 0 */
	const void         *s_home;    /* the stack that lane 0 is part of */
	size_t              s_mapped;  /* bytes mapped for lanes */
	struct usched_own  *s_own;     /* lanes for deep threads, or NULL */
	size_t              s_own_warm; /* bytes in lanes of s_own_free */
	int                 s_own_free; /* first that has been left, or 0 */
	int                 s_forgot;  /* blocked, then ustack_fini() */
	int                 s_steps;   /* it runs for usched_step(), */
	struct ustack      *s_step;    /* which has this thread still to run */
	struct usched_stats *s_stats;  /* ustats.h */
	struct usched_moves *s_moves;  /* where the scheduler counts, or NULL */
	struct usched_waits *s_listed; /* uwaits.h */

	/* The scheduler's, for waits that end (uwait.h). Each may be NULL. */
	int               (*s_wait)(struct usched *s);
	void              (*s_wake)(struct usched *s, struct ustack *u);
	int               (*s_make)(struct usched *s, void (*f)(void *),
				    void *arg);
	struct uwait_host  *s_waits;   /* uwait.h, or NULL */

	struct usched_frame s_frame;   /* while it runs, or was left */
#if defined(USCHED_HARD)
	struct uhard_sched *s_hard;    /* uhard.h */
#endif
};

/*
 * Runs threads until s_next() returns NULL. May be called again: with lanes
 * from anywhere; without, while threads are blocked, only on the same stack,
 * and not from deeper in it than the first time.
 *
 * A thread may call usched_run() for another dispatcher. A thread of the inner
 * dispatcher may do the same. Until the inner usched_run() returns, no other
 * thread of the outer dispatcher runs. An inner thread that blocks makes room
 * only for other inner threads, and the inner s_next() cannot block the outer
 * thread. Inner threads may use what is on the stack of the outer thread
 * meanwhile. After the return the outer thread is as before, and may block. An
 * inner dispatcher without lanes has its threads on the stack of the outer
 * thread; while some are blocked no other thread may run that dispatcher.
 */
void usched_run(struct usched *s);

/*
 * Makes a new thread that will run f(arg). Allocates nothing. Any thread. A
 * first buffer of len bytes may be given, so that a block needs no s_alloc().
 * s_free() must be able to take it: a buffer that is larger than the slice by
 * more than 4 KiB is given back for a smaller buffer. Threads start with the
 * floating-point control words of the first caller of usched_run(), which also
 * s_next(), s_done() and s_again() see. From then on they keep their own.
 */
void ustack_init(struct ustack *u, struct usched *s, void (*f)(void *),
		 void *arg, void *stack, int len);

/*
 * Blocks the running thread, until s_next() returns it. 0, or -ENOMEM:
 * s_alloc() gave no buffer, nothing has changed, and the thread goes on. (If
 * the thread was put in a run queue before, it must be taken out again.)
 */
int ustack_block(void);

/*
 * Ends the running thread from any depth. s_done() is called; no C++ destructor
 * or clean-up handler is.
 */
#if defined(__GNUC__)
__attribute__((noreturn))
#endif
void ustack_abort(void);

/*
 * ustack_self() is the running thread; NULL outside of threads, also in
 * s_next() and s_done(). In s_again() it is the thread that has ended.
 * usched_self() is its dispatcher, or NULL. Any thread; ustack_self() also in a
 * signal handler. They are defined at the end of this file, inline if possible.
 */
#if defined(__x86_64__) && defined(__ELF__) && defined(__LP64__)
static __inline__ struct ustack *ustack_self(void);
static __inline__ struct usched *usched_self(void);
#else
struct ustack *ustack_self(void);
struct usched *usched_self(void);
#endif

/*
 * Gives lanes to a dispatcher: nr (1 to USCHED_LANE_MAX) of size bytes each.
 * They are reserved, and cost memory only where threads have touched them.
 * With lanes a thread that blocks stays in place until another thread needs its
 * lane. To be called while no thread is alive. 0, -EINVAL, -ENOMEM,
 * -EBUSY (it runs, or has threads), -ENOSYS (no lanes in this build, or under
 * Valgrind).
 *
 * Beyond these nr, more lanes of the same size are mapped as they are needed,
 * 64 for each of the nr, up to 32767 in all: a new thread of a function whose
 * threads have blocked with 2 KiB of stack or more is given one of its own. It
 * is never copied, and asks s_alloc() for nothing (u_stack is NULL). The memory
 * of such lanes goes back to the system when their threads end or become
 * shallow, but for some 4 MiB. If none can be mapped, the thread shares a lane
 * as all others do.
 */
int usched_lanes(struct usched *s, int nr, size_t size);

#define USCHED_LANE_MAX	32000	/* two mappings each; Linux allows 65530 */

/*
 * Bytes below each lane that cannot be touched. A function with a larger frame
 * may skip them, unless it is compiled with -fstack-clash-protection.
 */
#define USCHED_GUARD	65536

/* Frees the lanes. Threads that are left must never run again. */
void usched_fini(struct usched *s);

/*
 * Forgets a new or blocked thread that will never run again, before
 * usched_fini() if that is called. Its buffer is still the scheduler's to free:
 * u_stack, of u_len bytes.
 */
void ustack_fini(struct ustack *u);

/*
 * OPTIONAL CALL-BACKS
 *
 *	s_done   The thread has returned or aborted. It may be freed here, and
 *	         so may its last buffer (u_stack, u_len): that belongs to the
 *	         scheduler. The dispatcher frees only what it replaces.
 *	s_preempt
 *	         For upreempt.h, which says what it has to do.
 *	s_again  The thread has returned or aborted. If this sets u_f and u_arg,
 *	         and returns 1, the same struct ustack begins again, as a new
 *	         thread, on the same lane and with the same buffer: that costs
 *	         less than the end of a thread and the start of another. If it
 *	         returns 0 it has changed nothing, and s_done is called. Some
 *	         builds, and ustats.h, never call it.
 *
 *	s_wait, s_wake, s_make
 *	         For waits that end: uwait.h says what they have to do.
 *
 * s_next() and s_done() run on the stack of the dispatcher. s_alloc(), s_free()
 * and s_again() run on the stack of the thread that blocks or has ended. None
 * of them may block it. s_again() must not call ustack_abort(), since its
 * thread has ended already.
 *
 * WHO MAY CALL WHAT
 *
 *	a thread			ustack_block(), ustack_abort(),
 *					usched_block(), usched_pass()
 *	the native thread that runs,
 *	or ran last, the dispatcher	ustack_fini()
 *	the same native thread, not in	usched_run(), usched_step(),
 *	a thread of this dispatcher	usched_enter(), usched_lanes(),
 *					usched_fini(), usched_spare(),
 *					usched_trim()
 *	the native thread that left	usched_left()
 *	the dispatcher by a longjmp()
 *	any thread, any native thread	ustack_init(), ustack_self(),
 *					usched_self(), usched_fail()
 *
 * Other functions say it themselves. None of these may be called by a signal
 * handler except ustack_self().
 * Signals may arrive at any instruction.
 *
 * CAVEATS
 *
 * - A pointer into the stack of a thread is valid only while that thread runs.
 *   Threads that share data keep it on the heap or in static storage.
 * - Thread-local storage, errno and the signal mask belong to the native
 *   thread: other threads change them while this thread is blocked.
 * - A blocking system call stops every thread of the dispatcher. A native lock
 *   held across a block deadlocks the next thread that wants it; a recursive
 *   lock admits it, since the native thread owns it already.
 * - A C++ thread must not block in a catch handler, nor in a destructor that
 *   runs because of an exception, unless ucxx.cc is linked. The C++ library
 *   keeps the exceptions being handled for each native thread, and ucxx.cc for
 *   each of ours. The hard mode reports such a block.
 * - pthread_exit() ends the native thread, with all threads of its dispatcher.
 * - A longjmp() out of usched_run() is followed by usched_left(), which says
 *   from where the jump may be made.
 * - Clang's SafeStack and ShadowCallStack keep parts of the stack elsewhere: no
 *   file that includes usched.h compiles with them, and usched_run() refuses a
 *   program with SafeStack. Code with gcc's -fsplit-stack cannot block. Shadow
 *   stacks of the processor must be off.
 * - usched.c compiled with USCHED_SHARE_FP does not keep floating-point control
 *   words for each thread. That is for programs whose threads never change
 *   them: rounding, traps, flushing of denormals. A switch is faster then, on
 *   AMD.
 * - On machines without a block in usched.c, and with USCHED_PORTABLE, the
 *   switch is setjmp() and longjmp(), and all threads run on the native stack.
 *   Floating-point control words are kept only on machines that usched.c knows.
 * - With a dynamic loader, usched_current and usched_running take static
 *   thread-local storage (initial-exec): a shared library that contains them
 *   can be loaded by dlopen() only while the loader has some to spare.
 */

/*
 * PREPARED THREADS
 *
 * s_next() costs a call on another stack. A scheduler that knows which threads
 * run next may prepare them, and the dispatcher takes them itself. While s_left
 * is more than 0, a thread that blocks is followed by s_hot, which becomes
 * NULL; or, if that is NULL, by the first of s_queue, which is taken out. Each
 * counts s_left down. If there is none, or s_left is 0, s_next() is called, and
 * may set s_left again. A prepared thread is new or blocked, and was made by
 * ustack_init(). A module may replace s_next while the scheduler runs, to be
 * asked first. The module then sets s_left to 0. A scheduler's function sets
 * s_left only while s_next points to that function.
 *
 * A scheduler whose queues are shared with other native threads may set s_quick
 * and s_gate instead. If no thread is prepared, the dispatcher may call
 * s_quick() before s_next(), in builds with waits in place. s_quick() runs on
 * the stack of the thread that blocks, and must not sleep. It returns NULL, or
 * a thread that lies in its lane (no bit of USCHED_AWAY in u_top). The
 * dispatcher sets *s_gate to 0 when that stack has been left. Before that, no
 * other native thread may run the thread that blocks.
 */

/* Threads, first in, first out. Others may ask for its length (atomic). */
struct usched_queue {
	struct ustack **q_ring;
	unsigned        q_head;	/* next to run */
	unsigned        q_tail;	/* next free place */
	unsigned        q_mask;	/* places - 1, a power of two less 1 */
};

/*
 * Lets s run its threads on the lanes of another dispatcher, which still owns
 * them. For schedulers that let threads go on in another native thread after
 * they have run. Such a scheduler sets u_lane of each thread before it first
 * runs, and u_sched to the dispatcher that runs it next. It must let only one
 * native thread at a time run the threads of a lane, where a run lasts from
 * s_next() until the next s_next(). To be called while no thread of s is alive.
 * 0, -EINVAL: the other has no lanes; -EBUSY, as above.
 */
int usched_lanes_share(struct usched *s, const struct usched *other);

/*
 * Lanes for deep threads, of all dispatchers that share lanes: see "Deep
 * threads" in usched.c.
 */
struct usched_own {
	int    o_known;		/* some functions are deep (atomic) */
	int    o_used;		/* mapped lanes: numbers after s_lane_nr */
	int    o_lock;		/* protects o_used, and the next two */
	int    o_free;		/* first lane without memory, or 0 */
	int    o_rest;		/* do not try to map, so many times */
	size_t o_size;		/* bytes from a lane to the next */
	struct usched_own_deep *o_deep;	/* functions, */
	struct usched_own_lane *o_lane;	/* and lanes, from the first */
};

/*
 * For schedulers that set u_lane. Returns the number of an own lane, above the
 * nr of usched_lanes(), for a new thread that will run f; or 0: the scheduler
 * chooses a lane. The thread takes the lane with its first run. When it ends,
 * the dispatcher that runs it then gets the lane back. By the native thread that
 * runs s.
 */
static __inline__ int usched_lane_own(struct usched *s, void (*f)(void *));

/* Not API. The part of usched_lane_own() for programs with deep functions. */
int usched_lane_known(struct usched *s, void (*f)(void *));

static __inline__ int usched_lane_own(struct usched *s, void (*f)(void *))
{
	return __builtin_expect(s->s_own != NULL && __atomic_load_n(
				&s->s_own->o_known, __ATOMIC_RELAXED) != 0, 0) ?
		usched_lane_known(s, f) : 0;
}

/*
 * Returns how many bytes of the lanes of s are resident below the slices that
 * are there now. By the native thread that runs or ran s, outside of its
 * threads, or in s_next(). 0 if the system does not tell, or another dispatcher
 * owns the lanes.
 */
size_t usched_spare(const struct usched *s);

/*
 * Gives that memory of each lane to the system, but for kept bytes next to the
 * slice. May be called where usched_spare() may. Meant for a scheduler that has
 * nothing to do for some time: it makes a system call for each lane, and the
 * next touch of each page costs a fault. In the hard mode it does nothing. No
 * other dispatcher may use the lanes (usched_lanes_share()).
 */
void usched_trim(struct usched *s, size_t kept);

/*
 * Runs one thread, new or blocked, until it blocks (0) or ends (1): for its
 * caller it is a coroutine. s_next() is not asked. Threads that it wakes wait
 * for usched_run() or another usched_step(). A call costs about 2.5 switches
 * between threads; less if the thread blocks by usched_pass(). s_again() may
 * let the thread go on as another thread. s_left becomes 0, and s_quick NULL,
 * until s_next() sets them again. May be called where usched_run() may, while
 * that does not run. The schedulers of this library run their threads
 * themselves.
 */
int usched_step(struct ustack *u);

/*
 * A shell is a function around the function of a thread: a module calls its own
 * code before and after. Such a thread is made to run ustack_shell() on a block
 * that begins with struct ushell. For questions by function, such as which
 * threads are deep, it counts as a thread of h_f. It may be preempted in h_f
 * (upreempt.h) if h_run itself calls h_f.
 */
struct ushell {
	void (*h_run)(struct ushell *h);	/* what the thread really runs */
	void (*h_f)(void *);			/* the function inside, */
	void  *h_arg;				/* and its argument */
};

/* Calls h_run of the struct ushell at shell. */
void ustack_shell(void *shell);

/* Not API. Returns shell, with its type. */
const struct ushell *ustack_shell_of(void *shell);

/* Returns the function that a thread of f and arg stands for. */
static __inline__ void (*ustack_f(void (*f)(void *), void *arg))(void *)
{
	return __builtin_expect(f == ustack_shell, 0) ? 
		ustack_shell_of(arg)->h_f : f;
}

/*
 * Ends a run that a longjmp() has left: puts back all that a return of
 * usched_run(s) would have put back, ustack_self() and the floating-point
 * control words among it. If the jump has left runs inside of that, too, these
 * are ended first. Called where the jump has landed, before any other function
 * of the library. Does nothing if s does not run. A thread or a call-back of s
 * must not call this function: the library cannot always detect such a call.
 *
 * A jump may be made from s_next(), s_alloc(), s_free(), s_done() and
 * s_again(), and from a thread's own code, at any depth; from a signal handler
 * only if that has interrupted a thread's own code. s_preempt() must not jump.
 * Nor may anyone jump out of a scheduler that calls usched_run() itself, such
 * as rr.
 *
 * A thread that ran then has ended, as by ustack_abort(), but s_done() is not
 * called: its struct and buffer are the scheduler's, and must be there until
 * usched_left() returns, as must the struct of each dispatcher that was left.
 * ustack_fini() may be called for the thread, and changes nothing. All others
 * are as they were: the next usched_run(s) runs them (without lanes, only from
 * where that is permitted). A thread that s_next() was about to return, or
 * s_done() to free, is the scheduler's to remember.
 *
 * Glibc's check of longjmp() with _FORTIFY_SOURCE refuses a jump to a stack at
 * a lower address. The main stack is above all lanes, but that of another
 * native thread may be below them, and so may the lane of a thread that runs a
 * dispatcher. The file that jumps is compiled without _FORTIFY_SOURCE then.
 * ThreadSanitizer does not permit such jumps.
 */
void usched_left(struct usched *s);

/*
 * Ends the process after a broken contract: writes the contract to standard
 * error and aborts. A place for a breakpoint. Schedulers may call it for
 * contracts of their own. Any thread.
 */
#if defined(__GNUC__)
__attribute__((noreturn, cold))
#endif
void usched_fail(const char *contract);

/*
 * Counts how a scheduler has moved threads between native threads. The native
 * thread that runs the dispatcher counts; others may read.
 */
struct usched_moves {
	long thefts;		/* times that threads were taken from another */
	long stolen;		/* threads taken */
	long stops;		/* times that the other was asked to stop */
	long forced;		/* of these without an answer: with a barrier */
	long fences;		/* all barriers, also before a sleep */
};

/*
 * For modules and schedulers: marks a place where the running thread may block.
 * In the hard mode, with yield=SEED (uhard.h), the thread gives way here now
 * and then, if its dispatcher has an s_preempt(); those of rr, ll and ws have.
 * In other builds, and outside of threads, it does nothing.
 */
#if defined(USCHED_HARD)
void usched_point(void);
#else
static __inline__ void usched_point(void)
{
}
#endif

/*
 * For other modules: each usched_run() calls these on its native thread, as it
 * begins and before it returns. If it does not return, usched_left() calls
 * h_end(), where ustack_self() still is the thread of s that was left, if a
 * thread ran. ustack_fini() calls h_gone(), if that is not NULL, before a
 * blocked thread leaves its lane. Given once, and before any dispatcher runs.
 */
struct usched_hook {
	void (*h_begin)(struct usched *s);
	void (*h_end)  (struct usched *s);
	void (*h_gone) (struct ustack *u);
	struct usched_hook *h_next;
};

void usched_hook(struct usched_hook *h);

/*
 * For modules and schedulers: stands in a file outside of functions, and
 * nothing in that file is preempted (upreempt.h). It notes in a table where the
 * code of the object file begins and ends, in each section that compilers use.
 */
#if defined(__ELF__)
#define UPREEMPT_SECTION(name)						\
	".pushsection " name ",\"ax\",%progbits\n"			\
	".subsection 8191\n772:\n.popsection\n"			\
	".pushsection upreempt_never,\"a\",%progbits\n.balign 4\n"	\
	".long " name " - ., 772b - .\n.popsection\n"
#define UPREEMPT_NEVER							\
	__asm__(UPREEMPT_SECTION(".text")				\
		UPREEMPT_SECTION(".text.hot")				\
		UPREEMPT_SECTION(".text.hot.")				\
		UPREEMPT_SECTION(".text.unlikely")			\
		UPREEMPT_SECTION(".text.unlikely.")			\
		UPREEMPT_SECTION(".text.startup"))
#else
#define UPREEMPT_NEVER	struct upreempt_never
#endif

#if defined(__x86_64__) && defined(__ELF__)
/* Not API. */
__attribute__((tls_model("initial-exec")))
extern __thread struct ustack *usched_current;
__attribute__((tls_model("initial-exec")))
extern __thread struct usched *usched_running;
#endif

#if defined(__x86_64__) && defined(__ELF__) && defined(__LP64__)
/*
 * By assembly, since a compiler would keep the offset over a block, in a
 * register that has to be saved. Volatile, since it would keep the value, too,
 * and a thread may go on in another native thread.
 */
#define USCHED_TLS(type, name) __extension__({				\
	type usched_tls;						\
									\
	__asm__ volatile("mov {" #name "@gottpoff(%%rip), %0|"		\
				"%0, " #name "@gottpoff[rip]}\n\t"	\
			 "mov {%%fs:(%0), %0|%0, fs:[%0]}"		\
			 : "=r"(usched_tls));				\
	usched_tls;							\
})

static __inline__ struct ustack *ustack_self(void)
{
	return USCHED_TLS(struct ustack *, usched_current);
}

static __inline__ struct usched *usched_self(void)
{
	return USCHED_TLS(struct usched *, usched_running);
}
#endif

/*
 * For schedulers: ustack_block() by a thread, without a call where that is
 * possible. A call and a return for each block mislead the processor, which
 * pairs them. The compiler saves only registers that it needs later. The
 * assembly names all registers as lost. In a file without -mavx512f, gcc has no
 * names for those of AVX-512. So a function that uses them there, by a target
 * attribute, must not wait. With USCHED_CALL defined for the file, it may.
 */
#if defined(__x86_64__) && defined(__ELF__) && defined(__LP64__) &&	\
	defined(__GNUC__) && !defined(USCHED_PREEMPT) &&		\
	!defined(USCHED_HARD) && !defined(USCHED_PORTABLE) &&		\
	!defined(USCHED_CALL) && !defined(__APX_F__) &&			\
	!defined(__AMX_TILE__) && !defined(__AMXTILE__)
#define USCHED_IN_PLACE
#endif

#if defined(__x86_64__) && defined(__ELF__) && defined(__LP64__)
/* Not API. The switch itself: rc is 0 or -ENOMEM. */
#if defined(__AVX512F__) || defined(__clang__)
#define USCHED_CLOBBER_512						\
	"xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22",	\
	"xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29",	\
	"xmm30", "xmm31", "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7",
#else
#define USCHED_CLOBBER_512
#endif
#if defined(__SSE__)
#define USCHED_CLOBBER_SSE						\
	"xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",	\
	"xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",	\
	"xmm15",
#else
#define USCHED_CLOBBER_SSE
#endif
#if defined(__MMX__)
#define USCHED_CLOBBER_MMX						\
	"mm0", "mm1", "mm2", "mm3", "mm4", "mm5", "mm6", "mm7",
#else
#define USCHED_CLOBBER_MMX
#endif
#define USCHED_STRING(name)	#name
#define USCHED_NAME(name)	USCHED_STRING(name)
#if defined(_SOFT_FLOAT)	/* gcc with -mno-80387 has no names for them */
#define USCHED_CLOBBER_X87
#else
#define USCHED_CLOBBER_X87						\
	"st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)",	\
	"st(7)",
#endif
/* Not API. Returns rc. */
int usched_refused(int rc);
/* In braces, for compilers: AT&T's syntax | Intel's. */
#define USCHED_JUMP(live)						\
	"lea {1f(%%rip), %%rcx|rcx, 1f[rip]}\n\t"			\
	"jmp " USCHED_NAME(live) "@PLT\n1:"
#define USCHED_CLOBBER							\
	"rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13",	\
	"r14", "r15", USCHED_CLOBBER_X87 USCHED_CLOBBER_MMX		\
	USCHED_CLOBBER_SSE USCHED_CLOBBER_512 "cc", "memory"
#define USCHED_SWITCH_TO(rc, live)					\
	__asm__ volatile(USCHED_JUMP(live)				\
			 : "=a"(rc) : : "rdi", USCHED_CLOBBER)
#define USCHED_SWITCH(rc)	USCHED_SWITCH_TO(rc, usched_live)
#endif

#if defined(USCHED_IN_PLACE)
/* Not API. Returns rc, which USCHED_SWITCH() has set. */
static __inline__ __attribute__((always_inline)) int usched_switched(int rc)
{
	if (__builtin_expect(rc != 0, 0)) {
		/*
		 * A real call: else the locals might be in the red zone. And to
		 * what the compiler does not know: gcc takes it from the
		 * callees of a function, but not from assembly, that a static
		 * variable of the file may change when the function is called.
		 */
		rc = usched_refused(rc);
		__asm__ volatile("" : "+r"(rc));
	}
	return rc;
}
#endif

/* Blocks the running thread, as ustack_block() does, but without a call. */
static __inline__ __attribute__((always_inline)) int usched_block(void)
{
#if defined(USCHED_IN_PLACE)
	int rc;

	USCHED_SWITCH(rc);
	return usched_switched(rc);
#else
	return ustack_block();
#endif
}

/* Runs u, as usched_step() does, but without a call. */
static __inline__ __attribute__((always_inline))
int usched_enter(struct ustack *u)
{
#if defined(USCHED_IN_PLACE)
	int rc;

	__asm__ volatile(USCHED_JUMP(usched_live_enter)
			 : "=a"(rc), "+D"(u) : : USCHED_CLOBBER);
	return usched_switched(rc);
#else
	return usched_step(u);
#endif
}

/*
 * Blocks the running thread of a dispatcher that has s_coroutine set, and that
 * only usched_enter() and usched_step() run. Its threads have no floating-point
 * control words of their own: as a function does, a thread finds those of the
 * caller of the step, and leaves its own there. With usched_enter() a step
 * takes half the time of usched_step() and ustack_block(), or less if the
 * thread blocks now here, now there. 0, or -ENOMEM as ustack_block().
 */
static __inline__ __attribute__((always_inline)) int usched_pass(void)
{
#if defined(USCHED_IN_PLACE)
	int rc;

	USCHED_SWITCH_TO(rc, usched_live_step);
	return usched_switched(rc);
#else
	return ustack_block();
#endif
}

#ifdef __cplusplus
}
#endif

#if defined(__has_feature)
#if __has_feature(safe_stack) || __has_feature(shadow_call_stack)
#error "usched: copied stacks and -fsanitize=safe-stack or shadow-call-stack do not mix"
#endif
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define USCHED_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#undef  USCHED_SANITIZED
#define USCHED_SANITIZED
#endif
/* USCHED_SANITIZE_ANYWAY: no thread will run code of this file. */
#if defined(USCHED_SANITIZED) && !defined(USCHED_HARD) &&		\
	!defined(USCHED_SANITIZE_ANYWAY)
#error "usched: -fsanitize=address and -fsanitize=thread need -DUSCHED_HARD for all files, and uhard.c"
#endif

#endif /* USCHED_H */
