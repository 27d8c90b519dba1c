/* SPDX-License-Identifier: MIT */
/* loop.h: for examples of servers, which talk to themselves over loopback. */

#include <stdio.h>
#include <stdlib.h>
#include <usched/all.h>

/* Starts a server in the scope of the caller. Returns its port. */
static inline int serve(struct userve *s)
{
	s->sv_fd = u_listen_tcp("127.0.0.1", 0, 0, 0);
	if (s->sv_fd < 0 || uscope_go(uscope_self(), userve, s) != 0)
		abort();
	return u_port(s->sv_fd);
}

static inline int dial(int port)
{
	int fd = u_dial_tcp("127.0.0.1", port, uafter(5 * UTIME_S));

	if (fd < 0)
		abort();
	return fd;
}

static void (*loop_client)(void);

static inline void loop_run(void *arg)
{
	struct uscope *s;

	(void)arg;
	if (uscope_begin(&s, UNEVER) != 0)
		abort();
	loop_client();
	uscope_cancel(s);
	uscope_end(&s);
}

/* Runs client() in a scope, and then ends all servers. */
static inline int run(void (*client)(void))
{
	loop_client = client;
	return rr_init(1, 0) || !rr_thread_init(loop_run, NULL) ||
		rr_start() || rr_fini();
}
