/* SPDX-License-Identifier: MIT */
/* snfd.c: descriptors, by libc's names: close(), dup(), pipe(), fcntl(), ioctl(). */

/*
 * A flag or a command that Linux knows and a host has not ends the run, by its number.
 * What Linux does not know has its error there.
 */

#define _GNU_SOURCE		/* pipe2(), dup3(), F_SETOWN_EX */
#include "snames.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PIPE_SIZE	1032	/* F_GETPIPE_SZ */

NAME(int, close, (int fd))
{
	struct sim_boot *b = enter_point();

	return b == NULL ? close(fd) : (int)pointed(sim_close_slow(b, fd));
}

NAME(int, dup, (int fd))
{
	struct sim_boot *b = enter();

	return b == NULL ? dup(fd) : (int)answer(sim_dup(b, fd, 0, false));
}

NAME(int, dup2, (int fd, int to))
{
	struct sim_boot *b = enter();

	return b == NULL ? dup2(fd, to) : (int)answer(sim_dup_to(b, fd, to, false));
}

static int pipe_by(struct sim_boot *b, int fds[2], int flags)
{
	const int packets = O_DIRECT, notes = O_EXCL;

	if (flags & ~(O_NONBLOCK | O_CLOEXEC | packets | notes))
		return -EINVAL;
	if (flags & (packets | notes))
		usim_fail("pipe2() with flags %#x is not simulated", flags);
	return fds == NULL ? -EFAULT : sim_pipe(b, fds, flags);
}

NAME(int, pipe2, (int fds[2], int flags))
{
	struct sim_boot *b = enter();

	return b == NULL ? pipe2(fds, flags) : (int)answer(pipe_by(b, fds, flags));
}

NAME(int, pipe, (int fds[2]))
{
	return wrap_pipe2(fds, 0);
}

/* A lock of fcntl(). No other process has this disk, so it is always had. */
static int lock_by(const struct sim_file *f, int command, struct flock *l)
{
	off_t start;

	if (l == NULL)
		return -EFAULT;
	if (command == F_GETLK && l->l_type != F_RDLCK && l->l_type != F_WRLCK)
		return -EINVAL;
	if (l->l_whence != SEEK_SET && l->l_whence != SEEK_CUR && l->l_whence != SEEK_END)
		return -EINVAL;
	start = l->l_start + sim_place((struct sim_file *)f, l->l_whence);
	if (start < 0 || (l->l_len < 0 && start + l->l_len < 0))
		return -EINVAL;
	if (l->l_type != F_RDLCK && l->l_type != F_WRLCK && l->l_type != F_UNLCK)
		return -EINVAL;
	if (command == F_GETLK)
		l->l_type = F_UNLCK;
	else if ((l->l_type == F_RDLCK && !sim_may_read(f)) ||
		 (l->l_type == F_WRLCK && !sim_may_write(f)))
		return -EBADF;
	return 0;
}

/* Returns whether Linux has a command that hosts have not. */
static bool is_command(int command)
{
	return (command > F_SETLKW && command <= 17) ||
		(command >= 36 && command <= 38) ||	/* locks of open files */
		(command >= 1024 && command <= 1044);
}

static int flags_set(struct sim_file *f, int flags)
{
	const int settable = O_NONBLOCK | O_APPEND | O_DIRECT | O_NOATIME;

	if (flags & O_ASYNC)
		usim_fail("fcntl(F_SETFL) with O_ASYNC is not simulated");
	f->f_flags = (f->f_flags & ~settable) | (flags & settable);
	return 0;
}

static int control(struct sim_boot *b, int fd, int command, intptr_t arg)
{
	struct sim_file *f = sim_file_any(b, fd);

	if (f == NULL)
		return -EBADF;
	switch (command) {
	case F_GETFL:
		return f->f_flags;
	case F_GETFD:
		return b->b_on_exec[fd] ? FD_CLOEXEC : 0;
	case F_SETFD:
		b->b_on_exec[fd] = arg & FD_CLOEXEC;
		return 0;
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		return sim_dup(b, fd, (int)arg, command == F_DUPFD_CLOEXEC);
	}
	if (f->f_is_path)
		return -EBADF;
	switch (command) {
	case F_SETFL:
		return flags_set(f, (int)arg);
	case F_GETLK:
	case F_SETLK:
	case F_SETLKW:
		return lock_by(f, command, (struct flock *)arg);
	case PIPE_SIZE:
		return sim_pipe_readable(f, &(int){ 0 }) ? 65536 : -EBADF;
	}
	if (is_command(command))
		usim_fail("fcntl(%d) is not simulated", command);
	return -EINVAL;
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
		(int)answer(control(b, fd, command, (intptr_t)arg));
}

/* Counts the bytes that can be read. */
static int readable(struct sim_file *f)
{
	int size;

	if (f->f_ops->o_socket != NULL)
		return f->f_ops->o_socket->s_readable(f);
	if (sim_pipe_readable(f, &size))
		return size;
	return sim_is_plain(f) ? (int)(sim_place(f, SEEK_END) - sim_place(f, SEEK_CUR)) :
		-ENOTTY;
}

static int ioctl_by(struct sim_boot *b, int fd, unsigned long command, int *arg)
{
	struct sim_file *f = sim_file(b, fd);
	int rc = 0;

	if (f == NULL)
		return -EBADF;
	if (command == FIOCLEX || command == FIONCLEX) {
		b->b_on_exec[fd] = command == FIOCLEX;
	} else if (command == FIONBIO) {
		if (arg == NULL)
			return -EFAULT;
		f->f_flags = (f->f_flags & ~O_NONBLOCK) | (*arg ? O_NONBLOCK : 0);
	} else if (command == FIONREAD) {
		rc = readable(f);
		if (rc == -ENOTTY || (rc < 0 && !sim_is_disk(f)) || arg == NULL)
			return rc == -ENOTTY || (rc < 0 && !sim_is_disk(f)) ? rc : -EFAULT;
		*arg = rc;
	} else if (command == TIOCOUTQ && f->f_ops->o_socket != NULL &&
		   f->f_ops->o_socket->s_queued != NULL) {
		if (arg == NULL)
			return -EFAULT;
		*arg = f->f_ops->o_socket->s_queued(f);
	} else if (command == TIOCOUTQ && f->f_ops->o_socket == NULL) {
		return -ENOTTY;
	} else {
		usim_fail("ioctl(%#lx) is not simulated", command);
	}
	return 0;
}

NAME(int, ioctl, (int fd, unsigned long command, ...))
{
	struct sim_boot *b = enter();
	va_list args;
	int *arg;

	va_start(args, command);
	arg = va_arg(args, int *);
	va_end(args);
	return b == NULL ? ioctl(fd, command, arg) :
		(int)answer(ioctl_by(b, fd, command, arg));
}

ALIAS(int, fcntl64, (int fd, int command, ...), fcntl)

NAME(int, dup3, (int fd, int to, int flags))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return dup3(fd, to, flags);
	return (int)answer(flags & ~O_CLOEXEC || fd == to ? -EINVAL :
			   sim_dup_to(b, fd, to, flags & O_CLOEXEC));
}
