/* SPDX-License-Identifier: MIT */
/* core/kinds.h: the kind of library; files of two kinds do not link. */

/*
 * Other machines than these switch by setjmp() and longjmp(). So do systems on
 * which the switch never ran, but with USCHED_LANES they take it: that is for
 * all files. See test/whole/elsewhere.sh.
 */
#if !(defined(__linux__) || defined(USCHED_LANES)) ||			\
	!(defined(__ELF__) || defined(__APPLE__)) ||			\
	!defined(__LP64__) ||						\
	!(defined(__x86_64__) || defined(__aarch64__) ||		\
	  (defined(__riscv) && defined(__riscv_float_abi_double)))
#undef  USCHED_PORTABLE
#define USCHED_PORTABLE
#endif
/* Not API. Files can switch in place; assembly can read local variables. */
#if defined(__x86_64__) && defined(__LP64__) &&				\
	(defined(__ELF__) || defined(__APPLE__))
#define USCHED_LIVE
#endif
#if defined(USCHED_LIVE) && defined(__ELF__) && !defined(__OpenBSD__)
#define USCHED_LOCAL
#endif

/*
 * These flags change structs, or what is inlined: each is for all files of a
 * program and of the library, or for none. So each file that includes this
 * header refers to a name for each flag, which only a library of its kind has.
 * The linker, or the loader, names it to files of another kind. Not API.
 */
#if defined(USCHED_HARD)
#define USCHED_KIND_HARD usched_with_USCHED_HARD__or_compile_this_file_without_it
#else
#define USCHED_KIND_HARD usched_without_USCHED_HARD__or_compile_this_file_with_it
#endif
#if defined(USCHED_SINGLE)
#define USCHED_KIND_SINGLE usched_with_USCHED_SINGLE__or_compile_this_file_without_it
#else
#define USCHED_KIND_SINGLE usched_without_USCHED_SINGLE__or_compile_this_file_with_it
#endif
/* Only for modules that read slices: see uslice.h. */
#if defined(USCHED_PORTABLE)
#define USCHED_KIND_PORTABLE usched_with_USCHED_PORTABLE__or_compile_this_file_without_it
#else
#define USCHED_KIND_PORTABLE usched_without_USCHED_PORTABLE__or_compile_this_file_with_it
#endif
/* The reference stays, also where the linker collects what nothing uses. */
#define USCHED_STAYS	__attribute__((used))
#if defined(__has_attribute) && defined(__ELF__)
#if __has_attribute(retain)
#undef  USCHED_STAYS
#define USCHED_STAYS	__attribute__((used, retain))
#endif
#endif
extern const char USCHED_KIND_HARD[], USCHED_KIND_SINGLE[];
extern const char USCHED_KIND_PORTABLE[];
USCHED_STAYS static const char *const usched_kind[] = {
	USCHED_KIND_HARD, USCHED_KIND_SINGLE
};

#if defined(__has_feature)
#if __has_feature(safe_stack) || __has_feature(shadow_call_stack)
#error "usched: copied stacks and -fsanitize=safe-stack or shadow-call-stack do not mix"
#endif
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define USCHED_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#undef  USCHED_SANITIZED
#define USCHED_SANITIZED
#endif
/* USCHED_SANITIZE_ANYWAY: no thread will run code of this file. */
#if defined(USCHED_SANITIZED) && !defined(USCHED_HARD) &&		\
	!defined(USCHED_SANITIZE_ANYWAY)
#error "usched: -fsanitize=address and thread need -DUSCHED_HARD, and libusched-debug.a or uhard.c"
#endif

/* On functions whose result must be looked at, or something is lost. */
#if defined(__GNUC__)
#define USCHED_MUST	__attribute__((warn_unused_result))
#else
#define USCHED_MUST
#endif
