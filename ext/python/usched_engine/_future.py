# SPDX-License-Identifier: MIT
"""Futures that concurrent.futures understands, and that asyncio awaits.

A future is made for each call, so it must be cheap: its condition is made only
if a thread waits for it (_condition), and an event loop that awaits it sets its
own future directly (_finish).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from asyncio import _get_running_loop
from concurrent.futures import CancelledError
from concurrent.futures._base import (CANCELLED_AND_NOTIFIED, FINISHED,
                                      PENDING)
from typing import TYPE_CHECKING, Any, Generator, TypeVar

from . import _usched
from ._errors import EngineClosed, TaskError
from ._port import _Port, _Ports, _wake

_T = TypeVar("_T")

if TYPE_CHECKING:
    _Base = concurrent.futures.Future
else:
    class _Base(concurrent.futures.Future):
        @classmethod
        def __class_getitem__(cls, item):       # Python 3.8 has none
            return cls

_lock = threading.Lock()        # for short looks at futures


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


class Future(_Base[_T]):
    """The result of a task, later. Future[int] has an int as its result.

    Threads call result(), exception(), done(), and pass it to the functions of
    concurrent.futures. Coroutines await it. A cancelled await cancels the task.
    """

    task_id: Any = None             # int; a text for coroutines
    _ids: bytes = b""               # of a batch
    _port: _Port | None = None
    _result: Any = None
    _exception: Any = None
    _awaited: list[asyncio.Future[None]] | None = None
    _made: threading.Condition | None = None
    _told: list[Any] | None = None  # waiters of concurrent.futures

    def __init__(self, engine: _Ports, name: str) -> None:
        # Not the base's: it makes a condition.
        self._state: str = PENDING
        self._done_callbacks: list[Any] = []
        self._engine = engine
        self.task_name = name

    def _make_condition(self) -> threading.Condition:
        if self._made is None:
            with _lock:
                if self._made is None:
                    self._made = threading.Condition()
        return self._made

    _condition: Any = property(_make_condition)

    def _make_waiters(self) -> list[Any]:
        """Used by wait() and its like, with the condition, for their own."""
        if self._told is None:
            self._told = []
            self._thread_waits()
        return self._told

    _waiters: Any = property(_make_waiters)

    def __repr__(self) -> str:
        state = self._state.lower()
        if self._state == FINISHED:
            state = "failed: %s" % self._exception if self._exception \
                else "done: %.60r" % (self._result,)
        elif self._state == CANCELLED_AND_NOTIFIED:
            state = "cancelled"
        elif self.running():
            state = "running"
        return "<Future of %s (%s) %s>" % (self.task_name, self.task_id, state)

    # Ends

    def _finish(self, state: str, value: Any = None,
                error: BaseException | None = None) -> bool:
        """Sets the outcome, once, and tells all who wait. Any thread."""
        with _lock:
            made = self._made
            if made is None and not self._set(state, value, error):
                return False
        if made is not None:
            # wait() counts states, and expects that none changes meanwhile.
            with made:
                with _lock:
                    if not self._set(state, value, error):
                        return False
                self._tell(state, error)
                made.notify_all()
        for mine in self._awaited or ():
            _wake(mine)
        if self._done_callbacks:
            self._invoke_callbacks()    # type: ignore[attr-defined]
        return True

    def _set(self, state: str, value: Any,
             error: BaseException | None) -> bool:
        """Sets the outcome. False: there is one. Caller holds _lock."""
        if self._state != PENDING:
            return False
        self._result = value
        self._exception = error
        self._state = state
        return True

    def _tell(self, state: str, error: BaseException | None) -> None:
        """Tells waiters of concurrent.futures. Caller holds the condition."""
        for waiter in self._told or ():
            if state != FINISHED:
                waiter.add_cancelled(self)
            elif error is not None:
                waiter.add_exception(self)
            else:
                waiter.add_result(self)

    def _ended(self, value: Any, error: int, index: int) -> None:
        """Takes an outcome from a port: see take() in pyport.c."""
        if error == 0:
            self._finish(FINISHED, value)
        elif error == 2:
            self._finish(FINISHED, None, value)
        elif error > 0:
            self._finish(CANCELLED_AND_NOTIFIED)
        else:
            self._finish(FINISHED, None, TaskError(
                -error, self.task_name, index, bool(self._ids)))

    # Waits

    def _thread_waits(self, timeout: float | None = 0) -> None:
        """Lets an end be told, even if no event loop runs. With a timeout
        other than 0, waits a little."""
        if self._engine._forked:
            raise EngineClosed("the process has forked: its tasks run in the "
                               "parent")
        if self._port is None:
            return
        if timeout != 0:
            self._engine._may_wait(self._port)
            self._port.wait()
        if self._state == PENDING:
            self._engine._thread_waits(self._port)

    def result(self, timeout: float | None = None) -> _T:
        """Waits up to timeout seconds, and returns what the function returned.

        Raises TaskError if that was an error, CancelledError, TimeoutError.
        """
        if self._state == PENDING:
            self._thread_waits(timeout)
        if self._state == FINISHED and self._exception is None:
            return self._result             # type: ignore[no-any-return]
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> Any:
        """Waits up to timeout seconds, and returns the exception, or None.

        Raises CancelledError, TimeoutError.
        """
        if self._state == PENDING:
            self._thread_waits(timeout)
        if self._state == FINISHED:
            return self._exception
        return super().exception(timeout)

    def done(self) -> bool:
        """Returns whether it has ended."""
        return self._state != PENDING

    def cancelled(self) -> bool:
        """Returns whether it was cancelled."""
        return self._state == CANCELLED_AND_NOTIFIED

    def running(self) -> bool:
        """Returns whether the task has begun, and not ended."""
        if self._state != PENDING or not isinstance(self.task_id, int):
            return False
        try:
            return _usched.stack(self.task_id, False, 0)[2] in (1, 2)
        except (LookupError, RuntimeError):
            return False

    def add_done_callback(self, fn: Any, *, context: Any = None) -> None:
        """Calls fn(future) after the end: in the event loop where the call of
        the C function was made, or in a thread. context is for asyncio."""
        port = self._port
        loop = _get_running_loop()
        if port is None or port.loop is not loop or loop is None:
            if self._state == PENDING:
                self._thread_waits()
        elif self._state != PENDING:
            loop.call_soon(fn, self, context=context)
            return
        super().add_done_callback(fn)

    @property
    def _asyncio_future_blocking(self) -> bool | None:
        """asyncio takes a future for its own if this is False.

        It may do so after the end, in the loop where the call was made: then
        gather() and its like need no asyncio.Task. Before the end it must not,
        since asyncio expects that cancel() ends a future at once.
        """
        port = self._port
        if port is None or port.loop is None or \
                port.loop is not _get_running_loop():
            return None
        if self._state == PENDING:
            port.look()
        return False if self._state == FINISHED else None

    def get_loop(self) -> asyncio.AbstractEventLoop | None:
        """Returns the event loop where the call was made, or None."""
        return self._port.loop if self._port is not None else None

    def remove_done_callback(self, fn: Any) -> int:
        """Takes fn back, for asyncio. Returns how many it has removed."""
        with self._condition:
            left = [old for old in self._done_callbacks if old != fn]
            removed = len(self._done_callbacks) - len(left)
            self._done_callbacks[:] = left
        return removed

    def __await__(self) -> Generator[Any, None, _T]:
        if self._state == PENDING:
            try:
                yield from self._end()
            except asyncio.CancelledError:
                self.cancel()
                raise
        if self._state != FINISHED:
            raise asyncio.CancelledError()
        if self._exception is not None:
            raise self._exception
        return self._result                 # type: ignore[no-any-return]

    def _end(self) -> Generator[Any, None, None]:
        """Waits for the end. A short call may have ended already, without the
        loop: then the loop need not go round."""
        loop = asyncio.get_running_loop()
        port = self._port
        if port is not None and port.loop is loop:
            if not port.look():
                yield
            if self._state != PENDING:
                return
        mine = loop.create_future()
        with _lock:
            if self._state != PENDING:
                return
            if self._awaited is None:
                self._awaited = []
            self._awaited.append(mine)
        yield from mine

    # Cancellation

    def cancel(self, msg: Any = None) -> bool:
        """Cancels a queued task, and returns True. msg is for asyncio.

        A task that runs is asked to stop, and False is returned: its waits end,
        and engine_stopping() is true. A C function that does neither goes on.
        """
        if self._state != PENDING:
            return self.cancelled()
        ids = memoryview(self._ids).cast("Q") if self._ids else \
            [self.task_id]
        queued = [_usched.cancel(task) == 0 for task in ids]
        if not all(queued):
            return False
        self._finish(CANCELLED_AND_NOTIFIED)
        return True

    def set_result(self, result: Any) -> None:
        """Raises InvalidStateError: result and exception are the engine's."""
        raise concurrent.futures.InvalidStateError("only the engine sets it")

    set_exception = set_result              # type: ignore[assignment]
    set_running_or_notify_cancel = None     # type: ignore[assignment]


__all__ = ["CancelledError", "Future"]
