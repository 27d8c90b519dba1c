#!/bin/sh
# SPDX-License-Identifier: MIT
# elsewhere.sh: what works on this machine, in some five minutes; for systems on
# which the project has never run. Its last lines are made to be pasted into an
# issue. It needs a POSIX shell and a C compiler, and writes below /tmp only.
#
# usage: [CC=cc] test/whole/elsewhere.sh
#
# The dispatcher, rr, ll, ws, waits, channels, descriptors are built and tested
# twice: with setjmp(), which is the default there, and with the assembly, whose
# lanes USCHED_LANES asks for. If all is well with lanes, that can become the
# default for the system: in core/kinds.h.

cd "$(dirname "$0")/../.." || exit 1
. test/run/layout
. test/run/count

CC=${CC:-cc}
libs='-pthread -lm'
tests='again depth alloc bare left lane many nested
	core_order self step trim zeroed
	article wait-RR wait-LL wait-WS order-RR park join-RR
	join-WS cross-RR cross-LL cross-WS count-WS million-RR
	chan-RR chan-WS select-WS sync-RR sync-WS time-RR gen-RR
	uthread-RR scope-WS work-WS io-RR io-WS net-RR serve-WS
	child-RR signal-RR main'
# Not for what is only Linux's, and what needs other libraries.
parts=usched
for part in $modules; do
	[ -e "lib/engine/$part.c" ] || parts="$parts $part"
done

build() {
	# shellcheck disable=SC2086 # words
	$CC -std=gnu11 -O1 $includes $flags "$@"
}

library() {
	rm -f "$dir"/*.o
	for part in $parts; do
		# shellcheck disable=SC2046 # one word
		build -Wall -Wextra -c -o "$dir/$part.o" $(where $part.c) \
			>>"$dir/log" 2>&1 || return 1
	done
}

# Prints what is wrong with a test; nothing if it passes.
one() { # test
	name=${1%-*} scheduler=-DRR
	case $1 in
	*-*)	scheduler=-D${1#*-} ;;
	esac
	source=$(test_of "$name")
	more=$(sed -n '1,5s|^/\* LIBS: \(.*\) \*/$|\1|p' "$source")
	# shellcheck disable=SC2086 # words
	build -w $scheduler -o "$dir/test" "$source" "$dir"/*.o $libs $more \
		>"$dir/log" 2>&1 || { echo "does not build"; return; }
	WATCHDOG=30 "$dir/test" >"$dir/log" 2>&1
	rc=$?
	case $rc in
	0)	;;
	77)	echo "skipped: $(tail -n 1 "$dir/log")" ;;
	*)	echo "status $rc: $(grep -a -m 1 'CHECK(' "$dir/log" ||
			tail -n 1 "$dir/log")" ;;
	esac
}

# A ring of two: messages a second, in millions.
rate() {
	build -O2 -c -o "$dir/rmain.o" rmain.c &&
		build -o "$dir/rmain" "$dir/rmain.o" "$dir"/[!r]*.o "$dir/rr.o" \
			$libs || return
	"$dir/rmain" 2 1 2000000 0 1 2>/dev/null |
		awk '{ printf "%.1f million messages a second\n", 4 / $1 }'
}

# All tests of a kind. Its lines of the report go to $dir/report.
kind() { # name, flags
	flags=$2 good=0 bad='' left=''
	: >"$dir/log"
	if ! library; then
		fail "$1: the library: $(grep -m 1 error "$dir/log")"
		echo "$1: does not build: $(grep -m 1 error "$dir/log")" \
			>>"$dir/report"
		return
	fi
	warned=$(grep -c 'warning:' "$dir/log")
	for t in $tests; do
		wrong=$(one "$t")
		case $wrong in
		'')	good=$((good + 1)); pass ;;
		skipped*) skip "$1: $t: $wrong"
			left="$left
	$t: $wrong" ;;
		*)	fail "$1: $t: $wrong"
			bad="$bad
	$t: $wrong" ;;
		esac
	done
	{
		echo "$1: $good passed, $warned warnings; $(rate 2>&1)"
		echo "failed:${bad:- none}"
		echo "skipped:${left:- none}"
	} >>"$dir/report"
}

kind setjmp -DUSCHED_PORTABLE
kind lanes -DUSCHED_LANES
echo '---- to be pasted ----'
uname -srm
$CC --version 2>/dev/null | head -n 1
sed -n 's/^.define USCHED_VERSION /usched /p' usched.h
cat "$dir/report"
echo '---- end ----'
counted
