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
 *
 * or as the first thread of a program, or as a thread of a scope:
 *
 *	return usched_main(userve, &server);
 *	rc = uscope_go(s, userve, &server);
 *
 * or until a signal comes, with the result 0 (usignal.h):
 *
 *	rc = usignal_until(SIGTERM, userve, &server);
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
 * SHARED PLACES. Several servers, such as those of the processors, share places
 * if sv_share of each points to the same semaphore, which has a unit for each
 * connection at a time:
 *
 *	static struct usem places = USEM(1000);
 *
 *	server[i].sv_share = &places;
 *
 * A server takes a unit only when a connection is there. So as long as a place
 * is free, each client finds it, at whichever listener. A unit comes back after
 * the close of its connection, and goes to the server that has waited longest.
 * The semaphore is the program's, and lives until all these servers have ended.
 *
 * THE END. The server stops when the scope around the caller of userve() is
 * cancelled (uscope.h), or when accept fails for good, as after shutdown() by
 * another thread.
 *
 * 1. It accepts what the kernel had taken for it: all in the backlog, also if
 *    its places are full. Such a connection waits for a place before sv_f is
 *    called, so it has a descriptor beyond the limit. Without descriptors or
 *    memory, the server goes on while connections of its own end, in sv_grace.
 * 2. It closes sv_fd, and sets it to -1. Clients that come now are refused. A
 *    listener that other processes have, too, stays open for these.
 * 3. It waits for the connections until sv_grace has passed since the stop. It
 *    cancels those that are left: each wait in them returns -ECANCELED, and
 *    those that still wait for a place are closed.
 * 4. When all functions have returned, userve() returns.
 *
 * The kernel resets a connection whose handshake ends between the last accept
 * and the close, which are some microseconds; and over a network, those that
 * are half open by then. To lose none of these, call u_unlisten() (unet.h) a
 * moment before the stop, or hand the listener over: doc/servers.md.
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
	/*
	 * Listens. The server closes it, and sets it to -1 (atomic). From the
	 * call of userve() on no other thread closes it. It may be the error of
	 * u_listen_tcp(), which userve() then reports.
	 */
	int          sv_fd;
	/*
	 * Called for each connection, in a thread of its own. fd is
	 * non-blocking and is closed by exec. f does not close it: the server
	 * does, after f has returned.
	 */
	void       (*sv_f)(int fd, void *arg);
	void        *sv_arg;
	int          sv_limit;	/* connections at a time; 0: USERVE_LIMIT */
	struct usem *sv_share;	/* in place of sv_limit, or NULL: see above */
	utime_ns     sv_grace;	/* a length: 5 * UTIME_S; UNEVER: cancels none */
	uscope_make *sv_make;	/* makes the threads: see uscope_go_by() */

	/* For any thread to read (atomic). */
	long         sv_accepted;
	long         sv_short;	/* how often descriptors or memory lacked */
	long         sv_cut;	/* connections that were cancelled at the end */

	/* The library's. */
	struct uscope *sv_scope;
	struct usem    sv_places; /* unless they are shared */
	struct usem    sv_ended;
	struct usem    sv_stopped;
	struct ugroup  sv_open;
	int            sv_waits; /* for the end of a connection (atomic) */
	int            sv_next;	/* accepted, without a thread; or -1 */
	int            sv_result;
	utime_ns       sv_pause; /* the last, if descriptors or memory lack */
};

/*
 * Accepts clients, and runs a thread for each, until it is told to stop. server
 * is a struct userve; the type is that of functions of threads. Threads only; a
 * thread for each server. Returns why it has ended:
 * -ECANCELED, or an error of u_accept() such as -EINVAL (shutdown), -ENOTSOCK; then
 * sv_fd is -1. Or it has not begun, and sv_fd is as it was: -EINVAL: sv_limit or
 * sv_grace is negative, sv_f is NULL, sv_limit and sv_share are both set, or
 * the caller is no thread; -ENOSYS: the dispatcher has no s_make; after a
 * message, sv_fd itself if it is an error, and -EBADF if it is -1. -ENOMEM:
 * there was no memory even for the wait for memory.
 */
int userve(void *server);

#ifdef __cplusplus
}
#endif

#endif /* USERVE_H */
