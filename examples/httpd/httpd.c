/* SPDX-License-Identifier: MIT */
/* httpd.c: options, the start, and the stop. */

#include "httpd.h"
#include "rr.h"
#include "unet.h"
#include "userve.h"
#include "usignal.h"
#include "ws.h"

#include <signal.h>
#include <sys/resource.h>

#define MOMENT	(UTIME_S / 2)		/* between no and no more requests */
#define LOOK	(20 * UTIME_MS)

static const char letters[] = "apfrnscktbgl";

static const char usage[] =
	"options of httpd, and defaults:\n"
	"  -a 127.0.0.1  address\n"
	"  -p 8080       port; 0: any that is free\n"
	"  -f -1         descriptor of a socket that listens, inherited\n"
	"  -r .          folder of the files\n"
	"  -n 0          processors; 0: as many as there are\n"
	"  -s rr         scheduler: rr or ws\n"
	"  -c 1000       connections at a time\n"
	"  -k 60         s until an idle connection ends\n"
	"  -t 10         s for a head, for a body, and to take an answer\n"
	"  -b 1048576    bytes of a body\n"
	"  -g 10         s for connections after SIGTERM or SIGINT\n"
	"  -l FILE       access log, which SIGHUP opens again; none\n";

char *text[OPTIONS] = {
	[HOST] = "127.0.0.1", [PORT] = "8080", [LISTENER] = "-1", [ROOT] = ".",
	[PROCS] = "0", [SCHED] = "rr", [CONNS] = "1000", [IDLE] = "60",
	[TIME] = "10", [BODY] = "1048576", [GRACE] = "10"
};
static const long most[OPTIONS] = {	/* 0: it is no number */
	[PORT] = 65535, [LISTENER] = DESCRIPTORS, [PROCS] = 1024,
	[CONNS] = DESCRIPTORS / 2 - RESERVE, [IDLE] = 86400, [TIME] = 86400,
	[BODY] = HTTP_BODY, [GRACE] = 86400
};
long number[OPTIONS];
int root, stopping;
static struct userve server = { .sv_f = serve };
static int ended;			/* atomic */

/* Ends the program, with an error. rc 0: an option is wrong. */
static void die(const char *what, int rc)
{
	fprintf(stderr, "httpd: %s: %s\n", what, rc != 0 ? strerror(-rc) :
		"is no option, or out of range");
	if (rc == 0)
		fputs(usage, stderr);
	exit(rc == 0 ? 2 : 1);
}

static void options(int argc, char **argv)
{
	const char *at;
	char *end;
	int i;

	for (i = 1; i < argc; i += 2) {
		at = argv[i][0] == '-' && argv[i][1] && !argv[i][2] ?
			strchr(letters, argv[i][1]) : NULL;
		if (at == NULL || i + 1 == argc)
			die(argv[i], 0);
		text[at - letters] = argv[i + 1];
	}
	for (i = 0; i < OPTIONS; i++) {
		if (most[i] == 0)
			continue;
		number[i] = strtol(text[i], &end, 10);
		if (end == text[i] || *end != 0 || number[i] > most[i] ||
		    number[i] < (i == LISTENER ? -1 : i == CONNS || i == TIME))
			die(text[i], 0);
	}
	if (strcmp(text[SCHED], "rr") != 0 && strcmp(text[SCHED], "ws") != 0)
		die(text[SCHED], 0);
	if (number[PROCS] == 0)
		number[PROCS] = sysconf(_SC_NPROCESSORS_ONLN);
}

/* Makes room for all connections, or says what lacks. */
static void descriptors(void)
{
	rlim_t need = number[CONNS] + RESERVE;
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) != 0)
		die("getrlimit", -errno);
	if (l.rlim_max < need) {
		fprintf(stderr, "httpd: -c %s needs %ld descriptors, and the "
			"limit is %ld (ulimit -Hn)\n", text[CONNS], (long)need,
			(long)l.rlim_max);
		exit(1);
	}
	l.rlim_cur = l.rlim_cur < need ? need : l.rlim_cur;
	if (setrlimit(RLIMIT_NOFILE, &l) != 0)
		die("setrlimit", -errno);
}

static void prepare(void)
{
	int rc = 0;

	descriptors();
	root = open(text[ROOT], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		die(text[ROOT], -errno);
	if (text[LOG] != NULL && (rc = log_open()) != 0)
		die(text[LOG], rc);
	server.sv_fd = number[LISTENER] >= 0 ? (int)number[LISTENER] :
		u_listen_tcp(text[HOST], number[PORT], 0, 0);
	if (server.sv_fd < 0) {
		fprintf(stderr, "httpd: port %s of %s: %s\n", text[PORT],
			text[HOST], strerror(-server.sv_fd));
		exit(1);
	}
	server.sv_limit = number[CONNS];
	server.sv_grace = number[GRACE] * UTIME_S;
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
 * accepts no more, and idle connections are closed, until all have ended. Those
 * that were just accepted have a moment more for their first request.
 */
static void stop(struct uscope *serving)
{
	struct uscope *shield;
	utime_ns patience;

	if (uscope_shield(&shield, UNEVER) != 0)
		return;
	__atomic_store_n(&stopping, 1, __ATOMIC_RELAXED);
	if (!__atomic_load_n(&ended, __ATOMIC_RELAXED))
		(void)u_sleep(uafter(MOMENT));
	uscope_cancel(serving);
	patience = uafter(MOMENT);
	while (!__atomic_load_n(&ended, __ATOMIC_RELAXED)) {
		close_idle(unow() > patience);
		(void)u_sleep(uafter(LOOK));
	}
	(void)uscope_end(&shield);
}

static void run(void *arg)
{
	struct uscope *others, *serving;
	int rc = uscope_begin(&others, UNEVER);

	if (rc == 0 && text[LOG] != NULL)
		rc = uscope_go(others, log_writer, arg);
	if (rc != 0 || (rc = usignal_watch(SIGTERM)) != 0 ||
	    (rc = usignal_watch(SIGINT)) != 0 ||
	    (rc = usignal_watch(SIGHUP)) != 0 ||
	    (rc = uscope_begin(&serving, UNEVER)) != 0 ||
	    (rc = uscope_go(serving, serve_all, arg)) != 0)
		die("start", rc);
	printf("listening on %s:%d\n", text[HOST], u_port(server.sv_fd));
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
	int nr;

	options(argc, argv);
	(void)signal(SIGPIPE, SIG_IGN);		/* by sendfile() */
	prepare();
	nr = number[PROCS];
	return (text[SCHED][0] == 'r' ?
		rr_init(nr, 0) || !rr_thread_init(run, NULL) || rr_start() ||
		rr_fini() :
		ws_init(nr, 0) || !ws_thread_init(run, NULL) || ws_start() ||
		ws_fini()) || server.sv_cut > 0;
}
