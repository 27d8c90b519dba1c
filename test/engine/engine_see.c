/* SPDX-License-Identifier: MIT */
/* engine_see: named memory loses and leaks nothing; stacks and states show. */
/* VARIANTS: once */

/*
 * Sixteen workers race to push, pin and pop a single name: each piece of memory
 * is released once, after its last pin, also if a task fails, is cancelled, or
 * forgets its pins. The limit holds. A task that waits is described with the
 * function that waits, its worker and its pins; so are the workers.
 */
#include "tasks.h"
#include "usync.h"

#include <pthread.h>

long engine_bus_steps(void);		/* bus.c: records looked at */

#define ROUNDS	300

static long pushed, released;
static struct usem gate;
static long at_gate_nr;

static engine_id spawn(int (*f)(void *), void *arg, const char *name)
{
	struct engine_job j = { .j_f = f, .j_arg = arg, .j_name = name };
	engine_id id;

	CHECK_IS(engine_spawn(&j, &id, UNEVER), 0);
	return id;
}

/* A piece that is released twice, or read after that, is found. */
static void release(void *data, void *arg)
{
	long *piece = data;

	CHECK(arg == &released && piece[0] == 1234567 && piece[1] == ~1234567L);
	piece[0] = 0;
	free(piece);
	add(&released, 1);
}

static void push(void)
{
	long *piece = malloc(64);
	int rc;

	CHECK(piece != NULL);
	piece[0] = 1234567;
	piece[1] = ~1234567L;
	rc = engine_bus_push("the name", piece, 64, release, &released);
	CHECK(rc == 0 || rc == -EEXIST || rc == -ENOSPC);
	if (rc == 0)
		add(&pushed, 1);
	else
		free(piece);
}

static void use(bool pop, bool unpin)
{
	const long *piece;
	void *data;
	size_t size;
	int rc = pop ? engine_bus_pop("the name", &data, &size) :
		engine_bus_get("the name", &data, &size);

	if (rc == -ENOENT)
		return;
	CHECK(rc == 0 && size == 64);
	piece = data;
	CHECK(piece[0] == 1234567 && piece[1] == ~1234567L);
	if (unpin) {
		CHECK_IS(engine_bus_unpin(data), 0);
		CHECK_IS(engine_bus_unpin(&rc), -ESRCH);
	}
}

static int races(void *arg)
{
	unsigned x = (unsigned)(intptr_t)arg;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		x = x * 1664525 + 1013904223;
		if (x >> 30 == 0)
			push();
		else
			use(x >> 30 == 1, x >> 29 & 1);
		if (i % 64 == 0)
			(void)u_sleep(uafter(UTIME_US));
	}
	return x >> 31 ? -EIO : 0;
}

static void race(void)
{
	engine_id id[16];
	int i;

	begin((struct engine_config){ .c_workers = 16,
				      .c_shared_memory = 10000 });
	for (i = 0; i < 16; i++)
		id[i] = spawn(races, (void *)(intptr_t)(check_seed + i), NULL);
	(void)engine_cancel(id[3]);
	CHECK_IS(engine_wait_all(UNEVER), 0);
	CHECK_IS(stats().shared_memory_pins, 0);
	CHECK_THAT(stats().shared_memory_used, <=, 64 + 100);
	CHECK_THAT(engine_bus_clear(), <=, 1);
	CHECK_IS(stats().shared_memory_used, 0);
	CHECK(get(&pushed) > 0 && get(&pushed) == get(&released));
	finish();
}

/* Copies, limits, and pins of the program. */
static void plain(void)
{
	static char space[500];
	char text[100] = "some bytes";
	void *data, *again;
	size_t size;

	size_t record;

	begin((struct engine_config){ .c_workers = 1, .c_shared_memory = 500 });
	CHECK_IS(engine_bus_push("nothing", NULL, 0, NULL, NULL), 0);
	record = stats().shared_memory_used;	/* of a name of one to 8 bytes */
	CHECK(record >= 8 && record < 100);
	CHECK_IS(engine_bus_push("a", text, sizeof text, NULL, NULL), 0);
	CHECK_IS(engine_bus_push("a", text, 1, NULL, NULL), -EEXIST);
	CHECK_IS(engine_bus_push("b", text, 401 - 3 * record, NULL, NULL),
		 -ENOSPC);
	CHECK_IS(engine_bus_push("", text, 1, NULL, NULL), -EINVAL);
	CHECK_IS(engine_bus_push(NULL, text, 1, NULL, NULL), -EINVAL);
	CHECK_IS(engine_bus_push("b", NULL, 1, NULL, NULL), -EINVAL);
	memset(text, 0, sizeof text);
	CHECK(engine_bus_get("a", &data, &size) == 0 && size == sizeof text);
	CHECK(strcmp(data, "some bytes") == 0 && data != text);
	CHECK(engine_bus_pop("a", &again, NULL) == 0 && again == data);
	CHECK_IS(engine_bus_get("a", &again, NULL), -ENOENT);
	CHECK_IS(stats().shared_memory_used, 100 + 2 * record);
	CHECK_IS(engine_bus_push("a", space, 400 - 3 * record, NULL, NULL), 0);
	CHECK_IS(stats().shared_memory_available, 0);
	CHECK(engine_bus_unpin(data) == 0 && engine_bus_unpin(data) == 0);
	CHECK_IS(engine_bus_unpin(data), -ESRCH);
	CHECK_IS(engine_bus_get("a", &data, NULL), 0);
	CHECK_IS(engine_bus_clear(), 2);
	CHECK_IS(stats().shared_memory_used, 400 - 2 * record);
	CHECK(engine_shutdown(UNEVER) == 0 && engine_fini() == -EBUSY);
	CHECK(engine_bus_unpin(data) == 0 && engine_fini() == 0);
}

#define MANY	100000

/*
 * Each call looks at a few records, with 100,000 names and as many pins. How many
 * share a bucket with "7", on which half of the calls work, is chance, so the
 * bounds are wide. A table that does not grow looks at hundreds.
 */
static void many(void)
{
	static void *data[MANY];
	char name[32];
	long i, steps = engine_bus_steps();

	begin((struct engine_config){ .c_workers = 1,
				      .c_shared_memory = 100L * MANY });
	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof name, "%ld", i);
		CHECK_IS(engine_bus_push(name, &i, sizeof i, NULL, NULL), 0);
	}
	CHECK_IS(engine_bus_push("no room", data, 16 * MANY, NULL, NULL),
		 -ENOSPC);
	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof name, "%ld", i);
		CHECK_IS(engine_bus_get(name, &data[i], NULL), 0);
		CHECK_IS(engine_bus_get("7", NULL, NULL), 0);
		CHECK_IS(*(long *)data[i], i);
	}
	CHECK_THAT(engine_bus_steps() - steps, <, 24L * MANY);
	steps = engine_bus_steps();
	for (i = 0; i < MANY; i++)
		CHECK(engine_bus_unpin(data[i]) == 0 &&
		      engine_bus_unpin(data[7]) == 0);
	CHECK_IS(engine_bus_unpin(data[0]), -ESRCH);
	CHECK_IS(engine_bus_unpin(data[7]), -ESRCH);
	CHECK_THAT(engine_bus_steps() - steps, <, 12L * MANY);
	CHECK_IS(stats().shared_memory_names, MANY);
	CHECK_IS(engine_bus_clear(), MANY);
	CHECK_IS(stats().shared_memory_used, 0);
	finish();
}

/* Waits at a depth that the stack shows. */
static NOINLINE int deepest(void)
{
	int rc = usem_wait(&gate, UNEVER);

	__asm__ volatile("" : "+r"(rc));
	return rc;
}

static NOINLINE int middle(void)
{
	int rc = deepest();

	__asm__ volatile("" : "+r"(rc));
	return rc;
}

static int outermost(void *arg)
{
	int rc;

	if (arg != NULL)
		CHECK_IS(engine_bus_get(arg, NULL, NULL), 0);
	add(&at_gate_nr, 1);
	rc = middle();
	__asm__ volatile("" : "+r"(rc));
	return rc;
}

static bool shows(const struct engine_stack *k, const char *function)
{
	int i;

	for (i = 0; i < k->k_frames; i++)
		if (strcmp(k->k_frame[i].f_function, function) == 0)
			return true;
	return false;
}

static void stacks(int c)
{
	struct engine_stack k;
	engine_id id[20];
	int i;

	begin((struct engine_config){ .c_workers = c, .c_shared_memory = 999 });
	CHECK_IS(engine_bus_push("pinned", (void *)"0123456789", 10, NULL,
		 NULL), 0);
	at_gate_nr = 0;
	for (i = 0; i < 20; i++)
		id[i] = spawn(outermost, i % 2 ? "pinned" : NULL, "waits");
	for (i = 0; i < 20; i++) {
		do
			CHECK_IS(engine_get_call_stack(id[i], &k, i == 0,
				 UNEVER), 0);
		while (k.k_stage != ENGINE_WAITS);
		CHECK(k.k_id == id[i] && strcmp(k.k_name, "waits") == 0);
		CHECK(strcmp(k.k_waits_for, "semaphore") == 0 ||
		      strcmp(k.k_waits_for, "sem") == 0);
		CHECK_THAT(k.k_since, <=, k.k_time);
		CHECK(k.k_thread >= 0 && k.k_thread < c);
		CHECK(k.k_pins == i % 2 && k.k_pinned == (i % 2 ? 10 : 0));
		if (k.k_frames == 0)
			continue;		/* this build cannot walk */
		CHECK(shows(&k, "deepest") && shows(&k, "middle"));
		CHECK(shows(&k, "outermost"));
	}
	CHECK_IS(stats().shared_memory_pins, 10);
	CHECK_IS(engine_cancel(id[1]), 1);
	CHECK_IS(engine_wait(id[1], NULL, UNEVER), 0);
	CHECK_IS(stats().shared_memory_pins, 9);
	for (i = 0; i < 19; i++)
		CHECK_IS(usem_post(&gate), 0);
	CHECK_IS(engine_wait_all(UNEVER), 0);
	CHECK_IS(engine_get_call_stack(id[0], &k, true, UNEVER), 0);
	CHECK(k.k_stage == ENGINE_ENDED && k.k_frames == 0);
	CHECK_IS(stats().shared_memory_pins, 0);
	finish();
}

/* While tasks wait, move and end, stacks are asked for all the time. */
static int moves(void *arg)
{
	int i;

	for (i = 0; i < 30; i++)
		CHECK_IS(u_sleep(uafter((i % 3) * 20 * UTIME_US)), 0);
	return 0;
}

static void asks(void)
{
	struct engine_stack k;
	engine_id id[50];
	long walked = 0;
	int i, round, rc;

	begin((struct engine_config){ .c_workers = 2 });
	for (i = 0; i < 50; i++)
		id[i] = spawn(moves, NULL, "moves");
	for (round = 0; round < 20; round++)
		for (i = 0; i < 50; i += 7) {
			rc = engine_get_call_stack(id[i], &k, false,
				uafter(round % 2 ? UTIME_S : UTIME_US));
			CHECK_IS(rc, 0);
			walked += k.k_frames > 0;
			CHECK(k.k_frames == 0 || shows(&k, "moves"));
		}
	CHECK_IS(engine_wait_all(UNEVER), 0);
	finish();
	(void)walked;
}

static int runs(void *arg)
{
	struct engine_stack k;

	CHECK_IS(engine_get_call_stack(engine_self(), &k, false, UNEVER), 0);
	CHECK(k.k_stage == ENGINE_RUNS && k.k_frames == 0);
	__atomic_store_n((int *)arg, 1, __ATOMIC_SEQ_CST);
	while (!engine_stopping())
		check_yield();
	return 0;
}

/* A helper's task runs since its begin. */
static int since(void *arg)
{
	struct engine_stack k;

	CHECK_IS(engine_get_call_stack(engine_self(), &k, false, UNOW), 0);
	CHECK(k.k_since >= *(const utime_ns *)arg && k.k_since <= k.k_time);
	return 0;
}

static void workers(void)
{
	struct engine_thread h;
	struct engine_stats s;
	engine_id id, other;
	utime_ns before;
	int began = 0;

	begin((struct engine_config){ .c_workers = 3, .c_host_workers = 2 });
	CHECK(engine_thread_info(0, &h) == 0 && h.h_state == ENGINE_IDLE);
	CHECK(!h.h_host && h.h_last_active_ms == -1);
	at_gate_nr = 0;
	other = spawn(outermost, NULL, "other");
	until(&at_gate_nr, 1);
	do
		CHECK_IS(engine_thread_info(0, &h), 0);
	while (h.h_state != ENGINE_WAITING);
	id = spawn(runs, &began, "a name that is far too long");
	while (__atomic_load_n(&began, __ATOMIC_SEQ_CST) == 0)
		check_yield();
	CHECK(engine_thread_info(0, &h) == 0 && h.h_state == ENGINE_RUNNING);
	CHECK(h.h_current == id && strcmp(h.h_task, "a name that is far ") == 0);
	CHECK(h.h_cpu_ms >= 0 && h.h_completed == 0);
	s = stats();
	CHECK(s.c_threads_active == 1 && s.c_threads_idle == 0);
	CHECK(s.gil_threads_active == 0 && s.gil_threads_idle == 2);
	CHECK(s.tasks_running == 2 && s.tasks_in_queue == 0);
	before = unow();
	(void)spawn(since, &before, NULL);
	CHECK_IS(engine_help(-1, 1, UNOW), 1);
	CHECK(engine_cancel(id) == 1 && engine_wait(id, NULL, UNEVER) == 0);
	CHECK(engine_thread_info(0, &h) == 0 && h.h_completed == 1);
	CHECK_THAT(h.h_last_active_ms, >=, 0);
	CHECK_IS(usem_post(&gate), 0);
	CHECK_IS(engine_wait(other, NULL, UNEVER), 0);
	s = stats();
	CHECK(s.tasks_completed == 3 && s.avg_task_latency_ms > 0);
	CHECK(engine_thread_info(2, &h) == 0 && h.h_host);
	CHECK_IS(engine_thread_info(3, &h), -ESRCH);
	finish();
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	plain();
	many();
	race();
	stacks(1);
	stacks(2);
	asks();
	workers();
	return 0;
}
