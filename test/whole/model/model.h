/* SPDX-License-Identifier: MIT */
/* model.h: how a scenario of the model checker (model.c) is written. */

#ifndef MODEL_H
#define MODEL_H

/*
 * A scenario is some data (one static struct) and up to MODEL_THREADS threads.
 * Its file is compiled with -fsanitize=thread. By this each access to memory,
 * and each atomic operation, calls the checker; so do the headers that it
 * includes, which need no change.
 *
 * Rules. All that threads share is in the data, which the checker clears before
 * each execution. Nothing points to a stack. A loop that waits ends each turn
 * by model_pause(). After that the thread must know nothing but what is in the
 * data: then of two turns that leave the same data, only one is explored.
 */

#include <stdbool.h>
#include <stddef.h>

#define MODEL_THREADS	4
#define MODEL_ANY	(-1)	/* number of preemptions */
#define MODEL_NOT	(-2)	/* not in the quick part */

struct model_scenario {
	const char *m_name;
	int         m_quick;	/* preemptions in the quick part */
	int         m_most;	/* preemptions in the full part */
	int         m_spurious;	/* futex waits that return for no reason */
	void       *m_data;
	size_t      m_size;
	void      (*m_init)(void);	/* runs alone, before the threads */
	void      (*m_thread[MODEL_THREADS])(void);
	void      (*m_done)(void);	/* runs alone, after they have ended */
};

extern const struct model_scenario scenarios[];	/* ends with m_name NULL */

void model_fail(const char *what);
/* Called in headers that need usched.h, which some scenarios do not include. */
void usched_fail(const char *contract);

#define MUST(cond)	((cond) ? (void)0 : model_fail(#cond))

/* Names a location, for the listing of an execution that fails. */
void model_name(const void *at, const char *name);

#define NAME(field)	model_name(&(field), #field)

/*
 * Sleeps until a location that was read since the last pause may have changed.
 */
void model_pause(int site);

/*
 * Ends a turn of a loop that does not wait: all that the thread knows is in the
 * data.
 */
void model_turn(int site);

/* Takes the place of futex(2) and membarrier(2). */
long model_syscall(long nr, ...);

#define syscall		model_syscall

#endif /* MODEL_H */
