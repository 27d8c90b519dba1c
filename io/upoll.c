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
 * TRUST
 *
 * A server's thread mostly reads all that there is, and waits again. The last
 * read was short, no event has come since, and the descriptor is still armed
 * from the wait before: then the next change is reported, and the wait saves the
 * system call. This trust may be wrong: the descriptor may have been
 * closed by close() and its number used again, or a read was short for another
 * reason. So each wait in trust is noted, and armed after CHECK if it still
 * lasts. But if an event has ended it since then, the wait may be another, and
 * the descriptor is noted again. That costs no system call, so busy connections
 * pay none. Trust that was wrong has cost up to four CHECKs, and nothing else.
 *
 * e_word holds the hint, a bit that tells that the end of the stream was
 * reported, and a count of events. A read notes e_word before, and leaves the
 * hint only if the word has not changed since.
 *
 * INVARIANTS
 *
 * L1. A node is in a ring exactly if n_prev is not NULL. Rings change under
 *     e_lock.
 * L2. After each change of the rings, under the same lock, the descriptor is
 *     armed at each poller for all directions for which nodes of the poller
 *     are in the rings. Or an event for it is on its way. Or the single reader
 *     waits in trust, and the descriptor is noted.
 * L3. While a record has a node in a ring, the lock of that ring keeps the
 *     record: its thread takes its nodes out before it frees it.
 * L4. A close, and all that queued before it, exclude each other by e_lock. So a
 *     node is for the file that has the number when it is armed.
 * L5. A poller lives as long as its scheduler. While a record of it is in a
 *     ring, o_waits keeps the scheduler from its end.
 * L6. A descriptor is in the notes of the poller e_noted. A thread that waits in
 *     trust, waits at this poller: others may have no waits, and so never check.
 *     Notes at other pollers are void. A poller notes a descriptor twice if
 *     another has noted it in between, and then arms it more often than it must.
 * L7. A sleep in a poller ends within CHECK while something is noted. The
 *     sleeper takes the role before it looks at the notes. A thread adds the
 *     first note before it looks at the role, and then wakes the holder.
 *
 * REJECTED
 *
 * Trust without an end: the poller would have to know of each close, or a thread
 * that waits for a number used again would wait without an end. EPOLLONESHOT, so
 * that each event disarms: a system call more for each message, 0.3 us of 3. A
 * CHECK of 10 ms: 8,000 busy connections take longer for a round, so each wait
 * pays the system call, 1 us of 6 with its cache misses. Arming all that were
 * noted, with events since or not: 5 % of the cpu at 8,000 busy connections.
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
#include "uscope.h"

#include <pthread.h>
#include <sys/stat.h>

UPREEMPT_NEVER;

#define PAGE		1024	/* entries */
#define PAGES		16384	/* so numbers up to 2^24 */
#define LOOK_MOST	64	/* events of a look while threads can run */
#define MOST		16000	/* descriptors of a wait: uwait.h has a limit */
#if !defined(POLLRDHUP)
#define POLLRDHUP	0
#endif
#define READ_BITS	(POLLIN | POLLRDNORM | POLLRDBAND | POLLPRI | POLLRDHUP)
#define WRITE_BITS	(POLLOUT | POLLWRNORM | POLLWRBAND)
#define IN_A_ROW	64	/* calls before a thread gives way */
#define CHECK		(100 * UTIME_MS)
#define NOINLINE	__attribute__((noinline))

/* Descriptors for which threads wait in trust. */
struct notes {
	int *o_fd;
	int  o_nr;
	int  o_room;
};

struct poller {
	struct uwait_source p_source;	/* first */
	struct uevents      p_events;
	int                 p_forks;
	unsigned            p_nr;	/* no other poller has it; not 0 */
	struct poller      *p_next;
	struct poller     **p_at;	/* points to this poller */
	struct ulock        p_lock;	/* protects p_notes */
	struct notes        p_notes[2];	/* since p_checked, and before */
	utime_ns            p_checked;	/* belongs to who has the role */
	int                 p_order;	/* atomic */
};

/* Stands in a ring of a descriptor. */
struct node {
	struct node *n_next;
	struct node *n_prev;		/* NULL: in no ring */
	int          n_fd;
	uint16_t     n_index;		/* in r_node */
	uint8_t      n_ring : 1;
	uint8_t      n_urgent : 1;	/* waits for POLLPRI, too */
	bool         n_is_last;		/* of r_node; the waiter's alone */
};

struct record {
	struct uwait   r_wait;		/* first */
	struct poller *r_poller;
	struct node    r_node[];
};

enum { READERS, WRITERS, RINGS };

/* In e_word; events are counted above. */
enum { E_DRAINED = 1, E_LAST = 2, E_STREAM = 4, E_EVENT = 8 };

struct entry {
	struct ulock   e_lock;
	unsigned       e_word;		/* atomic */
	struct node   *e_first[RINGS];
	struct poller *e_armed_at;	/* where it stays armed, or NULL */
	unsigned       e_mask : 7;	/* for what, as uevents_arm() */
	unsigned       e_again : 1;	/* since the note an event ended a wait */
	unsigned       e_urgent : 24;	/* nodes in e_first with n_urgent */
	unsigned       e_noted;		/* p_nr of a poller: L6 */
};

static struct entry *page[PAGES];	/* each made once (atomic) */
static struct ulock  pollers_lock;
static struct poller *pollers;
static unsigned poller_nr;		/* made so far; under pollers_lock */
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

static struct record *record_of(const struct node *n)
{
	return (struct record *)(uintptr_t)((const char *)(n - n->n_index) -
					    offsetof(struct record, r_node));
}

/* Returns e_word, which upoll_set_drained() changes without the lock. */
static unsigned word_of(const struct entry *e)
{
	return __atomic_load_n(&e->e_word, __ATOMIC_ACQUIRE);
}

/* Returns e_word of a new file, of which nothing is known. Under e_lock. */
static unsigned word_of_new(const struct entry *e)
{
	return (word_of(e) + E_EVENT) & -(unsigned)E_EVENT;
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

/* Returns the first node of p in a ring of e; NULL: there is none. */
static struct node *first_of(const struct entry *e, int ring,
			     const struct poller *p)
{
	struct node *first = e->e_first[ring];
	struct node *n = first;

	if (n == NULL)
		return NULL;
	do {
		if (p == NULL || record_of(n)->r_poller == p)
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
		if (!uwait_claim(&record_of(n)->r_wait))
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
		uwait_tell(&record_of(told)->r_wait, result);
	}
}

/* Returns what nodes of p in the rings of e wait for: UREAD, UWRITE. */
static int mask_of(const struct entry *e, const struct poller *p)
{
	return (first_of(e, READERS, p) != NULL ? UREAD : 0) |
	       (first_of(e, WRITERS, p) != NULL ? UWRITE : 0);
}

/* Pollers. */

/* Returns E_STREAM if a short read of fd leaves nothing behind. */
static unsigned stream(int fd)
{
	socklen_t size = sizeof(int);
	struct stat st;
	int type;

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0)
		return type == SOCK_STREAM ? E_STREAM : 0;
	return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) ? E_STREAM : 0;
}

/* Arms fd at p for all that wait there: L2. As uevents_arm(). Under e_lock. */
static int arm(struct poller *p, int fd, struct entry *e)
{
	int mask = mask_of(e, p);
	int rc;

	if (mask == 0)
		return 0;
	if (e->e_armed_at != NULL && e->e_armed_at != p &&
	    mask_of(e, e->e_armed_at) == 0)
		uevents_disarm(&e->e_armed_at->p_events, fd);
	if (mask & UREAD && e->e_urgent > 0)
		mask |= UEVENTS_URGENT;
	rc = uevents_arm(&p->p_events, fd, mask);
	if (rc > 0)
		__atomic_store_n(&e->e_word, word_of_new(e) | stream(fd),
				 __ATOMIC_RELAXED);
	e->e_armed_at = rc >= 0 && UEVENTS_STAY ? p : NULL;
	e->e_mask     = mask;
	return rc;
}

static void event(void *poller, int fd, int mask)
{
	struct poller *p = poller;
	struct entry *e = entry_look(fd);
	struct node *told = NULL;
	struct node *failed = NULL;
	unsigned word;
	int rc;

	ulock_get(&e->e_lock);
	word = (word_of(e) & ~E_DRAINED) + E_EVENT;
	if (mask & UEVENTS_LAST)
		word |= E_LAST;
	__atomic_store_n(&e->e_word, word, __ATOMIC_RELEASE);
	if (mask & UREAD && take_first(e, READERS, p, &told) &&
	    e->e_noted == p->p_nr)
		e->e_again = 1;
	if (mask & UWRITE)
		(void)take_first(e, WRITERS, p, &told);
	rc = mask & UEVENTS_OTHER ? -EBADF : arm(p, fd, e);
	if (rc < 0)
		take_all(e, p, &failed);
	ulock_put(&e->e_lock);
	tell(told, 0);
	tell(failed, rc);
}

/* Notes. */

static int noted(const struct poller *p)
{
	return __atomic_load_n(&p->p_notes[0].o_nr, __ATOMIC_RELAXED) +
	       __atomic_load_n(&p->p_notes[1].o_nr, __ATOMIC_RELAXED);
}

static bool notes_add(struct notes *o, int fd)
{
	if (o->o_nr == o->o_room) {
		int room = o->o_room > 0 ? 2 * o->o_room : 64;
		int *grown = malloc(room * sizeof *grown);

		if (grown == NULL)
			return false;
		if (o->o_nr > 0)
			memcpy(grown, o->o_fd, o->o_nr * sizeof *grown);
		free(o->o_fd);
		o->o_fd   = grown;
		o->o_room = room;
	}
	o->o_fd[o->o_nr] = fd;
	__atomic_store_n(&o->o_nr, o->o_nr + 1, __ATOMIC_RELAXED);
	return true;
}

/*
 * Of two callers, the later sees what the earlier has written before. A fence
 * would do, but ThreadSanitizer knows none.
 */
static void order(struct poller *p)
{
	__atomic_fetch_add(&p->p_order, 1, __ATOMIC_ACQ_REL);
}

/*
 * Notes fd, whose entry is e. False: no memory. In ws another worker may sleep in
 * p without an end, as nothing was noted. Then this wakes it: L7. Under e_lock.
 */
static bool note(struct poller *p, int fd, struct entry *e)
{
	bool first, done;

	ulock_get(&p->p_lock);
	first = noted(p) == 0;
	done  = notes_add(&p->p_notes[0], fd);
	ulock_put(&p->p_lock);
	if (done) {
		e->e_noted = p->p_nr;
		e->e_again = 0;
	}
	if (!first || !done)
		return done;
	order(p);
	if (__atomic_load_n(&p->p_source.o_role, __ATOMIC_RELAXED) != NULL)
		upark_write(p->p_events.v_wake);
	return true;
}

/*
 * Returns whether the only node of e, which waits to read fd at p, may wait in
 * trust, and notes it. Under e_lock.
 */
static bool trust(struct poller *p, int fd, struct entry *e)
{
	const struct node *n = e->e_first[READERS];

	if (!(word_of(e) & E_DRAINED) || e->e_armed_at != p ||
	    e->e_mask != UREAD || n == NULL || n->n_next != n ||
	    e->e_first[WRITERS] != NULL)
		return false;
	return e->e_noted == p->p_nr || note(p, fd, e);
}

/*
 * Arms a descriptor that p has noted, if a thread waits to read it. If an event
 * has ended a wait since, notes it again instead.
 */
static void check_one(struct poller *p, int fd)
{
	struct entry *e = entry_look(fd);
	struct node *failed = NULL;
	const struct node *n;
	int rc = 0;

	ulock_get(&e->e_lock);
	n = e->e_first[READERS];
	if (e->e_noted == p->p_nr &&
	    (n == NULL || !e->e_again || !note(p, fd, e))) {
		e->e_noted = 0;
		if (n != NULL)
			rc = arm(record_of(n)->r_poller, fd, e);
	}
	if (rc < 0)
		take_all(e, NULL, &failed);
	ulock_put(&e->e_lock);
	tell(failed, rc);
}

static utime_ns real_now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * UTIME_S + t.tv_nsec;
}

/* Takes the older notes, which the caller frees. The newer become the older. */
static struct notes notes_take(struct poller *p)
{
	struct notes old;

	ulock_get(&p->p_lock);
	old = p->p_notes[1];
	p->p_notes[1] = p->p_notes[0];
	p->p_notes[0].o_fd   = NULL;
	p->p_notes[0].o_room = 0;
	__atomic_store_n(&p->p_notes[0].o_nr, 0, __ATOMIC_RELAXED);
	ulock_put(&p->p_lock);
	return old;
}

static void check_notes(struct poller *p)
{
	struct notes old = notes_take(p);
	int i;

	for (i = 0; i < old.o_nr; i++)
		check_one(p, old.o_fd[i]);
	free(old.o_fd);
}

/* Checks what was noted more than CHECK ago. Only who has the role. */
static void check(struct poller *p)
{
	utime_ns now;

	if (noted(p) == 0)
		return;
	now = real_now();
	if (now - p->p_checked < CHECK)
		return;
	p->p_checked = now;
	check_notes(p);
}

static void look(struct uwait_source *o)
{
	struct poller *p = (struct poller *)o;

	(void)uevents_wait(&p->p_events, LOOK_MOST, 0, event, p);
	check(p);
}

static void sleep_in(struct uwait_source *o, utime_ns ns)
{
	struct poller *p = (struct poller *)o;

	order(p);						/* L7 */
	if (ns > CHECK && noted(p) != 0)
		ns = CHECK;
	(void)uevents_wait(&p->p_events, UEVENTS_MOST, ns, event, p);
	check(p);
}

/* Forgets where descriptors are armed: another poller may have this address. */
static void disarm_all(const struct poller *p)
{
	int i, k;

	for (i = 0; i < PAGES; i++) {
		struct entry *list = __atomic_load_n(&page[i], __ATOMIC_ACQUIRE);

		for (k = 0; list != NULL && k < PAGE; k++) {
			ulock_get(&list[k].e_lock);
			if (list[k].e_armed_at == p)
				list[k].e_armed_at = NULL;
			ulock_put(&list[k].e_lock);
		}
	}
}

static void poller_free(struct uwait_source *o)
{
	struct poller *p = (struct poller *)o;

	ulock_get(&pollers_lock);
	*p->p_at = p->p_next;
	if (p->p_next != NULL)
		p->p_next->p_at = p->p_at;
	ulock_put(&pollers_lock);
	free(p->p_notes[0].o_fd);
	free(p->p_notes[1].o_fd);
	disarm_all(p);
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
	p->p_nr    = ++poller_nr;
	__atomic_store_n(&uwait_fd_end, finish, __ATOMIC_RELAXED);
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

static void node_init(struct record *r, unsigned i, int fd, int ring)
{
	struct node *n = &r->r_node[i];

	n->n_prev    = NULL;
	n->n_fd      = fd;
	n->n_index   = i;
	n->n_ring    = ring;
	n->n_urgent  = 0;
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

/* Ends a wait: see uwait_fd_end. A single node was taken out by its event. */
static int finish(struct uwait *w, int rc)
{
	struct record *r = (struct record *)w;

	if (rc != 0 || !r->r_node->n_is_last)
		unqueue(r);
	record_free(r);
	return rc;
}

/* Makes a record for up to nr nodes. NULL and *rc. */
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
	node_init(r, 0, -1, READERS);
	uwait_source_begin(&p->p_source);
	return r;
}

/* Frees r, which never waits, and whose nodes are in no ring. */
static void record_drop(struct record *r)
{
	if (uwait_claim(&r->r_wait))
		record_free(r);
	else
		(void)uwait_for(&r->r_wait, UNEVER);	/* it is being told */
}

/*
 * Takes out the nodes of other waits, whose file was closed: see above. Those of
 * r from `from` to `to` are for the new file.
 */
static void take_stale(struct entry *e, struct record *r, unsigned from,
		       unsigned to, struct node **told)
{
	unsigned i;

	for (i = from; i < to; i++)
		take_out(e, &r->r_node[i]);
#if defined(USCHED_HARD)
	if (mask_of(e, r->r_poller) != 0)
		usched_fail("close: threads wait for the descriptor, so only "
			    "u_close() may close it");
#endif
	take_all(e, r->r_poller, told);
	for (i = from; i < to; i++)
		put_last(e, &r->r_node[i]);
}

/*
 * Adds nodes for fd to r, which has `from` of them, and queues them. 0, or
 * -errno: none is queued. 1: the same, since fd is always ready.
 */
static int queue(struct record *r, unsigned from, int fd, int what)
{
	struct node *stale = NULL;
	unsigned to = from;
	struct entry *e;
	unsigned i;
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
	for (i = from; i < to; i++)
		put_last(e, &r->r_node[i]);
	if (what != UREAD || !trust(r->r_poller, fd, e))
		rc = arm(r->r_poller, fd, e);
	if (rc > 0)
		take_stale(e, r, from, to, &stale);
	for (i = from; rc < 0 && i < to; i++)
		take_out(e, &r->r_node[i]);
	ulock_put(&e->e_lock);
	tell(stale, -EBADF);
	return rc == -EPERM ? 1 : rc < 0 ? rc : 0;
}

struct upoll_begun upoll_begin(int fd, int what)
{
	struct upoll_begun b = { NULL, 0 };
	struct record *r;

	calls = 0;
	r = record_new(what == (UREAD | UWRITE) ? 2 : 1,
		       (const void *)(intptr_t)fd, &b.b_rc);
	if (r == NULL)
		return b;
	b.b_rc = queue(r, 0, fd, what);
	if (b.b_rc == 0)
		b.b_wait = &r->r_wait;
	else
		record_drop(r);
	return b;
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

/* An error is told to both. With no other bit, only errors are asked for. */
static int what_of(const struct pollfd *f)
{
	bool out = f->events & WRITE_BITS;

	return (out ? UWRITE : 0) |
	       (!out || f->events & READ_BITS ? UREAD : 0) |
	       (f->events & POLLPRI ? UEVENTS_URGENT : 0);
}

struct upoll_begun upoll_begin_any(const struct pollfd *fds, nfds_t nr)
{
	struct upoll_begun b = { NULL, 1 };
	unsigned nodes = 0;
	struct record *r;
	nfds_t i;
	int what;

	if (nr > MOST)
		return b;			/* u_poll() naps */
	r = record_new(nr > 0 ? 2 * (unsigned)nr : 1, (void *)-1, &b.b_rc);
	if (r == NULL)
		return b;
	for (i = 0; i < nr && b.b_rc == 0; i++) {
		if (fds[i].fd < 0)
			continue;
		what   = what_of(&fds[i]);
		b.b_rc = queue(r, nodes, fds[i].fd, what);
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

/* Hints, closing, and calls in a row. */

unsigned upoll_word(int fd)
{
	const struct entry *e = entry_look(fd);

	return e != NULL ? word_of(e) : 0;
}

bool upoll_drained(int fd)
{
	return upoll_word(fd) & E_DRAINED;
}

/* Native threads, and events by poll(), leave no E_LAST. */
bool upoll_is_last(int fd)
{
	return !UEVENTS_STAY || ustack_self() == NULL ||
		upoll_word(fd) & E_LAST;
}

void upoll_set_drained(int fd, unsigned word)
{
	struct entry *e = entry_look(fd);

	if (e != NULL && (word & (E_STREAM | E_LAST)) == E_STREAM)
		(void)__atomic_compare_exchange_n(&e->e_word, &word,
				word | E_DRAINED, false,
				__ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Forgets what is known of a file. Under e_lock. */
static void forget(struct entry *e)
{
	__atomic_store_n(&e->e_word, word_of_new(e), __ATOMIC_RELAXED);
	e->e_armed_at = NULL;
}

void upoll_new(int fd)
{
	struct entry *e = entry_look(fd);

	if (e == NULL)
		return;
	ulock_get(&e->e_lock);
	forget(e);
	ulock_put(&e->e_lock);
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
	forget(e);
	rc = close(fd) == 0 ? 0 : -errno;			/* L4 */
	ulock_put(&e->e_lock);
	tell(told, -EBADF);
	return rc;
}

/* Threads whose u_f is ustack_shell may be in a scope. */
static bool is_canceled(const struct ustack *u)
{
	return u->u_f == ustack_shell && u_canceled();
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
	if (++calls % IN_A_ROW != 0)
		return 0;
	(void)uwait_give_way();		/* or, without memory, next time */
	return is_canceled(ustack_self()) ? -ECANCELED : 0;
}
