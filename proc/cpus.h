/* SPDX-License-Identifier: MIT */
/* cpus.h: sets of cpus, on machines of any size. */

#ifndef CPUS_H
#define CPUS_H

/*
 * sched_getaffinity() fails with EINVAL if the mask is shorter than the mask of
 * the kernel. A cpu_set_t has 1024 bits, and no call tells how many bits the
 * kernel has. So cpus_get() doubles its mask until the kernel accepts it.
 * sched_setaffinity() takes masks of any length.
 *
 *	operation      the calling native thread
 *	cpus_get       asks where it may run
 *	cpus_use       may run on all cpus of the set from now on
 *	cpus_use_nth   may run on a single cpu of the set from now on
 *
 * If cpus_get() cannot find out the mask (an error, or not Linux), the set is
 * empty, and cpus_use() and cpus_use_nth() do nothing. If the system refuses to
 * use a set, the native thread stays where it was. It is slower then, but no
 * result is wrong.
 *
 * The includer defines _GNU_SOURCE before its first include.
 */

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* A set of cpus. The caller frees it with free(). */
struct cpus {
	size_t        cp_size;		/* bytes of the mask */
	unsigned long cp_mask[];
};

#define CPUS_MOST	65536		/* the largest kernels have 8192 */
#define CPUS_WORD	(8 * sizeof(unsigned long))

/* Returns an empty set with a mask of size bytes. NULL: no memory. */
static inline struct cpus *cpus_none(size_t size)
{
	return (struct cpus *)calloc(1, sizeof(struct cpus) + size);
}

/* Returns a copy of c. NULL: no memory. */
static inline struct cpus *cpus_copy(const struct cpus *c)
{
	struct cpus *copy = cpus_none(c->cp_size);

	if (copy != NULL)
		memcpy(copy, c, sizeof *c + c->cp_size);
	return copy;
}

#if defined(__linux__)
static inline cpu_set_t *cpus_set(const struct cpus *c)
{
	return (cpu_set_t *)c->cp_mask;
}

/* Returns the cpus on which the caller may run. NULL: no memory. */
static inline struct cpus *cpus_get(void)
{
	size_t size = sizeof(cpu_set_t);
	struct cpus *c;

	while ((c = cpus_none(size)) != NULL) {
		if (sched_getaffinity(0, size, cpus_set(c)) == 0)
			c->cp_size = size;
		else if (errno == EINVAL && size < CPUS_MOST / 8) {
			size *= 2;
			free(c);
			continue;
		}
		return c;
	}
	return NULL;
}

static inline int cpus_nr(const struct cpus *c)
{
	return CPU_COUNT_S(c->cp_size, cpus_set(c));
}

static inline void cpus_use(const struct cpus *c)
{
	if (c->cp_size != 0)
		(void)sched_setaffinity(0, c->cp_size, cpus_set(c));
}

/* Returns the cpu that is nr-th in the set, in turn. The set is not empty. */
static inline size_t cpus_nth(const struct cpus *c, int nr)
{
	size_t cpu;

	nr %= cpus_nr(c);
	for (cpu = 0; !CPU_ISSET_S(cpu, c->cp_size, cpus_set(c)) || nr-- > 0; )
		cpu++;
	return cpu;
}

/* Has its mask on the stack: a native thread that begins need not malloc(). */
static inline void cpus_use_nth(const struct cpus *c, int nr)
{
	size_t cpu = cpus_nr(c) > 0 ? cpus_nth(c, nr) : 0;
	unsigned long mask[cpu / CPUS_WORD + 1];

	if (cpus_nr(c) == 0)
		return;
	memset(mask, 0, sizeof mask);
	mask[cpu / CPUS_WORD] = 1ul << cpu % CPUS_WORD;
	(void)sched_setaffinity(0, sizeof mask, (cpu_set_t *)mask);
}
#else
static inline struct cpus *cpus_get(void)
{
	return cpus_none(0);
}

static inline int cpus_nr(const struct cpus *c)
{
	(void)c;
	return 0;
}

static inline void cpus_use(const struct cpus *c)
{
	(void)c;
}

static inline void cpus_use_nth(const struct cpus *c, int nr)
{
	(void)c, (void)nr;
}
#endif

#endif /* CPUS_H */
