/* SPDX-License-Identifier: MIT */
/* sfile.c: descriptors, waits for files, pipes, poll. */

/*
 * A descriptor is a place in the table of a boot, and points to an open file,
 * as in any kernel. An open file is a socket, an end of a pipe, a file of the
 * disk, an epoll (sepoll.c) and so on. Its operations never wait: they return -EAGAIN, and the
 * thread then waits here, until sim_changed() is called for the file.
 *
 *	rc = f->f_ops->o_read()		-EAGAIN
 *	sim_wait(b, f, until)		a record in b_waits
 *	... again
 *
 * A wait for several files, of poll() or epoll_wait(), has no file in its
 * record, so each change in its host wakes it, and it looks again. Hosts have
 * few threads, so that is cheap, and no list of files is kept for it.
 */

#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define PAGE		4096	/* of a pipe */
#define PAGES		16
#define NAP_LEAST	(50 * UTIME_US)	/* of a sleep for no time: Linux's slack of timers */

/* A thread that waits. */
struct sim_wait {
	struct uwait           v_wait;	/* first */
	struct sim_wait       *v_next;
	const struct sim_file *v_file;	/* NULL: any of its boot */
};

static struct uwait_kind kind[1] = { { .wk_name = "simulated file" } };
static struct uwait_kind sleep_kind[1] = { { .wk_name = "sleep" } };
static struct sim_file nothing;		/* it never changes */

/* Takes w out of the waits of b, if it is there. */
static void wait_out(struct sim_boot *b, const struct sim_wait *w)
{
	struct sim_wait **at;

	for (at = &b->b_waits; *at != NULL; at = &(*at)->v_next)
		if (*at == w) {
			*at = w->v_next;
			return;
		}
}

int sim_wait(struct sim_boot *b, struct sim_file *f, utime_ns until)
{
	int rc = b->b_signals != NULL ? sim_signals_handle(b) : 0;
	struct sim_wait *w;

	if (rc != 0)
		return rc;
	w = uwait_make(f == &nothing ? sleep_kind : kind, f, sizeof *w);
	if (w == NULL)
		return -errno;
	w->v_file = f;
	w->v_next = b->b_waits;
	b->b_waits = w;
	rc = uwait_for(&w->v_wait, until == UNEVER ? UNEVER :
		       until + UTIME_VIRTUAL);
	wait_out(b, w);
	uwait_free(w);
	return rc == -EINTR ? sim_signals_handle(b) : rc;
}

int sim_nap(struct sim_boot *b, utime_ns until)
{
	int rc = 0;

	if (until <= sim_now())
		until = sim_now() + NAP_LEAST;
	while (rc == 0 && until > sim_now())
		rc = sim_wait(b, &nothing, until);
	return rc == -ERESTART ? -EINTR : rc == -ETIMEDOUT ? 0 : rc;
}

bool sim_interrupt(struct sim_boot *b, const void *stack)
{
	struct sim_wait *w = b->b_waits;

	while (w != NULL && w->v_wait.w_stack != stack)
		w = w->v_next;
	if (w == NULL || !uwait_claim(&w->v_wait))
		return false;
	wait_out(b, w);
	uwait_complete(&w->v_wait, -EINTR);
	return true;
}

/* Ends the waits for f, and for any change. */
static void wake(struct sim_boot *b, const struct sim_file *f)
{
	struct sim_wait **at = &b->b_waits, *w;

	while ((w = *at) != NULL) {
		if (w->v_file != NULL && w->v_file != f) {
			at = &w->v_next;
			continue;
		}
		*at = w->v_next;
		if (uwait_claim(&w->v_wait))
			uwait_complete(&w->v_wait, 0);
	}
}

void sim_changed(struct sim_file *f, int bits)
{
	f->f_inputs += bits != POLLOUT;
	f->f_rooms  += bits != POLLIN;
	if (f->f_boot->b_nested > 0)
		sim_epoll_edge(f, bits);
	if (!f->f_boot->b_dead)
		wake(f->f_boot, f);
}

void sim_wake(struct sim_boot *b)
{
	wake(b, NULL);
}

/* Descriptors. */

static void fd_put(struct sim_boot *b, int fd, struct sim_file *f, bool on_exec)
{
	b->b_fds[fd] = f;
	b->b_on_exec[fd] = on_exec;
	f->f_refs++;
	b->b_fd_end = fd < b->b_fd_end ? b->b_fd_end : fd + 1;
}

static int fd_from(struct sim_boot *b, struct sim_file *f, int fd, bool on_exec)
{
	for (; fd < b->b_fd_nr; fd++)
		if (b->b_fds[fd] == NULL) {
			fd_put(b, fd, f, on_exec);
			return fd;
		}
	return -EMFILE;
}

/* Returns a descriptor for f; closes f if there is none. */
int sim_fd(struct sim_boot *b, struct sim_file *f)
{
	int fd = fd_from(b, f, SIM_FIRST, f->f_flags & O_CLOEXEC);

	f->f_flags &= ~O_CLOEXEC;	/* of the descriptor */
	if (fd < 0 && f->f_refs == 0)
		f->f_ops->o_close(f);
	return fd;
}

void *sim_file_make(struct sim_boot *b, const struct sim_file_ops *ops,
		    size_t size, int flags)
{
	struct sim_file *f = sim_alloc(size);

	f->f_ops = ops;
	f->f_boot = b;
	f->f_flags = flags;
	return f;
}

int sim_close(struct sim_boot *b, int fd)
{
	struct sim_file *f = sim_file_any(b, fd);

	if (f == NULL)
		return -EBADF;
	b->b_fds[fd] = NULL;
	sim_drop(f);
	return 0;
}

void sim_drop(struct sim_file *f)
{
	if (--f->f_refs > 0 || f->f_held > 0)
		return;
	if (f->f_boot->b_crashed) {	/* it was in a message */
		f->f_ops->o_crash(f);
		return;
	}
	sim_epoll_forget(f);
	f->f_ops->o_close(f);
}

/*
 * Holds f over the step, which may wait. It is no reference: a crash ends the file all
 * the same, and the caller never returns.
 */
bool sim_step_by(struct sim_file *f, enum sim_step step)
{
	if (sim_armed_nr == 0)
		return true;
	f->f_held++;
	sim_step(f->f_boot->b_host, step);
	f->f_held--;
	if (f->f_refs > 0 || f->f_held > 0)
		return f->f_refs > 0;
	f->f_refs = 1;
	sim_drop(f);
	return false;
}

/* Standard descriptors are not simulated, and a program would see whose they are. */
static void check_standard(const char *call, int fd)
{
	if (fd >= 0 && fd < SIM_FIRST)
		usim_fail("%s() of descriptor %d is not simulated", call, fd);
}

int sim_dup(struct sim_boot *b, int fd, int from, bool on_exec)
{
	struct sim_file *f = sim_file_any(b, fd);

	check_standard("dup", fd);
	if (f == NULL)
		return -EBADF;
	return from < 0 || from >= b->b_fd_nr ? -EINVAL :
		fd_from(b, f, from > SIM_FIRST ? from : SIM_FIRST, on_exec);
}

int sim_dup_to(struct sim_boot *b, int fd, int to, bool on_exec)
{
	struct sim_file *f = sim_file_any(b, fd);

	check_standard("dup2", fd);
	if (f == NULL || to < 0 || to >= b->b_fd_nr)
		return -EBADF;
	check_standard("dup2", to);
	if (to == fd)
		return fd;
	(void)sim_close(b, to);
	fd_put(b, to, f, on_exec);
	return to;
}

/* Bytes. */

void sim_bytes_put(struct sim_bytes *y, const void *data, size_t size)
{
	if (y->y_start > 0 && y->y_start + y->y_size + size > y->y_room) {
		memmove(y->y_data, y->y_data + y->y_start, y->y_size);
		y->y_start = 0;
	}
	if (y->y_size + size > y->y_room) {
		size_t room = (y->y_size + size) * 2;
		char *block = sim_alloc(room);

		if (y->y_size > 0)
			memcpy(block, y->y_data, y->y_size);
		free(y->y_data);
		y->y_data = block;
		y->y_room = room;
	}
	if (size > 0)
		memcpy(y->y_data + y->y_start + y->y_size, data, size);
	y->y_size += size;
}

size_t sim_bytes_get(struct sim_bytes *y, void *data, size_t size, bool peek)
{
	size_t nr = size < y->y_size ? size : y->y_size;

	if (nr > 0 && data != NULL)
		memcpy(data, y->y_data + y->y_start, nr);
	if (!peek) {
		y->y_start += nr;
		y->y_size  -= nr;
	}
	if (y->y_size == 0)
		y->y_start = 0;
	return nr;
}

void sim_bytes_free(struct sim_bytes *y)
{
	free(y->y_data);
	*y = (struct sim_bytes) { NULL, 0, 0, 0 };
}

/*
 * Pipes. An end that is closed is NULL. Room is counted in pages, as by Linux: a
 * write adds to the last page if its odd part has room there, and then takes
 * new pages. So small writes fill a pipe sooner than large ones.
 */

struct page {
	size_t h_end;		/* where it was filled to */
	size_t h_left;		/* bytes that were not read */
};

struct pipe {
	struct sim_bytes i_bytes;
	struct page      i_pages[PAGES];	/* a ring */
	int              i_first, i_nr;
	struct pipe_end *i_reader, *i_writer;
};

struct pipe_end {
	struct sim_file n_file;		/* first */
	struct pipe    *n_pipe;
};

/* Takes size bytes out of the pages. Returns whether a full pipe has room now. */
static bool pages_read(struct pipe *p, size_t size)
{
	bool was_full = p->i_nr == PAGES;
	struct page *h;
	size_t part;

	while (size > 0) {
		h = &p->i_pages[p->i_first];
		part = size < h->h_left ? size : h->h_left;
		h->h_left -= part;
		size -= part;
		if (h->h_left > 0)
			break;
		p->i_first = (p->i_first + 1) % PAGES;
		p->i_nr--;
	}
	return was_full && p->i_nr < PAGES;
}

/* Takes room for size bytes, or fewer. Returns how many. */
static size_t pages_write(struct pipe *p, size_t size)
{
	size_t odd = size % PAGE, done = 0, part;
	struct page *h = &p->i_pages[(p->i_first + p->i_nr + PAGES - 1) % PAGES];

	if (p->i_nr > 0 && odd > 0 && h->h_end + odd <= PAGE) {
		h->h_end  += odd;
		h->h_left += odd;
		done = odd;
	}
	for (; done < size && p->i_nr < PAGES; done += part) {
		part = size - done < PAGE ? size - done : PAGE;
		h = &p->i_pages[(p->i_first + p->i_nr++) % PAGES];
		*h = (struct page) { part, part };
	}
	return done;
}

static ssize_t pipe_read(struct sim_file *f, void *buf, size_t size, int flags)
{
	struct pipe *p = ((struct pipe_end *)f)->n_pipe;
	size_t nr;

	(void)flags;
	if (size == 0)
		return 0;
	if (buf == NULL && p->i_bytes.y_size > 0)
		return -EFAULT;
	nr = sim_bytes_get(&p->i_bytes, buf, size, false);
	if (nr == 0)
		return p->i_writer == NULL ? 0 : -EAGAIN;
	if (pages_read(p, nr) && p->i_writer != NULL)
		sim_changed(&p->i_writer->n_file, POLLOUT);
	return (ssize_t)nr;
}

static ssize_t pipe_write(struct sim_file *f, const void *buf, size_t size)
{
	struct pipe *p = ((struct pipe_end *)f)->n_pipe;

	if (size == 0)
		return 0;
	if (p->i_reader == NULL)
		return -EPIPE;
	if (buf == NULL && p->i_nr < PAGES)
		return -EFAULT;
	size = pages_write(p, size);
	sim_bytes_put(&p->i_bytes, buf, size);
	sim_changed(&p->i_reader->n_file, POLLIN);	/* even if it is full */
	return size == 0 ? -EAGAIN : (ssize_t)size;
}

static int reader_poll(struct sim_file *f)
{
	struct pipe *p = ((struct pipe_end *)f)->n_pipe;

	return (p->i_bytes.y_size > 0 ? POLLIN | POLLRDNORM : 0) |
		(p->i_writer == NULL ? POLLHUP : 0);
}

static int writer_poll(struct sim_file *f)
{
	struct pipe *p = ((struct pipe_end *)f)->n_pipe;

	return (p->i_nr < PAGES ? POLLOUT | POLLWRNORM : 0) |
		(p->i_reader == NULL ? POLLERR : 0);
}

/* The file frees itself, and the pipe with the last end. */
static void pipe_close(struct sim_file *f)
{
	struct pipe_end *n = (struct pipe_end *)f;
	struct pipe *p = n->n_pipe;
	struct pipe_end *other;

	if (p->i_reader == n)
		p->i_reader = NULL;
	else
		p->i_writer = NULL;
	other = p->i_reader != NULL ? p->i_reader : p->i_writer;
	if (other != NULL) {
		sim_changed(&other->n_file, POLLIN | POLLOUT);
	} else {
		sim_bytes_free(&p->i_bytes);
		free(p);
	}
	free(n);
}

static ssize_t no_read(struct sim_file *f, void *buf, size_t size, int flags)
{
	return (void)f, (void)buf, (void)size, (void)flags, -EBADF;
}

static ssize_t no_write(struct sim_file *f, const void *buf, size_t size)
{
	return (void)f, (void)buf, (void)size, -EBADF;
}

static const struct sim_file_ops reader_ops = {
	"pipe", pipe_read, no_write, reader_poll, pipe_close, pipe_close, false, NULL
}, writer_ops = {
	"pipe", no_read, pipe_write, writer_poll, pipe_close, pipe_close, true, NULL
};

/* Counts the bytes in a pipe. False: f is none. */
bool sim_pipe_readable(struct sim_file *f, int *size)
{
	if (f->f_ops != &reader_ops && f->f_ops != &writer_ops)
		return false;
	*size = (int)((struct pipe_end *)f)->n_pipe->i_bytes.y_size;
	return true;
}

int sim_pipe(struct sim_boot *b, int fds[2], int flags)
{
	struct pipe *p = sim_alloc(sizeof *p);
	struct pipe_end *r = sim_file_make(b, &reader_ops, sizeof *r, flags);
	struct pipe_end *w = sim_file_make(b, &writer_ops, sizeof *w,
					   flags | O_WRONLY);

	p->i_reader = r;
	p->i_writer = w;
	r->n_pipe = w->n_pipe = p;
	fds[0] = sim_fd(b, &r->n_file);
	fds[1] = sim_fd(b, &w->n_file);
	if (fds[0] >= 0 && fds[1] >= 0)
		return 0;
	if (fds[0] >= 0)
		(void)sim_close(b, fds[0]);
	return -EMFILE;
}

/* poll(). */

static int poll_look(struct sim_boot *b, struct pollfd *fds, size_t nr)
{
	int ready = 0;
	size_t i;

	for (i = 0; i < nr; i++) {
		struct sim_file *f = sim_file(b, fds[i].fd);
		int asked = fds[i].events | POLLERR | POLLHUP;

		fds[i].revents = 0;
		if (fds[i].fd < 0)
			continue;
		fds[i].revents = f == NULL ? POLLNVAL :
			(short)(f->f_ops->o_poll(f) & asked);
		ready += fds[i].revents != 0;
	}
	return ready;
}

int sim_poll(struct sim_boot *b, struct pollfd *fds, size_t nr, utime_ns until)
{
	int ready, rc;

	if (nr > SIM_FDS)
		return -EINVAL;
	if (fds == NULL && nr > 0)
		return -EFAULT;
	for (;;) {
		ready = poll_look(b, fds, nr);
		if (ready != 0)
			return ready;
		if (until <= sim_now()) {
			if (!sim_spins())
				return 0;
			continue;
		}
		rc = sim_wait(b, NULL, until);
		if (rc != 0 && rc != -ETIMEDOUT)
			return rc == -ERESTART ? -EINTR : rc;
	}
}
