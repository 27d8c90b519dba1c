/* SPDX-License-Identifier: MIT */
/* fail.h: makes the n-th call to the system fail, and counts resources. */

#ifndef FAIL_H
#define FAIL_H

/*
 * A test that includes this is linked with @test/run/fail.wrap, so that each call
 * that the library makes goes through here. The linker turns a call of f() into
 * a call of __wrap_f(), which may call the real f() as __real_f().
 *
 *	kind		functions			errors
 *	FAIL_MEMORY	malloc, calloc, realloc,
 *			posix_memalign			ENOMEM
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
 * free(), munmap() and the like never fail, nor does mprotect() where a lane that
 * was shut is opened: that takes neither memory nor a mapping (core/law.h). A
 * futex wake has no error that a correct program can meet, unless a filter of
 * system calls refuses it; then it refuses sleeps as well. So while wakes may
 * fail, a sleep ends by itself after a while. The tests show that nothing else is
 * lost.
 *
 * Resources (blocks, mappings, native threads, mutexes, attributes) are noted,
 * and fail_clean() checks that none is left. A block that is freed must have
 * been noted, a mapping with the same size. So memory from strdup() or the
 * like, which the library does not call, would fail at free().
 *
 * With FAIL_MAPS, only mmap() and its like are wrapped; LIBS in the test names
 * them. This is for tests that are linked with a static libc, too, whose own
 * calls would be taken for calls of the library.
 *
 * In the hard mode malloc() and calloc() neither fail nor count, because
 * uhard.c uses them where it cannot report an error.
 */

#include "check.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <time.h>
#if defined(__linux__) && !defined(FAIL_MAPS)
#include "system_call.h"
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
	/* No caller sees these fail: all goes on, perhaps more slowly. */
	FAIL_HARMLESS = FAIL_MADVISE | FAIL_CPU | FAIL_CLOCK | FAIL_SLEEP |
			FAIL_WAKE
};

/* The call that fails. Set while other threads run, so atomic. */
static struct {
	unsigned f_kinds;		/* kinds that may fail; 0: none */
	long     f_at;			/* the number of the call to fail */
	bool     f_all;			/* all later calls fail, too */
	long     f_calls;		/* calls of these kinds */
	long     f_mprotects;
	long     f_failed;		/* calls that did fail */
	long     f_told;		/* not counting harmless calls */
} fail;

/*
 * Of the calls of mprotect() one in this many counts. Schedulers call it for
 * each of hundreds of lanes, so the test may set this; core_fail tries all calls.
 */
static long fail_sample = 1;

/* Native threads that wake others by a descriptor write so many us too late. */
static UNUSED unsigned fail_late;

/*
 * While this is not 0, calls do not fail, and mmap() and munmap() are not
 * noted. Volatile, because compilers assume that free() reads no variable.
 */
static __thread volatile int fail_exempt;

/* From now on, the at-th call of these kinds fails. */
static UNUSED void fail_arm(unsigned kinds, long at, bool all)
{
	doing("kinds %#x call %ld %s", kinds, at, all ? "and on" : "once");
	fail.f_at     = at;
	fail.f_all    = all;
	fail.f_calls  = fail.f_mprotects = fail.f_failed = fail.f_told = 0;
	__atomic_store_n(&fail.f_kinds, kinds, __ATOMIC_RELEASE);
}

/* From now on no call fails. */
static UNUSED void fail_rest(void)
{
	__atomic_store_n(&fail.f_kinds, 0, __ATOMIC_RELEASE);
}

static UNUSED long fail_failed(void)
{
	return __atomic_load_n(&fail.f_failed, __ATOMIC_SEQ_CST);
}

/* Returns how many failed calls must have been reported to a caller. */
static UNUSED long fail_told(void)
{
	return __atomic_load_n(&fail.f_told, __ATOMIC_SEQ_CST);
}

/* Called before a call that has failed is repeated. */
static UNUSED void fail_repeat(void)
{
	CHECK_THAT(fail_told(), >, 0);
	if (fail.f_all)
		fail_rest();
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

/* Any of these errors. */
#define FAIL_ANY(...)							\
	(((const int[]){ __VA_ARGS__ })[fail_failed() %			\
		COUNT(((const int[]){ __VA_ARGS__ }))])

/* Resources. */

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
	CHECK_THAT(fail_held_nr, <, FAIL_HELD);
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
	CHECK_IS(fail_holds(), 0);
	CHECK(fail_natives == 0 && fail_mutexes == 0 && fail_attrs == 0);
}

/*
 * Calls run(p) with the n-th call failing, for n = 1, 2, ..., until two runs
 * had no call left to fail; two, since a run may make fewer calls than the
 * next. Threads that seek work make harmless calls all the time, so of these
 * some are left out: n grows by a 32nd. Returns the number of runs.
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

/* Calls fail_each() for each kind alone, then for all kinds together. */
static UNUSED void fail_all(void (*run)(int p), int p)
{
	int kind, all;

	for (all = 0; all < 2; all++) {
		for (kind = 0; kind < FAIL_KINDS; kind++)
			(void)fail_each(1u << kind, all, run, p);
		CHECK_THAT(fail_each(FAIL_ALL, all, run, p), >, 10);
	}
}

/* The calls. */

WRAP(void *, mmap, void *at, size_t nob, int prot, int flags, int fd,
	  off_t off)
{
	void *map = MAP_FAILED;

	if (fail_now(FAIL_MMAP))
		errno = ENOMEM;
	else
		map = __real_mmap(at, nob, prot, flags, fd, off);
	return map != MAP_FAILED && !fail_exempt ? fail_hold(map, nob) : map;
}

WRAP(int, munmap, void *at, size_t nob)
{
	CHECK(nob != 0);
	if (!fail_exempt)
		fail_drop(at, nob);
	CHECK_IS(__real_munmap(at, nob), 0);
	return 0;
}

static int fail_errno(int error)
{
	errno = error;
	return -1;
}

WRAP(int, madvise, void *at, size_t nob, int advice)
{
	if (fail_now(FAIL_MADVISE))
		return fail_errno(FAIL_ANY(EINVAL, ENOMEM, EAGAIN));
	return __real_madvise(at, nob, advice);
}

WRAP(int, mprotect, void *at, size_t nob, int prot)
{
	if (prot != (PROT_READ | PROT_WRITE) && fail_now(FAIL_MPROTECT))
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
	return block;
}

WRAP(void *, malloc, size_t size)
{
	return fail_block(fail_malloc() ? NULL : __real_malloc(size), size);
}

WRAP(void *, calloc, size_t nr, size_t size)
{
	return fail_block(fail_malloc() ? NULL : __real_calloc(nr, size),
			  nr * size);
}

WRAP(int, posix_memalign, void **out, size_t align, size_t size)
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

/* Dropped before another thread can be given the same block. */
WRAP(void, free, void *block)
{
	if (!fail_foreign(block))
		fail_drop(block, 0);
	__real_free(block);
}

#if !defined(USCHED_HARD)
static size_t fail_size(const void *block)
{
	size_t size = 0;
	int i;

	fail_enter();
	for (i = 0; i < fail_held_nr; i++)
		if (fail_held[i].h_at == block)
			size = fail_held[i].h_size;
	fail_leave();
	return size;
}

/* Always moves the block. */
WRAP(void *, realloc, void *block, size_t size)
{
	void *moved = __wrap_malloc(size);
	size_t had = fail_size(block);

	if (moved == NULL || block == NULL)
		return moved;
	memcpy(moved, block, had < size ? had : size);
	__wrap_free(block);
	return moved;
}
#else
WRAP(void *, realloc, void *block, size_t size)
{
	return __real_realloc(block, size);
}
#endif

static void fail_count(long *what, long nr)
{
	CHECK_THAT(__atomic_add_fetch(what, nr, __ATOMIC_SEQ_CST), >=, 0);
}

WRAP(int, pthread_create, pthread_t *id, const pthread_attr_t *attr,
	  void *(*f)(void *), void *arg)
{
	int rc = fail_now(FAIL_THREAD) ? EAGAIN :
		__real_pthread_create(id, attr, f, arg);

	if (rc == 0)
		fail_count(&fail_natives, 1);
	return rc;
}

WRAP(int, pthread_join, pthread_t id, void **result)
{
	int rc = __real_pthread_join(id, result);

	if (rc == 0)
		fail_count(&fail_natives, -1);
	return rc;
}

WRAP(int, pthread_mutex_init, pthread_mutex_t *m,
	  const pthread_mutexattr_t *attr)
{
	if (fail_now(FAIL_INIT))
		return ENOMEM;
	fail_count(&fail_mutexes, 1);
	return __real_pthread_mutex_init(m, attr);
}

WRAP(int, pthread_mutex_destroy, pthread_mutex_t *m)
{
	fail_count(&fail_mutexes, -1);
	CHECK_IS(__real_pthread_mutex_destroy(m), 0);
	return 0;
}

WRAP(int, pthread_attr_init, pthread_attr_t *attr)
{
	if (fail_now(FAIL_INIT))
		return ENOMEM;
	fail_count(&fail_attrs, 1);
	return __real_pthread_attr_init(attr);
}

WRAP(int, pthread_attr_setstacksize, pthread_attr_t *attr, size_t size)
{
	if (fail_now(FAIL_INIT))
		return EINVAL;
	return __real_pthread_attr_setstacksize(attr, size);
}

WRAP(int, pthread_attr_destroy, pthread_attr_t *attr)
{
	fail_count(&fail_attrs, -1);
	return __real_pthread_attr_destroy(attr);
}

#define FAIL_A_YEAR	(1 << 25)	/* s */
#define FAIL_A_WHILE	200000		/* ns */

WRAP(int, clock_gettime, clockid_t clock, struct timespec *now)
{
	int rc = __real_clock_gettime(clock, now);

	if (!fail_now(FAIL_CLOCK))
		return rc;
	check_yield();			/* the caller may loop */
	now->tv_sec += FAIL_A_YEAR;
	return fail_errno(FAIL_ANY(EINVAL, EPERM));
}

static inline bool fail_wakes_fail(void)
{
	return __atomic_load_n(&fail.f_kinds, __ATOMIC_RELAXED) & FAIL_WAKE;
}

/* Checks that the wait is limited: a signal may come before the sleep. */
WRAP(int, pthread_cond_timedwait, pthread_cond_t *cond, pthread_mutex_t *m,
	  const struct timespec *until)
{
	struct timespec now;

	CHECK_IS(__real_clock_gettime(CLOCK_REALTIME, &now), 0);
	CHECK(until->tv_sec - now.tv_sec < WATCHDOG && "a wait without an end");
	if (!fail_now(FAIL_SLEEP))
		return __real_pthread_cond_timedwait(cond, m, until);
	check_yield();
	return FAIL_ANY(0, ETIMEDOUT, EINVAL);
}

WRAP(int, pthread_cond_broadcast, pthread_cond_t *cond)
{
	if (fail_now(FAIL_WAKE))
		return EINVAL;
	return __real_pthread_cond_broadcast(cond);
}

#if defined(__linux__)
WRAP(int, sched_getaffinity, pid_t pid, size_t nob, cpu_set_t *may)
{
	if (fail_now(FAIL_CPU))
		return fail_errno(FAIL_ANY(EINVAL, EPERM));
	return __real_sched_getaffinity(pid, nob, may);
}

WRAP(int, sched_setaffinity, pid_t pid, size_t nob, const cpu_set_t *may)
{
	if (fail_now(FAIL_CPU))
		return fail_errno(FAIL_ANY(EINVAL, EPERM));
	return __real_sched_setaffinity(pid, nob, may);
}

static long system_call(long nr, long a[6])
{
	static struct { long s, ns; } soon = { 0, FAIL_A_WHILE };
	int error;
	long rc;

	if (is_futex(nr, a, SYSTEM_WAIT)) {
		if (fail_now(FAIL_SLEEP)) {
			check_yield();
			error = FAIL_ANY(0, EINTR, EAGAIN, ENOSYS);
			return error != 0 ? fail_errno(error) : 0;
		}
		if (fail_wakes_fail() && (a[3] == 0 || ((long *)a[3])[1] >
					  FAIL_A_WHILE))
			a[3] = (long)&soon;
	}
	if (is_futex(nr, a, SYSTEM_WAKE) && fail_now(FAIL_WAKE))
		return fail_errno(FAIL_ANY(ENOSYS, EPERM));
	if (nr == SYS_write && fail_late > 0)
		usleep(fail_late);
	rc = really_call(nr, a);
	CHECK(nr != SYS_write || rc >= 0 || errno != EBADF);	/* park.h */
	return rc;
}
#endif /* __linux__ */

#endif /* FAIL_MAPS */

#endif /* FAIL_H */
