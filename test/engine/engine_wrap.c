/* SPDX-License-Identifier: MIT */
/* engine_wrap: numbers of tasks and batches, and counts of pins, never wrap. */
/* VARIANTS: once */
/* LIBS: -Wl,-z,muldefs */

/*
 * Generations of slots and batches begin shortly before they wrap. An old number
 * stays unknown, also to the next engine. Pins are refused at their bound, and
 * statistics of very many are a bound, too.
 */
#include "tasks.h"
#define add	bus_add			/* counts.h has others */
#define get	bus_get
#include "bus.c"

#define EACH	12
#define SLOTS	3			/* in use at a time */

static engine_id old[2 * EACH * SLOTS];
static int olds;

static int quick(void *arg)
{
	return 7;
}

/* Nor is the number of a slot that is free. */
static void are_unknown(void)
{
	engine_id next = (engine_id)1 << 32;
	int i;

	for (i = 0; i < olds; i++)
		CHECK(engine_wait(old[i], NULL, UNOW) == -ESRCH &&
		      engine_wait(old[i] + next, NULL, UNOW) == -ESRCH);
}

static void tasks(void)
{
	struct engine_job j = { .j_f = quick };
	engine_id id[SLOTS];
	int i, k, result;

	for (i = 0; i < EACH; i++) {
		for (k = 0; k < SLOTS; k++)
			CHECK_IS(engine_spawn(&j, &id[k], UNEVER), 0);
		are_unknown();
		for (k = 0; k < SLOTS; k++) {
			CHECK_IS(engine_wait(id[k], &result, UNEVER), 0);
			CHECK(result == 7 && engine_free(id[k]) == 0);
			old[olds++] = id[k];
		}
		are_unknown();
	}
}

/* A generation is even while the batch is not in use. */
static void batches(void)
{
	int i, was = -1, now;

	engine_all.e_batch[0].b_generation = INT32_MAX / ENGINE_BATCHES - 1 - 4;
	for (i = 0; i < EACH; i++) {
		now = engine_batch_make();
		CHECK(now > 0 && now != was && engine_batch_fd(now) >= 0);
		CHECK_IS(now % ENGINE_BATCHES, 0);	/* the same place */
		CHECK_IS(engine_batch_fd(was), -EINVAL);
		CHECK_IS(engine_batch_free(now), 0);
		was = now;
	}
}

static void pins(void)
{
	static char bytes[8];
	void *data;

	CHECK_IS(engine_bus_push("a", bytes, sizeof bytes, NULL, NULL), 0);
	bus.bu_pins = LONG_MAX - 1;
	CHECK_IS(engine_bus_get("a", &data, NULL), 0);
	CHECK_IS(engine_bus_get("a", NULL, NULL), -EOVERFLOW);
	CHECK_IS(engine_bus_pop("a", NULL, NULL), -EOVERFLOW);
	CHECK_IS(engine_bus_unpin(data), 0);
	CHECK_IS(engine_bus_pop("a", &data, NULL), 0);
	CHECK_IS(engine_bus_unpin(data), 0);
	bus.bu_pins = 0;
}

static void told(void)
{
	static struct mem m = { .m_size = SIZE_MAX / 4 };
	static struct pin p[2];
	static struct task t = { .t_pins = p };
	size_t size;
	int nr;

	p[0] = (struct pin){ .pn_mem = &m, .pn_next = &p[1], .pn_nr = 1 };
	p[1] = (struct pin){ .pn_mem = &m, .pn_nr = 2 };
	engine_bus_pinned(&t, &size, &nr);
	CHECK(nr == 3 && size == 3 * (SIZE_MAX / 4));
	p[1].pn_nr = 4;
	engine_bus_pinned(&t, &size, &nr);
	CHECK(nr == 5 && size == SIZE_MAX);
	p[1].pn_nr = LONG_MAX;
	engine_bus_pinned(&t, &size, &nr);
	CHECK(nr == INT_MAX && size == SIZE_MAX);
}

int main(int argc, char **argv)
{
	int i;

	check_start(argc, argv);
	told();
	engine_all.e_generation = UINT_MAX - EACH + 1;
	for (i = 0; i < 2; i++) {
		begin((struct engine_config){ .c_workers = 1,
					      .c_shared_memory = 1000 });
		tasks();
		batches();
		pins();
		finish();
		CHECK_IS(engine_all.e_generation % 2, 0);
	}
	return 0;
}
