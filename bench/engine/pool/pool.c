/* SPDX-License-Identifier: MIT */
/* pool.c: a plain pool of native threads: a ring, a lock, three conditions. */

/*
 * A worker takes the lock once for the end of a task and the take of the next.
 * Calls into the system are few: a worker is woken only if it sleeps and no
 * wake is on its way, and submitters that wait for room only when the ring is
 * half empty. There are no priorities, numbers, limits of bytes or waits.
 */

#include "../tasks.h"

struct job {
	task_f j_f;
	void  *j_arg;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t  work, room, done;
	struct job     *ring;
	long            size, first, nr;
	int             idle;		/* workers that sleep */
	int             coming;		/* idle workers that have been woken */
	int             blocked;	/* submitters that wait for room */
	long            alive;		/* tasks that have not ended */
	bool            over;
} pool;

static bool pool_has(const char *name)
{
	(void)name;
	return true;
}

/* Waits for a task, and takes it. Caller holds the lock. */
static bool take(struct job *j)
{
	while (pool.nr == 0 && !pool.over) {
		pool.idle++;
		pthread_cond_wait(&pool.work, &pool.lock);
		pool.idle--;
		pool.coming -= pool.coming > 0;
	}
	if (pool.nr == 0)
		return false;
	*j = pool.ring[pool.first];
	if (++pool.first == pool.size)
		pool.first = 0;
	pool.nr--;
	if (pool.blocked > 0 && pool.nr <= pool.size / 2)
		pthread_cond_broadcast(&pool.room);
	return true;
}

static void *work(void *arg)
{
	struct job j;

	pthread_mutex_lock(&pool.lock);
	while (take(&j)) {
		pthread_mutex_unlock(&pool.lock);
		(void)j.j_f(j.j_arg);
		pthread_mutex_lock(&pool.lock);
		if (--pool.alive == 0)
			pthread_cond_broadcast(&pool.done);
	}
	pthread_mutex_unlock(&pool.lock);
	return arg;
}

/* Puts up to nr tasks into the ring. Caller holds the lock. */
static int put(task_f f, char *arg, size_t size, int nr)
{
	long at = pool.first + pool.nr;
	int i;

	nr = nr < pool.size - pool.nr ? nr : (int)(pool.size - pool.nr);
	for (i = 0; i < nr; i++, at++)
		pool.ring[at < pool.size ? at : at - pool.size] =
			(struct job){ f, arg + i * size };
	pool.nr += nr;
	pool.alive += nr;
	return nr;
}

static void pool_submit(task_f f, void *arg, size_t size, int nr)
{
	int n, wake, done = 0;

	while (done < nr) {
		pthread_mutex_lock(&pool.lock);
		while (pool.nr == pool.size) {
			pool.blocked++;
			pthread_cond_wait(&pool.room, &pool.lock);
			pool.blocked--;
		}
		n = put(f, (char *)arg + done * size, size, nr - done);
		wake = pool.idle - pool.coming;
		wake = wake < n ? wake : n;
		pool.coming += wake;
		pthread_mutex_unlock(&pool.lock);
		for (done += n; wake > 0; wake--)
			pthread_cond_signal(&pool.work);
	}
}

static void pool_urgent(task_f f, void *arg)
{
	pool_submit(f, arg, 1, 1);
}

static void pool_drain(void)
{
	pthread_mutex_lock(&pool.lock);
	while (pool.alive > 0)
		pthread_cond_wait(&pool.done, &pool.lock);
	pthread_mutex_unlock(&pool.lock);
}

static void pool_run(void (*f)(void))
{
	pthread_t threads[256];
	int i;

	pthread_mutex_init(&pool.lock, NULL);
	pthread_cond_init(&pool.work, NULL);
	pthread_cond_init(&pool.room, NULL);
	pthread_cond_init(&pool.done, NULL);
	pool.size = tasks.t_room;
	pool.ring = malloc(pool.size * sizeof *pool.ring);
	if (pool.ring == NULL)
		tasks_die("out of memory");
	for (i = 0; i < tasks.t_p; i++)
		tasks_must(pthread_create(&threads[i], NULL, work, NULL),
			   "worker");
	f();
	pthread_mutex_lock(&pool.lock);
	pool.over = true;
	pthread_mutex_unlock(&pool.lock);
	pthread_cond_broadcast(&pool.work);
	for (i = 0; i < tasks.t_p; i++)
		pthread_join(threads[i], NULL);
	free(pool.ring);
}

int main(int argc, char **argv)
{
	return tasks_main(argc, argv);
}
