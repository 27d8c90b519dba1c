#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py: builds the programs of a benchmark, and measures them in turn.

usage: bench/run.py NAME [--quick] [--rounds K] [--limit S] [--only WORD,...]
	[--p P] [--by COLUMN,...] [--to FOLDER] [--from FILE] [--built] [--plan]

NAME is a folder here: waits, io, http, engine, python or mpi. Its questions.py
tells the columns and the questions. In each round each column answers each
question, as a new process. What cannot be built is named with its package.

--quick	do the programs work? Small numbers, one round
--rounds	how many
--limit	seconds after which no round begins that would take longer
--only	these questions, or those that begin with one of these words
--p	questions with this P
--by	these columns
--to	where to put NAME.txt and NAME.md: in bench/results/, a folder named
	after the machine
--from	only the table, of this NAME.txt
--built	build nothing
--plan	only the lines, with 1 for each value; runs nothing

A line of NAME.txt has the group, the question, P, the column, and its values by
round; - stands for none. A cell of the table has the median, [least, most], and,
behind an x, the median of the ratios to the base within each round. The base is
the first of those that questions.py names. A ? follows a median whose rounds
differ by more than a quarter of it. TREE in the environment is another tree of
usched, for our programs.
"""

import argparse
import importlib.util
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
NO_COUNTERPART = 77
DOUBT = 0.25                            # (most - least) / median
NOISE = 0.05                            # of all processors, used by others


def say(text):
    print(f"run.py: {text}", file=sys.stderr, flush=True)


# What the questions.py share.

class Cell:
    """A column answers a question."""

    last = None                         # the last round, if not all

    def __init__(self, group, question, p, column):
        self.group, self.question = group, question
        self.p, self.column = p, column

    def name(self):
        return f"{self.column}: {self.question} {self.p}"

    def prepare(self, _options):
        """Returns whether there is a counterpart."""
        return True

    def suffixes(self):
        """Of the answers that are wanted; None for all."""
        return None

    def answer(self, _options):
        """Returns values by suffix; or None, and why has been said."""
        raise NotImplementedError


def cpus(first, last=None):
    """Some of those that we may use; all from the last on, if too few."""
    mine = sorted(os.sched_getaffinity(0))
    return mine[first:last] or mine


def pinned(where):
    return lambda: os.sched_setaffinity(0, where)


def ask(title, command, patience, before=None):
    """Returns what a program prints; or None, and why has been said."""
    try:
        done = subprocess.run([str(word) for word in command], text=True,
                              capture_output=True, check=False,
                              timeout=patience, preexec_fn=before)
    except subprocess.TimeoutExpired:
        say(f"{title}: more than {patience} s")
        return None
    if done.returncode not in (0, NO_COUNTERPART):
        said = done.stderr.strip().splitlines() or [""]
        say(f"{title}: exit {done.returncode}: {said[-1]}")
    return done.stdout if done.returncode == 0 else None


def answers(text, question):
    """Values by suffix, of lines that have the question, it, and a value."""
    if text is None:
        return None
    lines = [line.split() for line in text.splitlines()]
    return {what[len(question):]: float(value) for what, value in lines}


def ratio(mine, base):
    """The median of the ratios within each round, or None."""
    both = [mine[t] / base[t] for t in mine if base.get(t)]
    return statistics.median(both) if both else None


def median(values):
    return statistics.median(values.values())


def against(row, column, other, most):
    """Yields a target, for aims(): a ratio, if the other was measured."""
    value = ratio(row[column], row.get(other, {}))
    if value is not None:
        yield f"/ {other}", value, most


# Rounds, and the file of results.

def measure(options, todo, table):
    began, last = time.monotonic(), 0
    say(f"{len(todo)} cells, found in {began - options.began:.0f} s")
    for turn in range(options.rounds):
        start = time.monotonic()
        if start + last - began > options.limit:
            say(f"no time for round {turn + 1} of {options.rounds}")
            break
        todo = [cell for cell in todo
                if (turn if cell.last is None else cell.last) < turn or
                measure_cell(cell, options, turn, table)]
        write(options, table)
        last = time.monotonic() - start
        say(f"round {turn + 1} of {options.rounds}: {last:.0f} s")


def measure_cell(cell, options, turn, table):
    got = cell.answer(options)
    wanted = cell.suffixes()
    for what, value in (got or {}).items():
        if wanted is None or what in wanted:
            row = table.setdefault(cell.group, {}).setdefault(
                (cell.question + what, str(cell.p)), {})
            row.setdefault(cell.column, {})[turn] = value
    return got is not None


def lines(table):
    for group, rows in table.items():
        for (question, p), row in rows.items():
            for column, values in row.items():
                yield " ".join([group, question, p, column, *(
                    f"{values[t]:.6g}" if t in values else "-"
                    for t in range(max(values) + 1))])


def write(options, table):
    """All that is known so far: what is interrupted leaves whole rounds."""
    text = [*options.about, f"# others: {others(options)}",
            "# group question P column, and the values by round", *lines(table)]
    with open(options.path, "w", encoding="utf-8") as out:
        out.write("\n".join(text) + "\n")


def recall(path):
    """By group, (question, P), column: values by round."""
    table = {}
    with open(path, encoding="utf-8") as source:
        for text in source:
            if text.startswith("#"):
                continue
            try:
                group, question, p, column, *values = text.split()
                by_round = {t: float(value) for t, value in enumerate(values)
                            if value != "-"}
            except ValueError:
                sys.exit(f"run.py: {path}: not a line of results: {text[:60]}")
            row = table.setdefault(group, {}).setdefault((question, p), {})
            row.setdefault(column, {}).update(by_round)
    return table


def first(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True,
                              check=False, cwd=TOP)
        return (done.stdout.splitlines() or ["none"])[0]
    except OSError:
        return "none"


def about(options, spec):
    yield "# run.py " + " ".join(sys.argv[1:]) + time.strftime(
        ", %Y-%m-%dT%H:%M:%SZ", time.gmtime())
    yield "# machine: " + first("./bench.sh", "--machine")
    yield "# system: " + first("uname", "-srm")
    yield "# load: " + first("cat", "/proc/loadavg")
    for name in "gcc", "g++":
        yield f"# {name}: " + first(name, "--version")
    yield "# go: " + first("go", "version")
    yield "# rustc: " + first("rustc", "--version")
    yield "# commit: " + first("git", "rev-parse", "--short=12", "HEAD")
    if hasattr(spec, "about"):
        yield from spec.about(options)


# Is the machine quiet?

def busy():
    """Seconds of programs, the kernel, and other virtual machines, or None."""
    try:
        with open("/proc/stat", encoding="utf-8") as stat:
            _, user, nice, system, _, _, _, _, steal, *_ = stat.readline().split()
    except (OSError, ValueError):
        return None
    ticks = sum(map(int, (user, nice, system, steal)))
    return ticks / os.sysconf("SC_CLK_TCK")


def mine():
    return sum(sum(resource.getrusage(who)[:2]) for who in (
        resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def others(options):
    """How many processors other programs used on average."""
    then, ours, began = options.quiet
    now, passed = busy(), time.monotonic() - began
    if now is None or passed < 0.1:
        return "unknown"
    used = max(0, now - then - (mine() - ours)) / passed
    return f"{used:.2f} of {len(os.sched_getaffinity(0))} processors"


def doubtful(values):
    return max(values) - min(values) > DOUBT * abs(statistics.median(values))


def noise(path):
    """Says whether the machine was quiet, as far as the file tells."""
    with open(path, encoding="utf-8") as source:
        said = [line.split() for line in source
                if line.startswith("# others: ")]
    for _, _, used, *rest in said:
        if len(rest) > 1 and float(used) > NOISE * int(rest[1]):
            yield (f"other programs used {used} of {rest[1]} processors: the "
                   "figures are not to be trusted")


# The tables.

def short(value):
    for least, unit, letter in ((1e6, 1e6, "M"), (1e5, 1e3, "k")):
        if value >= least:
            return f"{value / unit:.3g}{letter}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


class Tables:
    """Of a questions.py: prints them, and counts cells of doubt."""

    def __init__(self, spec, to):
        self.spec, self.to = spec, to
        self.cells, self.doubts = 0, 0

    def print(self, *texts):
        print(*texts, sep="\n", file=self.to)

    def all(self, table):
        rows = {key: row for group in table.values()
                for key, row in group.items()}
        if hasattr(self.spec, "TABLES"):
            for title, asked in self.spec.TABLES:
                self.one(title, [
                    (name, p, scale, rows[what, p]) for name, what, scale in
                    asked for p in ("1", "2") if (what, p) in rows])
        else:
            for group, found in table.items():
                self.one(group.capitalize(), [
                    (question, p, 1, row) for (question, p), row in
                    found.items()])
        wanted = targets(rows, self.spec) if hasattr(self.spec, "aims") else []
        if wanted:
            self.print("\n### Targets\n", *wanted)
        self.print(f"\n{self.doubts} of {self.cells} cells have a ?: their "
                   "rounds differ by more than a quarter of the median.")

    def one(self, title, found):
        columns = [c for c in self.spec.COLUMNS
                   if any(row.get(c) for _, _, _, row in found)]
        if not columns:
            return
        self.print(f"\n### {title}\n", self.row("question", "P", columns),
                   "|---|--:|" + "--:|" * len(columns))
        for name, p, scale, row in found:
            base = next((c for c in self.spec.BASE if c in row), None)
            self.print(self.row(name, p, [
                self.cell(row, c, base, scale) for c in columns]))

    @staticmethod
    def row(name, p, cells):
        return f"| {name} | {p} | " + " | ".join(cells) + " |"

    def cell(self, row, column, base, scale):
        if not row.get(column):
            return ""
        values = [value / scale for value in row[column].values()]
        text = short(statistics.median(values))
        self.cells += 1
        if doubtful(values):
            self.doubts += 1
            text += "?"
        if len(values) > 1:
            text += f" [{short(min(values))}, {short(max(values))}]"
        times = None
        if base not in (None, column):
            times = ratio(row[column], row[base])
        return text if times is None else f"{text} x{times:.2f}"


def targets(rows, spec):
    """Lines: what was missed, and how many targets were looked at; none if none.

    spec.aims(rows, question, P, column) yields a sentence, the value, and what
    it should be at most; or, if that is below 0, at least.
    """
    looked, missed = 0, []
    for (question, p), row in rows.items():
        for column in filter(row.get, spec.COLUMNS):
            for what, value, most in spec.aims(rows, question, p, column):
                looked += 1
                if value > most if most >= 0 else value < -most:
                    missed.append(
                        f"- {column} {question} {p}: {what} {short(value)}, "
                        f"wanted at {'most' if most >= 0 else 'least'} "
                        f"{abs(most)}")
    return missed + [f"- {len(missed)} of {looked} missed"] if looked else []


# The command line.

def arguments():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("name", choices=sorted(
        name for name in os.listdir(HERE)
        if os.path.exists(os.path.join(HERE, name, "questions.py"))))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--limit", type=float)
    parser.add_argument("--only", default="")
    parser.add_argument("--p", type=int)
    parser.add_argument("--by")
    parser.add_argument("--to")
    parser.add_argument("--from", dest="source")
    parser.add_argument("--built", action="store_true")
    parser.add_argument("--plan", action="store_true")
    return parser.parse_args()


def load(name):
    path = os.path.join(HERE, name, "questions.py")
    wanted = importlib.util.spec_from_file_location(f"{name}_questions", path)
    module = importlib.util.module_from_spec(wanted)
    wanted.loader.exec_module(module)
    return module


def choose(options, spec):
    """Completes the options by what the benchmark has for usual."""
    asked = options.by.split(",") if options.by else getattr(
        spec, "USUAL", spec.COLUMNS)
    for column in asked:
        if column not in spec.COLUMNS:
            sys.exit(f"run.py: no such column: {column}")
    options.columns = [c for c in asked if options.plan or is_built(
        c, *spec.COLUMNS[c], spec)]
    options.rounds = options.rounds or (
        1 if options.quick else getattr(spec, "ROUNDS", 5))
    options.limit = options.limit or spec.LIMIT
    if not options.columns:
        sys.exit("run.py: none of the programs is built")


def is_built(column, program, package, spec):
    path = os.path.join(os.path.dirname(spec.__file__), program)
    if os.access(path, os.R_OK):
        return True
    say(f"{column}: {program} is missing (package {package})")
    return False


def build(folder, package, log):
    """Says the first error if a folder cannot be built."""
    log.truncate(0)
    done = subprocess.run(["make", "-s", "-k", "-C", folder], stdout=log,
                          stderr=log, check=False)
    if done.returncode == 0:
        return
    log.seek(0)
    errors = [line for line in log if any(
        word in line.lower() for word in ("error", "not found", "no such"))]
    say(f"{os.path.relpath(folder, HERE)}: not built (package {package}): "
        f"{(errors or ['?'])[0].strip()}")


def cells(options, spec):
    """Those of --only, with the P of --p. A whole question means no other."""
    every = list(spec.cells(options))
    words = set(options.only.split(","))
    whole = words & {cell.question for cell in every}
    begins = tuple(words - whole)
    return [cell for cell in every
            if (cell.question in whole or cell.question.startswith(begins))
            and options.p in (None, cell.p)]


def plan(options, spec):
    table = {}
    for cell in cells(options, spec):
        cell.answer = lambda _, cell=cell: dict.fromkeys(
            cell.suffixes() or [""], 1)
        measure_cell(cell, options, 0, table)
    print("\n".join(lines(table)))


def begin(options, spec):
    """Builds and measures; leaves the path of the file in options."""
    options.began = time.monotonic()
    if not options.built:
        with tempfile.TemporaryFile("w+", errors="replace") as log:
            for folder, package in spec.BUILD.items():
                build(os.path.join(HERE, options.name, folder), package, log)
    choose(options, spec)
    options.to = options.to or os.path.join(
        HERE, "results", first("./bench.sh", "--machine"))
    os.makedirs(options.to, exist_ok=True)
    options.path = os.path.join(options.to, f"{options.name}.txt")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("run.py: terminated"))
    options.about = list(about(options, spec))
    if hasattr(spec, "begin"):
        spec.begin(options)
    todo = [cell for cell in cells(options, spec) if cell.prepare(options)]
    if not todo:
        sys.exit(f"run.py: no such question: {options.only}")
    options.quiet = busy(), mine(), time.monotonic()
    measure(options, todo, {})


def main():
    options = arguments()
    spec = load(options.name)
    if options.plan:
        choose(options, spec)
        plan(options, spec)
        return
    if not options.source:
        begin(options, spec)
    path = options.source or options.path
    table = recall(path)
    Tables(spec, sys.stdout).all(table)
    for text in noise(path):
        say(text)
    if not options.source:
        with open(os.path.join(options.to, f"{options.name}.md"), "w",
                  encoding="utf-8") as out:
            Tables(spec, out).all(table)


if __name__ == "__main__":
    sys.modules["run"] = sys.modules["__main__"]
    main()
