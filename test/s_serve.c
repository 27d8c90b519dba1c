/* SPDX-License-Identifier: MIT */
/* s_serve: a server has at most as many connections as its limit, and serves
 * all that come, also after descriptors or memory were short. */
/* VARIANTS: RR LL */

/*
 * After its scope was cancelled it accepts none. It lets connections end in the
 * time of grace, cancels the others, and returns when all have ended. It ends
 * with an error if its listener is closed, or never was a listener. No
 * descriptor is left. One acceptor deals connections to all processors, and so
 * does the system to several listeners at a port.
 */
#include "either.h"
#include "uio.h"
#include "unet.h"
#include "userve.h"

#include <dirent.h>

#define LIMIT	3
#define CLIENTS	10
#define FDS	200
#define PROCESSORS 2
#define CONNECTIONS 1000
#define SOON	uafter(20 * UTIME_S)

static struct userve server;
static long now_open, most_open, served, cut, answered, returned;

/* Answers each byte until the end of the stream. */
static void answer(int fd, void *arg)
{
	long open = add(&now_open, 1);
	ssize_t n;
	char c;

	CHECK(arg == &server && open <= server.sv_limit);
	if (open > get(&most_open))
		set(&most_open, open);
	while ((n = u_read(fd, &c, 1, UNEVER)) == 1)
		if (u_write_all(fd, &c, 1, UNEVER) != 1)
			break;
	if (n == -ECANCELED)
		add(&cut, 1);
	add(&served, 1);
	add(&now_open, -1);
}

static int serve(void *arg)
{
	int rc = userve(arg);

	CHECK(get(&now_open) == 0 && rc < 0);
	(void)shutdown(server.sv_fd, SHUT_RDWR);	/* resets the backlog */
	set(&returned, -rc);
	return 0;
}

/* Begins a scope with a server in it. */
static struct uscope *begin_server(int limit, utime_ns grace)
{
	struct uscope *s;

	server = (struct userve){ .sv_f = answer, .sv_arg = &server,
				  .sv_limit = limit, .sv_grace = grace };
	now_open = most_open = served = cut = answered = returned = 0;
	server.sv_fd = u_listen_tcp("127.0.0.1", 0, 0, 0);
	CHECK(server.sv_fd >= 0);
	CHECK(uscope_begin(&s, UNEVER) == 0);
	CHECK(uscope_go(s, serve, &server) == 0);
	return s;
}

/* Ends it. Returns why the server has ended. */
static int end_server(struct uscope *s)
{
	CHECK(uscope_end(&s) == -ECANCELED && s == NULL);
	CHECK(u_close(server.sv_fd) == 0);
	CHECK(get(&server.sv_accepted) == served && server.sv_cut == cut);
	return -(int)get(&returned);
}

static int dial(void)
{
	int fd = u_dial_tcp(NULL, u_port(server.sv_fd), SOON);

	CHECK(fd >= 0);
	return fd;
}

/* Sends a byte, and reads the answer. */
static bool ask(int fd)
{
	char c = (char)fd, d = 0;

	return u_write_all(fd, &c, 1, SOON) == 1 &&
		u_read_all(fd, &d, 1, SOON) == 1 && d == c;
}

static void await(long *at, long nr)
{
	while (get(at) < nr)
		CHECK(u_sleep(uafter(UTIME_MS / 4)) == 0);
}

static int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int nr = 0;

	if (d == NULL)
		return 0;
	while (readdir(d) != NULL)
		nr++;
	closedir(d);
	return nr;
}

/* More clients than the limit. */

static int client(void *arg)
{
	int fd = dial(), i;

	(void)arg;
	for (i = 0; i < 3; i++)
		CHECK(ask(fd));
	CHECK(u_close(fd) == 0);
	add(&answered, 1);
	return 0;
}

static void limits(void *arg)
{
	struct uscope *s = begin_server(LIMIT, UNEVER);
	struct uscope *clients;
	int early[LIMIT], i;

	(void)arg;
	for (i = 0; i < LIMIT; i++)
		CHECK(ask(early[i] = dial()));
	CHECK(uscope_begin(&clients, UNEVER) == 0);
	for (i = 0; i < CLIENTS; i++)
		CHECK(uscope_go(clients, client, NULL) == 0);
	for (i = 0; i < LIMIT; i++) {
		CHECK(u_sleep(uafter(5 * UTIME_MS)) == 0);
		CHECK(i > 0 || get(&server.sv_accepted) == LIMIT);
		CHECK(u_close(early[i]) == 0);
	}
	CHECK(uscope_end(&clients) == 0);
	uscope_cancel(s);
	CHECK(end_server(s) == -ECANCELED);
	CHECK(most_open == LIMIT && answered == CLIENTS);
	CHECK(served == LIMIT + CLIENTS && server.sv_short == 0);
}

/* The end. */

static void ends_gracefully(void *arg)
{
	struct uscope *s = begin_server(0, UNEVER);
	struct uscope *shield;
	int fd[2] = { dial(), dial() }, late;

	(void)arg;
	CHECK(ask(fd[0]) && ask(fd[1]));
	uscope_cancel(s);
	CHECK(u_sleep(uafter(UTIME_MS)) == -ECANCELED);
	CHECK(uscope_shield(&shield, UNEVER) == 0);
	CHECK(u_sleep(uafter(2 * UTIME_MS)) == 0);
	late = dial();				/* comes to the backlog */
	CHECK(ask(fd[0]) && ask(fd[1]));
	CHECK(get(&returned) == 0 && get(&server.sv_accepted) == 2);
	CHECK(u_close(fd[0]) == 0 && u_close(fd[1]) == 0);
	CHECK(uscope_end(&shield) == 0);
	CHECK(end_server(s) == -ECANCELED);
	CHECK(served == 2 && cut == 0);
	CHECK(u_close(late) == 0);
}

static void ends_at_once(void *arg)
{
	struct uscope *s = begin_server(10, (utime_ns)(intptr_t)arg);
	int fd[2] = { dial(), dial() };

	CHECK(ask(fd[0]) && ask(fd[1]));
	uscope_cancel(s);
	CHECK(end_server(s) == -ECANCELED);
	CHECK(served == 2 && cut == 2);
	CHECK(u_close(fd[0]) == 0 && u_close(fd[1]) == 0);
}

static void is_closed(void *arg)
{
	struct uscope *s = begin_server(10, UNEVER);
	int fd = dial();

	(void)arg;
	CHECK(ask(fd));
	CHECK(u_close(server.sv_fd) == 0);
	CHECK(u_sleep(uafter(UTIME_MS)) == 0 && ask(fd));
	CHECK(u_close(fd) == 0);
	CHECK(uscope_end(&s) == 0);
	CHECK(returned == EBADF && served == 1 && cut == 0);
}

static void misuse(void *arg)
{
	struct userve bad = { .sv_f = answer, .sv_fd = -1 };
	struct userve *b = &bad;
	int s[2];

	(void)arg;
	server = bad;
	CHECK(userve(&server) == -EBADF);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
	server.sv_fd = s[0];
	CHECK(userve(&server) == -EINVAL);
	CHECK(u_close(s[0]) == 0 && u_close(s[1]) == 0);
	b->sv_f = NULL;
	CHECK(userve(b) == -EINVAL);
	*b = (struct userve){ .sv_f = answer, .sv_limit = -1 };
	CHECK(userve(b) == -EINVAL);
	*b = (struct userve){ .sv_f = answer, .sv_grace = -1 };
	CHECK(userve(b) == -EINVAL);
}

/* No descriptors. */

static rlim_t limit_fds(rlim_t nr)
{
	struct rlimit l;
	rlim_t was;

	CHECK(getrlimit(RLIMIT_NOFILE, &l) == 0);
	was = l.rlim_cur;
	l.rlim_cur = nr;
	CHECK(setrlimit(RLIMIT_NOFILE, &l) == 0);
	return was;
}

/* Takes all descriptors that are free. Returns how many. */
static int take_all(int *list, int most)
{
	int nr = 0;

	while (nr < most && (list[nr] = dup(0)) >= 0)
		nr++;
	CHECK(nr < most && errno == EMFILE);
	return nr;
}

static void short_of_fds(void *arg)
{
	struct uscope *s = begin_server(100, UNEVER);
	int fd[CLIENTS], other[FDS], i, nr;
	rlim_t was;

	(void)arg;
	for (i = 0; i < CLIENTS; i++)
		CHECK(ask(fd[i] = dial()));
	was = limit_fds(FDS);
	nr = take_all(other, FDS);
	/* A descriptor for the client, and none for the server. */
	CHECK(u_close(fd[0]) == 0);
	await(&served, 1);
	CHECK((other[nr++] = dup(0)) >= 0);
	fd[0] = dial();
	await(&server.sv_short, 2);
	CHECK(get(&server.sv_accepted) == CLIENTS);
	/* The end of a connection makes room. */
	CHECK(u_close(fd[1]) == 0 && ask(fd[0]));
	/* There is room again, but no connection has ended. */
	fd[1] = dial();
	await(&server.sv_short, get(&server.sv_short) + 3);
	CHECK(close(other[--nr]) == 0 && ask(fd[1]));
	while (nr > 0)
		CHECK(close(other[--nr]) == 0);
	(void)limit_fds(was);
	for (i = 0; i < CLIENTS; i++)
		CHECK(u_close(fd[i]) == 0);
	uscope_cancel(s);
	CHECK(end_server(s) == -ECANCELED);
	CHECK(served == CLIENTS + 2 && server.sv_short < 100);
}

/* No memory: the n-th allocation of all but the client's fails. */

static void *(*real_alloc)(struct usched *s, int size);
static struct ustack *tester;
static long allocs, fails_at, fails_nr, recovered;

static void *try_alloc(struct usched *s, int size)
{
	if (ustack_self() != tester && ++allocs >= fails_at &&
	    allocs < fails_at + fails_nr)
		return NULL;
	return real_alloc(s, size);
}

/* Asks until there is an answer, or the server has ended. */
static void ask_again(void)
{
	bool ok = false;
	int fd;

	while (!ok && get(&returned) == 0) {
		fd = u_dial_tcp(NULL, u_port(server.sv_fd), SOON);
		ok = fd >= 0 && ask(fd);
		(void)u_close(fd);
	}
}

/* Serves while nr allocations from the n-th on fail. False: there were less. */
static bool serves_without(long n, long nr)
{
	struct usched *d = ustack_self()->u_sched;
	struct uscope *s;

	tester   = ustack_self();
	fails_at = n;
	fails_nr = nr;
	allocs   = 0;
	real_alloc = d->s_alloc;
	d->s_alloc = try_alloc;
	s = begin_server(2, UNEVER);
	ask_again();
	d->s_alloc = real_alloc;
	uscope_cancel(s);
	CHECK(uscope_end(&s) == -ECANCELED);
	CHECK(returned == ECANCELED || returned == ENOMEM);
	recovered += returned == ECANCELED && server.sv_short > 0;
	(void)u_close(server.sv_fd);
	return allocs >= n;
}

static void short_of_memory(void *arg)
{
	long n = 1;

	(void)arg;
	recovered = 0;
	while (serves_without(n, 1))
		n++;
	CHECK(n > 5 && recovered > 0);
	for (n = 1; serves_without(n, 4); n++)
		;
}

/* Balance. */

#if !defined(WS)
#if defined(LL)
#define DEALS	make_in_turn
#else
#define DEALS	NULL
#endif

static long on[PROCESSORS];

static int here(void)
{
	return ((struct uproc *)ustack_self()->u_sched)->p_nr;
}

static void count_here(int fd, void *arg)
{
	(void)arg;
	CHECK(fd >= 0);
	add(&on[here()], 1);
}

/* Makes threads on the processor of the caller. */
static int make_here(struct usched *d, void (*f)(void *), void *arg)
{
#if !defined(LL) && !defined(WS) && !defined(PR)
	return rr_make_here(d, f, arg);
#endif
	return try_make(((struct uproc *)d)->p_nr, f, arg) != NULL ? 0 :
		-errno;
}

/* Deals threads to all processors: rr does so by itself. */
static int UNUSED make_in_turn(struct usched *d, void (*f)(void *), void *arg)
{
	static int turn;

	(void)d;
	return try_make(turn++, f, arg) != NULL ? 0 : -errno;
}

static struct userve each[PROCESSORS];

static void serve_each(void *arg)
{
	struct userve *s = arg;
	struct uscope *scope;

	CHECK(uscope_begin(&scope, UNEVER) == 0);
	CHECK(uscope_go_by(scope, s->sv_make, serve, s) == 0);
	await(&answered, CONNECTIONS);
	uscope_cancel(scope);
	CHECK(uscope_end(&scope) == -ECANCELED);
	CHECK(u_close(s->sv_fd) == 0);
}

static void connects(void *arg)
{
	int port = u_port(each[0].sv_fd);
	char c;

	for (long i = 0; i < CONNECTIONS / CLIENTS; i++) {
		int fd = u_dial_tcp("127.0.0.1", port, SOON);

		CHECK(fd >= 0 && u_read(fd, &c, 1, SOON) <= 0);
		CHECK(u_close(fd) == 0);
		add(&answered, 1);
	}
	(void)arg;
}

/* nr listeners; each thread is dealt, or stays where its listener is. */
static void balance(int nr, uscope_make *by)
{
	int i, port = 0;

	doing(nr > 1 ? "reuseport" : "dealt");
	answered = now_open = on[0] = on[1] = 0;
	begin(PROCESSORS, 0);
	for (i = 0; i < nr; i++) {
		each[i] = (struct userve){ .sv_f = count_here, .sv_make = by };
		each[i].sv_fd = u_listen_tcp("127.0.0.1", port, 0,
					     UNET_REUSEPORT);
		CHECK(each[i].sv_fd >= 0);
		port = u_port(each[i].sv_fd);
		make(i, serve_each, &each[i]);
	}
	for (i = 0; i < CLIENTS; i++)
		make(i, connects, NULL);
	start_and_finish();
	CHECK(on[0] + on[1] == CONNECTIONS);
	for (i = 0; i < PROCESSORS; i++)
		CHECK(on[i] * PROCESSORS * 2 <= 3 * CONNECTIONS);
}
#endif

static void alone(int p, const char *what, void (*f)(void *), intptr_t arg)
{
	int fds = count_fds();

	doing(what);
	begin(p, 0);
	make(0, f, (void *)arg);
	start_and_finish();
	CHECK(count_fds() == fds);
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	for (p = 1; p <= PROCESSORS; p++) {
		alone(p, "limits", limits, 0);
		alone(p, "gracefully", ends_gracefully, 0);
		alone(p, "at once", ends_at_once, 0);
		alone(p, "at a time", ends_at_once, 3 * UTIME_MS);
		alone(p, "closed", is_closed, 0);
		alone(p, "misuse", misuse, 0);
	}
	alone(1, "memory", short_of_memory, 0);
	alone(1, "descriptors", short_of_fds, 0);
#if !defined(WS)
	balance(1, DEALS);
	balance(PROCESSORS, make_here);
#endif
	return 0;
}
