/* SPDX-License-Identifier: MIT */
/* utrace.c: backtraces of blocked threads. */

/*
 * BLOCKED THREADS
 *
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
 * RUNNING THREADS
 *
 * Of a thread that runs, ulook.c knows the registers of one moment, and has a
 * copy of the inner part of its stack from the same moment. The copy is laid
 * out like a slice. Below it lie the registers:
 *
 *	|  look()  | registers | copy | zeros                     | zeros |
 *	           ^           ^                                  ^
 *	           w_land      w_top = sp                         m_bottom
 *
 * look() seems to be called by usched_moment, whose unwind table says that the
 * registers of its caller lie in memory, as after a signal. The walk ends where
 * the copy ends, since there the return address is zero. A register that is
 * unknown, or that points elsewhere, points to zeros, too: so a walk that needs
 * it also ends, and reads nothing outside of the scratch memory.
 *
 * This is for x86-64. On other machines a system call has its return address in
 * a register, which the kernel does not tell.
 *
 * Rejected: to walk by frame pointers (compilers omit them); to interpret the
 * tables ourselves (some thousand lines); to bring the slice back to its lane
 * for a moment (the caller may run on that lane).
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE			/* MAP_ANONYMOUS */
#endif
#include "utrace.h"
#include "upreempt.h"
#include "uslice.h"

#include <errno.h>

UPREEMPT_NEVER;

#if defined(USCHED_PORTABLE) || !defined(__ELF__)

int ustack_trace(const struct ustack *u, void **pc, int nr)
{
	(void)u, (void)pc, (void)nr;
	return -ENOSYS;
}

int utrace_moment(struct utrace_moment *m, void **pc, int nr)
{
	(void)m, (void)pc, (void)nr;
	return -ENOSYS;
}

#else

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

/*
 * Scratch below the copy: for the unwinder, the dynamic linker, and handlers.
 */
#define ROOM		((size_t)USCHED_GUARD)

struct walk {
	char     *w_top;	/* of the copy */
	ptrdiff_t w_nob;
	char     *w_land;	/* stack pointer of the call of look() */
	const void *w_from;	/* return address of the call of look() */
	char     *w_back;	/* sp of ustack_trace(), to return to */
	void    **w_pc;
	int       w_max, w_nr;
	bool      w_in;		/* the walk has reached the slice */
	bool      w_core;	/* the walk has reached code of usched.c */
	bool      w_whole;	/* the walk has reached usched_launch() */
};

/* The return address of the call of look() that usched_save() seems to make. */
extern const char usched_saved[] HIDDEN;
/* The return address of the call of look() in utrace_moment(). */
extern const char usched_moment[] HIDDEN;

static UNCHECKED void enter(char *sp, void *walk);
static NORETURN void land(char *sp, const void *from, void (*f)(void *),
			  void *arg);
static UNCHECKED void look(void *walk);
static _Unwind_Reason_Code frame(struct _Unwind_Context *c, void *walk);
static UNCHECKED int move_pointers(const struct walk *w, const char *from,
				   ptrdiff_t reach);
static bool is_core(uintptr_t pc);
static bool is_signed(const uintptr_t *word, const uintptr_t *end,
		      ptrdiff_t moved);

int ustack_trace(const struct ustack *u, void **pc, int nr)
{
	size_t page = sysconf(_SC_PAGESIZE);
	uintptr_t top = (uintptr_t)u->u_top & ~(uintptr_t)USLICE_LOW;
	struct walk w = { .w_pc = pc, .w_max = nr, .w_from = usched_saved };
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
	rc = move_pointers(&w, (char *)top, w.w_nob);
	if (rc == 0) {
		w.w_land = w.w_top;
		/* Control words may lie below the registers. */
		if ((uintptr_t)u->u_top & USLICE_FP)
			w.w_land += sizeof(uintptr_t);
		usched_save(enter, &w);
		rc = w.w_nr;
	}
	munmap(map, size);
	return rc;
}

/*
 * Adds to each pointer the distance from the slice to the copy; the slice has
 * reach bytes. 0 or -ENOSYS.
 */
static int move_pointers(const struct walk *w, const char *from,
			 ptrdiff_t reach)
{
	uintptr_t *at = (uintptr_t *)w->w_top;
	uintptr_t *end = (uintptr_t *)(w->w_top + w->w_nob);

	for (; at < end; at++) {
		if (*at - (uintptr_t)from <= (uintptr_t)reach)
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
	land(w->w_land, w->w_from, look, w);
}

/* Runs on the scratch stack. */
static void look(void *walk)
{
	struct walk *w = walk;

	(void)_Unwind_Backtrace(frame, w);	/* frame() notices the end */
	usched_resume_at(w->w_back, 0);
}

/* Called for look(), then w_from, then each frame to be stored. */
static _Unwind_Reason_Code frame(struct _Unwind_Context *c, void *walk)
{
	struct walk *w = walk;
	uintptr_t pc = _Unwind_GetIP(c);
	uintptr_t function = _Unwind_GetRegionStart(c);

	if (pc == (uintptr_t)w->w_from) {
		w->w_in = true;
		return _URC_NO_REASON;
	}
	/* ustack_block() calls the switch, or jumps to it. */
	if (!w->w_in || (w->w_nr == 0 && function == (uintptr_t)ustack_block))
		return _URC_NO_REASON;
	w->w_whole = function == (uintptr_t)usched_launch;
	if (pc == 0 || w->w_whole)
		return _URC_END_OF_STACK;
	w->w_core |= is_core(pc);
	if (w->w_nr < w->w_max)
		w->w_pc[w->w_nr] = (void *)pc;
	w->w_nr++;
	return _URC_NO_REASON;
}

/* Tells whether usched.c has this code, by the table of UPREEMPT_NEVER. */
static bool is_core(uintptr_t pc)
{
	const struct upreempt_never *v;

	for (v = __start_upreempt_never; v < __stop_upreempt_never; v++) {
		uintptr_t from = (uintptr_t)&v->v_from + v->v_from;
		uintptr_t nob = (uintptr_t)&v->v_to + v->v_to - from;

		if ((uintptr_t)usched_launch - from < nob && pc - from < nob)
			return true;
	}
	return false;
}

#if defined(__x86_64__)

#define ZEROS		((size_t)8192)
#define LONGEST		((size_t)1 << 30)	/* of stack */
enum { SP = 7, PC = 16 };

/* Lays out a moment in w, the scratch memory of which ends with zeros. */
static void lay_out(struct walk *w, const struct utrace_moment *m, char *zeros)
{
	uintptr_t sp = m->m_reg[SP], reach = (uintptr_t)m->m_bottom - sp;
	uintptr_t *reg = (uintptr_t *)(((uintptr_t)w->w_top & -16) -
		(PC + 2) * sizeof *reg);
	int i;

	memcpy(w->w_top, m->m_copy, w->w_nob);
	(void)move_pointers(w, (char *)sp, (ptrdiff_t)reach);
	for (i = 0; i < PC; i++) {
		uintptr_t from = m->m_reg[i] - sp;

		reg[i] = (uintptr_t)(from <= reach ? w->w_top + from : zeros);
	}
	reg[PC]   = m->m_reg[PC];
	w->w_land = (char *)(reg + 1);	/* land() begins a word below */
	w->w_from = usched_moment;
}

int utrace_moment(struct utrace_moment *m, void **pc, int nr)
{
	size_t page = sysconf(_SC_PAGESIZE), at = m->m_reg[SP] % page, size;
	size_t reach = (uintptr_t)m->m_bottom - m->m_reg[SP];
	struct walk w = { .w_pc = pc, .w_max = nr };
	char *map;

	m->m_sure = 0;
	if (reach > LONGEST || is_core(m->m_reg[PC]))
		return 0;
	size = ROOM + page + at + reach + ZEROS;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return -ENOMEM;
	w.w_top = map + ROOM + page + at;
	w.w_nob = m->m_nob < reach ? m->m_nob : reach;
	lay_out(&w, m, map + size - ZEROS / 2);
	usched_save(enter, &w);
	munmap(map, size);
	m->m_sure = w.w_whole && !w.w_core;
	return w.w_nr;
}

#else

int utrace_moment(struct utrace_moment *m, void **pc, int nr)
{
	(void)pc, (void)nr;
	m->m_sure = 0;
	return -ENOSYS;
}

#endif

/* Machines. land() enters f(arg) as if from had called it, with this sp. */

#if defined(__x86_64__)

static void land(char *sp, const void *from, void (*f)(void *), void *arg)
{
	__asm__ volatile("lea -8(%0), %%rsp\n push %1\n jmp *%2"
		: : "r"(sp), "r"(from), "r"(f), "D"(arg) : "memory");
	__builtin_unreachable();
}

/*
 * A return address; the code is never run. When it has returned, rsp points to
 * the registers, in the order of DWARF. The table says: CFA is what lies at
 * rsp + 7 * 8; the register r lies at rsp + r * 8.
 */
#define AT(r)	".cfi_escape 0x10, " #r ", 3, 0x77, "			\
		"0x80 + ((" #r " * 8) & 127), " #r " / 16\n"

__asm__(".text\n"
	".globl usched_moment\n.hidden usched_moment\n"
	".type usched_moment_code, @function\n"
	"usched_moment_code:\n"
	".cfi_startproc\n.cfi_signal_frame\n"
	".cfi_escape 0x0f, 4, 0x77, 0x80 + 56, 0, 0x06\n"
	AT(0) AT(1) AT(2) AT(3) AT(4) AT(5) AT(6) AT(8) AT(9) AT(10) AT(11)
	AT(12) AT(13) AT(14) AT(15) AT(16)
	"nop\nusched_moment:\nud2\n"
	".cfi_endproc\n"
	".size usched_moment_code, . - usched_moment_code\n");

#elif defined(__aarch64__)

static void land(char *sp, const void *from, void (*f)(void *), void *arg)
{
	register void *a __asm__("x0") = arg;
	register void (*to)(void *) __asm__("x16") = f;	/* as BTI wants it */

	__asm__ volatile("sub sp, %0, #16\n mov x30, %1\n br %2"
		: : "r"(sp), "r"(from), "r"(to), "r"(a)
		: "x30", "memory");
	__builtin_unreachable();
}

#else

static void land(char *sp, const void *from, void (*f)(void *), void *arg)
{
	register void *a __asm__("a0") = arg;

	__asm__ volatile("addi sp, %0, -16\n mv ra, %1\n jr %2"
		: : "r"(sp), "r"(from), "r"(f), "r"(a)
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
