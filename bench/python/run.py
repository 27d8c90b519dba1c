#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py: measures the engine for Python, and what Python brings, in turn.

usage: run.sh [--quick] [--rounds K] [--limit S] [--only WORD] [--by COLUMN,...]
	[--to FOLDER] [--from FILE]

In each round each column answers each question (ask.py), in a new process, on
the first two cpus.

--quick	does it work? Few tasks, one round, 20 seconds
--rounds	5; memory is measured in the first two only
--limit	seconds (240) after which no round begins that would take longer
--only	questions that begin so
--by	columns: engine, engine-first, to_thread, executor, process, threads
--to	where to put python.txt and the table: in bench/results/, a folder
	named after the date, the machine and the commit
--from	only the table, of this python.txt

The table has medians, the least and the most, and the median of the ratios to
to_thread in each round. The targets stand below.
"""

import importlib.util
import os
import signal
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 60                           # seconds


def load_io():
    path = os.path.join(HERE, "..", "io", "run.py")
    spec = importlib.util.spec_from_file_location("io_run", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


IO = load_io()                          # rounds are alike
WAITS, say = IO.WAITS, IO.say

# What must be there, and the package that brings it; and the name in the table.
WORK = ("work.so", "gcc")
ENGINE = (os.path.join(os.environ.get("ENGINE") or "engine", "usched_engine"),
          "python3-dev")
COLUMNS = {"engine": ENGINE, "engine-first": ENGINE, "to_thread": WORK,
           "executor": WORK, "process": WORK, "threads": WORK}
SHOWN = {"engine-first": "engine, 7", "threads": "2 pthreads"}
BASE = "to_thread"
USUAL = ("engine", "to_thread", "executor", "process")
PLAIN = ("engine", "executor", "process")       # no event loop
BOUND = USUAL + ("threads",)

# Questions: the columns, and tasks that are queued together.
MANY, FEW = 10_000, 1000
MILLION, LESS = 1_000_000, 100_000      # memory: of the engine, of others
QUESTIONS = {
    "one-empty": USUAL, "gather-empty": USUAL, "batch-empty": USUAL,
    "thread-empty": PLAIN,
    "one-spin": USUAL, "gather-spin": USUAL, "batch-spin": BOUND,
    "gather-sums": USUAL, "batch-sums": BOUND,
    "latency-load": ("engine", "engine-first") + USUAL[1:],
    "memory-each": USUAL, "memory-batch": ("engine",),
}

# The table: a title, and its columns, with what they show.
EMPTY = "An empty task: us a task, less is better"
SPIN = "20 us by the clock: us a task, less is better"
CORES = "20 us: times the calls of one pthread, more is better"
LATENCY = "An empty task beside a load of 0.6: us, less is better"
MEMORY = "Tasks that are queued: bytes a task, less is better"
TABLE = {
    EMPTY: {"one": "one-empty.us", "gather": "gather-empty.us",
            "batch": "batch-empty.us", "from a thread": "thread-empty.us"},
    SPIN: {"one": "one-spin.us", "gather": "gather-spin.us",
           "batch": "batch-spin.us"},
    CORES: {"gather, clock": "gather-spin.speedup",
            "batch, clock": "batch-spin.speedup",
            "gather, sums": "gather-sums.speedup",
            "batch, sums": "batch-sums.speedup"},
    LATENCY: {"p50": "latency-load.p50_us", "p99": "latency-load.p99_us",
              "due, p99": "latency-load.late_99_us"},
    MEMORY: {"a future each": "memory-each.bytes",
             "batches of 1000": "memory-batch.bytes"},
}

# Text, question, what it is divided by (question and column), least, most.
TARGETS = (
    ("an empty task, one by one / to_thread", "one-empty.us",
     ("one-empty.us", BASE), None, 0.25),
    ("an empty task, in batches / to_thread one by one", "batch-empty.us",
     ("one-empty.us", BASE), None, 0.02),
    ("20 us by the clock, times one core", "batch-spin.speedup", None, 1.8,
     None),
    ("20 us of arithmetic, times one core", "batch-sums.speedup", None, 1.8,
     None),
    ("20 us by the clock / two pthreads", "batch-spin.speedup",
     ("batch-spin.speedup", "threads"), 0.9, None),
    ("20 us of arithmetic / two pthreads", "batch-sums.speedup",
     ("batch-sums.speedup", "threads"), 0.9, None),
)


class Cell:
    """A column answers a question."""

    def __init__(self, question, column):
        self.question, self.column = question, column
        self.memory = question.startswith("memory")

    def tasks(self, quick):
        if self.memory:
            return LESS if quick or self.column != "engine" else MILLION
        return FEW if quick or self.column == "process" else MANY

    def seconds(self, quick):
        latency = self.question.startswith("latency")
        return (0.3 if quick else 2) if latency else 0.05 if quick else 0.4

    def ask(self, quick):
        """Returns pairs; None: why has been said."""
        try:
            done = subprocess.run(
                [sys.executable, os.path.join(HERE, "ask.py"), self.column,
                 self.question, str(self.seconds(quick)),
                 str(self.tasks(quick))],
                capture_output=True, text=True, check=False, timeout=PATIENCE,
                preexec_fn=IO.prepare(IO.cpus_of(2)[0]))
        except subprocess.TimeoutExpired:
            say(f"{self.column}: {self.question}: more than {PATIENCE} s")
            return None
        if done.returncode == 0:
            return [line.split() for line in done.stdout.splitlines()]
        said = done.stderr.strip().splitlines() or [""]
        say(f"{self.column}: {self.question}: exit {done.returncode}: "
            f"{said[-1]}")
        return None

    def measure(self, turn, options, to):
        if self.memory and turn > 1:
            return True
        got = self.ask(options.quick)
        for what, value in got or ():
            print("python", f"{self.question}.{what}", 2, self.column, turn,
                  value, file=to, flush=True)
        return got is not None


def median(values):
    return statistics.median(values.values())


def brief(value):
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def shown(row, column):
    """Returns the median [least, most], and the ratio to to_thread."""
    if not row.get(column):
        return ""
    values = row[column].values()
    text = (f"{WAITS.short(median(row[column]))} "
            f"[{brief(min(values))}, {brief(max(values))}]")
    if column == BASE or not row.get(BASE):
        return text
    return f"{text} {WAITS.ratio(row[column], row[BASE])}"


def table(rows, to):
    for title, asked in TABLE.items():
        by = [c for c in COLUMNS
              if any(rows.get(q, {}).get(c) for q in asked.values())]
        if not by:
            continue
        print(f"\n### {title}\n\n| by | " + " | ".join(asked) + " |",
              "|---|" + "--:|" * len(asked), sep="\n", file=to)
        for column in by:
            print("| " + " | ".join([SHOWN.get(column, column)] + [
                shown(rows.get(question, {}), column)
                for question in asked.values()]) + " |", file=to)
    print("\n### Targets\n", file=to)
    print("\n".join(targets(rows)), file=to)


def targets(rows):
    """Yields a line for each target: what was reached, and wanted."""
    for text, question, by, least, most in TARGETS:
        mine = rows.get(question, {}).get("engine")
        base = rows.get(by[0], {}).get(by[1]) if by else None
        if not mine or (by and not base):
            continue
        value = float(WAITS.ratio(mine, base)) if by and by[0] == question \
            else median(mine) / (median(base) if by else 1)
        met = value >= least if least else value <= most
        yield (f"- {text}: {value:.3g}, wanted at "
               f"{'least' if least else 'most'} {least or most}: "
               f"{'reached' if met else 'MISSED'}")


def begin(options):
    """Measures into a new folder, and returns the file."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("run.py: terminated"))
    os.makedirs(options.to, exist_ok=True)
    path = os.path.join(options.to, "python.txt")
    todo = [Cell(q, c) for q, columns in QUESTIONS.items()
            if q.startswith(options.only)
            for c in columns if c in options.columns]
    with open(path, "w", encoding="utf-8") as raw:
        print("# python: " + sys.version.replace("\n", " "), file=raw)
        WAITS.about(raw)
        IO.measure(options, todo, raw)
    return path


def main():
    options = WAITS.arguments(__doc__, 240, COLUMNS)
    path = options.source
    if not path:
        options.to = WAITS.folder(options)
        options.columns = [c for c in options.by.split(",")
                           if WAITS.built(c, COLUMNS, HERE)]
        path = begin(options)
    WAITS.write_tables(options.to if not options.source else None, "python",
                       WAITS.recall(path).get("python", {}), regrouped)


def regrouped(rows, to):
    """recall() has the P in its keys, which is 2 here."""
    table({question: row for (question, _), row in rows.items()}, to)


if __name__ == "__main__":
    main()
