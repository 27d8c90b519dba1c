/* SPDX-License-Identifier: MIT */
/* openmp.c: tasks of OpenMP. */

/*
 * The submitter is in a region with the workers. It runs tasks itself when it
 * waits for all, and when libgomp has queued 64 for each thread. So it is one
 * of P, but beside them in half. For the same reason no queue of a thousand
 * exists here.
 */

#include "../tasks.h"

static bool pool_has(const char *name)
{
	return !tasks.t_many && strcmp(name, "queued") != 0 &&
		strcmp(name, "batch") != 0 &&
		strcmp(name, "submit") != 0 && strcmp(name, "urgent") != 0;
}

static void pool_submit(task_f f, void *arg, size_t size, int nr)
{
	(void)size, (void)nr;
#pragma omp task firstprivate(f, arg)
	(void)f(arg);
}

static void pool_urgent(task_f f, void *arg)
{
	pool_submit(f, arg, 1, 1);
}

static void pool_drain(void)
{
#pragma omp taskwait
}

static void pool_run(void (*f)(void))
{
#pragma omp parallel num_threads(tasks.t_p + tasks.t_apart)
#pragma omp single
	f();
}

int main(int argc, char **argv)
{
	return tasks_main(argc, argv);
}
