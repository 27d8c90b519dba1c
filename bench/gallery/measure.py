#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""measure.py [ROUNDS]: measures the servers of examples/gallery, beside what people
use, and prints bench/results/MACHINE/gallery.md.

The cache is loaded by redis-benchmark, as is Redis, in turn; the figure is cpu time
of the server for each request. The queue gets a million jobs that sleep for an hour,
as does beanstalkd, and a program in Go; the figure is memory of the process for each.
What is not installed is left out, and named.
"""

import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 7
JOBS = 1000000
WORK = tempfile.mkdtemp()
OURS = {"cache": "main conn cache resp store", "jobs": "main conn jobs"}
# title, command, clients, pipelined, requests
LOADS = [("GET", "get", 50, 1, 150000), ("SET", "set", 50, 1, 150000),
         ("GET, 16 at once", "get", 50, 16, 1500000),
         ("SET, 16 at once", "set", 50, 16, 1500000)]


def build(name):
    os.makedirs(WORK, exist_ok=True)
    program = os.path.join(WORK, name)
    subprocess.run(["cc", "-std=gnu11", "-O2", "-Iinclude", "-DPROGRAM=" + name] +
                   ["examples/gallery/%s.c" % part for part in OURS[name].split()] +
                   ["libusched.a", "-pthread", "-o", program], cwd=TOP, check=True)
    return program


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, name, prefix=()):
        self.port = free_port()
        port = str(self.port)
        line = {"usched": [os.path.join(WORK, "cache"), "-p", port],
                "jobs": [os.path.join(WORK, "jobs"), "-p", port],
                "Redis": ["redis-server", "--port", port, "--save", "",
                          "--appendonly", "no", "--bind", "127.0.0.1"],
                "beanstalkd": ["beanstalkd", "-l", "127.0.0.1", "-p", port]}[name]
        self.process = subprocess.Popen(list(prefix) + line, cwd=WORK,
                                        stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port), 10).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.05)
        raise SystemExit(name + " does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def cpu(self):
        """Seconds of cpu of all threads."""
        base = "/proc/%d/task/" % self.process.pid
        return sum(int(open(base + t + "/schedstat").read().split()[0])
                   for t in os.listdir(base)) / 1e9

    def memory(self):
        with open("/proc/%d/smaps_rollup" % self.process.pid) as f:
            return int(re.search(r"Anonymous: *(\d+)", f.read())[1]) * 1024


def load(port, what, clients, deep, requests):
    out = subprocess.run(["redis-benchmark", "-p", str(port), "-t", what, "-d", "32",
                          "-c", str(clients), "-P", str(deep), "-n", str(requests),
                          "-r", "100000", "--csv"],
                         check=True, capture_output=True, text=True).stdout
    return float(out.split("\n")[1].split(",")[1].strip('"'))


def cache_round(name, results):
    with Server(name) as server:
        load(server.port, "set", 50, 16, 300000)        # the keys
        for title, what, clients, deep, requests in LOADS:
            before = server.cpu()
            rate = load(server.port, what, clients, deep, requests)
            cpu = (server.cpu() - before) * 1e6 / requests
            results.setdefault((title, name), []).append((cpu, rate))


def perf(name):
    """Instructions and system calls of a request, by perf and strace: text."""
    found = {}
    for title, what, clients, deep, requests in LOADS:
        with Server(name) as server:
            load(server.port, "set", 50, 16, 300000)
            if shutil.which("perf"):
                with subprocess.Popen(
                        ["perf", "stat", "-x", ",", "-e",
                         "instructions:u,instructions:k", "-p",
                         str(server.process.pid)], stderr=subprocess.PIPE,
                        text=True) as p:
                    time.sleep(0.5)
                    load(server.port, what, clients, deep, requests)
                    p.send_signal(2)
                    counts = [line.split(",")[0] for line in p.stderr
                              if "instructions" in line]
                found[title, "instructions"] = [
                    int(c) / requests if c.isdigit() else None for c in counts]
            if shutil.which("strace"):
                log = os.path.join(WORK, "strace")
                with subprocess.Popen(["strace", "-f", "-c", "-o", log, "-p",
                                       str(server.process.pid)],
                                      stderr=subprocess.DEVNULL) as p:
                    time.sleep(0.5)
                    nr = requests // 5
                    load(server.port, what, clients, deep, nr)
                    p.send_signal(2)
                calls = {}
                for line in open(log):
                    words = line.split()
                    if len(words) >= 5 and words[3].isdigit() and \
                       words[-1] != "total":
                        calls[words[-1]] = int(words[3]) / nr
                found[title, "calls"] = calls
    return found


def sleep_jobs(name):
    """Bytes and cpu microseconds of each of JOBS jobs that sleep."""
    with Server(name) as server:
        before, cpu = server.memory(), server.cpu()
        with socket.create_connection(("127.0.0.1", server.port)) as s, \
                s.makefile("rb", 1 << 16) as f:
            def put(first):
                for i in range(first, first + 1000):
                    text = b"%032d" % i
                    yield b"put 3600000 %s\n" % text if name == "jobs" else \
                        b"put 0 3600 60 32\r\n%s\r\n" % text
            sender = threading.Thread(target=lambda: [
                s.sendall(b"".join(put(i))) for i in range(0, JOBS, 1000)])
            sender.start()
            good = b"put " if name == "jobs" else b"INSERTED "
            for _ in range(JOBS):
                if not f.readline().startswith(good):
                    raise SystemExit(name + ": a job is refused")
            sender.join()
        return (server.memory() - before) / JOBS, (server.cpu() - cpu) * 1e6 / JOBS


def median(values, digits):
    return "%.*f [%.*f, %.*f]" % (digits, statistics.median(values), digits,
                                  min(values), digits, max(values))


def machine():
    return subprocess.run([os.path.join(TOP, "bench.sh"), "--machine"],
                          capture_output=True, text=True).stdout.strip()


def version(*command):
    out = subprocess.run(command, capture_output=True, text=True)
    return re.search(r"\d+\.\d+(\.\d+)?", out.stdout + out.stderr)[0]


def measure_cache():
    results, loads = {}, []
    for _ in range(ROUNDS):
        loads.append(os.getloadavg()[0])
        for name in ("usched", "Redis"):
            cache_round(name, results)
    print("## The cache, beside Redis %s\n" % version("redis-server", "--version"))
    print("Cpu time of the server for a request in us, **lower is better**, and "
          "thousands of\nrequests a second that redis-benchmark reached. 50 "
          "connections, 100,000 keys, values\nof 32 bytes, nothing written to disk. "
          "Medians of %d runs in turn, [least, most]. The\nload of the machine was "
          "%.1f to %.1f before a round; others used it.\n" %
          (ROUNDS, min(loads), max(loads)))
    print("| request | usched | Redis | ratio, in pairs | usched, rate | Redis, rate |")
    print("|---|---:|---:|---:|---:|---:|")
    for title, *_ in LOADS:
        a, b = results[title, "usched"], results[title, "Redis"]
        print("| %s | %s | %s | %s | %s | %s |" % (
            title, median([x[0] for x in a], 2), median([x[0] for x in b], 2),
            median([x[0] / y[0] for x, y in zip(a, b)], 2),
            median([x[1] / 1e3 for x in a], 0), median([x[1] / 1e3 for x in b], 0)))
    print("\nBy perf and strace, in a run each: instructions of a request in user and "
          "kernel\nmode, and system calls.\n")
    print("| request | server | user | kernel | calls |")
    print("|---|---|---:|---:|---|")
    for name in ("usched", "Redis"):
        found = perf(name)
        for title, *_ in LOADS:
            counts = found.get((title, "instructions")) or [None, None]
            calls = found.get((title, "calls"), {})
            print("| %s | %s | %s | %s | %s |" % (
                title, name, *("no counter" if c is None else "%.0f" % c
                               for c in counts),
                ", ".join("%s %.3f" % (n, c) for n, c in
                          sorted(calls.items(), key=lambda x: -x[1]) if c >= 0.001)))


def measure_jobs():
    results, loads = {}, []
    go = os.path.join(WORK, "sleepers")
    has_go = shutil.which("go") and subprocess.run(
        ["go", "build", "-o", go, os.path.join(TOP, "bench/gallery/sleepers.go")],
        cwd=WORK).returncode == 0
    for _ in range(max(3, ROUNDS // 2)):
        loads.append(os.getloadavg()[0])
        for name in ("jobs", "beanstalkd"):
            if name == "jobs" or shutil.which(name):
                results.setdefault(name, []).append(sleep_jobs(name))
        for kind in ("goroutines", "timers") if has_go else ():
            out = subprocess.run([go, kind, str(JOBS)], capture_output=True,
                                 text=True, check=True).stdout
            results.setdefault(kind, []).append((int(out), None))
    print("\n## A million sleeping jobs\n")
    print("Bytes of memory of the server for a job with a text of 32 bytes, due in an "
          "hour,\nand cpu time to take it from a socket. Medians of %d runs in turn, "
          "[least, most]; load\n%.1f to %.1f. The programs in Go have no socket.\n" %
          (max(3, ROUNDS // 2), min(loads), max(loads)))
    print("| | bytes of a job | cpu of a put, us |\n|---|---:|---:|")
    names = {"jobs": "usched: a thread for each job",
             "beanstalkd": "beanstalkd: a heap of jobs",
             "goroutines": "Go: a goroutine in time.Sleep for each job",
             "timers": "Go: time.AfterFunc for each job"}
    for name, title in names.items():
        if name in results:
            r = results[name]
            print("| %s | %s | %s |" % (title, median([x[0] for x in r], 0),
                  median([x[1] for x in r], 2) if r[0][1] is not None else ""))
        else:
            print("| %s | not installed | |" % title)


def main():
    subprocess.run(["make", "-s", "libusched.a"], cwd=TOP, check=True)
    for name in OURS:
        build(name)
    print("# The gallery, on %s\n\nWritten by `bench/gallery/measure.py %d`, %s.\n" %
          (machine(), ROUNDS, time.strftime("%Y-%m-%d")))
    if shutil.which("redis-server") and shutil.which("redis-benchmark"):
        measure_cache()
    else:
        print("The cache was not measured: no redis-server or redis-benchmark.")
    measure_jobs()


try:
    main()
finally:
    shutil.rmtree(WORK)
