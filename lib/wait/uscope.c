/* SPDX-License-Identifier: MIT */
/* uscope.c: scopes: threads that end together, and can be cancelled. */

/*
 * OVERVIEW
 *
 * Scopes are a tree. Each scope has a list of the scopes in it, and a list of
 * the threads whose innermost scope it is. A thread is known by its block
 * (uself.h), and a block knows the record of the wait in progress.
 *
 *	          struct uscope
 *	         +-------------+      +------------+     +------------+
 *	         | sc_threads -+----->| block      |---->| block      |
 *	         | sc_scopes   |      |   b_wait --+--+  |   b_wait   |
 *	         +--+----------+      +------------+  |  +------------+
 *	            v                                 v
 *	     +-------------+                    +------------+
 *	     | struct      |----> ...           | record     | uwait.h
 *	     |      uscope |                    +------------+
 *	     +-------------+
 *
 * The thread that began a scope, its owner, is in the list of the scope
 * meanwhile, and not in that of the scope around it. So to cancel a scope is
 * to walk over its tree, and to claim the records of all threads. Deadlines
 * that cannot come before a deadline around them need no timer.
 *
 * A PLAIN THREAD that begins a scope becomes a shell (usched.h) in place: u_f
 * and u_arg, which the dispatcher has used already, lead to a block. The end of
 * its outermost scope restores both.
 *
 * CANCELLATION
 *
 * A cancellation walks over the tree from its scope down. In each scope it sets
 * a flag and takes the records of the threads' waits: cancel.h. It completes
 * them when it holds no lock any more. A wait asks the flag of its innermost
 * scope only.
 *
 * The flag says why. Often a deadline is passed down, so that it is the deadline
 * of many scopes, of which only the outermost has a timer. If a deadline
 * passes, it has passed for each scope on the way that has this deadline or an
 * earlier deadline, in whatever order timers are called (S5).
 *
 * THE END
 *
 * sc_alive counts the threads that uscope_go() has made, the holds, and the
 * timer if it was started. The owner waits for 0. The last thread that ends while the owner
 * waits also stops the timer. If it is too late for that, the call of the timer
 * lowers sc_alive. So the last access to a scope, except by its owner, is under
 * sc_lock, and before the owner's wait is completed.
 *
 * The record of this wait is the scope itself: an end needs no memory. It
 * cannot be cancelled, and is claimed under sc_lock only. If the owner cannot
 * block since there is no memory for its slice, it claims the record itself,
 * and the next uscope_end() uses it again.
 *
 * INVARIANTS
 *
 * S1. A block is in the list of b_scope, unless that is NULL. After its thread
 *     was made, only this thread changes b_scope. The thread moves the block
 *     from a list to the next under the lock of the scope around.
 * S2. If a scope is cancelled, all scopes in it are, except shields and what
 *     is in them. sc_canceled never goes back to 0.
 * S3. A lock is taken only while no lock is held but those of the scopes
 *     around: parents first.
 * S4. When a scope is freed it has no scopes, no thread but the owner, and its
 *     timer is in no wheel or an orphan.
 *
 * S5. A scope that a deadline cancels, its own or one around it, says
 *     -ETIMEDOUT exactly if its own deadline is not later. A scope that begins
 *     after its deadline says so, too. Any other cancellation is -ECANCELED.
 *
 * REJECTED
 *
 * One lock for a whole tree: all threads that begin and end in it would take
 * it. A look at all scopes around at each wait: deep trees pay for it each
 * time. A recursive walk: threads have small stacks, and a recursive program
 * nests scopes as deep as it likes.
 *
 * A shield as a state of the thread: its deadline needs a timer, threads that
 * help with the clean-up are not shielded, and a scope begun in it would be
 * cancelled from the beginning.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* park.h: syscall() */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "uscope.h"
#include "uself.h"
#include "cancel.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

UPREEMPT_NEVER;

struct uscope {
	struct uwait         sc_wait;	/* first: of the owner, in the end */
#if defined(USCHED_HARD)
	struct uhard_object  sc_object;
	long                 sc_holds;	/* of uscope_hold(); sc_lock protects */
#endif
	struct uself_block  *sc_owner;
	struct uscope       *sc_parent;	/* the scope around it, or NULL */
	struct deadline     *sc_timer;	/* or NULL */
	utime_ns             sc_until;	/* its own, or UNEVER if a shield */
	utime_ns                sc_due;	/* first deadline up to a shield */
	const struct uself_ops *sc_before; /* of the owner, if outermost */
	struct ulock         sc_lock;	/* protects what follows */
	int                  sc_canceled; /* 0, or why (atomic) */
	int                  sc_error;	/* the first */
	bool                 sc_shield;
	bool                 sc_ends;	/* the owner waits, or did */
	long                 sc_alive;
	long                 sc_errors;
	struct uself_link    sc_link;	/* in sc_scopes; sc_parent locks */
	struct uself_link    sc_scopes;
	struct uself_link    sc_threads;
};

/* The record is there all the time: its owner waits only in the end. */
static int see(const struct uwait *w, struct uwait_seen *v)
{
	const struct uscope *s = (const struct uscope *)w;

	(void)v;
	return s->sc_ends && w->w_state == UWAIT_WAITS;
}

static struct uwait_kind scope_kind = {
	.wk_name = "scope", .wk_see = see, .wk_stays = true	/* uobject.h */
};

#define NONE	((utime_ns)-1)	/* no deadline has passed */

struct deadline {
	struct uwait_timer d_timer;	/* first */
	struct uscope     *d_scope;
};

/* Records that were claimed. They are linked by w_at.link. */
struct list {
	struct uwait  *r_first;
	struct uwait **r_end;
};

static void link_init(struct uself_link *head);
static void link_last(struct uself_link *head, struct uself_link *l);
static void link_out(struct uself_link *l);

static struct uscope *scope_of(struct uself_link *l)
{
	return (struct uscope *)((char *)l - offsetof(struct uscope, sc_link));
}

static struct uself_block *block_of(struct uself_link *l)
{
	return (struct uself_block *)((char *)l -
				      offsetof(struct uself_block, b_link));
}

/* Checks s at the beginning of a call. In the hard mode only. */
#define CALL(s, call)	\
	UHARD(object((s), &(s)->sc_object.o_magic, UHARD_SCOPE, (call)))

/* Fails if s has ended, as far as its memory still shows that. */
static void check(struct uscope *s, const char *call)
{
	CALL(s, call);
	(void)call;
	if (s->sc_owner == NULL)
		usched_fail("uscope: the scope has ended before");
}

static int canceled(const struct uscope *s)
{
	return ucancel_why(&s->sc_canceled);
}

/* Cancellation. */

static void list_init(struct list *r)
{
	r->r_first = NULL;
	r->r_end   = &r->r_first;
}

/* Completes the waits of the list as cancelled. Caller holds no lock. */
static void list_cancel(struct list *r)
{
	struct uwait *w, *next;

	*r->r_end = NULL;
	for (w = r->r_first; w != NULL; w = next) {
		next = w->w_at.link;
		uwait_complete(w, -ECANCELED);
	}
}

/* Cancels s alone. Caller holds its lock. */
static void cancel_one(struct uscope *s, int why, struct list *r)
{
	struct uself_link *l;
	struct uwait *w;

	ucancel_set(&s->sc_canceled, why);
	for (l = s->sc_threads.l_next; l != &s->sc_threads; l = l->l_next) {
		w = ucancel_take(&block_of(l)->b_wait);
		if (w == NULL)
			continue;
		*r->r_end = w;
		r->r_end  = &w->w_at.link;
	}
}

/* Locks s. False: a cancellation from outside stops here, and s is unlocked. */
static bool cancel_into(struct uscope *s)
{
	ulock_get(&s->sc_lock);
	if (canceled(s) == 0 && !s->sc_shield)
		return true;
	ulock_put(&s->sc_lock);
	return false;
}

/*
 * Cancels top, if it is not cancelled, and the scopes in it. passed: the
 * deadline that did it, or NONE. Caller holds the lock of top. On the way the
 * locks from top to s are held.
 */
static void cancel(struct uscope *top, int why, utime_ns passed,
		   struct list *r)
{
	struct uscope *s = top;
	struct uself_link *l;

	if (canceled(top) != 0)
		return;
	cancel_one(top, why, r);
	l = top->sc_scopes.l_next;
	while (s != top || l != &top->sc_scopes) {
		if (l == &s->sc_scopes) {		/* up */
			struct uscope *done = s;

			s = s->sc_parent;
			l = done->sc_link.l_next;
			ulock_put(&done->sc_lock);
		} else if (cancel_into(scope_of(l))) {	/* down */
			s = scope_of(l);
			cancel_one(s, s->sc_until <= passed ? -ETIMEDOUT :
				   -ECANCELED, r);		/* S5 */
			l = s->sc_scopes.l_next;
		} else
			l = l->l_next;
	}
}

void uscope_cancel(struct uscope *s)
{
	struct list r;

	check(s, "uscope_cancel");
	list_init(&r);
	ulock_get(&s->sc_lock);
	cancel(s, -ECANCELED, NONE, &r);
	ulock_put(&s->sc_lock);
	list_cancel(&r);
}

/* Waits of threads in scopes. */

static int enter(struct uself *e, struct uwait *w)
{
	struct uself_block *b = (struct uself_block *)e;

	if (ucancel_enter(&b->b_wait, w, &b->b_scope->sc_canceled) &&
	    uself_show(b, w) == 0)
		return 0;
	ucancel_leave(&b->b_wait, &b->b_scope->sc_lock);
	return -ECANCELED;
}

static void leave(struct uself *e, struct uwait *w)
{
	struct uself_block *b = (struct uself_block *)e;

	(void)w;
	uself_hide(b);
	ucancel_leave(&b->b_wait, &b->b_scope->sc_lock);
}

/* Threads. */

/*
 * Returns whether only the owner is left in s, after it has stopped the timer
 * if that is the last. Caller holds the lock.
 */
static bool alone(struct uscope *s)
{
	if (s->sc_alive == 1 && s->sc_timer != NULL &&
	    uwait_claim(&s->sc_timer->d_timer.t_wait))
		s->sc_alive--;
	return s->sc_alive == 0;
}

/*
 * Takes a thread or the timer off s. Returns the record of the owner if that
 * is to be completed. Caller holds the lock, and touches s no more after it.
 */
static struct uwait *one_less(struct uscope *s)
{
	s->sc_alive--;
	return s->sc_ends && alone(s) && uwait_claim(&s->sc_wait) ?
		&s->sc_wait : NULL;
}

/* Takes b, whose thread has returned rc, out of s. */
static void ended(struct uscope *s, struct uself_block *b, int rc)
{
	struct uwait *end;
	struct list r;

	list_init(&r);
	ulock_get(&s->sc_lock);
	link_out(&b->b_link);
	if (rc != 0 && !(rc == -ECANCELED && canceled(s) != 0)) {
		if (s->sc_errors++ == 0)
			s->sc_error = rc;
		cancel(s, -ECANCELED, NONE, &r);
	}
	end = one_less(s);
	ulock_put(&s->sc_lock);
	list_cancel(&r);
	if (end != NULL)
		uwait_complete(end, 0);
}

/* Frees the memory of b, from uscope_go() or begin(). Caller is a thread. */
static void block_free(struct uself_block *b)
{
	struct usched *s = ustack_self()->u_sched;

	s->s_free(s, b, sizeof *b);
}

/* The owner of the innermost scope is the thread if it has not ended that. */
static void end(struct uself *e, void *rc)
{
	struct uself_block *b = (struct uself_block *)e;

	uself_end(b);
	if (b->b_scope->sc_owner == b)
		usched_fail("uscope: the thread has ended in a scope that it "
			    "has begun");
	ended(b->b_scope, b, (int)(intptr_t)rc);
	uself_leave(b);
	block_free(b);
}

static const struct uself_ops ops = { true, end, enter, leave };

/* Puts b, of a new thread, in s. 0, -ECANCELED. */
static int into(struct uscope *s, struct uself_block *b)
{
	int rc;

	ulock_get(&s->sc_lock);
	rc = canceled(s) != 0 ? -ECANCELED : 0;
	if (rc == 0) {
		b->b_scope = s;
		link_last(&s->sc_threads, &b->b_link);
		s->sc_alive++;
	}
	ulock_put(&s->sc_lock);
	return rc;
}

int uscope_go_by(struct uscope *s, int (*f)(void *), void *arg,
		 uscope_make *make)
{
	struct ustack *u = ustack_self();
	struct uself_block *b;
	int rc;

	if (u == NULL || s == NULL || f == NULL)
		return -EINVAL;
	check(s, "uscope_go");
	if (make == NULL && u->u_sched->s_make == NULL)
		return -ENOSYS;
	ustack_lawful("uscope_go: the argument", arg);
	b = u->u_sched->s_alloc(u->u_sched, sizeof *b);
	if (b == NULL)
		return -ENOMEM;
	uself_init(b, USELF_SCOPE, (void (*)(void *))(void (*)(void))f, arg,
		   &ops);
	rc = into(s, b);
	if (rc == 0) {
		rc = make != NULL ? make(u->u_sched, ustack_shell, b) :
			u->u_sched->s_make(u->u_sched, ustack_shell, b, 0);
		KEEP_ALIVE(arg);
		if (rc == 0)
			return 0;
		ended(s, b, 0);
	}
	block_free(b);
	return rc;
}

int uscope_go(struct uscope *s, int (*f)(void *), void *arg)
{
	return uscope_go_by(s, f, arg, NULL);
}

/* Counts holds of s. Caller holds its lock. In the hard mode only. */
static void hold_count(struct uscope *s, int nr)
{
#if defined(USCHED_HARD)
	s->sc_holds += nr;
	if (s->sc_holds < 0)
		uhard_fail("", "uscope_release", "there is no hold");
#else
	(void)s, (void)nr;
#endif
}

void uscope_hold(struct uscope *s)
{
	check(s, "uscope_hold");
	ulock_get(&s->sc_lock);
	hold_count(s, 1);
	s->sc_alive++;
	ulock_put(&s->sc_lock);
}

void uscope_release(struct uscope *s)
{
	struct uwait *end;

	check(s, "uscope_release");
	ulock_get(&s->sc_lock);
	hold_count(s, -1);
	end = one_less(s);
	ulock_put(&s->sc_lock);
	if (end != NULL)
		uwait_complete(end, 0);
}

/* Deadlines. */

/* Called by the dispatcher when the deadline of a scope has passed. */
static void lapse(struct uwait_timer *t)
{
	struct uscope *s = ((struct deadline *)t)->d_scope;
	struct uwait *end;
	struct list r;

	list_init(&r);
	ulock_get(&s->sc_lock);
	if (!s->sc_shield)
		cancel(s, -ETIMEDOUT, s->sc_until, &r);
	else {
		s->sc_shield = false;
		if (s->sc_parent != NULL && canceled(s->sc_parent) != 0)
			cancel(s, -ECANCELED, unow(), &r);
	}
	end = one_less(s);
	ulock_put(&s->sc_lock);
	list_cancel(&r);
	if (end != NULL)
		uwait_complete(end, 0);
}

/* Starts the deadline of s, which is new. 0, -ENOMEM. */
static int deadline_start(struct uscope *s, utime_ns until)
{
	struct deadline *d;
	int rc;

	d = uwait_make(UWAIT_TIMER, s, sizeof *d);
	if (d == NULL)
		return -errno;
	d->d_timer.t_f = lapse;
	d->d_scope     = s;
	s->sc_timer = d;
	s->sc_alive = 1;
	rc = uwait_timer_start(&d->d_timer, until);
	if (rc != 0)
		uwait_free(d);
	return rc;
}

/* Gives s, which is new, its deadline. 0, -ENOMEM. */
static int deadline_set(struct uscope *s, utime_ns until)
{
	utime_ns around = s->sc_parent != NULL && !s->sc_shield ?
		s->sc_parent->sc_due : UNEVER;

	s->sc_until = s->sc_shield ? UNEVER : until;
	s->sc_due = until < around && !s->sc_shield ? until : around;
	if (until > unow())
		return until < around ? deadline_start(s, until) : 0;
	uwait_deadline(until, s->sc_shield ? "uscope_shield" : "uscope_begin");
	if (s->sc_shield)
		s->sc_shield = false;
	else
		s->sc_canceled = -ETIMEDOUT;
	return 0;
}

/* Begin and end. */

/* Makes a scope in parent. NULL: see *rc. */
static struct uscope *scope_make(struct uscope *parent, bool shield,
				 utime_ns until, int *rc)
{
	struct uscope *s = uwait_make(&scope_kind, NULL, sizeof *s);

	if (s == NULL) {
		*rc = -errno;
		return NULL;
	}
	memset(&s->sc_wait + 1, 0, sizeof *s - sizeof s->sc_wait);
	s->sc_wait.w_at.object = s;
	s->sc_parent = parent;
	s->sc_shield = shield;
	link_init(&s->sc_scopes);
	link_init(&s->sc_threads);
	*rc = deadline_set(s, until);
	if (*rc == 0)
		return s;
	uwait_free(s);
	return NULL;
}

/* Moves b, of the caller, from the scope around into s. */
static void scope_enter(struct uscope *s, struct uself_block *b)
{
	struct uscope *parent = s->sc_parent;

	if (parent != NULL)
		ulock_get(&parent->sc_lock);
	ulock_get(&s->sc_lock);
	if (parent != NULL) {
		link_out(&b->b_link);
		link_last(&parent->sc_scopes, &s->sc_link);
		if (canceled(parent) != 0 && !s->sc_shield &&
		    s->sc_canceled == 0)
			s->sc_canceled = -ECANCELED;
	}
	link_last(&s->sc_threads, &b->b_link);
	s->sc_owner = b;
	b->b_scope  = s;
	ulock_put(&s->sc_lock);
	if (parent != NULL)
		ulock_put(&parent->sc_lock);
}

/* Moves b, of the caller, from s into the scope around. */
static void scope_leave(struct uscope *s, struct uself_block *b)
{
	struct uscope *parent = s->sc_parent;

	if (parent != NULL) {
		ulock_get(&parent->sc_lock);
		link_out(&s->sc_link);
		link_last(&parent->sc_threads, &b->b_link);
		ulock_put(&parent->sc_lock);
	}
	b->b_scope = parent;
}

/* Returns a block for u, a plain thread, which runs. NULL: no memory. */
static struct uself_block *shell_make(struct ustack *u)
{
	static const struct uself_ops plain;
	struct uself_block *b;

	b = u->u_sched->s_alloc(u->u_sched, sizeof *b);
	if (b != NULL)
		uself_init(b, USELF_PLACE, u->u_f, u->u_arg, &plain);
	return b;
}

/* Makes waits of b, of the caller, known to scopes. */
static void shell_enter(struct uscope *s, struct uself_block *b)
{
	struct ustack *u = ustack_self();

	if (s->sc_parent != NULL)
		return;
	s->sc_before = b->b_self.e_ops;
	b->b_self.e_ops = &ops;
	u->u_arg = b;
	u->u_f   = ustack_shell;
}

/* Undoes this. */
static void shell_leave(struct uscope *s, struct uself_block *b)
{
	if (s->sc_parent != NULL)
		return;
	b->b_self.e_ops = s->sc_before;
	if (b->b_kind == USELF_PLACE) {
		uself_leave(b);
		block_free(b);
	}
}

static int begin(struct uscope **out, utime_ns until, bool shield)
{
	struct ustack *u = ustack_self();
	struct uself_block *b = uself_of(u);
	struct uscope *s;
	int rc;

	*out = NULL;
	if (u == NULL || until < 0)
		return -EINVAL;
	UHARD(yield());
	if (b == NULL && (b = shell_make(u)) == NULL)
		return -ENOMEM;
	s = scope_make(b->b_scope, shield, until, &rc);
	if (s != NULL) {
		scope_enter(s, b);
		shell_enter(s, b);
		UHARD(hold(s, UHARD_SCOPE));
		*out = s;
	} else if (u->u_arg != b)
		block_free(b);
	return rc;
}

int uscope_begin(struct uscope **s, utime_ns until)
{
	return begin(s, until, false);
}

int uscope_shield(struct uscope **s, utime_ns until)
{
	return begin(s, until, true);
}

/* Waits until only the caller is left in s. 0; -ENOMEM: it cannot wait. */
static int await(struct uscope *s)
{
	bool left;

	ulock_get(&s->sc_lock);
	left = !alone(s);
	s->sc_ends = left;
	s->sc_wait.w_state = UWAIT_WAITS;
	ulock_put(&s->sc_lock);
	if (!left)
		return 0;
	UHARD(yield());
	uwait_block(&s->sc_wait);
	ulock_get(&s->sc_lock);
	left = !alone(s);
	ulock_put(&s->sc_lock);
	return left ? -ENOMEM : 0;
}

/* Frees s, whose owner is the caller. */
static void scope_free(struct uscope *s)
{
#if defined(USCHED_HARD)
	(void)uhard_unhold(s);
	uhard_ends(&s->sc_object, UHARD_SCOPE, "uscope_end");
	uhard_free(&s->sc_object, s, sizeof *s);
#else
	uwait_free(s);
#endif
}

/* Ends s, in which only the caller is left. Returns its result. */
static int finish(struct uscope *s, struct uself_block *b, long *errors)
{
	int rc = s->sc_errors != 0 ? s->sc_error : s->sc_canceled;

	*errors = s->sc_errors;
	scope_leave(s, b);
	shell_leave(s, b);
	if (s->sc_timer != NULL)
		uwait_free(s->sc_timer);
	s->sc_owner = NULL;
	scope_free(s);
	return rc;
}

int uscope_end_errors(struct uscope **out, long *errors)
{
	struct uself_block *b = uself_of(ustack_self());
	struct uscope *s = *out;
	int rc;

	if (s == NULL)
		return -EINVAL;
	CALL(s, "uscope_end");
	if (b == NULL || b->b_scope != s || s->sc_owner != b)
		usched_fail("uscope_end: the scope is not the innermost that "
			    "the caller has begun");
	rc = await(s);
	if (rc != 0)
		return rc;
	*out = NULL;
	return finish(s, b, errors);
}

int uscope_end(struct uscope **s)
{
	long errors;

	return uscope_end_errors(s, &errors);
}

long uscope_errors(struct uscope *s)
{
	long errors;

	CALL(s, "uscope_errors");
	ulock_get(&s->sc_lock);
	errors = s->sc_errors;
	ulock_put(&s->sc_lock);
	return errors;
}

struct uscope *uscope_self(void)
{
	const struct uself_block *b = uself_of(ustack_self());

	return b != NULL ? b->b_scope : NULL;
}

int u_canceled(void)
{
	const struct uscope *s = uscope_self();

	return s != NULL && canceled(s) != 0;
}

/* Lists. */

static void link_init(struct uself_link *head)
{
	head->l_next = head->l_prev = head;
}

static void link_last(struct uself_link *head, struct uself_link *l)
{
	l->l_next = head;
	l->l_prev = head->l_prev;
	head->l_prev->l_next = l;
	head->l_prev = l;
}

static void link_out(struct uself_link *l)
{
	l->l_prev->l_next = l->l_next;
	l->l_next->l_prev = l->l_prev;
}
