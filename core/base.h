/* SPDX-License-Identifier: MIT */
/* core/base.h: differences of systems, tools and compilers; macros. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#if defined(USCHED_PORTABLE)
#include <setjmp.h>
#endif

/*
 * Valgrind does not know lanes: under it threads run on the native stack. And
 * it reports each look at words that no function has written (prologue words).
 */
#if defined(__has_include) && !defined(NVALGRIND)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#endif
#if !defined(RUNNING_ON_VALGRIND)
#define RUNNING_ON_VALGRIND	0
#endif

/* FIRST() is what a new thread runs, as two arguments: function and argument. */
#if defined(USCHED_HARD)
#define HARD		1
#define FIRST(u)	uhard_first, (u)
#else
#define HARD		0
#define FIRST(u)	(u)->u_f, (u)->u_arg
#endif

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

/* For functions that end in a switch to another stack. */
#define SWITCHES	UNCHECKED NORETURN

/*
 * Is name, of another library or module, in the program? Mach-O cannot ask for
 * what may be nowhere.
 */
#if defined(__ELF__)
#define IS_LINKED(name) __extension__({					\
	extern const char name[] __attribute__((weak));			\
	name != NULL;							\
})
#else
#define IS_LINKED(name)	0
#endif

#define WORD		((int)sizeof(uintptr_t))
#define LINE		64		/* bytes of a cache line */

#define CONTRACT(cond, text)						\
	do {								\
		if (unlikely(!(cond)))					\
			usched_fail(text);				\
	} while (0)

static inline size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}
