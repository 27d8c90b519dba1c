/* SPDX-License-Identifier: MIT */
/* soption.c: options that all sockets have, those of snet.c and of sunix.c. */

#include "sim.h"

#include <errno.h>
#include <string.h>

static utime_ns time_of(const void *value)
{
	struct timeval t;

	memcpy(&t, value, sizeof t);
	return sim_ns_of_timeval(&t);
}

/* Options that change nothing here are taken. */
int sim_option_common(struct sim_file *f, int level, int name, const void *value,
		      socklen_t n)
{
	bool is_time = level == SOL_SOCKET &&
		(name == SO_RCVTIMEO || name == SO_SNDTIMEO);

	if (n < (socklen_t)(is_time ? sizeof(struct timeval) : sizeof(int)))
		return -EINVAL;
	if (is_time && name == SO_RCVTIMEO)
		f->f_read_time = time_of(value);
	else if (is_time)
		f->f_write_time = time_of(value);
	return is_time || (level == SOL_SOCKET &&
		(name == SO_SNDBUF || name == SO_RCVBUF || name == SO_REUSEADDR ||
		 name == SO_KEEPALIVE)) ? 0 : 1;
}

int sim_option_put(int result, void *value, socklen_t *n)
{
	*n = *n < sizeof result ? *n : sizeof result;
	memcpy(value, &result, *n);
	return 0;
}

int sim_linger(struct linger *to, const void *value, socklen_t n)
{
	struct linger l;

	if (n < (socklen_t)sizeof l)
		return -EINVAL;
	memcpy(&l, value, sizeof l);
	to->l_onoff = l.l_onoff != 0;
	if (l.l_onoff)			/* else Linux keeps the time */
		to->l_linger = l.l_linger;
	return 0;
}

int sim_linger_put(struct linger l, void *value, socklen_t *n)
{
	*n = *n < sizeof l ? *n : sizeof l;
	memcpy(value, &l, *n);
	return 0;
}
