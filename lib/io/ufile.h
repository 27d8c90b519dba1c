/* SPDX-License-Identifier: MIT */
/* ufile.h: files and names, for threads that may wait. */

#ifndef UFILE_H
#define UFILE_H

/*
 * A regular file is always ready, so a thread cannot wait for it as it waits
 * for a socket. If data is not in memory, read(2) stops the processor until the
 * disk has it. These calls are made by a native thread beside it (ucall.h), and
 * only their caller waits.
 *
 * SHORTEST USE
 *
 *	fd = u_open("index.html", O_RDONLY | O_CLOEXEC, 0, UNEVER);
 *	while ((n = u_pread(fd, buf, sizeof buf, at, UNEVER)) > 0)
 *		at += n;
 *	u_close(fd);
 *
 * RESULTS are those of uio.h: 0, a count, or the negative of an error number.
 * The kernel and native threads write to the heap, and the caller copies from
 * there, so buffers and paths may lie on its stack.
 *
 * DEADLINES
 *
 * A call for a file that has begun cannot be stopped. So it is neither cancelled
 * nor ended by its deadline, and its result is not lost. While UCALL_LIMIT calls
 * run, others wait their turn. Until it begins, a call returns -ETIMEDOUT at its
 * deadline, -ECANCELED in a cancelled scope or after uthread_interrupt(), and
 * -EAGAIN if the deadline is UNOW. More results:
 *
 *	-EAGAIN		also: the system refuses a native thread
 *	-ENOSYS		the caller's dispatcher has no s_wait
 *	-ECHILD		the caller has forked, and this is the child
 *
 * LOOK-UPS, u_getaddrinfo() and u_getnameinfo(), also end at their deadline and
 * by a cancellation after they have begun. The call of libc is abandoned: it ends
 * by itself later, with its native thread, and its result is freed. Neither files
 * nor the end of the scheduler or program wait for it. At most UCALL_LOOKUPS (64)
 * of a scheduler run at a time, abandoned or not, and others wait their turn.
 * Virtual time stands still while a caller waits. A plug-in with the library in it
 * must not be unloaded while a call of libc goes on. More results:
 *
 *	-EAGAIN		also: UCALL_LOOKUPS of the process are abandoned
 *	-ECHILD		also: this is a child, and at the fork a look-up was in
 *			libc, whose locks may stay taken there
 *
 * WHO MAY CALL WHAT
 *
 * Threads of any dispatcher that has waits (uwait.h); native threads, for which
 * these are plain calls that block, look at the deadline before they begin, and
 * are not ended by it.
 *
 * COSTS
 *
 * A call on a native thread costs 5 to 15 us of CPU time. u_pread() and
 * u_pwrite() first ask the kernel for what needs no wait. Most file systems on
 * disks read cached data so: 4 KiB in 1.3 times the CPU time of pread(2),
 * beside giving way. tmpfs cannot, and few can write so. Otherwise a read or
 * write takes a buffer of UFILE_PART bytes, or less, until it ends.
 *
 * For all else, such as directories, see ucall.h: a function of your own, which
 * gets its arguments on the heap. close(2), lseek(2) and fstat(2) wait for
 * network file systems only. Files of O_DIRECT stop the processor.
 */

#include "uwait.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct addrinfo;		/* netdb.h has it, but not with -std=c99 */

#define UFILE_PART	65536	/* of a read or write, for a native thread */

/* Opens a file, as open(2) does. */
int u_open(const char *path, int flags, mode_t mode, utime_ns until);

/*
 * Reads as pread(2), but in parts, which others may come between. Less than
 * size: the file ends; or after some bytes came an error, the deadline or a
 * cancellation, which the next call returns.
 */
ssize_t u_pread(int fd, void *buf, size_t size, off_t at, utime_ns until);

/*
 * Writes as pwrite(2), but in parts, which others may come between. Less than
 * size: as for u_pread().
 */
ssize_t u_pwrite(int fd, const void *buf, size_t size, off_t at,
		 utime_ns until);

/* Writes a file's data to its disk, as fsync(2) does. */
int u_fsync(int fd, utime_ns until);

/* Stores what the system knows of a file in *st, as stat(2) does. */
int u_stat(const char *path, struct stat *st, utime_ns until);

/* Renames a file, as rename(2) does. */
int u_rename(const char *from, const char *to, utime_ns until);

/* Removes a name of a file, as unlink(2) does. */
int u_unlink(const char *path, utime_ns until);

/* Turns a positive result of the next two into EAI_..., for gai_strerror(3). */
#if defined(__GLIBC__) || (defined(__linux__) && !defined(__ANDROID__))
#define U_EAI(rc)	(-(rc))
#else
#define U_EAI(rc)	(rc)
#endif

/*
 * Looks up addresses of a name, as getaddrinfo(3) does; freeaddrinfo(3) frees
 * *list. The errors EAI_... are positive: U_EAI(). EAI_SYSTEM does not come:
 * instead the result is negative, as above.
 */
int u_getaddrinfo(const char *host, const char *service,
		  const struct addrinfo *hints, struct addrinfo **list,
		  utime_ns until);

/*
 * Looks up the name of an address, as getnameinfo(3) does. A host or service that
 * is NULL is not wanted, whatever its size. Errors are those of u_getaddrinfo().
 * -EINVAL: len is longer than any address, or a size is above UFILE_PART.
 */
int u_getnameinfo(const struct sockaddr *addr, socklen_t len,
		  char *host, socklen_t host_size,
		  char *service, socklen_t service_size, int flags,
		  utime_ns until);

#ifdef __cplusplus
}
#endif

#endif /* UFILE_H */
