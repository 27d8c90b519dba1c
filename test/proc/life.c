/* SPDX-License-Identifier: MIT */
/* life: the memory of a thread is used again when it has ended. */
/* VARIANTS: RR LL WS PR */

/*
 * So millions of threads in succession need no more memory than those that are
 * alive at once, also if one processor makes them and they end on another. A
 * thread may abort at any depth; have a slice of any length, with blocks larger
 * than those of the pools; end with wakes that it never waited for; and use as
 * much stack as stack_size() says, or USCHED_STACK_SIZE, which overrides it.
 */
#include "either.h"

#define SUCCESSION	2000000L
#define BATCH		500
#define LIMIT_MB	200

static long ended;

static long peak_mb(void)
{
	struct rusage use;

	CHECK_IS(getrusage(RUSAGE_SELF, &use), 0);
	return use.ru_maxrss / 1024;
}

static void brief(void *arg)
{
	thread *mother = arg;
	static long nr;

	if (add(&nr, 1) % 2 == 0)
		yield();
	add(&ended, 1);
	SCHED(wake)(mother);
}

/* Each batch ends before the next batch begins. */
static void batches(void *arg)
{
	long shift = (long)(intptr_t)arg;
	long i, j;

	for (i = 0; i < SUCCESSION / 4; i += BATCH) {
		for (j = 0; j < BATCH; j++)
			make((int)shift, brief, SCHED(self)());
		for (j = 0; j < BATCH; j++)
			wait_one();
	}
}

static void succession(void)
{
	long before = peak_mb();

	set(&ended, 0);
	begin(2, 0);
	make(0, batches, (void *)0);	/* from 0 to 0, from 0 to 1, ... */
	make(0, batches, (void *)1);
	make(1, batches, (void *)0);
	make(1, batches, (void *)1);
	start_and_finish();
	CHECK_IS(ended, SUCCESSION);
	CHECK_THAT(peak_mb() - before, <, LIMIT_MB);
}

/* Abort. */

static NOINLINE void ends_here(void)
{
	add(&ended, 1);
	if (get(&ended) > 0)		/* always */
		ustack_abort();
}

static NOINLINE void down(int depth)
{
	volatile char frame[300];

	memset((char *)frame, depth, sizeof frame);
	if (depth % 7 == 3)
		yield();
	if (depth > 0)
		down(depth - 1);
	else
		ends_here();
	CHECK(frame[0] != depth || !"a thread goes on after its abort");
}

static void aborts(void *arg)
{
	down((int)(intptr_t)arg);
}

static thread *to_join;

static void joins(void *arg)
{
	CHECK_IS(SCHED(join)(to_join), 0);
	add(&ended, 1);
}

static void abort_all(int proc_nr)
{
	intptr_t i;

	set(&ended, 0);
	begin(proc_nr, 0);
	to_join = make_joinable(0, aborts, (void *)20);
	make(1, joins, NULL);
	for (i = 0; i < 1000; i++)
		make((int)i, aborts, (void *)(i % 50));
	start_and_finish();
	CHECK_IS(ended, 1002);
}

/* Slices of all sizes are blocked and freed. */

static const int sizes[] = {
	10, 200, 900, 1000, 1100, 2000, 4000, 5000, 16000, 17000, 33000, 60000,
	64000, 65000, 65536, 66000, 80000, 150000, 220000
};

static NOINLINE void deep(int nob, int tag)
{
	volatile char space[nob];
	int i;

	memset((char *)space, tag, (size_t)nob);
	for (i = 0; i < 4; i++) {
		yield();
		CHECK(space[0] == (char)tag && space[nob / 2] == (char)tag &&
		      space[nob - 1] == (char)tag);
	}
}

static void blocks_deep(void *arg)
{
	unsigned state = check_seed + (unsigned)(uintptr_t)arg;
	int i;

	for (i = 0; i < 8; i++)
		deep(sizes[check_random(&state) % COUNT(sizes)],
		     (int)(state % 128));
	add(&ended, 1);
}

static void all_sizes(int proc_nr, int nr)
{
	intptr_t i;

	set(&ended, 0);
	begin(proc_nr, 0);
	for (i = 0; i < nr; i++)
		make((int)i, blocks_deep, (void *)(i + 1));
	start_and_finish();
	CHECK_IS(ended, nr);
}

/*
 * Threads with large blocks are dropped: fini() frees the blocks (see
 * valgrind).
 */

static NOINLINE void deep_for_ever(void)
{
	volatile char space[100000];

	space[0] = 1;
	wait_one();
	CHECK(space[0] != 1 || !"nobody wakes this one");
}

static void waits_deep(void *arg)
{
	deep_for_ever();
}

static void dropped(void)
{
	int i;

	begin(2, 0);
	for (i = 0; i < 600; i++)
		make(i, waits_deep, NULL);
	CHECK_IS(SCHED(start)(), 0);
	CHECK_IS(SCHED(fini)(), -EDEADLK);
	CHECK_IS(SCHED(stuck)(), 600);
}

/*
 * Wakes that are left at the end. Each is given while the thread is alive, and
 * the thread ends only after the call has returned, so the waker has kept the
 * contract. A wake that is still under way must not touch memory that is used
 * again.
 */

static long told;
static thread *wanted;

static void leaves(void *arg)
{
	thread *waker = arg;

	wait_one();
	SCHED(wake)(waker);
	until(&told, 1);
	add(&ended, 1);
}

static void gives_more(void *arg)
{
	int i;

	wait_one();
	SCHED(wake)(wanted);
	wait_one();
	for (i = 0; i < 5; i++)
		SCHED(wake)(wanted);
	set(&told, 1);
	add(&ended, 1);
}

#define LATE	100

static thread *late[LATE];
static long allowed;

static void waits_late(void *arg)
{
	wait_one();
	CHECK(get(&allowed) != 0);	/* not by another thread's wake */
	add(&ended, 1);
}

/* Makes threads that take the memory of the thread that has left. */
static void makes_more(void *arg)
{
	int i;

	yield_until(&told, 1);
	yield();
	for (i = 0; i < LATE; i++)
		late[i] = make(0, waits_late, NULL);
	for (i = 0; i < 40; i++)
		yield();
	set(&allowed, 1);
	for (i = 0; i < LATE; i++)
		SCHED(wake)(late[i]);
	add(&ended, 1);
}

static void surplus(void)
{
	thread *waker;

	set(&ended, 0);
	set(&told, 0);
	set(&allowed, 0);
	begin(2, 0);
	waker = make(1, gives_more, NULL);
	wanted = make(0, leaves, waker);
	make(0, makes_more, NULL);
	SCHED(wake)(waker);
	start_and_finish();
	CHECK_IS(ended, LATE + 3);
}

/* The stack. */

static NOINLINE int use(size_t nob)
{
	volatile char space[nob];
	size_t i;

	for (i = 0; i < nob; i += 512)
		space[i] = (char)i;
	yield();
	for (i = 0; i < nob; i += 512)
		CHECK_IS(space[i], (char)i);
	return space[0];
}

static void uses(void *arg)
{
	(void)use((size_t)arg - 8192);	/* rest for use(), yield(), malloc() */
	add(&ended, 1);
}

static void stack(size_t size)
{
	int i;

	set(&ended, 0);
	begin(2, 0);
	if (size != 0)
		CHECK_IS(SCHED(stack_size)(size), 0);
	for (i = 0; i < 40; i++)
		make(i, uses, (void *)(size != 0 ? size : 256 << 10));
	start_and_finish();
	CHECK_IS(ended, 40);
}

static void stack_errors(void)
{
	CHECK_IS(SCHED(stack_size)(1 << 20), -EINVAL);	/* no scheduler */
	begin(1, 0);
	CHECK_IS(SCHED(stack_size)(0), -EINVAL);
	CHECK_IS(SCHED(stack_size)((size_t)-1), -EINVAL);
	CHECK_IS(SCHED(start)(), 0);
	CHECK_IS(SCHED(stack_size)(1 << 20), -EBUSY);
	finish();
}

/* The environment overrides the program. */
static void stack_environment(void)
{
	static const char *const wrong[] = {
		"1", "16383", "-1M", "2G", "1M ", "M", "2048M", "99999999999999999999"
	};
	int i;

	for (i = 0; i < COUNT(wrong); i++) {
		CHECK_IS(setenv("USCHED_STACK_SIZE", wrong[i], 1), 0);
		CHECK_IS(SCHED(init)(1, 0), -EINVAL);
	}
	CHECK_IS(setenv("USCHED_STACK_SIZE", "600k", 1), 0);
	set(&ended, 0);
	begin(1, 0);
	CHECK_IS(SCHED(stack_size)(64 << 10), 0);
	make(0, uses, (void *)(uintptr_t)(600 << 10));
	start_and_finish();
	CHECK_IS(ended, 1);
	CHECK_IS(setenv("USCHED_STACK_SIZE", "", 1), 0);
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	check_quiet();
	doing("in succession");
	succession();
	doing("in abort_all");
	for (i = 1; i <= 3; i++)
		abort_all(i);
	doing("in all_sizes");
	all_sizes(1, 100);
	all_sizes(2, 700);
	doing("in dropped");
	dropped();
	doing("in surplus");
	for (i = 0; i < 500; i++)
		surplus();
	doing("in stack");
	stack(0);
	stack(16 << 10);
	stack(100001);
	stack(2 << 20);
	stack_errors();
	stack_environment();
	return 0;
}
