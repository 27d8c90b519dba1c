/* SPDX-License-Identifier: MIT */
/* hooks.h: the hooks of calls that come in two forms. Part of uprofile.c. */

/*
 * Included for int, and for MPI_Count: CALL(Send) is MPI_Send, or MPI_Send_c.
 * First the hooks that the table does not make, then the table, with its words.
 */

int CALL(Recv)(void *buf, COUNT n, MPI_Datatype type, int from, int tag,
	       MPI_Comm comm, MPI_Status *status)
{
	struct umpi_why why = { TEXT_OF(CALL(Recv)), from, tag, true };
	struct umpi_stay s = { NULL, NULL, false };
	MPI_Request r;
	int rc;

	if (!umpi_here(why.y_call))
		return REAL(Recv)(buf, n, type, from, tag, comm, status);
	BUF(buf, n, type, UMPI_OUT);
	rc = s.s_failed ? no_memory(TEXT_OF(CALL(Recv)), comm) :
		REAL(Irecv)(buf, n, type, from, tag, comm, &r);
	return message(&s, rc, &r, status, &why, comm);
}

int CALL(Mrecv)(void *buf, COUNT n, MPI_Datatype type, MPI_Message *m,
		MPI_Status *status)
{
	struct umpi_why why = { .y_call = TEXT_OF(CALL(Mrecv)),
				.y_peer = UMPI_NO_PEER };
	struct umpi_stay s = { NULL, NULL, false };
	MPI_Comm comm = message_comm(*m);
	MPI_Request r;
	int rc;

	if (!umpi_here(why.y_call))
		return REAL(Mrecv)(buf, n, type, m, status);
	BUF(buf, n, type, UMPI_OUT);
	rc = s.s_failed ? no_memory(TEXT_OF(CALL(Mrecv)), comm) :
		REAL(Imrecv)(buf, n, type, m, &r);
	return message(&s, rc, &r, status, &why, comm);
}

int CALL(Imrecv)(void *buf, COUNT n, MPI_Datatype type, MPI_Message *m,
		 MPI_Request *r)
{
	struct umpi_stay s = { NULL, TEXT_OF(CALL(Imrecv)), false };
	MPI_Comm comm = message_comm(*m);
	int rc;

	BUF(buf, n, type, UMPI_OUT);
	rc = REAL(Imrecv)(buf, n, type, m, r);
	if (rc == MPI_SUCCESS)
		umpi_note(*r, comm);
	return rc;
}

int CALL(Sendrecv)(const void *out, COUNT out_n, MPI_Datatype out_type, int to,
		   int out_tag, void *in, COUNT in_n, MPI_Datatype in_type,
		   int from, int in_tag, MPI_Comm comm, MPI_Status *status)
{
	struct umpi_why why = { TEXT_OF(CALL(Sendrecv)), from, in_tag, true };
	struct umpi_stay s = { NULL, NULL, false };
	MPI_Request r[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
	int rc;

	if (!umpi_here(why.y_call))
		return REAL(Sendrecv)(out, out_n, out_type, to, out_tag, in,
				      in_n, in_type, from, in_tag, comm,
				      status);
	BUF(out, out_n, out_type, UMPI_IN);
	BUF(in, in_n, in_type, UMPI_OUT);
	rc = s.s_failed ? no_memory(TEXT_OF(CALL(Sendrecv)), comm) :
		REAL(Irecv)(in, in_n, in_type, from, in_tag, comm,
				    &r[0]);
	if (rc == MPI_SUCCESS)
		rc = REAL(Isend)(out, out_n, out_type, to, out_tag, comm,
				 &r[1]);
	return both(&s, rc, r, status, &why, comm);
}

/* The data goes out from a copy, of which nothing comes back. */
int CALL(Sendrecv_replace)(void *buf, COUNT n, MPI_Datatype type, int to,
			   int out_tag, int from, int in_tag, MPI_Comm comm,
			   MPI_Status *status)
{
	MPI_Aint first;
	size_t nob;
	char *copy;
	int rc;

	if (!umpi_here(TEXT_OF(CALL(Sendrecv_replace))))
		return REAL(Sendrecv_replace)(buf, n, type, to, out_tag, from,
					      in_tag, comm, status);
	if (!umpi_span(n, type, &first, &nob))
		return CALL(Sendrecv)(buf, n, type, to, out_tag, buf, n, type,
				      from, in_tag, comm, status);
	copy = malloc(nob);
	if (copy == NULL)
		return no_memory(TEXT_OF(CALL(Sendrecv_replace)), comm);
	memcpy(copy, (char *)buf + first, nob);
	rc = CALL(Sendrecv)(copy - first, n, type, to, out_tag, buf, n, type,
			    from, in_tag, comm, status);
	free(copy);
	return rc;
}

/* The words of the table. */

#define SENDS(name, start)						\
int CALL(name)(const void *buf, COUNT n, MPI_Datatype type, int to,	\
	       int tag, MPI_Comm comm)					\
{									\
	struct umpi_why why = { TEXT_OF(CALL(name)), to, tag, false };	\
	struct umpi_stay s = { NULL, NULL, false };			\
	MPI_Request r;							\
	int rc;								\
									\
	if (!umpi_here(why.y_call))					\
		return REAL(name)(buf, n, type, to, tag, comm);		\
	BUF(buf, n, type, UMPI_IN);					\
	rc = s.s_failed ? no_memory(TEXT_OF(CALL(name)), comm) :	\
		REAL(start)(buf, n, type, to, tag, comm, &r);		\
	return message(&s, rc, &r, MPI_STATUS_IGNORE, &why, comm);	\
}

#define MESSAGE(name)		/* above */
#define WAITS(name)		/* in uprofile.c */

#define COLLECTIVE(name, start, buffers, ...)				\
int CALL(name)(EACH(DECLARED, __VA_ARGS__))				\
{									\
	bool here = umpi_here(TEXT_OF(CALL(name)));			\
	struct umpi_stay s = { NULL, NULL, false };			\
	MPI_Request r;							\
	int rc;								\
									\
	if (here) {							\
		buffers;						\
	}								\
	rc = s.s_failed ? no_memory(TEXT_OF(CALL(name)), comm) :	\
		REAL(start)(EACH(NAMED, __VA_ARGS__), &r);		\
	return collective(&s, rc, &r, here, TEXT_OF(CALL(name)), comm);	\
}									\
START(start, buffers, __VA_ARGS__)

/* prepare goes before the call. */
#define STARTS(prepare, name, buffers, ...)				\
int CALL(name)(EACH(DECLARED, __VA_ARGS__), MPI_Request *r)		\
{									\
	struct umpi_stay s = { NULL, TEXT_OF(CALL(name)), false };	\
	int rc;								\
									\
	if (umpi_moves()) {						\
		buffers;						\
	}								\
	(void)s;							\
	prepare;							\
	rc = REAL(name)(EACH(NAMED, __VA_ARGS__), r);			\
	if (rc == MPI_SUCCESS)						\
		umpi_note(*r, comm);					\
	return rc;							\
}

#define START(name, buffers, ...)	STARTS(, name, buffers, __VA_ARGS__)
#define PERSIST(name, buffers, ...)					\
	STARTS(umpi_persist(), name, buffers, __VA_ARGS__)

#if MPI_VERSION >= 4
#define INIT(name, buffers, ...)					\
	PERSIST(name, buffers, __VA_ARGS__, (MPI_Info) info)
#else
#define INIT(name, buffers, ...)
#endif

#define ACCESS(name, buffers, ...)					\
int CALL(name)(EACH(DECLARED, __VA_ARGS__))				\
{									\
	struct umpi_stay s = { NULL, TEXT_OF(CALL(name)), false };	\
									\
	if (umpi_moves()) {						\
		buffers;						\
	}								\
	return REAL(name)(EACH(NAMED, __VA_ARGS__));			\
}

#define TESTS(name, answer, ...)					\
int CALL(name)(EACH(DECLARED, __VA_ARGS__))				\
{									\
	int rc = REAL(name)(EACH(NAMED, __VA_ARGS__));			\
									\
	if (rc == MPI_SUCCESS)						\
		umpi_tried(answer);					\
	return rc;							\
}

#define OUTSIDE(name, buffers, ...)					\
struct STRUCT(name) { int rc; EVERY(FIELD, __VA_ARGS__) };		\
									\
static void BESIDE(name)(void *arg)					\
{									\
	struct STRUCT(name) *a = arg;					\
									\
	a->rc = REAL(name)(EACH(OF_STRUCT, __VA_ARGS__));		\
}									\
									\
int CALL(name)(EACH(DECLARED, __VA_ARGS__))				\
{									\
	static const char call[] = TEXT_OF(CALL(name));			\
	struct umpi_stay s = { NULL, NULL, false };			\
	struct STRUCT(name) *a;						\
	int rc = MPI_ERR_NO_MEM;					\
									\
	if (!umpi_beside(call))					\
		return REAL(name)(EACH(NAMED, __VA_ARGS__));		\
	a = malloc(sizeof *a);						\
	if (umpi_moves()) {						\
		buffers;						\
	}								\
	if (a != NULL && !s.s_failed) {					\
		EVERY(INTO_STRUCT, __VA_ARGS__)			\
		rc = ucall(BESIDE(name), a) == 0 ? a->rc :		\
			MPI_ERR_NO_MEM;					\
	}								\
	free(a);							\
	umpi_stay_end(&s);						\
	return rc;							\
}

#define LEFT(name, ...)							\
int CALL(name)(EACH(DECLARED, __VA_ARGS__))				\
{									\
	static int warned;						\
									\
	warn_once(&warned, TEXT_OF(CALL(name)));				\
	return REAL(name)(EACH(NAMED, __VA_ARGS__));			\
}

#include "calls.h"

#undef SENDS
#undef MESSAGE
#undef WAITS
#undef COLLECTIVE
#undef START
#undef STARTS
#undef PERSIST
#undef INIT
#undef ACCESS
#undef TESTS
#undef OUTSIDE
#undef LEFT
