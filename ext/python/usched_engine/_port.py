# SPDX-License-Identifier: MIT
"""Ports: where calls end, and who tells their futures."""

from __future__ import annotations

import asyncio
import os
import select
import threading
import time
from asyncio import _get_running_loop
from concurrent.futures._base import LOGGER
from typing import Any, Iterable

from . import _usched
from ._errors import EngineClosed

SLICE = 0.1                     # seconds: between two looks, in rare waits
TURNS = 32                      # awaits that do not let their loop go round


def _set(mine: asyncio.Future[None]) -> None:
    if not mine.done():
        mine.set_result(None)


def _wake(mine: asyncio.Future[None]) -> None:
    """Wakes a coroutine that awaits, in its own loop."""
    loop = mine.get_loop()
    if _get_running_loop() is loop:
        _set(mine)
        return
    try:
        loop.call_soon_threadsafe(_set, mine)
    except RuntimeError:
        pass                            # the loop was closed


class _Port:
    """Where calls end that were made in an event loop, or in plain threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self.port = _usched.Port()
        self.loop = loop
        self.lock = threading.RLock()
        self.turns = 0
        self.rooms: dict[asyncio.Future[None], None] = {}
        self.collected = loop is None

    def drain(self) -> None:
        """Tells futures of ended calls. Called as the descriptor is readable,
        and to be sure that no end is left."""
        self.turns = 0
        with self.lock:
            self.tell(self.port.take())

    def tell(self, ended: Iterable[tuple[Any, ...]]) -> None:
        """Tells futures, and coroutines that wait for room. A callback keeps
        no other from being told, also by sys.exit()."""
        raised: BaseException | None = None
        for future, value, error, index in ended:
            try:
                future._ended(value, error, index)
            except BaseException as exception:
                raised = exception
        for room in tuple(self.rooms):
            _wake(room)
        if raised is not None:
            _pass_on(raised)

    def look(self) -> bool:
        """Does so without a system call, for the loop's own thread. Returns
        False once in TURNS, without a look: others shall get their turn."""
        self.turns += 1
        if self.turns >= TURNS:
            self.turns = 0
            return False
        if self.port.ready():
            with self.lock:
                self.tell(self.port.take_quietly())
        return True

    def wait(self) -> None:
        """Waits a little for an end, for a thread that has to wait anyway."""
        with self.lock:
            self.tell(self.port.take_soon())

    def detach(self) -> None:
        """Takes the descriptor out of the loop. Any thread."""
        if self.loop is None or self.loop.is_closed():
            return
        if self.loop is _get_running_loop():
            self.loop.remove_reader(self.port.fileno())
            return
        try:
            self.loop.call_soon_threadsafe(self._remove)
        except RuntimeError:
            pass                        # closed meanwhile

    def _remove(self) -> None:
        assert self.loop is not None
        self.loop.remove_reader(self.port.fileno())


class _Collector:
    """A thread that tells futures of plain threads; and those of event loops
    for which a thread waits, since a loop may stop, or be what waits."""

    def __init__(self) -> None:
        self.port = _Port(None)
        self.ports = [self.port]
        self.stopping = False
        self.read_end, self.write_end = self.ends = list(os.pipe())
        self.thread = threading.Thread(target=self.run, daemon=True,
                                       name="usched-collector")
        self.thread.start()

    def run(self) -> None:
        while not self.stopping:
            ports = self.ports
            ready = _readable([self.read_end] +
                              [port.port.fileno() for port in ports])
            if self.read_end in ready:
                os.read(self.read_end, 4096)
            for port in ports:
                if port.port.fileno() in ready:
                    port.drain()

    def wake(self) -> None:
        os.write(self.write_end, b"x")

    def adopt(self, port: _Port) -> None:
        """Tells futures of a port, too. Caller holds the engine's lock."""
        port.collected = True
        self.ports = self.ports + [port]
        self.wake()

    def forget(self) -> None:
        """Forgets ports that have no use. Caller holds the engine's lock."""
        kept = [port for port in self.ports
                if port.loop is None or not port.loop.is_closed() or
                port.port.calls()]
        if len(kept) != len(self.ports):
            self.ports = kept
            self.wake()                 # run() refers to the old list

    def stop(self, end: float) -> None:
        """Ends the thread. Caller is alone, and calls again after an
        exception: an end of the pipe leaves the list before it is closed."""
        self.stopping = True
        if self.ends:
            self.wake()
        _join(self.thread, end, "a callback of a future")
        while self.ends:
            os.close(self.ends.pop())
        for port in self.ports:
            port.drain()


def _pass_on(raised: BaseException) -> None:
    """Raises what ends the loop or the program of this thread. What else a
    callback raises is of no thread, and is told as by concurrent.futures."""
    if _get_running_loop() is not None or \
            isinstance(raised, KeyboardInterrupt) and \
            threading.current_thread() is threading.main_thread():
        raise raised
    LOGGER.critical("exception in a callback of a future", exc_info=raised)


def _left(end: float) -> float:
    """Returns the seconds until a deadline, at most those of a lock."""
    return min(max(0, end - time.monotonic()), threading.TIMEOUT_MAX)


def _join(thread: threading.Thread, end: float, what: str) -> None:
    thread.join(_left(end))
    if thread.is_alive():
        raise TimeoutError("%s still runs" % what)


def _readable(fds: list[int]) -> list[int]:
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll()]


class _Ports:
    """Where the calls of an engine end: the base of Engine."""

    def __init__(self) -> None:
        self._open = False
        self._ended = False             # no thread and no port is made
        self._forked = False
        self._lock = threading.Lock()
        self._ports: dict[Any, _Port] = {}
        self._collector: _Collector | None = None
        self._slow = False              # a callback was, at the last look

    def _check(self) -> None:
        if self._forked:
            raise EngineClosed("the engine belongs to the parent process")
        if not self._open:
            raise EngineClosed("the engine was shut down")

    def _new_port(self, loop: Any) -> _Port:
        with self._lock:
            self._check()
            for old in [old for old in self._ports
                        if old is not None and old.is_closed()]:
                closed = self._ports.pop(old)
                if closed.port.calls() and not closed.collected:
                    self._collect().adopt(closed)
            if self._collector is not None:
                self._collector.forget()
            if loop in self._ports:
                return self._ports[loop]
            if loop is None:
                port = self._collect().port
            else:
                port = _Port(loop)
                loop.add_reader(port.port.fileno(), port.drain)
            self._ports[loop] = port
            return port

    def _collect(self) -> _Collector:
        """Returns the collector. Caller holds the lock."""
        if self._collector is None:
            self._collector = _Collector()
        return self._collector

    def _may_wait(self, port: _Port) -> None:
        """Refuses waits for which no thread could be told of the end."""
        collector = self._collector
        owned = port.lock._is_owned()           # type: ignore
        if owned or port.collected and \
                collector is not None and \
                collector.thread is threading.current_thread():
            raise RuntimeError("a callback of a future cannot wait for "
                               "another: let a thread or a coroutine wait")

    def _thread_waits(self, port: _Port) -> None:
        """Called as a thread is about to wait for a future of a port."""
        if port.collected:
            return
        with self._lock:
            if not self._ended and not port.collected:
                self._collect().adopt(port)

    def _drain(self) -> None:
        with self._lock:
            ports = list(self._ports.values())
        for port in ports:
            port.drain()

    def _all_ports(self) -> list[_Port]:
        collector = self._collector
        return list(self._ports.values()) + (
            collector.ports if collector is not None else [])

    def _in_callback(self) -> bool:
        """Returns whether a callback of a future calls, or what it calls."""
        return any(port.lock._is_owned()                    # type: ignore
                   for port in self._all_ports())

    def _callbacks_end(self) -> bool:
        """Returns whether no callback runs. Waits a little, but once only for
        one that takes long. Caller knows that none will begin."""
        seconds = 0 if self._slow else SLICE
        for port in self._all_ports():
            self._slow = not port.lock.acquire(timeout=seconds)
            if self._slow:
                return False
            port.lock.release()
        return True
