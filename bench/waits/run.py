#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py: measures waits (waits.h), ours and the peers, in turn.

usage: run.sh [--quick] [--rounds K] [--limit S] [--only WORD] [--by COLUMN,...]
	[--to FOLDER] [--from FILE]

In each round each program answers each question. A first look finds the N with
which an answer takes 50 ms. A program with P = 1 has the
first cpu, with P = 2 the first two.

--quick	do the programs work? Small numbers, one round, half a minute
--rounds	5; what takes long is measured in the first two only
--limit	seconds (420) after which no round begins that would take longer
--only	questions that begin so
--by	columns: rr, ll, ws, local; go, tokio, kanal, c++
--to	where to put waits.txt and the tables: in bench/results/, a folder named
	after the date, the machine and the commit
--from	only the table, of this waits.txt

The table has medians, and the median of the ratios to ours in each round: to ws,
or what there is. waits-spread.md has the least and the most, too.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.join(HERE, "..", "..")
NO_COUNTERPART = 77
PATIENCE = 30
SECONDS = 0.05                          # of an answer

# Program, and the package that brings it.
COLUMNS = {
    "rr": ("ours/waits-rr", "gcc"),
    "ll": ("ours/waits-ll", "gcc"),
    "ws": ("ours/waits-ws", "gcc"),
    "local": ("ours/waits-local", "gcc"),
    "go": ("go/waits", "golang-go"),
    "tokio": ("tokio/waits-tokio", "cargo"),
    "kanal": ("tokio/waits-kanal", "cargo"),
    "c++": ("cxx/waits", "g++"),
}
OURS = ("ws", "ll", "rr")

# What is asked: the question, the P, and N, or None if it is to be found.
ONE, BOTH = (1,), (1, 2)


def full():
    few = ("1000", "10000", "100000", "1000000")
    yield "time", [(f"churn-{how}:{m}", ONE, None)
                   for how in ("random", "same") for m in few]
    yield "time", [(f"timed:{m}", BOTH, None) for m in ("1000", "1000000")]
    yield "sleepers", [("sleepers:10", BOTH, 1000000)]
    yield from same()
    yield "programs", [("sieve", BOTH, 2000), ("powser", BOTH, 400),
                       ("pool:10000", BOTH, 500000)]


def quick():
    yield "time", [(f"churn-{how}:{m}", ONE, None)
                   for how in ("random", "same") for m in ("1000", "100000")]
    yield "time", [("timed:1000", BOTH, None)]
    yield "sleepers", [("sleepers:3", ONE, 20000)]
    yield from same()
    yield "programs", [("sieve", BOTH, 300), ("powser", BOTH, 100),
                       ("pool:10000", BOTH, 20000)]


def same():
    yield "channels", [(q, BOTH, None) for q in (
        "sync", "buffer:0", "buffer:10", "buffer:100", "uncontended",
        "contended", "fanin", "sem", "select", "select-sync",
        "select-buffer:128")]
    yield "locks", [(q, BOTH, None) for q in (
        "mutex-own", "mutex", "mutex-slack", "mutex-work", "mutex-hold",
        "skew", "rw-own", "rw-write:100")]


def slow(question):
    return question.startswith("sleepers")


def sleep_alike(options, p):
    """Columns whose sleepers are not measured, to save time."""
    few = options.quick or p > 1
    return ("rr", "ll", "local") if few else ("ll", "local")


def pin(p):
    cpus = sorted(os.sched_getaffinity(0))
    return lambda: os.sched_setaffinity(0, cpus[:p])


def run(column, question, n, p):
    """What it has answered, by suffix; or None, and why has been said."""
    program = os.path.join(HERE, COLUMNS[column][0])
    try:
        done = subprocess.run([program, question, str(n), str(p)],
                              capture_output=True, text=True, check=False,
                              timeout=PATIENCE, preexec_fn=pin(p))
    except subprocess.TimeoutExpired:
        say(f"{column}: {question} {n} {p}: more than {PATIENCE} s")
        return None
    if done.returncode not in (0, NO_COUNTERPART):
        said = done.stderr.strip().splitlines() or [""]
        say(f"{column}: {question} {n} {p}: exit {done.returncode}: "
            f"{said[0]}")
    if done.returncode != 0:
        return None
    lines = [text.split() for text in done.stdout.splitlines()]
    return {what[len(question):]: float(value) for what, value in lines}


def say(text):
    print(f"run.py: {text}", file=sys.stderr, flush=True)


class Cell:
    """A column answers a question."""

    def __init__(self, group, question, p, n, column):
        self.group, self.question, self.p = group, question, p
        self.n, self.column = n, column

    def look(self, at_once):
        """Finds n. Returns whether there is a counterpart."""
        if self.n is not None:
            return True
        n = 20 if self.question == "skew" else 20000
        if at_once:
            self.n = max(n // 10, 20)
            return True
        while True:
            got = run(self.column, self.question, n, self.p)
            if got is None:
                return False
            took = max(got[""], 0.1) * n / 1e9
            if took > SECONDS / 10:
                break
            n = int(n * min(20, SECONDS / took))
        self.n = max(int(n * SECONDS / took), 20)
        return True

    def measure(self, turn, to):
        got = run(self.column, self.question, self.n, self.p)
        for what, value in (got or {}).items():
            print(self.group, self.question + what, self.p, self.column,
                  turn, value, file=to, flush=True)
        return got is not None


def cells(options):
    for group, asked in quick() if options.quick else full():
        for question, ps, n in asked:
            if not question.startswith(options.only):
                continue
            for p in ps:
                for column in options.columns:
                    if slow(question) and column in sleep_alike(options, p):
                        continue
                    yield Cell(group, question, p, n, column)


def measure(options, to):
    began = time.monotonic()
    todo = [c for c in cells(options) if c.look(options.quick)]
    say(f"{len(todo)} cells; found their N in "
        f"{time.monotonic() - began:.0f} s")
    last = 0
    for turn in range(options.rounds):
        start = time.monotonic()
        if start + last - began > options.limit:
            say(f"no time for round {turn + 1} of {options.rounds}")
            break
        todo = [c for c in todo if (turn > 1 and slow(c.question)) or
                c.measure(turn, to)]
        last = time.monotonic() - start
        say(f"round {turn + 1} of {options.rounds}: {last:.0f} s")


def about(to):
    def first(*command):
        try:
            done = subprocess.run(command, capture_output=True, text=True,
                                  check=False, cwd=TOP)
            return (done.stdout.splitlines() or ["none"])[0]
        except OSError:
            return "none"
    print("# run.sh " + " ".join(sys.argv[1:]),
          "# machine: " + first("./bench.sh", "--machine"),
          "# system: " + first("uname", "-srm"),
          "# load: " + first("cat", "/proc/loadavg"),
          "# gcc: " + first("gcc", "--version"),
          "# g++: " + first("g++", "--version"),
          "# go: " + first("go", "version"),
          "# rustc: " + first("rustc", "--version"),
          "# commit: " + first("git", "rev-parse", "--short=12", "HEAD"),
          "# group, question, P, column, round, value",
          sep="\n", file=to, flush=True)


def recall(path):
    """By group, (question, P), column: a dict of values by round."""
    table = {}
    with open(path, encoding="utf-8") as lines:
        for text in lines:
            if text.startswith("#"):
                continue
            group, question, p, column, turn, value = text.split()
            row = table.setdefault(group, {}).setdefault((question, p), {})
            row.setdefault(column, {})[turn] = float(value)
    return table


def ratio(mine, ours):
    both = [mine[t] / ours[t] for t in mine if ours.get(t)]
    return f"{statistics.median(both):.2f}" if both else ""


def short(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def base(row):
    return next((c for c in OURS if c in row), None)


def medians(table, to):
    for group, rows in table.items():
        columns = [c for c in COLUMNS if any(c in r for r in rows.values())]
        print(f"\n### {group.capitalize()}\n\n| question | P | " +
              " | ".join(columns) + " |", file=to)
        print("|---|--:|" + "--:|" * len(columns), file=to)
        for (question, p), row in rows.items():
            print(f"| {question} | {p} | " + " | ".join(
                cell(row, c) for c in columns) + " |", file=to)


def cell(row, column):
    if column not in row:
        return ""
    text = short(statistics.median(row[column].values()))
    ours = base(row)
    if ours in (None, column):
        return text
    return f"{text} ({ratio(row[column], row[ours])})"


def spread(table, to):
    print("| question | P | by | least | median | most | / ours |",
          "|---|--:|---|--:|--:|--:|--:|", sep="\n", file=to)
    for rows in table.values():
        for (question, p), row in rows.items():
            for column in filter(row.get, COLUMNS):
                mine = row[column].values()
                print("|", " | ".join([
                    question, p, column, short(min(mine)),
                    short(statistics.median(mine)), short(max(mine)),
                    ratio(row[column], row.get(base(row), {}))]), "|",
                    file=to)


def folder(options):
    if options.to:
        return options.to
    machine = subprocess.check_output(["./bench.sh", "--machine"], cwd=TOP,
                                      text=True).strip()
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"],
                                     cwd=TOP, text=True).strip()
    day = time.strftime("%Y-%m-%d", time.gmtime())
    return os.path.join(TOP, "bench", "results", f"{day}-{machine}-{commit}")


def arguments(doc, limit, by):
    """Parses the command line of a run.py, whose text is doc."""
    parser = argparse.ArgumentParser(usage=doc.split("usage: ")[1])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--limit", type=float, default=limit)
    parser.add_argument("--only", default="")
    parser.add_argument("--by", default=",".join(by))
    parser.add_argument("--to")
    parser.add_argument("--from", dest="source")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 5)
    return options


def built(column, columns, here):
    """Returns whether a program of columns is in the folder here."""
    if column not in columns:
        sys.exit(f"run.py: no such column: {column}")
    program, package = columns[column]
    if os.access(os.path.join(here, program), os.X_OK):
        return True
    say(f"{column}: {program} is missing (package {package})")
    return False


def write_tables(to, name, table, *tables):
    """Prints a table, and writes it and another to files of the folder to."""
    tables[0](table, sys.stdout)
    for suffix, print_it in zip(("", "-spread"), tables if to else ()):
        with open(os.path.join(to, f"{name}{suffix}.md"), "w",
                  encoding="utf-8") as out:
            print_it(table, out)


def main():
    options = arguments(__doc__, 420, COLUMNS)
    options.columns = [c for c in options.by.split(",")
                       if built(c, COLUMNS, HERE)]
    to = folder(options) if not options.source else None
    path = options.source or os.path.join(to, "waits.txt")
    if to:
        os.makedirs(to, exist_ok=True)
        with open(path, "w", encoding="utf-8") as raw:
            about(raw)
            measure(options, raw)
    write_tables(to, "waits", recall(path), medians, spread)


if __name__ == "__main__":
    main()
