/* SPDX-License-Identifier: MIT */
/* core/guard.h: says why a thread has touched memory that is not there. */

/*
 * FAULTS
 *
 * A scheduler calls usched_guard_begin() on each of its native threads. The
 * first installs a handler of SIGSEGV, if the program has none, and the last takes it
 * away. The handler runs on an alternate stack, since a stack that overflowed
 * has no room left. It knows the running thread, and so its lane:
 *
 *	        guard           lane of the thread
 *	  |<-- USCHED_GUARD -->|<------------- size ------------->|
 *	  ^                    ^                                  ^
 *	                       l_low                              l_bottom
 *
 * From the address of the fault and the registers it tells what has happened:
 *
 *	in this guard			the thread is too deep
 *	between the lane and a stack	the same: a large frame has skipped the
 *	pointer below the lane		guard. This comes first, since the frame
 *					may lie in a lane that is shut
 *	in the guard of the next lane	the thread has written past the bottom
 *					of its own
 *	in any other guard		the thread has used a wild pointer
 *	in a lane that is shut		the thread has used the stack of another
 *					thread, which waits (core/law.h)
 *	LAW_FILL is in a register, or	the thread has read a word of a stack
 *	on top of the stack		that was moved (core/law.h)
 *
 * The last is also told of native threads that run no thread: a pool's, to which
 * a thread has given a pointer to its stack.
 *
 * Of a moved place the handler knows whose it is, if a register points there, or
 * a word near the stack pointer, or if there is no other: law_take() has left the
 * thread in its first word.
 *
 * A frame of megabytes, written from its low end on, may destroy what is below
 * the lanes before it faults: the list of lanes, and the native stack with its
 * thread-local variables. So the handler first looks whether what it needs is
 * there (see_whole()). Linux may end the process before: it has its own word among
 * these variables (rseq), and reads it when the native thread is preempted.
 *
 * A fault that it cannot explain has the effect that it would have without it:
 * the handler is taken away, the fault happens again, and ends the process.
 * USCHED_GUARD=0 in the environment: no handler. uguard.h has more: names of
 * functions, the native stack, dispatchers without a scheduler.
 */

#include <signal.h>

/* For uguard.c and uhard.c. */
HIDDEN int usched_explain(const struct ustack *u, uintptr_t at,
			  const void *context, char *text, size_t size);
HIDDEN void *usched_alternate_begin(void);
HIDDEN void usched_alternate_end(void *alternate);

#define GUARD_STACK	((size_t)64 << 10)
/* Registers that are looked at, at most. */
#define GUARD_REGS	34
/* Bytes around LAW_FILL that a pointer to a field or an element reaches. */
#define NEAR		((uintptr_t)64 << 10)

/*
 * Writes to reg what the registers held at the fault, the stack pointer first,
 * where the program was last, and returns how many; 0 on machines not known here.
 */
static int registers(const void *context, uintptr_t *reg)
{
	const ucontext_t *c = context;
	int nr = 1, i;

	(void)c, (void)i;
#if defined(__x86_64__) && defined(REG_RSP)
	reg[0] = (uintptr_t)c->uc_mcontext.gregs[REG_RSP];
	for (i = REG_R8; i <= REG_RIP; i++)
		reg[nr++] = (uintptr_t)c->uc_mcontext.gregs[i];
#elif defined(__aarch64__) && defined(__linux__)
	reg[0] = (uintptr_t)c->uc_mcontext.sp;
	for (i = 0; i < 31; i++)
		reg[nr++] = (uintptr_t)c->uc_mcontext.regs[i];
	reg[nr++] = (uintptr_t)c->uc_mcontext.pc;
#elif defined(__riscv) && defined(REG_SP)
	reg[0] = (uintptr_t)c->uc_mcontext.__gregs[REG_SP];
	for (i = 1; i < 32; i++)
		reg[nr++] = (uintptr_t)c->uc_mcontext.__gregs[i];
	reg[nr++] = (uintptr_t)c->uc_mcontext.__gregs[0];
#else
	(void)reg;
	nr = 0;
#endif
	return nr;
}

/* Returns the number of the lane in whose guard the address is, or 0. */
static int guard_of(const struct usched *s, uintptr_t at)
{
	int last = s->s_lane_nr + private_nr(s->s_private);
	int i;

	for (i = 1; i <= last; i++) {
		if ((uintptr_t)s->s_lane[i].l_low - at - 1 < USCHED_GUARD)
			return i;
	}
	return 0;
}

/*
 * Tells whether a thread is below its lane and has touched its frame: the low
 * end of it, if it is larger than REACH.
 */
static int is_below(const struct usched_lane *l, uintptr_t at, uintptr_t sp)
{
	uintptr_t low = (uintptr_t)l->l_low;
	uintptr_t from = sp - USCHED_GUARD;

	return sp != 0 && sp < low && at - from < (low - sp < REACH ?
		low - from : 2 * USCHED_GUARD);
}

/* Adds to m what usched_explain() says if the stack of u was too small. */
static int too_deep(struct message *m, const struct ustack *u, uintptr_t at,
		    uintptr_t sp)
{
	const struct usched_lane *l = &u->u_sched->s_lane[u->u_lane];

	if (guard_of(u->u_sched, at) != u->u_lane && !is_below(l, at, sp))
		return 0;
	if (l->l_low == NULL)
		return 0;
	message_add(m, " has run out of its stack (lane %d), of %lu bytes; larger "
		    "stacks: USCHED_STACK_SIZE=1M in the environment, "
		    "rr_stack_size(), usched_lanes()", u->u_lane,
		    (unsigned long)(l->l_bottom - l->l_low));
	if ((uintptr_t)l->l_low - at > USCHED_GUARD)
		message_add(m, "; -fstack-clash-protection stops a frame larger "
			    "than the guard, before it writes elsewhere");
	return 1;
}

/* Adds to m what usched_explain() says if another guard was touched. */
static int in_guard(struct message *m, const struct ustack *u, uintptr_t at)
{
	const struct usched *s = u->u_sched;
	const struct usched_lane *l;
	int nr = guard_of(s, at);
	int past = nr == u->u_lane + 1;

	if (nr == 0)
		return 0;
	l = &s->s_lane[nr - past];
	message_add(m, "%s stack (lane %d), of %lu bytes",
		past ? " has gone past the bottom of its" :
		", by a wild pointer, has touched the guard of another",
		nr - past, (unsigned long)(l->l_bottom - l->l_low));
	return 1;
}

/* Is word what is read from a place that law_take() has filled, or near it? */
static int is_fill(uintptr_t word)
{
	return word - (LAW_FILL - NEAR) < 2 * NEAR ||
	       word - ((uint32_t)LAW_FILL - NEAR) < 2 * NEAR;
}

/* Are nob bytes mapped there, where a pointer may point? No more than a page. */
static int is_there(const void *at, size_t nob)
{
	uintptr_t low = (uintptr_t)at & -page_size();
	unsigned char there[2];

	return (uintptr_t)at % sizeof(void *) == 0 && low != 0 &&
	       pages_there((char *)low, (uintptr_t)at + nob - low, there) == 0;
}

/* Is v a thread whose place begins at word? It may be any word. */
static int is_thread_at(const struct ustack *v, const uintptr_t *word)
{
	return is_there(v, sizeof *v) && slice(v) == (const char *)word;
}

/*
 * Is nothing mapped there? 0 if the system does not tell. errno may be gone, too:
 * the thread-local variables.
 */
static int is_gone(const void *at, size_t nob)
{
	return !is_there(at, nob) && is_there(lent, sizeof *lent);
}

/* Fails if it cannot be read what is kept of u, which runs, and of its lane. */
static void see_whole(const struct ustack *u)
{
	const struct usched_lane *l = NULL;

	if (!is_gone(u, sizeof *u) && !is_gone(u->u_sched, sizeof *u->u_sched))
		l = &u->u_sched->s_lane[u->u_lane];
	if (l == NULL || is_gone(l, sizeof *l) ||
	    (l->l_low != NULL && is_gone(l->l_bottom - WORD, WORD)))
		usched_fail("what is kept of the running thread cannot be read. "
			    "A frame larger than the guard may have overwritten "
			    "it: -fstack-clash-protection stops it there; larger "
			    "stacks: USCHED_STACK_SIZE=1M in the environment, "
			    "rr_stack_size()");
}

/* Returns the thread that has left the place at which at points, or NULL. */
static UNCHECKED const struct ustack *law_left(uintptr_t at)
{
	const struct usched_lane *l = lent_lane((const char *)at);
	const struct ustack *v;
	const uintptr_t *word;

	if (l == NULL || !l->l_sole)
		return NULL;
	word = (const uintptr_t *)(at & -(uintptr_t)WORD);
	while ((const char *)word > l->l_low && *word == LAW_FILL)
		word--;
	v = (const struct ustack *)*word;
	return is_thread_at(v, word) ? v : NULL;
}

/*
 * Returns the same for words on top of the stack at sp, as far as its page goes:
 * what is above may be a guard.
 */
static UNCHECKED const struct ustack *law_left_above(uintptr_t sp)
{
	uintptr_t end = sp | (page_size() - 1);
	const struct ustack *v = NULL;

	for (sp &= -(uintptr_t)WORD; v == NULL && sp < end; sp += WORD)
		v = law_left(*(const uintptr_t *)sp);
	return v;
}

/* Returns the only thread that has left such a place; NULL: there are others. */
static UNCHECKED const struct ustack *law_left_only(void)
{
	int used = __atomic_load_n(&lent_used, __ATOMIC_ACQUIRE);
	const struct usched_lane *l, *sole = NULL;
	const struct ustack *v = NULL;
	const char *at, *high;
	int i;

	for (i = 0; i < used; i++) {
		high = __atomic_load_n(&lent[i].t_high, __ATOMIC_ACQUIRE);
		l = __atomic_load_n(&lent[i].t_lane, __ATOMIC_RELAXED);
		while (high != NULL && (++l)->l_bottom <= high) {
			if (l->l_sole && sole != NULL)
				return NULL;
			if (l->l_sole)
				sole = l;
			if (l->l_bottom == high)
				break;
		}
	}
	at = sole != NULL ? sole->l_bottom : NULL;
	while (sole != NULL && v == NULL && at > sole->l_bottom - 2 * PROLOGUE)
		v = law_left((uintptr_t)(at -= WORD));
	return v;
}

/* Is what lies on top of the stack of u, which runs, read from such a place? */
static UNCHECKED int is_fill_on_top(const struct ustack *u, uintptr_t sp)
{
	const struct usched_lane *l = &u->u_sched->s_lane[u->u_lane];

	return l->l_low != NULL && sp >= (uintptr_t)l->l_low &&
	       sp < (uintptr_t)l->l_bottom &&
	       is_fill(*(const uintptr_t *)(sp & -(uintptr_t)WORD));
}

/*
 * Adds to m what usched_explain() says if a place that law_take() has filled was
 * read.
 */
static int in_fill(struct message *m, const struct ustack *u, uintptr_t at,
		   const uintptr_t *reg, int nr)
{
	const struct ustack *v = NULL;
	int found = is_fill(at) || (u != NULL && is_fill_on_top(u, reg[0]));
	int i;

	for (i = 1; i < nr; i++) {
		found |= is_fill(reg[i]);
		if (v == NULL)
			v = law_left(reg[i]);
	}
	if (!found && v == NULL)
		return 0;
	if (v == NULL && nr > 0)
		v = law_left_above(reg[0]);
	if (v == NULL)
		v = law_left_only();
	message_add(m, " has used a word read from a stack that was moved");
	if (v != NULL) {
		message_add(m, ": that of ");
		law_name(m, v);
	}
	message_add(m, ". %s", LAW_ADVICE);
	return 1;
}

/* Returns the thread that has left l, which is shut; NULL: it was opened (law F5). */
static UNCHECKED const struct ustack *shut_left(const struct usched_lane *l)
{
	const struct ustack *v;

	if (!l->l_shut || law_access(l, PROT_READ | PROT_WRITE) != 0)
		return NULL;
	v = *law_thread(l);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return l->l_shut && l->l_bound == 1 ? v : NULL;
}

/*
 * Adds to m what usched_explain() says if a lane that was shut was touched. It may
 * have been opened since. No other access to a lane fails, but for a jump there.
 */
static int in_shut(struct message *m, uintptr_t at, const uintptr_t *reg, int nr)
{
	const struct usched_lane *l = lent_lane((const char *)at);
	const struct ustack *v;

	if (l == NULL || l->l_bound == 0 ||
	    (!l->l_shut && (nr == 0 || reg[nr - 1] == at)))
		return 0;
	v = shut_left(l);
	message_add(m, " has used the stack of ");
	if (v != NULL)
		law_name(m, v);
	else
		message_add(m, "a thread");
	message_add(m, ", which waits: " LAW_SAYS, (void *)at);
	return 1;
}

/* Adds to m what usched_explain() says. */
static int explain(struct message *m, const struct ustack *u, uintptr_t at,
		   const void *context)
{
	uintptr_t reg[GUARD_REGS] = { 0 };
	int nr = registers(context, reg);

	return (u != NULL && too_deep(m, u, at, reg[0])) ||
	       in_shut(m, at, reg, nr) ||
	       (u != NULL && in_guard(m, u, at)) ||
	       in_fill(m, u, at, reg, nr);
}

/*
 * Writes to text what u has done, which runs and has faulted at this address,
 * as words that follow its name. NULL: no thread runs here. 0: unknown.
 */
int usched_explain(const struct ustack *u, uintptr_t at, const void *context,
		   char *text, size_t size)
{
	struct message m = { .ms_nob = 0 };

	if (u != NULL)
		see_whole(u);
	if (!explain(&m, u, at, context) || m.ms_nob >= size)
		return 0;
	memcpy(text, m.ms_text, m.ms_nob + 1);
	return 1;
}

static int guarded;		/* native threads (atomic) */

static void on_fault(int signo, siginfo_t *info, void *context)
{
	const struct ustack *u = usched_current;
	struct message m = { .ms_nob = 0 };

	/* A signal that kill() sends has no address. */
	if (info->si_code > 0) {
		if (u != NULL) {
			see_whole(u);
			law_name(&m, u);
		} else
			message_add(&m, "a native thread");
		if (explain(&m, u, (uintptr_t)info->si_addr, context))
			usched_fail(m.ms_text);
	}
	(void)signal(signo, SIG_DFL);
	if (info->si_code <= 0)
		(void)raise(signo);	/* it does not happen again */
}

/* Is the handler of SIGSEGV what h is? */
static int handles(void (*h)(int, siginfo_t *, void *))
{
	struct sigaction now;

	if (sigaction(SIGSEGV, NULL, &now) != 0)
		return 0;
	return now.sa_flags & SA_SIGINFO ? now.sa_sigaction == h :
	       h == NULL && now.sa_handler == SIG_DFL;
}

enum { GUARD_UNREAD, GUARD_ON, GUARD_OFF };

/*
 * What USCHED_GUARD says is read once, with the first lanes: native threads begin
 * while others may change the environment (env E2).
 */
static int guard_off(void)
{
	static int known;		/* atomic */
	int how = __atomic_load_n(&known, __ATOMIC_RELAXED);
	const char *value;

	if (how == GUARD_UNREAD) {
		value = usched_env(&env_guard);
		how = HARD || (value != NULL && strcmp(value, "0") == 0) ?
			GUARD_OFF : GUARD_ON;
		__atomic_store_n(&known, how, __ATOMIC_RELAXED);
	}
	return how == GUARD_OFF;
}

void *usched_alternate_begin(void)
{
	stack_t alt;

	if (sigaltstack(NULL, &alt) != 0 || !(alt.ss_flags & SS_DISABLE))
		return NULL;
	alt = (stack_t) { .ss_size = GUARD_STACK };
	alt.ss_sp = mmap(NULL, GUARD_STACK, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (alt.ss_sp == MAP_FAILED)
		return NULL;
	if (sigaltstack(&alt, NULL) == 0)
		return alt.ss_sp;
	munmap(alt.ss_sp, GUARD_STACK);
	return NULL;
}

void usched_alternate_end(void *alternate)
{
	const stack_t none = { .ss_flags = SS_DISABLE };
	stack_t alt;

	if (alternate == NULL || sigaltstack(NULL, &alt) != 0)
		return;
	if (alt.ss_sp == alternate)	/* else the program has set its own */
		(void)sigaltstack(&none, NULL);
	munmap(alternate, GUARD_STACK);
}

/*
 * Installs the handler if SIGSEGV has none. Returns whether it is there. All that
 * begin call this: the first may have been descheduled before.
 */
static int guard_install(void)
{
	struct sigaction action = {
		.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK
	};
	int there;

	sigemptyset(&action.sa_mask);
	if (!guard_off() && handles(NULL))
		(void)sigaction(SIGSEGV, &action, NULL);
	there = handles(on_fault);	/* last: another may have installed it */
	__atomic_store_n(&law_guarded, there, __ATOMIC_RELAXED);
	return there;
}

void *usched_guard_begin(void)
{
	__atomic_fetch_add(&guarded, 1, __ATOMIC_SEQ_CST);
	return guard_install() ? usched_alternate_begin() : NULL;
}

void usched_guard_end(void *guard)
{
	usched_alternate_end(guard);
	if (__atomic_sub_fetch(&guarded, 1, __ATOMIC_SEQ_CST) != 0)
		return;
	__atomic_store_n(&law_guarded, 0, __ATOMIC_RELAXED);
	if (handles(on_fault))
		(void)signal(SIGSEGV, SIG_DFL);
	if (__atomic_load_n(&guarded, __ATOMIC_SEQ_CST) != 0)
		(void)guard_install();	/* another has begun meanwhile */
}
