/* SPDX-License-Identifier: MIT */
/* sunix.c: Unix sockets: streams, datagrams and packets within a host. */

/*
 * Both ends of a Unix socket are in one host, so bytes arrive at once, and no
 * fault comes between. A write is one packet in the queue of the other end; it
 * may carry descriptors (SCM_RIGHTS). A stream reads over the ends of packets,
 * up to the end of one with descriptors; a datagram is one packet. SOCK_SEQPACKET
 * connects as a stream does, and sends and receives as a datagram socket.
 *
 *	u_peer	<------------->	u_peer		streams, socketpair()
 *	u_peer	-------------->			datagrams, connect()
 *	u_queue	of a listener: the other ends of those that have connected
 *
 * A name is a file of the host's disk (sdisk.c), which a crash may take away,
 * or an abstract name, which begins with a zero. The file outlives the socket,
 * as it does everywhere. Later calls of connect() have ECONNREFUSED.
 *
 * INVARIANTS
 *
 * U1. If it connects: u_peer of u_peer is the socket itself. It is NULL for a socket
 *     that was never connected, or whose peer was closed (u_was).
 * U2. u_held counts the bytes and the cost of the packets that the socket has
 *     sent and that were not read, as Linux does: it decides POLLOUT.
 *
 * Left out: credentials, out-of-band bytes.
 */

#define _GNU_SOURCE		/* POLLRDHUP */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define ROOM		212992	/* bytes that a socket may have sent, unread */
#define PACKET_COST	768	/* of a packet, in that room */
#define PACKETS		10	/* datagrams that wait for a socket */
#define NAME_START	((socklen_t)offsetof(struct sockaddr_un, sun_path))

enum state { FRESH, LISTENING, CONNECTED };

struct name {
	struct sockaddr_un n_address;
	socklen_t          n_size;	/* NAME_START: none */
};

struct packet {
	struct packet   *q_next;
	struct local    *q_sender;	/* NULL: it was closed */
	struct name      q_from;
	struct sim_file *q_files[SIM_RIGHTS];
	int              q_file_nr;
	size_t           q_at, q_size;
	char             q_data[];
};

/* A socket. */
struct local {
	struct sim_file u_file;		/* first */
	struct local   *u_all;		/* the next of all sockets */
	int             u_type;		/* SOCK_STREAM and so on */
	enum state      u_state;
	struct local   *u_peer;		/* U1 */
	bool            u_was;		/* the peer was closed */
	bool            u_no_read, u_no_write;
	bool            u_refused;	/* a write has had -EAGAIN */
	int             u_error;
	struct name     u_name, u_peer_name;
	const void     *u_inode;	/* of its name, or NULL */
	struct packet  *u_first, *u_last;
	int             u_packets;
	size_t          u_held;		/* U2 */
	struct local   *u_queue, *u_next;
	int             u_queued, u_backlog;
	bool            u_is_accepted;	/* its name is the listener's */
	bool            u_no_new;	/* u_unlisten() */
	struct linger   u_linger;	/* SO_LINGER and these have no effect */
	bool            u_keep, u_reuse;
};

static const struct sim_file_ops stream_ops, datagram_ops;
static struct local *all;

static struct local *local_of(struct sim_file *f)
{
	return (struct local *)f;
}

static bool is_local(const struct sim_file *f)
{
	return f->f_ops == &stream_ops || f->f_ops == &datagram_ops;
}

/* Returns whether it is of a kind that listens and accepts. */
static bool connects(const struct local *u)
{
	return u->u_type != SOCK_DGRAM;
}

static struct local *local_make(struct sim_boot *b, int type, int flags)
{
	struct local *u = sim_file_make(b, type == SOCK_STREAM ? &stream_ops :
					&datagram_ops, sizeof *u, flags | O_RDWR);

	u->u_type = type;
	u->u_name.n_size = u->u_peer_name.n_size = NAME_START;
	u->u_name.n_address.sun_family = AF_UNIX;
	u->u_peer_name = u->u_name;
	u->u_all = all;
	all = u;
	return u;
}

struct sim_file *sim_unix(struct sim_boot *b, int type, int flags)
{
	return &local_make(b, type, flags)->u_file;
}

int sim_unix_pair(struct sim_boot *b, int type, int flags, int fds[2])
{
	struct local *u = local_make(b, type, flags);
	struct local *v = local_make(b, type, flags);

	u->u_peer = v;
	v->u_peer = u;
	u->u_state = v->u_state = CONNECTED;
	fds[0] = sim_fd(b, &u->u_file);
	fds[1] = sim_fd(b, &v->u_file);
	if (fds[0] >= 0 && fds[1] >= 0)
		return 0;
	if (fds[0] >= 0)
		(void)sim_close(b, fds[0]);
	return -EMFILE;
}

/* Names. */

static int name_get(const struct sockaddr *a, socklen_t n, struct name *to)
{
	struct sockaddr_un *un = &to->n_address;

	if (a == NULL || n <= NAME_START || n > sizeof *un ||
	    a->sa_family != AF_UNIX)
		return -EINVAL;
	memset(un, 0, sizeof *un);
	memcpy(un, a, n);
	to->n_size = n;
	if (un->sun_path[0] != 0)
		to->n_size = NAME_START +
			(socklen_t)strnlen(un->sun_path, n - NAME_START) + 1;
	return 0;
}

static void name_put(const struct name *from, struct sockaddr *a, socklen_t *n)
{
	if (n == NULL)
		return;
	if (a != NULL)
		memcpy(a, &from->n_address, *n < from->n_size ? *n : from->n_size);
	*n = from->n_size;
}

/* The path of a name as a string; the longest has no zero of its own. */
static const char *path_of(const struct name *name, char to[sizeof name->n_address])
{
	size_t size = sizeof name->n_address.sun_path;

	memcpy(to, name->n_address.sun_path, size);
	to[size] = 0;
	return to;
}

static bool is_abstract(const struct name *name)
{
	return name->n_address.sun_path[0] == 0;
}

/* Finds the socket that a name is of. 0 or an error. */
static int find(struct sim_boot *b, const struct name *name, int type,
		struct local **to)
{
	char path[sizeof name->n_address];
	const void *inode = NULL;
	struct local *u;
	int rc = is_abstract(name) ? 0 :
		sim_socket_file(b, path_of(name, path), &inode);

	if (rc != 0)
		return rc;
	for (u = all; u != NULL; u = u->u_all) {
		if (u->u_file.f_boot != b || u->u_is_accepted ||
		    u->u_name.n_size == NAME_START ||
		    (is_abstract(name) && u->u_type != type))
			continue;
		if (inode != NULL ? u->u_inode != inode :
		    u->u_name.n_size != name->n_size ||
		    memcmp(&u->u_name.n_address, &name->n_address,
			   name->n_size) != 0)
			continue;
		*to = u;
		return u->u_type == type ? 0 : -EPROTOTYPE;
	}
	return -ECONNREFUSED;
}

/* Gives u an abstract name of five digits, as a bind() to nothing does. */
static int bind_any(struct local *u)
{
	static unsigned next;
	struct name *name = &u->u_name;

	if (name->n_size != NAME_START)
		return 0;
	snprintf(name->n_address.sun_path + 1, 6, "%05x", next++ & 0xfffff);
	name->n_size = NAME_START + 6;
	return 0;
}

static int local_bind(struct sim_file *f, const struct sockaddr *a, socklen_t n)
{
	struct local *u = local_of(f), *other;
	char path[sizeof u->u_name.n_address];
	struct name name;
	int rc;

	if (a != NULL && n == NAME_START && a->sa_family == AF_UNIX)
		return bind_any(u);
	rc = name_get(a, n, &name);
	if (rc != 0)
		return rc;
	if (is_abstract(&name)) {
		if (u->u_name.n_size != NAME_START)
			return -EINVAL;
		if (find(f->f_boot, &name, u->u_type, &other) == 0)
			return -EADDRINUSE;
	} else {
		rc = sim_socket_file_make(f->f_boot, path_of(&name, path),
					  u->u_name.n_size == NAME_START,
					  &u->u_inode);
		if (rc != 0)
			return rc;
	}
	u->u_name = name;
	return 0;
}

static void local_name(struct sim_file *f, struct sockaddr *a, socklen_t *n)
{
	name_put(&local_of(f)->u_name, a, n);
}

static int local_peer(struct sim_file *f, struct sockaddr *a, socklen_t *n)
{
	struct local *u = local_of(f);

	if (u->u_peer == NULL && !u->u_was)
		return -ENOTCONN;
	name_put(u->u_peer != NULL ? &u->u_peer->u_name : &u->u_peer_name, a, n);
	return 0;
}

/* Packets. */

static size_t send_room(const struct local *u)
{
	return u->u_file.f_send_size != 0 ? (size_t)u->u_file.f_send_size : ROOM;
}

static bool has_room(const struct local *u)
{
	return u->u_held * 4 <= send_room(u);
}

static void packet_free(struct packet *q)
{
	int i;

	for (i = 0; i < q->q_file_nr; i++)
		sim_drop(q->q_files[i]);
	free(q);
}

/* Takes the first packet out of u. */
static void packet_end(struct local *u)
{
	struct packet *q = u->u_first;
	struct local *sender = q->q_sender, *v;

	u->u_first = q->q_next;
	u->u_packets--;
	if (sender != NULL)
		sender->u_held -= q->q_size + PACKET_COST;
	if (sender != NULL && has_room(sender))
		sim_changed(&sender->u_file, POLLOUT);
	packet_free(q);		/* which may close the sender */
	if (connects(u))
		return;
	for (v = all; v != NULL; v = v->u_all)
		if (v->u_refused && v->u_file.f_boot == u->u_file.f_boot) {
			v->u_refused = false;
			sim_changed(&v->u_file, POLLOUT);
		}
}

/*
 * A datagram socket has lost its peer, and with it all that it has not read. A
 * peer that lives, and is connected to it, hears of that.
 */
static void forget(struct local *u)
{
	struct local *v = u->u_peer;
	bool had = u->u_first != NULL;

	if (v == NULL && !u->u_was)
		return;
	while (u->u_first != NULL)
		packet_end(u);
	if (!had || v == NULL || v->u_peer != u)
		return;
	v->u_error = ECONNRESET;
	sim_changed(&v->u_file, POLLIN | POLLOUT);
}

/* Connections. */

static int local_listen(struct sim_file *f, int backlog)
{
	struct local *u = local_of(f);

	if (!connects(u))
		return -EOPNOTSUPP;
	if (u->u_name.n_size == NAME_START || u->u_state == CONNECTED)
		return -EINVAL;
	u->u_state = LISTENING;
	u->u_backlog = backlog < 0 || backlog > 4096 ? 4096 : backlog;
	return 0;
}

static int local_accept(struct sim_file *f, struct sim_file **out, int flags,
			struct sockaddr *a, socklen_t *n)
{
	struct local *l = local_of(f), *u = l->u_queue;

	if (!connects(l))
		return -EOPNOTSUPP;
	if (l->u_state != LISTENING)
		return -EINVAL;
	if (u == NULL)		/* Linux sees the shutdown only where it would wait */
		return l->u_no_read && !(f->f_flags & O_NONBLOCK) ? -EINVAL : -EAGAIN;
	l->u_queue = u->u_next;
	l->u_queued--;
	u->u_file.f_flags |= flags;
	(void)local_peer(&u->u_file, a, n);
	*out = &u->u_file;
	sim_changed(f, POLLOUT);	/* there is a place in the queue */
	return 0;
}

static int connect_stream(struct local *u, struct local *l)
{
	struct local *v, **at;

	if (l->u_state != LISTENING || l->u_no_read || l->u_no_new)
		return -ECONNREFUSED;
	if (l->u_queued > l->u_backlog)
		return -EAGAIN;
	if (u->u_state != FRESH)
		return u->u_state == CONNECTED ? -EISCONN : -EINVAL;
	v = local_make(l->u_file.f_boot, l->u_type, 0);
	v->u_name = l->u_name;
	v->u_is_accepted = true;
	v->u_state = u->u_state = CONNECTED;
	v->u_peer = u;
	u->u_peer = v;
	for (at = &l->u_queue; *at != NULL; at = &(*at)->u_next)
		;
	*at = v;
	l->u_queued++;
	sim_changed(&l->u_file, POLLIN);
	sim_changed(&u->u_file, POLLIN | POLLOUT);
	return 0;
}

/* A socket that is connected to another takes nothing from a third. */
static bool may_send(const struct local *from, const struct local *to)
{
	return (to->u_peer == NULL && !to->u_was) || to->u_peer == from;
}

static int local_connect(struct sim_file *f, const struct sockaddr *a, socklen_t n)
{
	struct local *u = local_of(f), *to = NULL;
	struct name name;
	int rc;

	if (n < NAME_START)
		return -EINVAL;
	if (a->sa_family == AF_UNSPEC && !connects(u)) {
		forget(u);
		u->u_peer = NULL;
		u->u_was = false;
		return 0;
	}
	rc = name_get(a, n, &name);
	if (rc == 0)
		rc = find(f->f_boot, &name, u->u_type, &to);
	if (rc != 0)
		return rc;
	if (connects(u))
		return connect_stream(u, to);
	if (!may_send(u, to))
		return -EPERM;
	if (to != u->u_peer)
		forget(u);
	u->u_peer = to;
	u->u_was = false;
	return 0;
}

static int local_connected(struct sim_file *f)
{
	return (void)f, 0;
}

static int local_shutdown(struct sim_file *f, int how)
{
	struct local *u = local_of(f), *v = u->u_peer;

	if (how < SHUT_RD || how > SHUT_RDWR)
		return -EINVAL;
	u->u_no_read  |= how != SHUT_WR;
	u->u_no_write |= how != SHUT_RD;
	sim_changed(f, POLLIN | POLLOUT);
	if (v == NULL || !connects(u))
		return 0;
	v->u_no_write |= how != SHUT_WR;
	v->u_no_read  |= how != SHUT_RD;
	sim_changed(&v->u_file, POLLIN | POLLOUT);
	return 0;
}

/* Sends and receives. */

static void packet_put(struct local *u, struct local *to, const void *data,
		       size_t size, const struct sim_rights *rights)
{
	struct packet *q = sim_alloc(sizeof *q + size);
	int i;

	q->q_sender = u;
	q->q_from = u->u_name;
	q->q_size = size;
	if (size > 0)
		memcpy(q->q_data, data, size);
	for (i = 0; rights != NULL && i < rights->r_nr; i++) {
		q->q_files[q->q_file_nr++] = rights->r_files[i];
		rights->r_files[i]->f_refs++;
	}
	if (to->u_first == NULL)
		to->u_first = q;
	else
		to->u_last->q_next = q;
	to->u_last = q;
	to->u_packets++;
	u->u_held += size + PACKET_COST;
	sim_changed(&to->u_file, POLLIN);
}

static ssize_t send_stream(struct local *u, const void *buf, size_t size,
			   bool addressed, const struct sim_rights *rights)
{
	size_t room = u->u_held < send_room(u) ? send_room(u) - u->u_held : 0;

	if (addressed)
		return u->u_state == CONNECTED ? -EISCONN : -EOPNOTSUPP;
	if (u->u_state != CONNECTED)
		return -ENOTCONN;
	if (u->u_no_write || u->u_peer == NULL || u->u_peer->u_no_read)
		return -EPIPE;
	if (size == 0)
		return 0;
	if (room <= PACKET_COST)
		return -EAGAIN;
	if (buf == NULL)
		return -EFAULT;
	room -= PACKET_COST;
	size = size < room ? size : room;
	packet_put(u, u->u_peer, buf, size, rights);
	return (ssize_t)size;
}

static ssize_t send_packet(struct local *u, const void *buf, size_t size,
			   const struct sim_rights *rights)
{
	if (u->u_error != 0)
		return sim_take_error(&u->u_error);
	if (u->u_state != CONNECTED)
		return -ENOTCONN;
	if (size > send_room(u) - 32)
		return -EMSGSIZE;
	if (u->u_no_write || u->u_peer == NULL)
		return -EPIPE;
	if (u->u_held >= send_room(u))
		return -EAGAIN;
	if (buf == NULL && size > 0)
		return -EFAULT;
	packet_put(u, u->u_peer, buf, size, rights);
	return (ssize_t)size;
}

/* What fails before a datagram's receiver is looked for. */
static int send_check(struct local *u, const void *buf, size_t size)
{
	if (size > send_room(u) - 32)
		return -EMSGSIZE;
	if (u->u_error != 0)
		return sim_take_error(&u->u_error);
	if (u->u_no_write)
		return -EPIPE;
	u->u_refused = u->u_held >= send_room(u);
	return u->u_refused ? -EAGAIN : buf == NULL && size > 0 ? -EFAULT : 0;
}

static ssize_t send_datagram(struct local *u, struct local *to, const void *buf,
			     size_t size, const struct sim_rights *rights)
{
	if (!may_send(u, to))
		return -EPERM;
	if (to->u_no_read)
		return -EPIPE;
	u->u_refused = to != u && to->u_peer != u && to->u_packets > PACKETS;
	if (u->u_refused)
		return -EAGAIN;
	packet_put(u, to, buf, size, rights);
	return (ssize_t)size;
}

ssize_t sim_unix_send(struct sim_file *f, const void *buf, size_t size,
		      const struct sockaddr *a, socklen_t n,
		      const struct sim_rights *rights)
{
	struct local *u = local_of(f), *to = u->u_peer;
	bool addressed = a != NULL && n > 0;
	struct name name;
	ssize_t sent;
	int rc = 0;

	if (u->u_type == SOCK_STREAM)
		return send_stream(u, buf, size, addressed, rights);
	if (u->u_type == SOCK_SEQPACKET)
		return send_packet(u, buf, size, rights);
	if (addressed)
		rc = name_get(a, n, &name);
	if (rc == 0)
		rc = send_check(u, buf, size);
	if (rc != 0)
		return rc;
	if (addressed) {
		rc = find(f->f_boot, &name, SOCK_DGRAM, &to);
	} else if (u->u_was) {
		forget(u);
		u->u_was = false;	/* it hears once that its peer is gone */
		rc = -ECONNREFUSED;
	} else if (to == NULL) {
		rc = -ENOTCONN;
	}
	sent = rc != 0 ? rc : send_datagram(u, to, buf, size, rights);
	if (sent < 0)		/* Linux has made the packet, and frees it */
		sim_changed(f, POLLOUT);
	return sent;
}

static ssize_t local_send(struct sim_file *f, const void *buf, size_t size,
			  const struct sockaddr *a, socklen_t n)
{
	return sim_unix_send(f, buf, size, a, n, NULL);
}

/* Hands the files of q to the caller, or drops them, unless it only looks. */
static void rights_get(struct packet *q, struct sim_rights *to, bool peek)
{
	int i;

	for (i = 0; i < q->q_file_nr; i++) {
		if (to != NULL) {
			to->r_files[to->r_nr++] = q->q_files[i];
			q->q_files[i]->f_refs += peek;
		} else if (!peek) {
			sim_drop(q->q_files[i]);
		}
	}
	if (!peek)
		q->q_file_nr = 0;
}

static ssize_t receive_stream(struct local *u, char *buf, size_t size, int flags,
			      struct sim_rights *rights)
{
	bool peek = flags & MSG_PEEK, had_rights = false;
	struct packet *q = u->u_first, *next;
	size_t all_bytes = 0, nr;

	for (; q != NULL && all_bytes < size && !had_rights; q = next) {
		next = q->q_next;
		had_rights = q->q_file_nr > 0;
		rights_get(q, rights, peek);
		nr = q->q_size - q->q_at < size - all_bytes ?
			q->q_size - q->q_at : size - all_bytes;
		memcpy(buf + all_bytes, q->q_data + q->q_at, nr);
		all_bytes += nr;
		if (!peek)
			q->q_at += nr;
		if (!peek && q->q_at == q->q_size)
			packet_end(u);
	}
	return (ssize_t)all_bytes;
}

static ssize_t receive_datagram(struct local *u, void *buf, size_t size, int flags,
				struct sockaddr *a, socklen_t *n,
				struct sim_rights *rights)
{
	struct packet *q = u->u_first;
	bool peek = flags & MSG_PEEK, is_lost;
	size_t nr;

	if (q == NULL && connects(u))
		return u->u_no_read ? sim_no_address(n) : -EAGAIN;
	if (q == NULL)
		return u->u_no_read && !(u->u_file.f_flags & O_NONBLOCK ||
					 flags & MSG_DONTWAIT) ? sim_no_address(n) :
			-EAGAIN;
	nr = size < q->q_size ? size : q->q_size;
	is_lost = nr > 0 && buf == NULL;
	if (nr > 0 && buf != NULL)
		memcpy(buf, q->q_data, nr);
	if (flags & MSG_TRUNC)
		nr = q->q_size;
	rights_get(q, rights, peek);
	if (a != NULL && q->q_from.n_size > NAME_START)
		name_put(&q->q_from, a, n);
	else if (n != NULL)
		*n = 0;
	if (!peek)
		packet_end(u);
	return is_lost ? -EFAULT : (ssize_t)nr;
}

ssize_t sim_unix_receive(struct sim_file *f, void *buf, size_t size, int flags,
			 struct sockaddr *a, socklen_t *n,
			 struct sim_rights *rights)
{
	struct local *u = local_of(f);

	if (connects(u) && u->u_state != CONNECTED)
		return u->u_type == SOCK_STREAM ? -EINVAL : -ENOTCONN;
	if (u->u_type != SOCK_STREAM)
		return u->u_error != 0 ? sim_take_error(&u->u_error) :
			receive_datagram(u, buf, size, flags, a, n, rights);
	if (n != NULL)
		*n = 0;
	if (u->u_first != NULL && buf == NULL && size > 0)
		return -EFAULT;
	if (u->u_first != NULL)
		return receive_stream(u, buf, size, flags, rights);
	if (u->u_error != 0)
		return sim_take_error(&u->u_error);
	return u->u_no_read ? 0 : -EAGAIN;
}

static ssize_t local_receive(struct sim_file *f, void *buf, size_t size, int flags,
			     struct sockaddr *a, socklen_t *n)
{
	return sim_unix_receive(f, buf, size, flags, a, n, NULL);
}

static ssize_t local_read(struct sim_file *f, void *buf, size_t size, int flags)
{
	return sim_unix_receive(f, buf, size, flags, NULL, NULL, NULL);
}

static ssize_t local_write(struct sim_file *f, const void *buf, size_t size)
{
	return sim_unix_send(f, buf, size, NULL, 0, NULL);
}

static int local_poll(struct sim_file *f)
{
	const struct local *u = local_of(f), *v = u->u_peer;
	bool stream = connects(u);
	int bits = u->u_error != 0 ? POLLERR : 0;

	if (u->u_no_read)
		bits |= POLLIN | POLLRDNORM | POLLRDHUP;
	if ((u->u_no_read && u->u_no_write) || (stream && u->u_state == FRESH))
		bits |= POLLHUP;
	if (u->u_first != NULL || u->u_queue != NULL)
		bits |= POLLIN | POLLRDNORM;
	if (u->u_state == LISTENING || !has_room(u) ||
	    (!stream && v != NULL && v->u_peer != u && v->u_packets > PACKETS))
		return bits;
	return bits | POLLOUT | POLLWRNORM | POLLWRBAND;
}

/* The end of u is told to those that are connected to it. */
static void peers_end(struct local *u)
{
	struct local *v;
	bool unread = u->u_first != NULL;

	for (v = all; v != NULL; v = v->u_all) {
		if (v->u_peer != u || v == u)
			continue;
		v->u_peer = NULL;
		v->u_was = true;
		v->u_peer_name = u->u_name;
		if (!connects(u))
			continue;
		v->u_no_read = v->u_no_write = true;
		v->u_error = unread ? ECONNRESET : v->u_error;
		sim_changed(&v->u_file, POLLIN | POLLOUT);
	}
}

/* Packets that u has sent and that were not read forget it. */
static void packets_end(const struct local *u)
{
	const struct local *v;
	struct packet *q;

	for (v = all; v != NULL; v = v->u_all)
		for (q = v->u_first; q != NULL; q = q->q_next)
			if (q->q_sender == u)
				q->q_sender = NULL;
}

static void local_close(struct sim_file *f)
{
	struct local *u = local_of(f), *v, **at;

	while ((v = u->u_queue) != NULL) {
		u->u_queue = v->u_next;
		if (v->u_peer != NULL)
			v->u_peer->u_error = ECONNRESET;
		local_close(&v->u_file);
	}
	peers_end(u);
	packets_end(u);
	for (at = &all; *at != u; at = &(*at)->u_all)
		;
	*at = u->u_all;
	while (u->u_first != NULL)
		packet_end(u);
	free(u);
}

/* Options. */

static int local_option(struct sim_file *f, int level, int name,
			const void *value, socklen_t n)
{
	int rc;

	if (level == SOL_SOCKET && name == SO_LINGER)
		return sim_linger(&local_of(f)->u_linger, value, n);
	rc = sim_option_common(f, level, name, value, n);
	if (rc > 0)
		usim_fail("setsockopt(%d, %d) is not simulated", level, name);
	if (rc == 0 && name == SO_KEEPALIVE)
		local_of(f)->u_keep = *(const int *)value != 0;
	else if (rc == 0 && name == SO_REUSEADDR)
		local_of(f)->u_reuse = *(const int *)value != 0;
	return rc;
}

static int local_option_get(struct sim_file *f, int level, int name,
			    void *value, socklen_t *n)
{
	struct local *u = local_of(f);
	int result;

	if (level != SOL_SOCKET)
		return -EOPNOTSUPP;
	switch (name) {
	case SO_LINGER:		return sim_linger_put(u->u_linger, value, n);
	case SO_ERROR:		result = -sim_take_error(&u->u_error);		break;
	case SO_TYPE:		result = u->u_type;			break;
	case SO_ACCEPTCONN:	result = u->u_state == LISTENING;	break;
	case SO_DOMAIN:		result = AF_UNIX;			break;
	case SO_PROTOCOL:	result = 0;				break;
	case SO_KEEPALIVE:	result = u->u_keep;			break;
	case SO_REUSEADDR:	result = u->u_reuse;			break;
	case SO_SNDBUF:		result = (int)send_room(u);		break;
	case SO_RCVBUF:		result = f->f_receive_size != 0 ?
					f->f_receive_size : ROOM;	break;
	default:
		usim_fail("getsockopt(%d, %d) is not simulated", level, name);
	}
	return sim_option_put(result, value, n);
}

static int local_readable(struct sim_file *f)
{
	const struct local *u = local_of(f);
	const struct packet *q = u->u_first;
	size_t size = 0;

	if (u->u_state == LISTENING)
		return -EINVAL;
	for (; q != NULL; q = connects(u) ? q->q_next : NULL)
		size += q->q_size - q->q_at;
	return (int)size;
}

bool sim_is_unix(const struct sim_file *f)
{
	return is_local(f);
}

static int local_unlisten(struct sim_file *f)
{
	struct local *u = local_of(f);

	if (u->u_state != LISTENING)
		return -EINVAL;
	u->u_no_new = true;
	return 0;
}

static const struct sim_socket_ops local_ops = {
	local_bind, local_listen, local_accept, local_connect, local_connected,
	local_shutdown, local_name, local_peer, local_send, local_receive,
	local_option, local_option_get, local_readable, NULL, local_unlisten, NULL
};

static const struct sim_file_ops stream_ops = {
	"Unix stream", local_read, local_write, local_poll, local_close,
	local_close, true, &local_ops
}, datagram_ops = {
	"Unix datagram socket", local_read, local_write, local_poll, local_close,
	local_close, false, &local_ops
};
