/* SPDX-License-Identifier: MIT */
/* urefuse.c: which threads cannot leave. */

/*
 * A thread that runs has no record in a queue, no deadline and no wait. Each thread
 * that is packed is searched for all else that points to it, or that lies on its
 * stack and means nothing elsewhere:
 *
 *	a wake that it has not taken	the waker knows it by its address
 *	a scope that it has begun	u_f is ustack_shell() then: umove_mine()
 *	a lock that it holds		in the hard mode, which counts these
 *	a stack guard of the compiler	its value is a word on the stack
 *	a jmp_buf of glibc		words that point to code or to this lane
 *					when they are decoded
 *	code of shared libraries	return addresses, by the unwinder; it is
 *					asked only if a word points to such code
 *
 * Words may be left over in a place that no frame uses any more: those of printf(),
 * for example, in an array that is not filled yet. So a guard counts only if the
 * unwinder finds a frame of a function that has loaded a guard before it called.
 * (Not found are functions that call from a part which the compiler has moved away
 * from the rest, as .cold.) A jmp_buf that was left over does count, and the thread
 * stays though it could leave.
 *
 * REJECTED
 *
 *   - One stack guard for all processes: it would have to be set before the first
 *     frame, and a guard that is known is none.
 */

#define _GNU_SOURCE
#include "umove_inside.h"
#include "ucode.h"

#include "uproc.h"

#include <string.h>
#include <unwind.h>

UPREEMPT_NEVER;

static uintptr_t libs_low, libs_high;	/* machine code of all libraries */
static unsigned long long loaded;	/* counts libraries */

/* Notes where the code of libraries lies. Ends if none has come or gone. */
static int libs_look(struct dl_phdr_info *o, size_t size, void *first)
{
	int i;

	(void)size;
	if (*(bool *)first) {
		unsigned long long now = o->dlpi_adds + o->dlpi_subs;

		*(bool *)first = false;
		if (now == loaded)
			return 1;
		loaded = now;
		libs_low = libs_high = 0;
		return 0;
	}
	for (i = 0; i < o->dlpi_phnum; i++) {
		if (ucode_is_code(&o->dlpi_phdr[i]))
			ucode_widen(o, &o->dlpi_phdr[i], &libs_low, &libs_high);
	}
	return 0;
}

static void libs_find(void)
{
	bool first = true;

	(void)dl_iterate_phdr(libs_look, &first);
}

/* glibc keeps both in the thread control block. */
static uintptr_t guard_word(void)
{
	uintptr_t word = 0;

#if defined(__x86_64__) && defined(__GLIBC__)
	/* Not as compilers do it, which loads_guard() looks for. */
	__asm__("mov %%fs:(%1), %0" : "=r"(word) : "r"((uintptr_t)0x28));
#endif
	return word;
}

static uintptr_t jump_key(void)
{
	uintptr_t word = 0;

#if defined(__x86_64__) && defined(__GLIBC__)
	__asm__("mov %%fs:0x30, %0" : "=r"(word));
#endif
	return word;
}

/* What words on a stack are. */
enum { GUARD = 1, JUMP = 2, LIBRARY = 4 };

static UNCHECKED int words_look(const uintptr_t *at, const uintptr_t *end)
{
	uintptr_t guard = guard_word(), key = jump_key();
	uintptr_t low = (uintptr_t)at, size = (uintptr_t)end - low;
	int found = 0;

	for (; at < end; at++) {
		uintptr_t to = (*at >> 17 | *at << 47) ^ key;

		if (*at == guard && guard != 0)
			found |= GUARD;
		if (key != 0 && (to - umove_code_low < umove_code_high - umove_code_low ||
				 to - low < size))
			found |= JUMP;
		if (*at - libs_low < libs_high - libs_low)
			found |= LIBRARY;
	}
	return found;
}

/* A walk over frames: a return address, the library that has it. */
struct foreign {
	uintptr_t   fo_pc;
	const char *fo_name;
	bool        fo_guard;	/* a frame has a guard */
};

/* Is there mov %fs:0x28 to a register from at to end? */
static UNCHECKED bool loads_guard(uintptr_t at, uintptr_t end)
{
	static const unsigned char tail[5] = { 0x25, 0x28, 0, 0, 0 };

	for (; at + 9 <= end; at++) {
		const unsigned char *code = (const unsigned char *)at;

		if (code[0] == 0x64 && code[2] == 0x8b &&
		    memcmp(code + 4, tail, sizeof tail) == 0)
			return true;
	}
	return false;
}

static int object_look(struct dl_phdr_info *o, size_t size, void *foreign)
{
	struct foreign *fo = foreign;
	int i;

	(void)size;
	for (i = 0; i < o->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &o->dlpi_phdr[i];

		if (ucode_is_code(p) &&
		    fo->fo_pc - (o->dlpi_addr + p->p_vaddr) < p->p_memsz)
			fo->fo_name = o->dlpi_name;
	}
	return fo->fo_name != NULL;
}

static _Unwind_Reason_Code frame_look(struct _Unwind_Context *c, void *foreign)
{
	struct foreign *fo = foreign;

	fo->fo_pc = (uintptr_t)_Unwind_GetIP(c);
	if (fo->fo_pc - libs_low < libs_high - libs_low)
		(void)dl_iterate_phdr(object_look, fo);
	else if (loads_guard((uintptr_t)_Unwind_GetRegionStart(c), fo->fo_pc))
		fo->fo_guard = true;
	return fo->fo_name != NULL ? _URC_END_OF_STACK : _URC_NO_REASON;
}

static bool holds_lock(const struct ustack *u)
{
#if defined(USCHED_HARD)
	return u->u_holds.hs_nr + u->u_holds.hs_more > 0;
#else
	return (void)u, false;
#endif
}

static bool has_wake(const struct ustack *u)
{
	const struct uwakes *w = &((const struct uproc_thread *)u)->t_wakes;

	return w->w_count > 0 ||
		__atomic_load_n(&w->w_posted, __ATOMIC_RELAXED) >= UWAKES_ONE;
}

/* Returns why the caller, a thread, cannot leave, or NULL. */
static const char *why_not(const struct ustack *u, const void *sp,
			   struct foreign *fo)
{
	int found;

	if (has_wake(u))
		return "a wake has come that it has not waited for";
	if (holds_lock(u))
		return "it holds a lock";
	libs_find();
	found = words_look(sp, (void *)umove_sched->s_lane[u->u_lane].l_bottom);
	if (found & (LIBRARY | GUARD))
		(void)_Unwind_Backtrace(frame_look, fo);
	if (fo->fo_name != NULL)	/* which may have guards, too */
		return "a function of this library is on its stack: ";
	if (fo->fo_guard)
		return "a frame has a guard that differs in each process: compile "
			"with -fno-stack-protector";
	return found & JUMP ? "a jmp_buf is on its stack" : NULL;
}

NOINLINE bool umove_refused(const struct umove_thread *t, const char *call)
{
	struct foreign fo = { 0, NULL, false };
	const char *why = why_not(ustack_self(), __builtin_frame_address(0), &fo);
	char name[64];

	if (why == NULL)
		return false;
	usched_name(name, sizeof name, (const void *)(uintptr_t)t->th_f);
	usched_message("%s: the thread of %s cannot leave: %s%s", call,
		       name[0] != '\0' ? name : "a function", why,
		       fo.fo_name != NULL ? fo.fo_name : "");
	return true;
}
