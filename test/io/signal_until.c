/* SPDX-License-Identifier: MIT */
/* signal_until: a signal ends what a thread runs, and a second the process. */
/* VARIANTS: RR LL WS PR */

/*
 * A process that serves has three clients as SIGTERM comes: it computes an
 * answer for the first, the second has asked, and waits in the backlog for a place,
 * and the third asks nothing. Two have their answers, the third is cancelled
 * after the time of grace, newcomers are refused, and the status is 0. A second
 * SIGTERM ends a process that does not come to its end. The effect that the
 * signal had before comes back: for the process, and in the child of fork(). A signal ends two
 * servers, on two processors. Results of the function, and cancellations of
 * others, stay what they are.
 */
#include "either.h"
#include "uio.h"
#include "unet.h"
#include "uscope.h"
#include "userve.h"
#include "usignal.h"

#include <signal.h>
#include <sys/wait.h>

#define SOON	uafter(20 * UTIME_S)
#define LONG	(3600 * UTIME_S)

static int port, told[2];	/* told: a pipe from a process that serves */
static volatile sig_atomic_t handled;

/* Says to the other process that something has happened. */
static void tell(void)
{
	CHECK_IS(write(told[1], "x", 1), 1);
}

static void await_told(void)
{
	char c;

	CHECK_IS(u_read_all(told[0], &c, 1, SOON), 1);
}

/* Answers a byte, after a while. */
static void answer(int fd, void *arg)
{
	ssize_t n;
	char c;

	while ((n = u_read(fd, &c, 1, UNEVER)) == 1) {
		if (c == 's')
			tell();		/* it is in work as the signal comes */
		CHECK_IS(u_sleep(uafter(100 * UTIME_MS)), 0);
		CHECK_IS(u_write_all(fd, &c, 1, SOON), 1);
	}
	CHECK(n == 0 || n == -ECANCELED);
	(void)arg;
}

static struct userve server = {
	.sv_f = answer, .sv_limit = 2, .sv_grace = UTIME_S
};

/* The process that serves. */
static void serves(void *arg)
{
	CHECK_IS(usignal_until(SIGTERM, userve, &server), 0);
	CHECK(server.sv_cut == 1 && server.sv_accepted == 3);
	(void)arg;
}

static int ends_never(void *arg)
{
	tell();
	while (u_sleep(uafter(UTIME_MS)) == 0)
		;
	tell();					/* it was cancelled */
	while (arg == NULL)
		sched_yield();
	return 0;
}

static void never(void *arg)
{
	usignal_until(SIGTERM, ends_never, arg);
}

/* Runs f in a process with a scheduler of its own. */
static pid_t process(void (*f)(void *))
{
	pid_t pid;

	CHECK(pipe(told) == 0 && fflush(stdout) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		begin(2, 0);
		make(0, f, NULL);
		start_and_finish();
		exit(0);
	}
	return pid;
}

static int ended(pid_t pid)
{
	int status;

	CHECK_IS(waitpid(pid, &status, 0), pid);
	CHECK(close(told[0]) == 0 && close(told[1]) == 0);
	return status;
}

/* Returns a connection that has sent c. */
static int ask(char c)
{
	int fd = u_dial_tcp(NULL, port, SOON);

	CHECK_THAT(fd, >=, 0);
	CHECK_IS(u_write_all(fd, &c, c != 0, SOON), c != 0);
	return fd;
}

static void hears(int fd, char c)
{
	char d = 0;

	CHECK_IS(u_read_all(fd, &d, 1, SOON), c != 0);
	CHECK_IS(d, c);
	CHECK_IS(u_close(fd), 0);
}

static void ends_a_server(void)
{
	int fd[3];
	pid_t pid;

	server.sv_fd = u_listen_tcp("127.0.0.1", 0, 0, 0);
	port = u_port(server.sv_fd);
	pid = process(serves);
	fd[0] = ask(0);				/* has a place: accepted first */
	fd[1] = ask('s');
	await_told();
	fd[2] = ask('w');
	CHECK(close(server.sv_fd) == 0 && kill(pid, SIGTERM) == 0);
	hears(fd[1], 's');
	hears(fd[2], 'w');
	CHECK_IS(u_dial_tcp(NULL, port, SOON), -ECONNREFUSED);
	hears(fd[0], 0);
	CHECK_IS(ended(pid), 0);
}

static void ends_a_process(void)
{
	pid_t pid = process(never);
	int status;

	await_told();
	CHECK_IS(kill(pid, SIGTERM), 0);
	await_told();
	CHECK_IS(kill(pid, SIGTERM), 0);
	status = ended(pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

/* In threads. */

static void on_signal(int signo)
{
	handled += signo == SIGUSR1;
}

static int sleeps(void *arg)
{
	int rc;

	add((long *)arg, 1);
	rc = u_sleep(uafter(LONG));
	CHECK_IS(rc, -ECANCELED);
	add((long *)arg, 1);
	return rc;
}

static int waits(void *arg)
{
	return usignal_until(SIGUSR1, sleeps, arg);
}

static int has_handler(void)
{
	struct sigaction now;

	CHECK_IS(sigaction(SIGUSR1, NULL, &now), 0);
	return now.sa_handler == on_signal;
}

static int forks(void *arg)
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0)
		_exit(has_handler() && raise(SIGUSR1) == 0 && handled == 1 ?
		      0 : 1);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(!has_handler());
	return arg == NULL ? 7 : -ECANCELED;
}

/* One signal for all, again and again. */
static void together(int nr)
{
	static long at;
	struct uscope *s;
	int i;

	at = 0;
	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	for (i = 0; i < nr; i++)
		CHECK_IS(uscope_go(s, waits, &at), 0);
	while (get(&at) < nr)
		CHECK_IS(u_sleep(uafter(UTIME_MS / 4)), 0);
	CHECK_IS(kill(getpid(), SIGUSR1), 0);
	CHECK_IS(uscope_end(&s), 0);
	CHECK(at == 2 * nr && has_handler());
}

/* The scope around is cancelled: no signal has come. */
static void cancelled(void)
{
	static long at;
	struct uscope *s;

	CHECK_IS(uscope_begin(&s, uafter(UTIME_MS)), 0);
	CHECK_IS(usignal_until(SIGUSR1, sleeps, &at), -ECANCELED);
	CHECK_IS(usignal_until(SIGUSR1, sleeps, &at), -ECANCELED);
	CHECK_IS(uscope_end(&s), -ETIMEDOUT);
	CHECK(has_handler());
}

static void in_threads(void *arg)
{
	int i;

	for (i = 1; i <= 20; i++)
		together(i);
	cancelled();
	CHECK_IS(usignal_until(SIGUSR1, forks, NULL), 7);
	CHECK_IS(usignal_until(SIGUSR1, forks, &i), -ECANCELED);
	CHECK_IS(usignal_until(SIGKILL, forks, NULL), -EINVAL);
	CHECK_IS(usignal_until(0, forks, NULL), -EINVAL);
	CHECK_IS(usignal_until(NSIG, forks, NULL), -EINVAL);
	CHECK(has_handler() && handled == 0 && raise(SIGUSR1) == 0);
	CHECK_IS(handled, 1);
	(void)arg;
}

int main(int argc, char **argv)
{
	struct sigaction mine = { .sa_handler = on_signal };

	check_start(argc, argv);
	check_forks();
	ends_a_server();
	ends_a_process();
	CHECK_IS(sigaction(SIGUSR1, &mine, NULL), 0);
	CHECK_IS(usignal_until(SIGUSR1, forks, NULL), -ENOSYS);
	begin(2, 0);
	make(0, in_threads, NULL);
	start_and_finish();
	return 0;
}
