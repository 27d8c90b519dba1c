/* SPDX-License-Identifier: MIT */
/* core/probe.h: probes, at which tracers of the system look on. */

/*
 * PROBES
 *
 * A probe is a place in the library that bpftrace, perf, SystemTap and gdb find by
 * name while the program runs, and that stays as it is until they put a breakpoint
 * there: USDT. The provider is usched:
 *
 *	name	 arguments
 *
 *	make	 thread, function, argument: of a new thread
 *	begin	 the same: the thread runs for the first time
 *	block	 the same: the thread leaves its native thread
 *	wake	 the same: the thread, if it waits, need wait no longer
 *	end	 the same: the function has returned, or never will
 *	steal	 thief, victim, number: of workers of ws, and how many threads and
 *		 tasks the thief has taken
 *	fd_wait	 thread, descriptor, mask: 1 to read, 2 to write, 3 both
 *
 * Each thread has a make, then at most one begin, and for each begin an end. A
 * thread that gives way, or is preempted, blocks as others do, but no wake follows.
 * A step, as of a generator, ends with a block, too. wake is told by the waker, once
 * for each wait that ends, also for a wake by rr_post() and its like. Such wakes are
 * counted, and may come before the wait. The next wait of the thread then ends
 * without a block.
 *
 * These are not seen:
 *
 *   - rr_wake(), ll_wake() and ws_wake() of a thread of the caller's processor,
 *     which are inlined into the program. A file with USCHED_CALL or USCHED_PREEMPT
 *     calls the library instead, and there all are seen.
 *   - The moment at which a thread goes on after a block.
 *
 * A probe is a nop, and a note (.note.stapsdt) that says where the nop is, and where
 * the arguments are then. The note is no part of the memory of a program. An
 * argument is in a register that the code around has anyway, or a field that the
 * tracer reads. So no code prepares arguments, and without a tracer a probe costs the nop.
 * There are none in functions that programs inline, whose objects would get notes.
 *
 * A thread of a scope, or with a name, runs ustack_shell(). Its argument is a struct
 * ushell, where the next word after the first is the function inside.
 *
 * Where the system is not Linux, or files are not ELF, and with USCHED_NO_PROBES,
 * there are none.
 *
 * REJECTED
 *
 *   - A flag for each probe, which tells whether it is in use (a semaphore): a load
 *     and a test, to spare what no probe here does.
 *   - A nop of five bytes, which newer kernels replace by a call: older kernels take
 *     longer for it than for one byte, and to trace is not what must be fast.
 *   - No nop, and the address of the instruction that comes next: the compiler may
 *     let other code jump there.
 *   - A probe where threads go on: the code for that is inlined in seven places, and a
 *     switch would have another nop. The recorder (uview.h) knows that moment.
 *   - <sys/sdt.h>: a package more, and constraints by which compilers load arguments
 *     into registers first.
 */

#if defined(__linux__) && defined(__ELF__) && defined(__GNUC__) &&	\
	!defined(USCHED_NO_PROBES)

/* The words of a note that hold addresses, and the bytes of a pointer. */
#if __SIZEOF_POINTER__ == 8
#define USCHED_PROBE_WORD	".8byte "
#define USCHED_PROBE_POINTER	"8@"
#else
#define USCHED_PROBE_WORD	".4byte "
#define USCHED_PROBE_POINTER	"4@"
#endif
#define USCHED_PROBE_INT	"-4@"

/* By its lines gcc would take the assembly for a long piece of code. */
#if defined(__clang__) || __GNUC__ >= 9
#define USCHED_PROBE_ASM	__asm__ __inline__ volatile
#else
#define USCHED_PROBE_ASM	__asm__ volatile
#endif

/*
 * Not API. The note has a head (bytes of name and content, type 3), and the name. Then
 * it has three addresses and three strings: of the nop, of a byte, and of the flag,
 * which is 0 here. By the byte tracers see that a file was moved after it was linked
 * (prelink). A program has a single such byte, also if other libraries have probes. a, b
 * and c are operands of the assembly, and %0 to %2 in args.
 */
#define USCHED_PROBE(name, args, a, b, c)				\
	USCHED_PROBE_ASM("1:	nop\n"					\
		"	.pushsection .note.stapsdt, \"?\", \"note\"\n"	\
		"	.balign 4\n"					\
		"	.4byte 3f - 2f, 5f - 4f, 3\n"			\
		"2:	.asciz \"stapsdt\"\n"				\
		"3:	.balign 4\n"					\
		"4:	" USCHED_PROBE_WORD "1b, _.stapsdt.base, 0\n"	\
		"	.asciz \"usched\"\n"				\
		"	.asciz \"" #name "\"\n"				\
		"	.asciz \"" args "\"\n"				\
		"5:	.balign 4\n"					\
		"	.popsection\n"					\
		"	.ifndef _.stapsdt.base\n"			\
		"	.pushsection .stapsdt.base, \"aG\", \"progbits\", "	\
				".stapsdt.base, comdat\n"		\
		"	.weak _.stapsdt.base\n"				\
		"	.hidden _.stapsdt.base\n"			\
		"_.stapsdt.base: .space 1\n"				\
		"	.size _.stapsdt.base, 1\n"			\
		"	.popsection\n"					\
		"	.endif\n"					\
		: : a, b, c)
#else
#define USCHED_PROBE_POINTER	""
#define USCHED_PROBE_INT	""
#define USCHED_PROBE(name, args, a, b, c)	((void)0)
#endif

/* Not API. Tells of u. */
#define USCHED_PROBE_THREAD(name, u)					\
	USCHED_PROBE(name, USCHED_PROBE_POINTER "%0 "			\
		     USCHED_PROBE_POINTER "%1 " USCHED_PROBE_POINTER "%2", \
		     "r"(u), "m"((u)->u_f), "m"((u)->u_arg))
