/* SPDX-License-Identifier: MIT */
/*
 * truth.c: the simulated kernel answers as Linux does. A random script of calls
 * on sockets, pipes, epoll and files runs on loopback, or, linked with sim.flags
 * and -DSIMULATED, in a host. Both print each call with its result, its errno,
 * the bits of poll() and the bytes; sim.sh compares. All descriptors are
 * non-blocking, and after each call there is a pause in which all arrives. So
 * the answers have no choice.
 *
 *	truth SEED CALLS	on this machine; files in the working folder
 *	truth --seed SEED	in a host; CALLS are in the environment
 *
 * With -DENTRY it has no main(), and bytes of libFuzzer make the script: each draw
 * takes a byte or two, until there are none (test/whole/entry/sim.c).
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#if defined(SIMULATED)
#include <usched/usim.h>
#endif

enum { SLOTS = 14, PORTS = 3, PATHS = 8, PAGE = 4096 };

enum type { NONE, STREAM, DATAGRAM, READER, WRITER, REGULAR, FOLDER, LOCAL,
	    LOCAL_DATAGRAM, COUNTER, TIMER };

struct slot {
	int       fd;
	enum type type;
	int       watched;	/* by the epoll */
	int       pair;		/* two ends of a connection have the same; or 0 */
};

static struct slot slots[SLOTS];
static uint64_t state;
static int ep;
static unsigned short ports[PORTS];	/* that nothing else uses */
static int came[NSIG];			/* calls of the handler */

#if defined(ENTRY)
int truth_simulated(const unsigned char *bytes, size_t nr);
int truth_linux(const unsigned char *bytes, size_t nr);

static const unsigned char *draws;	/* bytes that no draw has taken */
static size_t draws_left;

static unsigned below(unsigned nr)
{
	unsigned draw = 0, bytes = nr > 256 ? 2 : 1;

	for (; bytes > 0 && draws_left > 0; bytes--, draws_left--)
		draw = draw << 8 | *draws++;
	return draw % nr;
}

/* A byte to write, which takes no draw. */
static unsigned noise(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(state >> 33) % 256;
}
#else
static int calls;	/* that are left */

static unsigned below(unsigned nr)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((state >> 33) % nr);
}

static unsigned noise(void)
{
	return below(256);
}
#endif

/* Lets all arrive. Loopback has no latency, but closes take a moment. */
static void settle(void)
{
#if defined(SIMULATED)
	usleep(1000);
#else
	usleep(300);
#endif
}

static const char *port_name(const struct sockaddr_in *a)
{
	static char text[20];
	int i;

	for (i = 0; i < PORTS; i++)
		if (ntohs(a->sin_port) == ports[i]) {
			snprintf(text, sizeof text, "port %d", i);
			return text;
		}
	return a->sin_port == 0 ? "no port" : "some port";
}

static void handler(int signo)
{
	came[signo]++;
}

/* Prints which signals have been handled since the last time. */
static void show_signals(void)
{
	int i;

	for (i = 1; i < NSIG; i++) {
		if (came[i] > 0)
			printf("	signal %d: %d\n", i, came[i]);
		came[i] = 0;
	}
}

/* Prints what a call has answered, and to which slot. */
static void said(const char *call, int slot, long rc)
{
	int error = errno;

	printf("%s %d: %ld", call, slot, rc);
	if (rc < 0)
		printf(" %s", strerror(error));
	putchar('\n');
	show_signals();
	settle();
}

/* A write without a reader raises SIGPIPE, or is told not to. */
static int no_signal(void)
{
	return below(2) == 0 ? MSG_NOSIGNAL : 0;
}

static void show(const char *data, ssize_t nr)
{
	ssize_t i;
	unsigned sum = 0;

	for (i = 0; i < nr; i++)
		sum = sum * 31 + (unsigned char)data[i];
	if (nr > 0)
		printf("	bytes %08x\n", sum);
}

static struct sockaddr_in address(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	a.sin_port = htons(ports[below(PORTS)]);
	return a;
}

static int slot_free(void)
{
	int i;

	for (i = 0; i < SLOTS; i++)
		if (slots[i].type == NONE)
			return i;
	return -1;
}

static void slot_set(int i, int fd, enum type type)
{
	if (fd >= 0)
		slots[i] = (struct slot) { fd, type, 0, 0 };
}

/* Notes that i and j are connected. */
static void pair_set(int i, int j)
{
	static int pairs;

	slots[i].pair = slots[j].pair = ++pairs;
}

/* Returns the other end, or -1. */
static int other_end(int i)
{
	int j;

	for (j = 0; j < SLOTS; j++)
		if (j != i && slots[j].type != NONE && slots[i].pair > 0 &&
		    slots[j].pair == slots[i].pair)
			return j;
	return -1;
}

static int slot_of(enum type a, enum type b)
{
	int i = (int)below(SLOTS), tries;

	for (tries = 0; tries < SLOTS; tries++, i = (i + 1) % SLOTS)
		if (slots[i].type == a || slots[i].type == b)
			return i;
	return -1;
}

/* Calls. Each takes a slot, or makes one. */

/* Accepted sockets inherit both. Without TCP_NODELAY small writes wait. */
static int stream_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	return fd;
}

static void make_socket(void)
{
	int i = slot_free(), type = below(4) == 0 ? SOCK_DGRAM : SOCK_STREAM, fd;

	if (i < 0)
		return;
	fd = type == SOCK_STREAM ? stream_socket() :
		socket(AF_INET, type | SOCK_NONBLOCK, 0);
	slot_set(i, fd, type == SOCK_STREAM ? STREAM : DATAGRAM);
	said("socket", i, fd < 0 ? fd : type);
}

static void make_pipe(void)
{
	int i = slot_free(), fds[2], j, rc;

	if (i < 0)
		return;
	rc = pipe2(fds, O_NONBLOCK);
	slot_set(i, fds[0], READER);
	j = slot_free();
	if (j >= 0) {
		slot_set(j, fds[1], WRITER);
		pair_set(i, j);
	} else {
		close(fds[1]);
	}
	said("pipe2", i, rc);
}

static void call_bind(int i)
{
	struct sockaddr_in a = address();

	said("bind", i, bind(slots[i].fd, (struct sockaddr *)&a, sizeof a));
}

static void call_listen(int i)
{
	said("listen", i, listen(slots[i].fd, 8));
}

/*
 * Not in a connect() of which nothing is known, and not to a port of its own:
 * TCP would connect it to itself.
 */
static void call_connect(int i)
{
	struct sockaddr_in a = address(), own = { .sin_family = AF_INET };
	socklen_t n = sizeof own;

	if (getsockname(slots[i].fd, (struct sockaddr *)&own, &n) == 0 &&
	    own.sin_port == a.sin_port)
		return;
	said("connect", i, connect(slots[i].fd, (struct sockaddr *)&a, sizeof a));
}

static void call_accept(int i)
{
	int j = slot_free(), fd;
	struct sockaddr_in a = { .sin_family = 0 };
	socklen_t n = sizeof a;

	if (j < 0)
		return;
	fd = accept4(slots[i].fd, (struct sockaddr *)&a, &n, SOCK_NONBLOCK);
	slot_set(j, fd, STREAM);
	if (fd >= 0)
		printf("	from %s\n", port_name(&a));
	said("accept4", i, fd < 0 ? fd : j);
}

static void call_write(int i)
{
	char data[3000];
	size_t size = below(3) == 0 ? 1 + below(sizeof data) : below(40), k;

	for (k = 0; k < size; k++)
		data[k] = (char)noise();
	said("write", i, slots[i].type == STREAM ?
	     send(slots[i].fd, data, size, no_signal()) :
	     write(slots[i].fd, data, size));
}

static void call_read(int i)
{
	char data[4000];
	size_t size = below(3) == 0 ? 1 + below(sizeof data) : 1 + below(40);
	int flags = below(4) == 0 ? MSG_PEEK : 0;
	ssize_t nr;

	if (slots[i].type == STREAM && below(6) == 0)
		flags |= MSG_TRUNC;	/* drops what it reads */
	nr = slots[i].type == STREAM || slots[i].type == DATAGRAM ?
		recv(slots[i].fd, data, size, flags) :
		read(slots[i].fd, data, size);
	said(flags & MSG_PEEK ? "peek" : flags ? "drop" : "read", i, nr);
	if (!(flags & MSG_TRUNC))
		show(data, nr);
}

static void call_sendto(int i)
{
	struct sockaddr_in a = address();
	char data[200];

	memset(data, (int)below(256), sizeof data);
	said("sendto", i, sendto(slots[i].fd, data, below(sizeof data), 0,
				 (struct sockaddr *)&a, sizeof a));
}

static void call_recvfrom(int i)
{
	struct sockaddr_in a = { .sin_family = 0 };
	socklen_t n = sizeof a;
	char data[200];
	int flags = below(3) == 0 ? MSG_TRUNC : 0;
	ssize_t nr = recvfrom(slots[i].fd, data, below(sizeof data), flags,
			      (struct sockaddr *)&a, &n);

	if (nr >= 0)
		printf("	from %s\n", port_name(&a));
	said("recvfrom", i, nr);
}

/*
 * Linux tells an edge when a FIN is acknowledged, which the other end may put off for
 * 40 ms. Waits for that, if it comes: there may be no room for the FIN.
 */
static void fin_wait(int i)
{
#if !defined(SIMULATED)
	struct tcp_info info = { .tcpi_state = TCP_FIN_WAIT1 };
	socklen_t n = sizeof info;
	int k;

	for (k = 0; k < 100 && info.tcpi_state == TCP_FIN_WAIT1; k++) {
		if (getsockopt(slots[i].fd, IPPROTO_TCP, TCP_INFO, &info, &n) != 0)
			return;
		usleep(1000);
	}
#else
	(void)i;
#endif
}

static void call_shutdown(int i)
{
	said("shutdown", i, shutdown(slots[i].fd, (int)below(3)));
	fin_wait(i);
	slots[i].pair = 0;	/* then Linux tells of new room late */
}

static void call_close(int i)
{
	said("close", i, close(slots[i].fd));
	slots[i].type = NONE;
}

/* A close() that resets, from then on. */
static void call_linger(int i)
{
	struct linger l = { (int)below(2), (int)noise() % 4 / 3 };
	socklen_t n = sizeof l;

	said("set SO_LINGER", i, setsockopt(slots[i].fd, SOL_SOCKET, SO_LINGER, &l, n));
	l.l_onoff = 7;
	said("SO_LINGER", i, getsockopt(slots[i].fd, SOL_SOCKET, SO_LINGER, &l, &n));
	printf("	%d %d\n", l.l_onoff != 0, l.l_linger);
}

static void call_names(int i)
{
	struct sockaddr_in a = { .sin_family = 0 };
	socklen_t n = sizeof a;
	int error = 0, left = 0;
	long rc = getsockname(slots[i].fd, (struct sockaddr *)&a, &n);

	printf("	%s at %s\n", port_name(&a), inet_ntoa(a.sin_addr));
	said("getsockname", i, rc);
	n = sizeof a;
	rc = getpeername(slots[i].fd, (struct sockaddr *)&a, &n);
	if (rc == 0)
		printf("	%s at %s\n", port_name(&a), inet_ntoa(a.sin_addr));
	said("getpeername", i, rc);
	n = sizeof error;
	rc = getsockopt(slots[i].fd, SOL_SOCKET, SO_ERROR, &error, &n);
	printf("	%s\n", strerror(error));
	said("SO_ERROR", i, rc);
	if (slots[i].type == STREAM && slots[i].watched != 2 &&
	    ioctl(slots[i].fd, FIONREAD, &left) == 0)
		printf("	%d left\n", left);
}

static void call_poll(void)
{
	struct pollfd fds[SLOTS];
	int i, nr;

	for (i = 0; i < SLOTS; i++)
		fds[i] = (struct pollfd) {
			slots[i].type == NONE ? -1 : slots[i].fd,
			POLLIN | POLLOUT | POLLRDHUP, 0 };
	nr = poll(fds, SLOTS, 0);
	printf("poll: %d", nr);
	for (i = 0; i < SLOTS; i++)
		printf(" %#x", (unsigned)fds[i].revents);
	putchar('\n');
}

/* Level or edge; sometimes one shot. */
static void call_watch(int i)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLRDHUP };
	int op = below(3) == 0 ? EPOLL_CTL_MOD : below(3) == 0 ? EPOLL_CTL_DEL :
		EPOLL_CTL_ADD;

	e.events |= below(2) == 0 ? EPOLLET : 0;
	e.events |= below(4) == 0 ? EPOLLONESHOT : 0;
	e.events |= below(3) == 0 ? EPOLLOUT : 0;
	e.data.u32 = (uint32_t)i;
	said(op == EPOLL_CTL_ADD ? "add" : op == EPOLL_CTL_MOD ? "mod" : "del", i,
	     epoll_ctl(ep, op, slots[i].fd, &e));
}

static void call_epoll(void)
{
	struct epoll_event e[SLOTS];
	uint32_t bits[SLOTS] = { 0 };
	int nr = epoll_wait(ep, e, SLOTS, 0), i;

	printf("epoll: %d", nr);
	for (i = 0; i < nr; i++)
		bits[e[i].data.u32] |= e[i].events;
	for (i = 0; i < SLOTS; i++)
		printf(" %#x", bits[i]);
	putchar('\n');
}

static long send_or_write(int i, const char *data, size_t size)
{
	return slots[i].type == WRITER ? write(slots[i].fd, data, size) :
		send(slots[i].fd, data, size, MSG_NOSIGNAL);
}

/* Files. */

static const char *path(void)
{
	static const char *const paths[PATHS] = {
		"a", "./b", "d/c", "d", "l", "l/c", "d/../a", "a/"
	};

	return paths[below(PATHS)];
}

static int is_folder(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A mode by which its owner may do the same as root. It takes no draw. */
static mode_t some_mode(int is_folder)
{
	static const mode_t modes[] = { 0755, 0700, 0777, 0711, 0600, 0644, 0666 };

	return modes[noise() % (is_folder ? 4 : 7)];
}

static void call_open(void)
{
	static const int modes[] = { O_RDONLY, O_WRONLY, O_RDWR };
	int i = slot_free(), flags = modes[below(3)], fd;
	const char *name = path();

	if (i < 0)
		return;
	flags |= below(2) == 0 ? O_CREAT : 0;
	flags |= below(3) == 0 ? O_TRUNC : 0;
	flags |= below(4) == 0 ? O_APPEND : 0;
	flags |= flags & O_CREAT && below(4) == 0 ? O_EXCL : 0;
	flags |= below(6) == 0 ? O_NOFOLLOW : 0;
	if (strcmp(name, "d") == 0)	/* what is open twice is not a choice */
		flags = O_RDONLY | O_DIRECTORY;
	umask(noise() % 4 == 0 ? 0077 : 0022);
	fd = open(name, flags, some_mode(0));
	umask(0022);
	slot_set(i, fd, is_folder(fd) ? FOLDER : REGULAR);
	printf("	%s %#x\n", name, (unsigned)flags);
	said("open", i, fd < 0 ? fd : 0);
}

/* Locks of two descriptors, perhaps of the same file. */
static void call_lock(int i)
{
	static const int locks[] = { LOCK_SH, LOCK_EX, LOCK_UN };
	int fds[2] = { slots[i].fd, open(path(), O_RDONLY) }, k;

	for (k = 0; k < 6; k++) {
		unsigned lock = below(5) % 3, which = below(2);

		said(lock == 0 ? "share" : lock == 1 ? "lock" : "unlock", (int)which,
		     flock(fds[which], locks[lock] | LOCK_NB));
	}
	if (fds[1] >= 0)
		close(fds[1]);
}

/* A private copy, which changes nothing of the file. */
static void call_map(int i)
{
	struct stat st;
	char *memory;

	memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, slots[i].fd,
		      below(5) == 0 ? 1 : 0);
	said("mmap", i, memory == MAP_FAILED ? -1 : 0);
	if (memory == MAP_FAILED)
		return;
	if (fstat(slots[i].fd, &st) == 0 && st.st_size > 0) {
		show(memory, PAGE);
		memset(memory, 1, PAGE);
	}
	said("munmap", i, munmap(memory, PAGE));
}

static void call_sendfile(int i)
{
	int j = slot_of(STREAM, STREAM);
	off_t at = below(400);

	if (j < 0)
		return;
	if (below(2) == 0) {
		said("sendfile", i, sendfile(slots[j].fd, slots[i].fd, NULL,
					     below(300)));
		return;
	}
	said("sendfile", i, sendfile(slots[j].fd, slots[i].fd, &at, below(300)));
	printf("	at %ld\n", (long)at);
}

/* glibc 2.31 has no name for it. */
#if !defined(SYS_openat2)
#define SYS_openat2	437
#endif

/* Names from a folder that is open. */
static void call_at(int folder)
{
	static const char *const names[] = { "c", "../a", "..", "e", "../l/c", "/a" };
	const char *name = names[below(5)];
	unsigned long long how[3] = { O_RDONLY, 0, 8 | (below(2) ? 4 : 0) };
	struct stat st;
	long fd;

	switch (below(6)) {
	case 0:
		fd = openat(folder, name, O_RDWR | (below(2) ? O_CREAT : 0), 0644);
		break;
	case 1:
		fd = syscall(SYS_openat2, folder, names[below(6)], how,
			     sizeof how);
		break;
	case 2:
		said("fstatat", 0, fstatat(folder, name, &st, below(2) ?
					   AT_SYMLINK_NOFOLLOW : 0));
		return;
	case 3:
		said("mkdirat", 0, mkdirat(folder, "e", 0755));
		said("fchmodat", 0, fchmodat(folder, name, some_mode(1), 0));
		return;
	case 4:
		said("unlinkat", 0, unlinkat(folder, name, below(2) ?
					     AT_REMOVEDIR : 0));
		return;
	default:
		said("symlinkat", 0, symlinkat("../a", folder, "c"));
		return;
	}
	said("openat", 0, fd < 0 ? fd : 0);
	if (fd >= 0)
		close((int)fd);
}

static void call_folder(void)
{
	int fd = open("d", O_RDONLY | O_DIRECTORY), k;

	for (k = 0; fd >= 0 && k < 4; k++)
		call_at(fd);
	if (fd >= 0)
		close(fd);
}

static void call_place(int i)
{
	char data[600];
	ssize_t nr;

	switch (below(8)) {
	case 5:
		call_lock(i);
		break;
	case 6:
		call_map(i);
		break;
	case 7:
		if (slots[i].type == FOLDER)
			call_at(slots[i].fd);
		else
			call_sendfile(i);
		break;
	case 0:
		nr = pread(slots[i].fd, data, below(sizeof data), below(900));
		said("pread", i, nr);
		show(data, nr);
		break;
	case 1:
		memset(data, (int)below(256), sizeof data);
		said("pwrite", i, pwrite(slots[i].fd, data, below(sizeof data),
					 below(900)));
		break;
	case 2:
		if (slots[i].type == FOLDER)	/* places of its own */
			break;
		said("lseek", i, lseek(slots[i].fd, (int)below(900) - 200,
				       (int)below(3)));
		break;
	case 3:
		said("ftruncate", i, ftruncate(slots[i].fd, below(900)));
		said("fchmod", i, fchmod(slots[i].fd,
					 some_mode(is_folder(slots[i].fd))));
		break;
	default:
		said("fsync", i, fsync(slots[i].fd));
	}
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void call_list(void)
{
	struct dirent **list = NULL, *e;
	const char *name = below(2) ? "." : path();
	int nr = scandir(name, &list, NULL, by_name), i, again;
	DIR *d = opendir(name);

	said("scandir", 0, nr);
	for (i = 0; i < nr; i++) {
		printf("	%s %d\n", list[i]->d_name, list[i]->d_type);
		free(list[i]);
	}
	free(list);
	said("opendir", 0, d == NULL ? -1 : 0);
	if (d == NULL)
		return;
	for (i = 0; (e = readdir(d)) != NULL; i++)
		;
	rewinddir(d);
	for (again = 0; readdir(d) != NULL; again++)
		;
	printf("	%d, again %d, a folder %d\n", i, again, is_folder(dirfd(d)));
	said("closedir", 0, closedir(d));
}

static void call_links(void)
{
	static const char *const targets[] = { "a", "d", "l", "d/c", "./d/../b", "no" };
	static char place[PAGE], found[PAGE];
	const char *name = path();
	ssize_t nr;
	char *rc;

	switch (below(4)) {
	case 0:
		said("symlink", 0, symlink(targets[below(6)], "l"));
		break;
	case 1:
		nr = readlink(name, found, below(10));
		printf("	%s: %.*s\n", name, nr > 0 ? (int)nr : 0, found);
		said("readlink", 0, nr);
		break;
	case 2:
		said("link", 0, link(name, below(2) ? "b" : "d/c"));
		break;
	default:
		rc = realpath(name, found);
		if (getcwd(place, sizeof place) != NULL && rc != NULL)
			printf("	%s: %s\n", name, found + strlen(place) -
			       (strcmp(place, "/") == 0));
		said("realpath", 0, rc == NULL ? -1 : 0);
	}
}

/* Signals of the process to itself: masks, actions, waits. */
static void call_signal(void)
{
	static const int signals[] = { SIGUSR1, SIGUSR2, SIGCHLD };
	static const int hows[] = { SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK };
	int signo = signals[below(3)];
	struct sigaction a = { .sa_handler = below(3) == 0 ? SIG_IGN : handler }, was;
	struct timespec now = { 0, 0 };
	sigset_t set, old;

	sigemptyset(&set);
	sigaddset(&set, signo);
	switch (below(6)) {
	case 0:
		a.sa_flags = below(3) == 0 && signo == SIGCHLD ? SA_RESETHAND : 0;
		said("sigaction", signo, sigaction(signo, &a, &was));
		printf("	%d\n", was.sa_handler == SIG_IGN ? 1 :
		       was.sa_handler == handler ? 2 : 3);
		break;
	case 1:
	case 2:
		said("sigprocmask", signo, sigprocmask(hows[below(3)], &set, &old));
		printf("	%d %d\n", sigismember(&old, SIGUSR1),
		       sigismember(&old, SIGUSR2));
		break;
	case 3:
		said("raise", signo, below(2) ? raise(signo) : kill(getpid(), signo));
		break;
	case 4:
		said("sigtimedwait", signo, sigtimedwait(&set, NULL, &now));
		break;
	default:
		said("sigpending", signo, sigpending(&set));
		printf("	%d %d %d\n", sigismember(&set, SIGUSR1),
		       sigismember(&set, SIGUSR2), sigismember(&set, SIGCHLD));
	}
}

static void call_names_of_files(void)
{
	const char *name;
	int i;

	switch (below(10)) {
	case 9:
		call_folder();
		return;
	case 5:
		call_list();
		return;
	case 6:
	case 7:
		call_links();
		return;
	case 8:
		for (i = 0; i < 5; i++)
			call_signal();
		return;
	case 0:
		said("rename", 0, rename("a", "b"));
		break;
	case 1:
		said("rename", 1, rename("./b", "a"));
		break;
	case 2:
		said("mkdir", 2, mkdir("d", some_mode(1)));
		break;
	case 3:
		said("rmdir", 3, rmdir(below(2) ? "d" : "a"));
		break;
	default:
		name = path();
		if (noise() % 3 == 0)
			said("chmod", 5, chmod(name, some_mode(1)));
		said("unlink", 4, unlink(name));
	}
	said("access", 0, access("a", (int)noise() % 9));
	said("access", 1, access("d/c", F_OK));
}

static void call_stat(int i)
{
	struct stat st;
	const char *name = path();
	long rc = below(2) == 0 ? stat(name, &st) : lstat(name, &st);

	if (rc == 0 && S_ISREG(st.st_mode))
		printf("	%lld bytes\n", (long long)st.st_size);
	if (rc == 0)
		printf("	%s is %#o\n", name, (unsigned)st.st_mode);
	if (rc == 0 && !S_ISDIR(st.st_mode))
		printf("	%d names\n", (int)st.st_nlink);
	said("stat", 0, rc);
	rc = fstat(slots[i].fd, &st);
	if (rc == 0)
		printf("	is %#o\n", (unsigned)st.st_mode &
		       (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) ? ~0u : S_IFMT));
	if (rc == 0 && S_ISREG(st.st_mode))
		printf("	%lld bytes\n", (long long)st.st_size);
	said("fstat", i, rc);
}

/* Unix sockets. Their names are files, or names of this process alone. */

static socklen_t local_name(struct sockaddr_un *a)
{
	static const char *const names[] = { "s", "t", "d/u", "a" };
	unsigned i = below(6);

	memset(a, 0, sizeof *a);
	a->sun_family = AF_UNIX;
	if (i < 4)
		strcpy(a->sun_path, names[i]);
	else
		snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "truth %d %u",
			 (int)getpid(), i);
	return (socklen_t)(sizeof(sa_family_t) + 1 + strlen(a->sun_path + (i >= 4)));
}

static void show_name(const struct sockaddr_un *a, socklen_t n)
{
	printf("	name of %d: %s\n", n > 2 && a->sun_path[0] == 0 ? -1 : (int)n,
	       n > 2 ? a->sun_path : "none");
}

static void make_local(void)
{
	int i = slot_free(), j, fds[2], datagram = below(3) == 0, rc;
	int type = (datagram ? SOCK_DGRAM : below(3) == 0 ? SOCK_SEQPACKET :
		    SOCK_STREAM) | SOCK_NONBLOCK;
	enum type kind = datagram || (type & 15) == SOCK_SEQPACKET ?
		LOCAL_DATAGRAM : LOCAL;	/* which this can be seen as */

	if (i < 0)
		return;
	if (below(2) == 0) {
		slot_set(i, socket(AF_UNIX, type, 0), kind);
		said("unix", i, datagram);
		return;
	}
	rc = socketpair(AF_UNIX, type, 0, fds);
	slot_set(i, fds[0], kind);
	j = slot_free();
	if (j >= 0) {
		slot_set(j, fds[1], kind);
		pair_set(i, j);
	} else {
		close(fds[1]);
	}
	said("socketpair", i, rc);
}

/* A message of two parts, perhaps with the descriptor of a counter. */
static void call_sendmsg(int i)
{
	char data[60], room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec v[2] = { { data, below(8) }, { data + 30, 1 + below(8) } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	struct cmsghdr *c = (struct cmsghdr *)room;
	int j = slot_of(COUNTER, COUNTER);

	memset(data, (int)below(256), sizeof data);
	if (j >= 0 && slots[i].type >= LOCAL && below(2) == 0) {
		m.msg_control = room;
		m.msg_controllen = sizeof room;
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &slots[j].fd, sizeof(int));
	}
	said(m.msg_control ? "sendmsg with a counter" : "sendmsg", i,
	     sendmsg(slots[i].fd, &m, no_signal()));
}

static void call_recvmsg(int i)
{
	char data[40], room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec v[2] = { { data, below(20) }, { data + 20, 1 + below(20) } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2,
		.msg_control = room, .msg_controllen = sizeof room };
	struct cmsghdr *c = (struct cmsghdr *)room;
	ssize_t nr = recvmsg(slots[i].fd, &m, 0);
	int fd, j;

	said("recvmsg", i, nr);
	if (nr < 0)
		return;
	printf("	flags %#x\n", (unsigned)m.msg_flags);
	show(data, nr < (ssize_t)v[0].iov_len ? nr : (ssize_t)v[0].iov_len);
	if (m.msg_controllen < sizeof room)
		return;
	memcpy(&fd, CMSG_DATA(c), sizeof fd);
	j = slot_free();
	if (j >= 0)
		slot_set(j, fd, COUNTER);
	else
		close(fd);
	printf("	with a counter: %d\n", j);
}

static void call_local_names(int i)
{
	struct sockaddr_un a = { .sun_family = 0 };
	socklen_t n = sizeof a;
	int error = 0, left = 0;
	long rc = getsockname(slots[i].fd, (struct sockaddr *)&a, &n);

	show_name(&a, n);
	said("getsockname", i, rc);
	memset(&a, 0, sizeof a);
	n = sizeof a;
	rc = getpeername(slots[i].fd, (struct sockaddr *)&a, &n);
	if (rc == 0)
		show_name(&a, n);
	said("getpeername", i, rc);
	n = sizeof error;
	rc = getsockopt(slots[i].fd, SOL_SOCKET, SO_ERROR, &error, &n);
	printf("	%s\n", strerror(error));
	said("SO_ERROR", i, rc);
	rc = ioctl(slots[i].fd, FIONREAD, &left);
	printf("	%d left\n", left);
	said("FIONREAD", i, rc);
}

static void call_local_accept(int i)
{
	struct sockaddr_un a = { .sun_family = 0 };
	socklen_t n = sizeof a;
	int j = slot_free(), fd;

	if (j < 0)
		return;
	fd = accept4(slots[i].fd, (struct sockaddr *)&a, &n, SOCK_NONBLOCK);
	slot_set(j, fd, slots[i].type);
	if (fd >= 0)
		show_name(&a, n);
	said("accept4", i, fd < 0 ? fd : j);
}

static void call_local(int i)
{
	struct sockaddr_un a;
	socklen_t n;
	char data[50];

	switch (below(14)) {
	case 0:
	case 1:
		n = local_name(&a);
		said("bind", i, bind(slots[i].fd, (struct sockaddr *)&a, n));
		break;
	case 2:
	case 3:
		said("listen", i, listen(slots[i].fd, (int)below(2)));
		break;
	case 4:
	case 5:
		n = local_name(&a);
		said("connect", i, connect(slots[i].fd, (struct sockaddr *)&a, n));
		break;
	case 6:
	case 7:
		call_local_accept(i);
		break;
	case 8:
		call_shutdown(i);
		break;
	case 9:
		call_local_names(i);
		break;
	case 10:
		n = local_name(&a);
		memset(data, (int)below(256), sizeof data);
		said("sendto", i, sendto(slots[i].fd, data, below(sizeof data),
					 no_signal(), (struct sockaddr *)&a, n));
		break;
	case 11:
		n = sizeof a;
		memset(&a, 0, sizeof a);
		said("recvfrom", i, recvfrom(slots[i].fd, data, below(sizeof data),
			below(2) ? MSG_TRUNC : 0, (struct sockaddr *)&a, &n));
		break;
	case 12:
		call_watch(i);
		break;
	default:
		call_close(i);
	}
}

static void move_local(int i)
{
	char data[60];
	ssize_t nr;
	int flags = below(4) == 0 ? MSG_PEEK : 0;

	switch (below(4)) {
	case 0:
		memset(data, (int)below(256), sizeof data);
		said("send", i, send(slots[i].fd, data, below(sizeof data),
				     no_signal()));
		break;
	case 1:
		nr = recv(slots[i].fd, data, below(sizeof data), flags);
		said(flags ? "peek" : "recv", i, nr);
		show(data, nr);
		break;
	case 2:
		call_sendmsg(i);
		break;
	default:
		call_recvmsg(i);
	}
}

/* Counters and timers. A timer is due at once or never. */

static void make_event(void)
{
	int i = slot_free();

	if (i < 0)
		return;
	if (below(2) == 0)
		slot_set(i, eventfd(below(3), EFD_NONBLOCK |
				    (below(2) ? EFD_SEMAPHORE : 0)), COUNTER);
	else
		slot_set(i, timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), TIMER);
	said("event", i, slots[i].type);
}

static void call_counter(int i)
{
	uint64_t value = below(2) == 0 ? UINT64_MAX - below(3) : below(5);
	size_t size = below(5) == 0 ? 7 : sizeof value;
	long rc;

	if (below(2) == 0) {
		said("add", i, write(slots[i].fd, &value, size));
		return;
	}
	value = 0;
	rc = read(slots[i].fd, &value, size);
	printf("	%llu\n", (unsigned long long)value);
	said("take", i, rc);
}

static void call_timer(int i)
{
	struct itimerspec by = { { 0, 0 }, { below(3) == 0 ? 1000 : 0, 1000 } };
	struct itimerspec old = { { 0, 0 }, { 0, 0 } };
	uint64_t ticks = 0;
	long rc;

	switch (below(4)) {
	case 0:
		by.it_value.tv_nsec = below(4) == 0 ? 1000000000 : 1000;
		rc = timerfd_settime(slots[i].fd, 0, &by, &old);
		printf("	was %d\n", old.it_value.tv_sec > 0);
		said("timerfd_settime", i, rc);
		break;
	case 1:
		by.it_value = (struct timespec) { 0, (long)below(2) };
		rc = timerfd_settime(slots[i].fd, TFD_TIMER_ABSTIME, &by, NULL);
		said("timerfd_settime", i, rc);
		break;
	case 2:
		rc = timerfd_gettime(slots[i].fd, &old);
		printf("	is %d\n", old.it_value.tv_sec > 0);
		said("timerfd_gettime", i, rc);
		break;
	default:
		rc = read(slots[i].fd, &ticks, sizeof ticks);
		printf("	%d\n", (int)ticks);
		said("ticks", i, rc);
	}
}

static void call_select(void)
{
	fd_set in, out;
	struct timeval now = { 0, 0 };
	int i, nr;

	FD_ZERO(&in);
	FD_ZERO(&out);
	for (i = 0; i < SLOTS; i++) {
		if (slots[i].type == NONE)
			continue;
		FD_SET(slots[i].fd, &in);
		FD_SET(slots[i].fd, &out);
	}
	nr = select(FD_SETSIZE, &in, &out, NULL, &now);
	printf("select: %d", nr);
	for (i = 0; i < SLOTS; i++)
		printf(" %d%d", slots[i].type != NONE && FD_ISSET(slots[i].fd, &in),
		       slots[i].type != NONE && FD_ISSET(slots[i].fd, &out));
	putchar('\n');
}

/* Reads all that has been written, and what is written meanwhile. */
static void drain(int i)
{
	static char data[8192];
	long nr, all = 0;
	int pause;

	for (pause = 0; pause < 5; pause++) {
		while ((nr = read(slots[i].fd, data, sizeof data)) > 0) {
			all += nr;
			pause = 0;
		}
		settle();
	}
	printf("	%d\n", all > 0);
	said("drain", i, nr);
}

/*
 * Full buffers. Pipes hold as much as Linux's; how much a socket holds depends
 * on memory, so only that it is full is compared. Then all is read.
 */
static void call_fill(int i)
{
	static char data[8192];
	size_t size = 1 + below(sizeof data);
	long all = 0, nr;
	int j = other_end(i);

	if (slots[i].type != WRITER && j < 0)
		return;
	if (slots[i].type != WRITER)
		size = sizeof data;
	while ((nr = send_or_write(i, data, size)) > 0) {
		all += nr;
		if (slots[i].type == STREAM)
			settle();
	}
	if (slots[i].type == WRITER)
		printf("	%ld\n", all);
	said("fill", i, nr);
	call_poll();
	if (slots[i].type == WRITER)
		return;
	drain(j);
	call_poll();
	call_epoll();
}

/*
 * Edges at one end, while the other reads and writes a little: bytes that come,
 * bytes that were there before, and room where none was missed.
 */
static void edges(int i)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };
	int j = other_end(i), k;
	char data[30] = "";

	if (j < 0)
		return;
	e.events |= below(2) ? EPOLLOUT : 0;
	e.data.u32 = (uint32_t)i;
	if (epoll_ctl(ep, EPOLL_CTL_ADD, slots[i].fd, &e) != 0)
		epoll_ctl(ep, EPOLL_CTL_MOD, slots[i].fd, &e);
	for (k = 0; k < 6; k++) {
		call_epoll();
		if (below(3) > 0 && slots[j].type != READER)
			said("come", j, send_or_write(j, data, 1 + below(20)));
		if (below(3) > 0)
			said("go", i, send_or_write(i, data, 1 + below(20)));
		if (below(2) == 0)
			call_epoll();
		if (below(3) > 0)
			said("read", j, read(slots[j].fd, data, 1 + below(29)));
	}
	call_epoll();
}

static void call_dup(int i)
{
	int fd = dup(slots[i].fd), j = slot_free();

	said("dup", i, fd < 0 ? fd : 0);
	if (fd >= 0 && j >= 0)
		slot_set(j, fd, slots[i].type);
	else
		close(fd);
}

static void call_socket(int i)
{
	switch (below(10)) {
	case 0:		call_bind(i);		break;
	case 1:		call_listen(i);		break;
	case 2:
	case 3:		call_connect(i);	break;
	case 4:
	case 5:		call_accept(i);		break;
	case 6:		call_shutdown(i);	break;
	case 7:		(below(2) ? call_names : call_linger)(i);	break;
	case 8:		call_watch(i);		break;
	default:	call_close(i);
	}
}

static void call_datagram(int i)
{
	switch (below(6)) {
	case 0:		call_bind(i);		break;
	case 1:		call_connect(i);	break;
	case 2:
	case 3:		call_sendto(i);		break;
	case 4:		call_names(i);		break;
	default:	call_recvfrom(i);
	}
}

/* A connection, which random calls alone seldom make. */
static void connected(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t n = sizeof a;
	int l = stream_socket();
	int i = slot_free(), j, rc;

	if (i < 0 || l < 0 || listen(l, 4) != 0 ||
	    getsockname(l, (struct sockaddr *)&a, &n) != 0) {
		close(l);
		return;
	}
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	slot_set(i, stream_socket(), STREAM);
	rc = connect(slots[i].fd, (struct sockaddr *)&a, sizeof a);
	said("connect", i, rc);
	j = slot_free();
	if (j >= 0) {
		slot_set(j, accept4(l, NULL, NULL, SOCK_NONBLOCK), STREAM);
		pair_set(i, j);
	}
	close(l);
	said("connected", i, j);
}

static void step(void)
{
	int i;

	switch (below(18)) {
	case 12:
		if (below(2) == 0)
			make_local();
		else
			make_event();
		break;
	case 13:
		if ((i = slot_of(LOCAL, LOCAL_DATAGRAM)) >= 0)
			call_local(i);
		break;
	case 14:
	case 15:
		if ((i = slot_of(LOCAL, LOCAL_DATAGRAM)) >= 0)
			move_local(i);
		else
			make_local();
		break;
	case 16:
		if (below(3) == 0)
			call_select();
		else if ((i = slot_of(COUNTER, TIMER)) >= 0)
			(slots[i].type == COUNTER ? call_counter : call_timer)(i);
		break;
	case 17:
		if ((i = slot_of(COUNTER, TIMER)) >= 0 && below(3) == 0)
			(below(2) ? call_close : call_watch)(i);
		else if (below(2) == 0 && (i = slot_of(REGULAR, LOCAL)) >= 0)
			call_stat(i);
		else if ((i = slot_of(below(2) ? STREAM : LOCAL, WRITER)) >= 0 &&
			 below(3) == 0)
			call_fill(i);
		else if (below(2) == 0 && (i = slot_of(READER, READER)) >= 0)
			drain(i);
		else if ((i = slot_of(below(2) ? STREAM : LOCAL, WRITER)) >= 0)
			edges(i);
		break;
	case 0:
		if (below(2) == 0)
			make_socket();
		else
			connected();
		break;
	case 1:
		if (below(3) == 0)
			make_pipe();
		else
			call_open();
		break;
	case 2:
		call_poll();
		break;
	case 3:
		call_epoll();
		break;
	case 4:
	case 5:
		if ((i = slot_of(STREAM, STREAM)) >= 0)
			call_socket(i);
		break;
	case 6:
		if ((i = slot_of(DATAGRAM, DATAGRAM)) >= 0)
			call_datagram(i);
		break;
	case 7:
		if ((i = slot_of(REGULAR, FOLDER)) >= 0)
			call_place(i);
		else
			call_names_of_files();
		break;
	case 8:
		if ((i = slot_of(below(3) ? STREAM : WRITER, REGULAR)) >= 0)
			call_write(i);
		break;
	case 9:
		if ((i = slot_of(below(3) ? STREAM : READER, REGULAR)) >= 0)
			call_read(i);
		break;
	case 10:
		if ((i = slot_of(READER, WRITER)) >= 0 && below(3) == 0)
			call_close(i);
		else if (i >= 0)
			call_watch(i);
		break;
	default:
		if (below(3) == 0)
			call_names_of_files();
		else if ((i = slot_of(REGULAR, STREAM)) >= 0 && below(2) == 0)
			call_close(i);
		else if (i >= 0 && below(3) == 0)
			call_dup(i);
	}
}

/* Returns whether the script has no further call. */
static bool is_over(void)
{
#if defined(ENTRY)
	return draws_left == 0;
#else
	return calls-- <= 0;
#endif
}

static void script(void)
{
	signal(SIGPIPE, handler);
	signal(SIGUSR1, handler);
	signal(SIGUSR2, handler);
	signal(SIGCHLD, handler);
	ep = epoll_create1(0);
	while (!is_over())
		step();
	call_poll();
	call_epoll();
	fflush(stdout);
}

#if defined(SIMULATED)
static int host(void *unused)
{
	(void)unused;
	script();
	return 0;
}

static void setup(struct usim_world *w)
{
	int i;

	for (i = 0; i < PORTS; i++)
		ports[i] = (unsigned short)(20000 + i);
	w->w_faults = 0;
	usim_client("host", host, NULL);
}
#else
/* Finds ports that nothing uses, and lets them go. */
static int ports_find(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t n = sizeof a;
	int fds[PORTS], i;

	for (i = 0; i < PORTS; i++) {
		a.sin_port = 0;
		a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		fds[i] = socket(AF_INET, SOCK_STREAM, 0);
		if (bind(fds[i], (struct sockaddr *)&a, sizeof a) != 0 ||
		    getsockname(fds[i], (struct sockaddr *)&a, &n) != 0)
			return -1;
		ports[i] = ntohs(a.sin_port);
	}
	for (i = 0; i < PORTS; i++)
		close(fds[i]);
	return 0;
}
#endif

#if defined(ENTRY) && defined(SIMULATED)
int truth_simulated(const unsigned char *bytes, size_t nr)
{
	char *line[] = { (char[]){ "truth" }, (char[]){ "--seed" },
			 (char[]){ "1" }, NULL };

	draws = bytes;
	draws_left = nr;
	return usim_main(3, line, setup);
}
#elif defined(ENTRY)
int truth_linux(const unsigned char *bytes, size_t nr)
{
	draws = bytes;
	draws_left = nr;
	if (ports_find() != 0)
		return 2;
	signal(SIGPIPE, SIG_IGN);
	script();
	return 0;
}
#elif defined(SIMULATED)
int main(int argc, char **argv)
{
	state = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	calls = atoi(getenv("CALLS"));
	return usim_main(argc, argv, setup);
}
#else
int main(int argc, char **argv)
{
	if (argc != 3 || ports_find() != 0)
		return 2;
	state = strtoull(argv[1], NULL, 10);
	calls = atoi(argv[2]);
	script();
	return 0;
}
#endif
