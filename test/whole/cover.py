#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""cover.py: the branches of the library that no test takes, and why.

usage: test/whole/cover.py DIRECTORY

DIRECTORY holds the objects and counts of a build with --coverage, after its
tests have run (make cover does both). Prints, for each file, how many branches
it has, and how many were taken. Each branch that was not taken is listed with
its explanation from test/whole/uncovered.txt. Status 1: a branch has no explanation.
An explanation without such a branch is named, too: some branches need a race,
which may have happened this time.

A line of test/whole/uncovered.txt is: file | the line of source | untaken | why
"""
import collections
import glob
import json
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
FOLDERS = {"": ["usched.c", "usched.h", "rr.c", "rr.h", "ll.c", "ll.h"],
           "core": [os.path.basename(path)
                    for path in glob.glob(os.path.join(TOP, "core", "*.h"))],
           "core/machine": ["x86_64.h", "fp.h", "portable.h"],
           "lib/base": ["lock.h", "park.h"],
           "lib/wait": ["uwait.c", "uwait.h", "timers.h", "utime.c", "uplain.c",
                        "usource.c", "wheel.h"],
           "lib/proc": ["umem.c", "umem.h", "runs.h", "segments.h", "sizes.h",
                        "spans.h", "stock.h", "uproc.c", "uproc.h", "uproc_api.h",
                        "uproc_inside.h", "arrive.h", "blocks.h", "deal.h",
                        "dispatcher.h", "forked.h", "join.h", "lanes.h", "looks.h",
                        "make.h", "maps.h", "native_threads.h", "pinning.h",
                        "rest.h", "room.h", "rounds.h", "sleep.h",
                        "ucall.c", "jobs.h", "lookup.h", "pool_threads.h", "inbox.h",
                        "wakes.h"],
           "lib/steal": ["ws.c", "ws.h", "ws_inside.h", "runnable.h", "messages.h",
                         "theft.h", "search.h", "choose.h", "mail.h", "stop.h",
                         "seek.h", "deque.h"]}
FILES = {name: os.path.join(TOP, folder, name)
         for folder, names in FOLDERS.items() for name in names}


def counts(directory):
    """Returns {file: {line: [how often each branch was taken]}}, over all."""
    taken = collections.defaultdict(dict)
    for data in sorted(glob.glob(os.path.join(directory, "**", "*.gcda"),
                                 recursive=True)):
        out = subprocess.run(["gcov", "-b", "-c", "--json-format", "--stdout",
                              data], capture_output=True, check=True).stdout
        for text in out.splitlines():
            for entry in json.loads(text)["files"]:
                name = os.path.basename(entry["file"])
                if name in FILES:
                    add(taken[name], entry["lines"])
    return taken


def add(lines, more):
    """A line may be in several functions, or in several programs."""
    here = collections.defaultdict(list)
    for line in more:
        here[line["line_number"], line.get("function_name")] += [
            branch["count"] for branch in line["branches"]]
    for key, branches in here.items():
        old = lines.get(key, [])
        if len(old) != len(branches):   # compiled twice, in different ways
            old = old + [0] * (len(branches) - len(old))
            branches = branches + [0] * (len(old) - len(branches))
        lines[key] = [a + b for a, b in zip(old, branches)]


def explanations(path):
    why = {}
    with open(path) as text:
        for line in text:
            if line.strip() and not line.startswith("#"):
                name, source, untaken, reason = line.rstrip("\n").split(" | ", 3)
                why[name.strip(), source.strip()] = (int(untaken), reason)
    return why


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    taken = counts(sys.argv[1])
    why = explanations(os.path.join(TOP, "test", "whole", "uncovered.txt"))
    bad = []
    total = collections.Counter()
    for name in FILES:
        with open(FILES[name]) as text:
            source = [""] + [line.strip() for line in text]
        untaken = collections.Counter()
        where = {}
        for (line, _), branches in sorted(taken.get(name, {}).items(),
                                          key=lambda item: item[0][0]):
            total[name, "all"] += len(branches)
            total[name, "taken"] += sum(count > 0 for count in branches)
            missing = sum(count == 0 for count in branches)
            if missing:
                untaken[source[line]] += missing
                where.setdefault(source[line], line)
        print("%-12s %4d branches, %4d taken, %d not" % (
            name, total[name, "all"], total[name, "taken"],
            sum(untaken.values())))
        for text, nr in untaken.items():
            known, reason = why.pop((name, text), (0, None))
            print("    %s:%d: %s\n        %d: %s" % (
                name, where[text], text, nr, reason or "NOT EXPLAINED"))
            if nr > known:      # fewer: races that came this time
                bad.append("%s | %s | %d |" % (name, text, nr))
    print("all          %4d branches, %4d taken" % (
        sum(nr for (_, kind), nr in total.items() if kind == "all"),
        sum(nr for (_, kind), nr in total.items() if kind == "taken")))
    for line in bad:
        print("not as explained: %s" % line)
    for name, text in why:
        print("explained, but taken this time, or gone: %s | %s" % (name, text))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
