/* yard.h: what leases.c, commit.c and views.c share: messages, a log on disk, a client's call. */

#ifndef YARD_H
#define YARD_H

/*
 * NET. Each host is one thread that takes one message after another, by net_next(). A message
 * has a fixed size, so a stream needs no other framing. By net_post() a host sends without
 * waiting, and a message may be lost. A protocol asks again, by its ticks.
 *
 * A net is of datagrams, or of streams. A stream carries messages one way: a host accepts what
 * it reads, and dials what it writes. It dials again if it has heard nothing from a host for a
 * second, since a host does not hear that another has crashed. What the old stream had may still
 * come later.
 *
 * LOG. A log is a file of records, all of the same size, each with a sum. A boot reads it up to
 * the first record that is not whole, and writes all it has read to a new file. This is not only
 * for the torn end: what was read may be in memory only, after a sync that failed.
 * No error of a disk is survived: the caller exits, and the next boot knows what is stored.
 */

#include <usched/uhistory.h>
#include <usched/usim.h>

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	NET_HOSTS = 10,
	NET_INS = 40,
	NET_QUEUE = 32,
	NET_PORT = 77,
	NET_DEAF_MS = 1000,
	MSG_KEYS = 9
};

/* A message. Each kind has its own fields of these, and the others are 0. */
struct msg {
	int32_t m_kind, m_from;
	int32_t m_client, m_op;		/* who called, for what */
	int64_t m_seq, m_try;		/* the number of a call, of a try */
	int64_t m_key, m_value, m_old;	/* what for, and what a swap expects */
	int64_t m_result;
	int64_t m_term;			/* a token, a transaction, a view */
	int64_t m_nr, m_index;		/* others */
	int64_t m_values[MSG_KEYS], m_versions[MSG_KEYS];
};

struct net_out {
	int o_fd;			/* 0: none */
	int64_t o_dialed, o_heard;
	size_t o_used;
	char o_bytes[NET_QUEUE * sizeof(struct msg)];
};

struct net_in {
	int i_fd;
	size_t i_have;
	struct msg i_msg;
};

struct net {
	int n_self, n_nr, n_udp, n_fd, n_ins;
	struct sockaddr_in n_at[NET_HOSTS];
	struct net_out n_out[NET_HOSTS];
	struct net_in n_in[NET_INS];
};

static inline int64_t clock_ms(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static inline int64_t now_ms(void)
{
	return clock_ms(CLOCK_MONOTONIC);
}

static inline void sleep_ms(int ms)
{
	usleep((useconds_t)ms * 1000);
}

static inline void die(const char *why)
{
	usim_log("exits: %s", why);
	exit(1);
}

/* Prepares the net of the caller's host. names[1] to names[nr] are all hosts, in order. */
static void net_open(struct net *n, const char *const *names, int nr, int udp)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *at;
	struct sockaddr_in me = { .sin_family = AF_INET, .sin_port = htons(NET_PORT) };
	int i;

	memset(n, 0, sizeof *n);
	n->n_self = usim_self();
	n->n_nr = nr;
	n->n_udp = udp;
	for (i = 1; i <= nr; i++) {
		USIM_CHECK(getaddrinfo(names[i], "77", &hints, &at) == 0);
		memcpy(&n->n_at[i], at->ai_addr, sizeof n->n_at[i]);
		freeaddrinfo(at);
	}
	n->n_fd = socket(AF_INET, (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_NONBLOCK, 0);
	USIM_CHECK(n->n_fd >= 0);
	USIM_CHECK(bind(n->n_fd, (struct sockaddr *)&me, sizeof me) == 0);
	USIM_CHECK(udp || listen(n->n_fd, 16) == 0);
}

static void net_hang_up(struct net_out *o)
{
	if (o->o_fd > 0)
		close(o->o_fd);
	o->o_fd = 0;
	o->o_used = 0;
}

/* Writes what a stream takes of the queue. */
static void net_flush(struct net_out *o)
{
	ssize_t got = send(o->o_fd, o->o_bytes, o->o_used, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (got < 0 && errno != EAGAIN && errno != EINPROGRESS && errno != ENOTCONN)
		net_hang_up(o);
	if (got <= 0)
		return;
	o->o_used -= (size_t)got;
	memmove(o->o_bytes, o->o_bytes + got, o->o_used);
}

static void net_dial(struct net *n, int to)
{
	struct net_out *o = &n->n_out[to];
	struct sockaddr *at = (struct sockaddr *)&n->n_at[to];

	o->o_dialed = now_ms();
	o->o_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	USIM_CHECK(o->o_fd > 0);
	if (connect(o->o_fd, at, sizeof n->n_at[to]) != 0 && errno != EINPROGRESS)
		net_hang_up(o);
}

/* Sends a message, or loses it. Does not wait. */
static void net_post(struct net *n, int to, struct msg *m)
{
	struct net_out *o = &n->n_out[to];
	int64_t now = now_ms();

	m->m_from = n->n_self;
	if (n->n_udp) {
		sendto(n->n_fd, m, sizeof *m, 0, (struct sockaddr *)&n->n_at[to],
		       sizeof n->n_at[to]);
		return;
	}
	if (o->o_fd > 0 && now > o->o_dialed + NET_DEAF_MS && now > o->o_heard + NET_DEAF_MS)
		net_hang_up(o);
	if (o->o_fd > 0 && o->o_used + sizeof *m > sizeof o->o_bytes)
		net_hang_up(o);
	if (o->o_fd <= 0)
		net_dial(n, to);
	if (o->o_fd <= 0)
		return;
	memcpy(o->o_bytes + o->o_used, m, sizeof *m);
	o->o_used += sizeof *m;
	net_flush(o);
}

static void net_accept(struct net *n)
{
	int fd = accept(n->n_fd, NULL, NULL);

	if (fd < 0)
		return;
	if (n->n_ins == NET_INS) {	/* the first is the oldest */
		close(n->n_in[0].i_fd);
		memmove(n->n_in, n->n_in + 1, (NET_INS - 1) * sizeof n->n_in[0]);
		n->n_ins--;
	}
	n->n_in[n->n_ins++] = (struct net_in){ .i_fd = fd };
}

/* Reads from a stream. 1: a message is whole. 0: not yet. -1: the stream has ended. */
static int net_read(struct net *n, struct net_in *in, struct msg *m)
{
	ssize_t got = recv(in->i_fd, (char *)&in->i_msg + in->i_have,
			   sizeof *m - in->i_have, MSG_DONTWAIT);

	if (got == 0 || (got < 0 && errno != EAGAIN))
		return -1;
	if (got < 0 || (in->i_have += (size_t)got) < sizeof *m)
		return 0;
	in->i_have = 0;
	*m = in->i_msg;
	n->n_out[m->m_from].o_heard = now_ms();
	return 1;
}

/* Looks at streams that have something. 1: m is a message. */
static int net_streams(struct net *n, struct pollfd *p, struct msg *m)
{
	int i, got;

	for (i = n->n_ins - 1; i >= 0; i--) {
		if (p[i].revents == 0)
			continue;
		got = net_read(n, &n->n_in[i], m);
		if (got > 0)
			return 1;
		if (got < 0) {
			close(n->n_in[i].i_fd);
			memmove(&n->n_in[i], &n->n_in[i + 1],
				(size_t)(--n->n_ins - i) * sizeof n->n_in[0]);
		}
	}
	return 0;
}

static int net_poll(struct net *n, struct msg *m, int ms)
{
	struct pollfd p[1 + NET_INS + NET_HOSTS];
	int i, nr = 0, outs[NET_HOSTS], first, got;

	for (i = 0; i < n->n_ins; i++)
		p[nr++] = (struct pollfd){ .fd = n->n_in[i].i_fd, .events = POLLIN };
	first = nr;
	for (i = 1; i <= n->n_nr; i++) {
		if (n->n_out[i].o_used == 0)
			continue;
		outs[nr - first] = i;
		p[nr++] = (struct pollfd){ .fd = n->n_out[i].o_fd, .events = POLLOUT };
	}
	p[nr] = (struct pollfd){ .fd = n->n_fd, .events = POLLIN };
	if (poll(p, (nfds_t)nr + 1, ms) <= 0)
		return 0;
	for (i = first; i < nr; i++)
		if (p[i].revents != 0)
			net_flush(&n->n_out[outs[i - first]]);
	got = net_streams(n, p, m);
	if (p[nr].revents != 0)
		net_accept(n);
	return got;
}

/* Waits for a message until a time. 1: m is one. 0: there is none. */
static int net_next(struct net *n, struct msg *m, int64_t until)
{
	int64_t left;
	struct pollfd p = { .fd = n->n_fd, .events = POLLIN };

	for (;;) {
		left = until - now_ms();
		if (left < 0)
			left = 0;
		if (!n->n_udp && net_poll(n, m, (int)left))
			return 1;
		if (n->n_udp && poll(&p, 1, (int)left) > 0 &&
		    recv(n->n_fd, m, sizeof *m, MSG_DONTWAIT) == sizeof *m)
			return 1;
		if (left == 0)
			return 0;
	}
}

/* A record. What is looked at first is in front, the rest is behind the memo. */
struct rec {
	uint32_t r_sum, r_kind;
	int64_t r_id;
	char r_memo[424];
	int64_t r_v[8];
};

struct log {
	const char *l_name;
	int l_fd, l_nr, l_room;
	struct rec *l_recs;		/* all of the file */
	int l_head_only;		/* sums are of the head only: an error, see commit.c */
	int l_in_place;			/* a boot writes the same file again: an error, too */
};

static uint32_t rec_sum(const struct log *l, const struct rec *r)
{
	const unsigned char *at = (const unsigned char *)r;
	size_t i, end = l->l_head_only ? offsetof(struct rec, r_memo) : sizeof *r;
	uint32_t sum = 2166136261u;

	for (i = sizeof r->r_sum; i < end; i++)
		sum = (sum ^ at[i]) * 16777619u;
	return sum;
}

static void log_keep(struct log *l, const struct rec *r)
{
	if (l->l_nr == l->l_room) {
		l->l_room = l->l_room * 2 + 64;
		l->l_recs = realloc(l->l_recs, (size_t)l->l_room * sizeof *r);
		USIM_CHECK(l->l_recs != NULL);
	}
	l->l_recs[l->l_nr++] = *r;
}

static int sync_folder(void)
{
	int fd = open(".", O_RDONLY | O_DIRECTORY), error = fd < 0 || fsync(fd) != 0;

	if (fd >= 0)
		close(fd);
	return error ? -1 : 0;
}

static int log_put(int fd, const struct rec *r, int at)
{
	return pwrite(fd, r, sizeof *r, (off_t)at * (off_t)sizeof *r) == sizeof *r ? 0 : -1;
}

/* Writes all records to a new file, and puts that in place. 0, or -1. */
static int log_rewrite(struct log *l)
{
	const char *name = l->l_in_place ? l->l_name : "new";
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600), i;

	if (fd < 0)
		return -1;
	for (i = 0; i < l->l_nr; i++)
		if (log_put(fd, &l->l_recs[i], i) != 0)
			goto error;
	if (fsync(fd) != 0)
		goto error;
	if (!l->l_in_place && rename(name, l->l_name) != 0)
		goto error;
	if (l->l_fd > 0)
		close(l->l_fd);
	l->l_fd = fd;
	return sync_folder();
error:
	close(fd);
	return -1;
}

/* Reads the records of a file, up to the first that is not whole. Exits on an error. */
static void log_open(struct log *l, const char *name)
{
	struct rec r = { .r_sum = 0 };
	ssize_t got;

	l->l_name = name;
	l->l_fd = open(name, O_RDWR | O_CREAT, 0600);
	if (l->l_fd < 0)
		die("cannot open the log");
	while ((got = pread(l->l_fd, &r, sizeof r, (off_t)l->l_nr * (off_t)sizeof r)) > 0) {
		if (r.r_sum != rec_sum(l, &r))
			break;
		log_keep(l, &r);
		memset(&r, 0, sizeof r);
	}
	usim_sometimes(got > 0, "a log has a torn end");
	if (got < 0 || log_rewrite(l) != 0)
		die("cannot write the log again");
}

/* Fills in what all records have. */
static void rec_seal(const struct log *l, struct rec *r)
{
	memset(r->r_memo, 'm', sizeof r->r_memo);
	r->r_sum = rec_sum(l, r);
}

/* Adds a record, and syncs it if that is asked for. 0, or -1: what is stored is not known. */
static int log_add(struct log *l, struct rec *r, int sync)
{
	rec_seal(l, r);
	if (log_put(l->l_fd, r, l->l_nr) != 0)
		return -1;
	log_keep(l, r);
	return sync && fsync(l->l_fd) != 0 ? -1 : 0;
}

/* Adds a record, and syncs it. Exits on an error. */
static inline void log_must(struct log *l, struct rec *r)
{
	if (log_add(l, r, 1) != 0)
		die("the disk fails");
}

static inline int bug_of(const char *name)
{
	const char *nr = getenv(name);

	return nr == NULL ? 0 : atoi(nr);
}

#endif /* YARD_H */
