# SPDX-License-Identifier: MIT
# cython: language_level=3, cdivision=True
"""
coroutines.pyx: coroutines on all cpus, without the GIL, written in Cython.

A coroutine is a thread of ws. It keeps its locals while it waits, and idle
workers steal it. Build and run, after "pip install ./ext/python":

    cython3 coroutines.pyx
    cc -O2 -shared -fPIC $(python3-config --includes) -o coroutines.so \\
        -I$(python3 -c 'import usched_engine as u; print(u.get_include())') \\
        coroutines.c
    python3 -c 'import usched_engine as u; u.share_symbols()
    import coroutines; coroutines.main()'
"""

import os
import time

from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free
from posix.unistd cimport usleep
from usched_engine.usched cimport (ucall, ws_fini, ws_init, ws_spawn, ws_start,
                                   ws_yield)


cdef void doubles(void *arg) noexcept nogil:
    cdef uint64_t *result = <uint64_t *>arg
    cdef int local = 5

    ws_yield()                  # others run; it may go on on another cpu
    local *= 2
    result[0] = local


cdef api uint64_t fibonacci(long n) noexcept nogil:
    """The n-th number modulo 2^64. Also a task: for c_spawn()."""
    cdef uint64_t a = 0, b = 1

    while n > 0:
        a, b = b, a + b
        n -= 1
    return a


cdef void computes(void *arg) noexcept nogil:
    cdef uint64_t *result = <uint64_t *>arg

    result[0] = fibonacci(<long>result[0])


cdef void naps(void *arg) noexcept nogil:
    usleep(20000)               # blocks a native thread, but no worker
    (<uint64_t *>arg)[0] = 1


cdef void detaches(void *arg) noexcept nogil:
    ucall(naps, arg)


cdef void nothing(void *arg) noexcept nogil:
    pass


cdef int spawn_all(void (*f)(void *) noexcept nogil, uint64_t *results,
                   long nr) noexcept nogil:
    cdef int rc = 0
    cdef long n = 0

    while n < nr and rc == 0:
        rc = ws_spawn(f, results + n)
        n += 1
    return rc


cdef run(void (*f)(void *) noexcept nogil, long nr, int workers,
         uint64_t first):
    """Runs nr coroutines. Returns the sum of their results, and the seconds
    that it took to make them, and to run them."""
    cdef uint64_t *results = <uint64_t *>calloc(max(nr, 1), sizeof(uint64_t))
    cdef long n
    cdef int rc, end = 0
    begun = time.perf_counter()
    if results == NULL:
        raise MemoryError
    for n in range(nr):
        results[n] = first
    with nogil:
        rc = ws_init(workers, 0)
        if rc == 0:
            rc = spawn_all(f, results, nr)
    made = time.perf_counter()
    if rc == 0:
        with nogil:
            rc = ws_start()
            end = ws_fini()
    total = sum([results[n] for n in range(nr)])
    free(results)
    if rc < 0 or end < 0:
        raise OSError(-(rc or end), os.strerror(-(rc or end)))
    return total, made - begun, time.perf_counter() - made


def yields(nr=1000, workers=0):
    """Runs coroutines that yield once. workers: 0: as many as cpus."""
    return run(doubles, nr, workers, 0)[0]


def numbers(nr, n, workers=0):
    """Computes the n-th Fibonacci number in each of nr coroutines."""
    return run(computes, nr, workers, n)[0]


def blocking(nr, workers=0):
    """Detaches a blocking call from each of nr coroutines."""
    return run(detaches, nr, workers, 0)[0]


def empty(nr, workers=0):
    """Returns the seconds to make nr empty coroutines, and to run them."""
    return run(nothing, nr, workers, 0)[1:]


def main():
    print("1000 coroutines:", yields(1000))
    print("with 12 workers:", yields(1000, 12))
    print("50 blocking calls:", blocking(50))
    print("100 times the 90th number:", numbers(100, 90))
