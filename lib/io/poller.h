/* SPDX-License-Identifier: MIT */
/* poller.h: arms descriptors and fetches their events. A part of upoll.c. */

#ifndef UPOLLER_H
#define UPOLLER_H

/*
 * ARMING
 *
 * Each wait arms the descriptor (events.h), unless it is owned (owned.h). To arm also
 * looks whether it is ready. That is a system call. But the poller need not know whether a
 * descriptor was closed, or what dup() and fork() have done. It arms by MOD
 * first, and only if that fails by ADD, so a descriptor that is used again costs
 * one call.
 *
 * If a descriptor must be added though nodes of the same poller are in its
 * rings, the file that they wait for was closed behind their back. They would
 * be woken by events of the new file, so they get -EBADF instead.
 *
 * Of a number that others may close nothing is believed from the wait before: not
 * that it is still the same file, nor that a short read has left nothing. So a wait
 * is never late.
 *
 * GENERATIONS
 *
 * Each arming has a generation, which its events carry. An event of the last
 * arming is believed. Any other was fetched before that, or is of a file that a
 * copy (dup(), fork()) keeps alive after its number was used again, or was armed
 * at another poller since. Then the descriptor is armed once more, for those who
 * wait at this poller: if it is ready, that makes an event to be believed. So an
 * event of another file, or of a time before the wait, ends no wait.
 *
 * INVARIANTS
 *
 * L5. A poller lives as long as its scheduler. While a record of it is in a
 *     ring, o_waits keeps the scheduler from its end.
 * L6. e_generation is that of the last arming, at any poller. An event with
 *     another takes no node out of a ring: it arms for the nodes of its poller.
 * L7. An event of an owned stream may belong to an arming before the wait. So it
 *     ends only waits that began before it was fetched (p_fetch); for others it
 *     arms.
 *
 * REJECTED
 *
 * A cheaper proof than MOD: ADD fails if the file is armed, but saves only 2 to 4 %,
 * and would not renew the generation. EPOLLONESHOT, so that each event disarms: no call
 * less.
 *
 * io_uring: its polls are 3 to 5 % cheaper than kept edges for a bare loop, and were
 * not within the library; its receives are dearer, and take bytes that no thread has
 * asked for.
 *
 * Records in epoll_data: in ws another worker may hold an event in its array
 * while the record is freed and used again.
 */

#include "owned.h"
#include "park.h"
#include "ufork.h"

#define LOOK_MOST	64	/* events of a look while threads can run */

static struct ulock  pollers_lock;
static struct poller *pollers;
static int forks;			/* of this process, or its ancestors */

/* Arming, and events. */

/* Arms fd at p for all that wait there: table L2. As uevents_arm(). Under e_lock. */
static int arm(struct poller *p, int fd, struct entry *e)
{
	int mask = mask_of(e, p);
	int rc;

	if (mask == 0)
		return 0;
	e->e_armed_to_read = mask & UREAD;
	if (e->e_armed_at != p && (e->e_armed_at != NULL || is_owned(e)))
		mask |= UEVENTS_NEW;
	if (e->e_armed_at != NULL && e->e_armed_at != p &&
	    mask_of(e, e->e_armed_at) == 0)
		uevents_disarm(&e->e_armed_at->p_events, fd);
	if (mask & UREAD && (e->e_urgent > 0 || is_owned(e)))
		mask |= UEVENTS_URGENT;
	e->e_generation = (e->e_generation + 1) & UEVENTS_GENERATIONS;
	rc = uevents_arm(&p->p_events, fd, mask, e->e_generation);
	USCHED_RACE(poll_armed);
	if (rc > 0)
		set_last(e, false);
	if (rc == -EBADF || (rc > 0 && e->e_armed_at == p))
		closed_behind(e);		/* the file that was armed is closed */
	armed_at(e, rc >= 0 && UEVENTS_STAY ? p : NULL);
	return rc;
}

/* Takes out the first nodes that an event of p ends. Under e_lock. */
static void take_by_event(struct entry *e, const struct poller *p, int mask,
			  struct node **claimed)
{
	unsigned now = __atomic_load_n(&p->p_fetch, __ATOMIC_RELAXED);
	const unsigned *fetch = is_owned(e) ? &now : NULL;	/* L7 */

	if (mask & UEVENTS_LAST)
		set_last(e, true);
	if (mask & UEVENTS_URGENT)
		set_owned(e, false);
	if (mask & UREAD)
		(void)take_first(e, READERS, p, fetch, claimed);
	if (mask & UWRITE)
		(void)take_first(e, WRITERS, p, fetch, claimed);
}

static void event(void *poller, int fd, int mask, uint64_t generation)
{
	struct poller *p = poller;
	struct entry *e = entry_look(fd);
	struct node *claimed = NULL;
	struct node *failed = NULL;
	int rc;

	USCHED_RACE(poll_event);
	ulock_get(&e->e_lock);
	if (is_owned(e))
		event_counted(e);				/* owned V2 */
	if (generation == e->e_generation)			/* L6 */
		take_by_event(e, p, mask, &claimed);
	rc = mask & UEVENTS_OTHER ? -EBADF : arm(p, fd, e);
	if (rc < 0)
		take_all(e, p, &failed);
	ulock_put(&e->e_lock);
	USCHED_RACE(poll_complete);
	complete(claimed, 0);
	complete(failed, rc);
}

/* Fetches events of p. Caller has its role. */
static void fetch(struct poller *p, int most, utime_ns ns)
{
	utime_ns again;

	(void)__atomic_add_fetch(&p->p_fetch, 1, __ATOMIC_SEQ_CST);	/* L7 */
	(void)uevents_wait(&p->p_events, most, ns, event, p);
	again = again_at(p);
	if (again != 0 && unow() >= again)
		all_again(p);
}

/* Sources of events. */

static void look(struct uwait_source *o)
{
	fetch((struct poller *)o, LOOK_MOST, 0);
}

static void sleep_in(struct uwait_source *o, utime_ns ns)
{
	struct poller *p = (struct poller *)o;
	utime_ns again = again_at(p);

	if (again != 0) {
		again -= unow();
		ns = again <= 0 ? 0 : again < ns ? again : ns;
	}
	fetch(p, UEVENTS_MOST, ns);
}

/* Forgets that e is armed at p: another poller may have this address. */
static void entry_disarm(struct entry *e, const struct poller *p)
{
	ulock_get(&e->e_lock);
	if (e->e_armed_at == p)
		armed_at(e, NULL);
	ulock_put(&e->e_lock);
}

static void poller_free(struct uwait_source *o)
{
	struct poller *p = (struct poller *)o;

	ulock_get(&pollers_lock);
	*p->p_at = p->p_next;
	if (p->p_next != NULL)
		p->p_next->p_at = p->p_at;
	ulock_put(&pollers_lock);
	each_entry(entry_disarm, p);
	uevents_fini(&p->p_events);
	free(p);
}

/* In the child of fork(): nothing here belongs to it, and locks may be taken. */
static void in_child(void)
{
	struct poller *p;
	int i;

	forks++;
	for (p = pollers; p != NULL; p = p->p_next)
		uevents_close(&p->p_events);
	pollers = NULL;
	for (i = 0; i < PAGES; i++)
		if (page[i] != NULL)
			memset(page[i], 0, PAGE * sizeof *page[i]);
}

static struct ufork at_fork = {
	.f_rank = UFORK_POLLERS, .f_lock = &pollers_lock, .f_nr = 1,
	.f_child = in_child
};
UFORK(at_fork)

/*
 * Makes a poller for b, or for the base of the caller's dispatcher if b is NULL. Caller
 * holds pollers_lock. 0 or -errno.
 */
static int poller_make(struct uwait_base *b, struct poller **out)
{
	struct poller *p = calloc(1, sizeof *p);
	int rc = p != NULL ? ufork_watch() : -ENOMEM;

	if (rc == 0)
		rc = uevents_init(&p->p_events);
	if (rc != 0) {
		free(p);
		return rc;
	}
	p->p_forks = forks;
	p->p_source.o_look  = look;
	p->p_source.o_sleep = sleep_in;
	p->p_source.o_fini  = poller_free;
	p->p_source.o_wake  = p->p_events.v_wake;
	p->p_source.o_local = true;
	if (b != NULL)
		b->wb_ops->o_source(b, &p->p_source);
	else
		rc = uwait_source_add(&p->p_source);
	if (rc != 0) {
		uevents_fini(&p->p_events);
		free(p);
		return rc;
	}
	p->p_at   = &pollers;
	p->p_next = pollers;
	if (p->p_next != NULL)
		p->p_next->p_at = &p->p_next;
	pollers = p;
	*out = p;
	return 0;
}

static NOINLINE int poller_once(struct poller **out)
{
	int rc = 0;

	if (ustack_self()->u_sched->s_wait == NULL)
		return -ENOSYS;
	ulock_get(&pollers_lock);
	*out = (struct poller *)uwait_source_of(look);
	if (*out == NULL)
		rc = poller_make(NULL, out);
	ulock_put(&pollers_lock);
	return rc;
}

/* Finds the poller of the caller's dispatcher. 0 or -errno. */
static int poller_here(struct poller **out)
{
	*out = (struct poller *)uwait_source_of(look);
	if (*out == NULL)
		return poller_once(out);
	return (*out)->p_forks == forks ? 0 : -ECHILD;
}

#endif /* UPOLLER_H */
