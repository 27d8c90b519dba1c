#!/bin/sh
# SPDX-License-Identifier: MIT
# loops.sh: rr and ll run in loops of poll(), GLib and libuv, and loops of GLib, libuv and
# libevent run in a thread of ours: each program of examples/loops/ prints what it
# should, with both schedulers, also in the hard mode. In a second in which nothing happens
# a loop with a driven scheduler waits a few times, and makes few other calls.
#
# CC is the compiler, CFLAGS are more options for it. A library that is not installed is
# skipped, with its Debian package, and so is the count without strace.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
unset USCHED_SEED USCHED_DEBUG USCHED MAKEFLAGS LD_PRELOAD
ulimit -c 0
most=24 all=80			# waits, and system calls, in the silent second

main() {
	build || { cat "$dir/log"; fail 'builds'; counted; exit; }
	outside poll
	if has glib-unix.h glib-2.0 libglib2.0-dev; then
		outside glib
		inside glib
	fi
	if has uv.h libuv libuv1-dev; then
		outside uv
		inside uv
	fi
	if has event2/event.h libevent libevent-dev; then
		inside event
	fi
	counted
}

# The library and the hooks, as make test has built them, and in the hard mode.
build() {
	plain=$(make -s --eval='where: ; @echo $(B)' where) &&
		make -s -j2 CC="${CC:-cc}" "$plain/libusched.a" "$plain/uwrap.o" &&
		make -s -j2 CC="${CC:-cc}" "B=$dir/hard" O=-O1 DEFS=-DUSCHED_HARD \
			"$dir/hard/libusched.a" "$dir/hard/uwrap.o" &&
		ln -s "$PWD/$plain" "$dir/plain"
} >"$dir/log" 2>&1

# has HEADER NAME PACKAGE: sets flags, by pkg-config if that is there.
has() {
	flags=$(pkg-config --cflags --libs "$2" 2>/dev/null) ||
		case $2 in
		libuv)	flags=-luv ;;
		*)	flags=-levent ;;
		esac
	printf '#include <%s>\nint main(void) { return 0; }\n' "$1" >"$dir/probe.c"
	${CC:-cc} ${CFLAGS:-} "$dir/probe.c" -o "$dir/probe" $flags 2>/dev/null ||
		skip "$2: $3"
}

# compile MODE PROGRAM WHAT...: unquoted are those that may be several words.
compile() {
	mode=$1 program=$2; shift 2
	[ "$mode" = plain ] || set -- -DUSCHED_HARD "$@"
	${CC:-cc} -std=gnu11 -O2 -g -Wall -Wextra -Werror ${CFLAGS:-} $includes \
		"$@" -c "examples/loops/$program.c" -o "$dir/program.o" $flags &&
		${CC:-cc} ${CFLAGS:-} "$dir/program.o" $hooks "$dir/$mode/libusched.a" \
			-o "$dir/program" -pthread -ldl $flags
} >"$dir/log" 2>&1

# prints PROGRAM COMMAND...: runs it, and compares.
prints() {
	program=$1; shift
	timeout 60 "$@" >"$dir/got" 2>"$dir/log" &&
		diff "examples/loops/$program.expected" "$dir/got" >>"$dir/log"
}

# must WHAT: judges the last status.
must() {
	judge $(($? != 0)) "$1" "$dir/log"
}

outside() { # program
	hooks=
	[ "$1" != poll ] || flags=
	for sched in RR LL; do
		compile plain "$1" -D$sched && prints "$1" "$dir/program"
		must "$1, $sched"
		is_quiet "$1" $sched
		compile hard "$1" -D$sched &&
			USCHED_DEBUG=evict=always,poison,fault prints "$1" "$dir/program"
		must "$1, $sched, hard mode"
	done
}

inside() { # library
	for mode in plain hard; do
		hooks=$dir/$mode/uwrap.o debug=
		[ $mode = plain ] || debug=evict=always,poison,fault
		compile $mode "inside_$1"
		must "inside_$1, $mode, builds" || continue
		for sched in rr ll; do
			USCHED=$sched USCHED_DEBUG=$debug \
				prints "inside_$1" "$dir/program"
			must "inside_$1, $sched, $mode"
		done
	done
}

# Counts the calls from "silence" to "over", but for those that give back memory once
# (rest.h). GLib tells itself of each new time by an eventfd.
is_quiet() { # program, scheduler
	have strace || { skip "the count of $1: strace"; return; }
	strace -o "$dir/trace" "$dir/program" >"$dir/got" 2>"$dir/log" ||
		{ skip "the count of $1: strace is refused"; return; }
	sed -n '/^write(1, "silence/,/^write(1, "over/p' "$dir/trace" |
		grep -vE '^(mincore|madvise|mprotect|munmap)\(' >"$dir/calls"
	waits=$(grep -cE '^(e?poll_(wait|pwait2?)|p?poll)\(' "$dir/calls")
	nr=$(wc -l <"$dir/calls")
	echo "$1, $2: $nr system calls in a silent second, of these $waits waits and looks"
	[ "$waits" -gt 1 ] && [ "$waits" -le $most ] && [ "$nr" -le $all ]
	judge $(($? != 0)) "$1, $2: few system calls in silence" "$dir/calls"
}

main
