/* SPDX-License-Identifier: MIT */
/* vclock.h: the clocks of records: ticks of the machine, and ns. Not API. */

#ifndef UVIEW_CLOCK_H
#define UVIEW_CLOCK_H

/*
 * The time of a record is in ticks of the machine's counter. uview_clock_put() writes
 * both clocks to a ring now and then, so that readers can compute ns. Where no
 * counter has one rate, a tick is a ns.
 */

#include "vtap.h"
#include "compiler.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* Returns whether the counter has one rate, whatever the cpu does. */
static inline bool uview_counter_is_even(void)
{
	unsigned a, b, c, d = 0;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1u << 8;
}

#define UVIEW_COUNTER()	__builtin_ia32_rdtsc()
#elif defined(__aarch64__)
#define uview_counter_is_even()	true
static inline uint64_t uview_counter(void)
{
	uint64_t t;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
}
#define UVIEW_COUNTER()	uview_counter()
#elif defined(__riscv) && __riscv_xlen == 64
#define uview_counter_is_even()	true
static inline uint64_t uview_counter(void)
{
	uint64_t t;

	__asm__ volatile("rdtime %0" : "=r"(t));
	return t;
}
#define UVIEW_COUNTER()	uview_counter()
#else
#define uview_counter_is_even()	false
#define UVIEW_COUNTER()	0
#endif

/* Returns ns of CLOCK_MONOTONIC. */
static inline uint64_t uview_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Returns the clock of records. */
static inline uint64_t uview_tick(void)
{
	return likely(!uview_all.v_no_counter) ? UVIEW_COUNTER() : uview_ns();
}

#endif /* UVIEW_CLOCK_H */
