/* SPDX-License-Identifier: MIT */
/* client.h: the question to the client, and how it measures. */

#ifndef CLIENT_H
#define CLIENT_H

#include "../io.h"

enum {
	CLIENT_PATIENCE = 20,		/* seconds, of a measurement */
	CLIENT_SETTLE   = 500 * 1000	/* us, before memory is looked at */
};

/* The question, and the count of errors. */
struct client {
	union io_address k_at;
	socklen_t        k_len;
	long             k_pid;		/* the server */
	int              k_connections;
	long             k_messages;
	long             k_rate;	/* a second, or 0 */
	int64_t          k_start;	/* of what is measured */
	bool             k_sleeps;	/* between messages that are due */
	long             k_errors;
};

extern struct client client;

/* Returns when a message is due, by io_now(). */
int64_t due(long message);

/* Returns the time since then, in ns; or the most that fits. */
uint32_t since(int64_t then);

/* Raises the limit of descriptors as far as it goes. Returns the limit. */
long raise_files(void);

/* Returns the processor time of the server, in ns. */
int64_t cpu_of(void);

/* Returns the time of which a share of n ns is at most as long; sorts ns. */
double rank_us(uint32_t *ns, long n, double share);

/* The server's memory and the kernel's, before and after; and the answer. */
void memory_start(void), memory_end(void), memory_say(void);

#endif /* CLIENT_H */
