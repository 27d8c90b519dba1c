/* SPDX-License-Identifier: MIT */
/* sevent.c: eventfd, timerfd, and devices: /dev/null, /dev/zero, /dev/full, /dev/urandom. */

/*
 * Each is a file that is read and written, as all others are (sfile.c). A timer
 * is armed by one event for each tick. Ticks whose time has passed come at once. An
 * event that is out of date, because the timer was set again or closed, is known by its
 * number. A file that is closed is freed with its last event.
 *
 * Devices are known by their paths, and are in no folder of the disk.
 */

#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/timerfd.h>

#define COUNT_MOST	(UINT64_MAX - 1)
#define ALARM_CLOCK	8	/* CLOCK_REALTIME_ALARM, and then that of boots */

/* eventfd. */

struct counter {
	struct sim_file i_file;		/* first */
	uint64_t        i_count;
	bool            i_by_one;	/* EFD_SEMAPHORE */
};

static ssize_t counter_read(struct sim_file *f, void *buf, size_t size, int flags)
{
	struct counter *i = (struct counter *)f;
	uint64_t nr = i->i_by_one ? 1 : i->i_count;

	(void)flags;
	if (size < sizeof nr)
		return -EINVAL;
	if (i->i_count == 0)
		return -EAGAIN;
	i->i_count -= nr;
	if (buf != NULL)
		memcpy(buf, &nr, sizeof nr);
	sim_changed(f, POLLOUT);
	return buf == NULL ? -EFAULT : (ssize_t)sizeof nr;
}

static ssize_t counter_write(struct sim_file *f, const void *buf, size_t size)
{
	struct counter *i = (struct counter *)f;
	uint64_t nr;

	if (size != sizeof nr)		/* older Linux takes 8 bytes of more */
		return -EINVAL;
	if (buf == NULL)
		return -EFAULT;
	memcpy(&nr, buf, sizeof nr);
	if (nr == UINT64_MAX)
		return -EINVAL;
	if (nr > COUNT_MOST - i->i_count)
		return -EAGAIN;
	i->i_count += nr;
	sim_changed(f, POLLIN);
	return sizeof nr;
}

static int counter_poll(struct sim_file *f)
{
	const struct counter *i = (struct counter *)f;

	return (i->i_count > 0 ? POLLIN : 0) |
		(i->i_count < COUNT_MOST ? POLLOUT : 0);
}

static void file_free(struct sim_file *f)
{
	free(f);
}

static const struct sim_file_ops counter_ops = {
	"eventfd", counter_read, counter_write, counter_poll, file_free,
	file_free, false, NULL
};

int sim_eventfd(struct sim_boot *b, unsigned count, int flags)
{
	struct counter *i;

	if (flags & ~(EFD_SEMAPHORE | EFD_CLOEXEC | EFD_NONBLOCK))
		return -EINVAL;
	i = sim_file_make(b, &counter_ops, sizeof *i,
			  O_RDWR | (flags & (O_NONBLOCK | O_CLOEXEC)));
	i->i_count = count;
	i->i_by_one = flags & EFD_SEMAPHORE;
	return sim_fd(b, &i->i_file);
}

/* timerfd. */

struct timer {
	struct sim_file e_file;		/* first */
	clockid_t       e_clock;
	uint64_t        e_ticks;	/* that were not read */
	utime_ns        e_next;		/* 0: not armed */
	utime_ns        e_interval;
	uint64_t        e_number;	/* of the event that is not out of date */
	long            e_events;
	bool            e_closed;
};

struct tick {
	struct timer *k_timer;
	uint64_t      k_number;
};

static void timer_arm(struct timer *t);

static void timer_tick(void *arg)
{
	struct tick k = *(struct tick *)arg;
	struct timer *t = k.k_timer;

	free(arg);
	if (--t->e_events == 0 && t->e_closed) {
		free(t);
		return;
	}
	if (t->e_closed || k.k_number != t->e_number || t->e_file.f_boot->b_dead)
		return;
	t->e_ticks++;
	t->e_next = t->e_interval == 0 ? 0 : t->e_next - sim_now() +
		sim_after(t->e_file.f_boot->b_host, t->e_interval);
	timer_arm(t);
	sim_changed(&t->e_file, POLLIN);
}

static void timer_arm(struct timer *t)
{
	struct tick *k;

	t->e_number++;
	if (t->e_next == 0)
		return;
	k = sim_alloc(sizeof *k);
	*k = (struct tick) { t, t->e_number };
	t->e_events++;
	sim_at(t->e_next, timer_tick, k);
}

static ssize_t timer_read(struct sim_file *f, void *buf, size_t size, int flags)
{
	struct timer *t = (struct timer *)f;

	(void)flags;
	if (size < sizeof t->e_ticks)
		return -EINVAL;
	if (t->e_ticks == 0)
		return -EAGAIN;
	if (buf != NULL)
		memcpy(buf, &t->e_ticks, sizeof t->e_ticks);
	t->e_ticks = 0;
	return buf == NULL ? -EFAULT : (ssize_t)sizeof t->e_ticks;
}

static int timer_poll(struct sim_file *f)
{
	return ((struct timer *)f)->e_ticks > 0 ? POLLIN : 0;
}

static void timer_close(struct sim_file *f)
{
	struct timer *t = (struct timer *)f;

	t->e_closed = true;
	if (t->e_events == 0)
		free(t);
}

static const struct sim_file_ops timer_ops = {
	"timerfd", timer_read, NULL, timer_poll, timer_close, timer_close,
	false, NULL
};

int sim_timerfd(struct sim_boot *b, clockid_t clock, int flags)
{
	struct timer *t;

	if (clock == ALARM_CLOCK || clock == ALARM_CLOCK + 1)
		usim_fail("timerfd_create() with clock %d is not simulated", (int)clock);
	if (flags & ~(TFD_CLOEXEC | TFD_NONBLOCK) ||
	    (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC &&
	     clock != CLOCK_BOOTTIME))
		return -EINVAL;
	t = sim_file_make(b, &timer_ops, sizeof *t,
			  O_RDWR | (flags & (O_NONBLOCK | O_CLOEXEC)));
	t->e_clock = clock;
	return sim_fd(b, &t->e_file);
}

static bool is_spec(const struct timespec *t)
{
	return t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < UTIME_S;
}

int sim_timer_get(struct sim_boot *b, int fd, struct itimerspec *to)
{
	struct sim_file *f = sim_file(b, fd);
	const struct timer *t = (struct timer *)f;

	if (f == NULL)
		return -EBADF;
	if (f->f_ops != &timer_ops)
		return -EINVAL;
	if (to == NULL)
		return -EFAULT;
	to->it_interval = sim_spec_of(t->e_interval);
	to->it_value = sim_spec_of(t->e_next == 0 ? 0 :
			       sim_drifted(b->b_host, t->e_next - sim_now()));
	return 0;
}

/* Sets when a timer is due. Where that has passed, so have its ticks. 0: never. */
static void timer_begin(struct timer *t, utime_ns at, bool absolute)
{
	struct sim_host *h = t->e_file.f_boot->b_host;
	utime_ns late = at != 0 && absolute ? sim_clock(h, t->e_clock) - at : -at;

	t->e_next = at == 0 ? 0 : sim_after(h, -late);
	if (at != 0 && late >= 0) {
		t->e_ticks = 1 + (t->e_interval == 0 ? 0 :
				  (uint64_t)(late / t->e_interval));
		t->e_next = t->e_interval == 0 ? 0 :
			sim_after(h, t->e_interval - late % t->e_interval);
		sim_changed(&t->e_file, POLLIN);
	}
	timer_arm(t);
}

int sim_timer_set(struct sim_boot *b, int fd, int flags,
		  const struct itimerspec *by, struct itimerspec *old)
{
	struct itimerspec was;
	int rc;
	struct timer *t = (struct timer *)sim_file(b, fd);

	if (by == NULL)
		return -EFAULT;
	if (flags == (TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET))
		usim_fail("timerfd_settime() with TFD_TIMER_CANCEL_ON_SET is not "
			  "simulated");
	if (flags & ~(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET) ||
	    !is_spec(&by->it_value) || !is_spec(&by->it_interval))
		return -EINVAL;
	rc = sim_timer_get(b, fd, &was);
	if (rc != 0)
		return rc;
	if (old != NULL)
		*old = was;
	t->e_ticks = 0;
	t->e_interval = sim_ns_of(&by->it_interval);
	timer_begin(t, sim_ns_of(&by->it_value), flags & TFD_TIMER_ABSTIME);
	return 0;
}

/* Devices. */

static ssize_t null_read(struct sim_file *f, void *buf, size_t size, int flags)
{
	return (void)f, (void)buf, (void)size, (void)flags, 0;
}

static ssize_t null_write(struct sim_file *f, const void *buf, size_t size)
{
	return (void)f, (void)buf, (ssize_t)size;
}

static ssize_t full_write(struct sim_file *f, const void *buf, size_t size)
{
	return (void)f, (void)buf, (void)size, -ENOSPC;
}

static ssize_t zero_read(struct sim_file *f, void *buf, size_t size, int flags)
{
	(void)f, (void)flags;
	if (buf == NULL && size > 0)
		return -EFAULT;
	memset(buf, 0, size);
	return (ssize_t)size;
}

static ssize_t random_read(struct sim_file *f, void *buf, size_t size, int flags)
{
	size_t i;

	(void)f, (void)flags;
	if (buf == NULL && size > 0)
		return -EFAULT;
	for (i = 0; i < size; i++)
		((unsigned char *)buf)[i] = (unsigned char)usim_random(256);
	return (ssize_t)size;
}

static int device_poll(struct sim_file *f)
{
	return (void)f, POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;
}

#define DEVICE(name, read, write)					\
	{ name, read, write, device_poll, file_free, file_free, false, NULL }

/* By the number that Linux has for it; /dev/random is the same as /dev/urandom. */
static const struct device {
	unsigned            d_number;
	struct sim_file_ops d_ops;
} devices[] = {
	{ 3, DEVICE("/dev/null", null_read, null_write) },
	{ 5, DEVICE("/dev/zero", zero_read, null_write) },
	{ 7, DEVICE("/dev/full", zero_read, full_write) },
	{ 8, DEVICE("/dev/random", random_read, null_write) },
	{ 9, DEVICE("/dev/urandom", random_read, null_write) },
};

/* Returns the device of a path; or of a file, if path is NULL. */
static const struct device *device_of(const char *path, const struct sim_file *f)
{
	size_t i;

	for (i = 0; i < sizeof devices / sizeof devices[0]; i++)
		if (path != NULL ? strcmp(path, devices[i].d_ops.o_name) == 0 :
		    f->f_ops == &devices[i].d_ops)
			return &devices[i];
	return NULL;
}

int sim_device(struct sim_boot *b, const char *path, int flags)
{
	const struct device *d = device_of(path, NULL);
	struct sim_file *f;
	int rc;

	if (d == NULL)
		return -ENOENT;
	flags = sim_open_flags(flags, &rc);
	if (rc != 0)
		return rc;
	if (flags & O_DIRECTORY || (flags & O_CREAT && flags & O_EXCL))
		return flags & O_DIRECTORY ? -ENOTDIR : -EEXIST;
	f = sim_file_make(b, &d->d_ops, sizeof *f,
			  flags & ~(O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC));
	f->f_is_path = flags & SIM_O_PATH;
	return sim_fd(b, f);
}

bool sim_device_stat(const char *path, const struct sim_file *f, struct stat *to)
{
	const struct device *d = device_of(path, f);

	if (d == NULL)
		return false;
	memset(to, 0, sizeof *to);
	to->st_mode = S_IFCHR | 0666;
	to->st_nlink = 1;
	to->st_blksize = 4096;
	to->st_rdev = makedev(1, d->d_number);
	return true;
}

/* Returns whether a file has no waits, so that epoll refuses it. */
bool sim_never_waits(const struct sim_file *f)
{
	const struct device *d = device_of(NULL, f);

	return sim_is_disk(f) || (d != NULL && d->d_ops.o_read != random_read);
}
