/* SPDX-License-Identifier: MIT */
/* pyfunction.c: CFunction: the name and address of a C function, and its kinds. */

#include "pyrecord.h"

#include <string.h>
#include <structmember.h>

/*
 * Kinds of results: int, 64 bits, double, float, none; other integers, the last
 * two unsigned int and 64 bits; bool; a result of f_make(), of an integer's
 * register, or of a double's.
 */
#define RESULTS		"ildfv" "bBhHIL" "?" "OR"

static int function_traverse(struct function *f, visitproc visit, void *arg)
{
	Py_VISIT(f->f_owner);
	Py_VISIT(f->f_convert);
	Py_VISIT(f->f_make);
	return 0;
}

/* Breaks cycles: owners refer to their functions. */
static int function_clear(struct function *f)
{
	Py_CLEAR(f->f_owner);
	Py_CLEAR(f->f_convert);
	Py_CLEAR(f->f_make);
	return 0;
}

static void function_dealloc(struct function *f)
{
	PyObject_GC_UnTrack(f);
	(void)function_clear(f);
	Py_XDECREF(f->f_name);
	Py_XDECREF(f->f_arguments);
	Py_TYPE(f)->tp_free((PyObject *)f);
}

int function_kinds_right(const char *kinds, const char *allowed)
{
	int ints = 0, floats = 0, others = 0;

	for (; *kinds != '\0'; kinds++) {
		if (strchr(allowed, *kinds) == NULL) {
			PyErr_Format(PyExc_ValueError, "unknown kind '%c'",
				     *kinds);
			return 0;
		}
		if (*kinds == 'd' || *kinds == 'f')
			floats++;
		else if (*kinds == 'O')
			others++;
		else
			ints++;
	}
	if (ints + others <= INTS && floats + others <= FLOATS)
		return 1;
	PyErr_Format(PyExc_ValueError, "a function may take %d integers and "
		     "pointers, and %d floats, not %d and %d", INTS, FLOATS,
		     ints, floats);
	return 0;
}

static PyObject *function_new(PyTypeObject *type, PyObject *args,
			      PyObject *kw)
{
	static char *names[] = { "name", "address", "result", "arguments",
				 "owner", "convert", "make", NULL };
	PyObject *name, *address, *arguments = Py_None, *owner = Py_None;
	PyObject *convert = NULL, *make = NULL;
	const char *result = "i", *kinds = "";
	struct function *f;
	void *p;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "UO!|sOOOO", names, &name,
					 &PyLong_Type, &address, &result,
					 &arguments, &owner, &convert, &make))
		return NULL;
	p = PyLong_AsVoidPtr(address);
	if (p == NULL)
		return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError,
			"function %R has the address 0", name);
	if (arguments != Py_None)
		kinds = PyUnicode_AsUTF8(arguments);
	if (kinds == NULL || !function_kinds_right(kinds, ARGUMENTS))
		return NULL;
	if (strlen(result) != 1 || strchr(RESULTS, *result) == NULL ||
	    (strchr("OR", *result) != NULL && make == NULL) ||
	    (strchr(kinds, 'O') != NULL && convert == NULL))
		return PyErr_Format(PyExc_ValueError, "unknown result '%s'",
				    result);
	f = (struct function *)type->tp_alloc(type, 0);
	if (f == NULL)
		return NULL;
	Py_INCREF(name);
	Py_INCREF(arguments);
	Py_INCREF(owner);
	Py_XINCREF(convert);
	Py_XINCREF(make);
	f->f_convert   = convert;
	f->f_make      = make;
	f->f_name      = name;
	f->f_arguments = arguments;
	f->f_owner     = owner;
	f->f_f         = (void (*)(void))p;
	f->f_result    = *result;
	return (PyObject *)f;
}

static PyObject *function_address(struct function *f, void *unused)
{
	(void)unused;
	return PyLong_FromVoidPtr((void *)f->f_f);
}

static PyObject *function_repr(struct function *f)
{
	return PyUnicode_FromFormat("<C function %U at %p>", f->f_name,
				    (void *)f->f_f);
}

static PyMemberDef function_members[] = {
	{ "name", T_OBJECT, offsetof(struct function, f_name), READONLY,
	  "Name, for messages." },
	{ "arguments", T_OBJECT, offsetof(struct function, f_arguments),
	  READONLY, "Kinds of the arguments, a letter for each, or None." },
	{ "owner", T_OBJECT, offsetof(struct function, f_owner), READONLY,
	  "Keeps the machine code loaded." },
	{ "result", T_CHAR, offsetof(struct function, f_result), READONLY,
	  "Kind of the result, a letter." },
	{ "convert", T_OBJECT, offsetof(struct function, f_convert), READONLY,
	  "Converts arguments, or None." },
	{ "make", T_OBJECT, offsetof(struct function, f_make), READONLY,
	  "Makes results, or None." },
	{ NULL, 0, 0, 0, NULL },
};

static PyGetSetDef function_getset[] = {
	{ "address", (getter)function_address, NULL, "Address.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

PyTypeObject function_type = {
	PyVarObject_HEAD_INIT(NULL, 0)
	.tp_name = "usched_engine.CFunction",
	.tp_doc = "A C function: its name, address, and how to call it.",
	.tp_basicsize = sizeof(struct function),
	.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
	.tp_new = function_new,
	.tp_traverse = (traverseproc)function_traverse,
	.tp_clear = (inquiry)function_clear,
	.tp_dealloc = (destructor)function_dealloc,
	.tp_repr = (reprfunc)function_repr,
	.tp_members = function_members,
	.tp_getset = function_getset,
};

