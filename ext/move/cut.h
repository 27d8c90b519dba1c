/* SPDX-License-Identifier: MIT */
/* cut.h: when all ranks are quiet, and the files of a save. A part of ranks.c. */

#ifndef RANKS_CUT_H
#define RANKS_CUT_H

/*
 * A SAVE is a cut: all threads are at points, and nothing is under way. Each rank
 * counts what it has sent and received, without the calls that follow here. Each
 * waits until its own threads are at points, then all add up their counts. If
 * what was received by the first time equals what was sent by the second time,
 * nothing was under way between the two (Mattern's four counters). Until then the
 * threads that arrive come to points as well.
 *
 * Then each rank writes its file, and all agree that each is whole. Then rank 0
 * writes the head, which names the ranks and the serial number of the save. Files
 * of odd and even serials have different names. So a job that is killed at any
 * moment leaves a head whose files are whole.
 *
 * A LOAD deals files to ranks: rank r of n reads the files r, r + n, ... If the
 * ranks are more than the files, several read a file, and each takes a part of
 * its threads. These wait at a gate until all ranks have loaded, since a failure
 * anywhere must stop them. A thread that is not at its home then tells the home,
 * before the gate opens. So the home knows of each thread that was saved, and of all
 * others whose numbers were given before the save it knows that they have ended.
 * Their mail is dropped, as if their spots had been saved.
 *
 * THE END is found as a save is, but waits until no threads are left. From the
 * call of umpi_end() on only threads that are left can make others in a rank. If
 * any thread of the scheduler could, it might do so after the rank was counted.
 *
 * INVARIANT
 *
 * K4. sent_nr is counted when MPI gets a message, received_nr when all that follows from
 *     the message has been given to MPI.
 */

#include "spots.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define MAGIC	0x31736b6e6172u		/* "ranks1" */

/* What ranks add up: those of all, and how many have failed, by reason. */
struct sums {
	int64_t su_sent;
	int64_t su_received;
	int64_t su_threads;
	int64_t su_failed;
};

/* The head of a save. */
struct top {
	uint64_t to_magic;
	uint64_t to_serial;
	uint64_t to_files;
	uint64_t to_threads;
	uint64_t to_numbers;
};

/* Agrees on whether all ranks can. */
static int all_can(int rc)
{
	int worst = rc;

	(void)MPI_Allreduce(&rc, &worst, 1, MPI_INT, MPI_MIN, comm);
	return worst;
}

/* Adds up over all ranks. */
static void sums_get(struct sums *all, long threads, int rc)
{
	struct sums mine = { sent_nr, received_nr, threads, rc != 0 };

	(void)MPI_Allreduce(&mine, all, sizeof mine / sizeof(int64_t),
			    MPI_INT64_T, MPI_SUM, comm);
}

/*
 * Waits until on all ranks wait() has returned, and nothing is under way. 0, or
 * an error of a rank.
 */
static int quiet(int (*wait)(void))
{
	struct sums all;
	int64_t before = -1;
	int rc;

	for (;;) {
		rc = wait();
		sums_get(&all, 0, rc);
		if (all.su_failed > 0)
			return all_can(rc);
		if (all.su_sent == before)
			return 0;
		before = all.su_received;
	}
}

/* Saves. */

/* Returns the name of a file of a save; NULL: no memory. */
static char *file_name(const char *path, uint64_t serial, int file)
{
	size_t nob = strlen(path) + 32;
	char *name = malloc(nob);

	if (name != NULL)
		snprintf(name, nob, "%s.%d.%d", path, (int)(serial & 1), file);
	return name;
}

/* Reads the head, in rank 0, for all. 0 or -errno. */
static int top_get(const char *path, struct top *top)
{
	int rc = own == 0 ? umove_file_get(path, top, sizeof *top) : 0;

	if (rc == 0 && own == 0 && top->to_magic != MAGIC)
		rc = -EBADMSG;
	if (rc != 0)
		*top = (struct top) { .to_magic = MAGIC };
	(void)MPI_Bcast(top, (int)sizeof *top, MPI_BYTE, 0, comm);
	return all_can(rc);
}

/* Removes what the save before has written, which is not named any more. */
static void old_remove(const char *path, const struct top *old)
{
	int i;

	for (i = own; i < (int)old->to_files; i += ranks) {
		char *name = file_name(path, old->to_serial, i);

		if (name != NULL)
			(void)unlink(name);
		free(name);
	}
}

/* Writes the file of this rank. 0 or -errno. */
static int file_put(const char *path, uint64_t serial)
{
	char *name = file_name(path, serial, own);
	int rc = name != NULL ? umove_save_put(name, serial) : -ENOMEM;

	free(name);
	return rc;
}

static bool mail_is_held(void)
{
	size_t i;

	for (i = 0; i < spot_slots; i++) {
		if (spots[i].sp_number != FREE && spots[i].sp_first != NULL) {
			usched_message("umpi_save: mail waits for thread %ld, "
				       "which was not made",
				       (long)spots[i].sp_number);
			return true;
		}
	}
	return false;
}

/* All ranks are quiet: writes all files. Returns how many threads, or -errno. */
static long all_put(const char *path)
{
	struct top old, new = { .to_magic = MAGIC };
	int64_t numbers, most;
	struct sums all;
	int rc;

	umove_save_close();
	numbers = umove_numbers(0);
	rc = top_get(path, &old);
	if (rc != 0 && rc != -ENOENT && rc != -EBADMSG)
		return rc;		/* else its files might be written over */
	sums_get(&all, umove_save_nr(), 0);
	(void)MPI_Allreduce(&numbers, &most, 1, MPI_INT64_T, MPI_MAX, comm);
	new.to_serial  = old.to_serial + 1;
	new.to_files   = all.su_threads > 0 ? (uint64_t)ranks : 0;
	new.to_threads = (uint64_t)all.su_threads;
	new.to_numbers = (uint64_t)most;
	rc = mail_is_held() ? -ENOTSUP : 0;
	if (rc == 0 && new.to_files > 0)
		rc = file_put(path, new.to_serial);
	rc = all_can(rc);
	if (rc == 0)
		rc = all_can(own == 0 ? umove_file_put(path, &new, sizeof new) : 0);
	if (rc != 0)
		return rc;
	old_remove(path, &old);
	return (long)all.su_threads;
}

/* Loads. */

/* Loads a part of a file. 0 or -errno. */
static int part_load(const char *path, const struct top *top, int file, long part,
		     long parts)
{
	char *name = file_name(path, top->to_serial, file);
	long rc = -ENOMEM;

	if (name != NULL)
		rc = umove_load_part(name, top->to_serial, part, parts);
	free(name);
	return rc < 0 ? (int)rc : 0;
}

/* Loads what this rank gets of the files. 0 or -errno. */
static int files_load(const char *path, const struct top *top)
{
	int files = (int)top->to_files, i, rc = 0;

	if (files == 0)
		return 0;
	if (files < ranks)		/* several ranks read a file */
		return part_load(path, top, own % files, own / files,
				 (ranks - own % files + files - 1) / files);
	for (i = own; i < files && rc == 0; i += ranks)
		rc = part_load(path, top, i, 0, 1);
	return rc;
}

static void home_tell(struct umove_thread *t)
{
	int home = home_of(t->th_number);

	if (home != own && !tell(home, t->th_number, 1, own))
		no_memory();
}

static int no_wait(void)
{
	return 0;
}

#endif /* RANKS_CUT_H */
