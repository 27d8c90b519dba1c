/* SPDX-License-Identifier: MIT */
/* umain.c: starts the scheduler that USCHED names. */

#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "umain.h"
#include "uproc_set.h"
#include "ll.h"
#include "rr.h"
#include "upreempt.h"
#include "ws.h"

#include <stdlib.h>
#include <string.h>

UPREEMPT_NEVER;

#define ERRNO_MOST	4095	/* of Linux */
#define KINDS		3

/*
 * The first thread. Lies on the stack of the caller, which waits there. It is a
 * shell, so that messages name the function of the user.
 */
struct first {
	struct ushell fi_shell;		/* first */
	int           fi_result;
};

/*
 * Runs the function of the first thread. Then the hard mode keeps u_f and u_arg,
 * and names them if the thread is used after its end.
 */
static void run(struct ushell *h)
{
	struct first *i = (struct first *)h;
	struct ustack *u = ustack_self();

	i->fi_result = ((int (*)(void *))(void (*)(void))h->h_f)(h->h_arg);
	u->u_f   = h->h_f;
	u->u_arg = h->h_arg;
}

/*
 * Makes a thread of s. It has a private stack if other people's code may block
 * in it, and this build has private stacks.
 */
static int make(struct usched *s, void (*f)(void *), void *arg)
{
	return s->s_make(s, f, arg, usched_is_wrapped() &&
			 usched_private_most(1) > 0 ? USCHED_PRIVATE : 0);
}

/* What is the same for all schedulers. */
struct kind {
	const char *k_name;
	int         k_nr;	/* processors, if USCHED says no number */
	int       (*k_init)(int proc_nr, int thread_nr);
	int       (*k_stack_size)(size_t size);
	int       (*k_private)(int on);
	void      (*k_hold)(void);
	struct usched *(*k_sched)(int proc);
	int       (*k_start)(void);
	int       (*k_fini)(void);
};

static const struct kind kinds[KINDS] = {
	{ "rr", 1, rr_init, rr_stack_size, rr_private,
	  rr_hold, rr_sched, rr_start, rr_fini },
	{ "ll", 1, ll_init, ll_stack_size, ll_private,
	  ll_hold, ll_sched, ll_start, ll_fini },
	{ "ws", 0, ws_init, ws_stack_size, ws_private,
	  ws_hold, ws_sched, ws_start, ws_fini }
};

/* The kinds in their order, and again with a number up to UPROC_MOST. */
static struct usched_env env_usched = {
	.e_name  = "USCHED",
	.e_known = "rr, ll, ws, rr:1-4096, ll:1-4096, ws:1-4096"
};
_Static_assert(UPROC_MOST == 4096, "env_usched has another number");

static __attribute__((constructor)) void env_usched_load(void)
{
	(void)usched_env_add(&env_usched);
}

/* Returns what USCHED names, and sets how many processors. */
static const struct kind *named(int *nr)
{
	const char *value = usched_env(&env_usched);
	unsigned long long given = 0;
	int i = usched_env_word(&env_usched, &value, &given);
	const struct kind *k = &kinds[i < 0 ? 0 : i % KINDS];

	*nr = i < KINDS ? k->k_nr : (int)given;
	return k;
}

/* Says what went wrong. */
static int failed(const struct kind *k, const char *what, int rc)
{
	usched_message("usched_main: %s_%s: %s", k->k_name, what, strerror(-rc));
	return USCHED_FAILED;
}

/*
 * Returns the result of the first function, and says what it means if it seems
 * to be an error: an exit status keeps only its last byte.
 */
static int result(int rc)
{
	if (rc < -1 && rc >= -ERRNO_MOST)
		usched_message("usched_main: the first function has returned %d: "
			       "%s", rc, strerror(-rc));
	return rc;
}

static int run_by(const struct kind *k, int nr, size_t size, struct first *i)
{
	int rc = k->k_init(nr, 0);

	if (rc != 0)
		return failed(k, "init", rc);
	if (size != 0) {
		rc = k->k_stack_size(size);
		if (rc == 0)
			rc = k->k_private(1);
		k->k_hold();
	}
	if (rc != 0 || (rc = make(k->k_sched(0), ustack_shell, i)) != 0 ||
	    (rc = k->k_start()) != 0) {
		(void)k->k_fini();	/* the thread has not begun */
		return failed(k, "start", rc);
	}
	rc = k->k_fini();
	if (rc == 0)
		return result(i->fi_result);
	return rc == -EDEADLK ? USCHED_FAILED : failed(k, "fini", rc);
}

int usched_main_held(int (*f)(void *arg), void *arg, size_t size)
{
	struct first first = {
		{ run, (void (*)(void *))(void (*)(void))f, arg }, 0
	};
	const struct kind *k;
	int nr = 0;

	usched_other_copy("usched_main");
	if (ustack_self() != NULL && !uproc_lost()) {
		usched_message("usched_main: called by a thread; usched_go() "
			       "makes further threads");
		return USCHED_FAILED;
	}
	if (size != 0 && usched_private_most(1) == 0) {
		usched_message("pthread: programs for pthreads need private "
			       "stacks, and this build has none");
		return USCHED_FAILED;
	}
	if (usched_env_check() != 0)
		return USCHED_FAILED;
	k = named(&nr);
	return run_by(k, nr, size, &first);
}

int usched_main(int (*f)(void *arg), void *arg)
{
	return usched_main_held(f, arg, 0);
}

int usched_go(void (*f)(void *arg), void *arg)
{
	struct usched *s = usched_self();

	if (s == NULL) {
		usched_other_copy("usched_go");
		usched_message("usched_go: called outside of a thread; "
			       "usched_main() runs the first");
	}
	if (s == NULL || s->s_make == NULL)
		return -ENOSYS;
	ustack_lawful("usched_go: the argument", arg);
	return make(s, f, arg);
}
