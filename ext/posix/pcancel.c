/* SPDX-License-Identifier: MIT */
/* pcancel.c: the pthread face: exit, clean-up handlers, cancellation. */

/*
 * A thread ends before its return by pthread_exit(), or because it is
 * cancelled. Its clean-up handlers run, and then its shell goes on (pthreads E1).
 *
 * CANCELLATION is deferred. pthread_cancel() sets p_canceled, and interrupts
 * the handle (uthread_interrupt()). Threads are not interruptible, except
 * during the waits that are cancellation points. So no lock fails. A wait that
 * was interrupted returns, and then its function goes to pthreads E1. The hooks
 * of uwrap.c, if they are linked, call pface_point() and pface_pointed(), so
 * read(), write() and the like are such points, too. The asynchronous type is
 * kept and returned, and a thread that sets it looks at once, but no thread is
 * stopped between two calls.
 *
 * A clean-up handler in C is a frame of the program: the macros of glibc jump
 * there by siglongjmp(), and from there come back by __pthread_unwind_next().
 * Those of musl make a list. If libgcc's unwinder is linked, as in C++, all
 * frames are unwound on the way.
 */

#include "pself.h"
#include "compiler.h"

#include <errno.h>
#include <string.h>

UPREEMPT_NEVER;

NATIVE(pthread_exit);
NATIVE(pthread_cancel);
NATIVE(pthread_setcancelstate);
NATIVE(pthread_setcanceltype);
NATIVE(pthread_testcancel);

/*
 * Returns whether the caller gets libc's function, where that concerns only the
 * caller: t, or NULL.
 */
static bool is_strange(const struct pthread_face *t)
{
	return t == NULL && pface_is_native();
}

/* The end of a thread before its return. */

/* Runs the next clean-up handler of t, the caller, which then unwinds on. */
static NORETURN void jump(struct pthread_face *t)
{
	cleanup *c = t->p_cleanups;

#if defined(__GLIBC__)
	if (c != NULL) {
		struct __jmp_buf_tag *to = (void *)c->__cancel_jmp_buf;

		t->p_cleanups = PFACE_NEXT(c);
		__asm__("" : "+r" (to));	/* it has no room for signals */
		siglongjmp(to, 1);
	}
#else
	for (; c != NULL; c = t->p_cleanups) {
		t->p_cleanups = PFACE_NEXT(c);
		c->__f(c->__x);
	}
#endif
	_longjmp(t->p_exit, 1);
}

/* Called at each frame: unwinds as far as the next jump goes. */
static _Unwind_Reason_Code stop(int version, _Unwind_Action actions,
				_Unwind_Exception_Class class,
				struct _Unwind_Exception *exception,
				struct _Unwind_Context *context, void *arg)
{
	struct pthread_face *t = arg;
	const void *frame = (const void *)(uintptr_t)_Unwind_GetCFA(context);
	const void *to = t->p_cleanups != NULL ?
		(const void *)t->p_cleanups : t->p_frame;

	(void)version, (void)class, (void)exception;
	if (actions & _UA_END_OF_STACK || (uintptr_t)frame > (uintptr_t)to)
		jump(t);
	return _URC_NO_REASON;
}

extern __typeof__(_Unwind_ForcedUnwind) _Unwind_ForcedUnwind
	__attribute__((weak));

/* Goes on with pthreads E1. */
static NORETURN void unwind(struct pthread_face *t)
{
	memset(&t->p_unwinds, 0, sizeof t->p_unwinds);
	if (_Unwind_ForcedUnwind != NULL)
		(void)_Unwind_ForcedUnwind(&t->p_unwinds, stop, t);
	jump(t);
}

static NORETURN void leave_with(struct pthread_face *t, void *result)
{
	t->p_exits  = true;
	t->p_points = 0;
	t->p_result = result;
	(void)uthread_interruptible(false);
	unwind(t);
}

NORETURN void FACE(pthread_exit)(void *result)
{
	struct pthread_face *t = pface_self();

	if (is_strange(t))
		REAL(pthread_exit)(result);
	if (t == NULL)
		usched_fail("pthread_exit: the caller was not made by "
			    "pthread_create()");
	leave_with(t, result);
}

/* Clean-up handlers, as the macros of libc have them. */

static void cleanup_add(cleanup *c)
{
	struct pthread_face *t = pface_self();

	if (t == NULL)
		return;
	PFACE_NEXT(c) = t->p_cleanups;
	t->p_cleanups = c;
}

static void cleanup_out(cleanup *c)
{
	struct pthread_face *t = pface_self();

	if (t != NULL)
		t->p_cleanups = PFACE_NEXT(c);
}

#if defined(__GLIBC__)
NATIVE(__pthread_register_cancel);
NATIVE(__pthread_unregister_cancel);
NATIVE(__pthread_unwind_next);

void FACE(__pthread_register_cancel)(cleanup *c)
{
	if (is_strange(pface_self()))
		REAL(__pthread_register_cancel)(c);
	else
		cleanup_add(c);
}

void FACE(__pthread_unregister_cancel)(cleanup *c)
{
	if (is_strange(pface_self()))
		REAL(__pthread_unregister_cancel)(c);
	else
		cleanup_out(c);
}

NORETURN void FACE(__pthread_unwind_next)(cleanup *c)
{
	struct pthread_face *t = pface_self();

	if (is_strange(t))
		REAL(__pthread_unwind_next)(c);
	unwind(t);
}
#else
NATIVE(_pthread_cleanup_push);
NATIVE(_pthread_cleanup_pop);

void FACE(_pthread_cleanup_push)(cleanup *c, void (*f)(void *), void *arg)
{
	if (is_strange(pface_self())) {
		REAL(_pthread_cleanup_push)(c, f, arg);
		return;
	}
	c->__f = f;
	c->__x = arg;
	cleanup_add(c);
}

void FACE(_pthread_cleanup_pop)(cleanup *c, int run)
{
	if (is_strange(pface_self())) {
		REAL(_pthread_cleanup_pop)(c, run);
		return;
	}
	cleanup_out(c);
	if (run)
		c->__f(c->__x);
}
#endif

/* Cancellation. */

static bool is_canceled(const struct pthread_face *t)
{
	return t->p_state == PTHREAD_CANCEL_ENABLE && !t->p_exits &&
		__atomic_load_n(&t->p_canceled, __ATOMIC_RELAXED);
}

/* A signal handler may be in one within another. */
void pface_point(void)
{
	struct pthread_face *t = pface_self();

	if (t == NULL)
		return;
	if (is_canceled(t))
		leave_with(t, PTHREAD_CANCELED);
	if (t->p_points++ == 0)
		(void)uthread_interruptible(!t->p_exits &&
				t->p_state == PTHREAD_CANCEL_ENABLE);
}

void pface_pointed(int rc)
{
	struct pthread_face *t = pface_self();

	if (t == NULL)
		return;
	if (--t->p_points == 0)
		(void)uthread_interruptible(false);
	if (rc == -ECANCELED && is_canceled(t))
		leave_with(t, PTHREAD_CANCELED);
}

int FACE(pthread_cancel)(pthread_t name)
{
	struct pthread_face *t = pface_find(name);
	bool now;

	if (t == NULL)
		return pface_is_native() ? REAL(pthread_cancel)(name) : ESRCH;
	__atomic_store_n(&t->p_canceled, 1, __ATOMIC_RELAXED);
	now = t == pface_self() && t->p_type == PTHREAD_CANCEL_ASYNCHRONOUS &&
		is_canceled(t);
	if (!t->p_ended && t != pface_self())
		(void)uthread_interrupt(t->p_handle);		/* pthreads T2 */
	pface_found(t);
	if (now)
		leave_with(t, PTHREAD_CANCELED);
	return 0;
}

void FACE(pthread_testcancel)(void)
{
	struct pthread_face *t = pface_self();

	if (is_strange(t))
		REAL(pthread_testcancel)();
	else if (t != NULL && is_canceled(t))
		leave_with(t, PTHREAD_CANCELED);
}

/* Sets *at, one of two neighbouring values. 0, EINVAL. */
static int choose(int *at, int to, int a, int b, int *was)
{
	struct pthread_face *t = pface_self();

	if (to != a && to != b)
		return EINVAL;
	if (was != NULL)
		*was = *at;
	*at = to;
	if (t != NULL && t->p_type == PTHREAD_CANCEL_ASYNCHRONOUS &&
	    is_canceled(t))
		leave_with(t, PTHREAD_CANCELED);
	return 0;
}

int FACE(pthread_setcancelstate)(int state, int *was)
{
	struct pthread_face *t = pface_self();
	int none = PTHREAD_CANCEL_ENABLE;

	if (is_strange(t))
		return REAL(pthread_setcancelstate)(state, was);
	return choose(t != NULL ? &t->p_state : &none, state,
		      PTHREAD_CANCEL_ENABLE, PTHREAD_CANCEL_DISABLE, was);
}

int FACE(pthread_setcanceltype)(int type, int *was)
{
	struct pthread_face *t = pface_self();
	int none = PTHREAD_CANCEL_DEFERRED;

	if (is_strange(t))
		return REAL(pthread_setcanceltype)(type, was);
	return choose(t != NULL ? &t->p_type : &none, type,
		      PTHREAD_CANCEL_DEFERRED, PTHREAD_CANCEL_ASYNCHRONOUS,
		      was);
}
