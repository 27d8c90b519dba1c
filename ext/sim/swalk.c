/* SPDX-License-Identifier: MIT */
/* swalk.c: the way from a path to an entry, on the disk of a host. */

/*
 * Paths are kept as "/a/b". A walk goes from folder to folder, and through links,
 * to the last part of a path, which need not be there.
 */

#include "sdisk.h"

#define CALL_ROOM	4096	/* of a path that a call is given */
#define LEFT_ROOM	(SIM_PATH + CALL_ROOM)
#define LINKS		40	/* in a path */

struct walk {
	struct sim_disk *k_disk;
	const char      *k_start;	/* the folder where it begins */
	int              k_how, k_links;
	char            *k_to;		/* how far it has come */
	char            *k_at;		/* in k_left */
	char             k_left[LEFT_ROOM];
};

/* Goes to the folder above. */
static int go_up(struct walk *k)
{
	if (k->k_how & BENEATH && strcmp(k->k_to, k->k_start) == 0)
		return -EXDEV;
	k->k_to[sim_folder_length(k->k_to)] = 0;
	return 0;
}

static int go_down(struct walk *k, size_t part)
{
	size_t nr = strlen(k->k_to);

	nr -= nr == 1;				/* the root */
	if (part > SIM_PART || nr + part + 2 > PATH_ROOM)
		return -ENAMETOOLONG;
	k->k_to[nr++] = '/';
	memcpy(k->k_to + nr, k->k_at, part);
	k->k_to[nr + part] = 0;
	return 0;
}

/* Puts the target of a link before what is left of the path. */
static int go_through(struct walk *k, const char *target)
{
	size_t size = strlen(target), left = strlen(k->k_at);

	if (k->k_how & NO_LINKS || ++k->k_links > LINKS)
		return -ELOOP;
	if (size + left >= LEFT_ROOM)
		return -ENAMETOOLONG;
	memmove(k->k_left + size, k->k_at, left + 1);
	memcpy(k->k_left, target, size);
	k->k_at = k->k_left;
	k->k_to[sim_folder_length(k->k_to)] = 0;
	if (target[0] == '/')
		strcpy(k->k_to, "/");
	return 0;
}

/* Takes the part of that length. 0 or an error. */
static int step(struct walk *k, size_t part)
{
	const struct entry *y = sim_entry_of(k->k_disk->d_seen, k->k_to);
	int rc;

	if (y == NULL || !y->y_inode->i_is_dir)
		return y == NULL ? -ENOENT : -ENOTDIR;
	if (part == 2 && k->k_at[0] == '.' && k->k_at[1] == '.')
		rc = go_up(k);
	else
		rc = part == 1 && k->k_at[0] == '.' ? 0 : go_down(k, part);
	k->k_at += part;
	y = rc == 0 ? sim_entry_of(k->k_disk->d_seen, k->k_to) : NULL;
	if (y != NULL && y->y_inode->i_target != NULL &&
	    (k->k_at[k->k_how & STAYS ? strspn(k->k_at, "/") : 0] != 0 ||
	     k->k_how & FOLLOW))
		rc = go_through(k, y->y_inode->i_target);
	return rc;
}

/* Returns the error of a path as a string, or 0. */
int sim_path_check(const char *path)
{
	if (path == NULL || *path == 0)
		return path == NULL ? -EFAULT : -ENOENT;
	/* With two slashes it may be a path from a folder: path_at() in snfile.c. */
	return strlen(path) < (strncmp(path, "//", 2) == 0 ? LEFT_ROOM : CALL_ROOM) ? 0 :
		-ENAMETOOLONG;
}

/* Finds what a path names, from a folder: *y, or NULL. 0 or an error. */
int sim_walk(struct sim_disk *d, const char *start, const char *path, int how,
	     char to[PATH_ROOM], struct entry **y)
{
	struct walk k = { .k_disk = d, .k_start = start, .k_how = how, .k_to = to };
	bool ends = false, is_name = false;
	size_t part;
	int rc;

	*y = NULL;
	rc = sim_path_check(path);
	if (rc != 0)
		return rc;
	if (*path == '/' && how & BENEATH)
		return -EXDEV;
	strcpy(k.k_left, path);
	strcpy(to, *path == '/' ? "/" : start);
	for (k.k_at = k.k_left; ; ) {
		part = strspn(k.k_at, "/");
		ends = part > 0;
		k.k_at += part;
		part = strcspn(k.k_at, "/");
		if (part == 0)
			break;
		is_name = part > 2 || memcmp(k.k_at, "..", part) != 0;
		rc = step(&k, part);
		if (rc != 0)
			return rc;
	}
	*y = sim_entry_of(d->d_seen, to);
	if (ends && is_name && how & CREATES)
		return -EISDIR;
	if (!ends || how & MAY_END)
		return 0;
	return *y == NULL ? -ENOENT : (*y)->y_inode->i_is_dir ? 0 : -ENOTDIR;
}

/* Returns the last part of a path, and how long it is without slashes. */
static const char *last_part(const char *path, size_t *size)
{
	const char *end = path + strlen(path), *start;

	while (end > path && end[-1] == '/')
		end--;
	for (start = end; start > path && start[-1] != '/'; start--)
		;
	*size = (size_t)(end - start);
	return start;
}

/* Says what the last part is: a name, or a way. */
enum last sim_last_part(const char *path)
{
	size_t size;
	const char *part = last_part(path, &size);

	if (size == 0)
		return LAST_ROOT;
	if (size > 2 || part[0] != '.')
		return LAST_NAME;
	return size == 1 ? LAST_DOT : part[1] == '.' ? LAST_UP : LAST_NAME;
}

/* Returns the error of a path before its last part is looked at, or 0. */
int sim_parent_check(struct sim_boot *b, const char *path)
{
	char parent[LEFT_ROOM], to[PATH_ROOM];
	struct entry *y;
	size_t size;
	int rc = sim_path_check(path);

	if (rc != 0)
		return rc;
	size = (size_t)(last_part(path, &size) - path);
	if (size == 0)
		return 0;
	memcpy(parent, path, size);
	parent[size] = 0;
	return sim_target_find(b, parent, to, &y);
}

/* Finds what a call makes or removes, never through a last link: *y, or NULL. */
int sim_look(struct sim_boot *b, const char *path, char to[PATH_ROOM],
	     struct entry **y)
{
	return sim_walk(b->b_host->h_disk, b->b_folder, path, STAYS, to, y);
}

/* Finds what a call asks for, through a last link only if a slash follows. */
int sim_entry_find(struct sim_boot *b, const char *path, char to[PATH_ROOM],
		   struct entry **y)
{
	int rc = sim_walk(b->b_host->h_disk, b->b_folder, path, 0, to, y);

	return rc == 0 && *y == NULL ? -ENOENT : rc;
}

/* Finds what a path leads to, through links. */
int sim_target_find(struct sim_boot *b, const char *path, char to[PATH_ROOM],
		    struct entry **y)
{
	int rc = sim_walk(b->b_host->h_disk, b->b_folder, path, FOLLOW, to, y);

	return rc == 0 && *y == NULL ? -ENOENT : rc;
}
