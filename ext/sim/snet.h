/* SPDX-License-Identifier: MIT */
/* snet.h: sockets between hosts, as the parts of snet.c share them. Private. */

#ifndef SNET_H
#define SNET_H

#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW		65536
#define DATAGRAM_ROOM	212992	/* bytes that a socket holds */
#define FAR		(WINDOW / 4)	/* so few bytes are far from full */

struct address {
	uint32_t       a_ip;	/* as a number */
	unsigned short a_port;	/* 0: none */
};

enum segment_kind { SYN, SYNACK, DATA, ROOM, FIN, RST, ACK };

struct flow {
	struct connection *g_connection;
	int                g_from;	/* which end sends: 0 or 1 */
	struct segment    *g_first, *g_last;
	bool               g_armed;	/* has an event */
	size_t             g_bytes;	/* sflow N2 */
	size_t             g_read;	/* bytes that were read, and no ROOM says so */
	int                g_tries;
	utime_ns           g_since;	/* of the first try */
};

struct connection {
	struct end     *c_end[2];
	struct sim_boot *c_boot[2];
	struct sim_host *c_host[2];
	struct address  c_at[2];
	struct flow     c_flow[2];	/* flow i: from end i */
	struct sim_fault *c_forgotten;	/* a box between has done so, or NULL */
	utime_ns        c_since;	/* end 0 connects */
};

enum state { FRESH, LISTENING, CONNECTING, CONNECTED, CLOSED };

/* A socket. */
struct end {
	struct sim_file    k_file;	/* first */
	int                k_type;	/* SOCK_STREAM or SOCK_DGRAM */
	enum state         k_state;
	struct address     k_local, k_peer;
	int                k_error;	/* SO_ERROR */
	bool               k_no_read, k_no_write;	/* shutdown() */
	bool               k_fin;	/* the peer has sent all */
	bool               k_fin_sent;
	bool               k_acks;	/* is to send ACK */
	bool               k_untold;	/* connect() has not told its end */
	bool               k_unusable;	/* it was shut down while k_untold */
	bool               k_bound;	/* holds its port */
	bool               k_by_bind;	/* holds the port that bind() named */
	bool               k_reuse;	/* SO_REUSEADDR */
	bool               k_keep, k_no_delay;	/* options without effect */
	struct linger      k_linger;	/* on for 0 s: close() resets */
	bool               k_no_new;	/* u_unlisten() */
	utime_ns           k_give_up;	/* TCP_USER_TIMEOUT, or 0 */
	bool               k_full;	/* was asked for room, and had none */
	struct connection *k_connection;
	int                k_side;
	struct sim_bytes   k_in;
	/* A listener: its queue, and the next in that. */
	struct end        *k_queue, *k_next;
	int                k_queued, k_backlog;
	/* Datagrams. */
	struct datagram   *k_first, *k_last;
	size_t             k_held;
};

struct datagram {
	struct datagram *j_next;
	struct address   j_from, j_to;
	struct sim_host *j_sender, *j_receiver;
	utime_ns         j_sent;
	uint32_t         j_state;	/* of the sender: smark.c */
	size_t           j_size;
	char             j_data[];
};

/* snet.c: addresses, ports, names, options. */

extern const struct sim_socket_ops sim_inet_ops;

uint32_t         sim_ip_of(const struct sim_host *h);
struct sim_host *sim_host_at(struct sim_host *h, uint32_t ip);
int              sim_address_get(const struct sockaddr *a, socklen_t n,
				 struct address *to);
void             sim_address_put(struct address from, struct sockaddr *a,
				 socklen_t *n);
struct end      *sim_bound_at(struct sim_boot *b, int type, struct address at);
bool             sim_is_taken(struct sim_boot *b, const struct end *but,
			      struct address at);
int              sim_bind_to(struct end *k, struct address at);
int              sim_bind_for(struct end *k, struct address at,
			      const struct sim_host *to);
struct end      *sim_end_make(struct sim_boot *b, int type, int flags);

/* sflow.c: connections, and segments on their way. */

void             sim_segment_put(struct connection *c, int from,
				 enum segment_kind kind, const void *data,
				 size_t size);
void             sim_end_fail(struct end *k, int error);
void             sim_end_part(struct end *k);
void             sim_send_fin(struct end *k);
bool             sim_has_room(const struct end *k);
void             sim_send_room(struct connection *c, int side);
void             sim_has_read(struct end *k, size_t size);
void             sim_acknowledge(struct end *k);

/* stcp.c: calls of streams. */

extern const struct sim_file_ops sim_tcp_ops;

int              sim_tcp_listen(struct sim_file *f, int backlog);
int              sim_tcp_accept(struct sim_file *f, struct sim_file **out, int flags,
				struct sockaddr *a, socklen_t *n);
int              sim_tcp_connect(struct end *k, struct address at,
				 struct sim_host *to);
int              sim_tcp_connected(struct sim_file *f);
ssize_t          sim_tcp_read(struct sim_file *f, void *buf, size_t size, int flags);
ssize_t          sim_tcp_write(struct sim_file *f, const void *buf, size_t size);
void             sim_tcp_listen_end(struct end *l);
utime_ns         sim_tcp_linger(struct sim_file *f);

/* sudp.c: datagrams. */

extern const struct sim_file_ops sim_udp_ops;

ssize_t          sim_udp_send(struct sim_file *f, const void *buf, size_t size,
			      const struct sockaddr *a, socklen_t n);
ssize_t          sim_udp_receive(struct sim_file *f, void *buf, size_t size, int flags,
				 struct sockaddr *a, socklen_t *n);

#endif /* SNET_H */
