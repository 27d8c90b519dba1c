/* SPDX-License-Identifier: MIT */
/* httpd.h: what the files of this server share. */

#ifndef HTTPD_H
#define HTTPD_H

#include "http.h"
#include "uio.h"

enum { CONNS = 1 << 20 };		/* descriptors are below this */

/* Options. */
extern long o_procs, o_idle, o_time, o_body;
extern char *o_log;

extern int root;			/* the directory */
extern int stopping;			/* atomic */

/* serve.c: serves a connection; ends those that wait for a request. */
void serve(int fd, void *arg);
void close_idle(void);

/* log.c. log_open(): 0 or -errno. */
int  log_open(void);
int  log_writer(void *arg);
void log_reopen(void);

/* Returns the reason of a status, with its number. */
const char *reason(int status);

/* Counts an answer, with bytes of body, and logs it by its request line. */
void note(int fd, int status, long bytes, const char *line, int len);

void count_connection(int nr);
int  metrics(char *to, int size);

#endif /* HTTPD_H */
