/* SPDX-License-Identifier: MIT */
/* engine: no task is lost, doubled or leaked; limits, order and ends hold. */
/* VARIANTS: once */

/*
 * Tasks run once, with their arguments, and tell their results by waits,
 * call-backs and batches. Tasks that wait let others run. Limits make callers
 * wait, or refuse. Priorities order the queue, also after a change, and the
 * lowest level begins within ENGINE_BOUND. Cancellation, pauses and shutdown
 * end all of it, and no bytes, pins or tasks are left. Numbers that were given
 * back, and calls at the wrong time, are errors.
 */
#include "tasks.h"
#include "uscope.h"
#include "usync.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

#define MANY	20000

static long calls, told, sum;
static struct usem gate;

static int count(void *arg)
{
	add(&calls, 1);
	return (int)(intptr_t)arg;
}

static void tell(engine_id id, void *arg, int result)
{
	CHECK(id != 0);
	if (result != -ECANCELED)
		CHECK_IS(result, (int)(intptr_t)arg);
	add(&told, 1);
}

static int at_gate(void *arg)
{
	int rc = usem_wait(&gate, UNEVER);

	add(&calls, 1);
	return rc != 0 ? rc : (int)(intptr_t)arg;
}

static void open_gate(int nr)
{
	while (nr-- > 0)
		CHECK_IS(usem_post(&gate), 0);
}

static engine_id spawn(int (*f)(void *), intptr_t arg, int priority)
{
	struct engine_job j = { .j_f = f, .j_arg = (void *)arg,
				.j_priority = priority, .j_name = "a task" };
	engine_id id = 0;

	CHECK_IS(engine_spawn(&j, &id, UNEVER), 0);
	CHECK(id != 0);
	return id;
}

/* Results, of tasks that were submitted in all ways. */
static void results(int c, int policy)
{
	static engine_id id[MANY];
	struct engine_job j = { .j_f = count, .j_end = tell,
				.j_flags = ENGINE_DETACHED };
	int i;

	doing("results");
	begin((struct engine_config){ .c_workers = c, .c_policy = policy });
	set(&calls, 0);
	set(&told, 0);
	for (i = 0; i < MANY; i++) {
		j.j_arg = (void *)(intptr_t)i;
		j.j_priority = i % ENGINE_LEVELS;
		if (i % 2)
			CHECK_IS(engine_spawn(&j, NULL, UNEVER), 0);
		else
			id[i] = spawn(count, i, i % ENGINE_LEVELS);
	}
	for (i = 0; i < MANY; i += 2)
		CHECK_IS(result_of(id[i]), i);
	CHECK_IS(engine_wait_all(UNEVER), 0);
	CHECK(get(&calls) == MANY && get(&told) == MANY / 2);
	CHECK(stats().tasks_completed == MANY && stats().tasks_in_queue == 0);
	finish();
}

/* A copy is the task's own; the original may go. */
static int adds_copy(void *arg)
{
	const int *n = arg;

	add(&sum, n[0] + n[99]);
	((int *)arg)[0] = 0;
	return 0;
}

static void copies(void)
{
	int i, n[100];
	struct engine_job j = { .j_f = adds_copy, .j_arg = n,
				.j_size = sizeof n, .j_flags = ENGINE_DETACHED };

	doing("copies");
	begin((struct engine_config){ .c_workers = 2 });
	set(&sum, 0);
	for (i = 0; i < 1000; i++) {
		n[0] = n[99] = i;
		CHECK_IS(engine_spawn(&j, NULL, UNEVER), 0);
	}
	memset(n, 0xff, sizeof n);
	CHECK_IS(engine_wait_all(UNEVER), 0);
	CHECK_IS(get(&sum), 999 * 1000);
	finish();
}

/* More tasks wait than there are workers, for tasks that are queued later. */
static void waits(int c)
{
	engine_id id[60];
	int i;

	doing("waits");
	begin((struct engine_config){ .c_workers = c });
	set(&calls, 0);
	for (i = 0; i < 60; i++)
		id[i] = spawn(at_gate, i, 0);
	for (i = 0; i < 60; i++)
		CHECK_IS(result_of(spawn(count, 7, 7)), 7);
	open_gate(60);
	for (i = 0; i < 60; i++)
		CHECK_IS(result_of(id[i]), i);
	CHECK_IS(get(&calls), 120);
	finish();
}

/* Tasks that make tasks, and wait for them. */
static int tree(void *arg)
{
	intptr_t depth = (intptr_t)arg;
	engine_id a, b;
	int left, right;

	if (depth == 0)
		return 1;
	a = spawn(tree, depth - 1, 1);
	b = spawn(tree, depth - 1, 2);
	CHECK(engine_self() != 0 && engine_self() != a);
	CHECK_IS(engine_wait(engine_self(), NULL, UNEVER), -EDEADLK);
	CHECK_IS(engine_wait_all(UNOW), -EDEADLK);
	CHECK_IS(engine_help(-1, 1, UNOW), -EDEADLK);
	CHECK_IS(engine_shutdown(UNOW), -EDEADLK);
	left = result_of(a);
	right = result_of(b);
	return left + right;
}

static void trees(int c)
{
	doing("trees");
	begin((struct engine_config){ .c_workers = c,
				      .c_tasks_per_thread = 2000 });
	CHECK_IS(result_of(spawn(tree, 8, 0)), 256);
	CHECK(engine_self() == 0 && !engine_stopping());
	finish();
}

/* The order in which tasks begin, on a single worker. */
static int order[2000];
static long order_nr;

static int note(void *arg)
{
	order[add(&order_nr, 1) - 1] = (int)(intptr_t)arg;
	return 0;
}

static void orders(int policy)
{
	struct engine_stats s;
	engine_id id[8], extra;
	int i;

	doing("orders");
	begin((struct engine_config){ .c_workers = 1, .c_policy = policy });
	CHECK_IS(engine_pause(ENGINE_START), 0);
	set(&order_nr, 0);
	for (i = 0; i < 8; i++)
		id[i] = spawn(note, i, 1 + i / 4);
	extra = spawn(note, 100, 0);
	CHECK_IS(engine_set_priority(extra, 7), 0);
	CHECK_IS(engine_set_priority(extra, 8), -EINVAL);
	CHECK_IS(engine_wait_all(uafter(UTIME_MS)), -ETIMEDOUT);
	CHECK_IS(engine_wait_all(UNOW), -EAGAIN);
	CHECK_IS(engine_wait(extra, NULL, UNOW), -EAGAIN);
	s = stats();
	CHECK(s.tasks_in_queue == 9 && get(&order_nr) == 0);
	CHECK_IS(engine_resume(ENGINE_START), 0);
	CHECK_IS(engine_wait_all(UNEVER), 0);
	CHECK_IS(engine_set_priority(extra, 7), -EALREADY);
	CHECK(order[0] == 100 && order_nr == 9);
	for (i = 0; i < 4; i++) {
		CHECK_IS(order[1 + i], policy == ENGINE_FIFO ? 4 + i : 7 - i);
		CHECK_IS(order[5 + i], policy == ENGINE_FIFO ? i : 3 - i);
	}
	for (i = 0; i < 8; i++)
		CHECK_IS(result_of(id[i]), 0);
	CHECK_IS(result_of(extra), 0);
	finish();
}

/* Each task of other levels makes the next: still the n-th of a level begins. */
static long lowest;

static int endless(void *arg)
{
	struct engine_job j = { .j_f = endless, .j_arg = arg,
				.j_priority = (int)(intptr_t)arg,
				.j_flags = ENGINE_DETACHED };

	add(&calls, 1);
	if (get(&lowest) > 0)
		CHECK_IS(engine_spawn(&j, NULL, UNEVER), 0);
	return 0;
}

/* Makes endless tasks of all levels but one. */
static void flood(int but)
{
	struct engine_job j = { .j_f = endless, .j_flags = ENGINE_DETACHED };

	for (; j.j_priority < ENGINE_LEVELS; j.j_priority++) {
		j.j_arg = (void *)(intptr_t)j.j_priority;
		if (j.j_priority != but)
			CHECK_IS(engine_spawn(&j, NULL, UNEVER), 0);
	}
}

static int low(void *arg)
{
	long nr = (intptr_t)arg + 1;

	CHECK_THAT(get(&calls), <=, nr * ENGINE_BOUND);
	add(&lowest, -1);
	return 0;
}

static void starves(int policy, int level)
{
	struct engine_job j = { .j_f = low, .j_priority = level,
				.j_flags = ENGINE_DETACHED };
	int i;

	doing("starves");
	begin((struct engine_config){ .c_workers = 1, .c_policy = policy });
	CHECK_IS(engine_pause(ENGINE_START), 0);
	set(&calls, 0);
	set(&lowest, 5);
	flood(level);
	for (i = 0; i < 5; i++) {
		j.j_arg = (void *)(intptr_t)i;
		CHECK_IS(engine_spawn(&j, NULL, UNEVER), 0);
	}
	CHECK_IS(engine_resume(ENGINE_START), 0);
	CHECK_IS(engine_wait_all(UNEVER), 0);
	CHECK_IS(get(&lowest), 0);
	finish();
}

/* Limits: refuse, wait with a deadline, wait; no more is queued than fits. */
static void *fills(void *arg)
{
	struct engine_job j = { .j_f = count, .j_flags = ENGINE_DETACHED };
	int i;

	for (i = 0; i < 500; i++) {
		CHECK_IS(engine_spawn(&j, NULL, UNEVER), 0);
		CHECK_THAT(stats().tasks_in_queue, <=, (intptr_t)arg);
	}
	return NULL;
}

static void limits(void)
{
	struct engine_job j = { .j_f = at_gate, .j_flags = ENGINE_DETACHED,
				.j_bytes = 1000 };
	pthread_t native[4];
	char big[100] = "";
	int i;

	doing("limits");
	begin((struct engine_config){ .c_workers = 2, .c_tasks = 3,
				      .c_shared_amount = 5000 });
	set(&calls, 0);
	CHECK_IS(engine_pause(ENGINE_START), 0);
	for (i = 0; i < 3; i++)
		CHECK_IS(engine_spawn(&j, NULL, UNOW), 0);
	CHECK(engine_spawn(&j, NULL, UNOW) == -EAGAIN && engine_room(0) == 0);
	CHECK_IS(engine_spawn(&j, NULL, uafter(UTIME_MS)), -ETIMEDOUT);
	CHECK_IS(engine_resume(ENGINE_START), 0);
	CHECK_IS(engine_spawn(&j, NULL, UNEVER), 0);
	while (stats().tasks_in_queue != 0)
		check_yield();
	CHECK_IS(engine_spawn(&j, NULL, UNOW), -EAGAIN);	/* bytes */
	CHECK(engine_room(0) == 1 && engine_room(j.j_bytes) == 0);
	CHECK(engine_room(5000) == -E2BIG && engine_room(SIZE_MAX) == -E2BIG);
	j.j_bytes = 5000;
	CHECK_IS(engine_spawn(&j, NULL, UNEVER), -E2BIG);
	j.j_bytes = SIZE_MAX;
	CHECK_IS(engine_spawn(&j, NULL, UNEVER), -E2BIG);
	j.j_bytes = 0;
	j.j_arg   = big;
	j.j_size  = sizeof big;
	open_gate(4);
	CHECK(engine_wait_all(UNEVER) == 0 && get(&calls) == 4);
	for (i = 0; i < 4; i++)
		CHECK_IS(pthread_create(&native[i], NULL, fills, (void *)3), 0);
	for (i = 0; i < 4; i++)
		CHECK_IS(pthread_join(native[i], NULL), 0);
	CHECK(engine_wait_all(UNEVER) == 0 && get(&calls) == 2004);
	finish();
}

/* A single place is free, while a task waits for what is queued there. */
static int holds(void *arg)
{
	until(arg, 1);
	return 0;
}

static void *resumes(void *arg)
{
	CHECK_IS(u_sleep(uafter(5 * UTIME_MS)), 0);
	CHECK_IS(engine_resume(ENGINE_START), 0);
	return arg;
}

static void last_place(void)
{
	struct engine_job j = { .j_f = holds, .j_flags = ENGINE_DETACHED };
	pthread_t native;
	long over = 0;
	int i;

	doing("last_place");
	begin((struct engine_config){ .c_workers = 1, .c_tasks = 64,
				      .c_policy = ENGINE_FIFO });
	set(&calls, 0);
	CHECK_IS(engine_pause(ENGINE_START), 0);
	j.j_arg = &over;
	for (i = 0; i < 64; i++, j.j_f = count)
		CHECK_IS(engine_spawn(&j, NULL, UNOW), 0);
	CHECK_IS(pthread_create(&native, NULL, resumes, NULL), 0);
	CHECK_IS(engine_spawn(&j, NULL, UNEVER), 0);
	set(&over, 1);
	CHECK_IS(pthread_join(native, NULL), 0);
	CHECK(engine_wait_all(UNEVER) == 0 && get(&calls) == 64);
	finish();
}

/* Cancelled in the queue: never runs. Asked to stop: its wait ends. */
static int stops(void *arg)
{
	add(&calls, 1);
	CHECK_IS(u_sleep(UNEVER), -ECANCELED);
	CHECK(engine_stopping() && u_canceled());
	return -EINTR;
}

static int not_stopped(void *arg)
{
	CHECK(!engine_stopping() && !u_canceled());
	CHECK_IS(u_sleep(uafter(UTIME_US)), 0);
	return (int)(intptr_t)arg;
}

static int spins(void *arg)
{
	set(arg, 1);
	while (!engine_stopping())
		check_yield();
	return 3;
}

static void cancels(void)
{
	engine_id id[20];
	long spun = 0;
	int i;

	doing("cancels");
	begin((struct engine_config){ .c_workers = 2 });
	set(&calls, 0);
	for (i = 0; i < 20; i++)
		id[i] = spawn(stops, i, 0);
	until(&calls, 20);
	for (i = 0; i < 20; i++)
		CHECK_IS(engine_cancel(id[i]), 1);
	for (i = 0; i < 20; i++)
		CHECK_IS(result_of(id[i]), -EINTR);
	for (i = 0; i < 20; i++)
		CHECK_IS(result_of(spawn(not_stopped, i, 0)), i);
	id[0] = spawn(spins, (intptr_t)&spun, 0);
	until(&spun, 1);
	CHECK(engine_cancel(id[0]) == 1 && engine_cancel(id[0]) >= -EALREADY);
	CHECK_IS(result_of(id[0]), 3);
	CHECK_IS(engine_pause(ENGINE_START), 0);
	id[0] = spawn(count, 0, 0);
	CHECK_IS(engine_cancel(id[0]), 0);
	CHECK_IS(engine_cancel(id[0]), -EALREADY);
	CHECK_IS(engine_set_priority(id[0], 3), -EALREADY);
	CHECK_IS(result_of(id[0]), -ECANCELED);
	CHECK_IS(engine_cancel(id[0]), -ESRCH);
	CHECK(get(&calls) == 20 && stats().tasks_canceled == 1);
	finish();
}

/* A batch wakes once for many ends, and tells each once. */
static void batches(void)
{
	struct engine_job j[100] = { { .j_f = NULL } };
	struct engine_end end[64];
	struct pollfd p;
	int i, n, b, wakes = 0, ended = 0;
	UNUSED uint64_t told_by;
	char seen[100] = "";

	doing("batches");
	begin((struct engine_config){ .c_workers = 2 });
	b = engine_batch_make();
	CHECK_THAT(b, >, 0);
	p = (struct pollfd){ .fd = engine_batch_fd(b), .events = POLLIN };
	CHECK(p.fd >= 0 && poll(&p, 1, 0) == 0);
	CHECK_IS(engine_take(b, end, 64), 0);
	for (i = 0; i < 100; i++)
		j[i] = (struct engine_job){ .j_f = count, .j_batch = b,
					    .j_arg = (void *)(intptr_t)i };
	CHECK_IS(engine_spawn_many(j, 100, NULL, UNEVER), 100);
	CHECK_IS(engine_batch_free(b), -EBUSY);
	CHECK_IS(engine_wait_all(UNEVER), 0);
#if defined(__linux__)
	CHECK_IS(read(p.fd, &told_by, sizeof told_by), sizeof told_by);
	CHECK(told_by == 1 && write(p.fd, &told_by, sizeof told_by) > 0);
#endif
	while (ended < 100) {
		CHECK_IS(poll(&p, 1, -1), 1);
		wakes++;
		n = engine_take(b, end, 64);
		CHECK_THAT(n, >, 0);
		for (i = 0; i < n; i++) {
			CHECK_IS(end[i].e_result, (int)(intptr_t)end[i].e_arg);
			CHECK(!seen[end[i].e_result]++);
			CHECK_IS(engine_free(end[i].e_id), -ESRCH);
		}
		ended += n;
	}
	CHECK(wakes == 2 && poll(&p, 1, 0) == 0);
	CHECK_IS(engine_batch_free(b), 0);
	CHECK(engine_batch_free(b) == -EINVAL && engine_batch_fd(b) == -EINVAL);
	CHECK_IS(engine_take(b, end, 1), -EINVAL);
	CHECK_IS(engine_spawn(j, NULL, UNOW), -EINVAL);
	for (i = 0; i < ENGINE_BATCHES; i++)
		CHECK_THAT(engine_batch_make(), >, 0);
	CHECK_IS(engine_batch_make(), -EMFILE);
	CHECK_IS(engine_take(b, end, 1), -EINVAL);	/* its place is taken */
	finish();
}

/* Without C workers only helpers run tasks; with them, those that they may. */
static void helps(void)
{
	struct engine_job j = { .j_f = count, .j_flags = ENGINE_C_ONLY |
				ENGINE_DETACHED };
	struct engine_thread h;
	engine_id id;
	int i, host;

	doing("helps");
	begin((struct engine_config){ .c_workers = 1, .c_host_workers = 1 });
	set(&calls, 0);
	CHECK_IS(engine_spawn(&j, NULL, UNOW), -ENOTSUP);
	CHECK_IS(engine_host_report(0, "x"), -EINVAL);
	CHECK_IS(engine_help(0, 1, UNOW), -EINVAL);
	host = engine_host_attach();
	CHECK(host == 0 && engine_host_attach() == -EAGAIN);
	CHECK_IS(engine_help(host, 1, UNOW), 0);
	CHECK_IS(engine_help(host, 1, uafter(UTIME_MS)), 0);
	id = spawn(count, 5, 0);
	for (i = 0; i < 9; i++)
		(void)spawn(count, 5, 0);
	CHECK_IS(engine_help(host, 4, UNOW), 4);
	CHECK(engine_help(-1, 100, UNOW) == 6 && get(&calls) == 10);
	CHECK(result_of(id) == 5 && stats().tasks_helped == 10);
	CHECK_IS(engine_thread_info(0, &h), 0);
	CHECK(h.h_host && h.h_completed == 4 && h.h_state == ENGINE_IDLE);
	CHECK_IS(engine_host_report(host, "a coroutine"), 0);
	CHECK(engine_thread_info(0, &h) == 0 && h.h_state == ENGINE_BLOCKED);
	CHECK_STR(h.h_task, "a coroutine");
	CHECK_IS(stats().gil_threads_active, 1);
	CHECK_IS(engine_host_report(host, NULL), 0);
	CHECK_IS(stats().gil_threads_idle, 1);
	CHECK_IS(engine_host_detach(host), 0);
	CHECK_IS(engine_host_detach(host), -EINVAL);
	finish();
}

static void *helper(void *arg)
{
	int rc;

	do
		rc = engine_help(-1, 10, UNEVER);
	while (rc > 0);
	CHECK_IS(rc, -ESHUTDOWN);
	return arg;
}

/* Helpers wait until workers are busy, and leave at the shutdown. */
static void helped(void)
{
	struct engine_job j = { .j_f = count, .j_flags = ENGINE_DETACHED };
	pthread_t native[3];
	int i;

	doing("helped");
	begin((struct engine_config){ .c_workers = 4, .c_host_workers = 2,
				      .c_tasks_per_thread = 1 });
	set(&calls, 0);
	for (i = 0; i < 3; i++)
		CHECK_IS(pthread_create(&native[i], NULL, helper, NULL), 0);
	(void)spawn(at_gate, 0, 0);
	(void)spawn(at_gate, 0, 0);
	for (i = 0; i < MANY; i++) {
		j.j_flags = ENGINE_DETACHED | (i % 3 == 0 ? ENGINE_C_ONLY : 0);
		CHECK_IS(engine_spawn(&j, NULL, UNEVER), 0);
		if (i == MANY / 2)
			open_gate(2);
	}
	CHECK_IS(engine_wait_all(UNEVER), 0);
	CHECK_IS(get(&calls), MANY + 2);
	CHECK_IS(engine_shutdown(UNEVER), 0);
	for (i = 0; i < 3; i++)
		CHECK_IS(pthread_join(native[i], NULL), 0);
	finish();
}

/* Shutdown refuses, cancels, asks, and tells all. */
static int refuses(void *arg)
{
	while (!engine_stopping())
		check_yield();
	CHECK_IS(engine_spawn(&(struct engine_job){ .j_f = count, .j_flags =
		 ENGINE_DETACHED }, NULL, UNEVER), -ESHUTDOWN);
	CHECK_IS(usem_wait(&gate, UNEVER), -ECANCELED);
	return 1;
}

static int obstinate(void *arg)
{
	until(arg, 1);
	return 2;
}

static void shutdowns(void)
{
	struct engine_job j = { .j_f = count, .j_end = tell };
	struct engine_end end[200];
	engine_id id[3];
	long go = 0;
	int i, b, result;

	doing("shutdowns");
	begin((struct engine_config){ .c_workers = 2 });
	set(&calls, 0);
	set(&told, 0);
	b = engine_batch_make();
	id[0] = spawn(refuses, 0, 7);
	id[1] = spawn(obstinate, (intptr_t)&go, 6);
	id[2] = spawn(stops, 0, 5);
	while (stats().tasks_running != 2)
		check_yield();
	j.j_batch = b;
	CHECK_IS(engine_pause(ENGINE_START), 0);
	for (i = 0; i < 100; i++)
		CHECK_IS(engine_spawn(&j, NULL, UNEVER), 0);
	CHECK_IS(engine_shutdown(uafter(10 * UTIME_MS)), -ETIMEDOUT);
	CHECK_IS(engine_fini(), -EBUSY);
	CHECK_IS(engine_spawn(&j, NULL, UNEVER), -ESHUTDOWN);
	CHECK_IS(engine_batch_make(), -ESHUTDOWN);
	CHECK_IS(engine_help(-1, 1, UNEVER), -ESHUTDOWN);
	CHECK(get(&told) == 100 && engine_take(b, end, 200) == 100);
	set(&go, 1);
	CHECK_IS(engine_shutdown(UNEVER), 0);
	CHECK(engine_wait(id[0], &result, UNEVER) == 0 && result == 1);
	CHECK(engine_wait(id[1], &result, UNEVER) == 0 && result == 2);
	CHECK_IS(engine_wait(id[2], &result, UNEVER), 0);
	CHECK(result == -EINTR || result == -ECANCELED);
	finish();
}

static void pauses(void)
{
	struct engine_job j = { .j_f = count, .j_flags = ENGINE_DETACHED };
	engine_id id;

	doing("pauses");
	begin((struct engine_config){ .c_workers = 1 });
	id = spawn(at_gate, 4, 0);
	CHECK(engine_pause(0) == -EINVAL && engine_resume(4) == -EINVAL);
	CHECK_IS(engine_pause(ENGINE_INTAKE), 0);
	CHECK_IS(engine_spawn(&j, NULL, UNOW), -EAGAIN);
	CHECK_IS(engine_spawn(&j, NULL, uafter(UTIME_MS)), -ETIMEDOUT);
	open_gate(1);
	CHECK_IS(result_of(id), 4);
	CHECK_IS(engine_resume(ENGINE_INTAKE), 0);
	CHECK_IS(engine_spawn(&j, NULL, UNOW), 0);
	CHECK_IS(engine_wait_all(UNEVER), 0);
	finish();
}

/* What is wrong is refused, and does nothing. */
static void wrong(void)
{
	struct engine_job j = { .j_f = count };
	struct engine_thread h;
	struct engine_stack k;
	engine_id id;
	int i;

	doing("wrong");
	CHECK_IS(engine_spawn(&j, &id, UNOW), -ENODEV);
	CHECK_IS(engine_wait(1, NULL, UNOW), -ENODEV);
	CHECK(engine_shutdown(UNOW) == -ENODEV && engine_fini() == -ENODEV);
	CHECK(engine_batch_make() == -ENODEV && engine_bus_clear() == -ENODEV);
	CHECK_IS(engine_init(NULL), -EINVAL);
	CHECK_IS(engine_init(&(struct engine_config){ .c_workers = 1,
		 .c_host_workers = 2 }), -EINVAL);
	CHECK_IS(engine_init(&(struct engine_config){ .c_workers = -1 }),
		 -EINVAL);
	CHECK_IS(engine_init(&(struct engine_config){ .c_tasks = -1 }),
		 -EINVAL);
	CHECK_IS(engine_init(&(struct engine_config){ .c_flags = 8 }), -EINVAL);
	begin((struct engine_config){ .c_workers = 1 });
	CHECK_IS(engine_init(&(struct engine_config){ .c_workers = 1 }),
		 -EBUSY);
	CHECK_IS(engine_spawn(&j, NULL, UNOW), -EINVAL);
	CHECK_IS(engine_spawn(&j, &id, -1), -EINVAL);
	CHECK_IS(engine_spawn_many(&j, 0, &id, UNOW), -EINVAL);
	j.j_priority = 8;
	CHECK_IS(engine_spawn(&j, &id, UNOW), -EINVAL);
	j = (struct engine_job){ .j_f = NULL };
	CHECK_IS(engine_spawn(&j, &id, UNOW), -EINVAL);
	j = (struct engine_job){ .j_f = count, .j_batch = 12345 };
	CHECK_IS(engine_spawn(&j, &id, UNOW), -EINVAL);
	for (i = 0; i < 1000; i++) {
		id = (engine_id)random() << 32 | (unsigned)random();
		CHECK_IS(engine_free(id), -ESRCH);
		CHECK_IS(engine_cancel(id), -ESRCH);
		CHECK_IS(engine_set_priority(id, 1), -ESRCH);
		CHECK_IS(engine_wait(id, NULL, UNEVER), -ESRCH);
		CHECK_IS(engine_get_call_stack(id, &k, false, UNOW), -ESRCH);
	}
	CHECK(engine_free(0) == -ESRCH && engine_take(-1, NULL, 1) == -EINVAL);
	CHECK_IS(engine_thread_info(-1, &h), -ESRCH);
	CHECK_IS(engine_thread_info(1, &h), -ESRCH);
	CHECK_IS(engine_get_stats(NULL), -EINVAL);
	for (i = 0; i < 140; i++)
		CHECK_THAT(strlen(engine_error(-i)), >, 5);
	CHECK_IS(stats().total_tasks_submitted, 0);
	finish();
}

/* The tools do not permit native threads in a child. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif

static void again(void)
{
#if !defined(SANITIZED)
	begin((struct engine_config){ .c_workers = 2 });
	CHECK_IS(engine_bus_get("x", NULL, NULL), -ENOENT);
	CHECK_IS(result_of(spawn(count, 8, 0)), 8);
	finish();
#endif
}

/* In the child of a fork all is refused, but for a new engine. */
static void forks(void)
{
	engine_id id;
	int status;
	pid_t pid;

	doing("forks");
	begin((struct engine_config){ .c_workers = 2, .c_shared_memory = 99 });
	id = spawn(at_gate, 6, 0);
	CHECK_IS(engine_bus_push("x", "data", 5, NULL, NULL), 0);
	pid = fork();
	CHECK_THAT(pid, >=, 0);
	if (pid == 0) {
		CHECK_IS(engine_wait(id, NULL, UNEVER), -ECHILD);
		CHECK_IS(engine_shutdown(UNEVER), -ECHILD);
		CHECK_IS(engine_bus_get("x", NULL, NULL), -ECHILD);
		CHECK_IS(engine_fini(), -ECHILD);
		again();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	open_gate(1);
	CHECK_IS(result_of(id), 6);
	finish();
}

int main(int argc, char **argv)
{
	int c, round;

	check_start(argc, argv);
	wrong();
	for (round = 0; round < 2; round++) {
		for (c = 1; c <= 3; c++) {
			results(c, round);
			waits(c);
			trees(c);
		}
		orders(round);
		for (c = 0; c < ENGINE_LEVELS; c++)
			starves(round, c);
		copies();
		limits();
		last_place();
		cancels();
		batches();
		helps();
		helped();
		pauses();
		shutdowns();
	}
	forks();
	return 0;
}
