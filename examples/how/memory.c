/* SPDX-License-Identifier: MIT */
/* memory.c: how much memory 50,000 threads take while they wait. */
#include <stdio.h>
#include <unistd.h>
#include <usched/all.h>

#define NR	50000L

static struct uchan *end;

static int wait_for_end(void *arg)
{
	(void)arg;
	uchan_recv(end, NULL, UNEVER);
	return 0;
}

/* Bytes of memory that the process uses. */
static long used(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long size, pages = 0;

	if (f == NULL || fscanf(f, "%ld %ld", &size, &pages) != 2)
		pages = 0;
	if (f != NULL)
		fclose(f);
	return pages * sysconf(_SC_PAGESIZE);
}

static int run(void *arg)
{
	long before = used(), each;
	struct uscope *s;
	int rc = uscope_begin(&s, UNEVER), e;

	(void)arg;
	if (rc != 0)
		return rc;
	for (long i = 0; rc == 0 && i < NR; i++)
		rc = uscope_go(s, wait_for_end, NULL);
	if (rc == 0)
		rc = u_sleep(uafter(50 * UTIME_MS));	/* all wait now */
	each = (used() - before) / NR;
	uchan_close(end);
	e = uscope_end(&s);
	printf("a thread takes %s\n", each < 1000 ? "some hundred bytes" : "pages");
	return rc != 0 ? rc : e;
}

int main(void)
{
	end = uchan_make(0, 0);
	return end == NULL || usched_main(run, NULL);
}
