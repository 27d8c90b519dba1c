/* SPDX-License-Identifier: MIT */
/* child.c: reads what a child writes, and ends it after 0.3 s, with its children. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <usched/all.h>

extern char **environ;

/* Starts sh -c command, in a group of its own. Returns its number; *out is to be read. */
static pid_t start(char *command, int *out)
{
	char *argv[] = { "sh", "-c", command, NULL };
	posix_spawn_file_actions_t a;
	posix_spawnattr_t group;
	int ends[2], rc;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -errno;
	posix_spawnattr_init(&group);
	posix_spawnattr_setflags(&group, POSIX_SPAWN_SETPGROUP);
	posix_spawn_file_actions_init(&a);
	posix_spawn_file_actions_adddup2(&a, ends[1], 1);
	rc = posix_spawnp(&pid, "sh", &a, &group, argv, environ);
	posix_spawn_file_actions_destroy(&a);
	posix_spawnattr_destroy(&group);
	close(ends[1]);
	*out = ends[0];
	if (rc != 0)
		u_close(ends[0]);
	return rc == 0 ? pid : -rc;
}

static int child(char *command, utime_ns until)
{
	char text[100];
	int out = -1, status;
	pid_t pid = start(command, &out);
	ssize_t n;

	if (pid < 0)
		return pid;
	while ((n = u_read(out, text, sizeof text, until)) > 0)
		printf("it writes: %.*s", (int)n, text);
	u_close(out);
	if (n < 0 || u_waitpid(pid, &status, until) != pid) {
		kill(-pid, SIGKILL);			/* the group */
		u_waitpid(pid, &status, UNEVER);
	}
	printf("%s\n", WIFEXITED(status) ? "it has ended" : "it was killed");
	return 0;
}

static int run(void *arg)
{
	int rc = child("echo hello", uafter(60 * UTIME_S));

	(void)arg;
	return rc != 0 ? rc : child("sleep 2; echo late", uafter(300 * UTIME_MS));
}

int main(void)
{
	return usched_main(run, NULL);
}
