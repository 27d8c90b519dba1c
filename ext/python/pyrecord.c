/* SPDX-License-Identifier: MIT */
/* pyrecord.c: records of calls: step 1, which makes words of arguments. */

/*
 * CONVERSION. An int that its type can hold, and a float, become words here: all
 * libraries agree on these. For anything else, a function of ctypes or cffi has
 * f_convert(), which lets its library convert: the library passes the object to
 * same_word() or real_bits(), and gets the word of a register back. Likewise
 * f_make() makes a result as a call of the library would, by a call of
 * same_word() or bits_real(). So widths, signs, errors and call-backs are
 * those of the library. Besides, the engine takes buffers, and pins them.
 *
 * INVARIANT
 *
 * I2. A record with tasks holds its port, its future, its function and its
 *     buffers. c_left counts the items that have not ended, and the submitter,
 *     so a record is on no list while its submitter looks at it.
 */

#include "pyrecord.h"

#include <stdlib.h>
#include <string.h>

PyObject *address_of;

void call_free(struct call *c)
{
	for (long n = 0; n < c->c_pins; n++)
		PyBuffer_Release(&c->c_pin[n]);
	free(c->c_pin);
	if (c->c_port != NULL)
		atomic_fetch_sub(&c->c_port->o_calls, 1);
	Py_XDECREF(c->c_port);
	Py_XDECREF(c->c_future);
	Py_XDECREF(c->c_function);
	Py_XDECREF(c->c_result);
	Py_XDECREF(c->c_arguments);
	free(c);
}

/* Returns room for a pinned buffer, or NULL with an exception. */
static Py_buffer *pin_room(struct call *c)
{
	long room = c->c_pins;
	Py_buffer *pin;

	if ((room & (room - 1)) == 0) {
		pin = realloc(c->c_pin, (room ? 2 * room : 1) * sizeof(*pin));
		if (pin == NULL)
			return (Py_buffer *)PyErr_NoMemory();
		c->c_pin = pin;
	}
	return &c->c_pin[c->c_pins];
}

/* Returns a char of a format: the last, of a scalar; the first, of a pointer. */
static char format_of(const Py_buffer *b)
{
	const char *f = b->format != NULL ? b->format : "B";

	if (strchr("&XTPzZ", *f) != NULL && *f != '\0')
		return *f;
	return *f != '\0' ? f[strlen(f) - 1] : 'B';
}

/*
 * Returns the kind of an object without dimensions, such as c_int(1); or 0: it
 * has no register of its own here, such as a structure.
 */
static char kind_of_scalar(const Py_buffer *b)
{
	char f = format_of(b);

	if (f == 'd' || f == 'f')
		return f;
	if (strchr("bBhHiIlLqQnN?", f) != NULL)
		return 'i';
	if (f == 'Z' && b->format[0] == 'Z')	/* a complex number of NumPy */
		return '\0';
	return strchr("&XPzZ", f) != NULL ? 'p' : '\0';
}

static char kind_of_buffer(PyObject *o)
{
	Py_buffer b;
	char kind = 'p';

	if (PyBytes_Check(o) || PyByteArray_Check(o))
		return 'p';
	if (PyObject_GetBuffer(o, &b, PyBUF_FULL_RO) != 0)
		return '\0';
	if (b.ndim == 0)
		kind = kind_of_scalar(&b);
	PyBuffer_Release(&b);
	if (kind == '\0')
		PyErr_Format(PyExc_TypeError, "a C function cannot take "
			     "%.100s by value: pass its address, as byref()",
			     Py_TYPE(o)->tp_name);
	return kind;
}

/* Returns the kind as which an object is passed, or 0 with an exception. */
static char kind_of(PyObject *o)
{
	PyNumberMethods *number = Py_TYPE(o)->tp_as_number;

	if (PyLong_Check(o))
		return 'i';
	if (PyFloat_Check(o))
		return 'd';
	if (o == Py_None || Py_TYPE(o) == &function_type)
		return 'p';
	if (PyObject_CheckBuffer(o))
		return kind_of_buffer(o);
	if (strncmp(Py_TYPE(o)->tp_name, "_cffi_backend", 13) == 0)
		return 'p';
	if (PyIndex_Check(o))
		return 'i';
	if (number != NULL && number->nb_float != NULL)
		return 'd';
	PyErr_Format(PyExc_TypeError, "a C function cannot take %.100s: pass "
		     "an int, a float, None, or a buffer (bytes, bytearray, "
		     "memoryview, array, NumPy, ctypes, cffi)",
		     Py_TYPE(o)->tp_name);
	return '\0';
}

/* Returns the number in an object, as a new reference; or NULL. */
static PyObject *number_of(PyObject *o)
{
	if (!PyLong_Check(o) && !PyFloat_Check(o)) {
		if (PyObject_HasAttrString(o, "item"))	/* NumPy */
			return PyObject_CallMethod(o, "item", NULL);
		if (PyObject_HasAttrString(o, "value"))	/* ctypes */
			return PyObject_GetAttrString(o, "value");
		if (PyObject_CheckBuffer(o))
			return PyErr_Format(PyExc_TypeError, "a number cannot "
					    "be made of %.100s",
					    Py_TYPE(o)->tp_name);
	}
	Py_INCREF(o);
	return o;
}

static int put_int(PyObject *o, union word *w)
{
	PyObject *number = number_of(o), *integer = NULL;

	if (number != NULL)
		integer = PyNumber_Index(number);
	Py_XDECREF(number);
	if (integer == NULL)
		return -1;
	w->l = PyLong_AsLongLong(integer);
	if (w->l == -1 && PyErr_ExceptionMatches(PyExc_OverflowError)) {
		PyErr_Clear();
		w->u = PyLong_AsUnsignedLongLong(integer);
	}
	Py_DECREF(integer);
	return PyErr_Occurred() ? -1 : 0;
}

static int put_float(PyObject *o, char kind, union word *w)
{
	PyObject *number = number_of(o);
	double d;

	if (number == NULL)
		return -1;
	d = PyFloat_AsDouble(number);
	Py_DECREF(number);
	if (d == -1 && PyErr_Occurred())
		return -1;
	w->u = ~(uint64_t)0;
	if (kind == 'f')
		w->f = (float)d;
	else
		w->d = d;
	return 0;
}

/* Pins a buffer, and finds its address. */
static int put_buffer(struct call *c, PyObject *o, bool write, union word *w)
{
	Py_buffer *b = pin_room(c);
	char f;

	if (b == NULL || PyObject_GetBuffer(o, b, PyBUF_FULL_RO) != 0)
		return -1;
	c->c_pins++;
	f = b->ndim == 0 ? format_of(b) : 'B';
	if (f == 'X') {
		PyErr_SetString(PyExc_TypeError, "pass a function as "
				"get_c_function(f)");
		return -1;
	}
	if (!PyBuffer_IsContiguous(b, 'A')) {
		PyErr_SetString(PyExc_BufferError, "the buffer is not "
				"contiguous: pass a copy");
		return -1;
	}
	if (write && b->readonly) {
		PyErr_Format(PyExc_TypeError, "the buffer of %.100s is "
			     "read-only, and the function may write to it: "
			     "pass a copy that can be written",
			     Py_TYPE(o)->tp_name);
		return -1;
	}
	c->c_pinned += b->len;
	w->u = (uintptr_t)b->buf;
	if (strchr("&PzZ", f) != NULL)	/* a pointer of ctypes */
		w->u = (uintptr_t)*(void **)b->buf;
	return 0;
}

/* Keeps an object with the record. */
static int keep(struct call *c, PyObject *o)
{
	Py_buffer *b = pin_room(c);
	static char none;

	if (b == NULL || PyBuffer_FillInfo(b, o, &none, 0, 1, PyBUF_SIMPLE))
		return -1;
	c->c_pins++;
	return 0;
}

/* Holds an object of cffi, and asks for its address. */
static int put_cdata(struct call *c, PyObject *o, union word *w)
{
	PyObject *address;
	int rc;

	if (keep(c, o) != 0)
		return -1;
	address = PyObject_CallFunctionObjArgs(address_of, o, NULL);
	if (address == NULL)
		return -1;
	rc = put_int(address, w);
	Py_DECREF(address);
	return rc;
}

static int put_pointer(struct call *c, PyObject *o, bool write, union word *w)
{
	w->u = 0;
	if (o == Py_None)
		return 0;
	if (PyLong_Check(o))
		return put_int(o, w);
	if (PyObject_CheckBuffer(o))
		return put_buffer(c, o, write, w);
	if (Py_TYPE(o) == &function_type)
		w->u = (uintptr_t)((struct function *)o)->f_f;
	else if (kind_of(o) == 'p')
		return put_cdata(c, o, w);
	else if (!PyErr_Occurred())
		PyErr_Format(PyExc_TypeError, "a pointer cannot be made of "
			     "%.100s", Py_TYPE(o)->tp_name);
	return PyErr_Occurred() ? -1 : 0;
}

/* Infers the kinds of arguments. Returns whether it could. */
static int kinds_infer(const struct function *f, PyObject *tuple, char *kinds)
{
	Py_ssize_t n, nr = PyTuple_GET_SIZE(tuple);

	if (nr > INTS + FLOATS) {
		PyErr_Format(PyExc_ValueError, "%zd arguments are too many: "
			     "at most %d integers and pointers, and %d floats",
			     nr, INTS, FLOATS);
		return 0;
	}
	for (n = 0; n < nr; n++) {
		kinds[n] = kind_of(PyTuple_GET_ITEM(tuple, n));
		if (kinds[n] == '\0' && f->f_convert != NULL &&
		    PyErr_ExceptionMatches(PyExc_TypeError)) {
			PyErr_Clear();
			kinds[n] = 'O';
		}
		if (kinds[n] == '\0')
			return 0;
	}
	kinds[nr] = '\0';
	return function_kinds_right(kinds, ARGUMENTS);
}

/* Returns the bits of an integer kind, or 0; sets *sign. */
static int width_of(char kind, bool *sign)
{
	const char *at = strchr("bhwqBHWQ", kind);
	long n = at != NULL ? at - "bhwqBHWQ" : 0;

	*sign = n < 4;
	return at == NULL ? 0 : 8 << n % 4;
}

/* Extends w, of 32 bits, as registers of the machine hold them. */
static void extend(union word *w)
{
#ifdef __riscv
	w->l = (int32_t)w->l;
#else
	(void)w;
#endif
}

/* Puts an int that an integer kind can hold. Returns whether it could. */
static bool put_exact(char kind, PyObject *o, union word *w)
{
	int over, bits;
	bool sign;

	if (kind == '?') {
		w->u = PyLong_AsLongAndOverflow(o, &over) == 1;
		return w->u == 1 || (over == 0 && PyObject_Not(o) == 1);
	}
	bits = width_of(kind, &sign);
	w->l = PyLong_AsLongLongAndOverflow(o, &over);
	if (over != 0 && kind == 'Q') {
		w->u = PyLong_AsUnsignedLongLong(o);
		if (PyErr_Occurred() == NULL)
			return true;
		PyErr_Clear();
		return false;
	}
	if (bits == 0 || over != 0 || (!sign && w->l < 0))
		return false;
	if (bits < 64 && (sign ? w->l << (64 - bits) >> (64 - bits) :
			  (long long)(w->u << (64 - bits) >> (64 - bits))) !=
	    w->l)
		return false;
	if (bits == 32)
		extend(w);
	return true;
}

/* Puts what all libraries pass alike. Returns whether it is that. */
static bool put_plain(char kind, PyObject *o, union word *w)
{
	if (PyFloat_CheckExact(o) && (kind == 'd' || kind == 'f'))
		return put_float(o, kind, w) == 0;
	return PyLong_CheckExact(o) && put_exact(kind, o, w);
}

/* Puts an object for which there is no library. */
static int put_alone(struct call *c, char kind, PyObject *o, union word *w)
{
	PyObject *number;

	if (kind == 'p' || kind == 'P')
		return put_pointer(c, o, kind == 'P', w);
	if (kind == 'd' || kind == 'f')
		return put_float(o, kind, w);
	if (kind == 'i')
		return put_int(o, w);
	number = number_of(o);
	if (number == NULL)
		return -1;
	Py_SETREF(number, PyNumber_Index(number));
	if (number != NULL && !put_exact(kind, number, w))
		PyErr_Format(PyExc_OverflowError, "%S does not fit its type",
			     number);
	Py_XDECREF(number);
	return PyErr_Occurred() ? -1 : 0;
}

/*
 * Lets the library put argument n. It tells (kept, word, is a float's bits), or
 * None: o is a buffer that may be written. Returns the kind, or 0.
 */
static char put_by_library(struct call *c, int n, PyObject *o, union word *w)
{
	PyObject *told, *kept;
	char kind = c->c_kind[n];
	unsigned long long word;
	int real;

	told = PyObject_CallFunction(c->c_function->f_convert, "iO", n, o);
	if (told == Py_None) {
		Py_DECREF(told);
		return put_pointer(c, o, true, w) == 0 ? kind : '\0';
	}
	if (told == NULL)
		return '\0';
	if (!PyArg_ParseTuple(told, "OKp", &kept, &word, &real) ||
	    keep(c, kept) != 0 || keep(c, o) != 0)
		kind = '\0';
	else {
		w->u = kind == 'f' ? word | ~(uint64_t)0 << 32 : word;
		kind = kind != 'O' ? kind : real ? 'd' : 'i';
	}
	Py_DECREF(told);
	return kind;
}

/* Says which argument an exception is about. */
static int blame(const struct call *c, int n)
{
	PyObject *type, *value, *trace;

	if (!PyErr_ExceptionMatches(PyExc_TypeError) &&
	    !PyErr_ExceptionMatches(PyExc_OverflowError))
		return -1;
	PyErr_Fetch(&type, &value, &trace);
	PyErr_NormalizeException(&type, &value, &trace);
	PyErr_Format(type == PyExc_OverflowError ? type : PyExc_TypeError,
		     "%U(), argument %d: %S", c->c_function->f_name, n + 1,
		     value);
	Py_XDECREF(type);
	Py_XDECREF(value);
	Py_XDECREF(trace);
	return -1;
}

/* Puts argument n. Returns its kind, or 0 with an exception. */
static char put(struct call *c, int n, PyObject *o, union word *w)
{
	char kind = c->c_kind[n];

	if (put_plain(kind, o, w))
		return kind;
	if (c->c_function->f_convert == NULL || c->c_inferred ? kind != 'O' :
	    kind == 'i' || kind == 'p')
		return put_alone(c, kind, o, w) == 0 ? kind : '\0';
	return put_by_library(c, n, o, w);
}

/* Fills an item. before is the tuple of the item before, or NULL. */
static int item_fill(struct call *c, long nr, PyObject *tuple,
		     PyObject *before)
{
	struct item *i = item_at(c, nr);
	union word *integer = i->i_word, *real = i->i_word + c->c_ints, w;

	i->i_call = c;
	for (int n = 0; c->c_kind[n] != '\0'; n++) {
		PyObject *o = PyTuple_GET_ITEM(tuple, n);
		char kind = c->c_kind[n];

		if (before != NULL && strchr("pP", kind) != NULL &&
		    c->c_fixed && o == PyTuple_GET_ITEM(before, n)) {
			*integer = *(union word *)((char *)integer -
						   c->c_stride);
			integer++;
			continue;
		}
		kind = put(c, n, o, &w);
		if (kind == '\0')
			return blame(c, n);
		*(kind == 'd' || kind == 'f' ? real++ : integer++) = w;
	}
	return 0;
}

/* What libraries call to convert: see CONVERSION. With the GIL. */

static uint64_t same_word(uint64_t word)
{
	return word;
}

static uint64_t real_bits(double d)
{
	uint64_t bits;

	memcpy(&bits, &d, sizeof(bits));
	return bits;
}

static double bits_real(uint64_t bits)
{
	double d;

	memcpy(&d, &bits, sizeof(d));
	return d;
}

/* converters(): returns the addresses of these three. */
PyObject *call_converters(PyObject *self, PyObject *none)
{
	(void)self;
	(void)none;
	return Py_BuildValue("KKK", (unsigned long long)(uintptr_t)same_word,
			     (unsigned long long)(uintptr_t)real_bits,
			     (unsigned long long)(uintptr_t)bits_real);
}

/* Makes a record for nr calls of f(), whose kinds are known. */
static struct call *call_make(struct function *f, const char *kinds, long nr)
{
	bool fixed = strchr(kinds, 'O') == NULL;
	int n, ints = 0, floats = 0;
	struct call *c;
	size_t stride;

	for (n = 0; kinds[n] != '\0'; n++)
		*(kinds[n] == 'd' || kinds[n] == 'f' ? &floats : &ints) += 1;
	if (!fixed) {
		ints   = INTS;
		floats = FLOATS;
	}
	stride = sizeof(struct item) + (ints + floats) * sizeof(union word);
	c = calloc(1, sizeof(*c) + nr * stride);
	if (c == NULL)
		return (struct call *)PyErr_NoMemory();
	strcpy(c->c_kind, kinds);
	c->c_fixed = fixed;
	c->c_inferred = f->f_arguments == Py_None;
	c->c_nr = nr;
	c->c_stride = stride;
	c->c_ints = ints;
	c->c_floats = floats;
	Py_INCREF(f);
	c->c_function = f;
	c->c_f = f->f_f;
	c->c_returns = f->f_result;
	return c;
}

/* Fills all items from a sequence of tuples. Returns an error. */
static int call_fill(struct call *c, PyObject **tuples)
{
	Py_ssize_t nr = (Py_ssize_t)strlen(c->c_kind);
	PyObject *before = NULL;

	for (long n = 0; n < c->c_nr; before = tuples[n], n++) {
		if (!PyTuple_Check(tuples[n]))
			PyErr_SetString(PyExc_TypeError, "the arguments of "
					"a call must be a tuple");
		else if (PyTuple_GET_SIZE(tuples[n]) != nr)
			PyErr_Format(PyExc_TypeError, "%U() takes %zd "
				     "arguments, not %zd",
				     c->c_function->f_name, nr,
				     PyTuple_GET_SIZE(tuples[n]));
		else if (item_fill(c, n, tuples[n], before) == 0)
			continue;
		return -1;
	}
	return 0;
}

struct call *call_prepare(struct function *f, PyObject **tuples, long nr)
{
	char inferred[INTS + FLOATS + 1] = "";
	const char *kinds = inferred;
	struct call *c;

	if (f->f_arguments != Py_None)
		kinds = PyUnicode_AsUTF8(f->f_arguments);
	else if (nr > 0 && PyTuple_Check(tuples[0]) &&
		 !kinds_infer(f, tuples[0], inferred))
		return NULL;
	c = kinds != NULL ? call_make(f, kinds, nr) : NULL;
	if (c == NULL || call_fill(c, tuples) == 0)
		return c;
	call_free(c);
	return NULL;
}
