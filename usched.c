/* SPDX-License-Identifier: MIT */
/* usched.c: a dispatcher of cooperative user-space threads. */

/*
 * OVERVIEW
 *
 * The usual user-space thread owns a stack of some kilobytes, most of which it
 * never uses. Here all threads run on the same stack. A thread that blocks
 * leaves behind only the slice of stack between its first frame and the stack
 * pointer, and when another thread needs the place the slice is copied to a
 * small buffer. A million threads cost what a million slices cost.
 *
 * That is the scheme of usched (N. Danilov, "usched: stackswap coroutines,
 * neither stackful nor stackless"). His usched copies each slice out at each
 * block. With usched_lanes(), this dispatcher puts the copying off, and mostly
 * never copies: see "Lanes".
 *
 *   + A thread uses as much stack as it likes while it runs, and blocks from
 *     any depth of ordinary C calls.
 *   + A blocked thread costs a struct ustack and the bytes of its slice.
 *   + A thread that never blocks costs a function call.
 *   + The scheduler alone (struct usched) chooses the thread that runs next.
 *
 *   - While a thread is blocked, addresses of its locals are meaningless to
 *     other threads.
 *   - A cold thread, whose slice had to move, costs two copies a block.
 *
 * LIFE OF A THREAD
 *
 * The stack grows to the left. usched_run(S) saves its registers and starts
 * the first round:
 *
 *                                                       | registers | ...
 *                                                       ^
 *                                     S->s_base == S->s_exit (but for 8 bytes)
 *
 * In a round S->s_next() chooses a thread U, on the dispatcher's stack, that
 * is, to the left of s_base. If U is new, it is given a lane L, a stretch of
 * stack, and U->u_f() is called at its bottom by usched_launch():
 *
 *            U->u_f()      usched_launch()
 *   ... |    frame     | return address |
 *       ^                               ^
 *       sp                              L->l_bottom
 *
 * U runs, calls, returns, until somewhere it blocks. Registers that
 * are still needed are saved, and usched_blocked() notes where that ended:
 *
 *   switch      bar()       foo()      U->u_f()
 *   | regs | frame |    frame    |    frame     | return address |
 *   ^                                                            ^
 *   U->u_top                                           L->l_bottom
 *   |<--------------------- the slice of U --------------------->|
 *
 * The slice is all that is kept of a blocked thread. If the scheduler has
 * prepared the next thread, and the slice of that lies in its lane, the switch
 * goes there at once. Else the stack pointer is set to S->s_base, and the next
 * round starts. Every round starts from the same place, so nothing of the
 * dispatcher has to be saved.
 *
 * When U is to run again, its slice must lie where it lay. The stack pointer is
 * set to U->u_top, usched_resume() pops the registers, and the thread goes on.
 *
 * When U->u_f() returns, usched_launch() goes on with usched_ended(). If
 * s_again() has given U another function, that is launched at once, in the same
 * lane; else the dispatcher calls s_done(), and the next round starts.
 *
 * LANES
 *
 * A thread is bound to one lane from its first run to its end: frames hold
 * addresses of frames, so a slice must come back to where it was. The thread
 * whose live slice lies in a lane is the owner of the lane.
 *
 * Lane 0 is the native stack, to the left of s_base. The dispatcher itself
 * goes on there, so a thread that blocks in lane 0 is copied out at once,
 * from its own stack, before the switch.
 *
 * usched_lanes() maps other lanes, and then lane 0 is not used. In these a
 * blocked thread stays where it is. Only when another thread has to run in the
 * lane, the slice of the owner is copied to its buffer ("evicted"), and the
 * slice of the other thread is copied in. If the owner is resumed first,
 * nothing was copied at all. So hot threads stay in place and switch as fast as
 * threads with stacks of their own, and cold threads shrink to a buffer.
 *
 * A thread that blocks where it blocked before, with a buffer for its whole
 * slice, needs no look at the buffer. If u_top is the stack pointer, it stayed
 * in its lane; with AWAY, it was copied in, and is cold. A cold thread that
 * blocks is nearly always followed by another. If both slices begin at the same
 * address, and have buffers of the same length, one loop copies the owner of
 * the lane out and the other in (swap()).
 *
 * The buffer is allocated when the thread blocks, on its stack, where failure
 * can be reported and undone. Only the copying is put off.
 *
 * A new thread takes the lane that became free last, which is in the cache. If
 * none is free it takes a lane that was never used. If all have threads bound
 * to them it takes one of the first USCHED_SHARED, in turn. These are few, so
 * that lanes whose slices move at each block stay in the first-level cache.
 *
 * The bottoms of lanes are staggered, so that slices do not fight for the same
 * cache sets. The USCHED_GUARD bytes below each lane cannot be touched.
 *
 * The pages that a deep thread has touched stay when the thread has become
 * shallow, or has ended. usched_trim() gives back those below the slice, or all
 * of them if the lane has no owner: nothing below a slice is in use.
 *
 * DEEP THREADS
 *
 * A buffer for a slice of some kilobytes costs as much as a lane, and copying
 * it takes longer than all else. So if threads of a function block deep (with
 * DEEP bytes or more), its new threads are given lanes of their own, where no
 * other thread ever runs. Such a thread is never copied and needs no buffer:
 * u_stack is NULL. u_len is set above the depth, so that own_fit() is called
 * only after the depth has changed much.
 *
 * Own lanes have the numbers above s_lane_nr: OWN_EACH for each other lane, up
 * to SHRT_MAX in all. They are mapped OWN_NR at a time, as they are needed, and
 * belong to all dispatchers that share lanes. If no more can be mapped, the
 * thread takes a shared lane.
 *
 *	s_own_free      lanes that this dispatcher's threads have left ("warm"),
 *	                with their memory: WARM bytes at most
 *	o_free          lanes without memory, of all (under o_lock)
 *
 * The lane of a thread that ends goes to the first list. If there are too many,
 * some give their memory to the system and go to the second list. The lane that
 * came last stays, because s_done() may still use what lies there.
 *
 * A thread that becomes shallow gives back the pages below its slice, at once
 * the first time. If the thread is deep again later, that was wrong. So the
 * next time it must have blocked four times in the shallow place before, then
 * 16 times, and so on, up to PATIENCE.
 *
 * The dispatcher learns by function, u_f: o_deep, a small table, keeps a credit
 * for each. A thread that blocks deep for the first time adds DEEP_EARNS, on
 * whatever lane. A thread that blocks in its own lane for the first time takes
 * 1. A thread that ends there, and blocked but never deep, takes DEEP_WRONG. So
 * a function that becomes shallow soon has no credit, and a function that is
 * deep at times is given no more lanes than are of use.
 *
 * The first own lanes (GUARDS_FEW) have a mapping as guard. Further guards are
 * in the page tables, where the kernel can do that (Linux 6.13), and cost no
 * mapping. Where it cannot, guards may take an eighth of the mappings that a
 * process may have, and no more own lanes are made. With 16,000 lanes of 256
 * KiB a thread with 10,000 bytes took 14.4 KiB, and 670 bytes of page tables;
 * with buffers 10.7 KiB, with stacks from malloc() 12.4.
 *
 * In the hard mode threads with own lanes have buffers, too, since the mode
 * moves all slices.
 *
 * THE TOP OF A SLICE
 *
 * u_top is where the slice starts, 8-aligned. Its low bits tell the unusual
 * cases apart, so that a round needs one look to know that it can just resume:
 *
 *	FP_ON_TOP  the first word of the slice holds control words
 *	NO_SLICE   the thread is new; or it has ended (with AWAY)
 *	AWAY       the slice is in the buffer, not in the lane
 *
 * A new thread whose struct was zeroed and filled by hand has a null pointer
 * here. That has no low bits, and costs a round a second look.
 *
 * The control words are those of floating point: mxcsr and the x87 control
 * word, fpcr, frm, with rounding, traps, and flushing of denormals, but not the
 * sticky flags. They belong to the thread. But nearly every thread has the
 * words of the dispatcher (s_fp), which are those of the first caller of
 * usched_run(). Each block reads and compares them. The dispatcher keeps them
 * in the slice, and sets them back, only where they differ. Coroutines
 * (s_coroutine) share them with the caller of usched_step(): none are read.
 *
 * THE BOTTOM OF A SLICE
 *
 * usched_launch() clears the registers that a function has to save, and most
 * functions save them first of all. So the bottom of most slices is the same: a
 * return address into usched_launch() and some words of zero, up to 56 bytes on
 * x86-64, where the rest of a small slice is 64. A buffer may leave these words
 * out (SHORT in u_len), if each block finds them BARE: still as those functions
 * leave them. When a slice is copied in, all these words are written first. A
 * function that blocks in place need not save rbx and rbp; then a word or two
 * less is BARE. A thread that has a lane to itself is given a buffer for the
 * whole slice: the buffer is not used, and its blocks need not look at the
 * bottom.
 *
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
 *
 * usched_live stores the control words (see "The top of a slice") before all
 * else, and they are compared last. On AMD Zen 5 storing them takes 14 cycles,
 * in which nothing else retires: a third of a switch. On Intel it is cheap.
 * With -DUSCHED_SHARE_FP they are neither stored nor compared, for programs
 * whose threads never change them.
 *
 * usched_enter() steps a thread in place, from usched_live_enter, and
 * usched_pass() ends the step from usched_live_step. Neither stores control
 * words, and no round starts. The registers of the caller lie where
 * usched_save() would put them (s_exit), and the mark of the run in the free
 * word below.
 *
 * LEAVING
 *
 * A longjmp() may leave usched_run(), from a thread or from a call-back. Then
 * none of our code runs until usched_left(S) is called where the jump has
 * landed. By then the stack frame of usched_run() may be overwritten. So all
 * that a return would need is in S->s_frame. These frames are chained, the
 * innermost first, and a jump may leave several at once:
 *
 *	usched_here --> in.s_frame --> S.s_frame --> out.s_frame --> NULL
 *	                |<----- left by a jump ----->|
 *
 * usched_left(S) ends the runs down to S, each as if its thread had aborted:
 * the lane of the thread has no owner and may be used again. All other threads
 * of these dispatchers stay blocked: none of their slices is in a frame that
 * was left.
 *
 * Without usched_left() the library cannot always tell that a run was left. A
 * dispatcher that was left has s_base set, and is refused. Another usched_run()
 * writes a mark into its own frame, and then looks for the mark of the
 * innermost run (f_mark): a frame that is alive always has it.
 *
 * SIGNALS
 *
 * A handler runs below the stack pointer of the code that it interrupts. So a
 * live slice is always above the stack pointer, or in a lane that the stack
 * pointer is not in; and code that copies runs below the slice, or on another
 * lane. usched_jump() moves the stack pointer by one instruction.
 *
 * INVARIANTS
 *
 * I1. A slice returns to the addresses that it left.
 * I2. A lane has at most one owner, and runs on one native thread at a time.
 * I3. From switch-out to switch-in only the dispatcher touches the slice.
 * I4. Nothing is copied to or from below the stack pointer of the copier.
 * I5. An error leaves every thread and buffer as it was.
 * I6. Between a block and the resume of a prepared thread no call-back chooses.
 *     s_next() and s_done() run on the dispatcher's stack; s_alloc(), s_free()
 *     and s_again() on the stack of the thread that blocks, or has ended.
 * I7. The buffer of a blocked thread holds its slice, but for BARE words.
 * I8. All that the end of a run needs is in struct usched, not in a stack
 *     frame; and a run can end at each call-back.
 *
 * REJECTED
 *
 *   - Stack pointer and registers in struct ustack instead of on the stack: as
 *     many bytes, in a further cache line.
 *   - A call of the switch, and going on by `ret': faster where all threads
 *     block at the same place. Elsewhere half as fast, and each return up
 *     through wrappers is mispredicted.
 *   - s_next() called on the stack of the thread that blocks: against I6.
 *   - AVX copies of slices: no gain.
 *   - The first buffer in one struct with the thread: its length would have to
 *     be guessed before the first block.
 *   - Own lanes for functions that the program names: the program would have to
 *     know the depth of its callees.
 *   - Own lanes for all threads: small threads take 4 to 12 KiB there, where a
 *     buffer takes 64 bytes.
 *   - A mapping for all own lanes at once: 5 to 10 GiB of addresses, which a
 *     limit (RLIMIT_AS) refuses, or leaves nothing of for the program.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE			/* MAP_ANONYMOUS under -std=c11 */
#endif
#include "usched.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#if !defined(MAP_NORESERVE)
#define MAP_NORESERVE	0
#endif

#if !defined(__ELF__) || !defined(__LP64__) ||				\
	!(defined(__x86_64__) || defined(__aarch64__) ||		\
	  (defined(__riscv) && defined(__riscv_float_abi_double)))
#undef  USCHED_PORTABLE
#define USCHED_PORTABLE
#endif
#if defined(USCHED_PORTABLE)
#include <setjmp.h>
#endif

/*
 * Valgrind does not know lanes: under it threads run on the native stack. And it
 * reports each look at words that no function has written, BARE or not.
 */
#if defined(__has_include) && !defined(NVALGRIND)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#endif
#if !defined(RUNNING_ON_VALGRIND)
#define RUNNING_ON_VALGRIND	0
#endif

UPREEMPT_NEVER;

/* Points where the hard mode is called: see uhard.h. HOOK_RC() may refuse. */
#if defined(USCHED_HARD)
#include "uhard.h"
#define HARD		1
#define HOOK(call)	uhard_##call
#define HOOK_RC(call)	uhard_##call
#define FIRST(u)	uhard_first, (u)
#else
#define HARD		0
#define HOOK(call)	((void)0)
#define HOOK_RC(call)	0
#define FIRST(u)	(u)->u_f, (u)->u_arg
#endif

/* Lanes that are shared when there are more threads than lanes. */
#define USCHED_SHARED	16
/* A buffer that is larger than its slice by more than this is given back. */
#define USCHED_SLACK	4096
/* A slice of so many bytes is deep: its buffer costs as much as a lane. */
#if !defined(USCHED_DEEP)
#define USCHED_DEEP	2048
#endif
/* Not in the list of free lanes. */
#define NOT_FREE	(-1)
/* In s_steps; 0: usched_run(). IN_PLACE: usched_enter(). */
enum { STEPS = 1, STEP_ENDED = 2, IN_PLACE = 4 };
/*
 * In u_len: the buffer is short of what is BARE; or the thread has a lane of
 * its own, and needs none. Other lengths that fit() asks for are multiples of
 * 8. s_alloc() and s_free() see SHORT, too; it counts no byte that is used.
 */
#define SHORT		4
#define OWN		1
/* In u_top: see "The top of a slice". */
#define FP_ON_TOP	1
#define NO_SLICE	2
#define AWAY		4
#define LOW_BITS	7
#define NEW		((char *)NO_SLICE)
#define ENDED		((char *)(NO_SLICE | AWAY))
#define GUARD		((size_t)USCHED_GUARD)
/* Bytes by which the bottom of one lane is higher than that of the next. */
#define STAGGER		128
#define WORD		((int)sizeof(uintptr_t))
/* Bytes copied at once, and the least that is stored of a slice. */
#define PAIR		16
typedef uint64_t pair __attribute__((vector_size(PAIR), aligned(1), may_alias));

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define NOINLINE	__attribute__((noinline))
#define ALWAYS_INLINE	inline __attribute__((always_inline))
#define NORETURN	__attribute__((noreturn))
/* Not forced with sanitizers: gcc would check it in UNCHECKED functions. */
#if defined(USCHED_HARD)
#define INLINE		inline
#else
#define INLINE		ALWAYS_INLINE
#endif
#define HIDDEN		__attribute__((visibility("hidden")))
/*
 * Callers assume nothing about its body, also with -flto: from assembly gcc
 * would conclude that it leaves variables and registers of AVX-512 alone.
 */
#define UNKNOWN		NOINLINE
#if defined(__has_attribute)
#if __has_attribute(noipa)
#undef  UNKNOWN
#define UNKNOWN		__attribute__((noipa))
#endif
#endif
/*
 * For functions that do not return, or copy poisoned memory: sanitizers cannot
 * follow them. For clang's thread sanitizer "no" is not enough: it still counts
 * calls.
 */
#define UNCHECKED	__attribute__((no_sanitize("address", "thread")))
#if defined(__has_attribute)
#if __has_attribute(disable_sanitizer_instrumentation)
#undef  UNCHECKED
#define UNCHECKED	__attribute__((no_sanitize("address", "thread"), \
				       disable_sanitizer_instrumentation))
#endif
#endif

/*
 * The machine: one block for each at the end of this file.
 *
 * usched_save() saves the registers of its caller on the stack, then calls
 * f(sp, arg), sp being the address of the last. f() does not return. After
 * usched_resume(sp, rc), usched_save() returns rc. The word below sp is free
 * for the use of f(). mark_return(sp) puts the return address of f() where a
 * debugger looks for it, if it is not there already.
 *
 * usched_jump() calls f(arg) with the stack pointer at sp or not far below.
 * usched_launch() calls f(arg) at the bottom of a lane, with cleared registers,
 * then usched_ended(). usched_resume_open() resumes, and clears *gate when the
 * old stack has been left.
 *
 * bare_nr() words at the bottom of a slice may be BARE, registers and a return
 * address, and are then as in bare_words().
 */
HIDDEN UNCHECKED int usched_save(void (*f)(char *sp, void *arg), void *arg);
HIDDEN UNCHECKED NORETURN void usched_launch(char *bottom, void (*f)(void *), void *arg);
static ALWAYS_INLINE UNCHECKED NORETURN void usched_resume(char *sp, int rc);
static ALWAYS_INLINE UNCHECKED NORETURN void usched_resume_open(char *sp, int *gate);
static ALWAYS_INLINE UNCHECKED NORETURN void usched_jump(char *sp, void (*f)(void *), void *arg);
static ALWAYS_INLINE int bare_nr(void);
static ALWAYS_INLINE const uintptr_t *bare_words(void);
static inline void mark_return(char *sp);
static inline int shadow_stack(void);
static inline unsigned fp_get(void *scratch);
static inline unsigned fp_saved(char *sp);
static INLINE void fp_set(unsigned fp);

#define BARE		(bare_nr() * WORD)
/* So many of these are registers that not every function saves. */
#define BARE_MORE	(bare_nr() > 2 ? 2 : 0)
/* Can s_quick() be asked: does a thread block in place? */
#if defined(USCHED_SWITCH) && !defined(USCHED_PORTABLE)
#define QUICK		1
#else
#define QUICK		0
#endif

/* 1. The dispatcher. */
static UNCHECKED NORETURN void first_round(char *sp, void *sched);
static UNCHECKED NORETURN void round_start(void *sched);
static ALWAYS_INLINE void set_running(struct ustack *u);
static ALWAYS_INLINE struct ustack *hand(const struct usched *s);
static ALWAYS_INLINE void hand_take(struct usched *s);
static ALWAYS_INLINE int is_simple(const struct ustack *u);
static ALWAYS_INLINE UNCHECKED NORETURN void go(struct usched *s, struct ustack *u);
static UNCHECKED NORETURN void switch_in(struct usched *s, struct ustack *u);
static UNCHECKED NORETURN void switch_in_slice(void *ustack);
HIDDEN UNCHECKED __attribute__((used)) void usched_blocked(char *sp, void *ustack);
static ALWAYS_INLINE UNCHECKED NORETURN void switch_from(struct usched *s);
static UNCHECKED NORETURN void blocked_anew(char *sp, struct ustack *u);
static UNCHECKED NORETURN void blocked_slow(char *sp, struct ustack *u, struct usched_lane *l);
HIDDEN UNCHECKED NORETURN __attribute__((used)) void usched_ended(void);
static ALWAYS_INLINE UNCHECKED NORETURN void thread_end(struct ustack *u);
static UNCHECKED NORETURN void thread_done(void *ustack);
static ALWAYS_INLINE void copy(char *to, const char *from, ptrdiff_t nob);
static ALWAYS_INLINE unsigned bits(const struct ustack *u);
static inline char *slice(const struct ustack *u);
static void evict(struct usched_lane *l);
static void restore(struct usched_lane *l, struct ustack *u);
static ALWAYS_INLINE int is_bare(const struct usched_lane *l, ptrdiff_t nob);
static ALWAYS_INLINE int is_short(const struct usched *s, const struct ustack *u,
				  const struct usched_lane *l, size_t spare);
static int  fit(struct ustack *u, struct usched_lane *l, ptrdiff_t need);
static int  lane_get(struct usched *s, const struct ustack *u);
static void lane_put(struct usched *s, struct ustack *u);
static void base_set(struct usched *s, char *exit, char *base);
static const void *stack_id(const struct ustack *self);

/* 2. The rest of it. */
static ALWAYS_INLINE UNCHECKED void thread_reuse(struct ustack *u);
static ALWAYS_INLINE UNCHECKED NORETURN void ask_quick(struct usched *s);
static UNCHECKED NORETURN void blocked_again(char *sp, struct ustack *u);
static ALWAYS_INLINE UNCHECKED NORETURN void switch_cold(char *sp, struct ustack *u);
static ALWAYS_INLINE UNCHECKED NORETURN void swap(struct usched *s, struct ustack *u);
static UNCHECKED void move(struct usched_lane *l, struct ustack *o, struct ustack *u);
static ALWAYS_INLINE void copy_both(char *out, char *at, const char *in, ptrdiff_t nob);
static ALWAYS_INLINE void fetch(const struct usched *s, const struct usched_queue *q);
static int  lanes_map(struct usched *s, int nr, size_t head, size_t lane,
		      size_t page);
static inline int is_own(const struct usched *s, int lane);
static int  own_is(const struct usched *s, const struct ustack *u);
static void note_depth(struct usched *s, const struct ustack *u, ptrdiff_t need);
static int  own_fit(struct ustack *u, struct usched_lane *l, ptrdiff_t need);
static void own_put(struct usched *s, struct ustack *u);
static void own_unmap(struct usched *s);
HIDDEN UNCHECKED NORETURN __attribute__((used)) void usched_entered(struct ustack *u, char *sp);
HIDDEN UNCHECKED NORETURN __attribute__((used)) void usched_passed(char *sp);
static int  stands(const struct usched_frame *f);
static UNCHECKED void leave(struct usched *s);
static INLINE void hooks(struct usched *s, int begins);
static void hooks_gone(struct ustack *u);
static INLINE void check(const struct usched *s);
static void check_once(const struct usched *s);
static void adopt(struct ustack *u);
static NORETURN void misplaced(const char *sp, const struct usched_lane *l);

/* For modules that look into threads: see uslice.h. */
HIDDEN int usched_runs(const struct ustack *u);
HIDDEN ptrdiff_t usched_slice(const struct ustack *u, char *to);
HIDDEN ptrdiff_t usched_stored(const struct ustack *u);
HIDDEN int usched_lane(const struct usched *s);
HIDDEN int usched_own_nr(const struct usched_own *o);
HIDDEN UNCHECKED NORETURN void usched_back(char *sp, int rc);

#define CONTRACT(cond, text)						\
	do {								\
		if (unlikely(!(cond)))					\
			usched_fail(text);				\
	} while (0)

#if defined(__x86_64__) && defined(__ELF__)
#define OURS	__attribute__((used))	/* assembly names them */
#else
#define OURS	static
#endif
OURS __thread struct ustack *usched_current;
OURS __thread struct usched *usched_running;

#if !defined(USCHED_TLS)
NOINLINE struct ustack *ustack_self(void)
{
	__asm__ volatile("" : : : "memory");	/* nor foreseen */
	return usched_current;
}

NOINLINE struct usched *usched_self(void)
{
	__asm__ volatile("" : : : "memory");
	return usched_running;
}
#endif

/* The dispatchers that run on this native thread, the innermost first. */
static __thread struct usched_frame *usched_here;

/*
 * 1. THE DISPATCHER
 *
 * Read this: how a thread begins, blocks, goes on and ends; copying; the lane
 * of a thread. Parts 2 and 3 define what part 1 only calls.
 */

/* Sets the control words, if threads of s have their own. */
static INLINE void fp_put(const struct usched *s, unsigned fp)
{
	if (!s->s_coroutine)
		fp_set(fp);
}

/* Returns the control words of the caller of a step, if they matter. */
static INLINE unsigned words(const struct usched *s, void *scratch)
{
	return s->s_coroutine && s->s_home != NULL ? s->s_fp : fp_get(scratch);
}

/* Makes u the running thread; NULL: none runs. */
static ALWAYS_INLINE void set_running(struct ustack *u)
{
	usched_current = u;
	usched_running = u != NULL ? u->u_sched : NULL;
}

/*
 * Begins a run, of u alone if u is not NULL. fp are the control words of the
 * caller. mark is in the caller's stack frame.
 */
static ALWAYS_INLINE UNCHECKED void run_begin(struct usched *s,
					      struct ustack *u, int steps,
					      unsigned fp,
					      struct usched *volatile *mark)
{
	*mark = NULL;		/* first: see stands() */
	check(s);
	*mark = s;
	s->s_step  = u;
	s->s_steps = steps;
	if (s->s_lane == NULL)
		s->s_lane = &s->s_native;
	if (s->s_home == NULL) {
		check_once(s);
		s->s_fp   = fp;		/* threads that block rely on it */
		s->s_bare = HARD || RUNNING_ON_VALGRIND ? 0 : BARE;
	}
	s->s_frame = (struct usched_frame) { s, usched_current, usched_here,
					     mark, fp };
	usched_here = &s->s_frame;
	hooks(s, 1);
	HOOK(begin(s));
	if (fp != s->s_fp)
		fp_set(s->s_fp);
}

static ALWAYS_INLINE UNCHECKED void run_end(struct usched *s)
{
	s->s_base = NULL;
	set_running(s->s_frame.f_self);
	HOOK(end(s));
	hooks(s, 0);
	usched_here = s->s_frame.f_up;
}

/* Goes back to where a run was begun. Runs at s_base, or below a slice. */
static ALWAYS_INLINE UNCHECKED NORETURN void run_leave(struct usched *s)
{
	if (!(s->s_steps & IN_PLACE))
		usched_resume(s->s_exit, 0);
	fp_put(s, s->s_frame.f_fp);
	run_end(s);
	usched_resume(s->s_exit, (s->s_steps & STEP_ENDED) != 0);
}

/* Runs u alone, or all threads if u is NULL. */
static ALWAYS_INLINE UNCHECKED void run(struct usched *s, struct ustack *u,
					unsigned fp)
{
	struct usched *volatile mark;

	run_begin(s, u, u != NULL ? STEPS : 0, fp, &mark);
	usched_save(first_round, s);
	/* A block leaves those words of s; a call-back may leave others. */
	if (fp != s->s_fp || s->s_steps != STEPS)
		fp_put(s, fp);
	run_end(s);
}

UNCHECKED void usched_run(struct usched *s)
{
	uintptr_t scratch;

	run(s, NULL, fp_get(&scratch));
}

/* Chooses a thread and goes there. Runs at s_base. */
static void round_start(void *arg)
{
	struct usched *s = arg;
	struct ustack *u;

	usched_current = NULL;
	usched_running = NULL;
	HOOK(home(s));
	u = unlikely(s->s_steps != 0) ? s->s_step : hand(s);
	if (unlikely(s->s_steps != 0))
		s->s_step = NULL;	/* when it has run, that is all */
	else if (u != NULL)
		hand_take(s);
	else
		u = s->s_next(s);
	if (unlikely(u == NULL))
		run_leave(s);
	CONTRACT(u->u_sched == s,
		 "s_next: returned a thread of another dispatcher");
	usched_running = s;
	if (likely(is_simple(u)))
		go(s, u);
	switch_in(s, u);
}

/* Returns the prepared thread that hand_take() would take, or NULL. */
static ALWAYS_INLINE struct ustack *hand(const struct usched *s)
{
	const struct usched_queue *q = s->s_queue;

	if (s->s_left == 0)
		return NULL;
	if (s->s_hot != NULL)
		return s->s_hot;
	return q != NULL && q->q_head != q->q_tail ?
		q->q_ring[q->q_head & q->q_mask] : NULL;
}

static ALWAYS_INLINE void hand_take(struct usched *s)
{
	struct usched_queue *q = s->s_queue;

	s->s_left--;
	if (s->s_hot != NULL) {
		s->s_hot = NULL;
		return;
	}
	if (q->q_tail - q->q_head > s->s_ahead - 1)
		fetch(s, q);
	__atomic_store_n(&q->q_head, q->q_head + 1, __ATOMIC_RELAXED);
}

/* Does u lie in its lane, with the usual control words? */
static ALWAYS_INLINE int is_simple(const struct ustack *u)
{
	return !HARD && bits(u) == 0 && u->u_top != NULL;
}

static ALWAYS_INLINE UNCHECKED NORETURN void go(struct usched *s, struct ustack *u)
{
	usched_current = u;
	usched_running = s;
	usched_resume(u->u_top, 0);
}

/* Marked as used, since the usched_live of portable builds names it. */
__attribute__((used)) UNKNOWN int ustack_block(void)
{
	int rc;

	CONTRACT(usched_current != NULL,
		 "ustack_block: called outside of a thread");
#if defined(USCHED_SWITCH) && !defined(USCHED_PORTABLE)
	USCHED_SWITCH(rc);
#else
	rc = usched_save(usched_blocked, NULL);
#endif
	HOOK(arrived());
	return rc;
}

/*
 * Blocks the running thread, whose slice ends at sp. Runs below the slice, on
 * the same stack. Usually it only compares, and touches no memory below the
 * word below sp: a small slice and that word are two cache lines.
 */
void usched_blocked(char *sp, void *unused)
{
	struct usched *s = usched_running;
	struct ustack *u = usched_current;

	(void)unused;
	/* A new place, a SHORT buffer, or a lane of its own? */
	if (HARD || unlikely(u->u_top != sp || u->u_len & (SHORT | OWN)))
		blocked_again(sp, u);
	if (unlikely(fp_saved(sp) != s->s_usual))
		blocked_slow(sp, u, &s->s_lane[u->u_lane]);
	switch_from(s);
}

/* Goes from a thread that has blocked, and stays in its lane, to the next. */
static ALWAYS_INLINE void switch_from(struct usched *s)
{
	struct ustack *t = hand(s);

	if (likely(t != NULL && bits(t) == 0)) {
		hand_take(s);
		usched_current = t;
		usched_resume(t->u_top, 0);
	}
	if (QUICK && t == NULL && s->s_quick != NULL)
		ask_quick(s);
	usched_jump(s->s_base, round_start, s);
}

/* Blocks u at a new place, or in a lane of its own. */
static NOINLINE void blocked_anew(char *sp, struct ustack *u)
{
	struct usched *s = u->u_sched;
	struct usched_lane *l = &s->s_lane[u->u_lane];
	size_t spare = u->u_len - (l->l_bottom - sp);	/* huge if negative */

	if (HARD || unlikely(fp_saved(sp) != s->s_usual))
		blocked_slow(sp, u, l);
	if (unlikely(spare > USCHED_SLACK)) {
		if (!is_short(s, u, l, spare))
			blocked_slow(sp, u, l);
		switch_cold(sp, u);
	}
	u->u_top = sp;
	switch_from(s);
}

static NOINLINE void blocked_slow(char *sp, struct ustack *u,
				  struct usched_lane *l)
{
	struct usched *s = u->u_sched;
	unsigned fp = s->s_coroutine ? s->s_fp : fp_get(sp - WORD);
	char *top = sp;
	ptrdiff_t need;
	int rc = 0;

	mark_return(sp);
	if (fp != s->s_fp) {
		top = sp - WORD;
		*(uintptr_t *)top = fp;
	}
	need = l->l_bottom - top;
	if (unlikely(need <= 0 || (l->l_low != NULL && top < l->l_low)))
		misplaced(sp, l);
	if (u->u_len - need > USCHED_SLACK ||
	    (u->u_len < need && !is_short(s, u, l, u->u_len - need)))
		rc = fit(u, l, need);
	if (rc == 0)
		rc = HOOK_RC(fit(u, need));
	if (rc != 0)
		usched_resume(sp, rc);
	u->u_top = top;
	if (fp != s->s_fp) {
		u->u_top += FP_ON_TOP;
		fp_set(s->s_fp);
	}
	if (l == &s->s_native)
		evict(l);	/* I4: we are below the slice */
	HOOK(leave(u, l));
	usched_jump(s->s_base, round_start, s);
}

/* Ends a thread that has returned. usched_launch() calls it on its stack. */
void usched_ended(void)
{
	thread_end(usched_current);
}

UNCHECKED void ustack_abort(void)
{
	CONTRACT(usched_current != NULL,
		 "ustack_abort: called outside of a thread");
	thread_end(usched_current);
}

static ALWAYS_INLINE void thread_end(struct ustack *u)
{
	HOOK(leave(u, NULL));
	thread_reuse(u);
	u = usched_current;
	usched_jump(u->u_sched->s_base, thread_done, u);
}

/* Runs at s_base. */
static void thread_done(void *arg)
{
	struct ustack *u = arg;
	struct usched *s = u->u_sched;

	usched_current = NULL;
	usched_running = NULL;
	fp_put(s, s->s_fp);
	HOOK(home(s));
	HOOK(ended(u));
	lane_put(s, u);
	u->u_top = ENDED;
	if (s->s_steps != 0)
		s->s_steps |= STEP_ENDED;
	if (s->s_done != NULL)
		s->s_done(s, u);	/* u may be gone now */
	round_start(s);
}

/* Goes to u, which is new or AWAY, or has control words of its own. */
static NOINLINE void switch_in(struct usched *s, struct ustack *u)
{
	struct usched_lane *l;

	CONTRACT(u->u_top != ENDED, "s_next: returned a thread that has ended");
	CONTRACT(u->u_lane >= 0 && (u->u_lane <= s->s_lane_nr || own_is(s, u)),
		 "s_next: returned a thread with a lane that does not exist, "
		 "or that is the own lane of another one");
	if (u->u_top == NULL)
		adopt(u);
	if (u->u_top == NEW && u->u_lane == 0)
		u->u_lane = lane_get(s, u);
	l = &s->s_lane[u->u_lane];
	usched_current = u;
	if (l->l_owner != u && l->l_owner != NULL)
		evict(l);
	HOOK(enter(u, l));
	l->l_owner = u;
	if (u->u_top == NEW) {
		l->l_bound++;
		HOOK(resume(u));
		usched_launch(l->l_bottom, FIRST(u));
	}
	if (l == &s->s_native)
		usched_jump((char *)((uintptr_t)slice(u) & -16),
			    switch_in_slice, u);
	switch_in_slice(u);
}

/* Resumes u, which has blocked. Runs below its slice, or on another lane. */
static void switch_in_slice(void *arg)
{
	struct ustack *u = arg;
	char *top = slice(u);

	if (bits(u) & AWAY)
		restore(&u->u_sched->s_lane[u->u_lane], u);
	if (bits(u) & FP_ON_TOP) {
		fp_set(*(uintptr_t *)top);
		top += WORD;
	}
	HOOK(resume(u));
	usched_resume(top, 0);
}

void ustack_init(struct ustack *u, struct usched *s, void (*f)(void *),
		 void *arg, void *stack, int len)
{
	CONTRACT(f != NULL && len >= 0 && (stack != NULL || len == 0),
		 "ustack_init: no function, or a length without a buffer");
	memset(u, 0, sizeof *u);
	u->u_sched = s;
	u->u_f     = f;
	u->u_arg   = arg;
	u->u_stack = stack;
	u->u_len   = len;
	u->u_top   = NEW;
}

void ustack_shell(void *shell)
{
	struct ushell *h = shell;

	h->h_run(h);
}

const struct ushell *ustack_shell_of(void *shell)
{
	return shell;
}

void ustack_fini(struct ustack *u)
{
	CONTRACT(!usched_runs(u), "ustack_fini: the thread is running; "
		 "after a longjmp() out of it call usched_left() first");
	HOOK(ended(u));
	if (!(bits(u) & NO_SLICE) && u->u_top != NULL &&
	    u->u_sched->s_lane != NULL) {
		hooks_gone(u);
		lane_put(u->u_sched, u);
		u->u_sched->s_forgot++;
	}
	u->u_top = ENDED;
}

/* Copying. */

/*
 * Copies at least PAIR bytes. The last pair overlaps the pair before it, so no
 * branch is needed for the rest. A wider load cannot be served from the store
 * buffer, where the registers just pushed still are.
 */
static ALWAYS_INLINE void copy(char *to, const char *from, ptrdiff_t nob)
{
	ptrdiff_t i;

	if (!HARD && unlikely(nob > 1024)) {
		memcpy(to, from, nob);
		return;
	}
	for (i = 0; i < nob - PAIR; i += PAIR)
		*(pair *)(to + i) = *(const pair *)(from + i);
	i = nob - PAIR;
	*(pair *)(to + i) = *(const pair *)(from + i);
}

/* Returns the low bits of u_top. */
static ALWAYS_INLINE unsigned bits(const struct ustack *u)
{
	return (uintptr_t)u->u_top & LOW_BITS;
}

/* Returns where the slice of u lies, or belongs. */
static inline char *slice(const struct ustack *u)
{
	return (char *)((uintptr_t)u->u_top & ~(uintptr_t)LOW_BITS);
}

/*
 * Returns bare_words() as bytes. The compiler must not know what they are: gcc
 * 12 takes an address among them for 0 when it reads two words at once.
 */
static inline const char *bare(void)
{
	const char *at = (const char *)bare_words();

	__asm__("" : "+r"(at));
	return at;
}

/* Returns how many bytes of the slice are in the buffer (I7). */
static inline ptrdiff_t stored(const struct usched_lane *l,
			       const struct ustack *u)
{
	ptrdiff_t nob = l->l_bottom - slice(u);

	return nob < u->u_len ? nob : u->u_len & -WORD;
}

/* Copies the slice of the owner to its buffer, and leaves the lane empty. */
static UNCHECKED void evict(struct usched_lane *l)
{
	struct ustack *u = l->l_owner;

	copy(u->u_stack, slice(u), stored(l, u));
	HOOK(evicted(u, l, slice(u)));
	u->u_top += AWAY;
	l->l_owner = NULL;
}

/* Copies the slice of u from its buffer to the lane. */
static UNCHECKED void restore(struct usched_lane *l, struct ustack *u)
{
	ptrdiff_t nob = stored(l, u);

	if (nob < l->l_bottom - slice(u))
		copy(l->l_bottom - BARE, bare(), BARE);
	copy(slice(u), u->u_stack, nob);
	HOOK(restored(u, l, slice(u)));
}

/*
 * Are nob bytes at the bottom of the lane as usched_launch() and a prologue
 * leave them? nob is at most BARE. Words that not every function saves are
 * compared only if they are among the nob bytes.
 */
static ALWAYS_INLINE int is_bare(const struct usched_lane *l, ptrdiff_t nob)
{
	const uintptr_t *at = (uintptr_t *)(l->l_bottom - BARE);
	uintptr_t diff = 0;
	int i;

#pragma GCC unroll 16
	for (i = BARE_MORE; i < bare_nr(); i++) {
		diff |= at[i] ^ bare_words()[i];
		/* By words: the store buffer serves no wider load. */
		__asm__("" : "+r"(diff));
	}
	if (BARE_MORE == 2) {
		diff |= nob > BARE - 2 * WORD ? at[1] : 0;
		diff |= nob > BARE - WORD ? at[0] : 0;
	}
	return diff == 0;
}

/* Is the buffer shorter than the slice, by no more than is BARE (I7)? */
static ALWAYS_INLINE int is_short(const struct usched *s,
				  const struct ustack *u,
				  const struct usched_lane *l, size_t spare)
{
	return (ptrdiff_t)spare < 0 && (ptrdiff_t)spare >= -s->s_bare &&
	       u->u_len & SHORT && u->u_len >= PAIR &&
	       is_bare(l, -(ptrdiff_t)spare);
}

/* Returns how many bytes of a slice need no place in its buffer. */
static ptrdiff_t bare_most(const struct usched_lane *l)
{
	ptrdiff_t nob = BARE;

	while (nob > BARE - BARE_MORE * WORD && !is_bare(l, nob))
		nob -= WORD;
	return is_bare(l, nob) ? nob : 0;
}

/*
 * Gets a buffer for a slice of need bytes, less what is BARE (I7); gives back a
 * buffer that has become far too large. I5: nothing changes if that fails. A
 * buffer that is too large is then kept until the thread blocks elsewhere.
 */
static NOINLINE int fit(struct ustack *u, struct usched_lane *l, ptrdiff_t need)
{
	struct usched *s = u->u_sched;
	ptrdiff_t nob = need;
	void *old = u->u_stack;
	int len = u->u_len;
	void *buf;

	note_depth(s, u, need);
	if (!HARD && is_own(s, u->u_lane))
		return own_fit(u, l, need);
	if (l->l_bound > 1 && need >= BARE + PAIR && s->s_bare != 0 &&
	    (nob = bare_most(l)) != 0)
		nob = (need - nob) | SHORT;
	else
		nob = need;
	buf = nob <= INT_MAX ? s->s_alloc(s, nob) : NULL;
	if (buf == NULL)	/* no SHORT in len: blocks do not look */
		return need <= len ? 0 : -ENOMEM;
	u->u_stack = buf;
	u->u_len   = nob;
	if (old != NULL)
		s->s_free(s, old, len);		/* may jump: I8 */
	return 0;
}

/* The lane of a thread, and the native stack. */

/* Returns a lane for a new thread: see "Lanes" above. */
static int lane_get(struct usched *s, const struct ustack *u)
{
	int i = usched_lane_own(s, ustack_f(u->u_f, u->u_arg));

	if (unlikely(i != 0))
		return i;
	while ((i = s->s_free_lane) != 0) {
		s->s_free_lane = s->s_lane[i].l_free;
		s->s_lane[i].l_free = NOT_FREE;
		if (s->s_lane[i].l_bound == 0)	/* or the scheduler took it */
			return i;
	}
	return s->s_turn = usched_lane(s);	/* in turn: none is free */
}

/* Returns the lane that lane_get() would return next. */
int usched_lane(const struct usched *s)
{
	int shared = USCHED_SHARED;
	int i;

	if (shared > s->s_lane_nr)
		shared = s->s_lane_nr;
	for (i = s->s_free_lane; i != 0; i = s->s_lane[i].l_free) {
		if (s->s_lane[i].l_bound == 0)
			return i;
	}
	return shared > 0 ? s->s_turn % shared + 1 : s->s_turn;
}

/* Takes u, which will not run again, from its lane. */
static void lane_put(struct usched *s, struct ustack *u)
{
	struct usched_lane *l = &s->s_lane[u->u_lane];

	CONTRACT(l->l_bound > 0, "ustack_fini: after usched_fini()");
	if (l->l_owner == u)
		l->l_owner = NULL;
	if (--l->l_bound != 0)
		return;
	if (is_own(s, u->u_lane)) {
		own_put(s, u);
	} else if (u->u_lane != 0 && l->l_free == NOT_FREE) {
		l->l_free = s->s_free_lane;
		s->s_free_lane = u->u_lane;
	}
}

/*
 * Lets rounds start, and native slices end, at base; at exit usched_run() goes
 * on. While threads are blocked in the native lane its bottom must stay where
 * it was, so base must not be below it.
 */
static void base_set(struct usched *s, char *exit, char *base)
{
	struct usched_lane *l = &s->s_native;
	const void *home = stack_id(usched_current);

	if (l->l_bound == 0) {
		l->l_bottom = base;
		s->s_home   = home;
	}
	CONTRACT(s->s_lane != l || (s->s_home == home &&
			(uintptr_t)l->l_bottom <= (uintptr_t)base),
		 "usched_run: threads are blocked on the native stack, and it "
		 "was entered from deeper, or from another stack");
	s->s_base  = base;
	s->s_exit  = exit;
	s->s_usual = s->s_lane == l ? ~s->s_fp : s->s_fp;
}

/* Returns an address that differs for each stack that can call usched_run(). */
static const void *stack_id(const struct ustack *self)
{
	const struct usched *s;

	if (self == NULL)
		return &usched_current;		/* that of a native thread */
	s = self->u_sched;
	return s->s_lane == &s->s_native ? s->s_home : &s->s_lane[self->u_lane];
}

/*
 * 2. THE REST OF THE DISPATCHER
 *
 * Speed, deep threads, memory of lanes, leaving by a jump, contracts, questions
 * of other modules. Part 1 can be understood without it.
 */

/* Speed: a struct used again, the next thread chosen in place, cold threads. */

/* Bytes of a cache line, and the most of a slice that is fetched. */
#define LINE		64
#define WHOLE		4096

/*
 * u has ended. s_again() may let it begin again as another thread at the bottom
 * of its lane, which is not below us. s_bare is 0 where s_again() is not asked:
 * the hard mode has to hear of each end, and in portable builds no call goes up
 * the stack. Nor is it asked under Valgrind. (u is loaded a second time, so that
 * no register has to be saved.)
 */
static ALWAYS_INLINE void thread_reuse(struct ustack *u)
{
	struct usched *s = u->u_sched;

	if (s->s_again == NULL || s->s_bare == 0)
		return;
	fp_put(s, s->s_fp);
	if (!s->s_again(s, u))
		return;
	u = usched_current;
	usched_launch(u->u_sched->s_lane[u->u_lane].l_bottom, u->u_f, u->u_arg);
}

/* Resumes what s_quick() chooses, or starts a round. */
static ALWAYS_INLINE void ask_quick(struct usched *s)
{
	struct ustack *t = s->s_quick(s);

	if (likely(t != NULL)) {
		usched_current = t;
		usched_resume_open(t->u_top, s->s_gate);
	}
	usched_jump(s->s_base, round_start, s);
}

/*
 * Blocks u, which is probably cold. If it was copied in, and blocks where it
 * blocked before, its buffer is long enough, unless the rest is not BARE.
 */
static NOINLINE void blocked_again(char *sp, struct ustack *u)
{
	struct usched *s = u->u_sched;
	const struct usched_lane *l = &s->s_lane[u->u_lane];
	ptrdiff_t spare = u->u_len - (l->l_bottom - sp);

	if (HARD || unlikely(slice(u) != sp || bits(u) & ~AWAY ||
			     (u->u_len & SHORT && !is_bare(l, -spare)) ||
			     u->u_len & OWN || fp_saved(sp) != s->s_usual))
		blocked_anew(sp, u);
	if (u->u_top == sp)
		switch_from(s);
	switch_cold(sp, u);
}

/*
 * Goes from u, which has blocked and is cold, to the next thread, which
 * probably is cold, too. The slice of that is copied from here, if it belongs
 * to another lane, or above us (I4).
 */
static ALWAYS_INLINE void switch_cold(char *sp, struct ustack *u)
{
	struct usched *s = u->u_sched;
	struct ustack *t = hand(s);

	u->u_top = sp;
	if (likely(t != NULL && bits(t) == AWAY &&
		   (t->u_lane != u->u_lane ||
		    (uintptr_t)t->u_top >= (uintptr_t)sp))) {
		hand_take(s);
		swap(s, t);
	}
	switch_from(s);
}

/*
 * Resumes u, which is AWAY, with the usual control words. If the lane has an
 * owner whose slice is as long, one loop exchanges the two. Runs below the
 * slice of u, or on another lane (I4).
 */
static ALWAYS_INLINE void swap(struct usched *s, struct ustack *u)
{
	struct usched_lane *l = &s->s_lane[u->u_lane];
	struct ustack *o = l->l_owner;
	char *top = slice(u);

	usched_current = u;
	l->l_owner = u;
	if (likely(o != NULL && o->u_top == top && o->u_len == u->u_len)) {
		o->u_top = u->u_top;
		copy_both(o->u_stack, top, u->u_stack, stored(l, u));
		usched_resume(top, 0);
	}
	move(l, o, u);
	usched_resume(top, 0);
}

/* Copies o, if it is not NULL, out of the lane, and u in. */
static NOINLINE UNCHECKED void move(struct usched_lane *l, struct ustack *o,
				    struct ustack *u)
{
	l->l_owner = o;
	if (o != NULL)
		evict(l);
	l->l_owner = u;
	restore(l, u);
}

/* Copies nob bytes from at to out, and from in to at. */
static ALWAYS_INLINE void copy_both(char *out, char *at, const char *in,
				    ptrdiff_t nob)
{
	pair last_out = *(const pair *)(at + nob - PAIR);
	pair last_in  = *(const pair *)(in + nob - PAIR);
	ptrdiff_t i;

	for (i = 0; i < nob - PAIR; i += PAIR) {
		pair x = *(const pair *)(at + i);
		pair y = *(const pair *)(in + i);

		*(pair *)(out + i) = x;
		*(pair *)(at + i)  = y;
	}
	*(pair *)(out + nob - PAIR) = last_out;
	*(pair *)(at + nob - PAIR)  = last_in;
}

/*
 * Fetches to the cache a thread that will be taken from q soon; and of a thread
 * nearer to the head, the buffer, or the top of the slice.
 */
static ALWAYS_INLINE void fetch(const struct usched *s,
				const struct usched_queue *q)
{
	unsigned far = q->q_head + s->s_ahead - 1;
	uintptr_t thread = (uintptr_t)q->q_ring[far & q->q_mask];
	const struct ustack *near;
	const char *at;
	int i;

	near = q->q_ring[(q->q_head + s->s_ahead / 2) & q->q_mask];
	/* In a lane of its own it has no buffer. Both may be NULL. */
	at = near->u_stack != NULL ? near->u_stack : near->u_top;
	/* Threads that were made together often wake each other. */
	__builtin_prefetch((const void *)thread, 1);
	__builtin_prefetch((const void *)(thread ^ LINE), 1);
	__builtin_prefetch(at, 1);
	__builtin_prefetch(at + LINE, 1);
	if (likely(near->u_len <= 2 * LINE) || near->u_stack == NULL)
		return;
	for (i = 2 * LINE; i < near->u_len && i < WHOLE; i += LINE) {
		__asm__ volatile("" : "+r"(i));	/* or gcc leaves it out */
		__builtin_prefetch(at + i, 1);
	}
}

/* Own lanes: see "Deep threads" above. */

/* Functions that are known, and their credit. */
#define DEEP_NR		64
#define DEEP_WAYS	4		/* places that a function may have */
#define DEEP_FIRST	32
#define DEEP_EARNS	2
#define DEEP_WRONG	8
#define DEEP_MOST	4096
/* Own lanes for each other lane, at most. */
#define OWN_EACH	64
/* Own lanes that are mapped at once. */
#define OWN_NR		16
/* Own lanes of a process whose guard is a mapping, on any kernel. */
#define GUARDS_FEW	1024
/* Threads that are given none after a mapping has failed. */
#define OWN_REST	64
/* Most bytes in own lanes without a thread; the least that each counts. */
#define WARM		((size_t)4 << 20)
#define WARM_LEAST	((size_t)16 << 10)
/* Most blocks with spare pages below the slice before they are given back. */
#define PATIENCE	1024
/* Bytes below a slice for the frames of a block, and a red zone. */
#define FRAMES		1024
#if defined(__linux__) && !defined(MADV_GUARD_INSTALL)
#define MADV_GUARD_INSTALL	102
#endif

enum { NEVER_BLOCKED, WAS_SHALLOW, WAS_DEEP };

/* A lane of one thread. */
struct usched_own_lane {
	size_t w_mapped;	/* with those after it, if it is the first */
	size_t w_touched;	/* bytes above its lowest slice */
	short  w_patience;	/* see "Deep threads" */
	short  w_left;
	char   w_was;		/* its thread, at its blocks */
	char   w_guard;		/* its guard is a mapping */
};

/* A function. A hint: several native threads may change it (atomic). */
struct usched_own_deep {
	void (*d_f)(void *);
	int    d_credit;
};

/* Returns how many own lanes there may be beside nr others. */
static int own_most(int nr)
{
	return nr < SHRT_MAX / (OWN_EACH + 1) ? nr * OWN_EACH : SHRT_MAX - nr;
}

/* Returns how many own lanes are mapped, which only grows. Any thread. */
int usched_own_nr(const struct usched_own *o)
{
	return o != NULL ? __atomic_load_n(&o->o_used, __ATOMIC_ACQUIRE) : 0;
}

static inline int is_own(const struct usched *s, int lane)
{
	return lane > s->s_lane_nr && lane <= s->s_lane_nr +
	       usched_own_nr(s->s_own);
}

/* Is the lane of u, which is above s_lane_nr, its own, or free to be? */
static int own_is(const struct usched *s, const struct ustack *u)
{
	return is_own(s, u->u_lane) && ((u->u_top != NEW && u->u_top != NULL) ||
					s->s_lane[u->u_lane].l_bound == 0);
}

static inline struct usched_own_lane *own_of(const struct usched *s, int lane)
{
	return &s->s_own->o_lane[lane - s->s_lane_nr - 1];
}

/* Returns the place of f; or of the places that f may take, the poorest. */
static struct usched_own_deep *deep_of(struct usched_own *o, void (*f)(void *))
{
	size_t at = (uintptr_t)f * 0x9e3779b1u >> 16;
	struct usched_own_deep *poorest = NULL;
	int credit, least = 0, i;

	for (i = 0; i < DEEP_WAYS; i++) {
		struct usched_own_deep *d = &o->o_deep[(at + i) % DEEP_NR];

		if (__atomic_load_n(&d->d_f, __ATOMIC_RELAXED) == f)
			return d;
		credit = __atomic_load_n(&d->d_credit, __ATOMIC_RELAXED);
		if (poorest == NULL || credit < least) {
			poorest = d;
			least   = credit;
		}
	}
	return poorest;
}

static void (*f_of(const struct ustack *u))(void *)
{
	return ustack_f(u->u_f, u->u_arg);
}

/* Adds to the credit of f. If others do at the same time, part is lost. */
static void learn(struct usched_own *o, void (*f)(void *), int more)
{
	struct usched_own_deep *d = deep_of(o, f);
	int now = __atomic_load_n(&d->d_credit, __ATOMIC_RELAXED);

	if (__atomic_load_n(&d->d_f, __ATOMIC_RELAXED) == f)
		now += more;
	else if (more <= 0)
		return;
	else if (now > 0)
		now -= more;		/* until the place is free */
	else {
		__atomic_store_n(&d->d_f, f, __ATOMIC_RELAXED);
		now = DEEP_FIRST;
	}
	now = now > DEEP_MOST ? DEEP_MOST : now < 0 ? 0 : now;
	__atomic_store_n(&d->d_credit, now, __ATOMIC_RELAXED);
	__atomic_store_n(&o->o_known, 1, __ATOMIC_RELAXED);
}

/* Has f credit? */
static int wanted(struct usched_own *o, void (*f)(void *))
{
	const struct usched_own_deep *d = deep_of(o, f);

	return __atomic_load_n(&d->d_f, __ATOMIC_RELAXED) == f &&
	       __atomic_load_n(&d->d_credit, __ATOMIC_RELAXED) > 0;
}

/*
 * Learns from u, which blocks with need bytes, for the first time or with a
 * length that differs.
 */
static void note_depth(struct usched *s, const struct ustack *u, ptrdiff_t need)
{
	int deep = need >= USCHED_DEEP;
	struct usched_own_lane *w;

	if (!is_own(s, u->u_lane)) {
		if (deep && u->u_len < USCHED_DEEP && s->s_own != NULL)
			learn(s->s_own, f_of(u), DEEP_EARNS);
		return;
	}
	w = own_of(s, u->u_lane);
	if (w->w_touched < (size_t)need)
		w->w_touched = need;
	if (w->w_was == WAS_DEEP || (w->w_was == WAS_SHALLOW && !deep))
		return;
	learn(s->s_own, f_of(u), (deep ? DEEP_EARNS : 0) -
				(w->w_was == NEVER_BLOCKED));
	w->w_was = deep ? WAS_DEEP : WAS_SHALLOW;
}

/* Returns for how many own lanes of a process there are mappings to spare. */
static int guards_most(void)
{
	static int known;		/* atomic */
	int most = __atomic_load_n(&known, __ATOMIC_RELAXED);
	char text[16] = "";
	int fd, nob = -1;

	if (most != 0)
		return most;
	fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		nob = (int)read(fd, text, sizeof text - 1);
		close(fd);
	}
	most = (nob > 0 ? atoi(text) : 65530) / 8 / 2;
	__atomic_store_n(&known, most, __ATOMIC_RELAXED);
	return most;
}

/* Guards that are mappings, of all dispatchers (atomic). */
static int guards;

/* Maps a guard. 0; -1: there are most of them, or too many mappings. */
static int guard_map(struct usched_own_lane *w, char *low, int most)
{
	if (most > guards_most())
		most = guards_most();
	if (__atomic_add_fetch(&guards, 1, __ATOMIC_RELAXED) <= most &&
	    mprotect(low - GUARD, GUARD, PROT_NONE) == 0) {
		w->w_guard = 1;
		return 0;
	}
	__atomic_fetch_sub(&guards, 1, __ATOMIC_RELAXED);
	return -1;
}

/*
 * Sets the guard of a lane. In page tables it is only for programs with many:
 * a part of a mapping that cannot be read stops gdb's gcore, and LSan.
 */
static int guard_set(struct usched_own_lane *w, char *low)
{
	if (guard_map(w, low, GUARDS_FEW) == 0)
		return 0;
#if defined(MADV_GUARD_INSTALL)
	if (!HARD && madvise(low - GUARD, GUARD, MADV_GUARD_INSTALL) == 0)
		return 0;
#endif
	return guard_map(w, low, INT_MAX);
}

/* Makes lane i of the memory at map. 0; -1: no guard could be set. */
static int own_make(struct usched *s, int i, char *map)
{
	struct usched_own *o = s->s_own;
	struct usched_lane *l = &s->s_lane[i];
	size_t page = sysconf(_SC_PAGESIZE);

	if (guard_set(own_of(s, i), map + GUARD) != 0)
		return -1;
	memset(l, 0, sizeof *l);	/* a frame of lane 1 may be here */
	l->l_low    = map + GUARD;
	l->l_bottom = map + o->o_size - i * STAGGER % page;
	return 0;
}

/* Caller holds o_lock. Maps some more lanes, if that is possible. */
static NOINLINE void own_map(struct usched *s)
{
	struct usched_own *o = s->s_own;
	int first = s->s_lane_nr + o->o_used + 1;
	size_t nob = OWN_NR * o->o_size;
	int i, nr = 0;
	char *map;

	if (o->o_used + OWN_NR > own_most(s->s_lane_nr) ||
	    (o->o_rest > 0 && o->o_rest-- > 0))
		return;
	map = mmap(NULL, nob, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED) {
		o->o_rest = OWN_REST;
		return;
	}
#if defined(MADV_NOHUGEPAGE)
	(void)madvise(map, nob, MADV_NOHUGEPAGE);	/* a hint */
#endif
	while (nr < OWN_NR &&
	       own_make(s, first + nr, map + nr * o->o_size) == 0)
		nr++;
	if (nr == 0) {
		munmap(map, nob);
		o->o_rest = OWN_REST;
		return;
	}
	own_of(s, first)->w_mapped = nob;
	HOOK(own(map, nob, 1));
	for (i = first + nr; i-- > first; o->o_free = i)
		s->s_lane[i].l_free = o->o_free;
	__atomic_store_n(&o->o_used, o->o_used + nr, __ATOMIC_RELEASE);
}

static void own_unmap(struct usched *s)
{
	int last = s->s_lane_nr + usched_own_nr(s->s_own);
	int i;

	for (i = s->s_lane_nr + 1; i <= last; i++) {
		struct usched_own_lane *w = own_of(s, i);
		char *map = s->s_lane[i].l_low - GUARD;

		if (w->w_guard)
			__atomic_fetch_sub(&guards, 1, __ATOMIC_RELAXED);
		if (w->w_mapped == 0)
			continue;
		HOOK(own(map, w->w_mapped, 0));
		munmap(map, w->w_mapped);
	}
}

static void own_lock(struct usched_own *o)
{
	while (__atomic_exchange_n(&o->o_lock, 1, __ATOMIC_ACQUIRE) != 0)
		sched_yield();
}

static void own_unlock(struct usched_own *o)
{
	__atomic_store_n(&o->o_lock, 0, __ATOMIC_RELEASE);
}

/* Gives back the memory of a lane below high. */
static int cool(struct usched_lane *l, char *high)
{
	size_t page = sysconf(_SC_PAGESIZE);
	char *to = (char *)((uintptr_t)high & -page);

	HOOK(cooled(l));
	return to > l->l_low ? madvise(l->l_low, to - l->l_low, MADV_DONTNEED) :
		0;
}

/* Returns what the lane counts in s_own_warm. */
static size_t warmth(const struct usched_own_lane *w)
{
	return w->w_touched + WARM_LEAST;
}

/* Takes the first warm lane. There is one. */
static int warm_get(struct usched *s)
{
	int i = s->s_own_free;

	s->s_own_free  = s->s_lane[i].l_free;
	s->s_own_warm -= warmth(own_of(s, i));
	return i;
}

/* Returns a lane, if possible with memory; or 0. */
static NOINLINE int own_get(struct usched *s)
{
	struct usched_own *o = s->s_own;
	struct usched_own_lane *w;
	int i;

	if (s->s_own_free != 0)
		i = warm_get(s);
	else {
		own_lock(o);
		if (o->o_free == 0)
			own_map(s);
		i = o->o_free;
		if (i != 0)
			o->o_free = s->s_lane[i].l_free;
		own_unlock(o);
	}
	if (i == 0)
		return 0;
	s->s_lane[i].l_free = NOT_FREE;
	w = own_of(s, i);
	w->w_was      = NEVER_BLOCKED;
	w->w_patience = w->w_left = 0;
	return i;
}

/* Gives the memory of lane i to the system, and the lane to all dispatchers. */
static void own_cool(struct usched *s, int i)
{
	struct usched_lane *l = &s->s_lane[i];
	struct usched_own *o = s->s_own;

	(void)cool(l, l->l_bottom + sysconf(_SC_PAGESIZE) - 1);
	own_of(s, i)->w_touched = 0;
	own_lock(o);
	l->l_free = o->o_free;
	o->o_free = i;
	own_unlock(o);
}

/* Takes u, which has ended or is forgotten, from its own lane. */
static NOINLINE void own_put(struct usched *s, struct ustack *u)
{
	struct usched_lane *l = &s->s_lane[u->u_lane];
	struct usched_own_lane *w = own_of(s, u->u_lane);

	if (w->w_was == WAS_SHALLOW)
		learn(s->s_own, f_of(u), -DEEP_WRONG);
	if (u->u_stack == NULL)
		u->u_len = 0;
	if (warmth(w) > WARM / 4) {
		(void)cool(l, l->l_bottom + sysconf(_SC_PAGESIZE) - 1);
		w->w_touched = 0;
	}
	while (s->s_own_warm + warmth(w) > WARM)
		own_cool(s, warm_get(s));
	l->l_free      = s->s_own_free;
	s->s_own_free  = u->u_lane;
	s->s_own_warm += warmth(w);
}

/*
 * Gives back the pages below high of a lane whose thread has become shallow. 0:
 * not yet, in case the thread becomes deep again.
 */
static int shallow(struct usched_lane *l, struct usched_own_lane *w, char *high)
{
	if (w->w_left > 0 && w->w_left-- > 1)
		return 0;
	(void)cool(l, high);
	w->w_patience = w->w_patience == 0 ? 4 : w->w_patience * 4;
	if (w->w_patience > PATIENCE)
		w->w_patience = PATIENCE;
	w->w_left = w->w_patience;
	return 1;
}

/*
 * Does what fit() does for a thread in its own lane, which needs no buffer: so
 * it cannot fail. Runs on the lane, below a slice of need bytes. u_len, with
 * OWN, is such that the next call comes when the depth has changed much.
 */
static NOINLINE int own_fit(struct ustack *u, struct usched_lane *l,
			    ptrdiff_t need)
{
	struct usched *s = u->u_sched;
	struct usched_own_lane *w = own_of(s, u->u_lane);
	ptrdiff_t most = l->l_bottom - l->l_low;
	void *old = u->u_stack;
	int len = u->u_len;

	if (old == NULL && (size_t)need + USCHED_SLACK < w->w_touched) {
		if (!shallow(l, w, (char *)__builtin_frame_address(0) - FRAMES))
			return 0;
		w->w_touched = need;
	} else if (w->w_touched < (size_t)need)
		w->w_touched = need;
	need += USCHED_SLACK / 2;
	if (most > INT_MAX)
		most = INT_MAX;
	u->u_stack = NULL;
	u->u_len   = (need < most ? need : most) | OWN;
	if (old != NULL)
		s->s_free(s, old, len);		/* may jump: I8 */
	return 0;
}

NOINLINE int usched_lane_known(struct usched *s, void (*f)(void *))
{
	return wanted(s->s_own, f) ? own_get(s) : 0;
}

/* Memory of lanes. */

/* Does s run, or has it threads that have begun, as far as is known? */
static int has_threads(const struct usched *s)
{
	int i;

	for (i = 1; s->s_mapped != 0 &&
	     i <= s->s_lane_nr + usched_own_nr(s->s_own); i++) {
		if (s->s_lane[i].l_bound > 0)
			return 1;
	}
	return s->s_base != NULL || s->s_native.l_bound > 0;
}

int usched_lanes(struct usched *s, int nr, size_t size)
{
	size_t page = sysconf(_SC_PAGESIZE);
	size_t head, lane;

	if (nr < 1 || nr > USCHED_LANE_MAX || size == 0 || size > INT_MAX)
		return -EINVAL;
#if defined(USCHED_PORTABLE)
	return -ENOSYS;
#endif
	if (RUNNING_ON_VALGRIND)
		return -ENOSYS;
	if (has_threads(s))
		return -EBUSY;
	/* The descriptors; then for each lane: guard, size, stagger. */
	head = (nr + 1) * sizeof *s->s_lane +
		own_most(nr) * (sizeof *s->s_lane + sizeof *s->s_own->o_lane) +
		sizeof *s->s_own + DEEP_NR * sizeof *s->s_own->o_deep;
	head = (head + page - 1) & -page;
	lane = GUARD + ((size + page - 1) & -page) + page;
	if (lane / page % 2 == 0)
		lane += page;	/* odd: else lanes share half of the TLB sets */
	if (lane > (PTRDIFF_MAX - head) / nr)
		return -EINVAL;
	return lanes_map(s, nr, head, lane, page);
}

int usched_lanes_share(struct usched *s, const struct usched *other)
{
	if (other == s || other->s_lane_nr == 0)
		return -EINVAL;
	if (has_threads(s))
		return -EBUSY;
	usched_fini(s);
	s->s_lane    = other->s_lane;
	s->s_lane_nr = other->s_lane_nr;
	s->s_own     = other->s_own;
	return 0;
}

static int lanes_map(struct usched *s, int nr, size_t head, size_t lane,
		     size_t page)
{
	struct usched_lane *l;
	char *map;
	int i;

	map = mmap(NULL, head + nr * lane, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		return -ENOMEM;
#if defined(MADV_NOHUGEPAGE)
	(void)madvise(map, head + nr * lane, MADV_NOHUGEPAGE); /* a hint */
#endif
	l = (struct usched_lane *)map;
	for (i = 1; i <= nr; i++) {
		l[i].l_low    = map + head + (i - 1) * lane + GUARD;
		l[i].l_bottom = l[i].l_low - GUARD + lane - i * STAGGER % page;
		l[i].l_free   = i < nr ? i + 1 : 0;
		if (mprotect(l[i].l_low - GUARD, GUARD, PROT_NONE) != 0) {
			munmap(map, head + nr * lane);
			return -ENOMEM;
		}
	}
	usched_fini(s);
	s->s_lane    = l;
	s->s_lane_nr = nr;
	s->s_free_lane = 1;	/* never used: behind those that are put back */
	s->s_mapped  = head + nr * lane;
	s->s_own     = (struct usched_own *)(l + nr + 1 + own_most(nr));
	s->s_own->o_size = lane;
	s->s_own->o_deep = (struct usched_own_deep *)(s->s_own + 1);
	s->s_own->o_lane = (struct usched_own_lane *)(s->s_own->o_deep +
						      DEEP_NR);
	HOOK(lanes(s));
	return 0;
}

void usched_fini(struct usched *s)
{
	CONTRACT(s->s_base == NULL, "usched_fini: the dispatcher is running; "
		 "after a longjmp() out of it call usched_left() first");
	HOOK(fini(s));
	if (s->s_mapped != 0) {
		own_unmap(s);
		munmap(s->s_lane, s->s_mapped);
	}
	s->s_own      = NULL;
	s->s_own_free = 0;
	s->s_own_warm = 0;
	s->s_lane    = NULL;
	s->s_lane_nr = s->s_turn = s->s_free_lane = 0;
	s->s_mapped  = 0;
	s->s_home    = NULL;
	memset(&s->s_native, 0, sizeof s->s_native);
}

/* Pages in one call of mincore(). */
#define SPARE_PAGES	256

/* Returns the bytes of resident pages from low to high; 0: unknown. */
static size_t resident(char *low, char *high, size_t page)
{
	unsigned char pages[SPARE_PAGES];
	size_t sum = 0;
	size_t i, nr;

	for (; low < high; low += nr * page) {
		nr = (high - low) / page;
		nr = nr < SPARE_PAGES ? nr : SPARE_PAGES;
		if (mincore(low, nr * page, (void *)pages) != 0)
			return 0;
		for (i = 0; i < nr; i++)
			sum += pages[i] & 1 ? page : 0;
	}
	return sum;
}

/* Returns where the spare pages of a lane end, if kept bytes stay. */
static char *spare_end(const struct usched_lane *l, size_t kept, size_t page)
{
	char *end = l->l_owner != NULL ? slice(l->l_owner) : l->l_bottom;

	if ((size_t)(end - l->l_low) <= kept)
		return l->l_low;
	return (char *)((uintptr_t)(end - kept) & -page);
}

/* Fails if a thread of s runs, since its u_top does not tell its depth then. */
static void none_runs(const struct usched *s)
{
	const struct ustack *u = usched_current;
	const struct usched_frame *f = usched_here;

	for (; f != NULL; f = f->f_up) {
		CONTRACT(u == NULL || u->u_sched != s,
			 "usched_spare, usched_trim: called while a thread of "
			 "the dispatcher runs");
		u = f->f_self;
	}
}

size_t usched_spare(const struct usched *s)
{
	size_t page = sysconf(_SC_PAGESIZE);
	int nr = s->s_lane_nr + usched_own_nr(s->s_own);
	size_t sum = 0;
	int i;

	none_runs(s);
	for (i = 1; i <= nr && s->s_mapped != 0; i++) {
		const struct usched_lane *l = &s->s_lane[i];

		sum += resident(l->l_low, spare_end(l, 0, page), page);
	}
	return sum;
}

void usched_trim(struct usched *s, size_t kept)
{
	size_t page = sysconf(_SC_PAGESIZE);
	int nr = s->s_lane_nr + usched_own_nr(s->s_own);
	int i;

	none_runs(s);
	for (i = 1; i <= nr && s->s_mapped != 0 && !HARD; i++) {
		const struct usched_lane *l = &s->s_lane[i];
		char *end = spare_end(l, kept, page);

		if (resident(l->l_low, end, page) != 0)
			(void)madvise(l->l_low, end - l->l_low, MADV_DONTNEED);
	}
}

/* One thread alone; leaving by a jump; hooks. */

/* Marked as used, since the usched_live_enter of portable builds names it. */
__attribute__((used)) UNCHECKED int usched_step(struct ustack *u)
{
	struct usched *s = u->u_sched;
	uintptr_t scratch;

	s->s_left  = 0;
	s->s_quick = NULL;
	run(s, u, words(s, &scratch));
	return (s->s_steps & STEP_ENDED) != 0;
}

#if !defined(USCHED_PORTABLE)
/* Starts the first round; sp is where the run will end. */
static ALWAYS_INLINE UNCHECKED NORETURN void first(char *sp, struct usched *s)
{
	base_set(s, sp, (char *)((uintptr_t)sp & -16));
	if (s->s_steps != 0 && is_simple(s->s_step)) {
		struct ustack *u = s->s_step;

		s->s_step = NULL;
		go(s, u);
	}
	usched_jump(s->s_base, round_start, s);
}
#endif

#if QUICK
/*
 * Steps u for usched_enter(), whose registers are at sp. Of the two free words
 * below, the first is the mark.
 */
void usched_entered(struct ustack *u, char *sp)
{
	struct usched *s = u->u_sched;
	struct usched *volatile *mark = (void *)(sp - WORD);
	uintptr_t scratch;

	s->s_left  = 0;
	s->s_quick = NULL;
	run_begin(s, u, STEPS | IN_PLACE, words(s, &scratch), mark);
	first(sp, s);
}

/*
 * Blocks a coroutine, and ends the step. Nothing is compared, and no round
 * starts. Another depth than at the last block is usual, if the buffer is long
 * enough, or would be.
 */
void usched_passed(char *sp)
{
	struct ustack *u = usched_current;
	struct usched *s = u->u_sched;
	struct usched_lane *l = &s->s_lane[u->u_lane];
	size_t spare = u->u_len - (l->l_bottom - sp);	/* huge if negative */

	if (HARD || unlikely(spare > USCHED_SLACK || l == &s->s_native))
		blocked_slow(sp, u, l);
	u->u_top = sp;
	run_leave(s);
}
#endif

/*
 * Is the call of usched_run() still there, as far as can be known? It may read
 * a stack frame that was left.
 */
static UNCHECKED int stands(const struct usched_frame *f)
{
	return (const char *)f->f_sched +
	       offsetof(struct usched, s_frame) == (const char *)f &&
	       *f->f_mark == f->f_sched;
}

UNCHECKED void usched_left(struct usched *s)
{
	const struct usched_frame *f = usched_here;

	if (s->s_base == NULL)
		return;
	while (f != NULL && f != &s->s_frame)
		f = f->f_up;
	CONTRACT(f != NULL,
		 "usched_left: the dispatcher runs on another native thread");
	while (s->s_base != NULL)
		leave(usched_here->f_sched);
	fp_put(s, s->s_frame.f_fp);
}

/* Ends the innermost run, and the thread that ran, if any. */
static UNCHECKED void leave(struct usched *s)
{
	struct ustack *u = usched_current;
	struct usched_lane *l = u != NULL ? &s->s_lane[u->u_lane] : NULL;
	char here;

	CONTRACT(l == NULL || l->l_low == NULL ||
		 (uintptr_t)&here - (uintptr_t)l->l_low >=
		 (uintptr_t)(l->l_bottom - l->l_low),
		 "usched_left: called by a thread of the dispatcher, which no "
		 "longjmp() has left");
	hooks(s, 0);
	if (u != NULL) {
		HOOK(left(u));
		HOOK(ended(u));
		lane_put(s, u);
		u->u_top = ENDED;
	}
	s->s_base = NULL;
	set_running(s->s_frame.f_self);
	HOOK(end(s));
	usched_here = s->s_frame.f_up;
}

static struct usched_hook *hook_list;

void usched_hook(struct usched_hook *h)
{
	h->h_next = hook_list;
	__atomic_store_n(&hook_list, h, __ATOMIC_RELEASE);
}

static INLINE void hooks(struct usched *s, int begins)
{
	const struct usched_hook *h;

	h = __atomic_load_n(&hook_list, __ATOMIC_ACQUIRE);
	for (; h != NULL; h = h->h_next)
		(begins ? h->h_begin : h->h_end)(s);
}

static void hooks_gone(struct ustack *u)
{
	const struct usched_hook *h;

	h = __atomic_load_n(&hook_list, __ATOMIC_ACQUIRE);
	for (; h != NULL; h = h->h_next) {
		if (h->h_gone != NULL)
			h->h_gone(u);
	}
}

/* Contracts. */

/* Bytes below a lane in which a stack pointer means that it is too small. */
#define REACH		((uintptr_t)64 << 20)

/* Parts of runtimes that move locals; NULL if they are not linked. */
extern const char __safestack_init[] __attribute__((weak));
extern const char __morestack_allocate_stack_space[] __attribute__((weak));

static INLINE void check(const struct usched *s)
{
	CONTRACT(s->s_base == NULL, "usched_run: this dispatcher runs already; "
		 "after a longjmp() out of it call usched_left() first");
	CONTRACT(usched_here == NULL || stands(usched_here),
		 "usched_run: a longjmp() has left another dispatcher: call "
		 "usched_left() first");
}

static NOINLINE void check_once(const struct usched *s)
{
	CONTRACT(s->s_next && s->s_alloc && s->s_free,
		 "usched_run: s_next, s_alloc and s_free must be set");
	CONTRACT(!shadow_stack(),
		 "usched_run: copied stacks and shadow stacks do not mix: "
		 "turn shadow stacks off (link with -z noshstk)");
	CONTRACT(__safestack_init == NULL,
		 "usched_run: copied stacks and -fsanitize=safe-stack do not "
		 "mix: locals that are kept elsewhere are not copied");
}

/* Makes u new, which was filled by hand, without ustack_init(). */
static NOINLINE void adopt(struct ustack *u)
{
	CONTRACT(u->u_f != NULL && u->u_len >= 0 &&
		 (u->u_stack != NULL || u->u_len == 0),
		 "s_next: returned a thread with no function (u_f), or with a "
		 "length without a buffer");
	u->u_top = NEW;
}

/*
 * Fails, and says why a block is not in its lane. A frame larger than the guard
 * takes the stack pointer to other lanes, or below them all, where the stack of
 * a native thread may be.
 */
static NOINLINE NORETURN void misplaced(const char *sp,
					const struct usched_lane *l)
{
	stack_t alt;

	CONTRACT(__morestack_allocate_stack_space == NULL,
		 "ustack_block: not on the stack of the thread: -fsplit-stack "
		 "does not mix with lanes");
	CONTRACT(sigaltstack(NULL, &alt) != 0 || !(alt.ss_flags & SS_ONSTACK),
		 "ustack_block: not on the stack of the thread, but in a signal "
		 "handler on an alternate stack");
	CONTRACT(l->l_low == NULL || (uintptr_t)l->l_low - (uintptr_t)sp > REACH,
		 "ustack_block: the thread has run out of its lane, and over "
		 "the guard: usched_lanes(), or rr_stack_size() and the like, "
		 "gives larger ones; -fstack-clash-protection stops at the "
		 "guard (or has a longjmp() left usched_run() without "
		 "usched_left()?)");
	usched_fail("ustack_block: not on the stack of the thread (but on one "
		    "that it has made, or has a longjmp() left usched_run() "
		    "without usched_left()?)");
}

/* Most naps of 10 ms while another native thread aborts. */
#define FAIL_WAIT	1000

/*
 * Writes the message in one piece. Another native thread that fails meanwhile
 * waits for the abort, but not for ever: a SIGABRT handler may jump away.
 */
void usched_fail(const char *contract)
{
	static const void *first;	/* native thread, by its usched_here */
	const void *none = NULL;
	const struct iovec text[] = {
		{ (void *)"usched: ", 8 },
		{ (void *)contract, strlen(contract) },
		{ (void *)"\n", 1 }
	};
	int i;

	if (!__atomic_compare_exchange_n(&first, &none, &usched_here, 0,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		for (i = 0; none != &usched_here && i < FAIL_WAIT; i++)
			usleep(10000);
	}
	(void)!writev(STDERR_FILENO, text, 3);
	abort();
}

/* Questions of other modules: see uslice.h. */

int usched_runs(const struct ustack *u)
{
	const struct usched_frame *f;

	for (f = usched_here; f != NULL; f = f->f_up) {
		if (f->f_self == u)
			return 1;
	}
	return u == usched_current;
}

UNCHECKED ptrdiff_t usched_slice(const struct ustack *u, char *to)
{
	const struct usched_lane *l;
	ptrdiff_t nob;

	if (u->u_top == NULL || bits(u) & NO_SLICE)
		return 0;
	l = &u->u_sched->s_lane[u->u_lane];
	nob = l->l_bottom - slice(u);
	if (to != NULL && bits(u) & AWAY) {
		if (stored(l, u) < nob)
			copy(to + nob - BARE, bare(), BARE);
		copy(to, u->u_stack, stored(l, u));
	} else if (to != NULL)
		copy(to, slice(u), nob);
	return nob;
}

ptrdiff_t usched_stored(const struct ustack *u)
{
	return stored(&u->u_sched->s_lane[u->u_lane], u);
}

void usched_back(char *sp, int rc)
{
	usched_resume(sp, rc);
}

#if defined(USCHED_HARD)
void usched_evict(struct usched_lane *l)
{
	evict(l);
}
#endif

/*
 * 3. MACHINES
 *
 * One block for each, of all that it differs in; to port is to copy a block.
 * The control words come last, since portable builds have them, too.
 */

#define FUNCTION(name)							\
	".globl " name "\n.hidden " name "\n"				\
	".type " name ", %function\n" name ":\n.cfi_startproc\n"
#define END(name)							\
	".cfi_endproc\n.size " name ", . - " name "\n"

/*
 * Part of a wait that is in place: see usched_block(). In assembly, so that
 * compilers do not know what it does, not even with -flto.
 */
#define REFUSED								\
__asm__(".text\n"							\
".globl usched_refused\n .protected usched_refused\n"			\
".type usched_refused, %function\nusched_refused:\n"			\
	".cfi_startproc\n endbr64\n mov %edi, %eax\n ret\n"		\
END("usched_refused"));

#if defined(USCHED_PORTABLE)

/*
 * Any machine whose stack grows down, by setjmp() and longjmp(). The registers
 * are in a jmp_buf in the frame of usched_save(); the "sp" given to f() is the
 * address of a pointer to that, in a deeper frame. A jump up the stack, to the
 * base, is a longjmp() that makes usched_save() call first_round() again; a
 * jump down is a call from a frame that is deep enough.
 */
enum { RESUME = 1, REWIND = 2 };

static __thread struct {
	void (*r_f)(void *);
	void  *r_arg;
} next_round;

struct save {
	jmp_buf v_env;
	int     v_rc;
};

static NOINLINE UNCHECKED void mark(void (*f)(char *, void *), void *arg, struct save *v)
{
	volatile struct { uintptr_t m_free; struct save *m_save; } m = { 0, v };

	f((char *)&m.m_save, arg);
}

int usched_save(void (*f)(char *sp, void *arg), void *arg)
{
	volatile struct save v;

	if (_setjmp(((struct save *)&v)->v_env) != RESUME)
		mark(f, arg, (struct save *)&v);
	return v.v_rc;
}

static ALWAYS_INLINE void usched_resume(char *sp, int rc)
{
	struct save *v = *(struct save **)sp;

	v->v_rc = rc;
	_longjmp(v->v_env, RESUME);
}

/* Never called: QUICK is 0. */
static ALWAYS_INLINE void usched_resume_open(char *sp, int *gate)
{
	(void)gate;
	usched_resume(sp, 0);
}

/* All rounds start from this frame, and slices end in it. */
static NOINLINE void first_round(char *sp, void *arg)
{
	volatile uintptr_t here[16] __attribute__((aligned(16))) = { 0 };
	struct usched *s = arg;

	if (s->s_base == NULL) {
		base_set(s, sp, (char *)&here[8]);
		s->s_base = sp;
		next_round.r_f   = round_start;
		next_round.r_arg = s;
	}
	next_round.r_f(next_round.r_arg);
	abort();
}

/* Calls f() below sp. */
static NOINLINE UNCHECKED void descend(char *sp, void (*f)(void *), void *arg)
{
	volatile char frame[256];

	frame[0] = 0;
	if ((uintptr_t)frame >= (uintptr_t)sp)
		descend(sp, f, arg);
	else
		f(arg);
	frame[0] = 1;		/* so that the calls are not jumps */
}

static ALWAYS_INLINE void usched_jump(char *sp, void (*f)(void *), void *arg)
{
	char here;

	if ((uintptr_t)&here < (uintptr_t)sp) {
		next_round.r_f   = f;
		next_round.r_arg = arg;
		_longjmp((*(struct save **)sp)->v_env, REWIND);
	}
	descend(sp, f, arg);
	abort();
}

static UNCHECKED void call_and_end(void *unused)
{
	(void)unused;
	next_round.r_f(next_round.r_arg);
	usched_ended();
}

void usched_launch(char *bottom, void (*f)(void *), void *arg)
{
	next_round.r_f   = f;
	next_round.r_arg = arg;
	descend(bottom, call_and_end, NULL);
	abort();
}

/* For files that were compiled without USCHED_PORTABLE. */
#if defined(USCHED_SWITCH) && !HARD
REFUSED
__asm__(".text\n"
".globl usched_live\n .protected usched_live\n"
".type usched_live, %function\nusched_live:\n"
".globl usched_live_step\n .protected usched_live_step\n"
".type usched_live_step, %function\nusched_live_step:\n"
	"push %rcx\n push %rbp\n push %rbx\n sub $8, %rsp\n"
	"call ustack_block\n"
	"add $8, %rsp\n pop %rbx\n pop %rbp\n pop %rcx\n jmp *%rcx\n"
".size usched_live, . - usched_live\n"
".size usched_live_step, . - usched_live_step\n"
".globl usched_live_enter\n .protected usched_live_enter\n"
".type usched_live_enter, %function\nusched_live_enter:\n"
	"push %rcx\n push %rbp\n push %rbx\n sub $8, %rsp\n"
	"call usched_step\n"
	"add $8, %rsp\n pop %rbx\n pop %rbp\n pop %rcx\n jmp *%rcx\n"
".size usched_live_enter, . - usched_live_enter\n");
#endif

static ALWAYS_INLINE int bare_nr(void)
{
	return 0;
}

static ALWAYS_INLINE const uintptr_t *bare_words(void)
{
	static const uintptr_t words[1];

	return words;
}

static inline void mark_return(char *sp)
{
	(void)sp;
}

static inline int shadow_stack(void)
{
	return 0;
}

#elif defined(__x86_64__)

/*
 * System V x86-64. The top of a slice:
 *
 *	sp - 16  mark_return()		sp +  8  rbp
 *	sp -  8  free, or struct fp_words	sp + 16  where to go on
 *	sp       rbx
 *
 * usched_live, to which a thread jumps that blocks, has the address to go on at
 * in rcx. It stores the control words first: they are read late, and a
 * processor may have to wait for them. All other registers are dead, as the
 * compiler was told, or in the frame of ustack_block() or usched_save(). The
 * direction flag is clear and the x87 stack empty. Under IBT there is no target
 * for a branch behind a jump, hence notrack.
 */
#define PUSH(r)	"push %" r "\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset " r ", 0\n"
#define POP(r)	"pop %" r "\n.cfi_adjust_cfa_offset -8\n.cfi_restore " r "\n"
#define CLEAR(r) "xor %" r ", %" r "\n"

#if defined(USCHED_SHARE_FP)
#define FP_STORE
#else
#define FP_STORE	"stmxcsr -32(%rsp)\n fnstcw -28(%rsp)\n"
#define FP_STORED		/* struct fp_words, at sp - 8 */
#endif
#if defined(__CET__) && __CET__ & 1
#define ENDBR		"endbr64\n"
#else
#define ENDBR
#endif

/* Stores the control words, if any, and calls f(), with sp as argument arg. */
#define LIVE(name, store, f, arg)					\
".globl " name "\n .protected " name "\n"				\
".type " name ", %function\n" name ":\n"				\
	".cfi_startproc\n .cfi_def_cfa_offset 0\n .cfi_register rip, rcx\n" \
	ENDBR store							\
	"push %rcx\n .cfi_adjust_cfa_offset 8\n .cfi_offset rip, -8\n"	\
	PUSH("rbp") PUSH("rbx")						\
	"mov %rsp, %" arg "\n"						\
	"sub $16, %rsp\n .cfi_adjust_cfa_offset 16\n jmp " f "\n"	\
	".cfi_adjust_cfa_offset -8\n nop\n"	/* where unwinders look */

REFUSED
__asm__(".text\n"
LIVE(USCHED_NAME(usched_live_enter), "", "usched_entered", "rsi")
END(USCHED_NAME(usched_live_enter))
LIVE(USCHED_NAME(usched_live_step), "", "usched_passed", "rdi")
END(USCHED_NAME(usched_live_step))
LIVE(USCHED_NAME(usched_live), FP_STORE, "usched_blocked", "rdi")
	".globl usched_saved\n .hidden usched_saved\n usched_saved: hlt\n"
END(USCHED_NAME(usched_live))
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
	".globl usched_bottom\n .hidden usched_bottom\n usched_bottom:\n"
	"call usched_ended\n hlt\n"
END("usched_launch"));

static ALWAYS_INLINE void usched_resume(char *sp, int rc)
{
	__asm__ volatile("mov %0, %%rsp\n"
		"pop %%rbx\n pop %%rbp\n pop %%rcx\n notrack jmp *%%rcx"
		: : "r"(sp), "a"(rc) : "memory");
	__builtin_unreachable();
}

/* Does the same, and clears *gate when the old stack has been left. */
static ALWAYS_INLINE void usched_resume_open(char *sp, int *gate)
{
	__asm__ volatile("mov %0, %%rsp\n movl $0, (%1)\n"
		"pop %%rbx\n pop %%rbp\n pop %%rcx\n notrack jmp *%%rcx"
		: : "r"(sp), "r"(gate), "a"(0) : "memory");
	__builtin_unreachable();
}

static ALWAYS_INLINE void usched_jump(char *sp, void (*f)(void *), void *arg)
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
static ALWAYS_INLINE int bare_nr(void)
{
	return 7;
}

static ALWAYS_INLINE const uintptr_t *bare_words(void)
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

#elif defined(__aarch64__)

/*
 * AAPCS64: x19 to x29, the link register, and the low halves of v8 to v15.
 *
 *	sp - 16  free (two words)		sp + 16  x19 to x28
 *	sp       x29, x30			sp + 96  d8 to d15
 *
 * Where branch targets are protected, only ret may go back behind a call.
 */
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
	".globl usched_saved\n .hidden usched_saved\n usched_saved: brk #0\n"
END("usched_save")
FUNCTION("usched_launch") LANDING
	".cfi_undefined x30\n mov sp, x0\n mov x0, x2\n"
	"mov x19, #0\n mov x20, #0\n mov x21, #0\n mov x22, #0\n mov x23, #0\n"
	"mov x24, #0\n mov x25, #0\n mov x26, #0\n mov x27, #0\n mov x28, #0\n"
	"mov x29, #0\n blr x1\n bl usched_ended\n brk #0\n"
END("usched_launch"));

static ALWAYS_INLINE void usched_resume(char *sp, int rc)
{
	register long value __asm__("x0") = rc;

	__asm__ volatile("mov sp, %0\n" REGISTERS("ldp")
		"ldp x29, x30, [sp], #160\n mov x17, x30\n" BACK
		: : "r"(sp), "r"(value) : "memory");
	__builtin_unreachable();
}

static ALWAYS_INLINE void usched_jump(char *sp, void (*f)(void *), void *arg)
{
	register void *a __asm__("x0") = arg;
	register void (*to)(void *) __asm__("x16") = f;	/* as BTI wants it */

	__asm__ volatile("mov sp, %0\n mov x29, #0\n mov x30, #0\n br %1"
		: : "r"(sp), "r"(to), "r"(a) : "memory");
	__builtin_unreachable();
}

/* Never called: QUICK is 0. */
static ALWAYS_INLINE void usched_resume_open(char *sp, int *gate)
{
	(void)gate;
	usched_resume(sp, 0);
}

/* The return address is among the registers. */
static ALWAYS_INLINE int bare_nr(void)
{
	return 10;
}

static ALWAYS_INLINE const uintptr_t *bare_words(void)
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

#else

/*
 * RISC-V, 64 bits with doubles: ra, s0 to s11, fs0 to fs11.
 *
 *	sp - 16  free (two words)		sp + 104  fs0 to fs11
 *	sp       ra				sp + 200  free
 *	sp +  8  s0 to s11
 */
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
	".globl usched_saved\n .hidden usched_saved\n usched_saved: ebreak\n"
END("usched_save")
FUNCTION("usched_launch")
	".cfi_undefined ra\n mv sp, a0\n mv a0, a2\n"
	"li s0, 0\n li s1, 0\n li s2, 0\n li s3, 0\n li s4, 0\n li s5, 0\n"
	"li s6, 0\n li s7, 0\n li s8, 0\n li s9, 0\n li s10, 0\n li s11, 0\n"
	"jalr a1\n"
	".globl usched_bottom\n .hidden usched_bottom\n usched_bottom:\n"
	"call usched_ended\n ebreak\n"
END("usched_launch"));

static ALWAYS_INLINE void usched_resume(char *sp, int rc)
{
	register long value __asm__("a0") = rc;

	__asm__ volatile("mv sp, %0\n" REGISTERS("ld") "ld ra, 0(sp)\n"
		"addi sp, sp, 208\n jr ra"
		: : "r"(sp), "r"(value) : "memory");
	__builtin_unreachable();
}

static ALWAYS_INLINE void usched_jump(char *sp, void (*f)(void *), void *arg)
{
	register void *a __asm__("a0") = arg;

	__asm__ volatile("mv sp, %0\n li ra, 0\n jr %1"
		: : "r"(sp), "r"(f), "r"(a) : "ra", "memory");
	__builtin_unreachable();
}

/* Never called: QUICK is 0. */
static ALWAYS_INLINE void usched_resume_open(char *sp, int *gate)
{
	(void)gate;
	usched_resume(sp, 0);
}

/* A function that saves all registers first leaves these. */
static ALWAYS_INLINE int bare_nr(void)
{
	return 13;
}

static ALWAYS_INLINE const uintptr_t *bare_words(void)
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

#endif

#if !defined(USCHED_PORTABLE)
static void first_round(char *sp, void *sched)
{
	first(sp, sched);
}
#endif

/* Floating-point control: the control bits of mxcsr above the x87 word. */
#if defined(USCHED_SHARE_FP)		/* no thread changes them */

static inline unsigned fp_get(void *scratch)
{
	(void)scratch;
	return 0;
}

static INLINE void fp_set(unsigned fp)
{
	(void)fp;
}

#elif defined(__x86_64__)

#define MXCSR_CONTROL	0xffc0u

/* The layout of FP_STORE. */
struct fp_words {
	unsigned       w_mxcsr;
	unsigned short w_x87;
};

static inline unsigned fp_of(const volatile struct fp_words *w)
{
	return (w->w_mxcsr & MXCSR_CONTROL) << 16 | w->w_x87;
}

static inline unsigned fp_get(void *scratch)
{
	struct fp_words *w = scratch;

	__asm__ volatile("stmxcsr %0\n fnstcw %1"
			 : "=m"(w->w_mxcsr), "=m"(w->w_x87));
	return fp_of(w);
}

static NOINLINE void fp_write(unsigned fp)
{
	unsigned mxcsr;
	unsigned short x87 = (unsigned short)fp;

	__asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
	mxcsr = (mxcsr & ~MXCSR_CONTROL) | fp >> 16;
	__asm__ volatile("ldmxcsr %0\n fldcw %1" : : "m"(mxcsr), "m"(x87));
}

/* Writes only what differs: a write may cost a hundred reads. */
static INLINE void fp_set(unsigned fp)
{
	uintptr_t scratch;

	if (unlikely(fp_get(&scratch) != fp))
		fp_write(fp);
}

#else

#if defined(__aarch64__)
#define FP_GET		"mrs %0, fpcr"
#define FP_SET		"msr fpcr, %0"
#elif defined(__riscv_flen)
#define FP_GET		"frrm %0"
#define FP_SET		"fsrm %0"
#else
#define FP_GET		""	/* not kept */
#define FP_SET		""
#endif

static inline unsigned fp_get(void *scratch)
{
	unsigned long fp = 0;

	(void)scratch;
	__asm__ volatile(FP_GET : "+r"(fp));
	return (unsigned)fp;
}

static INLINE void fp_set(unsigned word)
{
	unsigned long fp = word;

	__asm__ volatile(FP_SET : : "r"(fp));
}

#endif

/* Those of a thread that blocks: the word below sp is free. */
static inline unsigned fp_saved(char *sp)
{
#if defined(FP_STORED)
	return fp_of((struct fp_words *)(sp - WORD));
#else
	return fp_get(sp - WORD);
#endif
}
