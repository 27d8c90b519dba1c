/* SPDX-License-Identifier: MIT */
/* httpd.h: common parts of the files of this server. */

#ifndef HTTPD_H
#define HTTPD_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "http.h"
#include "uio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RESERVE		64		/* descriptors beside connections */
#define DESCRIPTORS	(1 << 20)	/* their numbers are below this */

enum { HOST, PORT, LISTENER, ROOT, PROCS, SCHED, CONNS, IDLE, TIME, BODY, GRACE,
       LOG, OPTIONS };

extern char *text[OPTIONS];		/* options */
extern long  number[OPTIONS];		/* the same */
extern int   root;			/* the folder */
extern int   stopping;			/* atomic */

/* serve.c: serves a connection. */
void serve(int fd, void *arg);

/* Ends connections that wait for another request; all: or for their first. */
void close_idle(bool all);

/* log.c. log_open(): 0 or -errno. log_writer() is a thread. */
int  log_open(void);
int  log_writer(void *arg);
void log_reopen(void);

/* Returns the number and the reason of a status. */
const char *reason(int status);

/* Counts an answer with bytes of body, and logs it. line: the request line. */
void note(int fd, int status, long bytes, const char *line, int len);

/* Counts a connection that begins (1) or ends (-1). */
void note_connection(int nr);

/* Writes the counters. */
void metrics(char *to);

#endif /* HTTPD_H */
