/* SPDX-License-Identifier: MIT */
/* file.c: writes and reads a file; no thread waits for the disk but that. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <usched/all.h>

static _Atomic int end, ticks;

static void tick(void *arg)
{
	(void)arg;
	while (!end && u_sleep(uafter(10 * UTIME_MS)) == 0)
		ticks++;
}

static int copy(const char *path)
{
	char text[20];
	ssize_t n, w;
	int fd = u_open(path, O_RDWR | O_CLOEXEC, 0, UNEVER), rc;

	if (fd < 0)
		return fd;
	w = u_pwrite(fd, "some text", 9, 0, UNEVER);
	rc = w == 9 ? u_fsync(fd, UNEVER) : w < 0 ? (int)w : -EIO;
	if (rc == 0) {
		n = u_pread(fd, text, sizeof text, 0, UNEVER);
		printf("%.*s\n", n > 0 ? (int)n : 0, text);
	}
	u_close(fd);
	return rc;
}

static int run(void *path)
{
	int e, rc = usched_go(tick, NULL);
	utime_ns begun = unow();

	if (rc == 0)
		rc = copy(path);
	end = 1;
	e = u_unlink(path, UNEVER);
	printf("others %s\n", ticks >= 5 * (unow() - begun) / UTIME_S ? "went on" : "waited");
	return rc != 0 ? rc : e;
}

int main(void)
{
	static char path[] = "/tmp/how-XXXXXX";
	int fd = mkstemp(path);

	return fd < 0 || u_close(fd) != 0 || usched_main(run, path);
}
