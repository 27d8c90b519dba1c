/* SPDX-License-Identifier: MIT */
/* owned.h: streams that only the library closes. A part of upoll.c. */

#ifndef UOWNED_H
#define UOWNED_H

/*
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
 * INVARIANTS
 *
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
 * in a pipe make reads short: bytes that were there were late. A timer for each second
 * look: 100 ns and more a wait, and it keeps the scheduler from its end.
 *
 * Owned streams that are not edge-triggered, so that no read need leave nothing. A
 * stream that is ready, and has no waiter, ends each sleep, so it must be disarmed, and
 * armed again: with 1,000 connections on two workers of ws 0.4 to 0.6 epoll_ctl a
 * message, where edges need 0.05 to 0.2.
 */

#include "table.h"

#include <netinet/in.h>
#include <sys/socket.h>

utime_ns upoll_second = UTIME_S;

/* What is known of a stream. */

/* Notes that the file of e was closed, by another call than u_close(). */
static void closed_behind(struct entry *e)
{
	if (HARD && is_owned(e))
		usched_fail("close: only u_close() may close what u_accept(), "
			    "u_dial(), userve() or u_trust() were given");
	set_owned(e, false);
}

/* Under e_lock. */
static void event_counted(struct entry *e)
{
	__atomic_store_n(&e->e_events, e->e_events + 1, __ATOMIC_RELEASE);
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

/* The second look. */

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

/* Streams that become owned, or are owned no more. */

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

/* Reads. */

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

#endif /* UOWNED_H */
