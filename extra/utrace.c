/* SPDX-License-Identifier: MIT */
/* utrace.c: backtraces of blocked threads. */

/*
 * A slice has all that an unwinder needs, but not in its place. The slice may
 * be in a buffer, at other addresses, without its last words (see "The bottom
 * of a slice" in usched.c); and in its lane another thread may run. So the
 * slice is laid out in scratch memory, as it would be in the lane, and a stack
 * pointer is set below it:
 *
 *	          scratch
 *	|  look()  |free| copy of the slice                        |
 *	           ^    ^                                          ^
 *	           sp   w_top                        w_top + w_nob
 *
 * as if the switch (usched_live, or usched_save() on machines without
 * usched_live) had just called look(). From there the unwinder goes up by
 * unwind tables: first of the switch and of ustack_block(), and so on, to
 * usched_launch(), whose table says that it is the outermost function.
 *
 * The unwinder finds frames by the stack pointer, which is in the copy, or by
 * saved registers that point into the slice: frame pointers, and registers with
 * which compilers realign a stack. So each word of the copy that is an address
 * in the slice is adjusted. Some of these words are pointers of the program, or
 * integers that look like addresses; that does no harm, since only the unwinder
 * reads the copy. The copy has the same offset in its page as the slice, so
 * aligned data stay aligned.
 *
 * Rejected: to walk by frame pointers (compilers omit them); to interpret the
 * tables ourselves (some thousand lines); to bring the slice back to its lane
 * for a moment (the caller may run on that lane).
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE			/* MAP_ANONYMOUS */
#endif
#include "utrace.h"
#include "uslice.h"

#include <errno.h>

UPREEMPT_NEVER;

#if defined(USCHED_PORTABLE) || !defined(__ELF__) || !defined(__LP64__) || \
	!(defined(__x86_64__) || defined(__aarch64__) ||		   \
	  (defined(__riscv) && defined(__riscv_float_abi_double)))

int ustack_trace(const struct ustack *u, void **pc, int nr)
{
	(void)u, (void)pc, (void)nr;
	return -ENOSYS;
}

#else

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

/*
 * Scratch below the copy: for the unwinder, the dynamic linker, and handlers.
 */
#define ROOM		((size_t)USCHED_GUARD)
/* A walk does not return as it was called, so sanitizers must not follow it. */
#define UNCHECKED	__attribute__((no_sanitize("address", "thread")))
#define HIDDEN		USLICE_HIDDEN
#define NORETURN	__attribute__((noreturn))

struct walk {
	char     *w_top;	/* of the copy */
	ptrdiff_t w_nob;
	char     *w_back;	/* sp of ustack_trace(), to return to */
	void    **w_pc;
	int       w_max, w_nr;
	bool      w_in;		/* the walk has reached the slice */
};

/* The return address of the call of look() that usched_save() seems to make. */
extern const char usched_saved[] HIDDEN;

static UNCHECKED void enter(char *sp, void *walk);
static NORETURN void land(char *sp, void (*f)(void *), void *arg);
static UNCHECKED void look(void *walk);
static _Unwind_Reason_Code frame(struct _Unwind_Context *c, void *walk);
static UNCHECKED int move_pointers(const struct walk *w, const char *from);
static bool is_signed(const uintptr_t *word, const uintptr_t *end,
		      ptrdiff_t moved);

int ustack_trace(const struct ustack *u, void **pc, int nr)
{
	size_t page = sysconf(_SC_PAGESIZE);
	uintptr_t top = (uintptr_t)u->u_top & ~(uintptr_t)USLICE_LOW;
	struct walk w = { .w_pc = pc, .w_max = nr };
	size_t size;
	char *map;
	int rc;

	if (usched_runs(u))
		return -EBUSY;
	if (uslice_is_new(u))
		return 0;
	if (u->u_top == USLICE_ENDED || u->u_sched->s_lane == NULL)
		return -EINVAL;
	w.w_nob = usched_slice(u, NULL);
	size = ROOM + page + w.w_nob;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return -ENOMEM;
	w.w_top = map + ROOM + top % page;
	(void)usched_slice(u, w.w_top);
	rc = move_pointers(&w, (char *)top);
	if (rc == 0) {
		/* Control words may lie below the registers. */
		if ((uintptr_t)u->u_top & USLICE_FP)
			w.w_top += sizeof(uintptr_t);
		usched_save(enter, &w);
		rc = w.w_nr;
	}
	munmap(map, size);
	return rc;
}

/*
 * Adds to each pointer the distance from the slice to the copy. 0 or -ENOSYS.
 */
static int move_pointers(const struct walk *w, const char *from)
{
	uintptr_t *at = (uintptr_t *)w->w_top;
	uintptr_t *end = (uintptr_t *)(w->w_top + w->w_nob);

	for (; at < end; at++) {
		if (*at - (uintptr_t)from <= (uintptr_t)w->w_nob)
			*at += w->w_top - from;
		else if (is_signed(at, end, w->w_top - from))
			return -ENOSYS;
	}
	return 0;
}

static void enter(char *sp, void *walk)
{
	struct walk *w = walk;

	w->w_back = sp;
	land(w->w_top, look, w);
}

/* Runs on the scratch stack. */
static void look(void *walk)
{
	struct walk *w = walk;

	(void)_Unwind_Backtrace(frame, w);	/* frame() notices the end */
	usched_back(w->w_back, 0);
}

/* Called for look(), then the switch, then each frame to be stored. */
static _Unwind_Reason_Code frame(struct _Unwind_Context *c, void *walk)
{
	struct walk *w = walk;
	uintptr_t pc = _Unwind_GetIP(c);
	uintptr_t function = _Unwind_GetRegionStart(c);

	if (pc == (uintptr_t)usched_saved) {
		w->w_in = true;
		return _URC_NO_REASON;
	}
	/* ustack_block() calls the switch, or jumps to it. */
	if (!w->w_in || (w->w_nr == 0 && function == (uintptr_t)ustack_block))
		return _URC_NO_REASON;
	if (pc == 0 || function == (uintptr_t)usched_launch)
		return _URC_END_OF_STACK;
	if (w->w_nr < w->w_max)
		w->w_pc[w->w_nr] = (void *)pc;
	w->w_nr++;
	return _URC_NO_REASON;
}

/* Machines. land() enters f(arg) as if usched_save() had called it from sp. */

#if defined(__x86_64__)

static void land(char *sp, void (*f)(void *), void *arg)
{
	__asm__ volatile("lea -8(%0), %%rsp\n push %1\n jmp *%2"
		: : "r"(sp), "r"(usched_saved), "r"(f), "D"(arg) : "memory");
	__builtin_unreachable();
}

#elif defined(__aarch64__)

static void land(char *sp, void (*f)(void *), void *arg)
{
	register void *a __asm__("x0") = arg;
	register void (*to)(void *) __asm__("x16") = f;	/* as BTI wants it */

	__asm__ volatile("sub sp, %0, #16\n mov x30, %1\n br %2"
		: : "r"(sp), "r"(usched_saved), "r"(to), "r"(a)
		: "x30", "memory");
	__builtin_unreachable();
}

#else

static void land(char *sp, void (*f)(void *), void *arg)
{
	register void *a __asm__("a0") = arg;

	__asm__ volatile("addi sp, %0, -16\n mv ra, %1\n jr %2"
		: : "r"(sp), "r"(usched_saved), "r"(f), "r"(a)
		: "ra", "memory");
	__builtin_unreachable();
}

#endif

/*
 * On aarch64 a return address may be signed together with the stack pointer of
 * its frame. Such an address is not valid in a copy, and the unwinder might be
 * killed for it. Tells whether the word was signed for a frame between it and
 * end; word is in the copy, which is moved bytes from the slice. The hints are
 * xpaclri, pacia1716 and pacib1716, which do nothing on a processor that does
 * not sign.
 */
#if defined(__aarch64__)

#define SIGN(hint, pc, sp) __extension__({				\
	register uintptr_t x17 __asm__("x17") = (pc);			\
	register uintptr_t x16 __asm__("x16") = (sp);			\
	__asm__ volatile(hint : "+r"(x17) : "r"(x16));			\
	x17; })

static bool is_signed(const uintptr_t *word, const uintptr_t *end,
		      ptrdiff_t moved)
{
	register uintptr_t x30 __asm__("x30") = *word;
	uintptr_t pc, sp;

	__asm__ volatile("hint #7" : "+r"(x30));
	pc = x30;
	if (pc == *word || _Unwind_FindEnclosingFunction((void *)pc) == NULL)
		return false;
	for (sp = (uintptr_t)word & -16; sp <= (uintptr_t)end; sp += 16) {
		if (SIGN("hint #8", pc, sp - moved) == *word ||
		    SIGN("hint #10", pc, sp - moved) == *word)
			return true;
	}
	return false;
}

#else

static bool is_signed(const uintptr_t *word, const uintptr_t *end,
		      ptrdiff_t moved)
{
	(void)word, (void)end, (void)moved;
	return false;
}

#endif

#endif
