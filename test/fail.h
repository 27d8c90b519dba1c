/* SPDX-License-Identifier: MIT */
/* fail.h: makes the n-th call to the system fail, and counts what is held. */

#ifndef FAIL_H
#define FAIL_H

/*
 * A test that includes this is linked with @test/fail.wrap, so that each call
 * that the library makes goes through here: the linker has made of f() a call
 * of __wrap_f(), which may call what was f() by the name of __real_f().
 *
 *	kind		functions			errors
 *	FAIL_MEMORY	malloc, calloc, posix_memalign	ENOMEM
 *	FAIL_MMAP	mmap				ENOMEM
 *	FAIL_MADVISE	madvise				EINVAL ENOMEM EAGAIN
 *	FAIL_MPROTECT	mprotect			ENOMEM
 *	FAIL_THREAD	pthread_create			EAGAIN
 *	FAIL_INIT	pthread_mutex_init, _attr_init,
 *			_attr_setstacksize		ENOMEM
 *	FAIL_CPU	sched_getaffinity, _setaffinity	EINVAL EPERM
 *	FAIL_CLOCK	clock_gettime, and the time	EINVAL EPERM
 *			is any
 *	FAIL_SLEEP	futex wait, timed wait for	EINTR EAGAIN ENOSYS,
 *			a condition			or 0 at once
 *	FAIL_WAKE	futex wake, broadcast		ENOSYS EPERM
 *
 * free(), munmap() and the like never fail. A futex wake has no error that a
 * correct program can meet, but for a filter of system calls, and then those
 * who sleep do not sleep either. So while wakes may fail, a sleep ends by
 * itself after a while: what is tested is that nothing but the sleep was lost.
 *
 * What is held (blocks, mappings, native threads, mutexes, attributes) is
 * noted: fail_clean() is for the moment when it should be nothing. What is freed must
 * be held, and with that size. So what comes from realloc() or the like, which
 * the library does not call, would be found by its free().
 *
 * With FAIL_MAPS, only mmap() and its like are wrapped: the test's LIBS name
 * them. That is for tests that are also linked with a static libc, whose own
 * calls would be taken for those of the library.
 *
 * In the hard mode malloc() and calloc() neither fail nor count: uhard.c uses
 * them for what cannot be refused.
 */

#include "check.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <time.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

enum {
	FAIL_MEMORY   = 1 << 0,
	FAIL_MMAP     = 1 << 1,
	FAIL_MADVISE  = 1 << 2,
	FAIL_MPROTECT = 1 << 3,
	FAIL_THREAD   = 1 << 4,
	FAIL_INIT     = 1 << 5,
	FAIL_CPU      = 1 << 6,
	FAIL_CLOCK    = 1 << 7,
	FAIL_SLEEP    = 1 << 8,
	FAIL_WAKE     = 1 << 9,
	FAIL_KINDS    = 10,
	FAIL_ALL      = (1 << FAIL_KINDS) - 1,
	/* Those that nobody is told of: all goes on, if slower. */
	FAIL_HARMLESS = FAIL_MADVISE | FAIL_CPU | FAIL_CLOCK | FAIL_SLEEP |
			FAIL_WAKE
};

/* Which call fails. Changed while other threads run: atomic. */
static struct {
	unsigned f_kinds;		/* that may fail; 0: none */
	long     f_at;			/* the number of the call to fail */
	bool     f_all;			/* so do all after it */
	long     f_calls;		/* of these kinds */
	long     f_mprotects;
	long     f_failed;		/* calls that did fail */
	long     f_told;		/* not counting the harmless ones */
} fail;

/*
 * The test may say that of the calls of mprotect() only each so many counts:
 * schedulers make one for each of hundreds of lanes. u_fail tries all.
 */
static long fail_sample = 1;

/*
 * Calls between ++ and -- do not fail; those of mmap() and munmap() are not
 * noted. Volatile: compilers think that free() looks at no variable.
 */
static __thread volatile int fail_exempt;

/* From now on, the at-th call of these kinds. */
static UNUSED void fail_arm(unsigned kinds, long at, bool all)
{
	snprintf(check_doing, sizeof check_doing, "kinds %#x call %ld %s ",
		 kinds, at, all ? "and on" : "once");
	fail.f_at     = at;
	fail.f_all    = all;
	fail.f_calls  = fail.f_mprotects = fail.f_failed = fail.f_told = 0;
	__atomic_store_n(&fail.f_kinds, kinds, __ATOMIC_RELEASE);
}

/* From now on none fails. */
static UNUSED void fail_rest(void)
{
	__atomic_store_n(&fail.f_kinds, 0, __ATOMIC_RELEASE);
}

static UNUSED long fail_failed(void)
{
	return __atomic_load_n(&fail.f_failed, __ATOMIC_SEQ_CST);
}

/* Those that somebody has to be told of. */
static UNUSED long fail_told(void)
{
	return __atomic_load_n(&fail.f_told, __ATOMIC_SEQ_CST);
}

static UNUSED bool fail_now(unsigned kind)
{
	bool counts;
	long nr;

	if (fail_exempt ||
	    !(__atomic_load_n(&fail.f_kinds, __ATOMIC_ACQUIRE) & kind))
		return false;
	counts = kind != FAIL_MPROTECT ||
		__atomic_fetch_add(&fail.f_mprotects, 1, __ATOMIC_RELAXED) %
		fail_sample == 0;
	nr = __atomic_add_fetch(&fail.f_calls, counts, __ATOMIC_SEQ_CST);
	if (!(counts && nr == fail.f_at) && !(fail.f_all && nr >= fail.f_at))
		return false;
	if (!(kind & FAIL_HARMLESS))
		__atomic_add_fetch(&fail.f_told, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&fail.f_failed, 1, __ATOMIC_SEQ_CST);
	return true;
}

/* Some error of these. */
#define FAIL_ANY(...)							\
	(((const int[]){ __VA_ARGS__ })[fail_failed() %			\
		COUNT(((const int[]){ __VA_ARGS__ }))])

/* What is held. */

#define FAIL_HELD	8192

static struct {
	const void *h_at;
	size_t      h_size;
} fail_held[FAIL_HELD];
static int  fail_held_nr;
static int  fail_lock;
static long fail_natives, fail_mutexes, fail_attrs;

static void fail_enter(void)
{
	while (__atomic_exchange_n(&fail_lock, 1, __ATOMIC_ACQUIRE) != 0)
		check_yield();
}

static void fail_leave(void)
{
	__atomic_store_n(&fail_lock, 0, __ATOMIC_RELEASE);
}

static void *fail_hold(void *at, size_t size)
{
	fail_enter();
	CHECK(fail_held_nr < FAIL_HELD);
	fail_held[fail_held_nr].h_at = at;
	fail_held[fail_held_nr++].h_size = size;
	fail_leave();
	return at;
}

static void fail_drop(const void *at, size_t size)
{
	int i;

	fail_enter();
	for (i = fail_held_nr; i-- > 0 && fail_held[i].h_at != at; )
		;
	CHECK(i >= 0 && "freed twice, or never had");
	CHECK(size == 0 || fail_held[i].h_size == size);
	fail_held[i] = fail_held[--fail_held_nr];
	fail_leave();
}

static UNUSED int fail_holds(void)
{
	return __atomic_load_n(&fail_held_nr, __ATOMIC_SEQ_CST);
}

static UNUSED void fail_clean(void)
{
	CHECK(fail_holds() == 0);
	CHECK(fail_natives == 0 && fail_mutexes == 0 && fail_attrs == 0);
}

/*
 * Calls run(p) with the n-th call failing, for each n until no call is left to
 * fail: in two runs, for there may be fewer of them in one than in the next. Of
 * the harmless kinds, which a thread that seeks work calls all the time, it
 * leaves out some: n grows by a 32nd. It returns the number of runs.
 */
static UNUSED long fail_each(unsigned kinds, bool all, void (*run)(int p),
			     int p)
{
	int whole = 0;
	long runs = 0;
	long at;

	for (at = 1; whole < 2;
	     at += kinds & FAIL_HARMLESS ? 1 + at / 32 : 1, runs++) {
		fail_arm(kinds, at, all);
		run(p);
		fail_rest();
		fail_clean();
		whole = fail_failed() == 0 ? whole + 1 : 0;
	}
	return runs;
}

/* The same for each kind alone, then for all together. */
static UNUSED void fail_all(void (*run)(int p), int p)
{
	int kind, all;

	for (all = 0; all < 2; all++) {
		for (kind = 0; kind < FAIL_KINDS; kind++)
			(void)fail_each(1u << kind, all, run, p);
		CHECK(fail_each(FAIL_ALL, all, run, p) > 10);
	}
}

/* The calls. Used: the linker asks for them when the compiler has forgotten. */

#define FAIL_WRAP(type, name, ...)					\
	type __real_##name(__VA_ARGS__);				\
	type __wrap_##name(__VA_ARGS__);				\
	__attribute__((used)) type __wrap_##name(__VA_ARGS__)

FAIL_WRAP(void *, mmap, void *at, size_t nob, int prot, int flags, int fd,
	  off_t off)
{
	void *map = MAP_FAILED;

	if (fail_now(FAIL_MMAP))
		errno = ENOMEM;
	else
		map = __real_mmap(at, nob, prot, flags, fd, off);
	return map != MAP_FAILED && !fail_exempt ? fail_hold(map, nob) : map;
}

FAIL_WRAP(int, munmap, void *at, size_t nob)
{
	CHECK(nob != 0);
	if (!fail_exempt)
		fail_drop(at, nob);
	CHECK(__real_munmap(at, nob) == 0);
	return 0;
}

static int fail_errno(int error)
{
	errno = error;
	return -1;
}

FAIL_WRAP(int, madvise, void *at, size_t nob, int advice)
{
	if (fail_now(FAIL_MADVISE))
		return fail_errno(FAIL_ANY(EINVAL, ENOMEM, EAGAIN));
	return __real_madvise(at, nob, advice);
}

FAIL_WRAP(int, mprotect, void *at, size_t nob, int prot)
{
	if (fail_now(FAIL_MPROTECT))
		return fail_errno(ENOMEM);
	return __real_mprotect(at, nob, prot);
}

#if !defined(FAIL_MAPS)

static bool fail_malloc(void)
{
#if defined(USCHED_HARD)
	return false;
#else
	return fail_now(FAIL_MEMORY);
#endif
}

static void *fail_block(void *block, size_t size)
{
	if (block == NULL)
		errno = ENOMEM;
#if !defined(USCHED_HARD)
	else
		fail_hold(block, size);
#endif
	(void)size;
	return block;
}

FAIL_WRAP(void *, malloc, size_t size)
{
	return fail_block(fail_malloc() ? NULL : __real_malloc(size), size);
}

FAIL_WRAP(void *, calloc, size_t nr, size_t size)
{
	return fail_block(fail_malloc() ? NULL : __real_calloc(nr, size),
			  nr * size);
}

FAIL_WRAP(int, posix_memalign, void **out, size_t align, size_t size)
{
	int rc = fail_now(FAIL_MEMORY) ? ENOMEM :
		__real_posix_memalign(out, align, size);

	if (rc == 0)
		fail_hold(*out, size);
	return rc;
}

static bool fail_foreign(const void *block)
{
#if defined(USCHED_HARD)
	bool ours = false;
	int i;

	fail_enter();
	for (i = 0; i < fail_held_nr; i++)
		ours |= fail_held[i].h_at == block;
	fail_leave();
	return !ours;
#else
	return block == NULL;
#endif
}

/* Not held any more before another can be given the same. */
FAIL_WRAP(void, free, void *block)
{
	if (!fail_foreign(block))
		fail_drop(block, 0);
	__real_free(block);
}

static void fail_count(long *what, long nr)
{
	CHECK(__atomic_add_fetch(what, nr, __ATOMIC_SEQ_CST) >= 0);
}

FAIL_WRAP(int, pthread_create, pthread_t *id, const pthread_attr_t *attr,
	  void *(*f)(void *), void *arg)
{
	int rc = fail_now(FAIL_THREAD) ? EAGAIN :
		__real_pthread_create(id, attr, f, arg);

	if (rc == 0)
		fail_count(&fail_natives, 1);
	return rc;
}

FAIL_WRAP(int, pthread_join, pthread_t id, void **result)
{
	int rc = __real_pthread_join(id, result);

	if (rc == 0)
		fail_count(&fail_natives, -1);
	return rc;
}

FAIL_WRAP(int, pthread_mutex_init, pthread_mutex_t *m,
	  const pthread_mutexattr_t *attr)
{
	if (fail_now(FAIL_INIT))
		return ENOMEM;
	fail_count(&fail_mutexes, 1);
	return __real_pthread_mutex_init(m, attr);
}

FAIL_WRAP(int, pthread_mutex_destroy, pthread_mutex_t *m)
{
	fail_count(&fail_mutexes, -1);
	CHECK(__real_pthread_mutex_destroy(m) == 0);
	return 0;
}

FAIL_WRAP(int, pthread_attr_init, pthread_attr_t *attr)
{
	if (fail_now(FAIL_INIT))
		return ENOMEM;
	fail_count(&fail_attrs, 1);
	return __real_pthread_attr_init(attr);
}

FAIL_WRAP(int, pthread_attr_setstacksize, pthread_attr_t *attr, size_t size)
{
	if (fail_now(FAIL_INIT))
		return EINVAL;
	return __real_pthread_attr_setstacksize(attr, size);
}

FAIL_WRAP(int, pthread_attr_destroy, pthread_attr_t *attr)
{
	fail_count(&fail_attrs, -1);
	return __real_pthread_attr_destroy(attr);
}

#define FAIL_A_YEAR	(1 << 25)	/* s */
#define FAIL_A_WHILE	200000		/* ns */

FAIL_WRAP(int, clock_gettime, clockid_t clock, struct timespec *now)
{
	int rc = __real_clock_gettime(clock, now);

	if (!fail_now(FAIL_CLOCK))
		return rc;
	check_yield();			/* who asked may ask again */
	now->tv_sec += FAIL_A_YEAR;
	return fail_errno(FAIL_ANY(EINVAL, EPERM));
}

static bool fail_wakes_fail(void)
{
	return __atomic_load_n(&fail.f_kinds, __ATOMIC_RELAXED) & FAIL_WAKE;
}

/* Whoever sleeps here looks again soon: a signal can come too early. */
FAIL_WRAP(int, pthread_cond_timedwait, pthread_cond_t *cond, pthread_mutex_t *m,
	  const struct timespec *until)
{
	struct timespec now;

	CHECK(__real_clock_gettime(CLOCK_REALTIME, &now) == 0);
	CHECK(until->tv_sec - now.tv_sec < WATCHDOG && "a wait without an end");
	if (!fail_now(FAIL_SLEEP))
		return __real_pthread_cond_timedwait(cond, m, until);
	check_yield();
	return FAIL_ANY(0, ETIMEDOUT, EINVAL);
}

FAIL_WRAP(int, pthread_cond_broadcast, pthread_cond_t *cond)
{
	if (fail_now(FAIL_WAKE))
		return EINVAL;
	return __real_pthread_cond_broadcast(cond);
}

#if defined(__linux__)
FAIL_WRAP(int, sched_getaffinity, pid_t pid, size_t nob, cpu_set_t *may)
{
	if (fail_now(FAIL_CPU))
		return fail_errno(FAIL_ANY(EINVAL, EPERM));
	return __real_sched_getaffinity(pid, nob, may);
}

FAIL_WRAP(int, sched_setaffinity, pid_t pid, size_t nob, const cpu_set_t *may)
{
	if (fail_now(FAIL_CPU))
		return fail_errno(FAIL_ANY(EINVAL, EPERM));
	return __real_sched_setaffinity(pid, nob, may);
}

enum { FAIL_FUTEX_WAIT = 0, FAIL_FUTEX_WAKE = 1, FAIL_FUTEX_OP = 127 };

FAIL_WRAP(long, syscall, long nr, ...)
{
	struct { long s, ns; } soon = { 0, FAIL_A_WHILE };
	long a[6];
	va_list list;
	int i, error;

	va_start(list, nr);
	for (i = 0; i < COUNT(a); i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (nr == SYS_futex && (a[1] & FAIL_FUTEX_OP) == FAIL_FUTEX_WAIT) {
		if (fail_now(FAIL_SLEEP)) {
			check_yield();
			error = FAIL_ANY(0, EINTR, EAGAIN, ENOSYS);
			return error != 0 ? fail_errno(error) : 0;
		}
		if (fail_wakes_fail() && (a[3] == 0 || ((long *)a[3])[1] >
					  FAIL_A_WHILE))
			a[3] = (long)&soon;
	}
	if (nr == SYS_futex && (a[1] & FAIL_FUTEX_OP) == FAIL_FUTEX_WAKE &&
	    fail_now(FAIL_WAKE))
		return fail_errno(FAIL_ANY(ENOSYS, EPERM));
	return __real_syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}
#endif /* __linux__ */

#endif /* FAIL_MAPS */

#endif /* FAIL_H */
