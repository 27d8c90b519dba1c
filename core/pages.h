/* SPDX-License-Identifier: MIT */
/* core/pages.h: pages for stacks: in what systems differ. */

#if !defined(MAP_NORESERVE)
#define MAP_NORESERVE	0
#endif
/* OpenBSD refuses a stack pointer into other memory. */
#if defined(__OpenBSD__)
#define PAGES_STACK	MAP_STACK
#else
#define PAGES_STACK	0
#endif
#if defined(__linux__) && !defined(MADV_GUARD_INSTALL)
#define MADV_GUARD_INSTALL	102
#endif

/* Maps nob bytes for stacks. NULL: no mapping, or no addresses, are left. */
static char *pages_map(size_t nob)
{
	char *map = mmap(NULL, nob, PROT_READ | PROT_WRITE, MAP_PRIVATE |
			 MAP_ANONYMOUS | MAP_NORESERVE | PAGES_STACK, -1, 0);

	if (map == MAP_FAILED)
		return NULL;
#if defined(MADV_NOHUGEPAGE)
	(void)madvise(map, nob, MADV_NOHUGEPAGE);	/* a hint */
#endif
	return map;
}

/* Makes pages a guard without a mapping of its own. 0; -1: not known here. */
static int pages_guard(char *at, size_t nob)
{
#if defined(MADV_GUARD_INSTALL)
	return madvise(at, nob, MADV_GUARD_INSTALL);
#else
	return (void)at, (void)nob, -1;
#endif
}

/*
 * Sets the lowest bit of there for each page of nob bytes that is resident. 0;
 * -1: not all is mapped, or the system does not tell.
 */
static int pages_there(char *at, size_t nob, unsigned char *there)
{
#if defined(__OpenBSD__)
	return (void)at, (void)nob, (void)there, -1;
#else
	return mincore(at, nob, (void *)there);
#endif
}
