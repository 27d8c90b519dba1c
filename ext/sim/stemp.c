/* SPDX-License-Identifier: MIT */
/* stemp.c: files and folders with names that are free, by libc's names. */

/*
 * The letters of such a name are drawn from the seed. A host's disk has no /tmp,
 * unless the host makes it; tmpfile() takes the root.
 */

#define _GNU_SOURCE		/* mkostemp() */
#include "snames.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES		100
#define LETTERS		6	/* X at the end of a template */

int sim_mkdir_name(const char *path, mode_t mode) __asm__("__wrap_mkdir");
int sim_unlink_name(const char *path) __asm__("__wrap_unlink");
FILE *sim_fdopen_name(int fd, const char *mode) __asm__("__wrap_fdopen");

static int file_make(const char *path, int flags)
{
	return sim_open_name(path, flags | O_RDWR | O_CREAT | O_EXCL, 0600);
}

static int folder_make(const char *path, int flags)
{
	(void)flags;
	return sim_mkdir_name(path, 0700);
}

/* Draws letters until a name is free. Returns what make() does. */
static int find_free(char *path, int flags, int (*make)(const char *path, int flags))
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	size_t size = strlen(path), i;
	int try, rc = -1;

	if (size < LETTERS || strcmp(path + size - LETTERS, "XXXXXX") != 0)
		return (int)answer(-EINVAL);
	for (try = 0; try < TRIES; try++) {
		for (i = size - LETTERS; i < size; i++)
			path[i] = letters[usim_random(sizeof letters - 1)];
		rc = make(path, flags);
		if (rc >= 0 || errno != EEXIST)
			break;
	}
	return rc;
}

NAME(int, mkostemp, (char *path, int flags))
{
	return enter() == NULL ? mkostemp(path, flags) :
		find_free(path, flags & ~O_ACCMODE, file_make);
}

NAME(int, mkstemp, (char *path))
{
	return enter() == NULL ? mkstemp(path) : find_free(path, 0, file_make);
}

ALIAS(int, mkostemp64, (char *path, int flags), mkostemp)
ALIAS(int, mkstemp64, (char *path), mkstemp)

NAME(char *, mkdtemp, (char *path))
{
	if (enter() == NULL)
		return mkdtemp(path);
	return find_free(path, 0, folder_make) == 0 ? path : NULL;
}

NAME(FILE *, tmpfile, (void))
{
	char path[] = "/tmpXXXXXX";
	int fd;

	if (enter() == NULL)
		return tmpfile();
	fd = find_free(path, 0, file_make);
	return fd < 0 || sim_unlink_name(path) != 0 ? NULL :
		sim_fdopen_name(fd, "w+");
}

ALIAS(FILE *, tmpfile64, (void), tmpfile)
