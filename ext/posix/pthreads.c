/* SPDX-License-Identifier: MIT */
/* pthreads.c: the pthread face: threads, cancellation, keys, time. */

/*
 * OVERVIEW
 *
 * A program that is written for pthreads calls these functions instead of
 * libc's: usched/pthreads.h says how. Each asks who calls. A native thread gets
 * libc's function, so libraries and their threads stay as they are. A thread of
 * ours gets what stands here.
 *
 *	pthread_t --> struct pthread_face       struct uthread (uthread.h)
 *	              +--------------------+    +-----------------------+
 *	              | p_shell: f, arg    |<---+ function: a shell     |
 *	              | p_handle  ---------+--->| joiner, keys,         |
 *	              | p_result           |    |   interrupts          |
 *	              | p_cleanups         |    +-----------------------+
 *	              | p_exit: the shell  |
 *	              +--------------------+
 *
 * The uthread runs a shell (usched.h), which runs the function of the program.
 * So messages have that function, and its argument.
 *
 * pthread_t, attributes and their functions are libc's own. Mutexes and the
 * like are in plocks.c.
 *
 * THE END of a thread, by a return or by pthread_exit(), which comes to the
 * same place, the shell:
 *
 *	E1 clean-up handlers run, the last first; in C++ destructors, too
 *	E2 back in the shell. Scopes that are left are cancelled, and end
 *	E3 destructors of keys run
 *	E4 under the lock of its place it becomes ENDED, and is interrupted no
 *	   more. If it is detached, it goes out of the table, and detaches its
 *	   handle. A pthread_detach() before E4 only sets p_detached; a later
 *	   one detaches the handle itself
 *	E5 the uthread ends, and tells its joiner
 *
 * IN THE CHILD of fork() the thread that has forked is the only thread. It stays
 * a thread of the face, but waits by libc's functions, and there is nobody for
 * whom E2, E4 or E5 would be. So after E3 it calls libc's pthread_exit(): the
 * process ends as by exit(0), after the native threads that it has made.
 *
 * CANCELLATION is deferred. pthread_cancel() sets p_canceled, and interrupts
 * the handle (uthread_interrupt()). Threads are not interruptible, except
 * during the waits that are cancellation points. So no lock fails. A wait that
 * was interrupted returns, and then its function goes to E1. The hooks of
 * uwrap.c, if they are linked, call pface_point() and pface_pointed(), so read(),
 * write() and the like are such points, too. The asynchronous type is kept and
 * returned, and a thread that sets it looks at once, but no thread is stopped
 * between two calls.
 *
 * A clean-up handler in C is a frame of the program: the macros of glibc jump
 * there by siglongjmp(), and from there come back by __pthread_unwind_next().
 * Those of musl make a list. If libgcc's unwinder is linked, as in C++, all
 * frames are unwound on the way.
 *
 * INVARIANTS
 *
 * T1. A thread is in the table from before its begin until its join has
 *     returned, or, if it is detached, until its end (E4). All that find it
 *     there touch it under the lock of its place.
 * T2. The handle is valid until the thread is ENDED: so it may be interrupted
 *     under the lock, if it is not ENDED. From then on it is valid until its
 *     only join or detach.
 * T3. p_state, p_type, p_exits, p_points and p_cleanups are the thread's own.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "pface.h"
#include "uscope.h"
#include "usync.h"
#include "lock.h"
#include "ufork.h"
#include "compiler.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

UPREEMPT_NEVER;

NATIVE(pthread_create);
NATIVE(pthread_join);
NATIVE(pthread_detach);
NATIVE(pthread_exit);
NATIVE(pthread_self);
NATIVE(pthread_cancel);
NATIVE(pthread_setcancelstate);
NATIVE(pthread_setcanceltype);
NATIVE(pthread_testcancel);
NATIVE(pthread_kill);
NATIVE(pthread_setname_np);
NATIVE(pthread_getname_np);
NATIVE(pthread_key_create);
NATIVE(pthread_key_delete);
NATIVE(pthread_getspecific);
NATIVE(pthread_setspecific);
NATIVE(pthread_getschedparam);
NATIVE(pthread_setschedparam);
NATIVE(pthread_getcpuclockid);
NATIVE(sched_yield);
NATIVE(sleep);
NATIVE(usleep);
NATIVE(nanosleep);
NATIVE(clock_nanosleep);

#define NAME	16		/* bytes of a name, with its 0, as in libc */

#if defined(__GLIBC__)
typedef __pthread_unwind_buf_t cleanup;
#define NEXT(c)	(*(cleanup **)(c)->__pad)
#else
typedef struct __ptcb cleanup;
#define NEXT(c)	((c)->__next)
#endif

struct pthread_face {
	struct ushell        p_shell;	/* first: the program's function */
	struct pthread_face *p_next;	/* in the table */
	struct uthread      *p_handle;
	/* The thread's own. */
	void                *p_result;
	cleanup             *p_cleanups; /* the last comes first */
	int                  p_state;	/* PTHREAD_CANCEL_ENABLE, or _DISABLE */
	int                  p_type;
	bool                 p_exits;	/* E1 has begun */
	unsigned             p_points;	/* it is in a cancellation point */
	unsigned             p_reads;	/* read locks that it has */
	const void          *p_frame;	/* of the shell: below are the program's */
	jmp_buf              p_exit;
	struct _Unwind_Exception p_unwinds;	/* outlives the frames that it leaves */
	/* Under the lock of its place in the table. */
	bool                 p_detached;
	bool                 p_joining;
	bool                 p_ended;
	char                 p_name[NAME];
	int                  p_canceled;	/* atomic */
};

/* The table of threads: a pthread_t that is not in it is not ours. */

enum { PLACES = 64 };

static struct place {
	struct ulock         pl_lock;
	struct pthread_face *pl_first;
} __attribute__((aligned(64))) places[PLACES];

static const struct ustack *forked;	/* the thread that has forked us */

static void in_child(void)
{
	forked = ustack_self();
}

static struct ufork at_fork = {
	.f_rank = UFORK_FACE, .f_lock = &places[0].pl_lock,
	.f_nr = PLACES, .f_step = sizeof places[0], .f_child = in_child
};
UFORK(at_fork)

static struct place *place_of(const void *t)
{
	return &places[(uintptr_t)t / 64 % PLACES];
}

static pthread_t name_of(const struct pthread_face *t)
{
	return (pthread_t)(uintptr_t)t;
}

/* Returns the thread, with its place locked; or NULL, with nothing locked. */
static struct pthread_face *find(pthread_t name)
{
	const void *t = (const void *)(uintptr_t)name;
	struct place *p = place_of(t);
	struct pthread_face *at;

	ulock_get(&p->pl_lock);
	for (at = p->pl_first; at != NULL && at != t; at = at->p_next)
		;
	if (at == NULL)
		ulock_put(&p->pl_lock);
	return at;
}

static void found(const struct pthread_face *t)
{
	ulock_put(&place_of(t)->pl_lock);
}

static void table_add(struct pthread_face *t)
{
	struct place *p = place_of(t);

	ulock_get(&p->pl_lock);
	t->p_next = p->pl_first;
	p->pl_first = t;
	ulock_put(&p->pl_lock);
}

/* Takes t out. Caller holds the lock of its place. */
static void table_out(struct pthread_face *t)
{
	struct pthread_face **at = &place_of(t)->pl_first;

	while (*at != t)
		at = &(*at)->p_next;
	*at = t->p_next;
}

/* Takes t out of the table, and frees it. */
static void thread_free(struct pthread_face *t)
{
	struct place *p = place_of(t);

	ulock_get(&p->pl_lock);
	table_out(t);
	ulock_put(&p->pl_lock);
	free(t);
}

/* Threads. */

static void shell(struct ushell *h);

struct pthread_face *pface_self(void)
{
	const struct uself_block *b = uself_of(ustack_self());
	struct ushell *h;

	if (b == NULL || b->b_self.e_shell.h_f != ustack_shell)
		return NULL;
	h = b->b_self.e_shell.h_arg;
	return h->h_run == shell ? (struct pthread_face *)h : NULL;
}

/* Returns whether the caller is the thread that has forked this process. */
static bool is_forked(void)
{
	return ustack_self() != NULL && ustack_self() == forked;
}

/*
 * Returns whether the caller gets libc's functions: a native thread, or in the
 * child of fork() the thread that has forked, since others cannot run there.
 */
static bool is_native(void)
{
	return ustack_self() == NULL || is_forked();
}

/* The same for functions that concern only the caller, t, or NULL. */
static bool is_strange(const struct pthread_face *t)
{
	return t == NULL && is_native();
}

/* Cancels and ends the scopes that an exit has left. */
static void leave_scopes(void)
{
	struct uscope *s;

	while ((s = uscope_self()) != NULL) {
		uscope_cancel(s);
		while (s != NULL && uscope_end(&s) == -ENOMEM)
			(void)uwait_give_way();
	}
}

struct pface_main pface_main;
static long alive;		/* threads (atomic) */

/* E4. The caller, t, may be freed, so its uthread is no shell of it any more. */
static void leave(struct pthread_face *t)
{
	struct uself_block *b = uself_of(ustack_self());
	struct place *p = place_of(t);
	struct uthread *handle = t->p_handle;
	bool detached;

	b->b_self.e_shell.h_f   = t->p_shell.h_f;
	b->b_self.e_shell.h_arg = t->p_shell.h_arg;
	ulock_get(&p->pl_lock);
	t->p_ended = true;
	detached = t->p_detached;
	if (detached)
		table_out(t);
	ulock_put(&p->pl_lock);
	if (detached) {
		(void)uthread_detach(handle);
		free(t);
	}
}

/* Calls the function of t, the caller. Returns its result. */
static void *call(const struct pthread_face *t)
{
	const struct ushell *h = &t->p_shell;
	void (*f)(void) = (void (*)(void))h->h_f;

	return (h->h_f == pface_main.m_f ? pface_main.m_run :
		(void *(*)(void *))f)(h->h_arg);
}

/* The first frame of each thread. */
static void shell(struct ushell *h)
{
	struct pthread_face *t = (struct pthread_face *)h;

	(void)uthread_interruptible(false);
	t->p_frame = __builtin_frame_address(0);
	if (_setjmp(t->p_exit) == 0)
		t->p_result = call(t);
	t->p_exits = true;
	if (!is_forked())
		leave_scopes();					/* E2 */
	uself_end(uself_of(ustack_self()));			/* E3 */
	if (is_forked())
		REAL(pthread_exit)(t->p_result);
	if (__atomic_sub_fetch(&alive, 1, __ATOMIC_ACQ_REL) == 0 &&
	    pface_main.m_f != NULL)
		exit(0);
	leave(t);
}

/* Reads what threads obey of their attributes. 0, or an errno. */
static int attributes(const pthread_attr_t *a, bool *detached)
{
	int state = PTHREAD_CREATE_JOINABLE;
	int rc;

	*detached = false;
	if (a == NULL)
		return 0;
	rc = pthread_attr_getdetachstate(a, &state);
	*detached = state == PTHREAD_CREATE_DETACHED;
	return rc;
}

int FACE(pthread_create)(pthread_t *out, const pthread_attr_t *a,
			 void *(*f)(void *), void *arg)
{
	struct pthread_face *t;
	bool detached;
	int rc;

	if (is_native())
		return REAL(pthread_create)(out, a, f, arg);
	rc = attributes(a, &detached);
	if (rc != 0)
		return rc;
	t = calloc(1, sizeof *t);
	if (t == NULL)
		return EAGAIN;
	t->p_shell    = (struct ushell) {
		shell, (void (*)(void *))(void (*)(void))f, arg
	};
	t->p_state    = PTHREAD_CANCEL_ENABLE;
	t->p_type     = PTHREAD_CANCEL_DEFERRED;
	t->p_detached = detached;
	table_add(t);
	*out = name_of(t);
	__atomic_add_fetch(&alive, 1, __ATOMIC_RELAXED);
	if (uthread_make(&t->p_handle, (void *(*)(void *))(void (*)(void))
			 ustack_shell, t, NULL) == 0)
		return 0;
	__atomic_sub_fetch(&alive, 1, __ATOMIC_RELAXED);
	thread_free(t);
	return EAGAIN;
}

/* Lets the caller alone join a thread. 0, or an errno. */
static int join_begin(pthread_t name, struct pthread_face **out)
{
	struct pthread_face *t = find(name);
	int rc = 0;

	if (t == NULL)
		return ESRCH;
	if (t->p_detached)
		rc = EINVAL;
	else if (t == pface_self())
		rc = EDEADLK;
	else if (t->p_joining)
		rc = EINVAL;
	else
		t->p_joining = true;
	found(t);
	*out = t;
	return rc;
}

static void join_failed(pthread_t name)
{
	struct pthread_face *t = find(name);

	if (t == NULL)
		return;
	t->p_joining = false;
	found(t);
}

/* Joins a thread of ours. 0, or an errno. */
static int join(pthread_t name, void **result, utime_ns until)
{
	struct pthread_face *t;
	int rc;

	pface_point();
	rc = join_begin(name, &t);
	if (rc != 0) {
		pface_pointed(0);
		return rc;
	}
	rc = uthread_join(t->p_handle, NULL, until);
	if (rc == -ECANCELED)
		join_failed(name);		/* the caller may end here */
	pface_pointed(rc);
	if (rc == -ECANCELED)				/* by a scope */
		PFACE_INSIST(rc, uthread_join(t->p_handle, NULL, until));
	if (rc == 0 && result != NULL)
		*result = t->p_result;
	if (rc == 0)
		thread_free(t);
	else
		join_failed(name);
	return rc == -EAGAIN ? EBUSY : -rc;
}

/* Returns whether a thread is ours. */
static bool is_ours(pthread_t name)
{
	const struct pthread_face *t = find(name);

	if (t != NULL)
		found(t);
	return t != NULL;
}

int FACE(pthread_join)(pthread_t name, void **result)
{
	if (is_native() && !is_ours(name))
		return REAL(pthread_join)(name, result);
	return join(name, result, UNEVER);
}

int FACE(pthread_tryjoin_np)(pthread_t name, void **result)
{
	int rc = join(name, result, UNOW);

	if (rc == EBUSY)
		pface_give_way();
	return rc;
}

int FACE(pthread_clockjoin_np)(pthread_t name, void **result, clockid_t clock,
			       const struct timespec *t)
{
	utime_ns until = UNEVER;
	int rc = t != NULL ? pface_deadline(clock, t, &until) : 0;

	return rc != 0 ? rc : join(name, result, until);
}

int FACE(pthread_timedjoin_np)(pthread_t name, void **result,
			       const struct timespec *t)
{
	return FACE(pthread_clockjoin_np)(name, result, CLOCK_REALTIME, t);
}

int FACE(pthread_detach)(pthread_t name)
{
	struct pthread_face *t = find(name);
	struct uthread *handle;
	bool ended;

	if (t == NULL)
		return is_native() ? REAL(pthread_detach)(name) : ESRCH;
	if (t->p_detached || t->p_joining) {
		found(t);
		return EINVAL;
	}
	t->p_detached = true;
	handle = t->p_handle;
	ended = t->p_ended;
	found(t);
	if (ended) {
		(void)uthread_detach(handle);	/* only this call can: T2 */
		thread_free(t);
	}
	return 0;
}

/* Threads of other makers than the face get a name that no thread of it has. */
pthread_t FACE(pthread_self)(void)
{
	const struct pthread_face *t = pface_self();

	if (t != NULL)
		return name_of(t);
	return ustack_self() == NULL ? REAL(pthread_self)() :
		(pthread_t)(uintptr_t)ustack_self();
}

/* The end of a thread before its return. */

/* Runs the next clean-up handler of t, the caller, which then unwinds on. */
static _Noreturn void jump(struct pthread_face *t)
{
	cleanup *c = t->p_cleanups;

#if defined(__GLIBC__)
	if (c != NULL) {
		struct __jmp_buf_tag *to = (void *)c->__cancel_jmp_buf;

		t->p_cleanups = NEXT(c);
		__asm__("" : "+r" (to));	/* it has no room for signals */
		siglongjmp(to, 1);
	}
#else
	for (; c != NULL; c = t->p_cleanups) {
		t->p_cleanups = NEXT(c);
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

/* Goes on with E1. */
static _Noreturn void unwind(struct pthread_face *t)
{
	memset(&t->p_unwinds, 0, sizeof t->p_unwinds);
	if (_Unwind_ForcedUnwind != NULL)
		(void)_Unwind_ForcedUnwind(&t->p_unwinds, stop, t);
	jump(t);
}

static _Noreturn void leave_with(struct pthread_face *t, void *result)
{
	t->p_exits  = true;
	t->p_points = 0;
	t->p_result = result;
	(void)uthread_interruptible(false);
	unwind(t);
}

_Noreturn void FACE(pthread_exit)(void *result)
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
	NEXT(c) = t->p_cleanups;
	t->p_cleanups = c;
}

static void cleanup_out(cleanup *c)
{
	struct pthread_face *t = pface_self();

	if (t != NULL)
		t->p_cleanups = NEXT(c);
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

_Noreturn void FACE(__pthread_unwind_next)(cleanup *c)
{
	struct pthread_face *t = pface_self();

	if (is_strange(t))
		REAL(__pthread_unwind_next)(c);
	unwind(t);
}
#else
extern __typeof__(_pthread_cleanup_push) __real__pthread_cleanup_push
	__attribute__((weak));
extern __typeof__(_pthread_cleanup_pop) __real__pthread_cleanup_pop
	__attribute__((weak));

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
	struct pthread_face *t = find(name);
	bool now;

	if (t == NULL)
		return is_native() ? REAL(pthread_cancel)(name) : ESRCH;
	__atomic_store_n(&t->p_canceled, 1, __ATOMIC_RELAXED);
	now = t == pface_self() && t->p_type == PTHREAD_CANCEL_ASYNCHRONOUS &&
		is_canceled(t);
	if (!t->p_ended && t != pface_self())
		(void)uthread_interrupt(t->p_handle);		/* T2 */
	found(t);
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

/* What else is asked of a thread. */

/* The handler runs in the caller, whose native thread gets the signal. */
int FACE(pthread_kill)(pthread_t name, int signal)
{
	struct pthread_face *t = find(name);
	bool ended = false;

	if (t != NULL) {
		ended = t->p_ended;
		found(t);
	}
	if (t == NULL)
		return is_native() ? REAL(pthread_kill)(name, signal) : ESRCH;
	if (signal < 0 || signal >= NSIG)
		return EINVAL;
	if (signal == 0 || ended)
		return 0;
	return raise(signal) == 0 ? 0 : errno;
}

int FACE(pthread_setname_np)(pthread_t name, const char *to)
{
	struct pthread_face *t;

	if (strlen(to) >= NAME)
		return ERANGE;
	t = find(name);
	if (t == NULL)
		return is_native() ? REAL(pthread_setname_np)(name, to) : ESRCH;
	strcpy(t->p_name, to);
	found(t);
	if (t == pface_self())
		(void)uthread_set_name(to);
	return 0;
}

int FACE(pthread_getname_np)(pthread_t name, char *to, size_t size)
{
	struct pthread_face *t = find(name);
	int rc = 0;

	if (t == NULL)
		return is_native() ? REAL(pthread_getname_np)(name, to, size) :
			ESRCH;
	if (strlen(t->p_name) < size)
		strcpy(to, t->p_name);
	else
		rc = ERANGE;
	found(t);
	return rc;
}

/* There are no priorities. */

int FACE(pthread_getschedparam)(pthread_t name, int *policy,
				struct sched_param *p)
{
	if (!is_ours(name))
		return is_native() ?
			REAL(pthread_getschedparam)(name, policy, p) : ESRCH;
	*policy = SCHED_OTHER;
	memset(p, 0, sizeof *p);
	return 0;
}

int FACE(pthread_setschedparam)(pthread_t name, int policy,
				const struct sched_param *p)
{
	if (!is_ours(name))
		return is_native() ?
			REAL(pthread_setschedparam)(name, policy, p) : ESRCH;
	if (policy == SCHED_OTHER)
		return p->sched_priority == 0 ? 0 : EINVAL;
	return policy == SCHED_FIFO || policy == SCHED_RR ? ENOTSUP : EINVAL;
}

int FACE(pthread_setschedprio)(pthread_t name, int priority)
{
	if (!is_ours(name))
		return ESRCH;
	return priority == 0 ? 0 : EINVAL;
}

int FACE(pthread_getcpuclockid)(pthread_t name, clockid_t *clock)
{
	if (!is_ours(name))
		return is_native() ?
			REAL(pthread_getcpuclockid)(name, clock) : ESRCH;
	return ENOENT;			/* no thread has a clock of its own */
}

/* Keys: one for our threads, and one of libc's for native threads. */

static pthread_key_t native_key[UKEY_MOST];

int FACE(pthread_key_create)(pthread_key_t *key, void (*destroy)(void *))
{
	unsigned k;

	if (ukey_make(&k, destroy) != 0)
		return EAGAIN;
	if (REAL(pthread_key_create)(&native_key[k % UKEY_MOST], destroy)) {
		(void)ukey_free(k);
		return EAGAIN;
	}
	*key = k;
	return 0;
}

int FACE(pthread_key_delete)(pthread_key_t key)
{
	pthread_key_t native = native_key[key % UKEY_MOST];

	if (ukey_free(key) != 0)
		return EINVAL;
	return REAL(pthread_key_delete)(native);
}

void *FACE(pthread_getspecific)(pthread_key_t key)
{
	return ustack_self() == NULL ?
		REAL(pthread_getspecific)(native_key[key % UKEY_MOST]) :
		ukey_get(key);
}

int FACE(pthread_setspecific)(pthread_key_t key, const void *value)
{
	if (ustack_self() == NULL)
		return REAL(pthread_setspecific)(native_key[key % UKEY_MOST],
						 value);
	return -ukey_set(key, value);
}

static __thread unsigned native_reads;

unsigned *pface_reads(void)
{
	struct pthread_face *t = pface_self();

	return t != NULL ? &t->p_reads : &native_reads;
}

/* Time. */

int pface_deadline(clockid_t clock, const struct timespec *t, utime_ns *until)
{
	struct timespec now;
	utime_ns left;

	if (t->tv_nsec < 0 || t->tv_nsec >= UTIME_S ||
	    (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) ||
	    clock_gettime(clock, &now) != 0)
		return EINVAL;
	if (t->tv_sec < now.tv_sec)
		left = 0;
	else if (t->tv_sec - now.tv_sec > UNEVER / UTIME_S - 2)
		left = UNEVER;
	else
		left = (t->tv_sec - now.tv_sec) * UTIME_S +
			t->tv_nsec - now.tv_nsec;
	*until = uafter(left);
	return 0;
}

void pface_give_way(void)
{
	if (!is_native())
		(void)uwait_give_way();		/* without memory: goes on */
}

static int yield(void)
{
	if (is_native())
		return REAL(sched_yield)();
	pface_give_way();
	return 0;
}

SIM_FIRST int FACE(sched_yield)(void)
{
	return yield();
}

int FACE(pthread_yield)(void)
{
	return yield();
}

/* Sleeps for a thread of ours. 0, or an errno. */
static int sleep_until(utime_ns until)
{
	int rc;

	pface_point();
	rc = u_sleep(until);
	pface_pointed(rc);
	return rc == -ECANCELED ? EINTR : -rc;
}

SIM_FIRST unsigned FACE(sleep)(unsigned seconds)
{
	utime_ns until = uafter(seconds * UTIME_S);

	if (is_native())
		return REAL(sleep)(seconds);
	if (sleep_until(until) == 0)
		return 0;
	return (unsigned)((until - unow() + UTIME_S - 1) / UTIME_S);
}

/* Never inline: compilers keep the address of errno, and threads move. */
static NOINLINE int with_errno(int error)
{
	if (error == 0)
		return 0;
	errno = error;
	return -1;
}

SIM_FIRST int FACE(usleep)(useconds_t us)
{
	return is_native() ? REAL(usleep)(us) :
		with_errno(sleep_until(uafter(us * UTIME_US)));
}

/* Sleeps until *t of a clock, or for the length *t. 0, or an errno. */
static int sleep_for(clockid_t clock, int flags, const struct timespec *t,
		     struct timespec *left)
{
	utime_ns until, ns;
	int rc;

	if (t->tv_sec < 0 || t->tv_nsec < 0 || t->tv_nsec >= UTIME_S)
		return EINVAL;
	if (flags & TIMER_ABSTIME) {
		rc = pface_deadline(clock, t, &until);
		if (rc != 0)
			return rc;
	} else
		until = uafter(t->tv_sec < UNEVER / UTIME_S ?
			       t->tv_sec * UTIME_S + t->tv_nsec : UNEVER);
	rc = sleep_until(until);
	if (rc == 0 || flags & TIMER_ABSTIME || left == NULL)
		return rc;
	ns = until - unow();
	left->tv_sec  = ns > 0 ? ns / UTIME_S : 0;
	left->tv_nsec = ns > 0 ? ns % UTIME_S : 0;
	return rc;
}

SIM_FIRST int FACE(nanosleep)(const struct timespec *t, struct timespec *left)
{
	return is_native() ? REAL(nanosleep)(t, left) :
		with_errno(sleep_for(CLOCK_MONOTONIC, 0, t, left));
}

SIM_FIRST int FACE(clock_nanosleep)(clockid_t clock, int flags,
				    const struct timespec *t,
				    struct timespec *left)
{
	if (is_native() || (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC))
		return REAL(clock_nanosleep)(clock, flags, t, left);
	return sleep_for(clock, flags, t, left);
}
