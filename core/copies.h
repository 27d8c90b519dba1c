/* SPDX-License-Identifier: MIT */
/* core/copies.h: tells a thread of another copy of the library. */

/*
 * COPIES
 *
 * A program with libusched.a loads a plugin that was linked with libusched.so:
 * the process has two copies of the library, with a usched_current each. A
 * thread of one copy is none for the other. So a wait of the other takes it for
 * a native thread, and stops the processor, with all of its threads.
 *
 * So each copy leaves a note in the program or library that it is linked into,
 * and the note leads to struct usched_copy, which tells whether a thread of that
 * copy runs here:
 *
 *	PT_NOTE: | 7 | 4 | 1 | "usched" | offset to usched_copy |
 *
 * What waits natively, or needs a thread and has none, first asks all other
 * copies (usched_other_copy()). An answer is a proof. The first writes a line. A
 * native thread asks at its first COPY_LOOKS such calls: the loader is asked for
 * all it has loaded, which takes some microseconds. In the child of a fork() none
 * asks: the loader's lock stays taken there if another native thread had it.
 *
 * REJECTED: a symbol that both copies have. A program does not export its
 * symbols to plugins, unless it was linked with -rdynamic, and then there is one
 * copy. The environment: it is inherited.
 */

#define COPY_NOTE	1
#define COPY_LOOKS	16

#if defined(__ELF__)

#include <link.h>

/* Reached by the note alone; of other copies, also of other versions. */
HIDDEN extern const struct usched_copy {
	const void *(*c_self)(void);	/* the thread that runs here, or NULL */
} usched_copy;

static const void *copy_self(void)
{
	return usched_current;
}

__attribute__((used)) const struct usched_copy usched_copy = { copy_self };

__asm__("\t.pushsection .note.usched,\"a\",%note\n"
	"\t.balign 4\n"
	"\t.long 7, 4, 1\n"		/* bytes of name and offset; COPY_NOTE */
	"\t.asciz \"usched\"\n"
	"\t.balign 4\n"
	"\t.long usched_copy - .\n"
	"\t.popsection\n");

/* Returns the copy to which the note leads, or NULL: it is another's note. */
static const struct usched_copy *copy_of(const ElfW(Nhdr) *note)
{
	const char *name = (const char *)(note + 1);
	int32_t offset;

	if (note->n_type != COPY_NOTE || note->n_namesz != sizeof "usched" ||
	    note->n_descsz != sizeof offset ||
	    memcmp(name, "usched", sizeof "usched") != 0)
		return NULL;
	memcpy(&offset, name + 8, sizeof offset);
	return (const struct usched_copy *)(name + 8 + offset);
}

/* Returns the bytes of a note with its padding. */
static uint64_t note_size(const ElfW(Nhdr) *note)
{
	return sizeof *note + (((uint64_t)note->n_namesz + 3) & -4ull) +
		(((uint64_t)note->n_descsz + 3) & -4ull);
}

/*
 * Is there a note, in these bytes, of another copy whose thread runs here? The
 * last note may lack its padding; then it is none of a copy.
 */
static int copy_in(const char *at, size_t nob)
{
	const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
	const struct usched_copy *c;

	while (nob > sizeof *note && note_size(note) <= nob) {
		c = copy_of(note);
		if (c != NULL && c != &usched_copy && c->c_self() != NULL)
			return 1;
		nob -= (size_t)note_size(note);
		at  += note_size(note);
		note = (const ElfW(Nhdr) *)at;
	}
	return 0;
}

/* Called for all that is loaded. *name: where a thread of another copy is from. */
static int copy_look(struct dl_phdr_info *o, size_t size, void *name)
{
	int i;

	(void)size;
	for (i = 0; i < o->dlpi_phnum; i++) {
		if (o->dlpi_phdr[i].p_type == PT_NOTE &&
		    o->dlpi_phdr[i].p_align <= 4 &&
		    copy_in((const char *)o->dlpi_addr + o->dlpi_phdr[i].p_vaddr,
			    o->dlpi_phdr[i].p_memsz)) {
			*(const char **)name = o->dlpi_name;
			return 1;
		}
	}
	return 0;
}

static pid_t loaded_in;		/* the process, not a child of it */

static __attribute__((constructor)) void copy_load(void)
{
	loaded_in = getpid();
}

void usched_other_copy(const char *call)
{
	static __thread unsigned char looks;
	static int warned;		/* atomic */
	const char *name = NULL;

	if (looks >= COPY_LOOKS)
		return;
	looks++;
	if (getpid() != loaded_in || dl_iterate_phdr(copy_look, &name) == 0 ||
	    __atomic_exchange_n(&warned, 1, __ATOMIC_RELAXED))
		return;
	usched_message("%s: the caller is a thread of another copy of the library, "
		       "in %s, and none of this copy, so a wait stops its "
		       "processor. Link the program and its plugins with "
		       "libusched.so; or the program with -rdynamic",
		       call, *name != 0 ? name : "the program");
}

#else

void usched_other_copy(const char *call)
{
	(void)call;
}

#endif
