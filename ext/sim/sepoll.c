/* SPDX-License-Identifier: MIT */
/* sepoll.c: epoll, of files and of other epolls. */

/*
 * An epoll is a file, with a list of items: the files that it asks, by descriptor. A
 * wait looks at all items. sim_changed() wakes it, as any wait for several files.
 *
 * An edge is a change since the last report. sim_changed() counts what came from
 * outside: inputs, which are bytes, connections and ends, and room to write. A read or
 * a write by the host itself is no change.
 *
 * An epoll may ask another. That is readable while an item of it would be reported, and
 * has an edge when a file of it has one. Rings are refused, and so are more than NESTS
 * steps from an epoll to the last: ELOOP. Edges go up only in boots that have nested
 * epolls (b_nested). An item that asks for nothing, and so is told of ends alone, sends
 * no other edges up, nor does a change of an item that is ready already.
 *
 * An epoll tells its askers of EPOLLIN, though it has EPOLLRDNORM, too. An item that
 * asks for that alone hears nothing, but of what was there when it was changed.
 *
 * By EPOLLEXCLUSIVE Linux wakes one waiter or more. Here it wakes all. EPOLLWAKEUP does
 * nothing, as on a machine that never sleeps.
 */

#include "sim.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define ALWAYS		(EPOLLERR | EPOLLHUP)
#define OUTPUTS		(EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND)
#define ONLY_ONE	(1u << 28)	/* EPOLLEXCLUSIVE */
#define AWAKE		(1u << 29)	/* EPOLLWAKEUP */
#define WAYS		(EPOLLET | EPOLLONESHOT | ONLY_ONE | AWAKE)	/* no bits of a file */
#define WITH_ONLY_ONE	(EPOLLIN | EPOLLOUT | ALWAYS | EPOLLET | ONLY_ONE | AWAKE)
#define NESTS		4

struct item {
	struct item     *t_next;
	struct sim_file *t_file;
	int              t_fd;
	uint32_t         t_events;	/* 0: it was one shot */
	epoll_data_t     t_data;
	bool             t_is_new;	/* not reported since it was changed */
	bool             t_is_epoll;
	bool             t_is_deaf;	/* an epoll that wakes it only at a change */
	bool             t_was_ready;	/* if it is deaf: since then */
	unsigned         t_inputs, t_rooms;	/* at the last report */
};

struct epoll {
	struct sim_file l_file;		/* first */
	struct item    *l_items;
};

static bool asks_inputs(const struct item *t)
{
	return t->t_events & ~(WAYS | OUTPUTS | ALWAYS) || !(t->t_events & OUTPUTS);
}

/* Returns whether what the item asks for has changed since its report. */
static bool is_edge(const struct item *t)
{
	const struct sim_file *f = t->t_file;

	return t->t_is_new || (asks_inputs(t) && t->t_inputs != f->f_inputs) ||
		(t->t_events & OUTPUTS && t->t_rooms != f->f_rooms);
}

/* Returns the bits that a report would have. */
static uint32_t item_bits(const struct item *t)
{
	struct sim_file *f = t->t_file;

	if (t->t_events == 0 || (t->t_events & EPOLLET && !is_edge(t)) ||
	    (t->t_is_deaf && !t->t_was_ready))
		return 0;
	return (uint32_t)f->f_ops->o_poll(f) & (t->t_events & ~WAYS);
}

static int epoll_poll(struct sim_file *f)
{
	const struct item *t;

	for (t = ((struct epoll *)f)->l_items; t != NULL; t = t->t_next)
		if (item_bits(t) != 0)
			return POLLIN | POLLRDNORM;
	return 0;
}

/* Takes an item out of a list. */
static void item_out(struct sim_boot *b, struct item **at)
{
	struct item *t = *at;

	*at = t->t_next;
	b->b_nested -= t->t_is_epoll;
	free(t);
}

static void epoll_close(struct sim_file *f)
{
	struct epoll *l = (struct epoll *)f;

	while (l->l_items != NULL)
		item_out(f->f_boot, &l->l_items);
	free(l);
}

static const struct sim_file_ops epoll_ops = {
	"epoll", NULL, NULL, epoll_poll, epoll_close, epoll_close, false, NULL
};

bool sim_is_epoll(const struct sim_file *f)
{
	return f->f_ops == &epoll_ops;
}

int sim_epoll(struct sim_boot *b, int flags)
{
	return sim_fd(b, sim_file_make(b, &epoll_ops, sizeof(struct epoll),
				       flags | O_RDWR));
}

static struct item **item_of(struct epoll *l, const struct sim_file *f, int fd)
{
	struct item **at = &l->l_items;

	while (*at != NULL && ((*at)->t_file != f || (*at)->t_fd != fd))
		at = &(*at)->t_next;
	return at;
}

/* Returns the epoll of a descriptor, or NULL. */
static struct epoll *epoll_at(struct sim_boot *b, int fd)
{
	struct sim_file *f = b->b_fds[fd];

	return f != NULL && sim_is_epoll(f) ? (struct epoll *)f : NULL;
}

/* Takes f, which is being closed, out of all epolls of its boot. */
void sim_epoll_forget(struct sim_file *f)
{
	struct sim_boot *b = f->f_boot;
	struct item **at;
	struct epoll *l;
	int fd;

	for (fd = 0; fd < b->b_fd_end; fd++) {
		l = epoll_at(b, fd);
		if (l == NULL)
			continue;
		for (at = &l->l_items; *at != NULL; )
			if ((*at)->t_file == f)
				item_out(b, at);
			else
				at = &(*at)->t_next;
	}
}

/* Nested epolls. */

/*
 * Returns whether an item is told of a change. An item that asks for no bytes is told of
 * an end only, and hears nothing of an epoll, which has none.
 */
static bool hears(const struct item *t, int bits)
{
	if (t->t_events == 0)
		return false;
	if (bits != POLLIN && t->t_events & OUTPUTS)
		return true;
	return bits != POLLOUT && asks_inputs(t) &&
		(t->t_events & (EPOLLIN | EPOLLRDNORM) ||
		 (uint32_t)t->t_file->f_ops->o_poll(t->t_file) & t->t_events & ~(WAYS | OUTPUTS));
}

/* Counts an edge of f in the epolls that ask it, and in those that ask these. */
void sim_epoll_edge(struct sim_file *f, int bits)
{
	struct sim_boot *b = f->f_boot;
	const struct item *t;
	struct epoll *l;
	int fd;

	for (fd = 0; fd < b->b_fd_end; fd++) {
		l = epoll_at(b, fd);
		for (t = l == NULL ? NULL : l->l_items; t != NULL; t = t->t_next)
			if (t->t_file == f && hears(t, bits)) {
				l->l_file.f_inputs++;
				sim_epoll_edge(&l->l_file, POLLIN);
			}
	}
}

/* Returns the steps down from l to the last epoll; INT_MAX: they lead to `end`. */
static int steps_down(const struct epoll *l, const struct epoll *end)
{
	const struct item *t;
	int most = 0, steps;

	if (l == end)
		return INT_MAX;
	for (t = l->l_items; t != NULL; t = t->t_next) {
		if (!t->t_is_epoll)
			continue;
		steps = steps_down((struct epoll *)t->t_file, end);
		if (steps == INT_MAX)
			return steps;
		most = steps + 1 > most ? steps + 1 : most;
	}
	return most;
}

/* Returns the steps up from l to the epoll that no other asks. */
static int steps_up(struct sim_boot *b, const struct epoll *l)
{
	const struct item *t;
	const struct epoll *m;
	int most = 0, fd, steps;

	for (fd = 0; fd < b->b_fd_end; fd++) {
		m = epoll_at(b, fd);
		for (t = m == NULL ? NULL : m->l_items; t != NULL; t = t->t_next)
			if (t->t_file == &l->l_file) {
				steps = steps_up(b, m) + 1;
				most = steps > most ? steps : most;
			}
	}
	return most;
}

/* Returns whether l may not ask `to`. */
static bool is_loop(struct sim_boot *b, const struct epoll *l, const struct epoll *to)
{
	int down = steps_down(to, l);

	return down > NESTS || down + 1 + steps_up(b, l) > NESTS;
}

/* Changes. */

/* A change wakes who waits, if there is something to report, and was nothing before. */
static void item_set(struct epoll *l, struct item *t, const struct epoll_event *e)
{
	bool was_ready = item_bits(t) != 0;

	t->t_events = e->events | ALWAYS;
	t->t_data   = e->data;
	t->t_is_new = true;
	t->t_is_deaf = t->t_is_epoll && !(e->events & EPOLLIN);
	t->t_was_ready = true;
	t->t_was_ready = item_bits(t) != 0;
	if (t->t_was_ready && !was_ready)
		sim_changed(&l->l_file, POLLIN);
}

static int item_add(struct sim_boot *b, struct epoll *l, struct sim_file *f, int fd,
		    const struct epoll_event *e)
{
	struct item **at = item_of(l, f, fd), *t;

	if (*at != NULL)
		return -EEXIST;
	t = sim_alloc(sizeof *t);
	t->t_file = f;
	t->t_fd = fd;
	t->t_is_epoll = sim_is_epoll(f);
	b->b_nested += t->t_is_epoll;
	*at = t;
	item_set(l, t, e);
	return 0;
}

/* Returns the error of EPOLLEXCLUSIVE, or 0. */
static int check_only_one(int op, const struct sim_file *f, uint32_t events)
{
	return events & ONLY_ONE &&
		(op == EPOLL_CTL_MOD || (op == EPOLL_CTL_ADD &&
		 (sim_is_epoll(f) || events & ~WITH_ONLY_ONE))) ? -EINVAL : 0;
}

static int change(struct sim_boot *b, struct epoll *l, int op, struct sim_file *f,
		  int fd, const struct epoll_event *e)
{
	struct item **at = item_of(l, f, fd);

	if (op == EPOLL_CTL_ADD)
		return sim_is_epoll(f) && is_loop(b, l, (struct epoll *)f) ? -ELOOP :
			item_add(b, l, f, fd, e);
	if (op != EPOLL_CTL_MOD && op != EPOLL_CTL_DEL)
		return -EINVAL;
	if (*at == NULL)
		return -ENOENT;
	if (op == EPOLL_CTL_DEL)
		item_out(b, at);
	else if ((*at)->t_events & ONLY_ONE)
		return -EINVAL;
	else
		item_set(l, *at, e);
	return 0;
}

int sim_epoll_change(struct sim_boot *b, int epfd, int op, int fd,
		     const struct epoll_event *e)
{
	struct sim_file *l = sim_file(b, epfd), *f = sim_file(b, fd);
	int rc;

	if (op != EPOLL_CTL_DEL && e == NULL)
		return -EFAULT;
	if (l == NULL || f == NULL)
		return -EBADF;
	if (sim_never_waits(f))
		return -EPERM;
	if (!sim_is_epoll(l) || f == l)
		return -EINVAL;
	rc = op == EPOLL_CTL_DEL ? 0 : check_only_one(op, f, e->events);
	return rc != 0 ? rc : change(b, (struct epoll *)l, op, f, fd, e);
}

/* Items that were reported go to the end, so that all get their turn. */
static int epoll_look(struct epoll *l, struct epoll_event *e, int nr)
{
	struct item **at = &l->l_items, *t, *reported = NULL, **end = &reported;
	int ready = 0;
	uint32_t bits;

	while ((t = *at) != NULL) {
		bits = ready < nr ? item_bits(t) : 0;
		t->t_was_ready &= ready == nr || (bits != 0 && !(t->t_events & EPOLLET));
		if (bits == 0) {
			at = &t->t_next;
			continue;
		}
		e[ready++] = (struct epoll_event) { bits, t->t_data };
		t->t_is_new = false;
		t->t_inputs = t->t_file->f_inputs;
		t->t_rooms  = t->t_file->f_rooms;
		if (t->t_events & EPOLLONESHOT)
			t->t_events = 0;
		*at = t->t_next;
		*end = t;
		end = &t->t_next;
	}
	*end = NULL;
	*at = reported;
	return ready;
}

int sim_epoll_wait(struct sim_boot *b, int epfd, struct epoll_event *e, int nr,
		   utime_ns until)
{
	struct sim_file *f;
	int ready, rc;

	for (;;) {
		f = sim_file(b, epfd);
		if (f == NULL)
			return -EBADF;
		if (!sim_is_epoll(f) || nr <= 0 || nr > INT_MAX / (int)sizeof *e)
			return -EINVAL;
		if (e == NULL && epoll_poll(f) != 0)
			return -EFAULT;
		ready = epoll_look((struct epoll *)f, e, nr);
		if (ready != 0)
			return ready;
		if (until <= sim_now()) {
			if (!sim_spins())
				return 0;
			continue;
		}
		if (sim_signals_pend(b)) {	/* an ignored one ends it, too */
			(void)sim_signals_handle(b);
			return -EINTR;
		}
		rc = sim_wait(b, NULL, until);
		if (rc != 0 && rc != -ETIMEDOUT)
			return rc == -ERESTART ? -EINTR : rc;
	}
}
