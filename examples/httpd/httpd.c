/* SPDX-License-Identifier: MIT */
/* httpd.c: options, the log, the start, and the stop. */

/*
 * Each processor has a listener of its own, and a connection stays where it was
 * accepted. So processors send each other no messages, and need not be pinned:
 * the kernel may move them away from a cpu that others use.
 */
#include "httpd.h"
#include <usched/all.h>

#include <netdb.h>
#include <signal.h>
#include <sys/resource.h>

static const char letters[] = "a:r:l:p:f:n:c:k:t:b:g:";

static const char usage[] =
	"usage: httpd [-a address] [-p port] [-f fd that listens] [-r folder]\n"
	"	[-n processors] [-c connections] [-l log] [-b bytes of a body]\n"
	"	[-k s for idle connections] [-t s for steps] [-g s to end]\n";

const char *text[OPTIONS] = {
	"127.0.0.1", ".", "", "8080", "0", "0", "1000", "60", "10", "1048576",
	"10"
};
long number[OPTIONS], counter[COUNTERS];
int root, stopping;
static int log_file;
static struct userve *server;		/* an array: one of each processor */
static struct usem places;		/* for connections of all servers */
static int ended;			/* servers that have ended (atomic) */

void log_answer(int fd, int status, long bytes, const char *line, int len)
{
	char all[HTTP_LINE + 200], host[64] = "-", when[64];
	struct sockaddr_storage a;
	socklen_t size = sizeof a;
	time_t t = time(NULL);
	struct tm tm;

	if (getpeername(fd, (struct sockaddr *)&a, &size) == 0)
		(void)getnameinfo((struct sockaddr *)&a, size, host,
				  sizeof host, NULL, 0, NI_NUMERICHOST);
	strftime(when, sizeof when, "%d/%b/%Y:%T +0000", gmtime_r(&t, &tm));
	len = sprintf(all, "%s - - [%s] \"%.*s\" %d %ld\n", host, when, len,
		      line, status, bytes);
	if (write(log_file, all, len) != len)
		count(LOST, 1);
}

static void die(const char *what, int rc)
{
	fprintf(stderr, "httpd: %s: %s\n", what, strerror(-rc));
	exit(1);
}

static void options(int argc, char **argv)
{
	bool right = true;
	char *end;
	int c, i;

	while ((c = getopt(argc, argv, letters)) != -1 && c != '?')
		text[(strchr(letters, c) - letters) / 2] = optarg;
	for (i = PORT; i < OPTIONS; i++) {
		number[i] = strtol(text[i], &end, 10);
		right &= end > text[i] && *end == 0 && number[i] <= 1 << 20 &&
			number[i] >= (i == CONNS || i == TIME);
	}
	if (c == '?' || optind < argc || !right) {
		fputs(usage, stderr);
		exit(2);
	}
	if (number[PROCS] == 0)
		number[PROCS] = sysconf(_SC_NPROCESSORS_ONLN);
}

/* Makes the listener of processor i. */
static int listener(int i)
{
	int port = i > 0 ? u_port(server[0].sv_fd) : number[PORT];
	int fd = number[LISTENER] > 0 ? dup(number[LISTENER]) :
		u_listen_tcp(text[HOST], port, 0, number[PROCS] > 1 ?
			     UNET_REUSEPORT : 0);

	if (fd < 0)
		die(text[number[LISTENER] > 0 ? LISTENER : PORT],
		    fd == -1 ? -errno : fd);
	return fd;
}

static void allow_descriptors(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) != 0)
		die("descriptors", -errno);
	l.rlim_cur = l.rlim_max < FDS ? l.rlim_max : FDS;
	if ((long)l.rlim_cur < descriptors())
		die("-c is above the limit of descriptors", -EMFILE);
	(void)setrlimit(RLIMIT_NOFILE, &l);
}

static void prepare(void)
{
	int i, nr = number[PROCS];

	allow_descriptors();
	root = open(text[ROOT], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		die(text[ROOT], -errno);
	log_file = open(text[LOG], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC |
			O_NONBLOCK, 0644);
	if (*text[LOG] != 0 && log_file < 0)
		die(text[LOG], -errno);
	places = (struct usem)USEM(number[CONNS]);
	server = calloc(nr, sizeof *server);
	for (i = 0; server != NULL && i < nr; i++)
		server[i] = (struct userve){
			.sv_f = serve, .sv_fd = listener(i),
			.sv_make = rr_make_here, .sv_share = &places,
			.sv_grace = number[GRACE] * UTIME_S };
}

/* Serves at a processor. */
static int serve_there(void *arg)
{
	int rc = userve(arg);

	if (rc != -ECANCELED)
		die("accept", rc);
	__atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
	return 0;
}

/* Makes threads on processors in turn. */
static int make_next(struct usched *d, void (*f)(void *), void *arg)
{
	static int nr;

	(void)d;
	return rr_thread_on(nr++, f, arg) != NULL ? 0 : -errno;
}

/*
 * For a moment answers say that the connection closes, and more connections are
 * accepted: so clients that were about to ask are answered. Then the kernel takes
 * no newcomers, unless another process may have the listener, and handshakes have
 * a moment to end. The servers accept what has come, and close their listeners.
 * Connections that have been idle since before are closed, until all have ended.
 * New connections have a moment of their own: see serve.c.
 */
static void stop(struct uscope *serving)
{
	struct uscope *shield;
	int rc = uscope_shield(&shield, UNEVER), i;

	if (rc != 0)
		die("stop", rc);
	__atomic_store_n(&stopping, 1, __ATOMIC_RELAXED);
	(void)u_sleep(uafter(MOMENT));
	for (i = 0; i < number[PROCS] && number[LISTENER] == 0; i++)
		(void)u_unlisten(server[i].sv_fd);
	(void)u_sleep(uafter(MOMENT));
	uscope_cancel(serving);
	while (__atomic_load_n(&ended, __ATOMIC_RELAXED) < number[PROCS]) {
		close_idle();
		(void)u_sleep(uafter(20 * UTIME_MS));
	}
	(void)uscope_end(&shield);
}

static void run(void *arg)
{
	struct uscope *serving;
	int rc = uscope_begin(&serving, UNEVER), i;

	(void)arg;
	for (i = 0; rc == 0 && i < number[PROCS]; i++)
		rc = uscope_go_by(serving, serve_there, &server[i], make_next);
	if (rc != 0 || (rc = usignal_watch(SIGTERM)) != 0 ||
	    (rc = usignal_watch(SIGINT)) != 0)
		die("start", rc);
	printf("listening on %s:%d\n", text[HOST], u_port(server[0].sv_fd));
	fflush(stdout);
	(void)usignal_wait(UNEVER);
	(void)usignal_unwatch(SIGTERM);		/* the next ends it at once */
	(void)usignal_unwatch(SIGINT);
	stop(serving);
	(void)uscope_end(&serving);
}

int main(int argc, char **argv)
{
	long cut = 0;
	int i;

	options(argc, argv);
	prepare();
	if (rr_init(number[PROCS], 0) || rr_pinning(0) ||
	    !rr_thread_init(run, NULL) || rr_start() || rr_fini())
		return 1;
	for (i = 0; i < number[PROCS]; i++)
		cut += server[i].sv_cut;
	if (cut > 0)
		fprintf(stderr, "httpd: %ld connections were cut\n", cut);
	return cut > 0;
}
