/* SPDX-License-Identifier: MIT */
/* sreal.c: the same hosts for real: sockets of loopback, files, clocks. */

/*
 * Hosts are threads of rr in one process, as in a simulation, so what a test keeps
 * in static variables is seen by all of them. Their calls come to the names of
 * snames.c, where sim_self() says NULL, and so go on to libc. There the hooks of
 * ext/wrap/ take them, and a call that waits blocks only its thread. Without the hooks
 * the first read() would stop all hosts.
 *
 *	address	10.0.0.n is 127.x.y.n on this machine; x and y follow from the
 *		process, so that two runs have ports of their own. A socket that a host
 *		binds to all addresses, or to localhost, is bound to its own
 *	files	each host has a folder below a temporary folder, and sim_self()
 *		enters it. Nothing waits between that and the call of libc. A path from
 *		the root is the machine's
 *	names	of hosts, by getaddrinfo(), gethostname()
 *	time	a run that has not ended GRACE after its own end stands still: a call
 *		without a hook waits, or a loop does not end. Its parent ends it
 *	ends	a host that ends with another status than 0 has failed the run: no
 *		fault has hurt it, and it does not boot again
 *
 * There are no faults, no crashes, and no order from the seed: usim_random() alone
 * follows it. SIGPIPE is ignored, since it would end all hosts. A host that has
 * ended leaves its descriptors open until the end of the run.
 *
 * REJECTED
 *
 * A process for each host: folders, descriptors and exit() come for free, but the
 * checks of a test are then in several memories, and pass since they see nothing.
 * Addresses 10.0.0.n in a network namespace: many machines do not let users make any.
 */

#define _GNU_SOURCE		/* nftw(), O_PATH */
#include "sim.h"
#include "usched.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOPBACK	0x7f000000u
#define HOSTS		0xffu		/* bits of n */
#define GRACE		(10 * UTIME_S)
#define SETUP		(60 * UTIME_S)	/* until a run has said its time */

static char root[200];				/* the temporary folder */
static uint32_t network;			/* 127.x.y.0 */
static int folders[USIM_HOSTS + 1];		/* descriptors, or 0 */
static const struct sim_host *entered;

/* Files. */

/* Makes the folder of a host, which is entered for the first time. */
static int folder_make(const struct sim_host *h)
{
	char path[300];

	snprintf(path, sizeof path, "%s/%d-%s", root, h->h_number, h->h_name);
	if (mkdir(path, 0700) != 0)
		return -1;
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

void sim_real_enter(const struct sim_host *h)
{
	int *folder = &folders[h->h_number];

	if (entered == h)
		return;
	if (*folder == 0)
		*folder = folder_make(h);
	if (*folder < 0 || fchdir(*folder) != 0) {
		*folder = -1;
		entered = h;		/* usim_fail() asks who calls */
		usim_fail("no folder: %s", strerror(errno));
	}
	entered = h;
}

/* Addresses. */

static struct sockaddr_in own_address(unsigned short port)
{
	const struct sim_boot *b = sim_caller();
	uint32_t n = b != NULL ? (uint32_t)b->b_host->h_number : 0;

	return (struct sockaddr_in) { .sin_family = AF_INET, .sin_port = port,
		.sin_addr.s_addr = htonl(network + n) };
}

const struct sockaddr *sim_real_address(const struct sockaddr *a, socklen_t n,
					struct sockaddr_in *room)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)a;
	uint32_t ip;

	if (!sim_is_real || a == NULL || n < (socklen_t)sizeof *in ||
	    a->sa_family != AF_INET)
		return a;
	ip = ntohl(in->sin_addr.s_addr);
	if (ip == INADDR_ANY || ip >> 24 == LOOPBACK >> 24)
		*room = own_address(in->sin_port);
	else if ((ip & ~HOSTS) == SIM_NETWORK)
		*room = *in, room->sin_addr.s_addr = htonl(network + (ip & HOSTS));
	else
		return a;
	return (const struct sockaddr *)room;
}

int sim_real_bind(int fd)
{
	struct sockaddr_in at = { .sin_family = 0 };
	socklen_t n = sizeof at;

	if (!sim_is_real || getsockname(fd, (struct sockaddr *)&at, &n) != 0 ||
	    at.sin_family != AF_INET || at.sin_port != 0 ||
	    at.sin_addr.s_addr != htonl(INADDR_ANY))
		return fd;
	at = own_address(0);
	if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0)
		usim_fail("no address for a socket: %s", strerror(errno));
	return fd;
}

void sim_real_answer(struct sockaddr *a, const socklen_t *n)
{
	struct sockaddr_in *in = (struct sockaddr_in *)a;
	uint32_t ip;

	if (!sim_is_real || a == NULL || n == NULL ||
	    *n < (socklen_t)sizeof *in || a->sa_family != AF_INET)
		return;
	ip = ntohl(in->sin_addr.s_addr);
	if ((ip & ~HOSTS) == network)
		in->sin_addr.s_addr = htonl(SIM_NETWORK + (ip & HOSTS));
}

/* A run. */

static int removed(const char *path, const struct stat *s, int type, struct FTW *f)
{
	(void)s, (void)type, (void)f;
	return remove(path);
}

static NORETURN void child(usim_setup *setup, uint64_t seed)
{
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
		_exit(3);
	network = LOOPBACK | ((uint32_t)getpid() & 0x7fff) << 8 | 1u << 23;
	sim_run_real(setup, seed);
}

/* Waits for the end of a run. False: it stood still. */
static bool await(pid_t pid, int *status)
{
	const struct timespec pause = { 0, 5 * UTIME_MS };
	utime_ns start = unow(), limit;
	pid_t ended;

	for (;;) {
		ended = waitpid(pid, status, WNOHANG);
		if (ended == pid || (ended < 0 && errno != EINTR))
			return true;
		limit = __atomic_load_n(&sim_report->p_limit, __ATOMIC_RELAXED);
		if (unow() - start > GRACE + (limit > 0 ? limit : SETUP))
			break;
		(void)nanosleep(&pause, NULL);
	}
	(void)kill(pid, SIGKILL);
	while (waitpid(pid, status, 0) < 0 && errno == EINTR)
		;
	return sim_report->p_ended;
}

int sim_real(usim_setup *setup, uint64_t seed)
{
	const char *in = getenv("TMPDIR");
	int status = 0;
	bool ended;
	pid_t pid;

	if (!usched_is_wrapped()) {
		fprintf(stderr, "usim: --real needs uwrap.o in the program: see "
			"ext/sim/README.md\n");
		return 2;
	}
	snprintf(root, sizeof root, "%s/usim-XXXXXX", in != NULL ? in : "/tmp");
	if (mkdtemp(root) == NULL) {
		perror("usim: no folder");
		return 2;
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		child(setup, seed);
	if (pid < 0) {
		perror("usim: no process");
		(void)rmdir(root);
		return 2;
	}
	ended = await(pid, &status);
	if (sim_report->p_ended && !sim_report->p_failed) {
		(void)nftw(root, removed, 8, FTW_DEPTH | FTW_PHYS);
		printf("passed, for real\n");
		return 0;
	}
	printf("FAILED, for real: %s; files are in %s\n",
	       sim_report->p_failed ? sim_report->p_why : !ended ?
	       "its time is over, and it stands still: a call without a hook waits, "
	       "or a loop does not end" :
	       WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "it has ended",
	       root);
	return 1;
}
