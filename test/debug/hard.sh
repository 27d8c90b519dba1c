#!/bin/sh
# SPDX-License-Identifier: MIT
# hard.sh: the ordinary tests pass in the hard mode, where each thread that
# blocks is evicted at once, and dead memory is poisoned. Broken rules are
# caught there (hard).
#
#	test/debug/hard.sh [--full] [test ...]
#
# Tests are names like depth or join-LL; if none is given, those of make test run,
# compiled at -O1. With --full all are compiled at -O2, and also run with other words,
# and with the portable switch: half an hour. CC is the compiler, CFLAGS are more options for it,
# WORDS replaces the words.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout

words=${WORDS-evict=always,poison}
modules="usched uhard $modules"

# Tests that cannot hold with some words, and why.
words_of() { # test, words
	case $1:$2 in
	hard:*)	echo none ;;	# it chooses its own words
	# it tests that nothing is copied without need
	lane:*)	echo "$2,evict=never" ;;
	# mprotect() fails there, so a lane is not shut, and no call says so
	*fail*:*fault*|nomem*:*fault*|call_[op]*:*fault*)
			echo "$2" | sed 's/,*fault//' ;;
	*)		echo "$2" ;;
	esac
}

libs() { sed -n '1,5s|^/\* LIBS: \(.*\) \*/$|\1|p' "$1"; }

compile() { # what else
	${CC:-cc} -std=gnu11 $level -g -Wall -Wextra $CFLAGS $more -DUSCHED_HARD \
		$includes "$@"
}

# Builds and runs one argument: a module, a test, or a test with words. The
# output goes to a file, the status to another.
job() (
	case $1 in
	*.o)	compile -c $(where "$(basename "$1" .o).c") -o "$dir/$1" \
			>"$dir/${1#*/}.log" 2>&1 ||
			{ cat "$dir/${1#*/}.log"; echo 1 >>"$dir/status"; }
		exit ;;
	*:*)	;;
	*)	src=$(test_of "${1%-[RLW][RLS]}") var=${1##*-}
		case $1 in
		*-*)	var=-D$var ;;
		*)	var= ;;
		esac
		case $(sed -n 's/^.. VARIANTS: //p' "$src")/$1 in
		core*)	objs="$dir/usched.o $dir/uhard.o" ;;
		*/pthread_io*) objs=$(ls "$dir"/*.o "$dir"/face/*.o) ;;
		*/pthread*) objs=$(ls "$dir"/*.o "$dir"/face/p*.o) ;;
		*)	objs=$(ls "$dir"/*.o) ;;
		esac
		compile $var "$src" $objs -o "$dir/$1" -pthread $(libs "$src") \
			>"$dir/$1.log" 2>&1
		exit ;;
	esac
	test=${1%%:*} words=$(words_of "$test" "${1#*:}")
	export USCHED_DEBUG="$words"
	[ "$words" != none ] || unset USCHED_DEBUG
	log=$dir/$test.out
	"$dir/$test" >"$log" 2>&1
	rc=$?
	case $rc in
	0)	echo "ok      $test $words" ;;
	77)	echo "skip    $test: $(tail -n 1 "$log")" ;;
	*)	echo "FAILED  $test $words (status $rc)"
		sed 's/^/	/' "$dir/$test.log" "$log" ;;
	esac
	echo $rc >>"$dir/status"
)

each() { # items: job for each, as many at a time as there are processors
	printf '%s\n' "$@" | xargs -P "$(getconf _NPROCESSORS_ONLN)" -n 1 \
		sh test/debug/hard.sh --job
}

names() {
	core=$(grep -l '^/. VARIANTS: core' test/core/*.c | sed 's,.*/,,; s/\.c$//' | tr '\n' '|')
	MAKEFLAGS='' make -s programs DEFS=-DUSCHED_HARD SOME="$([ "$full" ] || echo 1)" |
		grep -E -- "^(${core}article|deque|inbox|object|park|engine.*|.*-(RR|LL|WS))\$"
}

round() { # words ...: all tests with each
	mkdir -p "$dir/face"
	each $(printf '%s.o\n' $modules) $(cd ext/posix && ls *.c | sed 's,^,face/,; s/c$/o/') \
		face/uwrap.o
	each $tests
	for w in "$@"; do
		each $(for t in $tests; do echo "$t:$w"; done)
	done
}

if [ "$1" = --job ]; then
	job "$2"
	exit 0
fi

full='' level=-O1
[ "$1" = --full ] && { full=1 level=-O2; shift; }
tests=${*:-$(names)}
. test/run/count
WATCHDOG=${WATCHDOG:-600} more=
export dir more level WATCHDOG
: >"$dir/status"
round "$words"
if [ "$full" ]; then
	round check evict=7,poison,yield=3 evict=never,poison,check=never \
		evict=always,poison,fault evict=7,fault
	more=-DUSCHED_PORTABLE
	rm -f "$dir"/*.o "$dir"/face/*.o
	round evict=always,poison
fi
counted_in "$dir/status"
