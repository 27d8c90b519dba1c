/* SPDX-License-Identifier: MIT */
/* usave.c: all threads to a file and back. */

/*
 * A SAVE is a cut through all threads of umove_make(), at one moment. umove_save()
 * says that it is under way. Each thread that comes to a point copies its slice
 * and waits. When all have come, none of them runs, so heaps are as they are to
 * be, and the file is written. Then all go on.
 *
 *	threads		umove_point(): slice ... wait             go on
 *	caller		umove_save(): ... wait for all; the file; /
 *
 * A thread that ends meanwhile is not waited for, and a new thread is at a point
 * before it begins. Other threads of the scheduler may run until all have come.
 * While the file is written the processor does nothing else.
 *
 * THE FILE is, in words of eight bytes:
 *
 *	struct umove_program
 *	struct summary
 *	each thread: struct umove_head, slice, heap, box
 *	a checksum of all before it
 *
 * It is written beside the old file, synced, and renamed, and then the folder is
 * synced. So at each moment the name leads to a whole file, the old or the new.
 *
 * A load reads all, and looks at all, before it makes the first thread. It refuses
 * a file that does not add up, with a sentence. The threads go on from the bytes
 * that were read: these are freed when the last thread has begun.
 *
 * NO MEMORY. A thread that has come must not go on before the file is written, by
 * umove V3. If there is no memory for its wait, it has not come: it goes on, and the
 * save fails. A load that fails takes out again all threads that it has made. These have
 * not run yet, and only end.
 *
 * INVARIANTS
 *
 * A1. While sv_on is set, sv_left is the number of threads that have not come.
 * A2. sv_first has each thread that has come, in the order in which they came, but
 *     for those that have come after sv_closed was set. These were made later than
 *     the moment that is saved, and wait for the end of the save like the others.
 */

#define _GNU_SOURCE
#include "umove_inside.h"

#include "usched.h"
#include "usync.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER		((size_t)1 << 20)

/* What a file has, behind the program. */
struct summary {
	uint64_t su_threads;
	uint64_t su_numbers;	/* numbers from this on were not given */
	uint64_t su_nob;	/* bytes of all threads */
	uint64_t su_serial;	/* of a save over ranks, or 0 */
};

struct save {
	bool          sv_on;
	bool          sv_closed;	/* A2 */
	int           sv_rc;		/* why it fails, or 0 */
	long          sv_nr;		/* threads that have come */
	struct ugroup sv_left;		/* threads that have not come */
	struct ugroup sv_end;		/* the save itself */
	struct umove_thread *sv_first, **sv_last;
};

#define SAVE_NONE	{ .sv_left = UGROUP_LOCAL, .sv_end = UGROUP_LOCAL }

static struct save saving = SAVE_NONE;

/* A file that is written, with what fill() puts. */
struct writer {
	void   (*w_fill)(struct writer *w);
	const void *w_bytes;
	size_t   w_bytes_nob;
	uint64_t w_serial;
	int      w_fd;
	int      w_rc;		/* 0 or -errno */
	size_t   w_nob;		/* in w_buffer */
	uint64_t w_sum;
	char    *w_buffer;
};

/* Adds bytes, in words, to a checksum. */
static uint64_t add(uint64_t sum, const char *at, size_t nob)
{
	uint64_t word;

	for (; nob >= sizeof word; nob -= sizeof word, at += sizeof word) {
		memcpy(&word, at, sizeof word);
		sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
		sum ^= sum >> 32;
	}
	return sum;
}

/*
 * POINTS
 */

void umove_save_made(void)
{
	if (saving.sv_on)
		(void)ugroup_add(&saving.sv_left, 1);
}

void umove_save_gone(void)
{
	if (saving.sv_on)
		ugroup_done(&saving.sv_left);
}

/* t, the caller, has come, and was packed with this result, unless closed. */
static void come(struct umove_thread *t, int rc)
{
	if (rc == 0 && !saving.sv_closed) {
		t->th_saved = NULL;
		*saving.sv_last = t;
		saving.sv_last = &t->th_saved;
	} else if (saving.sv_rc == 0)
		saving.sv_rc = rc;		/* 0 if closed */
	saving.sv_nr++;
	ugroup_done(&saving.sv_left);
}

/* t has come, as the last, and cannot wait for this reason: as if it had not. */
static void come_not(struct umove_thread *t, struct umove_thread **last, int rc)
{
	if (t->th_bytes != NULL) {
		*last = NULL;
		saving.sv_last = last;
		free(t->th_bytes);
		t->th_bytes = NULL;
	}
	saving.sv_nr--;
	(void)ugroup_add(&saving.sv_left, 1);
	if (saving.sv_rc == 0)
		saving.sv_rc = rc;
}

/* Waits for the end of the save. */
static int rest(struct umove_thread *t, int rc)
{
	struct umove_thread **last = saving.sv_last;
	int end;

	come(t, rc);
	end = ugroup_wait(&saving.sv_end, UNEVER);
	if (end != 0)
		come_not(t, last, end);
	return rc != 0 ? rc : end;
}

static NOINLINE int stop(void)
{
	struct umove_thread *t = umove_caller("umove_point");
	int rc;

	if (t == NULL)
		return -EINVAL;
	rc = saving.sv_closed ? 0 : umove_pack(t, "umove_point", 0, false);
	return rc == 1 ? 1 : rest(t, rc);	/* umove V1 */
}

int umove_point(void)
{
	return unlikely(saving.sv_on) ? stop() : 0;
}

bool umove_saving(void)
{
	return saving.sv_on;
}

void umove_save_fini(void)
{
	saving = (struct save)SAVE_NONE;
}

/*
 * WRITING
 */

static void flush(struct writer *w)
{
	size_t done = 0;

	w->w_sum = add(w->w_sum, w->w_buffer, w->w_nob);
	while (w->w_rc == 0 && done < w->w_nob) {
		ssize_t nob = write(w->w_fd, w->w_buffer + done, w->w_nob - done);

		if (nob >= 0)
			done += (size_t)nob;
		else if (errno != EINTR)
			w->w_rc = -errno;
	}
	w->w_nob = 0;
}

static void put(struct writer *w, const void *from, size_t nob)
{
	const char *at = from;

	while (nob > 0) {
		size_t room = BUFFER - w->w_nob;
		size_t part = nob < room ? nob : room;

		memcpy(w->w_buffer + w->w_nob, at, part);
		w->w_nob += part;
		at  += part;
		nob -= part;
		if (w->w_nob == BUFFER)
			flush(w);
	}
}

/* Puts the box of t, of nob bytes. */
static void box_put(struct writer *w, const struct umove_thread *t, size_t nob)
{
	char *bytes = nob > 0 ? malloc(nob) : NULL;

	if (bytes != NULL) {
		umove_box_put(t, bytes);
		put(w, bytes, nob);
		free(bytes);
	} else if (nob > 0 && w->w_rc == 0)
		w->w_rc = -ENOMEM;
}

static void thread_put(struct writer *w, const struct umove_thread *t)
{
	const struct umove_head *h = t->th_bytes;
	const void *heap;

	(void)umove_heap(t, &heap);
	put(w, h, sizeof *h + h->hd_slice);
	put(w, heap, h->hd_heap);
	box_put(w, t, h->hd_box);
}

/* Puts what a save wants of all threads that have come. */
static void threads_put(struct writer *w)
{
	struct summary s = { .su_threads = (uint64_t)umove_save_nr(),
			     .su_numbers = (uint64_t)umove_numbers(0),
			     .su_serial  = w->w_serial };
	struct umove_thread *t;
	const void *heap;

	for (t = saving.sv_first; t != NULL; t = t->th_saved) {
		t->th_bytes->hd_heap = (uint32_t)umove_heap(t, &heap);
		t->th_bytes->hd_box  = umove_box(t);
		s.su_nob += umove_head_nob(t->th_bytes);
	}
	put(w, &umove_program, sizeof umove_program);
	put(w, &s, sizeof s);
	for (t = saving.sv_first; t != NULL; t = t->th_saved)
		thread_put(w, t);
}

static void bytes_put(struct writer *w)
{
	put(w, w->w_bytes, w->w_bytes_nob);
}

static void all_put(struct writer *w)
{
	uint64_t sum;

	w->w_fill(w);
	flush(w);
	sum = w->w_sum;
	put(w, &sum, sizeof sum);
	flush(w);
}

/* Writes all to a new file. 0 or -errno. */
static int new_write(const char *path, struct writer *w)
{
	w->w_sum = 1;
	w->w_buffer = malloc(BUFFER);
	if (w->w_buffer == NULL)
		return -ENOMEM;
	w->w_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (w->w_fd < 0) {
		w->w_rc = -errno;
		free(w->w_buffer);
		return w->w_rc;
	}
	all_put(w);
	if (w->w_rc == 0 && fsync(w->w_fd) != 0)
		w->w_rc = -errno;
	if (close(w->w_fd) != 0 && w->w_rc == 0)
		w->w_rc = -errno;
	free(w->w_buffer);
	return w->w_rc;
}

/* Syncs the folder of path, whose name ends at slash. 0 or -errno. */
static int folder_sync(char *path)
{
	char *slash = strrchr(path, '/');
	int fd, rc;

	if (slash != NULL)
		slash[slash == path] = '\0';
	fd = open(slash != NULL ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = fsync(fd) != 0 ? -errno : 0;
	close(fd);
	return rc;
}

/* Replaces the file at path. 0 or -errno. */
static int replace(const char *path, struct writer *w)
{
	size_t nob = strlen(path) + sizeof ".new";
	char *new = malloc(nob);
	int rc;

	if (new == NULL)
		return -ENOMEM;
	snprintf(new, nob, "%s.new", path);
	rc = new_write(new, w);
	if (rc == 0 && rename(new, path) != 0)
		rc = -errno;
	if (rc != 0)
		(void)unlink(new);
	else
		rc = folder_sync(new);
	free(new);
	return rc;
}

int umove_save_put(const char *path, uint64_t serial)
{
	struct writer w = { .w_fill = threads_put, .w_serial = serial };

	return saving.sv_rc != 0 ? saving.sv_rc : replace(path, &w);
}

int umove_file_put(const char *path, const void *bytes, size_t nob)
{
	struct writer w = {
		.w_fill = bytes_put, .w_bytes = bytes, .w_bytes_nob = nob
	};

	return replace(path, &w);
}

/*
 * THE CALLER OF A SAVE
 */

int umove_save_begin(void)
{
	if (saving.sv_on)
		return -EBUSY;
	saving.sv_rc = 0;
	saving.sv_nr = 0;
	saving.sv_closed = false;
	saving.sv_first = NULL;
	saving.sv_last  = &saving.sv_first;
	saving.sv_on = true;
	(void)ugroup_add(&saving.sv_left, (int)umove_alive());
	(void)ugroup_add(&saving.sv_end, 1);
	umove_each(umove_box_wake);
	return 0;
}

/* Lets all go on. */
void umove_save_end(void)
{
	struct umove_thread *t;

	for (t = saving.sv_first; t != NULL; t = t->th_saved) {
		free(t->th_bytes);
		t->th_bytes = NULL;
	}
	saving.sv_on = false;
	(void)ugroup_add(&saving.sv_left, -(int)(umove_alive() - saving.sv_nr));
	ugroup_done(&saving.sv_end);
}

int umove_save_wait(void)
{
	int rc = saving.sv_rc;

	while (rc == 0 && saving.sv_nr < umove_alive()) {
		rc = ugroup_wait(&saving.sv_left, UNEVER);
		if (rc == 0)
			rc = saving.sv_rc;
	}
	return rc;
}

void umove_save_close(void)
{
	saving.sv_closed = true;
}

long umove_save_nr(void)
{
	const struct umove_thread *t;
	long nr = 0;

	for (t = saving.sv_first; t != NULL; t = t->th_saved)
		nr++;
	return nr;
}

/* Waits for all that have not come, and writes the file. */
static NOINLINE int save(const char *path)
{
	int rc = umove_save_wait();

	if (rc == 0)
		rc = umove_save_put(path, 0);
	umove_save_end();
	return rc;
}

int umove_save(const char *path)
{
	struct umove_thread *t = umove_mine();
	int rc;

	if (path == NULL || !umove_ready("umove_save"))
		return -EINVAL;
	if (!umove_is_alone("umove_save"))
		return -ENOTSUP;
	if (umove_save_begin() != 0)
		return -EBUSY;
	if (t != NULL) {
		rc = umove_pack(t, "umove_save", 0, false);
		if (rc == 1)
			return 1;	/* umove V1 */
		come(t, rc);
	}
	return save(path);
}

/*
 * LOADING
 */

/* Reads size bytes to at. 0 or -errno; -EBADMSG: there are fewer. */
static int read_all(int fd, char *at, size_t size)
{
	while (size > 0) {
		ssize_t nob = read(fd, at, size);

		if (nob == 0)
			return -EBADMSG;
		if (nob < 0 && errno != EINTR)
			return -errno;
		if (nob > 0) {
			at   += nob;
			size -= (size_t)nob;
		}
	}
	return 0;
}

/* Reads a file behind a struct umove_batch. NULL, and *rc. */
static struct umove_batch *batch_read(int fd, size_t *size, int *rc)
{
	struct umove_batch *b;
	struct stat st;

	if (fstat(fd, &st) != 0) {
		*rc = -errno;
		return NULL;
	}
	*rc = -EBADMSG;
	if (!S_ISREG(st.st_mode))
		return NULL;
	*size = (size_t)st.st_size;
	b = malloc(sizeof *b + *size);
	*rc = b != NULL ? read_all(fd, b->ba_bytes, *size) : -ENOMEM;
	if (*rc == 0)
		return b;
	free(b);
	return NULL;
}

/* Returns why these bytes are not a whole file, or NULL. */
static const char *unwhole(const char *at, size_t nob, struct summary *s)
{
	size_t most = sizeof umove_program + sizeof *s + sizeof(uint64_t);
	uint64_t sum;

	if (nob < sizeof umove_program.pr_magic ||
	    memcmp(at, umove_program.pr_magic, sizeof umove_program.pr_magic) != 0)
		return "it is not a file of umove_save()";
	if (nob < most || nob % sizeof sum != 0)
		return "a part of it is missing";
	memcpy(&sum, at + nob - sizeof sum, sizeof sum);
	if (add(1, at, nob - sizeof sum) != sum)
		return "its checksum differs";
	memcpy(s, at + sizeof umove_program, sizeof *s);
	return s->su_nob == nob - most ? NULL : "its length differs";
}

/* Returns whether nob bytes are nr threads. */
static bool threads_valid(const char *at, size_t nob, uint64_t nr)
{
	for (; nr > 0; nr--) {
		size_t part = umove_valid(at, nob);

		if (part == 0)
			return false;
		at  += part;
		nob -= part;
	}
	return nob == 0;
}

/* What of a file is wanted. */
struct want {
	const char *wa_call;
	const char *wa_path;
	uint64_t    wa_serial;
	uint64_t    wa_part, wa_parts;
	long       *wa_numbers;
};

/* Lets a part of nr threads of b go on. Frees b if there are none. */
static long threads_arrive(const struct want *w, struct umove_batch *b, char *at,
			   uint64_t nr)
{
	struct umove_thread *made = NULL, *t;
	uint64_t i;
	long rc = 0;

	b->ba_nr = 1;			/* so that no thread frees it yet */
	for (i = 0; i < nr && rc >= 0; i++) {
		struct umove_head *h = (void *)at;

		at += umove_head_nob(h);
		if (i % w->wa_parts != w->wa_part)
			continue;
		t = umove_arrive(w->wa_call, h, b);
		if (t != NULL) {
			t->th_saved = made;
			made = t;
			rc++;
		} else
			rc = -errno;
	}
	for (t = made; t != NULL && rc < 0; t = t->th_saved)
		umove_drop(t);
	if (--b->ba_nr == 0)
		free(b);
	return rc;
}

static void bad(const struct want *w, const char *why)
{
	usched_message("%s: the file %s: %s", w->wa_call, w->wa_path, why);
}

/* Looks at what was read, and takes b over. */
static long load(const struct want *w, struct umove_batch *b, size_t size)
{
	struct umove_program p;
	struct summary s;
	const char *why = unwhole(b->ba_bytes, size, &s);
	size_t behind = sizeof p + sizeof s;
	long rc = 0;

	if (why == NULL && s.su_serial != w->wa_serial)
		why = "it is of another save";
	if (why == NULL) {
		memcpy(&p, b->ba_bytes, sizeof p);
		if (!umove_is_ours(w->wa_path, &p))
			rc = -ENOTSUP;
		else if (!threads_valid(b->ba_bytes + behind, s.su_nob,
					s.su_threads))
			why = "what it says of its threads cannot be";
	}
	if (why != NULL) {
		bad(w, why);
		rc = -EBADMSG;
	}
	if (rc != 0) {
		free(b);
		return rc;
	}
	rc = threads_arrive(w, b, b->ba_bytes + behind, s.su_threads);
	*w->wa_numbers = (long)s.su_numbers;
	return rc;
}

static long file_load(const struct want *w)
{
	struct umove_batch *b;
	size_t size;
	int fd, rc;

	fd = open(w->wa_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	b = batch_read(fd, &size, &rc);
	close(fd);
	if (b != NULL)
		return load(w, b, size);
	if (rc == -EBADMSG)
		bad(w, "it is no whole file");
	return rc;
}

/* The head names the parts, so all must be there. */
long umove_load_part(const char *path, uint64_t serial, long part, long parts)
{
	long numbers, nr;
	struct want w = {
		"umpi_load", path, serial, (uint64_t)part, (uint64_t)parts,
		&numbers
	};

	nr = file_load(&w);
	if (nr != -ENOENT)
		return nr;
	bad(&w, "it is not there");
	return -EBADMSG;
}

long umove_load(const char *path)
{
	long numbers, nr;
	struct want w = { "umove_load", path, 0, 0, 1, &numbers };

	if (path == NULL || !umove_ready("umove_load"))
		return -EINVAL;
	if (!umove_is_alone("umove_load") || !umove_shares("umove_load"))
		return -ENOTSUP;
	nr = file_load(&w);
	if (nr >= 0) {
		(void)umove_numbers(numbers);
		umove_numbers_keep();
	}
	return nr;
}

/* 0: the file is at its end; -EBADMSG: it goes on; or another -errno. */
static int end_read(int fd)
{
	char more;
	int rc = read_all(fd, &more, sizeof more);

	return rc == 0 ? -EBADMSG : rc == -EBADMSG ? 0 : rc;
}

int umove_file_get(const char *path, void *bytes, size_t nob)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	uint64_t sum;
	int rc;

	if (fd < 0)
		return -errno;
	rc = read_all(fd, bytes, nob);
	if (rc == 0)
		rc = read_all(fd, (char *)&sum, sizeof sum);
	if (rc == 0)
		rc = end_read(fd);
	close(fd);
	if (rc == 0 && add(1, bytes, nob) != sum)
		rc = -EBADMSG;
	return rc;
}
