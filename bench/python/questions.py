# SPDX-License-Identifier: MIT
"""questions.py: the engine for Python, and what Python brings, for run.py.

Each column answers each question (ask.py), in a new process of the Python that
runs run.py, on the first two cpus. Memory is measured in the first two rounds
only. Set PYTHON to the same Python, for which the engine is built.
"""

import os
import sys

import run

IO = run.load("io")                     # processes begin alike
HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 240
PATIENCE = 60                           # seconds

BUILD = {".": "gcc, python3-dev"}
# What must be there, and the package that brings it; and the name in the table.
WORK = ("work.so", "gcc")
ENGINE = (os.path.join(os.environ.get("ENGINE") or "engine", "usched_engine"),
          "python3-dev")
COLUMNS = {"engine": ENGINE, "engine-first": ENGINE, "to_thread": WORK,
           "executor": WORK, "process": WORK, "threads": WORK}
BASE = ("to_thread",)
MOST = ("engine", "to_thread", "executor", "process")
PLAIN = ("engine", "executor", "process")       # no event loop
BOUND = MOST + ("threads",)

# Questions: the columns, and tasks that are queued together.
MANY, FEW = 10_000, 1000
MILLION, LESS = 1_000_000, 100_000      # memory: of the engine, of others
QUESTIONS = {
    "one-empty": MOST, "gather-empty": MOST, "batch-empty": MOST,
    "thread-empty": PLAIN,
    "one-spin": MOST, "gather-spin": MOST, "batch-spin": BOUND,
    "gather-sums": MOST, "batch-sums": BOUND,
    "latency-load": ("engine", "engine-first") + MOST[1:],
    "memory-each": MOST, "memory-batch": ("engine",),
}

# A title, and its rows: what is shown, the question, and what divides it.
TABLES = (
    ("An empty task: us a task, less is better", (
        ("one", "one-empty.us", 1), ("gather", "gather-empty.us", 1),
        ("batch", "batch-empty.us", 1),
        ("from a thread", "thread-empty.us", 1))),
    ("20 us by the clock: us a task, less is better", (
        ("one", "one-spin.us", 1), ("gather", "gather-spin.us", 1),
        ("batch", "batch-spin.us", 1))),
    ("20 us: times the calls of one pthread, more is better", (
        ("gather, clock", "gather-spin.speedup", 1),
        ("batch, clock", "batch-spin.speedup", 1),
        ("gather, sums", "gather-sums.speedup", 1),
        ("batch, sums", "batch-sums.speedup", 1))),
    ("An empty task beside a load of 0.6: us, less is better", (
        ("p50", "latency-load.p50_us", 1), ("p99", "latency-load.p99_us", 1),
        ("due, p99", "latency-load.late_99_us", 1))),
    ("Tasks that are queued: bytes a task, less is better", (
        ("a future each", "memory-each.bytes", 1),
        ("batches of 1000", "memory-batch.bytes", 1))),
)

# By question: a sentence, what its median is divided by (question and column),
# and what is wanted at most, or, below 0, at least.
TARGETS = {
    "one-empty.us": (("/ to_thread", ("one-empty.us", BASE[0]), 0.25),),
    "batch-empty.us": (
        ("/ to_thread, one by one", ("one-empty.us", BASE[0]), 0.02),),
    **{f"batch-{work}.speedup": (
        ("times one core", None, -1.8),
        ("/ two pthreads", (f"batch-{work}.speedup", "threads"), -0.9))
       for work in ("spin", "sums")},
}


class Cell(run.Cell):
    def __init__(self, question, column):
        super().__init__("python", question, 2, column)
        self.memory = question.startswith("memory")
        if self.memory:
            self.last = 1

    def tasks(self, quick):
        if self.memory:
            return LESS if quick or self.column != "engine" else MILLION
        return FEW if quick or self.column == "process" else MANY

    def seconds(self, quick):
        latency = self.question.startswith("latency")
        return (0.3 if quick else 2) if latency else 0.05 if quick else 0.4

    def answer(self, options):
        text = run.ask(
            self.name(), [sys.executable, os.path.join(HERE, "ask.py"),
                          self.column, self.question,
                          self.seconds(options.quick),
                          self.tasks(options.quick)],
            PATIENCE, IO.prepare(run.cpus(0, 2)))
        got = run.answers(text, "")
        return got and {f".{what}": value for what, value in got.items()}


def cells(options):
    return [Cell(question, column) for question, columns in QUESTIONS.items()
            for column in columns if column in options.columns]


def about(_options):
    yield "# python: " + sys.version.replace("\n", " ")


def aims(rows, question, p, column):
    mine = run.median(rows[question, p][column])
    for what, by, most in TARGETS.get(question, ()) if column == "engine" else ():
        base = rows.get((by[0], p), {}).get(by[1]) if by else None
        if base or not by:
            yield what, mine / run.median(base) if by else mine, most
