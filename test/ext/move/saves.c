/* SPDX-License-Identifier: MIT */
/*
 * saves.c: threads that are saved again and again, while the process is killed at
 * random, end with the results of threads that never were. A program that finds
 * its save goes on from there.
 *
 *	saves RESULTS THREADS [SAVE MICROSECONDS]
 *
 * It kills itself after so many microseconds (0: never). Each result is a line of
 * the file RESULTS. 0: all have ended; 1: wrong.
 */

#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

static const char *path;
static long threads, lives;
static int results;

static void point(void *of)
{
	int rc = umove_point();

	if (rc < 0)
		say_wrong("a point has failed", umove_self());
	(void)S(yield)();
	(void)of;
}

static void body(void *arg)
{
	char line[64];
	int nob = snprintf(line, sizeof line, "%ld %lx\n", (long)arg,
			   compute((long)arg, NULL));

	if (write(results, line, (size_t)nob) != nob)
		say_wrong("no result", (long)arg);
}

static void first(void *arg)
{
	long nr = path != NULL ? umove_load(path) : -ENOENT, i;

	for (i = 0; nr == -ENOENT && i < threads; i++) {
		if (umove_make(body, (void *)i) < 0)
			say_wrong("cannot be made", i);
	}
	if (nr < 0 && nr != -ENOENT)
		say_wrong("cannot load", nr);
	while (umove_alive() > 0 && wrong == 0) {
		for (i = 0; i < 5; i++)
			(void)S(yield)();
		if (path != NULL && umove_save(path) != 0)
			say_wrong("cannot save", 0);
	}
	(void)arg;
}

int main(int argc, char **argv)
{
	pthread_t native;

	if (argc < 3)
		return 1;
	at_point = point;
	results  = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
	threads  = atol(argv[2]);
	path     = argc > 3 ? argv[3] : NULL;
	lives    = argc > 4 ? atol(argv[4]) : 0;
	if (results < 0 || S(init)(1, 0) != 0 ||
	    umove_init(S(sched)(0), 0, 1, HEAP) != 0)
		return 1;
	if (lives > 0 && pthread_create(&native, NULL, killer, &lives) != 0)
		return 1;
	if (MAKE(first, NULL) == NULL || S(start)() != 0 || S(fini)() != 0)
		return 1;
	umove_fini();
	return wrong != 0;
}
