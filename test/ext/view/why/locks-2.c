/* SPDX-License-Identifier: MIT */
/* locks-2.c: look-ups use read() of libc, so a processor sleeps 3 ms in each. */

#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include <usched/all.h>

#define CLIENTS	6

static struct client {
	int       ends[2];
	pthread_t service;
	long      names;
} clients[CLIENTS];
static utime_ns closing;

/* A native thread, as of another program. */
static void *service(void *arg)
{
	struct client *c = arg;
	long name;

	while (read(c->ends[1], &name, sizeof name) == sizeof name) {
		usleep(3000);
		if (write(c->ends[1], &name, sizeof name) < 0)
			break;
	}
	return NULL;
}

__attribute__((noinline)) static int resolve(struct client *c, long name)
{
	return write(c->ends[0], &name, sizeof name) == sizeof name &&
		read(c->ends[0], &name, sizeof name) == sizeof name;
}

static void client(void *arg)
{
	struct client *c = arg;

	while (unow() < closing && u_sleep(uafter(10 * UTIME_MS)) == 0 &&
	       resolve(c, c->names))
		c->names++;
	close(c->ends[0]);
}

int main(void)
{
	int i, rc = rr_init(2, 0);
	long names = 0;

	for (i = 0; i < CLIENTS && rc == 0; i++)
		rc = socketpair(AF_UNIX, SOCK_STREAM, 0, clients[i].ends) ||
			pthread_create(&clients[i].service, NULL, service,
				       &clients[i]) ||
			!rr_thread_init(client, &clients[i]);
	closing = uafter(2 * UTIME_S);
	if (rc != 0 || rr_start() != 0 || rr_fini() != 0)
		return 1;
	for (i = 0; i < CLIENTS; i++) {
		pthread_join(clients[i].service, NULL);
		names += clients[i].names;
	}
	printf("%ld names\n", names);
	return 0;
}
