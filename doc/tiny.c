/* SPDX-License-Identifier: MIT */
/* tiny.c: threads that copy their stacks, in about a hundred lines of C. */

/*
 * This is the idea of usched, without the speed: read this file first.
 *
 * All threads run on one stack, which they share with the dispatcher,
 * usched_run(). A thread that blocks needs only its own slice of that stack,
 * mostly some hundred bytes. The dispatcher copies the slice to a buffer, and
 * runs another thread in the same place. Later it copies the slice back, to the
 * addresses from which the slice came. Therefore all pointers into the slice,
 * and all return addresses, are right again.
 *
 * A thread U has called foo(), which has called bar(), which blocks. Lower
 * addresses are on the left:
 *
 *	  save() ustack_block() bar()  foo()  U->u_f() launch() usched_run()
 *	 |      |              |      |      |         |       |           | ...
 *	 ^                                             ^
 *	 U->u_top                                      s->s_base
 *	 |<--------------- the slice of U ------------>|
 *
 * Both ends lie somewhere in the frames of save() and launch(): see HERE.
 * The registers are not in the slice. setjmp() stores them in U->u_regs, and
 * those of usched_run() in s->s_regs. A switch is a longjmp() to one of them.
 *
 *	to start U	launch() calls U->u_f().
 *	to block U	setjmp(U->u_regs); copy the slice to the buffer;
 *			longjmp(s->s_regs).
 *	to resume U	move the stack pointer to the left of the slice; copy the
 *			buffer to the slice; longjmp(U->u_regs).
 *	to end U	longjmp(s->s_regs).
 *
 * The dispatcher does not choose the next thread, and does not allocate memory.
 * A scheduler does both, by the three call-backs in struct usched. The rest of
 * this file, from "A scheduler" on, is an example of a scheduler.
 *
 * RULES
 *
 * - A pointer into the stack of a thread is valid only while that thread runs.
 *   Threads share data in static storage or on the heap.
 * - Threads may be blocked when usched_run() returns. A later usched_run() can
 *   run them only if its stack frame lies in the same place.
 * - No thread calls usched_run(). Only one native thread uses this file.
 * - The stack must grow to lower addresses, as on most machines. The compiler
 *   must be gcc or clang.
 *
 * Next, read usched.h. Its functions have the same names, and usched.c tells
 * how to avoid nearly all of the copying.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A dispatcher. The scheduler sets the call-backs. */
struct usched {
	struct ustack *(*s_next) (struct usched *s);	/* NULL: return */
	void          *(*s_alloc)(struct usched *s, int size);
	void           (*s_free) (struct usched *s, void *buf, int size);

	jmp_buf         s_regs;		/* of usched_run() */
	char           *s_base;		/* all slices end here */
};

/* A thread. */
struct ustack {
	struct usched  *u_sched;
	void          (*u_f)(void *);	/* what the thread runs */
	void           *u_arg;
	void           *u_stack;	/* buffer for the slice, or NULL */
	int             u_len;		/* bytes in u_stack */

	jmp_buf         u_regs;
	char           *u_top;		/* the slice begins here; NULL: new */
};

#define NOINLINE	__attribute__((noinline))
#define NORETURN	__attribute__((noinline, noreturn))

/*
 * An address in the frame of the current function. Functions that it has called
 * have their frames to the left of HERE, its callers to the right.
 */
#define HERE		((char *)__builtin_frame_address(0))

static void resume(struct ustack *u);
static NORETURN void launch(struct ustack *u);
static NORETURN void restore(struct ustack *u);
static NOINLINE int save(struct ustack *u);
static int fit(struct ustack *u, int size);
NORETURN void ustack_abort(void);

static struct ustack *self;		/* the running thread, or NULL */

/* Runs threads until s_next() returns NULL. */
void usched_run(struct usched *s)
{
	setjmp(s->s_regs);		/* here a thread has blocked or ended */
	self = NULL;
	self = s->s_next(s);
	if (self == NULL)
		return;
	if (self->u_top == NULL)
		launch(self);
	else
		resume(self);
}

/*
 * Runs a new thread. A part of this frame may lie outside of the slice, and is
 * soon overwritten. So nothing in the frame is used after u_f() has returned.
 */
static void launch(struct ustack *u)
{
	u->u_sched->s_base = HERE;
	u->u_f(u->u_arg);
	ustack_abort();
}

/*
 * Lets a blocked thread go on. The copy must not overwrite the frame of the
 * function that copies: so alloca() moves the stack pointer to the left of the
 * slice first. As a benefit, the longjmp() is a jump to the right. That is the
 * only direction which _FORTIFY_SOURCE permits.
 */
static void resume(struct ustack *u)
{
	volatile char *room;

	if (HERE > u->u_top) {
		room = __builtin_alloca(HERE - u->u_top);
		room[0] = 0;		/* or the compiler omits the alloca() */
	}
	restore(u);
}

/* Called with the stack pointer to the left of the slice. */
static void restore(struct ustack *u)
{
	memcpy(u->u_top, u->u_stack, u->u_sched->s_base - u->u_top);
	longjmp(u->u_regs, 1);
}

/*
 * Blocks the running thread until s_next() returns it. 0, or -ENOMEM: then the
 * thread has not blocked.
 */
int ustack_block(void)
{
	if (setjmp(self->u_regs) == 0)
		return save(self);
	return 0;
}

/* Copies the slice out and leaves it. Returns only if there is no buffer. */
static int save(struct ustack *u)
{
	struct usched *s = u->u_sched;
	char *top = HERE;
	int size = s->s_base - top;

	if (fit(u, size) != 0)
		return -ENOMEM;
	u->u_top = top;
	memcpy(u->u_stack, u->u_top, size);
	longjmp(s->s_regs, 1);
}

/* Provides a buffer of at least this size. */
static int fit(struct ustack *u, int size)
{
	struct usched *s = u->u_sched;
	void *buf;

	if (u->u_stack != NULL && u->u_len >= size)
		return 0;
	buf = s->s_alloc(s, size);
	if (buf == NULL)
		return -ENOMEM;
	if (u->u_stack != NULL)
		s->s_free(s, u->u_stack, u->u_len);
	u->u_stack = buf;
	u->u_len   = size;
	return 0;
}

/* Ends the running thread. Its buffer is the scheduler's to free. */
void ustack_abort(void)
{
	longjmp(self->u_sched->s_regs, 1);
}

/* Makes a new thread that will run f(arg), with a first buffer or NULL. */
void ustack_init(struct ustack *u, struct usched *s, void (*f)(void *),
		 void *arg, void *stack, int len)
{
	memset(u, 0, sizeof *u);
	u->u_sched = s;
	u->u_f     = f;
	u->u_arg   = arg;
	u->u_stack = stack;
	u->u_len   = len;
}

/* Returns the running thread. In s_next(), NULL. */
struct ustack *ustack_self(void)
{
	return self;
}

/* A scheduler: two threads take turns. */

static struct ustack ping, pong;
static struct ustack *queue[2] = { &ping, &pong };
static unsigned head, tail = 2;

static struct ustack *next(struct usched *s)
{
	(void)s;
	return head < tail ? queue[head++ % 2] : NULL;
}

static void *alloc(struct usched *s, int size)
{
	(void)s;
	return malloc(size);
}

static void drop(struct usched *s, void *buf, int size)
{
	(void)s, (void)size;
	free(buf);
}

static void yield(void)
{
	queue[tail++ % 2] = ustack_self();
	if (ustack_block() != 0)
		abort();		/* out of memory */
}

/* Blocks in each of four calls. The last prints the locals of all of them. */
static void dive(const char *name, int depth, const int *above)
{
	int local = above != NULL ? *above * 10 + depth : depth;

	yield();
	if (depth < 4)
		dive(name, depth + 1, &local);
	else
		printf("%s has dived to %d\n", name, local);
	yield();
	printf("%s comes up to %d\n", name, local);
}

static void run(void *name)
{
	dive(name, 1, NULL);
}

int main(void)
{
	struct usched s = { .s_next = next, .s_alloc = alloc, .s_free = drop };

	ustack_init(&ping, &s, run, "ping", NULL, 0);
	ustack_init(&pong, &s, run, "pong", NULL, 0);
	usched_run(&s);
	free(ping.u_stack);
	free(pong.u_stack);
	return 0;
}
