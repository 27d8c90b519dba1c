/* SPDX-License-Identifier: MIT */
/* outside: threads that wait for descriptors share few lanes, at any number. */
/* VARIANTS: RR LL WS PR */

/*
 * From the second thread on, readers of a pipe have at most as many lanes as threads
 * that share, whether they are few or many; connections of userve() from the first
 * on. Threads that wake each other have lanes of their own all the same, also beside
 * readers. A function whose threads wait for descriptors no more is forgotten. All
 * find their frames, and what points into them, as they were.
 */
#include "either.h"
#include "uio.h"
#include "unet.h"
#include "userve.h"
#include <limits.h>
#include <fcntl.h>
#include <unistd.h>

#define SHARED		16	/* lanes in rotation */
#define MANY		3000
#define OWN		200

static thread *threads[MANY];
static int bound[SHRT_MAX + 1];	/* threads of each lane */
static int ends[2];
static char path[32];		/* others run this test, too */
static long here, gone, reads;

static void begin_round(void)
{
	set(&here, 0);
	set(&gone, 0);
	memset(bound, 0, sizeof bound);
}

static int lanes_now(void)
{
	int i, nr = 0;

	for (i = 0; i <= SHRT_MAX; i++)
		nr += bound[i] > 0;
	return nr;
}

/* Waits by f(), with a frame that has a pointer into itself. */
static NOINLINE void stays(long nr, void (*f)(void))
{
	struct {
		volatile char  text[100];
		volatile char *at;
	} frame;

	memset((char *)frame.text, (int)nr, sizeof frame.text);
	frame.at = &frame.text[50];
	bound[ustack_self()->u_lane]++;
	add(&here, 1);
	f();
	CHECK(frame.text[0] == (char)nr && frame.text[99] == (char)nr);
	CHECK(frame.at == &frame.text[50] && *frame.at == (char)nr);
	add(&gone, 1);
}

static void read_one(void)
{
	char c;

	CHECK_IS(u_read(ends[0], &c, 1, UNEVER), 1);
}

static void reader(void *arg)
{
	stays((long)arg, read_one);
}

static void waiter(void *arg)
{
	stays((long)arg, wait_one);
}

/* A reader first, and later none. */
static void changes(void *arg)
{
	stays((long)arg, get(&reads) ? read_one : wait_one);
}

static void all_begin(int nr, void (*f)(void *))
{
	int i;

	begin_round();
	for (i = 0; i < nr; i++)
		threads[i] = make(0, f, (void *)(long)i);
	yield_until(&here, nr);
}

static void wake_all(int nr)
{
	int i;

	for (i = 0; i < nr; i++)
		SCHED(wake)(threads[i]);
	yield_until(&gone, nr);
}

static void feed_all(int nr)
{
	int i;

	for (i = 0; i < nr; i++)
		CHECK_IS(u_write_all(ends[1], "x", 1, UNEVER), 1);
	yield_until(&gone, nr);
}

/* Returns how many lanes nr threads of f have that wait. */
static int lanes_of(int nr, void (*f)(void *), void (*go)(int nr))
{
	int lanes;

	all_begin(nr, f);
	lanes = lanes_now();
	go(nr);
	return lanes;
}

static void connection(int fd, void *arg)
{
	char c;

	bound[ustack_self()->u_lane]++;
	add(&here, 1);
	CHECK_IS(u_read(fd, &c, 1, UNEVER), 1);
	add(&gone, 1);
	(void)arg;
}

static int serve(void *server)
{
	CHECK_IS(userve(server), -ECANCELED);
	return 0;
}

/* Returns how many lanes nr connections have. */
static int lanes_served(int nr)
{
	struct userve *s = malloc(sizeof *s);
	int *fd = malloc((size_t)nr * sizeof *fd);
	struct uscope *scope;
	int i, lanes;

	CHECK(s != NULL && fd != NULL);
	*s = (struct userve){ .sv_f = connection, .sv_grace = UTIME_S };
	s->sv_fd = u_listen_unix(path, 0);
	CHECK(s->sv_fd >= 0);
	begin_round();
	CHECK_IS(uscope_begin(&scope, UNEVER), 0);
	CHECK_IS(uscope_go(scope, serve, s), 0);
	for (i = 0; i < nr; i++)
		CHECK((fd[i] = u_dial_unix(path, UNEVER)) >= 0);
	yield_until(&here, nr);
	lanes = lanes_now();
	for (i = 0; i < nr; i++) {
		CHECK_IS(u_write_all(fd[i], "x", 1, UNEVER), 1);
		CHECK_IS(u_close(fd[i]), 0);
	}
	yield_until(&gone, nr);
	uscope_cancel(scope);
	CHECK_IS(uscope_end(&scope), -ECANCELED);
	free(fd);
	free(s);
	return lanes;
}

/* Readers wait, and threads that wake each other begin beside them. */
static void beside(void)
{
	all_begin(OWN, reader);
	CHECK_IS(lanes_of(OWN / 2, waiter, wake_all), OWN / 2);
	set(&gone, 0);
	feed_all(OWN);
}

static void all(void *arg)
{
	(void)arg;
	if (ustack_self()->u_sched->s_lane_nr < OWN)
		return;			/* threads run on the native stack */
	CHECK_THAT(lanes_served(OWN), <=, SHARED);
	CHECK_THAT(lanes_of(OWN, reader, feed_all), <=, SHARED + 1);
	CHECK_THAT(lanes_of(MANY, reader, feed_all), <=, SHARED);
	CHECK_THAT(lanes_of(OWN / 5, reader, feed_all), <=, SHARED);
	CHECK_IS(lanes_of(OWN, waiter, wake_all), OWN);
	beside();
	set(&reads, 1);
	CHECK_THAT(lanes_of(OWN, changes, feed_all), <=, SHARED + 1);
	set(&reads, 0);
	(void)lanes_of(OWN, changes, wake_all);
	CHECK_IS(lanes_of(OWN, changes, wake_all), OWN);
}

int main(int argc, char **argv)
{
	check_start(argc, argv);
	snprintf(path, sizeof path, "@usched-outside-%d", (int)getpid());
	CHECK_IS(pipe(ends), 0);
	CHECK_IS(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	CHECK_IS(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
	one_thread(1, all, NULL);
	CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
	return 0;
}
