/* SPDX-License-Identifier: MIT */
/* sync_plain: locks wake a thread of a plain dispatcher only while it waits. */
/* VARIANTS: once */

/*
 * s_wake() makes a thread able to run that waits in s_wait(), as uwait.h says. So a
 * writer that was woken, and takes the read-write lock itself, does not wake
 * itself. In real time, as such wakes differ under virtual time.
 */
#include "check.h"
#include "plain.h"
#include "usync.h"

#define NR	3
#define ROUNDS	10

static struct tiny plain;
static struct urw rw;
static struct umutex mutex;
static int done;

static void wake_who_waits(struct usched *s, struct ustack *u)
{
	CHECK(u != ustack_self() && ((struct plain_thread *)u)->pt_wakes < 0);
	plain_wake(s, u);
}

static void use(void *arg)
{
	intptr_t nr = (intptr_t)arg;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		CHECK_IS(nr == 0 ? urw_read(&rw, UNEVER) :
			 urw_write(&rw, UNEVER), 0);
		CHECK_IS(u_sleep(UNOW), 0);
		urw_unlock(&rw);
		CHECK_IS(umutex_lock(&mutex, UNEVER), 0);
		CHECK_IS(u_sleep(UNOW), 0);
		umutex_unlock(&mutex);
	}
	done++;
}

static void run(int lanes)
{
	intptr_t nr;

	done = 0;
	CHECK_IS(plain_init(&plain, lanes), 0);
	plain.t_sched.s_wake = wake_who_waits;
	for (nr = 0; nr < NR; nr++)
		CHECK_IS(plain_make(&plain.t_sched, use, (void *)nr), 0);
	usched_run(&plain.t_sched);
	CHECK(done == NR && urw_busy(&rw) == 0 && umutex_busy(&mutex) == 0);
	plain_fini(&plain);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	run(0);
	if (tiny_has_lanes())
		run(4);
	return 0;
}
