# SPDX-License-Identifier: MIT
"""questions.py: pools of workers (tasks.h), the engine and the peers, for run.py.

Each program answers each question, as a new process, on P + 1 cpus if there are
so many.
"""

import os
import sys

import run

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 200
PATIENCE = 30
STEPS = {}                              # by language

BUILD = {"ours": "gcc", "pool": "gcc", "go": "golang-go", "openmp": "gcc"}
# Ours in batches is many.
COLUMNS = {
    "ours": ("ours/tasks", "gcc"),
    "many": ("ours/tasks", "gcc"),
    "pool": ("pool/tasks", "gcc"),
    "poolmany": ("pool/tasks", "gcc"),
    "go": ("go/tasks", "golang-go"),
    "gof": ("go/tasks", "golang-go"),
    "openmp": ("openmp/tasks", "gcc"),
}
HOW = {"many": "many", "poolmany": "many", "go": "channel", "gof": "each"}
FEWER = {"gof": 10}                     # times fewer queued: 3 KB each
BASE = ("pool",)
WORK = 20                               # us; a LONG task takes 100

# What ours should be at most: question, P, column, base, ratio.
TARGETS = (
    ("empty.cpu_ns", "1", "ours", "pool", 2.0),
    ("batch:1000.queue_ns", "1", "many", "poolmany", 1.0),
    ("half:LONG.p99_us", "2", "ours", "pool", 1.0),
)

# Questions, the P, N, and N of --quick. WORK and LONG stand for steps.
ASKED = (
    ("empty", (1, 2), 500000, 5000),
    ("work:WORK", (1, 2), 10000, 500),
    ("submit:2", (1, 2), 500000, 5000),
    ("submit:4", (1, 2), 500000, 5000),
    ("half:LONG", (1, 2), 2000, 100),
    ("urgent:WORK", (1, 2), 200, 20),
    ("queued", (1,), 1000000, 10000),
    ("batch:1000", (1,), 500000, 5000),
)

# What the table has: title; rows of a name, the answer, and a divisor.
TABLES = (
    ("Millions of tasks a second: more is better", (
        ("empty", "empty.per_s", 1e6),
        ("2 submit", "submit:2.per_s", 1e6),
        ("4 submit", "submit:4.per_s", 1e6))),
    ("Thousands of tasks of 20 us a second: more is better", (
        ("20 us", "work:WORK.per_s", 1e3),)),
    ("Processor time of a task, ns; 20 us in us: less is better", (
        ("empty", "empty.cpu_ns", 1),
        ("4 submit", "submit:4.cpu_ns", 1),
        ("20 us", "work:WORK.cpu_ns", 1e3))),
    ("From submission to begin, us: less is better", (
        ("half load, p50", "half:LONG.p50_us", 1),
        ("half load, p99", "half:LONG.p99_us", 1),
        ("urgent, p50", "urgent:WORK.p50_us", 1),
        ("urgent, p99", "urgent:WORK.p99_us", 1))),
    ("A million queued tasks, for each: less is better", (
        ("bytes", "queued.bytes", 1),
        ("ns to submit", "queued.queue_ns", 1),
        ("ns to run", "queued.run_ns", 1))),
    ("A thousand tasks queued, again and again, for each: less is better", (
        ("ns to submit", "batch:1000.queue_ns", 1),)),
)


class Cell(run.Cell):
    def __init__(self, question, p, column, n, steps):
        super().__init__(question.split(":")[0], question, p, column)
        self.n, self.steps = n, steps

    def answer(self, _options):
        asked = self.question.replace("WORK", str(self.steps)).replace(
            "LONG", str(5 * self.steps))
        return ask(self.column, asked, self.n, self.p)


def ask(column, question, n, p):
    text = run.ask(f"{column}: {question} {n} {p}", [
        os.path.join(HERE, COLUMNS[column][0]), HOW.get(column, "one"),
        question, n, p], PATIENCE, run.pinned(run.cpus(0, p + 1)))
    return run.answers(text, question)


def language(column):
    return "go" if column in ("go", "gof") else BASE[0]


def about(options):
    """Finds the steps of WORK: compilers differ, so each language has its own."""
    for column in dict.fromkeys(map(language, options.columns)):
        got = ask(column, "steps", WORK, 1)
        if got is None:
            sys.exit(f"run.py: {column} does not answer")
        STEPS[column] = round(got[".steps"])
        yield f"# {column}: {STEPS[column]} steps are {WORK} us"


def cells(options):
    for question, ps, n, quick in ASKED:
        for p in ps:
            for column in options.columns:
                if question == "batch:1000" and language(column) == "go":
                    continue                # has no counterpart
                nr = quick if options.quick else n
                if question == "queued":
                    nr //= FEWER.get(column, 1)
                yield Cell(question, p, column, nr, STEPS.get(language(column)))


def aims(rows, question, p, column):
    for asked, at, mine, base, most in TARGETS:
        if (question, p, column) == (asked, at, mine):
            yield from run.against(rows[question, p], column, base, most)
