/* SPDX-License-Identifier: MIT */
/* m_mail.c: scenarios of mail.h, with the code around it in ws.c. */

/*
 * One thread, and workers. As in ws.c, workers have the thread in their queue,
 * run it, take its node, forward the node, and give the thread away; but a
 * worker without work only pauses. The thread waits as often as it is woken, or
 * less often. Then it ends, and its memory is freed, which here means written
 * to: so any later access is a data race. A joinable thread is woken until it
 * is joined. From its end until its joiner has left, its worker computes, so
 * the joiner must not depend on a look into an inbox.
 */
#include "model.h"

#define WS_STOP_PATIENCE	1
#define WS_STOP_RELAX()		((void)0)
#define WS_STOP_GIVE_WAY(nr)	model_pause(1)
#define UFENCE_MODEL
#include "usched.h"
#include "mail.h"
#include "stop.h"

#define WORKERS	2
#define POSTERS	2

/* What a thief does. Without a thief no worker is stopped. */
enum { NO_THIEF, TAKES, MOVES, DRAINS };

static struct {
	struct worker {
		struct uinbox  p_inbox;
		struct ws_stop p_stop;
		int            p_queue;	/* the thread is there */
		int            p_now;	/* the thread runs there */
		int            p_pool;	/* memory; owner only */
	} worker[WORKERS];
	struct uwakes wakes;		/* of the thread */
	int home;			/* number + 1; 0: not begun (atomic) */
	int can_run;			/* then it is in one place */
	int waits;			/* waits that are left */
	int count;			/* w_count at the end */
	int pulls;			/* moves by its home that are left */
	int steals;			/* thefts by worker 1 that are left */
	int how;			/* how worker 1 steals */
	int joined;			/* it is joinable */
	int known;			/* it ends after this many wakes */
	int ended;			/* its joiner is told (atomic) */
	int left;			/* its joiner has left (atomic) */
	int freed;			/* atomic */
	int sent;			/* atomic */
	int data[POSTERS];		/* written before the wakes */
	int told;			/* sum of data[] at the end */
} s;

static int home(void)
{
	return __atomic_load_n(&s.home, __ATOMIC_ACQUIRE);
}

static void move(int to)
{
	__atomic_store_n(&s.home, to, __ATOMIC_SEQ_CST);
}

static int number(const struct worker *p)
{
	return (int)(p - s.worker) + 1;
}

/* Messages. */

static void post_to(int nr)
{
	MUST(nr > 0);
	uinbox_post(&s.worker[nr - 1].p_inbox, &s.wakes.w_node);
}

static void hand(int nr)
{
	if (ws_mail_give(&s.wakes))
		post_to(nr);
}

/* Gives the memory of the thread to another use. */
static void release(void)
{
	s.count = s.wakes.w_count + ws_mail_wakes(s.wakes.w_posted);
	s.wakes.w_count  = 77;
	s.wakes.w_posted = 77;
	s.wakes.w_node.n_next = NULL;
	__atomic_store_n(&s.freed, s.freed + 1, __ATOMIC_RELEASE);
}

static void line_up(struct worker *p)
{
	MUST(s.can_run && !p->p_queue);
	p->p_queue = 1;
}

static bool pull(struct worker *p)
{
	int to = number(p) % WORKERS + 1;

	if (s.pulls == 0)
		return false;
	s.pulls--;
	move(to);
	hand(to);
	return true;
}

static void take(struct worker *p, bool owner)
{
	unsigned bits = ws_mail_open(&s.wakes);
	int wakes = ws_mail_wakes(bits);
	int can_run = (bits & WS_MAIL_RUN) != 0;

	MUST(bits & UWAKES_POSTED && !(bits & UWAKES_GONE));
	if (wakes > 0 && uwakes_add(&s.wakes, wakes)) {
		MUST(!can_run && !s.can_run);
		can_run = s.can_run = 1;
		if (owner && pull(p))
			return;
	}
	if (can_run)
		line_up(p);
}

/* Takes the node of the thread, which has ended. */
static void open_gone(struct worker *me)
{
	unsigned bits = ws_mail_open(&s.wakes);

	MUST(bits & UWAKES_POSTED);
	if (bits & UWAKES_LEFT) {
		me->p_pool = 1;
		release();
	}
}

/* Empties the inbox of p. me is p, or has stopped p. */
static void drain(struct worker *p, struct worker *me)
{
	bool owner = me == p;
	struct uinbox_node *last = NULL;
	struct uinbox_node *n;

	while ((n = uinbox_take(&p->p_inbox)) != NULL) {
		int at;

		MUST(n == &s.wakes.w_node && last == NULL);
		if (ws_mail_gone(&s.wakes)) {
			open_gone(me);
			continue;
		}
		at = home();
		if (at != number(p) && at != 0)
			post_to(at);
		else if (!owner && p->p_now && at == number(p))
			last = n;		/* the thread uses its count */
		else
			take(p, owner);
	}
	if (last != NULL)
		uinbox_post(&p->p_inbox, last);
}

/* The thread. */

static void end(struct worker *p)
{
	int i;

	for (i = 0; i < (s.joined ? s.known : POSTERS); i++)
		s.told += s.data[i];
	s.can_run = 0;
	if (!s.joined) {
		if (ws_mail_close(&s.wakes, UWAKES_LEFT)) {
			p->p_pool = 1;
			release();
		}
		return;
	}
	(void)ws_mail_close(&s.wakes, 0);
	__atomic_store_n(&s.ended, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&s.left, __ATOMIC_RELAXED))
		model_pause(5);
}

/* Runs the thread until it blocks. */
static void run(struct worker *p)
{
	MUST(s.can_run);
	while (s.waits > 0) {
		s.waits--;
		if (!uwakes_wait(&s.wakes))
			continue;
		s.can_run = 0;
		if (ws_mail_settled(&s.wakes) || !ws_mail_settle(&s.wakes))
			return;
		s.can_run = 1;
	}
	end(p);
}

/*
 * The thread ends when it knows that it was woken; the wake may be under way.
 */
static void run_and_know(struct worker *p)
{
	while (!__atomic_load_n(&s.sent, __ATOMIC_ACQUIRE))
		model_pause(2);
	s.known = 1;
	run(p);
}

/* The thread cannot block, and takes the wake without its node. */
static void run_and_collect(struct worker *p)
{
	while (!__atomic_load_n(&s.sent, __ATOMIC_RELAXED))
		model_pause(7);
	ws_mail_collect(&s.wakes);
	run(p);
	MUST(!s.can_run && s.waits == 0);
}

/* Workers. */

/*
 * Begins to run the thread, which is in the queue. Caller is inside
 * (ws_stop_enter).
 */
static bool begin(struct worker *p)
{
	int at = home();

	MUST(p->p_queue && s.can_run);
	p->p_queue = 0;
	if (at != 0 && at != number(p)) {
		hand(at);			/* a thief has taken its lane */
		return false;
	}
	if (at == 0)
		__atomic_store_n(&s.home, number(p), __ATOMIC_RELAXED);
	p->p_now = 1;
	return true;
}

/* Takes the thread or its lane from v, or only empties v's inbox. */
static bool steal(struct worker *w, struct worker *v)
{
	bool got = false;

	if (s.steals == 0)
		return false;
	s.steals--;
	if (ws_stop_ask(&v->p_stop) == 0 || !ws_stop_force(&v->p_stop))
		return false;
	if (s.how == DRAINS)
		drain(v, w);
	if (v->p_queue && (home() == number(v) || home() == 0)) {
		if (home() != 0)
			move(number(w));
		got = s.how != MOVES;
		v->p_queue = !got;
	}
	ws_stop_end(&v->p_stop);
	return got;
}

/* Tells whether the thread is to run here. Caller is inside (ws_stop_enter). */
static bool choose(struct worker *p)
{
	p->p_now = 0;
	do {
		drain(p, p);
		if (!p->p_queue)
			return false;
	} while (!begin(p));
	return true;
}

static void worker(int nr, void (*thread)(struct worker *p))
{
	struct worker *p = &s.worker[nr];
	bool is_stopped = nr == 0 && s.how != NO_THIEF;
	bool runs;

	for (;;) {
		model_turn(3);
		if (is_stopped)
			ws_stop_enter(&p->p_stop);
		runs = choose(p);
		if (is_stopped)
			ws_stop_leave(&p->p_stop);
		p->p_pool = 1;			/* as any thread may */
		if (runs)
			thread(p);
		else if (nr == 1 && steal(p, &s.worker[0]))
			p->p_queue = 1;
		else if (__atomic_load_n(&s.freed, __ATOMIC_ACQUIRE))
			return;
		else
			model_pause(3);
	}
}

static void zero(void)		{ worker(0, run); }
static void one(void)		{ worker(1, run); }
static void zero_knows(void)	{ worker(0, run_and_know); }
static void one_knows(void)	{ worker(1, run_and_know); }

static void zero_collects(void)	{ worker(0, run_and_collect); }
static void one_collects(void)	{ worker(1, run_and_collect); }

/* Others. */

static void wake(int who, int nr)
{
	s.data[who] = 1;
	while (nr-- > 0)
		if (ws_mail_post(&s.wakes))
			post_to(home());
}

static void wake_zero(void)	{ wake(0, 1); }
static void wake_one(void)	{ wake(1, 1); }
static void wake_twice(void)	{ wake(0, 2); }
static void wake_thrice(void)	{ wake(0, 3); }

/* Wakes, and lets the thread know that there is a wake. */
static void wake_and_tell(void)
{
	bool first;

	s.data[0] = 1;
	first = ws_mail_post(&s.wakes);
	__atomic_store_n(&s.sent, 1, __ATOMIC_RELEASE);
	if (first)
		post_to(home());
}

static void maker(void)		{ hand(1); }

static void joiner(void)
{
	while (!__atomic_load_n(&s.ended, __ATOMIC_ACQUIRE))
		model_pause(4);
	if (uwakes_leave(&s.wakes))
		release();
	__atomic_store_n(&s.left, 1, __ATOMIC_RELAXED);
}

static void wake_and_join(void)
{
	wake_one();
	joiner();
}

/* Joins after another thread has woken it, too. */
static void wake_and_join_both(void)
{
	wake_one();
	while (!__atomic_load_n(&s.sent, __ATOMIC_ACQUIRE))
		model_pause(6);
	joiner();
}

/* Starts and ends. */

static void init(int count, int posted, int waits)
{
	int i;

#if defined(UFENCE_MEMBARRIER)
	ufence_mode = UFENCE_BOTH_FULL;
#endif
	for (i = 0; i < WORKERS; i++)
		uinbox_init(&s.worker[i].p_inbox);
	uwakes_init(&s.wakes);
	s.wakes.w_count  = count;
	s.wakes.w_posted = posted;
	s.waits = waits;
	s.can_run = count >= 0;
	NAME(s.worker[0].p_inbox.i_tail);
	NAME(s.worker[1].p_inbox.i_tail);
	NAME(s.worker[0].p_inbox.i_head);
	NAME(s.worker[1].p_inbox.i_head);
	NAME(s.worker[0].p_inbox.i_stub);
	NAME(s.worker[1].p_inbox.i_stub);
	NAME(s.worker[0].p_stop.k_in);
	NAME(s.worker[1].p_stop.k_in);
	NAME(s.worker[0].p_stop.k_stop);
	NAME(s.worker[0].p_queue);
	NAME(s.worker[1].p_queue);
	NAME(s.wakes.w_count);
	NAME(s.wakes.w_posted);
	NAME(s.wakes.w_node);
	NAME(s.home);
	NAME(s.freed);
	NAME(s.sent);
	NAME(s.ended);
	NAME(s.left);
	NAME(s.can_run);
}

/* The thread is new, and its maker hands it over. */
static void handed(void)
{
	init(0, 0, 1);
}

/* The thread is new, and in the queue of the first worker. */
static void made(int waits)
{
	init(0, 0, waits);
	s.worker[0].p_queue = 1;
}

static void made_one(void)	{ made(1); }
static void made_two(void)	{ made(2); }

/*
 * The thread waits, at home with the first worker, for the first of its wakes.
 */
static void waits(int wakes, int pulls)
{
	init(-1, WS_MAIL_SETTLED, wakes - 1);
	s.home  = 1;
	s.pulls = pulls;
}

static void waits_pull_one(void)	{ waits(2, 1); }
static void waits_pull_two(void)	{ waits(3, 2); }

/* The thread has waited before, and can run, at home with the first worker. */
static void runs(int waits, int steals, int how)
{
	init(0, WS_MAIL_SETTLED, waits);
	s.home = 1;
	s.worker[0].p_queue = 1;
	s.steals = steals;
	s.how = how;
}

static void runs_taken(void)	{ runs(1, 1, TAKES); }
static void runs_moved(void)	{ runs(1, 1, MOVES); }
static void runs_drained(void)	{ runs(2, 1, DRAINS); }
static void runs_ends(void)	{ runs(0, 0, NO_THIEF); }
static void runs_ends_moved(void)	{ runs(0, 1, MOVES); }
static void runs_ends_drained(void)	{ runs(0, 1, DRAINS); }

static void made_ends(void)	{ made(0); }

static void made_moved(void)
{
	made(1);
	s.steals = 1;
	s.how = MOVES;
}

static void made_joined(void)
{
	made(2);
	s.joined = 1;
	s.known  = 2;
}

static void joined(int steals, int how)
{
	runs(0, steals, how);
	s.joined = 1;
}

static void runs_joined(void)		{ joined(0, NO_THIEF); }
static void runs_joined_moved(void)	{ joined(1, MOVES); }
static void runs_joined_drained(void)	{ joined(1, DRAINS); }

static void done(void)
{
	int i;

	MUST(s.freed == 1);
	MUST(s.waits == 0 && !s.can_run);
	for (i = 0; i < WORKERS; i++) {
		MUST(!s.worker[i].p_queue);
		MUST(uinbox_take(&s.worker[i].p_inbox) == NULL);
		MUST(uinbox_empty(&s.worker[i].p_inbox));
	}
}

/* There were as many wakes as waits, from so many posters. */
static void done_one(void)	{ done(); MUST(s.count == 0 && s.told == 1); }
static void done_two(void)	{ done(); MUST(s.count == 0 && s.told == 2); }

/* There was one wake too many, which may be dropped. */
static void done_more(void)	{ done(); MUST(s.told == 1); }

/* All wakes may be dropped. */
static void done_any(void)	{ done(); }

#define MAIL(name, quick, most, init, done, ...)			\
	{ "mail: " name, quick, most, 0,				\
	  &s, sizeof s, init, { __VA_ARGS__ }, done }

#define ANY	MODEL_ANY
#define NOT	MODEL_NOT

const struct model_scenario scenarios[] = {
	MAIL("first wait, one post", ANY, ANY, made_one, done_one,
	     zero, wake_zero),
	MAIL("first wait, two posts", ANY, ANY, made_two, done_two,
	     zero, wake_zero, wake_one),
	MAIL("new, handed over, a post", ANY, ANY, handed, done_one,
	     zero, maker, wake_zero),
	MAIL("the home changes", 2, ANY, waits_pull_one, done_one,
	     zero, one, wake_twice),
	MAIL("the home changes there and back", 1, ANY, waits_pull_two,
	     done_one, zero, one, wake_thrice),
	MAIL("the home changes, two posters", 1, 3, waits_pull_one,
	     done_two, zero, one, wake_zero, wake_one),
	MAIL("it ends, and a wake comes", ANY, ANY, runs_ends, done_more,
	     zero_knows, wake_and_tell),
	MAIL("it ends, has not waited, and a wake", ANY, ANY, made_ends,
	     done_more, zero_knows, wake_and_tell),
	MAIL("it ends, a wake under way, joined", ANY, ANY, runs_joined,
	     done_more, zero_knows, wake_and_tell, wake_and_join_both),
	MAIL("it ends, woken until it is joined", ANY, ANY, runs_joined,
	     done_any, zero, wake_and_join),
	MAIL("it ends, woken by two, joined", 2, ANY, runs_joined,
	     done_any, zero, wake_and_tell, wake_and_join_both),
	MAIL("a thief looks, it ends, woken, joined", 1, 3,
	     runs_joined_drained, done_any, zero, one, wake_and_join),
	MAIL("its lane taken, it ends, woken, joined", 1, 3,
	     runs_joined_moved, done_any, zero, one, wake_and_join),
	MAIL("it collects a wake, wherever its node is", 1, 3, runs_taken,
	     done_more, zero_collects, one_collects, wake_and_tell),
	MAIL("it ends, joined by one who woke it", 1, ANY, made_joined,
	     done_two, zero, wake_zero, wake_and_join),
	MAIL("a thief looks, it ends, a wake", 1, 3, runs_ends_drained,
	     done_more, zero_knows, one_knows, wake_and_tell),
	MAIL("a thief looks into the inbox", 1, 2, runs_drained, done_one,
	     zero, one, wake_twice),
	MAIL("its lane taken, it ends, a wake", 1, 2, runs_ends_moved,
	     done_more, zero_knows, one_knows, wake_and_tell),
	MAIL("its lane taken, first wait", 1, 3, made_moved, done_one,
	     zero, one, wake_zero),
	MAIL("its lane taken", NOT, 3, runs_moved, done_one,
	     zero, one, wake_zero),
	MAIL("taken by a thief", 1, 3, runs_taken, done_one,
	     zero, one, wake_zero),
	{ 0 }
};
