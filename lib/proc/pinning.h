/* SPDX-License-Identifier: MIT */
/* pinning.h: which cpus processors run on. A part of uproc.c. */

#ifndef UPROC_PINNING_H
#define UPROC_PINNING_H

/*
 * A pinned processor stays on its cpu. Without pinning the kernel often moves a
 * processor to the cpu of its waker. This made messages between two processors
 * 2 to 6 times slower.
 *
 * But native threads, processes and other schedulers inherit the mask of their
 * maker. So a set remembers the mask of the native thread that made it
 * (set_cpus). If that native thread is a processor, the new set copies the mask
 * from the processor's set. native_threads.h and ucall.c unpin the maker while they
 * create native threads, and fork() unpins the child. No library sees the
 * native threads and processes that a thread makes by pthread_create(),
 * system() or posix_spawn(). For these there is uproc_pinning().
 *
 * A driven set is not pinned: its native thread is the program's. A single processor is
 * not pinned. It has no other processor to keep away
 * from, and all such programs would share the first cpu.
 *
 * P4. A processor is pinned exactly while p_pinned is set. Only its own native
 *     thread changes p_pinned.
 *
 * REJECTED
 *
 * A processor that leaves a cpu on which others compute, as schedstat of Linux tells:
 * the kernel moves threads only to a cpu that is idle at that moment. Beside a program
 * that computes on one of two cpus, `fanin` of ws took 0.7 of the time, but `sieve` up
 * to 1.5. Programs that know better set USCHED_PIN=0.
 */

#include "uproc_inside.h"
#include "cpus.h"

#include <unistd.h>

/* Returns the cpus of the caller's set; if it is no processor, its own. */
static struct ucpus *cpus_of_caller(void)
{
	struct uproc *p = uproc_native();

	return p != NULL ? ucpus_copy(p->p_set->set_cpus) : ucpus_get();
}

int uproc_cpus(void)
{
	struct ucpus *c = cpus_of_caller();
	int nr, most = ucpus_most();

	if (c == NULL)
		return -ENOMEM;
	nr = ucpus_nr(c);
	free(c);
	if (nr == 0)
		nr = (int)sysconf(_SC_NPROCESSORS_ONLN);
	nr = nr < most ? nr : most;
	return nr > 0 ? nr : 1;
}

bool uproc_pin(bool on)
{
	struct uproc *p = uproc_native();
	bool was = p != NULL && p->p_pinned;

	if (p == NULL || was == on || !p->p_set->set_pinned)
		return was;
	if (on)
		ucpus_use_nth(p->p_set->set_cpus, p->p_nr);
	else
		ucpus_use(p->p_set->set_cpus);
	p->p_pinned = on;
	return was;
}

int uproc_pinning(struct uproc_set *set, int on)
{
	int rc;

	if (uproc_here(set) != NULL) {
		(void)uproc_pin(on != 0);
		return 0;
	}
	rc = is_new(set);
	if (rc == 0)
		set->set_pins = on != 0;
	return rc;
}

static struct usched_env env_pin = {
	.e_name = "USCHED_PIN", .e_known = "0, 1"
};

static __attribute__((constructor)) void env_pin_load(void)
{
	(void)usched_env_add(&env_pin);
}

/* Decides whether processors are pinned. The environment overrides all else. */
static void pinned_init(struct uproc_set *set)
{
	const char *value = usched_env(&env_pin);

	set->set_pinned = set->set_pins < 0 ? set->set_nr > 1 : set->set_pins;
	if (value != NULL)
		set->set_pinned = strcmp(value, "0") != 0;
	if (set->set_drive != NULL)
		set->set_pinned = false;
}

#endif /* UPROC_PINNING_H */
