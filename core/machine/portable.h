/* SPDX-License-Identifier: MIT */
/* core/machine/portable.h: any machine, by setjmp() and longjmp(). */

/*
 * Any machine whose stack grows down, by setjmp() and longjmp(). The registers
 * are in a jmp_buf in the frame of usched_save(); the "sp" given to f() is the
 * address of a pointer to that, in a deeper frame. A jump up the stack, to the
 * base, is a longjmp() that makes usched_save() call first_round() again; a
 * jump down is a call from a frame that is deep enough.
 */
#define SWITCH_MOST	((int)sizeof(jmp_buf) + 256)

enum { RESUME = 1, REWIND = 2 };

static void base_set(struct usched *s, char *exit, char *base);
static SWITCHES void round_start(void *sched);

/* What first_round(), or call_and_end(), calls next. */
static __thread struct {
	void (*r_f)(void *);
	void  *r_arg;
} next_round;

struct save {
	jmp_buf v_env;
	int     v_rc;
};

/* Calls f() with the "sp" of v, in a frame below that of usched_save(). */
static NOINLINE UNCHECKED void mark(void (*f)(char *, void *), void *arg, struct save *v)
{
	volatile struct {
		char         m_free[TOP];
		struct save *m_save __attribute__((aligned(TOP)));
	} m = { { 0 }, v };

	f((char *)&m.m_save, arg);
}

int usched_save(void (*f)(char *sp, void *arg), void *arg)
{
	volatile struct save v;

	if (_setjmp(((struct save *)&v)->v_env) != RESUME)
		mark(f, arg, (struct save *)&v);
	return v.v_rc;
}

static ALWAYS_INLINE SWITCHES void usched_resume(char *sp, int rc)
{
	struct save *v = *(struct save **)sp;

	v->v_rc = rc;
	_longjmp(v->v_env, RESUME);
}

/* Never called: QUICK is 0. */
static ALWAYS_INLINE SWITCHES void usched_resume_open(char *sp, int *gate)
{
	(void)gate;
	usched_resume(sp, 0);
}

/* All rounds start from this frame, and slices end in it, below s_base. */
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

static ALWAYS_INLINE SWITCHES void usched_jump(char *sp, void (*f)(void *), void *arg)
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
SHARED("usched_live") SHARED("usched_live_step")
	"push %rcx\n push %rbp\n push %rbx\n sub $8, %rsp\n"
	"call " NAME("ustack_block") "\n"
	"add $8, %rsp\n pop %rbx\n pop %rbp\n pop %rcx\n jmp *%rcx\n"
SIZE("usched_live") SIZE("usched_live_step") SHARED("usched_live_enter")
	"push %rcx\n push %rbp\n push %rbx\n sub $8, %rsp\n"
	"call " NAME("usched_step") "\n"
	"add $8, %rsp\n pop %rbx\n pop %rbp\n pop %rcx\n jmp *%rcx\n"
SIZE("usched_live_enter"));
#endif

static ALWAYS_INLINE int prologue_nr(void)
{
	return 0;
}

static ALWAYS_INLINE const uintptr_t *prologue_words(void)
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
