/* SPDX-License-Identifier: MIT */
/* sudp.c: datagrams between hosts. */

/*
 * Each copy of a datagram has an event of its own, so they overtake each other.
 * A cut or a host that is down loses them, and so does a full socket. Where no
 * socket is bound, a connected sender has ECONNREFUSED at its next call.
 */

#define _GNU_SOURCE		/* POLLRDHUP */
#include "snet.h"

#define DATAGRAM_MOST	65507

static void datagram_refused(void *datagram)
{
	struct datagram *j = datagram;
	struct end *k = sim_bound_at(j->j_sender->h_boot, SOCK_DGRAM, j->j_from);

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

static size_t receive_room(const struct end *k)
{
	return k->k_file.f_receive_size != 0 ? (size_t)k->k_file.f_receive_size :
		DATAGRAM_ROOM;
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
	sim_mark_message(j->j_sender, to, j->j_state);
	if (sim_is_page)
		sim_page_message(j->j_sender, to, j->j_sent, "datagram",
				 j->j_size);
	k = sim_bound_at(to->h_boot, SOCK_DGRAM, j->j_to);
	if (k == NULL || !is_for(k, j)) {
		sim_at(sim_arrival(to, j->j_sender, 0), datagram_refused, j);
		return;
	}
	if (k->k_held + j->j_size > receive_room(k)) {
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

static int datagram_send(struct end *k, struct address to, struct sim_host *h,
			 const void *buf, size_t size)
{
	struct sim_host *from = k->k_file.f_boot->b_host;
	utime_ns late = 0;
	int copies;

	if (!sim_step_by(&k->k_file, AT_SEND))
		return -EBADF;
	copies = sim_copies(from, h, &late);
	while (copies-- > 0) {
		struct datagram *j = sim_alloc(sizeof *j + size);

		j->j_from = k->k_local;
		if (j->j_from.a_ip == INADDR_ANY)
			j->j_from.a_ip = h == from ? to.a_ip : sim_ip_of(from);
		j->j_to = to;
		j->j_sender = from;
		j->j_receiver = h;
		j->j_sent = sim_now();
		j->j_state = sim_mark_send(from);
		j->j_size = size;
		if (size > 0)
			memcpy(j->j_data, buf, size);
		sim_at(sim_arrival(from, h, size) + late, datagram_arrive, j);
	}
	if (from != h)
		sim_sent(from);
	sim_changed(&k->k_file, POLLOUT);	/* it has left, so there is room */
	sim_step(from, AT_SEND);
	return 0;
}

ssize_t sim_udp_send(struct sim_file *f, const void *buf, size_t size,
	     const struct sockaddr *a, socklen_t n)
{
	struct end *k = (struct end *)f;
	struct address at = k->k_peer;
	struct sim_host *to;
	int rc = 0;

	if (a != NULL)
		rc = sim_address_get(a, n, &at);
	if (rc != 0)
		return rc;
	if (at.a_port == 0)
		return a == NULL ? -EDESTADDRREQ : -EINVAL;
	if (size > DATAGRAM_MOST)
		return -EMSGSIZE;
	if (k->k_error != 0)
		return sim_take_error(&k->k_error);
	if (k->k_no_write)
		return -EPIPE;
	to = sim_host_at(f->f_boot->b_host, at.a_ip);
	if (to == NULL)
		return -ENETUNREACH;
	if (at.a_ip == INADDR_ANY)
		at.a_ip = INADDR_LOOPBACK;
	if (!k->k_bound)
		rc = sim_bind_to(k, (struct address) { INADDR_ANY, 0 });
	if (rc != 0 || (buf == NULL && size > 0))
		return rc != 0 ? rc : -EFAULT;
	rc = datagram_send(k, at, to, buf, size);
	return rc != 0 ? rc : (ssize_t)size;
}

ssize_t sim_udp_receive(struct sim_file *f, void *buf, size_t size, int flags,
		  struct sockaddr *a, socklen_t *n)
{
	struct end *k = (struct end *)f;
	struct datagram *j = k->k_first;
	ssize_t nr;

	if (k->k_error != 0)
		return sim_take_error(&k->k_error);
	if (j == NULL)		/* Linux sees the shutdown only where it would wait */
		return k->k_no_read && !(f->f_flags & O_NONBLOCK ||
					 flags & MSG_DONTWAIT) ? sim_no_address(n) : -EAGAIN;
	nr = (ssize_t)(size < j->j_size ? size : j->j_size);
	if (nr > 0 && buf != NULL)
		memcpy(buf, j->j_data, (size_t)nr);
	if (flags & MSG_TRUNC)
		nr = (ssize_t)j->j_size;
	sim_address_put(j->j_from, a, n);
	if (flags & MSG_PEEK)
		return nr > 0 && buf == NULL ? -EFAULT : nr;
	k->k_first = j->j_next;
	k->k_held -= j->j_size;
	free(j);
	return nr > 0 && buf == NULL ? -EFAULT : nr;
}

static ssize_t datagram_read(struct sim_file *f, void *buf, size_t size, int flags)
{
	return sim_udp_receive(f, buf, size, flags, NULL, NULL);
}

static ssize_t datagram_write(struct sim_file *f, const void *buf, size_t size)
{
	return sim_udp_send(f, buf, size, NULL, 0);
}

static int datagram_poll(struct sim_file *f)
{
	struct end *k = (struct end *)f;

	return POLLOUT | POLLWRNORM | POLLWRBAND |
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

const struct sim_file_ops sim_udp_ops = {
	"datagram socket", datagram_read, datagram_write, datagram_poll,
	datagram_close, datagram_close, false, &sim_inet_ops
};
