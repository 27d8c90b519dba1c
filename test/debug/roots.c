/* SPDX-License-Identifier: MIT */
/* VARIANTS: once */
/*
 * roots: at whatever instruction the native threads of rr, ll and ws are stopped, each
 * word that a thread holds is in what uroots_each() gives, or above a stack pointer:
 * whether the thread runs, waits, begins, moves, generates, or has sent the word. Of
 * plain dispatchers uroots_of() gives it. STOPS says how often all are stopped.
 */
#include "held.h"
#include "tiny.h"
#include "ugen.h"
#include "umain.h"
#include "uchan.h"
#include "uroots.h"
#include "uslice.h"
#include "usync.h"
#include "uthread.h"
#include "uwork.h"

#include <pthread.h>

#define NATIVES	64
#define DEPTH	12		/* frames */

static struct native {
	pthread_t   n_id;
	const char *n_bottom, *n_sp;
	int         n_used;	/* (atomic) */
} native[NATIVES];
static __thread struct native *mine;

static struct uchan *ring, *direct;
static struct umutex mutex;
static unsigned key;
static int alive, ending, stopped, stopping;	/* atomic */

/* The collector: native threads are stopped by a signal. */

static void handler(int sig)
{
	const struct timespec nap = { 0, 20000 };
	int error = errno;

	mine->n_sp = __builtin_frame_address(0);
	__atomic_add_fetch(&stopped, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&stopping, __ATOMIC_ACQUIRE))
		(void)nanosleep(&nap, NULL);
	__atomic_sub_fetch(&stopped, 1, __ATOMIC_RELEASE);
	errno = error;
}

/* A native thread that ends meanwhile would get no signal: it takes the lock. */
static pthread_mutex_t natives_lock = PTHREAD_MUTEX_INITIALIZER;

static const void *begin(void)
{
	pthread_attr_t attr;
	size_t size;
	void *low;
	int i;

	CHECK(pthread_getattr_np(pthread_self(), &attr) == 0);
	CHECK(pthread_attr_getstack(&attr, &low, &size) == 0);
	CHECK(pthread_attr_destroy(&attr) == 0);
	pthread_mutex_lock(&natives_lock);
	for (i = 0; native[i].n_used; i++)
		CHECK(i < NATIVES - 1);
	mine = &native[i];
	mine->n_id     = pthread_self();
	mine->n_bottom = (char *)low + size;
	mine->n_used   = 1;
	pthread_mutex_unlock(&natives_lock);
	return mine->n_bottom;
}

static void end(void)
{
	pthread_mutex_lock(&natives_lock);
	mine->n_used = 0;
	pthread_mutex_unlock(&natives_lock);
}

static void natives_stop(void)
{
	int i, nr = 0;

	__atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
	for (i = 0; i < NATIVES; i++) {
		if (!native[i].n_used)
			continue;
		CHECK(pthread_kill(native[i].n_id, SIGUSR1) == 0);
		nr++;
	}
	while (__atomic_load_n(&stopped, __ATOMIC_ACQUIRE) != nr)
		(void)sched_yield();
}

static void look(void)
{
	const void *bottom;
	const char *lost;
	int i;

	look_begin();
	for (i = 0; i < NATIVES; i++) {
		if (!native[i].n_used)
			continue;
		bottom = uroots_bottom(native[i].n_sp);
		scan(NULL, native[i].n_sp, bottom != NULL ? bottom : native[i].n_bottom);
	}
	uroots_each(scan, NULL);
	lost = look_end();
	if (lost != NULL)
		fprintf(stderr, "lost: %s\n", lost);
	CHECK(lost == NULL);
}

static void *collector(void *stops)
{
	uintptr_t state = 88172645463325252u;
	long i;

	for (i = *(long *)stops; i > 0; i--) {
		const struct timespec nap = { 0, (long)(draw(&state) >> 8) % 200000 };

		(void)nanosleep(&nap, NULL);
		pthread_mutex_lock(&natives_lock);
		uroots_hold();
		natives_stop();
		look();
		__atomic_store_n(&stopping, 0, __ATOMIC_RELEASE);
		while (__atomic_load_n(&stopped, __ATOMIC_ACQUIRE) != 0)
			(void)sched_yield();
		uroots_release();
		pthread_mutex_unlock(&natives_lock);
	}
	__atomic_store_n(&ending, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* Threads. */

static bool goes_on(void)
{
	return !__atomic_load_n(&ending, __ATOMIC_RELAXED);
}

static void generate(void *arg)
{
	uintptr_t state = (uintptr_t)arg, v;
	int i;

	v = hold(&state, &i, "by a generator");
	while (ugen_yield(&state) == 0)
		KEEP(v);
	let_go(v);
}

static void consume(uintptr_t *state)
{
	int turns = 5, i;
	uintptr_t v = hold(state, &i, "by a consumer");
	struct ugen *g = ugen_make(generate, (void *)(draw(state) | 1), sizeof v);

	CHECK(g != NULL);
	while (turns-- > 0) {
		CHECK(ugen_next(g) != NULL);
		KEEP(v);
		if (turns % 2)
			CHECK(u_sleep(UNOW) == 0);
	}
	CHECK(ugen_free(g) == 0);
	let_go(v);
}

static void wait_somehow(uintptr_t *state)
{
	switch ((draw(state) >> 20) % 16) {
	case 0:
		CHECK(u_sleep(uafter((utime_ns)(draw(state) >> 8) % UTIME_MS)) == 0);
		break;
	case 1:
		CHECK(umutex_lock(&mutex, UNEVER) == 0);
		CHECK(u_sleep(UNOW) == 0);
		umutex_unlock(&mutex);
		break;
	case 2:
		consume(state);
		break;
	default:
		CHECK(u_sleep(UNOW) == 0);
	}
}

/* Waits at a depth of its own, with a word in each frame. */
static NOINLINE void deep(uintptr_t *state, int depth)
{
	char room[(draw(state) >> 30) % 256 + 1];
	int i;
	uintptr_t v = hold(state, &i, "in a frame");

	KEEP(v);
	memset(room, 0, sizeof room);
	__asm__ volatile("" : : "r"(room) : "memory");
	wait_somehow(state);
	KEEP(v);
	if (depth > 0 && (draw(state) >> 40) % 8 != 0)
		deep(state, depth - 1);
	wait_somehow(state);
	let_go(v);
}

static void ends(void)
{
	__atomic_sub_fetch(&alive, 1, __ATOMIC_RELAXED);
}

static void go(void (*f)(void *), uintptr_t *state, const char *how)
{
	uintptr_t v;
	int i;

	__atomic_add_fetch(&alive, 1, __ATOMIC_RELAXED);
	v = hold(state, &i, how);
	CHECK(usched_go(f, (void *)v) == 0);
}

/* What the next thread has, only its argument holds. */
static void shared(void *arg);
static void own(void *arg);

static void live(uintptr_t v)
{
	uintptr_t state = v | 1;
	int turns = 4;

	let_go(v);
	while (turns-- > 0 && goes_on())
		deep(&state, (int)(draw(&state) >> 50) % DEPTH);
	if (goes_on())
		go((draw(&state) >> 40) % 2 ? shared : own, &state, "by an argument");
	ends();
}

static void shared(void *arg)
{
	live((uintptr_t)arg);
}

static void own(void *arg)
{
	live((uintptr_t)arg);
}

/* Threads with shells, which hold words by their keys, too. */
static void *shelled(void *arg)
{
	uintptr_t state = (uintptr_t)arg | 1, v;
	int i, rc;

	let_go((uintptr_t)arg);
	v = hold(&state, &i, "by a key");
	CHECK(ukey_set(key, (void *)v) == 0);
	v = 0;
	CHECK(u_sleep(uafter((utime_ns)(draw(&state) >> 8) % UTIME_MS)) == 0);
	deep(&state, 3);
	v = (uintptr_t)ukey_get(key);
	let_go(v);
	if (goes_on()) {
		v = hold(&state, &i, "by the argument in a shell");
		rc = uthread_make_by(NULL, shelled, (void *)v, NULL,
				     (draw(&state) >> 40) % 2 ? USCHED_PRIVATE : 0);
		CHECK(rc == 0);
		v = 0;
		return NULL;
	}
	ends();
	return NULL;
}

static void sender(void *arg)
{
	uintptr_t state = (uintptr_t)arg | 1, v;
	struct uchan *c = (draw(&state) >> 40) % 2 ? ring : direct;
	int i;

	let_go((uintptr_t)arg);
	while (goes_on()) {
		v = hold(&state, &i, c == ring ? "by a ring" : "by a record");
		if (uchan_send(c, &v, uafter(UTIME_S)) != 0)
			let_go(v);
		v = 0;
		wait_somehow(&state);
	}
	ends();
}

static void receiver(void *arg)
{
	uintptr_t state = (uintptr_t)arg | 1, v;
	struct ucase a[2] = { UCASE_RECV(ring, &v), UCASE_RECV(direct, &v) };
	int rc;

	let_go((uintptr_t)arg);
	while (goes_on() || uchan_count(ring) > 0) {
		rc = uselect(a, 2, uafter(10 * UTIME_MS));
		if (rc >= 0 && a[rc].cs_result == 0)
			let_go(v);
		v = 0;
		if ((draw(&state) >> 40) % 2)
			wait_somehow(&state);
	}
	ends();
}

static int run(void *arg)
{
	uintptr_t state = 2463534242u, v;
	pthread_t id;
	int i, j;

	usched_outside(shared);
	__atomic_store_n(&ending, 0, __ATOMIC_RELAXED);
	ring   = uchan_make(sizeof v, 5);
	direct = uchan_make(sizeof v, 0);
	CHECK(ring != NULL && direct != NULL);
	for (i = 0; i < 40; i++) {
		go(shared, &state, "by an argument");
		go(own, &state, "by an argument");
	}
	for (i = 0; i < 10; i++) {
		go(sender, &state, "by an argument");
		go(receiver, &state, "by an argument");
		__atomic_add_fetch(&alive, 1, __ATOMIC_RELAXED);
		v = hold(&state, &j, "by the argument in a shell");
		CHECK(uthread_make(NULL, shelled, (void *)v, NULL) == 0);
	}
	CHECK(pthread_create(&id, NULL, collector, arg) == 0);
	while (goes_on() || __atomic_load_n(&alive, __ATOMIC_RELAXED) > 0)
		CHECK(u_sleep(uafter(UTIME_MS)) == 0);
	CHECK(pthread_join(id, NULL) == 0);
	uchan_free(ring);
	uchan_free(direct);
	return 0;
}

/* A plain dispatcher: a thread that waits, and a new thread. */

static struct tiny t;
static struct tiny_thread waits, looks, fresh;
static const uintptr_t secret = (uintptr_t)0x123456789abcdefu;
static int seen;

static void waiter(void *arg)
{
	uintptr_t v = ~secret;

	KEEP(v);
	tiny_yield();
	KEEP(v);
}

static void nothing(void *arg)
{
}

static UNCHECKED void seek(void *arg, const void *from, const void *to)
{
	const uintptr_t *at = from;

	for (; (const void *)(at + 1) <= to; at++)
		seen += *at == ~secret;
}

static void looker(void *arg)
{
	tiny_start(&t, &fresh, nothing, (void *)~secret);
	seen = 0;
	uroots_of(&waits.tt_stack, seek, NULL);
	CHECK(seen > 0);
	seen = 0;
	uroots_of(&fresh.tt_stack, seek, NULL);
	CHECK_IS(seen, 1);
	tiny_yield();
	seen = 0;
	uroots_of(&fresh.tt_stack, seek, NULL);		/* it has ended */
	CHECK_IS(seen, 0);
}

static void plain(int lanes)
{
	int rc = tiny_init(&t, lanes);

	if (rc == -ENOSYS)
		return;
	CHECK_IS(rc, 0);
	tiny_start(&t, &waits, waiter, NULL);
	tiny_start(&t, &looks, looker, NULL);
	tiny_run(&t);
	tiny_fini(&t);
}

int main(int argc, char **argv)
{
	static const char *const how[] = { "rr:1", "rr:2", "ll:2", "ws:2" };
	struct sigaction a = { .sa_handler = handler, .sa_flags = SA_RESTART };
	long stops = getenv("STOPS") != NULL ? atol(getenv("STOPS")) : 300;
	int i;

	CHECK(sigaction(SIGUSR1, &a, NULL) == 0);
	CHECK_IS(uroots_start(NULL, end), -EINVAL);
	i = uroots_start(begin, end);
	if (i == -ENOSYS)
		return 77;
	CHECK_IS(i, 0);
	CHECK_IS(uroots_start(begin, end), -EBUSY);
	CHECK(ukey_make(&key, NULL) == 0);
	plain(0);
	plain(1);
	plain(2);
	for (i = 0; i < COUNT(how); i++) {
		CHECK(setenv("USCHED", how[i], 1) == 0);
		CHECK_IS(usched_main(run, &stops), 0);
	}
	return 0;
}
