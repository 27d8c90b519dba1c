/* SPDX-License-Identifier: MIT */
/* usim.c: a simulated world: its time, its chance, its hosts. */

/*
 * OVERVIEW
 *
 * The simulator is a kernel for hosts that are threads. It lies below the names
 * of libc, as the program's own objects call them, and above lib/wait/: a thread
 * that has to wait makes a record (uwait.h), as a thread that waits for a lock.
 *
 *	the program	read()  connect()  fsync()  clock_gettime()
 *	                   |  sim.flags: the linker's --wrap
 *	snames.c	the names of libc, and of calls that are refused
 *	snfile.c snfolder.c sstdio.c	names for files, folders, streams
 *	snhost.c ssignal.c	clocks, chance, names of hosts; signals
 *	sio.c sserve.c sown.c	calls and servers of lib/io/; a host's own scheduler
 *	scalls.c	calls that wait
 *	sfile.c		descriptors, waits, pipes, poll, epoll
 *	snet.c sunix.c sdisk.c sevent.c	sockets; files; counters, timers
 *	sflow.c stcp.c sudp.c soption.c	parts of sockets
 *	swalk.c spath.c sopen.c smap.c	parts of the disk
 *	sfault.c	faults of links, disks, clocks and hosts
 *	usim.c		events, chance, threads, hosts, the end of a run
 *	sseal.c		what is not simulated ends the run
 *	lib/wait/, rr	threads, virtual time
 *
 *	ssearch.c	seeds, processes, shrinking: outside of the runs
 *	spage.c		the story of a run as a page
 *	sreal.c		the same hosts on this machine: nothing is simulated
 *
 * Events are calls at a point in virtual time, such as a segment that arrives. A
 * thread that begins to wait while no other can run lets time go on, and runs
 * events until some thread can run. So does the dispatcher after a thread that has
 * ended. One thread belongs to no host, the judge. It waits until all clients have
 * ended or the time is over, and ends the process.
 *
 *	host's thread	sim_at(now + latency, deliver) ---> heap of events
 *	before_wait()	time goes on to the first, calls deliver()
 *	deliver()	puts the bytes into the other socket, sim_changed()
 *	sim_changed()	ends the waits of threads for that socket
 *
 * CHANCE
 *
 * Streams are drawn from the seed, a counter each. Draws of the program do not
 * shift draws of the network, and a fault that is left out shifts neither
 * the plan nor the program. It does change what happens, and so, later, how
 * often each stream is drawn: a seed with a mask is a test case of its own.
 * All is computed in integers, so that builds and machines agree.
 *
 * THE END OF A HOST
 *
 * A thread that waits is a slice on the heap and a record in some queue. It is
 * never unwound: a crashed machine runs no clean-up. Its boot is marked dead,
 * and its threads are frozen one by one when their waits end: uwait_watch calls
 * us in the thread after each wait, where we let it wait until the end. So a dead
 * thread runs nothing of the program. Its memory and its locks were its host's,
 * and no other host uses them. The memory comes back when the process
 * of the run ends.
 *
 * SPEED
 *
 * A run is waits, and README.md has the parts of one. Each call of a host and each
 * event needs the time, the thread that called last and the hash, so these are inline
 * in sim.h. Blocks that live for an event, segments and changes of files, are kept by
 * their size, since malloc() took a tenth of the instructions. No part is large, so
 * the number of waits bounds a run.
 *
 * INVARIANTS
 *
 * V1. All runs on one processor, and no native thread of the program takes part,
 *     so the kernel needs no locks. It changes nothing over a wait but what it
 *     looks at again after the wait.
 * V2. Nothing here asks the outside world: time, chance and addresses of memory
 *     have no influence on what happens.
 * V3. A thread whose boot is dead returns from no wait.
 * V4. Only events and calls of hosts change the world. Each is mixed into the
 *     hash with its time, so equal hashes mean equal runs.
 *
 * REJECTED
 *
 * A simulation below lib/io/, where the library's own calls become the simulated
 * calls: it needs hooks in lib/io/, lib/proc/ and lib/wait/, which all programs would pay.
 * Objects for -flto: 3 % faster.
 * Wakes by file instead of by boot in poll(): hosts have few threads. Unwinding
 * the threads of a crashed host: destructors would send and write.
 */

#include "usim.h"
#include "sim.h"
#include "rr.h"
#include "ucall.h"
#include "uscope.h"
#include "uthread.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BUCKETS		256	/* of threads */
/* Sanitizers see each block. */
#if defined(__SANITIZE_ADDRESS__)
#define KEEPS_BLOCKS	false
#else
#define KEEPS_BLOCKS	true
#endif
#define PAUSE		UTIME_S	/* before a host that has ended boots */
#define COLUMN		20	/* of the story */

struct usim_world  sim_world;
struct sim_report *sim_report;
struct sim_host    sim_hosts[USIM_HOSTS + 1];
int                sim_host_nr;
bool               sim_is_on;
bool               sim_is_well;
bool               sim_is_real;
utime_ns           sim_time;
long               sim_calls;
struct sim_last    sim_last;

/* A call at a point in time. Equal times: in the order of numbers. */
struct event {
	utime_ns e_at;
	uint64_t e_number;
	void   (*e_f)(void *);
	void    *e_arg;
};

/* A thread of a host. */
struct member {
	struct member   *m_next;	/* in its bucket */
	const void      *m_stack;	/* its struct ustack */
	struct sim_boot *m_boot;
	void           (*m_f)(void *);
	void            *m_arg;
};

static struct {
	uint64_t          w_seed;
	uint64_t          w_streams[DRAW_STREAMS];
	struct event     *w_events;		/* a heap */
	size_t            w_event_nr, w_event_room;
	uint64_t          w_event_number;
	struct rr_thread *w_judge;
	struct ustack  *(*w_next)(struct usched *s);	/* rr's */
	struct member    *w_members[BUCKETS];
	uint64_t          w_mask;		/* of faults */
	bool              w_story;
	bool              w_in_setup;
	int               w_clients;		/* that have not ended */
	utime_ns          w_futures_at;
	int               w_futures;		/* 0: none are tried */
	utime_ns          w_start;		/* of a run for real */
} world;

/* Chance and time. */

uint64_t sim_draw(enum sim_stream stream)
{
	return sim_mix(world.w_streams[stream] += 0x9e3779b97f4a7c15u);
}

unsigned sim_below(enum sim_stream stream, unsigned nr)
{
	return (unsigned)((sim_draw(stream) >> 32) * nr >> 32);
}

/* Most lengths are near from: a product of three numbers below 1. */
utime_ns sim_length(enum sim_stream stream, utime_ns from, utime_ns to)
{
	uint64_t draw = sim_draw(stream);
	uint64_t part = (draw & 0xffff) * (draw >> 16 & 0xffff) >> 16;

	part = part * (draw >> 32 & 0xffff) >> 16;
	return to <= from ? from :
		from + (utime_ns)((uint64_t)((to - from) >> 16) * part);
}

/* Returns unow() at the start of the run. */
static utime_ns start_time(void)
{
	return sim_is_real ? world.w_start : UTIME_VIRTUAL;
}

utime_ns usim_time(void)
{
	return unow() - start_time();
}

void *sim_alloc(size_t size)
{
	void *block = calloc(1, size);

	if (block == NULL)
		usim_fail("no memory for the simulation");
	return block;
}

/* Small blocks that are free, by their size in units. */
#define UNIT		64
#define UNITS_MOST	16

static void *blocks[UNITS_MOST + 1];

void *sim_block(size_t size)
{
	size_t units = (size + UNIT - 1) / UNIT;
	void **block = KEEPS_BLOCKS && units <= UNITS_MOST ? blocks[units] : NULL;

	if (block != NULL) {
		blocks[units] = *block;
		return block;
	}
	block = malloc(units * UNIT);
	if (block == NULL)
		usim_fail("no memory for the simulation");
	return block;
}

void sim_block_free(void *block, size_t size)
{
	size_t units = (size + UNIT - 1) / UNIT;

	if (!KEEPS_BLOCKS || units > UNITS_MOST) {
		free(block);
		return;
	}
	*(void **)block = blocks[units];
	blocks[units] = block;
}

void sim_hash_bytes(const void *data, size_t size)
{
	const unsigned char *at = data;
	uint64_t sum = size;
	size_t i;

#pragma GCC unroll 4
	for (i = 0; i < size; i++)
		sum = (sum ^ at[i]) * 0x100000001b3u;
	sim_hash(sum);
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
static __attribute__((noreturn)) void quit(void)
{
	sim_report->p_time  = usim_time();
	sim_report->p_ended = true;
	fflush(stdout);
	_exit(0);
}

void usim_fail(const char *format, ...)
{
	const struct sim_boot *b = sim_caller();
	char why[200];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof why, format, args);
	va_end(args);
	if (!sim_is_on && !sim_is_real) {
		fprintf(stderr, "usim: %s\n", why);
		exit(2);
	}
	snprintf(sim_report->p_why, sizeof sim_report->p_why, "%s%s%s",
		 b != NULL ? b->b_host->h_name : "", b != NULL ? ": " : "", why);
	sim_report->p_failed = true;
	sim_story(NULL, "FAILED  %s", sim_report->p_why);
	quit();
}

void sim_too_busy(void)
{
	usim_fail("%d calls, and none of them waits", SIM_BUSY);
}

/* Events. */

static bool is_before(const struct event *a, const struct event *b)
{
	return a->e_at != b->e_at ? a->e_at < b->e_at :
		a->e_number < b->e_number;
}

static void event_put(struct event e)
{
	size_t i = world.w_event_nr++;
	struct event *heap = world.w_events;

	for (; i > 0 && is_before(&e, &heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = e;
}

static struct event event_get(void)
{
	struct event *heap = world.w_events;
	struct event first = heap[0], last = heap[--world.w_event_nr];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < world.w_event_nr) {
		if (child + 1 < world.w_event_nr &&
		    is_before(&heap[child + 1], &heap[child]))
			child++;
		if (!is_before(&heap[child], &last))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = last;
	return first;
}

void sim_at(utime_ns at, void (*f)(void *), void *arg)
{
	struct event e = { at, world.w_event_number++, f, arg };
	size_t room = world.w_event_room * 2 + 64;

	if (world.w_event_nr == world.w_event_room) {
		world.w_events = realloc(world.w_events, room * sizeof e);
		if (world.w_events == NULL)
			usim_fail("no memory for the simulation");
		world.w_event_room = room;
	}
	event_put(e);
}

/*
 * Lets time go on to the first event, or to the first deadline of a thread, if that
 * is sooner. False: there is neither. A sleep of the processor would do the same for
 * ten times the price.
 */
static bool time_passes(void)
{
	struct uwait_base *waits = &uproc_of((struct uproc_thread *)world.w_judge)->p_waits;
	utime_ns due = uwait_due(waits), at = UNEVER;

	if (world.w_event_nr > 0)
		at = world.w_events[0].e_at + UTIME_VIRTUAL;
	if (due == UNEVER && at == UNEVER)
		return false;
	utime_jump(due < at ? due : at);
	sim_time = unow() - UTIME_VIRTUAL;
	sim_calls = 0;
	if (due <= at)
		uwait_look(waits);
	return true;
}

/* Returns whether a thread can run, or w has ended. */
static bool is_ready(struct uproc *p, const struct uwait *w)
{
	return !uproc_queue_empty(&p->p_queue) || !uinbox_empty(&p->p_inbox) ||
		uwait_posted(&p->p_waits) ||
		(w != NULL && w->w_state != UWAIT_WAITS);
}

/*
 * Runs events until a thread can run; w: that is to wait for this, or NULL. The
 * caller belongs to no host meanwhile: sim_caller().
 */
static void drive(const struct uwait *w)
{
	struct uproc *p = uproc_of((struct uproc_thread *)world.w_judge);

	sim_last.l_drives = true;
	do
		while (world.w_event_nr > 0 && world.w_events[0].e_at <= sim_now()) {
			struct event e = event_get();

			e.e_f(e.e_arg);
		}
	while (!is_ready(p, w) && time_passes());
	sim_last.l_drives = false;
}

/* Stands before s_next() of rr: a thread has ended, or waits without a record. */
static struct ustack *next(struct usched *s)
{
	if (!is_ready(uproc_of((struct uproc_thread *)world.w_judge), NULL))
		drive(NULL);
	return world.w_next(s);
}

/* Threads. */

static struct member **bucket_of(const void *stack)
{
	return &world.w_members[((uintptr_t)stack >> 4) * 31 % BUCKETS];
}

/* Notes the boot of a thread for sim_caller(). NULL: it belongs to no host. */
static struct sim_boot *boot_of(const void *stack)
{
	const struct member *m = *bucket_of(stack);

	while (m != NULL && m->m_stack != stack)
		m = m->m_next;
	if (m == NULL)
		return NULL;
	sim_last.l_stack = stack;
	return sim_last.l_boot = m->m_boot;
}

struct sim_boot *sim_caller_find(void)
{
	const void *stack = sim_is_real || (sim_is_on && !sim_last.l_drives) ?
		ustack_self() : NULL;

	return stack != NULL ? boot_of(stack) : NULL;
}

/* For real the calls of a host are libc's, in the folder of the host. */
struct sim_boot *sim_self_real(void)
{
	const struct sim_boot *b = sim_caller();

	if (b != NULL)
		sim_real_enter(b->b_host);
	return NULL;
}

/* Keeps the caller, whose boot is dead, until the process ends. */
static __attribute__((noreturn)) void freeze(void)
{
	for (;;)
		(void)rr_wait();
}

/* Lets a thread of b run no more, if that is dead, or not yet. */
static void hold(const struct sim_boot *b)
{
	utime_ns until;

	if (b->b_dead)						/* V3 */
		freeze();
	until = b->b_host->h_paused == NULL ? 0 : sim_paused(b->b_host);
	if (until > 0)
		sim_sleep(until);	/* and after_wait() is called again */
}

/* Called in each thread after each wait. */
static void after_wait(const struct uwait *w)
{
	const struct sim_boot *b = boot_of(w->w_stack);

	if (b != NULL)
		hold(b);
}

/*
 * Called in each thread before each wait. If no other thread can run, this lets time
 * go on, at the price of no switch.
 */
static void before_wait(const struct uwait *w, utime_ns until)
{
	(void)until;
	if (sim_is_on && !sim_last.l_drives)
		drive(w);
}

static struct uwait_watch watch = { .v_begin = before_wait, .v_end = after_wait };

static void member_run(void *arg)
{
	struct member *m = arg, **at = bucket_of(ustack_self());

	m->m_stack = ustack_self();
	m->m_next = *at;
	*at = m;
	hold(m->m_boot);
	m->m_f(m->m_arg);
	for (at = bucket_of(m->m_stack); *at != m; at = &(*at)->m_next)
		;
	*at = m->m_next;
	if (sim_last.l_stack == m->m_stack)
		sim_last.l_stack = NULL;
	free(m);
}

static struct member *member_make(struct sim_boot *b, void (*f)(void *), void *arg)
{
	struct member *m = sim_alloc(sizeof *m);

	m->m_boot = b;
	m->m_f = f;
	m->m_arg = arg;
	return m;
}

struct rr_thread *sim_thread(struct sim_boot *b, void (*f)(void *), void *arg)
{
	struct member *m = member_make(b, f, arg);
	struct rr_thread *made = rr_thread_init(member_run, m);

	if (made == NULL)
		free(m);
	return made;
}

void sim_sleep(utime_ns until)
{
	(void)u_sleep(until + UTIME_VIRTUAL);
}

/* A thread of the program's own, which has a handle: it joins its host. */

struct made {
	struct sim_boot *d_boot;
	void          *(*d_f)(void *);
	void            *d_arg;
	void            *d_result;
};

static void made_call(void *arg)
{
	struct made *d = arg;

	d->d_result = d->d_f(d->d_arg);
}

static void *made_run(void *arg)
{
	struct made *d = arg;
	void *result;

	member_run(member_make(d->d_boot, made_call, d));
	result = d->d_result;
	free(d);
	return result;
}

int sim_uthread_make_by(struct uthread **t, void *(*f)(void *), void *arg,
			const char *name, int flags)
	__asm__("__wrap_uthread_make_by");
int sim_uthread_make(struct uthread **t, void *(*f)(void *), void *arg,
		     const char *name) __asm__("__wrap_uthread_make");

int sim_uthread_make_by(struct uthread **t, void *(*f)(void *), void *arg,
			const char *name, int flags)
{
	struct sim_boot *b = sim_caller();
	struct made *d;
	int rc;

	if (b == NULL)
		return uthread_make_by(t, f, arg, name, flags);
	d = sim_alloc(sizeof *d);
	*d = (struct made) { b, f, arg, NULL };
	rc = uthread_make_by(t, made_run, d, name, flags);
	if (rc != 0)
		free(d);
	return rc;
}

int sim_uthread_make(struct uthread **t, void *(*f)(void *), void *arg,
		     const char *name)
{
	return sim_uthread_make_by(t, f, arg, name, 0);
}

int sim_usched_go(void (*f)(void *), void *arg) __asm__("__wrap_usched_go");

int sim_usched_go(void (*f)(void *), void *arg)
{
	struct sim_boot *b = sim_caller();

	if (b == NULL)
		usim_fail("usched_go() is called by no host");
	return sim_thread(b, f, arg) != NULL ? 0 : -ENOMEM;
}

/* A thread of a scope. */

struct gone {
	struct sim_boot *g_boot;
	int            (*g_f)(void *);
	void            *g_arg;
	int              g_result;
};

static void gone_call(void *arg)
{
	struct gone *g = arg;

	g->g_result = g->g_f(g->g_arg);
}

static int gone_run(void *arg)
{
	struct gone *g = arg;
	int result;

	member_run(member_make(g->g_boot, gone_call, g));
	result = g->g_result;
	free(g);
	return result;
}

int sim_uscope_go_by(struct uscope *s, int (*f)(void *), void *arg,
		     uscope_make *make) __asm__("__wrap_uscope_go_by");
int sim_uscope_go(struct uscope *s, int (*f)(void *), void *arg)
	__asm__("__wrap_uscope_go");

int sim_uscope_go_by(struct uscope *s, int (*f)(void *), void *arg,
		     uscope_make *make)
{
	struct sim_boot *b = sim_caller();
	struct gone *g;
	int rc;

	if (b == NULL)
		return uscope_go_by(s, f, arg, make);
	g = sim_alloc(sizeof *g);
	*g = (struct gone) { b, f, arg, 0 };
	rc = uscope_go_by(s, gone_run, g, make);
	if (rc != 0)
		free(g);
	return rc;
}

int sim_uscope_go(struct uscope *s, int (*f)(void *), void *arg)
{
	return sim_uscope_go_by(s, f, arg, NULL);
}

/* What would block a native thread, blocks the caller: its calls are simulated. */
int sim_ucall(void (*f)(void *), void *arg) __asm__("__wrap_ucall");

int sim_ucall(void (*f)(void *), void *arg)
{
	if (sim_self() == NULL)
		return ucall(f, arg);
	f(arg);
	return 0;
}

/* Hosts. */

static int host_add(const char *name, int (*f)(void *), void *arg, bool client)
{
	struct sim_host *h;

	if (!world.w_in_setup || f == NULL)
		return -EINVAL;
	if (sim_host_nr == USIM_HOSTS)
		return -EAGAIN;
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

static void host_run(void *boot)
{
	struct sim_boot *b = boot;

	b->b_main = ustack_self();
	sim_exit(b, b->b_host->h_f(b->b_host->h_arg));
}

static void host_boot(void *host)
{
	struct sim_host *h = host;
	struct sim_boot *b = sim_alloc(sizeof *b);

	b->b_host = h;
	b->b_number = ++h->h_boots;
	b->b_umask = 022;
	strcpy(b->b_folder, "/");
	h->h_boot = b;
	h->h_is_down = false;
	h->h_port = 32768;
	h->h_start = sim_now();
	sim_hash((uint64_t)(h->h_number << 16 | b->b_number));
	sim_story(h, b->b_number == 1 ? "boots" : "boots again");
	if (sim_thread(b, host_run, b) == NULL)
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
	for (fd = 0; fd < SIM_FDS; fd++)
		if (b->b_fds[fd] != NULL && --b->b_fds[fd]->f_refs == 0)
			b->b_fds[fd]->f_ops->o_crash(b->b_fds[fd]);
	lost = sim_disk_crash(h->h_disk);
	sim_hash((uint64_t)lost);
	sim_story(h, "crashes (%s), %ld writes lost or torn", why, lost);
	sim_at(sim_now() + down, host_boot, h);
	if (sim_self() == b)
		freeze();
}

void sim_exit(struct sim_boot *b, int status)
{
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
	for (fd = 0; fd < SIM_FDS; fd++)
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
		rr_wake(world.w_judge);
	freeze();
}

int usim_self(void)
{
	const struct sim_boot *b = sim_caller();

	return b != NULL ? b->b_host->h_number : 0;
}

int usim_boot(void)
{
	const struct sim_boot *b = sim_caller();

	return b != NULL ? b->b_number : 0;
}

unsigned usim_random(unsigned nr)
{
	return sim_below(DRAW_PROGRAM, nr);
}

/* Names that programs give to states. */

/* Returns the name, noted for the report; NULL: there are too many. */
static struct sim_name *name_of(const char *name, bool is_maybe)
{
	struct sim_name *n = sim_report->p_names;
	struct sim_name *end = n + sim_report->p_name_nr;

	for (; n < end; n++)
		if (n->n_is_maybe == is_maybe &&
		    strncmp(n->n_name, name, sizeof n->n_name - 1) == 0)
			return n;
	if (sim_report->p_name_nr == SIM_NAMES)
		usim_fail("more than %d names", SIM_NAMES);
	sim_report->p_name_nr++;
	snprintf(n->n_name, sizeof n->n_name, "%s", name);
	n->n_is_maybe = is_maybe;
	return n;
}

/* A run draws, by the name, whether the name ever says yes, and how often. */
int usim_maybe(const char *name)
{
	uint64_t draw = world.w_seed;
	struct sim_name *n;
	const char *at;
	bool yes;

	if (!sim_is_on || sim_self() == NULL)
		return 0;
	sim_step(sim_self()->b_host, AT_STATE);
	for (at = name; *at != 0; at++)
		draw = sim_mix(draw + (unsigned char)*at);
	n = name_of(name, true);
	n->n_asked++;
	yes = sim_below(DRAW_PROGRAM, 4u << (draw >> 8) % 6) == 0 && draw % 2 == 0;
	n->n_true += yes;
	return yes;
}

void usim_sometimes(int cond, const char *name)
{
	struct sim_name *n;

	if (!sim_is_on || sim_self() == NULL)
		return;
	n = name_of(name, false);
	n->n_asked++;
	n->n_true += cond != 0;
	if (cond)
		sim_step(sim_self()->b_host, AT_STATE);
}

/* Futures. */

void sim_futures_at(utime_ns at, int nr)
{
	world.w_futures_at = at;
	world.w_futures = nr;
}

static void seed_set(uint64_t seed)
{
	int i;

	world.w_seed = sim_mix(seed + 1);
	for (i = 0; i < DRAW_STREAMS; i++)
		world.w_streams[i] = sim_mix(world.w_seed + (uint64_t)i + 1);
}

/*
 * Forks without the handlers of pthread_atfork(): the library's would make the
 * child of a thread useless, since other native threads may have held locks. Here
 * are none (V1), so all of the copy is whole.
 */
static pid_t copy(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

/* Goes on in a copy of this process with another seed. Returns its end. */
static bool future_fails(int number)
{
	static struct sim_report before;
	pid_t pid;
	int status = 0;

	before = *sim_report;
	pid = copy();
	if (pid == 0) {
		sim_is_well = true;
		seed_set(world.w_seed + (uint64_t)number);
		return false;
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			pid = -1;
	if (pid < 0)
		usim_fail("no process for a future");
	status = sim_report->p_failed || !sim_report->p_ended;
	*sim_report = before;
	return status;
}

/* Each future is a process that returns from here, with sim_is_well. */
static void futures(void *unused)
{
	int number, failed = 0;

	(void)unused;
	for (number = 1; number <= world.w_futures; number++) {
		failed += future_fails(number);
		if (sim_is_well)
			return;
	}
	sim_report->p_futures = failed;
	quit();
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
		world.w_next = s->s_next;
		s->s_next = next;
	}
	while (world.w_clients > 0 && usim_time() < end)
		(void)u_wait_until(end + start_time());
	for (i = 1; i <= sim_host_nr; i++)
		if (sim_hosts[i].h_is_client && !sim_hosts[i].h_ended)
			usim_fail("%s has not ended, though all was well for "
				  "%lld s", sim_hosts[i].h_name,
				  (long long)(sim_world.w_quiet / UTIME_S));
	sim_story(NULL, "passed");
	quit();
}

static void world_begin(void)
{
	int i;

	sim_is_on = true;
	sim_page_hosts();
	sim_plan(world.w_mask);
	for (i = 1; i <= sim_host_nr; i++)
		sim_at(0, host_boot, &sim_hosts[i]);
	if (world.w_futures > 0)
		sim_at(world.w_futures_at, futures, NULL);
}

/* Lets setup() add hosts. */
static void world_make(usim_setup *setup, uint64_t seed, bool story)
{
	seed_set(seed);
	world.w_story = story;
	sim_world = (struct usim_world) {
		.w_run = 20 * UTIME_S, .w_quiet = 40 * UTIME_S,
		.w_latency_min = 200 * UTIME_US, .w_latency_max = 20 * UTIME_MS,
		.w_sync_max = 5 * UTIME_MS, .w_faults = 12,
	};
	world.w_in_setup = true;
	setup(&sim_world);
	world.w_in_setup = false;
	if (rr_init(1, 0) != 0)
		usim_fail("the scheduler does not start");
	uwait_watch_add(&watch);
}

static __attribute__((noreturn)) void world_run(void)
{
	world.w_judge = rr_thread_init(judge, NULL);
	if (world.w_judge == NULL || rr_start() != 0)
		usim_fail("the scheduler does not start");
	(void)rr_fini();
	usim_fail("all threads wait for ever");
}

void sim_run(usim_setup *setup, uint64_t seed, uint64_t mask, bool story)
{
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
