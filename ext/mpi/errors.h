/* SPDX-License-Identifier: MIT */
/* errors.h: which handler an error of MPI calls, and when. Private. */

#ifndef UMPI_ERRORS_H
#define UMPI_ERRORS_H

#include <mpi.h>
#include <stdbool.h>

/* Called when MPI was initialized: see uerrors.c. */
void umpi_errors_begin(void);

/* While it is on, no handler of the program is called by this native thread. */
void umpi_silence(bool on);

/*
 * Calls the handler of comm for an error rc > 0 of a call, unless comm is
 * MPI_COMM_NULL. Returns rc.
 */
int umpi_raise(const char *call, MPI_Comm comm, int rc);

/* Returns whether requests are noted: the program has set a handler. */
bool umpi_notes(void);

/* Notes the communicator of a request that has begun; or MPI_COMM_NULL. */
void umpi_note(MPI_Request r, MPI_Comm comm);

/* Returns the communicator that was noted, else MPI_COMM_WORLD. */
MPI_Comm umpi_comm_of(MPI_Request r);

#endif /* UMPI_ERRORS_H */
