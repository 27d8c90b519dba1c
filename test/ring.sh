#!/bin/sh
# SPDX-License-Identifier: MIT
# ring.sh: rmain and lmain print seconds and nothing else, or say what is wrong.
#
# usage: ring.sh [directory of the programs, or the build's DIR]. Exit: 0 pass,
# 1 fail, 77 skipped.

dir=${1:-${DIR:-.}}
out=$(mktemp) && err=$(mktemp) || exit 1
trap 'rm -f "$out" "$err"' EXIT
failed=0

fail() {
	echo "$*: exit $rc, stdout \"$(cat "$out")\"," \
	     "stderr \"$(head -c 300 "$err")\"" >&2
	failed=1
}

run() {
	timeout "${WATCHDOG:-60}" "$dir/$@" >"$out" 2>"$err"
	rc=$?
}

# Usage: exit 2, something on stderr, nothing on stdout.
wrong() {
	run "$@"
	if [ $rc != 2 ] || [ -s "$out" ] || [ ! -s "$err" ]; then
		fail "$@"
	fi
}

# A run: exit 0, one line with a number as %f prints it, nothing on stderr.
right() {
	run "$@"
	if [ $rc != 0 ] || [ -s "$err" ] || [ "$(wc -l <"$out")" != 1 ] ||
	   ! grep -Eqx '[0-9]+\.[0-9]{6}' "$out"; then
		fail "$@"
	fi
}

for prog in rmain lmain; do
	if [ ! -x "$dir/$prog" ]; then
		echo "skipped: no $dir/$prog"
		exit 77
	fi
	wrong $prog
	wrong $prog 2
	wrong $prog 2 2 2 0
	wrong $prog 2 2 2 0 1 1
	wrong $prog 0 2 2 0 1
	wrong $prog 2 0 2 0 1
	wrong $prog 2 2 0 0 1
	wrong $prog 2 2 2 0 0
	for bad in -1 x 1x '' ' ' ' 1' +1 1.5 1e3 0x10 99999999999999999999 \
		   9223372036854775808; do
		wrong $prog "$bad" 2 2 0 1
		wrong $prog 2 "$bad" 2 0 1
		wrong $prog 2 2 "$bad" 0 1
		wrong $prog 2 2 2 "$bad" 1
		wrong $prog 2 2 2 0 "$bad"
	done
	wrong $prog 2147483648 1 1 0 1
	wrong $prog 1 2147483648 1 0 1
	wrong $prog 1 1 1 2147483647 1
	wrong $prog 2147483647 2147483647 1000 0 1	# N * R * M
	wrong $prog 2 1 9223372036854775807 0 1
	for n in 1 2 3 8; do
		for r in 1 5; do
			for d in 0 100 10000 300000; do
				for p in 1 2 3; do
					right $prog $n $r 20 $d $p
				done
			done
		done
	done
	right $prog 2 1 20000 0 1
	right $prog 2 1000 10 0 2
	right $prog 8 100 1 0 16		# more processors than cpus
	right $prog 1 1 1 0 5			# and than rings
done
exit $failed
