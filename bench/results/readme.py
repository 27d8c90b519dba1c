#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""readme.py: README's table of rings, from lines of bench.sh --full.

usage: readme.py [FILE...]

Rings of two, as graph.py shows them, means of the runs with three digits; then
blocks a message, bytes of a blocked thread, of the most that there are, and ms
for empty threads. Columns that the README has no room for are left out.

Exit status: 0; 1 nothing to read.
"""

import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", ".."))
import graph                                    # noqa: E402

SIZES = [4, 200, 20000, 200000, 2000000]
COLUMNS = """POSIX GO GO1T RUST C++ C++1T U U1K U10K U1T U1TFP UL UL1T UL1TFP UW1T
    STACK10K C++10K GOB RUSTMT C++H1T BOOST1T STACK1T STACKH1T""".split()


def main(argv):
    if argv[1:2] in (["-h"], ["--help"]):
        print(__doc__.rstrip())
        return 0
    try:
        runs, heat, _ = graph.parse(graph.lines(argv[1:]))
    except OSError as err:
        print(f"readme.py: {err.filename}: {err.strerror}", file=sys.stderr)
        return 1
    if 2 not in runs[""]:
        print("readme.py: no rings of two", file=sys.stderr)
        return 1
    heads = ["order", *(f"{size:,}" for size in SIZES), "blocks", "bytes", "ms"]
    print(graph.row("", heads))
    print("|---|---|" + "---:|" * (len(heads) - 1))
    for name in COLUMNS:
        cells = [rates(runs[""][2].get(name, {}), size) for size in SIZES]
        cells += [graph.figure(kind, graph.flat(of(runs, kind, name)), False)
                  for kind in ("blocks", "blocked", "empty")]
        if any(cells):
            print(graph.row(name, [heat.get(name, ""), *cells]))
    return 0


def rates(sizes, size):
    of_runs = [graph.rate(*run) for run in sizes.get(size, [])]
    return graph.digits(statistics.fmean(of_runs)) if of_runs else ""


def of(runs, kind, name):
    """Blocks are of rings of two; the others of the largest group."""
    groups = runs[kind]
    group = 2 if kind == "blocks" else max(groups, default=None)
    return groups.get(group, {}).get(name, {})


if __name__ == "__main__":
    sys.exit(main(sys.argv))
