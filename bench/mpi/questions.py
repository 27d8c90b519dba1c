# SPDX-License-Identifier: MIT
"""questions.py: messages between two ranks, bytes and buffers, for run.py.

Each question is one of an MPI: openmpi-messages, mpich-bytes. Rates are messages
a second of rings; the base is raw MPI by hand at the thread level of the library.
What takes long is measured in the first three rounds only. The machine should be
quiet: each rank has a cpu, and tests all the time.
"""

import os
import shutil

import run

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT, ROUNDS = 240, 7
PATIENCE = 60
PART = 100                              # of the messages, with --quick

KINDS = {"openmpi": ["--use-hwthread-cpus", "--bind-to", "hwthread"],
         "mpich": ["-bind-to", "hwthread"]}
BUILD = {".": "libopenmpi-dev or libmpich-dev"}
# A column is a program of rings, what waits, or where a buffer lies.
COLUMNS = {name: ("sim", "gcc") for name in (
    "raw", "locked", "mmain", "native", "request", "thread", "heap", "stack",
    "lane", "hand", "halo", "halo-native")}
BASE = ("locked", "heap", "hand")
TARGET_HAND = 3                         # of halo

# The question, N, R and M of a ring, its columns, and the last round, if not all.
RINGS = (("one", 2, 1, 600000, ("raw", "locked", "mmain", "native"), None),
         ("many", 2, 1000, 100, ("raw", "locked", "mmain"), None),
         ("many", 2, 1000, 1, ("native",), 2),
         ("most", 2, 10000, 5, ("raw", "locked", "mmain"), 2))
SIZES = (8, 1024)                       # of a buffer
# Strips, iterations, and those of native threads. Under Open MPI the time by hand
# grows with the square of the strips.
HALOS = (("sendrecv", 64, 2000, 5), ("waitall", 64, 2000, 5),
         ("overlap", 64, 200, 20),
         ("sendrecv", 1000, 100, 1), ("waitall", 1000, 100, 1),
         ("sendrecv", 10000, 1, 0), ("waitall", 10000, 1, 0))
HALO = {"hand": "halo-hand", "halo": "halo", "halo-native": "halo-native"}


def environment():
    os.environ.update({"OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                       "OMPI_MCA_btl_vader_single_copy_mechanism": "none"})


class Cell(run.Cell):
    """A program on some ranks, under an MPI."""

    def __init__(self, mpi, group, question, column, ranks, last):
        super().__init__(f"{mpi}-{group}", question, ranks, column)
        self.mpi, self.last = mpi, last

    def program(self, name, *arguments):
        """Returns the words of the first line, or None."""
        text = run.ask(self.name(), [
            f"mpirun.{self.mpi}", *KINDS[self.mpi], "-n", self.p,
            os.path.join(HERE, f"{name}.{self.mpi}"), *arguments], PATIENCE)
        return text and [float(word) for word in text.split()]


class Ring(Cell):
    def __init__(self, mpi, question, numbers, column, last):
        super().__init__(mpi, "messages", question, column, 2, last)
        self.numbers = numbers

    def answer(self, options):
        n, r, m = self.numbers
        if options.quick:
            m = max(m // PART, 1)
        took = self.program(self.column, n, r, m, 0, 1)
        return took and {"": n * r * m / took[0]}


class Halo(Cell):
    def __init__(self, mpi, how, strips, m, column):
        super().__init__(mpi, "halo", f"{how}:{strips}", column, 2,
                         2 if column == "halo-native" else None)
        self.asked = how, strips, m

    def answer(self, options):
        how, strips, m = self.asked
        got = self.program(HALO[self.column], how, strips,
                           max(m // PART, 1) if options.quick else m)
        return got and {".cpu_ns": got[0]}


class Bytes(Cell):
    def answer(self, _options):
        how = ["requests"] if self.column == "request" else []
        got = self.program("waiters", 100000, *how)
        return got and {"": got[0]}


class Buffer(Cell):
    def answer(self, _options):
        got = self.program("buffers", self.column, 1000,
                           self.question.split(":")[1], 40)
        return got and {".cpu_ns": got[0], ".bytes": got[1]}


def cells(options):
    for mpi in KINDS:
        if not options.plan and not os.path.exists(
                os.path.join(HERE, f"mmain.{mpi}")):
            run.say(f"no mpicc.{mpi}, mpirun.{mpi}")
            continue
        for question, *numbers, columns, last in RINGS:
            for column in columns if last is None or not options.quick else ():
                yield Ring(mpi, question, numbers, column, last)
        for how, strips, m, native in HALOS[:3] if options.quick else HALOS:
            for column in HALO:
                nr = native if column == "halo-native" else m
                if nr != 0 and not (options.quick and nr == native):
                    yield Halo(mpi, how, strips, nr, column)
        if options.quick:
            continue
        for column in "request", "thread":
            yield Bytes(mpi, "bytes", "bytes", column, 1, 2)
        for size in SIZES:
            for column in "heap", "stack", "lane":
                yield Buffer(mpi, "buffers", f"buffer:{size}", column, 1, 2)


def about(_options):
    environment()
    for mpi in KINDS:
        if shutil.which(f"mpirun.{mpi}"):
            yield f"# {mpi}: " + run.first(f"mpirun.{mpi}", "--version")


def aims(rows, question, p, column):
    if column == "halo":
        yield from run.against(rows[question, p], column, "hand", TARGET_HAND)
