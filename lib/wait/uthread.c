/* SPDX-License-Identifier: MIT */
/* uthread.c: threads with a result, a name, and data of their own. */

/*
 * OVERVIEW
 *
 * A thread that the library knows is a shell (usched.h): u_arg points to its
 * block (uself.h), and u_f to ustack_shell().
 *
 *	struct ustack            struct uself_block
 *	+-----------+            +----------------------+
 *	| u_f  -----+-> shell    | h_run = uwait_run    |
 *	| u_arg ----+----------->| h_f, h_arg: the user | uwait.h
 *	+-----------+            | e_ops                |
 *	                         +----------------------+
 *	                         | keys, pointer, name  | uthread.c
 *	                         +----------------------+
 *	                         | scope, wait, link    | uscope.c
 *	                         +----------------------+
 *	                         | lock, result, joiner | uthread_make() only
 *	                         +----------------------+
 *
 * Other threads do not pay for it: they have no block, and are asked nothing.
 *
 * THE END of a thread
 *
 *	D1 it runs destructors. It may wait, so it still has its block
 *	D2 u_f and u_arg become those of the user. The dispatcher asks for the
 *	   function of the thread after its end, when the block may be freed
 *	D3 under ut_lock it sets ENDED, and claims the record of the joiner
 *	D4 it completes that. From D3 on others may free the block
 *
 * The handle is from malloc(), since another scheduler may free it.
 *
 * INVARIANTS
 *
 * N1. ut_wait is not NULL only if its record is not freed: the joiner takes it
 *     out under ut_lock, if it was not claimed.
 * N2. The block of a handle is freed once: by its joiner after ENDED; by the
 *     thread if DETACHED was set before ENDED; else by the caller that detaches.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* park.h: syscall() */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "uself.h"
#include "cancel.h"
#include "ufork.h"
#include "compiler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

UPREEMPT_NEVER;

/* In ut_state. */
#define ENDED		1
#define DETACHED	2
#define JOINED		4	/* it was freed: for late calls, if its memory is as it was */

struct uthread {
	struct uself_block ut_block;	/* first */
#if defined(USCHED_HARD)
	struct uhard_object ut_object;	/* poison begins behind it */
#endif
	struct ulock       ut_lock;	/* protects what follows, and b_name */
	int                ut_state;
	struct uwait      *ut_wait;	/* of the joiner, or NULL */
	void              *ut_result;
	bool               ut_masked;	/* not interruptible: its own */
	int                ut_asked;	/* it was interrupted (atomic) */
	struct uwait      *ut_shown;	/* to be interrupted (atomic) */
};

/* Checks t at the beginning of a call. In the hard mode only. */
#define CALL(t, call)	UHARD(object((t), (unsigned *)(uintptr_t)	\
				&(t)->ut_object.o_magic, UHARD_UTHREAD, (call)))

typedef void call(void *);

static call *destructor_of(unsigned key);

/* Blocks. */

static void name_set(struct uself_block *b, const char *name)
{
	memset(b->b_name, 0, sizeof b->b_name);
	if (name != NULL)
		strncpy(b->b_name, name, sizeof b->b_name - 1);
}

void uself_init(struct uself_block *b, int kind, void (*f)(void *),
		   void *arg, const struct uself_ops *ops)
{
	memset(b, 0, sizeof *b);
	b->b_self.e_shell = (struct ushell) { uwait_run, f, arg };
	b->b_self.e_ops   = ops;
	b->b_kind         = (unsigned char)kind;
}

void uself_leave(struct uself_block *b)
{
	struct ustack *u = ustack_self();

	u->u_f   = b->b_self.e_shell.h_f;
	u->u_arg = b->b_self.e_shell.h_arg;
}

/* Returns the block of the running thread, unless it is a plain thread. */
static struct uself_block *self(void)
{
	struct uself_block *b = uself_of(ustack_self());

	return b != NULL && b->b_kind != USELF_PLACE ? b : NULL;
}

/* Returns the handle that b is the block of, or NULL. */
static struct uthread *handle(struct uself_block *b)
{
	return b != NULL && b->b_kind == USELF_THREAD ?
		(struct uthread *)b : NULL;
}

/* Threads. */

/* Frees t. call: by which the program has given it up. */
static void thread_free(struct uthread *t, const char *call)
{
#if defined(USCHED_HARD)
	uhard_ends(&t->ut_object, UHARD_UTHREAD, call);
	uhard_free(&t->ut_object, t, sizeof *t);
#else
	(void)call;
	*(volatile int *)&t->ut_state |= JOINED;
	free(t);
#endif
}

/* Notes the end of t, the caller. */
static void ended(struct uthread *t)
{
	struct uwait *w;
	bool detached;

	ulock_get(&t->ut_lock);
	w = t->ut_wait;
	t->ut_wait = NULL;
	if (w != NULL && !uwait_claim(w))
		w = NULL;
	detached = (t->ut_state & DETACHED) != 0;
	t->ut_state |= ENDED;					/* D3 */
	ulock_put(&t->ut_lock);
	if (w != NULL)
		uwait_complete(w, 0);				/* D4 */
	if (detached)
		thread_free(t, "uthread_detach");
}

static void end(struct uself *e, void *result)
{
	struct uthread *t = (struct uthread *)e;

	t->ut_result = result;
	uself_end(&t->ut_block);				/* D1 */
	if (t->ut_block.b_scope != NULL)
		usched_fail("uthread: the thread has ended in a scope that it "
			    "has begun");
	uself_leave(&t->ut_block);				/* D2 */
	ended(t);
}

/* Interrupts: cancel.h, with a flag that the first wait takes back. */

/* Takes an interrupt of t, the caller. */
static bool asked_take(struct uthread *t)
{
	return __atomic_load_n(&t->ut_asked, __ATOMIC_RELAXED) != 0 &&
		__atomic_exchange_n(&t->ut_asked, 0, __ATOMIC_RELAXED) != 0;
}

int uself_show(struct uself_block *b, struct uwait *w)
{
	struct uthread *t = handle(b);

	if (t == NULL || t->ut_masked ||
	    ucancel_enter(&t->ut_shown, w, &t->ut_asked))
		return 0;
	ucancel_leave(&t->ut_shown, &t->ut_lock);
	(void)asked_take(t);
	return -ECANCELED;
}

void uself_hide(struct uself_block *b)
{
	struct uthread *t = handle(b);

	if (t != NULL && !t->ut_masked)
		ucancel_leave(&t->ut_shown, &t->ut_lock);
}

int uthread_interrupt(struct uthread *t)
{
	struct uwait *w;

	if (t == NULL)
		return -EINVAL;
	CALL(t, "uthread_interrupt");
	ulock_get(&t->ut_lock);
	ucancel_set(&t->ut_asked, -ECANCELED);
	w = ucancel_take(&t->ut_shown);
	if (w != NULL)				/* this wait takes it */
		__atomic_store_n(&t->ut_asked, 0, __ATOMIC_RELAXED);
	ulock_put(&t->ut_lock);
	if (w != NULL)
		uwait_complete(w, -ECANCELED);
	return 0;
}

int uthread_interrupted(void)
{
	struct uthread *t = uthread_self();

	return t != NULL && asked_take(t);
}

int uthread_interruptible(int on)
{
	struct uthread *t = uthread_self();
	bool was = t != NULL && !t->ut_masked;

	if (t != NULL)
		t->ut_masked = !on;
	return was;
}

static int enter(struct uself *e, struct uwait *w)
{
	return uself_show((struct uself_block *)e, w);
}

static void leave(struct uself *e, struct uwait *w)
{
	(void)w;
	uself_hide((struct uself_block *)e);
}

static const struct uself_ops ops = { false, end, enter, leave };

int uthread_make_by(struct uthread **out, void *(*f)(void *), void *arg,
		    const char *name, int lane)
{
	struct ustack *u = ustack_self();
	struct uthread *t;
	int rc;

	if (u == NULL || f == NULL || (lane != 0 && lane != USCHED_PRIVATE))
		return -EINVAL;
	if (u->u_sched->s_make == NULL)
		return -ENOSYS;
	ustack_lawful("uthread_make: the argument", arg);
	t = calloc(1, sizeof *t);
	if (t == NULL)
		return -ENOMEM;
	uself_init(&t->ut_block, USELF_THREAD, (call *)(void (*)(void))f,
		      arg, &ops);
	name_set(&t->ut_block, name);
	if (out != NULL)
		*out = t;
	else
		t->ut_state = DETACHED;
	rc = u->u_sched->s_make(u->u_sched, ustack_shell, t, lane);
	KEEP_ALIVE(arg);
	if (rc != 0)
		free(t);
	return rc;
}

int uthread_make(struct uthread **out, void *(*f)(void *), void *arg,
		 const char *name)
{
	return uthread_make_by(out, f, arg, name, 0);
}

/* Says why t cannot be joined or detached. Returns -EINVAL. */
static NOINLINE int refused(const struct uthread *t, const char *call)
{
	usched_message("%s: the thread %p %s", call, (const void *)t,
		       t->ut_state & DETACHED ? "was detached before" :
		       t->ut_state & JOINED ? "was joined before" :
		       "has another joiner");
	return -EINVAL;
}

/*
 * Returns 0 if t has ended, 1 if the caller has to wait; w is its record then,
 * if it is not NULL. -EINVAL, -EAGAIN.
 */
static int join_look(struct uthread *t, struct uwait *w, utime_ns until)
{
	int rc = 1;

	ulock_get(&t->ut_lock);
	if (t->ut_state & (DETACHED | JOINED) || t->ut_wait != NULL)
		rc = refused(t, "uthread_join");
	else if (t->ut_state & ENDED)
		rc = 0;
	else if (until == UNOW)
		rc = -EAGAIN;
	else
		t->ut_wait = w;
	ulock_put(&t->ut_lock);
	return rc;
}

/* Takes the record w of the caller out of t, if it is there. */
static void join_leave(struct uthread *t, const struct uwait *w)
{
	ulock_get(&t->ut_lock);
	if (t->ut_wait == w)
		t->ut_wait = NULL;
	ulock_put(&t->ut_lock);
}

/* Waits until t has ended. */
static int join_wait(struct uthread *t, utime_ns until)
{
	struct uwait *w;
	int rc = join_look(t, NULL, until);

	if (rc <= 0)
		return rc;
	w = uwait_make(UWAIT_JOIN, t, sizeof *w);
	if (w == NULL)
		return -errno;
	rc = join_look(t, w, until);
	if (rc > 0 && (rc = uwait_for(w, until)) != 0)
		join_leave(t, w);
	uwait_free(w);
	return rc;
}

int uthread_join(struct uthread *t, void **result, utime_ns until)
{
	int rc;

	if (t == NULL || until < 0)
		return -EINVAL;
	if (t == uthread_self()) {
		usched_message("uthread_join: the thread %p joins itself",
			       (void *)t);
		return -EDEADLK;
	}
	CALL(t, "uthread_join");
	UHARD(yield());
	rc = join_wait(t, until);
	if (rc != 0)
		return rc;
	if (result != NULL)
		*result = t->ut_result;
	thread_free(t, "uthread_join");
	return 0;
}

int uthread_detach(struct uthread *t)
{
	int rc = 0;
	int was;

	if (t == NULL)
		return -EINVAL;
	CALL(t, "uthread_detach");
	ulock_get(&t->ut_lock);
	was = t->ut_state;
	if (was & (DETACHED | JOINED) || t->ut_wait != NULL)
		rc = refused(t, "uthread_detach");
	else
		t->ut_state |= DETACHED;
	ulock_put(&t->ut_lock);
	if (rc == 0 && was & ENDED)
		thread_free(t, "uthread_detach");
	return rc;
}

struct uthread *uthread_self(void)
{
	return handle(self());
}

/* Names and pointers. Only handles are known to others, so only they lock. */

static void name_lock(struct uthread *t)
{
	if (t != NULL)
		ulock_get(&t->ut_lock);
}

static void name_unlock(struct uthread *t)
{
	if (t != NULL)
		ulock_put(&t->ut_lock);
}

int uthread_name(struct uthread *t, char name[UTHREAD_NAME])
{
	struct uself_block *b = t != NULL ? &t->ut_block : self();

	if (t != NULL)
		CALL(t, "uthread_name");
	if (b == NULL)
		return -EINVAL;
	name_lock(handle(b));
	memcpy(name, b->b_name, sizeof b->b_name);
	name_unlock(handle(b));
	return 0;
}

int uthread_set_name(const char *name)
{
	struct uself_block *b = self();

	if (b == NULL)
		return -EINVAL;
	name_lock(handle(b));
	name_set(b, name);
	name_unlock(handle(b));
	uwait_watch_named();
	return 0;
}

void *uthread_data(const struct uthread *t)
{
	const struct uself_block *b = t != NULL ? &t->ut_block : self();

	if (t != NULL)
		CALL(t, "uthread_data");
	return b != NULL ? __atomic_load_n(&b->b_data, __ATOMIC_ACQUIRE) : NULL;
}

int uthread_set_data(struct uthread *t, void *data)
{
	struct uself_block *b = t != NULL ? &t->ut_block : self();

	if (t != NULL)
		CALL(t, "uthread_set_data");
	if (b == NULL)
		return -EINVAL;
	__atomic_store_n(&b->b_data, data, __ATOMIC_RELEASE);
	return 0;
}

/* Keys. */

/* A key is generation * UKEY_MOST + place, so a freed number is unknown. */
static struct ulock keys_lock;
static unsigned     keys_generation;
static struct {
	unsigned  k_key;		/* or 0 */
	call     *k_destroy;
} keys[UKEY_MOST];

static struct ufork at_fork = {
	.f_rank = UFORK_KEYS, .f_lock = &keys_lock, .f_nr = 1
};
UFORK(at_fork)

struct uthread_keys {
	unsigned ks_nr;
	struct {
		unsigned  v_key;
		void     *v_value;
	} ks_at[];
};

int ukey_make(unsigned *key, void (*destroy)(void *))
{
	unsigned i;

	ulock_get(&keys_lock);
	for (i = 0; i < UKEY_MOST && keys[i].k_key != 0; i++)
		;
	if (i < UKEY_MOST) {
		keys_generation = keys_generation % (UINT32_MAX / UKEY_MOST) + 1;
		*key = keys_generation * UKEY_MOST + i;
		keys[i].k_destroy = destroy;
		__atomic_store_n(&keys[i].k_key, *key, __ATOMIC_RELEASE);
	}
	ulock_put(&keys_lock);
	return i < UKEY_MOST ? 0 : -EAGAIN;
}

static bool known(unsigned key)
{
	return key != 0 && __atomic_load_n(&keys[key % UKEY_MOST].k_key,
					   __ATOMIC_ACQUIRE) == key;
}

int ukey_free(unsigned key)
{
	bool is;

	ulock_get(&keys_lock);
	is = known(key);
	if (is)
		__atomic_store_n(&keys[key % UKEY_MOST].k_key, 0,
				 __ATOMIC_RELEASE);
	ulock_put(&keys_lock);
	return is ? 0 : -EINVAL;
}

/* Returns the destructor of a key, or NULL. */
static call *destructor_of(unsigned key)
{
	call *destroy = NULL;

	ulock_get(&keys_lock);
	if (known(key))
		destroy = keys[key % UKEY_MOST].k_destroy;
	ulock_put(&keys_lock);
	return destroy;
}

static size_t keys_size(unsigned nr)
{
	return sizeof(struct uthread_keys) +
		nr * sizeof ((struct uthread_keys *)0)->ks_at[0];
}

static void keys_free(struct uself_block *b)
{
	struct usched *s = usched_self();
	struct uthread_keys *v = b->b_keys;

	b->b_keys = NULL;
	if (v != NULL)
		s->s_free(s, v, (int)keys_size(v->ks_nr));
}

/* Makes room for nr values of b, the caller's. False: no memory. */
static bool keys_room(struct uself_block *b, unsigned nr)
{
	struct uthread_keys *v = b->b_keys;
	unsigned had = v != NULL ? v->ks_nr : 0;
	struct usched *s = usched_self();
	unsigned room;

	if (nr <= had)
		return true;
	for (room = 4; room < nr; room *= 2)
		;
	v = s->s_alloc(s, (int)keys_size(room));
	if (v == NULL)
		return false;
	memset(v, 0, keys_size(room));
	if (had != 0)
		memcpy(v, b->b_keys, keys_size(had));
	v->ks_nr = room;
	keys_free(b);
	b->b_keys = v;
	return true;
}

int ukey_set(unsigned key, const void *value)
{
	struct uself_block *b = self();
	unsigned i = key % UKEY_MOST;

	if (b == NULL || !known(key))
		return -EINVAL;
	if (value == NULL && (b->b_keys == NULL || i >= b->b_keys->ks_nr))
		return 0;
	if (!keys_room(b, i + 1))
		return -ENOMEM;
	b->b_keys->ks_at[i].v_key   = key;
	b->b_keys->ks_at[i].v_value = (void *)(uintptr_t)value;
	return 0;
}

void *ukey_get(unsigned key)
{
	struct uself_block *b = self();
	unsigned i = key % UKEY_MOST;

	if (b == NULL || b->b_keys == NULL || i >= b->b_keys->ks_nr ||
	    b->b_keys->ks_at[i].v_key != key || !known(key))
		return NULL;
	return b->b_keys->ks_at[i].v_value;
}

/* Destroys the i-th value of b. A destructor may set values. */
static bool destroy(struct uself_block *b, unsigned i)
{
	void *value = b->b_keys->ks_at[i].v_value;
	call *f;

	b->b_keys->ks_at[i].v_value = NULL;
	if (value == NULL)
		return false;
	f = destructor_of(b->b_keys->ks_at[i].v_key);
	if (f == NULL)
		return false;
	f(value);
	return true;
}

void uself_end(struct uself_block *b)
{
	bool more = true;
	unsigned i;
	int round;

	for (round = 0; round < UKEY_ROUNDS && more; round++) {
		more = false;
		for (i = 0; b->b_keys != NULL && i < b->b_keys->ks_nr; i++)
			more |= destroy(b, i);
	}
	keys_free(b);
}
