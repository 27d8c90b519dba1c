/* SPDX-License-Identifier: MIT */
/* homes.h: lanes, and the workers at which they are at home. A part of ws.c. */

#ifndef WS_HOMES_H
#define WS_HOMES_H

/*
 * The frames of a thread are bound to the addresses in its lane, but not to a
 * native thread. So each lane has a home: the worker that runs the threads of
 * that lane, and the only worker that does. All threads of a lane are at home
 * there. Only the home touches their wake counts. So a wait and a wake between
 * threads of a worker cost no atomic instruction, as in rr. Other workers send
 * a message (mail.h).
 *
 * A thief takes a thread together with its lane, and so together with all other
 * threads of the lane. They may be in queues of the old home. When their turn
 * comes there, the old home finds that they are not its own, and sends them to
 * the new home. A lane stays where it is while a thread runs in it, and while a
 * pinned thread is bound to it.
 *
 * A thread that has not begun has no lane and no home: the worker that runs it
 * first chooses both. If the thread was promised a private lane, or its function
 * is known to block deep, the lane is for this thread alone
 * (usched_lane_private(), usched_lane_deep()). Such a lane is in no list, but its
 * home moves as that of any other. Threads of functions that wait outside
 * (usched_lane_outside()) share SHARED lanes of the worker where they begin. A thief
 * takes them by the lane, as it does where there are more threads than lanes.
 *
 *	ws_homes[lane]		the home
 *	u_sched of a thread	a hint, which is nearly always right: W9
 *	w_lane[] of a worker	its lanes that may move
 *	w_fixed, w_fixed_nr	its lanes that never do, for pinned threads
 *	w_free, e_next		its lanes to which no thread is bound
 *
 * W2. A thread that has begun runs only at the home of its lane. Only there its
 *     wake count is touched.
 * W3. The home of a lane is changed by the home itself, or by a thief that has
 *     stopped the home. It is not changed while a thread runs in the lane
 *     (w_running_lane), nor while the lane is pinned.
 * W4. A lane is in the list of its home, or in no list. It is in the free list
 *     of its home exactly if no thread is bound to it. Lanes for one thread
 *     alone are in neither list.
 * W9. Unless WS_STOP_LOOK of w is set, each thread that has begun, and whose
 *     u_sched is w, is at home at w; and each that has not begun is in a queue
 *     or in the inbox of w. So if a thread leaves w, the thief that takes it,
 *     or w that sends it, sets u_sched. If other threads are bound to its lane,
 *     their u_sched may be w, and WS_STOP_LOOK is set, too, for good. A wake
 *     reads u_sched inside the section of its worker. So the wake needs no
 *     look at ws_homes while WS_STOP_LOOK is not set.
 */

#include "ws_inside.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

/* In u_mark, beside UPROC_JOIN and UPROC_PRIVATE. */
enum {
	PINNED = UPROC_OWN,
	BEGUN  = UPROC_OWN * 2,
	PREEMPTED   = UPROC_OWN * 4	/* preempted: pinned until it goes on */
};

#define SHARED		16	/* lanes in turn, if there are more threads */
#define FIXED		4	/* lanes of a worker that never move */
/* u_lane is a short. */
#define LANE_NR		(SHRT_MAX + 1)

struct ws_lane {
	struct ws_worker    *e_list;	/* has it in w_lane; or NULL (atomic) */
	struct ws_worker    *e_from;	/* where messages came from (atomic) */
	int                  e_at;	/* where in w_lane; -1: it never is */
	int                  e_next;	/* the next free lane, or 0 */
	int                  e_pins;	/* more than 0: it stays (atomic) */
	int                  e_wakes;	/* that came from other workers */
	struct ws_pinned_group e_pinned; /* its threads in w_pinned (runnable W8) */
};

static struct ws_lane *lane_list;

struct ws_worker **ws_homes;

/* Returns the home of t if there are no lanes: where t has begun, or NULL. */
struct ws_worker *ws_home_native(const struct uproc_thread *t)
{
	/* Acquires the u_sched of thread_begin(). */
	return set != NULL && set->set_on_native &&
	       __atomic_load_n(&t->t_stack.u_mark, __ATOMIC_ACQUIRE) & BEGUN ?
		(struct ws_worker *)uproc_of(t) : NULL;
}

static inline struct ws_lane *lane_of(const struct uproc_thread *t)
{
	return &lane_list[t->t_stack.u_lane];
}

/* Notes that from has sent a message to t, whose home is elsewhere: a hint. */
static inline void lane_from(const struct uproc_thread *t, struct ws_worker *from)
{
	__atomic_store_n(&lane_of(t)->e_from, from, __ATOMIC_RELAXED);
}

/* Returns whether some thread of its lane is pinned. */
static inline bool lane_stays(const struct uproc_thread *t)
{
	return __atomic_load_n(&lane_of(t)->e_pins, __ATOMIC_RELAXED) != 0;
}

/*
 * Returns whether t can leave w. Caller is inside the section of w, or has
 * stopped w.
 */
static bool can_go(const struct ws_worker *w, const struct uproc_thread *t)
{
	if (t->t_stack.u_lane == 0)
		return !(t->t_stack.u_mark & (PINNED | BEGUN));
	return t->t_stack.u_lane != w->w_running_lane && !lane_stays(t);
}

/*
 * Returns whether t must run on w: while it is pinned. Caller is inside the
 * section of w, or has stopped w. If the lane is pinned at another home, t does
 * not stay here: it has to go there.
 */
static bool stays(const struct ws_worker *w, const struct uproc_thread *t)
{
	if (t->t_stack.u_lane == 0)
		return t->t_stack.u_mark & (PINNED | BEGUN);
	return lane_stays(t) && ws_is_home(w, t);
}

/*
 * Returns whether w alone runs the threads of a lane. A private lane without a thread
 * may keep its last home, and get another at any time: then the home is written before
 * l_bound. Owner, inside its section: so a thief waits (W3).
 */
static int has_lane(const struct uproc *p, int lane)
{
	const struct usched *s = &p->p_sched;

	return (lane <= s->s_lane_nr ||
		__atomic_load_n(&s->s_lane[lane].l_bound, __ATOMIC_ACQUIRE) != 0) &&
	       __atomic_load_n(&ws_homes[lane], __ATOMIC_ACQUIRE) ==
	       (const struct ws_worker *)p;
}

static inline struct ws_worker *lane_listed(const struct ws_lane *e)
{
	return __atomic_load_n(&e->e_list, __ATOMIC_RELAXED);
}

static inline void lane_list_set(struct ws_lane *e, struct ws_worker *w)
{
	__atomic_store_n(&e->e_list, w, __ATOMIC_RELAXED);
}

/*
 * Puts e into the list of w, unless w is not its home. Owner, inside its
 * section. Another home may be moving e meanwhile, even to w. But nothing but
 * a move from w takes e out of the list of w. And the home that is read
 * acquires what the move to it has written.
 */
static void lane_note(struct ws_worker *w, struct ws_lane *e)
{
	int lane = e - lane_list;

	if (lane_listed(e) == w ||
	    __atomic_load_n(&ws_homes[lane], __ATOMIC_ACQUIRE) != w ||
	    e->e_at < 0)
		return;
	lane_list_set(e, w);
	e->e_at   = w->w_lane_nr;
	w->w_lane[w->w_lane_nr++] = lane;
}

/* Sets u_sched (W9), and releases to w what the caller did with t. */
static inline void sched_set(struct ws_worker *w, struct uproc_thread *t)
{
	__atomic_store_n(&t->t_stack.u_sched, &w->w_proc.p_sched,
			 __ATOMIC_RELEASE);
}

/*
 * Moves e from w to another home. Caller is inside the section of w, or has
 * stopped w.
 */
static void lane_move(struct ws_worker *w, struct ws_lane *e,
		      struct ws_worker *to)
{
	if (lane_listed(e) == w) {
		int last = w->w_lane[--w->w_lane_nr];

		w->w_lane[e->e_at]   = last;
		lane_list[last].e_at = e->e_at;
	}
	lane_list_set(e, NULL);
	e->e_wakes = 0;
	__atomic_store_n(&e->e_from, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&ws_homes[e - lane_list], to, __ATOMIC_SEQ_CST);
}

/* Returns how many threads the lane of t has, at w. As lane_move_of(). */
static unsigned lane_bound(const struct ws_worker *w, const struct uproc_thread *t)
{
	return w->w_proc.p_sched.s_lane[t->t_stack.u_lane].l_bound;
}

/*
 * Moves t and its lane from w. Caller is inside the section of w, or has
 * stopped w.
 */
static void lane_move_of(struct ws_worker *w, struct uproc_thread *t,
			 struct ws_worker *to)
{
	if (lane_bound(w, t) > 1)
		ws_stop_look(&w->w_gate.g_stop);
	lane_move(w, lane_of(t), to);
	sched_set(to, t);
}

/* Takes a lane to which no thread is bound; 0: there is none with a guard. */
static inline int lane_free(struct ws_worker *w)
{
	int lane;

	while ((lane = w->w_free) != 0) {
		w->w_free = lane_list[lane].e_next;
		if (likely(usched_lane_guard(&w->w_proc.p_sched, lane) == 0))
			break;
	}
	return lane;
}

/* Returns a lane that threads share, one of the first nr or a fixed one. */
static int lane_shared(struct ws_worker *w, int nr)
{
	int i, lane;

	for (i = 0; i < nr; i++) {
		lane = w->w_lane[w->w_next_lane++ % nr];
		if (likely(usched_lane_guard(&w->w_proc.p_sched, lane) == 0))
			return lane;
	}
	return w->w_fixed + w->w_next_lane++ % w->w_fixed_nr;
}

/*
 * Returns a lane for a thread that waits outside: one of the first nr, to which a
 * free lane comes in the place of a lane without threads.
 */
static NOINLINE int lane_outside(struct ws_worker *w, int nr)
{
	int at = w->w_next_lane % nr;
	int was = w->w_lane[at];
	int lane;

	if (w->w_proc.p_sched.s_lane[was].l_bound != 0 || (lane = lane_free(w)) == 0)
		return lane_shared(w, nr);
	w->w_next_lane++;
	if (lane_listed(&lane_list[lane]) == w) {
		w->w_lane[lane_list[lane].e_at] = was;
		w->w_lane[at] = lane;
		lane_list[was].e_at  = lane_list[lane].e_at;
		lane_list[lane].e_at = at;
	}
	return lane;
}

/* Makes w the home of a lane that was just mapped, or has been left. */
static NOINLINE int lane_private_begin(struct ws_worker *w, int lane)
{
	lane_list[lane].e_at = -1;
	lane_move(w, &lane_list[lane], w);
	return lane;
}

/* Returns a lane for one thread alone, which runs f; or 0. */
static inline int lane_private(struct ws_worker *w, void (*f)(void *))
{
	int lane = usched_lane_deep(&w->w_proc.p_sched, f);

	return likely(lane == 0) ? 0 : lane_private_begin(w, lane);
}

/* Returns a private lane for t, which begins; or 0. */
static inline int lane_private_of(struct ws_worker *w,
				  const struct uproc_thread *t)
{
	if (unlikely(t->t_stack.u_mark & UPROC_PRIVATE))
		return lane_private_begin(w,
				usched_lane_private(&w->w_proc.p_sched));
	return lane_private(w, ustack_f(t->t_stack.u_f, t->t_stack.u_arg));
}

/* Chooses a lane for t, which begins. Pinned threads share the fixed lanes. */
static int lane_get(struct ws_worker *w, const struct uproc_thread *t)
{
	int nr = w->w_lane_nr < SHARED ? w->w_lane_nr : SHARED;
	int lane = lane_private_of(w, t);

	if (lane != 0)
		return lane;
	if (t->t_stack.u_mark & PINNED)
		return lane_shared(w, 0);
	if (nr > 0 && usched_lane_outside(ustack_f(t->t_stack.u_f, t->t_stack.u_arg)))
		return lane_outside(w, nr);
	lane = lane_free(w);
	return lane != 0 ? lane : lane_shared(w, nr);
}

/* Threads that wake t may read this at any time. */
static inline void lane_set(struct uproc_thread *t, int lane)
{
	__atomic_store_n(&t->t_stack.u_lane, lane, __ATOMIC_RELEASE);
}

/* Sets u_mark of a thread at which other workers may look. */
static void mark_set(struct uproc_thread *t, int now)
{
	__atomic_store_n(&t->t_stack.u_mark, now, __ATOMIC_RELEASE);
}

/* Counts pins of the lane of t. */
static void pins_add(struct uproc_thread *t, int nr)
{
	int *at = &lane_of(t)->e_pins;

	if (t->t_stack.u_lane != 0)
		__atomic_store_n(at, *at + nr, __ATOMIC_RELAXED);
}

/* Returns whether the lane is of those that never leave w. */
static inline bool is_fixed(const struct ws_worker *w, int lane)
{
	return (unsigned)(lane - w->w_fixed) < (unsigned)w->w_fixed_nr;
}

/* Gives nr lanes to w, of which FIXED, or only the first, never move. */
static void lanes_deal(struct ws_worker *w, int first, int nr)
{
	int lane;

	w->w_fixed    = first;
	w->w_fixed_nr = nr >= SHARED ? FIXED : 1;
	for (lane = first + nr; --lane >= first; ) {
		struct ws_lane *e = &lane_list[lane];

		ws_homes[lane] = w;
		if (lane < first + w->w_fixed_nr) {
			e->e_at   = -1;
			e->e_pins = 1;
			continue;
		}
		lane_note(w, e);
		e->e_next = w->w_free;
		w->w_free = lane;
	}
}

/* Maps the guards of the lanes that threads always find. 0 or -errno. */
static int lanes_fixed(struct ws_worker *w)
{
	int rc = 0;
	int i;

	for (i = 0; i < w->w_fixed_nr && rc == 0; i++)
		rc = usched_lane_guard(&w->w_proc.p_sched, w->w_fixed + i);
	return rc;
}

/* Maps the lanes of all workers at once: each dispatcher may use each lane. */
static int lanes_map(struct uproc_set *s)
{
	struct usched *first = &uproc_nth(s, 0)->p_sched;
	int rc = usched_lanes(first, s->set_lane_nr * s->set_nr, s->set_stack);
	int i;

	for (i = 1; i < s->set_nr && rc == 0; i++)
		rc = usched_lanes_share(&uproc_nth(s, i)->p_sched, first);
	return rc;
}

static void lanes_fini(void)
{
	free(lane_list);
	free(ws_homes);
	lane_list = NULL;
	ws_homes  = NULL;
}

/* The lists of a worker may come to hold all lanes. False: no memory. */
static bool lanes_tables(struct uproc_set *s)
{
	bool ok;
	int i;

	lanes_fini();			/* of a start that has failed */
	lane_list = calloc(LANE_NR, sizeof *lane_list);
	ws_homes  = calloc(LANE_NR, sizeof *ws_homes);
	ok = lane_list != NULL && ws_homes != NULL;
	for (i = 0; i < s->set_nr; i++) {
		struct ws_worker *w = (struct ws_worker *)uproc_nth(s, i);

		free(w->w_lane);
		w->w_lane = malloc((size_t)s->set_lane_nr * s->set_nr *
				  sizeof w->w_lane[0]);
		w->w_lane_nr = w->w_free = 0;
		ok = ok && w->w_lane != NULL;
	}
	return ok;
}

/* 0 or -errno; -ENOSYS: no lanes, threads stay where they have begun. */
static int lanes_init(struct uproc_set *s)
{
	int nr = s->set_lane_nr;
	int rc, i;

	all.s_seek.m_spare = s->set_cpu_nr > 0 && s->set_cpu_nr < s->set_nr ?
		s->set_nr - s->set_cpu_nr : 0;
	if (!lanes_tables(s))
		return -ENOMEM;
	lane_list[0].e_at = -1;
	rc = lanes_map(s);
	for (i = 0; i < s->set_nr; i++) {
		struct ws_worker *w = (struct ws_worker *)uproc_nth(s, i);

		if (rc == 0) {
			lanes_deal(w, 1 + i * nr, nr);
			rc = lanes_fixed(w);
		} else if (rc == -ENOSYS)
			ws_stop_look(&w->w_gate.g_stop);
	}
	return rc;
}

#endif /* WS_HOMES_H */
