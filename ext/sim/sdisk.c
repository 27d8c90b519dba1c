/* SPDX-License-Identifier: MIT */
/* sdisk.c: the disk of a host: stored content and names, and the model of a crash. */

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
 *     Of a torn write over stored bytes each sector of 512 bytes is kept or lost;
 *     a sector is never mixed. Behind the stored end, so of an append, a first part
 *     is kept, or each piece is kept or lost. Its pieces have 1 to 512 bytes, a
 *     power of two. A change of length is kept or lost. Where a later write was
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
 * PARTS
 *
 *	sdisk.h		the disk, its inodes and entries
 *	sdisk.c		content, entries, changes that are not stored, the crash
 *	swalk.c		from a path to an entry
 *	sopen.c		files that are open: reads, writes, syncs, locks
 *	spath.c		calls by path: names, links, modes, stat()
 *	smap.c		files in memory
 *
 *	sdamage.c	what disks do wrong
 *
 * Left out: owners, times, errors of the sync of a folder.
 */

#include "sdisk.h"

#define BLOCK		4096	/* of holes */

/* A change of a file: bytes at a place, a length, or a mode. */
struct change {
	struct change   *a_next;
	uint64_t         a_number;	/* D5 */
	enum change_kind a_kind;
	size_t           a_at, a_size;	/* a length or a mode is a_at */
	char             a_data[];
};

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

/* Returns the end of the block in which a place lies, or before which it is. */
static size_t block_end(size_t at)
{
	return (at + BLOCK - 1) / BLOCK * BLOCK;
}

void sim_content_length(struct content *x, size_t size)
{
	content_room(x, size);
	if (size > x->x_size)
		memset(x->x_data + x->x_size, 0, size - x->x_size);
	x->x_size = size;
	x->x_filled = x->x_filled < size ? x->x_filled : block_end(size);
}

void sim_content_put(struct content *x, size_t at, const void *data, size_t size)
{
	content_room(x, at + size);
	if (at > x->x_size)
		sim_content_length(x, at);
	memcpy(x->x_data + at, data, size);
	x->x_size = at + size > x->x_size ? at + size : x->x_size;
	x->x_filled = at + size > x->x_filled ? block_end(at + size) : x->x_filled;
}

static void content_copy(struct content *to, const struct content *from)
{
	sim_content_length(to, 0);
	if (from->x_size > 0)
		sim_content_put(to, 0, from->x_data, from->x_size);
	to->x_filled = from->x_filled;
}

void sim_change_add(struct sim_disk *d, struct inode *i, enum change_kind kind,
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
		sim_content_length(&i->i_stored, a->a_at);
	else if (a->a_kind == MODE)
		i->i_mode_stored = (unsigned)a->a_at;
	else
		sim_content_put(&i->i_stored, a->a_at, a->a_data, a->a_size);
}

/* Stores the bytes of a write from a place to another. */
static void change_part(struct inode *i, const struct change *a, size_t at, size_t end)
{
	sim_content_put(&i->i_stored, at, a->a_data + (at - a->a_at), end - at);
}

/* Stores a first part of an append, or each of its pieces, or not. */
static void append_tear(struct inode *i, const struct change *a, size_t at, size_t end)
{
	size_t piece = (size_t)1 << sim_below(DRAW_DISK, 10), next;

	if (sim_below(DRAW_DISK, 2) == 0) {
		next = at + sim_below(DRAW_DISK, (unsigned)((end - at) / piece + 1)) * piece;
		if (next > at)
			change_part(i, a, at, next);
		return;
	}
	for (; at < end; at = next) {
		next = at + piece < end ? at + piece : end;
		if (sim_below(DRAW_DISK, 2) == 0)
			change_part(i, a, at, next);
	}
}

/* Stores each sector of a write, or not; behind the stored end each piece. */
static void change_tear(struct inode *i, const struct change *a)
{
	size_t at = a->a_at, end = a->a_at + a->a_size, next;
	size_t old = i->i_stored.x_size;

	for (; at < end && at < old; at = next) {
		next = (at / SECTOR + 1) * SECTOR;
		next = next < end ? next : end;
		next = next < old ? next : old;
		if (sim_below(DRAW_DISK, 2) == 0)
			change_part(i, a, at, next);
	}
	if (at < end)
		append_tear(i, a, at, end);
}

/* Entries. */

struct entry *sim_entry_of(struct entry *list, const char *path)
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

static struct entry *entry_make(const char *path, const char *from, struct inode *i,
				uint64_t number)
{
	size_t size = strlen(path) + 1;
	struct entry *y = sim_alloc(sizeof *y + size + strlen(from) + 1);

	y->y_inode  = i;
	y->y_number = number;
	y->y_from   = strcpy(y->y_path + size, from);
	memcpy(y->y_path, path, size);
	return y;
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
	y = entry_make(c->y_path, "", c->y_inode, c->y_number);
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

void sim_entry_change(struct sim_disk *d, const char *path, const char *from,
		      struct inode *i)
{
	struct entry *c = entry_make(path, from, i, d->d_number++), **end = &d->d_changes;

	entry_apply(&d->d_seen, c);
	while (*end != NULL)
		end = &(*end)->y_next;
	*end = c;
}

/* Returns the length of the folder's part of a path; 1: it is the root. */
size_t sim_folder_length(const char *path)
{
	size_t nr = (size_t)(strrchr(path, '/') - path);

	return nr == 0 ? 1 : nr;
}

bool sim_is_in(const char *path, const char *folder)
{
	size_t nr = sim_folder_length(path);

	return strlen(folder) == nr && memcmp(path, folder, nr) == 0 &&
		strcmp(path, "/") != 0;
}

struct inode *sim_inode_make(bool is_dir, unsigned mode)
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
	struct entry *root = entry_make("/", "", sim_inode_make(true, 0755), 0);

	entry_apply(&d->d_seen, root);
	entry_apply(&d->d_stored, root);
	free(root);
	return d;
}

/* Syncs. */

void sim_file_store(struct inode *i, uint64_t end)
{
	struct change *a;

	if (sim_keeps_old && i->i_first != NULL && i->i_first->a_number < end)
		content_copy(&i->i_old, &i->i_stored);
	while ((a = i->i_first) != NULL && a->a_number < end) {
		change_store(i, a);
		i->i_first = a->a_next;
		change_free(a);
	}
}

/* Drops what is not stored (D6). Returns -EIO. */
int sim_file_drop(struct inode *i, uint64_t end)
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

void sim_folder_store(struct sim_disk *d, const char *path, uint64_t end)
{
	struct entry **at = &d->d_changes, *c;

	while ((c = *at) != NULL && c->y_number < end)
		if (sim_is_in(c->y_path, path)) {
			entry_apply(&d->d_stored, c);
			*at = c->y_next;
			free(c);
		} else {
			at = &c->y_next;
		}
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
			if (sim_folder_length(c->y_path) ==
			    sim_folder_length(other->y_path) &&
			    memcmp(c->y_path, other->y_path,
				   sim_folder_length(c->y_path)) == 0)
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
