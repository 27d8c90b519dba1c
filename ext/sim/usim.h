/* SPDX-License-Identifier: MIT */
/* usim.h: hosts, their network, disks and clocks, simulated from a seed. */

#ifndef USIM_H
#define USIM_H

/*
 * A program of several hosts runs in one process. Each host is a function like
 * main(), which calls socket(), write(), fsync() as always. These calls reach a
 * simulated kernel. Time is virtual, and all chance follows from a seed, so a
 * run that fails fails again: the seed is the test case.
 *
 * SHORTEST USE
 *
 *	static void setup(struct usim_world *w)
 *	{
 *		usim_host("server", server, NULL);	int server(void *);
 *		usim_client("client", client, NULL);
 *	}
 *
 *	int main(int argc, char **argv)
 *	{
 *		return usim_main(argc, argv, setup);
 *	}
 *
 * The objects of the program are linked with sim.flags, which leads its calls
 * of libc here: see README.md.
 *
 *	./a.out --seeds 1000	tries seeds, shrinks the faults of a failure
 *	./a.out --seed 47	runs a seed again, and prints its story
 *	./a.out --seed 47 --page >story.html	as a page, for a browser
 *	./a.out --real		runs the hosts on this machine, without faults
 *
 * A RUN
 *
 * setup() adds hosts. Then time begins, and each host runs its function in a
 * thread of rr. For w_run faults come; for w_quiet after that all is well. The
 * run has passed when all clients have returned 0. It has failed if a client
 * returns something else, or has not returned at the end. It has also failed if
 * usim_fail() was called, if a signal ends the process, or if a host calls what
 * is not simulated.
 *
 * Each run is a child process, made by fork(), so static variables are fresh in
 * each run. But all hosts of a run share them, and a host that boots again
 * finds them as they were. So what a host must forget lies on its stack or heap.
 *
 * A fault begins at a time, or at a step of a host: a write, a send, a state that
 * usim_maybe() or usim_sometimes() names. doc/sim.md lists the kinds.
 *
 * HOSTS
 *
 * The n-th host that is added has address 10.0.0.n, and its name is known to
 * getaddrinfo(). A crash ends all its threads where they wait; none runs any
 * more. Its descriptors are gone, its disk has what a sync has promised, and
 * perhaps more. After a pause it boots: its function is called again. A host
 * whose function returns, or that calls exit(), ends as a process does; unless
 * the result is 0, it boots after a second. Clients are hosts that no fault hurts,
 * though links to them may be cut.
 *
 * WHO MAY CALL WHAT
 *
 * usim_host() and usim_client(): setup(). usim_maybe() and usim_sometimes():
 * any code; outside of a simulation they do nothing. The rest: threads of
 * hosts. Threads of a host are made by uthread_make(), uscope_go() or, with the
 * pthread face, pthread_create(), and may wait by all of lib/wait/ and lib/io/. rr_wait()
 * and rr_yield() do not end in a crash, but the next wait after them does.
 *
 * CAVEATS
 *
 * A write to a pipe or a connection that nothing reads any more raises SIGPIPE, as
 * it does in a process. Unless the host ignores this signal, as by
 * signal(SIGPIPE, SIG_IGN) in main(), or says MSG_NOSIGNAL, the host ends, and boots
 * after a second. A client that ends so has failed the run.
 *
 * A computation takes no time. A thread that never waits, but asks the clock in
 * a loop, is a failure. README.md has a list of all that is simulated.
 */

#include "uwait.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a world is like. setup() changes what it likes: all has a default. */
struct usim_world {
	utime_ns w_run;			/* how long faults come: 20 s */
	utime_ns w_quiet;		/* how long it is quiet after that: 40 s */
	utime_ns w_latency_min;		/* least latency of a link, one way: 200 us */
	utime_ns w_latency_max;		/* most latency: 20 ms; most links have little */
	utime_ns w_sync_max;		/* most time of fsync(), from 50 us: 5 ms */
	unsigned w_faults;		/* faults that a run draws, at most: 48 */
	unsigned w_loss;		/* datagrams of 1000 that are lost: 0 */
	unsigned w_bandwidth;		/* bytes a second of a host, each way;
					   0: no limit */
	unsigned w_core;		/* hosts that clients need at the end; others
					   may be lost for good. 0: all */
	const char *w_only;		/* kinds of faults, as a search lists them,
					   with spaces between. NULL: all but those
					   that only w_also brings */
	const char *w_also;		/* more kinds: what a store survives only if
					   it has copies, or check sums. unread,
					   damage, stale: a read of a file fails,
					   finds wrong bits, or an old sector. astray:
					   a write lands elsewhere. empty: a host
					   comes back without its disk. Each hurts a
					   host once, and as many hosts as w_core
					   leaves, at least one. NULL: none */
};

typedef void usim_setup(struct usim_world *w);

#define USIM_HOSTS	32	/* at most */

/*
 * Adds a host that runs f(arg). Returns its number n, from 1 on. The name stays
 * the caller's. -EINVAL: not in setup(). Hosts that are too many fail the run.
 */
int usim_host(const char *name, int (*f)(void *), void *arg);

/* Adds a client: a host that no fault hurts, and that has to return 0. */
int usim_client(const char *name, int (*f)(void *), void *arg);

/*
 * Does what the command line says: see --help. For main(). Returns its status:
 * 0: all seeds have passed; 1: one has failed; 2: the line is wrong.
 */
int usim_main(int argc, char **argv, usim_setup *setup);

/* Returns the number of the caller's host; 0: it is in none. */
int usim_self(void);

/* Returns how often the caller's host has booted: 1 at first. */
int usim_boot(void);

/* Returns a random number below nr, 1 or more, drawn from the seed. */
unsigned usim_random(unsigned nr);

/* Returns the time since the start of the run, by no host's clock. */
utime_ns usim_time(void);

/* Adds a line to the story, in the column of the caller's host. */
void usim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Fails the run. Does not return. */
void usim_fail(const char *format, ...)
	__attribute__((format(printf, 1, 2), noreturn));

#define USIM_CHECK(x)	((x) ? (void)0 :				\
	usim_fail("%s:%d: %s", __FILE__, __LINE__, #x))

/*
 * Returns 1 now and then, in runs that have drawn this name. For a rare path of
 * a program: a timeout at once, a buffer of one byte. Outside of a run always 0.
 * Names have up to 79 characters, and a program has up to 64 of them.
 */
int usim_maybe(const char *name);

/*
 * Notes whether cond is true. A search in which it never was true has failed,
 * even if all seeds have passed, since a state was not reached.
 */
void usim_sometimes(int cond, const char *name);

#ifdef __cplusplus
}
#endif

#endif /* USIM_H */
