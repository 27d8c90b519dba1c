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
cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
unset USCHED_SEED

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
	counted
}

library() { # name, flags
	built=$dir/$1; shift
	mkdir "$built" && echo "$*" >"$built/flags" || return 1
	for source in $(where usched.c $waits umem.c uproc.c rr.c ll.c ws.c)
	do
		compile -c "$source" -o "$built/$(basename "$source" .c).o" ||
			return 1
	done
}

compile() {
	# Unquoted: several words.
	${CC:-cc} -std=gnu11 -Wall -Wextra -Werror $(cat "$built/flags") \
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
	for built in "$dir"/o2 "$dir"/o0; do
		compile "$@" examples/network.c "$built"/[u$sched]*.o \
			-pthread -o "$built/$sched" || return 1
	done
}

run() { # build, seed
	timeout 60 ${RUN:-} "$dir/$1/$sched" $bug $2 >"$dir/out"
}

# Leaves the first seed that finds the bug, with the output.
found() {
	seed=0
	while [ $((seed += 1)) -le 20 ]; do
		run o2 $seed || break
	done
	cat "$dir/out"
	case $bug in
	ack)	grep -q "^seed $seed: no answer" "$dir/out";;
	*)	grep -q "^seed $seed: two work" "$dir/out"
	esac
}

silent() {
	seed=0
	while [ $((seed += 1)) -le $([ $sched = rr ] && echo 50 || echo 10) ]
	do
		run o2 $seed
		tee -a "$dir/all.$sched" <"$dir/out"
		grep -q "^seed $seed: all have ended" "$dir/out" || return 1
	done
	seed=1
}

# The seed gives the same output again, whatever the build.
replayed() {
	run o2 $seed
	mv "$dir/out" "$dir/first"
	for build in o2 o0; do
		run $build $seed
		diff "$dir/first" "$dir/out" || return 1
	done
}

differ() {
	same=$(sed 's/.*hash//' "$dir/all.$sched" | sort | uniq -d)
	[ -z "$same" ] && [ -s "$dir/all.$sched" ]
}

main
