/* SPDX-License-Identifier: MIT */
/* resp.h: reads a request of RESP2, the protocol of Redis. */

#ifndef RESP_H
#define RESP_H

#include <stddef.h>

enum {
	RESP_ARGS    = 1024,	/* of a request */
	RESP_BULK    = 1 << 20,	/* bytes of an argument */
	RESP_REQUEST = 2 << 20	/* bytes of a request */
};

struct resp_arg {
	const char *a_at;
	size_t      a_len;
};

struct resp {
	int             r_nr;		/* arguments; 0: there is nothing to do */
	struct resp_arg r_arg[RESP_ARGS];
	size_t          r_need;		/* bytes without which it is not complete */
	const char     *r_error;
};

/*
 * Reads a request, which is an array of strings, from nr bytes. Returns its
 * length; 0: it is not complete, and r_need bytes are needed to call again; -1:
 * it is none, and r_error says why. Arguments point into the bytes.
 */
long resp_read(struct resp *r, const char *at, size_t nr);

#endif /* RESP_H */
