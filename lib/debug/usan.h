/* SPDX-License-Identifier: MIT */
/* usan.h: tells sanitizers about switches between stacks. For uhard.c only. */

#ifndef USAN_H
#define USAN_H

/*
 * OVERVIEW
 *
 * A sanitizer believes that a native thread has one stack, on which deeper
 * frames were called by higher frames. At each switch it is told otherwise:
 *
 *	usan_leave(from, to)		on the stack of from
 *	the stack pointer moves		nothing in between is instrumented
 *	usan_arrive(to)			on the stack of to
 *
 * AddressSanitizer must know the bounds of the stack, since a call that does
 * not return (a throw, a longjmp) unpoisons all of the stack. The bounds of a
 * lane are known here. For the dispatcher's stack, and so for lane 0, the
 * sanitizer itself is asked, because another dispatcher may have told it
 * (usan_home()).
 *
 * Each 8 bytes of memory have a byte of shadow, which says whether they may be
 * accessed. A function poisons the surroundings of its arrays when it is
 * entered, and unpoisons them when it returns. So the shadow of a slice belongs
 * to the slice and must move with it. usan_save() keeps the shadow when the
 * slice is copied away, and the stack that the slice leaves is unpoisoned for
 * the next thread. When the slice has come back, usan_arrive() restores the
 * shadow, as the last step: the portable switch is a longjmp(), which would
 * unpoison it again.
 *
 * With detect_stack_use_after_return, arrays lie in a fake stack on the heap,
 * and its frames never move. Each thread has a fake stack of its own, even if
 * it shares a lane, and so has the dispatcher.
 *
 * The leak checker looks for pointers in the stacks of native threads only. So
 * lanes are registered with it. The stack of the dispatcher is registered, too,
 * since it is not the current stack if a thread calls exit().
 *
 * ThreadSanitizer knows fibers, each with a call stack and a clock of its own,
 * and each thread is a fiber. A switch counts as synchronisation, so the
 * threads of a dispatcher do not race with each other; threads of two
 * dispatchers may. There can be some 8000 fibers and native threads at a time.
 * The copies of slices are not instrumented.
 *
 * WHICH SANITIZER
 *
 * A program may be sanitized though the library was compiled without: the debug
 * library serves all programs. So the functions of AddressSanitizer are weak
 * here, and whether they are in the program is asked at run time
 * (usan_address()). In a program without a sanitizer the calls below do next to
 * nothing. What the library itself does with memory is then not checked.
 *
 * ThreadSanitizer must see each atomic operation of the library, or it reports
 * races between threads that a lock or a channel of the library has ordered. So
 * there the library is compiled with it, too, and else refuses to run
 * (usan_refused()).
 *
 * REJECTED: to tell ThreadSanitizer of the order by its acquire and release. A
 * call would need one behind its last atomic operation, in each module, and one
 * clock for all calls would hide the races of the program.
 */

#include "compiler.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define USAN_ADDRESS	1
#endif
#if __has_feature(thread_sanitizer)
#define USAN_THREAD	1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(USAN_ADDRESS)
#define USAN_ADDRESS	1
#endif
#if defined(__SANITIZE_THREAD__) && !defined(USAN_THREAD)
#define USAN_THREAD	1
#endif
#if !defined(USAN_ADDRESS)
#define USAN_ADDRESS	0
#endif
#if !defined(USAN_THREAD)
#define USAN_THREAD	0
#endif

/*
 * Functions that call these functions are not instrumented, and neither are
 * these functions, inlined there.
 */
#define USAN_INLINE	static inline __attribute__((always_inline, unused)) \
			UNCHECKED

/* Mach-O cannot ask for what may be nowhere (core/base.h). */
#if defined(__ELF__)
#define USAN_WEAK	__attribute__((weak))
#else
#define USAN_WEAK
#endif

/* What a sanitizer must know of one stack: a thread's, or a dispatcher's. */
struct usan {
	const void *n_low;	/* the stack: lane, or native */
	size_t      n_size;
	const char *n_frame;	/* of a dispatcher: lane 0 is below */
	int         n_away;	/* its thread or dispatcher does not run */
	void       *n_fake;	/* ASan: its fake stack while n_away */
	void       *n_fiber;	/* TSan */
	char       *n_shadow;	/* ASan: shadow of a slice that is away */
	size_t      n_shadow_nr;
	const char *n_back;	/* ASan: the slice, if that has come back */
	size_t      n_back_nr;	/* bytes of its shadow */
};

USAN_WEAK void __sanitizer_start_switch_fiber (void **fake, const void *low,
					       size_t size);
USAN_WEAK void __sanitizer_finish_switch_fiber(void *fake, const void **low,
					       size_t *size);
USAN_WEAK void __asan_poison_memory_region    (void const volatile *at,
					       size_t nob);
USAN_WEAK void __asan_unpoison_memory_region  (void const volatile *at,
					       size_t nob);
USAN_WEAK void __asan_get_shadow_mapping      (size_t *scale, size_t *offset);
USAN_WEAK void __lsan_register_root_region    (const void *at, size_t nob);
USAN_WEAK void __lsan_unregister_root_region  (const void *at, size_t nob);
USAN_WEAK void __lsan_ignore_object           (const void *at);
USAN_WEAK void __tsan_init                    (void);
#if USAN_THREAD
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber     (unsigned flags);
void  __tsan_destroy_fiber    (void *fiber);
void  __tsan_switch_to_fiber  (void *fiber, unsigned flags);
#else
#define __tsan_get_current_fiber()		NULL
#define __tsan_create_fiber(flags)		NULL
#define __tsan_destroy_fiber(fiber)		((void)0)
#define __tsan_switch_to_fiber(fiber, flags)	((void)0)
#endif

/* Is AddressSanitizer in the program? */
USAN_INLINE int usan_address(void)
{
#if defined(__ELF__) && !USAN_THREAD
	return __asan_get_shadow_mapping != NULL;
#else
	return USAN_ADDRESS;
#endif
}

/* Is ThreadSanitizer in the program, but did not compile the library? */
USAN_INLINE int usan_refused(void)
{
#if defined(__ELF__) && !USAN_THREAD
	return __tsan_init != NULL;
#else
	return 0;
#endif
}

/* No thread has frames there any more. */
USAN_INLINE void usan_clear(const char *low, const char *high)
{
	if (usan_address() && low < high)
		__asan_unpoison_memory_region(low, high - low);
}

/* Returns the shadow of at. *nob, bytes of memory, becomes bytes of shadow. */
USAN_INLINE volatile char *usan_shadow(const char *at, size_t *nob)
{
	size_t scale, offset;

	__asan_get_shadow_mapping(&scale, &offset);
	*nob >>= scale;
	return (volatile char *)(((size_t)at >> scale) + offset);
}

/* usan_close(): nob bytes must not be accessed, until usan_open(). */
USAN_INLINE void usan_close(const void *at, size_t nob)
{
	if (usan_address())
		__asan_poison_memory_region(at, nob);
}

USAN_INLINE void usan_open(const void *at, size_t nob)
{
	if (usan_address())
		__asan_unpoison_memory_region(at, nob);
}

/*
 * Announces a switch to n. The fake stack of the current stack goes to *fake.
 */
USAN_INLINE void usan_move(void **fake, struct usan *n)
{
	__sanitizer_start_switch_fiber(fake, n->n_low, n->n_size);
}

/*
 * Pretends to switch away and back, because the sanitizer then tells the bounds
 * of the current stack.
 */
USAN_INLINE void usan_bounds(struct usan *n)
{
	n->n_away  = 0;
	n->n_frame = __builtin_frame_address(0);
	n->n_low   = n->n_frame;
	n->n_size  = 1;
	usan_move(&n->n_fake, n);
	__sanitizer_finish_switch_fiber(n->n_fake, &n->n_low, &n->n_size);
	usan_move(&n->n_fake, n);
	__sanitizer_finish_switch_fiber(n->n_fake, NULL, NULL);
	n->n_fake = NULL;
	__lsan_register_root_region(n->n_frame, (const char *)n->n_low +
				    n->n_size - n->n_frame);
}

/* A dispatcher starts to run on the current stack. */
USAN_INLINE void usan_home(struct usan *n)
{
	n->n_fiber = __tsan_get_current_fiber();
	if (usan_address())
		usan_bounds(n);
}

/* The dispatcher does not run there any more. */
USAN_INLINE void usan_home_end(struct usan *n)
{
	if (usan_address())
		__lsan_unregister_root_region(n->n_frame,
			(const char *)n->n_low + n->n_size - n->n_frame);
}

/* A thread will run for the first time, on [low, low + size). */
USAN_INLINE void usan_thread(struct usan *n, const void *low, size_t size)
{
	n->n_low   = low;
	n->n_size  = size;
	n->n_away  = 1;
	n->n_fiber = __tsan_create_fiber(0);
}

/* Frees the fake stack of n. That needs a switch to n, and from there back. */
USAN_INLINE void usan_fake_end(struct usan *n)
{
	struct usan here;

	usan_move(&here.n_fake, n);
	__sanitizer_finish_switch_fiber(n->n_fake, &here.n_low, &here.n_size);
	usan_move(NULL, &here);
	__sanitizer_finish_switch_fiber(here.n_fake, NULL, NULL);
	n->n_fake = NULL;
}

/* The thread has ended, or is forgotten, and does not run any more. */
USAN_INLINE void usan_end(struct usan *n)
{
	if (n->n_fiber != NULL)
		__tsan_destroy_fiber(n->n_fiber);
	n->n_fiber = NULL;
	if (n->n_fake != NULL)
		usan_fake_end(n);
	free(n->n_shadow);
	n->n_shadow    = NULL;
	n->n_shadow_nr = 0;
}

/*
 * The last call before a switch. A thread that has ended does not come back, and
 * leaves frames that have not unpoisoned their arrays.
 */
USAN_INLINE void usan_leave(struct usan *from, struct usan *to, int ended)
{
	__tsan_switch_to_fiber(to->n_fiber, 0);
	if (!usan_address())
		return;
	if (ended)
		usan_clear(__builtin_frame_address(0), from->n_low == to->n_low ?
			   to->n_frame : (const char *)from->n_low + from->n_size);
	from->n_away = 1;
	usan_move(ended ? NULL : &from->n_fake, to);
}

/* The first call after a switch. There may have been none. */
USAN_INLINE void usan_arrive(struct usan *n)
{
	volatile char *at;
	size_t nr = n->n_back_nr;
	size_t i;

	if (!usan_address() || !n->n_away)
		return;
	n->n_away = 0;
	__sanitizer_finish_switch_fiber(n->n_fake, NULL, NULL);
	n->n_fake = NULL;
	if (nr == 0)
		return;
	at = usan_shadow(n->n_back, &nr);
	for (i = 0; i < nr; i++)
		at[i] = n->n_shadow[i];
	n->n_back_nr = 0;
}

/* Makes room for the shadow of a slice of nob bytes. Returns 0 or -ENOMEM. */
USAN_INLINE int usan_fit(struct usan *n, size_t nob)
{
	char *shadow;

	if (!usan_address())
		return 0;
	usan_shadow(NULL, &nob);
	if (nob <= n->n_shadow_nr)
		return 0;
	shadow = malloc(nob);
	if (shadow == NULL)
		return -ENOMEM;
	free(n->n_shadow);
	__lsan_ignore_object(shadow);	/* its owner may be in unseen memory */
	n->n_shadow    = shadow;
	n->n_shadow_nr = nob;
	return 0;
}

/* usan_save(): the slice was copied out; usan_restore(): it was copied in. */
USAN_INLINE void usan_save(struct usan *n, const char *slice, size_t nob)
{
	volatile char *at;
	size_t i;

	if (!usan_address())
		return;
	at = usan_shadow(slice, &nob);
	for (i = 0; i < nob; i++)
		n->n_shadow[i] = at[i];
}

USAN_INLINE void usan_restore(struct usan *n, char *slice, size_t nob)
{
	n->n_back    = slice;
	n->n_back_nr = nob;
}

/* Tells a leak checker that it should, or should not, look into lanes. */
USAN_INLINE void usan_lanes(const void *at, size_t nob, int begins)
{
	if (!usan_address())
		return;
	if (begins)
		__lsan_register_root_region(at, nob);
	else {
		__lsan_unregister_root_region(at, nob);
		__asan_unpoison_memory_region(at, nob);
	}
}

#endif /* USAN_H */
