/* SPDX-License-Identifier: MIT */
/* VARIANTS: once */
/*
 * roots_step: the same as roots, behind each single instruction of one processor: while
 * threads are made, switch, are copied, checked by the law, generate, send, and end.
 */
#define WORDS	256
#include "uroots.c"		/* first: it has the locks */
#include "held.h"
#include "uchan.h"
#include "ugen.h"
#include "umain.h"
#include "uthread.h"

#include <pthread.h>
#include <signal.h>

#if !defined(__x86_64__) || !defined(__linux__) || defined(USCHED_PORTABLE)
int main(void)
{
	return puts("roots_step: for x86-64 Linux, with its own switch"), 77;
}
#else

#include <ucontext.h>

#define TRAP	0x100		/* the flag of the processor */
#define SHARING	18		/* threads: two are in a lane of which there are 16 */
#define VALUES	4

static const char *bottom_of;		/* of the native stack */
static volatile int steps;		/* go on */
static long looks, passed_over;
static struct uchan *ring, *direct;
static unsigned key;
static int alive;

static const void *begins(void)
{
	pthread_attr_t attr;
	size_t size;
	void *low;

	CHECK(pthread_getattr_np(pthread_self(), &attr) == 0);
	CHECK(pthread_attr_getstack(&attr, &low, &size) == 0);
	CHECK(pthread_attr_destroy(&attr) == 0);
	return bottom_of = (char *)low + size;
}

static void ends(void)
{
}

static void look(const char *sp)
{
	const void *bottom;
	struct run *r;

	look_begin();
	bottom = uroots_bottom(sp);
	scan(NULL, sp, bottom != NULL ? bottom : bottom_of);
	uroots_each(scan, NULL);
	for (r = runs; r != NULL; r = r->r_next)
		r->r_entered = false;
	looks++;
}

/* A collector waits for locks; here what is interrupted may hold them. */
static const char *look_unlocked(const char *sp)
{
	struct umem *m = sets != NULL ? &sets->set_mem : NULL;
	const char *lost = NULL;

	if (lock.l_state == 0 && (m == NULL || pthread_mutex_trylock(&m->m_lock) == 0)) {
		look(sp);
		lost = look_end();
		if (m != NULL)
			pthread_mutex_unlock(&m->m_lock);
	} else
		passed_over++;
	return lost;
}

static void trapped(int sig, siginfo_t *info, void *context)
{
	greg_t *reg = ((ucontext_t *)context)->uc_mcontext.gregs;
	int error = errno;
	const char *lost;

	reg[REG_EFL] &= ~(greg_t)TRAP;
	if (!steps)
		return;
	reg[REG_EFL] |= TRAP;
	lost = look_unlocked(__builtin_frame_address(0));
	if (lost != NULL) {
		fprintf(stderr, "lost: %s, at %p\n", lost, (void *)reg[REG_RIP]);
		CHECK(lost == NULL);
	}
	errno = error;
}

/* Threads. */

static void generate(void *arg)
{
	uintptr_t state = (uintptr_t)arg | 1, v;
	int i;

	v = hold(&state, &i, "by a generator");
	while (ugen_yield(&state) == 0)
		KEEP(v);
	let_go(v);
}

static NOINLINE void consume(uintptr_t *state)
{
	int i, turns = 2;
	uintptr_t v = hold(state, &i, "by a consumer");
	struct ugen *g = ugen_make(generate, (void *)draw(state), sizeof v);

	CHECK(g != NULL);
	while (turns-- > 0) {
		CHECK(ugen_next(g) != NULL);
		KEEP(v);
	}
	CHECK(ugen_free(g) == 0);
	let_go(v);
}

static NOINLINE void deep(uintptr_t *state, int depth)
{
	char room[depth * 96 + 1];
	int i;
	uintptr_t v = hold(state, &i, "in a frame");

	__asm__ volatile("" : : "r"(room) : "memory");
	CHECK(u_sleep(UNOW) == 0);
	KEEP(v);
	if (depth > 0)
		deep(state, depth - 1);
	CHECK(u_sleep(UNOW) == 0);
	let_go(v);
}

/* In this function a word is in rbx while its thread waits. */
static NOINLINE void in_register(uintptr_t *state)
{
	int i;
	register uintptr_t v __asm__("rbx") = hold(state, &i, "in a register");

	KEEP(v);
	CHECK(u_sleep(UNOW) == 0);
	KEEP(v);
	CHECK(u_sleep(UNOW) == 0);
	KEEP(v);
	let_go(v);
}

static void go(void (*f)(void *), uintptr_t *state)
{
	uintptr_t v;
	int i;

	alive++;
	v = hold(state, &i, "by an argument");
	CHECK(usched_go(f, (void *)v) == 0);
}

static void last(void *arg)
{
	let_go((uintptr_t)arg);
	alive--;
}

static void live(uintptr_t v)
{
	uintptr_t state = v | 1;

	let_go(v);
	deep(&state, 1);
	consume(&state);
	go(last, &state);
	alive--;
}

static void shared(void *arg)
{
	uintptr_t state = (uintptr_t)arg | 1;

	let_go((uintptr_t)arg);
	in_register(&state);
	alive--;
}

static void own(void *arg)
{
	live((uintptr_t)arg);
}

static void *shelled(void *arg)
{
	uintptr_t state = (uintptr_t)arg | 1, v;
	int i;

	let_go((uintptr_t)arg);
	v = hold(&state, &i, "by a key");
	CHECK(ukey_set(key, (void *)v) == 0);
	v = 0;
	CHECK(u_sleep(UNOW) == 0);
	deep(&state, 1);
	v = (uintptr_t)ukey_get(key);
	let_go(v);
	alive--;
	return NULL;
}

static void sender(void *arg)
{
	uintptr_t state = (uintptr_t)arg | 1, v;
	int i, nr;

	let_go((uintptr_t)arg);
	for (nr = 0; nr < VALUES; nr++) {
		v = hold(&state, &i, "on its way");
		CHECK(uchan_send(nr % 2 ? ring : direct, &v, UNEVER) == 0);
		v = 0;
	}
	alive--;
}

static void receiver(void *arg)
{
	uintptr_t v;
	int nr;

	let_go((uintptr_t)arg);
	for (nr = 0; nr < VALUES; nr++) {
		CHECK(uchan_recv(nr % 2 ? ring : direct, &v, UNEVER) == 0);
		let_go(v);
		v = 0;
	}
	alive--;
}

static int run(void *arg)
{
	uintptr_t state = 2463534242u, v;
	int i, j;

	ring   = uchan_make(sizeof v, 3);
	direct = uchan_make(sizeof v, 0);
	CHECK(ring != NULL && direct != NULL);
	steps = 1;
	CHECK(raise(SIGTRAP) == 0);
	for (i = 0; i < SHARING; i++)
		go(shared, &state);
	go(own, &state);
	go(sender, &state);
	go(receiver, &state);
	for (i = 0; i < 2; i++) {
		alive++;
		v = hold(&state, &j, "by the argument in a shell");
		CHECK(uthread_make_by(NULL, shelled, (void *)v, NULL,
				      i == 0 ? USCHED_PRIVATE : 0) == 0);
		v = 0;
	}
	while (alive > 0)
		CHECK(u_sleep(UNOW) == 0);
	steps = 0;
	uchan_free(ring);
	uchan_free(direct);
	return 0;
}

int main(void)
{
	static const char *const how[] = { "rr:1", "ws:1" };
	struct sigaction a = {
		.sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_RESTART
	};
	int i;

	CHECK(sigaction(SIGTRAP, &a, NULL) == 0);
	CHECK_IS(uroots_start(begins, ends), 0);
	CHECK(ukey_make(&key, NULL) == 0);
	usched_outside(shared);
	for (i = 0; i < COUNT(how); i++) {
		CHECK(setenv("USCHED", how[i], 1) == 0);
		CHECK_IS(usched_main(run, NULL), 0);
	}
	printf("%ld looks, %ld passed over\n", looks, passed_over);
	CHECK(looks > 10000 && passed_over < looks / 10);
	return 0;
}

#endif
