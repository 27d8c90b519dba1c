/* SPDX-License-Identifier: MIT */
/* find.c: finds and opens the files of recorders. */

/*
 * A process in a container has another number there, and its own /dev/shm. Both
 * are seen through /proc/PID. After its end only the file is left. A number may
 * belong to another process by then, so the file says when its process began.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "find.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FOLDER	"/dev/shm"
#define PREFIX	"usched."

/* Reads a file of /proc. False: there is none. */
static bool slurp(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t nob = fd >= 0 ? read(fd, text, size - 1) : -1;

	if (fd >= 0)
		close(fd);
	text[nob > 0 ? nob : 0] = 0;
	return nob > 0;
}

/* Returns the number of process pid in its innermost namespace, or 0. */
static long number_inside(long pid)
{
	char path[64], text[4096], *at;
	long inside = 0;

	(void)snprintf(path, sizeof path, "/proc/%ld/status", pid);
	if (!slurp(path, text, sizeof text))
		return 0;
	at = strstr(text, "\nNSpid:");
	if (at == NULL)
		return pid;
	for (at += 7; *at != 0 && *at != '\n'; ) {
		inside = strtol(at, &at, 10);
		while (*at == ' ' || *at == '\t')
			at++;
	}
	return inside;
}

/* Returns when process pid began, as in the file; 0: there is none. */
static uint64_t born(long pid)
{
	char path[64], text[1024], *at;
	int i;

	(void)snprintf(path, sizeof path, "/proc/%ld/stat", pid);
	if (!slurp(path, text, sizeof text))
		return 0;
	at = strrchr(text, ')');
	if (at != NULL && at[1] == ' ' && (at[2] == 'Z' || at[2] == 'X'))
		return 0;			/* it has ended */
	for (i = 2; at != NULL && i < 22; i++)
		at = strchr(at + 1, ' ');
	return at != NULL ? strtoull(at, NULL, 10) : 0;
}

static bool head_read(int fd, struct uview_file *head)
{
	return pread(fd, head, sizeof *head, 0) == (ssize_t)sizeof *head &&
	       head->vf_magic == UVIEW_MAGIC;
}

/* Opens f->fo_path, and looks whether its process lives. */
static bool open_path(struct found *f, const char **why)
{
	struct uview_file head;
	struct stat st;

	f->fo_fd = open(f->fo_path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC |
			O_NONBLOCK);
	if (f->fo_fd < 0) {
		*why = strerror(errno);
		return false;
	}
	if (fstat(f->fo_fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		*why = "it is no file";
		close(f->fo_fd);
		return false;
	}
	f->fo_size = (uint64_t)st.st_size;
	if (f->fo_pid == 0 && head_read(f->fo_fd, &head))
		f->fo_pid = head.vf_pid;
	f->fo_lives = head_read(f->fo_fd, &head) && f->fo_pid != 0 &&
		head.vf_state == UVIEW_LIVE && head.vf_born != 0 &&
		head.vf_born == born(f->fo_pid);
	return true;
}

static bool is_number(const char *text)
{
	const char *at = text;

	while (isdigit((unsigned char)*at))
		at++;
	return at != text && *at == 0;
}

bool found_open(struct found *f, const char *what, const char **why)
{
	long inside;

	memset(f, 0, sizeof *f);
	if (!is_number(what)) {
		(void)snprintf(f->fo_path, sizeof f->fo_path, "%s", what);
		return open_path(f, why);
	}
	f->fo_pid = strtol(what, NULL, 10);
	inside = number_inside(f->fo_pid);
	if (inside != 0) {
		(void)snprintf(f->fo_path, sizeof f->fo_path,
			       "/proc/%ld/root" UVIEW_PATH, f->fo_pid, inside);
		if (open_path(f, why))
			return true;
	}
	(void)snprintf(f->fo_path, sizeof f->fo_path, UVIEW_PATH, f->fo_pid);
	if (open_path(f, why))
		return true;
	if (errno == ENOENT)
		*why = inside != 0 ?
			"this process has no recorder: link it with "
			"-Wl,-u,uview_start (libusched.so needs nothing), and "
			"start it with USCHED_VIEW=1" :
			"there is no such process, nor a file of its recorder";
	return false;
}

static uint32_t census_nr(const struct found *f)
{
	struct uview_file head;

	return head_read(f->fo_fd, &head) ? head.vf_census : 0;
}

bool found_ask(const struct found *f, long ms)
{
	const struct timespec nap = { 0, 2000000 };
	uint32_t was = census_nr(f), ask;
	char path[64];
	int fd;

	if (!f->fo_lives)
		return false;
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", f->fo_fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (pread(fd, &ask, sizeof ask, offsetof(struct uview_file, vf_ask)) ==
	    (ssize_t)sizeof ask) {
		ask++;
		(void)!pwrite(fd, &ask, sizeof ask,
			      offsetof(struct uview_file, vf_ask));
	}
	close(fd);
	for (; ms > 0 && census_nr(f) == was; ms -= 2)
		(void)nanosleep(&nap, NULL);
	return census_nr(f) != was;
}

struct uview_file *found_copy(struct found *f, size_t *size, const char **why)
{
	struct uview_source source = { NULL, f->fo_fd, f->fo_size };

	return uview_copy(&source, f->fo_lives, size, why);
}

void found_close(struct found *f)
{
	close(f->fo_fd);
}

void found_each(void (*see)(const struct found *f, const struct uview_file *head))
{
	DIR *d = opendir(FOLDER);
	const struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL) {
		struct uview_file head;
		struct found f = { .fo_fd = -1 };
		const char *why;

		if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0 ||
		    !is_number(e->d_name + strlen(PREFIX)))
			continue;
		(void)snprintf(f.fo_path, sizeof f.fo_path, FOLDER "/%s",
			       e->d_name);
		f.fo_pid = atol(e->d_name + strlen(PREFIX));
		if (!open_path(&f, &why))
			continue;
		if (head_read(f.fo_fd, &head))
			see(&f, &head);
		found_close(&f);
	}
	if (d != NULL)
		closedir(d);
}
