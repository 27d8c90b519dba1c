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
_SIMPLE: Any = ctypes._SimpleCData
_CDATA: Any = _SIMPLE.__mro__[-2]
_CPARAM: Any = type(ctypes.byref(ctypes.c_int()))
_PYTHON = ctypes._FUNCFLAG_PYTHONAPI    # type: ignore[attr-defined]
_ERRNO = ctypes._FUNCFLAG_USE_ERRNO     # type: ignore[attr-defined]

# Types whose values are the same for ctypes and for pyrecord.c. A subclass is not
# among them: ctypes makes an object of it.
_SIGNED = (ctypes.c_byte, ctypes.c_short, ctypes.c_int, ctypes.c_long,
           ctypes.c_longlong)
_UNSIGNED = (ctypes.c_ubyte, ctypes.c_ushort, ctypes.c_uint, ctypes.c_ulong,
             ctypes.c_ulonglong)
_BY_SIZE = {1: ("b", "B"), 2: ("h", "H"), 4: ("w", "W"), 8: ("q", "Q")}
_OF_RESULT = {"w": "i", "W": "I", "q": "l", "Q": "L"}
_PASSED: dict[Any, str] = {
    ctypes.c_double: "d", ctypes.c_float: "f", ctypes.c_bool: "?"}
for _kind in _SIGNED:
    _PASSED[_kind] = _BY_SIZE[ctypes.sizeof(_kind)][0]
for _unsigned in _UNSIGNED:
    _PASSED[_unsigned] = _BY_SIZE[ctypes.sizeof(_unsigned)][1]
_RETURNED: dict[Any, str] = {kind: _OF_RESULT.get(letter, letter)
                             for kind, letter in _PASSED.items()}
_RESULTS: dict[Any, str] = dict(_RETURNED)
_RESULTS.update({int: "i", "int": "i", "long": "l", float: "d", "double": "d",
                 "float": "f", None: "v", "void": "v"})
_INTEGERS = "cbBhHiIlLqQ?u"             # codes of ctypes, in a register
_ADDRESSES = "zZPX"

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


def _address(number: int) -> Any:
    """Returns what makes a function of ctypes at same_word(), real_bits() or
    bits_real() in pyrecord.c."""
    address = _usched.converters()[number]
    return lambda result, *types: ctypes.PYFUNCTYPE(result, *types)(address)


_word = _address(0)(ctypes.c_uint64)
_bits = _address(1)(ctypes.c_uint64)


def _buffer(value: Any) -> memoryview | None:
    """Returns a view of a buffer that no library passes by itself."""
    if isinstance(value, (bytes, _CDATA, _CPARAM)):
        return None
    try:
        return memoryview(value)
    except (TypeError, ValueError, BufferError):
        return None


def _check_items(view: memoryview, size: int, floating: bool,
                 name: str) -> None:
    """Raises TypeError if items of a buffer are not what is pointed to. size
    0: of any type."""
    if size and (view.itemsize != size or
                 (view.format[-1:] in ("e", "f", "d", "g")) != floating):
        raise TypeError("%s takes items of %d bytes%s, and those of the "
                        "buffer have the format %r and %d" % (
                            name, size, ", floating point" if floating else "",
                            view.format, view.itemsize))


def _refuse(code: str) -> None:
    if code == "O":
        raise TypeError("a Python object is not supported: a task must not "
                        "touch it")
    if code not in _INTEGERS + _ADDRESSES + "df":
        raise TypeError("values with the code %r of ctypes are not supported: "
                        "pass a pointer" % code)


def _code(value: Any) -> str:
    """Returns the code by which ctypes passes what it has converted."""
    if isinstance(value, _CPARAM):
        return repr(value)[9]           # <cparam 'P' (0x...)>: no other way
    if isinstance(value, (ctypes.Structure, ctypes.Union)):
        raise TypeError("structures by value are not supported: pass "
                        "byref()")
    return str(value._type_) if isinstance(value, _SIMPLE) else "P"


class _Ctypes:
    """Converts arguments and results of a function of ctypes, by ctypes."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.types = function.argtypes
        self.result = function.restype
        self.check = function.errcheck if hasattr(function, "errcheck") \
            else None

    def convert(self, number: int, value: Any) -> Any:
        """See put_by_library() in pyrecord.c."""
        if self.types is not None:
            kind = self.types[number]
            view = _buffer(value) if _is_address(kind) else None
            if view is not None:
                item = getattr(kind, "_type_", None)
                if isinstance(item, type) and issubclass(item, _CDATA):
                    _check_items(view, ctypes.sizeof(item), _is_real(item),
                                 kind.__name__)
                return None
            value = kind.from_param(value)
        kept = [value]
        while not isinstance(value, (_CDATA, _CPARAM, int, bytes, str,
                                     type(None))):
            if not hasattr(value, "_as_parameter_"):
                raise TypeError("ctypes does not know how to convert %s"
                                % type(value).__name__)
            value = value._as_parameter_
            kept.append(value)
        if isinstance(value, str):
            if self.types is None:
                raise TypeError("pass a str as bytes, or declare argtypes")
            value = ctypes.c_wchar_p.from_param(value)
            kept.append(value)
        code = "P" if isinstance(value, (int, bytes, type(None))) else \
            _code(value)
        _refuse(code)
        real = code in ("d", "f")
        return kept, (_bits if real else _word)(value), real

    def make(self, word: int, error: int, arguments: tuple[Any, ...]) -> Any:
        """Makes a result, as a call of the function would."""
        real = _is_real(self.result)
        given = _address(2 if real else 0)(None, ctypes.c_uint64)
        given.restype = self.result
        if self.function._flags_ & _ERRNO:
            ctypes.set_errno(error)
        value = given(word)
        if self.check is None:
            return value
        checked = self.check(value, self.function, arguments)
        return value if checked is arguments else checked


def _code_of(kind: Any) -> Any:
    """Returns the code of a simple type of ctypes, or ""."""
    simple = isinstance(kind, type) and issubclass(kind, _SIMPLE)
    return getattr(kind, "_type_", "") if simple else ""


def _is_real(kind: Any) -> bool:
    return _code_of(kind) in ("d", "f")


def _is_address(kind: Any) -> bool:
    """Returns whether a type of ctypes is a pointer to data."""
    return _code_of(kind) in ("P", "z", "Z") or isinstance(kind, type) and \
        issubclass(kind, (ctypes._Pointer, ctypes.Array))


def _argument_kind(kind: Any) -> str:
    if not isinstance(kind, type) or not issubclass(kind, _CDATA):
        return "O"                      # has a from_param() of its own
    if issubclass(kind, (ctypes.Structure, ctypes.Union)):
        raise TypeError("structures by value are not supported: declare a "
                        "pointer")
    if issubclass(kind, _SIMPLE):
        _refuse(_code_of(kind))
    # What is not the same for all libraries: a word, as ctypes says.
    return _PASSED.get(kind, "O" if _is_real(kind) else "P")


def _returned_kind(kind: Any, checked: bool) -> str:
    if kind is None:
        return "O" if checked else "v"
    if not isinstance(kind, type) or not issubclass(kind, _CDATA):
        return "O"                      # a callable, which gets an int
    if issubclass(kind, (ctypes.Structure, ctypes.Union, ctypes.Array)):
        raise TypeError("a function that returns %s is not supported: "
                        "it may return a pointer" % kind.__name__)
    if issubclass(kind, _SIMPLE):
        _refuse(_code_of(kind))
    if kind in _RETURNED and not checked:
        return _RETURNED[kind]
    return "R" if _is_real(kind) else "O"


def _from_ctypes(function: Any) -> CFunction:
    kept = (getattr(function, "_objects", None) or {}).values()
    if any(type(thing).__name__ == "CThunkObject" for thing in kept):
        raise TypeError("%r calls Python, which a task must not: pass a "
                        "function of C, or spawn() a coroutine" % (function,))
    name = getattr(function, "__name__", "function")
    if function._flags_ & _PYTHON:
        raise TypeError("%s() is a function of ctypes.PyDLL, which needs the "
                        "GIL, and a task runs without: call it in Python, or "
                        "load its library by ctypes.CDLL" % name)
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    by = _Ctypes(function)
    try:
        checked = by.check is not None
        return CFunction(name, address, _returned_kind(by.result, checked),
                         None if by.types is None else
                         "".join(map(_argument_kind, by.types)),
                         function, by.convert, by.make)
    except TypeError as error:
        raise TypeError("%s(): %s" % (name, error)) from None


def _from_numba(function: Any) -> CFunction:
    made = _from_ctypes(function.ctypes)
    name = getattr(function, "__name__", None) or \
        getattr(function, "native_name", None) or "cfunc"
    return CFunction(name, made.address, made.result, made.arguments, function,
                     made.convert, made.make)


# Names of the last word of a type, and letters of its arguments.
_KINDS = {"double": "d", "float": "f", "void": "v", "bool": "?", "_Bool": "?",
          "char": _PASSED[ctypes.c_byte], "short": "h", "int": "w",
          "int8_t": "b", "uint8_t": "B", "int16_t": "h", "uint16_t": "H",
          "int32_t": "w", "uint32_t": "W", "int64_t": "q", "uint64_t": "Q",
          "long": _PASSED[ctypes.c_long], "longlong": "q", "ssize_t": "q",
          "Py_ssize_t": "q", "size_t": "Q", "ptrdiff_t": "q", "intptr_t": "q",
          "uintptr_t": "Q", "npy_intp": "q", "utime_ns": "q",
          "engine_id": "Q"}
# What is not passed as it is in a register of integers or of doubles.
_REFUSED = re.compile(r"\b(long double|longdouble|complex|_Complex|struct|"
                      r"union)\b")


def _kind_of_text(text: str) -> str:
    """Returns the kind of a type such as "unsigned long" or "const char *".
    What has another name counts as an integer."""
    if re.search(r"[*\[]", text):
        pointed = text[:max(text.rfind("*"), text.find("["))]
        return "p" if re.search(r"\bconst\b[^*]*$", pointed) else "P"
    if _REFUSED.search(text):
        raise TypeError("%r is not supported: a C function takes integers, "
                        "pointers, doubles and floats, and returns integers, "
                        "double, float, a pointer or nothing" % text)
    unsigned = re.search(r"\bunsigned\b", text)
    text = re.sub(r"\b(const|volatile|unsigned|signed)\b", "", text)
    text = re.sub(r"\bint\b", "", text) if re.search(
        r"\b(long|short)\b", text) else text
    text = re.sub(r"\blong\s+long\b", "longlong", text).strip() or "int"
    letter = _KINDS.get(text.split(" ")[-1], "i")
    return letter.upper() if unsigned and letter in "bhwq" else letter


def _kinds_of_text(text: str) -> tuple[str, str | None]:
    """Returns the kinds of a prototype such as "double (double, void *)"."""
    while re.search(r"\([^()]*\)\s*\(", text):        # pointers to functions
        text = re.sub(r"\(\s*(\*?)[^()]*\)\s*\([^()]*\)", r"\1", text)
    match = re.match(r"\s*(.*?)\s*\(\s*(.*?)\s*\)\s*(nogil|noexcept|\s)*$",
                     text)
    if match is None:
        return "i", None
    result = _kind_of_text(match.group(1))
    kinds = "".join(_kind_of_text(part) for part in
                    match.group(2).split(",") if part.strip() not in
                    ("", "void"))
    result = "L" if result in "pP" else result
    return _OF_RESULT.get(result, result), kinds


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
    by = _Cffi(kind)
    return CFunction("cffi", int(backend.cast(word, function)),
                     _cffi_result(kind.result),
                     "".join(map(_cffi_kind, kind.args)), function, by.convert,
                     by.make)


_CHARACTERS = re.compile(r"(char|wchar_t|char16_t|char32_t)$")


def _cffi_kind(kind: Any) -> str:
    """Returns the kind of a type of cffi."""
    if kind.kind in ("pointer", "array", "function") or \
            _CHARACTERS.match(kind.cname):
        return "P"                      # a word, as cffi says
    if kind.kind == "void":
        return "v"
    name = kind.cname
    if kind.kind not in ("primitive", "enum") or "complex" in name.lower() or \
            name == "long double":
        raise TypeError("%s by value is not supported: a C function takes "
                        "integers, pointers, doubles and floats" % name)
    if name in ("double", "float", "_Bool"):
        return {"double": "d", "float": "f", "_Bool": "?"}[name]
    backend = _ffi()
    signed = int(backend.cast(kind, -1)) < 0
    return _BY_SIZE[backend.sizeof(kind)][0 if signed else 1]


def _cffi_result(kind: Any) -> str:
    letter = _cffi_kind(kind)
    if letter in "P?":
        return "O"                      # an object of cffi, bytes or str
    return _OF_RESULT.get(letter, letter)


class _Cffi:
    """Converts arguments and results of a function of cffi, by cffi."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.calls: dict[Any, Any] = {}

    def call(self, number: int, result: Any, *types: Any) -> Any:
        """Returns same_word() or real_bits() with a type of its own."""
        backend = _ffi()
        key = number, result, types
        if key not in self.calls:
            made = backend.new_function_type(types, result)
            self.calls[key] = backend.cast(made, _usched.converters()[number])
        return self.calls[key]

    def convert(self, number: int, value: Any) -> Any:
        """See put_by_library() in pyrecord.c."""
        backend = _ffi()
        kind = self.kind.args[number]
        kept = value
        if kind.kind in ("pointer", "array"):
            item = kind.item
            view = None if _is_cdata(value) else _buffer(value)
            if view is not None:
                _check_items(view, 0 if item.kind in ("void", "function") else
                             backend.sizeof(item), item.cname in (
                                 "double", "float"), kind.cname)
                return None
            if isinstance(value, (list, tuple, str)) and \
                    item.kind not in ("void", "function"):
                # cffi would free it after the call.
                kept = value = backend.newp(
                    backend.new_array_type(kind, None), value)
        real = kind.cname in ("double", "float")
        word = backend.new_primitive_type("uint64_t")
        return kept, self.call(int(real), word, kind)(value), real

    def make(self, word: int, error: int, arguments: tuple[Any, ...]) -> Any:
        """Makes a result, as a call of the function would."""
        return self.call(0, self.kind.result,
                         _ffi().new_primitive_type("uint64_t"))(word)


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
    result      int (a C int), "long", float (a double), "float", a number of
                ctypes, or None; by default what the object declares, or int
    arguments   a letter for each: i any integer, p pointer, d double, f float;
                integers of 8, 16, 32 and 64 bits: b h w q, unsigned: B H W Q;
                ? bool; P pointer to what may be written. By default what the
                object declares, or else what is passed
    name        for messages; by default the name of the function

    Where types are declared, arguments and results are converted as by a call
    through ctypes or cffi: width, sign, errors, from_param(), errcheck, pointers
    as results. Besides, a pointer takes a buffer of their items that can be
    written. What ctypes
    is told later about the function counts for later calls of this one.

    An address or a name without a prototype is believed: as in C, a wrong
    prototype is undefined behaviour.

    Raises TypeError if it is no C function, or one that needs the GIL,
    LookupError if there is none of that name, OSError if the library cannot be
    loaded.
    """
    made = _by_name(function, library) if isinstance(function, str) else \
        _from_any(function)
    if result == "declared" and arguments is None and name is None:
        return made
    return CFunction(name or made.name, made.address,
                     made.result if result == "declared" else
                     _result_kind(result),
                     made.arguments if arguments is None else arguments,
                     made.owner, made.convert if arguments is None else None,
                     made.make)
