/* SPDX-License-Identifier: MIT */
/* engine_edges: no wait for a task or for room is forgotten at a limit. */
/* VARIANTS: once */

/*
 * Tasks wait for tasks, and for room, at any depth, though a single task may
 * have begun. A task is run whenever it comes, though runners spin, park, or are
 * paused. A runner that is too many leaves the queue to another. Callers get
 * room in their order, and a caller that gives up leaves the room to the next.
 * Threads of rr wait for the engine while rr ends. Numbers of an old engine are
 * unknown to the next. engine_help() takes a task below others that it must not
 * run.
 */
#include "tasks.h"
#include "rr.h"
#include "uscope.h"
#include "usync.h"

#include <pthread.h>

static struct usem gate;
static long calls;

static int at_gate(void *arg)
{
	return usem_wait(&gate, UNEVER);
}

static int quick(void *arg)
{
	add(&calls, 1);
	return (int)(intptr_t)arg;
}

static engine_id spawn(int (*f)(void *), intptr_t arg)
{
	struct engine_job j = { .j_f = f, .j_arg = (void *)arg };
	engine_id id = 0;

	CHECK_IS(engine_spawn(&j, &id, UNEVER), 0);
	return id;
}

/* A task waits for its children, one after the other or both. */
static int tree(void *arg)
{
	intptr_t depth = (intptr_t)arg;
	engine_id a, b;
	int left;

	if (depth == 0)
		return 1;
	a = spawn(tree, depth - 1);
	if (depth % 2)
		return result_of(a) + result_of(spawn(tree, depth - 1));
	b = spawn(tree, depth - 1);
	left = result_of(a);
	return left + result_of(b);
}

static void trees(int c, int per_thread, int policy)
{
	begin((struct engine_config){ .c_workers = c, .c_policy = policy,
				      .c_tasks_per_thread = per_thread });
	CHECK_IS(result_of(spawn(tree, 8)), 256);
	while (stats().runners > c)	/* the others were too many */
		check_yield();
	finish();
}

/* No more begin than may, also after tasks have waited for others. */
static struct usem inner;

static int at_inner(void *arg)
{
	return usem_wait(&inner, UNEVER);
}

static int nests(void *arg)
{
	CHECK_IS(result_of(spawn(at_inner, 0)), 0);
	return usem_wait(&gate, UNEVER);
}

static void limit(int c, int per_thread)
{
	int i, most = c * per_thread;

	begin((struct engine_config){ .c_workers = c,
				      .c_tasks_per_thread = per_thread });
	for (i = 0; i < most; i++)
		(void)spawn(nests, 0);
	while (stats().tasks_running != 2 * most)
		check_yield();
	for (i = 0; i < most; i++)
		(void)spawn(at_gate, 0);
	for (i = 0; i < most; i++)
		CHECK_IS(usem_post(&inner), 0);
	while (stats().tasks_completed != most)
		check_yield();
	usleep(10000);			/* as if to begin more */
	CHECK_IS(stats().tasks_running, most);
	CHECK_IS(stats().tasks_in_queue, most);
	for (i = 0; i < 2 * most; i++)
		CHECK_IS(usem_post(&gate), 0);
	CHECK_IS(engine_wait_all(UNEVER), 0);
	finish();
}

/* The only runner is about to park as the next task comes. */
static void one_by_one(void)
{
	int i;

	begin((struct engine_config){ .c_workers = 1,
				      .c_tasks_per_thread = 1 });
	for (i = 0; i < 10000; i++)
		CHECK_IS(result_of(spawn(quick, i)), i);
	finish();
}

/* Lets up to 200 us pass: less than a spin, or more. */
static void pass(unsigned n)
{
	utime_ns until = uafter(n * 2654435761u % 200 * UTIME_US);

	while (unow() < until)
		;
}

/*
 * A task comes as a runner spins, begins to park, or has parked; at times as
 * starts are paused, or as another task waits, which goes on meanwhile.
 */
static void now_and_then(int c)
{
	engine_id id, other;
	int n;

	begin((struct engine_config){ .c_workers = c });
	for (n = 0; n < 3000; n++) {
		pass((unsigned)n);
		if (n % 7 == 0)
			CHECK_IS(engine_pause(ENGINE_START), 0);
		other = n % 5 == 0 ? spawn(at_gate, 0) : 0;
		id = spawn(quick, n);
		if (n % 7 == 0) {
			pass((unsigned)n + 1);
			CHECK_IS(engine_resume(ENGINE_START), 0);
		}
		CHECK_IS(result_of(id), n);
		if (other == 0)
			continue;
		pass((unsigned)n + 2);
		CHECK_IS(usem_post(&gate), 0);
		CHECK_IS(result_of(other), 0);
	}
	finish();
}

/* A task makes tasks, which do the same, and there is room for one. */
static int spreads(void *arg)
{
	struct engine_job j = { .j_f = spreads, .j_flags = ENGINE_DETACHED,
				.j_arg = (void *)((intptr_t)arg - 1) };
	int i;

	add(&calls, 1);
	for (i = 0; i < 3 && arg != NULL; i++)
		CHECK_IS(engine_spawn(&j, NULL, UNEVER), 0);
	return 0;
}

static void rooms(int c, int policy)
{
	begin((struct engine_config){ .c_workers = c, .c_policy = policy,
				      .c_tasks_per_thread = 1, .c_tasks = 1 });
	set(&calls, 0);
	CHECK_IS(result_of(spawn(spreads, 5)), 0);
	CHECK_IS(engine_wait_all(UNEVER), 0);
	CHECK_IS(get(&calls), 1 + 3 + 9 + 27 + 81 + 243);
	finish();
}

/* Returns what id waits for, once that is not `but`. */
static const char *waits_for(engine_id id, const char *but)
{
	struct engine_stack k;

	for (;; check_yield()) {
		CHECK_IS(engine_get_call_stack(id, &k, false, UNOW), 0);
		if (k.k_stage == ENGINE_WAITS && k.k_waits_for != but)
			return k.k_waits_for;
	}
}

/* Waits for room that never comes. */
static int too_big(void *arg)
{
	struct engine_job j = { .j_f = quick, .j_bytes = 8000,
				.j_flags = ENGINE_DETACHED };

	CHECK_IS(engine_spawn(&j, NULL, UNEVER), -ECANCELED);
	while (get(&calls) == 0)	/* its own end would make room, too */
		check_yield();
	return 5;
}

static void *small(void *arg)
{
	CHECK_IS(result_of(spawn(quick, 6)), 6);
	return arg;
}

static void gives_up(void)
{
	struct engine_job j = { .j_f = at_gate, .j_bytes = 4000 };
	pthread_t native[2];
	engine_id first, id;
	int i;

	begin((struct engine_config){ .c_workers = 2,
				      .c_shared_amount = 10000 });
	CHECK_IS(engine_spawn(&j, &first, UNOW), 0);
	(void)waits_for(first, NULL);
	id = spawn(too_big, 0);
	j.j_f     = quick;
	j.j_bytes = 0;
	j.j_flags = ENGINE_DETACHED;
	(void)waits_for(id, NULL);
	CHECK_IS(engine_spawn(&j, NULL, UNOW), -EAGAIN);
	set(&calls, 0);
	for (i = 0; i < 2; i++)
		CHECK_IS(pthread_create(&native[i], NULL, small, NULL), 0);
	usleep(10000);			/* both wait behind too_big() */
	CHECK_IS(engine_cancel(id), 1);
	for (i = 0; i < 2; i++)
		CHECK_IS(pthread_join(native[i], NULL), 0);
	CHECK_IS(result_of(id), 5);
	CHECK_IS(usem_post(&gate), 0);
	CHECK_IS(result_of(first), 0);
	finish();
}

/* Room comes by a cancellation in the queue, and by the bytes of an end. */
static void *enters(void *arg)
{
	struct engine_job j = { .j_f = quick, .j_bytes = (size_t)arg,
				.j_flags = ENGINE_DETACHED };

	CHECK_IS(engine_spawn(&j, NULL, UNEVER), 0);
	return NULL;
}

static void leave_queue(void)
{
	pthread_t native;
	engine_id id;

	begin((struct engine_config){ .c_workers = 1, .c_tasks = 1 });
	CHECK_IS(engine_pause(ENGINE_START), 0);
	id = spawn(quick, 0);
	CHECK_IS(pthread_create(&native, NULL, enters, NULL), 0);
	usleep(5000);
	CHECK_IS(engine_cancel(id), 0);
	CHECK_IS(pthread_join(native, NULL), 0);
	CHECK_IS(engine_resume(ENGINE_START), 0);
	CHECK_IS(result_of(id), -ECANCELED);
	finish();
}

static void leave_bytes(void)
{
	struct engine_job j = { .j_f = at_gate, .j_bytes = 700 };
	pthread_t native;
	engine_id id;

	begin((struct engine_config){ .c_workers = 1,
				      .c_shared_amount = 1200 });
	CHECK_IS(engine_spawn(&j, &id, UNOW), 0);
	(void)waits_for(id, NULL);
	CHECK_IS(pthread_create(&native, NULL, enters, (void *)700), 0);
	usleep(5000);
	CHECK_IS(usem_post(&gate), 0);
	CHECK_IS(pthread_join(native, NULL), 0);
	CHECK_IS(result_of(id), 0);
	finish();
}

/* Callers get room in the order in which they came. */
static struct usem go[3];
static long order[3];

static int notes(void *arg)
{
	order[add(&calls, 1) - 1] = (intptr_t)arg;
	return 0;
}

static int in_turn(void *arg)
{
	struct engine_job j = { .j_f = notes, .j_arg = arg,
				.j_flags = ENGINE_DETACHED };

	CHECK_IS(usem_wait(&go[(intptr_t)arg], UNEVER), 0);
	return engine_spawn(&j, NULL, UNEVER);
}

static void queue_up(void)
{
	const char *at_go[3];
	engine_id id[3];
	intptr_t i;

	begin((struct engine_config){ .c_workers = 1,
				      .c_policy = ENGINE_FIFO });
	set(&calls, 0);
	for (i = 0; i < 3; i++) {
		id[i] = spawn(in_turn, i);
		at_go[i] = waits_for(id[i], NULL);
	}
	CHECK_IS(engine_pause(ENGINE_INTAKE | ENGINE_START), 0);
	for (i = 0; i < 3; i++) {
		CHECK_IS(usem_post(&go[i]), 0);
		(void)waits_for(id[i], at_go[i]);
	}
	CHECK_IS(engine_resume(ENGINE_INTAKE), 0);
	for (i = 0; i < 3; i++)
		CHECK_IS(result_of(id[i]), 0);
	CHECK_IS(stats().tasks_in_queue, 3);
	CHECK_IS(engine_resume(ENGINE_START), 0);
	CHECK_IS(engine_wait_all(UNEVER), 0);
	for (i = 0; i < 3; i++)
		CHECK_IS(order[i], i);
	finish();
}

/* A call-back meddles with its own task, which was cancelled in the queue. */
static void meddles(engine_id id, void *arg, int result)
{
	CHECK_IS(result, -ECANCELED);
	CHECK_IS(engine_cancel(id), -EALREADY);
	CHECK_IS(engine_set_priority(id, 1), -EALREADY);
	CHECK_IS(engine_wait(id, NULL, UNOW), -EAGAIN);
	CHECK_IS(engine_free(id), 0);
	add(&calls, 1);
}

static void call_backs(void)
{
	struct engine_job j = { .j_f = quick, .j_end = meddles };
	engine_id id[3];
	int i;

	begin((struct engine_config){ .c_workers = 1 });
	set(&calls, 0);
	CHECK_IS(engine_pause(ENGINE_START), 0);
	for (i = 0; i < 3; i++)
		CHECK_IS(engine_spawn(&j, &id[i], UNOW), 0);
	CHECK_IS(engine_cancel(id[1]), 0);
	CHECK(engine_cancel(id[1]) == -ESRCH && get(&calls) == 1);
	CHECK_IS(stats().tasks_in_queue, 2);
	finish();
	CHECK_IS(get(&calls), 3);
}

/* A thread of rr waits for a task that ends while rr_fini() waits. */
static void waits(void *arg)
{
	add(&calls, 1);
	CHECK_IS(result_of((engine_id)(intptr_t)arg), 0);
	add(&calls, 1);
}

static void *opens(void *arg)
{
	until(&calls, 3);
	usleep(10000);
	CHECK_IS(usem_post(&gate), 0);
	CHECK_IS(usem_post(&gate), 0);
	CHECK_IS(usem_post(&gate), 0);
	return arg;
}

static void ends_rr(void)
{
	pthread_t native;
	int i;

	begin((struct engine_config){ .c_workers = 1 });
	set(&calls, 0);
	CHECK_IS(rr_init(2, 0), 0);
	for (i = 0; i < 3; i++)
		CHECK(rr_thread_init(waits, (void *)(intptr_t)
				     spawn(at_gate, 0)) != NULL);
	CHECK_IS(pthread_create(&native, NULL, opens, NULL), 0);
	CHECK_IS(rr_start(), 0);
	CHECK(rr_fini() == 0 && get(&calls) == 6);
	CHECK_IS(pthread_join(native, NULL), 0);
	finish();
}

/* Numbers, in an engine and in the next. */
static void numbers(void)
{
	engine_id id, old[2];

	begin((struct engine_config){ .c_workers = 1 });
	old[0] = spawn(quick, 1);
	CHECK_IS(result_of(spawn(quick, 2)), 2);
	old[1] = spawn(at_gate, 0);
	CHECK_IS(engine_free(old[1]), 0);
	CHECK_THAT(engine_cancel(old[1]), >=, 0); /* its number lives with it */
	finish();
	begin((struct engine_config){ .c_workers = 1 });
	id = spawn(at_gate, 0);
	CHECK(engine_free(old[0]) == -ESRCH && engine_free(old[1]) == -ESRCH);
	CHECK_IS(engine_cancel(old[0]), -ESRCH);
	CHECK_IS(usem_post(&gate), 0);
	CHECK_IS(result_of(id), 0);
	finish();
}

/* Helpers come when no worker does: it computes, or no more may begin. */
static void *helper(void *arg)
{
	CHECK_IS(engine_help(-1, 1, UNEVER), 1);
	return arg;
}

static int computes(void *arg)
{
	set(arg, 1);
	until(arg, 2);
	return 0;
}

static void comes(bool busy)
{
	pthread_t native;
	long doing = 0;
	engine_id id;

	begin((struct engine_config){ .c_workers = 1,
				      .c_tasks_per_thread = busy ? 9 : 1 });
	id = busy ? spawn(computes, (intptr_t)&doing) : spawn(at_gate, 0);
	while (busy ? get(&doing) == 0 : waits_for(id, NULL) == NULL)
		check_yield();
	CHECK_IS(pthread_create(&native, NULL, helper, NULL), 0);
	usleep(5000);
	CHECK_IS(result_of(spawn(quick, 3)), 3);
	CHECK_IS(pthread_join(native, NULL), 0);
	CHECK(busy || usem_post(&gate) == 0);
	set(&doing, 2);
	CHECK(result_of(id) == 0 && stats().tasks_helped == 1);
	finish();
}

/* A helper's task is asked to stop; the next is not. */
static int cancels(void *arg)
{
	CHECK(engine_cancel(engine_self()) == 1 && engine_stopping());
	return (int)(intptr_t)arg;
}

static int goes(void *arg)
{
	CHECK(!engine_stopping());
	return 0;
}

static int stays(void *arg)
{
	set(arg, 1);
	while (!engine_stopping())
		check_yield();
	return 0;
}

static void stops(void)
{
	pthread_t native;
	long doing = 0;
	engine_id id;

	begin((struct engine_config){ .c_workers = 1, .c_host_workers = 1,
				      .c_policy = ENGINE_FIFO });
	id = spawn(cancels, 7);
	(void)spawn(goes, 0);
	CHECK(engine_help(-1, 2, UNOW) == 2 && result_of(id) == 7);
	CHECK_IS(pthread_create(&native, NULL, helper, NULL), 0);
	(void)spawn(stays, (intptr_t)&doing);
	until(&doing, 1);
	finish();
	CHECK_IS(pthread_join(native, NULL), 0);
}

/* A task whose wait has ended goes on, though the queue is never empty. */
static long stop;

static int endless(void *arg)
{
	struct engine_job j = { .j_f = endless, .j_flags = ENGINE_DETACHED };

	if (get(&stop) == 0)
		CHECK_IS(engine_spawn(&j, NULL, UNEVER), 0);
	return 0;
}

static void goes_on(void)
{
	engine_id id;
	int i;

	begin((struct engine_config){ .c_workers = 1 });
	set(&stop, 0);
	id = spawn(at_gate, 0);
	(void)waits_for(id, NULL);
	for (i = 0; i < 3; i++)
		(void)spawn(endless, 0);
	CHECK_IS(usem_post(&gate), 0);
	CHECK_IS(result_of(id), 0);
	set(&stop, 1);
	CHECK_IS(engine_wait_all(UNEVER), 0);
	finish();
}

/* A helper finds the task that it may run. */
static void finds(int policy)
{
	struct engine_job j = { .j_f = quick, .j_flags = ENGINE_DETACHED };
	int i;

	begin((struct engine_config){ .c_workers = 1, .c_policy = policy,
				      .c_tasks_per_thread = 1 });
	set(&calls, 0);
	(void)spawn(at_gate, 0);
	while (stats().tasks_running != 1)
		check_yield();
	for (i = 0; i < 9; i++) {
		j.j_flags = ENGINE_DETACHED | (i != 4 ? ENGINE_C_ONLY : 0);
		CHECK_IS(engine_spawn(&j, NULL, UNEVER), 0);
	}
	CHECK(engine_help(-1, 9, UNOW) == 1 && get(&calls) == 1);
	CHECK_IS(usem_post(&gate), 0);
	CHECK(engine_wait_all(UNEVER) == 0 && get(&calls) == 9);
	finish();
}

/*
 * Two runners park while two tasks wait for a third, which a helper runs. Then
 * the runners are too many, and a later task needs a runner that is left.
 */
static engine_id lent, lender[2];
static struct usem last[2];

static int waits_twice(void *arg)
{
	CHECK_IS(usem_wait(&gate, UNEVER), 0);
	CHECK_IS(engine_wait(lent, NULL, UNEVER), 0);
	return usem_wait(arg, UNEVER);
}

/* Returns once all that it has begun has ended, and two runners park. */
static int lends(void *arg)
{
	int i;

	for (i = 0; i < 2; i++)
		CHECK_IS(usem_post(&gate), 0);
	for (i = 0; i < 2; i++)
		(void)waits_for(lender[i], arg);
	for (i = 0; i < 2; i++)
		(void)spawn(at_inner, 0);
	while (stats().tasks_running != 5)
		check_yield();
	for (i = 0; i < 2; i++)
		CHECK_IS(usem_post(&inner), 0);
	while (stats().tasks_completed != 2)
		check_yield();
	usleep(10000);
	return 0;
}

static int posts(void *arg)
{
	return usem_post(arg);
}

static void too_many(void)
{
	const char *other = uwait_kind_name(UWAIT_OTHER);
	const char *semaphore = NULL;
	engine_id id;
	int i;

	begin((struct engine_config){ .c_workers = 2,
				      .c_tasks_per_thread = 1 });
	for (i = 0; i < 2; i++)
		lender[i] = spawn(waits_twice, (intptr_t)&last[i]);
	for (i = 0; i < 2; i++)
		semaphore = waits_for(lender[i], NULL);
	lent = spawn(lends, (intptr_t)semaphore);
	CHECK(engine_help(-1, 1, UNOW) == 1 && result_of(lent) == 0);
	for (i = 0; i < 2; i++)
		(void)waits_for(lender[i], other);
	id = spawn(posts, (intptr_t)&last[1]);
	while (stats().runners == 4)
		check_yield();
	CHECK_IS(usem_post(&last[0]), 0);
	for (i = 0; i < 2; i++)
		CHECK_IS(result_of(lender[i]), 0);
	CHECK_IS(result_of(id), 0);
	finish();
}

/* A task must end its scopes: the process ends with the runner. */
static int leaves(void *arg)
{
	struct uscope *s;

	return uscope_begin(&s, UNEVER);
}

static void ends_inside(void)
{
	begin((struct engine_config){ .c_workers = 1 });
	(void)result_of(spawn(leaves, 0));
	finish();
}

/* Memory whose release pushes memory. */
static void pushes(void *data, void *arg)
{
	if (add(arg, -1) > 0)
		CHECK_IS(engine_bus_push("again", arg, 1, pushes, arg), 0);
}

static void releases(void)
{
	long times = 3;

	begin((struct engine_config){ .c_workers = 1, .c_shared_memory = 100 });
	CHECK_IS(engine_bus_push("again", &times, 1, pushes, &times), 0);
	CHECK(engine_bus_clear() == 1 && get(&times) == 2);
	finish();
	CHECK_IS(get(&times), 0);
}

int main(int argc, char **argv)
{
	int c, policy;

	check_start(argc, argv);
	CHECK_IS(check_dies("scope", ends_inside, "not the innermost"), 0);
	for (c = 1; c <= 2; c++)
		for (policy = 0; policy <= 1; policy++) {
			trees(c, 1, policy);
			trees(c, 10, policy);
			rooms(c, policy);
		}
	limit(1, 1);
	limit(2, 3);
	too_many();
	one_by_one();
	for (c = 1; c <= 4; c *= 2)
		now_and_then(c);
	gives_up();
	leave_queue();
	leave_bytes();
	queue_up();
	call_backs();
	ends_rr();
	numbers();
	comes(true);
	comes(false);
	stops();
	goes_on();
	finds(ENGINE_LIFO);
	finds(ENGINE_FIFO);
	releases();
	return 0;
}
