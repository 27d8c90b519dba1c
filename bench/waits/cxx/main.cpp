/* SPDX-License-Identifier: MIT */
/* main.cpp: the benchmarks of waits on C++, by hand. */

/*
 * With P = 1, time, channels and programs are coroutines on an event loop (see
 * loop.h). Locks, and some channels with P = 2, are native threads: std::mutex
 * and so on, with a native thread for each thread.
 */
#include "cxx.h"

struct waits waits;

/* Marks what has coroutines only. */
template <void (*f)()> static void alone()
{
	if (waits.w_p > 1)
		waits_none();
	f();
}

static const struct waits_bench table[] = {
	{ "churn-random",  alone<churn_random> },
	{ "churn-same",    alone<churn_same> },
	{ "timed",         alone<timed> },
	{ "sleepers",      alone<sleepers> },
	{ "sync",          chan_sync },
	{ "flag",          native_flag },
	{ "futex",         native_futex },
	{ "asleep",        native_asleep },
	{ "buffer",        chan_buffer },
	{ "uncontended",   alone<uncontended> },
	{ "contended",     alone<uncontended> },	/* if P is 1 */
	{ "fanin",         alone<fanin> },
	{ "sem",           alone<sem> },
	{ "select",        alone<select_own> },
	{ "select-sync",   alone<select_sync> },
	{ "select-buffer", alone<select_buffer> },
	{ "mutex-own",     mutex_own },
	{ "mutex",         mutex },
	{ "mutex-slack",   mutex_slack },
	{ "mutex-work",    mutex_work },
	{ "mutex-hold",    mutex_hold },
	{ "skew",          skew },
	{ "rw-own",        rw_own },
	{ "rw-write",      rw_write },
	{ "sieve",         alone<sieve> },
	{ "powser",        alone<powser> },
	{ "pool",          alone<pool> },
	{ nullptr,         nullptr }
};

int main(int argc, char **argv)
{
	int rc = waits_main(table, [](void (*f)()) { f(); }, argc, argv);

	fflush(stdout);
	_exit(rc);			/* coroutines that wait stay */
}
