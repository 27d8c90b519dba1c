# SPDX-License-Identifier: MIT
"""Each public name explains itself, its types are right, and what a notebook
shows can be read."""

import asyncio
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

import usched_engine
from usched_engine import Engine, _see

PACKAGE = os.path.dirname(usched_engine.__file__)


def public():
    """Yields (name, object, class or None) of all that users call or see."""
    for name in usched_engine.__all__:
        thing = getattr(usched_engine, name)
        if name == "__version__" or name == "CancelledError":
            continue
        yield name, thing, None
        for member, inner in vars(thing).items() \
                if inspect.isclass(thing) else ():
            if not member.startswith("_") and (
                    callable(inner) or hasattr(inner, "__get__")):
                if isinstance(inner, staticmethod):
                    inner = inner.__func__
                yield name + "." + member, inner, thing


class Docstrings(unittest.TestCase):
    def test_each_name_has_one(self):
        self.assertGreater(len(list(public())), 40)
        for name, thing, _ in public():
            doc = inspect.getdoc(thing) or ""
            self.assertRegex(doc, r"\w{3}.*\.", name)

    def test_arguments_units_and_errors(self):
        for name, thing, owner in public():
            if not inspect.isfunction(thing):
                continue
            doc = inspect.getdoc(thing)
            for argument in inspect.signature(thing).parameters:
                if argument not in ("self", "options"):
                    self.assertRegex(doc, r"\b%s\b|\w\(\) does|as c_spawn\(\)"
                                     % argument, name)
                if argument == "timeout":
                    self.assertRegex(doc, "seconds|as c_spawn", name)
            if owner is Engine and re.search(
                    r"raise |_usched\.(?!stats|bus_clear)",
                    inspect.getsource(thing)):
                self.assertRegex(doc, "[Rr]aises", name)


@unittest.skipUnless(importlib.util.find_spec("mypy"),
                     "no mypy (package python3-mypy)")
class Types(unittest.TestCase):
    PROGRAM = """
from typing import Any
from usched_engine import Engine, Future, Stats, get_c_function

async def double(engine: Engine, n: int) -> int:
    return 2 * int(await engine.c_spawn("abs", (n,)))

with Engine(2, shared_memory="1MB") as engine:
    f: Future[Any] = engine.c_spawn(get_c_function("abs"), (1,), name="a")
    s: Stats = engine.get_stats()
    view: memoryview = engine.memory_bus_get(engine.memory_bus_push("a", b""))
    engine.spawn(double(engine, 1)).result(5)
    engine.c_spawn("abs", priority="high")          # wrong
    engine.wait_all(timeout="soon")                 # wrong
    engine.memory_bus_get(5)                        # wrong
    get_c_function("abs").adress                    # wrong
"""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)

    def mypy(self, *arguments):
        with open(os.path.join(self.folder.name, "program.py"), "w") as file:
            file.write(self.PROGRAM)
        done = subprocess.run(
            [sys.executable, "-m", *arguments], cwd=self.folder.name,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=dict(os.environ, MYPYPATH=os.path.dirname(PACKAGE)))
        return done.stdout.decode()

    def test_package(self):
        self.assertIn("Success", self.mypy(
            "mypy", "--disallow-untyped-defs", "--check-untyped-defs", "-p",
            "usched_engine"))

    def test_program(self):
        text = self.mypy("mypy", "--strict", "program.py")
        wrong = [number for number, line in
                 enumerate(self.PROGRAM.split("\n"), 1) if "# wrong" in line]
        self.assertEqual([int(number) for number in re.findall(
            r"(?m)^program.py:(\d+): error", text)], wrong, text)

    def test_stub(self):
        self.assertIn("Success", self.mypy("mypy.stubtest",
                                           "usched_engine._usched"))


class Notebook(unittest.TestCase):
    STATS = {"tasks_running": 1234567, "avg_task_latency_ms": 0.5}
    THREADS = [{"thread_id": 0, "state": "<IDLE>"},
               {"thread_id": 10, "state": None}]

    def test_tables(self):
        self.assertEqual(repr(_see.Stats(self.STATS)),
                         "tasks_running        1,234,567\n"
                         "avg_task_latency_ms  0.500")
        table = _see.ThreadList(map(_see.ThreadInfo, self.THREADS))
        self.assertEqual(repr(table), "thread_id  state\n"
                         "0          <IDLE>\n10         -")
        self.assertIn("<td>&lt;IDLE&gt;</td>", table._repr_html_())
        self.assertIn("1,234,567", _see.Stats(self.STATS)._repr_html_())
        self.assertEqual((repr(_see.ThreadList()), repr(_see.Stats())),
                         ("[]", ""))

    def test_states(self):
        with Engine(workers=2) as engine:
            engine.pause("start")
            future = engine.c_spawn("usleep", (200000,))
            self.assertRegex(repr(future), r"<Future of usleep \(\d+\) pending")
            self.assertIn("1 queued, 0 completed, paused>", repr(engine))
            engine.resume()
            while "pending" in repr(future):
                time.sleep(0.001)
            self.assertIn("running>", repr(future))
            future.result(20)
            self.assertIn("done: 0>", repr(future))
            coroutine = engine.spawn(asyncio.sleep(20))
            while not coroutine.running():
                time.sleep(0.001)
            stack = engine.get_call_stack(coroutine)
            kinds = [info["type"] for info in engine.thread_info()]
            self.assertEqual(kinds[stack.thread_id], "GIL_THREAD")
            self.assertRegex(repr(stack), r"task sleep \(coroutine-1\): WAITING"
                             r"\n    sleep at .*:\d+")
            coroutine.cancel()
        self.assertEqual(repr(engine), "<Engine, shut down>")


if __name__ == "__main__":
    unittest.main()
