/* SPDX-License-Identifier: MIT */
/* uchan.h: channels, and a choice between several of them. */

#ifndef UCHAN_H
#define UCHAN_H

/*
 * A channel passes values of a fixed size from senders to receivers, first in
 * first out. It has room for some values. Senders wait while it is full, and
 * receivers while it is empty. If there is room for none, each send waits until
 * a receiver takes the value.
 *
 * SHORTEST USE
 *
 *	struct uchan *c = uchan_make(sizeof(int), 16);
 *
 *	int v = 42;			int v;
 *	uchan_send(c, &v, UNEVER);	while (uchan_recv(c, &v, UNEVER) == 0)
 *	uchan_close(c);				printf("%d\n", v);
 *
 * RESULTS
 *
 *	0		sent, received, closed; or the number of a case
 *	-EPIPE		the channel is closed; for receivers: and empty
 *	-EAGAIN		the deadline was UNOW, and the caller would have to wait
 *	-ETIMEDOUT	the deadline has passed
 *	-ECANCELED	a scope around the caller was cancelled (uscope.h)
 *	-ENOMEM		no memory for the wait
 *	-EINVAL		the deadline is negative, a channel or an array is NULL,
 *			the channel was closed before, too many cases
 *	-ENOSYS		the caller's dispatcher has no s_wait and s_wake
 *
 * A value is sent exactly if the result says so. After an error the value is
 * still the caller's; no receiver gets it. Neither does an error drop a value
 * that was to be received. A call that need not wait does not look for a
 * deadline or a cancellation.
 *
 * WHO MAY CALL WHAT
 *
 * Threads of any dispatcher that has s_wait and s_wake (uwait.h), and native
 * threads; not signal handlers, nor call-backs of a dispatcher. Sender and
 * receiver may have different dispatchers.
 *
 * CAVEATS
 *
 * Values are copied twice if the caller waits. Send pointers instead of large
 * values; then memory that one thread sends to another must not lie on the
 * stack of a thread: uchan_send() reports a value that is an address of the
 * sender's stack (core/law.h). The caller's value does lie there, if it likes.
 *
 * uchan_close() is seen by all threads that wait, in both directions. This is
 * the broadcast. To send a value to several receivers, give each a channel.
 */

#include "uwait.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The kinds of the waits for them. */
extern struct uwait_kind UWAIT_SEND[1];
extern struct uwait_kind UWAIT_RECV[1];
extern struct uwait_kind UWAIT_SELECT[1];

struct uchan;

#define UCHAN_SIZE_MOST	65535	/* bytes of a value */

/*
 * Makes a channel for values of size bytes. size may be 0: the values then only
 * count, and may be NULL everywhere. NULL and errno: ENOMEM; EINVAL: size is
 * negative or above UCHAN_SIZE_MOST. Any thread.
 */
USCHED_MUST struct uchan *uchan_make(int size, unsigned room);

/*
 * As uchan_make(), for threads of a single processor. No call uses an atomic
 * instruction unless it waits, or ends a wait. Only make and free may be called
 * elsewhere. The hard mode (uhard.h) detects other calls.
 */
struct uchan *uchan_make_local(int size, unsigned room);

/*
 * Sends *v: waits until there is room, or a receiver. 0 or an error, above. The
 * channel is not touched after a receiver has got the value.
 */
int uchan_send(struct uchan *c, const void *v, utime_ns until);

/*
 * Receives a value into *v, or drops it if v is NULL. 0 or an error, above;
 * then *v is as it was.
 */
int uchan_recv(struct uchan *c, void *v, utime_ns until);

/*
 * Closes c. Senders that wait get -EPIPE, as do all later senders. Receivers
 * get the values that were sent, then -EPIPE. -EINVAL: c was closed before, or
 * is NULL. Needs no memory.
 */
int uchan_close(struct uchan *c);

/*
 * Frees c, closed or not, and drops the values in it. No thread may be about to
 * use c. A wait that was ended by a value, by uchan_close(), or by a deadline
 * is no use any more, even if its call has not returned. Fails the contract if
 * a thread waits for c. NULL is permitted. Any thread.
 */
void uchan_free(struct uchan *c);

/* Returns how many values are in the ring of c: soon outdated. Any thread. */
unsigned uchan_count(const struct uchan *c);

/* An operation that uselect() may choose. */
struct ucase {
	struct uchan *cs_chan;	/* NULL: the case is off, and never chosen */
	void         *cs_value;	/* as v of uchan_recv() and uchan_send() */
	unsigned char cs_send;	/* send or receive */
	/* Set for the case that was chosen: 0 or -EPIPE. */
	int           cs_result;
	unsigned      cs_order;	/* the library's */
	unsigned      cs_lock;	/* the library's */
};

#define UCASE_RECV(c, v)	{ .cs_chan = (c), .cs_value = (v) }
#define UCASE_SEND(c, v)						\
	{ .cs_chan = (c), .cs_value = (void *)(v), .cs_send = 1 }

/*
 * Does exactly one of nr operations: waits until the first is possible, and
 * returns its number, from 0. cs_result of this case is 0, or -EPIPE if its
 * channel is closed; nothing was sent or received then, and a caller that goes
 * on turns the case off. If several are possible, each is chosen with the same
 * probability. A channel may be in several cases. With UNOW, -EAGAIN: at some
 * moment of the call no case was possible.
 *
 * The array may lie on the caller's stack. If nr is 0, or all cases are off,
 * the call waits for the deadline. Errors as above. About 20,000 cases wait; if
 * they are more, or send more than 512 KiB together: -EINVAL.
 */
int uselect(struct ucase *cases, int nr, utime_ns until);

/* As uselect(), but of several possible cases chooses the first. */
int uselect_ordered(struct ucase *cases, int nr, utime_ns until);

#ifdef __cplusplus
}
#endif

#endif /* UCHAN_H */
