#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py: measures pools of workers (tasks.h), the engine and the peers, in turn.

usage: run.sh [--quick] [--rounds K] [--limit S] [--only WORD] [--by COLUMN,...]
	[--to FOLDER] [--from FILE]

In each round each program answers each question, as a new process, on P + 1
cpus if there are so many.

--quick	do the programs work? Small numbers, one round, some seconds
--rounds	5
--limit	seconds (200) after which no round begins that would take longer
--only	questions that begin so
--by	columns: ours, many (ours, in batches), pool, poolmany, go, gof, openmp
--to	where to put engine.txt and engine.md: in bench/results/, a folder named
	after the date, the machine and the commit
--from	only the table, of this engine.txt

The table has for each question and P the median, the median of the ratios to
pool in each round, and below these [least,most].
"""

import importlib.util
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NO_COUNTERPART = 77
PATIENCE = 30
STEPS = {}                              # by language


def load_waits():
    path = os.path.join(HERE, "..", "waits", "run.py")
    spec = importlib.util.spec_from_file_location("waits_run", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WAITS = load_waits()                    # options and files are alike
say, short = WAITS.say, WAITS.short

# Program, and the package that brings it; and HOW.
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
BASE = "pool"
WORK = 20                               # us; a LONG task takes 100
WIDTH, NAME_WIDTH = 12, 16              # of the table: 100

# Questions, the P, N, and N of --quick. WORK and LONG stand for steps.
ASKED = (
    ("empty", (1, 2), 500000, 5000),
    ("work:WORK", (1, 2), 10000, 500),
    ("submit:2", (1, 2), 500000, 5000),
    ("submit:4", (1, 2), 500000, 5000),
    ("half:LONG", (1, 2), 2000, 100),
    ("urgent:WORK", (1, 2), 200, 20),
    ("queued", (1,), 1000000, 10000),
)

# What the table has: title; rows of a name, the answer, and a divisor.
TABLE = (
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
)


class Cell:
    """A column answers a question."""

    def __init__(self, question, p, n, column, steps):
        self.question, self.p, self.n = question, p, n
        self.column, self.steps = column, steps

    def measure(self, turn, to):
        """Returns whether it was answered; if not, why has been said."""
        asked = self.question.replace("WORK", str(self.steps)).replace(
            "LONG", str(5 * self.steps))
        got = answers(self.column, asked, self.n, self.p)
        for what, value in (got or {}).items():
            print(self.question.split(":")[0], self.question + what, self.p,
                  self.column, turn, value, file=to, flush=True)
        return got is not None


def pin(p):
    cpus = sorted(os.sched_getaffinity(0))
    return lambda: os.sched_setaffinity(0, cpus[:p + 1])


def answers(column, question, n, p):
    """By suffix; or None: there is no counterpart, or why has been said."""
    command = [os.path.join(HERE, COLUMNS[column][0]), HOW.get(column, "one"),
               question, str(n), str(p)]
    try:
        done = subprocess.run(command, capture_output=True, text=True,
                              check=False, timeout=PATIENCE,
                              preexec_fn=pin(p))
    except subprocess.TimeoutExpired:
        say(f"{column}: {question} {n} {p}: more than {PATIENCE} s")
        return None
    if done.returncode not in (0, NO_COUNTERPART):
        said = done.stderr.strip().splitlines() or [""]
        say(f"{column}: {question} {n} {p}: exit {done.returncode}: {said[0]}")
    if done.returncode != 0:
        return None
    lines = [text.split() for text in done.stdout.splitlines()]
    return {what[len(question):]: float(value) for what, value in lines}


def steps_of(column, to):
    """Steps of WORK: compilers differ, so each language has its own."""
    column = "go" if column in ("go", "gof") else BASE
    if column not in STEPS:
        got = answers(column, "steps", WORK, 1)
        if got is None:
            sys.exit(f"run.py: {column} does not answer")
        STEPS[column] = round(got[".steps"])
        print(f"# {column}: {STEPS[column]} steps are {WORK} us", file=to)
    return STEPS[column]


def cells(options, to):
    for question, ps, n, quick in ASKED:
        if not question.startswith(options.only):
            continue
        for p in ps:
            for column in options.columns:
                nr = quick if options.quick else n
                if question == "queued":
                    nr //= FEWER.get(column, 1)
                yield Cell(question, p, nr, column, steps_of(column, to))


def measure(options, to):
    began, last = time.monotonic(), 0
    todo = list(cells(options, to))
    for turn in range(options.rounds):
        start = time.monotonic()
        if start + last - began > options.limit:
            say(f"no time for round {turn + 1} of {options.rounds}")
            break
        todo = [c for c in todo if c.measure(turn, to)]
        last = time.monotonic() - start
        say(f"round {turn + 1} of {options.rounds}: {last:.0f} s")


def brief(value):
    if value >= 99.5:
        return f"{value:.0f}" if value < 1e5 else f"{value / 1e3:.0f}k"
    return f"{value:.2g}"


def lines(row, column, scale):
    """Median and ratio; least and most."""
    if column not in row:
        return "", ""
    mine = [value / scale for value in row[column].values()]
    first = short(statistics.median(mine))
    if column != BASE and BASE in row:
        ratio = float(WAITS.ratio(row[column], row[BASE]) or 0)
        first += f" x{ratio:.{2 if ratio < 10 else 0}f}"
    return first, f"[{brief(min(mine))},{brief(max(mine))}]"


def write_table(table, to):
    rows = {key: row for group in table.values() for key, row in group.items()}
    columns = [c for c in COLUMNS if any(c in row for row in rows.values())]
    print("P".rjust(NAME_WIDTH) + "".join(c.rjust(WIDTH) for c in columns),
          file=to)
    for title, asked in TABLE:
        found = [(name, p, scale, rows[what, p]) for name, what, scale in asked
                 for p in ("1", "2") if (what, p) in rows]
        if found:
            print(f"\n{title}", file=to)
        for name, p, scale, row in found:
            cells = [lines(row, c, scale) for c in columns]
            label = name.ljust(NAME_WIDTH - 1) + p
            for head, texts in zip((label, " " * NAME_WIDTH), zip(*cells)):
                print((head + "".join(t.rjust(WIDTH) for t in texts)).rstrip(),
                      file=to)


def main():
    options = WAITS.arguments(__doc__, 200, COLUMNS)
    options.columns = [c for c in options.by.split(",")
                       if WAITS.built(c, COLUMNS, HERE)]
    to = WAITS.folder(options) if not options.source else None
    path = options.source or os.path.join(to, "engine.txt")
    if to:
        os.makedirs(to, exist_ok=True)
        with open(path, "w", encoding="utf-8") as raw:
            WAITS.about(raw)
            measure(options, raw)
    WAITS.write_tables(to, "engine", WAITS.recall(path), write_table)


if __name__ == "__main__":
    main()
