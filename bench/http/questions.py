# SPDX-License-Identifier: MIT
"""questions.py: web servers (http.h), ours and the peers, for run.py.

Each server answers each question, with a new process. A server with P = 1 has
the first cpu, with P = 2 the first two; the clients have the second.
"""

import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import time

import run

IO = run.load("io")                     # servers, clients and cells are alike
HERE = os.path.dirname(os.path.abspath(__file__))
CLIENT = os.path.join(HERE, "client", "client")
SLOW = os.path.join(HERE, "client", "slow")
LIMIT = 1200

WRK = shutil.which("wrk")
NGINX = shutil.which("nginx") or "/usr/sbin/nginx"

BUILD = {"client": "gcc", "floor": "gcc", "ours": "gcc", "go": "golang-go"}
COLUMNS = {
    "floor": ("floor/server", "gcc"),
    "ours": ("ours/server", "gcc"),
    "nginx": (NGINX, "nginx-light"),
    "go": ("go/server", "golang-go"),
}
BASE = ("nginx",)
OURS = ("ours",)

PLAIN = ("/plaintext", 13)              # a path, and the bytes of its body
FILES = {"4k": 4096, "1m": 1 << 20}
BETWEEN, RATE = 512, 20000              # connections, a second, of latency
GOOD, GOOD_RATE = 64, 2000              # the same, of slow
DRIBBLE = 10000                         # ms between two bytes, of slow
TURNS = 3                               # of a second each, alone and beside
SPARE = 500                             # connections beyond those measured

TARGET_NGINX, TARGET_SLOW = 1, 2


class Question:
    """NAME-KIND:M, with P; what the client is asked."""

    def __init__(self, group, name, kind, m, p):
        self.group, self.p, self.kind = group, p, kind
        self.text = f"{name}-{kind}:{m}"
        self.name, self.m = name, m

    def connections(self):
        return {"latency": BETWEEN, "slow": GOOD}.get(self.name, self.m)

    def depth(self):
        return self.kind if self.name == "plain" else 1

    def asked(self):
        """The path, and the bytes of its body."""
        if self.name == "file":
            return "/" + self.kind, FILES[self.kind]
        return PLAIN

    def client(self, quick):
        """What, connections, requests, path, bytes, depth or rate."""
        if self.name in ("latency", "slow"):
            rate = RATE if self.name == "latency" else GOOD_RATE
            what = "open" if self.p == 1 and self.name == "latency" else \
                "open-sleep"
            seconds = 0.3 if quick else 2 if self.name == "latency" else 1
            nr = int(rate * seconds)
            return (what, self.connections(), nr, *self.asked(), rate)
        nr = {"1m": 1500, "4k": 40000, 1: 80000, 16: 200000}[self.kind]
        nr = max(nr // 20 if quick else nr, 2 * self.m * self.depth())
        return ("closed", self.m, nr, *self.asked(), self.depth())

    def realtime(self):
        """The client shares a cpu, and must not be late itself."""
        return self.name == "slow" or (self.name == "latency" and self.p > 1)


def questions(quick):
    for depth in 1, 16:
        for m in (64,) if quick else (64, 512, 8000):
            for p in 1, 2:
                yield Question("plaintext", "plain", depth, m, p)
    for kind in FILES:
        for p in 1, 2:
            yield Question("files", "file", kind, 64, p)
    for p in 1, 2:
        yield Question("latency", "latency", "plain", RATE, p)
    yield Question("slow", "slow", "head", 300 if quick else 10000, 1)


def make_files(folder):
    for name, size in FILES.items():
        with open(os.path.join(folder, name), "wb") as out:
            out.write(bytes(i % 251 for i in range(size)))
    os.chmod(folder, 0o755)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def configure(folder, port, p):
    """Writes nginx's configuration."""
    words = {"USER": "user root;" if os.getuid() == 0 else "",
             "P": p, "PORT": port, "ROOT": folder,
             "CONNECTIONS": IO.resource.getrlimit(
                 IO.resource.RLIMIT_NOFILE)[1],
             "SPREAD": "reuseport" if p > 1 else ""}
    with open(os.path.join(HERE, "nginx", "nginx.conf"),
              encoding="utf-8") as source:
        text = re.sub("@([A-Z]+)@", lambda m: str(words[m[1]]), source.read())
    with open(os.path.join(folder, "nginx.conf"), "w",
              encoding="utf-8") as out:
        out.write(text)


class Server(IO.Process):
    """with Server(...) as s: s.where, s.pid (all, with commas)."""

    def __init__(self, column, question, folder):
        self.column = column
        make_files(folder)
        p, m = question.p, question.connections() + SPARE
        if question.name == "slow":
            m += question.m
        cpus = IO.cpus_of(p)[0]
        if column == "nginx":
            self.port = free_port()
            configure(folder, self.port, p)
            super().__init__([NGINX, "-p", folder, "-c", "nginx.conf",
                              "-e", "stderr"], cpus, signal.SIGTERM)
        else:
            super().__init__([os.path.join(HERE, COLUMNS[column][0]),
                              "-p", "0", "-r", folder, "-n", str(p),
                              "-c", str(m)], cpus)

    def __enter__(self):
        if self.column == "nginx":
            self.where = self.connects()
        else:
            words = self.first_line()
            self.where = words[2] if words[:2] == ["listening", "on"] else None
        self.pid = ",".join(map(str, self.pids()))
        return self

    def connects(self):
        """Waits for nginx. Returns its address, or None."""
        end = time.monotonic() + IO.READY
        while time.monotonic() < end and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return f"127.0.0.1:{self.port}"
            except ConnectionRefusedError:
                time.sleep(0.01)
        return None

    def pids(self):
        """The server, and its children."""
        yield self.process.pid
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8") as f:
                    parent = int(f.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if parent == self.process.pid:
                yield int(name)

    def cpu(self):
        """Processor time in us."""
        clocks = [~int(pid) << 3 | 2 for pid in self.pid.split(",")]
        return sum(map(time.clock_gettime_ns, clocks)) / 1000


class Slow(IO.Process):
    """Slow connections; entered when all are open."""

    def __init__(self, server, question):
        super().__init__([SLOW, server.where, str(question.m), str(DRIBBLE)],
                         IO.cpus_of(question.p)[1])

    def __enter__(self):
        self.holds = bool(self.first_line())
        return self


class Cell(IO.Cell):
    SERVER, CLIENT = Server, CLIENT

    def suffixes(self):
        times = (".p50_us", ".p99_us", ".p999_us", ".late_99_us")
        return {"latency": times + (".cpu_us",),
                "slow": (".alone_p99_us", ".p99_us", ".p99_ratio")}.get(
                    self.asked.name,
                    (".cpu_us", ".per_s", ".wrk_cpu_us", ".wrk_per_s"))

    def ask(self, server, quick):
        if self.asked.name == "slow":
            return self.beside_slow(server, quick)
        got = super().ask(server, quick)
        if got is None:
            return None
        if self.asked.group in ("plaintext", "files"):
            got.update(self.wrk(server, quick))
        return got

    def p99(self, server, quick):
        """The median of TURNS; None."""
        got = [super(Cell, self).ask(server, quick) for _ in range(TURNS)]
        return None if None in got else statistics.median(
            g["p99_us"] for g in got)

    def beside_slow(self, server, quick):
        """Asks alone, and while many slow connections are open."""
        alone = self.p99(server, quick)
        with Slow(server, self.asked) as slow:
            if not slow.holds:
                run.say(f"{self.name()}: not all were opened: {slow.why()}")
                return None
            beside = self.p99(server, quick)
        if alone is None or beside is None:
            return None
        return {"alone_p99_us": alone, "p99_us": beside,
                "p99_ratio": beside / alone}

    def wrk(self, server, quick):
        """The same load by wrk; its connections are opened meanwhile."""
        if WRK is None or (quick and self.p > 1):
            return {}
        m, depth = self.asked.m, self.asked.depth()
        command = [WRK, "-t1", f"-c{m}", "-d2s" if m > 1000 else "-d1s",
                   "--timeout", "10s"]
        if depth > 1:
            command += ["-s", os.path.join(HERE, "pipeline.lua")]
        command += [f"http://{server.where}{self.asked.asked()[0]}"]
        if depth > 1:
            command += ["--", str(depth)]
        cpu = server.cpu()
        done = subprocess.run(
            command, capture_output=True, text=True, check=False,
            timeout=IO.PATIENCE,
            preexec_fn=IO.prepare(IO.cpus_of(self.p)[1]))
        return self.read_wrk(done.stdout, server.cpu() - cpu)

    def read_wrk(self, text, cpu):
        nr = re.search(r"(\d+) requests in ", text)
        rate = re.search(r"Requests/sec: +([\d.]+)", text)
        bad = re.search(r"(Socket errors|Non-2xx).*", text)
        if bad:
            run.say(f"{self.name()}: wrk: {bad[0]}")
        if not nr or not rate or int(nr[1]) == 0:
            run.say(f"{self.name()}: wrk: no requests")
            return {}
        return {"wrk_cpu_us": cpu / int(nr[1]), "wrk_per_s": float(rate[1])}


def cells(options):
    return IO.cells(options, questions, Cell)


def aims(rows, question, p, column):
    row = rows[question, p]
    if column in OURS and question.endswith("cpu_us") and \
       question.startswith(("plain-", "file-")):
        yield from run.against(row, column, "nginx", TARGET_NGINX)
    if column in OURS and question.endswith(".p99_ratio"):
        yield "p99 / alone", run.median(row[column]), TARGET_SLOW


def begin(options):
    if WRK is None:
        run.say("wrk is missing (package wrk)")
    IO.begin(options, CLIENT)
