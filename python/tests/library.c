/* SPDX-License-Identifier: MIT */
/* library.c: C functions for the tests. */

#include <string.h>
#include <unistd.h>

int add(int a, int b)
{
	return a + b;
}

double mix(int i, double d, float f, long l)
{
	return i + d + f + l;
}

double mean(const double *d, long nr)
{
	double sum = 0;

	for (long n = 0; n < nr; n++)
		sum += d[n];
	return sum / nr;
}

int fill(void *data, size_t size, int value)
{
	memset(data, value, size);
	return 0;
}

int nap(int ms, void *data)
{
	(void)data;
	usleep(ms * 1000);
	return ms;
}

int until(const volatile char *flag)
{
	while (*flag == 0)
		usleep(1000);
	return *flag;
}
