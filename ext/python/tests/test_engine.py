# SPDX-License-Identifier: MIT
"""C functions run as tasks, and their futures tell what happened; bad input
raises an exception with a sentence, and leaks nothing."""

import array
import asyncio
import concurrent.futures
import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
import unittest

from usched_engine import (Engine, EngineClosed, EngineFull, TaskError,
                           get_c_function)

C = ctypes.CDLL(os.environ["USCHED_TEST_LIBRARY"])
C.mean.restype = ctypes.c_double
C.mix.restype = ctypes.c_double
C.mix.argtypes = [ctypes.c_int, ctypes.c_double, ctypes.c_float,
                  ctypes.c_long]
PATIENCE = 20


class WithEngine(unittest.TestCase):
    options = {"shared_memory": "1MB"}

    def setUp(self):
        self.engine = Engine(**self.options)
        self.addCleanup(self.engine.shutdown, PATIENCE)

    def call(self, *args, **options):
        return self.engine.c_spawn(*args, **options).result(PATIENCE)


class Calls(WithEngine):
    def test_values(self):
        self.assertEqual(self.call(C.add, (40, 2)), 42)
        self.assertEqual(self.call(C.mix, (1, 2, 0.5, 3)), 6.5)
        data = array.array("d", [1, 2, 6])
        self.assertEqual(self.call(C.mean, (data, 3)), 3.0)

    def test_buffer_is_filled_without_a_copy(self):
        for data in (bytearray(100), memoryview(bytearray(100)),
                     (ctypes.c_char * 100)()):
            got = self.call(C.fill, (data, 100, 7), out=data)
            self.assertIs(got, data)
            self.assertEqual(bytes(data), b"\7" * 100)

    def test_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no numpy (package python3-numpy)")
        data = numpy.arange(1001.0)
        self.assertEqual(self.call(C.mean, (data, numpy.int64(1001))), 500.0)
        with self.assertRaises(BufferError):
            self.engine.c_spawn(C.mean, (data[::2], 3))

    def test_cffi(self):
        try:
            import cffi
        except ImportError:
            self.skipTest("no cffi (package python3-cffi)")
        ffi = cffi.FFI()
        ffi.cdef("double mean(double *d, long nr);")
        lib = ffi.dlopen(os.environ["USCHED_TEST_LIBRARY"])
        data = ffi.new("double[]", [2, 4])
        self.assertEqual(self.call(lib.mean, (data, 2)), 3.0)

    def test_pinned_until_the_end(self):
        data = bytearray(8)
        future = self.engine.c_spawn(C.nap, (20, data))
        with self.assertRaises(BufferError):
            data.extend(b"x")
        future.result(PATIENCE)
        data.extend(b"x")

    def test_error_names_the_task(self):
        with self.assertRaises(TaskError) as caught:
            self.call(C.add, (-30, 2), name="sums")
        self.assertEqual(caught.exception.errno, 28)
        self.assertIn("sums", str(caught.exception))
        self.assertEqual(self.call(C.add, (-30, 2), check=False), -28)

    def test_many(self):
        many = self.engine.c_spawn_many(C.add, [(n, n) for n in range(1000)])
        self.assertEqual(many.result(PATIENCE), list(range(0, 2000, 2)))
        self.assertEqual(self.engine.c_spawn_many(C.add, []).result(5), [])
        many = self.engine.c_spawn_many(C.add, [(1, 1), (-3, 1), (-4, 1)])
        with self.assertRaises(TaskError) as caught:
            many.result(PATIENCE)
        self.assertEqual((caught.exception.index, caught.exception.errno),
                         (1, 2))

    def test_wrong_arguments(self):
        spawn = self.engine.c_spawn
        released = memoryview(b"x")
        released.release()
        for wrong, args in ((TypeError, ("text",)), (TypeError, ([1],)),
                            (TypeError, 5), (OverflowError, (1 << 70,)),
                            (ValueError, (1,) * 7), (ValueError, (.5,) * 9),
                            (ValueError, (released,))):
            with self.assertRaises(wrong, msg=repr(args)):
                spawn(C.fill, args)
        with self.assertRaises(TypeError):
            spawn(C.mix, (1.5, 2, 0.5, 3))
        for wrong, function in ((TypeError, len), (TypeError, None),
                                (ValueError, 0), (LookupError, "no_such")):
            with self.assertRaises(wrong):
                spawn(function)
        with self.assertRaises(TypeError):
            spawn(ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 1))
        for priority in (-1, 8):
            with self.assertRaises(ValueError):
                spawn(C.add, (1, 2), priority)
        with self.assertRaises(RuntimeError):
            Engine()

    def test_nothing_leaks(self):
        data, name = bytearray(10), "task" * 20
        before = sys.getrefcount(data), sys.getrefcount(name)
        for _ in range(100):
            self.call(C.fill, (data, 10, 1), name=name)
            with self.assertRaises(TypeError):
                self.engine.c_spawn(C.fill, (data, "x"), name=name)
        self.engine.wait_all(PATIENCE)
        gc.collect()
        self.assertEqual((sys.getrefcount(data), sys.getrefcount(name)),
                         before)
        self.assertEqual(self.engine.get_stats()["tasks_memory"], 0)


class Waits(WithEngine):
    def test_asyncio(self):
        async def main():
            results = await asyncio.gather(*(
                self.engine.c_spawn(C.add, (n, 1)) for n in range(100)))
            self.assertEqual(results, list(range(1, 101)))
            future = self.engine.c_spawn(C.nap, (5, None))
            self.assertEqual(future.result(PATIENCE), 5)  # blocks its loop
            with self.assertRaises(TaskError):
                await self.engine.c_spawn(C.add, (-5, 0))
        asyncio.run(main())

    def test_outlives_its_loop(self):
        async def main():
            return self.engine.c_spawn(C.nap, (20, None))
        self.assertEqual(asyncio.run(main()).result(PATIENCE), 20)

    def test_loops_that_do_not_run(self):
        """Threads wait for futures of a loop that has stopped, or that is
        closed, or in which they run; callbacks are called."""
        def waited(futures):
            told = []
            for future in futures:
                future.add_done_callback(told.append)
            done, left = concurrent.futures.wait(futures, PATIENCE)
            self.assertEqual((len(done), len(left)), (3, 0))
            self.assertEqual(set(told), done)
            return [future.result(0) for future in futures]

        async def main():
            return [self.engine.c_spawn(C.nap, (n, None))
                    for n in (20, 5, 30)]

        async def blocks():
            return waited(await main())
        loop = asyncio.new_event_loop()
        self.assertEqual(waited(loop.run_until_complete(main())), [20, 5, 30])
        self.assertEqual(loop.run_until_complete(blocks()), [20, 5, 30])
        loop.close()
        self.assertEqual(asyncio.run(blocks()), [20, 5, 30])
        futures = asyncio.run(main())
        asyncio.run(blocks())               # forgets the closed loop
        self.assertEqual(waited(futures), [20, 5, 30])
        with self.assertRaises(TimeoutError if sys.version_info >= (3, 11)
                               else concurrent.futures.TimeoutError):
            asyncio.run(main())[2].result(0)

    @unittest.skipUnless(os.path.exists("/proc/self/fd"), "no /proc")
    def test_loops_leave_no_descriptors(self):
        async def main():
            return [self.engine.c_spawn(C.nap, (n, None)) for n in range(3)]

        def descriptors():
            self.engine.wait_all(PATIENCE)
            asyncio.run(main())
            gc.collect()
            return len(os.listdir("/proc/self/fd"))
        concurrent.futures.wait(asyncio.run(main()))
        before = descriptors()
        for n in range(60):
            futures = asyncio.run(main())
            if n % 3 == 0:
                concurrent.futures.wait(futures)
        until = time.monotonic() + PATIENCE     # for the collector
        while descriptors() > before + 5 and time.monotonic() < until:
            pass
        self.assertLess(time.monotonic(), until)

    def test_functions_of_asyncio(self):
        """asyncio waits for futures, whether they have ended or not."""
        async def futures(ended):
            spawn = self.engine.c_spawn
            made = [spawn(C.nap, (1, None)), spawn(C.add, (-5, 0)),
                    spawn(C.add, (3, 0))]
            while ended and not all(future.done() for future in made):
                await asyncio.sleep(0.001)
            return made

        async def cancelled():
            self.engine.pause("start")
            future = self.engine.c_spawn(C.add, (1, 1))
            self.engine.resume()
            return [future] if future.cancel() else []

        async def main(ended):
            error = TaskError(5, "add")
            made = await futures(ended) + await cancelled()
            values = await asyncio.gather(*made, return_exceptions=True)
            self.assertEqual(list(map(str, values[:3])), ["1", str(error), "3"])
            self.assertIsInstance((values + [asyncio.CancelledError()])[3],
                                  asyncio.CancelledError)
            with self.assertRaises(TaskError):
                await asyncio.gather(*await futures(ended))
            self.assertEqual(await asyncio.shield((await futures(ended))[0]),
                             1)
            self.assertEqual(await asyncio.wait_for(
                (await futures(ended))[2], PATIENCE), 3)
            told = []
            for future in asyncio.as_completed(await futures(ended)):
                try:
                    told.append(await future)
                except TaskError:
                    told.append(-5)
            self.assertEqual(sorted(told), [-5, 1, 3])
            made = await futures(ended)
            tasks = [asyncio.ensure_future(future) for future in made]
            self.assertEqual((await asyncio.wait(tasks, timeout=PATIENCE))[1],
                             set())
            self.assertEqual([task.exception() is None for task in tasks],
                             [True, False, True])
            flag = bytearray(1)             # a function that does not stop
            future = self.engine.c_spawn(C.until, (flag,))
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(future, 0.01)
            self.assertFalse(future.done())
            flag[0] = 1
            self.assertEqual(await future, 1)
        for ended in (False, True):
            asyncio.run(main(ended))

    def test_short_calls_let_others_run(self):
        """Awaits of calls that have ended do not keep off other coroutines."""
        async def spawns():
            for n in range(320):
                future = self.engine.c_spawn(C.add, (n, 1))
                while sum(map(self.engine.get_stats().get,
                              ("tasks_in_queue", "tasks_running"))):
                    pass
                self.assertEqual(await future, n + 1)
            turns.append(None)

        async def main():
            task = asyncio.ensure_future(spawns())
            while not task.done():
                turns.append(1)
                await asyncio.sleep(0)
            await task
        turns = []
        asyncio.run(main())
        self.assertGreaterEqual(turns.index(None), 320 // 32)

        async def cancelled():
            task = asyncio.ensure_future(spawns())
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
        asyncio.run(cancelled())

    def test_concurrent_futures(self):
        futures = [self.engine.c_spawn(C.add, (n, 0)) for n in range(50)]
        done, left = concurrent.futures.wait(futures, PATIENCE)
        self.assertEqual((len(done), len(left)), (50, 0))
        told = []
        futures[0].add_done_callback(told.append)
        self.assertEqual(told, [futures[0]])

    def test_cancel_while_queued(self):
        self.engine.pause("start")
        future = self.engine.c_spawn(C.add, (1, 1))
        many = self.engine.c_spawn_many(C.add, [(1, 1)] * 100)
        self.assertTrue(future.cancel() and many.cancel())
        self.engine.resume()
        with self.assertRaises(concurrent.futures.CancelledError):
            future.result(PATIENCE)
        self.engine.wait_all(PATIENCE)
        self.assertEqual(self.engine.get_stats()["tasks_canceled"], 101)

    def test_coroutines(self):
        async def inner(n):
            return n + await self.engine.c_spawn(C.add, (n, 1))

        async def fails():
            raise KeyError("x")
        futures = [self.engine.spawn(inner(n)) for n in range(50)]
        self.assertEqual([f.result(PATIENCE) for f in futures],
                         [2 * n + 1 for n in range(50)])
        with self.assertRaises(KeyError):
            self.engine.spawn(fails()).result(PATIENCE)
        sleeps = self.engine.spawn(asyncio.sleep(1000))
        with self.assertRaises(TimeoutError):
            self.engine.wait_all(0.2)
        stack = self.engine.get_call_stack(sleeps)
        self.assertEqual(stack.frames[0].function_name, "sleep")
        sleeps.cancel()
        self.engine.wait_all(PATIENCE)
        self.assertTrue(sleeps.cancelled())
        with self.assertRaises(TypeError):
            self.engine.spawn(5)

    def test_help(self):
        self.engine.shutdown()
        with Engine(workers=1, gil_threads=1) as engine:
            future = engine.c_spawn(C.add, (1, 2))
            self.assertEqual(engine.help(1, PATIENCE), 1)
            self.assertEqual(future.result(PATIENCE), 3)
            self.assertEqual(engine.help(1), 0)
            timer = threading.Timer(0.2, engine.c_spawn, (C.add, (1, 2)))
            timer.start()
            self.assertEqual(engine.help(1, PATIENCE), 1)
            timer.join()


class Limits(WithEngine):
    options = {"tasks": 10, "shared_memory": 1000}

    def test_full(self):
        self.engine.pause("start")
        futures = [self.engine.c_spawn(C.add, (n, 0)) for n in range(10)]
        with self.assertRaises(EngineFull):
            self.engine.c_spawn(C.add, (1, 1), block=False)
        with self.assertRaises(TimeoutError):
            self.engine.c_spawn(C.add, (1, 1), timeout=0.05)
        with self.assertRaises(EngineFull):
            self.engine.c_spawn_many(C.add, [(1, 1)] * 5, block=False)
        self.engine.resume()
        self.assertEqual([f.result(PATIENCE) for f in futures],
                         list(range(10)))

    def test_room(self):
        async def spawns(n):
            while True:
                try:
                    return await self.engine.c_spawn(C.nap, (n % 3, None))
                except EngineFull:
                    await self.engine.room()

        async def main():
            self.assertEqual(await asyncio.gather(*map(spawns, range(100))),
                             [n % 3 for n in range(100)])
            self.engine.pause("start")
            futures = [self.engine.c_spawn(C.add, (n, 0)) for n in range(10)]
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(self.engine.room(), 0.02)
            waits = asyncio.ensure_future(self.engine.room())
            await asyncio.sleep(0)
            self.engine.resume()
            await waits
            await asyncio.gather(*futures)
            self.engine.pause("start")
            futures = [self.engine.c_spawn(C.add, (n, 0)) for n in range(10)]
            waits = asyncio.ensure_future(self.engine.room())
            await asyncio.sleep(0)
            self.engine.shutdown(PATIENCE)
            with self.assertRaises(EngineClosed):
                await waits
        asyncio.run(main())

    def test_bus(self):
        engine = self.engine
        data = bytearray(b"hello")
        self.assertEqual(engine.memory_bus_push("a", data), "a")
        engine.memory_bus_push("b", data, copy=False)
        with self.assertRaises(BufferError):
            data.extend(b"x")
        view = engine.memory_bus_get("a")
        self.assertEqual(bytes(view), b"hello")
        engine.memory_bus_get("b")[0] = 74
        self.assertEqual(data, b"Jello")
        for wrong, args in ((ValueError, ("a", b"x")),
                            (MemoryError, ("c", bytes(2000))),
                            (ValueError, ("c", b"x", 2))):
            with self.assertRaises(wrong):
                engine.memory_bus_push(*args)
        self.assertEqual(bytes(engine.memory_bus_pop("a")), b"hello")
        with self.assertRaises(KeyError):
            engine.memory_bus_get("a")
        self.assertEqual(engine.clear_memory_bus(), 1)
        data.extend(b"x")
        engine.shutdown()
        self.assertEqual(bytes(view), b"hello")     # outlives the engine
        with self.assertRaises(RuntimeError):
            Engine()
        view.release()
        Engine().shutdown()

    def test_sees(self):
        engine = self.engine
        self.call(C.add, (1, 1))
        self.assertIn("tasks_completed", repr(engine.get_stats()))
        self.assertIn("C threads", repr(engine))
        kinds = [info["type"] for info in engine.thread_info()]
        self.assertEqual(kinds[-1], "GIL_THREAD")
        with self.assertRaises(LookupError):
            engine.thread_info(1000)
        engine.pause("start")
        future = engine.c_spawn(C.add, (1, 1), name="waits")
        engine.set_priority(future, 7)
        stack = engine.get_call_stack(future)
        self.assertEqual((stack.state, stack.priority, stack.task_name),
                         ("QUEUED", 7, "waits"))
        engine.resume()
        future.result(PATIENCE)
        engine.wait_all(timeout=PATIENCE)   # its end comes after its result
        with self.assertRaises(LookupError):
            engine.get_call_stack(future)


class Ends(unittest.TestCase):
    def test_after_shutdown(self):
        engine = Engine()
        engine.pause("start")
        queued = engine.c_spawn(C.add, (1, 1))
        engine.shutdown()
        engine.shutdown()
        self.assertTrue(queued.cancelled())
        for method in (engine.get_stats, engine.wait_all, engine.pause,
                       lambda: engine.c_spawn(C.add, (1, 1)),
                       lambda: engine.memory_bus_get("a")):
            with self.assertRaises(EngineClosed):
                method()
        for bad in ({"workers": 0}, {"workers": 1, "gil_threads": 2},
                    {"policy": "best"}, {"shared_memory": "much"}):
            with self.assertRaises(ValueError):
                Engine(**bad)

    def program(self, text):
        done = subprocess.run([sys.executable, "-c", text], timeout=PATIENCE,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        return done.returncode, done.stdout.decode()

    START = ("import ctypes, os, sys; from usched_engine import *; "
             "C = ctypes.CDLL(os.environ['USCHED_TEST_LIBRARY']); "
             "e = Engine(); f = e.c_spawn(C.nap, (%d, None)); ")

    def test_exit_with_tasks(self):
        for ms in (50, 5000):
            status, text = self.program(
                self.START % ms + "[e.c_spawn(C.nap, (50, bytearray(9))) "
                "for n in range(100)]")
            self.assertEqual(status, 0, text)

    def test_fork(self):
        status, text = self.program(self.START % 50 + """
pid = os.fork()
if pid == 0:
    for call in (f.result, e.get_stats, lambda: e.c_spawn(C.add, (1, 1))):
        try: call(); os._exit(1)
        except EngineClosed: pass
    with Engine() as mine:
        os._exit(mine.c_spawn(C.add, (40, 2)).result(5))
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42
assert f.result(5) == 50
""" if sys.version_info >= (3, 9) else "")
        self.assertEqual(status, 0, text)


if __name__ == "__main__":
    unittest.main()
