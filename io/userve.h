/* SPDX-License-Identifier: MIT */
/* userve.h: a thread for each connection, as many as there is room for. */

#ifndef USERVE_H
#define USERVE_H

/*
 *	static void echo(int fd, void *arg);
 *
 *	static struct userve server = { .sv_f = echo, .sv_limit = 10000 };
 *
 *	server.sv_fd = u_listen_tcp(NULL, 7000, 0, 0);
 *	rc = userve(&server);		until the scope is cancelled
 *	u_close(server.sv_fd);
 *
 * BACK-PRESSURE. While sv_limit connections are open, no more are accepted.
 * Others wait in the backlog of the listener, and then their clients wait. So
 * they do if the system has no descriptors or no memory left (EMFILE, ENFILE,
 * ENOBUFS, ENOMEM). Then the server tries again when a connection has ended,
 * and after a pause, which grows from a millisecond to a second.
 *
 * PROCESSORS. sv_make says where threads run. If it is NULL, rr deals them to
 * its processors in turn, ll keeps them on that of the acceptor, and workers of
 * ws take them from each other. For a listener at each processor, make a server
 * for each by UNET_REUSEPORT (unet.h), with an sv_make that stays there: in rr,
 * rr_make_here(). Such processors send each other no messages, and need not be
 * pinned: see rr_pinning().
 *
 * THE END. userve() returns when the scope around its caller is cancelled
 * (uscope.h), or when accept fails for good: u_close(sv_fd) or shutdown() by
 * another thread. First it accepts no more. Then it waits for the connections
 * for sv_grace. It cancels those that are left: each wait in them returns
 * -ECANCELED. Then it waits for the end of their functions.
 */

#include "uio.h"
#include "uscope.h"
#include "usync.h"

#ifdef __cplusplus
extern "C" {
#endif

#define USERVE_LIMIT	100000

/*
 * A server. It must not lie on the stack of a thread. All that is not set is 0.
 * The program does not change it while userve() runs.
 */
struct userve {
	int          sv_fd;	/* listens; the program closes it, afterwards */
	/*
	 * Called for each connection, in a thread of its own. fd is
	 * non-blocking and is closed by exec. f does not close it: the server
	 * does, after f has returned.
	 */
	void       (*sv_f)(int fd, void *arg);
	void        *sv_arg;
	int          sv_limit;	/* connections at a time; 0: USERVE_LIMIT */
	utime_ns     sv_grace;	/* a length; UNEVER: cancels none */
	uscope_make *sv_make;	/* makes the threads: see uscope_go_by() */

	/* For any thread to read (atomic). */
	long         sv_accepted;
	long         sv_short;	/* how often descriptors or memory lacked */
	long         sv_cut;	/* connections that were cancelled at the end */

	/* The library's. */
	struct uscope *sv_scope;
	struct usem    sv_places;
	struct usem    sv_ended;
	int            sv_waits; /* for the end of a connection (atomic) */
	int            sv_result;
	utime_ns       sv_pause; /* the last, if descriptors or memory lack */
};

/*
 * Serves. Threads only; a thread for each server. Returns why it has ended:
 * -ECANCELED, or an error of u_accept() such as -EBADF, -EINVAL, -ENOTSOCK. Or
 * it has not begun: -EINVAL: sv_limit or sv_grace is negative, sv_f is NULL, or
 * the caller is no thread; -ENOSYS: the dispatcher has no s_make. -ENOMEM:
 * there was no memory even for the wait for memory.
 */
int userve(struct userve *s);

#ifdef __cplusplus
}
#endif

#endif /* USERVE_H */
