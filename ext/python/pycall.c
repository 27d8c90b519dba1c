/* SPDX-License-Identifier: MIT */
/* pycall.c: calls of C functions as tasks, and how Python learns of their end. */

/*
 * OVERVIEW. spawn() makes a record (struct call) of a call, or of a batch of
 * calls of the same function. A record has an item for each call: its arguments
 * as machine words, and its result. Each item becomes a task.
 *
 *	1. With the GIL: arguments become words, buffers are pinned.
 *	2. The engine runs item_run() for each item, without the GIL. It touches
 *	   memory of the record, which is on the heap, and no Python object.
 *	3. item_end() counts the items. The last puts the record on the list of
 *	   its port, and wakes the port's reader, if the list was empty.
 *	4. With the GIL: take() empties the list, makes Python's values, unpins
 *	   the buffers, and frees the records.
 *
 * Step 1 is in pyrecord.c, 2 and 3 are here, and 4 is in pyport.c. A record of
 * prepare() has neither a port nor an engine: run() calls item_run() in its own
 * thread, without the GIL.
 *
 * INVARIANT
 *
 * I1. Only a thread with the GIL touches a Python object, or its count.
 *
 * REJECTED
 *	libffi: a dependency.
 *	The engine's batches: a wake and an end for each call, where a batch
 *	needs a single one.
 */

#include "pyrecord.h"

#include <string.h>

#define CHUNK	64

/*
 * TASKS
 */

#define TYPES	long long, long long, long long, long long, long long, \
		long long, double, double, double, double, double, double, \
		double, double
#define VALUES	l[0], l[1], l[2], l[3], l[4], l[5], \
		d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]

#define RESULT(type)	((type (*)(TYPES))f)(VALUES)

/* The function may have waited, and gone on in another native thread. */
static NOINLINE short errno_now(void)
{
	__asm__ volatile("");
	return (short)errno;
}

/* Calls a function, and keeps its result. Without the GIL. */
static void item_call(struct item *i, const struct call *c)
{
	void (*f)(void) = c->c_f;
	long long l[INTS] = { 0 };
	double d[FLOATS] = { 0 };

	memcpy(l, i->i_word, c->c_ints * sizeof(*l));
	memcpy(d, i->i_word + c->c_ints, c->c_floats * sizeof(*d));
	switch (c->c_returns) {
	case 'i': i->i_value.l = RESULT(int); break;
	case 'l': i->i_value.l = RESULT(long long); break;
	case 'b': i->i_value.l = RESULT(int8_t); break;
	case 'h': i->i_value.l = RESULT(int16_t); break;
	case 'B': i->i_value.u = RESULT(uint8_t); break;
	case 'H': i->i_value.u = RESULT(uint16_t); break;
	case 'I': i->i_value.u = RESULT(uint32_t); break;
	case 'O':
	case 'L': i->i_value.u = RESULT(uint64_t); break;
	case '?': i->i_value.u = RESULT(bool); break;
	case 'R':
	case 'd': i->i_value.d = RESULT(double); break;
	case 'f': i->i_value.d = RESULT(float); break;
	default:  RESULT(void);
	}
	if (strchr("OR", c->c_returns) != NULL)
		i->i_errno = errno_now();
}

/* A task: step 2. Returns 0, or an error. */
static int item_run(void *arg)
{
	struct item *i = arg;
	struct call *c = i->i_call;

	i->i_began = true;
	item_call(i, c);
	if (!c->c_check || i->i_value.l >= 0)
		return 0;
	return i->i_value.l < -4095 ? -4095 : (int)i->i_value.l;
}

/* Counts nr ends: step 3. Without the GIL. */
static void call_ended(struct call *c, long nr)
{
	if (atomic_fetch_sub(&c->c_left, nr) == nr)
		port_push(c->c_port, c);
}

/* Called as a task ends. */
static void item_end(engine_id id, void *arg, int result)
{
	struct item *i = arg;

	(void)id;
	i->i_error = result < 0 ? result : 0;
	call_ended(i->i_call, 1);
}

/* Tasks that are submitted together. */
struct chunk {
	struct engine_job h_job[CHUNK];
	engine_id        *h_id;
	int               h_nr;
};

static int chunk_spawn(void *arg, utime_ns until)
{
	struct chunk *h = arg;

	return engine_spawn_many(h->h_job, h->h_nr, h->h_id, until);
}

/* Prepares the next tasks, from item n on. */
static void chunk_fill(struct chunk *h, struct call *c, long n)
{
	long left = c->c_nr - n;

	h->h_nr = left < CHUNK ? (int)left : CHUNK;
	for (int k = 0; k < h->h_nr; k++)
		h->h_job[k].j_arg = item_at(c, n + k);
}

/*
 * Submits items, and sets *done to how many. First tries with the GIL, since
 * there mostly is room.
 */
static int call_submit(struct call *c, const struct engine_job *job,
		       engine_id *ids, utime_ns until, long *done)
{
	struct chunk h;
	int rc = 0;

	for (int k = 0; k < CHUNK && k < c->c_nr; k++)
		h.h_job[k] = *job;
	for (*done = 0; *done < c->c_nr; *done += rc) {
		chunk_fill(&h, c, *done);
		h.h_id = ids + *done;
		rc = chunk_spawn(&h, UNOW);
		if (rc == -EAGAIN && until != UNOW)
			rc = wait_sliced(chunk_spawn, &h, until);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Submits a record. Returns an error; then the record is not the caller's. */
static int call_start(struct call *c, const struct engine_job *job,
		      engine_id *ids, utime_ns until)
{
	long done;
	int rc;

	atomic_init(&c->c_left, c->c_nr + 1);
	rc = call_submit(c, job, ids, until, &done);
	if (rc < 0 && done == 0) {
		call_free(c);
		return rc;
	}
	c->c_abandoned = rc < 0;
	for (long n = 0; rc < 0 && n < done; n++)
		engine_cancel(ids[n]);
	call_ended(c, c->c_nr - done + 1);
	return rc;
}

/* What Python tells about a call. */
struct order {
	struct port     *p_port;
	PyObject        *p_future;
	struct function *p_function;
	PyObject        *p_arguments;	/* a tuple, or a list of tuples */
	int              p_many, p_check;
	PyObject        *p_result;	/* a buffer, or None */
	utime_ns         p_until;
	struct engine_job p_job;
};

static struct call *order_prepare(struct order *p)
{
	PyObject **tuples = &p->p_arguments;
	struct call *c;
	long nr = 1;

	if (p->p_many) {
		tuples = PySequence_Fast_ITEMS(p->p_arguments);
		nr = PyList_GET_SIZE(p->p_arguments);
	}
	c = call_prepare(p->p_function, tuples, nr);
	if (c == NULL)
		return NULL;
	c->c_many   = p->p_many;
	c->c_check  = p->p_check && strchr(SIGNED, c->c_returns) != NULL;
	if (strchr("OR", c->c_returns) != NULL) {
		Py_INCREF(p->p_arguments);
		c->c_arguments = p->p_arguments;
	}
	if (p->p_result != Py_None) {
		Py_INCREF(p->p_result);
		c->c_result = p->p_result;
	}
	p->p_job.j_bytes = c->c_stride + (nr > 0 ? c->c_pinned / nr : 0);
	return c;
}

/* Says where the call ends. */
static void order_port(struct call *c, const struct order *p)
{
	Py_INCREF(p->p_port);
	Py_INCREF(p->p_future);
	c->c_port   = p->p_port;
	c->c_future = p->p_future;
	atomic_fetch_add(&p->p_port->o_calls, 1);
}

/* Submits, and returns the number, or bytes of all numbers. */
static PyObject *order_start(struct order *p)
{
	struct call *c = order_prepare(p);
	PyObject *ids = NULL;
	engine_id id = 0;
	int rc;

	if (c == NULL)
		return NULL;
	order_port(c, p);
	if (c->c_many) {
		ids = PyBytes_FromStringAndSize(NULL, c->c_nr * sizeof(id));
		if (ids == NULL) {
			call_free(c);
			return NULL;
		}
	}
	rc = call_start(c, &p->p_job, ids != NULL ?
			(engine_id *)PyBytes_AS_STRING(ids) : &id, p->p_until);
	if (rc == 0)
		return ids != NULL ? ids : PyLong_FromUnsignedLongLong(id);
	Py_XDECREF(ids);
	return raise_error(rc);
}

/*
 * spawn(port, future, function, arguments, many, check, result, seconds,
 * priority, name): arguments is a tuple; if many is true, a list of tuples.
 */
PyObject *call_spawn(PyObject *self, PyObject *args)
{
	struct order p = { .p_job = { .j_f = item_run, .j_end = item_end,
				      .j_flags = ENGINE_DETACHED } };

	(void)self;
	if (!PyArg_ParseTuple(args, "O!OO!OppOO&is", &port_type, &p.p_port,
			      &p.p_future, &function_type, &p.p_function,
			      &p.p_arguments, &p.p_many, &p.p_check,
			      &p.p_result, to_deadline, &p.p_until,
			      &p.p_job.j_priority, &p.p_job.j_name))
		return NULL;
	if (p.p_many && !PyList_CheckExact(p.p_arguments))
		return PyErr_Format(PyExc_TypeError, "no list of tuples");
	return order_start(&p);
}

/*
 * CALLS WITHOUT AN ENGINE, in the thread of Python that calls: prepare() is step
 * 1, run() is all others.
 */

#define PREPARED	"usched_engine.prepared"

static void prepared_free(PyObject *capsule)
{
	call_free(PyCapsule_GetPointer(capsule, PREPARED));
}

/* prepare(function, arguments, check, result): returns what run() takes. */
PyObject *call_prepared(PyObject *self, PyObject *args)
{
	struct order p = { .p_many = 0 };
	struct call *c;
	PyObject *capsule;

	(void)self;
	if (!PyArg_ParseTuple(args, "O!O!pO", &function_type, &p.p_function,
			      &PyTuple_Type, &p.p_arguments, &p.p_check,
			      &p.p_result))
		return NULL;
	c = order_prepare(&p);
	if (c == NULL)
		return NULL;
	Py_INCREF(Py_None);
	c->c_future = Py_None;
	capsule = PyCapsule_New(c, PREPARED, prepared_free);
	if (capsule == NULL)
		call_free(c);
	return capsule;
}

/* run(prepared): returns the outcome, as take() does. */
PyObject *call_run(PyObject *self, PyObject *capsule)
{
	struct call *c = PyCapsule_GetPointer(capsule, PREPARED);
	struct item *i;
	int rc;

	(void)self;
	if (c == NULL)
		return NULL;
	i = item_at(c, 0);
	Py_BEGIN_ALLOW_THREADS
	rc = item_run(i);
	Py_END_ALLOW_THREADS
	i->i_error = rc;
	return call_outcome(c);
}
