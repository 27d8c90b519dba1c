/* SPDX-License-Identifier: MIT */
/* pybus.c: named memory, as Python sees it. */

/*
 * OVERVIEW. memory_bus_push() copies a buffer, or pins it for the life of the
 * named memory. That life ends in any thread, which must not touch Python's
 * counts. So the end puts the pin on a list, and bus_reap() releases it, when
 * the next function of this module runs with the GIL.
 *
 * memory_bus_get() and memory_bus_pop() return views of a Pin, which ends the
 * pin of the engine, when the last view is released. The engine cannot end
 * while there are pins: then the last Pin ends it (engine_end()).
 */

#include "pycall.h"

#include <stdlib.h>

struct adopted {
	struct adopted *a_next;
	Py_buffer       a_buffer;
};

struct pin {
	PyObject_HEAD
	void  *i_data;
	size_t i_size;
};

static _Atomic(struct adopted *) ended;

atomic_bool engine_is_down;

/* Keeps memory whose life has ended for bus_reap(). Any thread. */
static void adopted_end(void *data, void *arg)
{
	struct adopted *a = arg;
	struct adopted *head = atomic_load(&ended);

	(void)data;
	do
		a->a_next = head;
	while (!atomic_compare_exchange_weak(&ended, &head, a));
}

void bus_reap(void)
{
	struct adopted *a, *next;

	if (atomic_load_explicit(&ended, memory_order_relaxed) == NULL)
		return;
	for (a = atomic_exchange(&ended, NULL); a != NULL; a = next) {
		next = a->a_next;
		PyBuffer_Release(&a->a_buffer);
		free(a);
	}
}

static PyObject *push_copy(const char *name, PyObject *data)
{
	Py_buffer b;
	int rc;

	if (PyObject_GetBuffer(data, &b, PyBUF_CONTIG_RO) != 0)
		return NULL;
	rc = engine_bus_push(name, b.buf, b.len, NULL, NULL);
	PyBuffer_Release(&b);
	if (rc < 0)
		return raise_error(rc);
	return PyUnicode_FromString(name);
}

/* A writable buffer only: tasks may write to it. */
static PyObject *push_adopt(const char *name, PyObject *data)
{
	struct adopted *a = malloc(sizeof(*a));
	int rc;

	if (a == NULL)
		return PyErr_NoMemory();
	if (PyObject_GetBuffer(data, &a->a_buffer, PyBUF_CONTIG) != 0) {
		free(a);
		return NULL;
	}
	rc = engine_bus_push(name, a->a_buffer.buf, a->a_buffer.len,
			     adopted_end, a);
	if (rc == 0)
		return PyUnicode_FromString(name);
	PyBuffer_Release(&a->a_buffer);
	free(a);
	return raise_error(rc);
}

/* bus_push(name, data, copy) */
PyObject *bus_push(PyObject *self, PyObject *args)
{
	const char *name;
	PyObject *data;
	int copy;

	(void)self;
	bus_reap();
	if (!PyArg_ParseTuple(args, "sOp", &name, &data, &copy))
		return NULL;
	return copy ? push_copy(name, data) : push_adopt(name, data);
}

int engine_end(void)
{
	int rc = -EBUSY;

	if (atomic_exchange(&engine_is_down, false)) {
		rc = engine_fini();
		if (rc == -EBUSY)
			atomic_store(&engine_is_down, true);
		bus_reap();
	}
	return rc;
}

static void pin_dealloc(struct pin *p)
{
	if (p->i_data != NULL)
		engine_bus_unpin(p->i_data);
	bus_reap();
	Py_TYPE(p)->tp_free((PyObject *)p);
	engine_end();
}

static int pin_buffer(struct pin *p, Py_buffer *b, int flags)
{
	return PyBuffer_FillInfo(b, (PyObject *)p, p->i_data, p->i_size, 0,
				 flags);
}

static PyBufferProcs pin_procs = {
	.bf_getbuffer = (getbufferproc)pin_buffer,
};

PyTypeObject pin_type = {
	PyVarObject_HEAD_INIT(NULL, 0)
	.tp_name = "usched_engine.Pin",
	.tp_doc = "Keeps named memory alive.",
	.tp_basicsize = sizeof(struct pin),
	.tp_flags = Py_TPFLAGS_DEFAULT,
	.tp_dealloc = (destructor)pin_dealloc,
	.tp_as_buffer = &pin_procs,
};

/* Raises KeyError with the name. */
static PyObject *bus_error(int rc, const char *name)
{
	if (rc != -ENOENT)
		return raise_error(rc);
	return PyErr_Format(PyExc_KeyError, "no memory is named '%s'", name);
}

/* bus_get(name, pop): returns a view, which pins the memory. */
PyObject *bus_get(PyObject *self, PyObject *args)
{
	const char *name;
	struct pin *p;
	PyObject *view;
	int pop, rc;

	(void)self;
	bus_reap();
	if (!PyArg_ParseTuple(args, "sp", &name, &pop))
		return NULL;
	p = (struct pin *)pin_type.tp_alloc(&pin_type, 0);
	if (p == NULL)
		return NULL;
	rc = (pop ? engine_bus_pop : engine_bus_get)(name, &p->i_data,
						     &p->i_size);
	if (rc < 0) {
		p->i_data = NULL;
		Py_DECREF(p);
		return bus_error(rc, name);
	}
	view = PyMemoryView_FromObject((PyObject *)p);
	Py_DECREF(p);
	return view;
}

PyObject *bus_clear(PyObject *self, PyObject *none)
{
	long nr = engine_bus_clear();

	(void)self;
	(void)none;
	bus_reap();
	return nr < 0 ? raise_error((int)nr) : PyLong_FromLong(nr);
}
