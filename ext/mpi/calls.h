/* SPDX-License-Identifier: MIT */
/* calls.h: the table of the calls of MPI that block, or start something. */

/*
 * A row for each call, from which come its hook (uprofile.c), its line in
 * README.md (list.sh), and its place among the tests: test/ext/mpi/every.c does not
 * compile if a call that blocks has no test. A file that includes this defines
 * the words, and COUNT, PLACE: int and int; or, for the calls that end in _c,
 * MPI_Count and MPI_Aint. Without ONCE only calls with both forms are there.
 *
 *	SENDS(call, start)			by the start, in threads
 *	MESSAGE(call)				so, too: written out in hooks.h
 *	WAITS(call)				for requests, and probes
 *	COLLECTIVE(call, start, buffers, arguments)	by the start, always
 *	OUTSIDE(call, buffers, arguments)	by a native thread beside
 *	TESTS(call, answer, arguments)		gives way after calls in vain
 *	LEFT(call, arguments)			stops the processor
 *
 * Of calls that do not block only the buffers are looked at:
 *
 *	START(call, buffers, arguments)		with a request behind these
 *	PERSIST(call, buffers, arguments)	so, and persistent
 *	INIT(call, buffers, arguments)		so, and with an MPI_Info
 *	ACCESS(call, buffers, arguments)	without a request
 *
 * An argument is written as a cast: (int) n. The communicator is called comm.
 * For BUF and the other words of buffers see hooks.h.
 */

#define SEND_ARGS							\
	(const void *) buf, (COUNT) n, (MPI_Datatype) type, (int) to,	\
	(int) tag, (MPI_Comm) comm
#define RECV_ARGS							\
	(void *) buf, (COUNT) n, (MPI_Datatype) type, (int) from,	\
	(int) tag, (MPI_Comm) comm
#define REDUCE_ARGS							\
	(const void *) in, (void *) out, (COUNT) n, (MPI_Datatype) type, \
	(MPI_Op) op
#define IN_ARGS								\
	(const void *) in, (COUNT) in_n, (MPI_Datatype) in_type
#define OUT_ARGS							\
	(void *) out, (COUNT) out_n, (MPI_Datatype) out_type
#define IN_V_ARGS							\
	(const void *) in, (const COUNT *) in_counts,			\
	(const PLACE *) in_at, (MPI_Datatype) in_type
#define OUT_V_ARGS							\
	(void *) out, (const COUNT *) out_counts,			\
	(const PLACE *) out_at, (MPI_Datatype) out_type
#define W_ARGS(place)							\
	(const void *) in, (const COUNT *) in_counts,			\
	(const place *) in_at, (const MPI_Datatype *) in_types,		\
	(void *) out, (const COUNT *) out_counts,			\
	(const place *) out_at, (const MPI_Datatype *) out_types,	\
	(MPI_Comm) comm
#define TARGET_ARGS							\
	(int) rank, (MPI_Aint) at, (COUNT) there_n, (MPI_Datatype) there_type

/* Messages. */

SENDS(Send, Isend)
SENDS(Ssend, Issend)
SENDS(Rsend, Irsend)
MESSAGE(Recv)
MESSAGE(Mrecv)
MESSAGE(Sendrecv)
MESSAGE(Sendrecv_replace)
START(Isend, BUF(buf, n, type, UMPI_IN), SEND_ARGS)
START(Issend, BUF(buf, n, type, UMPI_IN), SEND_ARGS)
START(Irsend, BUF(buf, n, type, UMPI_IN), SEND_ARGS)
START(Ibsend, BUF(buf, n, type, UMPI_IN), SEND_ARGS)
START(Irecv, BUF(buf, n, type, UMPI_OUT), RECV_ARGS)
PERSIST(Send_init, BUF(buf, n, type, UMPI_IN), SEND_ARGS)
PERSIST(Ssend_init, BUF(buf, n, type, UMPI_IN), SEND_ARGS)
PERSIST(Rsend_init, BUF(buf, n, type, UMPI_IN), SEND_ARGS)
PERSIST(Bsend_init, BUF(buf, n, type, UMPI_IN), SEND_ARGS)
PERSIST(Recv_init, BUF(buf, n, type, UMPI_OUT), RECV_ARGS)
MESSAGE(Imrecv)
#if MPI_VERSION >= 4
START(Isendrecv,
      BUF(in, in_n, in_type, UMPI_IN); BUF(out, out_n, out_type, UMPI_OUT),
      IN_ARGS, (int) to, (int) to_tag, OUT_ARGS, (int) from, (int) from_tag,
      (MPI_Comm) comm)
START(Isendrecv_replace, BUF(buf, n, type, UMPI_OUT),
      (void *) buf, (COUNT) n, (MPI_Datatype) type, (int) to, (int) to_tag,
      (int) from, (int) from_tag, (MPI_Comm) comm)
#endif
#if defined(ONCE)
#if MPI_VERSION >= 4
PERSIST(Psend_init, BUF(buf, parts * n, type, UMPI_IN),
      (const void *) buf, (int) parts, (MPI_Count) n, (MPI_Datatype) type,
      (int) to, (int) tag, (MPI_Comm) comm, (MPI_Info) info)
PERSIST(Precv_init, BUF(buf, parts * n, type, UMPI_OUT),
      (void *) buf, (int) parts, (MPI_Count) n, (MPI_Datatype) type,
      (int) from, (int) tag, (MPI_Comm) comm, (MPI_Info) info)
#endif
WAITS(Probe)
WAITS(Mprobe)
WAITS(Wait)
WAITS(Waitall)
WAITS(Waitany)
WAITS(Waitsome)
TESTS(Test, *flag, (MPI_Request *) request, (int *) flag, (MPI_Status *) status)
TESTS(Testall, *flag, (int) n, (MPI_Request *) request, (int *) flag,
      (MPI_Status *) status)
TESTS(Testany, *flag, (int) n, (MPI_Request *) request, (int *) index,
      (int *) flag, (MPI_Status *) status)
TESTS(Testsome, *done != 0, (int) n, (MPI_Request *) request, (int *) done,
      (int *) index, (MPI_Status *) status)
TESTS(Request_get_status, *flag, (MPI_Request) request, (int *) flag,
      (MPI_Status *) status)
TESTS(Iprobe, *flag, (int) from, (int) tag, (MPI_Comm) comm, (int *) flag,
      (MPI_Status *) status)
TESTS(Improbe, NOTED(*flag, message), (int) from, (int) tag, (MPI_Comm) comm, (int *) flag,
      (MPI_Message *) message, (MPI_Status *) status)
#if MPI_VERSION >= 4
TESTS(Parrived, *flag, (MPI_Request) request, (int) part, (int *) flag)
#endif
TESTS(Win_test, *flag, (MPI_Win) win, (int *) flag)
#endif
ACCESS(Buffer_attach, BYTES(buf, n), (void *) buf, (COUNT) n)
OUTSIDE(Buffer_detach, COPY(buf, sizeof(void *)); RESULT(n),
	(void *) buf, (COUNT *) n)

/* Collectives. */

#if defined(ONCE)
COLLECTIVE(Barrier, Ibarrier, , (MPI_Comm) comm)
#if MPI_VERSION >= 4
INIT(Barrier_init, , (MPI_Comm) comm)
#endif
#endif

#define BOTH_FORMS(call, start, init, ...)				\
	COLLECTIVE(call, start, __VA_ARGS__)				\
	INIT(init, __VA_ARGS__)

BOTH_FORMS(Bcast, Ibcast, Bcast_init,
	BUF(buf, n, type, UMPI_IN | UMPI_OUT),
	(void *) buf, (COUNT) n, (MPI_Datatype) type, (int) root,
	(MPI_Comm) comm)
BOTH_FORMS(Reduce, Ireduce, Reduce_init,
	BUF(in, n, type, UMPI_IN);
	if (IS_ROOT) BUF(out, n, type, UMPI_OUT),
	REDUCE_ARGS, (int) root, (MPI_Comm) comm)
BOTH_FORMS(Allreduce, Iallreduce, Allreduce_init,
	BUF(in, n, type, UMPI_IN); BUF(out, n, type, UMPI_OUT),
	REDUCE_ARGS, (MPI_Comm) comm)
BOTH_FORMS(Scan, Iscan, Scan_init,
	BUF(in, n, type, UMPI_IN); BUF(out, n, type, UMPI_OUT),
	REDUCE_ARGS, (MPI_Comm) comm)
BOTH_FORMS(Exscan, Iexscan, Exscan_init,
	BUF(in, n, type, UMPI_IN); BUF(out, n, type, UMPI_OUT),
	REDUCE_ARGS, (MPI_Comm) comm)
BOTH_FORMS(Reduce_scatter_block, Ireduce_scatter_block,
	Reduce_scatter_block_init,
	BUF(in, n * RANKS, type, UMPI_IN);
	BUF(out, in == MPI_IN_PLACE ? n * RANKS : n, type, UMPI_OUT),
	REDUCE_ARGS, (MPI_Comm) comm)
BOTH_FORMS(Reduce_scatter, Ireduce_scatter, Reduce_scatter_init,
	BUF(in, SUM(counts, RANKS), type, UMPI_IN);
	BUF(out, in == MPI_IN_PLACE ? SUM(counts, RANKS) : NUMBER(counts, RANK),
	    type, UMPI_OUT);
	LIST(counts, RANKS),
	(const void *) in, (void *) out, (const COUNT *) counts,
	(MPI_Datatype) type, (MPI_Op) op, (MPI_Comm) comm)
BOTH_FORMS(Gather, Igather, Gather_init,
	BUF(in, in_n, in_type, UMPI_IN);
	if (IS_ROOT) BUF(out, out_n * RANKS, out_type, UMPI_OUT),
	IN_ARGS, OUT_ARGS, (int) root, (MPI_Comm) comm)
BOTH_FORMS(Gatherv, Igatherv, Gatherv_init,
	BUF(in, in_n, in_type, UMPI_IN);
	if (IS_ROOT) PARTS(out, out_counts, out_at, out_type, RANKS, UMPI_OUT),
	IN_ARGS, OUT_V_ARGS, (int) root, (MPI_Comm) comm)
BOTH_FORMS(Scatter, Iscatter, Scatter_init,
	if (IS_ROOT) BUF(in, in_n * RANKS, in_type, UMPI_IN);
	BUF(out, out_n, out_type, UMPI_OUT),
	IN_ARGS, OUT_ARGS, (int) root, (MPI_Comm) comm)
BOTH_FORMS(Scatterv, Iscatterv, Scatterv_init,
	if (IS_ROOT) PARTS(in, in_counts, in_at, in_type, RANKS, UMPI_IN);
	BUF(out, out_n, out_type, UMPI_OUT),
	IN_V_ARGS, OUT_ARGS, (int) root, (MPI_Comm) comm)
BOTH_FORMS(Allgather, Iallgather, Allgather_init,
	BUF(in, in_n, in_type, UMPI_IN);
	BUF(out, out_n * RANKS, out_type, UMPI_OUT),
	IN_ARGS, OUT_ARGS, (MPI_Comm) comm)
BOTH_FORMS(Allgatherv, Iallgatherv, Allgatherv_init,
	BUF(in, in_n, in_type, UMPI_IN);
	PARTS(out, out_counts, out_at, out_type, RANKS, UMPI_OUT),
	IN_ARGS, OUT_V_ARGS, (MPI_Comm) comm)
BOTH_FORMS(Alltoall, Ialltoall, Alltoall_init,
	BUF(in, in_n * RANKS, in_type, UMPI_IN);
	BUF(out, out_n * RANKS, out_type, UMPI_OUT),
	IN_ARGS, OUT_ARGS, (MPI_Comm) comm)
BOTH_FORMS(Alltoallv, Ialltoallv, Alltoallv_init,
	if (in != MPI_IN_PLACE)
		PARTS(in, in_counts, in_at, in_type, RANKS, UMPI_IN);
	PARTS(out, out_counts, out_at, out_type, RANKS, UMPI_OUT),
	IN_V_ARGS, OUT_V_ARGS, (MPI_Comm) comm)
BOTH_FORMS(Alltoallw, Ialltoallw, Alltoallw_init,
	if (in != MPI_IN_PLACE)
		PARTS_W(in, in_counts, in_at, in_types, RANKS, UMPI_IN);
	PARTS_W(out, out_counts, out_at, out_types, RANKS, UMPI_OUT),
	W_ARGS(PLACE))
BOTH_FORMS(Neighbor_allgather, Ineighbor_allgather, Neighbor_allgather_init,
	BUF(in, in_n, in_type, UMPI_IN);
	BUF(out, out_n * SOURCES, out_type, UMPI_OUT),
	IN_ARGS, OUT_ARGS, (MPI_Comm) comm)
BOTH_FORMS(Neighbor_allgatherv, Ineighbor_allgatherv, Neighbor_allgatherv_init,
	BUF(in, in_n, in_type, UMPI_IN);
	PARTS(out, out_counts, out_at, out_type, SOURCES, UMPI_OUT),
	IN_ARGS, OUT_V_ARGS, (MPI_Comm) comm)
BOTH_FORMS(Neighbor_alltoall, Ineighbor_alltoall, Neighbor_alltoall_init,
	BUF(in, in_n * TARGETS, in_type, UMPI_IN);
	BUF(out, out_n * SOURCES, out_type, UMPI_OUT),
	IN_ARGS, OUT_ARGS, (MPI_Comm) comm)
BOTH_FORMS(Neighbor_alltoallv, Ineighbor_alltoallv, Neighbor_alltoallv_init,
	PARTS(in, in_counts, in_at, in_type, TARGETS, UMPI_IN);
	PARTS(out, out_counts, out_at, out_type, SOURCES, UMPI_OUT),
	IN_V_ARGS, OUT_V_ARGS, (MPI_Comm) comm)
BOTH_FORMS(Neighbor_alltoallw, Ineighbor_alltoallw, Neighbor_alltoallw_init,
	PARTS_W(in, in_counts, in_at, in_types, TARGETS, UMPI_IN);
	PARTS_W(out, out_counts, out_at, out_types, SOURCES, UMPI_OUT),
	W_ARGS(MPI_Aint))

/* Communicators. */

#if defined(ONCE)
COLLECTIVE(Comm_dup, Comm_idup, RESULT(made),
	(MPI_Comm) comm, (MPI_Comm *) made)
#if MPI_VERSION >= 4
COLLECTIVE(Comm_dup_with_info, Comm_idup_with_info, RESULT(made),
	(MPI_Comm) comm, (MPI_Info) info, (MPI_Comm *) made)
#else
OUTSIDE(Comm_dup_with_info, RESULT(made),
	(MPI_Comm) comm, (MPI_Info) info, (MPI_Comm *) made)
#endif
OUTSIDE(Comm_create, RESULT(made),
	(MPI_Comm) comm, (MPI_Group) group, (MPI_Comm *) made)
OUTSIDE(Comm_create_group, RESULT(made),
	(MPI_Comm) comm, (MPI_Group) group, (int) tag, (MPI_Comm *) made)
OUTSIDE(Comm_split, RESULT(made),
	(MPI_Comm) comm, (int) color, (int) key, (MPI_Comm *) made)
OUTSIDE(Comm_split_type, RESULT(made),
	(MPI_Comm) comm, (int) by, (int) key, (MPI_Info) info,
	(MPI_Comm *) made)
OUTSIDE(Comm_set_info, , (MPI_Comm) comm, (MPI_Info) info)
OUTSIDE(Comm_free, RESULT(freed), (MPI_Comm *) freed)
OUTSIDE(Comm_disconnect, RESULT(freed), (MPI_Comm *) freed)
OUTSIDE(Intercomm_create, RESULT(made),
	(MPI_Comm) comm, (int) leader, (MPI_Comm) bridge, (int) there,
	(int) tag, (MPI_Comm *) made)
OUTSIDE(Intercomm_merge, RESULT(made),
	(MPI_Comm) comm, (int) high, (MPI_Comm *) made)
OUTSIDE(Cart_create, LIST(dims, nr); LIST(periods, nr); RESULT(made),
	(MPI_Comm) comm, (int) nr, (const int *) dims, (const int *) periods,
	(int) reorder, (MPI_Comm *) made)
OUTSIDE(Cart_sub, LIST(remain, DIMENSIONS); RESULT(made),
	(MPI_Comm) comm, (const int *) remain, (MPI_Comm *) made)
OUTSIDE(Graph_create,
	if (nr > 0) { LIST(edges, index[nr - 1]); LIST(index, nr); } RESULT(made),
	(MPI_Comm) comm, (int) nr, (const int *) index, (const int *) edges,
	(int) reorder, (MPI_Comm *) made)
OUTSIDE(Dist_graph_create,
	if (weights != MPI_UNWEIGHTED) LIST(weights, SUM(degrees, nr));
	LIST(targets, SUM(degrees, nr)); LIST(degrees, nr); LIST(nodes, nr);
	RESULT(made),
	(MPI_Comm) comm, (int) nr, (const int *) nodes, (const int *) degrees,
	(const int *) targets, (const int *) weights, (MPI_Info) info,
	(int) reorder, (MPI_Comm *) made)
OUTSIDE(Dist_graph_create_adjacent,
	LIST(sources, in_nr); LIST(targets, out_nr);
	if (in_weights != MPI_UNWEIGHTED) LIST(in_weights, in_nr);
	if (out_weights != MPI_UNWEIGHTED) LIST(out_weights, out_nr);
	RESULT(made),
	(MPI_Comm) comm, (int) in_nr, (const int *) sources,
	(const int *) in_weights, (int) out_nr, (const int *) targets,
	(const int *) out_weights, (MPI_Info) info, (int) reorder,
	(MPI_Comm *) made)
OUTSIDE(Comm_accept, TEXT(port); RESULT(made),
	(const char *) port, (MPI_Info) info, (int) root, (MPI_Comm) comm,
	(MPI_Comm *) made)
OUTSIDE(Comm_connect, TEXT(port); RESULT(made),
	(const char *) port, (MPI_Info) info, (int) root, (MPI_Comm) comm,
	(MPI_Comm *) made)
LEFT(Comm_spawn,
	(const char *) command, (char **) words, (int) nr, (MPI_Info) info,
	(int) root, (MPI_Comm) comm, (MPI_Comm *) made, (int *) codes)
LEFT(Comm_spawn_multiple,
	(int) kinds, (char **) commands, (char ***) words, (const int *) nr,
	(const MPI_Info *) info, (int) root, (MPI_Comm) comm,
	(MPI_Comm *) made, (int *) codes)
OUTSIDE(Comm_join, RESULT(made), (int) fd, (MPI_Comm *) made)
OUTSIDE(Publish_name, TEXT(name); TEXT(port),
	(const char *) name, (MPI_Info) info, (const char *) port)
OUTSIDE(Unpublish_name, TEXT(name); TEXT(port),
	(const char *) name, (MPI_Info) info, (const char *) port)
OUTSIDE(Lookup_name, TEXT(name); COPY(port, MPI_MAX_PORT_NAME),
	(const char *) name, (MPI_Info) info, (char *) port)
#if MPI_VERSION >= 4
OUTSIDE(Comm_create_from_group, TEXT(tag); RESULT(made),
	(MPI_Group) group, (const char *) tag, (MPI_Info) info,
	(MPI_Errhandler) handler, (MPI_Comm *) made)
OUTSIDE(Intercomm_create_from_groups, TEXT(tag); RESULT(made),
	(MPI_Group) group, (int) leader, (MPI_Group) others, (int) there,
	(const char *) tag, (MPI_Info) info, (MPI_Errhandler) handler,
	(MPI_Comm *) made)
OUTSIDE(Session_init, RESULT(made),
	(MPI_Info) info, (MPI_Errhandler) handler, (MPI_Session *) made)
OUTSIDE(Session_finalize, RESULT(freed), (MPI_Session *) freed)
#endif
#endif

/* Windows. */

#if defined(LARGE)
#define UNIT	MPI_Aint
#else
#define UNIT	int
#endif

OUTSIDE(Win_create, EXPOSED(buf, size); RESULT(win),
	(void *) buf, (MPI_Aint) size, (UNIT) unit, (MPI_Info) info,
	(MPI_Comm) comm, (MPI_Win *) win)
OUTSIDE(Win_allocate, COPY(at, sizeof(void *)); RESULT(win),
	(MPI_Aint) size, (UNIT) unit, (MPI_Info) info, (MPI_Comm) comm,
	(void *) at, (MPI_Win *) win)
OUTSIDE(Win_allocate_shared, COPY(at, sizeof(void *)); RESULT(win),
	(MPI_Aint) size, (UNIT) unit, (MPI_Info) info, (MPI_Comm) comm,
	(void *) at, (MPI_Win *) win)
#undef UNIT
#if defined(ONCE)
OUTSIDE(Win_create_dynamic, RESULT(win),
	(MPI_Info) info, (MPI_Comm) comm, (MPI_Win *) win)
OUTSIDE(Win_free, RESULT(win), (MPI_Win *) win)
OUTSIDE(Win_set_info, , (MPI_Win) win, (MPI_Info) info)
OUTSIDE(Win_fence, , (int) assertion, (MPI_Win) win)
OUTSIDE(Win_post, , (MPI_Group) group, (int) assertion, (MPI_Win) win)
OUTSIDE(Win_start, , (MPI_Group) group, (int) assertion, (MPI_Win) win)
OUTSIDE(Win_complete, , (MPI_Win) win)
OUTSIDE(Win_wait, , (MPI_Win) win)
OUTSIDE(Win_lock, , (int) how, (int) rank, (int) assertion, (MPI_Win) win)
OUTSIDE(Win_unlock, , (int) rank, (MPI_Win) win)
OUTSIDE(Win_lock_all, , (int) assertion, (MPI_Win) win)
OUTSIDE(Win_unlock_all, , (MPI_Win) win)
OUTSIDE(Win_flush, , (int) rank, (MPI_Win) win)
OUTSIDE(Win_flush_all, , (MPI_Win) win)
OUTSIDE(Win_flush_local, , (int) rank, (MPI_Win) win)
OUTSIDE(Win_flush_local_all, , (MPI_Win) win)
ACCESS(Win_attach, BYTES(buf, size),
       (MPI_Win) win, (void *) buf, (MPI_Aint) size)
#endif
ACCESS(Put, BUF(buf, n, type, UMPI_IN),
       (const void *) buf, (COUNT) n, (MPI_Datatype) type, TARGET_ARGS,
       (MPI_Win) win)
ACCESS(Get, BUF(buf, n, type, UMPI_OUT),
       (void *) buf, (COUNT) n, (MPI_Datatype) type, TARGET_ARGS,
       (MPI_Win) win)
ACCESS(Accumulate, BUF(buf, n, type, UMPI_IN),
       (const void *) buf, (COUNT) n, (MPI_Datatype) type, TARGET_ARGS,
       (MPI_Op) op, (MPI_Win) win)
ACCESS(Get_accumulate,
       BUF(in, in_n, in_type, UMPI_IN); BUF(out, out_n, out_type, UMPI_OUT),
       IN_ARGS, OUT_ARGS, TARGET_ARGS, (MPI_Op) op, (MPI_Win) win)
START(Rput, BUF(buf, n, type, UMPI_IN),
      (const void *) buf, (COUNT) n, (MPI_Datatype) type, TARGET_ARGS,
      (MPI_Win) win)
START(Rget, BUF(buf, n, type, UMPI_OUT),
      (void *) buf, (COUNT) n, (MPI_Datatype) type, TARGET_ARGS,
      (MPI_Win) win)
START(Raccumulate, BUF(buf, n, type, UMPI_IN),
      (const void *) buf, (COUNT) n, (MPI_Datatype) type, TARGET_ARGS,
      (MPI_Op) op, (MPI_Win) win)
START(Rget_accumulate, BUF(in, in_n, in_type, UMPI_IN);
      BUF(out, out_n, out_type, UMPI_OUT),
      IN_ARGS, OUT_ARGS, TARGET_ARGS, (MPI_Op) op, (MPI_Win) win)
#if defined(ONCE)
ACCESS(Fetch_and_op, BUF(in, 1, type, UMPI_IN); BUF(out, 1, type, UMPI_OUT),
       (const void *) in, (void *) out, (MPI_Datatype) type, (int) rank,
       (MPI_Aint) at, (MPI_Op) op, (MPI_Win) win)
ACCESS(Compare_and_swap,
       BUF(in, 1, type, UMPI_IN); BUF(compared, 1, type, UMPI_IN);
       BUF(out, 1, type, UMPI_OUT),
       (const void *) in, (const void *) compared, (void *) out,
       (MPI_Datatype) type, (int) rank, (MPI_Aint) at, (MPI_Win) win)
#endif

/* Files. */

#define READ_ARGS	(void *) buf, (COUNT) n, (MPI_Datatype) type
#define WRITE_ARGS	(const void *) buf, (COUNT) n, (MPI_Datatype) type
#define READS		BUF(buf, n, type, UMPI_OUT); RESULT(status)
#define WRITES		BUF(buf, n, type, UMPI_IN); RESULT(status)
#define BY_POINTER	(MPI_File) file
#define BY_OFFSET	(MPI_File) file, (MPI_Offset) at
#define STATUS_ARG	(MPI_Status *) status

OUTSIDE(File_read, READS, BY_POINTER, READ_ARGS, STATUS_ARG)
OUTSIDE(File_read_all, READS, BY_POINTER, READ_ARGS, STATUS_ARG)
OUTSIDE(File_read_at, READS, BY_OFFSET, READ_ARGS, STATUS_ARG)
OUTSIDE(File_read_at_all, READS, BY_OFFSET, READ_ARGS, STATUS_ARG)
OUTSIDE(File_read_shared, READS, BY_POINTER, READ_ARGS, STATUS_ARG)
OUTSIDE(File_read_ordered, READS, BY_POINTER, READ_ARGS, STATUS_ARG)
OUTSIDE(File_write, WRITES, BY_POINTER, WRITE_ARGS, STATUS_ARG)
OUTSIDE(File_write_all, WRITES, BY_POINTER, WRITE_ARGS, STATUS_ARG)
OUTSIDE(File_write_at, WRITES, BY_OFFSET, WRITE_ARGS, STATUS_ARG)
OUTSIDE(File_write_at_all, WRITES, BY_OFFSET, WRITE_ARGS, STATUS_ARG)
OUTSIDE(File_write_shared, WRITES, BY_POINTER, WRITE_ARGS, STATUS_ARG)
OUTSIDE(File_write_ordered, WRITES, BY_POINTER, WRITE_ARGS, STATUS_ARG)
OUTSIDE(File_read_all_begin, KEPT(buf, n, type), BY_POINTER, READ_ARGS)
OUTSIDE(File_read_at_all_begin, KEPT(buf, n, type), BY_OFFSET, READ_ARGS)
OUTSIDE(File_read_ordered_begin, KEPT(buf, n, type), BY_POINTER, READ_ARGS)
OUTSIDE(File_write_all_begin, KEPT(buf, n, type), BY_POINTER, WRITE_ARGS)
OUTSIDE(File_write_at_all_begin, KEPT(buf, n, type), BY_OFFSET, WRITE_ARGS)
OUTSIDE(File_write_ordered_begin, KEPT(buf, n, type), BY_POINTER, WRITE_ARGS)
START(File_iread, BUF(buf, n, type, UMPI_OUT), BY_POINTER, READ_ARGS)
START(File_iread_at, BUF(buf, n, type, UMPI_OUT), BY_OFFSET, READ_ARGS)
START(File_iread_all, BUF(buf, n, type, UMPI_OUT), BY_POINTER, READ_ARGS)
START(File_iread_at_all, BUF(buf, n, type, UMPI_OUT), BY_OFFSET, READ_ARGS)
START(File_iread_shared, BUF(buf, n, type, UMPI_OUT), BY_POINTER, READ_ARGS)
START(File_iwrite, BUF(buf, n, type, UMPI_IN), BY_POINTER, WRITE_ARGS)
START(File_iwrite_at, BUF(buf, n, type, UMPI_IN), BY_OFFSET, WRITE_ARGS)
START(File_iwrite_all, BUF(buf, n, type, UMPI_IN), BY_POINTER, WRITE_ARGS)
START(File_iwrite_at_all, BUF(buf, n, type, UMPI_IN), BY_OFFSET, WRITE_ARGS)
START(File_iwrite_shared, BUF(buf, n, type, UMPI_IN), BY_POINTER, WRITE_ARGS)
#if defined(ONCE)
OUTSIDE(File_read_all_end, RESULT(status),
	(MPI_File) file, (void *) buf, STATUS_ARG)
OUTSIDE(File_read_at_all_end, RESULT(status),
	(MPI_File) file, (void *) buf, STATUS_ARG)
OUTSIDE(File_read_ordered_end, RESULT(status),
	(MPI_File) file, (void *) buf, STATUS_ARG)
OUTSIDE(File_write_all_end, RESULT(status),
	(MPI_File) file, (const void *) buf, STATUS_ARG)
OUTSIDE(File_write_at_all_end, RESULT(status),
	(MPI_File) file, (const void *) buf, STATUS_ARG)
OUTSIDE(File_write_ordered_end, RESULT(status),
	(MPI_File) file, (const void *) buf, STATUS_ARG)
OUTSIDE(File_open, TEXT(name); RESULT(file),
	(MPI_Comm) comm, (const char *) name, (int) mode, (MPI_Info) info,
	(MPI_File *) file)
OUTSIDE(File_close, RESULT(file), (MPI_File *) file)
OUTSIDE(File_delete, TEXT(name), (const char *) name, (MPI_Info) info)
OUTSIDE(File_set_size, , (MPI_File) file, (MPI_Offset) size)
OUTSIDE(File_preallocate, , (MPI_File) file, (MPI_Offset) size)
OUTSIDE(File_set_info, , (MPI_File) file, (MPI_Info) info)
OUTSIDE(File_set_view, TEXT(form),
	(MPI_File) file, (MPI_Offset) at, (MPI_Datatype) unit,
	(MPI_Datatype) view, (const char *) form, (MPI_Info) info)
OUTSIDE(File_seek_shared, , (MPI_File) file, (MPI_Offset) at, (int) from)
OUTSIDE(File_set_atomicity, , (MPI_File) file, (int) on)
OUTSIDE(File_sync, , (MPI_File) file)
#endif

#undef SEND_ARGS
#undef RECV_ARGS
#undef REDUCE_ARGS
#undef IN_ARGS
#undef OUT_ARGS
#undef IN_V_ARGS
#undef OUT_V_ARGS
#undef W_ARGS
#undef TARGET_ARGS
#undef BOTH_FORMS
#undef READ_ARGS
#undef WRITE_ARGS
#undef READS
#undef WRITES
#undef BY_POINTER
#undef BY_OFFSET
#undef STATUS_ARG
