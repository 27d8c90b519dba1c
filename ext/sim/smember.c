/* SPDX-License-Identifier: MIT */
/* smember.c: threads of hosts. */

/*
 * A thread that waits is a slice on the heap and a record in some queue. It is
 * never unwound: a crashed machine runs no clean-up. Its boot is marked dead,
 * and its threads are frozen one by one when their waits end: uwait_watch calls
 * us in the thread after each wait, where we let it wait until the end. So a dead
 * thread runs nothing of the program. Its memory and its locks were its host's,
 * and no other host uses them. The memory comes back when the process
 * of the run ends.
 *
 * A thread is a member of its host from its begin to its end. A thread that has a
 * handle, or belongs to a scope, is made by the library, and joins its host in its
 * first call. If the first thread of a host has left by pthread_exit(), the host ends with
 * its last thread, as a process does.
 *
 * INVARIANT
 *
 * T1. A thread whose boot is dead returns from no wait.
 *
 * REJECTED
 *
 * Unwinding the threads of a crashed host: destructors would send and write.
 */

#include "sim.h"
#include "rr.h"
#include "ucall.h"
#include "uscope.h"
#include "uself.h"
#include "uthread.h"

#include <errno.h>
#include <stdlib.h>

#define BUCKETS		256	/* of threads */

struct sim_last sim_last;

/* A thread of a host. */
struct member {
	struct member   *m_next;	/* in its bucket */
	const void      *m_stack;	/* its struct ustack */
	struct sim_boot *m_boot;
	int              m_number;	/* in its boot: the first thread has 0 */
	void           (*m_f)(void *);
	void            *m_arg;
};

static struct member *members[BUCKETS];

static struct member **bucket_of(const void *stack)
{
	return &members[((uintptr_t)stack >> 4) * 31 % BUCKETS];
}

/* Notes the boot of a thread for sim_caller(). NULL: it belongs to no host. */
static struct sim_boot *boot_of(const void *stack)
{
	const struct member *m = *bucket_of(stack);

	while (m != NULL && m->m_stack != stack)
		m = m->m_next;
	if (m == NULL)
		return NULL;
	sim_last.l_stack = stack;
	return sim_last.l_boot = m->m_boot;
}

struct sim_boot *sim_caller_find(void)
{
	const void *stack = sim_is_real || (sim_is_on && !sim_last.l_drives) ?
		ustack_self() : NULL;

	return stack != NULL ? boot_of(stack) : NULL;
}

/* For real the calls of a host are libc's, in the folder of the host. */
struct sim_boot *sim_self_real(void)
{
	const struct sim_boot *b = sim_caller();

	if (b != NULL)
		sim_real_enter(b->b_host);
	return NULL;
}

/* Keeps the caller, whose boot is dead, until the process ends. */
void sim_freeze(void)
{
	for (;;)
		(void)rr_wait();
}

/* Lets a thread of b run no more, if that is dead, or not yet. */
static inline void hold(const struct sim_boot *b)
{
	utime_ns until;

	if (b->b_dead)						/* T1 */
		sim_freeze();
	until = b->b_host->h_paused == NULL ? 0 : sim_paused(b->b_host);
	if (until > 0)
		sim_sleep(until);	/* and sim_wait_ended() is called again */
}

/* Called in each thread after each wait. */
void sim_wait_ended(const struct uwait *w)
{
	const struct sim_boot *b = boot_of(w->w_stack);

	if (b != NULL)
		hold(b);
}

static void member_run(void *arg)
{
	struct member *m = arg, **at = bucket_of(ustack_self());

	m->m_stack = ustack_self();
	m->m_next = *at;
	*at = m;
	hold(m->m_boot);
	m->m_f(m->m_arg);
	if (m->m_boot->b_main == m->m_stack)
		m->m_boot->b_main = NULL;
	if (--m->m_boot->b_live_nr == 0)
		sim_exit(m->m_boot, 0);
	for (at = bucket_of(m->m_stack); *at != m; at = &(*at)->m_next)
		;
	*at = m->m_next;
	if (sim_last.l_stack == m->m_stack)
		sim_last.l_stack = NULL;
	free(m);
}

static struct member *member_make(struct sim_boot *b, void (*f)(void *), void *arg)
{
	struct member *m = sim_alloc(sizeof *m);

	m->m_boot = b;
	m->m_number = b->b_thread_nr++;
	m->m_f = f;
	m->m_arg = arg;
	return m;
}

/* Numbers of processes are below. */
#define THREADS_FROM	100000

pid_t sim_thread_number(const struct sim_boot *b)
{
	const void *stack = ustack_self();
	const struct member *m = *bucket_of(stack);

	while (m != NULL && m->m_stack != stack)
		m = m->m_next;
	return m == NULL || stack == b->b_main ? sim_pid(b) : THREADS_FROM + m->m_number;
}

struct rr_thread *sim_thread(struct sim_boot *b, void (*f)(void *), void *arg)
{
	struct member *m = member_make(b, f, arg);
	struct rr_thread *made = rr_thread_init(member_run, m);

	if (made == NULL)
		free(m);
	else
		b->b_live_nr++;
	return made;
}

/* A thread of the program's own, which has a handle: it joins its host. */

struct made {
	struct sim_boot *d_boot;
	void          *(*d_f)(void *);
	void            *d_arg;
	void            *d_result;
};

static void made_call(void *arg)
{
	struct made *d = arg;

	d->d_result = d->d_f(d->d_arg);
}

static void *made_run(void *arg)
{
	struct made *d = arg;
	void *result;

	member_run(member_make(d->d_boot, made_call, d));
	result = d->d_result;
	free(d);
	return result;
}

int sim_uthread_make_by(struct uthread **t, void *(*f)(void *), void *arg,
			const char *name, int flags)
	__asm__("__wrap_uthread_make_by");
int sim_uthread_make(struct uthread **t, void *(*f)(void *), void *arg,
		     const char *name) __asm__("__wrap_uthread_make");

/*
 * A thread that runs a shell, such as that of pthread_create(), has a shell around: by
 * that its maker finds its own.
 */

struct enclosed {
	struct ushell    c_shell;	/* first: h_arg is the shell inside */
	struct sim_boot *c_boot;
};

static void enclosed_run(struct ushell *h)
{
	const struct enclosed *c = (struct enclosed *)h;
	struct ushell *own = &uself_of(ustack_self())->b_self.e_shell;

	member_run(member_make(c->c_boot, ustack_shell, h->h_arg));
	own->h_f   = h->h_f;		/* what the shell inside has left there */
	own->h_arg = h->h_arg;
	free(h);
}

static int enclosed_make(struct sim_boot *b, struct uthread **t, void *shell,
			 const char *name, int flags)
{
	struct enclosed *c = sim_alloc(sizeof *c);
	int rc;

	*c = (struct enclosed) { { enclosed_run, ustack_shell, shell }, b };
	rc = uthread_make_by(t, (void *(*)(void *))(void (*)(void))ustack_shell, c, name,
			     flags);
	if (rc != 0)
		free(c);
	b->b_live_nr += rc == 0;
	return rc;
}

int sim_uthread_make_by(struct uthread **t, void *(*f)(void *), void *arg,
			const char *name, int flags)
{
	struct sim_boot *b = sim_caller();
	struct made *d;
	int rc;

	if (b == NULL)
		return uthread_make_by(t, f, arg, name, flags);
	if ((void (*)(void))f == (void (*)(void))ustack_shell)
		return enclosed_make(b, t, arg, name, flags);
	d = sim_alloc(sizeof *d);
	*d = (struct made) { b, f, arg, NULL };
	rc = uthread_make_by(t, made_run, d, name, flags);
	if (rc != 0)
		free(d);
	b->b_live_nr += rc == 0;
	return rc;
}

int sim_uthread_make(struct uthread **t, void *(*f)(void *), void *arg,
		     const char *name)
{
	return sim_uthread_make_by(t, f, arg, name, 0);
}

int sim_usched_go(void (*f)(void *), void *arg) __asm__("__wrap_usched_go");

int sim_usched_go(void (*f)(void *), void *arg)
{
	struct sim_boot *b = sim_caller();

	if (b == NULL)
		usim_fail("usched_go() is called by no host");
	return sim_thread(b, f, arg) != NULL ? 0 : -ENOMEM;
}

/* A thread of a scope. */

struct gone {
	struct sim_boot *g_boot;
	int            (*g_f)(void *);
	void            *g_arg;
	int              g_result;
};

static void gone_call(void *arg)
{
	struct gone *g = arg;

	g->g_result = g->g_f(g->g_arg);
}

static int gone_run(void *arg)
{
	struct gone *g = arg;
	int result;

	member_run(member_make(g->g_boot, gone_call, g));
	result = g->g_result;
	free(g);
	return result;
}

int sim_uscope_go_by(struct uscope *s, int (*f)(void *), void *arg,
		     uscope_make *make) __asm__("__wrap_uscope_go_by");
int sim_uscope_go(struct uscope *s, int (*f)(void *), void *arg)
	__asm__("__wrap_uscope_go");

int sim_uscope_go_by(struct uscope *s, int (*f)(void *), void *arg,
		     uscope_make *make)
{
	struct sim_boot *b = sim_caller();
	struct gone *g;
	int rc;

	if (b == NULL)
		return uscope_go_by(s, f, arg, make);
	g = sim_alloc(sizeof *g);
	*g = (struct gone) { b, f, arg, 0 };
	rc = uscope_go_by(s, gone_run, g, make);
	if (rc != 0)
		free(g);
	b->b_live_nr += rc == 0;
	return rc;
}

int sim_uscope_go(struct uscope *s, int (*f)(void *), void *arg)
{
	return sim_uscope_go_by(s, f, arg, NULL);
}

/* What would block a native thread, blocks the caller: its calls are simulated. */
int sim_ucall(void (*f)(void *), void *arg) __asm__("__wrap_ucall");

int sim_ucall(void (*f)(void *), void *arg)
{
	if (sim_self() == NULL)
		return ucall(f, arg);
	f(arg);
	return 0;
}
