# SPDX-License-Identifier: MIT
"""Errors that callers see."""

from __future__ import annotations

import os
import queue
from typing import Any


class EngineFull(queue.Full):
    """There is no room for a task, or intake is paused."""


class EngineClosed(RuntimeError):
    """The engine was shut down, or belongs to the parent of this process."""


class _EngineTaken(RuntimeError):
    """There is an engine in this process, or the memory of another is in
    use."""


class TaskError(OSError):
    """A C function has returned a negative number, -errno.

    errno, strerror: the error. task: the name of the task. index: which call
    of a batch, the first that failed; 0 otherwise.
    """

    def __init__(self, error: int, task: str, index: int = 0,
                 many: bool = False) -> None:
        name = "call %d of task %s" % (index, task) if many else \
            "task " + task
        super().__init__(error, "%s: %s" % (name, os.strerror(error)))
        self.task = task
        self.index = index

    def __reduce__(self) -> Any:
        return (TaskError, (self.errno, self.task, self.index))
