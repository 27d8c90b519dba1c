/* SPDX-License-Identifier: MIT */
/*
 * m_cancel.c: scenarios of cancel.h: two waits, one after the other, whose
 * records lie in the same memory.
 */

#include "model.h"
#define ULOCK_PLACE(l)	place_of(l)
struct ulock;
static int *place_of(const struct ulock *l);
#include "cancel.h"

#define CANCELED	1
#define EVENT		2

static struct {
	struct uwait  w;	/* both records */
	struct uwait *slot;
	struct ulock  lock;
	int           flag;
	struct ulock  queue_lock;
	struct uwait *queue;	/* waits for the event, or NULL */
	int           event;	/* it has come when nothing waited */
	int           claimed;	/* by the event */
	int           result[2];
	int           place[2];	/* of lock.h */
} s;

static int *place_of(const struct ulock *l)
{
	return &s.place[l == &s.lock];
}

static void init(void)
{
	NAME(s.w.w_state);
	NAME(s.slot);
	NAME(s.lock.l_state);
	NAME(s.flag);
	NAME(s.queue_lock.l_state);
}

static void tell(struct uwait *w, int result)
{
	w->w_result = result;
	__atomic_store_n(&w->w_state, UWAIT_ARRIVED, __ATOMIC_RELEASE);
}

static void block(struct uwait *w, int site)
{
	while (__atomic_load_n(&w->w_state, __ATOMIC_ACQUIRE) != UWAIT_ARRIVED)
		model_pause(site);
}

/* Waits as uwait_for() does. */
static int wait_for(struct uwait *w)
{
	bool may = ucancel_enter(&s.slot, w, &s.flag);

	if (!may)
		ucancel_leave(&s.slot, &s.lock);
	if (!may && uwait_claim(w))
		return CANCELED;
	block(w, 1 + may);
	if (may)
		ucancel_leave(&s.slot, &s.lock);
	return w->w_result;
}

/* Plain accesses, as by who uses the memory for something else. */
static void record_init(struct uwait *w)
{
	w->w_state  = UWAIT_WAITS;
	w->w_result = 0;
}

static void record_free(struct uwait *w)
{
	w->w_state = -1;
}

static void only_canceled(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		record_init(&s.w);
		s.result[i] = wait_for(&s.w);
		record_free(&s.w);
		MUST(s.result[i] == CANCELED);
	}
}

/* The first wait has an event. It is cancelled, or gets the event. */
static void event_or_canceled(void)
{
	int came;

	record_init(&s.w);
	ulock_get(&s.queue_lock);
	came = s.event;
	if (!came)
		s.queue = &s.w;
	ulock_put(&s.queue_lock);
	s.result[0] = came ? EVENT : wait_for(&s.w);
	ulock_get(&s.queue_lock);
	s.queue = NULL;
	ulock_put(&s.queue_lock);
	record_free(&s.w);

	record_init(&s.w);
	s.result[1] = wait_for(&s.w);
	record_free(&s.w);
}

static void cancels(void)
{
	struct uwait *w;

	ulock_get(&s.lock);
	ucancel_set(&s.flag, CANCELED);
	w = ucancel_take(&s.slot);
	ulock_put(&s.lock);
	if (w != NULL)
		tell(w, CANCELED);
}

static void comes(void)
{
	struct uwait *w;

	ulock_get(&s.queue_lock);
	w = s.queue;
	s.event = w == NULL;
	if (w != NULL && !uwait_claim(w))
		w = NULL;
	s.claimed = w != NULL;
	ulock_put(&s.queue_lock);
	if (w != NULL)
		tell(w, EVENT);
}

static void done(void)
{
	MUST(s.flag == CANCELED && s.slot == NULL);
	MUST(s.result[1] == CANCELED);
	MUST(!s.claimed || s.result[0] == EVENT);
}

const struct model_scenario scenarios[] = {
	{ "cancel: two waits", MODEL_ANY, MODEL_ANY, 0,
	  &s, sizeof s, init, { only_canceled, cancels }, done },
	{ "cancel: two waits, and an event", 2, MODEL_ANY, 0,
	  &s, sizeof s, init, { event_or_canceled, cancels, comes }, done },
	{ 0 }
};
