/* SPDX-License-Identifier: MIT */
/* library.c: C functions for the tests. */

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

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

/* What a callee sees of a register: as clang does, it trusts the extension. */
uint64_t word(uint64_t w)
{
	return w;
}

uint64_t low32(uint32_t w)
{
	return w;
}

uint64_t low16(uint64_t w)
{
	return (uint32_t)w;
}

uint64_t low8(uint64_t w)
{
	return (uint32_t)w;
}

double real(double d)
{
	return d;
}

float small(float f)
{
	return f;
}

uint64_t weigh(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	return a + 3 * b + 5 * c + 7 * d;
}

double either(int i, double d)
{
	return i + d;
}

long length(const wchar_t *text)
{
	usleep(100);
	return wcslen(text);
}

long total(const int *data, int nr)
{
	long sum = 0;

	usleep(100);
	for (int n = 0; n < nr; n++)
		sum += data[n];
	return sum;
}

int sets_errno(int error)
{
	errno = error < 0 ? -error : error;
	return error;
}
