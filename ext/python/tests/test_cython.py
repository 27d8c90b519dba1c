# SPDX-License-Identifier: MIT
"""usched.pxd says what the headers say, and a Cython program runs coroutines
without the GIL, and tasks."""

import errno
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import unittest

import usched_engine

HERE = os.path.dirname(os.path.abspath(__file__))
PXD = os.path.join(os.path.dirname(usched_engine.__file__), "usched.pxd")
EXAMPLE = os.path.join(HERE, os.pardir, "examples", "coroutines.pyx")
CC = shlex.split(os.environ.get("CC") or "cc")
# Functions that no Cython program needs: see usched.pxd.
LEFT_OUT = re.compile(r"_(done|sched|preempt|slow|native|by|check|self|change|"
                      r"own|owner|caller|state)$|^engine_(host|thread|get_call)|"
                      r"^(rr_make_here|ws_gate_of|ws_is|ws_slot|ws_displaced|ws_wait_first|"
                      r"ucall_pool_|ucall_until$|ucall_lookup$|ubarrier_init$)")


def declarations():
    """Yields (header, line number, text, the outer declaration's text)."""
    header, begun, text, inside = None, 0, "", ""
    with open(PXD) as file:
        lines = list(enumerate(file, 1))
    for number, line in lines:
        found = re.match(r'cdef extern from "<?(.*?)>?"', line)
        if found:
            header = found.group(1)
        if header is None or not line.startswith("    ") or found:
            continue
        if not text:
            begun, outer = number, not line.startswith("     ")
        text = (text + " " + line.strip()).strip()
        if text.count("(") != text.count(")"):
            continue
        if outer:
            inside = text
        yield header, begun, text, inside
        text = ""


def tags():
    return {found.group(2): found.group(1) + " " + found.group(2)
            for _, _, text, _ in declarations()
            for found in [re.match(r"(struct|enum) (\w+):", text)] if found}


def in_c(text):
    """Translates a declaration to C."""
    known = tags()
    text = re.sub(r" (noexcept|nogil)", "", text)
    text = text.replace("()", "(void)")
    return re.sub(r"\b\w+\b(?=[ *])", lambda found: known.get(
        found.group(0), found.group(0)), text)


FUNCTION = re.compile(r'([\w ]+?[ *]+)(\w+)(?: "(\w+)")?(\(.*\))$')
MEMBER = re.compile(r"struct (\w+):$")


def functions():
    """Yields (line number, C name, result, arguments, name here)."""
    for _, number, text, _ in declarations():
        found = FUNCTION.match(text)
        if found and "(*" not in found.group(1) and \
                not text.startswith("ctypedef"):
            result, name, cname, arguments = found.groups()
            yield number, cname or name, result, arguments, name


def members():
    """Yields (line number, struct, declaration of a pointer p to a member,
    name)."""
    for _, number, text, inside in declarations():
        struct = MEMBER.match(inside)
        if struct is None or text == inside or text == "pass":
            continue
        name = re.search(r"\(\*(\w+)\)|(\w+)$", text)
        name = name.group(1) or name.group(2)
        yield number, struct.group(1), re.sub(
            r"\b%s\b" % name, "*p" if "(*" in text else "(*p)", text), name


def program(result_of=lambda result: result, type_of=lambda text: text):
    """Returns C in which each function and member has a line to be checked."""
    headers = dict.fromkeys(header for header, *_ in declarations())
    lines = ["#include <%s>" % header for header in headers]
    for number, name, result, arguments, _ in functions():
        lines.append("#line %d" % number)
        lines.append("%s (*check_%s)%s = %s;" % (
            result_of(in_c(result + "x")[:-1]), name, in_c(arguments), name))
    for number, struct, pointer, name in members():
        lines.append("#line %d" % number)
        lines.append("void look_%d(struct %s *s) { %s = &s->%s; (void)p; }" % (
            number, struct, type_of(in_c(pointer)), name))
    return "\n".join(lines) + "\n"


class Pxd(unittest.TestCase):
    def compile(self, text):
        done = subprocess.run(
            CC + ["-std=gnu11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
                  "-fmax-errors=0" if "clang" not in CC[0] else
                  "-ferror-limit=0",
                  "-I" + usched_engine.get_include(), "-xc", "-"],
            input=text.encode(), stderr=subprocess.PIPE)
        return done.stderr.decode()

    def test_same_as_the_headers(self):
        self.assertGreater(len(list(functions())), 150)
        self.assertGreater(len(list(members())), 30)
        self.assertEqual(self.compile(program()), "")

    def test_a_difference_is_found(self):
        other = {"int": "long", "long": "int", "void": "int"}
        errors = self.compile(program(
            lambda result: other.get(result.strip(), "float *"),
            lambda text: text.replace("(*p)", "(**p)")
            if "(*p)" in text else text.replace("(**p)(", "(**p)(char *, ")))
        found = {int(number) for number in
                 re.findall(r"(?m)^<stdin>:(\d+):\d+: error", errors)}
        wanted = {one[0] for one in functions()} | \
            {one[0] for one in members()}
        self.assertEqual(found, wanted)

    def test_complete(self):
        declared = {name for _, name, *_ in functions()}
        for header in ("uengine", "usync", "uchan", "uscope", "uthread", "ws",
                       "rr", "ll", "ucall"):
            with open(os.path.join(usched_engine.get_include(),
                                   "usched", header + ".h")) as file:
                names = re.findall(r"(?m)^(?!static|typedef|extern)[a-zA-Z]"
                                   r"[\w ]*[ *](\w+)\([^()]*(?:\([^()]*\)"
                                   r"[^()]*)*\);", file.read())
            self.assertTrue(names)
            self.assertEqual([name for name in names if name not in declared
                              and not LEFT_OUT.search(name)], [], header)


@unittest.skipUnless(importlib.util.find_spec("Cython"),
                     "no Cython (package cython3)")
class Cython(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)

    def build(self, name, text, flags=()):
        """Compiles a module, and returns the folder that it is in."""
        source = os.path.join(self.folder.name, name + ".pyx")
        with open(source, "w") as file:
            file.write(text)
        for command in (
                [sys.executable, "-m", "cython", "-3", "-Werror", source],
                CC + ["-shared", "-fPIC", "-pthread", "-Wall", "-Werror",
                      *flags, "-I" + sysconfig.get_path("include"),
                      "-I" + usched_engine.get_include(), "-o",
                      os.path.join(self.folder.name, name + ".so"),
                      source[:-3] + "c"]):
            done = subprocess.run(command, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, 0, done.stdout.decode())

    def run_python(self, text):
        path = os.pathsep.join([self.folder.name] + sys.path)
        done = subprocess.run([sys.executable, "-c", text], timeout=60,
                              cwd=self.folder.name,
                              env=dict(os.environ, PYTHONPATH=path),
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        return done.stdout.decode()

    def test_coroutines(self):
        with open(EXAMPLE) as file:
            self.build("coroutines", file.read())
        self.assertEqual(self.run_python(
            "import usched_engine as u; u.share_symbols()\n"
            "import coroutines; coroutines.main()\n"
            "with u.Engine() as e:\n"
            "    f = coroutines.__pyx_capi__['fibonacci']\n"
            "    print(e.c_spawn(f, (90,)).result(), u.get_c_function(f).name)"
            "\n    try: coroutines.yields()\n"
            "    except OSError as error: print(error.errno)\n"
            "print(coroutines.empty(10)[0] > 0)"),
            "1000 coroutines: 10000\nwith 12 workers: 10000\n"
            "50 blocking calls: 50\n"
            "100 times the 90th number: 288006719437081612000\n"
            "2880067194370816120 uint64_t (long)\n"
            "usched: ws_init: there is a scheduler already, until ws_fini()\n"
            "%d\nTrue\n" % errno.EBUSY)

    def test_all_names(self):
        lines = ["from usched_engine.usched cimport *"]
        for number, _, result, arguments, name in functions():
            lines.append("cdef %s(*check_%s)%s nogil\ncheck_%s = %s" % (
                result, number, arguments, number, name))
        for number, struct, pointer, name in members():
            lines.append("cdef void look_%d(%s *s):\n    "
                         "s.%s = s.%s" % (number, struct, name, name))
        self.build("names", "\n".join(lines) + "\n",
                   ["-O0", "-Wno-unused", "-Wno-array-bounds"])


if __name__ == "__main__":
    unittest.main()
