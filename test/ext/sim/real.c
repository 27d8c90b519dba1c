/* SPDX-License-Identifier: MIT */
/* real.c: claims that hold for hosts in a simulation, and for the same hosts by --real. */

/*
 * Addresses, names, files and ends of two hosts. Both listen at the same port, and
 * each has a file of the same name. FAILURE in the environment asks for an end that
 * fails: "check" or "status"; or "stall", for none.
 */

#include <usched/usim.h>
#include <usched/uthread.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PORT = 7000 };

static int ends;		/* threads of both: static variables are shared */

static struct sockaddr_in place(uint32_t ip)
{
	return (struct sockaddr_in) { .sin_family = AF_INET,
		.sin_port = htons(PORT), .sin_addr.s_addr = htonl(ip) };
}

static void is_at(const struct sockaddr_in *a, uint32_t ip)
{
	USIM_CHECK(a->sin_family == AF_INET);
	USIM_CHECK(ntohl(a->sin_addr.s_addr) == ip);
}

/* Returns what a file has, or -1. */
static int content(const char *name)
{
	int fd = open(name, O_RDONLY), nr = -1;

	if (fd < 0)
		return -1;
	USIM_CHECK(read(fd, &nr, sizeof nr) == sizeof nr && close(fd) == 0);
	return nr;
}

/* Each host writes its number to a file, and reads it after a pause. */
static void *files(void *unused)
{
	int fd = open("number", O_RDWR | O_CREAT | O_EXCL, 0644);
	int nr = usim_self();
	struct stat s;

	USIM_CHECK(fd >= 0 && write(fd, &nr, sizeof nr) == sizeof nr);
	USIM_CHECK(fsync(fd) == 0 && close(fd) == 0);
	usleep(20000);
	USIM_CHECK(content("number") == nr && stat("number", &s) == 0);
	USIM_CHECK(mkdir("folder", 0755) == 0 && stat("folder", &s) == 0);
	USIM_CHECK(rename("number", "other") == 0 && content("other") == nr);
	ends++;
	return unused;
}

static int listener(void)
{
	struct sockaddr_in at = place(INADDR_ANY);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	USIM_CHECK(bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
	USIM_CHECK(listen(fd, 8) == 0);
	return fd;
}

/* A connection of a thread to its own host, by localhost. */
static void *local(void *unused)
{
	struct sockaddr_in at = place(INADDR_LOOPBACK);
	int fd = socket(AF_INET, SOCK_STREAM, 0), nr = usim_self();

	USIM_CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
	USIM_CHECK(write(fd, &nr, sizeof nr) == sizeof nr && close(fd) == 0);
	return unused;
}

/* Takes a connection. Returns which host it says it comes from. */
static int take(int fd)
{
	struct sockaddr_in from;
	socklen_t n = sizeof from;
	int nr = 0, end, peer = accept(fd, (struct sockaddr *)&from, &n);
	char name[40];

	USIM_CHECK(peer >= 0);
	USIM_CHECK(recv(peer, &nr, sizeof nr, MSG_WAITALL) == sizeof nr);
	if (nr != usim_self()) {
		is_at(&from, 0x0a000000u + (uint32_t)nr);
		n = sizeof from;
		USIM_CHECK(getpeername(peer, (struct sockaddr *)&from, &n) == 0);
		is_at(&from, 0x0a000000u + (uint32_t)nr);
		USIM_CHECK(getnameinfo((struct sockaddr *)&from, n, name,
				       sizeof name, NULL, 0, 0) == 0);
		USIM_CHECK(strcmp(name, nr == 1 ? "one" : "two") == 0);
	}
	USIM_CHECK(read(peer, &end, sizeof end) == 0 && close(peer) == 0);
	return nr;
}

/* A datagram, and its answer, which finds its way by the sender's address. */
static void echo(void)
{
	struct sockaddr_in at = place(INADDR_ANY), from;
	socklen_t n = sizeof from;
	int fd = socket(AF_INET, SOCK_DGRAM, 0), nr;

	USIM_CHECK(bind(fd, (struct sockaddr *)&at, sizeof at) == 0);
	USIM_CHECK(recvfrom(fd, &nr, sizeof nr, 0, (struct sockaddr *)&from, &n) ==
		   sizeof nr);
	is_at(&from, 0x0a000002u);
	USIM_CHECK(sendto(fd, &nr, sizeof nr, 0, (struct sockaddr *)&from, n) ==
		   sizeof nr);
	close(fd);
}

static int one(void *unused)
{
	int fd = listener();
	char name[40];

	(void)unused;
	USIM_CHECK(gethostname(name, sizeof name) == 0 && strcmp(name, "one") == 0);
	USIM_CHECK(uthread_make(NULL, files, NULL, "files") == 0);
	USIM_CHECK(uthread_make(NULL, local, NULL, "local") == 0);
	USIM_CHECK(take(fd) + take(fd) == 3);
	echo();
	while (ends < 2)	/* threads of a host that has ended run no more */
		usleep(1000);
	ends++;
	return 0;
}

static void datagram(void)
{
	struct sockaddr_in at = place(0x0a000001u), from;
	int fd = socket(AF_INET, SOCK_DGRAM, 0), nr = 3;
	struct timeval patience = { 0, 200000 };
	socklen_t n;

	USIM_CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience,
			      sizeof patience) == 0);
	do {
		n = sizeof from;
		USIM_CHECK(sendto(fd, &nr, sizeof nr, 0, (struct sockaddr *)&at,
				  sizeof at) == sizeof nr);
	} while (recvfrom(fd, &nr, sizeof nr, 0, (struct sockaddr *)&from, &n) !=
		 sizeof nr);
	is_at(&from, 0x0a000001u);
	close(fd);
}

static int two(void *unused)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
	const char *failure = getenv("FAILURE");
	int own = listener(), fd, nr = 2, tries = 0;

	(void)unused;
	USIM_CHECK(failure == NULL || strcmp(failure, "check") != 0);
	if (failure != NULL && strcmp(failure, "stall") == 0)
		pause();			/* has no hook */
	USIM_CHECK(uthread_make(NULL, files, NULL, "files") == 0);
	USIM_CHECK(uthread_make(NULL, local, NULL, "local") == 0);
	USIM_CHECK(take(own) == 2);
	USIM_CHECK(getaddrinfo("one", "7000", &hints, &list) == 0);
	is_at((struct sockaddr_in *)list->ai_addr, 0x0a000001u);
	do {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		USIM_CHECK(tries++ < 100);
		usleep(1000);
	} while (connect(fd, list->ai_addr, list->ai_addrlen) != 0 &&
		 close(fd) == 0);
	freeaddrinfo(list);
	USIM_CHECK(write(fd, &nr, sizeof nr) == sizeof nr && close(fd) == 0);
	datagram();
	while (ends < 3)
		usleep(10000);
	USIM_CHECK(usim_time() > 20 * UTIME_MS && content("other") == 2);
	exit(failure != NULL ? 3 : 0);
}

static void setup(struct usim_world *w)
{
	w->w_run = 20 * UTIME_S;
	w->w_faults = 0;
	if (getenv("FAILURE") != NULL)
		w->w_run = w->w_quiet = UTIME_S;
	usim_client("one", one, NULL);
	usim_client("two", two, NULL);
}

int main(int argc, char **argv)
{
	return usim_main(argc, argv, setup);
}
