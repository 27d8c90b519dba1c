/* SPDX-License-Identifier: MIT */
/* article: programs written for the schedulers of the article still work. */
/* VARIANTS: once */

/*
 * Like rmain.c and lmain.c of the article, they say how many threads they will
 * make, make some of them, start, call done() at the end of each thread, then
 * fini(), and check no return value. They compile without a warning. Both
 * schedulers may be used at the same time, and threads of one may wake threads
 * of the other.
 */
#include "check.h"
#include "rr.h"
#include "ll.h"

enum { N = 5, R = 20, M = 100, P = 3 };

static long received;

static struct rr_thread *rt[R][N];
static struct ll_thread *lt[R][N];

static void rloop(void *arg)
{
	int self = (int)(intptr_t)arg;
	int ring = self / N;
	int i;

	for (i = 0, self %= N; i < M; i++) {
		if (i % N == self) {
			rr_wake(rt[ring][(self + 1) % N]);
			rr_wait();
		} else {
			rr_wait();
			rr_wake(rt[ring][(self + 1) % N]);
		}
		__atomic_add_fetch(&received, 1, __ATOMIC_RELAXED);
	}
	rr_done();
}

static void lloop(void *arg)
{
	int self = (int)(intptr_t)arg;
	int ring = self / N;
	int i;

	for (i = 0, self %= N; i < M; i++) {
		if (i % N == self) {
			ll_wake(lt[ring][(self + 1) % N]);
			ll_wait();
		} else {
			ll_wait();
			ll_wake(lt[ring][(self + 1) % N]);
		}
		__atomic_add_fetch(&received, 1, __ATOMIC_RELAXED);
	}
	ll_done();
}

static void rr_article(void)
{
	int i;

	received = 0;
	(void)!rr_init(P, N * R);
	for (i = 0; i < N * R; i++)
		rt[i / N][i % N] = rr_thread_init(&rloop, (void *)(intptr_t)i);
	(void)!rr_start();
	rr_fini();
	CHECK_IS(received, N * R * M);
}

static void ll_article(void)
{
	int i;

	received = 0;
	(void)!ll_init(P, N * R);
	for (i = 0; i < N * R; i++)
		lt[i / N][i % N] = ll_thread_init(&lloop, (void *)(intptr_t)i,
						  i / N);
	(void)!ll_start();
	ll_fini();
	CHECK_IS(received, N * R * M);
}

/* Both at the same time. */

static struct rr_thread *left[R];
static struct ll_thread *right[R];

static void lefts(void *arg)
{
	int i;

	for (i = 0; i < M; i++) {
		ll_wake(right[(intptr_t)arg]);
		CHECK_IS(rr_wait(), 0);
		CHECK(ll_self() == NULL && rr_self() == left[(intptr_t)arg]);
	}
	__atomic_add_fetch(&received, 1, __ATOMIC_RELAXED);
	ll_wake(right[(intptr_t)arg]);
	ll_release();			/* our last wake there */
}

static void rights(void *arg)
{
	int i;

	for (i = 0; i < M; i++) {
		CHECK_IS(ll_wait(), 0);
		rr_wake(left[(intptr_t)arg]);
	}
	rr_release();
	CHECK_IS(ll_wait(), 0);
	CHECK(rr_self() == NULL && ll_self() == right[(intptr_t)arg]);
	__atomic_add_fetch(&received, 1, __ATOMIC_RELAXED);
}

static void both(int p)
{
	intptr_t i;

	received = 0;
	CHECK(rr_init(p, R) == 0 && ll_init(p, 0) == 0);
	for (i = 0; i < R; i++) {
		left[i]  = rr_thread_init(lefts, (void *)i);
		right[i] = ll_thread_init(rights, (void *)i, (int)i);
		CHECK(left[i] != NULL && right[i] != NULL);
		rr_hold();
		ll_hold();
	}
	CHECK(rr_start() == 0 && ll_start() == 0);
	CHECK_IS(rr_fini(), 0);
	CHECK_IS(ll_fini(), 0);
	CHECK_IS(received, 2 * R);
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	rr_article();
	ll_article();
	for (i = 0; i < 30; i++)
		both(1 + i % 3);
	return 0;
}
