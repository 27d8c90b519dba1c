/* SPDX-License-Identifier: MIT */
/* log.c: the access log, and counters. */

/*
 * A line goes to a buffer. A thread writes the buffer each second, or when it is
 * half full, by a native thread that is no processor. If lines come faster than
 * they can be written, they are dropped and counted: no connection waits for the
 * disk.
 */
#include "httpd.h"
#include "ucall.h"
#include "usync.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 1 << 20, LINE = 1024, SHARDS = 16 };

static const struct {
	int         s_status;
	const char *s_reason;
} state[] = {
	{ 200, "200 OK" }, { 304, "304 Not Modified" },
	{ 400, "400 Bad Request" }, { 403, "403 Forbidden" },
	{ 404, "404 Not Found" }, { 405, "405 Method Not Allowed" },
	{ 408, "408 Request Timeout" }, { 411, "411 Length Required" },
	{ 413, "413 Content Too Large" }, { 414, "414 URI Too Long" },
	{ 431, "431 Request Header Fields Too Large" },
	{ 501, "501 Not Implemented" }, { 503, "503 Service Unavailable" },
	{ 505, "505 HTTP Version Not Supported" }
};

enum { STATES = sizeof state / sizeof *state };

/* Processors mostly write to lines of their own (atomic). */
static struct {
	long t_nr[STATES], t_bytes;
} __attribute__((aligned(64))) shard[SHARDS];

static long open_now, opened, lost;		/* atomic */
static int must_reopen;				/* atomic */
static int file = -1;
static struct usem half = USEM(0);		/* a buffer is half full */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	int  g_nr;
	char g_bytes[ROOM];
} buf[2], *now = buf;				/* under lock, but the other */

int log_open(void)
{
	int fd = open(o_log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

	if (fd < 0)
		return -errno;
	if (file >= 0)
		close(file);
	file = fd;
	return 0;
}

void log_reopen(void)
{
	__atomic_store_n(&must_reopen, 1, __ATOMIC_RELAXED);
	(void)usem_post(&half);
}

/* Writes the other buffer. Called by ucall(). */
static void write_old(void *arg)
{
	int old = now == buf, at = 0;
	ssize_t n;

	(void)arg;
	while (at < buf[old].g_nr && (n = write(file, buf[old].g_bytes + at,
						buf[old].g_nr - at)) > 0)
		at += n;
	buf[old].g_nr = 0;
	if (__atomic_exchange_n(&must_reopen, 0, __ATOMIC_RELAXED))
		(void)log_open();
}

int log_writer(void *arg)
{
	int rc;

	do {
		rc = usem_wait(&half, uafter(UTIME_S));
		pthread_mutex_lock(&lock);
		now = &buf[now == buf];
		pthread_mutex_unlock(&lock);
		(void)ucall(write_old, arg);
	} while (rc == 0 || rc == -ETIMEDOUT);
	return 0;
}

/* Returns the address of the client and the time, as a line begins. */
static int heading(int fd, char *to)
{
	struct sockaddr_in6 a = { .sin6_family = AF_UNSPEC };
	socklen_t len = sizeof a;
	time_t when = time(NULL);
	struct tm tm;

	strcpy(to, "-");
	if (getpeername(fd, (struct sockaddr *)&a, &len) == 0)
		(void)inet_ntop(a.sin6_family, a.sin6_family == AF_INET ?
			(void *)&((struct sockaddr_in *)&a)->sin_addr :
			(void *)&a.sin6_addr, to, INET6_ADDRSTRLEN);
	len = strlen(to);
	return len + strftime(to + len, 64, " - - [%d/%b/%Y:%H:%M:%S +0000] \"",
			      gmtime_r(&when, &tm));
}

static void log_line(int fd, int status, long bytes, const char *line, int len)
{
	char text[LINE + 200];
	int n = heading(fd, text);
	bool was_less;

	for (len = len < LINE ? len : LINE; len > 0; len--, line++)
		text[n++] = *line < ' ' || *line > '~' || *line == '"' ? '?' :
			*line;
	n += sprintf(text + n, "\" %d %ld\n", status, bytes);
	pthread_mutex_lock(&lock);
	was_less = now->g_nr < ROOM / 2;
	if (now->g_nr + n <= ROOM) {
		memcpy(now->g_bytes + now->g_nr, text, n);
		now->g_nr += n;
	} else
		lost++;
	was_less = was_less && now->g_nr >= ROOM / 2;
	pthread_mutex_unlock(&lock);
	if (was_less)
		(void)usem_post(&half);
}

static int state_of(int status)
{
	int i = 0;

	while (state[i].s_status != status)
		i++;
	return i;
}

const char *reason(int status)
{
	return state[state_of(status)].s_reason;
}

void note(int fd, int status, long bytes, const char *line, int len)
{
	int i = fd % SHARDS;

	__atomic_fetch_add(&shard[i].t_nr[state_of(status)], 1,
			   __ATOMIC_RELAXED);
	__atomic_fetch_add(&shard[i].t_bytes, bytes, __ATOMIC_RELAXED);
	if (o_log != NULL)
		log_line(fd, status, bytes, line, len);
}

void count_connection(int nr)
{
	__atomic_fetch_add(&open_now, nr, __ATOMIC_RELAXED);
	__atomic_fetch_add(&opened, nr > 0, __ATOMIC_RELAXED);
}

int metrics(char *to, int size)
{
	long bytes = 0, nr;
	int i, k, n = 0;

	for (i = 0; i < STATES; i++) {
		for (nr = k = 0; k < SHARDS; k++)
			nr += shard[k].t_nr[i];
		n += snprintf(to + n, size - n, "httpd_answers{status=\"%d\"} "
			      "%ld\n", state[i].s_status, nr);
	}
	for (k = 0; k < SHARDS; k++)
		bytes += shard[k].t_bytes;
	return n + snprintf(to + n, size - n, "httpd_body_bytes %ld\n"
		"httpd_connections %ld\nhttpd_connections_accepted %ld\n"
		"httpd_threads %ld\nhttpd_processors %ld\nhttpd_log_lost %ld\n",
		bytes, open_now, opened, open_now + 3 + (o_log != NULL),
		o_procs, lost);
}
