/* SPDX-License-Identifier: MIT */
/* cpus.h: sets of cpus, on machines of any size. */

#ifndef UCPUS_H
#define UCPUS_H

/*
 * sched_getaffinity() fails with EINVAL if the mask is shorter than the mask of
 * the kernel. A cpu_set_t has 1024 bits, and no call tells how many bits the
 * kernel has. So ucpus_get() doubles its mask until the kernel accepts it.
 * sched_setaffinity() takes masks of any length.
 *
 *	operation      the calling native thread
 *	ucpus_get      asks where it may run
 *	ucpus_use      may run on all cpus of the set from now on
 *	ucpus_use_nth  may run on a single cpu of the set from now on
 *	ucpus_most     asks how many cpus of time its control groups allow
 *
 * If ucpus_get() cannot find out the mask (an error, or not Linux), the set is
 * empty, and ucpus_use() and ucpus_use_nth() do nothing. If the system refuses
 * to use a set, the native thread stays where it was. It is slower then, but no
 * result is wrong.
 *
 * The includer defines _GNU_SOURCE before its first include.
 */

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A set of cpus. The caller frees it with free(). */
struct ucpus {
	size_t        cp_size;		/* bytes of the mask */
	unsigned long cp_mask[];
};

#define UCPUS_MOST	65536		/* the largest kernels have 8192 */
#define UCPUS_WORD	(8 * sizeof(unsigned long))

/* Returns an empty set with a mask of size bytes. NULL: no memory. */
static inline struct ucpus *ucpus_none(size_t size)
{
	return (struct ucpus *)calloc(1, sizeof(struct ucpus) + size);
}

/* Returns a copy of c. NULL: no memory. */
static inline struct ucpus *ucpus_copy(const struct ucpus *c)
{
	struct ucpus *copy = ucpus_none(c->cp_size);

	if (copy != NULL)
		memcpy(copy, c, sizeof *c + c->cp_size);
	return copy;
}

#if defined(__linux__)
static inline cpu_set_t *ucpus_set(const struct ucpus *c)
{
	return (cpu_set_t *)c->cp_mask;
}

/* Returns the cpus on which the caller may run. NULL: no memory. */
static inline struct ucpus *ucpus_get(void)
{
	size_t size = sizeof(cpu_set_t);
	struct ucpus *c;

	while ((c = ucpus_none(size)) != NULL) {
		if (sched_getaffinity(0, size, ucpus_set(c)) == 0)
			c->cp_size = size;
		else if (errno == EINVAL && size < UCPUS_MOST / 8) {
			size *= 2;
			free(c);
			continue;
		}
		return c;
	}
	return NULL;
}

static inline int ucpus_nr(const struct ucpus *c)
{
	return CPU_COUNT_S(c->cp_size, ucpus_set(c));
}

static inline void ucpus_use(const struct ucpus *c)
{
	if (c->cp_size != 0)
		(void)sched_setaffinity(0, c->cp_size, ucpus_set(c));
}

/* Returns the cpu that is nr-th in the set, in turn. The set is not empty. */
static inline size_t ucpus_nth(const struct ucpus *c, int nr)
{
	size_t cpu;

	nr %= ucpus_nr(c);
	for (cpu = 0; !CPU_ISSET_S(cpu, c->cp_size, ucpus_set(c)) || nr-- > 0; )
		cpu++;
	return cpu;
}

/* Has its mask on the stack: a native thread that begins need not malloc(). */
static inline void ucpus_use_nth(const struct ucpus *c, int nr)
{
	size_t cpu = ucpus_nr(c) > 0 ? ucpus_nth(c, nr) : 0;
	unsigned long mask[cpu / UCPUS_WORD + 1];

	if (ucpus_nr(c) == 0)
		return;
	memset(mask, 0, sizeof mask);
	mask[cpu / UCPUS_WORD] = 1ul << cpu % UCPUS_WORD;
	(void)sched_setaffinity(0, sizeof mask, (cpu_set_t *)mask);
}

/* Reads numbers, or "max" for a negative one, from a file of a control group. */
static inline int ucpus_read(const char *group, const char *name,
			     long *number, int nr)
{
	char path[PATH_MAX], word[32];
	FILE *in;
	int i;

	if (snprintf(path, sizeof path, "%s/%s", group, name) >= PATH_MAX)
		return 0;
	in = fopen(path, "re");
	if (in == NULL)
		return 0;
	for (i = 0; i < nr && fscanf(in, "%31s", word) == 1; i++)
		number[i] = strcmp(word, "max") == 0 ? -1 : atol(word);
	(void)fclose(in);
	return i;
}

/* Returns how many cpus a group allows, rounded up; INT_MAX: any number. */
static inline int ucpus_of_group(const char *group)
{
	long time[2];			/* us, in a period of us */

	if (ucpus_read(group, "cpu.max", time, 2) != 2 &&
	    (ucpus_read(group, "cpu.cfs_quota_us", &time[0], 1) != 1 ||
	     ucpus_read(group, "cpu.cfs_period_us", &time[1], 1) != 1))
		return INT_MAX;
	if (time[0] <= 0 || time[1] <= 0 || time[0] / time[1] >= INT_MAX)
		return INT_MAX;
	return (int)((time[0] + time[1] - 1) / time[1]);
}

/*
 * The least of a group and all above it; at is the path within the folder of
 * groups, which is the root's. In a container that may be the only one there.
 */
static inline int ucpus_of_groups(const char *folder, char *at)
{
	char group[PATH_MAX];
	int nr, least = INT_MAX;

	for (;;) {
		if (snprintf(group, sizeof group, "%s%s", folder, at) <
		    PATH_MAX) {
			nr = ucpus_of_group(group);
			least = nr < least ? nr : least;
		}
		if (*at == '\0')
			return least;
		*strrchr(at, '/') = '\0';
	}
}

/*
 * Reads /proc/self/cgroup: "0::PATH", or for version 1 "NR:CONTROLLERS:PATH",
 * where "cpu" is among the controllers.
 */
static inline int ucpus_most(void)
{
	FILE *in = fopen("/proc/self/cgroup", "re");
	int nr, least = INT_MAX;
	char line[PATH_MAX];

	while (in != NULL && fgets(line, sizeof line, in) != NULL) {
		char *at = strchr(line, '/');

		if (at == NULL || line[strlen(line) - 1] != '\n')
			continue;
		line[strlen(line) - 1] = '\0';
		if (strncmp(line, "0::", 3) == 0)
			nr = ucpus_of_groups("/sys/fs/cgroup", at);
		else if (strstr(line, ":cpu:") != NULL ||
			 strstr(line, ":cpu,") != NULL)
			nr = ucpus_of_groups("/sys/fs/cgroup/cpu", at);
		else
			continue;
		least = nr < least ? nr : least;
	}
	if (in != NULL)
		(void)fclose(in);
	return least;
}
#else
static inline struct ucpus *ucpus_get(void)
{
	return ucpus_none(0);
}

static inline int ucpus_nr(const struct ucpus *c)
{
	(void)c;
	return 0;
}

static inline void ucpus_use(const struct ucpus *c)
{
	(void)c;
}

static inline void ucpus_use_nth(const struct ucpus *c, int nr)
{
	(void)c, (void)nr;
}

static inline int ucpus_most(void)
{
	return INT_MAX;
}
#endif

#endif /* UCPUS_H */
