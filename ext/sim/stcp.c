/* SPDX-License-Identifier: MIT */
/* stcp.c: calls of streams between hosts. */

/*
 * A socket is FRESH, and then LISTENING, or CONNECTING and CONNECTED. When its
 * connection has ended it is CLOSED. A connect() that has failed is told once,
 * and makes the socket FRESH again. A shutdown() does so for a listener. Segments,
 * and their work on the two ends of a connection, are in sflow.c.
 *
 * A write is one segment; now and then it is two that arrive one after the
 * other, so programs meet reads that return a part.
 */

#define _GNU_SOURCE		/* POLLRDHUP */
#include "snet.h"

int sim_tcp_listen(struct sim_file *f, int backlog)
{
	struct end *k = (struct end *)f;
	int rc = 0;

	if (k->k_type != SOCK_STREAM)
		return -EOPNOTSUPP;
	if ((k->k_state != FRESH && k->k_state != LISTENING) || k->k_unusable)
		return -EINVAL;
	if (!k->k_bound)
		rc = sim_bind_to(k, (struct address) { INADDR_ANY, 0 });
	else if (k->k_state == FRESH && sim_is_taken(k->k_file.f_boot, k, k->k_local))
		rc = -EADDRINUSE;
	if (rc != 0)
		return rc;
	k->k_state = LISTENING;
	k->k_backlog = backlog < 0 ? 4096 : backlog;
	return 0;
}

int sim_tcp_accept(struct sim_file *f, struct sim_file **out, int flags,
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
	sim_address_put(k->k_peer, a, n);
	*out = &k->k_file;
	return 0;
}

/* Lets a socket whose connection has ended connect again. */
static void renew(struct end *k)
{
	sim_end_part(k);
	sim_bytes_free(&k->k_in);
	k->k_state = FRESH;
	k->k_bound = k->k_by_bind;
	k->k_no_read = k->k_no_write = k->k_fin = k->k_fin_sent = false;
	if (!k->k_by_bind)
		k->k_local.a_ip = INADDR_ANY;
	sim_changed(&k->k_file, POLLIN | POLLOUT);
}

/* Tells how a connect() has ended: 0, an error, or -EINPROGRESS. */
int sim_tcp_connected(struct sim_file *f)
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

int sim_tcp_connect(struct end *k, struct address at, struct sim_host *to)
{
	struct sim_boot *b = k->k_file.f_boot;
	struct connection *c;
	int rc, i;

	rc = sim_bind_for(k, at, to);
	if (rc != 0)
		return rc;
	sim_end_part(k);
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
	sim_segment_put(c, 0, SYN, NULL, 0);
	return -EINPROGRESS;
}

ssize_t sim_tcp_read(struct sim_file *f, void *buf, size_t size, int flags)
{
	struct end *k = (struct end *)f;
	ssize_t nr;

	if (k->k_state == LISTENING)
		return -ENOTCONN;
	if (buf == NULL && size > 0 && k->k_in.y_size > 0 && !(flags & MSG_TRUNC))
		return -EFAULT;
	nr = (ssize_t)sim_bytes_get(&k->k_in, flags & MSG_TRUNC ? NULL : buf, size,
				    flags & MSG_PEEK);
	if (nr > 0 && !(flags & MSG_PEEK) && k->k_state == CONNECTED && !k->k_fin)
		sim_has_read(k, (size_t)nr);
	sim_acknowledge(k);
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

ssize_t sim_tcp_write(struct sim_file *f, const void *buf, size_t size)
{
	struct end *k = (struct end *)f;
	struct flow *g;
	size_t room, first;

	if (k->k_state == CONNECTED && !sim_step_by(f, AT_SEND))
		return -EBADF;
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
	if (buf == NULL)
		return -EFAULT;
	size = size < room ? size : room;
	g->g_bytes += size;
	if (g->g_bytes > FAR)
		sim_send_room(k->k_connection, !k->k_side);
	first = sim_below(DRAW_NET, 8) == 0 ?
		1 + sim_below(DRAW_NET, (unsigned)size) : size;
	sim_segment_put(k->k_connection, k->k_side, DATA, buf, first);
	if (first < size)
		sim_segment_put(k->k_connection, k->k_side, DATA, (const char *)buf + first,
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
	if (k->k_state != CONNECTED || k->k_no_write || sim_has_room(k))
		return bits | POLLOUT | POLLWRNORM;
	k->k_full = true;
	return bits;
}

static void stream_free(struct end *k)
{
	sim_end_part(k);
	sim_bytes_free(&k->k_in);
	free(k);
}

/* Makes a listener a fresh socket. Its queue is reset. */
void sim_tcp_listen_end(struct end *l)
{
	struct end *k;

	while ((k = l->k_queue) != NULL) {
		l->k_queue = k->k_next;
		if (k->k_connection != NULL)
			sim_segment_put(k->k_connection, 1, RST, NULL, 0);
		stream_free(k);
	}
	l->k_queued = 0;
	renew(l);
}

static void stream_close(struct sim_file *f)
{
	struct end *k = (struct end *)f;

	if (k->k_state == LISTENING)
		sim_tcp_listen_end(k);
	if (k->k_state == CONNECTED && (k->k_in.y_size > 0 ||
	    (k->k_linger.l_onoff && k->k_linger.l_linger == 0)))
		sim_segment_put(k->k_connection, k->k_side, RST, NULL, 0);
	else if (k->k_state == CONNECTED)
		sim_send_fin(k);
	stream_free(k);
}

/* Sends all that there is, and FIN. A close with bytes unread does not wait. */
utime_ns sim_tcp_linger(struct sim_file *f)
{
	struct end *k = (struct end *)f;

	if (!k->k_linger.l_onoff || k->k_linger.l_linger <= 0 ||
	    (k->k_state != CONNECTED && !k->k_fin_sent) || k->k_in.y_size > 0)
		return 0;
	sim_send_fin(k);
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

const struct sim_file_ops sim_tcp_ops = {
	"stream", sim_tcp_read, sim_tcp_write, stream_poll, stream_close,
	stream_crash, true, &sim_inet_ops
};
