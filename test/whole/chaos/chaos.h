/* SPDX-License-Identifier: MIT */
/* chaos.h: random programs over all schedulers at once. */

#ifndef CHAOS_H
#define CHAOS_H

/*
 * OVERVIEW
 *
 * A program is made from a seed (draw.c). It has some of rr, ll and ws, with
 * one to four processors each, which run at the same time, and actors:
 *
 *	LIVES    a thread of a scheduler: waits, also with deadlines, sleeps,
 *	         wakes, yields, pins itself, calls, makes children and joins
 *	         them, at any depth (life.c)
 *	PURE     a thread of a scheduler, which never waits
 *	NATIVE   a native thread, which no scheduler knows (outside.c)
 *	BARE     a thread of a dispatcher of its own, on a native thread
 *	HANDLER  a signal handler, which interrupts processors anywhere
 *
 * Each actor has a list of wakes that it sends, to LIVES of any scheduler. So
 * it is known how many wakes each thread will get. The thread waits that often,
 * and ends. Every wait must return, and must not return before its wake was
 * sent. Each wake carries a word, written before the wake is sent, and read
 * when all wakes have come.
 *
 * NO DEAD LOCK
 *
 * While a thread still has wakes to send, or children to make, it waits only as
 * often as actors that never wait will wake it. So some thread always goes on.
 * An actor outside of a scheduler holds that scheduler as long as it owes wakes
 * to it.
 *
 * CHILDREN
 *
 * A child waits for some wakes, which its mother sends, or leaves to others as
 * errands. It may get more wakes than it waits for. Then it ends when all were
 * sent; or, if it is to be joined, it ends at any time, and only the join comes
 * after the last wake.
 *
 * HOSTAGES
 *
 * At times a thread of ws computes until a thread that it has made has joined a
 * third. Both may wait behind it, and must then run on other workers
 * (search W6). This is not done with USCHED_DEBUG=yield: search W6 exempts
 * pinned threads, and a thread that yields at a point is pinned. Nor is it done
 * where pinned threads lock. They would wait behind the thread that computes,
 * with a lock or their turn to take it. All others, even native threads after
 * ucond_wait(), would wait too.
 *
 * SHARED THINGS
 *
 * LIVES and NATIVE share locks and channels (share.c). LIVES may wait for them
 * without a deadline, since such a wait always ends. A thread that is inside a
 * lock waits only for wakes that are sure. A native thread never waits for
 * long, and serves both sides of each channel until all others have ended. As
 * any actor may end a wait in any set, native threads hold all sets until then.
 *
 * So nothing may be lost, doubled, or stuck: each set ends with 0.
 *
 * NO MEMORY
 *
 * In some programs the library gets no memory now and then: neither from the
 * system (fail), nor from a processor, for a slice or a record (slice). Then a
 * wait may return -ENOMEM, having changed nothing, and is repeated. Where a
 * wait cannot fail any more, it must not ask.
 */

#include "tiny.h"
#include "counts.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

enum { RR, LL, WS, SETS, OUTSIDE = SETS };
enum { LIVES, PURE, NATIVE, BARE, HANDLER };

/*
 * What a program may do. A thing that is off is not done. New things come
 * last, so that a seed still makes the same program.
 */
#define THINGS(t)							\
	t(late) t(fail) t(wrap) t(hot) t(lanes) t(signal) t(nest)	\
	t(call) t(pin) t(post) t(child) t(errand) t(join) t(deep)	\
	t(preempt) t(many) t(cross) t(hold) t(time)	\
	t(lock) t(chan) t(slice)

enum {
#define T(name)	T_##name,
	THINGS(T) THING_NR
#undef T
};

/* One name for what the schedulers have in common. */
struct sched {
	const char *c_name;
	int   (*c_init)(int proc_nr, int thread_nr);
	int   (*c_preempt)(void);
	int   (*c_start)(void);
	int   (*c_fini)(void);
	long  (*c_stuck)(void);
	void  (*c_hold)(void);
	void  (*c_release)(void);
	struct usched *(*c_sched)(int p);
	void *(*c_on)(int p, void (*f)(void *), void *arg);
	void *(*c_stays)(int p, void (*f)(void *), void *arg);
	void *(*c_joinable)(int p, void (*f)(void *), void *arg);
	int   (*c_spawn)(void (*f)(void *), void *arg);
	int   (*c_join)(void *t);
	int   (*c_wait)(void);
	int   (*c_yield)(void);
	void  (*c_wake)(void *t);
	void  (*c_post)(void *t);
	void *(*c_self)(void);
	void  (*c_wrap)(int procs, unsigned at);
};

extern const struct sched sched[SETS];

/* A wake that is to be sent. */
struct note {
	int      n_to;
	int      n_next;	/* the next to the same actor, or -1 */
	unsigned n_word;	/* plain: written by the sender */
};

struct child {
	void    *b_thread;
	int      b_set;
	bool     b_join;
	unsigned b_random;
	unsigned b_made;	/* plain: written by its mother */
	long     b_waits;	/* wakes that it waits for */
	long     b_wakes;	/* wakes that it gets: b_waits or more */
	long     b_given;	/* wakes that were begun */
	long     b_done;	/* wakes that have been given */
	long     b_seen;	/* it is about to end */
};

struct actor {
	int      a_kind;
	int      a_set;
	int      a_proc;	/* the processor where it begins */
	bool     a_stays;	/* pinned there */
	void    *a_thread;
	unsigned a_random;
	int      a_nr;		/* wakes to send, as notes */
	struct note *a_note;	/* the first of them */
	int      a_first;	/* the first note to this actor, or -1 */
	int      a_children;	/* children to make */
	struct child *a_child;	/* the first of them */
	long     a_owes[SETS];	/* wakes and children for other sets */
	long     a_due;		/* wakes that it will get */
	long     a_sure;	/* of a_due, from actors that never wait */
	long     a_sent;	/* of a_due, begun (atomic) */
	long     a_done;	/* waits that returned */
	long     a_runs;	/* native threads it runs on now (atomic) */
	long     a_ended;	/* how often it has ended */
	const struct usched *a_here;	/* rr and ll: where it runs */
	int      a_pinned;	/* to this worker, or -1 */
	const char *a_doing;	/* for the watchdog (atomic) */
};

#define ACTORS		1200
#define NOTES		12000
#define CHILDREN	2000
#define NATIVES		8

/* The program. */
struct program {
	unsigned p_seed;
	bool     p_may[THING_NR];
	bool     p_has[SETS];
	int      p_procs[SETS];
	int      p_actors;
	int      p_children;
	int      p_natives;	/* native threads with actors */
	unsigned p_random;	/* for main() */
};

extern struct program program;
extern struct actor   actor[ACTORS];
extern struct note    note[NOTES];
extern struct child   child[CHILDREN];
extern long progress;		/* waits, wakes, ends */
extern long alive;		/* LIVES, NATIVE, BARE, PURE that are left */
extern long children_ended, hostages;
extern long registered;		/* processors that the kicker may interrupt */
extern long failing;		/* one call in this many fails; 0: none */

/* chaos.c */
void chaos_fail(const char *file, int line, const char *what);

#undef CHECK
#define CHECK(cond)							\
	do {								\
		if (!(cond))						\
			chaos_fail(__FILE__, __LINE__, #cond);		\
	} while (0)

/* draw.c */
void draw(unsigned seed);

/* life.c */
void life_main(void *actor);
void pure_main(void *actor);
void send_one(struct actor *a, bool post);
void bear(struct actor *a);
bool errand(void);
bool errands_left(void);
void wait_if_sure(struct actor *a);

/* share.c */
bool shares(void);
void share(struct actor *a);
void share_init(void);
void share_fini(void);

/* outside.c */
void  handler_set(void);
void  natives_start(void);
void  natives_join(void);
void  register_all(void);
void  raise_here(struct actor *a);
void  nest(struct actor *a);

static UNUSED void is_doing(struct actor *a, const char *what)
{
	__atomic_store_n(&a->a_doing, what, __ATOMIC_RELAXED);
}

/* True for one call of this many. */
static UNUSED bool rarely(unsigned *state, unsigned nr)
{
	return check_random(state) / 16 % nr == 0;
}

static UNUSED unsigned any(unsigned *state, unsigned nr)
{
	return check_random(state) / 16 % nr;
}

/*
 * Tells whether the call must be repeated: memory has run out, as calls fail.
 */
static UNUSED bool refused(int rc)
{
	CHECK(rc == 0 || (rc == -ENOMEM && get(&failing) != 0));
	return rc != 0;
}

#endif /* CHAOS_H */
