/* SPDX-License-Identifier: MIT */
/* first: workers.c of the README prints the sum, or says what it has lost and fails. */
/* VARIANTS: once */
/* LIBS: @test/run/fail.wrap */

/*
 * Calls for memory fail from the n-th on, for n = 1, 2, ... A run in which none has
 * failed prints the sum, and nothing else. A run in which some have failed does the
 * same, or prints no sum, but a line on stderr, and ends with a status that is not 0.
 * In some runs, workers do not sleep.
 */
#include "fail.h"

#define main workers
#include "examples/first/workers.c"
#undef main

enum { SUM = 1, LINE = 2, LOST = 4 };	/* what a run has printed */

static int ended;			/* the status of a run */
static bool refused;			/* a call has failed */

/* Runs workers.c in a child, since usched_main() may end it. */
static void child(int out, int err, long at)
{
	int rc;

	CHECK(dup2(out, 1) == 1 && dup2(err, 2) == 2);
	fail_arm(FAIL_MEMORY | FAIL_MMAP, at, true);
	rc = workers();
	fail_rest();
	CHECK_IS(fflush(stdout), 0);
	_exit(rc != 0 ? 1 : fail_failed() != 0 ? 2 : 0);
}

static void text_of(FILE *file, char *text, int size)
{
	rewind(file);
	text[fread(text, 1, size - 1, file)] = 0;
	fclose(file);
}

static int run_at(long at)
{
	FILE *out = tmpfile(), *err = tmpfile();
	char text[256], said[256];
	int status;
	pid_t pid;

	CHECK(out != NULL && err != NULL);
	pid = fork();
	CHECK_THAT(pid, >=, 0);
	if (pid == 0)
		child(fileno(out), fileno(err), at);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	ended = WEXITSTATUS(status) == 1;
	refused = WEXITSTATUS(status) != 0;
	text_of(out, text, sizeof text);
	text_of(err, said, sizeof said);
	CHECK(*text == 0 || strcmp(text, "49995000\n") == 0);
	return (*text != 0 ? SUM : 0) | (*said != 0 ? LINE : 0) |
		(strstr(said, "workers slept") != NULL ? LOST : 0);
}

int main(int argc, char **argv)
{
	long at, lost = 0;
	int printed;

	check_start(argc, argv);
	setenv("USCHED", "rr:1", 1);
	for (at = 1, refused = true; refused; at++) {
		printed = run_at(at);
		doing("call %ld", at);
		CHECK(ended ? !(printed & SUM) && (printed & LINE) : printed == SUM);
		lost += (printed & LOST) != 0;
	}
	CHECK_THAT(lost, >, 0);
	return 0;
}
