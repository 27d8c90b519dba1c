# SPDX-License-Identifier: MIT
"""Programs that end, fork, are interrupted, or call in wrong places: each gets
an exception with a sentence, ends with status 0, and does not hang. So does a
storm of random calls."""

import concurrent.futures
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
START = """
import asyncio, copy, ctypes, gc, io, os, pickle, signal, sys, threading, time
import usched_engine
from usched_engine import *
C = ctypes.CDLL(os.environ["USCHED_TEST_LIBRARY"])

def raises(wanted, text, call):
    try:
        call()
    except wanted as error:
        assert text in str(error), error
    else:
        raise AssertionError("no exception: " + text)

def interrupt(begun=lambda: True):
    # Sends SIGINT to this process, in .2 s or more, when begun() is true.
    def sends():
        while not begun():
            time.sleep(.01)
        time.sleep(.2)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=sends).start()

def said(call):
    # Returns what call() writes on stderr.
    sys.stderr, kept = io.StringIO(), sys.stderr
    try:
        call()
    finally:
        sys.stderr, text = kept, sys.stderr.getvalue()
    return text
"""

# A program ends with "print('OK')", or what it prints as it exits is ignored.
PROGRAMS = {
    "exit with coroutines": """
e = Engine(gil_threads=2)
async def run():
    while True:
        await e.c_spawn(C.nap, (5, None))
for _ in range(20):
    e.spawn(run())
time.sleep(.05)
print('OK')
""", "exit with a busy coroutine": """
e = Engine()
async def run():
    while True:
        pass
e.spawn(run())
time.sleep(.05)
print('OK')
""", "exit with threads that wait for room": """
e = Engine(tasks=2)
e.pause('start')
def run():
    try:
        while True:
            e.c_spawn(C.add, (1, 1))
    except EngineClosed:
        pass
for _ in range(3):
    threading.Thread(target=run, daemon=True).start()
time.sleep(.05)
print('OK')
""", "exit in a loop": """
e = Engine()
async def main():
    futures = [e.c_spawn(C.nap, (50, None)) for _ in range(10)]
    await asyncio.sleep(.01)
    print('OK')
    sys.exit(0)
asyncio.run(main())
""", "exit with views": """
e = Engine(shared_memory=1000)
e.memory_bus_push('a', b'123')
v, w = e.memory_bus_get('a'), e.memory_bus_pop('a')
e.memory_bus_push('b', bytearray(4), copy=False)
print('OK')
""", "interrupts": """
e = Engine(tasks=1)
e.pause('start')
e.c_spawn(C.add, (1, 1))
data, flag = bytearray(4), bytearray(1)
interrupt()
raises(KeyboardInterrupt, '', lambda: e.c_spawn(C.fill, (data, 4, 1)))
data.extend(b'1')
interrupt()
raises(KeyboardInterrupt, '', e.wait_all)
e.resume()
e.wait_all()
interrupt()
raises(KeyboardInterrupt, '', lambda: e.help(1, 10))
interrupt()
raises(KeyboardInterrupt, '', lambda: e.c_spawn(C.until, (flag,)).result())
flag[0] = 1
print('OK')
""", "processes": """
import concurrent.futures, multiprocessing
fork = multiprocessing.get_context('fork')
def child(n):
    raises(EngineClosed, 'parent', e.get_stats)
    with Engine(workers=2) as mine:
        return mine.c_spawn(C.add, (n, 1)).result()
with Engine() as e:
    futures = [e.c_spawn(C.nap, (20, None)) for _ in range(20)]
    with fork.Pool(2) as pool:
        assert pool.map(child, range(9)) == list(range(1, 10))
print('OK')
""", "forks under load": """
e = Engine(shared_memory=10000)
e.memory_bus_push('a', b'x')
view = e.memory_bus_get('a')
stop = []
def load():
    while not stop:
        e.c_spawn_many(C.add, [(1, 1)] * 50).result()
threads = [threading.Thread(target=load) for _ in range(3)]
for thread in threads:
    thread.start()
def child():
    del globals()['view']
    raises(EngineClosed, 'parent', lambda: e.c_spawn(C.add, (1, 1)))
    e.shutdown()
    with Engine() as mine:
        assert mine.c_spawn(C.add, (1, 2)).result(9) == 3
    return 0
for n in range(10):
    pid = os.fork()
    if pid == 0:
        sys.exit(child()) if n % 2 else os._exit(child())
    assert os.waitpid(pid, 0)[1] == 0, n
async def in_host():
    pid = os.fork()
    if pid == 0:
        os._exit(child())
    return os.waitpid(pid, 0)[1]
assert e.spawn(in_host()).result(9) == 0
stop.append(1)
for thread in threads:
    thread.join()
e.shutdown()
print('OK')
""", "copies": """
e = Engine()
f = e.c_spawn(C.add, (1, 1))
f.result()
for thing in (e, f, get_c_function('abs')):
    for call in (copy.deepcopy, pickle.dumps):
        raises((TypeError, pickle.PicklingError), '', lambda: call(thing))
try:
    e.c_spawn(C.add, (-5, 0), name='sums').result()
except TaskError as error:
    again = pickle.loads(pickle.dumps(error))
    assert (again.errno, again.task, again.index) == (5, 'sums', 0)
for n in range(1000):
    f = e.c_spawn(C.add, (n, 1))
    f.me = f
e.wait_all()
del f
gc.collect()
print('OK')
""", "callbacks": """
import logging
logging.disable()
e = Engine()
told = []
def fails(future):
    raise ValueError
def shuts_down(future):
    raises(RuntimeError, 'callback', e.shutdown)
    told.append(1)
def waits(future):
    raises(RuntimeError, 'cannot wait', e.c_spawn(C.nap, (20, None)).result)
    told.append(2)
f = e.c_spawn(C.nap, (20, None))
for callback in fails, shuts_down, waits:
    f.add_done_callback(callback)
f.result()
while 2 not in told:
    time.sleep(.001)
async def main():
    future = e.c_spawn(C.nap, (20, None))
    future.add_done_callback(waits)
    await future
    await asyncio.sleep(0)
asyncio.run(main())
assert told == [1, 2, 2], told
e.shutdown()
print('OK')
""", "coroutines that end their engine": """
e = Engine()
async def waits():
    e.wait_all()
async def ends():
    e.shutdown()
raises(RuntimeError, 'wait for itself', e.spawn(waits()).result)
raises(RuntimeError, 'shut it down', e.spawn(ends()).result)
print('OK')
""", "shutdown by many threads": """
def again(e):
    while True:
        try:
            return e.shutdown(.0005)
        except TimeoutError:
            pass
def fails(e):
    raises(KeyError, 'x', lambda: e.__exit__(KeyError, 1, 2) or {}['x'])
def opens():
    while left:
        fd = os.open(os.devnull, os.O_RDONLY)
        time.sleep(0)
        os.close(fd)                # EBADF, if another thread has closed it
def tries(call, e):
    try:
        call(e)
    except BaseException as error:
        told.append(repr(error))
def spawns(e):
    try:
        while True:
            made.append(e.c_spawn(C.nap, (0, None)))
            made.append(e.spawn(asyncio.sleep(0)))
    except EngineClosed:
        pass
left, told, made = [1], [], []
opener = threading.Thread(target=tries, args=(lambda e: opens(), None))
opener.start()
for n in range(60):
    e = Engine(gil_threads=1)
    made = [e.c_spawn(C.nap, (n % 3, None)) for n in range(8)]
    calls = [Engine.shutdown, again, fails, spawns,
             lambda e: e.__exit__(None, None, None),
             lambda e: usched_engine._engine._at_exit()] * 2
    threads = [threading.Thread(target=tries, args=(call, e))
               for call in calls[n % 6:] + calls[:n % 6]]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert all(future.done() for future in made), n
    assert not told, told
    assert e._collector.ends == [] and 'shut down' in repr(e)
left.clear()
opener.join()
assert not told, told
Engine().shutdown()
print('OK')
""", "Ctrl-C while a function computes": """
flag = bytearray(1)
def computes():
    return engines and f[-1].running()
def run():
    interrupt(computes)
    with Engine() as e:
        f.append(e.c_spawn(C.until, (flag,), name='forever'))
        engines.append(e)
        if waits:
            f[-1].result()
async def runs():
    async with Engine() as e:
        f.append(e.c_spawn(C.until, (flag,), name='forever'))
        engines.append(e)
        if waits:
            await f[-1]
def asynchronous():
    interrupt(computes)
    asyncio.run(runs())
for call in run, asynchronous:
    for waits in False, True:
        f, engines, flag[0] = [], [], 0
        text = said(lambda: raises(KeyboardInterrupt, '', call))
        assert text.count('tasks (forever) still run') == 1, text
        assert not f[0].done()
        flag[0] = 1
        engines[0].shutdown()
        assert f[0].result() == 1
print('OK')
""", "exit after Ctrl-C while a function computes": """
interrupt()
try:
    with Engine() as e:
        e.c_spawn(C.until, (bytearray(1),))
except KeyboardInterrupt:
    print('OK')
""", "a signal within a shutdown": """
flag = bytearray(1)
e = Engine()
f = e.c_spawn(C.until, (flag,))
while not f.running():                  # a queued task would be cancelled
    time.sleep(.001)
def handler(*_):
    raises(RuntimeError, 'already', e.shutdown)
    flag[0] = 1
signal.signal(signal.SIGINT, handler)
interrupt(lambda: not e._open)
e.shutdown()
assert flag[0] and f.done()
print('OK')
""", "imported again": """
e = Engine()
for name in [name for name in sys.modules if 'usched_engine' in name]:
    del sys.modules[name]
import usched_engine as again
raises(RuntimeError, 'in use', again.Engine)
e.shutdown()
with again.Engine() as e:
    assert e.c_spawn(C.add, (1, 1)).result() == 2
print('OK')
""", "another interpreter": """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
e = Engine()
number = interpreters.create()
try:
    shown = interpreters.run_string(
        number, 'import sys; sys.path[:] = %r; import usched_engine'
        % sys.path)
except Exception as error:
    shown = error
assert 'interpreter' in str(shown), shown
interpreters.destroy(number)
e.shutdown()
print('OK')
""", "arguments of the engine": """
for wrong, options in ((ValueError, dict(workers=2 ** 70)),
                       (ValueError, dict(workers=0)),
                       (TypeError, dict(workers=True)),
                       (TypeError, dict(workers='2')),
                       (ValueError, dict(workers=300, oversubscribe=True)),
                       (ValueError, dict(workers=1, gil_threads=2)),
                       (ValueError, dict(tasks=10 ** 9)),
                       (ValueError, dict(tasks=-1)),
                       (ValueError, dict(tasks_per_thread=2 ** 61)),
                       (ValueError, dict(stack=1)),
                       (ValueError, dict(stack='1TB')),
                       (ValueError, dict(shared_memory='lots')),
                       (ValueError, dict(policy=None))):
    raises(wrong, list(options)[-1] if 'workers' not in options else 'workers',
           lambda: Engine(**options))
Engine(workers=10 ** 9, stack='16KiB', tasks=1).shutdown()
e = Engine()
raises(TypeError, 'iterable', lambda: e.c_spawn_many(
    C.add, ctypes.pointer(ctypes.c_int(1))))
raises(TypeError, 'number', lambda: e.c_spawn_many(C.add, [(1, 1), (b'', 1)]))
raises(TypeError, 'bool', lambda: e.memory_bus_push('a', True, 8))
print('OK')
""",
}


def run(name):
    """Returns what is wrong with a program, or None."""
    new = sys.version_info >= (3, 9)    # 3.8 fails at a fork with debug
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", START + PROGRAMS[name]],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
        cwd=tempfile.gettempdir(), env=dict(
            os.environ, PYTHONMALLOC="debug" if new else "default",
            PYTHONPATH=os.pathsep.join(sys.path)))
    errors = done.stderr.decode()
    if done.returncode == 0 and done.stdout.decode().endswith("OK\n") and \
            "Traceback" not in errors:
        return None
    return "%s: status %d: %s%s" % (name, done.returncode,
                                    done.stdout.decode(), errors)


class Programs(unittest.TestCase):
    def test_programs(self):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            wrong = [text for text in pool.map(run, PROGRAMS) if text]
        self.assertEqual(wrong, [], "\n".join(wrong))

    def test_storm(self):
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-W", "ignore",
             os.path.join(HERE, "storm.py"), str(os.getpid()), "1.5"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
            env=dict(os.environ, PYTHONMALLOC="debug",
                     PYTHONPATH=os.pathsep.join(sys.path)))
        text = "seed %d: %s" % (os.getpid(), done.stdout.decode())
        self.assertEqual(done.returncode, 0, text)
        self.assertIn("ended", text)


if __name__ == "__main__":
    unittest.main()
