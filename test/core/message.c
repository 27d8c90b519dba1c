/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * message: a message is one line, with the numbers and words of its format, to
 * stderr, or nothing with USCHED_QUIET=1. A function of the program gets it
 * instead. A long text ends with dots. usched_last_message() and usched_fail() go
 * the same way, but are never quiet. errno stays.
 */
#include "tiny.h"
#include <limits.h>

static char heard[2048];
static int heard_nr;

static void hear(const char *line)
{
	snprintf(heard, sizeof heard, "%s", line);
	heard_nr++;
	errno = EIO;
}

/* Each conversion, beside those of printf(). */
static void formats(void)
{
	char want[200];

	usched_on_message(hear);
	errno = ENOENT;
	usched_message("none");
	CHECK(errno == ENOENT && heard_nr == 1);
	CHECK_STR(heard, "usched: none");
	usched_message("%s%% %d %d %d|%s", "a", INT_MIN, 0, INT_MAX, "");
	CHECK_STR(heard, "usched: a% -2147483648 0 2147483647|");
	usched_message("%u %x %lx %llx", UINT_MAX, UINT_MAX, ULONG_MAX,
		       ULLONG_MAX);
	snprintf(want, sizeof want, "usched: %u %x %lx %llx", UINT_MAX, UINT_MAX,
		 ULONG_MAX, ULLONG_MAX);
	CHECK_STR(heard, want);
	usched_message("%ld %lu %lld %llu", LONG_MIN, ULONG_MAX, LLONG_MIN,
		       ULLONG_MAX);
	snprintf(want, sizeof want, "usched: %ld %lu %lld %llu", LONG_MIN,
		 ULONG_MAX, LLONG_MIN, ULLONG_MAX);
	CHECK_STR(heard, want);
	usched_message("%p %p", (void *)heard, NULL);
	snprintf(want, sizeof want, "usched: %p 0x0", (void *)heard);
	CHECK_STR(heard, want);
	usched_on_message(NULL);
}

/* Also where the parts end exactly at the limit, or beside it. */
static void is_long(void)
{
	static char text[3000];
	size_t nob, was = 0;

	usched_on_message(hear);
	for (nob = 1000; nob < sizeof text; nob++) {
		memset(text, 'x', nob);
		text[nob] = 0;
		usched_message("%s%s%d", text, text + nob / 2, 7);
		CHECK(strlen(heard) >= was && strlen(heard) > 1000);
		was = strlen(heard);
		if (was == nob + nob / 2 + nob % 2 + 9)
			CHECK_IS(heard[was - 1], '7');
		else
			CHECK_STR(heard + was - 3, "...");
	}
	usched_on_message(NULL);
}

static void line(void)
{
	usched_message("one %d", 1);
	usched_message("two");
}

static void silent(void)
{
	setenv("USCHED_QUIET", "1", 1);
	line();
	errno = ENOENT;
	usched_last_message("last %d", 2);
	CHECK_IS(errno, ENOENT);
	setenv("USCHED_QUIET", "0", 1);
	usched_message("three");
}

static void to_program(void)
{
	setenv("USCHED_QUIET", "1", 1);
	usched_on_message(hear);
	line();
	CHECK(heard_nr == 2 && strcmp(heard, "usched: two") == 0);
	usched_on_message(NULL);
	line();
}

static void is_broken(void)
{
	setenv("USCHED_QUIET", "1", 1);
	usched_fail("a %s contract");
}

static void writes(const char *text)
{
	fprintf(stderr, "mine: %s\n", text);
}

static void is_told(void)
{
	usched_on_message(writes);
	usched_fail("a contract");
}

static void wrote(void (*f)(void), const char *text)
{
	char got[4096];

	CHECK_IS(check_child(f, got, sizeof got), 0);
	CHECK_STR(got, text);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	unsetenv("USCHED_QUIET");
	formats();
	is_long();
	heard_nr = 0;
	wrote(line, "usched: one 1\nusched: two\n");
	wrote(silent, "usched: last 2\nusched: three\n");
	wrote(to_program, "");
	CHECK_IS(check_dies("fail", is_broken, "a %s contract\n"), 0);
	CHECK_IS(check_dies("told", is_told, "mine: usched: a contract\n"), 0);
	return 0;
}
