/* SPDX-License-Identifier: MIT */
/*
 * busy.c: threads that sleep, wait for a lock and wait for a descriptor, for some
 * seconds. test/debug/probe.sh runs the commands of doc/view.md on it.
 */
#include "check.h"
#include "rr.h"
#include "uio.h"
#include "uscope.h"
#include "usync.h"
#include "uwait.h"

static utime_ns end;
static struct umutex lock[1];
static int gate[2];

static void baker(void *arg)
{
	while (unow() < end) {
		CHECK(umutex_lock(lock, UNEVER) == 0);
		CHECK(u_sleep(unow() + 2 * UTIME_MS) == 0);
		umutex_unlock(lock);
	}
}

static void guest(void *arg)
{
	char byte;

	while (u_read(gate[0], &byte, 1, UNEVER) == 1)
		;
}

static void waiter(void *arg)
{
	while (unow() < end) {
		CHECK(u_sleep(unow() + 5 * UTIME_MS) == 0);
		CHECK(u_write(gate[1], "x", 1, UNEVER) == 1);
	}
	CHECK(u_close(gate[1]) == 0);
}

static int scoped(void *arg)
{
	baker(NULL);
	return 0;
}

/* A thread of a scope has ustack_shell() around its function. */
static void first(void *arg)
{
	struct uscope *s;

	CHECK(uscope_begin(&s, UNEVER) == 0 && uscope_go(s, scoped, NULL) == 0);
	CHECK(uscope_end(&s) == 0);
}

int main(void)
{
	end = unow() + 20 * UTIME_S;
	CHECK(pipe(gate) == 0 && rr_init(1, 0) == 0);
	CHECK(rr_thread_init(baker, NULL) && rr_thread_init(baker, NULL));
	CHECK(rr_thread_init(guest, NULL) && rr_thread_init(waiter, NULL));
	CHECK(rr_thread_init(first, NULL));
	CHECK(rr_start() == 0);
	return rr_fini();
}
