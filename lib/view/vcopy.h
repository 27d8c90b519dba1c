/* SPDX-License-Identifier: MIT */
/* vcopy.h: a consistent copy of the file of a recorder. Not API. */

#ifndef UVIEW_COPY_H
#define UVIEW_COPY_H

#include "format.h"
#include "compiler.h"

#include <stdbool.h>
#include <stddef.h>

/* Where a file is: in this process, or a descriptor. */
struct uview_source {
	const void *u_map;		/* NULL: u_fd */
	int         u_fd;
	uint64_t    u_size;
};

/*
 * Returns a copy, and its size in *size. lives: its process may be writing, and
 * the clock of this machine is that of the records. NULL, and *why says why, if
 * the file is none of a recorder, or torn, or there is no memory. Any thread.
 */
HIDDEN struct uview_file *uview_copy(const struct uview_source *source,
				     bool lives, size_t *size,
				     const char **why);

/* Returns the entries of a part of a copy. */
static inline void *uview_part_at(const struct uview_file *copy,
				  enum uview_part_nr nr)
{
	return (char *)copy + copy->vf_part[nr].vp_at;
}

/* Returns the records of a ring of a copy. */
static inline struct uview_record *uview_records(const struct uview_file *copy,
						 const struct uview_ring *r)
{
	return (struct uview_record *)((char *)copy + r->vr_at);
}

/* Returns the name nr of a copy, and its length in *len: no zero ends it. */
HIDDEN const char *uview_name_text(const struct uview_file *copy,
				   unsigned nr, unsigned *len);

#endif /* UVIEW_COPY_H */
