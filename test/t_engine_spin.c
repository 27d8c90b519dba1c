/* SPDX-License-Identifier: MIT */
/* t_engine_spin: a task is run whenever it comes: as a runner spins, begins to
 * park, has parked, or is paused; and tasks that wait go on meanwhile. */

#include "check.h"
#include "counts.h"
#include "uengine.h"
#include "usync.h"

#define NR	3000

static long done;
static struct usem gate;

static int work(void *arg)
{
	(void)arg;
	add(&done, 1);
	return 0;
}

static int waits(void *arg)
{
	(void)arg;
	CHECK(usem_wait(&gate, UNEVER) == 0);
	add(&done, 1);
	return 0;
}

/* Lets up to 200 us pass: less than a spin, or more. */
static void pass(unsigned n)
{
	utime_ns until = uafter(n * 2654435761u % 200 * UTIME_US);

	while (unow() < until)
		;
}

static engine_id spawn(int (*f)(void *))
{
	struct engine_job j = { .j_f = f };
	engine_id id;

	CHECK(engine_spawn(&j, &id, UNEVER) == 0);
	return id;
}

static void join(engine_id id)
{
	int result = -1;

	CHECK(engine_wait(id, &result, UNEVER) == 0 && result == 0);
	CHECK(engine_free(id) == 0);
}

/* One task at a time; sometimes as starts are paused, or as a task waits. */
static void one_by_one(void)
{
	engine_id id, other;
	unsigned n;

	for (n = 0; n < NR; n++) {
		pass(n);
		if (n % 7 == 0)
			CHECK(engine_pause(ENGINE_START) == 0);
		other = n % 5 == 0 ? spawn(waits) : 0;
		id = spawn(work);
		if (n % 7 == 0) {
			pass(n + 1);
			CHECK(engine_resume(ENGINE_START) == 0);
		}
		join(id);
		if (other != 0) {
			pass(n + 2);
			CHECK(usem_post(&gate) == 0);
			join(other);
		}
	}
	CHECK(get(&done) == NR + NR / 5);
}

static void run(int workers)
{
	struct engine_config c = { .c_workers = workers,
				   .c_flags = ENGINE_MORE_WORKERS };

	done = 0;
	CHECK(engine_init(&c) == 0);
	one_by_one();
	CHECK(engine_shutdown(UNEVER) == 0);
	CHECK(engine_fini() == 0);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	run(1);
	run(2);
	run(4);
	return 0;
}
