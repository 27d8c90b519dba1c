# SPDX-License-Identifier: MIT
"""What the engine tells about itself, as objects that print well."""

from __future__ import annotations

import datetime
import html
import threading
import time
from dataclasses import dataclass
from typing import Any


class _Table(dict):      # type: ignore[type-arg]  # of Python 3.8
    """A dictionary that prints as a table."""

    def __repr__(self) -> str:
        width = max(map(len, self), default=0)
        return "\n".join("%-*s  %s" % (width, key, _shown(value))
                         for key, value in self.items())

    def _repr_html_(self) -> str:
        return "<table>%s</table>" % "".join(
            "<tr><th style='text-align:left'>%s</th><td>%s</td></tr>"
            % (html.escape(key), html.escape(_shown(value)))
            for key, value in self.items())


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return "{:,}".format(value) if isinstance(value, int) else \
        "%.3f" % value


class _Rows(list):       # type: ignore[type-arg]  # of Python 3.8
    """A list of dictionaries with the same keys, which prints as a table."""

    def _rows(self) -> list[list[str]]:
        return [list(self[0])] + [
            [_shown(value) for value in row.values()] for row in self]

    def __repr__(self) -> str:
        if not self:
            return "[]"
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip()
                         for row in rows)

    def _repr_html_(self) -> str:
        return "<table>%s</table>" % "".join(
            "<tr>%s</tr>" % "".join("<td>%s</td>" % html.escape(cell)
                                    for cell in row)
            for row in (self._rows() if self else []))


class Stats(_Table):
    """Statistics of an engine."""


class ThreadInfo(_Table):
    """A worker or a host thread."""


class ThreadList(_Rows):
    """All workers and host threads."""


def stats_of(stats: dict[str, Any], hosts: Any) -> Stats:
    """Adds the coroutines, which the C part does not know."""
    made = Stats(stats)
    waiting = sum(len(host.waiting) for host in hosts)
    made["total_tasks_submitted"] += sum(host.submitted for host in hosts)
    made["tasks_completed"] += sum(host.completed for host in hosts)
    made["tasks_in_queue"] += waiting
    made["tasks_running"] += sum(host.running for host in hosts)
    return made


def thread_of(known: tuple[Any, ...]) -> ThreadInfo:
    number, host, state, current, task, completed, cpu, idle, ago = known
    active = None
    if ago >= 0:
        when = datetime.datetime.now() - datetime.timedelta(milliseconds=ago)
        active = when.isoformat(timespec="seconds")
    return ThreadInfo(
        thread_id=number, type="GIL_THREAD" if host else "C_THREAD",
        state=("IDLE", "RUNNING", "WAITING", "BLOCKED")[state],
        current_task=task or (current or None), tasks_completed=completed,
        cpu_time_ms=cpu, idle_time_ms=idle, last_active=active)


@dataclass(frozen=True)
class Frame:
    """A frame of a task's stack, the innermost first."""

    function_name: str
    file: str
    line: int
    execution_type: str                 # "PYTHON" or "C_NATIVE"
    thread_id: int
    timestamp: float                    # time.time() of the snapshot
    memory_refs: int = 0                # pins of the task

    def __str__(self) -> str:
        return "%s at %s:%d" % (self.function_name or "?", self.file,
                                self.line)


@dataclass(frozen=True, repr=False)
class CallStack:
    """A snapshot, which nothing changes later."""

    task_id: Any
    task_name: str
    state: str                          # QUEUED, RUNNING, WAITING, ENDED
    priority: int | None
    thread_id: int
    waits_for: str | None
    seconds: float | None               # in this state; None: unknown
    pinned_bytes: int
    frames: tuple[Frame, ...]

    def __repr__(self) -> str:
        head = "task %s (%s): %s%s%s" % (
            self.task_name, self.task_id, self.state,
            "" if self.seconds is None else " for %.3f s" % self.seconds,
            ", for " + self.waits_for if self.waits_for else "")
        return "\n    ".join([head] + [str(frame) for frame in self.frames])


def stack_of_c(known: tuple[Any, ...]) -> CallStack:
    (number, name, stage, priority, thread, waits, seconds, pinned, pins,
     frames) = known
    now = time.time()
    return CallStack(
        number, name, ("QUEUED", "RUNNING", "WAITING", "ENDED")[stage],
        priority, thread, waits, seconds, pinned,
        tuple(Frame(function or "%#x" % pc, file or "C_NATIVE", line,
                    "C_NATIVE", thread, now, pins)
              for function, file, line, pc in frames))


def _frames_of(coroutine: Any, thread: int) -> list[Frame]:
    """Walks from a coroutine to what it awaits."""
    frames = []
    now = time.time()
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None)
        if frame is not None:
            frames.append(Frame(frame.f_code.co_name,
                                frame.f_code.co_filename, frame.f_lineno,
                                "PYTHON", thread, now))
        coroutine = getattr(coroutine, "cr_await", None)
    return frames[::-1]


def stack_of_coroutine(future: Any, first: int,
                       timeout: float) -> CallStack:
    """Asks the loop of a coroutine for its frames. first: of the hosts."""
    host, task = future._host, future._task
    thread = first + host.host
    frames: list[Frame] = []
    told = threading.Event()

    def look() -> None:
        frames.extend(_frames_of(task.get_coro(), thread))
        told.set()

    if task is not None:
        if host.thread is threading.current_thread():
            look()
        else:
            host.call(look)
            told.wait(timeout)
    state = "QUEUED" if task is None else \
        "WAITING" if told.is_set() else "RUNNING"
    return CallStack(future.task_id, future.task_name, state, None, thread,
                     None, None, 0, tuple(frames))
