/* SPDX-License-Identifier: MIT */
/* VARIANTS: once */
/*
 * join_nomem: the wait of a join fails for lack of memory, while the other thread
 * ends elsewhere. The join succeeds, and takes the wake of the end, which comes
 * late.
 */

#include "check.h"
#include "uproc.h"

#include <errno.h>

#define ROUNDS	200

static struct uproc_set *set;
static long ended, joined;

static struct ustack *next(struct usched *s)
{
	struct uproc *p = (struct uproc *)s;

	return uproc_look(p) ? &uproc_queue_get(&p->p_queue)->t_stack : NULL;
}

/* Fails for lack of memory, after the other thread has ended. */
static int bad_wait(struct usched *s)
{
	struct uproc_thread *t = (struct uproc_thread *)ustack_self();

	if (t->t_wakes.w_count > 0)
		return uproc_wait();
	while (__atomic_load_n(&ended, __ATOMIC_SEQ_CST) == 0)
		usleep(10);
	return -ENOMEM;
}

static void child(void *arg)
{
	__atomic_store_n(&ended, 1, __ATOMIC_SEQ_CST);
}

static void parent(void *arg)
{
	struct uproc_thread *self = (struct uproc_thread *)ustack_self();
	struct uproc_thread *t;
	int i, rc;

	for (i = 0; i < ROUNDS; i++) {
		__atomic_store_n(&ended, 0, __ATOMIC_SEQ_CST);
		t = uproc_make(uproc_at(set, 1), child, NULL, UPROC_JOIN);
		CHECK(t != NULL);
		/* If that was too early, the other thread is still there. */
		while ((rc = uproc_join(t)) == -ENOMEM)
			;
		CHECK_IS(rc, 0);
		CHECK_IS(self->t_wakes.w_count, 0);
		joined++;
	}
}

int main(int argc, char **argv)
{
	static const struct uproc_ops ops = {
		.op_sched = { .s_next = next, .s_wait = bad_wait }
	};
	long left;

	check_start(argc, argv);
	CHECK_IS(uproc_init(&set, &ops, 2, 0), 0);
	CHECK(uproc_make(uproc_at(set, 0), parent, NULL, 0) != NULL);
	CHECK_IS(uproc_start(set), 0);
	CHECK(uproc_fini(&set, &left) == 0 && left == 0);
	CHECK_IS(joined, ROUNDS);
	return 0;
}
