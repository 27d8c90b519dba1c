#!/bin/sh
# SPDX-License-Identifier: MIT
# network.sh: a seed replays examples/network.c bit for bit, in builds with and
# without optimisation. Each of three planted bugs is found by a seed up to 20.
# Without a bug nothing is found by the seeds 1 to 50. So it is under rr, and
# with fewer seeds under ll and ws.
#
# CC is the compiler, CFLAGS are more options for it, RUN goes before each
# program (an emulator).

set -u
cd "$(dirname "$0")/.." || exit 1
. test/layout
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
unset USCHED_SEED
passed=0 failed=0

main() {
	library o2 -O2 & library o0 -O0 && wait $! || exit 1
	for sched in rr ll ws; do
		try "$sched builds" builds
		for bug in ack order grant; do
			try "$sched $bug: found" found
			try "$sched $bug: replayed" replayed
		done
		bug=none
		try "$sched: silent" silent
		try "$sched: replayed" replayed
		try "$sched: each seed another run" differ
	done
	echo "$passed passed, $failed failed"
	[ $failed -eq 0 ] && [ $passed -ne 0 ]
}

try() { # what, command
	if $2 >"$tmp/log" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL  $1"; cat "$tmp/log"
	fi
}

library() { # name, flags
	dir=$tmp/$1; shift
	mkdir "$dir" && echo "$*" >"$dir/flags" || return 1
	for source in $(where usched.c uwait.c umem.c uproc.c rr.c ll.c ws.c)
	do
		compile -c "$source" -o "$dir/$(basename "$source" .c).o" ||
			return 1
	done
}

compile() {
	# Unquoted: several words.
	${CC:-cc} -std=gnu11 -Wall -Wextra -Werror $(cat "$dir/flags") \
		${CFLAGS:-} $includes "$@"
}

# The program uses the names of rr. For the others they are macros.
builds() {
	case $sched in
	rr)	set --;;
	*)	set -- -DRR_H -include $sched.h
		for name in init start fini wake thread; do
			set -- "$@" -Drr_$name=${sched}_$name
		done
	esac
	case $sched in
	ll)	set -- "$@" '-Drr_thread_init(f,a)=ll_thread_init(f,a,0)';;
	ws)	set -- "$@" -Drr_thread_init=ws_thread_init;;
	esac
	for dir in "$tmp"/o2 "$tmp"/o0; do
		compile "$@" examples/network.c "$dir"/[u$sched]*.o \
			-pthread -o "$dir/$sched" || return 1
	done
}

run() { # build, seed
	timeout 60 ${RUN:-} "$tmp/$1/$sched" $bug $2 >"$tmp/out"
}

# Leaves the first seed that finds the bug, with the output.
found() {
	seed=0
	while [ $((seed += 1)) -le 20 ]; do
		run o2 $seed || break
	done
	cat "$tmp/out"
	case $bug in
	ack)	grep -q "^seed $seed: no answer" "$tmp/out";;
	*)	grep -q "^seed $seed: two work" "$tmp/out"
	esac
}

silent() {
	seed=0
	while [ $((seed += 1)) -le $([ $sched = rr ] && echo 50 || echo 10) ]
	do
		run o2 $seed
		tee -a "$tmp/all.$sched" <"$tmp/out"
		grep -q "^seed $seed: all have ended" "$tmp/out" || return 1
	done
	seed=1
}

# The seed gives the same output again, whatever the build.
replayed() {
	run o2 $seed
	mv "$tmp/out" "$tmp/first"
	for build in o2 o0; do
		run $build $seed
		diff "$tmp/first" "$tmp/out" || return 1
	done
}

differ() {
	same=$(sed 's/.*hash//' "$tmp/all.$sched" | sort | uniq -d)
	[ -z "$same" ] && [ -s "$tmp/all.$sched" ]
}

main
