/* SPDX-License-Identifier: MIT */
/* calls.c: twenty long calls that block, two at a time, and a short one beside them. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>
#include <usched/all.h>

static struct usem places = USEM(2);	/* for long calls */
static _Atomic int done;

static void block(void *arg)
{
	(void)arg;
	usleep(50000);
	done++;
}

static int long_call(void *arg)
{
	int rc = usem_wait(&places, UNEVER);

	if (rc != 0)
		return rc;
	rc = ucall(block, arg);
	usem_post(&places);
	return rc;
}

static void short_call(void *arg)
{
	(void)arg;
	printf("the short call: %s\n", done < 10 ? "at once" : "late");
}

static int run(void *arg)
{
	struct uscope *s;
	int rc = uscope_begin(&s, UNEVER), e;

	(void)arg;
	if (rc != 0)
		return rc;
	for (int i = 0; rc == 0 && i < 20; i++)
		rc = uscope_go(s, long_call, NULL);
	if (rc == 0)
		rc = u_sleep(uafter(20 * UTIME_MS));	/* all have begun */
	if (rc == 0)
		rc = ucall(short_call, NULL);
	if (rc != 0)
		uscope_cancel(s);
	e = uscope_end(&s);
	printf("%d long calls\n", done);
	return e == -ECANCELED && rc != 0 ? rc : e;
}

int main(void)
{
	return ucall_limit(4) != 0 || usched_main(run, NULL);	/* for all; else 64 */
}
