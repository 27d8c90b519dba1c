/* SPDX-License-Identifier: MIT */
/* pysee.c: statistics, workers and call stacks, as Python objects. */

#include "pycall.h"

/* Puts a value, which is then no longer the caller's, into a dictionary. */
static int put(PyObject *dict, const char *name, PyObject *value)
{
	int rc = value != NULL ? PyDict_SetItemString(dict, name, value) : -1;

	Py_XDECREF(value);
	return rc;
}

#define LONG(name)	{ #name, PyLong_FromLongLong((long long)s.name) }

PyObject *see_stats(PyObject *self, PyObject *none)
{
	PyObject *dict = PyDict_New();
	struct engine_stats s;
	int rc = engine_get_stats(&s), bad = 0;

	(void)self;
	(void)none;
	bus_reap();
	if (dict == NULL || rc < 0) {
		Py_XDECREF(dict);
		return rc < 0 ? raise_error(rc) : NULL;
	}
	struct { const char *name; PyObject *value; } pairs[] = {
		LONG(total_tasks_submitted), LONG(tasks_completed),
		LONG(tasks_failed), LONG(tasks_canceled), LONG(tasks_in_queue),
		LONG(tasks_running), LONG(gil_threads_active),
		LONG(gil_threads_idle), LONG(c_threads_active),
		LONG(c_threads_idle), LONG(tasks_memory),
		LONG(shared_memory_used), LONG(shared_memory_available),
		LONG(shared_memory_names), LONG(shared_memory_pins),
		{ "avg_task_latency_ms",
		  PyFloat_FromDouble(s.avg_task_latency_ms) },
		LONG(bus_contention_count), LONG(tasks_helped),
	};
	for (size_t n = 0; n < sizeof(pairs) / sizeof(*pairs); n++)
		bad |= put(dict, pairs[n].name, pairs[n].value);
	if (bad)
		Py_CLEAR(dict);
	return dict;
}

/*
 * thread(n): returns (thread_id, is_host, state, current, task, completed,
 * cpu_ms, idle_ms, last_active_ms).
 */
PyObject *see_thread(PyObject *self, PyObject *args)
{
	struct engine_thread h;
	int thread, rc;

	(void)self;
	if (!PyArg_ParseTuple(args, "i", &thread))
		return NULL;
	rc = engine_thread_info(thread, &h);
	if (rc < 0)
		return raise_error(rc);
	return Py_BuildValue("iNiKNllll", h.h_thread_id,
			     PyBool_FromLong(h.h_host), (int)h.h_state,
			     (unsigned long long)h.h_current,
			     PyUnicode_DecodeUTF8(h.h_task, strlen(h.h_task),
						  "replace"), h.h_completed,
			     h.h_cpu_ms, h.h_idle_ms, h.h_last_active_ms);
}

static PyObject *frames_of(const struct engine_stack *k)
{
	PyObject *list = PyList_New(0), *frame;

	for (int n = 0; list != NULL && n < k->k_frames; n++) {
		const struct engine_frame *f = &k->k_frame[n];

		frame = Py_BuildValue("ssiK", f->f_function, f->f_file,
				      f->f_line,
				      (unsigned long long)(uintptr_t)f->f_pc);
		if (frame == NULL || PyList_Append(list, frame) != 0)
			Py_CLEAR(list);
		Py_XDECREF(frame);
	}
	return list;
}

/*
 * stack(id, lines, seconds): returns (id, name, stage, priority, thread,
 * waits_for, seconds in this stage, pinned bytes, pins, frames).
 */
PyObject *see_stack(PyObject *self, PyObject *args)
{
	struct engine_stack *k;
	unsigned long long id;
	PyObject *all = NULL;
	utime_ns until;
	int lines, rc;

	(void)self;
	if (!PyArg_ParseTuple(args, "KpO&", &id, &lines, to_deadline, &until))
		return NULL;
	k = PyMem_Malloc(sizeof(*k));
	if (k == NULL)
		return PyErr_NoMemory();
	Py_BEGIN_ALLOW_THREADS
	rc = engine_get_call_stack(id, k, lines, until);
	Py_END_ALLOW_THREADS
	if (rc < 0)
		raise_error(rc);
	else
		all = Py_BuildValue("KNiiizdniN", (unsigned long long)k->k_id,
				    PyUnicode_DecodeUTF8(k->k_name,
					strlen(k->k_name), "replace"),
				    (int)k->k_stage, k->k_priority,
				    k->k_thread, k->k_waits_for,
				    (k->k_time - k->k_since) / 1e9,
				    (Py_ssize_t)k->k_pinned, k->k_pins,
				    frames_of(k));
	PyMem_Free(k);
	return all;
}
