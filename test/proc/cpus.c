/* SPDX-License-Identifier: MIT */
/* cpus: more than 1024 cpus, and limits of control groups, are respected. */
/* VARIANTS: once */
/* LIBS: -Wl,--wrap=sched_getaffinity,--wrap=sched_setaffinity,--wrap=fopen */

/*
 * Wrappers play the kernel: its masks have k_bits bits, and it refuses shorter
 * masks with EINVAL, as Linux does. The wrappers note the mask of each native
 * thread. The files of control groups are texts here.
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

/* What files of control groups say. */
static struct {
	const char *f_path, *f_text;
} file[4];

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);

FILE *__wrap_fopen(const char *path, const char *mode)
{
	int i;

	if (strncmp(path, "/sys/fs/cgroup", 14) != 0 &&
	    strcmp(path, "/proc/self/cgroup") != 0)
		return __real_fopen(path, mode);
	for (i = 0; i < COUNT(file); i++)
		if (file[i].f_path != NULL && strcmp(file[i].f_path, path) == 0)
			return fmemopen((void *)(uintptr_t)file[i].f_text,
					strlen(file[i].f_text), "r");
	errno = ENOENT;
	return NULL;
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *mask);
int __wrap_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *mask);

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *mask)
{
	int i;

	CHECK_IS(pid, 0);
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
	CHECK_IS(given, NOTHING);	/* its maker was not pinned */
	__atomic_add_fetch((long *)arg, 1, __ATOMIC_RELAXED);
}

static void where(void *arg)
{
	int cpu = *(const int *)arg;

	CHECK_IS(given, cpu);
	CHECK_IS(ucall(called, &total), 0);
	CHECK_IS(given, cpu);
	CHECK(rr_pinning(0) == 0 && given == all());
	CHECK(rr_pinning(1) == 0 && given == cpu);
}

static void nested(void *arg)
{
	kernel.k_error = EPERM;		/* ws_init() need not ask again */
	CHECK_IS(ws_init(0, 0), 0);
	CHECK_IS(ws_sched(allowed()), ws_sched(0));
	CHECK(allowed() == 1 || ws_sched(allowed() - 1) != ws_sched(0));
	CHECK(ws_start() == 0 && ws_fini() == 0);
	kernel.k_error = 0;
}

/* Returns how many workers ws_init(0) makes. */
static int workers(void)
{
	int nr = 1;

	CHECK_IS(ws_init(0, 0), 0);
	while (ws_sched(nr) != ws_sched(0))	/* behind the last: the first */
		nr++;
	CHECK(ws_start() == 0 && ws_fini() == 0);
	return nr;
}

static void run(int bits)
{
	int i;

	doing("%d bits", bits);
	kernel.k_bits = bits;
	total = 0;
	CHECK_IS(rr_init(2 * allowed(), 0), 0);
	for (i = 0; i < 2 * allowed(); i++)
		CHECK(rr_thread_on(i, where, (void *)&cpus[i % allowed()]));
	CHECK(rr_start() == 0 && rr_fini() == 0);
	CHECK_IS(total, 2 * allowed());
	CHECK_IS(rr_init(2, 0), 0);
	CHECK(rr_thread_on(1, nested, NULL) != NULL);
	CHECK(rr_start() == 0 && rr_fini() == 0);
	CHECK_IS(workers(), allowed());
	CHECK_IS(given, NOTHING);	/* main() is not a processor */
}

static void nowhere(void *arg)
{
	CHECK_IS(given, NOTHING);
	CHECK(rr_pinning(0) == 0 && rr_pinning(1) == 0);
	CHECK_IS(given, NOTHING);
	CHECK_IS(ucall(called, arg), 0);
}

/* There is no mask: the scheduler runs, and asks only a few times. */
static void without(int bits, int error)
{
	kernel.k_bits  = bits;
	kernel.k_error = error;
	kernel.k_asked = 0;
	total = 0;
	CHECK_IS(rr_init(2, 0), 0);
	CHECK(rr_thread_on(0, nowhere, &total) != NULL);
	CHECK(rr_thread_on(1, nowhere, &total) != NULL);
	CHECK(rr_start() == 0 && rr_fini() == 0);
	CHECK(total == 2 && kernel.k_asked <= 10);
	CHECK_IS(workers(), sysconf(_SC_NPROCESSORS_ONLN));
	kernel.k_error = 0;
}

/* Of five cpus, groups allow nr. */
static void groups(int nr)
{
	doing("groups that allow %d", nr);
	kernel.k_bits = MOST;
	CHECK_IS(workers(), nr);
	memset(file, 0, sizeof file);
}

#define FILE_IS(i, path, text)						\
	(file[i].f_path = (path), file[i].f_text = (text))
#define SELF	"/proc/self/cgroup"
#define GROUPS	"/sys/fs/cgroup"

static void all_groups(void)
{
	groups(CPUS);
	FILE_IS(0, SELF, "0::/a/b\n");
	FILE_IS(1, GROUPS "/a/b/cpu.max", "max 100000\n");
	groups(CPUS);
	FILE_IS(0, SELF, "0::/a/b\n");
	FILE_IS(1, GROUPS "/a/b/cpu.max", "250000 100000\n");
	groups(3);
	FILE_IS(0, SELF, "0::/a/b\n");
	FILE_IS(1, GROUPS "/a/b/cpu.max", "400000 100000\n");
	FILE_IS(2, GROUPS "/a/cpu.max", "200000 100000\n");
	groups(2);
	/* In a container only the root is there. */
	FILE_IS(0, SELF, "0::/elsewhere\n");
	FILE_IS(1, GROUPS "/cpu.max", "5000 100000\n");
	groups(1);
	FILE_IS(0, SELF, "0::/\n");
	FILE_IS(1, GROUPS "/cpu.max", "100000000 100000\n");
	groups(CPUS);
	FILE_IS(0, SELF, "5:memory:/m\n3:cpu,cpuacct:/v\n0::/\n");
	FILE_IS(1, GROUPS "/cpu/v/cpu.cfs_quota_us", "400000\n");
	FILE_IS(2, GROUPS "/cpu/v/cpu.cfs_period_us", "100000\n");
	groups(4);
	FILE_IS(0, SELF, "1:cpu:/v\n");
	FILE_IS(1, GROUPS "/cpu/v/cpu.cfs_quota_us", "-1\n");
	FILE_IS(2, GROUPS "/cpu/v/cpu.cfs_period_us", "100000\n");
	groups(CPUS);
	FILE_IS(0, SELF, "0:\nx");
	FILE_IS(1, GROUPS "/cpu.max", "1");
	groups(CPUS);
	FILE_IS(0, SELF, "0::/\n");
	FILE_IS(1, GROUPS "/cpu.max", "1 0\n");
	groups(CPUS);
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
	all_groups();
	return 0;
}
#endif
