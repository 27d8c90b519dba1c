/* SPDX-License-Identifier: MIT */
/* VARIANTS: RR LL WS PR */
/* serve: a server has at most as many connections as its limit, and serves
 * all that come, also after descriptors or memory were short. */

/*
 * After its scope was cancelled it accepts what the kernel had taken, also if
 * its places are full, and refuses all that come later. It lets connections end
 * in the time of grace, cancels the others, and returns when all have ended. It
 * ends with an error if its listener is shut, or never was a listener. No
 * descriptor is left. One acceptor deals connections to all processors, and so
 * does the system to several listeners at a port. Servers that share places
 * have as many connections together, at whichever listener.
 */
#include "either.h"
#include "uio.h"
#include "unet.h"
#include "userve.h"

#include <dirent.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

#define LIMIT	3
#define CLIENTS	10
#define FDS	200
#define PROCESSORS 2
#define CONNECTIONS 1000
#define SOON	uafter(20 * UTIME_S)

static struct userve server;
static long now_open, most_open, served, cut, answered, returned;
static long limit;			/* of connections at a time */
static int port;
static char path[32];		/* its own: others run beside it */

/* Answers each byte until the end of the stream. */
static void answer(int fd, void *arg)
{
	long open = add(&now_open, 1);
	ssize_t n;
	char c;

	CHECK(arg == &server && open <= limit);
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
	struct userve *s = arg;
	int rc = userve(s);

	CHECK((s->sv_share != NULL || get(&now_open) == 0) && rc < 0);
	CHECK(rc == -ENOMEM || s->sv_fd == -1);
	CHECK(s->sv_fd != -1 || u_close(s->sv_fd) == -EBADF);
	(void)shutdown(s->sv_fd, SHUT_RDWR);	/* if it has not begun */
	set(&returned, -rc);
	return 0;
}

/* Begins a scope with a server in it. */
static struct uscope *begin_at(int fd, int most, utime_ns grace)
{
	struct uscope *s;

	server = (struct userve){ .sv_f = answer, .sv_arg = &server,
				  .sv_limit = most, .sv_grace = grace };
	now_open = most_open = served = cut = answered = returned = 0;
	limit = most > 0 ? most : USERVE_LIMIT;
	server.sv_fd = fd;
	port = u_port(fd);
	CHECK_THAT(fd, >=, 0);
	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	CHECK_IS(uscope_go(s, serve, &server), 0);
	return s;
}

static struct uscope *begin_server(int most, utime_ns grace)
{
	return begin_at(u_listen_tcp("127.0.0.1", 0, 0, 0), most, grace);
}

/* Ends it. Returns why the server has ended. */
static int end_server(struct uscope *s)
{
	CHECK(uscope_end(&s) == -ECANCELED && s == NULL);
	CHECK(get(&server.sv_accepted) == served && server.sv_cut == cut);
	return -(int)get(&returned);
}

static int dial(void)
{
	int fd = port > 0 ? u_dial_tcp(NULL, port, SOON) :
		u_dial_unix(path, SOON);

	CHECK_THAT(fd, >=, 0);
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
		CHECK_IS(u_sleep(uafter(UTIME_MS / 4)), 0);
}

static void await_close(struct userve *s)
{
	while (__atomic_load_n(&s->sv_fd, __ATOMIC_RELAXED) != -1)
		CHECK_IS(u_sleep(uafter(UTIME_MS / 4)), 0);
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

	for (i = 0; i < 3; i++)
		CHECK(ask(fd));
	CHECK_IS(u_close(fd), 0);
	add(&answered, 1);
	return 0;
}

static void limits(void *arg)
{
	struct uscope *s = begin_server(LIMIT, UNEVER);
	struct uscope *clients;
	int early[LIMIT], i;

	for (i = 0; i < LIMIT; i++)
		CHECK(ask(early[i] = dial()));
	CHECK_IS(uscope_begin(&clients, UNEVER), 0);
	for (i = 0; i < CLIENTS; i++)
		CHECK_IS(uscope_go(clients, client, NULL), 0);
	for (i = 0; i < LIMIT; i++) {
		CHECK_IS(u_sleep(uafter(5 * UTIME_MS)), 0);
		CHECK(i > 0 || get(&server.sv_accepted) == LIMIT);
		CHECK_IS(u_close(early[i]), 0);
	}
	CHECK_IS(uscope_end(&clients), 0);
	uscope_cancel(s);
	CHECK_IS(end_server(s), -ECANCELED);
	CHECK(most_open == LIMIT && answered == CLIENTS);
	CHECK(served == LIMIT + CLIENTS && server.sv_short == 0);
}

/* The end. */

static void ends_gracefully(void *arg)
{
	struct uscope *s = begin_server(0, UNEVER);
	struct uscope *shield;
	int fd[2] = { dial(), dial() };

	CHECK(ask(fd[0]) && ask(fd[1]));
	uscope_cancel(s);
	CHECK_IS(u_sleep(uafter(UTIME_MS)), -ECANCELED);
	CHECK_IS(uscope_shield(&shield, UNEVER), 0);
	await_close(&server);
	CHECK_IS(u_dial_tcp(NULL, port, SOON), -ECONNREFUSED);
	CHECK(ask(fd[0]) && ask(fd[1]));
	CHECK(get(&returned) == 0 && get(&server.sv_accepted) == 2);
	CHECK(u_close(fd[0]) == 0 && u_close(fd[1]) == 0);
	CHECK_IS(uscope_end(&shield), 0);
	CHECK_IS(end_server(s), -ECANCELED);
	CHECK(served == 2 && cut == 0);
}

/* Dials nr times, and asks without a wait for the answer. */
static void dial_and_send(int *fd, int nr)
{
	char c = 'x';

	for (int i = 0; i < nr; i++) {
		fd[i] = dial();
		CHECK_IS(u_write_all(fd[i], &c, 1, SOON), 1);
	}
}

/* Reads an answer, and closes. */
static int read_and_close(void *arg)
{
	int *fd = arg;
	char d = 0;

	CHECK(u_read_all(*fd, &d, 1, SOON) == 1 && d == 'x');
	CHECK_IS(u_close(*fd), 0);
	return 0;
}

/* Each client reads by itself, as places are given in any order. */
static void read_all(int *fd, int nr)
{
	static int list[CLIENTS];
	struct uscope *s;

	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	for (int i = 0; i < nr; i++) {
		list[i] = fd[i];
		CHECK_IS(uscope_go(s, read_and_close, &list[i]), 0);
	}
	CHECK_IS(uscope_end(&s), 0);
}

/* A stop while clients wait in the backlog. fd: listens. early: are served. */
static void drains(int fd, int most, int early)
{
	struct uscope *s = begin_at(fd, most, UNEVER), *shield;
	int first[LIMIT], late[CLIENTS], i;

	for (i = 0; i < early; i++)
		CHECK(ask(first[i] = dial()));
	dial_and_send(late, CLIENTS);
	uscope_cancel(s);
	CHECK_IS(uscope_shield(&shield, UNEVER), 0);
	await_close(&server);
	CHECK_IS(get(&server.sv_accepted), early + CLIENTS);
	CHECK_IS(port > 0 ? u_dial_tcp(NULL, port, SOON) :
		 u_dial_unix(path, SOON), -ECONNREFUSED);
	CHECK(most == 0 || get(&served) == 0);
	for (i = 0; i < early; i++)
		CHECK(ask(first[i]) && u_close(first[i]) == 0);
	read_all(late, CLIENTS);
	CHECK_IS(uscope_end(&shield), 0);
	CHECK_IS(end_server(s), -ECANCELED);
	CHECK(served == early + CLIENTS && cut == 0 && most_open <= limit);
}

static void ends_full(void *arg)
{
	int early = (int)(intptr_t)arg, most = early > 0 ? LIMIT : 0;

	drains(u_listen_tcp("127.0.0.1", 0, 0, 0), most, early);
	drains(u_listen_unix(path, 0), most, early);
}

#if !defined(__linux__)
static void unlistens(void *arg)
{
	int fd = u_listen_tcp("127.0.0.1", 0, 0, 0);

	(void)arg;
	CHECK(fd >= 0 && u_unlisten(fd) == -ENOSYS && u_close(fd) == 0);
}
#else
/* Those of <linux/capability.h>, which not every compiler finds. */
#define VERSION		0x20080522
#define CAP_NET_ADMIN	12
#define CAP_NET_RAW	13
struct cap_head { uint32_t version; int pid; };
struct cap_sets { uint32_t effective, permitted, inheritable; };

/*
 * Calls u_unlisten(), if as_user without these capabilities. The native thread
 * has its capabilities for itself.
 */
static int unlisten(int fd, bool as_user)
{
	struct cap_head head = { VERSION, 0 };
	struct cap_sets had[2], less[2];
	int rc;

	CHECK_IS(syscall(SYS_capget, &head, had), 0);
	memcpy(less, had, sizeof less);
	if (as_user)
		less[0].effective &=
			~(1u << CAP_NET_ADMIN | 1u << CAP_NET_RAW);
	CHECK_IS(syscall(SYS_capset, &head, less), 0);
	rc = u_unlisten(fd);
	CHECK_IS(syscall(SYS_capset, &head, had), 0);
	return rc;
}

/*
 * The kernel takes no more clients, and then the server accepts and closes. The
 * clients that it has taken are served. Later calls change nothing, nor does a
 * call for the socket of a client, which goes on.
 */
static void unlistens(void *as_user)
{
	struct uscope *s = begin_server(LIMIT, UNEVER), *shield;
	int first[LIMIT], late[CLIENTS], i, rc;

	for (i = 0; i < LIMIT; i++)
		CHECK(ask(first[i] = dial()));
	dial_and_send(late, CLIENTS);
	CHECK_IS(unlisten(first[0], as_user != NULL), -EINVAL);
	for (i = 0; i < 3; i++)
		CHECK_IS(unlisten(server.sv_fd, as_user != NULL), 0);
	rc = u_dial_tcp(NULL, port, uafter(50 * UTIME_MS));
	CHECK(rc == -ETIMEDOUT || rc == -ECONNREFUSED);
	CHECK_IS(get(&server.sv_accepted), LIMIT);
	uscope_cancel(s);
	CHECK_IS(uscope_shield(&shield, UNEVER), 0);
	for (i = 0; i < LIMIT; i++)
		CHECK(ask(first[i]) && u_close(first[i]) == 0);
	read_all(late, CLIENTS);
	CHECK_IS(u_dial_tcp(NULL, port, SOON), -ECONNREFUSED);
	CHECK_IS(uscope_end(&shield), 0);
	CHECK(end_server(s) == -ECANCELED && served == LIMIT + CLIENTS);
}
#endif

/* A unix listener that takes no more ends its server. */
static void unlistens_unix(void *arg)
{
	struct uscope *s = begin_at(u_listen_unix(path, 0), LIMIT, UNEVER);
	int first[LIMIT], late[CLIENTS], i;

	for (i = 0; i < LIMIT; i++)
		CHECK(ask(first[i] = dial()));
	dial_and_send(late, CLIENTS);
	CHECK_IS(u_unlisten(first[0]), -EINVAL);
	CHECK(u_unlisten(server.sv_fd) == 0 && u_unlisten(server.sv_fd) == 0);
	CHECK_IS(u_dial_unix(path, SOON), -ECONNREFUSED);
	for (i = 0; i < LIMIT; i++)
		CHECK(ask(first[i]) && u_close(first[i]) == 0);
	read_all(late, CLIENTS);
	CHECK(uscope_end(&s) == 0 && returned == EINVAL);
	CHECK(served == LIMIT + CLIENTS && server.sv_cut == 0);
}

/* The grace ends for those that wait for a place, too. */
static void ends_full_at_once(void *arg)
{
	struct uscope *s = begin_server(LIMIT, (utime_ns)(intptr_t)arg);
	int first[LIMIT], late[CLIENTS], i;

	for (i = 0; i < LIMIT; i++)
		CHECK(ask(first[i] = dial()));
	dial_and_send(late, CLIENTS);
	uscope_cancel(s);
	CHECK(uscope_end(&s) == -ECANCELED && returned == ECANCELED);
	CHECK(cut >= LIMIT && server.sv_cut == LIMIT + CLIENTS);
	CHECK_IS(server.sv_accepted, LIMIT + CLIENTS);
	for (i = 0; i < LIMIT; i++)
		CHECK_IS(u_close(first[i]), 0);
	for (i = 0; i < CLIENTS; i++)
		CHECK_IS(u_close(late[i]), 0);
}

static void ends_at_once(void *arg)
{
	struct uscope *s = begin_server(10, (utime_ns)(intptr_t)arg);
	int fd[2] = { dial(), dial() };

	CHECK(ask(fd[0]) && ask(fd[1]));
	uscope_cancel(s);
	CHECK_IS(end_server(s), -ECANCELED);
	CHECK(served == 2 && cut == 2);
	CHECK(u_close(fd[0]) == 0 && u_close(fd[1]) == 0);
}

static void is_shut(void *arg)
{
	struct uscope *s = begin_server(10, UNEVER);
	int fd = dial();

	CHECK(ask(fd));
	CHECK_IS(shutdown(server.sv_fd, SHUT_RDWR), 0);
	CHECK(u_sleep(uafter(UTIME_MS)) == 0 && ask(fd));
	CHECK_IS(u_close(fd), 0);
	CHECK_IS(uscope_end(&s), 0);
	CHECK(returned == EINVAL && served == 1 && cut == 0);
}

static char heard[256];

static void hear(const char *line)
{
	snprintf(heard, sizeof heard, "%s", line);
}

static struct usem places;

static void misuse(void *arg)
{
	struct userve bad = { .sv_f = answer, .sv_fd = -1 };
	struct userve *b = &bad;
	int s[2];

	server = bad;
	usched_on_message(hear);
	CHECK(userve(&server) == -EBADF && server.sv_fd == -1);
	CHECK(strstr(heard, "userve: no listener: ") != NULL);
	server.sv_fd = -EADDRINUSE;
	CHECK(userve(&server) == -EADDRINUSE && server.sv_fd == -EADDRINUSE);
	CHECK(strstr(heard, strerror(EADDRINUSE)) != NULL);
	usched_on_message(NULL);
	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	server.sv_fd = s[0];
	CHECK(userve(&server) == -EINVAL && server.sv_fd == -1);
	CHECK(u_close(s[0]) == -EBADF && u_close(s[1]) == 0);
	CHECK_IS(u_unlisten(-1), -EBADF);
	CHECK_THAT((s[0] = u_bind_udp("127.0.0.1", 0, 0)), >=, 0);
	CHECK(u_unlisten(s[0]) == -EINVAL && u_close(s[0]) == 0);
	b->sv_f = NULL;
	CHECK_IS(userve(b), -EINVAL);
	*b = (struct userve){ .sv_f = answer, .sv_limit = -1 };
	CHECK_IS(userve(b), -EINVAL);
	*b = (struct userve){ .sv_f = answer, .sv_grace = -1 };
	CHECK_IS(userve(b), -EINVAL);
	*b = (struct userve){ .sv_f = answer, .sv_limit = 1,
			      .sv_share = &places };
	CHECK(userve(b) == -EINVAL && b->sv_fd == 0);
}

/* No descriptors. */

static rlim_t limit_fds(rlim_t nr)
{
	struct rlimit l;
	rlim_t was;

	CHECK_IS(getrlimit(RLIMIT_NOFILE, &l), 0);
	was = l.rlim_cur;
	l.rlim_cur = nr;
	CHECK_IS(setrlimit(RLIMIT_NOFILE, &l), 0);
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

	for (i = 0; i < CLIENTS; i++)
		CHECK(ask(fd[i] = dial()));
	was = limit_fds(FDS);
	nr = take_all(other, FDS);
	/* A descriptor for the client, and none for the server. */
	CHECK_IS(u_close(fd[0]), 0);
	await(&served, 1);
	CHECK_THAT((other[nr++] = dup(0)), >=, 0);
	fd[0] = dial();
	await(&server.sv_short, 2);
	CHECK_IS(get(&server.sv_accepted), CLIENTS);
	/* The end of a connection makes room. */
	CHECK(u_close(fd[1]) == 0 && ask(fd[0]));
	/* There is room again, but no connection has ended. */
	fd[1] = dial();
	await(&server.sv_short, get(&server.sv_short) + 3);
	CHECK(close(other[--nr]) == 0 && ask(fd[1]));
	while (nr > 0)
		CHECK_IS(close(other[--nr]), 0);
	(void)limit_fds(was);
	for (i = 0; i < CLIENTS; i++)
		CHECK_IS(u_close(fd[i]), 0);
	uscope_cancel(s);
	CHECK_IS(end_server(s), -ECANCELED);
	CHECK(served == CLIENTS + 2 && server.sv_short < 100);
}

/* A stop without descriptors: as connections end, the backlog is accepted. */
static void ends_short_of_fds(void *arg)
{
	struct uscope *s = begin_server(100, UNEVER), *shield;
	int first = dial(), late, other[FDS], nr;
	rlim_t was;

	CHECK(ask(first));
	was = limit_fds(FDS);
	nr = take_all(other, FDS);
	CHECK_IS(close(other[--nr]), 0);
	dial_and_send(&late, 1);
	uscope_cancel(s);
	CHECK_IS(uscope_shield(&shield, UNEVER), 0);
	await(&server.sv_short, 2);
	CHECK_IS(get(&server.sv_accepted), 1);
	CHECK_IS(shutdown(first, SHUT_WR), 0);
	read_all(&late, 1);			/* by the number of the first */
	CHECK_IS(u_close(first), 0);
	while (nr > 0)
		CHECK_IS(close(other[--nr]), 0);
	(void)limit_fds(was);
	CHECK_IS(uscope_end(&shield), 0);
	CHECK(end_server(s) == -ECANCELED && served == 2);
}

/* No descriptor can come back: the server ends, and its backlog is reset. */
static void ends_without_fds(void *arg)
{
	struct uscope *s = begin_server(100, UNEVER);
	int late = dial(), other[FDS], nr;
	rlim_t was;
	char c;

	CHECK(ask(late) && u_close(late) == 0);
	await(&served, 1);
	was = limit_fds(FDS);
	nr = take_all(other, FDS);
	CHECK_IS(close(other[--nr]), 0);
	dial_and_send(&late, 1);
	await(&server.sv_short, 2);
	uscope_cancel(s);
	CHECK_IS(end_server(s), -ECANCELED);
	CHECK(served == 1 && u_read(late, &c, 1, SOON) == -ECONNRESET);
	while (nr > 0)
		CHECK_IS(close(other[--nr]), 0);
	(void)limit_fds(was);
	CHECK_IS(u_close(late), 0);
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
		fd = u_dial_tcp(NULL, port, SOON);
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
	CHECK_IS(uscope_end(&s), -ECANCELED);
	CHECK(returned == ECANCELED || returned == ENOMEM);
	recovered += returned == ECANCELED && server.sv_short > 0;
	(void)u_close(server.sv_fd);		/* unless it has not begun */
	return allocs >= n;
}

static void short_of_memory(void *arg)
{
	long n = 1;

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
	CHECK_THAT(fd, >=, 0);
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

	return try_make(turn++, f, arg) != NULL ? 0 : -errno;
}

static struct userve each[PROCESSORS];

static void serve_each(void *arg)
{
	struct userve *s = arg;
	struct uscope *scope;

	CHECK_IS(uscope_begin(&scope, UNEVER), 0);
	CHECK_IS(uscope_go_by(scope, serve, s, s->sv_make), 0);
	await(&answered, CONNECTIONS);
	uscope_cancel(scope);
	CHECK_IS(uscope_end(&scope), -ECANCELED);
}

static void connects(void *arg)
{
	char c;

	for (long i = 0; i < CONNECTIONS / CLIENTS; i++) {
		int fd = u_dial_tcp("127.0.0.1", port, SOON);

		CHECK(fd >= 0 && u_read(fd, &c, 1, SOON) <= 0);
		CHECK_IS(u_close(fd), 0);
		add(&answered, 1);
	}
}

/* nr listeners; each thread is dealt, or stays where its listener is. */
static void balance(int nr, uscope_make *by)
{
	int i;

	port = 0;
	doing("%s", nr > 1 ? "reuseport" : "dealt");
	answered = now_open = on[0] = on[1] = 0;
	begin(PROCESSORS, 0);
	for (i = 0; i < nr; i++) {
		each[i] = (struct userve){ .sv_f = count_here, .sv_make = by };
		each[i].sv_fd = u_listen_tcp("127.0.0.1", port, 0,
					     UNET_REUSEPORT);
		CHECK_THAT(each[i].sv_fd, >=, 0);
		port = u_port(each[i].sv_fd);
		make(i, serve_each, &each[i]);
	}
	for (i = 0; i < CLIENTS; i++)
		make(i, connects, NULL);
	start_and_finish();
	CHECK_IS(on[0] + on[1], CONNECTIONS);
	for (i = 0; i < PROCESSORS; i++)
		CHECK_THAT(on[i] * PROCESSORS * 2, <=, 3 * CONNECTIONS);
}
#endif

/* Two servers share places. */

static struct userve pair[2];
static int ports[2], last_processor;

/* Makes threads on the last processor. */
static int make_last(struct usched *d, void (*f)(void *), void *arg)
{
	return (void)d, try_make(last_processor, f, arg) != NULL ? 0 : -errno;
}

static void answer_shared(int fd, void *arg)
{
	answer(fd, &server);
}

static struct uscope *begin_pair(int most)
{
	struct uscope *s;
	int i;

	places = (struct usem)USEM(most);
	now_open = most_open = served = cut = returned = 0;
	limit = most;
	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	for (i = 0; i < 2; i++) {
		pair[i] = (struct userve){ .sv_f = answer_shared,
			.sv_share = &places, .sv_grace = UNEVER,
			.sv_fd = u_listen_tcp("127.0.0.1", 0, 0, 0) };
		ports[i] = u_port(pair[i].sv_fd);
		CHECK_IS(uscope_go_by(s, serve, &pair[i], i == 0 ? NULL :
			 make_last), 0);
	}
	return s;
}

static int dial_at(int i)
{
	port = ports[i];
	return dial();
}

/* Ends both. All places are free again. */
static void end_pair(struct uscope *s, int most)
{
	int i;

	uscope_cancel(s);
	CHECK_IS(uscope_end(&s), -ECANCELED);
	CHECK_IS(pair[0].sv_accepted + pair[1].sv_accepted, served);
	CHECK(most_open <= most && pair[0].sv_cut + pair[1].sv_cut == cut);
	for (i = 0; i < most; i++)
		CHECK_IS(usem_wait(&places, UNOW), 0);
	CHECK_IS(usem_wait(&places, UNOW), -EAGAIN);
}

/* Each place is for either; a server that waits is woken by the other's end. */
static void shares(void *arg)
{
	int most = (int)(intptr_t)arg, fd[LIMIT + 1], at, i, round;
	struct uscope *s = begin_pair(most);

	for (round = 0; round < 20; round++) {
		at = round % 2;
		for (i = 0; i < most; i++)
			CHECK(ask(fd[i] = dial_at(at)));
		fd[most] = dial_at(!at);
		CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
		CHECK(get(&pair[0].sv_accepted) + get(&pair[1].sv_accepted) ==
		      round * (most + 1) + most && get(&now_open) == most);
		for (i = 0; i <= most; i++) {
			CHECK(i < most || ask(fd[most]));
			CHECK_IS(u_close(fd[i]), 0);
		}
	}
	end_pair(s, most);
}

/* A server that waits for a place stops; the other has all places, and goes on. */
static void shares_at_a_stop(void *arg)
{
	struct uscope *s = begin_pair(LIMIT), *shield;
	int fd[LIMIT], late[CLIENTS], i;

	for (i = 0; i < LIMIT; i++)
		CHECK(ask(fd[i] = dial_at(0)));
	port = ports[1];
	dial_and_send(late, CLIENTS);
	CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	uscope_cancel(s);
	CHECK_IS(uscope_shield(&shield, UNEVER), 0);
	await_close(&pair[0]);
	await_close(&pair[1]);
	CHECK(get(&pair[1].sv_accepted) == CLIENTS && get(&served) == 0);
	for (i = 0; i < LIMIT; i++)
		CHECK(ask(fd[i]) && u_close(fd[i]) == 0);
	read_all(late, CLIENTS);
	CHECK_IS(uscope_end(&shield), 0);
	end_pair(s, LIMIT);
	CHECK(served == LIMIT + CLIENTS && cut == 0);
}

static void alone(int p, const char *what, void (*f)(void *), intptr_t arg)
{
	int fds = count_fds();

	last_processor = p - 1;
	doing("%s", what);
	one_thread(p, f, (void *)arg);
	CHECK_IS(count_fds(), fds);
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	snprintf(path, sizeof path, "@usched-serve-%d", (int)getpid());
	for (p = 1; p <= PROCESSORS; p++) {
		alone(p, "limits", limits, 0);
		alone(p, "gracefully", ends_gracefully, 0);
		alone(p, "at once", ends_at_once, 0);
		alone(p, "at a time", ends_at_once, 3 * UTIME_MS);
		alone(p, "shut", is_shut, 0);
		alone(p, "full", ends_full, LIMIT);
		alone(p, "not full", ends_full, 0);
		alone(p, "full, at once", ends_full_at_once, 0);
		alone(p, "full, at a time", ends_full_at_once, 3 * UTIME_MS);
		alone(p, "takes no more", unlistens, 0);
		alone(p, "takes no more, of a user", unlistens, 1);
		alone(p, "takes no more, unix", unlistens_unix, 0);
		alone(p, "shared place", shares, 1);
		alone(p, "shared places", shares, LIMIT);
		alone(p, "shared places, stop", shares_at_a_stop, 0);
		alone(p, "misuse", misuse, 0);
	}
	alone(1, "memory", short_of_memory, 0);
	alone(1, "descriptors", short_of_fds, 0);
	alone(1, "descriptors, stop", ends_short_of_fds, 0);
	alone(1, "no descriptors, stop", ends_without_fds, 0);
#if !defined(WS)
	balance(1, DEALS);
	balance(PROCESSORS, make_here);
#endif
	return 0;
}
