/* SPDX-License-Identifier: MIT */
/* refuse: runs a program for which the kernel refuses some system calls. */

/*
 * usage: refuse CALL=ERROR[:NR] ... -- PROGRAM [ARGUMENT]...
 *
 * CALL and ERROR are names of the table below, or numbers. With :NR only calls
 * whose third argument is NR are refused. Status 77: no seccomp(2) here.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST	16

static const struct name {
	const char *n_name;
	int         n_nr;
} names[] = {
	{ "ENOSYS", ENOSYS }, { "EPERM", EPERM }, { "EINVAL", EINVAL },
	{ "EOPNOTSUPP", EOPNOTSUPP },
	{ "madvise", SYS_madvise }, { "membarrier", SYS_membarrier },
	{ "preadv2", SYS_preadv2 }, { "pwritev2", SYS_pwritev2 },
	{ "sched_getaffinity", SYS_sched_getaffinity },
	{ "sched_setaffinity", SYS_sched_setaffinity },
	{ "accept4", SYS_accept4 }, { "mincore", SYS_mincore },
#if defined(SYS_epoll_pwait2)
	{ "epoll_pwait2", SYS_epoll_pwait2 },
#endif
#if defined(SYS_pidfd_open)
	{ "pidfd_open", SYS_pidfd_open },
#endif
};

static struct sock_filter filter[4 * MOST + 2];
static unsigned short     filters;

static void step(unsigned short code, unsigned char yes, unsigned char no,
		 unsigned k)
{
	filter[filters++] = (struct sock_filter){ code, yes, no, k };
}

static int number(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(names[i].n_name, name) == 0)
			return names[i].n_nr;
	if (name[0] < '0' || name[0] > '9') {
		printf("refuse: no call or error %s here\n", name);
		exit(77);
	}
	return atoi(name);
}

/* Adds what refuses a call. The accumulator holds the number of the call. */
static void refuse(char *what)
{
	char *error = strchr(what, '='), *third = strchr(what, ':');
	int argument = third != NULL;

	if (third != NULL)
		*third++ = '\0';
	if (error == NULL || filters > 4 * MOST - 4) {
		fprintf(stderr, "usage: refuse CALL=ERROR[:NR] ... -- PROGRAM\n");
		exit(2);
	}
	*error++ = '\0';
	step(BPF_JMP | BPF_JEQ | BPF_K, 0, argument ? 4 : 1, number(what));
	if (argument) {
		step(BPF_LD | BPF_W | BPF_ABS, 0, 0,
		     offsetof(struct seccomp_data, args[2]));
		step(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, number(third));
	}
	step(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | number(error));
	if (argument)
		step(BPF_LD | BPF_W | BPF_ABS, 0, 0,
		     offsetof(struct seccomp_data, nr));
}

int main(int argc, char **argv)
{
	struct sock_fprog program = { .filter = filter };
	int i;

	(void)argc;
	step(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
	for (i = 1; argv[i] != NULL && strcmp(argv[i], "--") != 0; i++)
		refuse(argv[i]);
	if (argv[i] == NULL || argv[i + 1] == NULL)
		return 2;
	step(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
	program.len = filters;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
		printf("refuse: no seccomp(2): %s\n", strerror(errno));
		return 77;
	}
	execv(argv[i + 1], argv + i + 1);
	perror(argv[i + 1]);
	return 1;
}
