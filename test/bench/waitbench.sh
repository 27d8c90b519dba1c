#!/bin/sh
# SPDX-License-Identifier: MIT
# waitbench.sh: each program of bench/waits answers each question, or says that
# it has no counterpart; ours has, but where threads would be dealt apart. What
# is no question ends with 2. A peer that is not built is skipped by name.

cd "$(dirname "$0")/../../bench/waits" || exit 1
. ../../test/bench/served

# Asks: the exit is 0, and there is at least one line, all of this question; or
# the exit is 77, and may be.
ask() { # may be none, program, question, N, P
	none=$1 program=$2
	shift 2
	timeout 60 "./$program" "$@" >"$dir/out" 2>"$dir/err"
	status=$?
	if [ $status = 0 ]; then
		grep -q . "$dir/out" && ! grep -vqE \
			"^$1(\.[a-z0-9_]+)? [0-9]+\.[0-9]+\$" "$dir/out"
		status=$?
	elif [ $status = 77 ] && [ "$none" = yes ]; then
		status=0
	fi
	must $status "$program $*"
}

wheel='churn-random:100 churn-same:100'
questions='timed:10 sync wake asleep:10 buffer:0 buffer:10
	uncontended contended fanin sem select select-sync select-buffer:128
	mutex-own mutex mutex-slack mutex-work mutex-hold skew rw-own
	rw-write:100 sieve powser pool:100'

answers() { # may be none with P = 1, with P = 2, program
	for q in $wheel; do
		ask yes "$3" $q 1000 1
	done
	for q in $questions; do
		case $q in
		skew) n=20;;
		sieve | powser) n=30;;
		*) n=1001;;
		esac
		ask "$1" "$3" $q $n 1
		ask "$2" "$3" $q $n 2
	done
	refuses "./$3" '' x 'sync 1' 'sync 0 1' 'sync 1 0' 'sync x 1' 'sync 1 -1' \
		'sync 1 1 1' 'buffer:x 1 1'
}

if ! make -s -C ours >"$dir/out" 2>"$dir/err"; then
	must 1 'make -C ours'
else
	answers no no ours/waits-ws
	for kind in rr ll local; do
		answers no yes ours/waits-$kind
	done
	ask no ours/waits-ws sleepers:3 1000 2
fi
for peer in go/waits tokio/waits-tokio tokio/waits-kanal cxx/waits; do
	if [ -x "$peer" ]; then
		answers yes yes $peer
	else
		echo "skip bench/waits/$peer: not built (bench/run.py waits)"
	fi
done
counted
