#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""uview-perf: which threads use the cpu, and where: joins perf with a recording.

    USCHED_VIEW=20 ./program &
    perf record -g -F 999 -k CLOCK_MONOTONIC -p $! -- sleep 2
    uview --json $! run.json
    perf script --ns -F tid,time,ip,sym | uview-perf run.json >cpu.folded

perf knows native threads only: all threads of a processor are one to it. The
recording says which thread a native thread ran at the time of a sample. Writes
folded stacks, as flame graphs are made of: the function of the thread, what that
calls, and how many samples were there. Samples outside of threads are in
[dispatcher], in [native thread] if that runs no dispatcher, or in [not recorded]
if they are older or newer than what the recording holds.
"""

import bisect
import collections
import json
import re
import sys


class Runs:
    """Runs of threads by native thread, in ns since the zero of the recording."""
    def __init__(self, recording):
        self.zero = recording["otherData"]["zero, ns of CLOCK_MONOTONIC"]
        tracks = {}             # of processors: number of the native thread
        runs = collections.defaultdict(list)
        for e in recording["traceEvents"]:
            if e["ph"] == "M" and e["name"] == "thread_name":
                native = re.match(r"\d+: native thread (\d+)", e["args"]["name"])
                if native and e["pid"] == 1:
                    tracks[e["tid"]] = int(native.group(1))
            elif e["ph"] == "X" and e["pid"] == 1 and e["cat"] == "run":
                runs[e["tid"]].append((e["ts"] * 1e3, (e["ts"] + e["dur"]) * 1e3,
                                       e["name"]))
        self.runs = {tracks[tid]: sorted(runs[tid]) for tid in tracks}

    def at(self, native, ns):
        """Returns the function of the thread that ran there, or why there is none."""
        runs = self.runs.get(native)
        if runs is None:
            return "[native thread]"
        if not runs or not runs[0][0] <= ns <= runs[-1][1]:
            return "[not recorded]"
        i = bisect.bisect(runs, (ns, float("inf"), ""))
        for begin, end, function in reversed(runs[max(0, i - 8):i]):
            if begin <= ns < end:       # the innermost, if runs nest
                return function
        return "[dispatcher]"


def samples(lines):
    """Yields (native thread, ns, frames), the outermost frame first."""
    head, frames = None, []
    for line in lines:
        found = re.match(r"\s*(\d+)\s+(\d+)\.(\d{9}):", line)
        if found:
            if head:
                yield (*head, frames[::-1])
            tid, seconds, ns = map(int, found.groups())
            head, frames = (tid, seconds * 10 ** 9 + ns), []
        elif line.strip():
            frames.append(line.split(None, 1)[1].strip().replace(";", ":"))
    if head:
        yield (*head, frames[::-1])


def main():
    """See above."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        runs = Runs(json.load(file))
    counts = collections.Counter()
    for native, ns, frames in samples(sys.stdin):
        function = runs.at(native, ns - runs.zero)
        if function in frames:          # what lies below is the library's
            frames = frames[frames.index(function) + 1:]
        counts[";".join([function, *frames])] += 1
    for stack, nr in sorted(counts.items()):
        print(stack, nr)


if __name__ == "__main__":
    main()
