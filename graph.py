#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# graph.py: the tables and the plot of the lines that bench.sh prints.
"""usage: python3 graph.py [--text] [--spread] [out.svg|out.png] [file...]

Reads lines of bench.sh from the files, or from stdin, any number of runs:

      N,       R,       M,          U,         UL
      2,       8,  375020,   0.031415,   0.027182     seconds
 blocks,       N,       R,       M,          U,         UL
 blocks,       2,       8,  375020,    6000321,    5999800     times blocked
blocked,      NR,          U,         UL
blocked, 1000000,  560000000,  552000000     bytes of NR threads that wait
  empty,      NR,          U,         UL
  empty,  500000,   0.081234,   0.078912     seconds to make and run them
  turns,       N,       R,       M,       D,        U1T,       UL1T
  turns,       2,    8000,     200,    1000,   0.312345,   0.281234     seconds
 steady,       N,       R,       M,       D,        U1T,       UL1T
 steady,       2,    8000,     200,    1000,   0.601234,   0.551234
                                        seconds of 3 * M rounds less those of M
   wrap,   WHERE,       M,        U1T,       UL1T
   wrap,       4, 1000000,   0.034567,   0.031234     seconds, below wrappers

A header names the columns of the lines of its kind that follow it, so the files
may differ in their columns. An empty cell is no data. Lines that begin with #
are comments; "# UL: hot, ...", cold or mixed is shown with the name in the tables. A
bad line is named on stderr and skipped.

Prints Markdown tables. For each N, millions of messages a second,
N*R*M / seconds / 1e6, coroutines (N*R) across; a cell is the mean of the rates
of its runs. Then what the other lines say, blocks a message as the mean of the
lines of an N, the rest as the median of the runs. turns, steady and wrap are
millions of messages a second, too, as medians. With --spread all cells are
the median and, where there are several, between which it lies. With --text the
tables are for a terminal: as wide as it is, or 100 columns, our programs first.

With an output name, gnuplot draws the rates: for each N a panel of the columns
with one native thread and one of the others, a logarithmic x axis, bars from
the slowest to the fastest run. The y axes begin at 0, or are logarithmic when
the fastest mean is LOG times the slowest.

100000.000 seconds is how the article marks a run that failed. The table takes
it at its word, as the article does (0.00 or 0.01); the plot leaves it out.

Exit status: 0, also when gnuplot is missing; 1 nothing to read or a plot that
failed; 2 usage.
"""
import collections
import itertools
import math
import re
import shutil
import statistics
import subprocess
import sys
import textwrap

FAILED = 100000.0       # seconds: a run that failed, in the article's results
LOG = 100.0             # so many times between the means: a logarithmic y axis
WIDTH, HEIGHT = 800, 460        # pixels of a panel
HEADER = 60                     # and of what stands above them all
OURS = ('U', 'UL', 'UW', 'usched')      # families
WIDE = 100                      # columns that a table for a terminal may have


def main(args):
    if args and args[0] in ('-h', '--help'):
        print(__doc__.rstrip())
        return 0
    options = [a for a in args[:2] if a in ('--text', '--spread')]
    out, files = split(args[len(options):])
    bad = [a for a in files if a.startswith('-') or is_plot(a)]
    if bad:
        say(f'{bad[0]}: options come first, the plot next, then the files')
        say(__doc__.splitlines()[0])
        return 2
    try:
        runs, heat, origin = parse(lines(files))
    except OSError as err:
        say(f'{err.filename}: {err.strerror}')
        return 1
    if not any(runs.values()):
        say('no lines of results')
        return 1
    layout = plain if '--text' in options else markdown
    if layout is plain:
        print(fill(origin), end='\n\n' if origin else '')
    print('\n\n'.join(tables(runs, heat, '--spread' in options, layout)))
    if layout is plain:
        print(f'\n{fill(LEGEND)}')
    return draw(out, runs[''], origin) if out else 0


def say(text):
    sys.stdout.flush()
    print(f'graph.py: {text}', file=sys.stderr)


def is_plot(name):
    return name.lower().endswith(('.svg', '.png'))


def split(args):
    """The arguments as the name of the plot, or None, and the inputs."""
    return (args[0], args[1:]) if args and is_plot(args[0]) else (None, args)


# The kinds of lines, by their first cell; '' is the ring, which has none such.

def whole(cell, least=1):
    good = cell.isascii() and cell.isdigit() and len(cell) < 16
    if not good or int(cell) < least:
        raise ValueError(f'"{cell}" is not a whole number from {least} on')
    return int(cell)


def seconds(cell):
    try:
        value = float(cell)
    except ValueError:
        value = 0.0
    if not 1e-9 <= value < math.inf:
        raise ValueError(f'"{cell}" is not a time')
    return value


def digits(value, most=99):
    """Three that count, no exponent; after the point not more than most."""
    return f'{value:.{min(most, max(0, 2 - math.floor(math.log10(value))))}f}'


# keys are the cells before those of the columns, and read() makes the value of
# a cell; show() of these numbers and a value is what the tables have, the
# average() of the runs as text(), and their heading of what group() gives.
Kind = collections.namedtuple(
    'Kind', 'keys read show average text heading group',
    defaults=[lambda keys: keys[0]])


def rate(keys, time):
    return math.prod(keys[:3]) / time / 1e6


def in_turn(heading):
    """The kinds of rings that are one row each, whatever M is."""
    def show(group):
        n, r, d = group
        return f'{heading}{n} x {r}' + (f', D = {d}' if d else '')
    return show


WHERE = ('', 'the same site', 'different sites', 'different callers',
         'the same callers')

KINDS = {
    '': Kind(
        ['N', 'R', 'M'], seconds, rate, statistics.fmean, '{:.2f}'.format,
        None),
    'blocks': Kind(
        ['N', 'R', 'M'], lambda cell: whole(cell, 0),
        lambda keys, blocks: blocks / math.prod(keys),
        statistics.fmean, '{:.3f}'.format, 'blocks a message, N = {}'.format),
    'blocked': Kind(
        ['NR'], whole, lambda keys, memory: memory / keys[0],
        statistics.median, '{:.0f}'.format,
        'bytes a blocked thread, of {}'.format),
    'empty': Kind(
        ['NR'], seconds, lambda _, time: time * 1e3,
        statistics.median, digits, 'ms for {} empty threads'.format),
    'turns': Kind(
        ['N', 'R', 'M', 'D'], seconds, rate, statistics.median, digits,
        in_turn(''), lambda keys: (keys[0], keys[1], keys[3])),
    'steady': Kind(
        ['N', 'R', 'M', 'D'], seconds, lambda keys, time: 2 * rate(keys, time),
        statistics.median, digits, in_turn('steady '),
        lambda keys: (keys[0], keys[1], keys[3])),
    'wrap': Kind(
        ['WHERE', 'M'], seconds, lambda keys, time: 2 * keys[1] / time / 1e6,
        statistics.median, digits,
        lambda where: WHERE[where] if where < len(WHERE) else where),
}
FURTHER = (
    ('What the columns do (bytes, ms: lower is better)', 'mean (blocks) or median (the '
     'rest)', ('blocks', 'blocked', 'empty')),
    ('Rings of N x R threads in turn, millions of messages a second, higher is '
     'better', 'median', ('turns', 'steady')),
    ('Two threads that block at, or below calls from, millions of messages a '
     'second, higher is better', 'median', ('wrap',)),
)


# Reading.
#
# runs[kind][group][column][N*R] is a list of (keys, value), one for each run;
# the group is N, or NR, or whatever group() says. A column that has only empty
# cells is there, with empty lists. heat[column] is hot, cold or mixed.

HEAT = re.compile('^# *([^ ]+): (hot|cold|mixed),')
# What bench.sh says of where its lines come from: machine, day and commit.
ORIGIN = (re.compile('^# processor: (.*, )([0-9]+) available'),
          re.compile('^# bench[.]sh.*, ([0-9]+-[0-9]+-[0-9]+)T'),
          re.compile('^# (commit): ([^, ]*)'))


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
    runs, heat, columns = {kind: {} for kind in KINDS}, {}, {}
    origin = [{} for _ in ORIGIN]
    for place, text in source:
        text = text.strip()
        heat.update(HEAT.findall(text))
        for form, found in zip(ORIGIN, origin):
            found.update(dict.fromkeys(form.findall(text)))
        if not text or text.startswith('#'):
            continue
        try:
            add_line(runs, columns, [cell.strip() for cell in text.split(',')])
        except ValueError as err:
            say(f'{place}: {err}: {text[:60]}')
    return runs, heat, '; '.join(
        filter(None, map(said, ('{}processors: {}', '{}', '{} {}'), origin)))


def said(form, found):
    """The first and the last of what was found."""
    found = [form.format(*([text] if isinstance(text, str) else text))
             for text in found]
    return ' to '.join(dict.fromkeys(found[:1] + found[-1:]))


def add_line(runs, columns, cells):
    """columns[kind] is the header that holds."""
    kind = cells[0] if cells[0] in KINDS else ''
    cells, keys = cells[bool(kind):], KINDS[kind].keys
    if cells[:1] == keys[:1]:
        columns.pop(kind, None)         # a bad header leaves no header
        columns[kind] = header(keys, cells)
    elif kind in columns:
        add(runs[kind], KINDS[kind], columns[kind], cells)
    else:
        raise ValueError('no header before')


def header(keys, cells):
    columns = cells[len(keys):]
    if cells[:len(keys)] != keys or not all(columns):
        raise ValueError(f'not a header "{", ".join(keys)}, column..."')
    if len(set(columns)) != len(columns):
        raise ValueError('the same column twice')
    return columns


def add(runs, kind, columns, cells):
    """Adds one line to runs; a bad one changes nothing."""
    first = len(kind.keys)
    if len(cells) != first + len(columns):
        raise ValueError(f'{len(cells)} cells, the header has '
                         f'{first + len(columns)}')
    keys = [whole(cell, name != 'D')
            for cell, name in zip(cells, kind.keys)]
    values = [kind.read(cell) if cell else None for cell in cells[first:]]
    for column, value in zip(columns, values):
        sizes = runs.setdefault(kind.group(keys), {}).setdefault(column, {})
        sizes.setdefault(math.prod(keys[:2]), []).extend(
            [] if value is None else [(keys, value)])


# The tables.

SPREAD = 'median [least, most]'


def tables(runs, heat, spread, layout):
    for n, columns in sorted(runs[''].items()):
        yield ring(n, columns, heat, spread, layout)
    for caption, how, kinds in FURTHER:
        heads = [(kind, n) for kind in kinds for n in sorted(runs[kind])]
        if heads:
            yield further(f'{caption}, {SPREAD if spread else how}', heads,
                          runs, heat, spread, layout)


def ring(n, columns, heat, spread, layout):
    sizes = sorted({size for cells in columns.values() for size in cells})
    text = (lambda rate: digits(rate, 2)) if layout is plain else None
    rows = {name: [figure('', cells.get(size, []), spread, text)
                   for size in sizes] for name, cells in columns.items()}
    caption = (f'N = {n}, millions of messages a second by coroutines, higher '
               f'is better, {SPREAD if spread else "mean"} of '
               f'{count([columns])}')
    return layout(caption, sizes, rows, heat)


def further(caption, heads, runs, heat, spread, layout):
    """A column for each group of each kind."""
    names = dict.fromkeys(name for kind, n in heads for name in runs[kind][n])
    rows = {name: [figure(kind, flat(runs[kind][n].get(name, {})), spread)
                   for kind, n in heads] for name in names}
    of = count(runs[kind][n] for kind, n in heads)
    return layout(f'{caption} of {of}',
                  [KINDS[kind].heading(n) for kind, n in heads], rows, heat)


def flat(sizes):
    return [run for cell in sizes.values() for run in cell]


def figure(kind, cell, spread, text=None):
    """The text of a cell of a table."""
    kind = KINDS[kind]._replace(text=text or KINDS[kind].text)
    values = sorted(kind.show(*run) for run in cell)
    if not values:
        return ''
    if not spread:
        return kind.text(kind.average(values))
    text = kind.text(statistics.median(values))
    ends = f' [{kind.text(values[0])}, {kind.text(values[-1])}]'
    return text + ends if len(values) > 1 else text


def count(parts):
    """How many runs a table has."""
    nr = {len(cell) for columns in parts for sizes in columns.values()
          for cell in sizes.values() if cell}
    low, high = min(nr, default=0), max(nr, default=0)
    many = f'{low}' if low == high else f'{low} to {high}'
    return f'{many} run{"" if high == 1 else "s"}'


def markdown(caption, heads, rows, heat):
    text = [row('', heads), row('---', ['---:'] * len(heads))]
    for name, cells in rows.items():
        label = f'{name} ({heat[name]})' if name in heat else name
        text.append(row(label, cells))
    return f'{caption}:\n\n' + '\n'.join(text)


def row(name, cells):
    return '| ' + ' | '.join(str(cell) for cell in [name, *cells]) + ' |'


LEGEND = ("* is ours. 1T (and RUST) is one native thread, the others use all "
          'processors. hot: a thread that is woken runs next; cold: all take '
          'turns; mixed: neither.')


def plain(caption, heads, rows, heat):
    """For a terminal: ours first and marked, without programs that are missing.

    What is too wide goes on below.
    """
    names = sorted((name for name in rows if any(rows[name])),
                   key=lambda name: not ours(name))
    marks = aligned(['*' if ours(name) else ' ' for name in names])
    side = zip(marks, aligned(names), aligned([heat.get(n, '') for n in names]))
    side = [' '.join(cells) for cells in side]
    columns = [[*textwrap.wrap(short(head), 11), *(rows[n][i] for n in names)]
               for i, head in enumerate(heads)]
    tall = max(map(len, columns))
    side = aligned([''] * (tall - len(names)) + side)
    columns = [aligned([''] * (tall - len(c)) + c, str.rjust) for c in columns]
    blocks = [[''.join(cells).rstrip() for cells in zip(side, *block)]
              for block in fold(columns, width() - len(side[0]))]
    return '\n\n'.join('\n'.join(filter(None, block))
                       for block in [[fill(f'{caption}:')], *blocks])


def ours(name):
    return SUFFIXES.sub('', name.split()[0]) in OURS


def short(head):
    """A number of threads as 20k or 2M, if it is no less exact."""
    for unit, letter in ((10**6, 'M'), (1000, 'k')):
        if isinstance(head, int) and head and head % unit == 0:
            return f'{head // unit}{letter}'
    return str(head)


def aligned(texts, how=str.ljust):
    """Numbers, which go to the right, are two blanks apart."""
    wide = max(map(len, texts), default=0) + 2 * (how == str.rjust)
    return [how(text, wide) for text in texts]


def fold(columns, room):
    """Blocks of columns, each as wide as there is room, or one column."""
    block, used = [], 0
    for column in columns:
        if block and used + len(column[0]) > room:
            yield block
            block, used = [], 0
        block.append(column)
        used += len(column[0])
    yield block


def width():
    return min(WIDE, shutil.get_terminal_size((WIDE, 24)).columns)


def fill(text):
    return textwrap.fill(text, max(width(), 20))


# The plot.
#
# A panel can hold about ten lines that are told apart. Hence two for each N:
# the columns with one native thread, which show what a switch costs, and the
# others. panels[N, one][column] is a list of (x, mean, least, most).

# A family of columns has one colour. Its name is theirs without these.
SUFFIXES = re.compile('(?<=.)(H|B|MT|1K|10K|1TS|1T|FP|OLD)+$')
# Okabe and Ito's colours but yellow, which is not seen on white, and two greys;
# full points and empty ones; the width, more for ours. No two families have the
# same colour or point. Those that are not here have what is SPARE, in turn.
FAMILIES = {
    'U':        ('#d55e00', 7, 6, 3),
    'UL':       ('#0072b2', 5, 4, 3),
    'UW':       ('#882255', 14, 14, 3),
    'C++':      ('#009e73', 9, 8, 1.5),
    'STACK':    ('#000000', 13, 12, 1.5),
    'GO':       ('#56b4e9', 11, 10, 1.5),
    'RUST':     ('#cc79a7', 15, 15, 1.5),
    'BOOST':    ('#e69f00', 1, 1, 1.5),
    'UCTX':     ('#999999', 3, 3, 1.5),
    'POSIX':    ('#666666', 2, 2, 1.5),
}
SPARE = (('#999933', 12, 13, 1.5),
         ('#332288', 10, 11, 1.5), ('#bbbbbb', 8, 9, 1.5))
# Of the members of a family in a panel, and the sizes of their points.
DASHES = (('1', 1), ('(9,6)', 1), ('(3,5)', 0.5), ('(14,5,3,5)', 0.6))


def draw(out, runs, origin):
    panels = {(n, one): points(runs[n], one)
              for n in sorted(runs) for one in (True, False)}
    panels = {key: series for key, series in panels.items() if series}
    if not panels:
        say(f'{out}: not drawn, no data')
        return 1
    if not shutil.which('gnuplot'):
        say(f'{out}: not drawn, gnuplot is missing: install gnuplot-nox')
        return 0
    return gnuplot(out, script(out, panels, origin))


def one_thread(name):
    """RUST, too: the article's name."""
    return '1T' in name or name == 'RUST'


def points(columns, one):
    """Of each of these columns that has any, its (x, mean, least, most)."""
    series = {}
    for name, sizes in columns.items():
        rates = {size: [KINDS[''].show(*run) for run in cell
                        if run[1] < FAILED] for size, cell in sizes.items()}
        rows = [(size, statistics.fmean(rate), min(rate), max(rate))
                for size, rate in sorted(rates.items()) if rate]
        if rows and one_thread(name) == one:
            series[name] = rows
    return series


def script(out, panels, origin):
    names = dict.fromkeys(name for series in panels.values() for name in series)
    looks = styles(names)
    points = min(13, WIDTH * 1.25 / max(len(TITLE), len(origin)))
    text = [terminal(out, WIDTH, HEIGHT * len(panels) + HEADER),
            f'set multiplot layout {len(panels)},1 title {quoted(TITLE)}'
            f'."\\n".{quoted(origin)} font "sans,{points:.1f}"', AXES,
            f'set rmargin {max(map(len, names)) + 10}']
    for (n, one), series in panels.items():
        text += [f'set title "{title(n, one, panels)}"', *ranges(one, panels),
                 *panel(f'$n{n}_{one:d}', series, looks)]
    return '\n'.join([*text, 'unset multiplot', ''])


def terminal(out, wide, high):
    term = 'svg' if out.lower().endswith('.svg') else 'pngcairo'
    return (f'set terminal {term} noenhanced size {wide},{high} '
            'font "sans,12" background "#ffffff"')


def quoted(text):
    """As gnuplot wants it."""
    return "'" + text.replace("'", "''") + "'"


TITLE = 'Rings of N threads: millions of messages a second, higher is better'
# The margins are the same for all panels: their x axes are in line.
AXES = '''
set key outside right top reverse Left samplen 4 spacing 1.1 width 2
set lmargin 9
set logscale x 10
set format x "%.0s%c"
set grid xtics ytics linecolor rgb "#dddddd" linetype 1
set border 3
set tics nomirror
set xlabel "coroutines (N*R)"
set ylabel "millions of messages a second"
set errorbars small
set pointintervalbox 0.7
'''


def title(n, one, panels):
    kind = 'one native thread' if one else 'all processors'
    both = len({one for _, one in panels}) == 2
    return f'N = {n}, {kind}' if both else f'N = {n}'


def ranges(one, panels):
    """The same axes for all N: they will be compared."""
    rows = [row for series in panels.values() for row in flat(series)]
    sizes, means, _, _ = zip(*rows)
    _, _, lows, highs = zip(*(row for key, series in panels.items()
                              if key[1] == one for row in flat(series)))
    wide = 1.5 if max(sizes) >= 10 * min(sizes) else 4     # a tic or more
    text = [f'set xrange [{min(sizes) / wide}:{max(sizes) * wide}]']
    if max(means) / min(means) < LOG:
        return [*text, f'set yrange [0:{max(highs) * 1.05}]']
    wide = 1.2 if max(highs) >= 10 * min(lows) else 2
    low, high = min(lows) / wide, max(highs) * wide
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
    tics = ', '.join(f'{d}e{p}' for p in powers for d in (1, 2, 5))
    return [*text, 'set logscale y 10', 'set format y "%g"',
            f'set yrange [{low}:{high}]', f'set ytics ({tics})']


def styles(names):
    """Of each column, the style of its bars and that of its line."""
    families, spare = dict(FAMILIES), itertools.cycle(SPARE)
    members, looks = collections.Counter(), {}
    for name in names:
        family = SUFFIXES.sub('', name)
        if family not in families:
            families[family] = next(spare)
        place = family, one_thread(name)
        looks[name] = style(*families[family], members[place])
        members[place] += 1
    return looks


def style(colour, full, empty, width, nr):
    """Of the member nr: full points, and every other one empty."""
    dash, size = DASHES[nr % len(DASHES)]
    point = f'{empty} pointinterval -1' if nr % 2 else full
    return (f'linecolor rgb "{colour}" pointtype 0',
            f'linecolor rgb "{colour}" linewidth {width} dashtype {dash} '
            f'pointsize {size} pointtype {point}')


def panel(prefix, series, looks):
    """Its legend has the order in which the lines end, beside it."""
    text, plots = [], []
    ends = sorted(series, key=lambda name: series[name][-1][1], reverse=True)
    for i, name in enumerate(ends):
        data = '\n'.join(' '.join(f'{x:.9g}' for x in row)
                         for row in series[name])
        text.append(f'{prefix}_{i} << EOD\n{data}\nEOD')
        bars, line = looks[name]
        plots += [f'{prefix}_{i} with yerrorbars {bars} notitle',
                  f'{prefix}_{i} with linespoints {line} '
                  f'title {quoted(name)}']
    return [*text, 'plot ' + ', \\\n\t'.join(plots)]


def gnuplot(out, text):
    """The script's plot, with fonts that other programs know."""
    done = subprocess.run(['gnuplot'], input=text.encode(), check=False,
                          capture_output=True)
    if done.returncode or not done.stdout:
        say(f'{out}: not drawn, gnuplot: {done.stderr.decode().strip()}')
        return 1
    try:
        with open(out, 'wb') as file:
            file.write(done.stdout.replace(
                b'"sans:Bold"', b'"sans-serif" font-weight="bold"').replace(
                    b'"sans"', b'"sans-serif"'))
    except OSError as err:
        say(f'{out}: {err.strerror}')
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
