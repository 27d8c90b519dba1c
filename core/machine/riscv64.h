/* SPDX-License-Identifier: MIT */
/* core/machine/riscv64.h: RISC-V, 64 bits with doubles. */

/*
 * RISC-V, 64 bits with doubles: ra, s0 to s11, fs0 to fs11.
 *
 *	sp - 16  free (two words)		sp + 104  fs0 to fs11
 *	sp       ra				sp + 200  free
 *	sp +  8  s0 to s11
 */
#define SWITCH_MOST	288

#define ONE(op, r, at) op " " r ", " at "(sp)\n"
#define REGISTERS(op)							\
	ONE(op, "s0", "8") ONE(op, "s1", "16") ONE(op, "s2", "24")	\
	ONE(op, "s3", "32") ONE(op, "s4", "40") ONE(op, "s5", "48")	\
	ONE(op, "s6", "56") ONE(op, "s7", "64") ONE(op, "s8", "72")	\
	ONE(op, "s9", "80") ONE(op, "s10", "88") ONE(op, "s11", "96")	\
	ONE("f" op, "fs0", "104") ONE("f" op, "fs1", "112")		\
	ONE("f" op, "fs2", "120") ONE("f" op, "fs3", "128")		\
	ONE("f" op, "fs4", "136") ONE("f" op, "fs5", "144")		\
	ONE("f" op, "fs6", "152") ONE("f" op, "fs7", "160")		\
	ONE("f" op, "fs8", "168") ONE("f" op, "fs9", "176")		\
	ONE("f" op, "fs10", "184") ONE("f" op, "fs11", "192")
#define AT(r, at) ".cfi_rel_offset " r ", " at "\n"

__asm__(".text\n .p2align 1\n"
FUNCTION("usched_save")
	"addi sp, sp, -208\n .cfi_def_cfa_offset 208\n sd ra, 0(sp)\n"
	REGISTERS("sd") AT("ra", "0") AT("s0", "8") AT("s1", "16")
	AT("s2", "24") AT("s3", "32") AT("s4", "40") AT("s5", "48")
	AT("s6", "56") AT("s7", "64") AT("s8", "72") AT("s9", "80")
	AT("s10", "88") AT("s11", "96")
	"mv t0, a0\n mv a0, sp\n"
	"addi sp, sp, -16\n .cfi_def_cfa_offset 224\n jalr t0\n"
	PLACE("usched_saved") "ebreak\n"
END("usched_save")
FUNCTION("usched_launch")
	".cfi_undefined ra\n mv sp, a0\n mv a0, a2\n"
	"li s0, 0\n li s1, 0\n li s2, 0\n li s3, 0\n li s4, 0\n li s5, 0\n"
	"li s6, 0\n li s7, 0\n li s8, 0\n li s9, 0\n li s10, 0\n li s11, 0\n"
	"jalr a1\n"
	PLACE("usched_bottom")
	"call usched_ended\n ebreak\n"
END("usched_launch"));

static ALWAYS_INLINE SWITCHES void usched_resume(char *sp, int rc)
{
	register long value __asm__("a0") = rc;

	__asm__ volatile("mv sp, %0\n" REGISTERS("ld") "ld ra, 0(sp)\n"
		"addi sp, sp, 208\n jr ra"
		: : "r"(sp), "r"(value) : "memory");
	__builtin_unreachable();
}

static ALWAYS_INLINE SWITCHES void usched_jump(char *sp, void (*f)(void *), void *arg)
{
	register void *a __asm__("a0") = arg;

	__asm__ volatile("mv sp, %0\n li ra, 0\n jr %1"
		: : "r"(sp), "r"(f), "r"(a) : "ra", "memory");
	__builtin_unreachable();
}

/* Never called: QUICK is 0. */
static ALWAYS_INLINE SWITCHES void usched_resume_open(char *sp, int *gate)
{
	(void)gate;
	usched_resume(sp, 0);
}

/* A function that saves all registers first leaves these. */
static ALWAYS_INLINE int prologue_nr(void)
{
	return 13;
}

static ALWAYS_INLINE const uintptr_t *prologue_words(void)
{
	extern const char usched_bottom[] HIDDEN;
	static const uintptr_t words[13] = {
		[12] = (uintptr_t)usched_bottom
	};

	return words;
}

/* usched_save() has put it there. */
static inline void mark_return(char *sp)
{
	(void)sp;
}

static inline int shadow_stack(void)
{
	return 0;
}
