#!/bin/sh
# SPDX-License-Identifier: MIT
# Every example, and doc/tiny.c, builds without a warning and prints what it
# should: optimised or not, with the machine's own switch and with the portable
# switch.
#
# CC is the compiler, CFLAGS are more options for it, RUN goes before each
# program (an emulator).

set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
. "$top/test/layout"
. "$top/test/blocks"
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
passed=0 failed=0

main() {
	for source in "$top"/examples/*.c "$top/doc/tiny.c"; do
		name=$(basename "$source" .c)
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

build_and_run() {
	# A header other than usched.h names a source to link with.
	modules=$(for m in rr ll ws ucall uchan uwork; do
		grep -q "^#include \"$m.h\"" "$source" && where $m.c
	done)
	core=$(grep -q '^#include "' "$source" && where usched.c)
	waits=$(grep -Eq '^#include "(uwait|rr|ll|ws|ucall).h"' "$source" &&
		where uwait.c)
	# Unquoted: these may be several words each.
	${CC:-cc} -std=c11 -Wall -Wextra -Werror $flags ${CFLAGS:-} \
	    $includes "$source" $modules ${modules:+$(where umem.c uproc.c) -pthread} \
	    $waits $core -o "$tmp/$name" || return 1
	timeout 20 ${RUN:-} "$tmp/$name" >"$tmp/got" </dev/null
	rc=$?
	[ $rc -eq 0 ] || { echo "$name: exit status $rc"; return 1; }
	diff "${source%.c}.expected" "$tmp/got"
}

main
