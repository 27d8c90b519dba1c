/* SPDX-License-Identifier: MIT */
/* held.h: words that threads hold, and a look for them, as that of a collector. */

#ifndef HELD_H
#define HELD_H

#include "check.h"
#include "compiler.h"

#if !defined(WORDS)
#define WORDS	4096		/* held at a time, at most: a power of two */
#endif
#define PLACES	(4 * WORDS)	/* of the table in which they are found */

/* Words that are held. Static memory has no word itself. */
static struct {
	uintptr_t   w_not;	/* ~ the word */
	int         w_state;	/* FREE, TAKEN, HELD (atomic) */
	const char *w_how;
} word[WORDS];
enum { FREE, TAKEN, HELD };

static uintptr_t draw(uintptr_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Keeps v alive up to here, in a register or on the stack. */
#define KEEP(v)	__asm__ volatile("" : "+r"(v) : : "memory")

/* Returns a word that is held from now on, and *i, its number. */
static NOINLINE uintptr_t hold(uintptr_t *state, int *i, const char *how)
{
	uintptr_t v;
	int was;

	do {
		*i = (int)(draw(state) >> 8) & (WORDS - 1);
		was = FREE;
	} while (!__atomic_compare_exchange_n(&word[*i].w_state, &was, TAKEN, 0,
			__ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
	v = (draw(state) & ~(uintptr_t)(WORDS - 1)) | (uintptr_t)*i;
	word[*i].w_not = ~v;
	word[*i].w_how = how;
	KEEP(v);
	__atomic_store_n(&word[*i].w_state, HELD, __ATOMIC_RELEASE);
	KEEP(v);
	return v;
}

/* The holder of v lets it go. */
static ALWAYS_INLINE void let_go(uintptr_t v)
{
	int i = (int)(v & (WORDS - 1));

	CHECK_IS(word[i].w_not, ~v);
	__atomic_store_n(&word[i].w_state, FREE, __ATOMIC_RELEASE);
	KEEP(v);
}

static struct { uintptr_t p_word; int p_found; } sought[PLACES];

static int sought_at(uintptr_t v)
{
	unsigned i = (unsigned)((v * 0x9e3779b97f4a7c15u) >> 40) % PLACES;

	while (sought[i].p_word != 0 && sought[i].p_word != v)
		i = (i + 1) % PLACES;
	return (int)i;
}

static UNCHECKED void scan(void *arg, const void *from, const void *to)
{
	const uintptr_t *at = (const uintptr_t *)(((uintptr_t)from + 7) & ~7ul);

	for (; (const char *)(at + 1) <= (const char *)to; at++)
		if (*at != 0)
			sought[sought_at(*at)].p_found = 1;
}

/* Puts all that is held into the table; then all has to be scanned. */
static UNUSED void look_begin(void)
{
	int i;

	memset(sought, 0, sizeof sought);
	for (i = 0; i < WORDS; i++)
		if (word[i].w_state == HELD)
			sought[sought_at(~word[i].w_not)].p_word = ~word[i].w_not;
}

/* Returns how a word is held that was not found, or NULL. */
static UNUSED const char *look_end(void)
{
	int i;

	for (i = 0; i < WORDS; i++)
		if (word[i].w_state == HELD && !sought[sought_at(~word[i].w_not)].p_found)
			return word[i].w_how;
	return NULL;
}

#endif /* HELD_H */
