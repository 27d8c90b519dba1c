/* SPDX-License-Identifier: MIT */
/* said: mistakes of a newcomer have a line, or end the program with one. */
/* VARIANTS: RR LL WS PR */
/* LIBS: -Wl,--wrap=clock_gettime */

/*
 * Calls before init() and twice; joins that must fail; a length for a deadline, and
 * a deadline for a length, however long the system runs, once for each call in
 * threads of a function; a scope that its thread left; a
 * channel or thread that is used after its end; an unlock without a lock. The
 * results are the same as without the line. What is no mistake has none.
 */
#include "either.h"
#include "uchan.h"
#include "uscope.h"
#include "usync.h"
#include "uthread.h"
#include <stdarg.h>

static char said[4096];
static struct umutex mutex;
static struct urw rw;

static void hear(const char *line)
{
	size_t nob = strlen(said);

	snprintf(said + nob, sizeof said - nob, "%s\n", line);
}

static void nothing(void *arg)
{
}

static void *result(void *arg)
{
	return arg;
}

static void in_thread(void (*f)(void *))
{
	one_thread(1, f, NULL);
}

/* Checks that just these lines were said, which begin so. */
static void lines(const char *want, ...)
{
	char *at = said;
	va_list list;

	va_start(list, want);
	for (; want != NULL; want = va_arg(list, const char *)) {
		const char *is = strstr(at, want);
		char *end = strchr(at, '\n');

		if (is == NULL || end == NULL || is > end)
			fprintf(stderr, "wanted \"%s\" in:\n%s", want, said);
		CHECK(strncmp(at, "usched: ", 8) == 0);
		CHECK(is != NULL && end != NULL && is < end);
		at = end + 1;
	}
	va_end(list);
	if (*at != 0)
		fprintf(stderr, "not wanted: %s", at);
	CHECK_IS(*at, 0);
	*said = 0;
}

static void order(void)
{
	CHECK_IS(SCHED(start)(), -EINVAL);
	CHECK_IS(SCHED(fini)(), -EINVAL);
	CHECK(try_make(0, nothing, NULL) == NULL && errno == EINVAL);
	lines(NAME "_start: " NAME "_init() was not called before, or failed",
	      NAME "_fini: " NAME "_init() was not", NAME "_thread_init: ", NULL);
#if !defined(PR)
	CHECK_IS(SCHED(stack_size)(1 << 20), -EINVAL);
	CHECK_IS(SCHED(private)(1), -EINVAL);
	SCHED(hold)();
	lines(NAME "_stack_size: " NAME "_init() was not", NAME "_private: ",
	      NAME "_hold: " NAME "_init() was not called before", NULL);
#endif
	begin(1, 0);
	CHECK_IS(SCHED(init)(1, 0), -EBUSY);
	lines(NAME "_init: there is a scheduler already, until " NAME "_fini()",
	      NULL);
	CHECK_IS(SCHED(start)(), 0);
	CHECK_IS(SCHED(start)(), -EBUSY);
	lines(NAME "_start: it was called before", NULL);
	finish();
	lines(NULL);
}

static void joins(void *arg)
{
	thread *t = make_joinable(0, nothing, NULL);
	struct uthread *u;

	CHECK_IS(SCHED(join)(t), 0);
	CHECK_IS(SCHED(join)(SCHED(self)()), -EINVAL);
#if !defined(USCHED_HARD)
	CHECK_IS(SCHED(join)(t), -EINVAL);
#if defined(PR)			/* it has no join_until */
	CHECK_IS(SCHED(join)(t), -EINVAL);
#else
	CHECK_IS(SCHED(join_until)(t, UNEVER), -EINVAL);
#endif
	CHECK_IS(uthread_make(&u, result, NULL, NULL), 0);
	CHECK_IS(uthread_join(u, NULL, UNEVER), 0);
	CHECK_IS(uthread_join(u, NULL, UNEVER), -EINVAL);
	CHECK_IS(uthread_detach(u), -EINVAL);
#endif
	CHECK_IS(uthread_make(&u, result, NULL, NULL), 0);
	CHECK_IS(uthread_join(u, NULL, UNOW), -EAGAIN);
	CHECK_IS(uthread_join(u, NULL, -1), -EINVAL);
	CHECK_IS(uthread_detach(u), 0);
	CHECK_IS(uthread_detach(u), -EINVAL);
}

static void *joins_itself(void *arg)
{
	CHECK_IS(uthread_join(uthread_self(), NULL, UNEVER), -EDEADLK);
	return arg;
}

static void makes_that(void *arg)
{
	struct uthread *u;

	CHECK_IS(uthread_make(&u, joins_itself, NULL, NULL), 0);
	CHECK_IS(uthread_join(u, NULL, UNEVER), 0);
}

static void sleeps(void *arg)
{
	struct uscope *s;
	int i;

	for (i = 0; i < 3; i++)
		CHECK_IS(u_sleep(50 * UTIME_MS), 0);
	CHECK(u_sleep(UNOW) == 0 && u_sleep(uafter(-UTIME_S)) == 0);
	CHECK_IS(u_sleep(unow() - UTIME_MS), 0);	/* has just passed */
	CHECK_IS(u_wait_until(7), -ETIMEDOUT);
	CHECK_IS(uscope_begin(&s, 3 * UTIME_S), 0);
	CHECK_IS(uscope_end(&s), -ETIMEDOUT);
}

static void sleeps_too(void *arg)
{
	CHECK_IS(u_sleep(2 * UTIME_US), 0);
}

/* How much later the system seems to have begun. */
static utime_ns later;

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);

__attribute__((used)) int __wrap_clock_gettime(clockid_t clock,
					       struct timespec *t)
{
	int rc = __real_clock_gettime(clock, t);
	utime_ns ns = t->tv_sec * UTIME_S + t->tv_nsec;

	if (rc == 0 && clock == CLOCK_MONOTONIC) {
		t->tv_sec  = (time_t)((ns - later) / UTIME_S);
		t->tv_nsec = (long)((ns - later) % UTIME_S);
	}
	return rc;
}

/* Deadlines for lengths, and lengths, if the system runs for so long. */
static void begun(utime_ns uptime)
{
	const utime_ns lengths[] = {
		50 * UTIME_MS, 3 * UTIME_US, 20 * UTIME_S, 6000 * UTIME_S,
		12345678 * UTIME_US, uptime + 300 * UTIME_US, UNEVER
	};
	int i;

	later = unow() - uptime;
	for (i = 0; i < (int)COUNT(lengths); i++)
		CHECK_THAT(uafter(lengths[i]), >, lengths[i] / 2 + uptime);
	lines(NULL);
	for (i = 0; i < 1000 && *said == 0; i++)
		CHECK_THAT(uafter(uafter(50 * UTIME_MS)), >=, 2 * uptime);
	lines("uafter: the length ", NULL);
	for (i = 0; i < 1000; i++)
		CHECK_THAT(uafter(uafter(50 * UTIME_MS)), >=, 2 * uptime);
	lines(NULL);
	later = 0;
}

static void begun_now(void *arg)
{
	begun(5 * UTIME_S);
}

static void begun_soon(void *arg)
{
	begun(3000 * UTIME_S);
}

/* A deadline for a length. */
static void deadline_of_deadline(void *arg)
{
	utime_ns length = 50 * UTIME_MS + 1;
	int i;

	CHECK(uafter(length) < uafter(UTIME_S) && uafter(UNEVER) == UNEVER);
	CHECK_IS(uafter(UNEVER - 1), UNEVER);
	CHECK_THAT(uafter(unow() / UTIME_S * UTIME_S + UTIME_S), >, unow());
	lines(NULL);
	for (i = 0; i < 3 || (i < 1000 && *said == 0); i++)
		CHECK_THAT(uafter((unow() + UTIME_S) | 1), >, unow() + UTIME_S);
	lines("uafter: the length ", NULL);
	CHECK(arg == NULL && *said == 0);
}

static void lengths(void)
{
	in_thread(begun_now);
	in_thread(begun_soon);
	in_thread(deadline_of_deadline);
	in_thread(sleeps);
	lines("u_sleep: the deadline 50000000 lies before the start of the "
	      "program. Is it a length? uafter(50 * UTIME_MS) is", "u_wait_until:"
	      " the deadline 7 lies", "uscope_begin: the deadline 3000000000 lies"
	      " before the start of the program. Is it a length? uafter(3 * "
	      "UTIME_S)", NULL);
	in_thread(sleeps_too);
	lines("uafter(2 * UTIME_US) is the deadline after that", NULL);
	in_thread(sleeps_too);
	lines(NULL);
	CHECK_IS(u_sleep(6), 0);	/* a native thread */
	lines("u_sleep: the deadline 6 lies", NULL);
}

static void sleeps_virtually(void *arg)
{
	CHECK_IS(u_sleep(5 * UTIME_S), 0);
	CHECK_IS(u_sleep(uafter(5 * UTIME_S)), 0);
}

static void virtually(void)
{
	utime_virtual(0);
	in_thread(sleeps_virtually);
	lines("uafter(5 * UTIME_S) is the deadline after that", NULL);
}

/* These end the program. */

static void leaves(void *arg)
{
	struct uscope *s;

	(void)!uscope_begin(&s, UNEVER);
}

static UNUSED void left(void)
{
	in_thread(leaves);
}

/* Another ends its scope before. */
static void leaves_blocked(void *arg)
{
	struct uscope *s;

	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	CHECK_IS(u_sleep(uafter(UTIME_MS)), 0);
	CHECK_IS(uscope_end(&s), 0);
	leaves(arg);
}

static UNUSED void left_later(void)
{
	in_thread(leaves_blocked);
}

static int none(void *arg)
{
	return arg != NULL;
}

/* A copy of the pointer: uscope_end() takes the other away. */
static void goes_in_ended(void *arg)
{
	struct uscope *s, *copy;

	CHECK_IS(uscope_begin(&s, UNEVER), 0);
	copy = s;
	CHECK_IS(uscope_end(&s), 0);
	(void)!uscope_go(copy, none, NULL);
}

static UNUSED void scope_ended(void)
{
	in_thread(goes_in_ended);
}

static void unlocks(void *arg)
{
	umutex_unlock(&mutex);
}

static UNUSED void not_locked(void)
{
	in_thread(unlocks);
}

static UNUSED void not_mine(void)
{
	CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
	in_thread(unlocks);
}

static void unlocks_rw(void *arg)
{
	urw_unlock(&rw);
}

static UNUSED void not_my_rw(void)
{
	CHECK_IS(urw_write(&rw, UNEVER), 0);
	in_thread(unlocks_rw);
}

static void sends(void *arg)
{
	struct uchan *c = uchan_make(4, 1);
	int v = 1;

	CHECK_IS(uchan_send(c, &v, UNOW), 0);
	uchan_free(c);
	(void)uchan_send(c, &v, UNOW);
}

static void receives(void *arg)
{
	struct uchan *c = uchan_make(4, 1);
	int v = 1;

	CHECK_IS(uchan_send(c, &v, UNOW), 0);
	uchan_free(c);
	(void)uchan_recv(c, &v, UNOW);
}

static void frees(void *arg)
{
	struct uchan *c = uchan_make(4, 1);

	uchan_free(c);
	uchan_free(c);
}

static UNUSED void sends_freed(void)	{ in_thread(sends); }
static UNUSED void receives_freed(void)	{ in_thread(receives); }
static UNUSED void frees_freed(void)	{ in_thread(frees); }

/* Objects that were freed many times leave no memory behind. */
static void many(void *arg)
{
	struct uthread *u;
	int i;

	for (i = 0; i < 10000; i++) {
		uchan_free(uchan_make(8, i % 300));
		CHECK_IS(uthread_make(&u, result, NULL, NULL), 0);
		CHECK_IS(uthread_join(u, NULL, UNEVER), 0);
	}
}

int main(int argc, char **argv)
{
	int failed = 0;

	check_start(argc, argv);
	check_forks();
	usched_on_message(hear);
	order();
	in_thread(joins);
#if !defined(USCHED_HARD)	/* where a late join ends the program */
	lines(" is not joinable", " was joined before", " was joined before",
	      " was joined before", " was joined before",
	      " was detached before", NULL);
#else
	lines(" is not joinable", " was detached before", NULL);
#endif
	in_thread(makes_that);
	lines(" joins itself", NULL);
	lengths();
	in_thread(many);
	lines(NULL);
	virtually();
	usched_on_message(NULL);
	check_quiet();			/* lines before an end come all the same */
#if !defined(USCHED_HARD)	/* which has its own texts: object */
	failed += check_dies("scope", left, "the thread has ended in a scope");
#if defined(__linux__) && defined(__ELF__)
	failed += check_dies("scope", left, ", leaves() has not ended its scope");
#endif
	failed += check_dies("scope", left_later, "has ended in a scope");
	failed += check_dies("ended", scope_ended, "uscope: the scope has ended "
			     "before");
	failed += check_dies("unlock", not_locked, "umutex_unlock: the caller "
			     "does not hold it: it is not locked");
	failed += check_dies("unlock", not_mine, "umutex_unlock: the caller "
			     "does not hold it, but another thread");
	failed += check_dies("rw", not_my_rw, "urw_unlock: the caller does not "
			     "hold the lock: another thread writes");
	failed += check_dies("send", sends_freed, "uchan: the channel was freed "
			     "before");
	failed += check_dies("recv", receives_freed, "uchan: the channel was "
			     "freed before");
	failed += check_dies("free", frees_freed, "uchan_free: the channel was "
			     "freed before");
#endif
	return failed != 0;
}
