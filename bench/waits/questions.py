# SPDX-License-Identifier: MIT
"""questions.py: timers, sleepers, channels and locks (waits.h), for run.py.

A first look finds the N with which an answer takes 50 ms. A program with P = 1
has the first cpu, with P = 2 the first two. What sleeps long is measured in the
first two rounds only.
"""

import os

import run

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 420
PATIENCE = 30
SECONDS = 0.05                          # of an answer

BUILD = {"ours": "gcc", "go": "golang-go", "tokio": "cargo", "cxx": "g++"}
COLUMNS = {
    "rr": ("ours/waits-rr", "gcc"),
    "ll": ("ours/waits-ll", "gcc"),
    "ws": ("ours/waits-ws", "gcc"),
    "local": ("ours/waits-local", "gcc"),
    "go": ("go/waits", "golang-go"),
    "tokio": ("tokio/waits-tokio", "cargo"),
    "kanal": ("tokio/waits-kanal", "cargo"),
    "c++": ("cxx/waits", "g++"),
}
BASE = ("ws", "ll", "rr")
TARGET_GO = 1.1                         # of the locks and semaphores of rr and ws

# The group, the question, the P, N of all rounds and of --quick; None: found.
ONE, BOTH = (1,), (1, 2)
ASKED = [
    # First, since these are the price of what follows.
    *[("wakes", question, (2,), None, None) for question in (
        "flag", "wake", "futex:100", "asleep:100")],
    *[("time", f"churn-{how}:{m}", ONE, None, small)
      for how in ("random", "same")
      for m, small in ((1000, None), (10000, 0), (100000, None),
                       (1000000, 0))],
    ("time", "timed:1000", BOTH, None, None),
    ("time", "timed:1000000", BOTH, None, 0),
    ("sleepers", "sleepers:10", BOTH, 1000000, 0),
    ("sleepers", "sleepers:3", ONE, 0, 20000),
    *[("channels", question, BOTH, None, None) for question in (
        "sync", "buffer:0", "buffer:10", "buffer:100", "uncontended",
        "contended", "fanin", "sem", "select", "select-sync",
        "select-buffer:128")],
    *[("locks", question, BOTH, None, None) for question in (
        "mutex-own", "mutex", "mutex-slack", "mutex-work", "mutex-hold",
        "skew", "rw-own", "rw-write:100", "rw-write:10", "rw-write:1")],
    ("programs", "sieve", BOTH, 2000, 300),
    ("programs", "powser", BOTH, 400, 100),
    ("programs", "pool:10000", BOTH, 500000, 20000),
]


class Cell(run.Cell):
    def __init__(self, group, question, p, column, n):
        super().__init__(group, question, p, column)
        self.n = n
        if group == "sleepers":
            self.last = 1

    def ask(self, n):
        text = run.ask(
            f"{self.column}: {self.question} {n} {self.p}",
            [os.path.join(HERE, COLUMNS[self.column][0]), self.question, n,
             self.p], PATIENCE, run.pinned(run.cpus(0, self.p)))
        return run.answers(text, self.question)

    def prepare(self, options):
        """Finds n."""
        if self.n is not None:
            return True
        n = 20 if self.question == "skew" else 20000
        if options.quick:
            self.n = max(n // 10, 20)
            return True
        while True:
            got = self.ask(n)
            if got is None:
                return False
            took = max(got[""], 0.1) * n / 1e9
            if took > SECONDS / 10:
                break
            n = int(n * min(20, SECONDS / took))
        self.n = max(int(n * SECONDS / took), 20)
        return True

    def answer(self, _options):
        return self.ask(self.n)


def sleep_alike(options, p):
    """Columns whose sleepers are not measured, to save time."""
    few = options.quick or p > 1
    return ("rr", "ll", "local") if few else ("ll", "local")


def cells(options):
    for group, question, ps, n, small in ASKED:
        n = small if options.quick else n
        for p in ps if n != 0 else ():
            for column in options.columns:
                if group != "sleepers" or column not in sleep_alike(options, p):
                    yield Cell(group, question, p, column, n)


def aims(rows, question, p, column):
    if column in ("rr", "ws") and question.startswith(("mutex", "rw-", "sem")):
        yield from run.against(rows[question, p], column, "go", TARGET_GO)
