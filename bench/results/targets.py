#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""targets.py: what was wanted of the switch, beside what bench.sh measured.

usage: targets.py [FILE...]

Reads lines of bench.sh --targets (or --full) from the files, or from stdin, and
prints a table in Markdown. A ratio is one of rates in the same run, and the
table has the median of the runs and [least, most]. The rates that follow it are
medians, in millions of messages a second. Columns OLD are there if bench.sh was
told a tree to compare with, by --against.

Exit status: 0, also if a target is missed; 1 nothing to read.
"""

import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", ".."))
import graph                                    # noqa: E402

# Cells are named by column, kind, and N R D, or NR, or WHERE.
COLD = "turns 2 500000 0"
DEEP = "2 1000 10000"

# A target, a cell, and the cell that its rate is divided by, or None. What the
# value should be: at least, or, below 0, at most.
TARGETS = [
    ("ll, N = 2, to C++, last in first out", "UL1T turns 2 2 0",
     "C++H1T turns 2 2 0", None),
    ("the same with usched_share_fp()", "UL1TFP turns 2 2 0",
     "C++H1T turns 2 2 0", None),
    ("ll, N = 8, to C++", "UL1T turns 8 2 0", "C++1T turns 8 2 0", 1),
    ("rr, N = 8, to C++", "U1T turns 8 2 0", "C++1T turns 8 2 0", 1),
    ("ll, N = 2, usched_share_fp() to without", "UL1TFP turns 2 2 0",
     "UL1T turns 2 2 0", 1),
    ("the same, N = 8", "UL1TFP turns 8 2 0", "UL1T turns 8 2 0", 1),
    ("rr, N = 8, usched_share_fp() to without", "U1TFP turns 8 2 0",
     "U1T turns 8 2 0", 1),
    ("the same, 20,000 threads", "U1TFP turns 2 10000 0",
     "U1T turns 2 10000 0", 1),
    ("the same, a million threads", "U1TFP " + COLD, "U1T " + COLD, 1),
    ("ll, N = 2, to before", "UL1T turns 2 2 0", "UL1TOLD turns 2 2 0", 0.98),
    *[(f"rr, {nr:,} threads, to before", f"U1T turns 2 {nr // 2} 0",
       f"U1TOLD turns 2 {nr // 2} 0", 1.35 if nr in (400, 1000) else 0.98)
      for nr in (4, 200, 400, 1000, 4000, 20_000, 200_000, 1_000_000,
                 2_000_000)],
    ("rr, 16,000 threads of 1,000 bytes, to before", "U1T turns 2 8000 1000",
     "U1TOLD turns 2 8000 1000", 0.98),
    ("rr, 2,000 threads of 10,000 bytes, M = 400, to before",
     "U1T turns " + DEEP, "U1TOLD turns " + DEEP, 0.98),
    ("the same, steady, to private stacks", "U1T steady " + DEEP,
     "STACK1T steady " + DEEP, 0.3),
    ("16,000 of them, steady, to private stacks", "U1T steady 2 8000 10000",
     "STACK1T steady 2 8000 10000", None),
    *[(f"ll, two threads at {where}, to before", f"UL1T wrap {nr}",
       f"UL1TOLD wrap {nr}", 0.98)
      for nr, where in enumerate(graph.WHERE) if where],
    ("ll, N = 2, P = 2 to 1", "UL turns 2 2 0", "UL1T turns 2 2 0", 1.9),
    ("rr, 200 threads, P = 2 to 1", "U turns 2 100 0", "U1T turns 2 100 0",
     1.9),
    ("rr, a million threads, P = 2 to 1", "U " + COLD, "U1T " + COLD, 1.9),
    ("time of ws to rr, N = 2", "U1T turns 2 2 0", "UW1T turns 2 2 0", -1.15),
    ("the same, 20,000 threads", "U1T turns 2 10000 0", "UW1T turns 2 10000 0",
     -1.15),
    ("the same, 200 threads, P = 2", "U turns 2 100 0", "UW turns 2 100 0",
     -1.15),
    ("bytes a blocked thread, of 100,000", "U1T blocked 100000", None, -140),
    ("bytes a blocked thread, of 1,000,000", "U1T blocked 1000000", None, -140),
]


def main(argv):
    if argv[1:2] in (["-h"], ["--help"]):
        print(__doc__.rstrip())
        return 0
    try:
        text = [line for _, line in graph.lines(argv[1:])]
    except OSError as err:
        print(f"targets.py: {err.filename}: {err.strerror}", file=sys.stderr)
        return 1
    cells = read(text)
    if not cells:
        print("targets.py: no lines of bench.sh --targets", file=sys.stderr)
        return 1
    print("\n".join(table(cells)))
    return 0


def read(text):
    """By name of a cell, what it shows of each run, or None."""
    cells, columns = {}, {}
    for line in text:
        kind, *row = (cell.strip() for cell in line.split(","))
        if kind not in ("turns", "steady", "wrap", "blocked"):
            continue
        names = graph.KINDS[kind].keys
        keys, values = row[:len(names)], row[len(names):]
        try:
            if keys == names:
                columns[kind] = values
            else:
                add(cells, kind, [graph.whole(key, 0) for key in keys],
                    [*zip(columns.get(kind, ()), values, strict=True)])
        except ValueError as err:
            print(f"targets.py: {err}: {line.strip()[:60]}", file=sys.stderr)
    return cells


def add(cells, kind, keys, values):
    how = graph.KINDS[kind]
    group = how.group(keys)
    group = group if isinstance(group, tuple) else (group,)
    for column, value in values:
        name = " ".join([column, kind, *map(str, group)])
        cells.setdefault(name, []).append(
            how.show(keys, how.read(value)) if value else None)


def table(cells):
    yield "| target | wanted | measured | of | met |"
    yield "|---|--:|--:|--:|---|"
    for title, over, under, wanted in TARGETS:
        values = compared(cells.get(over, []),
                          cells.get(under, []) if under else None)
        rates = [middle(cells.get(name)) for name in (over, under) if name]
        yield "| " + " | ".join([
            title, bound(wanted), spread(values),
            ", ".join(rates) if under and all(rates) else "",
            met(values, wanted)]) + " |"


def compared(over, under):
    """The ratios of each run that has both."""
    if under is None:
        return [value for value in over if value]
    return [a / b for a, b in zip(over, under) if a and b]


def bound(wanted):
    if wanted is None:
        return ""
    return f"at most {-wanted:g}" if wanted < 0 else f"{wanted:g}"


def spread(values):
    if not values:
        return "not measured"
    return (f"{graph.digits(statistics.median(values))} "
            f"[{graph.digits(min(values))}, {graph.digits(max(values))}] "
            f"({len(values)})")


def middle(values):
    values = [value for value in values or [] if value]
    return graph.digits(statistics.median(values)) if values else ""


def met(values, wanted):
    if wanted is None or not values:
        return ""
    value = statistics.median(values)
    return "yes" if (value <= -wanted if wanted < 0 else value >= wanted) \
        else "**no**"


if __name__ == "__main__":
    sys.exit(main(sys.argv))
