/* SPDX-License-Identifier: MIT */
/* ufork.h: the process-wide locks of the library, over a fork(). */

#ifndef UFORK_H
#define UFORK_H

/*
 * The child of fork() has a single native thread. A lock that another native
 * thread held stays taken in the child, and what the lock protects is half
 * changed. So each module that has a process-wide lock names it in an entry:
 *
 *	static struct ufork at_fork = {
 *		.f_rank = UFORK_KEYS, .f_lock = &keys_lock, .f_nr = 1
 *	};
 *	UFORK(at_fork)
 *
 * The handlers of pthread_atfork() then are, for all modules together:
 *
 *	before the fork		K1 take the registry
 *				K2 take all locks, in the order of the ranks
 *	in the parent		K3 release them, in the reverse order
 *				K4 release the registry
 *	in the child		K5 make all locks new
 *				K6 call each f_child(), in the same order
 *				K7 make the registry new
 *
 * THE TABLE
 *
 * While a module holds a lock, it takes only locks of higher ranks (K2). A
 * lock that is not taken before the fork may be held for long, or over a fork
 * by its holder. Its f_child() forgets all that the lock protects.
 *
 *	rank		lock			in the child, besides
 *	ENGINE		the engine's		functions return -ECHILD
 *	BUS		named memory's
 *	GENERATORS	of free generators
 *	POLLERS		of all pollers		pollers and waits are forgotten
 *	SIGNALS		of the signals watched	the bell is the parent's
 *	FACE		of the threads of the pthread face
 *	KEYS		of keys
 *	SYNC		of the rings, usync.c
 *	CHANNELS	none: a count		is 0
 *	MPI		of lists of requests
 *	LOADER		of questions to the loader, whose own lock stays taken
 *	HARD		of the hard mode
 *	PROCESSORS	none			the caller's cannot run threads
 *	NAMES		not taken		the names that were looked up
 *	LOOKUPS		none: a count		u_getaddrinfo() is -ECHILD, if not 0
 *	WAITS		not taken		the list of threads is empty
 *	ACCEPT		not taken		the caller is no thread
 *
 * NOT HERE are the locks of objects: channels, scopes, handles, descriptors,
 * processors, sets and calls. A child must not use an object that other threads
 * used at the fork. Objects of usync.h are whole in the child, since SYNC was
 * taken. But locks that threads of the parent hold stay held.
 *
 * THE PROGRAM'S OWN HANDLERS
 *
 * UFORK() registers when the program or library is loaded. So those handlers
 * that a program registers in main() run before K1, and after K4 or K7: they
 * may use the library.
 *
 * TIME
 *
 * Threads that want one of the locks sleep until K3, as long as the fork takes.
 * Holders of the locks neither block nor wait, so K2 ends soon. But a signal
 * handler may fork while the code that it has interrupted holds a lock. So K2
 * gives up a lock after UFORK_PATIENCE looks, and K3 does not release what was
 * not taken. Such a child must exec or _exit, as rr.h says. A handler that
 * forks during the fork that it has interrupted finds the registry taken by its
 * own native thread, and takes nothing.
 *
 * REJECTED. A handler for each module, with no lock taken: the child then does
 * not know which data other native threads were changing, so all pages of
 * generators and keys would have to be forgotten. Locks as a list that
 * pthread_atfork() keeps: its order is the order of the first uses.
 */

#include "lock.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

enum ufork_rank {
	UFORK_ENGINE, UFORK_BUS, UFORK_GENERATORS, UFORK_POLLERS,
	UFORK_SIGNALS, UFORK_FACE, UFORK_KEYS, UFORK_SYNC, UFORK_CHANNELS, UFORK_MPI,
	UFORK_LOADER, UFORK_ROOTS, UFORK_HARD, UFORK_PROCESSORS, UFORK_NAMES, UFORK_LOOKUPS,
	UFORK_WAITS, UFORK_ACCEPT
};

#define UFORK_LOOK	100000L		/* ns between two looks */
#if !defined(UFORK_PATIENCE)
#define UFORK_PATIENCE	100000		/* looks at a lock */
#endif

struct ufork {
	enum ufork_rank f_rank;
	struct ulock   *f_lock;		/* the first; NULL: none is taken */
	int             f_nr;		/* locks */
	size_t          f_step;		/* bytes from one lock to the next */
	void          (*f_child)(void);	/* or NULL */
	/* The registry's. */
	int             f_held;		/* the first so many are taken */
	struct ufork   *f_next;
};

struct ufork_registry {
	struct ufork *a_first;		/* by rank */
	const void   *a_by;		/* its native thread, or NULL (atomic) */
	int           a_nested;		/* forks inside a fork of a_by */
	int           a_watched;	/* there are handlers (atomic) */
};

/* One copy in the program or library. */
__attribute__((weak, visibility("hidden"))) struct ufork_registry ufork_all;

/* Lets others run, and a holder release its lock. */
static inline void ufork_nap(void)
{
	const struct timespec t = { 0, UFORK_LOOK };

	(void)nanosleep(&t, NULL);
}

/* Takes the registry. False: the caller's native thread has it. */
static inline bool ufork_enter(void)
{
	const void *me = &errno, *by;

	do {
		by = NULL;
		if (__atomic_compare_exchange_n(&ufork_all.a_by, &by, me, false,
				__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return true;
		if (by != me)
			ufork_nap();
	} while (by != me);
	return false;
}

static inline void ufork_leave(void)
{
	__atomic_store_n(&ufork_all.a_by, NULL, __ATOMIC_RELEASE);
}

static inline struct ulock *ufork_lock(const struct ufork *f, int i)
{
	return (struct ulock *)(void *)((char *)f->f_lock + i * f->f_step);
}

/* False: its holder cannot release it, since the caller has interrupted it. */
static inline bool ufork_take(struct ulock *l)
{
	int i;

	for (i = 0; !ulock_try(l); i++) {
		if (i == UFORK_PATIENCE)
			return false;
		ufork_nap();
	}
	return true;
}

static __attribute__((unused)) void ufork_prepare(void)
{
	struct ufork *f;

	if (!ufork_enter()) {					/* K1 */
		ufork_all.a_nested++;
		return;
	}
	for (f = ufork_all.a_first; f != NULL; f = f->f_next) {	/* K2 */
		f->f_held = 0;
		while (f->f_lock != NULL && f->f_held < f->f_nr &&
		       ufork_take(ufork_lock(f, f->f_held)))
			f->f_held++;
	}
}

/* Releases the locks of f and of all after it, the last first: K3. */
static __attribute__((unused)) void ufork_release(struct ufork *f)
{
	if (f == NULL)
		return;
	ufork_release(f->f_next);
	for (; f->f_held > 0; f->f_held--)
		ulock_put(ufork_lock(f, f->f_held - 1));
}

static __attribute__((unused)) void ufork_parent(void)
{
	if (ufork_all.a_nested > 0) {
		ufork_all.a_nested--;
		return;
	}
	ufork_release(ufork_all.a_first);			/* K3 */
	ufork_leave();						/* K4 */
}

static __attribute__((unused)) void ufork_child(void)
{
	struct ufork *f;
	int i;

	upark_forked();
	for (f = ufork_all.a_first; f != NULL; f = f->f_next) {	/* K5 */
		for (i = 0; f->f_lock != NULL && i < f->f_nr; i++)
			ufork_lock(f, i)->l_state = 0;
		f->f_held = 0;
	}
	for (f = ufork_all.a_first; f != NULL; f = f->f_next)	/* K6 */
		if (f->f_child != NULL)
			f->f_child();
	ufork_all.a_nested = 0;
	ufork_leave();						/* K7 */
}

/*
 * Makes sure that forks are watched, which fails at UFORK() only if there is no
 * memory. Called by what begins something that a fork would break. 0, -ENOMEM.
 */
static __attribute__((unused)) int ufork_watch(void)
{
	bool ours;
	int rc = 0;

	if (__atomic_load_n(&ufork_all.a_watched, __ATOMIC_ACQUIRE))
		return 0;
	ours = ufork_enter();
	if (!ufork_all.a_watched)
		rc = pthread_atfork(ufork_prepare, ufork_parent, ufork_child);
	if (rc == 0)
		__atomic_store_n(&ufork_all.a_watched, 1, __ATOMIC_RELEASE);
	if (ours)
		ufork_leave();
	return -rc;
}

/* Puts f into the registry. */
static __attribute__((unused)) void ufork_add(struct ufork *f)
{
	struct ufork **at = &ufork_all.a_first;
	bool ours = ufork_enter();

	while (*at != NULL && (*at)->f_rank <= f->f_rank)
		at = &(*at)->f_next;
	f->f_next = *at;
	*at = f;
	if (ours)
		ufork_leave();
	(void)ufork_watch();
}

/* Registers an entry, which is static, when the file is loaded. */
#define UFORK(entry)							\
	static __attribute__((constructor)) void entry##_load(void)	\
	{								\
		ufork_add(&(entry));					\
	}

#endif /* UFORK_H */
