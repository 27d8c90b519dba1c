/* SPDX-License-Identifier: MIT */
/* uv.c: libuv's loop runs threads, which call libuv. */
/* LIBS: libuv */

/*
 * A uv_poll_t has the descriptor, and a uv_timer_t the deadline. Both call drive(). The
 * threads run on the native thread of the loop, so they may call libuv for it. Its
 * callbacks are no threads.
 */

#include <uv.h>
#include "common.h"

static uv_loop_t *loop;
static uv_poll_t  bell;
static uv_timer_t clock_of_threads;
static struct usched *sched;

static void on_clock(uv_timer_t *unused);

static void drive(void)
{
	int ms;

	if (uloop_run(sched) <= 0) {
		uv_close((uv_handle_t *)&bell, NULL);
		uv_close((uv_handle_t *)&clock_of_threads, NULL);
		return;
	}
	ms = uloop_ms(uloop_until(sched));
	uv_update_time(loop);
	if (ms < 0)
		uv_timer_stop(&clock_of_threads);
	else
		uv_timer_start(&clock_of_threads, on_clock, (uint64_t)ms, 0);
}

static void on_clock(uv_timer_t *unused)
{
	(void)unused;
	drive();
}

static void on_bell(uv_poll_t *unused, int status, int events)
{
	(void)unused, (void)status, (void)events;
	drive();
}

static void on_time(uv_timer_t *t)
{
	printf("uv: time\n");
	usem_post(t->data);
}

static void asks(void *unused)
{
	static struct usem sem = USEM(0);
	static uv_timer_t t;
	int i;

	(void)unused;
	uv_timer_init(loop, &t);
	t.data = &sem;
	for (i = 0; i < 3; i++) {
		printf("thread: asks for a time\n");
		uv_timer_start(&t, on_time, 2, 0);
		take(&sem);
	}
	uv_close((uv_handle_t *)&t, NULL);
	silence();
}

int main(void)
{
	int fd;

	setvbuf(stdout, NULL, _IOLBF, 0);
	loop  = uv_default_loop();
	sched = scheduler();
	make(asks, NULL);
	fd = uloop_start(sched);
	if (fd < 0 || uv_poll_init(loop, &bell, fd) != 0)
		return 1;
	uv_timer_init(loop, &clock_of_threads);
	uv_poll_start(&bell, UV_READABLE, on_bell);
	uv_timer_start(&clock_of_threads, on_clock, 0, 0);
	uv_run(loop, UV_RUN_DEFAULT);
	return uv_loop_close(loop) != 0 || SCHED(fini)() != 0;
}
