#!/bin/sh
# SPDX-License-Identifier: MIT
# ring.sh: the programs of the benchmark print one number and nothing else, or
# say what is wrong; and all block as often as a ring makes them block
# (bench.h). So do the programs whose threads wait below other calls (wrap.c).
#
# usage: ring.sh [directory of our programs, or the build's DIR]. Exit: 0 pass,
# 1 fail, 77 skipped. A peer, or a program that only the benchmark needs, is
# skipped by name if it is not built.

dir=${1:-${DIR:-out/bin}}
peers='posix/posix ucontext/ucontext stackful/stackful-fifo stackful/stackful-lifo
	coro/coro-fifo coro/coro-lifo boost/fiber go/ring go/ring-buffered tokio/tokio-current
	tokio/tokio-multi'
. "${0%/*}/asked"

whole() {
	prints '[0-9]+' "$@"
}

# blocks LEAST N: blocks of 20000 messages, on one native thread. A thread that
# is not stopped by others passes on all its wakes, and blocks once in N
# messages.
blocks() {
	whole blocks "$2" 10 $((2000 / $2)) 0 1
	if [ "$(cat "$out")" -lt "$1" ] 2>/dev/null; then
		fail "N = $2: blocks too seldom"
	fi
}

bad_usage() {
	wrong
	wrong 2
	wrong 2 2 2 0
	wrong 2 2 2 0 1 1
	wrong 0 2 2 0 1
	wrong 2 0 2 0 1
	wrong 2 2 0 0 1
	wrong 2 2 2 0 0
	wrong blocks 2 2 2 0
	wrong empty 1 0
	wrong empty 0 1
	wrong empty 1 1 1
	wrong blocked 1 1
	wrong blocked 0 0 1
	wrong block 1 0 1
	for bad in -1 x 1x '' ' ' ' 1' +1 1.5 1e3 0x10 99999999999999999999 \
		   9223372036854775808 2147483648; do
		wrong "$bad" 2 2 0 1
		wrong 2 "$bad" 2 0 1
		wrong 2 2 "$bad" 0 1
		wrong 2 2 2 "$bad" 1
		wrong 2 2 2 0 "$bad"
	done
	wrong 65536 32768 1 0 1				# N * R
}

# rings P...
rings() {
	for p; do
		for n in 1 2 3 8; do
			for r in 1 5; do
				for d in 0 100 10000 300000; do
					seconds $n $r 20 $d "$p"
				done
			done
		done
		seconds 2 1 20000 0 "$p"
		seconds 2 1000 10 0 "$p"
		whole blocks 3 7 50 100 "$p"
		for nr in 1 2 1000; do
			seconds empty $nr "$p"
			whole blocked $nr 0 "$p"
			whole blocked $nr 10000 "$p"
		done
	done
}

# Builds that only the benchmark uses. They block as often as the plain builds.
timed() {
	prog=$dir/$1
	[ -x "$prog" ] || echo "skip $1: not built (make timed)"
	[ -x "$prog" ]
}

wraps() {
	wrong
	wrong 1
	wrong 0 1
	wrong 5 1
	wrong 1 0
	wrong 1 1 1
	for bad in -1 x 1x '' ' 1' 1.5 99999999999999999999 2147483648; do
		wrong "$bad" 1
		wrong 1 "$bad"
	done
	for where in 1 2 3 4; do
		seconds $where 1
		seconds $where 20000
	done
}

for prog in "$dir/rmain" "$dir/lmain" "$dir/wmain" "$dir/rmain.1t"; do
	if [ ! -x "$prog" ]; then
		echo "skipped: no $prog"
		exit 77
	fi
done
for prog in "$dir/rmain" "$dir/lmain" "$dir/wmain" "$dir/rmain.1t"; do
	bad_usage
	blocks 9900 2
	blocks 2400 8
	wrong 1 1 1 2147483647 1
	rings 1
done
for prog in "$dir/rmain" "$dir/lmain" "$dir/wmain" "$dir/wmain.one"; do
	rings 2 3
	seconds 8 100 1 0 16			# more processors than cpus
	seconds 1 1 1 0 5			# and than rings
	seconds empty 3 5
	whole blocked 3 0 5
done
for name in rmain.fp lmain.fp; do
	timed $name || continue
	blocks 9900 2
	blocks 2400 8
	rings 1 2
done
for name in rwrap lwrap wwrap rwrap.fp lwrap.fp; do
	if timed $name; then wraps; fi
done
for peer in $peers; do
	prog=${0%/*}/../../bench/peers/$peer
	if [ ! -x "$prog" ]; then
		echo "skip bench/peers/$peer: not built (make peers)"
		continue
	fi
	bad_usage
	blocks 9900 2
	blocks 2400 8
	case $peer in
	*current)	rings 1;;
	*)		rings 1 2 3;;
	esac
done
exit $failed
