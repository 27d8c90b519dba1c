/* SPDX-License-Identifier: MIT */
/* snfile.c: files of a host's disk, by libc's names. */

/*
 * Names that take a folder's descriptor (openat() and so on) know AT_FDCWD and
 * paths from the root. All else fails the run.
 */

#define _GNU_SOURCE		/* AT_FDCWD */
#include "snames.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Files. */

static int open_by(struct sim_boot *b, const char *path, int flags)
{
	int fd = sim_device(b, path, flags & ~O_CREAT);

	return fd == -ENOENT ? sim_open(b, path, flags) : fd;
}

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
		(int)answer(open_by(b, path, flags));
}

/* Fails the run if a path begins at a folder's descriptor. */
static void check_at(const char *call, int folder, const char *path)
{
	if (folder != AT_FDCWD && path[0] != '/')
		usim_fail("%s() of a folder's descriptor is not simulated", call);
}

NAME(int, openat, (int folder, const char *path, int flags, ...))
{
	struct sim_boot *b = enter();
	va_list args;
	int mode = 0;

	if (flags & O_CREAT) {
		va_start(args, flags);
		mode = va_arg(args, int);
		va_end(args);
	}
	if (b == NULL)
		return openat(folder, path, flags, mode);
	check_at("openat", folder, path);
	return (int)answer(open_by(b, path, flags));
}

NAME(int, creat, (const char *path, mode_t mode))
{
	return wrap_open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
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

NAME(int, truncate, (const char *path, off_t size))
{
	struct sim_boot *b = enter();
	int fd, rc;

	if (b == NULL)
		return truncate(path, size);
	fd = sim_open(b, path, O_WRONLY);
	if (fd < 0)
		return (int)answer(fd);
	rc = sim_truncate(sim_file(b, fd), size);
	(void)sim_close(b, fd);
	return (int)answer(rc);
}

NAME(int, remove, (const char *path))
{
	struct sim_boot *b = enter();
	int rc;

	if (b == NULL)
		return remove(path);
	rc = sim_unlink(b, path, false);
	return (int)answer(rc == -EISDIR ? sim_unlink(b, path, true) : rc);
}

NAME(int, renameat, (int from_at, const char *from, int to_at, const char *to))
{
	if (sim_self() == NULL)
		return renameat(from_at, from, to_at, to);
	check_at("renameat", from_at, from);
	check_at("renameat", to_at, to);
	return wrap_rename(from, to);
}

NAME(int, unlinkat, (int folder, const char *path, int flags))
{
	if (sim_self() == NULL)
		return unlinkat(folder, path, flags);
	check_at("unlinkat", folder, path);
	return flags & AT_REMOVEDIR ? wrap_rmdir(path) : wrap_unlink(path);
}

NAME(int, mkdirat, (int folder, const char *path, mode_t mode))
{
	if (sim_self() == NULL)
		return mkdirat(folder, path, mode);
	check_at("mkdirat", folder, path);
	return wrap_mkdir(path, mode);
}

NAME(char *, getcwd, (char *to, size_t size))
{
	if (sim_self() == NULL)
		return getcwd(to, size);
	if (to == NULL)
		return strdup("/");
	if (size < 2)
		return (void)answer(size == 0 ? -EINVAL : -ERANGE), NULL;
	return strcpy(to, "/");
}

/* Memory that is no file is libc's. */
NAME(void *, mmap, (void *at, size_t size, int what, int flags, int fd, off_t from))
{
	if (!(flags & MAP_ANONYMOUS))
		usim_fail("mmap() of a file is not simulated");
	return mmap(at, size, what, flags, fd, from);
}

/* What is known of files. There are no links, so lstat() is stat(). */

NAME(int, stat, (const char *path, struct stat *to))
{
	struct sim_boot *b = enter();

	return b == NULL ? stat(path, to) : (int)answer(sim_stat(b, path, to));
}

NAME(int, lstat, (const char *path, struct stat *to))
{
	return sim_self() == NULL ? lstat(path, to) : wrap_stat(path, to);
}

/* Standard descriptors are terminals, as it were. */
NAME(int, fstat, (int fd, struct stat *to))
{
	struct sim_boot *b = enter();
	struct sim_file *f;

	if (b == NULL)
		return fstat(fd, to);
	f = sim_file(b, fd);
	if (f != NULL) {
		sim_fstat(f, to);
		return 0;
	}
	if (fd < 0 || fd >= SIM_FIRST)
		return (int)answer(-EBADF);
	memset(to, 0, sizeof *to);
	to->st_mode = S_IFCHR | 0600;
	return 0;
}

NAME(int, fstatat, (int folder, const char *path, struct stat *to, int flags))
{
	if (sim_self() == NULL)
		return fstatat(folder, path, to, flags);
	if (flags & AT_EMPTY_PATH && path[0] == 0)
		return wrap_fstat(folder, to);
	check_at("fstatat", folder, path);
	return wrap_stat(path, to);
}

ALIAS(int, open64, (const char *path, int flags, ...), open)
ALIAS(int, openat64, (int folder, const char *path, int flags, ...), openat)
ALIAS(int, creat64, (const char *path, mode_t mode), creat)
ALIAS(ssize_t, pread64, (int fd, void *buf, size_t size, off_t at), pread)
ALIAS(ssize_t, pwrite64, (int fd, const void *buf, size_t size, off_t at), pwrite)
ALIAS(off_t, lseek64, (int fd, off_t at, int whence), lseek)
ALIAS(int, ftruncate64, (int fd, off_t size), ftruncate)
ALIAS(int, truncate64, (const char *path, off_t size), truncate)
ALIAS(void *, mmap64, (void *at, size_t size, int what, int flags, int fd,
		       off_t from), mmap)
ALIAS(int, stat64, (const char *path, struct stat *to), stat)
ALIAS(int, lstat64, (const char *path, struct stat *to), lstat)
ALIAS(int, fstat64, (int fd, struct stat *to), fstat)
ALIAS(int, fstatat64, (int folder, const char *path, struct stat *to, int flags),
      fstatat)

NAME(int, __open_2, (const char *path, int flags))
{
	return wrap_open(path, flags);
}

NAME(int, __open64_2, (const char *path, int flags))
{
	return wrap_open(path, flags);
}

NAME(ssize_t, __pread_chk, (int fd, void *buf, size_t size, off_t at, size_t room))
{
	return (void)room, wrap_pread(fd, buf, size, at);
}
