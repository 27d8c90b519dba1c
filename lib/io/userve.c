/* SPDX-License-Identifier: MIT */
/* userve.c: a thread for each connection, as many as there is room for. */

/*
 * OVERVIEW
 *
 *	scope of the caller	may be cancelled
 *	    outer		the acceptor; is cancelled with it
 *	        sv_scope	a shield: connections, and the caller itself
 *
 * The caller makes the acceptor, and waits until it has stopped. The acceptor
 * is in the outer scope, so a cancellation ends its waits, but not those of the
 * connections. Then the caller winds up: it accepts what the kernel had taken,
 * closes the listener, and waits for the connections, and cancels those that
 * are left.
 *
 * PLACES are units of a semaphore, of the server or of several servers. The
 * acceptor takes a place before it accepts, but keeps no place while it waits
 * for a client: so a client finds each place that is free, whatever listener
 * the kernel has chosen for it. A connection gives its place back after its
 * close. An acceptor that waits for a place is woken by the semaphore, in turn,
 * wherever the connection was that has ended.
 *
 * THE LAST ACCEPTS. A close of a listener resets what the kernel had accepted.
 * So the caller accepts until there is nothing left. These connections have
 * threads at once, but a thread waits for its place before it calls sv_f. So
 * the listener closes without a wait for places, and a server that is full can
 * stop. A handshake that ends between the last accept and the close is reset.
 * No thread runs between the two, but other cpus do: that is some microseconds.
 * u_unlisten() keeps newcomers off before, but it is for all who share the
 * socket, so only the program can know whether it may.
 *
 * V1. The last access to the server by the acceptor or a connection is before
 *     the end of its thread. Both are before the end of userve().
 * V2. The caller waits for the acceptor and by uscope_end() even without
 *     memory, holding the processor. So userve() leaves no thread behind. Other
 *     waits may fail for want of memory: then it winds up, or cancels.
 * V3. A connection that was accepted, and has no thread yet, is sv_next. Only a
 *     drain that finds no memory, though all others have ended, closes it.
 *
 * REJECTED: a scope for each connection, 300 bytes more. A record for each
 * connection as long as it is open: a new thread copies what it needs. A place
 * that the acceptor holds while it waits: with four listeners at a port, three
 * places of the server are held for clients that do not come. Places for each
 * processor: the kernel deals by a hash, and one is full while others are not.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1
#include "userve.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

UPREEMPT_NEVER;

#define PAUSE_LEAST	UTIME_MS
#define PAUSE_MOST	UTIME_S

/* A connection whose thread has not begun. */
struct accepted {
	struct userve *a_server;
	int            a_fd;
	bool           a_placed;	/* else its thread takes a place */
};

static void count(long *what)
{
	__atomic_add_fetch(what, 1, __ATOMIC_RELAXED);
}

/* Allocates on the heap of the caller's dispatcher; NULL. */
static void *alloc(size_t size)
{
	struct usched *s = ustack_self()->u_sched;

	return s->s_alloc(s, (int)size);
}

static void release(void *block, size_t size)
{
	struct usched *s = ustack_self()->u_sched;

	s->s_free(s, block, (int)size);
}

static struct usem *places(struct userve *s)
{
	return s->sv_share != NULL ? s->sv_share : &s->sv_places;
}

/* Runs a connection. */
static int connection(void *arg)
{
	struct accepted a = *(struct accepted *)arg;
	struct userve *s = a.a_server;

	release(arg, sizeof a);
	a.a_placed = a.a_placed || usem_wait(places(s), UNEVER) == 0;
	if (a.a_placed)
		s->sv_f(a.a_fd, s->sv_arg);
	if (!a.a_placed || u_canceled())
		count(&s->sv_cut);
	(void)u_close(a.a_fd);
	if (a.a_placed)
		(void)usem_post(places(s));
	if (__atomic_exchange_n(&s->sv_waits, 0, __ATOMIC_SEQ_CST))
		(void)usem_post(&s->sv_ended);
	ugroup_done(&s->sv_open);				/* V1 */
	return 0;
}

/* Returns whether an error is for want of descriptors or memory. */
static bool lacks(int rc)
{
	return rc == -EMFILE || rc == -ENFILE || rc == -ENOBUFS ||
		rc == -ENOMEM;
}

/* Returns whether an error of accept is that of a single connection. */
static bool of_connection(int rc)
{
	switch (-rc) {
	case ECONNABORTED: case EPROTO: case EPERM: case ENETDOWN:
	case ENETUNREACH: case EHOSTDOWN: case EHOSTUNREACH: case ENOPROTOOPT:
#if defined(ENONET)
	case ENONET:
#endif
		return true;
	}
	return false;
}

/* Waits for the end of a connection, or for a pause, which grows. 0, -errno. */
static int pause_for(struct userve *s)
{
	int rc;

	s->sv_pause = s->sv_pause == 0 ? PAUSE_LEAST :
		s->sv_pause < PAUSE_MOST / 2 ? s->sv_pause * 2 : PAUSE_MOST;
	count(&s->sv_short);
	__atomic_store_n(&s->sv_waits, 1, __ATOMIC_SEQ_CST);
	rc = usem_wait(&s->sv_ended, uafter(s->sv_pause));
	__atomic_store_n(&s->sv_waits, 0, __ATOMIC_SEQ_CST);
	return rc == -ETIMEDOUT ? 0 : rc;
}

/* Makes the thread of a connection. 0, -errno. */
static int launch(struct userve *s, int fd, bool placed)
{
	struct accepted *a = alloc(sizeof *a);
	int rc;

	if (a == NULL)
		return -ENOMEM;
	*a = (struct accepted){ s, fd, placed };
	(void)ugroup_add(&s->sv_open, 1);
	rc = uscope_go_by(s->sv_scope, connection, a, s->sv_make);
	if (rc == 0)
		return 0;
	ugroup_done(&s->sv_open);
	release(a, sizeof *a);
	return rc == -EAGAIN ? -ENOMEM : rc;
}

/* Accepts a connection, and makes its thread. 0; -EAGAIN: none is there. */
static int accept_one(struct userve *s, bool placed)
{
	int rc;

	if (s->sv_next < 0) {
		rc = u_accept(s->sv_fd, NULL, NULL, SOCK_NONBLOCK |
			      SOCK_CLOEXEC, UNOW);
		if (rc < 0)
			return rc;
		count(&s->sv_accepted);
		s->sv_next = rc;
	}
	rc = launch(s, s->sv_next, placed);
	if (rc == 0)
		s->sv_next = -1;
	return rc;
}

/*
 * Takes a place. Waits for it only when a connection may be there. After a lack
 * it waits for a connection in any case: without descriptors, accept fails
 * though none is there. 0, -errno.
 */
static int take_place(struct userve *s)
{
	int rc = s->sv_pause == 0 ? usem_wait(places(s), UNOW) : -EAGAIN;

	if (rc != -EAGAIN)
		return rc;
	rc = s->sv_next < 0 ? u_wait_fd(s->sv_fd, UREAD, UNEVER) : 0;
	return rc == 0 ? usem_wait(places(s), UNEVER) : rc;
}

/* Accepts until that fails for good. Returns why. */
static int accept_all(struct userve *s)
{
	int rc = 0;

	while (rc == 0) {
		rc = take_place(s);
		if (rc == 0 && (rc = accept_one(s, true)) != 0)
			(void)usem_post(places(s));
		if (rc == -EAGAIN)
			rc = u_wait_fd(s->sv_fd, UREAD, UNEVER);
		else if (lacks(rc))
			rc = pause_for(s);
		else if (rc == 0 || of_connection(rc))
			rc = s->sv_pause = 0;
	}
	return rc;
}

static int acceptor(void *arg)
{
	struct userve *s = arg;

	s->sv_result = accept_all(s);
	(void)usem_post(&s->sv_stopped);			/* V1 */
	return 0;
}

/* Returns whether room may come for a connection that waits to be accepted. */
static bool may_come(struct userve *s)
{
	return ugroup_busy(&s->sv_open) != 0 && (s->sv_next >= 0 ||
		u_wait_fd(s->sv_fd, UREAD, UNOW) == 0);
}

/* Accepts what the kernel has taken, also without places. */
static void drain(struct userve *s, utime_ns until)
{
	int rc = 0;

	s->sv_pause = 0;
	while (rc == 0) {
		rc = accept_one(s, false);
		if (of_connection(rc))
			rc = 0;
		else if (lacks(rc) && may_come(s) && unow() < until)
			rc = pause_for(s);
	}
	(void)u_close(s->sv_next);				/* V3 */
}

/*
 * Closes the listener. Waits for the connections until time is up. Then cancels
 * them.
 */
static void wind_up(struct userve *s)
{
	utime_ns until = uafter(s->sv_grace);
	int fd = s->sv_fd;

	drain(s, until);
	__atomic_store_n(&s->sv_fd, -1, __ATOMIC_RELAXED);
	(void)u_close(fd);
	if (ugroup_wait(&s->sv_open, until) != 0)
		uscope_cancel(s->sv_scope);
}

/* Ends a scope. Without memory to block it holds the processor meanwhile. */
static void end(struct uscope *s)
{
	while (uscope_end(&s) == -ENOMEM)
		;
}

/*
 * Serves in sv_scope, which the caller has begun in the scope outer. If that is
 * cancelled already, clients may be in the backlog all the same.
 */
static int serve(struct userve *s, struct uscope *outer)
{
	int rc = uscope_go_by(outer, acceptor, s, s->sv_make);

	if (rc != 0)
		s->sv_result = rc;
	while (rc == 0 && usem_wait(&s->sv_stopped, UNEVER) != 0)	/* V2 */
		;
	if (rc == 0 || rc == -ECANCELED)
		wind_up(s);
	end(s->sv_scope);
	return s->sv_result;
}

/* Returns whether the program has set up a server as it must. */
static bool is_sound(const struct userve *s)
{
	return s->sv_f != NULL && s->sv_grace >= 0 && s->sv_limit >= 0 &&
		s->sv_limit <= USYNC_MOST &&
		(s->sv_share == NULL || s->sv_limit == 0);
}

/*
 * Says that sv_fd is an error of the call that was to make the listener, and
 * returns that. -1: the error is not known, or this server has ended.
 */
static int no_listener(int fd)
{
	int rc = fd != -1 ? fd : -EBADF;

	usched_message("userve: no listener: %s", strerror(-rc));
	return rc;
}

int userve(void *server)
{
	struct userve *s = server;
	struct uscope *outer;
	int rc;

	if (!is_sound(s))
		return -EINVAL;
	uwait_length(s->sv_grace, "userve: sv_grace");
	if (s->sv_fd < 0)
		return no_listener(s->sv_fd);
	s->sv_places  = (struct usem)USEM(s->sv_limit > 0 ? s->sv_limit :
					  USERVE_LIMIT);
	s->sv_ended   = s->sv_stopped = (struct usem)USEM(0);
	s->sv_open    = (struct ugroup){ 0 };
	s->sv_next    = -1;
	s->sv_pause   = s->sv_waits = 0;
	usched_outside((void (*)(void *))(void (*)(void))connection);
	rc = uscope_begin(&outer, UNEVER);
	if (rc != 0)
		return rc;
	rc = uscope_shield(&s->sv_scope, UNEVER);
	if (rc == 0)
		rc = serve(s, outer);
	end(outer);
	return rc;
}
