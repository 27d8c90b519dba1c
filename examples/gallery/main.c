/* SPDX-License-Identifier: MIT */
/* main.c: options, the start, and the stop. PROGRAM is cache or jobs. */

#include "conn.h"
#include <usched/all.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <signal.h>
#include <unistd.h>

static const char usage[] =
	"usage: %s [-p port] [-c connections] [-m MiB to keep]\n";

static long port = 7379, connections = 10000, mebibytes = 1024;
static const struct program *program = &PROGRAM;
static struct userve server;

static void serve(int fd, void *arg)
{
	(void)arg;
	(void)u_trust(fd);
	conn_serve(fd, program);
}

static void die(const char *what, int rc)
{
	fprintf(stderr, "%s: %s: %s\n", program->p_name, what, strerror(-rc));
	exit(1);
}

/*
 * A host that has crashed closes no connection. So the kernel asks clients that say
 * nothing for a minute, and the place of a host that does not answer, and its job,
 * come back in two. Connections have this from the listener.
 */
static void keep_alive(int fd)
{
	static const int option[][3] = {
		{ SOL_SOCKET,  SO_KEEPALIVE,  1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE,  60 },
		{ IPPROTO_TCP, TCP_KEEPINTVL, 20 },
		{ IPPROTO_TCP, TCP_KEEPCNT,   3 }
	};
	size_t i;

	for (i = 0; i < sizeof option / sizeof option[0]; i++)
		if (setsockopt(fd, option[i][0], option[i][1], &option[i][2],
			       sizeof option[i][2]) != 0)
			die("keep-alive", -errno);
}

static void options(int argc, char **argv)
{
	long *to;
	char *end = "";
	int c;

	while ((c = getopt(argc, argv, "p:c:m:")) != -1) {
		to = c == 'p' ? &port : c == 'c' ? &connections : &mebibytes;
		if (c != '?')
			*to = strtol(optarg, &end, 10);
		if (c == '?' || *end != 0 || *to < (c != 'p') || *to > 1 << 20)
			break;
	}
	if (c != -1 || optind < argc || port > 65535) {
		fprintf(stderr, usage, program->p_name);
		exit(2);
	}
}

/*
 * Stops at a signal: requests that have come are answered. Threads that sleep for
 * a job or for the store are left, and end with the process.
 */
static void run(void *arg)
{
	struct uscope *serving;
	int rc;

	(void)arg;
	server = (struct userve){
		.sv_f = serve, .sv_limit = connections, .sv_grace = UTIME_S,
		.sv_fd = u_listen_tcp("127.0.0.1", port, 0, 0) };
	if (server.sv_fd < 0)
		die("port", server.sv_fd);
	keep_alive(server.sv_fd);
	if ((rc = program->p_start((size_t)mebibytes << 20)) != 0 ||
	    (rc = uscope_begin(&serving, UNEVER)) != 0 ||
	    (rc = uscope_go(serving, userve, &server)) != 0 ||
	    (rc = usignal_watch(SIGTERM)) != 0)
		die("start", rc);
	printf("listening on 127.0.0.1:%d\n", u_port(server.sv_fd));
	fflush(stdout);
	(void)usignal_wait(UNEVER);
	uscope_cancel(serving);
	(void)uscope_end(&serving);
	exit(0);
}

int main(int argc, char **argv)
{
	options(argc, argv);
	if (rr_init(1, 0) || rr_pinning(0) || !rr_thread_init(run, NULL) ||
	    rr_start())
		return 1;
	return rr_fini() != 0;
}
