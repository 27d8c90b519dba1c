#!/bin/sh
# SPDX-License-Identifier: MIT
# python.sh: the Python face of the engine installs by pip without a network,
# by the commands of ext/python/README.md and from its source distribution, and its
# example and tests pass, with each interpreter that has its headers. The library
# in it has each function of each header of <usched/all.h>.
# With the first, CPython's tests of ThreadPoolExecutor pass with Executor in its
# place, the tiles of ext/python/examples/mandelbrot.py make the picture
# of a single call, bench/python measures what it names, and mypy finds no fault in
# the types of the package.
# PYTHONS chooses the interpreters.

cd "$(dirname "$0")/../../.." || exit 1
top=$PWD
. test/run/layout
. test/run/count

export USCHED_OBJECTS="$dir/objects" USCHED_TEST_LIBRARY="$dir/library.so"
export PYTHONDONTWRITEBYTECODE=1

# The output of the last command is in $dir/out.
verdict() { # what
	judge $(($? != 0)) "$1" "$dir/out"
}

# The example of the README, in a fresh environment. What is installed last is
# what pip was given.
example() { # interpreter, name, what, arguments of pip
	venv=$dir/venv-$2/bin/python what="$3 with $1"
	shift 3
	PIP_NO_INDEX=1 PIP_FIND_LINKS='' timeout 300 "$venv" -m pip install \
		-q --force-reinstall "$@" >"$dir/out" 2>&1
	verdict "pip install $what" || return
	(cd "$dir" && timeout 20 "$venv" example.py) >"$dir/out" 2>&1 &&
		[ "$(cat "$dir/out")" = 5 ]
	verdict "the example of ext/python/README.md from $what"
}

# The source distribution lies outside of the tree, and is compiled: no object
# of the tree stands in for a file that it lacks.
distributed() { # interpreter, name
	(cd ext/python && "$1" -c 'import backend, sys
print(backend.build_sdist(sys.argv[1]))' "$dir") >"$dir/sdist" 2>"$dir/out"
	verdict "the source distribution with $1" || return
	kept=$USCHED_OBJECTS USCHED_OBJECTS=
	example "$1" "$2" 'the source distribution' "$dir/$(cat "$dir/sdist")"
	USCHED_OBJECTS=$kept
}

# A change of the tree is seen, and what is compiled lies outside of it.
editable() { # interpreter, name
	mkdir "$dir/tree" &&
		tar xzf "$dir/$(cat "$dir/sdist")" -C "$dir/tree" \
			--strip-components 1 >"$dir/out" 2>&1
	verdict "the source distribution unpacks" || return
	cd "$dir/tree" || exit 1
	example "$1" "$2" 'an editable tree' $(told '-e [^`]*')
	cd - >/dev/null || exit 1
	echo 'seen = 1' >>"$dir/tree/ext/python/usched_engine/_see.py"
	(cd "$dir" && "$dir/venv-$2/bin/python" -c '
import os, usched_engine as u
assert u._see.seen and "uengine.h" in os.listdir(u.get_include() + "/usched")
assert not [name for name in os.listdir(os.path.dirname(u._see.__file__))
            if name.endswith(".so")]') >"$dir/out" 2>&1
	verdict "a change of an editable tree with $1"
}

# What ext/python/README.md gives to pip install, in the tree.
told() { # pattern
	grep -o "\`pip install $1\`" "$top/ext/python/README.md" | sed 's/.* install //; s/`//'
}

fresh() { # interpreter, name
	if ! "$1" -m venv "$dir/venv-$2" >"$dir/out" 2>&1; then
		skip "a fresh environment with $1 (package python3-venv)"
		return 0
	fi
	sed -n '/^```python/,/^```$/{/^```/d;p;}' ext/python/README.md \
		>"$dir/example.py"
	example "$1" "$2" 'the tree' $(told '\.[^`]*')
	distributed "$1" "$2" && editable "$1" "$2"
}

tests() { # interpreter, name
	mkdir -p "$dir/$2" &&
		"$1" ext/python/backend.py "$dir/$2" >"$dir/out" 2>&1 &&
		! grep -q warning: "$dir/out"
	verdict "ext/python/backend.py with $1" || return
	{ every_call && echo 'int main(void) { return every_call[0] == 0; }'; } >"$dir/calls.c" &&
		${CC:-cc} -w -Iinclude -include usched/all.h "$dir/calls.c" \
			"$dir"/objects/*.o -pthread -lm -o "$dir/calls" >"$dir/out" 2>&1 &&
		"$dir/calls"
	verdict "the library of ext/python/backend.py with $1"
	PYTHONPATH=$dir/$2 timeout 300 "$1" -W error::ResourceWarning \
		-m unittest discover -v -s ext/python/tests >"$dir/out" 2>&1
	verdict "ext/python/tests with $1" || return
	sed -n "s/.* \.\.\. skipped [\"']\(.*\)[\"']\$/\1/p" "$dir/out" |
		sort | uniq -c >"$dir/skips"
	while read -r nr why; do
		skip "$nr tests with $1: $why"
	done <"$dir/skips"
}

# The picture has as many bytes as its header says.
pictures() { # interpreter, name
	PYTHONPATH=$dir/$2 timeout 20 "$1" ext/python/examples/mandelbrot.py \
		--size 192 --tile 16 --check "$dir/picture.png" \
		>"$dir/out" 2>&1 && grep -q '^all pictures' "$dir/out" &&
		"$1" - "$dir/picture.png" >>"$dir/out" 2>&1 <<-'END'
	import re, sys, zlib
	data = open(sys.argv[1], "rb").read()
	length = int.from_bytes(data.split(b"IDAT")[0][-4:], "big")
	lines = zlib.decompress(data.split(b"IDAT")[1][:length])
	assert len(lines) == 192 * 193 and len(set(lines)) > 50
	END
	verdict "ext/python/examples/mandelbrot.py with $1"
}

# CPython's tests of ThreadPoolExecutor, with Executor in its place: in all programs
# that they start, too, so a .pth of an environment puts it there.
suite() { # interpreter, name
	if ! "$1" -c 'import test.test_concurrent_futures' 2>/dev/null; then
		skip "CPython's tests with $1 (package $("$1" -c 'import sys
print("libpython%d.%d-testsuite" % sys.version_info[:2])'))"
		return 0
	fi
	venv=$dir/suite/bin/python
	"$1" -m venv --without-pip "$dir/suite" >"$dir/out" 2>&1 &&
		site=$("$venv" -c 'import site
print(site.getsitepackages()[0])') &&
		printf '%s\nimport in_place\n' "$dir/$2" >"$site/in_place.pth" &&
		cat >"$site/in_place.py" <<-'END'
	import concurrent.futures, concurrent.futures.thread
	from usched_engine import Executor
	class ThreadPoolExecutor(Executor):
	    pass
	concurrent.futures.ThreadPoolExecutor = ThreadPoolExecutor
	concurrent.futures.thread.ThreadPoolExecutor = ThreadPoolExecutor
	END
	timeout 600 "$venv" -m unittest -v -k ThreadPool \
		test.test_concurrent_futures >"$dir/out" 2>&1 &&
		[ "$(grep -c ' ok$' "$dir/out")" -ge 40 ] &&
		"$venv" -c 'from concurrent.futures import ThreadPoolExecutor as t
import usched_engine
assert issubclass(t, usched_engine.Executor)' >>"$dir/out" 2>&1
	verdict "CPython's tests of ThreadPoolExecutor with $1"
}

# The package itself has the types that it says, without exceptions.
typed() { # interpreter
	if ! "$1" -m mypy --version >/dev/null 2>&1; then
		skip "mypy with $1 (mypy of PyPI)"
		return 0
	fi
	"$1" -m mypy --strict --cache-dir="$dir/mypy" ext/python/usched_engine >"$dir/out" 2>&1
	verdict "mypy --strict with $1"
}

# Each column answers, and the table has the row that is asked for.
measures() { # interpreter, name
	if ! "$1" -c 'from asyncio import to_thread' 2>/dev/null; then
		skip "bench/python with $1: older than 3.9"
		return
	fi
	make -s -C bench/python work.so >"$dir/out" 2>&1
	verdict 'bench/python/work.c' || return
	for only in one-e batch-s latency memory-b; do
		ENGINE=$dir/$2 timeout 60 "$1" bench/run.py python --built --quick \
			--only $only --to "$dir/to" >"$dir/out" 2>&1 &&
			cat "$dir/to/python.txt" >>"$dir/python.txt"
		verdict "bench/python: $only with $1" || return
	done
	"$1" bench/run.py python --from "$dir/python.txt" >"$dir/out" 2>&1
	while read -r row pattern; do
		grep -qE "^\| $row \| 2 $pattern" "$dir/out"
		verdict "bench/python: the row $row of the table: $pattern"
	done <<-'END'
	one \| [0-9.]+ x[0-9.]+ \| [0-9.]+ \| [0-9.]+ x[0-9.]+ \| [0-9.]+ x
	batch \| [0-9.]+ x[0-9.]+ \| [0-9.]+ \| [0-9.]+ x[0-9.]+ \| [0-9.]+ x
	p99 \| [0-9.kM]+ x
	batches.of.1000 \| [0-9]+ \|$
	END
}

${CC:-cc} -O2 -shared -fPIC -o "$USCHED_TEST_LIBRARY" ext/python/tests/library.c \
	>"$dir/out" 2>&1
verdict 'the library of the tests'
count=0 seen=''
for python in ${PYTHONS:-/usr/bin/python3 python3 python3.12 python3.13t \
	      python3.14 python3.14t}; do
	command -v "$python" >/dev/null || {
		skip "$python: not installed"
		continue
	}
	has=$("$python" -c 'import os, sys, sysconfig
print(sys.version_info >= (3, 8) and os.path.exists(
    sysconfig.get_path("include") + "/Python.h"))' 2>/dev/null)
	if [ "$has" != True ]; then
		skip "$python: no Python.h, or older than 3.8 (python3-dev)"
		continue
	fi
	real=$("$python" -c 'import os, sys
print(os.path.realpath(sys.executable))')
	case " $seen " in *" $real "*) continue ;; esac
	seen="$seen $real"
	count=$((count + 1))
	tests "$python" $count
	[ $count = 1 ] || continue
	fresh "$python" $count
	suite "$python" $count
	pictures "$python" $count
	measures "$python" $count
	typed "$python"
done
[ $count != 0 ] || { echo 'no Python.h (package python3-dev)'; exit 77; }
counted
