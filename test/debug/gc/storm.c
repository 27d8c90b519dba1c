/* SPDX-License-Identifier: MIT */
/*
 * storm: threads allocate at random, and hold cells by nothing but their stacks, their
 * arguments, channels, and calls on their way. The collector frees no cell that is
 * held: each has a finalizer that says whose it was. And it frees the others. test/
 * debug/gc.sh compiles and runs this. GC_SECONDS is how long it takes, SEED the
 * beginning of all draws, THREADS how many threads there are at a time.
 */
#include "../../../examples/collector.h"
#include <usched/all.h>
#include "check.h"

#define DEPTH	40		/* frames at most */
#define HELD	64		/* cells of a list at most */

struct cell {
	struct cell *next;
	long         owner;	/* a number that no other list has */
	long         check;
	char         more[40];
};

static struct uchan *pipe_of[2];	/* without room, and with */
static struct umutex mutex;
static unsigned key;
static long numbers, made, freed, alive, collections;	/* atomic */
static utime_ns until;
static unsigned seed;

static unsigned draw(unsigned *state, unsigned nr)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return (*state >> 8) % nr;
}

static void cell_freed(void *cell, void *data)
{
	struct cell *c = cell;

	(void)data;
	CHECK(c->check == ~c->owner);
	c->check = 0;
	__atomic_fetch_add(&freed, 1, __ATOMIC_RELAXED);
}

static struct cell *cons(long owner, struct cell *next)
{
	struct cell *c = GC_MALLOC(sizeof *c);

	CHECK(c != NULL);
	c->next  = next;
	c->owner = owner;
	c->check = ~owner;
	GC_register_finalizer_no_order(c, cell_freed, NULL, NULL, NULL);
	__atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
	return c;
}

/* Each cell of the list is there. */
static void see(const struct cell *c, long owner, int nr)
{
	for (; nr > 0; nr--, c = c->next) {
		CHECK(c != NULL);
		CHECK(c->owner == owner);
		CHECK(c->check == ~owner);
	}
	CHECK(c == NULL);
}

static long number(void)
{
	return __atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED);
}

/* Makes garbage, and a list of its own for some of the frames below. */
static void litter(unsigned *state)
{
	int i, nr = (int)draw(state, 20);

	for (i = 0; i < nr; i++)
		(void)GC_MALLOC(16 + draw(state, 600));
	if (draw(state, 400) == 0) {
		GC_gcollect();
		__atomic_fetch_add(&collections, 1, __ATOMIC_RELAXED);
	}
}

/* For ucall(): allocates on a native thread, which the collector knows meanwhile. */
struct called {
	struct cell *list;
	long         owner;
	int          nr;
};

static void call(void *arg)
{
	struct called *a = arg;
	struct GC_stack_base base;
	sigset_t signals, were;

	GC_get_stack_base(&base);
	CHECK(GC_register_my_thread(&base) == GC_SUCCESS);
	sigemptyset(&signals);
	sigaddset(&signals, GC_get_suspend_signal());
	sigaddset(&signals, GC_get_thr_restart_signal());
	CHECK(pthread_sigmask(SIG_UNBLOCK, &signals, &were) == 0);
	see(a->list, a->owner, a->nr);
	a->list = cons(a->owner, a->list);
	a->nr++;
	(void)GC_MALLOC(1000);
	CHECK(pthread_sigmask(SIG_SETMASK, &were, NULL) == 0);
	CHECK(GC_unregister_my_thread() == GC_SUCCESS);
}

/* Only the record of the call holds what it gets. */
static void calls(unsigned *state)
{
	struct called *volatile a = GC_MALLOC(sizeof *a);
	long owner = number();

	*a = (struct called) { cons(owner, NULL), owner, 1 };
	CHECK(ucall(call, a) == 0);
	see(a->list, owner, 2);
	(void)state;
}

/* Sends a list, which nothing else holds then, and gets another's. */
static void pass(unsigned *state)
{
	struct uchan *c = pipe_of[draw(state, 2)];
	struct cell *list = NULL;
	long owner = number();
	int i, rc;

	for (i = 0; i < 5; i++)
		list = cons(owner, list);
	rc = uchan_send(c, &list, uafter(2 * UTIME_MS));
	CHECK(rc == 0 || rc == -ETIMEDOUT);
	list = NULL;
	rc = uchan_recv(c, &list, uafter(2 * UTIME_MS));
	CHECK(rc == 0 || rc == -ETIMEDOUT);
	if (rc == 0)
		see(list, list->owner, 5);
}

/* A generator that holds a list from yield to yield. */
static void generate(void *arg)
{
	struct cell *list = NULL;
	long owner = number(), i;

	(void)arg;
	for (i = 1; i < 10; i++) {
		list = cons(owner, list);
		if (i % 3 == 0)
			(void)GC_MALLOC(500);
		if (ugen_yield(&list) != 0)
			return;
		see(list, owner, (int)i);
	}
}

static void consume(unsigned *state)
{
	struct ugen *g = ugen_make(generate, NULL, sizeof(struct cell *));
	struct cell *mine = cons(-1, NULL), **v;
	int i = 0;

	CHECK(g != NULL);
	while (i < 6 && (v = ugen_next(g)) != NULL) {
		see(*v, (*v)->owner, ++i);
		litter(state);
		if (draw(state, 3) == 0)
			(void)u_sleep(UNOW);
	}
	see(mine, -1, 1);
	CHECK(ugen_free(g) == 0);
}

static void wait_somehow(unsigned *state)
{
	switch (draw(state, 8)) {
	case 0:
		CHECK(u_sleep(uafter((utime_ns)draw(state, 200) * UTIME_US)) == 0);
		break;
	case 1:
		CHECK(umutex_lock(&mutex, UNEVER) == 0);
		CHECK(u_sleep(UNOW) == 0);
		umutex_unlock(&mutex);
		break;
	case 2:
		pass(state);
		break;
	case 3:
		if (draw(state, 10) == 0)
			calls(state);
		break;
	case 4:
		if (draw(state, 4) == 0)
			consume(state);
		break;
	default:
		CHECK(u_sleep(UNOW) == 0);
	}
}

/* Holds a list in each of its frames, of which it is in a random number. */
static __attribute__((noinline)) void deep(unsigned *state, int depth)
{
	long owner = number();
	struct cell *list = NULL;
	int nr = 1 + (int)draw(state, HELD / 8), i;

	for (i = 0; i < nr; i++)
		list = cons(owner, list);
	litter(state);
	wait_somehow(state);
	see(list, owner, nr);
	if (depth > 0 && draw(state, 8) != 0)
		deep(state, depth - 1);
	if (draw(state, 4) == 0)
		wait_somehow(state);
	see(list, owner, nr);
}

struct start {
	struct cell *list;
	long         owner;
	unsigned     seed;
};

static void *thread(void *arg);
static void thread_go(void *arg);
static void thread_outside(void *arg);

/* Makes a thread that alone has its argument from now on. */
static void next_make(unsigned *state)
{
	struct start *volatile s = GC_MALLOC(sizeof *s);
	int how = (int)draw(state, 6), rc;

	s->owner = number();
	s->seed  = draw(state, 1u << 24) | 1;
	s->list  = cons(s->owner, NULL);
	__atomic_fetch_add(&alive, 1, __ATOMIC_RELAXED);
	if (how == 0)
		rc = uthread_make_by(NULL, thread, s, NULL, USCHED_PRIVATE);
	else if (how == 1)
		rc = uthread_make(NULL, thread, s, NULL);
	else
		rc = usched_go(how < 4 ? thread_outside : thread_go, s);
	CHECK(rc == 0);
}

static void *thread(void *arg)
{
	struct start *s = arg;
	unsigned state = s->seed;
	long owner = s->owner;
	struct cell *list = s->list;
	int turns = 1 + (int)draw(&state, 10);

	s->list = NULL;
	s = arg = NULL;
	see(list, owner, 1);
	if (uthread_self() != NULL)
		CHECK(ukey_set(key, cons(owner, NULL)) == 0);
	while (turns-- > 0 && unow() < until) {
		wait_somehow(&state);
		deep(&state, (int)draw(&state, DEPTH));
		see(list, owner, 1);
		if (uthread_self() != NULL)
			see(ukey_get(key), owner, 1);
	}
	if (unow() < until)
		next_make(&state);
	__atomic_fetch_sub(&alive, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void thread_go(void *arg)
{
	(void)thread(arg);
}

/* Threads of it share few lanes, so they are copied. */
static void thread_outside(void *arg)
{
	(void)thread(arg);
}

static long env(const char *name, long other)
{
	return getenv(name) != NULL ? atol(getenv(name)) : other;
}

/* Overwrites what dead frames have left on this stack. */
static __attribute__((noinline)) void clean(void)
{
	volatile char no[16384];
	size_t i;

	for (i = 0; i < sizeof no; i++)
		no[i] = 0;
}

static int run(void *arg)
{
	long i, threads = env("THREADS", 400);
	int tries;

	(void)arg;
	usched_outside(thread_outside);
	pipe_of[0] = uchan_make(sizeof(struct cell *), 0);
	pipe_of[1] = uchan_make(sizeof(struct cell *), 7);
	CHECK(pipe_of[0] != NULL && pipe_of[1] != NULL && ukey_make(&key, NULL) == 0);
	for (i = 0; i < threads; i++)
		next_make(&seed);
	while (__atomic_load_n(&alive, __ATOMIC_RELAXED) > 0)
		CHECK(u_sleep(uafter(UTIME_MS)) == 0);
	uchan_free(pipe_of[0]);
	uchan_free(pipe_of[1]);
	for (tries = 0; tries < 5; tries++) {
		clean();
		GC_gcollect();
		GC_invoke_finalizers();
	}
	printf("%ld cells, %ld left, %lu collections, %lu KiB, %ld threads\n", made,
	       made - freed, (unsigned long)GC_get_gc_no(),
	       (unsigned long)GC_get_heap_size() >> 10, numbers);
	CHECK(GC_get_gc_no() > 3);
	CHECK(made - freed < 1000 + made / 50);		/* a few look alive by chance */
	return 0;
}

int main(void)
{
	seed  = (unsigned)env("SEED", (long)unow() & 0xffffff) | 1;
	until = uafter(env("GC_SECONDS", 2) * UTIME_S);
	printf("SEED=%u\n", seed);
	fflush(stdout);
	if (collector_start() != 0)
		return 77;
	return usched_main(run, NULL);
}
