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
 * the ring of the descriptor, and arms the descriptor at its poller. Each
 * processor of rr or ll has a poller, and all workers of ws share one. It is a
 * source of events (uwait.h), so processors look at it now and then, and sleep
 * in it. An event takes the first node out of a ring, and claims its record. So
 * many threads can wait for a listening socket, and each connection wakes one.
 *
 * ARMED ONCE
 *
 * An event disarms the descriptor, and each wait arms it again (events.h). This
 * costs a system call for each wait. But the poller need not know whether a
 * descriptor was closed, or what dup() and fork() have done: whatever it
 * believes may be wrong, and is not used. It arms by MOD first, and only if that
 * fails by ADD, so a descriptor that is used again costs one call.
 *
 * If a descriptor must be added though nodes of the same poller are in its
 * rings, the file that they wait for was closed behind their back. They would
 * be woken by events of the new file, so they get -EBADF instead.
 *
 * INVARIANTS
 *
 * L1. A node is in a ring exactly if n_prev is not NULL. Rings change under
 *     e_lock.
 * L2. After each change of the rings, under the same lock, the descriptor is
 *     armed at each poller for all directions for which nodes of the poller
 *     are in the rings. Or an event for it is on its way.
 * L3. While a record has a node in a ring, the lock of that ring keeps the
 *     record: its thread takes its nodes out before it frees it.
 * L4. A close, and all that queued before it, exclude each other by e_lock. So a
 *     node is for the file that has the number when it is armed.
 * L5. A poller lives as long as its scheduler. While a record of it is in a
 *     ring, o_waits keeps the scheduler from its end.
 *
 * REJECTED
 *
 * Edge-triggered events, armed once for all: the poller has to know of each
 * close, or a number that is used again waits for ever. Records in epoll_data:
 * in ws another worker may hold an event in its array while the record is freed
 * and used again. A table for each poller: a close would have to lock all of
 * them.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* park.h: syscall() */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "upoll.h"
#include "events.h"
#include "lock.h"
#include "uscope.h"

#include <pthread.h>

UPREEMPT_NEVER;

#define PAGE		1024	/* entries */
#define PAGES		16384	/* so numbers up to 2^24 */
#define LOOK_MOST	64	/* events of a look while threads can run */
#define MOST		16000	/* descriptors of a wait: uwait.h has a limit */
#define IN_A_ROW	64	/* calls before a thread gives way */
#define NOINLINE	__attribute__((noinline))

struct poller {
	struct uwait_source p_source;	/* first */
	struct uevents      p_events;
	int                 p_forks;
	struct poller      *p_next;
	struct poller     **p_at;	/* points to this poller */
};

struct record;

/* Stands in a ring of a descriptor. */
struct node {
	struct node   *n_next;
	struct node   *n_prev;		/* NULL: in no ring */
	struct record *n_of;
	int            n_fd;
	int            n_ring;
};

struct record {
	struct uwait   r_wait;		/* first */
	struct poller *r_poller;
	unsigned       r_nr;
	struct node    r_node[];
};

enum { READERS, WRITERS, RINGS };

struct entry {
	struct ulock e_lock;
	int          e_drained;		/* a hint (atomic) */
	struct node *e_first[RINGS];
};

static struct entry *page[PAGES];	/* each made once (atomic) */
static struct ulock  pollers_lock;
static struct poller *pollers;
static int forks;			/* of this process, or its ancestors */

/* The table. */

/* Returns the entry of fd; NULL: it has none so far, or fd is out of range. */
static struct entry *entry_look(int fd)
{
	struct entry *list;

	if (fd < 0 || fd >= PAGE * PAGES)
		return NULL;
	list = __atomic_load_n(&page[fd / PAGE], __ATOMIC_ACQUIRE);
	return list != NULL ? &list[fd % PAGE] : NULL;
}

/* Makes the page of fd. NULL: no memory. */
static NOINLINE struct entry *entry_make(int fd)
{
	struct entry *list = calloc(PAGE, sizeof *list);
	struct entry *none = NULL;

	if (list == NULL)
		return NULL;
	if (!__atomic_compare_exchange_n(&page[fd / PAGE], &none, list, false,
			__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		free(list);
	return entry_look(fd);
}

/* Returns the entry of fd. NULL and *rc. */
static struct entry *entry_of(int fd, int *rc)
{
	struct entry *e = entry_look(fd);

	if (e != NULL)
		return e;
	*rc = fd < 0 || fd >= PAGE * PAGES ? -EBADF : -ENOMEM;
	return *rc == -EBADF ? NULL : entry_make(fd);
}

static void put_last(struct entry *e, struct node *n)
{
	struct node **first = &e->e_first[n->n_ring];
	struct node *next = *first;

	if (next == NULL) {
		n->n_next = n->n_prev = *first = n;
		return;
	}
	n->n_next = next;
	n->n_prev = next->n_prev;
	n->n_prev->n_next = next->n_prev = n;
}

static void take_out(struct entry *e, struct node *n)
{
	struct node **first = &e->e_first[n->n_ring];

	if (n->n_next == n)
		*first = NULL;
	else if (*first == n)
		*first = n->n_next;
	n->n_next->n_prev = n->n_prev;
	n->n_prev->n_next = n->n_next;
	n->n_prev = NULL;
}

/* Returns the first node of p in a ring of e; NULL: there is none. */
static struct node *first_of(const struct entry *e, int ring,
			     const struct poller *p)
{
	struct node *first = e->e_first[ring];
	struct node *n = first;

	if (n == NULL)
		return NULL;
	do {
		if (p == NULL || n->n_of->r_poller == p)
			return n;
		n = n->n_next;
	} while (n != first);
	return NULL;
}

/*
 * Takes the first node of p that still waits out of a ring, its record claimed,
 * and puts it in front of *told. False: there is none. p is NULL: of any.
 */
static bool take_first(struct entry *e, int ring, const struct poller *p,
		       struct node **told)
{
	struct node *n;

	while ((n = first_of(e, ring, p)) != NULL) {
		take_out(e, n);
		if (!uwait_claim(&n->n_of->r_wait))
			continue;
		n->n_next = *told;
		*told = n;
		return true;
	}
	return false;
}

static void take_all(struct entry *e, const struct poller *p,
		     struct node **told)
{
	while (take_first(e, READERS, p, told) ||
	       take_first(e, WRITERS, p, told))
		;
}

static void tell(struct node *told, int result)
{
	struct node *next;

	for (; told != NULL; told = next) {
		next = told->n_next;
		uwait_tell(&told->n_of->r_wait, result);
	}
}

/* Pollers. */

/* Arms fd at p for all that wait there: L2. As uevents_arm(). Under e_lock. */
static int arm(struct poller *p, int fd, const struct entry *e)
{
	int mask = (first_of(e, READERS, p) != NULL ? UREAD : 0) |
		   (first_of(e, WRITERS, p) != NULL ? UWRITE : 0);

	return mask != 0 ? uevents_arm(&p->p_events, fd, mask) : 0;
}

static void event(void *poller, int fd, int mask)
{
	struct poller *p = poller;
	struct entry *e = entry_look(fd);
	struct node *told = NULL;
	struct node *failed = NULL;
	int rc;

	ulock_get(&e->e_lock);
	if (mask & UREAD)
		(void)take_first(e, READERS, p, &told);
	if (mask & UWRITE)
		(void)take_first(e, WRITERS, p, &told);
	rc = arm(p, fd, e);
	if (rc < 0)
		take_all(e, p, &failed);
	ulock_put(&e->e_lock);
	tell(told, 0);
	tell(failed, rc);
}

static void look(struct uwait_source *o)
{
	struct poller *p = (struct poller *)o;

	(void)uevents_wait(&p->p_events, LOOK_MOST, 0, event, p);
}

static void sleep_in(struct uwait_source *o, utime_ns ns)
{
	struct poller *p = (struct poller *)o;

	(void)uevents_wait(&p->p_events, UEVENTS_MOST, ns, event, p);
}

static void poller_free(struct uwait_source *o)
{
	struct poller *p = (struct poller *)o;

	ulock_get(&pollers_lock);
	*p->p_at = p->p_next;
	if (p->p_next != NULL)
		p->p_next->p_at = p->p_at;
	ulock_put(&pollers_lock);
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
	memset(&pollers_lock, 0, sizeof pollers_lock);
	for (i = 0; i < PAGES; i++)
		if (page[i] != NULL)
			memset(page[i], 0, PAGE * sizeof *page[i]);
}

static int forks_watch(void)
{
	static bool watched;		/* under pollers_lock */
	int rc = watched ? 0 : pthread_atfork(NULL, NULL, in_child);

	watched = rc == 0;
	return -rc;
}

/* Makes a poller for the caller's dispatcher. 0 or -errno. */
static int poller_make(struct poller **out)
{
	struct poller *p = calloc(1, sizeof *p);
	int rc = p != NULL ? forks_watch() : -ENOMEM;

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

static NOINLINE int poller_new(struct poller **out)
{
	int rc = 0;

	if (ustack_self()->u_sched->s_wait == NULL)
		return -ENOSYS;
	ulock_get(&pollers_lock);
	*out = (struct poller *)uwait_source_of(look);
	if (*out == NULL)
		rc = poller_make(out);
	ulock_put(&pollers_lock);
	return rc;
}

/* Finds the poller of the caller's dispatcher. 0 or -errno. */
static int poller_here(struct poller **out)
{
	*out = (struct poller *)uwait_source_of(look);
	if (*out == NULL)
		return poller_new(out);
	return (*out)->p_forks == forks ? 0 : -ECHILD;
}

/* Waits of threads. */

static int ring_of(int what)
{
	return what & UREAD ? READERS : WRITERS;
}

static void node_add(struct record *r, int fd, int what)
{
	struct node *n = &r->r_node[r->r_nr++];

	n->n_prev = NULL;
	n->n_of   = r;
	n->n_fd   = fd;
	n->n_ring = ring_of(what);
}

/* Makes a record for nr nodes, which are to be added. NULL and *rc. */
static NOINLINE struct record *record_new(unsigned nr, const void *object,
					  int *rc)
{
	struct poller *p = NULL;
	struct record *r;

	*rc = poller_here(&p);
	if (*rc != 0)
		return NULL;
	r = uwait_new(offsetof(struct record, r_node) +
		      nr * sizeof *r->r_node, UWAIT_FD, object, rc);
	if (r == NULL)
		return NULL;
	r->r_poller = p;
	r->r_nr     = 0;
	return r;
}

/*
 * Takes out the nodes of other waits, whose file was closed: see above. Those of
 * r from nr on are for the new file.
 */
static void take_stale(struct entry *e, struct record *r, unsigned nr,
		       struct node **told)
{
	unsigned i;

	for (i = nr; i < r->r_nr; i++)
		take_out(e, &r->r_node[i]);
#if defined(USCHED_HARD)
	if (first_of(e, READERS, r->r_poller) != NULL ||
	    first_of(e, WRITERS, r->r_poller) != NULL)
		usched_fail("close: threads wait for the descriptor, so only "
			    "u_close() may close it");
#endif
	take_all(e, r->r_poller, told);
	for (i = nr; i < r->r_nr; i++)
		put_last(e, &r->r_node[i]);
}

/*
 * Queues the nodes of r from nr on, which are for the same fd, and arms it. 0,
 * or -errno: none is queued. 1: fd is always ready.
 */
static NOINLINE int queue(struct record *r, unsigned nr)
{
	int fd = r->r_node[nr].n_fd;
	struct node *stale = NULL;
	struct entry *e;
	unsigned i;
	int rc = 0;

	e = entry_of(fd, &rc);
	if (e == NULL)
		return rc;
	ulock_get(&e->e_lock);
	for (i = nr; i < r->r_nr; i++)
		put_last(e, &r->r_node[i]);
	rc = arm(r->r_poller, fd, e);
	if (rc > 0)
		take_stale(e, r, nr, &stale);
	for (i = nr; rc < 0 && i < r->r_nr; i++)
		take_out(e, &r->r_node[i]);
	ulock_put(&e->e_lock);
	tell(stale, -EBADF);
	return rc == -EPERM ? 1 : rc < 0 ? rc : 0;
}

static void unqueue(struct record *r)
{
	unsigned i;

	for (i = 0; i < r->r_nr; i++) {
		struct node *n = &r->r_node[i];
		struct entry *e = entry_look(n->n_fd);

		ulock_get(&e->e_lock);
		if (n->n_prev != NULL)
			take_out(e, n);
		ulock_put(&e->e_lock);
	}
}

/* Frees r, whose wait has ended, or has not begun. Returns rc. */
static NOINLINE int finish(struct record *r, int rc)
{
	if (rc != 0 || r->r_nr > 1)
		unqueue(r);
	uwait_source_end(&r->r_poller->p_source);
	uwait_free(r);
	return rc;
}

/* Makes the record of a wait for one descriptor, queued. NULL and *rc. */
static NOINLINE struct record *begin(int fd, int what, int *rc)
{
	struct record *r = record_new(what == (UREAD | UWRITE) ? 2 : 1,
				      (const void *)(intptr_t)fd, rc);

	if (r == NULL)
		return NULL;
	if (what & UREAD)
		node_add(r, fd, UREAD);
	if (what & UWRITE)
		node_add(r, fd, UWRITE);
	uwait_source_begin(&r->r_poller->p_source);
	*rc = queue(r, 0);
	if (*rc == 0)
		return r;
	r->r_nr = 0;
	(void)uwait_claim(&r->r_wait);
	*rc = finish(r, *rc);
	return NULL;
}

/* Waits of native threads. */

static int poll_natively(struct pollfd *fds, nfds_t nr, utime_ns until)
{
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

static NOINLINE int wait_natively(int fd, int what, utime_ns until)
{
	struct pollfd f = { .fd = fd,
			    .events = (what & UREAD ? POLLIN : 0) |
				      (what & UWRITE ? POLLOUT : 0) };
	int rc;

	if (utime_is_virtual() && until != UNEVER && until != UNOW)
		return -ENOSYS;
	rc = poll_natively(&f, 1, until);
	return rc == 0 && f.revents & POLLNVAL ? -EBADF : rc;
}

int upoll_wait(int fd, int what, utime_ns until)
{
	struct record *r;
	int rc;

	if (ustack_self() == NULL)
		return wait_natively(fd, what, until);
	if (until == UNOW)
		return -EAGAIN;
	r = begin(fd, what, &rc);
	if (r == NULL)
		return rc;
	return finish(r, uwait_for(&r->r_wait, until));
}

/* Queues nodes for one of the caller's descriptors. As queue(). */
static int queue_one(struct record *r, const struct pollfd *f)
{
	unsigned nr = r->r_nr;
	int rc;

	if (f->fd < 0)
		return 0;
	if (f->events & (POLLIN | POLLPRI) || !(f->events & POLLOUT))
		node_add(r, f->fd, UREAD);
	if (f->events & POLLOUT)
		node_add(r, f->fd, UWRITE);
	rc = queue(r, nr);
	if (rc != 0)
		r->r_nr = nr;
	return rc;
}

static NOINLINE struct record *begin_any(const struct pollfd *fds, nfds_t nr,
					 int *rc)
{
	struct record *r;
	nfds_t i;

	if (nr > MOST) {
		*rc = -EINVAL;
		return NULL;
	}
	r = record_new(2 * (unsigned)nr, NULL, rc);
	if (r == NULL)
		return NULL;
	uwait_source_begin(&r->r_poller->p_source);
	for (i = 0; i < nr && *rc == 0; i++)
		*rc = queue_one(r, &fds[i]);
	if (*rc == 0)
		return r;
	unqueue(r);
	if (!uwait_claim(&r->r_wait))
		(void)uwait_for(&r->r_wait, UNEVER);	/* it is being told */
	uwait_source_end(&r->r_poller->p_source);
	uwait_free(r);
	*rc = *rc > 0 || *rc == -EBADF ? 0 : *rc;	/* poll() will tell */
	return NULL;
}

int upoll_wait_any(const struct pollfd *fds, nfds_t nr, utime_ns until)
{
	struct record *r;
	int rc;

	if (until == UNOW)
		return -EAGAIN;
	r = begin_any(fds, nr, &rc);
	if (r == NULL)
		return rc;
	rc = uwait_for(&r->r_wait, until);
	unqueue(r);
	uwait_source_end(&r->r_poller->p_source);
	uwait_free(r);
	return rc;
}

/* Hints, closing, and calls in a row. */

void upoll_set_drained(int fd)
{
	struct entry *e = entry_look(fd);

	if (e != NULL)
		__atomic_store_n(&e->e_drained, 1, __ATOMIC_RELAXED);
}

bool upoll_drained(int fd)
{
	struct entry *e = entry_look(fd);

	if (e == NULL || !__atomic_load_n(&e->e_drained, __ATOMIC_RELAXED))
		return false;
	__atomic_store_n(&e->e_drained, 0, __ATOMIC_RELAXED);
	return true;
}

int upoll_close(int fd)
{
	struct entry *e = entry_look(fd);
	struct node *told = NULL;
	int rc;

	if (e == NULL)
		return close(fd) == 0 ? 0 : -errno;
	ulock_get(&e->e_lock);
	take_all(e, NULL, &told);
	__atomic_store_n(&e->e_drained, 0, __ATOMIC_RELAXED);
	rc = close(fd) == 0 ? 0 : -errno;			/* L4 */
	ulock_put(&e->e_lock);
	tell(told, -EBADF);
	return rc;
}

/* Returns whether the caller has made many calls without a wait. */
static NOINLINE bool many_in_a_row(const struct ustack *u)
{
	static __thread const struct ustack *last;
	static __thread unsigned calls;

	if (last != u) {
		last  = u;
		calls = 0;
	}
	return ++calls % IN_A_ROW == 0;
}

int upoll_enter(utime_ns until)
{
	const struct ustack *u = ustack_self();
	int rc;

	if (until < 0)
		return -EINVAL;
	if (u == NULL)
		return 0;
	if (u_canceled())
		return -ECANCELED;
	if (!many_in_a_row(u))
		return 0;
	rc = u_sleep(unow());
	return rc == -ECANCELED ? rc : 0;
}
