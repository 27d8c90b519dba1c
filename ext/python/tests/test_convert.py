# SPDX-License-Identifier: MIT
"""Functions of ctypes and cffi convert arguments and results as their own calls
do: the same random calls made directly and by the engine give equal results,
or exceptions of the same type. What needs Python is refused."""

import array
import ctypes
import gc
import os
import random
import re
import unittest
import weakref

from usched_engine import Engine, TaskError, get_c_function

PATH = os.environ["USCHED_TEST_LIBRARY"]
PATIENCE = 20
SEED = int(os.environ.get("SEED") or os.getpid())


class Tiny(ctypes.c_int):
    pass


class Even:
    """An argument type of a program."""
    @classmethod
    def from_param(cls, value):
        if isinstance(value, float):
            return ctypes.c_double(value)
        if value % 2:
            raise ValueError("odd")
        return ctypes.c_int(value)


class Holds:
    _as_parameter_ = 5


class Index:
    def __index__(self):
        return 300


class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_int)]


CTYPES = [ctypes.c_byte, ctypes.c_ubyte, ctypes.c_short, ctypes.c_ushort,
          ctypes.c_int, ctypes.c_uint, ctypes.c_long, ctypes.c_ulong,
          ctypes.c_longlong, ctypes.c_ulonglong, ctypes.c_bool, ctypes.c_char,
          ctypes.c_wchar, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_wchar_p,
          ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_char),
          ctypes.POINTER(Pair), ctypes.c_int * 3, Tiny]
REALS = [ctypes.c_double, ctypes.c_float]
NUMBERS = [0, 1, -1, 2, 44, 127, 128, 255, 256, 300, -128, -129, 32768, 65536,
           2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, -2 ** 31, 2 ** 63 - 1,
           2 ** 63, 2 ** 64 - 1, 2 ** 64, 2 ** 70, -2 ** 63, -2 ** 63 - 1,
           True, False, .5, -2.75, 1e300, 3.0]
KEPT = (ctypes.c_int * 3)(1, 2, 3)
OTHERS = [None, b"", b"a", b"abc", "", "a", "abc", "\u20ac", bytearray(b"a"),
          Index(), Holds(), ctypes.c_int(5), ctypes.c_ubyte(200), Tiny(7),
          ctypes.c_double(1.5), ctypes.c_char(b"q"), ctypes.c_wchar("w"), KEPT,
          ctypes.byref(KEPT), ctypes.pointer(ctypes.c_int(9)),
          ctypes.c_void_p(77), ctypes.c_char_p(b"held"), Pair(1, 2),
          ctypes.pointer(Pair(3, 4)), ctypes.byref(Pair(3, 4)), [1], (1, 2),
          {}, object(), len, ctypes.c_char_p(None)]


def outcome(call):
    """Returns a value, or the name of an exception. ctypes has its own around
    that of the conversion."""
    try:
        return plain(call())
    except ctypes.ArgumentError as error:
        return re.search(r"(\w+)(?:'>)?: ", str(error).split(":", 1)[1] +
                         ": ").group(1)
    except Exception as error:
        return type(error).__name__


def plain(value):
    """Returns what can be compared, with its type."""
    if isinstance(value, ctypes._SimpleCData):
        return type(value).__name__, value.value
    if isinstance(value, ctypes._Pointer):
        return type(value).__name__, ctypes.cast(value, ctypes.c_void_p).value
    if isinstance(value, float):
        return repr(value)
    return type(value).__name__, value


class WithEngine(unittest.TestCase):
    def setUp(self):
        self.engine = Engine(workers=2, gil_threads=0)
        self.addCleanup(self.engine.shutdown, PATIENCE)
        self.random = random.Random(SEED)

    def call(self, function, args, **options):
        return self.engine.c_spawn(function, args, **options).result(PATIENCE)

    def same(self, function, args, note=""):
        wanted = outcome(lambda: function(*args))
        got = outcome(lambda: self.call(function, args, check=False))
        self.assertEqual(got, wanted, "seed %d: %s%r, %s" % (
            SEED, note, args, function))
        return wanted


class Ctypes(WithEngine):
    def function(self, name, result, *types):
        made = getattr(ctypes.CDLL(PATH), name)
        made.restype, made.argtypes = result, types
        return made

    def test_arguments(self):
        """What the callee sees in its register, also of narrow types."""
        names = {1: "low8", 2: "low16", 4: "low32", 8: "word"}
        told = set()
        for kind in CTYPES:
            looks = [names[min(ctypes.sizeof(kind), 8)]]
            for value in NUMBERS + OTHERS:
                if isinstance(value, str) and kind is ctypes.c_wchar_p or \
                        isinstance(value, bytearray) and hasattr(
                            kind, "contents") or kind in (
                                ctypes.c_void_p, ctypes.c_char_p,
                                ctypes.c_wchar_p) and type(value) is bytearray:
                    continue            # see test_strings, test_buffers
                for name in looks:
                    made = self.function(name, ctypes.c_uint64, kind)
                    told.add(self.same(made, (value,), kind.__name__))
        self.assertGreater(len(told), 40)
        for kind in REALS:
            made = self.function("real" if kind is ctypes.c_double else
                                 "small", kind, kind)
            for value in NUMBERS + OTHERS:
                self.same(made, (value,), kind.__name__)

    def test_results(self):
        for kind in CTYPES + REALS + [None, lambda word: ("made", word)]:
            if isinstance(kind, type) and issubclass(kind, ctypes.Array) or \
                    kind in (ctypes.c_char_p, ctypes.c_wchar_p):
                continue
            real = kind in REALS
            made = self.function("real" if real else "word", kind,
                                 ctypes.c_double if real else
                                 ctypes.c_uint64)
            if kind is ctypes.c_float:
                made = self.function("small", kind, kind)
            for _ in range(20):
                value = self.random.choice([
                    0, 1, 65, 200, 2 ** 31, self.random.getrandbits(64),
                    self.random.getrandbits(16)])
                if kind is ctypes.c_wchar:
                    value %= 1000
                self.same(made, (float(value) if real else value,), str(kind))
        text = ctypes.c_char_p(b"some text")
        wide = ctypes.c_wchar_p("some text")
        for kind, value in ((ctypes.c_char_p, text), (ctypes.c_wchar_p, wide)):
            made = self.function("word", kind, kind)
            self.same(made, (value,))
            self.same(made, (None,))

    def test_several(self):
        """Arguments of all kinds beside each other, one by one and in
        batches."""
        wide = [kind for kind in CTYPES if ctypes.sizeof(kind) == 8 and
                kind is not ctypes.c_wchar_p]
        values = NUMBERS + [value for value in OTHERS if type(value) is not str]
        for _ in range(300):
            kinds = [self.random.choice(wide) for _ in range(4)]
            made = self.function("weigh", ctypes.c_uint64, *kinds)
            self.same(made, tuple(self.random.choice(
                [value for value in self.random.sample(values, 40) if outcome(
                    lambda: kind.from_param(value)) not in (
                        "TypeError", "ArgumentError")] or [None])
                for kind in kinds))
        made = self.function("mix", ctypes.c_double, ctypes.c_int,
                             ctypes.c_double, ctypes.c_float, Tiny)
        rows = [(n, n / 2, Index(), Tiny(n)) for n in range(50)]
        self.assertEqual(self.engine.c_spawn_many(made, rows).result(PATIENCE),
                         [made(*row) for row in rows])

    def test_strings(self):
        length = self.function("length", ctypes.c_long, ctypes.c_wchar_p)
        self.assertEqual([self.call(length, (text,)) for text in
                          ("", "a", "\u20acuro" * 100)], [0, 1, 400])
        many = self.engine.c_spawn_many(length, ["x" * n for n in range(99)])
        self.assertEqual(many.result(PATIENCE), list(range(99)))

    def test_own_types(self):
        made = self.function("low32", ctypes.c_int, Even)
        for value in (4, 5, "x"):
            self.same(made, (value,))
        mixed = self.function("either", ctypes.c_double, Even, Even)
        self.assertEqual(self.call(mixed, (4, 2.5)), 6.5)
        self.assertEqual(self.call(mixed, (2.5, 4)), 6.5)
        both = self.engine.c_spawn_many(mixed, [(2.5, 4), (4, 2.5)])
        self.assertEqual(both.result(PATIENCE), [6.5, 6.5])

    def test_undeclared(self):
        library = ctypes.CDLL(PATH)
        for value in (0, -1, 300, Holds(), b"abc", None, KEPT,
                      ctypes.byref(KEPT), ctypes.c_char(b"q"),
                      ctypes.c_wchar("w"), ctypes.c_ubyte(200), Tiny(7),
                      ctypes.pointer(KEPT), [1], object()):
            made = library.low32
            made.restype = ctypes.c_uint
            self.same(made, (value,))
        for wrong in (Pair(1, 2), ctypes.c_longdouble(1), ctypes.py_object(1),
                      "text", 1j):
            with self.assertRaises(TypeError):
                self.call(library.low32, (wrong,))

    def test_errcheck_and_errno(self):
        made = ctypes.CDLL(PATH, use_errno=True).sets_errno
        seen = []

        def check(result, function, arguments):
            seen.append((result, function is made, arguments,
                         ctypes.get_errno()))
            if result == 3:
                raise KeyError("three")
            return arguments if result == 4 else [result]
        made.argtypes, made.errcheck = [ctypes.c_int], check
        for value in (-1, 3, 4, 5):
            del seen[:]
            self.same(made, (value,))
            self.assertEqual(seen, [(value, True, (value,), abs(value))] * 2)
        many = self.engine.c_spawn_many(made, [4, 5])
        self.assertEqual(many.result(PATIENCE), [4, [5]])
        with self.assertRaises(KeyError):
            self.engine.c_spawn_many(made, [4, 3]).result(PATIENCE)

    def test_negative_numbers_are_errors_if_signed(self):
        for kind, fails in ((ctypes.c_int, True), (ctypes.c_long, True),
                            (ctypes.c_short, True), (ctypes.c_uint, False),
                            (ctypes.c_ulong, False), (ctypes.c_void_p, False)):
            made = self.function("word", kind, ctypes.c_long)
            if fails:
                with self.assertRaises(TaskError) as caught:
                    self.call(made, (-5,))
                self.assertEqual(caught.exception.errno, 5)
            else:
                self.assertEqual(self.call(made, (-5,)), made(-5))

    def test_buffers(self):
        """The engine adds buffers: of the right items, to be written."""
        doubles = self.function("fill", ctypes.c_int,
                                ctypes.POINTER(ctypes.c_double),
                                ctypes.c_size_t, ctypes.c_int)
        anything = self.function("fill", ctypes.c_int, ctypes.c_void_p,
                                 ctypes.c_size_t, ctypes.c_int)
        data = array.array("d", [1, 2])
        for made in doubles, anything:
            for value in data, memoryview(data):
                self.call(made, (value, 16, 0))
                self.assertEqual(list(data), [0, 0])
                value[0] = 5
            for wrong in (memoryview(data).toreadonly(),
                          memoryview(bytes(16)).cast("d")):
                with self.assertRaisesRegex(TypeError, "1: .*read-only"):
                    self.call(made, (wrong, 16, 0))
        for wrong in (bytearray(16), array.array("f", [1]),
                      array.array("q", [1]), b"x" * 16, bytes):
            with self.assertRaisesRegex(TypeError, r"fill\(\), argument 1"):
                self.call(doubles, (wrong, 16, 0))
        self.call(anything, (bytearray(16), 16, 0))

    def test_refused(self):
        for name in ("PyList_New", "PyLong_FromLong"):
            with self.assertRaisesRegex(TypeError, name + ".*PyDLL.*GIL"):
                get_c_function(getattr(ctypes.pythonapi, name))
        for result, types in ((ctypes.py_object, ()), (Pair, ()),
                              (None, [Pair]), (None, [ctypes.py_object]),
                              (ctypes.c_longdouble, ()),
                              (None, [ctypes.c_longdouble])):
            with self.assertRaisesRegex(TypeError, r"word\(\): .*support"):
                get_c_function(self.function("word", result, *types))


class Cycles(unittest.TestCase):
    def test_cycles_are_collected(self):
        class Owner:
            pass
        with Engine(workers=1, gil_threads=0):
            owner = Owner()
            owner.function = get_c_function("abs")
            owner.function = type(owner.function)(
                "abs", owner.function.address, owner=owner)
            seen = [weakref.ref(owner)]
            made = ctypes.CDLL(PATH).low32
            made.argtypes, made.restype = [Tiny], Tiny
            made.mine = get_c_function(made)
            seen.append(weakref.ref(made))
            del owner, made
            gc.collect()
            self.assertEqual([ref() for ref in seen], [None, None])


def cffi_of():
    try:
        import cffi
    except ImportError:
        raise unittest.SkipTest("no cffi (package python3-cffi)") from None
    return cffi.FFI()


class Cffi(WithEngine):
    TYPES = ["signed char", "unsigned char", "short", "unsigned short", "int",
             "unsigned", "long", "unsigned long", "int8_t", "uint32_t",
             "ssize_t", "size_t", "_Bool", "char", "wchar_t", "enum color",
             "float", "double", "int *", "char *", "void *", "enum few",
             "struct pair *", "int (*)(int)", "double *", "wchar_t *",
             "char16_t", "char32_t"]

    def library(self):
        ffi = cffi_of()
        ffi.cdef("enum color { RED, BLUE = 4000000000 };"
                 "enum few { A = -1, B }; struct pair { int a, b; };"
                 "unsigned long word(unsigned long); double real(double);"
                 "float small(float); int fill(double *, size_t, int);"
                 "int length(const wchar_t *); long total(int *, int);")
        return ffi, ffi.dlopen(PATH)

    def same(self, function, args, note=""):
        wanted = outcome(lambda: self.told(function(*args)))
        got = outcome(lambda: self.told(self.call(function, args,
                                                  check=False)))
        self.assertEqual(got, wanted, "seed %d: %s%r" % (SEED, note, args))
        return wanted

    def told(self, value):
        try:
            return str(self.ffi.typeof(value)), int(self.ffi.cast(
                "uintptr_t", value))
        except TypeError:
            return value

    def test_all_types(self):
        self.ffi, lib = ffi, _ = self.library()
        pair = ffi.new("struct pair *")
        numbers = ffi.new("int[]", [1, 2])
        values = NUMBERS + [
            None, b"a", b"abc", "a", "\u20ac", bytearray(b"a"), Index(), pair,
            numbers, ffi.NULL, ffi.cast("int", 5), ffi.cast("char", b"x"),
            ffi.cast("enum color", 0), pair[0], ffi.cast("void *", 9), [1.5],
            {}, object(), ffi.cast("float", 2.5), lib.word]
        told = set()
        for name in self.TYPES:
            whole = name if name in ("float", "double") else "unsigned long"
            source = {"float": lib.small, "double": lib.real}.get(
                name, lib.word)
            typed = name if "(*)" not in name else "void *"
            takes = ffi.cast("%s (*)(%s)" % (whole, name), source)
            gives = ffi.cast("%s (*)(%s)" % (typed, whole), source)
            back = ffi.cast("%s (*)(%s)" % (typed, name), source)
            for value in values:
                if isinstance(value, (bytes, str)) and name == "wchar_t *":
                    continue            # a copy
                if "*" in name and isinstance(value, list) or \
                        isinstance(value, bytearray):
                    continue
                told.add(self.same(back, (value,), name))
                if "*" in name:
                    told.add(self.same(takes, (value,), name))
            for _ in range(20):
                value = self.random.choice([0, 1, 65, 200, 2 ** 31, 2 ** 32 - 1,
                                            self.random.getrandbits(64)])
                if name in ("wchar_t", "char32_t"):
                    value %= 1000
                self.same(gives, (float(value) if whole != "unsigned long"
                                  else value,), name)
        self.assertGreater(len(told), 60)

    def test_copies(self):
        """Arrays and text that cffi would free after the call."""
        ffi, lib = self.library()
        self.assertEqual(self.call(lib.total, ([1, 2, 3], 3)), 6)
        self.assertEqual(self.call(lib.total, ((4, 5), 2)), 9)
        many = self.engine.c_spawn_many(
            lib.total, [([n] * 50, 50) for n in range(50)])
        self.assertEqual(many.result(PATIENCE),
                         [50 * n for n in range(50)])
        self.assertEqual(self.call(lib.length, ("\u20acuro",)), 4)

    def test_buffers(self):
        ffi, lib = self.library()
        data = array.array("d", [1, 2])
        self.call(lib.fill, (data, 16, 0))
        self.assertEqual(list(data), [0, 0])
        for wrong in (memoryview(data).toreadonly(), b"x" * 16,
                      array.array("q", [1, 2]), bytearray(16)):
            with self.assertRaises(TypeError):
                self.call(lib.fill, (wrong, 16, 0))

    def test_refused(self):
        ffi, lib = self.library()
        for text in ("struct pair (*)(void)", "long double (*)(void)",
                     "int (*)(struct pair)", "int (*)(long double)"):
            with self.assertRaisesRegex(TypeError, "not supported"):
                get_c_function(ffi.cast(text, lib.word))


if __name__ == "__main__":
    unittest.main()
