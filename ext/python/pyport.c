/* SPDX-License-Identifier: MIT */
/* pyport.c: ports: how Python learns of the ends of calls: step 4. */

/*
 * A port belongs to an event loop, or to the thread that collects for all
 * native threads. So many ends cost a single wake of its descriptor.
 *
 * INVARIANT
 *
 * I3. If the list is not empty, the descriptor can be read, or its pusher is
 *     about to write (o_told). A pusher sets o_told after its push, and writes
 *     if o_told was false. take() reads, clears o_told, and then empties the
 *     list. take_quietly() only empties the list: the descriptor stays readable
 *     for nothing, and pushers write no more. So a series of calls that end
 *     before their loop looks for them costs no system call. take_soon() sets
 *     o_told while it waits, and clears it before it empties the list.
 */

#include "pyrecord.h"
#include "lock.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/eventfd.h>
#endif

#define SOON	(20 * UTIME_US)

void port_push(struct port *o, struct call *c)
{
	uint64_t one = 1;
	int fd = o->o_write, saved = errno;
	struct call *head = atomic_load(&o->o_ended);

	do
		c->c_next = head;
	while (!atomic_compare_exchange_weak(&o->o_ended, &head, c));
	if (!atomic_load(&o->o_told) && !atomic_exchange(&o->o_told, true) &&
	    write(fd, &one, sizeof(one)) < 0)
		errno = saved;	/* it is readable already */
}

/* Reads what wakes have written: I3. */
static void port_quiet(struct port *o)
{
	uint64_t seen[32];

	while (read(o->o_fd, seen, sizeof(seen)) == sizeof(seen))
		;
	atomic_store(&o->o_told, false);
}

static int port_open(struct port *o)
{
#ifdef __linux__
	o->o_fd = o->o_write = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
#else
	int fd[2];

	if (pipe(fd) == 0) {
		o->o_fd = fd[0];
		o->o_write = fd[1];
		for (int i = 0; i < 2; i++) {
			fcntl(fd[i], F_SETFL, O_NONBLOCK);
			fcntl(fd[i], F_SETFD, FD_CLOEXEC);
		}
	}
#endif
	return o->o_fd < 0 ? -errno : 0;
}

static PyObject *port_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	struct port *o;

	(void)kw;
	if (!PyArg_ParseTuple(args, ""))
		return NULL;
	o = (struct port *)type->tp_alloc(type, 0);
	if (o == NULL)
		return NULL;
	atomic_init(&o->o_ended, NULL);
	atomic_init(&o->o_told, false);
	atomic_init(&o->o_calls, 0);
	o->o_fd = o->o_write = -1;
	if (port_open(o) == 0)
		return (PyObject *)o;
	PyErr_SetFromErrno(PyExc_OSError);
	Py_DECREF(o);
	return NULL;
}

/* Records hold their port, so the list is empty. */
static void port_dealloc(struct port *o)
{
	if (o->o_write != o->o_fd)
		close(o->o_write);
	if (o->o_fd >= 0)
		close(o->o_fd);
	Py_TYPE(o)->tp_free((PyObject *)o);
}

static PyObject *port_fileno(struct port *o, PyObject *none)
{
	(void)none;
	return PyLong_FromLong(o->o_fd);
}

/*
 * ENDS. Caller holds the GIL.
 */

/* Lets the library make the result of item n. */
static PyObject *value_made(struct call *c, long n)
{
	const struct item *i = item_at(c, n);
	PyObject *arguments = c->c_arguments;

	if (c->c_many)
		arguments = PyList_GET_ITEM(arguments, n);
	return PyObject_CallFunction(c->c_function->f_make, "KiO",
				     (unsigned long long)i->i_value.u,
				     (int)i->i_errno, arguments);
}

static PyObject *value_of(struct call *c, long n)
{
	const struct item *i = item_at(c, n);

	switch (c->c_returns) {
	case 'v':
		break;
	case 'd':
	case 'f':
		return PyFloat_FromDouble(i->i_value.d);
	case '?':
		return PyBool_FromLong(i->i_value.u != 0);
	case 'O':
	case 'R':
		return value_made(c, n);
	default:
		return strchr(SIGNED, c->c_returns) != NULL ?
			PyLong_FromLongLong(i->i_value.l) :
			PyLong_FromUnsignedLongLong(i->i_value.u);
	}
	Py_RETURN_NONE;
}

static PyObject *values_of(struct call *c)
{
	PyObject *list = PyList_New(c->c_nr), *value;

	for (long n = 0; list != NULL && n < c->c_nr; n++) {
		value = value_of(c, n);
		if (value == NULL)
			Py_CLEAR(list);
		else
			PyList_SET_ITEM(list, n, value);
	}
	return list;
}

/* Returns the first item that failed, or was cancelled; or -1. */
static long call_failed(struct call *c)
{
	for (long n = 0; n < c->c_nr; n++)
		if (item_at(c, n)->i_error < 0)
			return n;
	return -1;
}

/* Returns the exception that is set, and clears it. */
static PyObject *exception_taken(void)
{
	PyObject *type, *value, *trace;

	PyErr_Fetch(&type, &value, &trace);
	PyErr_NormalizeException(&type, &value, &trace);
	if (trace != NULL)
		PyException_SetTraceback(value, trace);
	Py_XDECREF(type);
	Py_XDECREF(trace);
	return value;
}

PyObject *call_outcome(struct call *c)
{
	long failed = call_failed(c);
	PyObject *value = c->c_result;
	const struct item *i;

	if (failed >= 0) {
		i = item_at(c, failed);
		return Py_BuildValue("OOil", c->c_future, Py_None,
				     i->i_began ? i->i_error : 1, failed);
	}
	if (value != NULL)
		Py_INCREF(value);
	else
		value = c->c_many ? values_of(c) : value_of(c, 0);
	if (value == NULL && c->c_arguments != NULL) {
		value = exception_taken();
		return Py_BuildValue("ONii", c->c_future, value, 2, 0);
	}
	if (value == NULL)
		return NULL;
	return Py_BuildValue("ONii", c->c_future, value, 0, 0);
}

/* Returns the list of a port, the oldest end first. */
static struct call *port_take(struct port *o)
{
	struct call *c, *next, *oldest = NULL;

	for (c = atomic_exchange(&o->o_ended, NULL); c != NULL; c = next) {
		next = c->c_next;
		c->c_next = oldest;
		oldest = c;
	}
	return oldest;
}

/* Adds the outcome of a record to a list. Without memory, the record waits. */
static int outcome_add(PyObject *list, struct call *c)
{
	PyObject *outcome;
	int rc;

	if (c->c_abandoned)
		return 0;
	outcome = call_outcome(c);
	if (outcome == NULL)
		return -1;
	rc = PyList_Append(list, outcome);
	Py_DECREF(outcome);
	return rc;
}

static PyObject *port_outcomes(struct port *o)
{
	PyObject *list = PyList_New(0);
	struct call *c, *next;

	bus_reap();
	if (list == NULL)
		return NULL;
	for (c = port_take(o); c != NULL; c = next) {
		next = c->c_next;
		if (outcome_add(list, c) == 0) {
			call_free(c);
			continue;
		}
		for (; c != NULL; c = next) {
			next = c->c_next;
			port_push(o, c);
		}
		PyErr_Clear();
	}
	return list;
}

static PyObject *port_take_all(struct port *o, PyObject *none)
{
	(void)none;
	port_quiet(o);
	return port_outcomes(o);
}

static PyObject *port_take_quietly(struct port *o, PyObject *none)
{
	(void)none;
	return port_outcomes(o);
}

/* Waits a little for an end, without the GIL. */
static void port_spin(struct port *o)
{
	utime_ns until = uafter(SOON);

	Py_BEGIN_ALLOW_THREADS
	while (atomic_load(&o->o_ended) == NULL && unow() < until)
		ulock_relax();
	Py_END_ALLOW_THREADS
}

/* Pushers write nothing meanwhile: the caller takes what they push. */
static PyObject *port_take_soon(struct port *o, PyObject *none)
{
	bool told;

	(void)none;
	if (atomic_load(&o->o_ended) == NULL) {
		told = atomic_exchange(&o->o_told, true);
		port_spin(o);
		if (!told)
			atomic_store(&o->o_told, false);
	}
	return port_outcomes(o);
}

static PyObject *port_ready(struct port *o, PyObject *none)
{
	(void)none;
	return PyBool_FromLong(atomic_load(&o->o_ended) != NULL);
}

static PyObject *port_calls(struct port *o, PyObject *none)
{
	(void)none;
	return PyLong_FromLong(atomic_load(&o->o_calls));
}

static PyMethodDef port_methods[] = {
	{ "fileno", (PyCFunction)port_fileno, METH_NOARGS,
	  "Descriptor that can be read when calls have ended." },
	{ "take", (PyCFunction)port_take_all, METH_NOARGS,
	  "Returns [(future, value, error, index), ...] of calls that have "
	  "ended." },
	{ "take_quietly", (PyCFunction)port_take_quietly, METH_NOARGS,
	  "Does so, and leaves the descriptor as it is." },
	{ "take_soon", (PyCFunction)port_take_soon, METH_NOARGS,
	  "Does so, and waits 20 microseconds for an end, if there is none." },
	{ "ready", (PyCFunction)port_ready, METH_NOARGS,
	  "Returns whether calls have ended, and were not taken." },
	{ "calls", (PyCFunction)port_calls, METH_NOARGS,
	  "Returns how many calls and batches were not taken." },
	{ NULL, NULL, 0, NULL },
};

PyTypeObject port_type = {
	PyVarObject_HEAD_INIT(NULL, 0)
	.tp_name = "usched_engine.Port",
	.tp_doc = "Where calls are put as they end, with a descriptor.",
	.tp_basicsize = sizeof(struct port),
	.tp_flags = Py_TPFLAGS_DEFAULT,
	.tp_new = port_new,
	.tp_dealloc = (destructor)port_dealloc,
	.tp_methods = port_methods,
};
