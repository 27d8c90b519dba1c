/* SPDX-License-Identifier: MIT */
/* sim.h: shared by the files of the simulated kernel. Private. */

#ifndef SIM_H
#define SIM_H

#include "usim.h"
#include "compiler.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

enum {
	SIM_FDS    = 256,	/* of a host */
	SIM_FAULTS = 64,
	SIM_NAMES  = 64,	/* of usim_maybe() and usim_sometimes() */
	SIM_BENDS  = 6,		/* of a course */
	SIM_MARKS  = 1024,	/* of a run */
	SIM_TEXT   = 256,	/* of a course, at most */
	SIM_FIRST  = 3,		/* descriptors below are not simulated */
	SIM_RIGHTS = 16,	/* descriptors in a message of a Unix socket */
	SIM_PATH   = 4352,	/* the longest path of a file, and a zero */
	SIM_PART   = 255,	/* the longest name in a path */
	SIM_O_PATH = 010000000	/* O_PATH, which not all headers have */
};

/* Chance has streams, so that more draws of one leave the others alone. */
enum sim_stream { DRAW_PLAN, DRAW_NET, DRAW_DISK, DRAW_PROGRAM, DRAW_STREAMS };

/* From a time on, a run is drawn from another seed. */
struct sim_bend {
	utime_ns be_at;
	int      be_host;	/* faults come soon, and mostly there; 0: as a plan
				   of this seed has them */
	uint64_t be_seed;
};

/* All that chance of a run follows from: a seed, and bends in order of time. */
struct sim_course {
	uint64_t        co_seed;
	int             co_nr;
	struct sim_bend co_bends[SIM_BENDS];
};

/* What a run has reached: smark.c. */
enum sim_mark_kind {
	MARK_STATE,	/* a host goes from a state to another */
	MARK_ACROSS,	/* a host comes to a state while another is in one */
	MARK_FAULT,	/* a fault begins in a state, a state comes after a fault */
	MARK_MESSAGE	/* what is sent in a state arrives in another */
};

struct sim_mark {
	uint32_t           mk_id;	/* 0: no mark */
	enum sim_mark_kind mk_kind;
	int                mk_host;	/* a server that had a part, or 0 */
	utime_ns           mk_at;	/* when it was reached first */
};

/* Kinds of faults: sfault.c. */
enum sim_kind {
	FAULT_CRASH,	/* a host, for some time */
	FAULT_CUT,	/* the link from a host to another, one way */
	FAULT_ISOLATE,	/* all links of a host */
	FAULT_SWIZZLE,	/* some hosts, isolated one after another */
	FAULT_SPLIT,	/* hosts and clients in groups */
	FAULT_SLOW,	/* all links and syncs of a host take 100 times as long */
	FAULT_NARROW,	/* a host's line carries few bytes a second */
	FAULT_PAUSE,	/* the threads of a host stand still */
	FAULT_RESET,	/* all connections of a host are reset */
	FAULT_FORGET,	/* a box forgets them: RST comes to who sends next */
	FAULT_LOSS,	/* datagrams are lost, doubled, late */
	FAULT_CLOCK,	/* the wall clock of a host jumps */
	FAULT_DRIFT,	/* the clocks of a host run fast or slow */
	FAULT_FULL,	/* the disk of a host has no room: ENOSPC */
	FAULT_EIO,	/* the n-th sync of a file from then on fails: EIO */
	FAULT_LATE,	/* a host boots late */
	FAULT_LOST,	/* a host out of the core is isolated for good */
	/* These come only if they are named: sdamage.c. */
	FAULT_UNREAD,	/* a read of a file fails: EIO */
	FAULT_DAMAGE,	/* a read finds a damaged sector */
	FAULT_STALE,	/* a read finds an old sector */
	FAULT_ASTRAY,	/* a write lands at another place */
	FAULT_EMPTY,	/* a crash after which the disk is empty */
	FAULT_KINDS
};

/* Returns whether a kind comes only if it is named. */
static inline bool sim_kind_lies(enum sim_kind kind)
{
	return kind >= FAULT_UNREAD;
}

/* A fault begins at its time, or waits for the n-th step of a host. */
enum sim_step {
	AT_TIME,
	AT_DISK,	/* before and after a write or sync */
	AT_SEND,	/* before and after a send to another host */
	AT_STATE,	/* usim_maybe() is asked, usim_sometimes() is true */
	STEPS
};

/* A fault may be bound to that before it in the list. */
enum sim_bound {
	FREE,
	SAME,		/* to its host */
	OTHER		/* another host than its */
};

struct sim_fault {
	enum sim_kind f_kind;
	enum sim_bound f_bound;
	bool          f_from_end;	/* of the fault before it; else its begin */
	utime_ns      f_gap;		/* since then */
	enum sim_step f_step;
	bool          f_names;		/* states: some names only */
	const char   *f_state;		/* at which it has begun, or NULL */
	int           f_jump;		/* ms of the wall clock, of a crash or pause */
	int           f_nth, f_left;	/* the step it waits for; steps until then */
	int           f_host;		/* number, from 1 on; 0: that which has
					   sent most, or which makes the step */
	int           f_to;		/* of a cut */
	int           f_nr;		/* ms, ppm, bytes a second, syncs; of a cut:
					   odd, if it is to f_host */
	uint64_t      f_draw;		/* of a swizzle */
	utime_ns      f_at;		/* since the start; if it is bound: about */
	utime_ns      f_begin;		/* when it has begun */
	utime_ns      f_length;
	int           f_met;		/* the host it began at, if f_host is 0 */
	bool          f_on;		/* by the mask of the command line */
	long          f_hits;		/* what it has changed */
	char          f_text[200];
};

/* What hosts have done, without which some kinds of faults cannot hit. */
enum sim_use {
	USE_LINK,	/* something was on its way to another host */
	USE_STREAM,	/* a connection to another host */
	USE_DATAGRAM,
	USE_WALL,	/* the wall clock was read */
	USE_CLOCK,	/* a clock was read, or a sleep */
	USE_WRITE,	/* to a file */
	USE_SYNC,	/* of a file */
	USE_READ,	/* of bytes of a file */
	USE_PEER,	/* there are two hosts */
	USE_SPARE	/* by w_core a host may be lost */
};

/* A name of usim_maybe() or usim_sometimes(). */
struct sim_name {
	char n_name[80];
	bool n_is_maybe;
	long n_asked;
	long n_true;
};

/* What a run leaves, in memory that it shares with its parent. */
struct sim_report {
	struct sim_course p_course;
	bool             p_ended;	/* the run has come to its end */
	bool             p_failed;
	bool             p_is_late;	/* since it took too much cpu time */
	char             p_why[500];
	uint64_t         p_hash;
	utime_ns         p_time;
	utime_ns         p_limit;	/* of --real: when it must have ended */
	int              p_fault_nr;
	struct sim_fault p_faults[SIM_FAULTS];
	unsigned         p_uses;	/* bits of enum sim_use */
	int              p_futures;	/* of --when, that have failed */
	int              p_name_nr;
	struct sim_name  p_names[SIM_NAMES];
	utime_ns         p_run;		/* w_run */
	int              p_mark_nr;
	struct sim_mark  p_marks[SIM_MARKS];	/* a table by mk_id */
};

struct sim_host;

/* A host from its boot to its end. Never freed: dead threads point here. */
struct sim_boot {
	struct sim_host *b_host;
	int              b_number;
	bool             b_dead;	/* its threads run no more */
	bool             b_crashed;
	struct sim_file *b_fds[SIM_FDS];
	bool             b_on_exec[SIM_FDS];	/* FD_CLOEXEC */
	int              b_fd_end;	/* from here on none was ever open */
	int              b_nested;	/* epolls that other epolls ask */
	struct sim_wait *b_waits;	/* threads that wait for files */
	const void      *b_main;	/* its first thread; NULL: that has ended */
	struct sim_signals *b_signals;	/* of ssignal.c, or NULL */
	struct sim_own  *b_own;		/* its scheduler, of sown.c, or NULL */
	struct sim_found *b_found;	/* of gethostbyname(), or NULL */
	struct sim_machine *b_machine;	/* of smachine.c, or NULL */
	struct sim_last_call *b_at_exit, *b_at_quick_exit;
	int              b_fd_nr;	/* RLIMIT_NOFILE: descriptors are below */
	int              b_thread_nr;	/* that have been made */
	int              b_live_nr;	/* that have not ended */
	int              b_log_hidden;	/* priorities of syslog() */
	int              b_nice;	/* what nice() has given up */
	bool             b_users_read, b_groups_read;	/* getpwent(), getgrent() */
	char             b_folder[SIM_PATH];	/* where it works */
	mode_t           b_umask;
};

struct sim_host {
	const char      *h_name;
	int            (*h_f)(void *);
	void            *h_arg;
	int              h_number;	/* from 1 on */
	bool             h_is_client;
	bool             h_ended;	/* for good */
	bool             h_is_down;	/* crashed, and has not booted */
	int              h_boots;
	struct sim_boot *h_boot;	/* NULL: it runs nothing */
	struct sim_disk *h_disk;
	unsigned short   h_port;	/* the next that bind() chooses */
	utime_ns         h_clock;	/* wall clock ahead of the true time */
	utime_ns         h_start;	/* of CLOCK_MONOTONIC */
	utime_ns         h_late;	/* its first boot */
	struct sim_fault *h_eio;	/* armed, or NULL */
	int              h_eio_nr;	/* syncs until it happens */
	struct sim_fault *h_lies;	/* of sdamage.c, or NULL */
	int              h_lies_nr;	/* reads or writes until it happens */
	struct sim_fault *h_jump;	/* of the wall clock, or NULL */
	struct sim_fault *h_drift;	/* or NULL */
	unsigned         h_sent;	/* lately: sfault.c */
	uint64_t         h_turn;
	utime_ns         h_in, h_out;	/* until when its line carries */
	/* The faults that last, or NULL. */
	struct sim_fault *h_isolated, *h_slow, *h_loss, *h_full;
	struct sim_fault *h_swizzle, *h_narrow, *h_paused;
	struct sim_fault *h_cut[USIM_HOSTS + 1];
};

/*
 * An open file, to which descriptors point. Calls return -EAGAIN where a thread
 * would have to wait; snames.c waits. A call may be NULL: -EINVAL.
 */
struct sim_file_ops {
	const char *o_name;
	ssize_t (*o_read)(struct sim_file *f, void *buf, size_t size, int flags);
	ssize_t (*o_write)(struct sim_file *f, const void *buf, size_t size);
	int     (*o_poll)(struct sim_file *f);	/* bits of poll() */
	void    (*o_close)(struct sim_file *f);	/* closes f, and frees it */
	/* The host has crashed: no word to the other side. */
	void    (*o_crash)(struct sim_file *f);
	bool      o_whole;	/* a blocking write goes on until all is written */
	const struct sim_socket_ops *o_socket;	/* NULL: it is no socket */
};

/* Calls that only sockets have. Results are 0, a count, or -errno. */
struct sim_socket_ops {
	int     (*s_bind)(struct sim_file *f, const struct sockaddr *a, socklen_t n);
	int     (*s_listen)(struct sim_file *f, int backlog);
	int     (*s_accept)(struct sim_file *f, struct sim_file **out, int flags,
			    struct sockaddr *a, socklen_t *n);
	int     (*s_connect)(struct sim_file *f, const struct sockaddr *a,
			     socklen_t n);
	int     (*s_connected)(struct sim_file *f);	/* after a wait */
	int     (*s_shutdown)(struct sim_file *f, int how);
	void    (*s_name)(struct sim_file *f, struct sockaddr *a, socklen_t *n);
	int     (*s_peer)(struct sim_file *f, struct sockaddr *a, socklen_t *n);
	ssize_t (*s_send)(struct sim_file *f, const void *buf, size_t size,
			  const struct sockaddr *a, socklen_t n);
	ssize_t (*s_receive)(struct sim_file *f, void *buf, size_t size, int flags,
			     struct sockaddr *a, socklen_t *n);
	int     (*s_option)(struct sim_file *f, int level, int name,
			    const void *value, socklen_t n);
	int     (*s_option_get)(struct sim_file *f, int level, int name,
				void *value, socklen_t *n);
	int     (*s_readable)(struct sim_file *f);	/* FIONREAD */
	int     (*s_queued)(struct sim_file *f);	/* TIOCOUTQ; or NULL */
	int     (*s_unlisten)(struct sim_file *f);	/* takes no newcomers */
	/* Begins a close. How long that may wait, while f_lingers; NULL: never. */
	utime_ns (*s_linger)(struct sim_file *f);
};

struct sim_file {
	const struct sim_file_ops *f_ops;
	struct sim_boot           *f_boot;
	int                        f_refs;	/* descriptors */
	int                        f_held;	/* by threads that make a step */
	int                        f_flags;	/* O_NONBLOCK and so on */
	unsigned                   f_inputs, f_rooms;	/* edges of epoll */
	bool                       f_lingers;	/* what was sent is on its way */
	bool                       f_is_path;	/* O_PATH: few calls know it */
	utime_ns                   f_read_time;	/* SO_RCVTIMEO, or 0 */
	utime_ns                   f_write_time;
	int                        f_send_size, f_receive_size;	/* SO_SNDBUF; 0: not set */
};

/* Host n has the address 10.0.0.n. */
#define SIM_NETWORK	0x0a000000u

/* The number of a host's user, and of its group. */
#define SIM_USER	1000

/* The wall clock at the start of a run: 2026-01-01. */
#define SIM_EPOCH	((utime_ns)1767225600 * UTIME_S)

/* Lengths and times, as libc has them. */
static inline struct timespec sim_spec_of(utime_ns ns)
{
	return (struct timespec) { ns / UTIME_S, ns % UTIME_S };
}

static inline utime_ns sim_ns_of(const struct timespec *t)
{
	return t->tv_sec * UTIME_S + t->tv_nsec;
}

static inline struct timeval sim_timeval_of(utime_ns ns)
{
	return (struct timeval) { ns / UTIME_S, ns % UTIME_S / UTIME_US };
}

static inline utime_ns sim_ns_of_timeval(const struct timeval *t)
{
	return t->tv_sec * UTIME_S + t->tv_usec * UTIME_US;
}

/* Returns the error of a socket, as -errno, and forgets it: it is told once. */
static inline int sim_take_error(int *error)
{
	int taken = *error;

	*error = 0;
	return -taken;
}

/* usim.c: hosts, the story, a run. */

extern struct usim_world  sim_world;
extern struct sim_report *sim_report;
extern struct sim_host    sim_hosts[USIM_HOSTS + 1];	/* from 1 on */
extern int                sim_host_nr;
extern bool               sim_is_on;			/* a run has begun */
extern bool               sim_is_well;			/* no more faults begin */
extern bool               sim_is_real;			/* hosts run for real */
extern struct rr_thread  *sim_judge;

/* Returns the name of the caller's host, and puts the time. NULL: it is in none. */
const char      *sim_caller_name(int64_t *at);
void             sim_story(const struct sim_host *h, const char *format, ...)
			__attribute__((format(printf, 2, 3)));
void             sim_crash(struct sim_host *h, utime_ns down, const char *why);
void             sim_exit(struct sim_boot *b, int status) NORETURN;
/* Does the same, but flushes no streams. */
void             sim_end(struct sim_boot *b, int status) NORETURN;
/* Ends the process of the run. */
void             sim_quit(void) NORETURN;
/* Runs one seed in this process, and ends the process. */
void             sim_run(usim_setup *setup, const struct sim_course *course,
			 uint64_t mask, bool story) NORETURN;
/* Does the same for real. */
void             sim_run_real(usim_setup *setup, uint64_t seed) NORETURN;

/* stime.c: events, and the time of a run. */

extern utime_ns          sim_time;			/* since the run began */
extern long              sim_calls;			/* since sim_time has changed */

#define SIM_BUSY	1000000		/* calls at one point in time */
#define SIM_SPINS	1000		/* of which the last may be in a loop */

void             sim_too_busy(void) NORETURN;

static inline utime_ns sim_now(void)
{
	return sim_time;
}

/* Counts a call that takes no time. */
static inline void sim_busy(void)
{
	if (++sim_calls > SIM_BUSY)
		sim_too_busy();
}

/*
 * Called before a call that does not wait says that there is nothing. After so many calls
 * at one point in time it is likely in a loop: then this lets as much time go on as they
 * take on a machine, and returns true. The caller looks again.
 */
bool             sim_spins(void);
void             sim_at(utime_ns at, void (*f)(void *), void *arg);
void             sim_sleep(utime_ns until);
/* Called by the judge: time goes on where no thread of s can run. */
void             sim_time_begin(struct usched *s);
void             sim_wait_begins(const struct uwait *w, utime_ns until);

/* smember.c: threads of hosts. */

/* The thread whose boot was asked for last; and whether events run. */
extern struct sim_last {
	const void      *l_stack;	/* its struct ustack, or NULL */
	struct sim_boot *l_boot;
	bool             l_drives;
} sim_last;

struct sim_boot *sim_caller_find(void);
struct sim_boot *sim_self_real(void);

/* Returns the boot of the caller; NULL: it is no thread of a host. */
static inline struct sim_boot *sim_caller(void)
{
	const void *stack = ustack_self();

	return stack != NULL && stack == sim_last.l_stack && !sim_last.l_drives ?
		sim_last.l_boot : sim_caller_find();
}

/* Does the same; NULL also for a host that runs for real. */
static inline struct sim_boot *sim_self(void)
{
	return sim_is_real ? sim_self_real() : sim_caller();
}

/* Makes a thread of a host. NULL: there is no memory. */
struct rr_thread *sim_thread(struct sim_boot *b, void (*f)(void *), void *arg);
/* Returns the number of the caller, a thread of b, as Linux has it. */
pid_t            sim_thread_number(const struct sim_boot *b);
/* Keeps the caller, whose boot is dead. */
void             sim_freeze(void) NORETURN;
void             sim_wait_ended(const struct uwait *w);

/* schance.c: chance, and the hash of a run. */

extern uint64_t          sim_seed;			/* of the run, mixed */

/* Is SplitMix64, as in utime.c. */
static inline uint64_t sim_mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static inline void sim_hash(uint64_t what)
{
	uint64_t z = sim_report->p_hash ^ what;

	sim_report->p_hash = sim_mix(z + 0x9e3779b97f4a7c15u + (uint64_t)sim_now());
}

void             sim_seed_set(uint64_t seed);
/* Lets a stream alone begin again, as by this seed. */
void             sim_stream_set(enum sim_stream stream, uint64_t seed);
uint64_t         sim_draw(enum sim_stream stream);
unsigned         sim_below(enum sim_stream stream, unsigned nr);
utime_ns         sim_length(enum sim_stream stream, utime_ns from, utime_ns to);
void             sim_hash_bytes(const void *data, size_t size);

/* sblock.c: memory. */

void            *sim_alloc(size_t size);
/* A block that is soon freed again, and was not set to zeros. */
void            *sim_block(size_t size);
void             sim_block_free(void *block, size_t size);

/* sfuture.c */

/* For a run to come: at this time it tries so many futures, and then it ends. */
void             sim_futures_at(utime_ns at, int nr);
/* Called as the run begins. */
void             sim_futures_begin(void);

/* sstdio.c */

void             sim_streams_end(const struct sim_boot *b);

/* spending.c: lists of signals that are pending. */

struct sim_pending;
void             sim_pending_add(struct sim_pending **list, const siginfo_t *info,
				 bool of_process);
/* Takes the first signal that is in the set; within false: that is not. */
bool             sim_pending_take(struct sim_pending **list, const sigset_t *set,
				  bool within, siginfo_t *to);
/* Returns whether there is a signal that is not in the set. */
bool             sim_pending_has(const struct sim_pending *list, const sigset_t *set);
void             sim_pending_drop(struct sim_pending **list, int signo);
void             sim_pending_set(const struct sim_pending *list, sigset_t *to);

/* ssignal.c */

/* Raises a signal in the calling thread. */
void             sim_signal(struct sim_boot *b, int signo);
/*
 * Delivers what is pending and not masked. 0: no handler has run. -EINTR, -ERESTART:
 * one has, without and with SA_RESTART.
 */
int              sim_signals_handle(struct sim_boot *b);
bool             sim_signals_pend(struct sim_boot *b);
/* Sets the mask that the caller has in a call, and ends it; mask NULL: nothing. */
struct sim_mask;
struct sim_mask *sim_mask_begin(struct sim_boot *b, const sigset_t *mask);
void             sim_mask_end(struct sim_boot *b, struct sim_mask *q);
int              sim_signal_watch(struct sim_boot *b, int signo);
int              sim_signal_unwatch(struct sim_boot *b, int signo);
int              sim_signal_wait(struct sim_boot *b, utime_ns until);

/* Waits until a watched signal has come, leaves it to others, and ends the watch. */
int              sim_signal_await(struct sim_boot *b, int signo);

/* sseal.c */

void             sim_seal(void);

/* scaller.c */

/* Called before runs begin. */
void             sim_caller_prepare(void);
/* Fails the run: a system call was made by the instruction there. */
void             sim_tell_caller(const char *call, uintptr_t at) NORETURN;

/* scpu.c */

#define SIM_TICKS	100		/* of times(), in a second */

/* Returns 0 if pid is the process of b, -ESRCH, -EINVAL. */
int              sim_own(const struct sim_boot *b, pid_t pid);

/* smachine.c: answers of the machine of a host, also if no host asks. */

struct utsname;
struct sysinfo;
struct rlimit;
void             sim_system_name(struct utsname *to);
void             sim_system_info(struct sysinfo *to);
void             sim_limit_usual(int what, struct rlimit *to);

/* sreal.c: hosts on the sockets and files of this machine. */

struct sockaddr_in;
int      sim_real(usim_setup *setup, uint64_t seed);	/* status of the program */
void     sim_real_enter(const struct sim_host *h);
/*
 * Returns where an address of a host is on this machine, in *room, if hosts run for
 * real; a, if they do not, or if it is no address of a host.
 */
const struct sockaddr *sim_real_address(const struct sockaddr *a, socklen_t n,
					struct sockaddr_in *room);
/* Gives a socket the address of its host, if it has none. Returns fd. */
int      sim_real_bind(int fd);
/* Turns an address of this machine to that of a host. */
void     sim_real_answer(struct sockaddr *a, const socklen_t *n);

/* spage.c: a page of a story. */

extern bool sim_is_page;

void     sim_page_begin(void);
void     sim_page_end(const char *result);
void     sim_page_hosts(void);
void     sim_page_text(const struct sim_host *h, const char *format, va_list args);
void     sim_page_fault(const struct sim_fault *f, const struct sim_host *h);
void     sim_page_message(const struct sim_host *from, const struct sim_host *to,
			  utime_ns sent, const char *kind, size_t size);

/* splan.c: the plan of faults. */

void     sim_plan(const struct sim_course *course, uint64_t mask);
void     sim_fault_text(struct sim_fault *f);

/* Mixes the number i into what a fault has drawn. */
static inline uint64_t sim_part(const struct sim_fault *f, uint64_t i)
{
	uint64_t z = (f->f_draw + i) * 0x9e3779b97f4a7c15u;

	return (z ^ z >> 29) * 0xbf58476d1ce4e5b9u >> 16;
}

/* ssplit.c: partitions, and links that flap. */

void     sim_split_begin(struct sim_fault *f);
/* Returns the split by which nothing comes from one host to another, or NULL. */
struct sim_fault *sim_split(const struct sim_host *from, const struct sim_host *to);
void     sim_split_text(const struct sim_fault *f, char *text, size_t size);
bool     sim_flaps(const struct sim_fault *f);
bool     sim_is_off(const struct sim_fault *f);	/* in a turn in which it is off */

/* smark.c: marks of a run. */

void     sim_mark_state(const struct sim_host *h, const char *name);
void     sim_mark_fault(const struct sim_host *h, enum sim_kind kind);
void     sim_mark_boot(const struct sim_host *h);
/* Returns the state of a host that sends, for sim_mark_message() of its receiver. */
uint32_t sim_mark_send(const struct sim_host *from);
void     sim_mark_message(const struct sim_host *from, const struct sim_host *to,
			  uint32_t sent);

/* sguide.c: which run of a search comes next. */

/* Takes what a run has reached. Called in the order of runs. */
void     sim_guide_learn(const struct sim_course *c, const struct sim_report *r);
/* Puts the course of run number, which bends a run that was taken. */
void     sim_guide(uint64_t number, struct sim_course *c);
/* Writes a course as text, and reads it. */
const char *sim_course_text(const struct sim_course *c, char text[SIM_TEXT]);
bool     sim_course_read(const char *text, struct sim_course *c);

/* sfault.c: what faults do. */

extern const char *const sim_kind_names[FAULT_KINDS];
extern const char *const sim_step_names[STEPS];
/* Says why a kind cannot hit in a program that uses this. NULL: it can. */
const char      *sim_cannot(enum sim_kind kind, unsigned uses);
extern int sim_armed_nr;	/* faults that wait for a step */

void     sim_fault_due(void *fault);
void     sim_fault_hit(struct sim_fault *f);
/* name: of a state, or NULL. */
void     sim_step_armed(struct sim_host *h, enum sim_step step, const char *name);
/*
 * A host makes a step, at which faults may begin. May not return, or may wait, and
 * may have closed what the caller has not looked at yet.
 */
static inline void sim_step(struct sim_host *h, enum sim_step step)
{
	if (sim_armed_nr > 0)
		sim_step_armed(h, step, NULL);
}

void     sim_sent(struct sim_host *h);
bool     sim_is_full(struct sim_host *h);
/* Notes what a host does that faults may hurt. */
static inline void sim_use(const struct sim_host *h, enum sim_use use)
{
	sim_report->p_uses |= (unsigned)!h->h_is_client << use;
}

bool     sim_fails_sync(struct sim_host *h);	/* a sync of a file, now */
/* Returns when what is sent now arrives. */
utime_ns sim_arrival(struct sim_host *from, struct sim_host *to, size_t size);
utime_ns sim_sync_time(struct sim_host *h, utime_ns ns);
utime_ns sim_paused(struct sim_host *h);	/* until then, or 0 */
utime_ns sim_drifted(struct sim_host *h, utime_ns ns);	/* how long ns is by its clocks */
utime_ns sim_after_drift(struct sim_host *h, utime_ns ns);

/* Returns when ns have gone by on the clocks of a host. */
static inline utime_ns sim_after(struct sim_host *h, utime_ns ns)
{
	sim_use(h, USE_CLOCK);
	return h->h_drift == NULL || ns <= 0 ? sim_now() + ns :
		sim_after_drift(h, ns);
}

bool     sim_is_cut(struct sim_host *from, struct sim_host *to);
int      sim_cut_to(const struct sim_fault *f, int host);
bool     sim_fault_lasts(const struct sim_fault *f);
/* Returns how many copies of a datagram arrive; *late is added to the latency. */
int      sim_copies(struct sim_host *from, struct sim_host *to, utime_ns *late);

/* sfile.c, sepoll.c: descriptors, waits for files, pipes, epoll. */

/* Makes a step by a file. False: it was closed meanwhile. */
bool             sim_step_by(struct sim_file *f, enum sim_step step);
int              sim_fd(struct sim_boot *b, struct sim_file *f);

/* Returns the file of a descriptor, also one of O_PATH; NULL: there is none. */
static inline struct sim_file *sim_file_any(struct sim_boot *b, int fd)
{
	return fd < 0 || fd >= SIM_FDS ? NULL : b->b_fds[fd];
}

/* Does the same for the calls that know no O_PATH. */
static inline struct sim_file *sim_file(struct sim_boot *b, int fd)
{
	struct sim_file *f = sim_file_any(b, fd);

	return f == NULL || f->f_is_path ? NULL : f;
}

static inline bool sim_may_read(const struct sim_file *f)
{
	int way = f->f_flags & O_ACCMODE;

	return way == O_RDONLY || way == O_RDWR;
}

static inline bool sim_may_write(const struct sim_file *f)
{
	int way = f->f_flags & O_ACCMODE;

	return way == O_WRONLY || way == O_RDWR;
}

void            *sim_file_make(struct sim_boot *b, const struct sim_file_ops *ops,
			       size_t size, int flags);
int              sim_close(struct sim_boot *b, int fd);
void             sim_drop(struct sim_file *f);	/* a reference */
int              sim_dup(struct sim_boot *b, int fd, int from, bool on_exec);
int              sim_dup_to(struct sim_boot *b, int fd, int to, bool on_exec);
/* Bytes or room have come, or an end: POLLIN, POLLOUT, or both. */
void             sim_changed(struct sim_file *f, int bits);
/* Something else has changed, for which threads wait by sim_wait(b, NULL). */
void             sim_wake(struct sim_boot *b);
/*
 * Waits until f changes; NULL: anything. 0: the caller looks again. -EINTR and
 * -ERESTART as sim_signals_handle(); or another error of lib/wait/.
 */
int              sim_wait(struct sim_boot *b, struct sim_file *f, utime_ns until);
/* Sleeps. 0; -EINTR: a handler has run; or another error of lib/wait/. */
int              sim_nap(struct sim_boot *b, utime_ns until);
/* Lets a thread of b handle signals. False: it does not wait here. */
bool             sim_interrupt(struct sim_boot *b, const void *stack);
int              sim_pipe(struct sim_boot *b, int fds[2], int flags);

struct pollfd;
struct epoll_event;
int              sim_poll(struct sim_boot *b, struct pollfd *fds, size_t nr,
			  utime_ns until);
int              sim_epoll(struct sim_boot *b, int flags);
int              sim_epoll_change(struct sim_boot *b, int epfd, int op, int fd,
				  const struct epoll_event *e);
int              sim_epoll_wait(struct sim_boot *b, int epfd,
				struct epoll_event *e, int nr, utime_ns until);
bool             sim_is_epoll(const struct sim_file *f);
bool             sim_never_waits(const struct sim_file *f);	/* epoll: EPERM */
void             sim_epoll_forget(struct sim_file *f);
void             sim_epoll_edge(struct sim_file *f, int bits);
bool             sim_pipe_readable(struct sim_file *f, int *size);

/* Bytes, first in first out. */
struct sim_bytes {
	char  *y_data;
	size_t y_start, y_size, y_room;
};

void             sim_bytes_put(struct sim_bytes *y, const void *data, size_t size);
/* data NULL: the bytes are dropped. */
size_t           sim_bytes_get(struct sim_bytes *y, void *data, size_t size,
			       bool peek);
void             sim_bytes_free(struct sim_bytes *y);

/* snet.c: sockets of hosts, by IPv4. */

struct sim_file *sim_socket(struct sim_boot *b, int type, int flags);

/* sflow.c: connections, and what faults do to them. */

int              sim_reset_all(struct sim_host *h);	/* how many */
void             sim_forget_all(struct sim_host *h, struct sim_fault *f);
void             sim_forget_end(void *unused);

/* Says that what was received has no address. Returns 0, for an end. */
static inline int sim_no_address(socklen_t *n)
{
	if (n != NULL)
		*n = 0;
	return 0;
}

/* soption.c: options that all sockets have, and checks of addresses. */

/* Returns 0, or the error that a call has for an address, or for room for one. */
int              sim_address_check(const struct sockaddr *a, socklen_t n);
int              sim_room_check(const struct sockaddr *a, const socklen_t *n);
int              sim_option(struct sim_file *f, int level, int name,
			    const void *value, socklen_t n);
int              sim_option_get(struct sim_file *f, int level, int name,
				void *value, socklen_t *n);

/* Sets an option that all sockets have. 1: it is none. */
int              sim_option_common(struct sim_file *f, int level, int name,
				   const void *value, socklen_t n);
int              sim_option_put(int result, void *value, socklen_t *n);
int              sim_linger(struct linger *to, const void *value, socklen_t n);
int              sim_linger_put(struct linger l, void *value, socklen_t *n);

/* sunix.c: Unix sockets. */

/* Descriptors in a message. */
struct sim_rights {
	struct sim_file *r_files[SIM_RIGHTS];
	int              r_nr;
};

bool             sim_is_unix(const struct sim_file *f);
struct sim_file *sim_unix(struct sim_boot *b, int type, int flags);
int              sim_unix_pair(struct sim_boot *b, int type, int flags,
			       int fds[2]);
ssize_t          sim_unix_send(struct sim_file *f, const void *buf, size_t size,
			       const struct sockaddr *a, socklen_t n,
			       const struct sim_rights *rights);
ssize_t          sim_unix_receive(struct sim_file *f, void *buf, size_t size,
				  int flags, struct sockaddr *a, socklen_t *n,
				  struct sim_rights *rights);

/* sevent.c: eventfd, timerfd, devices. */

struct itimerspec;
struct stat;
int              sim_eventfd(struct sim_boot *b, unsigned count, int flags);
int              sim_timerfd(struct sim_boot *b, clockid_t clock, int flags);
int              sim_timer_get(struct sim_boot *b, int fd, struct itimerspec *to);
int              sim_timer_set(struct sim_boot *b, int fd, int flags,
			       const struct itimerspec *by,
			       struct itimerspec *old);
/* Opens a device. -ENOENT: the path is none. */
int              sim_device(struct sim_boot *b, const char *path, int flags);
/* Says what is known of a device. False: the path is none, or f is none. */
bool             sim_device_stat(const char *path, const struct sim_file *f,
				 struct stat *to);

/* scalls.c: calls that wait. Results are a count or -errno. */

#define SIM_BY_FILE	((utime_ns)-1)	/* waits as the file says */

struct iovec;
ssize_t          sim_read(struct sim_boot *b, int fd, void *buf, size_t size,
			  int flags, struct sockaddr *a, socklen_t *n,
			  utime_ns until);
ssize_t          sim_write(struct sim_boot *b, int fd, const void *buf,
			   size_t size, int flags, const struct sockaddr *a,
			   socklen_t n, utime_ns until);
ssize_t          sim_readv(struct sim_boot *b, int fd, const struct iovec *v,
			   int nr, utime_ns until);
ssize_t          sim_writev(struct sim_boot *b, int fd, const struct iovec *v,
			    int nr, utime_ns until);
/* Returns the socket that fd is, or NULL and an error. */
struct sim_file *sim_socket_of(struct sim_boot *b, int fd, int *rc);
/* These are for sockets only. */
ssize_t          sim_receive(struct sim_boot *b, int fd, void *buf, size_t size,
			     int flags, struct sockaddr *a, socklen_t *n,
			     utime_ns until);
ssize_t          sim_send(struct sim_boot *b, int fd, const void *buf,
			  size_t size, int flags, const struct sockaddr *a,
			  socklen_t n, utime_ns until);
ssize_t          sim_receive_message(struct sim_boot *b, int fd,
				     struct msghdr *m, int flags, utime_ns until);
ssize_t          sim_send_message(struct sim_boot *b, int fd,
				  const struct msghdr *m, int flags,
				  utime_ns until);
int              sim_accept(struct sim_boot *b, int fd, int flags,
			    struct sockaddr *a, socklen_t *n, utime_ns until);
int              sim_connect(struct sim_boot *b, int fd, const struct sockaddr *a,
			     socklen_t n, utime_ns until);
/* Closes as close() does, which may wait: SO_LINGER. */
int              sim_close_slow(struct sim_boot *b, int fd);
/* Sends from a file. offset NULL: from the file's own place. */
ssize_t          sim_send_file(struct sim_boot *b, int out, int in, off_t *offset,
			       size_t size, utime_ns until);

/* sexit.c */

/* Runs what the host has given to atexit(). */
void             sim_last_calls(struct sim_boot *b);

/* snhost.c */

pid_t            sim_pid(const struct sim_boot *b);
void             sim_random(void *to, size_t size);

utime_ns         sim_clock(struct sim_host *h, clockid_t clock);

/* sdisk.c: disks. */

struct sim_disk *sim_disk_make(void);
long             sim_disk_crash(struct sim_disk *d);	/* writes lost or torn */

/* sopen.c: files that are open. Results are 0, a count, or -errno. */

bool             sim_is_disk(const struct sim_file *f);
/* NULL, and *rc: -EBADF, or -error for what is no file of the disk. */
struct sim_file *sim_disk_file(struct sim_boot *b, int fd, int error, int *rc);
int              sim_open(struct sim_boot *b, const char *path, int flags,
			  mode_t mode);
/* Drops the flags that open() has not; *rc: the error of the others, or 0. */
int              sim_open_flags(int flags, int *rc);
/* Opens a file below a folder, as openat2() with RESOLVE_BENEATH. */
int              sim_open_beneath(struct sim_boot *b, struct sim_file *folder,
				  const char *path, int flags, mode_t mode,
				  bool links);
const char      *sim_folder(struct sim_file *f);
bool             sim_is_gone(struct sim_file *f);
bool             sim_folder_entry(struct sim_file *f, size_t n, const char **name,
				  ino_t *inode, unsigned *mode);
ssize_t          sim_pread(struct sim_file *f, void *buf, size_t size, off_t at);
/* The calls of programs: fd is a descriptor. */
ssize_t          sim_read_at(struct sim_boot *b, int fd, void *buf, size_t size,
			     off_t at);
ssize_t          sim_write_at(struct sim_boot *b, int fd, const void *buf,
			      size_t size, off_t at);
int              sim_sync_at(struct sim_boot *b, int fd);
off_t            sim_seek(struct sim_file *f, off_t at, int whence);
/* Returns the place from which a whence counts; of what has none: 0. */
off_t            sim_place(const struct sim_file *f, int whence);
bool             sim_is_plain(const struct sim_file *f);	/* a file, and no folder */
int              sim_truncate(struct sim_file *f, off_t size);
int              sim_lock(struct sim_file *f, int lock);

/* swalk.c, spath.c: calls by path. Results are 0 or -errno. */

int              sim_path_check(const char *path);	/* as a string */
int              sim_folder_change(struct sim_boot *b, const char *path);
int              sim_rename(struct sim_boot *b, const char *from, const char *to,
			    bool replaces);
int              sim_unlink(struct sim_boot *b, const char *path, bool dir);
int              sim_mkdir(struct sim_boot *b, const char *path, mode_t mode);
int              sim_access(struct sim_boot *b, const char *path, int how, bool follow);
int              sim_chmod(struct sim_boot *b, const char *path, mode_t mode,
			   bool follow);
int              sim_fchmod(struct sim_file *f, mode_t mode);
int              sim_link(struct sim_boot *b, const char *from, const char *path,
			  bool follow);
int              sim_symlink(struct sim_boot *b, const char *target,
			     const char *path);
const char      *sim_link_target(struct sim_boot *b, const char *path, int *rc);
/* Is realpath(). */
int              sim_resolve(struct sim_boot *b, const char *path, char to[SIM_PATH]);
struct stat;
int              sim_stat(struct sim_boot *b, const char *path, bool follow,
			  struct stat *to);
void             sim_fstat(struct sim_file *f, struct stat *to);
/* Returns the target of a link that is open by O_PATH; NULL: it is none. */
const char      *sim_open_target(struct sim_file *f);
/*
 * Makes the file of a Unix socket. -EINVAL: none is wanted, though the name is
 * free.
 */
int              sim_socket_file_make(struct sim_boot *b, const char *path,
				      bool wanted, const void **inode);
int              sim_socket_file(struct sim_boot *b, const char *path,
				 const void **inode);

/* sdamage.c: reads and writes that a disk does wrong. Called if h_lies is set. */

extern bool      sim_keeps_old;		/* a file keeps what was stored before */

struct inode;
/* Changes what was read. 0 or -EIO. */
int              sim_lie_read(struct sim_host *h, struct inode *i, void *buf,
			      size_t at, size_t size);
/* Returns where a write lands on the disk. */
size_t           sim_lie_write(struct sim_host *h, size_t at);

/* smap.c: files in memory. */

void            *sim_map(struct sim_file *f, void *at, size_t size, int what,
			 int flags, off_t from, int *rc);
void             sim_unmap(const void *memory, size_t size);

#endif /* SIM_H */
