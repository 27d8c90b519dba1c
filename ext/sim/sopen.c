/* SPDX-License-Identifier: MIT */
/* sopen.c: files of a disk that are open. */

/*
 * An open file has its inode, its place, and the path as it was opened. The inode
 * outlives its name: nothing is freed before the process of the run ends. A write
 * changes what is seen, and adds a change that is not stored. A sync waits, and then
 * stores what was changed before it began (sdisk D5).
 *
 * Locks of flock() belong to the open file, so a crash and the last close() end them.
 * Files that are on their way in a message hold none.
 */

#include "sdisk.h"

#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#define SYNC_MIN	(50 * UTIME_US)

static const struct sim_file_ops disk_ops;

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

static int open_it(struct sim_boot *b, const char *path, struct inode *i, int flags)
{
	struct disk_file *m = sim_file_make(b, &disk_ops, sizeof *m, flags);

	m->m_disk = b->b_host->h_disk;
	m->m_inode = i;
	strcpy(m->m_path, path);
	return sim_fd(b, &m->m_file);
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
	rc = sim_walk(d, start, name, how | (creates ? MAY_END : 0), path, &y);
	if (rc == 0 && creates && name[strlen(name) - 1] == '/')
		rc = -EISDIR;
	if (rc == 0 && y != NULL)
		rc = refuses(y, flags);
	if (rc == 0 && y == NULL)
		rc = !creates ? -ENOENT : sim_is_full(b->b_host) ? -ENOSPC : 0;
	if (rc != 0)
		return rc;
	i = y != NULL ? y->y_inode : sim_inode_make(false, sim_permitted(b, mode));
	if (y == NULL)
		sim_entry_change(d, path, "", i);
	if (flags & O_TRUNC && !i->i_is_dir && i->i_seen.x_size > 0) {
		sim_check_mappings(i);
		sim_content_length(&i->i_seen, 0);
		sim_change_add(d, i, LENGTH, 0, NULL, 0);
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
	const struct entry *y = sim_entry_of(m->m_disk->d_seen, m->m_path);

	return y == NULL || y->y_inode != m->m_inode;
}

/* Returns the path of a folder that is open; NULL: it is none. */
const char *sim_folder(struct sim_file *f)
{
	return sim_is_disk(f) && file_of(f)->m_inode->i_is_dir ?
		file_of(f)->m_path : NULL;
}

/* Puts the n-th entry of a folder, from 0 on, to where it points. False: the end. */
bool sim_folder_entry(struct sim_file *f, size_t n, const char **name, ino_t *inode,
		      unsigned *mode)
{
	const struct disk_file *m = file_of(f);
	const struct entry *y;

	for (y = m->m_disk->d_seen; y != NULL && !sim_is_gone(f); y = y->y_next)
		if (sim_is_in(y->y_path, m->m_path) && n-- == 0) {
			*name = strrchr(y->y_path, '/') + 1;
			*inode = y->y_inode->i_number;
			*mode = sim_mode_of(y->y_inode);
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
	sim_check_mappings(m->m_inode);
	sim_content_put(&m->m_inode->i_seen, (size_t)at, buf, size);
	sim_change_add(m->m_disk, m->m_inode, BYTES, (size_t)at, buf, size);
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
	sim_check_mappings(m->m_inode);
	sim_content_length(&m->m_inode->i_seen, (size_t)size);
	sim_change_add(m->m_disk, m->m_inode, LENGTH, (size_t)size, NULL, 0);
	sim_hash((uint64_t)size);
	return 0;
}

static int sync_file(struct sim_file *f)
{
	struct disk_file *m = file_of(f);
	struct sim_host *h = f->f_boot->b_host;
	uint64_t end = m->m_disk->d_number;			/* sdisk D5 */
	int rc = 0;

	sim_step(h, AT_DISK);
	f->f_refs++;		/* it may be closed meanwhile */
	sim_sleep(sim_now() + sim_sync_time(h, sim_length(DRAW_DISK, SYNC_MIN,
						sim_world.w_sync_max)));
	if (m->m_inode->i_is_dir) {
		sim_folder_store(m->m_disk, m->m_path, end);
		sim_file_store(m->m_inode, end);
	} else if (sim_fails_sync(h)) {
		rc = sim_file_drop(m->m_inode, end);
	} else {
		sim_file_store(m->m_inode, end);
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

/* Locks of flock(). */

static bool is_locked(struct sim_file *f, int lock)
{
	struct sim_boot *b = f->f_boot;
	int fd;

	for (fd = 0; fd < b->b_fd_end; fd++) {
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
