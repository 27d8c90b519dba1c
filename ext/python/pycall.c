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
 * A port belongs to an event loop, or to the thread that collects for all
 * native threads. So many ends cost a single wake of its descriptor. A record of
 * prepare() has neither a port nor an engine: run() calls item_run() in its own
 * thread, without the GIL.
 *
 * INVARIANTS
 * I1	Only a thread with the GIL touches a Python object, or its count.
 * I2	A record with tasks holds its port, its future, its function and its
 *	buffers. c_left counts the items that have not ended, and the submitter,
 *	so a record is on no list while its submitter looks at it.
 * I3	If the list is not empty, the descriptor can be read, or its pusher is
 *	about to write (o_told). A pusher sets o_told after its push, and writes
 *	if o_told was false. take() reads, clears o_told, and then empties the
 *	list. take_quietly() only empties the list: the descriptor stays readable
 *	for nothing, and pushers write no more. So a series of calls that end
 *	before their loop looks for them costs no system call. take_soon() sets
 *	o_told while it waits, and clears it before it empties the list.
 *
 * CALLS. On x86-64, AArch64 and RISC-V, integers and floating point numbers
 * are passed in registers of two kinds, counted apart. So a call with six
 * integers and eight doubles calls any function that takes at most so many, in
 * any order. A float is passed in the low half of its register. The other bits
 * are set: RISC-V asks for that, and the others ignore them. A narrow integer
 * is extended to the register as its type says.
 *
 * CONVERSION. An int that its type can hold, and a float, become words here: all
 * libraries agree on these. For anything else, a function of ctypes or cffi has
 * f_convert(), which lets its library convert: the library passes the object to
 * same_word() or real_bits(), and gets the word of a register back. Likewise
 * f_make() makes a result as a call of the library would, by a call of
 * same_word() or bits_real(). So widths, signs, errors and call-backs are
 * those of the library. Besides, the engine takes buffers, and pins them.
 *
 * REJECTED
 *	libffi: a dependency.
 *	The engine's batches: a wake and an end for each call, where a batch
 *	needs a single one.
 */

#include "pycall.h"
#include "lock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/eventfd.h>
#endif

#define INTS	6
#define FLOATS	8
#define CHUNK	64
#define SOON	(20 * UTIME_US)

/*
 * Kinds of arguments: any integer, a pointer, double, float; integers of 8, 16,
 * 32 and 64 bits, signed and unsigned; bool; a pointer to what may be written;
 * what f_convert() tells.
 */
#define ARGUMENTS	"ipdf" "bBhHwWqQ" "?" "P" "O"
/*
 * Kinds of results: int, 64 bits, double, float, none; other integers, the last
 * two unsigned int and 64 bits; bool; a result of f_make(), of an integer's
 * register, or of a double's.
 */
#define RESULTS		"ildfv" "bBhHIL" "?" "OR"
#define SIGNED		"ilbh"

union word {
	long long l;
	double    d;
	float     f;
	uint64_t  u;
};

struct function {
	PyObject_HEAD
	PyObject *f_name, *f_owner;
	PyObject *f_arguments;	/* kinds, as text, or None */
	PyObject *f_convert;	/* f(n, object), or NULL */
	PyObject *f_make;	/* f(word, errno, arguments), or NULL */
	void    (*f_f)(void);
	char      f_result;	/* a kind of RESULTS */
};

struct port {
	PyObject_HEAD
	_Atomic(struct call *) o_ended;
	atomic_bool o_told;	/* the descriptor can be read, or will be */
	atomic_long o_calls;	/* records */
	int o_fd, o_write;
};

struct item {
	struct call *i_call;
	union word   i_value;
	int          i_error;
	bool         i_began;
	short        i_errno;		/* if f_make() makes the result */
	union word   i_word[];	/* integers, then floating point numbers */
};

struct call {
	struct call     *c_next;	/* in its port */
	struct port     *c_port;
	PyObject        *c_future;
	struct function *c_function;
	PyObject        *c_result;	/* a buffer, or NULL: f()'s result */
	PyObject        *c_arguments;	/* for f_make(), or NULL */
	void           (*c_f)(void);
	char             c_returns;	/* as f_result */
	atomic_long      c_left;
	long             c_nr;		/* items */
	size_t           c_stride;
	int              c_ints, c_floats;
	bool             c_many, c_check, c_abandoned;
	bool             c_inferred;	/* kinds are those of what is passed */
	bool             c_fixed;	/* all items have the same layout */
	Py_buffer       *c_pin;
	long             c_pins;
	size_t           c_pinned;	/* bytes */
	char             c_kind[INTS + FLOATS + 1]; /* i p d f */
	union word       c_item[];
};

PyObject *address_of;

static struct item *item_at(struct call *c, long n)
{
	return (struct item *)((char *)c->c_item + n * c->c_stride);
}

/*
 * FUNCTIONS
 */

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

/* Checks text that tells kinds. Returns whether it is right. */
static int kinds_right(const char *kinds, const char *allowed)
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
	if (kinds == NULL || !kinds_right(kinds, ARGUMENTS))
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

/*
 * PORTS
 */

/* Puts a record on the list. Any thread, without the GIL. */
static void port_push(struct port *o, struct call *c)
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
 * ARGUMENTS. Caller holds the GIL.
 */

/* Frees a record. No task of it runs. */
static void call_free(struct call *c)
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
	return kinds_right(kinds, ARGUMENTS);
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
static __attribute__((noinline)) short errno_now(void)
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

/* Makes and fills a record: step 1. Returns NULL with an exception. */
static struct call *call_prepare(struct function *f, PyObject **tuples,
				 long nr)
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
 * ENDS: step 4. Caller holds the GIL.
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

/*
 * Returns (future, value, error, index): error is 0, a negative errno of the
 * item index; 1, if the item did not begin; or 2: value is an exception.
 */
static PyObject *call_outcome(struct call *c)
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
