# SPDX-License-Identifier: MIT
"""storm.py SEED SECONDS: threads call all methods at random, also with
arguments that make no sense. Each call returns, or raises a known exception,
and at the end all tasks have ended. test_bad.py runs it for a moment; for an
hour: PYTHONMALLOC=debug python3 -X dev storm.py 1 3600

An address that is none may crash, so none is passed.
"""

import array
import asyncio
import concurrent.futures
import ctypes
import faulthandler
import os
import random
import sys
import threading
import time

import usched_engine
from usched_engine import (CFunction, Engine, EngineClosed, EngineFull,
                           Future, get_c_function)

C = ctypes.CDLL(os.environ["USCHED_TEST_LIBRARY"])
private = usched_engine._usched
# Exceptions that the documentation names; CancelledError of both kinds.
KNOWN = (TypeError, ValueError, LookupError, BufferError, OverflowError,
         EngineFull, EngineClosed, OSError, MemoryError,
         TimeoutError, asyncio.TimeoutError, usched_engine.CancelledError,
         asyncio.CancelledError, concurrent.futures.TimeoutError,
         ZeroDivisionError)


class Bad:
    def __index__(self):
        raise ZeroDivisionError

    __float__ = __len__ = __repr__ = __index__


def released():
    view = memoryview(b"x")
    view.release()
    return view


class Caller:
    """A thread's calls. engines: a list with the engine of now."""

    def __init__(self, seed, engines):
        self.random = random.Random(seed)
        self.engines = engines
        self.futures = []
        self.views = []
        self.buffers = [bytearray(64) for _ in range(4)]
        self.known = 0

    def any(self):
        return self.random.choice([
            None, 0, 1, -1, 7, 8, 2 ** 31, 2 ** 63, -2 ** 63, 2 ** 64, 2 ** 70,
            1.5, float("nan"), float("inf"), "", "x", "a\0b", "\udc80", b"",
            b"x" * 100, bytearray(10), memoryview(bytearray(16))[::2],
            released(), [], [(1,)], [1, 2], (), (1, 2), ((1,),), {}, object(),
            Bad(), len, Engine, True, C.add, ctypes.c_int(5),
            ctypes.c_double(2), ctypes.pointer(ctypes.c_int(3)),
            array.array("d", [1, 2]), array.array("i"), threading.Lock(),
            asyncio.sleep, range(5), iter([(1, 2)]), slice(1), ...])

    def future(self):
        return self.random.choice(self.futures or [None])

    def key(self):
        return str(self.random.randrange(10))

    # Calls

    def call_add(self, engine):
        return engine.c_spawn(C.add, (self.random.randrange(100), 1),
                              self.random.randrange(8),
                              block=self.random.choice([None, False, True]),
                              timeout=self.random.choice([0, .01, None]))

    def call_many(self, engine):
        return engine.c_spawn_many(
            C.fill, [(self.random.choice(self.buffers), 64, 5)
                     for _ in range(self.random.randrange(50))], timeout=.05)

    def call_nap(self, engine):
        return engine.c_spawn(C.nap, (self.random.randrange(5),
                                      self.random.choice(self.buffers)))

    def call_any_arguments(self, engine):
        return engine.c_spawn(C.add, tuple(
            self.any() for _ in range(self.random.randrange(5))), check=False,
            timeout=.01)

    def call_any_batch(self, engine):
        return engine.c_spawn_many(C.add, [
            (self.any(), self.any()) for _ in range(3)], check=False,
            timeout=.01)

    def call_coroutine(self, engine):
        async def coroutine():
            await asyncio.sleep(self.random.random() * .01)
            if self.random.random() < .5:
                return await engine.c_spawn(C.add, (1, 1))
            raise KeyError(1)
        return engine.spawn(coroutine())

    def call_loop(self, engine):
        async def main():
            futures = [engine.c_spawn(C.add, (n, 1), block=False)
                       for n in range(self.random.randrange(40))]
            if self.random.random() < .7:
                await asyncio.wait_for(asyncio.gather(*futures),
                                       self.random.choice([.001, .1, 1]))
        asyncio.run(main())

    def call_future(self, engine):
        future = self.future()
        if future is not None:
            self.random.choice([
                future.cancel, future.done, future.running,
                lambda: repr(future), lambda: future.exception(0),
                lambda: future.result(self.random.choice([0, .01, .1]))])()

    def call_see(self, engine):
        self.random.choice([
            lambda: repr(engine), engine.get_stats, engine.thread_info,
            lambda: engine.get_call_stack(self.future(), lines=False,
                                          timeout=.01)])()

    def call_bus(self, engine):
        self.random.choice([
            lambda: engine.memory_bus_push(
                self.key(), self.random.choice(self.buffers),
                copy=self.random.random() < .5),
            lambda: self.views.append(engine.memory_bus_get(self.key())),
            lambda: self.views.append(engine.memory_bus_pop(self.key())),
            lambda: self.views and self.views.pop().release(),
            engine.clear_memory_bus])()

    def call_pause(self, engine):
        engine.pause(self.random.choice(["intake", "start", "all", "x"]))
        time.sleep(.001)
        engine.resume()

    def call_others(self, engine):
        self.random.choice([
            lambda: engine.set_priority(self.future(),
                                        self.random.randrange(-1, 9)),
            lambda: engine.help(self.random.randrange(3),
                                self.random.choice([0, .001])),
            lambda: engine.wait_all(self.random.choice([0, .01]))])()

    def call_any_method(self, engine):
        method = self.random.choice([
            engine.c_spawn, engine.c_spawn_many, engine.get_c_function,
            engine.set_priority, engine.help, engine.spawn,
            engine.memory_bus_push, engine.memory_bus_get,
            engine.memory_bus_pop, engine.pause, engine.resume,
            engine.thread_info, engine.get_call_stack, private.cancel,
            private.thread, private.stack, private.capsule, private.host_report,
            CFunction, Engine])
        args = [self.any() for _ in range(self.random.randrange(4))]
        addresses = (int, str, type(C.add))
        if method == engine.pause and not args or \
                method in (engine.c_spawn, engine.c_spawn_many) and \
                args and isinstance(args[0], addresses) or \
                method == engine.memory_bus_push and len(args) > 1 and \
                isinstance(args[1], int):
            return None
        if method is CFunction:
            args = args or [Bad()]
        if method is Engine:            # only new_engine() makes some
            args.append(Bad())
        return method(*args)

    def new_engine(self, engine):
        try:
            engine.shutdown(self.random.choice([0, .01, 1, None]))
        except TimeoutError:
            engine.shutdown()
        self.views.clear()
        for _ in range(1000):
            try:
                self.engines[0] = Engine(
                    self.random.choice([2, 4]), self.random.choice([0, 1]),
                    self.random.choice([None, 1, 5]),
                    tasks=self.random.choice([None, 10, 100]),
                    shared_memory=self.random.choice([0, 1000, 100000]),
                    policy=self.random.choice(["LIFO", "FIFO"]))
                return
            except RuntimeError:        # others have views
                time.sleep(.01)
        raise AssertionError("views are left")

    def step(self, call):
        try:
            made = call(self.engines[0])
            if isinstance(made, Future):
                self.futures.append(made)
        except KNOWN as error:
            self.known += 1
            if isinstance(error, EngineClosed):
                self.views.clear()
                time.sleep(.001)
        except RuntimeError as error:
            if "there is an engine" not in str(error):
                raise
        del self.futures[:-200], self.views[:-20]

    def run(self, end, first):
        calls = [getattr(self, name) for name in sorted(dir(self))
                 if name.startswith("call_")]
        steps = 0
        while time.monotonic() < end:
            steps += 1
            if first and self.random.random() < .005:
                self.step(self.new_engine)
            self.step(self.random.choice(calls))
        self.views.clear()
        print(steps, "calls,", self.known, "exceptions")


def run(caller, end, first):
    try:
        caller.run(end, first)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)


def main():
    seed, seconds = int(sys.argv[1]), float(sys.argv[2])
    faulthandler.enable()
    faulthandler.dump_traceback_later(seconds + 60, exit=True)
    engines = [Engine(shared_memory=10000)]
    end = time.monotonic() + seconds
    threads = [threading.Thread(target=run, args=(
        Caller(seed * 10 + n, engines), end, n == 0)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engines[0].resume()
    engines[0].wait_all(30)
    assert engines[0].get_stats()["tasks_memory"] == 0
    if seed % 2:
        engines[0].shutdown(30)
    print("ended")


if __name__ == "__main__":
    main()
