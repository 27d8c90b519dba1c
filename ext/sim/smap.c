/* SPDX-License-Identifier: MIT */
/* smap.c: files of a disk in memory. */

/*
 * A file that is mapped is copied to memory. That is all for MAP_PRIVATE. Memory
 * that is MAP_SHARED must show later writes of the file, and this does not: the
 * run fails at such a write, or at a mapping that may be written.
 */

#include "sdisk.h"

#include <sys/mman.h>

/* Memory that is MAP_SHARED. */
struct mapping {
	struct mapping  *p_next;
	struct sim_boot *p_boot;
	struct inode    *p_inode;
	char            *p_at;
	size_t           p_size;
};

static struct mapping *mappings;

/* Fails the run if a change of i would have to show in memory. */
void sim_check_mappings(const struct inode *i)
{
	const struct mapping *p;

	for (p = mappings; p != NULL; p = p->p_next)
		if (p->p_inode == i && !p->p_boot->b_dead)
			usim_fail("a write to a file that is mapped MAP_SHARED is "
				  "not simulated");
}

/* Maps size bytes from a place of a file. MAP_FAILED and an error in *rc. */
void *sim_map(struct sim_file *f, void *at, size_t size, int what, int flags,
	      off_t from, int *rc)
{
	struct disk_file *m = file_of(f);
	struct mapping *p;
	ssize_t nr;
	char *memory;

	*rc = m->m_inode->i_is_dir ? -ENODEV :
		size == 0 ? -EINVAL : 0;
	if (*rc != 0)
		return MAP_FAILED;
	if (flags & MAP_SHARED && what & PROT_WRITE)
		usim_fail("mmap() of a file to be written, MAP_SHARED, is not "
			  "simulated");
	memory = mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		      MAP_ANONYMOUS | (flags & MAP_FIXED), -1, 0);
	if (memory == MAP_FAILED)
		usim_fail("no memory for the simulation");
	nr = sim_pread(f, memory, size, from);
	if (nr < 0 || mprotect(memory, size, what) != 0)
		usim_fail("no memory for the simulation");
	if (!(flags & MAP_SHARED))
		return memory;
	p = sim_alloc(sizeof *p);
	*p = (struct mapping) { mappings, f->f_boot, m->m_inode, memory, size };
	mappings = p;
	return memory;
}

/* Memory that is unmapped shows no file any more. */
void sim_unmap(const void *memory, size_t size)
{
	struct mapping **at = &mappings, *p;

	while ((p = *at) != NULL)
		if (p->p_at >= (char *)memory &&
		    p->p_at + p->p_size <= (char *)memory + size) {
			*at = p->p_next;
			free(p);
		} else {
			at = &p->p_next;
		}
}
