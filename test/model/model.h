/* SPDX-License-Identifier: MIT */
/* model.h: what a scenario of the model checker (model.c) looks like. */

#ifndef MODEL_H
#define MODEL_H

/*
 * A scenario is some data (one static struct) and up to MODEL_THREADS threads.
 * Its file is compiled with -fsanitize=thread: so each access to memory and
 * each atomic operation of the headers that it includes, as they are, calls the
 * checker.
 *
 * Rules. All that threads share is in the data, which the checker clears before
 * each execution. Nothing points to a stack. A loop that waits ends each turn
 * by model_pause(); what the thread still knows then is in the data, so of two
 * turns that leave the same data behind only one needs to be looked at.
 */

#include <stdbool.h>
#include <stddef.h>

#define MODEL_THREADS	4
#define MODEL_ANY	(-1)	/* number of preemptions */
#define MODEL_NOT	(-2)	/* not in the quick part */

struct model_scenario {
	const char *m_name;
	int         m_quick;	/* preemptions in the quick part, */
	int         m_most;	/* and when all is asked for */
	int         m_spurious;	/* futex waits that return for no reason */
	void       *m_data;
	size_t      m_size;
	void      (*m_init)(void);	/* alone, before the threads */
	void      (*m_thread[MODEL_THREADS])(void);
	void      (*m_done)(void);	/* alone, after all have ended */
};

extern const struct model_scenario scenarios[];	/* ends with m_name NULL */

void model_fail(const char *what);

#define MUST(cond)	((cond) ? (void)0 : model_fail(#cond))

/* For the listing of an execution that fails. */
void model_name(const void *at, const char *name);

#define NAME(field)	model_name(&(field), #field)

/* Sleeps until what was read since the last pause may have changed. */
void model_pause(int site);

/* The same, without sleep: what the thread knows is in the data. */
void model_turn(int site);

/* Instead of futex(2). */
long model_syscall(long nr, ...);

#define syscall		model_syscall

#endif /* MODEL_H */
