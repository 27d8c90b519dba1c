/* SPDX-License-Identifier: MIT */
/* limiter.c: ten requests a second, or three at once; under virtual time. */

#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static struct uchan *tokens;

/* Sends a token at each tick, which is dropped if there is no room. */
static void fill(void *arg)
{
	struct uticker tick = uticker(100 * UTIME_MS);

	while (uchan_send(tokens, arg, UNOW) != -EPIPE)
		uticker_wait(&tick, NULL);
}

static void ask(void *arg)
{
	utime_ns begun = unow();

	for (int i = 1; i <= 10; i++) {
		utime_ns until = i < 10 ? UNEVER : uafter(50 * UTIME_MS);
		int rc;

		if (i == 4)
			u_sleep(uafter(UTIME_S));	/* room for three */
		rc = uchan_recv(tokens, arg, until);
		printf("%4d ms: request %d %s\n",
			(int)((unow() - begun) / UTIME_MS), i,
			rc == 0 ? "begins" : "takes too long");
	}
	uchan_close(tokens);
}

int main(void)
{
	utime_virtual(0);
	tokens = uchan_make(0, 3);
	return rr_init(1, 0) || !rr_thread_init(fill, NULL) ||
		!rr_thread_init(ask, NULL) || rr_start() || rr_fini();
}
