/* SPDX-License-Identifier: MIT */
/* pymodule.c: the module _usched, the part in C of the package usched_engine. */

/*
 * There is an engine in a process at a time, so the module has a single state,
 * and is for the main interpreter. Python code (usched_engine/__init__.py) calls
 * it, and checks what it passes; this module checks what could crash it.
 */

#include "pycall.h"

static PyObject *result(int rc)
{
	return rc < 0 ? raise_error(rc) : PyLong_FromLong(rc);
}

/* setup(workers, gil_threads, tasks_per_thread, tasks, shared_amount,
 * shared_memory, fifo, more, stack): 0 is the engine's own value. */
static PyObject *setup(PyObject *self, PyObject *args)
{
	struct engine_config c = { 0 };
	Py_ssize_t amount, memory, stack;
	int fifo, more, rc;

	(void)self;
	if (!PyArg_ParseTuple(args, "iiilnnppn", &c.c_workers,
			      &c.c_host_workers, &c.c_tasks_per_thread,
			      &c.c_tasks, &amount, &memory, &fifo, &more,
			      &stack))
		return NULL;
	c.c_shared_amount = amount;
	c.c_shared_memory = memory;
	c.c_stack  = stack;
	c.c_policy = fifo ? ENGINE_FIFO : ENGINE_LIFO;
	c.c_flags  = more ? ENGINE_MORE_WORKERS : 0;
	Py_BEGIN_ALLOW_THREADS
	rc = engine_init(&c);
	Py_END_ALLOW_THREADS
	if (rc == 0)
		atomic_store(&engine_is_down, false);
	return result(rc);
}

static int shutdown_until(void *unused, utime_ns until)
{
	(void)unused;
	return engine_shutdown(until);
}

static PyObject *shutdown(PyObject *self, PyObject *args)
{
	utime_ns until;
	int rc;

	(void)self;
	if (!PyArg_ParseTuple(args, "O&", to_deadline, &until))
		return NULL;
	rc = wait_sliced(shutdown_until, NULL, until);
	if (rc == -EAGAIN)
		rc = -ETIMEDOUT;
	if (rc == 0)
		atomic_store(&engine_is_down, true);
	return result(rc);
}

/* fini(): returns whether the engine has ended; else the last Pin ends it. */
static PyObject *fini(PyObject *self, PyObject *none)
{
	(void)self;
	(void)none;
	return PyBool_FromLong(engine_end() == 0);
}

static int all_until(void *unused, utime_ns until)
{
	(void)unused;
	return engine_wait_all(until);
}

static PyObject *wait_all(PyObject *self, PyObject *args)
{
	utime_ns until;
	int rc;

	(void)self;
	if (!PyArg_ParseTuple(args, "O&", to_deadline, &until))
		return NULL;
	rc = wait_sliced(all_until, NULL, until);
	return result(rc == -EAGAIN ? -ETIMEDOUT : rc);
}

static PyObject *pause_what(PyObject *self, PyObject *args)
{
	int what, resume;

	(void)self;
	if (!PyArg_ParseTuple(args, "ip", &what, &resume))
		return NULL;
	return result((resume ? engine_resume : engine_pause)(what));
}

static PyObject *room(PyObject *self, PyObject *args)
{
	Py_ssize_t bytes;
	int rc;

	(void)self;
	if (!PyArg_ParseTuple(args, "n", &bytes))
		return NULL;
	rc = engine_room(bytes);
	return rc < 0 ? raise_error(rc) : PyBool_FromLong(rc);
}

static PyObject *cancel(PyObject *self, PyObject *args)
{
	unsigned long long id;

	(void)self;
	if (!PyArg_ParseTuple(args, "K", &id))
		return NULL;
	return PyLong_FromLong(engine_cancel(id));
}

static PyObject *set_priority(PyObject *self, PyObject *args)
{
	unsigned long long id;
	int priority;

	(void)self;
	if (!PyArg_ParseTuple(args, "Ki", &id, &priority))
		return NULL;
	return result(engine_set_priority(id, priority));
}

static PyObject *host_attach(PyObject *self, PyObject *none)
{
	(void)self;
	(void)none;
	return result(engine_host_attach());
}

static PyObject *host_report(PyObject *self, PyObject *args)
{
	const char *task;
	int host;

	(void)self;
	if (!PyArg_ParseTuple(args, "iz", &host, &task))
		return NULL;
	return result(engine_host_report(host, task));
}

static PyObject *host_detach(PyObject *self, PyObject *args)
{
	int host;

	(void)self;
	if (!PyArg_ParseTuple(args, "i", &host))
		return NULL;
	return result(engine_host_detach(host));
}

struct helper { int host, nr; };

static int help_until(void *arg, utime_ns until)
{
	struct helper *h = arg;
	int rc = engine_help(h->host, h->nr, until);

	return rc == 0 ? -ETIMEDOUT : rc;	/* none came in this slice */
}

static PyObject *help(PyObject *self, PyObject *args)
{
	struct helper h;
	utime_ns until;
	int rc;

	(void)self;
	if (!PyArg_ParseTuple(args, "iiO&", &h.host, &h.nr, to_deadline,
			      &until))
		return NULL;
	rc = wait_sliced(help_until, &h, until);
	return result(rc == -EAGAIN || rc == -ETIMEDOUT ? 0 : rc);
}

/* capsule(object): returns (address, name or None) of a PyCapsule. */
static PyObject *capsule(PyObject *self, PyObject *object)
{
	const char *name;
	void *p;

	(void)self;
	if (!PyCapsule_CheckExact(object))
		return PyErr_Format(PyExc_TypeError, "no capsule");
	name = PyCapsule_GetName(object);
	p = PyCapsule_GetPointer(object, name);
	if (p == NULL)
		return NULL;
	return Py_BuildValue("Nz", PyLong_FromVoidPtr(p), name);
}

/* use(full, closed, address_of): Python's exceptions and helper. */
static PyObject *use(PyObject *self, PyObject *args)
{
	(void)self;
	if (!PyArg_ParseTuple(args, "OOO", &error_full, &error_closed,
			      &address_of))
		return NULL;
	Py_INCREF(error_full);
	Py_INCREF(error_closed);
	Py_INCREF(address_of);
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
	{ "use", use, METH_VARARGS, NULL },
	{ "setup", setup, METH_VARARGS, NULL },
	{ "shutdown", shutdown, METH_VARARGS, NULL },
	{ "fini", fini, METH_NOARGS, NULL },
	{ "wait_all", wait_all, METH_VARARGS, NULL },
	{ "pause", pause_what, METH_VARARGS, NULL },
	{ "spawn", call_spawn, METH_VARARGS, NULL },
	{ "prepare", call_prepared, METH_VARARGS, NULL },
	{ "run", call_run, METH_O, NULL },
	{ "converters", call_converters, METH_NOARGS, NULL },
	{ "room", room, METH_VARARGS, NULL },
	{ "cancel", cancel, METH_VARARGS, NULL },
	{ "set_priority", set_priority, METH_VARARGS, NULL },
	{ "host_attach", host_attach, METH_NOARGS, NULL },
	{ "host_report", host_report, METH_VARARGS, NULL },
	{ "host_detach", host_detach, METH_VARARGS, NULL },
	{ "help", help, METH_VARARGS, NULL },
	{ "capsule", capsule, METH_O, NULL },
	{ "bus_push", bus_push, METH_VARARGS, NULL },
	{ "bus_get", bus_get, METH_VARARGS, NULL },
	{ "bus_clear", bus_clear, METH_NOARGS, NULL },
	{ "stats", see_stats, METH_NOARGS, NULL },
	{ "thread", see_thread, METH_VARARGS, NULL },
	{ "stack", see_stack, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

/* Returns whether the module is imported where its only state belongs. */
static bool is_main(void)
{
	if (PyThreadState_Get()->interp == PyInterpreterState_Main())
		return true;
	PyErr_SetString(PyExc_ImportError, "usched_engine is for the main "
			"interpreter only");
	return false;
}

static int module_exec(PyObject *module)
{
	PyTypeObject *types[] = { &function_type, &port_type, &pin_type };
	const char *names[] = { "CFunction", "Port", "Pin" };

	if (!is_main())
		return -1;
	for (int n = 0; n < 3; n++) {
		if (PyType_Ready(types[n]) != 0)
			return -1;
		Py_INCREF(types[n]);
		if (PyModule_AddObject(module, names[n],
				       (PyObject *)types[n]) != 0)
			return -1;
	}
	if (PyModule_AddIntConstant(module, "LEVELS", ENGINE_LEVELS) != 0 ||
	    PyModule_AddIntConstant(module, "INTAKE", ENGINE_INTAKE) != 0 ||
	    PyModule_AddIntConstant(module, "START", ENGINE_START) != 0 ||
	    PyModule_AddIntConstant(module, "TASKS", ENGINE_TASKS) != 0 ||
	    PyModule_AddIntConstant(module, "WORKERS", ENGINE_WORKERS) != 0)
		return -1;
	return PyModule_AddStringConstant(module, "__version__",
					  USCHED_VERSION);
}

static PyModuleDef_Slot slots[] = {
	{ Py_mod_exec, (void *)module_exec },
#ifdef Py_mod_multiple_interpreters
	{ Py_mod_multiple_interpreters,
	  Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED },
#endif
#ifdef Py_mod_gil
	{ Py_mod_gil, Py_MOD_GIL_NOT_USED },
#endif
	{ 0, NULL },
};

static struct PyModuleDef module = {
	PyModuleDef_HEAD_INIT,
	.m_name = "_usched",
	.m_doc = "The part in C of usched_engine.",
	.m_methods = methods,
	.m_slots = slots,
};

PyMODINIT_FUNC PyInit__usched(void)
{
	return PyModuleDef_Init(&module);
}
