/* SPDX-License-Identifier: MIT */
/*
 * program.h: random programs for threads that move. The result of a thread follows
 * from its number alone. The thread calls itself, keeps addresses of its frames, allocates
 * and frees, rounds as it likes, and passes points. Its result is the same
 * wherever and however often it went on.
 */

#ifndef PROGRAM_H
#define PROGRAM_H

#include <usched/all.h>
#include "umove.h"

#include <fenv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(LL)
#include "ll.h"
#define S(name)		ll_##name
#define MAKE(f, arg)	ll_thread_init(f, arg, 0)
#elif defined(WS)
#include "ws.h"
#define S(name)		ws_##name
#define MAKE(f, arg)	ws_thread_init(f, arg)
#else
#include "rr.h"
#define S(name)		rr_##name
#define MAKE(f, arg)	rr_thread_init(f, arg)
#endif

#define HEAP	16384
#define BLOCKS	8

struct walk {
	unsigned long w_random;
	unsigned long w_sum;
	double        w_real;
	long          w_id;
	void         *w_of;		/* the caller of compute() has it */
	struct { unsigned char *at; int nob, fill; } w_block[BLOCKS];
};

/* Where a thread may go. */
static void (*at_point)(void *of);
static int wrong;

static unsigned draw(struct walk *w, unsigned n)
{
	w->w_random = w->w_random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(w->w_random >> 33) % n;
}

/* A native thread: kills the process after the microseconds at lives. */
static inline void *killer(void *lives)
{
	usleep((useconds_t)*(long *)lives);
	kill(getpid(), SIGKILL);
	return NULL;
}

static void say_wrong(const char *what, long id)
{
	wrong++;
	fprintf(stderr, "thread %ld: %s\n", id, what);
}

/* Checks a block and frees it, or makes one. */
static void block(struct walk *w)
{
	int i = (int)draw(w, BLOCKS), k;

	if (w->w_block[i].at != NULL) {
		for (k = 0; k < w->w_block[i].nob; k++) {
			if (w->w_block[i].at[k] != (unsigned char)w->w_block[i].fill)
				say_wrong("its heap has changed", w->w_id);
		}
		umove_free(w->w_block[i].at);
		w->w_block[i].at = NULL;
		return;
	}
	w->w_block[i].nob  = 1 + (int)draw(w, 900);
	w->w_block[i].fill = (int)draw(w, 256);
	w->w_block[i].at   = umove_alloc((size_t)w->w_block[i].nob);
	if (w->w_block[i].at == NULL)
		say_wrong("no memory", w->w_id);
	else
		memset(w->w_block[i].at, w->w_block[i].fill,
		       (size_t)w->w_block[i].nob);
}

static __attribute__((noinline)) void deeper(struct walk *w, int depth, long *up)
{
	static const int round[4] = {
		FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO
	};
	long local[5], was = *up;
	int i, how = round[draw(w, 4)], before = fegetround();

	for (i = 0; i < 5; i++)
		local[i] = (long)draw(w, 1000);
	(void)fesetround(how);
	for (i = 0; i < 5; i++) {
		w->w_real += 1.0 / (double)(3 + local[i]);
		if (draw(w, 3) == 0)
			block(w);
		if (depth > 0 && draw(w, 3) == 0)
			deeper(w, depth - 1, &local[i]);
		if (draw(w, 2) == 0)
			at_point(w->w_of);
		if (fegetround() != how)
			say_wrong("it rounds otherwise", w->w_id);
		w->w_sum = w->w_sum * 31 + (unsigned long)local[i];
	}
	if (*up != was)
		say_wrong("a frame has changed", w->w_id);
	(void)fesetround(before);
}

/* Returns the result of thread id, which calls. */
static inline unsigned long compute(long id, void *of)
{
	struct walk w = { .w_random = (unsigned long)id * 0x9e3779b97f4a7c15u + 1 };
	long top = id;
	int i;
	unsigned long real;

	w.w_id = id;
	w.w_of = of;
	for (i = 0; i < 6; i++)
		deeper(&w, 5, &top);
	for (i = 0; i < BLOCKS; i++)
		umove_free(w.w_block[i].at);
	if (top != id)
		say_wrong("its first frame has changed", id);
	memcpy(&real, &w.w_real, sizeof real);
	return w.w_sum ^ real;
}

#endif /* PROGRAM_H */
