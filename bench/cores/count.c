/* SPDX-License-Identifier: MIT */
/* count.c: the atomic operations and system calls of a program, counted (count.h). */

#include "count.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>

#define LINES		(1 << 20)	/* of a table with open addresses */
#define MOST		4097		/* native threads */

/* A line. Bits of native threads, modulo 64, tell in whose caches it is. */
static struct line {
	uintptr_t l_nr;
	uint64_t  l_by;
} table[LINES];

static struct counts {
	long c_nr[COUNTS];
} __attribute__((aligned(64))) by_processor[MOST];

static unsigned threads;
static __thread unsigned self;		/* a native thread, from 1 on */
static __thread int me = MOST - 1;	/* a processor; the last: it is none */

static uintptr_t first;
static unsigned long each;
static int nr_each;
static bool plain;			/* accesses count (atomic) */

void count_me(int p)
{
	me = p;
}

void count_at(const void *at, unsigned long size, int nr)
{
	first   = (uintptr_t)at;
	each    = size;
	nr_each = nr;
}

void count_plain(void)
{
	__atomic_store_n(&plain, true, __ATOMIC_RELAXED);
}

void count_get(int p, long out[COUNTS])
{
	int i, k;

	for (k = 0; k < COUNTS; k++)
		out[k] = 0;
	for (i = p < 0 ? 0 : p; i <= (p < 0 ? MOST - 1 : p); i++)
		for (k = 0; k < COUNTS; k++)
			out[k] += __atomic_load_n(&by_processor[i].c_nr[k],
						  __ATOMIC_RELAXED);
}

static void add(enum count_what what)
{
	__atomic_fetch_add(&by_processor[me].c_nr[what], 1, __ATOMIC_RELAXED);
}

static struct line *line_of(const volatile void *at)
{
	uintptr_t nr = (uintptr_t)at / 64;
	uintptr_t i, none;

	for (i = nr * 0x9E3779B97F4A7C15u >> 44;; i = (i + 1) % LINES) {
		none = 0;
		if (__atomic_load_n(&table[i].l_nr, __ATOMIC_RELAXED) == nr ||
		    __atomic_compare_exchange_n(&table[i].l_nr, &none, nr, false,
				__ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
		    none == nr)
			return &table[i];
	}
}

/* Notes that the caller has the line, alone if it writes. Others had it: a miss. */
static void touch(const volatile void *at, bool writes)
{
	struct line *l = line_of(at);
	uint64_t by = __atomic_load_n(&l->l_by, __ATOMIC_RELAXED);
	uint64_t mine;

	if (self == 0)
		self = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
	mine = (uint64_t)1 << self % 64;
	if (writes ? by == mine : (by & mine) != 0)
		return;
	if (by != 0)
		add(MISSES);
	if (writes)
		__atomic_store_n(&l->l_by, mine, __ATOMIC_RELAXED);
	else
		__atomic_fetch_or(&l->l_by, mine, __ATOMIC_RELAXED);
}

static void loads(const volatile void *at)
{
	uintptr_t p = ((uintptr_t)at - first) / (each != 0 ? each : 1);

	touch(at, false);
	if (each != 0 && (uintptr_t)at >= first && p < (uintptr_t)nr_each &&
	    (int)p != me)
		add(LOOKS);
}

static void stores(volatile void *at, bool rmw)
{
	touch(at, true);
	if (rmw)
		add(RMW);
}

static void plainly(const volatile void *at, bool writes)
{
	if (__atomic_load_n(&plain, __ATOMIC_RELAXED))
		touch(at, writes);
}

/* What the compiler calls. */

#define PLAIN(size)							\
void __tsan_read##size(void *at);					\
void __tsan_read##size(void *at)	{ plainly(at, false); }		\
void __tsan_write##size(void *at);					\
void __tsan_write##size(void *at)	{ plainly(at, true); }		\
void __tsan_unaligned_read##size(void *at);				\
void __tsan_unaligned_read##size(void *at) { plainly(at, false); }	\
void __tsan_unaligned_write##size(void *at);				\
void __tsan_unaligned_write##size(void *at) { plainly(at, true); }

PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

void __tsan_read_range(void *at, unsigned long size);
void __tsan_read_range(void *at, unsigned long size)
{
	(void)at, (void)size;
}

void __tsan_write_range(void *at, unsigned long size);
void __tsan_write_range(void *at, unsigned long size)
{
	(void)at, (void)size;
}

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *from);
void __tsan_func_entry(void *from)
{
	(void)from;
}

void __tsan_func_exit(void *from);
void __tsan_func_exit(void *from)
{
	(void)from;
}

#define MODIFY(bits, type, name)					\
type __tsan_atomic##bits##_##name(volatile type *at, type by, int order); \
type __tsan_atomic##bits##_##name(volatile type *at, type by, int order) \
{									\
	(void)order;							\
	stores(at, true);						\
	return __atomic_##name(at, by, __ATOMIC_SEQ_CST);		\
}

#define COMPARE(bits, type, name)					\
int __tsan_atomic##bits##_compare_exchange_##name(volatile type *at,	\
	type *was, type by, int order, int failed);			\
int __tsan_atomic##bits##_compare_exchange_##name(volatile type *at,	\
	type *was, type by, int order, int failed)			\
{									\
	(void)order, (void)failed;					\
	stores(at, true);						\
	return __atomic_compare_exchange_n(at, was, by, false,		\
					   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
}

#define ATOMIC(bits, type)						\
type __tsan_atomic##bits##_load(const volatile type *at, int order);	\
type __tsan_atomic##bits##_load(const volatile type *at, int order)	\
{									\
	(void)order;							\
	loads(at);							\
	return __atomic_load_n(at, __ATOMIC_SEQ_CST);			\
}									\
void __tsan_atomic##bits##_store(volatile type *at, type by, int order); \
void __tsan_atomic##bits##_store(volatile type *at, type by, int order) \
{									\
	(void)order;							\
	stores(at, false);						\
	__atomic_store_n(at, by, __ATOMIC_SEQ_CST);			\
}									\
type __tsan_atomic##bits##_exchange(volatile type *at, type by, int order); \
type __tsan_atomic##bits##_exchange(volatile type *at, type by, int order) \
{									\
	(void)order;							\
	stores(at, true);						\
	return __atomic_exchange_n(at, by, __ATOMIC_SEQ_CST);		\
}									\
MODIFY(bits, type, fetch_add)						\
MODIFY(bits, type, fetch_sub)						\
MODIFY(bits, type, fetch_and)						\
MODIFY(bits, type, fetch_or)						\
MODIFY(bits, type, fetch_xor)						\
COMPARE(bits, type, strong)						\
COMPARE(bits, type, weak)

ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
	(void)order;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order)
{
	(void)order;
}

/* System calls. */

long __real_syscall(long nr, ...);
long __wrap_syscall(long nr, ...);

__attribute__((used)) long __wrap_syscall(long nr, ...)
{
	long a[6];
	va_list list;
	int i;

	va_start(list, nr);
	for (i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (nr == SYS_futex)
		add(FUTEX);
	if (nr == SYS_membarrier)
		add(FENCES);
	return __real_syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}
