/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/* LIBS: -lm */
/*
 * again: s_again() is called where a thread has ended, at any depth. If it
 * returns 1, the same struct ustack begins again, with another function and
 * argument, at the bottom of its lane, as a new thread would; 0 changes nothing
 * (usched I6). Threads run in the same order as if s_done() put the thread at
 * the head of the queue.
 */
#include "tiny.h"
#include <fenv.h>
#include <sys/time.h>
#include <time.h>

#define NR	300			/* threads of a tree */
#define CHAIN	100000
#define SIGNALS	300			/* at least this many, each PERIOD us */
#define PERIOD	300
#define DEEP	300
#define NEAR	4096			/* bytes of a few frames */
#define HERE	((char *)__builtin_frame_address(0))

/*
 * Of the control words only rounding is tested here; the others are in fpu.
 */
#if defined(__x86_64__) || defined(__aarch64__) || defined(__riscv_flen)
#define ROUND	FE_UPWARD
#else
#define ROUND	FE_TONEAREST		/* rounding is not kept */
#endif
#define USUAL	(fegetround() == FE_TONEAREST)

struct mine {
	struct tiny_thread m_thread;		/* must be first */
	struct mine       *m_self[2];		/* arguments, used in turn */
	void             (*m_next)(void *);	/* its next function */
	int                m_nr;
	unsigned           m_begun;		/* 0 or 1; else m is freed */
	unsigned           m_seed;
};

static struct tiny t;
static int made;			/* threads so far */
static unsigned order;			/* of all that happened: a hash */
static struct ustack *last;		/* the thread that ends */
static char *where;			/* the last frame of last */
static int lane, bound;			/* the lane of last, and its l_bound */
static struct ustack *heir;		/* the thread that begins again */
static long asked, agains;		/* calls of s_again(), and results 1 */

static void note(const struct mine *m, unsigned what)
{
	order = check_hash(order ^ (unsigned)m->m_nr, what);
}

static void number(struct mine *m)
{
	m->m_nr = made++;
	m->m_begun = 0;
	m->m_thread.tt_stack.u_arg = &m->m_self[m->m_nr % 2];
}

static void start(void (*f)(void *))
{
	struct mine *m = (struct mine *)calloc(1, sizeof *m);

	CHECK(m != NULL);
	tiny_start(&t, &m->m_thread, f, m);
	m->m_self[0] = m->m_self[1] = m;
	number(m);
	m->m_seed = check_hash(check_seed, (unsigned)m->m_nr);
}

/* The first call of f(). */
static struct mine *begins(void *arg, void (*f)(void *), char *frame)
{
	struct mine *m = *(struct mine **)arg;
	struct ustack *u = &m->m_thread.tt_stack;
	const struct usched_lane *l = &t.t_sched.s_lane[u->u_lane];

	CHECK(ustack_self() == u && u->u_f == f && u->u_arg == arg && USUAL);
	CHECK(frame <= l->l_bottom && l->l_bottom - frame < NEAR);
	CHECK(l->l_owner == u && !m->m_begun);
	CHECK(!heir || (heir == u && u->u_lane == lane && l->l_bound == bound));
	heir = NULL;
	m->m_begun = 1;
	note(m, 'b');
	return m;
}

/* The last call. frame: where the thread aborts, or NULL if it returns. */
static void ends(struct mine *m, char *frame)
{
	last  = &m->m_thread.tt_stack;
	lane  = last->u_lane;
	bound = t.t_sched.s_lane[lane].l_bound;
	where = frame != NULL ? frame : t.t_sched.s_lane[lane].l_bottom;
	note(m, 'e');
	if (m->m_nr % 3 != 0)
		CHECK_IS(fesetround(ROUND), 0);
}

static void done(struct usched *s, struct ustack *u)
{
	struct mine *m = (struct mine *)u;

	CHECK(ustack_self() == NULL && u == last && heir == NULL && USUAL);
	CHECK(u->u_lane == lane && s->s_lane[lane].l_bound == bound - 1);
	last = NULL;
	if (m->m_next != NULL) {
		ustack_init(u, s, m->m_next, NULL, u->u_stack, u->u_len);
		number(m);
		m->m_thread.tt_next = t.t_head;
		t.t_head = &m->m_thread;	/* first for s_next() */
		return;
	}
	tiny_done(s, u);
	memset(m, TINY_STALE, sizeof *m);
	__asm__ volatile("" : : "r"(m) : "memory"); /* else not done */
	free(m);
}

static int again(struct usched *s, struct ustack *u)
{
	struct mine *m = (struct mine *)u;

	CHECK(HERE < where && where - HERE < NEAR);
	CHECK(ustack_self() == u && u == last && s == &t.t_sched && USUAL);
	asked++;
	if (m->m_next == NULL)
		return 0;
	last = NULL;
	heir = u;
	agains++;
	u->u_f = m->m_next;
	number(m);
	return 1;
}

/* wanted: how often s_again() returns 1; -1: sometimes; 0: it is not set. */
static unsigned run(void (*f)(void *), int nr, int lanes, long wanted)
{
	CHECK_IS(tiny_init(&t, lanes), 0);
	t.t_sched.s_done  = done;
	t.t_sched.s_again = wanted != 0 ? again : NULL;
	asked = agains = made = order = 0;
	while (nr-- > 0)
		start(f);
	tiny_run(&t);
	CHECK_IS(asked, wanted != 0 && t.t_sched.s_prologue != 0 ? made : 0);
	CHECK(asked == 0 || agains == wanted || (wanted < 0 && agains > 0));
	CHECK(!lanes || usched_lanes(&t.t_sched, 1, TINY_LANE) != -EBUSY);
	tiny_fini(&t);
	return order;
}

static NOINLINE void abort_at(struct mine *m, int depth)
{
	if (depth > 0)
		abort_at(m, depth - 1);
	else if (m->m_begun) {
		ends(m, HERE);
		ustack_abort();
	}
	CHECK(m == NULL && "nobody comes back");
}

static void leaf(void *arg)
{
	struct mine *m = begins(arg, leaf, HERE);

	m->m_next = NULL;
	ends(m, NULL);
}

/* A tree: threads make threads, block, and end, or begin again. */
static void branch(void *arg)
{
	struct mine *m = begins(arg, branch, HERE);
	unsigned i, n = 0;

	for (i = 0; i < 10; i++) {
		n = check_random(&m->m_seed) % 32;
		if (n < 4 && made < NR)
			start(branch);
		if (n > 28)
			tiny_yield();
		note(m, n);
	}
	i = m->m_seed / 64 % 4;
	m->m_next = i == 0 ? branch : i == 1 ? leaf : NULL;
	if (n % 2 == 0)
		abort_at(m, n == 30 ? DEEP : (int)n);
	ends(m, NULL);
}

/* A chain of threads. If s_again() is not called, a shorter chain will do. */
static void chained(void *arg)
{
	struct mine *m = begins(arg, chained, HERE);
	int nr = t.t_sched.s_prologue != 0 ? CHAIN : CHAIN / 100;

	m->m_next = made < nr ? chained : NULL;
	if (m->m_nr % 4 != 0)
		abort_at(m, m->m_nr % 99 == 0 ? DEEP : m->m_nr % 5);
	ends(m, NULL);
}

/*
 * The first thread blocks, and shares its lane. The second leaves registers
 * dirty, and begins again as the fourth. If its registers are then zero, its
 * slice is as short as that of the third (prologue words).
 */
static int len[4];

static void sleeps(void *arg)
{
	struct mine *m;

	__builtin_unwind_init();	/* saves all registers */
	m = begins(arg, sleeps, HERE);
	m->m_next = m->m_nr == 1 ? sleeps : NULL;
	if (m->m_nr == 1)
		abort_at(m, 1);
	tiny_yield();
	len[m->m_nr] = m->m_thread.tt_stack.u_len;
	ends(m, NULL);
}

/* Signals that arrive all the time change nothing, and meet no freed thread. */
static volatile sig_atomic_t seen;
static time_t deadline;

static void handler(int signo)
{
	const struct mine *m = (struct mine *)ustack_self();
	char dirt[NEAR];

	if (time(NULL) > deadline) {	/* SIGALRM is taken: our watchdog */
		check_look();
		deadline = time(NULL) + check_limit;
	}
	CHECK(m == NULL || m->m_begun <= 1);
	memset(dirt, TINY_STALE, sizeof dirt);
	__asm__ volatile("" : : "r"(dirt) : "memory");
	seen++;
}

int main(int argc, char **argv)
{
	static const int lanes[] = { 0, 1, 2, 7 };
	const struct itimerval it = { { 0, PERIOD }, { 0, PERIOD } };
	unsigned i, plain, nr = tiny_has_lanes() ? COUNT(lanes) : 1;

	check_start(argc, argv);
	deadline = time(NULL) + check_limit;
	for (i = 0; i < nr; i++) {
		run(chained, 1, lanes[i], CHAIN - 1);
		run(sleeps, 3, lanes[i], 1);
		CHECK(asked == 0 || lanes[i] > 1 || len[2] == len[3]);
	}
	CHECK_THAT(signal(SIGALRM, handler), !=, SIG_ERR);
	CHECK_IS(setitimer(ITIMER_REAL, &it, NULL), 0);
	for (i = 0; i < nr; i++) {
		plain = run(branch, NR / 15, lanes[i], 0);
		for (seen = 0; seen < SIGNALS; )
			CHECK_IS(run(branch, NR / 15, lanes[i], -1), plain);
	}
	alarm(0);
	return 0;
}
