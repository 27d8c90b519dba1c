/* SPDX-License-Identifier: MIT */
/* core/machine.h: the switch, for each machine. */

/*
 * A file for each machine has all that it differs in, so to port is to copy a
 * file. The control words come last, since portable builds have them, too. Each
 * file defines these:
 *
 * usched_save() saves the registers of its caller on the stack, then calls
 * f(sp, arg), sp being the address of the last, a multiple of TOP. f() does not
 * return. After usched_resume(sp, rc), usched_save() returns rc. TOP bytes
 * below sp are free for the use of f(). mark_return(sp) puts the return address
 * of f() where a debugger looks for it, if it is not there already.
 *
 * usched_jump() calls f(arg) with the stack pointer at sp or not far below.
 * usched_launch() calls f(arg) at the bottom of a lane, with cleared registers,
 * then usched_ended(). usched_resume_open() resumes, and clears *gate when the
 * old stack has been left.
 *
 * prologue_nr() words at the bottom of a slice, registers and a return address,
 * are as in prologue_words() after the prologue of most functions. SWITCH_MOST
 * bytes of a slice, at most, lie below the caller of ustack_block(): the frame
 * of that, saved registers, control words.
 */
HIDDEN UNCHECKED int usched_save(void (*f)(char *sp, void *arg), void *arg);
HIDDEN SWITCHES void usched_launch(char *bottom, void (*f)(void *), void *arg);

/* What the machine calls: the dispatcher. */
static SWITCHES void first_round(char *sp, void *sched);
HIDDEN UNCHECKED __attribute__((used)) void usched_blocked(char *sp, void *unused);
HIDDEN SWITCHES __attribute__((used)) void usched_ended(void);
HIDDEN SWITCHES __attribute__((used)) void usched_entered(struct ustack *u, char *sp);
HIDDEN SWITCHES __attribute__((used)) void usched_passed(char *sp);

/* Can s_quick() be asked: does a thread block in place? */
#if defined(USCHED_SWITCH) && !defined(USCHED_PORTABLE)
#define QUICK		1
#else
#define QUICK		0
#endif

/* Scratch for fp_get(), TOP bytes; on x86 the control words. */
struct fp_words {
	unsigned       w_mxcsr;
	unsigned short w_x87;
};

/*
 * Names in assembly. A FUNCTION is the library's own, what is SHARED is jumped
 * to from other files, too. A PLACE is an address within a function.
 */
#if defined(__APPLE__)
#define NAME(name)	"_" name
#define HIDE(name)	".globl _" name "\n.private_extern _" name "\n"
#define SHARED(name)	".globl _" name "\n_" name ":\n"
#define PLACE(name)	HIDE(name) ".alt_entry _" name "\n_" name ":\n"
#define TYPE(name)	""
#define SIZE(name)	""
#else
#define NAME(name)	name
#define HIDE(name)	".globl " name "\n.hidden " name "\n"
#define SHARED(name)	".globl " name "\n.protected " name "\n"	\
			TYPE(name) name ":\n"
#define PLACE(name)	HIDE(name) name ":\n"
#define TYPE(name)	".type " name ", %function\n"
#define SIZE(name)	".size " name ", . - " name "\n"
#endif
#define FUNCTION(name)	HIDE(name) TYPE(name) NAME(name) ":\n.cfi_startproc\n"
#define END(name)	".cfi_endproc\n" SIZE(name)

/*
 * Part of a wait that is in place: see usched_block(). In assembly, so that
 * compilers do not know what it does, not even with -flto.
 */
#define REFUSED								\
__asm__(".text\n" SHARED("usched_refused")				\
	".cfi_startproc\n endbr64\n mov %edi, %eax\n ret\n"		\
END("usched_refused"));

#if defined(USCHED_PORTABLE)
#include "machine/portable.h"
#elif defined(__x86_64__)
#include "machine/x86_64.h"
#elif defined(__aarch64__)
#include "machine/aarch64.h"
#else
#include "machine/riscv64.h"
#endif
#include "machine/fp.h"

/* Bytes of prologue words at the bottom of a slice: see core/buffer.h. */
#define PROLOGUE	(prologue_nr() * WORD)
/* So many of these are registers that not every function saves. */
#define PROLOGUE_MORE	(prologue_nr() > 2 ? 2 : 0)

/*
 * Returns prologue_words() as bytes. The compiler must not know what they are:
 * gcc 12 takes an address among them for 0 when it reads two words at once.
 */
static inline const char *prologue(void)
{
	const char *at = (const char *)prologue_words();

	__asm__("" : "+r"(at));
	return at;
}
