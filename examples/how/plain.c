/* SPDX-License-Identifier: MIT */
/* plain.c: a function that reads by plain read(), and blocks only its own thread. */
#include <stdio.h>
#include <unistd.h>
#include <usched/all.h>

static int ends[2];

/* Stands for a library that knows nothing of threads: libcurl, libpq, hiredis. */
static ssize_t library_read(char *buf, size_t size)
{
	return read(ends[0], buf, size);
}

static void writer(void *arg)
{
	(void)arg;
	if (write(ends[1], "hello", 5) != 5)
		perror("write");
}

static int run(void *arg)
{
	char buf[10];
	ssize_t n;
	int rc = usched_go(writer, arg);

	if (rc != 0)
		return rc;
	n = library_read(buf, sizeof buf);	/* the writer has not run yet */
	printf("%.*s\n", n > 0 ? (int)n : 0, buf);
	return n == 5 ? 0 : 1;
}

int main(void)
{
	return pipe(ends) != 0 || usched_main(run, NULL);
}
