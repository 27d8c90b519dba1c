/* SPDX-License-Identifier: MIT */
/* uwrap.c: calls of libc that block, for threads that may wait. */

/*
 * OVERVIEW
 *
 * Each function here stands before a function of libc: the real function. It
 * asks who calls. A native thread, and a thread whose dispatcher cannot wait,
 * get the real function, and nothing else.
 *
 *	recv()  ---->  hook_recv()  ---->  the real recv(), MSG_DONTWAIT
 *	                   |                  ^
 *	                   | EAGAIN           | again
 *	                   v                  |
 *	            is fd blocking?  --->  u_wait_fd()
 *
 * For our threads a hook tries without blocking. If that would block, and the
 * descriptor is blocking, the thread waits, and tries again. So a non-blocking
 * descriptor costs what it costs without hooks: the first try is the call that
 * the caller wanted. A sleep is u_sleep(), poll() is u_poll(), and a name is
 * looked up by a native thread.
 *
 * Nothing is kept of a descriptor between two calls. So there is no hook for
 * close(), dup(), fcntl() or epoll, and others may do with the descriptor what
 * they like. A descriptor that waits here is owned no more (upoll.c): libraries
 * close by close(), and what is known of the file would stay with the number.
 *
 * HOW A TRY DOES NOT BLOCK
 *
 *	sockets			MSG_DONTWAIT
 *	regular files, folders	the real call: they are always ready
 *	pipes and others	RWF_NOWAIT. If the system has none for the file:
 *				poll(), and then the real call
 *	accept()		O_NONBLOCK around each try, under accept_lock
 *	connect()		O_NONBLOCK during the call (u_connect())
 *
 * INVARIANTS
 *
 * H1. A try that succeeds calls no function that waits. So a signal handler
 *     may call write() or send() if the descriptor has room. Reads and accepts
 *     give way after READS in a row.
 * H2. The library itself calls poll() with time-out 0, sockets with
 *     MSG_DONTWAIT, connect() and accept() on non-blocking descriptors, and
 *     all else by native threads. For these a hook makes the real call, so
 *     hooks never call themselves without an end. With --wrap a static libc
 *     calls hooks, too: accept4() of musl calls accept(), if it has no flags.
 *     So a real call is that which libc would come to in the end.
 * H3. O_NONBLOCK that a hook has set on a listener is never read by another
 *     hook: both hold accept_lock.
 * H4. No function that waits reads or writes errno, since compilers keep its
 *     address, and a thread of ws may go on in another native thread.
 * H5. The real function is known before main(), since dlsym() is not for signal
 *     handlers. A call before that looks it up itself.
 *
 * TWO FORMS
 *
 * With UWRAP_LINK the hooks are called __wrap_poll and so on, for the linker's
 * option --wrap. Otherwise they have the names of libc, for a program or a
 * shared object that comes before libc. With UWRAP_WEAK a program without the
 * library can be loaded, too: its calls are libc's.
 *
 * COST
 *
 * A message by read() and write() with hooks takes longer than by u_read() and
 * u_write() (README.md). A hook has no hints, so it tries in vain before each wait,
 * and it asks for the flags and the time-out. With the hooks linked, u_read() and
 * u_write() take what they take without.
 *
 * REJECTED
 *
 * Making descriptors non-blocking when they appear, as many do: then O_NONBLOCK,
 * time-outs, dup() and close() have to be kept and faked. accept() by a native
 * thread: a thread that waits for connections would keep a native thread, and
 * could not be cancelled. System calls instead of dlsym(): they are no
 * cancellation points for native threads.
 */

#undef _FORTIFY_SOURCE		/* the hooks have the plain names */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* RTLD_NEXT, accept4(), preadv2() */
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "ufile.h"
#include "ufork.h"
#include "uio.h"
#include "upoll.h"
#include "compiler.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

UPREEMPT_NEVER;

/* For usched_is_wrapped(). */
extern const char uwrap_linked[];
const char uwrap_linked[1] = "";

#define READS		64		/* calls before a thread gives way */
#define VAIN		8		/* tries in vain before it naps */
#define NAP		UTIME_MS

/* All hooks: result, name, arguments. wrap.flags has the same names. */
#define PLAIN(X)							\
	X(ssize_t, read, (int fd, void *buf, size_t size))		\
	X(ssize_t, readv, (int fd, const struct iovec *v, int nr))	\
	X(ssize_t, recv, (int fd, void *buf, size_t size, int flags))	\
	X(ssize_t, recvfrom, (int fd, void *buf, size_t size, int flags, \
			      struct sockaddr *from, socklen_t *len))	\
	X(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags))	\
	X(ssize_t, write, (int fd, const void *buf, size_t size))	\
	X(ssize_t, writev, (int fd, const struct iovec *v, int nr))	\
	X(ssize_t, send, (int fd, const void *buf, size_t size, int flags)) \
	X(ssize_t, sendto, (int fd, const void *buf, size_t size, int flags, \
			    const struct sockaddr *to, socklen_t len))	\
	X(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags)) \
	X(int, accept, (int fd, struct sockaddr *addr, socklen_t *len))	\
	X(int, accept4, (int fd, struct sockaddr *addr, socklen_t *len,	\
			 int flags))					\
	X(int, connect, (int fd, const struct sockaddr *addr, socklen_t len)) \
	X(int, poll, (struct pollfd *fds, nfds_t nr, int ms))		\
	X(int, ppoll, (struct pollfd *fds, nfds_t nr,			\
		       const struct timespec *t, const sigset_t *mask))	\
	X(int, select, (int nr, fd_set *r, fd_set *w, fd_set *e,	\
			struct timeval *t))				\
	X(int, pselect, (int nr, fd_set *r, fd_set *w, fd_set *e,	\
			 const struct timespec *t, const sigset_t *mask)) \
	X(unsigned, sleep, (unsigned seconds))				\
	X(int, usleep, (useconds_t us))					\
	X(int, nanosleep, (const struct timespec *t, struct timespec *left)) \
	X(int, clock_nanosleep, (clockid_t clock, int flags,		\
				 const struct timespec *t,		\
				 struct timespec *left))		\
	X(int, getaddrinfo, (const char *host, const char *service,	\
			     const struct addrinfo *hints,		\
			     struct addrinfo **list))

/* What headers of glibc make of some of them, with _FORTIFY_SOURCE. */
#if defined(__GLIBC__)
#define CHECKED(X)							\
	X(ssize_t, __read_chk, (int fd, void *buf, size_t size, size_t room)) \
	X(ssize_t, __recv_chk, (int fd, void *buf, size_t size, size_t room, \
				int flags))				\
	X(ssize_t, __recvfrom_chk, (int fd, void *buf, size_t size,	\
				    size_t room, int flags,		\
				    struct sockaddr *from, socklen_t *len)) \
	X(int, __poll_chk, (struct pollfd *fds, nfds_t nr, int ms,	\
			    size_t room))				\
	X(int, __ppoll_chk, (struct pollfd *fds, nfds_t nr,		\
			     const struct timespec *t,			\
			     const sigset_t *mask, size_t room))
#else
#define CHECKED(X)
#endif

#if defined(UWRAP_LINK)
#define DECLARE(type, name, args)					\
	type real_##name args __asm__("__real_" #name);			\
	type hook_##name args __asm__("__wrap_" #name);
#define REAL(name)	real_##name
PLAIN(DECLARE) CHECKED(DECLARE)

#else
#define DECLARE(type, name, args)					\
	__attribute__((visibility("default")))				\
	type hook_##name args __asm__(#name);
#define REAL(name)	((__typeof__(&hook_##name))next(NEXT_##name))
PLAIN(DECLARE) CHECKED(DECLARE)

#define NEXT(type, name, args)	NEXT_##name,
#define NAME(type, name, args)	#name,
enum { PLAIN(NEXT) CHECKED(NEXT) NEXT_ALL };

/* Returns the function of libc with the same name; NULL: it has none. */
static void *look(int nr)
{
	static const char *const names[] = { PLAIN(NAME) CHECKED(NAME) };
	static void *known[NEXT_ALL];		/* atomic */
	void *f = __atomic_load_n(&known[nr], __ATOMIC_RELAXED);

	if (f == NULL) {
		f = dlsym(RTLD_NEXT, names[nr]);
		__atomic_store_n(&known[nr], f, __ATOMIC_RELAXED);
	}
	return f;
}

static void *next(int nr)
{
	void *f = look(nr);

	if (f == NULL)
		usched_fail("wrap: a static program needs uwrap_link.o and "
			    "wrap.flags");
	return f;
}

__attribute__((constructor)) static void next_all(void)		/* H5 */
{
	int i;

	for (i = 0; i < NEXT_ALL; i++)
		(void)look(i);
}
#endif

/* It looks into no struct, and so serves each kind of library. */
#define WEAK(name)	WEAK_NAMED(name)
#define WEAK_NAMED(name) __asm__(".weak " #name);
WEAK(USCHED_KIND_HARD)

#if defined(UWRAP_WEAK)
#pragma weak u_wait_fd
#pragma weak upoll_share
#pragma weak u_connect
#pragma weak u_poll
#pragma weak u_sleep
#pragma weak u_getaddrinfo
#pragma weak uafter
#pragma weak unow
#pragma weak uwait_give_way
/* Nor does it need a library. */
WEAK(USCHED_KIND_SINGLE)
#if defined(__x86_64__) && defined(__LP64__)
WEAK(usched_current)
#else
#pragma weak ustack_self
#endif
#define LINKED		(u_wait_fd != NULL)
#else
#define LINKED		true
#endif

/* Protects O_NONBLOCK of listeners: H3. Never held over a wait. */
static pthread_mutex_t accept_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct ustack *forked;	/* the thread that has forked us */

static void in_child(void)
{
	static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

	accept_lock = unlocked;
	forked = LINKED ? ustack_self() : NULL;
}

static struct ufork at_fork = { .f_rank = UFORK_ACCEPT, .f_child = in_child };
UFORK(at_fork)

/*
 * Returns whether the caller is a thread that can wait. In the child of fork()
 * the thread that has forked is none: FORK in rr.h.
 */
static bool ours(void)
{
	const struct ustack *u;

	if (!LINKED)
		return false;
	u = ustack_self();
	return u != NULL && u != forked && u->u_sched->s_wait != NULL;
}

/*
 * With the pthread face, hooks are cancellation points (pface.h): these do not
 * return if the caller was cancelled. NULL: the face is not linked.
 */
void pface_point(void) __attribute__((weak));
void pface_pointed(int rc) __attribute__((weak));

/*
 * Begins a hook, whose last call is finish(). False: the caller gets the real
 * function.
 */
static bool begin(void)
{
	if (!ours())
		return false;
	if (pface_point != NULL)
		pface_point();
	return true;
}

/* Results are -errno inside: H4. */

static NOINLINE ssize_t result(ssize_t rc)
{
	return rc >= 0 ? rc : -errno;
}

static NOINLINE int errno_now(void)
{
	return errno;
}

/* Returns what libc would: rc, or -1 and errno, which success leaves as kept. */
static NOINLINE ssize_t answer(ssize_t rc, int kept)
{
	errno = rc < 0 ? (int)-rc : kept;
	return rc < 0 ? -1 : rc;
}

/* Ends a hook that begin() has begun. */
static void end(ssize_t rc)
{
	if (pface_pointed != NULL)
		pface_pointed(rc < 0 ? (int)rc : 0);
}

static ssize_t finish(ssize_t rc, int kept)
{
	end(rc);
	return answer(rc, kept);
}

static __thread unsigned in_a_row;	/* reads and accepts without a wait */

static NOINLINE bool is_due(void)
{
	return ++in_a_row >= READS;
}

static NOINLINE void has_waited(void)
{
	in_a_row = 0;
}

/* Lets others run now and then: H1. */
static void fair(void)
{
	if (is_due()) {
		has_waited();
		(void)uwait_give_way();
	}
}

/* Reads and writes. */

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

static bool is_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || flags & O_NONBLOCK;
}

/* Returns whether a call that finds nothing would block in libc. */
static bool blocks(const struct io *o)
{
	return !(o->o_flags & (MSG_OOB | MSG_ERRQUEUE)) &&
		!o->o_final && !is_nonblocking(o->o_fd);
}

/* Returns the deadline of a call that begins now: SO_RCVTIMEO, SO_SNDTIMEO. */
static utime_ns deadline(int fd, int option)
{
	struct timeval t = { 0, 0 };
	socklen_t size = sizeof t;

	if (getsockopt(fd, SOL_SOCKET, option, &t, &size) != 0 ||
	    (t.tv_sec == 0 && t.tv_usec == 0))
		return UNEVER;
	return t.tv_sec < UNEVER / UTIME_S - 1 ?
		uafter(t.tv_sec * UTIME_S + t.tv_usec * UTIME_US) : UNEVER;
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

/*
 * Returns whether the reading side of a socket is shut. Then datagram sockets,
 * and listeners of AF_UNIX, stay ready, and yet say EAGAIN to a try.
 */
static bool is_shut(int fd)
{
	struct pollfd f = { .fd = fd, .events = POLLRDHUP };

	return REAL(poll)(&f, 1, 0) > 0 && f.revents & POLLRDHUP;
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

/*
 * Waits for another try. 0 or -errno; -EAGAIN: until has passed. Tries in vain
 * make it nap: some descriptors are ready, but not for this caller, such as a
 * datagram socket whose receiver is full.
 */
static int wait_for(int fd, int what, utime_ns until, unsigned vain)
{
	utime_ns nap;
	int rc = 0;

	has_waited();
	if (vain > VAIN) {
		nap = uafter(NAP);
		rc  = u_sleep(nap < until ? nap : until);
	}
	upoll_share(fd);
	if (rc == 0)
		rc = u_wait_fd(fd, what, until);
	return rc == -ETIMEDOUT ? -EAGAIN : rc;
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

/* With MSG_DONTWAIT the real call is the only try: H2, and non-blocking code. */
static bool may_wait(int flags)
{
	return !(flags & MSG_DONTWAIT) && begin();
}

/* An iovec and a struct msghdr for a buffer. */
#define MESSAGE(m, buf, size)						\
	struct iovec m##_v = { (void *)(uintptr_t)(buf), size };		\
	struct msghdr m = { .msg_iov = &m##_v, .msg_iovlen = 1 }

/* A struct msghdr for the arguments of readv() and writev(). */
#define MESSAGE_V(m, v, nr)						\
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)(v),	\
			    .msg_iovlen = (size_t)(nr) }

ssize_t hook_read(int fd, void *buf, size_t size)
{
	MESSAGE(m, buf, size);

	if (size == 0 || !begin())
		return REAL(read)(fd, buf, size);
	return receive(fd, &m, 0, true);
}

ssize_t hook_readv(int fd, const struct iovec *v, int nr)
{
	MESSAGE_V(m, v, nr);

	if (nr < 1 || nr > IOV_MAX || size_of(&m) == 0 || !begin())
		return REAL(readv)(fd, v, nr);
	return receive(fd, &m, 0, true);
}

ssize_t hook_recv(int fd, void *buf, size_t size, int flags)
{
	MESSAGE(m, buf, size);

	if (!may_wait(flags))
		return REAL(recv)(fd, buf, size, flags);
	return receive(fd, &m, flags, false);
}

ssize_t hook_recvfrom(int fd, void *buf, size_t size, int flags,
		      struct sockaddr *from, socklen_t *len)
{
	MESSAGE(m, buf, size);
	ssize_t rc;

	if (!may_wait(flags))
		return REAL(recvfrom)(fd, buf, size, flags, from, len);
	m.msg_name    = from;
	m.msg_namelen = from != NULL ? *len : 0;
	rc = receive(fd, &m, flags, false);
	if (rc >= 0 && from != NULL)
		*len = m.msg_namelen;
	return rc;
}

ssize_t hook_recvmsg(int fd, struct msghdr *m, int flags)
{
	if (!may_wait(flags))
		return REAL(recvmsg)(fd, m, flags);
	return receive(fd, m, flags, false);
}

ssize_t hook_write(int fd, const void *buf, size_t size)
{
	MESSAGE(m, buf, size);

	if (!begin())
		return REAL(write)(fd, buf, size);
	return transmit(fd, &m, 0, true);
}

ssize_t hook_writev(int fd, const struct iovec *v, int nr)
{
	MESSAGE_V(m, v, nr);

	if (nr < 1 || nr > IOV_MAX || size_of(&m) == 0 || !begin())
		return REAL(writev)(fd, v, nr);
	return transmit(fd, &m, 0, true);
}

ssize_t hook_send(int fd, const void *buf, size_t size, int flags)
{
	MESSAGE(m, buf, size);

	if (!may_wait(flags))
		return REAL(send)(fd, buf, size, flags);
	return transmit(fd, &m, flags, false);
}

ssize_t hook_sendto(int fd, const void *buf, size_t size, int flags,
		    const struct sockaddr *to, socklen_t len)
{
	MESSAGE(m, buf, size);

	if (!may_wait(flags))
		return REAL(sendto)(fd, buf, size, flags, to, len);
	m.msg_name    = (void *)(uintptr_t)to;
	m.msg_namelen = to != NULL ? len : 0;
	return transmit(fd, &m, flags, false);
}

ssize_t hook_sendmsg(int fd, const struct msghdr *m, int flags)
{
	if (!may_wait(flags))
		return REAL(sendmsg)(fd, m, flags);
	return transmit(fd, m, flags, false);
}

/* Connections. */

static int call_accept(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	return (int)result(flags == 0 ? REAL(accept)(fd, addr, len) :
			   REAL(accept4)(fd, addr, len, flags));
}

/* Tries without blocking. *blocks: -EAGAIN means that libc would block. */
static NOINLINE int try_accept(int fd, struct sockaddr *addr, socklen_t *len,
			       int flags, bool *blocks)
{
	int rc = -EAGAIN, was;

	pthread_mutex_lock(&accept_lock);			/* H3 */
	was = fcntl(fd, F_GETFL);
	*blocks = was >= 0 && !(was & O_NONBLOCK) &&
		fcntl(fd, F_SETFL, was | O_NONBLOCK) == 0;
	if (*blocks) {
		rc = call_accept(fd, addr, len, flags);
		(void)fcntl(fd, F_SETFL, was);
	}
	pthread_mutex_unlock(&accept_lock);
	return *blocks ? rc : call_accept(fd, addr, len, flags);
}

static int wait_accept(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	utime_ns until = deadline(fd, SO_RCVTIMEO);
	unsigned vain = 0;
	bool blocks, shut;
	int rc;

	do {
		rc = wait_for(fd, UREAD, until, vain++);
		if (rc != 0)
			return rc;
		shut = is_shut(fd);
		rc = try_accept(fd, addr, len, flags, &blocks);
	} while (rc == -EAGAIN && blocks && !shut);
	return rc == -EAGAIN && blocks ? -EINVAL : rc;
}

int hook_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	int kept = errno_now();
	bool blocks;
	int rc;

	if (!begin())
		return REAL(accept4)(fd, addr, len, flags);
	rc = try_accept(fd, addr, len, flags, &blocks);
	if (rc == -EAGAIN && blocks)
		rc = wait_accept(fd, addr, len, flags);
	fair();
	return (int)finish(rc, kept);
}

int hook_accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	return ours() ? hook_accept4(fd, addr, len, 0) :
		REAL(accept)(fd, addr, len);
}

/* A deadline of its own ends connect() as SO_SNDTIMEO does in libc. */
int hook_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	int kept = errno_now();
	utime_ns until;
	int rc;

	if (!ours() || is_nonblocking(fd) || !begin())
		return REAL(connect)(fd, addr, len);
	until = deadline(fd, SO_SNDTIMEO);
	rc = u_connect(fd, addr, len, until);
	if (rc == -ETIMEDOUT && unow() >= until)
		rc = addr->sa_family == AF_UNIX ? -EAGAIN : -EINPROGRESS;
	return (int)finish(rc, kept);
}

/* Many descriptors. */

static bool is_valid(const struct timespec *t)
{
	return t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < UTIME_S;
}

/* Returns a length in ns, or UNEVER if it is too long. */
static utime_ns length(time_t s, long ns)
{
	return s < UNEVER / UTIME_S - 1 ? s * UTIME_S + ns : UNEVER;
}

/* With no descriptor poll() is a sleep. 0: the deadline has passed. */
static int poll_until(struct pollfd *fds, nfds_t nr, utime_ns until)
{
	int rc = nr > 0 ? u_poll(fds, nr, until) : u_sleep(until);

	return rc == -ETIMEDOUT ? 0 : rc;
}

int hook_poll(struct pollfd *fds, nfds_t nr, int ms)
{
	int kept = errno_now();

	if (ms == 0 || !begin())
		return REAL(poll)(fds, nr, ms);
	return (int)finish(poll_until(fds, nr, ms < 0 ? UNEVER :
				      uafter(ms * UTIME_MS)), kept);
}

/* A mask belongs to the native thread: such a call is libc's. */
int hook_ppoll(struct pollfd *fds, nfds_t nr, const struct timespec *t,
	       const sigset_t *mask)
{
	int kept = errno_now();

	if (mask != NULL || (t != NULL && !is_valid(t)) || !begin())
		return REAL(ppoll)(fds, nr, t, mask);
	return (int)finish(poll_until(fds, nr, t == NULL ? UNEVER :
			uafter(length(t->tv_sec, t->tv_nsec))), kept);
}

/* Sets of descriptors may be larger than an fd_set, so no FD_ISSET() here. */

enum { BITS = 8 * sizeof(unsigned long) };

static bool has(const fd_set *set, int fd)
{
	return set != NULL && ((const unsigned long *)set)[fd / BITS] >>
		fd % BITS & 1;
}

static void take_out(fd_set *set, int fd)
{
	((unsigned long *)set)[fd / BITS] &= ~(1ul << fd % BITS);
}

#define READ_BITS	(POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR)
#define WRITE_BITS	(POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR)

struct sets {
	int            s_nr;
	fd_set        *s_set[3];	/* of select(): read, write, except */
	struct pollfd *s_fds;		/* each descriptor of a set */
	nfds_t         s_fds_nr;
};

static const short asked[] = { POLLIN, POLLOUT, POLLPRI };
static const short found[] = { READ_BITS, WRITE_BITS, POLLPRI };

static int sets_begin(struct sets *s)
{
	struct pollfd f = { .revents = 0 };
	int i;

	s->s_fds = malloc(((size_t)s->s_nr + 1) * sizeof f);
	if (s->s_fds == NULL)
		return -ENOMEM;
	for (f.fd = 0; f.fd < s->s_nr; f.fd++) {
		for (f.events = i = 0; i < 3; i++)
			if (has(s->s_set[i], f.fd))
				f.events = (short)(f.events | asked[i]);
		if (f.events != 0)
			s->s_fds[s->s_fds_nr++] = f;
	}
	return 0;
}

/* Returns how many bits of the sets are ready, or -EBADF. */
static int sets_count(const struct sets *s)
{
	nfds_t k;
	int i, nr = 0;

	for (k = 0; k < s->s_fds_nr; k++) {
		const struct pollfd *f = &s->s_fds[k];

		if (f->revents & POLLNVAL)
			return -EBADF;
		for (i = 0; i < 3; i++)
			nr += has(s->s_set[i], f->fd) && f->revents & found[i];
	}
	return nr;
}

static void sets_leave(struct sets *s)
{
	nfds_t k;
	int i;

	for (k = 0; k < s->s_fds_nr; k++)
		for (i = 0; i < 3; i++)
			if (has(s->s_set[i], s->s_fds[k].fd) &&
			    !(s->s_fds[k].revents & found[i]))
				take_out(s->s_set[i], s->s_fds[k].fd);
}

/* poll() may report what select() would not: then this naps, and asks again. */
static int sets_wait(struct sets *s, utime_ns until)
{
	utime_ns nap;
	int rc;

	for (;;) {
		rc = poll_until(s->s_fds, s->s_fds_nr, until);
		if (rc > 0)
			rc = sets_count(s);
		else if (rc == 0 || rc == -ETIMEDOUT)
			return 0;
		if (rc != 0 || unow() >= until)
			return rc;
		nap = uafter(NAP);
		rc  = u_sleep(nap < until ? nap : until);
		if (rc < 0)
			return rc;
	}
}

static int select_until(int nr, fd_set *r, fd_set *w, fd_set *e, utime_ns until)
{
	struct sets s = { .s_nr = nr, .s_set = { r, w, e } };
	int rc = sets_begin(&s);

	if (rc == 0)
		rc = sets_wait(&s, until);
	if (rc >= 0)
		sets_leave(&s);
	free(s.s_fds);
	return rc;
}

int hook_select(int nr, fd_set *r, fd_set *w, fd_set *e, struct timeval *t)
{
	int kept = errno_now();
	utime_ns until, left;
	int rc;

	if (nr < 0 || (t != NULL && (t->tv_sec < 0 || t->tv_usec < 0 ||
	    (t->tv_sec == 0 && t->tv_usec == 0))) || !begin())
		return REAL(select)(nr, r, w, e, t);
	until = t == NULL ? UNEVER :
		uafter(length(t->tv_sec, t->tv_usec * 1000l));
	rc = select_until(nr, r, w, e, until);
	if (t != NULL) {
		left = until - unow();
		t->tv_sec  = left > 0 ? left / UTIME_S : 0;
		t->tv_usec = left > 0 ? left % UTIME_S / UTIME_US : 0;
	}
	return (int)finish(rc, kept);
}

int hook_pselect(int nr, fd_set *r, fd_set *w, fd_set *e,
		 const struct timespec *t, const sigset_t *mask)
{
	int kept = errno_now();

	if (mask != NULL || nr < 0 || (t != NULL && !is_valid(t)) || !begin())
		return REAL(pselect)(nr, r, w, e, t, mask);
	return (int)finish(select_until(nr, r, w, e, t == NULL ? UNEVER :
			uafter(length(t->tv_sec, t->tv_nsec))), kept);
}

/* Time and names. */

/* Sleeps. Returns 0 or -errno, and what is left. */
static int sleep_for(utime_ns ns, utime_ns *left)
{
	utime_ns until = uafter(ns);
	int rc = u_sleep(until);

	*left = until - unow();
	if (rc == 0 || *left < 0)
		*left = 0;
	return rc;
}

/* Whole seconds that are left are fewer with each call, so loops end. */
unsigned hook_sleep(unsigned seconds)
{
	int kept = errno_now();
	utime_ns left;
	int rc;

	if (!begin())
		return REAL(sleep)(seconds);
	rc = sleep_for(seconds * UTIME_S, &left);
	(void)finish(rc, kept);
	return (unsigned)(left / UTIME_S);
}

int hook_usleep(useconds_t us)
{
	int kept = errno_now();
	utime_ns left;

	if (!begin())
		return REAL(usleep)(us);
	return (int)finish(sleep_for(us * UTIME_US, &left), kept);
}

static int sleep_rest(const struct timespec *t, struct timespec *rest)
{
	utime_ns left;
	int rc = sleep_for(length(t->tv_sec, t->tv_nsec), &left);

	if (rc < 0 && rest != NULL) {
		rest->tv_sec  = left / UTIME_S;
		rest->tv_nsec = left % UTIME_S;
	}
	return rc;
}

int hook_nanosleep(const struct timespec *t, struct timespec *left)
{
	int kept = errno_now();

	if (!is_valid(t) || !begin())
		return REAL(nanosleep)(t, left);
	return (int)finish(sleep_rest(t, left), kept);
}

/* Sleeps until CLOCK_REALTIME shows t, also if it is set meanwhile. */
static int sleep_realtime(const struct timespec *t)
{
	utime_ns until = length(t->tv_sec, t->tv_nsec);
	struct timespec now;
	utime_ns left;
	int rc = 0;

	while (rc == 0) {
		(void)clock_gettime(CLOCK_REALTIME, &now);
		left = until - (now.tv_sec * UTIME_S + now.tv_nsec);
		if (left <= 0)
			break;
		rc = u_sleep(uafter(left < UTIME_S ? left : UTIME_S));
	}
	return rc;
}

/* Returns a positive error number, as libc does. Other clocks are libc's. */
int hook_clock_nanosleep(clockid_t clock, int flags, const struct timespec *t,
			 struct timespec *left)
{
	int kept = errno_now();
	int rc;

	if (!is_valid(t) || (flags & ~TIMER_ABSTIME) ||
	    (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME) || !begin())
		return REAL(clock_nanosleep)(clock, flags, t, left);
	if (!(flags & TIMER_ABSTIME))
		rc = sleep_rest(t, left);
	else if (clock == CLOCK_MONOTONIC)
		rc = u_sleep(length(t->tv_sec, t->tv_nsec));
	else
		rc = sleep_realtime(t);
	end(rc);
	(void)answer(0, kept);
	return -rc;
}

/*
 * Lets a native thread look. Never looks here: a server that is deaf would stop
 * all threads of the processor. EAI_AGAIN: UCALL_LOOKUPS are abandoned, or the
 * system refuses a native thread. EAI_SYSTEM and ECHILD: at the fork of this
 * process a look-up was in libc.
 */
int hook_getaddrinfo(const char *host, const char *service,
		     const struct addrinfo *hints, struct addrinfo **list)
{
	int kept = errno_now();
	int rc = -ENOSYS;

	if (begin()) {
		rc = u_getaddrinfo(host, service, hints, list, UNEVER);
		end(rc);
	}
	if (rc == -ENOSYS)
		return REAL(getaddrinfo)(host, service, hints, list);
	(void)answer(rc, kept);
	if (rc == -EAGAIN)
		return EAI_AGAIN;
	if (rc == -ENOMEM)
		return EAI_MEMORY;
	return rc < 0 ? EAI_SYSTEM : U_EAI(rc);
}

/* What _FORTIFY_SOURCE has made of them: libc ends the program. */

#if defined(__GLIBC__)
ssize_t hook___read_chk(int fd, void *buf, size_t size, size_t room)
{
	return size > room ? REAL(__read_chk)(fd, buf, size, room) :
		hook_read(fd, buf, size);
}

ssize_t hook___recv_chk(int fd, void *buf, size_t size, size_t room, int flags)
{
	return size > room ? REAL(__recv_chk)(fd, buf, size, room, flags) :
		hook_recv(fd, buf, size, flags);
}

ssize_t hook___recvfrom_chk(int fd, void *buf, size_t size, size_t room,
			    int flags, struct sockaddr *from, socklen_t *len)
{
	return size > room ?
		REAL(__recvfrom_chk)(fd, buf, size, room, flags, from, len) :
		hook_recvfrom(fd, buf, size, flags, from, len);
}

int hook___poll_chk(struct pollfd *fds, nfds_t nr, int ms, size_t room)
{
	return nr > room / sizeof *fds ? REAL(__poll_chk)(fds, nr, ms, room) :
		hook_poll(fds, nr, ms);
}

int hook___ppoll_chk(struct pollfd *fds, nfds_t nr, const struct timespec *t,
		     const sigset_t *mask, size_t room)
{
	return nr > room / sizeof *fds ?
		REAL(__ppoll_chk)(fds, nr, t, mask, room) :
		hook_ppoll(fds, nr, t, mask);
}
#endif
