/* SPDX-License-Identifier: MIT */
/* vnames.c: the names and stacks in the file of a recorder. */

/*
 * Names are written when a thing is first seen, because the process may be
 * killed, and its program replaced, before anyone reads them. The tables that
 * find the number of a thing are the process's own, and hold numbers only: the
 * thing itself is in the file.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* as usymbol.c */
#endif
#include "vnames.h"
#include "compiler.h"
#include "lock.h"
#include "upreempt.h"
#include "usymbol.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

UPREEMPT_NEVER;

#define TEXT_MOST	160		/* bytes of a name */
#define MARK_MOST	64

/* Numbers of entries, by hash; open addressing, and never full. */
struct table {
	uint16_t          *b_nr;
	unsigned           b_mask;
	struct uview_part *b_part;
};

static struct ulock lock;		/* protects all that follows */
static struct table by_name, by_stack;
static struct uview_name  *names;
static struct uview_stack *stack_list;
static struct uview_part  *texts;
static char *text_at;

void uview_names_renew(void)
{
	memset(&lock, 0, sizeof lock);
}

static int table_init(struct table *b, struct uview_part *part)
{
	b->b_part = part;
	b->b_mask = part->vp_room * 2 - 1;	/* a power of two */
	b->b_nr   = calloc(b->b_mask + 1, sizeof *b->b_nr);
	return b->b_nr != NULL ? 0 : -ENOMEM;
}

int uview_names_init(struct uview_file *file)
{
	struct uview_part *part = file->vf_part;

	names      = (void *)((char *)file + part[UVIEW_PART_NAMES].vp_at);
	stack_list = (void *)((char *)file + part[UVIEW_PART_STACKS].vp_at);
	texts      = &part[UVIEW_PART_TEXTS];
	text_at    = (char *)file + texts->vp_at;
	part[UVIEW_PART_NAMES].vp_nr = part[UVIEW_PART_STACKS].vp_nr = 1;
	return table_init(&by_name, &part[UVIEW_PART_NAMES]) == 0 ?
		table_init(&by_stack, &part[UVIEW_PART_STACKS]) : -ENOMEM;
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

/* Adds an entry, which is written, to b. Returns its number. */
static unsigned added(struct table *b, uint16_t *at)
{
	unsigned nr = b->b_part->vp_nr;

	*at = (uint16_t)nr;
	__atomic_store_n(&b->b_part->vp_nr, nr + 1, __ATOMIC_RELEASE);
	return nr;
}

/* Returns where the next entry of b is to be written; NULL: there is no room. */
static bool has_room(const struct table *b)
{
	return b->b_part->vp_nr < b->b_part->vp_room;
}

/* Writes the name that n shall have. False: there is no room. */
static bool text_put(struct uview_name *n, const char *text)
{
	size_t len = strlen(text), left = texts->vp_room - texts->vp_nr;

	if (len > left)
		return false;
	memcpy(text_at + texts->vp_nr, text, len);
	n->vn_text = texts->vp_nr;
	n->vn_len  = (uint16_t)len;
	__atomic_store_n(&texts->vp_nr, texts->vp_nr + (uint32_t)len,
			 __ATOMIC_RELEASE);
	return true;
}

/* Returns whether n is this name. A text has no address. */
static bool is_name(const struct uview_name *n, unsigned kind, const void *at,
		    const char *text)
{
	if (n->vn_kind != kind || n->vn_at != (uintptr_t)at)
		return false;
	return text == NULL || (n->vn_len == strlen(text) &&
		memcmp(text_at + n->vn_text, text, n->vn_len) == 0);
}

/* Returns the place of a name in the table; it is 0 if there is no such name. */
static uint16_t *name_place(unsigned kind, const void *at, const char *text)
{
	uint64_t hash = mix(kind, (uintptr_t)at);
	const char *c;
	unsigned i;

	for (c = text; c != NULL && *c != 0; c++)
		hash = mix(hash, (unsigned char)*c);
	for (i = (unsigned)hash & by_name.b_mask; by_name.b_nr[i] != 0;
	     i = (i + 1) & by_name.b_mask)
		if (is_name(&names[by_name.b_nr[i]], kind, at, text))
			break;
	return &by_name.b_nr[i];
}

/* Writes what is at this address. */
static void describe(char *text, enum uview_name_kind kind, const void *at)
{
	bool is_code = kind == UVIEW_CODE || kind == UVIEW_LIBRARY;

	(void)usymbol_name(text, TEXT_MOST, at, is_code);
	if (*text == 0)
		(void)snprintf(text, TEXT_MOST, "0x%lx",
			       (unsigned long)(uintptr_t)at);
}

/* Returns the number of a name, which it adds if need be. Caller holds lock. */
static unsigned name_nr(enum uview_name_kind kind, const void *at,
			const char *given)
{
	uint16_t *place = name_place(kind, at, given);
	struct uview_name *n = &names[by_name.b_part->vp_nr];
	char text[TEXT_MOST];

	if (*place != 0 || !has_room(&by_name))
		return *place;
	if (given == NULL)
		describe(text, kind, at);
	n->vn_at   = (uintptr_t)at;
	n->vn_kind = (uint16_t)kind;
	return text_put(n, given != NULL ? given : text) ?
		added(&by_name, place) : 0;
}

/* Returns whether this code is the library's, by the table of UPREEMPT_NEVER. */
static bool is_library(const void *pc)
{
	const struct upreempt_never *v;

	for (v = __start_upreempt_never; v < __stop_upreempt_never; v++) {
		uintptr_t from = (uintptr_t)&v->v_from + v->v_from;
		uintptr_t to = (uintptr_t)&v->v_to + v->v_to;

		if ((uintptr_t)pc - from < to - from)
			return true;
	}
	return false;
}

unsigned uview_name(enum uview_name_kind kind, const void *at)
{
	unsigned nr;

	ulock_get(&lock);
	nr = name_nr(kind, at, NULL);
	ulock_put(&lock);
	return nr;
}

unsigned uview_text(const char *text)
{
	char part[MARK_MOST];
	unsigned nr;

	(void)snprintf(part, sizeof part, "%s", text);
	ulock_get(&lock);
	nr = name_nr(UVIEW_TEXT, NULL, part);
	ulock_put(&lock);
	return nr;
}

void uview_object_name(const void *at, const char *text)
{
	char part[MARK_MOST];

	(void)snprintf(part, sizeof part, "%s", text);
	ulock_get(&lock);
	(void)name_nr(UVIEW_OBJECT, at, part);
	ulock_put(&lock);
}

static unsigned stack_nr(const struct uview_stack *k)
{
	const uint16_t *word = &k->vk_nr;
	uint64_t hash = 0;
	unsigned i;

	for (i = 0; i < k->vk_nr + 2u; i++)
		hash = mix(hash, word[i]);
	for (i = (unsigned)hash & by_stack.b_mask; by_stack.b_nr[i] != 0;
	     i = (i + 1) & by_stack.b_mask)
		if (memcmp(&stack_list[by_stack.b_nr[i]], k, sizeof *k) == 0)
			return by_stack.b_nr[i];
	if (!has_room(&by_stack))
		return 0;
	stack_list[by_stack.b_part->vp_nr] = *k;
	return added(&by_stack, &by_stack.b_nr[i]);
}

unsigned uview_stack(unsigned f, void *const *pc, int nr)
{
	struct uview_stack k = { .vk_f = (uint16_t)f };
	unsigned id;
	int i;

	k.vk_nr = (uint16_t)(nr < UVIEW_FRAMES ? nr : UVIEW_FRAMES);
	ulock_get(&lock);
	for (i = 0; i < k.vk_nr; i++) {
		const char *at = (const char *)pc[i] - 1;

		k.vk_frame[i] = (uint16_t)name_nr(is_library(at) ?
				UVIEW_LIBRARY : UVIEW_CODE, at, NULL);
	}
	id = stack_nr(&k);
	ulock_put(&lock);
	return id;
}
