/* SPDX-License-Identifier: MIT */
/* sopen.c: files of a disk that are open. */

/*
 * An open file has its inode, its place, and the path as it was opened. The inode
 * outlives its name: nothing is freed before the process of the run ends. A write
 * changes what is seen, and adds a change that is not stored. A sync waits, and then
 * stores what was changed before it began (sdisk D5).
 *
 * A file that is opened by O_PATH has its inode and a descriptor, and sim_file() does not
 * find it: only the calls that ask for sim_file_any() do. How far a file was filled is
 * known (x_filled), so there may be a hole at its end.
 *
 * Locks of flock() belong to the open file, so a crash and the last close() end them.
 * Files that are on their way in a message hold none.
 */

#define _GNU_SOURCE		/* O_TMPFILE, O_NOATIME, O_DIRECT */
#include "sdisk.h"

#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#define SYNC_MIN	(50 * UTIME_US)
#define FILE_MOST	((off_t)1 << 32)

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
	struct disk_file *m = sim_file_make(b, &disk_ops, sizeof *m + strlen(path) + 1,
				flags & ~(O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC));

	m->m_disk = b->b_host->h_disk;
	m->m_inode = i;
	m->m_file.f_is_path = flags & SIM_O_PATH;
	strcpy(m->m_path, path);
	return sim_fd(b, &m->m_file);
}

/* Returns the error that open() has for an entry; 0: it may be opened. */
static int refuses(const struct entry *y, int flags)
{
	const struct inode *i = y->y_inode;
	bool writes = (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);

	if (flags & O_CREAT && flags & O_EXCL)
		return -EEXIST;
	if (!i->i_is_dir && flags & O_DIRECTORY)
		return -ENOTDIR;
	if (flags & SIM_O_PATH)
		return 0;
	if (i->i_target != NULL)
		return -ELOOP;
	if (i->i_is_dir && writes)
		return -EISDIR;
	return i->i_is_socket ? -ENXIO : 0;
}

int sim_open_flags(int flags, int *rc)
{
	flags &= O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK |
		O_SYNC | O_ASYNC | O_DIRECT | O_DIRECTORY | O_NOFOLLOW | O_NOATIME |
		O_CLOEXEC | O_TMPFILE | SIM_O_PATH;
	if (flags & SIM_O_PATH)
		flags &= O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | SIM_O_PATH;
	if ((flags & O_TMPFILE) == O_TMPFILE)
		usim_fail("open() with O_TMPFILE is not simulated");
	*rc = flags & O_CREAT && flags & O_DIRECTORY ? -EINVAL : 0;
	return flags;
}

static int open_from(struct sim_boot *b, const char *start, const char *name,
		     int flags, mode_t mode, int how)
{
	struct sim_disk *d = b->b_host->h_disk;
	char path[PATH_ROOM];
	struct entry *y;
	struct inode *i;
	bool creates;
	int rc;

	flags = sim_open_flags(flags, &rc);
	if (rc != 0)
		return rc;
	creates = flags & O_CREAT;
	if (!(flags & O_NOFOLLOW || (creates && flags & O_EXCL)))
		how |= FOLLOW;
	rc = sim_walk(d, start, name, how | (creates ? MAY_END | CREATES : 0), path, &y);
	if (rc == 0 && y != NULL)
		rc = refuses(y, flags);
	if (rc == 0 && y == NULL)
		rc = !creates ? -ENOENT : sim_is_full(b->b_host) ? -ENOSPC : 0;
	if (rc != 0)
		return rc;
	i = y != NULL ? y->y_inode : sim_inode_make(false, sim_permitted(b, mode));
	if (y == NULL)
		sim_entry_change(d, path, "", i);
	if (creates)
		sim_use(b->b_host, USE_WRITE);
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

const char *sim_open_target(struct sim_file *f)
{
	return sim_is_disk(f) ? file_of(f)->m_inode->i_target : NULL;
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

/* Returns what Linux says of a transfer before it looks at the file; 0: nothing. */
static int transfer_check(bool may, size_t size, off_t at)
{
	if (!may)
		return -EBADF;
	if ((ssize_t)size < 0)
		return -EFAULT;
	return at < 0 || (off_t)((size_t)at + size) < 0 ? -EINVAL : 0;
}

bool sim_is_plain(const struct sim_file *f)
{
	return sim_is_disk(f) && !((const struct disk_file *)f)->m_inode->i_is_dir;
}

ssize_t sim_pread(struct sim_file *f, void *buf, size_t size, off_t at)
{
	const struct inode *i = file_of(f)->m_inode;
	struct sim_host *h = f->f_boot->b_host;
	int rc = transfer_check(sim_may_read(f), size, at);
	size_t left;

	if (rc != 0)
		return rc;
	if (i->i_is_dir)
		return -EISDIR;
	if ((size_t)at >= i->i_seen.x_size || size == 0)
		return 0;
	if (buf == NULL)
		return -EFAULT;
	left = i->i_seen.x_size - (size_t)at;
	size = size < left ? size : left;
	memcpy(buf, i->i_seen.x_data + at, size);
	sim_use(h, USE_READ);
	rc = h->h_lies != NULL ? sim_lie_read(h, file_of(f)->m_inode, buf, (size_t)at,
					      size) : 0;
	return rc < 0 ? rc : (ssize_t)size;
}

/* Returns how many bytes a full disk takes, of a write that makes i longer. */
static size_t fits(const struct inode *i, size_t size, size_t at)
{
	size_t there = at < i->i_seen.x_size ? i->i_seen.x_size - at : 0;

	return there > 0 || sim_below(DRAW_DISK, 2) == 0 ? there :
		sim_below(DRAW_DISK, (unsigned)size);
}

static int sync_file(struct sim_file *f);

/* All bytes of a file are in memory, those of a hole, too. */
static void check_length(off_t size)
{
	if (size > FILE_MOST)
		usim_fail("a file of %lld bytes is not simulated", (long long)size);
}

static ssize_t write_file(struct sim_file *f, const void *buf, size_t size, off_t at)
{
	struct disk_file *m = file_of(f);
	struct sim_host *h = f->f_boot->b_host;
	int rc = transfer_check(sim_may_write(f), size, at);

	if (rc != 0 || size == 0)
		return rc;
	if (buf == NULL)
		return -EFAULT;
	check_length((off_t)((size_t)at + size));
	sim_use(h, USE_WRITE);
	if (!sim_step_by(f, AT_DISK))
		return -EBADF;
	if (f->f_flags & O_APPEND)
		at = (off_t)m->m_inode->i_seen.x_size;
	if ((size_t)at + size > m->m_inode->i_seen.x_size &&
	    sim_is_full(h))
		size = fits(m->m_inode, size, (size_t)at);
	if (size == 0)
		return -ENOSPC;
	sim_check_mappings(m->m_inode);
	sim_content_put(&m->m_inode->i_seen, (size_t)at, buf, size);
	sim_change_add(m->m_disk, m->m_inode, BYTES, h->h_lies == NULL ? (size_t)at :
		       sim_lie_write(h, (size_t)at), buf, size);
	sim_hash_bytes(buf, size);
	if (f->f_flags & O_DSYNC)
		rc = sync_file(f);
	sim_step(h, AT_DISK);
	return rc < 0 ? rc : (ssize_t)size;
}

/* A transfer at a place: a device has none. */
static int place_check(struct sim_boot *b, int fd, off_t at)
{
	struct sim_file *f = sim_file(b, fd);

	if (at < 0)
		return -EINVAL;
	return f == NULL ? -EBADF : sim_is_disk(f) || f->f_ops->o_name[0] == '/' ? 0 : -ESPIPE;
}

ssize_t sim_read_at(struct sim_boot *b, int fd, void *buf, size_t size, off_t at)
{
	struct sim_file *f = sim_file(b, fd);
	int rc = place_check(b, fd, at);

	if (rc != 0)
		return rc;
	if (sim_is_disk(f))
		return sim_pread(f, buf, size, at);
	rc = transfer_check(sim_may_read(f), size, at);
	return rc != 0 ? rc : f->f_ops->o_read(f, buf, size, 0);
}

ssize_t sim_write_at(struct sim_boot *b, int fd, const void *buf, size_t size, off_t at)
{
	struct sim_file *f = sim_file(b, fd);
	int rc = place_check(b, fd, at);

	if (rc != 0)
		return rc;
	if (sim_is_disk(f))
		return write_file(f, buf, size, at);
	rc = transfer_check(sim_may_write(f), size, at);
	return rc != 0 ? rc : f->f_ops->o_write(f, buf, size);
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
	off_t at = sim_place(f, f->f_flags & O_APPEND ? SEEK_END : SEEK_CUR);
	ssize_t nr;

	f->f_refs++;		/* it may be closed meanwhile: O_DSYNC */
	nr = write_file(f, buf, size, at);
	m->m_at = nr > 0 ? at + nr : m->m_at;
	sim_drop(f);
	return nr;
}

off_t sim_place(const struct sim_file *f, int whence)
{
	const struct disk_file *m = (const struct disk_file *)f;

	if (!sim_is_disk(f) || whence == SEEK_SET)
		return 0;
	return whence == SEEK_CUR ? m->m_at : (off_t)m->m_inode->i_seen.x_size;
}

/* Holes are known only at the end of a file, as Linux lets a file system do. */
static off_t seek_hole(const struct content *x, off_t at, bool data)
{
	size_t end = x->x_filled < x->x_size ? x->x_filled : x->x_size;

	if (at < 0 || (size_t)at >= x->x_size || (data && (size_t)at >= end))
		return -ENXIO;
	return data || (size_t)at >= end ? at : (off_t)end;
}

off_t sim_seek(struct sim_file *f, off_t at, int whence)
{
	struct disk_file *m = file_of(f);

	if (whence == SEEK_DATA || whence == SEEK_HOLE)
		at = seek_hole(&m->m_inode->i_seen, at, whence == SEEK_DATA);
	else if (whence == SEEK_SET || whence == SEEK_CUR || whence == SEEK_END)
		at = (off_t)((uint64_t)at + (uint64_t)sim_place(f, whence));
	else
		return -EINVAL;
	return (whence > SEEK_END && at < 0) ? at : at < 0 ? -EINVAL : (m->m_at = at);
}

int sim_truncate(struct sim_file *f, off_t size)
{
	struct disk_file *m = file_of(f);

	if (size < 0 || m->m_inode->i_is_dir || !sim_may_write(f))
		return -EINVAL;
	check_length(size);
	if (!sim_step_by(f, AT_DISK))
		return -EBADF;
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

	if (!m->m_inode->i_is_dir)
		sim_use(h, USE_SYNC);
	f->f_refs++;		/* it may be closed meanwhile */
	sim_step(h, AT_DISK);
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
