/* SPDX-License-Identifier: MIT */
/* child: a thread waits for its child alone, and a deadline loses nothing. */
/* VARIANTS: RR LL WS PR */

/*
 * Each child ends when another thread of the same processor tells it to, so the
 * processor goes on. Threads wait with deadlines, in scopes, two for the same
 * child, and without free descriptors. A child for which no thread waits is
 * left alone.
 */

#include "either.h"
#include "uchild.h"
#include "uio.h"
#include "uscope.h"

#include <fcntl.h>

#define NR	12

struct child {
	pid_t c_pid;
	int   c_end;		/* write to it: then the child exits */
};

static struct child children[NR], other;
static long waiting, ended, got, none;

static struct child start(int code)
{
	struct child c;
	int fd[2];

	CHECK_IS(pipe(fd), 0);
	c.c_pid = fork();
	CHECK_THAT(c.c_pid, >=, 0);
	if (c.c_pid == 0) {
		char byte;

		close(fd[1]);
		_exit(read(fd[0], &byte, 1) == 1 ? code : 99);
	}
	close(fd[0]);
	c.c_end = fd[1];
	return c;
}

static void finish_child(const struct child *c)
{
	CHECK_IS(write(c->c_end, "x", 1), 1);
	CHECK_IS(close(c->c_end), 0);
}

static void exited(const struct child *c, int code, int status, pid_t rc)
{
	CHECK_IS(rc, c->c_pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == code);
	CHECK_IS(u_waitpid(c->c_pid, NULL, UNEVER), -ECHILD);
}

/* Waits for a child, at first with deadlines that pass, and in a scope. */

static void in_time(int i)
{
	const struct child *c = &children[i];
	struct uscope *s;
	int status = -1;
	pid_t rc;

	CHECK_IS(u_waitpid(c->c_pid, &status, UNOW), -EAGAIN);
	CHECK_IS(u_waitpid(c->c_pid, &status, 1), -ETIMEDOUT);
	CHECK_IS(u_waitpid(c->c_pid, &status, -1), -EINVAL);
	CHECK_IS(u_waitpid(c->c_pid, &status, uafter(UTIME_MS)), -ETIMEDOUT);
	if (ustack_self() != NULL) {
		CHECK_IS(uscope_begin(&s, uafter(UTIME_MS)), 0);
		CHECK_IS(u_waitpid(c->c_pid, &status, UNEVER), -ECANCELED);
		CHECK_IS(uscope_end(&s), -ETIMEDOUT);
	}
	CHECK_IS(status, -1);
	add(&waiting, 1);
	while ((rc = u_waitpid(c->c_pid, &status, i % 2 ? UNEVER :
			       uafter(100 * UTIME_US))) == -ETIMEDOUT)
		;
	exited(c, i, status, rc);
	add(&ended, 1);
}

static void waiter(void *arg)
{
	in_time((int)(intptr_t)arg);
}

static void *native_waiter(void *arg)
{
	in_time(NR - 1);
	return arg;
}

static void ends_them(void *arg)
{
	int i;

	while (get(&waiting) < NR)
		CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	for (i = NR - 1; i >= 0; i--)
		finish_child(&children[i]);
}

static void many(int proc_nr)
{
	pthread_t id;
	int i;

	waiting = ended = 0;
	other = start(55);
	finish_child(&other);
	for (i = 0; i < NR; i++)
		children[i] = start(i);
	begin(proc_nr, 0);
	for (i = 0; i < NR - 1; i++)
		make(i, waiter, (void *)(intptr_t)i);
	make(0, ends_them, NULL);
	id = native(native_waiter, NULL);
	start_and_finish();
	native_join(id);
	CHECK_IS(ended, NR);
	/* No call has waited for it. */
	CHECK_IS(waitpid(other.c_pid, &i, 0), other.c_pid);
	CHECK_IS(WEXITSTATUS(i), 55);
}

/* Two for the same child, which is killed. */

static void rival(void *arg)
{
	int status;
	pid_t rc;

	add(&waiting, 1);
	rc = u_waitpid(other.c_pid, &status, UNEVER);
	CHECK(rc == other.c_pid || rc == -ECHILD);
	if (rc > 0)
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	add(rc > 0 ? &got : &none, 1);
}

static void killer(void *arg)
{
	yield_until(&waiting, 2);
	CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	CHECK_IS(kill(other.c_pid, SIGKILL), 0);
}

static void rivals(int proc_nr)
{
	waiting = got = none = 0;
	other = start(0);
	begin(proc_nr, 0);
	make(0, rival, NULL);
	make(1, rival, NULL);
	make(0, killer, NULL);
	start_and_finish();
	CHECK(got == 1 && none == 1);
	CHECK_IS(close(other.c_end), 0);
}

/* Without a free descriptor, and without children. */

static void no_descriptor(void *arg)
{
	int status, fd, rc;

	CHECK_IS(u_waitpid(other.c_pid, &status, UNOW), -EAGAIN);
	rc = u_waitpid(other.c_pid, &status, uafter(UTIME_MS));
	CHECK_IS(rc, -ETIMEDOUT);
	set(&waiting, 1);
	rc = u_waitpid(other.c_pid, &status, UNEVER);
	exited(&other, 3, status, rc);
	fd = dup(2);
	CHECK_THAT(fd, <, 0);		/* so it has not found a descriptor */
}

static void tells(void *arg)
{
	yield_until(&waiting, 1);
	CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	CHECK_IS(write(other.c_end, "x", 1), 1);
}

static void no_descriptors(int proc_nr)
{
	struct rlimit few, usual;

	other = start(3);
	CHECK_IS(getrlimit(RLIMIT_NOFILE, &usual), 0);
	few = usual;
	few.rlim_cur = 0;
	waiting = 0;
	begin(proc_nr, 0);
	make(0, no_descriptor, NULL);
	make(0, tells, NULL);
	CHECK_IS(setrlimit(RLIMIT_NOFILE, &few), 0);
	start_and_finish();
	CHECK_IS(setrlimit(RLIMIT_NOFILE, &usual), 0);
	CHECK_IS(close(other.c_end), 0);
}

static void strangers(void *arg)
{
	int status = 7;

	CHECK_IS(u_waitpid(0, &status, UNEVER), -EINVAL);
	CHECK_IS(u_waitpid(-1, &status, UNEVER), -EINVAL);
	CHECK_IS(u_waitpid(-getpgrp(), &status, UNEVER), -EINVAL);
	CHECK_IS(u_waitpid(getppid(), &status, UNEVER), -ECHILD);
	CHECK_IS(u_waitpid(getpid(), &status, UNEVER), -ECHILD);
	CHECK_IS(u_waitpid(getppid(), &status, UNOW), -ECHILD);
	CHECK_IS(status, 7);
}

int main(int argc, char **argv)
{
	int p, fd = dup(2);

	check_start(argc, argv);
	CHECK_IS(close(fd), 0);
	strangers(NULL);
	for (p = 1; p <= 3; p++) {
		many(p);
		rivals(p);
		no_descriptors(p);
		one_thread(p, strangers, NULL);
	}
	CHECK_IS(dup(2), fd);			/* no descriptor is left */
	return 0;
}
