/* SPDX-License-Identifier: MIT */
/* spath.c: calls that name a file of a disk by its path, and stat(). */

#include "sdisk.h"

#include <unistd.h>

int sim_folder_change(struct sim_boot *b, const char *name)
{
	char path[PATH_ROOM];
	struct entry *y;
	int rc = sim_target_find(b, name, path, &y);

	if (rc == 0 && !y->y_inode->i_is_dir)
		rc = -ENOTDIR;
	if (rc == 0)
		strcpy(b->b_folder, path);
	return rc;
}

/* Returns the error of a rename before the last parts are looked at, or 0. */
static int parents_check(struct sim_boot *b, const char *from, const char *to,
			 bool replaces)
{
	int rc = sim_parent_check(b, from);

	if (rc == 0)
		rc = sim_parent_check(b, to);
	if (rc == 0 && sim_last_part(from) != LAST_NAME)
		rc = -EBUSY;
	if (rc == 0 && sim_last_part(to) != LAST_NAME)
		rc = replaces ? -EBUSY : -EEXIST;
	return rc;
}

int sim_rename(struct sim_boot *b, const char *from, const char *to, bool replaces)
{
	char path[PATH_ROOM], other[PATH_ROOM];
	struct entry *y, *z;
	struct inode *i;
	int rc = parents_check(b, from, to, replaces);

	if (rc == 0)
		rc = sim_look(b, from, path, &y);
	if (rc == 0 && y == NULL)
		rc = -ENOENT;
	if (rc == 0)
		rc = sim_look(b, to, other, &z);
	if (rc == 0 && z != NULL && !replaces)
		rc = -EEXIST;
	if (rc != 0)
		return rc;
	if (y->y_inode->i_is_dir)
		usim_fail("rename() of a folder is not simulated");
	if (sim_folder_length(path) != sim_folder_length(other) ||
	    memcmp(path, other, sim_folder_length(path)) != 0)
		usim_fail("rename() between folders is not simulated");
	if (z != NULL && z->y_inode->i_is_dir)
		return -EISDIR;
	if (z != NULL && z->y_inode == y->y_inode)
		return 0;
	i = y->y_inode;
	sim_step(b->b_host, AT_DISK);
	sim_entry_change(b->b_host->h_disk, other, path, i);
	sim_hash_bytes(other, strlen(other));
	return 0;
}

static bool has_entries(const struct sim_disk *d, const char *folder)
{
	const struct entry *y;

	for (y = d->d_seen; y != NULL; y = y->y_next)
		if (sim_is_in(y->y_path, folder))
			return true;
	return false;
}

/* Returns the error of a last part that is no name, or 0. */
static int last_refused(enum last last, bool dir)
{
	if (last == LAST_NAME)
		return 0;
	if (!dir)
		return -EISDIR;
	return last == LAST_DOT ? -EINVAL : last == LAST_UP ? -ENOTEMPTY : -EBUSY;
}

int sim_unlink(struct sim_boot *b, const char *name, bool dir)
{
	struct sim_disk *d = b->b_host->h_disk;
	char path[PATH_ROOM];
	struct entry *y;
	int rc = sim_look(b, name, path, &y);

	if (rc == 0)
		rc = y == NULL ? -ENOENT : last_refused(sim_last_part(name), dir);
	if (rc != 0)
		return rc;
	if (y->y_inode->i_is_dir != dir)
		return dir ? -ENOTDIR : -EISDIR;
	if (dir && has_entries(d, path))
		return -ENOTEMPTY;
	sim_step(b->b_host, AT_DISK);
	sim_entry_change(d, path, "", NULL);
	sim_hash_bytes(path, strlen(path));
	return 0;
}

int sim_mkdir(struct sim_boot *b, const char *name, mode_t mode)
{
	char path[PATH_ROOM];
	struct entry *y;
	int rc = sim_walk(b->b_host->h_disk, b->b_folder, name, MAY_END, path, &y);

	if (rc != 0 || y != NULL)
		return rc != 0 ? rc : -EEXIST;
	if (sim_is_full(b->b_host))
		return -ENOSPC;
	sim_step(b->b_host, AT_DISK);
	sim_entry_change(b->b_host->h_disk, path, "",
			 sim_inode_make(true, sim_permitted(b, mode & 01777)));
	return 0;
}

/* Not even root may run a file that no user may. */
int sim_access(struct sim_boot *b, const char *name, int how, bool follow)
{
	char path[PATH_ROOM];
	struct entry *y;
	int rc = how & ~(R_OK | W_OK | X_OK) ? -EINVAL :
		(follow ? sim_target_find : sim_entry_find)(b, name, path, &y);

	return rc == 0 && how & X_OK && !y->y_inode->i_is_dir &&
		!(y->y_inode->i_mode & 0111) ? -EACCES : rc;
}

/* Modes. */

unsigned sim_mode_of(const struct inode *i)
{
	return i->i_mode | (i->i_is_dir ? S_IFDIR : i->i_is_socket ? S_IFSOCK :
			    i->i_target != NULL ? S_IFLNK : S_IFREG);
}

/* Returns the mode that a new file has. */
unsigned sim_permitted(const struct sim_boot *b, mode_t mode)
{
	return mode & 07777 & ~b->b_umask;
}

/* Changes a mode, which is seen at once. */
static int mode_set(struct sim_boot *b, struct inode *i, mode_t mode)
{
	struct sim_disk *d = b->b_host->h_disk;

	sim_step(b->b_host, AT_DISK);
	i->i_mode = mode & 07777;
	sim_change_add(d, i, MODE, i->i_mode, NULL, 0);
	sim_hash(i->i_mode);
	return 0;
}

int sim_chmod(struct sim_boot *b, const char *name, mode_t mode, bool follow)
{
	char path[PATH_ROOM];
	struct entry *y;
	int rc = (follow ? sim_target_find : sim_entry_find)(b, name, path, &y);

	if (rc == 0 && y->y_inode->i_target != NULL)
		rc = -EOPNOTSUPP;
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
	int rc = sim_look(b, name, path, &y);

	if (rc == -ENOTDIR && y != NULL)	/* a file, and a slash */
		rc = -EEXIST;
	if (rc != 0)
		return rc;
	return y != NULL ? -EEXIST : sim_is_full(b->b_host) ? -ENOSPC : 0;
}

int sim_symlink(struct sim_boot *b, const char *target, const char *name)
{
	char path[PATH_ROOM];
	int rc = new_find(b, name, path);
	struct inode *i;

	if (rc != 0)
		return rc;
	sim_step(b->b_host, AT_DISK);
	i = sim_inode_make(false, 0777);
	i->i_target = sim_alloc(strlen(target) + 1);
	strcpy(i->i_target, target);
	sim_entry_change(b->b_host->h_disk, path, "", i);
	return 0;
}

const char *sim_link_target(struct sim_boot *b, const char *name, int *rc)
{
	char path[PATH_ROOM];
	struct entry *y;

	*rc = sim_entry_find(b, name, path, &y);
	if (*rc == 0 && y->y_inode->i_target == NULL)
		*rc = -EINVAL;
	return *rc == 0 ? y->y_inode->i_target : NULL;
}

int sim_link(struct sim_boot *b, const char *from, const char *name, bool follow)
{
	char path[PATH_ROOM];
	struct entry *y;
	struct inode *i;
	int rc = (follow ? sim_target_find : sim_entry_find)(b, from, path, &y);

	if (rc != 0)
		return rc;
	i = y->y_inode;
	rc = new_find(b, name, path);
	if (rc == 0 && i->i_is_dir)
		rc = -EPERM;
	if (rc != 0)
		return rc;
	sim_step(b->b_host, AT_DISK);
	sim_entry_change(b->b_host->h_disk, path, "", i);
	return 0;
}

int sim_resolve(struct sim_boot *b, const char *name, char to[PATH_ROOM])
{
	struct entry *y;

	return sim_target_find(b, name, to, &y);
}

int sim_socket_file_make(struct sim_boot *b, const char *name, bool wanted,
			 const void **inode)
{
	char path[PATH_ROOM];
	struct entry *y;
	struct inode *i;
	int rc = sim_look(b, name, path, &y);

	if (rc != 0)
		return rc;
	if (y != NULL)
		return -EADDRINUSE;
	if (!wanted)
		return -EINVAL;
	i = sim_inode_make(false, sim_permitted(b, 0777));
	i->i_is_socket = true;
	sim_entry_change(b->b_host->h_disk, path, "", i);
	*inode = i;
	return 0;
}

int sim_socket_file(struct sim_boot *b, const char *name, const void **inode)
{
	char path[PATH_ROOM];
	struct entry *y;
	int rc = sim_target_find(b, name, path, &y);

	if (rc != 0)
		return rc;
	*inode = y->y_inode;
	return y->y_inode->i_is_socket ? 0 : -ECONNREFUSED;
}

/* Returns how many names an inode has. A folder has one in itself and in each below. */
static nlink_t names_of(const struct sim_disk *d, const struct inode *i)
{
	const struct entry *y, *own = NULL;
	nlink_t nr = 0;

	for (y = d->d_seen; y != NULL; y = y->y_next)
		if (y->y_inode == i) {
			nr++;
			own = y;
		}
	if (!i->i_is_dir || own == NULL)
		return nr;
	for (y = d->d_seen, nr = 2; y != NULL; y = y->y_next)
		nr += y->y_inode->i_is_dir && sim_is_in(y->y_path, own->y_path);
	return nr;
}

static void stat_put(const struct sim_disk *d, const struct inode *i, struct stat *to)
{
	utime_ns at = i->i_time;

	memset(to, 0, sizeof *to);
	to->st_ino = i->i_number;
	to->st_nlink = names_of(d, i);
	to->st_mode = sim_mode_of(i);
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
	int rc = (follow ? sim_target_find : sim_entry_find)(b, name, path, &y);

	if (rc == 0 && to == NULL)
		rc = -EFAULT;
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
	if (sim_device_stat(NULL, f, to))
		return;
	memset(to, 0, sizeof *to);
	to->st_nlink = 1;
	to->st_blksize = 4096;
	to->st_mode = f->f_ops->o_socket != NULL ? S_IFSOCK | 0777 :
		strcmp(f->f_ops->o_name, "pipe") == 0 ? S_IFIFO | 0600 : 0600;
}
