#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# graph.py: the table and the plot of the lines that bench.sh prints.
"""usage: python3 graph.py [out.svg|out.png] [file...]

Reads lines of bench.sh from the files, or from stdin, any number of runs:

      N,       R,       M,          U,         UL
      2,       8,  375020,   0.031415,   0.027182

A header names the columns of the lines that follow it, so the files may
differ in their columns. The cells are seconds; an empty cell is no data. Lines
that begin with # are comments. A bad line is named on stderr and skipped.

Prints, for each N, a Markdown table in millions of messages a second,
N*R*M / seconds / 1e6, coroutines (N*R) across; a cell is the mean of the rates
of its runs. With an output name, gnuplot draws the same: a panel for each N,
a logarithmic x axis, bars from the slowest to the fastest run. The y axis
begins at 0, or is logarithmic when the fastest mean is LOG times the slowest.

100000.000 seconds is how the article marks a run that failed. The table takes
it at its word, as the article does (0.00 or 0.01); the plot leaves it out.

Exit status: 0, also when gnuplot is missing; 1 nothing to read or a plot that
failed; 2 usage.
"""
import math
import shutil
import statistics
import subprocess
import sys

FAILED = 100000.0       # seconds: a run that failed, in the article's results
LOG = 100.0             # so many times between the means: a logarithmic y axis
WIDTH, HEIGHT = 800, 460        # pixels of a panel
# Okabe and Ito's colours but yellow, which is not seen on white. What has the
# same colour has another dash, and no two have the same point until POINTS
# are used up.
COLOURS = ('#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9',
           '#000000')
DASHES = (1, 2, 4, 5)
POINTS = (7, 5, 9, 11, 13, 6, 4, 8, 10, 12, 2, 1, 3)


def main(args):
    if args and args[0] in ('-h', '--help'):
        print(__doc__.rstrip())
        return 0
    out, files = split(args)
    bad = [a for a in files if a.startswith('-') or is_plot(a)]
    if bad:
        say(f'{bad[0]}: the plot comes first, then the files')
        say(__doc__.splitlines()[0])
        return 2
    try:
        runs = parse(lines(files))
    except OSError as err:
        say(f'{err.filename}: {err.strerror}')
        return 1
    if not runs:
        say('no lines of results')
        return 1
    print('\n\n'.join(table(n, runs[n]) for n in sorted(runs)))
    return draw(out, runs) if out else 0


def say(text):
    sys.stdout.flush()
    print(f'graph.py: {text}', file=sys.stderr)


def is_plot(name):
    return name.lower().endswith(('.svg', '.png'))


def split(args):
    """The arguments as the name of the plot, or None, and the inputs."""
    return (args[0], args[1:]) if args and is_plot(args[0]) else (None, args)


# Reading.
#
# runs[N][column][N*R] is a list of (messages, seconds), one for each run. A
# column that has only empty cells is there, with empty lists.

def lines(files):
    """All input lines, each with its place."""
    if not files:
        sys.stdin.reconfigure(errors='replace')
        yield from places('line', sys.stdin)
    for name in files:
        with open(name, encoding='utf-8', errors='replace') as file:
            yield from places(f'{name}:', file)


def places(name, file):
    for nr, text in enumerate(file, 1):
        yield f'{name} {nr}'.replace(': ', ':'), text


def parse(source):
    runs, columns = {}, None
    for place, text in source:
        text = text.strip()
        if not text or text.startswith('#'):
            continue
        cells = [cell.strip() for cell in text.split(',')]
        try:
            if cells[0] == 'N':
                columns = None          # a bad header leaves no header
                columns = header(cells)
            else:
                add(runs, columns, cells)
        except ValueError as err:
            say(f'{place}: {err}: {text[:60]}')
    return runs


def header(cells):
    columns = cells[3:]
    if cells[:3] != ['N', 'R', 'M'] or not all(columns):
        raise ValueError('not a header "N, R, M, column..."')
    if len(set(columns)) != len(columns):
        raise ValueError('the same column twice')
    return columns


def add(runs, columns, cells):
    """Adds one line to runs; a bad one changes nothing."""
    if columns is None:
        raise ValueError('no header before')
    if len(cells) != len(columns) + 3:
        raise ValueError(f'{len(cells)} cells, the header has '
                         f'{len(columns) + 3}')
    n, r, m = (whole(cell) for cell in cells[:3])
    times = [seconds(cell) for cell in cells[3:]]
    for column, time in zip(columns, times):
        cell = runs.setdefault(n, {}).setdefault(column, {})
        cell.setdefault(n * r, []).extend([(n * r * m, time)] if time else [])


def whole(cell):
    good = cell.isascii() and cell.isdigit() and len(cell) < 16
    value = int(cell) if good else 0
    if value == 0:
        raise ValueError(f'"{cell}" is not a positive whole number')
    return value


def seconds(cell):
    """None for an empty cell."""
    if not cell:
        return None
    try:
        value = float(cell)
    except ValueError:
        value = 0.0
    if not 1e-9 <= value < math.inf:
        raise ValueError(f'"{cell}" is not a time')
    return value


# The table.

def rates(cell):
    return [messages / time / 1e6 for messages, time in cell]


def table(n, columns):
    sizes = sorted({size for cells in columns.values() for size in cells})
    rows = [row('', sizes), row('---', ['---:'] * len(sizes))]
    for name, cells in columns.items():
        rows.append(row(name, [mean(cells.get(size)) for size in sizes]))
    return f'N = {n}, {caption(columns)}:\n\n' + '\n'.join(rows)


def row(name, cells):
    return '| ' + ' | '.join(str(cell) for cell in [name, *cells]) + ' |'


def mean(cell):
    return f'{statistics.fmean(rates(cell)):.2f}' if cell else ''


def caption(columns):
    nr = {len(cell) for cells in columns.values() for cell in cells.values()}
    nr.discard(0)
    low, high = min(nr, default=0), max(nr, default=0)
    many = f'{low}' if low == high else f'{low} to {high}'
    return ('millions of messages a second by coroutines, '
            f'mean of {many} run{"" if high == 1 else "s"}')


# The plot.

def draw(out, runs):
    panels = {n: points(runs[n]) for n in sorted(runs)}
    panels = {n: series for n, series in panels.items() if series}
    if not panels:
        say(f'{out}: not drawn, no data')
        return 1
    if not shutil.which('gnuplot'):
        say(f'{out}: not drawn, gnuplot is missing: install gnuplot-nox')
        return 0
    return gnuplot(out, script(out, panels))


def points(columns):
    """Of each column that has any, its (x, mean, min, max)."""
    series = {}
    for name, cells in columns.items():
        good = {size: rates(run for run in cell if run[1] < FAILED)
                for size, cell in sorted(cells.items())}
        rows = [(size, statistics.fmean(rate), min(rate), max(rate))
                for size, rate in good.items() if rate]
        if rows:
            series[name] = rows
    return series


def script(out, panels):
    term = 'svg' if out.lower().endswith('.svg') else 'pngcairo'
    names = dict.fromkeys(name for series in panels.values() for name in series)
    styles = {name: style(i) for i, name in enumerate(names)}
    rows = [row for series in panels.values() for rows in series.values()
            for row in rows]
    text = [f'set terminal {term} noenhanced size {WIDTH},'
            f'{HEIGHT * len(panels)} font "sans,12" background "#ffffff"',
            f'set multiplot layout {len(panels)},1', AXES, *ranges(rows)]
    for n, series in panels.items():
        text += panel(n, series, styles)
    return '\n'.join([*text, 'unset multiplot', ''])


AXES = '''
set key outside right top reverse Left samplen 3 spacing 1.1 width 2
set logscale x 10
set format x "%.0s%c"
set grid xtics ytics linecolor rgb "#dddddd" linetype 1
set border 3
set tics nomirror
set xlabel "coroutines (N*R)"
set ylabel "millions of messages a second"
set errorbars small
'''


def ranges(rows):
    """The same axes for all panels: they will be compared."""
    sizes, means, lows, highs = zip(*rows)
    wide = 1.5 if max(sizes) >= 10 * min(sizes) else 4     # a tic or more
    text = [f'set xrange [{min(sizes) / wide}:{max(sizes) * wide}]']
    if max(means) / min(means) < LOG:
        return [*text, f'set yrange [0:{max(highs) * 1.05}]']
    low, high = min(lows) / 1.2, max(highs) * 1.2
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    tics = ', '.join(f'{d}e{p}' for p in powers for d in (1, 2, 5))
    return [*text, 'set logscale y 10', 'set format y "%g"',
            f'set yrange [{low}:{high}]', f'set ytics ({tics})']


def style(i):
    """Of the bars, and of the line."""
    colour = f'linecolor rgb "{COLOURS[i % len(COLOURS)]}"'
    dash = DASHES[i // len(COLOURS) % len(DASHES)]
    return (f'{colour} pointtype 0',
            f'{colour} linewidth 1.5 dashtype {dash} '
            f'pointtype {POINTS[i % len(POINTS)]}')


def panel(n, series, styles):
    text = [f'set title "N = {n}"']
    plots = []
    for i, (name, rows) in enumerate(series.items()):
        data = '\n'.join(' '.join(f'{x:.9g}' for x in row) for row in rows)
        text.append(f'$n{n}_{i} << EOD\n{data}\nEOD')
        bars, line = styles[name]
        quoted = name.replace("'", "''")
        plots += [f'$n{n}_{i} with yerrorbars {bars} notitle',
                  f"$n{n}_{i} with linespoints {line} title '{quoted}'"]
    return [*text, 'plot ' + ', \\\n\t'.join(plots)]


def gnuplot(out, text):
    done = subprocess.run(['gnuplot'], input=text.encode(), check=False,
                          capture_output=True)
    if done.returncode or not done.stdout:
        say(f'{out}: not drawn, gnuplot: {done.stderr.decode().strip()}')
        return 1
    try:
        with open(out, 'wb') as file:
            file.write(done.stdout)
    except OSError as err:
        say(f'{out}: {err.strerror}')
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
