/* SPDX-License-Identifier: MIT */
/* httpd.h: common parts of the files of this server. */

#ifndef HTTPD_H
#define HTTPD_H

#define _GNU_SOURCE	1
#include "http.h"
#include <usched/all.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RESERVE = 64, FDS = 1 << 20 };	/* descriptors: spare; in all */

#define MOMENT	(UTIME_S / 2)	/* at a stop, for clients that are about to ask */

/* Options; from PORT on, they are numbers. */
enum { HOST, ROOT, LOG, PORT, LISTENER, PROCS, CONNS, IDLE, TIME, BODY, GRACE,
       OPTIONS };

/* Counters; below STATUSES: answers by their status. */
enum { STATUSES = 600, BYTES = STATUSES, CONNECTIONS, ACCEPTED, LOST,
       COUNTERS };

extern const char *text[OPTIONS];
extern long number[OPTIONS];
extern int  root;			/* the folder */
extern int  stopping;			/* atomic: answers are the last */
extern long counter[COUNTERS];		/* atomic */

static inline long count(int what, long nr)
{
	return __atomic_add_fetch(&counter[what], nr, __ATOMIC_RELAXED);
}

/* Returns how many may be open: a connection may have a file, too. */
static inline long descriptors(void)
{
	return number[CONNS] * 2 + number[PROCS] * 4 + RESERVE;
}

/* Serves a connection. Ends connections that wait for a request. */
void serve(int fd, void *arg);
void close_idle(void);

/* Writes a line of the log. line: the request line. */
void log_answer(int fd, int status, long bytes, const char *line, int len);

#endif /* HTTPD_H */
