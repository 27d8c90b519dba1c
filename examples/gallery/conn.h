/* SPDX-License-Identifier: MIT */
/* conn.h: a connection of a server of this folder: requests in, answers out. */

#ifndef CONN_H
#define CONN_H

/*
 * A server is a struct program. For each client conn_serve() runs in a thread of
 * its own. It reads, and calls p_answer() for what has come, as long as that
 * takes requests. All threads share a processor, so what a server keeps needs no
 * lock between two waits.
 *
 * What a client can take from the server is bounded. While it says nothing, its
 * thread waits in a small frame, without a buffer. A part of a request lies on
 * the heap, in at most twice its bytes, whatever length it has announced. The
 * rest must come within CONN_TIME. A client that does not read its answers holds
 * a buffer for CONN_TIME at most, and its further requests are not read.
 *
 * The place of a client that has gone is free at once, also while its thread waits
 * for something else: see conn_ended(). A client that has shut its writing side
 * looks the same. It gets its answers, but waits for nothing.
 */

#define _GNU_SOURCE	1
#include <usched/usched.h>
#include <usched/uwait.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
	CONN_IN  = 16384,	/* read at once */
	CONN_OUT = 16384	/* sent at once */
};

#define CONN_TIME	(10 * UTIME_S)

/* What p_answer() returns beside the length of the request that it has taken. */
enum { CONN_MORE = 0, CONN_END = -1 };

struct program;

struct conn {
	const struct program *c_program;
	int      c_fd;
	bool     c_gone;	/* it takes no answers */
	bool     c_lingers;	/* it has made an error, and is to read of it */
	char    *c_in;		/* a part of a request, on the heap; or NULL */
	size_t   c_nr, c_room;	/* bytes of it, and room */
	size_t   c_need;	/* bytes without which it is not complete */
	utime_ns c_until;	/* for a request that has begun; or 0 */
	/* Answers, in the frame of answer(); NULL: there is no buffer. */
	char    *c_out;
	size_t   c_out_nr;
	/* For p_later(); p_answer() sets c_later to have it called. */
	bool     c_later;
	utime_ns c_later_until;
	void    *c_held;	/* the program's */
};

struct program {
	const char *p_name;
	/* Forgets all, and starts; bytes: how much may be kept. 0, or -errno. */
	int   (*p_start)(size_t bytes);
	/*
	 * Takes a request from nr bytes, and puts the answer. Returns its length;
	 * CONN_MORE, maybe with c_need set; CONN_END. Must not wait but in
	 * conn_put().
	 */
	long  (*p_answer)(struct conn *c, const char *at, size_t nr);
	/* Waits, and puts an answer, where there is no buffer; or NULL. */
	void  (*p_later)(struct conn *c);
	/* The client has gone; or NULL. */
	void  (*p_end)(struct conn *c);
};

extern const struct program cache, jobs;

/* Serves a client, and does not close fd. */
void conn_serve(int fd, const struct program *p);

/*
 * Answers. May wait for the client, if the buffer is full: so the bytes must not
 * be freed meanwhile.
 */
void conn_put(struct conn *c, const void *bytes, size_t nr);
void conn_print(struct conn *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * For p_later(): waits until the client sends no more. 0: it has closed its
 * connection, or shut its side; or an error of u_wait_fd(). To end this wait for
 * another reason, begin a scope before it, and cancel the scope.
 */
int conn_ended(struct conn *c, utime_ns until);

#endif /* CONN_H */
