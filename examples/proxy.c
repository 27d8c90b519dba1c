/* SPDX-License-Identifier: MIT */
/* proxy.c: carries bytes both ways, and ends connections that are silent. */

#include <errno.h>
#include "loop.h"

#define IDLE	(500 * UTIME_MS)

static struct userve far, near;

struct pair {
	struct way {
		int          from, to;
		struct pair *pair;
	} way[2];
	_Atomic utime_ns last;		/* when bytes came, either way */
};

/* Carries bytes one way until the end of the stream, which it hands on. */
static int carry(void *arg)
{
	struct way *w = arg;
	char buf[4096];
	ssize_t n;

	while ((n = u_read(w->from, buf, sizeof buf, w->pair->last + IDLE)) > 0 ||
	       (n == -ETIMEDOUT && w->pair->last + IDLE > unow())) {
		if (n > 0)
			w->pair->last = unow();
		if (n > 0 && u_write_all(w->to, buf, n, uafter(IDLE)) != n)
			return -EPIPE;
	}
	shutdown(w->to, SHUT_WR);
	return (int)n;			/* an error ends the other way, too */
}

static void proxy(int client, void *arg)
{
	struct pair *p = malloc(sizeof *p);	/* two threads will use it */
	int server = dial(u_port(far.sv_fd));
	struct uscope *both;

	(void)arg;
	if (p != NULL && uscope_begin(&both, UNEVER) == 0) {
		p->last   = unow();
		p->way[0] = (struct way){ client, server, p };
		p->way[1] = (struct way){ server, client, p };
		if (uscope_go(both, carry, &p->way[0]) != 0 ||
		    uscope_go(both, carry, &p->way[1]) != 0)
			uscope_cancel(both);
		uscope_end(&both);
	}
	u_close(server);
	free(p);
}

static void echo(int fd, void *arg)
{
	char buf[4096];
	ssize_t n;

	(void)arg;
	while ((n = u_read(fd, buf, sizeof buf, UNEVER)) > 0)
		u_write_all(fd, buf, n, UNEVER);
}

static void talk(void)
{
	char reply[16] = "";
	int fd;

	far.sv_f  = echo;
	near.sv_f = proxy;
	serve(&far);
	fd = dial(serve(&near));
	u_write_all(fd, "through", 8, UNEVER);
	u_read_all(fd, reply, 8, uafter(5 * UTIME_S));
	printf("%s, then silence, then %s\n", reply,
	       u_read(fd, reply, 1, uafter(5 * UTIME_S)) == 0 ? "the end" :
	       "something else");
	u_close(fd);
}

int main(void)
{
	return run(talk);
}
