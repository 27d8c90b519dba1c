/* SPDX-License-Identifier: MIT */
/* figures.h: shared by programs that measure themselves. */

#ifndef FIGURES_H
#define FIGURES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the resident bytes of this process; 0: the system does not tell. */
static inline double figures_resident(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[128];
	long kib = 0;

	if (status == NULL)
		return 0;
	while (fgets(line, sizeof line, status) != NULL)
		if (strncmp(line, "VmRSS:", 6) == 0)
			kib = strtol(line + 6, NULL, 10);
	fclose(status);
	return kib * 1024.0;
}

static inline int figures_less(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts n figures, so that x[n / 2] is their median. */
static inline void figures_sort(double *x, long n)
{
	qsort(x, (size_t)n, sizeof *x, figures_less);
}

static inline int figures_before(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Sorts n times, in nanoseconds. */
static inline void figures_sort_times(int64_t *x, long n)
{
	qsort(x, (size_t)n, sizeof *x, figures_before);
}

#endif /* FIGURES_H */
