/* SPDX-License-Identifier: MIT */
/* snfile.c: files of a host's disk, by libc's names. */

/*
 * Names that take a folder's descriptor (openat() and so on) put the folder's path
 * before theirs. No folder is ever renamed, so that path is right. openat2(), which
 * has no name in libc, comes by syscall().
 *
 * Locks of fcntl() and lockf() are between processes. A host is one, and no other
 * has its disk, so they are always had.
 */

#define _GNU_SOURCE		/* AT_FDCWD */
#include "snames.h"
#include "snumber.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AT_ROOM		(SIM_PATH + 4096)	/* two paths, and slashes */

/* glibc 2.31 has no name for it. */
#if !defined(SYS_openat2)
#define SYS_openat2	437
#endif

/* Flags of openat2(), and of renameat2(), which not all libraries name. */
enum { NO_LINKS = 4, BENEATH = 8 };
enum { KEEPS = 1, SWAPS = 2, LEAVES_WHITE = 4 };

/* Files. */

static int open_by(struct sim_boot *b, const char *path, int flags, int mode)
{
	int fd = path == NULL ? -EFAULT : sim_device(b, path, flags);

	return fd == -ENOENT ? sim_open(b, path, flags, (mode_t)mode) : fd;
}

NAME(int, open, (const char *path, int flags, ...))
{
	struct sim_boot *b = enter_point();
	va_list args;
	int mode = 0;

	if (flags & O_CREAT) {
		va_start(args, flags);
		mode = va_arg(args, int);
		va_end(args);
	}
	return b == NULL ? open(path, flags, mode) :
		(int)pointed(open_by(b, path, flags, mode));
}

/* Returns a path that may begin at a folder's descriptor; NULL: an error in *rc. */
static const char *path_at(struct sim_boot *b, int folder, const char *path,
			   char to[AT_ROOM], int *rc)
{
	struct sim_file *f = sim_file_any(b, folder);
	const char *start = f != NULL ? sim_folder(f) : NULL;
	bool gone;

	*rc = path == NULL ? -EFAULT : 0;
	if (path == NULL || folder == AT_FDCWD || path[0] == '/' || path[0] == 0)
		return path;
	gone = start != NULL && sim_is_gone(f);
	*rc = strlen(path) >= 4096 ? -ENAMETOOLONG :
		f == NULL ? -EBADF : start == NULL ? -ENOTDIR :
		gone && strncmp(path, "../", 3) != 0 ? -ENOENT : 0;
	if (*rc != 0)
		return NULL;
	/* From a folder that was removed a way leads up, and none leads down. */
	snprintf(to, AT_ROOM, "/%.*s/%s",
		 (int)(gone ? strrchr(start, '/') - start : (long)strlen(start)),
		 start, gone ? path + 3 : path);
	return to;
}

/*
 * Defines a name of a folder's descriptor. `call` uses path, of the root; odd: flags
 * that the call has not.
 */
#define NAME_AT(name, args, values, folder, call, odd)			\
	NAME(int, name, args)						\
	{								\
		struct sim_boot *b = enter();				\
		char room[AT_ROOM];					\
		int rc;							\
									\
		if (b == NULL)						\
			return name values;				\
		if (odd)						\
			return (int)answer(-EINVAL);			\
		path = path_at(b, folder, path, room, &rc);		\
		return (int)answer(path == NULL ? rc : (call));		\
	}

NAME(int, openat, (int folder, const char *path, int flags, ...))
{
	struct sim_boot *b = enter_point();
	char room[AT_ROOM];
	va_list args;
	int mode = 0, rc;

	if (flags & O_CREAT) {
		va_start(args, flags);
		mode = va_arg(args, int);
		va_end(args);
	}
	if (b == NULL)
		return openat(folder, path, flags, mode);
	path = path_at(b, folder, path, room, &rc);
	return (int)pointed(path == NULL ? rc : open_by(b, path, flags, mode));
}

/* openat2(), as far as it stays below a folder. */
static int open_beneath(struct sim_boot *b, int folder, const char *path,
			const unsigned long long how[3])
{
	struct sim_file *f = sim_file_any(b, folder);

	if ((how[2] | NO_LINKS) != (BENEATH | NO_LINKS))
		usim_fail("openat2() with %#llx is not simulated", how[2]);
	if (f == NULL || sim_folder(f) == NULL)
		return f == NULL ? -EBADF : -ENOTDIR;
	if (sim_is_gone(f))
		return path[0] == '/' || strncmp(path, "..", 2) == 0 ? -EXDEV : -ENOENT;
	return sim_open_beneath(b, f, path, (int)how[0], (mode_t)how[1],
				!(how[2] & NO_LINKS));
}

/* Takes six words, as libc's does, also if fewer were passed: the rest is not used. */
__attribute__((no_sanitize("address")))
NAME(long, syscall, (long number, ...))
{
	struct sim_boot *b = enter();
	long a[6];
	va_list args;
	int i;

	va_start(args, number);
	for (i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (b == NULL)
		return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (number == SYS_gettid)
		return sim_thread_number(b);
	if (number != SYS_openat2)
		usim_fail("syscall(%s) is not simulated", sim_call_name(number));
	return (long)answer(open_beneath(b, (int)a[0], (const char *)a[1],
					 (const unsigned long long *)a[2]));
}

NAME(int, creat, (const char *path, mode_t mode))
{
	return wrap_open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

NAME(ssize_t, pread, (int fd, void *buf, size_t size, off_t at))
{
	struct sim_boot *b = enter_point();

	return b == NULL ? pread(fd, buf, size, at) :
		pointed(sim_read_at(b, fd, buf, size, at));
}

NAME(ssize_t, pwrite, (int fd, const void *buf, size_t size, off_t at))
{
	struct sim_boot *b = enter_point();

	return b == NULL ? pwrite(fd, buf, size, at) :
		pointed(sim_write_at(b, fd, buf, size, at));
}

NAME(off_t, lseek, (int fd, off_t at, int whence))
{
	struct sim_boot *b = enter();
	struct sim_file *f;
	int rc;

	if (b == NULL)
		return lseek(fd, at, whence);
	f = sim_file(b, fd);
	if (f != NULL && (whence < 0 || whence > SEEK_HOLE))
		return answer(-EINVAL);
	if (f != NULL && f->f_ops->o_name[0] == '/')
		return 0;		/* a device has no place */
	f = sim_disk_file(b, fd, ESPIPE, &rc);
	return answer(f == NULL ? rc : sim_seek(f, at, whence));
}

NAME(int, ftruncate, (int fd, off_t size))
{
	struct sim_boot *b = enter();
	struct sim_file *f;
	int rc;

	if (b == NULL)
		return ftruncate(fd, size);
	if (size < 0)
		return (int)answer(-EINVAL);
	f = sim_disk_file(b, fd, EINVAL, &rc);
	return (int)answer(f == NULL ? rc : sim_truncate(f, size));
}

NAME(int, fsync, (int fd))
{
	struct sim_boot *b = enter_point();

	return b == NULL ? fsync(fd) : (int)pointed(sim_sync_at(b, fd));
}

NAME(int, fdatasync, (int fd))
{
	return sim_self() == NULL ? fdatasync(fd) : wrap_fsync(fd);
}

static int rename_by(struct sim_boot *b, int from_at, const char *from, int to_at,
		     const char *to, bool replaces)
{
	char room[AT_ROOM], other[AT_ROOM];
	int rc;

	rc = sim_path_check(from);
	if (rc == 0)
		rc = sim_path_check(to);
	if (rc == 0)
		from = path_at(b, from_at, from, room, &rc);
	if (rc == 0)
		to = path_at(b, to_at, to, other, &rc);
	return rc != 0 ? rc : sim_rename(b, from, to, replaces);
}

NAME(int, rename, (const char *from, const char *to))
{
	struct sim_boot *b = enter();

	return b == NULL ? rename(from, to) :
		(int)answer(rename_by(b, AT_FDCWD, from, AT_FDCWD, to, true));
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

	return b == NULL ? mkdir(path, mode) : (int)answer(sim_mkdir(b, path, mode));
}

/* A device may be read and written, not run. */
static int access_by(struct sim_boot *b, const char *path, int mode, bool follow)
{
	struct stat st;

	if (path == NULL || mode & ~7 || !sim_device_stat(path, NULL, &st))
		return sim_access(b, path, mode, follow);
	return mode & X_OK ? -EACCES : 0;
}

NAME(int, access, (const char *path, int mode))
{
	struct sim_boot *b = enter();

	return b == NULL ? access(path, mode) :
		(int)answer(access_by(b, path, mode, true));
}

NAME(int, truncate, (const char *path, off_t size))
{
	struct sim_boot *b = enter();
	int fd, rc;

	if (b == NULL)
		return truncate(path, size);
	fd = size < 0 ? -EINVAL : sim_open(b, path, O_WRONLY, 0);
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
	struct sim_boot *b = enter();

	return b == NULL ? renameat(from_at, from, to_at, to) :
		(int)answer(rename_by(b, from_at, from, to_at, to, true));
}

NAME(int, renameat2, (int from_at, const char *from, int to_at, const char *to,
		      unsigned flags))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return (int)syscall(SYS_renameat2, from_at, from, to_at, to, flags);
	if (flags & ~(KEEPS | SWAPS | LEAVES_WHITE) || (flags & SWAPS && flags != SWAPS))
		return (int)answer(-EINVAL);
	if (flags & ~KEEPS)
		usim_fail("renameat2() with flags %#x is not simulated", flags);
	return (int)answer(rename_by(b, from_at, from, to_at, to, flags == 0));
}

static int link_by(struct sim_boot *b, int from_at, const char *from, int to_at,
		   const char *to, int flags)
{
	char room[AT_ROOM], other[AT_ROOM];
	int rc;

	if (flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	if (flags & AT_EMPTY_PATH)
		usim_fail("linkat() with AT_EMPTY_PATH is not simulated");
	from = path_at(b, from_at, from, room, &rc);
	if (from != NULL)
		to = path_at(b, to_at, to, other, &rc);
	return rc != 0 ? rc : sim_link(b, from, to, flags & AT_SYMLINK_FOLLOW);
}

NAME(int, linkat, (int from_at, const char *from, int to_at, const char *to,
		   int flags))
{
	struct sim_boot *b = enter();

	return b == NULL ? linkat(from_at, from, to_at, to, flags) :
		(int)answer(link_by(b, from_at, from, to_at, to, flags));
}

NAME(int, link, (const char *from, const char *to))
{
	return sim_self() == NULL ? link(from, to) :
		wrap_linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

NAME_AT(unlinkat, (int folder, const char *path, int flags), (folder, path, flags),
	folder, sim_unlink(b, path, flags & AT_REMOVEDIR), flags & ~AT_REMOVEDIR)
NAME_AT(mkdirat, (int folder, const char *path, mode_t mode), (folder, path, mode),
	folder, sim_mkdir(b, path, mode), 0)
NAME_AT(faccessat, (int folder, const char *path, int mode, int flags),
	(folder, path, mode, flags), folder,
	access_by(b, path, mode, !(flags & AT_SYMLINK_NOFOLLOW)),
	flags & ~(AT_EACCESS | AT_SYMLINK_NOFOLLOW) || mode & ~7)

NAME(int, symlinkat, (const char *target, int folder, const char *path))
{
	struct sim_boot *b = enter();
	char room[AT_ROOM];
	int rc;

	if (b == NULL)
		return symlinkat(target, folder, path);
	rc = sim_path_check(target);
	if (rc == 0)
		path = path_at(b, folder, path, room, &rc);
	return (int)answer(rc != 0 ? rc : sim_symlink(b, target, path));
}

NAME(int, symlink, (const char *target, const char *path))
{
	return sim_self() == NULL ? symlink(target, path) :
		wrap_symlinkat(target, AT_FDCWD, path);
}

/* Returns the target of a link that is open; NULL: an error in *rc. */
static const char *open_target(struct sim_boot *b, int fd, int *rc)
{
	struct sim_file *f = sim_file_any(b, fd);

	*rc = f == NULL ? -EBADF : -ENOENT;
	return f == NULL || !f->f_is_path ? NULL : sim_open_target(f);
}

NAME(ssize_t, readlinkat, (int folder, const char *path, char *to, size_t size))
{
	struct sim_boot *b = enter();
	char room[AT_ROOM];
	const char *target;
	int rc;

	if (b == NULL)
		return readlinkat(folder, path, to, size);
	if ((int)size <= 0)
		return answer(-EINVAL);
	if (path != NULL && path[0] == 0 && folder != AT_FDCWD)
		target = open_target(b, folder, &rc);
	else
		target = (path = path_at(b, folder, path, room, &rc)) == NULL ? NULL :
			sim_link_target(b, path, &rc);
	if (target == NULL)
		return answer(rc);
	size = strlen(target) < size ? strlen(target) : size;
	memcpy(to, target, size);
	return (ssize_t)size;
}

NAME(ssize_t, readlink, (const char *path, char *to, size_t size))
{
	return sim_self() == NULL ? readlink(path, to, size) :
		wrap_readlinkat(AT_FDCWD, path, to, size);
}

NAME(char *, realpath, (const char *path, char *to))
{
	struct sim_boot *b = enter();
	char found[SIM_PATH];
	int rc;

	if (b == NULL)
		return realpath(path, to);
	rc = path == NULL ? -EINVAL : sim_resolve(b, path, found);
	if (rc != 0)
		return (void)answer(rc), NULL;
	return to == NULL ? strdup(found) : strcpy(to, found);
}

NAME(int, chdir, (const char *path))
{
	struct sim_boot *b = enter();

	return b == NULL ? chdir(path) : (int)answer(sim_folder_change(b, path));
}

NAME(char *, getcwd, (char *to, size_t size))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		return getcwd(to, size);
	if (to == NULL)
		return strdup(b->b_folder);
	if (size <= strlen(b->b_folder))
		return (void)answer(size == 0 ? -EINVAL : -ERANGE), NULL;
	return strcpy(to, b->b_folder);
}

/* Modes. */

NAME(int, chmod, (const char *path, mode_t mode))
{
	struct sim_boot *b = enter();

	return b == NULL ? chmod(path, mode) :
		(int)answer(sim_chmod(b, path, mode, true));
}

NAME(int, fchmod, (int fd, mode_t mode))
{
	struct sim_boot *b = enter();
	struct sim_file *f;

	if (b == NULL)
		return fchmod(fd, mode);
	f = sim_file(b, fd);
	if (f != NULL && !sim_is_disk(f))
		usim_fail("fchmod() of a %s is not simulated", f->f_ops->o_name);
	return (int)answer(f == NULL ? -EBADF : sim_fchmod(f, mode));
}

NAME(int, fchmodat, (int folder, const char *path, mode_t mode, int flags))
{
	struct sim_boot *b = enter();
	char room[AT_ROOM];
	int rc;

	if (b == NULL)
		return fchmodat(folder, path, mode, flags);
	if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return (int)answer(-EINVAL);
	if (flags & AT_EMPTY_PATH)
		usim_fail("fchmodat() with AT_EMPTY_PATH is not simulated");
	path = path_at(b, folder, path, room, &rc);
	return (int)answer(path == NULL ? rc : sim_chmod(b, path, mode, flags == 0));
}

/* Locks. */

NAME(int, flock, (int fd, int how))
{
	struct sim_boot *b = enter();
	struct sim_file *f;
	int rc;

	if (b == NULL)
		return flock(fd, how);
	rc = how & ~LOCK_NB;
	if (rc != LOCK_SH && rc != LOCK_EX && rc != LOCK_UN)
		return (int)answer(-EINVAL);
	f = sim_file(b, fd);
	if (f != NULL && !sim_is_disk(f))
		usim_fail("flock() of a %s is not simulated", f->f_ops->o_name);
	f = sim_disk_file(b, fd, EINVAL, &rc);
	while (f != NULL && (rc = sim_lock(f, how & ~LOCK_NB)) == -EAGAIN &&
	       !(how & LOCK_NB)) {
		rc = sim_wait(b, NULL, UNEVER);
		f = rc == 0 || rc == -ERESTART ? sim_disk_file(b, fd, EINVAL, &rc) : NULL;
	}
	return (int)answer(rc);
}

NAME(int, lockf, (int fd, int what, off_t size))
{
	struct sim_boot *b = enter_point();
	struct sim_file *f;

	if (b == NULL)
		return lockf(fd, what, size);
	if (what != F_ULOCK && what != F_LOCK && what != F_TLOCK && what != F_TEST)
		return (int)pointed(-EINVAL);
	f = sim_file(b, fd);
	if (f != NULL && sim_place(f, SEEK_CUR) + size < 0)
		return (int)pointed(-EINVAL);
	return (int)pointed(f == NULL || (!sim_may_write(f) && (what == F_LOCK ||
			   what == F_TLOCK)) ? -EBADF : 0);
}

/* Memory. A map of no file is libc's. */

NAME(void *, mmap, (void *at, size_t size, int what, int flags, int fd, off_t from))
{
	struct sim_boot *b = enter();
	struct sim_file *f;
	void *memory;
	int rc;

	if (b == NULL || flags & MAP_ANONYMOUS)
		return mmap(at, size, what, flags, fd, from);
	if (from % 4096 != 0 || size == 0 || (flags & (MAP_SHARED | MAP_PRIVATE)) == 0)
		return (void)answer(from % 4096 == 0 && sim_file(b, fd) == NULL ?
				    -EBADF : -EINVAL), MAP_FAILED;
	f = sim_file(b, fd);
	if (f != NULL && !sim_may_read(f))
		return (void)answer(-EACCES), MAP_FAILED;
	if (f != NULL && f->f_ops->o_socket != NULL && !sim_is_unix(f))
		usim_fail("mmap() of a socket is not simulated");
	f = sim_disk_file(b, fd, ENODEV, &rc);
	memory = f == NULL ? MAP_FAILED :
		sim_map(f, at, size, what, flags, from, &rc);
	if (memory == MAP_FAILED)
		(void)answer(rc);
	return memory;
}

NAME(int, munmap, (void *at, size_t size))
{
	if (sim_self() != NULL)
		sim_unmap(at, size);
	return munmap(at, size);
}

/* Hints are taken, and change nothing. */
NAME(int, posix_fadvise, (int fd, off_t at, off_t size, int hint))
{
	struct sim_boot *b = enter();
	struct sim_file *f;

	if (b == NULL)
		return posix_fadvise(fd, at, size, hint);
	f = sim_file(b, fd);
	if (f == NULL)
		return EBADF;
	if (strcmp(f->f_ops->o_name, "pipe") == 0)
		return ESPIPE;
	return size < 0 || hint < POSIX_FADV_NORMAL || hint > POSIX_FADV_NOREUSE ?
		EINVAL : 0;
}

ALIAS(int, posix_fadvise64, (int fd, off_t at, off_t size, int hint), posix_fadvise)

/* What is known of files. */

static int stat_by(struct sim_boot *b, const char *path, struct stat *to, bool follow)
{
	struct stat st;

	if (path == NULL || !sim_device_stat(path, NULL, &st))
		return sim_stat(b, path, follow, to);
	if (to == NULL)
		return -EFAULT;
	*to = st;
	return 0;
}

NAME(int, stat, (const char *path, struct stat *to))
{
	struct sim_boot *b = enter();

	return b == NULL ? stat(path, to) : (int)answer(stat_by(b, path, to, true));
}

NAME(int, lstat, (const char *path, struct stat *to))
{
	struct sim_boot *b = enter();

	return b == NULL ? lstat(path, to) : (int)answer(stat_by(b, path, to, false));
}

/* Standard descriptors are terminals, as it were. */
NAME(int, fstat, (int fd, struct stat *to))
{
	struct sim_boot *b = enter();
	struct sim_file *f;

	if (b == NULL)
		return fstat(fd, to);
	f = sim_file_any(b, fd);
	if (f == NULL && (fd < 0 || fd >= SIM_FIRST))
		return (int)answer(-EBADF);
	if (to == NULL)
		return (int)answer(-EFAULT);
	if (f != NULL) {
		sim_fstat(f, to);
		return 0;
	}
	memset(to, 0, sizeof *to);
	to->st_mode = S_IFCHR | 0600;
	return 0;
}

NAME(int, fstatat, (int folder, const char *path, struct stat *to, int flags))
{
	struct sim_boot *b = enter();
	char room[AT_ROOM];
	int rc;

	if (b == NULL)
		return fstatat(folder, path, to, flags);
	if (flags & AT_EMPTY_PATH && path != NULL && path[0] == 0)
		return folder == AT_FDCWD ? wrap_stat(".", to) : wrap_fstat(folder, to);
	if (flags & ~(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT))
		return (int)answer(-EINVAL);
	path = path_at(b, folder, path, room, &rc);
	return (int)answer(path == NULL ? rc :
			   stat_by(b, path, to, !(flags & AT_SYMLINK_NOFOLLOW)));
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

/* What headers of glibc before 2.33 make of these. */
NAME(int, __xstat, (int version, const char *path, struct stat *to))
{
	return (void)version, wrap_stat(path, to);
}

NAME(int, __lxstat, (int version, const char *path, struct stat *to))
{
	return (void)version, wrap_lstat(path, to);
}

NAME(int, __fxstat, (int version, int fd, struct stat *to))
{
	return (void)version, wrap_fstat(fd, to);
}

NAME(int, __fxstatat, (int version, int folder, const char *path, struct stat *to,
		       int flags))
{
	return (void)version, wrap_fstatat(folder, path, to, flags);
}

ALIAS(int, __xstat64, (int version, const char *path, struct stat *to), __xstat)
ALIAS(int, __lxstat64, (int version, const char *path, struct stat *to), __lxstat)
ALIAS(int, __fxstat64, (int version, int fd, struct stat *to), __fxstat)
ALIAS(int, __fxstatat64, (int version, int folder, const char *path, struct stat *to,
			  int flags), __fxstatat)

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
