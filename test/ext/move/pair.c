/* SPDX-License-Identifier: MIT */
/*
 * pair.c: threads that go from one process to the other and back, at random points,
 * end with the results of threads that stay. The second process is a second start
 * of the program, and has threads of its own on the same lanes.
 *
 *	pair RESULTS THREADS SEED
 */

#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define MOST	65536

static int peer, results, second;
static long threads, done, moves, own;

static int give(void *arg, const void *bytes, size_t nob)
{
	(void)arg;
	while (send(peer, bytes, nob, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		if (errno != EAGAIN && errno != ENOBUFS)
			return -errno;
		if (S(yield)() != 0)
			return -ENOMEM;
	}
	return 0;
}

static void point(void *of)
{
	int rc = rand() % 4 == 0 ? umove_to(give, NULL) : 0;

	if (rc < 0)
		say_wrong("cannot move", umove_self());
	(void)S(yield)();
	(void)of;
}

static void result(const char *line, size_t nob)
{
	if (write(results, line, nob) != (ssize_t)nob)
		say_wrong("no result", 0);
	done++;
}

static void body(void *arg)
{
	char line[64];
	int nob = snprintf(line, sizeof line, "%ld %lx\n", (long)arg,
			   compute((long)arg, NULL));

	if (!second)
		result(line, (size_t)nob);
	else if (give(NULL, line, (size_t)nob) != 0)
		say_wrong("its result cannot be sent", (long)arg);
}

/* Stays, beside those that move. */
static void stays(void *arg)
{
	volatile long local[20];
	long i;

	for (i = 0; i < 20; i++)
		local[i] = i * (long)arg;
	for (own++; done < threads; ) {
		(void)S(yield)();
		for (i = 0; i < 20; i++) {
			if (local[i] != i * (long)arg)
				say_wrong("a thread that stays has changed", i);
		}
	}
}

static void take(const char *bytes, size_t nob)
{
	if (memcmp(bytes, "umove", 5) == 0) {
		moves++;
		if (umove_import(bytes, nob) != 0)
			say_wrong("cannot arrive", 0);
	} else if (bytes[0] == 'E')
		done = threads;
	else
		result(bytes, nob);
}

static void first(void *arg)
{
	static char bytes[MOST];
	long i;

	for (i = 0; !second && i < threads; i++) {
		if (umove_make(body, (void *)i) < 0)
			say_wrong("cannot be made", i);
	}
	while (done < threads && wrong == 0) {
		ssize_t nob = recv(peer, bytes, sizeof bytes, MSG_DONTWAIT);

		if (nob > 0)
			take(bytes, (size_t)nob);
		else if (nob == 0)
			say_wrong("the other has ended", 0);
		else if (umove_alive() == 0)
			usleep(50);
		(void)S(yield)();
	}
	done = threads;
	if (!second)
		(void)give(NULL, "E", 1);
	if (umove_alive() != 0)
		say_wrong("threads are left", umove_alive());
	(void)arg;
}

static int live(int rank, unsigned seed)
{
	long i;

	srand(seed);
	at_point = point;
	if (S(init)(1, 0) != 0 || umove_init(S(sched)(0), rank, 2, HEAP) != 0)
		return 1;
	for (i = 0; i < 3; i++) {
		if (MAKE(stays, (void *)i) == NULL)
			return 1;
	}
	if (MAKE(first, NULL) == NULL || S(start)() != 0 || S(fini)() != 0)
		return 1;
	umove_fini();
	if (moves == 0)
		say_wrong("none has moved", rank);
	return wrong != 0;
}

int main(int argc, char **argv)
{
	char number[16];
	int fd[2], status;
	pid_t pid;

	if (argc == 5) {
		second  = 1;
		threads = atol(argv[2]);
		peer    = atoi(argv[4]);
		return live(1, (unsigned)atol(argv[3]) + 1);
	}
	if (argc != 4 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd) != 0)
		return 1;
	results = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	threads = atol(argv[2]);
	peer    = fd[0];
	if (results < 0 || fcntl(fd[0], F_SETFD, FD_CLOEXEC) != 0)
		return 1;
	snprintf(number, sizeof number, "%d", fd[1]);
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", argv[0], argv[1], argv[2], argv[3],
		      number, (char *)NULL);
		_exit(1);
	}
	close(fd[1]);
	if (pid < 0 || live(0, (unsigned)atol(argv[3])) != 0)
		return 1;
	return waitpid(pid, &status, 0) != pid || status != 0;
}
