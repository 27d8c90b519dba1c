/* SPDX-License-Identifier: MIT */
/* uerrors.c: which handler an error of MPI calls, and when. */

/*
 * THE PROBLEM
 *
 * A processor that tests the requests of many threads by one call of MPI is the
 * first to hear of an error. MPI then calls the handler of some communicator:
 * Open MPI takes that of the first request with an error, MPICH takes
 * MPI_COMM_WORLD. The others are not called at all. And a job that ignores
 * errors of its own communicator ends, since MPI_COMM_WORLD does not.
 *
 * STAND-INS
 *
 * So a handler of the program is never given to MPI itself. A stand-in is,
 * which calls the handler, but not while this native thread is silent:
 *
 *	thread               processor                 MPI
 *	MPI_Recv() waits
 *	                     umpi_silence(true)
 *	                     PMPI_Testsome()    ---->  error: stand-in, returns
 *	                     umpi_silence(false)
 *	         <---------  the code
 *	umpi_raise(comm)  ---------------------------> stand-in, handler
 *
 * Each handler so runs once for an error, in the thread that called, on the
 * communicator of its call. MPI itself keeps which handler a communicator has,
 * passes it on to copies, and counts it. A stand-in needs to know its handler,
 * so it is one of HANDLERS functions. A program that creates more handlers gets
 * the rest without stand-ins.
 *
 * MPI_ERRORS_ARE_FATAL has a stand-in, too, which says what MPI would say, and
 * calls MPI_Abort(). So has MPI_ERRORS_ABORT of MPI 4. MPI_ERRORS_RETURN needs none.
 *
 * THE COMMUNICATOR OF A REQUEST
 *
 * MPI does not tell to which communicator a request belongs, which MPI_Wait()
 * has to know. As long as the program sets no handler, all are fatal, so any
 * communicator will do. From the first handler on, a table notes each request
 * that begins. A request that ends stays in the table. The next that MPI gives
 * the same handle takes the place. A request that began before, or for which
 * there was no memory, has MPI_COMM_WORLD.
 *
 * REJECTED
 *
 * MPI_ERRORS_RETURN for all communicators, and calls of handlers at the end of
 * each call of MPI: some 200 calls would need a hook for that alone.
 *
 * PMPI_Request_get_status() by the processor, so that the thread itself meets
 * the error: each call makes progress, and there is no call for many.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "errors.h"
#include "uwait.h"
#include "lock.h"
#include "ufork.h"
#include "compiler.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

UPREEMPT_NEVER;

#define ROOM_MIN	64	/* of the table; a power of two */

static __thread int silent;

static struct ulock lock;
static struct ufork at_fork = {
	.f_rank = UFORK_MPI, .f_lock = &lock, .f_nr = 1
};
UFORK(at_fork)

NOINLINE void umpi_silence(bool on)
{
	silent += on ? 1 : -1;
}

/* The call whose error is raised, for stand_in_fatal(). */
static __thread const char *raised_by;

static NOINLINE void set_raised_by(const char *call)
{
	raised_by = call;
}

static NOINLINE const char *get_raised_by(void)
{
	return raised_by;
}

int umpi_raise(const char *call, MPI_Comm comm, int rc)
{
	if (likely(rc <= 0) || comm == MPI_COMM_NULL)
		return rc;
	set_raised_by(call);
	(void)PMPI_Comm_call_errhandler(comm, rc);
	set_raised_by(NULL);
	return rc;
}

/* Stand-ins. */

#define HANDLERS	32

static MPI_Comm_errhandler_function *handler[HANDLERS];	/* under lock */

/* Handlers of MPI that end the job. */
#if MPI_VERSION >= 4
#define ENDINGS		2
#define ENDING(nr)	((nr) == 0 ? MPI_ERRORS_ARE_FATAL : MPI_ERRORS_ABORT)
#else
#define ENDINGS		1
#define ENDING(nr)	MPI_ERRORS_ARE_FATAL
#endif

static MPI_Errhandler ending[ENDINGS];	/* the stand-in of each */
static int has_endings;			/* atomic */

static NOINLINE bool is_silent(void)
{
	return silent != 0;
}

static void stand_in(int nr, MPI_Comm *comm, int *code)
{
	if (!is_silent())
		__atomic_load_n(&handler[nr], __ATOMIC_ACQUIRE)(comm, code);
}

#define ONE(nr)								\
static void stand_in_##nr(MPI_Comm *comm, int *code, ...)		\
{									\
	stand_in(nr, comm, code);					\
}

#define ALL(what)							\
	what(0)  what(1)  what(2)  what(3)  what(4)  what(5)  what(6)	\
	what(7)  what(8)  what(9)  what(10) what(11) what(12) what(13)	\
	what(14) what(15) what(16) what(17) what(18) what(19) what(20)	\
	what(21) what(22) what(23) what(24) what(25) what(26) what(27)	\
	what(28) what(29) what(30) what(31)

ALL(ONE)

#define NAME(nr)	stand_in_##nr,

static MPI_Comm_errhandler_function *const stand_ins[HANDLERS] = { ALL(NAME) };

/* Returns the stand-in of a handler, or the handler: there are too many. */
static MPI_Comm_errhandler_function *stand_in_of(MPI_Comm_errhandler_function *f)
{
	int i;

	ulock_get(&lock);
	for (i = 0; i < HANDLERS && handler[i] != NULL && handler[i] != f; i++)
		;
	if (i < HANDLERS)
		__atomic_store_n(&handler[i], f, __ATOMIC_RELEASE);
	ulock_put(&lock);
	return i < HANDLERS ? stand_ins[i] : f;
}

/*
 * Ends the program as MPI does. Not by the true handler: MPICH may call this
 * with the lock of the communicator, which a change of its handler takes, too.
 */
static void stand_in_fatal(MPI_Comm *comm, int *code, ...)
{
	const char *call = get_raised_by();
	char text[MPI_MAX_ERROR_STRING + 1] = "";
	int nob;

	if (is_silent())
		return;
#if defined(OPEN_MPI)
	if (call == NULL) {
		va_list list;

		va_start(list, code);
		call = va_arg(list, const char *);
		va_end(list);
	}
#endif
	(void)PMPI_Error_string(*code, text, &nob);
	usched_last_message("%s: a fatal error of MPI: %s", call != NULL ? call :
			    "mpi", text);
	(void)PMPI_Abort(*comm, *code);
}

/* Returns the stand-in of a handler of MPI, or the handler. */
static MPI_Errhandler ending_of(MPI_Errhandler h)
{
	int i;

	if (__atomic_load_n(&has_endings, __ATOMIC_ACQUIRE))
		for (i = 0; i < ENDINGS; i++)
			if (h == ENDING(i))
				return ending[i];
	return h;
}

/* Gives comm the stand-in, if its handler ends the job. */
static void replace(MPI_Comm comm)
{
	MPI_Errhandler h;

	if (PMPI_Comm_get_errhandler(comm, &h) != MPI_SUCCESS)
		return;
	if (ending_of(h) != h)
		(void)PMPI_Comm_set_errhandler(comm, ending_of(h));
	else
		(void)PMPI_Errhandler_free(&h);
}

void umpi_errors_begin(void)
{
	int i;

	for (i = 0; i < ENDINGS; i++)
		if (PMPI_Comm_create_errhandler(stand_in_fatal, &ending[i]) !=
		    MPI_SUCCESS)
			return;
	__atomic_store_n(&has_endings, 1, __ATOMIC_RELEASE);
	replace(MPI_COMM_WORLD);
	replace(MPI_COMM_SELF);
}

/* The table. */

static struct note { MPI_Request n_request; MPI_Comm n_comm; } *notes;
static size_t notes_room, notes_nr;	/* under lock */
static int notes_on;			/* atomic */

bool umpi_notes(void)
{
	return __atomic_load_n(&notes_on, __ATOMIC_RELAXED) != 0;
}

/* Returns the place of r, or the free place that r shall have. */
static struct note *note_of(struct note *at, size_t room, MPI_Request r)
{
	size_t i = ((uint64_t)(uintptr_t)r * 0x9E3779B97F4A7C15u) >> 32;

	for (;; i++) {
		struct note *n = &at[i & (room - 1)];

		if (n->n_request == r || n->n_request == MPI_REQUEST_NULL)
			return n;
	}
}

static bool notes_grow(void)
{
	size_t room = notes_room > 0 ? 2 * notes_room : ROOM_MIN;
	struct note *more = malloc(room * sizeof *more);
	size_t i;

	if (more == NULL)
		return false;
	for (i = 0; i < room; i++)
		more[i].n_request = MPI_REQUEST_NULL;
	for (i = 0; i < notes_room; i++)
		if (notes[i].n_request != MPI_REQUEST_NULL)
			*note_of(more, room, notes[i].n_request) = notes[i];
	free(notes);
	notes = more;
	notes_room = room;
	return true;
}

void umpi_note(MPI_Request r, MPI_Comm comm)
{
	struct note *n;

	if (!umpi_notes() || r == MPI_REQUEST_NULL)
		return;
	ulock_get(&lock);
	if (2 * notes_nr < notes_room || notes_grow()) {
		n = note_of(notes, notes_room, r);
		notes_nr += n->n_request == MPI_REQUEST_NULL;
		n->n_request = r;
		n->n_comm    = comm;
	}
	ulock_put(&lock);
}

MPI_Comm umpi_comm_of(MPI_Request r)
{
	MPI_Comm comm = MPI_COMM_WORLD;
	const struct note *n;

	ulock_get(&lock);
	if (r != MPI_REQUEST_NULL && notes_room > 0) {
		n = note_of(notes, notes_room, r);
		if (n->n_request == r)
			comm = n->n_comm;
	}
	ulock_put(&lock);
	return comm;
}

/* Calls of MPI about handlers. */

int MPI_Comm_create_errhandler(MPI_Comm_errhandler_function *f,
			       MPI_Errhandler *h)
{
	return PMPI_Comm_create_errhandler(stand_in_of(f), h);
}

int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler h)
{
	__atomic_store_n(&notes_on, 1, __ATOMIC_RELAXED);
	return PMPI_Comm_set_errhandler(comm, ending_of(h));
}

int MPI_Comm_get_errhandler(MPI_Comm comm, MPI_Errhandler *h)
{
	int rc = PMPI_Comm_get_errhandler(comm, h);
	int i;

	if (rc != MPI_SUCCESS || !__atomic_load_n(&has_endings, __ATOMIC_ACQUIRE))
		return rc;
	for (i = 0; i < ENDINGS; i++)
		if (*h == ending[i]) {
			(void)PMPI_Errhandler_free(h);
			*h = ENDING(i);
			break;
		}
	return rc;
}

/* Their old names, which MPICH still has, and Open MPI mostly has not. */
#if defined(MPICH_VERSION)
int MPI_Errhandler_create(MPI_Comm_errhandler_function *f, MPI_Errhandler *h)
{
	return MPI_Comm_create_errhandler(f, h);
}

int MPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler h)
{
	return MPI_Comm_set_errhandler(comm, h);
}

int MPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler *h)
{
	return MPI_Comm_get_errhandler(comm, h);
}
#endif
