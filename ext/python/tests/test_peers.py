# SPDX-License-Identifier: MIT
"""Functions of numba and SciPy, cffi, and capsules run as tasks; loops of
uvloop and bars of tqdm work; libraries call the C functions of the package."""

import asyncio
import ctypes
import importlib.util
import io
import os
import shlex
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr

import usched_engine
from usched_engine import (Engine, EngineClosed, EngineFull, TaskError,
                           get_c_function)

C = ctypes.CDLL(os.environ["USCHED_TEST_LIBRARY"])
C.mean.restype = ctypes.c_double
CC = shlex.split(os.environ.get("CC") or "cc")
PATIENCE = 20


def needs(module, package):
    return unittest.skipUnless(importlib.util.find_spec(module),
                               "no %s (package %s)" % (module, package))


def capsule_of(address, text):
    """Returns a capsule, as Cython and SciPy make it. text must stay."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(address, text, None)


def address_of(function):
    return ctypes.cast(function, ctypes.c_void_p).value


class WithEngine(unittest.TestCase):
    def setUp(self):
        self.engine = Engine()
        self.addCleanup(self.engine.shutdown, PATIENCE)

    def call(self, *args, **options):
        return self.engine.c_spawn(*args, **options).result(PATIENCE)


class Functions(WithEngine):
    def test_capsules(self):
        data = (ctypes.c_double * 2)(1, 2)
        text = b"double (double const *, long)"
        mean = capsule_of(address_of(C.mean), text)
        self.assertEqual(self.call(mean, (data, 2)), 1.5)
        self.assertEqual(get_c_function(mean).arguments, "pq")
        untyped = capsule_of(address_of(C.add), None)
        self.assertEqual(self.call(untyped, (1, 2)), 3)
        for text in (b"long double (int)", b"int (float complex)", b"int (struct pair)"):
            with self.assertRaises(TypeError):
                get_c_function(capsule_of(address_of(C.add), text))
        kept = [b"unsigned long (void)", b"long int (int, double)",
                b"char const *(char *)", b"void (void) noexcept nogil",
                b"float (float, float)", b"uint64_t (size_t)",
                b"int (int (*)(void *, void *), void *, double)",
                b"void (long unsigned int, struct pair *, unsigned char)",
                b"short (signed char, uint8_t, unsigned short int)",
                b"_Bool (char const *)"]
        self.assertEqual(
            [(made.result, made.arguments) for made in
             (get_c_function(capsule_of(1, text)) for text in kept)],
            [("L", ""), ("l", "wd"), ("L", "P"), ("v", ""), ("f", "ff"),
             ("L", "Q"), ("i", "PPd"), ("v", "QPB"), ("h", "bBH"),
             ("?", "p")])
        with self.assertRaises(OverflowError):
            self.engine.c_spawn(capsule_of(address_of(C.add), b"int (int)"),
                                (1 << 31,))
        with self.assertRaisesRegex(TypeError, "read-only"):
            self.engine.c_spawn(capsule_of(
                address_of(C.fill), b"int (void *, size_t, int)"),
                (b"abc", 3, 0))

    @needs("numba", "python3-numba")
    def test_numba(self):
        import numba
        import numpy

        @numba.cfunc("float64(CPointer(float64), int64)")
        def total(values, nr):
            result = 0.0
            for n in range(nr):
                result += values[n]
            return result

        @numba.njit
        def compiled(n):
            return n
        data = numpy.arange(100.0)
        self.assertEqual(self.call(total, (data, 100)), 4950.0)
        by_address = get_c_function(total.address, result=float)
        self.assertEqual(self.call(by_address, (data, 100)), 4950.0)
        many = self.engine.c_spawn_many(total, [(data, n) for n in range(9)])
        self.assertEqual(many.result(PATIENCE)[8], 28.0)
        with self.assertRaises(TypeError):
            self.engine.c_spawn(compiled, (1,))

    @needs("scipy", "python3-scipy")
    def test_scipy(self):
        from scipy import LowLevelCallable
        data = (ctypes.c_double * 2)(1, 2)
        C.mean.argtypes = [ctypes.c_void_p, ctypes.c_long]
        self.addCleanup(setattr, C.mean, "argtypes", None)
        self.assertEqual(self.call(LowLevelCallable(C.mean), (data, 2)), 1.5)
        text = b"double (double *, long)"
        made = LowLevelCallable(capsule_of(address_of(C.mean), text))
        self.assertEqual(self.call(made, (data, 2)), 1.5)
        with self.assertRaises(TypeError):
            self.call(LowLevelCallable(
                ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(abs)))

    @needs("cffi", "python3-cffi")
    def test_cffi(self):
        import cffi
        ffi = cffi.FFI()
        ffi.cdef("double mean(double *d, long nr); int add(int, int);"
                 "int fill(void *, size_t, int); struct pair { int a, b; };")
        lib = ffi.dlopen(os.environ["USCHED_TEST_LIBRARY"])
        self.assertEqual(self.call(get_c_function("add", lib), (1, 2)), 3)
        room = ffi.new("char[4]")
        self.assertIs(self.call(lib.fill, (room, 4, 7), out=room), room)
        self.assertEqual(bytes(ffi.buffer(room)), b"\7\7\7\7")
        pointer = ffi.cast("int (*)(int, int)", lib.add)
        self.assertEqual(self.call(pointer, (2, 3)), 5)
        self.assertEqual(self.call(lib.fill, (ffi.NULL, 0, 0)), 0)
        calls_python = ffi.callback("int (int, int)", lambda a, b: 1)
        pair = ffi.new("struct pair *")
        for wrong in (calls_python, ffi.new("int *"), ffi.cast("int", 5)):
            with self.assertRaises(TypeError):
                self.engine.c_spawn(wrong, (1, 2))
        with self.assertRaises(TypeError):
            self.engine.c_spawn(lib.fill, (pair[0], 4, 7))
        with self.assertRaises(LookupError):
            get_c_function("no_such", lib)


class Loops(unittest.TestCase):
    async def main(self):
        async with Engine(workers=2, gil_threads=0) as engine:
            one = engine.c_spawn(C.add, (40, 2))
            many = engine.c_spawn_many(C.add, [(n, n) for n in range(100)])
            self.assertEqual(await one, 42)
            self.assertEqual(await many, list(range(0, 200, 2)))
            with self.assertRaises(TaskError):
                await engine.c_spawn(C.add, (-5, 0))
            task = asyncio.ensure_future(self.waits(engine))
            await asyncio.sleep(0.01)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            engine.resume()
            left = engine.c_spawn(C.nap, (20, None))
        self.assertEqual(left.result(0), 20)    # the end waits for it
        with self.assertRaises(EngineClosed):
            engine.c_spawn(C.add, (1, 1))

    async def waits(self, engine):
        engine.pause("start")
        await engine.c_spawn(C.add, (1, 1))

    def test_asyncio(self):
        asyncio.run(self.main())

    def test_error_in_async_with(self):
        async def main():
            async with Engine() as engine:
                engine.pause("start")
                self.queued = engine.c_spawn(C.add, (1, 1))
                raise KeyError("x")
        with self.assertRaises(KeyError):
            asyncio.run(main())
        self.assertTrue(self.queued.cancelled())

    @needs("uvloop", "python3-uvloop")
    def test_uvloop(self):
        import uvloop
        for _ in range(3):
            loop = uvloop.new_event_loop()
            try:
                loop.run_until_complete(self.main())
            finally:
                loop.close()

    @needs("uvloop", "python3-uvloop")
    def test_several_loops_of_an_engine(self):
        import uvloop
        with Engine() as engine:
            async def main():
                return await asyncio.gather(*(
                    engine.c_spawn(C.add, (n, 1)) for n in range(50)))
            for make in (uvloop.new_event_loop, asyncio.new_event_loop) * 2:
                loop = make()
                self.assertEqual(loop.run_until_complete(main())[49], 50)
                loop.close()


class Abandoned(WithEngine):
    def test_calls_that_fitted_are_cancelled(self):
        self.engine.shutdown()
        with Engine(tasks=100) as engine:
            engine.pause("start")
            data = bytearray(8)
            for _ in range(3):
                with self.assertRaises(EngineFull):
                    engine.c_spawn_many(C.fill, [(data, 8, 1)] * 200,
                                        block=False)
            engine.resume()
            engine.c_spawn(C.add, (1, 1)).result(PATIENCE)
            engine.wait_all(PATIENCE)
            data.extend(b"x")                   # no pin is left
            stats = engine.get_stats()
            self.assertEqual((stats["tasks_canceled"], stats["tasks_memory"]),
                             (300, 0))


class Notebook(WithEngine):
    @needs("tqdm", "python3-tqdm")
    def test_progress(self):
        futures = [self.engine.c_spawn(C.nap, (200, None))
                   for _ in range(10)]
        with redirect_stderr(io.StringIO()) as shown:
            self.engine.wait_all(PATIENCE, progress=True)
        self.assertIn("10/10", shown.getvalue())
        self.assertTrue(all(future.done() for future in futures))

    def test_silence(self):
        self.engine.c_spawn(C.nap, (600, None))
        with redirect_stderr(io.StringIO()) as shown:
            self.engine.wait_all(PATIENCE)
        self.assertEqual(shown.getvalue(), "")


class Symbols(WithEngine):
    SOURCE = """
#include <usched/uengine.h>
#include <usched/usync.h>
static struct umutex lock;
long counts;

int counting(long rounds)
{
	for (long n = 0; n < rounds; n++) {
		if (umutex_lock(&lock, UNEVER) != 0)
			return -EINTR;
		counts++;
		umutex_unlock(&lock);
		(void)u_sleep(uafter(1000));
	}
	return engine_self() != 0 ? 0 : -ENOENT;
}

int sums(const char *name)
{
	size_t size;
	void *data;
	int sum = 0, rc = engine_bus_get(name, &data, &size);

	for (size_t n = 0; rc == 0 && n < size; n++)
		sum += ((unsigned char *)data)[n];
	return rc == 0 ? sum : rc;
}
"""

    def test_library_calls_the_package(self):
        """In a process of its own, where symbols are not shared yet."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "own.so")
            subprocess.run(
                CC + ["-std=gnu11", "-O2", "-shared", "-fPIC", "-Wall",
                      "-Werror", "-include", "errno.h",
                      "-I" + usched_engine.get_include(), "-o", path, "-xc",
                      "-"], input=self.SOURCE.encode(), check=True)
            program = """
import ctypes, sys
from usched_engine import *
with Engine(shared_memory=1000) as engine:
    counting = get_c_function("counting", %r)
    futures = [engine.c_spawn(counting, (10,)) for n in range(100)]
    assert [f.result(20) for f in futures] == [0] * 100
    library = ctypes.CDLL(%r)
    assert ctypes.c_long.in_dll(library, "counts").value == 1000
    engine.memory_bus_push("a", bytes([1, 2, 3]))
    assert engine.c_spawn(library.sums, (b"a\\0",)).result(20) == 6
    try: engine.c_spawn(library.sums, (b"b\\0",)).result(20)
    except TaskError as error: print(error)
    assert engine.get_stats()["shared_memory_pins"] == 0
""" % (path, path)
            done = subprocess.run([sys.executable, "-c", program], timeout=60,
                                  cwd=folder, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
        self.assertIn("task sums: No such file or directory",
                      done.stdout.decode())
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
