/* SPDX-License-Identifier: MIT */
/* outside.c: a shared library for calls.c, which calls libc itself. */

#define _GNU_SOURCE
#include "outside.h"

#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

int outside_socket(void)
{
	return socket(AF_INET, SOCK_STREAM, 0);
}

int outside_fork(void)
{
	return fork();
}

/* Returns whether answers are those of a host. */
int outside_asks(const char *name)
{
	struct utsname system;
	struct sysinfo info;
	struct rlimit limit;
	cpu_set_t cpus;

	return getuid() == 1000 && getegid() == 1000 && uname(&system) == 0 &&
		strcmp(system.nodename, name) == 0 && sysinfo(&info) == 0 &&
		info.totalram == 1 << 30 && sched_getaffinity(0, sizeof cpus, &cpus) == 0 &&
		CPU_COUNT(&cpus) == 1 && getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
		limit.rlim_cur == 256;
}
