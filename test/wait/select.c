/* SPDX-License-Identifier: MIT */
/* select: a choice does exactly one of its cases, each with equal chance. */
/* VARIANTS: RR LL WS PR */

/*
 * Cases that were not chosen have no effect. A choice that waits is found by
 * all its channels, and by no two of them. Random programs of sends, receives,
 * choices, deadlines and closes receive each value that was sent, once; other
 * values never. First in real time, with native threads, then in virtual time.
 */
#include "either.h"
#include "uchan.h"

#include <limits.h>

#define DRAWS	20000

static struct uchan *c, *d, *e;
static long ended;

/* Which case is chosen. */

static int pick(struct ucase *k, int nr, bool ordered)
{
	int i = ordered ? uselect_ordered(k, nr, UNOW) : uselect(k, nr, UNOW);
	long v;

	CHECK(i >= 0 && i < nr && k[i].cs_result == 0);
	v = *(long *)k[i].cs_value;
	CHECK_IS(v, (long)(intptr_t)k[i].cs_chan);
	*(long *)k[i].cs_value = 0;
	CHECK_IS(uchan_send(k[i].cs_chan, &v, UNOW), 0);
	return i;
}

/* ready: which of the cases are possible, as bits */
static void draws(int nr, unsigned ready)
{
	int possible = __builtin_popcount(ready);
	struct ucase k[8];
	long count[8] = { 0 };
	long v[8] = { 0 };
	int i;

	for (i = 0; i < nr; i++) {
		k[i] = (struct ucase)UCASE_RECV(uchan_make(sizeof(long), 1),
						&v[i]);
		if (ready >> i & 1)
			CHECK_IS(uchan_send(k[i].cs_chan,
				 &(long){ (long)(intptr_t)k[i].cs_chan }, UNOW),
				 0);
	}
	for (i = 0; i < DRAWS; i++)
		count[pick(k, nr, false)]++;
	for (i = 0; i < nr; i++) {
		/* More than eight standard deviations. */
		CHECK(ready >> i & 1 ?
			labs(count[i] - DRAWS / possible) < DRAWS / 33 :
			count[i] == 0);
		CHECK_IS(v[i], 0);
	}
	for (i = 0; i < 100; i++)
		CHECK_IS(pick(k, nr, true), __builtin_ctz(ready));
	for (i = 0; i < nr; i++)
		uchan_free(k[i].cs_chan);
}

static void chance(void *arg)
{
	draws(1, 1);
	draws(2, 3);
	draws(2, 2);
	draws(4, 9);		/* 1/4 and 3/4 if it went round from a start */
	draws(5, 31);
	draws(8, 0xe2);
}

/* Cases that are off, arguments, deadlines. */

static void odd(void *arg)
{
	long v = 5;
	struct ucase k[3] = {
		UCASE_SEND(NULL, NULL), UCASE_RECV(NULL, &v), UCASE_SEND(c, &v)
	};
	utime_ns then = uafter(12345);

	CHECK_IS(uselect(NULL, 0, UNOW), -EAGAIN);
	CHECK(uselect(NULL, 0, then) == -ETIMEDOUT && unow() == then);
	CHECK_IS(uselect(k, 2, UNOW), -EAGAIN);
	CHECK_IS(uselect_ordered(k, 2, uafter(5)), -ETIMEDOUT);
	CHECK_IS(unow(), then + 5);
	k[2].cs_chan = c;
	CHECK(uselect(k, 3, UNEVER) == 2 && k[2].cs_result == 0);
	CHECK_IS(uselect(k, 3, UNOW), -EAGAIN);
	CHECK_IS(uselect(k, 3, uafter(1)), -ETIMEDOUT);
	CHECK_IS(uselect(k, -1, UNOW), -EINVAL);
	CHECK_IS(uselect(NULL, 1, UNOW), -EINVAL);
	CHECK_IS(uselect(k, 3, -1), -EINVAL);
	CHECK_IS(uselect_ordered(k, 3, INT64_MIN), -EINVAL);
	CHECK(uchan_recv(c, &v, UNOW) == 0 && v == 5);
	CHECK_IS(uchan_close(c), 0);
	k[1] = (struct ucase)UCASE_RECV(c, &v);
	v = 6;
	CHECK_IS(uselect_ordered(k, 3, UNEVER), 1);
	CHECK(k[1].cs_result == -EPIPE && v == 6);
	k[1].cs_chan = NULL;
	CHECK(uselect(k, 3, UNEVER) == 2 && k[2].cs_result == -EPIPE);
}

#define LARGE	3000

static void large(void *arg)
{
	static struct ucase k[UCHAN_SIZE_MOST];
	static char v[UCHAN_SIZE_MOST];
	int i;

	for (i = 0; i < LARGE; i++)
		k[i] = (struct ucase)UCASE_SEND(uchan_make(1, 0), v);
	CHECK_IS(uselect(k, LARGE, uafter(10)), -ETIMEDOUT);
	CHECK_IS(uchan_close(k[LARGE - 7].cs_chan), 0);
	CHECK_IS(uselect(k, LARGE, UNEVER), LARGE - 7);
	for (i = 0; i < LARGE; i++)
		uchan_free(k[i].cs_chan);
	d = uchan_make(UCHAN_SIZE_MOST, 0);
	for (i = 0; i < COUNT(k); i++)
		k[i] = (struct ucase)UCASE_RECV(d, v);
	CHECK_IS(uselect(k, 2000, uafter(10)), -ETIMEDOUT);
	CHECK_IS(uselect(k, COUNT(k), UNOW), -EAGAIN);
	CHECK_IS(uselect(k, COUNT(k), UNEVER), -EINVAL);
	for (i = 0; i < 9; i++)
		k[i].cs_send = true;
	CHECK_IS(uselect(k, 7, uafter(10)), -ETIMEDOUT);
	CHECK_IS(uselect(k, 9, UNEVER), -EINVAL);
	uchan_free(d);
}

/* A channel in several cases; a select does not meet itself. */

static void twice_waits(void *arg)
{
	long v[3] = { 1, -1, -1 };
	struct ucase k[3] = {
		UCASE_SEND(c, &v[0]), UCASE_RECV(c, &v[1]), UCASE_RECV(c, &v[2])
	};
	int i;

	CHECK_IS(uselect(k, 3, uafter(50)), -ETIMEDOUT);
	i = uselect(k, 3, UNEVER);
	if (arg == NULL)
		CHECK(i == 0 && v[1] == -1 && v[2] == -1);
	else
		CHECK((i == 1 || i == 2) && v[i] == 8 && v[3 - i] == -1);
	ended++;
}

static void twice_meets(void *arg)
{
	long v = 8;

	CHECK_IS(u_sleep(uafter(100)), 0);
	if (arg == NULL)
		CHECK(uchan_recv(c, &v, UNOW) == 0 && v == 1);
	else
		CHECK_IS(uchan_send(c, &v, UNOW), 0);
	CHECK_IS(ended, 0);		/* its other links are still there */
	CHECK_IS(uchan_recv(c, &v, UNOW), -EAGAIN);
	CHECK_IS(uchan_send(c, &v, UNOW), -EAGAIN);
}

static void twice(void *send)
{
	ended = 0;
	c = uchan_make(sizeof(long), 0);
	begin(1, 0);
	make(0, twice_waits, send);
	make(0, twice_meets, send);
	start_and_finish();
	CHECK_IS(ended, 1);
	uchan_free(c);
}

/*
 * Threads that choose between the same channels in different orders, from both
 * sides. With locks in the order of cases they dead lock.
 */

#define MEETS	20000

static long balance;

static void meets(void *arg)
{
	bool send = (intptr_t)arg & 1;
	struct uchan *all[3] = { c, d, e };
	unsigned seed = check_seed + (unsigned)(intptr_t)arg;
	long v[3], sum = 0;
	int i, j;

	for (i = 0; i < MEETS; i++) {
		unsigned turn = check_random(&seed);
		struct ucase k[3];

		for (j = 0; j < 3; j++) {
			v[j] = send ? (long)(turn & 0xff) : -1;
			k[j] = (struct ucase)UCASE_RECV(
				all[(turn + (turn & 8 ? j : 2 * j)) % 3], &v[j]);
			k[j].cs_send = send;
		}
		j = uselect(k, 3, UNEVER);
		CHECK(j >= 0 && k[j].cs_result == 0);
		sum += send ? v[j] : -v[j];
		if (!send)
			CHECK(v[j] >= 0 && v[(j + 1) % 3] == -1 &&
			      v[(j + 2) % 3] == -1);
		if (turn % 64 == 0 && ustack_self() != NULL)
			yield();
	}
	add(&balance, sum);
}

static void *meets_natively(void *arg)
{
	meets(arg);
	SCHED(release)();
	return NULL;
}

static void cross(int p, unsigned room, int natives)
{
	pthread_t id[8];
	int i;

	balance = 0;
	c = uchan_make(sizeof(long), room);
	d = uchan_make(sizeof(long), 2 * room);
	e = uchan_make(sizeof(long), 3 * room);
	begin(p, 0);
	for (i = 0; i < natives; i++) {
		SCHED(hold)();
		id[i] = native(meets_natively, (void *)(intptr_t)i);
	}
	for (; i < 8; i++)
		make(i / 2, meets, (void *)(intptr_t)i);
	start_and_finish();
	for (i = 0; i < natives; i++)
		native_join(id[i]);
	CHECK(balance == 0 && uchan_count(c) == 0);
	uchan_free(c);
	uchan_free(d);
	uchan_free(e);
}

/* Random programs. */

#define CHANS	6
#define PARTIES	12
#define STEPS	150
#define VALUES	(8 * STEPS)		/* of a party */
#define WORDS	6			/* of the largest value */
#define CASES	6

static struct uchan *chan[CHANS];
static int words[CHANS], room[CHANS];
static long closing[CHANS];
static long sent[PARTIES * VALUES], got[PARTIES * VALUES];
static bool checked;		/* nothing else runs after a call */

struct party {
	int      a_nr;		/* natives: PARTIES and more */
	unsigned a_seed;
	long     a_next;	/* number of its next value */
	long     a_last[CHANS][PARTIES];
	long     a_value[CASES][WORDS];
};

static utime_ns some_deadline(struct party *a)
{
	switch (check_random(&a->a_seed) % 4) {
	case 0:		return UNOW;
	case 1:		return UNEVER;
	default:	return uafter(check_random(&a->a_seed) % 100 *
				      (utime_is_virtual() ? 1 : 1000));
	}
}

/* Writes a new value for channel i into v, and returns its number. */
static long new_value(struct party *a, long *v, int i)
{
	long nr = a->a_nr * VALUES + a->a_next++;
	int j;

	CHECK_THAT(a->a_next, <=, VALUES);
	for (j = 0; j < words[i]; j++)
		v[j] = nr + j;
	return nr;
}

static void was_received(struct party *a, const long *v, int i)
{
	long nr = v[0];
	int j;

	CHECK(nr >= 0 && nr < PARTIES * VALUES);
	for (j = 0; j < words[i]; j++)
		CHECK_IS(v[j], nr + j);
	CHECK_THAT(nr % VALUES, >, a->a_last[i][nr / VALUES]);
	a->a_last[i][nr / VALUES] = nr % VALUES;
	CHECK_IS(add(&got[nr], 1), 1);
}

/* Checks a result that says that nothing was done. */
static void was_nothing(int rc, utime_ns until)
{
	CHECK(rc == -EAGAIN ? until == UNOW :
	      rc == -ETIMEDOUT && until != UNOW && until != UNEVER &&
	      unow() >= until);
}

static void one_case(struct party *a)
{
	int i = (int)(check_random(&a->a_seed) % CHANS);
	bool send = check_random(&a->a_seed) & 1;
	utime_ns until = some_deadline(a);
	long v[WORDS];
	long nr = new_value(a, v, i);
	int rc;

	if (!send)
		v[0] = -1;
	rc = send ? uchan_send(chan[i], v, until) :
		uchan_recv(chan[i], v, until);
	if (rc == 0 && send)
		sent[nr] = 1;
	else if (rc == 0)
		was_received(a, v, i);
	else if (rc == -EPIPE)
		CHECK(get(&closing[i]));
	else {
		was_nothing(rc, until);
		if (rc == -EAGAIN && checked)
			CHECK_IS(uchan_count(chan[i]),
				 (unsigned)(send ? room[i] : 0));
	}
	if (rc != 0 && !send)
		CHECK_IS(v[0], -1);
}

static void many_cases(struct party *a)
{
	int nr = (int)(check_random(&a->a_seed) % (CASES + 1));
	utime_ns until = some_deadline(a);
	struct ucase k[CASES];
	int at[CASES];
	long id[CASES];
	int i, rc;

	if (nr == 0 && until == UNEVER)
		until = UNOW;
	for (i = 0; i < nr; i++) {
		at[i] = (int)(check_random(&a->a_seed) % CHANS);
		id[i] = new_value(a, a->a_value[i], at[i]);
		k[i] = (struct ucase)UCASE_SEND(chan[at[i]], a->a_value[i]);
		if (check_random(&a->a_seed) & 1) {
			k[i].cs_send = false;
			a->a_value[i][0] = id[i] = -1;
		}
	}
	rc = check_random(&a->a_seed) % 4 ? uselect(k, nr, until) :
		uselect_ordered(k, nr, until);
	CHECK_THAT(rc, <, nr);
	for (i = 0; i < nr; i++) {
		if (i != rc || k[i].cs_result != 0)
			CHECK_IS(a->a_value[i][0], id[i]);
		else if (k[i].cs_send)
			sent[id[i]] = 1;
		else
			was_received(a, a->a_value[i], at[i]);
	}
	if (rc < 0)
		was_nothing(rc, until);
	else if (k[rc].cs_result != 0)
		CHECK(k[rc].cs_result == -EPIPE && get(&closing[at[rc]]));
}

static void plays(void *arg)
{
	struct party *a = arg;
	int i, j;

	for (i = 0; i < CHANS; i++)
		for (j = 0; j < PARTIES; j++)
			a->a_last[i][j] = -1;
	for (i = 0; i < STEPS; i++) {
		switch (check_random(&a->a_seed) % 8) {
		case 0:
			if (ustack_self() != NULL)
				yield();
			break;
		case 1:
		case 2:
		case 3:
			one_case(a);
			break;
		default:
			many_cases(a);
		}
	}
}

static void *plays_natively(void *arg)
{
	plays(arg);
	SCHED(release)();
	return NULL;
}

static void closes(void *arg)
{
	unsigned seed = check_seed;
	int i;

	for (i = 0; i < CHANS; i++) {
		CHECK_IS(u_sleep(uafter(check_random(&seed) % 2000
			 * (utime_is_virtual() ? 1 : 10))), 0);
		set(&closing[i], 1);
		CHECK_IS(uchan_close(chan[i]), 0);
	}
}

static void drain(struct party *a)
{
	long v[WORDS];
	int i, rc;

	for (i = 0; i < CHANS; i++) {
		while ((rc = uchan_recv(chan[i], v, UNOW)) == 0)
			CHECK_IS(add(&got[v[0]], 1), 1);
		CHECK_IS(rc, -EPIPE);
		uchan_free(chan[i]);
	}
	for (i = 0; i < PARTIES * VALUES; i++)
		CHECK_IS(got[i], sent[i]);
}

static void play(int p, int natives)
{
	static struct party a[PARTIES];
	pthread_t id[PARTIES];
	int i;

	memset(sent, 0, sizeof sent);
	memset(got, 0, sizeof got);
	memset(closing, 0, sizeof closing);
	for (i = 0; i < CHANS; i++) {
		words[i] = i == 3 ? WORDS : 1;
		room[i]  = i % 4;
		chan[i]  = uchan_make(words[i] * (int)sizeof(long),
				      (unsigned)room[i]);
		CHECK(chan[i] != NULL);
	}
	begin(p, 0);
	checked = p == 1 && natives == 0 && getenv("USCHED_DEBUG") == NULL;
	for (i = 0; i < PARTIES; i++) {
		a[i] = (struct party){ .a_nr = i,
			.a_seed = check_hash(check_seed, (unsigned)i) | 1 };
		if (i < natives) {
			SCHED(hold)();
			id[i] = native(plays_natively, &a[i]);
		} else
			make(i, plays, &a[i]);
	}
	make(0, closes, NULL);
	start_and_finish();
	for (i = 0; i < natives; i++)
		native_join(id[i]);
	drain(a);
}

int main(int argc, char **argv)
{
	int i, p;

	check_start(argc, argv);
	for (p = 1; p <= 2; p++) {
		doing("cross, natives");
		cross(p, 0, 2);
		doing("random, natives");
		for (i = 0; i < 5; i++, check_seed++)
			play(p, 3);
	}
	utime_virtual(check_seed);
	one_thread(1, chance, NULL);
	c = uchan_make(sizeof(long), 1);
	one_thread(1, odd, NULL);
	uchan_free(c);
	one_thread(1, large, NULL);
	twice(NULL);
	twice(&ended);
	for (p = 1; p <= 2; p++) {
		doing("cross");
		cross(p, 0, 0);
		cross(p, 1, 0);
		doing("random");
		for (i = 0; i < 40; i++, check_seed++)
			play(p, 0);
	}
	return 0;
}
