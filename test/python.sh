#!/bin/sh
# SPDX-License-Identifier: MIT
# python.sh: the Python face of the engine installs by pip without a network,
# and its example and tests pass, with each interpreter that has its headers.
# With the first, the tiles of python/examples/mandelbrot.py make the picture
# of a single call, and bench/python measures what it names.
# PYTHONS chooses the interpreters.

cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT || exit 1
passed=0 failed=0 skipped=0
export USCHED_OBJECTS="$dir/objects" USCHED_TEST_LIBRARY="$dir/library.so"
export PYTHONDONTWRITEBYTECODE=1

skip() {
	echo "skip $*"
	skipped=$((skipped + 1))
}

# verdict WHAT: judges the last command; its output is in $dir/out.
verdict() {
	if [ $? = 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED $1"
		tail -n 40 "$dir/out"
		return 1
	fi
}

# The example of the README, in a fresh environment.
fresh() { # interpreter, name
	if ! "$1" -m venv "$dir/venv-$2" >"$dir/out" 2>&1; then
		skip "a fresh environment with $1 (package python3-venv)"
		return 0
	fi
	PIP_NO_INDEX=1 PIP_FIND_LINKS='' timeout 300 \
		"$dir/venv-$2/bin/python" -m pip install -q ./python \
		>"$dir/out" 2>&1
	verdict "pip install ./python with $1" || return
	sed -n '/^```python/,/^```$/{/^```/d;p;}' python/README.md \
		>"$dir/example.py"
	(cd "$dir" && timeout 20 "venv-$2/bin/python" example.py) \
		>"$dir/out" 2>&1 && [ "$(cat "$dir/out")" = 5 ]
	verdict "the example of python/README.md with $1"
}

tests() { # interpreter, name
	mkdir -p "$dir/$2" &&
		"$1" python/backend.py "$dir/$2" >"$dir/out" 2>&1 &&
		! grep -q warning: "$dir/out"
	verdict "python/backend.py with $1" || return
	PYTHONPATH=$dir/$2 timeout 300 "$1" -W error::ResourceWarning \
		-m unittest discover -v -s python/tests >"$dir/out" 2>&1
	verdict "python/tests with $1" || return
	sed -n "s/.* \.\.\. skipped [\"']\(.*\)[\"']\$/\1/p" "$dir/out" |
		sort | uniq -c >"$dir/skips"
	while read -r nr why; do
		skip "$nr tests with $1: $why"
	done <"$dir/skips"
}

# The picture has as many bytes as its header says.
pictures() { # interpreter, name
	PYTHONPATH=$dir/$2 timeout 20 "$1" python/examples/mandelbrot.py \
		--size 192 --tile 16 --check "$dir/picture.png" \
		>"$dir/out" 2>&1 && grep -q '^all pictures' "$dir/out" &&
		"$1" - "$dir/picture.png" >>"$dir/out" 2>&1 <<-'END'
	import re, sys, zlib
	data = open(sys.argv[1], "rb").read()
	length = int.from_bytes(data.split(b"IDAT")[0][-4:], "big")
	lines = zlib.decompress(data.split(b"IDAT")[1][:length])
	assert len(lines) == 192 * 193 and len(set(lines)) > 50
	END
	verdict "python/examples/mandelbrot.py with $1"
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
		ENGINE=$dir/$2 timeout 60 "$1" bench/python/run.py --quick \
			--only $only --to "$dir/to" >"$dir/out" 2>&1 &&
			cat "$dir/to/python.txt" >>"$dir/python.txt"
		verdict "bench/python: $only with $1" || return
	done
	"$1" bench/python/run.py --from "$dir/python.txt" >"$dir/out" 2>&1
	while read -r row pattern; do
		grep -qE "^\| $row (\|[^|]*){$pattern" "$dir/out"
		verdict "bench/python: the row $row of the table: $pattern"
	done <<-'END'
	engine 0}\| [0-9.]+ \[[0-9.]+, [0-9.]+\] [0-9.]+ \|
	to_thread 0}\| [0-9.]+ \[[0-9.]+, [0-9.]+\] \|
	executor 2}\| [0-9.]+ \[[0-9.]+, [0-9.]+\] [0-9.]+ \|
	process 2}\| [0-9.]+ \[[0-9.]+, [0-9.]+\] [0-9.]+ \|
	2.pthreads 4}$
	engine,.7 4}$
	END
}

${CC:-cc} -O2 -shared -fPIC -o "$USCHED_TEST_LIBRARY" python/tests/library.c \
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
	pictures "$python" $count
	measures "$python" $count
done
[ $count != 0 ] || { echo 'no Python.h (package python3-dev)'; exit 77; }
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
