/* SPDX-License-Identifier: MIT */
/* s_chan_fail: if any call to the system fails, no value is lost or doubled. */
/* VARIANTS: RR LL */
/* LIBS: @test/fail.wrap */

/*
 * The n-th call fails, once or from then on, for each n, of each kind alone and
 * of all (fail.h). A call that gets -ENOMEM has sent and received nothing; the
 * caller tries again. At the end all memory was given back, also of channels
 * that were freed before all waits had left them.
 */
#include "either.h"
#include "fail.h"
#include "uchan.h"

#define NR	15
#define PARTIES	3

static struct uchan *c, *d;
static long sent, got, open_senders;

/* Whether a call has to be repeated, since there was no memory. */
static bool again(int rc)
{
	if (rc != -ENOMEM)
		return false;
	fail_repeat();
	return true;
}

static void last_closes(void)
{
	if (add(&open_senders, -1) == 0) {
		CHECK(uchan_close(c) == 0);
		CHECK(uchan_close(d) == 0);
	}
}

static void sender(void *arg)
{
	long i, v = (long)(intptr_t)arg;
	int rc;

	for (i = 0; i < NR; i++, v += PARTIES) {
		struct ucase k[2] = { UCASE_SEND(c, &v), UCASE_SEND(d, &v) };

		do
			rc = i % 3 == 0 ? uselect(k, 2, UNEVER) :
				uchan_send(c, &v, UNEVER);
		while (again(rc));
		CHECK(rc == 0 || rc == 1);
		add(&sent, v);
	}
	last_closes();
}

static void receiver(void *arg)
{
	long v = 0, w = 0;
	struct ucase k[2] = { UCASE_RECV(c, &v), UCASE_RECV(d, &w) };
	int rc, nr = 0;

	(void)arg;
	while (k[0].cs_chan != NULL || k[1].cs_chan != NULL) {
		rc = uselect(k, 2, nr++ % 4 ? UNEVER : uafter(UTIME_US));
		if (rc == -ETIMEDOUT || again(rc))
			continue;
		CHECK(rc == 0 || rc == 1);
		if (k[rc].cs_result == 0)
			add(&got, rc ? w : v);
		else
			k[rc].cs_chan = NULL;
	}
}

/* Waits for two channels, of which the sender to one frees both. */

static struct uchan *made(int size, unsigned room)
{
	struct uchan *made = uchan_make(size, room);

	if (made == NULL) {
		CHECK(fail_told() > 0);
		fail_rest();
		made = uchan_make(size, room);
	}
	CHECK(made != NULL);
	return made;
}

static void waits_late(void *arg)
{
	struct uchan **two = arg;
	long v = 0;
	struct ucase k[2] = { UCASE_RECV(two[0], &v), UCASE_RECV(two[1], &v) };
	int rc;

	while (again(rc = uselect(k, 2, UNEVER)))
		;
	CHECK(rc == 0 && v == 9);
}

static void frees_early(void *arg)
{
	struct uchan **two = arg;
	int rc;

	while (again(rc = uchan_send(two[0], &(long){ 9 }, UNEVER)))
		;
	CHECK(rc == 0);
	uchan_free(two[1]);
	uchan_free(two[0]);
}

/* False: the scheduler could not be made. */
static bool try_all(int p)
{
	struct uchan *two[2] = { made(sizeof(long), 0), made(8, 1) };
	int rc, i;

	rc = SCHED(init)(p, 0);
	if (rc != 0) {
		uchan_free(two[0]);
		uchan_free(two[1]);
		return false;
	}
	sent = got = 0;
	open_senders = PARTIES;
	for (i = 0; i < PARTIES; i++) {
		while (try_make(i, sender, (void *)(intptr_t)i) == NULL)
			CHECK(again(-ENOMEM));
		while (try_make(i, receiver, NULL) == NULL)
			CHECK(again(-ENOMEM));
	}
	while (try_make(0, waits_late, two) == NULL)
		CHECK(again(-ENOMEM));
	while (try_make(0, frees_early, two) == NULL)
		CHECK(again(-ENOMEM));
	while ((rc = SCHED(start)()) != 0) {
		CHECK(fail_told() > 0);
		fail_rest();
	}
	rc = SCHED(fini)();
	CHECK(rc == 0 && SCHED(stuck)() == 0);
	CHECK(got == sent && sent == (long)PARTIES * NR * (PARTIES * NR - 1) / 2);
	return true;
}

static void run(int p)
{
	c = made(sizeof(long), 0);
	d = made(sizeof(long), 2);
	if (!try_all(p)) {
		CHECK(fail_told() > 0);
		fail_rest();
		CHECK(try_all(p));
	}
	uchan_free(c);
	uchan_free(d);
}

int main(int argc, char **argv)
{
	int p;

	check_start(argc, argv);
	fail_sample = 16;
	for (p = 1; p <= 2; p++)
		fail_all(run, p);
	return 0;
}
