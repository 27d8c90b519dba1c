/* SPDX-License-Identifier: MIT */
/* sieve.c: a thread for each prime passes on what its prime does not divide. */

#include <stdio.h>
#include <usched/all.h>

#define PRIMES	50

static struct filter { int prime; struct uchan *in, *out; } filters[PRIMES];

static void source(void *out)
{
	for (int n = 2; uchan_send(out, &n, UNEVER) == 0; n++)
		;
	uchan_free(out);		/* its receiver has closed it */
}

static void filter(void *arg)
{
	struct filter *f = arg;

	for (int n; uchan_recv(f->in, &n, UNEVER) == 0; )
		if (n % f->prime != 0 && uchan_send(f->out, &n, UNEVER) != 0)
			break;
	uchan_close(f->in);		/* so the sender ends, too */
	uchan_free(f->out);
}

static void primes(void *arg)
{
	struct uchan *in = arg;

	if (!ll_thread_init(source, in, 0))
		return;
	for (int i = 0, n; i < PRIMES && uchan_recv(in, &n, UNEVER) == 0; i++) {
		struct filter *f = &filters[i];

		printf("%d%c", n, i % 10 == 9 ? '\n' : ' ');
		*f = (struct filter){ n, in, uchan_make(sizeof n, 0) };
		in = f->out;
		if (!ll_thread_init(filter, f, 0))
			break;
	}
	uchan_close(in);
}

int main(void)
{
	struct uchan *first = uchan_make(sizeof(int), 0);

	return ll_init(1, 0) || !ll_thread_init(primes, first, 0) ||
		ll_start() || ll_fini();
}
