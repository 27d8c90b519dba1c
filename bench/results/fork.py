#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""fork.py: ours and the peers fork and join (fork.h), in turn.

usage: fork.py [--runs K] [--short] [--only WORD] [--cpu] [--ours PROGRAM]
	[--against DIR] [--peers DIR] [--raw FILE | --from FILE]

Prints a table in Markdown: a line for each program and problem. Milliseconds
are the median of K runs and [least, most]. The columns:

	plain	the recursion that makes no thread, in the same language
	P = 1, P = 2	native threads
	/ ours	the ratio to ours with the same P
	1 / 2	how much faster two are than one
	/ plain	P = 1 over the plain recursion
	thread	nanoseconds that each costs: P = 1 less plain, by their number

Ratios are medians of those within a turn. --short: smaller problems. --only:
those whose name begins so. --against: also ours on the library of another tree,
as make against builds it, called "before". --cpu: not the time that passes but that of the
processors, of the whole process, which is steadier where others run; 1 / 2 says
nothing then. --raw: where to put a line for each run; --from: where to take
them from, instead of running anything.
"""

import argparse
import os
import statistics
import subprocess
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

# Name, path below bench/peers/, Debian packages that are needed to build it.
PEERS = [
    ("coroutines", "coro/fork", "g++"),
    ("goroutines", "gofork/fork", "golang-go"),
    ("tokio", "tokio/tokio-fork", "cargo"),
    ("asyncio", "python/empty-asyncio", "python3"),
    ("uvloop", "python/empty-uvloop", "python3-uvloop"),
    ("gevent", "python/empty-gevent", "python3-gevent"),
]
# These make empty threads only, on one native thread.
PYTHON = {"asyncio", "uvloop", "gevent"}

# Threads that a formula would not give. Queens: placements in the first CUT
# rows. UTS: nodes of depth 0 to CUT. (Each has one more, the root.)
THREADS = {
    "queens 14 4": 11167, "queens 13 4": 7580,
    "queens 12 12": 856189, "queens 11 11": 166926,
    "uts T1 5": 3987, "uts T1 8": 257042, "uts T1 10": 4130071,
    "uts T5 8": 22582, "uts T5 10": 132053, "uts T5 20": 4147582,
    "skynet": 1111111,
}

# What is asked, without P. In those of fib a thread has some microseconds,
# about a hundred nanoseconds, and next to nothing to do.
FULL = [
    "empty 500000", "batches 500000 1000", "batches 500000 100",
    "fib 40 18", "fib 36 10", "fib 30 2", "queens 14 4", "queens 12 12",
    "uts T1 5", "uts T1 8", "uts T1 10", "uts T5 10", "uts T5 20", "skynet",
]
SHORT = [
    "empty 300000", "batches 300000 100", "fib 38 18", "fib 33 10", "fib 28 2",
    "queens 13 4", "queens 11 11", "uts T1 8", "uts T5 10", "skynet",
]


def fib(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def threads(problem):
    what, *number = problem.split()
    if what == "fib":
        n, cut = map(int, number)
        return fib(n - cut + 3) - 1
    return THREADS[problem] if problem in THREADS else int(number[0])


def plain(problem):
    """The same without threads, or None."""
    what, *number = problem.split()
    if what == "fib":
        return f"fib {number[0]} {int(number[0]) + 1} 1"
    if what in ("queens", "uts"):
        return f"{what} {number[0]} 0 1"
    return None


def questions(name, problem):
    if name in PYTHON:
        empty = problem.startswith(("empty", "batches"))
        return {"1": f"{problem} 1"} if empty else {}
    asked = {"1": f"{problem} 1", "2": f"{problem} 2"}
    if plain(problem):
        asked["plain"] = plain(problem)
    return asked


def run(program, question):
    """Seconds, and those of the processors; or None, and why has been said."""
    child = subprocess.Popen([program, *question.split()],
                             stdout=subprocess.PIPE, text=True)
    out = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        print(f"{program} {question}: exit {child.returncode}",
              file=sys.stderr)
        return None
    return float(out), usage.ru_utime + usage.ru_stime


def measure(programs, problem, runs, raw):
    """By program and column, a list; an item is a turn's, of run()."""
    took = {name: {} for name in programs if questions(name, problem)}
    for turn in range(runs):
        for name in took:
            for column, question in questions(name, problem).items():
                done = run(programs[name], question)
                took[name].setdefault(column, []).append(done)
                if raw:
                    both = "%f, %f" % done if done else "failed"
                    print(f"{name}, {question}, {turn}, {both}", file=raw,
                          flush=True)
    return took


def recall(lines, problem):
    """What measure() has returned, of its lines."""
    took = {}
    for text in lines:
        name, question, _, *both = text.strip().split(", ")
        for column, asked in questions(name, problem).items():
            if question == asked:
                columns = took.setdefault(name, {})
                columns.setdefault(column, []).append(
                    tuple(map(float, both)) if len(both) == 2 else None)
    return took


def pick(took, which):
    """One of the two that run() returns."""
    return {name: {column: [both and both[which] for both in done]
                   for column, done in columns.items()}
            for name, columns in took.items()}


def spread(seconds):
    ms = sorted(1e3 * s for s in seconds or [] if s is not None)
    if not ms:
        return ""
    return f"{statistics.median(ms):.1f} [{ms[0]:.1f}, {ms[-1]:.1f}]"


def ratio(one, two):
    both = [a / b for a, b in zip(one or [], two or []) if a and b]
    return f"{statistics.median(both):.2f}" if both else ""


def each(mine, problem):
    base = mine.get("plain") or [0] * len(mine["1"])
    cost = [a - b for a, b in zip(mine["1"], base)
            if a is not None and b is not None]
    if not cost:
        return ""
    return f"{statistics.median(cost) / threads(problem) * 1e9:.0f}"


def line(problem, name, mine, ours):
    cells = [problem, name, spread(mine.get("plain")),
             spread(mine["1"]), ratio(mine["1"], ours["1"]),
             spread(mine.get("2")), ratio(mine.get("2"), ours["2"]),
             ratio(mine["1"], mine.get("2")),
             ratio(mine["1"], mine.get("plain")), each(mine, problem)]
    return "| " + " | ".join(cells) + " |"


def built(options):
    """Programs by name, ours first."""
    programs = {"ws": options.ours}
    if not os.access(options.ours, os.X_OK):
        sys.exit(f"{options.ours}: not built")
    if options.against:
        programs["before"] = os.path.join(options.against, "wfork")
    for name, path, package in PEERS:
        path = os.path.join(options.peers, path)
        if os.access(path, os.X_OK):
            programs[name] = path
        else:
            print(f"{name}: {path} is not built (make peers; Debian: "
                  f"{package})", file=sys.stderr)
    return programs


def arguments():
    parser = argparse.ArgumentParser(
        usage=argparse.SUPPRESS, description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--ours", default=os.path.join(TOP, "wfork"))
    parser.add_argument("--against")
    parser.add_argument("--peers", default=os.path.join(TOP, "bench", "peers"))
    parser.add_argument("--raw", type=argparse.FileType("w"))
    parser.add_argument("--from", type=argparse.FileType(), dest="lines")
    return parser.parse_args()


def main():
    options = arguments()
    lines = list(options.lines or [])
    programs = {} if lines else built(options)
    runs = options.runs or (3 if options.short else 7)
    what = " of the processors" if options.cpu else ""
    print(f"Milliseconds{what}, medians and [least, most].\n")
    print("| problem | program | plain | P = 1 | / ours | P = 2 | / ours |"
          " 1 / 2 | / plain | thread |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for problem in SHORT if options.short else FULL:
        if not problem.startswith(options.only):
            continue
        took = pick(recall(lines, problem) if lines else
                    measure(programs, problem, runs, options.raw),
                    int(options.cpu))
        for name in took:
            print(line(problem, name, took[name], took["ws"]), flush=True)


if __name__ == "__main__":
    main()
