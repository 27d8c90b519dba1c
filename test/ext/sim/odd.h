/* SPDX-License-Identifier: MIT */
/* odd.h: draws, descriptors and lines of the scripts of odd arguments (odd.c). */

#ifndef ODD_H
#define ODD_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FDS = 20, FD_MOST = 256, NAME = 255, PATH = 4096 };

/* O_LARGEFILE, which the kernel adds to what a program of 64 bits opens. */
#if defined(__aarch64__)
#define LARGE		0400000
#else
#define LARGE		0100000
#endif

static int fds[FDS], fd_nr;		/* open, but those that closed unseen */
static int set_fds[3], sets;		/* epolls that were made */
static uint64_t state;
static int calls;			/* that are left */
static char *volatile null;		/* no compiler knows its value */
static char came[1000];			/* signals since the last line */
static char data[1 << 20], home[PATH];

static unsigned below(unsigned nr)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((state >> 33) % nr);
}

static bool seldom(unsigned nr)
{
	return below(nr) == 0;
}

#define ONE_OF(list)	((list)[below(sizeof (list) / sizeof *(list))])

/* Some bits of a list; now and then others. */
static int bits(const int *list, unsigned nr, unsigned often, int odd)
{
	int all = 0;
	unsigned i;

	for (i = 0; i < nr; i++)
		all |= seldom(often) ? list[i] : 0;
	return seldom(12) ? all | odd : all;
}

#define BITS(list, often, odd)	bits(list, sizeof (list) / sizeof *(list), often, odd)

/* Prints what a call has answered, and which signals have come. */
static void said(const char *call, long rc)
{
	int error = errno;

	printf("%s: %ld", call, rc);
	if (rc < 0)
		printf(" %s", strerror(error));
	printf("%s\n", came);
	came[0] = 0;
#if defined(SIMULATED)
	usleep(1000);
#else
	usleep(60);		/* a datagram, or a tick */
#endif
}

static void show(const void *data, long nr)
{
	unsigned sum = 0;
	long i;

	for (i = 0; i < nr; i++)
		sum = sum * 31 + ((const unsigned char *)data)[i];
	if (nr > 0)
		printf("	bytes %08x\n", sum);
}

/* A descriptor of any kind; seldom a number that is no descriptor. */
static int any(void)
{
	if (fd_nr == 0 || seldom(14)) {
		static const int none[] = { -1, 200, 100000, INT32_MIN };

		return ONE_OF(none);
	}
	return fds[below((unsigned)fd_nr)];
}

/* An epoll, or what was one; now and then any. */
static int any_set(void)
{
	return sets == 0 || seldom(4) ? any() : set_fds[below((unsigned)sets)];
}

/* Keeps a new descriptor, which never blocks. */
static void keep(int fd)
{
	int i;

	if (fd < 0)
		return;
	printf("	%d: %d %#x\n", fd, fcntl(fd, F_GETFD),
	       (unsigned)fcntl(fd, F_GETFL) & ~LARGE);
	(void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	for (i = 0; i < fd_nr; i++)
		if (fds[i] == fd)
			return;
	if (fd_nr < FDS)
		fds[fd_nr++] = fd;
	else
		close(fd);
}

static void forget(int fd)
{
	int i;

	for (i = 0; i < fd_nr; i++)
		if (fds[i] == fd)
			fds[i--] = fds[--fd_nr];
}

/*
 * Names: of files, folders and links; too long, empty, not there. None leaves the
 * working folder, since the script may run as root: it would change the machine.
 */
static const char *name(void)
{
	static const char *const names[] = {
		"a", "a", "b", "d", "d/c", "d/c", "l", "l/c", "./a", "d/../b", "a/", "d/", "l/",
		".", "..", "d/.", "d/..", "d/./", "", "no/a", "a/b", "m"
	};
	static char made[PATH + 2];

	if (!seldom(6))
		return ONE_OF(names);
	memset(made, 'n', sizeof made);
	switch (below(6)) {
	case 0:
		return null;
	case 1:
	case 2:
		made[NAME] = 0;
		return made;
	case 3:
		made[NAME + 1] = 0;
		return made;
	case 4:
		memcpy(made, "d/", 2);
		made[NAME + 2] = 0;
		return made;
	default:
		memset(made, '/', sizeof made);
		memcpy(made, "./", 2);
		made[PATH - 1 - below(3) + below(2)] = 0;
		made[strlen(made) - 1] = 'a';
		return made;
	}
}

/* Devices are opened and asked, and no more. */
static const char *device(void)
{
	static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/full" };

	return ONE_OF(devices);
}

/* A name for a line. */
static const char *shown(const char *path)
{
	static char text[30];

	if (path == NULL || strlen(path) > 20)
		snprintf(text, sizeof text, path == NULL ? "NULL" : "%d bytes",
			 path == NULL ? 0 : (int)strlen(path));
	else
		snprintf(text, sizeof text, "%s", path);
	return text;
}

static size_t size_odd(size_t most)
{
	static const size_t odd[] = { 0, 1, 7, 8, 9, SIZE_MAX, (size_t)INT64_MAX + 1 };

	return seldom(4) ? ONE_OF(odd) : below((unsigned)most);
}

static void *data_odd(void *data)
{
	return seldom(12) ? null : data;
}

#endif /* ODD_H */
