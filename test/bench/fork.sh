#!/bin/sh
# SPDX-License-Identifier: MIT
# fork.sh: programs that fork and join print one number and nothing else, if the
# result is right; else they say what is wrong (fork.h). Programs in Python make
# empty threads only, on one native thread.
#
# usage: fork.sh [directory of our program, or the build's DIR]. Exit: 0 pass,
# 1 fail, 77 skipped. A peer that is not built is skipped by name.

dir=${1:-${DIR:-out/bin}}
top=${0%/*}/../..
peers=${PEERS:-$top/bench/peers}
. "${0%/*}/asked"

bad_usage() {
	wrong
	wrong ''
	wrong fork 1
	wrong empty
	wrong empty 1
	wrong empty 1 1 1
	wrong batches 1 1
	wrong fib 1 1
	wrong fib 1 1 1 1
	wrong fib 91 90 1
	wrong fib 5 6 2				# no threads
	wrong queens 17 1 1
	wrong queens 6 7 1
	wrong queens 6 0 2
	wrong uts
	wrong uts T1
	wrong uts T1 1
	wrong uts T2 1 1
	wrong uts t1 1 1
	wrong uts 1 1 1
	wrong uts T5 0 2
	wrong skynet
	wrong skynet 1 1
	wrong empty 0 1
	wrong batches 0 1 1
	wrong batches 1 0 1
	wrong queens 0 0 1
	for bad in -1 x 1x '' ' ' ' 1' +1 1.5 1e3 0x10 99999999999999999999 \
		   9223372036854775808 2147483648; do
		wrong empty "$bad" 1
		wrong batches 9 "$bad" 1
		wrong fib "$bad" 2 1
		wrong fib 5 "$bad" 1
		wrong queens 5 "$bad" 1
		wrong uts T1 "$bad" 1
		wrong skynet "$bad"
	done
	for form in 'empty 1' 'batches 1 1' 'fib 5 2' 'queens 5 2' 'uts T1 1' \
		    skynet; do
		wrong $form 0
	done
}

plain() {
	for n in 0 1 2 3 20; do
		seconds fib $n $((n + 1)) 1
	done
	for n in 1 2 3 4 5 6 7 8 9 10 11; do
		seconds queens $n 0 1
	done
	seconds uts T1 0 1
	seconds uts T5 0 1
}

# forks P...
forks() {
	for p; do
		for nr in 1 2 100 10000; do
			seconds empty $nr "$p"
			for b in 1 2 7 100000; do
				seconds batches $nr $b "$p"
			done
		done
		for n in 0 1 2 3 4 5 12 18; do
			for cut in 0 1 2 3 4 11; do
				[ $cut -gt $n ] || seconds fib $n $cut "$p"
			done
		done
		for n in 1 2 3 4 5 6 7 8 9; do
			seconds queens $n 1 "$p"
			seconds queens $n $n "$p"
		done
		seconds queens 10 3 "$p"
		for cut in 1 2 6; do
			seconds uts T1 $cut "$p"
			seconds uts T5 $cut "$p"
		done
		seconds skynet "$p"
	done
}

if [ ! -x "$dir/wfork" ]; then
	echo "skipped: no $dir/wfork"
	exit 77
fi
for prog in "$dir/wfork" "$peers/coro/fork" "$peers/gofork/fork" \
	    "$peers/tokio/tokio-fork"; do
	if [ ! -x "$prog" ]; then
		echo "skip ${prog#"$top/"}: not built (make peers)"
		continue
	fi
	bad_usage
	plain
	forks 1 2 3
done
for name in asyncio uvloop gevent; do
	prog=$peers/python/empty-$name
	if [ ! -x "$prog" ]; then
		echo "skip ${prog#"$top/"}: not built (make peers)"
		continue
	fi
	bad_usage
	wrong empty 1 2
	wrong fib 5 2 1
	wrong 2 2 2 0 1
	for nr in 1 2 100 10000; do
		seconds empty $nr 1
		for b in 1 2 7 100000; do
			seconds batches $nr $b 1
		done
	done
done
prog=$dir/wfork
seconds uts T1 10 2				# each node is a thread
seconds fib 12 0 16				# more processors than cpus
exit $failed
