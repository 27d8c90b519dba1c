/* SPDX-License-Identifier: MIT */
/* soption.c: options that all sockets have, those of snet.c and of sunix.c; addresses. */

#include "sim.h"

#include <errno.h>
#include <string.h>

#define MEMORY_MOST	212992		/* net.core.wmem_max, rmem_max */
#define SEND_LEAST	4608
#define RECEIVE_LEAST	2304

int sim_address_check(const struct sockaddr *a, socklen_t n)
{
	if (n > sizeof(struct sockaddr_storage))
		return -EINVAL;
	return n > 0 && a == NULL ? -EFAULT : 0;
}

int sim_room_check(const struct sockaddr *a, const socklen_t *n)
{
	if (n == NULL)
		return -EFAULT;
	if ((int)*n < 0)
		return -EINVAL;
	return *n > 0 && a == NULL ? -EFAULT : 0;
}

/* Sets a time-out; a negative time is none that waits. */
static int time_set(utime_ns *to, const void *value)
{
	struct timeval t;

	memcpy(&t, value, sizeof t);
	if (t.tv_usec < 0 || t.tv_usec >= 1000000)
		return -EDOM;
	*to = t.tv_sec < 0 ? 1 : sim_ns_of_timeval(&t);
	return 0;
}

/* Linux doubles a size, for its own use, within limits. */
static int size_of(const void *value, unsigned least)
{
	unsigned size;

	memcpy(&size, value, sizeof size);
	size = 2 * (size < MEMORY_MOST ? size : MEMORY_MOST);
	return (int)(size > least ? size : least);
}

/* Options that change nothing here are taken. */
int sim_option_common(struct sim_file *f, int level, int name, const void *value,
		      socklen_t n)
{
	bool is_time = level == SOL_SOCKET &&
		(name == SO_RCVTIMEO || name == SO_SNDTIMEO);

	if (n < (socklen_t)(is_time ? sizeof(struct timeval) : sizeof(int)))
		return -EINVAL;
	if (is_time)
		return time_set(name == SO_RCVTIMEO ? &f->f_read_time :
				&f->f_write_time, value);
	if (level != SOL_SOCKET)
		return 1;
	switch (name) {
	case SO_SNDBUF:
		f->f_send_size = size_of(value, SEND_LEAST);
		return 0;
	case SO_RCVBUF:
		f->f_receive_size = size_of(value, RECEIVE_LEAST);
		return 0;
	case SO_REUSEADDR:
	case SO_KEEPALIVE:
		return 0;
	case SO_TYPE:
	case SO_ERROR:
	case SO_DOMAIN:
	case SO_PROTOCOL:
	case SO_ACCEPTCONN:
		return -ENOPROTOOPT;
	default:
		return 1;
	}
}

int sim_option(struct sim_file *f, int level, int name, const void *value, socklen_t n)
{
	if ((int)n < 0)
		return -EINVAL;
	if (sim_is_unix(f) && level != SOL_SOCKET)
		return -EOPNOTSUPP;
	if (n < sizeof(int))
		return -EINVAL;
	return value == NULL ? -EFAULT :
		f->f_ops->o_socket->s_option(f, level, name, value, n);
}

static int time_put(utime_ns ns, void *value, socklen_t *n)
{
	struct timeval t = sim_timeval_of(ns);

	*n = *n < sizeof t ? *n : sizeof t;
	memcpy(value, &t, *n);
	return 0;
}

int sim_option_get(struct sim_file *f, int level, int name, void *value, socklen_t *n)
{
	char room[64] = { 0 };
	socklen_t size;
	int rc = sim_room_check((void *)room, n);

	if (rc != 0)
		return rc;
	size = *n < sizeof room ? *n : sizeof room;
	if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO))
		rc = time_put(name == SO_RCVTIMEO ? f->f_read_time : f->f_write_time,
			      room, &size);
	else
		rc = f->f_ops->o_socket->s_option_get(f, level, name, room, &size);
	if (rc != 0)
		return rc;
	if (size > 0 && value == NULL)
		return -EFAULT;
	if (size > 0)
		memcpy(value, room, size);
	*n = size;
	return 0;
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
