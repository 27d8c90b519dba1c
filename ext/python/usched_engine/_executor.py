# SPDX-License-Identifier: MIT
"""A ThreadPoolExecutor that calls C functions on an engine.

Functions of Python run in the threads of the base class, first in, first out.
So do C functions while the engine of the process is another's: of an Engine, of
another Executor, or of code in C; and while there are views of the memory of the
last engine. Such a thread calls them without the GIL, by _usched.run().

An executor makes its engine at its first call of a C function, and keeps it to
its end. One that has begun in threads takes the engine when that has become
free, and none of these calls is left, so all of its calls begin in order.
"""

from __future__ import annotations

import concurrent.futures
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

from . import _engine, _usched
from ._engine import Engine
from ._errors import TaskError, _EngineTaken
from ._function import get_c_function
from ._usched import CFunction

_Future = concurrent.futures.Future


def _c_function(fn: Any) -> CFunction | None:
    """Returns the C function that an engine runs, or None: Python calls fn."""
    if type(fn) is CFunction:
        return fn
    try:
        return get_c_function(fn)
    except TypeError:
        if callable(fn):
            return None
        raise


def _run(prepared: Any, name: str) -> Any:
    """Calls a C function in this thread."""
    _, value, error, index = _usched.run(prepared)
    if error == 0:
        return value
    if error == 2:
        raise value
    raise TaskError(-error, name, index)


class Executor(ThreadPoolExecutor):
    """Calls functions as a ThreadPoolExecutor does, but C functions on the
    workers of an engine.

        with Executor() as executor:
            future = executor.submit(library.function, 1, 2.0)
            results = list(executor.map(library.function, range(9)))

    and loop.run_in_executor(executor, library.function, 1, 2.0).

    max_workers         calls of C functions at a time, by default as many as
                        cpus; and calls of Python at a time, by default as a
                        ThreadPoolExecutor. Or an Engine, which is used, and not
                        shut down
    thread_name_prefix, initializer, initargs
                        of the threads that call Python, as there
    other options       of its engine, see Engine; the policy is "FIFO" by
                        default, and there is no host thread. None with an Engine

    The oldest call begins first. Several may live in a process: one of them, or
    an Engine, has the engine, and the others call C functions in threads, which
    takes as long as by a ThreadPoolExecutor. At the end of the program, its
    calls come to their end, and it takes no more.

    Raises TypeError and ValueError for arguments.
    """

    def __init__(self, max_workers: int | Engine | None = None,
                 thread_name_prefix: str = "",
                 initializer: Callable[..., Any] | None = None,
                 initargs: tuple[Any, ...] = (), *,
                 engine: Engine | None = None,
                 workers: int | None = None, **options: Any) -> None:
        if isinstance(max_workers, Engine):
            max_workers, engine = None, max_workers
        if max_workers is None:
            max_workers = workers
        if engine is not None and options:
            raise TypeError("an Engine has its own options, so an Executor "
                            "that uses one has not: %s" % ", ".join(options))
        super().__init__(max_workers, thread_name_prefix, initializer,
                         initargs)
        if max_workers is not None:
            options["workers"] = min(max_workers, _usched.WORKERS)
            options.setdefault("oversubscribe", True)
        options.setdefault("gil_threads", 0)
        options.setdefault("policy", "FIFO")
        Engine._checked(**options)
        self._options = options
        self._engine = engine
        self._owns = engine is None
        self._ending: threading.Thread | None = None
        self._start()
        _executors.add(self)

    def _start(self) -> None:
        self._calls = _engine._Calls(self)
        self._lock = threading.Lock()
        self._in_threads = 0            # calls of C that have not ended

    def submit(self, fn: Any, /, *args: Any,
               **kwargs: Any) -> _Future[Any]:
        """Queues fn(*args, **kwargs), and returns its future. If fn is a C
        function, kwargs are those of Engine.c_spawn(): waits for room, unless
        block=False; in threads there is always room, and no priority."""
        function = _c_function(fn)
        future = None
        self._calls.begin()
        try:
            future = super().submit(fn, *args, **kwargs) \
                if function is None else \
                self._submit_c(function, args, **kwargs)
        finally:
            self._calls.end(future)
        return future

    def _submit_c(self, function: CFunction, args: tuple[Any, ...],
                  **kwargs: Any) -> _Future[Any]:
        with self._lock:
            engine = self._take()
        if engine is None:
            return self._submit_thread(function, args, **kwargs)
        kwargs.setdefault("block", True)
        return engine.c_spawn(function, args, **kwargs)

    def _take(self) -> Engine | None:
        """Returns the engine, or None: it is another's. Caller holds _lock."""
        if self._engine is not None or self._in_threads > 0:
            return self._engine
        _engine._end_left(False)
        if _engine._current is None:
            try:
                self._engine = Engine(**self._options)
                self._engine._calls = self._calls
            except _EngineTaken:
                pass                    # another was faster, or has views
        return self._engine

    def _submit_thread(self, function: CFunction, args: tuple[Any, ...],
                       priority: int = _engine.PRIORITY, *,
                       name: str | None = None, out: Any = None,
                       block: bool | None = None, timeout: float | None = None,
                       check: bool = True) -> _Future[Any]:
        _engine._priority(priority)
        prepared = _usched.prepare(function, args, check, out)
        with self._lock:
            self._in_threads += 1
        try:
            future = super().submit(_run, prepared, name or function.name)
        except BaseException:
            self._thread_done()
            raise
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, future: Any = None) -> None:
        with self._lock:
            self._in_threads -= 1

    def shutdown(self, wait: bool = True, *,
                 cancel_futures: bool = False) -> None:
        """Takes no more calls. cancel_futures: those that have not begun are
        cancelled. wait: returns when all have ended; not for coroutines of
        its engine, which would wait for themselves. Raises RuntimeError if a
        call of Python or a callback of a future would do so."""
        futures = self._calls.close()
        if cancel_futures:
            for future in futures:
                if not future.running():    # it would be asked to stop
                    future.cancel()
        super().shutdown(wait=False)
        with self._lock:
            if self._engine is not None and self._ending is None:
                self._ending = threading.Thread(target=self._end,
                                                name="usched-shutdown")
                self._ending.start()
        if wait:
            super().shutdown()
            self._join()

    def _join(self) -> None:
        """Waits for calls of C functions. super().shutdown() has returned, so
        no thread of this executor calls."""
        engine = self._engine
        if engine is not None and engine._in_callback() and (
                self._owns or self._calls.pending()):
            raise RuntimeError("a callback of a future cannot wait for the "
                               "end of its executor: pass wait=False")
        if self._ending is not None:
            self._ending.join()

    def _end(self) -> None:
        self._calls.wait()
        if self._owns and self._engine is not None:
            self._engine.shutdown()

    def _after_fork(self) -> None:
        """In the child: no thread holds the lock, and calls are the parent's."""
        closed = self._calls.closed
        self._start()
        self._calls.closed = closed


_executors: weakref.WeakSet[Executor] = weakref.WeakSet()


def _after_fork() -> None:
    for executor in list(_executors):
        executor._after_fork()


os.register_at_fork(after_in_child=_after_fork)

__all__ = ["Executor"]
