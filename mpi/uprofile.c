/* SPDX-License-Identifier: MIT */
/* uprofile.c: calls of MPI that block only the thread that makes them. */

/*
 * MPI lets a program, or a library as this, define MPI_X() itself, and calls
 * its own PMPI_X() (the profiling interface, MPI 4.0, 15.2). Each blocking call
 * here starts the operation that does not block, and waits for its request
 * (umpi.c). Buffers that would move are copied first (stay.h).
 *
 * Outside of threads a call is MPI's own. Collectives are not, since
 * MPI_Bcast() does not match MPI_Ibcast(), and another rank may call it in a
 * thread: there the operation is started, too, and MPI waits.
 *
 * Collectives start in the call, before any wait. So they start in the order of
 * the calls, also if many threads call them for the same communicator.
 */

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#define USCHED_PREEMPT	1	/* this file leaves no mark: see uproc.h */
#include "progress.h"
#include "stay.h"
#include "compiler.h"

#include <limits.h>
#include <stdio.h>

UPREEMPT_NEVER;

/* For usched_is_wrapped(). */
extern const char uprofile_linked[];
const char uprofile_linked[1] = "";

/* Starting and ending. */

int MPI_Init(int *argc, char ***argv)
{
	int provided;

	return PMPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	return PMPI_Init_thread(argc, argv, required > MPI_THREAD_SERIALIZED ?
				required : MPI_THREAD_SERIALIZED, provided);
}

int MPI_Finalize(void)
{
	umpi_final();
	return PMPI_Finalize();
}

/* The parts of a call. */

static NOINLINE int no_memory(MPI_Comm comm)
{
	(void)PMPI_Comm_call_errhandler(comm, MPI_ERR_NO_MEM);
	return MPI_ERR_NO_MEM;
}

/* Waits for the request of a call that was started with rc. */
static int message(struct umpi_stay *s, int rc, MPI_Request *r,
		   MPI_Status *status, const struct umpi_why *why)
{
	if (rc == MPI_SUCCESS)
		rc = umpi_wait(r, status, UNEVER, true, why);
	if (s->s_first != NULL)
		umpi_stay_end(s);
	return rc;
}

/* Does so for a collective. here: as umpi_here(). */
static int collective(struct umpi_stay *s, int rc, MPI_Request *r, bool here,
		      const char *call)
{
	struct umpi_why why = { .y_call = call,
				.y_peer = UMPI_NO_PEER };

	if (rc == MPI_SUCCESS && !here)
		return PMPI_Wait(r, MPI_STATUS_IGNORE);
	return message(s, rc, r, MPI_STATUS_IGNORE, &why);
}

/* Messages. */

#define SEND(name, start)						\
int MPI_##name(const void *buf, int n, MPI_Datatype type, int to,	\
	       int tag, MPI_Comm comm)					\
{									\
	struct umpi_why why = { "MPI_" #name, to, tag, false };		\
	struct umpi_stay s = { NULL, false };				\
	MPI_Request r;							\
	int rc;								\
									\
	if (!umpi_here(why.y_call))					\
		return PMPI_##name(buf, n, type, to, tag, comm);	\
	buf = umpi_stay_typed(&s, buf, 0, n, type, UMPI_IN);		\
	rc = s.s_failed ? no_memory(comm) :				\
		PMPI_##start(buf, n, type, to, tag, comm, &r);		\
	return message(&s, rc, &r, MPI_STATUS_IGNORE, &why);		\
}

SEND(Send, Isend)
SEND(Ssend, Issend)
SEND(Rsend, Irsend)

int MPI_Recv(void *buf, int n, MPI_Datatype type, int from, int tag,
	     MPI_Comm comm, MPI_Status *status)
{
	struct umpi_why why = { "MPI_Recv", from, tag, true };
	struct umpi_stay s = { NULL, false };
	MPI_Request r;
	int rc;

	if (!umpi_here(why.y_call))
		return PMPI_Recv(buf, n, type, from, tag, comm, status);
	buf = umpi_stay_typed(&s, buf, 0, n, type, UMPI_OUT);
	rc = s.s_failed ? no_memory(comm) :
		PMPI_Irecv(buf, n, type, from, tag, comm, &r);
	return message(&s, rc, &r, status, &why);
}

int MPI_Mrecv(void *buf, int n, MPI_Datatype type, MPI_Message *m,
	      MPI_Status *status)
{
	struct umpi_why why = { .y_call = "MPI_Mrecv",
				.y_peer = UMPI_NO_PEER };
	struct umpi_stay s = { NULL, false };
	MPI_Request r;
	int rc;

	if (!umpi_here(why.y_call))
		return PMPI_Mrecv(buf, n, type, m, status);
	buf = umpi_stay_typed(&s, buf, 0, n, type, UMPI_OUT);
	rc = s.s_failed ? no_memory(MPI_COMM_WORLD) :
		PMPI_Imrecv(buf, n, type, m, &r);
	return message(&s, rc, &r, status, &why);
}

/* Nothing is posted before the message is there, so nothing is cancelled. */
int u_mpi_recv(void *buf, int n, MPI_Datatype type, int from, int tag,
	       MPI_Comm comm, MPI_Status *status, utime_ns until)
{
	MPI_Message m;
	int rc = u_mpi_mprobe(from, tag, comm, &m, MPI_STATUS_IGNORE, until);

	return rc != 0 ? rc : MPI_Mrecv(buf, n, type, &m, status);
}

static int probe(struct umpi_ask *a, const char *call)
{
	struct umpi_why why = { call, a->a_peer, a->a_tag, false };

	return umpi_ask(a, UNEVER, true, &why);
}

int MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status *status)
{
	struct umpi_ask a = {
		.a_kind = UMPI_PROBE, .a_status = status, .a_peer = from,
		.a_tag = tag, .a_comm = comm
	};

	return umpi_here("MPI_Probe") ? probe(&a, "MPI_Probe") :
		PMPI_Probe(from, tag, comm, status);
}

int MPI_Mprobe(int from, int tag, MPI_Comm comm, MPI_Message *m,
	       MPI_Status *status)
{
	struct umpi_ask a = {
		.a_kind = UMPI_MPROBE, .a_status = status, .a_peer = from,
		.a_tag = tag, .a_comm = comm
	};
	int rc;

	if (!umpi_here("MPI_Mprobe"))
		return PMPI_Mprobe(from, tag, comm, m, status);
	rc = probe(&a, "MPI_Mprobe");
	if (rc == MPI_SUCCESS)
		*m = a.a_message;
	return rc;
}

/* Waits for both requests of a call that was started with rc. */
static int both(struct umpi_stay *s, int rc, MPI_Request r[2],
		MPI_Status *status, const struct umpi_why *why)
{
	MPI_Status each[2];
	struct umpi_ask a = {
		.a_kind = UMPI_ALL, .a_nr = 2, .a_request = r, .a_status = each
	};
	int i, class = MPI_SUCCESS;

	memset(each, 0, sizeof each);
	if (rc == MPI_SUCCESS)
		rc = umpi_ask(&a, UNEVER, true, why);
	umpi_stay_end(s);
	if (status != MPI_STATUS_IGNORE) {
		each[0].MPI_ERROR = status->MPI_ERROR;
		*status = each[0];
	}
	if (rc != MPI_SUCCESS)
		(void)PMPI_Error_class(rc, &class);
	for (i = 0; class == MPI_ERR_IN_STATUS && i < 2; i++)
		if (each[i].MPI_ERROR != MPI_SUCCESS)
			rc = each[i].MPI_ERROR;
	return rc;
}

int MPI_Sendrecv(const void *out, int out_n, MPI_Datatype out_type, int to,
		 int out_tag, void *in, int in_n, MPI_Datatype in_type,
		 int from, int in_tag, MPI_Comm comm, MPI_Status *status)
{
	struct umpi_why why = { "MPI_Sendrecv", from, in_tag, false };
	struct umpi_stay s = { NULL, false };
	MPI_Request r[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
	int rc;

	if (!umpi_here(why.y_call))
		return PMPI_Sendrecv(out, out_n, out_type, to, out_tag, in,
				     in_n, in_type, from, in_tag, comm, status);
	out = umpi_stay_typed(&s, out, 0, out_n, out_type, UMPI_IN);
	in  = umpi_stay_typed(&s, in, 0, in_n, in_type, UMPI_OUT);
	rc = s.s_failed ? no_memory(comm) :
		PMPI_Irecv(in, in_n, in_type, from, in_tag, comm, &r[0]);
	if (rc == MPI_SUCCESS)
		rc = PMPI_Isend(out, out_n, out_type, to, out_tag, comm, &r[1]);
	if (rc != MPI_SUCCESS && r[0] != MPI_REQUEST_NULL) {
		(void)PMPI_Cancel(&r[0]);
		(void)PMPI_Wait(&r[0], MPI_STATUS_IGNORE);
	}
	return both(&s, rc, r, status, &why);
}

/* The data goes out from a copy, of which nothing comes back. */
int MPI_Sendrecv_replace(void *buf, int n, MPI_Datatype type, int to,
			 int out_tag, int from, int in_tag, MPI_Comm comm,
			 MPI_Status *status)
{
	MPI_Aint first;
	size_t nob;
	char *copy;
	int rc;

	if (!umpi_here("MPI_Sendrecv_replace"))
		return PMPI_Sendrecv_replace(buf, n, type, to, out_tag, from,
					     in_tag, comm, status);
	if (!umpi_span(n, type, &first, &nob))
		return MPI_Sendrecv(buf, n, type, to, out_tag, buf, n, type,
				    from, in_tag, comm, status);
	copy = malloc(nob);
	if (copy == NULL)
		return no_memory(comm);
	memcpy(copy, (char *)buf + first, nob);
	rc = MPI_Sendrecv(copy - first, n, type, to, out_tag, buf, n, type,
			  from, in_tag, comm, status);
	free(copy);
	return rc;
}

/* Waits. */

int MPI_Wait(MPI_Request *r, MPI_Status *status)
{
	static const struct umpi_why why = { .y_call = "MPI_Wait",
					     .y_peer = UMPI_NO_PEER };

	return umpi_here(why.y_call) ?
		umpi_wait(r, status, UNEVER, true, &why) :
		PMPI_Wait(r, status);
}

int MPI_Waitall(int n, MPI_Request r[], MPI_Status status[])
{
	static const struct umpi_why why = { .y_call = "MPI_Waitall",
					     .y_peer = UMPI_NO_PEER };
	struct umpi_ask a = {
		.a_kind = UMPI_ALL, .a_nr = n, .a_request = r,
		.a_status = status
	};

	return umpi_here(why.y_call) ? umpi_ask(&a, UNEVER, true, &why) :
		PMPI_Waitall(n, r, status);
}

int MPI_Waitany(int n, MPI_Request r[], int *index, MPI_Status *status)
{
	static const struct umpi_why why = { .y_call = "MPI_Waitany",
					     .y_peer = UMPI_NO_PEER };
	struct umpi_ask a = {
		.a_kind = UMPI_ANY, .a_nr = n, .a_request = r,
		.a_status = status
	};
	int rc;

	if (!umpi_here(why.y_call))
		return PMPI_Waitany(n, r, index, status);
	rc = umpi_ask(&a, UNEVER, true, &why);
	*index = a.a_done;
	return rc;
}

int MPI_Waitsome(int n, MPI_Request r[], int *done, int index[],
		 MPI_Status status[])
{
	static const struct umpi_why why = { .y_call = "MPI_Waitsome",
					     .y_peer = UMPI_NO_PEER };
	struct umpi_ask a = {
		.a_kind = UMPI_SOME, .a_nr = n, .a_request = r,
		.a_index = index, .a_status = status
	};
	int rc;

	if (!umpi_here(why.y_call))
		return PMPI_Waitsome(n, r, done, index, status);
	rc = umpi_ask(&a, UNEVER, true, &why);
	*done = a.a_done;
	return rc;
}

/* Non-blocking messages whose buffer would move while the thread waits. */

static NOINLINE void refuse(const char *call)
{
	char text[200];

	snprintf(text, sizeof text, "%s: the buffer is on the stack of a "
		 "thread, which moves while the thread waits: take it from "
		 "the heap, or give the thread a private stack (rr_private())",
		 call);
	usched_fail(text);
}

#define START(name, constant)						\
int MPI_##name(constant void *buf, int n, MPI_Datatype type, int peer,	\
	       int tag, MPI_Comm comm, MPI_Request *r)			\
{									\
	if (n > 0 && umpi_moves(buf))					\
		refuse("MPI_" #name);					\
	return PMPI_##name(buf, n, type, peer, tag, comm, r);		\
}

START(Isend, const)
START(Issend, const)
START(Irsend, const)
START(Irecv, )
START(Send_init, const)
START(Ssend_init, const)
START(Rsend_init, const)
START(Recv_init, )

int MPI_Imrecv(void *buf, int n, MPI_Datatype type, MPI_Message *m,
	       MPI_Request *r)
{
	if (n > 0 && umpi_moves(buf))
		refuse("MPI_Imrecv");
	return PMPI_Imrecv(buf, n, type, m, r);
}

/* Collectives. */

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

/* Returns whether the caller is the root: only there some arguments count. */
static bool is_root(int root, MPI_Comm comm)
{
	int inter = 0, rank = 0;

	(void)PMPI_Comm_test_inter(comm, &inter);
	if (inter)
		return root == MPI_ROOT;
	(void)PMPI_Comm_rank(comm, &rank);
	return rank == root;
}

/* Each replaces an argument by a copy, if it would move. */

#define STAY(buf, n, type, way)						\
	((buf) = umpi_stay_typed(&s, buf, 0, n, type, way))

#define STAY_INTS(list, nr)						\
	((list) = umpi_stay(&s, list, (nr) * sizeof *(list), UMPI_IN))

#define STAY_PARTS(buf, counts, at, nr, type, way)			\
	((buf) = stay_parts(&s, buf, counts, at, nr, type, way))

/* Returns the buffer for parts: counts[i] elements, at[i] elements behind. */
static NOINLINE void *stay_parts(struct umpi_stay *s, const void *buf,
				 const int counts[], const int at[], int nr,
				 MPI_Datatype type, int way)
{
	long low = LONG_MAX, high = LONG_MIN;
	int i;

	if (buf == MPI_IN_PLACE || !umpi_moves(buf))
		return (void *)(uintptr_t)buf;
	for (i = 0; i < nr; i++) {
		if (counts[i] <= 0)
			continue;
		if (at[i] < low)
			low = at[i];
		if (at[i] + (long)counts[i] > high)
			high = at[i] + (long)counts[i];
	}
	return umpi_stay_typed(s, buf, low, high > low ? high - low : 0, type,
			       way);
}

/* The body: replacements, then the start. */
#define COLLECTIVE(name, comm, replacements, start)			\
{									\
	bool here = umpi_here("MPI_" #name);				\
	struct umpi_stay s = { NULL, false };				\
	MPI_Request r;							\
	int rc;								\
									\
	if (here) {							\
		replacements;						\
	}								\
	rc = s.s_failed ? no_memory(comm) : (start);			\
	return collective(&s, rc, &r, here, "MPI_" #name);		\
}

int MPI_Barrier(MPI_Comm comm)
COLLECTIVE(Barrier, comm, , PMPI_Ibarrier(comm, &r))

int MPI_Bcast(void *buf, int n, MPI_Datatype type, int root, MPI_Comm comm)
COLLECTIVE(Bcast, comm,
	STAY(buf, n, type, UMPI_IN | UMPI_OUT),
	PMPI_Ibcast(buf, n, type, root, comm, &r))

int MPI_Reduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op,
	       int root, MPI_Comm comm)
COLLECTIVE(Reduce, comm,
	STAY(in, n, type, UMPI_IN);
	if (is_root(root, comm))
		STAY(out, n, type, UMPI_OUT),
	PMPI_Ireduce(in, out, n, type, op, root, comm, &r))

int MPI_Allreduce(const void *in, void *out, int n, MPI_Datatype type,
		  MPI_Op op, MPI_Comm comm)
COLLECTIVE(Allreduce, comm,
	STAY(in, n, type, UMPI_IN);
	STAY(out, n, type, UMPI_OUT),
	PMPI_Iallreduce(in, out, n, type, op, comm, &r))

int MPI_Scan(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op,
	     MPI_Comm comm)
COLLECTIVE(Scan, comm,
	STAY(in, n, type, UMPI_IN);
	STAY(out, n, type, UMPI_OUT),
	PMPI_Iscan(in, out, n, type, op, comm, &r))

int MPI_Exscan(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op,
	       MPI_Comm comm)
COLLECTIVE(Exscan, comm,
	STAY(in, n, type, UMPI_IN);
	STAY(out, n, type, UMPI_OUT),
	PMPI_Iexscan(in, out, n, type, op, comm, &r))

int MPI_Reduce_scatter_block(const void *in, void *out, int n,
			     MPI_Datatype type, MPI_Op op, MPI_Comm comm)
COLLECTIVE(Reduce_scatter_block, comm,
	STAY(in, (long)n * ranks(comm), type, UMPI_IN);
	STAY(out, in == MPI_IN_PLACE ? (long)n * ranks(comm) : n, type,
	     UMPI_OUT),
	PMPI_Ireduce_scatter_block(in, out, n, type, op, comm, &r))

int MPI_Gather(const void *in, int in_n, MPI_Datatype in_type, void *out,
	       int out_n, MPI_Datatype out_type, int root, MPI_Comm comm)
COLLECTIVE(Gather, comm,
	STAY(in, in_n, in_type, UMPI_IN);
	if (is_root(root, comm))
		STAY(out, (long)out_n * ranks(comm), out_type, UMPI_OUT),
	PMPI_Igather(in, in_n, in_type, out, out_n, out_type, root, comm, &r))

int MPI_Gatherv(const void *in, int in_n, MPI_Datatype in_type, void *out,
		const int counts[], const int at[], MPI_Datatype out_type,
		int root, MPI_Comm comm)
COLLECTIVE(Gatherv, comm,
	STAY(in, in_n, in_type, UMPI_IN);
	if (is_root(root, comm)) {
		STAY_PARTS(out, counts, at, ranks(comm), out_type, UMPI_OUT);
		STAY_INTS(counts, ranks(comm));
		STAY_INTS(at, ranks(comm));
	},
	PMPI_Igatherv(in, in_n, in_type, out, counts, at, out_type, root, comm,
		      &r))

int MPI_Scatter(const void *in, int in_n, MPI_Datatype in_type, void *out,
		int out_n, MPI_Datatype out_type, int root, MPI_Comm comm)
COLLECTIVE(Scatter, comm,
	if (is_root(root, comm))
		STAY(in, (long)in_n * ranks(comm), in_type, UMPI_IN);
	STAY(out, out_n, out_type, UMPI_OUT),
	PMPI_Iscatter(in, in_n, in_type, out, out_n, out_type, root, comm, &r))

int MPI_Scatterv(const void *in, const int counts[], const int at[],
		 MPI_Datatype in_type, void *out, int out_n,
		 MPI_Datatype out_type, int root, MPI_Comm comm)
COLLECTIVE(Scatterv, comm,
	if (is_root(root, comm)) {
		STAY_PARTS(in, counts, at, ranks(comm), in_type, UMPI_IN);
		STAY_INTS(counts, ranks(comm));
		STAY_INTS(at, ranks(comm));
	}
	STAY(out, out_n, out_type, UMPI_OUT),
	PMPI_Iscatterv(in, counts, at, in_type, out, out_n, out_type, root,
		       comm, &r))

int MPI_Allgather(const void *in, int in_n, MPI_Datatype in_type, void *out,
		  int out_n, MPI_Datatype out_type, MPI_Comm comm)
COLLECTIVE(Allgather, comm,
	STAY(in, in_n, in_type, UMPI_IN);
	STAY(out, (long)out_n * ranks(comm), out_type, UMPI_OUT),
	PMPI_Iallgather(in, in_n, in_type, out, out_n, out_type, comm, &r))

int MPI_Allgatherv(const void *in, int in_n, MPI_Datatype in_type, void *out,
		   const int counts[], const int at[], MPI_Datatype out_type,
		   MPI_Comm comm)
COLLECTIVE(Allgatherv, comm,
	STAY(in, in_n, in_type, UMPI_IN);
	STAY_PARTS(out, counts, at, ranks(comm), out_type, UMPI_OUT);
	STAY_INTS(counts, ranks(comm));
	STAY_INTS(at, ranks(comm)),
	PMPI_Iallgatherv(in, in_n, in_type, out, counts, at, out_type, comm,
			 &r))

int MPI_Alltoall(const void *in, int in_n, MPI_Datatype in_type, void *out,
		 int out_n, MPI_Datatype out_type, MPI_Comm comm)
COLLECTIVE(Alltoall, comm,
	STAY(in, (long)in_n * ranks(comm), in_type, UMPI_IN);
	STAY(out, (long)out_n * ranks(comm), out_type, UMPI_OUT),
	PMPI_Ialltoall(in, in_n, in_type, out, out_n, out_type, comm, &r))

int MPI_Alltoallv(const void *in, const int in_counts[], const int in_at[],
		  MPI_Datatype in_type, void *out, const int out_counts[],
		  const int out_at[], MPI_Datatype out_type, MPI_Comm comm)
COLLECTIVE(Alltoallv, comm,
	if (in != MPI_IN_PLACE) {
		STAY_PARTS(in, in_counts, in_at, ranks(comm), in_type, UMPI_IN);
		STAY_INTS(in_counts, ranks(comm));
		STAY_INTS(in_at, ranks(comm));
	}
	STAY_PARTS(out, out_counts, out_at, ranks(comm), out_type, UMPI_OUT);
	STAY_INTS(out_counts, ranks(comm));
	STAY_INTS(out_at, ranks(comm)),
	PMPI_Ialltoallv(in, in_counts, in_at, in_type, out, out_counts, out_at,
			out_type, comm, &r))
