/* SPDX-License-Identifier: MIT */
/* pyerror.c: errors, deadlines and waits of the engine, as Python has them. */

#include "pycall.h"

#include <math.h>

PyObject *error_full, *error_closed;

/* Returns the class of an error. Caller holds the GIL. */
static PyObject *class_of(int rc)
{
	switch (rc) {
	case -EAGAIN:		return error_full;
	case -ETIMEDOUT:	return PyExc_TimeoutError;
	case -ESHUTDOWN:
	case -ENODEV:
	case -ECHILD:		return error_closed;
	case -ENOMEM:
	case -ENOSPC:		return PyExc_MemoryError;
	case -ENOENT:		return PyExc_KeyError;
	case -ESRCH:
	case -EALREADY:		return PyExc_LookupError;
	case -E2BIG:
	case -EINVAL:
	case -EEXIST:
	case -ENOTSUP:		return PyExc_ValueError;
	}
	return PyExc_RuntimeError;
}

PyObject *raise_error(int rc)
{
	if (!PyErr_Occurred())
		PyErr_SetString(class_of(rc), engine_error(rc));
	return NULL;
}

int to_deadline(PyObject *seconds, void *until)
{
	double s;

	*(utime_ns *)until = UNEVER;
	if (seconds == Py_None)
		return 1;
	s = PyFloat_AsDouble(seconds);
	if (s == -1 && PyErr_Occurred())
		return 0;
	if (isnan(s)) {
		PyErr_SetString(PyExc_ValueError, "a time is not a number");
		return 0;
	}
	if (s <= 0)
		*(utime_ns *)until = UNOW;
	else if (s < 9e9)
		*(utime_ns *)until = uafter((utime_ns)(s * 1e9));
	return 1;
}

int wait_sliced(wait_f *f, void *arg, utime_ns until)
{
	utime_ns slice;
	int rc;

	for (;;) {
		slice = until == UNOW ? UNOW : uafter(50 * UTIME_MS);
		if (slice > until)
			slice = until;
		Py_BEGIN_ALLOW_THREADS
		rc = f(arg, slice);
		Py_END_ALLOW_THREADS
		if (rc != -ETIMEDOUT && rc != -EAGAIN)
			return rc;
		if (PyErr_CheckSignals() != 0)
			return -EINTR;
		if (slice == until)
			return rc;
	}
}
