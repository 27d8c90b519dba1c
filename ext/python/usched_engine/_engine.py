# SPDX-License-Identifier: MIT
"""The engine: workers for C functions, and threads with event loops."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import ctypes
import functools
import gc
import os
import re
import sys
import threading
import time
import weakref
from asyncio import _get_running_loop
from concurrent.futures._base import (CANCELLED_AND_NOTIFIED, FINISHED,
                                      PENDING)
from typing import Any, Callable, Coroutine, Iterable, TypeVar

from . import _future, _usched
from ._errors import EngineClosed, EngineFull, _EngineTaken
from ._function import _address_of, get_c_function
from ._future import Future
from ._port import SLICE, _join, _left, _Ports, _set
from ._see import (CallStack, Stats, ThreadList, stack_of_c,
                   stack_of_coroutine, stats_of, thread_of)
from ._usched import CFunction

AT_EXIT = 1.0                   # seconds that tasks get after Ctrl-C, at exit
ROOM = 0.005                    # seconds: between two looks for room
PRIORITY = 4
INTERRUPTS = (KeyboardInterrupt, asyncio.CancelledError)

_T = TypeVar("_T")

_current: Engine | None = None
_current_lock = threading.Lock()
_exiting = False                # the program ends: executors take no calls

_usched.use(EngineFull, EngineClosed, _address_of)


class _CoroutineFuture(Future[Any]):
    """The result of a coroutine on a host thread."""

    _task: asyncio.Task[Any] | None = None
    _host: _Host

    def cancel(self, msg: Any = None) -> bool:
        """Cancels the coroutine. False: it runs, and is asked to stop. msg is
        for asyncio."""
        if self._state != PENDING:
            return self.cancelled()
        task = self._task
        if task is None:
            return self._finish(CANCELLED_AND_NOTIFIED)
        self._host.call(task.cancel)
        return False

    def running(self) -> bool:
        return self._state == PENDING and self._task is not None


class _Host:
    """A thread with an event loop, for coroutines: a gil_thread."""

    def __init__(self, engine: Engine, number: int) -> None:
        self.engine = engine
        self.loop = asyncio.new_event_loop()
        self.lock = threading.Lock()
        self.idle = threading.Condition(self.lock)
        self.waiting: list[tuple[Coroutine[Any, Any, Any],
                                 _CoroutineFuture]] = []
        self.load = self.submitted = self.completed = self.running = 0
        self.armed = self.closed = False
        self.host = -1
        self.thread = threading.Thread(target=self.run, daemon=True,
                                       name="usched-host-%d" % number)
        self.thread.start()

    def run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.host = _usched.host_attach()
        try:
            self.loop.run_forever()
        finally:
            _usched.host_detach(self.host)
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def call(self, f: Callable[..., Any], *args: Any) -> None:
        try:
            self.loop.call_soon_threadsafe(f, *args)
        except RuntimeError:
            pass                        # closed: nothing runs

    def submit(self, coroutine: Coroutine[Any, Any, Any],
               future: _CoroutineFuture) -> None:
        with self.lock:
            if self.closed:
                raise EngineClosed("the engine was shut down")
            self.load += 1
            self.submitted += 1
            self.waiting.append((coroutine, future))
            armed, self.armed = self.armed, True
        if not armed:
            self.call(self.start)

    def next(self) -> tuple[Coroutine[Any, Any, Any], _CoroutineFuture] | None:
        """Takes what begins next, by the policy; or None."""
        with self.lock:
            self.armed = False
            limit = self.engine._tasks_per_thread or sys.maxsize
            if not self.waiting or self.running >= limit or \
                    self.engine._paused & _usched.START:
                return None
            return self.waiting.pop(0 if self.engine._fifo else -1)

    def start(self) -> None:
        """Begins coroutines. In the loop."""
        while True:
            pair = self.next()
            if pair is None:
                return
            coroutine, future = pair
            if future._state != PENDING:
                coroutine.close()
                self.ended()
                continue
            self.running += 1
            _usched.host_report(self.host, future.task_name)
            task = self.loop.create_task(coroutine)
            future._task = task
            task.add_done_callback(functools.partial(self.done, future))

    def done(self, future: Future[Any], task: asyncio.Task[Any]) -> None:
        """Tells the outcome of a coroutine. In the loop."""
        self.running -= 1
        self.completed += 1
        if self.running == 0 and not self.engine._forked:
            _usched.host_report(self.host, None)
        if task.cancelled():
            future._finish(CANCELLED_AND_NOTIFIED)
        elif task.exception() is not None:
            future._finish(FINISHED, None, task.exception())
        else:
            future._finish(FINISHED, task.result())
        self.ended()
        if self.waiting:
            self.start()

    def ended(self) -> None:
        with self.lock:
            self.load -= 1
            if self.load == 0:
                self.idle.notify_all()

    def cancel_all(self) -> None:
        """Cancels what waits and what runs. Any thread."""
        with self.lock:
            waiting, self.waiting = self.waiting, []
        for coroutine, future in waiting:
            coroutine.close()
            future._finish(CANCELLED_AND_NOTIFIED)
            self.ended()
        self.call(self.cancel_running)

    def cancel_running(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()

    def wait_idle(self, seconds: float) -> bool:
        with self.lock:
            return self.idle.wait_for(lambda: self.load == 0, seconds)

    def close(self, seconds: float) -> bool:
        """Does so, and takes no more then."""
        idle = self.wait_idle(seconds)
        with self.lock:
            self.closed = idle and self.load == 0
        return self.closed

    def stop(self, end: float) -> None:
        """Ends the thread. Nothing runs. May be called again."""
        self.call(self.loop.stop)
        _join(self.thread, end, "a host thread")


def _bytes(name: str, value: Any) -> int:
    """Converts a size, such as 1000000, "512MB" or "1 GiB"."""
    units = {"": 0, "B": 0, "K": 1, "M": 2, "G": 3, "T": 4}
    if value is None:
        return 0
    if isinstance(value, str):
        match = re.match(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*$", value,
                         re.IGNORECASE)
        if match is None:
            raise ValueError("%s: %r is no size such as '512MB'"
                             % (name, value))
        base = 1024 if match.group(3) else 1000
        return int(float(match.group(1)) * base ** units[
            match.group(2).upper()])
    return _count(name, value)


def _count(name: str, value: Any, most: int = 2 ** 62 - 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("%s must be an int, not %s"
                        % (name, type(value).__name__))
    if not 0 <= value <= most:
        raise ValueError("%s: %d is not from 0 to %d" % (name, value, most))
    return value


def _cpus() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _task_id(task: Any) -> int:
    task = getattr(task, "task_id", task)
    if isinstance(task, str):
        raise ValueError("%s is a coroutine, which has no priority" % task)
    if isinstance(task, bool) or not isinstance(task, int) or task < 0:
        raise TypeError("pass a future of c_spawn(), or its task_id, not %r"
                        % (task,))
    return task


def _priority(priority: Any) -> int:
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise TypeError("a priority is an int, not %s"
                        % type(priority).__name__)
    if not 0 <= priority < _usched.LEVELS:
        raise ValueError("a priority is from 0 to %d, not %d"
                         % (_usched.LEVELS - 1, priority))
    return priority


class _Calls:
    """The calls of an executor, which they may outlive."""

    def __init__(self, executor: concurrent.futures.Executor) -> None:
        self.executor = weakref.ref(executor)
        self.changed = threading.Condition(threading.Lock())
        self.futures: weakref.WeakSet[concurrent.futures.Future[Any]] = \
            weakref.WeakSet()
        self.closed = False
        self.submits = 0                # that have begun, and not ended

    def begin(self) -> None:
        """Begins a submit(). Raises RuntimeError after close(), and as the
        program ends."""
        with self.changed:
            if self.closed or _exiting:
                raise RuntimeError("cannot schedule new futures after " + (
                    "shutdown" if self.closed else "interpreter shutdown"))
            self.submits += 1

    def end(self, future: concurrent.futures.Future[Any] | None) -> None:
        with self.changed:
            if future is not None:
                self.futures.add(future)
            self.submits -= 1
            if self.closed:
                self.changed.notify_all()

    def close(self) -> list[concurrent.futures.Future[Any]]:
        """Refuses further calls. Returns those that have not ended."""
        with self.changed:
            self.closed = True
        return self.pending()

    def pending(self) -> list[concurrent.futures.Future[Any]]:
        with self.changed:
            return [future for future in self.futures if not future.done()]

    def wait(self) -> None:
        """Waits until all have ended. Caller knows that none begins."""
        with self.changed:
            self.changed.wait_for(lambda: self.submits == 0)
        concurrent.futures.wait(self.pending())

    def left(self) -> bool:
        """Returns whether there are no calls, and will be none."""
        return (self.closed or self.executor() is None) and \
            self.submits == 0 and not self.pending()


class Engine(_Ports):
    """Runs C functions on native workers, and coroutines on host threads.

    workers             C workers and host threads; by default as many C
                        workers as cpus, and gil_threads more
    gil_threads         host threads: each has an event loop for coroutines; by
                        default 1, but none if there is one worker in all. If all
                        workers are host threads, C functions run in help() only
    tasks_per_thread    tasks that have begun, and not ended, on a worker
    shared_amount       bytes of queued tasks with their pinned buffers, such
                        as "1GB"; None: no limit
    shared_memory       bytes of named memory
    policy              "LIFO" or "FIFO": which of equal priority begins first
    tasks               queued C tasks; by default 1,000,000
    oversubscribe       more workers than cpus are not capped
    stack               bytes of a task's stack

    There is one engine in a process at a time; that of an Executor counts until
    the executor was shut down and its calls have ended. As a context manager it waits
    for all tasks at the end; after an exception it cancels them, and waits for
    those that have begun. After Ctrl-C, and if its asyncio task is cancelled,
    it waits a second at most: a C function that goes on is named on stderr, and
    ends with the process. shutdown() may wait for it.

    A timeout is in seconds, and None is no limit. After shutdown(), and in a
    child of fork(), methods raise EngineClosed.

    Raises TypeError and ValueError for arguments, RuntimeError if there is an
    engine, OSError or MemoryError if the system refuses.
    """

    def __init__(self, workers: int | None = None,
                 gil_threads: int | None = None,
                 tasks_per_thread: int | None = None,
                 shared_amount: int | str | None = None,
                 shared_memory: int | str = 0, policy: str = "LIFO", *,
                 tasks: int | None = None, oversubscribe: bool = False,
                 stack: int | str | None = None) -> None:
        global _current
        setup = self._checked(workers, gil_threads, tasks_per_thread,
                              shared_amount, shared_memory, policy, tasks,
                              oversubscribe, stack)
        super().__init__()
        self._gil_threads = setup[1]
        self._tasks_per_thread = setup[2]
        self._fifo = setup[6]
        self._paused = 0
        self._ending = threading.RLock()    # held by who shuts down
        self._ender: int | None = None
        self._hosts: list[_Host] = []
        self._coroutines: weakref.WeakValueDictionary[str, _CoroutineFuture] \
            = weakref.WeakValueDictionary()
        self._numbers = 0
        self._calls: _Calls | None = None   # of the Executor that has made it
        _end_left(True)
        with _current_lock:
            if _current is not None:
                raise _EngineTaken(
                    "there is an engine in this process, of an Executor: shut "
                    "that down first, or let it use yours: Executor(engine)"
                    if _current._calls is not None else
                    "there is an engine in this process: shut it down first")
            self._setup(setup)
            _current = self
        self._open = True

    @staticmethod
    def _checked(workers: int | None = None, gil_threads: int | None = None,
                 tasks_per_thread: int | None = None,
                 shared_amount: int | str | None = None,
                 shared_memory: int | str = 0, policy: str = "LIFO",
                 tasks: int | None = None, oversubscribe: bool = False,
                 stack: int | str | None = None) -> tuple[Any, ...]:
        """Checks options, and returns what setup() takes."""
        if gil_threads is None:
            gil_threads = 0 if workers == 1 else 1
        _count("gil_threads", gil_threads)
        if workers is None:
            workers = min(_cpus() + gil_threads, _usched.WORKERS)
            oversubscribe = True
        if _count("workers", workers) < 1:
            raise ValueError("workers: there must be at least 1")
        if oversubscribe:
            _count("workers", workers, _usched.WORKERS)
        if stack is not None and not 1 << 14 <= _bytes("stack", stack) <= \
                1 << 30:
            raise ValueError("stack: %r is not from 16 KiB to 1 GiB" % stack)
        if gil_threads > workers:
            raise ValueError("gil_threads: %d are more than the %d workers"
                             % (gil_threads, workers))
        if policy not in ("LIFO", "FIFO"):
            raise ValueError("policy is 'LIFO' or 'FIFO', not %r" % (policy,))
        return (min(workers, 1 << 20), min(gil_threads, 1 << 20),
                _count("tasks_per_thread", tasks_per_thread or 0,
                       _usched.TASKS // _usched.WORKERS),
                _count("tasks", tasks or 0, _usched.TASKS),
                _bytes("shared_amount", shared_amount),
                _bytes("shared_memory", shared_memory), policy == "FIFO",
                bool(oversubscribe), _bytes("stack", stack))

    def _setup(self, setup: tuple[Any, ...]) -> None:
        if not _usched.fini():
            gc.collect()                # views of the last engine's memory
            _usched.fini()
        try:
            _usched.setup(*setup)
        except RuntimeError as error:
            raise _EngineTaken("%s (are there views of the last engine's "
                               "memory?)" % error) from None

    def __repr__(self) -> str:
        if not self._open:
            return "<Engine, shut down>"
        stats = self.get_stats()
        return "<Engine: %d C threads, %d host threads, %d tasks run, %d " \
            "queued, %d completed%s>" % (
                self._c_threads(stats), self._gil_threads,
                stats["tasks_running"], stats["tasks_in_queue"],
                stats["tasks_completed"], ", paused" if self._paused else "")

    @staticmethod
    def _c_threads(stats: dict[str, Any]) -> int:
        return int(stats["c_threads_active"] + stats["c_threads_idle"])

    # C functions

    def _submit(self, function: Any, args: Any, many: bool, priority: int,
                name: str | None, out: Any, block: bool | None,
                timeout: float | None, check: bool) -> Future[Any]:
        if not self._open:
            self._check()
        if type(function) is not CFunction:
            function = get_c_function(function)
        loop = _get_running_loop()
        port = self._ports.get(loop) or self._new_port(loop)
        future: Future[Any] = Future(self, name or function.name)
        future._port = port
        if block is None:
            block = loop is None
        if type(priority) is not int or not 0 <= priority < _usched.LEVELS:
            _priority(priority)
        made = _usched.spawn(port.port, future, function, args, many, check,
                             out, timeout if block else 0, priority,
                             future.task_name)
        if many:
            future._ids = made
            future.task_id = int.from_bytes(made[:8], sys.byteorder)
        else:
            future.task_id = made
        if not self._open:
            port.drain()                # the last look may be over
        return future

    def c_spawn(self, function: Any, args: tuple[Any, ...] = (),
                priority: int = PRIORITY, *, name: str | None = None,
                out: Any = None, block: bool | None = None,
                timeout: float | None = None,
                check: bool = True) -> Future[Any]:
        """Queues a call of a C function, and returns its future.

        function    what get_c_function() takes or returns
        args        at most 6 integers and pointers, and 8 floats. An int, a
                    float, or a number of ctypes or NumPy is passed by value;
                    None as a null pointer; a buffer (bytes, bytearray,
                    memoryview, array, NumPy array, ctypes array, cffi pointer)
                    as the address of its memory, which is pinned, not copied
        priority    0 to 7; 7 begins first
        name        for messages and statistics
        out         the result of the future, instead of the function's: mostly
                    the buffer that the function fills
        block       whether to wait for room, up to timeout seconds; by default
                    except in an event loop
        check       whether a negative result is -errno, and so an error

        The function must not call Python, and must not need the GIL. The
        future raises TaskError if the function returns an error.

        Raises TypeError, ValueError or BufferError for arguments, EngineFull
        (or TimeoutError, with a timeout) without room, EngineClosed.
        """
        return self._submit(function, args, False, priority, name, out, block,
                            timeout, check)

    def c_spawn_many(self, function: Any, args: Iterable[Any],
                     priority: int = PRIORITY, *, name: str | None = None,
                     out: Any = None, block: bool | None = None,
                     timeout: float | None = None,
                     check: bool = True) -> Future[Any]:
        """Queues a call for each element of args, with a single future.

        An element is a tuple of arguments, or a single argument; all have the
        same kinds. The future's result is the list of results. If calls fail,
        the future raises the TaskError of the first in order. cancel() cancels
        all calls.

        Else as c_spawn(), also what it raises; with EngineFull, the calls that
        fitted are cancelled.
        """
        if not hasattr(args, "__iter__") and not hasattr(args, "__len__"):
            # A pointer of ctypes could be indexed without end.
            raise TypeError("args must be an iterable, with an element for "
                            "each call, not %s" % type(args).__name__)
        tuples = [arg if type(arg) is tuple else (arg,) for arg in args]
        return self._submit(function, tuples, True, priority, name, out, block,
                            timeout, check)

    async def room(self, size: int = 0) -> None:
        """Waits until a call with so many bytes of buffers could be queued.

        Others may be faster, so c_spawn() may still raise EngineFull: then
        wait again. Raises ValueError if size is over shared_amount,
        EngineClosed.
        """
        self._check()
        loop = asyncio.get_running_loop()
        port = self._ports.get(loop) or self._new_port(loop)
        while not _usched.room(_count("size", size)):
            mine = loop.create_future()
            port.rooms[mine] = None
            timer = loop.call_later(ROOM, _set, mine)
            try:
                await mine
            finally:
                timer.cancel()
                port.rooms.pop(mine, None)
            self._check()

    def get_c_function(self, function: Any, library: Any = None,
                       **options: Any) -> CFunction:
        """Does and raises what usched_engine.get_c_function() does."""
        return get_c_function(function, library, **options)

    def set_priority(self, task: Any, priority: int) -> None:
        """Moves a queued C task to another priority, 0 to 7.

        task        a future of c_spawn(), or its task_id; or a future of
                    c_spawn_many(): moves the calls that have not begun

        Raises LookupError if the task has begun; TypeError, ValueError.
        """
        self._check()
        if getattr(task, "_ids", b""):
            for one in memoryview(task._ids).cast("Q"):
                try:
                    _usched.set_priority(one, _priority(priority))
                except LookupError:
                    pass                # this call has begun
            return
        _usched.set_priority(_task_id(task), _priority(priority))

    def help(self, tasks: int = 1, timeout: float | None = 0) -> int:
        """Lends the calling thread: runs up to tasks queued C tasks.

        Waits up to timeout seconds for the first. The GIL is released. Returns
        how many were run. Raises TypeError, ValueError.
        """
        self._check()
        if _count("tasks", tasks) < 1:
            raise ValueError("tasks: at least 1")
        host = self._own_host()
        return _usched.help(host.host if host else -1, min(tasks, 1 << 30),
                            timeout)

    # Coroutines

    def spawn(self, coroutine: Coroutine[Any, Any, _T], *,
              name: str | None = None) -> Future[_T]:
        """Runs a coroutine on the host thread with the least load, and returns
        its future. name is for messages.

        Python code of host threads runs in parallel only without the GIL.
        Raises TypeError if it is no coroutine; EngineFull if intake is paused,
        ValueError without gil_threads, EngineClosed: then the coroutine is
        closed.
        """
        if not asyncio.iscoroutine(coroutine):
            raise TypeError("spawn() takes a coroutine, not %s"
                            % type(coroutine).__name__)
        try:
            self._check()
            if self._gil_threads == 0:
                raise ValueError("the engine has no gil_threads")
            if self._paused & _usched.INTAKE:
                raise EngineFull("intake is paused")
            host = self._least_loaded()
        except BaseException:
            coroutine.close()
            raise
        future = _CoroutineFuture(self, name or str(getattr(
            coroutine, "__name__", "coroutine")))
        future._host = host
        with self._lock:
            self._numbers += 1
            future.task_id = "coroutine-%d" % self._numbers
            self._coroutines[future.task_id] = future
        try:
            host.submit(coroutine, future)
        except EngineClosed:
            coroutine.close()
            raise
        return future

    def _least_loaded(self) -> _Host:
        with self._lock:
            if not self._open:
                raise EngineClosed("the engine was shut down")
            while len(self._hosts) < self._gil_threads:
                self._hosts.append(_Host(self, len(self._hosts)))
        return min(self._hosts, key=lambda host: host.load)

    def _own_host(self) -> _Host | None:
        for host in self._hosts:
            if host.thread is threading.current_thread():
                return host
        return None

    # Named memory

    def memory_bus_push(self, key: str, data: Any, size: int | None = None, *,
                        copy: bool = True) -> str:
        """Gives memory a name, and returns the name.

        key     the name, which must be free
        data    a contiguous buffer; or an address, as an int, with size
        size    bytes; by default all
        copy    False: data is pinned, not copied, until it has no name and no
                pin; then it must be writable

        Raises ValueError if the name is taken, MemoryError over the limit,
        TypeError or BufferError if data is no such buffer.
        """
        self._check()
        if isinstance(data, bool):
            raise TypeError("data is a buffer or an address, not bool")
        if isinstance(data, int):
            if size is None or data <= 0:
                raise ValueError("an address needs a size, and is not %d"
                                 % data)
            data = (ctypes.c_char * _count("size", size)).from_address(data)
        elif size is not None:
            view = memoryview(data).cast("B")
            if _count("size", size) > len(view):
                raise ValueError("size: %d bytes are more than the %d of the "
                                 "buffer" % (size, len(view)))
            data = view[:size]
        return _usched.bus_push(key, data, copy)

    def memory_bus_get(self, key: str) -> memoryview:
        """Returns a writable view of the bytes that are named key. The view
        pins them as long as it lives. Raises KeyError if there are none.
        """
        self._check()
        return _usched.bus_get(key, False)

    def memory_bus_pop(self, key: str) -> memoryview:
        """Returns a view as memory_bus_get() does, and takes the name key away.
        Raises KeyError."""
        self._check()
        return _usched.bus_get(key, True)

    def clear_memory_bus(self) -> int:
        """Takes all names away, and returns how many. Views stay valid."""
        self._check()
        return _usched.bus_clear()

    # Lifecycle

    @staticmethod
    def _what(what: str) -> int:
        table = {"intake": _usched.INTAKE, "start": _usched.START,
                 "all": _usched.INTAKE | _usched.START}
        if what not in table:
            raise ValueError("pause 'intake', 'start' or 'all', not %r"
                             % (what,))
        return table[what]

    def pause(self, what: str = "intake") -> None:
        """Pauses what is named: "intake": new tasks wait or are refused, and
        others run; "start": no task begins, and tasks that have begun go on;
        "all": both. Raises ValueError."""
        self._check()
        _usched.pause(self._what(what), False)
        self._paused |= self._what(what)

    def resume(self, what: str = "all") -> None:
        """Ends pauses of what is named, as for pause(). Raises ValueError."""
        self._check()
        _usched.pause(self._what(what), True)
        self._paused &= ~self._what(what)
        for host in self._hosts:
            host.call(host.start)

    def _all_done(self, seconds: float) -> bool:
        """Waits for all tasks. Returns whether there are none."""
        try:
            _usched.wait_all(seconds)
        except TimeoutError:
            return False
        for host in self._hosts:
            if not host.wait_idle(seconds):
                return False
        stats = _usched.stats()         # coroutines make C tasks
        return stats["tasks_in_queue"] + stats["tasks_running"] == 0

    def wait_all(self, timeout: float | None = None,
                 progress: bool | None = None) -> None:
        """Waits until all tasks and coroutines have ended.

        progress    whether tqdm shows it, if that is installed; by default if
                    stderr is a terminal

        Raises TimeoutError after timeout seconds; RuntimeError if a coroutine
        of this engine calls.
        """
        self._check()
        if self._own_host() is not None:
            raise RuntimeError("a coroutine of the engine cannot wait for "
                               "itself")
        end = float("inf") if timeout is None else time.monotonic() + timeout
        bar = _Progress(self, progress)
        try:
            while not self._all_done(max(0, min(end - time.monotonic(),
                                                SLICE))):
                bar.show()
                if time.monotonic() >= end:
                    raise TimeoutError("tasks have not ended in %g seconds"
                                       % (timeout or 0))
        finally:
            bar.close()
        self._drain()

    def _stop_hosts(self, end: float) -> None:
        with self._lock:
            hosts = list(self._hosts)
        for host in hosts:
            host.cancel_all()
        for host in hosts:
            while not host.close(min(_left(end), SLICE)):
                self._drain()
                if time.monotonic() >= end:
                    raise TimeoutError("coroutines still run")
                host.cancel_all()
        for host in hosts:
            host.stop(end)

    def _stop_tasks(self, end: float) -> None:
        try:
            _usched.shutdown(None if end == float("inf") else _left(end))
        except TimeoutError:
            raise TimeoutError(
                "%s still run: shutdown() may wait for them, and they end "
                "with the process" % self._running()) from None

    @staticmethod
    def _running() -> str:
        """Names the tasks on workers."""
        threads: list[tuple[Any, ...]] = []
        try:
            while True:
                threads.append(_usched.thread(len(threads)))
        except LookupError:
            pass
        return "tasks (%s)" % ", ".join(thread[4] for thread in threads
                                        if thread[3])

    def _refusal(self) -> str | None:
        """Says why the caller may not shut down: that would wait for it."""
        if self._own_host() is not None:
            return "a coroutine of the engine cannot shut it down"
        if self._ender == threading.get_ident():
            return "this thread shuts the engine down already"
        if self._in_callback():
            return "a callback of a future cannot shut the engine down: let " \
                "a thread or a coroutine do it"
        return None

    def shutdown(self, timeout: float | None = None) -> None:
        """Refuses new tasks, cancels what is queued, asks what runs to stop,
        and waits until that has ended. Does nothing the second time. If several
        threads call, one works, and the others wait for it.

        Raises TimeoutError after timeout seconds, if tasks still run: nothing
        is killed. Call again. RuntimeError if a coroutine of this engine calls,
        a callback of a future, or a signal handler within a shutdown().
        """
        if self._forked or _current is not self:
            return
        refusal = self._refusal()
        if refusal is not None:
            raise RuntimeError(refusal)
        end = float("inf") if timeout is None else time.monotonic() + timeout
        if not self._ending.acquire(timeout=_left(end)):
            raise TimeoutError("another thread still shuts the engine down")
        try:
            self._ender = threading.get_ident()
            if _current is self:
                self._end(end)
        finally:
            self._ender = None
            self._ending.release()

    def _end(self, end: float) -> None:
        """Each step may be done again, if a later one has raised. Caller holds
        _ending."""
        global _current
        with self._lock:
            self._open = False
        self._stop_hosts(end)
        self._stop_tasks(end)
        self._drain()
        with self._lock:
            self._ended = True
            ports, self._ports = self._ports, {}
        for port in ports.values():
            port.detach()
        if self._collector is not None:
            self._collector.stop(end)
        with _current_lock:
            _current = None
            _usched.fini()

    def __enter__(self) -> Engine:
        self._check()
        return self

    def _leave(self, kind: Any) -> None:
        """Shuts down at the end of a block, after an exception of a kind."""
        if kind is None or not issubclass(kind, INTERRUPTS):
            self.shutdown()
            return
        try:
            self.shutdown(AT_EXIT)
        except TimeoutError as error:
            _say(error)

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            if kind is None and self._open:
                self.wait_all()
        except EngineClosed:
            pass                        # by another thread
        except BaseException as error:
            self._leave(type(error))
            raise
        self._leave(kind)

    async def __aenter__(self) -> Engine:
        return self.__enter__()

    def _is_idle(self, seconds: float) -> bool:
        try:
            return not self._open or self._all_done(seconds)
        except EngineClosed:
            return True                 # by another thread

    def _is_shut(self, seconds: float) -> bool:
        try:
            self.shutdown(seconds)
        except TimeoutError:
            return False
        return True

    async def _slices(self, done: Callable[[float], bool]) -> None:
        """Calls done() in threads, until it is true: a cancellation leaves no
        thread behind that waits for long."""
        loop = asyncio.get_running_loop()
        while not await loop.run_in_executor(None, done, SLICE):
            pass

    async def __aexit__(self, kind: Any, *_: Any) -> None:
        try:
            if kind is None:
                await self._slices(self._is_idle)
            if kind is None or not issubclass(kind, INTERRUPTS):
                await self._slices(self._is_shut)
        except BaseException as error:
            kind = type(error)
            raise
        finally:
            await asyncio.get_running_loop().run_in_executor(
                None, self._leave, kind)

    # Seeing

    def get_stats(self) -> Stats:
        """Returns a dictionary of integers, which prints as a table.

        total_tasks_submitted, tasks_completed (of these tasks_failed),
        tasks_canceled, tasks_helped, bus_contention_count: counts since the
        engine began. tasks_in_queue, tasks_running, the ..._threads_active and
        ..._idle, shared_memory_names, shared_memory_pins: counts of now.
        tasks_memory, shared_memory_used, shared_memory_available: bytes of
        now. avg_task_latency_ms: a float, the mean milliseconds from
        submission to end, of all tasks if they are few, else of a sample.
        """
        self._check()
        return stats_of(_usched.stats(), self._hosts)

    def thread_info(self, thread_id: int | None = None) -> Any:
        """Describes the worker thread_id, from 0, as a dictionary; or all, as
        a list: C workers first.

        cpu_time_ms and idle_time_ms are milliseconds, last_active is local
        time as text, or None. Raises LookupError if there is no such worker.
        """
        self._check()
        if thread_id is not None:
            return thread_of(_usched.thread(_count("thread_id", thread_id)))
        found = ThreadList()
        try:
            while True:
                found.append(thread_of(_usched.thread(len(found))))
        except LookupError:
            return found

    def get_call_stack(self, task: Any = None, *, lines: bool = True,
                       timeout: float = 1.0) -> CallStack:
        """Returns a snapshot of where a task waits.

        task        a future or its task_id; None: the coroutine that calls
        lines       whether to ask for source lines, which takes milliseconds
        timeout     seconds; a task that does not wait has no frames

        Raises LookupError if the task has ended.
        """
        self._check()
        task = getattr(task, "task_id", task)
        if task is None:
            task = self._own_task()
        if isinstance(task, str):
            future = self._coroutines.get(task)
            if future is None or future.done():
                raise LookupError("%s has ended" % task)
            return stack_of_coroutine(
                future, self._c_threads(_usched.stats()), timeout)
        return stack_of_c(_usched.stack(_task_id(task), lines, timeout))

    def _own_task(self) -> str:
        host = self._own_host()
        current = asyncio.current_task() if host else None
        for key, future in list(self._coroutines.items()):
            if current is not None and future._task is current:
                return key
        raise LookupError("no coroutine of this engine calls: name a task")


class _Progress:
    """A bar of tqdm, after half a second."""

    def __init__(self, engine: Engine, wanted: bool | None) -> None:
        self.engine = engine
        self.begun = time.monotonic()
        self.bar: Any = None
        if wanted is None:
            wanted = sys.stderr is not None and sys.stderr.isatty()
        self.wanted = wanted

    def show(self) -> None:
        if not self.wanted or time.monotonic() - self.begun < 0.5:
            return
        if self.bar is None:
            try:
                from tqdm.auto import tqdm      # type: ignore
            except ImportError:
                self.wanted = False
                return
            self.bar = tqdm(unit="task", initial=self.ended())
        self.bar.n = self.ended()
        self.bar.refresh()

    def ended(self) -> int:
        """Returns how many tasks have ended. Notes how many there are."""
        stats = self.engine.get_stats()
        if self.bar is not None:
            self.bar.total = stats["total_tasks_submitted"]
        return int(stats["tasks_completed"] + stats["tasks_canceled"])

    def close(self) -> None:
        if self.bar is not None:
            self.show()
            self.bar.close()


def _end_left(patient: bool) -> None:
    """Ends an engine that an executor has left, and whose calls have ended. It
    stays if the caller is what its shutdown() would wait for; and, unless the
    caller is patient, if that would wait for a callback."""
    engine = _current
    if engine is not None and engine._calls is not None and \
            engine._calls.left() and engine._refusal() is None and \
            (patient or engine._callbacks_end()):
        engine.shutdown()


def _after_fork() -> None:
    """In the child: the engine is the parent's."""
    global _current, _current_lock
    _future._renew_lock()
    _current_lock = threading.Lock()
    if _current is not None:
        _current._forked = True
        _current._open = False
        _current = None


def _say(error: BaseException) -> None:
    if sys.stderr is not None:
        print("usched_engine: %s" % error, file=sys.stderr)


def _at_exit() -> None:
    global _exiting
    _exiting = True
    engine = _current
    if engine is not None:
        try:
            if engine._calls is not None:
                engine._calls.wait()
        finally:
            engine._leave(KeyboardInterrupt)


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
