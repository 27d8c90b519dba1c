/* SPDX-License-Identifier: MIT */
/* pthreads.c: the pthread face: threads. */

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
 * pthread_t, attributes and their functions are libc's own. Other files have:
 *
 *	pcancel.c		pthread_exit(), clean-up handlers, cancellation
 *	pkeys.c			values of a thread
 *	ptime.c			sleeps, deadlines
 *	plocks.h		mutexes and the like, and their files
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
 * IN THE CHILD of fork() the thread that has forked is the only thread. It
 * stays a thread of the face, but waits by libc's functions. E2, E4 and E5 would
 * serve no thread. So after E3 it calls libc's pthread_exit(): the process ends
 * as by exit(0), after the native threads that it has made.
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

#include "pself.h"
#include "uscope.h"
#include "lock.h"
#include "ufork.h"
#include "compiler.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

UPREEMPT_NEVER;

NATIVE(pthread_create);
NATIVE(pthread_join);
NATIVE(pthread_detach);
NATIVE(pthread_exit);
NATIVE(pthread_self);
NATIVE(pthread_kill);
NATIVE(pthread_setname_np);
NATIVE(pthread_getname_np);
NATIVE(pthread_getschedparam);
NATIVE(pthread_setschedparam);
NATIVE(pthread_getcpuclockid);

/* The table of threads: a pthread_t that is not in it is not ours. */

enum { PLACES = 64 };

static struct place {
	struct ulock         pl_lock;
	struct pthread_face *pl_first;
} __attribute__((aligned(64))) places[PLACES];

const struct ustack *pface_forked;

static void in_child(void)
{
	pface_forked = ustack_self();
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

struct pthread_face *pface_find(pthread_t name)
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

void pface_found(const struct pthread_face *t)
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

/* Is E4. The caller, t, may be freed, so its uthread is no shell of it any more. */
static void leave(struct pthread_face *t)
{
	struct ushell *h = &uself_of(ustack_self())->b_self.e_shell;
	struct place *p = place_of(t);
	struct uthread *handle = t->p_handle;
	bool detached;

	while (h->h_arg != t)
		h = h->h_arg;
	h->h_f   = t->p_shell.h_f;
	h->h_arg = t->p_shell.h_arg;
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

void pface_shell(struct ushell *h)
{
	struct pthread_face *t = (struct pthread_face *)h;

	(void)uthread_interruptible(false);
	t->p_frame = __builtin_frame_address(0);
	if (_setjmp(t->p_exit) == 0)
		t->p_result = call(t);
	t->p_exits = true;
	if (!pface_is_forked())
		leave_scopes();					/* E2 */
	uself_end(uself_of(ustack_self()));			/* E3 */
	if (pface_is_forked())
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

	if (pface_is_native())
		return REAL(pthread_create)(out, a, f, arg);
	rc = attributes(a, &detached);
	if (rc != 0)
		return rc;
	t = calloc(1, sizeof *t);
	if (t == NULL)
		return EAGAIN;
	t->p_shell    = (struct ushell) {
		pface_shell, (void (*)(void *))(void (*)(void))f, arg
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
	struct pthread_face *t = pface_find(name);
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
	pface_found(t);
	*out = t;
	return rc;
}

static void join_failed(pthread_t name)
{
	struct pthread_face *t = pface_find(name);

	if (t == NULL)
		return;
	t->p_joining = false;
	pface_found(t);
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
	const struct pthread_face *t = pface_find(name);

	if (t != NULL)
		pface_found(t);
	return t != NULL;
}

int FACE(pthread_join)(pthread_t name, void **result)
{
	if (pface_is_native() && !is_ours(name))
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
	struct pthread_face *t = pface_find(name);
	struct uthread *handle;
	bool ended;

	if (t == NULL)
		return pface_is_native() ? REAL(pthread_detach)(name) : ESRCH;
	if (t->p_detached || t->p_joining) {
		pface_found(t);
		return EINVAL;
	}
	t->p_detached = true;
	handle = t->p_handle;
	ended = t->p_ended;
	pface_found(t);
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

/* What else is asked of a thread. */

/* The handler runs in the caller, whose native thread gets the signal. */
int FACE(pthread_kill)(pthread_t name, int signal)
{
	struct pthread_face *t = pface_find(name);
	bool ended = false;

	if (t != NULL) {
		ended = t->p_ended;
		pface_found(t);
	}
	if (t == NULL)
		return pface_is_native() ? REAL(pthread_kill)(name, signal) : ESRCH;
	if (signal < 0 || signal >= NSIG)
		return EINVAL;
	if (signal == 0 || ended)
		return 0;
	return raise(signal) == 0 ? 0 : errno;
}

int FACE(pthread_setname_np)(pthread_t name, const char *to)
{
	struct pthread_face *t;

	if (strlen(to) >= PFACE_NAME)
		return ERANGE;
	t = pface_find(name);
	if (t == NULL)
		return pface_is_native() ? REAL(pthread_setname_np)(name, to) : ESRCH;
	strcpy(t->p_name, to);
	pface_found(t);
	if (t == pface_self())
		(void)uthread_set_name(to);
	return 0;
}

int FACE(pthread_getname_np)(pthread_t name, char *to, size_t size)
{
	struct pthread_face *t = pface_find(name);
	int rc = 0;

	if (t == NULL)
		return pface_is_native() ? REAL(pthread_getname_np)(name, to, size) :
			ESRCH;
	if (strlen(t->p_name) < size)
		strcpy(to, t->p_name);
	else
		rc = ERANGE;
	pface_found(t);
	return rc;
}

/* There are no priorities. */

int FACE(pthread_getschedparam)(pthread_t name, int *policy,
				struct sched_param *p)
{
	if (!is_ours(name))
		return pface_is_native() ?
			REAL(pthread_getschedparam)(name, policy, p) : ESRCH;
	*policy = SCHED_OTHER;
	memset(p, 0, sizeof *p);
	return 0;
}

int FACE(pthread_setschedparam)(pthread_t name, int policy,
				const struct sched_param *p)
{
	if (!is_ours(name))
		return pface_is_native() ?
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
		return pface_is_native() ?
			REAL(pthread_getcpuclockid)(name, clock) : ESRCH;
	return ENOENT;			/* no thread has a clock of its own */
}

static __thread unsigned native_reads;

unsigned *pface_reads(void)
{
	struct pthread_face *t = pface_self();

	return t != NULL ? &t->p_reads : &native_reads;
}

