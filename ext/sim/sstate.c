/* SPDX-License-Identifier: MIT */
/* sstate.c: states that programs name. */

/*
 * The report counts for each name how often it was asked, and how often it was true.
 * A question of usim_maybe() is a step, at which a fault may begin, and so is a
 * usim_sometimes() that is true.
 */

#include "sim.h"

#include <stdio.h>
#include <string.h>

/* Returns the name, noted for the report; NULL: there are too many. */
static struct sim_name *name_of(const char *name, bool is_maybe)
{
	struct sim_name *n = sim_report->p_names;
	struct sim_name *end = n + sim_report->p_name_nr;

	for (; n < end; n++)
		if (n->n_is_maybe == is_maybe &&
		    strcmp(n->n_name, name) == 0)
			return n;
	if (strlen(name) >= sizeof n->n_name)
		usim_fail("a name of %zu characters, and %zu is the most: %s", strlen(name),
			  sizeof n->n_name - 1, name);
	if (sim_report->p_name_nr == SIM_NAMES)
		usim_fail("more than %d names", SIM_NAMES);
	sim_report->p_name_nr++;
	snprintf(n->n_name, sizeof n->n_name, "%s", name);
	n->n_is_maybe = is_maybe;
	return n;
}

/* A run draws, by the name, whether the name ever says yes, and how often. */
int usim_maybe(const char *name)
{
	uint64_t draw = sim_seed;
	struct sim_name *n;
	const char *at;
	bool yes;

	if (!sim_is_on || sim_self() == NULL)
		return 0;
	n = name_of(name, true);
	if (sim_armed_nr > 0)
		sim_step_armed(sim_self()->b_host, AT_STATE, n->n_name);
	for (at = name; *at != 0; at++)
		draw = sim_mix(draw + (unsigned char)*at);
	n->n_asked++;
	yes = sim_below(DRAW_PROGRAM, 4u << (draw >> 8) % 6) == 0 && draw % 2 == 0;
	n->n_true += yes;
	if (yes)
		sim_mark_state(sim_self()->b_host, name);
	return yes;
}

void usim_sometimes(int cond, const char *name)
{
	struct sim_name *n;

	if (!sim_is_on || sim_self() == NULL)
		return;
	n = name_of(name, false);
	n->n_asked++;
	n->n_true += cond != 0;
	if (!cond)
		return;
	sim_mark_state(sim_self()->b_host, name);
	if (sim_armed_nr > 0)
		sim_step_armed(sim_self()->b_host, AT_STATE, n->n_name);
}
