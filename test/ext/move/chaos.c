/* SPDX-License-Identifier: MIT */
/*
 * chaos.c: threads without a heap make others, and write letters to any number, also of
 * threads that move or have ended. The letters of a thread to another come in order,
 * without a gap, and unchanged, through moves, saves, kills and loads. A save that fails
 * on a full disk, of a rank or of all, leaves the save before.
 *
 *	chaos RESULTS THREADS SEED SAVE MICROSECONDS
 *
 * As ranks.c. Each result is the number of a first thread, and its steps.
 */

#include "ranked.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/resource.h>

#define MOST	48	/* first threads */
#define STEPS	150
#define FULL	8192		/* bytes; results are fewer */

struct letter {
	long le_nr;
	unsigned char le_more[256];
};

static const char *path;
static long threads, lives;
static int results;
static long full_nr;		/* saves that failed so */
static bool may_make;		/* all first threads were made */

static size_t nob_of(long from, long nr)
{
	return sizeof(long) + (size_t)(from * 31 + nr * 17) % 256;
}

/* On no stack, since umove_send() copies before another thread runs. */
static struct letter out;

static void letter_send(long *sent)
{
	long own = umove_self(), to = rand() % threads;
	size_t nob = nob_of(own, sent[to]);

	out.le_nr = sent[to];
	memset(out.le_more, (int)(own + sent[to]) & 0x7f, sizeof out.le_more);
	if (umove_send(to, &out, nob) != 0)
		say_wrong("cannot send", own);
	sent[to]++;
}

static void letter_check(const struct letter *l, long nob, long from, long *got)
{
	long i;

	if (from < 0 || from >= threads)
		return;			/* of a child, which counts for itself */
	if (l->le_nr != got[from]++ || nob != (long)nob_of(from, l->le_nr))
		say_wrong("another letter", from);
	for (i = 0; i < nob - (long)sizeof(long); i++) {
		if (l->le_more[i] != (unsigned char)((from + l->le_nr) & 0x7f))
			say_wrong("a letter has changed", from);
	}
}

static int letter_receive(long *got)
{
	struct letter in;
	long from, nob;

	nob = umove_recv(rand() % 4 ? UMOVE_ANY : rand() % threads, &in, sizeof in,
			 &from, rand() % 3 ? UNOW : uafter(rand() % 300 * UTIME_US));
	if (nob == -EAGAIN || nob == -ETIMEDOUT)
		return 0;
	if (nob >= 0)
		letter_check(&in, nob, from, got);
	return nob < 0 ? (int)nob : 0;
}

/* Lives shortly: its place is given again and again. */
static void child(void *arg)
{
	long sent[MOST] = { 0 };
	int i;

	for (i = rand() % 4; i > 0; i--) {
		letter_send(sent);
		if (umpi_move(rand() % ranks) < 0)
			say_wrong("a child cannot move", umove_self());
	}
	(void)arg;
}

static int step(long *sent, long *got)
{
	switch (rand() % 8) {
	case 0:
	case 1:
		return umpi_move(rand() % ranks);
	case 2:
	case 3:
		return letter_send(sent), 0;
	case 4:
		return rand() % 4 || !may_make || umove_make(child, NULL) >= 0 ?
			0 : -ENOMEM;
	case 5:
		return umove_point();
	default:
		return letter_receive(got);
	}
}

static void body(void *arg)
{
	long sent[MOST] = { 0 }, got[MOST] = { 0 };
	char line[64];
	int i, nob;

	if (umove_alloc(100000) != NULL)
		say_wrong("a heap that was not asked for", umove_self());
	for (i = 0; i < STEPS + (long)arg % 7 * 40; i++) {
		int rc = step(sent, got);

		if (rc < 0)
			say_wrong("a step has failed", rc);
		(void)S(yield)();
	}
	nob = snprintf(line, sizeof line, "%ld %d\n", umove_self(), i);
	if (write(results, line, (size_t)nob) != nob)
		say_wrong("no result", umove_self());
}

static void hear(const char *line) { (void)line; }

/* The disk of a rank, or of all, is full. */
static void full(void)
{
	int which = rand() % (ranks + 1);
	struct rlimit old, few;
	long rc;

	MPI_Bcast(&which, 1, MPI_INT, 0, MPI_COMM_WORLD);
	if (getrlimit(RLIMIT_FSIZE, &old) != 0)
		abort();
	few = old;
	few.rlim_cur = FULL;
	if ((which == rank || which == ranks) && setrlimit(RLIMIT_FSIZE, &few) != 0)
		abort();
	rc = umpi_save(path);
	if (setrlimit(RLIMIT_FSIZE, &old) != 0)
		abort();
	if (rc != -EFBIG && rc < 0)
		say_wrong("a save on a full disk", rc);
	full_nr += rc == -EFBIG;
}

static void first(void *arg)
{
	long nr = umpi_load(path), i, turn;
	bool fresh = nr == -ENOENT;

	for (i = rank; nr == -ENOENT && i < threads; i += ranks) {
		if (umove_make(body, (void *)i) != i)
			say_wrong("cannot be made", i);
	}
	if (nr < 0 && nr != -ENOENT)
		say_wrong("cannot load", nr);
	MPI_Barrier(MPI_COMM_WORLD);
	may_make = true;
	for (turn = 0; (nr = umpi_save(path)) > 0; turn++) {
		if (turn % 4 == 3)
			full();
		(void)u_sleep(uafter(rand() % 2 * UTIME_MS));
	}
	if (nr < 0)
		say_wrong("cannot save", nr);
	if (fresh && lives == 0 && full_nr == 0)
		say_wrong("no disk was full", rank);
	usched_on_message(hear);
	if (umpi_end() != 0)
		say_wrong("no end", 0);
	(void)arg;
}

int main(int argc, char **argv)
{
	ranks_begin(argc, argv, 5);
	if (atol(argv[2]) > MOST)
		MPI_Abort(MPI_COMM_WORLD, 1);
	(void)signal(SIGXFSZ, SIG_IGN);
	results = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
	threads = atol(argv[2]);
	path    = argv[4];
	lives   = atol(argv[5]);
	srand((unsigned)(atol(argv[3]) + rank));
	if (results < 0)
		MPI_Abort(MPI_COMM_WORLD, 1);
	ranks_run(first, 0, atol(argv[3]), lives);
	return ranks_end();
}
