/* SPDX-License-Identifier: MIT */
/* snet.c: sockets: streams and datagrams between hosts. */

/*
 * STREAMS
 *
 * A connection has two ends, which are sockets, and a flow in each direction.
 * A flow is a line of segments. Only its head has an event, at which it arrives
 * or is tried again, so bytes stay in order. Between flows there is no order.
 *
 *	end 0 --- flow 0: SYN, DATA, DATA, FIN ---> end 1
 *	end 0 <-- flow 1: SYNACK, ROOM, DATA ------ end 1
 *
 * A segment arrives if its link is not cut and its host is up. Otherwise it is
 * tried again after 200 ms, then ever later, up to 10 s. When this has lasted
 * for 60 s (SYN) or 120 s or TCP_USER_TIMEOUT, the end that sends has ETIMEDOUT. So
 * a cut delays, as it does with TCP.
 *
 *	SYN	a listener there makes the other end and answers SYNACK; a full
 *		queue says nothing; no listener: RST
 *	SYNACK	the end is connected
 *	DATA	bytes for the receiver. An end that was closed answers RST
 *	ROOM	bytes that the receiver has read, so the sender may send more.
 *		While the window is far from full they wait for the next DATA or
 *		FIN of their direction, as acknowledgements do
 *	FIN	the end of the bytes
 *	RST	ECONNREFUSED, ECONNRESET or EPIPE
 *
 *	ACK	FIN has come, and half of the window is free, for an end whose
 *		close() waits for that: SO_LINGER
 *
 * A close with bytes unread, or with SO_LINGER and 0 seconds, sends RST instead of
 * FIN. A crash sends nothing. A host that has booted again answers RST to segments of
 * its life before.
 *
 * A write is one segment; now and then it is two that arrive one after the
 * other, so programs meet reads that return a part.
 *
 * DATAGRAMS
 *
 * Each copy of a datagram has an event of its own, so they overtake each other.
 * A cut or a host that is down loses them, and so does a full socket. Where no
 * socket is bound, a connected sender has ECONNREFUSED at its next call.
 *
 * INVARIANTS
 *
 * N1. c_end[i] is NULL when that end was closed or crashed. Segments of an end
 *     that was closed go on; those of an end that crashed do not.
 * N2. g_bytes counts the bytes that were written and not read, as far as the sender
 *     knows: WINDOW at most. g_read of them were read, and the sender does not know.
 * N3. A flow with segments has one event, and a connection is freed when both
 *     ends are NULL and no flow has an event.
 * N4. While end 0 connects, a SYN or its answer is on its way: so connect() ends. An
 *     answer that is lost with its end lets SYN be sent again, up to 60 s after the
 *     first.
 *
 * Left out: congestion, sizes of packets, urgent data, keep-alive, IPv6. Unix
 * sockets are in sunix.c. Results and bits of poll() follow Linux, by test/ext/sim.
 */

#define _GNU_SOURCE		/* POLLRDHUP, accept4(), pipe2() */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW		65536
#define FAR		(WINDOW / 4)	/* so few bytes are far from full */
#define AGAIN_FIRST	(200 * UTIME_MS)
#define AGAIN_MOST	(10 * UTIME_S)
#define GIVE_UP_SYN	(60 * UTIME_S)
#define GIVE_UP		(120 * UTIME_S)
#define DATAGRAM_MOST	65507
#define DATAGRAM_ROOM	212992	/* bytes that a socket holds */
#define LOOPBACK	0x7f000001u

struct address {
	uint32_t       a_ip;	/* as a number */
	unsigned short a_port;	/* 0: none */
};

enum segment_kind { SYN, SYNACK, DATA, ROOM, FIN, RST, ACK };

static const char *const kind_names[] = {
	"SYN", "SYNACK", "DATA", "ROOM", "FIN", "RST", "ACK"
};

struct segment {
	struct segment   *s_next;
	enum segment_kind s_kind;
	utime_ns          s_sent, s_at;	/* s_at: earliest arrival */
	size_t            s_size;
	size_t            s_room;	/* for the other flow */
	char              s_data[];
};

struct flow {
	struct connection *g_connection;
	int                g_from;	/* which end sends: 0 or 1 */
	struct segment    *g_first, *g_last;
	bool               g_armed;	/* has an event */
	size_t             g_bytes;	/* N2 */
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
	bool               k_unusable;	/* shut down before that */
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
	size_t           j_size;
	char             j_data[];
};

static const struct sim_file_ops stream_ops, datagram_ops;

static bool is_inet(const struct sim_file *f)
{
	return f->f_ops == &stream_ops || f->f_ops == &datagram_ops;
}

/* Addresses. */

static uint32_t ip_of(const struct sim_host *h)
{
	return SIM_NETWORK + (uint32_t)h->h_number;
}

/* Returns the host with this address, as h sees it; NULL: there is none. */
static struct sim_host *host_at(struct sim_host *h, uint32_t ip)
{
	if (ip >> 24 == LOOPBACK >> 24 || ip == INADDR_ANY)
		return h;
	ip -= SIM_NETWORK;
	return ip >= 1 && ip <= (uint32_t)sim_host_nr ? &sim_hosts[ip] : NULL;
}

static int address_get(const struct sockaddr *a, socklen_t n, struct address *to)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)a;

	if (a == NULL || n < (socklen_t)sizeof *in)
		return -EINVAL;
	if (a->sa_family != AF_INET)
		return -EAFNOSUPPORT;
	to->a_ip   = ntohl(in->sin_addr.s_addr);
	to->a_port = ntohs(in->sin_port);
	return 0;
}

static void address_put(struct address from, struct sockaddr *a, socklen_t *n)
{
	struct sockaddr_in in = { .sin_family = AF_INET };

	if (a == NULL || n == NULL)
		return;
	in.sin_addr.s_addr = htonl(from.a_ip);
	in.sin_port = htons(from.a_port);
	memcpy(a, &in, *n < sizeof in ? *n : sizeof in);
	*n = sizeof in;
}

/* Returns the socket of b that is bound here; a listener, if it is a stream. */
static struct end *bound_at(struct sim_boot *b, int type, struct address at)
{
	int fd;

	for (fd = 0; b != NULL && fd < SIM_FDS; fd++) {
		struct end *k = (struct end *)b->b_fds[fd];

		if (k != NULL && is_inet(&k->k_file) && k->k_type == type &&
		    k->k_local.a_port == at.a_port &&
		    (type == SOCK_DGRAM || k->k_state == LISTENING) &&
		    (k->k_local.a_ip == at.a_ip || k->k_local.a_ip == INADDR_ANY))
			return k;
	}
	return NULL;
}

/* Returns whether another socket has an address, so this must not have it. */
static bool is_taken(struct sim_boot *b, const struct end *but, struct address at)
{
	int fd;

	for (fd = 0; fd < SIM_FDS; fd++) {
		const struct end *k = (const struct end *)b->b_fds[fd];

		if (k != NULL && k != but && is_inet(&k->k_file) &&
		    k->k_bound && k->k_type == but->k_type &&
		    k->k_local.a_port == at.a_port &&
		    !(k->k_reuse && but->k_reuse && k->k_state != LISTENING) &&
		    (k->k_local.a_ip == at.a_ip ||
		     k->k_local.a_ip == INADDR_ANY || at.a_ip == INADDR_ANY))
			return true;
	}
	return false;
}

static int bind_to(struct end *k, struct address at)
{
	struct sim_boot *b = k->k_file.f_boot;
	int tries;

	if (at.a_port != 0 && is_taken(b, k, at))
		return -EADDRINUSE;
	for (tries = 0; at.a_port == 0; tries++) {
		if (tries == 28000)
			return -EADDRINUSE;
		at.a_port = b->b_host->h_port++;
		if (b->b_host->h_port == 61000)
			b->b_host->h_port = 32768;
		if (is_taken(b, k, at))
			at.a_port = 0;
	}
	k->k_local = at;
	k->k_bound = true;
	return 0;
}

/* Flows. */

static void arrive(void *flow);

static void arm(struct flow *g, utime_ns at)
{
	g->g_armed = true;
	sim_at(at > sim_now() ? at : sim_now(), arrive, g);
}

static void put(struct connection *c, int from, enum segment_kind kind,
		const void *data, size_t size)
{
	struct flow *g = &c->c_flow[from];
	struct segment *s = sim_block(sizeof *s + size);

	s->s_next = NULL;
	s->s_kind = kind;
	s->s_size = size;
	s->s_room = 0;
	if (kind == DATA || kind == FIN || kind == ROOM) {
		s->s_room = c->c_flow[!from].g_read;
		c->c_flow[!from].g_read = 0;
	}
	s->s_sent = sim_now();
	s->s_at   = sim_arrival(c->c_host[from], c->c_host[!from], size);
	if (kind == DATA) {
		memcpy(s->s_data, data, size);
		if (c->c_host[0] != c->c_host[1])
			sim_sent(c->c_host[from]);
	}
	if (g->g_first == NULL)
		g->g_first = s;
	else
		g->g_last->s_next = s;
	g->g_last = s;
	if (!g->g_armed) {
		g->g_tries = 0;
		arm(g, s->s_at);
	}
}

static void segment_free(struct segment *s)
{
	sim_block_free(s, sizeof *s + s->s_size);
}

static void drop(struct flow *g)
{
	struct segment *s;

	while ((s = g->g_first) != NULL) {
		g->g_first = s->s_next;
		segment_free(s);
	}
}

static void connection_free(struct connection *c)
{
	if (c->c_end[0] != NULL || c->c_end[1] != NULL ||	/* N3 */
	    c->c_flow[0].g_armed || c->c_flow[1].g_armed)
		return;
	drop(&c->c_flow[0]);
	drop(&c->c_flow[1]);
	free(c);
}

/* A port that the kernel has chosen is free when the connection is over. */
static void close_end(struct end *k)
{
	k->k_state = CLOSED;
	k->k_bound = k->k_by_bind;
}

static void fail(struct end *k, int error)
{
	close_end(k);
	k->k_error  = error;
	k->k_no_read = k->k_no_write = true;
	k->k_file.f_lingers = false;
	sim_changed(&k->k_file, POLLIN | POLLOUT);
}

/* Closes a connection whose ends have both sent all. */
static void close_both(struct end *k)
{
	if (k->k_fin && k->k_fin_sent)
		close_end(k);
}

/* Forgets the connection, whose flows may still have events. */
static void part(struct end *k)
{
	struct connection *c = k->k_connection;

	k->k_connection = NULL;
	if (c == NULL)
		return;
	c->c_end[k->k_side] = NULL;
	connection_free(c);
}

/* Returns whether end 0 waits for the answer to its SYN. */
static bool is_connecting(const struct connection *c)
{
	return c->c_end[0] != NULL && c->c_end[0]->k_state == CONNECTING;
}

/*
 * What was on its way from end 1 is lost, with that end. If this was the answer to a
 * SYN, that is sent again, and may make another end.
 */
static void answer_lost(struct connection *c)
{
	if (!is_connecting(c))						/* N4 */
		return;
	if (c->c_end[1] != NULL)
		part(c->c_end[1]);
	c->c_boot[1] = NULL;
	c->c_forgotten = NULL;
	put(c, 0, SYN, NULL, 0);
	c->c_flow[0].g_last->s_at += AGAIN_FIRST;
}

static void hit_reset(struct end *k)
{
	struct connection *c = k->k_connection;

	drop(&c->c_flow[k->k_side]);
	fail(k, k->k_state == CONNECTING ? ECONNREFUSED :
	     k->k_fin ? EPIPE : ECONNRESET);
	answer_lost(c);
}

static void send_fin(struct end *k)
{
	if (k->k_fin_sent)
		return;
	k->k_fin_sent = true;
	put(k->k_connection, k->k_side, FIN, NULL, 0);
	close_both(k);
}

static struct end *end_make(struct sim_boot *b, int type, int flags)
{
	struct end *k = sim_file_make(b, type == SOCK_STREAM ? &stream_ops :
				      &datagram_ops, sizeof *k, flags | O_RDWR);

	k->k_type = type;
	return k;
}

/* Returns whether a SYN was taken: false, if the queue is full. */
static bool hit_syn(struct connection *c)
{
	struct sim_boot *b = c->c_host[1]->h_boot;	/* or NULL */
	struct end *l = bound_at(b, SOCK_STREAM, c->c_at[1]), *k, **at;

	if (c->c_end[0] == NULL)
		return true;		/* closed meanwhile: no answer */
	if (l == NULL) {
		put(c, 1, RST, NULL, 0);
		return true;
	}
	if (l->k_queued > l->k_backlog || l->k_no_new)
		return false;
	k = end_make(b, SOCK_STREAM, 0);
	k->k_state = CONNECTED;
	k->k_local = c->c_at[1];
	k->k_bound = true;
	k->k_reuse = l->k_reuse;
	k->k_linger = l->k_linger;
	k->k_peer  = c->c_at[0];
	k->k_connection = c;
	k->k_side = 1;
	c->c_end[1]  = k;
	c->c_boot[1] = b;
	for (at = &l->k_queue; *at != NULL; at = &(*at)->k_next)
		;
	*at = k;
	l->k_queued++;
	sim_changed(&l->k_file, POLLIN);
	put(c, 1, SYNACK, NULL, 0);
	k->k_no_read = l->k_no_read;	/* shut down before it listened */
	k->k_no_write = l->k_no_write;
	if (k->k_no_write)
		send_fin(k);
	return true;
}

/* Returns whether poll() says POLLOUT: a third of the window is free. */
static bool has_room(const struct end *k)
{
	return k->k_connection->c_flow[k->k_side].g_bytes <= WINDOW * 2 / 3;
}

/* Sends a ROOM for what the end at side has read, if there is some. */
static void send_room(struct connection *c, int side)
{
	if (c->c_flow[!side].g_read > 0 && c->c_end[side] != NULL)
		put(c, side, ROOM, NULL, 0);
}

/* The end k has read size bytes. */
static void has_read(struct end *k, size_t size)
{
	struct connection *c = k->k_connection;
	struct flow *g = &c->c_flow[!k->k_side];

	g->g_read += size;
	if (g->g_bytes > FAR || (c->c_end[!k->k_side] != NULL &&
				 c->c_end[!k->k_side]->k_full))
		send_room(c, k->k_side);
}

/* Gives room for what the other end has read. An edge comes to who has asked. */
static void take_room(struct end *k, size_t size)
{
	k->k_connection->c_flow[k->k_side].g_bytes -= size;
	if (!k->k_full || !has_room(k))
		return;
	k->k_full = false;
	sim_changed(&k->k_file, POLLOUT);
}

/* A segment has come to the end k. */
static void hit_end(struct end *k, const struct segment *s)
{
	struct connection *c = k->k_connection;

	if (s->s_room > 0)
		take_room(k, s->s_room);
	switch (s->s_kind) {
	case SYNACK:
		k->k_state = CONNECTED;
		break;
	case DATA:
		if (k->k_no_read && k->k_fin_sent) {	/* shut down both ways */
			hit_reset(k);
			put(c, k->k_side, RST, NULL, 0);
			return;
		}
		sim_bytes_put(&k->k_in, s->s_data, s->s_size);
		break;
	case ROOM:
		return;
	case ACK:
		k->k_file.f_lingers = false;
		break;
	case FIN:
		k->k_fin = true;
		close_both(k);
		break;
	default:
		if (k->k_state != CLOSED)
			hit_reset(k);
		return;
	}
	sim_changed(&k->k_file, s->s_kind == DATA ? POLLIN : POLLIN | POLLOUT);
}

/* Returns whether a host has crashed since it was this end. */
static bool has_crashed(const struct connection *c, int side)
{
	return c->c_boot[side] != NULL && c->c_boot[side]->b_crashed;
}

/* Returns whether an end that is no more answers a segment by RST. */
static bool is_answered(const struct connection *c, int to, enum segment_kind kind)
{
	if (kind == RST || kind == SYN)
		return false;
	return kind == DATA || kind == SYNACK || has_crashed(c, to);
}

/* The box between has forgotten the connection. Only the sender hears of that. */
static bool hit_forgotten(struct connection *c, int from)
{
	struct end *k = c->c_end[from];

	c->c_forgotten->f_hits++;
	if (k != NULL && k->k_state != CLOSED)
		hit_reset(k);
	else
		drop(&c->c_flow[from]);
	return true;
}

/* A close() waits for what is beyond the half of a window that the receiver holds. */
static void acknowledge(struct end *k)
{
	if (!k->k_acks || k->k_in.y_size > WINDOW / 2)
		return;
	k->k_acks = false;
	put(k->k_connection, k->k_side, ACK, NULL, 0);
}

/* FIN has come to an end. */
static void hit_fin(struct connection *c, int to)
{
	struct end *k = c->c_end[to], *sender = c->c_end[!to];

	if (sender == NULL || !sender->k_file.f_lingers)
		return;
	if (k == NULL) {
		put(c, to, ACK, NULL, 0);
	} else {
		k->k_acks = true;
		acknowledge(k);
	}
}

/* Returns whether the segment was taken. */
static bool hit(struct connection *c, int to, const struct segment *s)
{
	struct end *k = c->c_end[to];

	if (c->c_forgotten != NULL)
		return hit_forgotten(c, !to);
	if (s->s_kind == SYN)
		return hit_syn(c);
	if (k != NULL)
		hit_end(k, s);
	else if (is_answered(c, to, s->s_kind))
		put(c, to, RST, NULL, 0);
	if (s->s_kind == FIN)
		hit_fin(c, to);
	return true;
}

/* The head of g could not arrive. */
static void again(struct flow *g)
{
	struct connection *c = g->g_connection;
	struct end *k = c->c_end[g->g_from];
	utime_ns pause = AGAIN_FIRST << (g->g_tries < 6 ? g->g_tries : 6);
	bool is_syn = g->g_first->s_kind == SYN, connecting = is_connecting(c);
	utime_ns most = connecting ? GIVE_UP_SYN :
		k != NULL && k->k_give_up > 0 ? k->k_give_up : GIVE_UP;

	if (k == NULL && (is_syn || has_crashed(c, g->g_from))) {	/* N1 */
		drop(g);
		answer_lost(c);
		return;
	}
	if (g->g_tries++ == 0)
		g->g_since = sim_now();
	if (sim_now() - (connecting ? c->c_since : g->g_since) >= most) {
		drop(g);
		if (k != NULL)
			fail(k, ETIMEDOUT);
		if (connecting && k != c->c_end[0])
			fail(c->c_end[0], ETIMEDOUT);
		return;
	}
	arm(g, sim_now() + (pause < AGAIN_MOST ? pause : AGAIN_MOST));
}

static bool reaches(const struct connection *c, int from)
{
	return !c->c_host[!from]->h_is_down &&
		!sim_is_cut(c->c_host[from], c->c_host[!from]);
}

/* The head of a flow is due. */
static void arrive(void *flow)
{
	struct flow *g = flow;
	struct connection *c = g->g_connection;
	struct segment *s = g->g_first;

	g->g_armed = false;
	if (s != NULL && s->s_at > sim_now()) {
		arm(g, s->s_at);	/* what was before it was dropped */
	} else if (s != NULL && (!reaches(c, g->g_from) || !hit(c, !g->g_from, s))) {
		again(g);
	} else if (s != NULL && g->g_first == s) {
		sim_hash((uint64_t)s->s_kind << 32 | s->s_size);
		if (sim_is_page && s->s_kind != ROOM)
			sim_page_message(c->c_host[g->g_from],
					 c->c_host[!g->g_from], s->s_sent,
					 kind_names[s->s_kind], s->s_size);
		g->g_first = s->s_next;
		g->g_tries = 0;
		segment_free(s);
		if (g->g_first != NULL && !g->g_armed)
			arm(g, g->g_first->s_at);
	}
	connection_free(c);
}

/* Calls of streams. */

struct sim_file *sim_socket(struct sim_boot *b, int type, int flags)
{
	return &end_make(b, type, flags)->k_file;
}

static int inet_bind(struct sim_file *f, const struct sockaddr *a, socklen_t n)
{
	struct end *k = (struct end *)f;
	struct sim_host *h = f->f_boot->b_host;
	struct address at;
	int rc = address_get(a, n, &at);

	if (rc != 0)
		return rc;
	if (host_at(h, at.a_ip) != h)
		return -EADDRNOTAVAIL;
	if (k->k_bound || (k->k_state != FRESH && k->k_state != CLOSED))
		return -EINVAL;
	rc = bind_to(k, at);
	k->k_by_bind = rc == 0 && at.a_port != 0;
	if (rc != 0)
		k->k_local.a_ip = INADDR_ANY;
	return rc;
}

static int inet_listen(struct sim_file *f, int backlog)
{
	struct end *k = (struct end *)f;
	int rc = 0;

	if (k->k_type != SOCK_STREAM)
		return -EOPNOTSUPP;
	if ((k->k_state != FRESH && k->k_state != LISTENING) || k->k_unusable)
		return -EINVAL;
	if (!k->k_bound)
		rc = bind_to(k, (struct address) { INADDR_ANY, 0 });
	else if (k->k_state == FRESH && is_taken(k->k_file.f_boot, k, k->k_local))
		rc = -EADDRINUSE;
	if (rc != 0)
		return rc;
	k->k_state = LISTENING;
	k->k_backlog = backlog < 0 ? 4096 : backlog;
	return 0;
}

static int inet_accept(struct sim_file *f, struct sim_file **out, int flags,
	       struct sockaddr *a, socklen_t *n)
{
	struct end *l = (struct end *)f, *k = l->k_queue;

	if (l->k_type != SOCK_STREAM)
		return -EOPNOTSUPP;
	if (l->k_state != LISTENING)
		return -EINVAL;
	if (k == NULL)
		return -EAGAIN;
	l->k_queue = k->k_next;
	l->k_queued--;
	k->k_file.f_flags |= flags;
	address_put(k->k_peer, a, n);
	*out = &k->k_file;
	return 0;
}

/* Lets a socket whose connection has ended connect again. */
static void renew(struct end *k)
{
	part(k);
	sim_bytes_free(&k->k_in);
	k->k_state = FRESH;
	k->k_bound = k->k_by_bind;
	k->k_no_read = k->k_no_write = k->k_fin = k->k_fin_sent = false;
	if (!k->k_by_bind)
		k->k_local.a_ip = INADDR_ANY;
	sim_changed(&k->k_file, POLLIN | POLLOUT);
}

/* Tells how a connect() has ended: 0, an error, or -EINPROGRESS. */
static int inet_connected(struct sim_file *f)
{
	struct end *k = (struct end *)f;
	int rc;

	if (k->k_state == CONNECTING)
		return -EINPROGRESS;
	k->k_untold = false;
	if (k->k_state == CONNECTED)
		return 0;
	rc = sim_take_error(&k->k_error);
	renew(k);
	return rc != 0 ? rc : -ECONNABORTED;
}

/* Gives k the address from which it reaches another, if it has none. */
static int bind_for(struct end *k, struct address at, const struct sim_host *to)
{
	struct sim_host *h = k->k_file.f_boot->b_host;
	uint32_t ip = to == h ? at.a_ip : ip_of(h);

	if (!k->k_bound)
		return bind_to(k, (struct address) { ip, 0 });
	if (k->k_local.a_ip == INADDR_ANY)
		k->k_local.a_ip = ip;
	return 0;
}

static int connect_stream(struct end *k, struct address at, struct sim_host *to)
{
	struct sim_boot *b = k->k_file.f_boot;
	struct connection *c;
	int rc, i;

	rc = bind_for(k, at, to);
	if (rc != 0)
		return rc;
	part(k);
	c = sim_alloc(sizeof *c);
	for (i = 0; i < 2; i++) {
		c->c_flow[i].g_connection = c;
		c->c_flow[i].g_from = i;
	}
	c->c_end[0]  = k;
	c->c_boot[0] = b;
	c->c_host[0] = b->b_host;
	c->c_host[1] = to;
	c->c_at[0] = k->k_local;
	c->c_at[1] = k->k_peer = at;
	c->c_since = sim_now();
	k->k_connection = c;
	k->k_side = 0;
	k->k_state = CONNECTING;
	k->k_untold = true;
	put(c, 0, SYN, NULL, 0);
	return -EINPROGRESS;
}

static int inet_connect(struct sim_file *f, const struct sockaddr *a, socklen_t n)
{
	struct end *k = (struct end *)f;
	struct address at;
	struct sim_host *to;
	int rc = address_get(a, n, &at);

	if (rc != 0)
		return rc;
	if (k->k_state == CONNECTING)
		return -EALREADY;
	if (k->k_unusable)
		return -EINVAL;
	if (k->k_untold)
		return inet_connected(f);
	if (k->k_type == SOCK_STREAM && k->k_state != FRESH)
		return -EISCONN;
	to = host_at(f->f_boot->b_host, at.a_ip);
	if (to == NULL)
		return -ENETUNREACH;
	if (at.a_ip == INADDR_ANY)
		at.a_ip = LOOPBACK;
	if (k->k_type == SOCK_STREAM)
		return connect_stream(k, at, to);
	rc = bind_for(k, at, to);
	if (rc == 0)
		k->k_peer = at;
	return rc;
}

static ssize_t stream_read(struct sim_file *f, void *buf, size_t size, int flags)
{
	struct end *k = (struct end *)f;
	ssize_t nr;

	if (k->k_state == LISTENING)
		return -ENOTCONN;
	nr = (ssize_t)sim_bytes_get(&k->k_in, flags & MSG_TRUNC ? NULL : buf, size,
				    flags & MSG_PEEK);
	if (nr > 0 && !(flags & MSG_PEEK) && k->k_state == CONNECTED && !k->k_fin)
		has_read(k, (size_t)nr);
	acknowledge(k);
	if (nr > 0)
		return nr;
	if (k->k_fin)
		return 0;
	if (k->k_error != 0)
		return sim_take_error(&k->k_error);
	if (k->k_no_read)
		return 0;
	if (k->k_state == FRESH || k->k_state == CLOSED)
		return -ENOTCONN;
	return size == 0 ? 0 : -EAGAIN;
}

static ssize_t stream_write(struct sim_file *f, const void *buf, size_t size)
{
	struct end *k = (struct end *)f;
	struct flow *g;
	size_t room, first;

	if (k->k_state == CONNECTED)
		sim_step(f->f_boot->b_host, AT_SEND);
	if (k->k_state == CONNECTING)
		return -EAGAIN;
	if (k->k_error != 0)
		return sim_take_error(&k->k_error);
	if (k->k_state != CONNECTED || k->k_no_write)
		return -EPIPE;
	g = &k->k_connection->c_flow[k->k_side];
	room = WINDOW - g->g_bytes;
	if (size == 0)
		return 0;
	k->k_full |= room < size;
	if (room == 0)
		return -EAGAIN;
	size = size < room ? size : room;
	g->g_bytes += size;
	if (g->g_bytes > FAR)
		send_room(k->k_connection, !k->k_side);
	first = sim_below(DRAW_NET, 8) == 0 ?
		1 + sim_below(DRAW_NET, (unsigned)size) : size;
	put(k->k_connection, k->k_side, DATA, buf, first);
	if (first < size)
		put(k->k_connection, k->k_side, DATA, (const char *)buf + first,
		    size - first);
	sim_step(f->f_boot->b_host, AT_SEND);
	return (ssize_t)size;
}

static int stream_poll(struct sim_file *f)
{
	struct end *k = (struct end *)f;
	bool no_read = k->k_no_read || k->k_fin;
	int bits = 0;

	if (k->k_state == LISTENING)
		return k->k_queue != NULL ? POLLIN | POLLRDNORM : 0;
	if (k->k_state == FRESH || k->k_state == CLOSED ||
	    (no_read && k->k_no_write))
		bits |= POLLHUP;
	if (no_read)
		bits |= POLLIN | POLLRDNORM | POLLRDHUP;
	if (k->k_error != 0)
		bits |= POLLERR;
	if (k->k_state == CONNECTING)
		return bits;
	if (k->k_in.y_size > 0)
		bits |= POLLIN | POLLRDNORM;
	if (k->k_state != CONNECTED || k->k_no_write || has_room(k))
		return bits | POLLOUT | POLLWRNORM;
	k->k_full = true;
	return bits;
}

static void stream_free(struct end *k)
{
	part(k);
	sim_bytes_free(&k->k_in);
	free(k);
}

/* Makes a listener a fresh socket. Its queue is reset. */
static void listen_end(struct end *l)
{
	struct end *k;

	while ((k = l->k_queue) != NULL) {
		l->k_queue = k->k_next;
		if (k->k_connection != NULL)
			put(k->k_connection, 1, RST, NULL, 0);
		stream_free(k);
	}
	l->k_queued = 0;
	renew(l);
}

static int inet_shutdown(struct sim_file *f, int how)
{
	struct end *k = (struct end *)f;
	bool connected;

	if (how < SHUT_RD || how > SHUT_RDWR)
		return -EINVAL;
	if (k->k_state == LISTENING) {
		if (how != SHUT_WR)
			listen_end(k);
		return 0;
	}
	if (k->k_state == CONNECTING) {
		part(k);
		fail(k, ECONNRESET);
		k->k_unusable = true;
		return 0;
	}
	k->k_unusable |= k->k_untold && k->k_state == CLOSED;
	k->k_untold = false;
	connected = k->k_type == SOCK_DGRAM ? k->k_peer.a_port != 0 :
		k->k_state == CONNECTED;
	if (k->k_state == CONNECTED && how != SHUT_RD)
		send_fin(k);
	k->k_no_read  |= how != SHUT_WR;
	k->k_no_write |= how != SHUT_RD;
	sim_changed(f, POLLIN | POLLOUT);
	return connected ? 0 : -ENOTCONN;
}

static void stream_close(struct sim_file *f)
{
	struct end *k = (struct end *)f;

	if (k->k_state == LISTENING)
		listen_end(k);
	if (k->k_state == CONNECTED && (k->k_in.y_size > 0 ||
	    (k->k_linger.l_onoff && k->k_linger.l_linger == 0)))
		put(k->k_connection, k->k_side, RST, NULL, 0);
	else if (k->k_state == CONNECTED)
		send_fin(k);
	stream_free(k);
}

/* Sends all that there is, and FIN. A close with bytes unread does not wait. */
static utime_ns inet_linger(struct sim_file *f)
{
	struct end *k = (struct end *)f;

	if (!k->k_linger.l_onoff || k->k_linger.l_linger <= 0 ||
	    (k->k_state != CONNECTED && !k->k_fin_sent) || k->k_in.y_size > 0)
		return 0;
	send_fin(k);
	k->k_no_read = k->k_no_write = true;
	f->f_lingers = k->k_connection->c_flow[k->k_side].g_first != NULL;
	return k->k_linger.l_linger * UTIME_S;
}

static void stream_crash(struct sim_file *f)
{
	struct end *k = (struct end *)f, *queued;

	while ((queued = k->k_queue) != NULL) {
		k->k_queue = queued->k_next;
		stream_free(queued);
	}
	stream_free(k);
}

/* Both ends of a connection hear a RST: a box between them has forgotten it. */
static int reset(struct end *k)
{
	struct connection *c = k->k_connection;
	struct end *other = c->c_end[!k->k_side];

	hit_reset(k);
	if (other != NULL && other->k_state == CONNECTED)
		hit_reset(other);
	return 1;
}

int sim_reset_all(struct sim_host *h)
{
	struct sim_boot *b = h->h_boot;
	int fd, nr = 0;

	for (fd = 0; b != NULL && fd < SIM_FDS; fd++) {
		struct end *k = (struct end *)b->b_fds[fd];

		if (k != NULL && k->k_file.f_ops == &stream_ops &&
		    k->k_state == CONNECTED)
			nr += reset(k);
	}
	return nr;
}

/* Returns the end that a descriptor of b is, if it is connected to another host. */
static struct end *outward(struct sim_boot *b, int fd)
{
	struct end *k = b == NULL ? NULL : (struct end *)b->b_fds[fd];

	return k != NULL && k->k_file.f_ops == &stream_ops &&
		k->k_state == CONNECTED &&
		k->k_connection->c_host[0] != k->k_connection->c_host[1] ? k : NULL;
}

/* Both ends go on to believe in their connections. */
void sim_forget_all(struct sim_host *h, struct sim_fault *f)
{
	struct end *k;
	int fd;

	for (fd = 0; fd < SIM_FDS; fd++) {
		k = outward(h->h_boot, fd);
		if (k != NULL)
			k->k_connection->c_forgotten = f;
	}
}

/* Tells all ends of connections that were forgotten. */
void sim_forget_end(void *unused)
{
	struct end *k;
	int i, fd;

	(void)unused;
	for (i = 1; i <= sim_host_nr; i++)
		for (fd = 0; fd < SIM_FDS; fd++) {
			k = outward(sim_hosts[i].h_boot, fd);
			if (k != NULL && k->k_connection->c_forgotten != NULL)
				hit_reset(k);
		}
}

/* Datagrams. */

static void datagram_refused(void *datagram)
{
	struct datagram *j = datagram;
	struct end *k = bound_at(j->j_sender->h_boot, SOCK_DGRAM, j->j_from);

	if (k != NULL && k->k_peer.a_port == j->j_to.a_port &&
	    k->k_peer.a_ip == j->j_to.a_ip) {
		k->k_error = ECONNREFUSED;
		sim_changed(&k->k_file, POLLIN | POLLOUT);
	}
	free(j);
}

/* A connected socket takes only what its peer has sent. */
static bool is_for(const struct end *k, const struct datagram *j)
{
	return k->k_peer.a_port == 0 || (k->k_peer.a_port == j->j_from.a_port &&
					 k->k_peer.a_ip == j->j_from.a_ip);
}

static void datagram_arrive(void *datagram)
{
	struct datagram *j = datagram;
	struct sim_host *to = j->j_receiver;
	struct end *k;

	if (to->h_is_down || sim_is_cut(j->j_sender, to)) {
		free(j);
		return;
	}
	sim_hash_bytes(j->j_data, j->j_size);
	if (sim_is_page)
		sim_page_message(j->j_sender, to, j->j_sent, "datagram",
				 j->j_size);
	k = bound_at(to->h_boot, SOCK_DGRAM, j->j_to);
	if (k == NULL || !is_for(k, j)) {
		sim_at(sim_arrival(to, j->j_sender, 0), datagram_refused, j);
		return;
	}
	if (k->k_held + j->j_size > DATAGRAM_ROOM) {
		free(j);
		return;
	}
	if (k->k_first == NULL)
		k->k_first = j;
	else
		k->k_last->j_next = j;
	k->k_last = j;
	k->k_held += j->j_size;
	sim_changed(&k->k_file, POLLIN);
}

static void datagram_send(struct end *k, struct address to, struct sim_host *h,
			  const void *buf, size_t size)
{
	struct sim_host *from = k->k_file.f_boot->b_host;
	utime_ns late = 0;
	int copies;

	sim_step(from, AT_SEND);
	copies = sim_copies(from, h, &late);
	while (copies-- > 0) {
		struct datagram *j = sim_alloc(sizeof *j + size);

		j->j_from = k->k_local;
		if (j->j_from.a_ip == INADDR_ANY)
			j->j_from.a_ip = h == from ? to.a_ip : ip_of(from);
		j->j_to = to;
		j->j_sender = from;
		j->j_receiver = h;
		j->j_sent = sim_now();
		j->j_size = size;
		if (size > 0)
			memcpy(j->j_data, buf, size);
		sim_at(sim_arrival(from, h, size) + late, datagram_arrive, j);
	}
	if (from != h)
		sim_sent(from);
	sim_step(from, AT_SEND);
}

static ssize_t inet_send(struct sim_file *f, const void *buf, size_t size,
		    const struct sockaddr *a, socklen_t n)
{
	struct end *k = (struct end *)f;
	struct address at = k->k_peer;
	struct sim_host *to;
	int rc = 0;

	if (k->k_type == SOCK_STREAM)
		return stream_write(f, buf, size);
	if (a != NULL)
		rc = address_get(a, n, &at);
	if (rc != 0)
		return rc;
	if (at.a_port == 0)
		return a == NULL ? -EDESTADDRREQ : -EINVAL;
	if (size > DATAGRAM_MOST)
		return -EMSGSIZE;
	if (k->k_no_write)
		return -EPIPE;
	if (k->k_error != 0)
		return sim_take_error(&k->k_error);
	to = host_at(f->f_boot->b_host, at.a_ip);
	if (to == NULL)
		return -ENETUNREACH;
	if (at.a_ip == INADDR_ANY)
		at.a_ip = LOOPBACK;
	if (!k->k_bound)
		rc = bind_to(k, (struct address) { INADDR_ANY, 0 });
	if (rc != 0)
		return rc;
	datagram_send(k, at, to, buf, size);
	return (ssize_t)size;
}

static ssize_t inet_receive(struct sim_file *f, void *buf, size_t size, int flags,
			 struct sockaddr *a, socklen_t *n)
{
	struct end *k = (struct end *)f;
	struct datagram *j = k->k_first;
	ssize_t nr;

	if (k->k_type == SOCK_STREAM)
		return stream_read(f, buf, size, flags);
	if (k->k_error != 0)
		return sim_take_error(&k->k_error);
	if (j == NULL)
		return k->k_no_read ? 0 : -EAGAIN;
	nr = (ssize_t)(size < j->j_size ? size : j->j_size);
	if (nr > 0)
		memcpy(buf, j->j_data, (size_t)nr);
	if (flags & MSG_TRUNC)
		nr = (ssize_t)j->j_size;
	address_put(j->j_from, a, n);
	if (flags & MSG_PEEK)
		return nr;
	k->k_first = j->j_next;
	k->k_held -= j->j_size;
	free(j);
	return nr;
}

static ssize_t datagram_read(struct sim_file *f, void *buf, size_t size, int flags)
{
	return inet_receive(f, buf, size, flags, NULL, NULL);
}

static ssize_t datagram_write(struct sim_file *f, const void *buf, size_t size)
{
	return inet_send(f, buf, size, NULL, 0);
}

static int datagram_poll(struct sim_file *f)
{
	struct end *k = (struct end *)f;

	return POLLOUT | POLLWRNORM |
		(k->k_first != NULL ? POLLIN | POLLRDNORM : 0) |
		(k->k_error != 0 ? POLLERR : 0) |
		(k->k_no_read ? POLLIN | POLLRDNORM | POLLRDHUP : 0) |
		(k->k_no_read && k->k_no_write ? POLLHUP : 0);
}

static void datagram_close(struct sim_file *f)
{
	struct end *k = (struct end *)f;
	struct datagram *j;

	while ((j = k->k_first) != NULL) {
		k->k_first = j->j_next;
		free(j);
	}
	free(k);
}

/* Names and options. */

static void inet_name(struct sim_file *f, struct sockaddr *a, socklen_t *n)
{
	address_put(((struct end *)f)->k_local, a, n);
}

static int inet_peer(struct sim_file *f, struct sockaddr *a, socklen_t *n)
{
	struct end *k = (struct end *)f;

	if (k->k_type == SOCK_STREAM ? k->k_state != CONNECTED :
	    k->k_peer.a_port == 0)
		return -ENOTCONN;
	address_put(k->k_peer, a, n);
	return 0;
}

static utime_ns time_of(const void *value)
{
	struct timeval t;

	memcpy(&t, value, sizeof t);
	return sim_ns_of_timeval(&t);
}

/* Options that change nothing here are taken. */
int sim_option_common(struct sim_file *f, int level, int name, const void *value,
		      socklen_t n)
{
	bool is_time = level == SOL_SOCKET &&
		(name == SO_RCVTIMEO || name == SO_SNDTIMEO);

	if (n < (socklen_t)(is_time ? sizeof(struct timeval) : sizeof(int)))
		return -EINVAL;
	if (is_time && name == SO_RCVTIMEO)
		f->f_read_time = time_of(value);
	else if (is_time)
		f->f_write_time = time_of(value);
	return is_time || (level == SOL_SOCKET &&
		(name == SO_SNDBUF || name == SO_RCVBUF || name == SO_REUSEADDR ||
		 name == SO_KEEPALIVE)) ? 0 : 1;
}

int sim_option_put(int result, void *value, socklen_t *n)
{
	*n = *n < sizeof result ? *n : sizeof result;
	memcpy(value, &result, *n);
	return 0;
}

int sim_linger(struct linger *to, const void *value, socklen_t n)
{
	struct linger l;

	if (n < (socklen_t)sizeof l)
		return -EINVAL;
	memcpy(&l, value, sizeof l);
	to->l_onoff = l.l_onoff != 0;
	if (l.l_onoff)			/* else Linux keeps the time */
		to->l_linger = l.l_linger;
	return 0;
}

int sim_linger_put(struct linger l, void *value, socklen_t *n)
{
	*n = *n < sizeof l ? *n : sizeof l;
	memcpy(value, &l, *n);
	return 0;
}

static int inet_option(struct sim_file *f, int level, int name, const void *value,
		       socklen_t n)
{
	struct end *k = (struct end *)f;
	bool is_linger = level == SOL_SOCKET && name == SO_LINGER;
	int rc = is_linger ? sim_linger(&k->k_linger, value, n) :
		sim_option_common(f, level, name, value, n);
	bool is_delay = level == IPPROTO_TCP && name == TCP_NODELAY;
	bool is_patience = level == IPPROTO_TCP && name == TCP_USER_TIMEOUT;

	if (rc > 0 && !is_delay && !is_patience)
		usim_fail("setsockopt(%d, %d) is not simulated", level, name);
	if (rc < 0)
		return rc;
	if (level == SOL_SOCKET && name == SO_REUSEADDR)
		k->k_reuse = *(const int *)value != 0;
	else if (level == SOL_SOCKET && name == SO_KEEPALIVE)
		k->k_keep = *(const int *)value != 0;
	else if (is_delay)
		k->k_no_delay = *(const int *)value != 0;
	else if (is_patience && *(const int *)value < 0)
		return -EINVAL;
	else if (is_patience)
		k->k_give_up = *(const int *)value * UTIME_MS;
	return 0;
}

static int inet_option_get(struct sim_file *f, int level, int name, void *value,
			   socklen_t *n)
{
	struct end *k = (struct end *)f;
	int result;

	if (level == IPPROTO_TCP && name == TCP_NODELAY)
		return sim_option_put(k->k_no_delay, value, n);
	if (level == IPPROTO_TCP && name == TCP_USER_TIMEOUT)
		return sim_option_put((int)(k->k_give_up / UTIME_MS), value, n);
	if (level != SOL_SOCKET)
		usim_fail("getsockopt(%d, %d) is not simulated", level, name);
	switch (name) {
	case SO_LINGER:		return sim_linger_put(k->k_linger, value, n);
	case SO_ERROR:		result = -sim_take_error(&k->k_error);		break;
	case SO_TYPE:		result = k->k_type;			break;
	case SO_ACCEPTCONN:	result = k->k_state == LISTENING;	break;
	case SO_DOMAIN:		result = AF_INET;			break;
	case SO_REUSEADDR:	result = k->k_reuse;			break;
	case SO_KEEPALIVE:	result = k->k_keep;			break;
	case SO_SNDBUF:
	case SO_RCVBUF:		result = WINDOW;			break;
	default:
		usim_fail("getsockopt(%d, %d) is not simulated", level, name);
	}
	return sim_option_put(result, value, n);
}

static int inet_readable(struct sim_file *f)
{
	const struct end *k = (const struct end *)f;

	if (k->k_state == LISTENING)
		return -EINVAL;
	return k->k_type == SOCK_STREAM ? (int)k->k_in.y_size :
		k->k_first != NULL ? (int)k->k_first->j_size : 0;
}

/* What the other program has not read counts as not acknowledged. */
static int inet_queued(struct sim_file *f)
{
	const struct end *k = (const struct end *)f;

	return k->k_state != CONNECTED ? 0 :
		(int)k->k_connection->c_flow[k->k_side].g_bytes;
}

static int inet_unlisten(struct sim_file *f)
{
	struct end *k = (struct end *)f;

	if (k->k_state != LISTENING)
		return -EINVAL;
	k->k_no_new = true;
	return 0;
}

static const struct sim_socket_ops inet_ops = {
	inet_bind, inet_listen, inet_accept, inet_connect, inet_connected,
	inet_shutdown, inet_name, inet_peer, inet_send, inet_receive,
	inet_option, inet_option_get, inet_readable, inet_queued, inet_unlisten,
	inet_linger
};

static const struct sim_file_ops stream_ops = {
	"stream", stream_read, stream_write, stream_poll, stream_close,
	stream_crash, true, &inet_ops
}, datagram_ops = {
	"datagram socket", datagram_read, datagram_write, datagram_poll,
	datagram_close, datagram_close, false, &inet_ops
};
