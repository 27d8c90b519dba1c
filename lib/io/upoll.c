/* SPDX-License-Identifier: MIT */
/* upoll.c: where threads wait for descriptors. */

/*
 * OVERVIEW
 *
 *	table, by number			records		pollers
 *	+-------+  first to read		+--------+	+---------+
 *	| lock  |------------------------------>| node   |----->| epoll   |
 *	| rings |------------.			+--------+	| wake fd |
 *	+-------+	     |			+--------+	+---------+
 *	| ...   |	     `----------------->| node   |----->
 *	+-------+ first to write		+--------+
 *
 * A wait is for readiness, and the thread reads when it runs again. A read that
 * the kernel completes later would write into a blocked slice, which may be a
 * part of another thread's stack by then.
 *
 * A thread that waits for a descriptor makes a record (uwait.h) with a node in
 * the ring of the descriptor, and arms the descriptor at its poller, unless that was
 * done before and lasts (owned.h). Each
 * processor has a poller, also each worker of ws. It is a local source of events
 * (uwait.h), so the processor looks at it now and then, and sleeps in it. An
 * event takes the first node out of a ring, and claims its record. So many
 * threads can wait for a listening socket, and each connection wakes one.
 *
 * PARTS
 *
 * This file has the waits, a close, and what each call does first. It includes its
 * parts, because a wait and an event run through several of them, and the compiler
 * makes few functions of that. For the same reason their names are static. Each
 * part includes the part below, and calls only what is below:
 *
 *	poller.h	arms descriptors, fetches events, looks and sleeps
 *	owned.h		streams that only the library closes; the second look
 *	table.h		entries by number, and their rings
 *	events.h	how the system is asked
 *
 * GUESTS
 *
 * A thread of ws may wait at another worker than before, after a theft. Then it
 * is a guest: its wait stays at the poller where the descriptor is armed. The
 * worker of that poller brings the event to the thread. To arm the descriptor
 * elsewhere takes two system calls, so that is done only after GUESTS such waits
 * in a row, or if no thread waits at that poller, whose worker may then sleep
 * elsewhere (source Y1). A worker whose thread computes does not look at
 * its poller: thieves do (theft.h).
 *
 * INVARIANTS
 *
 * They are where they are kept: table L1 to L4, poller L5 to L7,
 * owned L8 and L9.
 *
 * REJECTED
 *
 * A single poller for all workers of ws: a worker that sleeps elsewhere must be
 * woken for each event that another fetches. Guests that never move, and guests
 * that always do: as many calls within the spread, but the first keep a worker
 * busy with threads of others.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* park.h: syscall() */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "upoll.h"
#include "poller.h"
#include "uscope.h"

UPREEMPT_NEVER;

#define MOST		16000	/* descriptors of a wait: uwait.h has a limit */
#if !defined(POLLRDHUP)
#define POLLRDHUP	0
#endif
#define READ_BITS	(POLLIN | POLLRDNORM | POLLRDBAND | POLLPRI | POLLRDHUP)
#define WRITE_BITS	(POLLOUT | POLLWRNORM | POLLWRBAND)
#define IN_A_ROW	64	/* calls before a thread gives way */
#define ASK		4	/* calls before it asks the clock */
#define GUESTS		2	/* waits elsewhere, before it is armed there */

/* Tells tracers that the thread of r is about to wait: core/probe.h */
#define PROBE_WAIT(r, fd, what)						\
	USCHED_PROBE(fd_wait, USCHED_PROBE_POINTER "%0 "		\
		     USCHED_PROBE_INT "%1 " USCHED_PROBE_INT "%2",	\
		     "m"((r)->r_wait.w_stack), "r"(fd), "r"(what))

static __thread unsigned calls;		/* since a thread has waited here */

/* Waits of threads. */

static void node_init(struct record *r, unsigned i, int fd, int ring)
{
	struct node *n = &r->r_node[i];

	n->n_prev    = NULL;
	n->n_fd      = fd;
	n->n_index   = i;
	n->n_ring    = ring;
	n->n_urgent  = 0;
	n->n_again   = 0;
	n->n_is_last = 1;
	if (i > 0)
		n[-1].n_is_last = 0;
}

static void unqueue(struct record *r)
{
	struct node *n = r->r_node;

	for (;; n++) {
		struct entry *e = entry_look(n->n_fd);
		bool last = n->n_is_last;

		if (e != NULL) {
			ulock_get(&e->e_lock);
			if (n->n_prev != NULL)
				take_out(e, n);
			ulock_put(&e->e_lock);
		}
		if (last)
			return;
	}
}

static void record_free(struct record *r)
{
	uwait_source_end(&r->r_poller->p_source);
	uwait_free(r);
}

/* Ends a wait. A single node was taken out by its event. */
static int finish(struct uwait *w, int rc)
{
	struct record *r = (struct record *)w;

	if (rc != 0 || !r->r_node->n_is_last)
		unqueue(r);
	record_free(r);
	return rc;
}

static struct uwait_kind fd_kind = {
	.wk_name = "fd", .wk_call = "a wait for a descriptor",
	.wk_end = finish, .wk_number = true
};

/*
 * Returns the poller for a wait of fd, whose thread is at the poller here, and
 * counts it there. It stays where fd is armed, unless guests come often.
 */
static NOINLINE struct poller *stays(struct entry *e, struct poller *here)
{
	struct poller *p;

	ulock_get(&e->e_lock);
	p = e->e_armed_at;
	if (p == NULL || p == here || here->p_source.o_group == NULL ||
	    p->p_source.o_group != here->p_source.o_group ||
	    e->e_guests >= GUESTS || !uwait_source_join(&p->p_source))
		p = here;
	e->e_guests = p != here ? e->e_guests + 1 : 0;
	ulock_put(&e->e_lock);
	if (p == here)
		uwait_source_begin(&p->p_source);
	return p;
}

/* Does the same for fd; negative: for several descriptors. */
static struct poller *poller_for(int fd, struct poller *here)
{
	struct entry *e = entry_look(fd);

	if (e != NULL && __atomic_load_n(&e->e_armed_at, __ATOMIC_RELAXED) !=
	    here)
		return stays(e, here);
	uwait_source_begin(&here->p_source);
	return here;
}

/* Makes a record for up to nr nodes, for fd if nr is 1. NULL and *rc. */
static NOINLINE struct record *record_make(unsigned nr, int fd, int *rc)
{
	const void *object = (const void *)(intptr_t)fd;
	struct poller *p = NULL;
	struct record *r;

	*rc = poller_here(&p);
	if (*rc != 0)
		return NULL;
	r = uwait_make(&fd_kind, object, offsetof(struct record, r_node) +
		       nr * sizeof *r->r_node);
	if (r == NULL) {
		*rc = -errno;
		return NULL;
	}
	r->r_poller = poller_for(fd, p);
	node_init(r, 0, -1, READERS);
	return r;
}

/* Frees r, which never waits, and whose nodes are in no ring. */
static void record_drop(struct record *r)
{
	if (uwait_claim(&r->r_wait))
		record_free(r);
	else
		(void)uwait_for(&r->r_wait, UNEVER);	/* it is being completed */
}

/*
 * Takes out the nodes of other waits, whose file was closed: see ARMING in poller.h.
 * Those of r from `from` to `to` are for the new file.
 */
static void take_stale(struct entry *e, struct record *r, unsigned from,
		       unsigned to, struct node **claimed)
{
	unsigned i;

	for (i = from; i < to; i++)
		take_out(e, &r->r_node[i]);
#if defined(USCHED_HARD)
	if (mask_of(e, r->r_poller) != 0)
		usched_fail("close: threads wait for the descriptor, so only "
			    "u_close() may close it");
#endif
	take_all(e, r->r_poller, claimed);
	for (i = from; i < to; i++)
		put_last(e, &r->r_node[i]);
}

/*
 * Adds nodes for fd to r, which has `from` of them, and queues them. 0, or
 * -errno: none is queued. 1: the same, since fd is always ready. In the hard mode all
 * waits arm, which shows whether the number was closed.
 */
static int queue(struct record *r, unsigned from, int fd, int what, int how)
{
	struct node *stale = NULL;
	unsigned to = from;
	struct entry *e;
	unsigned i;
	bool armed;
	int rc = 0;

	e = entry_of(fd, &rc);
	if (e == NULL)
		return rc;
	if (what & UREAD)
		node_init(r, to++, fd, READERS);
	if (what & UEVENTS_URGENT)
		r->r_node[from].n_urgent = 1;
	if (what & UWRITE)
		node_init(r, to++, fd, WRITERS);
	ulock_get(&e->e_lock);
	for (i = from; i < to; i++) {
		r->r_node[i].n_fetch = __atomic_load_n(&r->r_poller->p_fetch,
						       __ATOMIC_SEQ_CST);
		put_last(e, &r->r_node[i]);
	}
	USCHED_RACE(poll_arm);
	armed = how != UPOLL_AGAIN && is_armed(e, r->r_poller, what);
	r->r_node[from].n_again = armed || how == UPOLL_FIRST;
	if (!armed || HARD)
		rc = arm(r->r_poller, fd, e);
	if (rc > 0)
		take_stale(e, r, from, to, &stale);
	for (i = from; rc < 0 && i < to; i++)
		take_out(e, &r->r_node[i]);
	ulock_put(&e->e_lock);
	USCHED_RACE(poll_stale);
	complete(stale, -EBADF);
	return rc == -EPERM ? 1 : rc < 0 ? rc : 0;
}

struct upoll_begun upoll_begin(int fd, int what, utime_ns until, int how)
{
	struct upoll_begun b = { NULL, 0, until };
	struct record *r;

	calls = 0;
	r = record_make(what == (UREAD | UWRITE) ? 2 : 1, fd, &b.b_rc);
	if (r == NULL)
		return b;
	PROBE_WAIT(r, fd, what);
	b.b_rc = queue(r, 0, fd, what, how);
	if (b.b_rc != 0) {
		record_drop(r);
		return b;
	}
	b.b_wait = &r->r_wait;
	if (r->r_node->n_again)
		b.b_until = until_again(r->r_poller, until);
	return b;
}

/* Waits of native threads. */

static int poll_natively(struct pollfd *fds, nfds_t nr, utime_ns until)
{
	if (until != UNOW)
		usched_other_copy(fd_kind.wk_call);
	for (;;) {
		utime_ns left = until != UNEVER ? until - unow() : UNEVER;
		int rc = poll(fds, nr, uevents_ms(left > 0 ? left : 0));

		if (rc > 0)
			return 0;
		if (rc < 0 && errno != EINTR)
			return -errno;
		if (until == UNOW)
			return -EAGAIN;
		if (rc == 0 && left <= 0)
			return -ETIMEDOUT;
	}
}

int upoll_natively(int fd, int what, utime_ns until)
{
	struct pollfd f = { .fd = fd,
			    .events = uevents_poll(what) };
	int rc;

	if (utime_is_virtual() && until != UNEVER && until != UNOW)
		return -ENOSYS;
	rc = poll_natively(&f, 1, until);
	return rc == 0 && f.revents & POLLNVAL ? -EBADF : rc;
}

/* An error is for both. With no other bit, only errors are asked for. */
static int what_of(const struct pollfd *f)
{
	bool out = f->events & WRITE_BITS;

	return (out ? UWRITE : 0) |
	       (!out || f->events & READ_BITS ? UREAD : 0) |
	       (f->events & POLLPRI ? UEVENTS_URGENT : 0);
}

struct upoll_begun upoll_begin_any(const struct pollfd *fds, nfds_t nr)
{
	struct upoll_begun b = { NULL, 1, UNEVER };
	unsigned nodes = 0;
	struct record *r;
	nfds_t i;
	int what;

	if (nr > MOST)
		return b;			/* u_poll() naps */
	r = record_make(nr > 0 ? 2 * (unsigned)nr : 1, -1, &b.b_rc);
	if (r == NULL)
		return b;
	for (i = 0; i < nr && b.b_rc == 0; i++) {
		if (fds[i].fd < 0)
			continue;
		what   = what_of(&fds[i]);
		PROBE_WAIT(r, fds[i].fd, what);
		b.b_rc = queue(r, nodes, fds[i].fd, what, UPOLL_AGAIN);
		nodes += what & UREAD && what & UWRITE ? 2 : 1;
	}
	if (b.b_rc == 0) {
		b.b_wait = &r->r_wait;
		return b;
	}
	unqueue(r);
	record_drop(r);
	if (b.b_rc == -EBADF)
		b.b_rc = 1;			/* poll() will tell */
	return b;
}

/* Closing. */

/* Native threads, and events by poll(), leave no e_is_last. */
bool upoll_is_last(int fd)
{
	const struct entry *e = entry_look(fd);

	return !UEVENTS_STAY || ustack_self() == NULL ||
		(e != NULL && __atomic_load_n(&e->e_is_last,
					      __ATOMIC_RELAXED));
}

/* Disarms fd, which may be armed anywhere if that is not kept. Under e_lock. */
static void disarm_everywhere(int fd)
{
	struct poller *p;

	ulock_get(&pollers_lock);
	for (p = pollers; p != NULL; p = p->p_next)
		uevents_disarm(&p->p_events, fd);
	ulock_put(&pollers_lock);
}

int upoll_close(int fd)
{
	struct entry *e = entry_look(fd);
	struct node *claimed = NULL;
	int rc;

	if (e == NULL)
		return close(fd) == 0 ? 0 : -errno;
	ulock_get(&e->e_lock);
	forget_file(e, &claimed);
	__atomic_store_n(&e->e_closes, e->e_closes + 1, __ATOMIC_RELEASE);
	if (!UEVENTS_STAY)
		disarm_everywhere(fd);
	USCHED_RACE(poll_L4);
	rc = close(fd) == 0 ? 0 : -errno;			/* table L4 */
	ulock_put(&e->e_lock);
	complete(claimed, -EBADF);
	return rc;
}

unsigned upoll_closes(int fd)
{
	const struct entry *e = entry_look(fd);

	return e != NULL ? __atomic_load_n(&e->e_closes, __ATOMIC_ACQUIRE) : 0;
}

/* For uloop.c. */

int upoll_source(struct uwait_base *b, struct uwait_source **o)
{
	struct poller *p;
	int rc = 0;

	ulock_get(&pollers_lock);
	*o = uwait_source_in(b, look);
	if (*o == NULL && (rc = poller_make(b, &p)) == 0)
		*o = &p->p_source;
	ulock_put(&pollers_lock);
	return rc != 0 ? rc : uevents_fd(&((struct poller *)*o)->p_events);
}

utime_ns upoll_again(const struct uwait_source *o)
{
	utime_ns again = again_at((const struct poller *)o);

	return again != 0 ? again : UNEVER;
}

/* What each call does first. */

/* Threads whose u_f is ustack_shell may be in a scope. */
static bool is_canceled(const struct ustack *u)
{
	return u->u_f == ustack_shell && u_canceled();
}

/* Returns whether the processor of u should have looked outside (rounds.h). */
static bool is_late(const struct ustack *u)
{
	const struct uwait_base *b = u->u_sched->s_waits;

	return b != NULL && b->wb_looked != 0 &&
		unow() - b->wb_looked > UWAIT_LATE;
}

int upoll_enter(utime_ns until)
{
	const struct ustack *u = ustack_self();

	if (until < 0)
		return -EINVAL;
	if (u == NULL)
		return 0;
	if (++calls % IN_A_ROW == 0 || (calls % ASK == 0 && is_late(u)))
		(void)uwait_give_way();	/* or, without memory, next time */
	return is_canceled(ustack_self()) ? -ECANCELED : 0;
}
