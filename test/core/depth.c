/* SPDX-License-Identifier: MIT */
/* VARIANTS: core */
/*
 * depth: a thread blocks at any depth, in frames of any shape, while any
 * number of other threads run on its lane. Then it finds every byte of its
 * frames and every register as it left them, at the same addresses
 * (usched I1, I2, I3, I7). The same holds for a deep thread in its private
 * lane.
 */
#include "shapes.h"

static void with_lanes(int lanes)
{
	struct tiny t;
	int rc;

	doing("with %d lanes%s", lanes, tiny_shares ? ", all shared" : "");
	rc = tiny_init(&t, lanes);
	if (rc == -ENOSYS)
		return;			/* portable: the native lane only */
	CHECK_IS(rc, 0);
	shape_run(&t, lanes < 100 ? 150 : 2 * lanes, 10);
	tiny_fini(&t);
}

int main(int argc, char **argv)
{
	static const int lanes[] = { 0, 1, 2, 16, 64, 300 };
	int i;

	check_start(argc, argv);
	for (i = 0; i < COUNT(lanes) * 2; i++) {
		tiny_shares = i % 2;
		with_lanes(lanes[i / 2]);
	}
	return 0;
}
