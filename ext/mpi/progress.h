/* SPDX-License-Identifier: MIT */
/* progress.h: how a thread waits for requests of MPI. Private. */

#ifndef UMPI_PROGRESS_H
#define UMPI_PROGRESS_H

#include "errors.h"
#include "umpi.h"

#include <stdbool.h>

/* For lists: the call that waits, and the rank and tag of its message. */
struct umpi_why {
	const char *y_call;
	int         y_peer;	/* or UMPI_NO_PEER */
	int         y_tag;
	bool        y_receives;	/* a receive that has just begun */
};

enum { UMPI_NO_PEER = -1000000 };

/*
 * A question to MPI, and its answer. The thread asks with its own arrays first.
 * If the answer is "not yet", a copy on the heap asks again.
 */
enum umpi_kind {
	UMPI_ALL,		/* Testall */
	UMPI_ANY,		/* Testany */
	UMPI_SOME,		/* Testsome */
	UMPI_PROBE,		/* Iprobe */
	UMPI_MPROBE		/* Improbe */
};

struct umpi_ask {
	enum umpi_kind a_kind;
	int            a_nr;		/* requests */
	MPI_Request   *a_request;
	int           *a_index;		/* UMPI_SOME */
	MPI_Status    *a_status;	/* a_nr, or one; or ignored */
	int            a_done;		/* UMPI_ANY, UMPI_SOME: the answer */
	int            a_peer;		/* probes */
	int            a_tag;
	MPI_Comm       a_comm;		/* after an error: of the requests */
	int            a_code;		/* after an error: the first of a request */
	MPI_Message    a_message;	/* UMPI_MPROBE: the answer */
};

/*
 * Returns whether a wait of the caller may block the caller alone: a thread
 * whose dispatcher can wait, while MPI works. Fails if the thread level of MPI
 * is too low for the caller.
 */
bool umpi_here(const char *call);

/* So, and whether a native thread beside may call MPI for the caller. */
bool umpi_beside(const char *call);

/* Notes that there are persistent requests, which may be inactive. */
void umpi_persist(void);

/*
 * Wait for a request, or for an answer. 0: complete; a code of MPI: complete,
 * with an error, which no handler was told; -ETIMEDOUT, -ECANCELED, -EAGAIN: all
 * is as it was. If sure, no scope cancels the wait, and until is UNEVER. Only if
 * umpi_here().
 */
int umpi_wait(MPI_Request *request, MPI_Status *status, utime_ns until,
	      bool sure, const struct umpi_why *why);
int umpi_ask(struct umpi_ask *a, utime_ns until, bool sure,
	     const struct umpi_why *why);

/* Tests a request once. True: it is complete, with this error. */
bool umpi_test(MPI_Request *request, int *rc);

/* Called by MPI_Finalize(). Fails if threads wait. */
void umpi_final(void);

#endif /* UMPI_PROGRESS_H */
