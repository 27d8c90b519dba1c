/* SPDX-License-Identifier: MIT */
/* core/machine/x86_64.h: System V x86-64. */

/*
 * System V x86-64. The top of a slice:
 *
 *	sp - 16  mark_return()		sp +  8  rbp
 *	sp -  8  free, or struct fp_words	sp + 16  where to go on
 *	sp       rbx
 *
 * usched_live, to which a thread jumps that blocks, has the address to go on at
 * in rcx. All other registers are dead, as the compiler was told, or in the
 * frame of ustack_block() or usched_save(). The direction flag is clear and the
 * x87 stack empty. Under IBT there is no target for a branch behind a jump,
 * hence notrack.
 *
 * The control words are stored first of all, and compared late, since a
 * processor may have to wait for them. On AMD Zen 5 storing them takes 14
 * cycles, in which nothing else retires: a third of a switch. On Intel it is
 * cheap.
 */
#define SWITCH_MOST	112

#define PUSH(r)	"push %" r "\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset " r ", 0\n"
#define POP(r)	"pop %" r "\n.cfi_adjust_cfa_offset -8\n.cfi_restore " r "\n"
#define CLEAR(r) "xor %" r ", %" r "\n"

#define FP_STORED		/* struct fp_words, at sp - TOP */
#if defined(__CET__) && __CET__ & 1
#define ENDBR		"endbr64\n"
#else
#define ENDBR
#endif

/* Calls f(), with sp as argument arg. */
#define LIVE(name, f, arg)						\
SHARED(name) ".cfi_startproc\n .cfi_def_cfa_offset 0\n .cfi_register rip, rcx\n" \
	ENDBR								\
	"push %rcx\n .cfi_adjust_cfa_offset 8\n .cfi_offset rip, -8\n"	\
	PUSH("rbp") PUSH("rbx")						\
	"mov %rsp, %" arg "\n"						\
	"sub $16, %rsp\n .cfi_adjust_cfa_offset 16\n jmp " NAME(f) "\n"	\
	".cfi_adjust_cfa_offset -8\n nop\n"	/* where unwinders look */

REFUSED
__asm__(".text\n"
LIVE("usched_live_enter", "usched_entered", "rsi")
END("usched_live_enter")
LIVE("usched_live_step", "usched_passed", "rdi")
END("usched_live_step")
LIVE("usched_live", "usched_blocked", "rdi")
	PLACE("usched_saved") "hlt\n"
END("usched_live")
FUNCTION("usched_save")
	"sub $8, %rsp\n .cfi_adjust_cfa_offset 8\n"
	PUSH("r12") PUSH("r13") PUSH("r14") PUSH("r15")
	"mov %rdi, %rax\n lea 1f(%rip), %rcx\n .cfi_remember_state\n"
	"push %rcx\n .cfi_adjust_cfa_offset 8\n" PUSH("rbp") PUSH("rbx")
	"mov %rsp, %rdi\n"
	"sub $16, %rsp\n .cfi_adjust_cfa_offset 16\n jmp *%rax\n"
	".cfi_restore_state\n nop\n 1:\n"	/* the same */
	POP("r15") POP("r14") POP("r13") POP("r12")
	"add $8, %rsp\n .cfi_adjust_cfa_offset -8\n ret\n"
END("usched_save")
FUNCTION("usched_launch")
	".cfi_undefined rip\n mov %rdi, %rsp\n mov %rdx, %rdi\n"
	CLEAR("rbx") CLEAR("rbp") CLEAR("r12") CLEAR("r13") CLEAR("r14")
	CLEAR("r15") "call *%rsi\n"
	PLACE("usched_bottom") "call " NAME("usched_ended") "\n hlt\n"
END("usched_launch"));

static ALWAYS_INLINE SWITCHES void usched_resume(char *sp, int rc)
{
	__asm__ volatile("mov %0, %%rsp\n"
		"pop %%rbx\n pop %%rbp\n pop %%rcx\n notrack jmp *%%rcx"
		: : "r"(sp), "a"(rc) : "memory");
	__builtin_unreachable();
}

/* Does the same, and clears *gate when the old stack has been left. */
static ALWAYS_INLINE SWITCHES void usched_resume_open(char *sp, int *gate)
{
	__asm__ volatile("mov %0, %%rsp\n movl $0, (%1)\n"
		"pop %%rbx\n pop %%rbp\n pop %%rcx\n notrack jmp *%%rcx"
		: : "r"(sp), "r"(gate), "a"(0) : "memory");
	__builtin_unreachable();
}

static ALWAYS_INLINE SWITCHES void usched_jump(char *sp, void (*f)(void *), void *arg)
{
	__asm__ volatile("mov %0, %%rsp\n push $0\n jmp *%1"
		: : "r"(sp), "r"(f), "D"(arg) : "memory");
	__builtin_unreachable();
}

static inline void mark_return(char *sp)
{
	extern const char usched_saved[] HIDDEN;

	((uintptr_t *)sp)[-2] = (uintptr_t)usched_saved;
}

/* A function that saves all registers first leaves these. */
static ALWAYS_INLINE int prologue_nr(void)
{
	return 7;
}

static ALWAYS_INLINE const uintptr_t *prologue_words(void)
{
	extern const char usched_bottom[] HIDDEN;
	static const uintptr_t words[7] = {
		[6] = (uintptr_t)usched_bottom
	};

	return words;
}

/* rdsspq, spelled out: a no-op where there are none. */
static inline int shadow_stack(void)
{
	unsigned long ssp = 0;

	__asm__ volatile(".byte 0xf3, 0x48, 0x0f, 0x1e, 0xc8" : "+a"(ssp));
	return ssp != 0;
}
