# SPDX-License-Identifier: MIT
"""Mandelbrot's set by tiles: a C function fills parts of a Python buffer.

usage: python3 mandelbrot.py [--size PIXELS] [--tile PIXELS] [--limit STEPS]
	[--check] [FILE.png]

Each tile is a task, which an event loop awaits while it shows the progress. The
times are those of one worker, of two, and of two threads of a
ThreadPoolExecutor that call the function by ctypes. --check compares the
pictures with that of a single call.
"""

import argparse
import asyncio
import concurrent.futures
import ctypes
import functools
import os
import struct
import subprocess
import sys
import tempfile
import time
import zlib

from usched_engine import Engine

HERE = os.path.dirname(os.path.abspath(__file__))
LEFT, TOP, WIDE = -2.05, 1.3, 2.6       # of the picture, in the plane


def library():
    """Compiles mandelbrot.c, and loads it."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mandelbrot.so")
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC",
                        "-o", path, os.path.join(HERE, "mandelbrot.c")],
                       check=True)
        return ctypes.CDLL(path)


class Picture:
    """Square, with a byte for each pixel."""

    def __init__(self, options):
        self.size, self.limit = options.size, options.limit
        self.pixels = bytearray(self.size ** 2)     # or a NumPy array

    def tiles(self, tile):
        """Returns the arguments of a call for each tile."""
        return [(self.pixels, self.size, x, y, tile, self.limit, LEFT, TOP,
                 WIDE / self.size)
                for y in range(0, self.size, tile)
                for x in range(0, self.size, tile)]

    def write(self, path):
        """Writes a PNG of 256 colors."""
        lines = [b"\0" + self.pixels[n:n + self.size]
                 for n in range(0, len(self.pixels), self.size)]
        colors = b"".join(bytes((min(255, 4 * n), min(255, 12 * n),
                                min(255, 60 + 16 * n)))
                          for n in range(255))
        with open(path, "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n")
            for name, data in (
                    (b"IHDR", struct.pack(">IIBBBBB", self.size, self.size,
                                          8, 3, 0, 0, 0)),
                    (b"PLTE", b"\0\0\0" + colors),
                    (b"IDAT", zlib.compress(b"".join(lines))),
                    (b"IEND", b"")):
                file.write(struct.pack(">I", len(data)) + name + data +
                           struct.pack(">I", zlib.crc32(name + data)))


async def draw(engine, function, tiles):
    """Awaits the tiles, and shows how many are done."""
    futures = [engine.c_spawn(function, args) for args in tiles]
    for done, future in enumerate(futures, 1):
        await future
        if sys.stderr.isatty():
            print("\r%d of %d tiles\r" % (done, len(futures)), end="",
                  file=sys.stderr)


def by_engine(workers, tile_of, tiles):
    """Returns the seconds that the tiles take."""
    with Engine(workers, gil_threads=0, policy="FIFO") as engine:
        begin = time.perf_counter()
        asyncio.run(draw(engine, engine.get_c_function(tile_of), tiles))
        return time.perf_counter() - begin


def by_threads(tile_of, tiles):
    kind = ctypes.c_char * len(tiles[0][0])
    pixels = kind.from_buffer(tiles[0][0])
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        begin = time.perf_counter()
        list(pool.map(lambda args: tile_of(pixels, *args[1:]), tiles))
        return time.perf_counter() - begin


WAYS = {
    "engine, 1 worker": functools.partial(by_engine, 1),
    "engine, 2 workers": functools.partial(by_engine, 2),
    "ThreadPoolExecutor, 2 threads": by_threads,
}


def check(tile_of, options, pictures):
    """Compares the pictures with that of a single call."""
    whole = Picture(options)
    [args] = whole.tiles(options.size)
    kind = ctypes.c_char * len(whole.pixels)
    tile_of(kind.from_buffer(whole.pixels), *args[1:])
    for name, picture in pictures.items():
        if picture.pixels != whole.pixels:
            sys.exit("mandelbrot.py: %s: another picture than that of a "
                     "single call" % name)
    print("all pictures have the checksum %08x" % zlib.crc32(whole.pixels))


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--tile", type=int, default=32)
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("file", nargs="?", default="mandelbrot.png")
    options = parser.parse_args()
    if options.size < 1 or options.tile < 1 or options.size % options.tile:
        parser.error("--size must be a multiple of --tile")
    return options


def main():
    options = arguments()
    tile_of = library().tile
    tile_of.argtypes = [ctypes.c_void_p] + 5 * [ctypes.c_int] + \
        3 * [ctypes.c_double]
    pictures, first = {}, None
    for name, way in WAYS.items():
        pictures[name] = Picture(options)
        took = way(tile_of, pictures[name].tiles(options.tile))
        first = first or took
        print("%-30s %7.3f s  %5.2f times one worker"
              % (name, took, first / took))
    if options.check:
        check(tile_of, options, pictures)
    pictures["engine, 2 workers"].write(options.file)


if __name__ == "__main__":
    main()
