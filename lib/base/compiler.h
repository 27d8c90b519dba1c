/* SPDX-License-Identifier: MIT */
/* compiler.h: attributes and hints for the compiler; contracts. Private. */

#ifndef UCOMPILER_H
#define UCOMPILER_H

/* The core has the same words in core/base.h, since it stands alone. */
#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define NOINLINE	__attribute__((noinline))
#define ALWAYS_INLINE	inline __attribute__((always_inline))
#define NORETURN	__attribute__((noreturn))
#define HIDDEN		__attribute__((visibility("hidden")))
/* Up to here p is in a register, or on the stack: a collector sees it (uroots.h). */
#define KEEP_ALIVE(p)	__asm__ volatile("" : : "r"(p))
/*
 * For functions that run between two stacks, or look at poisoned memory:
 * sanitizers cannot follow them. For clang's thread sanitizer "no" is not
 * enough: it still counts calls.
 */
#define UNCHECKED	__attribute__((no_sanitize("address", "thread")))
#if defined(__has_attribute)
#if __has_attribute(disable_sanitizer_instrumentation)
#undef  UNCHECKED
#define UNCHECKED	__attribute__((no_sanitize("address", "thread"), \
				       disable_sanitizer_instrumentation))
#endif
#endif
#if defined(USCHED_HARD)
#define HARD		1
#else
#define HARD		0
#endif

/* Ends the program, with this text, if the caller has broken its contract. */
#define CONTRACT(cond, text)						\
	do {								\
		if (unlikely(!(cond)))					\
			usched_fail(text);				\
	} while (0)

#endif /* UCOMPILER_H */
