#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py: measures servers (io.h), ours and the peers, in turn.

usage: run.sh [--quick] [--rounds K] [--limit S] [--only WORD] [--by COLUMN,...]
	[--to FOLDER] [--from FILE]

In each round each server answers each question of the client (client.c), with
a new process. A server with P = 1 has the first cpu, with P = 2 the first two;
the client has the second.

--quick	do the servers work? Few connections and messages, one round, half
	a minute
--rounds	5
--limit	seconds (1200) after which no round begins that would take longer
--only	questions that begin so
--by	columns: floor, rr, ws, go, tokio, ll
--to	where to put io.txt and the tables: in bench/results/, a folder
	named after the date, the machine and the commit
--from	only the tables, of this io.txt

The table has medians, and the median of the ratios to the floor in each round.
io-spread.md has the least and the most, too. The targets that are missed stand
below.
"""

import ctypes
import importlib.util
import os
import resource
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENT = os.path.join(HERE, "client", "client")
SKIPPED = 77
PATIENCE = 70                           # seconds: more than the client's
READY = 10
PR_SET_PDEATHSIG = 1


def load_waits():
    path = os.path.join(HERE, "..", "waits", "run.py")
    spec = importlib.util.spec_from_file_location("waits_run", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WAITS = load_waits()                    # tables and files are alike
say, short, ratio = WAITS.say, WAITS.short, WAITS.ratio
LIBC = ctypes.CDLL(None)

# Program, and the package that brings it.
COLUMNS = {
    "floor": ("floor/server", "gcc"),
    "rr": ("ours/server-rr", "gcc"),
    "ws": ("ours/server-ws", "gcc"),
    "go": ("go/server", "golang-go"),
    "tokio": ("tokio/server", "cargo"),
    "ll": ("ours/server-ll", "gcc"),
}
USUAL = ("floor", "rr", "ws", "go", "tokio")
OURS = ("rr", "ws", "ll")

ONE, BOTH = (1,), (1, 2)
KINDS = ("tcp", "unix")
AT_ONCE = 64                            # connections, of once
RATE, BETWEEN = 10000, 100              # a second, and connections, of latency
COMPUTE = 4                             # threads beside them

TARGET_FLOOR, TARGET_GO, TARGET_BYTES = 1.15, 1, 400


class Question:
    """NAME-KIND:M, with P; what the server and the client are asked."""

    def __init__(self, group, name, kind, m, p):
        self.group, self.p, self.kind = group, p, kind
        self.text = f"{name}-{kind}:{m}"
        self.name, self.m = name, m

    def server(self):
        mode = "once" if self.name == "once" else "echo"
        k = self.m if self.name == "latency" else 0
        return mode, k

    def client(self, quick):
        """What, connections, and the rest."""
        if self.name == "latency":
            what = "open" if self.p == 1 else "open-sleep"
            seconds = 0.3 if quick else 2
            return what, BETWEEN, int(RATE * seconds), RATE
        if self.name == "idle":
            return "idle", self.m, 0
        if self.name == "once":
            return "once", self.m, 2000 if quick else 20000
        return "closed", self.m, 10000 if quick else 100000

    def realtime(self):
        """The client shares a cpu, and must not be late itself."""
        return self.name == "latency" and self.p > 1


def questions(quick):
    for kind in KINDS:
        for m in (100, 1000) if quick else (100, 1000, 8000):
            for p in BOTH:
                yield Question("echo", "echo", kind, m, p)
    for kind in KINDS:
        for p in BOTH:
            yield Question("request", "once", kind, AT_ONCE, p)
    for k in (0, COMPUTE):
        for p in BOTH:
            yield Question("latency", "latency", "tcp", k, p)
    for kind in KINDS:
        yield Question("idle", "idle", kind, 1000 if quick else 16000, 1)


def prepare(cpus, realtime=False, end=signal.SIGKILL):
    """A process ends with run.py, whatever happens to that."""
    def before():
        LIBC.prctl(PR_SET_PDEATHSIG, end)
        os.sched_setaffinity(0, cpus)
        if realtime:
            try:
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
            except PermissionError:
                pass
    return before


def cpus_of(p):
    cpus = sorted(os.sched_getaffinity(0))
    return cpus[:p], cpus[1:2] or cpus


class Process:
    """A server that runs; with Process(...) as s: ended in any case."""

    def __init__(self, command, cpus, end=signal.SIGKILL):
        self.end = end
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=self.errors, preexec_fn=prepare(cpus, end=end))

    def first_line(self):
        """Returns the words of its first line; none, if it is late."""
        out = self.process.stdout
        line = b""
        if select.select([out], [], [], READY)[0]:
            line = out.readline()
        return line.decode().split()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(self.end)
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()

    def why(self):
        """What it has said, or how it ended."""
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace").splitlines()
        return (said or [f"exit {self.process.poll()}"])[0]


class Server(Process):
    """with Server(...) as s: s.where, s.pid."""

    def __init__(self, column, question, folder):
        mode, k = question.server()
        at = "tcp"
        if question.kind == "unix":
            at = "unix:" + os.path.join(folder, f"{column}.sock")
            if os.path.exists(at[5:]):
                os.unlink(at[5:])
        super().__init__([os.path.join(HERE, COLUMNS[column][0]), mode, at,
                          str(question.p), str(k)], cpus_of(question.p)[0])

    def __enter__(self):
        words = self.first_line()
        self.where, self.pid = words[1:3] if len(words) == 3 else (None, None)
        return self


class Cell:
    """A column answers a question."""

    SERVER, CLIENT = Server, CLIENT

    def __init__(self, question, column):
        self.question, self.column = question, column

    def name(self):
        return f"{self.column}: {self.question.text} {self.question.p}"

    def ask(self, server, quick):
        what, *rest = self.question.client(quick)
        return self.client(self.CLIENT, what, server.where, server.pid, *rest)

    def client(self, *command):
        """Runs a client. Returns its pairs; None: why has been said."""
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True,
            check=False, timeout=PATIENCE,
            preexec_fn=prepare(cpus_of(self.question.p)[1],
                               self.question.realtime()))
        if done.returncode == 0:
            words = done.stdout.split()[1:]
            return dict(zip(words[::2], map(float, words[1::2])))
        said = (done.stderr + done.stdout).strip() or "no answer"
        say(f"{self.name()}: " + ("skipped: " if done.returncode == SKIPPED
                                  else "failed: ") + said)
        return None

    def measure(self, turn, options, to):
        with tempfile.TemporaryDirectory() as folder, \
             self.SERVER(self.column, self.question, folder) as server:
            if server.where is None:
                say(f"{self.name()}: no server: {server.why()}")
                return False
            try:
                got = self.ask(server, options.quick)
            except subprocess.TimeoutExpired:
                say(f"{self.name()}: more than {PATIENCE} s")
                got = None
            if got is None and server.process.poll() is not None:
                say(f"{self.name()}: the server ended: {server.why()}")
        if got is None:
            return False
        if got.get("messages"):
            got["per_s"] = got["messages"] / got["seconds"]
        for what in self.wanted():
            if what in got:
                print(self.question.group, f"{self.question.text}.{what}",
                      self.question.p, self.column, turn, got[what], file=to,
                      flush=True)
        return True

    def wanted(self):
        return {"latency": ("p50_us", "p99_us", "max_us", "late_99_us",
                            "cpu_us"),
                "idle": ("bytes", "kernel_bytes")}.get(
                    self.question.name, ("cpu_us", "per_s"))


def cells(options, asked, cell):
    return [cell(q, c) for q in asked if q.text.startswith(options.only)
            for c in options.columns]


def measure(options, todo, to):
    began = time.monotonic()
    say(f"{len(todo)} cells")
    last = 0
    for turn in range(options.rounds):
        start = time.monotonic()
        if start + last - began > options.limit:
            say(f"no time for round {turn + 1} of {options.rounds}")
            break
        todo = [c for c in todo if c.measure(turn, options, to)]
        last = time.monotonic() - start
        say(f"round {turn + 1} of {options.rounds}: {last:.0f} s")


class Tables:
    """For columns, with ratios to base; aims() tells the targets of ours."""

    def __init__(self, columns, base, ours, aims):
        self.columns, self.base = columns, base
        self.ours, self.aims = ours, aims

    def medians(self, table, to):
        for group, rows in table.items():
            columns = [c for c in self.columns
                       if any(c in r for r in rows.values())]
            print(f"\n### {group.capitalize()}\n\n| question | P | " +
                  " | ".join(columns) + " |", file=to)
            print("|---|--:|" + "--:|" * len(columns), file=to)
            for (question, p), row in rows.items():
                print(f"| {question} | {p} | " + " | ".join(
                    self.cell(row, c) for c in columns) + " |", file=to)
        print("\n### Targets\n", file=to)
        print("\n".join(self.targets(table)), file=to)

    def cell(self, row, column):
        if column not in row:
            return ""
        text = short(statistics.median(row[column].values()))
        if column == self.base or self.base not in row:
            return text
        return f"{text} ({ratio(row[column], row[self.base])})"

    def spread(self, table, to):
        print("| question | P | by | least | median | most "
              f"| / {self.base} |",
              "|---|--:|---|--:|--:|--:|--:|", sep="\n", file=to)
        for rows in table.values():
            for (question, p), row in rows.items():
                for column in filter(row.get, self.columns):
                    mine = row[column].values()
                    print("|", " | ".join([
                        question, p, column, short(min(mine)),
                        short(statistics.median(mine)), short(max(mine)),
                        ratio(row[column], row.get(self.base, {}))]), "|",
                        file=to)

    def targets(self, table):
        """Lines: what ours missed, and how many targets were looked at."""
        looked, missed = 0, []
        for group, rows in table.items():
            for (question, p), row in rows.items():
                for column in filter(row.get, self.ours):
                    for what, value, most in self.aims(group, question, row,
                                                       column):
                        looked += 1
                        if value > most:
                            missed.append(
                                f"- {column} {question} {p}: {what} "
                                f"{short(value)}, wanted {most}")
        return missed + [f"- {len(missed)} of {looked} missed"]


def aims(group, question, row, column):
    mine = row[column]
    if question.endswith(".bytes"):
        yield "bytes", statistics.median(mine.values()), TARGET_BYTES
    if group not in ("echo", "request") or not question.endswith(".cpu_us"):
        return
    for other, most in (("floor", TARGET_FLOOR), ("go", TARGET_GO)):
        text = ratio(mine, row.get(other, {}))
        if text:
            yield f"cpu / {other}", float(text), most


def raise_files():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def begin(options, name, client, todo):
    """Measures into a new folder, and returns the file."""
    if not os.access(client, os.X_OK):
        sys.exit("run.py: client/client is missing (package gcc)")
    raise_files()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("run.py: terminated"))
    os.makedirs(options.to, exist_ok=True)
    path = os.path.join(options.to, f"{name}.txt")
    with open(path, "w", encoding="utf-8") as raw:
        WAITS.about(raw)
        measure(options, todo, raw)
    return path


def main():
    options = WAITS.arguments(__doc__, 1200, USUAL)
    path = options.source
    if not path:
        options.to = WAITS.folder(options)
        options.columns = [c for c in options.by.split(",")
                           if WAITS.built(c, COLUMNS, HERE)]
        todo = cells(options, questions(options.quick), Cell)
        path = begin(options, "io", CLIENT, todo)
    tables = Tables(COLUMNS, "floor", OURS, aims)
    WAITS.write_tables(options.to if not options.source else None, "io",
                       WAITS.recall(path), tables.medians, tables.spread)


if __name__ == "__main__":
    main()
