/* SPDX-License-Identifier: MIT */
/* VARIANTS: RR LL WS */
/*
 * list: a scheduler that is stuck writes a list of exactly the threads that
 * are left, each with its function, the object of its wait, and a backtrace.
 * The same list comes on a signal, also while a thread computes without end,
 * and while threads begin, end, and move. A thread that runs for too long is
 * reported once.
 */

#include "either.h"
#include "usync.h"
#include "uthread.h"
#include "uwait.h"
#include "ulist.h"

#define TEXT	(4 << 20)
#define MANY	900		/* more than there are lanes for two workers */
#define EACH	200		/* threads that end */
#define LISTS	30

/* Where utrace.h can. */
#if defined(USCHED_PORTABLE) ||					\
	!(defined(__x86_64__) || defined(__aarch64__))
#define TRACES	0
#else
#define TRACES	1
#endif

/* ThreadSanitizer keeps signals from code that only computes. */
#if defined(__SANITIZE_THREAD__)
#define COMPUTES	NULL
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define COMPUTES	NULL
#endif
#endif
#if !defined(COMPUTES)
#define COMPUTES	"w_compute"
#endif

static char text[TEXT];
static thread *joined;
static int lock_b;		/* what threads wait for */
static int ready_nr;
static int stop;
static long ends;

/* The functions of threads call no function last, so that they have frames. */
#define END	__asm__ volatile("" : : : "memory")

static NOINLINE void w_wait(void)
{
	wait_one();
	END;
}

static void t_plain(void *arg)
{
	w_wait();
	END;
}

static NOINLINE int w_record(struct uwait_kind *kind, void *object,
			     utime_ns until)
{
	struct uwait *w = uwait_make(kind, object, sizeof *w);
	int rc;

	CHECK(w != NULL);
	rc = uwait_for(w, until);
	uwait_free(w);
	return rc;
}

static void t_mutex(void *arg)
{
	w_record(UWAIT_MUTEX, arg, UNEVER);
	END;
}

static void t_join(void *arg)
{
	SCHED(join)(joined);
	END;
}

/* Waits twice. The first wait ends, and must not be listed. */
static void t_twice(void *arg)
{
	CHECK_IS(w_record(UWAIT_COND, arg, uafter(UTIME_MS)), -ETIMEDOUT);
	w_wait();
	END;
}

static void t_until(void *arg)
{
	u_sleep(uafter(900 * UTIME_S));
	END;
}

static void t_end(void *arg)
{
	yield();
	u_sleep(uafter(UTIME_MS));
}

static NOINLINE void w_compute(void)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		END;
}

/* Runs when all others of its processor wait. */
static void t_endless(void *arg)
{
	while (__atomic_load_n(&ready_nr, __ATOMIC_RELAXED) != 0)
		yield();
	w_compute();
	add(&ends, 1);
}

/* Never runs again behind t_endless(). */
static void t_ready(void *arg)
{
	__atomic_fetch_sub(&ready_nr, 1, __ATOMIC_RELAXED);
	yield();
	add(&ends, 1);
}

/* How often what is in text. */
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

/* Returns the line of the thread with this function, and cuts it off. */
static char *line_of(const char *function)
{
	static char line[4096];
	char name[64];
	char *at;

	snprintf(name, sizeof name, " %s(", function);
	for (at = text; (at = strstr(at, "thread 0x")) != NULL; at++) {
		char *end = strchr(at, '\n');
		char *more;

		CHECK(end != NULL);
		/* The frames of the thread are part of this. */
		while (end[1] == '\t' && (more = strchr(end + 1, '\n')) != NULL)
			end = more;
		if (strstr(at, name) == NULL || strstr(at, name) > end)
			continue;
		CHECK_THAT((size_t)(end - at), <, sizeof line);
		memcpy(line, at, end - at);
		line[end - at] = 0;
		memset(at, '-', end - at);
		return line;
	}
	fprintf(stderr, "no %s in:\n%s\n", function, text);
	CHECK(!"a thread is listed");
	return NULL;
}

/* Checks that the thread has this state, and frames of these two functions. */
static void listed(const char *function, const char *state, const char *frame)
{
	char *line = line_of(function);
	char want[64];

	if (strstr(line, state) == NULL)
		fprintf(stderr, "not \"%s\" in:\n%s\n", state, line);
	CHECK(strstr(line, state) != NULL);
	if (!TRACES || frame == NULL)
		return;
	snprintf(want, sizeof want, " %s+", frame);
	if (strstr(line, want) == NULL)
		fprintf(stderr, "no frame of %s in:\n%s\n", frame, line);
	CHECK(strstr(line, want) != NULL);
	snprintf(want, sizeof want, " %s+", function);
	CHECK(strstr(line, want) != NULL);
}

static void stuck_run(void)
{
	int i;

	CHECK_IS(ulist_start(), 0);
	CHECK_IS(ulist_start(), 0);
	begin(2, 0);
	make(0, t_plain, NULL);
	make(0, t_mutex, &lock_b);
	joined = make_joinable(1, t_plain, NULL);
	make(1, t_join, NULL);
	make(0, t_twice, &lock_b);
	for (i = 0; i < EACH; i++)
		make(i, t_end, NULL);
	CHECK_IS(SCHED(start)(), 0);
	CHECK(SCHED(fini)() == -EDEADLK && SCHED(stuck)() == 5);
}

static void stuck(void)
{
	char join[64];

	doing("stuck");
	CHECK_IS(check_child(stuck_run, text, TEXT), 0);
	CHECK_IS(strstr(text,
		 "usched: list: 5 threads are left, and none can be "
		 "woken\n"), text);
	CHECK(strstr(text, "usched: end of list: 5 threads, 5 wait\n"));
	listed("t_mutex", ": waits: mutex 0x", "w_record");
	listed("t_twice", ": waits: wake, ", "w_wait");
	CHECK_IS(times("(lock_b)"), 0);		/* of t_mutex, which is cut */
	snprintf(join, sizeof join, ": waits: join 0x");
	listed("t_join", join, NULL);
	CHECK_IS(times("\tand 1 more like it, "), 1);
	listed("t_plain", ": waits: wake, ", "w_wait");
	CHECK_IS(times("thread 0x"), 0);
}

/* Two threads, each of which holds the mutex that the other wants. */

static struct umutex mutex[2];

static void *t_named(void *arg)
{
	int nr = *(int *)arg;

	CHECK_IS(umutex_lock(&mutex[nr], UNEVER), 0);
	yield();
	(void)!umutex_lock(&mutex[!nr], UNEVER);
	return NULL;
}

static void t_maker(void *arg)
{
	static int nr[2] = { 0, 1 };

	CHECK_IS(uthread_make(NULL, t_named, &nr[0], "zero"), 0);
	CHECK_IS(uthread_make(NULL, t_named, &nr[1], "number one is cut"), 0);
}

static void named_run(void)
{
	CHECK_IS(ulist_start(), 0);
	begin(1, 0);
	make(0, t_maker, NULL);
	CHECK_IS(SCHED(start)(), 0);
	CHECK_IS(SCHED(fini)(), -EDEADLK);
}

/* Each thread of the list holds what the other waits for, as Linux can tell. */
static inline void check_holders(void)
{
	unsigned long thread[2], holder[2];
	const char *at = text;
	int i;

	for (i = 0; i < 2; i++) {
		at = strstr(at, "thread 0x");
		CHECK(at != NULL && sscanf(at, "thread %lx", &thread[i]) == 1);
		at = strstr(at, ", held by 0x");
		CHECK(at != NULL && sscanf(at, ", held by %lx", &holder[i]) == 1);
	}
	CHECK(thread[0] == holder[1] && thread[1] == holder[0]);
}

static void named(void)
{
	char want[64];

	doing("named");
	CHECK_IS(check_child(named_run, text, TEXT), 0);
	CHECK_IS(times("end of list: 2 threads, 2 wait\n"), 1);
	snprintf(want, sizeof want, ") \"zero\": waits: mutex %#lx (mutex",
		 (unsigned long)(uintptr_t)&mutex[1]);
	CHECK_IS(times(want), 1);
#if defined(__linux__)
	check_holders();
#endif
	snprintf(want, sizeof want, ") \"number one is \": waits: mutex %#lx "
		 "(mutex", (unsigned long)(uintptr_t)&mutex[0]);
	CHECK_IS(times(want), 1);
	CHECK(!TRACES || times(" t_named+") == 2);
}

/*
 * A cycle of threads, and one that waits for a thread of it, or a line of threads
 * of which the last only sleeps.
 */

#define LINE	5

static struct umutex lock[LINE];
static int in_line;
static bool in_cycle;

static void *t_line(void *arg)
{
	int nr = *(int *)arg;

	if (nr < in_line)
		CHECK_IS(umutex_lock(&lock[nr], UNEVER), 0);
	yield();
	if (nr != in_line - 1 || in_cycle)
		(void)!umutex_lock(&lock[nr < in_line ? (nr + 1) % in_line : 0],
				   UNEVER);
	else
		(void)SCHED(wait)();
	return NULL;
}

static void t_line_maker(void *arg)
{
	static int nr[LINE + 1];
	int i;

	(void)arg;
	for (i = 0; i <= in_line; i++) {
		nr[i] = i;
		CHECK_IS(uthread_make(NULL, t_line, &nr[i], "in line"), 0);
	}
}

static void line_run(void)
{
	CHECK_IS(ulist_start(), 0);
	begin(1, 0);
	make(0, t_line_maker, NULL);
	CHECK_IS(SCHED(start)(), 0);
	CHECK_IS(SCHED(fini)(), -EDEADLK);
}

/* Each thread of the cycle is named once, and holds what the thread before wants. */
static inline void check_cycle(void)
{
	unsigned long u, holder = 0, first = 0, before = 0;
	const char *at = strstr(text, "usched: dead lock:");
	int i;

	for (i = 0; i < in_line; i++) {
		at = strchr(at, '\n') + 1;
		CHECK_IS(sscanf(at, "\t%lx waits: mutex %*x, held by %lx", &u,
			 &holder), 2);
		if (i == 0)
			first = u;
		else
			CHECK(u == before && u != first);
		before = holder;
	}
	CHECK(holder == first && strncmp(strchr(at, '\n') + 1, "\t", 1) != 0);
}

static void cycle(int nr, bool closed)
{
	char want[64];

	doing("cycle");
	in_line   = nr;
	in_cycle = closed;
	CHECK_IS(check_child(line_run, text, TEXT), 0);
	snprintf(want, sizeof want, "usched: end of list: %d threads, %d wait\n",
		 nr + 1, nr + 1);
	CHECK_IS(times(want), 1);
	snprintf(want, sizeof want, "usched: dead lock: %d threads wait for each "
		 "other\n", nr);
#if defined(__linux__)
	CHECK(times("dead lock") == closed && times(want) == closed);
	if (closed)
		check_cycle();
#endif
}

/* Nothing is written without a request, nor if all threads end. */
static void silent_run(void)
{
	check_quiet();
	begin(2, 0);
	make(0, t_plain, NULL);
	CHECK_IS(SCHED(start)(), 0);
	CHECK_IS(SCHED(fini)(), -EDEADLK);
	CHECK_IS(ulist_start(), 0);
	one_thread(2, t_end, NULL);
	ulist_print("by hand");
}

static void silent(void)
{
	const char *list;

	doing("silent");
	CHECK_IS(check_child(silent_run, text, TEXT), 0);
	list = strstr(text, "usched: list: ");
	CHECK(list != NULL && strcmp(list, "usched: list: by hand\n"
		     "usched: end of list: 0 threads\n") == 0);
	CHECK_IS(list, text);
}

/*
 * Many threads, most of them in buffers. They do the same: one line, and how many
 * are like it. Those that wait for an object each have a line each, of which there
 * are 1000 at most.
 */
static char objects[1100];

static void t_object(void *arg)
{
	w_record(UWAIT_SEM, arg, UNEVER);
	__asm__ volatile("");
}

static void many_run(void)
{
	int i;

	CHECK_IS(ulist_start(), 0);
	begin(2, MANY);
	for (i = 0; i < MANY; i++)
		make(i, t_plain, NULL);
	CHECK_IS(SCHED(start)(), 0);
	CHECK_IS(SCHED(fini)(), -EDEADLK);
	begin(1, 0);
	for (i = 0; i < 1100; i++)
		make(0, t_object, &objects[i]);
	CHECK_IS(SCHED(start)(), 0);
	CHECK_IS(SCHED(fini)(), -EDEADLK);
}

static void many(void)
{
	doing("many");
	CHECK_IS(check_child(many_run, text, TEXT), 0);
	CHECK(strstr(text, "end of list: 900 threads, 900 wait\n") != NULL);
	CHECK(strstr(text, "end of list: 1100 threads, 1100 wait, "
		     "100 not shown\n") != NULL);
	CHECK_IS(times("thread 0x"), 1 + 1000);
	CHECK_IS(times("\tand 899 more like it, "), 1);
	CHECK(!TRACES || (times(" t_plain+") == 1 &&
			  times(" t_object+") == 1000));
}

static pthread_t waits_natively;

static void *native_wait(void *arg)
{
	w_record(UWAIT_SEM, arg, UNEVER);
	return NULL;
}

/* Waits until what was written nr times to the file that stderr is. */
static void await(const char *what, int nr)
{
	ssize_t nob;

	do {
		usleep(10000);
		nob = pread(STDERR_FILENO, text, TEXT - 1, 0);
		CHECK_THAT(nob, >=, 0);
		text[nob] = 0;
	} while (times(what) != nr);
}

/* One processor, so that t_ready() cannot be stolen. */
static void signal_run(void)
{
	int err = dup(STDERR_FILENO);
	char name[] = "/tmp/s_list.XXXXXX";

	CHECK_IS(dup2(mkstemp(name), STDERR_FILENO), STDERR_FILENO);
	unlink(name);
	CHECK_IS(ulist_on_signal(SIGUSR1), 0);
	CHECK_IS(ulist_on_run(20 * UTIME_MS), 0);
	CHECK_IS(pthread_create(&waits_natively, NULL, native_wait, &lock_b),
		 0);
	begin(1, 0);
	ready_nr = 1;
	make(0, t_plain, NULL);
	make(0, t_mutex, &lock_b);
	make(0, t_until, NULL);
	make(0, t_endless, NULL);
	make(0, t_ready, NULL);
	CHECK_IS(SCHED(start)(), 0);
	await("has not given way", 1);
	CHECK_IS(kill(getpid(), SIGUSR1), 0);
	await("end of list", 1);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	while (__atomic_load_n(&ends, __ATOMIC_RELAXED) != 2)
		usleep(10000);
	CHECK_IS(kill(getpid(), SIGUSR1), 0);
	await("end of list", 2);
	CHECK_IS(write(err, text, strlen(text)), (ssize_t)strlen(text));
	_exit(0);
}

static void on_signal(void)
{
	doing("signal");
	CHECK_IS(check_child(signal_run, text, TEXT), 0);
	CHECK_IS(times("usched: list: asked by a signal\n"), 2);
	CHECK_IS(times("usched: run: "), 1);
	CHECK_IS(strstr(text, "t_endless"),
		 strstr(strstr(text, "usched: run: "), "t_endless"));
	listed("t_endless", " has not given way for ", COMPUTES);
	listed("t_plain", ": waits: wake, ", "w_wait");
	listed("t_mutex", ": waits: mutex 0x", "w_record");
	listed("t_until", ": waits: sleep, ", "t_until");
	CHECK(strstr(text, "9 s left\n") == NULL || times(" s left") > 0);
	listed("t_endless", ": runs\n", COMPUTES);
	listed("t_ready", ": ready, ", NULL);
	CHECK(times("native thread ") == 2 && times(": waits: sem 0x") == 2);
	CHECK_IS(times("end of list: 5 threads, 3 wait, 1 ready, 1 run\n"), 1);
	CHECK_IS(times("end of list: 3 threads, 3 wait\n"), 1);
}

/* Threads that begin, end, wait and wake, while lists are made. */

static long churns;

static void t_short(void *arg)
{
	add(&churns, 1);
}

static void t_churn(void *arg)
{
	thread *t;
	int i;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		for (i = 0; i < 20; i++)
			CHECK(try_make(i, t_short, NULL) != NULL);
		t = make_joinable(0, t_end, NULL);
		CHECK_IS(SCHED(join)(t), 0);
		yield();
		u_sleep(uafter(100 * UTIME_US));
	}
}

/* The lists of threads are too long to be kept. */
static void churn_run(void)
{
	int err = dup(STDERR_FILENO);
	int i;

	CHECK(freopen("/dev/null", "w", stderr) != NULL);
	CHECK_IS(ulist_on_signal(SIGUSR1), 0);
	begin(2, 0);
	for (i = 0; i < 400; i++)
		make(i, t_churn, NULL);
	CHECK_IS(SCHED(start)(), 0);
	for (i = 0; i < LISTS; i++) {
		usleep(20000);
		CHECK_IS(kill(getpid(), SIGUSR1), 0);
	}
	usleep(20000);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	finish();
	CHECK_THAT(churns, >, 0);
	CHECK_IS(dup2(err, STDERR_FILENO), STDERR_FILENO);
	ulist_print("at the end");
}

/* Moves *at behind s. False: s is not there. */
static bool skip(const char **at, const char *s)
{
	if (strncmp(*at, s, strlen(s)) != 0)
		return false;
	*at += strlen(s);
	return true;
}

/* The list at the end is empty, and so are those whose signals are served so late. */
static void churn(void)
{
	const char *at = text;
	int ends = 0;

	doing("churn");
	CHECK_IS(check_child(churn_run, text, TEXT), 0);
	while (*at != 0) {
		if (skip(&at, "usched: list: at the end\n"))
			ends++;
		else if (!skip(&at, "usched: list: asked by a signal\n"))
			break;
		if (!skip(&at, "usched: end of list: 0 threads\n"))
			break;
	}
	CHECK_STR(at, "");
	CHECK_IS(ends, 1);
}

static void misuse(void)
{
	doing("misuse");
	CHECK_IS(ulist_on_signal(0), -EINVAL);
	CHECK_IS(ulist_on_signal(SIGKILL), -EINVAL);
	CHECK_IS(ulist_on_run(0), -EINVAL);
	CHECK_IS(ulist_on_run(-5), -EINVAL);
	ulist_print("not started: not written");
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	misuse();
	stuck();
	named();
	cycle(2, true);
	cycle(LINE, true);
	cycle(LINE, false);
	silent();
	many();
	on_signal();
	churn();
	return 0;
}
