/* SPDX-License-Identifier: MIT */
/* ugen.h: generators, which yield values from any depth of plain calls. */

#ifndef UGEN_H
#define UGEN_H

/*
 *	static void walk(const struct node *n)
 *	{
 *		if (n == NULL)
 *			return;
 *		walk(n->left);
 *		ugen_yield(&n->key);
 *		walk(n->right);
 *	}
 *
 *	static void keys(void *root)
 *	{
 *		walk(root);
 *	}
 *
 *	g = ugen_make(keys, root, sizeof(int));
 *	while ((key = ugen_next(g)) != NULL)
 *		printf("%d\n", *key);
 *	rc = ugen_free(g);
 *
 * A generator is a function on a stack of its own (a lane), which runs only
 * while its consumer waits in ugen_next(). The consumer is a thread of any
 * scheduler, plain main(), or another generator. Between two calls it may
 * block, and go on in another native thread; and another thread may become the
 * consumer. Its stack stays in place while the generator runs, so a generator
 * may use variables of its consumer, as long as that is the same thread.
 * ugen.hpp has the same for C++, with destructors, exceptions, and range-for.
 *
 * WHO MAY CALL WHAT
 *
 *	ugen_make(), ugen_trim()	any thread, any native thread
 *	ugen_next(), ugen_free()		the same, one at a time for each
 *					generator
 *	ugen_yield()			the generator, in any function
 *
 * No function may be called by a signal handler.
 *
 * ERRORS
 *
 * If a consumer ignores what ugen_make() returns, ugen_next() and ugen_free()
 * take the NULL. So one look at the result of ugen_free() is enough.
 *
 * If ugen_yield() returns an error, the generator frees what it holds, and
 * returns. If it yields again instead, it ends there, as by ustack_abort(). The
 * calls of ugen_free() and ugen_next() by the generator itself, or by a
 * generator that it has called, break a contract. So does a yield outside of
 * generators.
 *
 * CAVEATS
 *
 * - A generator must not wait: its consumer does that, between two values. In
 *   a generator the waits of uwait.h return -ENOSYS. ustack_block(), rr_wait()
 *   and the like end the program. A generator may wake threads, and make them.
 *   It is not preempted (upreempt.h).
 * - A pointer to a value is valid until the next ugen_next() or ugen_free(). A
 *   value must not point into the stack of its generator.
 * - Floating-point control words are those of the consumer, as in a function.
 * - A longjmp() must not leave a generator, nor may a C++ exception: see
 *   ugen.hpp.
 * - A generator takes a page of stack or more, and two mappings: Linux allows
 *   some 30,000 at a time. Each may use UGEN_STACK bytes of stack.
 * - Without lanes (USCHED_PORTABLE, Valgrind) a generator lies on the stack of
 *   the consumer that first called ugen_next(). Others must be on the same
 *   native stack, and no more than UGEN_DEEPER bytes deeper than that call was.
 */

#include "usched.h"
#if defined(USCHED_HARD)
#include "uhard.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define UGEN_STACK	((size_t)256 << 10)
#define UGEN_DEEPER	((size_t)24 << 10)

/* Not API. Values of up to this many bytes need no memory of their own. */
#define UGEN_ROOM	128
#define UGEN_ALIGN	64

/* Not API. The size of the values of ugen.hpp, which C cannot yield. */
#define UGEN_CXX	(-sizeof(char))

/* Not API. States. HELD and LOW are also ge_held. */
enum {
	UGEN_FREE,		/* for another ugen_make() */
	UGEN_NEW,
	UGEN_RUNS,
	UGEN_HELD,		/* it has yielded, with lanes */
	UGEN_LOW,		/* it has yielded, without lanes */
	UGEN_ENDED
};

/* Not API, except that all its values are aligned for any type. */
struct ugen {
	struct ustack      ge_stack;	/* first: ustack_self() */
#if defined(USCHED_HARD)
	struct uhard_object ge_object;	/* here, as in struct uproc_thread */
#endif
	int                ge_none[4];	/* a counted wait finds no wake */
	int                ge_state;
	int                ge_held;	/* ge_state after a yield */
	int                ge_rc;	/* what yields return from now on */
	int                ge_deep;	/* largest slice, if that is large */
	void              *ge_value;
	size_t             ge_size;
	char              *ge_ledge;	/* without lanes: it lies below */
	struct ugen       *ge_next;	/* free, too */
	struct ugen_batch *ge_batch;
	struct usched      ge_sched;
	char ge_room[UGEN_ROOM] __attribute__((aligned(UGEN_ALIGN)));
};

/*
 * Makes a generator of values of size bytes, which will run f(arg) from the
 * first ugen_next() on. NULL and ENOMEM: no memory, or too many mappings.
 */
USCHED_MUST struct ugen *ugen_make(void (*f)(void *), void *arg, size_t size);

/*
 * Runs the generator until it yields, and returns a pointer to the value. NULL:
 * it has ended, or g is NULL.
 */
static __inline__ void *ugen_next(struct ugen *g);

/*
 * Ends and frees the generator. If it is at a yield, its ugen_yield() returns
 * -ECANCELED, and the generator runs until it returns or yields again. If it
 * was never run, it never is. 0; -ENOMEM: g is NULL, or ugen_yield() has
 * returned that to the generator.
 */
int ugen_free(struct ugen *g);

/*
 * Yields a copy of the value, and returns when the consumer calls ugen_next()
 * again. 0; -ENOMEM: the value was not yielded; -ECANCELED: the consumer has
 * called ugen_free(). After an error see "Errors" above. -ENOMEM comes only
 * where slices are copied: in the hard mode, and without lanes.
 */
static __inline__ int ugen_yield(const void *value);

/*
 * Gives back the memory that is kept for later generators: some 300 KiB, more
 * if they used more than a page of stack each.
 */
void ugen_trim(void);

/* Not API. Ends a generator that is at a yield. */
void ugen_stop(struct ugen *g);

/* Not API. */
void *ugen_next_slow(struct ugen *g);
void ugen_copy(struct ugen *g, const void *value);
struct ustack *ugen_none(struct usched *s);

static __inline__ void *ugen_next(struct ugen *g)
{
	if (__builtin_expect(g != NULL && g->ge_state == UGEN_HELD, 1)) {
		g->ge_state = UGEN_RUNS;
		if (usched_enter(&g->ge_stack) != 0)
			g->ge_state = UGEN_ENDED;
		else if (__builtin_expect(g->ge_state == UGEN_HELD, 1))
			return g->ge_value;
	}
	return ugen_next_slow(g);
}

/* Not API. Returns the generator that runs. */
static __inline__ struct ugen *ugen_self(void)
{
	struct ustack *u = ustack_self();

	if (__builtin_expect(u == NULL || u->u_sched->s_next != ugen_none, 0))
		usched_fail("ugen_yield: called outside of a generator");
	return (struct ugen *)u;
}

/* Not API. Lets the consumer go on. In place: see usched_block(). */
static __inline__ __attribute__((always_inline)) int ugen_pass(struct ugen *g)
{
	int rc;

	g->ge_state = g->ge_held;
	rc = usched_pass();
	if (__builtin_expect(rc != 0, 0)) {
		g->ge_state = UGEN_RUNS;
		g->ge_rc    = rc;
	}
	return g->ge_rc;
}

static __inline__ __attribute__((always_inline))
int ugen_yield(const void *value)
{
	struct ugen *g = ugen_self();

	if (__builtin_expect(g->ge_rc != 0, 0))
		ustack_abort();
	/* Common sizes need no call. (gcc would warn of the others.) */
	__asm__("" : "+r"(value));
	if (g->ge_size == sizeof(int))
		__builtin_memcpy(g->ge_value, value, sizeof(int));
	else if (g->ge_size == sizeof(void *))
		__builtin_memcpy(g->ge_value, value, sizeof(void *));
	else
		ugen_copy(g, value);
	return ugen_pass(g);
}

#ifdef __cplusplus
}
#endif

#endif /* UGEN_H */
