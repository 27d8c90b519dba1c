/* SPDX-License-Identifier: MIT */
/* ufile.c: files and names, for threads that may wait. */

/*
 * The caller puts all arguments of a call, and room for its results, in a job
 * on the heap. A native thread makes the call (ucall.h), while the caller
 * waits. Then the caller copies the results out of the job.
 *
 *	caller			native thread
 *
 *	path, data --> job ---> the deadline has passed? -ETIMEDOUT
 *	waits			the system call
 *	buf <-- data <- job <-- fj_result
 *
 * Reads and writes go in parts of UFILE_PART bytes at most, so the room is
 * bounded. Before each part the caller asks the kernel for what needs no wait,
 * directly into its own buffer, since it runs meanwhile. Between parts it may
 * give way (upoll_enter()).
 *
 * INVARIANTS
 *
 * K1. A native thread touches the job only, and the job is not on a stack.
 * K2. Once a native thread has begun a call for a file, the caller waits for its
 *     end. So a descriptor that it opens, or bytes that it moves, are always
 *     reported. A look-up changes nothing, so its caller need not wait.
 * K3. A part that was done is reported, if any part was: errors that come after
 *     it are left to the next call.
 *
 * REJECTED
 *
 * Reads into the buffer of the caller: it may lie on a stack that moves. A
 * native thread that only reads ahead, so that the caller then finds the data
 * cached: the cache may drop it in between, again and again. An end of waits for
 * files at the deadline while the call goes on: the result would have no owner,
 * and a later call could overtake it.
 * openat2() with RESOLVE_CACHED, which would save calls: it opens with
 * O_NONBLOCK, and so opens a FIFO that must wait. io_uring: a cached read takes as
 * long, an fsync of many threads longer; only an open would be half as dear.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* preadv2() */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "ufile.h"
#include "ucall.h"
#include "upoll.h"
#include "compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

UPREEMPT_NEVER;

struct info {
	struct addrinfo  hints;
	struct addrinfo *list;
};

struct name {
	struct sockaddr_storage addr;
	socklen_t               len;
	socklen_t               host_size;
	socklen_t               service_size;
};

struct job {
	void      (*fj_f)(struct job *j);	/* sets fj_result */
	utime_ns    fj_until;
	ssize_t     fj_result;
	int         fj_fd;
	int         fj_flags;
	mode_t      fj_mode;
	off_t       fj_at;
	size_t      fj_size;		/* of the data */
	const char *fj_first;		/* strings in fj_bytes, or NULL */
	const char *fj_second;
	union {
		struct stat stat;
		struct info info;
		struct name name;
	} fj_of;
	char        fj_bytes[];		/* strings, or data */
};

/* Jobs. */

/* Makes a job with room for so many bytes. NULL: no memory. */
static struct job *job_make(void (*f)(struct job *), size_t size)
{
	struct job *j = malloc(sizeof *j + size);

	if (j != NULL) {
		j->fj_f      = f;
		j->fj_result = -ECANCELED;	/* until the call was made */
	}
	return j;
}

/* Makes a job with two strings, each of which may be NULL. NULL: no memory. */
static struct job *job_strings(void (*f)(struct job *), const char *first,
			       const char *second)
{
	size_t size = first != NULL ? strlen(first) + 1 : 0;
	size_t more = second != NULL ? strlen(second) + 1 : 0;
	struct job *j = job_make(f, size + more);

	if (j == NULL)
		return NULL;
	j->fj_first  = first != NULL ? memcpy(j->fj_bytes, first, size) : NULL;
	j->fj_second = second != NULL ?
		memcpy(j->fj_bytes + size, second, more) : NULL;
	return j;
}

/* Makes the call. Native threads. */
static void job_run(void *arg)
{
	struct job *j = arg;

	j->fj_result = -ETIMEDOUT;
	if (j->fj_until != UNEVER && unow() >= j->fj_until)
		return;
	do
		j->fj_f(j);
	while (j->fj_result == -EINTR);
}

/* Has the call made by a native thread. Returns its result, or an error. */
static ssize_t job_call(struct job *j, utime_ns until)
{
	int rc = 0;

	if (until == UNOW)
		return -EAGAIN;
	j->fj_until = until;
	if (ustack_self() == NULL)
		job_run(j);
	else
		rc = ucall_until(job_run, j, until);
	if (rc != 0)
		return rc == -EINVAL ? -ENOSYS : rc;
	return j->fj_result;
}

/* Does all of a job that the caller has just made, or could not make. */
static int job_whole(struct job *j, utime_ns until)
{
	int rc = upoll_enter(until);

	if (rc == 0)
		rc = j != NULL ? (int)job_call(j, until) : -ENOMEM;
	return rc;
}

/* Files. */

static void call_open(struct job *j)
{
	j->fj_result = upoll_result(open(j->fj_first, j->fj_flags, j->fj_mode));
}

int u_open(const char *path, int flags, mode_t mode, utime_ns until)
{
	struct job *j = job_strings(call_open, path, NULL);
	int rc;

	if (j != NULL) {
		j->fj_flags = flags;
		j->fj_mode  = mode;
	}
	rc = job_whole(j, until);
	free(j);
	return rc;
}

static void call_fsync(struct job *j)
{
	j->fj_result = upoll_result(fsync(j->fj_fd));
}

int u_fsync(int fd, utime_ns until)
{
	struct job *j = job_make(call_fsync, 0);
	int rc;

	if (j != NULL)
		j->fj_fd = fd;
	rc = job_whole(j, until);
	free(j);
	return rc;
}

static void call_stat(struct job *j)
{
	j->fj_result = upoll_result(stat(j->fj_first, &j->fj_of.stat));
}

int u_stat(const char *path, struct stat *st, utime_ns until)
{
	struct job *j = job_strings(call_stat, path, NULL);
	int rc = job_whole(j, until);

	if (rc == 0)
		*st = j->fj_of.stat;
	free(j);
	return rc;
}

static void call_rename(struct job *j)
{
	j->fj_result = upoll_result(rename(j->fj_first, j->fj_second));
}

int u_rename(const char *from, const char *to, utime_ns until)
{
	struct job *j = job_strings(call_rename, from, to);
	int rc = job_whole(j, until);

	free(j);
	return rc;
}

static void call_unlink(struct job *j)
{
	j->fj_result = upoll_result(unlink(j->fj_first));
}

int u_unlink(const char *path, utime_ns until)
{
	struct job *j = job_strings(call_unlink, path, NULL);
	int rc = job_whole(j, until);

	free(j);
	return rc;
}

/* Reads and writes. */

/* What is left to be done: on the stack of the caller, for itself. */
struct rest {
	int    rs_fd;
	bool   rs_writes;
	char  *rs_at;
	size_t rs_size;
	off_t  rs_offset;
};

/* Reads or writes, in a native thread. */
static NOINLINE ssize_t move(int fd, bool writes, void *at, size_t size,
			     off_t offset)
{
	return upoll_result(writes ? pwrite(fd, at, size, offset) :
		      pread(fd, at, size, offset));
}

static void call_move(struct job *j)
{
	j->fj_result = move(j->fj_fd, j->fj_flags, j->fj_bytes, j->fj_size,
			   j->fj_at);
}

#if defined(RWF_NOWAIT)
/* Returns whether fd ends before an offset. */
static NOINLINE bool ends(int fd, off_t offset)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_size <= offset;
}

/*
 * Moves what needs no wait. -EAGAIN: only a native thread can tell. Linux 5.9
 * and 5.10 may return 0 in the middle of a file, so the size is looked at.
 */
static NOINLINE ssize_t move_now(const struct rest *t, size_t size)
{
	struct iovec v = { t->rs_at, size };
	ssize_t rc = upoll_result(t->rs_writes ?
		pwritev2(t->rs_fd, &v, 1, t->rs_offset, RWF_NOWAIT) :
		preadv2(t->rs_fd, &v, 1, t->rs_offset, RWF_NOWAIT));

	switch (rc) {
	case 0:
		return ends(t->rs_fd, t->rs_offset) ? 0 : -EAGAIN;
	case -EINVAL: case -EINTR: case -ENOSYS: case -EOPNOTSUPP:
		return -EAGAIN;
	}
	return rc;
}
#else
static ssize_t move_now(const struct rest *t, size_t size)
{
	(void)t, (void)size;
	return -EAGAIN;
}
#endif

/* Has a native thread move a part. *j is the job, or NULL before the first. */
static NOINLINE ssize_t move_by_call(struct job **j, const struct rest *t,
				     size_t size, utime_ns until)
{
	ssize_t rc;

	if (*j == NULL)
		*j = job_make(call_move, size);	/* later parts are not larger */
	if (*j == NULL)
		return -ENOMEM;
	(*j)->fj_fd    = t->rs_fd;
	(*j)->fj_flags = t->rs_writes;
	(*j)->fj_at    = t->rs_offset;
	(*j)->fj_size  = size;
	if (t->rs_writes)
		memcpy((*j)->fj_bytes, t->rs_at, size);
	rc = job_call(*j, until);
	if (rc > 0 && !t->rs_writes)
		memcpy(t->rs_at, (*j)->fj_bytes, (size_t)rc);
	return rc;
}

static ssize_t move_part(struct job **j, const struct rest *t, utime_ns until)
{
	size_t size = t->rs_size < UFILE_PART ? t->rs_size : UFILE_PART;
	ssize_t rc = upoll_enter(until);

	if (rc != 0)
		return rc;
	if (t->rs_offset < 0)	/* preadv2() has a meaning for -1 */
		return -EINVAL;
	if (ustack_self() == NULL)
		return move(t->rs_fd, t->rs_writes, t->rs_at, size,
			    t->rs_offset);
	rc = move_now(t, size);
	return rc == -EAGAIN ? move_by_call(j, t, size, until) : rc;
}

/* Moves all of t, or what it can: K3. */
static ssize_t move_all(struct rest *t, utime_ns until)
{
	struct job *j = NULL;
	size_t done = 0;
	ssize_t rc = 0;

	while (t->rs_size > 0) {
		rc = move_part(&j, t, until);
		if (rc <= 0)
			break;
		done        += (size_t)rc;
		t->rs_at     += rc;
		t->rs_size   -= (size_t)rc;
		t->rs_offset += rc;
	}
	free(j);
	return done > 0 ? (ssize_t)done : rc;
}

ssize_t u_pread(int fd, void *buf, size_t size, off_t at, utime_ns until)
{
	struct rest t = { fd, false, buf, size, at };

	return move_all(&t, until);
}

ssize_t u_pwrite(int fd, const void *buf, size_t size, off_t at,
		 utime_ns until)
{
	struct rest t = { fd, true, (char *)buf, size, at };

	return move_all(&t, until);
}

/* Names. */

/*
 * Has a look-up made of a job that the caller has just made, or could not make.
 * Returns its result, or an error. But for 0 the caller has the job no more:
 * drop() frees it, and a result that comes late.
 */
static int name_look(struct job *j, void (*drop)(void *), utime_ns until)
{
	int rc = upoll_enter(until);

	if (rc == 0 && j == NULL)
		rc = -ENOMEM;
	if (rc == 0 && until == UNOW)
		rc = -EAGAIN;
	if (rc != 0) {
		free(j);
		return rc;
	}
	j->fj_until = until;
	rc = ucall_lookup(job_run, drop, j, until);
	if (rc != 0)
		return rc == -EINVAL ? -ENOSYS : rc;
	rc = (int)j->fj_result;
	if (rc != 0)
		free(j);
	return rc;
}

/* Turns a result of getaddrinfo() into a result of ours. */
static int name_result(int rc)
{
	_Static_assert(U_EAI(1) == (EAI_NONAME < 0 ? -1 : 1),
		       "U_EAI() has the wrong sign");
	return rc == EAI_SYSTEM ? -errno : U_EAI(rc);
}

static void call_getaddrinfo(struct job *j)
{
	struct info *n = &j->fj_of.info;

	j->fj_result = name_result(getaddrinfo(j->fj_first, j->fj_second,
				j->fj_flags ? &n->hints : NULL, &n->list));
}

static void drop_getaddrinfo(void *arg)
{
	struct job *j = arg;

	if (j->fj_result == 0)
		freeaddrinfo(j->fj_of.info.list);
	free(j);
}

int u_getaddrinfo(const char *host, const char *service,
		  const struct addrinfo *hints, struct addrinfo **list,
		  utime_ns until)
{
	struct job *j = job_strings(call_getaddrinfo, host, service);
	int rc;

	if (j != NULL) {
		j->fj_flags = hints != NULL;
		if (hints != NULL)
			j->fj_of.info.hints = *hints;
	}
	rc = name_look(j, drop_getaddrinfo, until);
	if (rc == 0) {
		*list = j->fj_of.info.list;
		free(j);
	}
	return rc;
}

static void call_getnameinfo(struct job *j)
{
	struct name *n = &j->fj_of.name;
	char *host = n->host_size > 0 ? j->fj_bytes : NULL;
	char *service = n->service_size > 0 ? j->fj_bytes + n->host_size : NULL;

	j->fj_result = name_result(getnameinfo((struct sockaddr *)&n->addr,
		n->len, host, n->host_size, service, n->service_size,
		j->fj_flags));
}

int u_getnameinfo(const struct sockaddr *addr, socklen_t len,
		  char *host, socklen_t host_size,
		  char *service, socklen_t service_size, int flags,
		  utime_ns until)
{
	struct job *j;
	int rc;

	if (host == NULL)
		host_size = 0;
	if (service == NULL)
		service_size = 0;
	if (len > sizeof j->fj_of.name.addr || host_size > UFILE_PART ||
	    service_size > UFILE_PART)
		return -EINVAL;
	j = job_make(call_getnameinfo, (size_t)host_size + service_size);
	if (j != NULL) {
		j->fj_flags = flags;
		memcpy(&j->fj_of.name.addr, addr, len);
		j->fj_of.name.len          = len;
		j->fj_of.name.host_size    = host_size;
		j->fj_of.name.service_size = service_size;
	}
	rc = name_look(j, free, until);
	if (rc != 0)
		return rc;
	if (host_size > 0)
		strcpy(host, j->fj_bytes);
	if (service_size > 0)
		strcpy(service, j->fj_bytes + host_size);
	free(j);
	return 0;
}
