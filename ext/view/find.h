/* SPDX-License-Identifier: MIT */
/* find.h: finds and opens the files of recorders. For the tools. */

#ifndef UVIEW_FIND_H
#define UVIEW_FIND_H

#include "vcopy.h"

/* A file that is open. */
struct found {
	char   fo_path[4300];
	int    fo_fd;
	bool   fo_lives;	/* its process does */
	long   fo_pid;		/* as this process sees it; 0: unknown */
	uint64_t fo_size;
};

/*
 * Opens the file of the process with this number, in whatever PID namespace, or
 * else the file with this name. False: *why says why not.
 */
bool found_open(struct found *f, const char *what, const char **why);

/* Opens it again to write vf_ask, and waits for the census. False: none came. */
bool found_ask(const struct found *f, long ms);

/* Returns a copy of it. NULL: *why says why. */
struct uview_file *found_copy(struct found *f, size_t *size, const char **why);

void found_close(struct found *f);

/* Calls f for each file of a recorder in the usual folder. */
void found_each(void (*f)(const struct found *f, const struct uview_file *head));

#endif /* UVIEW_FIND_H */
