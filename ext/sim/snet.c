/* SPDX-License-Identifier: MIT */
/* snet.c: sockets between hosts, by IPv4: addresses, ports, names, options. */

/*
 * A socket is a file (sfile.c), and an end of a connection or of datagrams. Its
 * struct is in snet.h, which the parts share:
 *
 *	snet.c		addresses and ports, bind(), and what streams and datagrams
 *			have in common
 *	sflow.c		connections: segments, how they arrive, and faults of these
 *	stcp.c		calls of streams
 *	sudp.c		datagrams
 *	soption.c	options that Unix sockets (sunix.c) have, too
 *
 * A host has the address 10.0.0.n, and sees itself as 127.0.0.1, too. A port belongs
 * to a boot of a host, and is looked for among the descriptors of that.
 *
 * Left out: congestion, sizes of packets, urgent data, keep-alive, IPv6. Results
 * and bits of poll() follow Linux, by test/ext/sim.
 */

#include "snet.h"

#include <netinet/tcp.h>

static bool is_inet(const struct sim_file *f)
{
	return f->f_ops == &sim_tcp_ops || f->f_ops == &sim_udp_ops;
}

/* Addresses. */

uint32_t sim_ip_of(const struct sim_host *h)
{
	return SIM_NETWORK + (uint32_t)h->h_number;
}

/* Returns the host with this address, as h sees it; NULL: there is none. */
struct sim_host *sim_host_at(struct sim_host *h, uint32_t ip)
{
	if (ip >> 24 == INADDR_LOOPBACK >> 24 || ip == INADDR_ANY)
		return h;
	ip -= SIM_NETWORK;
	return ip >= 1 && ip <= (uint32_t)sim_host_nr ? &sim_hosts[ip] : NULL;
}

int sim_address_get(const struct sockaddr *a, socklen_t n, struct address *to)
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

void sim_address_put(struct address from, struct sockaddr *a, socklen_t *n)
{
	struct sockaddr_in in = { .sin_family = AF_INET };

	if (n == NULL)
		return;
	in.sin_addr.s_addr = htonl(from.a_ip);
	in.sin_port = htons(from.a_port);
	if (a != NULL)
		memcpy(a, &in, *n < sizeof in ? *n : sizeof in);
	*n = sizeof in;
}

/* Returns the socket of b that is bound here; a listener, if it is a stream. */
struct end *sim_bound_at(struct sim_boot *b, int type, struct address at)
{
	int fd;

	for (fd = 0; b != NULL && fd < b->b_fd_end; fd++) {
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
bool sim_is_taken(struct sim_boot *b, const struct end *but, struct address at)
{
	int fd;

	for (fd = 0; fd < b->b_fd_end; fd++) {
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

int sim_bind_to(struct end *k, struct address at)
{
	struct sim_boot *b = k->k_file.f_boot;
	int tries;

	if (at.a_port != 0 && sim_is_taken(b, k, at))
		return -EADDRINUSE;
	for (tries = 0; at.a_port == 0; tries++) {
		if (tries == 28000)
			return -EADDRINUSE;
		at.a_port = b->b_host->h_port++;
		if (b->b_host->h_port == 61000)
			b->b_host->h_port = 32768;
		if (sim_is_taken(b, k, at))
			at.a_port = 0;
	}
	k->k_local = at;
	k->k_bound = true;
	return 0;
}

/* Gives k the address from which it reaches another, if it has none. */
int sim_bind_for(struct end *k, struct address at, const struct sim_host *to)
{
	struct sim_host *h = k->k_file.f_boot->b_host;
	uint32_t ip = to == h ? at.a_ip : sim_ip_of(h);

	if (!k->k_bound)
		return sim_bind_to(k, (struct address) { ip, 0 });
	if (k->k_local.a_ip == INADDR_ANY)
		k->k_local.a_ip = ip;
	return 0;
}

/* Calls. */

struct end *sim_end_make(struct sim_boot *b, int type, int flags)
{
	struct end *k = sim_file_make(b, type == SOCK_STREAM ? &sim_tcp_ops :
				      &sim_udp_ops, sizeof *k, flags | O_RDWR);

	k->k_type = type;
	return k;
}

struct sim_file *sim_socket(struct sim_boot *b, int type, int flags)
{
	return &sim_end_make(b, type, flags)->k_file;
}

static int inet_bind(struct sim_file *f, const struct sockaddr *a, socklen_t n)
{
	struct end *k = (struct end *)f;
	struct sim_host *h = f->f_boot->b_host;
	struct sockaddr_in any;
	struct address at;
	int rc;

	if (a != NULL && n >= sizeof any && a->sa_family == AF_UNSPEC) {
		memcpy(&any, a, sizeof any);	/* any address of a family may be so */
		any.sin_family = any.sin_addr.s_addr == 0 ? AF_INET : AF_UNSPEC;
		a = (const struct sockaddr *)&any;
	}
	rc = sim_address_get(a, n, &at);
	if (rc != 0)
		return rc;
	if (sim_host_at(h, at.a_ip) != h)
		return -EADDRNOTAVAIL;
	if (k->k_bound || (k->k_state != FRESH && k->k_state != CLOSED))
		return -EINVAL;
	rc = sim_bind_to(k, at);
	k->k_by_bind = rc == 0 && at.a_port != 0;
	if (rc != 0)
		k->k_local.a_ip = INADDR_ANY;
	return rc;
}

/* Is a connect() to AF_UNSPEC. */
static int disconnect(struct end *k)
{
	if (k->k_type == SOCK_STREAM && k->k_state != FRESH)
		usim_fail("connect() of a stream to AF_UNSPEC is not simulated");
	k->k_peer = (struct address) { 0, 0 };
	k->k_error = 0;
	if (!k->k_by_bind) {
		k->k_local = (struct address) { INADDR_ANY, 0 };
		k->k_bound = false;
	}
	return 0;
}

static int inet_connect(struct sim_file *f, const struct sockaddr *a, socklen_t n)
{
	struct end *k = (struct end *)f;
	struct address at;
	struct sim_host *to;
	int rc;

	if (n >= sizeof a->sa_family && a->sa_family == AF_UNSPEC)
		return disconnect(k);
	rc = sim_address_get(a, n, &at);
	if (rc != 0)
		return rc;
	if (k->k_state == CONNECTING)
		return -EALREADY;
	if (k->k_unusable)
		return -EINVAL;
	if (k->k_untold)
		return sim_tcp_connected(f);
	if (k->k_type == SOCK_STREAM && k->k_state != FRESH)
		return -EISCONN;
	to = sim_host_at(f->f_boot->b_host, at.a_ip);
	if (to == NULL)
		return -ENETUNREACH;
	if (at.a_ip == INADDR_ANY)
		at.a_ip = INADDR_LOOPBACK;
	if (k->k_type == SOCK_STREAM)
		return sim_tcp_connect(k, at, to);
	rc = sim_bind_for(k, at, to);
	if (rc == 0)
		k->k_peer = at;
	return rc;
}

static int inet_shutdown(struct sim_file *f, int how)
{
	struct end *k = (struct end *)f;
	bool connected;

	if (how < SHUT_RD || how > SHUT_RDWR)
		return -EINVAL;
	if (k->k_state == LISTENING) {
		if (how != SHUT_WR)
			sim_tcp_listen_end(k);
		return 0;
	}
	if (k->k_state == CONNECTING) {
		sim_end_part(k);
		sim_end_fail(k, ECONNRESET);
		k->k_unusable = true;
		return 0;
	}
	k->k_unusable |= k->k_untold && k->k_state == CLOSED;
	k->k_untold = false;
	connected = k->k_type == SOCK_DGRAM ? k->k_peer.a_port != 0 :
		k->k_state == CONNECTED;
	if (k->k_state == CONNECTED && how != SHUT_RD)
		sim_send_fin(k);
	k->k_no_read  |= how != SHUT_WR;
	k->k_no_write |= how != SHUT_RD;
	sim_changed(f, POLLIN | POLLOUT);
	return connected ? 0 : -ENOTCONN;
}

static ssize_t inet_send(struct sim_file *f, const void *buf, size_t size,
			 const struct sockaddr *a, socklen_t n)
{
	return ((struct end *)f)->k_type == SOCK_STREAM ?
		sim_tcp_write(f, buf, size) : sim_udp_send(f, buf, size, a, n);
}

static ssize_t inet_receive(struct sim_file *f, void *buf, size_t size, int flags,
			    struct sockaddr *a, socklen_t *n)
{
	if (((struct end *)f)->k_type != SOCK_STREAM)
		return sim_udp_receive(f, buf, size, flags, a, n);
	(void)sim_no_address(n);
	return sim_tcp_read(f, buf, size, flags);
}

/* Names and options. */

static void inet_name(struct sim_file *f, struct sockaddr *a, socklen_t *n)
{
	sim_address_put(((struct end *)f)->k_local, a, n);
}

static int inet_peer(struct sim_file *f, struct sockaddr *a, socklen_t *n)
{
	struct end *k = (struct end *)f;

	if (k->k_type == SOCK_STREAM ? k->k_state != CONNECTED :
	    k->k_peer.a_port == 0)
		return -ENOTCONN;
	sim_address_put(k->k_peer, a, n);
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

/* Returns the size of a buffer; 0: as it was made, by the machine's settings. */
static int size_of(const struct end *k, int size, int of_streams)
{
	return size != 0 ? size : k->k_type == SOCK_STREAM ? of_streams : DATAGRAM_ROOM;
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
	case SO_PROTOCOL:	result = k->k_type == SOCK_STREAM ?
					IPPROTO_TCP : IPPROTO_UDP;	break;
	case SO_SNDBUF:		result = size_of(k, f->f_send_size, 16384);	break;
	case SO_RCVBUF:		result = size_of(k, f->f_receive_size, 131072);	break;
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

const struct sim_socket_ops sim_inet_ops = {
	inet_bind, sim_tcp_listen, sim_tcp_accept, inet_connect, sim_tcp_connected,
	inet_shutdown, inet_name, inet_peer, inet_send, inet_receive,
	inet_option, inet_option_get, inet_readable, inet_queued, inet_unlisten,
	sim_tcp_linger
};
