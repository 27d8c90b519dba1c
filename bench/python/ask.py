# SPDX-License-Identifier: MIT
"""ask.py: puts a question to a column, in a process of its own.

usage: ask.py COLUMN QUESTION SECONDS TASKS

Prints lines: what was measured, and its value. ENGINE in the environment: the
folder of usched_engine.
"""

import asyncio
import concurrent.futures
import ctypes
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WORK = ctypes.CDLL(os.path.join(HERE, "work.so"))
WORK.threads.restype = ctypes.c_double
CPUS = 2
SOME = 200                              # tasks between two looks at the clock
BATCHES, BATCH = 4, 1000                # at once, and tasks in each
CHUNK = 250                             # of multiprocessing
NS = 20_000                             # that a function spins
LOAD_NS, LOAD_PERIOD = 1_000_000, 0.000833      # 0.6 of two cpus
PROBE_PERIOD = 0.0041
PR_SET_PDEATHSIG = 1


def sums_for(microseconds):
    """Returns the number of steps of sums() that take so long."""
    nr = 10_000
    took = min(WORK.threads(WORK.sums, nr, 20, 1) for _ in range(5))
    return int(nr * microseconds / took)


def call(name, arg):
    """Calls a function by name: what is sent to processes."""
    return getattr(WORK, name)(arg)


def call_often(f, arg, nr):
    for _ in range(nr):
        f(arg)


class Engine:
    """c_spawn() and c_spawn_many()."""

    OPTIONS = {}

    def __init__(self):
        sys.path.insert(0, os.environ.get("ENGINE") or
                        os.path.join(HERE, "engine"))
        import usched_engine
        self.engine = usched_engine.Engine()

    def function(self, name):
        return self.engine.get_c_function(getattr(WORK, name))

    def load(self, f, arg):
        return self.engine.c_spawn(f, (arg,))

    def call(self, f, arg):
        return self.engine.c_spawn(f, (arg,), **self.OPTIONS)

    def wait(self, f, arg):
        return self.engine.c_spawn(f, (arg,)).result()

    def batch(self, f, arg, nr):
        return self.engine.c_spawn_many(f, [arg] * nr)

    def hold(self):
        self.engine.pause("start")

    def queue(self, f, nr):
        return [self.call(f, 0) for _ in range(nr)]

    def queue_batches(self, f, nr):
        return [self.batch(f, 0, BATCH) for _ in range(nr // BATCH)]

    def close(self):
        self.engine.shutdown()


class EngineFirst(Engine):
    """The probes of latency have the highest priority."""

    OPTIONS = {"priority": 7}


class ToThread:
    """asyncio.to_thread(), with its pool; a batch is a loop in Python."""

    def __init__(self):
        self.gate = threading.Event()

    def function(self, name):
        return getattr(WORK, name)

    def call(self, f, arg):
        return asyncio.to_thread(f, arg)

    load = call

    def batch(self, f, arg, nr):
        return asyncio.to_thread(call_often, f, arg, nr)

    def hold(self):
        self.kept = [asyncio.ensure_future(asyncio.to_thread(self.gate.wait))
                     for _ in range(40)]

    def queue(self, f, nr):
        return [asyncio.ensure_future(self.call(f, 0)) for _ in range(nr)]

    def close(self):
        pass


class Executor(ToThread):
    """A ThreadPoolExecutor with a thread for each cpu."""

    def __init__(self):
        super().__init__()
        self.pool = concurrent.futures.ThreadPoolExecutor(CPUS)

    def call(self, f, arg):
        return asyncio.get_running_loop().run_in_executor(self.pool, f, arg)

    load = call

    def wait(self, f, arg):
        return self.pool.submit(f, arg).result()

    async def batch(self, f, arg, nr):
        for _ in self.pool.map(f, [arg] * nr):
            pass

    def hold(self):
        self.kept = [self.pool.submit(self.gate.wait) for _ in range(CPUS)]

    def queue(self, f, nr):
        return [self.pool.submit(f, 0) for _ in range(nr)]

    def close(self):
        self.pool.shutdown()


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Process(Executor):
    """ProcessPoolExecutor; Pool.imap() for batches."""

    def __init__(self):
        super().__init__()
        self.pool = concurrent.futures.ProcessPoolExecutor(
            CPUS, initializer=end_with_parent)
        self.imap = multiprocessing.Pool(CPUS, end_with_parent)

    def function(self, name):
        return name

    def call(self, f, arg):
        return asyncio.get_running_loop().run_in_executor(self.pool, call, f,
                                                          arg)

    load = call

    def wait(self, f, arg):
        return self.pool.submit(call, f, arg).result()

    async def batch(self, f, arg, nr):
        for _ in self.imap.imap(getattr(WORK_BY_NAME, f), [arg] * nr, CHUNK):
            pass

    def hold(self):
        self.kept = [self.pool.submit(time.sleep, 60) for _ in range(8)]

    def queue(self, f, nr):
        return [self.pool.submit(call, f, 0) for _ in range(nr)]

    def close(self):
        self.pool.shutdown()
        self.imap.terminate()


def empty(arg):
    return WORK.empty(arg)


def spin(arg):
    return WORK.spin(arg)


def sums(arg):
    return WORK.sums(arg)


WORK_BY_NAME = sys.modules[__name__]    # what multiprocessing can send

COLUMNS = {"engine": Engine, "engine-first": EngineFirst,
           "to_thread": ToThread, "executor": Executor, "process": Process}


# Questions

def say(what, value):
    print(what, value, flush=True)


async def one(by, f, arg, tasks):
    for _ in range(SOME):
        await by.call(f, arg)
    return SOME


async def thread(by, f, arg, tasks):
    for _ in range(SOME):
        by.wait(f, arg)
    return SOME


async def gather(by, f, arg, tasks):
    await asyncio.gather(*[by.call(f, arg) for _ in range(tasks)])
    return tasks


async def batch(by, f, arg, tasks):
    await asyncio.gather(*[by.batch(f, arg, BATCH) for _ in range(BATCHES)])
    return BATCHES * BATCH


async def timed(ask, by, f, arg, seconds, tasks):
    """Tells the microseconds of a task; cpu: of this process."""
    await ask(by, f, arg, min(tasks, SOME))
    nr, cpu, begin = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() - begin < seconds:
        nr += await ask(by, f, arg, tasks)
    took = (time.perf_counter() - begin) / nr * 1e6
    say("cpu_us", (time.process_time() - cpu) / nr * 1e6)
    say("us", took)
    return took


def argument(name):
    return {"empty": 0, "spin": NS}[name] if name != "sums" else \
        sums_for(NS / 1000)


def alone(name, arg, seconds, nr_threads):
    """Returns the microseconds of a call in plain native threads."""
    nr = int(seconds * 1e9 / NS) + 1
    return WORK.threads(getattr(WORK, name), arg, nr, nr_threads)


async def cost(by, how, name, seconds, tasks):
    arg = argument(name)
    one_core = name != "empty" and alone(name, arg, seconds / 4, 1)
    took = await timed(globals()[how], by, by.function(name), arg, seconds,
                       tasks)
    if one_core:
        say("speedup", one_core / took)


def cost_threads(name, seconds):
    """The most that two cpus give."""
    arg = argument(name)
    one_core = alone(name, arg, seconds / 2, 1)
    took = alone(name, arg, seconds / 2, CPUS)
    say("us", took)
    say("speedup", one_core / took)


async def paced(period, seconds, begin_one):
    """Begins something at fixed times, and waits for all."""
    begin, running = time.perf_counter(), set()
    for n in range(int(seconds / period)):
        due = begin + n * period
        await asyncio.sleep(max(0, due - time.perf_counter()))
        task = asyncio.ensure_future(begin_one(due))
        running.add(task)
        task.add_done_callback(running.discard)
    while running:
        await asyncio.wait(running)


async def latency(by, seconds):
    spin_it, probe_it = by.function("spin"), by.function("empty")
    times, late = [], []

    async def load(due):
        await by.load(spin_it, LOAD_NS)

    async def probe(due):
        begin = time.perf_counter()
        await by.call(probe_it, 0)
        times.append(time.perf_counter() - begin)
        late.append(begin - due)

    await asyncio.gather(paced(LOAD_PERIOD, seconds, load),
                         paced(PROBE_PERIOD, seconds, probe))
    for what, all_times, share in (("p50_us", times, 0.5),
                                   ("p99_us", times, 0.99),
                                   ("late_99_us", late, 0.99)):
        all_times.sort()
        say(what, all_times[int(len(all_times) * share)] * 1e6)


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def memory(by, how, tasks):
    """Tells the bytes of a task that is queued."""
    f = by.function("empty")
    gc.disable()                        # it saves time, no memory
    by.hold()
    await asyncio.sleep(0.1)
    before = resident()
    kept = (by.queue if how == "each" else by.queue_batches)(f, tasks)
    await asyncio.sleep(0)              # to_thread() begins in coroutines
    await asyncio.sleep(0)
    say("bytes", (resident() - before) / tasks)
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(0 if kept else 1)          # frees nothing


async def answer(column, question, seconds, tasks):
    kind, how = question.split("-", 1)
    by = COLUMNS[column]()
    if kind == "latency":
        await latency(by, seconds)
    elif kind == "memory":
        await memory(by, how, tasks)
    else:
        await cost(by, kind, how, seconds, tasks)
    by.close()


def main():
    column, question, seconds, tasks = sys.argv[1:]
    if column == "threads":
        cost_threads(question.split("-")[1], float(seconds))
    else:
        asyncio.run(answer(column, question, float(seconds), int(tasks)))


if __name__ == "__main__":
    main()
