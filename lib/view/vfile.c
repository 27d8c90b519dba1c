/* SPDX-License-Identifier: MIT */
/* vfile.c: makes and ends the file of a recorder. A part of the recorder. */

/*
 * SPACE. A write to a page of a mapped file for which there is no space ends the
 * process (SIGBUS). So posix_fallocate() gets all space before it is written:
 * for names and stacks at the start, for a ring when it is first taken.
 *
 * FORK. The child maps memory of its own over the file, since the thread that has
 * forked still runs code that writes there. So does its dispatcher, if that is
 * plain: then it goes on.
 *
 * INVARIANT
 *
 * V2. Nothing is written to the file for which no space was reserved.
 */

#if defined(__linux__)		/* as uview.c */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "vfile.h"
#include "vclock.h"
#include "vnames.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

UPREEMPT_NEVER;

#define NAMES		16384
#define STACKS		8192
#define TEXTS		(512u << 10)

/* Returns when this process began, as /proc says; 0: unknown. */
static uint64_t born(void)
{
	char text[1024], *at;
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC), i;
	ssize_t nob = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;

	if (fd >= 0)
		close(fd);
	if (nob <= 0)
		return 0;
	text[nob] = 0;
	at = strrchr(text, ')');
	for (i = 2; at != NULL && i < 22; i++)
		at = strchr(at + 1, ' ');
	return at != NULL ? strtoull(at, NULL, 10) : 0;
}

/* Lays out the parts. Returns the size of the file. */
static uint64_t layout(struct uview_part *part, uint64_t *fixed)
{
	static const struct { uint32_t room, each; } size[UVIEW_PARTS] = {
		[UVIEW_PART_RINGS]  = { UVIEW_RINGS, sizeof(struct uview_ring) },
		[UVIEW_PART_NAMES]  = { NAMES, sizeof(struct uview_name) },
		[UVIEW_PART_TEXTS]  = { TEXTS, 1 },
		[UVIEW_PART_STACKS] = { STACKS, sizeof(struct uview_stack) },
		[UVIEW_PART_CENSUS] = { 2, sizeof(struct uview_census) },
		[UVIEW_PART_RECORDS] = { 0, sizeof(struct uview_record) }
	};
	uint64_t at = sizeof(struct uview_file);
	int i;

	for (i = 0; i < UVIEW_PARTS; i++) {
		part[i].vp_room = i != UVIEW_PART_RECORDS ? size[i].room :
			(uint32_t)UVIEW_RINGS << uview_all.v_log;
		part[i].vp_each = size[i].each;
		part[i].vp_size = (uint64_t)part[i].vp_room * size[i].each;
		part[i].vp_at   = at = (at + 4095) & ~(uint64_t)4095;
		if (i == UVIEW_PART_RECORDS)
			*fixed = at;
		at += part[i].vp_size;
	}
	return at;
}

/* Makes the file, which has no name yet. Returns it, or -errno. */
static int file_make(const char *path, uint64_t size, uint64_t fixed)
{
	int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = open(path, flags, 0600), rc;

	if (fd < 0 && errno == EEXIST) {	/* of a dead process, or before exec */
		(void)unlink(path);
		fd = open(path, flags, 0600);
	}
	if (fd < 0)
		return -errno;
	rc = ftruncate(fd, (off_t)size) != 0 ? errno :
		posix_fallocate(fd, 0, (off_t)fixed);
	if (rc == 0)
		return fd;
	close(fd);
	(void)unlink(path);
	return -rc;
}

int uview_file_open(void)
{
	struct uview_part part[UVIEW_PARTS] = { { 0 } };
	uint64_t fixed = 0, size = layout(part, &fixed);
	struct uview_file *file;
	struct timespec wall;
	char path[64];
	int rc;

	(void)snprintf(path, sizeof path, UVIEW_PATH, (long)getpid());
	uview_all.v_fd = file_make(path, size, fixed);
	if (uview_all.v_fd < 0)
		return uview_all.v_fd;
	file = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
		    uview_all.v_fd, 0);
	if (file == MAP_FAILED) {
		rc = -errno;
		close(uview_all.v_fd);
		(void)unlink(path);
		return rc;
	}
	(void)clock_gettime(CLOCK_REALTIME, &wall);
	memcpy(file->vf_part, part, sizeof part);
	file->vf_state = UVIEW_LIVE;
	file->vf_flags = (uview_all.v_stacks ? UVIEW_WITH_STACKS : 0) |
		(uview_all.v_knows_cpu ? UVIEW_KNOWS_CPU : 0);
	file->vf_pid   = (uint32_t)getpid();
	file->vf_born  = born();
	file->vf_tick  = uview_all.v_tick = uview_tick();
	file->vf_ns    = uview_all.v_ns = uview_ns();
	file->vf_wall  = (uint64_t)wall.tv_sec * 1000000000u +
		(uint64_t)wall.tv_nsec;
	(void)snprintf(file->vf_name, sizeof file->vf_name, "%s",
		       program_invocation_short_name);
	rc = uview_names_init(file);
	if (rc != 0) {
		(void)munmap(file, size);
		close(uview_all.v_fd);
		(void)unlink(path);
		return rc;
	}
	__atomic_store_n(&file->vf_magic, UVIEW_MAGIC, __ATOMIC_RELEASE);
	uview_all.v_size = size;
	uview_all.v_ask  = &file->vf_ask;
	__atomic_store_n(&uview_all.v_file, file, __ATOMIC_RELEASE);
	return 0;
}

void uview_file_leave(struct uview_file *file)
{
	close(uview_all.v_fd);
	if (mmap(file, uview_all.v_size, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		 MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != file)
		usched_fail("view: the child of a fork() has no memory");
}

void uview_file_close(void)
{
	char path[64];

	if (uview_all.v_file == NULL)
		return;
	__atomic_store_n(&uview_all.v_file->vf_state, UVIEW_CLOSED,
			 __ATOMIC_RELEASE);
	if (uview_all.v_keeps)
		return;
	(void)snprintf(path, sizeof path, UVIEW_PATH, (long)getpid());
	(void)unlink(path);
}

#endif
