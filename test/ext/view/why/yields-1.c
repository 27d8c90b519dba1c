/* SPDX-License-Identifier: MIT */
/* yields-1.c: while the log is full, requests try again and again, and yield. */

#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

#define REQUESTS	6
#define ROOM		64

static struct uchan *lines;
static utime_ns closing;
static long written;

/* Puts a line into the log, for which there may be no room. */
__attribute__((noinline)) static int note(int line)
{
	int rc;

	while ((rc = uchan_send(lines, &line, UNOW)) == -EAGAIN)
		if ((rc = rr_yield()) != 0)
			break;
	return rc;
}

static void request(void *arg)
{
	utime_ns end;

	(void)arg;
	for (int i = 0; unow() < closing; i++) {
		end = unow() + 20 * UTIME_US;
		while (unow() < end)
			;
		if (note(i) != 0)
			break;
	}
}

/* Writes each 4 ms what is there. */
static void logger(void *arg)
{
	int line;

	(void)arg;
	while (unow() < closing + 100 * UTIME_MS) {
		u_sleep(uafter(4 * UTIME_MS));
		for (int i = 0; i < ROOM; i++)
			written += uchan_recv(lines, &line, UNOW) == 0;
	}
}

int main(void)
{
	int i, rc = rr_init(2, 0);

	lines = uchan_make(sizeof(int), ROOM);
	for (i = 0; i < REQUESTS && rc == 0; i++)
		rc = rr_thread_init(request, NULL) ? 0 : -1;
	closing = uafter(2 * UTIME_S);
	if (rc != 0 || lines == NULL || !rr_thread_init(logger, NULL) ||
	    rr_start() != 0 || rr_fini() != 0)
		return 1;
	printf("%ld lines\n", written);
	uchan_free(lines);
	return 0;
}
