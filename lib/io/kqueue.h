/* SPDX-License-Identifier: MIT */
/* kqueue.h: events.h by kqueue(2), for macOS and the BSDs. A part of upoll.c. */

#ifndef UKQUEUE_H
#define UKQUEUE_H

/*
 * A descriptor has a filter for each of UREAD and UWRITE, and one for urgent
 * data where there is such a filter. All report edges (EV_CLEAR). What a mask
 * leaves out is disabled, not deleted. A change of a filter looks at once
 * whether it is ready.
 *
 * Filters end when the number is closed, so a filter that is there belongs to
 * the file that was armed before: ENOENT tells that none is. A file that has no
 * filter for a direction (a pipe for the other one) has it always ready, and so
 * has what kqueue does not know. Regular files have filters, but those wait at
 * the end of the file: they count as always ready, too.
 *
 * This was run over a stand-in (test/whole/kqueue/), never over kqueue(2).
 */

#include "park.h"

#include <sys/event.h>
#include <sys/stat.h>

#define UEVENTS_STAY	1
#define UEVENTS_WOKEN	(~(uintptr_t)0)	/* of v_read */

struct uevents {
	int v_kqueue;
	int v_read;
	int v_wake;		/* for wakers, as park.h says */
};

static inline void uevents_close(struct uevents *v)
{
	if (v->v_kqueue >= 0)
		close(v->v_kqueue);
	if (v->v_read >= 0)
		upark_bell_close((int[]){ v->v_read, v->v_wake });
}

static inline int uevents_fd(const struct uevents *v)
{
	return v->v_kqueue;
}

static inline void uevents_fini(struct uevents *v)
{
	uevents_close(v);
}

/* Changes a filter of fd. 0 or -errno. */
static inline int uevents_change(struct uevents *v, int fd, int filter,
				 int flags, uintptr_t data)
{
	struct kevent k;

	EV_SET(&k, (uintptr_t)fd, filter, flags | EV_CLEAR, 0, 0,
	       (__typeof__(k.udata))data);
#if defined(NOTE_OOB)
	if (filter == EVFILT_EXCEPT)
		k.fflags = NOTE_OOB;
#endif
	return kevent(v->v_kqueue, &k, 1, NULL, 0, NULL) == 0 ? 0 : -errno;
}

static inline int uevents_init(struct uevents *v)
{
	int fd[2] = { -1, -1 };
	int rc;

	v->v_kqueue = kqueue();
	if (v->v_kqueue >= 0) {
		(void)fcntl(v->v_kqueue, F_SETFD, FD_CLOEXEC);
		rc = upark_bell(fd);
	} else
		rc = -errno;
	v->v_read = fd[0];
	v->v_wake = fd[1];
	if (rc == 0)
		rc = uevents_change(v, v->v_read, EVFILT_READ, EV_ADD,
				    UEVENTS_WOKEN);
	if (rc != 0)
		uevents_close(v);
	return rc;
}

/* What is known of the filters of a descriptor that is armed. */
struct uevents_armed {
	bool m_was;		/* one was there */
	bool m_is;		/* one is enabled */
	int  m_rc;		/* the error of the last that could not be added */
};

/* Enables a filter of fd, or disables it. */
static inline void uevents_filter(struct uevents *v, int fd, int filter,
				  bool on, uintptr_t data,
				  struct uevents_armed *m)
{
	int rc = uevents_change(v, fd, filter, on ? EV_ENABLE : EV_DISABLE,
				data);

	m->m_was |= rc == 0;
	if (rc == -ENOENT && on)
		rc = uevents_change(v, fd, filter, EV_ADD, data);
	m->m_is |= rc == 0 && on;
	if (rc != 0 && on)
		m->m_rc = rc;
}

static inline bool uevents_is_file(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) ||
				       S_ISDIR(st.st_mode));
}

static inline int uevents_arm(struct uevents *v, int fd, int mask,
			      uint64_t generation)
{
	struct uevents_armed m = { false, false, 0 };
	uintptr_t data = (uintptr_t)generation;

	if (uevents_is_file(fd))
		return -EPERM;
	uevents_filter(v, fd, EVFILT_READ, mask & UREAD, data, &m);
	uevents_filter(v, fd, EVFILT_WRITE, mask & UWRITE, data, &m);
#if defined(NOTE_OOB)
	if (mask & UEVENTS_URGENT)
		uevents_filter(v, fd, EVFILT_EXCEPT, true, data, &m);
#endif
	if (m.m_is)
		return m.m_was ? 0 : 1;
	return m.m_rc == -EBADF || m.m_rc == -ENOMEM ? m.m_rc : -EPERM;
}

static inline void uevents_disarm(struct uevents *v, int fd)
{
	(void)uevents_change(v, fd, EVFILT_READ, EV_DELETE, 0);
	(void)uevents_change(v, fd, EVFILT_WRITE, EV_DELETE, 0);
#if defined(NOTE_OOB)
	(void)uevents_change(v, fd, EVFILT_EXCEPT, EV_DELETE, 0);
#endif
}

/* Returns what to report of k. The end of a filter with an error is of both. */
static inline int uevents_mask(const struct kevent *k)
{
	int mask = k->filter == EVFILT_WRITE ? UWRITE : UREAD;

	if (k->flags & EV_EOF && k->fflags != 0)
		return UREAD | UWRITE | UEVENTS_LAST;
	return k->flags & EV_EOF && mask == UREAD ? UREAD | UEVENTS_LAST : mask;
}

static inline int uevents_wait(struct uevents *v, int most, utime_ns ns,
			       void (*event)(void *arg, int fd, int mask,
					     uint64_t generation),
			       void *arg)
{
	struct timespec t = { ns / UTIME_S, ns % UTIME_S };
	struct kevent list[UEVENTS_MOST];
	int nr = kevent(v->v_kqueue, NULL, 0, list, most,
			ns == UNEVER ? NULL : &t);
	char drop[64];
	int i;

	for (i = 0; i < nr; i++) {
		uintptr_t data = (uintptr_t)list[i].udata;

		if (data != UEVENTS_WOKEN)
			event(arg, (int)list[i].ident, uevents_mask(&list[i]),
			      data);
		else
			while (read(v->v_read, drop, sizeof drop) ==
			       sizeof drop)
				;
	}
	return nr;
}

#endif /* UKQUEUE_H */
