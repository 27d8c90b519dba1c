/* SPDX-License-Identifier: MIT */
/* share.c: locks and channels that actors share, in scopes to be cancelled. */

#include "chaos.h"
#include "uchan.h"
#include "uscope.h"
#include "usync.h"

#define CHANS		4
#define OPEN		2		/* channels that stay open */
#define VALUES		50000
#define SLOTS		4
#define WRITER		100000l		/* weighs that many readers */

/* A thread or native thread that uses what is shared. */
struct user {
	struct actor *u_actor;		/* NULL: made by uscope_go() */
	unsigned      u_random;
	int           u_set;
	bool          u_scoped;
};

static void yields(const struct user *u)
{
	if (u->u_set == OUTSIDE)
		usleep(1);
	else
		(void)refused(sched[u->u_set].c_yield());
}

static void says(const struct user *u, const char *what)
{
	if (u->u_actor != NULL)
		is_doing(u->u_actor, what);
}

static utime_ns before_long(struct user *u)
{
	return uafter(any(&u->u_random, 200) * UTIME_US);
}

/* Native threads never wait for long: others may wait for them. */
static utime_ns deadline(struct user *u)
{
	unsigned r = any(&u->u_random, 4);

	if (r == 0)
		return UNOW;
	return u->u_set == OUTSIDE || (r == 1 && program.p_may[T_time]) ?
		before_long(u) : UNEVER;
}

/* Checks the result of a wait. Returns whether the event has come. */
static bool came(const struct user *u, int rc, utime_ns until)
{
	if (rc == 0 || rc == -ENOMEM)
		return !refused(rc);
	CHECK((rc == -EAGAIN && until == UNOW) ||
	      (rc == -ETIMEDOUT && until != UNOW && until != UNEVER) ||
	      (rc == -ECANCELED && u->u_scoped));
	return false;
}

/* Relaxed, so that only the library orders what users do. */
static long plus(long *at, long nr)
{
	return __atomic_add_fetch(at, nr, __ATOMIC_RELAXED);
}

/* Locks. */

enum { MUTEX, SEM, COND, RW, LOCKS };

static const char *const lock_name[LOCKS] = {
	"lock a mutex", "take a unit", "wait for room", "read or write"
};
static const long most[LOCKS] = { 1, 2, 3, WRITER };	/* may be inside */
static struct umutex mutex, guard;
static struct usem   sem;
static struct ucond  cond;
static struct urw    rw;
static long inside[LOCKS], entered;
static long plain[LOCKS];	/* of MUTEX, of COND, and of writers */

static int cond_enter(utime_ns until)
{
	int rc = umutex_lock(&guard, until);

	if (rc != 0)
		return rc;
	while (rc == 0 && plain[COND] == most[COND])
		rc = ucond_wait(&cond, &guard, until);
	/* Without memory it has kept the mutex. */
	CHECK(rc != -ENOMEM || plain[COND] == most[COND]);
	plain[COND] += rc == 0;
	umutex_unlock(&guard);
	return rc;
}

static int enter(int lock, bool write, utime_ns until)
{
	switch (lock) {
	case MUTEX:	return umutex_lock(&mutex, until);
	case SEM:	return usem_wait(&sem, until);
	case COND:	return cond_enter(until);
	default:	return (write ? urw_write : urw_read)(&rw, until);
	}
}

static void cond_leave(const struct user *u)
{
	while (umutex_lock(&guard, uafter(UTIME_MS)) != 0)
		yields(u);
	plain[COND]--;
	ucond_signal(&cond);
	umutex_unlock(&guard);
}

static void leave(const struct user *u, int lock)
{
	switch (lock) {
	case MUTEX:	umutex_unlock(&mutex); break;
	case SEM:	CHECK(usem_post(&sem) == 0); break;
	case COND:	cond_leave(u); break;
	default:	urw_unlock(&rw);
	}
}

/* Stays inside over a yield, a sleep, or a wait that is sure to end. */
static void stay(struct user *u)
{
	switch (any(&u->u_random, 6)) {
	case 0: case 1:
		yields(u);
		break;
	case 2:
		if (program.p_may[T_time])
			(void)came(u, u_sleep(before_long(u)), UNEVER);
		break;
	case 3:
		if (u->u_actor != NULL && !u->u_scoped)
			wait_if_sure(u->u_actor);
	}
}

static void locks(struct user *u)
{
	int lock = (int)any(&u->u_random, LOCKS);
	bool alone = lock == MUTEX || (lock == RW && any(&u->u_random, 3) == 0);
	long weight = lock == RW && alone ? WRITER : 1;
	utime_ns until = deadline(u);
	long was;

	says(u, lock_name[lock]);
	if (!came(u, enter(lock, alone, until), until))
		return;
	says(u, "stay inside");
	CHECK(plus(&inside[lock], weight) <= most[lock]);
	was = lock == MUTEX || lock == RW ? plain[lock] : 0;
	stay(u);
	if (alone) {
		plus(&entered, 1);
		plain[lock] = was + 1;
	}
	plus(&inside[lock], -weight);
	leave(u, lock);
}

/* Channels. */

static struct uchan *chan[CHANS];
static long closing[CHANS];
static long values;		/* that were offered */
static long state_of[VALUES];	/* 1: sent, 2: received; 3: both */
static unsigned word[VALUES];	/* plain: written before the value is sent */

static void closes(int c)
{
	if (__atomic_exchange_n(&closing[c], 1, __ATOMIC_SEQ_CST) == 0)
		CHECK(uchan_close(chan[c]) == 0);
}

/* Makes a case, and a value to send. */
static struct ucase offer(int c, long *v, bool send)
{
	struct ucase k = { .cs_chan = chan[c], .cs_value = v, .cs_send = send };

	*v = -1;
	if (!send)
		return k;
	*v = plus(&values, 1) - 1;
	if (*v < VALUES)
		word[*v] = check_hash(program.p_seed, (unsigned)*v);
	else {
		closes(c);
		k.cs_chan = NULL;
	}
	return k;
}

/* Notes what has become of a case. */
static void passed(int c, long v, bool send, int rc)
{
	if (rc == -EPIPE)
		CHECK(get(&closing[c]));
	if (rc != 0)
		return;
	CHECK(v >= 0 && v < VALUES);
	CHECK(send || word[v] == check_hash(program.p_seed, (unsigned)v));
	CHECK((plus(&state_of[v], send ? 1 : 2) & ~(send ? 2l : 1l)) ==
	      (send ? 1 : 2));
}

static void pass(struct user *u, int c, bool send, utime_ns until)
{
	long v;
	struct ucase k = offer(c, &v, send);
	int rc;

	if (k.cs_chan == NULL)
		return;
	rc = send ? uchan_send(chan[c], &v, until) :
		uchan_recv(chan[c], &v, until);
	if (rc == -EPIPE || came(u, rc, until))
		passed(c, v, send, rc);
	else
		CHECK(send || v == -1);
}

static void selects(struct user *u, utime_ns until)
{
	unsigned r = any(&u->u_random, 16 * CHANS);
	int c[2] = { (int)r / 16, (int)any(&u->u_random, CHANS) };
	struct ucase k[2];
	long v[2];
	int i, rc;

	for (i = 0; i < 2; i++)
		k[i] = offer(c[i], &v[i], r >> i & 1);
	if (k[0].cs_chan == NULL && k[1].cs_chan == NULL)
		return;
	rc = (r & 4 ? uselect : uselect_ordered)(k, 2, until);
	CHECK(rc < 2);
	if (rc < 0)
		(void)came(u, rc, until);
	for (i = 0; i < 2; i++)
		if (i == rc)
			passed(c[i], v[i], k[i].cs_send, k[i].cs_result);
		else
			CHECK(k[i].cs_send || v[i] == -1);
}

static void passes(struct user *u)
{
	utime_ns until = deadline(u);
	unsigned r = any(&u->u_random, 8 * CHANS);

	says(u, "pass a value");
	if (any(&u->u_random, 300) == 0)
		closes(OPEN + (int)any(&u->u_random, CHANS - OPEN));
	if (r % 4 == 0)
		selects(u, until);
	else
		pass(u, (int)r / 8, r & 1, until);
}

/* Lets those go on that wait for a partner. A native thread only. */
static void serve(struct user *u)
{
	int c;

	for (c = 0; program.p_may[T_chan] && c < CHANS; c++) {
		pass(u, c, false, UNOW);
		pass(u, c, true, UNOW);
	}
}

/* Scopes. */

static struct uscope *slot[SLOTS];	/* any actor may cancel them */

static void cancels(struct user *u)
{
	struct uscope *s = __atomic_exchange_n(
		&slot[any(&u->u_random, SLOTS)], NULL, __ATOMIC_ACQ_REL);

	if (s == NULL)
		return;
	uscope_cancel(s);
	uscope_release(s);
}

static void uses(struct user *u)
{
	if (program.p_may[T_lock] &&
	    (!program.p_may[T_chan] || any(&u->u_random, 2)))
		locks(u);
	else if (program.p_may[T_chan])
		passes(u);
}

static int is_made(void *arg)
{
	unsigned random = (unsigned)(uintptr_t)arg;
	struct user u = { NULL, random | 1, (int)(random % 4), true };

	uses(&u);
	uses(&u);
	return u.u_random % 16 == 0;
}

static void begun(struct user *u, struct uscope *s)
{
	struct uscope *none = NULL, *mine = s;
	struct uscope **at = &slot[any(&u->u_random, SLOTS)];
	unsigned i = any(&u->u_random, 3);
	int rc;

	uscope_hold(s);
	if (!__atomic_compare_exchange_n(at, &none, s, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		uscope_release(s);
	for (; i > 0; i--) {
		rc = uscope_go(s, is_made, (void *)(uintptr_t)
			(check_random(&u->u_random) / 4 * 4 +
			 (unsigned)u->u_set));
		CHECK(rc == -ECANCELED || rc == 0 || refused(rc));
	}
	uses(u);
	uses(u);
	if (__atomic_compare_exchange_n(at, &mine, NULL, false,
					__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		uscope_release(s);
}

static void in_scope(struct user *u)
{
	struct uscope *s;
	int rc;

	if (refused(uscope_begin(&s, any(&u->u_random, 2) ? before_long(u) :
				 UNEVER)))
		return;
	u->u_scoped = true;
	begun(u, s);
	says(u, "end a scope");
	do
		rc = uscope_end(&s);
	while (s != NULL && refused(rc));
	CHECK(rc == 0 || rc == 1 || rc == -ETIMEDOUT || rc == -ECANCELED);
}

bool shares(void)
{
	return program.p_may[T_lock] || program.p_may[T_chan];
}

void share(struct actor *a)
{
	struct user u = { a, check_random(&a->a_random) | 1, a->a_set, false };

	if (any(&u.u_random, 4) == 0)
		cancels(&u);
	if (a->a_set == OUTSIDE)
		serve(&u);
	if (a->a_set != OUTSIDE && program.p_may[T_time] &&
	    any(&u.u_random, 4) == 0)
		in_scope(&u);
	else
		uses(&u);
}

/* The begin and the end. */

void share_init(void)
{
	int c;

	sem = (struct usem)USEM(most[SEM]);
	memset(plain, 0, sizeof plain);
	memset(state_of, 0, (size_t)(values < VALUES ? values : VALUES) *
	       sizeof state_of[0]);
	entered = values = 0;
	for (c = 0; c < CHANS; c++) {
		closing[c] = 0;
		chan[c] = uchan_make(sizeof(long), c % 2 ?
				     1 + any(&program.p_random, 5) : 0);
		CHECK(chan[c] != NULL);
	}
}

static void chan_fini(int c)
{
	long v = 0;

	closes(c);
	while (uchan_recv(chan[c], &v, UNEVER) == 0)
		passed(c, v, false, 0);
	CHECK(uchan_send(chan[c], &v, UNEVER) == -EPIPE);
	uchan_free(chan[c]);
}

void share_fini(void)
{
	long v;
	int i;

	for (i = 0; i < LOCKS; i++)
		CHECK(inside[i] == 0);
	CHECK(plain[MUTEX] + plain[RW] == entered && plain[COND] == 0);
	CHECK(umutex_busy(&mutex) == 0 && umutex_busy(&guard) == 0);
	CHECK(urw_busy(&rw) == 0 && ucond_busy(&cond) == 0);
	for (i = 0; i < most[SEM]; i++)
		CHECK(usem_wait(&sem, UNOW) == 0);
	CHECK(usem_wait(&sem, UNOW) == -EAGAIN);
	for (i = 0; i < CHANS; i++)
		chan_fini(i);
	for (v = 0; v < VALUES && v < values; v++)
		CHECK(state_of[v] == 0 || state_of[v] == 3);
	for (i = 0; i < SLOTS; i++)
		CHECK(slot[i] == NULL);
}
