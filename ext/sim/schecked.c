/* SPDX-License-Identifier: MIT */
/* schecked.c: names of libc that check: __read_chk(), __open_2() and their like. */

/*
 * With _FORTIFY_SOURCE a call of read() may become one of __read_chk(), which takes the
 * room, too, and open() without a mode becomes __open_2(). libc compares, and calls
 * what the program has called. Here only the second is done: the room is for
 * the compilers' checks, and sanitizers find the rest. More such names are in the files
 * that have the plain names.
 */

#define _GNU_SOURCE		/* ppoll() */
#include "snames.h"

#include <poll.h>
#include <signal.h>
#include <time.h>

/* Declares the function of a name that another file has. */
#define PLAIN(type, name, args)						\
	type plain_##name args __asm__("__wrap_" #name);

PLAIN(ssize_t, pread, (int fd, void *buf, size_t size, off_t at))
PLAIN(int, openat, (int folder, const char *path, int flags, ...))
PLAIN(char *, getcwd, (char *to, size_t size))
PLAIN(char *, realpath, (const char *path, char *to))
PLAIN(ssize_t, readlink, (const char *path, char *to, size_t size))
PLAIN(ssize_t, readlinkat, (int folder, const char *path, char *to, size_t size))
PLAIN(int, gethostname, (char *to, size_t size))
PLAIN(int, ppoll, (struct pollfd *fds, nfds_t nr, const struct timespec *t,
		   const sigset_t *mask))

NAME(ssize_t, __pread64_chk, (int fd, void *buf, size_t size, off_t at, size_t room))
{
	return (void)room, plain_pread(fd, buf, size, at);
}

NAME(int, __openat_2, (int folder, const char *path, int flags))
{
	return plain_openat(folder, path, flags);
}

ALIAS(int, __openat64_2, (int folder, const char *path, int flags), __openat_2)

NAME(char *, __getcwd_chk, (char *to, size_t size, size_t room))
{
	return (void)room, plain_getcwd(to, size);
}

NAME(char *, __realpath_chk, (const char *path, char *to, size_t room))
{
	return (void)room, plain_realpath(path, to);
}

NAME(ssize_t, __readlink_chk, (const char *path, char *to, size_t size, size_t room))
{
	return (void)room, plain_readlink(path, to, size);
}

NAME(ssize_t, __readlinkat_chk, (int folder, const char *path, char *to, size_t size,
				 size_t room))
{
	return (void)room, plain_readlinkat(folder, path, to, size);
}

NAME(int, __gethostname_chk, (char *to, size_t size, size_t room))
{
	return (void)room, plain_gethostname(to, size);
}

NAME(int, __ppoll_chk, (struct pollfd *fds, nfds_t nr, const struct timespec *t,
			const sigset_t *mask, size_t room))
{
	return (void)room, plain_ppoll(fds, nr, t, mask);
}
