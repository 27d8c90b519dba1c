#!/bin/sh
# SPDX-License-Identifier: MIT
# Every example, and doc/tiny.c, builds without a warning and prints what it
# should: optimised or not, with the machine's own switch and with the portable
# switch.
#
# CC is the compiler, CFLAGS are more options for it, RUN goes before each
# program (an emulator). CXX compiles the examples in C++, if it is there.

set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
. "$top/test/layout"
. "$top/test/blocks"
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
passed=0 failed=0

main() {
	command -v "${CXX:=c++}" >/dev/null && more="$top/examples/*.cc"
	for source in "$top"/examples/*.c "$top/doc/tiny.c" ${more:-}; do
		name=$(basename "${source%.*}")
		if all_builds; then
			echo "ok $name"
			passed=$((passed + 1))
		else
			echo "FAILED $name"
			failed=$((failed + 1))
		fi
	done
	if blocks_stand "$top/README.md" 1 "$top/examples/hello.c" >&2; then
		passed=$((passed + 1))
	else
		echo 'FAILED README.md: does not show hello.c'
		failed=$((failed + 1))
	fi
	echo "$passed passed, $failed failed"
	[ $failed -eq 0 ] && [ $passed -ne 0 ]
}

all_builds() {
	for flags in '-O2' '-O0' '-O2 -DUSCHED_PORTABLE' \
	    '-O0 -DUSCHED_PORTABLE'; do
		build_and_run || { echo "$name: fails with $flags"; return 1; }
	done
}

# compile STANDARD WHAT...: unquoted are those that may be several words.
compile() {
	cc=${CC:-cc}
	[ "$1" = c++17 ] && cc=$CXX
	std=$1; shift
	$cc -std=$std -Wall -Wextra -Werror $flags ${CFLAGS:-} $includes "$@" \
	    -pthread
}

build_and_run() {
	# A header other than usched.h names a source to link with.
	modules=$(for m in rr ll ws ucall uchan uwork uscope usync; do
		grep -q "^#include \"$m.h\"" "$source" && where $m.c
	done)
	case $modules in *uscope.c*) modules="$modules $(where uthread.c)" ;; esac
	modules="$modules ${modules:+$(where umem.c uproc.c)}
		$(grep -Eq '^#include "(uwait|usync|uscope|uchan|uwork|rr|ll|ws|ucall).h"' "$source" &&
			where uwait.c)
		$(grep -q '^#include "ugen.h' "$source" && where ugen.c)
		$(grep -q '^#include "usched.hpp"' "$source" &&
			where uchan.c uscope.c usync.c uthread.c)
		$(grep -q '^#include "' "$source" && where usched.c)"
	case $source in
	*.cc)	rm -rf "$tmp/o" && mkdir "$tmp/o" || return 1
		for m in $modules; do
			compile c11 -c "$m" -o "$tmp/o/$(basename "$m").o" ||
				return 1
		done
		compile c++17 "$source" "$tmp"/o/*.o -o "$tmp/$name" ;;
	*)	compile c11 "$source" $modules -o "$tmp/$name" ;;
	esac || return 1
	timeout 20 ${RUN:-} "$tmp/$name" >"$tmp/got" </dev/null
	rc=$?
	[ $rc -eq 0 ] || { echo "$name: exit status $rc"; return 1; }
	diff "${source%.*}.expected" "$tmp/got"
}

main
