/* SPDX-License-Identifier: MIT */
/* sdisk.c: the disk of a host: files, folders, and what a crash leaves of them. */

/*
 * A disk outlives the boots of its host. It has files (inodes), and entries that
 * give them names. Both exist twice: as programs see them, and as they are
 * stored. Between the two is a list of changes that are not stored yet.
 *
 *	write()		seen: at once		stored: by fsync() of the file
 *	open(O_CREAT), mkdir(),
 *	rename(), unlink()	at once		by fsync() of the folder
 *
 * THE MODEL OF A CRASH
 *
 * D1. All that was stored stays.
 * D2. Of the changes of a file that were not stored, each is kept, lost or torn.
 *     Of a torn write each sector of 512 bytes is kept or lost; a sector is
 *     never mixed. A change of length is kept or lost. Where a later write was
 *     kept and an earlier lost, a gap has zeros.
 * D3. Of the changes of a folder that were not stored, a first part is kept, and
 *     the others are lost: folders are journals.
 * D4. A fsync() of a file stores no name, and a fsync() of a folder no bytes.
 * D5. A sync promises only what was changed before it began.
 * D6. A sync of a file that fails with EIO stores some of the changes and drops the
 *     others. Programs still see these, and no later sync stores them, as
 *     Linux marks pages clean that could not be written. A crash loses them.
 *
 * A crash draws one of four: all is kept (a process was killed), all is lost, or,
 * twice as often, each change draws for itself. fdatasync() is fsync(), and
 * O_SYNC and O_DSYNC sync after each write.
 *
 * Real file systems promise more, each its own: ext4 stores the name of a new
 * file with its fsync(). POSIX does not, and this disk is as POSIX.
 *
 * A full disk takes no new file, and a write that would make a file longer writes a
 * part or nothing: ENOSPC. Bytes of the file can be written over.
 *
 * A mode is changed as a length is: the last change that was kept counts. Modes
 * permit all, since the user of a host has the rights of root. But access() asks
 * whether some user may run a file.
 *
 * A link is an inode whose target never changes, so it is stored with its name. A
 * second name of an inode (link()) is a change of its folder.
 *
 * MAPPINGS
 *
 * A file that is mapped is copied to memory. That is all for MAP_PRIVATE. Memory
 * that is MAP_SHARED must show later writes of the file, and this does not: the
 * run fails at such a write, or at a mapping that may be written.
 *
 * Left out: owners, times, errors of reads and of the sync of a folder.
 */

#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECTOR		512
#define PATH_ROOM	SIM_PATH
#define LEFT_ROOM	4096	/* of a path that a call is given */
#define LINKS		40	/* in a path */
#define SYNC_MIN	(50 * UTIME_US)

enum change_kind { BYTES, LENGTH, MODE };

/* A change of a file: bytes at a place, a length, or a mode. */
struct change {
	struct change   *a_next;
	uint64_t         a_number;	/* D5 */
	enum change_kind a_kind;
	size_t           a_at, a_size;	/* a length or a mode is a_at */
	char           a_data[];
};

struct content {
	char  *x_data;
	size_t x_size, x_room;
};

struct inode {
	bool            i_is_dir;
	bool            i_is_socket;	/* of sunix.c */
	char           *i_target;	/* it is a link; else NULL */
	ino_t           i_number;
	unsigned        i_mode, i_mode_stored;	/* of permissions */
	utime_ns        i_time;		/* of the last change */
	struct content  i_seen, i_stored;
	struct change  *i_first, *i_last;
};

/* A name. No inode: in a change, that the name is gone. */
struct entry {
	struct entry *y_next;
	struct inode *y_inode;
	uint64_t      y_number;		/* D5 */
	char          y_path[PATH_ROOM];
	char          y_from[PATH_ROOM];	/* of a rename, or "" */
};

struct sim_disk {
	struct entry *d_seen, *d_stored;
	struct entry *d_changes;	/* of folders, in order */
	uint64_t      d_number;		/* the next change */
};

struct disk_file {
	struct sim_file  m_file;	/* first */
	struct sim_disk *m_disk;
	struct inode    *m_inode;
	off_t            m_at;
	int              m_lock;	/* LOCK_SH, LOCK_EX, or 0 */
	char             m_path[PATH_ROOM];	/* as it was opened */
};

/* Memory that is MAP_SHARED. */
struct mapping {
	struct mapping  *p_next;
	struct sim_boot *p_boot;
	struct inode    *p_inode;
	char            *p_at;
	size_t           p_size;
};

static const struct sim_file_ops disk_ops;
static struct mapping *mappings;

bool sim_is_disk(const struct sim_file *f)
{
	return f->f_ops == &disk_ops;
}

struct sim_file *sim_disk_file(struct sim_boot *b, int fd, int error, int *rc)
{
	struct sim_file *f = sim_file(b, fd);

	*rc = f == NULL ? -EBADF : sim_is_disk(f) ? 0 : -error;
	return *rc == 0 ? f : NULL;
}

/* Content and changes. */

/* Makes room for size bytes, of which those after x_size may be anything. */
static void content_room(struct content *x, size_t size)
{
	char *block;

	if (size <= x->x_room)
		return;
	block = sim_block(size * 2);
	if (x->x_size > 0)
		memcpy(block, x->x_data, x->x_size);
	if (x->x_room > 0)
		sim_block_free(x->x_data, x->x_room);
	x->x_data = block;
	x->x_room = size * 2;
}

static void content_length(struct content *x, size_t size)
{
	content_room(x, size);
	if (size > x->x_size)
		memset(x->x_data + x->x_size, 0, size - x->x_size);
	x->x_size = size;
}

static void content_put(struct content *x, size_t at, const void *data, size_t size)
{
	content_room(x, at + size);
	if (at > x->x_size)
		content_length(x, at);
	memcpy(x->x_data + at, data, size);
	x->x_size = at + size > x->x_size ? at + size : x->x_size;
}

static void content_copy(struct content *to, const struct content *from)
{
	content_length(to, 0);
	if (from->x_size > 0)
		content_put(to, 0, from->x_data, from->x_size);
}

static void change_add(struct sim_disk *d, struct inode *i, enum change_kind kind,
		       size_t at, const void *data, size_t size)
{
	struct change *a = sim_block(sizeof *a + size);

	a->a_next = NULL;
	if (kind != MODE)
		i->i_time = sim_now();
	a->a_number = d->d_number++;
	a->a_kind = kind;
	a->a_at = at;
	a->a_size = size;
	if (size > 0)
		memcpy(a->a_data, data, size);
	if (i->i_first == NULL)
		i->i_first = a;
	else
		i->i_last->a_next = a;
	i->i_last = a;
}

static void change_free(struct change *a)
{
	sim_block_free(a, sizeof *a + a->a_size);
}

static void change_store(struct inode *i, const struct change *a)
{
	if (a->a_kind == LENGTH)
		content_length(&i->i_stored, a->a_at);
	else if (a->a_kind == MODE)
		i->i_mode_stored = (unsigned)a->a_at;
	else
		content_put(&i->i_stored, a->a_at, a->a_data, a->a_size);
}

/* Stores each sector of a write, or not. */
static void change_tear(struct inode *i, const struct change *a)
{
	size_t at = a->a_at, end = a->a_at + a->a_size, next;

	for (; at < end; at = next) {
		next = (at / SECTOR + 1) * SECTOR;
		next = next < end ? next : end;
		if (sim_below(DRAW_DISK, 2) == 0)
			content_put(&i->i_stored, at,
				    a->a_data + (at - a->a_at), next - at);
	}
}

/* Entries. */

static struct entry *entry_of(struct entry *list, const char *path)
{
	while (list != NULL && strcmp(list->y_path, path) != 0)
		list = list->y_next;
	return list;
}

static void entry_out(struct entry **list, const char *path)
{
	struct entry *y;

	for (; (y = *list) != NULL; list = &y->y_next)
		if (strcmp(y->y_path, path) == 0) {
			*list = y->y_next;
			free(y);
			return;
		}
}

/* Does what the change c says to a list of names. */
static void entry_apply(struct entry **list, const struct entry *c)
{
	struct entry *y;

	entry_out(list, c->y_path);
	if (c->y_from[0] != 0)
		entry_out(list, c->y_from);
	if (c->y_inode == NULL)
		return;
	y = sim_alloc(sizeof *y);
	*y = *c;
	y->y_from[0] = 0;
	y->y_next = *list;
	*list = y;
}

static void entries_free(struct entry **list)
{
	struct entry *y;

	while ((y = *list) != NULL) {
		*list = y->y_next;
		free(y);
	}
}

static void entry_change(struct sim_disk *d, const char *path, const char *from,
			 struct inode *i)
{
	struct entry *c = sim_alloc(sizeof *c), **end = &d->d_changes;

	c->y_inode  = i;
	c->y_number = d->d_number++;
	strcpy(c->y_path, path);
	strcpy(c->y_from, from);
	entry_apply(&d->d_seen, c);
	while (*end != NULL)
		end = &(*end)->y_next;
	*end = c;
}

/* Returns the length of the folder's part of a path; 1: it is the root. */
static size_t folder_length(const char *path)
{
	size_t nr = (size_t)(strrchr(path, '/') - path);

	return nr == 0 ? 1 : nr;
}

static bool is_in(const char *path, const char *folder)
{
	size_t nr = folder_length(path);

	return strlen(folder) == nr && memcmp(path, folder, nr) == 0 &&
		strcmp(path, "/") != 0;
}

/*
 * Paths are kept as "/a/b". A walk goes from folder to folder, and through links,
 * to the last part of a path, which need not be there.
 */

/* What a walk may do. */
enum { FOLLOW = 1, /* a link that is the last part */
       MAY_END = 2, /* with a slash, even if the last part is no folder */
       BENEATH = 4, NO_LINKS = 8 /* of openat2() */ };

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
	k->k_to[folder_length(k->k_to)] = 0;
	return 0;
}

static int go_down(struct walk *k, size_t part)
{
	size_t nr = strlen(k->k_to);

	nr -= nr == 1;				/* the root */
	if (nr + part + 2 > PATH_ROOM)
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
	k->k_to[folder_length(k->k_to)] = 0;
	if (target[0] == '/')
		strcpy(k->k_to, "/");
	return 0;
}

/* Takes the part of that length. 0 or an error. */
static int step(struct walk *k, size_t part)
{
	const struct entry *y = entry_of(k->k_disk->d_seen, k->k_to);
	int rc;

	if (y == NULL || !y->y_inode->i_is_dir)
		return y == NULL ? -ENOENT : -ENOTDIR;
	if (part == 2 && k->k_at[0] == '.' && k->k_at[1] == '.')
		rc = go_up(k);
	else
		rc = part == 1 && k->k_at[0] == '.' ? 0 : go_down(k, part);
	k->k_at += part;
	y = rc == 0 ? entry_of(k->k_disk->d_seen, k->k_to) : NULL;
	if (y != NULL && y->y_inode->i_target != NULL &&
	    (k->k_at[0] != 0 || k->k_how & FOLLOW))
		rc = go_through(k, y->y_inode->i_target);
	return rc;
}

/* Finds what a path names, from a folder: *y, or NULL. 0 or an error. */
static int walk(struct sim_disk *d, const char *start, const char *path, int how,
		char to[PATH_ROOM], struct entry **y)
{
	struct walk k = { .k_disk = d, .k_start = start, .k_how = how, .k_to = to };
	bool ends = false;
	size_t part;
	int rc;

	*y = NULL;
	if (*path == 0 || strlen(path) >= LEFT_ROOM)
		return *path == 0 ? -ENOENT : -ENAMETOOLONG;
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
		rc = step(&k, part);
		if (rc != 0)
			return rc;
	}
	*y = entry_of(d->d_seen, to);
	if (!ends || how & MAY_END)
		return 0;
	return *y == NULL ? -ENOENT : (*y)->y_inode->i_is_dir ? 0 : -ENOTDIR;
}

/* Finds what a call names, without following a last link: *y, or NULL. */
static int look(struct sim_boot *b, const char *path, char to[PATH_ROOM],
		struct entry **y)
{
	return walk(b->b_host->h_disk, b->b_folder, path, 0, to, y);
}

/* Does the same. -ENOENT: there is no such entry. */
static int entry_find(struct sim_boot *b, const char *path, char to[PATH_ROOM],
		      struct entry **y)
{
	int rc = look(b, path, to, y);

	return rc == 0 && *y == NULL ? -ENOENT : rc;
}

/* Finds what a path leads to, through links. */
static int target_find(struct sim_boot *b, const char *path, char to[PATH_ROOM],
		       struct entry **y)
{
	int rc = walk(b->b_host->h_disk, b->b_folder, path, FOLLOW, to, y);

	return rc == 0 && *y == NULL ? -ENOENT : rc;
}

static struct inode *inode_make(bool is_dir, unsigned mode)
{
	static ino_t number;
	struct inode *i = sim_alloc(sizeof *i);

	i->i_is_dir = is_dir;
	i->i_number = ++number;
	i->i_mode = i->i_mode_stored = mode;
	i->i_time = sim_is_on ? sim_now() : 0;
	return i;
}

struct sim_disk *sim_disk_make(void)
{
	struct sim_disk *d = sim_alloc(sizeof *d);
	struct entry root = { .y_inode = inode_make(true, 0755), .y_path = "/" };

	entry_apply(&d->d_seen, &root);
	entry_apply(&d->d_stored, &root);
	return d;
}

/* A crash. */

enum fate { KEEP, LOSE, DRAW };

/* Returns how many changes were lost or torn. */
static long inode_crash(struct inode *i, enum fate fate)
{
	struct change *a;
	long lost = 0;

	while ((a = i->i_first) != NULL) {
		unsigned draw = fate == DRAW ? sim_below(DRAW_DISK, 3) :
			(unsigned)fate;

		if (draw == KEEP)
			change_store(i, a);
		else if (draw == DRAW && a->a_kind == BYTES)
			change_tear(i, a);
		lost += draw != KEEP;
		i->i_first = a->a_next;
		change_free(a);
	}
	content_copy(&i->i_seen, &i->i_stored);
	i->i_mode = i->i_mode_stored;
	return lost;
}

/* An inode without changes that is met twice stays as it is. */
static long inodes_crash(struct entry *list, enum fate fate)
{
	long lost = 0;

	for (; list != NULL; list = list->y_next)
		if (list->y_inode != NULL)
			lost += inode_crash(list->y_inode, fate);
	return lost;
}

/* Keeps a first part of the changes of each folder. */
static long folders_crash(struct sim_disk *d, enum fate fate)
{
	struct entry *c, *lost = NULL, *other;
	long nr = 0;

	while ((c = d->d_changes) != NULL) {
		d->d_changes = c->y_next;
		for (other = lost; other != NULL; other = other->y_next)
			if (folder_length(c->y_path) ==
			    folder_length(other->y_path) &&
			    memcmp(c->y_path, other->y_path,
				   folder_length(c->y_path)) == 0)
				break;
		if (other == NULL && (fate == KEEP || (fate == DRAW &&
		    sim_below(DRAW_DISK, 4) != 0))) {
			entry_apply(&d->d_stored, c);
			free(c);
		} else {
			c->y_next = lost;
			lost = c;
			nr++;
		}
	}
	entries_free(&lost);
	return nr;
}

long sim_disk_crash(struct sim_disk *d)
{
	static const enum fate fates[] = { KEEP, LOSE, DRAW, DRAW };
	enum fate fate = fates[sim_below(DRAW_DISK, 4)];
	long lost = inodes_crash(d->d_stored, fate) +
		inodes_crash(d->d_changes, fate);
	struct entry *y;

	lost += folders_crash(d, fate);
	entries_free(&d->d_seen);
	for (y = d->d_stored; y != NULL; y = y->y_next)
		entry_apply(&d->d_seen, y);
	return lost;
}

/* Calls. */

static struct disk_file *file_of(struct sim_file *f)
{
	return (struct disk_file *)f;
}

static unsigned mode_of(const struct inode *i)
{
	return i->i_mode | (i->i_is_dir ? S_IFDIR : i->i_is_socket ? S_IFSOCK :
			    i->i_target != NULL ? S_IFLNK : S_IFREG);
}

/* Fails the run if a change of i would have to show in memory. */
static void check_mappings(const struct inode *i)
{
	const struct mapping *p;

	for (p = mappings; p != NULL; p = p->p_next)
		if (p->p_inode == i && !p->p_boot->b_dead)
			usim_fail("a write to a file that is mapped MAP_SHARED is "
				  "not simulated");
}

static int open_it(struct sim_boot *b, const char *path, struct inode *i, int flags)
{
	struct disk_file *m = sim_file_make(b, &disk_ops, sizeof *m, flags);

	m->m_disk = b->b_host->h_disk;
	m->m_inode = i;
	strcpy(m->m_path, path);
	return sim_fd(b, &m->m_file);
}

/* Returns the mode that a new file has. */
static unsigned permitted(const struct sim_boot *b, mode_t mode)
{
	return mode & 07777 & ~b->b_umask;
}

/* Returns the error that open() has for an entry; 0: it may be opened. */
static int refuses(const struct entry *y, int flags)
{
	const struct inode *i = y->y_inode;

	if (flags & O_CREAT && flags & O_EXCL)
		return -EEXIST;
	if (i->i_target != NULL)
		return -ELOOP;
	if (i->i_is_dir && ((flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT))
		return -EISDIR;
	if (!i->i_is_dir && flags & O_DIRECTORY)
		return -ENOTDIR;
	return i->i_is_socket ? -ENXIO : 0;
}

static int open_from(struct sim_boot *b, const char *start, const char *name,
		     int flags, mode_t mode, int how)
{
	struct sim_disk *d = b->b_host->h_disk;
	bool creates = flags & O_CREAT;
	char path[PATH_ROOM];
	struct entry *y;
	struct inode *i;
	int rc;

	if (!(flags & O_NOFOLLOW || (creates && flags & O_EXCL)))
		how |= FOLLOW;
	rc = walk(d, start, name, how | (creates ? MAY_END : 0), path, &y);
	if (rc == 0 && creates && name[strlen(name) - 1] == '/')
		rc = -EISDIR;
	if (rc == 0 && y != NULL)
		rc = refuses(y, flags);
	if (rc == 0 && y == NULL)
		rc = !creates ? -ENOENT : sim_is_full(b->b_host) ? -ENOSPC : 0;
	if (rc != 0)
		return rc;
	i = y != NULL ? y->y_inode : inode_make(false, permitted(b, mode));
	if (y == NULL)
		entry_change(d, path, "", i);
	if (flags & O_TRUNC && !i->i_is_dir && i->i_seen.x_size > 0) {
		check_mappings(i);
		content_length(&i->i_seen, 0);
		change_add(d, i, LENGTH, 0, NULL, 0);
	}
	return open_it(b, path, i, flags);
}

int sim_open(struct sim_boot *b, const char *name, int flags, mode_t mode)
{
	return open_from(b, b->b_folder, name, flags, mode, 0);
}

int sim_open_beneath(struct sim_boot *b, struct sim_file *folder, const char *name,
		     int flags, mode_t mode, bool links)
{
	return open_from(b, file_of(folder)->m_path, name, flags, mode,
			 BENEATH | (links ? 0 : NO_LINKS));
}

/* Returns whether a file, or a folder, that is open has its name no more. */
bool sim_is_gone(struct sim_file *f)
{
	const struct disk_file *m = file_of(f);
	const struct entry *y = entry_of(m->m_disk->d_seen, m->m_path);

	return y == NULL || y->y_inode != m->m_inode;
}

/* Returns the path of a folder that is open; NULL: it is none. */
const char *sim_folder(struct sim_file *f)
{
	return sim_is_disk(f) && file_of(f)->m_inode->i_is_dir ?
		file_of(f)->m_path : NULL;
}

int sim_folder_change(struct sim_boot *b, const char *name)
{
	char path[PATH_ROOM];
	struct entry *y;
	int rc = target_find(b, name, path, &y);

	if (rc == 0 && !y->y_inode->i_is_dir)
		rc = -ENOTDIR;
	if (rc == 0)
		strcpy(b->b_folder, path);
	return rc;
}

/* Puts the n-th entry of a folder, from 0 on, to where it points. False: the end. */
bool sim_folder_entry(struct sim_file *f, size_t n, const char **name, ino_t *inode,
		      unsigned *mode)
{
	const struct disk_file *m = file_of(f);
	const struct entry *y;

	for (y = m->m_disk->d_seen; y != NULL && !sim_is_gone(f); y = y->y_next)
		if (is_in(y->y_path, m->m_path) && n-- == 0) {
			*name = strrchr(y->y_path, '/') + 1;
			*inode = y->y_inode->i_number;
			*mode = mode_of(y->y_inode);
			return true;
		}
	return false;
}

ssize_t sim_pread(struct sim_file *f, void *buf, size_t size, off_t at)
{
	const struct inode *i = file_of(f)->m_inode;
	size_t left;

	if ((f->f_flags & O_ACCMODE) == O_WRONLY)
		return -EBADF;
	if (at < 0)
		return -EINVAL;
	if (i->i_is_dir)
		return -EISDIR;
	if ((size_t)at >= i->i_seen.x_size)
		return 0;
	left = i->i_seen.x_size - (size_t)at;
	size = size < left ? size : left;
	memcpy(buf, i->i_seen.x_data + at, size);
	return (ssize_t)size;
}

/* Returns how many bytes a full disk takes, of a write that makes i longer. */
static size_t fits(const struct inode *i, size_t size, size_t at)
{
	size_t there = at < i->i_seen.x_size ? i->i_seen.x_size - at : 0;

	return there > 0 || sim_below(DRAW_DISK, 2) == 0 ? there :
		sim_below(DRAW_DISK, (unsigned)size);
}

static int sync_file(struct sim_file *f);

static ssize_t write_file(struct sim_file *f, const void *buf, size_t size, off_t at)
{
	struct disk_file *m = file_of(f);
	struct sim_host *h = f->f_boot->b_host;
	int rc = 0;

	if ((f->f_flags & O_ACCMODE) == O_RDONLY)
		return -EBADF;
	if (at < 0)
		return -EINVAL;
	if (size == 0)
		return 0;
	sim_step(h, AT_DISK);
	if (f->f_flags & O_APPEND)
		at = (off_t)m->m_inode->i_seen.x_size;
	if ((size_t)at + size > m->m_inode->i_seen.x_size &&
	    sim_is_full(h))
		size = fits(m->m_inode, size, (size_t)at);
	if (size == 0)
		return -ENOSPC;
	check_mappings(m->m_inode);
	content_put(&m->m_inode->i_seen, (size_t)at, buf, size);
	change_add(m->m_disk, m->m_inode, BYTES, (size_t)at, buf, size);
	sim_hash_bytes(buf, size);
	if (f->f_flags & O_DSYNC)
		rc = sync_file(f);
	sim_step(h, AT_DISK);
	return rc < 0 ? rc : (ssize_t)size;
}

ssize_t sim_read_at(struct sim_boot *b, int fd, void *buf, size_t size, off_t at)
{
	int rc;
	struct sim_file *f = sim_disk_file(b, fd, ESPIPE, &rc);

	return f == NULL ? rc : sim_pread(f, buf, size, at);
}

ssize_t sim_write_at(struct sim_boot *b, int fd, const void *buf, size_t size, off_t at)
{
	int rc;
	struct sim_file *f = sim_disk_file(b, fd, ESPIPE, &rc);

	return f == NULL ? rc : write_file(f, buf, size, at);
}

static ssize_t disk_read(struct sim_file *f, void *buf, size_t size, int flags)
{
	ssize_t nr = sim_pread(f, buf, size, file_of(f)->m_at);

	(void)flags;
	file_of(f)->m_at += nr > 0 ? nr : 0;
	return nr;
}

static ssize_t disk_write(struct sim_file *f, const void *buf, size_t size)
{
	struct disk_file *m = file_of(f);
	ssize_t nr;

	if (f->f_flags & O_APPEND && (f->f_flags & O_ACCMODE) != O_RDONLY)
		m->m_at = (off_t)m->m_inode->i_seen.x_size;
	f->f_refs++;		/* it may be closed meanwhile: O_DSYNC */
	nr = write_file(f, buf, size, m->m_at);
	m->m_at += nr > 0 ? nr : 0;
	sim_drop(f);
	return nr;
}

off_t sim_seek(struct sim_file *f, off_t at, int whence)
{
	struct disk_file *m = file_of(f);

	if (whence == SEEK_CUR)
		at += m->m_at;
	else if (whence == SEEK_END)
		at += (off_t)m->m_inode->i_seen.x_size;
	else if (whence != SEEK_SET)
		return -EINVAL;
	return at < 0 ? -EINVAL : (m->m_at = at);
}

int sim_truncate(struct sim_file *f, off_t size)
{
	struct disk_file *m = file_of(f);

	if ((f->f_flags & O_ACCMODE) == O_RDONLY || size < 0)
		return -EINVAL;
	sim_step(f->f_boot->b_host, AT_DISK);
	check_mappings(m->m_inode);
	content_length(&m->m_inode->i_seen, (size_t)size);
	change_add(m->m_disk, m->m_inode, LENGTH, (size_t)size, NULL, 0);
	sim_hash((uint64_t)size);
	return 0;
}

static void file_store(struct inode *i, uint64_t end)
{
	struct change *a;

	while ((a = i->i_first) != NULL && a->a_number < end) {
		change_store(i, a);
		i->i_first = a->a_next;
		change_free(a);
	}
}

/* D6. Returns -EIO. */
static int file_drop(struct inode *i, uint64_t end)
{
	struct change *a;

	while ((a = i->i_first) != NULL && a->a_number < end) {
		if (sim_below(DRAW_DISK, 2) == 0)
			change_store(i, a);
		i->i_first = a->a_next;
		change_free(a);
	}
	return -EIO;
}

static void folder_store(struct sim_disk *d, const char *path, uint64_t end)
{
	struct entry **at = &d->d_changes, *c;

	while ((c = *at) != NULL && c->y_number < end)
		if (is_in(c->y_path, path)) {
			entry_apply(&d->d_stored, c);
			*at = c->y_next;
			free(c);
		} else {
			at = &c->y_next;
		}
}

static int sync_file(struct sim_file *f)
{
	struct disk_file *m = file_of(f);
	struct sim_host *h = f->f_boot->b_host;
	uint64_t end = m->m_disk->d_number;			/* D5 */
	int rc = 0;

	sim_step(h, AT_DISK);
	f->f_refs++;		/* it may be closed meanwhile */
	sim_sleep(sim_now() + sim_sync_time(h, sim_length(DRAW_DISK, SYNC_MIN,
						sim_world.w_sync_max)));
	if (m->m_inode->i_is_dir) {
		folder_store(m->m_disk, m->m_path, end);
		file_store(m->m_inode, end);
	} else if (sim_fails_sync(h)) {
		rc = file_drop(m->m_inode, end);
	} else {
		file_store(m->m_inode, end);
	}
	sim_drop(f);
	sim_hash(end ^ (uint64_t)rc);
	sim_step(h, AT_DISK);
	return rc;
}

int sim_sync_at(struct sim_boot *b, int fd)
{
	int rc;
	struct sim_file *f = sim_disk_file(b, fd, EINVAL, &rc);

	return f == NULL ? rc : sync_file(f);
}

int sim_rename(struct sim_boot *b, const char *from, const char *to)
{
	char path[PATH_ROOM], other[PATH_ROOM];
	struct entry *y, *z;
	int rc = entry_find(b, from, path, &y);

	if (rc == 0)
		rc = look(b, to, other, &z);
	if (rc != 0)
		return rc;
	if (y->y_inode->i_is_dir)
		usim_fail("rename() of a folder is not simulated");
	if (folder_length(path) != folder_length(other) ||
	    memcmp(path, other, folder_length(path)) != 0)
		usim_fail("rename() between folders is not simulated");
	if (z != NULL && z->y_inode->i_is_dir)
		return -EISDIR;
	if (z != NULL && z->y_inode == y->y_inode)
		return 0;
	sim_step(b->b_host, AT_DISK);
	entry_change(b->b_host->h_disk, other, path, y->y_inode);
	sim_hash_bytes(other, strlen(other));
	return 0;
}

static bool has_entries(const struct sim_disk *d, const char *folder)
{
	const struct entry *y;

	for (y = d->d_seen; y != NULL; y = y->y_next)
		if (is_in(y->y_path, folder))
			return true;
	return false;
}

int sim_unlink(struct sim_boot *b, const char *name, bool dir)
{
	struct sim_disk *d = b->b_host->h_disk;
	char path[PATH_ROOM];
	struct entry *y;
	int rc = entry_find(b, name, path, &y);

	if (rc != 0)
		return rc;
	if (y->y_inode->i_is_dir != dir)
		return dir ? -ENOTDIR : -EISDIR;
	if (dir && has_entries(d, path))
		return -ENOTEMPTY;
	sim_step(b->b_host, AT_DISK);
	entry_change(d, path, "", NULL);
	sim_hash_bytes(path, strlen(path));
	return 0;
}

int sim_mkdir(struct sim_boot *b, const char *name, mode_t mode)
{
	char path[PATH_ROOM];
	struct entry *y;
	int rc = walk(b->b_host->h_disk, b->b_folder, name, MAY_END, path, &y);

	if (rc != 0 || y != NULL)
		return rc != 0 ? rc : -EEXIST;
	if (sim_is_full(b->b_host))
		return -ENOSPC;
	sim_step(b->b_host, AT_DISK);
	entry_change(b->b_host->h_disk, path, "", inode_make(true, permitted(b, mode)));
	return 0;
}

/* Not even root may run a file that no user may. */
int sim_access(struct sim_boot *b, const char *name, int how)
{
	char path[PATH_ROOM];
	struct entry *y;
	int rc = how & ~(R_OK | W_OK | X_OK) ? -EINVAL :
		target_find(b, name, path, &y);

	return rc == 0 && how & X_OK && !y->y_inode->i_is_dir &&
		!(y->y_inode->i_mode & 0111) ? -EACCES : rc;
}

/* Changes a mode, which is seen at once. */
static int mode_set(struct sim_boot *b, struct inode *i, mode_t mode)
{
	struct sim_disk *d = b->b_host->h_disk;

	sim_step(b->b_host, AT_DISK);
	i->i_mode = mode & 07777;
	change_add(d, i, MODE, i->i_mode, NULL, 0);
	sim_hash(i->i_mode);
	return 0;
}

int sim_chmod(struct sim_boot *b, const char *name, mode_t mode)
{
	char path[PATH_ROOM];
	struct entry *y;
	int rc = target_find(b, name, path, &y);

	return rc != 0 ? rc : mode_set(b, y->y_inode, mode);
}

int sim_fchmod(struct sim_file *f, mode_t mode)
{
	return mode_set(f->f_boot, file_of(f)->m_inode, mode);
}

/* Finds no entry, for a new name. 0, or an error. */
static int new_find(struct sim_boot *b, const char *name, char path[PATH_ROOM])
{
	struct entry *y;
	int rc = look(b, name, path, &y);

	if (rc != 0)
		return rc;
	return y != NULL ? -EEXIST : sim_is_full(b->b_host) ? -ENOSPC : 0;
}

int sim_symlink(struct sim_boot *b, const char *target, const char *name)
{
	char path[PATH_ROOM];
	int rc = *target == 0 ? -ENOENT : new_find(b, name, path);
	struct inode *i;

	if (rc != 0)
		return rc;
	sim_step(b->b_host, AT_DISK);
	i = inode_make(false, 0777);
	i->i_target = sim_alloc(strlen(target) + 1);
	strcpy(i->i_target, target);
	entry_change(b->b_host->h_disk, path, "", i);
	return 0;
}

const char *sim_link_target(struct sim_boot *b, const char *name, int *rc)
{
	char path[PATH_ROOM];
	struct entry *y;

	*rc = entry_find(b, name, path, &y);
	if (*rc == 0 && y->y_inode->i_target == NULL)
		*rc = -EINVAL;
	return *rc == 0 ? y->y_inode->i_target : NULL;
}

int sim_link(struct sim_boot *b, const char *from, const char *name)
{
	char path[PATH_ROOM];
	struct entry *y;
	struct inode *i;
	int rc = entry_find(b, from, path, &y);

	if (rc != 0)
		return rc;
	i = y->y_inode;
	rc = new_find(b, name, path);
	if (rc == 0 && i->i_is_dir)
		rc = -EPERM;
	if (rc != 0)
		return rc;
	sim_step(b->b_host, AT_DISK);
	entry_change(b->b_host->h_disk, path, "", i);
	return 0;
}

int sim_resolve(struct sim_boot *b, const char *name, char to[PATH_ROOM])
{
	struct entry *y;

	return target_find(b, name, to, &y);
}

int sim_socket_file_make(struct sim_boot *b, const char *name, bool wanted,
			 const void **inode)
{
	char path[PATH_ROOM];
	struct entry *y;
	struct inode *i;
	int rc = look(b, name, path, &y);

	if (rc != 0)
		return rc;
	if (y != NULL)
		return -EADDRINUSE;
	if (!wanted)
		return -EINVAL;
	i = inode_make(false, permitted(b, 0777));
	i->i_is_socket = true;
	entry_change(b->b_host->h_disk, path, "", i);
	*inode = i;
	return 0;
}

int sim_socket_file(struct sim_boot *b, const char *name, const void **inode)
{
	char path[PATH_ROOM];
	struct entry *y;
	int rc = target_find(b, name, path, &y);

	if (rc != 0)
		return rc;
	*inode = y->y_inode;
	return y->y_inode->i_is_socket ? 0 : -ECONNREFUSED;
}

/* Returns how many names an inode has. */
static nlink_t names_of(const struct sim_disk *d, const struct inode *i)
{
	const struct entry *y;
	nlink_t nr = 0;

	for (y = d->d_seen; y != NULL; y = y->y_next)
		nr += y->y_inode == i;
	return nr;
}

static void stat_put(const struct sim_disk *d, const struct inode *i, struct stat *to)
{
	utime_ns at = i->i_time;

	memset(to, 0, sizeof *to);
	to->st_ino = i->i_number;
	to->st_nlink = i->i_is_dir ? 2 : names_of(d, i);
	to->st_mode = mode_of(i);
	to->st_size = (off_t)(i->i_target != NULL ? strlen(i->i_target) :
			      i->i_seen.x_size);
	to->st_blksize = 4096;
	to->st_blocks = (blkcnt_t)((i->i_seen.x_size + 511) / 512);
	to->st_mtim.tv_sec  = (SIM_EPOCH + at) / UTIME_S;
	to->st_mtim.tv_nsec = at % UTIME_S;
	to->st_atim = to->st_ctim = to->st_mtim;
}

int sim_stat(struct sim_boot *b, const char *name, bool follow, struct stat *to)
{
	char path[PATH_ROOM];
	struct entry *y;
	int rc = (follow ? target_find : entry_find)(b, name, path, &y);

	if (rc == 0)
		stat_put(b->b_host->h_disk, y->y_inode, to);
	return rc;
}

void sim_fstat(struct sim_file *f, struct stat *to)
{
	if (sim_is_disk(f)) {
		stat_put(file_of(f)->m_disk, file_of(f)->m_inode, to);
		return;
	}
	memset(to, 0, sizeof *to);
	to->st_nlink = 1;
	to->st_blksize = 4096;
	to->st_mode = f->f_ops->o_socket != NULL ? S_IFSOCK | 0777 :
		strcmp(f->f_ops->o_name, "pipe") == 0 ? S_IFIFO | 0600 :
		f->f_ops->o_name[0] == '/' ? S_IFCHR | 0666 : 0600;
}

/*
 * Locks of flock(). They belong to the open file, so a crash and the last close()
 * end them. Files that are on their way in a message hold none.
 */
static bool is_locked(struct sim_file *f, int lock)
{
	struct sim_boot *b = f->f_boot;
	int fd;

	for (fd = 0; fd < SIM_FDS; fd++) {
		const struct disk_file *m = (struct disk_file *)b->b_fds[fd];

		if (m != NULL && &m->m_file != f && sim_is_disk(&m->m_file) &&
		    m->m_inode == file_of(f)->m_inode && m->m_lock != 0 &&
		    (lock == LOCK_EX || m->m_lock == LOCK_EX))
			return true;
	}
	return false;
}

/* -EAGAIN: another open file has a lock. */
int sim_lock(struct sim_file *f, int lock)
{
	struct disk_file *m = file_of(f);
	int before = m->m_lock;

	if (lock != LOCK_SH && lock != LOCK_EX && lock != LOCK_UN)
		return -EINVAL;
	m->m_lock = 0;		/* a lock is given up, even if the other fails */
	if (before != 0 && before != lock)
		sim_changed(f, POLLIN);
	if (lock != LOCK_UN && is_locked(f, lock))
		return -EAGAIN;
	m->m_lock = lock == LOCK_UN ? 0 : lock;
	return 0;
}

/* Maps size bytes from a place of a file. MAP_FAILED and an error in *rc. */
void *sim_map(struct sim_file *f, void *at, size_t size, int what, int flags,
	      off_t from, int *rc)
{
	struct disk_file *m = file_of(f);
	struct mapping *p;
	ssize_t nr;
	char *memory;

	*rc = (f->f_flags & O_ACCMODE) == O_WRONLY ? -EACCES :
		m->m_inode->i_is_dir ? -ENODEV :
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

static int disk_poll(struct sim_file *f)
{
	(void)f;
	return POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;
}

static void disk_close(struct sim_file *f)
{
	if (file_of(f)->m_lock != 0)
		sim_changed(f, POLLIN);		/* others may have the lock */
	free(f);
}

static const struct sim_file_ops disk_ops = {
	"file", disk_read, disk_write, disk_poll, disk_close, disk_close, true,
	NULL
};
