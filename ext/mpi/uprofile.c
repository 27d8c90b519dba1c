/* SPDX-License-Identifier: MIT */
/* uprofile.c: calls of MPI that block only the thread that makes them. */

/*
 * MPI lets a program, or a library as this, define MPI_X() itself, and calls
 * its own PMPI_X() (the profiling interface, MPI 4.0, 15.2). Such a definition
 * is a hook. All are made from one table, calls.h, in one of these ways:
 *
 * - A call with a form that does not block starts that, and waits for its
 *   request (umpi.c). Buffers that would move are copied first (stay.h).
 * - Any other call is made by a native thread beside (ucall.h), while the
 *   thread waits. The arguments, and what they point to, are on the heap then.
 *   This needs MPI_THREAD_MULTIPLE. Below that the first such call in a thread
 *   ends the program by name, since it would stop the threads beside it.
 * - A call that only tests lets other threads run after VAIN calls in a row
 *   without an answer. So a loop of MPI_Test() or MPI_Iprobe() waits for
 *   another thread of its own processor, too.
 * - A call that starts something has its buffers looked at.
 * - What is left stops the processor, and says so once, by name.
 *
 * Outside of threads a call is MPI's own. Collectives are not, since
 * MPI_Bcast() does not match MPI_Ibcast(), and another rank may call it in a
 * thread: there the operation is started, too, and MPI waits.
 *
 * Collectives start in the call, before any wait. So they start in the order of
 * the calls, also if many threads call them for the same communicator.
 *
 * Errors of a start are raised by MPI, in the call. Errors of a request are
 * raised here, by the thread, after its wait (uerrors.c).
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "progress.h"
#include "stay.h"
#include "ucall.h"
#include "compiler.h"

#include <limits.h>

UPREEMPT_NEVER;

#define VAIN	8	/* tests in a row without an answer */

/* For usched_is_wrapped(). */
extern const char uprofile_linked[];
const char uprofile_linked[1] = "";

/* Starting and ending. */

int MPI_Init(int *argc, char ***argv)
{
	int provided;

	return MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	int rc = PMPI_Init_thread(argc, argv, required > MPI_THREAD_SERIALIZED ?
				  required : MPI_THREAD_SERIALIZED, provided);

	if (rc == MPI_SUCCESS)
		umpi_errors_begin();
	return rc;
}

int MPI_Finalize(void)
{
	umpi_final();
	return PMPI_Finalize();
}

/* The parts of a call. */

static NOINLINE int no_memory(const char *call, MPI_Comm comm)
{
	return umpi_raise(call, comm, MPI_ERR_NO_MEM);
}

/*
 * Waits for the request of a call that was started with rc. An error of the
 * start was raised, one of the wait is raised here.
 */
static int message(struct umpi_stay *s, int rc, MPI_Request *r,
		   MPI_Status *status, const struct umpi_why *why,
		   MPI_Comm comm)
{
	int begun = rc;

	if (rc == MPI_SUCCESS)
		rc = umpi_wait(r, status, UNEVER, true, why);
	if (s->s_first != NULL)
		umpi_stay_end(s);
	return begun == MPI_SUCCESS ? umpi_raise(why->y_call, comm, rc) : rc;
}

/* Does so for a collective. here: as umpi_here(). */
static int collective(struct umpi_stay *s, int rc, MPI_Request *r, bool here,
		      const char *call, MPI_Comm comm)
{
	struct umpi_why why = { .y_call = call,
				.y_peer = UMPI_NO_PEER };

	if (here || rc != MPI_SUCCESS)
		return message(s, rc, r, MPI_STATUS_IGNORE, &why, comm);
	umpi_silence(true);
	rc = PMPI_Wait(r, MPI_STATUS_IGNORE);
	umpi_silence(false);
	return umpi_raise(call, comm, rc);
}

/* Gives up the receive of a pair whose send could not start. */
static NOINLINE void give_up(MPI_Request *r)
{
	umpi_silence(true);
	(void)PMPI_Cancel(r);
	(void)PMPI_Wait(r, MPI_STATUS_IGNORE);
	umpi_silence(false);
}

/* Waits for the receive r[0] and the send r[1]. Returns the first error. */
static int wait_both(MPI_Request r[2], MPI_Status *status,
		     const struct umpi_why *why)
{
	MPI_Status each[2];
	struct umpi_ask a = {
		.a_kind = UMPI_ALL, .a_nr = 2, .a_request = r, .a_status = each
	};

	memset(each, 0, sizeof each);
	if (umpi_ask(&a, UNEVER, true, why) <= 0)
		a.a_code = MPI_SUCCESS;
	if (status != MPI_STATUS_IGNORE) {
		each[0].MPI_ERROR = status->MPI_ERROR;
		*status = each[0];
	}
	return a.a_code;
}

/*
 * Waits for both requests of a call that was started with rc. The send is
 * mostly complete at once, and then the thread waits for the receive alone.
 */
static int both(struct umpi_stay *s, int rc, MPI_Request r[2],
		MPI_Status *status, const struct umpi_why *why, MPI_Comm comm)
{
	int begun = rc, sent = MPI_SUCCESS;

	if (rc != MPI_SUCCESS && r[0] != MPI_REQUEST_NULL)
		give_up(&r[0]);
	if (rc == MPI_SUCCESS)
		rc = umpi_test(&r[1], &sent) ?
			umpi_wait(&r[0], status, UNEVER, true, why) :
			wait_both(r, status, why);
	if (rc == MPI_SUCCESS)
		rc = sent;
	if (s->s_first != NULL)
		umpi_stay_end(s);
	return begun == MPI_SUCCESS ? umpi_raise(why->y_call, comm, rc) : rc;
}

/* Receives and probes of messages that were matched. */

/* Messages are noted as if they were requests: both are handles. */
static MPI_Comm message_comm(MPI_Message m)
{
	return umpi_notes() ? umpi_comm_of((MPI_Request)m) : MPI_COMM_WORLD;
}

static bool note_message(bool matched, MPI_Message m, MPI_Comm comm)
{
	if (matched)
		umpi_note((MPI_Request)m, comm);
	return matched;
}

/* Nothing is posted before the message is there, so nothing is cancelled. */
int u_mpi_recv(void *buf, int n, MPI_Datatype type, int from, int tag,
	       MPI_Comm comm, MPI_Status *status, utime_ns until)
{
	MPI_Message m;
	int rc = u_mpi_mprobe(from, tag, comm, &m, MPI_STATUS_IGNORE, until);

	return rc != 0 ? rc : MPI_Mrecv(buf, n, type, &m, status);
}

int MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status *status)
{
	struct umpi_why why = { "MPI_Probe", from, tag, false };
	struct umpi_ask a = {
		.a_kind = UMPI_PROBE, .a_status = status, .a_peer = from,
		.a_tag = tag, .a_comm = comm
	};

	return umpi_here(why.y_call) ?
		umpi_raise(why.y_call, comm, umpi_ask(&a, UNEVER, true, &why)) :
		PMPI_Probe(from, tag, comm, status);
}

int MPI_Mprobe(int from, int tag, MPI_Comm comm, MPI_Message *m,
	       MPI_Status *status)
{
	struct umpi_why why = { "MPI_Mprobe", from, tag, false };
	struct umpi_ask a = {
		.a_kind = UMPI_MPROBE, .a_status = status, .a_peer = from,
		.a_tag = tag, .a_comm = comm
	};
	int rc;

	if (umpi_here(why.y_call)) {
		rc = umpi_raise(why.y_call, comm, umpi_ask(&a, UNEVER, true, &why));
		if (rc == MPI_SUCCESS)
			*m = a.a_message;
	} else
		rc = PMPI_Mprobe(from, tag, comm, m, status);
	if (rc == MPI_SUCCESS)
		(void)note_message(true, *m, comm);
	return rc;
}

/* Waits. */

int MPI_Wait(MPI_Request *r, MPI_Status *status)
{
	static const struct umpi_why why = { .y_call = "MPI_Wait",
					     .y_peer = UMPI_NO_PEER };
	MPI_Request begun = *r;
	int rc;

	if (!umpi_here(why.y_call))
		return PMPI_Wait(r, status);
	rc = umpi_wait(r, status, UNEVER, true, &why);
	return rc == MPI_SUCCESS ? rc : umpi_raise(why.y_call, umpi_comm_of(begun), rc);
}

/* Asks for requests, and raises the error of the first that has one. */
static int ask(struct umpi_ask *a, const char *call)
{
	struct umpi_why why = { .y_call = call,
				.y_peer = UMPI_NO_PEER };
	int rc = umpi_ask(a, UNEVER, true, &why);

	if (rc != MPI_SUCCESS)
		(void)umpi_raise(call, a->a_comm, a->a_code);
	return rc;
}

int MPI_Waitall(int n, MPI_Request r[], MPI_Status status[])
{
	struct umpi_ask a = {
		.a_kind = UMPI_ALL, .a_nr = n, .a_request = r,
		.a_status = status
	};

	return umpi_here("MPI_Waitall") ? ask(&a, "MPI_Waitall") :
		PMPI_Waitall(n, r, status);
}

int MPI_Waitany(int n, MPI_Request r[], int *index, MPI_Status *status)
{
	struct umpi_ask a = {
		.a_kind = UMPI_ANY, .a_nr = n, .a_request = r,
		.a_status = status
	};
	int rc;

	if (!umpi_here("MPI_Waitany"))
		return PMPI_Waitany(n, r, index, status);
	rc = ask(&a, "MPI_Waitany");
	*index = a.a_done;
	return rc;
}

int MPI_Waitsome(int n, MPI_Request r[], int *done, int index[],
		 MPI_Status status[])
{
	struct umpi_ask a = {
		.a_kind = UMPI_SOME, .a_nr = n, .a_request = r,
		.a_index = index, .a_status = status
	};
	int rc;

	if (!umpi_here("MPI_Waitsome"))
		return PMPI_Waitsome(n, r, done, index, status);
	rc = ask(&a, "MPI_Waitsome");
	*done = a.a_done;
	return rc;
}

/* Tests, and calls that stop the processor. */

static __thread const struct ustack *vain_thread;
static __thread int vain_nr;

/* Returns whether the caller has tested in vain for long enough. */
static NOINLINE bool is_vain(const struct ustack *u, bool answer)
{
	if (answer || u != vain_thread) {
		vain_thread = answer ? NULL : u;
		vain_nr = 0;
	}
	if (answer || ++vain_nr < VAIN)
		return false;
	vain_nr = 0;
	return true;
}

static NOINLINE void umpi_tried(bool answer)
{
	const struct ustack *u = ustack_self();

	if (u != NULL && u->u_sched->s_wait != NULL && is_vain(u, answer))
		(void)uwait_give_way();
}

static NOINLINE void warn_once(int *warned, const char *call)
{
	if (ustack_self() != NULL &&
	    __atomic_exchange_n(warned, 1, __ATOMIC_RELAXED) == 0)
		usched_message("%s: stops the processor, with all its threads",
			       call);
}

/* Numbers of a communicator, for the sizes of buffers. */

/* Returns from how many ranks data comes, or to how many it goes. */
static int ranks(MPI_Comm comm)
{
	int inter = 0, nr = 0;

	(void)PMPI_Comm_test_inter(comm, &inter);
	if (inter)
		(void)PMPI_Comm_remote_size(comm, &nr);
	else
		(void)PMPI_Comm_size(comm, &nr);
	return nr;
}

static int rank_in(MPI_Comm comm)
{
	int rank = 0;

	(void)PMPI_Comm_rank(comm, &rank);
	return rank;
}

/* Returns whether the caller is the root: only there some arguments count. */
static bool is_root(int root, MPI_Comm comm)
{
	int inter = 0;

	(void)PMPI_Comm_test_inter(comm, &inter);
	return inter ? root == MPI_ROOT : rank_in(comm) == root;
}

static int dimensions(MPI_Comm comm)
{
	int nr = 0;

	(void)PMPI_Cartdim_get(comm, &nr);
	return nr;
}

/* Returns how many neighbours send to the caller, or get something from it. */
static int neighbours(MPI_Comm comm, bool sources)
{
	int kind = MPI_UNDEFINED, in = 0, out = 0, weighted;

	(void)PMPI_Topo_test(comm, &kind);
	if (kind == MPI_CART)
		in = out = 2 * dimensions(comm);
	if (kind == MPI_GRAPH) {
		(void)PMPI_Graph_neighbors_count(comm, rank_in(comm), &in);
		out = in;
	}
	if (kind == MPI_DIST_GRAPH)
		(void)PMPI_Dist_graph_neighbors_count(comm, &in, &out,
						      &weighted);
	return sources ? in : out;
}

static long sum(const void *list, size_t size, int nr)
{
	long all = 0;
	int i;

	for (i = 0; i < nr; i++)
		all += umpi_number(list, size, i);
	return all;
}

/* The words of buffers in the table. In a hook, s copies or refuses. */

#define BUF(buf, n, type, way)						\
	((buf) = umpi_stay_typed(&s, buf, n, type, way))
#define COPY(at, nob)							\
	((at) = umpi_stay(&s, at, nob, UMPI_IN | UMPI_OUT))
#define RESULT(at)	COPY(at, sizeof *(at))
#define BYTES(buf, nob)	((void)umpi_stay(&s, buf, nob, UMPI_OUT))
#define LIST(list, nr)							\
	((list) = umpi_stay(&s, list, (nr) * sizeof *(list), UMPI_IN))
#define TEXT(text)							\
	((text) = umpi_stay(&s, text, (text) != NULL ?			\
			    strlen(text) + 1 : 0, UMPI_IN))

/* No comma outside of parentheses: the words are arguments of macros. */
#define PARTS(buf, counts, at, type, nr, way)				\
	((buf) = umpi_stay_pieces(&s, buf, &(struct umpi_pieces){	\
		counts, sizeof *(counts), at, sizeof *(at), NULL, type,	\
		nr }, way),						\
	 LIST(counts, nr), LIST(at, nr))
#define PARTS_W(buf, counts, at, types, nr, way)			\
	((buf) = umpi_stay_pieces(&s, buf, &(struct umpi_pieces){	\
		counts, sizeof *(counts), at, sizeof *(at), types,	\
		MPI_DATATYPE_NULL, nr }, way),				\
	 LIST(counts, nr), LIST(at, nr), LIST(types, nr))

/* MPI uses them after the call, which waits nevertheless: never copied. */
#define EXPOSED(buf, nob)						\
	((void)umpi_stay(&(struct umpi_stay){ NULL, call, false }, buf,	\
			 nob, UMPI_OUT))
#define KEPT(buf, n, type)						\
	((void)umpi_stay_typed(&(struct umpi_stay){ NULL, call, false }, \
			       buf, n, type, UMPI_OUT))

#define NOTED(matched, m)	note_message(matched, *(m), comm)
#define IS_ROOT			is_root(root, comm)
#define RANKS			ranks(comm)
#define RANK			rank_in(comm)
#define DIMENSIONS		dimensions(comm)
#define SOURCES			neighbours(comm, true)
#define TARGETS			neighbours(comm, false)
#define SUM(list, nr)		sum(list, sizeof *(list), nr)
#define NUMBER(list, i)		umpi_number(list, sizeof *(list), i)

/* For calls that have no communicator: their errors are raised by no hook. */
static const MPI_Comm comm = MPI_COMM_NULL;

/* Each of a list of arguments: (type) name. */

#define JOIN(a, b, c)		a##b##c
#define JOINED(a, b, c)		JOIN(a, b, c)
#define CALL(name)		JOINED(MPI_, name, SUFFIX)
#define REAL(name)		JOINED(PMPI_, name, SUFFIX)
#define STRUCT(name)		JOINED(args_, name, SUFFIX)
#define BESIDE(name)		JOINED(beside_, name, SUFFIX)
#define TEXT_OF(call)		TEXT_OF_WORD(call)
#define TEXT_OF_WORD(call)	#call

#define INSIDE(...)		__VA_ARGS__
#define AFTER(...)
#define DECLARED(x)		INSIDE x
#define NAMED(x)		AFTER x
#define FIELD(x)		INSIDE x;
#define OF_STRUCT(x)		MEMBER(AFTER x)
#define MEMBER(name)		a->name
#define INTO_STRUCT(x)		SET(AFTER x)
#define SET(name)		a->name = name;

#define COMMA()			,
#define NOTHING()

#define EACH_1(m, s, x)		m(x)
#define EACH_2(m, s, x, ...)	m(x) s() EACH_1(m, s, __VA_ARGS__)
#define EACH_3(m, s, x, ...)	m(x) s() EACH_2(m, s, __VA_ARGS__)
#define EACH_4(m, s, x, ...)	m(x) s() EACH_3(m, s, __VA_ARGS__)
#define EACH_5(m, s, x, ...)	m(x) s() EACH_4(m, s, __VA_ARGS__)
#define EACH_6(m, s, x, ...)	m(x) s() EACH_5(m, s, __VA_ARGS__)
#define EACH_7(m, s, x, ...)	m(x) s() EACH_6(m, s, __VA_ARGS__)
#define EACH_8(m, s, x, ...)	m(x) s() EACH_7(m, s, __VA_ARGS__)
#define EACH_9(m, s, x, ...)	m(x) s() EACH_8(m, s, __VA_ARGS__)
#define EACH_10(m, s, x, ...)	m(x) s() EACH_9(m, s, __VA_ARGS__)
#define EACH_11(m, s, x, ...)	m(x) s() EACH_10(m, s, __VA_ARGS__)
#define EACH_12(m, s, x, ...)	m(x) s() EACH_11(m, s, __VA_ARGS__)
#define EACH_13(m, s, x, ...)	m(x) s() EACH_12(m, s, __VA_ARGS__)
#define NUMBER_14(a, b, c, d, e, f, g, h, i, j, k, l, m, n, ...)	n
#define NUMBER_OF(...)							\
	NUMBER_14(__VA_ARGS__, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define EACH(m, ...)							\
	JOINED(EACH_, NUMBER_OF(__VA_ARGS__), )(m, COMMA, __VA_ARGS__)
#define EVERY(m, ...)							\
	JOINED(EACH_, NUMBER_OF(__VA_ARGS__), )(m, NOTHING, __VA_ARGS__)

/* The hooks, for int. */

#define COUNT	int
#define PLACE	int
#define SUFFIX
#define ONCE
#include "hooks.h"

#if MPI_VERSION >= 4
#undef COUNT
#undef PLACE
#undef SUFFIX
#undef ONCE
#define COUNT	MPI_Count
#define PLACE	MPI_Aint
#define SUFFIX	_c
#define LARGE
#include "hooks.h"
#endif
