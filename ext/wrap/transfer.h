/* SPDX-License-Identifier: MIT */
/* transfer.h: reads and writes of a descriptor. A part of uwrap.c. */

#ifndef UWRAP_TRANSFER_H
#define UWRAP_TRANSFER_H

/*
 * All reads and writes are messages (struct msghdr):
 *
 *	receive(), transmit()	a call of the program
 *	all()			parts: all of them if libc would go on
 *	some()			a part: tries, and waits in between
 *	try()			a try, which never blocks
 */

#include "hook.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

struct io {
	int           o_fd;
	int           o_flags;
	bool          o_out;
	bool          o_any;	/* read() and the like: maybe no socket */
	bool          o_final;	/* libc has answered: this is the result */
	utime_ns      o_until;	/* 0: not known so far */
	struct msghdr o_msg;	/* what is left to do */
	struct iovec  o_part;	/* of the first iovec */
};

/* Returns whether a call that finds nothing would block in libc. */
static bool blocks(const struct io *o)
{
	return !(o->o_flags & (MSG_OOB | MSG_ERRQUEUE)) &&
		!o->o_final && !is_nonblocking(o->o_fd);
}

static bool is_ready(int fd, short what)
{
	struct pollfd f = { .fd = fd, .events = what };

	return REAL(poll)(&f, 1, 0) != 0;
}

static bool is_always_ready(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) ||
		S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode));
}

static ssize_t call_file(const struct io *o)
{
	const struct iovec *v = o->o_msg.msg_iov;
	int nr = (int)o->o_msg.msg_iovlen;

	return result(o->o_out ? REAL(writev)(o->o_fd, v, nr) :
		      REAL(readv)(o->o_fd, v, nr));
}

#if defined(RWF_NOWAIT)
/* -EOPNOTSUPP: the system cannot do that for this file. */
static ssize_t try_nowait(const struct io *o)
{
	const struct iovec *v = o->o_msg.msg_iov;
	int nr = (int)o->o_msg.msg_iovlen;
	ssize_t rc = result(o->o_out ?
			    pwritev2(o->o_fd, v, nr, -1, RWF_NOWAIT) :
			    preadv2(o->o_fd, v, nr, -1, RWF_NOWAIT));

	return rc == -ENOSYS ? -EOPNOTSUPP : rc;
}
#else
static ssize_t try_nowait(const struct io *o)
{
	return (void)o, -EOPNOTSUPP;
}
#endif

/* Where ready means only that some bytes fit. */
static ssize_t write_some(const struct io *o)
{
	const struct iovec *v = o->o_msg.msg_iov;
	size_t nr = o->o_msg.msg_iovlen;
	struct iovec part;

	for (; nr > 1 && v->iov_len == 0; nr--)
		v++;
	part = *v;
	if (part.iov_len > PIPE_BUF)
		part.iov_len = PIPE_BUF;
	return result(REAL(writev)(o->o_fd, &part, 1));
}

/* Tries to read or write what is no socket. */
static ssize_t try_file(struct io *o)
{
	ssize_t rc;

	o->o_final = is_always_ready(o->o_fd);
	if (o->o_final)
		return call_file(o);
	rc = try_nowait(o);
	if (rc != -EOPNOTSUPP)
		return rc;
	if (is_nonblocking(o->o_fd))
		return call_file(o);
	if (!is_ready(o->o_fd, o->o_out ? POLLOUT : POLLIN))
		return -EAGAIN;
	return o->o_out ? write_some(o) : call_file(o);
}

/* Tries. 0 or more; -EAGAIN: it would block; or another error. */
static ssize_t try(struct io *o)
{
	int flags = o->o_flags | MSG_DONTWAIT;
	ssize_t rc;

	rc = result(o->o_out ? REAL(sendmsg)(o->o_fd, &o->o_msg, flags) :
		    REAL(recvmsg)(o->o_fd, &o->o_msg, flags));
	return rc == -ENOTSOCK && o->o_any ? try_file(o) : rc;
}

/* Tries again, after a wait. 0: also if the socket is shut, as in libc. */
static ssize_t try_again(struct io *o)
{
	ssize_t rc = try(o);

	if (rc != -EAGAIN || o->o_out || !is_shut(o->o_fd))
		return rc;
	rc = try(o);
	if (rc != -EAGAIN)
		return rc;
	o->o_msg.msg_namelen = o->o_msg.msg_controllen = 0;
	o->o_msg.msg_flags = 0;
	return 0;
}

/*
 * Returns whether a try that gave rc would block in libc. With MSG_FASTOPEN the
 * first try begins to connect.
 */
static bool would_block(struct io *o, ssize_t rc)
{
	if ((rc != -EAGAIN && rc != -EINPROGRESS) || !blocks(o))
		return false;
	o->o_flags &= ~MSG_FASTOPEN;
	return true;
}

/* Reads or writes something, after as many waits as it takes. */
static ssize_t some(struct io *o)
{
	ssize_t rc = try(o);
	unsigned vain = 0;

	if (!would_block(o, rc))
		return rc;
	if (o->o_until == 0)
		o->o_until = deadline(o->o_fd,
				      o->o_out ? SO_SNDTIMEO : SO_RCVTIMEO);
	do
		rc = wait_for(o->o_fd, o->o_out ? UWRITE : UREAD, o->o_until,
			      vain++);
	while (rc == 0 && (rc = try_again(o)) == -EAGAIN);
	return rc;
}

static size_t size_of(const struct msghdr *m)
{
	size_t size = 0, i;

	for (i = 0; i < (size_t)m->msg_iovlen; i++)
		size += m->msg_iov[i].iov_len;
	return size;
}

/*
 * Lets o go on behind the first `done` bytes of m. To write: control messages
 * went with the first part. To read: they may come with each, to where m has
 * `room` for them.
 */
static void go_on(struct io *o, const struct msghdr *m, size_t done, size_t room)
{
	struct iovec *v = m->msg_iov;
	size_t nr = m->msg_iovlen;

	for (; done >= v->iov_len; v++, nr--)
		done -= v->iov_len;
	o->o_msg.msg_iov = v;
	o->o_msg.msg_iovlen = nr;
	if (done > 0) {
		o->o_part.iov_base = (char *)v->iov_base + done;
		o->o_part.iov_len  = v->iov_len - done;
		o->o_msg.msg_iov = &o->o_part;
		o->o_msg.msg_iovlen = 1;
	}
	o->o_msg.msg_control = o->o_out ? NULL : m->msg_control;
	o->o_msg.msg_controllen = o->o_out ? 0 : room;
}

static bool is_stream(int fd)
{
	socklen_t size = sizeof(int);
	int type;

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
		type == SOCK_STREAM;
}

/* Returns whether libc would go on after a part: writes, and MSG_WAITALL. */
static bool wants_all(const struct io *o)
{
	return (o->o_out || (o->o_flags & (MSG_WAITALL | MSG_PEEK)) ==
		MSG_WAITALL) && blocks(o) && is_stream(o->o_fd);
}

/* Tells the caller what recvmsg() has found, beside bytes. */
static void tell_back(struct msghdr *m, const struct msghdr *found)
{
	m->msg_namelen    = found->msg_namelen;
	m->msg_controllen = found->msg_controllen;
	m->msg_flags      = found->msg_flags;
}

/* Returns whether descriptors came with a part: it is the last, also in libc. */
static bool has_descriptors(struct msghdr *m)
{
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			return true;
	return m->msg_flags & MSG_CTRUNC;
}

/* Reads or writes a part. Returns its size, or an error. Sets *last. */
static ssize_t part(struct io *o, struct msghdr *m, bool *last)
{
	ssize_t rc = some(o);

	if (rc >= 0 && !o->o_out) {
		tell_back(m, &o->o_msg);
		*last = has_descriptors(&o->o_msg);
	}
	return rc;
}

/* Does what libc would do before it returns. */
static ssize_t all(struct io *o, struct msghdr *m)
{
	size_t room = m->msg_controllen;
	bool last = false;
	ssize_t done, rc;
	size_t size;

	o->o_msg = *m;
	done = part(o, m, &last);
	if (done <= 0 || (size_t)done >= (size = size_of(m)) || !wants_all(o))
		return done;
	while ((size_t)done < size && !last) {
		go_on(o, m, done, room);
		rc = part(o, m, &last);
		if (rc <= 0)
			break;
		done += rc;
	}
	return done;
}

static ssize_t receive(int fd, struct msghdr *m, int flags, bool any)
{
	struct io o = { .o_fd = fd, .o_flags = flags, .o_any = any };
	int kept = errno_now();
	ssize_t rc = all(&o, m);

	fair();
	return finish(rc, kept);
}

static ssize_t transmit(int fd, const struct msghdr *m, int flags, bool any)
{
	struct io o = { .o_fd = fd, .o_flags = flags, .o_any = any,
			.o_out = true };
	int kept = errno_now();

	return finish(all(&o, (struct msghdr *)(uintptr_t)m), kept);
}

#endif /* UWRAP_TRANSFER_H */
