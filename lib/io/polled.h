/* SPDX-License-Identifier: MIT */
/* polled.h: events.h by poll(2), for systems without epoll. A part of upoll.c. */

#ifndef UPOLLED_H
#define UPOLLED_H

/*
 * The descriptors that are armed are in v_fd, and v_at tells where, by number.
 * The sleeper polls a copy. Whoever arms another meanwhile writes to v_wake. In
 * poll() a file is open, so whoever is about to close it waits for the sleeper.
 * v_lock protects all but the copy, which belongs to the caller of
 * uevents_wait().
 */

#include "lock.h"
#include "park.h"

#include <sched.h>
#include <stdint.h>
#include <sys/stat.h>

#define UEVENTS_STAY	0

struct uevents_id {
	dev_t i_dev;
	ino_t i_ino;
	uint64_t i_generation;
};

struct uevents {
	int                v_read;
	int                v_wake;
	struct ulock       v_lock;
	bool               v_sleeps;
	unsigned           v_round;	/* odd: in poll() (atomic) */
	struct pollfd     *v_fd;
	struct uevents_id *v_id;	/* which file each of v_fd is */
	int                v_nr;
	int                v_room;
	int               *v_at;	/* place in v_fd, from 1; 0: none */
	int                v_at_nr;
	struct pollfd     *v_copy;
	struct uevents_id *v_copy_id;
	int                v_copy_room;
	int                v_copy_id_room;
};

static inline void uevents_close(struct uevents *v)
{
	upark_bell_close((int[]){ v->v_read, v->v_wake });
}

static inline int uevents_fd(const struct uevents *v)
{
	(void)v;
	return -ENOTSUP;
}

static inline void uevents_fini(struct uevents *v)
{
	uevents_close(v);
	free(v->v_fd);
	free(v->v_id);
	free(v->v_at);
	free(v->v_copy);
	free(v->v_copy_id);
}

static inline int uevents_init(struct uevents *v)
{
	int fd[2] = { -1, -1 };
	int rc;

	memset(v, 0, sizeof *v);
	rc = upark_bell(fd);
	v->v_read = fd[0];
	v->v_wake = fd[1];
	return rc;
}

/* Makes room for nr elements of size bytes. False: no memory. */
static inline bool uevents_grow(void *at, int *room, int nr, size_t size)
{
	void **list = at;
	int more = *room;
	void *grown;

	while (more < nr)
		more = more > 0 ? more * 2 : 64;
	if (more == *room)
		return true;
	grown = calloc(more, size);
	if (grown == NULL)
		return false;
	if (*room > 0)
		memcpy(grown, *list, *room * size);
	free(*list);
	*list = grown;
	*room = more;
	return true;
}

static inline bool uevents_room(struct uevents *v, int fd)
{
	int room = v->v_room;

	return uevents_grow(&v->v_at, &v->v_at_nr, fd + 1, sizeof *v->v_at) &&
	       uevents_grow(&v->v_id, &room, v->v_nr + 1, sizeof *v->v_id) &&
	       uevents_grow(&v->v_fd, &v->v_room, v->v_nr + 1,
			    sizeof *v->v_fd);
}

/*
 * Arms fd, which is file id. As uevents_arm(); 1 only if another file was armed.
 * Caller holds v_lock.
 */
static inline int uevents_put(struct uevents *v, int fd, int mask,
			      struct uevents_id id)
{
	struct uevents_id *was;
	bool armed;
	int rc;

	if (!uevents_room(v, fd))
		return -ENOMEM;
	armed = v->v_at[fd] != 0;
	if (!armed)
		v->v_at[fd] = ++v->v_nr;
	was = &v->v_id[v->v_at[fd] - 1];
	rc  = armed && (was->i_ino != id.i_ino || was->i_dev != id.i_dev);
	*was = id;
	v->v_fd[v->v_at[fd] - 1] = (struct pollfd){ .fd = fd,
		.events = uevents_poll(mask) };
	if (v->v_sleeps)
		upark_write(v->v_wake);
	v->v_sleeps = false;
	return rc;
}

static inline int uevents_arm(struct uevents *v, int fd, int mask,
			      uint64_t generation)
{
	struct stat st;
	int rc;

	if (fstat(fd, &st) != 0)
		return -errno;
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
		return -EPERM;
	ulock_get(&v->v_lock);
	rc = uevents_put(v, fd, mask,
			 (struct uevents_id){ st.st_dev, st.st_ino, generation });
	ulock_put(&v->v_lock);
	return rc;
}

/*
 * Copies what is armed, and sets *all to whether there was memory for all of it.
 * Returns how many; v_read is first.
 */
static inline int uevents_copy(struct uevents *v, bool sleeps, bool *all)
{
	int nr;

	ulock_get(&v->v_lock);
	nr = v->v_nr;
	*all = uevents_grow(&v->v_copy_id, &v->v_copy_id_room, nr + 1,
			    sizeof *v->v_copy_id) &&
	       uevents_grow(&v->v_copy, &v->v_copy_room, nr + 1,
			    sizeof *v->v_copy);
	if (!*all)
		nr = v->v_copy_room - 1;
	if (nr >= 0) {
		v->v_copy[0] = (struct pollfd){ v->v_read, POLLIN, 0 };
		memcpy(v->v_copy + 1, v->v_fd, nr * sizeof *v->v_fd);
		memcpy(v->v_copy_id + 1, v->v_id, nr * sizeof *v->v_id);
	}
	v->v_sleeps = sleeps;
	__atomic_add_fetch(&v->v_round, 1, __ATOMIC_SEQ_CST);
	ulock_put(&v->v_lock);
	return nr + 1;
}

/* Takes fd out, if it is still armed by the arming *generation; NULL: by any. */
static inline bool uevents_take(struct uevents *v, int fd,
				const uint64_t *generation)
{
	int at;

	ulock_get(&v->v_lock);
	at = fd < v->v_at_nr ? v->v_at[fd] : 0;
	if (at != 0 && generation != NULL &&
	    v->v_id[at - 1].i_generation != *generation)
		at = 0;
	if (at != 0) {
		v->v_fd[at - 1] = v->v_fd[--v->v_nr];
		v->v_id[at - 1] = v->v_id[v->v_nr];
		v->v_at[v->v_fd[at - 1].fd] = at;
		v->v_at[fd] = 0;
	}
	ulock_put(&v->v_lock);
	return at != 0;
}

static inline void uevents_disarm(struct uevents *v, int fd)
{
	unsigned round;

	if (!uevents_take(v, fd, NULL))
		return;
	round = __atomic_load_n(&v->v_round, __ATOMIC_SEQ_CST);
	if (round % 2 == 0)
		return;
	upark_write(v->v_wake);
	while (__atomic_load_n(&v->v_round, __ATOMIC_SEQ_CST) == round)
		sched_yield();
}

/* Returns what to report of fd, which was armed for the file id. */
static inline int uevents_mask(int fd, struct uevents_id id, int is)
{
	int any = POLLHUP | POLLERR | POLLNVAL;
	struct stat st;

	if (fstat(fd, &st) != 0 || st.st_ino != id.i_ino ||
	    st.st_dev != id.i_dev)
		return UEVENTS_OTHER;
	return (is & (POLLIN | POLLPRI | any) ? UREAD : 0) |
	       (is & (POLLOUT | any) ? UWRITE : 0);
}

static inline int uevents_wait(struct uevents *v, int most, utime_ns ns,
			       void (*event)(void *arg, int fd, int mask,
					     uint64_t generation),
			       void *arg)
{
	bool all;
	int nr = uevents_copy(v, ns != 0, &all);
	char drop[64];
	int reported = 0;
	int left;
	int i;

	/* What was not copied is looked at soon. */
	left = poll(v->v_copy, nr, all || ns == 0 ? uevents_ms(ns) : 1);
	__atomic_add_fetch(&v->v_round, 1, __ATOMIC_SEQ_CST);
	if (left > 0 && v->v_copy[0].revents != 0) {
		while (read(v->v_read, drop, sizeof drop) == sizeof drop)
			;
		left--;
	}
	for (i = 1; i < nr && left > 0 && reported < most; i++) {
		int is = v->v_copy[i].revents;
		int fd = v->v_copy[i].fd;

		if (is == 0)
			continue;
		left--;
		if (!uevents_take(v, fd, &v->v_copy_id[i].i_generation))
			continue;
		event(arg, fd, uevents_mask(fd, v->v_copy_id[i], is),
		      v->v_copy_id[i].i_generation);
		reported++;
	}
	return reported;
}

#endif /* UPOLLED_H */
