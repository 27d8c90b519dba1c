/* SPDX-License-Identifier: MIT */
/* scalls.c: calls that wait, for the names of libc and for those of lib/io/. */

/*
 * Operations of files never wait (sfile.c). Here is the waiting: a call that has
 * -EAGAIN waits for the file, and tries again. How long, the caller says:
 *
 *	SIM_BY_FILE	as the file says: O_NONBLOCK, SO_RCVTIMEO. -EAGAIN at
 *			the end. For the names of libc.
 *	else		until then, even if the file is non-blocking. 0: not at
 *			all, with -EAGAIN. -ETIMEDOUT at the end. For lib/io/.
 *
 * A handler of a signal ends a wait with -EINTR, by the names of libc. With
 * SA_RESTART the call goes on, unless the file has a time-out. By those of lib/io/ it
 * always goes on.
 *
 * Results are a count or -errno, since other threads may run between an error
 * and its errno.
 */

#define _GNU_SOURCE		/* struct ucred, MSG_CMSG_CLOEXEC */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define CALL_MOST	((size_t)0x7ffff000)	/* bytes that a call moves */

/* Returns until when a call of b waits at most. */
static utime_ns limit(const struct sim_boot *b, utime_ns until, utime_ns by_file)
{
	return until != SIM_BY_FILE ? until :
		by_file == 0 ? UNEVER : sim_after(b->b_host, by_file);
}

static bool waits(const struct sim_file *f, int flags, utime_ns until)
{
	if (flags & MSG_DONTWAIT)
		return false;
	return until == SIM_BY_FILE ? !(f->f_flags & O_NONBLOCK) : until > 0;
}

/*
 * Waits for f, the file of fd; NULL: for any change. 0: the caller tries again. At
 * -ERESTART it does so if nothing has been moved. A file that was closed meanwhile
 * is gone.
 */
static int wait_for(struct sim_boot *b, int fd, struct sim_file *f, bool any,
		    utime_ns until, utime_ns end)
{
	int rc = sim_wait(b, any ? NULL : f, end);

	if ((rc == -ERESTART || rc == -EINTR) && until != SIM_BY_FILE)
		rc = 0;
	if (rc == -ERESTART && end != UNEVER)
		rc = -EINTR;
	if ((rc == 0 || rc == -ERESTART) && sim_file(b, fd) != f)
		rc = -EBADF;
	return rc == -ETIMEDOUT && until == SIM_BY_FILE ? -EAGAIN : rc;
}

/* Where Linux has no word for a flag of a call, it does nothing. */
static void check_flags(const char *call, int flags)
{
	flags &= ~(MSG_EOR | MSG_CONFIRM);
	if (flags & ~(MSG_PEEK | MSG_DONTWAIT | MSG_NOSIGNAL | MSG_TRUNC |
		      MSG_WAITALL | MSG_MORE | MSG_CMSG_CLOEXEC))
		usim_fail("%s() with flags %#x is not simulated", call, flags);
}

/* What a call moves. */
struct transfer {
	char                  *t_data;
	size_t                 t_size;
	int                    t_flags;
	struct sockaddr       *t_from;
	const struct sockaddr *t_to;
	socklen_t              t_to_size, *t_from_size;
	bool                   t_begun;		/* a part has been moved */
	struct sim_rights     *t_rights;	/* or NULL */
};

static ssize_t read_once(struct sim_file *f, const struct transfer *t)
{
	if (t->t_rights != NULL && sim_is_unix(f))
		return sim_unix_receive(f, t->t_data, t->t_size, t->t_flags,
					t->t_from, t->t_from_size, t->t_rights);
	return t->t_from != NULL ?
		f->f_ops->o_socket->s_receive(f, t->t_data, t->t_size,
			t->t_flags, t->t_from, t->t_from_size) :
		f->f_ops->o_read(f, t->t_data, t->t_size, t->t_flags);
}

/* Tries until it need not wait, or must not. */
static inline ssize_t retry(struct sim_boot *b, int fd, struct sim_file *f,
		     const struct transfer *t, utime_ns until, utime_ns end,
		     ssize_t (*once)(struct sim_file *f, const struct transfer *t))
{
	ssize_t rc;

	do {
		rc = once(f, t);
		if (rc != -EAGAIN || !waits(f, t->t_flags, until))
			break;
		rc = wait_for(b, fd, f, false, until, end);
	} while (rc == 0 || (rc == -ERESTART && !t->t_begun));
	return rc == -ERESTART ? -EINTR : rc;
}

static ssize_t read_some(struct sim_boot *b, int fd, const struct transfer *t,
			 utime_ns until)
{
	struct sim_file *f = sim_file(b, fd);
	ssize_t rc;

	if (f == NULL || !sim_may_read(f))
		return -EBADF;
	if (f->f_ops->o_read == NULL)
		return -EINVAL;
	if ((ssize_t)t->t_size < 0)
		return -EFAULT;
	rc = retry(b, fd, f, t, until, limit(b, until, f->f_read_time), read_once);
	sim_hash((uint64_t)rc);
	return rc;
}

/* Notes that nr bytes have been moved. */
static void moved(struct transfer *t, ssize_t nr)
{
	t->t_data += nr;
	t->t_size -= (size_t)nr;
	t->t_begun = true;
}

/* With MSG_WAITALL the rest of a stream is read, too, up to descriptors. */
static ssize_t read_all(struct sim_boot *b, int fd, struct transfer *t,
			utime_ns until)
{
	const struct sim_file *f = sim_file(b, fd);
	bool whole = t->t_flags & MSG_WAITALL && f != NULL && f->f_ops->o_whole;
	ssize_t all = 0, nr;

	do {
		nr = read_some(b, fd, t, until);
		if (nr <= 0)
			break;
		all += nr;
		moved(t, nr);
		whole &= t->t_rights == NULL || t->t_rights->r_nr == 0;
	} while (whole && t->t_size > 0);
	return all > 0 ? all : nr;
}

ssize_t sim_read(struct sim_boot *b, int fd, void *buf, size_t size, int flags,
		 struct sockaddr *a, socklen_t *n, utime_ns until)
{
	struct transfer t = { .t_data = buf, .t_size = size, .t_flags = flags,
		.t_from = a, .t_from_size = n };

	return read_all(b, fd, &t, until);
}

static ssize_t write_once(struct sim_file *f, const struct transfer *t)
{
	if (t->t_rights != NULL && sim_is_unix(f))
		return sim_unix_send(f, t->t_data, t->t_size, t->t_to,
				     t->t_to_size, t->t_rights);
	return t->t_to != NULL ?
		f->f_ops->o_socket->s_send(f, t->t_data, t->t_size, t->t_to,
					   t->t_to_size) :
		f->f_ops->o_write(f, t->t_data, t->t_size);
}

static ssize_t write_some(struct sim_boot *b, int fd, const struct transfer *t,
			  utime_ns until)
{
	struct sim_file *f = sim_file(b, fd);

	if (f == NULL || !sim_may_write(f))
		return -EBADF;
	if (f->f_ops->o_write == NULL)
		return -EINVAL;
	if ((ssize_t)t->t_size < 0)
		return -EFAULT;
	return retry(b, fd, f, t, until, limit(b, until, f->f_write_time),
		     write_once);
}

/*
 * A blocking write of a stream returns when all is written, by libc's names. By
 * those of lib/io/ it returns what has found room.
 */
static ssize_t write_all(struct sim_boot *b, int fd, struct transfer *t,
			 utime_ns until)
{
	struct sim_file *f = sim_file(b, fd);
	bool stream = f != NULL && f->f_ops->o_whole && until == SIM_BY_FILE;
	bool whole = stream && waits(f, t->t_flags, until);
	ssize_t all = 0, nr;

	if (fd == 1 || fd == 2) {
		usim_log("%.*s", (int)t->t_size, t->t_data);
		return (ssize_t)t->t_size;
	}
	do {
		nr = write_some(b, fd, t, until);
		if (nr <= 0)
			break;
		all += nr;
		moved(t, nr);
		t->t_rights = NULL;
	} while (whole && t->t_size > 0);
	if (nr == -EPIPE && stream && all == 0 && !(t->t_flags & MSG_NOSIGNAL))
		sim_signal(b, SIGPIPE);
	return all > 0 ? all : nr;
}

ssize_t sim_write(struct sim_boot *b, int fd, const void *buf, size_t size,
		  int flags, const struct sockaddr *a, socklen_t n, utime_ns until)
{
	struct transfer t = { .t_data = (char *)buf, .t_size = size,
		.t_flags = flags, .t_to = a, .t_to_size = n };

	return write_all(b, fd, &t, until);
}

struct sim_file *sim_socket_of(struct sim_boot *b, int fd, int *rc)
{
	struct sim_file *f = sim_file(b, fd);

	*rc = f == NULL ? -EBADF : f->f_ops->o_socket != NULL ? 0 : -ENOTSOCK;
	return *rc == 0 ? f : NULL;
}

static int not_a_socket(struct sim_boot *b, int fd)
{
	int rc;

	(void)sim_socket_of(b, fd, &rc);
	return rc;
}

ssize_t sim_receive(struct sim_boot *b, int fd, void *buf, size_t size, int flags,
		    struct sockaddr *a, socklen_t *n, utime_ns until)
{
	int rc = not_a_socket(b, fd);
	struct sockaddr_storage from;
	socklen_t from_size = sizeof from;
	ssize_t nr;

	if (rc != 0)
		return rc;
	check_flags("recv", flags);
	size = size < CALL_MOST ? size : CALL_MOST;
	rc = a == NULL ? 0 : sim_room_check(a, n);
	if (rc == 0) {
		from_size = a == NULL ? 0 : *n;
		nr = sim_read(b, fd, buf, size, flags, a, a == NULL ? NULL : n, until);
		if (nr < 0 && a != NULL)
			*n = from_size;
		return nr;
	}
	/* Linux sees that the address has no room when it has read. */
	nr = sim_read(b, fd, buf, size, flags, (struct sockaddr *)&from, &from_size, until);
	return nr < 0 ? nr : rc;
}

ssize_t sim_send(struct sim_boot *b, int fd, const void *buf, size_t size,
		 int flags, const struct sockaddr *a, socklen_t n, utime_ns until)
{
	int rc = not_a_socket(b, fd);

	if (rc == 0 && a != NULL)
		rc = sim_address_check(a, n);
	if (rc != 0)
		return rc;
	check_flags("send", flags);
	return sim_write(b, fd, buf, size, flags, a, n, until);
}

/* Several buffers, which become one. Without bytes nothing is moved, and none waits. */

static int read_check(const struct sim_file *f)
{
	return !sim_may_read(f) ? -EBADF : f->f_ops->o_read == NULL ? -EINVAL : 0;
}

static int write_check(const struct sim_file *f)
{
	return !sim_may_write(f) ? -EBADF : f->f_ops->o_write == NULL ? -EINVAL : 0;
}

/*
 * Returns the size of all, or -error. *nr becomes the parts that can be used: from a
 * part that is NULL on there are none. If it is the first with bytes, *nr is 0.
 */
static ssize_t total(const struct iovec *v, int *nr)
{
	ssize_t size = 0;
	int i, all = *nr;

	if (all < 0 || all > 1024)
		return -EINVAL;
	if (all > 0 && v == NULL)
		return -EFAULT;
	for (i = 0; i < all; i++) {
		if ((ssize_t)v[i].iov_len < 0)
			return -EINVAL;
		if (v[i].iov_base == NULL && v[i].iov_len > 0 && *nr == all)
			*nr = size == 0 ? 0 : i;
		if (*nr == all || *nr == 0)
			size += (ssize_t)v[i].iov_len;
	}
	return size;
}

static void gather(char *to, const struct iovec *v, int nr)
{
	int i;

	for (i = 0; i < nr; to += v[i++].iov_len)
		if (v[i].iov_len > 0)
			memcpy(to, v[i].iov_base, v[i].iov_len);
}

static void scatter(const char *from, size_t size, const struct iovec *v, int nr)
{
	size_t part;
	int i;

	for (i = 0; i < nr && size > 0; i++) {
		part = size < v[i].iov_len ? size : v[i].iov_len;
		if (part > 0)
			memcpy(v[i].iov_base, from, part);
		from += part;
		size -= part;
	}
}

ssize_t sim_writev(struct sim_boot *b, int fd, const struct iovec *v, int nr,
		   utime_ns until)
{
	ssize_t rc = sim_file(b, fd) == NULL && fd != 1 && fd != 2 ? -EBADF : total(v, &nr);
	ssize_t size = rc;
	char *all;

	if (rc < 0)
		return rc;
	if (size == 0 && fd != 1 && fd != 2)
		return write_check(sim_file(b, fd));
	if (nr == 0 && size > 0)
		return sim_write(b, fd, NULL, (size_t)size, 0, NULL, 0, until);
	all = sim_alloc((size_t)size + 1);
	gather(all, v, nr);
	rc = sim_write(b, fd, all, (size_t)size, 0, NULL, 0, until);
	free(all);
	return rc;
}

ssize_t sim_readv(struct sim_boot *b, int fd, const struct iovec *v, int nr,
		  utime_ns until)
{
	ssize_t rc = sim_file(b, fd) == NULL ? -EBADF : total(v, &nr), size = rc;
	char *all;

	if (rc < 0)
		return rc;
	if (size == 0)
		return read_check(sim_file(b, fd));
	if (nr == 0 && size > 0)
		return sim_read(b, fd, NULL, (size_t)size, 0, NULL, NULL, until);
	all = sim_alloc((size_t)size + 1);
	rc = sim_read(b, fd, all, (size_t)size, 0, NULL, NULL, until);
	if (rc > 0)
		scatter(all, (size_t)rc, v, nr);
	free(all);
	return rc;
}

/* Files that are sent. */

#define PART		65536

/* Linux sends no file to a counter, nor to a device that takes nothing. */
static bool takes_files(const struct sim_file *f)
{
	return f == NULL || (f->f_ops->o_write != NULL &&
			     strcmp(f->f_ops->o_name, "eventfd") != 0 &&
			     strcmp(f->f_ops->o_name, "/dev/full") != 0);
}

/* Sends a part. 0: there is no more. */
static ssize_t send_part(struct sim_boot *b, int out, struct sim_file *in, off_t at,
			 size_t size, utime_ns until)
{
	char *data = sim_alloc(PART);
	ssize_t rc = sim_pread(in, data, size < PART ? size : PART, at);

	if (rc > 0)
		rc = !takes_files(sim_file(b, out)) ? -EINVAL :
			sim_write(b, out, data, (size_t)rc, 0, NULL, 0, until);
	free(data);
	return rc == -EISDIR ? -EINVAL : rc;
}

ssize_t sim_send_file(struct sim_boot *b, int out, int in, off_t *offset,
		      size_t size, utime_ns until)
{
	struct sim_file *f = sim_file(b, in);
	struct sim_file *to = sim_file(b, out);
	struct stat st;
	off_t at;
	ssize_t all = 0, nr = 1;

	if (f == NULL || !sim_may_read(f))
		return -EBADF;
	if (offset != NULL && sim_is_disk(f) && *offset < 0)
		return -EINVAL;
	if (to == NULL || !sim_may_write(to))
		return -EBADF;
	sim_fstat(to, &st);
	if (!sim_is_disk(f) || (to->f_flags & O_APPEND && !S_ISFIFO(st.st_mode)))
		return -EINVAL;
	at = offset != NULL ? *offset : sim_seek(f, 0, SEEK_CUR);
	while ((size_t)all < size && nr > 0) {
		nr = send_part(b, out, f, at + all, size - (size_t)all, until);
		all += nr > 0 ? nr : 0;
		until = until == SIM_BY_FILE ? until : 0;
		if (sim_file(b, in) != f)	/* it was closed meanwhile */
			return all > 0 ? all : nr;
	}
	if (offset != NULL)
		*offset = at + all;
	else
		(void)sim_seek(f, at + all, SEEK_SET);
	return all > 0 ? all : nr == 1 ? 0 : nr;
}

/* Messages. */

/* Returns the bytes of a message, or -error; *nr becomes its parts. */
static ssize_t message_size(struct sim_boot *b, int fd, const struct msghdr *m, int *nr)
{
	int rc = not_a_socket(b, fd);

	if (rc != 0)
		return rc;
	if (m == NULL)
		return -EFAULT;
	if (m->msg_iovlen > 1024)
		return -EMSGSIZE;
	*nr = (int)m->msg_iovlen;
	return total(m->msg_iov, nr);
}

/* Takes the descriptors of a message. 0 or an error. */
static int rights_of(struct sim_boot *b, const struct msghdr *m,
		     struct sim_rights *to)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	int fd, i, nr;

	for (; c != NULL; c = CMSG_NXTHDR((struct msghdr *)m, c)) {
		if (c->cmsg_len < sizeof *c || c->cmsg_len > m->msg_controllen)
			return -EINVAL;
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			usim_fail("sendmsg() with a control message %d, %d is "
				  "not simulated", c->cmsg_level, c->cmsg_type);
		nr = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof fd);
		for (i = 0; i < nr; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * (int)sizeof fd, sizeof fd);
			if (sim_file_any(b, fd) == NULL)
				return -EBADF;
			if (to->r_nr == SIM_RIGHTS)
				usim_fail("sendmsg() with more than %d descriptors "
					  "is not simulated", SIM_RIGHTS);
			to->r_files[to->r_nr++] = sim_file_any(b, fd);
		}
	}
	return 0;
}

ssize_t sim_send_message(struct sim_boot *b, int fd, const struct msghdr *m,
			 int flags, utime_ns until)
{
	int nr = 0;
	ssize_t size = message_size(b, fd, m, &nr), rc;
	struct sim_rights rights = { .r_nr = 0 };
	struct transfer t = { .t_flags = flags, .t_rights = &rights };
	char *data;

	if (size < 0)
		return size;
	check_flags("sendmsg", flags);
	rc = rights_of(b, m, &rights);
	if (rc != 0)
		return rc;
	t.t_to = m->msg_namelen > 0 ? m->msg_name : NULL;
	t.t_to_size = m->msg_namelen;
	t.t_data = data = sim_alloc((size_t)size + 1);
	t.t_size = (size_t)size;
	gather(data, m->msg_iov, nr);
	rc = write_all(b, fd, &t, until);
	free(data);
	return rc;
}

/* Gives descriptors to the caller; those that find no room are closed. */
static void rights_put(struct sim_boot *b, struct sim_rights *r, struct msghdr *m,
		       bool on_exec)
{
	size_t room = m->msg_control == NULL || m->msg_controllen < CMSG_LEN(0) ? 0 :
		(m->msg_controllen - CMSG_LEN(0)) / sizeof(int);
	struct cmsghdr *c = m->msg_control;
	int i, nr = 0, fd;

	for (i = 0; i < r->r_nr; i++) {
		fd = (size_t)i < room ? sim_fd(b, r->r_files[i]) : -EMFILE;
		sim_drop(r->r_files[i]);	/* the message's reference */
		if (fd >= 0)
			b->b_on_exec[fd] = on_exec;
		if (fd >= 0)
			memcpy(CMSG_DATA(c) + nr++ * (int)sizeof fd, &fd, sizeof fd);
		else
			m->msg_flags |= MSG_CTRUNC;
	}
	m->msg_controllen = nr > 0 ? CMSG_SPACE((size_t)nr * sizeof fd) : 0;
	if (nr == 0)
		return;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN((size_t)nr * sizeof fd);
}

ssize_t sim_receive_message(struct sim_boot *b, int fd, struct msghdr *m,
			    int flags, utime_ns until)
{
	int nr = 0;
	ssize_t size = message_size(b, fd, m, &nr), rc;
	struct sim_rights rights = { .r_nr = 0 };
	struct transfer t = { .t_flags = flags, .t_rights = &rights };
	bool stream;
	char *data;

	if (size < 0)
		return size;
	check_flags("recvmsg", flags);
	t.t_from = m->msg_name;
	t.t_from_size = m->msg_name != NULL ? &m->msg_namelen : NULL;
	stream = sim_file(b, fd)->f_ops->o_whole;
	t.t_flags |= stream ? 0 : MSG_TRUNC;	/* to learn the true size */
	t.t_data = data = sim_alloc((size_t)size + 1);
	t.t_size = (size_t)size;
	m->msg_flags = 0;
	rc = read_all(b, fd, &t, until);
	if (rc >= 0) {
		scatter(data, (size_t)(rc < size ? rc : size), m->msg_iov, nr);
		rights_put(b, &rights, m, flags & MSG_CMSG_CLOEXEC);
		m->msg_flags |= rc > size ? MSG_TRUNC : 0;
		if (rc > size && !(flags & MSG_TRUNC))
			rc = size;
		if (stream && t.t_from != NULL)
			m->msg_namelen = 0;
	}
	free(data);
	return rc;
}

/* Connections. */

/* A handler ends the wait, too. */
int sim_close_slow(struct sim_boot *b, int fd)
{
	struct sim_file *f = sim_file_any(b, fd);
	bool may = f != NULL && f->f_refs == 1 && f->f_ops->o_socket != NULL &&
		f->f_ops->o_socket->s_linger != NULL;
	utime_ns ns = may ? f->f_ops->o_socket->s_linger(f) : 0;
	utime_ns end = ns > 0 ? sim_after(b->b_host, ns) : 0;
	int rc = 0;

	while (rc == 0 && end > 0 && f->f_lingers) {
		rc = sim_wait(b, f, end);
		if (sim_file_any(b, fd) != f)
			return 0;
	}
	return sim_close(b, fd);
}

int sim_accept(struct sim_boot *b, int fd, int flags, struct sockaddr *a,
	       socklen_t *n, utime_ns until)
{
	struct sim_file *f = sim_file(b, fd), *out = NULL;
	int rc = not_a_socket(b, fd);
	utime_ns end;

	if (f != NULL && flags & ~(O_NONBLOCK | O_CLOEXEC))
		rc = -EINVAL;
	if (rc == 0 && a != NULL && sim_room_check(a, n) != 0)
		usim_fail("accept() with no room for the address is not simulated");
	if (rc != 0)
		return rc;
	n = a == NULL ? NULL : n;
	end = limit(b, until, f->f_read_time);
	do {
		rc = f->f_ops->o_socket->s_accept(f, &out, flags, a, n);
		if (rc != -EAGAIN || !waits(f, 0, until))
			break;
		rc = wait_for(b, fd, f, false, until, end);
	} while (rc == 0 || rc == -ERESTART);
	sim_hash((uint64_t)rc);
	return rc != 0 ? rc : sim_fd(b, out);
}

/* -EAGAIN: the queue of a Unix listener is full. */
int sim_connect(struct sim_boot *b, int fd, const struct sockaddr *a, socklen_t n,
		utime_ns until)
{
	struct sim_file *f = sim_file(b, fd);
	int rc = not_a_socket(b, fd);
	bool is_full;
	utime_ns end;

	if (rc == 0)
		rc = sim_address_check(a, n);
	if (rc != 0)
		return rc;
	end = limit(b, until, f->f_write_time);
	rc = f->f_ops->o_socket->s_connect(f, a, n);
	while ((rc == -EINPROGRESS || rc == -EALREADY || rc == -EAGAIN) &&
	       waits(f, 0, until)) {
		is_full = rc == -EAGAIN;
		rc = wait_for(b, fd, f, is_full, until, end);
		if (rc != 0 && rc != -ERESTART)
			return rc == -EAGAIN && !is_full ? -EINPROGRESS : rc;
		rc = is_full ? f->f_ops->o_socket->s_connect(f, a, n) :
			f->f_ops->o_socket->s_connected(f);
	}
	return rc;
}
