/* SPDX-License-Identifier: MIT */
/* snames.c: the names of libc, as hosts call them. */

/*
 * sim.flags gives the linker --wrap for each name here, in a step that links the
 * program's own objects to one (-r). So a call of read() there comes to
 * __wrap_read(), below. Libraries keep libc's names, and so does this. A thread of
 * a host gets the simulated kernel. Any other caller gets libc.
 *
 * Here is all waiting: a call of the kernel returns -EAGAIN, and if the file is
 * blocking the thread waits for it and tries again. Results are -errno inside,
 * since other threads may run between an error and its errno.
 *
 * REFUSED lists names that a host must not call, since they would reach the
 * machine: the run fails and says the name. They fail outside of a run, too.
 * What is in neither list goes to libc. That is meant for what computes:
 * malloc(), printf(), qsort(). A system call by number is not seen.
 *
 * There is no SIGPIPE, and no call is interrupted.
 */

#define _GNU_SOURCE		/* POLLRDHUP, accept4(), pipe2() */
#include "sim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#define EPOCH		((utime_ns)1767225600 * UTIME_S)	/* 2026-01-01 */
#define UP		UTIME_S		/* CLOCK_MONOTONIC at a boot */
#define LOOK_UP		UTIME_MS	/* of a name that is not known */

#define NAME(type, name, args)						\
	type wrap_##name args __asm__("__wrap_" #name);			\
	type wrap_##name args

#define REFUSED(X)							\
	X(select) X(pselect) X(ppoll) X(epoll_pwait) X(epoll_pwait2)	\
	X(sendmsg) X(recvmsg) X(sendmmsg) X(recvmmsg) X(socketpair)	\
	X(preadv) X(pwritev) X(preadv2) X(pwritev2) X(sendfile)		\
	X(splice) X(tee) X(copy_file_range)				\
	X(fork) X(vfork) X(system) X(popen) X(execv) X(execve)		\
	X(execvp) X(execl) X(execlp) X(posix_spawn) X(posix_spawnp)	\
	X(wait) X(waitpid) X(kill) X(pause) X(alarm) X(setitimer)	\
	X(timer_create) X(sigwait) X(sigsuspend) X(sigtimedwait)	\
	X(pthread_create) X(thrd_create)				\
	X(pthread_cond_wait) X(pthread_cond_timedwait) X(sem_wait)	\
	X(fopen) X(fopen64) X(fdopen) X(freopen) X(tmpfile) X(mkstemp)	\
	X(openat) X(openat64) X(creat) X(creat64) X(opendir) X(scandir)	\
	X(stat) X(lstat) X(fstat) X(fstatat) X(stat64) X(lstat64)	\
	X(fstat64) X(fstatat64) X(statx) X(statvfs) X(fstatvfs)		\
	X(truncate) X(truncate64) X(fallocate) X(posix_fallocate)	\
	X(renameat) X(renameat2) X(unlinkat) X(mkdirat) X(remove)	\
	X(link) X(linkat) X(symlink) X(readlink) X(realpath)		\
	X(chdir) X(getcwd) X(chmod) X(fchmod) X(chown) X(fchown)	\
	X(flock) X(lockf) X(mmap) X(mmap64) X(msync) X(sync) X(syncfs)	\
	X(eventfd) X(timerfd_create) X(signalfd) X(inotify_init)	\
	X(inotify_init1) X(memfd_create) X(syscall) X(aio_read)		\
	X(aio_write) X(gethostbyname) X(gethostbyaddr) X(getnameinfo)	\
	X(uscope_go) X(ucall)						\
	X(rr_thread_init) X(rr_thread_on) X(rr_thread_joinable)		\
	X(u_read) X(u_read_all) X(u_readv) X(u_write) X(u_write_all)	\
	X(u_writev) X(u_recv) X(u_recvfrom) X(u_recvmsg) X(u_recv_fd)	\
	X(u_send) X(u_sendto) X(u_sendmsg) X(u_send_fd) X(u_sendfile)	\
	X(u_accept) X(u_connect) X(u_poll) X(u_wait_fd) X(u_dial)	\
	X(u_dial_tcp) X(u_dial_unix) X(u_listen) X(u_listen_tcp)	\
	X(u_listen_unix) X(u_bind_udp) X(u_getaddrinfo)			\
	X(u_getnameinfo) X(u_pread) X(u_pwrite) X(u_open) X(u_fsync)	\
	X(u_stat) X(u_rename) X(u_unlink) X(u_close) X(u_waitpid)

#define REFUSE(name)							\
	void refused_##name(void) __asm__("__wrap_" #name);		\
	void refused_##name(void)					\
	{								\
		usim_fail("%s() is not simulated", #name);		\
	}
REFUSED(REFUSE)

/* Returns the boot of the caller; NULL: the caller gets libc. */
static struct sim_boot *enter(void)
{
	struct sim_boot *b = sim_self();

	if (b != NULL)
		sim_busy();
	return b;
}

static ssize_t answer(ssize_t rc)
{
	if (rc >= 0)
		return rc;
	errno = (int)-rc;
	return -1;
}

/* Reads and writes. */

static utime_ns after(utime_ns ns)
{
	return ns == 0 ? UNEVER : sim_now() + ns;
}

/*
 * Waits for f, the file of fd. 0: the caller tries again. A file that was
 * closed meanwhile is gone.
 */
static int wait_for(struct sim_boot *b, int fd, struct sim_file *f, utime_ns until)
{
	int rc = sim_wait(b, f, until);

	if (rc == 0 && sim_file(b, fd) != f)
		rc = -EBADF;
	return rc == -ETIMEDOUT ? -EAGAIN : rc;
}

static bool waits(const struct sim_file *f, int flags)
{
	return !(f->f_flags & O_NONBLOCK) && !(flags & MSG_DONTWAIT);
}

static void check_flags(const char *call, int flags)
{
	if (flags & ~(MSG_PEEK | MSG_DONTWAIT | MSG_NOSIGNAL | MSG_TRUNC |
		      MSG_WAITALL | MSG_MORE))
		usim_fail("%s() with flags %#x is not simulated", call, flags);
}

static ssize_t read_some(struct sim_boot *b, int fd, void *buf, size_t size,
			 int flags, struct sockaddr *a, socklen_t *n)
{
	struct sim_file *f = sim_file(b, fd);
	utime_ns until = f != NULL ? after(f->f_read_time) : 0;
	ssize_t rc;

	if (f == NULL)
		return -EBADF;
	if (f->f_ops->o_read == NULL)
		return -EINVAL;
	do {
		rc = a != NULL ? sim_receive_from(f, buf, size, flags, a, n) :
			f->f_ops->o_read(f, buf, size, flags);
		if (rc != -EAGAIN || !waits(f, flags))
			break;
		rc = wait_for(b, fd, f, until);
	} while (rc == 0);
	sim_hash((uint64_t)rc);
	return rc;
}

/* With MSG_WAITALL the rest is read, too. */
static ssize_t read_by(struct sim_boot *b, int fd, void *buf, size_t size,
		       int flags, struct sockaddr *a, socklen_t *n)
{
	ssize_t all = 0, nr;

	do {
		nr = read_some(b, fd, (char *)buf + all, size - (size_t)all,
			       flags, a, n);
		all += nr > 0 ? nr : 0;
	} while (nr > 0 && flags & MSG_WAITALL && (size_t)all < size);
	return all > 0 ? all : nr;
}

static ssize_t write_some(struct sim_boot *b, int fd, const void *buf,
			  size_t size, int flags, const struct sockaddr *a,
			  socklen_t n)
{
	struct sim_file *f = sim_file(b, fd);
	utime_ns until = f != NULL ? after(f->f_write_time) : 0;
	ssize_t rc;

	if (f == NULL)
		return -EBADF;
	if (f->f_ops->o_write == NULL)
		return -EINVAL;
	do {
		rc = a != NULL && sim_is_socket(f) ?
			sim_send_to(f, buf, size, a, n) :
			f->f_ops->o_write(f, buf, size);
		if (rc != -EAGAIN || !waits(f, flags))
			break;
		rc = wait_for(b, fd, f, until);
	} while (rc == 0);
	return rc;
}

/* A blocking write of a stream returns when all is written. */
static ssize_t write_by(struct sim_boot *b, int fd, const void *buf, size_t size,
			int flags, const struct sockaddr *a, socklen_t n)
{
	struct sim_file *f = sim_file(b, fd);
	bool whole = f != NULL && f->f_ops->o_whole && waits(f, flags);
	ssize_t all = 0, nr;

	if (fd == 1 || fd == 2) {
		usim_log("%.*s", (int)size, (const char *)buf);
		return (ssize_t)size;
	}
	do {
		nr = write_some(b, fd, (const char *)buf + all,
				size - (size_t)all, flags, a, n);
		all += nr > 0 ? nr : 0;
	} while (nr > 0 && whole && (size_t)all < size);
	return all > 0 ? all : nr;
}

NAME(ssize_t, read, (int fd, void *buf, size_t size))
{
	struct sim_boot *b = enter();

	return b == NULL ? read(fd, buf, size) :
		answer(read_by(b, fd, buf, size, 0, NULL, NULL));
}

NAME(ssize_t, write, (int fd, const void *buf, size_t size))
{
	struct sim_boot *b = enter();

	return b == NULL ? write(fd, buf, size) :
		answer(write_by(b, fd, buf, size, 0, NULL, 0));
}

static int not_a_socket(struct sim_boot *b, int fd)
{
	struct sim_file *f = sim_file(b, fd);

	return f == NULL ? -EBADF : sim_is_socket(f) ? 0 : -ENOTSOCK;
}

NAME(ssize_t, recvfrom, (int fd, void *buf, size_t size, int flags,
			 struct sockaddr *a, socklen_t *n))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return recvfrom(fd, buf, size, flags, a, n);
	check_flags("recvfrom", flags);
	rc = not_a_socket(b, fd);
	return answer(rc != 0 ? rc : read_by(b, fd, buf, size, flags, a, n));
}

NAME(ssize_t, recv, (int fd, void *buf, size_t size, int flags))
{
	return wrap_recvfrom(fd, buf, size, flags, NULL, NULL);
}

NAME(ssize_t, sendto, (int fd, const void *buf, size_t size, int flags,
		       const struct sockaddr *a, socklen_t n))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return sendto(fd, buf, size, flags, a, n);
	check_flags("sendto", flags);
	rc = not_a_socket(b, fd);
	return answer(rc != 0 ? rc : write_by(b, fd, buf, size, flags, a, n));
}

NAME(ssize_t, send, (int fd, const void *buf, size_t size, int flags))
{
	return wrap_sendto(fd, buf, size, flags, NULL, 0);
}

static size_t total(const struct iovec *v, int nr)
{
	size_t size = 0;
	int i;

	for (i = 0; i < nr; i++)
		size += v[i].iov_len;
	return size;
}

NAME(ssize_t, writev, (int fd, const struct iovec *v, int nr))
{
	struct sim_boot *b = enter();
	size_t size = total(v, nr), at = 0;
	char *all;
	ssize_t rc;
	int i;

	if (b == NULL)
		return writev(fd, v, nr);
	all = sim_alloc(size + 1);
	for (i = 0; i < nr; at += v[i++].iov_len)
		memcpy(all + at, v[i].iov_base, v[i].iov_len);
	rc = write_by(b, fd, all, size, 0, NULL, 0);
	free(all);
	return answer(rc);
}

NAME(ssize_t, readv, (int fd, const struct iovec *v, int nr))
{
	struct sim_boot *b = enter();
	size_t size = total(v, nr), at = 0, left;
	char *all;
	ssize_t rc;
	int i;

	if (b == NULL)
		return readv(fd, v, nr);
	all = sim_alloc(size + 1);
	rc = read_by(b, fd, all, size, 0, NULL, NULL);
	for (i = 0; i < nr && rc > 0 && at < (size_t)rc; at += v[i++].iov_len) {
		left = (size_t)rc - at;
		memcpy(v[i].iov_base, all + at,
		       left < v[i].iov_len ? left : v[i].iov_len);
	}
	free(all);
	return answer(rc);
}

/* Sockets. */

NAME(int, socket, (int domain, int type, int protocol))
{
	struct sim_boot *b = enter();
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (b == NULL)
		return socket(domain, type, protocol);
	if (domain != AF_INET || (kind != SOCK_STREAM && kind != SOCK_DGRAM))
		usim_fail("socket(%d, %d) is not simulated", domain, kind);
	return (int)answer(sim_fd(b, sim_socket(b, kind,
		type & SOCK_NONBLOCK ? O_NONBLOCK : 0)));
}

#define SOCKET_CALL(rc, b, fd, call)					\
	rc = not_a_socket(b, fd);					\
	if (rc == 0)							\
		rc = call;						\
	return (int)answer(rc)

NAME(int, bind, (int fd, const struct sockaddr *a, socklen_t n))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return bind(fd, a, n);
	SOCKET_CALL(rc, b, fd, sim_bind(sim_file(b, fd), a, n));
}

NAME(int, listen, (int fd, int backlog))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return listen(fd, backlog);
	SOCKET_CALL(rc, b, fd, sim_listen(sim_file(b, fd), backlog));
}

static int accept_by(struct sim_boot *b, int fd, int flags, struct sockaddr *a,
		     socklen_t *n)
{
	struct sim_file *f = sim_file(b, fd), *out = NULL;
	utime_ns until = after(f->f_read_time);
	int rc;

	do {
		rc = sim_accept(f, &out, flags & SOCK_NONBLOCK ? O_NONBLOCK : 0,
				a, n);
		if (rc != -EAGAIN || !waits(f, 0))
			break;
		rc = wait_for(b, fd, f, until);
	} while (rc == 0);
	sim_hash((uint64_t)rc);
	return rc != 0 ? rc : sim_fd(b, out);
}

NAME(int, accept4, (int fd, struct sockaddr *a, socklen_t *n, int flags))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return accept4(fd, a, n, flags);
	SOCKET_CALL(rc, b, fd, accept_by(b, fd, flags, a, n));
}

NAME(int, accept, (int fd, struct sockaddr *a, socklen_t *n))
{
	return wrap_accept4(fd, a, n, 0);
}

static int connect_by(struct sim_boot *b, int fd, const struct sockaddr *a,
		      socklen_t n)
{
	struct sim_file *f = sim_file(b, fd);
	utime_ns until = after(f->f_write_time);
	int rc = sim_connect(f, a, n);

	while ((rc == -EINPROGRESS || rc == -EALREADY) && waits(f, 0)) {
		rc = wait_for(b, fd, f, until);
		if (rc != 0)
			return rc == -EAGAIN ? -EINPROGRESS : rc;
		rc = sim_connected(f);
	}
	return rc;
}

NAME(int, connect, (int fd, const struct sockaddr *a, socklen_t n))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return connect(fd, a, n);
	SOCKET_CALL(rc, b, fd, connect_by(b, fd, a, n));
}

NAME(int, shutdown, (int fd, int how))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return shutdown(fd, how);
	SOCKET_CALL(rc, b, fd, sim_shutdown(sim_file(b, fd), how));
}

NAME(int, getsockname, (int fd, struct sockaddr *a, socklen_t *n))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return getsockname(fd, a, n);
	SOCKET_CALL(rc, b, fd, (sim_name(sim_file(b, fd), a, n), 0));
}

NAME(int, getpeername, (int fd, struct sockaddr *a, socklen_t *n))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return getpeername(fd, a, n);
	SOCKET_CALL(rc, b, fd, sim_peer(sim_file(b, fd), a, n));
}

NAME(int, setsockopt, (int fd, int level, int name, const void *value,
		       socklen_t n))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return setsockopt(fd, level, name, value, n);
	SOCKET_CALL(rc, b, fd, sim_option(sim_file(b, fd), level, name, value, n));
}

NAME(int, getsockopt, (int fd, int level, int name, void *value, socklen_t *n))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return getsockopt(fd, level, name, value, n);
	SOCKET_CALL(rc, b, fd, sim_option_get(sim_file(b, fd), level, name, value,
					      n));
}

/* Descriptors. */

NAME(int, close, (int fd))
{
	struct sim_boot *b = enter();

	return b == NULL ? close(fd) : (int)answer(sim_close(b, fd));
}

NAME(int, dup, (int fd))
{
	struct sim_boot *b = enter();

	return b == NULL ? dup(fd) : (int)answer(sim_dup(b, fd, 0));
}

NAME(int, dup2, (int fd, int to))
{
	struct sim_boot *b = enter();

	return b == NULL ? dup2(fd, to) : (int)answer(sim_dup_to(b, fd, to));
}

NAME(int, pipe2, (int fds[2], int flags))
{
	struct sim_boot *b = enter();

	return b == NULL ? pipe2(fds, flags) :
		(int)answer(sim_pipe(b, fds, flags & O_NONBLOCK));
}

NAME(int, pipe, (int fds[2]))
{
	return wrap_pipe2(fds, 0);
}

static int control(struct sim_boot *b, int fd, int command, int arg)
{
	const int settable = O_NONBLOCK | O_APPEND;
	struct sim_file *f = sim_file(b, fd);

	if (f == NULL)
		return -EBADF;
	switch (command) {
	case F_GETFL:
		return f->f_flags;
	case F_SETFL:
		f->f_flags = (f->f_flags & ~settable) | (arg & settable);
		return 0;
	case F_GETFD:
	case F_SETFD:
		return 0;
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		return sim_dup(b, fd, arg);
	default:
		usim_fail("fcntl(%d) is not simulated", command);
	}
}

NAME(int, fcntl, (int fd, int command, ...))
{
	struct sim_boot *b = enter();
	va_list args;
	void *arg;

	va_start(args, command);
	arg = va_arg(args, void *);
	va_end(args);
	return b == NULL ? fcntl(fd, command, arg) :
		(int)answer(control(b, fd, command, (int)(intptr_t)arg));
}

NAME(int, ioctl, (int fd, unsigned long command, ...))
{
	struct sim_boot *b = enter();
	struct sim_file *f;
	va_list args;
	int *arg, rc = 0;

	va_start(args, command);
	arg = va_arg(args, int *);
	va_end(args);
	if (b == NULL)
		return ioctl(fd, command, arg);
	f = sim_file(b, fd);
	if (f == NULL)
		return (int)answer(-EBADF);
	if (command == FIONBIO)
		f->f_flags = (f->f_flags & ~O_NONBLOCK) | (*arg ? O_NONBLOCK : 0);
	else if (command == FIONREAD && sim_is_socket(f))
		rc = sim_readable(f);
	else
		usim_fail("ioctl(%#lx) is not simulated", command);
	if (command == FIONREAD && rc >= 0)
		*arg = rc;
	return (int)answer(rc < 0 ? rc : 0);
}

NAME(int, poll, (struct pollfd *fds, nfds_t nr, int ms))
{
	struct sim_boot *b = enter();

	return b == NULL ? poll(fds, nr, ms) :
		(int)answer(sim_poll(b, fds, nr, ms < 0 ? UNEVER :
				     sim_now() + ms * UTIME_MS));
}

NAME(int, epoll_create1, (int flags))
{
	struct sim_boot *b = enter();

	return b == NULL ? epoll_create1(flags) : (int)answer(sim_epoll(b, 0));
}

NAME(int, epoll_create, (int size))
{
	return size <= 0 ? (int)answer(-EINVAL) : wrap_epoll_create1(0);
}

NAME(int, epoll_ctl, (int epfd, int op, int fd, struct epoll_event *e))
{
	struct sim_boot *b = enter();

	return b == NULL ? epoll_ctl(epfd, op, fd, e) :
		(int)answer(sim_epoll_change(b, epfd, op, fd, e));
}

NAME(int, epoll_wait, (int epfd, struct epoll_event *e, int nr, int ms))
{
	struct sim_boot *b = enter();

	return b == NULL ? epoll_wait(epfd, e, nr, ms) :
		(int)answer(sim_epoll_wait(b, epfd, e, nr, ms < 0 ? UNEVER :
					   sim_now() + ms * UTIME_MS));
}

/* Files. */

NAME(int, open, (const char *path, int flags, ...))
{
	struct sim_boot *b = enter();
	va_list args;
	int mode = 0;

	if (flags & O_CREAT) {
		va_start(args, flags);
		mode = va_arg(args, int);
		va_end(args);
	}
	return b == NULL ? open(path, flags, mode) :
		(int)answer(sim_open(b, path, flags));
}

/* Returns the file of a disk that fd is, or NULL and an error. */
static struct sim_file *disk_file(struct sim_boot *b, int fd, int error, int *rc)
{
	struct sim_file *f = sim_file(b, fd);

	*rc = f == NULL ? -EBADF : sim_is_disk(f) ? 0 : -error;
	return *rc == 0 ? f : NULL;
}

NAME(ssize_t, pread, (int fd, void *buf, size_t size, off_t at))
{
	struct sim_boot *b = enter();
	struct sim_file *f;
	int rc;

	if (b == NULL)
		return pread(fd, buf, size, at);
	f = disk_file(b, fd, ESPIPE, &rc);
	return answer(f == NULL ? rc : sim_pread(f, buf, size, at));
}

NAME(ssize_t, pwrite, (int fd, const void *buf, size_t size, off_t at))
{
	struct sim_boot *b = enter();
	struct sim_file *f;
	int rc;

	if (b == NULL)
		return pwrite(fd, buf, size, at);
	f = disk_file(b, fd, ESPIPE, &rc);
	return answer(f == NULL ? rc : sim_pwrite(f, buf, size, at));
}

NAME(off_t, lseek, (int fd, off_t at, int whence))
{
	struct sim_boot *b = enter();
	struct sim_file *f;
	int rc;

	if (b == NULL)
		return lseek(fd, at, whence);
	f = disk_file(b, fd, ESPIPE, &rc);
	return answer(f == NULL ? rc : sim_seek(f, at, whence));
}

NAME(int, ftruncate, (int fd, off_t size))
{
	struct sim_boot *b = enter();
	struct sim_file *f;
	int rc;

	if (b == NULL)
		return ftruncate(fd, size);
	f = disk_file(b, fd, EINVAL, &rc);
	return (int)answer(f == NULL ? rc : sim_truncate(f, size));
}

NAME(int, fsync, (int fd))
{
	struct sim_boot *b = enter();
	struct sim_file *f;
	int rc;

	if (b == NULL)
		return fsync(fd);
	f = disk_file(b, fd, EINVAL, &rc);
	return (int)answer(f == NULL ? rc : sim_sync(f));
}

NAME(int, fdatasync, (int fd))
{
	return sim_self() == NULL ? fdatasync(fd) : wrap_fsync(fd);
}

NAME(int, rename, (const char *from, const char *to))
{
	struct sim_boot *b = enter();

	return b == NULL ? rename(from, to) : (int)answer(sim_rename(b, from, to));
}

NAME(int, unlink, (const char *path))
{
	struct sim_boot *b = enter();

	return b == NULL ? unlink(path) : (int)answer(sim_unlink(b, path, false));
}

NAME(int, rmdir, (const char *path))
{
	struct sim_boot *b = enter();

	return b == NULL ? rmdir(path) : (int)answer(sim_unlink(b, path, true));
}

NAME(int, mkdir, (const char *path, mode_t mode))
{
	struct sim_boot *b = enter();

	return b == NULL ? mkdir(path, mode) : (int)answer(sim_mkdir(b, path));
}

NAME(int, access, (const char *path, int mode))
{
	struct sim_boot *b = enter();

	return b == NULL ? access(path, mode) : (int)answer(sim_access(b, path));
}

/* Time. */

/* Returns what a clock of the host adds to the true time. */
static utime_ns clock_ahead(const struct sim_host *h, clockid_t clock)
{
	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
		return EPOCH + h->h_clock;
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_BOOTTIME:
		return UP - h->h_start;
	default:
		usim_fail("clock %d is not simulated", (int)clock);
	}
}

static utime_ns clock_read(const struct sim_host *h, clockid_t clock)
{
	utime_ns ahead = clock_ahead(h, clock);

	if (h->h_jump != NULL && ahead == EPOCH + h->h_clock)
		h->h_jump->f_hits++;
	return sim_now() + ahead;
}

static struct timespec spec_of(utime_ns ns)
{
	return (struct timespec) { ns / UTIME_S, ns % UTIME_S };
}

static utime_ns length_of(const struct timespec *t)
{
	return t->tv_sec * UTIME_S + t->tv_nsec;
}

NAME(int, clock_gettime, (clockid_t clock, struct timespec *t))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return clock_gettime(clock, t);
	*t = spec_of(clock_read(b->b_host, clock));
	return 0;
}

NAME(int, gettimeofday, (struct timeval *t, void *zone))
{
	struct sim_boot *b = enter();
	utime_ns ns;

	if (b == NULL)
		return gettimeofday(t, zone);
	ns = clock_read(b->b_host, CLOCK_REALTIME);
	t->tv_sec  = ns / UTIME_S;
	t->tv_usec = ns % UTIME_S / UTIME_US;
	return 0;
}

NAME(time_t, time, (time_t *t))
{
	struct sim_boot *b = enter();
	time_t now;

	if (b == NULL)
		return time(t);
	now = clock_read(b->b_host, CLOCK_REALTIME) / UTIME_S;
	if (t != NULL)
		*t = now;
	return now;
}

NAME(int, clock_nanosleep, (clockid_t clock, int flags, const struct timespec *t,
			    struct timespec *left))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return clock_nanosleep(clock, flags, t, left);
	if (t->tv_nsec < 0 || t->tv_nsec >= UTIME_S || t->tv_sec < 0)
		return EINVAL;
	sim_sleep(flags & TIMER_ABSTIME ?
		  length_of(t) - clock_ahead(b->b_host, clock) :
		  sim_now() + length_of(t));
	return 0;
}

NAME(int, nanosleep, (const struct timespec *t, struct timespec *left))
{
	if (sim_self() == NULL)
		return nanosleep(t, left);
	return (int)answer(-wrap_clock_nanosleep(CLOCK_MONOTONIC, 0, t, left));
}

NAME(int, usleep, (useconds_t us))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return usleep(us);
	sim_sleep(sim_now() + us * UTIME_US);
	return 0;
}

NAME(unsigned, sleep, (unsigned seconds))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return sleep(seconds);
	sim_sleep(sim_now() + seconds * UTIME_S);
	return 0;
}

NAME(int, sched_yield, (void))
{
	if (enter() != NULL)
		sim_sleep(0);
	return 0;
}

/* Chance, and who one is. */

NAME(ssize_t, getrandom, (void *buf, size_t size, unsigned flags))
{
	size_t i;

	if (enter() == NULL)
		return getrandom(buf, size, flags);
	for (i = 0; i < size; i++)
		((unsigned char *)buf)[i] = (unsigned char)usim_random(256);
	return (ssize_t)size;
}

NAME(int, getentropy, (void *buf, size_t size))
{
	if (enter() == NULL)
		return getentropy(buf, size);
	return size > 256 ? (int)answer(-EIO) :
		(wrap_getrandom(buf, size, 0), 0);
}

NAME(long, random, (void))
{
	return enter() == NULL ? random() : (long)usim_random(1u << 31);
}

NAME(int, rand, (void))
{
	return enter() == NULL ? rand() : (int)usim_random(1u << 31);
}

NAME(pid_t, getpid, (void))
{
	struct sim_boot *b = enter();

	return b == NULL ? getpid() : 1000 + b->b_number;
}

NAME(int, gethostname, (char *name, size_t size))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return gethostname(name, size);
	if (strlen(b->b_host->h_name) + 1 > size)
		return (int)answer(-ENAMETOOLONG);
	strcpy(name, b->b_host->h_name);
	return 0;
}

NAME(void, exit, (int status))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		exit(status);
	sim_exit(b, status);
}

NAME(void, _exit, (int status))
{
	wrap_exit(status);
}

/* Names of hosts. One result for a call, of one type. */

struct found {
	struct addrinfo    d_info;	/* first */
	struct sockaddr_in d_address;
};

static int find_host(const struct sim_boot *b, const char *name, int flags,
		     struct in_addr *ip)
{
	int i;

	if (name == NULL) {
		ip->s_addr = htonl(flags & AI_PASSIVE ? INADDR_ANY :
				   INADDR_LOOPBACK);
		return 0;
	}
	if (inet_pton(AF_INET, name, ip) == 1)
		return 0;
	for (i = 1; !(flags & AI_NUMERICHOST) && i <= sim_host_nr; i++)
		if (strcmp(sim_hosts[i].h_name, name) == 0) {
			ip->s_addr = htonl(0x0a000000u + (uint32_t)i);
			return 0;
		}
	ip->s_addr = htonl(INADDR_LOOPBACK);
	return strcmp(name, "localhost") == 0 ||
		strcmp(name, b->b_host->h_name) == 0 ? 0 : EAI_NONAME;
}

NAME(int, getaddrinfo, (const char *name, const char *service,
			const struct addrinfo *hints, struct addrinfo **list))
{
	struct sim_boot *b = enter();
	int type = hints != NULL && hints->ai_socktype != 0 ?
		hints->ai_socktype : SOCK_STREAM;
	char *end = NULL;
	long port = service != NULL ? strtol(service, &end, 10) : 0;
	struct in_addr ip;
	struct found *d;
	int rc;

	if (b == NULL)
		return getaddrinfo(name, service, hints, list);
	if (end != NULL && *end != 0)
		return EAI_SERVICE;
	if (hints != NULL && hints->ai_family == AF_INET6)
		return EAI_FAMILY;
	rc = find_host(b, name, hints != NULL ? hints->ai_flags : 0, &ip);
	if (rc != 0) {
		sim_sleep(sim_now() + LOOK_UP);
		return rc;
	}
	d = sim_alloc(sizeof *d);
	d->d_address = (struct sockaddr_in) { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port), .sin_addr = ip };
	d->d_info = (struct addrinfo) { .ai_family = AF_INET,
		.ai_socktype = type, .ai_addrlen = sizeof d->d_address,
		.ai_addr = (struct sockaddr *)&d->d_address };
	*list = &d->d_info;
	return 0;
}

NAME(void, freeaddrinfo, (struct addrinfo *list))
{
	if (enter() == NULL)
		freeaddrinfo(list);
	else
		free(list);
}

/* What else libc's headers make of these names. */

#define ALIAS(type, name, args, real)					\
	type alias_##name args __asm__("__wrap_" #name)			\
		__attribute__((alias("__wrap_" #real)));

ALIAS(int, open64, (const char *path, int flags, ...), open)
ALIAS(int, fcntl64, (int fd, int command, ...), fcntl)
ALIAS(ssize_t, pread64, (int fd, void *buf, size_t size, off_t at), pread)
ALIAS(ssize_t, pwrite64, (int fd, const void *buf, size_t size, off_t at), pwrite)
ALIAS(off_t, lseek64, (int fd, off_t at, int whence), lseek)
ALIAS(int, ftruncate64, (int fd, off_t size), ftruncate)

NAME(ssize_t, __read_chk, (int fd, void *buf, size_t size, size_t room))
{
	return (void)room, wrap_read(fd, buf, size);
}

NAME(ssize_t, __recv_chk, (int fd, void *buf, size_t size, size_t room, int flags))
{
	return (void)room, wrap_recv(fd, buf, size, flags);
}

NAME(ssize_t, __recvfrom_chk, (int fd, void *buf, size_t size, size_t room,
			       int flags, struct sockaddr *a, socklen_t *n))
{
	return (void)room, wrap_recvfrom(fd, buf, size, flags, a, n);
}

NAME(ssize_t, __pread_chk, (int fd, void *buf, size_t size, off_t at, size_t room))
{
	return (void)room, wrap_pread(fd, buf, size, at);
}

NAME(int, __poll_chk, (struct pollfd *fds, nfds_t nr, int ms, size_t room))
{
	return (void)room, wrap_poll(fds, nr, ms);
}
