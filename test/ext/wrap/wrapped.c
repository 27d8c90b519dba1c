/* SPDX-License-Identifier: MIT */
/* wrapped: with the hooks of ext/wrap/, usched_main() makes private threads */
/* VARIANTS: once */

/*
 * So does usched_go(), for each scheduler. uwrap_linked stands for the hooks.
 * USCHED_PRIVATE asks whatever USCHED_STACKS says.
 */
#include "counts.h"
#include <usched/all.h>

extern const char uwrap_linked[];
const char uwrap_linked[1] = "";

static long private_nr;

static void counts(void *arg)
{
	add(&private_nr, ustack_is_private(ustack_self()));
}

static int first(void *arg)
{
	counts(arg);
	CHECK_IS(usched_go(counts, NULL), 0);
	return 7;
}

int main(int argc, char **argv)
{
	static const char *const how[] = { "rr", "ll:2", "ws:2" };
	long nr = usched_private_most(1) > 0 ? 2 : 0;
	int i;

	check_start(argc, argv);
	CHECK(usched_is_wrapped());
	for (i = 0; i < 6; i++) {
		private_nr = 0;
		CHECK_IS(setenv("USCHED", how[i % 3], 1), 0);
		CHECK_IS(setenv("USCHED_STACKS", i < 3 ? "" : "shared", 1), 0);
		CHECK_IS(usched_main(first, NULL), 7);
		CHECK_IS(private_nr, nr);
	}
	return 0;
}
