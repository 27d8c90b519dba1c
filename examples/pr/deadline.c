/* SPDX-License-Identifier: MIT */
/* deadline.c: threads with deadlines; the earliest deadline runs first. */

#include <stdio.h>
#include <usched/uproc.h>

struct dl_thread {
	struct uproc_thread dt_thread;	/* first */
	struct dl_thread   *dt_next;	/* that can run, in order */
};

struct dl_proc {
	struct uproc      dp_proc;	/* first: s_next() casts */
	struct dl_thread *dp_first;
};

/* The argument of begin(). Its maker keeps it until the thread has ended. */
struct job {
	void      (*j_f)(void *);
	void       *j_arg;
	long        j_deadline;
};

static void begin(void *arg)
{
	struct job *j = arg;

	j->j_f(j->j_arg);
}

static long deadline(const struct dl_thread *t)
{
	return ((struct job *)t->dt_thread.t_stack.u_arg)->j_deadline;
}

static void put(struct dl_proc *r, struct dl_thread *t)
{
	struct dl_thread **at = &r->dp_first;

	while (*at != NULL && deadline(*at) <= deadline(t))
		at = &(*at)->dt_next;
	t->dt_next = *at;
	*at = t;
}

static struct ustack *next(struct usched *s)
{
	struct dl_proc *r = (struct dl_proc *)s;
	struct usched_queue *q = &r->dp_proc.p_queue;
	struct dl_thread *t;

	uproc_drain(&r->dp_proc);
	if (uproc_queue_empty(q) && r->dp_first == NULL &&
	    !uproc_look(&r->dp_proc))
		return NULL;
	while (!uproc_queue_empty(q))
		put(r, (struct dl_thread *)uproc_queue_get(q));
	t = r->dp_first;
	r->dp_first = t->dt_next;
	return &t->dt_thread.t_stack;
}

static const struct uproc_ops ops = {
	.op_sched.s_next = next,
	.op_size         = sizeof(struct dl_proc),
	.op_thread       = sizeof(struct dl_thread)
};

static void say(void *arg)
{
	printf("%s\n", (char *)arg);
}

int main(void)
{
	static struct job job[] = {
		{ say, "third", 900000 }, { say, "first", 100000 },
		{ say, "second", 500000 }
	};
	struct uproc_set *set = NULL;
	long left;
	int i;

	if (uproc_init(&set, &ops, 1, 0) != 0)
		return 1;
	for (i = 0; i < 3; i++)
		if (!uproc_make(uproc_at(set, 0), begin, &job[i], 0))
			return 1;
	return uproc_start(set) != 0 || uproc_fini(&set, &left) != 0;
}
