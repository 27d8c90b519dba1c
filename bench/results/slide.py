#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""slide.py: one panel of ours and of what is best known, from lines of bench.sh.

usage: slide.py [SLIDE.svg|SLIDE.png] [FILE...]

Rings of two, at up to four numbers of threads, as means of the runs. Each row is
the fastest of its columns, with one native thread or more. Prints a table, and
draws the slide if gnuplot is there.

Exit status: 0, also when gnuplot is missing; 1 nothing to read or a slide that
failed.
"""

import os
import shutil
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", ".."))
import graph                                    # noqa: E402

ROWS = {
    "usched ll": ("UL", "UL1T"),
    "usched ws": ("UW", "UW1T"),
    "usched rr": ("U", "U1T"),
    "C++20 coroutines": ("C++", "C++1T", "C++H1T"),
    "Rust tokio": ("RUST", "RUSTMT"),
    "Go": ("GO", "GO1T", "GOB", "GOB1T"),
    "pthreads": ("POSIX",),
}
SIZES = (4, 200, 20000, 200000, 2000000)
TITLE = "Messages between threads, millions a second: higher is better"
WHAT = ("Threads in pairs: each wakes the other, and waits. A row is the fastest "
        "of its variants.")
NOTES = {
    "usched ll": "ll: a thread that is woken runs next",
    "usched ws": "ws: the same, and idle processors steal threads",
    "usched rr": "rr: all threads take turns",
}
# Pixels: the slide, where the bars begin, and of a row.
WIDE, HIGH, LEFT, TOP, ROW = 1280, 720, 250, 195, 58
STRONG, PALE = "#d55e00", "#a9b3bd"


def main(argv):
    if argv[1:2] in (["-h"], ["--help"]):
        print(__doc__.rstrip())
        return 0
    out, files = graph.split(argv[1:])
    try:
        runs, _, origin = graph.parse(graph.lines(files))
    except OSError as err:
        print(f"slide.py: {err.filename}: {err.strerror}", file=sys.stderr)
        return 1
    sizes, rows = pick(runs[""].get(2, {}))
    if not rows:
        print("slide.py: no rings of two", file=sys.stderr)
        return 1
    print(graph.plain(f"{TITLE}, by threads", sizes, {
        name: [*map(brief, rates)] for name, rates in rows.items()}, {}))
    if not out:
        return 0
    if not shutil.which("gnuplot"):
        print(f"slide.py: {out}: not drawn, gnuplot is missing: install "
              "gnuplot-nox", file=sys.stderr)
        return 0
    return graph.gnuplot(out, slide(out, sizes, rows, origin))


def pick(columns):
    """The numbers of threads, and of each row the best rates, or None."""
    measured = {size for cells in columns.values()
                for size, cell in cells.items() if cell}
    sizes = [size for size in SIZES if size in measured] or sorted(measured)
    sizes = sizes[:1] + sizes[1:][-3:]
    rows = {name: [best([columns.get(column, {}).get(size, [])
                         for column in mine]) for size in sizes]
            for name, mine in ROWS.items()}
    return sizes, {name: rates for name, rates in rows.items() if any(rates)}


def best(cells):
    return max((statistics.fmean(graph.rate(*run) for run in cell)
                for cell in cells if cell), default=None)


def brief(rate):
    return graph.digits(rate, 2) if rate else ""


def slide(out, sizes, rows, origin):
    """All is drawn by hand: one unit is a pixel, from the upper left."""
    step = (WIDE - LEFT - 20) / len(sizes)
    scale = (step - 75) / max(filter(None, sum(rows.values(), [])))
    text = [graph.terminal(out, WIDE, HIGH),
            f"set xrange [0:{WIDE}]", f"set yrange [{HIGH}:0]",
            "set margins 0, 0, 0, 0", "unset border", "unset tics",
            "unset key",
            label(40, 50, TITLE, 24, bold=True), label(40, 92, WHAT, 16)]
    for i, size in enumerate(sizes):
        text.append(label(LEFT + i * step, TOP - 40, f"{size:,} threads", 18,
                          bold=True))
    for nr, (name, rates) in enumerate(rows.items()):
        y = TOP + nr * ROW
        text.append(label(LEFT - 15, y, name, 17, graph.ours(name), "right"))
        for i, rate in enumerate(rates):
            text += bar(LEFT + i * step, y, rate, scale, graph.ours(name))
    notes = ("; ".join(NOTES[name] for name in rows if name in NOTES), origin)
    text += [label(40, HIGH - 30 - 30 * i, note, 14, colour="#555555")
             for i, note in enumerate(reversed(notes))]
    return "\n".join([*text, "plot NaN", ""])


def bar(x, y, rate, scale, strong):
    """Its value stands at its end, or says that there is none."""
    if not rate:
        return [label(x, y, "no result", 14, colour="#888888")]
    long = max(1, rate * scale)
    return [f"set object rectangle from {x},{y - 18} to {x + long},{y + 18} "
            f'fillcolor rgb "{STRONG if strong else PALE}" fillstyle solid '
            "noborder",
            label(x + long + 8, y, brief(rate), 17, strong)]


def label(x, y, text, size, bold=False, where="left", colour="#222222"):
    font = f"sans{':Bold' if bold else ''},{size}"
    return (f'set label {graph.quoted(text)} at {x},{y} {where} '
            f'font "{font}" textcolor rgb "{colour}"')


if __name__ == "__main__":
    sys.exit(main(sys.argv))
