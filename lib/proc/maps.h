/* SPDX-License-Identifier: MIT */
/* maps.h: mappings that lanes leave for all else. A part of uproc.c. */

#ifndef UPROC_MAPS_H
#define UPROC_MAPS_H

/*
 * Linux allows a process 65530 mappings, and a lane takes two. With no mapping
 * left, native threads and large blocks cannot be created. So while lanes are
 * mapped, other mappings are held in reserve: MAPS_NATIVE for each processor,
 * and MAPS_MORE. That takes hundreds of system calls, so if the process has few
 * mappings, they are only counted. A small process need not even do that: it has
 * no more mappings than pages, and the number of its pages is read in a quarter of
 * the time. If there are fewer mappings, the reserve takes all of them but
 * MAPS_LANES for each processor. If mapping lanes or creating native threads
 * fails, half as many lanes are tried, down to a single lane for each
 * processor.
 *
 * P6. When the native threads are made, the mappings in reserve are free.
 */

#include "lanes.h"
#include "ucall.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * A native thread has its stack, the guard and, after malloc(), the two parts of an
 * arena. The others are those of UCALL_LIMIT native threads that make calls, of
 * chunks, and of large buffers.
 */
#define MAPS_NATIVE	4
#define MAPS_MORE	(UCALL_LIMIT * MAPS_NATIVE + 64)
#define MAPS_LANES	3		/* of a processor with a single lane */
#define MAPS_LANE	2
#define MAPS_COUNTED	1000		/* to count more takes as long as a reserve */

/* Reads a file of the system, in parts. Returns the lines, up to most. */
static size_t lines_in(const char *path, size_t most, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t nr = 0;
	ssize_t nob = fd >= 0 ? 1 : -1;
	char *at;

	while (nob > 0 && nr < most) {
		nob = read(fd, text, size);
		for (at = text; at < text + nob; at++)
			nr += *at == '\n';
	}
	if (fd >= 0)
		(void)close(fd);
	return nob == 0 && nr < most ? nr : most;
}

/* Returns the number with which a file of the system begins; 0: there is none. */
static size_t number_in(const char *path)
{
	char text[256] = "";		/* has the whole line */

	(void)lines_in(path, 1, text, sizeof text - 1);
	return strtoul(text, NULL, 10);
}

/* Returns whether the system says that nr mappings are left. */
static bool maps_left(size_t nr)
{
	size_t most = number_in("/proc/sys/vm/max_map_count");
	size_t now = number_in("/proc/self/statm");	/* pages */
	char text[4096];

	if (now != 0 && now + nr <= most)
		return true;
	now  = lines_in("/proc/self/maps", MAPS_COUNTED, text, sizeof text);
	return now < MAPS_COUNTED && now + nr <= most;
}

/* Makes up to nr mappings, of a page each. NULL: no mapping is left. */
static void *reserve(size_t nr)
{
	size_t page = sysconf(_SC_PAGESIZE);
	size_t i;
	char *map;

	map = mmap(NULL, nr * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0);
	if (map == MAP_FAILED)
		return NULL;
	for (i = 1; i < nr; i += 2) {
		if (mprotect(map + i * page, page, PROT_READ) != 0)
			break;
	}
	return map;
}

static void release(void *map, size_t nr)
{
	if (map != NULL)
		munmap(map, nr * sysconf(_SC_PAGESIZE));
}

/* Maps the guards of all lanes now. 0 or -errno. */
static int lanes_guard(struct uproc_set *set)
{
	int rc = 0;
	int i, lane;

	for (i = 0; i < set->set_nr; i++) {
		struct usched *s = &uproc_nth(set, i)->p_sched;

		for (lane = 1; lane <= s->s_lane_nr && rc == 0; lane++)
			rc = usched_lane_guard(s, lane);
	}
	return rc;
}

/* Maps lanes, if they leave the reserve, which is free afterwards (P6). */
static int lanes_reserving(struct uproc_set *set)
{
	size_t lanes = MAPS_LANES * (size_t)set->set_nr;
	size_t more  = MAPS_NATIVE * (size_t)set->set_nr + MAPS_MORE;
	bool enough = maps_left(lanes + more + MAPS_LANE *
				(size_t)set->set_lane_nr * (size_t)set->set_nr);
	void *first = enough ? NULL : reserve(lanes); /* in case not even */
	void *map = enough ? NULL : reserve(more);    /* more is left */
	int rc;

	release(first, lanes);
	rc = set->set_ops.op_move.mv_lanes(set);
	if (rc == 0 && !enough)
		rc = lanes_guard(set);
	release(map, more);
	if (rc == -ENOSYS)
		set->set_on_native = true;
	return rc == -ENOSYS ? 0 : rc;
}

static void lanes_free(struct uproc_set *set)
{
	int i;

	for (i = 0; i < set->set_nr; i++)
		usched_fini(&uproc_nth(set, i)->p_sched);
}

/*
 * Halves the lanes, which may take what native threads need. False: give up, as
 * one lane does not suffice, or fewer do not for the promises.
 */
static bool fewer_lanes(struct uproc_set *set, int rc)
{
	int i;

	if ((rc != -ENOMEM && rc != -EAGAIN) || set->set_on_native)
		return false;
	set->set_lane_nr /= 2;
	for (i = 0; i < set->set_nr; i++) {
		const struct uproc *p = uproc_nth(set, i);

		if (p->p_promised > private_most(p, set->set_lane_nr))
			return false;
	}
	return set->set_lane_nr > 0;
}

#endif /* UPROC_MAPS_H */
