#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""measure.py [ROUNDS | --counts]: measures the servers of examples/gallery, beside what
people use, and prints bench/results/MACHINE/gallery.md. --counts: only what does not
depend on the load of the machine, instructions and system calls.

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
COUNTS = sys.argv[1:] == ["--counts"]
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 and not COUNTS else 7
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


def instructions(name, what, clients, deep, requests):
    """Instructions of a request in user mode, by callgrind, which needs no counter of
    the processor. What a start and connections take is in both runs. None: callgrind
    failed, which it does now and then as a server ends."""
    sums = []
    for times in (1, 3):
        out = os.path.join(WORK, "callgrind")
        with Server(name, ["valgrind", "-q", "--tool=callgrind",
                           "--callgrind-out-file=" + out]) as server:
            load(server.port, "set", 50, 16, 100000)
            load(server.port, what, clients, deep, times * requests)
        with open(out) as f:
            found = re.search(r"^(?:totals|summary): (\d+)", f.read(), re.M)
        if found is None:
            return None
        sums.append(int(found[1]))
        os.remove(out)
    return (sums[1] - sums[0]) / (2 * requests)


def calls(name, what, clients, deep, requests):
    """System calls of a request, by strace."""
    log = os.path.join(WORK, "strace")
    with Server(name) as server:
        load(server.port, "set", 50, 16, 300000)
        with subprocess.Popen(["strace", "-f", "-c", "-o", log, "-p",
                               str(server.process.pid)],
                              stderr=subprocess.DEVNULL) as p:
            time.sleep(0.5)
            load(server.port, what, clients, deep, requests)
            p.send_signal(2)
    with open(log) as f:
        rows = [line.split() for line in f]
    return {words[-1]: int(words[3]) / requests for words in rows
            if len(words) >= 5 and words[3].isdigit() and words[-1] != "total"}


def print_counts():
    print("\nCounted in a run each: instructions of a request in user mode by callgrind, "
          "and\nsystem calls by strace. They do not depend on the load.\n")
    print("| request | server | instructions | calls |")
    print("|---|---|---:|---|")
    for title, what, clients, deep, requests in LOADS:
        for name in ("usched", "Redis"):
            load_of = (name, what, clients, deep, requests // 5)
            found = calls(*load_of) if shutil.which("strace") else {}
            nr = None
            for _ in range(3 if shutil.which("valgrind") else 0):
                nr = nr or instructions(*load_of)
            print("| %s | %s | %s | %s |" % (
                title, name, "%.0f" % nr if nr else "no count",
                ", ".join("%s %.3f" % (n, c) for n, c in
                          sorted(found.items(), key=lambda x: -x[1]) if c >= 0.001)))


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
    print_counts()


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
    if COUNTS:
        print_counts()
        return
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
