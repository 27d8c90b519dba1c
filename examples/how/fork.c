/* SPDX-License-Identifier: MIT */
/* fork.c: listens, forks, and the child serves a client with threads of its own. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <usched/all.h>

static int listener;

/* In the child: run() of a new scheduler. */
static int serve(void *arg)
{
	int fd = u_accept(listener, NULL, NULL, 0, uafter(3 * UTIME_S));
	char *text = getppid() == *(pid_t *)arg ? "the child" : "the parent";
	int len = strlen(text), rc;
	char c;

	if (fd < 0)
		return 1;
	rc = u_read(fd, &c, 1, uafter(3 * UTIME_S)) != 1 ||
		u_write_all(fd, text, len, uafter(UTIME_S)) != len;
	u_close(fd);
	return rc;
}

static int ask(void)
{
	int fd = u_dial_tcp("127.0.0.1", u_port(listener), uafter(UTIME_S));
	char text[20];
	ssize_t n;

	if (fd < 0)
		return fd;
	u_sleep(uafter(50 * UTIME_MS));		/* meanwhile the child waits */
	u_write_all(fd, "?", 1, uafter(UTIME_S));
	n = u_read_all(fd, text, sizeof text, uafter(4 * UTIME_S));
	printf("%.*s answers\n", n > 0 ? (int)n : 4, n > 0 ? text : "none");
	return u_close(fd);
}

static int run(void *arg)
{
	static pid_t parent;
	pid_t pid;
	int status, rc;

	(void)arg;
	parent = getpid();
	fflush(NULL);				/* else both print what is not yet written */
	pid = fork();
	if (pid == 0)
		_exit(usched_main(serve, &parent));	/* the child never returns from here */
	if (pid < 0)
		return -errno;
	rc = ask();
	if (u_waitpid(pid, &status, uafter(10 * UTIME_S)) != pid)
		return -ECHILD;
	printf("the child's status: %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	return rc;
}

int main(void)
{
	listener = u_listen_tcp("127.0.0.1", 0, 0, 0);
	return listener < 0 || usched_main(run, NULL);
}
