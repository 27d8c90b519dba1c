/* SPDX-License-Identifier: MIT */
/* uview.c: a flight recorder: who ran where and when, and who woke whom. */

/*
 * OVERVIEW
 *
 *	dispatcher		native thread		shared memory
 *	+------------------+	+------------+		+-----------------+
 *	| view: link before|--->| tap: caches|--------> | ring of records |
 *	| s_next()         |	+------------+		| names, stacks   |
 *	+------------------+				| census          |
 *							+-----------------+
 *
 * All comes from s_next(), as in ustats.c, so that a program without a recorder
 * has no instruction for it. Each part calls those below it only:
 *
 *	uview.c		the start, the words of USCHED_VIEW, a copy
 *	vwatch.c	records of waits and of processors
 *	vswitch.c	a record of each switch of a dispatcher (vturn.h: or of many)
 *	vqueue.c	lengths of channels
 *	vcensus.c	all threads by stack
 *	vfile.c		makes and ends the file
 *	vstack.c	stacks by a hash of their return addresses
 *	vnames.c	names and stacks in the file
 *	vtap.c		rings (vring.h), clocks (vclock.h) and caches of native threads
 *
 * REJECTED
 *
 * A hook in each wake: it costs a load and a branch where a wake takes ten
 * instructions. Uprobes: a trap for each switch.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE		/* secure_getenv() */
#endif
#include "uview.h"
#include "usched.h"

#include <errno.h>

#if !defined(__linux__)

UPREEMPT_NEVER;

int uview_start(const char *how)
{
	(void)how;
	return -ENOSYS;
}

void uview_mark(const char *text)
{
	(void)text;
}

void uview_object(const void *object, const char *name)
{
	(void)object, (void)name;
}

int uview_save(const char *path)
{
	(void)path;
	return -ENOSYS;
}

#else

#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "vcensus.h"
#include "vclock.h"
#include "vcopy.h"
#include "vfile.h"
#include "vnames.h"
#include "vqueue.h"
#include "vstack.h"
#include "vswitch.h"
#include "vwatch.h"
#include "fence.h"
#include "uchain.h"
#include "ufork.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

UPREEMPT_NEVER;

#define LOG_DEFAULT	18	/* 2^18 records a ring: 4 MiB */
#define NAPS		8	/* until one has slept */

/* The program's. */

void uview_mark(const char *text)
{
	if (uview_here != NULL && text != NULL)
		uview_note(UVIEW_MARK, 0, ustack_self(), uview_text(text));
}

/* The symbol of a variable comes first, so that it does not come later. */
void uview_object(const void *object, const char *name)
{
	if (uview_all.v_file == NULL || object == NULL || name == NULL)
		return;
	if ((uintptr_t)object - uview_data.c_from < uview_data.c_size)
		(void)uview_name(UVIEW_OBJECT, object);
	uview_object_name(object, name);
}

/* Writes all. 0, -errno. */
static int write_all(int fd, const char *from, size_t nob)
{
	while (nob > 0) {
		ssize_t rc = write(fd, from, nob);

		if (rc < 0 && errno != EINTR)
			return -errno;
		from += rc > 0 ? rc : 0;
		nob  -= rc > 0 ? (size_t)rc : 0;
	}
	return 0;
}

static int copy_write(int fd)
{
	struct uview_source from = { uview_all.v_file, -1, uview_all.v_size };
	struct uview_file *copy;
	const char *why;
	size_t nob;
	int rc;

	copy = uview_copy(&from, true, &nob, &why);
	if (copy == NULL)
		return -ENOMEM;
	rc = write_all(fd, (char *)copy, nob);
	free(copy);
	return rc;
}

int uview_save(const char *path)
{
	const struct ustack *u = ustack_self();
	int fd, rc;

	if (uview_all.v_file == NULL || path == NULL)
		return -EINVAL;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		  0600);
	if (fd < 0)
		return -errno;
	uview_census_take(u != NULL ? uchain_of(u->u_sched, uview_next) : NULL,
			  100000000);
	rc = copy_write(fd);
	if (close(fd) != 0 && rc == 0)
		rc = -errno;
	if (rc != 0)
		(void)unlink(path);
	return rc;
}

/* The start. */

/* The child of fork() writes to memory of its own, if at all. */
static void in_child(void)
{
	struct uview_file *file = uview_all.v_file;

	if (file == NULL)
		return;
	uview_all.v_file = NULL;
	uview_taps_renew();
	memset(&uview_all.v_lock, 0, sizeof uview_all.v_lock);
	uview_all.v_gate = uview_all.v_asked = 0;
	uview_names_renew();
	uview_queues_renew();
	uview_file_leave(file);
}

static struct ufork at_fork = { .f_rank = UFORK_WAITS, .f_child = in_child };
UFORK(at_fork)

static struct usched_env env_view = {
	.e_name  = "USCHED_VIEW", .e_list = 1, .e_get = secure_getenv,
	.e_known = "0, 1, stacks, keep, 10-24"
};

/* Obeys all words. 0; -EINVAL: one is unknown; -ENOENT: one is 0. */
static int obey(const char *words)
{
	enum { NO, YES, WITH_STACKS, KEEP, LOG };
	unsigned long long nr = 0;
	int word;

	uview_all.v_log = LOG_DEFAULT;
	while ((word = usched_env_word(&env_view, &words, &nr)) > NO) {
		if (word == WITH_STACKS)
			uview_all.v_stacks = true;
		else if (word == KEEP)
			uview_all.v_keeps = true;
		else if (word == LOG)
			uview_all.v_log = (int)nr;
	}
	return word == NO ? -ENOENT : word == -ENOENT ? 0 : word;
}

/*
 * Asks the kernel for what some do not tell: it has slept, and has run before. A nap
 * may be over before it has slept.
 */
static bool knows_cpu(void)
{
	const struct timespec nap = { 0, 20000 };
	struct uview_cpu was = { 0 }, now = { 0 };
	int naps = NAPS;

	if (!uview_cpu_ask(&was))
		return false;
	do {
		if (nanosleep(&nap, NULL) != 0 || !uview_cpu_ask(&now))
			return false;
	} while (now.c_sleeps <= was.c_sleeps && --naps > 0);
	return naps > 0 && now.c_ran > 0;
}

static int start(void)
{
	int rc = ufork_watch();

	if (rc != 0)
		return rc;
	uview_all.v_no_counter = !uview_counter_is_even();
	uview_all.v_knows_cpu = knows_cpu();
	uview_code_find();
	(void)ufence_init();		/* -ENOSYS: fences are full */
	rc = atexit(uview_file_close) != 0 ? -ENOMEM : uview_file_open();
	if (rc < 0) {
		usched_message("view: there is no recorder: " UVIEW_PATH ": %s",
			       (long)getpid(), strerror(-rc));
		return rc;
	}
	uview_switches_start();
	uview_watch_start();
	return 0;
}

int uview_start(const char *how)
{
	if (uview_all.v_ask != NULL)	/* also by the parent */
		return -EBUSY;
	return obey(how) == 0 ? start() : -EINVAL;
}

static __attribute__((constructor)) void from_environment(void)
{
	const char *how = usched_env_add(&env_view);

	if (how != NULL && obey(how) == 0)
		(void)start();
}

#endif
