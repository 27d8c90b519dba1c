/* SPDX-License-Identifier: MIT */
/* core/inplace.h: waits in place, without a call. */

/*
 * IN PLACE
 *
 * On x86-64 a wait of a scheduler contains the switch itself (usched_block() in
 * usched.h): assembly that puts the address to go on at into a register, jumps
 * to usched_live, and tells the compiler that no register survives. So the
 * compiler saves live registers itself, once in a function, and a switch stores
 * three words. The switch is a jump both ways. Processors predict returns by
 * the calls before, and a switch by calls would leave a call without its
 * return. ustack_block() is a function around the same assembly.
 *
 *   - usched_live saves rbx and rbp, which the list of the assembly leaves out:
 *     clang addresses locals by rbx in functions that realign their stack, and
 *     by rbp with frame pointers, also if the list names them.
 *   - What the assembly pushes must not lie in a red zone. Compilers use a red
 *     zone only in functions without calls. So the path of an error is a real
 *     call.
 *   - Registers that have no name in a file (AVX-512 without -mavx512f, under
 *     gcc) cannot be in the list: see usched.h.
 *   - Assembly loads thread-local variables, too. A compiler would keep their
 *     offset over the block, in a register that has to be saved and is needed
 *     first of all afterwards.
 *   - The stack is aligned as for a call, since the function contains a call.
 *
 * Files with USCHED_PREEMPT, where the timer of upreempt.h must tell code of
 * the program from code of the library, call ustack_block(). So do the hard
 * mode and other machines.
 */

#if defined(USCHED_LOCAL)
/* Not API. */
__attribute__((tls_model("initial-exec")))
extern __thread struct ustack *usched_current;
__attribute__((tls_model("initial-exec")))
extern __thread struct usched *usched_running;

/*
 * By assembly, since a compiler would keep the offset over a block, in a
 * register that has to be saved. Volatile, since it would keep the value, too,
 * and a thread may go on in another native thread.
 */
#define USCHED_TLS(type, name) __extension__({				\
	type usched_tls;						\
									\
	__asm__ volatile("mov {" #name "@gottpoff(%%rip), %0|"		\
				"%0, " #name "@gottpoff[rip]}\n\t"	\
			 "mov {%%fs:(%0), %0|%0, fs:[%0]}"		\
			 : "=r"(usched_tls));				\
	usched_tls;							\
})

static __inline__ struct ustack *ustack_self(void)
{
	return USCHED_TLS(struct ustack *, usched_current);
}

static __inline__ struct usched *usched_self(void)
{
	return USCHED_TLS(struct usched *, usched_running);
}
#endif

/*
 * For schedulers: ustack_block() by a thread, without a call where that is
 * possible. A call and a return for each block mislead the processor, which
 * pairs them. The compiler saves only registers that it needs later. The
 * assembly names all registers as lost. In a file without -mavx512f, gcc has no
 * names for those of AVX-512. So a function that uses them there, by a target
 * attribute, must not wait. With USCHED_CALL defined for the file, it may.
 */
#if defined(USCHED_LIVE) && defined(__GNUC__) &&			\
	!defined(USCHED_PREEMPT) && !defined(USCHED_HARD) &&		\
	!defined(USCHED_PORTABLE) &&					\
	!defined(USCHED_CALL) && !defined(__APX_F__) &&			\
	!defined(__AMX_TILE__) && !defined(__AMXTILE__)
#define USCHED_IN_PLACE
#endif

#if defined(USCHED_LIVE)
/* Not API. The switch itself: rc is 0 or -ENOMEM. */
#if defined(__AVX512F__) || defined(__clang__)
#define USCHED_CLOBBER_512						\
	"xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22",	\
	"xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29",	\
	"xmm30", "xmm31", "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7",
#else
#define USCHED_CLOBBER_512
#endif
#if defined(__SSE__)
#define USCHED_CLOBBER_SSE						\
	"xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",	\
	"xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",	\
	"xmm15",
#else
#define USCHED_CLOBBER_SSE
#endif
#if defined(__MMX__)
#define USCHED_CLOBBER_MMX						\
	"mm0", "mm1", "mm2", "mm3", "mm4", "mm5", "mm6", "mm7",
#else
#define USCHED_CLOBBER_MMX
#endif
#define USCHED_STRING(name)	#name
#if defined(__APPLE__)
#define USCHED_AT(name)		"_" USCHED_STRING(name)
#else
#define USCHED_AT(name)		USCHED_STRING(name) "@PLT"
#endif
#if defined(_SOFT_FLOAT)	/* gcc with -mno-80387 has no names for them */
#define USCHED_CLOBBER_X87
#else
#define USCHED_CLOBBER_X87						\
	"st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)",	\
	"st(7)",
#endif
/* Not API. Returns rc. */
int usched_refused(int rc);
/* In braces, for compilers: AT&T's syntax | Intel's. */
#define USCHED_JUMP(live)						\
	"lea {1f(%%rip), %%rcx|rcx, 1f[rip]}\n\t"			\
	"jmp " USCHED_AT(live) "\n1:"
#define USCHED_CLOBBER							\
	"rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13",	\
	"r14", "r15", USCHED_CLOBBER_X87 USCHED_CLOBBER_MMX		\
	USCHED_CLOBBER_SSE USCHED_CLOBBER_512 "cc", "memory"
#define USCHED_SWITCH_TO(rc, live)					\
	__asm__ volatile(USCHED_JUMP(live)				\
			 : "=a"(rc) : : "rdi", USCHED_CLOBBER)
#define USCHED_SWITCH(rc)	USCHED_SWITCH_TO(rc, usched_live)
#endif

#if defined(USCHED_IN_PLACE)
/* Not API. Returns rc, which USCHED_SWITCH() has set. */
static __inline__ __attribute__((always_inline)) int usched_switched(int rc)
{
	if (__builtin_expect(rc != 0, 0)) {
		/*
		 * A real call: else the locals might be in the red zone. And to
		 * what the compiler does not know: gcc takes it from the
		 * callees of a function, but not from assembly, that a static
		 * variable of the file may change when the function is called.
		 */
		rc = usched_refused(rc);
		__asm__ volatile("" : "+r"(rc));
	}
	return rc;
}
#endif

/* Blocks the running thread, as ustack_block() does, but without a call. */
static __inline__ __attribute__((always_inline)) int usched_block(void)
{
#if defined(USCHED_IN_PLACE)
	int rc;

	USCHED_SWITCH(rc);
	return usched_switched(rc);
#else
	return ustack_block();
#endif
}

/* Runs u, as usched_step() does, but without a call. */
static __inline__ __attribute__((always_inline))
int usched_enter(struct ustack *u)
{
#if defined(USCHED_IN_PLACE)
	int rc;

	__asm__ volatile(USCHED_JUMP(usched_live_enter)
			 : "=a"(rc), "+D"(u) : : USCHED_CLOBBER);
	return usched_switched(rc);
#else
	return usched_step(u);
#endif
}

/*
 * Blocks the running thread of a dispatcher that has s_coroutine set, and that
 * only usched_enter() and usched_step() run. Its threads have no floating-point
 * control words of their own: as a function does, a thread finds those of the
 * caller of the step, and leaves its own there. With usched_enter() a step
 * takes half the time of usched_step() and ustack_block(), or less if the
 * thread blocks now here, now there. 0, or -ENOMEM as ustack_block().
 */
static __inline__ __attribute__((always_inline)) int usched_pass(void)
{
#if defined(USCHED_IN_PLACE)
	int rc;

	USCHED_SWITCH_TO(rc, usched_live_step);
	return usched_switched(rc);
#else
	return ustack_block();
#endif
}
