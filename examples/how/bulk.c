/* SPDX-License-Identifier: MIT */
/* bulk.c: 100,000 small messages, most of which cost no switch. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static struct uchan *numbers;

static int count(void *arg)
{
	int rc;

	(void)arg;
	for (int i = 0; i < 100000; i++)
		if ((rc = uchan_send(numbers, &i, UNEVER)) != 0)
			return rc;
	uchan_close(numbers);
	return 0;
}

static int run(void *arg)
{
	struct uscope *s;
	long waits = 0, sum = 0;
	int v, e, rc = uscope_begin(&s, UNEVER);

	(void)arg;
	if (rc != 0)
		return rc;
	rc = uscope_go(s, count, NULL);
	while (rc == 0) {
		rc = uchan_recv(numbers, &v, UNOW);
		if (rc == -EAGAIN) {
			waits++;
			rc = uchan_recv(numbers, &v, UNEVER);
		}
		if (rc == 0)
			sum += v;
	}
	e = uscope_end(&s);
	printf("sum %ld, %s\n", sum, waits < 1000 ? "few waits" : "many waits");
	return rc == -EPIPE ? e : rc;
}

int main(void)
{
	numbers = uchan_make(sizeof(int), 1000);	/* room for as many */
	return numbers == NULL || usched_main(run, NULL);
}
