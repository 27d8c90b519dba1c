/* SPDX-License-Identifier: MIT */
/* native_threads.h: the native threads of processors. A part of uproc.c. */

#ifndef UPROC_NATIVE_THREADS_H
#define UPROC_NATIVE_THREADS_H

/*
 * uproc_start() makes a native thread for each processor. None runs a thread before all
 * of them are made, and set_go says so: if the system refuses one, all end again.
 *
 * REJECTED
 *
 * The only processor on the native thread that calls fini, which waits anyway, for all
 * programs: the kernel gives signals of the process to the main thread first, and their
 * handlers would run on lanes. A program that drives its set (driven.h) has asked for
 * that, and uloop.h says what its handlers need.
 */

#include "lanes.h"
#include "park.h"
#include "pinning.h"
#include "stuck.h"

#include <pthread.h>

/*
 * The native thread of a processor has a value of this key while it runs, so
 * its end by pthread_exit() is seen. A clean-up handler would not do: with
 * -fexceptions it is a frame, and the unwinding of a lane never comes to that.
 *
 * A process has some 1000 keys, and may load and unload the library more often.
 * So the unload deletes the key. exit() deletes the key too, while processors may
 * still run. From then on they leave the key alone, and no pthread_exit() is seen.
 */
static pthread_key_t native_key;
static int           native_key_made;	/* atomic: no bool, a call on RISC-V */

/*
 * Fails: the others would wait for this processor for ever. In the child of a
 * fork() it is none, so the thread that has forked may call pthread_exit().
 */
static void native_left(void *p)
{
	const struct ustack *u = ustack_self();
	struct stuck_text who;

	if (mine != p)
		return;
	usched_last_message("pthread_exit: %s has ended the native thread of its "
			    "processor: a thread ends by the return of its function",
			    u != NULL ? stuck_who(&who, u) : "a cancellation");
	usched_fail("pthread_exit: a processor has lost its native thread");
}

static __attribute__((constructor)) void native_key_load(void)
{
	__atomic_store_n(&native_key_made,
			 pthread_key_create(&native_key, native_left) == 0,
			 __ATOMIC_RELEASE);	/* native_mark() */
}

static __attribute__((destructor)) void native_key_unload(void)
{
	if (__atomic_exchange_n(&native_key_made, false, __ATOMIC_ACQ_REL))
		(void)pthread_key_delete(native_key);
}

/* Lets the end of the caller be seen (p), or not (NULL). */
static void native_mark(const struct uproc *p)
{
	if (__atomic_load_n(&native_key_made, __ATOMIC_ACQUIRE))
		(void)pthread_setspecific(native_key, p);	/* else no message */
}

static void *native(void *arg)
{
	struct uproc *p = arg;
	struct uproc_set *set = p->p_set;
	void *guard;
	int go;

	mine = p;
	p->p_pinned = false;	/* a start that failed may have left it set */
	(void)uproc_pin(true);
	while ((go = __atomic_load_n(&set->set_go, __ATOMIC_ACQUIRE)) == 0)
		upark_futex_wait(&set->set_go, 0);
	if (go > 0) {
		note_few(p);
		__atomic_store_n(&p->p_runs, usched_current_at(), __ATOMIC_RELAXED);
		guard = usched_guard_begin();
		native_mark(p);
		usched_run(&p->p_sched);
		native_mark(NULL);
		usched_guard_end(guard);
	}
	return NULL;
}

static void go(struct uproc_set *set, int how)
{
	__atomic_store_n(&set->set_go, how, __ATOMIC_RELEASE);
	upark_futex_wake(&set->set_go);
}

static void native_join(struct uproc_set *set)
{
	while (set->set_drive == NULL && set->set_running > 0) {
		int rc = pthread_join(set->set_native[--set->set_running],
				      NULL);
		if (rc != 0)
			usched_fail("fini: called by a native thread of the set");
	}
}

static int native_start(struct uproc_set *set)
{
	pthread_attr_t attr;
	size_t size;
	bool pinned;
	int rc;

	rc = pthread_attr_init(&attr);
	if (rc != 0)
		return -rc;
	pinned = uproc_pin(false);
	rc = pthread_attr_getstacksize(&attr, &size);
	if (rc == 0 && set->set_on_native)
		rc = pthread_attr_setstacksize(&attr, size + set->set_stack);
	while (rc == 0 && set->set_running < set->set_nr) {
		int nr = set->set_running;

		rc = pthread_create(&set->set_native[nr], &attr, native,
				    uproc_nth(set, nr));
		set->set_running += rc == 0;
	}
	(void)uproc_pin(pinned);
	pthread_attr_destroy(&attr);
	if (rc != 0) {
		go(set, -1);
		native_join(set);
		go(set, 0);
	}
	return -rc;
}

#endif /* UPROC_NATIVE_THREADS_H */
