/* SPDX-License-Identifier: MIT */
/* core/sched.h: the dispatcher, for those who write schedulers and modules. */

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
 * a thread that lies in its lane, ready to run: in u_top it has no bit of
 * USCHED_NOT_READY. The
 * dispatcher sets *s_gate to 0 when that stack has been left. Before that, no
 * other native thread may run the thread that blocks.
 */

#define USCHED_NOT_READY	7

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
 * Maps the guard of a lane, which else is mapped when the first thread begins
 * there. 0, -ENOMEM: no mappings are left. Then threads share lanes with guards;
 * but if the scheduler has set u_lane the program ends, so that calls this before.
 * Where s_next() may be called.
 */
int usched_lane_guard(struct usched *s, int lane);

/*
 * PRIVATE STACKS
 *
 * A thread with a private lane, where no other thread ever runs, has a private
 * stack: it is never moved, so other threads may use what lies there until the
 * function returns. Programs ask their scheduler for such threads: see
 * rr_private() (rr.h). This is for schedulers.
 *
 * A maker, such as s_make(), is asked for one by USCHED_PRIVATE as the lane.
 * usched_private() promises private lanes for nr more threads that are not made
 * yet. Each must begin with USCHED_PRIVATE in u_lane, or with a result of
 * usched_lane_private(): then it has used up its promise. A thread that never
 * begins gives its promise back by ustack_fini(); a maker that fails, by
 * usched_private() with a negative nr. All that can be refused is refused here,
 * not when the thread begins: addresses are mapped, with guards. 0; -EAGAIN: all
 * private lanes are taken or promised, there is no room for more guards, or
 * there are no lanes (portable builds, Valgrind); -ENOMEM: no more can be
 * mapped. Any thread, any native thread.
 */
int usched_private(struct usched *s, int nr);

#define USCHED_PRIVATE	(-1)

/*
 * Takes a private lane that was promised, for a scheduler that sets u_lane.
 * Returns its number, above the nr of usched_lanes(). The lane comes back, and
 * this is called, as with usched_lane_deep().
 */
int usched_lane_private(struct usched *s);

/*
 * Returns whether the stack of u, which has begun, stays where it is: u has a
 * private lane that was promised. Any thread that knows that u has not ended.
 */
int ustack_is_private(const struct ustack *u);

/*
 * Returns whether the program is linked with other people's ways to block, the
 * hooks of ext/wrap/ or the profile of ext/mpi/: its threads run code that does not know
 * of this library, so they want private stacks. Any thread.
 */
int usched_is_wrapped(void);

/*
 * Returns how many private lanes a dispatcher with nr lanes has, unless memory
 * or guards lack; 0: it would have no lanes. Any thread.
 */
int usched_private_most(int nr);

/*
 * Returns how many private lanes are mapped; their numbers follow s_lane_nr. The
 * result never decreases. p is the s_private of a dispatcher, or NULL. Any thread;
 * signal handlers.
 */
int usched_private_nr(const struct usched_private *p);

/*
 * FEW THREADS
 *
 * If there are more threads than lanes, threads that take turns are copied at
 * each block. While s_few is not 0, a new thread gets a private lane instead,
 * if there is one, unless a lane is free. That spares two copies at each block,
 * and costs a page of memory for the thread, until usched_cool(). The dispatcher
 * keeps the page when the thread has ended, until then or usched_trim(). The
 * scheduler may set and clear s_few where s_next() runs. It should be set only while
 * threads are so few that the pages that they touch stay in the second level of the
 * TLB.
 */

struct usched_credit;
struct usched_private_lane;

/* Not API. Private lanes that threads of a dispatcher have left. */
struct usched_warm {
	int    wm_lock;		/* protects this */
	int    wm_first;	/* first lane, or 0 */
	size_t wm_nob;		/* bytes of memory that they keep */
	char   wm_line[64 - 2 * sizeof(int) - sizeof(size_t)];
};

#define USCHED_WARM_NR	64

/* Not API. Private lanes, of all dispatchers that share lanes. */
struct usched_private {
	struct usched_warm pl_warm[USCHED_WARM_NR];
	int    pl_known;		/* a function was deep (atomic) */
	int    pl_dispatchers;	/* dispatchers that share these lanes, so far (atomic) */
	int    pl_used;		/* mapped lanes: numbers after s_lane_nr */
	int    pl_lock;		/* protects pl_used, and the next four */
	int    pl_free;		/* first lane that no thread has, or 0 */
	int    pl_free_nr;	/* lanes that no thread has */
	int    pl_promised;	/* lanes of pl_free_nr that were promised */
	int    pl_rest;		/* threads for which none is to be mapped */
	size_t pl_size;		/* bytes from a lane to the next */
	struct usched_credit *pl_credit;	/* table of functions */
	struct usched_private_lane *pl_lane;	/* table of private lanes, from the first */
};

/*
 * Returns the number of a private lane for a new thread that will run f, if threads
 * of f block deep, above the nr of usched_lanes(); else 0: a scheduler that sets
 * u_lane chooses a lane. The thread takes the lane with its first run. When
 * it ends, the dispatcher that runs it then gets the lane back; if it never
 * begins, by ustack_fini(). By the native thread that runs s.
 */
static __inline__ int usched_lane_deep(struct usched *s, void (*f)(void *));

/*
 * Says that the threads of f wait for events from outside, such as descriptors. New
 * threads of f share few lanes, at any number (core/outside.h). Any thread.
 */
void usched_outside(void (*f)(void *));

/* Learns the same of the function of u, the caller, which is about to wait so. */
void usched_waits_outside(const struct ustack *u);

/*
 * Returns whether a new thread of f, which has no private lane, should share one of few
 * lanes. For schedulers that set u_lane, once for each thread that begins.
 */
int usched_lane_outside(void (*f)(void *));

/* Not API. The part of usched_lane_deep() for programs with deep functions. */
int usched_lane_deep_slow(struct usched *s, void (*f)(void *));

static __inline__ int usched_lane_deep(struct usched *s, void (*f)(void *))
{
	const struct usched_private *p = s->s_private;

	return __builtin_expect(p != NULL && __atomic_load_n(
				&p->pl_known, __ATOMIC_RELAXED) != 0, 0) ?
		usched_lane_deep_slow(s, f) : 0;
}

/*
 * Returns how many bytes of the lanes of s are resident below the slices that
 * are there now. By the native thread that runs or ran s, outside of its
 * threads, or in s_next(). 0 if the system does not tell, or another dispatcher
 * owns the lanes.
 */
size_t usched_spare(const struct usched *s);

/*
 * Gives that memory of each lane to the system, but for a margin of bytes next
 * to the slice. May be called where usched_spare() may. Meant for a scheduler
 * that has nothing to do for some time: it makes a system call for each lane,
 * and the next touch of each page costs a fault. In the hard mode it does
 * nothing. No other dispatcher may use the lanes (usched_lanes_share()).
 */
void usched_trim(struct usched *s, size_t margin);

/*
 * Does what usched_trim() does for lane i, from 1. Other dispatchers may use the lanes,
 * but not run threads in lane i.
 */
void usched_trim_lane(struct usched *s, int i, size_t margin);

/*
 * Looks at the nr-th private lane of s, from 1 to usched_private_nr(), for a scheduler
 * that comes to each lane once in a second or so. A thread that was promised none and
 * waits there is copied out. If it was at the last look, its memory goes to the system:
 * a system call. Returns whether the next look may do that. May be called where
 * usched_trim() may.
 *
 * is_ours: no other dispatcher runs the thread of the lane, if it has one. Where threads
 * move, the scheduler reads l_bound, acquiring, then that the lane is of s, and passes 1
 * only if both say so: a lane without a thread may be taken by others at any time.
 */
int usched_cool(struct usched *s, int nr, int is_ours);

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
 * threads are deep, and in messages, it counts as a thread of h_f. If h_f is
 * ustack_shell(), h_arg is a shell, too, and the thread counts as that. It may be
 * preempted in h_f (upreempt.h) if h_run itself calls h_f.
 */
struct ushell {
	void (*h_run)(struct ushell *h);	/* what the thread really runs */
	void (*h_f)(void *);			/* the function inside */
	void  *h_arg;				/* the argument of h_f */
};

/* Calls h_run of the struct ushell at shell. */
void ustack_shell(void *shell);

/* Not API. Returns shell, or the innermost of shells, whose h_f is no shell. */
const struct ushell *ustack_shell_of(void *shell);

/* Returns the function that a thread of f and arg stands for. */
static __inline__ void (*ustack_f(void (*f)(void *), void *arg))(void *)
{
	return __builtin_expect(f == ustack_shell, 0) ? 
		ustack_shell_of(arg)->h_f : f;
}

/* Returns the argument that goes with ustack_f(). */
static __inline__ void *ustack_arg(void (*f)(void *), void *arg)
{
	return __builtin_expect(f == ustack_shell, 0) ?
		ustack_shell_of(arg)->h_arg : arg;
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
 * Writes a line about a mistake of the caller to standard error: "usched: ", the
 * text, and the end of the line, by one system call; nothing if the environment
 * has USCHED_QUIET=1. The format has %s, %p, %%, and %d, %u, %x with or without
 * l or ll, as printf(), but no widths. A text of more than a thousand bytes ends
 * with "...". errno stays. Any thread; a signal handler, too, unless the program
 * changes its environment.
 */
#if defined(__GNUC__)
__attribute__((cold, format(printf, 1, 2)))
#endif
void usched_message(const char *format, ...);

/*
 * Not API. The same, also with USCHED_QUIET=1: the program ends after this line,
 * by usched_fail() or by another library.
 */
#if defined(__GNUC__)
__attribute__((cold, format(printf, 1, 2)))
#endif
void usched_last_message(const char *format, ...);

/*
 * Ends the process after a broken contract: gives the contract out as a message,
 * also with USCHED_QUIET=1, and aborts. A place for a breakpoint. Schedulers may
 * call it for contracts of their own. Any thread, as usched_message().
 */
#if defined(__GNUC__)
__attribute__((noreturn, cold))
#endif
void usched_fail(const char *contract);

/*
 * Not API. Called where a caller that is no thread is about to wait, or needs a
 * thread: writes a line if the caller is a thread of another copy of the library
 * (core/copies.h). Any thread.
 */
#if defined(__GNUC__)
__attribute__((cold))
#endif
void usched_other_copy(const char *call);

/*
 * THE ENVIRONMENT
 *
 * core/env.h has the rules. Not API: for modules of the library. A row for each
 * variable, which stays where it is:
 */
struct usched_env {
	const char *e_name;		/* of the variable */
	const char *e_known;		/* its words: "0, 1, run=1-1000" */
	int         e_list;		/* the value is a list of words */
	char     *(*e_get)(const char *name);	/* secure_getenv(); NULL: getenv() */
	struct usched_env *e_next;	/* usched_env_add()'s */
};

/*
 * Not API. Adds a row, when the program is loaded. Returns the value if that is
 * set and known, else NULL.
 */
const char *usched_env_add(struct usched_env *e);

/*
 * Not API. Looks at all rows, and writes a line for each value that is unknown.
 * 0; -EINVAL: there was one.
 */
int usched_env_check(void);

/*
 * Not API. Returns the value, or NULL if it is empty or not set. If it is
 * unknown, ends the program by usched_fail().
 */
const char *usched_env(const struct usched_env *e);

/*
 * Not API. Reads the first word at *at, which may be NULL, and moves *at behind
 * it. Returns which word of e_known that is, from 0, with its number in *nr;
 * -ENOENT: there is none; -EINVAL: it is unknown.
 */
int usched_env_word(const struct usched_env *e, const char **at,
		    unsigned long long *nr);

/*
 * THE LAW
 *
 * No other thread may touch what lies on the stack of a thread that waits: see
 * core/law.h. usched_law() reports that the caller has done what ("rr_start:
 * the argument") with p, which lies on such a stack. If p cannot be accessed
 * now (usched_shut()), that is a breach, and ends the program. Else it may
 * become a breach: the first time in the process a line says so. USCHED_LAW in
 * the environment changes both. Any thread.
 */
void usched_law(const char *what, const void *p);

/*
 * Not API. Names functions in messages by look(), which writes the name of the
 * function at an address to text, or nothing. Signal handlers call it.
 */
void usched_name_by(void (*look)(char *text, size_t size, const void *at));

/* Not API. May the stack of the caller, a thread, be moved? */
int usched_may_move(void);

/*
 * Returns whether p lies on the stack of the calling thread, and that may be
 * moved while the thread waits. For makers, of their argument.
 */
static __inline__ int ustack_moves(const void *p)
{
	const struct ustack *u = ustack_self();
	const void *bottom;

	if (u == NULL || p < __builtin_frame_address(0))
		return 0;
	bottom = u->u_sched->s_lane[u->u_lane].l_bottom;
	return p < bottom && usched_may_move();
}

/* Reports p by usched_law(), if it lies there. */
static __inline__ void ustack_lawful(const char *what, const void *p)
{
	if (__builtin_expect(ustack_moves(p), 0))
		usched_law(what, p);
}

/*
 * Returns whether p lies in a lane that threads share, of any dispatcher, but
 * not on the stack of a thread that runs a dispatcher with the caller in it:
 * that stack stays. For waits, of their object.
 */
int usched_lent(const void *p);

/*
 * Returns whether p lies in a lane that cannot be accessed now: on the stack of a
 * thread that waits. For calls of the system that have returned EFAULT.
 */
int usched_shut(const void *p);

/*
 * For schedulers: a native thread calls this before it runs dispatchers. Then a
 * thread that overflows its lane, or uses what it has read from a stack that
 * was moved, ends the process with a message: by a handler of SIGSEGV, if there
 * is none (core/guard.h).
 */
void *usched_guard_begin(void);

/* Ends the guard of this native thread: the result of usched_guard_begin(). */
void usched_guard_end(void *guard);

/* Fills the place of a stack that was moved: no address, no small number. */
#define USCHED_LAW_FILL	0x6b6b6b6b6b6b6b6bu

/*
 * Counts how a scheduler has moved threads between native threads. The native
 * thread that runs the dispatcher counts; others may read.
 */
struct usched_moves {
	long thefts;		/* times that threads were taken from another */
	long stolen;		/* threads taken */
	long stops;		/* times that the other was asked to stop */
	long forced;		/* stops without an answer, by a barrier */
	long fences;		/* all barriers, also before a sleep */
};

/*
 * A call of the hard mode (uhard.h); nothing in other builds. A scheduler says
 * UHARD(yield()) where the running thread may block: with yield=SEED the thread gives
 * way there now and then, if its dispatcher has an s_preempt(); those of rr, ll and ws
 * have. Outside of threads it does nothing.
 */
#if defined(USCHED_HARD)
#define UHARD(call)	uhard_##call
#else
#define UHARD(call)	((void)0)
#endif

/*
 * For modules whose threads give something up before they block, so that the
 * block must not fail. Reserves a buffer for the running thread: until that
 * blocks elsewhere, no block in the function that calls this, or in functions
 * that it calls, with frames of more bytes in all, asks s_alloc(), or gives a
 * buffer back. more is at most USCHED_RESERVE. If there is such a buffer, this
 * only compares. 0; -ENOMEM: nothing has changed. Threads only.
 */
USCHED_MUST int usched_reserve(int more);

#define USCHED_RESERVE	2048

/*
 * For other modules: each usched_run() calls these on its native thread, as it
 * begins and before it returns. If it does not return, usched_left() calls
 * h_end(), where ustack_self() still is the thread of s that was left, if a
 * thread ran. ustack_fini() calls h_gone(), if that is not NULL, before a
 * blocked thread leaves its lane. Given once, and before any dispatcher runs.
 *
 * A scheduler whose runs are parts of a longer run (uloop.h) sets USCHED_PAUSES in
 * s_steps, in s_next(), before that returns NULL. Where h_end() finds it, a module may
 * keep what it knows of the dispatcher, until h_begin() of the next part. Not API.
 */
struct usched_hook {
	void (*h_begin)(struct usched *s);
	void (*h_end)  (struct usched *s);
	void (*h_gone) (struct ustack *u);
	struct usched_hook *h_next;
};

#define USCHED_PAUSES	8

/* Gives the hook of a module to all dispatchers. */
void usched_hook(struct usched_hook *h);

/* Not API. A module before the s_next() of a dispatcher: uchain.h. */
struct usched_link {
	struct ustack *(*k_next)(struct usched *s, struct usched_link *k);
	struct usched_link *k_below;	/* the next, or NULL */
	/* The scheduler's. */
	struct ustack *(*k_own_next)(struct usched *s);
	int            (*k_own_again)(struct usched *s, struct ustack *u);
};

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
		UPREEMPT_SECTION(".text.startup")			\
		UPREEMPT_SECTION(".text.exit"))
#else
#define UPREEMPT_NEVER	struct upreempt_never
#endif
