#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""slide.py: one panel of the rings that README.md shows, from lines of bench.sh.

usage: slide.py SLIDE.svg|SLIDE.png [FILE...]

The rows and the numbers of threads are those of readme.py: hot beside hot, cold
beside cold. Bars are medians of the runs, and lines on them go from the least to
the most.

Exit status: 0, also when gnuplot is missing; 1 nothing to read or a slide that
failed; 2 usage.
"""

import os
import shutil
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import readme                                   # noqa: E402
from readme import graph                        # noqa: E402

TITLE = "Messages between threads, millions a second: higher is better"
WHAT = ("Threads in pairs: each wakes the other, and waits. One processor; POSIX "
        "threads have all.")
# Pixels: the slide, where the bars begin, and of a row.
WIDE, HIGH, LEFT, TOP, ROW, BAR = 1280, 720, 340, 152, 35, 12
STRONG, PALE = "#d55e00", "#a9b3bd"


def main(argv):
    if argv[1:2] in (["-h"], ["--help"]):
        print(__doc__.rstrip())
        return 0
    out, files = graph.split(argv[1:])
    if not out:
        print("usage: slide.py SLIDE.svg|SLIDE.png [FILE...]", file=sys.stderr)
        return 2
    try:
        runs, _, origin = graph.parse(graph.lines(files))
    except OSError as err:
        print(f"slide.py: {err.filename}: {err.strerror}", file=sys.stderr)
        return 1
    if 2 not in runs[""]:
        print("slide.py: no rings of two", file=sys.stderr)
        return 1
    if not shutil.which("gnuplot"):
        print(f"slide.py: {out}: not drawn, gnuplot is missing: install "
              "gnuplot-nox", file=sys.stderr)
        return 0
    return graph.gnuplot(out, slide(out, readme.rows(runs), origin))


def slide(out, groups, origin):
    """All is drawn by hand: one unit is a pixel, from the upper left."""
    rates = [cells[:-1] for members in groups.values()
             for cells in members.values()]          # the last are bytes
    step = (WIDE - LEFT - 20) / len(readme.SIZES)
    scale = (step - 75) / max((rate for row in rates for cell in row
                               for rate in cell), default=1)
    text = [graph.terminal(out, WIDE, HIGH),
            f"set xrange [0:{WIDE}]", f"set yrange [{HIGH}:0]",
            "set margins 0, 0, 0, 0", "unset border", "unset tics",
            "unset key",
            label(40, 40, TITLE, 24, bold=True), label(40, 76, WHAT, 16)]
    for i, size in enumerate(readme.SIZES):
        text.append(label(LEFT + i * step, TOP - 32, f"{size:,} threads", 17,
                          bold=True))
    y = TOP
    for group, members in groups.items():
        text.append(label(40, y, group, 16, bold=True))
        y += ROW
        for title, cells in members.items():
            strong = readme.ours(title)
            text.append(label(LEFT - 15, y, title.split(" (")[0], 14, strong,
                              "right"))
            for i, cell in enumerate(cells[:-1]):
                text += bar(LEFT + i * step, y, cell, scale, strong)
            y += ROW
    return "\n".join([*text, label(40, HIGH - 18, origin, 14,
                                   colour="#555555"), "plot NaN", ""])


def bar(x, y, rates, scale, strong):
    """Its value stands at its end, or says that there is none."""
    if not rates:
        return [label(x, y, readme.NONE, 13, colour="#888888")]
    middle, least, most = (scale * rate for rate in (
        statistics.median(rates), min(rates), max(rates)))
    return [f"set object rectangle from {x},{y - BAR} to "
            f"{x + max(1, middle)},{y + BAR} fillcolor rgb "
            f'"{STRONG if strong else PALE}" fillstyle solid noborder',
            f"set arrow from {x + least},{y} to {x + most},{y} heads size 0,90 "
            'front linewidth 1.5 linecolor rgb "#222222"',
            label(x + max(middle, most) + 8, y,
                  readme.brief(statistics.median(rates)), 15, strong)]


def label(x, y, text, size, bold=False, where="left", colour="#222222"):
    font = f"sans{':Bold' if bold else ''},{size}"
    return (f'set label {graph.quoted(text)} at {x},{y} {where} '
            f'font "{font}" textcolor rgb "{colour}"')


if __name__ == "__main__":
    sys.exit(main(sys.argv))
