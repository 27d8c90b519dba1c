/* SPDX-License-Identifier: MIT */
/* t_io_trust: trust in a short read ends, though another worker of ws sleeps. */

/*
 * A thread reads all that its socket has, and waits again in trust. But the
 * number stands for another socket by then, which has a byte already, so no
 * event will come. The poller checks this in time, also if its worker was
 * asleep before the wait began, or if an event has ended a wait in trust
 * before.
 */
#define WS
#include "either.h"
#include "uio.h"

#include <sys/socket.h>

#define WORKERS	3
#define ROUNDS	4

static int  first[2], second[2];
static long reads;		/* begun (atomic) */

static void reader(void *arg)
{
	char bytes[8];
	int i, k;

	(void)arg;
	for (i = 0; i < ROUNDS; i++) {
		CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, first) == 0);
		CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, second) == 0);
		for (k = 0; k <= i % 2; k++) {
			add(&reads, 1);
			CHECK(u_read(first[0], bytes, sizeof bytes, UNEVER) ==
			      1);
		}
		CHECK(write(second[1], "b", 1) == 1);
		CHECK(dup2(second[0], first[0]) == first[0]);
		CHECK(u_read(first[0], bytes, sizeof bytes, UNEVER) == 1);
		CHECK(bytes[0] == 'b');
		CHECK(close(second[0]) == 0 && close(second[1]) == 0);
		CHECK(close(first[1]) == 0 && u_close(first[0]) == 0);
	}
}

static void *writer(void *arg)
{
	int i;

	for (i = 0; i < ROUNDS + ROUNDS / 2; i++) {
		until(&reads, i + 1);
		usleep(20000);
		CHECK(write(first[1], "a", 1) == 1);
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t id;
	int i;

	check_start(argc, argv);
	for (i = 0; i < WORKERS; i++) {
		reads = 0;
		begin(WORKERS, 0);
		CHECK(ws_thread_pinned(i, reader, NULL) != NULL);
		id = native(writer, NULL);
		start_and_finish();
		native_join(id);
	}
	return 0;
}
