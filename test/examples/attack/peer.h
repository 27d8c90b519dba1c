/* SPDX-License-Identifier: MIT */
/* peer.h: a client of a web server, which checks each byte that it gets. */

#ifndef PEER_H
#define PEER_H

#include "check.h"
#include "../../../bench/http/http.h"
#include <stdbool.h>

enum {
	PEER_ROOM  = 16384,
	PEER_FILES = 10,	/* /n0 to /n9 */
	PEER_BIG   = 10,	/* /big */
	PEER_NONE  = -1,	/* no file: the body is not looked at */
	PEER_LONG  = 1 << 20	/* bytes of /big */
};

/* How a stream ended, instead of a status. */
enum { PEER_END = 0, PEER_RESET = -1 };

struct peer {
	int    p_fd;
	bool   p_reset;		/* how peer_exchange() ended */
	size_t p_at, p_nr;	/* bytes of p_room that were not looked at yet */
	char   p_room[PEER_ROOM];
};

extern union io_address peer_server;
extern socklen_t peer_server_len;

/* Sets the seed of the good client, and of messages. */
void peer_start(unsigned seed);

long peer_file_size(int file);
void peer_make_files(const char *folder);

/* Writes a request for a file to text. Returns its length. */
size_t peer_request(char *text, int file);

/*
 * Connects; the test fails if the server refuses. room: bytes of the socket's
 * buffers, or 0.
 */
void peer_dial(struct peer *p, int room);
void peer_close(struct peer *p);
void peer_reset(struct peer *p);

/* Sends all bytes. False: the server has ended the connection. */
bool peer_send(struct peer *p, const char *bytes, size_t n);

/*
 * Reads an answer, whose body must be that of the file if the status is 200.
 * Returns the status, PEER_END or PEER_RESET. Part of an answer is an error
 * unless the stream was reset.
 */
int peer_answer(struct peer *p, int file);

/*
 * Sends bytes, then the end of the stream, and meanwhile reads up to the end,
 * which must come. The answers, if there are any, are answers of HTTP. Returns
 * the status of the last, PEER_END or PEER_RESET if there was none. Notes in
 * p_reset whether the server reset the connection.
 */
int peer_exchange(struct peer *p, const char *bytes, size_t n);

/*
 * The good client: a process beside the attack, whose requests must all be
 * answered, in order and with the right bytes. If it stays, its connections are
 * those that it has opened at its start.
 */
void good_start(bool stays);
void good_wait(long requests);	/* until so many more were answered */
long good_stop(void);		/* returns how many were answered */

/* Sends requests on so many connections, and checks all answers. */
void good_load(int connections, long requests, bool stays, long *count,
	       const bool *stop);

#endif /* PEER_H */
