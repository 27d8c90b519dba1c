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
# value should be: at least, or, below 0, at most, or by maker of the processor.
# And what would be liked beyond it.
TARGETS = [
    ("ll, N = 2, to C++ first in first out", "UL1T turns 2 2 0",
     "C++1T turns 2 2 0", {"AMD": 0.55, "Intel": 0.95}, "0.65 on Zen"),
    ("the same with USCHED_SHARE_FP", "UL1TFP turns 2 2 0",
     "C++1T turns 2 2 0", 1.0, "the next"),
    ("the same, to the bare stackful switch", "UL1TFP turns 2 2 0",
     "STACK1T turns 2 2 0", None, "1"),
    ("ll, N = 8, to C++", "UL1T turns 8 2 0", "C++1T turns 8 2 0", 1.05, ""),
    ("rr, 200 threads to 4", "U1T turns 2 100 0", "U1T turns 2 2 0", 0.9, ""),
    ("rr, 20,000 threads, to before", "U1T turns 2 10000 0",
     "U1TOLD turns 2 10000 0", 2.2, ""),
    ("the same, to C++", "U1T turns 2 10000 0", "C++1T turns 2 10000 0", None,
     "0.5"),
    ("rr, 200,000 threads, to before", "U1T turns 2 100000 0",
     "U1TOLD turns 2 100000 0", None, ""),
    ("rr, a million threads, to before", "U1T " + COLD, "U1TOLD " + COLD, 2.2,
     ""),
    ("the same, to C++", "U1T " + COLD, "C++1T " + COLD, None, "0.5"),
    ("the same, steady, to C++", "U1T steady 2 500000 0",
     "C++1T steady 2 500000 0", None, "0.5"),
    ("rr, two million threads, to before", "U1T turns 2 1000000 0",
     "U1TOLD turns 2 1000000 0", None, ""),
    ("rr, 16,000 threads of 1,000 bytes, to before", "U1T turns 2 8000 1000",
     "U1TOLD turns 2 8000 1000", 4, ""),
    ("rr, 2,000 threads of 10,000 bytes, M = 400, to before",
     "U1T turns " + DEEP, "U1TOLD turns " + DEEP, 10, ""),
    ("the same, steady, to private stacks", "U1T steady " + DEEP,
     "STACK1T steady " + DEEP, 0.3, "0.8"),
    ("16,000 of them, steady, to private stacks", "U1T steady 2 8000 10000",
     "STACK1T steady 2 8000 10000", None, ""),
    ("ll, N = 2, P = 2 to 1", "UL turns 2 2 0", "UL1T turns 2 2 0", 1.9, ""),
    ("ll, N = 8, P = 2 to 1", "UL turns 8 2 0", "UL1T turns 8 2 0", 1.9, ""),
    ("rr, 200 threads, P = 2 to 1", "U turns 2 100 0", "U1T turns 2 100 0",
     1.9, ""),
    ("rr, a million threads, P = 2 to 1", "U " + COLD, "U1T " + COLD, 1.9, ""),
    ("time of ws to rr, N = 2", "U1T turns 2 2 0", "UW1T turns 2 2 0", -1.15,
     ""),
    ("the same, 200 threads", "U1T turns 2 100 0", "UW1T turns 2 100 0", -1.15,
     ""),
    ("the same, 20,000 threads", "U1T turns 2 10000 0", "UW1T turns 2 10000 0",
     -1.15, ""),
    ("the same, 200 threads, P = 2", "U turns 2 100 0", "UW turns 2 100 0",
     -1.15, ""),
    ("bytes a blocked thread, of 100,000", "U1T blocked 100000", None, -140,
     ""),
    ("bytes a blocked thread, of 1,000,000", "U1T blocked 1000000", None, -140,
     ""),
]
TARGETS[5:5] = [
    (f"ll, two threads at {where}, to before", f"UL1T wrap {nr}",
     f"UL1TOLD wrap {nr}", None, "")
    for nr, where in enumerate(graph.WHERE) if where]


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
    print("\n".join(table(cells, makers(text))))
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


def makers(text):
    """Those whose processors the lines come from."""
    first = [line for line in text if line.startswith("# processor:")]
    return {name for name in ("AMD", "Intel")
            if any(name in line for line in first)}


def table(cells, made):
    yield "| target | wanted | and liked | measured | of | met |"
    yield "|---|--:|--:|--:|--:|---|"
    for title, over, under, wanted, liked in TARGETS:
        if isinstance(wanted, dict):
            wanted = wanted[made.copy().pop()] if len(made) == 1 else None
        values = compared(cells.get(over, []),
                          cells.get(under, []) if under else None)
        rates = [middle(cells.get(name)) for name in (over, under) if name]
        yield "| " + " | ".join([
            title, bound(wanted), liked, spread(values),
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
