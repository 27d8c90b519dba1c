#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""readme.py: README's table of rings, from lines of bench.sh --full.

usage: readme.py [FILE...]

Eight rows, ours first and marked: rings of two on one processor (POSIX: on all),
as graph.py shows them, means of the runs with three digits; then bytes of a
blocked thread, of the most that the program was measured with.

Exit status: 0; 1 nothing to read.
"""

import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", ".."))
import graph                                    # noqa: E402

SIZES = [4, 20000, 2000000]
ROWS = [("**► usched, rr** (fair)", "U1T"),
        ("**► usched, ll** (local)", "UL1T"),
        ("**► usched, ws** (stealing)", "UW1T"),
        ("C++20 coroutines, a bare loop by hand", "C++1T"),
        ("private stacks, a bare loop by hand", "STACK1T"),
        ("tokio", "RUST"),
        ("Go", "GO1T"),
        ("POSIX threads", "POSIX")]


def main(argv):
    if argv[1:2] in (["-h"], ["--help"]):
        print(__doc__.rstrip())
        return 0
    try:
        runs, _, _ = graph.parse(graph.lines(argv[1:]))
    except OSError as err:
        print(f"readme.py: {err.filename}: {err.strerror}", file=sys.stderr)
        return 1
    if 2 not in runs[""]:
        print("readme.py: no rings of two", file=sys.stderr)
        return 1
    heads = [*(f"{size:,}" for size in SIZES), "bytes"]
    print(graph.row("threads in all", heads))
    print("|---|" + "---:|" * len(heads))
    for title, name in ROWS:
        cells = [rates(runs[""][2].get(name, {}), size) for size in SIZES]
        cells += [graph.figure("blocked", graph.flat(blocked(runs, name)),
                               False)]
        if title.startswith("**"):
            cells = [cell and f"**{cell}**" for cell in cells]
        print(graph.row(title, cells))
    return 0


def rates(sizes, size):
    of_runs = [graph.rate(*run) for run in sizes.get(size, [])]
    return graph.digits(statistics.fmean(of_runs)) if of_runs else ""


def blocked(runs, name):
    """Returns the cells of the largest group that the program has."""
    for _, cells in sorted(runs["blocked"].items(), reverse=True):
        if graph.flat(cells.get(name, {})):
            return cells[name]
    return {}


if __name__ == "__main__":
    sys.exit(main(sys.argv))
