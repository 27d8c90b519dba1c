/* SPDX-License-Identifier: MIT */
/* snfolder.c: lists of folders, by libc's names. */

/*
 * A stream of a folder is ours: programs see a DIR, which is opaque. It has a list
 * of the entries of the time of opendir() or rewinddir(). A folder has no order
 * that a program may rely on, so the seed shuffles the list.
 */

#define _GNU_SOURCE		/* DT_DIR, O_DIRECTORY */
#include "snames.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct stream {
	int            r_fd;
	size_t         r_nr, r_next;
	struct dirent *r_entries;
};

static struct stream *stream_of(DIR *d)
{
	return (struct stream *)d;
}

static void entry_add(struct stream *r, const char *name, ino_t inode, unsigned mode)
{
	struct dirent *e;

	r->r_entries = realloc(r->r_entries, (r->r_nr + 1) * sizeof *e);
	if (r->r_entries == NULL)
		usim_fail("no memory for the simulation");
	e = &r->r_entries[r->r_nr++];
	memset(e, 0, sizeof *e);
	e->d_ino = inode;
	e->d_reclen = sizeof *e;
	e->d_type = (unsigned char)IFTODT(mode);
	snprintf(e->d_name, sizeof e->d_name, "%s", name);
}

static void shuffle(struct stream *r)
{
	size_t i, j;
	struct dirent e;

	for (i = r->r_nr; i > 1; i--) {
		j = sim_below(DRAW_DISK, (unsigned)i);
		e = r->r_entries[i - 1];
		r->r_entries[i - 1] = r->r_entries[j];
		r->r_entries[j] = e;
	}
}

/* Reads the folder again. */
static void look(struct sim_boot *b, struct stream *r)
{
	struct sim_file *f = sim_file(b, r->r_fd);
	struct stat st;
	const char *name;
	unsigned mode;
	ino_t inode;
	size_t n;

	r->r_nr = r->r_next = 0;
	if (f == NULL || sim_folder(f) == NULL)
		return;
	sim_fstat(f, &st);
	entry_add(r, ".", st.st_ino, S_IFDIR);
	entry_add(r, "..", st.st_ino, S_IFDIR);
	for (n = 0; sim_folder_entry(f, n, &name, &inode, &mode); n++)
		entry_add(r, name, inode, mode);
	shuffle(r);
}

NAME(DIR *, fdopendir, (int fd))
{
	struct sim_boot *b = enter();
	struct sim_file *f;
	struct stream *r;

	if (b == NULL)
		return fdopendir(fd);
	f = sim_file(b, fd);
	if (f == NULL || sim_folder(f) == NULL)
		return (void)answer(f == NULL ? -EBADF : -ENOTDIR), NULL;
	r = sim_alloc(sizeof *r);
	r->r_fd = fd;
	look(b, r);
	return (DIR *)r;
}

NAME(DIR *, opendir, (const char *path))
{
	int fd;

	if (sim_self() == NULL)
		return opendir(path);
	fd = sim_open_name(path, O_RDONLY | O_DIRECTORY);
	return fd < 0 ? NULL : wrap_fdopendir(fd);
}

NAME(struct dirent *, readdir, (DIR *d))
{
	struct stream *r = stream_of(d);

	if (enter() == NULL)
		return readdir(d);
	return r->r_next == r->r_nr ? NULL : &r->r_entries[r->r_next++];
}

NAME(void, rewinddir, (DIR *d))
{
	struct sim_boot *b = enter();

	if (b == NULL)
		rewinddir(d);
	else
		look(b, stream_of(d));
}

NAME(long, telldir, (DIR *d))
{
	return enter() == NULL ? telldir(d) : (long)stream_of(d)->r_next;
}

NAME(void, seekdir, (DIR *d, long at))
{
	if (enter() == NULL)
		seekdir(d, at);
	else if (at >= 0 && (size_t)at <= stream_of(d)->r_nr)
		stream_of(d)->r_next = (size_t)at;
}

NAME(int, dirfd, (DIR *d))
{
	return enter() == NULL ? dirfd(d) : stream_of(d)->r_fd;
}

NAME(int, closedir, (DIR *d))
{
	struct sim_boot *b = enter();
	struct stream *r = stream_of(d);
	int fd;

	if (b == NULL)
		return closedir(d);
	fd = r->r_fd;
	free(r->r_entries);
	free(r);
	return (int)answer(sim_close(b, fd));
}

/* An order of scandir(), for qsort_r(). */
struct order {
	int (*o_f)(const struct dirent **, const struct dirent **);
};

static int by_order(const void *a, const void *b, void *order)
{
	return ((struct order *)order)->o_f((const struct dirent **)a,
					    (const struct dirent **)b);
}

/* Copies an entry to the end of a list. */
static void list_add(struct dirent ***list, int nr, const struct dirent *e)
{
	*list = realloc(*list, ((size_t)nr + 1) * sizeof **list);
	if (*list == NULL)
		usim_fail("no memory for the simulation");
	(*list)[nr] = sim_alloc(sizeof *e);
	*(*list)[nr] = *e;
}

NAME(int, scandir, (const char *path, struct dirent ***to,
		    int (*filter)(const struct dirent *),
		    int (*order)(const struct dirent **, const struct dirent **)))
{
	struct order o = { order };
	struct dirent **list = NULL, *e;
	int nr = 0;
	DIR *d;

	if (enter() == NULL)
		return scandir(path, to, filter, order);
	d = wrap_opendir(path);
	if (d == NULL)
		return -1;
	while ((e = wrap_readdir(d)) != NULL)
		if (filter == NULL || filter(e))
			list_add(&list, nr++, e);
	(void)wrap_closedir(d);
	if (order != NULL && nr > 1)
		qsort_r(list, (size_t)nr, sizeof *list, by_order, &o);
	*to = list;
	return nr;
}

#if !defined(__GLIBC__) || __SIZEOF_POINTER__ == 8
/* The older form, with room of the caller. */
NAME(int, readdir_r, (DIR *d, struct dirent *to, struct dirent **result))
{
	const struct dirent *e = wrap_readdir(d);

	*result = NULL;
	if (e != NULL) {
		memcpy(to, e, offsetof(struct dirent, d_name) + strlen(e->d_name) + 1);
		*result = to;
	}
	return 0;
}

ALIAS(struct dirent *, readdir64, (DIR *d), readdir)
ALIAS(int, readdir64_r, (DIR *d, struct dirent *to, struct dirent **result), readdir_r)
ALIAS(int, scandir64, (const char *path, struct dirent ***to,
		       int (*filter)(const struct dirent *),
		       int (*order)(const struct dirent **, const struct dirent **)),
      scandir)
#endif
