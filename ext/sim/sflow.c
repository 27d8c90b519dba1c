/* SPDX-License-Identifier: MIT */
/* sflow.c: connections of streams: segments that arrive, or are tried again. */

/*
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
 */

#include "snet.h"

#define AGAIN_FIRST	(200 * UTIME_MS)
#define AGAIN_MOST	(10 * UTIME_S)
#define GIVE_UP_SYN	(60 * UTIME_S)
#define GIVE_UP		(120 * UTIME_S)

static const char *const kind_names[] = {
	"SYN", "SYNACK", "DATA", "ROOM", "FIN", "RST", "ACK"
};

struct segment {
	struct segment   *s_next;
	enum segment_kind s_kind;
	uint32_t          s_state;	/* of the sender: smark.c */
	utime_ns          s_sent, s_at;	/* s_at: earliest arrival */
	size_t            s_size;
	size_t            s_room;	/* for the other flow */
	char              s_data[];
};

static void arrive(void *flow);

static void arm(struct flow *g, utime_ns at)
{
	g->g_armed = true;
	sim_at(at > sim_now() ? at : sim_now(), arrive, g);
}

void sim_segment_put(struct connection *c, int from, enum segment_kind kind,
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
		s->s_state = sim_mark_send(c->c_host[from]);
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

void sim_end_fail(struct end *k, int error)
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
void sim_end_part(struct end *k)
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
		sim_end_part(c->c_end[1]);
	c->c_boot[1] = NULL;
	c->c_forgotten = NULL;
	sim_segment_put(c, 0, SYN, NULL, 0);
	c->c_flow[0].g_last->s_at += AGAIN_FIRST;
}

static void hit_reset(struct end *k)
{
	struct connection *c = k->k_connection;

	drop(&c->c_flow[k->k_side]);
	sim_end_fail(k, k->k_state == CONNECTING ? ECONNREFUSED :
		     k->k_fin ? EPIPE : ECONNRESET);
	answer_lost(c);
}

void sim_send_fin(struct end *k)
{
	if (k->k_fin_sent)
		return;
	k->k_fin_sent = true;
	sim_segment_put(k->k_connection, k->k_side, FIN, NULL, 0);
	close_both(k);
}

/* Returns whether a SYN was taken: false, if the queue is full. */
static bool hit_syn(struct connection *c)
{
	struct sim_boot *b = c->c_host[1]->h_boot;	/* or NULL */
	struct end *l = sim_bound_at(b, SOCK_STREAM, c->c_at[1]), *k, **at;

	if (c->c_end[0] == NULL)
		return true;		/* closed meanwhile: no answer */
	if (l == NULL) {
		sim_segment_put(c, 1, RST, NULL, 0);
		return true;
	}
	if (l->k_queued > l->k_backlog || l->k_no_new)
		return false;
	k = sim_end_make(b, SOCK_STREAM, 0);
	k->k_state = CONNECTED;
	k->k_local = c->c_at[1];
	k->k_bound = true;
	k->k_reuse = l->k_reuse;
	k->k_linger = l->k_linger;
	k->k_peer  = c->c_at[0];
	k->k_connection = c;
	k->k_side = 1;
	sim_use(c->c_host[0], USE_STREAM);
	sim_use(c->c_host[1], USE_STREAM);
	c->c_end[1]  = k;
	c->c_boot[1] = b;
	for (at = &l->k_queue; *at != NULL; at = &(*at)->k_next)
		;
	*at = k;
	l->k_queued++;
	sim_changed(&l->k_file, POLLIN);
	sim_segment_put(c, 1, SYNACK, NULL, 0);
	k->k_no_read = l->k_no_read;	/* shut down before it listened */
	k->k_no_write = l->k_no_write;
	if (k->k_no_write)
		sim_send_fin(k);
	return true;
}

/* Returns whether poll() says POLLOUT: a third of the window is free. */
bool sim_has_room(const struct end *k)
{
	return k->k_connection->c_flow[k->k_side].g_bytes <= WINDOW * 2 / 3;
}

/* Sends a ROOM for what the end at side has read, if there is some. */
void sim_send_room(struct connection *c, int side)
{
	if (c->c_flow[!side].g_read > 0 && c->c_end[side] != NULL)
		sim_segment_put(c, side, ROOM, NULL, 0);
}

/* The end k has read size bytes. */
void sim_has_read(struct end *k, size_t size)
{
	struct connection *c = k->k_connection;
	struct flow *g = &c->c_flow[!k->k_side];

	g->g_read += size;
	if (g->g_bytes > FAR || (c->c_end[!k->k_side] != NULL &&
				 c->c_end[!k->k_side]->k_full))
		sim_send_room(c, k->k_side);
}

/* Gives room for what the other end has read. An edge comes to who has asked. */
static void take_room(struct end *k, size_t size)
{
	k->k_connection->c_flow[k->k_side].g_bytes -= size;
	if (!k->k_full || !sim_has_room(k))
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
			sim_segment_put(c, k->k_side, RST, NULL, 0);
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
void sim_acknowledge(struct end *k)
{
	if (!k->k_acks || k->k_in.y_size > WINDOW / 2)
		return;
	k->k_acks = false;
	sim_segment_put(k->k_connection, k->k_side, ACK, NULL, 0);
}

/* FIN has come to an end. */
static void hit_fin(struct connection *c, int to)
{
	struct end *k = c->c_end[to], *sender = c->c_end[!to];

	if (sender == NULL || !sender->k_file.f_lingers)
		return;
	if (k == NULL) {
		sim_segment_put(c, to, ACK, NULL, 0);
	} else {
		k->k_acks = true;
		sim_acknowledge(k);
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
		sim_segment_put(c, to, RST, NULL, 0);
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
			sim_end_fail(k, ETIMEDOUT);
		if (connecting && k != c->c_end[0])
			sim_end_fail(c->c_end[0], ETIMEDOUT);
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
		if (s->s_kind == DATA)
			sim_mark_message(c->c_host[g->g_from],
					 c->c_host[!g->g_from], s->s_state);
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

/* Connections that are reset or forgotten: faults. */

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

	for (fd = 0; b != NULL && fd < b->b_fd_end; fd++) {
		struct end *k = (struct end *)b->b_fds[fd];

		if (k != NULL && k->k_file.f_ops == &sim_tcp_ops &&
		    k->k_state == CONNECTED)
			nr += reset(k);
	}
	return nr;
}

/* Returns the end that a descriptor of b is, if it is connected to another host. */
static struct end *outward(struct sim_boot *b, int fd)
{
	struct end *k = b == NULL ? NULL : (struct end *)b->b_fds[fd];

	return k != NULL && k->k_file.f_ops == &sim_tcp_ops &&
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
