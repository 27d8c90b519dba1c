/* SPDX-License-Identifier: MIT */
/* pyrecord.h: records of calls, with their functions and ports. Private. */

#ifndef PYRECORD_H
#define PYRECORD_H

/*
 * CALLS. On x86-64, AArch64 and RISC-V, integers and floating point numbers
 * are passed in registers of two kinds, counted apart. So a call with six
 * integers and eight doubles calls any function that takes at most so many, in
 * any order. A float is passed in the low half of its register. The other bits
 * are set: RISC-V asks for that, and the others ignore them. A narrow integer
 * is extended to the register as its type says.
 */

#include "pycall.h"

#define INTS	6
#define FLOATS	8

/*
 * Kinds of arguments: any integer, a pointer, double, float; integers of 8, 16,
 * 32 and 64 bits, signed and unsigned; bool; a pointer to what may be written;
 * what f_convert() tells.
 */
#define ARGUMENTS	"ipdf" "bBhHwWqQ" "?" "P" "O"
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

static inline struct item *item_at(struct call *c, long n)
{
	return (struct item *)((char *)c->c_item + n * c->c_stride);
}

/* pyfunction.c */

/* Checks text that tells kinds. Returns whether it is right. */
HIDDEN int function_kinds_right(const char *kinds, const char *allowed);

/* pyrecord.c */

/*
 * Makes a record of nr calls of f(), and fills it from tuples: step 1. Returns NULL
 * with an exception. With the GIL.
 */
HIDDEN struct call *call_prepare(struct function *f, PyObject **tuples, long nr);

/* Frees a record. No task of it runs. With the GIL. */
HIDDEN void call_free(struct call *c);

/* pyport.c */

/* Puts a record on the list of a port: step 3. Any thread, without the GIL. */
HIDDEN void port_push(struct port *o, struct call *c);

/*
 * Returns (future, value, error, index): error is 0, a negative errno of the
 * item index; 1, if the item did not begin; or 2: value is an exception. With the
 * GIL.
 */
HIDDEN PyObject *call_outcome(struct call *c);

#endif /* PYRECORD_H */
