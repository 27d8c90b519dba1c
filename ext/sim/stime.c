/* SPDX-License-Identifier: MIT */
/* stime.c: events, and the time of a run. */

/*
 * Events are calls at a point in virtual time, such as a segment that arrives. A
 * thread that begins to wait while no other can run lets time go on, and runs
 * events until some thread can run. So does the dispatcher after a thread that has
 * ended.
 *
 *	host's thread	sim_at(now + latency, deliver) ---> heap of events
 *	sim_wait_begins()	time goes on to the first, calls deliver()
 *	deliver()	puts the bytes into the other socket, sim_changed()
 *	sim_changed()	ends the waits of threads for that socket
 *
 * Calls take no time, unless a program would then never go on: sched_yield() takes a
 * microsecond, a sleep for no time 50, and a thousand calls, of which the last is a poll()
 * that finds nothing, a millisecond. Other loops end the run: sim_busy().
 */

#include "sim.h"
#include "rr.h"
#include "uthread.h"

#include <stdlib.h>

utime_ns sim_time;
long     sim_calls;

/* A call at a point in time. Equal times: in the order of numbers. */
struct event {
	utime_ns e_at;
	uint64_t e_number;
	void   (*e_f)(void *);
	void    *e_arg;
};

static struct event *events;		/* a heap */
static size_t        event_nr, event_room;
static uint64_t      event_number;	/* the next */
static struct ustack *(*next_by_rr)(struct usched *s);

static bool is_before(const struct event *a, const struct event *b)
{
	return a->e_at != b->e_at ? a->e_at < b->e_at :
		a->e_number < b->e_number;
}

static void event_put(struct event e)
{
	size_t i = event_nr++;
	struct event *heap = events;

	for (; i > 0 && is_before(&e, &heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = e;
}

static struct event event_get(void)
{
	struct event *heap = events;
	struct event first = heap[0], last = heap[--event_nr];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < event_nr) {
		if (child + 1 < event_nr &&
		    is_before(&heap[child + 1], &heap[child]))
			child++;
		if (!is_before(&heap[child], &last))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = last;
	return first;
}

void sim_at(utime_ns at, void (*f)(void *), void *arg)
{
	struct event e = { at, event_number++, f, arg };
	size_t room = event_room * 2 + 64;

	if (event_nr == event_room) {
		events = realloc(events, room * sizeof e);
		if (events == NULL)
			usim_fail("no memory for the simulation");
		event_room = room;
	}
	event_put(e);
}

/* A disk is not interrupted, nor is a host that pauses. */
void sim_sleep(utime_ns until)
{
	bool was = uthread_interruptible(false);

	(void)u_sleep(until + UTIME_VIRTUAL);
	if (was)
		(void)uthread_interruptible(true);
}

bool sim_spins(void)
{
	if (sim_calls < SIM_SPINS)
		return false;
	sim_sleep(sim_now() + SIM_SPINS * UTIME_US);
	return true;
}

/*
 * Lets time go on to the first event, or to the first deadline of a thread, if that
 * is sooner. False: there is neither. A sleep of the processor would do the same for
 * ten times the price.
 */
static bool time_passes(void)
{
	struct uwait_base *waits = &uproc_of((struct uproc_thread *)sim_judge)->p_waits;
	utime_ns due = uwait_due(waits), at = UNEVER, to;

	if (event_nr > 0)
		at = events[0].e_at + UTIME_VIRTUAL;
	if (due == UNEVER && at == UNEVER)
		return false;
	to = due < at ? due : at;
	if (to > sim_time + UTIME_VIRTUAL) {	/* else it has come already */
		utime_jump(to);
		sim_time = to - UTIME_VIRTUAL;
	}
	sim_calls = 0;
	if (due <= at)
		uwait_look(waits);
	return true;
}

/* Returns whether a thread can run, or w has ended. */
static inline bool is_ready(struct uproc *p, const struct uwait *w)
{
	return !uproc_queue_empty(&p->p_queue) || !uinbox_empty(&p->p_inbox) ||
		uwait_posted(&p->p_waits) ||
		(w != NULL && w->w_state != UWAIT_WAITS);
}

/*
 * Runs events until a thread can run; w: that is to wait for this, or NULL. The
 * caller belongs to no host meanwhile: sim_caller().
 */
static void drive(const struct uwait *w)
{
	struct uproc *p = uproc_of((struct uproc_thread *)sim_judge);

	sim_last.l_drives = true;
	do
		while (event_nr > 0 && events[0].e_at <= sim_now()) {
			struct event e = event_get();

			e.e_f(e.e_arg);
		}
	while (!is_ready(p, w) && time_passes());
	sim_last.l_drives = false;
}

/* Stands before s_next() of rr: a thread has ended, or waits without a record. */
static struct ustack *next(struct usched *s)
{
	if (!is_ready(uproc_of((struct uproc_thread *)sim_judge), NULL))
		drive(NULL);
	return next_by_rr(s);
}

void sim_time_begin(struct usched *s)
{
	next_by_rr = s->s_next;
	s->s_next = next;
}

/*
 * Called in each thread before each wait. If no other thread can run, this lets time
 * go on, at the price of no switch.
 */
void sim_wait_begins(const struct uwait *w, utime_ns until)
{
	(void)until;
	if (sim_is_on && !sim_last.l_drives)
		drive(w);
}
