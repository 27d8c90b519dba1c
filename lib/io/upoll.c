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
 * processor has a poller, also each worker of ws. It is a local source of events
 * (uwait.h), so the processor looks at it now and then, and sleeps in it. An
 * event takes the first node out of a ring, and claims its record. So many
 * threads can wait for a listening socket, and each connection wakes one.
 *
 * ARMING
 *
 * Each wait arms the descriptor (events.h), which also looks whether it is
 * ready. That is a system call. But the poller need not know whether a
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
 * GUESTS
 *
 * A thread of ws may wait at another worker than before, after a theft. Then it
 * is a guest: its wait stays at the poller where the descriptor is armed. The
 * worker of that poller brings the event to the thread. To arm the descriptor
 * elsewhere takes two system calls, so that is done only after GUESTS such waits
 * in a row, or if no thread waits at that poller, whose worker may then sleep
 * elsewhere (Y1 in source.h). A worker whose thread computes does not look at
 * its poller: thieves do (theft.h).
 *
 * OWNED STREAMS
 *
 * A stream of TCP or AF_UNIX that u_accept() or u_dial() has made is owned, as is
 * what u_trust() names: only u_close() closes it. If it is armed, and the last read
 * has left nothing, the next bytes make an event. Then a read waits before it tries,
 * and the wait does not arm. Whether something is left is counted in events.
 *
 *	a read:			an event:		a wait:
 *
 *	V1 n = e_events		V2 add 1 to e_events	V4 if e_empty is e_events,
 *	   try to read						   do not arm
 *	V3 if nothing is left,
 *	   e_empty = n
 *
 * V2 and V4 are under e_lock. Bytes that come after the read make an event later
 * than V1. If V2 is before V4, the numbers differ, and the wait arms. Else V2
 * finds the node in the ring. An event before V1 told of bytes that the read has
 * taken, or of the end of the stream, which e_is_last keeps. A second reader only
 * takes bytes, and changes nothing of this.
 *
 * A short read leaves nothing, unless it stopped at descriptors or credentials, of
 * which recvmsg() tells (MSG_CTRUNC), or at urgent bytes, which make an event of
 * their own: after that the stream is owned no more.
 *
 * What the program does all the same is found out by a second look. A wait that
 * did not arm, or came before a try, is ended by its poller within a second: the thread
 * tries again, and then arms. So a number that was closed, or is another file's, is
 * told; and bytes that make no event, below SO_RCVLOWAT or in a record of TLS, are
 * read. The poller has one time for all its waits (p_again), at which it goes
 * through the table, so a wait costs no timer. An idle processor wakes once for
 * that, and then no more. A deadline behind that time needs no timer, either: the
 * thread that has looked again has one. A read whose deadline has passed tries a last
 * time. Under virtual time no stream becomes owned, as time is none there.
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
 * L6. e_generation is that of the last arming, at any poller. An event with
 *     another takes no node out of a ring: it arms for the nodes of its poller.
 * L7. An event of an owned stream may belong to an arming before the wait. So it
 *     ends only waits that began before it was fetched (p_fetch); for others it
 *     arms.
 * L8. e_empty equals e_events only if all that can be read has come later, and
 *     the event of that is still to come. (After 2^32 events without a read they may
 *     be equal by chance: the second look helps.)
 * L9. While a node with n_again is in a ring, p_again of its poller is a time. So
 *     the node is put before p_again is read, and p_again becomes 0 before the
 *     rings are looked at.
 *
 * REJECTED
 *
 * The same for any descriptor, since close() and dup2() may replace a file, and packets
 * in a pipe make reads short: bytes that were there were late. A cheaper proof than
 * MOD: ADD fails if the file is armed, but saves only 2 to 4 %, and would not renew
 * the generation. EPOLLONESHOT, so that each event disarms: no call less. A timer for
 * each second look: 100 ns and more a wait, and it keeps the scheduler from its end.
 *
 * Owned streams that are not edge-triggered, so that no read need leave nothing. A
 * stream that is ready, and has no waiter, ends each sleep, so it must be disarmed, and
 * armed again: with 1,000 connections on two workers of ws 0.4 to 0.6 epoll_ctl a
 * message, where edges need 0.05 to 0.2.
 *
 * io_uring: its polls are 3 to 5 % cheaper than kept edges for a bare loop, and were
 * not within the library; its receives are dearer, and take bytes that no thread has
 * asked for.
 *
 * A single poller for all workers of ws: a worker that sleeps elsewhere must be
 * woken for each event that another fetches. Guests that never move, and guests
 * that always do: as many calls within the spread, but the first keep a worker
 * busy with threads of others.
 *
 * Records in epoll_data: in ws another worker may hold an event in its array
 * while the record is freed and used again. A table for each poller: a close
 * would have to lock all of them.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* park.h: syscall() */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "upoll.h"
#include "events.h"
#include "lock.h"
#include "park.h"
#include "ufork.h"
#include "uscope.h"
#include "compiler.h"

#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

UPREEMPT_NEVER;

#if !defined(PAGE)		/* a model has fewer */
#define PAGE		1024	/* entries */
#endif
#define PAGES		16384	/* so numbers up to 2^24 */
#define LOOK_MOST	64	/* events of a look while threads can run */
#define MOST		16000	/* descriptors of a wait: uwait.h has a limit */
#if !defined(POLLRDHUP)
#define POLLRDHUP	0
#endif
#define READ_BITS	(POLLIN | POLLRDNORM | POLLRDBAND | POLLPRI | POLLRDHUP)
#define WRITE_BITS	(POLLOUT | POLLWRNORM | POLLWRBAND)
#define IN_A_ROW	64	/* calls before a thread gives way */
#define ASK		4	/* calls before it asks the clock */
#define GUESTS		2	/* waits elsewhere, before it is armed there */

struct poller {
	struct uwait_source p_source;	/* first */
	struct uevents      p_events;
	int                 p_forks;
	unsigned            p_fetch;	/* fetches of events (atomic) */
	utime_ns            p_again;	/* the second look, or 0: L9 (atomic) */
	struct poller      *p_next;
	struct poller     **p_at;	/* points to this poller */
};

/* Stands in a ring of a descriptor. */
struct node {
	struct node *n_next;
	struct node *n_prev;		/* NULL: in no ring */
	int          n_fd;
	unsigned     n_fetch;		/* p_fetch when the wait began */
	uint16_t     n_index;		/* in r_node */
	uint8_t      n_ring : 1;
	uint8_t      n_urgent : 1;	/* waits for POLLPRI, too */
	uint8_t      n_again : 1;	/* p_again ends it */
	bool         n_is_last;		/* of r_node; the waiter's alone */
};

struct record {
	struct uwait   r_wait;		/* first */
	struct poller *r_poller;
	struct node    r_node[];
};

enum { READERS, WRITERS, RINGS };

struct entry {
	struct ulock   e_lock;
	unsigned       e_urgent;	/* nodes in e_first with n_urgent */
	unsigned       e_closes;	/* calls of u_close() (atomic) */
	unsigned       e_events;	/* so far (atomic) */
	struct node   *e_first[RINGS];
	struct poller *e_armed_at;	/* where it stays armed, or NULL */
	uint64_t       e_generation;	/* of the last arming: L6 */
	unsigned       e_empty;		/* before a read that left nothing (atomic) */
	bool           e_is_last;	/* no more bytes will come (atomic) */
	bool           e_owned;		/* OWNED STREAMS above (atomic) */
	bool           e_unix;		/* of AF_UNIX (atomic) */
	bool           e_armed_to_read;	/* in the last arming */
	unsigned char  e_guests;	/* waits of guests: see stays() */
};

utime_ns upoll_second = UTIME_S;

static struct entry *page[PAGES];	/* each made once (atomic) */
static struct ulock  pollers_lock;
static struct poller *pollers;
static int forks;			/* of this process, or its ancestors */
static __thread unsigned calls;		/* since a thread has waited here */

static int finish(struct uwait *w, int rc);

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

/* Calls f for the entries of all numbers. */
static void each_entry(void (*f)(struct entry *e, const struct poller *p),
		       const struct poller *p)
{
	int i, k;

	for (i = 0; i < PAGES; i++) {
		struct entry *list = __atomic_load_n(&page[i], __ATOMIC_ACQUIRE);

		for (k = 0; list != NULL && k < PAGE; k++)
			f(&list[k], p);
	}
}

static struct record *record_of(const struct node *n)
{
	return (struct record *)(uintptr_t)((const char *)(n - n->n_index) -
					    offsetof(struct record, r_node));
}

static bool is_owned(const struct entry *e)
{
	return __atomic_load_n(&e->e_owned, __ATOMIC_RELAXED);
}

static void set_owned(struct entry *e, bool owned)
{
	__atomic_store_n(&e->e_owned, owned, __ATOMIC_RELAXED);
}

/* Notes that the file of e was closed, by another call than u_close(). */
static void closed_behind(struct entry *e)
{
	if (HARD && is_owned(e))
		usched_fail("close: only u_close() may close what u_accept(), "
			    "u_dial(), userve() or u_trust() were given");
	set_owned(e, false);
}

static void set_last(struct entry *e, bool is_last)
{
	__atomic_store_n(&e->e_is_last, is_last, __ATOMIC_RELAXED);
}

static void armed_at(struct entry *e, struct poller *p)
{
	__atomic_store_n(&e->e_armed_at, p, __ATOMIC_RELAXED);
}

static void put_last(struct entry *e, struct node *n)
{
	struct node **first = &e->e_first[n->n_ring];
	struct node *next = *first;

	e->e_urgent += n->n_urgent;
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

	e->e_urgent -= n->n_urgent;
	if (n->n_next == n)
		*first = NULL;
	else if (*first == n)
		*first = n->n_next;
	n->n_next->n_prev = n->n_prev;
	n->n_prev->n_next = n->n_next;
	n->n_prev = NULL;
}

/*
 * Returns the first node of p in a ring of e, with again the first that looks again;
 * NULL: there is none.
 */
static struct node *first_of(const struct entry *e, int ring,
			     const struct poller *p, bool again)
{
	struct node *first = e->e_first[ring];
	struct node *n = first;

	if (n == NULL)
		return NULL;
	do {
		if ((p == NULL || record_of(n)->r_poller == p) &&
		    (!again || n->n_again))
			return n;
		n = n->n_next;
	} while (n != first);
	return NULL;
}

/* Takes n out of its ring, and if it still waits, puts it, claimed, in front. */
static bool take_claimed(struct entry *e, struct node *n, struct node **claimed)
{
	take_out(e, n);
	if (!uwait_claim(&record_of(n)->r_wait))
		return false;
	n->n_next = *claimed;
	*claimed = n;
	return true;
}

/*
 * Takes the first node of p that still waits out of a ring, its record claimed,
 * and puts it in front of *claimed. False: there is none. p is NULL: of any. Not
 * if its wait began in the fetch or later; NULL: in any.
 */
static bool take_first(struct entry *e, int ring, const struct poller *p,
		       const unsigned *fetch, struct node **claimed)
{
	struct node *n;

	while ((n = first_of(e, ring, p, false)) != NULL) {
		if (fetch != NULL && n->n_fetch == *fetch)
			return false;
		if (take_claimed(e, n, claimed))
			return true;
	}
	return false;
}

static void take_all(struct entry *e, const struct poller *p,
		     struct node **claimed)
{
	while (take_first(e, READERS, p, NULL, claimed) ||
	       take_first(e, WRITERS, p, NULL, claimed))
		;
}

/* Forgets the file of e, and takes all that wait for it. */
static void forget_file(struct entry *e, struct node **claimed)
{
	take_all(e, NULL, claimed);
	set_last(e, false);
	set_owned(e, false);
	armed_at(e, NULL);
}

static void complete(struct node *claimed, int result)
{
	struct node *next;

	for (; claimed != NULL; claimed = next) {
		next = claimed->n_next;
		uwait_complete(&record_of(claimed)->r_wait, result);
	}
}

/* Returns what nodes of p in the rings of e wait for: UREAD, UWRITE. */
static int mask_of(const struct entry *e, const struct poller *p)
{
	return (first_of(e, READERS, p, false) != NULL ? UREAD : 0) |
	       (first_of(e, WRITERS, p, false) != NULL ? UWRITE : 0);
}

/* Pollers. */

/* Arms fd at p for all that wait there: L2. As uevents_arm(). Under e_lock. */
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

/* Under e_lock. */
static void event_counted(struct entry *e)
{
	__atomic_store_n(&e->e_events, e->e_events + 1, __ATOMIC_RELEASE);
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
		event_counted(e);				/* V2 */
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

/* Ends the waits for e at p that look again. */
static void entry_again(struct entry *e, const struct poller *p)
{
	struct node *claimed = NULL;
	struct node *n;

	ulock_get(&e->e_lock);
	while ((n = first_of(e, READERS, p, true)) != NULL)
		(void)take_claimed(e, n, &claimed);
	ulock_put(&e->e_lock);
	complete(claimed, UPOLL_AGAIN);
}

/* Does so for all numbers. */
static NOINLINE void all_again(struct poller *p)
{
	__atomic_store_n(&p->p_again, 0, __ATOMIC_SEQ_CST);		/* L9 */
	each_entry(entry_again, p);
}

/* Returns when p looks again; 0: it need not. */
static utime_ns again_at(const struct poller *p)
{
	return __atomic_load_n(&p->p_again, __ATOMIC_SEQ_CST);		/* L9 */
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

/* Makes a poller for the caller's dispatcher. 0 or -errno. */
static int poller_make(struct poller **out)
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
		rc = poller_make(out);
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
 * Takes out the nodes of other waits, whose file was closed: see above. Those of
 * r from `from` to `to` are for the new file.
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

/* Returns whether the last read of e has left nothing, and no event came since. */
static bool is_empty(const struct entry *e)
{
	return is_owned(e) &&
		!__atomic_load_n(&e->e_is_last, __ATOMIC_RELAXED) &&
		__atomic_load_n(&e->e_empty, __ATOMIC_ACQUIRE) ==
		__atomic_load_n(&e->e_events, __ATOMIC_RELAXED);
}

/*
 * Returns whether fd is armed at p for a wait to read, and an event will come if
 * it becomes ready, so that it need not be armed.
 */
static bool is_armed(const struct entry *e, const struct poller *p, int what)
{
	return what == UREAD && e->e_armed_at == p && e->e_armed_to_read &&
		e->e_urgent == 0 && is_empty(e);		/* V4 */
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

/*
 * Returns the deadline for the timer of a wait at p with n_again: UNEVER if p looks
 * again before until.
 */
static utime_ns until_again(struct poller *p, utime_ns until)
{
	utime_ns at = again_at(p);
	utime_ns none = 0;

	if (at == 0 && utime_is_virtual())
		return until;
	if (at == 0) {
		at = unow() + upoll_second;
		if (!__atomic_compare_exchange_n(&p->p_again, &none, at, false,
				__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			at = none;
	}
	return at <= until ? UNEVER : until;
}

struct upoll_begun upoll_begin(int fd, int what, utime_ns until, int how)
{
	struct upoll_begun b = { NULL, 0, until };
	struct record *r;

	calls = 0;
	r = record_make(what == (UREAD | UWRITE) ? 2 : 1, fd, &b.b_rc);
	if (r == NULL)
		return b;
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

/* Closing, and calls in a row. */

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
	rc = close(fd) == 0 ? 0 : -errno;			/* L4 */
	ulock_put(&e->e_lock);
	complete(claimed, -EBADF);
	return rc;
}

unsigned upoll_closes(int fd)
{
	const struct entry *e = entry_look(fd);

	return e != NULL ? __atomic_load_n(&e->e_closes, __ATOMIC_ACQUIRE) : 0;
}

#if defined(__linux__)
/* Returns an option of a socket, or -1. */
static int option(int fd, int name)
{
	int value = -1;
	socklen_t len = sizeof value;

	return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 ? value : -1;
}

static bool is_unix(int fd)
{
	return option(fd, SO_DOMAIN) == AF_UNIX;
}

/* Returns whether fd is a stream of TCP or, *local, of AF_UNIX. */
static bool is_stream(int fd, bool *local)
{
	*local = option(fd, SO_PROTOCOL) != IPPROTO_TCP;
	return !*local || (is_unix(fd) && option(fd, SO_TYPE) == SOCK_STREAM);
}
#else				/* events may not tell of urgent bytes there */
static bool is_unix(int fd)	{ return (void)fd, true; }
static bool is_stream(int fd, bool *local)
{
	return (void)fd, *local = false;
}
#endif

/* Makes fd owned; local: it is of AF_UNIX. 0, -EBADF, -ENOMEM. */
static int own(int fd, bool local)
{
	int rc = 0;
	struct entry *e = entry_of(fd, &rc);

	if (e == NULL)
		return rc;
	ulock_get(&e->e_lock);
	event_counted(e);	/* the last file's e_empty is none of this */
	__atomic_store_n(&e->e_unix, local, __ATOMIC_RELAXED);
	set_owned(e, true);
	ulock_put(&e->e_lock);
	return 0;
}

int upoll_trust(int fd)
{
	return own(fd, is_unix(fd));
}

void upoll_made(int fd)
{
	struct node *claimed = NULL;
	struct entry *e = entry_look(fd);
	bool local;

	if (e != NULL) {
		ulock_get(&e->e_lock);
		closed_behind(e);		/* if it was owned */
		forget_file(e, &claimed);
		ulock_put(&e->e_lock);
		complete(claimed, -EBADF);
	}
	if (UEVENTS_STAY && !utime_is_virtual() && is_stream(fd, &local))
		(void)own(fd, local);	/* or, without memory, not */
}

void upoll_share(int fd)
{
	struct entry *e = entry_look(fd);

	if (e != NULL && is_owned(e))
		set_owned(e, false);
}

bool upoll_waits_first(int fd, utime_ns until)
{
	const struct entry *e = entry_look(fd);

	return e != NULL && is_empty(e) && until != UNOW &&
		ustack_self() != NULL;
}

struct upoll_read upoll_read_begin(int fd)
{
	struct upoll_read r = { entry_look(fd), 0, false };

	if (r.r_entry == NULL || !is_owned(r.r_entry)) {
		r.r_entry = NULL;
		return r;
	}
	r.r_events = __atomic_load_n(&r.r_entry->e_events,
				     __ATOMIC_ACQUIRE);		/* V1 */
	r.r_unix = __atomic_load_n(&r.r_entry->e_unix, __ATOMIC_RELAXED);
	return r;
}

void upoll_read_empty(struct upoll_read r)
{
	__atomic_store_n(&r.r_entry->e_empty, r.r_events,	/* V3 */
			 __ATOMIC_RELEASE);
}

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
	if (is_canceled(u))
		return -ECANCELED;
	if (++calls % IN_A_ROW != 0 && (calls % ASK != 0 || !is_late(u)))
		return 0;
	(void)uwait_give_way();		/* or, without memory, next time */
	return is_canceled(ustack_self()) ? -ECANCELED : 0;
}
