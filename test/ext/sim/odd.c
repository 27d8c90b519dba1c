/* SPDX-License-Identifier: MIT */
/*
 * odd.c: the simulated kernel answers as Linux does when flags and arguments are odd:
 * bits that no call knows, descriptors of the wrong kind or none, sizes below 0, NULL,
 * names of 255 and 256 bytes, paths of 4,095 and 4,096, offsets beyond the end. A random
 * script runs on Linux, or in a host. A call that the simulator refuses ends the script
 * and is named: sim.sh compares the lines before that.
 *
 *	odd SEED CALLS		on this machine; files in the working folder
 *	odd --seed SEED		in a host; CALLS are in the environment
 *
 * Bits and numbers to which versions of Linux are known to answer differently are left
 * out.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "odd.h"
#include "odd_fd.h"
#include "odd_path.h"
#include "odd_socket.h"
#include "odd_time.h"
#include "odd_wait.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>

#if defined(SIMULATED)
#include <usched/usim.h>
#endif

/* Descriptors are made. */

static void make_pipe(void)
{
	static const int flags[] = { O_NONBLOCK, O_CLOEXEC };
	int pair[2] = { -1, -1 }, with = BITS(flags, 2, 0x3000), rc;

	rc = pipe2(seldom(20) ? (int *)null : pair, with);
	said("pipe2", rc);
	keep(rc == 0 ? pair[0] : -1);
	keep(rc == 0 ? pair[1] : -1);
}

static void make_socket(void)
{
	static const int flags[] = { SOCK_NONBLOCK, SOCK_CLOEXEC };
	static const int domains[] = { AF_UNIX, AF_UNIX, AF_INET, AF_INET, 99, -1 };
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_DGRAM, SOCK_SEQPACKET,
				     SOCK_RDM, 12, -1 };
	static const int protocols[] = { 0, 0, 0, 0, 1, IPPROTO_TCP, IPPROTO_UDP, 200, -1 };
	int domain = ONE_OF(domains), type = ONE_OF(types), protocol = ONE_OF(protocols);
	int with = BITS(flags, 2, 0x100000), pair[2] = { -1, -1 }, fd;

	/* ICMP may be forbidden. */
	if (domain == AF_INET && type == SOCK_DGRAM && protocol == 1)
		protocol = 0;
	printf("	%d %d %#x %d\n", domain, type, (unsigned)with, protocol);
	if (below(2) == 0) {
		fd = socket(domain, type | with, protocol);
		said("socket", fd);
		keep(fd);
		return;
	}
	fd = socketpair(domain, type | with, protocol, seldom(20) ? (int *)null : pair);
	said("socketpair", fd);
	keep(fd == 0 ? pair[0] : -1);
	keep(fd == 0 ? pair[1] : -1);
}

/* Two sockets that are connected to each other. */
static void make_pair(void)
{
	struct sockaddr_in a[2];
	int pair[2], i;

	for (i = 0; i < 2; i++) {
		socklen_t n = sizeof a[i];

		pair[i] = socket(AF_INET, SOCK_DGRAM, 0);
		a[i] = (struct sockaddr_in) { .sin_family = AF_INET };
		a[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		bind(pair[i], (struct sockaddr *)&a[i], n);
		getsockname(pair[i], (struct sockaddr *)&a[i], &n);
	}
	for (i = 0; i < 2; i++)
		said("pair", connect(pair[i], (struct sockaddr *)&a[!i], sizeof a[!i]));
	keep(pair[0]);
	keep(pair[1]);
}

static int open_flags(void)
{
	static const int modes[] = { O_RDONLY, O_WRONLY, O_RDWR, O_RDWR, O_RDONLY | O_WRONLY };
	static const int flags[] = { O_CREAT, O_TRUNC, O_APPEND, O_EXCL, O_NOFOLLOW, O_CLOEXEC,
				     O_DIRECTORY, O_NONBLOCK, O_NOCTTY, O_PATH };
	int with = ONE_OF(modes) | BITS(flags, 5, 1 << 30);

	/* What these do together has changed, or is a choice of the file system. */
	if (with & O_DIRECTORY)
		with &= ~(O_CREAT | O_TRUNC);
	if (with & O_PATH || (with & O_ACCMODE) == O_RDONLY)
		with &= ~O_TRUNC;
	return with & O_PATH && below(2) ? with & ~O_PATH : with;
}

static void make_file(void)
{
	int flags = open_flags(), fd;
	const char *path = name();

	if (seldom(6)) {
		path = device();
		flags &= ~(O_CREAT | O_TRUNC);
	}

	printf("	%s %#x\n", shown(path), (unsigned)flags);
	fd = seldom(4) ? openat(seldom(2) ? AT_FDCWD : any(), path, flags, 0644) :
		open(path, flags, 0644);
	said("open", fd);
	keep(fd);
}

static void make_other(void)
{
	static const int counter_flags[] = { EFD_NONBLOCK, EFD_CLOEXEC, EFD_SEMAPHORE };
	static const int timer_flags[] = { O_NONBLOCK, O_CLOEXEC };
	static const int clocks[] = { 0, 1, 1, 7, 2, 99, -1 };
	int fd = -1;

	switch (below(3)) {
	case 0:
		fd = eventfd(below(3), BITS(counter_flags, 2, 0x100));
		said("eventfd", fd);
		break;
	case 1:
		fd = timerfd_create(ONE_OF(clocks), BITS(timer_flags, 2, 0x100));
		said("timerfd_create", fd);
		break;
	default:
		if (sets == 3)
			return;
		fd = epoll_create1(seldom(6) ? 1 : below(2) ? O_CLOEXEC : 0);
		said("epoll_create1", fd);
		if (fd >= 0)
			set_fds[sets++] = fd;
	}
	keep(fd);
}

static void make_copy(void)
{
	static const int commands[] = { F_DUPFD, F_DUPFD_CLOEXEC };
	static const int least[] = { 0, 3, 50, FD_MOST - 1, FD_MOST, -1, 100000 };
	int fd = any(), to = seldom(2) ? any() : (int)below(FD_MOST + 30), rc;

	if (to >= 0 && to < 3)
		to = 3;
	switch (below(4)) {
	case 0:
		rc = dup(fd);
		break;
	case 1:
		rc = dup2(fd, to);
		break;
	case 2:
		rc = dup3(fd, to, seldom(4) ? 1 : below(2) ? O_CLOEXEC : 0);
		break;
	default:
		rc = fcntl(fd, ONE_OF(commands), ONE_OF(least));
	}
	printf("	%d to %d\n", fd, to);
	said("dup", rc);
	keep(rc);
}

/* A fresh folder has some files, for a start. */
static void files_make(void)
{
	int i;

	said("mkdir", mkdir("w", 0755));
	said("chdir", chdir("w") != 0 || getcwd(home, sizeof home) == NULL ? -1 : 0);
	said("mkdir", mkdir("d", 0755));
	for (i = 0; i < 3; i++) {
		static const char *const paths[] = { "a", "d/c", "b" };
		int fd = open(paths[i], O_CREAT | O_RDWR, 0644);

		said("write", write(fd, "some bytes of a file", 7 + (size_t)i));
		close(fd);
	}
	said("symlink", symlink("d", "l"));
}

static void step(void)
{
	static void (*const on[])(int) = {
		call_read, call_read, call_write, call_write, call_place, call_fcntl, call_fcntl,
		call_control, call_stat, call_stat, call_map, call_sendfile, call_close,
		call_stream, call_address, call_accept, call_option, call_option, call_send,
		call_receive
	};
	static void (*const make[])(void) = {
		make_pipe, make_socket, make_socket, make_pair, make_file, make_file, make_other,
		make_other, make_copy, make_copy
	};
	static void (*const other[])(void) = {
		call_poll, call_select, call_epoll, call_epoll, call_epoll, call_epoll_wait,
		call_watch, call_nested, call_nested, call_number, call_path, call_path,
		call_path, call_time, call_time
	};

	switch (below(fd_nr < 6 ? 4 : 10)) {
	case 0:
	case 1:
		ONE_OF(make)();
		break;
	case 2:
	case 3:
	case 4:
	case 5:
		ONE_OF(other)();
		break;
	default:
		ONE_OF(on)(any());
	}
}

#if !defined(SIMULATED)
/*
 * Makes the working folder the root, where that is permitted: random calls of a root
 * must not reach the machine's files. Devices are made there. Linux does not look for
 * descriptors beyond the process's table, which grows with the highest that was ever
 * open: so that it is never that of the shell, it grows to the limit here.
 */
static void enclose(void)
{
	static const char *const names[] = { "dev/null", "dev/zero", "dev/full" };
	int i, fd;

	(void)dup2(0, FD_MOST - 1);
	for (fd = 3; fd < FD_MOST; fd++)	/* of the shell */
		close(fd);
	mkdir("dev", 0755);
	for (i = 0; i < 3 && geteuid() == 0; i++) {
		if (mknod(names[i], S_IFCHR | 0666, makedev(1, 3 + 2 * (unsigned)i)) != 0 ||
		    chmod(names[i], 0666) != 0 || (fd = open(names[i], O_RDONLY)) < 0)
			exit(77);
		close(fd);
	}
	if (geteuid() == 0 && (chroot(".") != 0 || chdir("/") != 0))
		exit(77);
}
#endif

static void script(void)
{
	struct rlimit l = { FD_MOST, FD_MOST };

#if !defined(SIMULATED)
	(void)setrlimit(RLIMIT_NOFILE, &l);
	enclose();
#else
	(void)l;
	mkdir("dev", 0755);
#endif
	setvbuf(stdout, NULL, _IOLBF, 0);
	umask(022);
	signals_begin();
	files_make();
	while (calls-- > 0)
		step();
	puts("end");
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
	w->w_faults = 0;
	usim_client("host", host, NULL);
}

int main(int argc, char **argv)
{
	state = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	calls = atoi(getenv("CALLS"));
	return usim_main(argc, argv, setup);
}
#else
int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	state = strtoull(argv[1], NULL, 10);
	calls = atoi(argv[2]);
	script();
	return 0;
}
#endif
