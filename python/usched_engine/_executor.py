# SPDX-License-Identifier: MIT
"""An engine for programs that are written for concurrent.futures."""

from __future__ import annotations

import concurrent.futures
import threading
import weakref
from typing import Any

from ._engine import Engine
from ._future import Future


class Executor(concurrent.futures.Executor):
    """Calls C functions on the workers of an engine.

        with Executor() as executor:
            future = executor.submit(library.function, 1, 2.0)
            results = list(executor.map(library.function, range(9)))

    and loop.run_in_executor(executor, library.function, 1, 2.0). It takes an
    engine, or makes one with these options, and shuts that down at its own end.
    Its own engine has no host thread, unless gil_threads asks for some.
    """

    def __init__(self, engine: Engine | None = None, **options: Any) -> None:
        options.setdefault("gil_threads", 0)
        self._engine = Engine(**options) if engine is None else engine
        self._owns = engine is None
        self._open = True
        self._lock = threading.Lock()
        self._ending: threading.Thread | None = None
        self._futures: weakref.WeakSet[Future[Any]] = weakref.WeakSet()

    def submit(self, fn: Any, /, *args: Any,
               **kwargs: Any) -> Future[Any]:
        """Queues fn(*args), a C function, and returns its future. kwargs are
        those of Engine.c_spawn(). Waits for room, unless block=False."""
        with self._lock:
            if not self._open:
                raise RuntimeError("the executor was shut down")
        kwargs.setdefault("block", True)
        future = self._engine.c_spawn(fn, args, **kwargs)
        with self._lock:
            self._futures.add(future)
        return future

    def shutdown(self, wait: bool = True, *,
                 cancel_futures: bool = False) -> None:
        """Takes no more calls. cancel_futures: those that have not begun are
        cancelled. wait: returns when all have ended; not for coroutines of
        its engine, which would wait for themselves."""
        with self._lock:
            was_open, self._open = self._open, False
            futures = [future for future in self._futures
                       if not future.done()]
        if cancel_futures:
            for future in futures:
                future.cancel()
        if was_open:
            self._ending = threading.Thread(target=self._end, args=(futures,),
                                            name="usched-shutdown")
            self._ending.start()
        if wait and self._ending is not None:
            self._ending.join()

    def _end(self, futures: list[Future[Any]]) -> None:
        concurrent.futures.wait(futures)
        if self._owns:
            self._engine.shutdown()


__all__ = ["Executor"]
