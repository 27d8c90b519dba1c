/* SPDX-License-Identifier: MIT */
/* odd_fd.h: descriptors of any kind, in scripts of odd arguments (odd.c). */

/*
 * Any descriptor is read, written, asked and so on, also a set that is no file, and a
 * file that is closed. Answers that depend on the version of Linux or on the file system
 * are left out, and a comment says which.
 */

#ifndef ODD_FD_H
#define ODD_FD_H

#include "odd.h"

#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Whether a counter, a timer or an epoll has a place depends on the version. */
static bool is_anonymous(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0600 && !S_ISFIFO(st.st_mode);
}

/* Returns whether a descriptor may do what fails first in some versions. */
static bool may(int fd, int way)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && !(flags & O_PATH) && !is_anonymous(fd) &&
		((flags & O_ACCMODE) == way || (flags & O_ACCMODE) == O_RDWR);
}

static void call_read(int fd)
{
	void *to = data_odd(data);
	size_t size = size_odd(400);
	struct iovec v[2] = { { to, below(9) }, { data + 500, below(90) } };
	static const off_t places[] = { 0, 5, -1, INT64_MAX, 1L << 40 };
	static const int parts[] = { 0, 1, 2, 2, 2, -1, 1025 };
	int nr = ONE_OF(parts);
	long rc;

	memset(data, 0, 1000);
	switch (below(4)) {
	case 0:
		if (!may(fd, O_RDONLY))
			nr = nr == 0 ? 0 : 1;
		else
			v[0].iov_len = seldom(8) ? SIZE_MAX : v[0].iov_len;
		rc = readv(fd, seldom(20) && may(fd, O_RDONLY) ? (struct iovec *)null : v, nr);
		size = 600;
		break;
	case 1:
		rc = is_anonymous(fd) ? 0 : pread(fd, to, size, ONE_OF(places));
		break;
	default:
		rc = read(fd, to, size);
	}
	printf("	%d, %d parts, %d\n", fd, nr, (int)v[0].iov_len);
	said("read", rc);
	show(data, rc < 0 || size > 1000 ? 0 : 1000);
}

static void call_write(int fd)
{
	void *from = data_odd(data);
	size_t size = size_odd(400);
	struct iovec v[2] = { { from, below(90) }, { data, below(90) } };
	static const off_t places[] = { 0, 5, 5, -1, INT64_MAX - 5 };
	static const int parts[] = { 0, 1, 1, 1, -1, 1025 };
	int nr = ONE_OF(parts);
	long rc;

	memset(data, (int)below(256), 1000);
	switch (below(4)) {
	case 0:
		if (is_anonymous(fd))
			v[0].iov_len = 8;
		if (!may(fd, O_WRONLY))
			nr = nr == 0 ? 0 : 1;
		else
			v[0].iov_len = seldom(8) ? SIZE_MAX : v[0].iov_len;
		rc = writev(fd, seldom(20) && may(fd, O_WRONLY) ? (struct iovec *)null : v, nr);
		break;
	case 1:
		/* A write of NULL behind the end leaves a file longer, or not. */
		rc = is_anonymous(fd) ? 0 : pwrite(fd, data, size, ONE_OF(places));
		break;
	default:
		/* What a counter takes besides 8 bytes depends on the version. */
		rc = write(fd, from, is_anonymous(fd) && size > 8 ? 8 : size);
	}
	printf("	%d, %d parts, %d\n", fd, nr, (int)v[0].iov_len);
	said("write", rc);
}

static void call_stream(int fd)
{
	static const char *const modes[] = {
		"r", "w", "a", "r+", "w+", "a+", "rb", "re", "q", ""
	};
	const char *mode = ONE_OF(modes);
	int copy = dup(fd);
	FILE *f = fdopen(copy, mode);

	printf("	%d %s\n", fd, mode);
	said("fdopen", f != NULL ? fileno(f) == copy : -1);
	if (f != NULL)
		fclose(f);
	else if (copy >= 0)
		close(copy);
}

static void call_place(int fd)
{
	static const int whences[] = { SEEK_SET, SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA,
				       SEEK_HOLE, 5, -1 };
	static const off_t places[] = { 0, 3, 100, -1, -100, 1L << 40, INT64_MAX, INT64_MIN };
	static const off_t lengths[] = { 0, 10, 100, -1, INT64_MIN };
	int whence = ONE_OF(whences);
	off_t to = ONE_OF(places);
	struct stat st;

	if (is_anonymous(fd))
		return;
	/* Places of a folder are the file system's. */
	if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode) && whence == SEEK_END)
		whence = SEEK_SET;
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		to = 0, whence = SEEK_SET;
	/* The highest place is the file system's; 1 << 40 is below. */
	if (to > 1L << 40)
		to = 7;
	switch (below(7)) {
	case 0:
		said("ftruncate", ftruncate(fd, ONE_OF(lengths)));
		break;
	case 6:			/* the whole file is a hole */
		if (ftruncate(fd, 0) == 0 && ftruncate(fd, 90) == 0)
			said("lseek", lseek(fd, 5, below(2) ? SEEK_HOLE : SEEK_DATA));
		break;
	case 1:
		said("fsync", below(2) ? fsync(fd) : fdatasync(fd));
		break;
	case 2:
		said("fchmod", fstat(fd, &st) == 0 && !S_ISREG(st.st_mode) ? 0 :
		     fchmod(fd, 0644));
		break;
	default:
		printf("	%d %ld\n", whence, (long)to);
		said("lseek", lseek(fd, to, whence));
	}
}

static void call_fcntl(int fd)
{
	static const int commands[] = { F_GETFD, F_GETFD, F_SETFD, F_GETFL, F_GETFL, F_SETFL,
					F_GETLK, F_SETLK, F_SETLK, F_GETPIPE_SZ, 9999, -1 };
	static const int settable[] = { O_APPEND, O_NONBLOCK, O_CREAT, O_WRONLY, O_EXCL };
	static const short types[] = { F_RDLCK, F_WRLCK, F_UNLCK, 17 };
	static const short whences[] = { SEEK_SET, SEEK_CUR, SEEK_END, 9 };
	struct flock l = { .l_type = ONE_OF(types), .l_whence = ONE_OF(whences),
		.l_start = below(20) - 5, .l_len = (off_t)below(20) - 5 };
	int command = ONE_OF(commands), arg = (int)below(4), rc;
	struct stat st;

	if (command == F_SETFL)
		arg = BITS(settable, 3, 0) | O_NONBLOCK;
	if (fstat(fd, &st) == 0 && S_ISCHR(st.st_mode))
		l.l_whence = SEEK_SET;		/* a device has a place, or not */
	if (command == F_GETLK || command == F_SETLK)
		rc = fcntl(fd, command, seldom(20) ? (struct flock *)null : &l);
	else
		rc = fcntl(fd, command, arg);
	printf("	%d: %d, %d %d %d\n", fd, command, l.l_type, (int)l.l_start, (int)l.l_len);
	said("fcntl", command == F_GETFL && rc > 0 ? rc & ~LARGE : rc);
}

static void call_control(int fd)
{
	static const unsigned long commands[] = { FIONBIO, FIONREAD, FIONREAD, FIOCLEX, FIONCLEX,
						  TIOCOUTQ };
	static const int parts[] = { F_ULOCK, F_LOCK, F_TLOCK, F_TEST, 9 };
	static const int locks[] = { LOCK_SH, LOCK_EX, LOCK_UN, LOCK_SH | LOCK_EX, 0, 16 };
	unsigned long command = ONE_OF(commands);
	int value = 1;
	struct stat st;

	if (is_anonymous(fd) && command != FIONBIO)
		return;
	if (seldom(3)) {
		said("lockf", lockf(fd, ONE_OF(parts), (off_t)below(9) - 4));
		return;
	}
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || below(2)) {
		said("ioctl", ioctl(fd, command, seldom(12) ? (int *)null : &value));
		printf("	%d: %#lx %d\n", fd, command, value);
		return;
	}
	if (!(fcntl(fd, F_GETFL) & O_PATH))
		said("flock", flock(fd, ONE_OF(locks) | LOCK_NB));
}

static void call_stat(int fd)
{
	static const int flags[] = { AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW, AT_NO_AUTOMOUNT };
	struct stat st = { .st_size = 0 };
	const char *path = seldom(6) ? device() : name();
	bool by_fd = below(2) == 0;
	int with = BITS(flags, 3, path == NULL || path[0] == 0 ? 0 : 0x20000);
	long rc = by_fd ? fstat(fd, &st) :
		fstatat(seldom(2) ? fd : AT_FDCWD, path == NULL ? "" : path, &st, with);

	/* Kinds of what has no name have changed. */
	if (rc == 0 && st.st_mode & S_IFMT)
		printf("	%#o, %d names\n", (unsigned)st.st_mode, (int)st.st_nlink);
	if (rc == 0 && (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)))
		printf("	%ld bytes\n", (long)st.st_size);
	if (rc == 0 && S_ISCHR(st.st_mode))
		printf("	device %d\n", (int)st.st_rdev);
	printf("	%s %#x\n", by_fd ? "" : shown(path), (unsigned)with);
	said("stat", rc);
}

static void call_map(int fd)
{
	static const int kinds[] = { MAP_PRIVATE, MAP_PRIVATE, MAP_SHARED, 0 };
	static const size_t sizes[] = { 4096, 4096, 100, 0 };
	size_t size = ONE_OF(sizes);
	void *at;
	struct stat st;

	if (fstat(fd, &st) == 0 && (S_ISCHR(st.st_mode) || S_ISSOCK(st.st_mode)))
		return;
	at = mmap(NULL, size, PROT_READ, ONE_OF(kinds), fd, seldom(4) ? 100 : 0);
	said("mmap", at == MAP_FAILED ? -1 : 0);
	if (at != MAP_FAILED)
		said("munmap", munmap(at, size));
}

static void call_sendfile(int fd)
{
	off_t at = (off_t)below(12) - 3;
	int in = any();
	struct stat st;
	bool placed = below(2);

	if (fstat(in, &st) != 0 || !S_ISREG(st.st_mode))
		return;
	/* Before Linux 5.12 none to a pipe that appends. */
	if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && fcntl(fd, F_GETFL) & O_APPEND)
		return;
	said("sendfile", sendfile(fd, in, placed ? &at : NULL, below(40)));
	printf("	at %ld\n", placed ? (long)at : 0);
}

static void call_close(int fd)
{
	said("close", close(fd));
	forget(fd);
}

#endif /* ODD_FD_H */
