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
