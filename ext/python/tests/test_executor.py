# SPDX-License-Identifier: MIT
"""Executor does what programs for concurrent.futures expect."""

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
import unittest.mock

from usched_engine import Engine, Executor, Future, TaskError, _usched

libc = ctypes.CDLL(None)


def run(text, first=""):
    """Runs a program, and returns its status and what it has printed. first is
    what it does before it has usched_engine."""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", first +
         "import ctypes, os, sys, threading\n"
         "from usched_engine import Engine, Executor\n"
         "libc = ctypes.CDLL(None)\n" + text],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20)
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


class ExecutorTest(unittest.TestCase):
    def test_submit(self):
        with Executor(workers=2) as executor:
            self.assertIsInstance(executor, concurrent.futures.Executor)
            futures = [executor.submit(libc.abs, -i) for i in range(100)]
            done, late = concurrent.futures.wait(futures, 20)
            self.assertFalse(late)
            self.assertEqual([f.result() for f in futures], list(range(100)))

    def test_one_worker(self):
        with Executor(workers=1) as executor:
            self.assertEqual(executor.submit(libc.abs, -5).result(20), 5)
        with Engine(workers=1) as engine:
            self.assertEqual(engine.c_spawn(libc.abs, (-5,)).result(20), 5)
            with self.assertRaises(ValueError):
                engine.spawn(asyncio.sleep(0))

    def test_map(self):
        with Executor() as executor:
            self.assertEqual(list(executor.map(libc.abs, range(-50, 0))),
                             list(range(50, 0, -1)))

    def test_error(self):
        with Executor() as executor:
            with self.assertRaises(TaskError):
                executor.submit(libc.close, -1).result(20)
            future = executor.submit(libc.close, -1, check=False)
            self.assertEqual(future.result(20), -1)

    def test_closed(self):
        executor = Executor()
        future = executor.submit(libc.usleep, 50000)
        executor.shutdown()
        self.assertTrue(future.done())
        with self.assertRaises(RuntimeError):
            executor.submit(libc.abs, 1)
        executor.shutdown()             # again does nothing

    def test_no_wait(self):
        executor = Executor()
        reader, writer = os.pipe()
        future = executor.submit(libc.read, reader, bytearray(1), 1)
        executor.shutdown(wait=False)
        self.assertFalse(future.done())
        os.write(writer, b"x")
        self.assertEqual(future.result(20), 1)
        executor.shutdown()
        os.close(reader)
        os.close(writer)

    def test_cancel(self):
        with Engine(workers=2) as engine:
            executor = Executor(engine)
            reader, writer = os.pipe()  # the worker reads, until there is a byte
            first = executor.submit(libc.read, reader, bytearray(1), 1)
            while not first.running():
                time.sleep(0.001)
            rest = [executor.submit(libc.abs, i) for i in range(20)]
            executor.shutdown(wait=False, cancel_futures=True)
            self.assertTrue(all(f.cancelled() for f in rest))
            self.assertFalse(first.done())
            os.write(writer, b"x")
            self.assertEqual(first.result(20), 1)
            os.close(reader)
            os.close(writer)
            # The engine is not the executor's, and goes on.
            self.assertEqual(engine.c_spawn(libc.abs, (-3,)).result(), 3)

    def test_cancel_running(self):
        """cancel_futures asks nothing to stop that runs, also if that waits."""
        sleep = ctypes.CDLL(_usched.__file__).u_sleep
        sleep.argtypes = [ctypes.c_int64]
        executor = Executor(1)
        first = executor.submit(sleep, time.monotonic_ns() + 200_000_000)
        while not first.running():
            time.sleep(0.001)
        executor.shutdown(cancel_futures=True)
        self.assertEqual(first.result(0), 0)

    def test_loop(self):
        async def main(executor):
            loop = asyncio.get_running_loop()
            return await asyncio.gather(*[
                loop.run_in_executor(executor, libc.abs, -i) for i in range(9)])
        with Executor() as executor:
            self.assertEqual(asyncio.run(main(executor)), list(range(9)))

    def test_order(self):
        """One worker begins calls in the order of submit(), also in threads."""
        with Executor(1) as executor, Executor(1) as other:
            for one in (executor, other):
                ended = []
                futures = [one.submit(libc.usleep, 2000) for _ in range(10)]
                for i, future in enumerate(futures):
                    future.add_done_callback(lambda _, i=i: ended.append(i))
                concurrent.futures.wait(futures)
                while len(ended) < 10:
                    time.sleep(0.001)
                self.assertEqual(ended, list(range(10)))
            self.assertIsInstance(executor.submit(libc.abs, 1), Future)
            self.assertNotIsInstance(other.submit(libc.abs, 1), Future)

    def test_python(self):
        """Functions of Python run in threads, with arguments by name."""
        begun = []
        with Executor(2, "mine", begun.append, (7,)) as executor:
            self.assertEqual(executor.submit(dict, a=1).result(20), {"a": 1})
            self.assertRegex(executor.submit(
                lambda: threading.current_thread().name).result(20), "^mine")
            self.assertEqual(list(executor.map(pow, [2, 3], [4, 2])), [16, 9])
            self.assertEqual(executor.submit(libc.abs, -2).result(20), 2)
            with self.assertRaises(ZeroDivisionError):
                executor.submit(divmod, 1, 0).result(20)
            with self.assertRaises(TypeError):
                executor.submit([])
        self.assertEqual(set(begun), {7})

    def test_gil(self):
        """What needs the GIL runs in threads."""
        with Executor(1) as executor:
            self.assertGreater(executor.submit(
                ctypes.pythonapi.PyGILState_Check).result(20), 0)

    def test_default(self):
        async def main(executor):
            loop = asyncio.get_running_loop()
            loop.set_default_executor(executor)
            return [await loop.run_in_executor(None, libc.abs, -3),
                    await loop.run_in_executor(None, abs, -4)]
        self.assertEqual(asyncio.run(main(Executor(2))), [3, 4])

    def several(self, nr):
        executors = [Executor(2) for _ in range(nr)]
        futures = [[one.submit(libc.abs, -i) for one in executors]
                   for i in range(50)]
        for i, row in enumerate(futures):
            self.assertEqual([f.result(20) for f in row], [i] * nr)
        return executors

    def test_several(self):
        """Each does all, also those that have no engine."""
        for executor in self.several(3):
            data = bytearray(b"abc")
            self.assertIs(executor.submit(      # an address is no error
                libc.memset, data, 120, 2, out=data, check=False).result(20),
                data)
            self.assertEqual(data, b"xxc")
            with self.assertRaises(TaskError) as failed:
                executor.submit(libc.close, -1, name="mine").result(20)
            self.assertIn("mine", str(failed.exception))
            self.assertEqual(executor.submit(libc.close, -1,
                                             check=False).result(20), -1)
            for args in ((object(),), (1,) * 20):
                with self.assertRaises((TypeError, ValueError)):
                    executor.submit(libc.abs, *args)
            with self.assertRaises(ValueError):
                executor.submit(libc.abs, 1, priority=8)
            executor.shutdown()
            with self.assertRaises(RuntimeError):
                executor.submit(libc.abs, 1)

    def test_limit(self):
        """Each runs as many calls as it has workers: all of these wait for the
        byte that is written last."""
        reader, writer = os.pipe()
        with Executor(3) as a, Executor(2) as b:
            waits = [one.submit(libc.read, reader, bytearray(1), 1)
                     for one in (a, a, b, b)]
            queued = b.submit(libc.abs, -1)
            self.assertEqual(a.submit(libc.abs, -1).result(20), 1)
            self.assertFalse(queued.done())
            os.write(writer, b"abcd")
            self.assertEqual([f.result(20) for f in waits], [1] * 4)
            self.assertEqual(queued.result(20), 1)
        os.close(reader)
        os.close(writer)

    def test_one_after_other(self):
        """Nothing is in the way after shutdown(wait=False), and calls that run
        take nothing from others but the engine."""
        for _ in range(20):
            executor = Executor(1)
            future = executor.submit(libc.usleep, 100)
            self.assertIsInstance(future, Future)
            executor.shutdown(wait=False)
            future.result(20)
        with Engine() as engine:
            self.assertEqual(engine.c_spawn(libc.abs, (-1,)).result(20), 1)
        reader, writer = os.pipe()
        old = Executor(1)
        waits = old.submit(libc.read, reader, bytearray(1), 1)
        old.shutdown(wait=False)
        with Executor(1) as executor:
            self.assertEqual(executor.submit(libc.abs, -1).result(20), 1)
            self.assertNotIsInstance(executor.submit(libc.abs, 1), Future)
            os.write(writer, b"x")
            self.assertEqual(waits.result(20), 1)
            for _ in range(1000):       # until the call above has ended
                if isinstance(executor.submit(libc.abs, 1), Future):
                    break
                time.sleep(0.001)
            self.assertIsInstance(executor.submit(libc.abs, 1), Future)
        os.close(reader)
        os.close(writer)

    def test_in_callback(self):
        """A callback of an executor that was left cannot end its engine: other
        executors call in threads, and there is an engine."""
        left = Executor(1)
        told = concurrent.futures.Future()

        def callback(_):
            try:
                left.shutdown(wait=False)
                with Executor(1) as executor:
                    future = executor.submit(libc.abs, -3)
                    future.result(20)
                with self.assertRaisesRegex(RuntimeError, "there is an engine"):
                    Engine()
                told.set_result((future.result(), type(future)))
            except BaseException as error:
                told.set_exception(error)
        left.submit(libc.usleep, 20000).add_done_callback(callback)
        self.assertEqual(told.result(20), (3, concurrent.futures.Future))
        left.shutdown()

    def test_long_callback(self):
        """submit() does not wait for a callback of an executor that was left,
        which may wait for it."""
        left, executor = Executor(1), Executor(1)
        told = concurrent.futures.Future()
        submitted = threading.Event()

        def callback(_):
            left.shutdown(wait=False)
            told.set_result(None)
            submitted.wait(10)
        left.submit(libc.usleep, 20000).add_done_callback(callback)
        told.result(20)
        for _ in range(3):
            self.assertEqual(executor.submit(libc.abs, -1).result(20), 1)
        self.assertNotIsInstance(executor.submit(libc.abs, 1), Future)
        submitted.set()
        left.shutdown()
        executor.shutdown()

    def test_no_engine(self):
        """Views of the last engine's memory are no reason for an error. Other
        errors of Engine() are the caller's, such as that of a signal handler."""
        with Engine(shared_memory=100) as engine:
            engine.memory_bus_push("key", b"abc")
            view = engine.memory_bus_get("key")
        with Executor(1) as executor:
            self.assertNotIsInstance(executor.submit(libc.abs, 1), Future)
            view.release()
            del view
            for error in RuntimeError, RecursionError:
                with unittest.mock.patch.object(
                        Engine, "_setup", side_effect=error), \
                        self.assertRaises(error):
                    for _ in range(1000):   # until the call above has ended
                        executor.submit(libc.abs, 1).result(20)
            self.assertIsInstance(executor.submit(libc.abs, 1), Future)

    def test_dropped(self):
        """An executor without a reference ends with its calls."""
        Executor(1).submit(libc.usleep, 1000).result(20)
        gc.collect()
        with Executor(1) as executor:
            self.assertIsInstance(executor.submit(libc.abs, 1), Future)
            with self.assertRaisesRegex(RuntimeError, "of an Executor"):
                Engine()

    def test_lazy(self):
        """Functions of Python alone need no engine, and wrong options are
        told at once."""
        with Executor(2) as executor:
            executor.submit(abs, 1).result(20)
            with Engine() as engine:
                self.assertEqual(engine.c_spawn(libc.abs, (-1,)).result(20), 1)
        for wrong in ({"policy": "?"}, {"workers": 0}, {"stack": 1}):
            with self.assertRaises(ValueError):
                Executor(**wrong)
        with self.assertRaises(TypeError):
            Executor(wrong=1)
        with Engine() as engine:
            for one in ({"max_workers": engine}, {"engine": engine}):
                with self.assertRaisesRegex(TypeError, "policy"):
                    Executor(policy="LIFO", **one)
                Executor(workers=1, **one)      # of Python

    def test_exit(self):
        """All calls end before the program does."""
        ended = subprocess.run(
            [sys.executable, "-c", "import ctypes\n"
             "from usched_engine import Executor\n"
             "libc = ctypes.CDLL(None)\n"
             "two = Executor(1), Executor(1)\n"
             "for _ in range(3):\n"
             "    for executor in two:\n"
             "        executor.submit(libc.usleep, 1000)\n"
             "        executor.submit(libc.write, 1, b'x', 1)\n"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(ended.stdout, b"x" * 6)
        self.assertEqual(ended.stderr, b"")
        self.assertEqual(ended.returncode, 0)

    def test_exit_submits(self):
        """At the end of the program no call is taken, since it would be cut
        off: neither from a callback, nor after the engine's end."""
        ended = run(
            "executor = Executor(1)\n"
            "executor.submit(libc.usleep, 300000).add_done_callback(submits)\n",
            "import atexit\n"
            "def submits(future=None):\n"
            "    for one in executor, Executor(1):\n"
            "        try: one.submit(libc.abs, -1)\n"
            "        except RuntimeError: print('told', flush=True)\n"
            "atexit.register(submits)\n")
        self.assertEqual(ended, (0, "told\n" * 4, ""))

    def test_wait(self):
        """A call may end at any moment of concurrent.futures.wait()."""
        base = concurrent.futures._base
        install = base._create_and_install_waiters
        reader, writer = os.pipe()

        def ends(*args):
            os.write(writer, b"x")
            time.sleep(0.2)
            return install(*args)
        with Executor(1) as executor:
            future = executor.submit(libc.read, reader, bytearray(1), 1)
            began = time.monotonic()
            with unittest.mock.patch.object(
                    base, "_create_and_install_waiters", ends):
                concurrent.futures.wait([future], 60)
            self.assertLess(time.monotonic() - began, 60)
        os.close(reader)
        os.close(writer)

    def test_fork(self):
        """A child leaves the block of its parent, and does not wait for calls
        that run there. An executor that has not begun is ready in it."""
        for function in "libc.read", "os.read":
            ended = run(
                "reader, writer = os.pipe()\n"
                "new = Executor(1)\n"
                "with Executor(2) as executor:\n"
                "    executor.submit(libc.abs, 1).result(20)\n"
                "    executor.submit(%s)\n"
                "    child = os.fork()\n"
                "    if child:\n"
                "        print(os.waitpid(child, 0)[1], flush=True)\n"
                "        os.write(writer, b'x')\n"
                "if not child:\n"
                "    with new:\n"
                "        future = new.submit(libc.usleep, 1000)\n"
                "    print(future.result(0), flush=True)\n"
                "    os._exit(0)\n" % {
                    "libc.read": "libc.read, reader, bytearray(1), 1",
                    "os.read": "os.read, reader, 1"}[function])
            self.assertEqual(ended, (0, "0\n0\n", ""))

    def test_itself(self):
        """What would wait for itself in shutdown() is told so, and the
        executor takes no more calls."""
        ended = run(
            "told = threading.Event()\n"
            "def shuts_down(future=None):\n"
            "    try: executor.shutdown()\n"
            "    except RuntimeError: print('told', flush=True)\n"
            "    try: executor.submit(libc.abs, 1)\n"
            "    except RuntimeError: told.set()\n"
            "executor = Executor(1)\n"
            "executor.submit(libc.usleep, 50000).add_done_callback(shuts_down)\n"
            "told.wait(); executor.shutdown()\n"
            "executor = Executor(1)\n"
            "executor.submit(libc.abs, 1).result(10)\n"
            "executor.submit(shuts_down).result(10)\n"
            "executor.shutdown()\n"
            "with Engine(2, 0) as engine:\n"
            "    def ends(future):\n"
            "        with Executor(engine) as other: other.submit(abs, 1)\n"
            "        print('ended')\n"
            "    engine.c_spawn(libc.usleep, (9000,)).add_done_callback(ends)\n")
        self.assertEqual(ended, (0, "told\n" * 2 + "ended\n", ""))

    def test_callback_exits(self):
        """sys.exit() in a callback ends no thread, and takes no end from
        others: neither in a thread of their own, nor in result()."""
        status, out, said = run(
            "told = []\n"
            "def exits(future): told.append(future); sys.exit(3)\n"
            "with Executor(2) as executor:\n"
            "    futures = [executor.submit(libc.usleep, 2000)\n"
            "               for _ in range(50)]\n"
            "    for future in futures: future.add_done_callback(exits)\n"
            "    for future in futures: future.result(10)\n"
            "print(len(told))\n")
        self.assertEqual((status, out), (0, "50\n"), said)
        self.assertIn("exception in a callback", said)

    def test_generic(self):
        self.assertIsNotNone(Future[int])


if __name__ == "__main__":
    unittest.main()
