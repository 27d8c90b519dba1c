/* SPDX-License-Identifier: MIT */
/* s_file_fail: without memory no file, descriptor, signal or child is lost. */
/* VARIANTS: RR LL */
/* LIBS: @test/fail.wrap */

/*
 * The n-th call for memory or a native thread fails, once or from then on, for
 * each n (fail.h). A call that returns -ENOMEM or -EAGAIN has done nothing, so
 * it can be repeated. At the end all memory was given back, and the next
 * descriptor has the number that it had before.
 */
#include "either.h"
#include "fail.h"
#include "uchild.h"
#include "ufile.h"
#include "uio.h"
#include "usignal.h"

#include <fcntl.h>

#define SIZE	(UFILE_PART + 100)

static char path[64];
static char data[SIZE], back[SIZE];

/* Whether a call has to be repeated. */
static bool again(ssize_t rc)
{
	if (rc != -ENOMEM && rc != -EAGAIN)
		return false;
	fail_repeat();
	return true;
}

static void moves(int fd)
{
	size_t done;
	ssize_t rc;

	for (done = 0; done < SIZE; done += (size_t)(rc > 0 ? rc : 0)) {
		rc = u_pwrite(fd, data + done, SIZE - done, (off_t)done,
			      UNEVER);
		CHECK(rc > 0 || again(rc));
	}
	for (done = 0; done < SIZE; done += (size_t)(rc > 0 ? rc : 0)) {
		rc = u_pread(fd, back + done, SIZE - done, (off_t)done,
			     UNEVER);
		CHECK(rc > 0 || again(rc));
	}
	CHECK(memcmp(data, back, SIZE) == 0);
}

static void uses(void *arg)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST };
	struct addrinfo *list;
	int fd, rc;

	(void)arg;
	do
		fd = u_open(path, O_CREAT | O_EXCL | O_RDWR, 0600, UNEVER);
	while (again(fd));
	CHECK(fd >= 0);
	moves(fd);
	CHECK(u_close(fd) == 0);
	while (again(rc = u_unlink(path, UNEVER)))
		;
	CHECK(rc == 0);
	while (again(rc = u_getaddrinfo("::1", NULL, &hints, &list, UNEVER)))
		;
	CHECK(rc == 0);
	freeaddrinfo(list);
}

static void raises(void *arg)
{
	(void)arg;
	CHECK(raise(SIGUSR1) == 0);
}

static void awaits(void *arg)
{
	int rc, status;
	pid_t pid;

	(void)arg;
	while (again(rc = usignal_wait(UNEVER)))
		;
	CHECK(rc == SIGUSR1);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		_exit(7);
	while (again(rc = u_waitpid(pid, &status, UNEVER)))
		;
	CHECK(rc == pid && WEXITSTATUS(status) == 7);
}

static bool try_all(int p)
{
	int rc = SCHED(init)(p, 0);

	if (rc != 0)
		return false;
	while (try_make(0, uses, NULL) == NULL)
		CHECK(again(-ENOMEM));
	while (try_make(0, awaits, NULL) == NULL)
		CHECK(again(-ENOMEM));
	while (try_make(0, raises, NULL) == NULL)
		CHECK(again(-ENOMEM));
	while ((rc = SCHED(start)()) != 0) {
		CHECK(fail_told() > 0);
		fail_rest();
	}
	rc = SCHED(fini)();
	CHECK(rc == 0 && SCHED(stuck)() == 0);
	return true;
}

static int next_fd(void)
{
	int fd = dup(2);

	CHECK(fd >= 0 && close(fd) == 0);
	return fd;
}

static void run(int p)
{
	int fd = next_fd();

	if (!try_all(p)) {
		CHECK(fail_told() > 0);
		fail_rest();
		CHECK(try_all(p));
	}
	CHECK(next_fd() == fd);
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	sprintf(path, "/tmp/s_file_fail-%d", (int)getpid());
	memset(data, 'x', SIZE);
	CHECK(usignal_watch(SIGUSR1) == 0);
	CHECK(try_all(1));
	fail_held_nr = 0;		/* upoll.c keeps its table */
	for (p = 1; p <= 2; p++) {
		(void)fail_each(FAIL_MEMORY | FAIL_THREAD, false, run, p);
		(void)fail_each(FAIL_MEMORY | FAIL_THREAD, true, run, p);
	}
	return 0;
}
