/* SPDX-License-Identifier: MIT */
/* config.c: many read a configuration, also over waits; now and then one changes it. */
#include <errno.h>
#include <stdio.h>
#include <usched/all.h>

static struct urw lock;
static int host = 1, port = 1;		/* belong together */
static _Atomic int torn;

static int reader(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20; i++) {
		int rc = urw_read(&lock, UNEVER), h;

		if (rc != 0)
			return rc;
		h = host;
		rc = u_sleep(uafter(7 * UTIME_MS));
		torn += h != port;
		urw_unlock(&lock);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int writer(void *arg)
{
	(void)arg;
	for (int i = 2; i < 10; i++) {
		int rc = urw_write(&lock, UNEVER);

		if (rc != 0)
			return rc;
		host = i;
		rc = u_sleep(uafter(UTIME_MS));
		port = i;
		urw_unlock(&lock);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int run(void *arg)
{
	struct uscope *s;
	int rc = uscope_begin(&s, UNEVER), e;

	(void)arg;
	if (rc != 0)
		return rc;
	for (int i = 0; rc == 0 && i < 4; i++)
		rc = uscope_go(s, i < 3 ? reader : writer, NULL);
	if (rc != 0)
		uscope_cancel(s);
	e = uscope_end(&s);
	printf("port %d, never torn: %s\n", port, torn == 0 ? "yes" : "no");
	return e == -ECANCELED && rc != 0 ? rc : e;
}

int main(void)
{
	return usched_main(run, NULL);
}
