#!/bin/sh
# SPDX-License-Identifier: MIT
# openmp.sh: a program ends with a message, which names the thread and its function, if
# a thread waits, yields or ends in a parallel region of OpenMP, under each scheduler,
# with private stacks, in the hard mode, and with plain dispatchers, steps and
# generators. A region may be serial, nested, or in a task, the runtime come by dlopen(),
# or be linked statically. Programs that do none of this have the right sums, and no
# message: other threads that wait meanwhile, regions in ucall(), native threads of a team
# that sleep or run dispatchers, a dispatcher in a region, preemption. Processors keep
# their cpus, and regions have those that doc/guide.md says. All with libgomp and libomp.
#
#	test/proc/openmp.sh [--some]		--some: what mutants.sh needs, with
#						LIBRARY, and the dispatcher of the tree

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count
unset MAKEFLAGS USCHED USCHED_STACKS USCHED_DEBUG USCHED_QUIET USCHED_PIN
ulimit -c 0
cases=test/proc/openmp
export OMP_WAIT_POLICY=passive OMP_DYNAMIC=false

case ${CC:=cc} in
*musl*)	skip "all: $CC has no OpenMP"; counted ;;
esac

# Prints the compiler for a runtime, with its options.
compiler() { # gomp or omp
	case $1 in
	gomp)	echo 'gcc -fopenmp' ;;
	*)	echo 'clang -fopenmp=libomp' ;;
	esac
}

package() { # gomp or omp
	case $1 in
	gomp)	echo gcc ;;
	*)	echo 'clang and libomp-dev' ;;
	esac
}

has() { # gomp or omp
	printf '#include <omp.h>\nint main(void) { return omp_get_level(); }\n' \
		>"$dir/has.c"
	$(compiler "$1") "$dir/has.c" -o "$dir/has" 2>/dev/null && "$dir/has"
}

build() { # program, runtime, options ...
	program=$1 compiler=$(compiler "$2")
	shift 2
	$compiler -std=gnu11 -O2 -g -Wall -Wextra -Werror -Iinclude $cases/cases.c \
		"$@" -o "$dir/$program" -pthread
}

# The program ends by an abort, with one message, of a thread of this function.
told() { # function, what it does, command ...
	f=$1 does=$2
	shift 2
	timeout 60 "$@" >"$dir/said" 2>&1
	rc=$?
	cat "$dir/said"
	[ $rc = 134 ] && [ "$(grep -c '^usched: ' "$dir/said")" = 1 ] &&
		grep -q "^usched: thread 0x[0-9a-f]* (function $f.*): $does within a parallel" \
			"$dir/said"
}

right() { # command ...
	silent timeout 60 "$@"
}

# The first is the file of a program for libgomp or libomp.
tells() { # program, words of the environment
	for case in wait yield serial if nested task; do
		try "$* $case: told" told 'wait_here() at' waits env $2 "$dir/$1" $case
	done
	try "$* abort: told" told 'wait_here() at' ends env $2 "$dir/$1" abort
	try "$* generator: told" told 'gives_value() at' waits env $2 "$dir/$1" generator
}

is_silent() { # program, words of the environment
	for case in quiet call team inner pinned unbegun; do
		try "$* $case: silent" right env $2 "$dir/$1" $case
	done
}

plain() { # program
	for case in plain native step; do
		try "$1 $case: told" told 0x waits "$dir/$1" $case
	done
	try "$1 dispatchers: silent" right "$dir/$1" dispatchers
	try "$1 fork: silent" right "$dir/$1" fork
}

plugins() { # gomp or omp
	$(compiler "$1") -O2 -fPIC -shared $cases/plugin.c -o "$dir/$1.so" ||
		{ fail "$1: no plugin"; return; }
	for case in plugin plugin-second; do
		try "$1 $case: told" told 'calls_plugin() at' waits \
			env PLUGIN="$dir/$1.so" "$dir/host" $case
	done
	try "$1 plugin-gone: silent" right env PLUGIN="$dir/$1.so" "$dir/host" \
		plugin-gone
}

preempts() { # gomp or omp, library
	build $1-preempt $1 -DUSCHED_PREEMPT $2 || { fail "$1: no program"; return; }
	try "$1 preempt: silent" right "$dir/$1-preempt" preempt
}

if [ "$1" = --some ]; then
	for file in usched.c lib/proc/upreempt.c; do
		$CC -std=gnu11 -O1 -w $includes -c $file -o "$dir/${file##*/}.o" || exit 1
	done
	library="$dir/usched.c.o $dir/upreempt.c.o $LIBRARY"
else
	${MAKE:-make} -s CC="$CC" libusched.a libusched.so libusched-debug.a || exit 1
	library=libusched.a
fi

gcc -std=gnu11 -O2 -w -Iinclude $cases/cases.c $library -o "$dir/host" -pthread || exit 1
for runtime in gomp omp; do
	has $runtime || { skip "$runtime: package $(package $runtime)"; continue; }
	try "$runtime: compiles" build $runtime $runtime $library || continue
	tells $runtime USCHED=rr:1
	is_silent $runtime USCHED=rr:2
	plain $runtime
	plugins $runtime
	preempts $runtime "$library"
	[ "$1" != --some ] || continue
	for set in USCHED=rr:2 USCHED=ll:2 USCHED=ws:2 'USCHED=rr:1 USCHED_STACKS=private'; do
		tells $runtime "$set"
	done
	for set in USCHED=rr:1 USCHED=ll:1 USCHED=ws:2 'USCHED=ws:2 USCHED_STACKS=private'; do
		is_silent $runtime "$set"
	done
	for case in cpus cpus-call cpus-begun; do
		for set in USCHED=rr:1 USCHED=rr:2 USCHED=ws:2; do
			try "$runtime $set $case" right env $set "$dir/$runtime" $case
		done
	done
	if build $runtime-hard $runtime -DUSCHED_HARD libusched-debug.a; then
		hard='USCHED=rr:1 USCHED_DEBUG=evict=always,poison,fault'
		tells $runtime-hard "$hard"
		is_silent $runtime-hard "$hard"
	else
		fail "$runtime: no program for the hard mode"
	fi
	build $runtime-shared $runtime libusched.so -Wl,-rpath,"$PWD" ||
		fail "$runtime: no program with libusched.so"
	tells $runtime-shared USCHED=rr:1
	[ $runtime = gomp ] || continue
	if build gomp-static gomp -static libusched.a 2>"$dir/log"; then
		tells gomp-static USCHED=rr:1
		is_silent gomp-static USCHED=rr:1
	else
		skip "gomp -static: package libc6-dev"
	fi
done
counted
