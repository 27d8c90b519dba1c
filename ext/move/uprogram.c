/* SPDX-License-Identifier: MIT */
/* uprogram.c: the program and its lanes, which are alike wherever threads go. */

/*
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
 * REJECTED
 *
 *   - A mapping that is moved to LANES after usched_lanes() (mremap()): the guards
 *     of lanes are mappings of their own, and each would have to be moved.
 */

#define _GNU_SOURCE
#include "umove_inside.h"
#include "ucode.h"

#include "uproc.h"
#include "private/uproc_set.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <unistd.h>

UPREEMPT_NEVER;

#define LANES	((void *)0x100000000000)

#if defined(__x86_64__) && !defined(USCHED_PORTABLE)
#define KNOWN	true
#else
#define KNOWN	false
#endif

/* By --wrap, or NULL. */
int __real_usched_lanes(struct usched *s, int nr, size_t size)
	__attribute__((weak));
void *__real_mmap(void *at, size_t nob, int prot, int flags, int fd, off_t off)
	__attribute__((weak));

struct umove_program umove_program;

static __thread bool placing;	/* the next mapping is that of its lanes */

uintptr_t umove_code_low, umove_code_high;

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

	placing = s == umove_sched && umove_sched != NULL;
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

		if (!ucode_is_code(p))
			continue;
		ucode_widen(o, p, &umove_code_low, &umove_code_high);
		part_hash(fd, (const char *)(o->dlpi_addr + p->p_vaddr), p);
	}
	if (fd >= 0)
		close(fd);
	return 1;
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
	if (set->set_ops.op_move.mv_has != NULL)
		return "ws chooses where threads run: take rr or ll";
	return NULL;
}

int umove_program_init(struct usched *s)
{
	const char *why;

	memset(&umove_program, 0, sizeof umove_program);
	memcpy(umove_program.pr_magic, "umove 2", 8);
	(void)dl_iterate_phdr(program_look, NULL);
	why = unfit(((struct uproc *)s)->p_set);
	if (why != NULL) {
		usched_message("umove_init: threads cannot move: %s", why);
		return -ENOTSUP;
	}
	return 0;
}

bool umove_ready(const char *call)
{
	struct umove_program *p = &umove_program;

	if (umove_sched == NULL || usched_self() != umove_sched) {
		usched_message("%s: umove_init() was not called before, or the "
			       "caller is no thread of its scheduler", call);
		return false;
	}
	if (p->pr_lanes != 0)
		return true;
	if (umove_sched->s_lane_nr == 0) {
		usched_message("%s: the scheduler has no lanes", call);
		return false;
	}
	p->pr_lanes     = (uintptr_t)umove_sched->s_lane[1].l_bottom;
	p->pr_lane_size = umove_sched->s_private->pl_size;
	p->pr_lane_nr   = (uint64_t)umove_sched->s_lane_nr;
	return true;
}

bool umove_shares(const char *call)
{
	if (!((struct uproc *)umove_sched)->p_private)
		return true;
	usched_message("%s: threads with private stacks cannot move: see "
		       "rr_private(), USCHED_STACKS", call);
	return false;
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
