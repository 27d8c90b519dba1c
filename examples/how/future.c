/* SPDX-License-Identifier: MIT */
/* future.c: a value that comes later, for any number of threads that wait. */
#include <stdio.h>
#include <usched/all.h>

static struct future {
	struct ugroup pending;
	int           value;
} answer;

static int future_begin(struct future *f)
{
	return ugroup_add(&f->pending, 1);
}

static void future_set(struct future *f, int value)
{
	f->value = value;
	ugroup_done(&f->pending);	/* all that wait go on */
}

static int future_get(struct future *f, int *value, utime_ns until)
{
	int rc = ugroup_wait(&f->pending, until);

	if (rc == 0)
		*value = f->value;
	return rc;
}

static int think(void *arg)
{
	int rc = u_sleep(uafter(100 * UTIME_MS));

	(void)arg;
	future_set(&answer, 42);
	return rc;
}

static int ask(void *arg)
{
	int value = 0, rc = future_get(&answer, &value, uafter(UTIME_S));

	(void)arg;
	printf("the answer: %d\n", value);
	return rc;
}

static int run(void *arg)
{
	struct uscope *s;
	int rc = uscope_begin(&s, UNEVER), e;

	(void)arg;
	if (rc != 0)
		return rc;
	if ((rc = future_begin(&answer)) == 0 && (rc = uscope_go(s, think, NULL)) == 0)
		for (int i = 0; rc == 0 && i < 2; i++)
			rc = uscope_go(s, ask, NULL);
	if (rc != 0)
		uscope_cancel(s);
	e = uscope_end(&s);
	return rc != 0 ? rc : e;
}

int main(void)
{
	return usched_main(run, NULL);
}
