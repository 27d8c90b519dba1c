# SPDX-License-Identifier: MIT
"""questions.py: servers (io.h), ours and the peers, for run.py.

Each server answers each question of the client (client.c), with a new process.
A server with P = 1 has the first cpu, with P = 2 the first two; the client has
the second.
"""

import ctypes
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile

import run

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENT = os.path.join(HERE, "client", "client")
LIMIT = 1200
PATIENCE = 70                           # seconds: more than the client's
READY = 10
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)

BUILD = {"client": "gcc", "floor": "gcc", "ours": "gcc", "go": "golang-go",
         "tokio": "cargo", "libuv": "libuv1-dev", "asio": "libboost-dev"}
COLUMNS = {
    "floor": ("floor/server", "gcc"),
    "rr": ("ours/server-rr", "gcc"),
    "ws": ("ours/server-ws", "gcc"),
    "rr-trust": ("ours/trust-rr", "gcc"),
    "go": ("go/server", "golang-go"),
    "tokio": ("tokio/server", "cargo"),
    "libuv": ("libuv/server", "libuv1-dev"),
    "asio": ("asio/server", "libboost-dev"),
    "ll": ("ours/server-ll", "gcc"),
}
USUAL = ("floor", "rr", "ws", "rr-trust", "go", "tokio", "libuv", "asio")
BASE = ("floor",)
OURS = ("rr", "ws", "ll")

ONE, BOTH = (1,), (1, 2)
KINDS = ("tcp", "unix")
AT_ONCE = 64                            # connections, of once
RATE, BETWEEN = 10000, 100              # a second, and connections, of latency
COMPUTE = 4                             # threads beside them

TARGET_FLOOR = {"echo-tcp:100.": 1.15, "echo-unix:100.": 1.15, "echo": 1.25,
                "once": 1.2}            # the first that fits
TARGET_TOKIO = {"rr": {"1": 1.03, "2": 1.03}, "ws": {"1": 1.08, "2": 1.15}}     # by P
TARGET_LATENCY = {f"latency-tcp:{COMPUTE}.p50_us": 300,
                  f"latency-tcp:{COMPUTE}.p99_us": 1000}
TARGET_LINE = 1.1                       # to the floor, of the same for echo
TARGET_GO = 1
TARGET_BYTES = 1100                     # the slice of README's echo, and 300


class Question:
    """NAME-KIND:M, with P; what the server and the client are asked."""

    def __init__(self, group, name, kind, m, p):
        self.group, self.p, self.kind = group, p, kind
        self.text = f"{name}-{kind}:{m}"
        self.name, self.m = name, m

    def server(self):
        mode = self.name if self.name in ("once", "line") else "echo"
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
        what = "line" if self.name == "line" else "closed"
        return what, self.m, 10000 if quick else 100000

    def realtime(self):
        """The client shares a cpu, and must not be late itself."""
        return self.name == "latency" and self.p > 1


def questions(quick):
    for kind in KINDS:
        for m in (100, 1000) if quick else (100, 1000, 8000):
            for p in BOTH:
                yield Question("echo", "echo", kind, m, p)
    for kind in KINDS:
        for m in (100, 1000):
            for p in BOTH:
                yield Question("line", "line", kind, m, p)
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
    return run.cpus(0, p), run.cpus(1, 2)


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


class Cell(run.Cell):
    """A server, with the class of servers and the client of a benchmark."""

    SERVER, CLIENT = Server, CLIENT

    def __init__(self, question, column):
        super().__init__(question.group, question.text, question.p, column)
        self.asked = question
        if question.name == "idle":
            self.last = 0               # memory hardly differs by round

    def ask(self, server, quick):
        what, *rest = self.asked.client(quick)
        return self.client(self.CLIENT, what, server.where, server.pid, *rest)

    def client(self, *command):
        """Runs a client. Returns its pairs; None: why has been said."""
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True,
            check=False, timeout=PATIENCE,
            preexec_fn=prepare(cpus_of(self.p)[1], self.asked.realtime()))
        if done.returncode == 0:
            words = done.stdout.split()[1:]
            return dict(zip(words[::2], map(float, words[1::2])))
        said = (done.stderr + done.stdout).strip() or "no answer"
        run.say(f"{self.name()}: " + (
            "skipped: " if done.returncode == run.NO_COUNTERPART
            else "failed: ") + said)
        return None

    def answer(self, options):
        with tempfile.TemporaryDirectory() as folder, \
             self.SERVER(self.column, self.asked, folder) as server:
            if server.where is None:
                run.say(f"{self.name()}: no server: {server.why()}")
                return None
            try:
                got = self.ask(server, options.quick)
            except subprocess.TimeoutExpired:
                run.say(f"{self.name()}: more than {PATIENCE} s")
                got = None
            if got is None and server.process.poll() is not None:
                run.say(f"{self.name()}: the server ended: {server.why()}")
        if got and got.get("messages"):
            got["per_s"] = got["messages"] / got["seconds"]
        return got and {f".{what}": value for what, value in got.items()}

    def suffixes(self):
        return {"latency": (".p50_us", ".p99_us", ".max_us", ".late_99_us",
                            ".cpu_us"),
                "idle": (".bytes", ".kernel_bytes")}.get(
                    self.asked.name, (".cpu_us", ".per_s"))


def cells(options, asked=questions, cell=Cell):
    return [cell(q, c) for q in asked(options.quick) for c in options.columns]


def aims(rows, question, p, column):
    row = rows[question, p]
    if column in OURS and question.endswith(".bytes"):
        yield "bytes", run.median(row[column]), TARGET_BYTES
    if column in OURS and question in TARGET_LATENCY:
        yield "us", run.median(row[column]), TARGET_LATENCY[question]
    if column in OURS and question.endswith(".cpu_us"):
        most = [TARGET_FLOOR[n] for n in TARGET_FLOOR if question.startswith(n)]
        if most:
            yield from run.against(row, column, "floor", most[0])
            yield from run.against(row, column, "go", TARGET_GO)
        if question.startswith("echo") and column in TARGET_TOKIO:
            yield from run.against(row, column, "tokio", TARGET_TOKIO[column][p])
        if question.startswith("line"):
            yield from line_aim(rows, question, p, column)


def line_aim(rows, question, p, column):
    """Nothing is fitted to the echo."""
    line = rows[question, p]
    echo = rows.get((question.replace("line", "echo", 1), p), {})
    ours, its = (run.ratio(row.get(column, {}), row.get("floor", {}))
                 for row in (line, echo))
    if ours and its:
        yield "/ floor, to that of echo", ours / its, TARGET_LINE


def begin(_options, client=CLIENT):
    if not os.access(client, os.X_OK):
        sys.exit("run.py: client/client is missing (package gcc)")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
