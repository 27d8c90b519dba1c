/* SPDX-License-Identifier: MIT */
/* chat.c: a chat server with a thread for each client, by pthreads alone. */

/*
 * What a client writes, all clients read. The clients are threads of the same
 * program. When all have heard all, the thread that waits in accept() is
 * cancelled, and the threads of the server end as their clients close.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENTS	50
#define LINES	10		/* of each client */
#define LINE	32		/* bytes */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gone = PTHREAD_COND_INITIALIZER;
static int room[CLIENTS], in_room;	/* descriptors, under lock */
static pthread_barrier_t all_here;
static struct sockaddr_in address;
static long heard[CLIENTS];

static void must(int holds)
{
	if (!holds)
		abort();
}

static ssize_t read_line(int fd, char line[LINE])
{
	ssize_t nr = 0, rc;

	while (nr < LINE && (rc = read(fd, line + nr, LINE - nr)) > 0)
		nr += rc;
	return nr;
}

/* Adds a client, and greets it; so it hears all that is said from now on. */
static void enter(int fd)
{
	static const char welcome[LINE] = "welcome";

	must(pthread_mutex_lock(&lock) == 0);
	room[in_room++] = fd;
	must(write(fd, welcome, LINE) == LINE);
	must(pthread_mutex_unlock(&lock) == 0);
}

static void say(const char line[LINE])
{
	int i;

	must(pthread_mutex_lock(&lock) == 0);
	for (i = 0; i < in_room; i++)
		must(write(room[i], line, LINE) == LINE);
	must(pthread_mutex_unlock(&lock) == 0);
}

static void leave(int fd)
{
	int i;

	must(pthread_mutex_lock(&lock) == 0);
	for (i = 0; room[i] != fd; i++)
		;
	room[i] = room[--in_room];
	must(pthread_cond_signal(&gone) == 0);
	must(pthread_mutex_unlock(&lock) == 0);
	must(close(fd) == 0);
}

static void *serve(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char line[LINE];

	enter(fd);
	while (read_line(fd, line) == LINE)
		say(line);
	leave(fd);
	return NULL;
}

static void close_door(void *listener)
{
	must(close(*(int *)listener) == 0);
	puts("the door is closed");
}

static void *accept_all(void *arg)
{
	pthread_attr_t detached;
	pthread_t t;
	int fd;

	must(pthread_attr_init(&detached) == 0);
	must(pthread_attr_setdetachstate(&detached,
					 PTHREAD_CREATE_DETACHED) == 0);
	pthread_cleanup_push(close_door, arg);
	while ((fd = accept(*(int *)arg, NULL, NULL)) >= 0)
		must(pthread_create(&t, &detached, serve,
				    (void *)(intptr_t)fd) == 0);
	pthread_cleanup_pop(1);
	return NULL;
}

static void *client(void *arg)
{
	long me = (long *)arg - heard;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char line[LINE];
	int i;

	must(fd >= 0 && connect(fd, (struct sockaddr *)&address,
				sizeof address) == 0);
	must(read_line(fd, line) == LINE);
	(void)pthread_barrier_wait(&all_here);
	for (i = 0; i < LINES; i++) {
		memset(line, 0, sizeof line);
		(void)snprintf(line, sizeof line, "%ld: %d", me, i);
		must(write(fd, line, LINE) == LINE);
	}
	for (i = 0; i < CLIENTS * LINES; i++) {
		must(read_line(fd, line) == LINE);
		*(long *)arg += atol(line) + 1;
	}
	must(close(fd) == 0);
	return NULL;
}

static int listening(void)
{
	socklen_t size = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	must(fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
	     getsockname(fd, (struct sockaddr *)&address, &size) == 0 &&
	     listen(fd, CLIENTS) == 0);
	return fd;
}

int main(void)
{
	int listener = listening(), i, right = 0;
	pthread_t door, t[CLIENTS];
	void *result;

	must(pthread_barrier_init(&all_here, NULL, CLIENTS) == 0);
	must(pthread_create(&door, NULL, accept_all, &listener) == 0);
	for (i = 0; i < CLIENTS; i++)
		must(pthread_create(&t[i], NULL, client, &heard[i]) == 0);
	for (i = 0; i < CLIENTS; i++) {
		must(pthread_join(t[i], NULL) == 0);
		right += heard[i] == LINES * CLIENTS * (CLIENTS + 1) / 2;
	}
	must(pthread_cancel(door) == 0 && pthread_join(door, &result) == 0);
	must(pthread_mutex_lock(&lock) == 0);
	while (in_room > 0)
		must(pthread_cond_wait(&gone, &lock) == 0);
	must(pthread_mutex_unlock(&lock) == 0);
	printf("%d of %d clients heard %d lines each\n", right, CLIENTS,
	       CLIENTS * LINES);
	return result != PTHREAD_CANCELED;
}
