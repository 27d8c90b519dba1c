/* SPDX-License-Identifier: MIT */
/* programs.c: random programs, whose traces are the same on each dispatcher. */

/*
 *	programs FIRST NR FAILS
 *
 * Runs the programs with the seeds FIRST to FIRST + NR - 1, and prints what
 * their threads do. In all choices a program depends only on its seed. Its
 * threads call functions with frames of several sizes, block at any depth, wake
 * and create each other, return, and abort. If FAILS is not 0, a first buffer
 * is refused at times. The schedule is random, too, and usched_run() returns at
 * times while threads are blocked.
 *
 * Each frame holds a link to the frame above it, its own address, and data from
 * which a sum is taken when the thread goes on, and when the frame is left.
 *
 * test/core/tiny.sh compiles this file with the usched.h of each dispatcher.
 */
#include "check.h"
#include "usched.h"

enum { THREADS = 40, STEPS = 1500, DEPTH = 12 };
enum { UNUSED_YET, NEW, RUNNABLE, WAITING, ENDED };

struct thread {
	struct ustack t_stack;		/* must be first */
	int           t_state;
	unsigned      t_steps;
};

struct frame {
	const struct frame *f_self;
	const struct frame *f_up;
	unsigned            f_sum;
	int                 f_depth;
};

static struct usched sched;
static struct thread thread[THREADS];
static int nr;				/* threads that were created */
static int steps;			/* that are left for this program */
static unsigned seed;
static int fails;			/* buffers may be refused */
static int refuse;			/* the next buffer is refused */
static long held;			/* bytes in buffers */

static void begin(void *arg);
static void live(const struct frame *up, int depth);

static unsigned draw(unsigned below)
{
	return check_random(&seed) % below;
}

static struct thread *running(void)
{
	return (struct thread *)ustack_self();
}

static void say(const char *what, unsigned n)
{
	printf("%d %s %u\n", (int)(running() - thread), what, n);
}

/* Returns a thread in this state, chosen at random, or NULL. */
static struct thread *any(int state)
{
	int found[THREADS];
	int i, n = 0;

	for (i = 0; i < nr; i++) {
		if (thread[i].t_state == state)
			found[n++] = i;
	}
	return n != 0 ? &thread[found[draw(n)]] : NULL;
}

/* The scheduler. */

static struct ustack *next(struct usched *s)
{
	struct thread *t;

	CHECK(s == &sched && ustack_self() == NULL);
	if (draw(50) == 0)
		return NULL;
	t = any(draw(4) == 0 ? NEW : RUNNABLE);
	if (t == NULL)
		t = any(NEW);
	if (t == NULL)
		t = any(RUNNABLE);
	if (t == NULL)
		t = any(WAITING);
	if (t != NULL)
		t->t_state = RUNNABLE;
	return t != NULL ? &t->t_stack : NULL;
}

static void *alloc(struct usched *s, int size)
{
	struct thread *t = running();

	CHECK(s == &sched && t != NULL && size > 0);
	if (refuse && t->t_stack.u_stack == NULL)
		return NULL;
	held += size;
	return malloc(size);
}

static void drop(struct usched *s, void *buf, int size)
{
	CHECK_IS(s, &sched);
	held -= size;
	memset(buf, 0xdb, size);
	free(buf);
}

/* The threads. */

static void create(void)
{
	void *buf = NULL;
	int len = 0;

	if (nr == THREADS)
		return;
	if (draw(3) == 0) {
		len = 64 * (1 + (int)draw(8));
		buf = malloc(len);
		held += len;
	}
	ustack_init(&thread[nr].t_stack, &sched, begin, &thread[nr], buf, len);
	thread[nr].t_state = NEW;
	thread[nr].t_steps = draw(60);
	nr++;
}

/* All frames of the running thread are where they were, and as they were. */
static unsigned walk(const struct frame *f)
{
	unsigned sum = 0;

	for (; f != NULL; f = f->f_up) {
		CHECK_IS(f->f_self, f);
		CHECK_IS(f->f_depth, f->f_up ? f->f_up->f_depth + 1 : 0);
		sum = check_hash(sum, f->f_sum);
	}
	return sum;
}

static void block(const struct frame *f, int state)
{
	struct thread *t = running();
	double x = draw(1000) / 8.0;
	unsigned a = draw(1000), sum = walk(f);
	int rc;

	refuse = fails && draw(3) == 0;
	t->t_state = state;
	rc = ustack_block();
	refuse = 0;
	t->t_state = RUNNABLE;
	CHECK(running() == t && walk(f) == sum);
	say(rc == 0 ? "goes on" : "is refused", sum);
	say("has", a + (unsigned)(8 * x));
}

static void finish(const char *how)
{
	say(how, walk(NULL));
	running()->t_state = ENDED;
}

/* Frames of several sizes, which hold data. */
#define SHAPE(size)							\
static NOINLINE void shape_##size(const struct frame *up, int depth)	\
{									\
	volatile unsigned char data[size];				\
	struct frame f = { &f, up, 0, depth };				\
	unsigned i, first = draw(256), sum = 0;				\
									\
	for (i = 0; i < size; i++)					\
		data[i] = (unsigned char)(first + i);			\
	f.f_sum = first;						\
	live(&f, depth);						\
	for (i = 0; i < size; i++)					\
		sum += data[i] == (unsigned char)(first + i);		\
	CHECK(sum == size && f.f_sum == first);				\
	say("leaves", first);						\
}

SHAPE(1)
SHAPE(24)
SHAPE(333)
SHAPE(6000)

static void deeper(const struct frame *up, int depth)
{
	static void (*const shape[])(const struct frame *, int) = {
		shape_1, shape_24, shape_333, shape_24, shape_6000
	};

	if (depth < DEPTH)
		shape[draw(COUNT(shape))](up, depth + 1);
}

static void wake(void)
{
	struct thread *t = any(WAITING);

	if (t == NULL)
		return;
	say("wakes", (unsigned)(t - thread));
	t->t_state = RUNNABLE;
}

static void live(const struct frame *up, int depth)
{
	while (steps > 0 && running()->t_steps > 0) {
		steps--;
		running()->t_steps--;
		switch (draw(12)) {
		case 0:			return;
		case 1: case 2: case 3:	deeper(up, depth); break;
		case 4: case 5: case 6:	block(up, RUNNABLE); break;
		case 7: case 8:		block(up, WAITING); break;
		case 9:			wake(); break;
		case 10:		create(); break;
		}
	}
	if (draw(10) == 0) {
		finish("aborts");
		ustack_abort();
	}
}

static void begin(void *arg)
{
	struct frame f = { &f, NULL, 0, 0 };

	CHECK_IS(running(), arg);
	say("begins", running()->t_steps);
	live(&f, 0);
	finish("returns");
}

static int left(void)
{
	int i, n = 0;

	for (i = 0; i < nr; i++)
		n += thread[i].t_state != ENDED;
	return n;
}

static void program(void)
{
	int i;

	printf("program %u\n", seed);
	memset(&sched, 0, sizeof sched);
	sched.s_next  = next;
	sched.s_alloc = alloc;
	sched.s_free  = drop;
#if defined(LANES)
	i = usched_lanes(&sched, LANES, 262144);
	CHECK(i == 0 || i == -ENOSYS);
#endif
	steps = STEPS;
	for (nr = 0; nr < 4; )
		create();
	while (left() != 0) {
		printf("%d left\n", left());
		usched_run(&sched);
		CHECK_IS(ustack_self(), NULL);
	}
	for (i = 0; i < nr; i++) {
		if (thread[i].t_stack.u_stack != NULL)
			drop(&sched, thread[i].t_stack.u_stack,
			     thread[i].t_stack.u_len);
	}
	CHECK_IS(held, 0);
#if defined(LANES)
	usched_fini(&sched);
#endif
}

int main(int argc, char **argv)
{
	unsigned first, n;

	CHECK_IS(argc, 4);
	check_start(1, argv);
	first = (unsigned)atoi(argv[1]);
	fails = atoi(argv[3]);
	for (n = 0; n < (unsigned)atoi(argv[2]); n++) {
		check_seed = seed = first + n;
		check_again("%s %u 1 %d", argv[0], seed, fails);
		program();
	}
	return 0;
}
