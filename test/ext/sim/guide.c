/* SPDX-License-Identifier: MIT */
/*
 * A search goes on from what it has reached. A host climbs a stair: it takes a step if it
 * crashes soon after it has booted, and falls to the ground if it crashes later. At the
 * top the run fails. Each step is rare, so plain seeds do not see the top, and a search
 * that bends runs does: sim.sh.
 */

#include <usched/usim.h>

#include <unistd.h>

#define SOON	(30 * UTIME_MS)
#define TOP	4

static const char *const names[] = { "ground", "first", "second", "third", "top" };
static int step;
static utime_ns booted, alive;

static int climber(void *unused)
{
	(void)unused;
	if (usim_boot() > 1)
		step = alive - booted < SOON ? step + 1 : 0;
	booted = alive = usim_time();
	usim_log("stands on %s", names[step]);
	usim_sometimes(step >= 1, names[1]);
	if (step > 1)
		usim_sometimes(1, names[step]);
	if (step == TOP)
		usim_fail("the top");
	for (;;) {
		usleep(5000);
		alive = usim_time();
	}
}

static int client(void *unused)
{
	(void)unused;
	sleep(21);
	return 0;
}

static void setup(struct usim_world *w)
{
	w->w_quiet = 10 * UTIME_S;
	w->w_only = "crash";
	usim_host("climber", climber, NULL);
	usim_host("other", client, NULL);
	usim_client("client", client, NULL);
}

int main(int argc, char **argv)
{
	return usim_main(argc, argv, setup);
}
