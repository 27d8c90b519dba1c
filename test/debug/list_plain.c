/* SPDX-License-Identifier: MIT */
/* VARIANTS: once */
/*
 * list_plain: ulist.h lists the threads of a bare dispatcher, also if ustats.h
 * counts it, and none that ustack_fini() has forgotten, that a jump has left,
 * or whose run is over. It leaves the call-backs as they were. The child of
 * fork() makes lists of its own, and reports no thread of the parent. A
 * scheduler that is stuck is listed alone, and processors that switch stop for
 * a list. A thread may make a list, and a thread in ucall() is in it.
 */
#include "tiny.h"
#include "ll.h"
#include "rr.h"
#include "ucall.h"
#include "ustats.h"
#include "ulist.h"
#include "uwait.h"

#include <setjmp.h>

#define TEXT	(1 << 20)
#define NR	4
#define REPORTS	3

static struct tiny t;
static struct tiny_thread tt[NR];
static char text[TEXT];
static int lanes, forgets, counts, object;

static int times(const char *what)
{
	const char *at = text;
	int nr = 0;

	while ((at = strstr(at, what)) != NULL) {
		at++;
		nr++;
	}
	return nr;
}

static void t_wait(void *arg)
{
	tiny_wait();
	__asm__ volatile("");
}

static void t_end(void *arg)
{
	tiny_yield();
	tiny_yield();
}

static struct ustack *(*was)(struct usched *s);

/* Lists all when no thread can run. */
static struct ustack *next(struct usched *s)
{
	struct ustack *u = was(s);

	if (u == NULL)
		ulist_print("no thread can run");
	return u;
}

/* Forgets the first thread, which waits, perhaps on the same lane. */
static void t_forget(void *arg)
{
	tiny_yield();
	if (forgets) {
		ustack_fini(&tt[0].tt_stack);
		tiny_drop(&tt[0].tt_stack);
		memset(&tt[0], 0x5a, sizeof tt[0]);
	}
	tiny_wait();
	__asm__ volatile("");
}

static void bare_run(void)
{
	struct ustack *(*mine)(struct usched *s);
	struct usched_stats st;

	CHECK_IS(ulist_start(), 0);
	tiny_init(&t, lanes);
	was = t.t_sched.s_next;
	mine = t.t_sched.s_next = next;
	tiny_start(&t, &tt[0], t_wait, NULL);
	tiny_start(&t, &tt[1], t_end, NULL);
	tiny_start(&t, &tt[2], t_wait, &object);
	tiny_start(&t, &tt[3], t_forget, NULL);
	if (counts)
		CHECK_IS(usched_stats(&t.t_sched, &st), 0);
	usched_run(&t.t_sched);
	if (counts) {
		CHECK_IS(st.starts, 4);
		usched_stats_end(&t.t_sched);
	}
	CHECK(t.t_sched.s_next == mine && t.t_sched.s_links == NULL);
	ulist_print("run is over");
}

static void bare(void)
{
	char end[80];

	CHECK_IS(check_child(bare_run, text, TEXT), 0);
	snprintf(end, sizeof end, "usched: end of list: %d threads, %d blocked\n",
		 3 - forgets, 3 - forgets);
	CHECK_IS(times(end), 1);
	CHECK_IS(times("no thread can run\n"), 1);
	CHECK_IS(times(": blocked, "), 2);
	CHECK_IS(times(" t_forget(0x0): blocked, "), 1);
	CHECK_IS(times(" t_wait("), 1);
	CHECK_IS(times("\tand 1 more like it, "), !forgets);
	snprintf(end, sizeof end, " t_wait(%p): blocked", (void *)&object);
	CHECK_IS(times(end), forgets);
	CHECK(strstr(text, "usched: list: run is over\n"
		     "usched: end of list: 0 threads\n") != NULL);
}

/* ThreadSanitizer permits neither jumps nor forks of such programs. */
#if defined(__SANITIZE_THREAD__)
#define IN_TSAN	1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define IN_TSAN	1
#endif
#endif
#if !defined(IN_TSAN)
#define IN_TSAN	0
#endif

static jmp_buf out;

static void t_jump(void *arg)
{
	tiny_yield();
	longjmp(out, 1);
}

static void jump_run(void)
{
	CHECK_IS(ulist_start(), 0);
	tiny_init(&t, 8);
	tiny_start(&t, &tt[0], t_wait, NULL);
	tiny_start(&t, &tt[1], t_jump, NULL);
	if (setjmp(out) == 0)
		usched_run(&t.t_sched);
	usched_left(&t.t_sched);
	ulist_print("left");
	tiny_wake(&tt[0]);
	usched_run(&t.t_sched);
	ulist_print("again");
}

static void jump(void)
{
	CHECK_IS(check_child(jump_run, text, TEXT), 0);
	CHECK_IS(times("end of list: 0 threads\n"), 2);
}

/* A thread of rr forks; the child runs a scheduler of its own. */

static void t_rr(void *arg)
{
	CHECK(arg != NULL);
	CHECK_IS(rr_wait(), 0);
}

static void child_run(void)
{
	CHECK_IS(rr_init(2, 0), 0);
	CHECK(rr_thread_init(t_rr, &t) != NULL);
	CHECK(rr_start() == 0 && rr_fini() == -EDEADLK);
	ulist_print("in the child");
	_exit(0);
}

static void t_fork(void *arg)
{
	int status;
	pid_t pid;

	CHECK_IS(rr_yield(), 0);
	pid = fork();
	CHECK_THAT(pid, >=, 0);
	if (pid == 0)
		child_run();
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void fork_run(void)
{
	CHECK_IS(ulist_on_run(1000000000), 0);
	CHECK_IS(rr_init(2, 0), 0);
	CHECK(rr_thread_init(t_fork, NULL) != NULL);
	CHECK(rr_thread_init(t_rr, &tt) != NULL);
	CHECK(rr_start() == 0 && rr_fini() == -EDEADLK);
}

static void forks(void)
{
	CHECK_IS(check_child(fork_run, text, TEXT), 0);
	CHECK_IS(times("1 thread is left"), 2);
	CHECK(times(" t_rr(") == 2 && times("1 threads, 1 wait\n") == 2);
	CHECK(strstr(text, "usched: list: in the child\n"
		     "usched: end of list: 0 threads\n") != NULL);
}

/* In the child a thread is reported that runs for long, and not the parent's. */

/* Stops its processor until the reports are so many, and gives way. */
static void t_holds(void *arg)
{
	const int *from = arg;
	ssize_t nob, at = 0;
	int nr;

	for (nr = 1; nr <= REPORTS; nr++) {
		while (times(" has not given way ") < nr) {
			nob = read(*from, text + at, (size_t)(TEXT - 1 - at));
			CHECK_THAT(nob, >, 0);
			text[at += nob] = 0;
		}
		CHECK(times("usched: run: ") == nr && times(" t_holds(") == nr);
		CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	}
}

static void child_holds(void)
{
	int ends[2];

	CHECK(pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) >= 0);
	text[0] = 0;
	CHECK(rr_init(1, 0) == 0 && rr_thread_init(t_holds, ends) != NULL);
	CHECK(rr_start() == 0 && rr_fini() == 0);
	ulist_print("in the child");
	_exit(0);
}

static void t_fork_holds(void *arg)
{
	int status;
	pid_t pid = fork();

	CHECK_THAT(pid, >=, 0);
	if (pid == 0)
		child_holds();
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void holds_run(void)
{
	CHECK_IS(ulist_on_run(20 * UTIME_MS), 0);
	CHECK(rr_init(1, 0) == 0 && rr_thread_init(t_fork_holds, NULL) != NULL);
	CHECK(rr_start() == 0 && rr_fini() == 0);
}

static void holds(void)
{
	CHECK_IS(check_child(holds_run, text, TEXT), 0);
}

/* A list of a scheduler that is stuck, while another runs. */

static void t_ll(void *arg)
{
	CHECK_IS(ll_wait(), 0);
}

static void two_run(void)
{
	CHECK_IS(ulist_start(), 0);
	CHECK(ll_init(1, 0) == 0 && ll_thread_init(t_ll, NULL, 0) != NULL);
	ll_hold();
	CHECK_IS(ll_start(), 0);
	CHECK(rr_init(1, 0) == 0 && rr_thread_init(t_rr, &t) != NULL);
	CHECK(rr_start() == 0 && rr_fini() == -EDEADLK);
	ll_release();
	CHECK_IS(ll_fini(), -EDEADLK);
}

static void two(void)
{
	CHECK_IS(check_child(two_run, text, TEXT), 0);
	CHECK_IS(times("1 threads, 1 wait\n"), 2);
	CHECK(times(" t_rr(") == 1 && times(" t_ll(") == 1);
	CHECK_THAT(strstr(text, " t_rr("), <, strstr(text, " t_ll("));
}

/*
 * Processors that switch stop for a list. A list may find a processor without
 * a cpu, but not each time. Beside programs that compute it mostly does.
 */

static int end;

static void t_busy(void *arg)
{
	volatile int i;

	while (!__atomic_load_n(&end, __ATOMIC_RELAXED)) {
		for (i = 0; i < 10000000; i++)
			;
		CHECK_IS(rr_yield(), 0);
	}
}

static void busy_run(void)
{
	int i;

	CHECK_IS(ulist_start(), 0);
	CHECK_IS(rr_init(2, 0), 0);
	for (i = 0; i < 4; i++)
		CHECK(rr_thread_init(t_busy, NULL) != NULL);
	CHECK_IS(rr_start(), 0);
	for (i = 0; i < 20; i++) {
		usleep(5000);
		ulist_print("busy");
	}
	__atomic_store_n(&end, 1, __ATOMIC_RELAXED);
	CHECK_IS(rr_fini(), 0);
}

static void busy(void)
{
	int nr;

	do {
		CHECK_IS(check_child(busy_run, text, TEXT), 0);
		CHECK_IS(times("usched: list: busy\n"), 20);
		nr = times("end of list: 4 threads, 4 ready\n");
	} while (nr == 0 && check_time(50));
	CHECK_THAT(nr, >, 0);
}

/* A call, and a list made by a thread. */

static int go;

static void call(void *arg)
{
	while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE))
		usleep(1000);
}

static void t_call(void *arg)
{
	CHECK_IS(ucall(call, arg), 0);
}

static void t_list(void *arg)
{
	CHECK_IS(rr_yield(), 0);
	ulist_print("by a thread");
	__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
}

static void call_run(void)
{
	CHECK_IS(ulist_start(), 0);
	CHECK_IS(rr_init(1, 0), 0);
	CHECK(rr_thread_init(t_call, NULL) != NULL);
	CHECK(rr_thread_init(t_list, NULL) != NULL);
	CHECK(rr_start() == 0 && rr_fini() == 0);
}

static void calls(void)
{
	CHECK_IS(check_child(call_run, text, TEXT), 0);
	CHECK_IS(times(" t_call(0x0): waits: call 0x"), 1);
	CHECK_IS(times(" (call), "), 1);
	CHECK_IS(times(" t_list(0x0): runs\n"), 1);
	CHECK_IS(times("2 threads, 1 wait, 1 run\n"), 1);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	for (lanes = 0; lanes <= 8; lanes += 8) {
		for (forgets = 0; forgets < 2; forgets++)
			for (counts = 0; counts < 2; counts++)
				bare();
	}
	if (!IN_TSAN) {
		jump();
		forks();
		holds();
	}
	two();
	busy();
	calls();
	return 0;
}
