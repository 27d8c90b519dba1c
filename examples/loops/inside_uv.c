/* SPDX-License-Identifier: MIT */
/* inside_uv.c: libuv's loop in a thread of ours, which alone it blocks. */
/* LIBS: libuv */

/*
 * With the hooks of ext/wrap/ the epoll_pwait() of uv_run() is a wait of its thread, so
 * other threads run meanwhile. The callbacks run in this thread, and may wait. Others
 * tell the loop something as native threads do, by uv_async_send().
 */

#include <stdio.h>
#include <usched/all.h>
#include <uv.h>

static uv_loop_t  loop;
static uv_async_t bell;
static uv_timer_t ticks;
static struct usem told = USEM(0);
static int asked;

static void on_bell(uv_async_t *b)
{
	printf("loop: told %d\n", asked);
	u_sleep(uafter(2 * UTIME_MS));	/* a wait in a callback */
	if (asked == 3) {
		uv_close((uv_handle_t *)b, NULL);
		uv_close((uv_handle_t *)&ticks, NULL);
	}
	usem_post(&told);
}

static void on_tick(uv_timer_t *t)
{
	(void)t;			/* it keeps the loop going */
}

static void runs_the_loop(void *unused)
{
	(void)unused;
	uv_run(&loop, UV_RUN_DEFAULT);
	printf("the loop has ended: %d\n", uv_loop_close(&loop));
}

static int first(void *unused)
{
	(void)unused;
	if (uv_loop_init(&loop) != 0 || uv_async_init(&loop, &bell, on_bell) != 0 ||
	    uv_timer_init(&loop, &ticks) != 0 ||
	    uv_timer_start(&ticks, on_tick, 1, 1) != 0 ||
	    usched_go(runs_the_loop, NULL) != 0)
		return 1;
	for (asked = 1; asked <= 3; asked++) {
		u_sleep(uafter(3 * UTIME_MS));
		printf("thread: tells %d\n", asked);
		uv_async_send(&bell);
		if (usem_wait(&told, UNEVER) != 0)
			return 1;
	}
	return 0;
}

int main(void)
{
	return usched_main(first, NULL);
}
