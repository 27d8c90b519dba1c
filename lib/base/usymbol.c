/* SPDX-License-Identifier: MIT */
/* usymbol.c: names of functions and variables, by address. */

/*
 * dladdr() knows only what a file exports, and in a program that is nearly
 * nothing. So the table of all symbols is read from the file itself. It is not
 * loaded with the program, and `strip' removes it; then there is only the file
 * and the offset, which addr2line takes for a file with debug information.
 *
 * A handler of a fault may not ask the loader, whose locks the code that has
 * faulted may hold. It finds the file in /proc/self/maps (usymbol_function()).
 *
 * All offsets in a file are checked against its size, because the file may have
 * been replaced since it was loaded.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* dl_iterate_phdr() */
#endif
#include "usymbol.h"
#include "ufork.h"
#include "usched.h"

#include <stdint.h>
#include <stdio.h>

UPREEMPT_NEVER;

static struct ulock asks;

void usymbol_ask(void)
{
	ulock_get(&asks);
}

void usymbol_asked(void)
{
	ulock_put(&asks);
}

static struct ufork asks_at_fork = {
	.f_rank = UFORK_LOADER, .f_lock = &asks, .f_nr = 1
};
UFORK(asks_at_fork)

#if defined(__linux__) && defined(__ELF__)

#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define IMAGES	32
#define SELF	"/proc/self/exe"

/* A file that is loaded. */
struct image {
	uintptr_t    i_base;
	char         i_path[256];
	const char  *i_map;		/* the file, or NULL */
	size_t       i_size;
};

static struct ulock looks;		/* protects what follows */
static struct image images[IMAGES];
static int image_nr;

/* Another native thread may have been writing it: its files stay mapped. */
static void in_child(void)
{
	looks.l_state = 0;
	image_nr = 0;
}

static struct ufork at_fork = { .f_rank = UFORK_NAMES, .f_child = in_child };
UFORK(at_fork)

/* Returns size bytes of the file, from an offset on; NULL: not all is there. */
static const void *part(const struct image *i, size_t from, size_t size)
{
	return from <= i->i_size && size <= i->i_size - from &&
	       from % sizeof(int) == 0 ? i->i_map + from : NULL;
}

static void image_map(struct image *i)
{
	int fd = open(i->i_path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map;

	i->i_map = NULL;
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && st.st_size > 0) {
		map = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (map != MAP_FAILED) {
			i->i_map  = map;
			i->i_size = st.st_size;
		}
	}
	close(fd);
}

struct search {
	uintptr_t    s_at;
	uintptr_t    s_base;
	char         s_path[256];
};

/* Called for each loaded file, until it holds the address. */
static int holds(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *s = arg;
	int i;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && s->s_at - info->dlpi_addr -
		    p->p_vaddr < p->p_memsz) {
			s->s_base = info->dlpi_addr;
			(void)snprintf(s->s_path, sizeof s->s_path, "%s",
				       *info->dlpi_name != 0 ?
				       info->dlpi_name : SELF);
			return 1;
		}
	}
	return 0;
}

static void images_unmap(void)
{
	while (image_nr > 0) {
		struct image *i = &images[--image_nr];

		if (i->i_map != NULL)
			(void)munmap((void *)i->i_map, i->i_size);
	}
}

/* Returns the file that holds the address, or NULL. */
static const struct image *image_of(uintptr_t at)
{
	struct search s = { .s_at = at };
	struct image *i;
	int found;

	usymbol_ask();
	found = dl_iterate_phdr(holds, &s);
	usymbol_asked();
	if (found != 1)
		return NULL;
	for (i = images; i < images + image_nr; i++) {
		if (i->i_base == s.s_base && strcmp(i->i_path, s.s_path) == 0)
			return i;
	}
	if (image_nr == IMAGES)
		images_unmap();
	i = &images[image_nr++];
	i->i_base = s.s_base;
	memcpy(i->i_path, s.s_path, sizeof i->i_path);
	image_map(i);
	return i;
}

/* Returns the section header of the symbols: of all, or those exported. */
static const ElfW(Shdr) *symbols(const struct image *i,
				 const ElfW(Shdr) **strings)
{
	const ElfW(Ehdr) *e = i->i_map != NULL ? part(i, 0, sizeof *e) : NULL;
	const ElfW(Shdr) *all, *found = NULL;
	int n;

	if (e == NULL || memcmp(e->e_ident, ELFMAG, SELFMAG) != 0 ||
	    e->e_shentsize != sizeof *all)
		return NULL;
	all = part(i, e->e_shoff, e->e_shnum * sizeof *all);
	for (n = 0; all != NULL && n < e->e_shnum; n++) {
		if ((all[n].sh_type == SHT_SYMTAB ||
		     (all[n].sh_type == SHT_DYNSYM && found == NULL)) &&
		    all[n].sh_link < e->e_shnum)
			found = &all[n];
	}
	if (found != NULL)
		*strings = &all[found->sh_link];
	return found;
}

/* Tells whether s has a name, and holds the address. */
static int fits(const ElfW(Sym) *s, uintptr_t at)
{
	int type = s->st_info & 15;

	return (type == STT_FUNC || type == STT_OBJECT) &&
	       s->st_shndx != SHN_UNDEF && (at - s->st_value < s->st_size ||
					    at == s->st_value);
}

/* Returns the name for an offset; NULL: there is none. */
static const char *name_of(const struct image *i, uintptr_t at,
			   uintptr_t *start)
{
	const ElfW(Shdr) *strings = NULL;
	const ElfW(Shdr) *h = symbols(i, &strings);
	const ElfW(Sym) *s = h != NULL ?
		part(i, h->sh_offset, h->sh_size) : NULL;
	const char *text;
	size_t n, nr = s != NULL ? h->sh_size / sizeof *s : 0;

	for (n = 0; n < nr && !fits(&s[n], at); n++)
		;
	if (n == nr || strings->sh_offset > i->i_size ||
	    strings->sh_size > i->i_size - strings->sh_offset ||
	    s[n].st_name >= strings->sh_size)
		return NULL;
	text = i->i_map + strings->sh_offset + s[n].st_name;
	*start = s[n].st_value;
	return memchr(text, 0, strings->sh_size - s[n].st_name) != NULL ?
		text : NULL;
}

/* Returns the last part of the path, for the program that of its target. */
static const char *file_of(const struct image *i, char *self, size_t size)
{
	const char *path = i->i_path;
	ssize_t nob;

	if (strcmp(path, SELF) == 0) {
		nob = readlink(SELF, self, size - 1);
		if (nob > 0) {
			self[nob] = 0;
			path = self;
		}
	}
	return strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
}

/* Caller holds looks. */
static const char *look_up(char *text, size_t size, const void *at, int where)
{
	const struct image *i = image_of((uintptr_t)at);
	uintptr_t off, start = 0;
	const char *name;
	char self[256];
	size_t nob = 0;

	*text = 0;
	if (i == NULL)
		return text;
	off = (uintptr_t)at - i->i_base;
	name = name_of(i, off, &start);
	if (name != NULL && off == start && !where)
		nob = snprintf(text, size, "%s", name);
	else if (name != NULL)
		nob = snprintf(text, size, "%s+0x%lx", name,
			       (unsigned long)(off - start));
	if (where && nob < size)
		(void)snprintf(text + nob, size - nob, "%s(%s+0x%lx)",
			       nob != 0 ? " " : "",
			       file_of(i, self, sizeof self),
			       (unsigned long)off);
	return text;
}

const char *usymbol_name(char *text, size_t size, const void *at, int where)
{
	ulock_get(&looks);
	(void)look_up(text, size, at, where);
	ulock_put(&looks);
	return text;
}

/* A file that is read from its beginning. */
struct reader {
	int     r_fd;
	ssize_t r_at, r_nob;		/* in r_buf */
	char    r_buf[1024];
};

/* Returns the next byte; 0: there is none. */
static char next_byte(struct reader *r)
{
	if (r->r_at == r->r_nob) {
		r->r_at  = 0;
		r->r_nob = read(r->r_fd, r->r_buf, sizeof r->r_buf);
	}
	if (r->r_nob > 0)
		return r->r_buf[r->r_at++];
	r->r_nob = 0;
	return 0;
}

/* Reads a hexadecimal number, and the byte behind it. */
static uintptr_t next_number(struct reader *r)
{
	static const char digits[] = "0123456789abcdef";
	uintptr_t nr = 0;
	const char *at;
	char c;

	while ((c = next_byte(r)) != 0 && (at = strchr(digits, c)) != NULL)
		nr = nr * 16 + (uintptr_t)(at - digits);
	return nr;
}

/* Reads the rest of a line, and sets path to its end, from a '/'. False: none. */
static int next_path(struct reader *r, char *path, size_t size)
{
	size_t nob = 0;
	char c;

	while ((c = next_byte(r)) != 0 && c != '\n')
		if (nob < size - 1 && (nob != 0 || c == '/'))
			path[nob++] = c;
	path[nob] = 0;
	return c != 0;
}

/*
 * Sets the path of the file that is mapped at this address, or "". Returns where
 * in the file that is.
 */
static uintptr_t mapped(struct reader *maps, uintptr_t at, char *path, size_t size)
{
	uintptr_t low, high, off;

	do {
		low  = next_number(maps);	/* low-high r-xp off ... path */
		high = next_number(maps);
		while (next_byte(maps) > ' ')
			;
		off = next_number(maps);
		if (!next_path(maps, path, size))
			break;
	} while (at - low >= high - low);
	return at - low + off;
}

/* Returns the address that symbols have for an offset in the file; 0: none. */
static uintptr_t linked_at(const struct image *i, uintptr_t off)
{
	const ElfW(Ehdr) *e = i->i_map != NULL ? part(i, 0, sizeof *e) : NULL;
	const ElfW(Phdr) *p;
	int n;

	if (e == NULL || memcmp(e->e_ident, ELFMAG, SELFMAG) != 0 ||
	    e->e_phentsize != sizeof *p)
		return 0;
	p = part(i, e->e_phoff, e->e_phnum * sizeof *p);
	for (n = 0; p != NULL && n < e->e_phnum; n++) {
		if (p[n].p_type == PT_LOAD && off - p[n].p_offset < p[n].p_filesz)
			return off - p[n].p_offset + p[n].p_vaddr;
	}
	return 0;
}

void usymbol_function(char *text, size_t size, const void *at)
{
	struct reader maps = {
		.r_fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)
	};
	struct image i = { .i_map = NULL };
	uintptr_t off, start = 0;
	const char *name = NULL;
	size_t nob = 0;

	if (maps.r_fd >= 0) {
		off = mapped(&maps, (uintptr_t)at, i.i_path, sizeof i.i_path);
		close(maps.r_fd);
		image_map(&i);
		off = linked_at(&i, off);
		if (off != 0)
			name = name_of(&i, off, &start);
		if (name != NULL && off == start)
			for (; nob < size - 1 && name[nob] != 0; nob++)
				text[nob] = name[nob];
	}
	text[nob] = 0;
	if (i.i_map != NULL)
		(void)munmap((void *)i.i_map, i.i_size);
}

void usymbol_end(void)
{
	ulock_get(&looks);
	images_unmap();
	ulock_put(&looks);
}

#else

const char *usymbol_name(char *text, size_t size, const void *at, int where)
{
	(void)size, (void)at, (void)where;
	*text = 0;
	return text;
}

void usymbol_function(char *text, size_t size, const void *at)
{
	(void)size, (void)at;
	*text = 0;
}

void usymbol_end(void)
{
}

#endif
