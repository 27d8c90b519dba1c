/* SPDX-License-Identifier: MIT */
/* watch: the watchdog ends a test that hangs, and no test that is only slow. */
/* VARIANTS: once */

#include "check.h"

static void watched(void)
{
	static char *none[] = { NULL };

	setenv("WATCHDOG", "1", 1);
	check_start(0, none);
}

static void sleeps_on(void)
{
	watched();
	for (;;)
		pause();
}

static void runs_on(void)
{
	watched();
	check_since += 600 * 1000000l;	/* beside others it may take long */
	for (;;)
		__asm__ volatile("" : : : "memory");
}

/* Stands for a test that went on for all of the watchdog's patience. */
static void has_no_end(void)
{
	watched();
	check_since -= WATCHDOGS_MOST * 1000000l;
	check_cpu_since = 1000000;	/* it has not run for long */
	check_cpu_seen = -1000000;	/* but it runs */
	for (;;)
		pause();
}

/* Gets a tenth of a cpu, and needs longer than the watchdog's second. */
static void is_slow(void)
{
	long end;
	int i;

	watched();
	for (i = 0; i < 25; i++) {
		for (end = check_cpu() + 10000; check_cpu() < end; )
			;
		usleep(90000);
	}
}

static void hangs(const char *how, void (*f)(void))
{
	char text[1024];
	int status = check_child(f, text, sizeof text);

	if (WIFEXITED(status) && WEXITSTATUS(status) == 1 &&
	    strstr(text, "CHECK(the watchdog: it ") != NULL &&
	    strstr(text, how) != NULL)
		return;
	fprintf(stderr, "%s: status %#x, \"%s\"\n", how, (unsigned)status, text);
	CHECK(0);
}

int main(int argc, char **argv)
{
	char text[1024];

	check_start(argc, argv);
	hangs("sleeps on", sleeps_on);
	hangs("runs on", runs_on);
	hangs("has no end", has_no_end);
	CHECK_IS(check_child(is_slow, text, sizeof text), 0);
	return 0;
}
