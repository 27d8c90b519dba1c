/* SPDX-License-Identifier: MIT */
/* sdisk.h: the disk of a host, as the parts of sdisk.c share it. Private. */

#ifndef SDISK_H
#define SDISK_H

#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_ROOM	SIM_PATH
#define SECTOR		512	/* bytes */

enum change_kind { BYTES, LENGTH, MODE };

struct content {
	char  *x_data;
	size_t x_size, x_room;
	size_t x_filled;	/* from there on there is a hole */
};

struct inode {
	bool            i_is_dir;
	bool            i_is_socket;	/* of sunix.c */
	char           *i_target;	/* it is a link; else NULL */
	ino_t           i_number;
	unsigned        i_mode, i_mode_stored;	/* of permissions */
	utime_ns        i_time;		/* of the last change */
	struct content  i_seen, i_stored;
	struct content  i_old;		/* stored before the last sync: sim_keeps_old */
	struct change  *i_first, *i_last;
};

/* A name. No inode: in a change, that the name is gone. */
struct entry {
	struct entry *y_next;
	struct inode *y_inode;
	uint64_t      y_number;		/* sdisk D5 */
	const char   *y_from;		/* of a rename, or "", after the path */
	char          y_path[];
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
	char             m_path[];	/* as it was opened */
};

static inline struct disk_file *file_of(struct sim_file *f)
{
	return (struct disk_file *)f;
}

/* sdisk.c: content, names, and what of them is stored. */

struct inode    *sim_inode_make(bool is_dir, unsigned mode);
void             sim_content_length(struct content *x, size_t size);
void             sim_content_put(struct content *x, size_t at, const void *data,
				 size_t size);
void             sim_change_add(struct sim_disk *d, struct inode *i,
				enum change_kind kind, size_t at, const void *data,
				size_t size);
struct entry    *sim_entry_of(struct entry *list, const char *path);
void             sim_entry_change(struct sim_disk *d, const char *path,
				  const char *from, struct inode *i);
size_t           sim_folder_length(const char *path);
bool             sim_is_in(const char *path, const char *folder);
/* Stores the changes before end. */
void             sim_file_store(struct inode *i, uint64_t end);
/* Stores some of them, and drops the others. */
int              sim_file_drop(struct inode *i, uint64_t end);
void             sim_folder_store(struct sim_disk *d, const char *path,
				  uint64_t end);

/* swalk.c: from a path to an entry. */

/* What a walk may do. */
enum { FOLLOW = 1, /* a link that is the last part */
       MAY_END = 2, /* with a slash, even if the last part is no folder */
       CREATES = 32, /* a file, so not with a slash */
       BENEATH = 4, NO_LINKS = 8, /* of openat2() */
       STAYS = 16 /* at a link that is the last part, even with a slash */ };

/* The last part of a path. */
enum last { LAST_NAME, LAST_DOT, LAST_UP, LAST_ROOT };

enum last        sim_last_part(const char *path);
int              sim_parent_check(struct sim_boot *b, const char *path);
int              sim_walk(struct sim_disk *d, const char *start, const char *path,
			  int how, char to[PATH_ROOM], struct entry **y);
int              sim_look(struct sim_boot *b, const char *path, char to[PATH_ROOM],
			  struct entry **y);
int              sim_entry_find(struct sim_boot *b, const char *path,
				char to[PATH_ROOM], struct entry **y);
int              sim_target_find(struct sim_boot *b, const char *path,
				 char to[PATH_ROOM], struct entry **y);

/* spath.c: calls by path. */

unsigned         sim_mode_of(const struct inode *i);
unsigned         sim_permitted(const struct sim_boot *b, mode_t mode);

/* smap.c: files in memory. */

void             sim_check_mappings(const struct inode *i);

#endif /* SDISK_H */
