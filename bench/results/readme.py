#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""readme.py: the tables of README.md, from what `make bench` measured.

usage: readme.py [--write README.md] RING [IO]

RING has lines of bench.sh, and IO those of bench/run.py io. Prints a table of
rings of two, and one of servers: medians and, of several runs, [least, most].
A ? follows a median whose runs differ by more than a quarter of it. Below stand
the rows that are not to be trusted, and why the machine was not quiet. --write
puts the tables into the file, in place of those that it has.

Exit status: 0; 1 nothing to read.
"""

import os
import re
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", ".."), os.path.join(HERE, "..")]
import graph                                    # noqa: E402
import run                                      # noqa: E402

SIZES = [4, 20000, 200000]
BLOCKED = 100000                        # threads, for the bytes
BY_HAND = "by hand"
# Each row is one column of bench.sh, all on one processor but POSIX threads.
GROUPS = {
    "hot: a thread that is woken runs next": {
        "usched, ll (local)": "UL1T",
        "usched, ws (stealing)": "UW1T",
        f"C++20 coroutines, {BY_HAND}": "C++H1T",
        f"private stacks, {BY_HAND}": "STACKH1T"},
    "cold: all threads take turns": {
        "usched, rr (fair)": "U1T",
        f"C++20 coroutines, {BY_HAND}": "C++1T",
        f"private stacks, {BY_HAND}": "STACK1T",
        "private stacks, Boost.Fiber": "BOOST1T",
        "tokio": "RUST"},
    "mixed: their systems choose": {
        "Go": "GO1T",
        "POSIX threads, on all processors": "POSIX"},
}
SERVERS = {"usched, rr": "rr", "usched, ws": "ws",
           "a bare epoll loop": "floor", "tokio": "tokio", "Go": "go",
           "libuv": "libuv", "Boost.Asio": "asio"}
ASKED = {"echo, TCP, us": "echo-tcp:100.cpu_us",
         "echo, unix socket, us": "echo-unix:100.cpu_us",
         "lines, TCP, us": "line-tcp:100.cpu_us",
         "idle, bytes": "idle-tcp:16000.bytes"}
NONE = "no figure"
DOUBT = 0.25                            # (most - least) / median


def main(argv):
    if argv[1:2] in (["-h"], ["--help"]):
        print(__doc__.rstrip())
        return 0
    target = argv[2:3] if argv[1:2] == ["--write"] else []
    argv = argv[2 * len(target):]
    if not 2 <= len(argv) <= 3:
        print("usage: readme.py [--write README.md] RING [IO]", file=sys.stderr)
        return 2
    try:
        lines = [*graph.lines(argv[1:2])]
        servers = run.recall(argv[2]) if argv[2:] else {}
    except OSError as err:
        print(f"readme.py: {err.filename}: {err.strerror}", file=sys.stderr)
        return 1
    runs, _, origin = graph.parse(lines)
    if 2 not in runs[""]:
        print("readme.py: no rings of two", file=sys.stderr)
        return 1
    doubts = []
    tables = ["\n".join(rings(rows(runs), doubts))]
    if servers:
        tables.append("\n".join(table_of_servers(servers, doubts)))
    for path in target:
        replace(path, tables)
    print("\n\n".join([*tables, origin]))
    for doubt in [*doubts, *noise(text for _, text in lines)]:
        print(f"not to be trusted: {doubt}")
    return 0


def replace(path, tables):
    """Each table takes the place of that with the same first line."""
    with open(path, encoding="utf-8") as source:
        text = source.read()
    for table in tables:
        head = re.escape(table.split("\n")[0])
        text = re.sub(f"^{head}\n(\\|.*\n)*", lambda _, to=table: f"{to}\n", text,
                      flags=re.M)
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)


def rows(runs):
    """By group and title: the values of each size, and then the bytes."""
    rates, blocked = runs[""][2], runs["blocked"].get(BLOCKED, {})
    return {group: {title: [
        [graph.rate(*one) for one in rates.get(name, {}).get(size, [])]
        for size in SIZES] + [
            [memory / keys[0] for keys, memory in
             graph.flat(blocked.get(name, {}))]]
                    for title, name in members.items()}
            for group, members in GROUPS.items()}


def rings(groups, doubts):
    heads = [*(f"{size:,}" for size in SIZES), "bytes"]
    yield graph.row("threads in all", heads)
    yield "|---|" + "---:|" * len(heads)
    for group, members in groups.items():
        yield graph.row(f"*{group}*", [""] * len(heads))
        for title, cells in members.items():
            heat = group.split(":")[0]
            yield row(title, cells, [f"{title}, {heat}, {head}"
                                     for head in heads], doubts)


def table_of_servers(table, doubts):
    yield graph.row("", SERVERS)
    yield "|---|" + "---:|" * len(SERVERS)
    asked = {key: cells for group in table.values()
             for key, cells in group.items()}
    for title, question in ASKED.items():
        by = asked.get((question, "1"), {})
        yield graph.row(title, [
            cell([*by.get(column, {}).values()], name, f"{title}, {name}",
                 doubts) for name, column in SERVERS.items()])


def row(title, cells, names, doubts):
    texts = [cell(values, title, name, doubts)
             for values, name in zip(cells, names)]
    return graph.row(f"**► {title}**" if ours(title) else title, texts)


def ours(title):
    return title.startswith("usched")


def cell(values, title, name, doubts):
    """Median, least and most; a cell of doubt is named in doubts."""
    if not values:
        return NONE
    middle, least, most = statistics.median(values), min(values), max(values)
    text = brief(middle)
    if ours(title):
        text = f"**{text}**"
    if len(values) == 1:
        return text
    if most - least > DOUBT * middle:
        text += "?"
        doubts.append(f"{name}: {brief(least)} to {brief(most)}")
    return f"{text} [{brief(least)}, {brief(most)}]"


def brief(value):
    return graph.digits(value) if value else "0"


def noise(lines):
    """What else ran: told by the kernel, or by the load at the begin."""
    text = "".join(lines)
    others = re.findall(r"^# others: ([0-9.]+) of ([0-9]+) .*$", text, re.M)
    for used, processors in others:
        if float(used) > 0.05 * int(processors):
            yield f"other programs used {used} of {processors} processors"
    if not others:
        for load in re.findall(r"^# memory: .*, load ([0-9.]+)$", text, re.M):
            if float(load) > 0.5:
                yield f"the load was {load} when a run began"


if __name__ == "__main__":
    sys.exit(main(sys.argv))
