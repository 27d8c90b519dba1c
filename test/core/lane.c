/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * lane: which lane a thread runs on, and what is copied (usched I2). A thread
 * that has a lane to itself is never copied; a thread that shares its lane is.
 * A new thread gets the lane that was freed last; if none is free, a lane that
 * was never used; then the first 16 lanes in turn. The scheduler may choose the
 * lane. Below each lane is a page that cannot be accessed.
 */
#include "tiny.h"

#define NR	40
#define SHARED	16			/* USCHED_SHARED of usched.c */
#define TRIPS	6

static struct tiny t;
static struct tiny_thread tt[NR];
static int lane_of[NR];			/* as the thread sees it */
static int order;			/* threads that have started */

static void note_lane(void *arg)
{
	lane_of[order++] = ustack_self()->u_lane;
}

static void note_and_block(void *arg)
{
	int i;

	note_lane(arg);
	for (i = 0; i < TRIPS; i++)
		tiny_yield();
}

static void note_and_wait(void *arg)
{
	note_lane(arg);
	tiny_wait();
}

static void start(void (*f)(void *), int from, int to)
{
	for (; from < to; from++)
		tiny_start(&t, &tt[from], f, &tt[from]);
}

static void open_lanes(int lanes)
{
	CHECK_IS(tiny_init(&t, lanes), 0);
	order = 0;
}

/* Returns how many bytes of the buffer were ever written. */
static int dirty(const struct ustack *u)
{
	const unsigned char *buf = (const unsigned char *)u->u_stack;
	int i, nr = 0;

	for (i = 0; i < u->u_len; i++)
		nr += buf[i] != TINY_FRESH;
	return nr;
}

/* With a lane for each thread no buffer is written; with fewer, each is. */
static void in_place(int lanes)
{
	int i;

	open_lanes(lanes);
	t.t_keep = 1;
	start(note_and_block, 0, NR);
	tiny_run(&t);
	CHECK_THAT(t.t_allocs, >=, NR);
	for (i = 0; i < NR; i++) {
		if (lanes >= NR)
			CHECK(t.t_allocs == NR && dirty(&tt[i].tt_stack) == 0);
		else if (lanes == 1)
			CHECK(dirty(&tt[i].tt_stack) != 0);
		tiny_drop(&tt[i].tt_stack);
	}
	tiny_fini(&t);
}

/* One thread is resumed again and again, while others wait. */
static void hot_among_cold(void)
{
	int i;

	open_lanes(1);
	t.t_keep = 1;
	start(note_and_wait, 1, NR);
	start(note_and_block, 0, 1);
	tiny_run(&t);
	CHECK(dirty(&tt[0].tt_stack) == 0 && tt[0].tt_done == 1);
	for (i = 1; i < NR; i++) {
		CHECK(dirty(&tt[i].tt_stack) != 0);
		tiny_wake(&tt[i]);
	}
	tiny_run(&t);
	for (i = 0; i < NR; i++)
		tiny_drop(&tt[i].tt_stack);
	tiny_fini(&t);
}

/* Threads that end without a block all get the same lane. */
static void warm(void)
{
	int i;

	open_lanes(8);
	start(note_lane, 0, NR);
	tiny_run(&t);
	for (i = 0; i < NR; i++)
		CHECK_IS(lane_of[i], lane_of[0]);
	/* Three block; the rest share a fourth lane. */
	order = 0;
	start(note_and_wait, 0, 3);
	start(note_lane, 3, NR);
	tiny_run(&t);
	CHECK(lane_of[0] != lane_of[1] && lane_of[1] != lane_of[2] &&
	      lane_of[0] != lane_of[2]);
	for (i = 3; i < NR; i++) {
		CHECK_IS(lane_of[i], lane_of[3]);
		CHECK_THAT(lane_of[i], !=, lane_of[i % 3]);
	}
	/* The next thread gets the lane of the last that has ended. */
	for (i = 0; i < 3; i++) {
		int lane = tt[i].tt_stack.u_lane;

		tiny_wake(&tt[i]);
		tiny_run(&t);
		order = 0;
		start(note_lane, 3, 4);
		tiny_run(&t);
		CHECK_IS(lane_of[0], lane);
	}
	tiny_fini(&t);
}

/* All lanes are used before any is shared; then the first few in turn. */
static void spread(int lanes)
{
	int users[NR + 1] = { 0 };
	int i, shared = lanes < SHARED ? lanes : SHARED;

	open_lanes(lanes);
	start(note_and_block, 0, NR);
	tiny_run(&t);
	for (i = 0; i < NR; i++) {
		CHECK(lane_of[i] >= 1 && lane_of[i] <= lanes);
		CHECK(i >= lanes || users[lane_of[i]] == 0);
		CHECK(i < lanes || lane_of[i] <= shared);
		users[lane_of[i]]++;
	}
	for (i = 2; i <= shared; i++)
		CHECK_THAT(abs(users[i] - users[1]), <=, 1);
	tiny_fini(&t);
}

/*
 * A lane that was chosen before the first run is kept, and is given to no other
 * thread without need.
 */
static void chosen(void)
{
	int i;

	open_lanes(NR);
	start(note_and_block, 0, NR);
	for (i = 0; i < NR; i++)
		tt[i].tt_stack.u_lane = (short)(NR - i / 4);
	tiny_run(&t);
	for (i = 0; i < NR; i++)
		CHECK_IS(lane_of[i], NR - i / 4);
	tiny_fini(&t);
	/* One thread chooses, and blocks there; others have room elsewhere. */
	open_lanes(5);
	start(note_and_wait, 0, 4);
	tt[0].tt_stack.u_lane = 1;
	tiny_run(&t);
	for (i = 1; i < 4; i++)
		CHECK_THAT(lane_of[i], !=, 1);
	for (i = 0; i < 4; i++)
		tiny_wake(&tt[i]);
	tiny_run(&t);
	tiny_fini(&t);
}

/* The owner of a lane is the thread whose slice lies there. */
static struct ustack *next_owner(struct usched *s)
{
	struct ustack *u = tiny_next(s);
	int i, j, owned = 0;

	for (i = 0; i <= s->s_lane_nr; i++) {
		for (j = 0; j < NR; j++)
			owned += s->s_lane[i].l_owner == &tt[j].tt_stack;
	}
	CHECK_THAT(owned, <=, s->s_lane_nr);
	for (j = 0; j < order; j++) {
		if (tt[j].tt_done == 0 && tt[j].tt_stack.u_lane != 0)
			CHECK_THAT(s->s_lane[tt[j].tt_stack.u_lane].l_bound, >,
				   0);
	}
	return u;
}

static void owners(int lanes)
{
	open_lanes(lanes);
	t.t_sched.s_next = next_owner;
	start(note_and_block, 0, NR);
	tiny_run(&t);
	tiny_fini(&t);
}

/* Overruns. */

static volatile unsigned char *canary[3];

static void overrun(int signo, siginfo_t *si, void *context)
{
	static const char ok[] = "guard\n";
	struct usched_lane *l = &t.t_sched.s_lane[ustack_self()->u_lane];
	char *at = (char *)si->si_addr;
	int i, j;

	CHECK(at < l->l_low && at >= l->l_low - sysconf(_SC_PAGESIZE));
	for (i = 0; i < 3; i += 2) {
		for (j = 0; j < 64; j++)
			CHECK_IS(canary[i][j], 0x33 + i);
	}
	(void)!write(STDERR_FILENO, ok, sizeof ok - 1);
	signal(SIGSEGV, SIG_DFL);	/* the fault comes again, and kills */
}

static NOINLINE int recurse(int depth)
{
	volatile char array[512];

	array[0] = array[511] = (char)depth;
	if (depth < 0)
		return 0;
	return recurse(depth + 1) + array[0] + array[511];
}

static void neighbour(void *arg)
{
	unsigned char here[64];
	int i = (int)(uintptr_t)arg;

	memset(here, 0x33 + i, sizeof here);
	canary[i] = here;
	tiny_wait();
	CHECK_IS(here[0], 0x33 + i);
}

static void deep(void *arg)
{
	CHECK_THAT(recurse(0), !=, 1);
}

static void die_overrun(void)
{
	static char alternate[64 << 10];
	struct sigaction sa;
	stack_t ss;
	int i;

	memset(&sa, 0, sizeof sa);
	memset(&ss, 0, sizeof ss);
	ss.ss_sp   = alternate;
	ss.ss_size = sizeof alternate;
	sa.sa_sigaction = overrun;
	sa.sa_flags     = SA_SIGINFO | SA_ONSTACK;
	CHECK_IS(sigaltstack(&ss, NULL), 0);
	CHECK_IS(sigaction(SIGSEGV, &sa, NULL), 0);
	open_lanes(3);
	for (i = 0; i < 3; i++) {
		tiny_start(&t, &tt[i], i == 1 ? deep : neighbour,
			   (void *)(uintptr_t)i);
		tt[i].tt_stack.u_lane = (short)(i + 1);
	}
	t.t_head = NULL;
	tiny_wake(&tt[0]);
	tiny_wake(&tt[2]);
	tiny_wake(&tt[1]);
	tiny_run(&t);
}

static void guard(void)
{
	char text[1024];
	int status = check_child(die_overrun, text, sizeof text);

	if (strstr(text, "guard\n") == NULL)
		fprintf(stderr, "%s", text);
	CHECK(strstr(text, "guard\n") != NULL);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

/* Every byte of a lane of the minimum size can be used. */
static void fill_lane(void *arg)
{
	struct usched_lane *l = &t.t_sched.s_lane[ustack_self()->u_lane];
	char here;

	memset(l->l_low, 0x44, &here - l->l_low - 4096);
	tiny_yield();
	CHECK_THAT(l->l_bottom - l->l_low, >=, 16384);
	CHECK_IS((uintptr_t)l->l_bottom % 16, 0);
}

static void bounds(void)
{
	int i;

	CHECK_IS(tiny_init(&t, 0), 0);
	CHECK_IS(usched_lanes(&t.t_sched, NR, 16384 - 1), 0);
	start(fill_lane, 0, NR);
	tiny_run(&t);
	for (i = 2; i <= NR; i++)
		CHECK_THAT(t.t_sched.s_lane[i].l_low, >,
			   t.t_sched.s_lane[i - 1].l_bottom);
	tiny_fini(&t);
}

/*
 * Makes as many lanes as the header promises, or as the system allows (on Linux
 * half of vm.max_map_count).
 */
static void most(void)
{
	int rc;

	CHECK_IS(tiny_init(&t, 1), 0);
	rc = usched_lanes(&t.t_sched, USCHED_LANE_MAX, 4096);
	CHECK(rc == 0 || rc == -ENOMEM);
	CHECK_IS(t.t_sched.s_lane_nr, rc == 0 ? USCHED_LANE_MAX : 1);
	start(note_lane, 0, 1);
	tt[0].tt_stack.u_lane = (short)t.t_sched.s_lane_nr;
	tiny_run(&t);
	CHECK_IS(tt[0].tt_done, 1);
	tiny_fini(&t);
}

int main(int argc, char **argv)
{
	static const int lanes[] = { 1, 2, 15, 16, 17, 20, NR - 1, NR, NR + 9 };
	int i;

	check_start(argc, argv);
	(void)setenv("USCHED_LAW", "off", 1);	/* its checks copy slices */
	if (tiny_init(&t, 1) == -ENOSYS)
		check_skip("no lanes in a portable build");
	tiny_fini(&t);
	for (i = 0; i < COUNT(lanes); i++) {
		in_place(lanes[i]);
		spread(lanes[i] < NR ? lanes[i] : NR);
		owners(lanes[i]);
	}
	hot_among_cold();
	warm();
	chosen();
	guard();
	bounds();
	most();
	return 0;
}
