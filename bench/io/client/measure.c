/* SPDX-License-Identifier: MIT */
/* measure.c: processor time, memory, latency; descriptors. */

#include "client.h"

#include <sys/resource.h>

int64_t cpu_of(void)
{
	struct timespec t;
	clockid_t clock;

	errno = clock_getcpuclockid(client.k_pid, &clock);
	if (errno != 0 || clock_gettime(clock, &t) != 0)
		io_die("the server's processor time");
	return t.tv_sec * IO_S + t.tv_nsec;
}

int64_t due(long message)
{
	return client.k_start + (double)message * IO_S / client.k_rate;
}

uint32_t since(int64_t then)
{
	int64_t took = io_now() - then;

	return took < UINT32_MAX ? took : UINT32_MAX;
}

long raise_files(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) != 0)
		io_die("getrlimit");
	r.rlim_cur = r.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &r) != 0)
		io_die("setrlimit");
	return r.rlim_cur;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

double rank_us(uint32_t *ns, long n, double share)
{
	long place = share * n;

	qsort(ns, n, sizeof *ns, compare);
	return ns[place < n ? place : n - 1] / 1e3;
}

static double server[2], kernel[2];	/* before, after */

/* Returns the resident bytes of the server. */
static double resident(void)
{
	char line[256];
	double kib = -1;
	FILE *f;

	snprintf(line, sizeof line, "/proc/%ld/smaps_rollup", client.k_pid);
	f = fopen(line, "r");
	while (f != NULL && fgets(line, sizeof line, f) != NULL)
		if (strncmp(line, "Rss:", 4) == 0)
			kib = strtod(line + 4, NULL);
	if (kib < 0)
		io_die("the server's smaps_rollup");
	fclose(f);
	return kib * 1024;
}

/* Returns the bytes of objects in the kernel's slabs; 0: not readable. */
static double slabs(void)
{
	FILE *f = fopen("/proc/slabinfo", "r");
	char line[512];
	double bytes = 0;
	unsigned long nr, size;

	while (f != NULL && fgets(line, sizeof line, f) != NULL)
		if (sscanf(line, "%*s %lu %*u %lu", &nr, &size) == 2)
			bytes += (double)nr * size;
	if (f != NULL)
		fclose(f);
	return bytes;
}

void memory_start(void)
{
	usleep(CLIENT_SETTLE);
	kernel[0] = slabs();
	server[0] = resident();
}

void memory_end(void)
{
	usleep(CLIENT_SETTLE);
	server[1] = resident();
	kernel[1] = slabs();
}

void memory_say(void)
{
	int n = client.k_connections;

	printf(" bytes %.1f", (server[1] - server[0]) / n);
	if (kernel[0] > 0)
		printf(" kernel_bytes %.0f", (kernel[1] - kernel[0]) / n);
}
