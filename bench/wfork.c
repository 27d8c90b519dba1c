/* SPDX-License-Identifier: MIT */
/* wfork.c: forks and joins on ws. */

/*
 * fork.h says what is measured, and what the program is asked.
 *
 * A call holds the arguments and the result of a thread. Calls are on the heap:
 * the parent allocates an array for its children, and frees it when it has
 * summed up. On the parent's stack they would be unreachable, since the stack
 * of a blocked thread may be moved away.
 *
 *	parent's call	y_left = 3, counted down by the children
 *	   ^  ^  ^
 *	+-----+-----+-----+
 *	| [0] | [1] | [2] |	calls of the children, one block of malloc()
 *	+-----+-----+-----+
 *
 * JOIN. Children count down, and the last child wakes the parent, which waits
 * once. Wakes are counted, so instead each child could wake the parent, which
 * would wait as often as it has children. But then the first child that ends
 * puts the parent before the other children. The parent runs, and has to wait
 * again; so it blocks as often as it has children. That took up to 1.4 times
 * the time. Also rejected: joined threads, since they live until the parent
 * joins them.
 *
 * THE ROOT is a thread. Before the time begins it has a thread on each
 * processor answer, so all native threads run. It leaves its result and the
 * seconds in static variables. main() reports them when the scheduler has
 * ended, so a scheduler that ended too early, or never, would be noticed.
 */

#include "ws.h"
#include "fork.h"

struct call {
	struct call      *y_parent;
	struct ws_thread *y_thread;	/* runs this, if it has children */
	long              y_result;
	int               y_left;	/* children that have not ended */

	int               y_n;		/* fib: n; else its row or depth */
	union {
		struct fork_board y_board;
		uint32_t          y_hash[FORK_HASH];
		long              y_leaf;	/* skynet: the first leaf */
	};
};

static struct fork_ask ask;
static struct call root;
static double seconds;

static void bring_up(void);
static void (*body(void))(void *);

static void root_thread(void *arg)
{
	double start;

	(void)arg;
	bring_up();
	start = bench_now();
	body()(&root);
	seconds = bench_now() - start;
}

static void joinable(struct call *me, int nr);
static void join(void);
static void ends(struct call *me, long result);

static void here(void *arg)
{
	ends(arg, 0);
}

/* Returns when each processor has run a thread. */
static void bring_up(void)
{
	struct call *answer = calloc(ask.fk_bench.b_p, sizeof answer[0]);
	int p;

	if (answer == NULL)
		bench_die(&ask.fk_bench, "memory", ENOMEM);
	joinable(&root, ask.fk_bench.b_p);
	for (p = 0; p < ask.fk_bench.b_p; p++) {
		answer[p].y_parent = &root;
		if (ws_thread_pinned(p, here, &answer[p]) == NULL)
			bench_die(&ask.fk_bench, "making a thread", errno);
	}
	join();
	free(answer);
}

static void empties(void *arg);
static void fib(void *arg);
static void queens(void *arg);
static void uts(void *arg);
static void skynet(void *arg);

/* Prepares the call of the root, and returns its function. */
static void (*body(void))(void *)
{
	switch (ask.fk_what) {
	case FORK_FIB:
		root.y_n = ask.fk_n;
		return fib;
	case FORK_QUEENS:
		root.y_board = fork_no_queens(ask.fk_n);
		return queens;
	case FORK_UTS:
		fork_uts_root(ask.fk_tree, root.y_hash);
		return uts;
	case FORK_SKYNET:
		root.y_n = FORK_SKY_LEAVES;
		return skynet;
	default:
		return empties;
	}
}

/* Prepares me for nr children, for which it will wait. */
static void joinable(struct call *me, int nr)
{
	me->y_thread = ws_self();
	me->y_left   = nr;
}

static void join(void)
{
	if (ws_wait() != 0)
		bench_die(&ask.fk_bench, "blocking", ENOMEM);
}

/*
 * Releases the result: the last child by its wake, the others by y_left. They
 * pair with the acquire of the parent's wait.
 */
static void ends(struct call *me, long result)
{
	struct call *parent = me->y_parent;

	me->y_result = result;
	if (parent != NULL &&
	    __atomic_sub_fetch(&parent->y_left, 1, __ATOMIC_ACQ_REL) == 0)
		ws_wake(parent->y_thread);
}

static void spawn(void (*f)(void *), void *arg)
{
	int rc = ws_spawn(f, arg);

	if (rc != 0)
		bench_die(&ask.fk_bench, "making a thread", -rc);
}

/* Allocates the calls of nr children, 1 or more, which the caller fills in. */
static struct call *children(struct call *me, int nr)
{
	struct call *child = malloc(nr * sizeof child[0]);
	int i;

	if (child == NULL)
		bench_die(&ask.fk_bench, "memory for children", ENOMEM);
	joinable(me, nr);
	for (i = 0; i < nr; i++)
		child[i].y_parent = me;
	return child;
}

/* Waits for the children, and returns the sum of their results. */
static long results(struct call *child, int nr)
{
	long sum = 0;
	int i;

	join();
	for (i = 0; i < nr; i++)
		sum += child[i].y_result;
	free(child);
	return sum;
}

/* All empty threads share the root's call, since they have no result. */
static void empty(void *arg)
{
	struct call *parent = arg;

	if (__atomic_sub_fetch(&parent->y_left, 1, __ATOMIC_ACQ_REL) == 0)
		ws_wake(parent->y_thread);
}

static void empties(void *arg)
{
	struct call *me = arg;
	int left  = ask.fk_n;
	int ended = 0;

	while (left > 0) {
		int batch = left < ask.fk_batch ? left : ask.fk_batch;
		int i;

		joinable(me, batch);
		for (i = 0; i < batch; i++)
			spawn(empty, me);
		join();
		ended += batch - me->y_left;
		left  -= batch;
	}
	ends(me, ended);
}

static void fib(void *arg)
{
	struct call *me = arg;
	struct call *child;
	int  n  = me->y_n;
	int  nr = n < 2 ? 0 : (n - 1 >= ask.fk_cut) + (n - 2 >= ask.fk_cut);
	long own;
	int  i;

	if (nr == 0) {
		ends(me, fork_fib(n));
		return;
	}
	child = children(me, nr);
	for (i = 0; i < nr; i++) {
		child[i].y_n = n - 1 - i;
		spawn(fib, &child[i]);
	}
	own = nr == 1 ? fork_fib(n - 2) : 0;
	ends(me, own + results(child, nr));
}

static void queens(void *arg)
{
	struct call *me = arg;
	struct call *child;
	unsigned left;
	int  n  = ask.fk_n;
	int  nr = __builtin_popcount(me->y_board.fb_free);
	int  i  = 0;

	if (me->y_n == ask.fk_cut || nr == 0) {
		ends(me, fork_queens(me->y_board, n, me->y_n));
		return;
	}
	child = children(me, nr);
	for (left = me->y_board.fb_free; left != 0; left &= left - 1, i++) {
		child[i].y_n     = me->y_n + 1;
		child[i].y_board = fork_place(me->y_board, n, left & -left);
		spawn(queens, &child[i]);
	}
	ends(me, results(child, nr));
}

/*
 * Until uts_child() begins, y_left is its number among its siblings: it
 * computes its own hash. The parent's call has the parent's hash, and lives
 * that long.
 */
static void uts_child(void *arg)
{
	struct call *me = arg;

	fork_uts_child(me->y_hash, me->y_parent->y_hash, me->y_left);
	uts(me);
}

static void uts(void *arg)
{
	struct call *me = arg;
	struct call *child;
	int nr;
	int i;

	if (me->y_n == ask.fk_cut) {
		ends(me, fork_uts(me->y_hash, me->y_n));
		return;
	}
	nr = fork_uts_fan(me->y_hash, me->y_n);
	if (nr == 0) {
		ends(me, 1);
		return;
	}
	child = children(me, nr);
	for (i = 0; i < nr; i++) {
		child[i].y_n    = me->y_n + 1;
		child[i].y_left = i;
		spawn(uts_child, &child[i]);
	}
	ends(me, 1 + results(child, nr));
}

static void skynet(void *arg)
{
	struct call *me = arg;
	struct call *child;
	int size = me->y_n / FORK_SKY_FAN;
	int i;

	if (me->y_n == 1) {
		ends(me, me->y_leaf);
		return;
	}
	child = children(me, FORK_SKY_FAN);
	for (i = 0; i < FORK_SKY_FAN; i++) {
		child[i].y_n    = size;
		child[i].y_leaf = me->y_leaf + (long)i * size;
		spawn(skynet, &child[i]);
	}
	ends(me, results(child, FORK_SKY_FAN));
}

int main(int argc, char **argv)
{
	struct bench *b = &ask.fk_bench;
	int rc = fork_args(&ask, argc, argv);

	if (rc != 0)
		return rc;
	if (fork_plain(&ask))
		return fork_run_plain(&ask);
	rc = ws_init(b->b_p, ask.fk_batch);
	if (rc == 0)
		rc = ws_pinning(1);		/* also if P is 1 */
	if (rc != 0)
		return bench_failed(b, "init", -rc);
	if (ws_thread_init(root_thread, NULL) == NULL)
		return bench_failed(b, "making the root", errno);
	rc = ws_start();
	if (rc == 0)
		rc = ws_fini();
	if (rc != 0)
		return bench_failed(b, "start, or fini", -rc);
	return fork_report(&ask, root.y_result, seconds);
}
