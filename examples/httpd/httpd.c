/* SPDX-License-Identifier: MIT */
/* httpd.c: options, the start, and the stop. */

#include "httpd.h"
#include "rr.h"
#include "unet.h"
#include "userve.h"
#include "usignal.h"
#include "ws.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
	RESERVE = 64,			/* descriptors beside connections */
	MOMENT  = 500,			/* ms */
	LOOK    = 20			/* ms */
};

long o_procs, o_idle, o_time, o_body;
char *o_log;
int root, stopping;
static char *o_host = "127.0.0.1", *o_root = ".", *o_sched = "rr";
static long o_port, o_fd, o_limit, o_grace;

static struct userve server = { .sv_f = serve };
static int ended;			/* atomic */

/* Each option has a value: a number or a text. */
static const struct {
	char  p_name;
	char **p_text;
	long *p_nr, p_usual, p_least, p_most;
	const char *p_what;
} option[] = {
	{ 'a', &o_host, NULL, 0, 0, 0, "address; 127.0.0.1" },
	{ 'p', NULL, &o_port, 8080, 0, 65535, "port; 0: any that is free" },
	{ 'f', NULL, &o_fd, -1, -1, CONNS, "inherited socket that listens" },
	{ 'r', &o_root, NULL, 0, 0, 0, "folder of the files; ." },
	{ 'n', NULL, &o_procs, 0, 0, 1024, "processors; 0: as many as cpus" },
	{ 's', &o_sched, NULL, 0, 0, 0, "scheduler, rr or ws; rr" },
	{ 'c', NULL, &o_limit, 1000, 1, CONNS - RESERVE, "connections" },
	{ 'k', NULL, &o_idle, 60, 1, 86400, "s, for an idle connection" },
	{ 't', NULL, &o_time, 10, 1, 86400, "s, for a request, and a client to "
		"take the answer" },
	{ 'b', NULL, &o_body, 1 << 20, 0, HTTP_BODY, "bytes of a body" },
	{ 'g', NULL, &o_grace, 10, 0, 86400, "s, for connections at the end" },
	{ 'l', &o_log, NULL, 0, 0, 0, "access log; SIGHUP opens it again" },
};

enum { OPTIONS = sizeof option / sizeof *option };

static void usage(const char *why)
{
	int i;

	fprintf(stderr, "httpd: %s\noptions, with their defaults:\n", why);
	for (i = 0; i < OPTIONS; i++)
		if (option[i].p_nr != NULL)
			fprintf(stderr, "  -%c %-8ld %s\n", option[i].p_name,
				option[i].p_usual, option[i].p_what);
		else
			fprintf(stderr, "  -%c TEXT     %s\n",
				option[i].p_name, option[i].p_what);
	exit(2);
}

static void die(const char *what, int rc)
{
	fprintf(stderr, "httpd: %s: %s\n", what, strerror(-rc));
	exit(1);
}

static void set(const char *name, char *value)
{
	char *end;
	int i;

	for (i = 0; i < OPTIONS; i++)
		if (name[0] == '-' && name[1] == option[i].p_name && !name[2])
			break;
	if (i == OPTIONS || value == NULL)
		usage(name);
	if (option[i].p_text != NULL) {
		*option[i].p_text = value;
		return;
	}
	*option[i].p_nr = strtol(value, &end, 10);
	if (*value == 0 || *end != 0 || *option[i].p_nr < option[i].p_least ||
	    *option[i].p_nr > option[i].p_most)
		usage(value);
}

/* Makes room for all connections, or says what lacks. */
static void descriptors(void)
{
	long need = o_limit + RESERVE;
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) != 0)
		die("getrlimit", -errno);
	if (l.rlim_max < (rlim_t)need) {
		fprintf(stderr, "httpd: -c %ld needs %ld descriptors, and the "
			"limit is %ld (ulimit -Hn)\n", o_limit, need,
			(long)l.rlim_max);
		exit(1);
	}
	l.rlim_cur = l.rlim_cur < (rlim_t)need ? (rlim_t)need : l.rlim_cur;
	if (setrlimit(RLIMIT_NOFILE, &l) != 0)
		die("setrlimit", -errno);
}

static void listener(void)
{
	int on = 0, rc = 0;
	socklen_t len = sizeof on;
	char what[300];

	snprintf(what, sizeof what, "%s port %ld", o_host, o_port);
	server.sv_fd = o_fd >= 0 ? o_fd : u_listen_tcp(o_host, o_port, 0, 0);
	if (server.sv_fd < 0)
		die(what, server.sv_fd);
	if (getsockopt(server.sv_fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) != 0)
		rc = -errno;
	if (rc != 0 || !on)
		die("-f", rc != 0 ? rc : -EINVAL);
}

static int serve_all(void *arg)
{
	int rc = userve(&server);

	(void)arg;
	if (rc != -ECANCELED)
		fprintf(stderr, "httpd: accept: %s\n", strerror(-rc));
	__atomic_store_n(&ended, 1, __ATOMIC_RELAXED);
	return rc;
}

/*
 * For a moment answers say that the connection closes, and more connections are
 * accepted: so clients that were about to ask are answered. Then the server
 * accepts no more, and idle connections are closed, until all have ended.
 */
static void stop(struct uscope *serving)
{
	struct uscope *shield;

	if (uscope_shield(&shield, UNEVER) != 0)
		return;
	__atomic_store_n(&stopping, 1, __ATOMIC_RELAXED);
	if (!__atomic_load_n(&ended, __ATOMIC_RELAXED))
		(void)u_sleep(uafter(MOMENT * UTIME_MS));
	uscope_cancel(serving);
	while (!__atomic_load_n(&ended, __ATOMIC_RELAXED)) {
		close_idle();
		(void)u_sleep(uafter(LOOK * UTIME_MS));
	}
	(void)uscope_end(&shield);
}

static void run(void *arg)
{
	struct uscope *others, *serving;
	int rc = uscope_begin(&others, UNEVER);

	if (rc == 0 && o_log != NULL)
		rc = uscope_go(others, log_writer, arg);
	if (rc != 0 || (rc = usignal_watch(SIGTERM)) != 0 ||
	    (rc = usignal_watch(SIGINT)) != 0 ||
	    (rc = usignal_watch(SIGHUP)) != 0 ||
	    (rc = uscope_begin(&serving, UNEVER)) != 0 ||
	    (rc = uscope_go(serving, serve_all, arg)) != 0)
		die("start", rc);
	printf("listening on %s:%d\n", o_host, u_port(server.sv_fd));
	fflush(stdout);
	while (usignal_wait(UNEVER) == SIGHUP)
		log_reopen();
	(void)usignal_unwatch(SIGTERM);		/* the next ends it at once */
	(void)usignal_unwatch(SIGINT);
	stop(serving);
	(void)uscope_end(&serving);
	uscope_cancel(others);
	(void)uscope_end(&others);
	if (server.sv_cut > 0)
		fprintf(stderr, "httpd: %ld connections were cut\n",
			server.sv_cut);
}

int main(int argc, char **argv)
{
	int i;

	for (i = 0; i < OPTIONS; i++)
		if (option[i].p_nr != NULL)
			*option[i].p_nr = option[i].p_usual;
	for (i = 1; i < argc; i += 2)
		set(argv[i], argv[i + 1]);
	if (strcmp(o_sched, "rr") != 0 && strcmp(o_sched, "ws") != 0)
		usage(o_sched);
	o_procs = o_procs > 0 ? o_procs : sysconf(_SC_NPROCESSORS_ONLN);
	descriptors();
	root = open(o_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		die(o_root, -errno);
	if (o_log != NULL && (i = log_open()) != 0)
		die(o_log, i);
	listener();
	server.sv_limit = o_limit;
	server.sv_grace = o_grace * UTIME_S;
	return (o_sched[0] == 'r' ?
		rr_init(o_procs, 0) || !rr_thread_init(run, NULL) ||
		rr_start() || rr_fini() :
		ws_init(o_procs, 0) || !ws_thread_init(run, NULL) ||
		ws_start() || ws_fini()) || server.sv_cut > 0;
}
