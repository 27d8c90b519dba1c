/* SPDX-License-Identifier: MIT */
/* userve.c: a thread for each connection, as many as there is room for. */

/*
 * OVERVIEW
 *
 *	scope of the caller	may be cancelled
 *	    outer		the acceptor; is cancelled with it
 *	        sv_scope	a shield: connections, and the caller itself
 *
 * The caller makes the acceptor, and waits for the end of sv_scope. The
 * acceptor is in the outer scope, so a cancellation ends its waits, but not
 * those of the connections. It holds sv_scope while it makes threads there.
 *
 * A connection takes a unit of sv_places before it is accepted, and gives it
 * back after its close. So all units are there again when the last has ended.
 *
 * V1. The last access to the server by the acceptor is before it releases
 *     sv_scope; by a connection, before the end of its thread. Both are before
 *     the end of userve().
 * V2. The caller waits by uscope_end() only, which needs no memory but that for
 *     its slice. So userve() leaves no thread behind. The waits of the acceptor
 *     may fail for want of memory: then it winds up.
 *
 * REJECTED: a scope for each connection, 300 bytes more. A record for each
 * connection as long as it is open: a new thread copies what it needs.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1
#include "userve.h"

#include <errno.h>

UPREEMPT_NEVER;

#define PAUSE_LEAST	UTIME_MS
#define PAUSE_MOST	UTIME_S

/* A connection whose thread has not begun. */
struct accepted {
	struct userve *a_server;
	int            a_fd;
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

/* Runs a connection. */
static int connection(void *arg)
{
	struct accepted a = *(struct accepted *)arg;
	struct userve *s = a.a_server;

	release(arg, sizeof a);
	s->sv_f(a.a_fd, s->sv_arg);
	(void)u_close(a.a_fd);
	if (__atomic_exchange_n(&s->sv_waits, 0, __ATOMIC_SEQ_CST))
		(void)usem_post(&s->sv_ended);
	(void)usem_post(&s->sv_places);
	return 0;
}

/* Returns whether an error is for want of descriptors or memory. */
static bool lacks(int rc)
{
	return rc == -EMFILE || rc == -ENFILE || rc == -ENOBUFS ||
		rc == -ENOMEM || rc == -EAGAIN;
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
static int launch(struct userve *s, int fd)
{
	struct accepted *a = alloc(sizeof *a);
	int rc;

	if (a == NULL)
		return -ENOMEM;
	a->a_server = s;
	a->a_fd     = fd;
	rc = uscope_go_by(s->sv_scope, s->sv_make, connection, a);
	if (rc != 0)
		release(a, sizeof *a);
	return rc;
}

/*
 * Accepts a connection, and makes its thread. 0, -errno. After a lack it first
 * waits for a connection: without descriptors, accept fails though none is
 * there.
 */
static int accept_one(struct userve *s)
{
	int rc = s->sv_pause != 0 ? u_wait_fd(s->sv_fd, UREAD, UNEVER) : 0;
	int fd = rc == 0 ? u_accept(s->sv_fd, NULL, NULL, SOCK_NONBLOCK |
				    SOCK_CLOEXEC, UNEVER) : rc;

	if (fd < 0)
		return fd;
	count(&s->sv_accepted);
	while (lacks(rc = launch(s, fd)) && pause_for(s) == 0)
		;
	if (rc != 0)
		(void)u_close(fd);
	return rc;
}

/* Accepts until that fails for good. Returns why. */
static int accept_all(struct userve *s)
{
	int rc = 0;

	while (rc == 0) {
		rc = usem_wait(&s->sv_places, UNEVER);
		if (rc == 0 && (rc = accept_one(s)) != 0)
			(void)usem_post(&s->sv_places);
		if (lacks(rc))
			rc = pause_for(s);
		else if (rc == 0 || of_connection(rc))
			rc = s->sv_pause = 0;
	}
	return rc;
}

/* Waits for the connections, until time is up. Then cancels them. */
static void wind_up(struct userve *s)
{
	utime_ns until = uafter(s->sv_grace);
	struct uscope *shield;
	int left = s->sv_limit;
	int rc = uscope_shield(&shield, UNEVER);

	if (rc == 0) {
		while (left > 0 &&
		       (rc = usem_wait(&s->sv_places, until)) == 0)
			left--;
		(void)uscope_end(&shield);	/* never waits */
	}
	if (rc != 0) {
		s->sv_cut = left;
		uscope_cancel(s->sv_scope);
	}
}

static int acceptor(void *arg)
{
	struct userve *s = arg;

	s->sv_result = accept_all(s);
	wind_up(s);
	uscope_release(s->sv_scope);				/* V1 */
	return 0;
}

/* Ends a scope. Without memory to block it holds the processor meanwhile. */
static void end(struct uscope *s)
{
	while (uscope_end(&s) == -ENOMEM)
		;
}

/* Serves in sv_scope, which the caller has begun in the scope outer. */
static int serve(struct userve *s, struct uscope *outer)
{
	struct uscope *scope = s->sv_scope;
	int rc;

	uscope_hold(scope);
	rc = uscope_go_by(outer, s->sv_make, acceptor, s);
	if (rc != 0)
		uscope_release(scope);
	end(scope);
	return rc != 0 ? rc : s->sv_result;
}

int userve(struct userve *s)
{
	struct uscope *outer;
	int rc;

	if (s->sv_limit == 0)
		s->sv_limit = USERVE_LIMIT;
	if (s->sv_f == NULL || s->sv_grace < 0 || s->sv_limit < 0 ||
	    s->sv_limit > USYNC_MOST)
		return -EINVAL;
	s->sv_places = (struct usem)USEM(s->sv_limit);
	s->sv_ended  = (struct usem)USEM(0);
	s->sv_pause  = s->sv_waits = 0;
	rc = uscope_begin(&outer, UNEVER);
	if (rc != 0)
		return rc;
	rc = uscope_shield(&s->sv_scope, UNEVER);
	if (rc == 0)
		rc = serve(s, outer);
	end(outer);
	return rc;
}
