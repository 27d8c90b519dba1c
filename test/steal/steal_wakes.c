/* SPDX-License-Identifier: MIT */
/* steal_wakes: each wake is counted once, wherever its thread is taken. */
/* VARIANTS: once */
/* LIBS: -Wl,-z,muldefs -Wl,--wrap=mmap */

/*
 * Random programs. The wakes of each are drawn in advance, with sender and
 * receiver. Threads wake each other; so do threads that only wake, a native
 * thread, and a signal handler that interrupts workers anywhere. So it is known
 * how many wakes each thread will get. It waits that often, and ends at once;
 * meanwhile it yields, wakes, computes, pins itself, and blocks at any depth.
 * It must never run twice at a time, nor wait more often than it is woken, and
 * all threads must end. A mother makes more threads, wakes them before they
 * have begun, or lets the native thread do that, and joins some. Their memory
 * is used again all the time.
 *
 * ws.c is compiled here, with delays at its race windows. There are one to four
 * workers, and few lanes or many: mmap() refuses maps of lanes that are too
 * large.
 */
#include "window.h"
#include "uproc.h"
#include "mail.h"
#include "stop.h"
#include <stdbool.h>

static bool slowly;		/* pauses after a message is opened */

static unsigned opened(unsigned bits)
{
	if (slowly)
		usleep(20);
	return bits;
}

/* Between these two steps no other thread may touch the count (homes W2). */
static int add_slowly(struct uwakes *w, int nr)
{
	int was = w->w_count;

	USCHED_RACE(test_add);
	w->w_count = was + nr;
	return was < 0;
}

/* Windows within ws.c: after each step of these calls, or before. */
#define AFTER(step, type, call)						\
	({ type after = call; USCHED_RACE(step); after; })
#define ws_mail_post(w)	AFTER(mail_post, int, ws_mail_post(w))
#define ws_mail_give(w)	AFTER(mail_give, int, ws_mail_give(w))
#define ws_mail_open(w)	AFTER(mail_open, unsigned, opened(ws_mail_open(w)))
#define ws_mail_settle(w)	AFTER(mail_settle, int, ws_mail_settle(w))
#define uinbox_take(i)	AFTER(inbox_take, struct uinbox_node *, uinbox_take(i))
#define uwakes_wait(w)	(add_slowly(w, -1), (w)->w_count < 0)
#define uwakes_add(w, nr)	add_slowly(w, nr)
#define ws_stop_quick(k)	({ USCHED_RACE(stop_quick); ws_stop_quick(k); })

#define set	ws_set			/* counts.h has another */
#include "ws.c"
#undef set
#include "counts.h"
#include <pthread.h>
#include <sys/mman.h>

#define PROGRAMS	120
#define MANY		1500		/* threads, at most */
#define SENDS		4000		/* by all senders */
#define BRIEF		300		/* made by the mother */
#define MAIL_ROOM	8

static unsigned state;

static unsigned any(unsigned nr)
{
	return check_random(&state) % nr;
}

/* Few lanes. */

static size_t mmap_most;

WRAP(void *, mmap, void *at, size_t nob, int prot, int flags, int fd, off_t off)
{
	if (nob > mmap_most && flags & MAP_NORESERVE) {	/* lanes */
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return __real_mmap(at, nob, prot, flags, fd, off);
}

/* The wakes of a program. The first wakers are the threads themselves. */

enum { PURE = 3, NATIVE = 1, HANDLER = 1, OTHERS = PURE + NATIVE + HANDLER };

static struct actor {
	struct ws_thread *a_thread;
	long     a_sent;	/* wakes for it that were begun */
	long     a_due;		/* wakes that it will get */
	long     a_sure;	/* wakes of a_due by actors that never wait */
	long     a_done;	/* waits that returned; its own */
	int      a_runs;	/* on how many workers it runs */
	int      a_pinned;	/* to this worker, or -1 */
	unsigned a_state;
	int      a_nr;		/* wakes to send */
	int     *a_to;		/* to these actors; see sends */
} actor[MANY + OTHERS];

static int  sends[SENDS];
static int  threads, procs;
static long ended, started;

static void draw(int nr)
{
	int i, at = 0;

	memset(actor, 0, sizeof actor);
	threads = nr;
	ended = started = 0;
	for (i = 0; i < nr + OTHERS; i++) {
		struct actor *a = &actor[i];
		int most = i < nr ? SENDS / 2 / nr : SENDS / 2 / OTHERS;
		int j;

		a->a_state  = check_hash(check_seed, any(1u << 30));
		a->a_pinned = -1;
		a->a_nr     = (int)any((unsigned)most + 1);
		a->a_to     = &sends[at];
		at += a->a_nr;
		for (j = 0; j < a->a_nr; j++) {
			struct actor *to = &actor[a->a_to[j] =
						  (int)any((unsigned)nr)];

			to->a_due++;
			to->a_sure += i >= nr;
		}
	}
}

/* Sends the next wake of a. */
static void send(struct actor *a, bool post)
{
	struct actor *to = &actor[a->a_to[--a->a_nr]];

	add(&to->a_sent, 1);
	if (post)
		ws_post(to->a_thread);
	else
		ws_wake(to->a_thread);
}

/* Checks that a thread runs on one worker at a time, and on the right one. */
static void goes_on(struct actor *a)
{
	CHECK_IS(__atomic_exchange_n(&a->a_runs, 1, __ATOMIC_SEQ_CST), 0);
	CHECK_IS(ws_self(), a->a_thread);
	CHECK(a->a_pinned < 0 || a->a_pinned == ws_proc());
}

static void stops(struct actor *a)
{
	CHECK_IS(__atomic_exchange_n(&a->a_runs, 0, __ATOMIC_SEQ_CST), 1);
}

static void yields(struct actor *a)
{
	stops(a);
	CHECK_IS(ws_yield(), 0);
	goes_on(a);
}

static void waits(struct actor *a)
{
	stops(a);
	CHECK_IS(ws_wait(), 0);
	goes_on(a);
	CHECK_THAT(++a->a_done, <=, get(&a->a_sent));
}

static NOINLINE void deep(struct actor *a, int depth)
{
	volatile unsigned frame[20];
	int i;

	for (i = 0; i < COUNT(frame); i++)
		frame[i] = check_hash(a->a_state, (unsigned)(depth + i));
	if (depth > 0)
		deep(a, depth - 1);
	else
		waits(a);
	for (i = 0; i < COUNT(frame); i++)
		CHECK_IS(frame[i],
			 check_hash(a->a_state, (unsigned)(depth + i)));
}

static void pins_itself(struct actor *a)
{
	if (a->a_pinned >= 0) {
		a->a_pinned = -1;
		ws_unpin();
	} else {
		ws_pin();
		a->a_pinned = ws_proc();
	}
}

/*
 * Until it has sent all, a waits only for actors that never wait: no deadlock.
 */
static bool may_wait(const struct actor *a)
{
	return a->a_done < (a->a_nr > 0 ? a->a_sure : a->a_due);
}

static void step(struct actor *a)
{
	unsigned r = check_random(&a->a_state);
	volatile unsigned spin;

	switch (r % 8) {
	case 0:
		yields(a);
		break;
	case 1:
		if (r / 8 % 16 == 0)
			pins_itself(a);
		break;
	case 2:
		for (spin = r / 8 % 2000; spin > 0; spin--)
			;
		break;
	case 3: case 4: case 5:
		if (may_wait(a))
			deep(a, (int)(r / 8 % 30));
		break;
	default:
		if (a->a_nr > 0)
			send(a, r / 8 % 8 == 0);
	}
}

static void lives(void *arg)
{
	struct actor *a = arg;

	goes_on(a);
	add(&started, 1);
	while (a->a_nr > 0 || a->a_done < a->a_due)
		step(a);
	if (a->a_pinned >= 0 && a->a_state % 2)
		ws_unpin();
	stops(a);
	add(&ended, 1);
}

static void only_wakes(void *arg)
{
	struct actor *a = arg;

	while (a->a_nr > 0) {
		send(a, false);
		if (check_random(&a->a_state) % 8 == 0)
			CHECK_IS(ws_yield(), 0);
	}
	add(&ended, 1);
}

/* A mother, which makes more threads, and the native thread that helps her. */

struct brief {
	struct ws_thread *b_thread;
	long              b_wakes;	/* wakes for which it waits */
	long              b_given;	/* wakes that were begun */
	long              b_done;	/* wakes that have been given */
	long              b_more;	/* 1: another comes before its end */
	long              b_seen;
};

static struct brief  brief[BRIEF];
static struct brief *mail[MAIL_ROOM];	/* one wake each */
static long mailed, brief_ended, mother_ended;

static void is_brief(void *arg)
{
	struct brief *b = arg;
	long i;

	CHECK_IS(b->b_seen, 0);
	for (i = 0; i < b->b_wakes; i++)
		CHECK(ws_wait() == 0 && i < get(&b->b_given));
	while (b->b_more && get(&b->b_done) <= b->b_wakes)
		CHECK_IS(ws_yield(), 0);
	b->b_seen = 1;
	add(&brief_ended, 1);
}

static void wake_brief(struct brief *b)
{
	ws_wake(b->b_thread);
	add(&b->b_done, 1);
}

/*
 * Leaves a wake to the native thread, or, if that has enough to do, sends it.
 */
static void give(struct brief *b, unsigned r)
{
	struct brief *none = NULL;

	add(&b->b_given, 1);
	if (r % 2 && __atomic_compare_exchange_n(&mail[r / 2 % MAIL_ROOM],
			&none, b, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		add(&mailed, 1);
	else
		wake_brief(b);
}

/* Makes a thread, in each way that there is. True: it is to be joined. */
static bool bear(struct brief *b, unsigned r)
{
	int p = (int)(r / 8 % 5);

	b->b_wakes = r / 64 % 4;
	b->b_more  = r % 4 == 2 && r / 256 % 2;
	if (b->b_wakes == 0 && r % 4 != 2) {
		CHECK_IS(ws_spawn(is_brief, b), 0);
		return false;
	}
	b->b_thread = r % 4 == 0 ? ws_thread_init(is_brief, b) :
		r % 4 == 1 ? ws_thread_on(p, is_brief, b) :
		r % 4 == 2 ? ws_thread_joinable(is_brief, b) :
		ws_thread_pinned(p, is_brief, b);
	CHECK(b->b_thread != NULL);
	return r % 4 == 2;
}

static void mother(void *arg)
{
	unsigned s = *(unsigned *)arg;
	bool lets = s % 4 != 0;		/* else her queue grows */
	int i;

	for (i = 0; i < BRIEF; i++) {
		struct brief *b = &brief[i];
		unsigned r = check_random(&s);
		bool join = bear(b, r);
		long left;

		if (lets && r / 1024 % 4 == 0)
			CHECK_IS(ws_yield(), 0);
		/* It may be gone when the last wake has been given. */
		for (left = b->b_wakes; left > 0; left--)
			give(b, check_random(&s));
		if (b->b_more) {
			add(&b->b_given, 1);
			wake_brief(b);
		}
		if (join)
			CHECK(ws_join(b->b_thread) == 0 && b->b_seen == 1);
	}
	__atomic_store_n(&mother_ended, 1, __ATOMIC_SEQ_CST);
}

static void carry(void)
{
	int i;

	for (i = 0; i < MAIL_ROOM; i++) {
		struct brief *b;

		b = __atomic_exchange_n(&mail[i], NULL, __ATOMIC_SEQ_CST);
		if (b == NULL)
			continue;
		wake_brief(b);
		add(&mailed, -1);
	}
}

static void *native(void *arg)
{
	struct actor *a = arg;

	while (a->a_nr > 0 || get(&mother_ended) == 0 || get(&mailed) > 0) {
		if (a->a_nr > 0)
			send(a, false);
		carry();
		if (check_random(&a->a_state) % 64 == 0)
			check_yield();
	}
	ws_release();
	return NULL;
}

/* The handler, which interrupts each worker. */

static pthread_t worker_id[4];
static long      registered, handled;
static long      hand_next;		/* of the handler's wakes */

static void registers(void *arg)
{
	worker_id[(intptr_t)arg] = pthread_self();
	add(&registered, 1);
}

static void handler(int signo)
{
	struct actor *a = &actor[threads + PURE + NATIVE];
	long i = __atomic_fetch_add(&hand_next, 1, __ATOMIC_SEQ_CST);

	if (i >= a->a_nr)
		return;
	add(&actor[a->a_to[i]].a_sent, 1);
	ws_post(actor[a->a_to[i]].a_thread);
	add(&handled, 1);
}

static void *kicker(void *arg)
{
	struct actor *a = arg;
	int i = 0;

	until(&registered, procs);
	while (get(&handled) < a->a_nr) {
		CHECK_IS(pthread_kill(worker_id[i++ % procs], SIGUSR1), 0);
		if (check_random(&a->a_state) % 4 == 0)
			check_yield();
	}
	ws_release();
	return NULL;
}

static void set_up(void)
{
	intptr_t i;

	memset(brief, 0, sizeof brief);
	mailed = brief_ended = mother_ended = 0;
	registered = handled = hand_next = 0;
	for (i = 0; i < procs; i++)
		CHECK(ws_thread_pinned(i, registers, (void *)i) != NULL);
	for (i = 0; i < threads; i++) {
		struct actor *a = &actor[i];

		if (any(8) == 0)
			a->a_pinned = (int)any((unsigned)procs);
		a->a_thread = a->a_pinned >= 0 ?
			ws_thread_pinned(a->a_pinned, lives, a) :
			ws_thread_on((int)any(4), lives, a);
		CHECK(a->a_thread != NULL);
	}
}

static void program(int p, int nr)
{
	pthread_t id[2];
	unsigned seed = any(1u << 30);
	int i;

	procs = p;
	CHECK_IS(ws_init(p, 0), 0);
	draw(nr);
	set_up();
	for (i = 0; i < PURE; i++)
		CHECK(ws_thread_init(only_wakes, &actor[nr + i]) != NULL);
	CHECK(ws_thread_init(mother, &seed) != NULL);
	for (i = 0; i < COUNT(id); i++) {
		ws_hold();
		CHECK_IS(pthread_create(&id[i], NULL, i ? kicker : native,
			 &actor[nr + PURE + i]), 0);
	}
	CHECK_IS(ws_start(), 0);
	CHECK_IS(ws_fini(), 0);
	CHECK(ended == nr + PURE && brief_ended == BRIEF);
	for (i = 0; i < COUNT(id); i++)
		CHECK_IS(pthread_join(id[i], NULL), 0);
}

/*
 * A thread gets one more wake than it waits for. While this wake is still under
 * way the thread ends, another worker joins it, and makes a new thread in its
 * memory.
 */

#define LATES	300

static struct late {
	struct ws_thread *l_thread;
	long              l_state;	/* how far it is */
	long              l_told;	/* the thread may end */
	long              l_given;	/* a wake for the new thread */
} late[LATES];

/* Keeps its worker, so that messages stay in the inbox. */
static void is_late(void *arg)
{
	struct late *l = arg;

	add(&l->l_state, 1);
	CHECK_IS(ws_wait(), 0);
	add(&l->l_state, 1);
	until(&l->l_told, 1);
}

static void is_new(void *arg)
{
	struct late *l = arg;

	CHECK(ws_wait() == 0 && get(&l->l_given) == 1);
	add(&l->l_state, 1);
}

/* Keeps its worker until the late thread has begun, on the other worker. */
static void joins_late(void *arg)
{
	struct late *l;

	for (l = late; l < late + LATES; l++) {
		l->l_thread = ws_thread_joinable(is_late, l);
		CHECK(l->l_thread != NULL);
		until(&l->l_state, 1);
		ws_wake(l->l_thread);
		until(&l->l_state, 2);
		ws_wake(l->l_thread);
		add(&l->l_told, 1);
		CHECK_IS(ws_join(l->l_thread), 0);
		l->l_thread = ws_thread_joinable(is_new, l);
		CHECK(l->l_thread != NULL && ws_yield() == 0);
		add(&l->l_given, 1);
		ws_wake(l->l_thread);
		CHECK(ws_join(l->l_thread) == 0 && l->l_state == 3);
	}
}

static void late_joins(void)
{
	doing("in late_joins");
	memset(late, 0, sizeof late);
	mmap_most = SIZE_MAX;
	slowly = true;
	CHECK_IS(ws_init(2, 0), 0);
	CHECK(ws_thread_pinned(0, joins_late, NULL) != NULL);
	CHECK_IS(ws_start(), 0);
	CHECK_IS(ws_fini(), 0);
	CHECK_IS(late[LATES - 1].l_state, 3);
	slowly = false;
}

/*
 * A thread that never blocks counts its own waits and wakes. Meanwhile other
 * wakes come, and stay in the inbox of its worker, where workers that look for
 * hostages find them.
 */

#define POSTS	100
#define STORE	20000

static struct ws_thread *counter;
static long counting;

static void counts(void *arg)
{
	int i;

	CHECK_IS(ws_wait(), 0);
	while (get(&counting) < POSTS) {
		/* Not by ws_wake(), which waits while its worker is stopped. */
		uwakes_back(&counter->s_thread.t_wakes, STORE);
		for (i = 0; i < STORE; i++)
			CHECK_IS(ws_wait(), 0);
	}
	for (i = 1; i < POSTS; i++)
		CHECK_IS(ws_wait(), 0);
}

static void *posts(void *arg)
{
	int i;

	/* Until it has blocked, there are no messages. */
	while (!ws_mail_settled(&counter->s_thread.t_wakes))
		check_yield();
	for (i = 0; i < POSTS; i++) {
		ws_post(counter);
		add(&counting, 1);
		if (i % 4 == 0)
			usleep(WS_WATCH / 1000);
	}
	ws_release();
	return NULL;
}

static void own_count(void)
{
	pthread_t id;

	doing("in own_count");
	counting = 0;
	CHECK_IS(ws_init(3, 0), 0);
	counter = ws_thread_on(0, counts, NULL);
	CHECK(counter != NULL);
	ws_hold();
	CHECK_IS(pthread_create(&id, NULL, posts, NULL), 0);
	CHECK_IS(ws_start(), 0);
	CHECK_IS(ws_fini(), 0);
	CHECK_IS(pthread_join(id, NULL), 0);
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_RESTART };
	const char *env = getenv("PROGRAMS");
	int nr = env != NULL ? atoi(env) : PROGRAMS;
	int i;

	check_start(argc, argv);
	state = check_seed;
	CHECK_IS(sigaction(SIGUSR1, &sa, NULL), 0);
	late_joins();
	own_count();
	for (i = 0; i < nr; i++) {
		int p = 1 + i % 4;
		int most = i % 10 == 9 ? MANY : 60;

		/* 64 MiB: some two hundred lanes. */
		mmap_most = i % 3 == 0 ? SIZE_MAX : (size_t)(2 << 20) <<
			any(5);
		doing("in program %d", i);
		program(p, 1 + (int)any((unsigned)most));
	}
	if (nr >= PROGRAMS) {
		window_check("deque_R2 deque_grown deque_push deque_pop");
		window_check("deque_F deque_last deque_Q1 deque_A2");
		window_check("stop_K2 stop_K4 seek_N7 seek_N4 seek_G3");
		window_check("mail_post mail_give mail_open mail_settle");
		window_check("inbox_take test_add stop_quick");
	}
	return 0;
}
