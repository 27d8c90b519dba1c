/* SPDX-License-Identifier: MIT */
/* pycall.h: shared by the files of the module. Private. */

#ifndef PYCALL_H
#define PYCALL_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "uengine.h"
#include "compiler.h"

/* A file calls functions of the sections above its own. pymodule.c calls all. */

/* pyerror.c */

/* Engine functions that wait, as wait_sliced() calls them. */
typedef int wait_f(void *arg, utime_ns until);

/* Raises the exception of an error of the engine. Returns NULL. */
PyObject *raise_error(int rc);

/*
 * Calls f() without the GIL, in short slices, so that signals are handled. Its
 * errors are returned; -EINTR: an exception is set.
 */
int wait_sliced(wait_f *f, void *arg, utime_ns until);

/*
 * Converts seconds, or None for no deadline, to a deadline. Returns 1, or 0
 * with an exception.
 */
int to_deadline(PyObject *seconds, void *until);

/* EngineFull, EngineClosed: set by use(). */
extern HIDDEN PyObject *error_full, *error_closed;

/* pybus.c */

/* Releases adopted memory whose life has ended. */
void bus_reap(void);

/* Ends the engine, if it was shut down and no pin is held. Returns an error. */
int engine_end(void);

/* engine_shutdown() has returned 0, and engine_fini() has not. */
extern HIDDEN atomic_bool engine_is_down;

PyObject *bus_push(PyObject *self, PyObject *args);
PyObject *bus_get(PyObject *self, PyObject *args);
PyObject *bus_clear(PyObject *self, PyObject *none);

extern PyTypeObject pin_type;

/* pycall.c, and its parts: pyrecord.h */

PyObject *call_spawn(PyObject *self, PyObject *args);
PyObject *call_prepared(PyObject *self, PyObject *args);
PyObject *call_run(PyObject *self, PyObject *prepared);
PyObject *call_converters(PyObject *self, PyObject *none);

extern PyTypeObject function_type, port_type;

/* _address_of() of _function.py: the address in an object of another library. */
extern PyObject *address_of;

/* pysee.c */

PyObject *see_stats(PyObject *self, PyObject *none);
PyObject *see_thread(PyObject *self, PyObject *args);
PyObject *see_stack(PyObject *self, PyObject *args);

#endif /* PYCALL_H */
