/* SPDX-License-Identifier: MIT */
/* uview.c: a flight recorder: who ran where and when, and who woke whom. */

/*
 * OVERVIEW
 *
 *	dispatcher		native thread		shared memory
 *	+------------------+	+------------+		+-----------------+
 *	| view: link before|--->| tap: caches|--------> | ring of records |
 *	| s_next()         |	+------------+		| names, stacks   |
 *	+------------------+				| census          |
 *							+-----------------+
 *
 * All comes from s_next(), as in ustats.c, so that a program without a recorder
 * has no instruction for it:
 *
 *	next() of uview.c
 *	  N1 the thread that ran has stopped: STOP, and why
 *	  N2 what it has put into the queues meanwhile: WAKE
 *	  N3 s_next() of the scheduler
 *	  N4 what that has put into the queues: WAKE, from outside
 *	  N5 a thread will run: RUN
 *
 * N2 is written before N1, since both have the time of the stop. Wakes that go
 * elsewhere, sleeps, and calls outside are reported by uproc.c and ws.c, which run
 * no fast path there (struct uproc_watch). What a thread waits for is reported by
 * uwait.c.
 *
 * Why a thread stops: it has ended if its lane has lost a thread (l_bound, as in
 * ustats.c); it has yielded if it is in the queue itself; it waits by a record
 * if uwait.c has reported a wait that has not ended. If neither a wait began nor
 * ended while it ran, that may be the same wait as before, and the reader knows.
 *
 * STACKS
 *
 * To unwind a thread takes some 9 us, a hundred times as long as a switch. So a
 * stack is known by a hash of those words of its slice that point to code. There
 * are stale words, too, left of earlier calls. So many hashes may mean one
 * stack: a cache of the tap leads from hashes to numbers, and a table of the
 * file has each stack once. If a program makes new hashes all the time, the
 * credit runs out, and most of its blocks have no stack: each block earns one
 * UNWIND-th of an unwinding. Code that dlopen() loads later does not count.
 *
 * FORK
 *
 * The child maps memory of its own over the file, since the thread that has
 * forked still runs code that writes there, and so does its dispatcher if that
 * is a plain one, which goes on.
 *
 * SPACE
 *
 * A write to a page of a mapped file for which there is no space ends the
 * process (SIGBUS). So posix_fallocate() gets all space before it is written:
 * for names and stacks at the start, for a ring when it is first taken.
 *
 * COST
 *
 * A clock is read once for a STOP and the RUN that follows, because it takes about
 * as long as all else that the recorder does at a switch. Stores to the ring are
 * plain moves on x86-64 (release), and do not stall. With stacks, each word of a
 * slice is compared with two ranges, of the program and of its libraries. To leave
 * out slices that have not changed would need a copy to compare with, which costs as
 * many loads.
 *
 * INVARIANTS
 *
 * V1. Only the native thread that owns a tap (a_owner, a_runs > 0) writes to its
 *     ring, and a signal handler does not while a_busy is set.
 * V2. Nothing is written to the file for which no space was reserved.
 * V3. A view is INSIDE from the STOP to the RUN. It leaves that state only while
 *     v_gate is 0: see vcensus.c.
 *
 * REJECTED
 *
 * Heads of rings that are published once a switch: a reader would have to drop
 * more than one record, and it saves two moves. Hashing only the top of a slice:
 * two callers of one function with frames of one size would be one stack.
 *
 * A hook in each wake: it costs a load and a branch where a wake takes ten
 * instructions. One ring for each dispatcher: one native thread may run many,
 * one after another or one inside of another. Uprobes: a trap for each switch.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* secure_getenv() */
#endif
#include "uview.h"
#include "usched.h"

#include <errno.h>

#if !defined(__linux__)

UPREEMPT_NEVER;

int uview_start(const char *how)
{
	(void)how;
	return -ENOSYS;
}

void uview_mark(const char *text)
{
	(void)text;
}

int uview_save(const char *path)
{
	(void)path;
	return -ENOSYS;
}

#else

#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "vtap.h"
#include "vcopy.h"
#include "vnames.h"
#include "compiler.h"
#include "lock.h"
#include "uchain.h"
#include "ufork.h"
#include "uself.h"
#include "usymbol.h"
#include "utrace.h"
#include "uwait.h"

#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

UPREEMPT_NEVER;

#define LOG_DEFAULT	16	/* 2^16 records a ring: 1 MiB */
#define LOG_CALLS	12	/* of a native thread for ucall() */
#define RINGS_MANY	16	/* then those of ended native threads serve */
#define NAMES		16384
#define STACKS		8192
#define TEXTS		(512u << 10)
#define WORDS		128	/* of a slice are hashed */
#define UNWIND		256	/* blocks that earn an unwinding */
#define CREDIT		(4096L * UNWIND)	/* at the start */
#define DEADLINE_MOST	((uint64_t)1 << 46)	/* ns from now: 19 hours */
#define LONG_RUN	200000	/* ns: then ask whether the kernel took the cpu */
#define LONG_SLEEP	(250 * UTIME_MS)	/* then look whether a census is wanted */
/* Ticks from one CLOCK to the next: few at first, since the rate follows from
 * the newest. */
#define QUIET_LEAST	((uint64_t)1 << 20)
#define QUIET_MOST	((uint64_t)1 << 34)

struct uview_all uview_all;

static struct uview_tap *taps[UVIEW_RINGS];
static struct ulock taps_lock;		/* protects taps, a_runs and a_owner */
static __thread struct uview_tap *here;	/* while it records */
static __thread struct uview_tap *last;	/* that it had; under taps_lock */
static int file_fd = -1;
static bool keeps, said_space;
static int rooms_log;			/* of a ring */
static uint64_t long_run = LONG_RUN;	/* in ticks, soon */

/* Code: of the program, and of all that was loaded with it. */
static struct { uintptr_t c_from, c_size; } code[2];
static uintptr_t data_from, data_size;	/* of the program */

/* Clocks. */

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* Returns whether the counter has one rate, whatever the cpu does. */
static bool counter_is_even(void)
{
	unsigned a, b, c, d = 0;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1u << 8;
}

#define COUNTER()	__builtin_ia32_rdtsc()
#elif defined(__aarch64__)
#define counter_is_even()	true
static inline uint64_t counter(void)
{
	uint64_t t;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
}
#define COUNTER()	counter()
#elif defined(__riscv) && __riscv_xlen == 64
#define counter_is_even()	true
static inline uint64_t counter(void)
{
	uint64_t t;

	__asm__ volatile("rdtime %0" : "=r"(t));
	return t;
}
#define COUNTER()	counter()
#else
#define counter_is_even()	false
#define COUNTER()	0
#endif

static bool no_counter;			/* then a tick is a ns */

uint64_t uview_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t tick(void)
{
	return likely(!no_counter) ? COUNTER() : uview_ns();
}

uint64_t uview_tick(void)
{
	return tick();
}

/* Records. */

static inline void put(struct uview_tap *a, uint64_t time, unsigned kind,
		       unsigned arg, const void *at, unsigned id)
{
	uring_put(&a->a_ring, time, kind, arg, uring_word(at, id));
}

static struct uview_ring *ring_nth(unsigned nr)
{
	return (struct uview_ring *)((char *)uview_all.v_file +
		uview_all.v_file->vf_part[UVIEW_PART_RINGS].vp_at) + nr;
}

/* Between these a signal handler records nothing. */

static inline void busy(struct uview_tap *a)
{
	a->a_busy = 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void idle(struct uview_tap *a)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	a->a_busy = 0;
}

/* Writes down both clocks. */
static NOINLINE void clock_put(struct uview_tap *a)
{
	struct uview_ring *r = a->a_ring.g_ring;
	uint64_t t = tick(), ns = uview_ns();

	uring_put(&a->a_ring, t, UVIEW_CLOCK, 0, ns);
	__atomic_store_n(&r->vr_ns, ns, __ATOMIC_RELAXED);
	__atomic_store_n(&r->vr_tick, t, __ATOMIC_RELEASE);
	a->a_clock = t;
	if (a->a_quiet < QUIET_MOST)
		a->a_quiet *= 2;
	a->a_due = t + a->a_quiet;
	if (ns - uview_all.v_ns > 1000000)
		__atomic_store_n(&long_run, (uint64_t)((double)LONG_RUN *
			(double)(t - uview_all.v_tick) /
			(double)(ns - uview_all.v_ns)), __ATOMIC_RELAXED);
}

/* Names. */

static NOINLINE unsigned function_new(struct uview_tap *a, unsigned i,
				      void (*f)(void *))
{
	a->a_name[i].nr = uview_name(UVIEW_FUNCTION, (const void *)(uintptr_t)f);
	a->a_name[i].f  = f;
	return a->a_name[i].nr;
}

static inline unsigned function_of(struct uview_tap *a, const struct ustack *u)
{
	void (*f)(void *) = ustack_f(u->u_f, u->u_arg);
	unsigned i = (unsigned)((uintptr_t)f >> 4 & (UVIEW_CACHE - 1));

	return likely(a->a_name[i].f == f) ? a->a_name[i].nr :
		function_new(a, i, f);
}

unsigned uview_function_of(struct uview_tap *a, const struct ustack *u)
{
	return function_of(a, u);
}

/* Names an object, if it is a variable of the program. */
static void object_see(struct uview_tap *a, const void *object)
{
	const void **at = &a->a_object[(uintptr_t)object >> 4 &
				       (UVIEW_CACHE - 1)];

	if (*at == object)
		return;
	*at = object;
	if ((uintptr_t)object - data_from < data_size)
		(void)uview_name(UVIEW_OBJECT, object);
}

static uint16_t kind_nr[256];		/* by wk_id (atomic) */

static unsigned kind_of(const struct uwait *w)
{
	unsigned nr = __atomic_load_n(&kind_nr[w->w_kind], __ATOMIC_RELAXED);

	if (unlikely(nr == 0)) {
		nr = uview_text(uwait_kind(w)->wk_name);
		__atomic_store_n(&kind_nr[w->w_kind], (uint16_t)nr,
				 __ATOMIC_RELAXED);
	}
	return nr;
}

/* Stacks. */

static NOINLINE unsigned stack_new(struct uview_tap *a, const struct ustack *u)
{
	void *pc[UVIEW_FRAMES];
	int nr = ustack_trace(u, pc, UVIEW_FRAMES);

	a->a_credit -= UNWIND;
	return nr > 0 ? uview_stack(uview_function_of(a, u), pc, nr) : 0;
}

/* Returns a hash of the words that point to code. Most do not. */
__attribute__((no_sanitize("address", "thread")))
static inline uint64_t hash_of(const uintptr_t *at, size_t nr, uint64_t hash)
{
	uintptr_t from = code[0].c_from, size = code[0].c_size;
	uintptr_t from1 = code[1].c_from, size1 = code[1].c_size;
	const uintptr_t *end = at + (nr < WORDS ? nr : WORDS);

#define HASH(word) do {							\
	if (unlikely((word) - from < size || (word) - from1 < size1)) {	\
		hash = (hash ^ (word)) * 0x9e3779b97f4a7c15u;		\
		hash ^= hash >> 29;					\
	}								\
} while (0)
	for (; at + 1 < end; at += 2) {
		HASH(at[0]);
		HASH(at[1]);
	}
	if (at < end)
		HASH(at[0]);
#undef HASH
	return hash | 1;
}

unsigned uview_stack_of(struct uview_tap *a, const struct usched *s,
			const struct ustack *u, bool may_walk)
{
	uintptr_t top = (uintptr_t)u->u_top;
	const char *at = (const char *)(top & ~(uintptr_t)USLICE_LOW);
	size_t nob = (size_t)(s->s_lane[u->u_lane].l_bottom - at);
	uint64_t hash = (uintptr_t)u->u_f ^ (uint64_t)nob << 48;
	unsigned i;

	if (top & USLICE_AWAY) {
		at  = u->u_stack;
		nob = (size_t)u->u_len < nob ? (size_t)u->u_len : nob;
	}
	hash = hash_of((const uintptr_t *)at, nob / sizeof(uintptr_t), hash);
	i = (unsigned)(hash >> 20) & (UVIEW_HASHES - 1);
	if (likely(a->a_stack[i].hash == hash))
		return a->a_stack[i].nr;
	if (!may_walk || a->a_credit < UNWIND)
		return 0;
	a->a_stack[i].nr   = stack_new(a, u);
	a->a_stack[i].hash = hash;
	return a->a_stack[i].nr;
}

/* What is in the queues. */

/* A thread, or tasks, were put where they will run. */
static void fresh(void *arg, const struct ustack *u, unsigned tasks)
{
	struct uview_view *v = arg;

	if (u == NULL)
		put(v->w_tap, v->w_time, UVIEW_WAKE, UVIEW_TASKS,
		    (const void *)(uintptr_t)tasks, 0);
	else if (u == v->w_thread)
		v->w_reason = UVIEW_YIELDED;
	else
		put(v->w_tap, v->w_time, UVIEW_WAKE, v->w_thread != NULL ?
		    UVIEW_BY_THREAD : UVIEW_OUTSIDE, u, 0);
}

/* Looks there, and returns how many threads can run. */
static NOINLINE unsigned queues_ask(struct uview_view *v)
{
	struct uproc *p = v->w_proc;

	return p == NULL ? 0 : p->p_set->set_ops.op_fresh(p, &v->w_mark,
				v->w_thread == NULL, fresh, v);
}

/*
 * Does the same where all is in one queue. u: the thread that stops, or NULL.
 */
static ALWAYS_INLINE unsigned queue_see(struct uview_view *v,
				       struct uring_writer *n,
				       const struct ustack *u)
{
	const struct usched_queue *q = v->w_queue;
	const struct ustack *hot = v->w_sched->s_hot, *known = v->w_mark.mk_thread;
	unsigned at = (unsigned)v->w_mark.mk_at[0], tail = q->q_tail;
	unsigned how = u != NULL ? UVIEW_BY_THREAD : UVIEW_OUTSIDE;
	struct ustack *const *ring = q->q_ring;
	unsigned mask = q->q_mask;

	if (at != tail) {
		v->w_mark.mk_at[0] = tail;
		for (at = uproc_fresh_from(q, at); at != tail; at++) {
			const struct ustack *t = ring[at & mask];

			if (t == u)
				v->w_reason = UVIEW_YIELDED;
			else if (t != known)
				uring_write(n, v->w_time, UVIEW_WAKE, how,
					    uring_word(t, 0));
		}
	}
	if (hot != known) {
		v->w_mark.mk_thread = hot;
		if (hot != NULL && hot == u)
			v->w_reason = UVIEW_YIELDED;
		else if (hot != NULL)
			uring_write(n, v->w_time, UVIEW_WAKE, how,
				    uring_word(hot, 0));
	}
	return tail - q->q_head + (hot != NULL);
}

/* A thread stops. */

/* It has run for long: has the kernel taken the cpu away? */
static NOINLINE void long_run_see(struct uview_view *v)
{
	struct rusage r;

	if (getrusage(RUSAGE_THREAD, &r) == 0 &&
	    r.ru_nivcsw != v->w_preempted) {
		put(v->w_tap, v->w_time, UVIEW_LOST,
		    (unsigned)(r.ru_nivcsw - v->w_preempted) & 0xfff,
		    v->w_thread, 0);
		v->w_preempted = r.ru_nivcsw;
	}
}

/* N1, N2. */
static inline void stopped(struct uview_view *v, struct usched *s)
{
	struct ustack *u = v->w_thread;
	struct uview_tap *a = v->w_tap;
	bool ended = v->w_lane->l_bound != v->w_bound;
	unsigned stack = 0;
	struct uring_writer n;

	if (unlikely(v->w_time - v->w_since > long_run))
		long_run_see(v);
	if (unlikely(v->w_queue == NULL))
		v->w_ready = queues_ask(v);
	if (uview_all.v_stacks && !ended) {
		a->a_credit += a->a_credit < CREDIT;
		stack = uview_stack_of(a, s, u, true);
	}
	n = uring_open(&a->a_ring);
	if (likely(v->w_queue != NULL))
		v->w_ready = queue_see(v, &n, u);
	uring_write(&n, v->w_time, UVIEW_STOP, ended ? UVIEW_ENDED : v->w_reason,
		    uring_word(u, stack));
	uring_close(&a->a_ring, &n);
	v->w_thread = NULL;
}

/* A thread begins to run. */

/*
 * Sets where u will run. False: usched.c will not run u, but end in usched_fail().
 */
static NOINLINE bool place_see(struct uview_view *v, const struct usched *s,
			       struct ustack *u, int *lane)
{
	int nr = s->s_lane_nr + usched_private_nr(s->s_private);
	bool is_new = uslice_is_new(u);

	if (u->u_sched != s || u->u_top == USLICE_ENDED || u->u_lane > nr ||
	    u->u_lane < (is_new ? USCHED_PRIVATE : 0))
		return false;
	if (is_new)
		uslice_lane(v->w_sched, u);
	*lane = is_new && u->u_lane == 0 ? usched_lane_next(s) : u->u_lane;
	v->w_lane_nr = (unsigned)nr;
	v->w_bound   = s->s_lane[*lane].l_bound + is_new;
	return true;
}

/* Does the same. Most threads run where they ran before. */
static inline bool place(struct uview_view *v, const struct usched *s,
			 struct ustack *u)
{
	int lane = u->u_lane;

	if (likely(u->u_sched == s && (uintptr_t)u->u_top > USLICE_LOW &&
		   (unsigned)lane <= v->w_lane_nr))
		v->w_bound = s->s_lane[lane].l_bound;
	else if (!place_see(v, s, u, &lane))
		return false;
	v->w_lane   = &s->s_lane[lane];
	v->w_victim = v->w_lane->l_owner;
	return true;
}

/* Records the name of u, whose block b is. */
static NOINLINE void named(struct uview_tap *a, uint64_t time,
			   const struct ustack *u, const struct uself_block *b)
{
	put(a, time, UVIEW_NOTE, UVIEW_NAMED, u, uview_text(b->b_name));
}

/* Records the name of u, which will run, once in each half of the ring. */
static inline void name_see(struct uview_tap *a, uint64_t time,
			    const struct ustack *u)
{
	struct uself_block *b = uself_of(u);
	unsigned half;

	if (likely(b == NULL) || b->b_name[0] == 0)
		return;
	half = (unsigned)(a->a_ring.g_head >> a->a_half) * UVIEW_RINGS +
		(unsigned)(a->a_ring.g_ring - ring_nth(0)) + 1;
	if (b->b_noted != half) {
		b->b_noted = half;
		named(a, time, u, b);
	}
}

/* N5. */
static inline void started(struct uview_view *v, struct uring_writer *n,
			   struct ustack *u)
{
	struct uview_tap *a = v->w_tap;

	v->w_function = function_of(a, u);
	uring_write(n, v->w_time, UVIEW_RUN,
		    v->w_ready < 0xfff ? v->w_ready : 0xfff,
		    uring_word(u, v->w_function));
	uring_close(&a->a_ring, n);
	name_see(a, v->w_time, u);
	v->w_thread = u;
	v->w_since  = v->w_time;
	v->w_reason = UVIEW_AGAIN;
}

static NOINLINE void stolen(struct uview_view *v)
{
	long now = v->w_counted->stolen;

	if (v->w_counted != v->w_sched->s_moves) {	/* ustats.h came or went */
		if (v->w_sched->s_moves == NULL)
			v->w_sched->s_moves = &v->w_moves;
		v->w_counted = v->w_sched->s_moves;
		now = v->w_counted->stolen;
	} else
		put(v->w_tap, v->w_time, UVIEW_STEAL,
		    (unsigned)(now - v->w_stolen) & 0xfff, NULL, 0);
	v->w_stolen = now;
}

/* Waits while a census looks at what does not move. */
static NOINLINE void gate_wait(struct uview_view *v)
{
	const struct timespec t = { 0, 20000 };

	do {
		__atomic_store_n(&v->w_state, UVIEW_INSIDE, __ATOMIC_RELEASE);
		while (__atomic_load_n(&uview_all.v_gate, __ATOMIC_ACQUIRE))
			(void)nanosleep(&t, NULL);
		__atomic_store_n(&v->w_state, UVIEW_RUNNING, __ATOMIC_RELAXED);
		ws_fence_light();
	} while (__atomic_load_n(&uview_all.v_gate, __ATOMIC_ACQUIRE));
}

/* Leaves the state INSIDE. */
static inline void gate_pass(struct uview_view *v)
{
	__atomic_store_n(&v->w_state, UVIEW_RUNNING, __ATOMIC_RELAXED);
	ws_fence_light();
	if (unlikely(__atomic_load_n(&uview_all.v_gate, __ATOMIC_ACQUIRE)))
		gate_wait(v);
}

/* Answers a reader that has asked for a census. */
static NOINLINE void asked(struct uview_view *v, unsigned ask)
{
	if (__atomic_exchange_n(&uview_all.v_asked, ask, __ATOMIC_RELAXED) !=
	    ask)
		uview_census_take(v, 100000000);
}

static inline void ask_see(struct uview_view *v)
{
	unsigned ask = __atomic_load_n(uview_all.v_ask, __ATOMIC_RELAXED);

	if (unlikely(ask != uview_all.v_asked))
		asked(v, ask);
}

static struct ustack *next(struct usched *s, struct usched_link *k)
{
	struct uview_view *v = (struct uview_view *)k;
	struct uview_tap *a = v->w_tap;
	struct uring_writer n;
	struct ustack *u;

	busy(a);
	v->w_time = tick();
	if (likely(v->w_thread != NULL))
		stopped(v, s);
	__atomic_store_n(&v->w_state, UVIEW_INSIDE, __ATOMIC_RELEASE);
	ask_see(v);
	a->a_noted = false;
	idle(a);
	u = uchain_next(s, k);						/* N3 */
	busy(a);
	if (v->w_ready == 0 || a->a_noted ||
	    __atomic_load_n(v->w_source, __ATOMIC_RELAXED) != NULL)
		v->w_time = tick();
	if (unlikely(v->w_queue == NULL))				/* N4 */
		v->w_ready = queues_ask(v);
	if (unlikely(v->w_counted->stolen != v->w_stolen))
		stolen(v);
	n = uring_open(&a->a_ring);
	if (likely(v->w_queue != NULL))
		v->w_ready = queue_see(v, &n, NULL);
	if (likely(u != NULL && place(v, s, u))) {
		started(v, &n, u);
		gate_pass(v);
		if (unlikely(v->w_time > a->a_due))
			clock_put(a);
	} else
		uring_close(&a->a_ring, &n);
	idle(a);
	return u;
}

/* Taps. */

static long native_id(void)
{
	return syscall(SYS_gettid);
}

/* Says, once, that there is no space. */
static void no_space(int error)
{
	if (said_space)
		return;
	said_space = true;
	usched_message("view: no space for records in " UVIEW_PATH ": %s",
		       (long)getpid(), strerror(error));
}

/* Makes the tap of ring nr. NULL: there is no memory, or no space. */
static struct uview_tap *tap_make(unsigned nr, int log)
{
	struct uview_part *part = &uview_all.v_file->vf_part[UVIEW_PART_RECORDS];
	uint64_t size = sizeof(struct uview_record) << log;
	uint64_t at = part->vp_at +
		((uint64_t)nr << rooms_log) * sizeof(struct uview_record);
	struct uview_ring *r = ring_nth(nr);
	struct uview_tap *a = calloc(1, sizeof *a);
	int rc = a != NULL ? posix_fallocate(file_fd, (off_t)at, (off_t)size) :
		ENOMEM;

	if (rc != 0) {
		no_space(rc);
		free(a);
		return NULL;
	}
	r->vr_at   = at;
	r->vr_room = 1u << log;
	a->a_credit = CREDIT;
	a->a_quiet  = QUIET_LEAST;
	a->a_ring.g_at   = (struct uview_record *)((char *)uview_all.v_file + at);
	a->a_ring.g_mask = r->vr_room - 1;
	a->a_half = (unsigned char)(log - 1);
	a->a_ring.g_ring = r;
	return a;
}

/*
 * Returns a free tap: that which the caller had, or a new one, or that which has
 * been idle for longest. NULL: none. Caller holds taps_lock.
 */
static struct uview_tap *tap_choose(int log)
{
	struct uview_tap *oldest = NULL;
	unsigned i;

	if (last != NULL && last->a_owner == &last && last->a_runs == 0)
		return last;
	for (i = 0; i < UVIEW_RINGS && taps[i] != NULL; i++) {
		if (taps[i]->a_runs == 0 && (oldest == NULL ||
				taps[i]->a_clock < oldest->a_clock))
			oldest = taps[i];
	}
	if (i < (oldest == NULL ? UVIEW_RINGS : RINGS_MANY) &&
	    (taps[i] = tap_make(i, log)) != NULL) {
		__atomic_store_n(&uview_all.v_file->vf_part[UVIEW_PART_RINGS].vp_nr,
				 i + 1, __ATOMIC_RELEASE);
		return taps[i];
	}
	return oldest;
}

/* Gives the ring of a to the caller, whose it was not before. */
static void tap_own(struct uview_tap *a)
{
	struct uview_ring *r = a->a_ring.g_ring;

	a->a_owner = &last;
	last = a;
	r->vr_from = a->a_ring.g_head;
	r->vr_tid  = (uint32_t)native_id();
	(void)prctl(PR_GET_NAME, r->vr_name);
}

/* Begins to record on this native thread; 2^log records. NULL: it cannot. */
static struct uview_tap *tap_begin(int log)
{
	struct uview_tap *a = here;

	if (a != NULL) {
		a->a_runs++;
		return a;
	}
	ulock_get(&taps_lock);
	a = tap_choose(log);
	if (a != NULL)
		a->a_runs = 1;
	ulock_put(&taps_lock);
	if (a == NULL) {
		__atomic_fetch_add(&uview_all.v_file->vf_missed, 1,
				   __ATOMIC_RELAXED);
		return NULL;
	}
	if (a->a_owner != &last)
		tap_own(a);
	__atomic_store_n(&a->a_ring.g_ring->vr_state, 1, __ATOMIC_RELAXED);
	busy(a);
	clock_put(a);
	idle(a);
	here = a;
	return a;
}

static void tap_end(struct uview_tap *a)
{
	if (a->a_runs > 1) {
		a->a_runs--;
		return;
	}
	busy(a);
	clock_put(a);
	idle(a);
	here = NULL;
	__atomic_store_n(&a->a_ring.g_ring->vr_state, 2, __ATOMIC_RELAXED);
	ulock_get(&taps_lock);
	a->a_runs = 0;
	ulock_put(&taps_lock);
}

/* Dispatchers. */

/* Returns the name of the scheduler, in *number the number of the processor. */
static unsigned scheduler_of(const struct uview_view *v, unsigned *number)
{
	const char *name = v->w_proc != NULL ?
		v->w_proc->p_set->set_ops.op_name : "plain";
	char text[16];

	*number = v->w_proc != NULL ? (unsigned)v->w_proc->p_nr : 0;
	(void)snprintf(text, sizeof text, "%s", name != NULL ? name : "other");
	text[strcspn(text, "_")] = 0;
	return uview_text(text);
}

static void view_add(struct uview_view *v)
{
	ulock_get(&uview_all.v_lock);
	v->w_next = uview_all.v_first;
	uview_all.v_first = v;
	ulock_put(&uview_all.v_lock);
}

static void view_remove(struct uview_view *v)
{
	struct uview_view **at = &uview_all.v_first;

	ulock_get(&uview_all.v_lock);
	while (*at != v)
		at = &(*at)->w_next;
	*at = v->w_next;
	ulock_put(&uview_all.v_lock);
}

/* A plain dispatcher may look for what it likes. */
static struct uwait_source *no_source = (struct uwait_source *)&no_source;

/* Called as a dispatcher begins to run. */
static void begin(struct usched *s)
{
	struct uproc *p = uproc_native();
	struct uview_view *v;
	struct uring_writer n;
	unsigned number, name;

	if (uview_all.v_file == NULL || s->s_steps != 0)
		return;
	v = calloc(1, sizeof *v);
	if (v == NULL || (v->w_tap = tap_begin(rooms_log)) == NULL) {
		free(v);
		return;
	}
	v->w_sched = s;
	v->w_proc  = p != NULL && &p->p_sched == s ? p : NULL;
	if (v->w_proc != NULL && v->w_proc->p_set->set_ops.op_fresh == NULL)
		v->w_queue = &v->w_proc->p_queue;
	v->w_source = v->w_proc != NULL ? &v->w_proc->p_waits.wb_source :
		&no_source;
	if (s->s_moves == NULL)
		s->s_moves = &v->w_moves;
	v->w_counted = s->s_moves;
	v->w_stolen  = v->w_counted->stolen;
	name = scheduler_of(v, &number);
	busy(v->w_tap);
	v->w_time = tick();
	put(v->w_tap, v->w_time, UVIEW_BEGIN, number & 0xfff, s, name);
	if (v->w_queue == NULL)
		v->w_ready = queues_ask(v);
	n = uring_open(&v->w_tap->a_ring);
	if (v->w_queue != NULL)
		v->w_ready = queue_see(v, &n, NULL);
	uring_close(&v->w_tap->a_ring, &n);
	idle(v->w_tap);
	uchain_add(s, &v->w_link, next);
	view_add(v);
}

/* Called before it stops, or after a longjmp() has left it. */
static void end(struct usched *s)
{
	struct uview_view *v = uchain_of(s, next);
	struct uview_tap *a;

	if (v == NULL || s->s_steps != 0)
		return;
	a = v->w_tap;
	view_remove(v);
	uchain_remove(s, &v->w_link);
	if (s->s_moves == &v->w_moves)
		s->s_moves = NULL;
	busy(a);
	put(a, tick(), UVIEW_END, 0, s, 0);
	idle(a);
	tap_end(a);
	free(v);
}

/* Called before ustack_fini() takes u, which is blocked, from its lane. */
static void gone(struct ustack *u)
{
	struct uview_view *v = uchain_of(u->u_sched, next);

	if (v != NULL && &u->u_sched->s_lane[u->u_lane] == v->w_lane)
		v->w_bound--;
}

static struct usched_hook hook = {
	.h_begin = begin, .h_end = end, .h_gone = gone
};

/* What threads wait for. */

/* Returns the view of the thread that calls. NULL: it is not recorded. */
static struct uview_view *view_here(const struct ustack *u)
{
	struct uview_view *v = here != NULL ? uchain_of(u->u_sched, next) : NULL;

	return v != NULL && v->w_thread == u ? v : NULL;
}

/* Notes who holds the object of w. It exists, since the caller waits for it. */
static void holder_put(struct uview_tap *a, uint64_t time, const struct uwait *w)
{
	const struct uwait_kind *kind = uwait_kind(w);
	struct uwait_seen seen = { kind, w->w_at.object, NULL };
	const void *holder;

	if (kind->wk_see == NULL || w->w_at.object == NULL ||
	    !kind->wk_see(w, &seen) || seen.vs_owner == NULL)
		return;
	holder = __atomic_load_n(seen.vs_owner, __ATOMIC_RELAXED);
	if (holder != NULL)
		put(a, time, UVIEW_NOTE, UVIEW_HOLDER, holder, 0);
}

/*
 * Notes a deadline, if a reader can tell its 48 bits from a time in the past. That
 * is the last clock if it has passed long ago. Virtual time is not that of records.
 */
static void deadline_put(struct uview_tap *a, uint64_t time, utime_ns until)
{
	uint64_t now = a->a_ring.g_ring->vr_ns, at = (uint64_t)until;

	if (at < now)
		at = now;
	if (at - now < DEADLINE_MOST && !utime_is_virtual())
		put(a, time, UVIEW_NOTE, UVIEW_DEADLINE,
		    (const void *)(uintptr_t)at, 0);
}

static void wait_begin(const struct uwait *w, utime_ns until)
{
	struct uview_view *v = view_here(w->w_stack);
	const void *object = w->w_at.object;
	uint64_t time;

	if (v == NULL || v->w_tap->a_busy)
		return;
	v->w_reason = UVIEW_WAITS;
	busy(v->w_tap);
	time = tick();
	if (object != NULL && !uwait_kind(w)->wk_number)
		object_see(v->w_tap, object);
	put(v->w_tap, time, UVIEW_WAIT, until != UNEVER, object, kind_of(w));
	holder_put(v->w_tap, time, w);
	deadline_put(v->w_tap, time, until);
	idle(v->w_tap);
}

static void wait_end(const struct uwait *w)
{
	struct uview_view *v = view_here(w->w_stack);

	if (v != NULL)
		v->w_reason = UVIEW_BLOCKED;
}

static void renamed(void)
{
	const struct ustack *u = ustack_self();
	struct uview_view *v = view_here(u);

	if (v == NULL || v->w_tap->a_busy)
		return;
	busy(v->w_tap);
	named(v->w_tap, tick(), u, uself_of(u));
	idle(v->w_tap);
}

/* All threads of a set wait for ever: the file will say where. */
static int stuck(struct usched *first, size_t size, int nr, long left)
{
	(void)first, (void)size, (void)nr, (void)left;
	if (uview_all.v_file != NULL)
		uview_census_take(NULL, 0);
	return 0;
}

static struct uwait_watch watch = {
	.v_begin = wait_begin, .v_end = wait_end, .v_named = renamed,
	.v_stuck = stuck
};

/* What processors do, but for switches: struct uproc_watch. */

/* Records, unless a signal handler has interrupted a record. */
static void note(unsigned kind, unsigned arg, const void *at, unsigned id)
{
	struct uview_tap *a = here;

	if (a == NULL || a->a_busy)
		return;
	busy(a);
	put(a, tick(), kind, arg, at, id);
	a->a_noted = true;
	idle(a);
}

static void posted(const struct uproc_thread *t, bool record)
{
	note(UVIEW_POST, record ? UVIEW_COMPLETED : UVIEW_POSTED, t, 0);
}

/* A processor that sleeps looks now and then whether a census is wanted. */
static utime_ns sleeps(utime_ns ns)
{
	struct uview_tap *a = here;

	if (a == NULL)
		return ns;
	busy(a);
	uring_put(&a->a_ring, tick(), UVIEW_PARK, 0, ns == UNEVER ?
		  ~(uint64_t)0 : uview_ns() + (uint64_t)(ns > 0 ? ns : 0));
	a->a_noted = true;
	idle(a);
	return ns < LONG_SLEEP ? ns : LONG_SLEEP;
}

static void awake(struct uproc *p)
{
	struct uview_view *v = uchain_of(&p->p_sched, next);
	struct uview_tap *a = here;
	uint64_t time = tick();

	if (a == NULL)
		return;
	busy(a);
	if (time > a->a_due)
		clock_put(a);
	put(a, tick(), UVIEW_UNPARK, 0, NULL, 0);
	if (v != NULL)
		ask_see(v);
	idle(a);
}

static void calls(const struct ustack *t, void (*f)(void *), bool begins)
{
	struct uview_tap *a;

	if (uview_all.v_file == NULL)
		return;
	a = begins ? tap_begin(rooms_log < LOG_CALLS ? rooms_log : LOG_CALLS) :
		here;
	if (a == NULL)
		return;
	note(UVIEW_CALL, begins ? UVIEW_CALL_BEGINS : UVIEW_CALL_ENDS, t,
	     uview_name(UVIEW_FUNCTION, (const void *)(uintptr_t)f));
	if (!begins)
		tap_end(a);
}

static const struct uproc_watch proc_watch = {
	.pw_posted = posted, .pw_sleeps = sleeps, .pw_awake = awake,
	.pw_calls = calls
};

/* The program's. */

void uview_mark(const char *text)
{
	if (here != NULL && text != NULL)
		note(UVIEW_MARK, 0, ustack_self(), uview_text(text));
}

/* Writes all. 0, -errno. */
static int write_all(int fd, const char *from, size_t nob)
{
	while (nob > 0) {
		ssize_t rc = write(fd, from, nob);

		if (rc < 0 && errno != EINTR)
			return -errno;
		from += rc > 0 ? rc : 0;
		nob  -= rc > 0 ? (size_t)rc : 0;
	}
	return 0;
}

static int copy_write(int fd)
{
	struct uview_source from = { uview_all.v_file, -1, uview_all.v_size };
	struct uview_file *copy;
	const char *why;
	size_t nob;
	int rc;

	copy = uview_copy(&from, true, &nob, &why);
	if (copy == NULL)
		return -ENOMEM;
	rc = write_all(fd, (char *)copy, nob);
	free(copy);
	return rc;
}

int uview_save(const char *path)
{
	const struct ustack *u = ustack_self();
	int fd, rc;

	if (uview_all.v_file == NULL || path == NULL)
		return -EINVAL;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		  0600);
	if (fd < 0)
		return -errno;
	uview_census_take(u != NULL ? uchain_of(u->u_sched, next) : NULL,
			  100000000);
	rc = copy_write(fd);
	if (close(fd) != 0 && rc == 0)
		rc = -errno;
	if (rc != 0)
		(void)unlink(path);
	return rc;
}

/* The start. */

/* Notes where code and data are. Called for each loaded file, the program first. */
static int loaded(struct dl_phdr_info *info, size_t size, void *arg)
{
	int *nr = arg, i, which = *nr > 0;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + h->p_vaddr;
		uintptr_t to = from + h->p_memsz;
		uintptr_t *at = &code[which].c_from, *nob = &code[which].c_size;

		if (h->p_type != PT_LOAD)
			continue;
		if (!(h->p_flags & PF_X)) {
			if (!which && h->p_flags & PF_W) {
				data_from = from;
				data_size = to - from;
			}
			continue;
		}
		if (*nob != 0 && *at < from)
			from = *at;
		if (*nob != 0 && *at + *nob > to)
			to = *at + *nob;
		*at  = from;
		*nob = to - from;
	}
	(*nr)++;
	return 0;
}

/* Returns when this process began, as /proc says; 0: unknown. */
static uint64_t born(void)
{
	char text[1024], *at;
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC), i;
	ssize_t nob = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;

	if (fd >= 0)
		close(fd);
	if (nob <= 0)
		return 0;
	text[nob] = 0;
	at = strrchr(text, ')');
	for (i = 2; at != NULL && i < 22; i++)
		at = strchr(at + 1, ' ');
	return at != NULL ? strtoull(at, NULL, 10) : 0;
}

/* Lays out the parts. Returns the size of the file. */
static uint64_t layout(struct uview_part *part, uint64_t *fixed)
{
	static const struct { uint32_t room, each; } size[UVIEW_PARTS] = {
		[UVIEW_PART_RINGS]  = { UVIEW_RINGS, sizeof(struct uview_ring) },
		[UVIEW_PART_NAMES]  = { NAMES, sizeof(struct uview_name) },
		[UVIEW_PART_TEXTS]  = { TEXTS, 1 },
		[UVIEW_PART_STACKS] = { STACKS, sizeof(struct uview_stack) },
		[UVIEW_PART_CENSUS] = { 2, sizeof(struct uview_census) },
		[UVIEW_PART_RECORDS] = { 0, sizeof(struct uview_record) }
	};
	uint64_t at = sizeof(struct uview_file);
	int i;

	for (i = 0; i < UVIEW_PARTS; i++) {
		part[i].vp_room = i != UVIEW_PART_RECORDS ? size[i].room :
			(uint32_t)UVIEW_RINGS << rooms_log;
		part[i].vp_each = size[i].each;
		part[i].vp_size = (uint64_t)part[i].vp_room * size[i].each;
		part[i].vp_at   = at = (at + 4095) & ~(uint64_t)4095;
		if (i == UVIEW_PART_RECORDS)
			*fixed = at;
		at += part[i].vp_size;
	}
	return at;
}

/* Makes the file, which has no name yet. Returns it, or -errno. */
static int file_make(const char *path, uint64_t size, uint64_t fixed)
{
	int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = open(path, flags, 0600), rc;

	if (fd < 0 && errno == EEXIST) {	/* of a dead process, or before exec */
		(void)unlink(path);
		fd = open(path, flags, 0600);
	}
	if (fd < 0)
		return -errno;
	rc = ftruncate(fd, (off_t)size) != 0 ? errno :
		posix_fallocate(fd, 0, (off_t)fixed);
	if (rc == 0)
		return fd;
	close(fd);
	(void)unlink(path);
	return -rc;
}

static int file_open(void)
{
	struct uview_part part[UVIEW_PARTS] = { { 0 } };
	uint64_t fixed = 0, size = layout(part, &fixed);
	struct uview_file *file;
	struct timespec wall;
	char path[64];
	int rc;

	(void)snprintf(path, sizeof path, UVIEW_PATH, (long)getpid());
	file_fd = file_make(path, size, fixed);
	if (file_fd < 0)
		return file_fd;
	file = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_fd, 0);
	if (file == MAP_FAILED) {
		rc = -errno;
		close(file_fd);
		(void)unlink(path);
		return rc;
	}
	(void)clock_gettime(CLOCK_REALTIME, &wall);
	memcpy(file->vf_part, part, sizeof part);
	file->vf_state = UVIEW_LIVE;
	file->vf_flags = uview_all.v_stacks ? UVIEW_WITH_STACKS : 0;
	file->vf_pid   = (uint32_t)getpid();
	file->vf_born  = born();
	file->vf_tick  = uview_all.v_tick = tick();
	file->vf_ns    = uview_all.v_ns = uview_ns();
	file->vf_wall  = (uint64_t)wall.tv_sec * 1000000000u +
		(uint64_t)wall.tv_nsec;
	(void)snprintf(file->vf_name, sizeof file->vf_name, "%s",
		       program_invocation_short_name);
	rc = uview_names_init(file);
	if (rc != 0) {
		(void)munmap(file, size);
		close(file_fd);
		(void)unlink(path);
		return rc;
	}
	__atomic_store_n(&file->vf_magic, UVIEW_MAGIC, __ATOMIC_RELEASE);
	uview_all.v_size = size;
	uview_all.v_ask  = &file->vf_ask;
	__atomic_store_n(&uview_all.v_file, file, __ATOMIC_RELEASE);
	return 0;
}

/* The child of fork() writes to memory of its own, if at all. */
static void in_child(void)
{
	struct uview_file *file = uview_all.v_file;

	if (file == NULL)
		return;
	uview_all.v_file = NULL;
	here = last = NULL;
	memset(&uview_all.v_lock, 0, sizeof uview_all.v_lock);
	memset(&taps_lock, 0, sizeof taps_lock);
	uview_all.v_gate = uview_all.v_asked = 0;
	uview_names_renew();
	close(file_fd);
	if (mmap(file, uview_all.v_size, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		 MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != file)
		usched_fail("view: the child of a fork() has no memory");
}

static struct ufork at_fork = { .f_rank = UFORK_WAITS, .f_child = in_child };
UFORK(at_fork)

/* Ends the file, if the program ends by exit(). */
static void at_exit(void)
{
	char path[64];

	if (uview_all.v_file == NULL)
		return;
	__atomic_store_n(&uview_all.v_file->vf_state, UVIEW_CLOSED,
			 __ATOMIC_RELEASE);
	if (keeps)
		return;
	(void)snprintf(path, sizeof path, UVIEW_PATH, (long)getpid());
	(void)unlink(path);
}

static struct usched_env env_view = {
	.e_name  = "USCHED_VIEW", .e_list = 1, .e_get = secure_getenv,
	.e_known = "0, 1, stacks, keep, 10-24"
};

/* Obeys all words. 0; -EINVAL: one is unknown; -ENOENT: one is 0. */
static int obey(const char *words)
{
	enum { NO, YES, WITH_STACKS, KEEP, LOG };
	unsigned long long nr = 0;
	int word;

	rooms_log = LOG_DEFAULT;
	while ((word = usched_env_word(&env_view, &words, &nr)) > NO) {
		if (word == WITH_STACKS)
			uview_all.v_stacks = true;
		else if (word == KEEP)
			keeps = true;
		else if (word == LOG)
			rooms_log = (int)nr;
	}
	return word == NO ? -ENOENT : word == -ENOENT ? 0 : word;
}

static int start(void)
{
	int nr = 0, rc = ufork_watch();

	if (rc != 0)
		return rc;
	no_counter = !counter_is_even();
	usymbol_ask();
	(void)dl_iterate_phdr(loaded, &nr);
	usymbol_asked();
	(void)ws_fence_init();		/* -ENOSYS: fences are full */
	rc = atexit(at_exit) != 0 ? -ENOMEM : file_open();
	if (rc < 0) {
		usched_message("view: there is no recorder: " UVIEW_PATH ": %s",
			       (long)getpid(), strerror(-rc));
		return rc;
	}
	usched_hook(&hook);
	uwait_watch_add(&watch);
	uproc_watch = &proc_watch;
	return 0;
}

int uview_start(const char *how)
{
	if (uview_all.v_ask != NULL)	/* also by the parent */
		return -EBUSY;
	return obey(how) == 0 ? start() : -EINVAL;
}

static __attribute__((constructor)) void from_environment(void)
{
	const char *how = usched_env_add(&env_view);

	if (how != NULL && obey(how) == 0)
		(void)start();
}

#endif
