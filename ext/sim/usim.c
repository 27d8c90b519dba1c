/* SPDX-License-Identifier: MIT */
/* usim.c: a simulated world: its hosts, its story, a run. */

/*
 * OVERVIEW
 *
 * The simulator is a kernel for hosts that are threads. It lies below the names
 * of libc, as the program's own objects call them, and above lib/wait/: a thread
 * that has to wait makes a record (uwait.h), as a thread that waits for a lock.
 *
 *	the program	read()  connect()  fsync()  clock_gettime()
 *	                   |  sim.flags: the linker's --wrap
 *	snames.c	the names of libc
 *	snfd.c snfile.c snfolder.c sstdio.c stemp.c	names for descriptors, files,
 *			folders, streams
 *	snhost.c ssignal.c spending.c	clocks, chance, names of hosts; signals
 *	smachine.c scpu.c suser.c sexit.c	the machine; users; ends
 *	schecked.c srefused.c	names with checks; names that are refused
 *	scaller.c snumber.c	which function has made a system call
 *	sio.c sserve.c sown.c	calls and servers of lib/io/; a host's own scheduler
 *	scalls.c	calls that wait
 *	sfile.c sepoll.c	descriptors, waits, pipes, poll; epoll
 *	snet.c sunix.c sdisk.c sevent.c	sockets; files; counters, timers
 *	sflow.c stcp.c sudp.c soption.c	parts of sockets
 *	swalk.c spath.c sopen.c smap.c	parts of the disk
 *	splan.c sfault.c	the plan of faults; what they do to hosts, links, disks
 *	ssplit.c sdamage.c	partitions into groups; disks that lie
 *	usim.c		hosts, the story, the end of a run
 *	stime.c schance.c sblock.c	events and time; chance and the hash; memory
 *	smember.c sstate.c sfuture.c	threads of hosts; named states; futures
 *	smark.c		what a run has reached
 *	sseal.c		what is not simulated ends the run
 *	lib/wait/, rr	threads, virtual time
 *
 *	ssearch.c	seeds, processes, shrinking: outside of the runs
 *	sguide.c	which run comes next
 *	spage.c		the story of a run as a page
 *	sreal.c		the same hosts on this machine: nothing is simulated
 *
 * One thread belongs to no host, the judge. It waits until all clients have ended or
 * the time is over, and ends the process.
 *
 * SPEED
 *
 * A run is waits, and README.md has the parts of one. Each call of a host and each
 * event needs the time, the thread that called last and the hash, so these are inline
 * in sim.h. No part is large, so the number of waits bounds a run.
 *
 * INVARIANTS
 *
 * V1. All runs on one processor, and no native thread of the program takes part,
 *     so the kernel needs no locks. It changes nothing over a wait but what it
 *     looks at again after the wait.
 * V2. Nothing here asks the outside world: time, chance and addresses of memory
 *     have no influence on what happens.
 * V3. Only events and calls of hosts change the world. Each is mixed into the
 *     hash with its time, so equal hashes mean equal runs.
 *
 * REJECTED
 *
 * A simulation below lib/io/, where the library's own calls become the simulated
 * calls: it needs hooks in lib/io/, lib/proc/ and lib/wait/, which all programs would pay.
 * Objects for -flto: 3 % faster.
 * Wakes by file instead of by boot in poll(): hosts have few threads.
 */

#include "usim.h"
#include "snames.h"
#include "rr.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAUSE		UTIME_S	/* before a host that has ended boots */
#define COLUMN		20	/* of the story */

struct usim_world  sim_world;
struct sim_report *sim_report;
struct sim_host    sim_hosts[USIM_HOSTS + 1];
int                sim_host_nr;
bool               sim_is_on;
bool               sim_is_well;
bool               sim_is_real;
struct rr_thread  *sim_judge;

static struct {
	uint64_t          w_mask;		/* of faults */
	bool              w_story;
	bool              w_in_setup;
	int               w_clients;		/* that have not ended */
	utime_ns          w_start;		/* of a run for real */
} world;

static struct uwait_watch watch = {
	.v_begin = sim_wait_begins, .v_end = sim_wait_ended
};

/* Returns unow() at the start of the run. */
static utime_ns start_time(void)
{
	return sim_is_real ? world.w_start : UTIME_VIRTUAL;
}

utime_ns usim_time(void)
{
	return unow() - start_time();
}

/* The story. */

static void tell(const struct sim_host *h, const char *format, va_list args)
{
	int column = h == NULL ? 0 : (h->h_number - 1) * COLUMN;
	utime_ns us = usim_time() / UTIME_US;

	if (sim_is_page) {
		sim_page_text(h, format, args);
		return;
	}
	printf("%6lld.%06lld  %*s", (long long)(us / 1000000),
	       (long long)(us % 1000000), column, "");
	if (h != NULL)
		printf("%s: ", h->h_name);
	vprintf(format, args);
	putchar('\n');
}

void sim_story(const struct sim_host *h, const char *format, ...)
{
	va_list args;

	if (!world.w_story)
		return;
	va_start(args, format);
	tell(h, format, args);
	va_end(args);
}

void usim_log(const char *format, ...)
{
	const struct sim_boot *b = sim_caller();
	va_list args;

	if (!world.w_story)
		return;
	va_start(args, format);
	tell(b != NULL ? b->b_host : NULL, format, args);
	va_end(args);
}

/* Ends the process of the run. No handler of exit() of the program runs. */
void sim_quit(void)
{
	sim_report->p_time  = usim_time();
	sim_report->p_ended = true;
	fflush(stdout);
	_exit(0);
}

void usim_fail(const char *format, ...)
{
	const struct sim_boot *b = sim_caller();
	char why[400];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof why, format, args);
	va_end(args);
	if (!sim_is_on && !sim_is_real && !world.w_in_setup) {
		fprintf(stderr, "usim: %s\n", why);
		exit(2);
	}
	snprintf(sim_report->p_why, sizeof sim_report->p_why, "%s%s%s",
		 b != NULL ? b->b_host->h_name : "", b != NULL ? ": " : "", why);
	sim_report->p_failed = true;
	sim_story(NULL, "FAILED  %s", sim_report->p_why);
	sim_quit();
}

/* Hosts. */

/* Is pthread_create(), of the face if that is linked (pface_point), or NULL. */
int face_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *arg)
	__asm__("__wrap_pthread_create") __attribute__((weak));

static int host_add(const char *name, int (*f)(void *), void *arg, bool client)
{
	struct sim_host *h;

	if (!world.w_in_setup)
		return -EINVAL;
	if (f == NULL)
		usim_fail("%s is not added: it has no function", name);
	if (sim_host_nr == USIM_HOSTS)
		usim_fail("%s is not added: there are %d hosts", name, USIM_HOSTS);
	h = &sim_hosts[++sim_host_nr];
	h->h_name = name;
	h->h_f = f;
	h->h_arg = arg;
	h->h_number = sim_host_nr;
	h->h_is_client = client;
	h->h_disk = sim_disk_make();
	world.w_clients += client;
	return sim_host_nr;
}

int usim_host(const char *name, int (*f)(void *), void *arg)
{
	return host_add(name, f, arg, false);
}

int usim_client(const char *name, int (*f)(void *), void *arg)
{
	return host_add(name, f, arg, true);
}

static NORETURN void *host_run(void *boot)
{
	struct sim_boot *b = boot;

	b->b_main = ustack_self();
	sim_exit(b, b->b_host->h_f(b->b_host->h_arg));
}

/* With the pthread face, the first thread is one of the face, and may leave by it. */
static void host_begin(void *boot)
{
	pthread_t t;

	if (face_create == NULL || pface_point == NULL)
		host_run(boot);
	if (face_create(&t, NULL, host_run, boot) != 0)
		usim_fail("no memory for the simulation");
}

static void host_boot(void *host)
{
	struct sim_host *h = host;
	struct sim_boot *b;

	if (h->h_boots == 0 && h->h_late > sim_now()) {
		h->h_is_down = true;
		sim_at(h->h_late, host_boot, h);
		return;
	}
	b = sim_alloc(sizeof *b);
	b->b_host = h;
	b->b_number = ++h->h_boots;
	b->b_umask = 022;
	b->b_fd_nr = SIM_FDS;
	strcpy(b->b_folder, "/");
	h->h_boot = b;
	h->h_is_down = false;
	h->h_port = 32768;
	h->h_start = sim_now();
	sim_mark_boot(h);
	sim_hash((uint64_t)(h->h_number << 16 | b->b_number));
	sim_story(h, b->b_number == 1 ? "boots" : "boots again");
	if (sim_thread(b, host_begin, b) == NULL)
		usim_fail("no memory for the simulation");
}

void sim_crash(struct sim_host *h, utime_ns down, const char *why)
{
	struct sim_boot *b = h->h_boot;
	long lost;
	int fd;

	if (b == NULL)
		return;
	b->b_dead = b->b_crashed = h->h_is_down = true;
	h->h_boot = NULL;
	for (fd = 0; fd < b->b_fd_end; fd++)
		if (b->b_fds[fd] != NULL && --b->b_fds[fd]->f_refs == 0)
			b->b_fds[fd]->f_ops->o_crash(b->b_fds[fd]);
	lost = sim_disk_crash(h->h_disk);
	sim_hash((uint64_t)lost);
	sim_story(h, "crashes (%s), %ld writes lost or torn", why, lost);
	sim_at(sim_now() + down, host_boot, h);
	if (sim_self() == b)
		sim_freeze();
}

void sim_exit(struct sim_boot *b, int status)
{
	sim_last_calls(b);
	sim_streams_end(b);
	sim_end(b, status);
}

void sim_end(struct sim_boot *b, int status)
{
	struct sim_host *h = b->b_host;
	int fd;

	sim_story(h, "ends with %d", status);
	if (status != 0 && (h->h_is_client || sim_is_real))
		usim_fail("ends with %d", status);
	for (fd = 0; fd < b->b_fd_end; fd++)
		if (b->b_fds[fd] != NULL)
			(void)sim_close(b, fd);
	b->b_dead = true;
	h->h_boot = NULL;
	sim_hash((uint64_t)status);
	if (status != 0)
		sim_at(sim_now() + PAUSE, host_boot, h);
	else
		h->h_ended = true;
	if (status == 0 && h->h_is_client && --world.w_clients == 0)
		rr_wake(sim_judge);
	sim_freeze();
}

int usim_self(void)
{
	const struct sim_boot *b = sim_caller();

	return b != NULL ? b->b_host->h_number : 0;
}

/* Called by uhistory.c. */
const char *sim_caller_name(int64_t *at)
{
	const struct sim_boot *b = sim_caller();

	if (b == NULL)
		return NULL;
	*at = usim_time();
	return b->b_host->h_name;
}

int usim_boot(void)
{
	const struct sim_boot *b = sim_caller();

	return b != NULL ? b->b_number : 0;
}

/* The run. */

static void judge(void *unused)
{
	utime_ns end = sim_world.w_run + sim_world.w_quiet;
	struct usched *s = ustack_self()->u_sched;
	int i;

	(void)unused;
	if (!sim_is_real) {
		sim_seal();
		sim_time_begin(s);
	}
	while (world.w_clients > 0 && usim_time() < end)
		(void)u_wait_until(end + start_time());
	for (i = 1; i <= sim_host_nr; i++)
		if (sim_hosts[i].h_is_client && !sim_hosts[i].h_ended)
			usim_fail("%s has not ended, though all was well for "
				  "%lld s", sim_hosts[i].h_name,
				  (long long)(sim_world.w_quiet / UTIME_S));
	sim_story(NULL, "passed");
	sim_quit();
}

/* The time of a bend has come. Futures go on by seeds of their own. */
static void world_bend(void *bend)
{
	if (!sim_is_well)
		sim_seed_set(((const struct sim_bend *)bend)->be_seed);
}

static void world_begin(void)
{
	struct sim_course *c = &sim_report->p_course;
	int i;

	sim_is_on = true;
	sim_page_hosts();
	sim_plan(c, world.w_mask);
	for (i = 0; i < c->co_nr; i++)
		sim_at(c->co_bends[i].be_at, world_bend, &c->co_bends[i]);
	for (i = 1; i <= sim_host_nr; i++)
		sim_at(0, host_boot, &sim_hosts[i]);
	sim_futures_begin();
}

/* Lets setup() add hosts. */
static void world_make(usim_setup *setup, uint64_t seed, bool story)
{
	sim_seed_set(seed);
	world.w_story = story;
	sim_world = (struct usim_world) {
		.w_run = 20 * UTIME_S, .w_quiet = 40 * UTIME_S,
		.w_latency_min = 200 * UTIME_US, .w_latency_max = 20 * UTIME_MS,
		.w_sync_max = 5 * UTIME_MS, .w_faults = 48,
	};
	world.w_in_setup = true;
	setup(&sim_world);
	world.w_in_setup = false;
	sim_report->p_run = sim_world.w_run;
	if (rr_init(1, 0) != 0)
		usim_fail("the scheduler does not start");
	uwait_watch_add(&watch);
}

static NORETURN void world_run(void)
{
	if (world.w_clients == 0)
		usim_fail("there is no client: usim_client() was not called");
	sim_judge = rr_thread_init(judge, NULL);
	if (sim_judge == NULL || rr_start() != 0)
		usim_fail("the scheduler does not start");
	(void)rr_fini();
	usim_fail("all threads wait for ever");
}

void sim_run(usim_setup *setup, const struct sim_course *course, uint64_t mask,
	     bool story)
{
	uint64_t seed = course->co_seed;

	sim_report->p_course = *course;
	world.w_mask = mask;
	utime_virtual(sim_mix(seed + 1) | 1);
	world_make(setup, seed, story);
	world_begin();
	world_run();
}

void sim_run_real(usim_setup *setup, uint64_t seed)
{
	int i;

	world_make(setup, seed, true);
	sim_report->p_limit = sim_world.w_run + sim_world.w_quiet;
	world.w_start = unow();
	sim_is_real = true;
	for (i = 1; i <= sim_host_nr; i++)
		host_boot(&sim_hosts[i]);
	world_run();
}
