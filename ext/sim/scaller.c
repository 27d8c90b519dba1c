/* SPDX-License-Identifier: MIT */
/* scaller.c: which function has made a system call, and what to do about it. */

/*
 * A system call that no host may make has come from an instruction of libc, mostly, and
 * libc was called by a shared library or by the program. Frames are those of the
 * unwinder, from that instruction outwards:
 *
 *	mknodat+7	libc		the instruction
 *	mkfifo+22	libc		what was called: the outermost frame of libc
 *	serve+139	the program	the caller: the first frame outside of libc
 *	...
 *
 * By the owner of the caller the run knows what to advise. An instruction outside of libc
 * is a call by hand.
 *
 * Names in shared libraries are those that they export. The program exports next to none,
 * so its table of symbols is read from its file. A run may open no file: the
 * search maps it before runs begin. In a program that was stripped a name is "?".
 *
 * Calls that are simulated, and do not end, are told in the same way: the call, and what
 * has called it.
 *
 * Where there is no unwinder, as with musl-gcc, no caller is known.
 */

#define _GNU_SOURCE		/* dl_iterate_phdr(), dladdr() */
#include "sim.h"

#include <stdio.h>
#include <string.h>

#define TOO_BUSY	"%d calls, and none of them waits"
#define WRAP		"__wrap_"	/* before the names of calls that are simulated */

#if defined(__GLIBC__)
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unwind.h>

enum { FRAMES = 24, NAME_SIZE = 48 };

/* Names of the program. */

static const char *file;		/* that is mapped, or NULL */
static size_t      file_size;

void sim_caller_prepare(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map;

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && st.st_size > 0) {
		map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (map != MAP_FAILED) {
			file = map;
			file_size = (size_t)st.st_size;
		}
	}
	close(fd);
}

/* Returns a part of the file; NULL: not all is there. */
static const void *part(size_t from, size_t size)
{
	return file != NULL && from <= file_size && size <= file_size - from ?
		file + from : NULL;
}

/* Writes the name of the function that holds an address of the program's file. */
static void name_from(const ElfW(Shdr) *table, const ElfW(Shdr) *strings, uintptr_t at,
		      char *name)
{
	const ElfW(Sym) *s = part(table->sh_offset, table->sh_size);
	const char *text = part(strings->sh_offset, strings->sh_size);
	size_t i, nr = table->sh_size / sizeof *s;

	for (i = 0; s != NULL && text != NULL && i < nr; i++)
		if ((s[i].st_info & 15) == STT_FUNC && at - s[i].st_value < s[i].st_size &&
		    s[i].st_name < strings->sh_size)
			snprintf(name, NAME_SIZE, "%.*s",
				 (int)(strings->sh_size - s[i].st_name),
				 text + s[i].st_name);
}

static void program_name(uintptr_t at, char *name)
{
	const ElfW(Ehdr) *e = part(0, sizeof *e);
	const ElfW(Shdr) *all = e == NULL ? NULL :
		part(e->e_shoff, e->e_shnum * sizeof *all);
	int i;

	for (i = 0; all != NULL && i < e->e_shnum; i++)
		if (all[i].sh_type == SHT_SYMTAB && all[i].sh_link < e->e_shnum)
			name_from(&all[i], &all[all[i].sh_link], at, name);
}

/* Frames. */

struct walk {
	uintptr_t k_from;		/* where the call was made */
	uintptr_t k_at[FRAMES];		/* in each frame, from there on */
	int       k_nr;
};

static _Unwind_Reason_Code frame(struct _Unwind_Context *c, void *arg)
{
	struct walk *k = arg;
	uintptr_t at = _Unwind_GetIP(c);

	if (k->k_nr == 0 && at != k->k_from)
		return _URC_NO_REASON;
	/* A return address may lie behind the function. */
	k->k_at[k->k_nr] = k->k_nr == 0 ? at : at - 1;
	return ++k->k_nr == FRAMES ? _URC_END_OF_STACK : _URC_NO_REASON;
}

enum owner { NOBODY, LIBC, LIBRARY, PROGRAM };

/* A place in the files that are loaded. */
struct place {
	uintptr_t   p_at, p_base;	/* in memory: where the file begins */
	enum owner  p_owner;
	const char *p_file;		/* without its folder */
	char        p_name[NAME_SIZE];	/* of the function */
};

static bool holds(const struct dl_phdr_info *info, uintptr_t at)
{
	const ElfW(Phdr) *p = info->dlpi_phdr, *end = p + info->dlpi_phnum;

	for (; p < end; p++)
		if (p->p_type == PT_LOAD && at - info->dlpi_addr - p->p_vaddr < p->p_memsz)
			return true;
	return false;
}

static int owns(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	struct place *p = arg;

	(void)size;
	if (!holds(info, p->p_at))
		return 0;
	p->p_base = info->dlpi_addr;
	p->p_file = slash != NULL ? slash + 1 : info->dlpi_name;
	p->p_owner = *p->p_file == 0 ? PROGRAM :
		strncmp(p->p_file, "libc.so", 7) == 0 ||
		strncmp(p->p_file, "ld-", 3) == 0 ? LIBC : LIBRARY;
	return 1;
}

/* Before glibc 2.34, only some programs have it. */
#pragma weak dladdr

static struct place place_of(uintptr_t at)
{
	struct place p = { .p_at = at, .p_file = "", .p_name = "?" };
	const char *name;
	Dl_info info;

	(void)dl_iterate_phdr(owns, &p);
	if (p.p_owner == PROGRAM)
		program_name(at - p.p_base, p.p_name);
	else if (dladdr != NULL && dladdr((const void *)at, &info) != 0 &&
		 info.dli_sname != NULL) {
		name = info.dli_sname;
		if (strncmp(name, "__libc_", 7) == 0)	/* libc has two names for it */
			name += 7;
		snprintf(p.p_name, sizeof p.p_name, "%s", name + strspn(name, "_"));
	}
	return p;
}

/* Fails the run, by the frames of the call. */
void sim_tell_caller(const char *call, uintptr_t at)
{
	struct walk k = { .k_from = at };
	struct place called = { .p_owner = NOBODY }, p = { .p_owner = NOBODY };
	int i;

	(void)_Unwind_Backtrace(frame, &k);
	for (i = 0; i < k.k_nr; i++) {
		p = place_of(k.k_at[i]);
		if (p.p_owner != LIBC)
			break;
		called = p;
	}
	if (p.p_owner == NOBODY || p.p_owner == LIBC)
		usim_fail("the system call %s came to the machine, from where is not known: "
			  "see ext/sim/README.md", call);
	if (called.p_owner == NOBODY)
		usim_fail("%s()%s%s makes the system call %s itself: that is not simulated",
			  p.p_name, p.p_owner == LIBRARY ? " of " : "", p.p_file, call);
	if (p.p_owner == LIBRARY)
		usim_fail("%s() came to the machine (%s), from %s() of %s: link the archive of "
			  "that library in the step of sim.flags", called.p_name, call,
			  p.p_name, p.p_file);
	usim_fail("%s() came to the machine (%s), from %s(): it is not simulated, or that "
		  "object was not linked with sim.flags", called.p_name, call, p.p_name);
}

/* Fails the run, whose last call has called this. */
void sim_too_busy(void)
{
	struct walk k = { .k_from = (uintptr_t)__builtin_return_address(0) };
	struct place called = { .p_name = "" }, p = called;
	int i;

	(void)_Unwind_Backtrace(frame, &k);
	for (i = 0; i < k.k_nr; i++) {
		p = place_of(k.k_at[i] - (i == 0));
		if (strncmp(p.p_name, WRAP, sizeof WRAP - 1) != 0)
			break;
		called = p;
	}
	if (called.p_name[0] == 0)
		usim_fail(TOO_BUSY, SIM_BUSY);
	usim_fail(TOO_BUSY ": the last is %.*s(), of %s()", SIM_BUSY,
		  (int)strcspn(called.p_name + sizeof WRAP - 1, "."),
		  called.p_name + sizeof WRAP - 1, p.p_name);
}

#else

void sim_caller_prepare(void)
{
}

void sim_too_busy(void)
{
	usim_fail(TOO_BUSY, SIM_BUSY);
}

void sim_tell_caller(const char *call, uintptr_t at)
{
	(void)at;
	usim_fail("the system call %s came to the machine: see ext/sim/README.md", call);
}

#endif
