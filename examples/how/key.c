/* SPDX-License-Identifier: MIT */
/* key.c: data of each thread, given back at its end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <usched/all.h>

static unsigned request;		/* a key: __thread and errno are not a thread's */
static _Atomic int given_back;

static void give_back(void *value)
{
	free(value);
	given_back++;
}

/* Deep in other functions, which know nothing of requests. */
static int log_request(void)
{
	int *nr = ukey_get(request);

	return nr != NULL ? *nr : -1;
}

static int serve(void *arg)
{
	int *nr = malloc(sizeof *nr), rc;

	if (nr == NULL)
		return -ENOMEM;
	*nr = (int)(long)arg;
	if ((rc = ukey_set(request, nr)) != 0) {
		free(nr);
		return rc;
	}
	rc = u_sleep(uafter(*nr * 10 * UTIME_MS));	/* others serve meanwhile */
	printf("request %d\n", log_request());
	return rc;
}

static int run(void *arg)
{
	struct uscope *s;
	int rc = uscope_begin(&s, UNEVER), e;

	(void)arg;
	if (rc != 0)
		return rc;
	for (long i = 1; rc == 0 && i <= 3; i++)
		rc = uscope_go(s, serve, (void *)i);
	if (rc != 0)
		uscope_cancel(s);
	e = uscope_end(&s);
	printf("%d given back\n", given_back);
	return e == -ECANCELED && rc != 0 ? rc : e;
}

int main(void)
{
	return ukey_make(&request, give_back) != 0 || usched_main(run, NULL);
}
