/* SPDX-License-Identifier: MIT */
/* argument.c: an argument is kept while its thread is being made: gc.sh. */

/*
 * Threads of two processors make threads in scopes, or with handles, whose argument
 * nothing else holds, while another thread collects again and again.
 */
#include "../../../examples/collector.h"
#include "check.h"
#include <usched/all.h>

#include <string.h>

#define MAKERS	5
#define MAGIC	0x1234567

struct cell {
	long         magic;
	struct cell *next;
	char         pad[100];
};

static utime_ns until;

static NOINLINE struct cell *cons(struct cell *next)
{
	struct cell *c = GC_MALLOC(sizeof *c);

	c->magic = MAGIC;
	c->next  = next;
	return c;
}

static NOINLINE void garbage(int nr)
{
	while (nr-- > 0)
		memset(GC_MALLOC(sizeof(struct cell)), 0xaa, sizeof(struct cell));
}

static int has(void *arg)
{
	struct cell *c = arg;

	garbage(10);
	CHECK(c->magic == MAGIC && c->next->magic == MAGIC);
	return 0;
}

static void *has_handle(void *arg)
{
	has(arg);
	return NULL;
}

static void makes(void *handles)
{
	struct uscope *s;
	struct uthread *t;
	int i;

	while (unow() < until) {
		CHECK_IS(uscope_begin(&s, UNEVER), 0);
		for (i = 0; i < 4 && handles == NULL; i++)
			CHECK_IS(uscope_go(s, has, cons(cons(NULL))), 0);
		if (handles != NULL) {
			CHECK_IS(uthread_make(&t, has_handle, cons(cons(NULL)), NULL), 0);
			CHECK_IS(uthread_join(t, NULL, UNEVER), 0);
		}
		CHECK_IS(uscope_end(&s), 0);
	}
}

static void collects(void *arg)
{
	(void)arg;
	while (unow() < until) {
		GC_gcollect();
		CHECK_IS(u_sleep(uafter(100 * UTIME_US)), 0);
	}
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	CHECK_IS(collector_start(), 0);
	until = uafter(2 * UTIME_S);
	CHECK_IS(rr_init(2, 0), 0);
	for (i = 0; i < MAKERS; i++)
		CHECK(rr_thread_init(makes, i < MAKERS - 1 ? NULL : &until) != NULL);
	CHECK(rr_thread_init(collects, NULL) != NULL);
	CHECK_IS(rr_start(), 0);
	CHECK_IS(rr_fini(), 0);
	printf("%lu collections\n", (unsigned long)GC_get_gc_no());
	return 0;
}
