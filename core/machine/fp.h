/* SPDX-License-Identifier: MIT */
/* core/machine/fp.h: floating-point control words. */

/*
 * fp_get() returns the control words of the running thread as a single number:
 * on x86 the control bits of mxcsr above the x87 word. fp_set() sets them.
 */

/*
 * Not 0: threads share them (usched_share_fp()). On x86 these are the words,
 * which a block that compares them then stores instead of asking the processor.
 * Bits that are always 1 make them other than 0.
 *
 * A block should not have to load that. s_fp_expected, with which it compares
 * its words, has FP_SHARED then, and a block where the thread blocked before
 * stores and compares none.
 */
static uint64_t fp_shared;

#if defined(FP_STORED)
#define FP_SHARED	((uint64_t)1 << 63)
#else
#define FP_SHARED	0u
#endif
/* With this no block finds its words as expected (core/openmp.h). */
#define FP_NEVER	UINT32_MAX

static __typeof__(FP_SHARED) fp_besides;	/* one of the two, or 0 (atomic) */

#if defined(__x86_64__) || defined(__i386__)

#define MXCSR_CONTROL	0xffc0u

static inline unsigned fp_of(const volatile struct fp_words *w)
{
	return (w->w_mxcsr & MXCSR_CONTROL) << 16 | w->w_x87;
}

/* Without SSE in this file, others may use it: libm does where there is some. */
#if defined(__x86_64__) || defined(__SSE__)
#define HAS_MXCSR	1
#else
#define HAS_MXCSR	__builtin_cpu_supports("sse")
#endif

static inline void fp_read(struct fp_words *w)
{
	if (HAS_MXCSR)
		__asm__ volatile("stmxcsr %0" : "=m"(w->w_mxcsr));
	else
		w->w_mxcsr = 0;
	__asm__ volatile("fnstcw %0" : "=m"(w->w_x87));
}

static inline void fp_load(const struct fp_words *w)
{
	if (HAS_MXCSR)
		__asm__ volatile("ldmxcsr %0" : : "m"(w->w_mxcsr));
	__asm__ volatile("fldcw %0" : : "m"(w->w_x87));
}

static inline unsigned fp_get(void *scratch)
{
	fp_read(scratch);
	return fp_of(scratch);
}

static inline uint64_t fp_whole(void)
{
	union {
		struct fp_words words;
		uint64_t        whole;
	} fp = { .whole = 0 };

	fp_read(&fp.words);
	return fp.whole;
}

static NOINLINE void fp_write(unsigned fp)
{
	struct fp_words w;

	fp_read(&w);
	w.w_mxcsr = (w.w_mxcsr & ~MXCSR_CONTROL) | fp >> 16;
	w.w_x87   = (unsigned short)fp;
	fp_load(&w);
}

/* Writes only what differs: a write may cost a hundred reads. */
static INLINE void fp_set(unsigned fp)
{
	struct fp_words scratch;

	if (unlikely(fp_get(&scratch) != fp))
		fp_write(fp);
}

#else

/* FP_CONTROL: the bits that are kept. Others are flags. */
#if defined(__aarch64__)
#define FP_GET		"mrs %0, fpcr"
#define FP_SET		"msr fpcr, %0"
#define FP_CONTROL	~0u
#elif defined(__riscv_flen)
#define FP_GET		"frrm %0"
#define FP_SET		"fsrm %0"
#define FP_CONTROL	~0u
#elif defined(__arm__) && defined(__ARM_FP)
#define FP_GET		"vmrs %0, fpscr"
#define FP_SET		"vmsr fpscr, %0"
#define FP_CONTROL	0x07c09f00u
#elif defined(__s390x__)
#define FP_GET		"efpc %0"
#define FP_SET		"sfpc %0"
#define FP_CONTROL	0xfc000077u
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
#define FP_GET		"mffs 0\n mfvsrd %0, 0"
#define FP_SET		"mtvsrd 0, %0\n mtfsf 255, 0"
#define FP_LOST		, "fr0"
#define FP_CONTROL	0xffu
#else
#define FP_GET		""	/* not kept */
#define FP_SET		""
#define FP_CONTROL	0u
#endif
#if !defined(FP_LOST)
#define FP_LOST
#endif

static inline unsigned long fp_read(void)
{
	unsigned long fp = 0;

	__asm__ volatile(FP_GET : "+r"(fp) : : "cc" FP_LOST);
	return fp;
}

static inline unsigned fp_get(void *scratch)
{
	(void)scratch;
	return (unsigned)fp_read() & FP_CONTROL;
}

static inline uint64_t fp_whole(void)
{
	return 1;
}

static INLINE void fp_set(unsigned word)
{
	unsigned long flags = FP_CONTROL != ~0u ? fp_read() : 0;
	unsigned long fp = (flags & ~(unsigned long)FP_CONTROL) | word;

	__asm__ volatile(FP_SET : : "r"(fp) : "cc" FP_LOST);
}

#endif

/*
 * Returns the control words of a thread that blocks, with its registers at sp.
 * They are stored in the TOP free bytes below sp, or were already.
 */
static inline unsigned fp_saved(char *sp)
{
#if defined(FP_STORED)
	return fp_of((struct fp_words *)(sp - TOP));
#else
	return fp_get(sp - TOP);
#endif
}

#if defined(FP_STORED)
/* Stores the words for fp_saved(). */
static ALWAYS_INLINE void fp_store(char *sp)
{
	struct fp_words *w = (struct fp_words *)(sp - TOP);

	__asm__ volatile("stmxcsr %0\n fnstcw %1"
			 : "=m"(w->w_mxcsr), "=m"(w->w_x87));
}

/* Stores the words that threads share, for fp_saved(). */
static ALWAYS_INLINE void fp_store_shared(char *sp)
{
	memcpy(sp - TOP, &fp_shared, sizeof fp_shared);
}

#else
static ALWAYS_INLINE void fp_store(char *sp)
{
	(void)sp;
}

static ALWAYS_INLINE void fp_store_shared(char *sp)
{
	(void)sp;
}
#endif

/* Returns s_fp_expected for a dispatcher with lanes, whose words are fp. */
static inline uint64_t fp_expect(unsigned fp)
{
	return fp ^ __atomic_load_n(&fp_besides, __ATOMIC_RELAXED);
}

/* Sets the control words, if threads of s have their own. */
static INLINE void fp_put(const struct usched *s, unsigned fp)
{
	if (!s->s_coroutine)
		fp_set(fp);
}

/* The hard mode finds a thread that has set words that threads share. */
static inline void fp_check(const struct usched *s, unsigned fp)
{
	CONTRACT(!HARD || fp_shared == 0 || s->s_coroutine ||
		 fp == s->s_fp, "usched_share_fp: a thread has changed "
		 "floating-point control words, which threads share");
}

/* A thread has ended: sets the control words of the call-backs. */
static INLINE void fp_end(const struct usched *s)
{
	struct fp_words scratch;

	if (HARD)
		fp_check(s, fp_get(&scratch));
	if (fp_shared == 0)
		fp_put(s, s->s_fp);
}

/* Lets no block find its words as expected, in runs that begin later. Any thread. */
static void fp_never(void)
{
	__atomic_store_n(&fp_besides, FP_NEVER, __ATOMIC_RELAXED);
}

void usched_share_fp(int yes)
{
	fp_shared = yes ? fp_whole() : 0;
	if (__atomic_load_n(&fp_besides, __ATOMIC_RELAXED) != FP_NEVER)
		__atomic_store_n(&fp_besides, yes ? FP_SHARED : 0,
				 __ATOMIC_RELAXED);
}
