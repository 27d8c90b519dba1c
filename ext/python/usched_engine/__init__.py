# SPDX-License-Identifier: MIT
"""C functions as tasks on native workers, beside asyncio.

    import ctypes
    from usched_engine import Engine

    with Engine() as engine:
        future = engine.c_spawn(ctypes.CDLL(None).abs, (-5,))
        print(future.result())

Futures are awaited in coroutines, or waited for in threads. See Engine.
"""

from __future__ import annotations

import os

try:
    from . import _usched as _usched
except ImportError as _error:
    if "cannot import name" not in str(_error):
        raise
    raise ImportError("usched_engine: the part in C is missing here: run pip "
                      "install ./ext/python, and start Python elsewhere") \
        from _error
from ._engine import Engine
from ._errors import EngineClosed, EngineFull, TaskError
from ._executor import Executor
from ._function import get_c_function, _share_symbols
from ._future import CancelledError, Future
from ._see import CallStack, Frame, Stats, ThreadInfo
from ._usched import CFunction, __version__


def get_include() -> str:
    """Returns the folder of the C headers: <usched/all.h>, and others.

    For Cython, "from usched_engine.usched cimport ..." declares them.
    """
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")


def share_symbols() -> None:
    """Lets extension modules and libraries that are loaded from now on call
    the C functions of these headers. get_c_function() does it by itself."""
    _share_symbols()


__all__ = [
    "CFunction", "CallStack", "CancelledError", "Engine", "EngineClosed",
    "EngineFull", "Executor", "Frame", "Future", "Stats", "TaskError", "ThreadInfo",
    "__version__", "get_c_function", "get_include", "share_symbols",
]
