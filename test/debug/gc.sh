#!/bin/sh
# SPDX-License-Identifier: MIT
# gc.sh: libgc collects under threads of rr, ll and ws, by what examples/collector.h
# tells it: it frees nothing that they hold, and frees the rest (gc/storm.c).
#
# With --full ten minutes, also in the hard mode. CC is the compiler, CFLAGS are more
# options for it, LIBRARY is the library. SEED: see there.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

library=${LIBRARY:-libusched.a}
cpus=$(getconf _NPROCESSORS_ONLN)
seconds=3
[ "$1" = --full ] && full=1 seconds=50

echo '#include <gc/gc_mark.h>
int main(void) { GC_INIT(); return 0; }' >"$dir/has.c"
${CC:-cc} $CFLAGS "$dir/has.c" -lgc -o "$dir/has" 2>/dev/null && "$dir/has" || {
	echo 'gc.sh: no libgc: Debian has it in libgc-dev'
	exit 77
}

compile() { # library, program, options ...
	archive=$1 program=$2
	shift 2
	${CC:-cc} -std=gnu11 -O2 -g -Wall -Wextra $CFLAGS $includes "$@" \
		"test/debug/gc/${program##*/}.c" "$archive" -lgc -pthread -o "$program"
}

storm() { # what, program, variables of the environment ...
	what=$1 program=$2
	shift 2
	if env GC_SECONDS=$seconds "$@" timeout $((seconds * 10 + 100)) "$program" \
	    >"$dir/log" 2>&1; then
		echo "ok    $what: $(tail -n 1 "$dir/log")"
		pass
	elif [ $? = 77 ]; then
		skip "$what: portable builds have no registers for collectors"
	else
		fail "$what" "$dir/log"
	fi
}

compile "$library" "$dir/storm" || exit 1
storm rr "$dir/storm" USCHED=rr:1
storm 'rr, 2 processors' "$dir/storm" USCHED=rr:2
storm ll "$dir/storm" USCHED=ll:2
storm ws "$dir/storm" USCHED=ws:2
storm 'ws, private stacks' "$dir/storm" USCHED=ws:2 USCHED_STACKS=private
storm 'rr, 3000 threads' "$dir/storm" USCHED=rr:1 THREADS=3000
compile "$library" "$dir/argument" || exit 1
storm 'arguments of threads that are being made' "$dir/argument"
if [ "$full" ]; then
	storm 'ws, a processor for each cpu' "$dir/storm" USCHED=ws
	storm 'll, private stacks' "$dir/storm" USCHED=ll:2 USCHED_STACKS=private
	storm 'ws, 3000 threads' "$dir/storm" USCHED=ws:2 THREADS=3000
	make -s -j"$cpus" O=-O1 CC="${CC:-cc}" DEFS=-DUSCHED_HARD B="$dir/hard" \
		"$dir/hard/libusched.a" || exit 1
	compile "$dir/hard/libusched.a" "$dir/hard/storm" -DUSCHED_HARD || exit 1
	for sched in rr:1 ws:2; do
		storm "$sched, all is moved" "$dir/hard/storm" USCHED=$sched \
			USCHED_DEBUG=evict=always,poison,fault
		storm "$sched, some is moved" "$dir/hard/storm" USCHED=$sched \
			USCHED_DEBUG=evict=3,yield=5,poison,fault
	done
fi
counted
