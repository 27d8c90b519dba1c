/* SPDX-License-Identifier: MIT */
/* pool.h: a pool of threads, as in libraries that compress. */

#ifndef POOL_H
#define POOL_H

struct pool;

/*
 * Makes workers, and a queue with room for so many jobs. NULL: no memory, no
 * threads, or a number below 1.
 */
struct pool *pool_make(int workers, int room);

/* Lets a worker call f(arg). Waits while the queue is full. */
void pool_add(struct pool *p, void (*f)(void *arg), void *arg);

/* Waits until all jobs have been done. */
void pool_wait(struct pool *p);

/* Does what jobs are left, and frees p. p may be NULL. */
void pool_free(struct pool *p);

#endif /* POOL_H */
