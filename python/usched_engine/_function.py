# SPDX-License-Identifier: MIT
"""C functions from ctypes, cffi, numba, Cython, SciPy, and by name."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from typing import Any

from . import _usched
from ._usched import CFunction

_CFUNC = ctypes._CFuncPtr               # type: ignore[attr-defined]
_POINTERS = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_wchar_p,
             ctypes._Pointer, ctypes.Array, ctypes.Structure)
_INTEGERS = (ctypes.c_bool, ctypes.c_char, ctypes.c_byte, ctypes.c_ubyte,
             ctypes.c_short, ctypes.c_ushort, ctypes.c_int, ctypes.c_uint,
             ctypes.c_long, ctypes.c_ulong, ctypes.c_longlong,
             ctypes.c_ulonglong)
_RESULTS = {int: "i", "int": "i", ctypes.c_int: "i", ctypes.c_int32: "i",
            "long": "l", ctypes.c_long: "l", ctypes.c_longlong: "l",
            ctypes.c_ssize_t: "l", ctypes.c_int64: "l", ctypes.c_size_t: "l",
            float: "d", "double": "d", ctypes.c_double: "d",
            "float": "f", ctypes.c_float: "f",
            None: "v", "void": "v"}

_global = False


def _share_symbols() -> None:
    """Lets libraries that are loaded from now on call usched's functions."""
    global _global
    if not _global:
        ctypes.CDLL(_usched.__file__, ctypes.RTLD_GLOBAL)
        _global = True


def _result_kind(result: Any) -> str:
    try:
        return _RESULTS[result]
    except (KeyError, TypeError):
        raise TypeError("the result of a C function is int, 'long', float "
                        "(a double), 'float', or None, not %r"
                        % (result,)) from None


def _argument_kind(kind: Any) -> str:
    if kind in (ctypes.c_double,):
        return "d"
    if kind in (ctypes.c_float,):
        return "f"
    if kind in _INTEGERS:
        return "i"
    if isinstance(kind, type) and issubclass(kind, ctypes.Structure):
        raise TypeError("structures by value are not supported")
    return "p"


def _from_ctypes(function: Any) -> CFunction:
    kept = (getattr(function, "_objects", None) or {}).values()
    if any(type(thing).__name__ == "CThunkObject" for thing in kept):
        raise TypeError("%r calls Python, which a task must not: pass a "
                        "function of C, or spawn() a coroutine" % (function,))
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    types = function.argtypes
    return CFunction(getattr(function, "__name__", "function"), address,
                     _result_kind(function.restype),
                     None if types is None else
                     "".join(_argument_kind(kind) for kind in types),
                     function)


def _from_numba(function: Any) -> CFunction:
    made = _from_ctypes(function.ctypes)
    name = getattr(function, "__name__", None) or \
        getattr(function, "native_name", None) or "cfunc"
    return CFunction(name, made.address, made.result, made.arguments, function)


_KINDS = {"double": "d", "float": "f", "void": "v", "long": "l",
          "longlong": "l", "ssize_t": "l", "Py_ssize_t": "l", "int64_t": "l",
          "uint64_t": "l", "size_t": "l", "ptrdiff_t": "l", "intptr_t": "l",
          "uintptr_t": "l", "npy_intp": "l", "utime_ns": "l",
          "engine_id": "l"}
# What is not passed as it is in a register of integers or of doubles.
_REFUSED = re.compile(r"\b(long double|longdouble|complex|_Complex|struct|"
                      r"union)\b")
_SHORT = re.compile(r"\b(char|short|_?[bB]ool|u?int8_t|u?int16_t)\b")


def _kind_of_text(text: str, refused: Any = _REFUSED) -> str:
    """Returns the kind of a type such as "unsigned long" or "const char *"."""
    if re.search(r"[*\[]", text):
        return "p"
    if refused.search(text):
        raise TypeError("%r is not supported: a C function takes integers, "
                        "pointers, doubles and floats, and returns int, long, "
                        "double, float or nothing" % text)
    text = re.sub(r"\b(const|volatile|unsigned|signed|int)\b", "", text)
    text = re.sub(r"\blong(\s+long)?\b", "longlong", text).strip()
    return _KINDS.get(text.split(" ")[-1], "i")


def _kinds_of_text(text: str) -> tuple[str, str | None]:
    """Returns the kinds of a prototype such as "double (double, void *)"."""
    while re.search(r"\([^()]*\)\s*\(", text):        # pointers to functions
        text = re.sub(r"\(\s*(\*?)[^()]*\)\s*\([^()]*\)", r"\1", text)
    match = re.match(r"\s*(.*?)\s*\(\s*(.*?)\s*\)\s*(nogil|noexcept|\s)*$",
                     text)
    if match is None:
        return "i", None
    result = _kind_of_text(match.group(1), re.compile(
        _REFUSED.pattern + "|" + _SHORT.pattern))
    kinds = "".join(_kind_of_text(part).replace("l", "i") for part in
                    match.group(2).split(",") if part.strip() not in
                    ("", "void"))
    return result.replace("p", "l"), kinds


def _from_capsule(capsule: Any) -> CFunction:
    address, text = _usched.capsule(capsule)
    result, kinds = _kinds_of_text(text) if text else ("i", None)
    return CFunction(text or "capsule", address, result, kinds, capsule)


def _ffi() -> Any:
    import _cffi_backend                # type: ignore
    return _cffi_backend


def _is_cdata(thing: Any) -> bool:
    return "_cffi_backend" in sys.modules and \
        isinstance(thing, _ffi().FFI.CData)


def _address_of(thing: Any) -> int:
    """Returns the address in a pointer or an array of cffi."""
    backend = _ffi()
    kind = backend.typeof(thing)
    if kind.kind not in ("pointer", "array"):
        raise TypeError("pass a number or a pointer, not %r" % (thing,))
    if kind.kind == "pointer" and kind.item.kind == "function":
        return _from_cffi(thing).address
    word = backend.new_primitive_type("uintptr_t")
    return int(backend.cast(word, thing))


def _from_cffi(function: Any) -> CFunction:
    backend = _ffi()
    kind = backend.typeof(function)
    if kind.kind == "pointer" and kind.item.kind == "function":
        kind = kind.item
    if kind.kind != "function":
        raise TypeError("%r is no function" % (function,))
    if " calling <" in repr(function) or "extern \"Python\"" in repr(function):
        raise TypeError("%r calls Python, which a task must not" % (function,))
    word = backend.new_primitive_type("uintptr_t")
    result, kinds = _kinds_of_text("%s (%s)" % (
        kind.result.cname, ", ".join(arg.cname for arg in kind.args)))
    return CFunction("cffi", int(backend.cast(word, function)), result, kinds,
                     function)


def _load(library: Any) -> Any:
    _share_symbols()
    if isinstance(library, (str, bytes, os.PathLike)):
        return ctypes.CDLL(os.fsdecode(library))
    return library


def _by_name(name: str, library: Any) -> CFunction:
    loaded = _load(library) if library is not None else ctypes.CDLL(None)
    try:
        function = getattr(loaded, name)
    except AttributeError:
        raise LookupError("no function is named %r in %s" % (
            name, library if library is not None else "this process")) \
            from None
    if _is_cdata(function) or "cffi" in type(loaded).__module__:
        return _from_cffi(function)
    return _from_ctypes(function)


def _from_any(function: Any) -> CFunction:
    if isinstance(function, CFunction):
        return function
    if isinstance(function, _CFUNC):
        return _from_ctypes(function)
    if type(function).__name__ == "PyCapsule":
        return _from_capsule(function)
    if _is_cdata(function):
        return _from_cffi(function)
    if isinstance(getattr(function, "ctypes", None), _CFUNC):
        return _from_numba(function)
    if isinstance(function, tuple) and hasattr(function, "function"):
        return _from_any(function.function)     # SciPy's LowLevelCallable
    if isinstance(function, int) and not isinstance(function, bool):
        return CFunction("%#x" % function, function)
    raise TypeError("%.80r is no C function: pass a name, an address, or an "
                    "object of ctypes, cffi, numba, SciPy, or a capsule"
                    % (function,))


def get_c_function(function: Any, library: Any = None, *,
                   result: Any = "declared",
                   arguments: str | None = None,
                   name: str | None = None) -> CFunction:
    """Returns a C function that c_spawn() can run.

    function    a name, to be found in library; or a function of ctypes, cffi
                or numba; a capsule of Cython or SciPy; an address
    library     a path, a library of ctypes or cffi, or None: this process
    result      int (a C int), "long", float (a double), "float", or None;
                by default what the object declares, or int
    arguments   a letter for each: i integer, p pointer, d double, f float; by
                default what the object declares, or else what is passed
    name        for messages; by default the name of the function

    An address or a name without a prototype is believed: as in C, a wrong
    prototype is undefined behaviour.

    Raises TypeError if it is no C function, LookupError if there is none of
    that name, OSError if the library cannot be loaded.
    """
    made = _by_name(function, library) if isinstance(function, str) else \
        _from_any(function)
    if result == "declared" and arguments is None and name is None:
        return made
    return CFunction(name or made.name, made.address,
                     made.result if result == "declared" else
                     _result_kind(result),
                     made.arguments if arguments is None else arguments,
                     made.owner)
