/* SPDX-License-Identifier: MIT */
/* locks-1.c: a query holds the only connection until its answer has come: 2 ms. */

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <usched/all.h>

#define USERS	12

static struct umutex connection;
static struct ugroup users;
static int ends[2];
static utime_ns closing;
static long answered;

/* Sends a key, and reads the row. */
__attribute__((noinline)) static int query(long key, long *row)
{
	int rc = umutex_lock(&connection, UNEVER);

	if (rc != 0)
		return rc;
	if (u_write_all(ends[0], &key, sizeof key, UNEVER) < 0 ||
	    u_read_all(ends[0], row, sizeof *row, UNEVER) < 0)
		rc = -EIO;
	answered += rc == 0;
	umutex_unlock(&connection);
	return rc;
}

static void user(void *arg)
{
	long row = (long)arg;

	while (unow() < closing && u_sleep(uafter(8 * UTIME_MS)) == 0)
		if (query(row, &row) != 0)
			break;
	ugroup_done(&users);
	if ((long)arg == 0 && ugroup_wait(&users, UNEVER) == 0)
		u_close(ends[0]);
}

static void database(void *arg)
{
	long key;

	(void)arg;
	while (u_read_all(ends[1], &key, sizeof key, UNEVER) == sizeof key) {
		u_sleep(uafter(2 * UTIME_MS));
		key = key * 7 % 1000;
		u_write_all(ends[1], &key, sizeof key, UNEVER);
	}
}

int main(void)
{
	int rc = ws_init(2, 0);

	rc = rc != 0 ? rc : socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	for (long i = 0; i < USERS && rc == 0; i++)
		rc = ugroup_add(&users, 1) == 0 &&
			ws_thread_init(user, (void *)i) ? 0 : -1;
	closing = uafter(2 * UTIME_S);
	if (rc != 0 || !ws_thread_init(database, NULL) || ws_start() != 0 ||
	    ws_fini() != 0)
		return 1;
	printf("%ld rows\n", answered);
	return 0;
}
