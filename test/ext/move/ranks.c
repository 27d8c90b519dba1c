/* SPDX-License-Identifier: MIT */
/*
 * ranks.c: threads that move between ranks at random, send mail to each other, are
 * saved again and again, and killed at random, end with the results of threads
 * that stay. All mail comes in order, and each letter once.
 *
 *	ranks RESULTS THREADS SEED [SAVE MICROSECONDS]
 *
 * One of the ranks kills itself after so many microseconds (0: none does). Each
 * result is a line of the file RESULTS. 0: all have ended; 1: wrong.
 */

#include "ranked.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>

#define LONG	3000	/* bytes of some letters, so that they come in parts */

/* What a thread keeps of its mail: in its heap. */
struct post {
	long po_sent;
	long po_got;
	bool po_last;		/* the last has come */
};

struct letter {
	long le_nr;		/* -1: the last */
	long le_from;
	char le_more[LONG];
};

static const char *path;
static long threads, moves;
static int results;

/* The letters of a thread go to the next. Numbers are those of a first start. */
static long next_of(long id) { return (id + 1) % threads; }
static long before(long id) { return (id + threads - 1) % threads; }

static size_t letter_nob(long nr)
{
	return nr % 5 == 0 ? sizeof(struct letter) :
		offsetof(struct letter, le_more) + (size_t)(nr % 7);
}

static void letter_send(struct post *p, long nr)
{
	struct letter *l = malloc(sizeof *l);
	long id = umove_self();

	if (l == NULL)
		abort();
	l->le_nr   = nr;
	l->le_from = id;
	memset(l->le_more, (int)(nr & 0x7f), sizeof l->le_more);
	if (umove_send(next_of(id), l, letter_nob(p->po_sent++)) != 0)
		say_wrong("cannot send", id);
	free(l);
}

/* Receives a letter, if there is one until then, and checks it. */
static void letter_receive(struct post *p, utime_ns until)
{
	long id = umove_self(), from = -1, nob, i;
	struct letter *l = umove_alloc(sizeof *l);

	if (l == NULL)
		abort();
	nob = umove_recv(p->po_got % 3 ? UMOVE_ANY : before(id), l, sizeof *l, &from,
			 until);
	if (nob == -EAGAIN) {
		umove_free(l);
		return;
	}
	if (nob != (long)letter_nob(p->po_got) || from != before(id) ||
	    l->le_from != from || (l->le_nr != p->po_got && l->le_nr != -1))
		say_wrong("another letter", id);
	for (i = 0; i < nob - (long)offsetof(struct letter, le_more); i++) {
		if (l->le_more[i] != (char)(l->le_nr & 0x7f))
			say_wrong("a letter has changed", id);
	}
	p->po_got++;
	p->po_last = l->le_nr == -1;
	umove_free(l);
}

/* Anything that can happen at a point. */
static void point(void *of)
{
	struct post *p = of;
	int rc = 0;

	switch (rand() % 6) {
	case 0:
		rc = umpi_move(rand() % ranks);
		moves++;
		break;
	case 1:
		letter_send(p, p->po_sent);
		break;
	case 2:
		if (!p->po_last)
			letter_receive(p, UNOW);
		break;
	default:
		rc = umove_point();
	}
	if (rc < 0)
		say_wrong("a point has failed", umove_self());
	(void)S(yield)();
}

static void body(void *arg)
{
	struct post *p = umove_alloc(sizeof *p);
	char line[64];
	int nob;

	if (p == NULL)
		abort();
	memset(p, 0, sizeof *p);
	nob = snprintf(line, sizeof line, "%ld %lx\n", umove_self(),
		       compute(umove_self(), p));
	letter_send(p, -1);
	while (!p->po_last && wrong == 0)
		letter_receive(p, UNEVER);
	umove_free(p);
	if (write(results, line, (size_t)nob) != nob)
		say_wrong("no result", umove_self());
	(void)arg;
}

static void hear(const char *line) { (void)line; }

/* Calls that know nothing of other ranks. */
static void refused(void)
{
	usched_on_message(hear);
	if (umove_save("") != -ENOTSUP || umove_load("") != -ENOTSUP ||
	    umpi_load(NULL) != -EINVAL || umpi_move(0) != -EINVAL)
		say_wrong("not refused", 0);
	usched_on_message(NULL);
}

static void first(void *arg)
{
	long nr = path != NULL ? umpi_load(path) : -ENOENT, i;

	refused();
	for (i = rank; nr == -ENOENT && i < threads; i += ranks) {
		if (umove_make(body, NULL) != i)
			say_wrong("cannot be made", i);
	}
	if (nr < 0 && nr != -ENOENT)
		say_wrong("cannot load", nr);
	while (path != NULL && (nr = umpi_save(path)) > 0)
		(void)u_sleep(uafter(rand() % 3 * UTIME_MS));
	if (path != NULL && nr < 0)
		say_wrong("cannot save", nr);
	if (umpi_end() != 0)
		say_wrong("no end", 0);
	usched_on_message(hear);
	if (umove_make(body, NULL) >= 0)
		say_wrong("made after the end", 0);
	(void)arg;
}

int main(int argc, char **argv)
{
	ranks_begin(argc, argv, 3);
	at_point = point;
	results  = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
	threads  = atol(argv[2]);
	path     = argc > 4 ? argv[4] : NULL;
	srand((unsigned)(atol(argv[3]) + rank));
	if (results < 0)
		MPI_Abort(MPI_COMM_WORLD, 1);
	ranks_run(first, HEAP, atol(argv[3]), argc > 5 ? atol(argv[5]) : 0);
	if (path == NULL && ranks > 1 && moves == 0)
		say_wrong("none has moved", rank);
	return ranks_end();
}
