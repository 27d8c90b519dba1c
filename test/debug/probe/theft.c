/* SPDX-License-Identifier: MIT */
/* theft.c: ends when worker 1 has stolen from worker 0. test/debug/probe.sh runs it. */
#include "check.h"
#include "ws.h"

static int stolen;

static void work(void *arg)
{
	while (!__atomic_load_n(&stolen, __ATOMIC_RELAXED)) {
		if (ws_proc() != 0)
			__atomic_store_n(&stolen, 1, __ATOMIC_RELAXED);
		CHECK(ws_yield() == 0);
	}
}

static void first(void *arg)
{
	int i;

	for (i = 0; i < 8; i++)
		CHECK(ws_thread_init(work, NULL) != NULL);
	work(NULL);
}

int main(void)
{
	CHECK(ws_init(2, 0) == 0 && ws_thread_pinned(0, first, NULL) != NULL);
	CHECK(ws_start() == 0);
	return ws_fini();
}
