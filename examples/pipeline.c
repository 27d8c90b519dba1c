/* SPDX-License-Identifier: MIT */
/* pipeline.c: numbers, squares, a sum. Once it is enough, all stages end. */

#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static struct uchan *numbers, *squares;

static int count(void *arg)
{
	int n = 0, rc;

	do
		n++;
	while ((rc = uchan_send(numbers, &n, UNEVER)) == 0);
	printf("%s ends\n", (char *)arg);
	return rc;		/* -ECANCELED, which is no error here */
}

static int square(void *arg)
{
	int n, rc;

	while ((rc = uchan_recv(numbers, &n, UNEVER)) == 0) {
		n *= n;
		if ((rc = uchan_send(squares, &n, UNEVER)) != 0)
			break;
	}
	printf("%s ends\n", (char *)arg);
	return rc;
}

/* The last stage has seen enough at 1000, so it cancels the others. */
static void run(void *arg)
{
	int n = 0, sum = 0, rc;
	struct uscope *s;

	if ((rc = uscope_begin(&s, uafter(UTIME_S))) != 0)
		return;
	if ((rc = uscope_go(s, count, "count")) == 0 &&
	    (rc = uscope_go(s, square, "square")) == 0)
		rc = uscope_go(s, square, arg);
	while (rc == 0 && sum < 1000 &&
	       (rc = uchan_recv(squares, &n, UNEVER)) == 0)
		printf("%d\n", sum += n);
	uscope_cancel(s);
	printf("canceled: %d\n", uscope_end(&s) == -ECANCELED);
}

int main(void)
{
	numbers = uchan_make(sizeof(int), 4);
	squares = uchan_make(sizeof(int), 4);
	return !numbers || !squares || rr_init(1, 0) ||
		!rr_thread_init(run, "square, too,") || rr_start() || rr_fini();
}
