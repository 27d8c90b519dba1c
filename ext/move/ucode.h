/* SPDX-License-Identifier: MIT */
/* ucode.h: where machine code lies. Private. */

#ifndef UCODE_H
#define UCODE_H

/* The includer defines _GNU_SOURCE before its first include. */

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

extern uintptr_t umove_code_low, umove_code_high;	/* of the program */

/* Widens *low and *high by a part of an object that is machine code. */
static inline void ucode_widen(const struct dl_phdr_info *o,
			       const ElfW(Phdr) *p,
			       uintptr_t *low, uintptr_t *high)
{
	uintptr_t from = o->dlpi_addr + p->p_vaddr;

	if (*low == *high || from < *low)
		*low = from;
	if (from + p->p_memsz > *high)
		*high = from + p->p_memsz;
}

/* Returns whether a part of an object is machine code. */
static inline bool ucode_is_code(const ElfW(Phdr) *p)
{
	return p->p_type == PT_LOAD && (p->p_flags & PF_X) != 0;
}

#endif /* UCODE_H */
