# SPDX-License-Identifier: MIT
"""backend.py: builds the wheel, for pip (PEP 517), with a C compiler only.

It compiles the files of ../../sources and of this folder, and zips the result. So
an installation needs no network, and no other package. A source distribution
keeps the layout of the tree, without folders that it needs no file of. An
editable installation (PEP 660) has what is compiled and the headers that it was
compiled with, and takes the Python files from the tree.

In the environment: CC, CFLAGS, LDFLAGS; and USCHED_OBJECTS, a folder for objects
of the library, which another build may use again.
"""

import base64
import concurrent.futures
import hashlib
import io
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))    # as in an sdist
INCLUDE = os.path.join(TOP, "include", "usched")
PACKAGE = "usched_engine"
OWN = ["pymodule", "pycall", "pyport", "pyrecord", "pyfunction", "pysee",
       "pybus", "pyerror"]
SUMMARY = "C functions as tasks: awaitable, bounded, prioritized, without the GIL"


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def version():
    return re.search(r'USCHED_VERSION "(.*)"', read(TOP, "usched.h")).group(1)


def sources():
    """Returns the paths of the library's sources."""
    return [os.path.join(TOP, name) for name in read(TOP, "sources").split()]


def folders():
    """Returns the folders of the library, and of what programs include."""
    return [INCLUDE] + sorted({os.path.dirname(path) for path in sources()})


def headers_in(folder):
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))
            if name.endswith(".h")]


def headers():
    """Returns the paths of the headers, of links, and of what these lead to."""
    core = os.path.join(TOP, "core")    # which usched.c includes by its path
    paths = [path for folder in
             folders() + [core, os.path.join(core, "machine"),
                          os.path.join(INCLUDE, "private")]
             for path in headers_in(folder)]
    top = os.path.realpath(TOP)
    paths += [os.path.join(TOP, os.path.relpath(os.path.realpath(path), top))
              for path in paths]
    return sorted(set(paths)) + [os.path.join(INCLUDE, "core")]


# Compiling

def compiler():
    return shlex.split(os.environ.get("CC") or
                       sysconfig.get_config_var("CC") or "cc")


def compile_one(source, target, flags):
    subprocess.run(compiler() + ["-std=gnu11", "-O2", "-g", "-fPIC",
                                 "-pthread", "-DUSCHED_NAMES"] +
                   ["-I" + folder for folder in folders()] + flags +
                   shlex.split(os.environ.get("CFLAGS", "")) +
                   ["-c", "-o", target, source], check=True)


def compile_all(folder):
    """Compiles what is not there, and returns the objects."""
    kept = os.environ.get("USCHED_OBJECTS") or folder
    os.makedirs(kept, exist_ok=True)
    include = "-I" + sysconfig.get_path("include")
    jobs = [(path, os.path.join(kept, os.path.basename(path)[:-1] + "o"), [])
            for path in sources()]
    jobs = [job for job in jobs if not os.path.exists(job[1])]
    jobs += [(os.path.join(HERE, name + ".c"),
              os.path.join(folder, name + ".o"), ["-Wall", "-Wextra", include])
             for name in OWN]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in [pool.submit(compile_one, *job) for job in jobs]:
            done.result()
    return [os.path.join(kept, os.path.basename(path)[:-1] + "o")
            for path in sources()] + \
        [os.path.join(folder, name + ".o") for name in OWN]


def suffix():
    return sysconfig.get_config_var("EXT_SUFFIX") or ".so"


def build_module(folder):
    """Makes the extension module in a folder, and returns its path."""
    path = os.path.join(folder, "_usched" + suffix())
    shared = ["-bundle", "-undefined", "dynamic_lookup"] \
        if sys.platform == "darwin" else ["-shared"]
    subprocess.run(compiler() + shared + ["-pthread"] +
                   shlex.split(os.environ.get("LDFLAGS", "")) +
                   ["-o", path] + compile_all(folder) + ["-lm"], check=True)
    return path


# The wheel

def tag():
    python = "cp%d%d" % sys.version_info[:2]
    abi = python + ("t" if sysconfig.get_config_var("Py_GIL_DISABLED") else "")
    if sys.version_info < (3, 8):
        raise SystemExit("backend.py: Python 3.8 or newer is needed")
    return "%s-%s-%s" % (python, abi, re.sub(r"[-.]", "_",
                                             sysconfig.get_platform()))


# Words of https://pypi.org/classifiers.
CLASSIFIERS = [
    "Development Status :: 4 - Beta", "Framework :: AsyncIO",
    "Intended Audience :: Developers", "License :: OSI Approved :: MIT License",
    "Operating System :: POSIX", "Operating System :: POSIX :: Linux",
    "Programming Language :: C", "Programming Language :: Cython",
    "Programming Language :: Python :: 3",
    "Programming Language :: Python :: Implementation :: CPython",
    "Topic :: System :: Distributed Computing", "Typing :: Typed",
]


def metadata():
    return ("Metadata-Version: 2.1\nName: usched\nVersion: %s\nSummary: %s\n"
            "License: MIT\nLicense-File: LICENSE\nRequires-Python: >=3.8\n"
            "Keywords: threads,asyncio,ctypes,executor,scheduler\n%s"
            "Description-Content-Type: text/markdown\n\n%s" %
            (version(), SUMMARY,
             "".join("Classifier: %s\n" % word for word in CLASSIFIERS),
             read(HERE, "README.md")))


def package_files():
    """Returns pairs: the name in the wheel, and the path here."""
    folder = os.path.join(HERE, PACKAGE)
    return [(PACKAGE + "/" + name, os.path.join(folder, name))
            for name in sorted(os.listdir(folder))
            if name.endswith((".py", ".pyi", ".pxd", ".typed"))]


def include_files():
    """The headers as <usched/...>; usched.h finds its parts in core/ there."""
    return [("%s/include/usched/%s" % (PACKAGE, os.path.relpath(path, INCLUDE)),
             path)
            for folder in (INCLUDE, os.path.join(INCLUDE, "private"),
                           os.path.join(INCLUDE, "core"))
            for path in headers_in(folder)]


def old_headers():
    """Pairs of a name and bytes: the headers without usched/ in front, as in
    the release before."""
    names = [os.path.basename(path) for path in headers_in(INCLUDE)]
    renamed = re.search(r"(?m)^OLD\s*:=(.*)", read(TOP, "Makefile")).group(1)
    return [("%s/include/%s" % (PACKAGE, old),
             ('#include "usched/%s"\n' % new).encode())
            for old, new in [(name, name) for name in names] +
            [old.split(":") for old in renamed.split()]]


def hashed(data):
    digest = hashlib.sha256(data).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def write_wheel(wheel_directory, files):
    """Writes a wheel: files (pairs of a name and bytes), what is compiled, and
    the headers. Returns its name."""
    name = "usched-%s-%s.whl" % (version(), tag())
    info = "usched-%s.dist-info" % version()
    with tempfile.TemporaryDirectory() as folder:
        pairs = include_files()
        pairs.append(("%s/_usched%s" % (PACKAGE, suffix()),
                      build_module(folder)))
        contents = files + contents_of(pairs) + old_headers()
    contents += [
        (info + "/METADATA", metadata().encode()),
        (info + "/WHEEL", ("Wheel-Version: 1.0\nGenerator: usched\n"
                           "Root-Is-Purelib: false\nTag: %s\n" %
                           tag()).encode()),
        (info + "/LICENSE", read(TOP, "LICENSE").encode()),
    ]
    record = "".join("%s,%s,%d\n" % (to, hashed(data), len(data))
                     for to, data in contents)
    contents.append((info + "/RECORD",
                     (record + info + "/RECORD,,\n").encode()))
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w",
                         zipfile.ZIP_DEFLATED) as wheel:
        for to, data in contents:
            entry = zipfile.ZipInfo(to, (2020, 1, 1, 0, 0, 0))
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return name


def contents_of(pairs):
    """Returns pairs of a name and bytes."""
    contents = []
    for to, path in pairs:
        with open(path, "rb") as file:
            contents.append((to, file.read()))
    return contents


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory, contents_of(package_files()))


# In an editable installation, the package finds its other files in the tree.
EDITABLE = """# Made by %(backend)s for an editable installation.
__path__.insert(0, %(folder)r)
with open(%(init)r, encoding="utf-8") as _file:
    exec(compile(_file.read(), %(init)r, "exec"))
del _file
"""


def build_editable(wheel_directory, config_settings=None,
                   metadata_directory=None):
    folder = os.path.join(HERE, PACKAGE)
    init = EDITABLE % {"backend": os.path.join(HERE, "backend.py"),
                       "folder": folder,
                       "init": os.path.join(folder, "__init__.py")}
    pxd = [pair for pair in package_files() if pair[0].endswith(".pxd")]
    return write_wheel(wheel_directory, contents_of(pxd) +
                       [(PACKAGE + "/__init__.py", init.encode())])


def build_sdist(sdist_directory, config_settings=None):
    """Keeps the layout of the tree; this folder's project file is on top."""
    base = "usched-" + version()
    paths = sources() + headers() + [os.path.join(TOP, name) for name in
                                     ("Makefile", "LICENSE", "sources")]
    for name in sorted(os.listdir(HERE)):
        if os.path.isfile(os.path.join(HERE, name)):
            paths.append(os.path.join(HERE, name))
    paths += [path for _, path in package_files()]
    with tarfile.open(os.path.join(sdist_directory, base + ".tar.gz"), "w:gz",
                      format=tarfile.PAX_FORMAT) as tar:
        for path in paths:
            tar.add(path, base + "/" + os.path.relpath(path, TOP))
        top = read(HERE, "pyproject.toml").replace('["."]', '["ext/python"]')
        for name, text in (("pyproject.toml", top), ("PKG-INFO", metadata())):
            entry = tarfile.TarInfo(base + "/" + name)
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return base + ".tar.gz"


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_sdist = get_requires_for_build_wheel
get_requires_for_build_editable = get_requires_for_build_wheel


if __name__ == "__main__":
    # python3 backend.py FOLDER: puts the package there, to try it.
    _name = build_wheel(sys.argv[1])
    with zipfile.ZipFile(os.path.join(sys.argv[1], _name)) as _wheel:
        _wheel.extractall(sys.argv[1])
    os.remove(os.path.join(sys.argv[1], _name))
