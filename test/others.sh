#!/bin/sh
# SPDX-License-Identifier: MIT
# Other people's code has the same results when it runs and blocks in our
# threads: zlib, SQLite, Lua, and qsort() of the C library. Each program in
# test/others/ says what it does and why that is sound.
#
# CC is the compiler, CFLAGS are more options for it, and so are OTHERS_FLAGS
# (such as -DUSCHED_HARD or -DUSCHED_PORTABLE). RUN goes before each program (an
# emulator). A library that is not installed is skipped, with its Debian
# package.

set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
. "$top/test/layout"
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
passed=0 failed=0 skipped=0
flags="-std=gnu11 -O2 -g -Wall -Wextra -Werror ${CFLAGS:-} ${OTHERS_FLAGS:-}"

main() {
	library || { echo '0 passed, 1 failed, 0 skipped'; exit 1; }
	check qsort - stdlib.h ''
	check zlib zlib1g-dev zlib.h -lz
	check sqlite libsqlite3-dev sqlite3.h -lsqlite3 '-lsqlite3 -lm -ldl'
	check lua liblua5.4-dev lua.h "$(lua_config)" \
	    '-I/usr/include/lua5.3 -llua5.3' '-I/usr/include/lua5.2 -llua5.2' \
	    '-I/usr/include/lua5.1 -llua5.1' '-llua -lm -ldl' \
	    '-I/usr/local/include -L/usr/local/lib -llua -lm -ldl'
	echo "$passed passed, $failed failed, $skipped skipped"
	[ $failed -eq 0 ]
}

# The library's own sources, as they are in the tree.
library() {
	sources='usched uwait umem uproc rr ll'
	case " ${OTHERS_FLAGS:-} " in
	*' -DUSCHED_HARD'*) sources="$sources uhard" ;;
	esac
	objects=''
	for source in $sources; do
		# Unquoted: these may be several words each.
		${CC:-cc} $flags $includes -c -o "$tmp/$source.o" \
		    "$(where $source.c)" || return 1
		objects="$objects $tmp/$source.o"
	done
}

# check NAME PACKAGE HEADER OPTIONS...: with the first options that work.
check() {
	name=$1 package=$2 header=$3
	shift 3
	echo "#include <$header>" >"$tmp/probe.c"
	echo 'int main(void) { return 0; }' >>"$tmp/probe.c"
	for options; do
		${CC:-cc} ${CFLAGS:-} "$tmp/probe.c" -o "$tmp/probe" $options \
		    2>/dev/null || continue
		build_and_run
		return
	done
	echo "skip  $name: $package"
	skipped=$((skipped + 1))
}

build_and_run() {
	: >"$tmp/out"
	${CC:-cc} $flags $includes -I"$top/test" "$top/test/others/$name.c" $objects \
	    -o "$tmp/$name" $options -pthread &&
	    TMPDIR=$tmp ${RUN:-} "$tmp/$name" >"$tmp/out" 2>&1
	case $? in
	0)
		echo "ok $name"
		passed=$((passed + 1)) ;;
	77)
		echo "skip  $name: $(tail -n 1 "$tmp/out")"
		skipped=$((skipped + 1)) ;;
	*)
		cat "$tmp/out"
		echo "FAILED $name"
		failed=$((failed + 1)) ;;
	esac
}

lua_config() {
	for lua in lua5.4 lua-5.4 lua54 lua5.3 lua-5.3 lua53 lua5.1 lua-5.1; do
		pkg-config --cflags --libs $lua 2>/dev/null && return
	done
	echo '-I/usr/include/lua5.4 -llua5.4'
}

main
