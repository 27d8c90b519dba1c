#!/bin/sh
# SPDX-License-Identifier: MIT
# scheduler.sh: doc/scheduler.md tells the truth. Each block of code is word for
# word in a file. Each command works in a copy of the sources. The scheduler
# that it writes, examples/pr, builds without a warning, keeps its order and its
# bound, and passes the tests of rr and ll, in the hard mode, too.
#
#	test/house/scheduler.sh [--full]
#
# With --full, memory also fails in the hard mode, and sanitizers run: some
# minutes. CC is the compiler, CFLAGS are more options for it.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
. test/run/blocks

WATCHDOG=${WATCHDOG:-300}
export WATCHDOG
text=doc/scheduler.md
flags="-std=gnu11 -O2 -g -Wall -Wextra -Werror $includes -Iexamples/pr"
library="usched.c $(where $(printf '%s.c ' $modules))"
sources='examples/priority.c examples/pr/pr.h examples/pr/pr.c
	examples/pr/pmain.c examples/pr/demo.c examples/pr/deadline.c test/run/either.h'
# The priority of threads in test/run/either.h: the same for all, or by processor.
same='-DPR=3' mixed='-DPR=(unsigned)p%PR_NR'

commands_work() {
	mkdir -p "$dir/copy/test/run" "$dir/copy/test/proc" || return 1
	cp ./*.[ch] "$dir/copy" && cp -r core include lib bench examples "$dir/copy" &&
	cp test/run/*.h "$dir/copy/test/run" && cp test/proc/join.c "$dir/copy/test/proc" ||
		return 1
	commands $text >"$dir/commands" && tools "$dir/tools" || return 1
	grep -q '/a.out' "$dir/commands" && grep -q '/pmain' "$dir/commands" &&
		(cd "$dir/copy" && PATH=$dir/tools:$PATH run_commands "$dir/commands")
}

build() { # objects, options ...
	mkdir -p "$dir/$1" || return 1
	for source in $library $hard examples/pr/pr.c; do
		${CC:-cc} $flags $CFLAGS $more -c $source \
			-o "$dir/$1/$(basename $source .c).o" || return 1
	done
}

# Compiles the scheduler, for a library that make builds with the same options.
on() { # objects, library
	mkdir -p "$dir/$1" && ${MAKE:-make} -s CC="${CC:-cc}" "$2" &&
		cp "$2" "$dir/$1/usched.a" &&
		${CC:-cc} $flags $CFLAGS $more -c examples/pr/pr.c -o "$dir/$1/pr.o"
}

# Builds a program over these objects, and runs it.
runs() { # objects, source, arguments for the compiler ...
	objects=$1 source=$2; shift 2
	${CC:-cc} $flags $CFLAGS $more "$@" $source "$dir/$objects"/*.[oa] \
		-o "$dir/program" -pthread \
		$(sed -n '1,5s|^/\* LIBS: \(.*\) \*/$|\1|p' $source) || return 1
	"$dir/program" $arguments >"$dir/out"
	case $? in
	77)	cat "$dir/out" >&2;;
	0)	;;
	*)	return 1;;
	esac
}

shows() { # objects, program
	runs $1 examples/pr/$2.c && diff examples/pr/$2.expected "$dir/out"
}

measures() { # what is asked; what the answer must match
	arguments=$1
	runs plain examples/pr/pmain.c && grep -x "$2" "$dir/out"
	set -- $?
	arguments=
	return $1
}

# The header compiles once and twice, in C and C++.
stands_alone() {
	for compile in "${CC:-cc} -std=c99 -xc" "c++ -std=c++11 -xc++"; do
		command -v ${compile%% *} >/dev/null || continue
		for times in '#include "pr.h"' '#include "pr.h"
			#include "pr.h"'; do
			echo "$times" | $compile -Wall -Wextra -Werror $includes \
				-Iexamples/pr -c - -o "$dir/o" || return 1
		done
	done
}

# Tests of rr and ll are tests of any scheduler.
applicable() {
	grep -l '^/\* VARIANTS:.* PR' test/*/*.c
}

try blocks blocks_stand $text 8 $sources
try commands commands_work
try pr.h stands_alone
try build on plain libusched.a
try demo shows plain demo
try deadline shows plain deadline
try order runs plain examples/pr/order.c
try 'order, preempted' runs plain examples/pr/order.c -DUSCHED_PREEMPT
try pmain measures '2 20 1000 0 2' '[0-9.]*'
try 'pmain blocks' measures 'blocks 2 10 1000 0 1' '10000'
for test in $(applicable); do
	try $test runs plain $test "$mixed"
done
try order.c runs plain test/proc/order.c "$same"
more=-DUSCHED_HARD hard=lib/debug/uhard.c
try 'build, hard' on hard libusched-debug.a
USCHED_DEBUG=evict=always,poison
export USCHED_DEBUG
try 'demo, hard' shows hard demo
try 'deadline, hard' shows hard deadline
try 'order, hard' runs hard examples/pr/order.c
USCHED_DEBUG=evict=always,poison,yield=1
for test in join $([ "$1" != --full ] || echo count nomem); do
	try "$test, hard" runs hard "$(test_of $test)" "$mixed"
done
USCHED_DEBUG=
for san in $([ "$1" != --full ] || echo address thread undefined); do
	more="-DUSCHED_HARD -fsanitize=$san"
	echo 'int main(void) { return 0; }' >"$dir/empty.c"
	if ${CC:-cc} $more "$dir/empty.c" -o "$dir/empty" 2>/dev/null; then
		try "build, $san" build $san
		try "order, $san" runs $san examples/pr/order.c
	else
		skip "$san"
	fi
done
counted
