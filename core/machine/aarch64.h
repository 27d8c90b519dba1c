/* SPDX-License-Identifier: MIT */
/* core/machine/aarch64.h: AAPCS64. */

/*
 * AAPCS64: x19 to x29, the link register, and the low halves of v8 to v15.
 *
 *	sp - 16  free (two words)		sp + 16  x19 to x28
 *	sp       x29, x30			sp + 96  d8 to d15
 *
 * Where branch targets are protected, only ret may go back behind a call.
 */
#define SWITCH_MOST	288

#if defined(__ARM_FEATURE_BTI_DEFAULT)
#define LANDING	"bti c\n"
#define BACK	"ret x17"
#else
#define LANDING	""
#define BACK	"br x17"
#endif
#define TWO(op, a, b, at) op " " a ", " b ", [sp, #" at "]\n"
#define REGISTERS(op)							\
	TWO(op, "x19", "x20", "16") TWO(op, "x21", "x22", "32")		\
	TWO(op, "x23", "x24", "48") TWO(op, "x25", "x26", "64")		\
	TWO(op, "x27", "x28", "80") TWO(op, "d8", "d9", "96")		\
	TWO(op, "d10", "d11", "112") TWO(op, "d12", "d13", "128")	\
	TWO(op, "d14", "d15", "144")
#define AT(r, at) ".cfi_rel_offset " r ", " at "\n"

__asm__(".text\n .p2align 2\n"
FUNCTION("usched_save") LANDING
	"stp x29, x30, [sp, #-160]!\n .cfi_def_cfa_offset 160\n"
	REGISTERS("stp") AT("x29", "0") AT("x30", "8") AT("x19", "16")
	AT("x20", "24") AT("x21", "32") AT("x22", "40") AT("x23", "48")
	AT("x24", "56") AT("x25", "64") AT("x26", "72") AT("x27", "80")
	AT("x28", "88") AT("d8", "96") AT("d9", "104") AT("d10", "112")
	AT("d11", "120") AT("d12", "128") AT("d13", "136") AT("d14", "144")
	AT("d15", "152")
	"mov x29, sp\n mov x16, x0\n mov x0, sp\n"
	"sub sp, sp, #16\n .cfi_def_cfa_offset 176\n blr x16\n"
	PLACE("usched_saved") "brk #0\n"
END("usched_save")
FUNCTION("usched_launch") LANDING
	".cfi_undefined x30\n mov sp, x0\n mov x0, x2\n"
	"mov x19, #0\n mov x20, #0\n mov x21, #0\n mov x22, #0\n mov x23, #0\n"
	"mov x24, #0\n mov x25, #0\n mov x26, #0\n mov x27, #0\n mov x28, #0\n"
	"mov x29, #0\n blr x1\n bl " NAME("usched_ended") "\n brk #0\n"
END("usched_launch"));

static ALWAYS_INLINE SWITCHES void usched_resume(char *sp, int rc)
{
	register long value __asm__("x0") = rc;

	__asm__ volatile("mov sp, %0\n" REGISTERS("ldp")
		"ldp x29, x30, [sp], #160\n mov x17, x30\n" BACK
		: : "r"(sp), "r"(value) : "memory");
	__builtin_unreachable();
}

static ALWAYS_INLINE SWITCHES void usched_jump(char *sp, void (*f)(void *), void *arg)
{
	register void *a __asm__("x0") = arg;
	register void (*to)(void *) __asm__("x16") = f;	/* as BTI wants it */

	__asm__ volatile("mov sp, %0\n mov x29, #0\n mov x30, #0\n br %1"
		: : "r"(sp), "r"(to), "r"(a) : "memory");
	__builtin_unreachable();
}

/* Never called: QUICK is 0. */
static ALWAYS_INLINE SWITCHES void usched_resume_open(char *sp, int *gate)
{
	(void)gate;
	usched_resume(sp, 0);
}

/* The return address is among the registers. */
static ALWAYS_INLINE int prologue_nr(void)
{
	return 10;
}

static ALWAYS_INLINE const uintptr_t *prologue_words(void)
{
	static const uintptr_t words[10];

	return words;
}

/* usched_save() has put it there. */
static inline void mark_return(char *sp)
{
	(void)sp;
}

/* chkfeat, spelled out: clears bit 0 if the guarded control stack is on. */
static inline int shadow_stack(void)
{
	register unsigned long off __asm__("x16") = 1;

	__asm__ volatile("hint #40" : "+r"(off));
	return off == 0;
}
