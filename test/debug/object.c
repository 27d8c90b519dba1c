/* SPDX-License-Identifier: MIT */
/* object: misuse of objects is told by the names of the calls (hard mode). */
/* VARIANTS: once HARD */

/*
 * Each row of the table is a mistake. In the hard mode it ends the program, or
 * writes a line, and the text names the call that was wrong, and the call that
 * has freed the object. Odd uses that are right are not reported: objects on
 * the stack of the thread that runs, in static storage, in memory that is
 * zeroed and used for another object, copies of objects at rest, more locks
 * than a thread has places for. (Cites uobject J1 to J3.)
 */
#define RR
#include "either.h"

#if !defined(USCHED_HARD)

int main(void)
{
	check_skip("built without -DUSCHED_HARD");
}

#else

#include "uchan.h"
#include "ugen.h"
#include "uscope.h"
#include "usync.h"
#include "uthread.h"
#include "uwork.h"

#include <sys/mman.h>

#define LOCKS	(UHARD_HOLDS + 4)

static struct umutex m, ms[LOCKS];
static struct urw w, rws[LOCKS];
static struct ucond cond;
static struct uchan *c;
static struct uscope *s;
static void *volatile shared;
static long v;

static void *nothing(void *arg)	{ return arg; }
static int zero(void *arg)	{ (void)arg; return 0; }
static int aborts(void *arg)	{ (void)arg; ustack_abort(); return 0; }
static void *aborts_too(void *arg) { ustack_abort(); return arg; }
static void none(void *arg)	{ (void)arg; }
static void yields(void *arg)	{ (void)arg; ugen_yield(&v); ugen_yield(&v); }

static void locks(void *arg)
{
	(void)!umutex_lock(arg, UNEVER);
	umutex_unlock(arg);
}

/* Mistakes. */

static void freed(void)		{ c = uchan_make(8, 1); uchan_free(c); }
static void send_freed(void)	{ freed(); uchan_send(c, &v, UNOW); }
static void recv_freed(void)	{ freed(); uchan_recv(c, &v, UNOW); }
static void close_freed(void)	{ freed(); uchan_close(c); }
static void count_freed(void)	{ freed(); (void)uchan_count(c); }
static void free_freed(void)	{ freed(); uchan_free(c); }

static void select_freed(void)
{
	struct ucase k = UCASE_RECV(NULL, &v);

	freed();
	k.cs_chan = c;
	uselect(&k, 1, UNOW);
}

/* Others are freed meanwhile: the quarantine has places for them. */
static void send_late(void)
{
	struct uchan *first;
	int i;

	freed();
	first = c;
	for (i = 0; i < 100; i++)
		freed();
	uchan_send(first, &v, UNOW);
}

static void wrote_freed(void)
{
	int i;

	freed();
	((volatile char *)c)[sizeof(struct uhard_object) + 4] ^= 1;
	for (i = 0; i <= UHARD_GRAVES; i++)
		freed();
}

static void ended(void)
{
	struct uscope *copy;

	(void)!uscope_begin(&s, UNEVER);
	copy = s;
	uscope_end(&s);
	s = copy;
}
static void cancel_ended(void)	{ ended(); uscope_cancel(s); }
static void go_ended(void)	{ ended(); (void)!uscope_go(s, zero, NULL); }
static void hold_ended(void)	{ ended(); uscope_hold(s); }
static void end_ended(void)	{ ended(); uscope_end(&s); }
static void not_ended(void)	{ (void)!uscope_begin(&s, UNEVER); }
static void no_hold(void)	{ (void)!uscope_begin(&s, UNEVER); uscope_release(s); }
static void abort_scope(void)
{
	(void)!uscope_begin(&s, UNEVER);
	(void)!uscope_go(s, aborts, NULL);
	uscope_end(&s);
}

static struct uthread *joined(void)
{
	struct uthread *u;

	(void)!uthread_make(&u, nothing, NULL, NULL);
	(void)!uthread_join(u, NULL, UNEVER);
	return u;
}
static void join_joined(void)	{ (void)!uthread_join(joined(), NULL, UNOW); }
static void detach_joined(void)	{ uthread_detach(joined()); }
static void data_joined(void)	{ (void)uthread_data(joined()); }
static void abort_thread(void)
{
	struct uthread *u;

	(void)!uthread_make(&u, aborts_too, NULL, NULL);
	(void)!uthread_join(u, NULL, UNEVER);
}

static void rr_no_hold(void)	{ rr_release(); }

static struct ugen *gen_ended(void)
{
	struct ugen *g = ugen_make(yields, NULL, sizeof v);

	ugen_free(g);
	ugen_free(ugen_make(yields, NULL, sizeof v));
	return g;
}
static void next_ended(void)	{ ugen_next(gen_ended()); }
static void gen_end_twice(void)	{ ugen_free(gen_ended()); }

static struct uwork *work_ended(void)
{
	struct uwork *k = uwork_make(1, 1, 4);

	uwork_free(k, UNEVER);
	return k;
}
static void put_ended(void)	{ uwork_put(work_ended(), none, 0, 0, UNOW); }
static void drain_ended(void)	{ uwork_drain(work_ended(), UNOW); }

static void ends_locked(void)	{ (void)!umutex_lock(&m, UNEVER); }
static void ends_reading(void)	{ (void)!urw_read(&w, UNEVER); }
static void ends_writing(void)	{ (void)!urw_write(&w, UNEVER); }
static void ends_waited(void)
{
	(void)!urw_write(&w, UNEVER);
	(void)!ucond_wait_rw(&cond, &w, uafter(UTIME_MS));
}
static void reads(void *arg)	{ (void)!urw_read(arg, UNEVER); rr_wait(); }

static void unlock_other(void)
{
	(void)!rr_thread_init(reads, &w);
	yield();
	urw_unlock(&w);
}

static void wait_other(void)
{
	(void)!rr_thread_init(reads, &w);
	yield();
	(void)!ucond_wait_rw(&cond, &w, UNEVER);
}

static void kind(void)		{ usem_post((struct usem *)(void *)ms); }
static void other_kind(void)	{ umutex_busy(ms); kind(); }
static void wait_kind(void)
{
	umutex_busy(ms);
	(void)!ucond_wait_rw(&cond, (struct urw *)(void *)ms, UNEVER);
}
static void wait_cond_kind(void)
{
	umutex_busy(ms);
	(void)!ucond_wait_rw((struct ucond *)(void *)ms, &w, UNEVER);
}
static void garbage(void)
{
	memset(ms, 0x77, sizeof ms);
	(void)!umutex_lock(ms, UNEVER);
}

static NOINLINE void on_stack(void)
{
	struct umutex here = { .mx_owner = NULL };

	(void)!rr_thread_init(locks, &here);
	yield();
	(void)umutex_busy(&here);
}

static NOINLINE void tells(void)
{
	struct umutex here = { .mx_owner = NULL };

	shared = &here;
	(void)umutex_busy(&here);
}
static void on_dead_stack(void)	{ tells(); (void)umutex_busy(shared); }

static void length(void)	{ u_sleep(50); }
static void scope_length(void)	{ (void)!uscope_begin(&s, 50); uscope_end(&s); }
static void lost(void)		{ rr_wait(); }

/* Unset bytes, perhaps: a guess, once. */
static void sends_address(void)
{
	void *at = &at;
	int i;

	c = uchan_make(sizeof at, 2);
	for (i = 0; i < 2; i++)
		(void)!uchan_send(c, &at, UNOW);
	uchan_free(c);
}

static const struct {
	void      (*f)(void);
	const char *says[2];
	bool        line;		/* and goes on */
} row[] = {
	{ send_freed, { "uchan_send: the uchan", "freed by uchan_free()" }, 0 },
	{ recv_freed, { "uchan_recv: the uchan", "freed by uchan_free()" }, 0 },
	{ close_freed, { "uchan_close: the", "freed by uchan_free()" }, 0 },
	{ count_freed, { "uchan_count: the", "freed by uchan_free()" }, 0 },
	{ free_freed, { "uchan_free: the uchan", "freed by uchan_free()" }, 0 },
	{ select_freed, { "uselect: the uchan", "freed by uchan_free()" }, 0 },
	{ send_late, { "uchan_send: the uchan", "freed by uchan_free()" }, 0 },
	{ wrote_freed, { "the memory of the uchan", "was written to" }, 0 },
	{ cancel_ended, { "uscope_cancel: the", "freed by uscope_end()" }, 0 },
	{ go_ended, { "uscope_go: the uscope", "freed by uscope_end()" }, 0 },
	{ hold_ended, { "uscope_hold: the", "freed by uscope_end()" }, 0 },
	{ end_ended, { "uscope_end: the", "freed by uscope_end()" }, 0 },
	{ not_ended, { "has ended in the uscope", "uscope_end()" }, 0 },
	{ no_hold, { "uscope_release: ", "no hold" }, 0 },
	{ abort_scope, { "ended by ustack_abort()", "uscope_go()" }, 0 },
	{ abort_thread, { "ended by ustack_abort()", "uthread_make()" }, 0 },
	{ join_joined, { "uthread_join: the", "by uthread_join()" }, 0 },
	{ detach_joined, { "uthread_detach: the", "by uthread_join()" }, 0 },
	{ data_joined, { "uthread_data: the", "by uthread_join()" }, 0 },
	{ rr_no_hold, { "rr_release: ", "no hold" }, 0 },
	{ next_ended, { "ugen_next: the ugen", "freed by ugen_free()" }, 0 },
	{ gen_end_twice, { "ugen_free: the ugen", "freed by ugen_free()" }, 0 },
	{ put_ended, { "uwork_put: the uwork", "freed by uwork_free()" }, 0 },
	{ drain_ended, { "uwork_drain: the", "freed by uwork_free()" }, 0 },
	{ ends_locked, { "holds the umutex", "umutex_unlock()" }, 0 },
	{ ends_reading, { "holds the urw", "urw_unlock()" }, 0 },
	{ ends_writing, { "holds the urw", "urw_unlock()" }, 0 },
	{ ends_waited, { "holds the urw", "urw_unlock()" }, 0 },
	{ wait_other, { "urw_unlock: ", "does not hold" }, 0 },
	{ wait_kind, { "ucond_wait_rw: ", "was used as a umutex" }, 0 },
	{ wait_cond_kind, { "ucond_wait_rw: ", "was used as a umutex" }, 0 },
	{ unlock_other, { "urw_unlock: ", "does not hold" }, 0 },
	{ other_kind, { "usem_post: ", "was used as a umutex" }, 0 },
	{ garbage, { "umutex_lock: ", "is no umutex" }, 0 },
	{ on_stack, { "umutex_lock: the umutex", "which waits" }, 0 },
	{ on_dead_stack, { "umutex_busy: the umutex", "it is dead" }, 0 },
	{ length, { "u_sleep: the deadline 50 ", "uafter(50)" }, 1 },
	{ scope_length, { "uscope_begin: the deadline 50 ", "uafter" }, 1 },
	{ sends_address, { "uchan_send: the value, if it is", "which is moved" }, 1 },
	{ lost, { "rr_fini: 1 thread waits", "nothing is left" }, 1 }
};

static int now;

static void runs(void *arg)
{
	row[now].f();
}

static void in_thread(void)
{
	(void)!rr_init(1, 0);
	(void)!rr_thread_init(runs, NULL);
	(void)!rr_start();
	rr_fini();
}

static void forgets(void)
{
	(void)!rr_init(1, 0);
	(void)!rr_thread_init(none, NULL);
	rr_fini();
}

static int told(int nr, void (*f)(void), const char *const says[2], bool line)
{
	char text[4096];
	int status = check_child(f, text, sizeof text);
	bool ended_well = line ? status == 0 :
		WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;

	if (ended_well && strncmp(text, "usched: ", 8) == 0 &&
	    strstr(text, says[0]) != NULL && strstr(text, says[1]) != NULL)
		return 0;
	if (strstr(text, "AddressSanitizer") != NULL)
		return 0;		/* it has seen it first */
	fprintf(stderr, "row %d: wanted \"%s\" and \"%s\", got %#x and "
		"\"%s\"\n", nr, says[0], says[1], (unsigned)status, text);
	return 1;
}

/* What is right, though odd. */

static void many_locks(void)
{
	int i, round;

	for (round = 0; round < 2; round++) {
		for (i = 0; i < LOCKS; i++)
			CHECK_IS(umutex_lock(&ms[i], UNEVER), 0);
		for (i = 0; i < LOCKS; i++)
			umutex_unlock(&ms[round ? i : LOCKS - 1 - i]);
		for (i = 0; i < LOCKS; i++)
			CHECK_IS(urw_read(&rws[i], UNEVER), 0);
		for (i = 0; i < LOCKS; i++)
			urw_unlock(&rws[round ? i : LOCKS - 1 - i]);
	}
}

static void memory(void)
{
	void *at = calloc(1, 256);
	struct umutex copy, *held = at;

	CHECK_IS(umutex_lock(held, UNEVER), 0);
	umutex_unlock(held);
	copy = *held;
	CHECK_IS(umutex_lock(&copy, UNEVER), 0);
	umutex_unlock(&copy);
	memset(at, 0, 256);
	CHECK(usem_post(at) == 0 && usem_wait(at, UNOW) == 0);
	*(struct umutex *)at = (struct umutex)UMUTEX_LOCAL;
	CHECK_IS(umutex_lock(at, UNEVER), 0);
	umutex_unlock(at);
	free(at);
}

/* Most of a block of this size is never touched, by its end neither. */
static void large(void)
{
	unsigned nob = 1u << 30;
	uintptr_t middle;
	unsigned char in;

	c = uchan_make(1, nob);
	if (c == NULL)
		return;			/* no such address space */
	middle = ((uintptr_t)c + nob / 2) & -(uintptr_t)65536;
	uchan_free(c);
	CHECK(mincore((void *)middle, 1, &in) == 0 && (in & 1) == 0);
}

static void consumer_uses(void *arg)
{
	locks(arg);
	ugen_yield(&v);
	locks(arg);
}

/* A generator may use what lies on the stack of its consumer, which runs. */
static void by_generator(void)
{
	struct umutex here = { .mx_owner = NULL };
	struct ugen *g = ugen_make(consumer_uses, &here, sizeof v);

	CHECK(ugen_next(g) != NULL);
	locks(&here);
	CHECK(ugen_next(g) == NULL && ugen_free(g) == 0);
}

static void right(void *arg)
{
	struct ucond here = { .cd_sync.y_state = 0 };

	many_locks();
	memory();
	large();
	by_generator();
	CHECK_IS(umutex_lock(&m, UNEVER), 0);
	CHECK_IS(ucond_wait(&here, &m, uafter(UTIME_MS)), -ETIMEDOUT);
	umutex_unlock(&m);
	CHECK_IS(urw_write(&w, UNEVER), 0);
	CHECK_IS(ucond_wait_rw(&here, &w, uafter(UTIME_MS)), -ETIMEDOUT);
	CHECK_IS(urw_write(&w, UNOW), -EDEADLK);
	urw_unlock(&w);
	CHECK_IS(urw_read(&w, UNEVER), 0);
	CHECK_IS(ucond_wait_rw(&here, &w, uafter(UTIME_MS)), -ETIMEDOUT);
	CHECK_IS(urw_write(&w, UNOW), -EAGAIN);
	urw_unlock(&w);
	CHECK_IS(urw_busy(&w), 0);
	CHECK(urw_read(&w, UNEVER) == 0 && urw_read(&w, UNEVER) == 0);
	urw_unlock(&w);
	urw_unlock(&w);
	rr_hold();
	rr_release();
	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	uscope_hold(s);
	uscope_release(s);
	CHECK_IS(uscope_end(&s), 0);
}

static void in_order(void)
{
	int i;

	(void)!rr_init(2, 0);
	for (i = 0; i < 1; i++)
		(void)!rr_thread_init(right, NULL);
	(void)!rr_start();
	CHECK_IS(rr_fini(), 0);
}

int main(int argc, char **argv)
{
	static const char *const start[2] = { "rr_fini: rr_start() was",
					      "1 thread was dropped" };
	char text[4096];
	int failed = 0;

	check_start(argc, argv);
	setenv("USCHED_DEBUG", "evict=always,poison,fault", 0);
	for (now = 0; now < COUNT(row); now++)
		failed += told(now, in_thread, row[now].says, row[now].line);
	failed += told(-1, forgets, start, true);
	CHECK_IS(check_child(in_order, text, sizeof text), 0);
	CHECK_IS(text[0], 0);
	return failed != 0;
}

#endif
