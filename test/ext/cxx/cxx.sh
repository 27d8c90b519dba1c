#!/bin/sh
# SPDX-License-Identifier: MIT
# cxx.sh: C++ threads block in catch handlers and while exceptions unwind, if
# ucxx is linked: on a dispatcher alone and under rr, ll and ws, with lanes,
# without, with the portable switch, in the hard mode. Without ucxx they get
# each other's exceptions; the hard mode reports that, and nothing else.
# Programs with ugen.hpp and usched.hpp need no ucxx, nor do those that only throw
# and catch, lock, and have thread_local variables (cxx_std). CC and CXX choose the
# compilers. All C++ compilers and libraries that are installed are tried.

cd "$(dirname "$0")/../../.." || exit 1
. test/run/layout
. test/run/count

wrap=-Wl,--wrap=ustack_block,--wrap=ustack_abort,--wrap=usched_run
modules="usched $modules"

# The output of the last command is in $dir/out.
verdict() { # what
	judge $(($? != 0)) "$1" "$dir/out"
}

# Builds the library once, for all C++ compilers.
library() { # flags
	made=$dir/made$(echo "$1" | tr -d ' ') objs=
	mkdir -p "$made"
	for m in $modules $(case $1 in *HARD*) echo uhard ;; esac); do
		objs="$objs $made/$m.o"
		[ -e "$made/$m.o" ] || ${CC:-cc} -std=gnu11 -g -w $1 $includes \
			-c "$(where $m.c)" -o "$made/$m.o" || return 1
	done
}

# program NAME, FLAGS, other objects and libraries; source: of test/
source=cxx
program() {
	$cxx -std=c++17 -g -Wall -Wextra $2 $includes $lib $(test_of $source) $3 \
		$objs -o "$dir/$1" -pthread >"$dir/out" 2>&1
}

run() { timeout 120 "$dir/$@" >"$dir/out" 2>&1; }

dies() { # program, what, message
	run "$1" "$2"
	[ $? = 134 ] && grep -q "^usched: thread 0x.* $3.* ucxx$" "$dir/out"
}

with_ucxx() { # flags
	$cxx -g -Wall -Wextra -Werror $1 $includes $lib -c ext/cxx/ucxx.cc \
		-o "$dir/ucxx.o" >"$dir/out" 2>&1
	verdict "$cxx $lib $1: ucxx.cc"
	for s in RR LL WS; do
		program with "$1 -D$s" "$dir/ucxx.o $wrap" && run with
		verdict "$cxx $lib $1 $s"
	done
	run with swaps && run with unwinds && run with lawful
	verdict "$cxx $lib $1: with ucxx"
}

headers() { # flags, schedulers, sources
	for source in ${3:-cxx_gen cxx_usched}; do
		for s in $2; do
			program $source "-Werror $1 -D$s" && run $source
			verdict "$cxx $lib $1 $s: $source"
		done
	done
	source=cxx
}

all() {
	library "-O2" && with_ucxx "-O2"
	headers "-O2" "RR WS"
	headers "-O2" WS cxx_std
	program without "-O2 -DRR" && ! run without
	verdict "$cxx $lib: without ucxx exceptions should mix"
	library "-O2 -DUSCHED_PORTABLE" && with_ucxx "-O2 -DUSCHED_PORTABLE"
	headers "-O2 -DUSCHED_PORTABLE" LL
	library "-O1 -DUSCHED_HARD" && with_ucxx "-O1 -DUSCHED_HARD"
	export USCHED_DEBUG=evict=always,poison,fault
	headers "-O1 -DUSCHED_HARD" "RR WS"
	headers "-O1 -DUSCHED_HARD" RR cxx_std
	unset USCHED_DEBUG
	program without "-O1 -DUSCHED_HARD -DRR" &&
		dies without swaps "blocks in a catch handler"
	verdict "$cxx $lib: report of a block in a handler"
	dies without unwinds "blocks while an exception unwinds"
	verdict "$cxx $lib: report of a block while unwinding"
	run without lawful
	verdict "$cxx $lib: no report"
}

echo '#include <exception>
int main() { return std::uncaught_exceptions(); }' >"$dir/probe.cc"
for cxx in ${CXX:-g++ clang++}; do
	for lib in "" -stdlib=libc++; do
		if $cxx $lib -std=c++17 "$dir/probe.cc" -o "$dir/probe" \
		    2>"$dir/out" && "$dir/probe"; then
			all
		elif [ "$lib" != -stdlib=libc++ ] || [ "$cxx" = clang++ ]; then
			skip "$cxx $lib (Debian: $(case $cxx$lib in
			*libc++) echo libc++-dev libc++abi-dev ;;
			clang*) echo clang ;;
			*) echo g++ ;;
			esac))"
		fi
	done
done
counted
