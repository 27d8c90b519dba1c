#!/bin/sh
# SPDX-License-Identifier: MIT
# python.sh: the Python face of the engine installs by pip without a network,
# and its example and tests pass, with each interpreter that has its headers.
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
	PYTHONPATH=$dir/$2 timeout 120 "$1" -W error::ResourceWarning \
		-m unittest discover -v -s python/tests >"$dir/out" 2>&1
	verdict "python/tests with $1" || return
	sed -n "s/.* \.\.\. skipped [\"']\(.*\)[\"']\$/\1/p" "$dir/out" |
		sort | uniq -c >"$dir/skips"
	while read -r nr why; do
		skip "$nr tests with $1: $why"
	done <"$dir/skips"
}

${CC:-cc} -O2 -shared -fPIC -o "$USCHED_TEST_LIBRARY" python/tests/library.c \
	>"$dir/out" 2>&1
verdict 'the library of the tests'
count=0
for python in ${PYTHONS:-/usr/bin/python3 python3 python3.12 python3.13t \
	      python3.14 python3.14t}; do
	command -v "$python" >/dev/null || continue
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
	[ $count != 1 ] || fresh "$python" $count
done
[ $count != 0 ] || { echo 'no Python.h (package python3-dev)'; exit 77; }
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
