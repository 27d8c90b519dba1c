/* SPDX-License-Identifier: MIT */
/* umove.c: threads that go on in another process, or come back from a file. */

/*
 * OVERVIEW
 *
 * A thread that runs is a slice of stack, the registers that it has still to use,
 * and its heap. usched_save() pushes the registers below the slice, so that all
 * but the heap lies together, from the stack pointer to the bottom of the lane.
 * Those bytes are copied, and that is the thread:
 *
 *	umove_pack()   usched_save()                         run()
 *	|   frame    | registers | ...  frames of the thread | bottom of the lane
 *	             ^                                       ^
 *	             hd_top                                  pr_lanes and hd_lane
 *	             |<-------------- the slice ------------>|
 *
 * It goes on elsewhere like this. A new thread is made, whose lane is the same.
 * It moves its stack pointer below hd_top, copies the slice to where it was,
 * over its own first frames, and jumps: usched_resume_at(hd_top, 1). So
 * usched_save() returns a second time, with 1, as setjmp() does.
 *
 *	process A			process B
 *	umove_to(send)			umove_import(bytes)
 *	  usched_save() returns 0	  a new thread, on the same lane
 *	  send() the bytes		  land(): copies the slice, jumps
 *	  ustack_abort()		  usched_save() returns 1
 *
 * The library knows of none of this. In A a thread has ended, in B a thread runs
 * that has not blocked yet. So no queue, record or counter of the library has to
 * be moved, and nothing of usched.c is known here but what is in uslice.h.
 *
 * PARTS
 *
 *	uprogram.c	the program and its lanes, which are alike in each process
 *	uheap.c		heaps, at the same addresses in each process
 *	unumber.c	the threads of a process, by number
 *	urefuse.c	which threads cannot leave
 *	umove.c		how a thread is made, leaves, and arrives
 *
 * LANES: a thread that moves gets a shared lane by u_lane before it first runs,
 * also if its function is deep. Private lanes lie anywhere. Up to the number of
 * lanes threads get them in turn, and all others one of the first SHARED.
 *
 * INVARIANTS
 *
 * V1. u_arg of a thread of umove_make() is its struct umove_thread in this
 *     process. Frames of run() and umove_pack() use no such pointer after
 *     usched_save() has returned 1, since they may have come from elsewhere.
 * V3. From umove_pack() until it has ended, or the save has, a thread changes
 *     neither the frames that were packed, nor its heap.
 *
 * The other is unumber V2.
 *
 * REJECTED
 *
 *   - Taking the slice of a thread that is blocked, by its u_top: it may have
 *     records, deadlines and locks, and the new thread would have to be put
 *     together from fields of struct ustack.
 *
 * WS, AND SEVERAL PROCESSORS, would need this:
 *
 *   - To leave: nothing. A thread at a safe point lies in its lane, at the home of
 *     the lane (lib/steal/homes.h), and all lanes are mapped at once.
 *   - To arrive: a new thread that has its lane before it begins. The home of this
 *     lane may be another worker, and may change, so the thread would go there by
 *     mail. If the lane is free it has to be taken out of the middle of the free
 *     list, which only the home may touch. Today the worker that runs a thread first
 *     chooses its lane.
 *   - Here: the table, the numbers, the groups, pack_space and boxes are those of one
 *     processor, without locks. A thread that leaves decides where to, packs, and is
 *     out of the table without a switch. With several processors each letter could
 *     come in between, so th_leaves would have to hold mail for all ways.
 *   - In a save: all workers must have seen sv_on before the first thread has come.
 *   - In ranks.c: spots K1, spots K3 and cut K4 hold since nothing else runs meanwhile.
 *
 * A rank for each cpu has all of that without a lock. So it was left at that.
 */

#define _GNU_SOURCE
#include "umove_inside.h"

#include "uproc.h"
#include "usync.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

UPREEMPT_NEVER;

#define SHARED	16	/* lanes that are shared if threads outnumber lanes */
#define MARGIN	1024	/* between the slice and the frames that copy it */
#define SPARE	8192	/* of a lane, for the frames below a slice */

struct usched *umove_sched;

static unsigned turn;			/* lanes that were given */
static struct ugroup gate = UGROUP_LOCAL;	/* 1: shut */
static bool gate_shut;

/* By umove_pack() for pack(). Nothing blocks in between. */
static size_t pack_space;
static bool pack_heap;

int umove_init(struct usched *s, int rank, int ranks, size_t heap)
{
	int rc;

	if (s == NULL || rank < 0 || rank >= ranks)
		return -EINVAL;
	if (umove_sched != NULL || s->s_lane_nr != 0)
		return -EBUSY;
	rc = umove_program_init(s);
	if (rc == 0)
		rc = umove_table_init(rank, ranks);
	if (rc != 0)
		return rc;
	if (umove_heap_init(heap) != 0) {
		umove_table_fini();
		return -EINVAL;
	}
	umove_sched = s;
	return 0;
}

void umove_fini(void)
{
	if (umove_sched == NULL)
		return;
	umove_table_fini();
	gate  = (struct ugroup)UGROUP_LOCAL;
	gate_shut = false;
	umove_sched = NULL;
	umove_heap_fini();
	umove_save_fini();
}

/*
 * MAKING THREADS
 */

static void run(void *t);
static void arrive(void *t);

struct umove_thread *umove_mine(void)
{
	const struct ustack *u = ustack_self();

	return u != NULL && (u->u_f == run || u->u_f == arrive) ? u->u_arg : NULL;
}

struct umove_thread *umove_caller(const char *call)
{
	struct umove_thread *t = umove_mine();

	if (t == NULL)
		usched_message("%s: umove_make() has not made the caller, or a "
			       "scope of the caller has not ended", call);
	return t;
}

long umove_self(void)
{
	const struct umove_thread *t = umove_mine();

	return t != NULL ? t->th_number : -1;
}

/* t's function, called where t may have come from elsewhere: V1. */
static NOINLINE void call(void)
{
	const struct umove_thread *t = umove_mine();

	t->th_f(t->th_arg);
}

static NOINLINE void ended(void)
{
	struct umove_thread *t = umove_mine();

	if (umove_far != NULL)
		umove_far->fa_ended(t->th_number);
	else
		umove_number_put(t->th_number);
	umove_leave(t);
}

/* A thread that begins is at a safe point. */
static void run(void *t)
{
	(void)t;
	(void)umove_point();
	call();
	ended();
}

static int lane_next(void)
{
	int nr = umove_sched->s_lane_nr;

	if (umove_alive() > nr && nr > SHARED)
		nr = SHARED;
	return (int)(turn++ % (unsigned)nr) + 1;
}

/* Makes a thread that runs f on t, in this lane. 0, -ENOMEM. */
static int spawn(struct umove_thread *t, void (*f)(void *), int lane)
{
	struct uproc_thread *new;
	int rc;

	rc = umove_far != NULL ? umove_far->fa_room() : 0;
	if (rc != 0)
		return rc;
	if (usched_lane_guard(umove_sched, lane) != 0)
		return -ENOMEM;
	new = uproc_make((struct uproc *)umove_sched, f, t, 0);
	if (new == NULL)
		return -errno;
	new->t_stack.u_lane = (short)lane;	/* the caller runs, not yet new */
	umove_enter(t);
	if (umove_far != NULL)
		umove_far->fa_here(t->th_number);
	return 0;
}

long umove_make(void (*f)(void *), void *arg)
{
	struct umove_thread *t;
	long nr;
	int rc;

	if (f == NULL || !umove_ready("umove_make") ||
	    (umove_far != NULL && umove_far->fa_make() != 0))
		return -EINVAL;
	if (!umove_shares("umove_make"))
		return -ENOTSUP;
	t = calloc(1, sizeof *t);
	if (t == NULL)
		return -ENOMEM;
	t->th_f   = f;
	t->th_arg = arg;
	t->th_number = nr = umove_number_get();
	rc = umove_place(nr) < umove_heap_most() ? spawn(t, run, lane_next()) :
		-ENOMEM;
	if (rc == 0)
		return nr;
	umove_number_back(nr);
	free(t);
	return rc;
}

/*
 * LEAVING
 */

static inline unsigned fp_get(void)
{
	unsigned words = 0;

#if defined(__x86_64__)
	unsigned short x87;
	unsigned sse;

	__asm__ volatile("stmxcsr %0\n fnstcw %1" : "=m"(sse), "=m"(x87));
	words = sse << 16 | x87;
#endif
	return words;
}

static inline void fp_set(unsigned words)
{
#if defined(__x86_64__)
	unsigned short x87 = (unsigned short)words;
	unsigned sse = words >> 16;

	__asm__ volatile("ldmxcsr %0\n fldcw %1" : : "m"(sse), "m"(x87));
#else
	(void)words;
#endif
}

/* Copies the slice of t, which begins at sp. Runs below. */
static UNCHECKED void pack(char *sp, void *thread)
{
	struct umove_thread *t = thread;
	const struct ustack *u = ustack_self();
	size_t slice = (size_t)(umove_sched->s_lane[u->u_lane].l_bottom - sp);
	const void *heap;
	size_t heap_nob = pack_heap ? umove_heap(t, &heap) : 0;
	size_t box_nob  = pack_heap ? umove_box(t) : 0;
	char *bytes = malloc(pack_space + sizeof *t->th_bytes + slice + heap_nob +
			     box_nob);
	struct umove_head *h = (void *)(bytes + pack_space);

	if (bytes == NULL)
		usched_resume_at(sp, 0);
	*h = (struct umove_head) {
		.hd_number = (uint64_t)t->th_number,
		.hd_f      = (uintptr_t)t->th_f,
		.hd_arg    = (uintptr_t)t->th_arg,
		.hd_top    = (uintptr_t)sp,
		.hd_slice  = (uint32_t)slice,
		.hd_heap   = (uint32_t)heap_nob,
		.hd_lane   = (uint32_t)u->u_lane,
		.hd_fp     = fp_get(),
		.hd_box    = box_nob
	};
	memcpy(h + 1, sp, slice);
	if (heap_nob != 0)
		memcpy((char *)(h + 1) + slice, heap, heap_nob);
	if (box_nob != 0)
		umove_box_put(t, (char *)(h + 1) + slice + heap_nob);
	t->th_bytes = h;
	usched_resume_at(sp, 0);
}

NOINLINE int umove_pack(struct umove_thread *t, const char *call, size_t space,
			bool with_heap)
{
	t->th_bytes = NULL;
	if (umove_refused(t, call))
		return -ENOTSUP;
	pack_space = space;
	pack_heap  = with_heap;
	if (usched_save(pack, t) != 0)
		return 1;		/* V1 */
	return t->th_bytes != NULL ? 0 : -ENOMEM;
}

/* Gives t, the caller, to send(). 0: the caller is to end here. */
static int give(struct umove_thread *t,
		int (*send)(void *arg, const void *bytes, size_t nob), void *arg)
{
	struct umove_head *h = t->th_bytes;
	struct umove_program *p = (struct umove_program *)h - 1;
	int rc;

	*p = umove_program;
	t->th_leaves = true;		/* send() may wait */
	rc = send(arg, p, sizeof *p + umove_head_nob(h));
	t->th_leaves = false;
	free(p);
	if (rc == 0)
		umove_leave(t);
	return rc;
}

int umove_to(int (*send)(void *arg, const void *bytes, size_t nob), void *arg)
{
	struct umove_thread *t = umove_caller("umove_to");
	int rc;

	if (t == NULL || send == NULL || !umove_ready("umove_to"))
		return -EINVAL;
	if (!umove_is_alone("umove_to"))
		return -ENOTSUP;
	rc = umove_pack(t, "umove_to", sizeof umove_program, true);
	if (rc == 0)
		rc = give(t, send, arg);
	else
		return rc;
	if (rc == 0)
		ustack_abort();
	return rc;
}

/*
 * ARRIVING
 */

/* Frees the bytes that t has come from. */
static void batch_put(struct umove_thread *t)
{
	struct umove_batch *b = t->th_batch;

	t->th_batch = NULL;
	t->th_bytes = NULL;
	if (--b->ba_nr == 0)
		free(b);
}

/* Puts the slice back and goes on there. Runs below it. */
static NOINLINE UNCHECKED void settle(struct umove_thread *t)
{
	const struct umove_head *h = t->th_bytes;
	char *top = (char *)(uintptr_t)h->hd_top;
	unsigned fp = h->hd_fp;

	memcpy(top, h + 1, h->hd_slice);
	batch_put(t);
	fp_set(fp);
	usched_resume_at(top, 1);
}

/* Goes below where the slice of t will be. */
static NOINLINE void land(struct umove_thread *t)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t to = (uintptr_t)t->th_bytes->hd_top - MARGIN;
	char *below = __builtin_alloca(here > to ? here - to : MARGIN);

	__asm__ volatile("" : : "r"(below) : "memory");
	settle(t);
}

/* Passes the gate. Gives way if there is no memory for a wait. */
static void enter_by_gate(void)
{
	while (gate_shut && ugroup_wait(&gate, UNEVER) != 0)
		(void)uproc_yield();
}

void umove_gate(bool shut)
{
	if (shut == gate_shut)
		return;
	gate_shut = shut;
	(void)ugroup_add(&gate, shut ? 1 : -1);
}

static void arrive(void *thread)
{
	struct umove_thread *t = thread;

	if (gate_shut)
		enter_by_gate();
	if (!t->th_dropped)
		land(t);
	batch_put(t);
	free(t);
}

size_t umove_valid(const char *bytes, size_t nob)
{
	const struct umove_program *p = &umove_program;
	struct umove_head h;
	uint64_t all;

	if (nob < sizeof h)
		return 0;
	memcpy(&h, bytes, sizeof h);
	all = sizeof h + (uint64_t)h.hd_slice + h.hd_heap;
	if (all > nob || h.hd_box > nob - all || h.hd_slice % sizeof(uint64_t) != 0 ||
	    h.hd_heap % sizeof(uint64_t) != 0 || h.hd_heap > p->pr_heap ||
	    h.hd_slice == 0 || h.hd_slice > p->pr_lane_size - SPARE ||
	    h.hd_lane < 1 || h.hd_lane > p->pr_lane_nr ||
	    h.hd_top != (uintptr_t)umove_sched->s_lane[h.hd_lane].l_bottom - h.hd_slice ||
	    h.hd_number > LONG_MAX ||
	    umove_place((long)h.hd_number) >= umove_heap_most() ||
	    !umove_box_valid(bytes + all, h.hd_box))
		return 0;
	return (size_t)(all + h.hd_box);
}

struct umove_thread *umove_arrive(const char *call, struct umove_head *h,
				  struct umove_batch *batch)
{
	const char *heap = (char *)(h + 1) + h->hd_slice;
	struct umove_thread *t;
	int rc;

	if (umove_is_taken((long)h->hd_number)) {
		usched_message("%s: thread %ld is here already", call,
			       (long)h->hd_number);
		return errno = ENOTSUP, NULL;
	}
	t = calloc(1, sizeof *t);
	if (t == NULL)
		return errno = ENOMEM, NULL;
	t->th_f      = (void (*)(void *))(uintptr_t)h->hd_f;
	t->th_arg    = (void *)(uintptr_t)h->hd_arg;
	t->th_number = (long)h->hd_number;
	t->th_bytes  = h;
	t->th_batch  = batch;
	rc = umove_heap_fill(t, heap, h->hd_heap) &&
		umove_box_fill(t, heap + h->hd_heap, h->hd_box) ?
		spawn(t, arrive, (int)h->hd_lane) : -ENOMEM;
	if (rc == 0) {
		batch->ba_nr++;
		return t;
	}
	umove_heap_drop(t);
	umove_box_free(t);
	free(t);
	return errno = -rc, NULL;
}

int umove_import(const void *bytes, size_t nob)
{
	struct umove_program p;
	struct umove_batch *b;
	int rc;

	if (!umove_ready("umove_import"))
		return -EINVAL;
	if (!umove_shares("umove_import"))
		return -ENOTSUP;
	if (nob < sizeof p)
		return -EINVAL;
	memcpy(&p, bytes, sizeof p);
	if (memcmp(p.pr_magic, umove_program.pr_magic, sizeof p.pr_magic) != 0)
		return -EINVAL;
	if (!umove_is_ours("umove_import", &p))
		return -ENOTSUP;
	nob -= sizeof p;
	if (umove_valid((const char *)bytes + sizeof p, nob) != nob)
		return -EINVAL;
	b = malloc(sizeof *b + nob);
	if (b == NULL)
		return -ENOMEM;
	b->ba_nr = 0;
	memcpy(b->ba_bytes, (const char *)bytes + sizeof p, nob);
	if (umove_arrive("umove_import", (void *)b->ba_bytes, b) != NULL)
		return 0;
	rc = -errno;
	free(b);
	return rc;
}
