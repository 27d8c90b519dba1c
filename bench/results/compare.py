#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compare.py: the same ring by several programs, in turn, and their ratios.

usage: compare.py RUNS N R M D P PROGRAM[@P]...

For each program: the median, the least and the most of the millions of messages
a second, the median of the ratios to the first program of the same turn, and
the peak of resident bytes over N * R.
"""

import os
import statistics
import subprocess
import sys


def run(program, ring):
    """Seconds and peak resident bytes of one run, or None."""
    name, _, processors = program.partition("@")
    ring = ring[:4] + [processors or ring[4]]
    child = subprocess.Popen([name, *map(str, ring)],
                             stdout=subprocess.PIPE, text=True)
    out = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = status
    return (float(out), usage.ru_maxrss * 1024) if status == 0 else None


def main(argv):
    if len(argv) < 8:
        sys.exit(__doc__)
    runs, *ring = map(int, argv[1:7])
    programs = argv[7:]
    messages = ring[0] * ring[1] * ring[2]
    rates = {p: [] for p in programs}
    bytes_each = {}
    for _ in range(runs):
        for program in programs:
            done = run(program, ring)
            if done is None:
                sys.exit(f"{program} failed")
            rates[program].append(messages / done[0] / 1e6)
            bytes_each[program] = done[1] / (ring[0] * ring[1])
    print("N R M D P =", *ring, f"({runs} runs each, in turn)")
    print("   median    least     most   ratio  bytes/thread  program")
    for program in programs:
        r = rates[program]
        ratio = statistics.median(
            a / b for a, b in zip(r, rates[programs[0]]))
        print(f"{statistics.median(r):9.1f}{min(r):9.1f}{max(r):9.1f}"
              f"{ratio:8.2f}{bytes_each[program]:14.0f}  {program}")


if __name__ == "__main__":
    main(sys.argv)
