/* SPDX-License-Identifier: MIT */
/* why.h: what stands out in a recording: causes that make a program slow. */

#ifndef UVIEW_WHY_H
#define UVIEW_WHY_H

/*
 * KINDS. Each has a limit, and says what it has found in a sentence with its figures,
 * or how much of it there is. A kind must not speak of a program that is well, and is
 * UNKNOWN if the recording does not tell: "nothing stands out" is said only if all were
 * looked for. The SHARE is the part of the time in which a problem is in effect. At
 * most WHY_SAID lines are said, those with the largest shares; notes on the machine come
 * behind, since they are no defect of the program.
 *
 *	kind		limit
 *	dead lock	threads wait for each other's locks in a circle
 *	lock		1.0 threads wait for it on average, one in 50 % of the time
 *	hog		runs above 1 ms, behind each of which a thread could run or was
 *			due, take 10 % of the processors' time; 3 of them, or 100 ms
 *	kernel		native threads sleep in the kernel, by calls in runs above
 *			0.2 ms, for 10 % of the processors' time
 *	yields		turns below 5 us that only give way, with their switches, take
 *			20 % of the processors' time
 *	timers		in 5 % of the time a thread is more than 5 ms behind its
 *			deadline, and not because of a single run above 1 ms. A storm:
 *			100 are due within 1 ms
 *	queue		in 50 % of the time the oldest value of a channel is older than
 *			50 ms, or 200 if senders wait for room. (Nichols and Jacobson,
 *			Controlling Queue Delay, 2012: what counts is how long values
 *			stay, and not how many there are)
 *	ping-pong	two threads wake each other across processors, 100 times, and the
 *			time from these wakes to the runs is 20 % of the time
 *	starved		in 10 % of the time a thread can run for more than 20 ms, while
 *			another runs 10 times on its processor
 *	late look	a thread sleeps, and then wakes 3 threads or more, which waited
 *			for 0.5 ms on average; 30 % of all waits that threads end, while
 *			processors are idle for half of the time
 *	machine		sleeps of native threads end 1 ms late, or the kernel gives their
 *			cpus to others: 1 % of the processors' time
 *
 * Each file has some of them: why_locks.c, why_cpu.c, why_ready.c, why_queue.c.
 */

#include "facts.h"

#include <stdio.h>

enum why_kind {
	WHY_DEADLOCK, WHY_LOCK, WHY_HOG, WHY_KERNEL, WHY_YIELDS, WHY_TIMERS,
	WHY_QUEUE, WHY_PINGPONG, WHY_STARVED, WHY_BURST, WHY_MACHINE, WHY_KINDS
};

#define WHY_SAID	3
#define WHY_LINES	32

struct why_line {
	enum why_kind wy_kind;
	double        wy_share;
	uint64_t      wy_object, wy_thread;	/* where to look; 0: nowhere */
	double        wy_from, wy_to;		/* wy_to 0: nowhere */
	char          wy_text[640];
};

struct why {
	const struct facts *wh_facts;
	int             wh_nr;		/* of wh_line, the largest share first */
	struct why_line wh_line[WHY_LINES];
	double          wh_found[WHY_KINDS];	/* the largest share; 0: not found */
	char            wh_figure[WHY_KINDS][200];	/* of what was not found */
	const char     *wh_unknown[WHY_KINDS];	/* why a kind was not looked for */
	double          wh_lost;	/* part of all records that is overwritten */
	double          wh_cost;	/* of recording, part of the processors' time;
					 * negative: unknown */
};

/* Looks for all kinds. */
void why_look(struct why *y, const struct facts *f);

/* Writes at most WHY_SAID lines for a terminal, and what was looked for. */
void why_print(const struct why *y, FILE *out);

/* Writes the same for the page, as JSON. */
void why_json(const struct why *y, FILE *out);

/* For the files of kinds. */

/* Adds a line with this text, as printf(), and where to look. */
struct why_line *why_add(struct why *y, enum why_kind kind, double share,
			 const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Says how much of a kind there is, if that is below its limit. */
void why_figure(struct why *y, enum why_kind kind, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Each returns a text; some of them last. */
const char *why_time(double ns);
const char *why_percent(double part);
const char *why_nr(double nr);

void why_locks(struct why *y);
void why_cpu(struct why *y);
void why_ready(struct why *y);
void why_queue(struct why *y);

/* Dead locks. */

#define WHY_CYCLES	4	/* are told */
#define WHY_MEMBERS	8	/* of each */

struct why_cycle {
	unsigned nr;		/* threads in it; the first WHY_MEMBERS are here */
	struct {
		uint64_t at, object;
		unsigned f, kind;
		double   since;
	} member[WHY_MEMBERS];
};

/* Finds threads that wait for each other. Returns how many circles it has found. */
int why_cycles(const struct facts *f, struct why_cycle *c);

#endif /* UVIEW_WHY_H */
