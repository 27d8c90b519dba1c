/* SPDX-License-Identifier: MIT */
/* VARIANTS: once */
/*
 * tools: bugs in a thread whose slice has moved, which a tool must find. When
 * the slice has come back, the tool still knows the stack and its values.
 * Without an argument, the program does all of it right. With the name of a bug
 * and a number of lanes it commits the bug, and tools.sh expects the report.
 */
#include "tiny.h"
#include "rr.h"

#define NR	3			/* threads that share the lane */
#define TRIPS	4

static struct tiny t;
static struct tiny_thread tt[NR];
static volatile int past;		/* added to indices, for a bug */
static volatile int sink;
static int wrong;
static long shared;
static int there;

/* Lets others run here, so that they overwrite what was left. */
static NOINLINE void move(void)
{
	int i;

	for (i = 0; i < TRIPS; i++)
		tiny_yield();
}

static NOINLINE void other(int depth)
{
	char array[70];

	memset(array, depth, sizeof array);
	tiny_yield();
	if (depth > 0)
		other(depth - 1);
	CHECK_IS(array[69], depth);
}

static void others(void *arg)
{
	other(TRIPS);
	other(TRIPS);
}

static void heap(void *arg)
{
	char *block = (char *)malloc(10);

	CHECK(block != NULL);
	move();
	block[9 + past] = 1;
	sink = block[9];
	free(block);
}

static void after_free(void *arg)
{
	int *block = (int *)malloc(sizeof *block);

	CHECK(block != NULL);
	*block = 1;
	if (wrong)
		free(block);
	move();
	sink = *block;
	if (!wrong)
		free(block);
}

static void stack(void *arg)
{
	char array[24];

	memset(array, 1, sizeof array);
	move();
	array[23 + past] = 2;
	sink = array[0];
	move();
}

/*
 * A variable that is set, or never set, on a stack that is copied away and
 * back.
 */
static void unset(void *arg)
{
	int array[16];

	if (!wrong)
		memset(array, 0, sizeof array);
	__asm__ volatile("" : : "r"(array) : "memory");
	move();
	if (array[check_hash(5, 5) % 16] != 0)
		sink++;
}

static void leak(void *arg)
{
	char *volatile block = (char *)malloc(100);

	CHECK(block != NULL);
	move();
	if (!wrong)
		free(block);
	block = NULL;
}

/* At the end of the program, only a blocked thread knows the block: no leak. */
static void kept(void *arg)
{
	char *volatile block = (char *)malloc(100);

	CHECK(block != NULL);
	move();
	free(block);
}

static void overflow(void *arg)
{
	int nr = 0x7fffffff - !wrong;

	__asm__ volatile("" : "+r"(nr));
	move();
	sink = nr + 1;
}

/*
 * Two processors without synchronisation. Done right, shared data are atomic;
 * or they are used by turns, with a message in between.
 */

static void racer(void *arg)
{
	int i;

	/* Then blocks need no memory, whose lock would order the threads. */
	for (i = 0; i < TRIPS; i++)
		CHECK_IS(rr_yield(), 0);
	__atomic_add_fetch(&there, 1, __ATOMIC_RELAXED);
	while (__atomic_load_n(&there, __ATOMIC_RELAXED) < 2)
		CHECK_IS(rr_yield(), 0);
	for (i = 0; i < 100; i++) {
		if (wrong)
			shared++;
		else
			__atomic_add_fetch(&shared, 1, __ATOMIC_RELAXED);
		CHECK_IS(rr_yield(), 0);
	}
}

static struct rr_thread *player[2];
static long ball[8];

static void play(void *arg)
{
	int me = (int)(intptr_t)arg;
	int i;

	for (i = 0; i < 200; i++) {
		CHECK_IS(rr_wait(), 0);
		ball[i % 8]++;
		if (me == 0 || i < 199)		/* else the other has ended */
			rr_wake(player[!me]);
	}
}

static void race(void)
{
	int i;

	CHECK_IS(rr_init(2, 0), 0);
	for (i = 0; i < 2; i++) {
		CHECK(rr_thread_on(i, racer, NULL) != NULL);
		if (wrong)
			continue;
		player[i] = rr_thread_on(i, play, (void *)(intptr_t)i);
		CHECK(player[i] != NULL);
	}
	if (!wrong)
		rr_wake(player[0]);
	CHECK(rr_start() == 0 && rr_fini() == 0);
	CHECK(wrong || (ball[0] == 50 && shared == 200));
}

static const struct {
	const char *name;
	void      (*f)(void *);
} bugs[] = {
	{ "heap", heap }, { "free", after_free }, { "stack", stack },
	{ "unset", unset }, { "leak", leak }, { "overflow", overflow }
};

static void init(int lanes)
{
	int rc = tiny_init(&t, lanes);

	if (rc == -ENOSYS)		/* portable: the native lane only */
		rc = tiny_init(&t, 0);
	CHECK_IS(rc, 0);
}

/* Between any two steps of f(), other threads of the same lane run. */
static void run(void (*f)(void *), int lanes)
{
	int i;

	init(lanes);
	tiny_start(&t, &tt[0], f, NULL);
	for (i = 1; i < NR; i++)
		tiny_start(&t, &tt[i], others, NULL);
	tiny_run(&t);
	tiny_fini(&t);
}

/*
 * A thread is forgotten in place. Its slice must not disturb the next thread
 * there.
 */
static void forget(int lanes, int properly)
{
	init(lanes);
	tiny_start(&t, &tt[0], stack, NULL);
	tiny_start(&t, &tt[1], others, NULL);
	t.t_stop = 4;
	tiny_run(&t);
	if (properly) {
		ustack_fini(&tt[0].tt_stack);
		ustack_fini(&tt[1].tt_stack);
	} else
		usched_fini(&t.t_sched);
	tiny_drop(&tt[0].tt_stack);
	tiny_drop(&tt[1].tt_stack);
	t.t_head = NULL;
	t.t_live = t.t_stop = 0;
	if (!properly)
		init(lanes);
	tiny_start(&t, &tt[2], others, NULL);
	tiny_run(&t);
	tiny_fini(&t);
}

/*
 * A thread calls exit(). Two blocks are known only to main()'s stack, and to
 * that of a blocked thread: this is not a leak.
 */
static void ends(void *arg)
{
	tiny_yield();
	exit(0);
}

static NOINLINE void ended(int lanes)
{
	char *volatile mine = (char *)malloc(100);

	CHECK(mine != NULL);
	init(lanes);
	tiny_start(&t, &tt[0], kept, NULL);
	tiny_start(&t, &tt[1], ends, NULL);
	tiny_run(&t);
	free(mine);
}

int main(int argc, char **argv)
{
	int lanes = argc > 2 ? atoi(argv[2]) : 0;
	int i;

	check_start(0, argv);
	wrong = past = argc > 1;
	if (wrong && strcmp(argv[1], "race") == 0)
		race();
	if (wrong && strcmp(argv[1], "exit") == 0)
		ended(lanes);
	for (i = 0; i < COUNT(bugs); i++) {
		if (wrong && strcmp(argv[1], bugs[i].name) == 0)
			run(bugs[i].f, lanes);
		if (!wrong) {
			run(bugs[i].f, 0);
			run(bugs[i].f, 1);
			run(bugs[i].f, NR);
		}
	}
	for (i = 0; i < 3 && !wrong; i++) {
		forget(i, 1);
		forget(i, 0);
	}
	if (!wrong)
		race();
	return 0;
}
