/* SPDX-License-Identifier: MIT */
/* exec: a program that a thread starts gets nothing that is the library's. */
/* VARIANTS: RR LL WS */

/*
 * While threads listen, serve, dial, pass a descriptor, wait for signals, files,
 * names and children, others start this program again: by posix_spawn(), fork()
 * and exec(), system() and popen() in threads, and by posix_spawn() in a ucall().
 * The new program has no descriptor that this program has got since its beginning,
 * no signal has a handler, and none is blocked: in a ucall(), where all are,
 * by an attribute. So SIGTERM ends it.
 */
#include "either.h"
#include "uchild.h"
#include "ucall.h"
#include "ufile.h"
#include "uio.h"
#include "unet.h"
#include "uscope.h"
#include "userve.h"
#include "usignal.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>

#define FDS	256
#define SIGNALS	32			/* those of POSIX have smaller numbers */
#define ALL	(FDS + SIGNALS)
#define SOON	uafter(20 * UTIME_S)
#define FOR_EVER (3600 * UTIME_S)

extern char **environ;

/* What was open, and what was ignored, at the beginning: '1'. */
static char before[ALL + 1];
static char self[] = "/proc/self/exe", *name;
static struct userve server;

static void look(char *now)
{
	struct sigaction a;
	int i;

	for (i = 0; i < FDS; i++)
		now[i] = fcntl(i, F_GETFD) >= 0 ? '1' : '0';
	for (i = 0; i < SIGNALS; i++)
		now[FDS + i] = i > 0 && sigaction(i, NULL, &a) == 0 &&
			a.sa_handler != SIG_DFL ? '1' : '0';
}

/* The new program. Ends at once, or "waits" for a signal. */
static int again(const char *first, const char *what)
{
	char now[ALL + 1] = "";
	sigset_t blocked;
	int i;

	look(now);
	for (i = 0; i < ALL; i++) {
		doing("%s: descriptor %d, or signal %d", what, i, i - FDS);
		CHECK(now[i] != '1' || first[i] == '1');
	}
	CHECK_IS(sigprocmask(SIG_BLOCK, NULL, &blocked), 0);
	for (i = 1; i < NSIG; i++) {
		doing("%s: signal %d", what, i);
		CHECK_THAT(sigismember(&blocked, i), <=, 0);
	}
	if (strcmp(what, "waits") == 0) {
		CHECK_IS(write(1, "x", 1), 1);
		pause();
	}
	return 7;
}

/* By posix_spawn(). Its output is out, unless that is -1. */
static pid_t spawn(const char *what, int out, bool in_call)
{
	char *argv[] = { name, (char *)"--again", before, (char *)what, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t a;
	sigset_t none;
	pid_t pid = -1;

	CHECK(posix_spawnattr_init(&a) == 0 && sigemptyset(&none) == 0 &&
	      posix_spawn_file_actions_init(&files) == 0);
	if (out >= 0)
		CHECK_IS(posix_spawn_file_actions_adddup2(&files, out, 1), 0);
	CHECK_IS(posix_spawnattr_setsigmask(&a, &none), 0);
	CHECK_IS(posix_spawnattr_setflags(&a, in_call ?
					  POSIX_SPAWN_SETSIGMASK : 0), 0);
	CHECK_IS(posix_spawn(&pid, self, &files, &a, argv, environ), 0);
	CHECK(posix_spawnattr_destroy(&a) == 0 &&
	      posix_spawn_file_actions_destroy(&files) == 0);
	return pid;
}

static void ended(pid_t pid)
{
	int status;

	CHECK_IS(u_waitpid(pid, &status, SOON), pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void by_fork(void)
{
	char *argv[] = { name, (char *)"--again", before, (char *)"forked", NULL };
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		execv(self, argv);
		_exit(1);
	}
	ended(pid);
}

static void by_shell(void)
{
	char command[ALL + 4200], line[16] = "";
	FILE *f;
	int status;

	snprintf(command, sizeof command, "exec '%s' --again %s by-shell", name,
		 before);
	status = system(command);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	f = popen(command, "r");
	CHECK(f != NULL && fgets(line, sizeof line, f) == NULL);
	status = pclose(f);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* Waits until it runs, and ends it. */
static void terminates(pid_t pid, int pipe_end)
{
	int status;
	char c;

	CHECK_IS(u_read(pipe_end, &c, 1, SOON), 1);
	CHECK_IS(kill(pid, SIGTERM), 0);
	CHECK_IS(u_waitpid(pid, &status, SOON), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

struct call {
	pid_t c_pid;
	int   c_out;
};

static void spawns(void *arg)
{
	struct call *c = arg;

	c->c_pid = spawn("waits", c->c_out, true);
}

static void by_signal(void)
{
	static struct call c;
	int fd[2];

	CHECK(pipe(fd) == 0 && fcntl(fd[0], F_SETFD, FD_CLOEXEC) == 0 &&
	      fcntl(fd[1], F_SETFD, FD_CLOEXEC) == 0);
	terminates(spawn("waits", fd[1], false), fd[0]);
	c.c_out = fd[1];
	CHECK_IS(ucall(spawns, &c), 0);
	terminates(c.c_pid, fd[0]);
	CHECK(u_close(fd[0]) == 0 && u_close(fd[1]) == 0);
}

/* What has descriptors, and waits. */

static void answers(int fd, void *arg)
{
	char c;

	while (u_read(fd, &c, 1, UNEVER) == 1)
		;
	(void)arg;
}

static int sleeps(void *arg)
{
	(void)arg;
	return u_sleep(uafter(FOR_EVER));
}

static int hears(void *arg)
{
	return usignal_until(SIGUSR1, sleeps, arg);
}

static int awaits(void *arg)
{
	(void)arg;
	return usignal_wait(UNEVER) < 0 ? -ECANCELED : 0;
}


static void opens(int fd[6])
{
	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	CHECK(fcntl(fd[0], F_SETFD, FD_CLOEXEC) == 0 &&
	      fcntl(fd[1], F_SETFD, FD_CLOEXEC) == 0);
	fd[2] = u_dial_tcp(NULL, u_port(server.sv_fd), SOON);
	fd[3] = u_open("/dev/null", O_RDONLY | O_CLOEXEC, 0, SOON);
	CHECK(fd[2] >= 0 && fd[3] >= 0);
	CHECK_IS(u_send_fd(fd[0], fd[3], SOON), 0);
	fd[4] = u_recv_fd(fd[1], SOON);
	fd[5] = u_listen_tcp("127.0.0.1", 0, 0, UNET_REUSEPORT);
	CHECK(fd[4] >= 0 && fd[5] >= 0);
}

static void run(void *arg)
{
	struct addrinfo *names = NULL;
	struct uscope *s;
	int fd[6], i;

	server.sv_f  = answers;
	server.sv_fd = u_listen_tcp("127.0.0.1", 0, 0, 0);
	CHECK_THAT(server.sv_fd, >=, 0);
	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	CHECK_IS(usignal_watch(SIGUSR2), 0);
	CHECK_IS(uscope_go(s, userve, &server), 0);
	CHECK_IS(uscope_go(s, awaits, NULL), 0);
	CHECK_IS(uscope_go(s, hears, NULL), 0);
	opens(fd);
	CHECK_IS(u_getaddrinfo("127.0.0.1", "80", NULL, &names, SOON), 0);
	freeaddrinfo(names);
	for (i = 0; i < 3; i++) {
		ended(spawn("spawned", -1, false));
		by_fork();
		by_shell();
		by_signal();
		yield();
	}
	for (i = 0; i < 6; i++)
		CHECK_IS(u_close(fd[i]), 0);
	uscope_cancel(s);
	CHECK_IS(uscope_end(&s), -ECANCELED);
	CHECK_IS(usignal_unwatch(SIGUSR2), 0);
	(void)arg;
}

int main(int argc, char **argv)
{
	static char path[4096];

	if (argc == 4 && strcmp(argv[1], "--again") == 0)
		return again(argv[2], argv[3]);
	check_start(argc, argv);
	check_forks();
	if (readlink(self, path, sizeof path - 1) <= 0)
		check_skip("no /proc/self/exe");
	name = path;
	look(before);
	begin(2, 0);
	make(0, run, NULL);
	start_and_finish();
	return 0;
}
