#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""speedup.py: how much faster two native threads are than one, in pairs.

usage: speedup.py [--against DIR] PAIRS PROBLEM...

A PROBLEM is what fork.h asks, without P: "uts T1 8". Each pair is a run with
P = 1 and one with P = 2 directly after it, ours and the coroutines by hand in
turn: what these gain is what the machine gives away at that time. On a machine
with other lodgers the least times are the steadiest. The last column is the time
of the processors, P = 2 to P = 1, the median of the pairs. --against: also ours
on the library of another tree, as make against builds it, called "before".
"""

import os
import statistics
import subprocess
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROGRAMS = [("ws", "wfork"), ("coroutines", "bench/peers/coro/fork")]


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


def main(argv):
    programs = list(PROGRAMS)
    if argv[1:2] == ["--against"] and len(argv) > 2:
        programs.append(("before", os.path.abspath(argv[2] + "/wfork")))
        argv = argv[2:]
    if len(argv) < 3:
        sys.exit(__doc__)
    print("| problem | program | P = 1, ms | P = 2, ms | gain, median of pairs"
          " | least, most | of the least times | processors |\n"
          "|---|---|--:|--:|--:|--:|--:|--:|")
    for problem in argv[2:]:
        pairs = {name: [] for name, _ in programs}
        for _ in range(int(argv[1])):
            for name, program in programs:
                pairs[name].append([run(program, problem, p) for p in (1, 2)])
        for name, _ in programs:
            one, two = ([took[0] for took in column]
                        for column in zip(*pairs[name]))
            gain = [a / b for a, b in zip(one, two)]
            cpu = [b[1] / a[1] for a, b in pairs[name] if a[1]]
            print("| %s | %s | %s | %s | %.2f | %.2f, %.2f | %.2f | %.2f |" %
                  (problem, name, spread(one), spread(two),
                   statistics.median(gain), min(gain), max(gain),
                   min(one) / min(two), statistics.median(cpu)), flush=True)


if __name__ == "__main__":
    main(sys.argv)
