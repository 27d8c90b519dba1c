/* SPDX-License-Identifier: MIT */
/* upreempt.c: preempts threads that do not yield. */

/*
 * OVERVIEW
 *
 * A thread is preempted by a block inside of a signal handler. The kernel has
 * pushed all registers, as they were between two instructions. So the signal
 * frame becomes a part of the slice, and nothing else must be saved:
 *
 *	 ustack_block()  tick()    signal frame     bar()    U->u_f()
 *	 |  registers  |  frame  | all registers | frame |    frame    | ...
 *	 ^                                                             ^
 *	 U->u_top                                              L->l_bottom
 *
 * When U is resumed, ustack_block() returns, then the handler returns, and the
 * kernel restores the registers, vectors and floating-point control words
 * included. The kernel leaves the red zone alone. (On x86-64 a handler starts
 * with the control words of a new program; usched.c keeps these for the slice.)
 *
 * WHERE
 *
 * Preemption is right only if other threads may run now: nothing that they
 * change may be in use by the interrupted code, or by any function that called
 * it. malloc() holds a lock, so libc must not be interrupted; nor must this
 * library, where a thread may be half-way into a queue; nor any function that
 * one of these has called back. So the handler walks the stack, by the unwinder
 * that the compiler brings for exceptions, and finds out to whose code each
 * frame belongs:
 *
 *	              the program's own            ours
 *	  |<------------------------------------>|<------>|
 *	  pc   return address  ...  return address   launch
 *
 * The program's own code is in its executable segments, except the files that
 * contain UPREEMPT_NEVER, as all files of the library do. Near the bottom of
 * the slice follow frames of ours, and then usched_launch(). Those of usched.c
 * are there only in builds with USCHED_PORTABLE. A shell (usched.h) has two
 * frames: ustack_shell(), and its h_run. The thread is not preempted if there is
 * any other frame, or if the walk ends before usched_launch(). A refusal costs
 * no more than this tick: the next tick comes soon. Nor is a thread preempted in a
 * parallel region of OpenMP (core/openmp.h): a region need not have a frame of its
 * own.
 *
 * The handler first looks at the pc. If the pc is in usched.c, the stack
 * pointer may be just on its way to another stack, where no walk must begin.
 *
 * The walk takes no lock that the interrupted code can hold, since that code is
 * neither libc's nor the unwinder's. (A function that dl_iterate_phdr() has
 * called back does hold a lock, which until glibc 2.35 the walk takes, too;
 * that lock is recursive.) The walk allocates nothing. Its lazy initialisation
 * is done by a first walk in upreempt_begin(). Ten frames take about 3 us.
 *
 * WHICH FILES ARE OURS
 *
 * Only linkers know where they put a file, and they do not tell. But within the
 * .text section of an object file the assembler keeps numbered subsections in
 * order. So it can put a label behind the last function; and the first function
 * is at the start of the section. UPREEMPT_NEVER notes these two addresses in a
 * table, which the linker gathers. Compilers put functions into a few other
 * sections, such as .text.unlikely, which are noted in the same way. With
 * -ffunction-sections there are too many sections. With -flto there are no
 * files any more, and all files note the same stretch. upreempt_begin() detects
 * both, and fails.
 *
 * Functions that headers inline into other files are not covered. With
 * USCHED_PREEMPT, rr.h, ll.h and ws.h keep theirs out of line.
 *
 * WHEN
 *
 * A timer of the monotonic clock ticks as often as is wanted, but it also wakes
 * a native thread that sleeps. A timer of the native thread's cpu clock does
 * not; but the kernel checks it only 100 to 1000 times a second (CONFIG_HZ). So
 * there are two timers. If a tick finds that almost no cpu time has been used
 * since the last tick, the native thread sleeps, in s_next() or in a system
 * call. Then the first timer is stopped, and the second is set to tick once, as
 * soon as any cpu time is used. That tick starts the first timer again. So a
 * machine that sleeps is woken twice.
 *
 * The signal is SIGURG. Its default action is to do nothing, so a late signal
 * does no harm. Debuggers pass it on and do not stop for it. Few programs use
 * it; in those that do, their handler is called for signals that are not ours.
 * SIGURG is not blocked while the handler runs, else it would stay blocked for
 * the next thread. A tick inside of tick() finds that the pc or a return
 * address is ours, and does nothing. The handler must run on the stack of the
 * thread, so SA_ONSTACK is not set.
 *
 * errno belongs to the native thread, but is kept for the preempted thread. The
 * signal mask and the alternate stack belong to the native thread, too, and the
 * kernel would restore old values of them. So the handler updates both in the
 * signal frame.
 *
 * INVARIANTS
 *
 * V1. A thread is preempted only if all frames of its slice above the signal
 *     frame are the program's own code, called by no other code.
 * V2. s_preempt() is called only then, so no other part of the scheduler is at
 *     work on this native thread.
 * V3. While a thread has forbidden preemption, no other thread runs on its
 *     native thread, unless it blocks by upreempt_block().
 * V4. The handler takes no lock that the interrupted code may hold.
 * V5. A native thread has either two timers or none. It has timers only while
 *     it runs a dispatcher with an s_preempt().
 *
 * REJECTED
 *
 * A flag that is set inside of the library or libc: two writes in each wake,
 * and libc does not set it. Attributes that put each function of the library
 * into a section of its own: sixty places where an attribute can be forgotten.
 * An s_preempt() that only decides, with the rest left to s_next(): the
 * scheduler would have to check for it in each round. A count of forbidden
 * stretches in struct ustack: only preemption needs the room.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* dl_iterate_phdr(), REG_RIP */
#endif
#include "upreempt.h"
#include "compiler.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

UPREEMPT_NEVER;

static struct upreempt_stats count;

#define COUNT(field)							\
	((void)__atomic_fetch_add(&count.field, 1, __ATOMIC_RELAXED))

/* What is known of this native thread. */
static __thread __attribute__((tls_model("initial-exec"))) struct {
	int            n_depth;		/* nested runs, s_preempt() set */
	int            n_forbidden;	/* nested upreempt_forbid() */
	struct ustack *n_who;		/* the thread that forbids */
	/* Valid if n_depth is not 0. */
	bool           n_timed;		/* has timers */
	bool           n_blocked;	/* SIGURG was blocked before */
	bool           n_asleep;	/* the second timer is set, not the first */
	int            n_timer[2];
	int64_t        n_cpu;		/* cpu time used at the last tick */
} native;

/* A tick must see n_who set whenever it sees n_forbidden set. */
static NOINLINE void forbid(struct ustack *u, int nr)
{
	native.n_who = u;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	native.n_forbidden = nr;
}

void upreempt_forbid(void)
{
	struct ustack *u = ustack_self();

	CONTRACT(native.n_forbidden == 0 || native.n_who == u,
		 "upreempt_forbid: another thread, which has forbidden it, has "
		 "blocked without upreempt_block()");
	forbid(u, native.n_forbidden + 1);
}

void upreempt_allow(void)
{
	CONTRACT(native.n_forbidden > 0 && native.n_who == ustack_self(),
		 "upreempt_allow: this thread has not forbidden it");
	native.n_forbidden--;
}

int upreempt_block(void)
{
	struct ustack *u = ustack_self();
	int nr = native.n_forbidden;
	int rc;

	CONTRACT(nr > 0 && native.n_who == u,
		 "upreempt_block: this thread has not forbidden it");
	native.n_forbidden = 0;
	rc = ustack_block();
	forbid(u, nr);		/* not inline: native may have moved */
	return rc;
}

void upreempt_stats(struct upreempt_stats *stats)
{
	*stats = (struct upreempt_stats) {
#define GET(field)	.field = __atomic_load_n(&count.field, __ATOMIC_RELAXED)
		GET(pe_ticks),     GET(pe_preempted), GET(pe_refused),
		GET(pe_nomem),     GET(pe_forbidden), GET(pe_elsewhere),
		GET(pe_asleep),    GET(pe_error)
	};
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
	__has_feature(memory_sanitizer)
#define SANITIZED	true
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED	true
#endif
#if !defined(SANITIZED)
#define SANITIZED	false
#endif

#if defined(__linux__) && defined(__ELF__) && defined(__LP64__) &&	\
	(defined(__x86_64__) || defined(__aarch64__) || defined(__riscv))

#if defined(USCHED_HARD)
#include "uhard.h"
#endif
#include "uslice.h"

#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#if defined(__x86_64__)
#define PC(uc)	((uintptr_t)(uc)->uc_mcontext.gregs[REG_RIP])
#elif defined(__aarch64__)
#define PC(uc)	((uintptr_t)(uc)->uc_mcontext.pc)
#else
#define PC(uc)	((uintptr_t)(uc)->uc_mcontext.__gregs[REG_PC])
#endif

/*
 * glibc's compilers link the unwinder to programs that call it. With another
 * libc the unwinder may be missing.
 */
#if defined(__GLIBC__)
#define HAVE_UNWINDER	true
#else
#pragma weak _Unwind_Backtrace
#pragma weak _Unwind_GetIPInfo
#pragma weak _Unwind_FindEnclosingFunction
#define HAVE_UNWINDER	(&_Unwind_Backtrace != NULL)
#endif

/* Tells Valgrind that the signal frame and the red zone may be read. */
#if defined(__has_include) && !defined(NVALGRIND)
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#endif
#endif
#if defined(VALGRIND_MAKE_MEM_DEFINED) && defined(__x86_64__)
#define MAY_READ(uc)							\
	((void)VALGRIND_MAKE_MEM_DEFINED(__builtin_frame_address(0),	\
		(uc)->uc_mcontext.gregs[REG_RSP] -			\
		(uintptr_t)__builtin_frame_address(0)))
#else
#define MAY_READ(uc)	((void)0)
#endif

#define SIGNAL		SIGURG
#define NS_MIN		100000
#define SECOND		1000000000L
#define TEXT_NR		16
/* Room that must be left in the lane: for the walk, and for s_alloc(). */
#define ROOM		8192
/*
 * A native thread that has used less than this part of the time since the last
 * tick sleeps.
 */
#define SLEEPS		8

/* In the kernel a signal mask has 64 bits. */
#define MASK_SIZE	8

/*
 * The frames between usched_launch() and the thread's function. At any other
 * frame of usched.c a walk must stop: that may be on its way to another stack,
 * and has called a function by the program's procedure linkage table.
 */
#if defined(USCHED_PORTABLE)
#define IS_FIRST(at)	is_in(&core, (at) - 1)
#elif defined(USCHED_HARD)
#define IS_FIRST(at)	is_function(at, (uintptr_t)uhard_first)
#else
#define IS_FIRST(at)	false
#endif

struct text {
	uintptr_t x_from;
	uintptr_t x_to;
};

static long period;			/* ns, or 0: stopped (atomic) */
static struct text text[TEXT_NR];	/* the program's own */
static int text_nr;
static struct text core;		/* usched.c */
/* Tables of UPREEMPT_NEVER: the caller's, unless they are ours; and ours. */
static struct never {
	const struct upreempt_never *n_from;
	const struct upreempt_never *n_to;
} never[2];
static struct sigaction before;

static void tick(int signo, siginfo_t *info, void *context);
static void pass_on(int signo, siginfo_t *info, void *context);
static void timers_tick(bool awake);
static bool may(const struct ustack *u, const ucontext_t *uc);
static bool walk(uintptr_t pc);
static void give_way(struct ustack *u, ucontext_t *uc, int signo);
static void begin(struct usched *s);
static void end(struct usched *s);

/* The addresses that signals of the first and of the second timer carry. */
static char mark[2];

static struct usched_hook hook = { .h_begin = begin, .h_end = end };

/* The tick. */

static void tick(int signo, siginfo_t *info, void *context)
{
	int saved = errno;
	struct ustack *u = ustack_self();
	uintptr_t nr = (uintptr_t)info->si_value.sival_ptr - (uintptr_t)mark;

	if (info->si_code != SI_TIMER || nr >= sizeof mark)
		pass_on(signo, info, context);
	else if (native.n_timed) {
		timers_tick(nr == 1);
		if (u != NULL && may(u, context))
			give_way(u, context, signo);
	}
	errno = saved;
}

static void pass_on(int signo, siginfo_t *info, void *context)
{
	if (before.sa_flags & SA_SIGINFO)
		before.sa_sigaction(signo, info, context);
	else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
		before.sa_handler(signo);
}

/* Tells whether u may be preempted (V1, V2). Cheap checks come first. */
static bool may(const struct ustack *u, const ucontext_t *uc)
{
	const struct usched *s = u->u_sched;
	const struct usched_lane *l = &s->s_lane[u->u_lane];
	uintptr_t low = (uintptr_t)l->l_low;
	char here;

	if (s->s_preempt == NULL || __atomic_load_n(&period,
						    __ATOMIC_RELAXED) == 0)
		return false;
	if (native.n_forbidden > 0) {
		CONTRACT(native.n_who == u,
			 "upreempt_forbid: a thread that has forbidden it has "
			 "blocked, or runs a dispatcher");
		COUNT(pe_forbidden);
		return false;
	}
	/*
	 * The low end of lane 0 is unknown. A thread that a longjmp() has left
	 * is outside of its lane, too, until usched_left().
	 */
	if ((uintptr_t)&here >= (uintptr_t)l->l_bottom ||
	    (low != 0 && (uintptr_t)&here < low + ROOM) || !walk(PC(uc)) ||
	    usched_in_region(s)) {
		COUNT(pe_elsewhere);
		return false;
	}
	return true;
}

/*
 * A second tick is blocked until here, as there may be no room on the stack for
 * it. From here on other threads must get their ticks.
 */
static void give_way(struct ustack *u, ucontext_t *uc, int signo)
{
	struct usched *s = u->u_sched;
	sigset_t mask;

	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, signo);
	(void)pthread_sigmask(SIG_UNBLOCK, &mask, NULL);
	if (!s->s_preempt(s, u)) {
		COUNT(pe_refused);
		return;
	}
	COUNT(pe_preempted);
	MAY_READ(uc);
	if (ustack_block() != 0) {
		COUNT(pe_nomem);
		(void)s->s_preempt(s, NULL);
		return;
	}
	/* These two cannot fail. */
	(void)sigaltstack(NULL, &uc->uc_stack);
	(void)pthread_sigmask(SIG_BLOCK, NULL, &mask);
	memcpy(&uc->uc_sigmask, &mask, MASK_SIZE);
}

/* The walk. */

static uintptr_t never_at(const struct upreempt_never *v)
{
	return (uintptr_t)&v->v_from + v->v_from;
}

static uintptr_t never_end(const struct upreempt_never *v)
{
	return (uintptr_t)&v->v_to + v->v_to;
}

static bool is_in(const struct text *x, uintptr_t at)
{
	return at - x->x_from < x->x_to - x->x_from;
}

static bool is_never(const struct never *n, uintptr_t at)
{
	const struct upreempt_never *v;

	for (v = n->n_from; v < n->n_to; v++) {
		if (at - never_at(v) < never_end(v) - never_at(v))
			return true;
	}
	return false;
}

static bool is_own(uintptr_t at)
{
	int i;

	for (i = 0; i < text_nr && !is_in(&text[i], at); i++)
		;
	return i < text_nr && !is_never(&never[0], at) &&
	       !is_never(&never[1], at);
}

/*
 * Tells whether a call that returns to this address was made by the function.
 */
static bool is_function(uintptr_t at, uintptr_t function)
{
	return (uintptr_t)_Unwind_FindEnclosingFunction((void *)at) == function;
}

struct walk {
	uintptr_t w_pc;
	uintptr_t w_shell;	/* h_run of the thread, or 0 */
	enum { HANDLER, OWN, CORE, YES, NO } w_state;
};

/*
 * The frames of the handler come first, then the interrupted frame, at pc. All
 * other addresses are return addresses, so the call itself is before them.
 */
static _Unwind_Reason_Code step(struct _Unwind_Context *frame, void *arg)
{
	struct walk *w = arg;
	int interrupted = 0;
	uintptr_t at = _Unwind_GetIPInfo(frame, &interrupted);

	if (w->w_state == HANDLER && !interrupted)
		return _URC_NO_REASON;
	if (interrupted)
		w->w_state = w->w_state == HANDLER && at == w->w_pc ? OWN : NO;
	else if (w->w_state != OWN || !is_own(at - 1)) {
		/* s_alloc() is not the thread's, even if that has jumped to
		 * ustack_block() and left no frame of its own. */
		if (is_function(at, USLICE_SWITCH))
			w->w_state = NO;
		else if (is_function(at, (uintptr_t)usched_launch))
			w->w_state = YES;
		else if (IS_FIRST(at) || (w->w_shell != 0 &&
			 (is_function(at, w->w_shell) ||
			  is_function(at, (uintptr_t)ustack_shell))))
			w->w_state = CORE;
		else
			w->w_state = NO;
	}
	return w->w_state < YES ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

static bool walk(uintptr_t pc)
{
	const struct ustack *u = ustack_self();
	struct walk w = { pc, 0, HANDLER };

	if (!is_own(pc))
		return false;
	if (u->u_f == ustack_shell)
		w.w_shell = (uintptr_t)((struct ushell *)u->u_arg)->h_run;
	(void)_Unwind_Backtrace(step, &w);
	return w.w_state == YES;
}

/*
 * Does the lazy initialisation of a walk, which the handler must not do (V4).
 * False if this file, and so surely others, has no unwind information.
 */
static bool walk_prepare(void)
{
	struct walk w = { 0, 0, HANDLER };

	(void)_Unwind_Backtrace(step, &w);
	return is_function((uintptr_t)step + 1, (uintptr_t)step);
}

/* The timers of a native thread. */

static int64_t cpu_time(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * SECOND + now.tv_nsec;
}

/* Sets a timer to tick after ns, once, or each ns; 0 stops the timer. */
static void timer_set(int timer, long ns, bool repeat)
{
	const struct timespec first = { ns / SECOND, ns % SECOND };
	struct itimerspec time = { .it_value = first };

	if (repeat)
		time.it_interval = first;
	(void)syscall(SYS_timer_settime, timer, 0, &time, NULL);
}

/*
 * Changes from the first timer to the second if the native thread sleeps, and
 * back. A tick can interrupt this at any point. Therefore a late tick of the
 * first timer must not start that timer again: the interrupted call would then
 * stop it, and the second tick would find nothing to do.
 */
static void timers_tick(bool awake)
{
	long ns = __atomic_load_n(&period, __ATOMIC_RELAXED);
	int64_t now = cpu_time();
	bool asleep = now - native.n_cpu < ns / SLEEPS;

	COUNT(pe_ticks);
	native.n_cpu = now;
	if (ns == 0)
		timer_set(native.n_timer[0], 0, false);
	else if (awake) {
		native.n_asleep = false;
		timer_set(native.n_timer[0], ns, true);
	} else if (asleep && !native.n_asleep) {
		native.n_asleep = true;
		COUNT(pe_asleep);
		timer_set(native.n_timer[0], 0, false);
		timer_set(native.n_timer[1], 1, false);
	}
}

#if !defined(sigev_notify_thread_id)
#define sigev_notify_thread_id	_sigev_un._tid	/* no name for it in glibc */
#endif

/*
 * By system calls, since before glibc 2.34 the functions are in a library of
 * their own.
 */
static int timers_create(int *timer)
{
	static const clockid_t clock[] = {
		CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID
	};
	struct sigevent event;
	int i, rc;

	memset(&event, 0, sizeof event);
	event.sigev_notify           = SIGEV_THREAD_ID;
	event.sigev_signo            = SIGNAL;
	event.sigev_notify_thread_id = syscall(SYS_gettid);
	for (i = 0; i < 2; i++) {
		event.sigev_value.sival_ptr = &mark[i];
		if (syscall(SYS_timer_create, clock[i], &event, &timer[i]) != 0) {
			rc = -errno;
			if (i > 0)
				(void)syscall(SYS_timer_delete, timer[0]);
			return rc;
		}
	}
	return 0;
}

static void timers_delete(const int *timer)
{
	(void)syscall(SYS_timer_delete, timer[0]);
	(void)syscall(SYS_timer_delete, timer[1]);
}

static void begin(struct usched *s)
{
	long ns = __atomic_load_n(&period, __ATOMIC_RELAXED);
	sigset_t mask, old;
	int rc;

	if (s->s_preempt == NULL || native.n_depth++ > 0 || ns == 0)
		return;
	rc = timers_create(native.n_timer);
	if (rc != 0) {
		__atomic_store_n(&count.pe_error, rc, __ATOMIC_RELAXED);
		return;
	}
	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGNAL);
	(void)pthread_sigmask(SIG_UNBLOCK, &mask, &old);
	native.n_blocked = sigismember(&old, SIGNAL);
	native.n_asleep  = false;
	native.n_cpu     = cpu_time();
	native.n_timed   = true;
	timer_set(native.n_timer[0], ns, true);
}

static void end(struct usched *s)
{
	const struct ustack *u = ustack_self();
	sigset_t mask;

	/* A thread that a longjmp() has left may have forbidden it. */
	if (u != NULL && u->u_sched == s && native.n_who == u)
		native.n_forbidden = 0;
	if (s->s_preempt == NULL || native.n_depth == 0 ||
	    --native.n_depth > 0 || !native.n_timed)
		return;
	native.n_timed = false;		/* first, as timer numbers are reused */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	timers_delete(native.n_timer);
	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGNAL);
	if (native.n_blocked)
		(void)pthread_sigmask(SIG_BLOCK, &mask, NULL);
}

/* Start and stop. */

static int text_add(uintptr_t from, uintptr_t to)
{
	if (from >= to)
		return -EINVAL;
	if (text_nr == TEXT_NR)
		return -ENOMEM;
	text[text_nr++] = (struct text) { from, to };
	return 0;
}

int upreempt_text(const void *from, const void *to)
{
	return text_add((uintptr_t)from, (uintptr_t)to);
}

/*
 * Adds the text of the program, which dl_iterate_phdr() lists first. A program
 * without an interpreter is linked statically, so its text contains libc.
 */
static int program(struct dl_phdr_info *info, size_t size, void *arg)
{
	bool dynamic = false;
	int *rc = arg;
	int i;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++)
		dynamic |= info->dlpi_phdr[i].p_type == PT_INTERP;
	if (!dynamic)
		*rc = text_nr > 0 ? 0 : -ENOTSUP;
	for (i = 0; i < info->dlpi_phnum && dynamic && *rc == 0; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_LOAD && p->p_flags & PF_X)
			*rc = text_add(from, from + p->p_memsz);
	}
	return 1;
}

/* Tells whether two stretches overlap, as after link-time optimisation. */
static bool overlap(const struct never *n)
{
	const struct upreempt_never *v, *w;

	for (v = n->n_from; v < n->n_to; v++) {
		for (w = n->n_from; w < v; w++) {
			if (never_at(v) < never_end(w) &&
			    never_at(w) < never_end(v))
				return true;
		}
	}
	return false;
}

/* Finds the stretch of usched.c. False: it is not known. */
static bool core_find(void)
{
	const struct upreempt_never *v;

	for (v = never[1].n_from; v < never[1].n_to; v++) {
		core = (struct text) { never_at(v), never_end(v) };
		if (is_in(&core, (uintptr_t)usched_runs))
			return is_in(&core, (uintptr_t)usched_launch);
	}
	return false;
}

static int where(const struct upreempt_never *from,
		 const struct upreempt_never *to)
{
	static bool done;
	int nr = text_nr;
	int rc = 0;

	if (done)
		return 0;
	never[0] = (struct never) { from, to };
	never[1] = (struct never) { __start_upreempt_never,
				    __stop_upreempt_never };
	if (from == never[1].n_from)
		never[0].n_to = from;		/* the same table: empty */
	if (!core_find() || overlap(&never[0]) || overlap(&never[1]))
		return -ENOTSUP;
	(void)dl_iterate_phdr(program, &rc);
	if (rc != 0)
		text_nr = nr;
	done = rc == 0;
	return rc;
}

static int handle(void)
{
	static bool done;
	struct sigaction action = {
		.sa_sigaction = tick,
		.sa_flags     = SA_SIGINFO | SA_RESTART
	};

	if (done)
		return 0;
	(void)sigemptyset(&action.sa_mask);
	if (sigaction(SIGNAL, &action, &before) != 0)
		return -errno;
	usched_hook(&hook);
	done = true;
	return 0;
}

int upreempt_begin(long ns, const struct upreempt_never *from,
		   const struct upreempt_never *to)
{
	int timer[2];
	int rc;

	if (ns < NS_MIN)
		return -EINVAL;
	if (__atomic_load_n(&period, __ATOMIC_RELAXED) != 0)
		return -EBUSY;
	if (SANITIZED)
		return -ENOTSUP;
	if (!HAVE_UNWINDER)
		return -ENOSYS;
	rc = timers_create(timer);
	if (rc != 0)
		return rc;
	timers_delete(timer);
	rc = walk_prepare() ? where(from, to) : -ENOTSUP;
	if (rc == 0)
		rc = handle();
	if (rc != 0)
		return rc;
	__atomic_store_n(&period, ns, __ATOMIC_RELAXED);
	return 0;
}

int upreempt_stop(void)
{
	return __atomic_exchange_n(&period, 0, __ATOMIC_RELAXED) != 0 ?
		0 : -EINVAL;
}

#else

int upreempt_begin(long ns, const struct upreempt_never *from,
		   const struct upreempt_never *to)
{
	(void)ns, (void)from, (void)to;
	return -ENOSYS;
}

int upreempt_stop(void)
{
	return -EINVAL;
}

int upreempt_text(const void *from, const void *to)
{
	return from < to ? 0 : -EINVAL;
}

#endif
