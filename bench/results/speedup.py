#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""speedup.py: two native threads compared with one, in pairs.

usage: speedup.py [--against DIR] PAIRS PROBLEM...

A PROBLEM is a question of fork.h or wfine.c without P: "uts T1 8", "powser 800".
Each pair is a run with P = 1 and one with P = 2 directly after it, of all
programs in turn. The coroutines by hand, if there is such a program, show what
the machine allowed at that time. On a machine with other users the least times
are the steadiest.

The gain is the time with P = 1 over that with P = 2. The last two columns are
the reverse, P = 2 over P = 1, of the time that passed and of that of the
processors. All three are medians of the ratios in each pair. The threads of
wfine are so short that a second worker cannot help, so its cost counts there: at
most 1.05 and 1.3 are wanted. --against: also ours on the library of another
tree, as make against builds it, called "before".
"""

import os
import statistics
import subprocess
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FINE = ("tree", "powser")               # of wfine.c; the rest is of fork.h


def run(program, problem, processors):
    """Milliseconds, and those of the processors, of the whole process."""
    asked = [os.path.join(TOP, program), *problem.split(), str(processors)]
    child = subprocess.Popen(asked, stdout=subprocess.PIPE, text=True)
    out = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{' '.join(asked)}: exit {child.returncode}")
    return float(out) * 1000, (usage.ru_utime + usage.ru_stime) * 1000


def spread(times):
    return "%.1f [%.1f, %.1f]" % (statistics.median(times), min(times),
                                  max(times))


def programs(problem, against):
    """By name; wfine has no peers."""
    if problem.split()[0] in FINE:
        ours = "wfine"
        found = {"ws": ours}
    else:
        ours = "wfork"
        found = {"ws": ours, "coroutines": "bench/peers/coro/fork"}
    if against:
        found["before"] = os.path.abspath(f"{against}/{ours}")
    return found


def line(problem, name, pairs):
    one, two = ([took[0] for took in column] for column in zip(*pairs))
    gain = [a / b for a, b in zip(one, two)]
    cpu = [b[1] / a[1] for a, b in pairs if a[1]]
    return "| %s | %s | %s | %s | %.2f | %.2f, %.2f | %.2f | %.2f | %.2f |" % (
        problem, name, spread(one), spread(two), statistics.median(gain),
        min(gain), max(gain), min(one) / min(two),
        statistics.median(1 / g for g in gain), statistics.median(cpu))


def main(argv):
    against = None
    if argv[1:2] == ["--against"] and len(argv) > 2:
        against = argv[2]
        argv = argv[2:]
    if len(argv) < 3:
        sys.exit(__doc__)
    print("| problem | program | P = 1, ms | P = 2, ms | gain, median of pairs"
          " | least, most | of the least times | time, 2 / 1"
          " | processors, 2 / 1 |\n"
          "|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for problem in argv[2:]:
        asked = programs(problem, against)
        pairs = {name: [] for name in asked}
        for _ in range(int(argv[1])):
            for name, program in asked.items():
                pairs[name].append([run(program, problem, p) for p in (1, 2)])
        for name, took in pairs.items():
            print(line(problem, name, took), flush=True)


if __name__ == "__main__":
    main(sys.argv)
