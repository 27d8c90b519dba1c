/* SPDX-License-Identifier: MIT */
/* message.c: a message, or 50 ms: a wait for it ends at a deadline, too. */

#include <stdio.h>
#include <usched/all.h>

static struct rr_thread *reader;
static const char *message;		/* NULL: none has come */

/* Waits for a message until the deadline. 0, -ETIMEDOUT, or another error. */
static int receive(const char **text, utime_ns until)
{
	int rc = 0;

	while (message == NULL && rc == 0)
		rc = u_wait_until(until);	/* may be an old wake */
	*text = message;
	message = NULL;
	return *text != NULL ? 0 : rc;
}

static void tell(const char *text)
{
	message = text;
	rr_wake(reader);
}

static void read_all(void *arg)
{
	utime_ns begin = unow();
	const char *text;

	(void)arg;
	do {
		if (receive(&text, uafter(50 * UTIME_MS)) != 0)
			text = "nothing for 50 ms";
		printf("%3d ms: %s\n", (int)((unow() - begin) / UTIME_MS),
		       text);
	} while (text[0] != 'b');
}

static void write_all(void *arg)
{
	(void)arg;
	u_sleep(uafter(20 * UTIME_MS));
	tell("hello");
	u_sleep(uafter(110 * UTIME_MS));
	tell("bye");
}

int main(void)
{
	utime_virtual(0);	/* without this line it takes 130 real ms */
	if (rr_init(1, 0) != 0)
		return 1;
	reader = rr_thread_init(read_all, NULL);
	if (reader == NULL || !rr_thread_init(write_all, NULL) || rr_start())
		return 1;
	return rr_fini() == 0 ? 0 : 1;
}
