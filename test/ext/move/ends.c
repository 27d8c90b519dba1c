/* SPDX-License-Identifier: MIT */
/*
 * ends.c: a thread that is made beside a save, a load or the end of a job is counted,
 * or refused with a sentence. None is lost, and none has the number of another.
 *
 *	ends ROUNDS SEED SAVE
 *
 * In each rank a thread of the scheduler makes threads until it is refused, while
 * another loads, saves and ends. Made threads move, make others, and end. In every
 * second round they go on from the save of the round before, with the others, but not
 * from a save whose head was cut short, goes on, or has a byte that is another.
 */

#include "ranked.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>

#define HEAD	48	/* bytes: struct top, and a checksum */
#define NUMBERS	4096	/* places of threads in a round, of all ranks */

static bool goes_on;		/* this round begins with a load */
static long round_nr, made, ended, refused, said, damaged;
static char ran[NUMBERS];	/* by number: a thread of this round has begun or come */
static const char *path;

static void hear(const char *line)
{
	if (strstr(line, "umove_make: umpi_end() was called") != NULL)
		said++;
	else if (strstr(line, "it is no whole file of umpi_save()") != NULL)
		damaged++;
	else
		fprintf(stderr, "%s\n", line);
}

static void child(void *arg)
{
	(void)umpi_move(rand() % ranks);
	ended++;
	(void)arg;
}

static void begins(void)
{
	long nr = umove_self();

	if (nr < NUMBERS && ran[nr]++)
		say_wrong("its number is that of another", nr);
}

static void body(void *arg)
{
	int i, rc;

	begins();
	for (i = 0; i < 4; i++) {
		rc = rand() % 2 ? umpi_move(rand() % ranks) : umove_point();
		if (rc < 0)
			say_wrong("a point has failed", rc);
		(void)S(yield)();
	}
	if (rand() % 4 == 0) {
		if (umove_make(child, NULL) < 0)
			say_wrong("a thread that is left cannot make another", 0);
		else
			made++;
	}
	ended++;
	(void)arg;
}

/* At first in haste, then so that a save comes to an end. */
static void maker(void *arg)
{
	long nr = 0;
	int i;

	for (i = 0; nr >= 0; i++) {
		nr = umove_make(body, NULL);
		made += nr >= 0;
		(void)u_sleep(i < 20 ? UNOW : uafter(rand() % 2000 * UTIME_US));
	}
	if (nr != -EINVAL || said == 0)
		say_wrong("not refused with a sentence", nr);
	refused++;
	(void)arg;
}

/* Writes the head of the save, in rank 0. */
static void head_write(const char *head, size_t nob)
{
	int fd = rank == 0 ? open(path, O_WRONLY | O_TRUNC) : -1;

	if (rank == 0 && (fd < 0 || write(fd, head, nob) != (ssize_t)nob))
		say_wrong("cannot write", 0);
	if (fd >= 0)
		close(fd);
	MPI_Barrier(MPI_COMM_WORLD);
}

static void torn(void)
{
	char head[HEAD], other[2 * HEAD] = "";
	int fd = open(path, O_RDONLY);
	size_t i;

	if (fd < 0 || read(fd, head, HEAD) != HEAD || read(fd, other, 1) != 0)
		say_wrong("another head", 0);
	close(fd);
	MPI_Barrier(MPI_COMM_WORLD);
	for (i = 0; i < 3 * HEAD; i++) {
		long heard = damaged;

		memcpy(other, head, HEAD);
		if (i < 2 * HEAD)
			other[i % HEAD] ^= (char)(1 << i % 8);
		head_write(other, i < HEAD ? HEAD : i < 2 * HEAD ? i - HEAD :
			   i - HEAD + 1);
		if (umpi_load(path) != -EBADMSG || damaged == heard)
			say_wrong("not refused with a sentence", (long)i);
	}
	head_write(head, HEAD);
}

static void first(void *arg)
{
	long nr;
	int i;

	if (goes_on && round_nr == 1)
		torn();
	nr = goes_on ? umpi_load(path) : 0;
	if (nr < 0)
		say_wrong("cannot load", nr);
	if (goes_on && rank == 0)
		made += nr;
	if (MAKE(maker, NULL) == NULL)
		say_wrong("no maker", 0);
	for (i = rand() % 20; i > 0; i--)
		(void)S(yield)();
	for (i = 0; i < 3; i++) {
		if (umpi_save(path) < 0)
			say_wrong("cannot save", 0);
	}
	if (umpi_end() != 0)
		say_wrong("no end", 0);
	if (umove_alive() != 0)
		say_wrong("the end has left threads", umove_alive());
	(void)arg;
}

static void one_round(void)
{
	long mine[2], all[2];

	made = ended = refused = said = 0;
	memset(ran, 0, sizeof ran);
	goes_on = round_nr % 2 == 1;
	ranks_run(first, 256, 0, 0);
	mine[0] = made;
	mine[1] = ended;
	MPI_Allreduce(mine, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0 && all[0] != all[1]) {
		wrong++;
		fprintf(stderr, "round %ld: %ld made, %ld ended\n", round_nr, all[0],
			all[1]);
	}
	if (refused != 1)
		say_wrong("its maker was not refused", rank);
}

int main(int argc, char **argv)
{
	long rounds;

	ranks_begin(argc, argv, 3);
	usched_on_message(hear);
	rounds = atol(argv[1]);
	path   = argv[3];
	srand((unsigned)(atol(argv[2]) + rank));
	for (round_nr = 0; round_nr < rounds && wrong == 0; round_nr++)
		one_round();
	return ranks_end();
}
