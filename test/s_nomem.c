/* SPDX-License-Identifier: MIT */
/* s_nomem: whatever allocation or system call fails, an error is returned. */
/* VARIANTS: RR LL */
/* LIBS: -Wl,--wrap=malloc,--wrap=calloc,--wrap=posix_memalign,--wrap=free,--wrap=mmap,--wrap=munmap,--wrap=mprotect,--wrap=pthread_create,--wrap=pthread_mutex_init,--wrap=pthread_attr_init */

/*
 * The i-th fails, once, for all i until a run needs fewer; or the i-th and all
 * after it. The function that was called says so, nothing has changed, and it
 * may be called again; each thread that was made runs to its end. If a native
 * thread cannot be had, start() says so, and no thread has run. At the end all
 * memory has been given back.
 */
#include "either.h"
#include <sys/mman.h>

#define THREADS	90

static long calls, fails_at, fails_all, failures, nomem;
static long blocks, mapped;	/* that are held */

static bool fails(void)
{
	long nr = add(&calls, 1);
	bool yes = fails_at != 0 &&
		(nr == fails_at || (fails_all && nr > fails_at));

	if (yes)
		add(&failures, 1);
	return yes;
}

static void *counted(void *block)
{
	if (block == NULL)
		errno = ENOMEM;
	else
		add(&blocks, 1);
	return block;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
	return counted(fails() ? NULL : __real_malloc(size));
}

void *__real_calloc(size_t nr, size_t size);
void *__wrap_calloc(size_t nr, size_t size);
void *__wrap_calloc(size_t nr, size_t size)
{
	return counted(fails() ? NULL : __real_calloc(nr, size));
}

int __real_posix_memalign(void **out, size_t align, size_t size);
int __wrap_posix_memalign(void **out, size_t align, size_t size);
int __wrap_posix_memalign(void **out, size_t align, size_t size)
{
	int rc = fails() ? ENOMEM : __real_posix_memalign(out, align, size);

	if (rc == 0)
		add(&blocks, 1);
	return rc;
}

void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_free(void *block)
{
	if (block != NULL)
		add(&blocks, -1);
	__real_free(block);
}

void *__real_mmap(void *at, size_t nob, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t nob, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t nob, int prot, int flags, int fd, off_t off)
{
	void *map = MAP_FAILED;

	if (fails())
		errno = ENOMEM;
	else
		map = __real_mmap(at, nob, prot, flags, fd, off);
	if (map != MAP_FAILED)
		add(&mapped, (long)nob);
	return map;
}

int __real_munmap(void *at, size_t nob);
int __wrap_munmap(void *at, size_t nob);
int __wrap_munmap(void *at, size_t nob)
{
	int rc = __real_munmap(at, nob);

	CHECK(rc == 0);
	add(&mapped, -(long)nob);
	return rc;
}

/* There are hundreds, for lanes: few of them can fail, or we never end. */
int __real_mprotect(void *at, size_t nob, int prot);
int __wrap_mprotect(void *at, size_t nob, int prot);
int __wrap_mprotect(void *at, size_t nob, int prot)
{
	static long nr;

	if (nr++ % 50 != 0 || !fails())
		return __real_mprotect(at, nob, prot);
	errno = ENOMEM;
	return -1;
}

int __real_pthread_create(pthread_t *id, const pthread_attr_t *attr,
			  void *(*f)(void *), void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
			  void *(*f)(void *), void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
			  void *(*f)(void *), void *arg)
{
	return fails() ? EAGAIN : __real_pthread_create(id, attr, f, arg);
}

int __real_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *a);
int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *a);
int __wrap_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *a)
{
	return fails() ? ENOMEM : __real_pthread_mutex_init(m, a);
}

int __real_pthread_attr_init(pthread_attr_t *attr);
int __wrap_pthread_attr_init(pthread_attr_t *attr);
int __wrap_pthread_attr_init(pthread_attr_t *attr)
{
	return fails() ? ENOMEM : __real_pthread_attr_init(attr);
}

/* The threads: all try again what failed. */

static long ran, made;

static bool again(int rc)
{
	CHECK(rc == 0 || rc == -ENOMEM);
	if (rc != 0)
		add(&nomem, 1);
	return rc != 0 && !fails_all;
}

static void yields(void)
{
	while (again(SCHED(yield)()))
		;
}

static NOINLINE void deep(int nob, int tag)
{
	volatile char space[nob];
	int i;

	memset((char *)space, tag, (size_t)nob);
	for (i = 0; i < 3; i++) {
		yields();
		CHECK(space[0] == (char)tag && space[nob - 1] == (char)tag);
	}
}

/* Waits for the wake that its maker has given it. */
static void worker(void *arg)
{
	int i = (int)(intptr_t)arg;
	int rc;

	while (again(rc = SCHED(wait)()))
		;
	deep(10 + i % 10 * 300, i);
	if (i % 30 == 0)
		deep(70000, i);
	add(&ran, 1);
}

static void waits(int nr)
{
	int i;

	for (i = 0; i < nr; i++) {
		while (again(SCHED(wait)()))
			;
	}
}

static thread *wanted;

/* Its wakes come while the joiner is in join, and are kept. */
static void joined(void *arg)
{
	int i;

	for (i = 0; i < 3; i++) {
		yields();
		SCHED(wake)(arg);
	}
	add(&ran, 1);
}

static void joiner(void *arg)
{
	thread *t;
	int rc;

	(void)arg;
	while ((t = try_make_joinable(1, joined, SCHED(self)())) == NULL) {
		CHECK(errno == ENOMEM);
		if (fails_all)
			goto out;
	}
	add(&made, 1);
	while (again(rc = SCHED(join)(t)))
		;
	CHECK(rc == 0 || fails_all);
	if (rc != 0) {
		/* Without memory we could never let t run, which wakes us. */
		fails_at = 0;
		CHECK(SCHED(join)(t) == 0);
	}
	waits(3);
out:
	add(&ran, 1);
}

/* Returns NULL if it failed and is not to be tried again. */
static thread *make_some(int p, void (*f)(void *), void *arg)
{
	thread *t;

	do {
		long before = get(&failures);

		errno = 0;
		t = try_make(p, f, arg);
		CHECK(t != NULL || (errno == ENOMEM &&
				    get(&failures) > before));
	} while (t == NULL && !fails_all);
	if (t != NULL)
		add(&made, 1);
	return t;
}

static void mother(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < THREADS; i++) {
		thread *t = make_some(i, worker, (void *)(intptr_t)i);

		if (t != NULL)
			SCHED(wake)(t);
	}
	add(&ran, 1);
}

static bool started(int p)
{
	bool tried = false;
	int rc;

	for (;;) {
		rc = SCHED(start)();
		if (rc == 0)
			return true;
		CHECK(rc == -ENOMEM || rc == -EAGAIN);
		CHECK(get(&ran) == 0 && get(&failures) > 0);
		CHECK(p > 0);
		if (fails_all || tried)
			break;
		tried = true;
	}
	CHECK(fails_all);
	return false;
}

/* Returns whether anything failed. */
static bool scenario(int p, long at, bool all)
{
	long n;
	int rc;
	int i;

	ran = made = calls = failures = 0;
	fails_at = at;
	fails_all = all;
	while ((rc = SCHED(init)(p, 0)) != 0) {
		CHECK(rc == -ENOMEM && failures > 0);
		CHECK(blocks == 0 && mapped == 0);
		if (all)
			return true;
	}
	make_some(0, mother, NULL);
	make_some(0, joiner, NULL);
	for (i = 0; i < THREADS; i++) {
		wanted = make_some(i, worker, (void *)(intptr_t)i);
		if (wanted != NULL)
			SCHED(wake)(wanted);
	}
	n = made;
	if (started(p)) {
		finish();
		CHECK(ran == made);
	} else {
		CHECK(SCHED(fini)() == (n > 0 ? -EDEADLK : 0));
		CHECK(SCHED(stuck)() == n && ran == 0);
	}
	CHECK(blocks == 0 && mapped == 0);
	return failures > 0;
}

int main(int argc, char **argv)
{
	long at, last = 0;
	int p;

	check_start(argc, argv);
	for (p = 1; p <= 2; p++) {
		for (at = 1; scenario(p, at, false); at++)
			last = at;
		CHECK(last > 10);
		for (at = 1; at <= last; at += at < 60 ? 1 : 7)
			(void)scenario(p, at, true);
		(void)scenario(p, 0, false);
		CHECK(failures == 0);
	}
	CHECK(nomem > 0);
	return 0;
}
