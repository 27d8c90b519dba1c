/* SPDX-License-Identifier: MIT */
/* server.h: a server in threads, which answers when all clients have asked. */

#ifndef SERVER_H
#define SERVER_H

/*
 * The test has a client, which returns when it has its answer. Its server speaks as
 * much of the protocol as this client needs, and calls meet() before its first
 * answer. An impatient client has a library that gives up, while its server is
 * silent. All threads run on one processor of rr. So a call that
 * stops it stops all, and so does a native lock that is held over a wait.
 */

#include "either.h"
#include "uio.h"
#include "unet.h"
#include "uscope.h"
#include "userve.h"
#include "usync.h"

#include <stdbool.h>

static int nr, port;
static struct ubarrier all;

static void client(int number);
static void serve(int fd, void *arg);
static void impatient(void);		/* nothing answers at port */

/* For the server. */

static UNUSED void meet(void)
{
	CHECK_THAT(ubarrier_wait(&all, UNEVER), >=, 0);
}

static UNUSED bool take(int fd, void *to, int n)
{
	return u_read_all(fd, to, (size_t)n, UNEVER) == n;
}

static UNUSED void give(int fd, const void *from, int n)
{
	CHECK_IS(u_write_all(fd, from, (size_t)n, UNEVER), n);
}

static int run_client(void *number)
{
	client((int)(long)number);
	return 0;
}

/* Runs all clients, with or without a server for connections. */
static void run_clients(void *arg)
{
	static struct userve server = { .sv_f = serve };
	struct uscope *s, *clients;
	int silent = u_listen_tcp("127.0.0.1", 0, 0, 0), i;

	server.sv_fd = u_listen_tcp("127.0.0.1", 0, 0, 0);
	if (port == 0)
		port = u_port(server.sv_fd);
	CHECK(silent >= 0 && port > 0);
	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	CHECK_IS(uscope_go(s, userve, &server), 0);
	CHECK_IS(uscope_begin(&clients, UNEVER), 0);
	for (i = 0; i < nr; i++)
		CHECK_IS(uscope_go(clients, run_client, (void *)(long)i), 0);
	CHECK_IS(uscope_end(&clients), 0);
	port = u_port(silent);
	impatient();
	u_close(silent);
	uscope_cancel(s);
	CHECK_IS(uscope_end(&s), -ECANCELED);
	(void)arg;
}

static UNUSED void run_all(void)
{
	nr  = getenv("NR") != NULL ? atoi(getenv("NR")) : 50;
	all = (struct ubarrier)UBARRIER(nr);
	begin(1, 0);
	make(0, run_clients, NULL);
	start_and_finish();
}

#endif /* SERVER_H */
