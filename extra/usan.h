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
 * In a build without sanitizers these functions are empty. A build with a
 * sanitizer has the functions that they call: no header and no library is
 * needed.
 */

#include <stddef.h>

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
 * these functions, inlined there. Clang's thread sanitizer needs a second
 * attribute.
 */
#define USAN_UNCHECKED	__attribute__((no_sanitize("address", "thread")))
#if defined(__has_attribute)
#if __has_attribute(disable_sanitizer_instrumentation)
#undef  USAN_UNCHECKED
#define USAN_UNCHECKED	__attribute__((no_sanitize("address", "thread"), \
				       disable_sanitizer_instrumentation))
#endif
#endif
#define USAN_INLINE	static inline __attribute__((always_inline, unused)) \
			USAN_UNCHECKED

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

#if USAN_ADDRESS

#include <errno.h>
#include <stdlib.h>

void __sanitizer_start_switch_fiber (void **fake, const void *low, size_t size);
void __sanitizer_finish_switch_fiber(void *fake, const void **low, size_t *size);
void __asan_poison_memory_region    (void const volatile *at, size_t nob);
void __asan_unpoison_memory_region  (void const volatile *at, size_t nob);
void __asan_get_shadow_mapping      (size_t *scale, size_t *offset);
void __lsan_register_root_region    (const void *at, size_t nob);
void __lsan_unregister_root_region  (const void *at, size_t nob);
void __lsan_ignore_object           (const void *at);

USAN_INLINE void usan_clear(const char *low, const char *high)
{
	if (low < high)
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
	__asan_poison_memory_region(at, nob);
}

USAN_INLINE void usan_open(const void *at, size_t nob)
{
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
USAN_INLINE void usan_home(struct usan *n)
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

USAN_INLINE void usan_home_end(struct usan *n)
{
	__lsan_unregister_root_region(n->n_frame, (const char *)n->n_low +
				      n->n_size - n->n_frame);
}

USAN_INLINE void usan_thread(struct usan *n, const void *low, size_t size)
{
	n->n_low  = low;
	n->n_size = size;
	n->n_away = 1;
}

/* Frees the fake stack of n. That needs a switch to n, and from there back. */
USAN_INLINE void usan_end(struct usan *n)
{
	struct usan here;

	if (n->n_fake != NULL) {
		usan_move(&here.n_fake, n);
		__sanitizer_finish_switch_fiber(n->n_fake, &here.n_low,
						&here.n_size);
		usan_move(NULL, &here);
		__sanitizer_finish_switch_fiber(here.n_fake, NULL, NULL);
		n->n_fake = NULL;
	}
	free(n->n_shadow);
	n->n_shadow    = NULL;
	n->n_shadow_nr = 0;
}

/*
 * A thread that has ended leaves frames that have not unpoisoned their arrays.
 */
USAN_INLINE void usan_leave(struct usan *from, struct usan *to, int ended)
{
	if (ended)
		usan_clear(__builtin_frame_address(0), from->n_low == to->n_low ?
			   to->n_frame : (const char *)from->n_low + from->n_size);
	from->n_away = 1;
	usan_move(ended ? NULL : &from->n_fake, to);
}

USAN_INLINE void usan_arrive(struct usan *n)
{
	volatile char *at;
	size_t nr = n->n_back_nr;
	size_t i;

	if (!n->n_away)
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

USAN_INLINE int usan_fit(struct usan *n, size_t nob)
{
	char *shadow;

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

USAN_INLINE void usan_save(struct usan *n, const char *slice, size_t nob)
{
	volatile char *at = usan_shadow(slice, &nob);
	size_t i;

	for (i = 0; i < nob; i++)
		n->n_shadow[i] = at[i];
}

USAN_INLINE void usan_restore(struct usan *n, char *slice, size_t nob)
{
	n->n_back    = slice;
	n->n_back_nr = nob;
}

USAN_INLINE void usan_lanes(const void *at, size_t nob, int begins)
{
	if (begins)
		__lsan_register_root_region(at, nob);
	else {
		__lsan_unregister_root_region(at, nob);
		__asan_unpoison_memory_region(at, nob);
	}
}

#else /* USAN_ADDRESS */

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

/* A dispatcher starts to run on the current stack. */
USAN_INLINE void usan_home(struct usan *n)
{
	n->n_fiber = __tsan_get_current_fiber();
}

/* The dispatcher does not run there any more. */
USAN_INLINE void usan_home_end(struct usan *n)
{
	(void)n;
}

/* A thread will run for the first time, on [low, low + size). */
USAN_INLINE void usan_thread(struct usan *n, const void *low, size_t size)
{
	n->n_low   = low;
	n->n_size  = size;
	n->n_fiber = __tsan_create_fiber(0);
}

/* The thread has ended, or is forgotten, and does not run any more. */
USAN_INLINE void usan_end(struct usan *n)
{
	if (n->n_fiber != NULL)
		__tsan_destroy_fiber(n->n_fiber);
	n->n_fiber = NULL;
}

/* The last call before a switch; from does not come back if it has ended. */
USAN_INLINE void usan_leave(struct usan *from, struct usan *to, int ended)
{
	(void)from, (void)to, (void)ended;
	__tsan_switch_to_fiber(to->n_fiber, 0);
}

/* The first call after a switch. There may have been none. */
USAN_INLINE void usan_arrive(struct usan *n)
{
	(void)n;
}

/* Makes room for the shadow of a slice of nob bytes. Returns 0 or -ENOMEM. */
USAN_INLINE int usan_fit(struct usan *n, size_t nob)
{
	(void)n, (void)nob;
	return 0;
}

/* usan_save(): the slice was copied out; usan_restore(): it was copied in. */
USAN_INLINE void usan_save(struct usan *n, const char *slice, size_t nob)
{
	(void)n, (void)slice, (void)nob;
}

USAN_INLINE void usan_restore(struct usan *n, char *slice, size_t nob)
{
	(void)n, (void)slice, (void)nob;
}

/* No thread has frames there any more. */
USAN_INLINE void usan_clear(const char *low, const char *high)
{
	(void)low, (void)high;
}

/* usan_close(): nob bytes must not be accessed, until usan_open(). */
USAN_INLINE void usan_close(const void *at, size_t nob)
{
	(void)at, (void)nob;
}

USAN_INLINE void usan_open(const void *at, size_t nob)
{
	(void)at, (void)nob;
}

/* Tells a leak checker that it should, or should not, look into lanes. */
USAN_INLINE void usan_lanes(const void *at, size_t nob, int begins)
{
	(void)at, (void)nob, (void)begins;
}

#endif /* USAN_ADDRESS */

#endif /* USAN_H */
