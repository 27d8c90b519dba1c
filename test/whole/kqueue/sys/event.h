/* SPDX-License-Identifier: MIT */
/* event.h: a stand-in for kqueue(2), over epoll, so that lib/io/kqueue.h can run. */

#ifndef KQUEUE_STANDIN_H
#define KQUEUE_STANDIN_H

/*
 * Only what lib/io/kqueue.h uses. A queue is an epoll descriptor. What epoll does
 * not keep is in a table: which filters each number has in each queue. A number
 * that epoll has forgotten, since its file was closed, has none. The state is
 * that of the process, under a lock. A filter that lib/io/kqueue.h has not armed
 * with EV_CLEAR ends the program, since epoll is edge-triggered here.
 *
 * Other than kqueue: a file of which another number is open is not forgotten
 * when one is closed, and each direction of a pipe has both filters.
 */

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define EVFILT_READ	(-1)
#define EVFILT_WRITE	(-2)
#define EVFILT_EXCEPT	(-15)
#define NOTE_OOB	2
#define EV_ADD		1
#define EV_DELETE	2
#define EV_ENABLE	4
#define EV_DISABLE	8
#define EV_CLEAR	32
#define EV_EOF		0x8000

struct kevent {
	uintptr_t      ident;
	short          filter;
	unsigned short flags;
	unsigned       fflags;
	intptr_t       data;
	void          *udata;
};

#define EV_SET(k, i, f, fl, ff, d, u)					\
	(*(k) = (struct kevent){ .ident = (i), .filter = (short)(f),	\
		.flags = (unsigned short)(fl), .fflags = (ff),		\
		.data = (d), .udata = (u) })

enum { KQ_READ, KQ_WRITE, KQ_EXCEPT, KQ_FILTERS };
enum { KQ_QUEUES = 4096, KQ_NUMBERS = 1 << 16 };

/*
 * The filters of a number. 0: absent; 1: disabled; 2: enabled. epoll goes on with
 * the file that was there before, if that has another number, so the serial
 * tells them apart.
 */
struct kq_number {
	unsigned n_serial;
	char  n_state[KQ_FILTERS];
	void *n_udata[KQ_FILTERS];
};

static struct kq_number *kq_table[KQ_QUEUES];	/* by queue, then number */
static pthread_mutex_t   kq_lock = PTHREAD_MUTEX_INITIALIZER;

static int kqueue(void)
{
	int kq = epoll_create1(0);

	if (kq < 0 || kq >= KQ_QUEUES)
		return kq < 0 ? -1 : (close(kq), errno = EMFILE, -1);
	pthread_mutex_lock(&kq_lock);
	free(kq_table[kq]);
	kq_table[kq] = calloc(KQ_NUMBERS, sizeof *kq_table[kq]);
	pthread_mutex_unlock(&kq_lock);
	if (kq_table[kq] == NULL)
		return close(kq), errno = ENOMEM, -1;
	return kq;
}

static int kq_filter(int filter)
{
	return filter == EVFILT_READ ? KQ_READ :
		filter == EVFILT_WRITE ? KQ_WRITE : KQ_EXCEPT;
}

/* Tells epoll what n asks for. op: EPOLL_CTL_ADD or _MOD. 0, or an errno. */
static int kq_tell(int kq, int fd, int op, const struct kq_number *n)
{
	struct epoll_event e = { .events = EPOLLET | EPOLLRDHUP, .data.u64 =
				 (uint64_t)n->n_serial << 32 | (unsigned)fd };

	if (n->n_state[KQ_READ] == 2)
		e.events |= EPOLLIN;
	if (n->n_state[KQ_WRITE] == 2)
		e.events |= EPOLLOUT;
	if (n->n_state[KQ_EXCEPT] == 2)
		e.events |= EPOLLPRI;
	return epoll_ctl(kq, op, fd, &e) == 0 ? 0 : errno;
}

/* Makes a change. 0, or an errno. Under the lock. */
static int kq_change(int kq, const struct kevent *k)
{
	int fd = (int)k->ident, f = kq_filter(k->filter);
	struct kq_number was, *n;
	bool known;

	if (!(k->flags & EV_CLEAR))
		abort();
	if (fd < 0 || fd >= KQ_NUMBERS)
		return EBADF;
	n = &kq_table[kq][fd];
	known = kq_tell(kq, fd, EPOLL_CTL_MOD, n) == 0;
	if (!known)
		*n = (struct kq_number){ n->n_serial + 1, { 0 }, { NULL } };
	was = *n;
	if (n->n_state[f] == 0 && !(k->flags & EV_ADD))
		return fcntl(fd, F_GETFD) < 0 ? EBADF : ENOENT;
	n->n_udata[f] = k->udata;
	n->n_state[f] = k->flags & EV_DELETE ? 0 :
		k->flags & EV_DISABLE ? 1 : 2;
	f = kq_tell(kq, fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, n);
	if (f != 0)
		*n = was;
	return f;
}

/* Reports filter f of e's number, if it is enabled and e says so. */
static int kq_report(struct kevent *k, const struct epoll_event *e,
		     const struct kq_number *n, int f)
{
	static const short filter[] = { EVFILT_READ, EVFILT_WRITE,
					EVFILT_EXCEPT };
	static const unsigned when[] = { EPOLLIN | EPOLLRDHUP, EPOLLOUT,
					 EPOLLPRI };
	unsigned any = EPOLLHUP | EPOLLERR;
	unsigned end = f == KQ_READ ? any | EPOLLRDHUP : any;

	if (n->n_state[f] != 2 || n->n_serial != e->data.u64 >> 32 ||
	    !(e->events & (when[f] | any)))
		return 0;
	EV_SET(k, (uintptr_t)(unsigned)e->data.u64, filter[f],
	       EV_CLEAR | (e->events & end ? EV_EOF : 0),
	       e->events & EPOLLERR ? EIO : 0, 0, n->n_udata[f]);
	return 1;
}

static int kevent(int kq, const struct kevent *change, int changes,
		  struct kevent *list, int most, const struct timespec *t)
{
	struct epoll_event event[KQ_FILTERS * 64];
	int ms = t == NULL ? -1 :
		(int)(t->tv_sec * 1000 + (t->tv_nsec + 999999) / 1000000);
	int i, f, rc = 0, nr = 0, events;

	pthread_mutex_lock(&kq_lock);
	for (i = 0; i < changes && rc == 0; i++)
		rc = kq_change(kq, &change[i]);
	pthread_mutex_unlock(&kq_lock);
	if (changes > 0 || most == 0)
		return rc == 0 ? 0 : (errno = rc, -1);
	most = most < KQ_FILTERS * 64 ? most : KQ_FILTERS * 64;
	events = epoll_wait(kq, event, most / KQ_FILTERS > 0 ?
			    most / KQ_FILTERS : 1, ms);
	pthread_mutex_lock(&kq_lock);
	for (i = 0; i < events; i++)
		for (f = 0; f < KQ_FILTERS && nr < most; f++)
			nr += kq_report(&list[nr], &event[i],
					&kq_table[kq][(unsigned)event[i].data.u64], f);
	pthread_mutex_unlock(&kq_lock);
	return events < 0 ? -1 : nr;
}

#endif /* KQUEUE_STANDIN_H */
