/* SPDX-License-Identifier: MIT */
/* t_cpus: a machine with more than 1024 cpus is used like any other. */
/* LIBS: -Wl,--wrap=sched_getaffinity,--wrap=sched_setaffinity */

/*
 * Wrappers play the kernel: its masks have k_bits bits, and it refuses shorter
 * masks with EINVAL, as Linux does. The wrappers note the mask of each native
 * thread.
 */
#include "check.h"

#if !defined(__linux__)
int main(void)
{
	check_skip("no affinity masks here");
}
#else

#include "rr.h"
#include "ucall.h"
#include "ws.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#define MOST	65536

/* The cpus of the process. */
static const int cpus[] = { 5, 1023, 1024, 2047, 4095 };
#define CPUS	COUNT(cpus)

static struct {
	int  k_bits;		/* bits of a mask */
	int  k_error;		/* error of each call, or 0 */
	long k_asked;		/* calls */
} kernel;

/* The last mask that the native thread has set: a cpu, or ALL. */
enum { NOTHING = -1, ALL = -2 };
static __thread int given = NOTHING;

static long total;

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *mask);
int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *mask);

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *mask)
{
	int i;

	CHECK(pid == 0);
	__atomic_add_fetch(&kernel.k_asked, 1, __ATOMIC_RELAXED);
	if (kernel.k_error != 0 || size < (size_t)kernel.k_bits / 8) {
		errno = kernel.k_error != 0 ? kernel.k_error : EINVAL;
		return -1;
	}
	memset(mask, 0, size);
	for (i = 0; i < CPUS && cpus[i] < kernel.k_bits; i++)
		CPU_SET_S(cpus[i], size, mask);
	return 0;
}

int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *mask)
{
	int i, nr = CPU_COUNT_S(size, mask);

	CHECK(pid == 0 && nr > 0);
	given = ALL;
	if (nr == 1) {
		for (given = 0; !CPU_ISSET_S(given, size, mask); )
			given++;
	}
	for (i = 0; i < CPUS && nr > 1; i++)
		CHECK(cpus[i] >= kernel.k_bits ||
		      CPU_ISSET_S(cpus[i], size, mask));
	return 0;
}

static int allowed(void)
{
	int nr = 0;

	while (nr < CPUS && cpus[nr] < kernel.k_bits)
		nr++;
	return nr;
}

/* If the process has only one cpu, all its cpus are that cpu. */
static int all(void)
{
	return allowed() == 1 ? cpus[0] : ALL;
}

static void called(void *arg)
{
	CHECK(given == NOTHING);	/* its maker was not pinned */
	__atomic_add_fetch((long *)arg, 1, __ATOMIC_RELAXED);
}

static void where(void *arg)
{
	int cpu = *(const int *)arg;

	CHECK(given == cpu);
	CHECK(ucall(called, &total) == 0);
	CHECK(given == cpu);
	CHECK(rr_pinning(0) == 0 && given == all());
	CHECK(rr_pinning(1) == 0 && given == cpu);
}

static void nested(void *arg)
{
	kernel.k_error = EPERM;		/* ws_init() need not ask again */
	CHECK(ws_init(0, 0) == 0);
	CHECK(ws_sched(allowed()) == ws_sched(0));
	CHECK(allowed() == 1 || ws_sched(allowed() - 1) != ws_sched(0));
	CHECK(ws_start() == 0 && ws_fini() == 0);
	kernel.k_error = 0;
}

static void run(int bits)
{
	int i;

	doing("%d bits", bits);
	kernel.k_bits = bits;
	total = 0;
	CHECK(rr_init(2 * allowed(), 0) == 0);
	for (i = 0; i < 2 * allowed(); i++)
		CHECK(rr_thread_on(i, where, (void *)&cpus[i % allowed()]));
	CHECK(rr_start() == 0 && rr_fini() == 0);
	CHECK(total == 2 * allowed());
	CHECK(rr_init(2, 0) == 0);
	CHECK(rr_thread_on(1, nested, NULL) != NULL);
	CHECK(rr_start() == 0 && rr_fini() == 0);
	CHECK(ws_init(0, 0) == 0);
	CHECK(ws_sched(allowed()) == ws_sched(0));
	CHECK(allowed() == 1 || ws_sched(allowed() - 1) != ws_sched(0));
	CHECK(ws_start() == 0 && ws_fini() == 0);
	CHECK(given == NOTHING);	/* main() is not a processor */
}

static void nowhere(void *arg)
{
	CHECK(given == NOTHING);
	CHECK(rr_pinning(0) == 0 && rr_pinning(1) == 0);
	CHECK(given == NOTHING);
	CHECK(ucall(called, arg) == 0);
}

/* There is no mask: the scheduler runs, and asks only a few times. */
static void without(int bits, int error)
{
	kernel.k_bits  = bits;
	kernel.k_error = error;
	kernel.k_asked = 0;
	total = 0;
	CHECK(rr_init(2, 0) == 0);
	CHECK(rr_thread_on(0, nowhere, &total) != NULL);
	CHECK(rr_thread_on(1, nowhere, &total) != NULL);
	CHECK(rr_start() == 0 && rr_fini() == 0);
	CHECK(total == 2 && kernel.k_asked <= 10);
	CHECK(ws_init(0, 0) == 0);
	CHECK(ws_sched(1) == ws_sched(0));
	CHECK(ws_start() == 0 && ws_fini() == 0);
	kernel.k_error = 0;
}

int main(int argc, char **argv)
{
	int bits;

	check_start(argc, argv);
	unsetenv("USCHED_PIN");
	for (bits = 64; bits <= MOST; bits *= 2)
		run(bits);
	run(1088);
	run(8128);
	without(64, EPERM);
	without(64, ENOSYS);
	without(64, EINVAL);
	without(4 * MOST, 0);
	return 0;
}
#endif
