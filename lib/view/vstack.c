/* SPDX-License-Identifier: MIT */
/* vstack.c: stacks by a hash of their return addresses. A part of the recorder. */

/*
 * To unwind a thread takes some 9 us, a hundred times as long as a switch. So a
 * stack is known by a hash of those words of its slice that point to code. There
 * are stale words, too, left of earlier calls. So many hashes may mean one
 * stack: a cache of the tap leads from hashes to numbers, and a table of the
 * file has each stack once. If a program makes new hashes all the time, the
 * credit runs out, and most of its blocks have no stack: each block earns one
 * UVIEW_UNWIND-th of an unwinding. Code that dlopen() loads later does not count.
 *
 * COST. Each word of a slice is compared with two ranges, of the program and of its
 * libraries. To leave out slices that have not changed would need a copy to compare
 * with, which costs as many loads.
 *
 * REJECTED
 *
 * Hashing only the top of a slice: two callers of one function with frames of one
 * size would be one stack.
 */

#if defined(__linux__)		/* as uview.c */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "vstack.h"
#include "vnames.h"
#include "usymbol.h"
#include "utrace.h"

#include <link.h>
#include <stddef.h>

UPREEMPT_NEVER;

#define WORDS		128	/* of a slice are hashed */

struct uview_range uview_data;

/* Code: of the program, and of all that was loaded with it. */
static struct uview_range code[2];

unsigned uview_function_new(struct uview_tap *a, unsigned i, void (*f)(void *))
{
	a->a_name[i].nr = uview_name(UVIEW_FUNCTION, (const void *)(uintptr_t)f);
	a->a_name[i].f  = f;
	return a->a_name[i].nr;
}

static NOINLINE unsigned stack_new(struct uview_tap *a, const struct ustack *u)
{
	void *pc[UVIEW_FRAMES];
	int nr = ustack_trace(u, pc, UVIEW_FRAMES);

	a->a_credit -= UVIEW_UNWIND;
	return nr > 0 ? uview_stack(uview_function_of(a, u), pc, nr) : 0;
}

/* Returns a hash of the words that point to code. Most do not. */
static inline UNCHECKED uint64_t hash_of(const uintptr_t *at, size_t nr,
					 uint64_t hash)
{
	uintptr_t from = code[0].c_from, size = code[0].c_size;
	uintptr_t from1 = code[1].c_from, size1 = code[1].c_size;
	const uintptr_t *end = at + (nr < WORDS ? nr : WORDS);

#define HASH(word) do {							\
	if (unlikely((word) - from < size || (word) - from1 < size1)) {	\
		hash = (hash ^ (word)) * 0x9e3779b97f4a7c15u;		\
		hash ^= hash >> 29;					\
	}								\
} while (0)
	for (; at + 1 < end; at += 2) {
		HASH(at[0]);
		HASH(at[1]);
	}
	if (at < end)
		HASH(at[0]);
#undef HASH
	return hash | 1;
}

unsigned uview_stack_of(struct uview_tap *a, const struct usched *s,
			const struct ustack *u, bool may_walk)
{
	size_t nob, all = (size_t)(s->s_lane[u->u_lane].l_bottom - uslice_place(u));
	const char *at = uslice_bytes(s, u, &nob);
	uint64_t hash = (uintptr_t)u->u_f ^ (uint64_t)all << 48;
	unsigned i;

	hash = hash_of((const uintptr_t *)at, nob / sizeof(uintptr_t), hash);
	i = (unsigned)(hash >> 20) & (UVIEW_HASHES - 1);
	if (likely(a->a_stack[i].hash == hash))
		return a->a_stack[i].nr;
	if (!may_walk || a->a_credit < UVIEW_UNWIND)
		return 0;
	a->a_stack[i].nr   = stack_new(a, u);
	a->a_stack[i].hash = hash;
	return a->a_stack[i].nr;
}

/* Notes where code and data are. Called for each loaded file, the program first. */
static int loaded(struct dl_phdr_info *info, size_t size, void *arg)
{
	int *nr = arg, i, which = *nr > 0;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + h->p_vaddr;
		uintptr_t to = from + h->p_memsz;
		uintptr_t *at = &code[which].c_from, *nob = &code[which].c_size;

		if (h->p_type != PT_LOAD)
			continue;
		if (!(h->p_flags & PF_X)) {
			if (!which && h->p_flags & PF_W) {
				uview_data.c_from = from;
				uview_data.c_size = to - from;
			}
			continue;
		}
		if (*nob != 0 && *at < from)
			from = *at;
		if (*nob != 0 && *at + *nob > to)
			to = *at + *nob;
		*at  = from;
		*nob = to - from;
	}
	(*nr)++;
	return 0;
}

void uview_code_find(void)
{
	int nr = 0;

	usymbol_ask();
	(void)dl_iterate_phdr(loaded, &nr);
	usymbol_asked();
}

#endif
