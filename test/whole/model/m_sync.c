/* SPDX-License-Identifier: MIT */
/* m_sync.c: scenarios of the objects of usync.c, with waits that end anyhow. */

/*
 * usync.c and its objects are part of this file. The few lines below replace uwait.c:
 * a record is told once, by a claimer, and then its waiter goes on. A deadline
 * is a thread that claims the record at any time.
 *
 * Critical sections increment a plain number, so two at once are a race. An
 * object is freed, that is, written to, as soon as the last call has returned
 * that ends its use. So each later access by another call is a race. A record
 * that is freed is written to, as well.
 */
#include "model.h"
#define LOOKS		0
#define USYNC_LOCKS	s.lock
#define USYNC_LOCKS_LOG	1
#define USYNC_INLINE	static inline
#define ULOCK_PLACE(l)	place_of(l)
struct ulock;
static int *place_of(const struct ulock *l);
#include "usync.h"
#include "lock.h"

#include <errno.h>

#define RECORD		320		/* bytes; two waits of a condition */
#define DEADLINE	((utime_ns)1)	/* some time, or never */
#define PASSED		((utime_ns)2)

static struct {
	struct {
		struct ulock s_lock;
	} lock[2];
	struct umutex   mutex;
	struct ucond    cond;
	struct usem     sem;
	struct urw      rw;
	struct ugroup   group;
	struct ubarrier barrier;
	struct uonce    once;
	struct record {
		char           r_block[RECORD] __attribute__((aligned(16)));
	} record[MODEL_THREADS];
	struct ulock    timer;
	struct uwait   *timed;		/* has a deadline */
	int             calls[MODEL_THREADS];
	int             nr;		/* plain: under the lock */
	int             users;		/* the last frees; 0: none does */
	int             ready;		/* under the mutex */
	int             got;		/* atomic */
	int             runs;
	bool            here;		/* waiters are at home with wakers */
	int             place[3];	/* of lock.h */
} s;

static int *place_of(const struct ulock *l)
{
	return &s.place[l == &s.timer ? 2 : l == &s.lock[1].s_lock];
}

/* What stands for uwait.c. */

/* Not data: the same in each execution. */
static struct ustack *threads[MODEL_THREADS];

static int me(void)
{
	int i = 0;

	while (threads[i] != ustack_self())
		i++;
	return i;
}

int uwait_reserve(utime_ns until)
{
	(void)until;
	return 0;
}

unsigned char uwait_id(struct uwait_kind *kind)
{
	(void)kind;
	return 1;
}

int utime_is_virtual(void)
{
	return !s.here;
}

/* For lists of waits only. */
const struct uwait_kind *uwait_kind(const struct uwait *w)
{
	(void)w;
	return NULL;
}

void *uwait_make(struct uwait_kind *kind, const void *object, size_t size)
{
	struct uwait *w = (struct uwait *)s.record[me()].r_block;

	MUST(size <= RECORD);
	w->w_stack = s.here ? ustack_self() : NULL;
	w->w_state = UWAIT_WAITS;
	w->w_kind  = uwait_id(kind);
	w->w_flags = 0;
	w->w_base  = NULL;
	w->w_at.object = object;
	return w;
}

/* A plain write. */
void uwait_free(void *record)
{
	((struct uwait *)record)->w_state = 77;
}

static void timer_set(struct uwait *w)
{
	ulock_get(&s.timer);
	s.timed = w;
	ulock_put(&s.timer);
}

int uwait_for(struct uwait *w, utime_ns until)
{
	int i = me();

	s.calls[i]++;
	if (until == PASSED && uwait_claim(w))
		return -ETIMEDOUT;
	if (until == DEADLINE)
		timer_set(w);
	while (__atomic_load_n(&w->w_state, __ATOMIC_ACQUIRE) != UWAIT_ARRIVED)
		model_pause(i);
	if (until == DEADLINE)
		timer_set(NULL);
	return w->w_result;
}

void uwait_complete(struct uwait *w, int result)
{
	w->w_result = result;
	__atomic_store_n(&w->w_state, UWAIT_ARRIVED, __ATOMIC_RELEASE);
}

#define usched_fail(contract)	model_fail(contract)
#undef UMUTEX_INLINE		/* usync.h was included, as in the file of no object */
#undef USEM_INLINE
#include "usync.c"
#include "umutex.c"
#include "ucond.c"
#include "usem.c"
#include "urw.c"
#include "ugroup.c"
#include "ubarrier.c"
#include "uonce.c"

static void begin(int i)
{
	threads[i] = ustack_self();
}

/* Claims the record that has a deadline now, if there is one. */
static void deadline(void)
{
	struct uwait *w;

	ulock_get(&s.timer);
	w = s.timed;
	if (w != NULL && !uwait_claim(w))
		w = NULL;
	ulock_put(&s.timer);
	if (w != NULL)
		uwait_complete(w, -ETIMEDOUT);
}

/* Plain writes. */
static void bury(struct usync *y)
{
	y->y_state  = 77;
	y->y_hint   = 77;
	y->y_first  = NULL;
}

static bool in_time(int rc)
{
	MUST(rc == 0 || rc == -ETIMEDOUT);
	return rc == 0;
}

/* Mutexes. */

static void inside(void)
{
	int nr = ++s.nr;

	umutex_unlock(&s.mutex);
	if (nr == s.users)
		bury(&s.mutex.mx_sync);
}

static void lock(void)
{
	MUST(umutex_lock(&s.mutex, UNEVER) == 0);
	inside();
}

static void lock_0(void)	{ begin(0); lock(); }
static void lock_1(void)	{ begin(1); lock(); }
static void lock_2(void)	{ begin(2); lock(); }
static void locks_0(void)	{ begin(0); lock(); lock(); }

/* Is inside, but not among the users who free it. */
static void lock_in_time(void)
{
	begin(1);
	if (in_time(umutex_lock(&s.mutex, DEADLINE)))
		umutex_unlock(&s.mutex);
}

static void lock_late(void)
{
	begin(1);
	if (in_time(umutex_lock(&s.mutex, PASSED)))
		umutex_unlock(&s.mutex);
	__atomic_store_n(&s.got, 1, __ATOMIC_RELEASE);
}

/* Frees it, if no other needs it any more. */
static void lock_and_free(void)
{
	int nr;

	begin(2);
	MUST(umutex_lock(&s.mutex, UNEVER) == 0);
	nr = ++s.nr;
	umutex_unlock(&s.mutex);
	if (nr == 2 && __atomic_load_n(&s.got, __ATOMIC_ACQUIRE) == 1)
		bury(&s.mutex.mx_sync);
}

static void init(void)
{
	NAME(s.lock[0].s_lock.l_state);
	NAME(s.lock[1].s_lock.l_state);
	NAME(s.mutex.mx_sync.y_state);
	NAME(s.cond.cd_sync.y_state);
	NAME(s.sem.sm_sync.y_state);
	NAME(s.rw.rw_sync.y_state);
	NAME(s.group.gr_sync.y_state);
	NAME(s.barrier.br_sync.y_state);
	NAME(s.once.on_sync.y_state);
}

static void init_2(void)	{ init(); s.users = 2; }
static void init_3(void)	{ init(); s.users = 3; }
static void done_2(void)	{ MUST(s.nr == 2); }
static void done_3(void)	{ MUST(s.nr == 3); }

static void done_free(void)
{
	MUST(umutex_busy(&s.mutex) == 0 && s.mutex.mx_sync.y_first == NULL);
}

/* Conditions. */

static void wait_ready(utime_ns until)
{
	int rc = 0;

	MUST(umutex_lock(&s.mutex, UNEVER) == 0);
	if (!s.ready)
		rc = ucond_wait(&s.cond, &s.mutex, until);
	MUST(s.ready || (rc == -ETIMEDOUT && until == DEADLINE));
	inside();
}

static void wait_0(void)	{ begin(0); wait_ready(UNEVER); }
static void wait_in_time(void)	{ begin(0); wait_ready(DEADLINE); }

/* Frees the condition after the broadcast, as POSIX shows. */
static void broadcast(void)
{
	begin(1);
	MUST(umutex_lock(&s.mutex, UNEVER) == 0);
	s.ready = 1;
	ucond_broadcast(&s.cond);
	bury(&s.cond.cd_sync);
	inside();
}

static void signal_late(void)
{
	begin(1);
	MUST(umutex_lock(&s.mutex, UNEVER) == 0);
	s.ready = 1;
	inside();
	ucond_signal(&s.cond);
}

/* Semaphores: the last that gets a unit frees it. */

static void unit(utime_ns until)
{
	if (!in_time(usem_wait(&s.sem, until)))
		return;
	if (__atomic_add_fetch(&s.got, 1, __ATOMIC_ACQ_REL) == s.users)
		bury(&s.sem.sm_sync);
}

static void unit_0(void)	{ begin(0); unit(UNEVER); }
static void unit_1(void)	{ begin(1); unit(UNEVER); }
static void unit_in_time(void)	{ begin(1); unit(DEADLINE); }
static void post(void)		{ begin(2); MUST(usem_post(&s.sem) == 0); }
static void post_2(void)	{ post(); MUST(usem_post(&s.sem) == 0); }

static void done_units(void)
{
	MUST(s.got >= 1 && s.got <= 2);
	MUST(s.sem.sm_sync.y_state == (unsigned)(2 - s.got) * USEM_UNIT);
}

/* Read-write locks: a reader looks at nr, a writer changes it. */

static void write_it(utime_ns until)
{
	if (!in_time(urw_write(&s.rw, until)))
		return;
	s.nr++;
	urw_unlock(&s.rw);
}

static void read_on(void)
{
	MUST(s.nr <= 3);
	urw_unlock(&s.rw);
}

static void read_it(void)
{
	MUST(urw_read(&s.rw, UNEVER) == 0);
	read_on();
}

static void init_readers(void)
{
	init();
	MUST(urw_read(&s.rw, UNEVER) == 0 && urw_read(&s.rw, UNEVER) == 0);
}

/* All threads are at home on one processor, as far as the lock can see. */
static void init_here(void)
{
	init();
	s.here = true;
}

static void write_0(void)	{ begin(0); write_it(UNEVER); }
static void write_1(void)	{ begin(1); write_it(UNEVER); }
static void writes_0(void)	{ write_0(); write_0(); }
static void writes_1(void)	{ write_1(); write_1(); }
static void write_in_time(void)	{ begin(1); write_it(DEADLINE); }
static void read_0(void)	{ begin(0); read_it(); }
static void read_2(void)	{ begin(2); read_it(); }
static void read_on_0(void)	{ begin(0); read_on(); }
static void read_on_2(void)	{ begin(2); read_on(); }

static void done_rw(void)
{
	MUST(urw_busy(&s.rw) == 0 && s.rw.rw_writers == NULL);
}

/* Groups, barriers, once. */

static void init_group(void)
{
	init();
	MUST(ugroup_add(&s.group, 2) == 0);
}

static void group_done(int i)
{
	begin(i);
	__atomic_add_fetch(&s.got, 1, __ATOMIC_RELAXED);
	ugroup_done(&s.group);
}

static void group_0(void)	{ group_done(0); }
static void group_1(void)	{ group_done(1); }

static void group_wait(void)
{
	begin(2);
	MUST(ugroup_wait(&s.group, UNEVER) == 0);
	MUST(s.got == 2);
	bury(&s.group.gr_sync);
}

static void init_barrier(void)
{
	init();
	s.barrier = (struct ubarrier)UBARRIER(2);
}

/* The first to return frees it. */
static void meet(int i, utime_ns until)
{
	int rc;

	begin(i);
	rc = ubarrier_wait(&s.barrier, until);
	if (rc == -ETIMEDOUT)
		rc = ubarrier_wait(&s.barrier, UNEVER);
	MUST(rc == 0 || rc == 1);
	if (__atomic_fetch_add(&s.got, 1, __ATOMIC_RELAXED) == 0)
		bury(&s.barrier.br_sync);
}

static void meet_0(void)	{ meet(0, UNEVER); }
static void meet_1(void)	{ meet(1, UNEVER); }
static void meet_in_time(void)	{ meet(1, DEADLINE); }
static void done_met(void)	{ MUST(s.got == 2); }

static int fails_first(void *arg)
{
	(void)arg;
	return ++s.runs < 2 ? -7 : 0;
}

static void do_once(int i)
{
	int rc;

	begin(i);
	rc = uonce(&s.once, fails_first, NULL, UNEVER);
	MUST(rc == 0 || rc == -7);
	if (rc == 0)
		MUST(s.runs == 2);
	else
		MUST(uonce(&s.once, fails_first, NULL, UNEVER) == 0);
	if (__atomic_add_fetch(&s.got, 1, __ATOMIC_ACQ_REL) == s.users)
		bury(&s.once.on_sync);
}

static void once_0(void)	{ do_once(0); }
static void once_1(void)	{ do_once(1); }
static void done_once(void)	{ MUST(s.runs == 2); }

const struct model_scenario scenarios[] = {
	{ "mutex: two, the last frees it", 3, MODEL_ANY, 0,
	  &s, sizeof s, init_2, { lock_0, lock_1 }, done_2 },
	{ "mutex: two of three locks", 1, 3, 0,
	  &s, sizeof s, init_3, { locks_0, lock_1 }, done_3 },
	{ "mutex: two, in time or not", 1, 3, 0,
	  &s, sizeof s, init, { lock_0, lock_in_time, deadline }, done_free },
	{ "cond: a broadcast, and a free", 1, 3, 0,
	  &s, sizeof s, init_2, { wait_0, broadcast }, done_2 },
	{ "cond: the same, with a deadline", 1, 2, 0,
	  &s, sizeof s, init_2, { wait_in_time, broadcast, deadline }, done_2 },
	{ "cond: a signal after the unlock", 1, 3, 0,
	  &s, sizeof s, init, { wait_0, signal_late }, done_2 },
	{ "sem: the waiter frees it", 1, 2, 0,
	  &s, sizeof s, init_2, { unit_0, unit_1, post_2 }, NULL },
	{ "sem: two, in time or not", MODEL_NOT, 1, 0,
	  &s, sizeof s, init, { unit_0, unit_in_time, post_2, deadline },
	  done_units },
	{ "rw: two writers", 2, 3, 0,
	  &s, sizeof s, init, { write_0, write_1 }, done_rw },
	{ "rw: a writer and a reader", 2, 3, 0,
	  &s, sizeof s, init, { read_0, write_1 }, done_rw },
	{ "rw: a writer, and two that read", 1, 3, 0,
	  &s, sizeof s, init_readers, { read_on_0, write_1, read_on_2 },
	  done_rw },
	{ "rw: a writer in time or not", 1, 2, 0,
	  &s, sizeof s, init, { read_0, write_in_time, deadline }, done_rw },
	{ "rw: a writer in time or not, and readers", MODEL_NOT, 1, 0,
	  &s, sizeof s, init, { read_0, write_in_time, read_2, deadline },
	  done_rw },
	{ "rw: two writers at home", 1, 2, 0,
	  &s, sizeof s, init_here, { writes_0, write_1 }, done_rw },
	{ "rw: a writer and a reader at home", 1, 2, 0,
	  &s, sizeof s, init_here, { read_0, writes_1 }, done_rw },
	{ "rw: a writer and two readers at home", 0, 1, 0,
	  &s, sizeof s, init_here, { read_0, write_1, read_2 }, done_rw },
	{ "rw: two writers and a reader at home", 0, 1, 0,
	  &s, sizeof s, init_here, { write_0, write_1, read_2 }, done_rw },
	{ "rw: a writer in time or not, at home", 1, 2, 0,
	  &s, sizeof s, init_here, { read_0, write_in_time, deadline },
	  done_rw },
	{ "group: the waiter frees it", 1, 2, 0,
	  &s, sizeof s, init_group, { group_0, group_1, group_wait }, NULL },
	{ "barrier: the first frees it", 2, 3, 0,
	  &s, sizeof s, init_barrier, { meet_0, meet_1 }, done_met },
	{ "barrier: in time or not", 1, 2, 0,
	  &s, sizeof s, init_barrier, { meet_0, meet_in_time, deadline },
	  done_met },
	{ "once: two, the last frees it", 2, 3, 0,
	  &s, sizeof s, init_2, { once_0, once_1 }, done_once },
	{ "mutex: two, and a third too late", MODEL_NOT, 1, 0,
	  &s, sizeof s, init, { lock_0, lock_late, lock_and_free }, done_2 },
	{ "mutex: three", MODEL_NOT, 1, 0,
	  &s, sizeof s, init_3, { lock_0, lock_1, lock_2 }, done_3 },
	{ 0 }
};
