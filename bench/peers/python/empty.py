# SPDX-License-Identifier: MIT
"""Empty threads of Python: asyncio's tasks, uvloop's, and gevent's greenlets.

usage: %(name)s empty NR P
       %(name)s batches NR B P
seconds. NR threads, at once or B at a time; P native threads, 1

fork.h says what is measured, and what "empty" and "batches" mean. No other
question of it, and no ring, is answered here. P is 1, since an interpreter runs
one thread at a time.

How. The last word of the program's name says whose threads it makes. The time
begins in the root, which is a task or a greenlet itself, so the loop runs.
Imports and the start of the loop are not in it. A thread adds one to a count.

  - Tasks are made and waited for by gather(), which starts none before the
    last is made. create_task() for each, and a future that the last thread
    sets, took the same time.
  - uvloop is another loop below the same tasks of asyncio.
  - Greenlets are made by gevent.spawn() and waited for by joinall(). An event
    that the last thread sets took the same time. Rejected: gevent.spawn_raw(),
    which takes 0.8 of it, as no greenlet of it can be waited for.
  - The collector of cycles is on, as it is for users.
"""
import os
import sys
import time

INT_MAX = 2147483647


def main(argv):
    name = os.path.basename(argv[0])
    try:
        batches = asked(argv[1:])
    except ValueError as why:
        usage = __doc__[__doc__.index("usage"):].split("\n\n")[0]
        print(f"{name}: {why}", usage % {"name": name}, sep="\n",
              file=sys.stderr)
        return 2
    ran, seconds = ROOTS[name.rpartition("-")[2]](batches)
    if ran != sum(batches):
        print(f"{name}: {ran} of {sum(batches)} threads ran", file=sys.stderr)
        return 1
    print(f"{seconds:.6f}")
    return 0


def asked(words):
    """Returns the sizes of the batches."""
    if words[:1] not in (["empty"], ["batches"]):
        raise ValueError("what?")
    if len(words) != (3 if words[0] == "empty" else 4):
        raise ValueError("too few or too many arguments")
    nr, size, processors = whole(words[1]), whole(words[-2]), whole(words[-1])
    if processors != 1:
        raise ValueError("there is one native thread: P is 1")
    full, rest = divmod(nr, size)
    return [size] * full + [rest] * (rest > 0)


def whole(word):
    if not (word.isascii() and word.isdigit() and len(word) <= 10 and
            1 <= int(word) <= INT_MAX):
        raise ValueError("not a number, or out of range")
    return int(word)


def tasks(batches):
    import asyncio
    return asyncio.run(task_root(batches))


def tasks_on_uvloop(batches):
    import asyncio
    import uvloop
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    return tasks(batches)


async def task_root(batches):
    import asyncio
    ran = 0

    async def thread():
        nonlocal ran
        ran += 1

    start = time.perf_counter()
    for size in batches:
        await asyncio.gather(*[thread() for _ in range(size)])
    return ran, time.perf_counter() - start


def greenlets(batches):
    import gevent
    return gevent.spawn(greenlet_root, batches).get()


def greenlet_root(batches):
    import gevent
    ran = 0

    def thread():
        nonlocal ran
        ran += 1

    start = time.perf_counter()
    for size in batches:
        gevent.joinall([gevent.spawn(thread) for _ in range(size)])
    return ran, time.perf_counter() - start


ROOTS = {"asyncio": tasks, "uvloop": tasks_on_uvloop, "gevent": greenlets}

if __name__ == "__main__":
    sys.exit(main(sys.argv))
