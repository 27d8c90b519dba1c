/* SPDX-License-Identifier: MIT */
/* log.c: the access log, and counters. */

/*
 * A line goes to a buffer. A thread writes the buffer each second, or when it is
 * half full, by a native thread that is no processor. If lines come faster than
 * that, they are dropped and counted: no connection waits for the disk.
 */
#include "httpd.h"
#include "ucall.h"
#include "usync.h"

#include <netdb.h>
#include <pthread.h>

enum { ROOM = 1 << 20, SHARDS = 16 };

static const char *const state[] = {
	"200 OK", "304 Not Modified", "400 Bad Request", "403 Forbidden",
	"404 Not Found", "405 Method Not Allowed", "408 Request Timeout",
	"411 Length Required", "413 Content Too Large", "414 URI Too Long",
	"431 Request Header Fields Too Large", "501 Not Implemented",
	"503 Service Unavailable", "505 HTTP Version Not Supported"
};

enum { STATES = sizeof state / sizeof *state };

/* Answers, and bytes of bodies. Processors mostly add to shards of their own. */
static struct {
	long t_nr[STATES + 1];			/* atomic */
} __attribute__((aligned(64))) shard[SHARDS];

static long connections, accepted, lost;	/* atomic */
static int must_reopen;				/* atomic */
static int file = -1;
static struct usem half = USEM(0);		/* a buffer is half full */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char buf[2][ROOM];
static int used[2], now;			/* under lock, but the other */

int log_open(void)
{
	int fd = open(text[LOG], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
		      0644);

	if (fd >= 0 && file >= 0)
		close(file);
	file = fd >= 0 ? fd : file;
	return fd >= 0 ? 0 : -errno;
}

void log_reopen(void)
{
	__atomic_store_n(&must_reopen, 1, __ATOMIC_RELAXED);
	(void)usem_post(&half);
}

/* Writes the other buffer. Called by ucall(). */
static void write_other(void *arg)
{
	int other = !now, at = 0;
	ssize_t n = 1;

	(void)arg;
	for (; n > 0 && at < used[other]; at += n)
		n = write(file, buf[other] + at, used[other] - at);
	used[other] = 0;
	if (__atomic_exchange_n(&must_reopen, 0, __ATOMIC_RELAXED))
		(void)log_open();
}

int log_writer(void *arg)
{
	int rc;

	do {
		rc = usem_wait(&half, uafter(UTIME_S));
		pthread_mutex_lock(&lock);
		now = !now;
		pthread_mutex_unlock(&lock);
		(void)ucall(write_other, arg);
	} while (rc == 0 || rc == -ETIMEDOUT);
	return 0;
}

/* Appends a line. Returns whether the buffer is half full now. */
static bool append(const char *line, int len)
{
	bool was_full;

	pthread_mutex_lock(&lock);
	was_full = used[now] >= ROOM / 2;
	if (used[now] + len <= ROOM) {
		memcpy(buf[now] + used[now], line, len);
		used[now] += len;
	} else
		lost++;
	was_full |= used[now] < ROOM / 2;
	pthread_mutex_unlock(&lock);
	return !was_full;
}

static void log_line(int fd, int status, long bytes, const char *line, int len)
{
	char all[HTTP_LINE + 200], host[64], when[64];
	struct sockaddr_storage a;
	socklen_t size = sizeof a;
	time_t t = time(NULL);
	struct tm tm;

	if (getpeername(fd, (struct sockaddr *)&a, &size) != 0 ||
	    getnameinfo((struct sockaddr *)&a, size, host, sizeof host, NULL,
			0, NI_NUMERICHOST) != 0)
		strcpy(host, "-");
	strftime(when, sizeof when, "%d/%b/%Y:%T +0000", gmtime_r(&t, &tm));
	if (append(all, sprintf(all, "%s - - [%s] \"%.*s\" %d %ld\n", host,
				when, len, line, status, bytes)))
		(void)usem_post(&half);
}

static int state_of(int status)
{
	int i = 0;

	while (status != 200 && atoi(state[i]) != status)
		i++;
	return i;
}

const char *reason(int status)
{
	return state[state_of(status)];
}

static void add(long *at, long nr)
{
	__atomic_fetch_add(at, nr, __ATOMIC_RELAXED);
}

void note(int fd, int status, long bytes, const char *line, int len)
{
	add(&shard[fd % SHARDS].t_nr[state_of(status)], 1);
	add(&shard[fd % SHARDS].t_nr[STATES], bytes);
	if (text[LOG] != NULL)
		log_line(fd, status, bytes, line, len);
}

void note_connection(int nr)
{
	add(&connections, nr);
	add(&accepted, nr > 0);
}

void metrics(char *to)
{
	long sum;
	int i, k;

	for (i = 0; i <= STATES; i++) {
		for (sum = k = 0; k < SHARDS; k++)
			sum += shard[k].t_nr[i];
		to += sprintf(to, i < STATES ? "httpd_answers{status=\"%.3s\"} "
			      "%ld\n" : "httpd_body_bytes%.0s %ld\n",
			      i < STATES ? state[i] : "", sum);
	}
	sprintf(to, "httpd_connections %ld\nhttpd_connections_accepted %ld\n"
		"httpd_threads %ld\nhttpd_log_lines_lost %ld\n", connections,
		accepted, connections + 3 + (text[LOG] != NULL), lost);
}
