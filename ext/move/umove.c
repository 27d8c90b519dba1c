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
 * ADDRESSES
 *
 * Frames hold addresses of three kinds. Those of frames are right since lanes lie
 * at LANES in each process: usched_lanes() and its mmap() are led through this
 * file by the linker (move.flags). Those of heaps are right since a heap has its
 * place by the number of the thread (uheap.c). Those of code and globals are right
 * if the program is the same, and was loaded to the same place. A hash of its
 * machine code, and its load address, are in each message and file. So is what
 * describes lanes and heaps: struct umove_program.
 *
 * All threads share some lanes, and are moved in and out of them at each switch.
 * So they can share them with threads from elsewhere. (Where each thread has a
 * stack of its own, all stacks of all processes need addresses of their own.)
 *
 * LANES: a thread that moves gets a shared lane by u_lane before it first runs,
 * also if its function is deep. Private lanes lie anywhere. Up to the number of
 * lanes threads get them in turn, and all others one of the first SHARED.
 *
 * WHAT CANNOT LEAVE
 *
 * A thread that runs has no record in a queue, no deadline and no wait. Each thread
 * that is packed is searched for all else that points to it, or that lies on its
 * stack and means nothing elsewhere:
 *
 *	a wake that it has not taken	the waker knows it by its address
 *	a scope that it has begun	u_f is ustack_shell() then: umove_mine()
 *	a lock that it holds		in the hard mode, which counts these
 *	a stack guard of the compiler	its value is a word on the stack
 *	a jmp_buf of glibc		words that point to code or to this lane
 *					when they are decoded
 *	code of shared libraries	return addresses, by the unwinder; it is
 *					asked only if a word points to such code
 *
 * Words may be left over in a place that no frame uses any more: those of printf(),
 * for example, in an array that is not filled yet. So a guard counts only if the
 * unwinder finds a frame of a function that has loaded a guard before it called.
 * (Not found are functions that call from a part which the compiler has moved away
 * from the rest, as .cold.) A jmp_buf that was left over does count, and the thread
 * stays though it could leave.
 *
 * NUMBERS: rank r of n gives the numbers r, r + n, r + 2n, ... When a thread has
 * ended, its process gives the place of the number again, unless it loads a file
 * before: threads in this may have the same places, and end again. (With ranks.c its
 * home does: the rank of this rest.) The next number of a place is larger by
 * UMOVE_AGAIN. So no two threads of a job have the same number, and mail for a thread
 * that has ended never reaches another.
 *
 * INVARIANTS
 *
 * V1. u_arg of a thread of umove_make() is its struct umove_thread in this
 *     process. Frames of run() and umove_pack() use no such pointer after
 *     usched_save() has returned 1, since they may have come from elsewhere.
 * V2. A number is in the table of at most one process; of none while its thread
 *     is under way.
 * V3. From umove_pack() until it has ended, or the save has, a thread changes
 *     neither the frames that were packed, nor its heap.
 *
 * REJECTED
 *
 *   - Taking the slice of a thread that is blocked, by its u_top: it may have
 *     records, deadlines and locks, and the new thread would have to be put
 *     together from fields of struct ustack.
 *   - One stack guard for all processes: it would have to be set before the first
 *     frame, and a guard that is known is none.
 *   - A mapping that is moved to LANES after usched_lanes() (mremap()): the guards
 *     of lanes are mappings of their own, and each would have to be moved.
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
#include "uslice.h"
#include "usync.h"
#include "private/uproc_set.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <unistd.h>
#include <unwind.h>

UPREEMPT_NEVER;

#define LANES	((void *)0x100000000000)
#define SHARED	16	/* lanes that are shared if threads outnumber lanes */
#define MARGIN	1024	/* between the slice and the frames that copy it */
#define SPARE	8192	/* of a lane, for the frames below a slice */
#define NOINLINE __attribute__((noinline))
#define UNCHECKED __attribute__((no_sanitize("address", "thread")))

#if defined(__x86_64__) && !defined(USCHED_PORTABLE)
#define KNOWN	true
#else
#define KNOWN	false
#endif

/* These are NULL in a program with the shared library, which hides them. */
extern __typeof__(usched_save) usched_save __attribute__((weak));
extern __typeof__(usched_resume_at) usched_resume_at __attribute__((weak));
extern __typeof__(usched_name) usched_name __attribute__((weak));

/* By --wrap, or NULL. */
int __real_usched_lanes(struct usched *s, int nr, size_t size)
	__attribute__((weak));
void *__real_mmap(void *at, size_t nob, int prot, int flags, int fd, off_t off)
	__attribute__((weak));

struct umove_program umove_program;

static struct usched *home;	/* whose threads move */
static __thread bool placing;	/* the next mapping is that of its lanes */

static struct umove_thread **table;	/* all threads, by number */
static size_t slots;			/* a power of two */
static long alive;
static unsigned turn;			/* lanes that were given */
static long number_next, number_step;
static long *freed;			/* numbers to give again */
static size_t freed_nr, freed_room;
static struct ugroup here = UGROUP_LOCAL;	/* counts all threads */
static struct ugroup gate = UGROUP_LOCAL;	/* 1: shut */
static bool gate_shut;

/* What is known of the program and of its libraries. */
static uintptr_t code_low, code_high;	/* machine code of the program */
static uintptr_t libs_low, libs_high;	/* machine code of all libraries */
static unsigned long long loaded;	/* counts libraries */

/* By umove_pack() for pack(). Nothing blocks in between. */
static size_t pack_space;
static bool pack_heap;

/*
 * MAPPING OF LANES
 */

void *__wrap_mmap(void *at, size_t nob, int prot, int flags, int fd, off_t off);
int __wrap_usched_lanes(struct usched *s, int nr, size_t size);

void *__wrap_mmap(void *at, size_t nob, int prot, int flags, int fd, off_t off)
{
	if (!placing || at != NULL || fd != -1)
		return __real_mmap(at, nob, prot, flags, fd, off);
	placing = false;
	at = __real_mmap(LANES, nob, prot, flags | MAP_FIXED_NOREPLACE, fd, off);
	if (at == MAP_FAILED)
		usched_message("umove_init: the addresses of lanes, from %p, are "
			       "taken", LANES);
	return at;
}

int __wrap_usched_lanes(struct usched *s, int nr, size_t size)
{
	int rc;

	placing = s == home && home != NULL;
	rc = __real_usched_lanes(s, nr, size);
	placing = false;
	return rc;
}

/*
 * THE PROGRAM
 */

static void hash(uint64_t *sum, const char *at, size_t nob)
{
	uint64_t word;

	for (; nob >= sizeof word; nob -= sizeof word, at += sizeof word) {
		memcpy(&word, at, sizeof word);
		*sum = (*sum ^ word) * 0x9e3779b97f4a7c15u;
		*sum ^= *sum >> 29;
	}
}

/* Widens *low and *high by a part of an object that is machine code. */
static void widen(const struct dl_phdr_info *o, const ElfW(Phdr) *p,
		  uintptr_t *low, uintptr_t *high)
{
	uintptr_t from = o->dlpi_addr + p->p_vaddr;

	if (*low == *high || from < *low)
		*low = from;
	if (from + p->p_memsz > *high)
		*high = from + p->p_memsz;
}

static bool is_code(const ElfW(Phdr) *p)
{
	return p->p_type == PT_LOAD && (p->p_flags & PF_X) != 0;
}

/*
 * Adds a part of the program to its hash. It is read from the file, since libraries
 * such as UCX write jumps to themselves over the first bytes of functions.
 */
static void part_hash(int fd, const char *at, const ElfW(Phdr) *p)
{
	void *file = MAP_FAILED;

	if (fd >= 0)
		file = mmap(NULL, p->p_filesz, PROT_READ, MAP_PRIVATE, fd,
			    (off_t)p->p_offset);
	hash(&umove_program.pr_build, file != MAP_FAILED ? file : at, p->p_filesz);
	if (file != MAP_FAILED)
		(void)munmap(file, p->p_filesz);
}

/* The first object is the program. */
static int program_look(struct dl_phdr_info *o, size_t size, void *unused)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int i;

	(void)size, (void)unused;
	umove_program.pr_at = o->dlpi_addr;
	for (i = 0; i < o->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &o->dlpi_phdr[i];

		if (!is_code(p))
			continue;
		widen(o, p, &code_low, &code_high);
		part_hash(fd, (const char *)(o->dlpi_addr + p->p_vaddr), p);
	}
	if (fd >= 0)
		close(fd);
	return 1;
}

/* Notes where the code of libraries lies. Ends if none has come or gone. */
static int libs_look(struct dl_phdr_info *o, size_t size, void *first)
{
	int i;

	(void)size;
	if (*(bool *)first) {
		unsigned long long now = o->dlpi_adds + o->dlpi_subs;

		*(bool *)first = false;
		if (now == loaded)
			return 1;
		loaded = now;
		libs_low = libs_high = 0;
		return 0;
	}
	for (i = 0; i < o->dlpi_phnum; i++) {
		if (is_code(&o->dlpi_phdr[i]))
			widen(o, &o->dlpi_phdr[i], &libs_low, &libs_high);
	}
	return 0;
}

static void libs_find(void)
{
	bool first = true;

	(void)dl_iterate_phdr(libs_look, &first);
}

static bool is_random(void)
{
	int how = personality(0xffffffff);

	return how == -1 || (how & ADDR_NO_RANDOMIZE) == 0;
}

/* Was a file that includes umove.h compiled with guards? */
static bool has_guards(void)
{
#if defined(UMOVE_GUARDED)
	return true;
#else
	extern char umove_guarded __attribute__((weak));

	return &umove_guarded != NULL;
#endif
}

/* Returns why threads of this program cannot move, or NULL. */
static const char *unfit(const struct uproc_set *set)
{
	if (!KNOWN)
		return "this machine or build is not known; x86-64 is";
	if (usched_save == NULL || usched_resume_at == NULL || usched_name == NULL)
		return "libusched is a shared library: link with libusched.a";
	if (__real_usched_lanes == NULL || __real_mmap == NULL)
		return "link with @ext/move/move.flags";
	if (umove_program.pr_at != 0 && is_random())
		return "the program is loaded to another place each time: link "
			"with -no-pie, or start it by setarch -R";
	if (has_guards())
		return "frames have a guard that differs in each process: compile "
			"with -fno-stack-protector";
	if (set->set_nr != 1)
		return "the scheduler has several processors: give it one";
	if (set->set_ops.op_move.mv_complete != NULL)
		return "ws chooses where threads run: take rr or ll";
	return NULL;
}

int umove_init(struct usched *s, int rank, int ranks, size_t heap)
{
	const char *why;

	if (s == NULL || rank < 0 || rank >= ranks)
		return -EINVAL;
	if (home != NULL || s->s_lane_nr != 0)
		return -EBUSY;
	memset(&umove_program, 0, sizeof umove_program);
	memcpy(umove_program.pr_magic, "umove 2", 8);
	(void)dl_iterate_phdr(program_look, NULL);
	why = unfit(((struct uproc *)s)->p_set);
	if (why != NULL) {
		usched_message("umove_init: threads cannot move: %s", why);
		return -ENOTSUP;
	}
	slots = 1024;
	table = calloc(slots, sizeof(struct umove_thread *));
	if (table == NULL)
		return -ENOMEM;
	if (umove_heap_init(heap) != 0) {
		free(table);
		return -EINVAL;
	}
	number_next = rank;
	number_step = ranks;
	home = s;
	return 0;
}

/* Frees the records of threads that waited for ever. */
static void table_free(void)
{
	size_t i;

	for (i = 0; i < slots; i++) {
		while (table[i] != NULL) {
			struct umove_thread *t = table[i];

			table[i] = t->th_next;
			umove_box_free(t);
			free(t);
		}
	}
	free(table);
	table = NULL;
}

void umove_fini(void)
{
	if (home == NULL)
		return;
	table_free();
	free(freed);
	freed = NULL;
	freed_nr = freed_room = 0;
	alive = 0;
	here  = (struct ugroup)UGROUP_LOCAL;
	gate  = (struct ugroup)UGROUP_LOCAL;
	gate_shut = false;
	home  = NULL;
	umove_heap_fini();
	umove_save_fini();
}

bool umove_ready(const char *call)
{
	struct umove_program *p = &umove_program;

	if (home == NULL || usched_self() != home) {
		usched_message("%s: umove_init() was not called before, or the "
			       "caller is no thread of its scheduler", call);
		return false;
	}
	if (p->pr_lanes != 0)
		return true;
	if (home->s_lane_nr == 0) {
		usched_message("%s: the scheduler has no lanes", call);
		return false;
	}
	p->pr_lanes     = (uintptr_t)home->s_lane[1].l_bottom;
	p->pr_lane_size = home->s_private->pl_size;
	p->pr_lane_nr   = (uint64_t)home->s_lane_nr;
	return true;
}

bool umove_is_alone(const char *call)
{
	if (umove_far == NULL)
		return true;
	usched_message("%s: between ranks of MPI threads go by umpi_move(), "
		       "umpi_save() and umpi_load()", call);
	return false;
}

bool umove_is_ours(const char *what, const struct umove_program *p)
{
	const struct umove_program *own = &umove_program;
	const char *why = NULL;

	if (p->pr_build != own->pr_build)
		why = "another build";
	else if (p->pr_at != own->pr_at)
		why = "a program that was loaded to another address";
	else if (p->pr_lanes != own->pr_lanes || p->pr_lane_nr != own->pr_lane_nr ||
		 p->pr_lane_size != own->pr_lane_size)
		why = "a process with other lanes";
	else if (p->pr_heap != own->pr_heap)
		why = "a process with heaps of another size";
	if (why != NULL)
		usched_message("%s: from %s", what, why);
	return why == NULL;
}

/*
 * THREADS BY NUMBER
 */

/* Returns where the thread of a place is, or would be. */
static struct umove_thread **place_of(long number)
{
	struct umove_thread **at = &table[(size_t)number & (slots - 1)];

	while (*at != NULL &&
	       umove_place((*at)->th_number) != umove_place(number))
		at = &(*at)->th_next;
	return at;
}

struct umove_thread *umove_find(long number)
{
	struct umove_thread *t = *place_of(number);

	return t != NULL && t->th_number == number ? t : NULL;
}

bool umove_is_taken(long place)
{
	return *place_of(place) != NULL;
}

void umove_each(void (*f)(struct umove_thread *t))
{
	struct umove_thread *t;
	size_t i;

	for (i = 0; i < slots; i++) {
		for (t = table[i]; t != NULL; t = t->th_next)
			f(t);
	}
}

/* Doubles the table, if there is memory. */
static void table_grow(void)
{
	struct umove_thread **old = table;
	size_t i, nr = slots;
	struct umove_thread **new = calloc(2 * nr, sizeof *new);

	if (new == NULL)
		return;
	table  = new;
	slots = 2 * nr;
	for (i = 0; i < nr; i++) {
		while (old[i] != NULL) {
			struct umove_thread *t = old[i];
			struct umove_thread **at =
				&table[(size_t)t->th_number & (slots - 1)];

			old[i] = t->th_next;
			t->th_next = *at;
			*at = t;
		}
	}
	free(old);
}

static void enter(struct umove_thread *t)
{
	struct umove_thread **at;

	if ((size_t)alive >= slots)
		table_grow();
	at = &table[(size_t)t->th_number & (slots - 1)];
	t->th_next = *at;
	*at = t;
	alive++;
	(void)ugroup_add(&here, 1);
	umove_save_made();
}

/* Takes t out, but for its record. */
static void forget(struct umove_thread *t)
{
	*place_of(t->th_number) = t->th_next;
	alive--;
	ugroup_done(&here);
	umove_heap_drop(t);
	umove_box_free(t);
	umove_save_gone();
}

void umove_leave(struct umove_thread *t)
{
	forget(t);
	free(t);
}

int umove_none(void)
{
	return ugroup_wait(&here, UNEVER);
}

/* A thread that has come from a file may have a number that was freed here. */
static long number_get(void)
{
	long nr;

	while (freed_nr > 0) {
		nr = freed[--freed_nr];
		if (*place_of(nr) == NULL)
			return nr;
	}
	nr = number_next;
	number_next += number_step;
	return nr;
}

/* A number that there is no memory for is not given again. */
static void freed_add(long nr)
{
	if (freed_nr == freed_room) {
		size_t room = freed_room == 0 ? 64 : 2 * freed_room;
		long *more = realloc(freed, room * sizeof *freed);

		if (more == NULL)
			return;
		freed = more;
		freed_room = room;
	}
	freed[freed_nr++] = nr;
}

void umove_numbers_keep(void)
{
	freed_nr = 0;
}

void umove_number_put(long nr)
{
	if (nr <= LONG_MAX - UMOVE_AGAIN)
		freed_add(nr + UMOVE_AGAIN);
}

long umove_numbers(long nr)
{
	if (nr > number_next)
		number_next += (nr - number_next + number_step - 1) /
			number_step * number_step;
	return number_next;
}

long umove_alive(void)
{
	return alive;
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
	int nr = home->s_lane_nr;

	if (alive > nr && nr > SHARED)
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
	if (usched_lane_guard(home, lane) != 0)
		return -ENOMEM;
	new = uproc_make((struct uproc *)home, f, t, 0);
	if (new == NULL)
		return -errno;
	new->t_stack.u_lane = (short)lane;	/* the caller runs, not yet new */
	enter(t);
	if (umove_far != NULL)
		umove_far->fa_here(t->th_number);
	return 0;
}

bool umove_shares(const char *call)
{
	if (!((struct uproc *)home)->p_private)
		return true;
	usched_message("%s: threads with private stacks cannot move: see "
		       "rr_private(), USCHED_STACKS", call);
	return false;
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
	t->th_number = nr = number_get();
	rc = umove_place(nr) < umove_heap_most() ? spawn(t, run, lane_next()) :
		-ENOMEM;
	if (rc == 0)
		return nr;
	freed_add(nr);
	free(t);
	return rc;
}

/*
 * WHAT CANNOT LEAVE
 */

/* glibc keeps both in the thread control block. */
static uintptr_t guard_word(void)
{
	uintptr_t word = 0;

#if defined(__x86_64__) && defined(__GLIBC__)
	/* Not as compilers do it, which loads_guard() looks for. */
	__asm__("mov %%fs:(%1), %0" : "=r"(word) : "r"((uintptr_t)0x28));
#endif
	return word;
}

static uintptr_t jump_key(void)
{
	uintptr_t word = 0;

#if defined(__x86_64__) && defined(__GLIBC__)
	__asm__("mov %%fs:0x30, %0" : "=r"(word));
#endif
	return word;
}

/* What words on a stack are. */
enum { GUARD = 1, JUMP = 2, LIBRARY = 4 };

static UNCHECKED int words_look(const uintptr_t *at, const uintptr_t *end)
{
	uintptr_t guard = guard_word(), key = jump_key();
	uintptr_t low = (uintptr_t)at, size = (uintptr_t)end - low;
	int found = 0;

	for (; at < end; at++) {
		uintptr_t to = (*at >> 17 | *at << 47) ^ key;

		if (*at == guard && guard != 0)
			found |= GUARD;
		if (key != 0 && (to - code_low < code_high - code_low ||
				 to - low < size))
			found |= JUMP;
		if (*at - libs_low < libs_high - libs_low)
			found |= LIBRARY;
	}
	return found;
}

/* A walk over frames: a return address, the library that has it. */
struct foreign {
	uintptr_t   fo_pc;
	const char *fo_name;
	bool        fo_guard;	/* a frame has a guard */
};

/* Is there mov %fs:0x28 to a register from at to end? */
static UNCHECKED bool loads_guard(uintptr_t at, uintptr_t end)
{
	static const unsigned char tail[5] = { 0x25, 0x28, 0, 0, 0 };

	for (; at + 9 <= end; at++) {
		const unsigned char *code = (const unsigned char *)at;

		if (code[0] == 0x64 && code[2] == 0x8b &&
		    memcmp(code + 4, tail, sizeof tail) == 0)
			return true;
	}
	return false;
}

static int object_look(struct dl_phdr_info *o, size_t size, void *foreign)
{
	struct foreign *fo = foreign;
	int i;

	(void)size;
	for (i = 0; i < o->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &o->dlpi_phdr[i];

		if (is_code(p) &&
		    fo->fo_pc - (o->dlpi_addr + p->p_vaddr) < p->p_memsz)
			fo->fo_name = o->dlpi_name;
	}
	return fo->fo_name != NULL;
}

static _Unwind_Reason_Code frame_look(struct _Unwind_Context *c, void *foreign)
{
	struct foreign *fo = foreign;

	fo->fo_pc = (uintptr_t)_Unwind_GetIP(c);
	if (fo->fo_pc - libs_low < libs_high - libs_low)
		(void)dl_iterate_phdr(object_look, fo);
	else if (loads_guard((uintptr_t)_Unwind_GetRegionStart(c), fo->fo_pc))
		fo->fo_guard = true;
	return fo->fo_name != NULL ? _URC_END_OF_STACK : _URC_NO_REASON;
}

static bool holds_lock(const struct ustack *u)
{
#if defined(USCHED_HARD)
	return u->u_holds.hs_nr + u->u_holds.hs_more > 0;
#else
	return (void)u, false;
#endif
}

static bool has_wake(const struct ustack *u)
{
	const struct uwakes *w = &((const struct uproc_thread *)u)->t_wakes;

	return w->w_count > 0 ||
		__atomic_load_n(&w->w_posted, __ATOMIC_RELAXED) >= UWAKES_ONE;
}

/* Returns why the caller, a thread, cannot leave, or NULL. */
static const char *why_not(const struct ustack *u, const void *sp,
			   struct foreign *fo)
{
	int found;

	if (has_wake(u))
		return "a wake has come that it has not waited for";
	if (holds_lock(u))
		return "it holds a lock";
	libs_find();
	found = words_look(sp, (void *)home->s_lane[u->u_lane].l_bottom);
	if (found & (LIBRARY | GUARD))
		(void)_Unwind_Backtrace(frame_look, fo);
	if (fo->fo_name != NULL)	/* which may have guards, too */
		return "a function of this library is on its stack: ";
	if (fo->fo_guard)
		return "a frame has a guard that differs in each process: compile "
			"with -fno-stack-protector";
	return found & JUMP ? "a jmp_buf is on its stack" : NULL;
}

static NOINLINE bool refused(const struct umove_thread *t, const char *call)
{
	struct foreign fo = { 0, NULL, false };
	const char *why = why_not(ustack_self(), __builtin_frame_address(0), &fo);
	char name[64];

	if (why == NULL)
		return false;
	usched_name(name, sizeof name, (const void *)(uintptr_t)t->th_f);
	usched_message("%s: the thread of %s cannot leave: %s%s", call,
		       name[0] != '\0' ? name : "a function", why,
		       fo.fo_name != NULL ? fo.fo_name : "");
	return true;
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
	size_t slice = (size_t)(home->s_lane[u->u_lane].l_bottom - sp);
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
	if (refused(t, call))
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

void umove_drop(struct umove_thread *t)
{
	t->th_dropped = true;
	forget(t);
}

void umove_drop_all(void)
{
	size_t i;

	for (i = 0; i < slots; i++) {
		struct umove_thread **at = &table[i];

		while (*at != NULL) {
			if ((*at)->th_batch != NULL)
				umove_drop(*at);	/* *at is the next */
			else
				at = &(*at)->th_next;
		}
	}
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
	    h.hd_top != (uintptr_t)home->s_lane[h.hd_lane].l_bottom - h.hd_slice ||
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

	if (*place_of((long)h->hd_number) != NULL) {
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
