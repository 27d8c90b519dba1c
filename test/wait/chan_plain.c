/* SPDX-License-Identifier: MIT */
/* chan_plain: channels work with a bare set of call-backs, and without memory. */
/* VARIANTS: once */

/*
 * Two call-backs of a line each make channels work, with deadlines and choices.
 * The n-th s_alloc() fails, once or from then on, for each n: a call returns
 * -ENOMEM and has sent or received nothing, and all else goes on. Without
 * s_wait, calls that need not wait succeed, and others return -ENOSYS. Workers
 * (uwork.h) that get no memory end. If all have ended, jobs are refused, and
 * uwork_free() says so. Under virtual time, so deadlines are exact.
 */
#include "plain.h"
#include "uwork.h"

#define NR	20

static struct tiny t;
static struct tiny_thread tt[8];
static struct uchan *c, *d;
static long sum, failed;
static int made;
static long refused;

static int waits(struct usched *s)
{
	return ustack_block();
}

static void wakes(struct usched *s, struct ustack *u)
{
	tiny_wake((struct tiny_thread *)u);
}

static int makes(struct usched *s, void (*f)(void *), void *arg, int flags)
{
	tiny_start(&t, &tt[++made], f, arg);
	return 0;
}

/* Whether a call has to be repeated, since there was no memory. */
static bool again(int rc)
{
	if (rc != -ENOMEM)
		return false;
	CHECK_THAT(t.t_failed, >, 0);
	failed++;
	if (t.t_fail_all)
		t.t_fail = 0;		/* from now on there is */
	return true;
}

static void sender(void *arg)
{
	long i, v;
	int rc;

	for (i = 1; i <= NR; i++) {
		v = i;
		do
			rc = uchan_send(c, &v, UNEVER);
		while (again(rc));
		CHECK_IS(rc, 0);
	}
	CHECK_IS(uchan_close(c), 0);
}

/* Passes all values on, by choices. */
static void relay(void *arg)
{
	long v = 0, w = 0;
	struct ucase k[2] = { UCASE_RECV(c, &v), UCASE_SEND(NULL, &w) };
	int rc;

	for (;;) {
		do
			rc = uselect(k, 2, UNEVER);
		while (again(rc));
		CHECK_IS(rc, k[1].cs_chan != NULL);
		if (rc == 0 && k[0].cs_result == -EPIPE)
			break;
		CHECK_IS(k[rc].cs_result, 0);
		w = v;
		k[0].cs_chan = rc == 0 ? NULL : c;
		k[1].cs_chan = rc == 0 ? d : NULL;
	}
	CHECK_IS(uchan_close(d), 0);
}

static void receiver(void *arg)
{
	utime_ns then = unow();
	long last = 0, v;
	int rc;

	for (;;) {
		rc = uchan_recv(d, &v, UNEVER);
		if (again(rc))
			continue;
		if (rc != 0)
			break;
		CHECK_IS(v, ++last);
		sum += v;
		while (again(u_sleep(then += 10)))
			then -= 10;
		CHECK_THAT(unow(), >=, then);
	}
	CHECK_IS(rc, -EPIPE);
	while (again(rc = uselect(NULL, 0, then + 7)))
		;
	CHECK(rc == -ETIMEDOUT && unow() == then + 7);
}

static void init(long at, bool all)
{
	sum = failed = made = 0;
	CHECK_IS(plain_init(&t, 0), 0);
	t.t_sched.s_done = tiny_done;
	t.t_sched.s_wait = waits;
	t.t_sched.s_wake = wakes;
	t.t_sched.s_make = makes;
	t.t_fail     = at;
	t.t_fail_all = all;
}

static long run(long at, bool all, unsigned room)
{
	init(at, all);
	c = uchan_make(sizeof(long), room);
	d = uchan_make(sizeof(long), 0);
	tiny_start(&t, &tt[0], sender, NULL);
	tiny_start(&t, &tt[1], relay, NULL);
	tiny_start(&t, &tt[2], receiver, NULL);
	tiny_run(&t);
	CHECK_IS(sum, NR * (NR + 1) / 2);
	uchan_free(c);
	uchan_free(d);
	plain_fini(&t);
	return t.t_failed;
}

/* Jobs. */

static void job(void *arg)
{
	sum += (long)(intptr_t)arg;
}

/* arg: levels */
static void boss(void *arg)
{
	long i, accepted = 0;
	struct uwork *k = uwork_make(3, (int)(intptr_t)arg, 2);
	int rc;

	CHECK(k != NULL);
	for (i = 1; i <= NR; i++) {
		do
			rc = uwork_put(k, job, (void *)i, 0, UNEVER);
		while (rc == -ENOMEM && again(rc));
		CHECK(rc == 0 || (rc == -EPIPE && t.t_failed > 0));
		accepted += rc == 0 ? i : 0;
	}
	while ((rc = uwork_drain(k, UNEVER)) == -ENOMEM)
		(void)again(rc);
	if (rc == 0)
		CHECK_IS(sum, accepted);
	else
		CHECK(rc == -EPIPE && sum < accepted && t.t_failed > 0);
	CHECK_IS(uwork_free(k, UNEVER), rc);
	refused += rc != 0 || accepted < NR * (NR + 1) / 2;
}

static long work(long at, bool all, long levels)
{
	init(at, all);
	tiny_start(&t, &tt[0], boss, (void *)levels);
	tiny_run(&t);
	plain_fini(&t);
	return t.t_failed;
}

static void none(void *arg)
{
	struct ucase k[2] = { UCASE_RECV(c, NULL), UCASE_RECV(d, NULL) };
	long v = 3;

	CHECK_IS(uchan_recv(c, &v, UNOW), -EAGAIN);
	CHECK_IS(uchan_recv(c, &v, UNEVER), -ENOSYS);
	CHECK_IS(uchan_send(d, &v, uafter(5)), -ENOSYS);
	CHECK_IS(uselect(k, 2, UNEVER), -ENOSYS);
	CHECK_IS(uchan_send(c, &v, UNEVER), 0);
	CHECK_IS(uselect(k, 2, UNEVER), 0);
}

int main(int argc, char **argv)
{
	unsigned room;
	long at;
	int all;

	check_start(argc, argv);
	utime_virtual(0);
	for (room = 0; room < 3; room++) {
		CHECK_IS(run(0, false, room), 0);
		for (all = 0; all < 2; all++) {
			for (at = 1; run(at, all, room) != 0; at++)
				CHECK(failed != 0 || at == 1);
			CHECK_THAT(at, >, NR);
		}
	}
	for (all = 0; all < 2; all++) {
		for (at = 1; work(at, all, all + 1) != 0; at++)
			;
		CHECK_THAT(at, >, 5);
	}
	CHECK_THAT(refused, >, 0);
	CHECK_IS(tiny_init(&t, 0), 0);
	c = uchan_make(sizeof(long), 1);
	d = uchan_make(sizeof(long), 0);
	tiny_start(&t, &tt[0], none, NULL);
	tiny_run(&t);
	tiny_fini(&t);
	uchan_free(c);
	uchan_free(d);
	return 0;
}
