# SPDX-License-Identifier: MIT
"""Executor does what programs for concurrent.futures expect."""

import asyncio
import concurrent.futures
import ctypes
import os
import time
import unittest

from usched_engine import Engine, Executor, Future, TaskError

libc = ctypes.CDLL(None)


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

    def test_loop(self):
        async def main(executor):
            loop = asyncio.get_running_loop()
            return await asyncio.gather(*[
                loop.run_in_executor(executor, libc.abs, -i) for i in range(9)])
        with Executor() as executor:
            self.assertEqual(asyncio.run(main(executor)), list(range(9)))

    def test_generic(self):
        self.assertIsNotNone(Future[int])


if __name__ == "__main__":
    unittest.main()
