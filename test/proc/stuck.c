/* SPDX-License-Identifier: MIT */
/* stuck: the end of a scheduler says what its threads wait for, and who holds it. */
/* VARIANTS: RR LL WS PR */

/*
 * It names each thread by its function, the object by its name, and the holder,
 * also if that has ended; and mutexes that wait for each other in a circle. It
 * names a start that was forgotten. It says nothing if all threads have ended.
 */
#include "either.h"
#include "rr.h"
#include "uchan.h"
#include "uscope.h"
#include "usync.h"
#include <stdarg.h>
#include <sys/mman.h>

struct umutex stuck_a, stuck_b;
struct ucond stuck_cond;
static struct usem sem = USEM(0);
static struct ugroup group;
static int nr;

static void mark(void)
{
	nr++;
	yield();
}

void stuck_plain(void *arg);
void stuck_plain(void *arg)
{
	(void)SCHED(wait)();
}

void stuck_takes_a(void *arg);
void stuck_takes_a(void *arg)
{
	(void)!umutex_lock(&stuck_a, UNEVER);
	mark();
}

void stuck_wants_a(void *arg);
void stuck_wants_a(void *arg)
{
	while (nr == 0)
		yield();
	(void)!umutex_lock(&stuck_a, UNEVER);
}

static UNUSED void ended(void)
{
	make(0, stuck_takes_a, NULL);
	make(0, stuck_wants_a, NULL);
}

void stuck_a_then_b(void *arg);
void stuck_a_then_b(void *arg)
{
	(void)!umutex_lock(&stuck_a, UNEVER);
	nr++;
	while (nr < 2)
		yield();
	(void)!umutex_lock(&stuck_b, UNEVER);
}

void stuck_b_then_a(void *arg);
void stuck_b_then_a(void *arg)
{
	(void)!umutex_lock(&stuck_b, UNEVER);
	nr++;
	while (nr < 2)
		yield();
	(void)!umutex_lock(&stuck_a, UNEVER);
}

static void cycle(void)
{
	make(0, stuck_a_then_b, NULL);
	make(0, stuck_b_then_a, NULL);
}

/* Is signalled while another thread has the mutex, which then ends. */
void stuck_awaits(void *arg);
void stuck_awaits(void *arg)
{
	(void)!umutex_lock(&stuck_a, UNEVER);
	nr++;
	(void)!ucond_wait(&stuck_cond, &stuck_a, UNEVER);
}

static void signals(void *arg)
{
	while (nr == 0)
		yield();
	(void)!umutex_lock(&stuck_a, UNEVER);
	ucond_signal(&stuck_cond);
}

static UNUSED void moved(void)
{
	make(0, stuck_awaits, NULL);
	make(0, signals, NULL);
}

static void cond(void)
{
	make(0, stuck_awaits, NULL);
}

static int inner(void *arg)
{
	return usem_wait(&sem, UNEVER);
}

void stuck_scope(void *arg);
void stuck_scope(void *arg)
{
	struct uscope *s;

	(void)!uscope_begin(&s, UNEVER);
	(void)!uscope_go(s, inner, NULL);
	(void)uscope_end(&s);
}

static UNUSED void scope(void)
{
	make(0, stuck_scope, NULL);
}

void stuck_group(void *arg);
void stuck_group(void *arg)
{
	struct uscope *s;

	(void)ugroup_add(&group, 1);
	(void)!uscope_begin(&s, UNEVER);		/* its record waits for nothing */
	(void)!ugroup_wait(&group, UNEVER);
}

static void in_scope(void)
{
	make(0, stuck_group, NULL);
}

/* The memory of the mutex is not there any more. */
void stuck_unmapped(void *arg);
void stuck_unmapped(void *arg)
{
	(void)!umutex_lock(arg, UNEVER);
}

static void unmaps(void *arg)
{
	(void)!umutex_lock(arg, UNEVER);
	make(0, stuck_unmapped, arg);
	yield();
	yield();
	munmap(arg, 4096);
}

static UNUSED void unmapped(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK_THAT(page, !=, MAP_FAILED);
	make(0, unmaps, page);
}

static void plain(void)
{
	make(0, stuck_plain, NULL);
}

static void many(void)
{
	int i;

	for (i = 0; i < 20; i++)
		make(i, stuck_plain, NULL);
}

#if defined(WS) && !defined(USCHED_HARD)
static thread *woken;
static long waits;

/* Runs as soon as the other thread of its worker has blocked. */
static void waits_now(void *arg)
{
	set(&waits, 1);
}

void stuck_waits_as_rr(void *arg);
void stuck_waits_as_rr(void *arg)
{
	make_pinned(0, waits_now, NULL);
	(void)rr_wait();
	CHECK(0 && "it saw the wake of another worker");
}

static void wakes_it(void *arg)
{
	until(&waits, 1);
	ws_wake(woken);
}

static void in_vain(void)
{
	woken = make_pinned(0, stuck_waits_as_rr, NULL);
	make_pinned(1, wakes_it, NULL);
}
static void (*const in_vain_if)(void) = in_vain;
#else
static void (*const in_vain_if)(void);
#endif

static void none(void)
{
}

static void (*part)(void);
static int starts = 1;

static void run(void)
{
	unsetenv("USCHED_QUIET");
	begin(part == many || part == in_vain_if ? 2 : 1, 0);
	part();
	if (starts)
		CHECK_IS(SCHED(start)(), 0);
	SCHED(fini)();
}

/* Checks that the texts stand in the lines, in this order. */
static void says(void (*f)(void), ...)
{
	char text[4096];
	const char *at = text, *want;
	va_list list;

	part = f;
	CHECK_IS(check_child(run, text, sizeof text), 0);
	va_start(list, f);
	while ((want = va_arg(list, const char *)) != NULL) {
		at = strstr(at, want);
		if (at == NULL)
			fprintf(stderr, "no \"%s\" in:\n%s", want, text);
		CHECK(at != NULL);
		at += strlen(want);
	}
	va_end(list);
	if (f == none)
		CHECK_IS(*text, 0);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	check_forks();
	says(none, NULL);
	says(plain, NAME "_fini: 1 thread waits, and nothing is left that could "
	     "wake it", ", stuck_plain() waits for a wake\n", NULL);
	says(many, "fini: 20 threads wait, and nothing", "and 12 more", NULL);
#if !defined(USCHED_HARD)	/* in which these programs end, or hide it */
	says(ended, ", stuck_wants_a() waits for mutex 0x", " (stuck_a), held by "
	     "thread 0x", ", which has ended", NULL);
#endif
	says(cycle, ", stuck_a_then_b() waits for mutex 0x", " (stuck_b), held by "
	     "thread 0x", ", stuck_b_then_a()", "a cycle of 2 threads",
	     " (stuck_", "), which is held by ", " (stuck_", NULL);
	says(cond, ", stuck_awaits() waits for cond 0x", " (stuck_cond)\n", NULL);
#if !defined(USCHED_HARD)
	says(moved, ", stuck_awaits() waits for mutex 0x", " (stuck_a), held by",
	     "which has ended", NULL);
	says(scope, "fini: 2 threads", ", stuck_scope() waits for scope",
	     " waits for sem", NULL);
	says(unmapped, ", stuck_unmapped() waits for mutex 0x", NULL);
#endif
	if (in_vain_if != NULL)
		says(in_vain_if, ", stuck_waits_as_rr() was woken in vain: ",
		     "not by ws_wait()", NULL);
	says(in_scope, ", stuck_group() waits for group", NULL);
	starts = 0;
	says(plain, NAME "_fini: " NAME "_start() was not called, or failed: 1 "
	     "thread was dropped", NULL);
	says(many, "20 threads were dropped", NULL);
	return 0;
}
